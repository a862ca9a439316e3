//! Samples: one harmless call per client, for trying out whether an installed hook answers.
//!
//! Where the client was run it is a recorded payload, elsewhere one by the vendor's documents. It is judged,
//! never run.

use crate::client::Client;

/// A call as a client reports it before the tool runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The event, as the client spells it.
    pub event: &'static str,
    /// What the client writes to the hook's stdin.
    pub payload: &'static str,
}

impl Client {
    /// A harmless shell command, about to run.
    pub fn sample(self) -> Sample {
        let (event, payload) = match self {
            Self::Claude => ("PreToolUse", include_str!("adapters/claude/fixtures/PreToolUse.Bash.json")),
            Self::Codex => ("PreToolUse", include_str!("adapters/codex/fixtures/PreToolUse.Bash.json")),
            Self::Gemini => {
                ("BeforeTool", include_str!("adapters/gemini/fixtures/BeforeTool.run_shell_command.json"))
            }
            Self::Qwen => {
                ("PreToolUse", include_str!("adapters/qwen/fixtures/PreToolUse.run_shell_command.json"))
            }
            Self::Copilot => ("preToolUse", include_str!("adapters/copilot/fixtures/preToolUse.bash.json")),
            Self::Cline => {
                ("PreToolUse", include_str!("adapters/cline/fixtures/PreToolUse.run_commands.json"))
            }
            Self::OpenCode => (
                "tool.execute.before",
                include_str!("adapters/opencode/fixtures/tool.execute.before.bash.json"),
            ),
            Self::Cursor => (
                "preToolUse",
                r#"{"hook_event_name":"preToolUse","conversation_id":"sample","tool_name":"Shell","tool_input":{"command":"true"}}"#,
            ),
            Self::Windsurf => (
                "pre_run_command",
                r#"{"agent_action_name":"pre_run_command","trajectory_id":"sample","tool_info":{"command_line":"true","cwd":""}}"#,
            ),
            Self::Kiro => (
                "PreToolUse",
                r#"{"hook_event_name":"PreToolUse","session_id":"sample","tool_name":"execute_bash","tool_input":{"command":"true"}}"#,
            ),
            Self::Goose => (
                "PreToolUse",
                r#"{"event":"PreToolUse","session_id":"sample","tool_name":"developer__shell","tool_input":{"command":"true"}}"#,
            ),
            Self::Droid => (
                "PreToolUse",
                r#"{"hook_event_name":"PreToolUse","session_id":"sample","tool_name":"Execute","tool_input":{"command":"true"}}"#,
            ),
            Self::Kimi => ("PreToolUse", include_str!("adapters/kimi/fixtures/PreToolUse.Bash.json")),
            Self::Devin => (
                "PreToolUse",
                r#"{"hook_event_name":"PreToolUse","session_id":"sample","tool_name":"exec","tool_input":{"command":"true"}}"#,
            ),
        };
        Sample { event, payload }
    }
}

/// The command of the recorded payloads.
const RECORDED: &str = "echo FROM_SHELL > /run/project/ran.txt; echo SHELL_RAN";

impl Sample {
    /// What the client would write for another command, which has neither quotes nor backslashes.
    pub fn with(&self, command: &str) -> String {
        let written = format!("\"{command}\"");
        self.payload.replace(RECORDED, command).replace("\"true\"", &written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Moment;
    use crate::payload::Payload;

    #[test]
    fn every_sample_is_a_shell_command_about_to_run() {
        for client in Client::ALL {
            let sample = client.sample();
            let payload = Payload::parse(sample.payload.as_bytes()).unwrap();
            let event = client.read(&payload, Some(sample.event)).unwrap();
            assert_eq!(event.frame.event(), sample.event, "{client}");
            let Moment::ToolCall(call) = event.moment else { panic!("{client}") };
            assert_eq!(call.name().canonical(), "exec", "{client}");
            let other = sample.with("uname -a");
            assert!(other.contains("uname -a"), "{client}");
            assert!(!other.contains(RECORDED) && !other.contains("\"true\""), "{client}: {other}");
            let payload = Payload::parse(other.as_bytes()).unwrap();
            assert!(client.read(&payload, Some(sample.event)).is_ok(), "{client}");
        }
    }
}
