//! `/approve <id> <decision>`: answers that are typed in a chat.
//!
//! They are read only from messages of surfaces that prove who wrote them. Whatever passes between a program and a model is never read for them:
//! there the chat is the agent's input.

use backstop_hooks::Decision;

/// The most characters of a command.
const MOST_CHARS: usize = 256;

/// What a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    /// Nothing for us.
    Other,
    /// An answer.
    Answer {
        /// The question, by its id or a beginning of it.
        approval: String,
        /// The answer.
        decision: Decision,
        /// With a denial, what the model is told besides; empty where nothing is.
        word: String,
    },
    /// A command that is not understood.
    Unclear(&'static str),
}

/// What is said of a command that is not understood.
const HOW: &str = "Write /approve <id> allow-once, or /approve <id> deny and, if you like, why.";
/// What is said of an answer that holds from now on.
const NOT_HERE: &str = "What is allowed from now on is granted on the console, or with `backstop approvals`.";

/// Reads a message. The id comes first, and the decision second; the other way round is understood, too. In a group a command may name
/// the bot (`/approve@bot`). One that is too long, or has more words than that, is not understood: nothing of it is left out. What stands behind a denial is for the model.
pub fn read(message: &str) -> Typed {
    let mut words = message.split_whitespace();
    let is_ours = words
        .next()
        .and_then(|word| word.split('@').next())
        .is_some_and(|word| word.eq_ignore_ascii_case("/approve"));
    if !is_ours {
        return Typed::Other;
    }
    if message.chars().nth(MOST_CHARS).is_some() {
        return Typed::Unclear(HOW);
    }
    let (Some(first), Some(second)) = (words.next(), words.next()) else { return Typed::Unclear(HOW) };
    let word = words.collect::<Vec<_>>().join(" ");
    let (approval, decision) = match (decision(first), decision(second)) {
        (None, Some(decision)) => (first, decision),
        (Some(decision), None) => (second, decision),
        // Neither, or both.
        _ => return Typed::Unclear(HOW),
    };
    match decision {
        Decision::AllowAlways => Typed::Unclear(NOT_HERE),
        Decision::AllowOnce if !word.is_empty() => Typed::Unclear(HOW),
        Decision::AllowOnce | Decision::Deny => {
            Typed::Answer { approval: approval.to_owned(), decision, word }
        }
    }
}

/// Returns the decision that a word stands for.
fn decision(word: &str) -> Option<Decision> {
    match word.to_ascii_lowercase().as_str() {
        "allow-once" | "allowonce" | "allow" | "once" => Some(Decision::AllowOnce),
        "allow-always" | "allowalways" | "always" => Some(Decision::AllowAlways),
        "deny" | "reject" | "block" => Some(Decision::Deny),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_and_the_decision_are_read_in_either_order_and_nothing_else_is() {
        let said = |approval: &str, decision, word: &str| Typed::Answer {
            approval: approval.to_owned(),
            decision,
            word: word.to_owned(),
        };
        let answer = |approval, decision| said(approval, decision, "");
        for (message, typed) in [
            ("/approve 0a1b allow-once", answer("0a1b", Decision::AllowOnce)),
            ("/APPROVE  0a1b\tAllow", answer("0a1b", Decision::AllowOnce)),
            ("/approve@the_bot once 0a1b", answer("0a1b", Decision::AllowOnce)),
            ("/approve 0a1b deny", answer("0a1b", Decision::Deny)),
            ("/approve reject 0a1b", answer("0a1b", Decision::Deny)),
            ("/approve 0a1b allow-always", Typed::Unclear(NOT_HERE)),
            ("/approve 0a1b", Typed::Unclear(HOW)),
            ("/approve", Typed::Unclear(HOW)),
            ("/approve deny deny", Typed::Unclear(HOW)),
            ("/approve 0a1b yes", Typed::Unclear(HOW)),
            (
                "/approve 0a1b deny use the  other folder",
                said("0a1b", Decision::Deny, "use the other folder"),
            ),
            ("/approve deny 0a1b not now", said("0a1b", Decision::Deny, "not now")),
            ("/approve 0a1b allow-once now", Typed::Unclear(HOW)),
            ("approve 0a1b deny", Typed::Other),
            ("please /approve 0a1b deny", Typed::Other),
            ("/approved 0a1b deny", Typed::Other),
            ("", Typed::Other),
        ] {
            assert_eq!(read(message), typed, "{message}");
        }
        assert_eq!(read(&format!("/approve {} deny", "x".repeat(100_000))), Typed::Unclear(HOW));
        let late = format!("/approve 0a1b allow-once{}not", " ".repeat(300));
        assert_eq!(read(&late), Typed::Unclear(HOW), "what comes late counts, too");
    }
}
