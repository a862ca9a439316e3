//! The names of attributes, and the words that some of them may have.
//!
//! Sources: the semantic conventions for generative AI, <https://github.com/open-telemetry/semantic-conventions-genai>, version
//! [`GEN_AI_CONVENTIONS`] (`docs/gen-ai/client-inference.md`, `gen-ai-agent-spans.md`, `execute-tool.md`), which are in development and
//! may change; for HTTP and errors the stable ones of <https://github.com/open-telemetry/semantic-conventions>, version [`CONVENTIONS`].
//! What neither of them has is named `backstop.*`.

/// The version of the conventions for generative AI.
pub const GEN_AI_CONVENTIONS: &str = "0.1.0";
/// The version of all other conventions.
pub const CONVENTIONS: &str = "1.45.0";
/// Where the schema of these is.
pub(crate) const SCHEMA: &str = "https://opentelemetry.io/schemas/1.45.0";

/// The name of an attribute. Only this module makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(&'static str);

impl Key {
    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// The names of all attributes that a span may have.
        pub mod keys {
            use super::Key;

            $($(#[$doc])* pub const $name: Key = Key($text);)*

            /// All of them.
            pub const ALL: &[Key] = &[$($name),*];
        }
    };
}

keys! {
    /// What is done: a word of [`operations`](super::operations).
    OPERATION = "gen_ai.operation.name";
    /// Whose API is asked: a word of [`providers`](super::providers).
    PROVIDER = "gen_ai.provider.name";
    /// The model that is asked for.
    REQUEST_MODEL = "gen_ai.request.model";
    /// The model that answered.
    RESPONSE_MODEL = "gen_ai.response.model";
    /// Why the model stopped.
    FINISH_REASONS = "gen_ai.response.finish_reasons";
    /// Tokens read, with those from a cache and those written to one.
    INPUT_TOKENS = "gen_ai.usage.input_tokens";
    /// Tokens written.
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens";
    /// Tokens read from the provider's cache.
    CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens";
    /// Tokens written to the provider's cache.
    CACHE_WRITE_TOKENS = "gen_ai.usage.cache_write.input_tokens";
    /// The conversation.
    CONVERSATION = "gen_ai.conversation.id";
    /// The agent.
    AGENT = "gen_ai.agent.id";
    /// The tool.
    TOOL = "gen_ai.tool.name";
    /// The call of the tool.
    TOOL_CALL = "gen_ai.tool.call.id";
    /// The class of an error.
    ERROR = "error.type";
    /// The method of a request.
    METHOD = "http.request.method";
    /// The status of its answer.
    STATUS = "http.response.status_code";
    /// What was asked of the proxy.
    ASKED = "backstop.operation";
    /// In which wire.
    WIRE = "backstop.wire";
    /// The provider's name in the configuration.
    UPSTREAM = "backstop.provider";
    /// What became of a request or a turn.
    OUTCOME = "backstop.outcome";
    /// The time that the proxy added until the first byte, in microseconds.
    ADDED = "backstop.added_us";
    /// The id of the receipt from which the span was made.
    RECEIPT = "backstop.receipt.id";
    /// The hook point.
    POINT = "backstop.point";
    /// What came out of a dispatch.
    VERDICT = "backstop.verdict";
    /// How many hooks were asked.
    HOOKS = "backstop.hooks";
    /// How many of them failed.
    FAILURES = "backstop.hook_failures";
    /// Who stopped it.
    BLOCKED_BY = "backstop.blocked.hook";
    /// How a question to a human ended.
    RESOLUTION = "backstop.approval.resolution";
    /// The digest of what was judged.
    JUDGED = "backstop.judged";
    /// Which coding agent a hook was started by.
    CLIENT = "backstop.client";
    /// Which of its events it was.
    EVENT = "backstop.client.event";
}

/// Words of `gen_ai.operation.name`.
pub mod operations {
    /// A conversation is continued.
    pub const CHAT: &str = "chat";
    /// Content is made of several kinds.
    pub const GENERATE_CONTENT: &str = "generate_content";
    /// Texts become vectors.
    pub const EMBEDDINGS: &str = "embeddings";
    /// An agent takes a turn.
    pub const INVOKE_AGENT: &str = "invoke_agent";
    /// A tool is run.
    pub const EXECUTE_TOOL: &str = "execute_tool";
}

/// Words of `gen_ai.provider.name`.
pub mod providers {
    /// Anthropic.
    pub const ANTHROPIC: &str = "anthropic";
    /// OpenAI, or whoever has its API.
    pub const OPENAI: &str = "openai";
    /// Google's Gemini API.
    pub const GEMINI: &str = "gcp.gemini";
    /// Google's Vertex AI.
    pub const VERTEX: &str = "gcp.vertex_ai";
    /// Amazon Bedrock.
    pub const BEDROCK: &str = "aws.bedrock";
    /// Azure OpenAI.
    pub const AZURE: &str = "azure.ai.openai";
}
