//! Budgets, loops and model access, asked by an engine.

#![expect(clippy::unwrap_used, reason = "tests may fail loudly")]

use std::sync::Arc;

use backstop_engine::{Engine, OperatorSettings, Snapshot};
use backstop_guards::limits::{
    Budget, BudgetLimits, BudgetSettings, Budgets, LoopAction, LoopGuard, LoopPlace, Micros, ModelAccess,
    ModelPrice, ModelRule, Pattern, Per, Prices, Window, register_budgets, register_loop_guard,
    register_model_access,
};
use backstop_hooks::conversation::{Message, TokenUsage, ToolCall};
use backstop_hooks::points::{
    AfterLlmCall, AfterLlmCallEvent, BeforeLlmCall, BeforeLlmCallEvent, LlmOutput, LlmOutputEvent,
    ModelCallEnded, ModelCallEndedEvent, ModelCallResult, ToolCallEvent,
};
use backstop_hooks::{CallContext, Params, Requester, SpanId, ToolName, Trace, TraceId};
use backstop_store::{SqliteStore, Store, Timestamp};
use serde_json::json;

fn store() -> Arc<dyn Store> {
    Arc::new(SqliteStore::in_memory())
}

fn noon() -> Timestamp {
    // 2026-11-22T12:00:00Z
    Timestamp::from_millis(1_795_348_800_000)
}

fn engine(settings: BudgetSettings, store: &Arc<dyn Store>) -> Engine {
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    register_budgets(&mut snapshot, &Budgets::with_clock(settings, Arc::clone(store), noon)).unwrap();
    Engine::builder().snapshot(snapshot).build()
}

fn budget(name: &str, limits: BudgetLimits) -> Budget {
    Budget {
        name: name.to_owned(),
        agent: None,
        model: None,
        user: None,
        per: Per::default(),
        window: Window::Day,
        limits,
    }
}

fn settings(budgets: Vec<Budget>) -> BudgetSettings {
    let price = |micros| Micros(micros);
    let prices = Prices::new(vec![ModelPrice {
        model: Pattern::new("m*").unwrap(),
        input: price(1_000_000),
        output: price(10_000_000),
        cache_read: price(0),
        cache_write: price(0),
    }]);
    BudgetSettings { budgets, prices, answer_tokens: 10 }
}

/// A call of its own: no other has its span.
fn call(agent: &str, user: Option<&str>, span: u32) -> CallContext {
    CallContext {
        agent_id: Some(agent.into()),
        session_id: Some("s".into()),
        run_id: Some("r".into()),
        requester: user.map(|user| Requester { sender_id: Some(user.to_owned()), ..Requester::default() }),
        trace: Some(Trace {
            trace_id: TraceId::fresh(),
            span_id: SpanId::from_bytes((u64::from(span) + 1).to_be_bytes()).unwrap(),
            parent_span_id: None,
        }),
        ..CallContext::default()
    }
}

async fn ask(engine: &Engine, call: &CallContext, model: &str, tokens: u64) -> Result<(), String> {
    let event = BeforeLlmCallEvent {
        other_models: None,
        run_id: "r".into(),
        messages: vec![Message::user("hi")],
        system_prompt: "".into(),
        model: model.to_owned(),
        provider: "p".to_owned(),
        iteration: 0,
        tools: Vec::new(),
        answer_tokens: None,
        token_estimate: tokens,
    };
    let decided = engine.decide::<BeforeLlmCall>(event, call).await.into_parts();
    decided.blocked.map_or(Ok(()), |blocked| Err(blocked.reason_or_default().to_string()))
}

async fn answered(engine: &Engine, call: &CallContext, usage: TokenUsage) {
    let event = LlmOutputEvent::new("r", "s", "p".to_owned(), "m".to_owned(), vec!["x".repeat(90).into()])
        .usage(usage);
    engine.observe::<LlmOutput>(&event, call).await;
}

async fn failed(engine: &Engine, call: &CallContext, first_byte: Option<u64>) {
    let event = ModelCallEndedEvent::new("r", "c", "p".to_owned(), "m".to_owned(), 1, ModelCallResult::Error)
        .time_to_first_byte_ms(first_byte);
    engine.observe::<ModelCallEnded>(&event, call).await;
}

async fn spent(store: &Arc<dyn Store>) -> Vec<(String, u64)> {
    let mut uses: Vec<_> = store
        .budgets(99)
        .await
        .unwrap()
        .into_iter()
        .map(|used| (used.counter.to_string(), used.spent))
        .collect();
    uses.sort();
    uses
}

fn usage(input: u64, output: u64) -> TokenUsage {
    TokenUsage { input, output, ..TokenUsage::default() }
}

#[tokio::test]
async fn requests_are_counted_and_the_reason_says_when_it_begins_anew() {
    let store = store();
    let limits = BudgetLimits { requests: Some(2), ..BudgetLimits::default() };
    let engine = engine(settings(vec![budget("few", limits)]), &store);
    for span in 0..2 {
        ask(&engine, &call("a", None, span), "m", 1).await.unwrap();
    }
    let reason = ask(&engine, &call("a", None, 2), "m", 1).await.unwrap_err();
    assert_eq!(
        reason,
        "the budget `few` of 2 requests a day has no room: 2 requests used, about 1 requests needed \
         [BUDGET_EXCEEDED]; it begins anew at 2026-11-23T00:00:00Z"
    );
}

#[tokio::test]
async fn what_was_used_replaces_the_estimate() {
    let store = store();
    let limits = BudgetLimits { tokens: Some(1_000), cost: Some(Micros(5_000)), ..BudgetLimits::default() };
    let engine = engine(settings(vec![budget("b", limits)]), &store);
    let first = call("a", None, 1);
    ask(&engine, &first, "m", 100).await.unwrap();
    assert_eq!(
        spent(&store).await,
        [("budget/b/*/*/*/cost".to_owned(), 200), ("budget/b/*/*/*/tokens".to_owned(), 110)]
    );
    answered(&engine, &first, usage(50, 20)).await;
    assert_eq!(
        spent(&store).await,
        [("budget/b/*/*/*/cost".to_owned(), 250), ("budget/b/*/*/*/tokens".to_owned(), 70)]
    );
    answered(&engine, &first, usage(900, 900)).await;
    assert_eq!(spent(&store).await[1].1, 70, "once");
    let reason = ask(&engine, &call("a", None, 2), "m", 4_000).await.unwrap_err();
    assert!(reason.contains("1000 tokens a day"), "{reason}");
}

#[tokio::test]
async fn an_answer_without_usage_is_counted_by_its_text() {
    let store = store();
    let limits = BudgetLimits { tokens: Some(1_000), ..BudgetLimits::default() };
    let engine = engine(settings(vec![budget("b", limits)]), &store);
    let one = call("a", None, 1);
    ask(&engine, &one, "m", 100).await.unwrap();
    answered(&engine, &one, usage(0, 0)).await;
    assert_eq!(spent(&store).await[0].1, 130, "90 bytes are 30 tokens");
}

#[tokio::test]
async fn a_call_that_failed_before_it_began_costs_only_its_request() {
    let store = store();
    let limits = BudgetLimits { requests: Some(9), tokens: Some(1_000), ..BudgetLimits::default() };
    let engine = engine(settings(vec![budget("b", limits)]), &store);
    let (one, two) = (call("a", None, 1), call("a", None, 2));
    ask(&engine, &one, "m", 100).await.unwrap();
    failed(&engine, &one, None).await;
    assert_eq!(spent(&store).await.iter().map(|(_, spent)| *spent).collect::<Vec<_>>(), [1, 0]);
    ask(&engine, &two, "m", 100).await.unwrap();
    failed(&engine, &two, Some(5)).await;
    assert_eq!(
        spent(&store).await.iter().map(|(_, spent)| *spent).collect::<Vec<_>>(),
        [2, 110],
        "what had begun was paid for"
    );
}

#[tokio::test]
async fn budgets_are_counted_apart() {
    let store = store();
    let limits = BudgetLimits { requests: Some(1), ..BudgetLimits::default() };
    let apart = Budget { per: Per { agent: true, model: true, user: true }, ..budget("apart", limits) };
    let of_ci = Budget { agent: Some(Pattern::new("ci-*").unwrap()), ..budget("ci", limits) };
    let engine = engine(settings(vec![apart, of_ci]), &store);
    let passes = async |agent, user, model, span| ask(&engine, &call(agent, user, span), model, 1).await;
    passes("a", Some("u"), "m", 1).await.unwrap();
    passes("b", Some("u"), "m", 2).await.unwrap();
    passes("a", Some("v"), "m", 3).await.unwrap();
    passes("a", Some("u"), "m2", 4).await.unwrap();
    passes("a", None, "m", 5).await.unwrap();
    assert!(passes("a", Some("u"), "m", 6).await.unwrap_err().contains("`apart`"));
    assert!(passes("a", None, "m", 7).await.unwrap_err().contains("`apart`"));
    passes("ci-1", None, "m", 8).await.unwrap();
    assert!(passes("ci-2", None, "m", 9).await.unwrap_err().contains("`ci`"));
}

#[tokio::test]
async fn a_budget_of_money_wants_a_price() {
    let store = store();
    let limits = BudgetLimits { cost: Some(Micros(5_000)), ..BudgetLimits::default() };
    let engine = engine(settings(vec![budget("b", limits)]), &store);
    let reason = ask(&engine, &call("a", None, 1), "unknown", 1).await.unwrap_err();
    assert!(reason.contains("[NO_PRICE]"), "{reason}");
}

#[tokio::test]
async fn nothing_passes_uncounted() {
    let folder = std::env::temp_dir();
    // A folder where the database should be: every operation on it fails.
    let store: Arc<dyn Store> = Arc::new(SqliteStore::new(folder));
    let limits = BudgetLimits { requests: Some(1), ..BudgetLimits::default() };
    let engine = engine(settings(vec![budget("b", limits)]), &store);
    assert!(ask(&engine, &call("a", None, 1), "m", 1).await.is_err());
}

#[tokio::test]
async fn agents_ask_the_models_they_may() {
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    let rule = ModelRule { agent: None, allow: vec![Pattern::new("small-*").unwrap()] };
    register_model_access(&mut snapshot, ModelAccess::new(vec![rule])).unwrap();
    let engine = Engine::builder().snapshot(snapshot).build();
    ask(&engine, &call("a", None, 1), "small-1", 1).await.unwrap();
    let reason = ask(&engine, &call("a", None, 2), "large-1", 1).await.unwrap_err();
    assert_eq!(reason, "agent `a` may not ask the model `large-1` [MODEL_NOT_ALLOWED]");
}

fn guarded(action: LoopAction, place: LoopPlace) -> Engine {
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    register_loop_guard(&mut snapshot, &LoopGuard::new(store(), 2, action), place).unwrap();
    Engine::builder().snapshot(snapshot).build()
}

fn params(value: serde_json::Value) -> Params {
    Params::from_value(value).unwrap()
}

fn tool(id: &str, path: &str) -> ToolCallEvent {
    ToolCallEvent::new(ToolName::new("read"), params(json!({"path": path, "n": 1})))
        .tool_call_id((!id.is_empty()).then(|| id.into()))
}

#[tokio::test]
async fn a_call_that_goes_round_in_circles_is_stopped() {
    let engine = guarded(LoopAction::Block, LoopPlace::Tools);
    let here = call("a", None, 1);
    let review = async |id: &str, path: &str| {
        let reviewed = engine.review_tool_call(tool(id, path), &here, false).await;
        reviewed.blocked.map(|blocked| blocked.reason_or_default().to_string())
    };
    for id in ["c1", "c2", "c1", "c2"] {
        assert_eq!(review(id, "a").await, None, "a call is counted once, however often it is judged");
    }
    assert!(review("c3", "a").await.unwrap().contains("[LOOP]"));
    assert_eq!(review("c4", "b").await, None, "other arguments are another call");
    assert_eq!(review("", "c").await, None);
    assert_eq!(review("", "c").await, None);
    assert!(review("", "c").await.is_some(), "calls without an id are each their own");
    let elsewhere = CallContext { session_id: Some("other".into()), ..here.clone() };
    assert!(engine.review_tool_call(tool("c3", "a"), &elsewhere, false).await.blocked.is_none());
}

#[tokio::test]
async fn the_same_id_in_another_run_is_another_call() {
    let engine = guarded(LoopAction::Block, LoopPlace::Tools);
    for (run, blocked) in [("one", false), ("one", false), ("two", false), ("three", true)] {
        let here = CallContext { run_id: Some(run.into()), ..call("a", None, 1) };
        let reviewed = engine.review_tool_call(tool("call_0", "a"), &here, false).await;
        assert_eq!(reviewed.blocked.is_some(), blocked, "{run}");
    }
}

#[tokio::test]
async fn a_human_may_be_asked_about_it() {
    let engine = guarded(LoopAction::Ask, LoopPlace::Tools);
    let here = call("a", None, 1);
    for (id, asked) in [("c1", 0), ("c2", 0), ("c3", 1)] {
        let reviewed = engine.review_tool_call(tool(id, "a"), &here, false).await;
        assert_eq!((reviewed.blocked.is_none(), reviewed.requests.len()), (true, asked), "{id}");
    }
}

#[tokio::test]
async fn behind_a_model_it_is_taken_out_of_the_answer() {
    let engine = guarded(LoopAction::Block, LoopPlace::Answers);
    let judge = async |ids: &[&str]| {
        let calls = ids.iter().map(|id| ToolCall {
            id: (*id).into(),
            name: "Read".to_owned(),
            arguments: params(json!({"n": 1, "path": "a"})),
            malformed: None,
            meta: None,
        });
        let event = AfterLlmCallEvent {
            run_id: "r".into(),
            response: Message::assistant(""),
            tool_calls: calls.collect(),
            iteration: 0,
            model: "m".to_owned(),
            latency_ms: 1,
            token_usage: None,
        };
        let decided = engine.decide::<AfterLlmCall>(event, &call("a", None, 1)).await.into_parts();
        (decided.blocked.is_some(), decided.event.tool_calls.len())
    };
    assert_eq!(judge(&["c1"]).await, (false, 1));
    assert_eq!(judge(&["c2", "c3"]).await, (false, 1));
    assert_eq!(judge(&["c3"]).await, (false, 0));
    assert_eq!(judge(&[""]).await, (true, 1), "what has no name can't be taken out by name");
}
