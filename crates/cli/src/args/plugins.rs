//! `backstop plugins`.

use std::path::PathBuf;

use backstop::plugins::ContentHash;
use clap::Subcommand;

use crate::commands::plugins::author::Language;
use crate::commands::plugins::{Consent, Settings};

/// Install plugins, say which are trusted, and look at them.
#[derive(Debug, clap::Args)]
pub(super) struct PluginsArgs {
    #[command(subcommand)]
    command: PluginsCommand,
}

#[derive(Debug, Subcommand)]
enum PluginsCommand {
    /// Copy a plugin into Backstop's data and trust it as it is
    Install {
        /// A folder, an archive (`.tgz`, `.tar`), `git:REPOSITORY#COMMIT` (or a tag or branch), or `npm:NAME@VERSION`
        source: String,
        #[command(flatten)]
        consent: ConsentArgs,
    },
    /// List the plugins that are installed
    List,
    /// Show what a plugin is, what it asks for, what it gets, and what was found in it
    Inspect {
        /// Its id, or where a plugin that is not installed is to be had, as for `install`
        plugin: String,
        /// Run its code and fire each of its hooks once with a sample; without this nothing of it runs
        #[arg(long)]
        run: bool,
    },
    /// Write a new plugin with a hook and its tests
    New {
        /// The folder, whose name is the plugin's id
        name: String,
        /// In TypeScript, which is the default
        #[arg(long, group = "language")]
        ts: bool,
        /// In JavaScript
        #[arg(long, group = "language")]
        js: bool,
        /// In Python
        #[arg(long, group = "language")]
        python: bool,
    },
    /// Run the tests of a plugin: events in `tests/*.json`, and what it is to make of them
    Test {
        /// The plugin's folder
        #[arg(default_value = ".")]
        folder: PathBuf,
    },
    /// Print types for plugins in TypeScript, or write them into a folder
    Types {
        /// Where to write `backstop-plugin-sdk.d.ts`
        folder: Option<PathBuf>,
    },
    /// Switch a plugin on
    Enable {
        /// Its id
        id: String,
    },
    /// Switch a plugin off
    Disable {
        /// Its id
        id: String,
    },
    /// Trust an installed plugin as it is now
    Trust {
        /// Its id
        id: String,
        #[command(flatten)]
        consent: ConsentArgs,
    },
    /// Have whatever runs load the plugins anew: at the next event, message or second
    Reload,
    /// Run a command that a plugin brings; without one, list them
    Run {
        /// The plugin's id
        id: String,
        /// The command and what it is given
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Remove a plugin with its data
    Remove {
        /// Its id
        id: String,
    },
}

#[derive(Debug, clap::Args)]
struct ConsentArgs {
    /// Ask nobody; only with `--trust`
    #[arg(long, requires = "trust")]
    yes: bool,
    /// The content hash that is consented to, as `inspect` shows it
    #[arg(long, value_name = "HASH", requires = "yes")]
    trust: Option<ContentHash>,
}

impl ConsentArgs {
    fn lower(self) -> Consent {
        self.trust.map_or(Consent::Asked, Consent::Given)
    }
}

impl PluginsArgs {
    pub(super) fn lower(self) -> Settings {
        match self.command {
            PluginsCommand::Install { source, consent } => {
                Settings::Install { source, consent: consent.lower() }
            }
            PluginsCommand::List => Settings::List,
            PluginsCommand::Inspect { plugin, run } => Settings::Inspect { plugin, run },
            PluginsCommand::New { name, ts: _, js, python } => {
                let language = match (js, python) {
                    (true, _) => Language::JavaScript,
                    (_, true) => Language::Python,
                    _ => Language::TypeScript,
                };
                Settings::New { name, language }
            }
            PluginsCommand::Test { folder } => Settings::Test { folder },
            PluginsCommand::Types { folder } => Settings::Types { folder },
            PluginsCommand::Reload => Settings::Reload,
            PluginsCommand::Run { id, words } => Settings::Run { id, words },
            PluginsCommand::Enable { id } => Settings::Switch { id, on: true },
            PluginsCommand::Disable { id } => Settings::Switch { id, on: false },
            PluginsCommand::Trust { id, consent } => Settings::Trust { id, consent: consent.lower() },
            PluginsCommand::Remove { id } => Settings::Remove { id },
        }
    }
}
