//! Carrying out a patch: in memory first, then on disk, all of it or nothing.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;

use super::PatchError;
use super::parse::{Hunk, Operation};
use super::place::apply_hunks;
use crate::tools::workspace::{Located, SetAside, Staged, Workspace, WorkspaceError};

/// A patch is carried out in memory, so all of its files together are bounded: by as much as this many files of the
/// largest size.
const FILES_AT_THE_LIMIT: u64 = 4;

/// Applies `operations`; one line of summary for each.
pub(super) fn apply(
    workspace: &Workspace,
    operations: &[Operation],
    limit: u64,
) -> Result<Vec<String>, PatchError> {
    let _writing = workspace.exclusive();
    let mut plan = Plan { workspace, limit, loaded: 0, changes: BTreeMap::new() };
    let summary = operations.iter().map(|operation| plan.carry_out(operation)).collect::<Result<_, _>>()?;
    plan.commit()?;
    Ok(summary)
}

/// What the files touched so far will be.
struct Plan<'a> {
    workspace: &'a Workspace,
    /// Most bytes of one file.
    limit: u64,
    /// Bytes of all files so far.
    loaded: u64,
    changes: BTreeMap<PathBuf, Change>,
}

struct Change {
    at: Located,
    before: Option<String>,
    after: Option<String>,
    /// The file whose permissions a new file gets.
    like: Located,
}

impl Plan<'_> {
    fn carry_out(&mut self, operation: &Operation) -> Result<String, PatchError> {
        match operation {
            Operation::Add { path, content } => {
                self.create(path, content.clone(), None)?;
                Ok(format!("added `{path}`"))
            }
            Operation::Delete { path, hunks } => {
                let (_, content) = self.take(path)?;
                self.require_emptied(path, &content, hunks)?;
                Ok(format!("deleted `{path}`"))
            }
            Operation::Update { path, move_to: Some(target), hunks } => {
                let (source, content) = self.take(path)?;
                let content = apply_hunks(path, &content, hunks)?;
                self.create(target, content, Some(source))?;
                Ok(format!("moved `{path}` to `{target}`"))
            }
            Operation::Update { path, move_to: None, hunks } => {
                let change = self.existing(path)?;
                let content = change.after.as_deref().unwrap_or_default();
                change.after = Some(apply_hunks(path, content, hunks)?);
                Ok(format!("updated `{path}`"))
            }
        }
    }

    fn create(&mut self, path: &str, content: String, like: Option<Located>) -> Result<(), PatchError> {
        let change = self.load(path)?;
        if change.after.is_some() {
            return Err(PatchError::Exists { path: path.to_owned() });
        }
        change.after = Some(content);
        if let Some(like) = like {
            change.like = like;
        }
        Ok(())
    }

    fn take(&mut self, path: &str) -> Result<(Located, String), PatchError> {
        let change = self.existing(path)?;
        Ok((change.at.clone(), change.after.take().unwrap_or_default()))
    }

    /// A deletion that shows what it deletes must show all of it.
    fn require_emptied(&self, path: &str, content: &str, hunks: &[Hunk]) -> Result<(), PatchError> {
        let Some(first) = hunks.first() else { return Ok(()) };
        match apply_hunks(path, content, hunks)?.is_empty() {
            true => Ok(()),
            false => Err(PatchError::NoFit {
                line: first.line,
                path: path.to_owned(),
                problem: "the file has more lines than the deletion shows".to_owned(),
            }),
        }
    }

    fn existing(&mut self, path: &str) -> Result<&mut Change, PatchError> {
        let root = self.workspace.root().display().to_string();
        let change = self.load(path)?;
        match change.after {
            Some(_) => Ok(change),
            None => Err(WorkspaceError::NotFound { path: path.to_owned(), root }.into()),
        }
    }

    fn load(&mut self, path: &str) -> Result<&mut Change, PatchError> {
        let at = self.workspace.resolve(path)?;
        let most = self.limit.saturating_mul(FILES_AT_THE_LIMIT);
        match self.changes.entry(at.relative().to_path_buf()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let before = match self.workspace.exists(&at)? {
                    true => Some(text(self.workspace, &at, self.limit)?),
                    false => None,
                };
                let bytes = before.as_ref().map_or(0, String::len);
                self.loaded = self.loaded.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
                if self.loaded > most {
                    return Err(PatchError::TooMuch { limit: most });
                }
                Ok(place.insert(Change { like: at.clone(), at, after: before.clone(), before }))
            }
        }
    }

    fn commit(self) -> Result<(), PatchError> {
        let mut staged = Vec::new();
        let mut deleted = Vec::new();
        for change in self.changes.into_values().filter(|change| change.before != change.after) {
            match &change.after {
                Some(content) => {
                    let new = self.workspace.stage_like(&change.at, content.as_bytes(), &change.like)?;
                    staged.push((new, change));
                }
                None => deleted.push(change),
            }
        }
        let mut undo = Undo::default();
        for (new, change) in staged {
            if let Err(cause) = new.publish() {
                return Err(undo.roll_back(self.workspace, cause));
            }
            undo.replaced.push(change);
        }
        for change in deleted {
            match self.workspace.set_aside(&change.at) {
                Ok(aside) => undo.aside.push((aside, change.at.relative().to_path_buf())),
                Err(cause) => return Err(undo.roll_back(self.workspace, cause)),
            }
        }
        for (aside, _) in undo.aside {
            // The file is gone from its place; the patch is applied even if its remains could not be removed.
            let _ = aside.discard();
        }
        Ok(())
    }
}

/// What was done so far, to be taken back.
#[derive(Default)]
struct Undo {
    replaced: Vec<Change>,
    aside: Vec<(SetAside, PathBuf)>,
}

impl Undo {
    fn roll_back(self, workspace: &Workspace, cause: WorkspaceError) -> PatchError {
        let mut left = Vec::new();
        for (aside, path) in self.aside {
            if aside.restore().is_err() {
                left.push(format!("`{}`", path.display()));
            }
        }
        for change in self.replaced.into_iter().rev() {
            let undone = match &change.before {
                Some(before) => workspace.stage(&change.at, before.as_bytes()).and_then(Staged::publish),
                None => workspace.remove(&change.at),
            };
            if undone.is_err() {
                left.push(format!("`{}`", change.at.shown()));
            }
        }
        match left.is_empty() {
            true => cause.into(),
            false => PatchError::Torn { cause, left: left.join(", ") },
        }
    }
}

fn text(workspace: &Workspace, at: &Located, limit: u64) -> Result<String, PatchError> {
    let bytes = workspace.read_file(at, limit)?;
    String::from_utf8(bytes).map_err(|_| PatchError::NotText { path: at.shown().to_owned() })
}
