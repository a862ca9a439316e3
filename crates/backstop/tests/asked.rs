//! Who was asked follows from the trail alone, although receipts name silent hooks by their places in a list.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests may fail loudly")]

use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use backstop::engine::{Attendance, Engine, HookOptions, Receipt, ReceiptSink, Snapshot, ToolMatcher};
use backstop::hooks::conversation::Message;
use backstop::hooks::points::{
    AfterToolCall, AfterToolCallEvent, BeforeLlmCall, BeforeLlmCallEvent, BeforeToolCall, ToolBefore,
    ToolCallEvent, ToolCallOutcome,
};
use backstop::hooks::{CallContext, Digest, HookError, OwnerId, Params, Point, async_hook_fn, hook_fn};
use backstop::store::{
    AUDIT_HOOKS, AuditBound, AuditEntry, AuditFilter, AuditStore as _, SqliteStore, Store, Timestamp,
};
use backstop::{AskedHook, AuditSink, HookLists, WhoWasAsked, asked_in};
use proptest::prelude::*;
use serde_json::{Value, json};

#[derive(Default)]
struct Kept(Mutex<Vec<Receipt>>);

impl ReceiptSink for Kept {
    fn record(&self, receipt: &Receipt) {
        self.0.lock().unwrap().push(receipt.clone());
    }
}

/// An engine whose receipts are in memory, as they were, and in a trail.
struct Trail {
    engine: Engine,
    kept: Arc<Kept>,
    sink: AuditSink,
    store: Arc<SqliteStore>,
}

impl Trail {
    fn begin() -> Self {
        let store = Arc::new(SqliteStore::in_memory());
        let sink = AuditSink::start(Arc::clone(&store) as Arc<dyn Store>);
        let kept = Arc::new(Kept::default());
        let engine = Engine::builder()
            .sink(Arc::clone(&kept) as Arc<dyn ReceiptSink>)
            .sink(Arc::new(sink.clone()))
            .build();
        Self { engine, kept, sink, store }
    }

    async fn entries(&self) -> Vec<AuditEntry> {
        assert!(self.sink.flush().await);
        self.store.audit(&AuditFilter::default(), 0, usize::MAX).await.unwrap()
    }

    /// Checks each receipt of the trail against the one in memory. Returns how many name a list.
    async fn check(&self) -> usize {
        let entries = self.entries().await;
        let mut lists = HookLists::default();
        let mut shared = 0;
        let kept = self.kept.0.lock().unwrap();
        let mut receipts = kept.iter().filter(|receipt| {
            !receipt.steps.is_empty() || receipt.blocked.is_some() || receipt.point == BeforeToolCall::INFO.id
        });
        for entry in &entries {
            // What stands before a receipt is enough to know.
            lists.read(entry);
            if entry.kind != "receipt" {
                continue;
            }
            let receipt = receipts.next().unwrap();
            assert_eq!(entry.body["id"], json!(receipt.id()));
            shared += usize::from(entry.body.get("hookSet").is_some());
            let expected: Vec<AskedHook> = receipt
                .steps
                .iter()
                .map(|step| AskedHook {
                    hook: step.hook.id.to_string(),
                    point: step.hook.point.to_string(),
                    owner: step.hook.owner.to_string(),
                    said: serde_json::to_value(step.said).unwrap().as_str().unwrap().to_owned(),
                    again: step.again,
                })
                .collect();
            assert_eq!(lists.asked(entry).unwrap(), expected, "{}", *entry.body);
            assert_eq!(asked_in(entry), expected.len() as u64);
        }
        assert!(receipts.next().is_none(), "every dispatch is in the trail");
        shared
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Silent,
    OfSomeTools,
    Passes,
    Rewrites,
    Fails,
    Hangs,
}

#[derive(Clone, Debug)]
enum Act {
    Add(Kind, i32),
    AddOthers(i32),
    Remove(usize),
    Reload,
    Call(bool),
    GiveUp,
    Ask,
    Watch,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let kind = prop::sample::select(vec![
        Kind::Silent,
        Kind::Silent,
        Kind::OfSomeTools,
        Kind::Passes,
        Kind::Rewrites,
        Kind::Fails,
        Kind::Hangs,
    ]);
    let act = prop_oneof![
        (kind, -2..3).prop_map(|(kind, priority)| Act::Add(kind, priority)),
        (-2..3).prop_map(Act::AddOthers),
        (0..9_usize).prop_map(Act::Remove),
        Just(Act::Reload),
        any::<bool>().prop_map(Act::Call),
        any::<bool>().prop_map(Act::Call),
        Just(Act::GiveUp),
        Just(Act::Ask),
        Just(Act::Watch),
    ];
    prop::collection::vec(act, 0..60)
}

fn options(priority: i32) -> HookOptions {
    HookOptions::new(OwnerId::operator()).priority(priority)
}

fn add(engine: &Engine, kind: Kind, priority: i32) {
    let registry = engine.registry();
    let said = |outcome: ToolCallOutcome| {
        registry.on(hook_fn::<BeforeToolCall, _>(move |_, _| Ok(Some(outcome.clone()))), options(priority))
    };
    let silent = || hook_fn::<BeforeToolCall, _>(|_, _| Ok(None));
    match kind {
        Kind::Silent => registry.on(silent(), options(priority)),
        Kind::OfSomeTools => {
            registry.on(silent(), options(priority).tools(ToolMatcher::names(["read"]).unwrap()))
        }
        Kind::Passes => said(ToolCallOutcome::default()),
        Kind::Rewrites => {
            said(ToolCallOutcome::rewrite(Params::from_value(json!({"command": "pwd"})).unwrap()))
        }
        Kind::Fails => registry
            .on(hook_fn::<BeforeToolCall, _>(|_, _| Err(HookError::failed("broken"))), options(priority)),
        Kind::Hangs => registry.on(
            async_hook_fn::<ToolBefore, _, _>(|_, _| async {
                tokio::task::yield_now().await;
                Ok(None)
            }),
            options(priority),
        ),
    }
    .unwrap();
}

fn add_others(engine: &Engine, priority: i32) {
    let registry = engine.registry();
    registry.on(hook_fn::<BeforeLlmCall, _>(|_, _| Ok(None)), options(priority)).unwrap();
    registry.on(hook_fn::<AfterToolCall, _>(|_, _| Ok(None)), options(priority)).unwrap();
}

fn call(tool: &str) -> ToolCallEvent {
    ToolCallEvent::new(tool, Params::from_value(json!({"command": "ls"})).unwrap())
}

fn asking() -> BeforeLlmCallEvent {
    BeforeLlmCallEvent {
        run_id: "run_019a2c3f5d6e7f80".into(),
        messages: vec![Message::user("hi")],
        system_prompt: "".into(),
        model: "model".to_owned(),
        other_models: None,
        provider: "provider".to_owned(),
        iteration: 0,
        tools: Vec::new(),
        token_estimate: 1,
        answer_tokens: None,
    }
}

async fn act(engine: &Engine, act: Act) {
    let cx = CallContext::default();
    match act {
        Act::Add(kind, priority) => add(engine, kind, priority),
        Act::AddOthers(priority) => add_others(engine, priority),
        Act::Remove(at) => {
            if let Some(meta) = engine.registry().list().get(at) {
                engine.registry().remove(&meta.id);
            }
        }
        Act::Reload => {
            engine.registry().reload(Snapshot::empty(Default::default())).unwrap();
        }
        Act::Call(read) => {
            let tool = if read { "read" } else { "exec" };
            engine.permit_tool_call(call(tool), &cx, &Attendance::Nobody).await;
        }
        Act::GiveUp => {
            let mut waiting = Box::pin(engine.permit_tool_call(call("exec"), &cx, &Attendance::Nobody));
            let _given_up = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
        Act::Ask => drop(engine.decide::<BeforeLlmCall>(asking(), &cx).await),
        Act::Watch => {
            let event = AfterToolCallEvent::new("exec", Params::default(), 1);
            engine.observe::<AfterToolCall>(&event, &cx).await;
        }
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn law_08_the_trail_says_who_was_asked(acts in acts()) {
        block_on(async {
            let trail = Trail::begin();
            for one in acts {
                act(&trail.engine, one).await;
            }
            trail.check().await;
        });
    }
}

async fn ask(trail: &Trail, times: usize) {
    for _ in 0..times {
        act(&trail.engine, Act::Ask).await;
    }
}

#[tokio::test]
async fn law_08_a_changed_set_of_hooks_is_listed_before_the_first_receipt_that_names_it() {
    let trail = Trail::begin();
    add_others(&trail.engine, 0);
    ask(&trail, 8).await;
    add(&trail.engine, Kind::Silent, 0);
    ask(&trail, 8).await;
    act(&trail.engine, Act::Reload).await;
    ask(&trail, 8).await;
    assert!(trail.check().await >= 8);
    let entries = trail.entries().await;
    let (mut listed, mut named) = (Vec::new(), Vec::new());
    for entry in &entries {
        let Some(set) = entry.body.get("hookSet") else { continue };
        if entry.kind == AUDIT_HOOKS {
            assert!(!named.contains(set), "a list stands before the receipts that name it");
            assert_eq!(*set, json!(Digest::of("hook_set", &entry.body["hooks"])));
            listed.push(set.clone());
        } else {
            assert_eq!(listed.last(), Some(set), "a receipt names the set that is in force");
            named.push(set.clone());
        }
    }
    assert!(listed.len() >= 2 && listed[0] != listed[1], "{listed:?}");
}

/// The context of a request through the proxy.
fn context() -> CallContext {
    CallContext {
        agent_id: Some("claude-code".into()),
        session_key: Some("conv_5f1d3c0b9a7e42d8".into()),
        session_id: Some("conv_5f1d3c0b9a7e42d8".into()),
        run_id: Some("run_019a2c3f5d6e7f80".into()),
        ..CallContext::default()
    }
}

/// Nine hooks like those that a gateway has in front of a request; all are silent.
#[tokio::test]
async fn a_receipt_of_silent_hooks_takes_a_fraction_of_what_their_names_take() {
    let trail = Trail::begin();
    for id in [
        "builtin:redactor:prompts",
        "builtin:models",
        "builtin:budget:reserve",
        "builtin:loops",
        "builtin:tools",
        "builtin:policy:requests",
        "builtin:injection",
        "builtin:limits",
        "builtin:webhook:audit",
    ] {
        let hook = hook_fn::<BeforeLlmCall, _>(|_, _| Ok(None));
        trail.engine.registry().on(hook, HookOptions::new(OwnerId::new(id)).id(id)).unwrap();
    }
    for _ in 0..6 {
        trail.engine.decide::<BeforeLlmCall>(asking(), &context()).await;
    }
    let entries = trail.entries().await;
    let size = |entry: &AuditEntry| entry.body.to_string().len();
    let (first, last) = (size(&entries[0]), size(entries.last().unwrap()));
    assert!(last < 700 && last * 2 < first, "{last} of {first}");
}

#[tokio::test]
async fn a_process_that_judges_little_names_all_and_lists_nothing() {
    let trail = Trail::begin();
    add_others(&trail.engine, 0);
    ask(&trail, 2).await;
    assert_eq!(trail.check().await, 0);
    assert_eq!(trail.entries().await.len(), 2);
}

#[tokio::test]
async fn a_list_that_was_changed_or_is_gone_is_no_proof() {
    let trail = Trail::begin();
    add_others(&trail.engine, 0);
    ask(&trail, 6).await;
    let entries = trail.entries().await;
    let last = entries.last().unwrap();
    let list = entries.iter().find(|entry| entry.kind == AUDIT_HOOKS).unwrap();
    assert!(matches!(HookLists::default().asked(last), Err(WhoWasAsked::Unlisted(_))));
    assert_eq!(HookLists::default().asked(list), Err(WhoWasAsked::NoReceipt));
    let with = |change: &dyn Fn(&mut Value)| {
        let mut body = list.body.to_value();
        change(&mut body);
        let mut lists = HookLists::default();
        lists.read(&AuditEntry { body: body.into(), ..list.clone() });
        lists
    };
    assert!(with(&|_| {}).asked(last).is_ok());
    let renamed = with(&|body| body["hooks"][0]["hook"] = json!("another"));
    assert!(matches!(renamed.asked(last), Err(WhoWasAsked::OtherList(_))));
    let shorter = with(&|body| drop(body["hooks"].as_array_mut().unwrap().pop()));
    assert!(matches!(shorter.asked(last), Err(WhoWasAsked::OtherList(_))));
    let mut receipt = last.clone();
    let mut body = receipt.body.to_value();
    body["silent"] = json!("0-99");
    receipt.body = body.into();
    assert_eq!(with(&|_| {}).asked(&receipt), Err(WhoWasAsked::Misplaced));
}

#[tokio::test]
async fn very_many_hooks_are_listed_in_parts_and_never_omitted() {
    let trail = Trail::begin();
    for _ in 0..1_000 {
        let hook = hook_fn::<BeforeLlmCall, _>(|_, _| Ok(None));
        trail.engine.registry().on(hook, options(0)).unwrap();
    }
    ask(&trail, 2).await;
    assert_eq!(trail.check().await, 2);
    let entries = trail.entries().await;
    let parts = entries.iter().filter(|entry| entry.kind == AUDIT_HOOKS);
    assert!(parts.clone().count() > 1);
    assert_eq!(parts.map(asked_in).sum::<u64>(), 1_000);
}

#[tokio::test]
async fn pruning_keeps_the_lists_that_receipts_name() {
    let trail = Trail::begin();
    add_others(&trail.engine, 0);
    ask(&trail, 6).await;
    add(&trail.engine, Kind::Silent, 0);
    ask(&trail, 6).await;
    let last = trail.entries().await.len() as u64;
    let (bound, now) = (AuditBound::through(last - 1), Timestamp::now());
    trail.store.prune_audit(bound, usize::MAX, now, "ann").await.unwrap();
    let entries = trail.entries().await;
    let mut lists = HookLists::default();
    entries.iter().for_each(|entry| lists.read(entry));
    let receipt = entries.iter().find(|entry| entry.kind == "receipt").unwrap();
    assert_eq!(lists.asked(receipt).unwrap().len(), 1);
    assert_eq!(
        entries.iter().filter(|entry| entry.kind == AUDIT_HOOKS).count(),
        1,
        "no list that nobody names"
    );
    trail.store.verify_audit(None).await.unwrap();
    // Once more: the list that stayed stays again.
    ask(&trail, 1).await;
    let through = trail.entries().await.last().unwrap().seq - 1;
    trail.store.prune_audit(AuditBound::through(through), usize::MAX, Timestamp::now(), "ann").await.unwrap();
    let entries = trail.entries().await;
    assert_eq!(entries.iter().filter(|entry| entry.kind == AUDIT_HOOKS).count(), 1);
}
