//! Puts in place what the tests need and a fresh clone lacks.
//!
//! Each need is one line in [`NEEDS`]: how to see whether it is there, and how to get it or what to tell
//! the person who has to. What only makes things nicer is not a need: without `cargo-nextest`, `cargo test`
//! runs the same tests.

use std::process::{Command, Stdio};

use crate::error::Error;
use crate::step::execute;
use crate::workspace::root;

struct Need {
    tool: &'static str,
    /// Succeeds when the tool is there.
    probe: &'static [&'static str],
    /// Gets the tool.
    install: &'static [&'static str],
    hint: &'static str,
}

const NEEDS: &[Need] = &[
    Need {
        tool: "rustfmt",
        probe: &["cargo", "fmt", "--version"],
        install: &["rustup", "component", "add", "rustfmt"],
        hint: "install rustfmt for this toolchain",
    },
    Need {
        tool: "clippy",
        probe: &["cargo", "clippy", "--version"],
        install: &["rustup", "component", "add", "clippy"],
        hint: "install clippy for this toolchain",
    },
    Need {
        tool: "dash",
        probe: &["dash", "-c", ":"],
        install: &["apt-get", "install", "--yes", "--no-install-recommends", "dash"],
        hint: "the analysis of commands is held against real shells; install bash, dash and zsh",
    },
    Need {
        tool: "zsh",
        probe: &["zsh", "-f", "-c", ":"],
        install: &["apt-get", "install", "--yes", "--no-install-recommends", "zsh"],
        hint: "the analysis of commands is held against real shells; install bash, dash and zsh",
    },
    Need {
        tool: "sudo",
        probe: &["sudo", "--version"],
        install: &["apt-get", "install", "--yes", "--no-install-recommends", "sudo"],
        hint: "who may answer for others is held against the real sudo; install it",
    },
    Need {
        tool: "openssl",
        probe: &["openssl", "version"],
        install: &["apt-get", "install", "--yes", "--no-install-recommends", "openssl"],
        hint: "time stamps of the audit trail are held against a real authority, `openssl ts`; install openssl",
    },
    Need {
        tool: "git",
        probe: &["git", "--version"],
        install: &["apt-get", "install", "--yes", "--no-install-recommends", "git"],
        hint: "Git repositories that are witnesses are tried with the real git; install it",
    },
    Need {
        tool: "chromium",
        probe: &["chromium", "--version"],
        install: &["apt-get", "install", "--yes", "--no-install-recommends", "chromium"],
        hint: "the console is tried in a real browser; install Chromium, so that `chromium` starts it",
    },
    Need {
        tool: "postgresql",
        probe: &["sh", "-c", "ls /usr/lib/postgresql/*/bin/initdb /usr/lib/postgresql/*/bin/postgres"],
        install: &["apt-get", "install", "--yes", "--no-install-recommends", "postgresql"],
        hint: "the store that machines share is tried on a real server; install PostgreSQL 13 or newer",
    },
];

/// Gets whatever is missing.
pub(crate) fn prepare() -> Result<(), Error> {
    for need in NEEDS {
        if answers(need.probe) {
            println!("{}: there", need.tool);
            continue;
        }
        println!("{}: missing, installing", need.tool);
        let missing = || Error::Missing { tool: need.tool, hint: need.hint };
        command(need.install).ok_or_else(missing).and_then(execute).map_err(|_| missing())?;
    }
    Ok(())
}

/// Whether `cargo nextest` can be used.
pub(crate) fn has_nextest() -> bool {
    answers(&["cargo", "nextest", "--version"])
}

fn answers(probe: &[&str]) -> bool {
    command(probe).is_some_and(|mut command| {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    })
}

fn command(words: &[&str]) -> Option<Command> {
    let (program, args) = words.split_first()?;
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    Some(command)
}
