use backstop_engine::{Said, Verdict};
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
