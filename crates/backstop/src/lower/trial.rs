//! One plugin by itself, for whoever looks at it and for the tests of its author.
//!
//! The law: *what was given to an id was given to what was trusted under it*. A folder can claim any id. So grants and options go only
//! to what is on the list of installed plugins with the very digest that is tried; anything else is tried as if the configuration said
//! nothing of it. Its hooks stand in the tests of its author as if they were allowed to: they are shown the author's own events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop_config::{Entries, Loaded};
use backstop_engine::{Hosts, NotAnEvent, OwnerSettings};
use backstop_hooks::{CallContext, Json, OwnerId, PointId};
use backstop_plugins::probe::{Fired, Judged, Shape};
use backstop_plugins::set::PluginSet;
use backstop_plugins::trust::{Home, Installed};
use backstop_store::{SqliteStore, Store};
use serde_json::Value;

use super::plugins::load_these;
use crate::error::BuildError;
use crate::hook_types::HookTypes;
use crate::lower::{self, HostFacts};

/// A plugin that is loaded by itself, with state in memory, and with what the configuration says of it if it is installed as it is.
/// Its code runs.
#[derive(Debug)]
pub struct Trial {
    set: PluginSet,
    shape: Shape,
    config: Json,
    took: Duration,
    lacks: Option<String>,
}

/// What a plugin is tried for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriedFor {
    /// To be shown to whoever decides about it.
    People,
    /// To be asked about events that its author wrote.
    Tests,
}

impl Trial {
    /// Loads it, as the hosts of all processes would.
    ///
    /// # Errors
    ///
    /// [`BuildError`], for a plugin that can't be had.
    pub async fn load(loaded: &Loaded, installed: Installed, what: TriedFor) -> Result<Self, BuildError> {
        let mut loaded = loaded.clone();
        let is_listed = is_listed(&installed);
        if !is_listed {
            loaded.config.plugins.entries = Entries::default();
        }
        let loaded = &loaded;
        let entry = loaded.config.plugins.entries.get(installed.id.as_str());
        let config = entry.and_then(|entry| entry.config.as_ref());
        let config = config.map(|config| Json::new(config.value.expose())).unwrap_or_default();
        let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
        let host = HostFacts { home: None, store: &store, answers: false };
        let id = installed.id.clone();
        let types = HookTypes::built_in(&[]);
        let hosts = || Hosts::new(crate::hosts::all_hosts());
        let mut snapshot = lower::snapshot(loaded, &types, hosts(), host)?.snapshot;
        let begun = Instant::now();
        let set = load_these(loaded, vec![installed], &store, Box::new(|_| {})).await?;
        let took = begun.elapsed();
        let mut shaped = set.shape(&mut snapshot);
        let mut lacks = None;
        if let (Err(error), TriedFor::Tests, false) = (&shaped, what, is_listed) {
            lacks = Some(error.why.to_string());
            let mut settings = lower::operator::settings(loaded);
            settings.owners.insert(OwnerId::new(id.as_str()), allowed());
            let mut snapshot = lower::snapshot_with(settings, loaded, &types, hosts(), host)?.snapshot;
            shaped = set.shape(&mut snapshot);
        }
        let shape = match shaped {
            Ok(shape) => shape,
            Err(error) => {
                set.shut_down().await;
                return Err(error.into());
            }
        };
        Ok(Self { set, shape, config, took, lacks })
    }

    /// Whether the configuration says something of its id that it would not get, since it is not what is installed under that id.
    pub fn is_withheld(loaded: &Loaded, installed: &Installed) -> bool {
        loaded.config.plugins.entries.get(installed.id.as_str()).is_some() && !is_listed(installed)
    }

    /// What would keep its hooks from standing where it is installed, if it was only let stand for its tests.
    pub fn lacks(&self) -> Option<&str> {
        self.lacks.as_deref()
    }

    /// What it is, now that it is loaded.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How long it took to load it.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// The bytes of memory that its script uses now; `None` for what is no script.
    pub async fn heap(&self) -> Option<u64> {
        self.set.heap().await
    }

    /// What it asked for until now that no grant names, in words of a manifest, and how often.
    pub fn denials(&self) -> Vec<(String, u64)> {
        self.set.denials()
    }

    /// What of its answers until now only informs somebody, and was left out.
    pub fn not_read(&self) -> Vec<String> {
        self.set.not_read()
    }

    /// Fires each hook that stands once, with the sample of its point.
    pub async fn fire(&self) -> Vec<Fired> {
        self.set.fire_each(&self.shape.seated.hooks, &self.config).await
    }

    /// Has all its hooks judge an event. `config` stands for its options, where the event is to be judged by others.
    ///
    /// # Errors
    ///
    /// [`NotAnEvent`].
    pub async fn judge(
        &self,
        point: PointId,
        event: Value,
        call: &CallContext,
    ) -> Result<Judged, NotAnEvent> {
        self.set.judge(point, event, call, &self.config).await
    }

    /// Ends what was started.
    pub async fn shut_down(self) {
        self.set.shut_down().await;
    }
}

/// An operator who lets hooks stand, and gives nothing else.
fn allowed() -> OwnerSettings {
    OwnerSettings {
        allow_conversation_access: Some(true),
        allow_trusted_tool_policy: true,
        ..OwnerSettings::default()
    }
}

/// Whether this is what a person trusted under its id. A list that can't be read lists nobody.
fn is_listed(installed: &Installed) -> bool {
    let known = Home::new(&installed.store).find(installed.id.as_str());
    known.is_ok_and(|known| known.record.hash == installed.record.hash)
}
