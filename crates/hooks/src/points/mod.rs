//! The catalogue: every hook point, in one table.
//!
//! The table below is the single definition from which the point types, [`PointId`], the listings, the
//! JSON Schemas and the engine's registry are generated. It does not say which host fires which point; the
//! hosts do, each in its [`HostProfile`](crate::HostProfile).

mod lifecycle;
mod messages;
mod model;
mod tools;

pub use lifecycle::*;
pub use messages::*;
pub use model::*;
pub use tools::*;

use schemars::JsonSchema;

use crate::digest::leaves;
use crate::outcome::{Nothing, Outcome};
use crate::point::{
    ClaimPoint, DecidePoint, Event, FailurePolicy, Family, Mode, ObservePoint, Point, PointInfo,
};

/// Calls a macro with the table of all points, one row each:
/// `Type, "wire_name", mode, family, failure, budget_ms, conversation_access, prompt_injection, event, outcome;`
#[macro_export]
macro_rules! for_each_point {
    ($callback:path) => {
        $callback! {
            MessageBefore, "message.before", Decide, Model, Closed, 15_000, true, true, MessageBeforeEvent, MessageBeforeOutcome,
                "rewrites a message before the agent sees it, and tags it";
            ParamsBefore, "params.before", Decide, Model, Closed, 15_000, true, false, ParamsBeforeEvent, ParamsBeforeOutcome,
                "sets thinking, reasoning and temperature of a turn";
            BeforeModelResolve, "before_model_resolve", Decide, Model, Open, 15_000, true, false, ModelResolveEvent, ModelResolveOutcome,
                "chooses another provider or model, before the conversation is loaded";
            AgentTurnPrepare, "agent_turn_prepare", Decide, Model, Open, 15_000, true, true, TurnPrepareEvent, ContextOutcome,
                "adds context to this turn, queued injections in view";
            BeforePromptBuild, "before_prompt_build", Decide, Model, Open, 15_000, true, true, PromptBuildEvent, PromptBuildOutcome,
                "adds to the prompt, replaces the system prompt, narrows the tools";
            BeforeAgentStart, "before_agent_start", Decide, Model, Open, 15_000, true, true, PromptBuildEvent, AgentStartOutcome,
                "model choice and prompt building in one, for old plugins";
            BeforeAgentRun, "before_agent_run", Decide, Model, Closed, 15_000, true, false, AgentRunEvent, AgentRunOutcome,
                "lets a run pass or stops it before a model reads the prompt";
            BeforeAgentReply, "before_agent_reply", Claim, Model, Open, 15_000, true, false, AgentReplyEvent, AgentReplyOutcome,
                "answers the turn without a model, or with silence";
            BeforeLlmCall, "before_llm_call", Decide, Model, Closed, 15_000, true, true, BeforeLlmCallEvent, BeforeLlmCallOutcome,
                "rewrites what a model reads, narrows its tools, or stops the call";
            ModelCallStarted, "model_call_started", Observe, Model, Open, 5_000, false, false, ModelCallStartedEvent, Nothing,
                "sees that a model call began, without content";
            ModelCallEnded, "model_call_ended", Observe, Model, Open, 5_000, false, false, ModelCallEndedEvent, Nothing,
                "sees how a model call ended, without content";
            LlmInput, "llm_input", Observe, Model, Open, 30_000, true, false, LlmInputEvent, Nothing,
                "sees what a model is given";
            LlmOutput, "llm_output", Observe, Model, Open, 30_000, true, false, LlmOutputEvent, Nothing,
                "sees what a model answered";
            AfterLlmCall, "after_llm_call", Decide, Model, Closed, 15_000, true, false, AfterLlmCallEvent, AfterLlmCallOutcome,
                "removes tool calls of an answer, or the answer, before any tool starts";
            BeforeAgentFinalize, "before_agent_finalize", Decide, Model, Open, 15_000, true, false, AgentFinalizeEvent, AgentFinalizeOutcome,
                "asks for another pass before an answer is final";
            BeforeResponseEmit, "before_response_emit", Decide, Model, Closed, 15_000, true, false, ResponseEmitEvent, ResponseEmitOutcome,
                "rewrites or stops the answer before it leaves";
            AgentEnd, "agent_end", Observe, Model, Open, 30_000, true, false, AgentEndEvent, Nothing,
                "sees that a turn is over";
            HeartbeatPromptContribution, "heartbeat_prompt_contribution", Decide, Model, Open, 15_000, false, true, HeartbeatEvent, ContextOutcome,
                "adds context to a background turn";

            TrustedToolPolicy, "trusted_tool_policy", Decide, Tools, Closed, 15_000, false, false, ToolCallEvent, TrustedPolicyOutcome,
                "the operator's own gate, before all others";
            ToolBefore, "tool.before", Decide, Tools, Closed, 15_000, false, false, ToolBeforeEvent, ToolBeforeOutcome,
                "edits a tool's arguments in place, or stops the call";
            BeforeToolCall, "before_tool_call", Decide, Tools, Closed, 15_000, false, false, ToolCallEvent, ToolCallOutcome,
                "rewrites a tool's arguments, stops the call, or asks a human";
            ToolAfter, "tool.after", Decide, Tools, Closed, 15_000, false, false, ToolAfterEvent, ToolAfterOutcome,
                "edits a tool's result before the model reads it";
            AfterToolCall, "after_tool_call", Observe, Tools, Open, 30_000, false, false, AfterToolCallEvent, Nothing,
                "sees that a tool has run, with its result";
            ResolveExecEnv, "resolve_exec_env", Decide, Tools, Open, 15_000, false, false, ExecEnvEvent, ExecEnvOutcome,
                "adds environment variables to a command";
            ToolResultPersist, "tool_result_persist", Decide, Tools, Closed, 1_000, false, false, ToolResultPersistEvent, ToolResultPersistOutcome,
                "rewrites a tool's result before it is stored";
            BeforeMessageWrite, "before_message_write", Decide, Tools, Closed, 1_000, false, false, MessageWriteEvent, MessageWriteOutcome,
                "rewrites or stops a message before it is stored";

            InboundClaim, "inbound_claim", Claim, Messages, Open, 15_000, false, false, InboundClaimEvent, InboundClaimOutcome,
                "takes a message before an agent is chosen";
            MessageReceived, "message_received", Observe, Messages, Open, 5_000, false, false, MessageReceivedEvent, Nothing,
                "sees a message that came in";
            BeforeDispatch, "before_dispatch", Claim, Messages, Open, 15_000, false, false, BeforeDispatchEvent, BeforeDispatchOutcome,
                "answers in the agent's place";
            ReplyDispatch, "reply_dispatch", Claim, Messages, Open, 15_000, false, false, ReplyDispatchEvent, ReplyDispatchOutcome,
                "delivers an answer in the host's place";
            MessageSending, "message_sending", Decide, Messages, Closed, 15_000, false, false, MessageSendingEvent, MessageSendingOutcome,
                "rewrites or stops a text that goes out";
            ReplyPayloadSending, "reply_payload_sending", Decide, Messages, Closed, 15_000, false, false, ReplyPayloadEvent, ReplyPayloadOutcome,
                "rewrites or stops a rich answer that goes out";
            MessageSent, "message_sent", Observe, Messages, Open, 5_000, false, false, MessageSentEvent, Nothing,
                "sees a text that went out or failed to";
            ChannelPairingRequested, "channel_pairing_requested", Observe, Messages, Open, 5_000, false, false, PairingRequestedEvent, Nothing,
                "sees that somebody unknown wants to talk to the agent";

            SessionStart, "session_start", Observe, Lifecycle, Open, 5_000, false, false, SessionStartEvent, Nothing,
                "sees that a session begins";
            SessionEnd, "session_end", Observe, Lifecycle, Open, 2_000, false, false, SessionEndEvent, Nothing,
                "sees that a session is over";
            BeforeCompaction, "before_compaction", Observe, Lifecycle, Open, 30_000, false, false, BeforeCompactionEvent, Nothing,
                "sees that a conversation is about to be summed up";
            AfterCompaction, "after_compaction", Observe, Lifecycle, Open, 30_000, false, false, AfterCompactionEvent, Nothing,
                "sees that a conversation was summed up";
            BeforeReset, "before_reset", Observe, Lifecycle, Open, 5_000, false, false, BeforeResetEvent, Nothing,
                "sees that a conversation is about to be forgotten";
            SubagentSpawned, "subagent_spawned", Observe, Lifecycle, Open, 5_000, false, false, SubagentEvent, Nothing,
                "sees that a sub-agent begins";
            SubagentProgress, "subagent_progress", Observe, Lifecycle, Open, 5_000, false, false, SubagentEvent, Nothing,
                "sees how a sub-agent gets on";
            SubagentEnded, "subagent_ended", Observe, Lifecycle, Open, 5_000, false, false, SubagentEvent, Nothing,
                "sees that a sub-agent is done";
            SubagentSpawning, "subagent_spawning", Decide, Lifecycle, Open, 15_000, false, false, SubagentEvent, SubagentSpawningOutcome,
                "kept for old plugins";
            SubagentDeliveryTarget, "subagent_delivery_target", Decide, Lifecycle, Open, 15_000, false, false, SubagentDeliveryEvent, SubagentDeliveryOutcome,
                "says where a finished child's answer goes";
            GatewayStart, "gateway_start", Observe, Lifecycle, Open, 5_000, false, false, GatewayStartEvent, Nothing,
                "sees that the server listens";
            GatewayStop, "gateway_stop", Observe, Lifecycle, Open, 5_000, false, false, GatewayStopEvent, Nothing,
                "sees that the server stops";
            CronChanged, "cron_changed", Observe, Lifecycle, Open, 5_000, false, false, CronChangedEvent, Nothing,
                "sees that a scheduled job changed, began or ended";
            CronReconciled, "cron_reconciled", Observe, Lifecycle, Open, 5_000, false, false, CronReconciledEvent, Nothing,
                "sees that the schedule was loaded";
            BeforeInstall, "before_install", Decide, Lifecycle, Closed, 15_000, false, false, BeforeInstallEvent, BeforeInstallOutcome,
                "reports findings on an installation, or stops it";
        }
    };
}

const fn aliases(point: PointId) -> &'static [&'static str] {
    match point {
        PointId::GatewayStop => &["deactivate"],
        _ => &[],
    }
}

const fn deprecated(point: PointId) -> Option<&'static str> {
    match point {
        PointId::BeforeAgentStart => Some("use `before_model_resolve` and `before_prompt_build`"),
        PointId::SubagentSpawning => Some("use `subagent_spawned`"),
        PointId::SubagentDeliveryTarget => Some("session bindings route a child's answer"),
        _ => None,
    }
}

macro_rules! catalogue {
    ($($point:ident, $name:literal, $mode:ident, $family:ident, $failure:ident, $budget:literal, $access:literal, $injection:literal,
       $event:ident, $outcome:ident, $summary:literal;)*) => {
        /// Which hook point. The order is that of the catalogue.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum PointId {
            $(#[doc = concat!("`", $name, "`: ", $summary, ".")] $point,)*
        }

        impl PointId {
            /// All points.
            pub const ALL: &'static [Self] = &[$(Self::$point,)*];

            /// Returns what is known about the point.
            pub const fn info(self) -> &'static PointInfo {
                match self {
                    $(Self::$point => $point::INFO,)*
                }
            }

            /// Returns the JSON Schema of this point's event, without the `context` that every event has.
            pub fn event_schema(self) -> schemars::Schema {
                match self {
                    $(Self::$point => schema::<$event>(),)*
                }
            }

            /// Returns the JSON Schema of this point's outcome.
            pub fn outcome_schema(self) -> schemars::Schema {
                match self {
                    $(Self::$point => schema::<$outcome>(),)*
                }
            }
        }

        $(
            #[doc = concat!("The point `", $name, "`: ", $summary, ".")]
            #[derive(Clone, Copy, Debug)]
            pub enum $point {}

            impl crate::point::sealed::Sealed for $point {}

            impl Point for $point {
                const INFO: &'static PointInfo = &PointInfo {
                    id: PointId::$point,
                    name: $name,
                    aliases: aliases(PointId::$point),
                    summary: $summary,
                    family: Family::$family,
                    mode: Mode::$mode,
                    failure: FailurePolicy::$failure,
                    budget_ms: $budget,
                    conversation_access: $access,
                    prompt_injection: $injection,
                    deprecated: deprecated(PointId::$point),
                    fields: <$outcome as Outcome>::FIELDS,
                };
                type Event = $event;
                type Outcome = $outcome;
            }

            catalogue!(@mode $mode $point);
        )*
    };
    (@mode Decide $point:ident) => { impl DecidePoint for $point {} };
    (@mode Observe $point:ident) => { impl ObservePoint for $point {} };
    (@mode Claim $point:ident) => { impl ClaimPoint for $point {} };
}

for_each_point!(catalogue);

/// Returns the JSON Schema of the `context` that every event has in its JSON form, without the owner's `pluginConfig`.
pub fn context_schema() -> schemars::Schema {
    schema::<crate::hook::CallContext>()
}

fn schema<T: JsonSchema>() -> schemars::Schema {
    let mut schema = schemars::SchemaGenerator::default().into_root_schema_for::<T>();
    schemars::transform::Transform::transform(&mut AbsentIsNotNull, &mut schema);
    schema
}

/// An optional field is absent or has its type; the wire form refuses `null`, and so does the schema.
struct AbsentIsNotNull;

impl schemars::transform::Transform for AbsentIsNotNull {
    fn transform(&mut self, schema: &mut schemars::Schema) {
        schemars::transform::transform_subschemas(self, schema);
        if schema.get("default").is_some_and(serde_json::Value::is_null) {
            schema.remove("default");
        }
        if let Some(serde_json::Value::Array(values)) = schema.get_mut("enum") {
            values.retain(|value| !value.is_null());
        }
        if let Some(serde_json::Value::Array(types)) = schema.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                schema.insert("type".to_owned(), only);
            }
        }
        if let Some(serde_json::Value::Array(forms)) = schema.get_mut("anyOf") {
            forms.retain(|form| form.get("type").is_none_or(|name| name != "null"));
            if let [serde_json::Value::Object(only)] = forms.as_slice() {
                let only = only.clone();
                schema.remove("anyOf");
                for (key, value) in only {
                    schema.insert(key, value);
                }
            }
        }
    }
}

macro_rules! observed {
    ($($event:ident)*) => {$(impl Event<Nothing> for $event {})*};
}

observed! {
    ModelCallStartedEvent ModelCallEndedEvent LlmOutputEvent
    MessageReceivedEvent MessageSentEvent PairingRequestedEvent
    SessionStartEvent SessionEndEvent BeforeCompactionEvent AfterCompactionEvent SubagentEvent
    GatewayStartEvent GatewayStopEvent CronChangedEvent CronReconciledEvent
}

impl Event<Nothing> for LlmInputEvent {
    leaves!(history_messages: "historyMessages", system_prompt: "systemPrompt", prompt: "prompt", tools: "tools");
}

impl Event<Nothing> for AgentEndEvent {
    leaves!(messages: "messages");
}

impl Event<Nothing> for BeforeResetEvent {
    leaves!(messages: "messages");
}

impl Event<AgentFinalizeOutcome> for AgentFinalizeEvent {
    leaves!(messages: "messages", last_assistant_message: "lastAssistantMessage");
}

impl Event<ContextOutcome> for TurnPrepareEvent {
    leaves!(messages: "messages", prompt: "prompt");
}

/// Takes over a proposed value. Returns whether it is another one.
fn take<T: Clone + PartialEq>(current: &mut T, next: &Option<T>) -> bool {
    match next {
        Some(next) if next != current => {
            *current = next.clone();
            true
        }
        _ => false,
    }
}

/// As [`take`], for a value that may be absent.
fn take_some<T: Clone + PartialEq>(current: &mut Option<T>, next: &Option<T>) -> bool {
    match next {
        Some(_) if next != current => {
            current.clone_from(next);
            true
        }
        _ => false,
    }
}
