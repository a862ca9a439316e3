//! What the audit trail records about people: who allowed, denied, granted and revoked what, and who made access tokens.
//!
//! The laws: *an answer is recorded in the transaction that makes it count*; *whoever finds a question finds what came of it*: each entry names the agent, the
//! folder, whoever asked for the call, and the rules, as that of the question does. The trail contains ids, digests and rules, but not the words of the question.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::num::NonZeroU32;

use backstop_hooks::{ApprovalId, Decision, Digest, HookId, RuleId, Substitute};
use serde::Serialize;
use serde_json::{Value, json};

use crate::approvals::answer::cut;
use crate::approvals::machine::Voted;
use crate::keyed::Keying;
use crate::subject::{Channel, Folder, Subject, Whom, fitting};
use crate::{
    AccessToken, AccessTokenId, Allowance, ApprovalRecord, ApprovalState, Grant, GrantId, GrantTarget,
    NewAuditEntry, PersonName, Reach, Timestamp, audit_id,
};

/// The kind of the entry for an answered question.
pub const APPROVAL_ANSWERED: &str = "approval.answered";
/// The kind of the entry for one person's answer, where it is said who may answer and how many must.
pub const APPROVAL_VOTED: &str = "approval.voted";
/// The kind of the entry for a new grant.
pub const GRANT_GIVEN: &str = "grant.given";
/// The kind of the entry for a revoked grant.
pub const GRANT_REVOKED: &str = "grant.revoked";
/// The kind of the entry for grants of an earlier version that no longer apply.
pub const GRANTS_VOIDED: &str = "grants.voided";

/// The kind of the entry for a new access token.
pub const ACCESS_TOKEN_CREATED: &str = "access_token.created";
/// The kind of the entry for a revoked access token.
pub const ACCESS_TOKEN_REVOKED: &str = "access_token.revoked";

/// Most characters of who answered; what is longer ends with `…`.
const MOST_WHO_CHARS: usize = 256;

/// Returns who did something as the trail has them.
pub(crate) fn who(by: &str) -> String {
    cut(by, MOST_WHO_CHARS)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AnsweredBody<'a> {
    #[serde(flatten)]
    subject: Subject<'a>,
    /// What was decided, in one word.
    decision: Value,
    by: String,
    /// The last moment at which a later call may begin that the answer is for; absent where it is for the call that waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    later_until: Option<Timestamp>,
    /// The digest of what stands in the place of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    given: Option<Digest>,
    /// The question of which the call came, if a person changed another one into it.
    #[serde(skip_serializing_if = "Option::is_none")]
    edited_from: Option<&'a ApprovalId>,
}

/// Returns the entry about a record that has just become `state`, if that is an answer.
pub(crate) fn answer(record: &ApprovalRecord, state: &ApprovalState) -> Option<NewAuditEntry> {
    let (decision, at, by) = match state {
        ApprovalState::Allowed(allowance) => (json!(allowance.decision), allowance.at, &allowance.by),
        ApprovalState::Denied { at, by, .. } => (json!(Decision::Deny), *at, by),
        ApprovalState::Edited(one) if one.taken_at.is_none() => (json!(Substitute::Edit), one.at, &one.by),
        ApprovalState::Responded(one) if one.taken_at.is_none() => {
            (json!(Substitute::Respond), one.at, &one.by)
        }
        _ => return None,
    };
    let given = match state {
        ApprovalState::Edited(one) | ApprovalState::Responded(one) => Some(one.given),
        _ => None,
    };
    let later_until = match state {
        ApprovalState::Allowed(Allowance { reach: Reach::LaterCall { until }, .. }) => Some(*until),
        _ => None,
    };
    let body = AnsweredBody {
        subject: Subject::of(record),
        decision,
        by: who(by),
        later_until,
        given,
        edited_from: record.request.edited_from.as_ref().map(|parent| &parent.approval),
    };
    Some(about(record, APPROVAL_ANSWERED, at, &body))
}

#[derive(Serialize)]
struct VotedBody<'a> {
    #[serde(flatten)]
    subject: Subject<'a>,
    decision: Decision,
    person: &'a PersonName,
    by: String,
    token: Option<&'a AccessTokenId>,
    /// How many have allowed the call now, and how many must.
    allowed: usize,
    needed: Option<NonZeroU32>,
}

/// Returns the entry about a vote.
pub(crate) fn voted(record: &ApprovalRecord, voted: &Voted) -> NewAuditEntry {
    let vote = &voted.vote;
    let mut subject = Subject::of(record);
    subject.digest = &vote.digest;
    let body = VotedBody {
        subject,
        decision: vote.decision,
        person: &vote.person,
        by: who(&vote.by),
        token: vote.token.as_ref(),
        allowed: voted.allowed,
        needed: record.request.route.as_ref().map(|route| route.votes),
    };
    about(record, APPROVAL_VOTED, vote.at, &body)
}

/// Returns an entry about a question.
fn about(record: &ApprovalRecord, kind: &str, at: Timestamp, body: &impl Serialize) -> NewAuditEntry {
    NewAuditEntry {
        at,
        kind: kind.to_owned(),
        session: Some(record.request.session.clone()),
        run: record.request.run.clone(),
        body: fitting(body, Keying::fits_whatever),
    }
}

/// What both entries about a grant say of it.
#[derive(Serialize)]
struct OfGrant<'a> {
    grant: &'a GrantId,
    /// The question of which it came.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<Cow<'a, str>>,
    agent: Cow<'a, str>,
    tool: Cow<'a, str>,
    /// Where it holds: in this folder, for this person, on this channel.
    #[serde(flatten)]
    folder: Folder<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requester: Option<Whom<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<Channel<'a>>,
    rules: &'a BTreeSet<RuleId>,
    by: String,
}

impl<'a> OfGrant<'a> {
    fn of(grant: &'a Grant, by: &str) -> Self {
        let given = &grant.granted;
        Self {
            grant: &grant.id,
            approval: given.origin.as_ref().map(|origin| audit_id(origin.approval.as_str())),
            agent: audit_id(given.agent.as_str()),
            tool: audit_id(given.tool_name.canonical()),
            folder: Folder::of(given.place.workspace.as_ref()),
            requester: Whom::of(&given.place),
            channel: Channel::of(&given.place),
            rules: &given.question.rules,
            by: who(by),
        }
    }
}

#[derive(Serialize)]
struct GivenBody<'a> {
    #[serde(flatten)]
    of: OfGrant<'a>,
    hook: &'a HookId,
    covers: Value,
    until: Timestamp,
    times: Option<u64>,
}

/// Returns the entry about a grant.
pub(crate) fn granted(grant: &Grant) -> NewAuditEntry {
    let given = &grant.granted;
    let covers = match &given.target {
        GrantTarget::Call { digest, .. } => json!({ "call": digest }),
        GrantTarget::Program { words } => json!({ "program": Digest::of("program", words) }),
        GrantTarget::Rule => json!("rule"),
        GrantTarget::Amount { argument, most, without } => {
            json!({ "sumOf": argument, "most": most, "without": without })
        }
    };
    let body = GivenBody {
        of: OfGrant::of(grant, &given.created_by),
        hook: &given.question.hook,
        covers,
        until: given.expires_at,
        times: given.most_uses,
    };
    of_grant(grant, GRANT_GIVEN, given.created_at, &body)
}

/// Returns the entry about a revocation.
pub(crate) fn revoked(grant: &Grant, by: &str, at: Timestamp) -> NewAuditEntry {
    of_grant(grant, GRANT_REVOKED, at, &OfGrant::of(grant, by))
}

fn of_grant(grant: &Grant, kind: &str, at: Timestamp, body: &impl Serialize) -> NewAuditEntry {
    let session = grant.granted.origin.as_ref().map(|origin| origin.session.clone());
    let body = fitting(body, Keying::fits_whatever);
    NewAuditEntry { at, kind: kind.to_owned(), session, run: None, body }
}

/// Returns the entry about a new access token. It holds neither the token nor its digest.
pub(crate) fn token_created(token: &AccessToken) -> NewAuditEntry {
    let made = &token.made;
    let body = json!({
        "token": made.id, "agent": made.agent, "user": made.user, "scopes": made.scopes, "until": token.ends_at, "replaces": made.replaces,
        "by": who(&made.created_by),
    });
    let kind = ACCESS_TOKEN_CREATED.to_owned();
    NewAuditEntry { at: made.created_at, kind, session: None, run: None, body: body.into() }
}

/// Returns the entry about a revoked access token.
pub(crate) fn token_revoked(token: &AccessToken, by: &str, at: Timestamp) -> NewAuditEntry {
    let body = json!({ "token": token.made.id, "agent": token.made.agent, "by": who(by) });
    let kind = ACCESS_TOKEN_REVOKED.to_owned();
    NewAuditEntry { at, kind, session: None, run: None, body: body.into() }
}

/// Returns the entry about grants of an earlier version.
pub(crate) fn voided(ids: &[String], at: Timestamp) -> NewAuditEntry {
    let named: Vec<&String> = ids.iter().take(100).collect();
    let body =
        json!({ "count": ids.len(), "grants": named, "why": "they held in every folder and for everybody" });
    NewAuditEntry { at, kind: GRANTS_VOIDED.to_owned(), session: None, run: None, body: body.into() }
}
