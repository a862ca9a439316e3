//! What plugins bring to a host besides hooks, and how another set of plugins takes the place of one.
//!
//! The law of a reload: *whole or not at all*. The next set is loaded and its hooks find their seats before anything of the old one
//! is touched; what can't be had changes nothing. Then hooks and tools change in one step, a call under way ends on the code that it
//! began with, and services follow: the old ones stop before the new ones start, since both would want the same port or file.
//!
//! What a plugin keeps with conversations is deleted when it is removed, or switched off by the command line: by a host that had it loaded,
//! once none of its writes can come any more, and for one that was switched off while no host ran, by the next host that starts. A
//! configuration counts for its own host only, so a plugin that it switches off keeps what it has: another host may have the plugin loaded
//! and use the same store.

use std::time::Duration;

use backstop_hooks::{OwnerId, SessionKey};
use backstop_plugins::manifest::PluginId;
use backstop_plugins::offers::commands::PluginCommand;
use backstop_plugins::offers::lifecycle::CleanupReason;
use backstop_plugins::offers::services::ServiceFault;
use backstop_plugins::set::PluginSet;
use backstop_store::Forget;

use crate::builder::Backstop;
use crate::configured::named_files;
use crate::error::BuildError;
use crate::lower;
use crate::policy::PolicyParts;
use crate::policy::PolicyPlugin;

/// How long calls of a plugin may go on after another set took its place.
const PATIENCE: Duration = Duration::from_mins(11);

impl Backstop {
    /// The commands of conversations that plugins bring.
    pub fn commands(&self) -> Vec<PluginCommand> {
        self.plugins.commands().collect()
    }

    /// Starts what plugins have run beside a host: for a host that lives, and not for one that answers a question. What plugins kept
    /// that are switched off in the list of what is installed is deleted. Answers what failed.
    pub async fn start_plugins(&mut self) -> Vec<ServiceFault> {
        self.is_live = true;
        let mut faults = self.forget(&self.switched_off, &Forget::Everything).await;
        faults.extend(self.plugins.start_services().await);
        faults
    }

    /// Deletes what these plugins keep. Answers what was not deleted.
    async fn forget(&self, plugins: impl IntoIterator<Item = &PluginId>, what: &Forget) -> Vec<ServiceFault> {
        let mut faults = Vec::new();
        for id in plugins {
            if let Err(error) = self.store.forget_owner(&OwnerId::new(id.as_str()), what).await {
                let service = "what is kept with conversations".to_owned();
                faults.push(ServiceFault {
                    plugin: id.clone(),
                    service,
                    why: format!("was not deleted: {error}"),
                });
            }
        }
        faults
    }

    /// Takes the store from the plugins that are in `old` and not in `next`, and deletes what they keep, but for those that this host
    /// only lets go of.
    async fn forget_gone(&self, old: &PluginSet, next: &PluginSet, let_go: &[PluginId]) -> Vec<ServiceFault> {
        let gone = old.close_gone(next).await;
        self.forget(gone.iter().filter(|id| !let_go.contains(id)), &Forget::Everything).await
    }

    /// Tells plugins that a conversation is begun afresh, or deleted. What they keep with it is forgotten; with one that is deleted
    /// the store has done that. Answers what failed.
    pub async fn clean_up_session(&self, reason: CleanupReason, session: &SessionKey) -> Vec<ServiceFault> {
        let mut faults = self.plugins.clean_up(reason, Some(session)).await;
        if reason == CleanupReason::Reset {
            faults.extend(self.forget(self.plugins.ids(), &Forget::Session(session.clone())).await);
        }
        faults
    }

    /// Loads the plugins anew, and has them take the place of those that are there; the configuration stays as it is. Tools and
    /// commands are to be asked for again afterwards. Answers what of the old ones did not stop and of the new ones did not start.
    ///
    /// # Errors
    ///
    /// [`BuildError`]: a plugin that is on can't be had, or a gate of it can't stand. Then nothing has changed.
    pub async fn reload_plugins(&mut self) -> Result<Vec<ServiceFault>, BuildError> {
        let Some(folder) = &self.folder else { return Ok(Vec::new()) };
        let whose = self.whose.clone();
        let lower::plugins::Found { set: next, let_go, on, .. } =
            lower::plugins::load(&self.config, folder, whose, &self.store, None).await?;
        let change = self.engine.registry().update(|snapshot| {
            for id in self.plugins.ids() {
                snapshot.remove_owner(&OwnerId::new(id.as_str()));
            }
            next.seat(snapshot)
        });
        match change {
            Ok(seated) => {
                self.seated = seated;
                self.rename_policy(on).await;
            }
            Err(error) => {
                next.shut_down().await;
                return Err(error.into());
            }
        }
        let old = std::mem::replace(&mut self.plugins, next);
        let mut faults = Vec::new();
        if self.is_live {
            faults.extend(old.leave(&self.plugins, &let_go).await);
        }
        faults.extend(self.forget_gone(&old, &self.plugins, &let_go).await);
        if self.is_live {
            faults.extend(self.plugins.start_services().await);
        }
        self.retiring.retain(|retiring| !retiring.is_finished());
        self.retiring.push(tokio::spawn(old.retire(PATIENCE)));
        Ok(faults)
    }

    /// Has entries name the policy with these plugins from here on. What was judged before is written first, and names the one before.
    async fn rename_policy(&self, plugins: Vec<PolicyPlugin>) {
        if let Some(audit) = self.audit() {
            audit.flush().await;
        }
        let key = self.store.digest_key().cloned();
        let hooks = Some(self.engine.registry().snapshot().hook_set().digest());
        let named = named_files(&self.config);
        let parts = PolicyParts::of_configuration(&self.config, key.as_deref());
        let parts = PolicyParts { named, plugins, hooks, ..parts };
        self.policy.change(parts.version());
    }

    /// Has `next` live in the place of this one, which still answers what it was asked. Answers what did not stop or start.
    pub async fn hand_over(&mut self, next: &mut Self) -> Vec<ServiceFault> {
        let mut faults = Vec::new();
        if std::mem::take(&mut self.is_live) {
            faults.extend(self.plugins.leave(&next.plugins, &next.let_go).await);
        }
        faults.extend(self.forget_gone(&self.plugins, &next.plugins, &next.let_go).await);
        faults.extend(next.start_plugins().await);
        faults
    }

    /// Stops what lives beside the hooks, and takes the plugins down.
    pub(crate) async fn end_plugins(&mut self) {
        if std::mem::take(&mut self.is_live) {
            self.plugins.end_living().await;
        }
        self.plugins.shut_down().await;
        // What still ends is ended with the process.
        for retiring in self.retiring.drain(..) {
            retiring.abort();
        }
    }
}
