//! Answers: the exact bytes and the exit code by which a hook process speaks to its client.
//!
//! An answer is put together in memory and written once: on every client a log line before the JSON, or a
//! JSON that is cut short, turns a refusal into consent. Only adapters and [`universal_deny`] make answers,
//! so that whatever leaves the process has a shape that its client was seen to understand.

use serde::Serialize;
use serde_json::json;

use crate::reason::Reason;

/// The exit code that most clients take for a refusal, when there is text on stderr.
const REFUSED: u8 = 2;

/// What a hook process prints and how it ends.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    stdout: String,
    stderr: String,
    exit_code: u8,
}

impl Answer {
    /// Says nothing: exit 0, no output. On nearly every client that is "no objection", and it leaves the
    /// client's own permission rules in force.
    pub(crate) fn silence() -> Self {
        Self { stdout: String::new(), stderr: String::new(), exit_code: 0 }
    }

    /// One JSON document with exit 0.
    pub(crate) fn json(body: &impl Serialize) -> Self {
        Self { stdout: encoded(body), ..Self::silence() }
    }

    /// A refusal said twice: in JSON, and by exit 2 with the reason on stderr.
    pub(crate) fn refusal(body: &impl Serialize, reason: &Reason) -> Self {
        Self { stdout: encoded(body), ..Self::exit_refusal(reason) }
    }

    /// A refusal by exit 2 with the reason on stderr.
    pub(crate) fn exit_refusal(reason: &Reason) -> Self {
        Self { stdout: String::new(), stderr: reason.as_str().to_owned(), exit_code: REFUSED }
    }

    /// An answer that another process of ours has made, from its parts; `None` for what no adapter makes, which is
    /// whatever a client might not understand: text that is no object, a refusal without a reason, another end.
    ///
    /// ```
    /// use backstop_clients::Answer;
    ///
    /// assert!(Answer::from_parts(String::new(), "why".to_owned(), 2).is_some());
    /// assert!(Answer::from_parts(String::new(), String::new(), 2).is_none());
    /// assert!(Answer::from_parts("hello".to_owned(), String::new(), 0).is_none());
    /// ```
    pub fn from_parts(stdout: String, stderr: String, exit_code: u8) -> Option<Self> {
        let is_object =
            || serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&stdout).is_ok();
        let has_shape = stdout.is_empty() || is_object();
        let has_end = exit_code == 0 || (exit_code == REFUSED && !stderr.trim().is_empty());
        (has_shape && has_end).then_some(Self { stdout, stderr, exit_code })
    }

    /// What goes to stdout, in one write and with nothing before or after it.
    pub fn stdout(&self) -> &[u8] {
        self.stdout.as_bytes()
    }

    /// What goes to stderr.
    pub fn stderr(&self) -> &str {
        &self.stderr
    }

    /// How the process ends.
    pub fn exit_code(&self) -> u8 {
        self.exit_code
    }

    /// Whether the answer says nothing at all.
    pub fn is_silent(&self) -> bool {
        self.stdout.is_empty() && self.stderr.is_empty() && self.exit_code == 0
    }
}

/// The JSON form. Bodies are plain records and maps with text keys, which always have one.
fn encoded(body: &impl Serialize) -> String {
    serde_json::to_string(body).unwrap_or_default()
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer")
            .field("stdout", &format_args!("<{} bytes>", self.stdout.len()))
            .field("stderr", &format_args!("<{} bytes>", self.stderr.len()))
            .field("exit_code", &self.exit_code)
            .finish()
    }
}

/// A refusal that every client with a command hook obeys, for when the client is not known or something
/// broke inside: bad input, a panic, a configuration that can't be read.
///
/// Six clients were seen to refuse the call (Claude Code 2.1.330, Codex 0.169.0, Gemini CLI 0.61.0, Qwen
/// Code 0.24.4, Copilot CLI 1.0.102, Cline 3.0.65); by their documents so do Cursor, Windsurf, Kiro and
/// goose. The generated OpenCode plugin takes any exit code but 0 as a refusal. The same object with exit
/// 0 would run the tool on Codex.
///
/// ```
/// let answer = backstop_clients::universal_deny(&"the configuration can't be read".into());
/// assert_eq!(answer.exit_code(), 2);
/// assert_eq!(answer.stderr(), "the configuration can't be read");
/// ```
pub fn universal_deny(reason: &Reason) -> Answer {
    Answer::refusal(
        &json!({
            "decision": "block",
            "reason": reason,
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
            "cancel": true,
            "errorMessage": reason,
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": reason,
            },
        }),
        reason,
    )
}
