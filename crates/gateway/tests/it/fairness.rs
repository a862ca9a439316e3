//! Others have their turn while answers with a great many items are read and judged: counted in the turns of another task, on
//! one thread. No clock is asked.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use async_trait::async_trait;
use backstop_gateway::exchange::{Answered, Body, Outgoing, Requested, Step, Watch};
use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_gateway::{Exchange, Interceptor, Plan};
use backstop_hooks::points::{BeforeToolCall, ToolAfter, ToolCallOutcome};
use backstop_llm::Api;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::inspect::support::{House, SECRET, ask, path, settings_of};
use crate::support::{Script, Upstream, chunk, post, start, talk};

/// How many items each answer has.
const MANY: usize = 1_500;
/// What may be done of one answer before others have their turn: `tokio` gives a task 128 for each of its own, and may give it
/// a few of those at once.
const TURN: usize = 256;
/// How many pieces of an answer may be read before: four, and once more as many.
const PIECES: usize = 8;

/// A task that does nothing but take its turns.
struct Turns {
    count: Arc<AtomicUsize>,
    taking: JoinHandle<()>,
}

impl Turns {
    fn start() -> Self {
        let count = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&count);
        let taking = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                // Behind those who wait now: `yield_now` would wait for sockets, too.
                let mut had_its_turn = false;
                poll_fn(|cx| {
                    if std::mem::replace(&mut had_its_turn, true) {
                        return Poll::Ready(());
                    }
                    cx.waker().wake_by_ref();
                    Poll::Pending
                })
                .await;
            }
        });
        Self { count, taking }
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.taking.abort();
    }
}

/// How much was done at most between two turns of others.
#[derive(Debug, Default)]
struct Run {
    turn: usize,
    length: usize,
    longest: usize,
    all: usize,
}

/// Counts what is done.
#[derive(Clone, Debug)]
struct Counter {
    turns: Arc<AtomicUsize>,
    run: Arc<Mutex<Run>>,
}

impl Counter {
    fn of(turns: &Turns) -> Self {
        Self { turns: Arc::clone(&turns.count), run: Arc::default() }
    }

    fn count(&self) {
        let (now, mut run) = (self.turns.load(Ordering::Relaxed), self.run.lock().unwrap());
        run.length = if run.turn == now { run.length + 1 } else { 1 };
        (run.turn, run.longest, run.all) = (now, run.longest.max(run.length), run.all + 1);
    }

    /// All that was done, and the most of it without a turn of others.
    fn counted(&self) -> (usize, usize) {
        let run = self.run.lock().unwrap();
        (run.all, run.longest)
    }
}

/// Hooks whose exchanges are counted piece by piece.
struct Counted {
    hooks: Hooks,
    turns: Arc<AtomicUsize>,
    counters: Arc<Mutex<Vec<Counter>>>,
}

impl Interceptor for Counted {
    fn begin(&self, call: &backstop_gateway::exchange::Call<'_>) -> Plan {
        match self.hooks.begin(call) {
            Plan::Inspect(inner) => {
                let counter = Counter { turns: Arc::clone(&self.turns), run: Arc::default() };
                self.counters.lock().unwrap().push(counter.clone());
                Plan::Inspect(Box::new(Counting { inner, counter }))
            }
            opaque @ Plan::Opaque => opaque,
        }
    }

    fn withholds(&self, agent: Option<&backstop_hooks::AgentId>, words: &[&str]) -> Vec<usize> {
        self.hooks.withholds(agent, words)
    }
}

struct Counting {
    inner: Box<dyn Exchange>,
    counter: Counter,
}

#[async_trait]
impl Exchange for Counting {
    async fn request(&mut self, body: &Body<'_>) -> Requested {
        self.inner.request(body).await
    }

    fn response(&mut self, answered: &Answered<'_>) -> Watch {
        self.inner.response(answered)
    }

    fn chunk(&mut self, chunk: Bytes, out: &mut Outgoing) -> Step {
        self.counter.count();
        self.inner.chunk(chunk, out)
    }

    fn finish(&mut self, out: &mut Outgoing) -> Step {
        self.inner.finish(out)
    }

    async fn decide(&mut self, out: &mut Outgoing) -> Step {
        self.inner.decide(out).await
    }
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

/// A stream of Responses with many calls.
fn calls() -> Vec<String> {
    // So much that it comes in a great many pieces.
    let command = SECRET.repeat(100);
    let item = |number: usize| json!({"type": "function_call", "id": format!("fc_{number}"), "call_id": format!("call_{number}"), "name": "exec", "arguments": json!({"command": command}).to_string(), "status": "completed"});
    let frame = |status: &str, output: Vec<Value>| json!({"id": "r", "status": status, "model": "m", "output": output});
    let mut events =
        vec![event(&json!({"type": "response.created", "response": frame("in_progress", Vec::new())}))];
    for number in 0..MANY {
        for kind in ["response.output_item.added", "response.output_item.done"] {
            events.push(event(&json!({"type": kind, "output_index": number, "item": item(number)})));
        }
    }
    let output = (0..MANY).map(item).collect();
    events.push(event(&json!({"type": "response.completed", "response": frame("completed", output)})));
    events
}

/// A provider whose answer has come at once, in as many pieces as there are events.
async fn streaming(events: &[String]) -> Upstream {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut bytes = head.as_bytes().to_vec();
    events.iter().for_each(|event| bytes.extend(chunk(event.as_bytes())));
    bytes.extend_from_slice(b"0\r\n\r\n");
    Upstream::start(move |_| Script::whole(bytes.clone())).await
}

#[tokio::test]
async fn four_streams_of_a_great_many_calls_leave_others_their_turn() {
    let events = calls();
    let upstream = streaming(&events).await;
    let house = House::new();
    house.withhold("exec");
    let hooks = HookSettings { refusals: 0, ..HookSettings::default() };
    let turns = Turns::start();
    let counters = Arc::<Mutex<Vec<Counter>>>::default();
    let counted = Counted {
        hooks: Hooks::new(house.engine.clone(), hooks).unwrap(),
        turns: Arc::clone(&turns.count),
        counters: Arc::clone(&counters),
    };
    let gateway = start(settings_of(&upstream.url()), counted).await.unwrap();
    let body = ask(Api::OpenAiResponses, true, "hi").to_string();
    let request = post(&path(Api::OpenAiResponses, true), &body);
    let all = || talk(&gateway, request.clone());
    let answers = tokio::join!(all(), all(), all(), all());
    for answer in [answers.0, answers.1, answers.2, answers.3] {
        let text = answer.text();
        assert!(text.contains("withheld") && !text.contains(SECRET), "{}", text.len());
    }
    let counters = counters.lock().unwrap();
    assert_eq!(counters.len(), 4);
    for counter in counters.iter() {
        let (pieces, longest) = counter.counted();
        assert!(pieces > 8 * PIECES, "the answer came in {pieces} pieces");
        assert!(longest <= PIECES, "{longest} of {pieces} pieces were read in one turn");
    }
}

/// A whole answer of Messages, with many results of a search and as many calls.
fn found() -> String {
    let mut content = Vec::new();
    for number in 0..MANY {
        let (call, searched) = (format!("toolu_{number}"), format!("srvtoolu_{number}"));
        let found = json!([{"type": "web_search_result", "title": format!("t{number}"), "url": "u", "encrypted_content": "e"}]);
        content.push(json!({"type": "server_tool_use", "id": searched, "name": "web_search", "input": {}}));
        content.push(json!({"type": "web_search_tool_result", "tool_use_id": searched, "content": found}));
        content.push(json!({"type": "tool_use", "id": call, "name": "exec", "input": {"number": number}}));
    }
    json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": "tool_use", "usage": {"input_tokens": 1, "output_tokens": 1}})
    .to_string()
}

/// What is judged between two turns of others, with `count` in the hook that judges.
async fn judged(house: &House, counter: &Counter) {
    let answer = found();
    let upstream = Upstream::start(move |_| Script::json("200 OK", &answer)).await;
    let hooks = HookSettings { refusals: 0, ..HookSettings::default() };
    let gateway = house.gateway(&upstream.url(), hooks).await;
    let body = ask(Api::AnthropicMessages, false, "hi").to_string();
    let answer = talk(&gateway, post(&path(Api::AnthropicMessages, false), &body)).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let (all, longest) = counter.counted();
    assert!(all >= MANY, "{all} were judged");
    assert!(longest <= TURN, "{longest} of {all} were judged in one turn");
}

#[tokio::test]
async fn a_great_many_results_that_are_judged_leave_others_their_turn() {
    let (house, turns) = (House::new(), Turns::start());
    let counter = Counter::of(&turns);
    let counts = counter.clone();
    house.judge::<ToolAfter>("counts", move |_| {
        counts.count();
        None
    });
    judged(&house, &counter).await;
}

#[tokio::test]
async fn a_great_many_calls_that_are_judged_leave_others_their_turn() {
    let (house, turns) = (House::new(), Turns::start());
    let counter = Counter::of(&turns);
    let counts = counter.clone();
    house.judge::<BeforeToolCall>("counts", move |_| {
        counts.count();
        None::<ToolCallOutcome>
    });
    judged(&house, &counter).await;
}
