//! Calling programs back: a server of the operator's is told what became of something that a program waits for, by a signed request
//! ([`signature`](crate::signature)).
//!
//! The laws: *whoever waits says a name*, and the operator says which address that is; *what is told again has the same id*, so that whoever
//! hears it twice knows; *nothing that is answered counts*: neither a redirect, which is not followed, nor a body, which is not read.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use backstop_hooks::{AgentId, Digest};
use backstop_store::Timestamp;
use serde_json::{Value, json};
use url::Url;

use crate::asking::{Asker, Egress};
use crate::signature::SigningSecret;
use crate::surface::SurfaceError;
use crate::webhook::post_signed;

/// The longest that telling takes.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most bytes of an answer; nobody reads them.
const MOST_BYTES: usize = 64 << 10;

/// A server that programs have called back.
#[derive(Debug)]
pub struct Callback {
    settings: CallbackSettings,
    asker: Asker,
}

/// What a callback is made of. Addresses often hold a secret, so it is not shown.
#[derive(Clone)]
pub struct CallbackSettings {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub url: Url,
    /// The secret of what we send.
    pub secret: SigningSecret,
    /// The agents that may have it called, by the names that their tokens prove; all, if there is no such list.
    pub agents: Option<BTreeSet<String>>,
    /// Where requests may go.
    pub egress: Egress,
}

impl fmt::Debug for CallbackSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, agents, egress, .. } = self;
        let mut shown = f.debug_struct("CallbackSettings");
        shown.field("name", name).field("agents", agents).field("egress", egress).finish_non_exhaustive()
    }
}

impl Callback {
    /// Returns the callback.
    pub fn new(settings: CallbackSettings) -> Self {
        let asker = Asker::new(settings.egress.clone(), PATIENCE, MOST_BYTES);
        Self { settings, asker }
    }

    /// Returns whether an agent may have it called.
    pub fn is_for(&self, agent: Option<&AgentId>) -> bool {
        let is_named = |agents: &BTreeSet<String>| agent.is_some_and(|agent| agents.contains(agent.as_str()));
        self.settings.agents.as_ref().is_none_or(is_named)
    }

    /// Tells an event of an agent. `id` is what it is about: the same kind and id are the same delivery.
    ///
    /// # Errors
    ///
    /// [`SurfaceError`] if it was not taken, and whether it may be later.
    pub async fn tell(
        &self,
        kind: &str,
        id: &str,
        agent: Option<&AgentId>,
        data: &Value,
    ) -> Result<(), SurfaceError> {
        let CallbackSettings { name, url, secret, .. } = &self.settings;
        let now = Timestamp::now();
        let delivery = Digest::of("api_callback", &json!([name, kind, id]));
        let delivery = format!("msg_{}", delivery.prefix(32));
        let body = json!({ "type": kind, "timestamp": now.to_string(), "agent": agent, "data": data });
        post_signed(&self.asker, (url, secret), &delivery, now, body.to_string().into_bytes()).await
    }
}
