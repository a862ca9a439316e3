//! Environment variables in front of a command that make it run other code than it says.
//!
//! [`backstop_shell::variables`] states as a fact which variables those are; this module decides which of their
//! values are ordinary. In a variable, as in a command, a program is ordinary if it is called by its bare name or is in a
//! system folder. A file of the workspace, of a temporary folder or of an unknown place is not.

use std::net::IpAddr;

use backstop_shell::marks::has_hole;
use backstop_shell::variables::{self, Influence, Value};
use backstop_shell::{Place, Process, paths};

use super::git_settings;
use crate::paths::{Class, class};

/// Programs that run what stands behind them.
const INTERPRETERS: [&str; 13] =
    ["sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "env", "eval", "perl", "ruby", "node", "php"];

/// Folders of a workspace in which package managers put the programs they have installed.
const INSTALLED: [&str; 7] = [
    "/node_modules/.bin",
    "/.venv/bin",
    "/venv/bin",
    "/vendor/bin",
    "/.yarn/sdks",
    "/target/debug",
    "/target/release",
];

/// Returns whether a variable that the process is given makes it run, load or find other code.
pub(super) fn runs_code(process: &Process, at: &Place) -> bool {
    let folder = process.cwd().unwrap_or_else(|| at.cwd());
    let by_git = git_settings::run_code(&[], process.environment(), folder, at);
    by_git
        || process.environment().iter().any(|(name, value)| {
            let Some((influence, kind)) = variables::of(name) else { return false };
            // `ENV` is a name that many programs use for something of their own; shells read it when they start.
            let own = name == "ENV" && !INTERPRETERS.contains(&process.program().as_str());
            !own && !value.trim().is_empty() && is_foreign(influence, kind, value, folder, at)
        })
}

fn is_foreign(influence: Influence, kind: Value, value: &str, folder: &str, at: &Place) -> bool {
    match kind {
        Value::Setting => false,
        Value::Code => true,
        Value::Program => is_foreign_program(value, folder, at),
        Value::Options(loading) => loads(value, loading),
        Value::Sources => value.split([',', '|', ' ', '\t', '\n']).any(may_be_changed_on_the_way),
        Value::Folders if influence == Influence::SearchPath => {
            value.split(':').any(|entry| finds_foreign_programs(entry, folder, at))
        }
        Value::Folders => value
            .split(':')
            .any(|entry| !entry.is_empty() && !has_hole(entry) && class_of(entry, folder, at) == Class::Temp),
    }
}

/// Returns whether what is fetched from an address may be another's on the way: it does not go over TLS and leaves this
/// machine.
fn may_be_changed_on_the_way(address: &str) -> bool {
    let Some((scheme, rest)) = address.split_once("://") else { return false };
    let host = rest.split('/').next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(address) => address.split(']').next(),
        None => host.split(':').next(),
    };
    let own = name.is_some_and(|name| {
        name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    });
    let is_safe = ["https", "file", "ssh", "sparse+https", "git+https", "git+ssh"];
    !own && !is_safe.iter().any(|safe| scheme.eq_ignore_ascii_case(safe))
}

fn class_of(path: &str, folder: &str, at: &Place) -> Class {
    class::of(&paths::lexical(path, folder), at)
}

/// A program in a variable, with its options: `vim`, `code --wait`, `/usr/bin/less -R`.
pub(super) fn is_foreign_program(value: &str, folder: &str, at: &Place) -> bool {
    let mut words = value.split_whitespace();
    let program = words.next().unwrap_or_default();
    if value.contains([';', '|', '&', '$', '`', '\n']) || has_hole(program) {
        return true;
    }
    if program.contains('/') {
        return class_of(program, folder, at) != Class::System;
    }
    let interpreter = INTERPRETERS.contains(&program) || program.starts_with("python");
    interpreter && words.next().is_some()
}

/// Returns whether one of the options in a value is among those that load code.
fn loads(value: &str, loading: &[&str]) -> bool {
    let lead = |text: &str| loading.iter().any(|option| text.starts_with(option));
    let value = value.trim_start();
    lead(value)
        || value
            .match_indices(char::is_whitespace)
            .any(|(blank, _)| value.get(blank..).is_some_and(|rest| lead(rest.trim_start())))
}

/// Returns whether an entry of `PATH` may hold programs that stand in for those of the system.
fn finds_foreign_programs(entry: &str, folder: &str, at: &Place) -> bool {
    // What stands behind a mark is not known, and usually what the variable was before.
    if has_hole(entry) {
        return false;
    }
    if !entry.starts_with('/') {
        return !INSTALLED
            .iter()
            .any(|known| format!("/{}", entry.trim_start_matches("./")).ends_with(known));
    }
    match class_of(entry, folder, at) {
        Class::System | Class::Outside => false,
        Class::Temp | Class::Null | Class::Device | Class::History => true,
        _ => !INSTALLED.iter().any(|known| entry.trim_end_matches('/').ends_with(known)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign(name: &str, value: &str) -> bool {
        let place = Place::new("/work/project").with_home("/home/me");
        let (influence, kind) = variables::of(name).expect("a listed variable");
        is_foreign(influence, kind, value, "/work/project", &place)
    }

    #[test]
    fn values_are_foreign_when_they_lead_out_of_what_is_installed() {
        for (name, value) in [
            ("EDITOR", "./x"),
            ("EDITOR", "sh -c id"),
            ("PAGER", "less | sh"),
            ("RUSTC_WRAPPER", "/tmp/x"),
            ("PATH", "/tmp/bin:/usr/bin"),
            ("PATH", ":/usr/bin"),
            ("PATH", "bin:/usr/bin"),
            ("PATH", "/work/project/bin"),
            ("NODE_OPTIONS", "--max-old-space-size=1 --require ./x"),
            ("PYTHONPATH", "src:/tmp/x"),
            ("LD_PRELOAD", "x.so"),
            ("PIP_INDEX_URL", "http://mirror.test/simple"),
            ("GOPROXY", "https://proxy.test,HTTP://mirror.test|direct"),
            ("npm_config_registry", "http://localhost@mirror.test/"),
            ("npm_config_registry", "http://127.0.0.1.mirror.test/"),
        ] {
            assert!(foreign(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("EDITOR", "code --wait"),
            ("PAGER", "/usr/bin/less -R"),
            ("RUSTC_WRAPPER", "sccache"),
            ("PATH", "/usr/local/bin:/home/me/.cargo/bin"),
            ("PATH", "/work/project/node_modules/.bin"),
            ("PATH", "./node_modules/.bin"),
            ("NODE_OPTIONS", "--max-old-space-size=1"),
            ("PYTHONPATH", "src"),
            ("HISTFILE", "/tmp/x"),
            ("PIP_INDEX_URL", "https://mirror.test/simple"),
            ("npm_config_registry", "http://localhost:4873"),
            ("GOPROXY", "off"),
        ] {
            assert!(!foreign(name, value), "{name}={value}");
        }
    }
}
