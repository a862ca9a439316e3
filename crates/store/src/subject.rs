//! What entries about people's decisions say of the call: which it was, whose, where, for whom and by which rules, so that whoever looks for a question finds
//! what became of it, and each grant that came of it.
//!
//! It contains ids, digests, names and rules, and nothing of the arguments. What makes an entry too large is left out, and named as left out.

use std::borrow::Cow;
use std::collections::BTreeSet;

use backstop_hooks::{Digest, RuleId, Severity};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{ApprovalRecord, AuditBody, GrantPlace, audit_id};

/// The longest folder that an entry names, in bytes: as long as a path can be on Linux.
const MOST_FOLDER_BYTES: usize = 4096;

/// What can make an entry too large, in the order in which it is left out.
const UNBOUNDED: [&str; 4] = ["route", "workspace", "rules", "hooks"];
/// The member that names what was left out.
const OMITTED: &str = "omitted";

/// What every entry about a question says of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Subject<'a> {
    approval: Cow<'a, str>,
    pub(crate) digest: &'a Digest,
    tool: Cow<'a, str>,
    severity: Severity,
    agent: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<Cow<'a, str>>,
    #[serde(flatten)]
    folder: Folder<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requester: Option<Whom<'a>>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    rules: BTreeSet<&'a RuleId>,
}

impl<'a> Subject<'a> {
    pub(crate) fn of(record: &'a ApprovalRecord) -> Self {
        let request = &record.request;
        Self {
            // One that was written past the store may have any length.
            approval: audit_id(record.id.as_str()),
            digest: &request.digest,
            tool: audit_id(request.tool_name.canonical()),
            severity: request.severity,
            agent: audit_id(request.agent.as_str()),
            host: request.host.as_deref().map(audit_id),
            client: request.client.as_deref().map(audit_id),
            folder: Folder::of(request.workspace.as_ref().or(request.place.workspace.as_ref())),
            requester: Whom::of(&request.place),
            rules: request.reasons.iter().flat_map(|reason| &reason.rules).collect(),
        }
    }
}

/// The folder that something is about, or that it was too long.
#[derive(Serialize)]
pub(crate) struct Folder<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<[&'static str; 1]>,
}

impl<'a> Folder<'a> {
    pub(crate) fn of(folder: Option<&'a String>) -> Self {
        let workspace = folder.map(String::as_str).filter(|folder| folder.len() <= MOST_FOLDER_BYTES);
        let is_omitted = workspace.is_none() && folder.is_some();
        Self { workspace, omitted: is_omitted.then_some(["workspace"]) }
    }
}

/// Who asked for a call, by the names that receipts have for it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Whom<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    account_id: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender_id: Option<Cow<'a, str>>,
}

impl<'a> Whom<'a> {
    /// Returns whom a place names: channel, account and sender in a JSON list, as the engine writes them, or otherwise a sender.
    pub(crate) fn of(place: &'a GrantPlace) -> Option<Self> {
        let requester = place.requester.as_deref()?;
        let [channel, account_id, sender_id] =
            listed(requester).unwrap_or([None, None, Some(requester.into())]);
        Some(Self { channel, account_id, sender_id })
    }
}

/// On which channel, and in which conversation there.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Channel<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'a, str>>,
}

impl<'a> Channel<'a> {
    /// Returns the channel that a place names: provider and id in a JSON list, as the engine writes them, or otherwise an id.
    pub(crate) fn of(place: &'a GrantPlace) -> Option<Self> {
        let channel = place.channel.as_deref()?;
        let [provider, id] = listed(channel).unwrap_or([None, Some(channel.into())]);
        Some(Self { provider, id })
    }
}

/// The names in a JSON list of so many, as entries have them; `None` for another text.
fn listed<const N: usize>(text: &str) -> Option<[Option<Cow<'static, str>>; N]> {
    let names: Vec<Option<String>> = serde_json::from_str(text).ok()?;
    let names: [Option<String>; N] = names.try_into().ok()?;
    Some(names.map(|name| name.map(|name| Cow::Owned(audit_id(&name).into_owned()))))
}

/// Returns a body that fits: what has no bound of its own is left out until it does, and named. The rest is bounded.
pub(crate) fn fitting<T: Serialize>(body: &T, fits: impl Fn(&AuditBody) -> bool) -> AuditBody {
    let whole = AuditBody::of(body);
    if fits(&whole) {
        return whole;
    }
    let Ok(Value::Object(mut fields)) = serde_json::to_value(body) else { return whole };
    let before = fields.get(OMITTED).and_then(Value::as_array);
    let mut omitted = before.cloned().unwrap_or_default();
    for part in UNBOUNDED {
        if fields.remove(part).is_some() {
            omitted.push(part.into());
            fields.insert(OMITTED.to_owned(), json!(omitted));
        }
        let cut = AuditBody::of(&fields);
        if fits(&cut) {
            return cut;
        }
    }
    AuditBody::of(&fields)
}
