//! `backstop config`.

use clap::Subcommand;

use crate::commands::config::Settings;

/// Checks and shows the configuration.
#[derive(Debug, clap::Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Say what is wrong with the configuration
    Check,
    /// Print what is in force, and where each value comes from
    Show,
    /// Say that the operator's configuration is as it should be now; hooks judge by no other
    ///
    /// The entries that `backstop install` writes demand the configuration that was pinned last. After a change of the
    /// operator's file, or of a file that it names, hooks refuse every call until it is pinned again.
    Pin,
    /// Print the JSON Schema of `backstop.yaml`, for editors
    Schema,
}

impl ConfigArgs {
    pub(super) fn lower(self) -> Settings {
        match self.command {
            ConfigCommand::Check => Settings::Check,
            ConfigCommand::Show => Settings::Show,
            ConfigCommand::Pin => Settings::Pin,
            ConfigCommand::Schema => Settings::Schema,
        }
    }
}
