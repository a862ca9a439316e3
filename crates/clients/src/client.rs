//! Clients: which coding agents there are, by name.
//!
//! One enum, matched without a wildcard: a new client does not compile before its adapter is complete.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::adapter::{Adapter, AskGate, Facts, Gates, ResultGate};
use crate::adapters::{
    claude, cline, codex, copilot, cursor, devin, droid, gemini, goose, kimi, kiro, opencode, qwen, vscode,
    windsurf,
};
use crate::decision::Shortfall;
use crate::event::{ClientEvent, Frame, Moment, Speech};
use crate::install::Layout;
use crate::payload::{Payload, PayloadError, shown};

/// A coding agent with a hook protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Client {
    /// Claude Code.
    Claude,
    /// OpenAI Codex CLI.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// Qwen Code.
    Qwen,
    /// GitHub Copilot CLI.
    Copilot,
    /// Cline.
    Cline,
    /// OpenCode.
    OpenCode,
    /// Cursor.
    Cursor,
    /// Windsurf (Cascade).
    Windsurf,
    /// Kiro.
    Kiro,
    /// goose.
    Goose,
    /// Factory's Droid.
    Droid,
    /// Devin CLI.
    Devin,
    /// Kimi Code.
    Kimi,
}

impl Client {
    /// All clients.
    pub const ALL: [Self; 14] = [
        Self::Claude,
        Self::Codex,
        Self::Gemini,
        Self::Qwen,
        Self::Copilot,
        Self::Cline,
        Self::OpenCode,
        Self::Cursor,
        Self::Windsurf,
        Self::Kiro,
        Self::Goose,
        Self::Droid,
        Self::Devin,
        Self::Kimi,
    ];

    pub(crate) const fn adapter(self) -> &'static Adapter {
        match self {
            Self::Claude => &claude::ADAPTER,
            Self::Codex => &codex::ADAPTER,
            Self::Gemini => &gemini::ADAPTER,
            Self::Qwen => &qwen::ADAPTER,
            Self::Copilot => &copilot::ADAPTER,
            Self::Cline => &cline::ADAPTER,
            Self::OpenCode => &opencode::ADAPTER,
            Self::Cursor => &cursor::ADAPTER,
            Self::Windsurf => &windsurf::ADAPTER,
            Self::Kiro => &kiro::ADAPTER,
            Self::Goose => &goose::ADAPTER,
            Self::Droid => &droid::ADAPTER,
            Self::Devin => &devin::ADAPTER,
            Self::Kimi => &kimi::ADAPTER,
        }
    }

    /// The name on the command line, and of the agent in records.
    pub fn name(self) -> &'static str {
        self.adapter().name
    }

    /// The product's name.
    pub fn title(self) -> &'static str {
        self.adapter().title
    }

    /// What is known about the client's behaviour.
    pub fn facts(self) -> &'static Facts {
        &self.adapter().facts
    }

    /// What an installation writes, and where.
    pub fn layout(self) -> &'static Layout {
        &self.adapter().layout
    }

    /// Reads a payload. `event` is the event's name from the command line; what the payload says counts
    /// more, and some clients say nothing there.
    ///
    /// # Errors
    ///
    /// [`PayloadError`] for an event that is not known or lacks what it is about. Whoever gets it refuses
    /// with [`universal_deny`](crate::universal_deny).
    pub fn read(self, payload: &Payload, event: Option<&str>) -> Result<ClientEvent, PayloadError> {
        self.check_version(payload)?;
        let event = match vscode::is_speaking(self, payload) {
            true => vscode::read(self, payload)?,
            false => (self.adapter().read)(payload, event)?,
        };
        match event.moment {
            Moment::ToolCall(_) | Moment::Permission(_) if payload.is_mended() => {
                Err(PayloadError::HalfCharacter)
            }
            _ => Ok(event),
        }
    }

    /// A client that says its version says one, or leaves it empty, as Cline's command line does. Which one it is
    /// makes no difference: clients are updated faster than Backstop, and an event of another form is no event.
    fn check_version(self, payload: &Payload) -> Result<(), PayloadError> {
        let field = match self {
            Self::Cursor => "cursor_version",
            Self::Cline => "clineVersion",
            _ => return Ok(()),
        };
        let unknown =
            |version| PayloadError::UnknownVersion { client: self.title(), version: shown(version) };
        match payload.get(field) {
            None => Ok(()),
            Some(Value::String(version)) if version.is_empty() || is_version(version) => Ok(()),
            Some(Value::String(version)) => Err(unknown(version)),
            Some(_) => Err(unknown("<not a text>")),
        }
    }

    pub(crate) fn gates(self, frame: &Frame) -> &'static Gates {
        if frame.speech == Speech::VsCode {
            return &vscode::GATES;
        }
        let adapter = self.adapter();
        match &adapter.other_dialect {
            Some(other) if (other.speaks)(frame) => &other.gates,
            _ => &adapter.gates,
        }
    }

    /// Whether an event came in the dialect that an installation uses.
    pub(crate) fn is_as_installed(self, frame: &Frame) -> bool {
        let other = self.adapter().other_dialect.as_ref();
        frame.speech == Speech::Own && other.is_none_or(|other| !(other.speaks)(frame))
    }

    /// What the client can honour, and what happens where it can't. For the dialect that an installation
    /// uses.
    pub fn degradation(self) -> Vec<Degradation> {
        let gates = &self.adapter().gates;
        let row = |wish, shortfall: Option<Shortfall>| Degradation { wish, shortfall, note: None };
        let result = |gate| match gate {
            ResultGate::Rewrite(_) => None,
            ResultGate::Replace(_) => Some(Shortfall::ResultFlattened),
            ResultGate::EndRun(_) => Some(Shortfall::RunEnded),
            ResultGate::Unreachable => Some(Shortfall::ResultWasRead),
        };
        let ask = match gates.ask {
            AskGate::Never => row(Wish::Ask, Some(Shortfall::AskDenied)),
            AskGate::Native { note, .. } => Degradation { note: Some(note), ..row(Wish::Ask, None) },
        };
        vec![
            row(Wish::Deny, None),
            ask,
            row(Wish::Rewrite, gates.rewrite.is_none().then_some(Shortfall::RewriteDenied)),
            row(Wish::ChangeResult, result(gates.result)),
            row(Wish::ChangeMcpResult, result(gates.mcp_result)),
            row(Wish::ChangeFailure, result(gates.failure)),
            row(Wish::BlockPrompt, gates.block_prompt.is_none().then_some(Shortfall::PromptWasRead)),
            row(Wish::Revise, gates.revise.is_none().then_some(Shortfall::TurnEnded)),
        ]
    }
}

/// Something that policy may want of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wish {
    /// Stop a tool call.
    Deny,
    /// Ask a human about a tool call.
    Ask,
    /// Change the arguments of a tool call.
    Rewrite,
    /// Change or withhold what a tool returned.
    ChangeResult,
    /// The same for a tool of an MCP server.
    ChangeMcpResult,
    /// The same for the message of a tool that failed.
    ChangeFailure,
    /// Keep a user's message from the model.
    BlockPrompt,
    /// Send the agent on at the end of its turn.
    Revise,
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deny => "deny a call",
            Self::Ask => "ask a human",
            Self::Rewrite => "change arguments",
            Self::ChangeResult => "change a result",
            Self::ChangeMcpResult => "change an MCP result",
            Self::ChangeFailure => "change an error",
            Self::BlockPrompt => "stop a message",
            Self::Revise => "send the agent on",
        })
    }
}

/// One line of the degradation table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Degradation {
    /// What is wanted.
    pub wish: Wish,
    /// What happens instead; `None` where the client can do it.
    pub shortfall: Option<Shortfall>,
    /// Under which conditions it can.
    pub note: Option<&'static str>,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no client has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no client `{name}`; hint: {hint}")]
pub struct UnknownClient {
    name: String,
    hint: String,
}

impl FromStr for Client {
    type Err = UnknownClient;

    /// Reads a client's name, in any case, or one of the names that people use for it.
    fn from_str(name: &str) -> Result<Self, UnknownClient> {
        let wanted = name.trim().to_ascii_lowercase();
        let names =
            |client: Self| [client.name()].into_iter().chain(client.adapter().aliases.iter().copied());
        let found = Self::ALL.into_iter().find(|client| names(*client).any(|name| name == wanted));
        found.ok_or_else(|| {
            let near = Self::ALL
                .into_iter()
                .flat_map(|client| names(client).map(move |name| (name, client)))
                .map(|(name, client)| (strsim::damerau_levenshtein(name, &wanted), client))
                .filter(|(distance, _)| *distance <= 2)
                .min_by_key(|(distance, _)| *distance);
            let hint = match near {
                Some((_, client)) => format!("did you mean `{client}`?"),
                None => format!("use one of {}", Self::ALL.map(|client| format!("`{client}`")).join(", ")),
            };
            UnknownClient { name: shown(name), hint }
        })
    }
}

/// Whether a text reads as a version: `1.7.2`, `v2.0.0-rc.1`.
fn is_version(text: &str) -> bool {
    const MOST: usize = 60;
    let number = text.strip_prefix('v').unwrap_or(text);
    let goes_on = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_');
    text.len() <= MOST && number.starts_with(|c: char| c.is_ascii_digit()) && number.chars().all(goes_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_found_by_its_name_and_those_that_people_use() {
        for client in Client::ALL {
            assert_eq!(client.name().parse(), Ok(client));
            for alias in client.adapter().aliases {
                assert_eq!(alias.to_uppercase().parse(), Ok(client));
            }
        }
    }

    #[test]
    fn names_are_one_clients_own() {
        let mut names: Vec<_> = Client::ALL
            .iter()
            .flat_map(|client| [client.name()].into_iter().chain(client.adapter().aliases.iter().copied()))
            .collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn a_wrong_name_is_answered_with_a_hint() {
        let said = |name: &str| name.parse::<Client>().unwrap_err().to_string();
        assert_eq!(said("cloude"), "there is no client `cloude`; hint: did you mean `claude`?");
        assert!(said("emacs").contains("`claude`, `codex`"));
    }
}
