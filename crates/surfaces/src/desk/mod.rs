//! The desk: what all surfaces have in common.
//!
//! It tells questions, in [`turns`], and withdraws them ([`telling`]), and decides about what people do ([`hearing`]). Each surface has a task of its own for the
//! first, and one more where answers are fetched, or come over a connection ([`ear`]); what one of them waits for holds up no other.

mod ear;
mod hearing;
mod telling;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use backstop_engine::Engine;
use backstop_hooks::{ApprovalId, Decision};
use backstop_store::{AnswerStore, ApprovalRecord, Timestamp};
use http::HeaderMap;
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use url::Url;
use uuid::Uuid;

pub use self::ear::{Ear, Stands};
pub use self::hearing::{Answered, Given};
use crate::counts::Counts;
use crate::push::WebPush;
use crate::quiet::QuietHours;
use crate::shown::{Shown, more_waits, shown, shown_in_short};
use crate::surface::{AnsweredOn, Posted, Refused, Surface};

/// How often it is looked whether there are new questions.
const LOOK: Duration = Duration::from_millis(200);
/// How much that was posted is decided at once.
const MOST_POSTED: usize = 32;

/// How long surfaces may take to close their connections at the end.
const GOODBYE: Duration = Duration::from_secs(2);

/// What is said where nothing can be answered, and the most characters of that and of how many more wait.
const ON_MACHINE: &str = "Answers are given on the machine alone: `backstop approvals`.";
const ON_CONSOLE: &str = "This can't be answered here, but on the console.";
const NOTE: usize = 160;

/// What the reference of a message begins with that shows nothing of its call, so that nobody allows it there.
const SHORT: &str = "short:";

/// What sets the desks of one process apart from those of others, and who counts what they do.
#[derive(Clone, Debug)]
pub struct Holder {
    id: Arc<str>,
    counts: Option<Arc<dyn Counts>>,
}

impl Default for Holder {
    /// Another one each time, which nobody counts for.
    fn default() -> Self {
        Self { id: Uuid::new_v4().simple().to_string().into(), counts: None }
    }
}

impl Holder {
    /// Returns the same, with somebody who counts.
    #[must_use]
    pub fn counted_by(self, counts: Arc<dyn Counts>) -> Self {
        Self { counts: Some(counts), ..self }
    }

    fn as_str(&self) -> &str {
        &self.id
    }

    fn count(&self, count: impl FnOnce(&dyn Counts)) {
        if let Some(counts) = &self.counts {
            count(counts.as_ref());
        }
    }
}

/// Where people are told of questions, and answer them.
#[derive(Debug)]
pub struct Desk {
    engine: Engine,
    surfaces: Vec<Arc<dyn Surface>>,
    /// Where the console is, for links.
    console: Option<Url>,
    /// When nobody is told of new questions.
    quiet: Option<QuietHours>,
    holder: Holder,
    /// What was posted and is not decided yet.
    posted: Arc<Semaphore>,
    /// Whose turn it is to be decided.
    turn: Mutex<()>,
}

/// A desk that tells and hears, until it is dropped.
#[derive(Debug)]
pub struct Running {
    desk: Arc<Desk>,
    tasks: Vec<JoinHandle<()>>,
    /// Those that have connections to close.
    listening: Vec<JoinHandle<()>>,
    /// Dropped when nothing is to be heard any more.
    hears: Option<watch::Sender<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.iter().chain(&self.listening).for_each(JoinHandle::abort);
    }
}

impl Running {
    /// Returns the desk.
    pub fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    /// Ends: closes connections, and leaves the surfaces to other processes at once.
    pub async fn stop(mut self) {
        let desk = Arc::clone(&self.desk);
        drop(self.hears.take());
        let listening = &mut self.listening;
        // Whoever takes longer is cut off.
        let _ = timeout(GOODBYE, async {
            for task in listening {
                let _ = task.await;
            }
        })
        .await;
        drop(self);
        for surface in desk.surfaces.iter().filter(|surface| surface.is_fetched()) {
            let now = Timestamp::now();
            let left =
                desk.store().lease_surface(surface.name().as_str(), desk.holder.as_str(), now, now).await;
            if let Err(error) = left {
                tracing::debug!(%error, "other processes hear a surface a minute later");
            }
        }
    }
}

impl Desk {
    /// Returns a desk for the questions of this engine. `console` is where people open the console; `quiet` is when nobody is told of new
    /// questions; `holder` sets this process apart from others, and stays the same for a desk that takes the place of another.
    pub fn new(
        engine: Engine,
        surfaces: Vec<Arc<dyn Surface>>,
        console: Option<Url>,
        quiet: Option<QuietHours>,
        holder: Holder,
    ) -> Arc<Self> {
        let posted = Arc::new(Semaphore::new(MOST_POSTED));
        Arc::new(Self { engine, surfaces, console, quiet, holder, posted, turn: Mutex::new(()) })
    }

    /// Tells and hears from now on.
    pub fn run(self: &Arc<Self>) -> Running {
        let (mark, marks) = watch::channel(0);
        let (hears, stopped) = watch::channel(());
        let mut listening = Vec::new();
        let mut tasks = vec![tokio::spawn(telling::look_out(Arc::clone(self), mark))];
        for surface in &self.surfaces {
            self.holder.count(|counts| counts.stands(surface.name()));
            tasks.push(tokio::spawn(telling::tell(Arc::clone(self), Arc::clone(surface), marks.clone())));
            if surface.is_fetched() && !self.is_strict() {
                tasks.push(tokio::spawn(hearing::fetch(Arc::clone(self), Arc::clone(surface))));
            }
            if surface.is_listened_to() && !self.is_strict() {
                self.holder.count(|counts| counts.listens(surface.name()));
                let ear = Ear::new(Arc::clone(self), Arc::clone(surface), stopped.clone());
                let surface = Arc::clone(surface);
                listening.push(tokio::spawn(async move { surface.listen(ear).await }));
            }
        }
        Running { desk: Arc::clone(self), tasks, listening, hears: Some(hears) }
    }

    /// Returns whether a request to the surface of this name is worth reading, by its headers.
    ///
    /// # Errors
    /// [`Refused`] if there is no such surface, or the request can't be the service's.
    pub fn expects(&self, name: &str, headers: &HeaderMap, now: Timestamp) -> Result<(), Refused> {
        let surface = self.surfaces.iter().find(|surface| surface.name().as_str() == name);
        surface.ok_or(Refused::NotHere)?.expects(headers, now)
    }

    /// Decides about a request that a service posted to the surface of this name.
    ///
    /// # Errors
    /// [`Refused`] if there is no such surface, or the request is not the service's.
    pub async fn posted(self: &Arc<Self>, name: &str, posted: &Posted<'_>) -> Result<Given, Refused> {
        let surface = self.surfaces.iter().find(|surface| surface.name().as_str() == name);
        hearing::posted(self, surface.ok_or(Refused::NotHere)?, posted).await
    }

    /// Returns web push, if devices are told.
    pub fn web_push(&self) -> Option<&WebPush> {
        self.surfaces.iter().find_map(|surface| surface.web_push())
    }

    fn store(&self) -> &Arc<dyn AnswerStore> {
        self.engine.answer_store()
    }

    /// Returns whether answers are given on the machine alone.
    fn is_strict(&self) -> bool {
        self.engine.keeps_answers_apart()
    }

    /// Returns where a question can be answered that can't be answered on a surface.
    fn answered_on(&self) -> AnsweredOn {
        if self.is_strict() { AnsweredOn::Machine } else { AnsweredOn::Console }
    }

    /// Returns where a question is shown.
    fn link(&self, approval: &ApprovalId) -> Option<Url> {
        let mut link = self.console.clone()?;
        let mut path = link.path_segments_mut().ok()?;
        path.pop_if_empty().extend(["-", "console", "approvals", approval.as_str()]);
        drop(path);
        Some(link)
    }

    /// Returns what a surface shows of a question, and what it offers.
    fn offered(&self, surface: &dyn Surface, record: &ApprovalRecord, more: usize) -> (Shown, Vec<Decision>) {
        let room = surface.room().map(|room| room.saturating_sub(NOTE));
        let mut shown = shown(record, room);
        let ceiling = surface.ceiling();
        let is_offered = |decision: &Decision| match decision {
            Decision::Deny => true,
            // INVARIANT (what the human saw): what is not shown whole is not allowed here.
            Decision::AllowOnce => {
                let is_offered = record.request.allowed_decisions.contains(decision);
                is_offered && !shown.is_cut && !record.is_abandoned()
            }
            Decision::AllowAlways => false,
        };
        let all = [Decision::AllowOnce, Decision::Deny].into_iter();
        let offered =
            all.filter(|decision| !self.is_strict() && ceiling.admits(*decision) && is_offered(decision));
        let offered: Vec<Decision> = offered.collect();
        if offered.is_empty() {
            let how = if self.is_strict() { ON_MACHINE } else { ON_CONSOLE };
            shown.text = format!("{}\n{how}", shown.text);
        }
        if let Some(more) = more_waits(more) {
            shown.text = format!("{}\n{more}", shown.text);
        }
        (shown, offered)
    }

    /// Returns what is shown of a question where a service takes nothing of its call.
    fn in_short(&self, record: &ApprovalRecord, more: usize) -> Shown {
        let mut shown = shown_in_short(record);
        let how = if self.is_strict() { ON_MACHINE } else { ON_CONSOLE };
        shown.text = format!("{}\n{how}", shown.text);
        if let Some(more) = more_waits(more) {
            shown.text = format!("{}\n{more}", shown.text);
        }
        shown
    }
}
