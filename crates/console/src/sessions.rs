//! The conversations of agents.

use backstop_store::{Session, Timestamp};
use maud::html;

use crate::page::{Place, Viewer, page};
use crate::shown::{ago, one_line};

/// The list of sessions, the one with the latest activity first. `is_cut` says that there may be more.
pub fn sessions(viewer: &Viewer, sessions: &[Session], is_cut: bool, now: Timestamp) -> String {
    let content = html! {
        h1 { "Sessions" }
        div.tools {
            label for="filter" { "Filter" }
            input #filter type="search" data-filters="#sessions tr.row" autocomplete="off" spellcheck="false";
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
    };
    page(viewer, Place::Sessions, "Sessions", None, content)
}

/// A text as a value of a query.
pub(crate) fn encoded(text: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    text.bytes()
        .map(|byte| if is_plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
