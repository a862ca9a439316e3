//! The Landlock tier: the kernel lets a process and its children reach what is granted, and nothing else.
//!
//! Landlock has no exceptions: a grant for a folder holds for all in it. So a folder with a wall somewhere below it is
//! granted child by child, and the folder itself is not: new names can't be made directly in it. Links among the
//! children need no grant, since what counts is where they lead.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};

use crate::walls::{Rights, Standing};

/// The version of the interface whose rights are handled. Before it, files could always be truncated.
const FILES: ABI = ABI::V3;
/// The rights that a file can have.
const OF_FILES: BitFlags<AccessFs> =
    landlock::make_bitflags!(AccessFs::{Execute | ReadFile | WriteFile | Truncate});
/// The most grants. A folder above a wall with more children than that can't be walled.
const MOST_GRANTS: usize = 50_000;

/// Why the walls could not be built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileWallError {
    #[error("the kernel refuses: {0}")]
    Refused(#[from] RulesetError),
    #[error("`{path}` can't be listed: {source}")]
    Listing { path: String, source: io::Error },
    #[error("there are more than {MOST_GRANTS} names beside protected ones")]
    TooMany,
    #[error("the kernel enforces a part only")]
    InPart,
}

/// Whether the kernel can keep signals inside.
pub(crate) fn walls_signals() -> bool {
    signals().is_ok()
}

fn files() -> Result<RulesetCreated, RulesetError> {
    strict().handle_access(AccessFs::from_all(FILES))?.create()
}

fn signals() -> Result<RulesetCreated, RulesetError> {
    strict().scope(Scope::Signal)?.create()
}

fn strict() -> Ruleset {
    Ruleset::default().set_compatibility(CompatLevel::HardRequirement)
}

/// Keeps this process, and what it starts, from sending signals to others.
pub(crate) fn keep_signals_inside() -> Result<(), FileWallError> {
    enforce(signals()?)
}

/// Keeps this process, and what it starts, from sockets without a place on the disk that others listen at.
pub(crate) fn keep_off_abstract_sockets() -> Result<(), FileWallError> {
    enforce(strict().scope(Scope::AbstractUnixSocket)?.create()?)
}

/// Builds the walls around this process, and what it starts.
pub(crate) fn keep_files_off(standing: &Standing) -> Result<(), FileWallError> {
    let mut grants = Vec::new();
    divide(Path::new("/"), standing, &mut grants)?;
    // Names in folders are no secret, and programs are told from files by their content, which has to be read.
    let everywhere = AccessFs::ReadDir | AccessFs::Execute;
    let mut rules = files()?.add_rule(PathBeneath::new(PathFd::new("/").map_err(gone("/"))?, everywhere))?;
    for (path, rights) in grants {
        // What has gone since it was listed needs no grant.
        let Ok(opened) = PathFd::new(&path) else { continue };
        let all = access(rights);
        let allowed = if path.is_dir() { all } else { all & OF_FILES };
        rules = rules.add_rule(PathBeneath::new(opened, allowed))?;
    }
    enforce(rules)
}

fn gone(path: &str) -> impl FnOnce(landlock::PathFdError) -> FileWallError {
    move |error| FileWallError::Listing { path: path.to_owned(), source: io::Error::other(error) }
}

fn enforce(rules: RulesetCreated) -> Result<(), FileWallError> {
    let status = rules.restrict_self()?;
    if status.ruleset == RulesetStatus::FullyEnforced { Ok(()) } else { Err(FileWallError::InPart) }
}

fn access(rights: Rights) -> BitFlags<AccessFs> {
    let mut access = AccessFs::ReadDir | AccessFs::Execute;
    if rights.read {
        access |= AccessFs::ReadFile;
    }
    if rights.write {
        access |= AccessFs::from_write(FILES);
    }
    access
}

/// Grants `path` whole, or each of its children where rights change below it.
fn divide(
    path: &Path,
    standing: &Standing,
    grants: &mut Vec<(PathBuf, Rights)>,
) -> Result<(), FileWallError> {
    if !standing.is_divided(path) {
        let rights = standing.rights(path);
        if rights.read || rights.write {
            grants.push((path.to_path_buf(), rights));
        }
        return if grants.len() > MOST_GRANTS { Err(FileWallError::TooMany) } else { Ok(()) };
    }
    let listing = |source| FileWallError::Listing { path: path.display().to_string(), source };
    for child in fs::read_dir(path).map_err(listing)? {
        let child = child.map_err(listing)?;
        if !child.file_type().map_err(listing)?.is_symlink() {
            divide(&child.path(), standing, grants)?;
        }
    }
    Ok(())
}
