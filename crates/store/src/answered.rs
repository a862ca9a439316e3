//! What the audit trail records about people: who allowed, denied, granted and revoked what, and who made access tokens.
//!
//! The law: *an answer is recorded in the transaction that makes it count*. The trail contains ids, digests and rules, but
//! not the words of the question.

use backstop_hooks::{Decision, Substitute};
use serde_json::json;

use crate::approvals::answer::cut;
use crate::approvals::machine::Voted;
use crate::{AccessToken, ApprovalRecord, ApprovalState, Grant, GrantTarget, NewAuditEntry, Timestamp};

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
    let request = &record.request;
    let mut body = json!({
        "approval": record.id, "digest": request.digest, "tool": request.tool_name.canonical(),
        "decision": decision, "severity": request.severity, "by": who(by),
    });
    if let (Some(given), Some(body)) = (given, body.as_object_mut()) {
        body.insert("given".to_owned(), json!(given));
    }
    if let (Some(parent), Some(body)) = (&request.edited_from, body.as_object_mut()) {
        body.insert("editedFrom".to_owned(), json!(parent.approval));
    }
    Some(NewAuditEntry {
        at,
        kind: APPROVAL_ANSWERED.to_owned(),
        session: Some(request.session.clone()),
        run: request.run.clone(),
        body: body.into(),
    })
}

/// Returns the entry about a vote.
pub(crate) fn voted(record: &ApprovalRecord, voted: &Voted) -> NewAuditEntry {
    let (request, vote) = (&record.request, &voted.vote);
    NewAuditEntry {
        at: vote.at,
        kind: APPROVAL_VOTED.to_owned(),
        session: Some(request.session.clone()),
        run: request.run.clone(),
        body: json!({
            "approval": record.id, "digest": vote.digest, "tool": request.tool_name.canonical(),
            "decision": vote.decision, "severity": request.severity, "person": vote.person, "by": who(&vote.by),
            "token": vote.token, "allowed": voted.allowed, "needed": request.route.as_ref().map(|route| route.votes),
        })
        .into(),
    }
}

/// Returns the entry about a grant.
pub(crate) fn granted(grant: &Grant) -> NewAuditEntry {
    let given = &grant.granted;
    let target = match &given.target {
        GrantTarget::Call { digest, .. } => json!({ "call": digest }),
        GrantTarget::Program { .. } => json!("program"),
        GrantTarget::Rule => json!("rule"),
        GrantTarget::Amount { argument, most, .. } => json!({ "sumOf": argument, "most": most }),
    };
    let body = json!({
        "grant": grant.id, "tool": given.tool_name.canonical(), "hook": given.question.hook,
        "rules": given.question.rules, "covers": target, "until": given.expires_at, "times": given.most_uses, "by": who(&given.created_by),
    });
    NewAuditEntry {
        at: given.created_at,
        kind: GRANT_GIVEN.to_owned(),
        session: None,
        run: None,
        body: body.into(),
    }
}

/// Returns the entry about a revocation.
pub(crate) fn revoked(grant: &Grant, by: &str, at: Timestamp) -> NewAuditEntry {
    let body = json!({ "grant": grant.id, "by": who(by) });
    NewAuditEntry { at, kind: GRANT_REVOKED.to_owned(), session: None, run: None, body: body.into() }
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
