//! Which conversations a plugin is being asked about, and may so touch.
//!
//! The law: *a plugin touches no conversation of others*. What it keeps with a conversation, or says for its next turn, it asks for
//! while it is asked about that conversation: while one of its hooks has an event of it, or something else of it is called for it. What it
//! asks for is looked at when it asks, and not when it is done, so that what nobody waits for is done as well. There is no word of a
//! plugin's that makes a conversation its own: an [`EventSession`] comes from here alone.
//!
//! Limits: two events of two conversations that a plugin is asked about at once are not told apart; it has been shown both.
//! At most [`MOST_ASKED`] things that were asked for wait to be done; the oldest is forgotten for one more.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use backstop_hooks::SessionKey;
use serde_json::Value;

use super::desk::Extensions;

/// How many things may have been asked for that are not done yet.
const MOST_ASKED: usize = 1_024;

/// A conversation that a plugin was asked about when it asked for something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSession(SessionKey);

impl EventSession {
    /// The conversation.
    pub fn key(&self) -> &SessionKey {
        &self.0
    }
}

/// The conversations that one plugin is being asked about.
#[derive(Clone, Debug, Default)]
pub struct Answering(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<SessionKey, usize>,
    asked: BTreeMap<u64, EventSession>,
    next: u64,
    /// What questions that are open can read at once, by their numbers.
    handed: HashMap<u64, HandedOver>,
}

/// The values of session extensions as they were when the question was asked, or why they could not be read.
#[derive(Debug)]
struct HandedOver {
    session: Option<SessionKey>,
    values: Result<Extensions, String>,
}

/// While this is held, the plugin can read the values that were handed over with a question.
#[derive(Debug)]
#[must_use = "the values can be read as long as this is held"]
pub(super) struct Handed {
    answering: Answering,
    question: u64,
}

/// While this is held, the plugin is being asked about the conversation.
#[derive(Debug)]
#[must_use = "the plugin is asked about the conversation as long as this is held"]
pub struct Open {
    answering: Answering,
    key: Option<SessionKey>,
}

impl Answering {
    /// The plugin is asked about this conversation from now on, if it is one.
    pub fn open(&self, key: Option<&SessionKey>) -> Open {
        if let Some(key) = key {
            let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *inner.open.entry(key.clone()).or_default() += 1;
        }
        Open { answering: self.clone(), key: key.cloned() }
    }

    /// The conversation of this name, if the plugin is being asked about it.
    pub fn session(&self, key: &str) -> Option<EventSession> {
        let key = SessionKey::from(key);
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.open.contains_key(&key).then_some(EventSession(key))
    }

    /// Notes that the plugin asked for something now. The number is for [`Self::redeem`].
    pub(super) fn ask(&self, key: &str) -> Option<u64> {
        let session = self.session(key)?;
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.asked.len() >= MOST_ASKED {
            inner.asked.pop_first();
        }
        inner.next += 1;
        let number = inner.next;
        inner.asked.insert(number, session);
        Some(number)
    }

    /// What was asked for under this number, once.
    pub(super) fn redeem(&self, number: u64) -> Option<EventSession> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).asked.remove(&number)
    }
}

impl Answering {
    /// Hands over what the plugin keeps with a conversation, for the question of this number.
    pub(super) fn hand_over(
        &self,
        question: u64,
        session: Option<&SessionKey>,
        values: Result<Extensions, String>,
    ) -> Handed {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.handed.insert(question, HandedOver { session: session.cloned(), values });
        Handed { answering: self.clone(), question }
    }

    /// The value of a session extension, as the question of this number was handed it.
    ///
    /// # Errors
    ///
    /// Why it could not be read, or that the question has been answered.
    pub(super) fn extension(&self, question: u64, namespace: &str) -> Result<Option<Value>, String> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let handed = inner.handed.get(&question).ok_or(
            "`getSessionExtension` was called after the policy had answered\nhint: read it before `evaluate` returns",
        )?;
        Ok(handed.values.as_ref().map_err(Clone::clone)?.get(namespace).cloned())
    }

    /// Whether a question is open that was handed what the plugin keeps with this conversation.
    pub(super) fn has_handed(&self, session: &SessionKey) -> bool {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.handed.values().any(|handed| handed.session.as_ref() == Some(session))
    }

    /// Has open questions about a conversation see its values as they are now.
    pub(super) fn refresh(&self, session: &SessionKey, values: &Result<Extensions, String>) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for handed in inner.handed.values_mut().filter(|handed| handed.session.as_ref() == Some(session)) {
            handed.values.clone_from(values);
        }
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        let mut inner = self.answering.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.handed.remove(&self.question);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let Some(key) = &self.key else { return };
        let mut inner = self.answering.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(times) = inner.open.get_mut(key) {
            *times -= 1;
            if *times == 0 {
                inner.open.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_open_as_long_as_somebody_asks_about_it_and_what_was_asked_for_is_had_once() {
        let answering = Answering::default();
        let (chat, other) = (SessionKey::from("chat"), SessionKey::from("other"));
        let one = answering.open(Some(&chat));
        let two = answering.open(Some(&chat));
        drop(answering.open(Some(&other)));
        drop(one);
        assert!(answering.session("chat").is_some() && answering.session("other").is_none());
        let number = answering.ask("chat").unwrap();
        drop(two);
        assert!(answering.ask("chat").is_none() && answering.session("chat").is_none());
        assert_eq!(answering.redeem(number).unwrap().key(), &chat);
        assert!(answering.redeem(number).is_none());
        drop(answering.open(None));
        let _open = answering.open(Some(&chat));
        for _ in 0..2 * MOST_ASKED {
            answering.ask("chat").unwrap();
        }
        assert_eq!(answering.0.lock().unwrap().asked.len(), MOST_ASKED);
    }
}
