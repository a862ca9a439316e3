//! Interceptors: functions that edit what they are given, at the four points that have them.

use backstop_engine::{Decided, Engine, Verdict};
use backstop_hooks::points::{MessageBefore, ParamsBefore, ToolAfter, ToolBefore};
use backstop_hooks::{DecidePoint, Point};
use backstop_plugins::openclaw::Dialect::{self, Backstop, OpenClaw};
use serde_json::{Value, json};

use crate::support::{Plugins, context, engine};

async fn decided<P: DecidePoint>(engine: &Engine, event: Value) -> Decided<P>
where
    P::Event: serde::de::DeserializeOwned,
{
    engine.decide::<P>(serde_json::from_value(event).unwrap(), &context()).await
}

fn told<P: Point>(decided: &Decided<P>) -> Value {
    let failures: Vec<_> = decided
        .receipt()
        .steps
        .iter()
        .filter_map(|step| step.failure.as_ref())
        .map(|it| it.message.as_str().to_owned())
        .collect();
    assert!(failures.is_empty(), "{failures:?}");
    serde_json::to_value(decided.event()).unwrap()
}

fn message(text: &str) -> Value {
    json!({ "agentId": "main", "provider": "p", "model": "m", "message": text, "metadata": {} })
}

fn params(metadata: &Value) -> Value {
    json!({ "agentId": "main", "message": "x", "metadata": metadata, "provider": "p", "model": "m" })
}

fn tool_result(text: &str) -> Value {
    let result =
        json!({ "toolCallId": "c1", "content": [{ "type": "text", "text": text }], "isError": false });
    json!({ "toolName": "exec", "toolCallId": "c1", "isError": false, "result": result })
}

/// The pair with which the documentation of interceptors shows how they speak with each other.
const CLASSIFIER: &str = r#"
    api.interceptors.add({ id: "classifier", name: "message.before", handler: (_input, output) => {
        const isComplex = output.message.length > 500 || output.message.includes("debug");
        output.metadata.complexity = isComplex ? "high" : "low";
    } });
    api.interceptors.add({ id: "think-adjuster", name: "params.before", handler: (input, output) => {
        if (input.metadata.complexity === "high") {
            output.thinkLevel = "high";
        }
    } });
"#;

#[tokio::test(flavor = "multi_thread")]
async fn tags_of_a_message_choose_how_much_the_model_thinks() {
    for dialect in [OpenClaw, Backstop] {
        let plugin = Plugins::new().register("mine", dialect, CLASSIFIER).await.unwrap();
        let (engine, _) = engine(&[&plugin]);
        for (text, tag, level) in [("please debug", "high", json!("high")), ("hello", "low", Value::Null)] {
            let classified = told(&decided::<MessageBefore>(&engine, message(text)).await);
            assert_eq!(
                (&classified["metadata"], &classified["message"]),
                (&json!({ "complexity": tag }), &json!(text))
            );
            let adjusted = told(&decided::<ParamsBefore>(&engine, params(&classified["metadata"])).await);
            assert_eq!(adjusted["thinkLevel"], level, "{adjusted}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_interceptor_edits_is_changed_and_nothing_else() {
    let body = r#"
        api.interceptors.add({ id: "m", name: "message.before", agentMatcher: /^ma/, async handler(input, output) {
            await Promise.resolve(); output.message = `${input.provider}/${input.model}: ${output.message}`; } });
        api.interceptors.add({ id: "elsewhere", name: "message.before", agentMatcher: /^other$/, handler(_, output) { output.message = "no"; } });
        api.interceptors.add({ id: "p", name: "params.before", handler(_, output) {
            output.temperature = 0.5; output.reasoningLevel = "on"; if (output.thinkLevel) delete output.thinkLevel; } });
        api.interceptors.add({ id: "late", name: "tool.before", priority: 1, handler(_, output) { output.args.order += "b"; } });
        api.interceptors.add({ id: "early", name: "tool.before", priority: 2, async handler(_, output) { await null; output.args.order += "a"; } });
        api.interceptors.add({ id: "r", name: "tool.after", toolMatcher: /^exec$/, handler(input, output) {
            output.result.content[0].text = `${input.toolName} ${input.isError} ${output.result.content[0].text.replace("secret", "-")}`; } });
    "#;
    let plugin = Plugins::new().register("mine", OpenClaw, body).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    assert_eq!(told(&decided::<MessageBefore>(&engine, message("hi")).await)["message"], "p/m: hi");
    let mut given = params(&json!({}));
    given["thinkLevel"] = json!("low");
    let fixed = told(&decided::<ParamsBefore>(&engine, given).await);
    assert_eq!((&fixed["temperature"], &fixed["reasoningLevel"]), (&json!(0.5), &json!("on")));
    assert_eq!((&fixed["thinkLevel"], &fixed["model"]), (&Value::Null, &json!("m")));
    let event = json!({ "toolName": "exec", "toolCallId": "c1", "args": { "order": "", "kept": 1 } });
    let before = told(&decided::<ToolBefore>(&engine, event).await);
    assert_eq!(before["args"], json!({ "order": "ab", "kept": 1 }));
    let after = told(&decided::<ToolAfter>(&engine, tool_result("a secret")).await);
    assert_eq!(after["result"]["content"][0]["text"], "exec false a -");
}

async fn verdict(dialect: Dialect, handler: &str) -> (Verdict, String) {
    let body = format!(
        "api.interceptors.add({{ id: 'i', name: 'params.before', handler(input, output) {{ {handler} }} }});"
    );
    let plugin = Plugins::new().register("mine", dialect, &body).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    let decided = decided::<ParamsBefore>(&engine, params(&json!({}))).await;
    let failure = decided.receipt().steps[0].failure.as_ref();
    (
        decided.receipt().verdict,
        failure.map(|failure| failure.message.as_str().to_owned()).unwrap_or_default(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn law_05_what_can_not_be_changed_or_is_no_data_blocks() {
    for (handler, words) in [
        ("output.model = 'other';", "before_model_resolve"),
        ("output.thinklevel = 'high';", "thinklevel"),
        ("output.thinkLevel = 'very';", ""),
        ("output.thinkLevel = new Map();", "plain data"),
        ("output.temperature = { toJSON() {} };", "plain data"),
        (
            "Object.defineProperty(output, 'thinkLevel', { get: () => ({ toJSON() {} }), enumerable: true });",
            "plain data",
        ),
        ("throw new Error('out of luck');", "out of luck"),
        ("return Promise.reject(new Error('later'));", "later"),
    ] {
        for dialect in [OpenClaw, Backstop] {
            let (verdict, failure) = verdict(dialect, handler).await;
            assert_eq!(verdict, Verdict::Block, "{handler}: {failure}");
            assert!(failure.contains(words), "{handler}: {failure}");
        }
    }
    for handler in [
        "",
        "return { thinkLevel: 'high' };",
        "output.thinkLevel = undefined;",
        "output.model = 'm';",
        "input.message = 'x';",
    ] {
        let (verdict, failure) = verdict(OpenClaw, handler).await;
        assert_eq!(verdict, Verdict::Pass, "{handler}: {failure}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_was_taken_away_can_come_back_to_where_it_stood() {
    let body = r#"
        const guard = { id: "guard", name: "tool.before", priority: 3, handler(_, output) { output.block = true; output.blockReason = "guarded"; } };
        api.interceptors.add(guard);
        api.interceptors.add({ id: "switch", name: "tool.after", handler(_, output) {
            const what = output.result.content[0].text;
            const tried = (act) => { try { return String(act()); } catch (error) { return error.message.split("\n")[0]; } };
            output.result.content[0].text = ({
                off: () => tried(() => api.interceptors.remove("guard")),
                on: () => tried(() => api.interceptors.add(guard)),
                moved: () => tried(() => api.interceptors.add({ ...guard, priority: 4 })),
                other: () => tried(() => api.interceptors.add({ ...guard, handler(_, output) { output.args.softer = true; } })),
                stranger: () => tried(() => api.interceptors.add({ ...guard, id: "stranger" })),
                list: () => api.interceptors.list().map((one) => one.id).join(),
            })[what]();
        } });
    "#;
    let plugin = Plugins::new().register("mine", OpenClaw, body).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    let tell = async |what: &str| {
        let told = told(&decided::<ToolAfter>(&engine, tool_result(what)).await);
        told["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    };
    let judge = async || {
        let event = json!({ "toolName": "exec", "toolCallId": "c1", "args": {} });
        decided::<ToolBefore>(&engine, event).await.receipt().verdict
    };
    assert_eq!(judge().await, Verdict::Block);
    assert_eq!((tell("off").await.as_str(), judge().await), ("true", Verdict::Pass));
    assert_eq!((tell("off").await.as_str(), tell("list").await.as_str()), ("false", "switch"));
    assert!(tell("moved").await.contains("come back to where it stood"));
    assert_eq!(judge().await, Verdict::Pass, "what was refused is not there");
    assert!(tell("stranger").await.contains("after `register` had returned"));
    assert_eq!(tell("list").await, "switch");
    assert_eq!((tell("on").await.as_str(), judge().await), ("undefined", Verdict::Block));
    assert!(tell("on").await.contains("already"));
    assert_eq!(tell("off").await, "true");
    assert_eq!((tell("other").await.as_str(), judge().await), ("undefined", Verdict::Modify));
}
