//! Budgets, repeated calls and model lists on live traffic.

use std::sync::Arc;

use backstop_gateway::inspect::HookSettings;
use backstop_guards::limits::{
    Budget, BudgetLimits, BudgetSettings, Budgets, LoopAction, LoopGuard, LoopPlace, ModelAccess, ModelRule,
    Pattern, Per, Prices, Window, register_budgets, register_loop_guard, register_model_access,
};
use backstop_llm::Api;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::support::*;
use crate::support::{End, Script, Upstream, connect, eventually, post, talk};

fn with(house: &House, register: impl FnOnce(&mut backstop_engine::Snapshot)) {
    let registered: Result<(), std::convert::Infallible> = house.engine.registry().update(|snapshot| {
        register(snapshot);
        Ok(())
    });
    registered.unwrap();
}

#[tokio::test]
async fn a_budget_counts_what_the_provider_counted() {
    let house = House::new();
    let limits = BudgetLimits { requests: Some(2), tokens: Some(1_000_000), cost: None };
    register_daily(&house, limits);
    let turn = json!([{"repeat": true, "text": "fine", "usage": {"input": 100, "output": 11}}]);
    let model = model(turn).await;
    let gateway = house.gateway(&model.base_url(), HookSettings::default()).await;
    for (asked, api) in [(1, Api::OpenAiChat), (2, Api::AnthropicMessages)] {
        assert_eq!(
            read(api, &send_to(&gateway, api, true, &ask(api, true, "hi")).await).message.visible_text(),
            "fine"
        );
        let settled = async || {
            let uses = house.store.budgets(9).await.unwrap();
            uses.iter().find(|used| used.counter.ends_with("/tokens")).map(|used| (used.spent, used.reserved))
        };
        for _ in 0..500 {
            if settled().await == Some((asked * 111, 0)) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!(settled().await, Some((asked * 111, 0)), "{api}");
    }
    let answer = send(&gateway, Api::OpenAiChat, &ask(Api::OpenAiChat, false, "hi")).await;
    assert!(answer.text().contains("[BUDGET_EXCEEDED]; it begins anew at"), "{}", answer.text());
    assert_eq!(model.requests().len(), 2);
    eventually("the block left a receipt", || house.receipts.all().contains("builtin:budget")).await;
}

/// What a house with a budget has counted, and what is reserved.
pub(super) async fn tokens(house: &House) -> (u64, u64) {
    let uses = house.store.budgets(9).await.unwrap();
    let tokens = uses.iter().find(|used| used.counter.ends_with("/tokens"));
    tokens.map_or((0, 1), |used| (used.spent, used.reserved))
}

pub(super) fn with_budget() -> House {
    let house = House::new();
    register_daily(&house, BudgetLimits { tokens: Some(1_000_000), ..BudgetLimits::default() });
    house
}

fn register_daily(house: &House, limits: BudgetLimits) {
    let budget = Budget {
        name: "daily".to_owned(),
        agent: None,
        model: None,
        user: None,
        per: Per::default(),
        window: Window::Day,
        limits,
    };
    let settings = BudgetSettings { budgets: vec![budget], prices: Prices::default(), answer_tokens: 50_000 };
    let budgets = Budgets::new(settings, Arc::clone(&house.store));
    with(house, |snapshot| register_budgets(snapshot, &budgets).unwrap());
}

pub(super) async fn settled(house: &House) -> u64 {
    for _ in 0..500 {
        if let (spent, 0) = tokens(house).await {
            return spent;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("nothing was settled: {:?}", tokens(house).await);
}

#[tokio::test]
async fn to_count_tokens_uses_none() {
    let house = with_budget();
    let model = model(json!([{"repeat": true, "text": "fine"}])).await;
    let gateway = house.gateway(&model.base_url(), HookSettings::default()).await;
    let request = ask(Api::AnthropicMessages, false, "how long is this?");
    let answer = talk(&gateway, post("/v1/messages/count_tokens", &request.to_string())).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(settled(&house).await, 0);
}

#[tokio::test]
async fn who_does_not_wait_for_an_answer_pays_for_the_question() {
    let house = with_budget();
    let script = Script { pieces: Vec::new(), gap: std::time::Duration::ZERO, end: End::Hang };
    let upstream = Upstream::start(move |_| script.clone()).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let mut client = connect(&gateway).await;
    let request = ask(Api::AnthropicMessages, true, &"word ".repeat(1_000)).to_string();
    client.write_all(post("/v1/messages", &request).as_bytes()).await.unwrap();
    eventually("the provider was asked", || upstream.count() == 1).await;
    drop(client);
    let spent = settled(&house).await;
    assert!((500..50_000).contains(&spent), "{spent}");
    // Where no provider was reached, nobody pays.
    let house = with_budget();
    let gateway = house.gateway("http://127.0.0.1:9", HookSettings::default()).await;
    let answer = send(&gateway, Api::AnthropicMessages, &ask(Api::AnthropicMessages, false, "hi")).await;
    assert_eq!(answer.status(), 502);
    assert_eq!(settled(&house).await, 0);
}

#[tokio::test]
async fn a_call_that_goes_round_in_circles_is_taken_out() {
    let house = House::new();
    let guard = LoopGuard::new(Arc::clone(&house.store), 2, LoopAction::Block);
    with(&house, |snapshot| register_loop_guard(snapshot, &guard, LoopPlace::Answers).unwrap());
    let model =
        model(json!([{"repeat": true, "tool_calls": [{"name": "read", "arguments": {"path": "a"}}]}])).await;
    let gateway = house.gateway(&model.base_url(), HookSettings::default()).await;
    for round in 0..3 {
        let answer = send(&gateway, Api::OpenAiChat, &ask(Api::OpenAiChat, true, "hi")).await;
        let calls = read(Api::OpenAiChat, &answer).message.tool_calls().count();
        assert_eq!(calls, usize::from(round < 2), "{round}: {}", answer.text());
    }
    let elsewhere =
        send(&gateway, Api::OpenAiChat, &ask(Api::OpenAiChat, true, "another conversation")).await;
    assert_eq!(read(Api::OpenAiChat, &elsewhere).message.tool_calls().count(), 1);
}

#[tokio::test]
async fn a_model_that_is_not_allowed_is_not_asked() {
    let house = House::new();
    let rule = ModelRule { agent: None, allow: vec![Pattern::new("small-*").unwrap()] };
    with(&house, |snapshot| register_model_access(snapshot, ModelAccess::new(vec![rule])).unwrap());
    let model = model(json!([{"repeat": true, "text": "fine"}])).await;
    let gateway = house.gateway(&model.base_url(), HookSettings::default()).await;
    let answer = send(&gateway, Api::OpenAiChat, &ask(Api::OpenAiChat, false, "hi")).await;
    assert!(answer.text().contains("[MODEL_NOT_ALLOWED]"), "{}", answer.text());
    assert!(model.requests().is_empty());
    let mut body = ask(Api::OpenAiChat, false, "hi");
    body["model"] = json!("small-1");
    assert_eq!(send(&gateway, Api::OpenAiChat, &body).await.status(), 200);
}

/// A request names models in many places, and may ask none that is not allowed in any of them.
#[tokio::test]
async fn no_model_of_a_request_gets_past_the_list() {
    let house = House::new();
    let rule = ModelRule { agent: None, allow: vec![Pattern::new("small-*").unwrap()] };
    with(&house, |snapshot| register_model_access(snapshot, ModelAccess::new(vec![rule])).unwrap());
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let chat = |more: Value| {
        let mut body = ask(Api::OpenAiChat, false, "hi");
        body["model"] = json!("small-1");
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let routed = json!({"contents": [{"parts": [{"text": "x"}]}], "generationConfig":
        {"routingConfig": {"manualMode": {"modelName": "large-1"}}}});
    let gemini = "/v1beta/models/small-1:generateContent";
    let refused = [
        ("/v1/chat/completions", chat(json!({"fallbacks": ["large-1"]}))),
        ("/v1/chat/completions", chat(json!({"models": ["small-2", "large-1"]}))),
        ("/v1/chat/completions", chat(json!({"fallback_models": ["large-1"]}))),
        ("/v1/chat/completions", chat(json!({"fallbacks": [{"small-1": ["large-1"]}]}))),
        ("/v1/chat/completions", chat(json!({"context_window_fallback_dict": {"small-1": "large-1"}}))),
        ("/v1/engines/large-1/chat/completions", chat(json!({}))),
        ("/v1/large-1/chat/completions", chat(json!({}))),
        ("/v1/chat/completions?limit=2&model=large-1", chat(json!({}))),
        (
            "/v1/chat/completions",
            chat(json!({"models": {"large-1": {"weight": 1}, "small-model": 1, "type": "x"}})),
        ),
        ("/v1/chat/completions", chat(json!({"tools": [{"type": "image_generation", "model": "large-1"}]}))),
        ("/openai/deployments/large-1/chat/completions", chat(json!({}))),
        (gemini, routed),
        ("/v1/embeddings", json!({"model": "large-1", "input": "x"})),
        ("/openai/deployments/large-1/embeddings", json!({"model": "small-1", "input": "x"})),
        (
            "/v1beta/models/small-1:batchEmbedContents",
            json!({"requests": [{"model": "models/large-1", "content": {"parts": [{"text": "x"}]}}]}),
        ),
    ];
    for (path, body) in refused {
        let answer = talk(&gateway, post(path, &body.to_string())).await;
        assert!(answer.text().contains("[MODEL_NOT_ALLOWED]"), "{path} {body}: {}", answer.text());
        assert!(answer.text().contains("`large-1`"), "{path} {body}: {}", answer.text());
    }
    assert_eq!(upstream.count(), 0);
    let allowed = json!({"model": "small-1", "input": "x"});
    talk(&gateway, post("/openai/deployments/small-2/embeddings", &allowed.to_string())).await;
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn a_budget_counts_what_vectors_cost() {
    for (answered, expected) in [
        (
            json!({"object": "list", "data": [], "usage": {"prompt_tokens": 123, "total_tokens": 123}}),
            123..124,
        ),
        // Where the provider says nothing, what was asked counts, and no answer that nobody wrote.
        (json!({"embedding": {"values": [1]}}), 1..100),
    ] {
        let house = with_budget();
        let body = answered.to_string();
        let upstream = Upstream::start(move |_| Script::json("200 OK", &body)).await;
        let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
        let asked = json!({"model": "m", "input": "a few words"});
        let answer = talk(&gateway, post("/v1/embeddings", &asked.to_string())).await;
        assert_eq!(answer.json(), answered);
        let spent = settled(&house).await;
        assert!(expected.contains(&spent), "{answered}: {spent}");
    }
}
