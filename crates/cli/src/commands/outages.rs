//! What it means when a webhook can't be reached, for each one of the configuration.

use backstop::Backstop;
use backstop::engine::FailureSource;
use backstop::hooks::{FailurePolicy, Mode};
use serde::Serialize;

use crate::output::plain;

/// A webhook and its outage.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outage {
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
    /// Nothing: the webhook only watches.
    Nothing,
}

/// The webhooks of the configuration in force, in running order.
pub(crate) fn outages(backstop: &Backstop) -> Vec<Outage> {
    let registered = backstop.engine().registry().list();
    let chained = backstop.config().config.hooks.chained();
    chained
        .filter(|chained| chained.entry.hook_type.value.as_str() == "webhook")
        .filter_map(|chained| {
            let meta = registered.iter().find(|meta| meta.id.as_str() == chained.id)?;
            let outage = match (meta.point.info().mode, meta.on_failure) {
                (Mode::Observe, _) => Meaning::Nothing,
                (_, FailurePolicy::Closed) => Meaning::Blocks,
                (_, FailurePolicy::Open | FailurePolicy::OpenIfUnreachable) => Meaning::LetsThrough,
            };
            let (at, source) = (chained.at.to_string(), meta.failure_source);
            Some(Outage { hook: chained.id, at, outage, source })
        })
        .collect()
}

impl Outage {
    /// The outage in one line.
    pub(crate) fn line(&self) -> String {
        let meaning = match self.outage {
            Meaning::Blocks => "an outage blocks the call",
            Meaning::LetsThrough => "an outage lets the call through, marked in its receipt",
            Meaning::Nothing => return format!("webhook {}: an outage changes nothing\n", plain(&self.hook)),
        };
        format!("webhook {}: {meaning} ({})\n", plain(&self.hook), source_word(self.source))
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
