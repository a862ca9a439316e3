//! Answers that the audit trail has.
//!
//! The law: *an answer on the tape counts once, if the trail has it, and about this very call in this folder.* Whoever records can write
//! anything onto the tape, the agent of the same account too: an answer that nobody gave must not argue for an exception, nor one that
//! was given once and copied. And *a denial counts, whether the tape has it or not*: whoever can write the tape can delete from it, so the
//! whole trail is asked, of all times.
//!
//! Digests in the trail may be keyed. Those by the key of the configuration are compared as they are keyed; those by another one can't be,
//! and may be of denials, so that no exception is suggested while there are any, and it is said how many there are.
//!
//! Limits: a denial is found by the digest of the very call, with all of its arguments.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use backstop::engine::tool_call_digest;
use backstop::hooks::Resolution;
use backstop::hooks::points::ToolCallEvent;
use backstop::store::{AuditEntry, AuditFilter, AuditPlace, DigestKey, Store};
use backstop::tape::RecordedCall;
use serde_json::Value;

use crate::error::Error;

/// The most receipts of questions that are kept in memory; answers beyond are not found, and so do not count. Then no exception is
/// suggested, since there may be denials among them.
const MOST_RECEIPTS: usize = 500_000;
/// The entries of a page.
const PAGE: usize = 1000;

/// What the trail says of the calls about which people were asked.
pub(super) struct Trail {
    /// By receipt.
    receipts: HashMap<String, Asked>,
    /// The digests of what was denied.
    denied: HashSet<String>,
    is_whole: bool,
    /// By what digests in the trail are keyed, if they are.
    key: Option<Arc<DigestKey>>,
    /// How many answers have digests that are keyed by a key that is not here, by what names it.
    illegible: BTreeMap<String, u64>,
}

/// The most keys that are named.
const MOST_KEYS: usize = 16;
/// What stands for the keys beyond.
const OTHER_KEYS: &str = "others";

/// How it ended, the digest of what was judged, and the folder.
#[derive(Clone, PartialEq, Eq)]
struct Asked {
    resolution: String,
    judged: String,
    workspace: Option<String>,
}

impl Trail {
    pub(super) async fn read(store: &dyn Store) -> Result<Self, Error> {
        let filter = AuditFilter {
            kind: Some("receipt".to_owned()),
            verdict: Some("ask".to_owned()),
            ..AuditFilter::default()
        };
        let denial = serde_json::to_value(Resolution::Deny).unwrap_or_default();
        let cancelled = serde_json::to_value(Resolution::Cancelled).unwrap_or_default();
        let cancelled = cancelled.as_str().unwrap_or_default().to_owned();
        let key = store.digest_key().cloned();
        let (mut receipts, mut denied, mut place) = (HashMap::new(), HashSet::new(), AuditPlace::END);
        let mut illegible = BTreeMap::new();
        loop {
            let page = store.audit_page(&filter, place, PAGE).await?;
            for entry in page.entries {
                if let Some(other) = keyed_by_another(&entry, key.as_deref()) {
                    let name = if illegible.len() < MOST_KEYS { other } else { OTHER_KEYS };
                    *illegible.entry(name.to_owned()).or_default() += 1;
                    continue;
                }
                let text =
                    |pointer: &str| entry.body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
                // Who changed a call, or gave its result, did not say that it must not run.
                let is_substituted = entry.body.pointer("/approval/substitute").is_some();
                if entry.body.pointer("/approval/resolution") == Some(&denial) && !is_substituted {
                    denied.extend(text("/judged"));
                }
                // What an earlier answer decided, nobody answered.
                let by_grant = entry.body.pointer("/approval/grants").is_some();
                // What the client's own user said, nobody knows: the tape has it as given up.
                let hosted = entry.body.pointer("/approval/hosted").map(|_| cancelled.clone());
                if let (Some(id), Some(resolution), Some(judged), false) =
                    (text("/id"), text("/approval/resolution").or(hosted), text("/judged"), by_grant)
                {
                    receipts.insert(id, Asked { resolution, judged, workspace: text("/workspace") });
                }
            }
            if page.ended || receipts.len() >= MOST_RECEIPTS {
                return Ok(Self { receipts, denied, is_whole: page.ended, key, illegible });
            }
            place = page.next;
        }
    }

    /// Returns whether all of the trail was read, and could be.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole && self.illegible.is_empty()
    }

    /// Returns how many answers have digests by a key that is not here, by what names the key.
    pub(super) fn illegible(&self) -> &BTreeMap<String, u64> {
        &self.illegible
    }

    /// Returns whether somebody ever denied this very call.
    pub(super) fn has_denied(&self, call: &RecordedCall) -> bool {
        self.asked(call).iter().any(|asked| self.denied.contains(&asked.judged))
    }

    /// Returns whether the trail says the same about this call as the tape, and strikes it out: it does so once.
    pub(super) fn strike(&mut self, call: &RecordedCall) -> bool {
        self.asked(call).iter().any(|asked| self.receipts.get(&call.receipt) == Some(asked))
            && self.receipts.remove(&call.receipt).is_some()
    }

    /// What the tape says about a call, in each form in which the trail may say it: from before there was a key, and with it.
    fn asked(&self, call: &RecordedCall) -> Vec<Asked> {
        let plain = asked(call);
        let digest = plain.as_ref().and_then(|asked| asked.judged.parse().ok());
        let keyed = self.key.as_ref().zip(digest).map(|(key, digest)| key.keyed(&digest));
        let keyed = plain.clone().zip(keyed).map(|(asked, judged)| Asked { judged, ..asked });
        plain.into_iter().chain(keyed).collect()
    }
}

/// What names the key by which the digests of an entry are keyed, if that is not this one.
fn keyed_by_another<'e>(entry: &'e AuditEntry, key: Option<&DigestKey>) -> Option<&'e str> {
    let named = entry.body.get("digestKey").and_then(Value::as_str)?;
    key.is_none_or(|key| key.id() != named).then_some(named)
}

/// What the tape says about a call.
fn asked(call: &RecordedCall) -> Option<Asked> {
    let event: ToolCallEvent = serde_json::from_value(call.event.clone()).ok()?;
    let resolution = serde_json::to_value(call.answer?.resolution).ok()?;
    Some(Asked {
        resolution: resolution.as_str()?.to_owned(),
        judged: tool_call_digest(&event).to_string(),
        workspace: call.context.get("workspaceDir").and_then(Value::as_str).map(str::to_owned),
    })
}
