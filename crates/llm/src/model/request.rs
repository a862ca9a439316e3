//! One request to a model.

use backstop_hooks::conversation::{Content, Message, Part, ToolSpec};
use backstop_hooks::{Json, Text, TraceParent};
use serde_json::{Map, Value};

/// A request to a model.
///
/// What a wire says beyond the typed fields stays in `extra`, under the wire's own names, and is sent as it
/// is; a typed field wins over an entry of the same name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRequest {
    /// The model's name, as the provider spells it.
    pub model: String,
    /// The system prompt, in the blocks in which it came; cache markers are in their `meta`.
    pub system: Content,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// The tools that the model may ask for.
    pub tools: Vec<ToolDefinition>,
    /// Whether and which tools the model must ask for; `None` leaves it to the provider.
    pub tool_choice: Option<ToolChoice>,
    /// The largest answer in tokens. Reasoning that `thinking` asks for comes on top.
    pub max_tokens: Option<u64>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// How much the model should reason before it answers; `None` leaves it to the provider.
    pub thinking: Option<ThinkLevel>,
    /// Everything else, by the wire's own names: a JSON object, or null.
    pub extra: Json,
    /// The span of the call, where it is traced. It's no part of what is said: a provider over HTTP is told of it in a header.
    pub span: Option<TraceParent>,
}

/// How much a model should reason before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThinkLevel {
    /// Not at all, where the model leaves the choice.
    Off,
    /// A little.
    Low,
    /// More.
    Medium,
    /// As much as is sensible.
    High,
}

/// Which tools the model must ask for.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// None, even if tools are offered.
    None,
    /// At least one, whichever.
    Required,
    /// This one.
    Tool(String),
    /// A choice that Backstop does not know, in the provider's own form.
    Other(Json),
}

/// A tool as a request offers it.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolDefinition {
    /// A tool that the caller runs.
    Function {
        /// Name, description and schema.
        spec: ToolSpec,
        /// What the request attached to it (cache markers, strictness).
        meta: Option<Json>,
    },
    /// A tool that the provider knows or runs (web search, code execution), as it came.
    Provider {
        /// The definition in the provider's own form.
        raw: Json,
    },
}

impl ToolDefinition {
    /// The tool's name; empty if a provider's tool has none. One that is written as an object with a single
    /// object in it (`{"googleSearch": {}}`) is named by its key.
    pub fn name(&self) -> &str {
        match self {
            Self::Function { spec, .. } => &spec.name,
            Self::Provider { raw } => match named(raw).and_then(Value::as_str) {
                Some(name) => name,
                None => single_key(raw).unwrap_or_default(),
            },
        }
    }
}

/// The name of a tool of a provider's; Bedrock has it one deeper.
fn named(raw: &Json) -> Option<&Value> {
    raw.get("name").or_else(|| raw.get("systemTool")?.get("name"))
}

fn single_key(raw: &Json) -> Option<&str> {
    let mut fields = raw.as_object()?.iter();
    let (key, value) = fields.next()?;
    (value.is_object() && fields.next().is_none()).then_some(key)
}

impl From<ToolSpec> for ToolDefinition {
    fn from(spec: ToolSpec) -> Self {
        Self::Function { spec, meta: None }
    }
}

impl ModelRequest {
    /// A request of `messages` to `model`, with nothing else said.
    pub fn new(model: impl Into<String>, messages: Vec<Message>) -> Self {
        Self { model: model.into(), messages, ..Self::default() }
    }

    /// The text of the system prompt, blocks separated by a blank line. `None` if there is none.
    pub fn system_text(&self) -> Option<Text> {
        self.system.iter().any(|part| part.as_text().is_some()).then(|| self.system.paragraphs())
    }

    /// Replaces the texts of the system prompt by one block of `text`, behind which the rest stays, or by nothing. The same text as before
    /// leaves the blocks alone, so that cache markers survive.
    pub fn set_system_text(&mut self, text: Option<Text>) {
        if self.system_text() != text {
            self.system.retain(|part| text.is_some() && part.as_text().is_none());
            self.system.splice(0..0, text.map(Part::text));
        }
    }

    /// The entries of `extra`.
    pub(crate) fn extra_fields(&self) -> Map<String, Value> {
        self.extra.as_object().cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn equal_system_text_keeps_the_blocks() {
        let marked = Part::Text {
            text: "a".into(),
            meta: Some(json!({"anthropic-messages": {"cache_control": {}}}).into()),
        };
        let mut request =
            ModelRequest { system: vec![marked.clone(), Part::text("b")].into(), ..Default::default() };
        request.set_system_text(Some("a\n\nb".into()));
        assert_eq!(request.system, vec![marked, Part::text("b")]);
        request.set_system_text(Some("c".into()));
        assert_eq!(request.system, vec![Part::text("c")]);
        request.set_system_text(None);
        assert_eq!(request.system_text(), None);
    }

    #[test]
    fn debug_never_prints_bodies() {
        let request = ModelRequest {
            extra: json!({"metadata": "top secret"}).into(),
            ..ModelRequest::new("m", vec![Message::user("top secret")])
        };
        assert!(!format!("{request:?}").contains("top secret"));
    }
}
