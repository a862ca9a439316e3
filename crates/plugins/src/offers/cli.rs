//! Commands of plugins for the command line.

use std::time::Duration;

use backstop_script::{Argument, Arguments, JsonText};

use super::services::of_kind;
use crate::registration::OfferKind;
use crate::set::PluginSet;

/// How long one may take.
const BUDGET: Duration = Duration::from_secs(600);

/// Why a command of a plugin was not run to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CliError {
    /// It has none of that name.
    #[error("the plugin has no command `{name}`{}", hint(.known))]
    NoSuchCommand {
        /// What was asked for.
        name: String,
        /// What it has.
        known: Vec<String>,
    },
    /// It failed.
    #[error("{0}")]
    Failed(String),
}

fn hint(known: &[String]) -> String {
    match known {
        [] => "; it brings no commands at all".to_owned(),
        known => format!("\nhint: it has {}", known.join(", ")),
    }
}

impl PluginSet {
    /// What each command of the command line is called, and how it is used.
    pub fn cli(&self) -> Vec<(String, String)> {
        let offers = self.plugins().flat_map(|plugin| of_kind(plugin, OfferKind::Cli));
        let usage = |(_, offered): (_, &crate::openclaw::Offered)| {
            let usage = offered.more.get("usage").and_then(serde_json::Value::as_str).unwrap_or_default();
            (offered.offer.name.clone(), usage.to_owned())
        };
        offers.map(usage).collect()
    }

    /// Runs the command that `words` begin with. What it prints goes where the set's services print.
    ///
    /// # Errors
    ///
    /// [`CliError`]. When the returned future is dropped, the command is interrupted.
    pub async fn run_cli(&self, words: &[String]) -> Result<(), CliError> {
        let name = words.first().cloned().unwrap_or_default();
        let mut offers = self.plugins().flat_map(|plugin| of_kind(plugin, OfferKind::Cli));
        let Some((script, offered)) = offers.find(|(_, offered)| offered.offer.name == name) else {
            let known = self.cli().into_iter().map(|(name, _)| name).collect();
            return Err(CliError::NoSuchCommand { name, known });
        };
        let rest = words.get(1..).unwrap_or_default();
        let failed = |error: &dyn std::fmt::Display| CliError::Failed(error.to_string());
        let rest = JsonText::of(rest).map_err(|error| failed(&error))?;
        let arguments = Arguments::new([Argument::Json(rest)]);
        script.call(offered, "run", &arguments, BUDGET).await.map(drop).map_err(|error| failed(&error))
    }
}
