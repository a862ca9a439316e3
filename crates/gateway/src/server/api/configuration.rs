//! The configuration: what holds, what would be wrong with another, and reading it anew.
//!
//! The law: *nothing is configured from here.* Whoever has the scope `admin` sees what holds, and has the server read the files that its
//! operator wrote; what is sent to be checked comes into force nowhere, and no program, address, file or variable of the environment that
//! it names is touched. One text is checked at a time, of at most [`MOST_TEXT`] bytes.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::operators::Problem;
use super::asked::{Answer, Asked, Empty};
use crate::configuration::{
    CheckedConfiguration, Configuration, ConfigurationProblem, ReloadedConfiguration, ServedPlugin,
    ShownConfiguration,
};

/// The most bytes of a text that is checked.
const MOST_TEXT: usize = 256 << 10;

/// The configuration in force.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Configuration")]
pub(super) struct InForce {
    /// The digest of its values, as entries `configuration.read` of the audit trail have it.
    digest: String,
    /// Each value as `value` and `from`, by its keys; secrets are masked.
    config: Value,
    /// The files that were read, with whose they are.
    layers: Value,
    /// What files of repositories said without effect.
    dropped: Value,
}

/// A configuration to look at.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Proposed {
    /// The text of a `backstop.yaml`, as it would stand in the operator's file.
    text: String,
}

/// What a configuration is.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CheckedConfiguration")]
pub(super) struct Checked {
    /// Whether it could be read, where its variables hold what can be used.
    ok: bool,
    /// What is wrong with it, whatever its variables hold.
    problems: Vec<Wrong>,
    /// The variables of the environment that it names, at which nobody looked.
    variables: Vec<String>,
}

/// Something that is wrong with it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ConfigurationProblem")]
pub(super) struct Wrong {
    /// Of which kind it is, in one word.
    kind: &'static str,
    /// What is wrong, for people.
    message: String,
    /// The line of the text, from 1 on; absent where it is at none.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// The column, from 1 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    /// The next step, where one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl From<ConfigurationProblem> for Wrong {
    fn from(problem: ConfigurationProblem) -> Self {
        let ConfigurationProblem { kind, message, line, column, hint } = problem;
        Self { kind, message, line, column, hint }
    }
}

/// The configuration was read anew.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Reloaded {
    /// The digest of the values that hold now.
    digest: String,
    /// The keys of which it says something that counts once the server is started anew.
    ignored: Vec<String>,
}

/// Plugins.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Plugins {
    plugins: Vec<Plugin>,
}

/// A plugin in force.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Plugin {
    id: String,
    /// Its hooks that stand.
    hooks: Vec<String>,
    /// The points of its hooks that no host of this server fires.
    waiting: Vec<String>,
    /// What was left out, and why.
    left_out: Vec<String>,
}

impl From<ServedPlugin> for Plugin {
    fn from(plugin: ServedPlugin) -> Self {
        let ServedPlugin { id, hooks, waiting, left_out } = plugin;
        Self { id, hooks, waiting, left_out }
    }
}

impl Asked {
    fn configuration(&self) -> Result<&Arc<dyn Configuration>, Problem> {
        self.shared.configuration.as_ref().ok_or(Problem::no_route())
    }
}

/// Returns what holds.
pub(super) async fn get(asked: Asked, _: Empty, _: Empty) -> Result<Answer<InForce>, Problem> {
    let configuration = asked.configuration()?;
    let ShownConfiguration { mut values, digest } = configuration.shown();
    let mut part = |name: &str| values.get_mut(name).map(Value::take).unwrap_or_default();
    let (config, layers, dropped) = (part("config"), part("layers"), part("dropped"));
    Ok(InForce { digest, config, layers, dropped }.into())
}

/// Looks at another one.
pub(super) async fn check(
    asked: Asked,
    _: Empty,
    Proposed { text }: Proposed,
) -> Result<Answer<Checked>, Problem> {
    if text.len() > MOST_TEXT {
        return Err(Problem::body(format!("`text` has more than {MOST_TEXT} bytes")));
    }
    let configuration = Arc::clone(asked.configuration()?);
    // It goes on when whoever asked has left, and keeps the place until it ends.
    let place = Arc::clone(&asked.shared.api.checking).try_acquire_owned();
    let place = place.map_err(|_| Problem::api_busy())?;
    let checking = tokio::task::spawn_blocking(move || {
        let checked = configuration.check(&text);
        drop(place);
        checked
    });
    let CheckedConfiguration { problems, variables } = checking.await.map_err(|_| Problem::failed())?;
    let problems: Vec<Wrong> = problems.into_iter().map(Wrong::from).collect();
    Ok(Checked { ok: problems.is_empty(), problems, variables }.into())
}

/// Reads the files anew.
pub(super) async fn reload(asked: Asked, _: Empty, _: Empty) -> Result<Answer<Reloaded>, Problem> {
    let configuration = asked.configuration()?;
    let reloaded = configuration.reload(&asked.caller.name()).await.map_err(Problem::conflict)?;
    let ReloadedConfiguration { digest, ignored } = reloaded;
    Ok(Reloaded { digest, ignored }.into())
}

/// Lists plugins.
pub(super) async fn plugins(asked: Asked, _: Empty, _: Empty) -> Result<Answer<Plugins>, Problem> {
    let plugins = asked.configuration()?.plugins();
    Ok(Plugins { plugins: plugins.into_iter().map(Plugin::from).collect() }.into())
}
