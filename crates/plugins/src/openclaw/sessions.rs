//! What plugins keep with a conversation, in the store: session extensions and texts for the next turn.
//!
//! The law: *a plugin speaks for nobody else*. Whose value or text it is follows from the plugin, and which conversation from what it was
//! asked about ([`EventSession`]); what it says of either is only compared. A conversation has to exist before something is kept with
//! it. Its own values a plugin may read wherever they are.
//!
//! Limits of a value: plain data 32 levels deep, 4,096 values, 512 keys in an object, 65,536 characters in a text, and
//! [`MAX_EXTENSION_BYTES`](backstop_store::MAX_EXTENSION_BYTES) as JSON; what goes beyond is refused. The `metadata` of an injection has
//! the same limits.
//!
//! A plugin that is switched off is closed first ([`Services::close`]), so that what it kept can be deleted with no write after that.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::points::Placement;
use backstop_hooks::{Json, OwnerId, SessionKey};
use backstop_store::{Enqueued, Expected, ExtensionKey, NewInjection, Store, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{RwLock, RwLockReadGuard};

use super::answering::EventSession;
use super::desk::{Extensions, Printed, ServiceError, Services};

/// How deep a value may be nested.
const MOST_DEPTH: usize = 32;
/// How many values one may hold, itself among them.
const MOST_VALUES: usize = 4_096;
/// How many keys an object of it may have.
const MOST_KEYS: usize = 512;
/// How long a text in it may be, in characters.
const MOST_CHARS: usize = 65_536;

type Print = Box<dyn Fn(&OwnerId, Printed<'_>) + Send + Sync>;

/// [`Services`] out of a store.
pub struct StoreServices {
    store: Arc<dyn Store>,
    /// Whether a plugin may add to what the model reads.
    may_inject: Box<dyn Fn(&OwnerId) -> bool + Send + Sync>,
    print: Print,
    /// The plugins that were switched off. Whoever writes for a plugin holds this for reading until the write is done.
    closed: RwLock<BTreeSet<OwnerId>>,
}

impl std::fmt::Debug for StoreServices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreServices").field("store", &self.store).finish_non_exhaustive()
    }
}

impl StoreServices {
    /// Services that keep everything in `store`. `may_inject` says whose texts may reach the model
    /// (`allowPromptInjection`).
    pub fn new(store: Arc<dyn Store>, may_inject: impl Fn(&OwnerId) -> bool + Send + Sync + 'static) -> Self {
        Self {
            store,
            may_inject: Box::new(may_inject),
            print: Box::new(|_, _| {}),
            closed: RwLock::default(),
        }
    }

    /// With a place for what commands of plugins print.
    #[must_use]
    pub fn printing(mut self, print: impl Fn(&OwnerId, Printed<'_>) + Send + Sync + 'static) -> Self {
        self.print = Box::new(print);
        self
    }

    /// Admits a write of this plugin, unless it was switched off. It is not switched off while the guard is held.
    async fn open(&self, owner: &OwnerId) -> Result<RwLockReadGuard<'_, BTreeSet<OwnerId>>, ServiceError> {
        let closed = self.closed.read().await;
        match closed.contains(owner) {
            false => Ok(closed),
            true => Err(ServiceError(format!("plugin `{owner}` was switched off: nothing is stored for it"))),
        }
    }

    /// The conversation, which is the one that was named, and exists.
    async fn known(&self, session: &EventSession, named: &str) -> Result<SessionKey, ServiceError> {
        let key = session.key();
        if *key != SessionKey::from(named) {
            return Err(ServiceError("this is asked for another session than it was".to_owned()));
        }
        match self.store.latest_session(key).await {
            Ok(Some(_)) => Ok(key.clone()),
            Ok(None) => Err(ServiceError(format!("there is no session `{key}`"))),
            Err(error) => Err(refused(error)),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Injection {
    session_key: String,
    text: String,
    #[serde(default)]
    placement: Placement,
    #[serde(default)]
    idempotency_key: Option<String>,
    #[serde(default)]
    ttl_ms: Option<f64>,
    #[serde(default, deserialize_with = "there")]
    metadata: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Which {
    #[serde(alias = "key")]
    session_key: String,
    namespace: String,
    #[serde(default, deserialize_with = "there")]
    value: Option<Value>,
    #[serde(default)]
    unset: bool,
}

/// A value that is `null` is there.
pub(crate) fn there<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn refused(error: impl std::fmt::Display) -> ServiceError {
    ServiceError(error.to_string())
}

fn read<T: for<'de> Deserialize<'de>>(value: Value, what: &str) -> Result<T, ServiceError> {
    serde_json::from_value(value).map_err(|error| ServiceError(format!("{what}: {}", words(&error))))
}

/// What is wrong, without the values that are.
fn words(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Data => "a field is missing, or is not of its type",
        _ => "it is no data",
    }
}

#[async_trait]
impl Services for StoreServices {
    fn no_injections(&self, owner: &OwnerId) -> Option<String> {
        (!(self.may_inject)(owner)).then(|| {
            let setting = format!("plugins.entries.{owner}.hooks.allowPromptInjection");
            format!("`{setting}: false` keeps its texts from the model")
        })
    }

    async fn inject(
        &self,
        owner: &OwnerId,
        session: &EventSession,
        injection: Value,
    ) -> Result<Value, ServiceError> {
        if let Some(why) = self.no_injections(owner) {
            return Err(ServiceError(why));
        }
        let injection: Injection = read(injection, "an injection")?;
        if let Some(metadata) = &injection.metadata {
            within_limits(metadata, "the `metadata` of an injection")?;
        }
        let _open = self.open(owner).await?;
        let session_key = self.known(session, &injection.session_key).await?;
        let ttl = match injection.ttl_ms {
            None => None,
            Some(ms) => Some(
                Duration::try_from_secs_f64(ms / 1_000.0)
                    .map_err(|_| ServiceError("`ttlMs` is a number of milliseconds".to_owned()))?,
            ),
        };
        let key = injection.idempotency_key.clone();
        let new = NewInjection {
            session_key,
            owner: owner.clone(),
            text: injection.text.into(),
            placement: injection.placement,
            idempotency_key: injection.idempotency_key,
            ttl,
            metadata: injection.metadata.map(Json::new),
        };
        let queued = self.store.enqueue_injection(new, Timestamp::now()).await.map_err(refused)?;
        let (enqueued, seq) = match queued {
            Enqueued::Queued(seq) => (true, seq),
            Enqueued::Duplicate(seq) => (false, seq),
        };
        let id = key.unwrap_or_else(|| seq.to_string());
        Ok(json!({ "enqueued": enqueued, "id": id, "sessionKey": injection.session_key }))
    }

    async fn extensions(&self, owner: &OwnerId, session: &SessionKey) -> Result<Extensions, ServiceError> {
        let found = self.store.extensions(session).await.map_err(refused)?;
        let own = found.into_iter().filter(|extension| extension.key.owner == *owner);
        Ok(own.map(|extension| (extension.key.namespace, extension.value.to_value())).collect())
    }

    async fn patch(
        &self,
        owner: &OwnerId,
        session: &EventSession,
        patch: Value,
    ) -> Result<Value, ServiceError> {
        let which: Which = read(patch, "a patch of a session extension")?;
        let _open = self.open(owner).await?;
        self.known(session, &which.session_key).await?;
        let key = which.key(owner);
        match (which.value, which.unset) {
            (Some(value), false) => {
                within_limits(&value, "a session extension")?;
                let value = Json::new(value);
                let put = self.store.put_extension(&key, &value, Expected::Any, Timestamp::now());
                put.await.map_err(refused)?;
            }
            (None, true) => {
                self.store.remove_extension(&key).await.map_err(refused)?;
            }
            _ => return Err(ServiceError("a patch has either `value` or `unset: true`".to_owned())),
        }
        Ok(json!({ "ok": true }))
    }

    async fn close(&self, owner: &OwnerId) {
        self.closed.write().await.insert(owner.clone());
    }

    fn print(&self, owner: &OwnerId, text: Printed<'_>) {
        (self.print)(owner, text);
    }
}

impl Which {
    fn key(&self, owner: &OwnerId) -> ExtensionKey {
        ExtensionKey {
            session_key: self.session_key.as_str().into(),
            owner: owner.clone(),
            namespace: self.namespace.clone(),
        }
    }
}

/// Checks the limits of plain data that a plugin keeps; `what` is the data in an error.
pub(crate) fn within_limits(value: &Value, what: &str) -> Result<(), ServiceError> {
    let mut values = 0;
    within(value, 1, &mut values).map_err(|limit| ServiceError(format!("{what} has at most {limit}")))
}

/// The limit that the value exceeds, in words.
fn within(value: &Value, depth: usize, values: &mut usize) -> Result<(), String> {
    *values += 1;
    let too_much = |what: &str, most: usize| Err(format!("{most} {what}"));
    if depth > MOST_DEPTH {
        return too_much("levels", MOST_DEPTH);
    }
    if *values > MOST_VALUES {
        return too_much("values", MOST_VALUES);
    }
    match value {
        Value::String(text) if text.chars().count() > MOST_CHARS => {
            too_much("characters in a text", MOST_CHARS)
        }
        Value::Array(list) => list.iter().try_for_each(|value| within(value, depth + 1, values)),
        Value::Object(fields) if fields.len() > MOST_KEYS => too_much("keys in an object", MOST_KEYS),
        Value::Object(fields) => fields.values().try_for_each(|value| within(value, depth + 1, values)),
        _ => Ok(()),
    }
}
