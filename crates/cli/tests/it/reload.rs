//! `backstop serve` under load while its configuration changes: whatever can be seen of one exchange is of one policy, and no exchange is
//! lost.
//!
//! Two policies differ in everything that an exchange shows: which provider is asked, what is taken out of the prompt and of the answer,
//! which tool is offered, which call is withheld, by which set of hooks the trail says that it was judged, and which collector is sent its
//! spans.

pub(super) mod clients;
mod upstream;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use self::clients::{Answered, Client, Manner};
use self::upstream::{Turns, Upstream, lot};
use super::gateway::{serve, text};
use super::support::{PATIENCE, User, done, hang_up, interrupt, until};
use super::traces::collector::{Collector, Manner as Collects};

/// How often the policy changes.
const CHANGES: usize = 24;
/// After how many changes a configuration comes that can't be used.
const BROKEN_EVERY: usize = 4;

const BROKEN: [&str; 3] = [
    "guards: [\n",
    "gateway: {listen: '0.0.0.0:1'}\n",
    "hooks: {tool_call: {pre_call: [{type: nothing}]}}\n",
];

/// One of the two policies, by its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Policy {
    A,
    B,
}

impl Policy {
    const BOTH: [Self; 2] = [Self::A, Self::B];

    const fn letter(self) -> char {
        match self {
            Self::A => 'a',
            Self::B => 'b',
        }
    }

    /// The tool of the provider's that it does not let anybody offer.
    const fn closed(self) -> &'static str {
        match self {
            Self::A => "web_search",
            Self::B => "web_fetch",
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// What the policies lead to.
struct Scene {
    user: User,
    upstreams: [Upstream; 2],
    collectors: [Collector; 2],
    turns: Arc<Turns>,
}

impl Scene {
    fn new() -> Self {
        let turns = Arc::<Turns>::default();
        Self {
            user: User::new(),
            upstreams: Policy::BOTH.map(|policy| Upstream::start(policy.letter(), Arc::clone(&turns))),
            collectors: [(); 2].map(|()| Collector::start(Collects::Takes)),
            turns,
        }
    }

    fn configuration(&self, policy: Policy) -> String {
        let (letter, at, closed) = (policy.letter(), policy as usize, policy.closed());
        let (provider, collector) = (&self.upstreams[at].base_url, &self.collectors[at].endpoint);
        format!(
            "providers: {{upstream: {{api: anthropic, base_url: '{provider}', models: [scripted-model]}}}}\n\
             telemetry: {{traces: {{endpoint: '{collector}', queue: 65536}}}}\n\
             guards: {{secrets: {{formats: [{{kind: lot_{letter}, what: a lot, source: a handbook, formats: ['lot{letter}<digit:28>'], \
             matches: ['use lot{letter}<digit:28>'], near_misses: ['lot{letter}<digit:27>']}}], kinds: {{lot_{letter}: redact}}}}}}\n\
             hooks: {{tool_call: {{pre_call: [{{type: policy, id: house-{letter}, config: {{deny_tools: [tool_{letter}, {closed}]}}}}]}}}}\n"
        )
    }

    fn configure(&self, policy: Policy) {
        self.user.configure(&self.configuration(policy));
    }
}

/// What the server says on stderr, read all the time.
struct Said(Receiver<String>);

impl Said {
    fn by(stderr: ChildStderr) -> Self {
        let (tell, told) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        Self(told)
    }

    /// Waits until it says how reading its configuration ended, and returns whether it was read.
    fn was_read(&self) -> bool {
        loop {
            let line = self.0.recv_timeout(PATIENCE).unwrap();
            if line.contains("was not read anew") {
                return false;
            }
            if line.contains("was read anew") {
                return true;
            }
        }
    }

    /// What else it says to its end.
    fn rest(self) -> Vec<String> {
        self.0.iter().collect()
    }
}

/// Has the server read its configuration anew.
fn reads(child: &Child, said: &Said) -> bool {
    hang_up(child);
    said.was_read()
}

/// Which policy an answer shows, in each thing that it shows.
#[track_caller]
fn policy_of(answered: &Answered) -> Policy {
    let Answered { name, status, text, calls, is_whole, .. } = answered;
    assert_eq!((*status, *is_whole), (200, true), "{name} is lost or cut off: {answered:?}");
    let shows = |policy: Policy| {
        let (letter, other) = (policy.letter(), policy.other().letter());
        let kept = format!("tool_{other}");
        [
            text.contains(&format!("upstream {letter} to {name};")),
            text.contains(&format!("[redacted:lot_{letter}]")),
            !text.contains(&lot(letter)) && text.contains(&lot(other)),
            text.contains(&format!("withheld `tool_{letter}`")),
            calls == &[kept],
        ]
    };
    let [a, b] = Policy::BOTH.map(shows);
    match (a, b) {
        ([true, true, true, true, true], [false, false, false, false, false]) => Policy::A,
        ([false, false, false, false, false], [true, true, true, true, true]) => Policy::B,
        mixed => panic!("{name} shows both policies, or none: {mixed:?}, {answered:?}"),
    }
}

/// What reached the providers of an exchange: one request, as its policy makes it.
#[track_caller]
fn was_asked_by(scene: &Scene, policy: Policy, name: &str) {
    let [asked, not_asked] =
        [policy, policy.other()].map(|policy| scene.upstreams[policy as usize].asked(name));
    assert!(not_asked.is_empty(), "{name} went to both providers");
    let [body] = asked.as_slice() else { panic!("{name} was asked {} times", asked.len()) };
    let (letter, other) = (policy.letter(), policy.other().letter());
    let last = body["messages"].as_array().unwrap().last().unwrap().to_string();
    assert!(
        last.contains(&format!("[redacted:lot_{letter}]")) && !last.contains(&lot(letter)),
        "{name}: {last}"
    );
    assert!(last.contains(&lot(other)), "{name}: {last}");
    let whole = body.to_string();
    assert!(
        !whole.contains(&format!("[redacted:lot_{other}]")) && !whole.contains(&lot(letter)),
        "{name}: {whole}"
    );
    let tools: Vec<&str> =
        body["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(tools, ["tool_a", "tool_b", policy.other().closed()], "{name}");
}

/// The sets of hooks by which each trace was judged, as the trail has them.
fn judged_by(user: &User) -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::<String, BTreeSet<String>>::new();
    for entry in user.run(&["log", "--all", "--json"]).succeeded().lines() {
        assert_ne!(entry["kind"], "gap", "the trail is complete: {entry}");
        let body = &entry["body"];
        let trace = body["trace"]["traceId"].as_str().or(body["traceId"].as_str());
        if let Some((trace, set)) = trace.zip(body["hookSet"].as_str()) {
            found.entry(trace.to_owned()).or_default().insert(set.to_owned());
        }
    }
    found
}

/// Changes the policy again and again while `clients` ask. After each change an exchange that begins then shows the new one; after a
/// configuration that can't be used, the one before.
fn changes(scene: &Scene, child: &Child, said: &Said, url: &str) -> Vec<Answered> {
    let mut own = Client::new(url, Manner::Kept, 99);
    let mut answers = Vec::new();
    let mut asks = |now: Policy| {
        let answered = own.ask();
        assert_eq!(policy_of(&answered), now, "what is asked from now on");
        answers.push(answered);
    };
    let mut now = Policy::A;
    for change in 0..CHANGES {
        now = now.other();
        scene.configure(now);
        assert!(reads(child, said));
        scene.turns.next();
        asks(now);
        if change % BROKEN_EVERY == 0 {
            scene.user.configure(BROKEN[change / BROKEN_EVERY % BROKEN.len()]);
            assert!(!reads(child, said));
            asks(now);
        }
    }
    answers
}

#[test]
fn a_reload_under_load_loses_no_exchange_and_mixes_no_policy() {
    let scene = Scene::new();
    scene.configure(Policy::A);
    let (mut child, line) = serve(&scene.user);
    let said = Said::by(child.stderr.take().unwrap());
    let url = text(&line, "url").to_owned();
    let (is_over, answers) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let manners = [
        Manner::Kept,
        Manner::Kept,
        Manner::Large,
        Manner::Grows,
        Manner::Anew,
        Manner::Streams,
        Manner::Streams,
        Manner::Held,
        Manner::Held,
    ];
    std::thread::scope(|scope| {
        for (number, manner) in manners.into_iter().enumerate() {
            let (url, is_over, answers) = (&url, &is_over, &answers);
            scope.spawn(move || {
                let mut client = Client::new(url, manner, number);
                while !is_over.load(Ordering::Relaxed) {
                    let answered = client.ask();
                    answers.lock().unwrap().push(answered);
                }
            });
        }
        let _ends = EndsLoad { is_over: &is_over, turns: &scene.turns };
        let own = changes(&scene, &child, &said, &url);
        answers.lock().unwrap().extend(own);
    });
    interrupt(&child);
    assert_eq!(done(child).code, Some(0));
    let rest = said.rest();
    assert!(!rest.iter().any(|line| line.contains("dropped")), "{rest:?}");

    let answers = answers.into_inner().unwrap();
    let trail = judged_by(&scene.user);
    let mut sets = BTreeMap::<Policy, BTreeSet<&String>>::new();
    let mut held = 0;
    for answered in &answers {
        let policy = policy_of(answered);
        was_asked_by(&scene, policy, &answered.name);
        let judged = trail.get(&answered.trace).unwrap_or_else(|| panic!("{answered:?} is not in the trail"));
        assert_eq!(judged.len(), 1, "one exchange, one set of hooks: {answered:?}");
        sets.entry(policy).or_default().extend(judged);
        held += usize::from(answered.manner == Manner::Held);
    }
    assert!(sets.values().all(|sets| sets.len() == 1) && sets.len() == 2, "{sets:?}");
    assert!(sets[&Policy::A].is_disjoint(&sets[&Policy::B]), "{sets:?}");
    assert!(held > 2 && answers.len() > CHANGES, "{held} held of {}", answers.len());
    spans_are_of_one_policy(&scene, &answers);
}

/// Lets the load end, also where the test fails.
struct EndsLoad<'a> {
    is_over: &'a AtomicBool,
    turns: &'a Turns,
}

impl Drop for EndsLoad<'_> {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.turns.end();
    }
}

/// Each exchange has its spans at the collector of its policy, and none at the other.
fn spans_are_of_one_policy(scene: &Scene, answers: &[Answered]) {
    let [a, b] = [&scene.collectors[0], &scene.collectors[1]].map(|collector| {
        let mut by_trace = BTreeMap::<String, Vec<String>>::new();
        for span in collector.spans() {
            by_trace.entry(span.trace).or_default().push(span.name);
        }
        by_trace
    });
    for answered in answers {
        let (own, other) = match policy_of(answered) {
            Policy::A => (&a, &b),
            Policy::B => (&b, &a),
        };
        assert_eq!(other.get(&answered.trace), None, "the spans of {answered:?} are torn");
        let names = own.get(&answered.trace).unwrap_or_else(|| panic!("no spans of {answered:?}"));
        let count = |wanted: &str| names.iter().filter(|name| *name == wanted).count();
        assert_eq!((count("POST messages"), count("chat scripted-model")), (1, 1), "{answered:?}: {names:?}");
        assert!(names.len() > 2, "and dispatches: {names:?}");
    }
}

/// What a configuration says that can't change while the server runs is told, and the rest of it counts.
#[test]
fn what_holds_from_the_start_is_told_and_limits_change_for_what_comes() {
    let scene = Scene::new();
    let limits = |policy, limits: &str| {
        let more = format!("gateway: {{limits: {{{limits}}}}}\n");
        scene.user.configure(&format!("{}{more}", scene.configuration(policy)));
    };
    limits(Policy::A, "max_body_bytes: 100000, max_connections: 50");
    let (mut child, line) = serve(&scene.user);
    let said = Said::by(child.stderr.take().unwrap());
    let url = text(&line, "url").to_owned();
    let mut large = Client::new(&url, Manner::Large, 1);
    assert_eq!(policy_of(&large.ask()), Policy::A);
    let half = large.begins();
    limits(Policy::B, "max_body_bytes: 10000, max_connections: 60");
    assert!(reads(&child, &said));
    let note = said.0.recv_timeout(PATIENCE).unwrap();
    assert!(note.contains("`gateway.limits.max_connections`") && note.contains("started anew"), "{note}");
    // What has begun ends by what it began with; what comes is held to the new limit.
    assert_eq!(policy_of(&large.ends(half)), Policy::A);
    assert_eq!(Client::new(&url, Manner::Large, 2).ask().status, 413);
    assert_eq!(policy_of(&Client::new(&url, Manner::Kept, 3).ask()), Policy::B);
    // Back to what it was at the start: there is nothing to tell.
    limits(Policy::A, "max_body_bytes: 100000, max_connections: 50");
    assert!(reads(&child, &said));
    assert_eq!(policy_of(&Client::new(&url, Manner::Large, 4).ask()), Policy::A);
    interrupt(&child);
    assert_eq!(done(child).code, Some(0));
    let rest = said.rest();
    assert!(!rest.iter().any(|line| line.contains("started anew")), "{rest:?}");
}

/// What would be judged less strictly, or where nobody looks, is refused as a whole.
#[test]
fn a_configuration_that_would_loosen_the_server_is_refused() {
    let scene = Scene::new();
    let and = |more: &str| {
        let token = "gateway: {token: a-token-of-the-operator}\n";
        scene.user.configure(&format!("{}{token}{more}", scene.configuration(Policy::A)));
    };
    and("");
    let (mut child, line) = serve(&scene.user);
    let said = Said::by(child.stderr.take().unwrap());
    let url = text(&line, "url").replace("<gateway.token>", "a-token-of-the-operator");
    let asks = |policy| assert_eq!(policy_of(&Client::new(&url, Manner::Kept, 1).ask()), policy);
    asks(Policy::A);
    let witness = "audit: {witness: [{to: 'https://witness.example', key: none}]}\n";
    for refused in ["store: {path: elsewhere.db}\n", "agent: {approvals: {strict: true}}\n", witness] {
        and(refused);
        assert!(!reads(&child, &said), "{refused}");
    }
    // Without the token that the operator chose, and without any configuration.
    scene.configure(Policy::B);
    assert!(!reads(&child, &said));
    std::fs::remove_file(scene.user.path().join("config/backstop/backstop.yaml")).unwrap();
    assert!(!reads(&child, &said));
    asks(Policy::A);
    and("");
    assert!(reads(&child, &said));
    asks(Policy::A);
    interrupt(&child);
    assert_eq!(done(child).code, Some(0));
}

/// Whoever reads the trail can tell a kill from an end in order, however often the configuration was read.
#[test]
fn after_a_reload_a_kill_still_shows_in_the_trail() {
    let scene = Scene::new();
    let wrote = |kind: &str| -> Vec<String> {
        let trail = scene.user.trail();
        let entries = trail.iter().filter(|entry| entry["kind"] == kind);
        entries.map(|entry| at(entry, "/process").to_owned()).collect()
    };
    let unended = || -> Vec<String> {
        let report = scene.user.run(&["audit", "verify", "--json"]).succeeded().json();
        let processes = report["processes"].as_array().unwrap().iter();
        processes.map(|process| at(process, "/process").to_owned()).collect()
    };
    let reloaded = || {
        scene.configure(Policy::A);
        let (mut child, _) = serve(&scene.user);
        let said = Said::by(child.stderr.take().unwrap());
        scene.configure(Policy::B);
        assert!(reads(&child, &said));
        child
    };
    let mut child = reloaded();
    until("the end of what was written before", || (wrote("stop").len() == 1).then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = wrote("configuration.read").pop().unwrap();
    assert_eq!(unended(), std::slice::from_ref(&killed));
    let child = reloaded();
    interrupt(&child);
    assert_eq!(done(child).code, Some(0));
    assert_eq!((unended(), wrote("start").len(), wrote("stop").len()), (vec![killed], 4, 3));
}

/// What people answer at a desk is said by the writer with which it was opened: that one says that it stops when the desk ends.
#[test]
fn after_a_reload_nobody_says_answers_who_has_stopped() {
    let scene = Scene::new();
    let configure = |policy| {
        let strict = "agent: {approvals: {strict: true}}\n";
        scene.user.configure(&format!("{}{strict}", scene.configuration(policy)));
    };
    configure(Policy::A);
    let (mut child, _) = serve(&scene.user);
    let said = Said::by(child.stderr.take().unwrap());
    configure(Policy::B);
    assert!(reads(&child, &said));
    let call = serde_json::json!({
        "hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": scene.user.work(), "tool_name": "Bash",
        "tool_use_id": "toolu_0123456789abcdef", "tool_input": { "command": "eval \"$PLAN\"" },
    });
    let refused = scene.user.feed(&["hook", "claude"], call.to_string());
    assert_eq!(refused.code, Some(2), "{}", refused.whole());
    let list = scene.user.run(&["approvals", "list", "--json"]).succeeded().json();
    scene.user.run(&["allow-once", list[0]["code"].as_str().unwrap()]).succeeded();
    interrupt(&child);
    assert_eq!(done(child).code, Some(0));
    let trail = scene.user.trail();
    let answered = trail.iter().find(|entry| entry["kind"] == "approval.answered").unwrap();
    let by_it: Vec<&str> = trail
        .iter()
        .filter(|entry| entry["process"] == answered["process"])
        .map(|entry| at(entry, "/kind"))
        .collect();
    assert_eq!(by_it.iter().filter(|kind| **kind == "stop").count(), 1, "{by_it:?}");
    assert_eq!(by_it.last(), Some(&"stop"), "{by_it:?}");
}

/// The value at a pointer, as a text.
fn at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
