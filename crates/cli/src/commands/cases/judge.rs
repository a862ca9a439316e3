//! Judging one case, and comparing what came of it with what was expected.

use std::time::Duration;

use backstop::Backstop;
use backstop::engine::{Blocked, JsonDispatch, Receipt, Reviewed, Said, Verdict as Ended};
use backstop::hooks::{ApprovalRequest, CallContext, HookId, Reason};
use serde::Serialize;
use serde_json::{Map, Value};

use super::call::Call;
use super::expect::{Expect, Verdict};

/// What came of a call.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    pub(super) verdict: Verdict,
    /// The hooks that decided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) hooks: Vec<String>,
    /// The rules that they name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) rules: Vec<String>,
    /// Their words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) args: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) outcome: Option<Value>,
    #[serde(skip)]
    pub(super) elapsed: Duration,
}

/// Why a case could not be judged.
#[derive(Debug)]
pub(super) struct Unjudged(pub(super) String);

/// How a case ended.
#[derive(Debug)]
pub(super) enum Judged {
    /// As expected.
    Passed(Found),
    /// Otherwise, and how.
    Failed(Found, Vec<String>),
    /// Nobody can say.
    Unjudged(String),
}

/// Lets the hooks judge a call, without running it.
pub(super) async fn judge(policy: &Backstop, call: &Call, context: &CallContext) -> Result<Found, Unjudged> {
    let engine = policy.engine();
    let stands = match call {
        Call::Tool(_) => engine.has_tool_gates(),
        Call::Event(point, _) => engine.registry().is_occupied(*point),
    };
    if !stands {
        let point = call.point();
        return Err(Unjudged(format!(
            "no hook stands at `{point}` in this configuration, so the case can't fail"
        )));
    }
    match call {
        Call::Tool(event) => {
            let reviewed = engine.review_tool_call(event.clone(), context, false).await;
            no_failure(&reviewed.receipt)?;
            Ok(of_tool_call(&reviewed))
        }
        Call::Event(point, event) => {
            let judged = engine.dispatch_json(*point, event.clone(), context, true).await;
            let judged = judged.map_err(|error| Unjudged(error.to_string()))?;
            no_failure(&judged.receipt)?;
            of_event(judged)
        }
    }
}

/// INVARIANT (a failure is no judgement): a hook that can't be reached blocks, and a case that expects a block must not pass by
/// that.
fn no_failure(receipt: &Receipt) -> Result<(), Unjudged> {
    let failed = receipt.steps.iter().find_map(|step| Some((&step.hook.id, step.failure.as_ref()?)));
    match failed {
        Some((hook, failure)) => Err(Unjudged(format!("hook `{hook}` failed: {failure}"))),
        None => Ok(()),
    }
}

fn of_tool_call(reviewed: &Reviewed) -> Found {
    let args = Some(reviewed.event.params.to_value());
    let elapsed = reviewed.receipt.elapsed;
    if let Some(blocked) = &reviewed.blocked {
        return Found { args: None, ..stopped(blocked, elapsed) };
    }
    let asked = &reviewed.requests;
    if !asked.is_empty() {
        let grounds = asked.iter().flat_map(ApprovalRequest::rests_on);
        let words = asked.iter().map(|request| format!("{}: {}", request.title(), request.description()));
        return Found {
            verdict: Verdict::Ask,
            hooks: texts(asked.iter().filter_map(ApprovalRequest::hook)),
            rules: grounds.map(|ground| ground.rule.to_string()).collect(),
            reason: Some(words.collect::<Vec<_>>().join("\n")),
            args,
            outcome: None,
            elapsed,
        };
    }
    let verdict = if reviewed.changed { Verdict::Modify } else { Verdict::Allow };
    let hooks = writers(&reviewed.receipt);
    Found { verdict, hooks, rules: Vec::new(), reason: None, args, outcome: None, elapsed }
}

fn of_event(judged: JsonDispatch) -> Result<Found, Unjudged> {
    let elapsed = judged.receipt.elapsed;
    if let Some(blocked) = &judged.blocked {
        return Ok(Found { outcome: judged.outcome, ..stopped(blocked, elapsed) });
    }
    let (verdict, hooks) = match judged.receipt.verdict {
        Ended::Handled => (Verdict::Handled, said(&judged.receipt, Said::Handled)),
        Ended::Modify => (Verdict::Modify, writers(&judged.receipt)),
        // No host is there to whom it would be left.
        Ended::Block | Ended::Ask => (Verdict::Block, said(&judged.receipt, Said::Blocked)),
        Ended::Pass | Ended::Observed => (Verdict::Allow, Vec::new()),
        // Nobody waited for the end of it, so nobody knows.
        Ended::Dropped => return Err(Unjudged("the hooks were not waited for".to_owned())),
    };
    let outcome = judged.outcome;
    Ok(Found { verdict, hooks, rules: Vec::new(), reason: None, args: None, outcome, elapsed })
}

fn stopped(blocked: &Blocked, elapsed: Duration) -> Found {
    let rules = blocked.reason.iter().flat_map(Reason::rules);
    Found {
        verdict: Verdict::Block,
        hooks: texts(blocked.hook.iter()),
        rules: rules.map(ToString::to_string).collect(),
        reason: Some(blocked.reason_or_default().as_str().to_owned()),
        args: None,
        outcome: None,
        elapsed,
    }
}

fn writers(receipt: &Receipt) -> Vec<String> {
    said(receipt, Said::Rewrote)
}

/// The hooks that said so of the value itself, and not of what another hook proposes.
fn said(receipt: &Receipt, what: Said) -> Vec<String> {
    let steps = receipt.steps.iter().filter(|step| step.said == what && step.proposal_of.is_none());
    texts(steps.map(|step| &step.hook.id))
}

fn texts<'a>(ids: impl Iterator<Item = &'a HookId>) -> Vec<String> {
    let mut texts: Vec<String> = ids.map(ToString::to_string).collect();
    texts.dedup();
    texts
}

impl Judged {
    pub(super) fn of(expect: &Expect, found: Result<Found, Unjudged>) -> Self {
        match found {
            Err(Unjudged(why)) => Self::Unjudged(why),
            Ok(found) => match differences(expect, &found) {
                differences if differences.is_empty() => Self::Passed(found),
                differences => Self::Failed(found, differences),
            },
        }
    }
}

/// Returns where what came of a call is not what was expected.
fn differences(expect: &Expect, found: &Found) -> Vec<String> {
    if !expect.verdict.contains(&found.verdict) {
        // The rest follows from it.
        return vec![format!("it ends as {}", found.line())];
    }
    let mut differences = Vec::new();
    let by = |names: &[String]| match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    if let Some(hook) = expect.hook.as_ref().filter(|hook| !found.hooks.contains(hook)) {
        differences.push(format!("hook `{hook}` did not decide it: {}", by(&found.hooks)));
    }
    for rule in expect.rule.iter().filter(|rule| !found.rules.contains(rule)) {
        differences.push(format!("rule `{rule}` is not named: {}", by(&found.rules)));
    }
    if let Some(reason) = &expect.reason {
        let told = found.reason.as_deref().unwrap_or_default();
        if !told.contains(reason) {
            differences.push(format!("the reason is another one: {told}"));
        }
    }
    if let Some(args) = &expect.args
        && found.args.as_ref().and_then(Value::as_object) != Some(args)
    {
        let shown = found.args.as_ref().map_or_else(|| "none".to_owned(), Value::to_string);
        differences.push(format!("it would run with other arguments: {shown}"));
    }
    differences.extend(expect.outcome.iter().flat_map(|wanted| fields_of(wanted, found)));
    differences
}

fn fields_of(wanted: &Map<String, Value>, found: &Found) -> Vec<String> {
    let field = |key: &str| found.outcome.as_ref().and_then(|outcome| outcome.get(key));
    let other = wanted.iter().filter(|(key, value)| field(key) != Some(value));
    other
        .map(|(key, _)| match field(key) {
            Some(value) => format!("`{key}` of the outcome is {value}"),
            None => format!("the outcome has no `{key}`"),
        })
        .collect()
}

impl Found {
    /// Returns it in words.
    pub(super) fn line(&self) -> String {
        let mut line = self.verdict.as_str().to_owned();
        if !self.hooks.is_empty() {
            line.push_str(&format!(" by {}", self.hooks.join(", ")));
        }
        if !self.rules.is_empty() {
            line.push_str(&format!(", rule {}", self.rules.join(", ")));
        }
        if let Some(reason) = &self.reason {
            line.push_str(&format!(": {reason}"));
        }
        line
    }
}
