//! The fields of answers besides texts and calls, level by level.
//!
//! What a client does with a field that its wire added is unknown, so a field that is in none of these tables is a call,
//! named after it. Fields of the servers that speak a wire (vLLM, llama.cpp, Azure, gateways of models) are among those of
//! OpenAI Chat as far as they hold names and numbers.

use super::types::{AMAZON, ANTHROPIC, GOOGLE, OPENAI};
use super::{Api, TypeClass, TypeTable};

/// Fields of an answer of OpenAI Chat and of its chunks (`ChatCompletion`, `ChatCompletionChunk`).
pub(crate) static CHAT_ANSWERS: TypeTable = TypeTable {
    api: Api::OpenAiChat,
    things: "fields of answers",
    source: OPENAI,
    types: &[
        (TypeClass::Text, &["choices"]),
        (TypeClass::Result, &["citations", "search_results"]),
        (
            TypeClass::Inert,
            &[
                "created",
                "id",
                "kv_transfer_params",
                "metadata",
                "model",
                "moderation",
                "object",
                "obfuscation",
                "prompt_filter_results",
                "provider",
                "request_id",
                "service_tier",
                "system_fingerprint",
                "time_info",
                "timings",
                "usage",
                "x_groq",
            ],
        ),
    ],
};

/// Fields of a choice. A message in a stream and a delta in a whole answer may be there and say nothing.
pub(crate) static CHAT_CHOICES: TypeTable = TypeTable {
    api: Api::OpenAiChat,
    things: "fields of choices",
    source: OPENAI,
    types: &[
        (TypeClass::Text, &["delta", "message"]),
        (
            TypeClass::Inert,
            &[
                "content_filter_offsets",
                "content_filter_result",
                "content_filter_results",
                "finish_reason",
                "index",
                "logprobs",
                "matched_stop",
                "native_finish_reason",
                "stop_reason",
                "token_ids",
            ],
        ),
    ],
};

/// Fields of a message and of a delta (`ChatCompletionMessage`, `ChoiceDelta`).
pub(crate) static CHAT_MESSAGES: TypeTable = TypeTable {
    api: Api::OpenAiChat,
    things: "fields of messages",
    source: OPENAI,
    types: &[
        (
            TypeClass::Text,
            &["audio", "content", "reasoning", "reasoning_content", "reasoning_details", "refusal"],
        ),
        (TypeClass::Call, &["function_call", "tool_calls"]),
        (TypeClass::Result, &["annotations"]),
        (TypeClass::Inert, &["reasoning_opaque", "role", "token_ids"]),
    ],
};

/// Fields of a response of OpenAI Responses (`Response`); most repeat the request.
pub(crate) static RESPONSES_ANSWERS: TypeTable = TypeTable {
    api: Api::OpenAiResponses,
    things: "fields of answers",
    source: OPENAI,
    types: &[
        (TypeClass::Text, &["output", "output_text"]),
        (
            TypeClass::Inert,
            &[
                "access_programs",
                "background",
                "billing",
                "completed_at",
                "conversation",
                "created_at",
                "error",
                "frequency_penalty",
                "id",
                "image",
                "incomplete_details",
                "input_transformations",
                "instructions",
                "max_output_tokens",
                "max_tool_calls",
                "metadata",
                "model",
                "moderation",
                "object",
                "parallel_tool_calls",
                "presence_penalty",
                "previous_response_id",
                "prompt",
                "prompt_cache_diagnostics",
                "prompt_cache_key",
                "prompt_cache_options",
                "prompt_cache_retention",
                "reasoning",
                "safety_identifier",
                "service_tier",
                "status",
                "store",
                "temperature",
                "text",
                "tool_choice",
                "tool_usage",
                "tools",
                "top_logprobs",
                "top_p",
                "truncation",
                "usage",
                "user",
            ],
        ),
    ],
};

/// Fields of an event, of which its type says what they are.
pub(crate) static RESPONSES_EVENT_FIELDS: TypeTable = TypeTable {
    api: Api::OpenAiResponses,
    things: "fields of events",
    source: OPENAI,
    types: &[
        (TypeClass::Text, &["delta", "part", "refusal", "text"]),
        (TypeClass::Call, &["arguments", "command", "input"]),
        (TypeClass::Result, &["annotation", "output"]),
        (TypeClass::Ran, &["code"]),
        (
            TypeClass::Inert,
            &[
                "agent",
                "annotation_index",
                "background",
                "command_index",
                "content_index",
                "item",
                "item_id",
                "logprobs",
                "message",
                "name",
                "obfuscation",
                "output_format",
                "output_index",
                "param",
                "partial_image_b64",
                "partial_image_index",
                "quality",
                "response",
                "sequence_number",
                "size",
                "status",
                "summary_index",
                "type",
            ],
        ),
    ],
};

/// Fields of messages and reasoning, and of their parts.
pub(crate) static RESPONSES_MESSAGES: TypeTable = TypeTable {
    api: Api::OpenAiResponses,
    things: "fields of messages",
    source: OPENAI,
    types: &[
        (TypeClass::Text, &["content", "refusal", "summary", "text"]),
        (TypeClass::Result, &["annotations"]),
        (
            TypeClass::Inert,
            &["agent", "encrypted_content", "id", "logprobs", "phase", "role", "status", "type"],
        ),
    ],
};

/// Fields of a message, and of the events that bring it (`Message`, `RawMessageStreamEvent`).
pub(crate) static ANTHROPIC_ANSWERS: TypeTable = TypeTable {
    api: Api::AnthropicMessages,
    things: "fields of answers",
    source: ANTHROPIC,
    types: &[
        (TypeClass::Text, &["content", "content_block", "delta"]),
        (
            TypeClass::Inert,
            &[
                // What Bedrock adds to the end of a stream: how long it took, and that no guardrail stepped in.
                "amazon-bedrock-guardrailAction",
                "amazon-bedrock-invocationMetrics",
                "container",
                "context_management",
                "diagnostics",
                "error",
                "id",
                "index",
                "input_transformations",
                "message",
                "model",
                "request_id",
                "role",
                "stop_details",
                "stop_reason",
                "stop_sequence",
                "type",
                "usage",
            ],
        ),
    ],
};

/// Fields of texts and thinking, and of deltas.
pub(crate) static ANTHROPIC_TEXTS: TypeTable = TypeTable {
    api: Api::AnthropicMessages,
    things: "fields of texts",
    source: ANTHROPIC,
    types: &[
        (TypeClass::Text, &["content", "text", "thinking"]),
        // What is sent back with a compaction may define tools.
        (TypeClass::Call, &["partial_json", "tool_changes"]),
        (TypeClass::Result, &["citation", "citations"]),
        (TypeClass::Inert, &["encrypted_content", "estimated_tokens", "signature", "type"]),
    ],
};

/// Fields of an answer of Gemini (`GenerateContentResponse`).
pub(crate) static GEMINI_ANSWERS: TypeTable = TypeTable {
    api: Api::Gemini,
    things: "fields of answers",
    source: GOOGLE,
    types: &[
        (TypeClass::Text, &["candidates"]),
        (
            TypeClass::Inert,
            &[
                "createTime",
                "error",
                "modelStatus",
                "modelVersion",
                "promptFeedback",
                "responseId",
                "usageMetadata",
                // Made by the SDKs, from what they asked and got.
                "automaticFunctionCallingHistory",
                "parsed",
                "sdkHttpResponse",
            ],
        ),
    ],
};

/// Fields of a candidate and of its content.
pub(crate) static GEMINI_CANDIDATES: TypeTable = TypeTable {
    api: Api::Gemini,
    things: "fields of candidates",
    source: GOOGLE,
    types: &[
        (TypeClass::Text, &["content", "finishMessage", "parts"]),
        (
            TypeClass::Result,
            &["citationMetadata", "groundingAttributions", "groundingMetadata", "urlContextMetadata"],
        ),
        (
            TypeClass::Inert,
            &[
                "avgLogprobs",
                "continuationToken",
                "finishReason",
                "index",
                "logprobsResult",
                "role",
                "safetyRatings",
                "tokenCount",
            ],
        ),
    ],
};

/// Fields of an answer of Bedrock's Converse, of its message, and of the events that bring them (`ConverseResponse`, `Message`,
/// `ConverseStreamOutput`). What a model says in fields of its own repeats what is judged elsewhere, in nobody's form: it is a
/// call, and a result besides.
pub(crate) static CONVERSE_ANSWERS: TypeTable = TypeTable {
    api: Api::BedrockConverse,
    things: "fields of answers",
    source: AMAZON,
    types: &[
        (TypeClass::Text, &["content", "delta", "message", "output", "start"]),
        (TypeClass::Call, &["additionalModelResponseFields"]),
        // What a guardrail found, with the words in which it did.
        (TypeClass::Result, &["trace"]),
        (
            TypeClass::Inert,
            &[
                "contentBlockIndex",
                "metrics",
                "performanceConfig",
                "role",
                "serviceTier",
                "stopReason",
                "usage",
            ],
        ),
    ],
};

/// Fields of texts, of reasoning and of its pieces (`ReasoningContentBlock`, `ReasoningContentBlockDelta`,
/// `CitationsContentBlock`, `GuardrailConverseContentBlock`).
pub(crate) static CONVERSE_TEXTS: TypeTable = TypeTable {
    api: Api::BedrockConverse,
    things: "fields of texts",
    source: AMAZON,
    types: &[
        (TypeClass::Text, &["content", "reasoningText", "text"]),
        (TypeClass::Result, &["citations"]),
        (TypeClass::Inert, &["image", "qualifiers", "redactedContent", "signature"]),
    ],
};
