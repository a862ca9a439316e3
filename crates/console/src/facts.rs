//! What is known of a question, in the same words wherever it is shown.

use backstop_hooks::{Decision, Severity};
use backstop_store::{ApprovalRecord, ApprovalState, NewApproval, Timestamp};
use maud::{Markup, html};

use crate::shown::{ago, left, one_line, plain};

/// The most characters of a fact.
const MOST: usize = 200;

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

/// Who wants to make the call, and where.
pub(crate) fn whence(request: &NewApproval) -> Vec<(&'static str, String)> {
    let place = &request.place;
    let through = match (&request.host, &request.client) {
        (Some(host), Some(client)) => Some(format!("{host} of {client}")),
        (host, client) => host.clone().or_else(|| client.clone()),
    };
    // Written as a list, of which some parts are missing. The first is the channel in both.
    let named = |list: &Option<String>, from: usize| {
        let parts: Vec<Option<String>> = serde_json::from_str(list.as_deref()?).ok()?;
        let parts: Vec<String> = parts.into_iter().skip(from).flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    };
    let facts = [
        ("agent", Some(request.agent.to_string())),
        ("through", through),
        ("for", named(&place.requester, 1)),
        ("channel", named(&place.channel, 0)),
        ("workspace", place.workspace.clone()),
        ("session", Some(request.session.to_string())),
        ("call", Some(request.call.to_string())),
        ("digest", Some(request.digest.to_string())),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name, one_line(&value?, MOST)))).collect()
}

/// What has become of a question.
pub(crate) fn state(record: &ApprovalRecord, now: Timestamp) -> Markup {
    let by = |by: &str| one_line(by, MOST);
    html! {
        @match &record.state {
            ApprovalState::Pending => { "Waits for an answer, " (left(record.request.expires_at, now)) "." }
            ApprovalState::Allowed(allowance) => {
                "Was " strong.good { (decision(allowance.decision)) } " by " (by(&allowance.by)) ", " (ago(allowance.at, now))
                "; the call has not begun yet."
            }
            ApprovalState::Used { allowance, used_at } => {
                "Was " strong.good { (decision(allowance.decision)) } " by " (by(&allowance.by)) ", and began " (ago(*used_at, now)) "."
            }
            ApprovalState::Denied { at, by: who, word } => {
                "Was " strong.bad { "denied" } " by " (by(who)) ", " (ago(*at, now)) "."
                @if let Some(word) = word { " The model is told: “" (plain(word)) "”" }
            }
            ApprovalState::Unattended { at } => {
                "Was refused " (ago(*at, now)) ", since nobody could be asked. A later call can be allowed."
            }
            ApprovalState::TimedOut { at } => {
                "Was refused " (ago(*at, now)) ", since nobody answered in time. A later call can be allowed."
            }
            ApprovalState::Cancelled { at } => { "Was cancelled " (ago(*at, now)) ": its run is over." }
        }
    }
}

/// Whether the call waits for an answer.
pub(crate) fn is_waiting(record: &ApprovalRecord) -> bool {
    record.state == ApprovalState::Pending
}
