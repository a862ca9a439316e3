//! Names in the tables that no SDK declares, and where they come from.
//!
//! A name that is in a table and in no SDK is either one that was dropped, and has no business there, or one that somebody
//! wrote down elsewhere: servers that speak a wire say more than its maker does, and makers say more than their SDKs.

use super::Api;

/// Names of one table.
#[derive(Clone, Copy, Debug)]
pub struct Documented {
    /// The wire.
    pub api: Api,
    /// What the table calls its things, or `words of` a field.
    pub things: &'static str,
    /// The names.
    pub names: &'static [&'static str],
    /// Who writes of them, and where.
    pub source: &'static str,
}

const fn documented(
    api: Api,
    things: &'static str,
    names: &'static [&'static str],
    source: &'static str,
) -> Documented {
    Documented { api, things, names, source }
}

const ROUTERS: &str = "OpenRouter, API reference: chat completions";
const VLLM: &str = "vLLM, entrypoints/openai/protocol.py";
const AZURE: &str = "Azure OpenAI, REST API reference: content filtering";
const BEDROCK: &str =
    "Amazon Bedrock, user guide: Anthropic Claude Messages API, and guardrails with InvokeModel";

/// All of them.
pub static DOCUMENTED: [Documented; 44] = [
    // Requests.
    documented(Api::OpenAiChat, "fields of requests", &["models"], ROUTERS),
    documented(Api::OpenAiChat, "fields of requests", &["min_p", "repetition_penalty", "top_k"], VLLM),
    documented(
        Api::OpenAiChat,
        "parts of messages in requests",
        &["audio_url", "video_url"],
        "vLLM, user guide: multimodal inputs",
    ),
    documented(
        Api::OpenAiChat,
        "parts of messages in requests",
        &["document_url", "reference", "thinking"],
        "Mistral, OpenAPI description: `ContentChunk`",
    ),
    documented(
        Api::OpenAiChat,
        "parts of messages in requests",
        &["refusal"],
        "openai 3.54.0 (Python), `ChatCompletionAssistantMessageParam`",
    ),
    documented(
        Api::AnthropicMessages,
        "fields of requests",
        &["anthropic_beta", "anthropic_version"],
        BEDROCK,
    ),
    documented(
        Api::AnthropicMessages,
        "fields of requests",
        &["temperature", "top_k", "top_p"],
        "Anthropic, API reference: create a message, for models that sample by them",
    ),
    documented(
        Api::Gemini,
        "fields of requests",
        &["model"],
        "Gemini API, reference: `GenerateContentRequest`",
    ),
    documented(
        Api::BedrockConverse,
        "fields of requests",
        &["stream"],
        "put there by the codec: an address of Bedrock says whether the answer streams",
    ),
    documented(
        Api::Gemini,
        "tools",
        &["computer_use", "function_declarations"],
        "Protocol Buffers, JSON mapping: parsers take the names of the proto file as well",
    ),
    // Answers of OpenAI Chat.
    documented(
        Api::OpenAiChat,
        "fields of answers",
        &["citations", "search_results"],
        "Perplexity, API reference: chat completions",
    ),
    documented(Api::OpenAiChat, "fields of answers", &["kv_transfer_params"], VLLM),
    documented(Api::OpenAiChat, "fields of answers", &["prompt_filter_results"], AZURE),
    documented(Api::OpenAiChat, "fields of answers", &["provider"], ROUTERS),
    documented(Api::OpenAiChat, "fields of answers", &["request_id"], "Z.AI, API reference: chat completion"),
    documented(
        Api::OpenAiChat,
        "fields of answers",
        &["time_info"],
        "Cerebras, API reference: chat completions",
    ),
    documented(Api::OpenAiChat, "fields of answers", &["timings"], "llama.cpp, tools/server/README.md"),
    documented(
        Api::OpenAiChat,
        "fields of answers",
        &["x_groq"],
        "Groq, API reference: create chat completion",
    ),
    documented(
        Api::OpenAiChat,
        "fields of choices",
        &["content_filter_offsets", "content_filter_result", "content_filter_results"],
        AZURE,
    ),
    documented(
        Api::OpenAiChat,
        "fields of choices",
        &["matched_stop"],
        "SGLang, entrypoints/openai/protocol.py",
    ),
    documented(Api::OpenAiChat, "fields of choices", &["native_finish_reason"], ROUTERS),
    documented(Api::OpenAiChat, "fields of choices", &["stop_reason", "token_ids"], VLLM),
    documented(Api::OpenAiChat, "fields of messages", &["reasoning", "reasoning_details"], ROUTERS),
    documented(
        Api::OpenAiChat,
        "fields of messages",
        &["reasoning_content"],
        "DeepSeek, API reference: create chat completion",
    ),
    documented(
        Api::OpenAiChat,
        "fields of messages",
        &["reasoning_opaque"],
        "GitHub Copilot in VS Code, platform/thinking/common/thinking.ts: `RawThinkingDelta`",
    ),
    documented(Api::OpenAiChat, "fields of messages", &["token_ids"], VLLM),
    documented(
        Api::OpenAiChat,
        "fields of calls",
        &["extra_content"],
        "Gemini API, docs: thought signatures, OpenAI compatibility",
    ),
    documented(
        Api::OpenAiChat,
        "fields of details of reasoning",
        &["data", "format", "id", "index", "signature", "summary", "text", "type"],
        "OpenRouter, docs: reasoning tokens",
    ),
    documented(
        Api::OpenAiChat,
        "words of role",
        &["function"],
        "OpenAI, API reference: `ChatCompletionFunctionMessageParam`",
    ),
    documented(
        Api::OpenAiChat,
        "words of finish_reason",
        &["abort", "repetition", "eos_token", "stop_sequence", "eos", "model_length"],
        "vLLM, SGLang, text-generation-inference and Mistral, API references",
    ),
    documented(
        Api::OpenAiChat,
        "words of finish_reason",
        &["insufficient_system_resource"],
        "DeepSeek, API reference: create chat completion",
    ),
    documented(
        Api::OpenAiChat,
        "words of finish_reason",
        &[
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
        ],
        "OpenRouter, API reference: `native_finish_reason` has the words of the model's own wire",
    ),
    // Answers of OpenAI Responses.
    documented(
        Api::OpenAiResponses,
        "events",
        &["response.apply_patch_call_operation_diff.delta", "response.apply_patch_call_operation_diff.done"],
        "OpenAI, OpenAPI description: `ResponseApplyPatchCallOperationDiffDeltaStreamingEvent`",
    ),
    documented(
        Api::OpenAiResponses,
        "events",
        &["keepalive", "ping"],
        "OpenAI, streams that wait for a tool; Azure OpenAI",
    ),
    documented(
        Api::OpenAiResponses,
        "fields of answers",
        &["billing", "frequency_penalty", "presence_penalty", "store"],
        "OpenAI, API reference: the response object, which repeats the request",
    ),
    // Answers of Anthropic Messages.
    documented(
        Api::AnthropicMessages,
        "blocks",
        &["image", "tool_result"],
        "Anthropic, API reference: blocks of requests, with which servers that speak the wire answer",
    ),
    documented(
        Api::AnthropicMessages,
        "fields of blocks",
        &["source"],
        "Anthropic, API reference: images, with which servers that speak the wire answer",
    ),
    documented(
        Api::AnthropicMessages,
        "events",
        &["error", "ping"],
        "Anthropic, docs: streaming messages; the SDKs read these events by themselves",
    ),
    documented(
        Api::AnthropicMessages,
        "fields of answers",
        &["error", "request_id"],
        "Anthropic, docs: errors; the SDKs read them by themselves",
    ),
    documented(
        Api::AnthropicMessages,
        "fields of answers",
        &["amazon-bedrock-guardrailAction", "amazon-bedrock-invocationMetrics"],
        BEDROCK,
    ),
    // Answers of Gemini.
    documented(
        Api::Gemini,
        "fields of answers",
        &["error"],
        "Gemini API, docs: errors; the SDKs read them by themselves",
    ),
    documented(Api::Gemini, "words of role", &["model", "user"], "Gemini API, reference: `Content`"),
    documented(
        Api::AnthropicMessages,
        "words of amazon-bedrock-guardrailAction",
        &["INTERVENED", "NONE"],
        BEDROCK,
    ),
    documented(
        Api::Gemini,
        "fields of candidates",
        &["groundingAttributions"],
        "Gemini API, reference: `Candidate`, of `GenerateAnswer`",
    ),
];
