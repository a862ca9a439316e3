//! What plugins show of sessions: `pluginExtensions`.
//!
//! Only the plugins that stored something with the sessions that are shown are loaded, and one that can't be loaded, or fails, is an error in
//! place of its value: sessions are listed all the same. All plugins together have [`PATIENCE`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstop::config::Loaded;
use backstop::hooks::{Json, OwnerId};
use backstop::plugins::{Home, PluginSet, load_one};
use backstop::store::{Extension, Session, Store};
use serde::Serialize;

use crate::error::Error;
use crate::output::{one_line, plain};
use crate::session::Surroundings;

/// How long the plugins of one command may take to show what they have.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest line that shows a value.
const LONGEST: usize = 400;

/// One value of a session, as its plugin shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    plugin_id: OwnerId,
    namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Json>,
    /// Why there is no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A session, with what plugins show of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    #[serde(flatten)]
    pub(super) session: Session,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) plugin_extensions: Vec<Shown>,
}

impl Shown {
    /// For people, in one line.
    pub(super) fn line(&self) -> String {
        let text = match (&self.value, &self.error) {
            (Some(value), _) => value.to_string(),
            (None, Some(error)) => format!("error: {error}"),
            (None, None) => String::new(),
        };
        let name = format!("{}.{}", self.plugin_id, self.namespace);
        format!("{}: {}", plain(&name), one_line(&text, LONGEST))
    }
}

/// The sessions, with what plugins show of them.
pub(super) async fn rows(
    sessions: Vec<Session>,
    loaded: &Loaded,
    store: &Arc<dyn Store>,
    surroundings: &Surroundings,
) -> Result<Vec<Row>, Error> {
    let over = tokio::time::Instant::now() + PATIENCE;
    let mut owners = Owners { loaded, store, surroundings, sets: BTreeMap::new() };
    let mut rows = Vec::with_capacity(sessions.len());
    for session in sessions {
        let mut plugin_extensions = Vec::new();
        for stored in store.extensions(&session.key).await? {
            let shown = tokio::time::timeout_at(over, Box::pin(owners.show(&session, &stored))).await;
            let shown = shown.unwrap_or_else(|_| {
                Err(format!("the plugins took longer than {} s together", PATIENCE.as_secs()))
            });
            let (value, error) = match shown {
                Ok(None) => continue,
                Ok(Some(value)) => (Some(value), None),
                Err(why) => (None, Some(why)),
            };
            let (plugin_id, namespace) = (stored.key.owner, stored.key.namespace);
            plugin_extensions.push(Shown { plugin_id, namespace, value, error });
        }
        rows.push(Row { session, plugin_extensions });
    }
    for set in owners.sets.into_values().flatten().flatten() {
        set.shut_down().await;
    }
    Ok(rows)
}

/// The plugins that were loaded to show something. Each is asked for once.
struct Owners<'a> {
    loaded: &'a Loaded,
    store: &'a Arc<dyn Store>,
    surroundings: &'a Surroundings,
    /// `None` for a plugin that is switched off or not installed; why it was not loaded otherwise.
    sets: BTreeMap<OwnerId, Result<Option<PluginSet>, String>>,
}

impl Owners<'_> {
    async fn show(&mut self, session: &Session, stored: &Extension) -> Result<Option<Json>, String> {
        let owner = &stored.key.owner;
        if !self.sets.contains_key(owner) {
            // Where the time is over while it is loaded, it is not loaded again.
            self.sets.insert(owner.clone(), Err("it was not loaded in time".to_owned()));
            let set = self.load(owner).await;
            self.sets.insert(owner.clone(), set);
        }
        match self.sets.get(owner) {
            Some(Ok(Some(set))) => set.project(&session.id, stored).await,
            Some(Err(why)) => Err(why.clone()),
            Some(Ok(None)) | None => Ok(None),
        }
    }

    async fn load(&self, owner: &OwnerId) -> Result<Option<PluginSet>, String> {
        let failed = |error: &dyn std::fmt::Display| format!("the plugin was not loaded: {error}");
        let folder = self.surroundings.plugins_folder().map_err(|error| failed(&error))?;
        let installed = Home::new(&folder).installed().map_err(|error| failed(&error))?;
        let Some(plugin) = installed.into_iter().find(|plugin| plugin.id.as_str() == owner.as_str()) else {
            return Ok(None);
        };
        load_one(self.loaded, &folder, self.store, &plugin.id, |_| {}).await.map_err(|error| failed(&error))
    }
}
