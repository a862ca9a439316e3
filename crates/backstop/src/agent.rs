//! The agent that Backstop runs itself.

pub use backstop_agent::{
    Agent, AgentError, AgentParts, AgentSession, AgentSettings, Compaction, HoldBack, ImageAttachment,
    Models, OneModel, Output, SessionChoice, Shown, TurnError, TurnInput, TurnOutcome, TurnReport,
    TurnTrigger, UnknownModel, Verbosity,
};

/// The tools of the agent, and how a program adds its own.
pub mod tools {
    pub use backstop_agent::tools::{
        CancelToken, Limits, ProcessTable, Tool, ToolContext, ToolError, ToolOutput, ToolSpec, Toolbox,
        Workspace, WorkspaceError,
    };
}
