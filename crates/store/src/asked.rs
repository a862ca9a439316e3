//! What the audit trail records about questions: that they were filed, and that they ended without an answer.
//!
//! The laws: *a question is recorded in the transaction that files it*, so that nobody is asked one that can't be recorded; *a question that
//! waited has an end on record*: the answer, or the entry that says why there was none. It is there at least once, and the last one counts: what a
//! transaction says is in the trail before the transaction counts, so where that fails the question still waits, and ends again.
//! Both contain ids, digests, hooks and rules, and neither the words of the question nor anything of the arguments. What makes an entry too large is left out, and named as left out.
//!
//! A question whose process was killed between the entry and the database was never filed. Who starts next says so (`sql/lost.rs`).
//!
//! A question that can't be read, since its row was damaged or somebody else wrote it, is answered by nobody: it ends once somebody comes upon it, and the
//! entry has as much of it as could be read.
//!
//! Limits: what ended because its time had passed is recorded once somebody looks, with the time of that look. A question that a process
//! keeps in its memory ends with the process, and has no end on record if that is killed.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::num::NonZeroU32;

use backstop_hooks::{ApprovalId, HookId, SessionId};
use serde::Serialize;
use serde_json::json;

use crate::keyed::Keying;
use crate::subject::{Subject, fitting};
use crate::{
    ApprovalRecord, ApprovalState, AuditBody, AuditEntry, NewApproval, NewAuditEntry, PersonName, Route,
    Timestamp, audit_id,
};

/// The kind of the entry for a question that was filed.
pub const APPROVAL_ASKED: &str = "approval.asked";
/// The kind of the entry for a question that waited and ended without an answer.
pub const APPROVAL_ENDED: &str = "approval.ended";

/// Why a question ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Unanswered {
    /// Nobody answered in time.
    Deadline,
    /// Whoever asked does not wait any more: the call was given up, or its process or connection is gone.
    Withdrawn,
    /// The run that asked is over.
    RunEnded,
    /// The program that made the call has run its tool, so that its own user, who was asked, let it.
    LetRun,
    /// Its session was deleted.
    SessionDeleted,
    /// What the database holds of it can't be read.
    Unreadable,
    /// The database has nothing of it.
    Lost,
}

/// That a question ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) why: Unanswered,
    pub(crate) at: Timestamp,
}

/// What both entries say.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct About<'a> {
    #[serde(flatten)]
    subject: Subject<'a>,
    /// The last moment at which an answer counts.
    until: Timestamp,
    /// Whether the call runs if nobody answers.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    silence_allows: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AskedBody<'a> {
    #[serde(flatten)]
    about: About<'a>,
    /// Whether nobody could be asked, so that nothing waits for an answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unattended: bool,
    /// Whether the program that made the call puts it to its own user, so that nothing waits here for an answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    hosted: bool,
    /// Whether the process that asks keeps it in its memory alone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    in_memory: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    called_as: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    tool_call_id: Cow<'a, str>,
    session_key: Cow<'a, str>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    hooks: BTreeSet<&'a HookId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<Routed<'a>>,
    /// The question of which the call came, if a person changed another one into it.
    #[serde(skip_serializing_if = "Option::is_none")]
    edited_from: Option<&'a ApprovalId>,
}

/// Who may answer, and how many must.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Routed<'a> {
    people: &'a BTreeSet<PersonName>,
    needed: NonZeroU32,
    #[serde(skip_serializing_if = "Option::is_none")]
    later: Option<&'a BTreeSet<PersonName>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    later_from: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    barred: Option<&'a PersonName>,
}

#[derive(Serialize)]
struct EndedBody<'a> {
    #[serde(flatten)]
    about: About<'a>,
    why: Unanswered,
}

/// Returns the entry about a question that is being filed, as it will be in a trail whose digests are keyed so.
pub(crate) fn asked(record: &ApprovalRecord, keying: &Keying, in_memory: bool) -> NewAuditEntry {
    let request = &record.request;
    let hosted = record.state.is_hosted();
    let unattended = matches!(record.state, ApprovalState::Unattended { .. }) && !hosted;
    let mut about = About::of(record);
    about.silence_allows &= !unattended && !hosted;
    let body = AskedBody {
        about,
        unattended,
        hosted,
        in_memory,
        called_as: request.tool_name.called_as().map(audit_id),
        tool_call_id: audit_id(request.call.as_str()),
        session_key: audit_id(request.session_key.as_str()),
        hooks: request.reasons.iter().map(|reason| &reason.hook).collect(),
        route: request.route.as_ref().map(Routed::of),
        edited_from: request.edited_from.as_ref().map(|from| &from.approval),
    };
    let body = fitting(&body, |body| keying.fits(body));
    entry(request, APPROVAL_ASKED, request.created_at, body)
}

/// Returns the entry about a question that waited, and ended without an answer.
pub(crate) fn ended(record: &ApprovalRecord, ended: Ended) -> NewAuditEntry {
    let mut about = About::of(record);
    // Only silence allows it.
    about.silence_allows &= ended.why == Unanswered::Deadline;
    let body = EndedBody { about, why: ended.why };
    entry(&record.request, APPROVAL_ENDED, ended.at, fitting(&body, Keying::fits_whatever))
}

/// Returns the entry about a question that can't be read, and ends with that: what can be read of its row. It may be one that was never asked.
pub(crate) fn unreadable(
    approval: Option<ApprovalId>,
    session: Option<SessionId>,
    at: Timestamp,
) -> NewAuditEntry {
    let approval = approval.as_ref().map(|approval| audit_id(approval.as_str()));
    let body = AuditBody::of(&json!({ "approval": approval, "why": Unanswered::Unreadable }));
    NewAuditEntry { at, kind: APPROVAL_ENDED.to_owned(), session, run: None, body }
}

/// Returns the entry about a question that another entry tells of and the database does not.
pub(crate) fn lost(asked: &AuditEntry, at: Timestamp) -> NewAuditEntry {
    let of = |name: &str| asked.body.get(name).and_then(serde_json::Value::as_str);
    let body = json!({
        "approval": of("approval"), "tool": of("tool"), "agent": of("agent"), "why": Unanswered::Lost,
    });
    let (session, run) = (asked.session.clone(), asked.run.clone());
    NewAuditEntry { at, kind: APPROVAL_ENDED.to_owned(), session, run, body: AuditBody::of(&body) }
}

fn entry(request: &NewApproval, kind: &str, at: Timestamp, body: AuditBody) -> NewAuditEntry {
    let (session, run) = (Some(request.session.clone()), request.run.clone());
    NewAuditEntry { at, kind: kind.to_owned(), session, run, body }
}

impl<'a> About<'a> {
    fn of(record: &'a ApprovalRecord) -> Self {
        let request = &record.request;
        Self {
            subject: Subject::of(record),
            until: request.expires_at,
            silence_allows: request.silence_allows(),
        }
    }
}

impl<'a> Routed<'a> {
    fn of(route: &'a Route) -> Self {
        Self {
            people: &route.asked.people,
            needed: route.votes,
            later: route.escalation.as_ref().map(|escalation| &escalation.to.people),
            later_from: route.escalation.as_ref().map(|escalation| escalation.at),
            barred: route.barred.as_ref(),
        }
    }
}
