//! One folder a client, each with the same files: `events` (what it reports, in our words), `answer` (our
//! decisions in its words), `capabilities` (what it can honour, and what is known about its failures),
//! `config` (what an installation writes), and `fixtures` (payloads that the real client sent; Droid's, Devin
//! CLI's and those of VS Code are made from their documents). Beside them stands `vscode`: no client, but a way in which
//! two of them are spoken to.

pub(crate) mod claude;
mod claude_like;
pub(crate) mod cline;
pub(crate) mod codex;
pub(crate) mod copilot;
pub(crate) mod cursor;
pub(crate) mod devin;
pub(crate) mod droid;
mod exit_code;
pub(crate) mod gemini;
pub(crate) mod goose;
pub(crate) mod kimi;
pub(crate) mod kiro;
pub(crate) mod opencode;
pub(crate) mod qwen;
pub(crate) mod vscode;
pub(crate) mod windsurf;

#[cfg(test)]
mod tests;

/// Text that is not blank: clients that replace a result by a reason take no answer from a blank one.
fn filled(text: &str) -> &str {
    if text.trim().is_empty() { "[empty result]" } else { text }
}
