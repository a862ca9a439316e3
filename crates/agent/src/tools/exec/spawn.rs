//! Starting a command, collecting its output, and bringing it to its end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_process::{Group, Program};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::ChildStdin;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::capture::Capture;
use crate::tools::process::table::ProcessTable;

/// How long a group is given between being asked to end and being killed.
const GRACE: Duration = Duration::from_secs(2);
/// How long to wait for output that is still in the pipe after the command is gone.
const DRAIN: Duration = Duration::from_secs(1);
const CHUNK_BYTES: usize = 32 * 1024;

/// What to start.
pub(in crate::tools) struct Job {
    /// The words before the shell's own.
    pub(in crate::tools) launcher: Arc<[OsString]>,
    pub(in crate::tools) command: String,
    pub(in crate::tools) directory: PathBuf,
    pub(in crate::tools) environment: BTreeMap<OsString, OsString>,
    pub(in crate::tools) with_input: bool,
    pub(in crate::tools) capture: Capture,
}

/// Why a command was ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tools) enum Stop {
    TimedOut,
    Cancelled,
}

/// How a command came to its end.
pub(in crate::tools) type Ending = backstop_process::Ending<Stop>;

/// Output that is still being collected.
#[derive(Debug)]
pub(in crate::tools) struct Output {
    capture: Mutex<Capture>,
    total: watch::Sender<u64>,
}

impl Output {
    fn new(capture: Capture) -> Self {
        Self { capture: Mutex::new(capture), total: watch::Sender::new(0) }
    }

    pub(in crate::tools) fn with<T>(&self, look: impl FnOnce(&Capture) -> T) -> T {
        look(&self.capture.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until more than `offset` bytes have come in.
    pub(in crate::tools) async fn beyond(&self, offset: u64) {
        let _ = self.total.subscribe().wait_for(|total| *total > offset).await;
    }

    fn push(&self, bytes: &[u8]) {
        let total = {
            let mut capture = self.capture.lock().unwrap_or_else(PoisonError::into_inner);
            capture.push(bytes);
            capture.total()
        };
        self.total.send_replace(total);
    }
}

/// A command that runs. Dropping it kills all of its processes.
#[derive(Debug)]
pub(in crate::tools) struct Running {
    running: backstop_process::Running,
    output: Arc<Output>,
    reader: Reader,
}

/// What collects the output, as long as somebody wants it.
#[derive(Debug)]
struct Reader(JoinHandle<()>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts `job` with `/bin/sh -c`, its output and errors going to one pipe.
pub(in crate::tools) fn start(job: Job, processes: &ProcessTable) -> io::Result<Running> {
    let (reader, writer) = io::pipe()?;
    let reader = pipe::Receiver::from_owned_fd(reader.into())?;
    let shell = OsString::from("/bin/sh");
    let mut words = job.launcher.iter().chain([&shell]);
    let mut program = Program::new(words.next().unwrap_or(&shell));
    program.arguments = words.cloned().chain(["-c".into(), job.command.into()]).collect();
    program.directory = job.directory;
    program.environment = job.environment;
    program.input = if job.with_input { Stdio::piped() } else { Stdio::null() };
    program.output = writer.try_clone()?.into();
    program.errors = writer.into();
    let running = processes.family().start(program)?;
    let output = Arc::new(Output::new(job.capture));
    let reader = Reader(tokio::spawn(collect(reader, Arc::clone(&output))));
    Ok(Running { running, output, reader })
}

async fn collect(mut pipe: pipe::Receiver, output: Arc<Output>) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
        output.push(chunk.get(..read).unwrap_or_default());
    }
}

impl Running {
    pub(in crate::tools) fn output(&self) -> Arc<Output> {
        Arc::clone(&self.output)
    }

    pub(in crate::tools) fn group(&self) -> Arc<Group> {
        self.running.group()
    }

    pub(in crate::tools) fn take_input(&mut self) -> Option<ChildStdin> {
        self.running.take_input()
    }

    /// Waits for the end of the command, or brings it about when `stop` says so. No process of the group is left
    /// afterwards, and all of its output has been collected.
    pub(in crate::tools) async fn finish(self, stop: impl Future<Output = Stop>) -> Ending {
        let Self { running, output: _, mut reader } = self;
        let ending = running.finish(stop, GRACE).await;
        // A process that left the group may still hold the pipe; its output is not waited for.
        let _ = tokio::time::timeout(DRAIN, &mut reader.0).await;
        ending
    }
}
