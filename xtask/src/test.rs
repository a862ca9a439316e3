//! `cargo xtask test`: everything that must pass.
//!
//! Quick steps come first, the tests last, so that what a person sees at the end is their summary. The
//! workspace is built once, as a whole and with one set of features: clippy and rustdoc share the checked
//! dependencies, doc tests and tests the compiled ones. Only the facade is looked at without its features, too:
//! that is four crates of ours and no other dependency anew.

use crate::error::Error;
use crate::step::{Step, run_all};
use crate::workspace::cargo;
use crate::{clients, generate, hook_sdks, prometheus, sdks, setup};

pub(crate) fn run() -> Result<(), Error> {
    let mut docs = cargo(["doc", "--workspace", "--no-deps", "--lib"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    let lints = cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    let mut engine = cargo(["clippy", "-p", "backstop", "--no-default-features", "--lib", "--examples"]);
    engine.args(["--", "-D", "warnings"]);
    run_all(vec![
        Step::new("what the tests need", setup::prepare),
        Step::new("the Prometheus that the metrics are tried with", prometheus::prepare),
        Step::new("the SDKs that the gateway is tried with", sdks::prepare),
        Step::new("what the SDKs for hooks are tried with", hook_sdks::prepare),
        Step::new("the coding agents that the hooks are tried with", clients::prepare),
        Step::command("form", cargo(["fmt", "--all", "--check"])),
        Step::new("generated files", generate::check),
        Step::command("lints", lints),
        Step::command("the facade without its features", engine),
        Step::command("documentation", docs),
        Step::new("the SDK for Python", hook_sdks::python),
        Step::new("the SDK for Node and Bun", hook_sdks::typescript),
        Step::command("doc tests", cargo(["test", "--workspace", "--doc", "--quiet"])),
        Step::command("tests", cargo(tests())),
    ])
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
