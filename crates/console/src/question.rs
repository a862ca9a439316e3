//! One question: the exact call, why it is asked about, and the answers that are offered.

use backstop_hooks::Decision;
use backstop_store::{AlwaysScope, ApprovalRecord, ApprovalState, People, PersonName, Starts, Timestamp};
use maud::{Markup, html};

use crate::facts::{is_waiting, severity, standing, state, whence};
use crate::page::{Place, Viewer, form_token, page};
use crate::shown::{ago, one_line, plain};
use crate::substitutes;

/// How long an answer can hold: in seconds, and in words.
const SPANS: &[(u64, &str)] = &[
    (3_600, "an hour"),
    (28_800, "8 hours"),
    (86_400, "a day"),
    (604_800, "7 days"),
    (2_592_000, "30 days"),
];

/// What a person is told on the page of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The answer counts.
    Done(String),
    /// The answer does not count.
    Refused(String),
}

/// A question.
#[derive(Debug)]
pub struct Question<'a> {
    /// The question.
    pub record: &'a ApprovalRecord,
    /// Questions of the same kind that wait, too.
    pub similar: &'a [ApprovalRecord],
    /// Whether there may be more of them than those.
    pub has_more: bool,
    /// Whether answers are given on the machine alone.
    pub is_strict: bool,
    /// What the person is told.
    pub told: Option<&'a Told>,
    /// The question that ends next, besides this one.
    pub next: Option<&'a str>,
    /// Those who are known by name, and who of them looks at the page.
    pub people: &'a People,
    /// See [`people`](Self::people).
    pub person: Option<&'a PersonName>,
}

/// The page of a question.
pub fn question(viewer: &Viewer, question: &Question<'_>, now: Timestamp) -> String {
    let record = question.record;
    let request = &record.request;
    let title = one_line(&request.title, 200);
    let content = html! {
        p.back { a href="/-/console/approvals" { "Approvals" } }
        h1 { (severity(request.severity)) " " (title) }
        @match question.told {
            Some(Told::Done(text)) => p.done role="status" { (text) },
            Some(Told::Refused(text)) => p.alert role="alert" { (text) },
            None => {}
        }
        div #state data-part={ "/-/console/approvals/" (record.id) "/state" } data-status=(record.state.status().as_str()) {
            (state_part(question, now))
        }
        @if !request.description.is_empty() { p.description { (plain(&request.description)) } }
        section aria-labelledby="call-title" {
            h2 #call-title { "The call" }
            (call(viewer, question))
        }
        (substitutes::origin(record))
        (answers(viewer, question, now))
        @if let Some(starts) = &request.starts { (would_start(starts, "")) }
        section aria-labelledby="why-title" {
            h2 #why-title { "Who asks, and why" }
            ul.reasons {
                @for reason in &request.reasons {
                    li {
                        (severity(reason.severity)) " " b { (one_line(&reason.title, 200)) }
                        @if !reason.description.is_empty() { p { (plain(&reason.description)) } }
                        p.meta {
                            span { "asked by " code { (plain(reason.hook.as_str())) } }
                            @for rule in &reason.rules { span { "rule " code { (plain(rule.as_str())) } } }
                        }
                    }
                }
            }
        }
        section aria-labelledby="facts-title" {
            h2 #facts-title { "Where it comes from" }
            dl.facts {
                @for (name, value) in whence(request) { div { dt { (name) } dd { code.exact { (value) } } } }
                div { dt { "asked" } dd { (ago(request.created_at, now)) } }
            }
        }
        @if !question.similar.is_empty() { (similar(viewer, question, now)) }
    };
    page(viewer, Place::Approvals, &title, Some("/-/console/events"), content)
}

/// The part of the page that says what has become of the question.
pub fn question_state(question: &Question<'_>, now: Timestamp) -> String {
    state_part(question, now).into_string()
}

fn state_part(question: &Question<'_>, now: Timestamp) -> Markup {
    html! {
        p role="status" data-is=(question.record.state.status().as_str()) { (state(question.record, now)) }
        @if let Some(standing) = standing(question.record, question.people, now) {
            p #standing.standing role="status" data-turns=[turns(question, now).map(Timestamp::as_millis)] { (standing) }
        }
        @if !is_waiting(question.record) {
            p.next {
                @match question.next {
                    Some(next) => a #next href={ "/-/console/approvals/" (next) } { "Next question" },
                    None => a #next href="/-/console/approvals" { "Back to the approvals" }
                }
            }
        }
    }
}

/// From when on others may answer, too.
fn turns(question: &Question<'_>, now: Timestamp) -> Option<Timestamp> {
    let standing = question.record.standing(question.people, now)?;
    standing.later.map(|later| later.at)
}

fn call(viewer: &Viewer, question: &Question<'_>) -> Markup {
    let request = &question.record.request;
    let text = serde_json::to_string_pretty(request.shown()).unwrap_or_default();
    html! {
        p { "Tool " code.exact { (plain(&request.tool_name.in_full())) } }
        pre.exact #call tabindex="0" role="region" aria-label="Arguments" { (plain(&text)) }
        @if request.masked > 0 { p.note { (request.masked) @if request.masked == 1 { " secret is" } @else { " secrets are" } " masked with " code { "*" } "." } }
        @if request.unseen {
            div.note {
                @if request.whole.is_some() {
                    p { "Only a part of the arguments is shown. The call can be allowed once all of it was." }
                    @if viewer.may_answer && !question.is_strict {
                        form method="post" action={ "/-/console/approvals/" (question.record.id) "/whole" } {
                            (form_token(viewer))
                            button type="submit" { "Show all of it" }
                        }
                    }
                } @else {
                    p { "Not all of the arguments can be shown, so this call can be denied and not allowed." }
                }
            }
        }
    }
}

pub(crate) fn would_start(starts: &Starts, before: &str) -> Markup {
    html! {
        section aria-labelledby={ (before) "starts-title" } {
            h2 id={ (before) "starts-title" } { "What it would start" }
            ul.starts {
                @for process in &starts.processes {
                    li {
                        code.exact { (process.words.iter().map(|word| one_line(word, 200)).collect::<Vec<_>>().join(" ")) }
                        @if !process.through.is_empty() { " through " (process.through.iter().map(|one| one_line(one, 60)).collect::<Vec<_>>().join(", ")) }
                        @if let Some(folder) = &process.folder { " in " code.exact { (one_line(folder, 200)) } }
                    }
                }
                @for path in &starts.paths { li { (one_line(&path.action, 40)) " " code.exact { (one_line(&path.path, 200)) } } }
                @for host in &starts.hosts { li { "asks " code.exact { (one_line(host, 200)) } } }
                @for unknown in &starts.unknown { li { "can't be told: " (one_line(unknown, 200)) } }
                @if starts.more > 0 { li { "and " (starts.more) " more" } }
            }
        }
    }
}

/// Answers that are offered: no more, and no others.
fn answers(viewer: &Viewer, question: &Question<'_>, now: Timestamp) -> Markup {
    let record = question.record;
    let may = record.request.route.as_ref().map(|route| route.may_answer(question.people, now));
    let is_asked = may.is_none_or(|may| question.person.is_some_and(|person| may.contains(person)));
    if !viewer.may_answer || question.is_strict {
        let why = if question.is_strict {
            "Answers are given on the machine itself here: `backstop approvals`."
        } else {
            "Your token may read and not answer."
        };
        return html! { section aria-label="Answers" { p.note { (why) } } };
    }
    let request = &record.request;
    let offers = |decision| request.allowed_decisions.contains(&decision) && !request.unseen;
    let is_late = matches!(record.state, ApprovalState::Unattended { .. } | ApprovalState::TimedOut { .. });
    let waits = is_waiting(record);
    if !waits && !is_late {
        return html! {};
    }
    if !is_asked {
        let who = question.person.map_or_else(
            || "It is not known here which person you are (approvals.people).".to_owned(),
            |person| format!("You ({}) are not asked.", one_line(person.as_str(), 60)),
        );
        return html! { section aria-label="Answers" { p.note #not-asked { (who) } } };
    }
    html! {
        section.answers aria-labelledby="answer-title" {
            h2 #answer-title { "Your answer" }
            @if waits {
                // What is allowed is said: a yes to the call that waits is for no later one.
                @if record.is_abandoned() && offers(Decision::AllowOnce) {
                    (allow_later(viewer, record))
                } @else if offers(Decision::AllowOnce) {
                    (answer_form(viewer, record, "allow-once", html! { button.allow type="submit" data-key="a" { "Allow once" } }))
                }
                (answer_form(viewer, record, "deny", html! {
                    label for="deny-word" { "A word to the model " span.quiet { "(may be left out)" } }
                    input #deny-word type="text" name="word" maxlength="512" autocomplete="off" data-key="d";
                    button.deny type="submit" { "Deny" }
                }))
                @if !request.unseen && !record.is_abandoned() { (substitutes::forms(viewer, record)) }
                @if offers(Decision::AllowAlways) { (always(viewer, record)) }
            } @else if offers(Decision::AllowOnce) {
                (allow_later(viewer, record))
            }
        }
    }
}

fn allow_later(viewer: &Viewer, record: &ApprovalRecord) -> Markup {
    answer_form(
        viewer,
        record,
        "allow-later",
        html! {
            p.quiet { "The next call with the same arguments may run, within an hour." }
            button.allow type="submit" data-key="a" { "Allow one later call" }
        },
    )
}

pub(crate) fn answer_form(
    viewer: &Viewer,
    record: &ApprovalRecord,
    decision: &str,
    content: Markup,
) -> Markup {
    html! {
        form method="post" action={ "/-/console/approvals/" (record.id) "/answer" } {
            (form_token(viewer))
            input type="hidden" name="digest" value=(record.request.digest);
            input type="hidden" name="decision" value=(decision);
            (content)
        }
    }
}

fn always(viewer: &Viewer, record: &ApprovalRecord) -> Markup {
    let scopes = record.always_scopes();
    let about = |scope: &AlwaysScope| match scope {
        AlwaysScope::Call => ("call", "this very call".to_owned()),
        AlwaysScope::Program => ("program", format!("calls of {}", programs(record))),
        AlwaysScope::Rule => {
            ("rule", format!("what the same rules ask about in this workspace: {}", rules(record)))
        }
        AlwaysScope::UpTo { argument, .. } => ("up-to", argument.clone()),
    };
    html! {
        details {
            summary { "Allow from now on …" }
            (answer_form(viewer, record, "allow-always", html! {
                fieldset {
                    legend { "What" }
                    @for (number, scope) in scopes.iter().enumerate() {
                        @let (value, text) = about(scope);
                        div.choice {
                            input type="radio" name="scope" id={ "scope-" (value) } value=(value) checked[number == 0] required;
                            label for={ "scope-" (value) } { (one_line(&text, 300)) }
                        }
                    }
                    @if !record.request.amounts.is_empty() {
                        div.choice {
                            input type="radio" name="scope" id="scope-up-to" value="up-to" required;
                            label for="scope-up-to" { "such calls with another amount, up to a sum" }
                        }
                    }
                }
                @if !record.request.amounts.is_empty() {
                    label for="argument" { "Amount" }
                    select #argument name="argument" {
                        @for one in &record.request.amounts { option value=(one.argument) { (one_line(&one.argument, 60)) " (" (one.amount) " now)" } }
                    }
                    label for="most" { "Up to, in all" }
                    input #most type="text" name="most" inputmode="decimal" autocomplete="off" maxlength="30";
                }
                label for="span" { "For" }
                select #span name="span" { @for (seconds, text) in SPANS { option value=(seconds) selected[*seconds == 86_400] { (text) } } }
                label for="times" { "At most so many calls " span.quiet { "(may be left out)" } }
                input #times type="number" name="times" min="1" max="1000000" autocomplete="off";
                button.allow type="submit" { "Allow from now on" }
            }))
        }
    }
}

fn programs(record: &ApprovalRecord) -> String {
    let mut programs: Vec<String> =
        record.request.reasons.iter().filter_map(|reason| Some(reason.program.as_ref()?.join(" "))).collect();
    programs.dedup();
    programs.join(", ")
}

fn rules(record: &ApprovalRecord) -> String {
    let rules = record.request.reasons.iter().flat_map(|reason| &reason.rules);
    rules.map(backstop_hooks::RuleId::as_str).collect::<Vec<_>>().join(", ")
}

/// Those that are alike, each with its whole call: who answers several has seen each.
fn similar(viewer: &Viewer, question: &Question<'_>, now: Timestamp) -> Markup {
    let may_answer = viewer.may_answer && !question.is_strict;
    html! {
        section aria-labelledby="similar-title" {
            h2 #similar-title { (question.similar.len()) " more alike" }
            @if question.has_more { p.meta { "There may be more than these: they are in the " a href="/-/console/approvals" { "queue" } "." } }
            form method="post" action="/-/console/approvals/several" {
                (form_token(viewer))
                ul.rows {
                    @for record in question.similar {
                        @let title = one_line(&record.request.title, 160);
                        li.row {
                            @if may_answer {
                                input type="checkbox" name="which" value={ (record.id) " " (record.request.digest) } aria-label={ "Tick: " (title) };
                            }
                            div {
                                p.first { a href={ "/-/console/approvals/" (record.id) } { (title) } }
                                pre.exact tabindex="0" role="region" aria-label={ "Arguments of: " (title) } { (plain(&record.request.preview.to_string())) }
                                p.meta { @for (name, value) in whence(&record.request) { @if name == "workspace" || name == "session" { span { (value) } } } span { "asked " (ago(record.request.created_at, now)) } @if record.request.whole.is_some() || record.request.unseen { span { "not all is shown here, so that it can only be denied" } } }
                            }
                        }
                    }
                }
                @if may_answer {
                    div.bulk {
                        button.allow type="submit" name="decision" value="allow-once" { "Allow once what is ticked" }
                        button.deny type="submit" name="decision" value="deny" { "Deny what is ticked" }
                    }
                }
            }
        }
    }
}
