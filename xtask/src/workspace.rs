//! Where the workspace is, and how its files and commands are reached.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::error::Error;

/// The root of the workspace. Cargo tells where it is when it runs xtask; what it said when it built xtask
/// may be another clone, where several share a target folder.
pub(crate) fn root() -> PathBuf {
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("xtask"), PathBuf::from);
    xtask.parent().map(Path::to_owned).unwrap_or(xtask)
}

/// A command of the cargo that runs xtask, in the root of the workspace.
pub(crate) fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// The text of a file, given from the root of the workspace.
pub(crate) fn read(path: impl AsRef<Path>) -> Result<String, Error> {
    let path = root().join(path);
    std::fs::read_to_string(&path).map_err(|source| Error::File { path, source })
}

/// What cargo knows of the packages of the workspace.
pub(crate) fn packages() -> Result<Vec<Value>, Error> {
    let output = cargo(["metadata", "--offline", "--no-deps", "--format-version", "1"])
        .output()
        .map_err(|source| Error::Start { command: "cargo metadata".to_owned(), source })?;
    let mut metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|source| Error::Json { what: "the answer of `cargo metadata`".to_owned(), source })?;
    Ok(match metadata.get_mut("packages").map(Value::take) {
        Some(Value::Array(packages)) => packages,
        _ => Vec::new(),
    })
}
