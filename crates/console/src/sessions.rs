//! The conversations of agents.

use backstop_store::{Session, Timestamp};
use maud::{Markup, html};

use crate::page::{Place, Viewer, page};
use crate::shown::{ago, one_line};

/// A session of which nothing is kept but what was judged in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenSession {
    /// Its id, as the trail has it.
    pub id: String,
    /// Whose it is.
    pub agent: String,
    /// Through what it was seen.
    pub host: String,
    /// How much was judged in it, as far as the trail was read.
    pub judged: u64,
    /// When something was judged last.
    pub last: Timestamp,
}

/// The sessions that are known.
#[derive(Debug)]
pub struct Sessions<'a> {
    /// Those that are kept, the one with the latest activity first.
    pub kept: &'a [Session],
    /// Whether there may be more of them.
    pub is_cut: bool,
    /// The others that the trail names, the latest first.
    pub others: &'a [SeenSession],
    /// How many more of them there are; at most so many, where not all that are kept are listed.
    pub more: usize,
    /// The number of the entry before which the trail was not read.
    pub reached: Option<u64>,
}

/// The list of sessions.
pub fn sessions(viewer: &Viewer, shown: &Sessions<'_>, now: Timestamp) -> String {
    let Sessions { kept: sessions, is_cut, .. } = *shown;
    let content = html! {
        h1 { "Sessions" }
        div.tools {
            label for="filter" { "Filter" }
            input #filter type="search" data-filters="#sessions tr.row, #others tr.row" autocomplete="off" spellcheck="false";
        }
        @if sessions.is_empty() { p.empty { "No agent has a session that is kept here." } }
        @else {
            @if is_cut { p.summary { "The latest " (sessions.len()) " sessions" } }
            div.scroll tabindex="0" role="region" aria-label="Sessions" {
                table {
                    thead { tr { th scope="col" { "Agent" } th scope="col" { "Session" } th scope="col" { "Workspace" } th scope="col" { "Active" } th scope="col" { "State" } } }
                    tbody #sessions {
                        @for session in sessions {
                            tr.row {
                                td { (one_line(session.agent.as_str(), 60)) }
                                td { a href={ "/-/console/sessions/one?id=" (encoded(session.id.as_str())) } { code.exact { (one_line(session.id.as_str(), 60)) } } }
                                td { (one_line(&session.workspace, 120)) }
                                td { (ago(session.updated_at, now)) }
                                td { @if session.ended.is_some() { "ended" } @else { "open" } }
                            }
                        }
                    }
                }
            }
        }
        (others(shown, now))
    };
    page(viewer, Place::Sessions, "Sessions", None, content)
}

/// The sessions of which the trail alone knows.
fn others(shown: &Sessions<'_>, now: Timestamp) -> Markup {
    html! {
        section aria-labelledby="others-title" {
            h2 #others-title { "Other sessions" }
            p.summary {
                "Of these there is what was judged: what was said their hosts keep, or nobody does."
                @if let Some(reached) = shown.reached { " The trail was read back to entry " (reached) "." }
            }
            @if shown.others.is_empty() { p.empty { "The trail names none here." } }
            @else {
                div.scroll tabindex="0" role="region" aria-label="Sessions that the trail names" {
                    table {
                        thead { tr { th scope="col" { "Agent" } th scope="col" { "Session" } th scope="col" { "Host" } th scope="col" { "Judged" } th scope="col" { "Last" } } }
                        tbody #others { @for session in shown.others { (other(session, now)) } }
                    }
                }
                @if shown.more > 0 { p.summary { "and " @if shown.is_cut { "up to " } (shown.more) " more, judged earlier" } }
            }
        }
    }
}

fn other(session: &SeenSession, now: Timestamp) -> Markup {
    html! {
        tr.row {
            td { (one_line(&session.agent, 60)) }
            td { a href={ "/-/console/sessions/one?id=" (encoded(&session.id)) } { code.exact { (one_line(&session.id, 60)) } } }
            td { (one_line(&session.host, 60)) }
            td.number { (session.judged) }
            td { (ago(session.last, now)) }
        }
    }
}

/// A text as a value of a query.
pub(crate) fn encoded(text: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    text.bytes()
        .map(|byte| if is_plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
