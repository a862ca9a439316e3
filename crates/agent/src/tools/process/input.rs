//! What a background process was given to read, and giving it more.
//!
//! A program reads lines, whatever pieces they come in. A write is therefore judged as the line that it makes
//! together with what the process has of it already, behind everything it was given before: all of that stands in
//! the arguments that are judged, approved and recorded ([`complete`]).
//!
//! The law: *what was judged is what is read*. A write looks once more, with the input locked, whether the process
//! has been given exactly what stands in its arguments; if anything else was typed meanwhile, nothing is sent.

use std::io;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdin;

use super::ProcessError;
use super::table::Background;

/// How long a process may take to accept input.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes that are kept of what a process was given. Whoever judges a write behind more than that is told that
/// what was typed before is not known.
const MAX_TYPED: usize = 48 * 1024;

const DATA: &str = "data";
const PROGRAM: &str = "program";
const WORKDIR: &str = "workdir";
const TYPED: &str = "typed";
const UNFINISHED: &str = "unfinished";

/// The arguments of a write that no model can give.
const OWN: [&str; 4] = [PROGRAM, WORKDIR, TYPED, UNFINISHED];

/// The standard input of a background process.
///
/// The text is kept as everybody but the process reads it, with placeholders in place of what they stand for.
pub(super) struct Input {
    pipe: Option<ChildStdin>,
    typed: String,
    /// Whether the process may have been given something else than `typed`.
    lost: bool,
}

impl Input {
    pub(super) fn new(pipe: Option<ChildStdin>) -> Self {
        Self { pipe, typed: String::new(), lost: false }
    }

    /// The whole lines that were typed, and the beginning of one. The first is `None` when it is not known.
    fn lines(&self) -> (Option<&str>, &str) {
        let end = self.typed.rfind('\n').map_or(0, |at| at + 1);
        match self.typed.split_at_checked(end) {
            Some((lines, unfinished)) if !self.lost => (Some(lines), unfinished),
            _ => (None, ""),
        }
    }

    fn is_as_judged(&self, shown: &Map<String, Value>, process: &Background) -> bool {
        let (lines, unfinished) = self.lines();
        let text = |key| shown.get(key).and_then(Value::as_str);
        text(PROGRAM) == Some(&process.command)
            && text(TYPED) == lines
            && text(UNFINISHED) == Some(unfinished)
    }

    /// Sends `data`, which stands as `shown` for everybody else.
    async fn send(&mut self, data: &str, shown: &str) -> io::Result<()> {
        let pipe = self.pipe.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        // Until all of it is taken it is not known how much was: also when this future is dropped on its way.
        let was_lost = std::mem::replace(&mut self.lost, true);
        let sent = async {
            pipe.write_all(data.as_bytes()).await?;
            pipe.flush().await
        };
        tokio::time::timeout(PATIENCE, sent).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        self.typed.push_str(shown);
        self.lost = was_lost || self.typed.len() > MAX_TYPED;
        if self.lost {
            self.typed.clear();
        }
        Ok(())
    }
}

/// Adds to the arguments of a write what it is judged with. `data` becomes the whole line.
pub(super) async fn complete(args: &mut Map<String, Value>, process: &Background) {
    let input = process.input.lock().await;
    let (lines, unfinished) = input.lines();
    let Some(data) = args.get(DATA).and_then(Value::as_str) else { return };
    let whole = format!("{unfinished}{data}");
    let directory = process.directory.to_string_lossy().into_owned();
    let own = [
        (DATA, whole.into()),
        (PROGRAM, process.command.clone().into()),
        (WORKDIR, directory.into()),
        (TYPED, lines.map_or(Value::Null, Value::from)),
        (UNFINISHED, unfinished.into()),
    ];
    args.extend(own.map(|(key, value)| (key.to_owned(), value)));
}

/// The arguments of a write that the model gave.
pub(super) fn without_own(args: &Map<String, Value>) -> Map<String, Value> {
    let given = args.iter().filter(|(key, _)| !OWN.contains(&key.as_str()));
    given.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Sends the rest of the line in `args`, which is in `shown` as it was judged. Answers how many bytes that are.
///
/// # Errors
///
/// [`ProcessError`] when the process has ended, is not as it was when the call was judged, or does not take the input.
pub(super) async fn write(
    process: &Background,
    args: &Map<String, Value>,
    shown: &Map<String, Value>,
    eof: bool,
) -> Result<usize, ProcessError> {
    let id = || process.id.clone();
    if process.ending().is_some() {
        return Err(ProcessError::Ended { id: id() });
    }
    let mut input = process.input.lock().await;
    if input.pipe.is_none() {
        return Err(ProcessError::InputClosed { id: id() });
    }
    let (Some(data), Some(as_shown), true) = (rest(args), rest(shown), input.is_as_judged(shown, process))
    else {
        return Err(ProcessError::NotAsJudged { id: id() });
    };
    input.send(data, as_shown).await.map_err(|source| ProcessError::Write { id: id(), source })?;
    if eof {
        input.pipe = None;
    }
    Ok(data.len())
}

/// The part of the line that the process does not have yet.
fn rest(args: &Map<String, Value>) -> Option<&str> {
    args.get(DATA)?.as_str()?.strip_prefix(args.get(UNFINISHED)?.as_str()?)
}
