//! What stands behind placeholders: one vault for each session, and who gets values back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use backstop_engine::Unsealer;
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{CallContext, Params, SessionId};
use backstop_scan::Vault;

/// The vaults of the sessions that are at work. Bounded: the session that was quiet for the longest time
/// loses its vault, and its placeholders mean nothing any more.
#[derive(Debug)]
pub(super) struct Vaults {
    tools: Vec<String>,
    /// Whether anything is kept at all.
    used: bool,
    open: Mutex<VecDeque<(SessionId, Arc<Vault>)>>,
}

impl Vaults {
    /// How many sessions have a vault at a time.
    const MOST: usize = 128;

    pub(super) fn new(tools: &[String], used: bool) -> Self {
        Self { tools: tools.to_vec(), used, open: Mutex::default() }
    }

    /// The vault of the session, which is made if need be. Without a session there is none: what one
    /// conversation hid must not be had by another.
    pub(super) fn of(&self, call: &CallContext) -> Option<Arc<Vault>> {
        let session = call.session_id.as_ref().filter(|_| self.used)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = open.iter().position(|(id, _)| id == session).and_then(|at| open.remove(at));
        let (id, vault) =
            known.unwrap_or_else(|| (session.clone(), Arc::new(Vault::new(self.tools.iter().cloned()))));
        open.push_back((id, Arc::clone(&vault)));
        if open.len() > Self::MOST {
            open.pop_front();
        }
        Some(vault)
    }
}

impl Unsealer for Vaults {
    fn unseal(&self, event: &ToolCallEvent, call: &CallContext) -> Option<Params> {
        let vault = self.of(call)?;
        let mut arguments = event.params.to_value();
        let tool = event.tool_name.names_it_is_allowed_by().find(|name| vault.serves(name))?;
        let restored = vault.restore(tool, &mut arguments);
        (restored > 0).then(|| Params::from_value(arguments)).flatten()
    }
}
