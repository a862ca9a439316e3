//! The reference of the hook points: an index, and for each point a page and the schemas of its event and
//! its outcome. The examples are the samples that the tests of the contract hold to be exact.

mod hosts;
mod page;
mod table;

use backstop_hooks::{FailurePolicy, Family, HostProfile, Mode, PointId, PointInfo};
use serde_json::{Value, json};

use crate::error::Error;
use crate::generate::{Generated, MARK, pretty};

const FOLDER: &str = "docs/reference/hook-points";

pub(crate) fn files() -> Result<Vec<Generated>, Error> {
    let mut files = vec![Generated::new(format!("{FOLDER}/index.md"), index())];
    for point in PointId::ALL {
        let name = point.name();
        files.push(Generated::new(format!("{FOLDER}/{name}.md"), page::page(*point)?));
        let schema = json!({ "event": point.event_schema(), "outcome": point.outcome_schema() });
        files.push(Generated::new(format!("{FOLDER}/{name}.schema.json"), pretty(&schema)?));
    }
    Ok(files)
}

const INTRODUCTION: &str = "\
# Hook points

At a hook point, hooks are given an *event* they can only read, and answer with the point's *outcome* or with nothing.
A field that is missing is no opinion; `\"\"`, `[]`, `{}` and `false` are answers; `null` in place of a value and unknown
fields make the answer malformed, which is a failure of the hook.

- **Mode.** *decide*: one after another, each sees the value as the one before left it. *sync*: the same on the write path
  of the transcript, without waiting. *claim*: one after another until one says `handled`. *observe*: concurrently, on
  the final value; the answer is empty.
- **Failure.** *closed*: a hook that fails blocks. *open*: it is recorded and skipped. The operator can set `on_failure`
  for one hook.
- **Fired by.** A *host* turns the outside world into events: the agent, the LLM proxy, the adapter of a coding agent, a
  program that embeds the engine and fires whatever it calls. A hook at a point that no host of its process fires is an
  error, and so is one that can only say what none of them honours.
- **Needs.** *conversation access*: plugins that are not built in need `allowConversationAccess: true`. *prompt
  injection*: switched off by `allowPromptInjection: false`.

";

fn index() -> String {
    let hosts = backstop_cli::all_hosts();
    let mut text = format!("{MARK}{INTRODUCTION}");
    for (family, title) in [
        (Family::Model, "Around model calls"),
        (Family::Tools, "Around tools"),
        (Family::Messages, "Messages and delivery"),
        (Family::Lifecycle, "Sessions, sub-agents, lifecycle"),
    ] {
        text.push_str(&format!("## {title}\n\n| point | for | mode | failure | budget | needs | fired by |\n| --- | --- | --- | --- | --- | --- | --- |\n"));
        for point in PointId::ALL.iter().map(|point| point.info()).filter(|point| point.family == family) {
            text.push_str(&row(point, &hosts));
        }
        text.push('\n');
    }
    text.push_str(&hosts::section(&hosts));
    text.push_str(CONTEXT);
    text.push_str(&table::fields(backstop_hooks::points::context_schema().as_value(), |_| None));
    text
}

const CONTEXT: &str = "\
## Context

In its JSON form every event has `context`: what is the same for all hooks of a call, as far as the host knows it, and
under `pluginConfig` the configuration of the hook's owner.

";

fn row(point: &PointInfo, hosts: &[HostProfile]) -> String {
    let name = point.name;
    let link = format!("[`{name}`]({name}.md)");
    let summary = point.summary;
    let old = if point.deprecated.is_some() { " (deprecated)" } else { "" };
    let (mode, failure, budget) = (mode(point), failure(point), budget(point));
    let fired = hosts::fired_by(point.id, hosts);
    format!("| {link} | {summary}{old} | {mode} | {failure} | {budget} | {} | {fired} |\n", needs(point))
}

fn mode(point: &PointInfo) -> &'static str {
    match point.mode {
        Mode::Decide => "decide",
        Mode::Observe => "observe",
        Mode::Claim => "claim",
    }
}

fn failure(point: &PointInfo) -> &'static str {
    match point.failure {
        FailurePolicy::Closed => "closed",
        FailurePolicy::Open => "open",
        FailurePolicy::OpenIfUnreachable => "open if unreachable",
    }
}

fn budget(point: &PointInfo) -> String {
    format!("{} s", point.budget().as_secs_f64())
}

fn needs(point: &PointInfo) -> String {
    let needs =
        [(point.conversation_access, "conversation access"), (point.prompt_injection, "prompt injection")];
    needs.iter().filter(|(needed, _)| *needed).map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
}

/// The sample of a point, without the mark that the tests look for.
fn sample(point: PointId) -> Result<Value, Error> {
    let path = format!("crates/hooks/samples/{point}.json");
    let text = crate::workspace::read(&path)?.replace("CONFIDENTIAL ", "");
    serde_json::from_str(&text).map_err(|source| Error::Json { what: path, source })
}
