//! How connections end.

use std::time::Duration;

use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_gateway::{Limits, Timeouts, WebSockets};
use backstop_hooks::points::{BeforeLlmCall, ModelCallEnded, ToolAfter};
use backstop_hooks::{async_hook_fn, hook_fn};
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio_tungstenite::tungstenite::Message;

use super::support::*;
use super::{denied, gateway, hooked};
use crate::access::{revoke, token_of};
use crate::inspect::support::{House, SECRET};
use crate::support::{eventually, start};

fn house() -> House {
    let house = House::new();
    house.withhold("shell");
    house.judge::<BeforeLlmCall>("looks", |_| None);
    house
}

#[tokio::test]
async fn a_provider_that_breaks_off_ends_the_turn_with_an_error_wherever_it_does() {
    let whole = Play::cut(&denied(), 40).bytes;
    for cut in (0..whole.len()).step_by(97) {
        let bytes = whole[..cut].to_vec();
        let provider =
            Provider::start(move |_| Play { bytes: bytes.clone(), ..Play::default() }.then_breaks()).await;
        let gateway = gateway(&house(), &provider, HookSettings::default()).await;
        let mut client = Client::open(&gateway).await;
        client.ask("hi").await;
        let (said, goodbye) = client.rest().await;
        assert_eq!(kind(said.last().unwrap()), "error", "{cut}: {said:?}");
        assert_eq!(goodbye.0, 1011, "{cut}");
        let all = said.concat();
        assert!(!all.contains(SECRET) && !all.contains("function_call"), "{cut}: {all}");
    }
}

#[tokio::test]
async fn a_client_that_goes_takes_the_providers_connection_with_it() {
    for says_goodbye in [true, false] {
        let half = denied()[..3].to_vec();
        let provider = Provider::start(move |_| Play::events(&half)).await;
        let gateway = gateway(&house(), &provider, HookSettings::default()).await;
        let mut client = Client::open(&gateway).await;
        client.ask("hi").await;
        client.next().await.unwrap();
        if says_goodbye {
            client.send(Message::Close(None)).await;
        }
        drop(client);
        eventually("the provider's connection ends", || provider.left() == 1).await;
    }
}

#[tokio::test]
async fn a_client_that_asks_and_goes_leaves_nothing_behind() {
    let provider = Provider::start(|_| Play::events(&answer("Done.", None))).await;
    let house = house();
    let mut settings = open_settings(&provider.url());
    settings.limits = Limits { connections: 4, requests: 4, ..Limits::default() };
    let gateway = hooked(&house, settings, HookSettings::default()).await;
    for _ in 0..20 {
        let mut client = Client::open(&gateway).await;
        client.ask("hi").await;
        client.send(Message::Close(None)).await;
        drop(client);
    }
    // Neither places of connections nor of requests were lost.
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = Client::open(&gateway).await;
        client.ask("hi").await;
        client.answer().await;
        clients.push(client);
    }
    drop(clients);
    eventually("all of the provider's connections end", || provider.left() == 24).await;
}

#[tokio::test]
async fn a_message_that_is_too_large_ends_the_connection() {
    let provider = Provider::start(|_| Play::events(&answer("Done.", None))).await;
    let mut settings = open_settings(&provider.url());
    settings.limits.body_bytes = 10_000;
    let gateway = hooked(&house(), settings, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    client.ask(&"x".repeat(10_001)).await;
    let (said, goodbye) = client.rest().await;
    assert_eq!((kind(&said[0]), goodbye.0), ("error".to_owned(), 1009), "{said:?}");
    assert_eq!(provider.heard(), [""; 0]);
}

#[tokio::test]
async fn bytes_that_are_no_text_pass_in_neither_direction() {
    let provider = Provider::start(|_| Play { bytes: binary(SECRET.as_bytes()), ..Play::default() }).await;
    let gateway = gateway(&house(), &provider, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    client.ask("hi").await;
    let (said, goodbye) = client.rest().await;
    assert_eq!((kind(&said[0]), goodbye.0), ("error".to_owned(), 1011), "{said:?}");
    assert!(!said.concat().contains(SECRET));
    let mut client = Client::open(&gateway).await;
    client.send(Message::binary(asked("hi").into_bytes())).await;
    let (said, goodbye) = client.rest().await;
    assert_eq!((kind(&said[0]), goodbye.0), ("error".to_owned(), 1003), "{said:?}");
    assert_eq!(provider.heard().len(), 1);
    // Neither do frames that no reader agrees about.
    let mut client = Client::open(&gateway).await;
    client.send_raw(&[0xc1, 0x80, 0, 0, 0, 0]).await;
    assert_eq!(client.rest().await.1.0, 1002, "a compressed frame, which nobody agreed on");
}

#[tokio::test]
async fn what_a_provider_says_unasked_does_not_leave() {
    let mut events = answer("Done.", None);
    let limits = json!({"type": "provider.rate_limits", "note": SECRET}).to_string();
    events.push(limits);
    let mut then = events.clone();
    then.extend(denied());
    let provider = Provider::start(move |n| Play::events(if n == 0 { &events } else { &then })).await;
    let gateway = gateway(&house(), &provider, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    client.ask("hi").await;
    assert!(!client.answer().await.concat().contains(SECRET));
    client.ask("more").await;
    let (said, goodbye) = client.rest().await;
    let all = said.concat();
    assert!(all.contains("Done.") && !all.contains(SECRET) && !all.contains("function_call"), "{all}");
    assert_eq!(goodbye, (1011, "the provider said what nobody asked for".to_owned()));
}

#[tokio::test]
async fn a_connection_ends_when_it_is_idle_or_old() {
    let provider = Provider::start(|_| Play::events(&answer("Done.", None))).await;
    let (short, long) = (Duration::from_millis(200), Duration::from_secs(600));
    for (websockets, reason) in [
        (WebSockets { idle: short, total: long }, "nothing was asked for long (`gateway.websockets.idleMs`)"),
        (WebSockets { idle: long, total: short }, "the connection is too old (`gateway.websockets.totalMs`)"),
    ] {
        let mut settings = open_settings(&provider.url());
        settings.websockets = Some(websockets);
        let gateway = hooked(&house(), settings, HookSettings::default()).await;
        let mut client = Client::open(&gateway).await;
        let (said, goodbye) = client.rest().await;
        assert_eq!((said.len(), goodbye.1.as_str()), (0, reason));
    }
}

#[tokio::test]
async fn a_silent_provider_ends_the_turn() {
    let provider = Provider::start(|_| Play::events(&answer("Done.", None)[..2])).await;
    let mut settings = open_settings(&provider.url());
    settings.providers.get_mut("openai").unwrap().idle_timeout = Duration::from_millis(200);
    let gateway = hooked(&house(), settings, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    client.ask("hi").await;
    let (said, goodbye) = client.rest().await;
    assert_eq!((kind(said.last().unwrap()), goodbye.0), ("error".to_owned(), 1011), "{said:?}");
}

#[tokio::test]
async fn a_provider_that_only_pings_is_silent() {
    for hooks in [true, false] {
        let provider = Provider::start(|_| Play::events(&answer("Done.", None)[..2]).then_pings()).await;
        let mut settings = open_settings(&provider.url());
        settings.providers.get_mut("openai").unwrap().idle_timeout = Duration::from_millis(200);
        let gateway = match hooks {
            true => hooked(&house(), settings, HookSettings::default()).await,
            false => start(settings, backstop_gateway::Transparent).await.unwrap(),
        };
        let mut client = Client::open(&gateway).await;
        client.ask("hi").await;
        let (said, goodbye) = client.rest().await;
        assert_eq!((kind(said.last().unwrap()), goodbye.0), ("error".to_owned(), 1011), "{said:?}");
    }
}

#[tokio::test]
async fn a_provider_is_not_silent_while_others_decide() {
    let mut events = answer("Done.", None);
    let mut last: serde_json::Value = serde_json::from_str(&events.pop().unwrap()).unwrap();
    last["response"]["output"] = json!([]);
    let item = json!({"type": "mcp_call", "id": "mcp_1", "server_label": "shop", "name": "list", "arguments": "{}", "output": "x"});
    events.push(json!({"type": "response.output_item.done", "output_index": 1, "item": item}).to_string());
    let provider = Provider::start(move |_| Play::events(&events).then(600, &[last.to_string()])).await;
    let house = house();
    house.on::<ToolAfter>(
        "thinks",
        async_hook_fn::<ToolAfter, _, _>(|_, _| async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            Ok(None)
        }),
    );
    let mut settings = open_settings(&provider.url());
    settings.providers.get_mut("openai").unwrap().idle_timeout = Duration::from_millis(300);
    let gateway = hooked(&house, settings, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    client.ask("hi").await;
    let said = client.answer_or_rest().await;
    assert_eq!(kind(said.last().unwrap()), "response.completed", "{said:?}");
}

#[tokio::test]
async fn a_message_that_does_not_come_to_its_end_is_counted_and_given_up() {
    let provider = Provider::start(|_| Play::events(&answer("Done.", None))).await;
    let mut settings = open_settings(&provider.url());
    settings.limits.buffered_bytes = 2_000;
    settings.timeouts.body = Duration::from_millis(100);
    let gateway = hooked(&house(), settings, HookSettings::default()).await;
    let late = (1008, "the rest of a message did not come (`gateway.timeouts.bodyMs`)".to_owned());
    // Half a head; half a payload; a fragment.
    for half in [&[0x81][..], &[0x81, 0x85, 0, 0, 0, 0, b'{'], &[0x01, 0x81, 0, 0, 0, 0, b'{']] {
        let mut client = Client::open(&gateway).await;
        client.send_raw(half).await;
        let (said, goodbye) = client.rest().await;
        assert_eq!((kind(&said[0]), goodbye), ("error".to_owned(), late.clone()), "{half:?}");
    }
    let mut client = Client::open(&gateway).await;
    let mut fragment = vec![0x01, 0xfe, 0x0b, 0xb8, 0, 0, 0, 0];
    fragment.resize(8 + 3_000, b' ');
    client.send_raw(&fragment).await;
    let (said, goodbye) = client.rest().await;
    assert_eq!((kind(&said[0]), goodbye.0), ("error".to_owned(), 1013), "{said:?}");
    // Who says nothing has begun nothing, and what was counted is free again.
    let mut client = Client::open(&gateway).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    client.ask(&"x".repeat(500)).await;
    client.answer().await;
}

#[tokio::test]
async fn a_message_of_fragments_and_pings_has_an_end_too() {
    let provider = Provider::start(|_| Play::events(&answer("Done.", None))).await;
    let mut settings = open_settings(&provider.url());
    settings.timeouts.body = Duration::from_millis(100);
    let gateway = hooked(&house(), settings, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    client.send_raw(&[0x01, 0x81, 0, 0, 0, 0, b'{']).await;
    let goodbye = loop {
        client.send_raw(&[0x89, 0x80, 0, 0, 0, 0]).await;
        if let Ok(goodbye) = tokio::time::timeout(Duration::from_millis(20), client.rest()).await {
            break goodbye.1;
        }
    };
    assert_eq!(goodbye.0, 1008, "{goodbye:?}");
}

#[tokio::test]
async fn a_client_that_asks_ahead_or_says_nothing_of_use_keeps_no_connection() {
    let provider = Provider::start(|_| Play::events(&answer("Done.", None)).after(100)).await;
    let (short, long) = (Duration::from_millis(250), Duration::from_secs(600));
    let mut settings = open_settings(&provider.url());
    settings.websockets = Some(WebSockets { idle: long, total: short });
    let gateway = hooked(&house(), settings.clone(), HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    for _ in 0..12 {
        client.ask("hi").await;
    }
    let (_, goodbye) = client.rest().await;
    assert_eq!(goodbye.1, "the connection is too old (`gateway.websockets.totalMs`)");
    assert!(provider.heard().len() < 12, "{:?}", provider.heard());

    settings.websockets = Some(WebSockets { idle: short, total: long });
    let gateway = hooked(&house(), settings, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    for tries in 0.. {
        client.send(Message::text("{}")).await;
        if let Err(goodbye) = client.next().await {
            assert_eq!(goodbye.1, "nothing was asked for long (`gateway.websockets.idleMs`)");
            break;
        }
        assert!(tries < 100, "it goes on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn an_answer_has_the_name_under_which_it_began() {
    let mut other = answer("Done.", None);
    let last = other.last_mut().unwrap();
    *last = last.replace("resp_1", "resp_2");
    let headless = answer("Done.", None)[1..].to_vec();
    let mut twice = answer("Done.", None)[..2].to_vec();
    twice.extend(denied());
    for events in [other, headless, twice] {
        for hooks in [true, false] {
            let played = events.clone();
            let provider = Provider::start(move |_| Play::events(&played)).await;
            let settings = open_settings(&provider.url());
            let gateway = match hooks {
                true => hooked(&house(), settings, HookSettings::default()).await,
                false => start(settings, backstop_gateway::Transparent).await.unwrap(),
            };
            let mut client = Client::open(&gateway).await;
            client.ask("hi").await;
            let (said, goodbye) = client.rest().await;
            assert_eq!(goodbye, (1011, "the provider said what nobody asked for".to_owned()));
            assert_eq!(kind(said.last().unwrap()), "error", "{said:?}");
            assert!(!said.concat().contains("response.completed") && !said.concat().contains(SECRET));
        }
    }
}

#[tokio::test]
async fn an_error_in_the_middle_of_an_answer_ends_the_connection() {
    let mut events = answer("Done.", None)[..2].to_vec();
    events.push(json!({"type": "error", "error": {"message": "no more"}}).to_string());
    let provider = Provider::start(move |_| Play::events(&events)).await;
    let gateway = gateway(&house(), &provider, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    client.ask("hi").await;
    client.ask("more").await;
    let (said, goodbye) = client.rest().await;
    assert_eq!((kind(said.last().unwrap()), goodbye.0), ("error".to_owned(), 1011), "{said:?}");
    assert_eq!(provider.heard(), [asked("hi")]);
}

#[tokio::test]
async fn what_came_before_a_request_is_not_its_answer() {
    let mut events = answer("Done.", None);
    events.extend(answer("Not asked for.", None));
    let provider = Provider::start(move |_| Play::events(&events).after(100)).await;
    let gateway = gateway(&house(), &provider, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    client.ask("hi").await;
    client.ask("more").await;
    let (said, goodbye) = client.rest().await;
    assert_eq!(goodbye, (1011, "the provider said what nobody asked for".to_owned()));
    assert!(said.concat().contains("Done.") && !said.concat().contains("Not asked for."), "{said:?}");
    assert_eq!(provider.heard(), [asked("hi")]);
}

#[tokio::test]
async fn what_is_no_request_is_counted_and_limited_too() {
    let provider = Provider::start(|_| Play::default()).await;
    let mut settings = open_settings(&provider.url());
    settings.limits.buffered_bytes = 2_000;
    let gateway = hooked(&house(), settings, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    for (len, status) in [(1_000, 400), (3_000, 503), (1_000, 400)] {
        client.send(Message::text(json!({"type": "x".repeat(len)}).to_string())).await;
        let told: serde_json::Value = serde_json::from_str(&client.next().await.unwrap()).unwrap();
        assert_eq!(told["status"], status, "{told}");
    }
    client.ask("hi").await;
    for _ in 0..17 {
        client.send(Message::text(json!({"type": "response.steer", "input": "x"}).to_string())).await;
    }
    let (said, goodbye) = client.rest().await;
    assert_eq!((said.len(), goodbye), (17, (1008, "too much was said to one answer".to_owned())));
    assert_eq!(kind(&said[15]), "response.steer.failed");
    assert_eq!(kind(&said[16]), "error");
}

/// A large request is in memory once more as it was read, and as hooks rewrite it.
#[tokio::test]
async fn what_a_large_request_takes_while_it_is_judged_is_counted() {
    let provider = Provider::start(|_| Play::events(&answer("Done.", None))).await;
    let mut settings = open_settings(&provider.url());
    settings.limits.buffered_bytes = 140_000;
    let gateway = hooked(&house(), settings, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    client.ask(&"x".repeat(40_000)).await;
    let told: serde_json::Value = serde_json::from_str(&client.next().await.unwrap()).unwrap();
    assert_eq!((told["status"].as_u64(), provider.heard().len()), (Some(503), 0), "{told}");
    client.ask(&"x".repeat(20_000)).await;
    client.answer().await;
}

#[tokio::test]
async fn a_gateway_that_stops_ends_idle_connections_at_once_and_others_with_an_error() {
    let provider = Provider::start(|n| {
        Play::events(&if n == 0 { answer("Done.", None) } else { answer("Half", None)[..2].to_vec() })
    })
    .await;
    let mut settings = open_settings(&provider.url());
    settings.timeouts = Timeouts { drain: Duration::from_millis(300), ..Timeouts::default() };
    let gateway = hooked(&house(), settings, HookSettings::default()).await;
    let (mut idle, mut busy) = (Client::open(&gateway).await, Client::open(&gateway).await);
    idle.ask("hi").await;
    idle.answer().await;
    busy.ask("hi").await;
    eventually("the second request has come", || provider.heard().len() == 2).await;
    let stopping = tokio::spawn(gateway.shut_down());
    assert_eq!(idle.rest().await, (vec![], (1001, "this proxy stops".to_owned())));
    let (said, goodbye) = busy.rest().await;
    assert_eq!((kind(said.last().unwrap()), goodbye.0), ("error".to_owned(), 1001), "{said:?}");
    stopping.await.unwrap();
}

#[tokio::test]
async fn those_who_watch_are_told_that_a_stop_ended_an_answer() {
    let provider = Provider::start(|_| Play::events(&answer("Half", None)[..2])).await;
    let (house, ended) = (house(), Arc::new(Mutex::new(Vec::new())));
    let told = Arc::clone(&ended);
    let watch = hook_fn::<ModelCallEnded, _>(move |event, _| {
        told.lock().unwrap().push(event.failure_kind.clone());
        Ok(None)
    });
    house.on::<ModelCallEnded>("watches", watch);
    let mut settings = open_settings(&provider.url());
    settings.timeouts = Timeouts { drain: Duration::from_millis(100), ..Timeouts::default() };
    let gateway = hooked(&house, settings, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    client.ask("hi").await;
    eventually("the request has come", || provider.heard().len() == 1).await;
    let stopping = tokio::spawn(gateway.shut_down());
    client.rest().await;
    stopping.await.unwrap();
    eventually("its end is told", || ended.lock().unwrap().len() == 1).await;
    assert_eq!(*ended.lock().unwrap(), [Some("connection_closed".to_owned())], "the client did not go");
}

#[tokio::test]
async fn a_connection_does_not_outlive_its_settings() {
    let provider = Provider::start(|_| Play::events(&answer("Done.", None))).await;
    let gateway = gateway(&house(), &provider, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    client.ask("hi").await;
    client.answer().await;
    let next = Hooks::new(house().engine, HookSettings::default()).unwrap();
    gateway.reload(&open_settings(&provider.url()), Arc::new(next)).unwrap();
    assert_eq!(client.rest().await, (vec![], (1012, "other settings hold".to_owned())));
}

/// Nothing in the wire says which request an answer belongs to, so what comes behind an error is the next answer, or the end.
#[tokio::test]
async fn an_answer_that_comes_behind_an_error_is_judged_or_ends_the_connection() {
    let error = json!({"type": "error", "status": 500, "error": {"code": "server_error", "message": "oh"}})
        .to_string();
    let late: Vec<String> = denied().iter().map(|event| event.replace("resp_1", "resp_0")).collect();
    let whole = answer("Done.", None);
    for (at_once, late) in [true, false]
        .into_iter()
        .flat_map(|at_once| {
            // All of it, and what is left of it when the beginning came before the error.
            (0..late.len()).map(move |from| (at_once, from))
        })
        .map(|(at_once, from)| (at_once, late[from..].to_vec()))
    {
        let (failed, next) = (error.clone(), [late, whole.clone()].concat());
        let provider = Provider::start(move |n| match (n, at_once) {
            (0, true) => Play::events(&[std::slice::from_ref(&failed), &next[..]].concat()),
            (0, false) => Play::events(std::slice::from_ref(&failed)),
            _ => Play::events(&next),
        })
        .await;
        let gateway = gateway(&house(), &provider, HookSettings::default()).await;
        let mut client = Client::open(&gateway).await;
        client.ask("hi").await;
        client.ask("again").await;
        let (said, goodbye) = client.rest().await;
        let all = said.concat();
        assert!(!all.contains(SECRET) && !all.contains("function_call"), "{at_once}: {all}");
        assert_eq!((kind(&said[0]), goodbye.0), ("error".to_owned(), 1011), "{at_once}: {said:?}");
        assert!(!all.contains("Done."), "which request it answers is not known: {all}");
    }
}

#[tokio::test]
async fn a_connection_ends_with_its_token_between_turns_and_within_one() {
    for is_asked in [false, true] {
        let half = denied()[..3].to_vec();
        let provider = Provider::start(move |_| Play::events(&half)).await;
        let house = house();
        let (token, id) = token_of(house.store.as_ref(), "coder", Duration::from_hours(1)).await;
        let mut settings = open_settings(&provider.url());
        settings.store = Some(Arc::clone(&house.store));
        let gateway = hooked(&house, settings, HookSettings::default()).await;
        let opened = Client::try_open_by(token.expose(), &gateway, "/v1/responses", "").await;
        let mut client = opened.unwrap_or_else(|answer| panic!("{answer}"));
        if is_asked {
            client.ask("hi").await;
            client.next().await.unwrap();
        }
        revoke(house.store.as_ref(), &id).await;
        let (said, goodbye) = client.rest().await;
        assert_eq!(goodbye, (1008, "the token of this connection has ended".to_owned()), "{said:?}");
        assert_eq!(said.concat().contains("this token has ended"), is_asked, "{said:?}");
        eventually("the provider's connection ends", || provider.left() == 1).await;
        let again = Client::try_open_by(token.expose(), &gateway, "/v1/responses", "").await;
        assert!(again.is_err_and(|answer| answer.starts_with("HTTP/1.1 401 ")));
    }
}
