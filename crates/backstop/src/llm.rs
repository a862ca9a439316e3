//! Models: what is asked of them, what they answer, and a scripted one for tests.

pub use backstop_llm::{
    Model, ModelError, ModelEvent, ModelRequest, ModelResponse, ModelStream, StopReason, ThinkLevel,
    ToolChoice, ToolDefinition,
};

// Providers.
pub use backstop_llm::{
    Api, ApiKey, Authorities, InvalidProvider, ProviderClient, ProviderSettings, RetryPolicy, Timeouts,
};

// The scripted model.
pub use backstop_llm::{
    RecordedRequest, Script, ScriptError, ScriptReport, ScriptedModel, ScriptedServer, ScriptedToolCall,
    ServerOptions, Turn,
};
