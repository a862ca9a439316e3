//! `backstop hooks`: which hooks stand where.

use std::sync::Arc;

use backstop::engine::{BudgetSource, HookMeta, Style as Written};
use backstop::hooks::{FailurePolicy, HostProfile, PointId, PointInfo};
use serde::Serialize;

use super::outages::{Outage, outages, outages_at, source_word};
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Paint, Style, elapsed, plain, table};
use crate::session::Surroundings;

/// Which hook points are shown.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Only this one.
    pub(crate) point: Option<PointId>,
    /// Also those without hooks.
    pub(crate) all: bool,
}

/// A hook point and its hooks, in running order.
#[derive(Serialize)]
struct At {
    #[serde(flatten)]
    point: &'static PointInfo,
    /// The hosts that fire the point, by name.
    hosts: Vec<&'static str>,
    hooks: Vec<Arc<HookMeta>>,
    /// Those in shadow beside which none counts.
    #[serde(skip)]
    lonely: Vec<Arc<HookMeta>>,
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let backstop = surroundings.judge().await?;
    let hooks = backstop.engine().registry().list();
    let lonely: Vec<Arc<HookMeta>> = backstop.engine().registry().snapshot().lonely_shadows().collect();
    let hosts = backstop::all_hosts();
    let chosen = |point: &&PointId| settings.point.is_none_or(|only| only == **point);
    let points: Vec<At> = PointId::ALL
        .iter()
        .filter(chosen)
        .map(|point| At {
            point: point.info(),
            hosts: hosts.iter().filter(|host| host.does_fire(*point)).map(HostProfile::name).collect(),
            hooks: hooks.iter().filter(|meta| meta.point == *point).cloned().collect(),
            lonely: lonely.iter().filter(|meta| meta.point == *point).cloned().collect(),
        })
        .filter(|at| settings.all || settings.point.is_some() || !at.hooks.is_empty())
        .collect();
    let output = &surroundings.output;
    if output.is_json() {
        output.json(&points)?;
    } else {
        let mut texts: Vec<String> = points.iter().map(|at| at.text(output.paint())).collect();
        let outages: String =
            outages(&backstop).iter().chain(&outages_at(&backstop)).map(Outage::line).collect();
        if settings.point.is_none() && !outages.is_empty() {
            texts.push(outages);
        }
        output.text(&texts.join("\n"))?;
    }
    backstop.shut_down().await;
    Ok(Exit::Success)
}

impl At {
    fn text(&self, paint: Paint) -> String {
        let info = self.point;
        let heading = paint.with(Style::Name, info.name);
        if self.hosts.is_empty() {
            return format!("{heading}\n  {}\n", paint.with(Style::Faint, "fired by no host yet"));
        }
        let mode = serde_json::to_value(info.mode).unwrap_or_default();
        let about = format!(
            "{}, {}, {}",
            mode.as_str().unwrap_or_default(),
            elapsed(info.budget()),
            failure(info.failure)
        );
        let fired =
            format!("  {}\n", paint.with(Style::Faint, format!("fired by {}", self.hosts.join(", "))));
        if self.hooks.is_empty() {
            return format!(
                "{heading} {}\n{fired}  no hooks\n",
                paint.with(Style::Faint, format!("({about})"))
            );
        }
        let heads = ["priority", "hook", "budget", "failure", "only for", "owner", "style"];
        let mut rows = vec![heads.map(str::to_owned).to_vec()];
        rows.extend(self.hooks.iter().map(|meta| row(meta)));
        let rows: String = table(&rows).lines().map(|line| format!("  {line}\n")).collect();
        let lonely = self.lonely.iter().map(|meta| {
            let id = plain(meta.id.as_str());
            format!(
                "  hint: {id}: it is in shadow, and beside it no hook counts, so a host need not ask it\n"
            )
        });
        let hints: String = self.hooks.iter().flat_map(|meta| hints(meta)).chain(lonely).collect();
        format!("{heading} {}\n{fired}{rows}{hints}", paint.with(Style::Faint, format!("({about})")))
    }
}

/// What looks like a typo in how a hook is configured, a line each.
pub(super) fn hints(meta: &HookMeta) -> impl Iterator<Item = String> {
    meta.hints.iter().map(|hint| format!("  hint: {}: {}\n", plain(meta.id.as_str()), plain(hint)))
}

fn row(meta: &HookMeta) -> Vec<String> {
    let tools = meta.tools.as_ref().map(|tools| format!("tools {tools}"));
    let agents = meta.agents.as_ref().map(|agents| format!("agents {agents}"));
    let shadow = meta.mode.is_shadow().then(|| "watching (shadow)".to_owned());
    let limits: Vec<String> = [shadow, tools, agents].into_iter().flatten().collect();
    let limits = if limits.is_empty() { "-".to_owned() } else { limits.join(", ") };
    let source = match meta.budget_source {
        BudgetSource::OperatorPoint => "timeouts",
        BudgetSource::OperatorOwner => "timeoutMs",
        BudgetSource::Author => "author",
        BudgetSource::Default => "default",
    };
    let style = match meta.style {
        Written::Typed => "typed",
        Written::Interceptor => "interceptor",
        Written::Verdict => "verdict",
        Written::Redactor => "redactor",
        Written::Foreign => "foreign",
    };
    vec![
        meta.priority.to_string(),
        plain(meta.id.as_str()),
        format!("{} ({source})", elapsed(meta.budget)),
        format!("{} ({})", failure(meta.on_failure), source_word(meta.failure_source)),
        plain(&limits),
        plain(meta.owner.as_str()),
        style.to_owned(),
    ]
}

fn failure(policy: FailurePolicy) -> &'static str {
    match policy {
        FailurePolicy::Closed => "blocks",
        FailurePolicy::Open => "goes on",
        FailurePolicy::OpenIfUnreachable => "goes on if unreachable",
    }
}
