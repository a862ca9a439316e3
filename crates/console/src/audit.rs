//! The trail: pages of it, and whether it is what was written.

use backstop_store::{AuditEntry, AuditReport, Timestamp};
use maud::{Markup, html};
use serde_json::Value;

use crate::checkpoints::{self, Signed};
use crate::page::{Place, Viewer, form_token, page};
use crate::sessions::encoded;
use crate::shown::{ago, one_line, plain};

/// Which entries are looked for.
///
/// The texts are as they were typed; empty ones look for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// A kind.
    pub kind: String,
    /// A session.
    pub session: String,
    /// Words that have to be in an entry.
    pub text: String,
    /// A verdict, or `ask` for those about which somebody was asked.
    pub verdict: String,
    /// A rule.
    pub rule: String,
    /// A tool, as it was called or as it is known.
    pub tool: String,
    /// An agent.
    pub agent: String,
    /// A folder that the agent works in, or one above.
    pub workspace: String,
    /// A person, or whoever else did or asked for something.
    pub who: String,
    /// The first day, in UTC.
    pub since: String,
    /// The last day, in UTC.
    pub through: String,
}

impl Search {
    /// Its fields, by the names that they have in addresses.
    fn fields(&self) -> [(&'static str, &str); 11] {
        [
            ("text", self.text.as_str()),
            ("kind", self.kind.as_str()),
            ("session", self.session.as_str()),
            ("verdict", self.verdict.as_str()),
            ("rule", self.rule.as_str()),
            ("tool", self.tool.as_str()),
            ("agent", self.agent.as_str()),
            ("workspace", self.workspace.as_str()),
            ("who", self.who.as_str()),
            ("since", self.since.as_str()),
            ("through", self.through.as_str()),
        ]
    }

    /// Returns whether the verdict is none, or one that a receipt can have: for another, nothing would be found, and nobody told why.
    #[must_use]
    pub fn has_known_verdict(&self) -> bool {
        let verdict = self.verdict.trim();
        VERDICTS.iter().any(|(known, _)| *known == verdict)
    }

    /// Returns it as a query, each field with a `&` before it; empty if all entries are looked for.
    fn query(&self) -> String {
        let fields = self.fields().into_iter().filter(|(_, value)| !value.trim().is_empty());
        fields.map(|(name, value)| format!("&{name}={}", encoded(value))).collect()
    }

    /// Whether one of the fields is set that are not shown at once.
    fn is_narrow(&self) -> bool {
        let at_once = ["text", "kind", "session"];
        self.fields().iter().any(|(name, value)| !at_once.contains(name) && !value.trim().is_empty())
    }
}

/// Whether the trail is what was written.
#[derive(Clone, Debug)]
pub enum TrailState {
    /// Nobody has looked.
    Unknown,
    /// Nothing was found to be wrong when somebody looked, at that moment. How much of it is proved, the report says.
    Sound(Box<AuditReport>, Timestamp),
    /// It is not, or nobody can say.
    Broken(String),
}

/// A page of the trail.
#[derive(Debug)]
pub struct Audit<'a> {
    /// Its entries, the newest first.
    pub entries: &'a [AuditEntry],
    /// What is looked for.
    pub search: &'a Search,
    /// The number before which the next page begins, if there is one.
    pub older: Option<u64>,
    /// What is known of the whole trail.
    pub state: &'a TrailState,
    /// What is signed of it.
    pub signed: &'a Signed,
}

/// The page of the trail.
pub fn audit(viewer: &Viewer, shown: &Audit<'_>, now: Timestamp) -> String {
    let Audit { entries, search, older, state, signed } = shown;
    let query = search.query();
    let content = html! {
        h1 { "Audit" }
        (trail_state(viewer, state, now))
        (checkpoints::section(signed, now))
        h2 { "Entries" }
        (fields(search))
        p.tools {
            @if !query.is_empty() {
                a href={ "/-/console/audit.jsonl?" (query.trim_start_matches('&')) } download="trail.jsonl" { "Download what is looked for (JSONL)" }
            }
            a href="/-/console/audit.jsonl" download="trail.jsonl" { "Download all (JSONL)" }
        }
        @if entries.is_empty() { p.empty { "No entry here is what you look for." } }
        @else { ol.rows reversed { @for entry in *entries { (row(entry, now)) } } }
        @if let Some(older) = older {
            nav.pages aria-label="Pages" {
                a rel="next" href={ "/-/console/audit?before=" (older) (query) } { "Older entries" }
            }
        }
    };
    page(viewer, Place::Audit, "Audit", None, content)
}

/// What a receipt can say, as it is looked for, and in words.
const VERDICTS: &[(&str, &str)] = &[
    ("", "any"),
    ("pass", "passed"),
    ("modify", "changed"),
    ("block", "stopped"),
    ("ask", "asked about"),
    ("handled", "taken by a hook"),
    ("observed", "watched"),
    ("dropped", "given up"),
];

/// The fields of a search.
fn fields(search: &Search) -> Markup {
    html! {
        form method="get" action="/-/console/audit" role="search" {
            div.tools {
                label for="text" { "Words" }
                input #text type="search" name="text" value=(search.text) maxlength="200" autocomplete="off" spellcheck="false";
                label for="kind" { "Kind" }
                input #kind type="text" name="kind" value=(search.kind) maxlength="100" autocomplete="off" spellcheck="false";
                label for="session" { "Session" }
                input #session type="text" name="session" value=(search.session) maxlength="200" autocomplete="off" spellcheck="false";
                button type="submit" { "Search" }
            }
            details open[search.is_narrow()] {
                summary { "By verdict, rule, tool, agent, person and day" }
                div.fields {
                    label for="verdict" { "Verdict" }
                    select #verdict name="verdict" { @for (value, text) in VERDICTS { option value=(value) selected[search.verdict == *value] { (text) } } }
                    label for="rule" { "Rule" }
                    input #rule type="text" name="rule" value=(search.rule) maxlength="200" autocomplete="off" spellcheck="false";
                    @for (name, label, value) in [
                        ("tool", "Tool", &search.tool),
                        ("agent", "Agent", &search.agent),
                        ("workspace", "Workspace", &search.workspace),
                        ("who", "Who", &search.who),
                    ] {
                        label for=(name) { (label) }
                        input id=(name) type="text" name=(name) value=(value) maxlength="1000" autocomplete="off" spellcheck="false";
                    }
                    label for="since" { "First day (UTC)" }
                    input #since type="date" name="since" value=(search.since);
                    label for="through" { "Last day (UTC)" }
                    input #through type="date" name="through" value=(search.through);
                }
            }
        }
    }
}

fn trail_state(viewer: &Viewer, state: &TrailState, now: Timestamp) -> Markup {
    html! {
        section.trail aria-label="State of the trail" {
            @match state {
                TrailState::Unknown => {},
                TrailState::Broken(why) => p.alert role="alert" { (plain(why)) },
                TrailState::Sound(report, at) => (sound(report, *at, now))
            }
            form method="post" action="/-/console/audit/verify" {
                (form_token(viewer))
                button type="submit" { "Verify now" }
            }
        }
    }
}

/// What was found in a trail in which nothing was found to be wrong: how much of it is proved, and what can't be told.
fn sound(report: &AuditReport, at: Timestamp, now: Timestamp) -> Markup {
    let (all, covered) = (report.head.seq, report.checkpoints.covered.min(report.head.seq));
    let is_proved = report.is_proved(at) && report.late.is_empty() && (covered > 0 || all == 0);
    let told: Vec<String> = report.warnings(at).into_iter().chain(report.notices(false)).collect();
    html! {
        p class=(if is_proved { "done" } else { "note" }) role="status" {
            @if !is_proved { "Nothing in " (all) " entries was found to be wrong, and not all of it can be proved." }
            @else if covered == all { "All " (all) " entries are what was written, and stand where they were written." }
            @else { (covered) " of " (all) " entries are what was written, and stand where they were written; those behind them are too young for a checkpoint." }
            " " (ago(at, now))
        }
        ul.reasons aria-label="What can't be told, and what is missing" {
            li { "No witness was compared here, so that the end can't be proved: " code { "backstop audit verify" } " compares. That the end was cut off, or all of it rewritten with the key, shows against a witness or a kept head alone." }
            @for one in &told { li { @for line in one.lines() { p { (plain(line)) } } } }
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

#[cfg(test)]
mod tests {
    use backstop_store::{AuditCheckpoints, AuditHead, AuditLate, AuditProcess};

    use super::*;

    fn report() -> AuditReport {
        let key = Some("a key".to_owned());
        AuditReport {
            head: AuditHead { seq: 9, ..AuditHead::default() },
            checkpoints: AuditCheckpoints { count: 1, covered: 9, key, ..AuditCheckpoints::default() },
            ..AuditReport::default()
        }
    }

    #[test]
    fn no_more_of_the_trail_is_said_to_be_proved_than_is() {
        let (at, now) = (Timestamp::from_millis(1_000_000), Timestamp::from_millis(1_030_000));
        let shown = |report: &AuditReport| sound(report, at, now).into_string();
        let all = shown(&report());
        assert!(all.contains("All 9 entries are what was written"), "{all}");
        assert!(all.contains("class=\"done\"") && all.contains("30 s ago"), "{all}");
        assert!(all.contains("No witness was compared here"), "{all}");
        let mut young = report();
        young.checkpoints.covered = 7;
        let young = shown(&young);
        assert!(young.contains("7 of 9 entries are what was written") && !young.contains("All"), "{young}");
        assert!(young.contains("no checkpoint covers the last 2 entries"), "{young}");
        let (mut unchecked, mut late, mut unsigned) = (report(), report(), report());
        unchecked.checkpoints.key = None;
        let processes = vec!["<b>p\u{202e}".to_owned()];
        late.late = vec![AuditLate { told: 9, from: 3, through: 8, processes, others: 0 }];
        unsigned.checkpoints = AuditCheckpoints::default();
        for (report, why) in [
            (unchecked, "the signatures of its checkpoints were not checked"),
            (late, "of process &lt;b&gt;p\\u{202e}, were found without a checkpoint"),
            (unsigned, "no checkpoint covers the last 9 entries"),
        ] {
            let page = shown(&report);
            assert!(page.contains("not all of it can be proved") && page.contains(why), "{why}: {page}");
            assert!(!page.contains("All ") && !page.contains("class=\"done\""), "{why}: {page}");
        }
    }

    #[test]
    fn what_is_missing_is_told_on_the_page() {
        let process = "one".to_owned();
        let mut report = report();
        report.impaired = 2;
        report.processes = vec![AuditProcess { process, missing: 3, last: 8, unended: true }];
        let page = sound(&report, Timestamp::now(), Timestamp::now()).into_string();
        assert!(page.contains("2 times a checkpoint or another file"), "{page}");
        assert!(page.contains("process one runs, or was killed: its last entry is number 8"), "{page}");
    }
}
