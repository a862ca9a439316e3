//! What a user sees of a turn.
//!
//! On a terminal, the assistant's words appear as they pass the hooks. Where stdout is a pipe, it gets the
//! turn's answer and nothing else; what was said on the way there is activity, and goes to stderr. Nothing of
//! it reaches a terminal unescaped.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};

use backstop::agent::{Output, Shown, TurnOutcome};

use crate::output::{Output as Printer, Paint, Style, one_line, plain};

/// Shows a turn.
#[derive(Debug)]
pub(super) struct Screen {
    /// Words go to stdout as they come.
    live: bool,
    /// The caller wants JSON, which the command prints itself.
    json: bool,
    paint: Paint,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What the assistant said since the last tool call, while it may still turn out to be the answer.
    said: String,
    /// The terminal's cursor is not at the start of a line.
    mid_line: bool,
}

impl Screen {
    pub(super) fn new(output: &Printer) -> Self {
        Self {
            live: !output.is_json() && io::stdout().is_terminal(),
            json: output.is_json(),
            paint: output.talk_paint(),
            state: Mutex::default(),
        }
    }

    /// The turn is over: its answer goes to stdout, where it was not shown already.
    pub(super) fn finish(&self, outcome: &TurnOutcome) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.end_line();
        state.said.clear();
        match outcome {
            TurnOutcome::Answered { text } if !self.live && !self.json => {
                let mut out = io::stdout().lock();
                let text: &str = text;
                out.write_all(text.as_bytes())?;
                if !text.ends_with('\n') {
                    out.write_all(b"\n")?;
                }
                out.flush()
            }
            _ => Ok(()),
        }
    }

    /// What was said turned out not to be the answer.
    fn tell_said(&self, state: &mut State) {
        let said = std::mem::take(&mut state.said);
        if !said.trim().is_empty() {
            self.talk(state, &self.paint.with(Style::Faint, plain(said.trim())));
        }
    }

    fn talk(&self, state: &mut State, line: &str) {
        state.end_line();
        let _ = writeln!(io::stderr().lock(), "{line}");
    }
}

impl State {
    fn end_line(&mut self) {
        if std::mem::take(&mut self.mid_line) {
            let _ = writeln!(io::stdout().lock());
        }
    }
}

impl Output for Screen {
    fn show(&self, shown: Shown<'_>) {
        let state = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match shown {
            Shown::Text(text) if self.live => {
                let mut out = io::stdout().lock();
                // Whoever closed the terminal is not there to be told.
                let _ = out.write_all(plain(text).as_bytes()).and_then(|()| out.flush());
                state.mid_line = !text.ends_with('\n');
            }
            Shown::Text(text) => state.said.push_str(text),
            Shown::TextEnd if self.live => state.end_line(),
            Shown::TextEnd => state.said.push('\n'),
            Shown::Reasoning(text) => {
                let line = self.paint.with(Style::Faint, plain(text));
                self.talk(state, &line);
            }
            Shown::ToolStarted { tool, about } => {
                self.tell_said(state);
                let about = about.map(|about| format!(" {}", one_line(about, 160))).unwrap_or_default();
                let tool = self.paint.with(Style::Name, plain(tool.called()));
                self.talk(state, &format!("-> {tool}{about}"));
            }
            Shown::ToolEnded { tool, failed: true } => {
                let failed = self.paint.with(Style::Notice, "failed");
                self.talk(state, &format!("<- {} {failed}", plain(tool.called())));
            }
            Shown::Note(line) => {
                if state.said.ends_with('\n') {
                    self.tell_said(state);
                }
                self.talk(state, &plain(line));
            }
            // The answer was said already, and is printed at the end; the rest needs no line.
            _ => {}
        }
    }
}

/// Invites the user to write.
pub(super) fn prompt(paint: Paint) {
    let mut talk = io::stderr().lock();
    let _ = write!(talk, "{} ", paint.with(Style::Name, ">")).and_then(|()| talk.flush());
}
