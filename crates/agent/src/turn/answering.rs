//! The second half of a turn: model calls and tool calls in turns, until there is an answer.

use std::collections::HashSet;

use backstop_hooks::conversation::{Message, Part, Role, TokenUsage};
use backstop_hooks::points::{AgentReplyEvent, BeforeAgentReply};
use backstop_hooks::{MessageId, PointId, Text, ToolCallId};
use backstop_llm::{ModelError, StopReason, TimeoutPhase, WireError};

use super::compaction::{Compactor, fit};
use super::emit::emit;
use super::finalize::Revisions;
use super::model_call::{Answer, NoAnswer, Question, ask, text_of};
use super::prepare::Prepared;
use super::redaction::says_nothing;
use super::run::{Run, Stop};
use super::tool_calls;
use super::transcript::{Edit, Transcript, Written};
use super::voice::{Spoken, Voice};
use crate::report::TurnError;

/// What a turn has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Model calls that were answered.
    pub(crate) iterations: u32,
    pub(crate) usage: TokenUsage,
    /// A model has read the prompt.
    pub(crate) asked: bool,
}

/// Stores the message of the turn. A message that may not be stored is not asked about either.
pub(crate) async fn store_message(
    run: &Run<'_>,
    transcript: &mut Transcript,
    prepared: &Prepared,
) -> Result<MessageId, Stop> {
    append(run, transcript, prepared.message.clone()).await
}

/// Adds a message that the turn can't go on without.
async fn append(run: &Run<'_>, transcript: &mut Transcript, message: Message) -> Result<MessageId, Stop> {
    match transcript.append(run, message).await? {
        Written::Stored(id) => Ok(id),
        Written::Withheld(blocked) => {
            Err(Stop::Blocked { point: PointId::BeforeMessageWrite, blocked, message: None })
        }
    }
}

/// `before_agent_reply`: a hook may answer in place of the model. Its answer goes the way of every answer.
pub(crate) async fn reply_of_a_hook(
    run: &Run<'_>,
    transcript: &mut Transcript,
    prepared: &Prepared,
) -> Result<Option<Text>, Stop> {
    let body = prepared.message.visible_text();
    let event = AgentReplyEvent::new(body);
    let claim = run.agent.engine.claim::<BeforeAgentReply>(&event, &run.call);
    let claimed = run.unless_stopped(claim).await?;
    run.note(&claimed.receipt);
    if let Some(blocked) = claimed.blocked {
        return Err(Stop::Blocked { point: PointId::BeforeAgentReply, blocked, message: None });
    }
    let Some(outcome) = claimed.outcome else { return Ok(None) };
    let Some(reply) = outcome.reply.and_then(|reply| reply.text()).filter(|reply| !reply.is_empty()) else {
        return Err(Stop::Silent);
    };
    append(run, transcript, Message::assistant(reply)).await?;
    emit(run, transcript, &HashSet::new()).await?.map(Some).ok_or(Stop::Silent)
}

/// Asks the model until it has answered.
pub(crate) async fn answer(
    run: &Run<'_>,
    transcript: &mut Transcript,
    prepared: &Prepared,
    prompt: &MessageId,
    tally: &mut Tally,
) -> Result<Option<Text>, Stop> {
    let limit = run.agent.settings.max_iterations.max(1);
    let mut compaction = Compactor::new(run);
    let mut revisions = Revisions::default();
    let mut said = HashSet::new();
    loop {
        if tally.iterations >= limit {
            // What was said so far is judged, and shown, like any other answer.
            emit(run, transcript, &said).await?;
            return Err(Stop::Failed(TurnError::TooManyIterations { limit }));
        }
        compaction.shorten_history(run, prepared, transcript, tally.iterations).await?;
        let (answer, voice) = ask_with_retries(run, transcript, prepared, prompt, tally).await?;
        tally.iterations += 1;
        if !tally.asked {
            tally.asked = true;
            run.agent.store.confirm_injections(&run.id).await?;
        }
        tally.usage = sum(tally.usage, answer.usage);
        let (message, planned) = tool_calls::plan(&run.toolbox, &answer, &ids_of(transcript));
        let stored = store_answer(run, transcript, message, voice, &mut said).await?;
        if !planned.is_empty() {
            tool_calls::run_all(run, transcript, planned).await?;
            continue;
        }
        if answer.stop == StopReason::PauseTurn && stored.is_some() {
            continue;
        }
        if let Some(text) = stored
            && let Some(steer) = revisions.ask(run, prepared, transcript, &text).await?
            && let Written::Stored(_) = transcript.append(run, steer).await?
        {
            continue;
        }
        return emit(run, transcript, &said).await;
    }
}

fn sum(a: TokenUsage, b: TokenUsage) -> TokenUsage {
    TokenUsage {
        input: a.input.saturating_add(b.input),
        output: a.output.saturating_add(b.output),
        cache_read: a.cache_read.saturating_add(b.cache_read),
        cache_write: a.cache_write.saturating_add(b.cache_write),
    }
}

fn ids_of(transcript: &Transcript) -> HashSet<ToolCallId> {
    let calls = transcript.entries().iter().flat_map(|entry| entry.message.tool_calls());
    calls.map(|call| call.id.clone()).collect()
}

/// Stores an answer that passed, and lets it speak. Answers its text, if it has one.
async fn store_answer(
    run: &Run<'_>,
    transcript: &mut Transcript,
    message: Message,
    voice: Voice,
    said: &mut HashSet<MessageId>,
) -> Result<Option<Text>, Stop> {
    if says_nothing(&message) {
        // Providers refuse such a message when it is sent back to them.
        return Ok(None);
    }
    let id = append(run, transcript, message).await?;
    let stored = transcript.get(&id).cloned().unwrap_or_else(|| Message::assistant(""));
    match voice.conclude(run, &stored) {
        Ok(Spoken::Said) => {
            said.insert(id);
        }
        Ok(Spoken::Held) => {}
        Err(_) => {
            transcript.edit(run, vec![Edit::Remove(id)]).await?;
            return Err(Stop::Failed(TurnError::Inconsistent));
        }
    }
    Ok(text_of(&stored))
}

/// Asks once more after a failure that nobody has seen anything of. Blocks are never retried: another try, or
/// another provider, must not get past them.
async fn ask_with_retries(
    run: &Run<'_>,
    transcript: &Transcript,
    prepared: &Prepared,
    prompt: &MessageId,
    tally: &Tally,
) -> Result<(Answer, Voice), Stop> {
    let mut retries = run.agent.settings.model_retries;
    loop {
        let mut voice = Voice::new(run, prepared.params.reasoning);
        let question = Question {
            prepared,
            prompt: prepared.prompt.clone(),
            system: prepared.system.clone(),
            messages: fit(run, with_context(transcript, prompt, &prepared.prompt)),
            tools: &prepared.tools,
            iteration: tally.iterations,
            taken: ids_of(transcript),
            texts: transcript.of_run(&run.id).filter_map(|entry| assistant_text(&entry.message)).collect(),
        };
        match ask(run, question, &mut voice).await {
            Ok(answer) => return Ok((answer, voice)),
            Err(NoAnswer::Failed { error: TurnError::Model(error), shown: false })
                if retries > 0 && may_be_repeated(&error) =>
            {
                tracing::warn!(category = error.category().as_str(), "asking the model again");
                retries -= 1;
            }
            Err(NoAnswer::Failed { error, .. }) => return Err(Stop::Failed(error)),
            Err(NoAnswer::Blocked(point, blocked)) => {
                return Err(Stop::Blocked { point, blocked, message: None });
            }
            Err(NoAnswer::Stop(stop)) => return Err(stop),
        }
    }
}

fn assistant_text(message: &Message) -> Option<Text> {
    (message.role == Role::Assistant).then(|| text_of(message)).flatten()
}

/// Whether asking again may help. The client of the provider has retried what it can; a half answer is
/// repeated only here, where it is known that nobody saw it and nothing was run.
fn may_be_repeated(error: &ModelError) -> bool {
    match error {
        ModelError::Wire(WireError::Truncated) | ModelError::Interrupted { .. } => true,
        ModelError::Timeout { phase, .. } => *phase == TimeoutPhase::Idle,
        ModelError::Provider(error) => error.is_transient(),
        ModelError::Wire(_)
        | ModelError::Connect { .. }
        | ModelError::TooLarge { .. }
        | ModelError::Setup { .. } => false,
    }
}

/// The conversation with this turn's context around its message.
fn with_context(transcript: &Transcript, prompt: &MessageId, text: &Text) -> Vec<Message> {
    let mut messages = transcript.messages();
    let current = messages.iter_mut().find(|message| message.id.as_ref() == Some(prompt));
    if let Some(Part::Text { text: stored, .. }) =
        current.and_then(|message| message.content.iter_mut().find(|part| part.as_text().is_some()))
    {
        *stored = text.clone();
    }
    for message in &mut messages {
        for part in &mut message.content {
            if let Part::ToolResult(result) = part {
                result.details = None;
            }
        }
    }
    messages
}
