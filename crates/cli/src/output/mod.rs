//! Output: data on stdout, talk on stderr, and nothing that could drive a terminal.
//!
//! Everything that a model, a tool or a file said goes through [`plain`] before it is shown to a person.
//! JSON is for programs and holds the values as they are; its strings escape control characters by themselves.

mod check;
mod style;
mod text;

use std::io::{self, IsTerminal as _, Write};

use serde::Serialize;

pub(crate) use check::{Check, Grade};
pub(crate) use style::{Paint, Style};
pub(crate) use text::{ago, elapsed, in_future, one_line, plain, table};

/// Where a command writes, and in which form.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    json: bool,
    out: Paint,
    talk: Paint,
}

impl Output {
    /// Output in JSON or for people; colour where a terminal is and `NO_COLOR` is not set.
    pub(crate) fn new(json: bool, no_color: bool) -> Self {
        let dumb = no_color || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            json,
            out: Paint::new(!dumb && !json && io::stdout().is_terminal()),
            talk: Paint::new(!dumb && io::stderr().is_terminal()),
        }
    }

    /// Whether the caller wants JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Colour for stdout.
    pub(crate) fn paint(&self) -> Paint {
        self.out
    }

    /// Colour for stderr.
    pub(crate) fn talk_paint(&self) -> Paint {
        self.talk
    }

    /// Writes text to stdout, and a line end if it has none.
    pub(crate) fn text(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            out.write_all(b"\n")?;
        }
        out.flush()
    }

    /// Writes a value as JSON to stdout, for people to read too.
    pub(crate) fn json(&self, value: &impl Serialize) -> io::Result<()> {
        self.text(&serde_json::to_string_pretty(value)?)
    }

    /// Writes a value as one line of JSON to stdout.
    pub(crate) fn json_line(&self, value: &impl Serialize) -> io::Result<()> {
        self.text(&serde_json::to_string(value)?)
    }

    /// Says something on stderr. That nobody listens is no error.
    pub(crate) fn say(&self, text: &str) {
        crate::log::talk(text);
    }
}
