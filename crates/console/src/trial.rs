//! A call that somebody tries: what the hooks in force make of it, hook by hook, and what those of another configuration would.

use std::sync::Arc;
use std::time::Duration;

use backstop_engine::{HookMeta, Reviewed, Said, Step, Would};
use backstop_hooks::RuleId;
use backstop_store::Starts;
use maud::{Markup, html};
use serde_json::Value;

use crate::compare::compared;
use crate::page::{Place, Viewer, form_token, page};
use crate::question::would_start;
use crate::shown::{bytes_more, one_line, plain};

/// The most characters of an answer that is shown.
const MOST_ANSWER: usize = 4_000;
/// The most problems of a text that are shown.
const MOST_PROBLEMS: usize = 100;

/// What somebody typed.
#[derive(Clone, Debug, Default)]
pub struct Typed {
    /// The tool.
    pub tool: String,
    /// A command of a shell.
    pub command: String,
    /// The arguments, as JSON.
    pub arguments: String,
    /// Whose call it would be.
    pub agent: String,
    /// The folder that it would be made in.
    pub workspace: String,
    /// The text of another configuration.
    pub other: String,
}

/// What came of it.
#[derive(Debug)]
pub struct Tried {
    /// What the hooks made of it, with [what each of them saw and said](backstop_engine::StepDetail).
    pub reviewed: Reviewed,
    /// What it would start, as it would run.
    pub starts: Option<Starts>,
    /// The hooks that stand.
    pub hooks: Vec<Arc<HookMeta>>,
    /// Those that were not asked: the id of a hook, of its entry or of its plugin, and why, as it goes on after "because".
    pub unasked: Vec<(String, &'static str)>,
    /// The variables that the configuration names, at which nobody looked.
    pub variables: Vec<String>,
    /// Whether a hook wanted to see a file.
    pub wants_files: bool,
}

/// What is wrong with the text of a configuration.
#[derive(Clone, Debug)]
pub struct TextProblem {
    /// What.
    pub message: String,
    /// The line and the column, from 1 on, where it is at one.
    pub at: Option<(usize, usize)>,
    /// The next step, where one is known.
    pub hint: Option<String>,
}

/// A page on which calls are tried.
#[derive(Debug)]
pub struct Trial<'a> {
    /// What somebody typed.
    pub typed: &'a Typed,
    /// What came of it; an error says what can't be read.
    pub tried: Option<Result<Tried, String>>,
    /// What another configuration makes of it; an error says what is wrong with its text.
    pub other: Option<Result<Tried, Vec<TextProblem>>>,
    /// The most bytes of the text of another configuration; `None` for whoever may not try one.
    pub most_text: Option<usize>,
}

/// The page on which calls are tried.
pub fn trial(viewer: &Viewer, trial: &Trial<'_>) -> String {
    let content = html! {
        h1 { "Try" }
        p { "Judges a call by the hooks in force" @if trial.most_text.is_some() { ", and by another configuration beside them" } ". Nothing runs, nobody is asked, and no grant answers. Files are not looked at: a path is taken as it is written, as if there were no links, and what only a file tells counts as unknown. In place a call may be judged otherwise." }
        (form(viewer, trial))
        @match (&trial.tried, &trial.other) {
            (None, _) => {},
            (Some(Err(why)), _) => p.alert role="alert" { (plain(why)) },
            (Some(Ok(tried)), None) => { (decision(tried, &NOW)) (steps(&tried.reviewed.receipt.steps, &NOW)) },
            (Some(Ok(tried)), Some(Err(wrong))) => { (problems(wrong)) (decision(tried, &NOW)) (steps(&tried.reviewed.receipt.steps, &NOW)) },
            (Some(Ok(tried)), Some(Ok(other))) => {
                (compared(tried, other))
                @for (tried, whose) in [(tried, &NOW_OF_TWO), (other, &OTHER)] {
                    (decision(tried, whose)) (steps(&tried.reviewed.receipt.steps, whose))
                }
            }
        }
    };
    page(viewer, Place::Try, "Try", None, content)
}

/// Under which configuration something came of it.
struct Whose {
    /// What stands before the ids of its parts of the page.
    id: &'static str,
    /// What stands behind its headings.
    of: &'static str,
}

const NOW: Whose = Whose { id: "", of: "" };
const NOW_OF_TWO: Whose = Whose { id: "now-", of: " in force" };
const OTHER: Whose = Whose { id: "other-", of: " of the other configuration" };

fn problems(wrong: &[TextProblem]) -> Markup {
    html! {
        section aria-labelledby="problems-title" {
            h2 #problems-title { "The other configuration" }
            p.alert role="alert" { "It can't be used, so nothing was compared." }
            ul.reasons {
                @for one in wrong.iter().take(MOST_PROBLEMS) {
                    li {
                        @if let Some((line, column)) = one.at { "Line " (line) ", column " (column) ": " }
                        (plain(&one.message))
                        @if let Some(hint) = &one.hint { " " span.quiet { (plain(hint)) } }
                    }
                }
            }
            @if wrong.len() > MOST_PROBLEMS { p.quiet { "and " (wrong.len().saturating_sub(MOST_PROBLEMS)) " more" } }
        }
    }
}

fn form(viewer: &Viewer, trial: &Trial<'_>) -> Markup {
    let typed = trial.typed;
    html! {
        form.fields method="post" action="/-/console/try" {
            (form_token(viewer))
            label for="command" { "Command of a shell" }
            textarea #command name="command" rows="2" autocomplete="off" spellcheck="false" { (typed.command) }
            label for="arguments" { "or arguments, as JSON" }
            textarea #arguments name="arguments" rows="3" autocomplete="off" spellcheck="false" { (typed.arguments) }
            label for="tool" { "Tool " span.quiet { "(of a command: exec)" } }
            input #tool type="text" name="tool" value=(typed.tool) maxlength="200" autocomplete="off" spellcheck="false";
            label for="agent" { "Agent " span.quiet { "(may be left out)" } }
            input #agent type="text" name="agent" value=(typed.agent) maxlength="200" autocomplete="off" spellcheck="false";
            label for="workspace" { "Folder " span.quiet { "(may be left out)" } }
            input #workspace type="text" name="workspace" value=(typed.workspace) maxlength="1000" autocomplete="off" spellcheck="false";
            @if let Some(most) = trial.most_text {
                label for="other" { "Another configuration " span.quiet { "(may be left out)" } }
                textarea #other name="other" rows="6" maxlength=(most) autocomplete="off" spellcheck="false" aria-describedby="other-note" { (typed.other) }
                p #other-note .quiet.beside {
                    "The text of a backstop.yaml, as it would stand in the operator's file. It comes into force nowhere. No variable that it names is looked at, no file of it is opened, and no program, server or plugin of it is asked: hooks that need one are told to be left out. To try it on recorded calls, run " code { "backstop replay --config NEW.yaml" } " where the key of the tape is."
                }
            }
            button.primary type="submit" { "Judge it" }
        }
    }
}

fn decision(tried: &Tried, whose: &Whose) -> Markup {
    let reviewed = &tried.reviewed;
    let (tone, word, sentence) = match (&reviewed.blocked, reviewed.requests.is_empty(), reviewed.changed) {
        (Some(_), ..) => ("critical", "block", "It would be stopped."),
        (None, false, _) => ("info", "ask", "A person would be asked."),
        (None, true, true) => ("warning", "modify", "It would run with other arguments."),
        (None, true, false) => ("good", "allow", "It would run as it is."),
    };
    let blocked = reviewed.blocked.as_ref();
    let hook = blocked.and_then(|blocked| blocked.hook.as_ref());
    let rules = blocked.and_then(|blocked| blocked.reason.as_ref()).map(|reason| reason.recorded().rules);
    let text = serde_json::to_string_pretty(&reviewed.event.params.to_value()).unwrap_or_default();
    html! {
        section aria-labelledby={ (whose.id) "decision-title" } {
            h2 id={ (whose.id) "decision-title" } { "Decision" (whose.of) }
            p id={ (whose.id) "decision" } role="status" { span class={ "badge " (tone) } { (word) } " " (sentence) }
            @if let Some(blocked) = blocked { p { (plain(&blocked.reason_or_default())) } }
            @for request in &reviewed.requests {
                p { strong { (one_line(request.title(), 200)) } " " (plain(request.description())) }
            }
            dl.facts {
                @if let Some(hook) = hook { div { dt { "hook" } dd { code { (one_line(hook.as_str(), 80)) } } } }
                @if let Some(rules) = rules.filter(|rules| !rules.is_empty()) { div { dt { "rules" } dd { code { (named(&rules)) } } } }
                @if let Some(digest) = reviewed.receipt.judged { div { dt { "digest" } dd { code { (digest) } } } }
                div { dt { "took" } dd { (took(reviewed.receipt.elapsed)) } }
            }
            @if blocked.is_none() && reviewed.changed {
                p { "With these arguments:" }
                pre.exact tabindex="0" role="region" aria-label={ "Arguments as they would be" (whose.of) } { (plain(&text)) }
            }
            @if let Some(starts) = &tried.starts { (would_start(starts, whose.id)) }
        }
    }
}

fn named(rules: &[RuleId]) -> String {
    let rules: Vec<_> = rules.iter().map(|rule| one_line(rule.as_str(), 80)).collect();
    rules.join(", ")
}

fn steps(steps: &[Step], whose: &Whose) -> Markup {
    html! {
        section aria-labelledby={ (whose.id) "steps-title" } {
            h2 id={ (whose.id) "steps-title" } { "Hook by hook" (whose.of) }
            @if steps.is_empty() { p.empty { "No hook is about such a call." } }
            @else { ol.rows { @for (index, one) in steps.iter().enumerate() { (step(index.saturating_add(1), one, whose)) } } }
        }
    }
}

fn step(number: usize, step: &Step, whose: &Whose) -> Markup {
    let (tone, word) = said(step);
    let answer = step.detail.as_ref().map(|detail| &detail.said).filter(|said| !is_nothing(said));
    html! {
        li.row {
            div {
                p.first {
                    @if step.hook.mode.is_shadow() { span.badge title="It is asked, and its answer changes nothing." { "shadow" } " " }
                    span class={ "badge " (tone) } { (word) } " "
                    code { (one_line(step.hook.id.as_str(), 80)) }
                }
                @if let Some(failure) = &step.failure { p.bad { (one_line(failure.message.as_str(), 300)) } }
                p.meta {
                    span { (step.hook.point) }
                    span { "priority " (step.hook.priority) }
                    span { (one_line(step.hook.owner.as_ref(), 40)) }
                    span { (took(step.elapsed)) " of " (step.hook.budget.as_millis()) " ms" }
                    @if !step.would_by.is_empty() { span { "by " (named(&step.would_by)) } }
                    @if step.again { span { "again, over the final value" } }
                    @if step.passed_despite_failure { span { "went on despite the failure" } }
                    @if let Some(author) = &step.proposal_of { span { "of what " (one_line(author.as_str(), 80)) " proposes" } }
                    @for field in &step.refused { span { (field) " was not taken" } }
                }
                @if let Some(answer) = answer {
                    details {
                        summary { "What it answered" }
                        pre.exact tabindex="0" role="region" aria-label={ "Answer of step " (number) (whose.of) } { (cut(answer)) }
                    }
                }
            }
        }
    }
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// An answer, or its beginning.
fn cut(answer: &Value) -> String {
    let text = serde_json::to_string_pretty(answer).unwrap_or_default();
    let begun: String = text.chars().take(MOST_ANSWER).collect();
    let more = text.len().saturating_sub(begun.len());
    if more == 0 { plain(&begun) } else { format!("{}\n… {}", plain(&begun), bytes_more(more)) }
}

/// What a hook said; of one in shadow, what it would have done.
pub(crate) fn said(step: &Step) -> (&'static str, &'static str) {
    match step.would {
        Some(Would::Block) => return ("warning", "would block"),
        Some(Would::Ask) => return ("info", "would ask"),
        Some(Would::Modify) => return ("warning", "would rewrite"),
        Some(Would::Handle) => return ("info", "would handle"),
        None => {}
    }
    match step.said {
        Said::Nothing => ("good", "no objection"),
        Said::Pass => ("good", "pass"),
        Said::Rewrote => ("warning", "rewrote"),
        Said::Asked => ("info", "ask"),
        Said::Blocked => ("critical", "block"),
        Said::Handled => ("good", "handled"),
        Said::Failed => ("critical", "failed"),
    }
}

/// A short span of time.
pub(crate) fn took(span: Duration) -> String {
    let micros = span.as_micros();
    format!("{}.{:03} ms", micros / 1_000, micros % 1_000)
}
