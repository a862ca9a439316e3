//! The words of states and reasons, wire by wire.
//!
//! Nobody judges a reason to stop or the state of an item, so each is a word of these lists and nothing else: one that no list
//! has is a text in a field that nobody knows. The lists have what the SDKs of the providers declare, against which a test holds
//! them, and what servers that speak a wire are documented to say besides (vLLM, SGLang, TGI, Mistral, DeepSeek, and routers that pass on the reasons of other
//! wires).

use super::Api;

/// The words that a field of a wire may hold.
#[derive(Clone, Copy, Debug)]
pub struct WordTable {
    /// The wire.
    pub api: Api,
    /// The fields, wherever in an answer they stand.
    pub fields: &'static [&'static str],
    /// The words.
    pub words: &'static [&'static str],
}

/// All lists of words.
pub fn word_tables() -> impl Iterator<Item = &'static WordTable> {
    WORD_TABLES.iter().chain([&RATINGS])
}

/// The lists of fields in which no other word may stand.
static WORD_TABLES: [WordTable; 17] = [
    WordTable { api: Api::OpenAiChat, fields: &["role"], words: CHAT_ROLES },
    WordTable { api: Api::OpenAiResponses, fields: &["role"], words: RESPONSES_ROLES },
    WordTable { api: Api::AnthropicMessages, fields: &["role"], words: &["assistant"] },
    WordTable { api: Api::Gemini, fields: &["role"], words: &["model", "user"] },
    WordTable { api: Api::BedrockConverse, fields: &["role"], words: &["assistant", "system", "user"] },
    WordTable {
        api: Api::OpenAiChat,
        fields: &["finish_reason", "native_finish_reason"],
        words: CHAT_REASONS,
    },
    WordTable { api: Api::OpenAiResponses, fields: &["status"], words: RESPONSES_STATES },
    WordTable { api: Api::OpenAiResponses, fields: &["reason"], words: RESPONSES_REASONS },
    WordTable { api: Api::OpenAiResponses, fields: &["phase"], words: &["commentary", "final_answer"] },
    WordTable { api: Api::OpenAiResponses, fields: &["truncation"], words: &["auto", "disabled"] },
    WordTable { api: Api::AnthropicMessages, fields: &["stop_reason"], words: ANTHROPIC_REASONS },
    WordTable { api: Api::AnthropicMessages, fields: &["reason"], words: ANTHROPIC_CHANGES },
    WordTable {
        api: Api::AnthropicMessages,
        fields: &["amazon-bedrock-guardrailAction"],
        words: &["INTERVENED", "NONE"],
    },
    WordTable { api: Api::Gemini, fields: &["finishReason"], words: GEMINI_REASONS },
    WordTable { api: Api::Gemini, fields: &["turnCompleteReason"], words: LIVE_REASONS },
    WordTable { api: Api::Gemini, fields: &["interactionStatus"], words: LIVE_STATES },
    WordTable { api: Api::BedrockConverse, fields: &["stopReason"], words: CONVERSE_REASONS },
];

/// The words by which Gemini rates an answer (`HarmCategory`, `HarmProbability`, `HarmSeverity`; google-genai for Python): one for
/// each of its categories, so that there are many.
pub(crate) static RATINGS: WordTable = WordTable {
    api: Api::Gemini,
    fields: &["category", "probability", "severity"],
    words: &[
        "HARM_CATEGORY_UNSPECIFIED",
        "HARM_CATEGORY_HARASSMENT",
        "HARM_CATEGORY_HATE_SPEECH",
        "HARM_CATEGORY_SEXUALLY_EXPLICIT",
        "HARM_CATEGORY_DANGEROUS_CONTENT",
        "HARM_CATEGORY_CIVIC_INTEGRITY",
        "HARM_CATEGORY_JAILBREAK",
        "HARM_CATEGORY_IMAGE_HATE",
        "HARM_CATEGORY_IMAGE_DANGEROUS_CONTENT",
        "HARM_CATEGORY_IMAGE_HARASSMENT",
        "HARM_CATEGORY_IMAGE_SEXUALLY_EXPLICIT",
        "HARM_PROBABILITY_UNSPECIFIED",
        "HARM_SEVERITY_UNSPECIFIED",
        "HARM_SEVERITY_NEGLIGIBLE",
        "HARM_SEVERITY_LOW",
        "HARM_SEVERITY_MEDIUM",
        "HARM_SEVERITY_HIGH",
        "NEGLIGIBLE",
        "LOW",
        "MEDIUM",
        "HIGH",
    ],
};

/// Roles of OpenAI Chat (`ChatCompletionMessage`, `ChoiceDelta`; openai for Python), and the one of results of functions.
const CHAT_ROLES: &[&str] = &["assistant", "developer", "function", "system", "tool", "user"];

/// Roles of OpenAI Responses (`BetaResponse` and its items; openai for Python).
const RESPONSES_ROLES: &[&str] =
    &["assistant", "critic", "developer", "discriminator", "system", "tool", "unknown", "user"];

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

/// Why input was changed or thinking left out (`BetaThinkingDroppedInputTransformation` and its siblings), and why a credit was
/// not applied (`BetaFallbackCreditNotApplied`).
const ANTHROPIC_CHANGES: &[&str] = &[
    "end_user_binding_mismatch",
    "model_binding_mismatch",
    "organization_binding_mismatch",
    "prefix_binding_mismatch",
    "body_mismatch",
    "continuation_excluded",
    "continuation_only",
    "expired",
    "invalid_target_model",
    "not_enabled",
    "reprice_unavailable",
    "temporarily_unavailable",
    "variant_fields_present",
    "wrong_organization",
    "wrong_platform",
    "wrong_workspace",
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

/// Why a turn of Gemini Live is over (`TurnCompleteReason`; google-genai for Python).
const LIVE_REASONS: &[&str] = &[
    "BLOCKLIST",
    "GENERATED_AUDIO_SAFETY",
    "GENERATED_CONTENT_BLOCKLIST",
    "GENERATED_CONTENT_PROHIBITED",
    "GENERATED_CONTENT_SAFETY",
    "GENERATED_IMAGE_CELEBRITY",
    "GENERATED_IMAGE_IDENTIFIABLE_PEOPLE",
    "GENERATED_IMAGE_MINORS",
    "GENERATED_IMAGE_PROHIBITED",
    "GENERATED_IMAGE_PROMINENT_PEOPLE_DETECTED_BY_REWRITER",
    "GENERATED_IMAGE_SAFETY",
    "GENERATED_OTHER",
    "GENERATED_VIDEO_SAFETY",
    "IMAGE_PROHIBITED_INPUT_CONTENT",
    "INPUT_IMAGE_CELEBRITY",
    "INPUT_IMAGE_PHOTO_REALISTIC_CHILD_PROHIBITED",
    "INPUT_IP_PROHIBITED",
    "INPUT_OTHER",
    "INPUT_TEXT_CONTAIN_PROMINENT_PERSON_PROHIBITED",
    "INPUT_TEXT_NCII_PROHIBITED",
    "MALFORMED_FUNCTION_CALL",
    "MAX_REGENERATION_REACHED",
    "NEED_MORE_INPUT",
    "OUTPUT_IMAGE_IP_PROHIBITED",
    "PROHIBITED_INPUT_CONTENT",
    "RESPONSE_REJECTED",
    "TURN_COMPLETE_REASON_UNSPECIFIED",
    "UNSAFE_PROMPT_FOR_IMAGE_GENERATION",
];

/// States of a session of Gemini Live (`InteractionStatus`; google-genai for Python).
const LIVE_STATES: &[&str] = &["IDLE", "INTERACTION_STATUS_UNSPECIFIED", "IN_PROGRESS", "REQUIRES_ACTION"];

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
    let table = WORD_TABLES.iter().find(|table| table.api == api && table.fields.contains(&name));
    table.map(|table| table.words)
}
