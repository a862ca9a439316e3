//! The end of what a plugin keeps: its cleanup, with the reason.
//!
//! The reasons are those of the system that the plugins come from: a conversation is begun afresh (`reset`) or deleted (`delete`), the
//! plugin is switched off for every host or removed (`disable`), or its code is loaded anew, its host ends, or its host lets go of it
//! (`restart`). For all but the last, what it kept in the store is gone as well, which is the host's to do. Session extensions are told first, then what the plugin registered as its
//! lifecycle, one after the other.
//!
//! Limits: each has [`CLEANUP`]. One that fails is named, and the others are told all the same.

use std::time::Duration;

use backstop_hooks::SessionKey;
use backstop_script::{Argument, Arguments, JsonText};
use serde_json::json;

use super::services::{ServiceFault, fault, of_kind};
use crate::manifest::PluginId;
use crate::registration::OfferKind;
use crate::set::{PluginSet, Running};

/// How long one cleanup may take.
pub const CLEANUP: Duration = Duration::from_secs(5);

/// Why something ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanupReason {
    /// A conversation is begun afresh.
    Reset,
    /// A conversation is deleted.
    Delete,
    /// The plugin is switched off for every host, or removed.
    Disable,
    /// Its code is loaded anew, or its host ends or lets go of it. What it kept stays.
    Restart,
}

impl CleanupReason {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Delete => "delete",
            Self::Disable => "disable",
            Self::Restart => "restart",
        }
    }
}

impl PluginSet {
    /// Tells all plugins. `session` is the conversation that it is about; none where it is about all of them. Answers what failed.
    pub async fn clean_up(&self, reason: CleanupReason, session: Option<&SessionKey>) -> Vec<ServiceFault> {
        let all = self.plugins().map(|plugin| clean_up(plugin, reason, session));
        futures_util::future::join_all(all).await.into_iter().flatten().collect()
    }
}

impl PluginSet {
    /// Stops the services, and tells every plugin that its host ends. What fails is logged: nobody is there any more to be told.
    pub async fn end_living(&self) {
        let mut faults = self.stop_services().await;
        faults.extend(self.clean_up(CleanupReason::Restart, None).await);
        for fault in faults {
            tracing::warn!("{fault}");
        }
    }

    /// Stops the services, and tells every plugin that it ends here: that it is switched off, unless `next` has it or it is one of
    /// `let_go`, which other hosts may have. Returns what failed.
    pub async fn leave(&self, next: &Self, let_go: &[PluginId]) -> Vec<ServiceFault> {
        let mut faults = self.stop_services().await;
        let all = self.plugins().map(|plugin| {
            let stays = next.plugins().any(|other| other.id == plugin.id) || let_go.contains(&plugin.id);
            let reason = if stays { CleanupReason::Restart } else { CleanupReason::Disable };
            clean_up(plugin, reason, None)
        });
        faults.extend(futures_util::future::join_all(all).await.into_iter().flatten());
        faults
    }
}

impl PluginSet {
    /// The plugins of this set that `next` does not have. Whatever they ask to be stored is refused from now on, also by calls of theirs
    /// that still run; when this returns, none of their writes is under way.
    pub async fn close_gone(&self, next: &Self) -> Vec<PluginId> {
        let mut gone = Vec::new();
        for plugin in self.plugins().filter(|plugin| next.plugins().all(|other| other.id != plugin.id)) {
            if let Some(script) = &plugin.script {
                script.close_services().await;
            }
            gone.push(plugin.id.clone());
        }
        gone
    }
}

pub(crate) async fn clean_up(
    plugin: &Running,
    reason: CleanupReason,
    session: Option<&SessionKey>,
) -> Vec<ServiceFault> {
    // As there, no key is no key and not `null`.
    let why = match session {
        Some(session) => json!({ "reason": reason.as_str(), "sessionKey": session }),
        None => json!({ "reason": reason.as_str() }),
    };
    let Ok(why) = JsonText::of(&why) else { return Vec::new() };
    let arguments = Arguments::new([Argument::Json(why)]);
    let told = [OfferKind::SessionExtension, OfferKind::Lifecycle];
    let mut faults = Vec::new();
    for (script, offered) in told.into_iter().flat_map(|kind| of_kind(plugin, kind)) {
        if let Err(error) = script.call_if_there(offered, "cleanup", &arguments, CLEANUP).await {
            faults.push(fault(plugin, offered, format!("did not clean up: {error}")));
        }
    }
    // Nothing of this code is asked any more after one of these.
    if matches!(reason, CleanupReason::Disable | CleanupReason::Restart) {
        for (script, offered) in of_kind(plugin, OfferKind::Lifecycle) {
            if let Err(error) = script.call_if_there(offered, "dispose", &arguments, CLEANUP).await {
                faults.push(fault(plugin, offered, format!("was not disposed of: {error}")));
            }
        }
    }
    faults
}
