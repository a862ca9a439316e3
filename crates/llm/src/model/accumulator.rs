//! From events to what has been said.

use std::collections::BTreeMap;

use backstop_hooks::conversation::{Message, Part, Role, TokenUsage, ToolCall};
use backstop_hooks::{Params, Text, ToolCallId};
use thiserror::Error;

use super::event::{ModelEvent, ModelResponse};

/// Collects the events of one answer.
///
/// After the last event it gives the whole answer; before, what has been said so far, which is for people
/// (a turn that was cut off) and never to be acted on: a tool call that is not whole is not in it.
#[derive(Debug, Default)]
pub struct Accumulator {
    parts: BTreeMap<usize, Building>,
    usage: TokenUsage,
    response: Option<ModelResponse>,
}

/// The stream ended before the answer was whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the answer is not whole")]
pub struct Incomplete;

#[derive(Debug)]
enum Building {
    Text(String),
    Thinking(String),
    ToolCall,
    Finished(Part),
}

impl Accumulator {
    /// Nothing collected yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one event.
    pub fn push(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::Started { .. } => {}
            ModelEvent::TextDelta { index, text } => {
                if let Building::Text(so_far) =
                    self.parts.entry(*index).or_insert_with(|| Building::Text(String::new()))
                {
                    so_far.push_str(text);
                }
            }
            ModelEvent::ThinkingDelta { index, text } => {
                if let Building::Thinking(so_far) =
                    self.parts.entry(*index).or_insert_with(|| Building::Thinking(String::new()))
                {
                    so_far.push_str(text);
                }
            }
            ModelEvent::ToolCallStarted { index, .. } | ModelEvent::ToolCallArguments { index, .. } => {
                self.parts.entry(*index).or_insert(Building::ToolCall);
            }
            ModelEvent::PartFinished { index, part } => {
                self.parts.insert(*index, Building::Finished(part.clone()));
            }
            ModelEvent::Usage { usage } => self.usage = *usage,
            ModelEvent::Finished { response } => self.response = Some(response.as_ref().clone()),
        }
    }

    /// What has been said so far.
    pub fn partial(&self) -> Message {
        if let Some(response) = &self.response {
            return response.message.clone();
        }
        let parts = self.parts.values().filter_map(|part| match part {
            Building::Text(text) => Some(Part::text(text.as_str())),
            Building::Thinking(text) => Some(Part::Thinking { text: text.as_str().into(), meta: None }),
            Building::ToolCall => None,
            Building::Finished(part) => Some(part.clone()),
        });
        Message::new(Role::Assistant, parts.collect())
    }

    /// Tokens used so far, as far as the provider told.
    pub fn usage(&self) -> TokenUsage {
        self.response.as_ref().map_or(self.usage, |response| response.usage)
    }

    /// The whole answer.
    ///
    /// # Errors
    /// [`Incomplete`] if [`ModelEvent::Finished`] has not come.
    pub fn finish(self) -> Result<ModelResponse, Incomplete> {
        self.response.ok_or(Incomplete)
    }
}

/// A tool call while its arguments come in pieces.
#[derive(Debug)]
pub(crate) struct ToolCallBuilder {
    pub(crate) id: ToolCallId,
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) meta: Option<backstop_hooks::Json>,
}

impl ToolCallBuilder {
    /// The call, with arguments that are no JSON object kept as they came.
    pub(crate) fn finish(self) -> ToolCall {
        let (arguments, malformed) = parse_arguments(&self.arguments);
        ToolCall { id: self.id, name: self.name, arguments, malformed, meta: self.meta }
    }
}

/// The object that `text` holds, or the text itself, also if a key stands twice or a whole number is too large: readers would differ. No
/// text at all stands for no arguments: that is how providers write a call of a tool without parameters.
pub(crate) fn parse_arguments(text: &str) -> (Params, Option<Text>) {
    if text.trim().is_empty() {
        return (Params::default(), None);
    }
    match crate::wire::parse_json(text.as_bytes()).ok().and_then(Params::from_value) {
        Some(params) => (params, None),
        None => (Params::default(), Some(text.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::StopReason;
    use serde_json::json;

    #[test]
    fn arguments_that_are_no_object_are_kept() {
        for text in [
            "{\"a\":",
            "[1]",
            "\"x\"",
            "null",
            "{}{}",
            "{\"a\":1,\"a\":2}",
            "{\"id\":12345678901234567890123}",
        ] {
            let (params, malformed) = parse_arguments(text);
            assert!(params.is_empty());
            assert_eq!(malformed.unwrap(), *text);
        }
        assert_eq!(parse_arguments(" "), (Params::default(), None));
        assert_eq!(parse_arguments("{\"a\":1}").0, Params::from_value(json!({"a": 1})).unwrap());
    }

    #[test]
    fn half_a_tool_call_is_not_in_what_was_said() {
        let mut so_far = Accumulator::new();
        so_far.push(&ModelEvent::TextDelta { index: 0, text: "he".into() });
        so_far.push(&ModelEvent::ToolCallStarted { index: 1, id: "c".into(), name: "exec".into() });
        so_far.push(&ModelEvent::TextDelta { index: 0, text: "y".into() });
        assert_eq!(so_far.partial(), Message::assistant("hey"));
        assert_eq!(so_far.finish(), Err(Incomplete));
    }

    #[test]
    fn events_of_an_answer_amount_to_it() {
        let response =
            ModelResponse::new("r", "m", vec![Part::text("hello"), Part::text("you")], StopReason::EndTurn);
        for chunk in 1..6 {
            let mut whole = Accumulator::new();
            let events = response.to_events(chunk);
            for event in &events[..events.len() - 1] {
                whole.push(event);
            }
            assert_eq!(whole.partial(), response.message);
            whole.push(&events[events.len() - 1]);
            assert_eq!(whole.finish().unwrap(), response);
        }
    }
}
