//! OpenAI's batches: files with requests, batches of them, and files with the answers.

use backstop_gateway::inspect::{BlockedForm, HookSettings, Hooks, UnjudgedMedia};
use backstop_gateway::{Credential, Family};
use backstop_hooks::points::{
    AfterLlmCall, AfterLlmCallOutcome, BeforeLlmCall, BeforeLlmCallOutcome, MessageBefore,
    MessageBeforeOutcome, ToolAfter, ToolAfterOutcome,
};
use serde_json::{Value, json};

use super::limits::{settled, tokens, with_budget};
use super::parts::{Part, body, posted};
use super::support::*;
use crate::support::{
    Answer, Script, TOKEN, Upstream, gateway, post, provider, secret, settings, start, talk,
};

const CHAT: &str = "/v1/chat/completions";

fn get(path: &str) -> String {
    format!("GET /t/{TOKEN}{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
}

fn asking(id: &str, url: &str, body: &Value) -> Value {
    json!({"custom_id": id, "method": "POST", "url": url, "body": body})
}

fn chat(id: &str, text: &str) -> Value {
    asking(
        id,
        CHAT,
        &json!({"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": text}]}),
    )
}

fn lines(requests: &[Value]) -> String {
    requests.iter().map(|request| format!("{request}\n")).collect()
}

fn upload(file: &str) -> String {
    posted("/v1/files", &body(&[("purpose", None, "batch"), ("file", Some("a.jsonl"), file)]))
}

fn creation(file: &str, url: &str) -> Value {
    json!({"input_file_id": file, "endpoint": url, "completion_window": "24h"})
}

fn create(file: &str) -> String {
    post("/v1/batches", &creation(file, CHAT).to_string())
}

/// A provider that takes files, makes a batch of them, and has a file of answers.
async fn upstream(answers: &str) -> Upstream {
    let batch = json!({"id": "batch_1", "object": "batch", "endpoint": CHAT, "input_file_id": "file-1", "status": "completed",
        "output_file_id": "file-out", "error_file_id": null, "metadata": {"a": "b c"}});
    let content = {
        let size = answers.len();
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: {size}\r\n\r\n{answers}"
        )
    };
    Upstream::answering(move |request| {
        let path = request.split(' ').nth(1).unwrap_or_default();
        match path {
            "/v1/files" => Script::json("200 OK", r#"{"id":"file-1","object":"file","purpose":"batch"}"#),
            path if path.starts_with("/v1/batches") => Script::json("200 OK", &batch.to_string()),
            _ => Script::whole(content.clone()),
        }
    })
    .await
}

fn sent(upstream: &Upstream, number: usize) -> String {
    upstream.request(number).split_once("\r\n\r\n").unwrap().1.to_owned()
}

fn stopping() -> House {
    let house = House::new();
    house.judge::<BeforeLlmCall>("no", |event| {
        let said = serde_json::to_string(event).unwrap();
        said.contains(SECRET).then(|| BeforeLlmCallOutcome {
            block: Some(true),
            block_reason: Some(format!("not of {}", event.model).into()),
            ..BeforeLlmCallOutcome::default()
        })
    });
    house
}

#[tokio::test]
async fn each_request_of_a_file_is_judged() {
    let secret = format!("It is {SECRET}.");
    let model = json!("m");
    for (url, fine, bad) in [
        (
            CHAT,
            json!({"model": model, "messages": []}),
            json!({"model": model, "messages": [{"role": "user", "content": secret}]}),
        ),
        ("/v1/responses", json!({"model": model, "input": "a"}), json!({"model": model, "input": secret})),
        ("/v1/embeddings", json!({"model": model, "input": "a"}), json!({"model": model, "input": [secret]})),
        (
            "/v1/completions",
            json!({"model": model, "prompt": "a"}),
            json!({"model": model, "prompt": secret}),
        ),
        ("/v1/moderations", json!({"model": model, "input": "a"}), json!({"model": model, "input": secret})),
        (
            "/v1/images/generations",
            json!({"model": model, "prompt": "a"}),
            json!({"model": model, "prompt": secret}),
        ),
    ] {
        let upstream = upstream("").await;
        let gateway = stopping().gateway(&upstream.url(), HookSettings::default()).await;
        let (fine, bad) = (asking("a", url, &fine), asking("b", url, &bad));
        for file in [lines(&[fine.clone(), bad.clone()]), lines(&[bad.clone(), fine.clone()])] {
            let answer = talk(&gateway, upload(&file)).await;
            assert_eq!(answer.status(), 403, "{url}: {}", answer.text());
            assert!(answer.text().contains("not of m"), "{}", answer.text());
        }
        assert_eq!(upstream.count(), 0);
        let untouched = lines(&[fine]).replace(',', " , ") + "\r\n";
        assert_eq!(talk(&gateway, upload(&untouched)).await.status(), 200, "{url}");
        assert!(sent(&upstream, 0).contains(&untouched), "untouched is identical");
        let answer = talk(&gateway, post("/v1/batches", &creation("file-1", url).to_string())).await;
        assert_eq!(answer.status(), 200, "{url}: {}", answer.text());
    }
}

#[tokio::test]
async fn what_was_rewritten_stands_in_its_line() {
    let house = House::new();
    house.judge::<MessageBefore>("rewrites", |event| {
        event.message.contains(SECRET).then(|| MessageBeforeOutcome {
            message: Some(event.message.replace(SECRET, "[gone]").into()),
            ..MessageBeforeOutcome::default()
        })
    });
    let upstream = upstream("").await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let file = |text: &str| lines(&[chat("a", "x"), chat("b", text), chat("c", "y")]);
    assert_eq!(talk(&gateway, upload(&file(&format!("It is {SECRET}.")))).await.status(), 200);
    let parts: [Part<'_>; 2] =
        [("purpose", None, "batch"), ("file", Some("a.jsonl"), &file("It is [gone]."))];
    assert_eq!(sent(&upstream, 0), body(&parts));
}

#[tokio::test]
async fn a_file_that_can_not_be_judged_is_refused() {
    let upstream = upstream("").await;
    let gateway = stopping().gateway(&upstream.url(), HookSettings::default()).await;
    let fine = chat("a", "x");
    let with = |field: &str, value: Value| {
        let mut other = chat("b", "x");
        other[field] = value;
        other.to_string()
    };
    for line in [
        SECRET.to_owned(),
        "[]".to_owned(),
        with("method", json!("GET")),
        with("method", json!("post")),
        with("url", json!("/v1/responses")),
        with("url", json!("/v1/files")),
        with("url", json!("/v1/chat/completions?x=y")),
        with("url", json!("https://elsewhere.example/v1/chat/completions")),
        with("url", json!("/v1/messages")),
        with("url", json!("/v1/audio/speech")),
        with("url", Value::Null),
        with("body", json!([SECRET])),
        with("body", json!("x")),
        with("custom_id", json!("a")),
        with("custom_id", json!(format!("It is {SECRET}."))),
        with("custom_id", json!("")),
        with("custom_id", json!("x".repeat(129))),
        with("headers", json!({"x": SECRET})),
        chat("b", "x").to_string().replace("\"body\":", "\"body\":{},\"body\":"),
        chat("b", "x").to_string().replace("{\"custom_id\"", "{\r\"custom_id\""),
        with("body", json!({"model": "m", "messages": 7})),
    ] {
        for file in [format!("{fine}\n{line}\n"), format!("{fine}\n\n{line}")] {
            let answer = talk(&gateway, upload(&file)).await;
            assert_eq!(answer.status(), 400, "{line}: {}", answer.text());
            assert!(!answer.text().contains(SECRET), "{}", answer.text());
        }
    }
    let file = lines(&[fine]);
    for parts in [
        vec![("purpose", None, "batch"), ("file", Some("a"), "")],
        vec![("purpose", None, "batch"), ("purpose", None, "vision"), ("file", Some("a"), file.as_str())],
        vec![("purpose", None, "batch"), ("file", Some("a"), file.as_str()), ("more", Some("b"), "x")],
        vec![("purpose", None, "batch"), ("note", None, "two words"), ("file", Some("a"), file.as_str())],
    ] {
        let answer = talk(&gateway, posted("/v1/files", &body(&parts))).await;
        assert_eq!(answer.status(), 400, "{parts:?}: {}", answer.text());
    }
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn a_batch_is_made_of_a_file_that_was_judged_and_of_no_other() {
    let upstream = upstream("").await;
    let gateway = stopping().gateway(&upstream.url(), HookSettings::default()).await;
    let refused = async |request: String, why: &str| {
        let answer = talk(&gateway, request).await;
        assert_eq!(answer.status(), 400, "{}", answer.text());
        assert!(answer.text().contains(why), "{why}: {}", answer.text());
    };
    refused(create("file-1"), "through this proxy").await;
    // Stored for something else, its lines are nobody's requests.
    let other = body(&[("purpose", None, "user_data"), ("file", Some("a"), SECRET)]);
    assert_eq!(talk(&gateway, posted("/v1/files", &other)).await.status(), 200);
    refused(create("file-1"), "through this proxy").await;
    assert_eq!(talk(&gateway, upload(&lines(&[chat("a", "x")]))).await.status(), 200);
    refused(create("file-2"), "through this proxy").await;
    refused(create("file-1").replace("/t/", "/a/other/t/"), "through this proxy").await;
    refused(post("/v1/batches", &creation("file-1", "/v1/responses").to_string()), "another `endpoint`")
        .await;
    let with = |field: &str, value: Value| {
        let mut creation = creation("file-1", CHAT);
        creation[field] = value;
        post("/v1/batches", &creation.to_string())
    };
    refused(with("input_blob", json!("https://elsewhere.example/file")), "other fields").await;
    refused(with("input_file_id", json!(["file-1"])), "no file").await;
    refused(post("/v1/batches", "[]"), "other fields").await;
    let said = talk(&gateway, with("metadata", json!({"note": SECRET}))).await;
    assert_eq!(said.status(), 403, "{}", said.text());
    assert!(said.text().contains("not of -"), "{}", said.text());
    // What was refused did not use the file.
    assert_eq!(talk(&gateway, with("metadata", json!({"note": "two words"}))).await.status(), 200);
    refused(create("file-1"), "another batch").await;
    for open in [get("/v1/batches"), get("/v1/batches/b"), post("/v1/batches/b/cancel", "")] {
        assert_eq!(talk(&gateway, open.clone()).await.status(), 200, "{open}");
    }
}

#[tokio::test]
async fn a_batch_is_made_where_its_file_was_judged() {
    let failing = Upstream::answering(|request| match request.split(' ').nth(1) {
        Some("/v1/files") => Script::json("200 OK", r#"{"id":"file-1","object":"file","purpose":"batch"}"#),
        _ => Script::json("503 Service Unavailable", "{}"),
    })
    .await;
    let other = upstream("").await;
    let mut settings = settings_of(&failing.url());
    let provider = provider(Family::OpenAi, &other.url(), Credential::Client);
    settings.providers.insert("other".to_owned(), provider);
    settings.defaults.insert(Family::OpenAi, vec!["openai".to_owned(), "other".to_owned()]);
    let hooks = Hooks::new(stopping().engine, HookSettings::default()).unwrap();
    let gateway = start(settings, hooks).await.unwrap();
    assert_eq!(talk(&gateway, upload(&lines(&[chat("a", "x")]))).await.status(), 200);
    let answer = talk(&gateway, create("file-1")).await;
    assert_eq!(answer.status(), 503, "{}", answer.text());
    assert_eq!(other.count(), 0, "its file of that name was judged by nobody");
    // What came to nothing did not use the file.
    assert_eq!(talk(&gateway, create("file-1")).await.status(), 503);
}

#[tokio::test]
async fn answers_to_what_is_stored_or_made_are_states() {
    let file = json!({"id": "file-1", "object": "file", "bytes": 9, "filename": "a b.jsonl", "purpose": "batch", "status_details": null});
    let batch = json!({"id": "batch_1", "object": "batch", "endpoint": CHAT, "input_file_id": "file-1", "status": "completed"});
    let with = |state: &Value, field: &str, value: Value| {
        let mut state = state.clone();
        state[field] = value;
        state.to_string()
    };
    let stored = |name: &str| {
        let request = lines(&[chat("a", "x")]);
        posted("/v1/files", &body(&[("purpose", None, "batch"), ("file", Some(name), &request)]))
    };
    let gateway_of = async |file: String, batch: String, house: House| {
        let upstream = Upstream::answering(move |request| match request.split(' ').nth(1) {
            Some("/v1/files") => Script::json("200 OK", &file),
            _ => Script::json("200 OK", &batch),
        })
        .await;
        (house.gateway(&upstream.url(), HookSettings::default()).await, upstream)
    };
    let (gateway, _upstream) = gateway_of(file.to_string(), batch.to_string(), redacting()).await;
    let answer = talk(&gateway, stored("a b.jsonl")).await;
    assert_eq!((answer.status(), answer.body().0), (200, file.to_string()), "untouched is identical");
    let answer = talk(&gateway, create("file-1")).await;
    assert_eq!((answer.status(), answer.body().0), (200, batch.to_string()));
    let long = SECRET.repeat(300);
    for odd in [
        with(&file, "text", json!(SECRET)),
        with(&file, "text", json!(1)),
        with(&file, "status_details", json!(format!("It is {SECRET}."))),
        with(&file, "status_details", json!({"x": SECRET})),
        with(&file, "filename", json!(format!("It is {SECRET}."))),
        with(&file, "id", json!(long)),
        format!("[{file}]"),
        format!("It is {SECRET}."),
        " ".repeat(300 << 10) + &file.to_string(),
    ] {
        let (gateway, _upstream) = gateway_of(odd.clone(), batch.to_string(), redacting()).await;
        let answer = talk(&gateway, stored("a b.jsonl")).await;
        assert_eq!(answer.status(), 502, "{}", answer.text());
        assert!(!answer.text().contains(SECRET), "{}", answer.text());
        // Where nobody judges answers they pass as they came.
        let (gateway, _upstream) = gateway_of(odd.clone(), batch.to_string(), stopping()).await;
        assert_eq!(talk(&gateway, stored("a b.jsonl")).await.body().0, odd);
    }
    for odd in [
        with(&batch, "text", json!(format!("It is {SECRET}."))),
        with(&batch, "response", json!({"body": SECRET})),
        with(&batch, "results", json!([SECRET])),
        format!("It is {SECRET}."),
        " ".repeat(300 << 10) + &batch.to_string(),
    ] {
        let (gateway, _upstream) = gateway_of(file.to_string(), odd, redacting()).await;
        assert_eq!(talk(&gateway, stored("a b.jsonl")).await.status(), 200);
        let answer = talk(&gateway, create("file-1")).await;
        assert_eq!(answer.status(), 502, "{}", answer.text());
        assert!(!answer.text().contains(SECRET), "{}", answer.text());
        // It may have been made, so its requests are counted and its file is used.
        assert_eq!(talk(&gateway, create("file-1")).await.status(), 400);
    }
}

/// Files are held while hooks decide, and what all of them hold is bounded.
#[tokio::test]
async fn uploads_in_memory_are_bounded_over_all_requests() {
    let upload = upload(&lines(&[chat("a", "hi")]));
    let size = upload.split_once("\r\n\r\n").unwrap().1.len();
    for (most, status) in [(size - 1, 503), (size, 200)] {
        let upstream = upstream("").await;
        let mut settings = settings_of(&upstream.url());
        settings.limits.buffered_bytes = most;
        let hooks = Hooks::new(stopping().engine, HookSettings::default()).unwrap();
        let gateway = start(settings, hooks).await.unwrap();
        for _ in 0..2 {
            let answer = talk(&gateway, &upload).await;
            assert_eq!(answer.status(), status, "{}", answer.text());
        }
        assert_eq!(upstream.count(), if status == 200 { 2 } else { 0 });
    }
}

#[tokio::test]
async fn a_list_of_prompts_reserves_for_each() {
    let asked = |prompt: Value| {
        let body = json!({"model": "m", "max_tokens": 1_000, "n": 2, "prompt": prompt});
        upload(&lines(&[asking("a", "/v1/completions", &body)]))
    };
    for (prompt, count) in [(json!("x"), 1), (json!(["x"]), 1), (json!(["x", "y", "z"]), 3)] {
        let house = with_budget();
        let upstream = upstream("").await;
        let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
        assert_eq!(talk(&gateway, asked(prompt.clone())).await.status(), 200);
        let (_, reserved) = tokens(&house).await;
        assert!((2_000 * count..2_000 * count + 500).contains(&reserved), "{prompt}: {reserved}");
    }
}

/// A request that sets no limit has one all the same: for each answer that it asks for what the operator says.
#[tokio::test]
async fn what_sets_no_limit_reserves_what_the_operator_says() {
    let messages = json!([{"role": "user", "content": "hi"}]);
    let chat = |choices: Value| json!({"model": "m", "messages": messages, "n": choices});
    let text = |choices: Value| json!({"model": "m", "prompt": ["a", "b"], "n": choices});
    for (url, body, answers) in [
        ("/v1/chat/completions", json!({"model": "m", "messages": messages}), 1),
        ("/v1/chat/completions", chat(json!(1)), 1),
        ("/v1/chat/completions", chat(json!(3)), 3),
        ("/v1/responses", json!({"model": "m", "input": "hi"}), 1),
        ("/v1/completions", json!({"model": "m", "prompt": ["a", "b"]}), 2),
        ("/v1/completions", text(json!(2)), 4),
    ] {
        let house = with_budget();
        let upstream = upstream("").await;
        let hooks = HookSettings { answer_tokens: 7_000, ..HookSettings::default() };
        let gateway = house.gateway(&upstream.url(), hooks).await;
        let answer = talk(&gateway, upload(&lines(&[asking("a", url, &body)]))).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let (_, reserved) = tokens(&house).await;
        assert!((7_000 * answers..7_000 * answers + 500).contains(&reserved), "{url} {body}: {reserved}");
    }
}

#[tokio::test]
async fn other_hooks_judge_a_file_anew() {
    let upstream = upstream("").await;
    let hooks = Hooks::new(stopping().engine, HookSettings::default()).unwrap();
    let renewed = hooks.renewed(stopping().engine, HookSettings::default()).unwrap();
    let gateway = start(settings_of(&upstream.url()), hooks).await.unwrap();
    assert_eq!(talk(&gateway, upload(&lines(&[chat("a", "x")]))).await.status(), 200);
    gateway.reload(&settings_of(&upstream.url()), std::sync::Arc::new(renewed)).unwrap();
    assert_eq!(talk(&gateway, create("file-1")).await.status(), 400);
}

#[tokio::test]
async fn a_list_of_models_holds_no_batch_of_a_file() {
    let upstream = upstream("").await;
    let mut limited = settings(&upstream);
    for provider in limited.providers.values_mut() {
        provider.models = vec!["small-*".to_owned()];
    }
    let gateway = gateway(limited).await;
    assert_eq!(talk(&gateway, create("file-1")).await.status(), 400);
    assert_eq!(talk(&gateway, get("/v1/batches")).await.status(), 200);
    assert_eq!(upstream.count(), 1);
}

fn answered(id: &str, body: &Value) -> Value {
    json!({"id": "batch_req_1", "custom_id": id, "response": {"status_code": 200, "request_id": "req_1", "body": body}, "error": null})
}

fn completion(message: &Value) -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 11, "total_tokens": 111}})
}

fn said(text: &str) -> Value {
    completion(&json!({"role": "assistant", "content": text}))
}

fn call(name: &str) -> Value {
    let function = json!({"name": name, "arguments": json!({"command": SECRET}).to_string()});
    completion(
        &json!({"role": "assistant", "content": "Look.", "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}),
    )
}

fn failed(message: &str) -> Value {
    let error = json!({"message": message, "type": "invalid_request_error", "param": null, "code": null});
    json!({"id": "batch_req_2", "custom_id": "f", "response": {"status_code": 400, "request_id": "req_2", "body": {"error": error}}, "error": null})
}

fn redacting() -> House {
    let house = House::new();
    house.redact();
    house.withhold("exec");
    house
}

async fn content(house: &House, known: bool, answers: &str) -> Answer {
    let upstream = upstream(answers).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    if known {
        assert_eq!(talk(&gateway, get("/v1/batches/batch_1")).await.status(), 200);
    }
    talk(&gateway, get("/v1/files/file-out/content")).await
}

#[tokio::test]
async fn answers_in_a_file_are_judged_line_by_line() {
    let fine = answered("a", &said("Fine.")).to_string().replace(',', " , ");
    let document = [
        fine.clone(),
        answered("b", &said(&format!("It is {SECRET}."))).to_string(),
        failed("x").to_string(),
        answered("c", &call("exec")).to_string(),
        json!({"id": "batch_req_3", "custom_id": "d", "response": null, "error": {"code": "batch_expired", "message": "x"}}).to_string(),
        String::new(),
    ]
    .join("\n");
    for known in [true, false] {
        let answer = content(&redacting(), known, &document).await;
        let body = answer.body().0;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        assert!(!body.contains(SECRET), "{body}");
        let lines: Vec<&str> = body.lines().collect();
        assert_eq!((lines.len(), lines[0], lines[2]), (5, fine.as_str(), failed("x").to_string().as_str()));
        assert!(lines[1].contains("It is [gone]."), "{body}");
        assert!(lines[3].contains("Look.") && lines[3].contains("withheld `exec`"), "{body}");
    }
}

#[tokio::test]
async fn answers_of_every_operation_are_judged_as_what_they_are() {
    let secret = format!("It is {SECRET}.");
    let response = json!({"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed", "output": [
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": secret, "annotations": []}]}]});
    for body in [
        response,
        json!({"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [{"index": 0, "text": secret}]}),
        json!({"id": "m", "model": "m", "results": [{"flagged": false, "categories": {"hate": false}, "note": secret}]}),
        json!({"created": 1, "data": [{"b64_json": "AAAA", "revised_prompt": secret}]}),
    ] {
        let answer = content(&redacting(), false, &format!("{}\n", answered("a", &body))).await;
        assert_eq!(answer.status(), 200, "{body}: {}", answer.text());
        assert!(!answer.text().contains(SECRET) && answer.text().contains("[gone]"), "{}", answer.text());
    }
    // Vectors have no text.
    for (data, passes) in [
        (json!([{"object": "embedding", "index": 0, "embedding": [0.5]}]), true),
        (json!([{"object": "embedding", "index": 0, "embedding": [0.5]}, {"text": secret}]), false),
        (json!([{"object": "embedding", "index": 0, "embedding": SECRET}]), false),
    ] {
        let body = json!({"object": "list", "model": "m", "data": data});
        let answer = content(&redacting(), false, &format!("{}\n", answered("a", &body))).await;
        assert_eq!(answer.text().contains("[0.5]"), passes, "{}", answer.text());
        assert!(!answer.text().contains(SECRET), "{}", answer.text());
    }
}

#[tokio::test]
async fn an_answer_in_a_file_that_is_blocked_is_an_error_of_its_request() {
    let house = House::new();
    house.judge::<AfterLlmCall>("stops", |event| {
        event.response.visible_text().contains(SECRET).then(|| AfterLlmCallOutcome {
            block: Some(true),
            block_reason: Some("not this".into()),
            ..AfterLlmCallOutcome::default()
        })
    });
    let mut stopped = call("read");
    stopped["choices"][0]["message"]["content"] = json!(SECRET);
    let upstream = upstream(&lines(&[answered("a", &said("Fine.")), answered("b", &stopped)])).await;
    let settings = HookSettings { blocked: BlockedForm::Error, ..HookSettings::default() };
    let gateway = house.gateway(&upstream.url(), settings).await;
    let answer = talk(&gateway, get("/v1/files/file-out/content")).await;
    let body = answer.body().0;
    assert!(!body.contains(SECRET) && body.contains("Fine."), "{}", answer.text());
    let last: Value = serde_json::from_str(body.lines().last().unwrap()).unwrap();
    assert_eq!(last["response"]["status_code"], 403, "{body}");
    assert!(last["response"]["body"]["error"]["message"].as_str().unwrap().contains("not this"), "{body}");
}

#[tokio::test]
async fn a_file_of_answers_that_can_not_be_read_is_refused() {
    let fine = answered("a", &said("Fine."));
    let with = |field: &str, value: Value| {
        let mut other = answered("b", &said("Fine."));
        other[field] = value;
        other.to_string()
    };
    for line in [
        SECRET.to_owned(),
        json!([SECRET]).to_string(),
        with("id", json!(format!("It is {SECRET}."))),
        with("custom_id", json!(format!("It is {SECRET}."))),
        with("custom_id", json!([SECRET])),
        with("note", json!(SECRET)),
        with("response", json!(SECRET)),
        with("response", json!({"status_code": 200, "body": SECRET})),
        with("response", json!({"status_code": 200, "body": {"future": SECRET}, "note": SECRET})),
        with(
            "response",
            json!({"status_code": 200, "request_id": format!("It is {SECRET}."), "body": said("x")}),
        ),
        with("response", json!({"status_code": SECRET, "body": said("x")})),
        with("error", json!({"code": "x", "message": "x", "note": SECRET})),
        with("error", json!({"code": "x", "message": SECRET})),
        answered("b", &said("x"))
            .to_string()
            .replace("\"response\":", &format!("\"response\":{{\"x\":\"{SECRET}\"}},\"response\":")),
        fine.to_string().replace("{\"id\"", "{\r\"id\""),
    ] {
        for known in [true, false] {
            let answer = content(&redacting(), known, &format!("{fine}\n{line}\n")).await;
            assert_eq!(answer.status(), 502, "{line}: {}", answer.text());
            assert!(!answer.text().contains(SECRET), "{}", answer.text());
        }
    }
    for odd in [json!({"message": "x", "note": SECRET}), json!({"message": {"note": SECRET}})] {
        let line = with("response", json!({"status_code": 400, "body": {"error": odd}}));
        for known in [true, false] {
            let answer = content(&redacting(), known, &format!("{fine}\n{line}\n")).await;
            assert!(!answer.text().contains(SECRET), "{}", answer.text());
        }
    }
    // A first line that only some readers can read hides nothing.
    for first in ["{\"custom_id\": \"a\", x}", "{", "{\"custom_id\": \"\\ud800\"}", " \t{'custom_id': 'a'}"] {
        for end in ["\n", "\r\n"] {
            let answer =
                content(&redacting(), false, &format!("{first}{end}{}\n", answered("b", &said(SECRET))))
                    .await;
            assert_eq!(answer.status(), 502, "{first}: {}", answer.text());
            assert!(!answer.text().contains(SECRET), "{}", answer.text());
        }
    }
    // What nobody knows as a file of answers is none, unless it looks like one.
    let lines = "{\"a\": 1}\n[1]\n{ x\n";
    let others = ["RIFF...", "{\"a\": 1}\n", "id,note\n", lines, "\u{b}\u{2028}{\"a\": 1}\r{\n"];
    for (other, known) in others.map(|other| (other, false)).into_iter().chain([("", true)]) {
        let answer = content(&redacting(), known, other).await;
        assert_eq!((answer.status(), answer.body().0.as_str()), (200, other));
    }
    assert_eq!(content(&redacting(), true, SECRET).await.status(), 502);
    let marked = format!("\u{feff}\n {}", answered("b", &said(SECRET)));
    assert_eq!(content(&redacting(), false, &marked).await.status(), 502);
}

/// Wherever a line stands that somebody may take for an answer, and whatever stands around it.
#[tokio::test]
async fn a_file_that_nobody_knows_is_known_by_all_of_its_lines() {
    let secret = answered("b", &said(SECRET)).to_string();
    let broken = secret.replacen('{', "{,", 1);
    for before in ["RIFF", "{\"a\": 1}", "id,note", "[]\n\n{ x\n1"] {
        for end in ["\n", "\r", "\r\n", "\u{b}", "\u{85}", "\u{2028}", "\n \t\u{feff}"] {
            for line in [&secret, &broken] {
                let answer = content(&redacting(), false, &format!("{before}{end}{line}\nmore\n")).await;
                assert_eq!(answer.status(), 502, "{before:?} {end:?}: {}", answer.text());
                assert!(!answer.text().contains(SECRET), "{}", answer.text());
            }
        }
    }
    // What is too large to be known is refused, and nothing of it leaves.
    let upstream = upstream(&"x\n".repeat(600)).await;
    let settings = HookSettings { answer_bytes: 1_000, ..HookSettings::default() };
    let gateway = redacting().gateway(&upstream.url(), settings).await;
    let answer = talk(&gateway, get("/v1/files/file-out/content")).await;
    assert_eq!(answer.status(), 502, "{}", answer.text());
}

/// What a tool of the provider's made stands in a file, too, and nobody knows of which.
#[tokio::test]
async fn the_text_of_any_file_is_judged() {
    let plain = "RIFF\nname,value\n1,2\n";
    for text in [plain.to_owned(), format!("{plain}x,{SECRET}\n"), format!("{{\"note\": \"{SECRET}\"}}\n")] {
        let answer = content(&redacting(), false, &text).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        assert!(!answer.text().contains(SECRET), "{}", answer.text());
        assert_eq!(answer.body().0 == text, text == plain, "{}", answer.text());
    }
    // Hooks that judge results are asked, with the whole.
    let house = House::new();
    house.judge::<ToolAfter>("reads", |event| {
        let said = serde_json::to_string(event).unwrap();
        assert!(said.contains("provider_file") && said.contains("file-out"), "{said}");
        let mut result = event.result.clone();
        result.content = vec![backstop_hooks::conversation::Part::text(backstop_hooks::Text::from("[gone]"))];
        said.contains(SECRET).then_some(ToolAfterOutcome { result: Some(result) })
    });
    assert_eq!(content(&house, false, plain).await.body().0, plain);
    assert_eq!(content(&house, false, &format!("{plain}{SECRET}")).await.body().0, "[gone]");
    // Where tool calls alone are judged, nobody stands there.
    let house = House::new();
    house.withhold("exec");
    assert_eq!(content(&house, false, plain).await.body().0, plain);
}

#[tokio::test]
async fn a_file_that_is_no_text_passes_as_media_do() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 4\r\n\r\n";
    let file = [head.as_bytes(), b"\x89PN\xff"].concat();
    for (media, passes) in [(UnjudgedMedia::Refuse, false), (UnjudgedMedia::Pass, true)] {
        for path in ["/v1/files/file-out/content", "/v1beta/files/file-out:download"] {
            let file = file.clone();
            let upstream = Upstream::start(move |_| Script::whole(file.clone())).await;
            let settings = HookSettings { unjudged_media: media, ..HookSettings::default() };
            let gateway = redacting().gateway(&upstream.url(), settings).await;
            let answer = talk(&gateway, get(path)).await;
            assert_eq!(answer.status() == 200, passes, "{path}: {}", answer.text());
            assert_eq!(answer.text().contains("PN"), passes, "{path}: {}", answer.text());
            assert_eq!(answer.text().contains("gateway.hooks.unjudged_media"), !passes, "{}", answer.text());
        }
    }
}

#[tokio::test]
async fn a_piece_of_a_file_is_refused() {
    let part =
        "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 2-9/10\r\ncontent-length: 8\r\n\r\nsw0rdfis";
    let upstream = Upstream::start(move |_| Script::whole(part)).await;
    let gateway = redacting().gateway(&upstream.url(), HookSettings::default()).await;
    let answer = talk(&gateway, get("/v1/files/file-out/content")).await;
    assert_eq!(answer.status(), 502, "{}", answer.text());
    assert!(!answer.text().contains("sw0rd"));
}

#[tokio::test]
async fn states_that_hold_answers_are_refused() {
    let held = json!({"name": "batches/b", "metadata": {"state": "DONE"}, "response": {"inlinedResponses": [{"text": SECRET}]}});
    let upstream = Upstream::start(move |_| Script::json("200 OK", &held.to_string())).await;
    let mut settings = settings_of(&upstream.url());
    settings
        .providers
        .insert("other".to_owned(), provider(Family::Gemini, &upstream.url(), Credential::Key(secret("k"))));
    let gateway =
        start(settings, Hooks::new(redacting().engine, HookSettings::default()).unwrap()).await.unwrap();
    for path in ["/v1/batches/b", "/p/other/v1/batches/b", "/v1/batches"] {
        let answer = talk(&gateway, get(path)).await;
        assert_eq!(answer.status(), 502, "{}", answer.text());
        assert!(!answer.text().contains(SECRET));
    }
    assert_eq!(talk(&gateway, get("/v1beta/batches/b")).await.status(), 403);
}

#[tokio::test]
async fn budgets_are_settled_by_the_answers_of_a_file() {
    let house = with_budget();
    let answers = lines(&[answered("a", &said("Fine.")), failed("x")]);
    let upstream = upstream(&answers).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    assert_eq!(talk(&gateway, upload(&lines(&[chat("a", "x"), chat("f", "y")]))).await.status(), 200);
    let (_, reserved) = tokens(&house).await;
    assert!((20..100).contains(&reserved), "each says how long its answer may be: {reserved}");
    assert_eq!(talk(&gateway, create("file-1")).await.status(), 200);
    for _ in 0..2 {
        assert_eq!(talk(&gateway, get("/v1/files/file-out/content")).await.status(), 200);
        assert_eq!(settled(&house).await, 111, "once, however often it is fetched");
    }
}

#[tokio::test]
async fn budgets_give_back_what_a_refused_file_reserved() {
    let bad = chat("a", "x").to_string().replace("POST", "GET");
    let upstream = Upstream::start(|_| Script::json("400 Bad Request", "{}")).await;
    for file in [format!("{}\n{bad}\n", chat("b", "x")), lines(&[chat("a", "x")])] {
        let house = with_budget();
        let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
        assert_eq!(talk(&gateway, upload(&file)).await.status(), 400);
        assert_eq!(settled(&house).await, 0, "{file}");
    }
}
