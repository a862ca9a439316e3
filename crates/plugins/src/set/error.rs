//! Why a plugin that is on can't be had. Each says what its operator or its author can do.

use std::path::PathBuf;

use crate::config_schema::BadConfig;
use crate::external::command::NoSuchEvent;
use crate::external::http::HttpError;
use crate::external::process::StartError;
use crate::manifest::{ManifestError, PluginId};
use crate::openclaw::{LoadError, NoHost, NodeError};
use crate::registration::{OfferKind, RegistrationError};

/// Why a plugin can't be had.
#[derive(Debug, thiserror::Error)]
#[error("{}", named(.id, .why))]
pub struct SetError {
    /// The plugin.
    pub id: PluginId,
    /// Why.
    pub why: Box<Why>,
}

/// Why this plugin can't be had. What is wrong with what it registers names it already.
fn named(id: &PluginId, why: &Why) -> String {
    match why {
        Why::Registration(error) => error.to_string(),
        why => format!("plugin `{id}`: {why}"),
    }
}

/// What a name of Backstop itself is called where it has an owner.
pub(crate) const BACKSTOP: &str = "Backstop itself";

/// What can be done about a name that is taken.
fn other_name(by: &str) -> &'static str {
    match by {
        BACKSTOP => "the plugin has to call it something else",
        _ => "switch one of them off with `backstop plugins disable`",
    }
}

/// What is wrong with a plugin that is on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// It is not what was trusted.
    #[error(
        "its files are not those that are trusted: {0}\nhint: look at it with `backstop plugins inspect`, then `backstop plugins trust` or `backstop plugins disable` it"
    )]
    NotTrusted(String),
    /// Its manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// It needs what is not granted.
    #[error(
        "it can't be asked without the grant to {what}\nhint: add `{word}` to `plugins.entries.{id}.grants.{key}`, or switch it off with `backstop plugins disable {id}`"
    )]
    NotGranted {
        /// The plugin.
        id: PluginId,
        /// What it needs, in words.
        what: String,
        /// The key of the grants.
        key: &'static str,
        /// What is to be added.
        word: String,
    },
    /// Its program, which the machine does not have where only the operator writes.
    #[error("its program `{name}` can't be used: {why}")]
    Program {
        /// The name of the program.
        name: String,
        /// Why not.
        why: String,
    },
    /// Its program.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Its server.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A point that its dialect has no words for.
    #[error(transparent)]
    Dialect(#[from] NoSuchEvent),
    /// What it registers.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// What is granted would let it change code.
    #[error(
        "it may not {what}: the code of plugins lies in or below that folder, in `{}`\nhint: take the word out of `plugins.entries.{id}.grants.files.write`, or write a narrower one", .store.display()
    )]
    WritesCode {
        /// The plugin.
        id: PluginId,
        /// What it would get, in words.
        what: String,
        /// The folder of all plugins.
        store: PathBuf,
    },
    /// Its options.
    #[error("its options: {0}")]
    Config(BadConfig),
    /// A policy that nobody consented to.
    #[error(
        "its code has a trusted tool policy `{0}`, which its manifest does not name\nhint: add it to `contracts.trustedToolPolicies`; people consent to what stands there"
    )]
    UndeclaredPolicy(String),
    /// Its code has other hooks than its manifest.
    #[error(
        "its code has a hook at `{0}`, which its manifest does not name\nhint: add it to `points`; people consent to what stands there"
    )]
    Undeclared(String),
    /// Its code has no hook where its manifest has one.
    #[error(
        "its manifest names `{point}`, and its code registered no hook there; {registered}\nhint: register it while `register` runs, not in a promise or a timer; write `\"optional\": true` beside `point` if only some options have it; or take it out of `points`"
    )]
    Unregistered {
        /// The point.
        point: String,
        /// What the code registered, in words.
        registered: String,
    },
    /// Its code has other hooks than when it was loaded before.
    #[error(
        "its code has a hook at {points}, and had none there when it was loaded before with the same options and grants, so that the hook may have been skipped\nhint: name its `points` in its manifest, or have it looked at anew with `backstop plugins trust {id}`"
    )]
    Elsewhere {
        /// The plugin.
        id: PluginId,
        /// Where its new hooks are.
        points: String,
    },
    /// Its code has other tools than its manifest.
    #[error(
        "its code has a tool `{0}`, which its manifest does not name\nhint: add it to `contracts.tools`; people consent to what stands there"
    )]
    UndeclaredTool(String),
    /// A tool that can't be one.
    #[error("its tool `{name}` {why}")]
    Tool {
        /// The tool, as it was registered.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A command that can't be one.
    #[error(
        "its command `{0}` has a name that nobody can type\nhint: a letter, then letters, digits, `_`, `-`"
    )]
    Command(String),
    /// Somebody else has that name.
    #[error(
        "its {what} `{name}` has the name of one of {by}\nhint: {}", other_name(.by)
    )]
    Taken {
        /// What has the name.
        what: OfferKind,
        /// The name.
        name: String,
        /// Whose it is already.
        by: String,
    },
    /// The operator lists a tool that it does not have.
    #[error("it has no tool `{name}`, which `plugins.entries.{id}.optionalTools` lists; it has: {known}")]
    NoSuchTool {
        /// The plugin.
        id: PluginId,
        /// What was listed.
        name: String,
        /// What it has.
        known: String,
    },
    /// There is no Node for it.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// There is no process for it.
    #[error(transparent)]
    NoHost(#[from] NoHost),
    /// Nothing of it would run there.
    #[error(
        "`runtime: {0}` is for plugins in JavaScript and TypeScript, and this one is a {1}\nhint: take the key out of `plugins.entries.<id>`; it runs as its manifest says"
    )]
    NoScript(&'static str, &'static str),
    /// Its code.
    #[error("{}", without_name(.0))]
    Script(Box<LoadError>),
    /// A folder of ours.
    #[error("its folder for data can't be made: {0}")]
    Data(std::io::Error),
}

impl From<LoadError> for Why {
    fn from(error: LoadError) -> Self {
        Self::Script(Box::new(error))
    }
}

/// What a script's error says without the plugin's name, which stands before it already.
fn without_name(error: &LoadError) -> String {
    match error {
        LoadError::Script { error, .. } => error.to_string(),
        other @ LoadError::Registration(_) => other.to_string(),
    }
}
