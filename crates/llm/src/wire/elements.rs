//! A request in two halves: its frame, and the elements of its conversation one after the other.
//!
//! The law: *the halves are the whole*. A frame and its elements say what [`Api::decode_request_at`] reads of the body, wherever the
//! elements come from. What an element says is a fact of its bytes alone, but for ids of calls that have none on the wire
//! ([`CallIds`]): those count the calls in front of it.

use backstop_hooks::conversation::{Message, Part};
use serde_json::Value;

use super::call_ids::CallIds;
use super::json::Object;
use super::{Api, DecodedRequest, RequestTarget};
use super::{anthropic, converse, gemini, openai_chat, openai_responses};
use crate::error::WireError;
use crate::model::{ModelRequest, ToolDefinition};

impl Api {
    /// The field that holds the elements of the conversation.
    pub(crate) const fn list(self) -> &'static str {
        match self {
            Self::AnthropicMessages | Self::OpenAiChat | Self::BedrockConverse => "messages",
            Self::OpenAiResponses => "input",
            Self::Gemini => "contents",
        }
    }

    /// The field that holds the tools, and nothing but tools.
    pub(crate) const fn tools(self) -> Option<&'static str> {
        match self {
            Self::AnthropicMessages | Self::OpenAiChat | Self::OpenAiResponses | Self::Gemini => {
                Some("tools")
            }
            Self::BedrockConverse => None,
        }
    }

    /// The field that holds the system prompt, where it may be long and stand beside the conversation.
    pub(crate) const fn system(self) -> Option<&'static str> {
        match self {
            Self::AnthropicMessages => Some("system"),
            Self::OpenAiChat | Self::OpenAiResponses | Self::Gemini | Self::BedrockConverse => None,
        }
    }

    /// Reads all of a request's body but the elements of its conversation.
    pub(crate) fn decode_frame(
        self,
        target: &RequestTarget,
        body: &Value,
    ) -> Result<DecodedRequest, WireError> {
        match self {
            Self::AnthropicMessages => anthropic::decode_frame(body),
            Self::OpenAiChat => openai_chat::decode_frame(body),
            Self::OpenAiResponses => openai_responses::decode_frame(body),
            Self::Gemini => gemini::decode_frame(target, body),
            Self::BedrockConverse => converse::decode_frame(target, body),
        }
    }

    /// The elements of the conversation.
    pub(super) fn elements_of(self, body: &Value) -> Result<&[Value], WireError> {
        if self == Self::Gemini {
            return gemini::contents(body);
        }
        let body = Object::of("request", body)?;
        match body.get(self.list()) {
            // One text, which the frame holds.
            Some(Value::String(_)) if self == Self::OpenAiResponses => Ok(&[]),
            // A stored prompt has its own messages, so that there may be none; where there must be, the frame says so.
            _ => Ok(body.array(self.list())?.unwrap_or_default()),
        }
    }

    /// Reads the tools that stand in the field [`tools`](Self::tools).
    pub(crate) fn decode_tools(self, tools: &Value) -> Result<Vec<ToolDefinition>, WireError> {
        match self {
            Self::AnthropicMessages => anthropic::decode_tools(tools),
            Self::OpenAiChat => openai_chat::decode_tools(tools),
            Self::OpenAiResponses => openai_responses::decode_tools(tools),
            Self::Gemini => gemini::decode_tools(tools),
            Self::BedrockConverse => Ok(Vec::new()),
        }
    }

    /// Reads the system prompt that stands in the field [`system`](Self::system).
    pub(crate) fn decode_system(self, system: &Value) -> Result<Vec<Part>, WireError> {
        match self {
            Self::AnthropicMessages => anthropic::decode_system(system),
            Self::OpenAiChat | Self::OpenAiResponses | Self::Gemini | Self::BedrockConverse => Ok(Vec::new()),
        }
    }
}

/// The elements of a conversation, as they are read.
#[derive(Debug)]
pub(crate) struct Elements {
    api: Api,
    messages: Vec<Message>,
    ids: CallIds,
}

impl Elements {
    pub(crate) fn new(api: Api) -> Self {
        Self { api, messages: Vec::new(), ids: CallIds::of_request() }
    }

    /// Reads the next element.
    pub(crate) fn push(&mut self, element: &Value) -> Result<(), WireError> {
        let message = self.decode(element)?;
        self.append(message);
        Ok(())
    }

    /// Reads the next element as a message that stands alone.
    pub(crate) fn decode(&mut self, element: &Value) -> Result<Message, WireError> {
        match self.api {
            Api::AnthropicMessages => anthropic::decode_message(element),
            Api::OpenAiChat => openai_chat::decode_message(element, &mut self.ids),
            Api::OpenAiResponses => openai_responses::decode_element(element),
            Api::Gemini => gemini::decode_content(element, &mut self.ids),
            Api::BedrockConverse => converse::decode_message(element),
        }
    }

    /// Puts a message that stands alone behind the others.
    pub(crate) fn append(&mut self, message: Message) {
        match self.api {
            Api::OpenAiResponses => openai_responses::append(&mut self.messages, message),
            Api::AnthropicMessages | Api::OpenAiChat | Api::Gemini | Api::BedrockConverse => {
                self.messages.push(message);
            }
        }
    }

    /// The ids that were made up so far.
    pub(crate) fn ids(&self) -> &CallIds {
        &self.ids
    }

    /// Goes on behind an element whose calls were given these ids.
    pub(crate) fn set_ids(&mut self, ids: CallIds) {
        self.ids = ids;
    }

    /// Puts the messages into the request that the frame is.
    pub(crate) fn finish(mut self, request: &mut ModelRequest) {
        if self.api == Api::OpenAiChat {
            request.system = openai_chat::take_system(&mut self.messages);
        }
        request.messages.append(&mut self.messages);
    }
}
