use backstop_engine::{Said, Verdict};
use backstop_hooks::points::{AfterToolCall, AfterToolCallEvent};
use backstop_plugins::openclaw::Dialect::{Backstop, OpenClaw};
use serde_json::json;

use crate::support::{Plugins, call, context, engine};

#[tokio::test(flavor = "multi_thread")]
async fn hooks_of_many_plugins_see_what_those_before_them_left() {
    let plugins = Plugins::new();
    let mut loaded = Vec::new();
    for number in 0..12 {
        let dialect = if number % 5 == 4 { Backstop } else { OpenClaw };
        let body = if number % 3 == 0 {
            let field = if dialect == Backstop { "...event.params, " } else { "" };
            format!(
                "api.on(\"before_tool_call\", (event) => ({{ params: {{ {field}n{number}: Object.keys(event.params).length }} }}));"
            )
        } else {
            "api.on(\"before_tool_call\", (event) => { event.params.junk = 1; });".to_owned()
        };
        // Rewrites that come anew each time would never settle.
        let body = body
            .replace("(event) => ({", &format!("(event) => \"n{number}\" in event.params ? undefined : ({{"));
        loaded.push(plugins.register(&format!("p{number}"), dialect, &body).await.unwrap());
    }
    let (engine, _) = engine(&loaded.iter().collect::<Vec<_>>());
    let reviewed = engine.review_tool_call(call("exec", json!({})), &context(), false).await;
    assert_eq!(reviewed.receipt.verdict, Verdict::Modify, "{:?}", reviewed.blocked);
    let expected = json!({ "n0": 0, "n3": 1, "n6": 2, "n9": 3 });
    assert_eq!(serde_json::to_value(&reviewed.event.params).unwrap(), expected);
    let first: Vec<_> = reviewed.receipt.steps.iter().filter(|step| !step.again).collect();
    assert_eq!(first.len(), 12);
    for (number, step) in first.iter().enumerate() {
        let expected = if number % 3 == 0 { Said::Rewrote } else { Said::Nothing };
        assert_eq!((step.hook.owner.to_string(), step.said), (format!("p{number}"), expected));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_fails_among_others_is_the_one_that_is_named() {
    let plugins = Plugins::new();
    let mut loaded = Vec::new();
    for (id, handler) in
        [("quiet", "() => {}"), ("loud", "() => { throw new Error(\"no\"); }"), ("last", "() => {}")]
    {
        let body = format!("api.on(\"before_tool_call\", {handler});");
        loaded.push(plugins.register(id, OpenClaw, &body).await.unwrap());
    }
    let (engine, _) = engine(&loaded.iter().collect::<Vec<_>>());
    let reviewed = engine.review_tool_call(call("exec", json!({})), &context(), false).await;
    assert_eq!(reviewed.blocked.unwrap().owner.unwrap().as_str(), "loud");
    let said: Vec<_> = reviewed.receipt.steps.iter().map(|step| step.said).collect();
    assert_eq!(said, [Said::Nothing, Said::Failed], "nobody behind it was asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn law_10_one_that_hangs_costs_its_own_budget_and_not_its_neighbours() {
    let plugins = Plugins::new();
    let mut loaded = Vec::new();
    for (id, handler) in
        [("quiet", "() => {}"), ("stuck", "() => new Promise(() => {})"), ("last", "() => {}")]
    {
        let options = if id == "stuck" { ", { timeoutMs: 30 }" } else { "" };
        let body = format!("api.on(\"before_tool_call\", {handler}{options});");
        loaded.push(plugins.register(id, OpenClaw, &body).await.unwrap());
    }
    let (engine, _) = engine(&loaded.iter().collect::<Vec<_>>());
    let reviewed = engine.review_tool_call(call("exec", json!({})), &context(), false).await;
    assert_eq!(reviewed.blocked.unwrap().owner.unwrap().as_str(), "stuck");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_encoded_once_for_each_version_and_dialect() {
    let plugins = Plugins::new();
    let mut loaded = Vec::new();
    // Each second one is of the other dialect, so that no two are asked in one go.
    for number in 0..10 {
        let dialect = if number % 2 == 0 { OpenClaw } else { Backstop };
        let body = "api.on(\"before_tool_call\", () => {}); api.on(\"after_tool_call\", () => {});";
        loaded.push(plugins.register(&format!("p{number}"), dialect, body).await.unwrap());
    }
    let (engine, _) = engine(&loaded.iter().collect::<Vec<_>>());
    let encodes = async |dispatch: &str| {
        let before = plugins.batches.encoded();
        match dispatch {
            "judge" => drop(engine.review_tool_call(call("exec", json!({})), &context(), false).await),
            _ => {
                let event = json!({ "toolName": "exec", "params": {}, "durationMs": 1 });
                let event: AfterToolCallEvent = serde_json::from_value(event).unwrap();
                engine.observe::<AfterToolCall>(&event, &context()).await;
            }
        }
        plugins.batches.encoded() - before
    };
    assert_eq!(encodes("judge").await, 2);
    assert_eq!(encodes("judge").await, 2, "another call is another value");
    assert_eq!(encodes("watch").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_encoded_of_one_version_is_shown_of_no_other() {
    let plugins = Plugins::new();
    let rewrite =
        "api.on(\"before_tool_call\", (event) => event.params.n === 0 ? { params: { n: 1 } } : undefined);";
    let judge = "api.on(\"before_tool_call\", (event) => event.params.n === 1 ? undefined : { block: event.params.n === undefined });";
    let mut loaded = Vec::new();
    for (id, body) in [("first", judge), ("writer", rewrite), ("last", judge), ("again", judge)] {
        loaded.push(plugins.register(id, OpenClaw, body).await.unwrap());
    }
    let (engine, _) = engine(&loaded.iter().collect::<Vec<_>>());
    let reviewed = engine.review_tool_call(call("exec", json!({ "n": 0 })), &context(), false).await;
    assert_eq!(reviewed.receipt.verdict, Verdict::Modify, "{:?}", reviewed.receipt.steps);
    assert_eq!(serde_json::to_value(&reviewed.event.params).unwrap(), json!({ "n": 1 }));
    assert_eq!(plugins.batches.encoded(), 2, "one for each of two versions");
}
