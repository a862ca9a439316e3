//! Hooks that are not in this process: programs that stay, programs for one event, servers.
//!
//! All of them are [`JsonHook`](backstop_hooks::JsonHook)s: what they are given is the JSON form of the event, what they answer
//! is the outcome of the point or nothing. A failure is told in two kinds, as everywhere: *unreachable*, where nobody answered,
//! and everything else, where somebody did and it is not known what they said.

pub mod command;
pub mod http;
pub mod process;
mod reach;

pub(crate) use self::process::MARKER;
pub use self::reach::{OutOfReach, Reach};

use backstop_hooks::PointId;
use serde_json::{Value, json};

/// The version of the JSON of events and outcomes, and of the protocols that carry them.
pub const PROTOCOL: u32 = 1;

/// Most bytes of an answer.
pub const MOST_ANSWER_BYTES: usize = 1 << 20;

/// What is known of a program's files, and looked at again before each start of it.
pub trait Held: std::fmt::Debug + Send + Sync {
    /// Looks whether they are still what they were.
    ///
    /// # Errors
    ///
    /// In words, what is not.
    fn check(&self) -> Result<(), String>;
}

impl Held for crate::package::Seal {
    fn check(&self) -> Result<(), String> {
        Self::check(self).map_err(|error| error.to_string())
    }
}

/// The folder that the session of an event works in.
fn session_folder(event: &Value) -> Option<&str> {
    event.get("context")?.get("workspaceDir")?.as_str()
}

/// What says that a hook has no opinion. One gate takes no silence for an answer.
fn no_opinion(point: PointId) -> Value {
    match point {
        PointId::BeforeAgentRun => json!({ "outcome": "pass" }),
        _ => Value::Null,
    }
}

/// The outcome that stops what is judged at the point, for hooks that can say that and no more. `None` where nothing can be
/// stopped.
fn stop(point: PointId, reason: &str) -> Option<Value> {
    let reason = if reason.trim().is_empty() { "stopped by a hook that gave no reason" } else { reason };
    let has = |name: &str| point.info().fields.iter().any(|field| field.name == name);
    Some(match point {
        PointId::BeforeAgentRun => json!({ "outcome": "block", "reason": reason, "message": reason }),
        PointId::BeforeAgentFinalize => {
            json!({ "action": "revise", "reason": reason, "retry": { "instruction": reason } })
        }
        PointId::MessageSending => json!({ "cancel": true, "cancelReason": reason }),
        PointId::ReplyPayloadSending => json!({ "cancel": true, "reason": reason }),
        _ if has("block") && has("blockReason") => json!({ "block": true, "blockReason": reason }),
        _ => return None,
    })
}

/// Why a program was not started.
fn not_started(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => format!(
            "{error}\nhint: a file of a plugin that is its program has to be executable (`chmod +x`), or its interpreter is named before it"
        ),
        _ => error.to_string(),
    }
}

/// Text of others, as it may stand in a message: one line, cut.
fn shown(text: &str, most: usize) -> String {
    let clean = text.chars().map(|c| if c.is_control() || c == '`' { ' ' } else { c });
    let mut shown: String = clean.take(most).collect();
    if text.chars().nth(most).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use backstop_hooks::points::{
        AgentFinalizeOutcome, AgentRunOutcome, MessageSendingOutcome, ToolCallOutcome,
    };
    use backstop_hooks::{Mode, Outcome};

    use super::*;

    #[test]
    fn a_stop_is_an_outcome_wherever_something_can_be_stopped() {
        let blocks = |point| stop(point, " ");
        assert!(
            ToolCallOutcome::from_json(blocks(PointId::BeforeToolCall).unwrap()).unwrap().unwrap().blocks()
        );
        assert!(
            AgentRunOutcome::from_json(blocks(PointId::BeforeAgentRun).unwrap()).unwrap().unwrap().blocks()
        );
        assert!(
            MessageSendingOutcome::from_json(blocks(PointId::MessageSending).unwrap())
                .unwrap()
                .unwrap()
                .blocks()
        );
        let revised = blocks(PointId::BeforeAgentFinalize).unwrap();
        assert!(AgentFinalizeOutcome::from_json(revised).unwrap().unwrap().whole().is_ok());
        for point in PointId::ALL.iter().filter(|point| point.info().mode == Mode::Observe) {
            assert_eq!(blocks(*point), None, "{point}");
        }
        assert!(AgentRunOutcome::from_json(no_opinion(PointId::BeforeAgentRun)).is_ok());
    }

    #[test]
    fn text_of_others_is_one_line() {
        assert_eq!(shown("a\nb`c", 10), "a b c");
        assert_eq!(shown("abcdef", 3), "abc...");
    }
}
