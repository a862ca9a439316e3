//! The agent that Backstop runs itself.

pub use backstop_agent::{
    Agent, AgentError, AgentParts, AgentSession, AgentSettings, Compaction, Fresh, HoldBack, ImageAttachment,
    Leaving, Models, OneModel, Output, SessionChoice, SessionExpiry, Shown, Stage, StageSink, TurnError,
    TurnInput, TurnOutcome, TurnReport, TurnTrigger, UnknownModel, Verbosity, host_profile,
};

/// The tools of the agent, and how a program adds its own.
pub mod tools {
    pub use backstop_agent::tools::{
        Caller, CancelToken, Limits, ProcessTable, Tool, ToolContext, ToolError, ToolOutput, ToolSpec,
        Toolbox, Workspace, WorkspaceError,
    };
}
