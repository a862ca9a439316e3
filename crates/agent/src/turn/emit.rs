//! The way of an answer out: `before_response_emit`, what it changes in the transcript, and the door.

use std::collections::HashSet;

use backstop_engine::Blocked;
use backstop_hooks::conversation::{Message, Role};
use backstop_hooks::points::{BeforeResponseEmit, ResponseEmitEvent};
use backstop_hooks::{CallContext, MessageId, PointId, RunId, Text};

use super::redaction;
use super::run::{Run, Stop};
use super::transcript::{Edit, Transcript, Written};
use crate::agent::Agent;
use crate::error::AgentError;
use crate::output::Shown;

/// Judges the run's texts and shows those that are not in `said` already. Answers the last text, if any is
/// left.
pub(crate) async fn emit(
    run: &Run<'_>,
    transcript: &mut Transcript,
    said: &HashSet<MessageId>,
) -> Result<Option<Text>, Stop> {
    if let Some(blocked) = judge(run, transcript).await? {
        return Err(Stop::Blocked { point: PointId::BeforeResponseEmit, blocked, message: None });
    }
    // What leaves is read from the transcript: it is what was kept.
    let kept: Vec<(MessageId, Text)> = of_run(run, transcript)
        .into_iter()
        .filter(|(_, message)| redaction::speaks(message))
        .map(|(id, message)| (id, message.visible_text().into()))
        .collect();
    for (_, text) in kept.iter().filter(|(id, _)| !said.contains(id)) {
        run.outlet().say(Shown::Text(text));
        run.outlet().say(Shown::TextEnd);
    }
    // With every text gone by a rewrite, an empty one is the answer: there is nothing to show.
    let answer = kept.last().map(|(_, text)| text.clone());
    if let Some(text) = &answer {
        run.outlet().say(Shown::Answer(text));
    }
    Ok(answer)
}

/// Judges a text that no model has said, and shows it. Answers what is left of it, if anything is.
pub(crate) async fn emit_alone(
    agent: &Agent,
    call: &CallContext,
    run: &RunId,
    text: Text,
) -> Result<Option<Text>, Blocked> {
    let event = ResponseEmitEvent {
        run_id: Some(run.clone()),
        content: text.clone(),
        all_content: vec![text],
        channel: agent.settings.channel.clone(),
        message_count: 1,
    };
    let decided = agent.engine.decide::<BeforeResponseEmit>(event, call).await.into_parts();
    agent.outlet.receipt(&decided.receipt);
    if let Some(blocked) = decided.blocked {
        return Err(blocked);
    }
    let text = decided.event.all_content.into_iter().next_back().filter(|text| !text.is_empty());
    if let Some(text) = &text {
        agent.outlet.say(Shown::Text(text));
        agent.outlet.say(Shown::TextEnd);
        agent.outlet.say(Shown::Answer(text));
    }
    Ok(text)
}

/// Judges what a run said that ended without an answer: what nobody judged does not stay for later turns to read.
pub(crate) async fn judge_leftovers(run: &Run<'_>, transcript: &mut Transcript) -> Result<(), AgentError> {
    let spoke = transcript.of_run(&run.id).any(|entry| redaction::speaks(&entry.message));
    if spoke {
        judge(run, transcript).await?;
    }
    Ok(())
}

/// Takes the run's texts through `before_response_emit` and makes the transcript what the hooks want it to be.
/// It does not listen to the stop switch.
async fn judge(run: &Run<'_>, transcript: &mut Transcript) -> Result<Option<Blocked>, AgentError> {
    let messages = of_run(run, transcript);
    let before = redaction::texts(messages.iter().map(|(_, message)| message));
    let event = ResponseEmitEvent {
        run_id: Some(run.id.clone()),
        content: before.last().cloned().unwrap_or_default(),
        all_content: before.clone(),
        channel: run.agent.settings.channel.clone(),
        message_count: u32::try_from(messages.len()).unwrap_or(u32::MAX),
    };
    let decided = run.agent.engine.decide::<BeforeResponseEmit>(event, &run.call).await.into_parts();
    run.note(&decided.receipt);
    if let Some(blocked) = decided.blocked {
        transcript.edit(run, redaction::block(&messages)).await?;
        return Ok(Some(blocked));
    }
    let after = decided.event.all_content;
    if after == before {
        return Ok(None);
    }
    run.outlet().note(|| "✏️ before_response_emit · answer rewritten".to_owned());
    if let ([], [text]) = (before.as_slice(), after.as_slice()) {
        return speak_first(run, transcript, &messages, text).await;
    }
    transcript.edit(run, redaction::rewrite(&messages, &after)).await?;
    Ok(None)
}

fn of_run(run: &Run<'_>, transcript: &Transcript) -> Vec<(MessageId, Message)> {
    transcript.of_run(&run.id).map(|entry| (entry.id.clone(), entry.message.clone())).collect()
}

/// A hook gives words to a run that had none.
async fn speak_first(
    run: &Run<'_>,
    transcript: &mut Transcript,
    messages: &[(MessageId, Message)],
    text: &Text,
) -> Result<Option<Blocked>, AgentError> {
    let last = messages
        .last()
        .filter(|(_, message)| message.role == Role::Assistant && message.tool_calls().next().is_none());
    match last {
        Some((id, message)) => {
            let mut message = message.clone();
            message.set_visible_text(text);
            transcript.edit(run, vec![Edit::Replace(id.clone(), message)]).await?;
            Ok(None)
        }
        None => match transcript.append(run, Message::assistant(text.clone())).await? {
            Written::Stored(_) => Ok(None),
            Written::Withheld(blocked) => Ok(Some(blocked)),
        },
    }
}
