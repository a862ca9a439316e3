//! What it means when a webhook, a program or a server can't be asked, for each one of the configuration.

use std::sync::Arc;

use backstop::Backstop;
use backstop::engine::{FailureSource, HookMeta};
use backstop::hooks::{FailurePolicy, Mode};
use serde::Serialize;

use crate::output::plain;

/// A hook that is not in this process, and its outage.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outage {
    #[serde(rename = "type")]
    kind: &'static str,
    hook: String,
    at: String,
    outage: Meaning,
    source: FailureSource,
}

/// What an outage means for the call.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Meaning {
    /// It is blocked.
    Blocks,
    /// It goes on, and its receipt says so.
    LetsThrough,
    /// Nothing: it only watches, or is in shadow.
    Nothing,
    /// It is not asked: nobody here fires its point.
    Waits,
}

/// The webhooks of the configuration in force, in running order.
pub(crate) fn outages(backstop: &Backstop) -> Vec<Outage> {
    let registered = backstop.engine().registry().list();
    let chained = backstop.config().config.hooks.chained();
    chained
        .filter(|chained| chained.entry.hook_type.value.as_str() == "webhook")
        .filter_map(|chained| {
            let meta = registered.iter().find(|meta| meta.id.as_str() == chained.id)?;
            Some(Outage::of("webhook", meta, chained.at.to_string()))
        })
        .collect()
}

/// The hooks of `hooks.at` in force, in the order of the file.
pub(crate) fn outages_at(backstop: &Backstop) -> Vec<Outage> {
    let registered = backstop.engine().registry().list();
    let placed = backstop.config().config.hooks.placed();
    placed
        .flat_map(|placed| {
            let (kind, at) = (placed.entry.kind.value.name(), placed.at.to_string());
            // A program that stays may have several hooks at the point.
            let is_of = |meta: &&Arc<HookMeta>| {
                let rest = meta.id.as_str().strip_prefix(placed.id.as_str());
                meta.point == placed.point
                    && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let stands = registered.iter().filter(is_of).map(|meta| Outage::of(kind, meta, at.clone()));
            let mut all: Vec<Outage> = stands.collect();
            if all.is_empty() {
                let (outage, source) = (Meaning::Waits, FailureSource::Default);
                all.push(Outage { kind, hook: placed.id, at, outage, source });
            }
            all
        })
        .collect()
}

impl Outage {
    fn of(kind: &'static str, meta: &HookMeta, at: String) -> Self {
        let outage = match (meta.point.info().mode, meta.on_failure) {
            (Mode::Observe, _) => Meaning::Nothing,
            _ if meta.mode.is_shadow() => Meaning::Nothing,
            (_, FailurePolicy::Closed) => Meaning::Blocks,
            (_, FailurePolicy::Open | FailurePolicy::OpenIfUnreachable) => Meaning::LetsThrough,
        };
        Self { kind, hook: meta.id.to_string(), at, outage, source: meta.failure_source }
    }

    /// The outage in one line.
    pub(crate) fn line(&self) -> String {
        let (kind, hook) = (self.kind, plain(&self.hook));
        let meaning = match self.outage {
            Meaning::Blocks => "an outage blocks the call",
            Meaning::LetsThrough => "an outage lets the call through, marked in its receipt",
            Meaning::Nothing => return format!("{kind} {hook}: an outage changes nothing\n"),
            Meaning::Waits => {
                return format!("{kind} {hook}: it waits, since no host here fires its point\n");
            }
        };
        format!("{kind} {hook}: {meaning} ({})\n", source_word(self.source))
    }
}

/// Whose word it is, in a word of the configuration.
pub(crate) fn source_word(source: FailureSource) -> &'static str {
    match source {
        FailureSource::Operator => "hooks.on_failure",
        FailureSource::Entry => "entry",
        FailureSource::Author => "author",
        FailureSource::Default => "default",
    }
}
