//! What is known of a question, in the same words wherever it is shown.

use backstop_hooks::{Decision, Severity};
use backstop_store::{ApprovalRecord, ApprovalState, NewApproval, People, Reach, Timestamp};
use maud::{Markup, html};

use crate::shown::{ago, left, one_line, plain};

/// The most characters of a fact.
const MOST: usize = 200;
/// The most characters about who may answer.
const MOST_STANDING: usize = 600;

/// How grave something is. The word stands there as well as the colour.
pub(crate) fn severity(severity: Severity) -> Markup {
    let word = match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    };
    html! { span class={ "badge " (word) } { (word) } }
}

/// Returns an answer in words.
pub(crate) fn decision(decision: Decision) -> &'static str {
    match decision {
        Decision::AllowOnce => "allowed once",
        Decision::AllowAlways => "allowed from now on",
        Decision::Deny => "denied",
    }
}

/// Who wants to make the call, and where, and which call it is.
pub(crate) fn whence(request: &NewApproval) -> Vec<(&'static str, String)> {
    let call = [("call", request.call.to_string()), ("digest", request.digest.to_string())];
    let facts = request.whence().into_iter().chain(call);
    facts.map(|(name, value)| (name, one_line(&value, MOST))).collect()
}

/// What has become of a question.
pub(crate) fn state(record: &ApprovalRecord, now: Timestamp) -> Markup {
    let by = |by: &str| one_line(by, MOST);
    html! {
        @match &record.state {
            ApprovalState::Pending => {
                @if record.is_abandoned() {
                    "Nobody waits for an answer any more: the process that asked has ended. What is allowed is the next such call, "
                }
                @else { "Waits for an answer, " }
                (left(record.request.expires_at, now)) "."
            }
            ApprovalState::Allowed(allowance) => {
                "Was " strong.good { (decision(allowance.decision)) } " by " (by(&allowance.by)) ", " (ago(allowance.at, now))
                @if let Reach::LaterCall { until } = allowance.reach { "; it is for one later call, " (left(until, now)) "." }
                @else { "; the call has not begun yet." }
            }
            ApprovalState::Used { allowance, used_at } => {
                "Was " strong.good { (decision(allowance.decision)) } " by " (by(&allowance.by)) ", and began " (ago(*used_at, now)) "."
            }
            ApprovalState::Denied { at, by: who, word } => {
                "Was " strong.bad { "denied" } " by " (by(who)) ", " (ago(*at, now)) "."
                @if let Some(word) = word { " The model is told: “" (plain(word)) "”" }
            }
            ApprovalState::Edited(one) => {
                "Was " strong.good { "changed" } " by " (by(&one.by)) ", " (ago(one.at, now))
                "; the changed call is judged as a call of its own."
            }
            ApprovalState::Responded(one) => {
                "Was " strong.good { "answered with a result" } " by " (by(&one.by)) ", " (ago(one.at, now)) "; the call does not run."
            }
            ApprovalState::Unattended { at, hosted: true } => {
                "Was put to the client's own user " (ago(*at, now)) ". What they say is not known here, unless the tool runs. A later call can be allowed."
            }
            ApprovalState::Unattended { at, .. } => {
                "Was refused " (ago(*at, now)) ", since nobody could be asked. A later call can be allowed."
            }
            ApprovalState::TimedOut { at } => {
                "Was refused " (ago(*at, now)) ", since nobody answered in time. A later call can be allowed."
            }
            ApprovalState::Cancelled { at } => { "Was cancelled " (ago(*at, now)) ": its run is over." }
        }
    }
}

/// Who may answer, and who has, where that is said and something is still to be answered.
pub(crate) fn standing(record: &ApprovalRecord, people: &People, now: Timestamp) -> Option<String> {
    let is_open = matches!(
        record.state,
        ApprovalState::Pending | ApprovalState::Unattended { .. } | ApprovalState::TimedOut { .. }
    );
    let standing = record.standing(people, now).filter(|_| is_open)?;
    Some(one_line(&standing.told(), MOST_STANDING))
}

/// Whether the call waits for an answer.
pub(crate) fn is_waiting(record: &ApprovalRecord) -> bool {
    record.state == ApprovalState::Pending
}
