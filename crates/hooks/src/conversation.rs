//! The conversation model: what models and agents exchange, in one provider-neutral form.
//!
//! Hooks see only this form, whatever the provider. The law: *nothing is lost*. A
//! part that Backstop does not know stays in place as [`Part::Unknown`], exactly as it came. What a
//! provider attached to a known message or part (cache markers, signatures) is kept in
//! `meta`, which rewrites of the text do not touch.
//!
//! In JSON a message is `{"role": "assistant", "content": [{"type": "text", "text": "hi"}]}`.

mod content;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::content::Content;
use crate::id::{MessageId, RunId, ToolCallId};
use crate::tool_name::ToolName;
use crate::value::{Json, Params, Text};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// Instructions inside the conversation. The main system prompt is kept apart from the messages.
    System,
    /// The human, or what stands in for one.
    User,
    /// The model.
    Assistant,
    /// Results of tool calls, going back to the model.
    Tool,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order; shared between all copies of the message.
    pub content: Content,
    /// The message's place in a transcript, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<MessageId>,
    /// The run that wrote it. Rewrites and blocks reach exactly the messages of their own run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// What the provider attached to the message as a whole; not shown to the model by Backstop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// One piece of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Part {
    /// Visible text.
    Text {
        /// The text.
        text: Text,
        /// What the provider attached to this part.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<Json>,
    },
    /// The model's reasoning.
    Thinking {
        /// The reasoning; empty where the provider sends it encrypted only.
        text: Text,
        /// Signature or encrypted form, needed to send the part back. A rewritten text invalidates it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<Json>,
    },
    /// The model asks for a tool to be run.
    ToolCall(ToolCall),
    /// What a tool answered.
    ToolResult(ToolResult),
    /// An image.
    Image {
        /// Media type, such as `image/png`.
        mime_type: String,
        /// Where the image is: inline data or an address.
        source: ImageSource,
        /// What the provider attached to this part.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<Json>,
    },
    /// A part that Backstop does not know, as it came.
    Unknown {
        /// The part in the provider's own form.
        raw: Json,
    },
}

/// Where an image is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ImageSource {
    /// Base64 data.
    Data(Text),
    /// An address.
    Url(Text),
}

/// A model's request to run a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The provider's id of this call. Empty when the provider sent none.
    pub id: ToolCallId,
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// The arguments.
    pub arguments: Params,
    /// What the model sent in place of a JSON object. Such a call is never run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malformed: Option<Text>,
    /// What the provider attached to the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

impl ToolCall {
    /// Returns the name of the tool, with the namespace that the provider attached to the call, if it did (`namespace` of the
    /// calls of OpenAI Responses). `functions` is where the tools are that have none.
    pub fn tool_name(&self) -> ToolName {
        let attached = self.meta.as_ref().and_then(|meta| meta.as_object());
        let namespace =
            attached.into_iter().flat_map(|wires| wires.values()).find_map(|fields| fields.get("namespace"));
        match namespace.and_then(|namespace| namespace.as_str()) {
            Some(namespace) if !matches!(namespace, "" | "functions") => {
                ToolName::in_namespace(namespace, &self.name)
            }
            _ => ToolName::new(&self.name),
        }
    }
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// The call that this answers.
    pub tool_call_id: ToolCallId,
    /// The tool's name, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// What the model reads: text and images.
    pub content: Vec<Part>,
    /// Whether the tool failed (or was not allowed to run).
    #[serde(default)]
    pub is_error: bool,
    /// Facts for programs (exit code, sizes); never sent to a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Json>,
    /// What the provider attached to the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// A tool as it is offered to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolSpec {
    /// The tool's name.
    pub name: String,
    /// What it does, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Text>,
    /// JSON Schema of the arguments.
    pub input_schema: Json,
}

/// Tokens that a model call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    /// Tokens read, without those from a cache.
    pub input: u64,
    /// Tokens written, reasoning included.
    pub output: u64,
    /// Tokens read from the provider's cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Tokens written to the provider's cache.
    #[serde(default)]
    pub cache_write: u64,
}

impl TokenUsage {
    /// Returns all tokens of the call.
    pub fn total(&self) -> u64 {
        self.input
            .saturating_add(self.output)
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }
}

impl Message {
    /// Creates a message of one text part.
    pub fn text(role: Role, text: impl Into<Text>) -> Self {
        Self::new(role, vec![Part::text(text)])
    }

    /// Creates a user's message of one text part.
    pub fn user(text: impl Into<Text>) -> Self {
        Self::text(Role::User, text)
    }

    /// Creates an assistant's message of one text part.
    pub fn assistant(text: impl Into<Text>) -> Self {
        Self::text(Role::Assistant, text)
    }

    /// Creates a message of the given parts.
    pub fn new(role: Role, content: Vec<Part>) -> Self {
        Self { role, content: content.into(), id: None, run_id: None, meta: None }
    }

    /// Returns the visible text: all text parts, one after the other.
    pub fn visible_text(&self) -> String {
        self.content.iter().filter_map(Part::as_text).map(Text::as_str).collect()
    }

    /// Returns whether some text part has text.
    pub fn has_text(&self) -> bool {
        self.content.iter().any(|part| part.as_text().is_some_and(|text| !text.is_empty()))
    }

    /// Returns the tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Returns the tool results, in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.content.iter().filter_map(|part| match part {
            Part::ToolResult(result) => Some(result),
            _ => None,
        })
    }

    /// Replaces the visible text: the first text part becomes `text`, and the other text parts are removed. Thinking,
    /// tool calls, images and unknown parts stay where they are. With an empty `text` no text part is left,
    /// because providers refuse an empty one. Returns whether anything changed.
    pub fn set_visible_text(&mut self, text: &Text) -> bool {
        if self.content.visible_text() == *text {
            return false;
        }
        let mut pending = (!text.is_empty()).then_some(text);
        let had_text = self.content.iter().any(|part| part.as_text().is_some());
        self.content.retain_mut(|part| match part {
            Part::Text { text: old, .. } => match pending.take() {
                Some(new) => {
                    *old = new.clone();
                    true
                }
                None => false,
            },
            _ => true,
        });
        if let (Some(new), false) = (pending, had_text) {
            self.content.insert(0, Part::text(new.clone()));
        }
        true
    }
}

impl Part {
    /// Creates a text part.
    pub fn text(text: impl Into<Text>) -> Self {
        Self::Text { text: text.into(), meta: None }
    }

    /// Returns the text of a text part.
    pub fn as_text(&self) -> Option<&Text> {
        match self {
            Self::Text { text, .. } => Some(text),
            _ => None,
        }
    }
}

impl ToolResult {
    /// Creates a result of one text part.
    pub fn text(call: &ToolCall, text: impl Into<Text>, is_error: bool) -> Self {
        Self {
            tool_call_id: call.id.clone(),
            tool_name: Some(call.name.clone()),
            content: vec![Part::text(text)],
            is_error,
            details: None,
            meta: None,
        }
    }

    /// Returns the text of all text parts.
    pub fn visible_text(&self) -> String {
        self.content.iter().filter_map(Part::as_text).map(Text::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_form_is_stable() {
        let message = Message::new(
            Role::Assistant,
            vec![
                Part::text("hi"),
                Part::ToolCall(ToolCall {
                    id: "c1".into(),
                    name: "exec".into(),
                    arguments: Params::from_value(json!({"command": "ls"})).unwrap(),
                    malformed: None,
                    meta: None,
                }),
                Part::Unknown { raw: json!({"type": "citation"}).into() },
            ],
        );
        let wire = json!({"role": "assistant", "content": [
            {"type": "text", "text": "hi"},
            {"type": "toolCall", "id": "c1", "name": "exec", "arguments": {"command": "ls"}},
            {"type": "unknown", "raw": {"type": "citation"}},
        ]});
        assert_eq!(serde_json::to_value(&message).unwrap(), wire);
        assert_eq!(serde_json::from_value::<Message>(wire).unwrap(), message);
    }

    #[test]
    fn every_text_part_is_rewritten() {
        let mut message = Message::new(
            Role::Assistant,
            vec![Part::text("secret "), Part::Unknown { raw: Json::default() }, Part::text("more secret")],
        );
        assert!(message.set_visible_text(&"clean".into()));
        assert_eq!(message.visible_text(), "clean");
        assert_eq!(message.content.len(), 2);
    }

    #[test]
    fn rewrite_to_same_text_is_no_change() {
        let mut message = Message::new(Role::Assistant, vec![Part::text("a"), Part::text("b")]);
        let before = message.clone();
        assert!(!message.set_visible_text(&"ab".into()));
        assert_eq!(message, before);
    }

    #[test]
    fn empty_rewrite_leaves_no_empty_part() {
        let mut message = Message::assistant("gone");
        assert!(message.set_visible_text(&"".into()));
        assert!(message.content.is_empty());
    }

    #[test]
    fn debug_never_prints_bodies() {
        let message = Message::assistant("top secret");
        assert!(!format!("{message:?}").contains("secret"));
    }
}
