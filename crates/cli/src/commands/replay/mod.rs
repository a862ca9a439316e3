//! `backstop replay`: judges what is on the tape again, under another configuration.
//!
//! The law: *a replay reaches nobody*. Nothing runs, no human is asked, no grant counts, nothing is recorded, and hooks that would start a
//! program or ask a server are not asked. What the hooks make of a call is compared with what they made of it when it was recorded; what
//! the human said then is no part of either.
//!
//! Limits: what was decided by a hook that is not asked here, and would be milder without it, is counted as not known; so is what seems the
//! same and is not stopped, where there are hooks that are not asked, or masked secrets, which are not judged as secrets. What a hook reads
//! besides the call (a script, a link) may be different by now; hooks that count over time start from nothing; files of repositories, which
//! can be stricter, are not read.

mod policy;

use std::collections::BTreeMap;

use backstop::store::Timestamp;
use backstop::tape::{CallDecision, CallJudgement, RecordedCall};
use serde::Serialize;
use serde_json::Value;

pub(super) use self::policy::{Compared, Policy};
use super::tape::{Reading, Span, in_words, time};
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Paint, Style, plain};
use crate::session::Surroundings;

/// The most different changes that are told apart; the calls of all others are counted.
const MOST_CHANGES: usize = 1000;

/// What is to be judged again.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) span: Span,
    /// The most examples of each change.
    pub(crate) examples: usize,
    pub(crate) fail_on: Option<FailOn>,
}

/// Which change is a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailOn {
    /// A call that would be judged more mildly.
    Looser,
    /// A call that would be judged more strictly.
    Stricter,
    /// Any other judgement.
    Any,
}

/// A change: how calls were judged, how they would be, and by whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
struct Change {
    was: CallDecision,
    now: CallDecision,
    /// Who decides: the hook that judges more strictly, then or now.
    #[serde(skip_serializing_if = "Option::is_none")]
    hook: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rules: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Changed {
    #[serde(flatten)]
    change: Change,
    calls: u64,
    /// Of these, so many hold masked secrets, and may be judged otherwise for that alone.
    masked: u64,
    examples: Vec<Example>,
}

/// A recorded call in short. `backstop tape show` has all of it under the same receipt.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Example {
    at: Timestamp,
    receipt: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<String>,
    call: String,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    calls: u64,
    same: u64,
    stricter: u64,
    looser: u64,
    /// Decided by hooks that are not asked here.
    unknown: u64,
    /// Seem the same, with secrets in them that are masked.
    masked: u64,
    /// Seem the same to the hooks that are asked here, and others are not.
    unasked: u64,
    /// Recordings that are no calls any more, or are without their arguments, and were not judged.
    unjudged: u64,
    /// Hooks and plugins that are not asked.
    not_asked: Vec<String>,
    changes: Vec<Changed>,
    /// Calls whose changes are not told apart, because there are too many.
    others: u64,
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let Settings { span, examples, fail_on } = settings;
    let loaded = surroundings.load_operators()?.loaded;
    let mut reading = Reading::open(&span, &loaded, surroundings)?;
    let policy = Policy::build(loaded, surroundings).await?;
    let mut tally = Tally { examples, ..Tally::default() };
    while let Some(calls) = reading.next() {
        for call in calls {
            tally.add(&policy, &call).await;
        }
    }
    let mut report = tally.report();
    report.not_asked = policy.not_asked().names().map(str::to_owned).collect();
    policy.shut_down().await;
    let ended = reading.end()?;
    print(&report, surroundings)?;
    let fails = match fail_on {
        None => false,
        Some(FailOn::Looser) => report.looser > 0,
        Some(FailOn::Stricter) => report.stricter > 0,
        Some(FailOn::Any) => report.looser + report.stricter > 0,
    };
    let Report { calls, unknown, masked, unasked, unjudged, .. } = report;
    // Of no calls at all, nothing was found out.
    let is_open = calls == 0 || unknown + masked + unasked + unjudged > 0;
    Ok(match (fails, is_open) {
        (true, _) => Exit::Unexpected,
        (false, true) => Exit::Incomplete,
        (false, false) => ended,
    })
}

#[derive(Default)]
struct Tally {
    report: Report,
    changes: BTreeMap<Change, Changed>,
    /// The most examples of each change.
    examples: usize,
}

impl Tally {
    async fn add(&mut self, policy: &Policy, call: &RecordedCall) {
        self.report.calls += 1;
        let Some(now) = policy.judge(call).await else {
            self.report.unjudged += 1;
            return;
        };
        match policy.compare(call, &now) {
            Compared::Same => self.report.same += 1,
            Compared::Unknown => self.report.unknown += 1,
            Compared::Masked => self.report.masked += 1,
            Compared::Unasked => self.report.unasked += 1,
            Compared::Stricter => {
                self.report.stricter += 1;
                self.change(Change::of(&call.judgement, &now, &now), call);
            }
            Compared::Looser => {
                self.report.looser += 1;
                self.change(Change::of(&call.judgement, &now, &call.judgement), call);
            }
        }
    }

    fn change(&mut self, change: Change, call: &RecordedCall) {
        if !self.changes.contains_key(&change) && self.changes.len() >= MOST_CHANGES {
            self.report.others += 1;
            return;
        }
        let begun = Changed { change: change.clone(), calls: 0, masked: 0, examples: Vec::new() };
        let changed = self.changes.entry(change).or_insert(begun);
        changed.calls += 1;
        changed.masked += u64::from(call.masked > 0);
        if changed.examples.len() < self.examples {
            changed.examples.push(Example::of(call));
        }
    }

    fn report(self) -> Report {
        let mut changes: Vec<Changed> = self.changes.into_values().collect();
        // What loosens first, and of it what is most frequent.
        changes.sort_by_key(|changed| {
            (changed.change.now > changed.change.was, std::cmp::Reverse(changed.calls))
        });
        Report { changes, ..self.report }
    }
}

impl Change {
    /// The change from one judgement to another, by the one that is `stricter`.
    fn of(was: &CallJudgement, now: &CallJudgement, stricter: &CallJudgement) -> Self {
        Self {
            was: was.decision,
            now: now.decision,
            hook: stricter.hook.as_ref().map(ToString::to_string),
            rules: stricter.rules.iter().map(ToString::to_string).collect(),
        }
    }
}

impl Example {
    pub(super) fn of(call: &RecordedCall) -> Self {
        let workspace = call.context.get("workspaceDir").and_then(Value::as_str).map(str::to_owned);
        Self { at: time(call), receipt: call.receipt.clone(), workspace, call: in_words(call) }
    }

    pub(super) fn line(&self) -> String {
        let folder =
            self.workspace.as_ref().map(|folder| format!("  in {}", plain(folder))).unwrap_or_default();
        format!("  {}  {}{folder}\n", self.at, self.call)
    }
}

fn print(report: &Report, surroundings: &Surroundings) -> Result<(), Error> {
    let output = &surroundings.output;
    if output.is_json() {
        return Ok(output.json(report)?);
    }
    let paint = output.paint();
    let mut text = format!(
        "{} calls: {} as they were, {} stricter, {} looser\n",
        report.calls, report.same, report.stricter, report.looser
    );
    let mut add = |count: u64, told: &str| {
        if count > 0 {
            text.push_str(&format!("{count} {told}\n"));
        }
    };
    add(report.unknown, "were decided by hooks that are not asked here");
    add(report.masked, "seem the same, but hold masked secrets, about which hooks might say more");
    add(report.unasked, "seem the same to the hooks that are asked here; the others might be stricter");
    add(report.unjudged, "are without their arguments, or no calls any more, and were not judged");
    add(report.others, "changed in yet other ways");
    if !report.not_asked.is_empty() {
        text.push_str(&format!("not asked: {}\n", plain(&report.not_asked.join(", "))));
    }
    for changed in &report.changes {
        text.push_str(&changed.text(paint));
    }
    Ok(output.text(&text)?)
}

impl Changed {
    fn text(&self, paint: Paint) -> String {
        let Change { was, now, hook, rules } = &self.change;
        let style = if now < was { Style::Bad } else { Style::Notice };
        let calls = if self.calls == 1 { "call" } else { "calls" };
        let mut text = format!(
            "\n{} {} {calls}",
            paint.with(style, format_args!("{} -> {}", was.as_str(), now.as_str())),
            self.calls
        );
        if let Some(hook) = hook {
            text.push_str(&format!(" by {}", plain(hook)));
        }
        if !rules.is_empty() {
            text.push_str(&format!(" ({})", plain(&rules.join(", "))));
        }
        if self.masked > 0 {
            text.push_str(&format!("; {} of them with masked secrets", self.masked));
        }
        text.push('\n');
        for example in &self.examples {
            text.push_str(&example.line());
        }
        text
    }
}
