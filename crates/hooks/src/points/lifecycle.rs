//! D: sessions, sub-agents, life cycle.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conversation::Message;
use crate::id::{AgentId, RunId, SessionId, SessionKey};
use crate::outcome::{event, outcome, record};
use crate::point::Event;
use crate::reason::Reason;
use crate::value::{Json, Params, Text};

record! {
    /// `session_start`: a stretch of a conversation begins.
    pub struct SessionStartEvent {
        /// The session.
        session_id: SessionId,
        /// The conversation.
        session_key?: SessionKey,
        /// The session it goes on from.
        resumed_from?: SessionId,
    }
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SessionEndReason {
    /// Another session was begun.
    New,
    /// The conversation was reset.
    Reset,
    /// Nothing happened for long.
    Idle,
    /// The daily reset.
    Daily,
    /// The session was compacted into another.
    Compaction,
    /// The session was deleted.
    Deleted,
    /// The process stops.
    Shutdown,
    /// The process restarts.
    Restart,
    /// Not known.
    Unknown,
}

record! {
    /// `session_end`: a stretch of a conversation is over.
    pub struct SessionEndEvent {
        /// The session.
        session_id: SessionId,
        /// The conversation.
        session_key?: SessionKey,
        /// How many messages it has.
        message_count: u32,
        /// How long it lasted, in milliseconds.
        duration_ms?: u64,
        /// Why it ended.
        reason: SessionEndReason,
        /// The session that follows.
        next_session_id?: SessionId,
    }
}

record! {
    /// `before_compaction`: the conversation is about to be summed up.
    pub struct BeforeCompactionEvent {
        /// How many messages there are.
        message_count: u32,
        /// About how many tokens they have.
        token_count?: u64,
    }
}

record! {
    /// `after_compaction`: the conversation has been summed up.
    pub struct AfterCompactionEvent {
        /// How many messages there are now.
        message_count: u32,
        /// About how many tokens they have.
        token_count?: u64,
        /// How many messages the summary stands for.
        compacted_count: u32,
    }
}

record! {
    /// `before_reset`: the conversation is about to be forgotten.
    pub struct BeforeResetEvent {
        /// The messages.
        messages?: Vec<Message>,
        /// Why.
        reason?: String,
    }
}

/// Whether a sub-agent does one thing or stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpawnMode {
    /// One run.
    Run,
    /// A session of its own.
    Session,
}

record! {
    /// `subagent_spawned`, `subagent_progress`, `subagent_ended` and, for old plugins,
    /// `subagent_spawning`.
    pub struct SubagentEvent {
        /// The child's conversation.
        child_session_key: SessionKey,
        /// The child.
        agent_id: AgentId,
        /// Whether it does one thing or stays.
        mode: SpawnMode,
        /// The child's turn.
        run_id: RunId,
        /// The model it runs on.
        resolved_model?: String,
        /// The provider it runs on.
        resolved_provider?: String,
        /// How it ended.
        outcome?: String,
    }
}

outcome! {
    /// `subagent_spawning`: kept for old plugins; nothing in it has an effect any more.
    pub struct SubagentSpawningOutcome {
        /// Where the old plugin would have routed the child.
        thread_id / "threadId": String => First,
    }
}

impl Event<SubagentSpawningOutcome> for SubagentEvent {}

record! {
    /// A place in a channel.
    pub struct Origin {
        /// The channel.
        channel?: String,
        /// The account on it.
        account_id?: String,
        /// The receiver.
        to?: String,
        /// The thread.
        thread_id?: String,
    }
}

record! {
    /// `subagent_delivery_target`: where does a finished child's answer go?
    pub struct SubagentDeliveryEvent {
        /// The child's conversation.
        child_session_key: SessionKey,
        /// The conversation that asked for the child.
        requester_session_key: SessionKey,
        /// Where that conversation is.
        requester_origin?: Origin,
        /// Whether the child does one thing or stays.
        spawn_mode?: SpawnMode,
    }
}

outcome! {
    /// `subagent_delivery_target`: a place.
    pub struct SubagentDeliveryOutcome {
        /// Where the answer goes.
        origin / "origin": Origin => AnyOf,
    }
}

impl Event<SubagentDeliveryOutcome> for SubagentDeliveryEvent {}

record! {
    /// `gateway_start`: the server listens.
    pub struct GatewayStartEvent {
        /// On this port.
        port: u16,
    }
}

record! {
    /// `gateway_stop`: the server is stopping.
    pub struct GatewayStopEvent {
        /// Why.
        reason?: String,
    }
}

/// What happened to a scheduled job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CronAction {
    /// It is new.
    Added,
    /// It is another.
    Updated,
    /// It is gone; the event carries its last state.
    Removed,
    /// It runs.
    Started,
    /// It has run.
    Finished,
    /// Its next run is fixed.
    Scheduled,
}

/// Whether a job's answer was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeliveryStatus {
    /// Nobody asked for it.
    NotRequested,
    /// It was.
    Delivered,
    /// It was not.
    NotDelivered,
    /// Not known.
    Unknown,
}

record! {
    /// `cron_changed`: a scheduled job changed, began or ended.
    pub struct CronChangedEvent {
        /// What happened.
        action: CronAction,
        /// The job.
        job_id: String,
        /// The job as it is now, or was last.
        job?: Json,
        /// Whether its answer was delivered.
        delivery_status?: DeliveryStatus,
        /// Its turn.
        run_id?: RunId,
        /// Unix time of its next run, in milliseconds.
        next_run_at_ms?: i64,
    }
}

record! {
    /// `cron_reconciled`: the schedule was loaded.
    pub struct CronReconciledEvent {
        /// Why (`startup`, `reload`).
        reason: String,
        /// Whether schedules run at all.
        enabled: bool,
    }
}

/// What is being installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InstallTarget {
    /// A skill.
    Skill,
    /// A plugin.
    Plugin,
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourcePathKind {
    /// A file.
    File,
    /// A folder.
    Directory,
}

event! {
    /// `before_install`: a skill or plugin is about to be installed.
    pub struct BeforeInstallEvent {
        /// What it is.
        target_type: InstallTarget,
        /// Its name.
        target_name: String,
        /// Where its files are.
        source_path: String,
        /// Whether that is a file or a folder.
        source_path_kind?: SourcePathKind,
        /// Where they came from, as the installer says.
        origin?: String,
        /// How it was asked for: `kind` (`skill-install`, `plugin-npm`, ...), `mode` (`install`, `update`) and
        /// `requestedSpecifier`.
        request: Params,
        /// What the installer's own scan found.
        builtin_scan?: Params,
        /// Facts about a plugin.
        plugin?: Params,
        /// Facts about a skill.
        skill?: Params,
    }
}

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FindingSeverity {
    /// Worth knowing.
    Info,
    /// Worth a look.
    Warn,
    /// A reason not to install.
    Critical,
}

record! {
    /// Something a hook found in what is to be installed.
    #[serde(deny_unknown_fields)]
    pub struct Finding {
        /// Which rule.
        rule_id: String,
        /// How grave.
        severity: FindingSeverity,
        /// What.
        message: Text,
        /// In which file.
        file?: String,
        /// In which line.
        line?: u32,
    }
}

outcome! {
    /// `before_install`: findings, or no installation.
    pub struct BeforeInstallOutcome {
        /// What was found.
        findings / "findings": Vec<Finding> => Collect,
        /// Don't install.
        block / "block": bool => Block,
        /// Why.
        block_reason / "blockReason": Reason => BlockReason,
    }
}

impl Event<BeforeInstallOutcome> for BeforeInstallEvent {}
