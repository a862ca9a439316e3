//! Turns of OpenAI Responses and Realtime on WebSockets: a scripted provider, the gateway, a client that speaks in raw frames.

mod approved;
mod ends;
pub(crate) mod lanes;
mod live;
mod openings;
mod quotas;
mod realtime;
mod records;
mod support;
mod undecided;

use std::time::Duration;

use backstop_gateway::inspect::{BlockedForm, HookSettings, Hooks};
use backstop_gateway::{Gateway, Settings};
use backstop_hooks::PointId;
use backstop_hooks::conversation::Message as Said;
use backstop_hooks::points::{BeforeLlmCall, BeforeLlmCallOutcome, BeforeResponseEmit, ResponseEmitOutcome};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::inspect::support::{House, SECRET};
use crate::support::{Answer, start};
use support::*;

/// How many bytes a fragment has, down to one.
const CUTS: [usize; 7] = [1, 2, 3, 7, 64, 1_000, usize::MAX];

async fn gateway(house: &House, provider: &Provider, hooks: HookSettings) -> Gateway {
    hooked(house, open_settings(&provider.url()), hooks).await
}

async fn hooked(house: &House, settings: Settings, hooks: HookSettings) -> Gateway {
    start(settings, Hooks::new(house.engine.clone(), hooks).unwrap()).await.unwrap()
}

fn denied() -> Vec<String> {
    answer("I clean up.", Some(("shell", json!({"command": SECRET}))))
}

#[tokio::test]
async fn what_is_allowed_passes_byte_for_byte_at_every_fragmentation() {
    for size in CUTS {
        let mut events = answer("Hello there.", Some(("read", json!({"path": "a b"}))));
        // Spaces, breaks and escapes between and in what is said are the provider's business.
        for event in &mut events {
            *event = event.replace(",\"", " ,\n  \"").replace("Hello", "H\\u0065llo");
        }
        let played = events.clone();
        let provider = Provider::start(move |_| Play::cut(&played, size)).await;
        let house = House::new();
        house.withhold("shell");
        house.redact();
        house.judge::<BeforeLlmCall>("looks", |_| None);
        let gateway = gateway(&house, &provider, HookSettings::default()).await;
        let mut client = Client::open(&gateway).await;
        for turn in ["one", "two"] {
            let said = asked(turn).replace(",", " ,\t");
            client.send(Message::text(said.clone())).await;
            assert_eq!(client.answer().await, events, "{size}");
            assert_eq!(provider.heard().last(), Some(&said), "{size}");
        }
        let counted = (gateway.requests(), gateway.model_requests());
        assert_eq!(counted, (2, 2), "two requests, on one connection");
        assert_eq!(house.receipts.of(PointId::BeforeLlmCall).len(), 2);
        assert_eq!(provider.heads.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn what_nobody_looks_at_passes_as_it_came() {
    let events = denied();
    let played = events.clone();
    let provider = Provider::start(move |_| Play::cut(&played, 5)).await;
    let gateway = start(open_settings(&provider.url()), backstop_gateway::Transparent).await.unwrap();
    let mut client = Client::open(&gateway).await;
    for _ in 0..2 {
        client.ask("hi").await;
        assert_eq!(client.answer().await, events);
    }
}

#[tokio::test]
async fn a_denied_call_never_leaves_at_any_fragmentation_and_the_connection_goes_on() {
    for size in CUTS {
        let fine = answer("Done.", None);
        let (first, second) = (denied(), fine.clone());
        let provider = Provider::start(move |n| Play::cut(if n == 0 { &first } else { &second }, size)).await;
        let house = House::new();
        house.withhold("shell");
        let gateway = gateway(&house, &provider, HookSettings::default()).await;
        let mut client = Client::open(&gateway).await;
        client.ask("hi").await;
        let said = client.answer().await;
        let all = said.concat();
        assert!(!all.contains(SECRET) && !all.contains("function_call"), "{size}: {all}");
        assert!(all.contains("[backstop] withheld `shell`"), "{size}: {all}");
        assert_eq!(kind(said.last().unwrap()), "response.completed");
        client.ask("more").await;
        assert_eq!(client.answer().await, fine, "{size}");
    }
}

#[tokio::test]
async fn turns_that_say_the_same_are_runs_of_their_own_and_results_belong_to_their_turn() {
    let provider = Provider::start(|n| {
        let answer = answer("Done.", (n % 2 == 0).then(|| ("shell", json!({}))));
        Play::events(
            &answer.iter().map(|event| event.replace("resp_1", &format!("resp_{n}"))).collect::<Vec<_>>(),
        )
    })
    .await;
    let (house, runs) = runs();
    let gateway = gateway(&house, &provider, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    for turn in 0..3_u32 {
        let previous = (turn > 0).then(|| format!("resp_{}", 2 * turn - 1));
        client.tell(json!({"type": "response.create", "model": "m", "previous_response_id": previous, "input": "go on"})).await;
        client.answer().await;
        assert_eq!(runs.lock().unwrap().len(), 1 + turn as usize);
        let result = json!({"type": "function_call_output", "call_id": "call_1", "output": "found"});
        let previous = format!("resp_{}", 2 * turn);
        client.tell(json!({"type": "response.create", "model": "m", "previous_response_id": previous, "input": [result]})).await;
        client.answer().await;
        assert_eq!(runs.lock().unwrap().len(), 1 + turn as usize, "one turn");
    }
}

#[tokio::test]
async fn a_secret_is_taken_out_of_what_streams() {
    for size in CUTS {
        let provider =
            Provider::start(move |_| Play::cut(&answer(&format!("It is {SECRET}."), None), size)).await;
        let house = House::new();
        house.redact();
        let gateway = gateway(&house, &provider, HookSettings::default()).await;
        let mut client = Client::open(&gateway).await;
        client.ask("hi").await;
        let said = client.answer().await;
        let deltas = said.iter().filter(|event| kind(event) == "response.output_text.delta");
        let text: String = deltas
            .map(|event| serde_json::from_str::<Value>(event).unwrap()["delta"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(text, "It is [gone].", "{size}");
        assert!(!said.concat().contains(SECRET), "{size}");
    }
}

#[tokio::test]
async fn a_refused_request_reaches_nobody_and_the_next_one_does() {
    for blocked in [BlockedForm::Error, BlockedForm::Answer] {
        let fine = answer("Done.", None);
        let played = fine.clone();
        let provider = Provider::start(move |_| Play::events(&played)).await;
        let house = House::new();
        house.judge::<BeforeLlmCall>("no", |event| {
            let text: String = event.messages.iter().map(Said::visible_text).collect();
            text.contains(SECRET).then(|| BeforeLlmCallOutcome {
                block: Some(true),
                block_reason: Some("not that".into()),
                ..BeforeLlmCallOutcome::default()
            })
        });
        let gateway = gateway(&house, &provider, HookSettings { blocked, ..HookSettings::default() }).await;
        let mut client = Client::open(&gateway).await;
        client.ask(SECRET).await;
        let said = client.answer().await;
        let last: Value = serde_json::from_str(said.last().unwrap()).unwrap();
        match blocked {
            BlockedForm::Error => {
                assert_eq!((last["type"].as_str(), last["status"].as_u64()), (Some("error"), Some(403)));
                assert_eq!(last["error"]["code"], "blocked_by_policy");
            }
            BlockedForm::Answer => {
                assert_eq!(last["type"], "response.completed");
                assert!(said.concat().contains("[backstop] blocked: not that"));
            }
        }
        client.ask("fine").await;
        assert_eq!(client.answer().await, fine);
        assert_eq!(provider.heard(), [asked("fine")]);
    }
}

#[tokio::test]
async fn a_rewritten_request_stays_a_message() {
    let provider = Provider::start(|_| Play::events(&answer("Done.", None))).await;
    let house = House::new();
    house.judge::<BeforeLlmCall>("rewrites", |event| {
        let mut messages = event.messages.clone();
        for message in &mut messages {
            message.set_visible_text(&"something else".into());
        }
        Some(BeforeLlmCallOutcome { messages: Some(messages), ..BeforeLlmCallOutcome::default() })
    });
    let gateway = gateway(&house, &provider, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    let told = r#"{"type":"response.create","generate":false,"store":false,"model":"m","input":"hi"}"#;
    client.send(Message::text(told)).await;
    client.answer().await;
    let heard: Value = serde_json::from_str(&provider.heard()[0]).unwrap();
    assert_eq!((&heard["type"], &heard["generate"]), (&json!("response.create"), &json!(false)));
    assert_eq!(heard.get("stream"), None);
    assert!(provider.heard()[0].contains("something else") && !provider.heard()[0].contains("\"hi\""));
}

#[tokio::test]
async fn an_answer_that_is_blocked_when_it_is_whole_ends_its_turn_only() {
    let provider =
        Provider::start(|n| Play::cut(&answer(if n == 0 { SECRET } else { "Done." }, None), 9)).await;
    let house = House::new();
    house.judge::<BeforeResponseEmit>("no", |event| {
        event
            .content
            .contains(SECRET)
            .then(|| ResponseEmitOutcome { block: Some(true), ..ResponseEmitOutcome::default() })
    });
    for blocked in [BlockedForm::Error, BlockedForm::Answer] {
        let gateway = gateway(&house, &provider, HookSettings { blocked, ..HookSettings::default() }).await;
        provider.heard.lock().unwrap().clear();
        let mut client = Client::open(&gateway).await;
        client.ask("hi").await;
        let said = client.answer().await;
        assert!(!said.concat().contains(SECRET), "{said:?}");
        client.ask("more").await;
        assert!(client.answer().await.concat().contains("Done."));
    }
}

#[tokio::test]
async fn a_model_goes_on_on_the_same_connection_after_its_calls_were_refused() {
    let provider =
        Provider::start(|n| Play::cut(&if n == 0 { denied() } else { answer("I stop.", None) }, 11)).await;
    let house = House::new();
    house.withhold("shell");
    let hooks = HookSettings { refusals: 1, ..HookSettings::default() };
    let gateway = gateway(&house, &provider, hooks).await;
    let mut client = Client::open(&gateway).await;
    client.ask("hi").await;
    let said = client.answer().await.concat();
    assert!(said.contains("I stop.") && !said.contains(SECRET), "{said}");
    let heard = provider.heard();
    assert_eq!(heard.len(), 2);
    assert_eq!(kind(&heard[1]), "response.create");
    assert!(heard[1].contains("function_call_output"), "{}", heard[1]);
    assert_eq!(provider.heads.lock().unwrap().len(), 1, "nothing is asked over HTTP");
}

#[tokio::test]
async fn a_second_request_has_as_much_time_as_the_first() {
    let provider = Provider::start(|n| match n {
        0 => Play::events(&denied()),
        _ => Play::events(&answer("I stop.", None)).after(400),
    })
    .await;
    let house = House::new();
    house.withhold("shell");
    let mut settings = open_settings(&provider.url());
    settings.providers.get_mut("openai").unwrap().idle_timeout = Duration::from_millis(100);
    let gateway = hooked(&house, settings, HookSettings { refusals: 1, ..HookSettings::default() }).await;
    let mut client = Client::open(&gateway).await;
    client.ask("hi").await;
    let said = client.answer().await.concat();
    assert!(said.contains("I stop.") && !said.contains(SECRET), "{said}");
}

#[tokio::test]
async fn an_answer_of_a_type_that_nobody_knows_is_judged_as_a_call_of_that_name() {
    let provider = Provider::start(|_| {
        let mut events = answer("Hi.", Some(("read", json!({}))));
        events.retain(|event| !kind(event).starts_with("response.function_call_arguments"));
        for event in &mut events {
            *event = event
                .replace("\"function_call\"", "\"future_call\"")
                .replace("\"read\"", &json!(SECRET).to_string());
        }
        Play::cut(&events, 13)
    })
    .await;
    let house = House::new();
    house.withhold("future_call");
    let gateway = gateway(&house, &provider, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    client.ask("hi").await;
    let said = client.answer_or_rest().await;
    assert!(!said.concat().contains(SECRET), "{said:?}");
    assert!(said.concat().contains("[backstop] withheld `future_call`"), "{said:?}");
}

#[tokio::test]
async fn errors_of_a_provider_pass_as_they_are_and_others_are_judged() {
    let error = json!({"type": "error", "status": 400, "error": {
        "type": "invalid_request_error", "code": "previous_response_not_found", "message": "no such answer",
    }});
    let odd =
        json!({"type": "error", "item": {"type": "function_call", "name": "shell", "arguments": SECRET}});
    let (first, second) = (error.to_string(), odd.to_string());
    let limited = json!({"type": "error", "status": 429, "error": {
        "type": "usage_limit_reached", "message": "no more", "plan_type": "pro", "resets_at": 1_800_000_000,
    }, "headers": {"x-codex-primary-used-percent": "100"}});
    let late = [json!({"type": "codex.rate_limits"}).to_string(), limited.to_string()];
    let provider = Provider::start(move |n| match n {
        0 => Play::events(std::slice::from_ref(&first)),
        1 => Play::events(&late),
        _ => Play::events(std::slice::from_ref(&second)),
    })
    .await;
    let house = House::new();
    house.withhold("shell");
    let gateway = gateway(&house, &provider, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    client.ask("hi").await;
    assert_eq!(client.answer().await, [error.to_string()]);
    client.ask("again").await;
    assert_eq!(client.answer().await, [limited.to_string()]);
    client.ask("more").await;
    let said = client.answer().await;
    assert_eq!(kind(&said[0]), "error");
    assert!(!said.concat().contains(SECRET), "{said:?}");
}

#[tokio::test]
async fn nothing_but_requests_is_passed_on_and_the_connection_goes_on() {
    let provider = Provider::start(|_| Play::events(&answer("Done.", None))).await;
    let house = House::new();
    house.judge::<BeforeLlmCall>("looks", |_| None);
    let gateway = gateway(&house, &provider, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    for message in [
        "{}".to_owned(),
        asked("hi").replace("\"model\"", "\"Model\""),
        json!({"type": "response.inject", "input": SECRET}).to_string(),
        json!({"type": "session.update", "session": {"instructions": SECRET}}).to_string(),
        r#"{"type":"response.create","model":"m","input":"a","input":"b"}"#.to_owned(),
        "not JSON".to_owned(),
    ] {
        client.send(Message::text(message.clone())).await;
        let told: Value = serde_json::from_str(&client.next().await.unwrap()).unwrap();
        assert_eq!((told["type"].as_str(), told["status"].as_u64()), (Some("error"), Some(400)), "{message}");
    }
    client.send(Message::text(json!({"type": "response.steer", "input": SECRET}).to_string())).await;
    let told: Value = serde_json::from_str(&client.next().await.unwrap()).unwrap();
    assert_eq!(told["type"], "response.steer.failed");
    assert_eq!(told["steer"]["input"], SECRET, "the client gets it back");
    assert_eq!(provider.heard(), [""; 0]);
    let read = json!({"type": "response.processed", "response_id": "resp_1"}).to_string();
    client.send(Message::text(read.clone())).await;
    client.ask("fine").await;
    client.answer().await;
    assert_eq!(provider.heard()[0], read);
}

/// An answer that says something at once and the rest later, so that there is time to steer it.
fn slow(events: &[String]) -> Play {
    Play::events(&events[..2]).then(300, &events[2..])
}

fn steer(answer: &str, input: &Value) -> Message {
    let said = json!({"type": "response.steer", "previous_response_id": answer, "input": input});
    Message::text(said.to_string())
}

#[tokio::test]
async fn what_is_added_to_an_answer_is_a_prompt_of_its_own() {
    let second: Vec<String> =
        answer("Shorter.", None).iter().map(|event| event.replace("resp_1", "resp_2")).collect();
    let played = second.clone();
    let provider =
        Provider::start(move |n| if n == 0 { slow(&answer("Long.", None)) } else { Play::events(&played) })
            .await;
    let house = House::new();
    house.judge::<BeforeLlmCall>("no", |event| {
        let text: String = event.messages.iter().map(Said::visible_text).collect();
        text.contains(SECRET)
            .then(|| BeforeLlmCallOutcome { block: Some(true), ..BeforeLlmCallOutcome::default() })
    });
    for (input, passes) in [(json!("be short"), true), (json!([{"role": "user", "content": SECRET}]), false)]
    {
        provider.heard.lock().unwrap().clear();
        let gateway = gateway(&house, &provider, HookSettings::default()).await;
        let mut client = Client::open(&gateway).await;
        client.ask("hi").await;
        assert_eq!(kind(&client.next().await.unwrap()), "response.created");
        client.send(steer("resp_1", &input)).await;
        let said = client.answer().await;
        assert!(said.iter().any(|event| kind(event) == "response.steer.accepted"), "{said:?}");
        assert!(said.last().unwrap().contains("Long."));
        let next = client.answer().await;
        let heard = provider.heard();
        if passes {
            assert_eq!(next, second);
            let asked: Value = serde_json::from_str(&heard[1]).unwrap();
            let input = json!([{"type": "message", "role": "user", "content": "be short"}]);
            let expected = json!({"type": "response.create", "model": "m", "input": input, "previous_response_id": "resp_1"});
            assert_eq!(asked, expected);
        } else {
            assert!(next.concat().contains("[backstop] blocked"), "{next:?}");
            assert_eq!(heard.len(), 1, "{heard:?}");
        }
    }
}

#[tokio::test]
async fn what_can_not_be_added_to_an_answer_comes_back() {
    let provider = Provider::start(|_| slow(&denied())).await;
    let house = House::new();
    house.judge::<BeforeLlmCall>("looks", |_| None);
    let gateway = gateway(&house, &provider, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    client.ask("hi").await;
    assert_eq!(kind(&client.next().await.unwrap()), "response.created");
    for (answer, input, code) in [
        ("resp_9", json!("x"), "response_not_found"),
        ("resp_1", json!(""), "invalid_input"),
        ("resp_1", json!([{"role": "system", "content": "x"}]), "invalid_input"),
        ("resp_1", json!([{"type": "function_call_output", "call_id": "c", "output": "x"}]), "invalid_input"),
    ] {
        client.send(steer(answer, &input)).await;
        let told: Value = serde_json::from_str(&client.steered().await).unwrap();
        assert_eq!((&told["error"]["code"], &told["steer"]["input"]), (&json!(code), &input));
    }
    client.send(steer("resp_1", &json!("and then"))).await;
    assert_eq!(kind(&client.steered().await), "response.steer.accepted");
    client.answer().await;
    // It waits for what its call brings.
    let told: Value = serde_json::from_str(&client.steered().await).unwrap();
    assert_eq!(
        (&told["error"]["code"], &told["steer"]["input"]),
        (&json!("response_not_active"), &json!("and then"))
    );
    assert_eq!(provider.heard(), [asked("hi")]);
}

#[tokio::test]
async fn requests_wait_for_each_other_and_not_without_end() {
    let provider = Provider::start(|_| Play::cut(&answer("Done.", None), 20)).await;
    let house = House::new();
    house.withhold("shell");
    let gateway = gateway(&house, &provider, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    for turn in ["one", "two", "three"] {
        client.ask(turn).await;
    }
    for _ in 0..3 {
        client.answer().await;
    }
    assert_eq!(provider.heard(), ["one", "two", "three"].map(asked));

    let silent = Provider::start(|_| Play::default()).await;
    let gateway = hooked(&house, open_settings(&silent.url()), HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    for _ in 0..18 {
        client.ask("again").await;
    }
    let (said, goodbye) = client.rest().await;
    assert_eq!((kind(&said[0]), goodbye.0), ("error".to_owned(), 1008), "{said:?}");
    assert_eq!(silent.heard().len(), 1);
}

#[tokio::test]
async fn small_frames_and_pings_are_read_by_the_thousand() {
    let events = answer("Done.", None);
    let played = events.clone();
    let provider = Provider::start(move |_| Play::cut(&played, 1)).await;
    let house = House::new();
    house.withhold("shell");
    let gateway = gateway(&house, &provider, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    for _ in 0..1_000 {
        client.send(Message::Ping(bytes::Bytes::from_static(b"x"))).await;
    }
    let said = asked(&"x".repeat(1_000));
    // Each byte in a frame of its own, under a mask of zeros.
    let last = said.len() - 1;
    let frames = said.bytes().enumerate().flat_map(|(at, byte)| {
        let first = if at == 0 { 1 } else { 0 } | if at == last { 0x80 } else { 0 };
        [first, 0x81, 0, 0, 0, 0, byte]
    });
    client.send_raw(&frames.collect::<Vec<u8>>()).await;
    assert_eq!(client.answer().await, events);
    assert_eq!(provider.heard(), [said]);
}

/// Whether an answer over HTTP was refused as closed.
fn is_closed(answer: &Answer) -> bool {
    answer.status() == 403 && answer.text().contains("is not among the operations that pass here")
}
