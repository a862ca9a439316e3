//! The host: a client's event through the engine, and back into the client's words.
//!
//! | moment | hook points |
//! | --- | --- |
//! | a tool is about to run | trusted policies, `tool.before`, `before_tool_call` |
//! | a tool has run | `tool.after`, `after_tool_call` |
//! | a user's message | `message_received`, `before_agent_run` |
//! | the end of a turn | `before_agent_finalize` |
//! | sessions, compaction, sub-agents | `session_start`, `session_end`, `before_compaction`, `after_compaction`, `subagent_spawned`, `subagent_ended` |
//!
//! What a client does not say is not made up: counts of messages are 0, and the conversation is empty.

use backstop_engine::Attendance;
use backstop_engine::{BlockCause, Engine, Permitted, Substituted, ToolVerdict};
use backstop_hooks::conversation::ToolResult;
use backstop_hooks::points::{
    AfterCompaction, AfterCompactionEvent, AfterToolCall, AfterToolCallEvent, AgentFinalizeEvent,
    AgentRunEvent, AgentRunOutcome, BeforeAgentFinalize, BeforeAgentRun, BeforeCompaction,
    BeforeCompactionEvent, FinalizeAction, MessageReceived, MessageReceivedEvent, SessionEnd,
    SessionEndEvent, SessionEndReason, SessionStart, SessionStartEvent, SpawnMode, SubagentEnded,
    SubagentEvent, SubagentSpawned, ToolAfter, ToolAfterEvent, ToolCallEvent,
};
use backstop_hooks::{AgentId, CallContext, Params, PointId, RunId, SessionId, SessionKey, Substitute, Text};

use crate::decision::{CallDecision, PromptDecision, Reply, ResultDecision, StopDecision};
use crate::event::{ClientEvent, Frame, Moment, Stop};
use crate::reason::Reason;
use crate::tools::{ToolOutput, ToolUse};

/// Takes an event through the engine and says what the client is to be told.
///
/// `attendance` says whom the engine can ask about a tool call. With [`Attendance::Nobody`] a question that
/// the client can ask its own user is handed to the client; any other is a refusal. No code by which a call can be
/// allowed is in either: all that a hook says reaches the model, or a transcript that its agent can read.
///
/// Where somebody is waited for, and the client was seen to run what its answer has in place of the arguments ([`Frame::takes_changes`]),
/// people may change the call: the answer that lets it pass has the arguments of the changed call, which passed every gate as a call of its
/// own.
pub async fn respond(engine: &Engine, event: &ClientEvent, attendance: &Attendance) -> Reply {
    let (frame, call) = (&event.frame, event.frame.call_context());
    match &event.moment {
        Moment::ToolCall(used) => {
            let substitutes: &[Substitute] = if frame.takes_changes() { &[Substitute::Edit] } else { &[] };
            let decision = judge(engine, frame, used, &call, attendance, substitutes).await;
            frame.answer_call(used, &decision)
        }
        Moment::Permission(used) => {
            // The client is about to ask its user, whatever is said but no.
            let decision = judge(engine, frame, used, &call, &Attendance::Host, &[]).await;
            frame.answer_permission(&decision)
        }
        Moment::ToolResult(output) => frame.answer_result(output, &after(engine, frame, output, &call).await),
        Moment::Prompt(text) => frame.answer_prompt(&prompt(engine, frame, text, &call).await),
        Moment::Stop(stop) => frame.answer_stop(&finalize(engine, stop, &call).await),
        Moment::SubAgentStop(stop) => {
            let decision = finalize(engine, stop, &call).await;
            if decision == StopDecision::Finish
                && let Some(child) = sub_agent(frame, Some("completed"))
            {
                engine.observe::<SubagentEnded>(&child, &call).await;
            }
            frame.answer_stop(&decision)
        }
        watched => {
            watch(engine, frame, watched, &call).await;
            frame.pass()
        }
    }
}

/// The points at which hooks can be asked about an event: [`respond`] fires no others.
pub fn points(event: &ClientEvent) -> &'static [PointId] {
    match &event.moment {
        Moment::ToolCall(_) | Moment::Permission(_) => {
            &[PointId::TrustedToolPolicy, PointId::ToolBefore, PointId::BeforeToolCall]
        }
        Moment::ToolResult(_) => &[PointId::ToolAfter, PointId::AfterToolCall],
        Moment::Prompt(_) => &[PointId::MessageReceived, PointId::BeforeAgentRun],
        Moment::Stop(_) => &[PointId::BeforeAgentFinalize],
        Moment::SubAgentStop(_) => &[PointId::BeforeAgentFinalize, PointId::SubagentEnded],
        Moment::SessionStart { .. } => &[PointId::SessionStart],
        Moment::SessionEnd { .. } => &[PointId::SessionEnd],
        Moment::BeforeCompaction => &[PointId::BeforeCompaction],
        Moment::AfterCompaction => &[PointId::AfterCompaction],
        Moment::SubAgentStart => &[PointId::SubagentSpawned],
        Moment::Other => &[],
    }
}

/// What the client is told when an event could not be judged: the strictest that its moment allows. A tool
/// does not run, a result and a message don't reach the model; a turn ends as the agent wants, and what is
/// only watched goes on.
pub fn refuse(event: &ClientEvent, reason: &Reason) -> Reply {
    let (frame, reason) = (&event.frame, reason.clone());
    match &event.moment {
        Moment::ToolCall(used) => frame.answer_call(used, &CallDecision::Deny(reason)),
        Moment::Permission(_) => frame.answer_permission(&CallDecision::Deny(reason)),
        Moment::ToolResult(output) => frame.answer_result(output, &ResultDecision::Withhold(reason)),
        Moment::Prompt(_) => frame.answer_prompt(&PromptDecision::Block(reason)),
        Moment::Stop(_)
        | Moment::SubAgentStop(_)
        | Moment::SessionStart { .. }
        | Moment::SessionEnd { .. }
        | Moment::BeforeCompaction
        | Moment::AfterCompaction
        | Moment::SubAgentStart
        | Moment::Other => frame.pass(),
    }
}

/// Judges each call of a tool use. The first that is refused refuses all; the first question is the one that
/// is asked. `substitutes` is what the answer can have in the place of a call.
async fn judge(
    engine: &Engine,
    frame: &Frame,
    used: &ToolUse,
    call: &CallContext,
    attendance: &Attendance,
    substitutes: &[Substitute],
) -> CallDecision {
    // Where the client would ask, nobody else has to be found.
    let attendance = match attendance {
        Attendance::Nobody if frame.can_ask() => &Attendance::Host,
        other => other,
    };
    let mut judged = Vec::new();
    let unseen_input = frame.client().facts().unseen_input.is_some();
    for event in used.events(frame.run(), unseen_input) {
        // Boxed: every moment of a client carries the room for it otherwise.
        let passing = Box::pin(engine.permit_or_substitute(event, call, attendance, substitutes));
        let verdict = passing.await;
        match verdict_of(verdict) {
            Ok(one) => judged.push(one),
            Err(reason) => return CallDecision::Deny(reason),
        }
    }
    // INVARIANT (what was judged is what runs): all at the end, since a person may have looked for long at one of them, and a file that an earlier
    // one was judged by may have changed meanwhile.
    let (mut parts, mut question) = (Vec::new(), None);
    for one in judged {
        match one {
            Judged::Runs(permit) => match permit.redeem() {
                Ok(event) => parts.push(event.params),
                Err(error) => return CallDecision::Deny(Reason::new(&error.to_string())),
            },
            Judged::Asked(reason, params) => {
                question.get_or_insert(reason);
                parts.push(params);
            }
        }
    }
    let changed = (parts != used.parts()).then_some(parts);
    match (question, changed) {
        (Some(reason), changed) => CallDecision::Ask { question: reason.clone(), refusal: reason, changed },
        (None, Some(parts)) => CallDecision::Rewrite(parts),
        (None, None) => CallDecision::Pass,
    }
}

/// What is not refused.
enum Judged {
    Runs(Box<Permitted<ToolCallEvent>>),
    Asked(Reason, Params),
}

/// What becomes of a call, or why it is refused.
fn verdict_of(verdict: ToolVerdict) -> Result<Judged, Reason> {
    match verdict.permit {
        Ok(permit) => Ok(Judged::Runs(Box::new(permit))),
        Err(blocked) => {
            let is_changed = matches!(verdict.substituted, Some(Substituted::Edited { .. }));
            let why = blocked.reason_or_default();
            // The model would read of a call that it did not make.
            let reason = |how: &str| match is_changed {
                true => Reason::new(&format!("a human changed this call{how}: {why}")),
                false => Reason::from(&why),
            };
            if blocked.is_unanswered() {
                Ok(Judged::Asked(reason(""), verdict.event.params))
            } else {
                Err(reason(", and the changed call was stopped"))
            }
        }
    }
}

async fn after(engine: &Engine, frame: &Frame, output: &ToolOutput, call: &CallContext) -> ResultDecision {
    if frame.asks_its_user()
        && let Some(id) = output.call.id()
    {
        engine.host_ran(call, id).await;
    }
    let result = output.as_result();
    let event = ToolAfterEvent::new(
        output.call.name().clone(),
        result.tool_call_id.clone(),
        output.is_error,
        result.clone(),
    )
    .params(output.call.params());
    let decided = engine.decide::<ToolAfter>(event, call).await.into_parts();
    let decision = match decided.blocked {
        Some(blocked) => ResultDecision::Withhold(Reason::from(&blocked.reason_or_default())),
        None if decided.event.result == result => ResultDecision::Keep,
        None => ResultDecision::Replace(decided.event.result),
    };
    engine.observe::<AfterToolCall>(&tool_has_run(frame, output, &result, &decision), call).await;
    decision
}

/// What observers are shown: the result as the model reads it, and nothing of one that was withheld.
fn tool_has_run(
    frame: &Frame,
    output: &ToolOutput,
    result: &ToolResult,
    decision: &ResultDecision,
) -> AfterToolCallEvent {
    let shown = match decision {
        ResultDecision::Keep => Some(result),
        ResultDecision::Replace(changed) => Some(changed),
        ResultDecision::Withhold(_) => None,
    };
    AfterToolCallEvent::new(
        output.call.name().clone(),
        output.call.params(),
        output.duration_ms.unwrap_or_default(),
    )
    .run_id(frame.run().cloned())
    .tool_call_id(output.call.id().cloned())
    .result(shown.cloned())
    .error(shown.filter(|_| output.is_error).map(|result| result.visible_text().into()))
}

async fn prompt(engine: &Engine, frame: &Frame, text: &Text, call: &CallContext) -> PromptDecision {
    let received = MessageReceivedEvent {
        // What a sub-agent is told comes from the agent that started it.
        from: if frame.sub_agent().is_some() { "agent" } else { "user" }.to_owned(),
        content: text.clone(),
        timestamp: None,
        thread_id: None,
        message_id: None,
        sender_id: None,
        reply_to_id: None,
        reply_to_body: None,
        reply_to_sender: None,
        session_key: frame.session_key(),
        run_id: frame.run().cloned(),
        metadata: None,
    };
    engine.observe::<MessageReceived>(&received, call).await;
    let event = AgentRunEvent {
        prompt: text.clone(),
        messages: Vec::new(),
        system_prompt: None,
        sender_id: None,
        sender_is_owner: None,
    };
    let decided = engine.decide::<BeforeAgentRun>(event, call).await.into_parts();
    let Some(blocked) = decided.blocked else { return PromptDecision::Pass };
    // INVARIANT (internal reason): what a hook says for the record may quote the message; only what it says
    // for the user goes out.
    let said = match decided.outcome {
        AgentRunOutcome::Block { message: Some(message), .. } if blocked.cause == BlockCause::Decision => {
            message.as_str().to_owned()
        }
        AgentRunOutcome::Block { .. } | AgentRunOutcome::Pass {} => match &blocked.hook {
            Some(hook) => format!("this message was not passed on (blocked by {hook})"),
            None => "this message was not passed on".to_owned(),
        },
    };
    PromptDecision::Block(Reason::new(&said))
}

/// A client keeps no count of revisions, only whether there was one; so there is one a turn.
async fn finalize(engine: &Engine, stop: &Stop, call: &CallContext) -> StopDecision {
    let event = AgentFinalizeEvent {
        run_id: call.run_id.clone(),
        session_id: call.session_id.clone().unwrap_or_else(|| SessionId::new("")),
        turn_id: None,
        provider: None,
        model: None,
        stop_hook_active: stop.again,
        last_assistant_message: stop.last_message.clone(),
        messages: None,
    };
    let decided = engine.decide::<BeforeAgentFinalize>(event, call).await.into_parts();
    match decided.outcome.action {
        Some(FinalizeAction::Revise) if !stop.again && decided.blocked.is_none() => {
            let instruction = decided.outcome.retry.as_ref().map(|retry| &retry.instruction);
            let reason = decided.outcome.reason.as_ref().or(instruction);
            StopDecision::Revise(reason.map_or_else(|| Reason::new("go on"), Reason::from))
        }
        _ => StopDecision::Finish,
    }
}

async fn watch(engine: &Engine, frame: &Frame, moment: &Moment, call: &CallContext) {
    let session = || call.session_id.clone().unwrap_or_else(|| SessionId::new(""));
    match moment {
        Moment::SessionStart { resumed } => {
            let event = SessionStartEvent {
                session_id: session(),
                session_key: frame.session_key(),
                resumed_from: resumed.then(session),
            };
            engine.observe::<SessionStart>(&event, call).await;
        }
        Moment::SessionEnd { reason } => {
            let event = SessionEndEvent {
                session_id: session(),
                session_key: frame.session_key(),
                message_count: 0,
                duration_ms: None,
                reason: end_reason(reason.as_deref()),
                next_session_id: None,
            };
            engine.observe::<SessionEnd>(&event, call).await;
        }
        Moment::BeforeCompaction => {
            let event = BeforeCompactionEvent { message_count: 0, token_count: None };
            engine.observe::<BeforeCompaction>(&event, call).await;
        }
        Moment::AfterCompaction => {
            let event = AfterCompactionEvent { message_count: 0, token_count: None, compacted_count: 0 };
            engine.observe::<AfterCompaction>(&event, call).await;
        }
        Moment::SubAgentStart => {
            if let Some(child) = sub_agent(frame, None) {
                engine.observe::<SubagentSpawned>(&child, call).await;
            }
        }
        Moment::ToolCall(_)
        | Moment::Permission(_)
        | Moment::ToolResult(_)
        | Moment::Prompt(_)
        | Moment::Stop(_)
        | Moment::SubAgentStop(_)
        | Moment::Other => {}
    }
}

fn end_reason(reason: Option<&str>) -> SessionEndReason {
    match reason {
        Some("clear") => SessionEndReason::Reset,
        Some("exit" | "logout" | "prompt_input_exit" | "complete") => SessionEndReason::Shutdown,
        Some("resume") => SessionEndReason::New,
        _ => SessionEndReason::Unknown,
    }
}

/// The sub-agent that a frame is about; its conversation's name is the one that its calls carry.
fn sub_agent(frame: &Frame, outcome: Option<&str>) -> Option<SubagentEvent> {
    let child = frame.sub_agent()?;
    let key = frame.session_key().unwrap_or_else(|| SessionKey::new(child.id.as_str()));
    Some(SubagentEvent {
        child_session_key: key,
        agent_id: AgentId::new(child.kind.as_deref().unwrap_or(frame.client().name())),
        mode: SpawnMode::Run,
        run_id: RunId::new(child.id.as_str()),
        resolved_model: None,
        resolved_provider: None,
        outcome: outcome.map(str::to_owned),
    })
}
