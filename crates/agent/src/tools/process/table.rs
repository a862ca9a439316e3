//! The background processes of a session.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use backstop_process::{Family, Group};
use tokio::sync::watch;

use super::ProcessError;
use super::input::Input;
use crate::tools::cancel::CancelToken;
use crate::tools::exec::spawn::{Ending, Job, Output, Stop, start};

/// The environment variable that marks the processes of a command.
const MARKER: &str = "BACKSTOP_EXEC_ID";
/// Most processes that run at once.
const MAX_RUNNING: usize = 16;
/// Most processes that are remembered, those that ended included.
const MAX_REMEMBERED: usize = 64;

/// What `exec` left running, by id. When it is dropped, all of it dies at once.
#[derive(Debug)]
pub struct ProcessTable {
    family: Family,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    last: u64,
    by_id: BTreeMap<u64, Arc<Background>>,
}

/// One background process, running or ended.
pub(in crate::tools) struct Background {
    pub(super) id: String,
    /// The command, as everybody but the process reads it.
    pub(super) command: String,
    /// Where it was started.
    pub(super) directory: PathBuf,
    pub(super) started: Instant,
    pub(super) output: Arc<Output>,
    pub(super) input: tokio::sync::Mutex<Input>,
    /// How much of the output was shown by `poll` so far.
    pub(super) shown: Mutex<u64>,
    ending: watch::Receiver<Option<Ending>>,
    stop: CancelToken,
    group: Arc<Group>,
}

impl fmt::Debug for Background {
    /// Without the command, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background")
            .field("id", &self.id)
            .field("ending", &self.ending())
            .finish_non_exhaustive()
    }
}

impl Background {
    /// How it ended; `None` while it runs.
    pub(super) fn ending(&self) -> Option<Ending> {
        *self.ending.borrow()
    }

    /// Waits for its end.
    pub(super) async fn ended(&self) -> Option<Ending> {
        // An error means that its keeper is gone, and with it the process.
        self.ending.clone().wait_for(Option::is_some).await.ok().and_then(|ending| *ending)
    }

    /// Asks it to end; it is killed if it does not.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }
}

impl ProcessTable {
    /// A table without processes.
    #[must_use]
    pub fn new() -> Self {
        let family = Family::new(MARKER, uuid::Uuid::now_v7().simple().to_string());
        Self { family, entries: Mutex::default() }
    }

    /// Whose children the commands of this session are.
    pub(in crate::tools) fn family(&self) -> &Family {
        &self.family
    }

    /// Starts `job` and keeps it; it is ended after `lifetime`. `shown` is its command as everybody but the process
    /// reads it. Answers its id.
    pub(in crate::tools) fn adopt(
        &self,
        job: Job,
        shown: &str,
        lifetime: Option<Duration>,
    ) -> Result<String, ProcessError> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.make_room()?;
        let directory = job.directory.clone();
        let mut running = start(job, self).map_err(ProcessError::Start)?;
        let (ended, ending) = watch::channel(None);
        let stop = CancelToken::new();
        entries.last += 1;
        let number = entries.last;
        let process = Background {
            id: format!("p{number}"),
            command: shown.to_owned(),
            directory,
            started: Instant::now(),
            output: running.output(),
            input: tokio::sync::Mutex::new(Input::new(running.take_input())),
            shown: Mutex::new(0),
            ending,
            stop: stop.clone(),
            group: running.group(),
        };
        let id = process.id.clone();
        entries.by_id.insert(number, Arc::new(process));
        tokio::spawn(async move {
            let expired = async {
                match lifetime {
                    Some(lifetime) => tokio::time::sleep(lifetime).await,
                    None => std::future::pending().await,
                }
            };
            let why = async {
                tokio::select! {
                    () = expired => Stop::TimedOut,
                    () = stop.cancelled() => Stop::Cancelled,
                }
            };
            ended.send_replace(Some(running.finish(why).await));
        });
        Ok(id)
    }

    /// The process called `id`.
    pub(super) fn get(&self, id: &str) -> Option<Arc<Background>> {
        let number: u64 = id.strip_prefix('p')?.parse().ok()?;
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.by_id.get(&number).filter(|process| process.id == id).cloned()
    }

    /// All processes, oldest first.
    pub(super) fn all(&self) -> Vec<Arc<Background>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.by_id.values().cloned().collect()
    }
}

impl Entries {
    fn make_room(&mut self) -> Result<(), ProcessError> {
        let running = self.by_id.values().filter(|process| process.ending().is_none()).count();
        if running >= MAX_RUNNING {
            return Err(ProcessError::TooMany { max: MAX_RUNNING });
        }
        while self.by_id.len() >= MAX_REMEMBERED {
            let over = self.by_id.iter().find(|(_, process)| process.ending().is_some());
            let Some(number) = over.map(|(number, _)| *number) else { break };
            self.by_id.remove(&number);
        }
        Ok(())
    }
}

impl Default for ProcessTable {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ProcessTable {
    fn drop(&mut self) {
        let entries = self.entries.get_mut().unwrap_or_else(PoisonError::into_inner);
        for process in entries.by_id.values() {
            process.group.kill_all();
            process.stop();
        }
        self.family.end();
    }
}
