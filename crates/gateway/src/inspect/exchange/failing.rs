//! How an answer ends before its time.

use std::sync::Arc;

use backstop_engine::{Blocked, Engine, ResponseGate};
use backstop_hooks::points::BeforeResponseEmit;
use backstop_hooks::{CallContext, Text};
use backstop_llm::{ErrorCategory, ModelError, ProviderError, WireError};
use http::StatusCode;

use super::told::{UNREADABLE, logged, provider_error, unread_error};
use super::{Answer, InspectedExchange};
use crate::exchange::{Outgoing, Step};
use crate::inspect::judge::{Facts, JudgeError, emission};
use crate::inspect::names::Names;
use crate::inspect::reply;
use crate::inspect::settings::BlockedForm;

/// What is told of a block whose reason can't be shown.
const WITHHELD: &str = "it was blocked, and why may not be shown";

impl InspectedExchange {
    /// Ends an answer because of a failure.
    pub(super) fn fail(&mut self, error: &JudgeError, out: &mut Outgoing) -> Step {
        let (category, kind) = match error {
            JudgeError::Blocked(blocked) => return self.stop(blocked, out),
            JudgeError::Wire(wire_error) => {
                let failed = ModelError::from(wire_error.clone());
                (failed.category(), failed.failure_kind())
            }
            JudgeError::TooLarge { .. } => (ErrorCategory::Protocol, None),
        };
        let mut told = provider_error(error);
        // What is odd about an answer may be said in its own words.
        if let (Answer::Judged(judge), JudgeError::Wire(wire)) = (&mut self.answer, error)
            && !matches!(wire, WireError::Provider(_))
        {
            told.message = judge.shown(&told.message).unwrap_or_else(|| UNREADABLE.to_owned());
        }
        let logged = logged(error, &told);
        tracing::warn!(agent = ?self.agent, error = logged, "an answer could not be judged and was ended");
        self.end(Some((category.as_str(), kind)));
        self.end_with_error(&told, out)
    }

    pub(super) fn end_with_error(&mut self, error: &ProviderError, out: &mut Outgoing) -> Step {
        if let Answer::Document(_) | Answer::Numbers(..) = &self.answer {
            // Of a document nothing has left: it is whole before anything does. Numbers that have left end where they are.
            let _ = out.replace(reply::error(self.endpoint.family, error));
            return Step::End;
        }
        if let Some(end) = self.end_before() {
            out.push(end);
            return Step::End;
        }
        let is_first = self.joint().is_none();
        let Answer::Judged(judge) = &mut self.answer else { return Step::End };
        if is_first && !judge.editor().has_sent() && out.is_empty() {
            let reply = reply::error(self.endpoint.family, error);
            if out.replace(reply).is_ok() {
                return Step::End;
            }
        }
        judge.editor().fail(error);
        self.let_out(out);
        Step::End
    }

    /// Ends an answer because a hook said so.
    pub(super) fn stop(&mut self, blocked: &Blocked, out: &mut Outgoing) -> Step {
        // The model did its part.
        self.end(None);
        self.recorder.blocked();
        let blocked = &self.shown(blocked);
        if blocked.is_unavailable() && self.joint().is_some() {
            return self.break_off(&reply::error_of(blocked), out);
        }
        let is_error = match &self.answer {
            Answer::Document(_) | Answer::Numbers(..) => true,
            // What ends an answer in its own words repeats its ids.
            Answer::Judged(judge) => judge.has_fault(),
            Answer::None | Answer::Counted(_) | Answer::Watched(_) => false,
        };
        if is_error || self.shared.settings.blocked == BlockedForm::Error || blocked.is_unavailable() {
            return self.end_with_error(&reply::error_of(blocked), out);
        }
        if let Answer::Judged(judge) = &mut self.answer {
            judge.editor().end_with(&reply::note(blocked));
            self.let_out(out);
        }
        Step::End
    }

    /// A block with the reason as redactors of answers leave it: a reason may quote what it was for.
    fn shown(&self, blocked: &Blocked) -> Blocked {
        let gates = self.active_hooks.gates(&self.shared.settings);
        let Some((model_call, gates)) = self.model_call.as_ref().zip(gates) else { return blocked.clone() };
        let mut names = Names::new(&self.shared.engine, &model_call.call, &gates);
        let told = names.shown(&blocked.reason_or_default());
        let told = Text::from(told.unwrap_or_else(|| WITHHELD.to_owned()));
        Blocked { reason: Some(told.into()), ..blocked.clone() }
    }

    /// Whether hooks judge what the answer says.
    pub(super) fn judges_texts(&self) -> bool {
        let gates = self.active_hooks.gates(&self.shared.settings);
        gates.is_some_and(|gates| gates.emit != ResponseGate::Open)
    }

    /// Ends an answer because of an error that the provider reported, whose words are judged like a text.
    pub(super) async fn provider_failed(&mut self, error: ProviderError, out: &mut Outgoing) -> Step {
        let mut told = error.clone();
        if let Some(model_call) = &self.model_call {
            let (facts, call) = (model_call.facts.clone(), Arc::clone(&model_call.call));
            let engine = self.shared.engine.clone();
            for said in [Some(error.message.as_str()), error.code.as_deref()].into_iter().flatten() {
                if !stays(&engine, &facts, &call, said).await {
                    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::BAD_GATEWAY);
                    told = ProviderError { kind: error.kind, ..unread_error(status) };
                }
            }
        }
        self.fail(&JudgeError::Wire(WireError::Provider(told)), out)
    }
}

/// Whether hooks let a text pass as it is.
async fn stays(engine: &Engine, facts: &Facts, call: &CallContext, said: &str) -> bool {
    if said.is_empty() {
        return true;
    }
    let decided = engine.decide::<BeforeResponseEmit>(emission(facts, said.into()), call).await.into_parts();
    let left: String = decided.event.all_content.iter().map(Text::as_str).collect();
    decided.blocked.is_none() && left == said
}
