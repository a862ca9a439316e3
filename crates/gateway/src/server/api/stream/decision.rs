//! One decision, for whoever is judged: `pending` with the question, again where another one takes its place (a human changed the call, and it
//! is asked about again), and `decided`, with which the stream ends. It ends without that where the decision is given up.
//!
//! The law: *a permit is used where it is read*, here as by a request. That a call may run is told once: `decided` here is that one time,
//! and where somebody else was told, `problem` says so.

use backstop_hooks::ApprovalId;
use http::Response;
use tokio::sync::watch;

use super::super::super::operators::Problem;
use super::super::Caller;
use super::super::asked::{Asked, Empty};
use super::super::decisions::{Kept, Stage};
use super::super::judge::{Decision, pending, whose};
use super::{Source, open, place_of_agent, written};
use crate::server::answer::AnswerBody;

/// Opens a stream about a decision.
pub(in crate::server::api) async fn decision(
    asked: Asked,
    _: Empty,
) -> Result<Response<AnswerBody>, Problem> {
    let Caller::Holder(holder) = &asked.caller else { return Err(Problem::scope("judge")) };
    let id = asked.name().to_owned();
    let (stage, kept) = asked.shared.api.decisions.find(&whose(holder), &id)?;
    let place = place_of_agent(&asked, holder)?;
    Ok(open(&asked, place, Following { id, stage, kept, told: None, is_over: false }))
}

struct Following {
    id: String,
    stage: watch::Receiver<Stage>,
    kept: Kept,
    /// The question of which the reader was told.
    told: Option<ApprovalId>,
    is_over: bool,
}

impl Source for Following {
    async fn next(&mut self) -> Option<String> {
        while !self.is_over {
            let stage = self.stage.borrow_and_update().clone();
            match stage {
                Stage::Made(made, _) => {
                    let read = made.read(Some(&self.kept)).await;
                    self.is_over = true;
                    // What was given up is told to nobody.
                    if !self.kept.is_kept() {
                        return None;
                    }
                    return match read {
                        Ok(judgement) => event("decided", &judgement.decided(Some(self.id.clone()))),
                        Err(problem) => Some(written(None, "problem", &problem.document().to_string())),
                    };
                }
                Stage::Asked(question) if self.told.as_ref() != Some(question.approval()) => {
                    self.told = Some(question.approval().clone());
                    return event("pending", &pending(self.id.clone(), *question));
                }
                Stage::Judging | Stage::Asked(_) => {}
            }
            // Nobody judges it any more where it was given up.
            self.stage.changed().await.ok()?;
        }
        None
    }
}

fn event(kind: &str, decision: &Decision) -> Option<String> {
    Some(written(None, kind, &serde_json::to_string(decision).ok()?))
}
