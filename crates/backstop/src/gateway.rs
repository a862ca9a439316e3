//! The LLM proxy.

pub use backstop_gateway::{
    Credential, Endpoint, Exchange, Family, Gateway, Interceptor, Limits, ModelRoute, Operation, Plan,
    Provider, Proxies, Settings, StartError, Timeouts, Transparent, Trust,
};

/// Hooks on live traffic.
pub mod hooked {
    pub use backstop_gateway::hooked::{
        BlockedForm, HookSettings, Hooks, TextMode, ToolCalls, Unasked, Unenforceable, Unjudged, host_profile,
    };
}
