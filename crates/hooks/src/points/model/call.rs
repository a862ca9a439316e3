//! One model call: what it reads, what it answers, and telemetry without content.

use std::collections::{HashMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conversation::{Message, TokenUsage, ToolCall, ToolSpec};
use crate::digest::leaves;
use crate::id::{CallId, OwnerId, RunId, SessionId, ToolCallId};
use crate::latch::Intersect;
use crate::outcome::{Malformed, event, outcome, record};
use crate::point::Event;
use crate::points::take;
use crate::reason::Reason;
use crate::value::{Json, Text};

record! {
    /// A tool that is offered to the model.
    pub struct ToolInfo {
        /// The tool's name.
        name: String,
        /// What it does.
        description?: Text,
        /// What it takes, with all that the model reads there; of a provider's own tool, all that is said of it.
        input_schema?: Json,
        /// The provider's type of a tool of its own, without the date of its version: `web_search`, `mcp`.
        kind?: String,
        /// Whether the provider runs it, so that nobody here sees its calls before they are made.
        provider_run?: bool,
        /// Where the server is that it calls: an address, or the provider's name of a connector.
        server?: String,
        /// The tools of the server that may be called, where they are listed.
        allowed_tools?: Vec<String>,
        /// When the provider asks before it calls: `always`, `never`, or what else is said of that.
        approval?: String,
        /// The plugin that brings it, where one does.
        owner?: OwnerId,
    }
}

impl ToolInfo {
    /// Creates a tool of which only the name is known.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: None,
            input_schema: None,
            kind: None,
            provider_run: None,
            server: None,
            allowed_tools: None,
            approval: None,
            owner: None,
        }
    }
}

/// The `model` of a `before_llm_call` by which no model is asked: a file is stored, a batch is made of requests that were judged.
/// Rules about models and budgets have nothing to say about it. No client can ask a model of this name through the proxy.
pub const NO_MODEL: &str = "-";

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
        /// Models that the request names besides: those that may answer in its place, those of tools, and one that the address
        /// names otherwise than the body.
        other_models?: Vec<String>,
        /// The provider.
        provider: String,
        /// 0 for the first call of the turn.
        iteration: u32,
        /// The tools on offer.
        tools: Vec<ToolInfo>,
        /// About how many tokens the request has; at least 1.
        token_estimate: u64,
        /// How many tokens the answer has at most, where that is what a budget reserves for it: in a batch, whose answers come
        /// much later.
        answer_tokens?: u64,
    }
}

/// The tools a hook leaves on offer, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ToolNames(pub Vec<ToolInfo>);

impl ToolNames {
    /// Creates a list of names.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self(names.into_iter().map(ToolInfo::named).collect())
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
        messages / "messages": Vec<Message> => Propose,
        /// Another system prompt; `""` clears it.
        system_prompt / "systemPrompt": Text => Propose,
        /// The tools to leave on offer; `[]` offers none.
        tools / "tools": ToolNames => Narrow,
        /// Don't call the model.
        block / "block": bool => Block,
        /// Why.
        block_reason / "blockReason": Reason => BlockReason,
    }
}

impl Event<BeforeLlmCallOutcome> for BeforeLlmCallEvent {
    const ABSORBS: bool = true;

    leaves!(messages: "messages", system_prompt: "systemPrompt", tools: "tools");

    fn absorb(&mut self, answer: &BeforeLlmCallOutcome) -> bool {
        let messages = take(&mut self.messages, &answer.messages);
        let system = take(&mut self.system_prompt, &answer.system_prompt);
        let before = self.tools.len();
        if let Some(allowed) = &answer.tools {
            self.tools.retain(|tool| allowed.0.iter().any(|a| a.name == tool.name));
        }
        messages || system || self.tools.len() != before
    }

    /// INVARIANT (no wish is dropped): the list names tools. A description or a schema that a hook would like to be
    /// another one can't be taken over, and the model would read the old one.
    fn check(&self, answer: &BeforeLlmCallOutcome) -> Result<(), Malformed> {
        for tool in answer.tools.iter().flat_map(|tools| &tools.0) {
            let Some(offered) = self.tools.iter().find(|offered| offered.name == tool.name) else { continue };
            let edited = match tool {
                tool if tool.description.is_some() && tool.description != offered.description => {
                    "description"
                }
                tool if tool.input_schema.is_some() && tool.input_schema != offered.input_schema => "schema",
                _ => continue,
            };
            return Err(Malformed::new(format!(
                "the {edited} of a tool was edited; `before_llm_call` can only leave tools out"
            )));
        }
        Ok(())
    }
}

/// Who says how large the context of a model call may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ContextWindowSource {
    /// The provider, for this model.
    Model,
    /// The configuration, for this model.
    ModelsConfig,
    /// The agent's own settings.
    AgentContextTokens,
    /// Nobody: the default holds.
    Default,
}

event! {
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
        /// The wire (`anthropic-messages`, `openai-chat`, `openai-responses`, `gemini`).
        api?: String,
        /// How the answer is to come: `sse`, `json`, `json-array` for a stream that is one array.
        transport?: String,
        /// How many tokens the context may have.
        context_token_budget?: u64,
        /// Who says how large the context may be.
        context_window_source?: ContextWindowSource,
        /// The size that the budget is a part of, in tokens.
        context_window_reference_tokens?: u64,
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

event! {
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
        /// How the answer came: as in `model_call_started`, or `count` where tokens were only counted.
        transport?: String,
        /// How many tokens the context may have.
        context_token_budget?: u64,
        /// Who says how large the context may be.
        context_window_source?: ContextWindowSource,
        /// The size that the budget is a part of, in tokens.
        context_window_reference_tokens?: u64,
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

event! {
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
        /// Who says how large the context may be.
        context_window_source?: ContextWindowSource,
        /// The size that the budget is a part of, in tokens.
        context_window_reference_tokens?: u64,
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
    /// Creates a list of ids.
    pub fn new<I: Into<ToolCallId>>(ids: impl IntoIterator<Item = I>) -> Self {
        Self(ids.into_iter().map(|id| ToolCallRef { id: id.into(), name: None, arguments: None }).collect())
    }

    /// Returns the ids of the list, for looking many of them up. An empty id names nothing.
    pub fn ids(&self) -> HashSet<&ToolCallId> {
        self.0.iter().map(|call| &call.id).filter(|id| !id.is_empty()).collect()
    }

    /// Returns whether the list has the call. An empty id names nothing.
    pub fn contains(&self, id: &ToolCallId) -> bool {
        !id.is_empty() && self.0.iter().any(|call| call.id == *id)
    }
}

impl Intersect for ToolCallIds {
    fn intersect(&mut self, other: Self) {
        let others = other.ids();
        self.0.retain(|call| others.contains(&call.id));
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
        block_reason / "blockReason": Reason => BlockReason,
    }
}

/// Returns how many calls have each id.
pub fn times_named(calls: &[ToolCall]) -> HashMap<&ToolCallId, usize> {
    let mut times = HashMap::new();
    for call in calls {
        *times.entry(&call.id).or_insert(0) += 1;
    }
    times
}

impl Event<AfterLlmCallOutcome> for AfterLlmCallEvent {
    const ABSORBS: bool = true;

    fn absorb(&mut self, answer: &AfterLlmCallOutcome) -> bool {
        let Some(kept) = &answer.tool_calls else { return false };
        let calls = std::mem::take(&mut self.tool_calls);
        let (kept, times) = (kept.ids(), times_named(&calls));
        // INVARIANT (nameable calls): a list of ids can't vouch for a call without an id of its own.
        let named_once = |id: &ToolCallId| times.get(id) == Some(&1);
        self.tool_calls =
            calls.iter().filter(|call| kept.contains(&call.id) && named_once(&call.id)).cloned().collect();
        self.tool_calls.len() != calls.len()
    }

    fn check(&self, answer: &AfterLlmCallOutcome) -> Result<(), Malformed> {
        let repeats = |kept: &&ToolCallRef| kept.name.is_some() || kept.arguments.is_some();
        let mut repeated = answer.tool_calls.iter().flat_map(|calls| &calls.0).filter(repeats).peekable();
        if repeated.peek().is_none() {
            return Ok(());
        }
        // Of calls with one id the first counts, as it comes last here.
        let by_id: HashMap<_, _> = self.tool_calls.iter().rev().map(|call| (&call.id, call)).collect();
        for kept in repeated {
            let Some(call) = by_id.get(&kept.id) else { continue };
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
