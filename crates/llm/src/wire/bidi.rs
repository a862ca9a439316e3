//! The fields of the messages of Gemini Live (`BidiGenerateContent`), level by level.
//!
//! What a message of the provider says is judged under the tables of an answer of Gemini once its frame is taken off. A field of
//! the frame that is in none of these tables is a call, named after it.

use super::types::GOOGLE;
use super::{Api, TypeClass, TypeTable};

/// Fields of a provider's message (`LiveServerMessage`).
pub static LIVE_MESSAGES: TypeTable = TypeTable {
    api: Api::Gemini,
    things: "fields of messages of Live",
    source: GOOGLE,
    types: &[
        (TypeClass::Text, &["serverContent"]),
        (TypeClass::Call, &["toolCall"]),
        (
            TypeClass::Inert,
            &[
                "goAway",
                "sessionResumptionUpdate",
                "setupComplete",
                "toolCallCancellation",
                "usageMetadata",
                "voiceActivity",
                "voiceActivityDetectionSignal",
            ],
        ),
    ],
};

/// Fields of what a model says (`LiveServerContent`).
pub static LIVE_CONTENTS: TypeTable = TypeTable {
    api: Api::Gemini,
    things: "fields of contents of Live",
    source: GOOGLE,
    types: &[
        (
            TypeClass::Text,
            &["inputTranscription", "interimInputTranscription", "modelTurn", "outputTranscription"],
        ),
        (TypeClass::Result, &["groundingMetadata", "urlContextMetadata"]),
        (
            TypeClass::Inert,
            &[
                "generationComplete",
                "interactionStatus",
                "interrupted",
                "turnComplete",
                "turnCompleteReason",
                "waitingForInput",
            ],
        ),
    ],
};

/// Fields of a session (`LiveClientSetup`, as the SDKs write it). What stands in no table is judged as a tool.
pub static LIVE_SETUPS: TypeTable = TypeTable {
    api: Api::Gemini,
    things: "fields of setups of Live",
    source: GOOGLE,
    types: &[
        (TypeClass::Text, &["labels", "systemInstruction"]),
        (TypeClass::Ran, &["tools"]),
        (
            TypeClass::Inert,
            &[
                "avatarConfig",
                "contextWindowCompression",
                "explicitVadSignal",
                "generationConfig",
                "historyConfig",
                "inputAudioTranscription",
                "model",
                "outputAudioTranscription",
                "proactivity",
                "realtimeInputConfig",
                "safetySettings",
                "sessionResumption",
            ],
        ),
    ],
};

/// Fields of a client's message (`LiveClientMessage`). No other one passes.
pub(super) static LIVE_ASKED: TypeTable = TypeTable {
    api: Api::Gemini,
    things: "fields of messages of clients of Live",
    source: GOOGLE,
    types: &[
        (TypeClass::Text, &["clientContent", "contextUpdate", "realtimeInput", "setup"]),
        (TypeClass::Result, &["toolResponse"]),
    ],
};

/// Whether a key is not in the table, and a reader that does not mind how it is spelled would take it for one that is.
pub fn is_disguised(table: &TypeTable, key: &str) -> bool {
    let plain = |key: &str| -> String {
        key.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    table.class(key).is_none() && table.types().any(|(known, _)| plain(known) == plain(key))
}

/// Whether a reader of an answer of Gemini knows this field of an answer, a candidate or a content: what stands there under such
/// a name in a frame that has no such field would be taken for something that was judged elsewhere.
pub fn is_field_of_answer(key: &str) -> bool {
    [&super::GEMINI_ANSWERS, &super::GEMINI_CANDIDATES]
        .into_iter()
        .any(|table| table.class(key).is_some() || is_disguised(table, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_another_spelling_is_disguised() {
        for disguised in ["ToolCall", "toolcall", "tool_call", "TOOL-CALL", "server_content"] {
            assert!(is_disguised(&LIVE_MESSAGES, disguised), "{disguised}");
        }
        for plain in ["toolCall", "futureCall", "", "toolCalls"] {
            assert!(!is_disguised(&LIVE_MESSAGES, plain), "{plain}");
        }
        for taken in ["finishMessage", "finish_message", "error", "content", "responseId"] {
            assert!(is_field_of_answer(taken), "{taken}");
        }
        assert!(!is_field_of_answer("futureField"));
    }
}
