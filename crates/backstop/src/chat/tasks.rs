//! Tasks that go on whether or not somebody waits for them, so that whoever has to can: how many there are, and when they are over.

use std::sync::{Mutex, MutexGuard, PoisonError};

use backstop_gateway::chat::ChatPerson;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The tasks that are under way.
#[derive(Default)]
pub(super) struct Tasks(Mutex<Vec<Task>>);

struct Task {
    /// For whom it counts; none where it counts for nobody.
    of: Option<ChatPerson>,
    /// Closed once it is over, also where it panicked.
    over: watch::Receiver<()>,
}

/// How many there are, in all and of one person.
#[derive(Clone, Copy)]
pub(super) struct Count {
    pub(super) all: usize,
    pub(super) own: usize,
}

impl Count {
    /// Whether there may be one more.
    pub(super) fn has_room(self, most: Self) -> bool {
        self.all < most.all && self.own < most.own
    }
}

impl Tasks {
    /// The tasks that are under way, without those that are over.
    fn under_way(&self) -> MutexGuard<'_, Vec<Task>> {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|task| task.over.has_changed().is_ok());
        tasks
    }

    pub(super) fn count(&self, who: &ChatPerson) -> Count {
        count(&self.under_way(), who)
    }

    /// Begins one.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        of: Option<&ChatPerson>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let goes_on = add(&mut self.under_way(), of);
        start(goes_on, work)
    }

    /// Begins one, unless a person has as many as they may have, or all together.
    ///
    /// # Errors
    ///
    /// How many there are.
    pub(super) fn spawn_within<T: Send + 'static>(
        &self,
        most: Count,
        who: &ChatPerson,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<JoinHandle<T>, Count> {
        let goes_on = {
            let mut tasks = self.under_way();
            let now = count(&tasks, who);
            if !now.has_room(most) {
                return Err(now);
            }
            add(&mut tasks, Some(who))
        };
        Ok(start(goes_on, work))
    }

    /// Returns once all that are under way now are over.
    pub(super) async fn ended(&self) {
        let all: Vec<_> = self.under_way().iter().map(|task| task.over.clone()).collect();
        for mut over in all {
            while over.changed().await.is_ok() {}
        }
    }
}

fn count(tasks: &[Task], who: &ChatPerson) -> Count {
    let own = tasks.iter().filter(|task| task.of.as_ref() == Some(who)).count();
    Count { all: tasks.iter().filter(|task| task.of.is_some()).count(), own }
}

fn add(tasks: &mut Vec<Task>, of: Option<&ChatPerson>) -> watch::Sender<()> {
    let (goes_on, over) = watch::channel(());
    tasks.push(Task { of: of.cloned(), over });
    goes_on
}

fn start<T: Send + 'static>(
    goes_on: watch::Sender<()>,
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    tokio::spawn(async move {
        let done = work.await;
        drop(goes_on);
        done
    })
}
