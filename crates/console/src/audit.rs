//! The trail: pages of it, and whether it is what was written.

use backstop_store::{AuditEntry, AuditReport, Timestamp};
use maud::{Markup, html};
use serde_json::Value;

use crate::page::{Place, Viewer, form_token, page};
use crate::sessions::encoded;
use crate::shown::{ago, one_line, plain};

/// Which entries are looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// A kind.
    pub kind: String,
    /// A session.
    pub session: String,
    /// Words that have to be in an entry.
    pub text: String,
}

/// Whether the trail is what was written.
#[derive(Clone, Debug)]
pub enum TrailState {
    /// Nobody has looked.
    Unknown,
    /// It is.
    Sound(Box<AuditReport>),
    /// It is not, or nobody can say.
    Broken(String),
}

/// The page of the trail. `older` is the number before which the next page begins.
pub fn audit(
    viewer: &Viewer,
    entries: &[AuditEntry],
    search: &Search,
    older: Option<u64>,
    state: &TrailState,
    now: Timestamp,
) -> String {
    let content = html! {
        h1 { "Audit" }
        (trail_state(viewer, state))
        form.tools method="get" action="/-/console/audit" role="search" {
            label for="text" { "Words" }
            input #text type="search" name="text" value=(search.text) maxlength="200" autocomplete="off" spellcheck="false";
            label for="kind" { "Kind" }
            input #kind type="text" name="kind" value=(search.kind) maxlength="100" autocomplete="off" spellcheck="false";
            label for="session" { "Session" }
            input #session type="text" name="session" value=(search.session) maxlength="200" autocomplete="off" spellcheck="false";
            button type="submit" { "Search" }
            a href="/-/console/audit.jsonl" download="trail.jsonl" { "Download all (JSONL)" }
        }
        @if entries.is_empty() { p.empty { "No entry here is what you look for." } }
        @else { ol.rows reversed { @for entry in entries { (row(entry, now)) } } }
        @if let Some(older) = older {
            nav.pages aria-label="Pages" {
                a rel="next" href={ "/-/console/audit?before=" (older) "&kind=" (encoded(&search.kind)) "&session=" (encoded(&search.session)) "&text=" (encoded(&search.text)) } { "Older entries" }
            }
        }
    };
    page(viewer, Place::Audit, "Audit", None, content)
}

fn trail_state(viewer: &Viewer, state: &TrailState) -> Markup {
    html! {
        section.trail aria-label="State of the trail" {
            @match state {
                TrailState::Unknown => {},
                TrailState::Broken(why) => p.alert role="alert" { (plain(why)) },
                TrailState::Sound(report) => {
                    p.done role="status" {
                        "All " (report.head.seq) " entries are what was written, and stand where they were written."
                        @if report.torn { " The trail ends with something that is no entry." }
                    }
                    dl.facts {
                        div { dt { "checkpoints" } dd { (report.checkpoints.count) ", the newest covers " (report.checkpoints.covered) " entries" } }
                        div { dt { "missing" } dd { (report.missing) } }
                        div { dt { "lost" } dd { (report.lost) } }
                        div { dt { "pruned" } dd { (report.pruned) } }
                        div { dt { "head" } dd { code { (report.head.digest) } } }
                    }
                }
            }
            form method="post" action="/-/console/audit/verify" {
                (form_token(viewer))
                button type="submit" { "Verify now" }
            }
        }
    }
}

fn row(entry: &AuditEntry, now: Timestamp) -> Markup {
    let text = serde_json::to_string_pretty(&entry.body).unwrap_or_default();
    html! {
        li.row value=(entry.seq) {
            details {
                summary {
                    span.number { (entry.seq) } " "
                    span class={ "badge " (tone(entry)) } { (one_line(&word(entry), 40)) } " "
                    (one_line(&summary(entry), 200)) " "
                    span.quiet { (ago(entry.at, now)) }
                }
                dl.facts {
                    div { dt { "kind" } dd { (plain(&entry.kind)) } }
                    div { dt { "time" } dd { (entry.at) } }
                    @if let Some(session) = &entry.session { div { dt { "session" } dd { a href={ "/-/console/sessions/one?id=" (encoded(session.as_str())) } { code.exact { (plain(session.as_str())) } } } } }
                    @if let Some(run) = &entry.run { div { dt { "run" } dd { code.exact { (plain(run.as_str())) } } } }
                    @if let Some(policy) = &entry.policy { div { dt { "policy" } dd { code.exact { (plain(policy)) } " " a href={ "/-/console/audit?kind=configuration.read&text=" (encoded(policy)) } { "what it is" } } } }
                    div { dt { "process" } dd { code { (plain(&entry.process)) } ", entry " (entry.n) } }
                    div { dt { "digest" } dd { code { (entry.digest) } } }
                }
                pre.exact tabindex="0" role="region" aria-label={ "Entry " (entry.seq) } { (plain(&text)) }
            }
        }
    }
}

fn field<'a>(entry: &'a AuditEntry, name: &str) -> Option<&'a str> {
    entry.body.get(name).and_then(Value::as_str)
}

/// What it is, in a word: the verdict of a receipt, the kind of anything else.
pub(crate) fn word(entry: &AuditEntry) -> String {
    field(entry, "verdict").unwrap_or(&entry.kind).to_owned()
}

pub(crate) fn tone(entry: &AuditEntry) -> &'static str {
    match field(entry, "verdict") {
        Some("pass") => "good",
        Some("modify") => "warning",
        Some("block") => "critical",
        _ => "info",
    }
}

pub(crate) fn summary(entry: &AuditEntry) -> String {
    let parts = ["point", "tool", "agentId", "agent", "decision", "by", "user", "title"];
    parts.iter().filter_map(|name| field(entry, name)).collect::<Vec<_>>().join(" · ")
}
