//! `cargo xtask test`: everything that must pass.
//!
//! Quick steps come first, the tests last, so that what a person sees at the end is their summary. The
//! workspace is built once, as a whole and with one set of features: clippy and rustdoc share the checked
//! dependencies, doc tests and tests the compiled ones. Only the facade is looked at without its features, too:
//! that is four crates of ours and no other dependency anew.

use std::process::Command;

use crate::error::Error;
use crate::step::{Step, run_all};
use crate::workspace::{cargo, root};
use crate::{clients, generate, sdks, setup};

pub(crate) fn run() -> Result<(), Error> {
    let mut docs = cargo(["doc", "--workspace", "--no-deps", "--lib"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    let lints = cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    let mut engine = cargo(["clippy", "-p", "backstop", "--no-default-features", "--lib", "--examples"]);
    engine.args(["--", "-D", "warnings"]);
    run_all(vec![
        Step::new("what the tests need", setup::prepare),
        Step::new("the SDKs that the gateway is tried with", sdks::prepare),
        Step::new("the coding agents that the hooks are tried with", clients::prepare),
        Step::command("form", cargo(["fmt", "--all", "--check"])),
        Step::new("generated files", generate::check),
        Step::command("lints", lints),
        Step::command("the facade without its features", engine),
        Step::command("documentation", docs),
        Step::command("the SDK for Python", python_sdk()),
        Step::command("the SDK for Node", node_sdk()),
        Step::command("doc tests", cargo(["test", "--workspace", "--doc", "--quiet"])),
        Step::command("tests", cargo(tests())),
    ])
}

/// The SDK's own tests, which need nothing but Python 3.9.
fn python_sdk() -> Command {
    let mut tests = Command::new("python3");
    tests
        .args(["-B", "-m", "unittest", "discover", "--start-directory", "sdk/python/tests"])
        .current_dir(root());
    tests
}

/// The SDK's own tests, which need nothing but Node 20.
fn node_sdk() -> Command {
    let mut tests = Command::new("node");
    let files = ["sdk/typescript/tests/hooks.test.js", "sdk/typescript/tests/conformance.test.js"];
    tests.arg("--test").args(files).current_dir(root());
    tests
}

/// The command that runs the tests: nextest where it is installed, since it runs them in parallel across
/// crates; cargo's own runner else.
fn tests() -> Vec<&'static str> {
    let runner = if setup::has_nextest() {
        &["nextest", "run", "--no-fail-fast"][..]
    } else {
        &["test", "--no-fail-fast"][..]
    };
    [runner, &["--workspace", "--all-targets"]].concat()
}
