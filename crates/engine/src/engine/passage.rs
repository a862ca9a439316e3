//! The passage of one tool call: hooks, a human, the values of its placeholders, the permit.
//!
//! A dispatch uses the hooks that were registered when it began. But a human takes minutes, and a hook that is registered in the
//! meantime represents something that the operator wants *now*; ignoring its block would be a silent gap. If the set of
//! hooks in front of tool calls has changed when the answer arrives, all of them judge the call as it was asked
//! about. A block blocks. A rewrite ends the call as `unstable_rewrite`, because the human saw another value. A question
//! that has not been answered yet is put to the human as well, together with all others. No grant or code answers
//! this second question, because they were given before it existed.
//!
//! Whatever hooks read to judge the call, such as a script that it runs, must be unchanged when the human has answered, and
//! again when the permit is redeemed. Otherwise the call is refused, and may be made again.
//!
//! Where the host can take it, a human may answer with something in the place of the call. Other arguments are another call, which takes
//! the whole passage again, with a receipt of its own that names the question of which it came; a result is returned, and nothing runs.
//! The call that was made ends as one that a human denied.
//!
//! A host that sees calls only inside answers takes them the same way up to the permit, but does not
//! get one, because somebody else runs the tool ([`Engine::foresee`], [`Engine::conclude`]).
//!
//! Limits: a human is asked at most [`MAX_QUESTIONS`] times about one call. The receipt contains the steps of all rounds, and
//! the note of the last question.

use std::sync::Arc;

use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{
    ApprovalId, ApprovalRequest, CallContext, Digest, Fact, PointId, Reason, Resolution, Substitute,
};
use backstop_store::EditedFrom;

use super::{Engine, Judged};
use crate::approvals::{Attendance, Edit, MAX_EDITS, Put, Terms, digest_of_facts};
use crate::exhibit::Exhibit;
use crate::hook_options::HookMeta;
use crate::permit::{CHANGED_SINCE, Permitted};
use crate::receipt::{BlockCause, Blocked, EditedCall, FailureKind, Receipt, Said};
use crate::recording::CallJudgement;
use crate::registry::Snapshot;
use crate::seal::{self, Unsealed};
use crate::tool_call::{Reviewed, Substituted, ToolVerdict, tool_call_digest, tool_key};
use crate::underway::Underway;

/// The most questions that humans are asked about one call, because hooks that came meanwhile had others.
const MAX_QUESTIONS: usize = 3;
/// Most characters of who changed a call, in its receipt.
const MOST_WHO_CHARS: usize = 256;

/// A tool call on its way, once hooks have judged it.
struct Passage<'a> {
    /// The hooks that judged it last.
    snapshot: Arc<Snapshot>,
    call: &'a CallContext,
    attendance: &'a Attendance,
    /// What the host can take in its place.
    substitutes: &'a [Substitute],
    /// The question of which it came, if a human changed another one into it.
    edited_from: Option<&'a EditedFrom>,
    /// What was asked about it and allowed.
    approved: Vec<ApprovalRequest>,
    /// By which request.
    approval: Option<ApprovalId>,
    /// What hooks judged it by besides itself.
    facts: Vec<Fact>,
    /// What stands in its place.
    put: Option<Put>,
}

impl<'a> Passage<'a> {
    fn new(
        snapshot: Arc<Snapshot>,
        call: &'a CallContext,
        attendance: &'a Attendance,
        facts: Vec<Fact>,
    ) -> Self {
        Self {
            snapshot,
            call,
            attendance,
            substitutes: &[],
            edited_from: None,
            approved: Vec::new(),
            approval: None,
            facts,
            put: None,
        }
    }
}

/// A tool call of which only the answer, or the offer, is seen, once hooks have judged it.
pub(super) struct Foreseen<'a> {
    snapshot: Arc<Snapshot>,
    call: &'a CallContext,
    event: ToolCallEvent,
    judged: Digest,
    changed: bool,
    blocked: Option<Blocked>,
    requests: Vec<ApprovalRequest>,
    facts: Vec<Fact>,
    underway: Underway<'a>,
    /// What the hooks made of it, if it is recorded.
    judgement: Option<CallJudgement>,
}

/// What becomes of a question about such a call.
#[derive(Clone, Copy)]
pub(super) enum Question<'a> {
    /// Whoever runs the tool asks it.
    Left,
    /// It is put to whoever attends.
    Put(&'a Attendance),
}

/// How the judgement of such a call ended.
pub(super) struct Concluded {
    /// Why the call may not leave, if it may not.
    pub(super) blocked: Option<Blocked>,
    /// How the question about it ended, if one was put.
    pub(super) resolution: Option<Resolution>,
}

impl Foreseen<'_> {
    /// Is about no call, and is not recorded as one.
    pub(super) fn is_no_call(&mut self) {
        self.judgement = None;
    }

    /// Returns whether a human is to be asked, and nothing else stands against the call.
    pub(super) fn asks(&self) -> bool {
        self.blocked.is_none() && !self.changed && !self.requests.is_empty()
    }

    /// Takes the questions of another judgement about the same thing, and what they were asked by.
    pub(super) fn take_questions(&mut self, other: &mut Self) {
        self.requests.append(&mut other.requests);
        self.facts.append(&mut other.facts);
    }
}

impl Engine {
    /// Lets the gates of tool calls judge a call that somebody else runs.
    pub(super) async fn foresee<'a>(
        &'a self,
        snapshot: &Arc<Snapshot>,
        event: ToolCallEvent,
        call: &'a CallContext,
    ) -> Foreseen<'a> {
        let mut underway = Underway::begin(self, PointId::BeforeToolCall, || tool_key(&event, call));
        let reviewed = self.dispatch_in(snapshot, call, &underway).review(event, None).await;
        let judgement = self.judgement(&reviewed);
        let Reviewed { event, changed, blocked, requests, moot, facts, receipt } = reviewed;
        self.interceptors().report_built_ins(&receipt, blocked.as_ref(), call);
        let judged = receipt.judged.unwrap_or_else(|| tool_call_digest(&event));
        underway.hold(receipt);
        self.0.approvals.cancel(&moot, call).await;
        let snapshot = Arc::clone(snapshot);
        Foreseen { snapshot, call, event, judged, changed, blocked, requests, facts, underway, judgement }
    }

    /// Returns whether the call may leave its answer, by what the gates of tool calls, or a human, say. Leaves a receipt.
    pub(super) async fn conclude(&self, foreseen: Foreseen<'_>, question: Question<'_>) -> Concluded {
        let Foreseen { snapshot, call, event, judged, changed, blocked, requests, facts, .. } = foreseen;
        let Foreseen { mut underway, judgement, .. } = foreseen;
        let began = Arc::clone(&snapshot);
        let blocked = match (blocked, question) {
            (None, Question::Put(attendance)) if !changed && !requests.is_empty() => {
                let mut passage = Passage::new(snapshot, call, attendance, facts);
                self.settle(&mut passage, &event, judged, requests, &mut underway).await
            }
            (blocked, _) => {
                self.0.approvals.cancel(&requests, call).await;
                blocked.or_else(|| changed.then(rewritten_in_an_answer))
            }
        };
        let mut receipt = underway.into_receipt();
        if let Some(blocked) = &blocked {
            receipt.stop(blocked);
        }
        let kept = self.keep(&receipt).await;
        // INVARIANT (fail closed): that a human allowed this must be on record before anything comes of it.
        let unkept = !kept && blocked.is_none() && receipt.approval.is_some();
        let resolution = receipt.approval.as_ref().and_then(|note| note.resolution);
        let blocked = blocked.or_else(|| unkept.then(|| self.unkept(&mut receipt)));
        self.tape(&event, Judged { snapshot: &began, call, judgement, receipt: &receipt });
        Concluded { blocked, resolution }
    }

    /// Takes a tool call through every gate, and to a human if a gate asks. Hooks that were registered while the
    /// human was being asked judge the call, too, before it is permitted.
    pub async fn permit_tool_call(
        &self,
        event: ToolCallEvent,
        call: &CallContext,
        attendance: &Attendance,
    ) -> ToolVerdict {
        self.pass(event, call, attendance, &[], None).await.0
    }

    /// As [`permit_tool_call`](Self::permit_tool_call), for a host that can take something in the place of the call: what
    /// `substitutes` say. With [`Substitute::Edit`] it runs the tool with the arguments of the permit, whatever they are, and where it can it tells
    /// the model by [`ToolVerdict::substituted`] that they were changed. With [`Substitute::Respond`] it takes the result that a human gave, has
    /// it judged as every result, and runs nothing.
    pub async fn permit_or_substitute(
        &self,
        event: ToolCallEvent,
        call: &CallContext,
        attendance: &Attendance,
        substitutes: &[Substitute],
    ) -> ToolVerdict {
        let (mut verdict, mut put) = self.pass(event, call, attendance, substitutes, None).await;
        let mut edits = 0;
        loop {
            let edit = match put {
                None => return verdict,
                Some(Put::Result { from: EditedFrom { approval, by, .. }, result }) => {
                    verdict.substituted = Some(Substituted::Responded { approval, by, result });
                    return verdict;
                }
                Some(Put::Call(edit)) => *edit,
            };
            edits += 1;
            let Edit { params, from } = edit;
            let mut event = verdict.event.clone();
            event.params = params;
            let is_last = edits >= MAX_EDITS;
            let offered = substitutes.iter().copied();
            let offered: Vec<Substitute> =
                offered.filter(|substitute| !(is_last && *substitute == Substitute::Edit)).collect();
            // Boxed: few calls are changed, and the others need not carry the room.
            let passing = Box::pin(self.pass(event, call, attendance, &offered, Some(&from)));
            (verdict, put) = passing.await;
            let EditedFrom { approval, by, .. } = from;
            verdict.substituted = Some(Substituted::Edited { approval, by });
        }
    }

    /// Takes one call through every gate. Returns what stands in its place, if a human wants that.
    async fn pass(
        &self,
        event: ToolCallEvent,
        call: &CallContext,
        attendance: &Attendance,
        substitutes: &[Substitute],
        edited_from: Option<&EditedFrom>,
    ) -> (ToolVerdict, Option<Put>) {
        let mut underway = Underway::begin(self, PointId::BeforeToolCall, || tool_key(&event, call));
        let ruling = self.ruling(&event, call).await;
        let snapshot = self.0.registry.snapshot();
        let reviewed = self.dispatch_in(&snapshot, call, &underway).review(event, ruling).await;
        let judgement = self.judgement(&reviewed);
        let Reviewed { event, blocked, requests, moot, facts, mut receipt, .. } = reviewed;
        let mut passage =
            Passage { substitutes, edited_from, ..Passage::new(snapshot, call, attendance, facts) };
        self.interceptors().report_built_ins(&receipt, blocked.as_ref(), call);
        let judged = receipt.judged.unwrap_or_else(|| tool_call_digest(&event));
        if let Some(from) = edited_from {
            let EditedFrom { approval, digest, .. } = from.clone();
            let by = from.by.chars().take(MOST_WHO_CHARS).collect();
            receipt.record_mut().edited_from = Some(EditedCall { approval, digest, by });
        }
        underway.hold(receipt);
        self.0.approvals.cancel(&moot, call).await;
        let blocked = match blocked {
            None if !requests.is_empty() => {
                self.settle(&mut passage, &event, judged, requests, &mut underway).await
            }
            blocked => blocked,
        };
        let permit = match blocked {
            Some(blocked) => Err(blocked),
            None => seal::unseal(&passage.snapshot, &event, call, &passage.approved).await,
        };
        let mut receipt = underway.into_receipt();
        if let Err(blocked) = &permit {
            receipt.stop(blocked);
        }
        let kept = self.keep(&receipt).await;
        // INVARIANT (fail closed): that a human allowed, or wrote, this must be on record before anything comes of it.
        let is_recorded = kept || (receipt.approval.is_none() && edited_from.is_none());
        let put = passage.put.take().filter(|_| kept);
        let permit = permit.and_then(|unsealed| match is_recorded {
            true => Ok(unsealed),
            false => Err(self.unkept(&mut receipt)),
        });
        self.tape(&event, Judged { snapshot: &passage.snapshot, call, judgement, receipt: &receipt });
        let permit = permit.map(|unsealed| {
            let mut facts = passage.facts;
            let (value, judged) = match unsealed {
                Some(Unsealed { event, judged, facts: more }) => {
                    facts.extend(more);
                    (event, judged)
                }
                None => (event.clone(), judged),
            };
            Permitted::judged(value, judged, tool_call_digest, passage.approval, facts)
        });
        (ToolVerdict { permit, event, receipt, substituted: None }, put)
    }

    /// Gets a human's answer about a call, and has it judged by the hooks that came meanwhile. Returns why it is
    /// stopped, if it is.
    async fn settle(
        &self,
        passage: &mut Passage<'_>,
        event: &ToolCallEvent,
        judged: Digest,
        mut requests: Vec<ApprovalRequest>,
        underway: &mut Underway<'_>,
    ) -> Option<Blocked> {
        let Passage { call, attendance, substitutes, edited_from, .. } = *passage;
        let sealed = seal::has_placeholders(&passage.snapshot, event, call);
        // Of one judgement, the last: a later call is judged once.
        let mut facts = digest_of_facts(&passage.facts);
        for round in 0..MAX_QUESTIONS {
            let first = round == 0;
            let snapshot = &passage.snapshot;
            let exhibit = Exhibit { snapshot, event, call };
            let terms = Terms { attendance, earlier: first, sealed, substitutes, edited_from, facts };
            let settled = self.0.approvals.settle(&exhibit, &requests, terms).await;
            passage.put = settled.put;
            passage.approval.clone_from(&settled.note.id);
            let (saw, resolution) = (settled.note.digest, settled.note.resolution);
            underway.note(|receipt| receipt.record_mut().approval = Some(settled.note));
            // INVARIANT (what was judged is what runs): an answer counts for what the human saw, and for nothing else.
            let blocked = settled.blocked.or_else(|| (saw != judged).then(not_what_was_asked_about));
            if blocked.is_some() {
                return blocked;
            }
            // INVARIANT (what was judged is what runs): so does one about a script that was another one then.
            if !passage.facts.iter().all(Fact::still_holds) {
                return Some(judged_by_something_else());
            }
            passage.approved = requests;
            // INVARIANT (no silent gap): a hook that was registered by now has judged what is permitted.
            let now = self.0.registry.snapshot();
            if now.has_gates_of(&passage.snapshot) {
                return None;
            }
            passage.snapshot = now;
            let dispatch = self.dispatch_in(&passage.snapshot, call, underway);
            let Reviewed { changed, blocked, requests: asked, mut moot, facts: found, receipt, .. } =
                dispatch.review(event.clone(), None).await;
            facts = digest_of_facts(&found);
            passage.facts.extend(found);
            self.interceptors().report_built_ins(&receipt, blocked.as_ref(), call);
            let writer = receipt.steps.iter().find(|step| step.said == Said::Rewrote);
            let writer = writer.map(|step| Arc::clone(&step.hook));
            underway.note(|held| held.judged_again(&receipt));
            if blocked.is_some() || changed {
                moot.extend(asked);
                self.0.approvals.cancel(&moot, call).await;
                return blocked.or_else(|| Some(rewritten_after_the_answer(writer.as_deref())));
            }
            self.0.approvals.cancel(&moot, call).await;
            if asked.iter().all(|request| seal::is_answered(request, &passage.approved)) {
                // Who asks the same again is told the answer that there is.
                let resolution = resolution.unwrap_or(Resolution::Cancelled);
                return self.0.approvals.petition(&asked, call).end(resolution).await;
            }
            requests = asked;
        }
        self.0.approvals.cancel(&requests, call).await;
        Some(hooks_kept_changing())
    }

    /// Stops a call whose approval could not be kept, and shows that to those who can be told.
    fn unkept(&self, receipt: &mut Receipt) -> Blocked {
        let blocked = Blocked {
            cause: BlockCause::Failure { kind: FailureKind::Unreachable },
            reason: Some(Reason::fixed(
                "audit.not-kept",
                "a human allowed this, and the audit trail can't be written, so it does not run",
            )),
            hook: None,
            owner: None,
        };
        receipt.stop(&blocked);
        self.record(receipt);
        blocked
    }
}

fn rewritten_in_an_answer() -> Blocked {
    let told = "a hook would rewrite its arguments, which is not possible in an answer";
    let reason = Some(Reason::fixed("rewrite.impossible", told));
    Blocked { cause: BlockCause::Withheld, reason, hook: None, owner: None }
}

fn not_what_was_asked_about() -> Blocked {
    Blocked {
        cause: BlockCause::Withheld,
        reason: Some("the call is not the one that a human was asked about".into()),
        hook: None,
        owner: None,
    }
}

fn rewritten_after_the_answer(writer: Option<&HookMeta>) -> Blocked {
    let by = writer.map_or_else(String::new, |writer| format!(": hook `{}`", writer.id));
    let reason = format!(
        "unstable_rewrite: a hook that was registered while a human was asked would change what the human saw{by}"
    );
    Blocked {
        cause: BlockCause::UnstableRewrite { writer: None },
        reason: Some(Reason::fixed("rewrite.unstable", reason)),
        hook: writer.map(|writer| writer.id.clone()),
        owner: writer.map(|writer| writer.owner.clone()),
    }
}

fn judged_by_something_else() -> Blocked {
    Blocked {
        cause: BlockCause::Withheld,
        reason: Some(Reason::fixed("evidence.changed", CHANGED_SINCE)),
        hook: None,
        owner: None,
    }
}

fn hooks_kept_changing() -> Blocked {
    let reason =
        "whenever a human had answered, there were hooks with other questions about the call; call it again";
    Blocked {
        cause: BlockCause::Withheld,
        reason: Some(Reason::fixed("approval.outdated", reason)),
        hook: None,
        owner: None,
    }
}
