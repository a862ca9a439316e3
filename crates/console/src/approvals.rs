//! The queue: what can be answered, with what is alike side by side.

use backstop_hooks::{AgentId, HookId, RuleId, Severity};
use backstop_store::{ApprovalRecord, People, RefusedQuestions, Timestamp};
use maud::{Markup, html};

use crate::facts::{is_waiting, severity, standing};
use crate::page::{Place, Viewer, form_token, page};
use crate::shown::{ago, left, one_line};

/// The most characters of a call in the queue. All of it is on the page of its question.
const MOST_CALL: usize = 160;
const MOST_TITLE: usize = 160;

/// What can be answered.
#[derive(Debug)]
pub struct Queue<'a> {
    /// Some of the questions, in the order in which they end.
    pub records: &'a [ApprovalRecord],
    /// How many there are.
    pub all: usize,
    /// How many come before the first of them.
    pub skip: usize,
    /// How many are shown on a page.
    pub step: usize,
    /// Whether answers are given on the machine alone.
    pub is_strict: bool,
    /// What was done just now.
    pub done: Option<&'a str>,
    /// Those who are known by name.
    pub people: &'a People,
    /// Questions that nobody was asked, because their agents ask too much.
    pub refused: &'a [RefusedQuestions],
    /// The public key for pushes to devices, if people can have theirs told.
    pub push_key: Option<&'a str>,
}

/// The queue as a page.
pub fn queue(viewer: &Viewer, queue: &Queue<'_>, now: Timestamp) -> String {
    let content = html! {
        h1 { "Approvals" }
        @if queue.is_strict {
            p.note { "Answers are given on the machine itself here (" code { "backstop approvals" } "): " code { "agent.approvals.strict" } " says so." }
        }
        @if let Some(done) = queue.done { p.done role="status" { (done) } }
        div.tools {
            label for="filter" { "Filter" }
            input #filter type="search" data-filters="#queue li.row" autocomplete="off" spellcheck="false";
            button #notify type="button" aria-pressed="false" hidden { "Notify me" }
            @if let Some(key) = queue.push_key {
                button #device type="button" aria-pressed="false" data-key=(key) hidden { "Notify this device" }
            }
        }
        div #queue data-part="/-/console/approvals/part" { (part(viewer, queue, now)) }
    };
    page(viewer, Place::Approvals, "Approvals", Some("/-/console/events"), content)
}

/// The part of the queue that the script exchanges when something has come in.
pub fn queue_part(viewer: &Viewer, queue: &Queue<'_>, now: Timestamp) -> String {
    part(viewer, queue, now).into_string()
}

fn part(viewer: &Viewer, queue: &Queue<'_>, now: Timestamp) -> Markup {
    let groups = groups(queue.records);
    let may_deny = viewer.may_answer && !queue.is_strict && queue.records.iter().any(is_waiting);
    html! {
        p.summary { (summary(queue)) }
        @for refused in queue.refused { p.note.refused { (one_line(&refused.told(), MOST_TITLE)) "." } }
        @if groups.is_empty() {
            p.empty { "Nothing waits for a person." }
        } @else {
            form method="post" action="/-/console/approvals/deny" {
                (form_token(viewer))
                @for group in &groups {
                    section.group {
                        @if group.len() > 1 { h2 { (group.len()) " alike: " (headline(group)) } }
                        ul.rows { @for record in group { (row(record, queue.people, may_deny, now)) } }
                    }
                }
                @if may_deny {
                    div.bulk {
                        label for="word" { "A word to the model " span.quiet { "(may be left out)" } }
                        input #word type="text" name="word" maxlength="512" autocomplete="off";
                        button.deny type="submit" { "Deny what is ticked" }
                    }
                }
            }
            (pages(queue))
        }
    }
}

fn summary(queue: &Queue<'_>) -> Markup {
    let (first, last) = (queue.skip.saturating_add(1), queue.skip.saturating_add(queue.records.len()));
    html! {
        @match queue.all {
            0 => {},
            all if all == queue.records.len() => { (all) @if all == 1 { " question" } @else { " questions" } },
            all => { (first) " to " (last) " of " (all) " questions" }
        }
    }
}

fn pages(queue: &Queue<'_>) -> Markup {
    let next = queue.skip.saturating_add(queue.records.len());
    html! {
        @if queue.skip > 0 || next < queue.all {
            nav.pages aria-label="Pages" {
                @if queue.skip > 0 {
                    a href={ "/-/console/approvals?skip=" (queue.skip.saturating_sub(queue.step)) } rel="prev" { "Previous" }
                }
                @if next < queue.all {
                    a href={ "/-/console/approvals?skip=" (next) } rel="next" { (queue.all.saturating_sub(next)) " more" }
                }
            }
        }
    }
}

fn row(record: &ApprovalRecord, people: &People, may_deny: bool, now: Timestamp) -> Markup {
    let request = &record.request;
    let title = one_line(&request.title, MOST_TITLE);
    let waits = is_waiting(record);
    html! {
        li.row {
            @if may_deny && waits {
                input type="checkbox" name="deny" value={ (record.id) " " (request.digest) } aria-label={ "Tick: " (title) };
            }
            div {
                p.first {
                    (severity(request.severity)) " "
                    a href={ "/-/console/approvals/" (record.id) } { (title) }
                }
                p.call { span.tool { (one_line(&request.tool_name.in_full(), 60)) } " " code.exact { (one_line(&request.preview.to_string(), MOST_CALL)) } }
                p.meta {
                    span { (one_line(request.agent.as_str(), 40)) }
                    @if let Some(workspace) = &request.place.workspace { span { (one_line(workspace, 60)) } }
                    span { "asked " (ago(request.created_at, now)) }
                    @if let Some(standing) = standing(record, people, now) { span { (standing) } }
                    @if waits { span { (left(request.expires_at, now)) } } @else { span { (record.state.status().as_str()) } }
                }
            }
        }
    }
}

/// What makes questions alike: the same agent, tool, place and reasons.
type Likeness<'a> =
    (&'a AgentId, &'a str, Option<&'a str>, Vec<(&'a HookId, Vec<&'a RuleId>, &'a Option<Vec<String>>)>);

/// Returns whether two questions are of one kind: the same agent, tool, workspace and reasons.
pub fn is_alike(one: &ApprovalRecord, other: &ApprovalRecord) -> bool {
    likeness(one) == likeness(other)
}

fn likeness(record: &ApprovalRecord) -> Likeness<'_> {
    let request = &record.request;
    let reasons = request.reasons.iter();
    let reasons = reasons.map(|reason| (&reason.hook, reason.rules.iter().collect(), &reason.program));
    (&request.agent, request.tool_name.called(), request.place.workspace.as_deref(), reasons.collect())
}

fn groups(records: &[ApprovalRecord]) -> Vec<Vec<&ApprovalRecord>> {
    let mut groups: Vec<Vec<&ApprovalRecord>> = Vec::new();
    let mut known = std::collections::HashMap::new();
    for record in records {
        let place = *known.entry((likeness(record), is_waiting(record))).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(record),
            None => groups.push(vec![record]),
        }
    }
    // Of what is grave, people hear first.
    for group in &mut groups {
        group.sort_by_key(|record| std::cmp::Reverse(record.request.severity));
    }
    groups.sort_by_key(|group| {
        let first = group.first();
        let gravest = group.iter().map(|record| record.request.severity).max();
        (!first.is_some_and(|first| is_waiting(first)), gravest != Some(Severity::Critical))
    });
    groups
}

/// What a group is about.
fn headline(group: &[&ApprovalRecord]) -> String {
    let Some(record) = group.first() else { return String::new() };
    let request = &record.request;
    let hooks = request.reasons.iter().map(|reason| reason.hook.as_str()).collect::<Vec<_>>().join(", ");
    one_line(&format!("{} of {}, asked by {hooks}", request.tool_name.called(), request.agent), 120)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Role;

    #[test]
    fn a_device_can_be_told_where_there_is_a_key() {
        let viewer = Viewer {
            name: "ann".to_owned(),
            role: Role::Approver,
            may_answer: true,
            may_read: false,
            form_token: "token".to_owned(),
        };
        let people = People::default();
        let of = |push_key| {
            let queue = Queue {
                records: &[],
                all: 0,
                skip: 0,
                step: 1,
                is_strict: false,
                done: None,
                people: &people,
                refused: &[],
                push_key,
            };
            super::queue(&viewer, &queue, Timestamp::from_millis(0))
        };
        assert!(!of(None).contains("Notify this device") && of(None).contains("Notify me"));
        let page = of(Some("BF<\"key"));
        assert!(
            page.contains("Notify this device") && page.contains("data-key=\"BF&lt;&quot;key\""),
            "{page}"
        );
        // Whoever has no script has nothing that does nothing.
        assert!(page.contains("aria-pressed=\"false\" data-key=\"BF&lt;&quot;key\" hidden"), "{page}");
        assert!(page.contains("rel=\"manifest\" href=\"/-/console/console.webmanifest?v="), "{page}");
    }
}
