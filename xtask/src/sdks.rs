//! The SDKs of model providers that the gateway is tried with, those of agents that our adapters are tried with, the compiler of TypeScript that our reading of it
//! is held against, the plugins of others that ours is tried with, and what drives a browser, from the registries of Python and Node.
//!
//! They are locked, hashes included, and installed once: a stamp beside each installation holds the lock file
//! that it was made from.

use std::path::Path;
use std::process::Command;

use crate::error::Error;
use crate::step::execute;
use crate::workspace::{read, root};

const FOLDER: &str = "crates/cli/tests/sdk";

/// Folders with a locked list of packages of Node's that tests need.
const NODE: &[&str] = &[
    "crates/cli/tests/sdk/node",
    "crates/script/tests/typescript",
    "crates/plugins/tests/packages",
    "crates/gateway/tests/browser",
    "sdk/typescript/tests/agents",
];

/// Installs whatever is missing or was made from another lock file.
pub(crate) fn prepare() -> Result<(), Error> {
    for name in ["sdks", "litellm", "agents", "schemathesis"] {
        let lock = format!("{FOLDER}/python/{name}.txt");
        let venv = root().join("target/sdk").join(name);
        install(&lock, &venv, |venv| python(venv, &lock))?;
    }
    NODE.iter().try_for_each(|folder| {
        let node = root().join(folder);
        install(&format!("{folder}/package-lock.json"), &node.join("node_modules"), |_| npm(&node))
    })
}

/// Calls every method of the SDKs' clients and compares which operations the gateway judges and sends on with what is written down.
pub(crate) fn count() -> Result<(), Error> {
    let mut count = Command::new("cargo");
    count.args(["test", "--package", "backstop-cli", "--test", "sdk", "what_the_", "--", "--nocapture"]);
    count.current_dir(root());
    execute(count)
}

/// Runs `make` unless `made` was made from `lock` as it is now.
pub(crate) fn install(
    lock: &str,
    made: &Path,
    make: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<(), Error> {
    let wanted = read(lock)?;
    let stamp = made.join(".made-from");
    if std::fs::read_to_string(&stamp).is_ok_and(|made_from| made_from == wanted) {
        println!("{lock}: there");
        return Ok(());
    }
    println!("{lock}: missing, installing");
    make(made)?;
    std::fs::write(&stamp, wanted).map_err(|source| Error::File { path: stamp, source })
}

pub(crate) fn python(venv: &Path, lock: &str) -> Result<(), Error> {
    let missing = |_| Error::Missing {
        tool: "python3 with venv",
        hint: "the SDKs need Python 3.11 or newer; on Debian install python3 and python3-venv",
    };
    let mut create = Command::new("python3");
    create.args(["-m", "venv", "--clear"]).arg(venv);
    execute(create).map_err(missing)?;
    let pip = venv.join("bin/pip");
    // The lock lists every package, so pip has nothing to resolve. If it did, it would look for the newest release of
    // a package that is required with an extra (`google-auth[requests]`) and fail as soon as that is not the locked one.
    let mut install = Command::new(&pip);
    install.args(["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]);
    install.arg("--requirement").arg(root().join(lock));
    execute(install)?;
    // What a lock leaves out would otherwise be found by whichever test imports it first.
    let mut check = Command::new(pip);
    check.args(["--disable-pip-version-check", "check"]);
    execute(check)
}

pub(crate) fn npm(folder: &Path) -> Result<(), Error> {
    let mut install = Command::new("npm");
    install.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]);
    install.current_dir(folder);
    execute(install).map_err(|error| match error {
        Error::Start { .. } => Error::Missing {
            tool: "npm",
            hint: "the SDKs need Node 20 or newer; on Debian install nodejs and npm",
        },
        other => other,
    })
}
