//! Converse of Amazon Bedrock: judged as what a client speaks, and asked of nobody but Bedrock.

use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_gateway::{Cloud, Credential, Family, Gateway, ModelRoute, Settings};
use backstop_hooks::points::{
    AfterLlmCall, BeforeLlmCall, BeforeLlmCallOutcome, BeforeToolCall, MessageBefore, MessageBeforeOutcome,
    ToolCallOutcome,
};
use backstop_hooks::{HookError, hook_fn};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::frames::{bytes, exception, frame, streaming};
use super::{body, in_cloud, line};
use crate::inspect::support::{House, SECRET};
use crate::support::{Answer, Script, Upstream, gateway, post, secret, settings, start, talk};

const MODEL: &str = "us.amazon.nova-pro-v1:0";
const WHOLE: &str = "/model/us.amazon.nova-pro-v1%3A0/converse";
const STREAM: &str = "/model/us.amazon.nova-pro-v1%3A0/converse-stream";
const COUNT: &str = "/model/us.amazon.nova-pro-v1%3A0/count-tokens";

fn bedrock(upstream: &Upstream) -> Settings {
    let cloud = Cloud::Bedrock { region: "us-east-1".to_owned() };
    in_cloud(upstream, &cloud, &[Family::Anthropic])
}

async fn judged(house: &House, settings: Settings, hooks: HookSettings) -> Gateway {
    start(settings, Hooks::new(house.engine.clone(), hooks).unwrap()).await.unwrap()
}

fn guarded() -> House {
    let house = House::new();
    house.withhold("exec");
    house
}

fn asked() -> String {
    json!({
        "messages": [{"role": "user", "content": [{"text": "hi"}]}], "inferenceConfig": {"maxTokens": 9},
        "toolConfig": {"tools": [{"toolSpec": {"name": "exec", "inputSchema": {"json": {}}}}]},
    })
    .to_string()
}

/// An answer with a text and a call of `tool`.
fn said(tool: &str) -> Vec<(&'static str, Value)> {
    let usage = json!({"inputTokens": 1, "outputTokens": 1, "totalTokens": 2});
    let input = json!({"command": SECRET}).to_string();
    vec![
        ("messageStart", json!({"role": "assistant"})),
        ("contentBlockDelta", json!({"contentBlockIndex": 0, "delta": {"text": "look"}})),
        ("contentBlockStop", json!({"contentBlockIndex": 0})),
        (
            "contentBlockStart",
            json!({"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "tooluse_1", "name": tool}}}),
        ),
        ("contentBlockDelta", json!({"contentBlockIndex": 1, "delta": {"toolUse": {"input": input}}})),
        ("contentBlockStop", json!({"contentBlockIndex": 1})),
        ("messageStop", json!({"stopReason": "tool_use"})),
        ("metadata", json!({"usage": usage, "metrics": {"latencyMs": 5}})),
    ]
}

fn in_frame(name: &str, payload: &Value) -> Vec<u8> {
    let headers = [(":event-type", name), (":content-type", "application/json"), (":message-type", "event")];
    frame(&headers, &payload.to_string())
}

/// The frames of events, with the padding that the service adds.
fn framed(events: &[(&str, Value)]) -> Vec<u8> {
    let padded = |(name, event): &(&str, Value)| {
        let mut event = event.clone();
        event["p"] = json!("abcdefgh");
        in_frame(name, &event)
    };
    events.iter().flat_map(padded).collect()
}

fn message(content: Value) -> Value {
    json!({
        "output": {"message": {"role": "assistant", "content": content}}, "stopReason": "tool_use",
        "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}, "metrics": {"latencyMs": 5},
    })
}

/// What stands in the frames of an answer: the type of each, and its payload.
fn read(mut rest: &[u8]) -> Vec<(String, Value)> {
    let mut said = Vec::new();
    while !rest.is_empty() {
        let number = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
        let (whole, headers) = (number(0), number(4));
        let (frame, more) = rest.split_at(whole);
        let lines = String::from_utf8_lossy(&frame[12..12 + headers]).into_owned();
        let is_type = |word: &&str| !matches!(*word, "event" | "type" | "exception" | "message" | "content");
        let mut words = lines.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
        let name = words.find(is_type).unwrap().to_owned();
        said.push((name, serde_json::from_slice(&frame[12 + headers..whole - 4]).unwrap()));
        rest = more;
    }
    said
}

fn events(answer: &Answer) -> Vec<(String, Value)> {
    assert!(answer.head().contains("application/vnd.amazon.eventstream"), "{}", answer.text());
    read(&bytes(answer))
}

fn as_read(events: &[(&str, Value)]) -> Vec<(String, Value)> {
    events.iter().map(|(name, event)| ((*name).to_owned(), event.clone())).collect()
}

#[tokio::test]
async fn what_nobody_looks_at_passes_byte_for_byte() {
    let stream = framed(&said("exec"));
    let script = streaming(&[&stream]);
    let upstream = Upstream::start(move |_| script.clone()).await;
    let gateway = gateway(bedrock(&upstream)).await;
    let body = format!(" {}\n", asked());
    assert_eq!(bytes(&talk(&gateway, post(STREAM, &body)).await), stream);
    let sent = upstream.request(0);
    assert_eq!(line(&sent), format!("POST {STREAM} HTTP/1.1"));
    assert!(sent.ends_with(&body) && sent.contains("authorization: Bearer cloud-key"), "{sent}");
}

#[tokio::test]
async fn a_call_that_is_allowed_passes_and_one_that_is_denied_never_does() {
    for (tool, passes) in [("read", true), ("exec", false)] {
        for size in [1, 7, 100, 1 << 20] {
            let stream = framed(&said(tool));
            let pieces: Vec<&[u8]> = stream.chunks(size).collect();
            let script = streaming(&pieces);
            let upstream = Upstream::start(move |_| script.clone()).await;
            let gateway = judged(&guarded(), bedrock(&upstream), HookSettings::default()).await;
            let found = events(&talk(&gateway, post(STREAM, &asked())).await);
            assert!(upstream.request(0).ends_with(&asked()), "the body is as it came");
            if passes {
                assert_eq!(found, as_read(&said(tool)), "{size}");
                continue;
            }
            let all = format!("{found:?}");
            assert!(!all.contains(SECRET) && !all.contains("tooluse_1") && all.contains("look"), "{all}");
            assert!(all.contains("end_turn") && all.contains("withheld `exec`"), "{all}");
            assert_eq!(found.last().unwrap().0, "metadata");
        }
    }
}

#[tokio::test]
async fn no_cut_lets_a_denied_call_out() {
    let stream = framed(&said("exec"));
    let size = stream.len();
    let upstream = Upstream::start(move |number| streaming(&[&stream[..number]])).await;
    // Each answer is one of its own.
    let settings = HookSettings { refusals: 0, ..HookSettings::default() };
    let gateway = judged(&guarded(), bedrock(&upstream), settings).await;
    for cut in 0..size {
        let answer = talk(&gateway, post(STREAM, &asked())).await;
        let found = if answer.head().contains("eventstream") { read(&bytes(&answer)) } else { Vec::new() };
        let all = format!("{found:?} {}", answer.text());
        assert!(!all.contains(SECRET) && !all.contains("tooluse_1"), "{cut}: {all}");
        // Only the counts may be missing.
        let ends = found.last().map_or_else(
            || answer.status() >= 500,
            |(kind, _)| kind.ends_with("Exception") || kind == "messageStop",
        );
        assert!(ends, "{cut}: {all}");
    }
}

#[tokio::test]
async fn frames_that_can_not_be_trusted_end_an_answer() {
    let events = said("read");
    let headers = [(":event-type", "contentBlockDelta"), (":message-type", "event")];
    for bad in [
        frame(&headers, r#"{"contentBlockIndex":1,"contentBlockIndex":0,"delta":{"text":"x"}}"#),
        frame(&headers, r#"{"contentBlockIndex":1,"delta":{"text":"x","toolUse":{"input":"x"}}}"#),
        frame(&headers, "no JSON"),
        frame(&[(":event-type", "contentBlockDelta")], "{}"),
        frame(&[(":event-type", "x\ndata: {}"), (":message-type", "event")], "{}"),
        in_frame("messageStart", &json!({"role": "assistant"})),
        exception("throttlingException", "slow down"),
    ] {
        let stream = [framed(&events[..5]), bad, framed(&events[5..])].concat();
        let script = streaming(&[&stream]);
        let upstream = Upstream::start(move |_| script.clone()).await;
        let gateway = judged(&guarded(), bedrock(&upstream), HookSettings::default()).await;
        let answer = talk(&gateway, post(STREAM, &asked())).await;
        assert!(!answer.text().contains(SECRET), "{}", answer.text());
        if answer.status() == 200 {
            let found = read(&bytes(&answer));
            assert!(found.last().unwrap().0.ends_with("Exception"), "{found:?}");
        }
    }
}

#[tokio::test]
async fn answers_in_one_piece_are_judged() {
    let call =
        |tool: &str| json!({"toolUse": {"toolUseId": "t", "name": tool, "input": {"command": SECRET}}});
    for (tool, passes) in [("read", true), ("exec", false)] {
        let answer = message(json!([{"text": "look"}, call(tool)]));
        let script = Script::json("200 OK", &answer.to_string());
        let upstream = Upstream::start(move |_| script.clone()).await;
        let gateway = judged(&guarded(), bedrock(&upstream), HookSettings::default()).await;
        let got = talk(&gateway, post(WHOLE, &asked())).await;
        if passes {
            assert_eq!(got.json(), answer);
        } else {
            assert!(!got.text().contains(SECRET) && got.text().contains("end_turn"), "{}", got.text());
        }
        assert_eq!(line(&upstream.request(0)), format!("POST {WHOLE} HTTP/1.1"));
    }
}

#[tokio::test]
async fn requests_are_read_rewritten_and_blocked() {
    let upstream =
        Upstream::start(|_| Script::json("200 OK", &message(json!([{"text": "so"}])).to_string())).await;
    let house = House::new();
    house.judge::<MessageBefore>("clean", |event| {
        let clean = event.message.replace(SECRET, "[gone]");
        (clean != *event.message)
            .then(|| MessageBeforeOutcome { message: Some(clean.into()), ..Default::default() })
    });
    house.judge::<BeforeLlmCall>("no", |event| {
        let blocks = format!("{:?}", event.system_prompt.as_str()).contains("forbidden");
        assert_eq!(event.model, MODEL);
        blocks.then(|| BeforeLlmCallOutcome {
            block: Some(true),
            block_reason: Some("not today".into()),
            ..Default::default()
        })
    });
    let gateway = judged(&house, bedrock(&upstream), HookSettings::default()).await;
    let request = asked().replace("\"hi\"", &format!("\"it is {SECRET}\""));
    assert_eq!(talk(&gateway, post(WHOLE, &request)).await.status(), 200);
    let sent = upstream.request(0);
    assert!(sent.ends_with(&request.replace(SECRET, "[gone]")), "one string differs: {sent}");
    let forbidden =
        asked().replacen('{', r#"{"system":[{"guardContent":{"text":{"text":"forbidden"}}}],"#, 1);
    let answer = talk(&gateway, post(WHOLE, &forbidden)).await.json();
    assert!(answer["output"]["message"]["content"][0]["text"].as_str().unwrap().contains("not today"));
    let found = events(&talk(&gateway, post(STREAM, &forbidden)).await);
    assert_eq!((found[0].0.as_str(), found.last().unwrap().0.as_str()), ("messageStart", "metadata"));
    assert!(format!("{found:?}").contains("not today"));
    // What nobody could be shown is refused.
    for strange in [
        asked().replacen('{', r#"{"system":[{"future":"x"}],"#, 1),
        asked().replacen('{', r#"{"promptVariables":{"a":{"text":"x"}},"#, 1),
        asked().replacen('{', r#"{"messages":[],"#, 1),
    ] {
        assert_eq!(talk(&gateway, post(WHOLE, &strange)).await.status(), 400, "{strange}");
    }
    assert_eq!(upstream.count(), 1);
}

/// Tools that the provider runs are judged where they are offered: in the list, in a message, in the model's own fields.
#[tokio::test]
async fn what_the_provider_would_run_is_judged_where_it_is_offered() {
    let upstream =
        Upstream::start(|_| Script::json("200 OK", &message(json!([{"text": "so"}])).to_string())).await;
    let house = House::new();
    house.judge::<BeforeToolCall>("no", |event| {
        let denied = ["web_search", "future", "toolbox"].contains(&event.tool_name.called());
        denied.then(|| ToolCallOutcome::block("no"))
    });
    let gateway = judged(&house, bedrock(&upstream), HookSettings::default()).await;
    let with = |more: &str| asked().replacen('{', &format!("{{{more},"), 1);
    for harmless in [
        asked(),
        with(r#""additionalModelRequestFields":{"top_k":3,"thinking":{"type":"enabled","budget_tokens":1}}"#),
        with(r#""requestMetadata":{"team":"x"},"performanceConfig":{"latency":"optimized"}"#),
        asked().replace("\"tools\":[", r#""tools":[{"cachePoint":{"type":"default"}},"#),
    ] {
        let answer = talk(&gateway, post(WHOLE, &harmless)).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        assert!(upstream.request(upstream.count() - 1).ends_with(&harmless), "{harmless}");
    }
    let searches = asked().replace("\"tools\":[", r#""tools":[{"systemTool":{"name":"nova_grounding"}},"#);
    assert_eq!(talk(&gateway, post(WHOLE, &searches)).await.status(), 200);
    assert!(upstream.request(upstream.count() - 1).ends_with(&asked()), "the tool is gone");
    let before = upstream.count();
    for offered in [
        with(r#""future":{"x":1}"#),
        with(r#""additionalModelRequestFields":{"future":{"x":1}}"#),
        with(
            r#""additionalModelRequestFields":{"tools":[{"type":"web_search_20250305","name":"web_search"}]}"#,
        ),
        asked().replace(
            r#"[{"text":"hi"}]"#,
            r#"[{"text":"hi"},{"toolAddition":{"tool":{"type":"t","name":"toolbox","serverName":"s"}}}]"#,
        ),
    ] {
        let answer = talk(&gateway, post(WHOLE, &offered)).await;
        assert!(answer.text().contains("the request offers"), "{offered}: {}", answer.text());
    }
    assert_eq!(upstream.count(), before);
}

#[tokio::test]
async fn counts_of_tokens_are_judged_in_either_form() {
    let upstream = Upstream::start(|_| Script::json("200 OK", r#"{"inputTokens":7}"#)).await;
    let house = House::new();
    house.judge::<MessageBefore>("clean", |event| {
        let clean = event.message.replace(SECRET, "[gone]");
        (clean != *event.message)
            .then(|| MessageBeforeOutcome { message: Some(clean.into()), ..Default::default() })
    });
    let gateway = judged(&house, bedrock(&upstream), HookSettings::default()).await;
    let conversed = |text: &str| json!({"input": {"converse": {"messages": [{"role": "user", "content": [{"text": text}]}]}}});
    let invoked = |text: &str| {
        let inner = json!({"anthropic_version": "bedrock-2023-05-31", "max_tokens": 1, "messages": [{"role": "user", "content": text}]});
        json!({"input": {"invokeModel": {"body": STANDARD.encode(inner.to_string())}}})
    };
    for (dirty, clean) in [(conversed(SECRET), conversed("[gone]")), (invoked(SECRET), invoked("[gone]"))] {
        assert_eq!(talk(&gateway, post(COUNT, &clean.to_string())).await.json()["inputTokens"], 7);
        assert!(upstream.request(upstream.count() - 1).ends_with(&clean.to_string()), "as it came");
        assert_eq!(talk(&gateway, post(COUNT, &dirty.to_string())).await.status(), 200);
        let sent = upstream.request(upstream.count() - 1);
        assert_eq!((line(&sent), body(&sent)), (&*format!("POST {COUNT} HTTP/1.1"), clean));
    }
    for strange in [
        json!({}),
        json!({"input": {}}),
        json!({"input": {"converse": {"messages": []}, "invokeModel": {"body": "e30="}}}),
        json!({"input": {"future": {}}}),
        json!({"input": {"invokeModel": {"body": "no base64!"}}}),
        json!({"input": {"invokeModel": {"body": "e30=", "future": 1}}}),
    ] {
        let answer = talk(&gateway, post(COUNT, &strange.to_string())).await;
        assert_eq!(answer.status(), 400, "{strange}: {}", answer.text());
    }
    assert_eq!(upstream.count(), 4);
}

/// Nobody but Bedrock is asked, whoever else stands in front of it in a list.
#[tokio::test]
async fn it_goes_to_bedrock_or_nowhere() {
    let upstream =
        Upstream::start(|_| Script::json("200 OK", &message(json!([{"text": "so"}])).to_string())).await;
    let nowhere = gateway(settings(&upstream)).await;
    let answer = talk(&nowhere, post(WHOLE, &asked())).await;
    assert!(answer.status() == 404 && answer.json()["message"].as_str().unwrap().contains("Amazon Bedrock"));
    assert_eq!(talk(&nowhere, post(&format!("/p/anthropic{WHOLE}"), &asked())).await.status(), 400);
    assert_eq!(upstream.count(), 0);

    let mut settings = settings(&upstream);
    let mut in_bedrock = settings.providers["anthropic"].clone();
    in_bedrock.cloud = Some(Cloud::Bedrock { region: "us-east-1".to_owned() });
    in_bedrock.credential = Credential::Key(secret("cloud-key"));
    in_bedrock.models = vec!["us.amazon.*".to_owned()];
    settings.providers.insert("bedrock".to_owned(), in_bedrock);
    settings.defaults.insert(Family::Anthropic, vec!["anthropic".to_owned(), "bedrock".to_owned()]);
    settings
        .routes
        .push(ModelRoute { models: vec!["maker-*".to_owned()], providers: vec!["anthropic".to_owned()] });
    let gateway = gateway(settings).await;
    assert_eq!(talk(&gateway, post(WHOLE, &asked())).await.status(), 200);
    assert!(upstream.request(0).contains("Bearer cloud-key"), "{}", upstream.request(0));
    // Lists of models and routes hold, also for those that a request names besides.
    for (path, body) in [
        ("/model/other/converse", asked()),
        ("/model/maker-1/converse", asked()),
        (WHOLE, asked().replacen('{', r#"{"additionalModelRequestFields":{"fallbacks":["other"]},"#, 1)),
    ] {
        let answer = talk(&gateway, post(path, &body)).await;
        assert_eq!(answer.status(), 404, "{path}: {}", answer.text());
    }
    // What a body says of the model means nothing, and is not sent.
    let another = asked().replacen('{', r#"{"modelId":"other","stream":true,"#, 1);
    assert_eq!(talk(&gateway, post(WHOLE, &another)).await.status(), 200);
    assert_eq!(body(&upstream.request(1)), serde_json::from_str::<Value>(&asked()).unwrap());
    let arn = "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fx/converse";
    assert_eq!(talk(&gateway, post(arn, &asked())).await.status(), 404);
    for strange in ["/model/..", "/model/a%2F..%2Fb", "/model/a%252Fb"] {
        let answer = talk(&gateway, post(&format!("{strange}/converse"), &asked())).await;
        assert!([400, 403].contains(&answer.status()), "{strange}: {}", answer.text());
    }
    assert_eq!(upstream.count(), 2);
}

/// After a refusal the same provider is asked once more, and what it says follows in the same stream.
#[tokio::test]
async fn the_model_hears_of_a_refusal() {
    let mut last = said("read");
    last.drain(3..6);
    last[3].1 = json!({"stopReason": "end_turn"});
    let scripts = [framed(&said("exec")), framed(&last)];
    let upstream = Upstream::start(move |number| streaming(&[&scripts[number.min(1)]])).await;
    let hooks = HookSettings { refusals: 1, ..HookSettings::default() };
    let gateway = judged(&guarded(), bedrock(&upstream), hooks).await;
    let found = events(&talk(&gateway, post(STREAM, &asked())).await);
    assert_eq!(upstream.count(), 2);
    let again = body(&upstream.request(1));
    assert_eq!(again["messages"][2]["content"][0]["toolResult"]["status"], "error", "{again}");
    assert!(again.get("modelId").is_none() && again.get("stream").is_none(), "{again}");
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.iter().filter(|name| **name == "messageStart").count(), 1, "{names:?}");
    assert_eq!(found.last().unwrap().1["usage"]["totalTokens"], 4, "{found:?}");
    assert!(!format!("{found:?}").contains(SECRET), "{found:?}");
    let indexes: Vec<u64> = found
        .iter()
        .filter(|(name, _)| name == "contentBlockStop")
        .map(|(_, event)| event["contentBlockIndex"].as_u64().unwrap())
        .collect();
    assert!(indexes.is_sorted() && indexes.windows(2).all(|pair| pair[0] != pair[1]), "{indexes:?}");
}

#[tokio::test]
async fn a_store_that_fails_after_a_refusal_ends_the_answer_as_before_one() {
    for round in [1, 2] {
        for is_before in [true, false] {
            let house = guarded();
            let fails = move |iteration: u32| match iteration == round {
                true => Err(HookError::Unreachable("`/var/lib/backstop.db` is locked".into())),
                false => Ok(()),
            };
            if is_before {
                let hook = hook_fn::<BeforeLlmCall, _>(move |event, _| fails(event.iteration).map(|()| None));
                house.on::<BeforeLlmCall>("store", hook);
            } else {
                let hook = hook_fn::<AfterLlmCall, _>(move |event, _| fails(event.iteration).map(|()| None));
                house.on::<AfterLlmCall>("store", hook);
            }
            let whole =
                json!([{"text": "look"}, {"toolUse": {"toolUseId": "t", "name": "exec", "input": {}}}]);
            let whole = message(whole).to_string();
            let stream = framed(&said("exec"));
            for (path, script) in [(WHOLE, Script::json("200 OK", &whole)), (STREAM, streaming(&[&stream]))] {
                let upstream = Upstream::start(move |_| script.clone()).await;
                let hooks = HookSettings { refusals: 2, ..HookSettings::default() };
                let gateway = judged(&house, bedrock(&upstream), hooks).await;
                let answer = talk(&gateway, post(path, &asked())).await;
                let text = String::from_utf8_lossy(&bytes(&answer)).into_owned();
                let context = format!("{path} {round} {is_before}: {text}");
                assert!(text.contains("can't be reached") && !text.contains("backstop.db"), "{context}");
                assert!(!text.contains("stopReason") && !text.contains(SECRET), "{context}");
                assert_eq!(path == WHOLE, answer.status() == 503, "{context}");
            }
        }
    }
}
