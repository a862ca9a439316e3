//! Files with the answers of batches, and other files that a provider made.

use backstop_gateway::inspect::{BlockedForm, UnjudgedMedia};
use backstop_hooks::points::{AfterLlmCall, AfterLlmCallOutcome, ToolAfter, ToolAfterOutcome};

use super::*;
use crate::inspect::limits::settled;
use crate::support::Answer;

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
