//! Batches of Anthropic Messages: each request is judged like one alone, and each answer.

use backstop_gateway::inspect::{BlockedForm, HookSettings};
use backstop_hooks::points::{
    AfterLlmCall, AfterLlmCallOutcome, BeforeLlmCall, BeforeLlmCallOutcome, MessageBefore,
    MessageBeforeOutcome, ToolAfter,
};
use std::sync::{Arc, Mutex};

use backstop_hooks::hook_fn;
use serde_json::{Value, json};

use super::limits::{settled, tokens, with_budget};
use super::support::*;
use crate::support::{Answer, Script, TOKEN, Upstream, gateway, post, settings, talk};

const BATCHES: &str = "/v1/messages/batches";

fn get(path: &str) -> String {
    format!("GET /t/{TOKEN}{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
}

fn one(id: &str, params: &Value) -> Value {
    json!({"custom_id": id, "params": params})
}

fn params(model: &str, text: &str) -> Value {
    json!({"model": model, "max_tokens": 10, "messages": [{"role": "user", "content": text}]})
}

fn batch(texts: &[&str]) -> Value {
    let requests = texts.iter().zip(1..).map(|(text, number)| one(&format!("r{number}"), &params("m", text)));
    json!({"requests": requests.collect::<Vec<Value>>()})
}

async fn accepting() -> Upstream {
    Upstream::start(|_| Script::json("200 OK", r#"{"id":"msgbatch_1","type":"message_batch"}"#)).await
}

fn body_of(request: &str) -> &str {
    request.split_once("\r\n\r\n").unwrap().1
}

#[tokio::test]
async fn each_request_of_a_batch_is_judged() {
    for blocked in [BlockedForm::Error, BlockedForm::Answer] {
        let house = House::new();
        house.judge::<BeforeLlmCall>("looks", |event| {
            let said: String =
                event.messages.iter().map(backstop_hooks::conversation::Message::visible_text).collect();
            said.contains(SECRET).then(|| BeforeLlmCallOutcome {
                block: Some(true),
                block_reason: Some("not this".into()),
                ..BeforeLlmCallOutcome::default()
            })
        });
        let upstream = accepting().await;
        let gateway =
            house.gateway(&upstream.url(), HookSettings { blocked, ..HookSettings::default() }).await;
        let secret = format!("It is {SECRET}.");
        for texts in [[secret.as_str(), "a", "b"], ["a", "b", secret.as_str()]] {
            let answer = talk(&gateway, post(BATCHES, &batch(&texts).to_string())).await;
            assert!((400..500).contains(&answer.status()), "{}", answer.text());
            assert_eq!(answer.json()["type"], "error", "{}", answer.text());
            assert!(answer.text().contains("not this"), "{}", answer.text());
        }
        assert_eq!(upstream.count(), 0);
        let fine = batch(&["a", "b"]).to_string().replace(',', " ,\n");
        assert_eq!(talk(&gateway, post(BATCHES, &fine)).await.status(), 200);
        assert_eq!(body_of(&upstream.request(0)), fine, "untouched is identical");
    }
}

#[tokio::test]
async fn what_was_rewritten_stands_in_its_request() {
    let house = House::new();
    house.judge::<MessageBefore>("rewrites", |event| {
        event.message.contains(SECRET).then(|| MessageBeforeOutcome {
            message: Some(event.message.replace(SECRET, "[gone]").into()),
            ..MessageBeforeOutcome::default()
        })
    });
    let upstream = accepting().await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let asked = batch(&["a", &format!("It is {SECRET}."), "b"]);
    assert_eq!(talk(&gateway, post(BATCHES, &asked.to_string())).await.status(), 200);
    let sent: Value = serde_json::from_str(body_of(&upstream.request(0))).unwrap();
    assert_eq!(sent, batch(&["a", "It is [gone].", "b"]));
}

#[tokio::test]
async fn a_batch_that_can_not_be_read_as_a_whole_is_refused() {
    let house = House::new();
    house.judge::<BeforeLlmCall>("looks", |_| None);
    let upstream = accepting().await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let fine = one("r", &params("m", "hi"));
    let with_id =
        |id: &Value| json!({"requests": [{"custom_id": id, "params": params("m", "hi")}]}).to_string();
    let mut more = fine.clone();
    more["body"] = params("m", SECRET);
    for body in [
        json!({"requests": fine}).to_string(),
        json!({"requests": [fine, 7]}).to_string(),
        json!({"requests": [fine, {"custom_id": "r"}]}).to_string(),
        json!({"requests": [fine, {"custom_id": "r", "params": [SECRET]}]}).to_string(),
        json!({"requests": [more]}).to_string(),
        json!({"requests": [{"params": params("m", "hi")}]}).to_string(),
        json!({"requests": [fine, fine]}).to_string(),
        with_id(&json!({"note": SECRET})),
        with_id(&json!(format!("It is {SECRET}."))),
        with_id(&json!("r".repeat(65))),
        with_id(&json!("")),
        with_id(&json!(7)),
        json!({"requests": [fine], "input_file": "f"}).to_string(),
        json!([fine]).to_string(),
        batch(&["hi"]).to_string().replace("\"params\":", "\"params\":{},\"params\":"),
        "{".to_owned(),
        String::new(),
    ] {
        let answer = talk(&gateway, post(BATCHES, &body)).await;
        assert_eq!(answer.status(), 400, "{body}: {}", answer.text());
    }
    assert_eq!(upstream.count(), 0);
    for open in
        [get(BATCHES), get("/v1/messages/batches/msgbatch_1"), post("/v1/messages/batches/b/cancel", "{}")]
    {
        assert_eq!(talk(&gateway, open.clone()).await.status(), 200, "{open}");
    }
    for closed in [post("/v1/messages/batches/b", "{}"), get("/v1beta/batches"), post("/v1/batches/b", "{}")]
    {
        assert_eq!(talk(&gateway, closed.clone()).await.status(), 403, "{closed}");
    }
}

#[tokio::test]
async fn lists_of_models_hold_for_each_request_of_a_batch() {
    let upstream = accepting().await;
    let mut limited = settings(&upstream);
    for provider in limited.providers.values_mut() {
        provider.models = vec!["small-*".to_owned()];
    }
    let gateway = gateway(limited).await;
    let of = |models: &[&str]| {
        let requests: Vec<Value> = models.iter().map(|model| one(model, &params(model, "hi"))).collect();
        post(BATCHES, &json!({"requests": requests}).to_string())
    };
    for models in [["large-1", "small-1"], ["small-1", "large-1"]] {
        assert_eq!(talk(&gateway, of(&models)).await.status(), 404, "{models:?}");
    }
    assert_eq!(upstream.count(), 0);
    assert_eq!(talk(&gateway, of(&["small-1", "small-2"])).await.status(), 200);
    assert_eq!(talk(&gateway, get(BATCHES)).await.status(), 200);
}

fn message(content: &Value) -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": "end_turn", "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}})
}

fn succeeded(content: &Value) -> String {
    json!({"custom_id": "r", "result": {"type": "succeeded", "message": message(content)}}).to_string()
}

fn lines(document: &str) -> Script {
    let size = document.len();
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/x-jsonl\r\ncontent-length: {size}\r\n\r\n");
    Script::whole(head + document)
}

async fn results(house: &House, blocked: BlockedForm, document: &str) -> Answer {
    let script = lines(document);
    let upstream = Upstream::start(move |_| script.clone()).await;
    let gateway = house.gateway(&upstream.url(), HookSettings { blocked, ..HookSettings::default() }).await;
    talk(&gateway, get("/v1/messages/batches/msgbatch_1/results")).await
}

fn error(message: &str) -> Value {
    json!({"type": "error", "error": {"type": "api_error", "message": message}, "request_id": null})
}

fn errored(error: &Value) -> String {
    json!({"custom_id": "r", "result": {"type": "errored", "error": error}}).to_string()
}

#[tokio::test]
async fn answers_of_a_batch_are_judged_line_by_line() {
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "exec", "input": {"command": SECRET}});
    let fine = succeeded(&json!([{"type": "text", "text": "Fine."}])).replace(',', " , ");
    let failed = errored(&error("x"));
    let document = [
        fine.as_str(),
        &succeeded(&json!([{"type": "text", "text": format!("It is {SECRET}.")}])),
        &failed,
        &succeeded(&json!([{"type": "text", "text": "Look."}, call])),
        r#"{"custom_id":"r","result":{"type":"expired"}}"#,
        "",
    ]
    .join("\r\n");
    let house = House::new();
    house.redact();
    house.withhold("exec");
    house.judge::<ToolAfter>("looks", |_| None);
    let answer = results(&house, BlockedForm::Answer, &document).await;
    let body = answer.body().0;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert!(!body.contains(SECRET), "{body}");
    let lines: Vec<&str> = body.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[2]), (5, fine.as_str(), failed.as_str()));
    assert!(lines[1].contains("It is [gone]."), "{body}");
    assert!(lines[3].contains("Look.") && lines[3].contains("withheld `exec`"), "{body}");
    let read: Value = serde_json::from_str(lines[3]).unwrap();
    assert_eq!(read["result"]["type"], "succeeded", "{body}");
}

#[tokio::test]
async fn an_answer_of_a_batch_that_is_blocked_is_an_error_of_its_request() {
    let house = House::new();
    house.judge::<AfterLlmCall>("stops", |event| {
        event.response.visible_text().contains(SECRET).then(|| AfterLlmCallOutcome {
            block: Some(true),
            block_reason: Some("not this".into()),
            ..AfterLlmCallOutcome::default()
        })
    });
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "exec", "input": {"command": "ls"}});
    let said = |text: &str| succeeded(&json!([{"type": "text", "text": text}, call]));
    let document = format!("{}\n{}\n", said("Fine."), said(SECRET));
    let answer = results(&house, BlockedForm::Error, &document).await;
    let body = answer.body().0;
    assert!(!body.contains(SECRET) && body.contains("Fine."), "{}", answer.text());
    let last: Value = serde_json::from_str(body.lines().last().unwrap()).unwrap();
    assert_eq!(last["result"]["type"], "errored", "{body}");
    assert_eq!(last["result"]["error"]["type"], "error", "{body}");
}

#[tokio::test]
async fn a_document_of_answers_that_can_not_be_read_is_refused() {
    let fine = succeeded(&json!([{"type": "text", "text": "Fine."}]));
    let house = House::new();
    house.redact();
    for line in [
        SECRET.to_owned(),
        json!([SECRET]).to_string(),
        json!({"custom_id": "r", "result": SECRET}).to_string(),
        json!({"custom_id": "r", "result": {"type": "future", "text": SECRET}}).to_string(),
        json!({"custom_id": "r", "result": {"type": "succeeded", "text": SECRET}}).to_string(),
        json!({"custom_id": "r", "note": SECRET, "result": {"type": "expired"}}).to_string(),
        json!({"custom_id": "r", "result": {"type": "expired", "note": SECRET}}).to_string(),
        json!({"custom_id": {"note": SECRET}, "result": {"type": "expired"}}).to_string(),
        json!({"custom_id": format!("It is {SECRET}."), "result": {"type": "expired"}}).to_string(),
        json!({"result": {"type": "expired"}}).to_string(),
        json!({"custom_id": "r", "result": {"type": "expired", "error": error(SECRET)}}).to_string(),
        json!({"custom_id": "r", "result": {"type": "errored"}}).to_string(),
        json!({"custom_id": "r", "result": {"type": "errored", "error": SECRET}}).to_string(),
        errored(&json!({"type": "error", "error": {"type": "x", "message": {"note": SECRET}}})),
        errored(&json!({"type": "error", "error": {"type": "x", "message": "x", "note": SECRET}})),
        errored(&json!({"type": "error", "error": {"type": "x", "message": "x"}, "content": [SECRET]})),
        errored(&json!({"type": SECRET, "error": {"type": "x", "message": "x"}})),
        // For some readers the line ends there.
        "{\r\"custom_id\":\"r\",\"result\":{\"type\":\"expired\"}}".to_owned(),
        " \r ".to_owned(),
        fine.replace("\"result\":", &format!("\"result\":{{\"x\":\"{SECRET}\"}},\"result\":")),
    ] {
        let answer = results(&house, BlockedForm::Answer, &format!("{fine}\n{line}\n")).await;
        assert_eq!(answer.status(), 502, "{line}: {}", answer.text());
        assert!(!answer.text().contains(SECRET) && answer.text().contains("line 2"), "{}", answer.text());
    }
}

/// A provider that takes a batch of `r1` and `r2`, and answers one of them.
async fn answering() -> Upstream {
    let answered = json!({"custom_id": "r1", "result": {"type": "succeeded", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "stop_sequence": null, "content": [{"type": "text", "text": "Fine."}],
        "usage": {"input_tokens": 100, "output_tokens": 11}}}});
    let failed = json!({"custom_id": "r2", "result": {"type": "errored", "error": error("x")}});
    let results = lines(&format!("{answered}\n{failed}\n"));
    Upstream::start(move |number| match number {
        0 => Script::json("200 OK", r#"{"id":"msgbatch_1","type":"message_batch"}"#),
        _ => results.clone(),
    })
    .await
}

#[tokio::test]
async fn a_budget_counts_a_batch_by_its_answers_and_once() {
    for judges_answers in [false, true] {
        let house = with_budget();
        if judges_answers {
            house.redact();
        }
        let upstream = answering().await;
        let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
        assert_eq!(talk(&gateway, post(BATCHES, &batch(&["a", "b"]).to_string())).await.status(), 200);
        let (_, reserved) = tokens(&house).await;
        assert!((20..200).contains(&reserved), "both are expected to answer as they may: {reserved}");
        for _ in 0..2 {
            let answer = talk(&gateway, get("/v1/messages/batches/msgbatch_1/results")).await;
            assert_eq!((answer.status(), answer.body().0.lines().count()), (200, 2), "{}", answer.text());
            assert_eq!(settled(&house).await, 111, "judged: {judges_answers}");
        }
        // The answers to a batch that nobody here asked for are nobody's.
        let _ = talk(&gateway, get("/v1/messages/batches/msgbatch_2/results")).await;
        assert_eq!(settled(&house).await, 111);
    }
}

#[tokio::test]
async fn a_batch_that_is_not_taken_uses_nothing() {
    let refusing = Upstream::start(|_| Script::json("500 Internal Server Error", "{}")).await;
    let fine = batch(&["a", "b"]).to_string();
    let unreadable = json!({"requests": [one("r1", &params("m", "a")), one("r2", &json!([]))]}).to_string();
    for (url, body, status) in [
        (refusing.url(), &fine, 500),
        ("http://127.0.0.1:9".to_owned(), &fine, 502),
        (refusing.url(), &unreadable, 400),
    ] {
        let house = with_budget();
        let gateway = house.gateway(&url, HookSettings::default()).await;
        assert_eq!(talk(&gateway, post(BATCHES, body)).await.status(), status, "{body}");
        assert_eq!(settled(&house).await, 0, "{status}");
    }
}

#[tokio::test]
async fn each_answer_of_a_batch_is_a_conversation_of_its_own() {
    let seen: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let house = House::new();
    let heard = Arc::clone(&seen);
    house.on::<AfterLlmCall>(
        "hears",
        hook_fn::<AfterLlmCall, _>(move |event, cx| {
            let session = cx.call.session_id.as_ref().unwrap().to_string();
            heard.lock().unwrap().push((session, event.run_id.to_string()));
            Ok(None)
        }),
    );
    let call = json!([{"type": "tool_use", "id": "toolu_1", "name": "exec", "input": {"command": "ls"}}]);
    let line = succeeded(&call);
    let script = lines(&format!("{line}\n{}\n", line.replacen("\"r\"", "\"other\"", 1)));
    let upstream = Upstream::start(move |_| script.clone()).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    for id in ["msgbatch_a", "msgbatch_A", "msgbatch_a"] {
        let asked = get(&format!("/v1/messages/batches/{id}/results"));
        let asked = asked.replace("connection:", "x-session-id: mine\r\nconnection:");
        assert_eq!(talk(&gateway, asked).await.status(), 200);
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 6);
    assert_eq!(seen[..2], seen[4..], "read twice it is the same");
    for (number, one) in seen[..4].iter().enumerate() {
        let others = seen[..4].iter().filter(|other| other.0 == one.0 || other.1 == one.1);
        assert_eq!(others.count(), 1, "{number}: {seen:?}");
    }
}
