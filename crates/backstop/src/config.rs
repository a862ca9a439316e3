//! `backstop.yaml`: where it is found, what is wrong with it, and what it says.

pub use backstop_config::{
    Config, ConfigError, CriticalAt, DaemonFailure, Dropped, FILE_NAMES, Guards, HookMode, HookSlot,
    HookType, Host, HostRule, InRepository, KnownNames, LayerKind, LiveApprovals, Loaded, Loader, Locations,
    Notify, Place, PluginRuntime, Problem, ProblemKind, SandboxMode, SandboxWrite, Setting, Source, Spanned,
    Text, account, schema,
};
