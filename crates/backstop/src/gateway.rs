//! The LLM proxy.

pub use backstop_gateway::{
    AllowedOperation, AwsCredentials, Cloud, Credential, Endpoint, Exchange, Family, Gateway, Interceptor,
    Limits, ModelRoute, Operation, Permission, Plan, Provider, Proxies, Settings, StartError, Timeouts,
    Transparent, Trust,
};

/// Hooks on live traffic.
pub mod hooked {
    pub use backstop_gateway::hooked::{
        BlockedForm, HookSettings, Hooks, TextMode, ToolCalls, Unasked, Unenforceable, UnjudgedMedia,
        host_profile,
    };
}
