//! What other gateways got wrong, a test for each.

use std::fs;
use std::path::PathBuf;

use backstop_engine::Verdict;
use backstop_gateway::inspect::HookSettings;
use backstop_hooks::points::{
    AfterLlmCall, BeforeLlmCall, BeforeResponseEmit, BeforeToolCall, MessageBefore, ToolCallOutcome,
};
use backstop_hooks::{HookError, Point, PointId, ToolName, hook_fn};
use backstop_llm::Api;
use serde_json::{Value, json};

use super::support::*;
use crate::support::{Script, Upstream, post, talk};

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

/// Wires that repeat what they said are not judged by the repetition alone.
#[tokio::test]
async fn a_call_that_the_last_event_leaves_out_is_judged_all_the_same() {
    let arguments = format!("{{\"command\":\"{SECRET}\"}}");
    let call = |arguments: &str, status: &str| {
        json!({"type": "function_call", "id": "fc", "call_id": "call_1", "name": "exec", "status": status,
            "arguments": arguments})
    };
    let response = |status: &str| json!({"id": "r", "object": "response", "status": status, "model": "m"});
    let with_output = |output: Value| {
        let mut response = response("completed");
        response["output"] = output;
        response
    };
    let message = json!({"type": "message", "id": "i", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "fine", "annotations": []}]});
    for last in [response("completed"), with_output(json!([])), with_output(json!([message]))] {
        let events = [
            json!({"type": "response.created", "sequence_number": 0, "response": response("in_progress")}),
            json!({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0,
                "item": call("", "in_progress")}),
            json!({"type": "response.function_call_arguments.delta", "sequence_number": 2, "output_index": 0,
                "item_id": "fc", "delta": arguments}),
            json!({"type": "response.function_call_arguments.done", "sequence_number": 3, "output_index": 0,
                "item_id": "fc", "name": "exec", "arguments": arguments}),
            json!({"type": "response.output_item.done", "sequence_number": 4, "output_index": 0,
                "item": call(&arguments, "completed")}),
            json!({"type": "response.completed", "sequence_number": 5, "response": last}),
        ];
        let events = events.map(|data| event(&data));
        let script = Script::events(&events.each_ref().map(String::as_str));
        let upstream = Upstream::start(move |_| script.clone()).await;
        let house = House::new();
        house.withhold("exec");
        let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
        let answer = send(&gateway, Api::OpenAiResponses, &ask(Api::OpenAiResponses, true, "hi")).await;
        assert!(!answer.text().contains(SECRET), "{last}: {}", answer.text());
        // An end that says something else than what came before is an error.
        let is_error = last["output"].as_array().is_some_and(|output| !output.is_empty());
        assert_eq!(answer.status() == 502, is_error, "{last}: {}", answer.text());
        assert_eq!(answer.text().contains("[backstop] withheld `exec`"), !is_error, "{}", answer.text());
    }
}

/// A tool of a server is known by its namespace as much as by its name, wherever a stream says it.
#[tokio::test]
async fn a_call_is_judged_by_its_namespace_and_by_its_bare_name() {
    let arguments = format!("{{\"title\":\"{SECRET}\"}}");
    let call = |arguments: &str, status: &str, namespace: Option<&str>| {
        let mut item = json!({"type": "function_call", "id": "fc", "call_id": "call_1", "name": "create_issue",
            "status": status, "arguments": arguments});
        if let Some(namespace) = namespace {
            item["namespace"] = namespace.into();
        }
        item
    };
    let response = |status: &str, output: Value| json!({"id": "r", "object": "response", "status": status, "model": "m", "output": output});
    let names = Some("mcp__github");
    for (said, done, rule) in [
        (names, names, "mcp__github__create_issue"),
        (names, names, "create_issue"),
        (names, None, "mcp__github__create_issue"),
        (None, names, "mcp__github__create_issue"),
        (Some("mcp__other"), names, "mcp__github__create_issue"),
    ] {
        let last = response("completed", json!([call(&arguments, "completed", done)]));
        let events = [
            json!({"type": "response.created", "sequence_number": 0, "response": response("in_progress", json!([]))}),
            json!({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0,
                "item": call("", "in_progress", said)}),
            json!({"type": "response.function_call_arguments.delta", "sequence_number": 2, "output_index": 0,
                "item_id": "fc", "delta": arguments}),
            json!({"type": "response.function_call_arguments.done", "sequence_number": 3, "output_index": 0,
                "item_id": "fc", "name": "create_issue", "arguments": arguments}),
            json!({"type": "response.output_item.done", "sequence_number": 4, "output_index": 0,
                "item": call(&arguments, "completed", done)}),
            json!({"type": "response.completed", "sequence_number": 5, "response": last}),
        ];
        let events = events.map(|data| event(&data));
        let streamed = Script::events(&events.each_ref().map(String::as_str));
        for (stream, script) in [(true, streamed), (false, Script::json("200 OK", &last.to_string()))] {
            if !stream && done.is_none() {
                continue;
            }
            let upstream = Upstream::start(move |_| script.clone()).await;
            let leaves = async |is_denied: fn(&ToolName, &str) -> bool, rule: &'static str| {
                let house = House::new();
                house.judge::<BeforeToolCall>("denies", move |event| {
                    is_denied(&event.tool_name, rule).then(|| ToolCallOutcome::block("not this one"))
                });
                let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
                let asked = ask(Api::OpenAiResponses, stream, "hi");
                let answer = send(&gateway, Api::OpenAiResponses, &asked).await;
                answer.text().contains(SECRET)
            };
            let any = |tool: &ToolName, rule: &str| tool.every_name().any(|name| name == rule);
            assert!(!leaves(any, rule).await, "{said:?} {done:?} {rule}");
            // Who allows one tool allows no call that a client may take for another one.
            let all_but = |tool: &ToolName, rule: &str| tool.canonical() != rule;
            for allowed in ["mcp__github__create_issue", "create_issue", "mcp__other__create_issue"] {
                let is_one = !stream || said == done;
                assert!(is_one || !leaves(all_but, allowed).await, "{said:?} {done:?} {allowed}");
            }
            assert!(leaves(all_but, "mcp__github__create_issue").await || (stream && said != done));
        }
    }
}

/// The limit of a call is none of the answer: long answers of coding agents are many calls and much text.
#[tokio::test]
async fn many_small_calls_and_much_text_are_not_one_large_call() {
    for (api, stream) in forms() {
        let house = House::new();
        house.judge::<AfterLlmCall>("looks", |_| None);
        let calls: Vec<Value> =
            (0..50).map(|n| json!({"name": "read", "arguments": {"path": format!("{n:0>900}")}})).collect();
        let model =
            model(json!([{"text": "word ".repeat(20_000), "chunk": 4_000, "tool_calls": calls}])).await;
        let settings = HookSettings { call_bytes: 1_000, ..HookSettings::default() };
        let gateway = house.gateway(&model.base_url(), settings).await;
        let answer = read(api, &send_to(&gateway, api, stream, &ask(api, stream, "hi")).await);
        assert_eq!(answer.message.tool_calls().count(), 50, "{api} {stream}");
        assert_eq!(answer.message.visible_text().len(), 100_000, "{api} {stream}");
    }
}

fn fails<P: Point>(house: &House, panics: bool) {
    let hook = hook_fn::<P, _>(move |_, _| {
        assert!(!panics, "a hook that panics");
        Err(HookError::failed("out of order"))
    });
    house.on::<P>("fails", hook);
}

#[tokio::test]
async fn a_hook_that_fails_lets_nothing_pass_and_is_no_success() {
    for (point, fail) in [
        (PointId::MessageBefore, fails::<MessageBefore> as fn(&House, bool)),
        (PointId::BeforeLlmCall, fails::<BeforeLlmCall>),
        (PointId::AfterLlmCall, fails::<AfterLlmCall>),
        (PointId::BeforeResponseEmit, fails::<BeforeResponseEmit>),
    ] {
        for (api, stream) in forms() {
            for panics in [false, true] {
                let house = House::new();
                fail(&house, panics);
                let calls = json!([{"name": "exec", "arguments": {"command": SECRET}}]);
                let text = if point == PointId::AfterLlmCall { "" } else { SECRET };
                let model = model(json!([{"text": text, "tool_calls": calls}])).await;
                let gateway = house.gateway(&model.base_url(), HookSettings::default()).await;
                let answer = send_to(&gateway, api, stream, &ask(api, stream, "hi")).await;
                assert!(!answer.text().contains(SECRET), "{point:?} {api} {stream}: {}", answer.text());
                assert!(answer.text().contains("[backstop] blocked"), "{point:?}: {}", answer.text());
                assert_eq!(house.receipts.of(point), [Verdict::Block], "{api} {stream}");
            }
        }
    }
}

/// Requests and answers of all wires, as the providers' documentation has them.
fn fixtures(folder: &str, ending: &str) -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../llm/tests/fixtures").join(folder);
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let files = files.filter(|path| path.to_str().unwrap().ends_with(ending));
    files.map(|path| (path.display().to_string(), fs::read_to_string(&path).unwrap())).collect()
}

#[tokio::test]
async fn what_hooks_leave_alone_arrives_byte_for_byte() {
    let mut calls = 0;
    for judges_calls in [false, true] {
        let house = House::new();
        house.redact();
        house.judge::<MessageBefore>("reads", |_| None);
        house.judge::<BeforeLlmCall>("reads-all", |_| None);
        if judges_calls {
            house.judge::<AfterLlmCall>("reads-calls", |_| None);
        }
        for (api, folder) in LINED.into_iter().zip(["anthropic", "openai_chat", "openai_responses", "gemini"])
        {
            let request = fixtures(folder, "agent.request.json").remove(0).1;
            // It approves a call that it brings with it: that is judged where nothing else can be meant.
            let request = request.replace("\"previous_response_id\":\"resp_0\",", "");
            let answers = fixtures(folder, ".stream.sse").into_iter().map(|it| (it, true));
            let answers = answers.chain(fixtures(folder, ".response.json").into_iter().map(|it| (it, false)));
            for ((name, answer), stream) in answers {
                let kind = if stream { "text/event-stream" } else { "application/json" };
                let size = answer.len();
                let script = Script::whole(format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {size}\r\n\r\n{answer}"
                ));
                let upstream = Upstream::start(move |_| script.clone()).await;
                let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
                let left = talk(&gateway, post(&path(api, stream), &request)).await;
                assert_eq!(upstream.request(0).split_once("\r\n\r\n").unwrap().1, request, "{name}");
                let said = read(api, &left).message;
                calls += usize::from(judges_calls) * said.tool_calls().count();
                // Calls whose arguments make no sense are taken out by whoever judges calls.
                if !judges_calls || !said.visible_text().contains("[backstop] withheld") {
                    assert_eq!(left.body(), (answer, true), "{name}");
                }
            }
        }
    }
    assert!(calls > 10, "{calls} calls were judged");
}
