//! A Git repository as a witness: each checkpoint is a commit on a branch of it.

use std::path::Path;
use std::sync::Arc;

use backstop_config::{AuditWitness, ConfigError, Loaded};
use backstop_store::Store;
use backstop_trail::{GitBranch, GitBranches, GitError, GitSettings, SignedCheckpoint};

use super::{
    Lately, SELDOM, TIMEOUT_OF_GIT, TRIES, WitnessError, Witnessed, aside, fitting, is_signed, newest,
    own_keys, wrong,
};
use crate::locations::{from_operator, store_path};

/// A repository.
#[derive(Debug)]
pub(super) struct Repository {
    branches: Arc<GitBranches>,
    lately: Lately,
}

impl Repository {
    /// Returns the repository that the configuration names.
    pub(super) fn of(
        loaded: &Loaded,
        witness: &AuditWitness,
        url: &str,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        // Beside the database, where no agent that is shut in writes.
        let path = store_path(loaded, environment).ok();
        let scratch = path.as_deref().and_then(Path::parent).map(Path::to_path_buf).ok_or_else(|| {
            let message = "there is no folder beside which `git` could work".to_owned();
            wrong(&witness.to.at, message, "name the database in `store.path`")
        })?;
        let file = |setting: &Option<backstop_config::Spanned<backstop_config::Text>>| {
            setting.as_ref().map(|file| from_operator(loaded, file.value.expose()))
        };
        let branches = GitBranches::new(GitSettings {
            url: url.to_owned(),
            ssh_key: witness.ssh_key.as_ref().map(|file| from_operator(loaded, file.value.expose())),
            known_hosts: file(&witness.known_hosts),
            authorities: file(&witness.ca_file),
            budget: TIMEOUT_OF_GIT,
            scratch,
        });
        Ok(Self { branches: Arc::new(branches), lately: Lately::every(SELDOM) })
    }

    pub(super) fn name(&self) -> String {
        self.branches.url().to_owned()
    }

    /// Returns whether a checkpoint is to be pushed again.
    pub(super) fn is_due(&self) -> bool {
        self.lately.is_due()
    }

    /// Pushes the newest checkpoint, and compares the one that is there.
    pub(super) async fn tell(&self, store: &dyn Store) -> Result<Witnessed, WitnessError> {
        let mut raced = None;
        for _ in 0..TRIES {
            match self.push(store).await {
                Err(WitnessError::Git(error @ GitError::Raced(_))) => raced = Some(error),
                told => return told.inspect(|_| self.lately.keep()),
            }
        }
        Err(raced.map_or(WitnessError::Empty, WitnessError::Git))
    }

    async fn push(&self, store: &dyn Store) -> Result<Witnessed, WitnessError> {
        let (keys, mut ours) = (own_keys(store).await?, newest(store).await?);
        let origin = ours.checkpoint().origin.clone();
        let is_own = |note: &&SignedCheckpoint| is_signed(note, &keys);
        let mut branch = self.read(&origin, GitBranches::newest).await?;
        // Something else at the end hides what stands before it from nobody.
        if branch.unreadable > 0 || branch.notes.first().is_some_and(|note| !is_signed(note, &keys)) {
            branch = self.read(&origin, GitBranches::all).await?;
        }
        if let Some(known) = branch.notes.iter().find(is_own) {
            ours = fitting(store, known).await?;
            if known.checkpoint() == ours.checkpoint() {
                return Ok(has(known));
            }
        }
        if !is_signed(&ours, &keys) {
            return Err(WitnessError::NotOurs);
        }
        let (branches, note) = (Arc::clone(&self.branches), ours.clone());
        aside(move || Ok(branches.add(branch, &note)?)).await?;
        Ok(has(&ours))
    }

    /// Returns the checkpoints on the branch of this trail, and what is to be said of the others.
    pub(super) async fn kept(
        &self,
        store: &dyn Store,
    ) -> Result<(Vec<String>, Vec<WitnessError>), WitnessError> {
        let branch = self.read(&store.audit_origin().await?, GitBranches::all).await?;
        let mut untold = Vec::new();
        if branch.unreadable > 0 {
            untold.push(WitnessError::Unreadable(branch.unreadable));
        }
        if branch.is_cut {
            untold.push(WitnessError::TooLong(branch.notes.len()));
        }
        if branch.notes.is_empty() && untold.is_empty() {
            return Err(WitnessError::Empty);
        }
        Ok((branch.notes.iter().map(SignedCheckpoint::to_string).collect(), untold))
    }

    async fn read(
        &self,
        origin: &str,
        how: fn(&GitBranches, &str) -> Result<GitBranch, GitError>,
    ) -> Result<GitBranch, WitnessError> {
        let (branches, origin) = (Arc::clone(&self.branches), origin.to_owned());
        aside(move || Ok(how(&branches, &origin)?)).await
    }
}

fn has(note: &SignedCheckpoint) -> Witnessed {
    Witnessed { entries: note.checkpoint().size, at: None, checkpoint: note.to_string() }
}
