//! What people put in the place of a call: other arguments, or a result.
//!
//! Changed arguments are another call. It passes every gate from the beginning, under its own digest, as if the agent had made it; what
//! blocks there blocks. If a hook asks about it, that is a question of its own, filed with the one of which it came: having written the
//! call answers none. Whoever wrote it may answer like anybody who is asked, but not where whoever asked for the call may not. A result is
//! no call: nothing runs, and the host tells it to the model as it tells any result.
//!
//! The laws: *nothing is milder than a call of the agent's own*: no grant comes of a changed call that would not come of it otherwise; *a
//! mask is no value*: what was masked for people goes back to where it stood, or the call is not made; *what is taken is taken once*.
//!
//! Limits: one call is changed at most [`MAX_EDITS`] times.

use backstop_hooks::points::{ToolCallEvent, UNSEEN_TERMINAL};
use backstop_hooks::{Decision, Params, Reason, Resolution, Substitute, Text};
use backstop_store::{
    ApprovalRecord, ApprovalState, ConsumeError, EditedFrom, Given, NewApproval, Timestamp,
};

use super::{Answered, Approvals, AskError, Asking};

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

/// Other arguments of a call, and of which question they came.
#[derive(Debug)]
pub(crate) struct Edit {
    pub(crate) params: Params,
    pub(crate) from: EditedFrom,
}

/// Leaves of what a host can take only what may be answered: where the call can be allowed once, and by one person.
pub(super) fn offered(question: &mut NewApproval, event: &ToolCallEvent) {
    let is_ones = question.route.as_ref().is_none_or(|route| route.votes.get() == 1);
    if !is_ones || !question.allowed_decisions.contains(&Decision::AllowOnce) {
        question.substitutes.clear();
    }
    // INVARIANT (nothing is milder than a fresh call): what the host says of these arguments it would say otherwise of others. That nothing
    // sees what is typed into its terminals it says of itself.
    let has_kind = event.tool_kind.as_deref().is_some_and(|kind| kind != UNSEEN_TERMINAL);
    let is_told_more = has_kind || event.tool_input_kind.is_some() || event.derived_paths.is_some();
    question.substitutes.retain(|substitute| *substitute != Substitute::Edit || !is_told_more);
}

impl Approvals {
    /// Takes what a person put in the place of the call.
    pub(super) async fn substituted(
        &self,
        record: ApprovalRecord,
        asking: &Asking<'_>,
    ) -> Result<Answered, AskError> {
        let taken = match self.store.take_given(&record.id, &asking.digest, Timestamp::now()).await {
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
            person: given.person.clone(),
            digest: taken.request.digest,
            shown: taken.request.preview.clone(),
        };
        let (substitute, put, reason) = match &taken.request.given {
            Some(Given::Edit { arguments }) => {
                let original = asking.exhibit.event.params.to_value();
                let params = match taken.request.restored(&original, &arguments.to_value()) {
                    Ok(restored) => Params::from_value(restored),
                    // Not where: that has names of the arguments.
                    Err(_) => return Ok(unusable(record, &"a mask was moved")),
                };
                let Some(params) = params else {
                    return Ok(unusable(record, &"its arguments are no object"));
                };
                let told = "a human changed this call, so that it did not run as it was made";
                (Substitute::Edit, Put::Call(Box::new(Edit { params, from })), ("approval.edited", told))
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
}

/// What was given can't be used.
fn unusable(record: ApprovalRecord, why: &dyn std::fmt::Display) -> Answered {
    tracing::error!(%why, "what a person put in the place of a call could not be used");
    let told = "a human answered with something in the place of this call, which can't be used";
    Answered::denied(Resolution::Deny, Some(record), Reason::fixed("approval.unusable", told.to_owned()))
}
