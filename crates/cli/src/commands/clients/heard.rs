//! When a client was last heard of, by the audit trail: what no look at its files can show.

use std::collections::BTreeMap;

use backstop::clients::Client;
use backstop::store::{AuditEntry, AuditFilter, Store, StoreError, Timestamp};
use serde::Serialize;
use serde_json::Value;

/// How many entries are looked through, from the end.
pub(super) const MOST_ENTRIES: usize = 5000;

/// A client's last event.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Heard {
    pub(super) at: Timestamp,
    /// The hook point at which it was judged.
    pub(super) point: String,
}

/// The last event of each client, by its name. What `doctor` fires itself does not count.
pub(super) async fn heard(store: &dyn Store) -> Result<BTreeMap<&'static str, Heard>, StoreError> {
    let head = store.audit_head().await?;
    let after = head.seq.saturating_sub(u64::try_from(MOST_ENTRIES).unwrap_or(u64::MAX));
    let filter = AuditFilter { kind: Some("receipt".to_owned()), ..AuditFilter::default() };
    let entries = store.audit(&filter, after, MOST_ENTRIES).await?;
    let mut last = BTreeMap::new();
    for entry in entries {
        if let Some((client, heard)) = event(&entry) {
            last.insert(client, heard);
        }
    }
    Ok(last)
}

fn event(entry: &AuditEntry) -> Option<(&'static str, Heard)> {
    let text = |pointer: &str| entry.body.pointer(pointer).and_then(Value::as_str);
    let name = text("/agentId")?;
    let client = Client::ALL.into_iter().find(|client| client.name() == name)?;
    let is_sample = entry.session.as_ref().is_some_and(|session| {
        let session = session.as_str().rsplit([':', '/']).next().unwrap_or_default();
        session.is_empty() || client.sample().payload.contains(session)
    });
    let point = text("/point").unwrap_or("-").to_owned();
    (!is_sample).then_some((client.name(), Heard { at: entry.at, point }))
}
