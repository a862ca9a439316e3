//! The words of states and reasons, wire by wire.
//!
//! Nobody judges a reason to stop or the state of an item, so each is a word of these lists and nothing else: one that no list
//! has is a text in a field that nobody knows. The lists have what the SDKs of the providers declare, and what servers that speak
//! a wire are documented to say besides (vLLM, SGLang, TGI, Mistral, DeepSeek, and routers that pass on the reasons of other
//! wires).

use super::Api;

/// Reasons of OpenAI Chat (`finish_reason` of `Choice`; openai for Python), then those of other servers.
const CHAT_REASONS: &[&str] = &[
    "stop",
    "length",
    "tool_calls",
    "content_filter",
    "function_call",
    // vLLM and SGLang; TGI; Mistral; DeepSeek; routers.
    "abort",
    "repetition",
    "eos_token",
    "stop_sequence",
    "eos",
    "model_length",
    "insufficient_system_resource",
    "error",
    "cancelled",
    "end_turn",
    "max_tokens",
    "tool_use",
    "refusal",
    "pause_turn",
    "completed",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "MALFORMED_FUNCTION_CALL",
];

/// States of responses and their items (`ResponseStatus`, and the `status` of items; openai for Python).
const RESPONSES_STATES: &[&str] = &[
    "completed",
    "failed",
    "in_progress",
    "cancelled",
    "queued",
    "incomplete",
    "searching",
    "generating",
    "interpreting",
    "calling",
];

/// Why a response is not whole (`IncompleteDetails`), why a steered one waits (`ResponseSteerPendingEvent`), what was done with
/// the input (`InputTransformation`), and why no cached prompt was of use (`PromptCacheDiagnosticsCacheMiss`).
const RESPONSES_REASONS: &[&str] = &[
    "max_output_tokens",
    "content_filter",
    "max_tool_calls",
    "max_messages",
    "steered",
    "waiting_for_required_input",
    "end_user_mismatch",
    "model_mismatch",
    "organization_mismatch",
    "prefix_mismatch",
    "turn_boundary",
    "context_compacted",
    "input_changed",
    "model_changed",
    "prompt_cache_key_changed",
    "reasoning_effort_changed",
    "service_tier_changed",
    "text_format_changed",
    "tools_changed",
    "verbosity_changed",
];

/// Reasons of Anthropic (`StopReason`, `BetaStopReason`; anthropic for Python), and what Bedrock says of its guardrails.
const ANTHROPIC_REASONS: &[&str] = &[
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "compaction",
    "refusal",
    "model_context_window_exceeded",
];

/// Reasons of Gemini (`FinishReason`; google-genai for Python).
const GEMINI_REASONS: &[&str] = &[
    "FINISH_REASON_UNSPECIFIED",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "OTHER",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "MALFORMED_RESPONSE",
    "IMAGE_SAFETY",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
    "MISSING_THOUGHT_SIGNATURE",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "IMAGE_OTHER",
    "NO_IMAGE",
    "MODEL_ARMOR",
    "ESCALATION",
    "PUP_LIMITED_DISABLED",
    "CONTINUATION",
];

/// Reasons of Bedrock's Converse (`StopReason`; botocore).
const CONVERSE_REASONS: &[&str] = &[
    "end_turn",
    "tool_use",
    "max_tokens",
    "stop_sequence",
    "guardrail_intervened",
    "content_filtered",
    "malformed_model_output",
    "malformed_tool_use",
    "model_context_window_exceeded",
];

/// The words that the field `name` may hold; `None` for one that is no state and no reason.
pub(crate) fn states(api: Api, name: &str) -> Option<&'static [&'static str]> {
    match (api, name) {
        (Api::OpenAiChat, "finish_reason" | "native_finish_reason") => Some(CHAT_REASONS),
        (Api::OpenAiResponses, "status") => Some(RESPONSES_STATES),
        (Api::OpenAiResponses, "reason") => Some(RESPONSES_REASONS),
        (Api::OpenAiResponses, "phase") => Some(&["commentary", "final_answer"]),
        (Api::OpenAiResponses, "truncation") => Some(&["auto", "disabled"]),
        (Api::AnthropicMessages, "stop_reason") => Some(ANTHROPIC_REASONS),
        (Api::AnthropicMessages, "amazon-bedrock-guardrailAction") => Some(&["INTERVENED", "NONE"]),
        (Api::Gemini, "finishReason") => Some(GEMINI_REASONS),
        (Api::BedrockConverse, "stopReason") => Some(CONVERSE_REASONS),
        _ => None,
    }
}
