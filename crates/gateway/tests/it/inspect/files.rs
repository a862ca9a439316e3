//! OpenAI's batches: files with requests, batches of them, and files with the answers.

mod answers;

use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_gateway::{Credential, Family};
use backstop_hooks::points::{BeforeLlmCall, BeforeLlmCallOutcome, MessageBefore, MessageBeforeOutcome};
use serde_json::{Value, json};

use super::limits::{tokens, with_budget};
use super::parts::{Part, body, posted};
use super::support::*;
use crate::support::{Script, TOKEN, Upstream, gateway, post, provider, secret, settings, start, talk};

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

fn redacting() -> House {
    let house = House::new();
    house.redact();
    house.withhold("exec");
    house
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
