//! What a person puts in the place of a call: the forms for it, and what a changed call was before. What was given is shown to nobody: it
//! is typed by hand, and nothing in it is masked. A changed call is shown by the question about it, as any call.

use backstop_hooks::{Json, Substitute};
use backstop_store::{ApprovalRecord, MAX_RESULT_BYTES};
use maud::{Markup, html};
use serde_json::Value;

use crate::page::Viewer;
use crate::question::answer_form;
use crate::shown::{is_seen, one_line, plain};

/// The forms in which a person writes what stands in the place of the call.
pub(crate) fn forms(viewer: &Viewer, record: &ApprovalRecord) -> Markup {
    let offers = |substitute| record.request.substitutes.contains(&substitute);
    html! {
        @if offers(Substitute::Edit) {
            details #edit {
                summary { "Change the call …" }
                (answer_form(viewer, record, "edit", html! {
                    p.quiet { "The changed call is judged as a call of its own: what would be stopped is stopped. All arguments, as one JSON object." }
                    @if !record.request.masked_at.is_empty() {
                        p.note { "Masked secrets (" code { "*" } ") go back where the whole text around them stays as and where it is, in lists as long as they are; anywhere else a mask is refused." }
                    }
                    label for="edit-arguments" { "Arguments" }
                    textarea.exact #edit-arguments name="arguments" rows="12" spellcheck="false" autocomplete="off" required { (written(record.request.shown())) }
                    button.allow type="submit" { "Run the changed call" }
                }))
            }
        }
        @if offers(Substitute::Respond) {
            details #respond {
                summary { "Give the result …" }
                (answer_form(viewer, record, "respond", html! {
                    p.quiet { "The call does not run. The model is told this as its result." }
                    label for="respond-result" { "Result" }
                    textarea #respond-result name="result" rows="6" maxlength=(MAX_RESULT_BYTES) autocomplete="off" required {}
                    button.allow type="submit" { "Answer with this" }
                }))
            }
        }
    }
}

/// Of which call this one came, as far as that is kept.
pub(crate) fn origin(record: &ApprovalRecord) -> Markup {
    let request = &record.request;
    html! {
        @if let Some(parent) = &request.edited_from {
            section aria-labelledby="edited-title" {
                h2 #edited-title { "A changed call" }
                p { (one_line(&parent.by, 200)) " changed " a href={ "/-/console/approvals/" (parent.approval) } { "another call" } " into this one." }
                @if !parent.shown.is_null() { (compared(&pretty(&parent.shown), &pretty(request.shown()))) }
            }
        }
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// The arguments, to be changed: the same JSON, in which what can't be seen is spelled out as JSON does.
fn written(arguments: &Json) -> String {
    let mut text = String::new();
    for c in pretty(arguments).chars() {
        if c == '\n' || c == ' ' || is_seen(c) {
            text.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    text
}

/// With how many lines both begin.
fn same<'a>(was: impl Iterator<Item = &'a &'a str>, is: impl Iterator<Item = &'a &'a str>) -> usize {
    was.zip(is).take_while(|(was, is)| was == is).count()
}

/// Both texts, line by line: what was, what is, and what both have.
fn compared(before: &str, after: &str) -> Markup {
    let (was, is): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let head = same(was.iter(), is.iter());
    let ((head, was), (_, is)) = (was.split_at(head), is.split_at(head));
    let tail = same(was.iter().rev(), is.iter().rev());
    let (gone, rest) = was.split_at(was.len().saturating_sub(tail));
    let (come, _) = is.split_at(is.len().saturating_sub(tail));
    html! {
        div.diff #diff tabindex="0" role="region" aria-label="Before and after" {
            @for line in head { pre.exact { (plain(line)) } }
            @for line in gone { del { pre.exact { "- " (plain(line)) } } }
            @for line in come { ins { pre.exact { "+ " (plain(line)) } } }
            @for line in rest { pre.exact { (plain(line)) } }
        }
    }
}
