//! `backstop check` and `backstop explain`.

use backstop::hooks::{Params, ToolName};

use crate::commands::check::{Call, Settings};
use crate::error::Error;

/// Judges tool calls with the hooks in force and runs none of them.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "One answer per call: {\"decision\": \"allow|ask|block|modify\", \"hook\": ..., \"reason\": ..., \"params\": ...}"
)]
pub(super) struct CheckArgs {
    /// The tool
    #[arg(long, value_name = "NAME", required_unless_present = "jsonl", conflicts_with = "jsonl")]
    tool: Option<String>,
    /// Its arguments, a JSON object
    #[arg(long, value_name = "JSON", required_unless_present = "jsonl", conflicts_with = "jsonl")]
    args: Option<String>,
    /// Judge lines of {"tool": ..., "args": {...}} from stdin, one line out per line in, in order
    #[arg(long)]
    jsonl: bool,
}

/// Judges one tool call with the hooks in force, without running it, and shows each hook's part in it.
#[derive(Debug, clap::Args)]
pub(super) struct ExplainArgs {
    /// The tool
    #[arg(long, value_name = "NAME")]
    tool: String,
    /// Its arguments, a JSON object
    #[arg(long, value_name = "JSON")]
    args: String,
}

impl CheckArgs {
    pub(super) fn lower(self) -> Result<Settings, Error> {
        match (self.tool, self.args) {
            (Some(tool), Some(args)) => call(&tool, &args).map(Settings::Call),
            _ => Ok(Settings::Lines),
        }
    }
}

impl ExplainArgs {
    pub(super) fn lower(self) -> Result<Call, Error> {
        call(&self.tool, &self.args)
    }
}

fn call(tool: &str, args: &str) -> Result<Call, Error> {
    if tool.trim().is_empty() {
        return Err(Error::Usage("`--tool` needs the name of a tool".to_owned()));
    }
    let value = serde_json::from_str(args).map_err(|error| {
        Error::Usage(format!(
            "`--args` is not JSON: {error}\nhint: for example --args '{{\"path\": \"a.txt\"}}'"
        ))
    })?;
    let args = Params::from_value(value).ok_or_else(|| {
        Error::Usage(
            "`--args` must be a JSON object\nhint: for example --args '{\"path\": \"a.txt\"}'".to_owned(),
        )
    })?;
    Ok(Call { tool: ToolName::new(tool), args })
}
