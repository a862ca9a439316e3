//! The levels of answers: which of a wire's fields stand where.
//!
//! A table of [`answers`](super::answers) has the fields of a whole family of things, each with its class, as the SDKs declare
//! them. What is read depends on where a field stands, though: a `delta` is read in the event that brings one, and nowhere else.
//! So each place has a level, which lists the fields that are read there. *A field at another level than its own is one that
//! nobody knows*, and so a call that is named after it.

use super::TypeClass;
use super::answers::{
    ANTHROPIC_ANSWERS, ANTHROPIC_TEXTS, CHAT_ANSWERS, CHAT_CHOICES, CHAT_MESSAGES, CONVERSE_ANSWERS,
    CONVERSE_TEXTS, GEMINI_ANSWERS, GEMINI_CANDIDATES, RESPONSES_ANSWERS, RESPONSES_EVENT_FIELDS,
    RESPONSES_MESSAGES,
};
use super::types::{AMAZON, ANTHROPIC, GOOGLE, OPENAI};
use super::{Api, CONVERSE_BLOCKS, CONVERSE_STARTS, TypeTable};

/// The tables of what is inside of things.
pub(super) static INNER_TABLES: [&TypeTable; 10] = [
    &CHAT_PARTS,
    &CHAT_DETAILS,
    &CHAT_CALL_FIELDS,
    &CHAT_CALLED,
    &RESPONSES_CALLS,
    &RESPONSES_SEALS,
    &ANTHROPIC_BLOCK_FIELDS,
    &GEMINI_CALLS,
    &CONVERSE_CALLS,
    &PICTURES,
];

/// The fields that an object has at one place.
#[derive(Debug)]
pub(crate) struct Level {
    table: &'static TypeTable,
    here: Here,
}

#[derive(Debug)]
enum Here {
    /// All of the table.
    All,
    Only(&'static [&'static str]),
    /// These, and what is inert and in no object of its own.
    Beside(&'static [&'static str], &'static [&'static str]),
}

impl Level {
    const fn all(table: &'static TypeTable) -> Self {
        Self { table, here: Here::All }
    }

    const fn only(table: &'static TypeTable, fields: &'static [&'static str]) -> Self {
        Self { table, here: Here::Only(fields) }
    }

    /// `fields`, and all that are inert but `elsewhere`.
    const fn beside(
        table: &'static TypeTable,
        fields: &'static [&'static str],
        elsewhere: &'static [&'static str],
    ) -> Self {
        Self { table, here: Here::Beside(fields, elsewhere) }
    }

    /// The wire.
    pub(crate) fn api(&self) -> Api {
        self.table.api
    }

    /// The table that has the fields of this level and its siblings.
    pub(crate) fn table(&self) -> &'static TypeTable {
        self.table
    }

    /// What becomes of the field `name`; `None` if none of this name stands here.
    pub(crate) fn class(&self, name: &str) -> Option<TypeClass> {
        let class = self.table.class(name)?;
        let is_here = match self.here {
            Here::All => true,
            Here::Only(fields) => fields.contains(&name),
            Here::Beside(fields, elsewhere) => {
                fields.contains(&name) || (class == TypeClass::Inert && !elsewhere.contains(&name))
            }
        };
        is_here.then_some(class)
    }
}

/// An answer of OpenAI Chat, or a chunk of one.
pub(crate) static CHAT_ANSWER: Level = Level::all(&CHAT_ANSWERS);
/// A choice. The one of `delta` and `message` that is not read there is held to [`CHAT_SILENT`].
pub(crate) static CHAT_CHOICE: Level = Level::all(&CHAT_CHOICES);
/// A message or a delta.
pub(crate) static CHAT_MESSAGE: Level = Level::all(&CHAT_MESSAGES);
/// A message in a stream, or a delta in a whole answer: it says nothing.
pub(crate) static CHAT_SILENT: Level = Level::only(&CHAT_MESSAGES, &["role"]);
/// A text, and a refusal, in the list of a message's content.
pub(crate) static CHAT_TEXT: Level = Level::only(&CHAT_PARTS, &["text", "type"]);
/// See [`CHAT_TEXT`].
pub(crate) static CHAT_REFUSAL: Level = Level::only(&CHAT_PARTS, &["refusal", "type"]);
/// An entry of `reasoning_details`.
pub(crate) static CHAT_DETAIL: Level = Level::all(&CHAT_DETAILS);

/// Fields of a part of an answer's message (`ChatCompletionContentPartText`, `ChatCompletionContentPartRefusalParam`).
static CHAT_PARTS: TypeTable = TypeTable {
    api: Api::OpenAiChat,
    things: "fields of parts",
    source: OPENAI,
    types: &[
        (TypeClass::Text, &["refusal", "text"]),
        (TypeClass::Inert, &["prompt_cache_breakpoint", "type"]),
    ],
};

/// Fields of an entry of `reasoning_details`, as routers write it.
static CHAT_DETAILS: TypeTable = TypeTable {
    api: Api::OpenAiChat,
    things: "fields of details of reasoning",
    source: "",
    types: &[
        (TypeClass::Text, &["summary", "text"]),
        (TypeClass::Inert, &["data", "format", "id", "index", "signature", "type"]),
    ],
};

/// An entry of `tool_calls`.
pub(crate) static CHAT_CALL: Level = Level::all(&CHAT_CALL_FIELDS);
/// What an entry says of a function, and the old form of a call.
pub(crate) static CHAT_FUNCTION: Level = Level::only(&CHAT_CALLED, &["arguments", "name"]);
/// What an entry says of a custom tool.
pub(crate) static CHAT_CUSTOM: Level = Level::only(&CHAT_CALLED, &["input", "name"]);

/// Fields of an entry of `tool_calls` (`ChatCompletionMessageToolCallUnion`, `ChoiceDeltaToolCall`).
static CHAT_CALL_FIELDS: TypeTable = TypeTable {
    api: Api::OpenAiChat,
    things: "fields of calls",
    source: OPENAI,
    types: &[
        (TypeClass::Call, &["custom", "function"]),
        // The last holds the signature that Gemini wants back.
        (TypeClass::Inert, &["id", "index", "type", "extra_content"]),
    ],
};

/// Fields of what one calls.
static CHAT_CALLED: TypeTable = TypeTable {
    api: Api::OpenAiChat,
    things: "fields of what is called",
    source: OPENAI,
    types: &[(TypeClass::Call, &["arguments", "input"]), (TypeClass::Inert, &["name"])],
};

/// A response of OpenAI Responses that has ended.
pub(crate) static RESPONSES_ANSWER: Level = Level::all(&RESPONSES_ANSWERS);
/// A response that says nothing yet.
pub(crate) static RESPONSES_BEGUN: Level = Level::beside(&RESPONSES_ANSWERS, &[], &[]);

/// An event of OpenAI Responses.
pub(crate) fn responses_event(kind: &str) -> &'static Level {
    const HOLDERS: &[&str] = &["item", "logprobs", "message", "param", "response"];
    macro_rules! level {
        ($($field:literal)*) => {{
            static LEVEL: Level = Level::beside(&RESPONSES_EVENT_FIELDS, &[$($field),*], HOLDERS);
            &LEVEL
        }};
    }
    match kind.strip_prefix("response.").unwrap_or(kind) {
        "created" | "queued" | "in_progress" | "completed" | "incomplete" | "failed" => level!("response"),
        "output_item.added" | "output_item.done" => level!("item"),
        "content_part.added" | "content_part.done" => level!("part"),
        "reasoning_summary_part.added" | "reasoning_summary_part.done" => level!("part"),
        "output_text.annotation.added" => level!("annotation"),
        "output_text.delta" => level!("delta" "logprobs"),
        "output_text.done" => level!("text" "logprobs"),
        "reasoning_text.done" | "reasoning_summary_text.done" => level!("text"),
        "refusal.done" => level!("refusal"),
        "function_call_arguments.done" | "mcp_call_arguments.done" => level!("arguments"),
        "custom_tool_call_input.done" => level!("input"),
        "shell_call_command.added" | "shell_call_command.done" => level!("command"),
        "shell_call_output_content.done" => level!("output"),
        "code_interpreter_call_code.done" => level!("code"),
        "image_generation_call.partial_image" => level!("partial_image_b64"),
        "error" => level!("message" "code" "param"),
        kind if kind.ends_with(".delta") => level!("delta"),
        _ => level!(),
    }
}

/// A message or a reasoning, by its type.
pub(crate) fn responses_item(kind: &str) -> &'static Level {
    static MESSAGE: Level =
        Level::beside(&RESPONSES_MESSAGES, &["content"], &["encrypted_content", "logprobs"]);
    static REASONING: Level = Level::beside(&RESPONSES_MESSAGES, &["content", "summary"], &["logprobs"]);
    if kind == "reasoning" { &REASONING } else { &MESSAGE }
}

/// An item that asks the client to act, by its type; `None` for one that is judged as a whole.
pub(crate) fn responses_call(kind: &str) -> Option<&'static Level> {
    macro_rules! level {
        ($($field:literal)*) => {{
            static LEVEL: Level = Level::beside(&RESPONSES_CALLS, &[$($field),*], &[]);
            Some(&LEVEL)
        }};
    }
    match kind {
        "function_call" | "mcp_approval_request" => level!("arguments"),
        "custom_tool_call" => level!("input"),
        "local_shell_call" | "shell_call" => level!("action"),
        "apply_patch_call" => level!("operation"),
        "computer_call" => level!("action" "actions" "pending_safety_checks"),
        _ => None,
    }
}

/// Fields of the items that ask the client to act and have a form of their own.
static RESPONSES_CALLS: TypeTable = TypeTable {
    api: Api::OpenAiResponses,
    things: "fields of calls",
    source: OPENAI,
    types: &[
        (TypeClass::Call, &["action", "actions", "arguments", "input", "operation"]),
        // What the provider wants a person to know, in words.
        (TypeClass::Result, &["pending_safety_checks"]),
        (
            TypeClass::Inert,
            &[
                "agent",
                "async",
                "call_id",
                "caller",
                "created_by",
                "environment",
                "id",
                "name",
                "namespace",
                "server_label",
                "status",
                "type",
            ],
        ),
    ],
};

/// An item that belongs to nothing else and holds no text.
pub(crate) static RESPONSES_SEAL: Level = Level::all(&RESPONSES_SEALS);

/// Fields of a compaction (`ResponseCompactionItem`).
static RESPONSES_SEALS: TypeTable = TypeTable {
    api: Api::OpenAiResponses,
    things: "fields of sealed items",
    source: OPENAI,
    types: &[(TypeClass::Inert, &["agent", "created_by", "encrypted_content", "id", "type"])],
};

/// A part of one, by its type.
pub(crate) fn responses_part(kind: &str) -> &'static Level {
    static TEXT: Level = Level::only(&RESPONSES_MESSAGES, &["annotations", "logprobs", "text", "type"]);
    static REFUSAL: Level = Level::only(&RESPONSES_MESSAGES, &["refusal", "type"]);
    static REASONING: Level = Level::only(&RESPONSES_MESSAGES, &["text", "type"]);
    match kind {
        "refusal" => &REFUSAL,
        "reasoning_text" | "summary_text" => &REASONING,
        _ => &TEXT,
    }
}

/// A message of Anthropic, whole or as a stream begins.
pub(crate) static ANTHROPIC_MESSAGE: Level =
    Level::beside(&ANTHROPIC_ANSWERS, &["content"], &["error", "index", "message"]);
/// What the end of a stream changes in it.
pub(crate) static ANTHROPIC_CHANGE: Level =
    Level::beside(&ANTHROPIC_ANSWERS, &[], &["error", "index", "message"]);

/// An event of Anthropic.
pub(crate) fn anthropic_event(kind: &str) -> &'static Level {
    static MESSAGE: Level = Level::beside(&ANTHROPIC_ANSWERS, &["message"], &["error"]);
    static BLOCK: Level = Level::beside(&ANTHROPIC_ANSWERS, &["content_block"], &["error", "message"]);
    static DELTA: Level = Level::beside(&ANTHROPIC_ANSWERS, &["delta"], &["error", "message"]);
    static ERROR: Level = Level::beside(&ANTHROPIC_ANSWERS, &["error"], &["message"]);
    static OTHER: Level = Level::beside(&ANTHROPIC_ANSWERS, &[], &["error", "message"]);
    match kind {
        "message_start" => &MESSAGE,
        "content_block_start" => &BLOCK,
        "content_block_delta" | "message_delta" => &DELTA,
        "error" => &ERROR,
        _ => &OTHER,
    }
}

/// A block of Anthropic that is no result, by its type.
pub(crate) fn anthropic_block(kind: &str) -> &'static Level {
    static TEXT: Level = Level::only(&ANTHROPIC_TEXTS, &["citations", "text", "type"]);
    static THINKING: Level = Level::only(&ANTHROPIC_TEXTS, &["signature", "thinking", "type"]);
    // Not what it changes about the tools: that is a call.
    static COMPACTION: Level =
        Level::only(&ANTHROPIC_TEXTS, &["content", "encrypted_content", "signature", "type"]);
    static CALL: Level =
        Level::only(&ANTHROPIC_BLOCK_FIELDS, &["caller", "id", "input", "name", "toolset_name", "type"]);
    static RAN: Level = Level::all(&ANTHROPIC_BLOCK_FIELDS);
    static OTHER: Level = Level::beside(&ANTHROPIC_BLOCK_FIELDS, &[], &[]);
    match kind {
        "tool_use" => &CALL,
        "server_tool_use" | "mcp_tool_use" => &RAN,
        "text" => &TEXT,
        "thinking" => &THINKING,
        "compaction" => &COMPACTION,
        _ => &OTHER,
    }
}

/// Fields of the blocks that are neither texts nor results.
static ANTHROPIC_BLOCK_FIELDS: TypeTable = TypeTable {
    api: Api::AnthropicMessages,
    things: "fields of blocks",
    source: ANTHROPIC,
    types: &[
        // What is called, by the client or by the provider.
        (TypeClass::Ran, &["input"]),
        (
            TypeClass::Inert,
            &[
                "caller",
                "data",
                "file_id",
                "from",
                "id",
                "name",
                "server_name",
                "source",
                "to",
                "toolset_name",
                "trigger",
                "type",
            ],
        ),
    ],
};

/// A delta of Anthropic, by its type.
pub(crate) fn anthropic_delta(kind: &str) -> &'static Level {
    static TEXT: Level = Level::only(&ANTHROPIC_TEXTS, &["text", "type"]);
    static THINKING: Level = Level::only(&ANTHROPIC_TEXTS, &["estimated_tokens", "thinking", "type"]);
    static INPUT: Level = Level::only(&ANTHROPIC_TEXTS, &["partial_json", "type"]);
    static CITATION: Level = Level::only(&ANTHROPIC_TEXTS, &["citation", "type"]);
    static COMPACTION: Level = Level::only(&ANTHROPIC_TEXTS, &["content", "encrypted_content", "type"]);
    static OTHER: Level = Level::only(&ANTHROPIC_TEXTS, &["signature", "type"]);
    match kind {
        "text_delta" => &TEXT,
        "thinking_delta" => &THINKING,
        "input_json_delta" => &INPUT,
        "citations_delta" => &CITATION,
        "compaction_delta" => &COMPACTION,
        _ => &OTHER,
    }
}

/// An answer of Gemini.
pub(crate) static GEMINI_ANSWER: Level = Level::all(&GEMINI_ANSWERS);
/// A candidate.
pub(crate) static GEMINI_CANDIDATE: Level = Level::beside(
    &GEMINI_CANDIDATES,
    &[
        "citationMetadata",
        "content",
        "finishMessage",
        "groundingAttributions",
        "groundingMetadata",
        "urlContextMetadata",
    ],
    &["role"],
);
/// The content of one.
pub(crate) static GEMINI_CONTENT: Level = Level::only(&GEMINI_CANDIDATES, &["parts", "role"]);

/// A call.
pub(crate) static GEMINI_CALL: Level =
    Level::only(&GEMINI_CALLS, &["args", "id", "name", "partialArgs", "willContinue"]);
/// One of the arguments of a call that comes in pieces.
pub(crate) static GEMINI_ARGUMENT: Level = Level::only(
    &GEMINI_CALLS,
    &["boolValue", "jsonPath", "nullValue", "numberValue", "stringValue", "willContinue"],
);

/// Fields of a call (`FunctionCall`, `PartialArg`).
static GEMINI_CALLS: TypeTable = TypeTable {
    api: Api::Gemini,
    things: "fields of calls",
    source: GOOGLE,
    types: &[
        (TypeClass::Call, &["args", "jsonPath", "partialArgs", "stringValue"]),
        (TypeClass::Inert, &["boolValue", "id", "name", "nullValue", "numberValue", "willContinue"]),
    ],
};

/// An answer of Converse.
pub(crate) static CONVERSE_ANSWER: Level = Level::only(
    &CONVERSE_ANSWERS,
    &[
        "additionalModelResponseFields",
        "metrics",
        "output",
        "performanceConfig",
        "serviceTier",
        "stopReason",
        "trace",
        "usage",
    ],
);
/// What it says.
pub(crate) static CONVERSE_OUTPUT: Level = Level::only(&CONVERSE_ANSWERS, &["message"]);
/// A message.
pub(crate) static CONVERSE_MESSAGE: Level = Level::only(&CONVERSE_ANSWERS, &["content", "role"]);

/// An event of Converse, by its name.
pub(crate) fn converse_event(name: &str) -> &'static Level {
    static MESSAGE: Level = Level::only(&CONVERSE_ANSWERS, &["role"]);
    static START: Level = Level::only(&CONVERSE_ANSWERS, &["contentBlockIndex", "start"]);
    static DELTA: Level = Level::only(&CONVERSE_ANSWERS, &["contentBlockIndex", "delta"]);
    static STOP: Level = Level::only(&CONVERSE_ANSWERS, &["contentBlockIndex"]);
    static END: Level = Level::only(&CONVERSE_ANSWERS, &["additionalModelResponseFields", "stopReason"]);
    static METADATA: Level =
        Level::only(&CONVERSE_ANSWERS, &["metrics", "performanceConfig", "serviceTier", "trace", "usage"]);
    static OTHER: Level = Level::only(&CONVERSE_ANSWERS, &[]);
    match name {
        "messageStart" => &MESSAGE,
        "contentBlockStart" => &START,
        "contentBlockDelta" => &DELTA,
        "contentBlockStop" => &STOP,
        "messageStop" => &END,
        "metadata" => &METADATA,
        _ => &OTHER,
    }
}

/// What stands in a block or a delta of texts, by its type.
pub(crate) fn converse_text(kind: &str) -> &'static Level {
    // A whole text, or what seals or signs it.
    static REASONING: Level =
        Level::only(&CONVERSE_TEXTS, &["reasoningText", "redactedContent", "signature", "text"]);
    static CITED: Level = Level::only(&CONVERSE_TEXTS, &["citations", "content"]);
    static GUARDED: Level = Level::only(&CONVERSE_TEXTS, &["image", "text"]);
    static OTHER: Level = Level::only(&CONVERSE_TEXTS, &[]);
    match kind {
        "reasoningContent" => &REASONING,
        "citationsContent" => &CITED,
        "guardContent" => &GUARDED,
        _ => &OTHER,
    }
}

/// A call: a whole one, its beginning, or a piece of its arguments, by the table that has the types of the thing it stands in.
pub(crate) fn converse_call(table: &TypeTable) -> &'static Level {
    static WHOLE: Level = Level::all(&CONVERSE_CALLS);
    static BEGUN: Level = Level::beside(&CONVERSE_CALLS, &[], &[]);
    static PIECE: Level = Level::only(&CONVERSE_CALLS, &["input"]);
    match table.things {
        things if things == CONVERSE_BLOCKS.things => &WHOLE,
        things if things == CONVERSE_STARTS.things => &BEGUN,
        _ => &PIECE,
    }
}

/// Fields of a call (`ToolUseBlock`, `ToolUseBlockStart`, `ToolUseBlockDelta`).
static CONVERSE_CALLS: TypeTable = TypeTable {
    api: Api::BedrockConverse,
    things: "fields of calls",
    source: AMAZON,
    types: &[(TypeClass::Call, &["input"]), (TypeClass::Inert, &["name", "toolUseId", "type"])],
};

/// A text with its signature, or with what a guardrail is to make of it.
pub(crate) static CONVERSE_WORDS: Level = Level::only(&CONVERSE_TEXTS, &["qualifiers", "signature", "text"]);
/// A text that cites.
pub(crate) static CONVERSE_CITED: Level = Level::only(&CONVERSE_TEXTS, &["text"]);
/// Pictures.
pub(crate) static CONVERSE_PICTURE: Level = Level::all(&PICTURES);

/// Fields of a picture (`ImageBlock` and its siblings).
static PICTURES: TypeTable = TypeTable {
    api: Api::BedrockConverse,
    things: "fields of pictures",
    source: AMAZON,
    types: &[(TypeClass::Inert, &["error", "format", "source"])],
};
