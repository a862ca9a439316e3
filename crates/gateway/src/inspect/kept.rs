//! Results that a provider still wants, as they outlive this process.
//!
//! They are in the store of the engine, beside what belongs to conversations, in [`SHARDS`] values of at most [`MOST_IN_SHARD`]
//! each; the oldest go, and the log says so. They are read once, when the first request comes, and written before the answer
//! leaves that left them. A store that fails keeps no answer from leaving: the log says that a restart will forget.
//!
//! Limits: gateways over one store see what others wrote before they began, and not later.

use std::collections::BTreeMap;

use backstop_hooks::conversation::Message;
use backstop_hooks::{Digest, Json, OwnerId, SessionKey};
use backstop_store::{
    Expected, ExtensionError, ExtensionKey, MAX_EXTENSION_BYTES, Store, StoreError, Timestamp,
};
use serde::{Deserialize, Serialize};

/// Under how many names they are: one for each first digit of a digest.
const SHARDS: &str = "0123456789abcdef";
/// The most under one name.
const MOST_IN_SHARD: usize = 32;
/// How often a value is written anew that another process changed meanwhile.
const TRIES: usize = 4;

/// What is kept of one answer, or of one conversation.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Entry {
    /// Which one.
    pub(super) key: Digest,
    /// The results that it still wants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) results: Vec<Message>,
    /// The last answer of those that its client takes for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last: Option<String>,
}

/// All that is kept, oldest first in each shard.
pub(super) async fn read(store: &dyn Store) -> Result<Vec<Entry>, StoreError> {
    let mut all = Vec::new();
    for shard in SHARDS.chars() {
        if let Some(found) = store.extension(&name_of(shard)).await? {
            all.extend(entries(&found.value));
        }
    }
    Ok(all)
}

/// Writes what became of these: `None` of what is wanted no more.
pub(super) async fn write(store: &dyn Store, changes: Vec<(Digest, Option<Entry>)>) {
    let mut shards: BTreeMap<char, Vec<(Digest, Option<Entry>)>> = BTreeMap::new();
    for (key, entry) in changes {
        let shard = key.prefix(1).chars().next().unwrap_or_default();
        shards.entry(shard).or_default().push((key, entry));
    }
    for (shard, changes) in shards {
        if let Err(error) = write_shard(store, &name_of(shard), &changes).await {
            tracing::warn!(%error, "what a provider still wants of refused calls could not be kept; a restart forgets it");
        }
    }
}

async fn write_shard(
    store: &dyn Store,
    name: &ExtensionKey,
    changes: &[(Digest, Option<Entry>)],
) -> Result<(), ExtensionError> {
    let mut tries = TRIES;
    loop {
        let found = store.extension(name).await?;
        let expected = found.as_ref().map_or(Expected::Absent, |found| Expected::Revision(found.revision));
        let mut all = found.map(|found| entries(&found.value)).unwrap_or_default();
        let before = all.len();
        all.retain(|entry| !changes.iter().any(|(key, _)| *key == entry.key));
        all.extend(changes.iter().filter_map(|(_, entry)| entry.clone()));
        if before == 0 && all.is_empty() {
            return Ok(());
        }
        let value = bounded(all);
        match store.put_extension(name, &value, expected, Timestamp::now()).await {
            Err(ExtensionError::Conflict { .. }) if tries > 1 => tries -= 1,
            written => return written.map(drop),
        }
    }
}

/// As many as there is room for; the oldest go.
fn bounded(mut entries: Vec<Entry>) -> Json {
    let mut gone = entries.len().saturating_sub(MOST_IN_SHARD);
    entries.drain(..gone);
    loop {
        let value = serde_json::to_value(&entries).unwrap_or_default();
        if value.to_string().len() <= MAX_EXTENSION_BYTES || entries.is_empty() {
            if gone > 0 {
                tracing::info!(
                    gone,
                    "the oldest of what providers still want of refused calls is kept no longer"
                );
            }
            return Json::new(value);
        }
        entries.remove(0);
        gone += 1;
    }
}

fn entries(value: &Json) -> Vec<Entry> {
    let all = value.to_value();
    let all = all.as_array().into_iter().flatten();
    // What a later version wrote in another way is nothing to this one.
    all.filter_map(|entry| Entry::deserialize(entry).ok()).collect()
}

fn name_of(shard: char) -> ExtensionKey {
    ExtensionKey {
        session_key: SessionKey::new("gateway:owed"),
        owner: OwnerId::builtin(),
        namespace: format!("owed-{shard}"),
    }
}

#[cfg(test)]
mod tests {
    use backstop_store::SqliteStore;

    use super::*;

    fn entry(number: usize, bytes: usize) -> (Digest, Option<Entry>) {
        let key = Digest::of_text("test", &number.to_string());
        (key, Some(Entry { key, results: Vec::new(), last: Some("x".repeat(bytes)) }))
    }

    #[tokio::test]
    async fn the_oldest_go_and_the_latest_stay() {
        for bytes in [1, 100_000] {
            let store = SqliteStore::in_memory();
            let all: Vec<_> = (0..1_000).map(|number| entry(number, bytes)).collect();
            for (key, entry) in &all {
                write(&store, vec![(*key, entry.clone())]).await;
            }
            let left: Vec<Digest> = read(&store).await.unwrap().into_iter().map(|entry| entry.key).collect();
            assert!(left.len() <= 16 * MOST_IN_SHARD && left.contains(&all[999].0), "{}", left.len());
            assert!(!left.contains(&all[0].0));
            write(&store, vec![(all[999].0, None)]).await;
            assert!(!read(&store).await.unwrap().iter().any(|entry| entry.key == all[999].0));
        }
    }
}
