//! What an answer may repeat of its request.
//!
//! Some wires repeat what they were asked: instructions, tools, metadata, the text at which a model was to stop. Hooks judged that when
//! it was asked, so a field that repeats the request passes as far as each of its strings is one of the request's. What stands there
//! besides was written by somebody else.

use std::collections::HashSet;

use serde_json::Value;

use crate::model::{ModelRequest, ToolChoice, ToolDefinition};
use crate::wire::Api;

/// The strings of a request outside of its messages.
#[derive(Debug, Default)]
pub(crate) struct Asked(HashSet<String>);

impl Asked {
    /// What answers of this wire may repeat of `request`.
    pub(crate) fn of(api: Api, request: &ModelRequest) -> Self {
        let mut asked = Self::default();
        asked.0.insert(request.model.clone());
        asked.0.extend(request.system_text().map(|text| text.as_str().to_owned()));
        asked.take(&request.extra);
        // The others repeat no tools.
        if api == Api::OpenAiResponses {
            for tool in &request.tools {
                match tool {
                    ToolDefinition::Function { spec, meta } => {
                        asked.0.insert(spec.name.clone());
                        asked.0.extend(spec.description.as_ref().map(|text| text.as_str().to_owned()));
                        asked.take(&spec.input_schema);
                        meta.iter().for_each(|meta| asked.take(meta));
                    }
                    ToolDefinition::Provider { raw } => asked.take(raw),
                }
            }
        }
        match &request.tool_choice {
            Some(ToolChoice::Tool(name)) => drop(asked.0.insert(name.clone())),
            Some(ToolChoice::Other(raw)) => asked.take(raw),
            Some(ToolChoice::Auto | ToolChoice::None | ToolChoice::Required) | None => {}
        }
        asked
    }

    /// Whether the request says this.
    pub(super) fn has(&self, text: &str) -> bool {
        self.0.contains(text)
    }

    fn take(&mut self, value: &Value) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => drop(self.0.insert(text.clone())),
            Value::Array(items) => items.iter().for_each(|item| self.take(item)),
            Value::Object(fields) => {
                for (name, value) in fields {
                    self.0.insert(name.clone());
                    self.take(value);
                }
            }
        }
    }
}
