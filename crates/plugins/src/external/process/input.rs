//! The standard input of a program: a line is written at once where the pipe has room for it, and by a task where not.
//!
//! Writing at once spares a turn of the scheduler in each question, which is a good part of what asking costs. INVARIANT (lines
//! stay whole and in order): nobody writes at once while a line waits for the task, or the rest of one does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use super::fault::Fault;

/// Most lines that wait to be written.
pub(super) const MOST_LINES: usize = 1024;

/// The pipe, and what waits for it.
#[derive(Debug)]
struct State {
    /// `None` once it is closed.
    pipe: Option<Arc<pipe::Sender>>,
    /// How many lines wait, one that is being written included.
    waiting: usize,
}

/// Where lines for a program go.
#[derive(Debug)]
pub(super) struct Input {
    state: Arc<Mutex<State>>,
    lines: mpsc::Sender<Vec<u8>>,
}

/// A line that could not be taken: too many wait, or the pipe is closed.
#[derive(Debug)]
pub(super) struct Full;

impl Input {
    /// The input of a program, and what writes the lines that wait.
    pub(super) fn new(pipe: pipe::Sender) -> (Self, Writer) {
        let (sender, lines) = mpsc::channel(MOST_LINES);
        let pipe = Arc::new(pipe);
        let state = Arc::new(Mutex::new(State { pipe: Some(Arc::clone(&pipe)), waiting: 0 }));
        (Self { state: Arc::clone(&state), lines: sender }, Writer { pipe, state, lines })
    }

    /// Writes a line, or has it written.
    pub(super) fn send(&self, mut line: Vec<u8>) -> Result<(), Full> {
        let mut state = lock(&self.state);
        let Some(pipe) = &state.pipe else { return Err(Full) };
        if state.waiting == 0 {
            match pipe.try_write(&line) {
                Ok(written) if written >= line.len() => return Ok(()),
                Ok(written) => drop(line.drain(..written)),
                // No room; or an error that the writer will meet, too, and say.
                Err(_) => {}
            }
        }
        self.lines.try_send(line).map_err(|_| Full)?;
        state.waiting += 1;
        Ok(())
    }

    /// Closes the pipe for those who write at once. It is closed for the program when its writer is gone, too.
    pub(super) fn close(&self) {
        lock(&self.state).pipe = None;
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What writes the lines that wait.
pub(super) struct Writer {
    pipe: Arc<pipe::Sender>,
    state: Arc<Mutex<State>>,
    lines: mpsc::Receiver<Vec<u8>>,
}

impl Writer {
    /// Writes until the program does not take it for as long as `stall`.
    pub(super) async fn run(mut self, stall: Duration) -> Fault {
        while let Some(line) = self.lines.recv().await {
            match tokio::time::timeout(stall, self.write(&line)).await {
                Ok(Ok(())) => lock(&self.state).waiting -= 1,
                Ok(Err(error)) => return Fault::Pipe(error.kind().to_string()),
                Err(_) => return Fault::DoesNotRead(stall),
            }
        }
        Fault::ShutDown
    }

    async fn write(&self, line: &[u8]) -> std::io::Result<()> {
        let mut rest = line;
        while !rest.is_empty() {
            self.pipe.writable().await?;
            match self.pipe.try_write(rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
