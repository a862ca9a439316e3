//! A: around model calls. From the message that starts a turn to the answer that leaves it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conversation::{Message, TokenUsage, ToolCall, ToolSpec};
use crate::id::{AgentId, CallId, RunId, SessionId, SessionKey, ToolCallId};
use crate::latch::{Field, Intersect, Latch};
use crate::outcome::{Malformed, Outcome, outcome, record};
use crate::point::{Claim, Event};
use crate::tool_name::{ToolName, group};
use crate::value::{Json, Params, Text};

record! {
    /// `message.before`: a message has come in and the agent has not seen it yet.
    pub struct MessageBeforeEvent {
        /// The agent.
        agent_id: AgentId,
        /// The conversation.
        session_key?: SessionKey,
        /// The provider that will be asked.
        provider: String,
        /// The model that will be asked.
        model: String,
        /// The message, as the interceptor before left it.
        message: Text,
        /// Tags for `params.before`.
        metadata: Params,
    }
}

outcome! {
    /// `message.before`: what an interceptor may change.
    pub struct MessageBeforeOutcome {
        /// Another text for the agent.
        message / "message": Text => Chain,
        /// Other tags: the whole bag.
        metadata / "metadata": Params => Chain,
    }
}

impl Event<MessageBeforeOutcome> for MessageBeforeEvent {
    fn absorb(&mut self, merged: &MessageBeforeOutcome) -> bool {
        let text = take(&mut self.message, &merged.message);
        let tags = take(&mut self.metadata, &merged.metadata);
        text || tags
    }
}

fn take<T: Clone + PartialEq>(current: &mut T, next: &Option<T>) -> bool {
    match next {
        Some(next) if next != current => {
            *current = next.clone();
            true
        }
        _ => false,
    }
}

fn take_some<T: Clone + PartialEq>(current: &mut Option<T>, next: &Option<T>) -> bool {
    match next {
        Some(_) if next != current => {
            current.clone_from(next);
            true
        }
        _ => false,
    }
}

/// How much a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ThinkLevel {
    /// Not at all.
    Off,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// A lot.
    High,
}

/// Whether the model's reasoning is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningLevel {
    /// Hidden.
    Off,
    /// Shown.
    On,
}

record! {
    /// `params.before`: the parameters of the turn are being fixed.
    pub struct ParamsBeforeEvent {
        /// The agent.
        agent_id: AgentId,
        /// The conversation.
        session_key?: SessionKey,
        /// The message, as `message.before` left it.
        message: Text,
        /// The tags of `message.before`.
        metadata: Params,
        /// The provider; read-only here.
        provider: String,
        /// The model; read-only here.
        model: String,
        /// The thinking level so far.
        think_level?: ThinkLevel,
        /// Whether reasoning is shown, so far.
        reasoning_level?: ReasoningLevel,
        /// The sampling temperature so far.
        temperature?: f64,
    }
}

outcome! {
    /// `params.before`: what an interceptor may change.
    pub struct ParamsBeforeOutcome {
        /// How much the model thinks.
        think_level / "thinkLevel": ThinkLevel => Chain,
        /// Whether reasoning is shown.
        reasoning_level / "reasoningLevel": ReasoningLevel => Chain,
        /// The sampling temperature.
        temperature / "temperature": f64 => Chain,
    }
}

impl Event<ParamsBeforeOutcome> for ParamsBeforeEvent {
    fn absorb(&mut self, merged: &ParamsBeforeOutcome) -> bool {
        let think = take_some(&mut self.think_level, &merged.think_level);
        let reasoning = take_some(&mut self.reasoning_level, &merged.reasoning_level);
        let temperature = take_some(&mut self.temperature, &merged.temperature);
        think || reasoning || temperature
    }

    fn check(&self, answer: &ParamsBeforeOutcome) -> Result<(), Malformed> {
        match answer.temperature {
            Some(t) if !(0.0..=2.0).contains(&t) => Err(Malformed::new("`temperature` is between 0 and 2")),
            _ => Ok(()),
        }
    }
}

/// What an attachment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AttachmentKind {
    /// A picture.
    Image,
    /// A film.
    Video,
    /// Sound.
    Audio,
    /// A document.
    Document,
    /// Anything else.
    Other,
}

record! {
    /// An attachment of the message, without its content.
    pub struct Attachment {
        /// What it is.
        kind: AttachmentKind,
        /// Its media type.
        mime_type?: String,
    }
}

record! {
    /// `before_model_resolve`: the model is being chosen; the conversation is not loaded yet.
    pub struct ModelResolveEvent {
        /// The message of this turn.
        prompt: Text,
        /// What is attached to it.
        attachments?: Vec<Attachment>,
    }
}

outcome! {
    /// `before_model_resolve`: another provider or model.
    pub struct ModelResolveOutcome {
        /// The provider to use.
        provider_override / "providerOverride": String => First,
        /// The model to use.
        model_override / "modelOverride": String => First,
    }
}

impl Event<ModelResolveOutcome> for ModelResolveEvent {}

/// Where a queued injection goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Before the prompt.
    #[default]
    PrependContext,
    /// After the prompt.
    AppendContext,
}

record! {
    /// Text that a plugin queued for the next turn, delivered exactly once.
    pub struct QueuedInjection {
        /// Which injection.
        id: String,
        /// Who queued it.
        #[serde(rename = "pluginId")]
        owner: crate::id::OwnerId,
        /// The text.
        text: Text,
        /// Where it goes.
        placement: Placement,
    }
}

record! {
    /// `agent_turn_prepare`: the turn's context is being put together.
    pub struct TurnPrepareEvent {
        /// The message of this turn.
        prompt: Text,
        /// The conversation so far.
        messages: Vec<Message>,
        /// What plugins had queued for this turn.
        queued_injections: Vec<QueuedInjection>,
    }
}

outcome! {
    /// Context around the prompt of this turn.
    pub struct ContextOutcome {
        /// Text before the prompt.
        prepend_context / "prependContext": Text => Append,
        /// Text after the prompt.
        append_context / "appendContext": Text => Append,
    }
}

impl Event<ContextOutcome> for TurnPrepareEvent {}

record! {
    /// `heartbeat_prompt_contribution`: a background turn is being prepared.
    pub struct HeartbeatEvent {
        /// The conversation.
        session_key?: SessionKey,
        /// The agent.
        agent_id?: AgentId,
        /// Which monitor.
        heartbeat_name?: String,
    }
}

impl Event<ContextOutcome> for HeartbeatEvent {}

record! {
    /// `before_prompt_build` and, for old plugins, `before_agent_start`: the prompt is being built.
    pub struct PromptBuildEvent {
        /// The message of this turn.
        prompt: Text,
        /// The conversation so far.
        messages: Vec<Message>,
        /// The message that started the turn, as stored.
        current_user_message?: Message,
    }
}

/// A list of tools a hook allows: names and `group:<name>`; `*` is every tool. Anything malformed in it
/// means *no tool*: a list that was meant to restrict must not fail to restrict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct ToolsAllow(Vec<String>);

impl ToolsAllow {
    /// A list of names and groups.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        let mut allowed: Vec<String> = Vec::new();
        for name in names {
            let name = name.into();
            match group(&name) {
                Some(tools) => allowed.extend(tools.iter().map(|tool| (*tool).to_owned())),
                None => allowed.push(ToolName::new(&name).as_str().to_owned()),
            }
        }
        allowed.sort_unstable();
        allowed.dedup();
        Self(allowed)
    }

    /// Whether the list has the tool.
    pub fn allows(&self, tool: &ToolName) -> bool {
        self.0.iter().any(|name| name == "*" || name == tool.as_str())
    }
}

impl<'de> Deserialize<'de> for ToolsAllow {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = match Value::deserialize(deserializer)? {
            Value::Array(items) => items
                .into_iter()
                .map(|item| match item {
                    Value::String(name) if !name.trim().is_empty() => Some(name),
                    _ => None,
                })
                .collect::<Option<Vec<_>>>()
                .unwrap_or_default(),
            _ => Vec::new(),
        };
        Ok(Self::new(names))
    }
}

impl Intersect for ToolsAllow {
    fn intersect(&mut self, other: Self) {
        if self.0.iter().any(|name| name == "*") {
            *self = other;
        } else if !other.0.iter().any(|name| name == "*") {
            self.0.retain(|name| other.0.contains(name));
        }
    }
}

outcome! {
    /// What may be said while the prompt is built.
    pub struct PromptBuildOutcome {
        /// Another system prompt.
        system_prompt / "systemPrompt": Text => First,
        /// Text before the prompt.
        prepend_context / "prependContext": Text => Append,
        /// Text after the prompt.
        append_context / "appendContext": Text => Append,
        /// Text before the system prompt.
        prepend_system_context / "prependSystemContext": Text => Append,
        /// Text after the system prompt.
        append_system_context / "appendSystemContext": Text => Append,
        /// The tools that this turn may use.
        tools_allow / "toolsAllow": ToolsAllow => Narrow,
    }
}

impl Event<PromptBuildOutcome> for PromptBuildEvent {}

outcome! {
    /// `before_agent_start`: `before_model_resolve` and `before_prompt_build` in one, for old plugins.
    pub struct AgentStartOutcome {
        /// The provider to use.
        provider_override / "providerOverride": String => First,
        /// The model to use.
        model_override / "modelOverride": String => First,
        /// Another system prompt.
        system_prompt / "systemPrompt": Text => First,
        /// Text before the prompt.
        prepend_context / "prependContext": Text => Append,
        /// Text after the prompt.
        append_context / "appendContext": Text => Append,
        /// Text before the system prompt.
        prepend_system_context / "prependSystemContext": Text => Append,
        /// Text after the system prompt.
        append_system_context / "appendSystemContext": Text => Append,
        /// The tools that this turn may use.
        tools_allow / "toolsAllow": ToolsAllow => Narrow,
    }
}

impl Event<AgentStartOutcome> for PromptBuildEvent {}

record! {
    /// `before_agent_run`: the prompt is final and no model has read it.
    pub struct AgentRunEvent {
        /// The message of this turn.
        prompt: Text,
        /// The conversation so far.
        messages: Vec<Message>,
        /// The system prompt.
        system_prompt?: Text,
        /// Who sent the message.
        sender_id?: String,
        /// Whether the sender owns this agent.
        sender_is_owner?: bool,
    }
}

/// `before_agent_run`: run or stop. The shape is strict, since a gate that is misunderstood is open:
/// anything that is not exactly one of the two forms, `null` included, is a failed hook and so a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "lowercase", deny_unknown_fields)]
pub enum AgentRunOutcome {
    /// Let it run.
    Pass {},
    /// Stop it before the model reads the prompt.
    Block {
        /// Internal: never shown to the user, never logged.
        reason: Text,
        /// What the user reads, and what is stored in place of the prompt.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "crate::outcome::present"
        )]
        message: Option<Text>,
        /// A coarse class for statistics.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "crate::outcome::present"
        )]
        category: Option<String>,
        /// Facts for programs.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "crate::outcome::present"
        )]
        metadata: Option<Params>,
    },
}

impl Default for AgentRunOutcome {
    fn default() -> Self {
        Self::Pass {}
    }
}

impl Outcome for AgentRunOutcome {
    const FIELDS: &'static [Field] = &[Field { name: "outcome", latch: Latch::Block }];

    fn merge(&mut self, next: Self) -> Vec<&'static str> {
        if !self.blocks() {
            *self = next;
        }
        Vec::new()
    }

    fn blocks(&self) -> bool {
        matches!(self, Self::Block { .. })
    }

    fn block_reason(&self) -> Option<&Text> {
        match self {
            Self::Block { reason, .. } => Some(reason),
            Self::Pass {} => None,
        }
    }

    fn from_json(value: Value) -> Result<Option<Self>, Malformed> {
        serde_json::from_value(value).map(Some).map_err(|error| Malformed::new(error.to_string()))
    }
}

impl Event<AgentRunOutcome> for AgentRunEvent {
    fn check(&self, answer: &AgentRunOutcome) -> Result<(), Malformed> {
        let AgentRunOutcome::Block { reason, message, category, .. } = answer else { return Ok(()) };
        let blank = |text: &str| text.trim().is_empty();
        if blank(reason) {
            return Err(Malformed::new("`reason` is blank"));
        }
        if message.as_deref().is_some_and(blank) || category.as_deref().is_some_and(blank) {
            return Err(Malformed::new("`message` or `category` is blank"));
        }
        Ok(())
    }
}

record! {
    /// `before_agent_reply`: the turn could still be answered without a model.
    pub struct AgentReplyEvent {
        /// The prepared message.
        cleaned_body: Text,
    }
}

/// `before_agent_reply`: whether the hook takes the turn. `handled` without a `reply` is silence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentReplyOutcome {
    /// Whether the turn is answered by this hook.
    pub handled: bool,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::outcome::present")]
    pub reply: Option<Text>,
    /// Why, for the receipt.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::outcome::present")]
    pub reason: Option<Text>,
}

impl Outcome for AgentReplyOutcome {
    const FIELDS: &'static [Field] = super::CLAIM_FIELDS;

    fn merge(&mut self, next: Self) -> Vec<&'static str> {
        if !self.handled {
            *self = next;
        }
        Vec::new()
    }
}

impl Claim for AgentReplyOutcome {
    fn handled(&self) -> bool {
        self.handled
    }
}

impl Event<AgentReplyOutcome> for AgentReplyEvent {}

record! {
    /// A tool that is offered to the model, without its schema.
    pub struct ToolInfo {
        /// The tool's name.
        name: String,
        /// What it does.
        description?: Text,
    }
}

record! {
    /// `before_llm_call`: a model is about to be called.
    pub struct BeforeLlmCallEvent {
        /// The turn.
        run_id: RunId,
        /// What the model will read.
        messages: Vec<Message>,
        /// The system prompt.
        system_prompt: Text,
        /// The model.
        model: String,
        /// The provider.
        provider: String,
        /// 0 for the first call of the turn.
        iteration: u32,
        /// The tools on offer.
        tools: Vec<ToolInfo>,
        /// About how many tokens the request has; at least 1.
        token_estimate: u64,
    }
}

/// The tools a hook leaves on offer, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ToolNames(pub Vec<ToolInfo>);

impl ToolNames {
    /// A list of names.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self(names.into_iter().map(|name| ToolInfo { name: name.into(), description: None }).collect())
    }
}

impl Intersect for ToolNames {
    fn intersect(&mut self, other: Self) {
        self.0.retain(|tool| other.0.iter().any(|o| o.name == tool.name));
    }
}

outcome! {
    /// `before_llm_call`: other input, fewer tools, or no call.
    pub struct BeforeLlmCallOutcome {
        /// Other messages: the whole list.
        messages / "messages": Vec<Message> => First,
        /// Another system prompt; `""` clears it.
        system_prompt / "systemPrompt": Text => First,
        /// The tools to leave on offer; `[]` offers none.
        tools / "tools": ToolNames => Narrow,
        /// Don't call the model.
        block / "block": bool => Block,
        /// Why.
        block_reason / "blockReason": Text => BlockReason,
    }
}

impl Event<BeforeLlmCallOutcome> for BeforeLlmCallEvent {
    fn absorb(&mut self, merged: &BeforeLlmCallOutcome) -> bool {
        let messages = take(&mut self.messages, &merged.messages);
        let system = take(&mut self.system_prompt, &merged.system_prompt);
        let before = self.tools.len();
        if let Some(allowed) = &merged.tools {
            self.tools.retain(|tool| allowed.0.iter().any(|a| a.name == tool.name));
        }
        messages || system || self.tools.len() != before
    }
}

record! {
    /// `model_call_started`: telemetry without content.
    pub struct ModelCallStartedEvent {
        /// The turn.
        run_id: RunId,
        /// The call.
        call_id: CallId,
        /// The provider.
        provider: String,
        /// The model.
        model: String,
        /// The wire (`anthropic-messages`, `openai-chat`).
        api?: String,
        /// How the answer comes (`sse`, `json`).
        transport?: String,
        /// How many tokens the context may have.
        context_token_budget?: u64,
    }
}

/// How a model call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelCallResult {
    /// The answer arrived whole.
    Completed,
    /// It did not.
    Error,
}

record! {
    /// `model_call_ended`: telemetry without content: never a prompt, a text, or a raw request id.
    pub struct ModelCallEndedEvent {
        /// The turn.
        run_id: RunId,
        /// The call.
        call_id: CallId,
        /// The provider.
        provider: String,
        /// The model.
        model: String,
        /// The wire.
        api?: String,
        /// How the answer came.
        transport?: String,
        /// How many tokens the context may have.
        context_token_budget?: u64,
        /// How long the call took, in milliseconds.
        duration_ms: u64,
        /// How it ended.
        outcome: ModelCallResult,
        /// A coarse class of the error (`auth`, `rate_limit`, ...).
        error_category?: String,
        /// How the connection failed (`timeout`, `connection_reset`, ...).
        failure_kind?: String,
        /// Size of the request.
        request_bytes?: u64,
        /// Size of the answer.
        response_bytes?: u64,
        /// Time to the first byte of the answer, in milliseconds.
        time_to_first_byte_ms?: u64,
        /// A hash of the provider's request id.
        upstream_request_id_hash?: String,
    }
}

record! {
    /// `llm_input`: what a model is given, for observers.
    pub struct LlmInputEvent {
        /// The turn.
        run_id: RunId,
        /// The stretch of the conversation.
        session_id: SessionId,
        /// The provider.
        provider: String,
        /// The model.
        model: String,
        /// The system prompt.
        system_prompt?: Text,
        /// The message of this turn.
        prompt: Text,
        /// The conversation before it.
        history_messages: Vec<Message>,
        /// How many images go along.
        images_count: u32,
        /// The tools on offer.
        tools?: Vec<ToolSpec>,
    }
}

record! {
    /// `llm_output`: what a model answered, for observers.
    pub struct LlmOutputEvent {
        /// The turn.
        run_id: RunId,
        /// The stretch of the conversation.
        session_id: SessionId,
        /// The provider.
        provider: String,
        /// The model.
        model: String,
        /// The visible texts of the turn so far, one per answer.
        assistant_texts: Vec<Text>,
        /// The answer.
        last_assistant?: Message,
        /// Tokens used.
        usage?: TokenUsage,
        /// How many tokens the context may have.
        context_token_budget?: u64,
    }
}

record! {
    /// `after_llm_call`: a model has answered, and no tool of that answer has started.
    pub struct AfterLlmCallEvent {
        /// The turn.
        run_id: RunId,
        /// The answer.
        response: Message,
        /// The tools it wants to run.
        tool_calls: Vec<ToolCall>,
        /// 0 for the first call of the turn.
        iteration: u32,
        /// The model.
        model: String,
        /// How long the call took, in milliseconds.
        latency_ms: u64,
        /// Tokens used.
        token_usage?: TokenUsage,
    }
}

record! {
    /// A tool call that a hook leaves in the answer. Only the id counts; a name or arguments that differ
    /// from the model's are refused, since here a call can be removed but not edited.
    pub struct ToolCallRef {
        /// The call's id.
        id: ToolCallId,
        /// The call's name, if repeated.
        name?: String,
        /// The call's arguments, if repeated.
        arguments?: Json,
    }
}

/// The tool calls a hook leaves in the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ToolCallIds(pub Vec<ToolCallRef>);

impl ToolCallIds {
    /// A list of ids.
    pub fn new<I: Into<ToolCallId>>(ids: impl IntoIterator<Item = I>) -> Self {
        Self(ids.into_iter().map(|id| ToolCallRef { id: id.into(), name: None, arguments: None }).collect())
    }

    /// Whether the list has the call. An empty id names nothing.
    pub fn contains(&self, id: &ToolCallId) -> bool {
        !id.is_empty() && self.0.iter().any(|call| call.id == *id)
    }
}

impl Intersect for ToolCallIds {
    fn intersect(&mut self, other: Self) {
        self.0.retain(|call| other.contains(&call.id));
    }
}

outcome! {
    /// `after_llm_call`: fewer tool calls, or none of the answer at all.
    pub struct AfterLlmCallOutcome {
        /// The calls to leave; `[]` leaves none.
        tool_calls / "toolCalls": ToolCallIds => Narrow,
        /// Drop the answer.
        block / "block": bool => Block,
        /// Why.
        block_reason / "blockReason": Text => BlockReason,
    }
}

impl Event<AfterLlmCallOutcome> for AfterLlmCallEvent {
    fn check(&self, answer: &AfterLlmCallOutcome) -> Result<(), Malformed> {
        for kept in answer.tool_calls.iter().flat_map(|calls| &calls.0) {
            let Some(call) = self.tool_calls.iter().find(|call| call.id == kept.id) else { continue };
            let renamed = kept.name.as_ref().is_some_and(|name| *name != call.name);
            let edited = kept.arguments.as_ref().is_some_and(|arguments| match &**arguments {
                Value::Object(object) => *object != *call.arguments,
                _ => true,
            });
            if renamed || edited {
                return Err(Malformed::new(
                    "a tool call was edited; `after_llm_call` can only remove calls, rewrite in `before_tool_call`",
                ));
            }
        }
        Ok(())
    }
}

record! {
    /// `before_agent_finalize`: the model has come to a natural end.
    pub struct AgentFinalizeEvent {
        /// The turn.
        run_id?: RunId,
        /// The stretch of the conversation.
        session_id: SessionId,
        /// The turn, in the words of a foreign agent.
        turn_id?: String,
        /// The provider.
        provider?: String,
        /// The model.
        model?: String,
        /// Whether this end already follows a revision that a hook asked for.
        stop_hook_active: bool,
        /// The answer about to be final.
        last_assistant_message?: Text,
        /// The conversation.
        messages?: Vec<Message>,
    }
}

/// What to do with the answer. The later ones are stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FinalizeAction {
    /// Go on as usual.
    Continue,
    /// Let the model have another pass.
    Revise,
    /// This is final, whatever others want.
    Finalize,
}

record! {
    /// Bounds of a revision.
    #[serde(deny_unknown_fields)]
    pub struct Retry {
        /// What the model is told.
        instruction: Text,
        /// Requests with one key share one count.
        idempotency_key?: String,
        /// How often this request may be honoured in one run; 1 when absent.
        max_attempts?: u32,
    }
}

/// `before_agent_finalize`: continue, revise or finalize. Finalize beats revise; the reasons of several
/// revisions are joined, and all their retries are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentFinalizeOutcome {
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::outcome::present")]
    pub action: Option<FinalizeAction>,
    /// Why; with `revise` the model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::outcome::present")]
    pub reason: Option<Text>,
    /// Bounds of the revision.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::outcome::present")]
    pub retry: Option<Retry>,
    /// The retries of further hooks, in running order; never on the wire.
    #[serde(skip)]
    #[schemars(skip)]
    pub more_retries: Vec<Retry>,
}

impl Outcome for AgentFinalizeOutcome {
    const FIELDS: &'static [Field] = &[
        Field { name: "action", latch: Latch::Strongest },
        Field { name: "reason", latch: Latch::Append },
        Field { name: "retry", latch: Latch::Collect },
    ];

    fn merge(&mut self, next: Self) -> Vec<&'static str> {
        match (self.action, next.action) {
            (current, Some(action)) if current.is_none_or(|current| action > current) => *self = next,
            (Some(FinalizeAction::Revise), Some(FinalizeAction::Revise)) => {
                let reasons: Vec<_> =
                    [&self.reason, &next.reason].into_iter().flatten().map(Text::as_str).collect();
                self.reason = (!reasons.is_empty()).then(|| reasons.join("\n\n").into());
                match (&self.retry, next.retry) {
                    (None, retry) => self.retry = retry,
                    (Some(_), Some(retry)) => self.more_retries.push(retry),
                    (Some(_), None) => {}
                }
            }
            (_, None) => {}
            _ => return vec!["action"],
        }
        Vec::new()
    }
}

impl Event<AgentFinalizeOutcome> for AgentFinalizeEvent {}

record! {
    /// `before_response_emit`: the turn's answer is about to leave.
    pub struct ResponseEmitEvent {
        /// The turn.
        run_id?: RunId,
        /// The last visible text. Always equal to the last of `all_content`.
        content: Text,
        /// One text per assistant turn of this run that has text.
        all_content: Vec<Text>,
        /// Where it goes.
        channel?: String,
        /// How many messages the run has.
        message_count: u32,
    }
}

outcome! {
    /// `before_response_emit`: another answer, or none. The first hook that sets one of the two contents
    /// closes both, so that a redaction of one can't be undone through the other.
    pub struct ResponseEmitOutcome {
        /// Another last text.
        content / "content": Text => Lock,
        /// Other texts for all turns; may be fewer, never more.
        all_content / "allContent": Vec<Text> => Lock,
        /// Let nothing out.
        block / "block": bool => Block,
        /// Why.
        block_reason / "blockReason": Text => BlockReason,
    }
}

impl Event<ResponseEmitOutcome> for ResponseEmitEvent {
    fn absorb(&mut self, merged: &ResponseEmitOutcome) -> bool {
        if let Some(all) = &merged.all_content {
            // INVARIANT (bounded answer): a rewrite can't grow the answer by further turns.
            let all: Vec<_> = all.iter().take(self.all_content.len()).cloned().collect();
            self.content = all.last().cloned().unwrap_or_default();
            let changed = all != self.all_content;
            self.all_content = all;
            return changed;
        }
        let changed = take(&mut self.content, &merged.content);
        if changed {
            match self.all_content.last_mut() {
                Some(last) => *last = self.content.clone(),
                None => self.all_content.push(self.content.clone()),
            }
        }
        changed
    }
}

record! {
    /// `agent_end`: the turn is over.
    pub struct AgentEndEvent {
        /// The turn.
        run_id?: RunId,
        /// The conversation.
        messages: Vec<Message>,
        /// Whether it ended well.
        success: bool,
        /// Why not.
        error?: Text,
        /// How long it took, in milliseconds.
        duration_ms: u64,
    }
}
