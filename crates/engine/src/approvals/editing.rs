//! What people put in the place of a call: other arguments, or a result.
//!
//! Changed arguments are another call. It passes every gate from the beginning, under its own digest, as if the agent had made it; what
//! blocks there blocks. If a hook asks about it, the question is filed with the one of which it came, and the person who wrote the call
//! has allowed it by that, as far as they may allow it alone and the hooks have left it as they wrote it. A result is no call: nothing
//! runs, and the host tells it to the model as it tells any result.
//!
//! The laws: *nothing is milder than a call of the agent's own*: no grant comes of a changed call that would not come of it otherwise; *a
//! mask is no value*: what was masked for people goes back to where it stood, or the call is not made; *what is taken is taken once*.
//!
//! Limits: one call is changed at most [`MAX_EDITS`] times.

use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{Decision, Digest, Params, Reason, Resolution, Substitute, Text};
use backstop_store::{
    Answerer, ApprovalRecord, ApprovalState, ConsumeError, EditedFrom, Given, NewApproval, PersonsAnswer,
    ResolveError, Timestamp,
};

use super::{Answered, Approvals, AskError, Asking};
use crate::tool_call::tool_call_digest;

/// How often people may change one call.
pub(crate) const MAX_EDITS: usize = 3;

/// What a person put in the place of a call.
#[derive(Debug)]
pub(crate) enum Put {
    /// Another call.
    Call(Box<Edit>),
    /// Its result.
    Result {
        /// Who gave it.
        from: EditedFrom,
        /// What the model is told.
        result: Text,
    },
}

/// Other arguments of a call, and whose they are.
#[derive(Debug)]
pub(crate) struct Edit {
    pub(crate) params: Params,
    from: EditedFrom,
    by: Answerer,
}

/// Who wrote a call, and in the place of which.
#[derive(Debug)]
pub(crate) struct Editor {
    pub(crate) from: EditedFrom,
    by: Answerer,
    /// The digest of the call as they wrote it.
    wrote: Digest,
}

impl Edit {
    /// Returns the changed call, and who wrote it.
    pub(crate) fn of(self, call: &ToolCallEvent) -> (ToolCallEvent, Editor) {
        let mut event = call.clone();
        event.params = self.params;
        // Whoever asked derived them from the arguments that were.
        event.derived_paths = None;
        let wrote = tool_call_digest(&event);
        (event, Editor { from: self.from, by: self.by, wrote })
    }
}

/// Leaves of what a host can take only what may be answered: where the call can be allowed once, and by one person.
pub(super) fn offered(question: &mut NewApproval) {
    let is_ones = question.route.as_ref().is_none_or(|route| route.votes.get() == 1);
    if !is_ones || !question.allowed_decisions.contains(&Decision::AllowOnce) {
        question.substitutes.clear();
    }
}

impl Approvals {
    /// Takes what a person put in the place of the call.
    pub(super) async fn substituted(
        &self,
        record: ApprovalRecord,
        asking: &Asking<'_>,
    ) -> Result<Answered, AskError> {
        let taken = match self.store.take_given(&record.id, &asking.scope.digest, Timestamp::now()).await {
            Ok(taken) => taken,
            Err(ConsumeError::Store(error)) => return Err(error.into()),
            Err(error) => return Ok(unusable(record, &error)),
        };
        let (ApprovalState::Edited(given) | ApprovalState::Responded(given)) = &taken.state else {
            return Ok(unusable(record, &"it is in another state than it was"));
        };
        let from = EditedFrom {
            approval: taken.id.clone(),
            by: given.by.clone(),
            digest: taken.request.digest,
            shown: taken.request.preview.clone(),
        };
        let (substitute, put, reason) = match &taken.request.given {
            Some(Given::Edit { arguments }) => {
                let original = asking.exhibit.event.params.to_value();
                let params = match taken.request.restored(&original, &arguments.to_value()) {
                    Ok(restored) => Params::from_value(restored).unwrap_or_default(),
                    Err(error) => return Ok(unusable(record, &error)),
                };
                let by = given.answerer(&self.settings.people);
                let told = "a human changed this call, so that it did not run as it was made";
                (Substitute::Edit, Put::Call(Box::new(Edit { params, from, by })), ("approval.edited", told))
            }
            Some(Given::Respond { result }) => {
                let told = "a human gave the result of this call, which did not run";
                let put = Put::Result { from, result: result.clone() };
                (Substitute::Respond, put, ("approval.responded", told))
            }
            None => return Ok(unusable(record, &"what was given is not kept any more")),
        };
        let mut answered =
            Answered::denied(Resolution::Deny, Some(record), Reason::fixed(reason.0, reason.1.to_owned()));
        answered.put = Some((substitute, put));
        Ok(answered)
    }

    /// Answers a question about a call that a person wrote as that person: whoever wrote the call has allowed it, where they may and what
    /// is asked about is what they wrote. Where that does not count, the question waits for others.
    pub(super) async fn answered_by_editor(
        &self,
        record: ApprovalRecord,
        editor: &Editor,
    ) -> Result<ApprovalRecord, AskError> {
        let now = Timestamp::now();
        if record.request.digest != editor.wrote || record.admits_person(&editor.by, now).is_err() {
            return Ok(record);
        }
        // Whoever wrote the arguments has seen all of them.
        self.store.mark_seen(&record.id).await?;
        let answer = PersonsAnswer::new(Decision::AllowOnce, editor.by.clone(), now);
        match self.store.answer_approval(&record.id, answer).await {
            Ok(resolved) => Ok(resolved.record),
            Err(ResolveError::Store(error)) => Err(error.into()),
            Err(_) => Ok(self.store.approval(&record.id).await?.unwrap_or(record)),
        }
    }
}

/// What was given can't be used.
fn unusable(record: ApprovalRecord, why: &dyn std::fmt::Display) -> Answered {
    tracing::error!(%why, "what a person put in the place of a call could not be used");
    let told = "a human answered with something in the place of this call, which can't be used";
    Answered::denied(Resolution::Deny, Some(record), Reason::fixed("approval.unusable", told.to_owned()))
}
