//! Coding agents: their hook protocols, and our entries in their settings.

pub use backstop_clients::{
    Answer, Attended, CallDecision, Client, ClientEvent, Degradation, Evidence, MAX_PAYLOAD_BYTES,
    MAX_REASON_BYTES, Moment, MomentKind, OnFailure, Payload, PayloadError, PromptDecision, Reason, Reply,
    ResultDecision, Sample, StopDecision, UnknownClient, Wish, points, refuse, respond, universal_deny,
};

/// Putting the entries into the settings, and taking them out.
pub mod install {
    pub use backstop_clients::install::{
        ApplyError, Change, ConfigError, Fixed, Folders, HookCommand, InvalidProgram, Loader, Machine,
        MachineFacts, MachineFile, Once, OnceError, Plan, PlanError, Program, STATUS_WORD, Scope, Status,
        StatusLine, Switch, Whose, folder_variables, is_trusted, loaders, machine_facts, machine_files,
        plan_install, plan_once, plan_uninstall, status, status_line, status_line_files, switches,
    };

    /// Sending a client's model calls to a gateway for one run.
    pub mod pointing {
        pub use backstop_clients::install::pointing::{
            Clouds, Gateway, LoginProvider, Pointed, PointingError, Surroundings, login_provider, point,
        };
    }
}
