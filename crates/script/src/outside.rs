//! What a script's programs are started with, as the embedding program sees it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A program that a script wants to run. It was granted; so were the folder and each variable.
#[derive(Clone, PartialEq, Eq)]
pub struct ProgramRequest {
    /// The program, as the grant names it.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Where it runs.
    pub directory: PathBuf,
    /// Its whole environment.
    pub environment: BTreeMap<String, String>,
    /// Its standard input.
    pub input: Vec<u8>,
    /// How long it may run, if the script said so. The embedding program has a bound of its own.
    pub timeout: Option<Duration>,
    /// Bytes that its output and its errors may have, each; one that writes more is ended.
    pub most_output: usize,
}

impl std::fmt::Debug for ProgramRequest {
    /// Without arguments, environment and input, which may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramRequest")
            .field("program", &self.program)
            .field("arguments", &self.arguments.len())
            .field("environment", &self.environment.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// How a program ended.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ProgramOutput {
    /// Its exit code, if it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it (`SIGTERM`), if one did.
    pub signal: Option<String>,
    /// What it wrote.
    pub stdout: Vec<u8>,
    /// What it wrote as errors.
    pub stderr: Vec<u8>,
}

impl std::fmt::Debug for ProgramOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramOutput")
            .field("code", &self.code)
            .field("signal", &self.signal)
            .field("stdout", &self.stdout.len())
            .field("stderr", &self.stderr.len())
            .finish()
    }
}
