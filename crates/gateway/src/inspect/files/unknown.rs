//! A file of which nobody knows where it is from: a tool may have made it that the provider ran, or a client stored it.
//!
//! Its text is judged as what a tool brought in, and as what leaves: it passes `tool.after` and `before_response_emit`. What is
//! no text can be judged by nobody.

use backstop_engine::{BlockCause, Blocked, Engine, ResponseGate};
use backstop_hooks::conversation::{Part, ToolResult};
use backstop_hooks::points::{BeforeResponseEmit, ToolAfter, ToolAfterEvent};
use backstop_hooks::{CallContext, Text};

use crate::inspect::ActiveHooks;
use crate::inspect::judge::{Facts, emission};
use crate::inspect::settings::TextMode;

/// The tool that hooks see.
const TOOL: &str = "provider_file";

/// Who judges a text.
#[derive(Debug)]
pub(super) struct Judges<'a> {
    pub(super) engine: &'a Engine,
    pub(super) active_hooks: ActiveHooks,
    /// How text leaves, if the operator chose.
    pub(super) text: Option<TextMode>,
    pub(super) call: &'a CallContext,
    pub(super) facts: &'a Facts,
}

impl Judges<'_> {
    /// Whether anybody stands where texts are judged.
    pub(super) fn are_any(&self) -> bool {
        self.active_hooks.results || self.active_hooks.emit != ResponseGate::Open
    }

    /// What leaves of the text of a file.
    pub(super) async fn judge(&self, file: &str, text: &str) -> Result<Text, Blocked> {
        let brought = if self.active_hooks.results { self.brought(file, text).await? } else { text.into() };
        if self.active_hooks.emit == ResponseGate::Open || brought.is_empty() {
            return Ok(brought);
        }
        let event = emission(self.facts, brought.clone());
        let decided = self.engine.decide::<BeforeResponseEmit>(event, self.call).await.into_parts();
        match decided.blocked {
            _ if self.text == Some(TextMode::Pass) => Ok(brought),
            Some(blocked) => Err(blocked),
            None => Ok(decided.event.all_content.iter().map(Text::as_str).collect::<String>().into()),
        }
    }

    async fn brought(&self, file: &str, text: &str) -> Result<Text, Blocked> {
        let result = ToolResult {
            tool_call_id: file.into(),
            tool_name: Some(TOOL.to_owned()),
            content: vec![Part::text(Text::from(text))],
            is_error: false,
            details: None,
            meta: None,
        };
        let event = ToolAfterEvent::new(TOOL, file, false, result);
        let decided = self.engine.decide::<ToolAfter>(event, self.call).await.into_parts();
        if let Some(blocked) = decided.blocked {
            return Err(blocked);
        }
        let left = &decided.event.result;
        let texts: Option<Vec<&str>> =
            left.content.iter().map(|part| part.as_text().map(Text::as_str)).collect();
        match texts.filter(|_| !left.is_error) {
            Some(texts) => Ok(texts.concat().into()),
            None => Err(Blocked {
                cause: BlockCause::Withheld,
                reason: Some("a hook made something else of a file than a text".into()),
                hook: None,
                owner: None,
            }),
        }
    }
}
