//! `backstop hook`, `install`, `uninstall`, `status` and `doctor`.

use crate::commands::hook;

/// Judges one event of a coding agent: what its hooks start.
///
/// Reads the event from stdin and answers in the client's words. Whatever can't be judged is refused: the answer then
/// is a refusal on stdout, the reason on stderr, and exit code 2.
#[derive(Debug, clap::Args)]
pub(super) struct HookArgs {
    /// The client: claude, codex, gemini, qwen, copilot, cline, opencode, cursor, windsurf, kiro or goose
    client: String,
    /// The event, for clients whose input does not name it
    event: Option<String>,
}

impl HookArgs {
    pub(super) fn lower(self) -> hook::Settings {
        hook::Settings { client: self.client, event: self.event }
    }
}
