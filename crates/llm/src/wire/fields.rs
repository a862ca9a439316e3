//! The fields of requests, and what they can do.
//!
//! A field that is in none of these tables may offer the model something that the provider does, as `mcp_servers` and
//! `web_search_options` do: it is judged as an offer that is named after it. Fields with texts besides the conversation are
//! shown to hooks; those that hold names and numbers are harmless, as long as they hold nothing else.

use super::types::{AMAZON, ANTHROPIC, GOOGLE, OPENAI};
use super::{Api, TypeClass, TypeTable};

/// The table of a wire.
pub fn request_fields(api: Api) -> &'static TypeTable {
    match api {
        Api::AnthropicMessages => &ANTHROPIC_FIELDS,
        Api::OpenAiChat => &CHAT_FIELDS,
        Api::OpenAiResponses => &RESPONSES_FIELDS,
        Api::Gemini => &GEMINI_FIELDS,
        Api::BedrockConverse => &CONVERSE_FIELDS,
    }
}

const FIELDS: &str = "fields of requests";

/// Fields of OpenAI Chat (`CompletionCreateParams`), and those of samplers by which the servers that speak it are told
/// more (vLLM, llama.cpp).
pub(super) static CHAT_FIELDS: TypeTable = TypeTable {
    api: Api::OpenAiChat,
    things: FIELDS,
    source: OPENAI,
    types: &[
        (TypeClass::Text, &["messages", "metadata", "prediction", "stop"]),
        (TypeClass::Ran, &["functions", "tools", "web_search_options"]),
        (
            TypeClass::Inert,
            &[
                "audio",
                "frequency_penalty",
                "function_call",
                "logit_bias",
                "logprobs",
                "max_completion_tokens",
                "max_tokens",
                "modalities",
                "model",
                "models",
                "moderation",
                "n",
                "parallel_tool_calls",
                "presence_penalty",
                "prompt_cache_key",
                "prompt_cache_options",
                "prompt_cache_retention",
                "reasoning_effort",
                "response_format",
                "safety_identifier",
                "seed",
                "service_tier",
                "store",
                "stream",
                "stream_options",
                "temperature",
                "tool_choice",
                "top_logprobs",
                "top_p",
                "user",
                "verbosity",
                "top_k",
                "min_p",
                "repetition_penalty",
            ],
        ),
    ],
};

/// Fields of OpenAI Responses (`ResponseCreateParams`).
pub(super) static RESPONSES_FIELDS: TypeTable = TypeTable {
    api: Api::OpenAiResponses,
    things: FIELDS,
    source: OPENAI,
    types: &[
        (TypeClass::Text, &["input", "instructions", "metadata", "prompt"]),
        (TypeClass::Ran, &["tools", "multi_agent"]),
        (
            TypeClass::Inert,
            &[
                "access_programs",
                "background",
                "background_options",
                "betas",
                "context_management",
                "conversation",
                "image",
                "include",
                "max_output_tokens",
                "max_tool_calls",
                "model",
                "moderation",
                "parallel_tool_calls",
                "previous_response_id",
                "prompt_cache_key",
                "prompt_cache_options",
                "prompt_cache_retention",
                "reasoning",
                "safety_identifier",
                "service_tier",
                "store",
                "stream",
                "stream_options",
                "temperature",
                "text",
                "tool_choice",
                "top_logprobs",
                "top_p",
                "truncation",
                "user",
            ],
        ),
    ],
};

/// Fields of Anthropic Messages (`MessageCreateParams`).
pub(super) static ANTHROPIC_FIELDS: TypeTable = TypeTable {
    api: Api::AnthropicMessages,
    things: FIELDS,
    source: ANTHROPIC,
    types: &[
        (TypeClass::Text, &["messages", "stop_sequences", "system"]),
        (TypeClass::Ran, &["container", "mcp_servers", "tools"]),
        (
            TypeClass::Inert,
            &[
                // In the bodies of Bedrock and Vertex AI, where they are headers elsewhere.
                "anthropic_beta",
                "anthropic_version",
                "betas",
                "billing_policy",
                "cache_control",
                "compaction",
                "context_management",
                "diagnostics",
                "fallback_credit_token",
                "fallbacks",
                "inference_geo",
                "max_tokens",
                "metadata",
                "model",
                "output_config",
                "output_format",
                "service_tier",
                "speed",
                "stream",
                "temperature",
                "thinking",
                "thread",
                "tool_choice",
                "top_k",
                "top_p",
                "user_profile_id",
                "workspace_id",
            ],
        ),
    ],
};

/// Fields of Gemini (`GenerateContentParameters`, as the SDKs write it).
pub(super) static GEMINI_FIELDS: TypeTable = TypeTable {
    api: Api::Gemini,
    things: FIELDS,
    source: GOOGLE,
    types: &[
        (TypeClass::Text, &["contents", "labels", "systemInstruction"]),
        (TypeClass::Ran, &["tools"]),
        (
            TypeClass::Inert,
            &[
                "cachedContent",
                "continuationToken",
                "generationConfig",
                "model",
                "modelArmorConfig",
                "outputConfig",
                "safetySettings",
                "serviceTier",
                "store",
                "toolConfig",
            ],
        ),
    ],
};

/// Fields of Bedrock's Converse (`ConverseRequest`, `ConverseStreamRequest`), and the one by which an address says that the
/// answer streams. What stands in `additionalModelRequestFields` is the model's own, and is judged field by field.
pub(super) static CONVERSE_FIELDS: TypeTable = TypeTable {
    api: Api::BedrockConverse,
    things: FIELDS,
    source: AMAZON,
    types: &[
        (
            TypeClass::Text,
            &[
                "additionalModelRequestFields",
                "inferenceConfig",
                "messages",
                "promptVariables",
                "requestMetadata",
                "system",
            ],
        ),
        (TypeClass::Ran, &["toolConfig"]),
        (
            TypeClass::Inert,
            &[
                "additionalModelResponseFieldPaths",
                "guardrailConfig",
                "modelId",
                "outputConfig",
                "performanceConfig",
                "serviceTier",
                "stream",
            ],
        ),
    ],
};
