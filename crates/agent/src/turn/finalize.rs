//! `before_agent_finalize`: whether the model gets another pass.
//!
//! A revision is a message to the model, stored as part of the run. It is bounded twice: each request by its
//! own number of attempts (one, unless it says more), and the run by [`MAX_REVISIONS`], so that two hooks that
//! are never content can't keep a turn alive.

use std::collections::HashMap;

use backstop_hooks::conversation::Message;
use backstop_hooks::points::{
    AgentFinalizeEvent, AgentFinalizeOutcome, BeforeAgentFinalize, FinalizeAction, Retry,
};
use backstop_hooks::{Digest, Text};

use super::prepare::Prepared;
use super::run::{Run, Stop};
use super::transcript::Transcript;

/// The most revisions of one run, whatever hooks want.
pub(crate) const MAX_REVISIONS: u32 = 3;

/// The revisions of one run so far.
#[derive(Debug, Default)]
pub(crate) struct Revisions {
    made: u32,
    by_key: HashMap<String, u32>,
}

impl Revisions {
    /// What the model is told, if it is to try again.
    pub(crate) async fn ask(
        &mut self,
        run: &Run<'_>,
        prepared: &Prepared,
        transcript: &Transcript,
        answer: &Text,
    ) -> Result<Option<Message>, Stop> {
        if !run.agent.engine.has_hooks::<BeforeAgentFinalize>() {
            return Ok(None);
        }
        let event = AgentFinalizeEvent {
            run_id: Some(run.id.clone()),
            session_id: run.session.id().clone(),
            turn_id: None,
            provider: Some(prepared.provider.clone()),
            model: Some(prepared.model.clone()),
            stop_hook_active: self.made > 0,
            last_assistant_message: Some(answer.clone()),
            messages: Some(transcript.messages()),
        };
        let outcome = run.pass::<BeforeAgentFinalize>(event).await?.outcome;
        Ok(self.admit(outcome).map(Message::user))
    }

    fn admit(&mut self, outcome: AgentFinalizeOutcome) -> Option<String> {
        if outcome.action != Some(FinalizeAction::Revise) || self.made >= MAX_REVISIONS {
            return None;
        }
        let reason = outcome.reason.as_deref().unwrap_or_default().trim().to_owned();
        let candidates: Vec<Retry> = outcome.retry.into_iter().chain(outcome.more_retries).collect();
        let instruction = if candidates.is_empty() {
            self.count(&key_of(&reason), 1).then(String::new)
        } else {
            candidates.into_iter().find_map(|retry| {
                let key = retry.idempotency_key.clone().unwrap_or_else(|| key_of(&retry.instruction));
                let attempts = retry.max_attempts.unwrap_or(1).max(1);
                self.count(&key, attempts).then(|| retry.instruction.trim().to_owned())
            })
        }?;
        self.made += 1;
        Some(match (reason.is_empty(), instruction.is_empty() || reason.contains(&instruction)) {
            (true, true) => "revise your answer".to_owned(),
            (true, false) => instruction,
            (false, true) => reason,
            (false, false) => format!("{reason}\n\n{instruction}"),
        })
    }

    /// Uses up one attempt of the request, if one is left.
    fn count(&mut self, key: &str, attempts: u32) -> bool {
        let used = self.by_key.entry(key.to_owned()).or_default();
        let left = *used < attempts;
        *used += u32::from(left);
        left
    }
}

fn key_of(instruction: &str) -> String {
    Digest::of_text("instruction", instruction.trim()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revise(reason: &str, retries: &[(&str, Option<&str>, Option<u32>)]) -> AgentFinalizeOutcome {
        let mut retries = retries.iter().map(|(instruction, key, max)| Retry {
            instruction: (*instruction).into(),
            idempotency_key: key.map(str::to_owned),
            max_attempts: *max,
        });
        AgentFinalizeOutcome {
            action: Some(FinalizeAction::Revise),
            reason: Some(reason.into()),
            retry: retries.next(),
            more_retries: retries.collect(),
        }
    }

    #[test]
    fn each_request_has_its_attempts_and_the_next_one_takes_over() {
        let mut revisions = Revisions::default();
        let outcome = || revise("tests fail", &[("run them", Some("a"), None), ("look", Some("b"), Some(9))]);
        assert_eq!(revisions.admit(outcome()).unwrap(), "tests fail\n\nrun them");
        assert_eq!(revisions.admit(outcome()).unwrap(), "tests fail\n\nlook");
        assert_eq!(revisions.admit(outcome()).unwrap(), "tests fail\n\nlook");
        assert_eq!(revisions.admit(outcome()), None, "three revisions a run");
    }

    #[test]
    fn a_reason_alone_is_honoured_once_and_finalize_never_revises() {
        let mut revisions = Revisions::default();
        assert_eq!(revisions.admit(revise("again", &[])).unwrap(), "again");
        assert_eq!(revisions.admit(revise("again", &[])), None);
        let finalize = AgentFinalizeOutcome {
            action: Some(FinalizeAction::Finalize),
            ..revise("x", &[("y", None, None)])
        };
        assert_eq!(revisions.admit(finalize), None);
    }
}
