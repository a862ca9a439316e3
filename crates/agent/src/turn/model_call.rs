//! One call of a model, from the gate in front of it to the judgement of its answer.
//!
//! `before_llm_call` -> `llm_input`, `model_call_started` -> the stream -> `model_call_ended`, `llm_output`
//! -> `after_llm_call`. The gate sees what the provider will be sent, and each try is a call of its own that
//! the gate sees again. The answer comes out judged, or not at all.

use std::collections::HashSet;
use std::time::Instant;

use backstop_engine::{Blocked, JudgedAnswer};
use backstop_hooks::conversation::{self, Message, Part, Role, TokenUsage, ToolCall};
use backstop_hooks::points::{
    AfterLlmCall, AfterLlmCallEvent, BeforeLlmCall, BeforeLlmCallEvent, ContextWindowSource, LlmInput,
    LlmInputEvent, LlmOutput, LlmOutputEvent, ModelCallEnded, ModelCallEndedEvent, ModelCallResult,
    ModelCallStarted, ModelCallStartedEvent, ThinkLevel, ToolInfo, times_named,
};
use backstop_hooks::{CallId, Point, PointId, Text, ToolCallId};
use backstop_llm::{
    Accumulator, CallStats, FailureKind, ModelError, ModelEvent, ModelRequest, ModelResponse, StopReason,
    ToolDefinition, WireError, estimate_tokens,
};
use backstop_store::ToolDecision;
use futures_util::StreamExt;

use super::prepare::Prepared;
use super::run::{Run, Stop};
use super::tool_calls::fresh_id;
use super::voice::Voice;
use crate::report::TurnError;
use crate::stage::Stage;
use crate::tools::ToolSpec;

/// An answer that passed.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) message: Message,
    pub(crate) stop: StopReason,
    pub(crate) usage: TokenUsage,
    /// The tool calls with what was decided about each, in order.
    pub(crate) calls: Vec<(ToolCall, ToolDecision)>,
    /// The tools that this call had on offer.
    pub(crate) offered: Vec<String>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// A hook stopped the call or dropped the answer.
    Blocked(PointId, Blocked),
    /// The model failed. `shown` if something of its answer was seen already.
    Failed { error: TurnError, shown: bool },
    /// The turn ends.
    Stop(Stop),
}

impl From<Stop> for NoAnswer {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

/// What is asked.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) prepared: &'a Prepared,
    /// The text that the call is about; a message of `messages` has it.
    pub(crate) prompt: Text,
    pub(crate) system: Text,
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: &'a [ToolSpec],
    pub(crate) iteration: u32,
    /// The visible texts of the turn so far.
    pub(crate) texts: Vec<Text>,
    /// The ids that calls of the transcript have.
    pub(crate) taken: HashSet<ToolCallId>,
}

/// Asks once. `voice` is given the text as it comes.
pub(crate) async fn ask(
    run: &Run<'_>,
    question: Question<'_>,
    voice: &mut Voice,
) -> Result<Answer, NoAnswer> {
    let Question { prepared, iteration, texts, .. } = &question;
    let (mut request, offered) = gate(run, &question).await?;
    announce(run, prepared, &question.prompt, &request);
    let call = Call { id: CallId::new(uuid::Uuid::now_v7().simple().to_string()), started: Instant::now() };
    run.tell::<ModelCallStarted>(|| {
        ModelCallStartedEvent::new(
            run.id.clone(),
            call.id.clone(),
            prepared.provider.clone(),
            prepared.model.clone(),
        )
        .api(prepared.client.api().as_str().to_owned())
        .transport("sse".to_owned())
        .context_token_budget(budget(run))
        .context_window_source(window(run))
        .context_window_reference_tokens(budget(run))
    });
    let span = run.agent.stages.call(run.call.trace);
    request.span = span.and_then(|span| span.told);
    let (streamed, stats) = stream(run, prepared, request, voice).await;
    let failure = match &streamed {
        Ok(_) => None,
        Err(Interrupt::Model(error)) => Some(Failure::of(error)),
        Err(Interrupt::Stopped) => Some(Failure { category: "aborted", kind: Some(FailureKind::Aborted) }),
    };
    run.tell::<ModelCallEnded>(|| call.ended(run, prepared, &stats, failure));
    if let Some(span) = span {
        run.agent.stages.tell(run.call.trace, || Stage::ModelCall {
            span: span.id,
            provider: &prepared.provider,
            api: prepared.client.api(),
            model: &prepared.model,
            answer: streamed.as_ref().ok(),
            error: failure.map(|failure| failure.kind.map_or(failure.category, FailureKind::as_str)),
            elapsed: call.started.elapsed(),
        });
    }
    let mut response = match streamed {
        Ok(response) => response,
        Err(Interrupt::Stopped) => return Err(Stop::Stopped.into()),
        Err(Interrupt::Model(error)) => {
            return Err(NoAnswer::Failed { error: TurnError::Model(error), shown: voice.has_spoken() });
        }
    };
    tell_apart(&mut response.message, &question.taken);
    run.tell::<LlmOutput>(|| {
        LlmOutputEvent::new(
            run.id.clone(),
            run.session.id().clone(),
            prepared.provider.clone(),
            prepared.model.clone(),
            texts.iter().cloned().chain(text_of(&response.message)).collect(),
        )
        .last_assistant(response.message.clone())
        .usage(response.usage)
        .context_token_budget(budget(run))
        .context_window_source(window(run))
        .context_window_reference_tokens(budget(run))
    });
    judge(run, prepared, response, offered, *iteration, call.started).await
}

pub(crate) fn text_of(message: &Message) -> Option<Text> {
    message.has_text().then(|| message.visible_text().into())
}

fn budget(run: &Run<'_>) -> Option<u64> {
    run.agent.settings.compaction.map(|compaction| compaction.trigger_tokens)
}

/// Who set the budget: whoever changed the default did.
fn window(run: &Run<'_>) -> Option<ContextWindowSource> {
    budget(run).map(|tokens| {
        if tokens == crate::settings::Compaction::default().trigger_tokens {
            ContextWindowSource::Default
        } else {
            ContextWindowSource::AgentContextTokens
        }
    })
}

/// The request as `before_llm_call` left it.
async fn gate(run: &Run<'_>, question: &Question<'_>) -> Result<(ModelRequest, Vec<String>), NoAnswer> {
    let Question { prepared, system, messages, tools, iteration, .. } = question;
    let settings = &run.agent.settings;
    let mut request = ModelRequest {
        system: system_parts(system).into(),
        tools: tools.iter().map(definition).collect(),
        max_tokens: settings.max_tokens,
        temperature: prepared.params.temperature,
        thinking: prepared.params.think.map(thinking),
        ..ModelRequest::new(prepared.model.clone(), messages.clone())
    };
    let event = BeforeLlmCallEvent {
        other_models: None,
        run_id: run.id.clone(),
        answer_tokens: None,
        token_estimate: estimate_tokens(&request),
        messages: messages.clone(),
        system_prompt: system.clone(),
        model: prepared.model.clone(),
        provider: prepared.provider.clone(),
        iteration: *iteration,
        tools: tools
            .iter()
            .map(|tool| ToolInfo {
                description: Some(tool.description.as_str().into()),
                input_schema: Some(tool.input_schema.clone().into()),
                owner: run.toolbox.owner(&tool.name).cloned(),
                ..ToolInfo::named(tool.name.clone())
            })
            .collect(),
    };
    let decided = run.decide::<BeforeLlmCall>(event).await?.into_parts();
    if let Some(blocked) = decided.blocked {
        return Err(NoAnswer::Blocked(PointId::BeforeLlmCall, blocked));
    }
    let event = decided.event;
    request.tools.retain(|tool| event.tools.iter().any(|left| left.name == tool.name()));
    request.messages = event.messages;
    request.set_system_text((!event.system_prompt.is_empty()).then_some(event.system_prompt));
    let offered = request.tools.iter().map(|tool| tool.name().to_owned()).collect();
    Ok((request, offered))
}

fn system_parts(system: &Text) -> Vec<Part> {
    if system.is_empty() { Vec::new() } else { vec![Part::text(system.clone())] }
}

fn definition(tool: &ToolSpec) -> ToolDefinition {
    ToolDefinition::from(conversation::ToolSpec {
        name: tool.name.clone(),
        description: Some(tool.description.as_str().into()),
        input_schema: tool.input_schema.clone().into(),
    })
}

fn thinking(level: ThinkLevel) -> backstop_llm::ThinkLevel {
    match level {
        ThinkLevel::Off => backstop_llm::ThinkLevel::Off,
        ThinkLevel::Low => backstop_llm::ThinkLevel::Low,
        ThinkLevel::Medium => backstop_llm::ThinkLevel::Medium,
        ThinkLevel::High => backstop_llm::ThinkLevel::High,
    }
}

fn announce(run: &Run<'_>, prepared: &Prepared, prompt: &Text, request: &ModelRequest) {
    run.tell::<LlmInput>(|| {
        let images = |message: &Message| {
            message.content.iter().filter(|part| matches!(part, Part::Image { .. })).count()
        };
        let count: usize = request.messages.iter().map(images).sum();
        let mut history = request.messages.clone();
        let asked = |message: &Message| message.role == Role::User && *message.visible_text() == **prompt;
        if let Some(at) = history.iter().rposition(asked) {
            history.remove(at);
        }
        let specs = request.tools.iter().filter_map(|tool| match tool {
            ToolDefinition::Function { spec, .. } => Some(spec.clone()),
            ToolDefinition::Provider { .. } => None,
        });
        LlmInputEvent {
            run_id: run.id.clone(),
            session_id: run.session.id().clone(),
            provider: prepared.provider.clone(),
            model: prepared.model.clone(),
            system_prompt: request.system_text(),
            prompt: prompt.clone(),
            history_messages: history,
            images_count: u32::try_from(count).unwrap_or(u32::MAX),
            tools: Some(specs.collect()),
        }
    });
}

/// Why a stream has no end.
enum Interrupt {
    Model(ModelError),
    Stopped,
}

async fn stream(
    run: &Run<'_>,
    prepared: &Prepared,
    request: ModelRequest,
    voice: &mut Voice,
) -> (Result<ModelResponse, Interrupt>, CallStats) {
    let mut stream = prepared.client.stream(request);
    let mut answer = Accumulator::new();
    let ended = loop {
        let next = tokio::select! {
            biased;
            () = run.stop.cancelled() => break Err(Interrupt::Stopped),
            next = stream.next() => next,
        };
        match next {
            Some(Ok(event)) => {
                voice.hear(run, &event);
                answer.push(&event);
                if matches!(event, ModelEvent::Finished { .. }) {
                    break Ok(());
                }
            }
            Some(Err(error)) => break Err(Interrupt::Model(error)),
            None => break Ok(()),
        }
    };
    let stats = stream.stats();
    let truncated = |_| Interrupt::Model(ModelError::Wire(WireError::Truncated));
    (ended.and_then(|()| answer.finish().map_err(truncated)), stats)
}

struct Call {
    id: CallId,
    started: Instant,
}

#[derive(Clone, Copy)]
struct Failure {
    category: &'static str,
    kind: Option<FailureKind>,
}

impl Failure {
    fn of(error: &ModelError) -> Self {
        Self { category: error.category().as_str(), kind: error.failure_kind() }
    }
}

impl Call {
    fn ended(
        &self,
        run: &Run<'_>,
        prepared: &Prepared,
        stats: &CallStats,
        failure: Option<Failure>,
    ) -> ModelCallEndedEvent {
        let known = |bytes: u64| (bytes > 0).then_some(bytes);
        ModelCallEndedEvent::new(
            run.id.clone(),
            self.id.clone(),
            prepared.provider.clone(),
            prepared.model.clone(),
            millis_since(self.started),
            if failure.is_some() { ModelCallResult::Error } else { ModelCallResult::Completed },
        )
        .api(prepared.client.api().as_str().to_owned())
        .transport("sse".to_owned())
        .context_token_budget(budget(run))
        .context_window_source(window(run))
        .context_window_reference_tokens(budget(run))
        .error_category(failure.map(|failure| failure.category.to_owned()))
        .failure_kind(failure.and_then(|failure| failure.kind).map(|kind| kind.as_str().to_owned()))
        .request_bytes(known(stats.request_bytes))
        .response_bytes(known(stats.response_bytes))
        .time_to_first_byte_ms(
            stats.time_to_first_byte.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        )
        .upstream_request_id_hash(stats.upstream_request_id.map(|digest| digest.to_string()))
    }
}

pub(crate) fn millis_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Gives calls whose ids earlier answers have used ids of their own, before anybody sees them: some models count from
/// `call_0` in each answer, and what was decided about one call must not be taken for what was decided about another.
/// Calls without an id, or with one that the same answer uses twice, are left for those who refuse them.
fn tell_apart(message: &mut Message, taken: &HashSet<ToolCallId>) {
    let calls: Vec<ToolCall> = message.tool_calls().cloned().collect();
    let times = times_named(&calls);
    for part in &mut message.content {
        if let Part::ToolCall(call) = part
            && taken.contains(&call.id)
            && times.get(&call.id) == Some(&1)
        {
            call.id = fresh_id();
        }
    }
}

/// Takes the answer through `after_llm_call`. Tool calls of the run wait until this is done.
async fn judge(
    run: &Run<'_>,
    prepared: &Prepared,
    response: ModelResponse,
    offered: Vec<String>,
    iteration: u32,
    started: Instant,
) -> Result<Answer, NoAnswer> {
    let calls: Vec<ToolCall> = response.message.tool_calls().cloned().collect();
    let event = AfterLlmCallEvent {
        run_id: run.id.clone(),
        response: response.message.clone(),
        tool_calls: calls.clone(),
        iteration,
        model: prepared.model.clone(),
        latency_ms: millis_since(started),
        token_usage: Some(response.usage),
    };
    let judged = run.unless_stopped(run.agent.engine.judge_answer(event, &run.call)).await?;
    let JudgedAnswer { decided, rulings } = judged;
    run.note(decided.receipt());
    let decided = decided.into_parts();
    if let Some(blocked) = decided.blocked {
        return Err(NoAnswer::Blocked(AfterLlmCall::INFO.id, blocked));
    }
    let kept = &decided.outcome.tool_calls;
    let calls = calls.into_iter().zip(rulings).map(|(call, ruling)| {
        // That arguments are malformed is the model's mistake and no hook's removal; the model may read what it wrote.
        let removed = kept.as_ref().is_some_and(|kept| !kept.contains(&call.id));
        let ruling = if call.malformed.is_some() && !removed { ToolDecision::Allow } else { ruling };
        (call, ruling)
    });
    Ok(Answer {
        calls: calls.collect(),
        message: response.message,
        stop: response.stop,
        usage: response.usage,
        offered,
    })
}
