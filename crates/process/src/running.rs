//! A program that runs, and how it comes to its end.

use std::future::Future;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

use crate::group::Group;

/// How long to wait for the system to confirm a kill; a process stuck in a disk wait does not die at once.
const REAP: Duration = Duration::from_secs(5);

/// How a program came to its end. `S` says who wanted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending<S> {
    /// `None` if the system did not tell in time.
    pub status: Option<ExitStatus>,
    /// Why it was ended, where it did not end by itself.
    pub stopped: Option<S>,
    /// Whether processes that the program left behind were ended with it.
    pub leftovers: bool,
    /// How long it ran.
    pub duration: Duration,
}

/// A program that runs. Dropping it kills all of its processes.
#[derive(Debug)]
pub struct Running {
    child: Child,
    group: Arc<Group>,
    started: Instant,
}

impl Running {
    pub(crate) fn new(child: Child, group: Arc<Group>, started: Instant) -> Self {
        Self { child, group, started }
    }

    /// All of its processes.
    pub fn group(&self) -> Arc<Group> {
        Arc::clone(&self.group)
    }

    /// Its standard input, once, where it is a pipe.
    pub fn take_input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Its standard output, once, where it is a pipe.
    pub fn take_output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its standard error, once, where it is a pipe.
    pub fn take_errors(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits for the end of the program, or brings it about when `stop` says so: what does not go within `grace` of being
    /// asked is killed. No process of the group is left afterwards.
    pub async fn finish<S>(mut self, stop: impl Future<Output = S>, grace: Duration) -> Ending<S> {
        let (status, stopped, leftovers) = tokio::select! {
            status = self.child.wait() => (status.ok(), None, self.end_leftovers(grace).await),
            stop = stop => (self.end(grace).await, Some(stop), false),
        };
        self.group.ended();
        Ending { status, stopped, leftovers, duration: self.started.elapsed() }
    }

    /// Ends the program and all that it started, first by asking.
    async fn end(&mut self, grace: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + grace;
        self.group.terminate();
        let status = tokio::time::timeout(grace, self.child.wait()).await;
        self.group.gone_within(deadline.saturating_duration_since(Instant::now())).await;
        self.group.kill_all();
        let status = match status {
            Ok(status) => Ok(status),
            Err(_) => tokio::time::timeout(REAP, self.child.wait()).await,
        };
        self.group.gone_within(REAP).await;
        status.ok().and_then(Result::ok)
    }

    /// Ends what is left of the group after the program itself has ended; whether there was anything.
    async fn end_leftovers(&self, grace: Duration) -> bool {
        if !self.group.is_alive() {
            return false;
        }
        self.group.terminate();
        self.group.gone_within(grace).await;
        self.group.kill();
        self.group.gone_within(REAP).await;
        true
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.group.kill_all();
    }
}
