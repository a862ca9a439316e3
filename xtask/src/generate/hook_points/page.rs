//! The page of one hook point.

use backstop_hooks::{FailurePolicy, Latch, PointId, PointInfo};
use serde_json::Value;

use super::table::fields;
use super::{budget, failure, mode, needs, sample};
use crate::error::Error;
use crate::generate::{MARK, pretty};

pub(crate) fn page(point: PointId) -> Result<String, Error> {
    let info = point.info();
    let sample = sample(point)?;
    let (event, outcome) = (point.event_schema(), point.outcome_schema());
    let mut text = format!("{MARK}# `{point}`\n\n{}.\n\n{}", capitalised(info.summary), facts(info));

    text.push_str("\n## Event\n\n");
    text.push_str(&fields(event.as_value(), |_| None));
    text.push_str("\nIn JSON the event also has [`context`](index.md#context).\n");
    text.push_str(&example(sample.get("event"))?);

    text.push_str("\n## Outcome\n\n");
    if info.fields.is_empty() {
        text.push_str("Hooks here only watch: the answer is `null` or `{}`.\n");
        return Ok(text);
    }
    let latch =
        |name: &str| info.fields.iter().find(|field| field.name == name).map(|field| merging(field.latch));
    text.push_str(&fields(outcome.as_value(), latch));
    for outcome in sample.get("outcomes").and_then(Value::as_array).into_iter().flatten().take(1) {
        text.push_str(&example(Some(outcome))?);
    }
    text.push_str(&format!("\nJSON Schema of both: [{point}.schema.json]({point}.schema.json).\n"));
    Ok(text)
}

fn facts(info: &PointInfo) -> String {
    let mut facts = vec![
        format!("Mode: {}", mode(info)),
        format!("a hook that fails: {}", failure(info)),
        format!("default budget: {}", budget(info)),
    ];
    if info.fields.iter().any(|field| field.latch == Latch::Propose) {
        let default = match info.failure {
            FailurePolicy::Open => "optional",
            FailurePolicy::Closed | FailurePolicy::OpenIfUnreachable => "required",
        };
        facts.push(format!("rewrites: {default}, unless the hook says otherwise"));
    }
    if !needs(info).is_empty() {
        facts.push(format!("needs: {}", needs(info)));
    }
    if !info.aliases.is_empty() {
        facts.push(format!("older names: `{}`", info.aliases.join("`, `")));
    }
    let mut text = format!("{}.\n", facts.join("; "));
    if let Some(instead) = info.deprecated {
        text.push_str(&format!("\n> Deprecated: {instead}.\n"));
    }
    text.push_str(&super::hosts::of_point(info.id, &backstop_cli::all_hosts()));
    text
}

/// How several answers meet, in a few words.
fn merging(latch: Latch) -> &'static str {
    match latch {
        Latch::Block => "once true it stays",
        Latch::BlockReason => "of the hook that blocked first",
        Latch::First => "the first answer wins",
        Latch::Propose => {
            "each hook sees it as it stands and may replace it; those that judged an older one judge the new one"
        }
        Latch::Narrow => "intersection",
        Latch::Append => "joined by a blank line",
        Latch::AnyOf => "the first that is there",
        Latch::Collect => "all are kept",
        Latch::PerKey => "key by key, a later hook wins",
        Latch::Strongest => "the strongest wins",
    }
}

fn example(value: Option<&Value>) -> Result<String, Error> {
    match value {
        Some(value) => Ok(format!(
            "\n<details><summary>Example</summary>\n\n```json\n{}```\n\n</details>\n",
            pretty(value)?
        )),
        None => Ok(String::new()),
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
