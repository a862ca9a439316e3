//! The tool calls of one answer: planned when the answer is stored, then taken one after the other.
//!
//! The laws: each call gets exactly one result; a call runs only with the engine's permit, and only if its
//! tool was on offer in the very model call that asks for it; what a block was about does not stay in the
//! transcript. Calls that can't be told apart (an id used twice) are not run. In the transcript each call has
//! an id of its own, given by Backstop where the model's is missing or taken.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop_engine::{BlockCause, Blocked, Permitted, Substituted, ToolVerdict, tool_call_digest};
use backstop_hooks::conversation::{Message, Part, ToolCall, ToolResult};
use backstop_hooks::points::{
    AfterToolCall, AfterToolCallEvent, ExecEnvEvent, ExecHost, ResolveExecEnv, ToolAfter, ToolAfterEvent,
    ToolCallEvent,
};
use backstop_hooks::{
    ApprovalId, Contained, Digest, Params, PointId, Resolution, Substitute, Text, ToolCallId, ToolName,
};
use backstop_store::{Timestamp, ToolDecision};
use serde_json::{Value, json};

use super::model_call::{Answer, millis_since};
use super::results;
use super::run::{Run, Stop};
use super::transcript::{Edit, Transcript};
use super::voice::{Release, redacted};
use crate::output::{Fate, Shown, ToolDecided};
use crate::stage::Stage;
use crate::tools::{Caller, ToolContext, ToolOutput, Toolbox, affected_paths, filter_overrides};

/// How much longer than its own limit a tool is waited for.
const GRACE: Duration = Duration::from_secs(30);
/// How long a cancelled tool may take to end what it started.
const CANCEL_GRACE: Duration = Duration::from_secs(10);

/// A call of the answer, and what is known about it before any gate.
#[derive(Debug)]
pub(crate) struct Planned {
    /// As the model made it.
    call: ToolCall,
    /// Its id in the transcript.
    id: ToolCallId,
    /// Why it is not run.
    refusal: Option<Refusal>,
}

/// Why a call is not run, before any gate is asked about it.
#[derive(Debug)]
enum Refusal {
    /// `after_llm_call` took it out of the answer, for this reason. Its arguments do not stay.
    Removed(Text),
    /// The arguments are no JSON object.
    Malformed,
    /// So many calls of the answer have its id.
    DoubledId(usize),
    /// Its tool was not among these, which were on offer.
    NotOnOffer(Vec<String>),
}

impl Refusal {
    /// For the model.
    fn reason(&self) -> Text {
        match self {
            Self::Removed(reason) => reason.clone(),
            Self::Malformed => {
                "the arguments are not a JSON object; call the tool again with a complete one".into()
            }
            Self::DoubledId(times) => {
                format!("{times} tool calls of this answer have one id, so none of them was run; give each an id of its own")
                    .into()
            }
            Self::NotOnOffer(offered) if offered.is_empty() => "no tools are on offer".into(),
            Self::NotOnOffer(offered) => {
                format!("this tool is not on offer; on offer are: {}", offered.join(", ")).into()
            }
        }
    }

    fn is_removal(&self) -> bool {
        matches!(self, Self::Removed(_))
    }
}

/// The answer as it is stored, and its calls. `taken` are the ids that the transcript has already.
pub(crate) fn plan(tools: &Toolbox, answer: &Answer, taken: &HashSet<ToolCallId>) -> (Message, Vec<Planned>) {
    let mut taken = taken.clone();
    let planned: Vec<Planned> = answer
        .calls
        .iter()
        .map(|(call, ruling)| {
            let free = !call.id.is_empty() && taken.insert(call.id.clone());
            let id = if free { call.id.clone() } else { fresh_id() };
            Planned { call: call.clone(), id, refusal: refusal(tools, answer, call, ruling) }
        })
        .collect();
    let mut calls = planned.iter();
    let mut message = answer.message.clone();
    for part in &mut message.content {
        if let Part::ToolCall(stored) = part
            && let Some(planned) = calls.next()
        {
            stored.id = planned.id.clone();
            if planned.refusal.as_ref().is_some_and(Refusal::is_removal) {
                redact(stored);
            }
        }
    }
    (message, planned)
}

pub(super) fn fresh_id() -> ToolCallId {
    format!("call_{}", uuid::Uuid::now_v7().simple()).into()
}

fn refusal(tools: &Toolbox, answer: &Answer, call: &ToolCall, ruling: &ToolDecision) -> Option<Refusal> {
    if let ToolDecision::Deny { reason } = ruling {
        return Some(Refusal::Removed(reason.clone()));
    }
    if call.malformed.is_some() {
        return Some(Refusal::Malformed);
    }
    let same = answer.calls.iter().filter(|(other, _)| other.id == call.id).count();
    if !call.id.is_empty() && same > 1 {
        return Some(Refusal::DoubledId(same));
    }
    // By the tool that would run, not by the name: another spelling must not reach a tool that is not on offer.
    let offered = tools
        .resolve(&ToolName::new(&call.name))
        .is_some_and(|tool| answer.offered.iter().any(|offered| offered == tool));
    (!offered).then(|| Refusal::NotOnOffer(answer.offered.clone()))
}

/// Puts a marker in place of a call's arguments. Answers the digest of what they were.
fn redact(call: &mut ToolCall) -> Digest {
    let digest = match &call.malformed {
        Some(text) => Digest::of_text("tool_call", text),
        None => tool_call_digest(&event_of(call, None)),
    };
    call.arguments = results::removed_arguments();
    call.malformed = None;
    call.meta = None;
    digest
}

/// The tool of which the agent says what paths a call touches.
const PATCHES: &str = "apply_patch";

fn event_of(call: &ToolCall, run: Option<&Run<'_>>) -> ToolCallEvent {
    // With its namespace, as the answer was judged. What runs is the tool of the bare name: the agent offers no others.
    let tool_name = call.tool_name();
    let derived_paths = match (tool_name.canonical(), call.arguments.get("patch")) {
        (PATCHES, Some(Value::String(patch))) => Some(affected_paths(patch)),
        _ => None,
    };
    ToolCallEvent::new(tool_name, call.arguments.clone())
        .derived_paths(derived_paths)
        .run_id(run.map(|run| run.id.clone()))
        .tool_call_id(call.id.clone())
}

/// Takes each call to its result.
pub(crate) async fn run_all(
    run: &Run<'_>,
    transcript: &mut Transcript,
    planned: Vec<Planned>,
) -> Result<(), Stop> {
    for call in planned {
        // A stop in front of a call leaves it and those after it to `close_open_calls`.
        if run.stop.is_cancelled() {
            return Err(Stop::Stopped);
        }
        let result = take(run, transcript, call).await?;
        transcript.append_result(run, None, result, false).await?;
    }
    Ok(())
}

async fn take(run: &Run<'_>, transcript: &mut Transcript, planned: Planned) -> Result<ToolResult, Stop> {
    let Planned { call, id, refusal } = planned;
    let tool = call.tool_name();
    if let Some(refusal) = refusal {
        return Ok(decline(run, &call, &id, &refusal));
    }
    let event = run.toolbox.complete(event_of(&call, Some(run)), run.session.tools()).await;
    run.outlet().say(Shown::ToolJudged { tool: tool.called(), call: &id });
    let verdict = permit(run, event.clone()).await?;
    run.note(&verdict.receipt);
    let edited = matches!(verdict.substituted, Some(Substituted::Edited { .. }));
    let decided = Decided::of(&verdict, &event);
    if verdict.substituted.is_some() {
        // INVARIANT (blocked is gone): a human wanted something else than the call that stands there.
        redact_stored(run, transcript, &id).await?;
    }
    if edited {
        run.outlet().note(|| format!("🙋 {tool} · asked — changed by a human, judged anew"));
    }
    if let Some(Substituted::Responded { result, .. }) = verdict.substituted {
        run.outlet().note(|| format!("🙋 {tool} · asked — answered with a result"));
        decided.say(run, tool.called(), &id, Fate::Answered);
        return Ok(told(run, &call, &id, verdict.event, &result).await);
    }
    if let Some(note) = &verdict.receipt.approval {
        run.outlet().note(|| {
            format!("🙋 {tool} · asked — {}", word(note.resolution.unwrap_or(Resolution::Cancelled)))
        });
    }
    if verdict.permit.is_ok() && verdict.event.params != event.params && !edited {
        run.outlet().note(|| format!("✏️ {tool} · arguments rewritten"));
    }
    let refused = if edited { &verdict.event } else { &event };
    let permit = match verdict.permit {
        Ok(permit) => permit,
        Err(blocked) if edited => {
            let told = "a human changed this call, and the changed call was stopped: ";
            let reason = Text::from(format!("{told}{}", blocked.reason_or_default()));
            let blocked = Blocked { reason: Some(reason.into()), ..blocked };
            return refuse(run, transcript, (&call, &decided), refused, &id, blocked).await;
        }
        Err(blocked) => return refuse(run, transcript, (&call, &decided), refused, &id, blocked).await,
    };
    let mut context = agent_context(run);
    context.caller = Some(Arc::new(Caller { context: run.call.clone(), id: id.clone() }));
    if tool.canonical() == "exec" {
        match exec_env(run).await? {
            Ok(env) => context.exec_env = env,
            Err(blocked) => return refuse(run, transcript, (&call, &decided), refused, &id, blocked).await,
        }
    }
    decided.say(run, tool.called(), &id, Fate::Runs);
    execute(run, &call, &id, permit, verdict.event.params, context, edited).await
}

/// What is known of how a call was decided.
#[derive(Debug, Default)]
struct Decided {
    answer: Option<Resolution>,
    question: Option<ApprovalId>,
    is_edited: bool,
    is_rewritten: bool,
}

impl Decided {
    fn of(verdict: &ToolVerdict, event: &ToolCallEvent) -> Self {
        let note = verdict.receipt.approval.as_ref();
        let substituted = verdict.substituted.as_ref().map(|substituted| match substituted {
            Substituted::Edited { approval, .. } | Substituted::Responded { approval, .. } => approval,
        });
        let is_edited = matches!(verdict.substituted, Some(Substituted::Edited { .. }));
        Self {
            answer: note.and_then(|note| note.resolution),
            // The changed call may have been asked about, too, and that question leads back to the one before.
            question: note.and_then(|note| note.id.as_ref()).or(substituted).cloned(),
            is_edited,
            is_rewritten: !is_edited && verdict.event.params != event.params,
        }
    }

    fn say(&self, run: &Run<'_>, tool: &str, call: &ToolCallId, fate: Fate<'_>) {
        let Self { answer, question, is_edited, is_rewritten } = self;
        let (answer, is_edited, is_rewritten) = (*answer, *is_edited, *is_rewritten);
        let question = question.as_ref();
        run.outlet().say(Shown::ToolDecided(ToolDecided {
            tool,
            call,
            fate,
            answer,
            question,
            is_edited,
            is_rewritten,
        }));
    }
}

/// The result that a human gave in the place of the call: nothing runs, and it is judged as every result.
async fn told(
    run: &Run<'_>,
    call: &ToolCall,
    id: &ToolCallId,
    event: ToolCallEvent,
    result: &Text,
) -> ToolResult {
    let details = json!({ "status": "answered", "by": "human" });
    let result = as_result(call, id, ToolOutput::text(result.as_str()).with_details(details), 0);
    judged(run, call, id, event.tool_name, event.params, result, 0).await
}

/// A call that no gate is asked about.
fn decline(run: &Run<'_>, call: &ToolCall, id: &ToolCallId, refusal: &Refusal) -> ToolResult {
    // A name that the model made up is its own text, which is not shown here.
    let tool = ToolName::new(&call.name);
    let what = run.toolbox.resolve(&tool).unwrap_or("a tool that does not exist");
    let (point, reason) = match refusal {
        Refusal::Removed(reason) => (PointId::AfterLlmCall, reason.as_str()),
        Refusal::Malformed => (PointId::BeforeToolCall, "the arguments are not a JSON object"),
        Refusal::DoubledId(_) => (PointId::BeforeToolCall, "several calls have one id"),
        Refusal::NotOnOffer(_) => (PointId::BeforeToolCall, "not on offer"),
    };
    run.outlet().blocked(point, None, what, Some(reason));
    Decided::default().say(run, what, id, Fate::Denied { by: None, reason });
    let digest = refusal.is_removal().then(|| redact(&mut call.clone()));
    results::refused(id, &call.name, &refusal.reason(), digest)
}

/// What a human may put in the place of a call. INVARIANT (nothing is milder than a fresh call): what the agent itself says of a call's
/// arguments it says of those that the model gave, so that where it may say something nobody else changes them.
fn substitutes(tools: &Toolbox, tool: &ToolName) -> &'static [Substitute] {
    match tool.canonical() == PATCHES || tools.completes(tool) {
        true => &[Substitute::Respond],
        false => &[Substitute::Edit, Substitute::Respond],
    }
}

/// Asks every gate and, if one wants that, a human. When the turn is stopped meanwhile, the question is
/// withdrawn in the store, so that whoever asked it learns of that.
async fn permit(run: &Run<'_>, event: ToolCallEvent) -> Result<ToolVerdict, Stop> {
    let agent = run.agent;
    let can = substitutes(&run.toolbox, &event.tool_name);
    let judging = agent.engine.permit_or_substitute(event, &run.call, &agent.attendance, can);
    let mut judging = std::pin::pin!(judging);
    tokio::select! {
        biased;
        () = run.stop.cancelled() => {}
        verdict = &mut judging => return Ok(verdict),
    }
    let deadline = Instant::now() + CANCEL_GRACE;
    while Instant::now() < deadline {
        // The question may be on its way into the store only now, hence more than once.
        agent.engine.answer_store().cancel_run_approvals(run.session.id(), &run.id, Timestamp::now()).await?;
        if tokio::time::timeout(Duration::from_millis(200), &mut judging).await.is_ok() {
            break;
        }
    }
    Err(Stop::Stopped)
}

fn word(resolution: Resolution) -> &'static str {
    match resolution {
        Resolution::AllowOnce => "allowed once",
        Resolution::AllowAlways => "allowed always",
        Resolution::Deny => "denied",
        Resolution::Timeout => "nobody answered in time",
        Resolution::Cancelled => "nobody could answer",
    }
}

/// A call that a hook or a human stopped. What it was about goes from the transcript, unless it only lacks an
/// answer: a human may still allow this very call, and the model must be able to repeat it.
async fn refuse(
    run: &Run<'_>,
    transcript: &mut Transcript,
    (call, decided): (&ToolCall, &Decided),
    event: &ToolCallEvent,
    id: &ToolCallId,
    blocked: Blocked,
) -> Result<ToolResult, Stop> {
    let reason = blocked.reason_or_default();
    let tool = event.tool_name.to_string();
    run.outlet().blocked(PointId::BeforeToolCall, blocked.hook.as_ref(), &tool, Some(&reason));
    let fate = Fate::Denied { by: blocked.hook.as_ref(), reason: &reason };
    decided.say(run, event.tool_name.called(), id, fate);
    if !is_unanswered(&blocked) {
        redact_stored(run, transcript, id).await?;
    }
    Ok(results::refused(id, &call.name, &reason, Some(tool_call_digest(event))))
}

fn is_unanswered(blocked: &Blocked) -> bool {
    matches!(blocked.cause, BlockCause::Approval { resolution: Resolution::Timeout | Resolution::Cancelled })
}

async fn redact_stored(run: &Run<'_>, transcript: &mut Transcript, id: &ToolCallId) -> Result<(), Stop> {
    let holder = transcript
        .of_run(&run.id)
        .find(|entry| entry.message.tool_calls().any(|stored| stored.id == *id))
        .map(|entry| (entry.id.clone(), entry.message.clone()));
    let Some((entry, mut message)) = holder else { return Ok(()) };
    for part in &mut message.content {
        if let Part::ToolCall(stored) = part
            && stored.id == *id
        {
            redact(stored);
        }
    }
    Ok(transcript.edit(run, vec![Edit::Replace(entry, message)]).await?)
}

fn agent_context(run: &Run<'_>) -> ToolContext {
    let mut context = run.session.tools().clone();
    context.cancel = run.stop.clone();
    context
}

/// What hooks add to a command's environment, as far as it is harmless.
async fn exec_env(
    run: &Run<'_>,
) -> Result<Result<std::collections::BTreeMap<String, String>, Blocked>, Stop> {
    let event =
        ExecEnvEvent::new(ToolName::new("exec"), ExecHost::Gateway).session_key(run.call.session_key.clone());
    let decided = run.decide::<ResolveExecEnv>(event).await?.into_parts();
    if let Some(blocked) = decided.blocked {
        return Ok(Err(blocked));
    }
    let (kept, dropped) = filter_overrides(&decided.outcome.0);
    for variable in dropped {
        run.outlet().note(|| format!("⚙️ resolve_exec_env · dropped {variable}"));
    }
    Ok(Ok(kept))
}

/// What the model is told with the result of a call that a human changed.
const CHANGED: &str = "[a human changed the arguments of this call before it ran; what follows is the result of the changed call]";

/// Runs a call. `params` are its arguments for everybody but the tool: with placeholders where the tool gets values.
async fn execute(
    run: &Run<'_>,
    call: &ToolCall,
    id: &ToolCallId,
    permit: Permitted<ToolCallEvent>,
    params: Params,
    mut context: ToolContext,
    edited: bool,
) -> Result<ToolResult, Stop> {
    context.shown = Some(params.clone());
    let tool = permit.tool_name.clone();
    let about = about(run, &params);
    run.outlet().say(Shown::ToolStarted { tool: &tool, about: about.as_deref() });
    let started = Instant::now();
    let output = bounded(run, permit, &context).await;
    run.outlet().say(Shown::ToolEnded { tool: &tool, failed: output.is_error });
    let duration_ms = millis_since(started);
    run.agent.stages.tell(run.call.trace, || Stage::ToolCall {
        tool: &tool,
        id,
        failed: output.is_error,
        elapsed: started.elapsed(),
    });
    let mut result = as_result(call, id, output, duration_ms);
    if edited {
        result.content.insert(0, Part::text(CHANGED));
    }
    Ok(judged(run, call, id, tool, params, result, duration_ms).await)
}

/// Has a result judged, and shows it to those who watch. Returns what the model is told.
async fn judged(
    run: &Run<'_>,
    call: &ToolCall,
    id: &ToolCallId,
    tool: ToolName,
    params: Params,
    result: ToolResult,
    duration_ms: u64,
) -> ToolResult {
    let event = ToolAfterEvent::new(tool.clone(), id.clone(), result.is_error, result).params(params.clone());
    // The tool has run: what it did is judged and kept also when the turn is being stopped.
    let decided = run.agent.engine.decide::<ToolAfter>(event, &run.call).await.into_parts();
    run.note(&decided.receipt);
    let result = match decided.blocked {
        None => decided.event.result,
        Some(blocked) => {
            run.outlet().blocked(PointId::ToolAfter, blocked.hook.as_ref(), "the result", None);
            results::withheld(id, Some(&call.name))
        }
    };
    run.tell::<AfterToolCall>(|| {
        AfterToolCallEvent::new(tool, params, duration_ms)
            .run_id(run.id.clone())
            .tool_call_id(id.clone())
            .result(result.clone())
            .error(result.is_error.then(|| result.visible_text().into()))
    });
    result
}

/// Runs the tool within a bound of time that holds for every tool, and survives its panic.
async fn bounded(run: &Run<'_>, permit: Permitted<ToolCallEvent>, context: &ToolContext) -> ToolOutput {
    let work = Contained::new(Box::pin(run.toolbox.run(permit, context)));
    let limit = context.limits.time.saturating_add(GRACE);
    let overdue = async {
        tokio::select! {
            () = tokio::time::sleep(limit) => {}
            () = async {
                run.stop.cancelled().await;
                tokio::time::sleep(CANCEL_GRACE).await;
            } => {}
        }
    };
    tokio::select! {
        biased;
        done = work => done.unwrap_or_else(|_| {
            ToolOutput::error("the tool broke down; it may have done a part of its work, look before you try again")
        }),
        () = overdue => ToolOutput::error("the tool did not end in time and was given up"),
    }
}

fn as_result(call: &ToolCall, id: &ToolCallId, output: ToolOutput, duration_ms: u64) -> ToolResult {
    let mut details = match output.details {
        Value::Object(details) => details,
        Value::Null => serde_json::Map::new(),
        other => serde_json::Map::from_iter([("value".to_owned(), other)]),
    };
    details.entry("durationMs").or_insert_with(|| duration_ms.into());
    let images = output.images.into_iter().map(|image| Part::Image {
        mime_type: image.mime_type,
        source: image.source,
        meta: None,
    });
    ToolResult {
        tool_call_id: id.clone(),
        tool_name: Some(call.name.clone()),
        content: std::iter::once(Part::text(output.content)).chain(images).collect(),
        is_error: output.is_error,
        details: Some(Value::Object(details).into()),
        meta: None,
    }
}

/// What a call works on, for the user. It may quote the model, so it waits where texts wait.
fn about(run: &Run<'_>, params: &Params) -> Option<String> {
    if Release::now(run) == Release::AtEnd {
        return None;
    }
    let named = ["command", "path", "url", "action"].iter().find_map(|key| params.get(*key)?.as_str())?;
    let line: String = named.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
    // First redacted, then cut: what is cut off may be what gives a secret away.
    let clean = redacted(run, line.get(..line.floor_char_boundary(4096)).unwrap_or_default())?;
    Some(clean.get(..clean.floor_char_boundary(120)).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules that judged an answer are those that judge its calls when they are run.
    #[test]
    fn a_call_is_judged_by_its_namespace_and_runs_as_the_tool_of_its_bare_name() {
        for (name, canonical, called) in [("delete", "crm__delete", "delete"), ("exec", "exec", "crm__exec")]
        {
            let call = ToolCall {
                id: "call_1".into(),
                name: name.to_owned(),
                arguments: Params::default(),
                malformed: None,
                meta: Some(json!({"openai-responses": {"namespace": "crm"}}).into()),
            };
            let event = event_of(&call, None);
            assert_eq!((event.tool_name.canonical(), event.tool_name.called()), (canonical, called));
            assert_eq!(event.tool_name, call.tool_name());
        }
    }

    #[test]
    fn a_call_of_which_the_agent_says_something_itself_is_not_changed_by_others() {
        let tools = Toolbox::built_in();
        for name in tools.names() {
            let is_changed = substitutes(&tools, &ToolName::new(name)).contains(&Substitute::Edit);
            assert_eq!(is_changed, !["apply_patch", "process"].contains(&name), "{name}");
        }
    }
}
