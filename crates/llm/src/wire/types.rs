//! What the types of the wires' items, blocks, parts and events are.
//!
//! A wire grows: its provider adds types of things that an answer can hold, and some of them make a client act. So
//! the tables here list what is known, and what is in none of them is a call of the client, named after its type,
//! with the whole of it as arguments: it is held and judged like a call of any tool.
//!
//! Types are compared as they are written. A reader that does not mind letter case may take `Function_Call` for
//! `function_call`; here it is a type that nobody knows.
//!
//! The tables are held against the type declarations of the providers' SDKs, which their `source` names: a type that
//! an SDK declares and no table has is a failed test, and so is one that a table has and no SDK, unless it is in
//! [`DOCUMENTED`](super::DOCUMENTED), which says where it comes from.

use super::answers::{
    ANTHROPIC_ANSWERS, ANTHROPIC_TEXTS, CHAT_ANSWERS, CHAT_CHOICES, CHAT_MESSAGES, CONVERSE_ANSWERS,
    CONVERSE_TEXTS, GEMINI_ANSWERS, GEMINI_CANDIDATES, RESPONSES_ANSWERS, RESPONSES_EVENT_FIELDS,
    RESPONSES_MESSAGES,
};
use super::asked::ASKED_TABLES;
use super::bidi::{LIVE_ASKED, LIVE_CONTENTS, LIVE_MESSAGES, LIVE_SETUPS};
use super::fields::{ANTHROPIC_FIELDS, CHAT_FIELDS, CONVERSE_FIELDS, GEMINI_FIELDS, RESPONSES_FIELDS};
use super::levels::INNER_TABLES;
use crate::wire::Api;

/// What becomes of a thing of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TypeClass {
    /// It says something to people or to the model; its texts are judged as they come.
    Text,
    /// It asks the client to act. It is held until it was judged.
    Call,
    /// Something that the provider has done by itself before the client hears of it.
    Ran,
    /// What came of a call. It goes with its call if that is removed.
    Result,
    /// It holds nothing that a client acts on and that somebody could read, or belongs to what is judged elsewhere.
    Inert,
}

impl TypeClass {
    /// All classes.
    pub const ALL: [Self; 5] = [Self::Text, Self::Call, Self::Ran, Self::Result, Self::Inert];

    /// What becomes of it, in a few words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Call => "call of the client",
            Self::Ran => "done by the provider",
            Self::Result => "result of a call",
            Self::Inert => "inert",
        }
    }
}

/// The types of one kind of thing on one wire.
#[derive(Debug)]
pub struct TypeTable {
    /// The wire.
    pub api: Api,
    /// What has these types, in the plural.
    pub things: &'static str,
    /// The SDKs that declare them, with their versions; empty if none does.
    pub source: &'static str,
    /// The types by class.
    pub(super) types: &'static [(TypeClass, &'static [&'static str])],
}

impl TypeTable {
    /// What becomes of a thing of the type `name`; `None` for a type that nobody here knows.
    pub fn class(&self, name: &str) -> Option<TypeClass> {
        self.types.iter().find(|(_, names)| names.contains(&name)).map(|(class, _)| *class)
    }

    /// What becomes of a thing of the type `name` in an answer: a call, if nobody knows it.
    pub(crate) fn class_or_call(&self, name: &str) -> TypeClass {
        self.class(name).unwrap_or(TypeClass::Call)
    }

    /// All types with their classes.
    pub fn types(&self) -> impl Iterator<Item = (&'static str, TypeClass)> + use<> {
        self.types.iter().flat_map(|(class, names)| names.iter().map(|name| (*name, *class)))
    }
}

/// Whether a wire has a field or a type of this name, wherever that stands.
pub(crate) fn is_word_of(api: Api, name: &str) -> bool {
    TYPE_TABLES.iter().any(|table| table.api == api && table.class(name).is_some())
}

/// All tables of types.
pub fn type_tables() -> impl Iterator<Item = &'static TypeTable> {
    [TYPE_TABLES.as_slice(), &INNER_TABLES, &ASKED_TABLES].into_iter().flatten().copied()
}

/// The tables of all wires, but those of what is [inside](INNER_TABLES) of these things, and of what stands in
/// [requests](ASKED_TABLES).
static TYPE_TABLES: [&TypeTable; 34] = [
    &RESPONSES_ITEMS,
    &RESPONSES_PARTS,
    &RESPONSES_EVENTS,
    &REALTIME_EVENTS,
    &CHAT_CALLS,
    &ANTHROPIC_BLOCKS,
    &ANTHROPIC_DELTAS,
    &ANTHROPIC_EVENTS,
    &GEMINI_PARTS,
    &CONVERSE_BLOCKS,
    &CONVERSE_STARTS,
    &CONVERSE_DELTAS,
    &CONVERSE_EVENTS,
    &RESPONSES_FIELDS,
    &CHAT_FIELDS,
    &ANTHROPIC_FIELDS,
    &GEMINI_FIELDS,
    &CONVERSE_FIELDS,
    &RESPONSES_ANSWERS,
    &RESPONSES_EVENT_FIELDS,
    &RESPONSES_MESSAGES,
    &CHAT_ANSWERS,
    &CHAT_CHOICES,
    &CHAT_MESSAGES,
    &ANTHROPIC_ANSWERS,
    &ANTHROPIC_TEXTS,
    &GEMINI_ANSWERS,
    &GEMINI_CANDIDATES,
    &CONVERSE_ANSWERS,
    &CONVERSE_TEXTS,
    &LIVE_MESSAGES,
    &LIVE_CONTENTS,
    &LIVE_SETUPS,
    &LIVE_ASKED,
];

pub(super) const OPENAI: &str = "openai 3.54.0 (Python), openai 6.49.0 (TypeScript)";
pub(super) const ANTHROPIC: &str = "anthropic 2.12.0 (Python), @anthropic-ai/sdk 1.12.0 (TypeScript)";
pub(super) const AMAZON: &str = "botocore 1.44.5 (Python)";
pub(super) const GOOGLE: &str = "google-genai 3.4.0 (Python), @google/genai 2.32.0 (TypeScript)";

/// Items of an answer of OpenAI Responses (`ResponseOutputItem`, `BetaResponseOutputItem`).
///
/// A call for approval, a program, a search among tools and what agents tell each other make somebody act on what the
/// model wrote, so they are calls, wherever they run. An approval itself is one, too: a client that sends an answer
/// back as it came would approve by it.
pub static RESPONSES_ITEMS: TypeTable = TypeTable {
    api: Api::OpenAiResponses,
    things: "items",
    source: OPENAI,
    types: &[
        (TypeClass::Text, &["message", "reasoning"]),
        (
            TypeClass::Call,
            &[
                "function_call",
                "custom_tool_call",
                "local_shell_call",
                "shell_call",
                "apply_patch_call",
                "computer_call",
                "mcp_approval_request",
                "mcp_approval_response",
                "tool_search_call",
                "program",
                "agent_message",
                "multi_agent_call",
            ],
        ),
        (
            TypeClass::Result,
            &[
                "function_call_output",
                "custom_tool_call_output",
                "local_shell_call_output",
                "shell_call_output",
                "apply_patch_call_output",
                "computer_call_output",
                "tool_search_output",
                "program_output",
                "multi_agent_call_output",
            ],
        ),
        (
            TypeClass::Ran,
            &[
                "web_search_call",
                "file_search_call",
                "code_interpreter_call",
                "image_generation_call",
                "mcp_call",
                "mcp_list_tools",
                "additional_tools",
            ],
        ),
        (TypeClass::Inert, &["compaction"]),
    ],
};

/// Parts of a message or of reasoning in OpenAI Responses.
pub(crate) static RESPONSES_PARTS: TypeTable = TypeTable {
    api: Api::OpenAiResponses,
    things: "parts of messages",
    source: OPENAI,
    types: &[(TypeClass::Text, &["output_text", "refusal", "reasoning_text", "summary_text"])],
};

/// Events of OpenAI Responses (`ResponseStreamEvent`, `BetaResponseStreamEvent`). Those of an item are judged with it.
pub(crate) static RESPONSES_EVENTS: TypeTable = TypeTable {
    api: Api::OpenAiResponses,
    things: "events",
    source: OPENAI,
    types: &[
        (
            TypeClass::Text,
            &[
                "response.output_text.delta",
                "response.output_text.done",
                "response.refusal.delta",
                "response.refusal.done",
                "response.reasoning_text.delta",
                "response.reasoning_text.done",
                "response.reasoning_summary_text.delta",
                "response.reasoning_summary_text.done",
                "response.content_part.added",
                "response.content_part.done",
                "response.reasoning_summary_part.added",
                "response.reasoning_summary_part.done",
                "response.audio.delta",
                "response.audio.done",
                "response.audio.transcript.delta",
                "response.audio.transcript.done",
            ],
        ),
        (
            TypeClass::Call,
            &[
                "response.function_call_arguments.delta",
                "response.function_call_arguments.done",
                "response.custom_tool_call_input.delta",
                "response.custom_tool_call_input.done",
                "response.shell_call_command.added",
                "response.shell_call_command.delta",
                "response.shell_call_command.done",
                "response.apply_patch_call_operation_diff.delta",
                "response.apply_patch_call_operation_diff.done",
            ],
        ),
        (
            TypeClass::Result,
            &["response.shell_call_output_content.delta", "response.shell_call_output_content.done"],
        ),
        (
            TypeClass::Ran,
            &[
                "response.code_interpreter_call.in_progress",
                "response.code_interpreter_call.interpreting",
                "response.code_interpreter_call.completed",
                "response.code_interpreter_call_code.delta",
                "response.code_interpreter_call_code.done",
                "response.file_search_call.in_progress",
                "response.file_search_call.searching",
                "response.file_search_call.completed",
                "response.image_generation_call.in_progress",
                "response.image_generation_call.generating",
                "response.image_generation_call.partial_image",
                "response.image_generation_call.completed",
                "response.mcp_call.in_progress",
                "response.mcp_call.completed",
                "response.mcp_call.failed",
                "response.mcp_call_arguments.delta",
                "response.mcp_call_arguments.done",
                "response.mcp_list_tools.in_progress",
                "response.mcp_list_tools.completed",
                "response.mcp_list_tools.failed",
                "response.web_search_call.in_progress",
                "response.web_search_call.searching",
                "response.web_search_call.completed",
            ],
        ),
        (
            TypeClass::Inert,
            &[
                "response.created",
                "response.queued",
                "response.in_progress",
                "response.completed",
                "response.incomplete",
                "response.failed",
                "response.output_item.added",
                "response.output_item.done",
                "response.output_text.annotation.added",
                "response.compaction.compacting",
                "error",
                "keepalive",
                "ping",
            ],
        ),
    ],
};

/// Events of OpenAI Realtime (`RealtimeServerEvent`). Those of an answer are judged as the ones of Responses that they are in
/// other words; what belongs to none holds nothing that leaves.
pub static REALTIME_EVENTS: TypeTable = TypeTable {
    api: Api::OpenAiResponses,
    things: "events of Realtime",
    source: OPENAI,
    types: &[
        (
            TypeClass::Text,
            &[
                "response.output_text.delta",
                "response.output_text.done",
                "response.content_part.added",
                "response.content_part.done",
                "response.output_audio.delta",
                "response.output_audio.done",
                "response.output_audio_transcript.delta",
                "response.output_audio_transcript.done",
            ],
        ),
        (
            TypeClass::Call,
            &["response.function_call_arguments.delta", "response.function_call_arguments.done"],
        ),
        (
            TypeClass::Ran,
            &[
                "response.mcp_call.in_progress",
                "response.mcp_call.completed",
                "response.mcp_call.failed",
                "response.mcp_call_arguments.delta",
                "response.mcp_call_arguments.done",
            ],
        ),
        (
            TypeClass::Inert,
            &[
                "conversation.created",
                "conversation.item.added",
                "conversation.item.created",
                "conversation.item.deleted",
                "conversation.item.done",
                "conversation.item.input_audio_transcription.completed",
                "conversation.item.input_audio_transcription.delta",
                "conversation.item.input_audio_transcription.failed",
                "conversation.item.input_audio_transcription.segment",
                "conversation.item.retrieved",
                "conversation.item.truncated",
                "error",
                "input_audio_buffer.cleared",
                "input_audio_buffer.committed",
                "input_audio_buffer.dtmf_event_received",
                "input_audio_buffer.speech_started",
                "input_audio_buffer.speech_stopped",
                "input_audio_buffer.timeout_triggered",
                "mcp_list_tools.completed",
                "mcp_list_tools.failed",
                "mcp_list_tools.in_progress",
                "output_audio_buffer.cleared",
                "output_audio_buffer.started",
                "output_audio_buffer.stopped",
                "rate_limits.updated",
                "response.created",
                "response.done",
                "response.output_item.added",
                "response.output_item.done",
                "session.created",
                "session.updated",
            ],
        ),
    ],
};

/// Calls of OpenAI Chat (`ChatCompletionMessageToolCallUnion`).
pub(crate) static CHAT_CALLS: TypeTable = TypeTable {
    api: Api::OpenAiChat,
    things: "calls",
    source: OPENAI,
    types: &[(TypeClass::Call, &["function", "custom"])],
};

/// Blocks of an answer of Anthropic Messages (`ContentBlock`, `BetaContentBlock`).
pub(crate) static ANTHROPIC_BLOCKS: TypeTable = TypeTable {
    api: Api::AnthropicMessages,
    things: "blocks",
    source: ANTHROPIC,
    types: &[
        (TypeClass::Text, &["text", "thinking"]),
        (TypeClass::Call, &["tool_use"]),
        (
            TypeClass::Result,
            &[
                "tool_result",
                "web_search_tool_result",
                "web_fetch_tool_result",
                "code_execution_tool_result",
                "bash_code_execution_tool_result",
                "text_editor_code_execution_tool_result",
                "tool_search_tool_result",
                "advisor_tool_result",
                "mcp_tool_result",
                // Names and descriptions that a third party wrote.
                "mcp_tool_listing",
            ],
        ),
        (TypeClass::Ran, &["server_tool_use", "mcp_tool_use"]),
        (TypeClass::Inert, &["redacted_thinking", "image", "container_upload", "compaction", "fallback"]),
    ],
};

/// Deltas of a block of Anthropic Messages (`RawContentBlockDelta`, `BetaRawContentBlockDelta`).
pub(crate) static ANTHROPIC_DELTAS: TypeTable = TypeTable {
    api: Api::AnthropicMessages,
    things: "deltas",
    source: ANTHROPIC,
    types: &[
        (TypeClass::Text, &["text_delta", "thinking_delta"]),
        (TypeClass::Call, &["input_json_delta"]),
        (TypeClass::Inert, &["citations_delta", "signature_delta", "compaction_delta"]),
    ],
};

/// Events of Anthropic Messages (`RawMessageStreamEvent`, `BetaRawMessageStreamEvent`), and the two of its streams that
/// the SDKs read themselves.
pub(crate) static ANTHROPIC_EVENTS: TypeTable = TypeTable {
    api: Api::AnthropicMessages,
    things: "events",
    source: ANTHROPIC,
    types: &[(
        TypeClass::Inert,
        &[
            "message_start",
            "message_delta",
            "message_stop",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "ping",
            "error",
        ],
    )],
};

/// Fields of a part of Gemini (`Part`), of which one says what the part is and the others something about it.
pub(crate) static GEMINI_PARTS: TypeTable = TypeTable {
    api: Api::Gemini,
    things: "fields of parts",
    source: GOOGLE,
    types: &[
        (TypeClass::Text, &["text"]),
        (TypeClass::Call, &["functionCall"]),
        (
            TypeClass::Result,
            &[
                "functionResponse",
                "codeExecutionResult",
                "toolResponse",
                // What was said aloud, and what somebody says of a part, in texts of their own.
                "audioTranscription",
                "partMetadata",
            ],
        ),
        (TypeClass::Ran, &["executableCode", "toolCall"]),
        (
            TypeClass::Inert,
            &[
                "inlineData",
                "fileData",
                "thought",
                "thoughtSignature",
                "videoMetadata",
                "mediaResolution",
                "mediaProcessing",
                "speechMetadata",
                "documentMetadata",
                "spreadsheetMetadata",
                "audioMetadata",
            ],
        ),
    ],
};

/// Blocks of an answer of Bedrock's Converse (`ContentBlock`). What is said aloud nobody here can judge, and a tool that is
/// added or removed changes what the model may call.
pub(crate) static CONVERSE_BLOCKS: TypeTable = TypeTable {
    api: Api::BedrockConverse,
    things: "blocks",
    source: AMAZON,
    types: &[
        (TypeClass::Text, &["text", "reasoningContent", "citationsContent", "guardContent"]),
        (TypeClass::Call, &["toolUse", "audio", "video", "toolAddition", "toolRemoval"]),
        (TypeClass::Result, &["toolResult", "searchResult", "document"]),
        (TypeClass::Inert, &["image", "cachePoint"]),
    ],
};

/// What a block of a stream begins as (`ContentBlockStart`).
pub(crate) static CONVERSE_STARTS: TypeTable = TypeTable {
    api: Api::BedrockConverse,
    things: "beginnings of blocks",
    source: AMAZON,
    types: &[
        (TypeClass::Call, &["toolUse"]),
        (TypeClass::Result, &["toolResult"]),
        (TypeClass::Inert, &["image"]),
    ],
};

/// Deltas of a block (`ContentBlockDelta`).
pub(crate) static CONVERSE_DELTAS: TypeTable = TypeTable {
    api: Api::BedrockConverse,
    things: "deltas",
    source: AMAZON,
    types: &[
        (TypeClass::Text, &["text", "reasoningContent"]),
        (TypeClass::Call, &["toolUse"]),
        (TypeClass::Result, &["toolResult", "citation"]),
        (TypeClass::Inert, &["image"]),
    ],
};

/// Events of a stream (`ConverseStreamOutput`).
pub(crate) static CONVERSE_EVENTS: TypeTable = TypeTable {
    api: Api::BedrockConverse,
    things: "events",
    source: AMAZON,
    types: &[(
        TypeClass::Inert,
        &[
            "messageStart",
            "contentBlockStart",
            "contentBlockDelta",
            "contentBlockStop",
            "messageStop",
            "metadata",
            "internalServerException",
            "modelStreamErrorException",
            "serviceUnavailableException",
            "throttlingException",
            "validationException",
        ],
    )],
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_type_has_one_class() {
        for table in type_tables() {
            let names: Vec<&str> = table.types().map(|(name, _)| name).collect();
            let distinct: BTreeSet<&str> = names.iter().copied().collect();
            assert_eq!(names.len(), distinct.len(), "{} of {}", table.things, table.api);
        }
    }

    #[test]
    fn a_type_that_is_written_otherwise_is_a_call() {
        for disguised in ["Message", "message ", "messag\u{435}", "MESSAGE", ""] {
            assert_eq!(RESPONSES_ITEMS.class_or_call(disguised), TypeClass::Call, "{disguised:?}");
        }
        assert_eq!(RESPONSES_ITEMS.class_or_call("message"), TypeClass::Text);
    }
}
