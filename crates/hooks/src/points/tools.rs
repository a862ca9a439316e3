//! B: around tools. Before a call: the trusted policies, the interceptors, then all other hooks. After it:
//! the result on its way to the model and into the transcript.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::approval::{ApprovalRequest, ApprovalRequests, OnResolution};
use crate::conversation::{Message, ToolResult};
use crate::id::{AgentId, HookId, OwnerId, RunId, SessionKey, ToolCallId};
use crate::latch::{Field, Latch, Merge, Turn};
use crate::outcome::{Malformed, Nothing, Outcome, event, outcome, reason_for_nothing};
use crate::point::Event;
use crate::reason::Reason;
use crate::tool_name::ToolName;
use crate::value::{Params, Text};

/// The kind of a shell into whose running programs the agent can type without any hook being told.
pub const UNSEEN_TERMINAL: &str = "unseen-terminal";

/// The kind of a call that types into a program which the host itself has started: its arguments `program`, `typed` and
/// `unfinished` are the host's own, and no model's.
pub const TYPED_TERMINAL: &str = "typed-terminal";

/// The kind of a tool that a model's provider would run by itself, judged where it is offered: a call without an id.
pub const PROVIDER_TOOL: &str = "provider-tool";

event! {
    /// A tool call about to run. Hooks of the trusted policies and of `before_tool_call` see it.
    pub struct ToolCallEvent {
        /// The tool, as called and canonical.
        #[serde(flatten)]
        tool_name: ToolName,
        /// The arguments, as the hook before left them.
        params: Params,
        /// What the tool is, where several share a name.
        tool_kind?: String,
        /// The language of the input, where the tool takes code.
        tool_input_kind?: String,
        /// Paths that the call will touch, as far as the host can tell (`apply_patch`). Best effort: may
        /// be too few or too many.
        derived_paths?: Vec<String>,
        /// The turn.
        run_id?: RunId,
        /// The model's id of this call.
        tool_call_id?: ToolCallId,
        /// The plugin that brings the tool, where one does. It is a part of what is judged.
        tool_owner?: OwnerId,
    }
}

outcome! {
    /// What may be said before a tool runs.
    pub struct ToolCallOutcome {
        /// Other arguments for the tool: the whole object, not a patch.
        params / "params": Params => Propose,
        /// Stop the call. `false` is no opinion.
        block / "block": bool => Block,
        /// Why; shown to the model.
        block_reason / "blockReason": Reason => BlockReason,
        /// Ask a human first.
        require_approval / "requireApproval": ApprovalRequests => Collect,
    }
}

impl ToolCallOutcome {
    /// Stops the call.
    pub fn block(reason: impl Into<Reason>) -> Self {
        Self { block: Some(true), block_reason: Some(reason.into()), ..Self::default() }
    }

    /// Runs the call with other arguments.
    pub fn rewrite(params: Params) -> Self {
        Self { params: Some(params), ..Self::default() }
    }

    /// Asks a human first.
    pub fn ask(request: ApprovalRequest) -> Self {
        Self { require_approval: Some(request.into()), ..Self::default() }
    }
}

impl Event<ToolCallOutcome> for ToolCallEvent {
    const ABSORBS: bool = true;

    fn absorb(&mut self, answer: &ToolCallOutcome) -> bool {
        take_call_params(self, answer.params.as_ref())
    }

    fn tool_name(&self) -> Option<&ToolName> {
        Some(&self.tool_name)
    }
}

/// INVARIANT (no stale facts): paths derived from other arguments would let a gate judge a call that
/// never runs, so they go with the arguments they were derived from.
fn take_call_params(event: &mut ToolCallEvent, next: Option<&Params>) -> bool {
    let changed = take_params(&mut event.params, next);
    if changed {
        event.derived_paths = None;
    }
    changed
}

fn take_params(current: &mut Params, next: Option<&Params>) -> bool {
    match next {
        Some(next) if !next.same(current) && next != current => {
            *current = next.clone();
            true
        }
        _ => false,
    }
}

/// What a trusted tool policy may say. On the wire a stop is `{"allow": false, "reason": "..."}` or
/// `{"block": true, "blockReason": "..."}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "PolicyWire", rename_all = "camelCase")]
#[schemars(with = "PolicyWire")]
pub struct TrustedPolicyOutcome {
    /// Other arguments for the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<Params>,
    /// Stop the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<bool>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_reason: Option<Reason>,
    /// Ask a human first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_approval: Option<ApprovalRequests>,
}

/// The word `false`: a policy can refuse by it, but it can't allow on behalf of others.
#[derive(Clone, Copy, Debug)]
struct Refused;

impl<'de> Deserialize<'de> for Refused {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if bool::deserialize(deserializer)? {
            return Err(serde::de::Error::custom("`allow` can only be false; no opinion is `null`"));
        }
        Ok(Self)
    }
}

impl JsonSchema for Refused {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Refused".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "const": false })
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PolicyWire {
    #[serde(default, deserialize_with = "crate::outcome::present")]
    allow: Option<Refused>,
    #[serde(default, deserialize_with = "crate::outcome::present")]
    reason: Option<Reason>,
    #[serde(default, deserialize_with = "crate::outcome::present")]
    block: Option<bool>,
    #[serde(default, deserialize_with = "crate::outcome::present")]
    block_reason: Option<Reason>,
    #[serde(default, deserialize_with = "crate::outcome::present")]
    params: Option<Params>,
    #[serde(default, deserialize_with = "crate::outcome::present")]
    require_approval: Option<ApprovalRequests>,
}

impl From<PolicyWire> for TrustedPolicyOutcome {
    fn from(wire: PolicyWire) -> Self {
        Self {
            block: if wire.allow.is_some() { Some(true) } else { wire.block },
            block_reason: wire.block_reason.or(wire.reason),
            params: wire.params,
            require_approval: wire.require_approval,
        }
    }
}

impl Outcome for TrustedPolicyOutcome {
    const FIELDS: &'static [Field] = &[
        Field { name: "params", latch: Latch::Propose },
        Field { name: "block", latch: Latch::Block },
        Field { name: "blockReason", latch: Latch::BlockReason },
        Field { name: "requireApproval", latch: Latch::Collect },
    ];

    fn merge(&mut self, next: Self) -> Vec<&'static str> {
        let turn = Turn { newly_blocked: !self.blocks() && next.blocks() };
        let mut refused = Vec::new();
        if next.params.is_some() {
            self.params = next.params;
        }
        if let Some(block) = next.block {
            crate::latch::Block::merge(&mut self.block, block, turn);
        }
        if let Some(reason) = next.block_reason
            && !crate::latch::BlockReason::merge(&mut self.block_reason, reason, turn)
        {
            refused.push("blockReason");
        }
        if let Some(requests) = next.require_approval {
            crate::latch::Collect::merge(&mut self.require_approval, requests, turn);
        }
        refused
    }

    fn withdraw(&mut self) -> Vec<&'static str> {
        self.params.take().map(|_| "params").into_iter().collect()
    }

    fn gates_only(self) -> Self {
        Self { params: None, ..self }
    }

    fn blocks(&self) -> bool {
        self.block == Some(true)
    }

    fn block_reason(&self) -> Option<&Reason> {
        self.block_reason.as_ref()
    }

    fn whole(&self) -> Result<(), Malformed> {
        match (&self.block_reason, self.block) {
            (Some(_), None) => Err(reason_for_nothing("blockReason")),
            _ => Ok(()),
        }
    }

    fn approvals(&self) -> &[ApprovalRequest] {
        self.require_approval.as_ref().map_or(&[], ApprovalRequests::as_slice)
    }

    fn listen(&mut self, told: &OnResolution) {
        if let Some(requests) = &mut self.require_approval {
            requests.listen(told);
        }
    }

    fn stamp(&mut self, owner: &OwnerId, hook: &HookId) {
        if let Some(requests) = &mut self.require_approval {
            requests.stamp(owner, hook);
        }
    }
}

impl Event<TrustedPolicyOutcome> for ToolCallEvent {
    const ABSORBS: bool = true;

    fn absorb(&mut self, answer: &TrustedPolicyOutcome) -> bool {
        take_call_params(self, answer.params.as_ref())
    }

    fn tool_name(&self) -> Option<&ToolName> {
        Some(&self.tool_name)
    }
}

event! {
    /// `tool.before`: what an interceptor sees before a tool runs.
    pub struct ToolBeforeEvent {
        /// The tool, as called and canonical.
        #[serde(flatten)]
        tool_name: ToolName,
        /// The model's id of this call.
        tool_call_id: ToolCallId,
        /// The arguments, as the interceptor before left them.
        args: Params,
        /// What kind of tool it is, where the host says.
        tool_kind?: String,
    }
}

outcome! {
    /// `tool.before`: what an interceptor may change.
    pub struct ToolBeforeOutcome {
        /// Other arguments for the tool: the whole object.
        args / "args": Params => Propose,
        /// Stop the call.
        block / "block": bool => Block,
        /// Why; shown to the model.
        block_reason / "blockReason": Reason => BlockReason,
        /// Ask a human first.
        require_approval / "requireApproval": ApprovalRequests => Collect,
    }
}

impl Event<ToolBeforeOutcome> for ToolBeforeEvent {
    const ABSORBS: bool = true;

    fn absorb(&mut self, answer: &ToolBeforeOutcome) -> bool {
        take_params(&mut self.args, answer.args.as_ref())
    }

    fn tool_name(&self) -> Option<&ToolName> {
        Some(&self.tool_name)
    }
}

event! {
    /// `tool.after`: a tool has answered or failed.
    pub struct ToolAfterEvent {
        /// The tool, as called and canonical.
        #[serde(flatten)]
        tool_name: ToolName,
        /// The model's id of this call.
        tool_call_id: ToolCallId,
        /// Whether the tool failed.
        is_error: bool,
        /// The result, as the interceptor before left it.
        result: ToolResult,
        /// The arguments as they ran, with placeholders where the tool was given values. A host that sees the result only, as of a tool
        /// that a provider ran, does not know them.
        params?: Params,
    }
}

outcome! {
    /// `tool.after`: what an interceptor may change.
    pub struct ToolAfterOutcome {
        /// Another result for the model.
        result / "result": ToolResult => Propose,
    }
}

impl Event<ToolAfterOutcome> for ToolAfterEvent {
    const ABSORBS: bool = true;

    fn absorb(&mut self, answer: &ToolAfterOutcome) -> bool {
        match &answer.result {
            Some(result) if *result != self.result => {
                self.result = result.clone();
                true
            }
            _ => false,
        }
    }

    fn tool_name(&self) -> Option<&ToolName> {
        Some(&self.tool_name)
    }

    fn check(&self, answer: &ToolAfterOutcome) -> Result<(), Malformed> {
        match &answer.result {
            Some(result) if result.tool_call_id != self.result.tool_call_id => {
                Err(Malformed::new("`result` answers another tool call"))
            }
            _ => Ok(()),
        }
    }
}

event! {
    /// `after_tool_call`: a tool has run.
    pub struct AfterToolCallEvent {
        /// The tool, as called and canonical.
        #[serde(flatten)]
        tool_name: ToolName,
        /// The arguments it ran with.
        params: Params,
        /// The turn.
        run_id?: RunId,
        /// The model's id of this call.
        tool_call_id?: ToolCallId,
        /// The result, as the model will read it.
        result?: ToolResult,
        /// Why it failed.
        error?: Text,
        /// How long it ran, in milliseconds.
        duration_ms: u64,
    }
}

impl Event<Nothing> for AfterToolCallEvent {
    fn tool_name(&self) -> Option<&ToolName> {
        Some(&self.tool_name)
    }
}

/// Where a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecHost {
    /// In the process that hosts the agent.
    Gateway,
    /// In a sandbox.
    Sandbox,
    /// On another machine.
    Node,
}

event! {
    /// `resolve_exec_env`: the environment of a command is being put together.
    pub struct ExecEnvEvent {
        /// The conversation.
        session_key?: SessionKey,
        /// Always `exec`.
        #[serde(flatten)]
        tool_name: ToolName,
        /// Where the command runs.
        host: ExecHost,
    }
}

/// `resolve_exec_env`: variables to add. The host filters the keys afterwards: `PATH`, loader and
/// interpreter variables and the like never pass.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ExecEnvOutcome(pub BTreeMap<String, String>);

impl fmt::Debug for ExecEnvOutcome {
    /// Names only: the values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Outcome for ExecEnvOutcome {
    const FIELDS: &'static [Field] = &[Field { name: "*", latch: Latch::PerKey }];

    fn merge(&mut self, next: Self) -> Vec<&'static str> {
        self.0.extend(next.0);
        Vec::new()
    }

    fn per_key(&self) -> Option<&BTreeMap<String, String>> {
        Some(&self.0)
    }
}

impl Event<ExecEnvOutcome> for ExecEnvEvent {}

event! {
    /// `tool_result_persist`: a tool's result is about to be stored.
    pub struct ToolResultPersistEvent {
        /// The tool, as called and canonical.
        #[serde(flatten, deserialize_with = "crate::tool_name::optional")]
        #[schemars(with = "crate::tool_name::MaybeWire")]
        tool_name: Option<ToolName>,
        /// The model's id of the call.
        tool_call_id?: ToolCallId,
        /// The message that carries the result.
        message: Message,
        /// Whether the host made the result up, because the call never got one.
        is_synthetic?: bool,
    }
}

outcome! {
    /// `tool_result_persist`: what is stored instead.
    pub struct ToolResultPersistOutcome {
        /// The message to store.
        message / "message": Message => Propose,
    }
}

impl Event<ToolResultPersistOutcome> for ToolResultPersistEvent {
    const ABSORBS: bool = true;

    fn absorb(&mut self, answer: &ToolResultPersistOutcome) -> bool {
        take_message(&mut self.message, answer.message.as_ref())
    }
}

event! {
    /// `before_message_write`: any message is about to be stored.
    pub struct MessageWriteEvent {
        /// The message.
        message: Message,
        /// The conversation.
        session_key?: SessionKey,
        /// The agent.
        agent_id?: AgentId,
    }
}

outcome! {
    /// `before_message_write`: what is stored instead, or nothing.
    pub struct MessageWriteOutcome {
        /// The message to store.
        message / "message": Message => Propose,
        /// Store nothing.
        block / "block": bool => Block,
    }
}

impl Event<MessageWriteOutcome> for MessageWriteEvent {
    const ABSORBS: bool = true;

    fn absorb(&mut self, answer: &MessageWriteOutcome) -> bool {
        take_message(&mut self.message, answer.message.as_ref())
    }
}

fn take_message(current: &mut Message, next: Option<&Message>) -> bool {
    match next {
        Some(next) if next != current => {
            *current = next.clone();
            true
        }
        _ => false,
    }
}
