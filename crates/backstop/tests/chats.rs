//! Conversations that are opened, left and broken off while others wait for them. What they run on is made when a test lets it.

#![expect(clippy::unwrap_used, reason = "tests fail loudly, helpers of tests too")]

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use backstop::agent::tools::{Limits, Toolbox, Workspace};
use backstop::agent::{Agent, AgentParts, AgentSettings, OneModel, Output};
use backstop::engine::Attendance;
use backstop::gateway::{Chat as _, ChatAgent};
use backstop::llm::{Api, Model, ModelRequest, ModelStream, Script, ScriptedModel};
use backstop::store::{SqliteStore, Store};
use backstop::{Backstop, ChatBase, ChatSeat, ChatSeats, Chats, MakingSeat};
use backstop_gateway::chat::{ChatPerson, MayNoMore};
use serde_json::json;
use tokio::sync::watch;

const PATIENCE: Duration = Duration::from_secs(30);

/// Plays a script, and panics in one of its calls.
#[derive(Debug)]
struct Breaks {
    model: ScriptedModel,
    calls: AtomicUsize,
    at: usize,
}

impl Model for Breaks {
    fn provider(&self) -> &str {
        self.model.provider()
    }

    fn api(&self) -> Api {
        self.model.api()
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        assert!(call != self.at, "this call breaks");
        self.model.stream(request)
    }
}

/// Makes what conversations run on, as long as the gate is open.
struct Seats {
    store: Arc<dyn Store>,
    model: Arc<Breaks>,
    folder: tempfile::TempDir,
    generation: AtomicU64,
    gate: watch::Sender<bool>,
    /// How many came to the gate.
    came: watch::Sender<usize>,
    /// Held by each that was made and has not ended.
    alive: Arc<()>,
}

impl Seats {
    async fn seat(&self, output: Arc<dyn Output>) -> ChatSeat {
        self.came.send_modify(|count| *count += 1);
        self.gate.subscribe().wait_for(|is_open| *is_open).await.unwrap();
        let backstop = Backstop::builder().store(Arc::clone(&self.store)).build().await.unwrap();
        let agent = Agent::new(AgentParts {
            engine: backstop.engine().clone(),
            store: Arc::clone(&self.store),
            models: Arc::new(OneModel(Arc::clone(&self.model) as Arc<dyn Model>)),
            toolbox: Toolbox::built_in(),
            workspace: Workspace::open(self.folder.path()).unwrap(),
            limits: Limits::default(),
            settings: AgentSettings::new("main", "scripted", "model-1"),
            attendance: Attendance::Nobody,
            output,
        });
        let keeps = Box::new(Arc::clone(&self.alive));
        ChatSeat { agent, base: Arc::new(ChatBase { backstop, keeps }) }
    }
}

impl ChatSeats for Seats {
    fn agent(&self) -> Result<ChatAgent, String> {
        Err("nobody asks".to_owned())
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    fn make(&self, output: Arc<dyn Output>) -> MakingSeat<'_> {
        Box::pin(async move { Ok(self.seat(output).await) })
    }
}

struct House {
    seats: Arc<Seats>,
    chats: Arc<Chats>,
}

fn person(name: &str) -> ChatPerson {
    ChatPerson::user(name)
}

/// Whoever may talk for ever.
fn always() -> MayNoMore {
    Box::pin(std::future::pending())
}

fn answers() -> String {
    json!({"text": "done"}).to_string()
}

/// Goes on with it until it has to wait.
async fn go_on<F: Future + ?Sized>(work: &mut Pin<Box<F>>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await
}

async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "it never was so: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

impl House {
    fn new(script: &[String]) -> Self {
        Self::breaking(script, usize::MAX)
    }

    fn breaking(script: &[String], at: usize) -> Self {
        let model = ScriptedModel::new(Script::parse(&script.join("\n")).unwrap());
        let seats = Arc::new(Seats {
            store: Arc::new(SqliteStore::in_memory()),
            model: Arc::new(Breaks { model, calls: AtomicUsize::new(0), at }),
            folder: tempfile::tempdir().unwrap(),
            generation: AtomicU64::new(0),
            gate: watch::Sender::new(true),
            came: watch::Sender::new(0),
            alive: Arc::default(),
        });
        let chats = Chats::new(Arc::clone(&seats) as Arc<dyn ChatSeats>);
        Self { seats, chats }
    }

    fn gate(&self, is_open: bool) {
        self.seats.gate.send_replace(is_open);
    }

    /// Waits until so many came to the gate since the beginning.
    async fn came(&self, count: usize) {
        self.seats.came.subscribe().wait_for(|came| *came >= count).await.unwrap();
    }

    fn another_configuration(&self) {
        self.seats.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// How many seats have not ended.
    fn alive(&self) -> usize {
        Arc::strong_count(&self.seats.alive) - 1
    }

    /// Begins conversations, and leaves them while their runs wait at the gate, so that they can't end. Nobody waits for that.
    async fn leave_at_the_gate(&self, who: &ChatPerson, count: usize) {
        self.gate(true);
        let mut begun = Vec::new();
        for _ in 0..count {
            begun.push(self.chats.begin(who).await.unwrap());
        }
        self.another_configuration();
        self.gate(false);
        let came = *self.seats.came.borrow();
        for id in &begun {
            self.chats.say(who, id, "go".to_owned(), always()).unwrap();
        }
        self.came(came + count).await;
        for id in &begun {
            let mut leaving = self.chats.leave(who, id);
            assert!(go_on(&mut leaving).await.is_pending());
            assert!(self.chats.seen(who, id).is_none());
        }
    }
}

#[tokio::test]
async fn conversations_that_were_left_are_waited_for() {
    let house = House::new(&[answers()]);
    let ann = person("ann");
    house.leave_at_the_gate(&ann, 1).await;
    let chats = Arc::clone(&house.chats);
    let mut renewed = Box::pin(chats.renew(true));
    assert!(go_on(&mut renewed).await.is_pending(), "one has not ended");
    house.gate(true);
    renewed.await;
    assert_eq!(house.alive(), 0);
    // Also by whoever comes after one who did not wait until the end.
    house.leave_at_the_gate(&ann, 1).await;
    for renewed in [true, false] {
        assert!(go_on(&mut Box::pin(chats.renew(renewed))).await.is_pending(), "one has not ended");
    }
    let mut down = Box::pin(chats.shut_down());
    assert!(go_on(&mut down).await.is_pending(), "one has not ended");
    house.gate(true);
    down.await;
    assert_eq!(house.alive(), 0);
}

#[tokio::test]
async fn conversations_that_are_ended_are_waited_for_by_the_next_who_ends_them() {
    let house = House::new(&[answers()]);
    let ann = person("ann");
    let id = house.chats.begin(&ann).await.unwrap();
    house.another_configuration();
    house.gate(false);
    house.chats.say(&ann, &id, "go".to_owned(), always()).unwrap();
    house.came(2).await;
    // As where a reload without chat is given up because the server is to end.
    assert!(go_on(&mut Box::pin(house.chats.renew(false))).await.is_pending());
    let mut down = Box::pin(house.chats.shut_down());
    assert!(go_on(&mut down).await.is_pending(), "it has not ended");
    house.gate(true);
    down.await;
    assert_eq!(house.alive(), 0);
}

#[tokio::test]
async fn who_leaves_conversations_that_do_not_end_begins_no_more_of_them() {
    let house = House::new(&[answers()]);
    let (ann, bob) = (person("ann"), person("bob"));
    house.leave_at_the_gate(&ann, 3).await;
    let came = *house.seats.came.borrow();
    let why = tokio::select! {
        begun = house.chats.begin(&ann) => begun.unwrap_err(),
        () = house.came(came + 1) => panic!("a fourth begins"),
    };
    assert!(why.starts_with("3 conversations of yours were left and have not ended yet"), "{why}");
    house.gate(true);
    house.chats.begin(&bob).await.unwrap();
    // What remains is his.
    until("they ended", || (house.alive() == 1).then_some(())).await;
    house.chats.begin(&ann).await.unwrap();
    house.chats.shut_down().await;
    assert_eq!(house.alive(), 0);
}
