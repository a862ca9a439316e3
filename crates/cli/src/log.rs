//! What a process tells its operator on stderr: warnings and errors, decisions, and an access log.
//!
//! The output is lines for people, or one JSON object per line and nothing else (`--log-format json`). The level (`--log-level`)
//! selects what is reported: `error` failures, `warn` also warnings and what was blocked or changed, `info` also one line per
//! request.
//!
//! The law: *no text*. A line contains constants of this program, names that the operator configured, numbers and digests. It
//! contains nothing that a client sent or a model said, no query and no token.
//!
//! A subscriber of a page replaces the usual library, whose configuration would be longer. It reports events of Backstop's own
//! crates only, because a library below them might quote its input.

mod access;

use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::OnceLock;

use backstop::store::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::output::one_line;

pub(crate) use self::access::AccessLog;

/// The longest line for people.
const MOST_CHARS: usize = 600;

/// In which form things are said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// How much is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// What failed.
    Error,
    /// Also warnings, and what was stopped or changed.
    #[default]
    Warn,
    /// Also each request.
    Info,
}

impl Level {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
        }
    }
}

/// What is said, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) format: Format,
    pub(crate) level: Level,
}

static LOG: OnceLock<Log> = OnceLock::new();

struct Stderr;

/// Starts listening. A second call changes nothing.
pub(crate) fn listen() {
    // An error means that somebody listens already.
    drop(tracing::subscriber::set_global_default(Stderr));
}

/// Says how everything is said from now on. A second call changes nothing.
pub(crate) fn configure(log: Log) {
    if LOG.set(log).is_ok() {
        // Whether anybody listens was asked before.
        tracing::callsite::rebuild_interest_cache();
    }
}

/// What is said, and how.
pub(crate) fn current() -> Log {
    LOG.get().copied().unwrap_or_default()
}

/// Says something to people, or notes for programs that it was said.
pub(crate) fn talk(text: &str) {
    match current().format {
        Format::Text => write(text),
        Format::Json => json("note", Level::Info, [("message", text.into())]),
    }
}

/// Writes a line for programs.
pub(crate) fn json<'a>(kind: &str, level: Level, said: impl IntoIterator<Item = (&'a str, Value)>) {
    write(&json_line(kind, level, said));
}

/// Returns a line for programs: the time, the level, the kind, and what there is to say.
fn json_line<'a>(kind: &str, level: Level, said: impl IntoIterator<Item = (&'a str, Value)>) -> String {
    let mut line = Map::new();
    line.insert("at".to_owned(), Timestamp::now().to_string().into());
    line.insert("level".to_owned(), level.as_str().into());
    line.insert("kind".to_owned(), kind.into());
    line.extend(said.into_iter().map(|(name, value)| (name.to_owned(), value)));
    Value::Object(line).to_string()
}

/// Writes a line, in one piece. Nobody is left to tell when stderr is gone.
pub(crate) fn write(line: &str) {
    let mut whole = String::with_capacity(line.len().saturating_add(1));
    whole.push_str(line);
    whole.push('\n');
    let _ = std::io::stderr().lock().write_all(whole.as_bytes());
}

const fn filter(level: Level) -> LevelFilter {
    match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
    }
}

impl Subscriber for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= filter(current().level) && metadata.target().starts_with("backstop")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let level = match *event.metadata().level() {
            tracing::Level::ERROR => Level::Error,
            tracing::Level::WARN => Level::Warn,
            _ => Level::Info,
        };
        let mut line = Line::default();
        event.record(&mut line);
        match current().format {
            Format::Text => {
                let word = if level == Level::Warn { "warning" } else { level.as_str() };
                let fields: String =
                    line.fields.iter().map(|(name, value)| format!(" {name}={value}")).collect();
                write(&format!("{word}: {}", one_line(&format!("{}{fields}", line.message), MOST_CHARS)));
            }
            Format::Json => {
                let message = one_line(&line.message, MOST_CHARS);
                let fields: Map<String, Value> = line
                    .fields
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), one_line(&value, MOST_CHARS).into()))
                    .collect();
                let from = event.metadata().target();
                let said =
                    [("from", from.into()), ("message", message.into()), ("fields", Value::Object(fields))];
                json("log", level, said);
            }
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Writing to a String can't fail.
            let _ = write!(self.message, "{value:?}");
        } else {
            self.fields.push((field.name(), format!("{value:?}")));
        }
    }
}
