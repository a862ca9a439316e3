//! An answer, as it comes and as a whole.

use backstop_hooks::conversation::{Message, Part, Role, TokenUsage};
use backstop_hooks::{Json, Text, ToolCallId};

/// One step of an answer.
///
/// `index` names a part within one answer. Parts may be open at the same time and their events interleave.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// The model has begun to answer.
    Started {
        /// The provider's id of the answer.
        id: String,
        /// The model that answers, which may be more exact than the one asked for.
        model: String,
    },
    /// More visible text.
    TextDelta {
        /// The part.
        index: usize,
        /// The text that is added.
        text: Text,
    },
    /// More reasoning.
    ThinkingDelta {
        /// The part.
        index: usize,
        /// The text that is added.
        text: Text,
    },
    /// The model begins to ask for a tool.
    ToolCallStarted {
        /// The part.
        index: usize,
        /// The call's id; may be empty or already used.
        id: ToolCallId,
        /// The tool's name.
        name: String,
    },
    /// More of a tool call's arguments: a piece of JSON text, meaningless before the call is whole.
    ToolCallArguments {
        /// The part.
        index: usize,
        /// The text that is added.
        delta: Text,
    },
    /// A part is whole. Parts without deltas (images, unknown parts) have this event only.
    PartFinished {
        /// The part.
        index: usize,
        /// The part as a whole, with what the provider attached.
        part: Part,
    },
    /// Tokens used so far. Each event replaces the one before.
    Usage {
        /// The tokens.
        usage: TokenUsage,
    },
    /// The answer is whole. Always the last event; a stream that ends without it has failed.
    Finished {
        /// The whole answer.
        response: Box<ModelResponse>,
    },
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelResponse {
    /// The provider's id of the answer.
    pub id: String,
    /// The model that answered.
    pub model: String,
    /// What it said.
    pub message: Message,
    /// Why it stopped.
    pub stop: StopReason,
    /// Tokens used.
    pub usage: TokenUsage,
    /// What else the provider said about the answer, by the wire's own names: a JSON object, or null.
    pub extra: Json,
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// It had said everything.
    EndTurn,
    /// It waits for tools.
    ToolUse,
    /// It reached the largest answer allowed.
    MaxTokens,
    /// It came to a stop sequence.
    StopSequence,
    /// It, or the provider's filter, refused.
    Refusal,
    /// The provider paused a long turn; sending the conversation again continues it.
    PauseTurn,
    /// A reason that Backstop does not know, as it came.
    Other(String),
}

impl StopReason {
    /// The name of the reason, as scripts and events spell it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Other(name) => name,
            known => known.word(),
        }
    }

    /// A word of a closed list for the reason, which holds nothing that a provider chose: `other` for one that is not known.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence => "stop_sequence",
            Self::Refusal => "refusal",
            Self::PauseTurn => "pause_turn",
            Self::Other(_) => "other",
        }
    }
}

impl From<&str> for StopReason {
    fn from(name: &str) -> Self {
        match name {
            "end_turn" => Self::EndTurn,
            "tool_use" => Self::ToolUse,
            "max_tokens" => Self::MaxTokens,
            "stop_sequence" => Self::StopSequence,
            "refusal" => Self::Refusal,
            "pause_turn" => Self::PauseTurn,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl ModelResponse {
    /// An answer of `parts`, as the scripted model and tests need it.
    pub fn new(id: impl Into<String>, model: impl Into<String>, parts: Vec<Part>, stop: StopReason) -> Self {
        Self {
            id: id.into(),
            model: model.into(),
            message: Message::new(Role::Assistant, parts),
            stop,
            usage: TokenUsage::default(),
            extra: Json::default(),
        }
    }

    /// The events that amount to this answer, texts cut into pieces of at most `chunk` characters (at
    /// least one).
    pub fn to_events(&self, chunk: usize) -> Vec<ModelEvent> {
        let mut events =
            vec![ModelEvent::Started { id: self.id.clone(), model: self.model.clone() }, self.usage_event()];
        for (index, part) in self.message.content.iter().enumerate() {
            part_events(index, part, chunk.max(1), &mut events);
        }
        events.push(self.usage_event());
        events.push(ModelEvent::Finished { response: Box::new(self.clone()) });
        events
    }

    fn usage_event(&self) -> ModelEvent {
        ModelEvent::Usage { usage: self.usage }
    }
}

fn part_events(index: usize, part: &Part, chunk: usize, events: &mut Vec<ModelEvent>) {
    match part {
        Part::Text { text, .. } => {
            events.extend(pieces(text, chunk).map(|text| ModelEvent::TextDelta { index, text }));
        }
        Part::Thinking { text, .. } => {
            events.extend(pieces(text, chunk).map(|text| ModelEvent::ThinkingDelta { index, text }));
        }
        Part::ToolCall(call) => {
            events.push(ModelEvent::ToolCallStarted { index, id: call.id.clone(), name: call.name.clone() });
            let arguments = match &call.malformed {
                Some(text) => text.to_string(),
                None => call.arguments.to_value().to_string(),
            };
            events.extend(
                pieces(&arguments, chunk).map(|delta| ModelEvent::ToolCallArguments { index, delta }),
            );
        }
        Part::ToolResult(_) | Part::Image { .. } | Part::Unknown { .. } => {}
    }
    events.push(ModelEvent::PartFinished { index, part: part.clone() });
}

fn pieces(text: &str, chunk: usize) -> impl Iterator<Item = Text> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(chunk).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then(|| Text::from(piece))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_keep_every_character() {
        let text = "aé漢🙂b";
        for chunk in 1..7 {
            let parts: Vec<Text> = pieces(text, chunk).collect();
            assert_eq!(parts.iter().map(Text::as_str).collect::<String>(), text);
            assert!(parts.iter().all(|part| part.chars().count() <= chunk));
        }
        assert_eq!(pieces("", 3).count(), 0);
    }
}
