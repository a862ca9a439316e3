//! The LLM proxy.

pub use backstop_gateway::exchange::Call;
pub use backstop_gateway::{
    AllowedOperation, AwsCredentials, AwsProfile, Cloud, Credential, CredentialSource, Endpoint, Exchange,
    Family, Gateway, Interceptor, Limits, ModelRoute, NotReady, Operation, OperatorFiles, Permission, Plan,
    Provider, Proxies, Readiness, Renewed, Settings, StartError, Timeouts, TokenCommand, Transparent, Trust,
};

/// Inspection of live traffic by hooks.
pub mod inspect {
    pub use backstop_gateway::inspect::{
        BlockedForm, HookSettings, Hooks, TextMode, ToolCalls, Unasked, Unenforceable, UnjudgedMedia,
        host_profile,
    };
}
