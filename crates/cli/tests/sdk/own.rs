//! Our own SDKs, as clients of the decision API of `backstop serve`, and their adapters with the real packages that they are for.
//!
//! The tests are written in the languages of the SDKs. Each starts a `backstop serve`, and where an agent is driven a scripted model; here
//! they are given the program that was built.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{BACKSTOP, in_node, in_venv};

const SERVED: &str = "../../sdk/python/tests/served";

/// Runs tests of an SDK; what they say of a failure is shown.
#[track_caller]
fn passes(mut command: Command) {
    command.env("BACKSTOP_TEST_PROGRAM", BACKSTOP).env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|error| {
        panic!("{command:?}: {error}; `cargo xtask test` installs what the SDKs are tried with")
    });
    let told = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&told));
}

fn in_folder(mut command: Command, script: &str) -> Command {
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(SERVED).join(script));
    command
}

/// Runs a script with the packages of a locked list.
#[track_caller]
fn with(packages: &str, script: &str) {
    let named = in_venv(packages, "");
    passes(in_folder(Command::new(named.get_program()), script));
}

#[track_caller]
fn agents(script: &str) {
    with("agents", script);
}

#[track_caller]
fn node(tests: &str) {
    let mut command = Command::new("node");
    command.arg("--test").args(in_node(tests).get_args());
    passes(command);
}

#[test]
fn the_api_does_what_its_document_says() {
    with("schemathesis", "document.py");
}

#[test]
fn the_client_in_python() {
    passes(in_folder(Command::new("python3"), "test_client.py"));
}

#[test]
fn the_client_in_node() {
    node("../../../../../sdk/typescript/tests/served/client.test.js");
}

#[test]
fn the_adapter_for_langchain() {
    agents("agents_langchain.py");
}

#[test]
fn the_adapter_for_the_openai_agents_sdk() {
    agents("agents_openai.py");
}

#[test]
fn the_adapter_for_pydantic_ai() {
    agents("agents_pydantic.py");
}

#[test]
fn the_adapter_for_the_claude_agent_sdk() {
    node("../../../../../sdk/typescript/tests/agents/claude-agent.test.js");
}

#[test]
fn the_adapter_for_the_vercel_ai_sdk() {
    node("guarded_tools.test.mjs");
}
