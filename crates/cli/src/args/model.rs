//! `backstop model`.

use std::path::PathBuf;

use clap::Subcommand;

use crate::commands::model::Settings;

/// Serves models.
#[derive(Debug, clap::Args)]
pub(super) struct ModelArgs {
    #[command(subcommand)]
    command: ModelCommand,
}

#[derive(Debug, Subcommand)]
enum ModelCommand {
    /// Play a script as a model, on a port of this machine
    ///
    /// Speaks Anthropic Messages, OpenAI Chat Completions, OpenAI Responses and Gemini, streaming included. Prints its
    /// address on stdout and runs until Ctrl-C; then it says what was asked beyond the script.
    Serve {
        /// The script: turns as JSON, one document or one turn a line
        #[arg(long, value_name = "FILE")]
        script: PathBuf,
        /// The port; 0 takes a free one
        #[arg(long, value_name = "N", default_value_t = 0)]
        port: u16,
        /// The environment variable with the key that callers must bring
        #[arg(long, value_name = "VAR")]
        api_key_env: Option<String>,
    },
}

impl ModelArgs {
    pub(super) fn lower(self) -> Settings {
        let ModelCommand::Serve { script, port, api_key_env } = self.command;
        Settings { script, port, api_key_env }
    }
}
