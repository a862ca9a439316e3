//! Starting a command, collecting its output, and bringing it to its end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::capture::Capture;
use super::group::{Group, MARKER};
use crate::tools::process::table::ProcessTable;

/// How long a group is given between being asked to end and being killed.
const GRACE: Duration = Duration::from_secs(2);
/// How long to wait for output that is still in the pipe after the command is gone.
const DRAIN: Duration = Duration::from_secs(1);
/// How long to wait for the system to confirm a kill; a process stuck in a disk wait does not die at once.
const REAP: Duration = Duration::from_secs(5);
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tools) struct Ending {
    /// `None` if the system did not tell in time.
    pub(in crate::tools) status: Option<ExitStatus>,
    pub(in crate::tools) stopped: Option<Stop>,
    /// Whether processes that the command left behind were ended with it.
    pub(in crate::tools) leftovers: bool,
    pub(in crate::tools) duration: Duration,
}

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
    child: Child,
    group: Arc<Group>,
    output: Arc<Output>,
    reader: JoinHandle<()>,
    started: Instant,
}

/// Starts `job` with `/bin/sh -c` in a process group of its own, its output and errors going to one pipe.
pub(in crate::tools) fn start(job: Job, processes: &ProcessTable) -> io::Result<Running> {
    let (reader, writer) = io::pipe()?;
    let reader = pipe::Receiver::from_owned_fd(reader.into())?;
    let marker = processes.next_marker();
    let started = Instant::now();
    let shell = OsString::from("/bin/sh");
    let mut words = job.launcher.iter().chain([&shell]);
    let mut command = Command::new(words.next().unwrap_or(&shell));
    command
        .args(words)
        .arg("-c")
        .arg(&job.command)
        .current_dir(&job.directory)
        .env_clear()
        .envs(&job.environment)
        .env(MARKER, &marker)
        .stdin(if job.with_input { Stdio::piped() } else { Stdio::null() })
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0)
        .kill_on_drop(true);
    let child = command.spawn()?;
    // The command holds the write ends of the pipe, and the pipe ends only when all of them are closed.
    drop(command);
    let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let leader = leader.ok_or_else(|| io::Error::other("the command has no process number"))?;
    let group = Arc::new(Group::new(leader, marker, processes.lifeline()));
    processes.lifeline().watch(group.id())?;
    let output = Arc::new(Output::new(job.capture));
    let reader = tokio::spawn(collect(reader, Arc::clone(&output)));
    Ok(Running { child, group, output, reader, started })
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
        Arc::clone(&self.group)
    }

    pub(in crate::tools) fn take_input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Waits for the end of the command, or brings it about when `stop` says so. No process of the group is left
    /// afterwards, and all of its output has been collected.
    pub(in crate::tools) async fn finish(mut self, stop: impl Future<Output = Stop>) -> Ending {
        let (status, stopped, leftovers) = tokio::select! {
            status = self.child.wait() => (status.ok(), None, self.end_leftovers().await),
            stop = stop => (self.end().await, Some(stop), false),
        };
        self.group.ended();
        let duration = self.started.elapsed();
        // A process that left the group may still hold the pipe; its output is not waited for.
        if tokio::time::timeout(DRAIN, &mut self.reader).await.is_err() {
            self.reader.abort();
        }
        Ending { status, stopped, leftovers, duration }
    }

    /// Ends the command and all that it started, first by asking.
    async fn end(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + GRACE;
        self.group.terminate();
        let status = tokio::time::timeout(GRACE, self.child.wait()).await;
        self.group.gone_within(deadline.saturating_duration_since(Instant::now())).await;
        self.group.kill_all();
        let status = match status {
            Ok(status) => Ok(status),
            Err(_) => tokio::time::timeout(REAP, self.child.wait()).await,
        };
        self.group.gone_within(REAP).await;
        status.ok().and_then(Result::ok)
    }

    /// Ends what is left of the group after the command itself has ended; whether there was anything.
    async fn end_leftovers(&self) -> bool {
        if !self.group.is_alive() {
            return false;
        }
        self.group.terminate();
        self.group.gone_within(GRACE).await;
        self.group.kill();
        self.group.gone_within(REAP).await;
        true
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.group.kill_all();
        self.reader.abort();
    }
}
