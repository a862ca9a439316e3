//! The LLM proxy.

pub use backstop_gateway::chat::{Chat, ChatAgent};
pub use backstop_gateway::exchange::Call;
pub use backstop_gateway::{
    AllowedOperation, AuditLag, AwsCredentials, AwsProfile, CheckedConfiguration, Cloud, Configuration,
    ConfigurationProblem, Credential, CredentialSource, Endpoint, Exception, Exchange, Family, Gateway,
    Interceptor, Label, Limits, Maker, Metrics, ModelRoute, NotReady, Observers, Operation, OperatorFiles,
    Outcome, Permission, Plan, Pricing, Provider, ProviderCall, Proxies, Quota, Quotas, Readiness, Recorder,
    ReloadedConfiguration, Renewed, RequestPart, RequestRecord, RequestSink, ServedPlugin, Settings,
    SharedFolders, ShownConfiguration, StartError, Timeouts, TokenAlgorithm, TokenCommand, TokenIssuer,
    Transparent, TriedCall, Trust, Waiting, Word, openapi,
};

/// Inspection of live traffic by hooks.
pub mod inspect {
    pub use backstop_gateway::inspect::{
        BlockedForm, HookSettings, Hooks, TextMode, ToolCalls, Unasked, Unenforceable, UnjudgedMedia,
        api_profile, host_profile,
    };
}
