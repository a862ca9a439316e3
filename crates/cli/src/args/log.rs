//! `backstop log`.

use std::path::PathBuf;

use backstop::store::{AuditFilter, Timestamp};
use clap::ValueEnum;

use crate::commands::log::{Form, Order, Settings};
use crate::error::Error;
use crate::session::working_directory;

/// The most entries before those that `--follow` waits for: they are held at once.
const MOST_BEFORE: u64 = 10_000;
/// How many there are without `--limit`.
const BEFORE: u64 = 10;
/// How many entries are shown to people without `--limit`.
const SHOWN: u64 = 50;

/// Shows what was judged: the audit trail, the newest entries first, a line for each.
///
/// A line has the number of the entry, the local time, what was decided, where and for whom, about what, and who said so by which rules.
/// What was judged is not in the trail. The number is what `backstop audit proof` takes.
#[derive(Debug, clap::Args)]
pub(super) struct LogArgs {
    /// Only from then on: so long ago (`2h`), a date, or a time
    #[arg(long, value_name = "TIME", value_parser = super::when::parse)]
    since: Option<Timestamp>,
    /// Only before then
    #[arg(long, value_name = "TIME", value_parser = super::when::parse)]
    until: Option<Timestamp>,
    /// Only receipts with this verdict; `ask`: where somebody was asked, whatever came of it
    #[arg(long, value_name = "VERDICT")]
    verdict: Option<VerdictWord>,
    /// Only about this tool, as it was called or as it is known
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only receipts in which a hook in shadow would have done this; `any`: whatever it would have done
    #[arg(long, value_name = "ACTION")]
    would: Option<WouldWord>,
    /// Only where this rule spoke, or would have
    #[arg(long, value_name = "RULE")]
    rule: Option<String>,
    /// Only of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only about work in this folder, or below it
    #[arg(long, value_name = "FOLDER")]
    workspace: Option<PathBuf>,
    /// Only what this person asked for, answered, gave or revoked
    #[arg(long, value_name = "NAME")]
    who: Option<String>,
    /// Only under a version of the policy that begins with these hex digits
    #[arg(long, value_name = "PREFIX")]
    policy: Option<String>,
    /// Only entries of this kind (`receipt`, `approval.answered`, `grant.given`, `start`, ...)
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only entries behind this number
    #[arg(long, value_name = "NUMBER")]
    after: Option<u64>,
    /// At most so many [default: 50 as text, 10 before those that are followed, all in other formats]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// All of them
    #[arg(long, conflicts_with_all = ["limit", "follow"])]
    all: bool,
    /// The oldest first
    #[arg(long, conflicts_with = "follow")]
    oldest_first: bool,
    /// Go on with new entries, of all processes, until Ctrl-C; the newest is the last then
    #[arg(long, short)]
    follow: bool,
    /// How [default: text, or jsonl with `--json`]
    #[arg(long, value_name = "FORMAT")]
    format: Option<FormWord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum VerdictWord {
    Pass,
    Modify,
    Block,
    Ask,
    Handled,
    Observed,
    Dropped,
}

impl VerdictWord {
    const fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Modify => "modify",
            Self::Block => "block",
            Self::Ask => "ask",
            Self::Handled => "handled",
            Self::Observed => "observed",
            Self::Dropped => "dropped",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WouldWord {
    Block,
    Ask,
    Modify,
    Handle,
    Any,
}

impl WouldWord {
    const fn word(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Ask => "ask",
            Self::Modify => "modify",
            Self::Handle => "handle",
            Self::Any => "any",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormWord {
    /// A line for people
    Text,
    /// Entries as they are, an object on each line
    Jsonl,
    /// A table for spreadsheets (RFC 4180)
    Csv,
    /// Events of the Open Cybersecurity Schema Framework, an object on each line
    Ocsf,
    /// Logs of OpenTelemetry (OTLP/JSON), an object on each line
    Otlp,
}

impl LogArgs {
    pub(super) fn lower(self, json: bool) -> Result<Settings, Error> {
        let form = match (self.format, json) {
            (None | Some(FormWord::Text), false) => Form::Text,
            (None, true) | (Some(FormWord::Jsonl), _) => Form::Jsonl,
            (Some(FormWord::Csv), false) => Form::Csv,
            (Some(FormWord::Ocsf), _) => Form::Ocsf,
            (Some(FormWord::Otlp), _) => Form::Otlp,
            (Some(FormWord::Text | FormWord::Csv), true) => {
                return Err(Error::Usage(
                    "`--json` prints no text and no table: leave it or `--format` out".to_owned(),
                ));
            }
        };
        let limit = match (self.limit, self.follow, form) {
            (Some(limit), true, _) if limit > MOST_BEFORE => {
                return Err(Error::Usage(format!("`--follow` begins with at most {MOST_BEFORE} entries")));
            }
            (Some(limit), ..) => Some(limit),
            (None, true, _) if self.after.is_some() => None,
            (None, true, _) => Some(BEFORE),
            (None, false, Form::Text) if !self.all => Some(SHOWN),
            (None, false, _) => None,
        };
        let order = match (self.follow, self.oldest_first) {
            (true, _) => Order::Follow,
            (false, true) => Order::OldestFirst,
            (false, false) => Order::NewestFirst,
        };
        let workspace =
            self.workspace.map(|folder| Ok::<_, Error>(working_directory()?.join(folder))).transpose()?;
        let filter = AuditFilter {
            kind: self.kind,
            session: self.session.map(Into::into),
            run: None,
            since: self.since,
            until: self.until,
            verdict: self.verdict.map(|verdict| verdict.word().to_owned()),
            tool: self.tool,
            rule: self.rule,
            would: self.would.map(|would| would.word().to_owned()),
            agent: self.agent,
            workspace: workspace.map(|folder| plain_path(&folder)),
            who: self.who,
            policy: self.policy,
        };
        Ok(Settings { filter, order, after: self.after.unwrap_or_default(), limit, form })
    }
}

/// Returns a path without `.` and `..`, as hosts name their folders.
fn plain_path(path: &std::path::Path) -> String {
    use std::path::Component;
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain.display().to_string()
}
