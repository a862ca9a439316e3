//! People who talk with the own agent away from its terminal: in the console of a server.
//!
//! Laws:
//!
//! - *The same agent, the same hooks*: each conversation has an agent as `backstop agent` makes it, by the configuration in force. Where another one comes
//!   into force, what runs is stopped, and the next message is judged by that one.
//! - *Who speaks is who asked.* The sender of each message is the person whom a token or an identity provider proves; nothing that the agent could say or set
//!   names another one. They are not held to be the owner.
//! - *A conversation is its person's alone*, by the key of its session.
//! - *A run lasts as long as the right to it*: it is stopped when its person may talk no more, and its questions with it; and so does what it left running.
//! - *What is left is waited for*: whoever ends all conversations, or what they run on, waits also for those that were left before and have not ended yet.
//! - *Everything is bounded*: conversations that are open, that are being opened and that are being left, the length of a message, what is shown of a
//!   conversation. One run at a time. All conversations under one configuration share one set of hooks, so that plugins are loaded once, however many talk.
//!
//! Limits: a session does not grow old while it is open here; commands of plugins (`/name`) are for the terminal; and services of plugins are those of the
//! server itself.

mod conversation;
mod talk;
mod tasks;

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use backstop_agent::{Agent, Output, SessionChoice};
use backstop_gateway::chat::{Chat, ChatAgent, ChatOpen, ChatPerson, ChatSeen, MOST_MESSAGE, MayNoMore};
use backstop_hooks::SessionId;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use self::conversation::Conversation;
use self::tasks::{Count, Tasks};
use crate::builder::Backstop;

/// The most conversations at once, and those of one person. As many may be in the course of being opened, and where as
/// many were left and have not ended, no other one begins.
const MOST: usize = 8;
const MOST_OF_PERSON: usize = 3;
const LIMIT: Count = Count { all: MOST, own: MOST_OF_PERSON };
/// After how long in which nobody says anything a conversation gives its place to another person's, and after how long it ends by itself.
const GIVES_WAY: Duration = Duration::from_mins(10);
const IDLE: Duration = Duration::from_hours(1);
/// How often it is looked for those.
const LOOK: Duration = Duration::from_mins(1);

/// What conversations under one configuration share.
pub struct ChatBase {
    /// What judges them.
    pub backstop: Backstop,
    /// What has to live as long, and goes after it.
    pub keeps: Box<dyn Any + Send + Sync>,
}

/// What a conversation runs on.
pub struct ChatSeat {
    /// Its agent.
    pub agent: Agent,
    /// What is the conversation's own, and ends what the agent left behind when it is dropped: after the agent, and before what is shared.
    pub own: Box<dyn Any + Send + Sync>,
    /// What it shares with others.
    pub base: Arc<ChatBase>,
}

impl fmt::Debug for ChatBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatBase").field("backstop", &self.backstop).finish_non_exhaustive()
    }
}

impl fmt::Debug for ChatSeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatSeat").field("agent", &self.agent).finish_non_exhaustive()
    }
}

/// A seat that is being made.
pub type MakingSeat<'a> = Pin<Box<dyn Future<Output = Result<ChatSeat, String>> + Send + 'a>>;

/// Makes what conversations run on, by the configuration in force.
pub trait ChatSeats: Send + Sync {
    /// Returns with whom people talk.
    ///
    /// # Errors
    ///
    /// What is missing.
    fn agent(&self) -> Result<ChatAgent, String>;

    /// Returns a number that is another one with each configuration.
    fn generation(&self) -> u64;

    /// Makes a seat, whose agent shows what it does to `output`.
    fn make(&self, output: Arc<dyn Output>) -> MakingSeat<'_>;
}

impl ChatSeat {
    /// Lets go of what is shared. Whoever is last ends it.
    pub(crate) async fn end(self) {
        let Self { agent, own, base } = self;
        drop(agent);
        // It may wait for processes to be gone.
        let _ = tokio::task::spawn_blocking(move || drop(own)).await;
        if let Some(ChatBase { backstop, keeps }) = Arc::into_inner(base) {
            // The trail goes on: the server has the same.
            backstop.shut_down().await;
            drop(keeps);
        }
    }
}

/// The conversations of people.
pub struct Chats {
    seats: Arc<dyn ChatSeats>,
    own: Weak<Self>,
    open: Mutex<Vec<Arc<Conversation>>>,
    /// One is opened at a time, so that no two take the last place.
    opening: tokio::sync::Mutex<()>,
    /// Those that are being opened, or wait for it.
    openings: Tasks,
    /// What ends conversations that are not open any more, or what one of them runs on.
    endings: Arc<Tasks>,
    is_allowed: AtomicBool,
}

impl Chats {
    /// Lets people talk on such seats.
    pub fn new(seats: Arc<dyn ChatSeats>) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            seats,
            own: Weak::clone(own),
            open: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            openings: Tasks::default(),
            endings: Arc::default(),
            is_allowed: AtomicBool::new(true),
        })
    }

    /// Says that another configuration is in force: runs under the one before are stopped, and what they left running ends, so that nothing more is judged by
    /// that. Returns once it has ended. Where nobody may talk by it, all conversations end.
    pub async fn renew(&self, may_talk: bool) {
        if !may_talk {
            return self.shut_down().await;
        }
        self.is_allowed.store(true, Ordering::SeqCst);
        for one in self.all().iter() {
            one.stop("Stopped: another configuration came into force. What you say next is judged by it.");
        }
        // At once, and not when all who wait for one to be opened are through.
        self.unseat_before();
        // One that is being opened may be by the one before.
        let _nobody_opens = self.opening.lock().await;
        self.unseat_before();
        self.endings.ended().await;
    }

    /// Begins to end what conversations run on by a configuration that is not in force any more.
    fn unseat_before(&self) {
        let generation = self.seats.generation();
        for one in self.all().iter() {
            let one = Arc::clone(one);
            self.endings.spawn(None, async move { one.unseat_before(generation).await });
        }
    }

    /// Stops all runs and ends all conversations, also those that were left before; their sessions stay. Nobody begins another one. Returns once all have
    /// ended.
    pub async fn shut_down(&self) {
        self.is_allowed.store(false, Ordering::SeqCst);
        // At once, and not when all who wait for one to be opened are through.
        self.end_all();
        let _nobody_opens = self.opening.lock().await;
        self.end_all();
        self.endings.ended().await;
    }

    fn end_all(&self) {
        while self.end_one(|_| true).is_some() {}
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Conversation>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, who: &ChatPerson, id: &SessionId) -> Option<Arc<Conversation>> {
        self.all().iter().find(|one| one.is(who, id)).cloned()
    }

    /// Begins to end a conversation, which is not open any more from then on. It ends whether or not somebody waits for that.
    fn end_one(&self, which: impl Fn(&Conversation) -> bool) -> Option<JoinHandle<()>> {
        // INVARIANT (what is left is waited for): both under one lock, so that each conversation is open or among those that end.
        let mut all = self.all();
        let at = all.iter().position(|one| which(one))?;
        let one = all.remove(at);
        let who = one.who.clone();
        Some(self.endings.spawn(Some(&who), async move { one.end().await }))
    }

    /// Makes room for one more. Where a person has as many as they may, the one is left that they used the longest time ago and that does nothing; where there
    /// are as many as there may be, such a one of anybody in which nobody said anything for a while.
    async fn room(&self, who: &ChatPerson) -> Result<(), String> {
        let ending = self.endings.count(who);
        if !ending.has_room(LIMIT) {
            return Err(format!("{} were left and have not ended yet. Try again later.", too_many(ending)));
        }
        let left = {
            let all = self.all();
            let own = all.iter().filter(|one| one.who == *who).count();
            if own < MOST_OF_PERSON && all.len() < MOST {
                return Ok(());
            }
            let is_full_of_own = own >= MOST_OF_PERSON;
            let gives_way = |one: &&Arc<Conversation>| match is_full_of_own {
                true => one.who == *who,
                false => one.who == *who || one.unused_for() >= GIVES_WAY,
            };
            let idle = all.iter().filter(|one| !one.is_running()).filter(gives_way);
            let oldest = idle.max_by_key(|one| one.unused_for()).map(|one| one.id.clone());
            oldest.ok_or_else(|| match is_full_of_own {
                true => format!(
                    "The agent works in {own} conversations of yours, as many as you may have. Stop one."
                ),
                false => format!("{MOST} conversations are open, as many as there may be. Try again later."),
            })?
        };
        if let Some(ended) = self.end_one(|one| one.id == left) {
            let _ = ended.await;
        }
        Ok(())
    }

    /// Opens one, also where whoever asked does not wait for it: what was begun is open, or has ended.
    async fn open_one(&self, who: &ChatPerson, choice: SessionChoice) -> Result<SessionId, String> {
        let own = self.own.upgrade().ok_or("Nobody may begin a conversation now.")?;
        let whose = who.clone();
        let opening = async move { own.open_whole(&whose, choice).await };
        let opening = self.openings.spawn_within(LIMIT, who, opening).map_err(|now| {
            format!("{} are being opened, as many as there may be. Try again later.", too_many(now))
        })?;
        opening.await.unwrap_or_else(|_| Err("It can't be opened: a bug in Backstop.".to_owned()))
    }

    async fn open_whole(&self, who: &ChatPerson, choice: SessionChoice) -> Result<SessionId, String> {
        let _one_at_a_time = self.opening.lock().await;
        if !self.is_allowed.load(Ordering::SeqCst) {
            return Err("Nobody may begin a conversation now.".to_owned());
        }
        if let SessionChoice::Resume(id) = &choice
            && self.find(who, id).is_some()
        {
            return Ok(id.clone());
        }
        self.room(who).await?;
        let one = Conversation::open(self.seats.as_ref(), &self.endings, who, choice).await?;
        let id = one.id.clone();
        one.ends_some_day(&tokio::spawn(end_some_day(Weak::clone(&self.own), Arc::downgrade(&one))));
        self.all().push(one);
        Ok(id)
    }
}

fn too_many(now: Count) -> String {
    match now.own {
        own @ MOST_OF_PERSON.. => format!("{own} conversations of yours"),
        _ => format!("{} conversations", now.all),
    }
}

/// Ends a conversation in which nobody said anything for long.
async fn end_some_day(chats: Weak<Chats>, one: Weak<Conversation>) {
    loop {
        sleep(LOOK).await;
        let (Some(chats), Some(one)) = (chats.upgrade(), one.upgrade()) else { return };
        if !one.is_running() && one.unused_for() >= IDLE {
            chats.end_one(|other| other.id == one.id);
            return;
        }
    }
}

#[async_trait]
impl Chat for Chats {
    fn agent(&self) -> Result<ChatAgent, String> {
        self.seats.agent()
    }

    fn open(&self, who: &ChatPerson) -> Vec<ChatOpen> {
        self.all().iter().filter(|one| one.who == *who).map(|one| one.listed()).collect()
    }

    async fn begin(&self, who: &ChatPerson) -> Result<SessionId, String> {
        self.open_one(who, SessionChoice::New { key: who.key() }).await
    }

    async fn go_on(&self, who: &ChatPerson, id: &SessionId) -> Result<(), String> {
        self.open_one(who, SessionChoice::Resume(id.clone())).await.map(drop)
    }

    fn say(&self, who: &ChatPerson, id: &SessionId, message: String, until: MayNoMore) -> Result<(), String> {
        let one = self.find(who, id).ok_or("This conversation is not open here any more.")?;
        if message.trim().is_empty() {
            return Err("Say something.".to_owned());
        }
        if message.len() > MOST_MESSAGE {
            let length = message.len();
            return Err(format!("A message has {MOST_MESSAGE} bytes at most, and this one has {length}."));
        }
        one.say(Arc::clone(&self.seats), who.requester().clone(), message, until)
    }

    fn stop(&self, who: &ChatPerson, id: &SessionId) -> bool {
        self.find(who, id).is_some_and(|one| one.stop("Stopped by you."))
    }

    async fn leave(&self, who: &ChatPerson, id: &SessionId) {
        if let Some(ended) = self.end_one(|one| one.is(who, id)) {
            let _ = ended.await;
        }
    }

    fn seen(&self, who: &ChatPerson, id: &SessionId) -> Option<ChatSeen> {
        Some(self.find(who, id)?.seen())
    }

    fn mark(&self, who: &ChatPerson, id: &SessionId) -> Option<u64> {
        Some(self.find(who, id)?.mark())
    }
}

impl fmt::Debug for Chats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chats").field("open", &self.all().len()).finish_non_exhaustive()
    }
}
