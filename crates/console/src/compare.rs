//! What two configurations make of one call, side by side.
//!
//! The law: *what could not be compared is not the same*. Where a hook was not asked, failed, or wanted to see a file, that is said, and the whole is
//! then neither "the same" nor stricter nor looser, whatever the others say. A block is a block, whatever would have been said behind it: of a hook that
//! was not reached that is said, and the whole is "the same" if what stopped the call said the same under both.

use std::collections::BTreeSet;

use backstop_engine::{CallDecision, CallJudgement, HookMeta, Said, Step, Would};
use backstop_hooks::{HookId, PointId};
use maud::{Markup, html};

use crate::shown::one_line;
use crate::trial::{Tried, said};

/// The most rows of a comparison.
const MOST_ROWS: usize = 200;

/// How the other configuration compares with the one in force.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Compared {
    Same,
    Stricter,
    Looser,
    /// As strict, and not the same.
    Otherwise(&'static str),
    /// Nothing is to be compared, since the call was stopped before.
    Unreached,
    /// Can't be compared, because of this.
    Unknown(String),
}

impl Compared {
    const fn tone(&self) -> &'static str {
        match self {
            Self::Same => "good",
            Self::Stricter | Self::Otherwise(_) | Self::Unreached => "info",
            Self::Looser => "critical",
            Self::Unknown(_) => "warning",
        }
    }

    const fn word(&self) -> &'static str {
        match self {
            Self::Same => "the same",
            Self::Stricter => "stricter",
            Self::Looser => "looser",
            Self::Otherwise(_) => "otherwise",
            Self::Unreached => "not reached",
            Self::Unknown(_) => "can't be compared",
        }
    }

    fn why(&self) -> Option<String> {
        match self {
            Self::Same | Self::Stricter | Self::Looser => None,
            Self::Otherwise(why) => Some((*why).to_owned()),
            Self::Unreached => Some("because the call was stopped before it".to_owned()),
            Self::Unknown(why) => Some(format!("because {why}")),
        }
    }
}

/// What a hook did about the call under one of them.
#[derive(Clone, Copy)]
enum Part<'a> {
    Said(&'a Step),
    /// It stands there, and is not about this call.
    Idle,
    /// It stands there, and the call was stopped before it.
    Unreached,
    /// It does not stand there.
    Absent,
    /// It is not asked for a trial.
    Unasked(&'a str),
}

struct Line<'a> {
    hook: &'a str,
    point: Option<PointId>,
    left: Part<'a>,
    right: Part<'a>,
}

/// Both, with what differs.
pub(crate) fn compared(now: &Tried, other: &Tried) -> Markup {
    let lines = lines(now, other);
    let (left, right) = (CallJudgement::of(&now.reviewed), CallJudgement::of(&other.reviewed));
    let whole = whole(now, other, &lines);
    let more = lines.len().saturating_sub(MOST_ROWS);
    html! {
        section aria-labelledby="compared-title" {
            h2 #compared-title { "Compared" }
            p #compared role="status" {
                span class={ "badge " (whole.tone()) } { (whole.word()) } " "
                "In force: " strong { (left.decision.as_str()) } ". The other configuration: " strong { (right.decision.as_str()) }
                @if matches!(whole, Compared::Unknown(_)) { ", by those of its hooks that were asked" } "."
            }
            @if let Some(why) = whole.why() { p { (one_line(&capital(&why), 2_000)) "." } }
            @if !other.variables.is_empty() {
                p { "Nobody looked at the variables that it names: " code { (one_line(&other.variables.join(", "), 1_000)) } "." }
            }
            p.quiet { "Not compared is who is asked, for how long, and what silence means." }
            div.scroll tabindex="0" role="region" aria-label="Table of hooks under both configurations" {
                table {
                    thead { tr {
                        th scope="col" { "Hook" } th scope="col" { "In force" } th scope="col" { "The other" } th scope="col" { "Difference" }
                    } }
                    tbody { @for line in lines.iter().take(MOST_ROWS) { (row(line)) } }
                }
            }
            @if more > 0 { p.quiet { "and " (more) " hooks more" } }
        }
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

fn row(line: &Line<'_>) -> Markup {
    let compared = difference(line);
    html! {
        tr.row {
            th scope="row" { code { (one_line(line.hook, 80)) } @if let Some(point) = line.point { " " span.quiet { (point) } } }
            td { (part(line.left)) }
            td { (part(line.right)) }
            td {
                span class={ "badge " (compared.tone()) } { (compared.word()) }
                @if let Some(why) = compared.why() { " " (one_line(&why, 300)) }
            }
        }
    }
}

fn part(part: Part<'_>) -> Markup {
    match part {
        Part::Said(step) => {
            let (tone, word) = said(step);
            html! { span class={ "badge " (tone) } { (word) } }
        }
        Part::Idle => html! { "not about this call" },
        Part::Unreached => html! { "not reached" },
        Part::Absent => html! { "not there" },
        Part::Unasked(_) => html! { "not asked" },
    }
}

/// One line for each hook at a point: those of the configuration in force in its order, then what only the other one has.
fn lines<'a>(now: &'a Tried, other: &'a Tried) -> Vec<Line<'a>> {
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut lines = Vec::new();
    let mut named: BTreeSet<&str> = BTreeSet::new();
    let of = |tried: &'a Tried| tried.reviewed.receipt.steps.iter().map(|step| &*step.hook);
    let standing =
        |tried: &'a Tried| tried.hooks.iter().map(|hook| &**hook).filter(|hook| is_gate(hook.point));
    for hook in of(now).chain(standing(now)).chain(of(other)).chain(standing(other)) {
        if seen.insert((hook.id.as_str(), hook.point.name())) {
            let unasked = unasked(other, &hook.id);
            named.extend(unasked.map(|(id, _)| id));
            let right = unasked.map_or_else(|| part_of(other, hook), |(_, why)| Part::Unasked(why));
            let left = part_of(now, hook);
            // Of what neither is about, nothing is to be said.
            if !matches!((left, right), (Part::Idle, Part::Idle | Part::Absent) | (Part::Absent, Part::Idle))
            {
                lines.push(Line { hook: hook.id.as_str(), point: Some(hook.point), left, right });
            }
        }
    }
    let rest = other.unasked.iter().filter(|(id, _)| !named.contains(id.as_str()));
    lines.extend(rest.map(|(id, why)| Line {
        hook: id.as_str(),
        point: None,
        left: Part::Absent,
        right: Part::Unasked(why),
    }));
    lines
}

/// Whether calls of tools are judged at a point.
const fn is_gate(point: PointId) -> bool {
    matches!(point, PointId::TrustedToolPolicy | PointId::ToolBefore | PointId::BeforeToolCall)
}

/// Why a hook is not asked there, with the name by which that is known.
fn unasked<'a>(tried: &'a Tried, hook: &HookId) -> Option<(&'a str, &'a str)> {
    // A program with several hooks has a name for each, and so has a plugin.
    tried.unasked.iter().find(|(id, _)| hook.is_of(id)).map(|(id, why)| (id.as_str(), *why))
}

fn part_of<'a>(tried: &'a Tried, hook: &HookMeta) -> Part<'a> {
    let is_it = |step: &&Step| step.hook.id == hook.id && step.hook.point == hook.point;
    // A gate may judge twice: the strictest counts.
    let strictest = tried.reviewed.receipt.steps.iter().filter(is_it).max_by_key(|step| rank(step));
    let stands = || tried.hooks.iter().any(|one| one.id == hook.id && one.point == hook.point);
    match strictest {
        Some(step) => Part::Said(step),
        None if !stands() => Part::Absent,
        None if tried.reviewed.blocked.is_some() => Part::Unreached,
        None => Part::Idle,
    }
}

/// How strict it is, what it says; of a hook in shadow, what counts is nothing.
fn rank(step: &Step) -> u8 {
    match step.said {
        Said::Nothing | Said::Pass | Said::Handled => 0,
        Said::Rewrote => 1,
        Said::Asked => 2,
        Said::Blocked => 3,
        Said::Failed => 4,
    }
}

fn difference(line: &Line<'_>) -> Compared {
    let strict = |part: Part<'_>| match part {
        Part::Said(step) => Some(rank(step)),
        Part::Idle | Part::Absent => Some(0),
        Part::Unreached | Part::Unasked(_) => None,
    };
    let failed = |part: Part<'_>| matches!(part, Part::Said(step) if step.said == Said::Failed);
    if failed(line.left) || failed(line.right) {
        return Compared::Unknown("it failed".to_owned());
    }
    // Why it was not asked says more than that it was not reached elsewhere.
    if let (Part::Unasked(why), _) | (_, Part::Unasked(why)) = (line.right, line.left) {
        return Compared::Unknown(why.to_owned());
    }
    let (Some(right), Some(left)) = (strict(line.right), strict(line.left)) else {
        return Compared::Unreached;
    };
    match right.cmp(&left) {
        std::cmp::Ordering::Greater => Compared::Stricter,
        std::cmp::Ordering::Less => Compared::Looser,
        std::cmp::Ordering::Equal => match (line.left, line.right) {
            (Part::Said(one), Part::Said(other)) => alike(one, other),
            (Part::Absent, _) => Compared::Otherwise("only the other one has it"),
            (_, Part::Absent) => Compared::Otherwise("only the one in force has it"),
            _ => Compared::Same,
        },
    }
}

/// Whether two answers that are as strict are the same.
fn alike(one: &Step, other: &Step) -> Compared {
    let answer = |step: &Step| step.detail.as_ref().map(|detail| detail.said.clone());
    match (one.would.map(Would::as_str), other.would.map(Would::as_str)) {
        (one, other) if one != other => {
            return Compared::Otherwise("in shadow, where it changes nothing, it would do something else");
        }
        _ => {}
    }
    if one.hook.mode.is_shadow() != other.hook.mode.is_shadow() {
        return Compared::Otherwise("one of them has it in shadow");
    }
    if rank(one) > 0 && answer(one) != answer(other) {
        return Compared::Otherwise("its answer is another one");
    }
    Compared::Same
}

/// How the whole compares.
fn whole(now: &Tried, other: &Tried, lines: &[Line<'_>]) -> Compared {
    let mut open: Vec<String> = lines
        .iter()
        .filter_map(|line| match (line.left, line.right) {
            (_, Part::Unasked(why)) => Some(format!("`{}` was not asked: {why}", line.hook)),
            (Part::Said(step), _) | (_, Part::Said(step)) if step.said == Said::Failed => {
                Some(format!("`{}` failed", line.hook))
            }
            _ => None,
        })
        .collect();
    if now.wants_files || other.wants_files {
        open.push("a hook wanted to see a file, and no file is looked at".to_owned());
    }
    if !open.is_empty() {
        return Compared::Unknown(open.join("; "));
    }
    let (left, right) = (CallJudgement::of(&now.reviewed), CallJudgement::of(&other.reviewed));
    match right.decision.cmp(&left.decision) {
        std::cmp::Ordering::Greater => Compared::Stricter,
        std::cmp::Ordering::Less => Compared::Looser,
        std::cmp::Ordering::Equal if now.reviewed.event.params != other.reviewed.event.params => {
            Compared::Otherwise("With other arguments")
        }
        std::cmp::Ordering::Equal if left.severity != right.severity => {
            Compared::Otherwise("The question is graver under one of them")
        }
        std::cmp::Ordering::Equal if left.decision >= CallDecision::Ask && left != right => {
            Compared::Otherwise("By other hooks or rules")
        }
        std::cmp::Ordering::Equal if now.reviewed.blocked != other.reviewed.blocked => {
            Compared::Otherwise("By another answer")
        }
        std::cmp::Ordering::Equal => Compared::Same,
    }
}
