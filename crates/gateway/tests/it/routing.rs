//! Where requests go.

use std::time::Duration;

use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_gateway::{Credential, Family, Gateway, ModelRoute, Settings};
use backstop_llm::Api;

use crate::inspect::support::{House, ask};
use crate::support::*;

fn named(mut settings: Settings, name: &str, upstream: &Upstream) -> Settings {
    let own = provider(Family::OpenAi, &upstream.url(), Credential::Client);
    settings.providers.insert(name.to_owned(), own);
    settings
}

fn chat(model: &str) -> String {
    post("/v1/chat/completions", &format!(r#"{{"messages":[],"model":"{model}"}}"#))
}

#[tokio::test]
async fn models_and_prefixes_choose_the_provider() {
    let usual = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let other = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut settings = named(settings(&usual), "other", &other);
    settings.routes =
        vec![ModelRoute { models: vec!["local-*".to_owned()], providers: vec!["other".to_owned()] }];
    let gateway = gateway(settings).await;
    let counts = || (usual.count(), other.count());
    assert_eq!(talk(&gateway, chat("gpt")).await.status(), 200);
    assert_eq!(counts(), (1, 0));
    assert_eq!(talk(&gateway, chat("local-7b")).await.status(), 200);
    assert_eq!(counts(), (1, 1));
    assert_eq!(talk(&gateway, chat("gpt").replace("/v1/chat", "/p/other/v1/chat")).await.status(), 200);
    assert_eq!(counts(), (1, 2));
    let answer = talk(&gateway, chat("gpt").replace("/v1/chat", "/p/none/v1/chat")).await;
    assert_eq!(answer.status(), 404);
    assert!(answer.text().contains("no provider is called `none`"));
    assert_eq!(counts(), (1, 2));
}

#[tokio::test]
async fn only_listed_models_may_be_asked_for() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut settings = settings(&upstream);
    settings.providers.get_mut("openai").unwrap().models = vec!["small-*".to_owned()];
    let gateway = gateway(settings).await;
    assert_eq!(talk(&gateway, chat("small-1")).await.status(), 200);
    assert_eq!(talk(&gateway, chat("large-1")).await.status(), 404);
    for unclear in [r#"{"model":"small-1","model":"large-1"}"#, r#"{"messages":[]}"#, "not json"] {
        let answer = talk(&gateway, post("/v1/chat/completions", unclear)).await;
        assert_eq!(answer.status(), 400, "{unclear}");
    }
    // Another model steps in, or is a tool.
    for more in [
        r#""models":["large-1"]"#,
        r#""fallbacks":[{"model":"large-1"}]"#,
        r#""fallbacks":[{"small-1":["large-1"]}]"#,
        r#""tools":[{"type":"image_generation","model":"large-1"}]"#,
    ] {
        let answer = talk(&gateway, post("/v1/responses", &format!(r#"{{"model":"small-1",{more}}}"#))).await;
        assert_eq!(answer.status(), 404, "{more}");
    }
    // Nobody knows which of the two is read.
    let twice = r#"{"model":"small-1","fallbacks":["large-1"],"fallbacks":[]}"#;
    assert_eq!(talk(&gateway, post("/v1/responses", twice)).await.status(), 400);
    let elsewhere = talk(&gateway, post("/v1/engines/large-1/completions", r#"{"model":"small-1"}"#)).await;
    assert_eq!(elsewhere.status(), 404);
    for query in ["model=large-1", "a=b&Mod%65l=large-1", "deployment_id=large-1"] {
        let asked = chat("small-1").replacen("completions", &format!("completions?{query}"), 1);
        assert_eq!(talk(&gateway, asked).await.status(), 404, "{query}");
    }
    let list = format!("GET /t/{TOKEN}/v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    assert_eq!(talk(&gateway, list).await.status(), 200);
    assert_eq!(upstream.count(), 2);
}

const CHAT_ANSWER: &str = r#"{"id":"from-the-second","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#;

#[tokio::test]
async fn the_next_provider_is_asked_when_one_fails() {
    for (status, body) in [
        ("503 Service Unavailable", "{}"),
        ("429 Too Many Requests", "{}"),
        ("500 Internal Server Error", "{}"),
        // Its key is not taken, or not for this.
        ("401 Unauthorized", "{}"),
        ("403 Forbidden", "{}"),
        ("200 OK", ""),
    ] {
        let failing = Upstream::start(move |_| Script::json(status, body)).await;
        let working = Upstream::start(|_| Script::json("200 OK", r#"{"from":"second"}"#)).await;
        let mut settings = named(settings(&failing), "second", &working);
        let nowhere = provider(Family::OpenAi, &nobody(), Credential::Client);
        settings.providers.insert("nowhere".to_owned(), nowhere);
        let order = ["nowhere", "openai", "second"].map(str::to_owned).to_vec();
        settings.defaults.insert(Family::OpenAi, order);
        let gateway = gateway(settings).await;
        let answer = talk(&gateway, chat("gpt")).await;
        assert_eq!(answer.json()["from"], "second");
        assert_eq!((failing.count(), working.count()), (1, 1));
        assert_eq!(working.request(0).split("\r\n\r\n").nth(1), failing.request(0).split("\r\n\r\n").nth(1));
    }
}

/// However an answer says nothing: without a length, in no chunk, with trailers, and later than its head.
fn empty() -> Vec<Script> {
    let mut all = Vec::new();
    for kind in ["application/json", "text/event-stream"] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n");
        let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n").into_bytes();
        let end = b"0\r\n\r\n".to_vec();
        all.push(Script::whole(format!("{head}content-length: 0\r\n\r\n")));
        all.push(Script::whole([chunked.clone(), end.clone()].concat()));
        all.push(
            Script { pieces: vec![chunked.clone(), end], ..Script::whole("") }
                .paced(Duration::from_millis(20)),
        );
        all.push(Script::whole([chunked, b"0\r\nx-trailer: y\r\n\r\n".to_vec()].concat()));
        all.push(Script::whole(format!("{head}connection: close\r\n\r\n")).ending(End::Close));
    }
    all
}

#[tokio::test]
async fn an_answer_that_says_nothing_is_a_failure_however_it_ends() {
    let hooks = [false, true];
    for (script, has_hooks) in
        empty().into_iter().flat_map(|script| hooks.map(|hooks| (script.clone(), hooks)))
    {
        let context = format!(
            "{has_hooks} {:?}",
            script.pieces.iter().map(|piece| String::from_utf8_lossy(piece)).collect::<Vec<_>>()
        );
        let saying = script.clone();
        let failing = Upstream::start(move |_| saying.clone()).await;
        let working = Upstream::start(|_| Script::json("200 OK", CHAT_ANSWER)).await;
        let mut settings = named(settings(&failing), "second", &working);
        settings.defaults.insert(Family::OpenAi, ["openai", "second"].map(str::to_owned).to_vec());
        let house = House::new();
        if has_hooks {
            house.withhold("exec");
        }
        let hooks = Hooks::new(house.engine.clone(), HookSettings::default()).unwrap();
        let gateway = start(settings, hooks).await.unwrap();
        let body = ask(Api::OpenAiChat, false, "hi").to_string();
        let answer = talk(&gateway, post("/v1/chat/completions", &body)).await;
        assert_eq!((failing.count(), working.count()), (1, 1), "{context}: {}", answer.text());
        assert_eq!(answer.json()["id"], "from-the-second", "{context}");
        // Where there is no other, the client is told in the shape of the wire.
        let alone = Upstream::start(move |_| script.clone()).await;
        let gateway = gateway_of(&alone).await;
        let answer = talk(&gateway, post("/v1/chat/completions", &body)).await;
        assert_eq!((answer.status(), alone.count()), (502, 1), "{context}: {}", answer.text());
        assert!(answer.text().contains("its answer is empty"), "{context}: {}", answer.text());
    }
}

/// A stream whose head has left by the time at which it turns out to be empty can only end as an error.
#[tokio::test]
async fn a_stream_that_begins_and_says_nothing_ends_as_an_error() {
    let pieces = vec![EVENTS_HEAD.as_bytes().to_vec(), b"0\r\n\r\n".to_vec()];
    let script = Script { pieces, ..Script::whole("") }.paced(Duration::from_millis(1_200));
    let upstream = Upstream::start(move |_| script.clone()).await;
    let answer = talk(&gateway_of(&upstream).await, chat("gpt")).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert!(answer.text().contains("its answer is empty"), "{}", answer.text());
}

/// A gateway that asks one provider, and would ask again.
async fn gateway_of(upstream: &Upstream) -> Gateway {
    gateway(Settings { max_retries: 2, ..settings(upstream) }).await
}

#[tokio::test]
async fn what_no_other_provider_would_do_better_is_passed_on() {
    let refusing = Upstream::start(|_| Script::json("400 Bad Request", r#"{"error":{}}"#)).await;
    let other = Upstream::start(|_| Script::json("503 Service Unavailable", r#"{"last":true}"#)).await;
    let mut settings = named(settings(&refusing), "other", &other);
    settings.defaults.insert(Family::OpenAi, vec!["openai".to_owned(), "other".to_owned()]);
    settings.defaults.insert(Family::Gemini, vec!["other".to_owned()]);
    let gateway = gateway(settings).await;
    assert_eq!(talk(&gateway, chat("gpt")).await.status(), 400);
    assert_eq!(other.count(), 0);
    // The last one's failure is the answer.
    let denying = Upstream::start(|_| Script::json("401 Unauthorized", r#"{"last":true}"#)).await;
    let denied = talk(&gateway_of(&denying).await, chat("gpt")).await;
    assert_eq!((denied.status(), denied.json()["last"].as_bool(), denying.count()), (401, Some(true), 1));
    let empty = Upstream::start(|_| Script::json("200 OK", "")).await;
    let answer = talk(&gateway_of(&empty).await, chat("gpt")).await;
    assert_eq!((answer.status(), empty.count()), (502, 1));
    assert!(answer.text().contains("its answer is empty"), "{}", answer.text());
    let answer = talk(&gateway, post("/v1beta/models/g:generateContent", "{}")).await;
    assert_eq!((answer.status(), answer.json()["last"].as_bool()), (503, Some(true)));
}

#[tokio::test]
async fn one_provider_is_asked_again_as_often_as_allowed() {
    let upstream = Upstream::start(|number| match number {
        0 => Script::whole("HTTP/1.1 429 Too Many Requests\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n"),
        1 => Script::whole("HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n"),
        2 => Script::json("200 OK", "{}"),
        _ => {
            Script::whole("HTTP/1.1 429 Too Many Requests\r\nretry-after: 3600\r\ncontent-length: 0\r\n\r\n")
        }
    })
    .await;
    let mut settings = settings(&upstream);
    settings.max_retries = 2;
    let gateway = gateway(settings).await;
    assert_eq!(talk(&gateway, chat("gpt")).await.status(), 200);
    assert_eq!(upstream.count(), 3);
    // Nobody waits for an hour.
    let answer = tokio::time::timeout(Duration::from_secs(5), talk(&gateway, chat("gpt"))).await.unwrap();
    assert_eq!(answer.status(), 429);
    assert!(answer.head().contains("retry-after: 3600"));
}

#[tokio::test]
async fn what_streams_in_is_sent_once() {
    let failing = Upstream::start(|_| Script::json("503 Service Unavailable", "{}")).await;
    let other = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut settings = named(settings(&failing), "other", &other);
    settings.defaults.insert(Family::OpenAi, vec!["openai".to_owned(), "other".to_owned()]);
    let gateway = gateway(settings).await;
    assert_eq!(talk(&gateway, post("/v1/files", "data")).await.status(), 503);
    assert_eq!(other.count(), 0);
}

#[tokio::test]
async fn a_query_brings_no_key_where_the_operator_pays() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gemini = "/v1beta/models/g:generateContent";
    for (credential, refused) in [(Credential::Key(secret("sk-ours")), true), (Credential::Client, false)] {
        let mut settings = settings(&upstream);
        for (name, provider) in &mut settings.providers {
            if name == "gemini" {
                provider.credential = credential.clone();
            }
        }
        let gateway = gateway(settings).await;
        for query in [
            "access_token=sw0rdfish",
            "alt=sse&Access_Token=sw0rdfish",
            "alt=sse;access_token=sw0rdfish",
            "$key=a&x=b",
        ] {
            let before = upstream.count();
            let answer = talk(&gateway, post(&format!("{gemini}?{query}"), "{}")).await;
            assert_eq!(answer.status() == 400, refused, "{query}: {}", answer.text());
            assert_eq!(upstream.count() == before, refused, "{query}");
            assert!(!answer.text().contains("sw0rdfish"), "{}", answer.text());
        }
        assert_eq!(
            talk(&gateway, post(&format!("{gemini}?alt=sse&key=sk-client"), "{}")).await.status(),
            200
        );
    }
    let kept: Vec<String> = (0..upstream.count()).map(|number| upstream.request(number)).collect();
    let with_ours = kept.iter().filter(|request| request.contains("sk-ours"));
    assert!(
        with_ours.clone().all(|request| !request.contains("sk-client") && !request.contains("sw0rdfish"))
    );
    assert_eq!(with_ours.count(), 1);
}
