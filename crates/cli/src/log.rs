//! What the crates below have to say to the operator: warnings and errors, as talk on stderr.
//!
//! The library of choice for this shows spans, levels and filters; here there is one reader, one level and
//! one form, so a subscriber of a page is less than its configuration would be. Only Backstop's own crates
//! are heard: a library below them might quote what it was given.

use std::fmt::{self, Write as _};
use std::io::Write as _;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::output::one_line;

/// The longest line.
const MOST_CHARS: usize = 600;

struct Stderr;

/// Starts listening. A second call changes nothing.
pub(crate) fn listen() {
    // An error means that somebody listens already.
    drop(tracing::subscriber::set_global_default(Stderr));
}

impl Subscriber for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN && metadata.target().starts_with("backstop")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let word = if *event.metadata().level() == Level::ERROR { "error" } else { "warning" };
        let text = one_line(&format!("{}{}", line.message, line.fields), MOST_CHARS);
        // Nobody is left to tell when stderr is gone.
        let _ = writeln!(std::io::stderr().lock(), "{word}: {text}");
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String can't fail.
        let _ = if field.name() == "message" {
            write!(self.message, "{value:?}")
        } else {
            write!(self.fields, " {}={value:?}", field.name())
        };
    }
}
