//! What plugins show of a session: their session extensions, as `project` makes them.
//!
//! `project` is asked for each value that the plugin stores with a session that is listed, with `{ sessionKey, sessionId, state }`, and what
//! it returns is shown in place of the value; `undefined` shows nothing, and without `project` the value is shown as it is stored.
//! Listing sessions never fails because of a plugin: a `project` that throws, returns a promise, takes too long or returns too
//! much is an error in place of the value.
//!
//! Limits: each call has [`PROJECTION`]; what is shown has the limits of a stored value.

use std::time::Duration;

use backstop_hooks::{Json, SessionId};
use backstop_script::{Argument, Arguments, JsonText};
use backstop_store::{Extension, MAX_EXTENSION_BYTES};
use serde::Deserialize;
use serde_json::{Value, json};

use super::services::of_kind;
use crate::openclaw::{Offered, Scripted, there, within_limits};
use crate::registration::OfferKind;
use crate::set::PluginSet;

/// How long one call of `project` may take.
pub const PROJECTION: Duration = Duration::from_millis(250);

impl PluginSet {
    /// What is shown of this stored value with this session; `None` where the plugin shows nothing, or registers no such extension.
    ///
    /// # Errors
    ///
    /// Why there is nothing to show, in words.
    pub async fn project(&self, session: &SessionId, stored: &Extension) -> Result<Option<Json>, String> {
        let owner = self.plugins().find(|plugin| plugin.id.as_str() == stored.key.owner.as_str());
        let mut offered = owner.into_iter().flat_map(|plugin| of_kind(plugin, OfferKind::SessionExtension));
        match offered.find(|(_, offered)| offered.offer.name == stored.key.namespace) {
            None => Ok(None),
            Some((_, offered)) if !offered.has("project") => Ok(Some(stored.value.clone())),
            Some((script, offered)) => project(script, offered, session, stored).await,
        }
    }
}

/// What the `api` makes of what `project` returned, so that `null` is a value.
#[derive(Deserialize)]
struct Projected {
    #[serde(default, deserialize_with = "there")]
    value: Option<Value>,
}

async fn project(
    script: &Scripted,
    offered: &Offered,
    session: &SessionId,
    stored: &Extension,
) -> Result<Option<Json>, String> {
    let failed = |why: String| format!("`project` of session extension `{}`: {why}", stored.key.namespace);
    let context = json!({
        "sessionKey": stored.key.session_key, "sessionId": session, "state": stored.value.to_value(),
    });
    let context = JsonText::of(&context).map_err(|error| failed(error.to_string()))?;
    let arguments = Arguments::new([Argument::Json(context)]);
    let answer = script.call(offered, "project", &arguments, PROJECTION).await;
    let Some(answer) = answer.map_err(|error| failed(error.to_string()))? else { return Ok(None) };
    let bytes = answer.json.as_str().len();
    if bytes > MAX_EXTENSION_BYTES {
        return Err(failed(format!(
            "it returned {bytes} bytes, and at most {MAX_EXTENSION_BYTES} are shown"
        )));
    }
    let Projected { value } = answer.json.read().map_err(|error| failed(error.to_string()))?;
    let Some(value) = value else { return Ok(None) };
    within_limits(&value, "what it returns").map_err(|error| failed(error.to_string()))?;
    Ok(Some(Json::new(value)))
}
