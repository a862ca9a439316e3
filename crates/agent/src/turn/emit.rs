//! The way of an answer out: `before_response_emit`, what it changes in the transcript, and the door.

use std::collections::HashSet;

use backstop_hooks::conversation::{Message, Role};
use backstop_hooks::points::{BeforeResponseEmit, ResponseEmitEvent};
use backstop_hooks::{MessageId, PointId, Text};

use super::redaction;
use super::run::{Run, Stop};
use super::transcript::{Edit, Transcript, Written};
use crate::output::Shown;

/// Judges the run's texts and shows those that are not in `said` already. Answers the last text, if any is
/// left.
pub(crate) async fn emit(
    run: &Run<'_>,
    transcript: &mut Transcript,
    said: &HashSet<MessageId>,
) -> Result<Option<Text>, Stop> {
    let messages = of_run(run, transcript);
    let before = redaction::texts(messages.iter().map(|(_, message)| message));
    let event = ResponseEmitEvent {
        run_id: Some(run.id.clone()),
        content: before.last().cloned().unwrap_or_default(),
        all_content: before.clone(),
        channel: run.agent.settings.channel.clone(),
        message_count: u32::try_from(messages.len()).unwrap_or(u32::MAX),
    };
    let decided = run.decide::<BeforeResponseEmit>(event).await?;
    if let Some(blocked) = decided.blocked {
        transcript.edit(run, redaction::block(&messages)).await?;
        return Err(Stop::Blocked { point: PointId::BeforeResponseEmit, blocked, message: None });
    }
    let after = decided.event.all_content;
    let changed = after != before;
    if changed {
        change(run, transcript, &messages, &before, &after).await?;
        run.outlet().note(|| "✏️ before_response_emit · answer rewritten".to_owned());
    }
    // What leaves is read from the transcript: it is what was kept.
    let kept: Vec<(MessageId, Text)> = of_run(run, transcript)
        .into_iter()
        .filter(|(_, message)| message.role == Role::Assistant && message.has_text())
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

fn of_run(run: &Run<'_>, transcript: &Transcript) -> Vec<(MessageId, Message)> {
    transcript.of_run(&run.id).map(|entry| (entry.id.clone(), entry.message.clone())).collect()
}

async fn change(
    run: &Run<'_>,
    transcript: &mut Transcript,
    messages: &[(MessageId, Message)],
    before: &[Text],
    after: &[Text],
) -> Result<(), Stop> {
    if let ([], [text]) = (before, after) {
        return speak_first(run, transcript, messages, text).await;
    }
    Ok(transcript.edit(run, redaction::rewrite(messages, after)).await?)
}

/// A hook gives words to a run that had none.
async fn speak_first(
    run: &Run<'_>,
    transcript: &mut Transcript,
    messages: &[(MessageId, Message)],
    text: &Text,
) -> Result<(), Stop> {
    let last = messages
        .last()
        .filter(|(_, message)| message.role == Role::Assistant && message.tool_calls().next().is_none());
    match last {
        Some((id, message)) => {
            let mut message = message.clone();
            message.set_visible_text(text);
            Ok(transcript.edit(run, vec![Edit::Replace(id.clone(), message)]).await?)
        }
        None => match transcript.append(run, Message::assistant(text.clone())).await? {
            Written::Stored(_) => Ok(()),
            Written::Withheld(blocked) => {
                Err(Stop::Blocked { point: PointId::BeforeMessageWrite, blocked, message: None })
            }
        },
    }
}
