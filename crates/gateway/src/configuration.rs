//! What the API says of the configuration of a server, and has it do.
//!
//! The gateway itself reads none: it is given [`Settings`](crate::Settings). Whoever reads the configuration for it says here what it
//! found. Without that, the API has no routes for it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use backstop_console::Exception;
use backstop_engine::{HookMeta, Reviewed};
use backstop_hooks::CallContext;
use backstop_hooks::points::ToolCallEvent;
use backstop_store::Starts;
use serde_json::Value;

/// The configuration of a server.
#[async_trait]
pub trait Configuration: fmt::Debug + Send + Sync {
    /// Returns what holds at one moment.
    fn shown(&self) -> ShownConfiguration;

    /// Returns what is wrong with a text in the place of the operator's file. Nothing comes into force, and nothing that it names is
    /// started, asked or read: the environment neither.
    fn check(&self, text: &str) -> CheckedConfiguration;

    /// Judges a call as a text in the place of the operator's file would have it judged. Nothing comes into force, and nothing that it names
    /// is started, asked or read, the environment neither: hooks that need it are left out, and told to be.
    ///
    /// # Errors
    ///
    /// What is wrong with the text.
    async fn try_call(
        &self,
        text: String,
        event: ToolCallEvent,
        call: CallContext,
    ) -> Result<TriedCall, Vec<ConfigurationProblem>>;

    /// Reads the files anew, as `SIGHUP` has it done, in the name of `by`.
    ///
    /// # Errors
    ///
    /// Why the configuration before stays, for people.
    async fn reload(&self, by: &str) -> Result<ReloadedConfiguration, String>;

    /// Returns the plugins in force.
    fn plugins(&self) -> Vec<ServedPlugin>;

    /// Returns what is excepted from the guards in force. Texts are as they are written: a variable in them is named, and not what it holds.
    fn exceptions(&self) -> Vec<Exception>;
}

/// What a configuration is that holds.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownConfiguration {
    /// Each value with where it is from, secrets masked.
    pub values: Value,
    /// The digest of these values, as it is in the trail.
    pub digest: String,
}

/// What a configuration would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedConfiguration {
    /// What is wrong with it, whatever its variables hold.
    pub problems: Vec<ConfigurationProblem>,
    /// The variables of the environment that it names. Whether they are set, and hold what can be used, is not looked at.
    pub variables: Vec<String>,
}

/// What another configuration makes of a call.
#[derive(Debug)]
pub struct TriedCall {
    /// What its hooks make of it, as far as they are asked.
    pub reviewed: Reviewed,
    /// What it would start then.
    pub starts: Option<Starts>,
    /// The hooks that are asked.
    pub hooks: Vec<Arc<HookMeta>>,
    /// Those that are not: the id of a hook, of its entry or of its plugin, and why, as it goes on after "because".
    pub unasked: Vec<(String, &'static str)>,
    /// The variables of the environment that it names, at which nobody looked.
    pub variables: Vec<String>,
}

/// What a configuration is that was read anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReloadedConfiguration {
    /// The digest of the values that hold now.
    pub digest: String,
    /// The keys of which it says something that does not count before the server is started anew.
    pub ignored: Vec<String>,
}

/// Something that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationProblem {
    /// Of which kind it is, in one word.
    pub kind: &'static str,
    /// What is wrong.
    pub message: String,
    /// The line, from 1 on, where it is at one.
    pub line: Option<usize>,
    /// The column, from 1 on.
    pub column: Option<usize>,
    /// The next step, where one is known.
    pub hint: Option<String>,
}

/// A plugin that a server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedPlugin {
    /// Its id.
    pub id: String,
    /// The hooks of it that stand.
    pub hooks: Vec<String>,
    /// The points of its hooks that no host of the server fires.
    pub waiting: Vec<String>,
    /// What was left out, and why.
    pub left_out: Vec<String>,
}
