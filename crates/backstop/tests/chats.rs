//! Conversations that are opened, left and broken off while others wait for them. What they run on is made when a test lets it.

#![expect(clippy::unwrap_used, reason = "tests fail loudly, helpers of tests too")]

use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use backstop::agent::tools::{Limits, Toolbox, Workspace};
use backstop::agent::{Agent, AgentParts, AgentSettings, OneModel, Output};
use backstop::engine::Attendance;
use backstop::gateway::{Chat as _, ChatAgent};
use backstop::hooks::SessionId;
use backstop::llm::{Api, Model, ModelRequest, ModelStream, Script, ScriptedModel};
use backstop::store::{SqliteStore, Store};
use backstop::{Backstop, ChatBase, ChatSeat, ChatSeats, Chats, MakingSeat};
use backstop_gateway::chat::{ChatLine, ChatPerson, MayNoMore};
use serde_json::json;
use tokio::sync::{oneshot, watch};

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
        ChatSeat { agent, base: Arc::new(ChatBase { backstop, keeps }), own: Box::new(()) }
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

/// A call that leaves a process running, which writes down its number.
fn leaves_one() -> String {
    let arguments = json!({"command": "echo $$ > left.txt; sleep 600", "background": true});
    json!({"tool_calls": [{"name": "exec", "arguments": arguments}]}).to_string()
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

    fn is_running(&self, who: &ChatPerson, id: &SessionId) -> bool {
        self.chats.seen(who, id).unwrap().is_running
    }

    /// The process that a call left running, once it is there.
    async fn left(&self) -> PathBuf {
        let file = self.seats.folder.path().join("left.txt");
        let process = until("something was left running", || {
            let id = std::fs::read_to_string(&file).ok()?;
            id.ends_with('\n').then(|| PathBuf::from("/proc").join(id.trim()))
        });
        let process = process.await;
        std::fs::remove_file(file).unwrap();
        process
    }

    /// Begins a conversation that leaves a process running.
    async fn begin_and_leave_one(&self, who: &ChatPerson) -> (SessionId, PathBuf) {
        let id = self.chats.begin(who).await.unwrap();
        self.chats.say(who, &id, "leave one".to_owned(), always()).unwrap();
        let process = self.left().await;
        until("it was done", || (!self.is_running(who, &id)).then_some(())).await;
        assert!(process.is_dir());
        (id, process)
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
async fn who_waits_for_a_conversation_to_be_opened_is_one_of_few() {
    let house = House::new(&[answers()]);
    house.gate(false);
    let people = ["ann", "ann", "ann", "bob", "bob", "bob", "eve", "eve"].map(person);
    let mut opening: Vec<_> = people.iter().map(|who| house.chats.begin(who)).collect();
    for (at, one) in opening.iter_mut().enumerate() {
        assert!(go_on(one).await.is_pending());
        if at == 2 {
            let refused = go_on(&mut house.chats.begin(&people[0])).await;
            let Poll::Ready(Err(why)) = refused else { panic!("a fourth waits: {refused:?}") };
            assert!(why.starts_with("3 conversations of yours are being opened"), "{why}");
        }
    }
    // Whoever does not wait for it any more, has it opened all the same.
    drop(opening.pop());
    let (dan, eve) = (person("dan"), person("eve"));
    let refused = go_on(&mut house.chats.begin(&dan)).await;
    let Poll::Ready(Err(why)) = refused else { panic!("a ninth waits: {refused:?}") };
    assert!(why.starts_with("8 conversations are being opened"), "{why}");
    house.gate(true);
    for one in opening {
        one.await.unwrap();
    }
    until("all were opened", || (house.chats.open(&eve).len() == 2).then_some(())).await;
    let why = house.chats.begin(&dan).await.unwrap_err();
    assert!(why.starts_with("8 conversations are open"), "{why}");
    house.chats.shut_down().await;
    assert_eq!(house.alive(), 0);
}

#[tokio::test]
async fn what_is_left_running_ends_before_whoever_opens_a_conversation_is_through() {
    for may_talk in [true, false] {
        let house = House::new(&[leaves_one(), answers()]);
        let (ann, bob) = (person("ann"), person("bob"));
        let (_, process) = house.begin_and_leave_one(&ann).await;
        house.gate(false);
        let mut opening = house.chats.begin(&bob);
        assert!(go_on(&mut opening).await.is_pending());
        house.came(2).await;
        house.another_configuration();
        let chats = Arc::clone(&house.chats);
        let renewed = tokio::spawn(async move { chats.renew(may_talk).await });
        until("it ended", || (!process.is_dir()).then_some(())).await;
        assert!(!renewed.is_finished(), "what is being opened is by the configuration before");
        house.gate(true);
        renewed.await.unwrap();
        assert_eq!(house.alive(), 0, "so it ended as well");
        opening.await.unwrap();
        assert_eq!(house.chats.open(&bob).len(), usize::from(may_talk));
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

#[tokio::test]
async fn what_a_run_left_that_panicked_ends() {
    let house = House::breaking(&[leaves_one(), answers()], 1);
    let ann = person("ann");
    let id = house.chats.begin(&ann).await.unwrap();
    house.chats.say(&ann, &id, "leave one".to_owned(), always()).unwrap();
    let process = house.left().await;
    until("it ended", || (!process.is_dir()).then_some(())).await;
    until("the run was over", || (!house.is_running(&ann, &id)).then_some(())).await;
    let told = |seen: &[ChatLine]| matches!(seen.last(), Some(ChatLine::Ended(why)) if why.contains("a bug in Backstop"));
    assert!(told(&house.chats.seen(&ann, &id).unwrap().lines));
    assert_eq!(house.alive(), 0);
    // What is said next begins anew.
    house.chats.say(&ann, &id, "again".to_owned(), always()).unwrap();
    until("it was answered", || (!house.is_running(&ann, &id)).then_some(())).await;
    assert!(!told(&house.chats.seen(&ann, &id).unwrap().lines));
    house.chats.shut_down().await;
    assert_eq!(house.alive(), 0);
}

#[tokio::test]
async fn what_a_run_left_ends_where_nobody_can_tell_whether_its_person_may_talk() {
    let house = House::new(&[leaves_one(), answers()]);
    let ann = person("ann");
    let id = house.chats.begin(&ann).await.unwrap();
    let (breaks, told) = oneshot::channel::<()>();
    let until_then = Box::pin(async move {
        told.await.unwrap();
        panic!("looking breaks");
    });
    house.chats.say(&ann, &id, "leave one".to_owned(), until_then).unwrap();
    let process = house.left().await;
    until("it was done", || (!house.is_running(&ann, &id)).then_some(())).await;
    assert!(process.is_dir());
    breaks.send(()).unwrap();
    until("it ended", || (!process.is_dir()).then_some(())).await;
    house.chats.shut_down().await;
    assert_eq!(house.alive(), 0);
}

#[tokio::test]
async fn what_was_left_leaves_no_task_behind() {
    let house = House::new(&[answers()]);
    let ann = person("ann");
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..5 {
        let id = house.chats.begin(&ann).await.unwrap();
        house.chats.leave(&ann, &id).await;
    }
    until("no task goes on", || (tasks() <= before).then_some(())).await;
}
