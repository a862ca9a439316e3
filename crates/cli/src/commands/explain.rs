//! `backstop explain`: the walk of one call through the hooks.

use backstop::engine::{FailureSource, Reviewed, Said, Step, Would};
use serde::Serialize;
use serde_json::{Value, json};

use super::check::Call;
use super::verdict::{Verdict, Word};
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Paint, Style, elapsed, one_line, plain};
use crate::session::Surroundings;

/// The longest value that is shown to a person.
const SHOWN_CHARS: usize = 160;

pub(super) async fn run(one: Call, surroundings: &Surroundings) -> Result<Exit, Error> {
    let backstop = surroundings.judge().await?;
    let call = surroundings.call_context(backstop.config())?;
    let event = one.event();
    let (tool, given) = (event.tool_name.clone(), event.params.to_value());
    let reviewed = backstop.engine().review_tool_call(event, &call, true).await;
    let walk: Vec<Stop<'_>> = reviewed.receipt.steps.iter().map(Stop::of).collect();
    let verdict = Verdict::of(&reviewed);
    let output = &surroundings.output;
    if output.is_json() {
        output.json(&json!({
            "tool": tool.canonical(),
            "calledAs": tool.called(),
            "args": given,
            "walk": walk,
            "verdict": verdict,
            "receipt": reviewed.receipt,
        }))?;
    } else {
        let mut text = format!("{} {}\n", plain(&tool.in_full()), shown(&given));
        for (index, stop) in walk.iter().enumerate() {
            text.push_str(&stop.text(index + 1, output.paint()));
        }
        text.push_str(&conclusion(&verdict, &reviewed, output.paint()));
        output.text(&text)?;
    }
    backstop.shut_down().await;
    Ok(Exit::Success)
}

/// One hook's part.
#[derive(Serialize)]
struct Stop<'a> {
    #[serde(flatten)]
    step: &'a Step,
    /// The arguments as the hook saw them.
    saw: Value,
    /// Its answer.
    answer: Value,
    changes: Vec<Change>,
}

impl<'a> Stop<'a> {
    fn of(step: &'a Step) -> Self {
        let (saw, answer) = match &step.detail {
            Some(detail) => (arguments(&detail.saw).cloned().unwrap_or_default(), detail.said.clone()),
            None => (Value::Null, Value::Null),
        };
        let mut changes = Vec::new();
        if let Some(after) = arguments(&answer) {
            compare("", &saw, after, &mut changes);
        }
        Self { step, saw, answer, changes }
    }

    fn text(&self, number: usize, paint: Paint) -> String {
        let meta = &self.step.hook;
        let (style, word) = said(self.step);
        let again = if self.step.again { ", again over the final value" } else { "" };
        let mut text = format!(
            "\n{number}. {} {}\n   {} · {}\n",
            paint.with(Style::Name, &meta.id),
            paint.with(
                Style::Faint,
                format!("({}, priority {}, owner {}{again})", meta.point, meta.priority, meta.owner)
            ),
            paint.with(style, word),
            elapsed(self.step.elapsed),
        );
        for line in self.remarks() {
            text.push_str(&format!("   {line}\n"));
        }
        for change in &self.changes {
            text.push_str(&format!("   {}\n", change.text(paint)));
        }
        text
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if let Some(failure) = &self.step.failure {
            remarks.push(plain(&failure.to_string()));
        }
        if self.step.passed_despite_failure {
            let whose = match self.step.hook.failure_source {
                FailureSource::Operator => "`hooks.on_failure` says so",
                FailureSource::Entry => "its entry in the configuration says so",
                FailureSource::Author => "the program that registered it says so",
                FailureSource::Default => "that is the default there",
            };
            remarks.push(format!("went on despite the failure: {whose}"));
        }
        if let Some(reason) = self.answer.get("blockReason").and_then(Value::as_str) {
            remarks.push(plain(reason));
        }
        if let Some(request) = self.answer.get("requireApproval") {
            for key in ["title", "description"] {
                let text = request.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
                remarks.extend(text.map(plain));
            }
        }
        if let Some(author) = &self.step.proposal_of {
            remarks.push(format!("said of the rewrite that {author} proposes, which is optional"));
        }
        for field in &self.step.refused {
            remarks.push(match &self.step.yielded_to {
                Some(objector) => format!("`{field}` was not taken: it is optional, and {objector} objects"),
                None => format!("`{field}` was not taken: an earlier hook had settled it"),
            });
        }
        for replaced in &self.step.replaced {
            remarks.push(format!("`{}` is no longer what {} set it to", replaced.key, replaced.of));
        }
        remarks
    }
}

fn said(step: &Step) -> (Style, &'static str) {
    match step.would {
        Some(Would::Block) if step.said == Said::Failed => {
            return (Style::Notice, "in shadow: failed, and would have blocked");
        }
        Some(Would::Block) => return (Style::Notice, "in shadow: would have blocked"),
        Some(Would::Ask) => return (Style::Notice, "in shadow: would have had a human asked"),
        Some(Would::Modify) => return (Style::Notice, "in shadow: would have rewritten the arguments"),
        Some(Would::Handle) => return (Style::Notice, "in shadow: would have taken it"),
        None if step.hook.mode.is_shadow() && step.said == Said::Failed => {
            return (Style::Notice, "in shadow: failed");
        }
        None => {}
    }
    match step.said {
        Said::Nothing => (Style::Good, "no objection"),
        Said::Pass => (Style::Good, "answered without a change"),
        Said::Rewrote => (Style::Notice, "rewrote the arguments"),
        Said::Asked => (Style::Notice, "wants a human to be asked"),
        Said::Blocked => (Style::Bad, "blocked"),
        Said::Handled => (Style::Good, "handled"),
        Said::Failed => (Style::Bad, "failed"),
    }
}

/// The arguments in an event or an answer: interceptors call them `args`, all others `params`.
fn arguments(value: &Value) -> Option<&Value> {
    value.get("args").or_else(|| value.get("params"))
}

fn conclusion(verdict: &Verdict, reviewed: &Reviewed, paint: Paint) -> String {
    let style = match verdict.decision {
        Word::Allow => Style::Good,
        Word::Ask | Word::Modify => Style::Notice,
        Word::Block => Style::Bad,
    };
    let mut text = format!(
        "\n{} {}",
        paint.with(Style::Name, "decision:"),
        paint.with(style, verdict.decision.as_str())
    );
    if let Some(hook) = &verdict.hook {
        text.push_str(&format!(" by {hook}"));
    }
    if let Some(reason) = &verdict.reason {
        text.push_str(&format!("\n  {}", plain(reason)));
    }
    if let (Some(params), true) = (&verdict.params, reviewed.changed) {
        text.push_str(&format!("\n  params: {}", shown(&params.to_value())));
    }
    let hooks = reviewed.receipt.steps.iter().filter(|step| !step.again).count();
    let noun = if hooks == 1 { "hook" } else { "hooks" };
    text.push_str(&format!("\n  {hooks} {noun}, {}", elapsed(reviewed.receipt.elapsed)));
    if let Some(digest) = reviewed.receipt.judged {
        text.push_str(&format!(", judged {}", digest.short()));
    }
    text.push('\n');
    text
}

/// A difference between two JSON values.
#[derive(Debug, PartialEq, Serialize)]
struct Change {
    /// JSON pointer.
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Value>,
}

impl Change {
    fn text(&self, paint: Paint) -> String {
        let at = plain(&self.at);
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => format!(
                "{at}: {} -> {}",
                paint.with(Style::Bad, shown(from)),
                paint.with(Style::Good, shown(to))
            ),
            (None, Some(to)) => format!("{at}: {}", paint.with(Style::Good, format!("+ {}", shown(to)))),
            (Some(from), None) => format!("{at}: {}", paint.with(Style::Bad, format!("- {}", shown(from)))),
            (None, None) => at,
        }
    }
}

fn shown(value: &Value) -> String {
    one_line(&value.to_string(), SHOWN_CHARS)
}

/// Collects the differences, going into objects; lists and scalars differ as a whole.
fn compare(at: &str, from: &Value, to: &Value, changes: &mut Vec<Change>) {
    let (Value::Object(before), Value::Object(after)) = (from, to) else {
        if from != to {
            changes.push(Change { at: at.to_owned(), from: Some(from.clone()), to: Some(to.clone()) });
        }
        return;
    };
    let step = |key: &str| format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
    for (key, value) in before {
        match after.get(key) {
            Some(next) => compare(&step(key), value, next, changes),
            None => changes.push(Change { at: step(key), from: Some(value.clone()), to: None }),
        }
    }
    for (key, value) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
        changes.push(Change { at: step(key), from: None, to: Some(value.clone()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_found_by_path() {
        let mut changes = Vec::new();
        let before = json!({"command": "a", "env": {"A/B": 1}, "gone": true});
        let after = json!({"command": "b", "env": {"A/B": 2}, "new": []});
        compare("", &before, &after, &mut changes);
        let paths: Vec<_> = changes.iter().map(|change| change.text(Paint::new(false))).collect();
        assert_eq!(paths, [r#"/command: "a" -> "b""#, "/env/A~1B: 1 -> 2", "/gone: - true", "/new: + []"]);
    }
}
