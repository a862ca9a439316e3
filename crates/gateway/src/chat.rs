//! What the console needs of whoever runs the own agent for people.
//!
//! The gateway runs no agent. Whoever does says here with whom people talk, and takes what they say. Without that, the console says what to switch on.

use std::fmt;
use std::pin::Pin;

use async_trait::async_trait;
pub use backstop_console::{ChatAgent, ChatLine, ChatOpen, ChatSeen, ChatTool, ToolState};
use backstop_hooks::{Digest, Requester, SessionId, SessionKey};

/// The most bytes of a message.
pub const MOST_MESSAGE: usize = 32 << 10;

/// The role of a person at an identity provider in a digest.
const ROLE: &str = "chat_person";

/// Somebody who talks.
///
/// The law: *one human is one of these, and nobody else is*. Users of access tokens and people at an identity provider are told apart, whatever their names
/// are; and at a provider by the subject, which it gives nobody else ever, and not by the name, which may change hands.
#[derive(Clone, Debug)]
pub struct ChatPerson {
    id: String,
    requester: Requester,
}

impl PartialEq for ChatPerson {
    /// Whoever is known by another name now is the same.
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for ChatPerson {}

impl ChatPerson {
    /// Returns the user whom access tokens name.
    pub fn user(name: &str) -> Self {
        Self { id: format!("user:{name}"), requester: at_console(None, name) }
    }

    /// Returns somebody who signed in at an identity provider: the issuer, who that is there and nobody else, and by which name they are known.
    pub fn signed_in(issuer: &str, subject: &str, name: &str) -> Self {
        // With the length of the first, no two pairs are one text.
        let pair = format!("{}\n{issuer}\n{subject}", issuer.len());
        let id = format!("oidc:{}", Digest::of_text(ROLE, &pair));
        Self { id, requester: at_console(Some(issuer), name) }
    }

    /// Returns who sends their messages, for hooks and questions.
    pub const fn requester(&self) -> &Requester {
        &self.requester
    }

    /// Returns the key of their conversations, which no other host gives.
    pub fn key(&self) -> SessionKey {
        SessionKey::new(format!("console:{}", self.id))
    }
}

fn at_console(issuer: Option<&str>, name: &str) -> Requester {
    Requester {
        channel: Some(Requester::CONSOLE.to_owned()),
        account_id: issuer.map(str::to_owned),
        sender_id: Some(name.to_owned()),
        ..Requester::default()
    }
}

/// Ends when a person may not talk any more.
pub type MayNoMore = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs the own agent for people. A conversation is that of the person who began it, and nobody else's.
#[async_trait]
pub trait Chat: fmt::Debug + Send + Sync {
    /// Returns with whom people talk.
    ///
    /// # Errors
    ///
    /// What is missing, for people.
    fn agent(&self) -> Result<ChatAgent, String>;

    /// Returns the conversations of a person that are open.
    fn open(&self, who: &ChatPerson) -> Vec<ChatOpen>;

    /// Begins a conversation.
    ///
    /// # Errors
    ///
    /// Why not, for people.
    async fn begin(&self, who: &ChatPerson) -> Result<SessionId, String>;

    /// Goes on with a conversation of theirs that is not open any more.
    ///
    /// # Errors
    ///
    /// Why not, for people.
    async fn go_on(&self, who: &ChatPerson, id: &SessionId) -> Result<(), String>;

    /// Says something. The agent then works until it has answered, is stopped, or the person may talk no more.
    ///
    /// # Errors
    ///
    /// Why not, for people.
    fn say(&self, who: &ChatPerson, id: &SessionId, message: String, until: MayNoMore) -> Result<(), String>;

    /// Stops what the agent does in a conversation. Returns whether it did something.
    fn stop(&self, who: &ChatPerson, id: &SessionId) -> bool;

    /// Ends a conversation here. Its session stays.
    async fn leave(&self, who: &ChatPerson, id: &SessionId);

    /// Returns what is shown of a conversation; `None` for one that is not open, or not theirs.
    fn seen(&self, who: &ChatPerson, id: &SessionId) -> Option<ChatSeen>;

    /// Returns a number that changes with what is shown of a conversation; `None` for one that is not open, or not theirs.
    fn mark(&self, who: &ChatPerson, id: &SessionId) -> Option<u64>;
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn who_has_the_name_of_another_is_not_that_one() {
        let all = [
            ChatPerson::user("x"),
            ChatPerson::user("oidc:x"),
            ChatPerson::signed_in("https://a.example", "x", "x"),
            ChatPerson::signed_in("https://b.example", "x", "x"),
            ChatPerson::signed_in("https://a.example", "y", "x"),
        ];
        let keys: HashSet<String> = all.iter().map(|person| person.key().to_string()).collect();
        assert_eq!(keys.len(), all.len(), "{keys:?}");
        // The same human under another name is the same.
        let renamed = ChatPerson::signed_in("https://a.example", "x", "new");
        assert_eq!(renamed.key(), ChatPerson::signed_in("https://a.example", "x", "x").key());
        assert_eq!(renamed, ChatPerson::signed_in("https://a.example", "x", "x"));
        for (at, one) in all.iter().enumerate() {
            assert!(all.iter().skip(at + 1).all(|other| other != one), "{one:?}");
        }
    }

    proptest! {
        #[test]
        fn no_two_people_have_one_key(a in "[a-z:\n]{0,6}", b in "[a-z:\n]{0,6}", c in "[a-z:\n]{0,6}", d in "[a-z:\n]{0,6}") {
            let (one, other) = (ChatPerson::signed_in(&a, &b, "n"), ChatPerson::signed_in(&c, &d, "n"));
            prop_assert_eq!(one.key() == other.key(), (&a, &b) == (&c, &d));
            prop_assert_ne!(ChatPerson::user(&a).key(), one.key());
            prop_assert_eq!(ChatPerson::user(&a).key() == ChatPerson::user(&c).key(), a == c);
        }
    }
}
