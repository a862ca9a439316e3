//! `backstop test`.

use std::path::PathBuf;

use crate::commands::cases::{Format, Settings};
use crate::error::Error;

/// Tests the policy: judges the cases of files with the hooks in force, and runs none of them.
///
/// A file of cases is YAML: a list `cases`, each with `call`, `expect` and `because`.
#[derive(Debug, clap::Args)]
pub(super) struct TestArgs {
    /// Files of cases, folders with such files, or patterns in quotes
    #[arg(value_name = "FILES", required_unless_present = "schema")]
    paths: Vec<String>,
    /// The form of the report
    #[arg(long, value_name = "FORM", default_value = "text", conflicts_with = "json")]
    format: FormatName,
    /// Write the report into this file, and what people read to stdout
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print the JSON Schema of a file of cases, for editors
    #[arg(long, conflicts_with_all = ["paths", "format", "report"])]
    schema: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum FormatName {
    Text,
    Junit,
    Tap,
}

impl TestArgs {
    pub(super) fn lower(self, json: bool) -> Result<Settings, Error> {
        if self.schema {
            return Ok(Settings::Schema);
        }
        let format = match (json, self.format) {
            (true, _) => Format::Json,
            (false, FormatName::Text) => Format::Text,
            (false, FormatName::Junit) => Format::Junit,
            (false, FormatName::Tap) => Format::Tap,
        };
        if self.report.is_some() && format == Format::Text {
            return Err(Error::Usage(
                "`--report` needs the form of the report\nhint: `--format junit`, `--format tap` or `--json`"
                    .to_owned(),
            ));
        }
        Ok(Settings::Files { paths: self.paths, format, report: self.report })
    }
}
