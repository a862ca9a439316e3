//! Why a command of xtask did not succeed.

use std::path::PathBuf;
use std::process::ExitStatus;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("unknown command")]
    Usage,
    #[error("`{command}` could not be started: {source}")]
    Start { command: String, source: std::io::Error },
    #[error("`{command}` failed ({status})")]
    Failed { command: String, status: ExitStatus },
    #[error("`{tool}` is missing\nhint: {hint}")]
    Missing { tool: &'static str, hint: &'static str },
    #[error("{path}: {source}", path = .path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{what} is not what it should be: {source}")]
    Json { what: String, source: serde_json::Error },
    #[error("the types for other languages can't be made: {0}")]
    Schema(String),
    #[error("generated files are out of date:\n{}\nhint: run `cargo xtask gen` and commit the result", .0.join("\n"))]
    Drift(Vec<String>),
    #[error("{path}: the generated part stands between `{begin}` and `{end}`, and one of them is missing")]
    Marks { path: &'static str, begin: &'static str, end: &'static str },
    #[error("no benchmark is named `{name}`\nhint: there {}", known(.benches))]
    UnknownBench { name: String, benches: Vec<String> },
    #[error("the soak failed: {0}")]
    Soak(String),
    #[error(
        "the tests catch {caught:.1} % of the mutants, and {least} % is the least\nhint: write the tests that the missed ones fail; docs/mutants.md says which are explained"
    )]
    Mutants { caught: f64, least: f64 },
    #[error("no such client\nhint: there are {}", .clients.join(", "))]
    UnknownClient { clients: &'static [&'static str] },
}

fn known(benches: &[String]) -> String {
    if benches.is_empty() { "are none".to_owned() } else { format!("are {}", benches.join(", ")) }
}
