//! `backstop tape`, `backstop replay` and `backstop suggest`.

use std::path::PathBuf;

use backstop::store::Timestamp;
use clap::{Subcommand, ValueEnum};

use crate::commands::replay::{self, FailOn};
use crate::commands::suggest;
use crate::commands::tape::{Settings, Span};

/// The recording of judged tool calls: off, until `tape.recipient` names who can read it.
#[derive(Debug, clap::Args)]
pub(super) struct TapeArgs {
    #[command(subcommand)]
    command: TapeCommand,
}

#[derive(Debug, Subcommand)]
enum TapeCommand {
    /// Make a key: writes the secret half into a file, and prints the public half for `tape.recipient`
    Keygen {
        /// The file, which must not exist. Keep it where no agent can read it
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// List what is recorded
    List {
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Show recorded calls, the oldest segment first
    Show {
        #[command(flatten)]
        span: SpanArgs,
    },
    /// Delete what is kept no longer
    Prune {
        /// Only say what would be deleted
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, clap::Args)]
struct FolderArgs {
    /// The folder of the tape, if it is not the configuration's: a copy of it on another machine
    #[arg(long, value_name = "FOLDER")]
    tape: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct SpanArgs {
    /// The file with the key
    #[arg(long, value_name = "FILE")]
    identity: PathBuf,
    #[command(flatten)]
    folder: FolderArgs,
    /// Only from then on: so long ago (`2h`), a date, or a time
    #[arg(long, value_name = "TIME", value_parser = super::when::parse)]
    since: Option<Timestamp>,
    /// Only before then
    #[arg(long, value_name = "TIME", value_parser = super::when::parse)]
    until: Option<Timestamp>,
}

/// Judges recorded calls again under the configuration of `--config`, and says what would change. Nothing runs, and nobody is asked.
#[derive(Debug, clap::Args)]
pub(super) struct ReplayArgs {
    #[command(flatten)]
    span: SpanArgs,
    /// So many examples of each change
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=100))]
    examples: u8,
    /// End with 6 if a call would be judged more mildly, more strictly, or otherwise at all
    #[arg(long, value_name = "CHANGE")]
    fail_on: Option<FailOnWord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOnWord {
    Looser,
    Stricter,
    Any,
}

/// Suggests exceptions and rules that people's recorded answers imply, and changes nothing.
#[derive(Debug, clap::Args)]
pub(super) struct SuggestArgs {
    #[command(flatten)]
    span: SpanArgs,
    /// Only what people answered at least so often
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    min: u32,
    /// So many of the calls that each suggestion is made from
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=100))]
    examples: u8,
}

impl SpanArgs {
    fn lower(self) -> Span {
        let Self { identity, folder, since, until } = self;
        Span { identity, folder: folder.tape, since, until }
    }
}

impl TapeArgs {
    pub(super) fn lower(self) -> Settings {
        match self.command {
            TapeCommand::Keygen { file } => Settings::Keygen { file },
            TapeCommand::List { folder } => Settings::List { folder: folder.tape },
            TapeCommand::Show { span } => Settings::Show(span.lower()),
            TapeCommand::Prune { dry_run } => Settings::Prune { dry_run },
        }
    }
}

impl ReplayArgs {
    pub(super) fn lower(self) -> replay::Settings {
        let fail_on = self.fail_on.map(|word| match word {
            FailOnWord::Looser => FailOn::Looser,
            FailOnWord::Stricter => FailOn::Stricter,
            FailOnWord::Any => FailOn::Any,
        });
        replay::Settings { span: self.span.lower(), examples: self.examples.into(), fail_on }
    }
}

impl SuggestArgs {
    pub(super) fn lower(self) -> suggest::Settings {
        suggest::Settings { span: self.span.lower(), min: self.min, examples: self.examples.into() }
    }
}
