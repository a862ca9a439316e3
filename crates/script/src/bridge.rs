//! What the embedding program supplies to a script: modules by name, functions, and a place for its log lines.
//!
//! Modules of the bridge are ours: their `import.meta.host` holds the functions of the runtime (see `node`),
//! among them `call(name, value)` and `request(name, value)`, which end in [`Bridge::call`] and
//! [`Bridge::request`]. A script's own modules have no `import.meta.host`, so a script reaches the bridge only
//! through what the bridge's modules export.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::ScriptError;
use crate::json::JsonText;
use crate::outside::{ProgramOutput, ProgramRequest};

/// How much a line of a script's log matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// `console.debug`, `console.trace`.
    Debug,
    /// `console.log`, `console.info`.
    Info,
    /// `console.warn`, and rejections that nobody handled.
    Warn,
    /// `console.error`.
    Error,
}

/// On whose behalf a function of the bridge is called.
#[derive(Debug, Clone)]
pub struct CallScope {
    /// The name that the script was loaded with.
    pub script: Arc<str>,
    /// How often the script's runtime was made, from 1. What an earlier one registered is gone.
    pub generation: u32,
}

/// Why a host function refused or failed: becomes an `Error` that the script can catch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HostError {
    /// `error.code`, as Node spells it: `ERR_ACCESS_DENIED`, `EACCES`, `ENOENT`, ...
    pub code: String,
    /// `error.message`.
    pub message: String,
    /// Further own properties of the error, such as `path` and `syscall`.
    pub properties: Vec<(String, String)>,
}

impl HostError {
    /// An error with a code and a message.
    #[must_use]
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), properties: Vec::new() }
    }

    /// With a further own property.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.push((name.into(), value.into()));
        self
    }

    /// The denial of something that no grant names. `grant` says in words of the manifest what is missing.
    #[must_use]
    pub fn denied(what: &str, grant: &str) -> Self {
        Self::new("ERR_ACCESS_DENIED", format!("{what} is not granted; missing grant: {grant}"))
            .with("permission", grant)
    }
}

/// A module that the bridge supplies.
#[derive(Debug, Clone)]
pub enum Provided {
    /// JavaScript, an ES module. It is trusted: its `import.meta.host` reaches the bridge.
    Source(Arc<str>),
    /// A module that exists so that imports of it link: whatever is imported from it throws this text when it
    /// is used, with the name in front.
    Absent(String),
}

/// The embedding program's side of a script. Its functions are called on the script's thread and must not block.
#[async_trait]
pub trait Bridge: Send + Sync + 'static {
    /// The module of the name `specifier`, which is no path, if the bridge supplies it. It is asked before the
    /// script's own packages. Names that begin with `node:` are the runtime's.
    fn module(&self, specifier: &str) -> Option<Provided> {
        let _ = specifier;
        None
    }

    /// A module of the script takes these names of the module `module`, which has them not: they throw when they are used.
    /// There are none where all of `module` is not provided and nothing is taken of it by name. Said when it is imported.
    fn absent(&self, module: &str, names: &BTreeSet<String>) {
        let _ = (module, names);
    }

    /// A call that is answered at once.
    ///
    /// # Errors
    ///
    /// What the script gets as an `Error`.
    fn call(&self, scope: &CallScope, name: &str, arguments: JsonText) -> Result<JsonText, HostError> {
        let _ = (scope, arguments);
        Err(HostError::new("ERR_METHOD_NOT_IMPLEMENTED", format!("the host has no function `{name}`")))
    }

    /// A call that is answered later; it runs on the runtime of the host, not on the script's thread.
    ///
    /// # Errors
    ///
    /// What the script's promise is rejected with.
    async fn request(
        &self,
        scope: CallScope,
        name: String,
        arguments: JsonText,
    ) -> Result<JsonText, HostError> {
        let _ = (scope, arguments);
        Err(HostError::new("ERR_METHOD_NOT_IMPLEMENTED", format!("the host has no function `{name}`")))
    }

    /// Runs a program that was granted to its end. Dropping the future ends the program with its whole tree.
    ///
    /// # Errors
    ///
    /// When it can't be started. That it failed is no error here.
    async fn run_program(
        &self,
        scope: CallScope,
        request: ProgramRequest,
    ) -> Result<ProgramOutput, HostError> {
        let _ = (scope, request);
        Err(HostError::new("ERR_METHOD_NOT_IMPLEMENTED", "this host starts no programs for scripts"))
    }

    /// The script asked for what no grant names; `grant` says in words of the permissions what is missing. It may
    /// be said often: count it.
    fn denied(&self, scope: &CallScope, grant: &str) {
        let _ = (scope, grant);
    }

    /// As [`denied`](Self::denied), as often as this, where that is told later and together.
    fn denied_often(&self, scope: &CallScope, grant: &str, times: u64) {
        (0..times).for_each(|_| self.denied(scope, grant));
    }

    /// The runtime of this scope, which could be asked until now, is gone with all that it did by itself. The next call makes another,
    /// except of a script that is [stuck](ScriptError::Stuck). Also said on the thread of whoever notices that.
    fn ended(&self, scope: &CallScope, why: &ScriptError) {
        let _ = (scope, why);
    }

    /// A line that the script logged, bounded in size and number.
    fn log(&self, scope: &CallScope, level: LogLevel, line: &str) {
        let _ = (scope, level, line);
    }
}

/// A bridge to nothing: no modules, no functions, no log.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoBridge;

#[async_trait]
impl Bridge for NoBridge {}
