//! Batches of Anthropic Messages: each request is judged like one alone, and each answer.

use backstop_gateway::hooked::{BlockedForm, HookSettings};
use backstop_hooks::points::{
    AfterLlmCall, AfterLlmCallOutcome, BeforeLlmCall, BeforeLlmCallOutcome, MessageBefore,
    MessageBeforeOutcome, ToolAfter,
};
use serde_json::{Value, json};

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
    let requests: Vec<Value> = texts.iter().map(|text| one("r", &params("m", text))).collect();
    json!({"requests": requests})
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
    let mut more = fine.clone();
    more["body"] = params("m", SECRET);
    for body in [
        json!({"requests": fine}).to_string(),
        json!({"requests": [fine, 7]}).to_string(),
        json!({"requests": [fine, {"custom_id": "r"}]}).to_string(),
        json!({"requests": [fine, {"custom_id": "r", "params": [SECRET]}]}).to_string(),
        json!({"requests": [more]}).to_string(),
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
    for closed in [post("/v1/messages/batches/b", "{}"), post("/v1/batches", "{}"), get("/v1/batches")] {
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
        let requests: Vec<Value> = models.iter().map(|model| one("r", &params(model, "hi"))).collect();
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

async fn results(house: &House, blocked: BlockedForm, document: &str) -> Answer {
    let size = document.len();
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/x-jsonl\r\ncontent-length: {size}\r\n\r\n");
    let script = Script::whole(head + document);
    let upstream = Upstream::start(move |_| script.clone()).await;
    let gateway = house.gateway(&upstream.url(), HookSettings { blocked, ..HookSettings::default() }).await;
    talk(&gateway, get("/v1/messages/batches/msgbatch_1/results")).await
}

#[tokio::test]
async fn answers_of_a_batch_are_judged_line_by_line() {
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "exec", "input": {"command": SECRET}});
    let fine = succeeded(&json!([{"type": "text", "text": "Fine."}])).replace(',', " , ");
    let failed = json!({"custom_id": "r", "result": {"type": "errored", "error": {"type": "error", "error": {"type": "api_error", "message": "x"}}}}).to_string();
    let document = [
        fine.as_str(),
        &succeeded(&json!([{"type": "text", "text": format!("It is {SECRET}.")}])),
        &failed,
        &succeeded(&json!([{"type": "text", "text": "Look."}, call])),
        r#"{"custom_id":"r","result":{"type":"expired"}}"#,
        "",
    ]
    .join("\n");
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
        fine.replace("\"result\":", &format!("\"result\":{{\"x\":\"{SECRET}\"}},\"result\":")),
    ] {
        let answer = results(&house, BlockedForm::Answer, &format!("{fine}\n{line}\n")).await;
        assert_eq!(answer.status(), 502, "{line}: {}", answer.text());
        assert!(!answer.text().contains(SECRET) && answer.text().contains("line 2"), "{}", answer.text());
    }
}
