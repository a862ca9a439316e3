//! The coding agents that Backstop is tried with, from npm, at the versions that were seen to behave.
//!
//! `cargo xtask live-clients` installs them below `target/clients` and drives them; the tests themselves are in
//! `crates/cli/tests/live`. A client is locked there by `package.json` and `package-lock.json`, hashes included. Install
//! scripts never run: every program is in a package.
//!
//! `cargo xtask client-versions` tells which of them are behind, and with `--try` what the newest ones do. It is made to
//! be run on a schedule: hooks change between releases, mostly without a word.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value};

use crate::error::Error;
use crate::step::execute;
use crate::workspace::{cargo, read, root};

const FOLDER: &str = "crates/cli/tests/live/clients";

/// All, in the order in which they are told. `cargo xtask test` drives the first two in every way, and all in the one that
/// counts where their model calls go.
const ALL: &[&str] = &["claude", "codex", "gemini", "qwen", "copilot", "cline", "opencode"];

/// Installs what `cargo xtask test` drives.
pub(crate) fn prepare() -> Result<(), Error> {
    ALL.iter().try_for_each(|client| install(client))
}

/// Installs the clients of these names, or all, and drives them.
pub(crate) fn live(names: &[&str]) -> Result<(), Error> {
    let clients = known(names)?;
    clients.iter().try_for_each(|client| install(client))?;
    drive(&clients, &root().join("target/clients"))
}

/// Tells how the locked versions differ from the newest; with `try_them`, drives the newest as well.
pub(crate) fn versions(try_them: bool, names: &[&str]) -> Result<(), Error> {
    let clients = known(names)?;
    let mut behind = Vec::new();
    for client in clients {
        let mut manifest = manifest(client)?;
        let mut moved = false;
        for (package, version) in packages(&mut manifest) {
            let newest = newest(package)?;
            let locked = version.as_str().unwrap_or_default();
            if locked == newest {
                println!("{client}: {package} {locked} is the newest");
            } else {
                println!("{client}: {package} {locked} -> {newest}");
                *version = newest.into();
                moved = true;
            }
        }
        if moved {
            behind.push((client, manifest));
        }
    }
    if !try_them || behind.is_empty() {
        return Ok(());
    }
    let place = root().join("target/clients-newest");
    for (client, manifest) in &behind {
        let folder = place.join(client);
        write(&folder, "package.json", &format!("{:#}\n", Value::Object(manifest.clone())))?;
        npm(&folder, &["install", "--omit-lockfile-registry-resolved"])?;
    }
    let names: Vec<_> = behind.iter().map(|(client, _)| *client).collect();
    drive(&names, &place)
        .inspect(|()| println!("the newest versions behave as the locked ones"))
        .inspect_err(|_| println!("what failed above is what changed since the locked versions"))
}

fn known(names: &[&str]) -> Result<Vec<&'static str>, Error> {
    if names.is_empty() {
        return Ok(ALL.to_vec());
    }
    names
        .iter()
        .map(|name| ALL.iter().find(|known| *known == name).copied())
        .map(|found| found.ok_or(Error::UnknownClient { clients: ALL }))
        .collect()
}

/// Runs the tests of these clients with what is installed below `place`.
fn drive(clients: &[&str], place: &Path) -> Result<(), Error> {
    let arguments = ["test", "--package", "backstop-cli", "--test", "live", "--test", "live-more"];
    let mut command = cargo(arguments);
    command.args(["--no-fail-fast", "--", "--test-threads=2"]);
    command.args(clients.iter().map(|client| format!("{client}::")));
    command.env("BACKSTOP_TEST_CLIENTS", place);
    execute(command)
}

/// Installs a client unless it was installed from the lock file as it is now.
fn install(client: &str) -> Result<(), Error> {
    let lock = format!("{FOLDER}/{client}/package-lock.json");
    let wanted = read(&lock)?;
    let folder = root().join("target/clients").join(client);
    let stamp = folder.join("made-from.json");
    if std::fs::read_to_string(&stamp).is_ok_and(|made_from| made_from == wanted) {
        println!("{client}: there");
        return Ok(());
    }
    println!("{client}: missing, installing");
    write(&folder, "package.json", &read(format!("{FOLDER}/{client}/package.json"))?)?;
    write(&folder, "package-lock.json", &wanted)?;
    // Not `ci`: it wants each package of each platform in the lock, also those that were never published.
    npm(&folder, &["install"])?;
    write(&folder, "made-from.json", &wanted)
}

fn npm(folder: &Path, what: &[&str]) -> Result<(), Error> {
    let mut command = Command::new("npm");
    command.args(what).args(["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
    command.current_dir(folder);
    execute(command).map_err(without_npm)
}

fn without_npm(error: Error) -> Error {
    match error {
        Error::Start { .. } => Error::Missing {
            tool: "npm",
            hint: "the coding agents need Node 20 or newer; on Debian install nodejs and npm",
        },
        other => other,
    }
}

/// The version that npm calls `latest`.
fn newest(package: &str) -> Result<String, Error> {
    let mut command = Command::new("npm");
    command.args(["view", package, "version"]);
    let shown = format!("npm view {package} version");
    let failed = |source| without_npm(Error::Start { command: shown.clone(), source });
    let output = command.output().map_err(failed)?;
    if !output.status.success() {
        return Err(Error::Failed { command: shown, status: output.status });
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn manifest(client: &str) -> Result<Map<String, Value>, Error> {
    let path = format!("{FOLDER}/{client}/package.json");
    serde_json::from_str(&read(&path)?).map_err(|source| Error::Json { what: path, source })
}

/// The client's own packages with their versions. Its Node, an optional dependency, stays as it is.
fn packages(manifest: &mut Map<String, Value>) -> impl Iterator<Item = (&String, &mut Value)> {
    manifest.get_mut("dependencies").and_then(Value::as_object_mut).into_iter().flatten()
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), Error> {
    let path: PathBuf = folder.join(name);
    let failed = |source| Error::File { path: path.clone(), source };
    std::fs::create_dir_all(folder).map_err(failed)?;
    std::fs::write(&path, text).map_err(failed)
}
