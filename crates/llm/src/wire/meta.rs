//! What a provider attached, kept apart by wire.
//!
//! `meta` is an object with one entry per wire: `{"anthropic-messages": {"cache_control": {...}}}`.

use backstop_hooks::Json;
use serde_json::{Map, Value};

use super::{Api, is_setting_name};

/// What the provider of the wire `api` attached; empty if nothing.
pub fn own_meta(meta: Option<&Json>, api: Api) -> Map<String, Value> {
    own(meta, api).cloned().unwrap_or_default()
}

/// One field of what the provider of the wire `api` attached.
pub(crate) fn own_field<'a>(meta: Option<&'a Json>, api: Api, field: &str) -> Option<&'a Value> {
    own(meta, api)?.get(field)
}

fn own(meta: Option<&Json>, api: Api) -> Option<&Map<String, Value>> {
    meta?.get(api.as_str())?.as_object()
}

/// `fields` as `meta`; `None` if there are none. Nulls say nothing and are left out, but for those whose name may.
pub(crate) fn wrap(api: Api, mut fields: Map<String, Value>) -> Option<Json> {
    fields.retain(|name, value| !value.is_null() || !is_setting_name(name));
    (!fields.is_empty())
        .then(|| Json::new(Value::Object(Map::from_iter([(api.as_str().to_owned(), fields.into())]))))
}

/// Adds what the wire's own `meta` says to an encoded object, without touching what is already there.
pub(crate) fn attach(object: &mut Map<String, Value>, meta: Option<&Json>, api: Api) {
    for (key, value) in own(meta, api).into_iter().flatten() {
        object.entry(key.clone()).or_insert_with(|| value.clone());
    }
}
