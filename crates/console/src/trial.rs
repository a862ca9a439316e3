//! A call that somebody tries: what the hooks in force make of it, hook by hook.

use std::time::Duration;

use backstop_engine::{Reviewed, Said, Step, Would};
use backstop_hooks::RuleId;
use backstop_store::Starts;
use maud::{Markup, html};
use serde_json::Value;

use crate::page::{Place, Viewer, form_token, page};
use crate::question::would_start;
use crate::shown::{bytes_more, one_line, plain};

/// The most characters of an answer that is shown.
const MOST_ANSWER: usize = 4_000;

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
}

/// What came of it.
#[derive(Debug)]
pub struct Tried {
    /// What the hooks made of it, with [what each of them saw and said](backstop_engine::StepDetail).
    pub reviewed: Reviewed,
    /// What it would start, as it would run.
    pub starts: Option<Starts>,
}

/// A page on which calls are tried.
#[derive(Debug)]
pub struct Trial<'a> {
    /// What somebody typed.
    pub typed: &'a Typed,
    /// What came of it; an error says what can't be read.
    pub tried: Option<Result<Tried, String>>,
}

/// The page on which calls are tried.
pub fn trial(viewer: &Viewer, trial: &Trial<'_>) -> String {
    let content = html! {
        h1 { "Try" }
        p { "Judges a call by the hooks in force. Nothing runs, nobody is asked, and no grant answers. Files are not looked at: a path is taken as it is written, as if there were no links, and what only a file tells counts as unknown. In place a call may be judged otherwise." }
        (form(viewer, trial.typed))
        @match &trial.tried {
            None => {},
            Some(Err(why)) => p.alert role="alert" { (plain(why)) },
            Some(Ok(tried)) => { (decision(tried)) (steps(&tried.reviewed.receipt.steps)) }
        }
    };
    page(viewer, Place::Try, "Try", None, content)
}

fn form(viewer: &Viewer, typed: &Typed) -> Markup {
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
            button.primary type="submit" { "Judge it" }
        }
    }
}

fn decision(tried: &Tried) -> Markup {
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
        section aria-labelledby="decision-title" {
            h2 #decision-title { "Decision" }
            p #decision role="status" { span class={ "badge " (tone) } { (word) } " " (sentence) }
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
                pre.exact tabindex="0" role="region" aria-label="Arguments as they would be" { (plain(&text)) }
            }
            @if let Some(starts) = &tried.starts { (would_start(starts)) }
        }
    }
}

fn named(rules: &[RuleId]) -> String {
    let rules: Vec<_> = rules.iter().map(|rule| one_line(rule.as_str(), 80)).collect();
    rules.join(", ")
}

fn steps(steps: &[Step]) -> Markup {
    html! {
        section aria-labelledby="steps-title" {
            h2 #steps-title { "Hook by hook" }
            @if steps.is_empty() { p.empty { "No hook is about such a call." } }
            @else { ol.rows { @for (index, one) in steps.iter().enumerate() { (step(index.saturating_add(1), one)) } } }
        }
    }
}

fn step(number: usize, step: &Step) -> Markup {
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
                        pre.exact tabindex="0" role="region" aria-label={ "Answer of step " (number) } { (cut(answer)) }
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
fn said(step: &Step) -> (&'static str, &'static str) {
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
