//! The pipes of a program: what it writes is read within bounds, what is for it is written, until something is wrong.

use std::sync::Arc;
use std::time::Duration;

use backstop_process::Running;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::ChildStdout;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Limits;
use super::fault::Fault;
use super::input::Writer;
use super::life::Question;
use super::session::Session;
use super::stop::Stop;
use super::wire::{self, Incoming, Level};
use crate::external::shown;

const CHUNK_BYTES: usize = 64 * 1024;
/// Most characters of a line of a log.
const MOST_LOG_CHARS: usize = 2_000;
/// For how long what nobody asked for is counted.
const WINDOW: Duration = Duration::from_secs(10);
/// How long a program that has closed its output is given to end.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// A task that ends with this value.
#[derive(Debug)]
pub(super) struct Task<T>(pub(super) JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The pipes of one program.
pub(super) struct Pipes {
    pub(super) session: Arc<Session>,
    pub(super) running: Running,
    pub(super) output: ChildStdout,
    pub(super) writer: Writer,
    pub(super) limits: Limits,
    /// Says that the program is to end.
    pub(super) stop: Stop,
    pub(super) plugin: Arc<str>,
}

impl Pipes {
    /// Serves the program to its end, which is brought about if need be. Nothing of its tree is left when this returns.
    pub(super) async fn serve(self) -> Fault {
        let Self { session, running, output, writer, limits, stop, plugin } = self;
        let _over = Over(Arc::clone(&session));
        let mut writer = Task(tokio::spawn(writer.run(limits.stall)));
        let mut reader = Reader { output, buffer: Vec::new(), unasked: Unasked::default(), limits, plugin };
        let fault = {
            let mut overdue = std::pin::pin!(session.overdue(limits.cancel_grace));
            loop {
                tokio::select! {
                    read = reader.read(&session) => if let Err(fault) = read { break fault },
                    fault = &mut writer.0 => break reader.after(fault.unwrap_or(Fault::ShutDown), &session).await,
                    () = &mut overdue => break Fault::IgnoresCancel(limits.cancel_grace),
                    () = stop.asked() => {
                        bid_farewell(&session, &mut reader, limits.grace).await;
                        break Fault::ShutDown;
                    }
                }
            }
        };
        match fault {
            Fault::Ended { in_answer, .. } => {
                let ending = running.finish(tokio::time::sleep(LAST_MOMENT), limits.grace).await;
                let fault = Fault::ended(ending.status, in_answer);
                session.end(&fault);
                fault
            }
            Fault::ShutDown => {
                session.end(&fault);
                // The end of its input is what a program waits for that knows no `shutdown`.
                session.close_input();
                drop(writer);
                running.finish(tokio::time::sleep(limits.grace), limits.grace).await;
                fault
            }
            fault => {
                session.end(&fault);
                running.finish(std::future::ready(()), limits.grace).await;
                fault
            }
        }
    }
}

/// Ends a session, also where nobody waits for the end of its program.
struct Over(Arc<Session>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.end(&Fault::ShutDown);
    }
}

/// Asks the program to end, and waits until it has agreed or is gone.
async fn bid_farewell(session: &Arc<Session>, reader: &mut Reader, grace: Duration) {
    let agreed = session.request(wire::shutdown, None);
    let gone = async { while reader.read(session).await.is_ok() {} };
    let farewell = async {
        tokio::select! {
            _ = agreed => {}
            () = gone => {}
        }
    };
    let _ = tokio::time::timeout(grace, farewell).await;
}

struct Reader {
    output: ChildStdout,
    /// The beginning of a line.
    buffer: Vec<u8>,
    unasked: Unasked,
    limits: Limits,
    plugin: Arc<str>,
}

impl Reader {
    /// Reads once, and handles the lines that are whole. It can be dropped while it waits.
    async fn read(&mut self, session: &Arc<Session>) -> Result<(), Fault> {
        self.buffer.reserve(CHUNK_BYTES);
        let before = self.buffer.len();
        let read = self.output.read_buf(&mut self.buffer).await;
        if !matches!(read, Ok(1..)) {
            return Err(Fault::ended(None, !self.buffer.is_empty()));
        }
        let fresh = self.buffer.get(before..).unwrap_or_default();
        let Some(end) = fresh.iter().rposition(|byte| *byte == b'\n') else {
            return self.short_enough(self.buffer.len());
        };
        let rest = self.buffer.split_off(before + end + 1);
        let lines = std::mem::replace(&mut self.buffer, rest);
        self.short_enough(self.buffer.len())?;
        let mut answers = Vec::new();
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
            self.short_enough(line.len())?;
            match wire::read(line, session.life().is_some())? {
                Incoming::Answer { id, answer } => answers.push((id, answer)),
                Incoming::Question { id, method, params } => {
                    self.unasked.add(line.len(), self.limits.most_unasked)?;
                    // INVARIANT: only those that have a life may ask.
                    if let Some(life) = session.life() {
                        life.asked(Question { session: Arc::clone(session), id }, &method, params)?;
                    }
                }
                Incoming::Log { level, message } => {
                    self.unasked.add(line.len(), self.limits.most_unasked)?;
                    log(&self.plugin, level, &message);
                }
            }
        }
        if !answers.is_empty() {
            self.unasked = Unasked::default();
        }
        session.answer(answers)
    }

    fn short_enough(&self, length: usize) -> Result<(), Fault> {
        let most = self.limits.most_line;
        if length > most { Err(Fault::LongLine { most }) } else { Ok(()) }
    }

    /// Why the program can't be written to: it has ended, most often, and that says more.
    async fn after(&mut self, fault: Fault, session: &Arc<Session>) -> Fault {
        if !matches!(fault, Fault::Pipe(_)) {
            return fault;
        }
        let ended = async {
            loop {
                if let Err(fault) = self.read(session).await {
                    return fault;
                }
            }
        };
        tokio::time::timeout(LAST_MOMENT, ended).await.unwrap_or(fault)
    }
}

/// What a program writes that nobody asked for.
#[derive(Default)]
struct Unasked {
    since: Option<Instant>,
    bytes: usize,
}

impl Unasked {
    fn add(&mut self, bytes: usize, most: usize) -> Result<(), Fault> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() > WINDOW {
            *self = Self { since: Some(Instant::now()), bytes: 0 };
        }
        self.bytes += bytes;
        if self.bytes > most { Err(Fault::Flood { most }) } else { Ok(()) }
    }
}

fn log(plugin: &str, level: Level, message: &str) {
    let message = shown(message, MOST_LOG_CHARS);
    match level {
        Level::Debug => tracing::debug!(plugin, "{message}"),
        Level::Info => tracing::info!(plugin, "{message}"),
        Level::Warn => tracing::warn!(plugin, "{message}"),
        Level::Error => tracing::error!(plugin, "{message}"),
    }
}

/// Reads what a program says on its standard error: lines for the log, of which the last are kept.
pub(super) async fn listen(
    mut errors: impl AsyncRead + Unpin,
    plugin: Arc<str>,
    most: usize,
    kept: Arc<super::LastWords>,
) {
    let mut chunk = vec![0; CHUNK_BYTES / 16];
    let mut line = Vec::new();
    let mut said = Unasked::default();
    while let Ok(read @ 1..) = errors.read(&mut chunk).await {
        for byte in chunk.get(..read).unwrap_or_default() {
            match byte {
                b'\n' => hear(&mut line, &plugin, &mut said, most, &kept),
                byte if line.len() < MOST_LOG_CHARS => line.push(*byte),
                _ => {}
            }
        }
    }
    hear(&mut line, &plugin, &mut said, most, &kept);
}

fn hear(line: &mut Vec<u8>, plugin: &str, said: &mut Unasked, most: usize, kept: &super::LastWords) {
    let text = String::from_utf8_lossy(line).into_owned();
    line.clear();
    if text.trim().is_empty() {
        return;
    }
    let was = said.bytes;
    if said.add(text.len(), most).is_ok() {
        log(plugin, Level::Info, &text);
    } else if was <= most {
        tracing::warn!(plugin, "its standard error is dropped for a while: more than {most} bytes");
    }
    kept.push(text);
}
