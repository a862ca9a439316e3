//! Sessions of OpenAI Realtime in text.

use std::sync::{Arc, Mutex};

use backstop_gateway::hooked::{BlockedForm, HookSettings};
use backstop_gateway::{Credential, Gateway};
use backstop_hooks::PointId;
use backstop_hooks::conversation::Message as Said;
use backstop_hooks::points::{
    AfterLlmCall, AfterLlmCallOutcome, BeforeLlmCall, BeforeLlmCallOutcome, ToolCallIds,
};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::support::*;
use super::{CUTS, gateway, hooked};
use crate::hooked::support::{House, SECRET};
use crate::support::{eventually, secret};

/// The events of an answer that says something and calls a tool, as OpenAI documents them.
fn spoken(id: &str, text: &str, call: Option<(&str, Value)>) -> Vec<String> {
    let mut events = Vec::new();
    let mut say = |kind: &str, mut fields: Value| {
        let event = fields.as_object_mut().unwrap();
        event.insert("type".into(), kind.into());
        event.insert("event_id".into(), "event_1".into());
        if kind.starts_with("response.") && !event.contains_key("response") {
            event.insert("response_id".into(), id.into());
        }
        events.push(fields.to_string());
    };
    let response = |status: &str, output: &[Value], usage: Value| {
        json!({"response": {
            "object": "realtime.response", "id": id, "status": status, "status_details": null, "output": output,
            "conversation_id": "conv_1", "output_modalities": ["text"], "max_output_tokens": "inf",
            "audio": {"output": {"format": {"type": "audio/pcm", "rate": 24_000}, "voice": "marin"}},
            "usage": usage, "metadata": null,
        }})
    };
    say("response.created", response("in_progress", &[], Value::Null));
    let item = |status: &str, content: Value| json!({"id": "item_a", "object": "realtime.item", "type": "message", "status": status, "role": "assistant", "content": content});
    let begun = item("in_progress", json!([]));
    say("response.output_item.added", json!({"output_index": 0, "item": begun}));
    say("conversation.item.added", json!({"previous_item_id": "item_0", "item": begun}));
    let at = |more: Value| {
        let mut fields = json!({"item_id": "item_a", "output_index": 0, "content_index": 0});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        fields
    };
    say("response.content_part.added", at(json!({"part": {"type": "text", "text": ""}})));
    for piece in text.as_bytes().chunks(5) {
        say("response.output_text.delta", at(json!({"delta": str::from_utf8(piece).unwrap()})));
    }
    say("response.output_text.done", at(json!({"text": text})));
    say("response.content_part.done", at(json!({"part": {"type": "text", "text": text}})));
    let whole = item("completed", json!([{"type": "output_text", "text": text}]));
    say("conversation.item.done", json!({"previous_item_id": "item_0", "item": whole}));
    say("response.output_item.done", json!({"output_index": 0, "item": whole}));
    let mut output = vec![whole];
    if let Some((name, arguments)) = call {
        let arguments = arguments.to_string();
        let item = |status: &str, arguments: &str| {
            json!({"id": "item_b", "object": "realtime.item", "type": "function_call", "status": status,
                "name": name, "call_id": "call_1", "arguments": arguments})
        };
        say("response.output_item.added", json!({"output_index": 1, "item": item("in_progress", "")}));
        say(
            "conversation.item.added",
            json!({"previous_item_id": "item_a", "item": item("in_progress", "")}),
        );
        let at = json!({"item_id": "item_b", "output_index": 1, "call_id": "call_1"});
        let with = |more: Value| {
            let mut fields = at.clone();
            fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            fields
        };
        say("response.function_call_arguments.delta", with(json!({"delta": arguments})));
        say("response.function_call_arguments.done", with(json!({"name": name, "arguments": arguments})));
        let whole = item("completed", &arguments);
        say("conversation.item.done", json!({"previous_item_id": "item_a", "item": whole}));
        say("response.output_item.done", json!({"output_index": 1, "item": whole}));
        output.push(whole);
    }
    let usage = json!({"total_tokens": 7, "input_tokens": 4, "output_tokens": 3,
        "input_token_details": {"text_tokens": 4, "audio_tokens": 0, "image_tokens": 0, "cached_tokens": 2},
        "output_token_details": {"text_tokens": 3, "audio_tokens": 0}});
    say("response.done", response("completed", &output, usage));
    say(
        "rate_limits.updated",
        json!({"rate_limits": [{"name": "tokens", "limit": 1, "remaining": 1, "reset_seconds": 0.1}]}),
    );
    events
}

fn denied() -> Vec<String> {
    spoken("resp_1", "I clean up.", Some(("shell", json!({"command": SECRET}))))
}

/// A provider that tells of its session, and answers request `n` with `answers(n)` in fragments of so many bytes.
async fn provider(size: usize, answers: impl Fn(usize) -> Vec<String> + Send + Sync + 'static) -> Provider {
    let created = json!({"type": "session.created", "event_id": "event_0", "session": {"type": "realtime", "instructions": SECRET}});
    let asked = std::sync::atomic::AtomicUsize::new(0);
    Provider::greeting(&[created.to_string()], move |_, said| match &*kind(said) {
        "response.create" => {
            let number = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Play::cut(&answers(number), size)
        }
        "conversation.item.create" => {
            let item = serde_json::from_str::<Value>(said).unwrap()["item"].take();
            let added = json!({"type": "conversation.item.added", "event_id": "event_2", "item": item});
            Play::events(&[added.to_string()])
        }
        "response.cancel" | "conversation.item.delete" => {
            let event = serde_json::from_str::<Value>(said).unwrap()["event_id"].take();
            let error = json!({"type": "error", "event_id": "event_3", "error": {"type": "invalid_request_error", "message": "no such thing", "event_id": event}});
            Play::events(&[error.to_string()])
        }
        other => panic!("the provider is told of {other}"),
    })
    .await
}

async fn open(gateway: &Gateway) -> Client {
    let mut client = Client::try_open(gateway, "/v1/realtime?model=gpt-realtime", "")
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    let created = client.told().await;
    assert_eq!(created["type"], "session.created");
    assert_eq!(created["session"]["model"], "gpt-realtime");
    assert_eq!(created["session"]["output_modalities"], json!(["text"]));
    assert_eq!(created["session"]["instructions"], "");
    client
}

fn user(text: &str) -> Value {
    json!({"type": "conversation.item.create", "item": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}})
}

impl Client {
    async fn tell(&mut self, message: Value) {
        self.send(Message::text(message.to_string())).await;
    }

    async fn told(&mut self) -> Value {
        serde_json::from_str(&self.next().await.unwrap()).unwrap()
    }

    /// Adds an item, and asks for an answer.
    async fn say(&mut self, text: &str) -> Vec<String> {
        self.tell(user(text)).await;
        for kind in ["conversation.item.added", "conversation.item.done"] {
            let told = self.told().await;
            assert_eq!((&told["type"], &told["item"]["content"][0]["text"]), (&json!(kind), &json!(text)));
        }
        self.tell(json!({"type": "response.create"})).await;
        self.answer_or_rest().await
    }
}

/// The events of an answer without what is written anew.
fn essence(events: &[String]) -> Vec<Value> {
    let events = events.iter().map(|event| serde_json::from_str::<Value>(event).unwrap());
    let of_answer = events.filter(|event| event["type"].as_str().unwrap().starts_with("response."));
    of_answer
        .map(|mut event| {
            let fields = event.as_object_mut().unwrap();
            assert!(fields.remove("event_id").unwrap().is_string());
            if let Some(response) = fields.get_mut("response") {
                for gone in ["audio", "conversation_id", "max_output_tokens", "metadata"] {
                    response.as_object_mut().unwrap().remove(gone);
                }
                if let Some(usage) = response["usage"].as_object_mut() {
                    usage["input_token_details"] =
                        json!({"cached_tokens": usage["input_token_details"]["cached_tokens"]});
                    usage["output_token_details"] = json!({});
                }
            }
            event
        })
        .collect()
}

fn house() -> House {
    let house = House::new();
    house.withhold("shell");
    house.redact();
    house.judge::<BeforeLlmCall>("looks", |_| None);
    house
}

#[tokio::test]
async fn what_is_allowed_passes_event_for_event_at_every_fragmentation() {
    for size in CUTS {
        let events = spoken("resp_1", "Hello th\u{e9}re.", Some(("read", json!({"path": "a b"}))));
        let (played, house) = (events.clone(), house());
        let provider = provider(size, move |_| played.clone()).await;
        let gateway = gateway(&house, &provider, HookSettings::default()).await;
        let mut client = open(&gateway).await;
        for turn in ["one", "two"] {
            let said = client.say(turn).await;
            assert_eq!(essence(&said), essence(&events), "{size}");
            let kinds =
                |events: &[String]| -> Vec<String> { events.iter().map(|event| kind(event)).collect() };
            let (mut said, mut played) = (kinds(&said), kinds(&events));
            played.retain(|kind| kind != "rate_limits.updated");
            said.sort();
            played.sort();
            assert_eq!(said, played, "each item is told of twice, as ever");
        }
        assert_eq!(house.receipts.of(PointId::BeforeLlmCall).len(), 2);
    }
}

#[tokio::test]
async fn what_nobody_looks_at_passes_as_well() {
    let events = denied();
    let played = events.clone();
    let provider = provider(5, move |_| played.clone()).await;
    let gateway =
        crate::support::start(open_settings(&provider.url()), backstop_gateway::Transparent).await.unwrap();
    let mut client = open(&gateway).await;
    for _ in 0..2 {
        assert_eq!(essence(&client.say("hi").await), essence(&events));
    }
}

#[tokio::test]
async fn a_provider_hears_of_a_session_with_each_request() {
    let provider = provider(usize::MAX, |_| spoken("resp_1", "Done.", None)).await;
    let gateway = gateway(&house(), &provider, HookSettings::default()).await;
    let mut client = open(&gateway).await;
    let tools = json!([{"type": "function", "name": "read", "description": "Reads.", "parameters": {"type": "object"}}]);
    let session = json!({"type": "realtime", "model": "gpt-realtime", "instructions": "Be kind.", "tools": tools,
        "output_modalities": ["text"], "audio": {"output": {"voice": "marin"}}, "max_output_tokens": "inf"});
    client.tell(json!({"type": "session.update", "event_id": "mine", "session": session})).await;
    let updated = client.told().await;
    assert_eq!(
        (&updated["type"], &updated["session"]["instructions"]),
        (&json!("session.updated"), &json!("Be kind."))
    );
    assert_eq!(updated["session"]["tools"], tools);
    assert_eq!(provider.heard(), [""; 0], "not before an answer is asked for");
    client.tell(json!({"type": "conversation.item.create", "item": {"id": "item_x", "type": "message", "role": "system", "content": [{"type": "input_text", "text": "Short."}]}})).await;
    client.told().await;
    client.told().await;
    client.say("hi").await;
    client.tell(json!({"type": "conversation.item.create", "item": {"type": "function_call_output", "call_id": "call_1", "output": "x"}})).await;
    client.tell(json!({"type": "response.create", "event_id": "other", "response": {"instructions": "Be brief.", "max_output_tokens": 9}})).await;
    client.answer().await;
    let heard: Vec<Value> = provider.heard().iter().map(|said| serde_json::from_str(said).unwrap()).collect();
    let kinds: Vec<&str> = heard.iter().map(|said| said["type"].as_str().unwrap()).collect();
    let (item, ask) = ("conversation.item.create", "response.create");
    assert_eq!(kinds, [item, item, ask, item, ask]);
    assert_eq!((&heard[0]["item"]["role"], &heard[0]["item"]["id"]), (&json!("system"), &json!("item_x")));
    assert_eq!(heard[1]["item"]["content"], json!([{"type": "input_text", "text": "hi"}]));
    let asked = json!({"output_modalities": ["text"], "instructions": "Be kind.", "tools": tools, "max_output_tokens": "inf"});
    assert_eq!(heard[2]["response"], asked);
    assert_eq!((&heard[3]["item"]["call_id"], &heard[3]["item"]["output"]), (&json!("call_1"), &json!("x")));
    assert_eq!(heard[4]["event_id"], "other");
    assert_eq!(heard[4]["response"]["instructions"], "Be brief.");
    assert_eq!(heard[4]["response"]["max_output_tokens"], 9);
}

#[tokio::test]
async fn a_denied_call_never_leaves_and_its_refusal_comes_with_the_next_request() {
    for size in CUTS {
        let fine = spoken("resp_2", "Done.", None);
        let second = fine.clone();
        let provider = provider(size, move |n| if n == 0 { denied() } else { second.clone() }).await;
        let gateway = gateway(&house(), &provider, HookSettings::default()).await;
        let mut client = open(&gateway).await;
        let said = client.say("hi").await;
        let all = said.concat();
        assert!(
            !all.contains(SECRET) && !all.contains("function_call") && !all.contains("\"item_b\""),
            "{size}: {all}"
        );
        assert!(all.contains("[backstop] withheld `shell`"), "{size}: {all}");
        assert_eq!(kind(said.last().unwrap()), "response.done");
        assert_eq!(essence(&client.say("more").await), essence(&fine), "{size}");
        let heard = provider.heard();
        let refusal = heard.iter().find(|said| said.contains("function_call_output")).unwrap();
        assert!(refusal.contains("call_1") && refusal.contains("refused"), "{refusal}");
    }
}

#[tokio::test]
async fn a_model_goes_on_after_its_calls_were_refused() {
    let answers = |n| if n == 0 { denied() } else { spoken("resp_2", "I stop.", None) };
    let provider = provider(11, answers).await;
    let hooks = HookSettings { refusals: 1, ..HookSettings::default() };
    let gateway = gateway(&house(), &provider, hooks).await;
    let mut client = open(&gateway).await;
    let said = client.say("hi").await.concat();
    assert!(said.contains("I sto") && said.contains("response.done") && !said.contains(SECRET), "{said}");
    let kinds: Vec<String> = provider.heard().iter().map(|said| kind(said)).collect();
    let (item, ask) = ("conversation.item.create", "response.create");
    assert_eq!(kinds, [item, ask, item, ask], "the refusal alone is new to the conversation");
}

#[tokio::test]
async fn a_secret_is_taken_out_of_what_streams() {
    for size in CUTS {
        let provider = provider(size, |_| spoken("resp_1", &format!("It is {SECRET}."), None)).await;
        let gateway = gateway(&house(), &provider, HookSettings::default()).await;
        let mut client = open(&gateway).await;
        let said = client.say("hi").await;
        let deltas = said.iter().filter(|event| kind(event) == "response.output_text.delta");
        let text: String = deltas
            .map(|event| serde_json::from_str::<Value>(event).unwrap()["delta"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(text, "It is [gone].", "{size}");
        assert!(!said.concat().contains(SECRET), "{size}: {said:?}");
    }
}

#[tokio::test]
async fn a_refused_request_reaches_nobody_and_is_no_part_of_the_conversation() {
    for blocked in [BlockedForm::Error, BlockedForm::Answer] {
        let house = House::new();
        house.judge::<BeforeLlmCall>("no", |event| {
            let text: String = event.messages.iter().map(Said::visible_text).collect();
            let system = event.system_prompt.contains(SECRET);
            (system || text.contains(SECRET)).then(|| BeforeLlmCallOutcome {
                block: Some(true),
                block_reason: Some("not that".into()),
                ..BeforeLlmCallOutcome::default()
            })
        });
        let provider = provider(usize::MAX, |_| spoken("resp_1", "Done.", None)).await;
        let gateway = gateway(&house, &provider, HookSettings { blocked, ..HookSettings::default() }).await;
        let mut client = open(&gateway).await;
        let said = client.say(SECRET).await;
        let last: Value = serde_json::from_str(said.last().unwrap()).unwrap();
        match blocked {
            BlockedForm::Error => assert_eq!(last["error"]["code"], "blocked_by_policy", "{last}"),
            BlockedForm::Answer => {
                assert_eq!(
                    (&last["type"], &last["response"]["status"]),
                    (&json!("response.done"), &json!("completed"))
                );
                assert!(said.concat().contains("[backstop] blocked: not that"));
            }
        }
        client.tell(json!({"type": "response.create", "response": {"instructions": SECRET}})).await;
        client.answer().await;
        assert_eq!(provider.heard(), [""; 0]);
        client.say("fine").await;
        assert!(!provider.heard().concat().contains(SECRET));
        assert_eq!(provider.heard().len(), 2);
    }
}

#[tokio::test]
async fn a_rewritten_request_is_what_the_provider_hears() {
    let provider = provider(usize::MAX, |_| spoken("resp_1", "Done.", None)).await;
    let house = House::new();
    house.judge::<BeforeLlmCall>("rewrites", |event| {
        let mut messages = event.messages.clone();
        for message in &mut messages {
            message.set_visible_text(&"something else".into());
        }
        Some(BeforeLlmCallOutcome { messages: Some(messages), ..BeforeLlmCallOutcome::default() })
    });
    let gateway = gateway(&house, &provider, HookSettings::default()).await;
    let mut client = open(&gateway).await;
    client.say("hello").await;
    let heard = provider.heard();
    assert!(heard[0].contains("something else") && !heard.concat().contains("hello"), "{heard:?}");
}

#[tokio::test]
async fn nothing_but_text_and_its_calls_passes() {
    let provider = provider(usize::MAX, |_| spoken("resp_1", "Done.", None)).await;
    let gateway = gateway(&house(), &provider, HookSettings::default()).await;
    let mut client = open(&gateway).await;
    let item = |item: Value| json!({"type": "conversation.item.create", "item": item});
    let session = |fields: Value| json!({"type": "session.update", "session": fields});
    let response = |fields: Value| json!({"type": "response.create", "response": fields});
    for message in [
        json!({"type": "input_audio_buffer.append", "audio": "AAAA"}),
        json!({"type": "input_audio_buffer.commit"}),
        json!({"type": "conversation.item.retrieve", "item_id": "item_a"}),
        json!({"type": "conversation.item.truncate", "item_id": "item_a", "content_index": 0, "audio_end_ms": 1}),
        json!({"type": "Response.create"}),
        json!({"type": "transcription_session.update", "session": {}}),
        json!({"type": "response.create", "note": SECRET}),
        json!({"type": "response.create", "event_id": "two words"}),
        json!({"type": "conversation.item.delete", "item_id": "a text of words"}),
        json!({"type": "response.cancel"}),
        item(
            json!({"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": "AAAA"}]}),
        ),
        item(
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_audio", "audio": "AAAA"}]}),
        ),
        item(json!({"type": "message", "role": "user", "content": "text"})),
        item(
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": {"x": SECRET}}]}),
        ),
        item(
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x", "note": SECRET}]}),
        ),
        item(
            json!({"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": {"url": SECRET}}]}),
        ),
        item(json!({"type": "message", "role": "user", "content": [], "name": SECRET})),
        item(json!({"type": "function_call", "call_id": "c", "name": "x", "arguments": {"x": SECRET}})),
        item(
            json!({"type": "function_call", "call_id": "c", "name": "x", "arguments": "{}", "caller": {"x": SECRET}}),
        ),
        // It would be a text only after it was judged.
        item(
            json!({"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": SECRET}]}),
        ),
        item(
            json!({"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}]}),
        ),
        item(json!({"type": "function_call_output", "call_id": "c", "output": "x", "note": SECRET})),
        item(json!({"type": "mcp_approval_response", "approval_request_id": "m", "approve": SECRET})),
        json!({"type": "response.create", "event_id": "backstop_mine"}),
        item(json!({"type": "message", "role": "tool", "content": []})),
        item(json!({"type": "future_item"})),
        item(json!({"type": "function_call_output", "id": "two words", "call_id": "c", "output": "x"})),
        json!({"type": "conversation.item.create", "previous_item_id": "root", "item": {"type": "function_call_output", "call_id": "c", "output": "x"}}),
        session(json!({"type": "transcription"})),
        session(json!({"type": "realtime", "output_modalities": ["audio"]})),
        session(json!({"type": "realtime", "output_modalities": ["text", "audio"]})),
        session(json!({"type": "realtime", "model": "another"})),
        session(json!({"type": "realtime", "tracing": {"metadata": {"x": SECRET}}})),
        session(json!({"type": "realtime", "max_output_tokens": SECRET})),
        response(json!({"output_modalities": ["audio"]})),
        response(json!({"conversation": "none"})),
        response(json!({"input": [{"type": "item_reference", "id": "item_a"}]})),
        response(json!({"future": SECRET})),
    ] {
        client.tell(message.clone()).await;
        let told = client.told().await;
        assert_eq!((&told["type"], &told["status"]), (&json!("error"), &json!(400)), "{message}: {told}");
    }
    for message in ["not JSON", "[]", r#"{"type":"response.create","type":"response.cancel"}"#] {
        client.send(Message::text(message)).await;
        assert_eq!(client.told().await["status"], 400, "{message}");
    }
    assert_eq!(provider.heard(), [""; 0]);
    assert_eq!(kind(client.say("fine").await.last().unwrap()), "response.done");
}

#[tokio::test]
async fn what_waits_is_bounded_as_one_request_is() {
    let provider = provider(usize::MAX, |_| spoken("resp_1", "Done.", None)).await;
    let mut settings = open_settings(&provider.url());
    settings.limits.body_bytes = 10_000;
    let gateway = hooked(&house(), settings, HookSettings::default()).await;
    let mut client = open(&gateway).await;
    let instructions = |bytes: usize| json!({"type": "session.update", "session": {"type": "realtime", "instructions": "x".repeat(bytes)}});
    let mut item = user(&"x".repeat(4_000));
    item["item"]["id"] = "item_x".into();
    for (message, fits) in [
        (instructions(4_000), true),
        (item, true),
        (user(&"x".repeat(4_000)), false),
        (instructions(8_000), false),
        (json!({"type": "response.create", "response": {"metadata": {"x": "x".repeat(4_000)}}}), false),
        (json!({"type": "conversation.item.delete", "item_id": "item_x"}), true),
        (instructions(8_000), true),
    ] {
        client.tell(message).await;
        let told = client.told().await;
        assert_eq!(told["status"] == 413, !fits, "{told}");
        if told["type"] == "conversation.item.added" {
            client.told().await;
        }
    }
    assert_eq!(provider.heard(), [""; 0]);
    assert_eq!(kind(client.say("hi").await.last().unwrap()), "response.done");
}

#[tokio::test]
async fn items_for_which_there_was_no_room_are_asked_with_again() {
    let mut whole = spoken("resp_1", "Half of it", None);
    whole.retain(|event| kind(event) != "rate_limits.updated");
    let last = whole.pop().unwrap();
    let provider = Provider::greeting(&[], move |number, said| match &*kind(said) {
        "response.create" if number == 0 => Play::events(&whole),
        "response.create" => Play::events(&spoken("resp_2", "Done.", None)),
        "response.cancel" => Play::events(std::slice::from_ref(&last)),
        _ => Play::default(),
    })
    .await;
    let mut settings = open_settings(&provider.url());
    settings.limits.requests = 1;
    let gateway = hooked(&house(), settings, HookSettings::default()).await;
    let (mut client, mut other) = (open(&gateway).await, open(&gateway).await);
    other.tell(json!({"type": "response.create"})).await;
    eventually("it is asked", || provider.heard().len() == 1).await;
    let said = client.say("hi").await;
    let told: Value = serde_json::from_str(&said[0]).unwrap();
    assert_eq!((&told["type"], &told["status"]), (&json!("error"), &json!(503)), "{told}");
    other.tell(json!({"type": "response.cancel"})).await;
    other.answer().await;
    for tries in 0.. {
        client.tell(json!({"type": "response.create"})).await;
        if kind(client.answer().await.last().unwrap()) == "response.done" {
            break;
        }
        assert!(tries < 100, "nothing becomes free");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let heard = provider.heard();
    assert!(heard[2].contains("\"hi\""), "{heard:?}");
    assert_eq!(kind(client.say("more").await.last().unwrap()), "response.done");
    assert_eq!(provider.heard().concat().matches("\"hi\"").count(), 1, "it was asked with once");
}

#[tokio::test]
async fn an_error_that_is_not_about_the_request_ends_the_connection() {
    for hooks in [true, false] {
        let provider = Provider::greeting(&[], |_, said| match &*kind(said) {
            "conversation.item.create" => Play::events(&[
                json!({"type": "error", "event_id": "e", "error": {"type": "invalid_request_error", "message": "no such item", "event_id": null}}).to_string(),
            ]),
            _ => Play::default(),
        })
        .await;
        let gateway = match hooks {
            true => gateway(&house(), &provider, HookSettings::default()).await,
            false => crate::support::start(open_settings(&provider.url()), backstop_gateway::Transparent)
                .await
                .unwrap(),
        };
        let mut client = open(&gateway).await;
        let said = client.say("hi").await;
        assert_eq!(kind(said.last().unwrap()), "error", "{said:?}");
        client.tell(json!({"type": "response.create"})).await;
        let (said, goodbye) = client.rest().await;
        assert_eq!((said.len(), goodbye.0), (0, 1011), "{said:?}");
        assert_eq!(provider.heard().len(), 2, "the answer to the first may come yet");
    }
}

#[tokio::test]
async fn an_error_in_place_of_an_answer_leaves_the_connection() {
    let provider = Provider::greeting(&[], |number, said| match &*kind(said) {
        "response.create" if number < 2 => {
            let event = serde_json::from_str::<Value>(said).unwrap()["event_id"].take();
            assert!(event.is_string(), "{said}");
            let error = json!({"type": "error", "event_id": "e", "error": {"type": "invalid_request_error", "message": "no", "event_id": event}});
            Play::events(&[error.to_string()])
        }
        "response.create" => Play::events(&spoken("resp_1", "Done.", None)),
        _ => Play::default(),
    })
    .await;
    let gateway = gateway(&house(), &provider, HookSettings::default()).await;
    let mut client = open(&gateway).await;
    for (message, event) in [
        (json!({"type": "response.create"}), Value::Null),
        (json!({"type": "response.create", "event_id": "mine"}), json!("mine")),
    ] {
        client.tell(message).await;
        let told = client.told().await;
        assert_eq!((&told["type"], &told["error"]["event_id"]), (&json!("error"), &event), "{told}");
    }
    assert_eq!(kind(client.say("hi").await.last().unwrap()), "response.done");
}

#[tokio::test]
async fn the_answers_of_a_session_are_counted() {
    let provider = provider(usize::MAX, |_| spoken("resp_1", "Done.", None)).await;
    let (house, iterations) = (house(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&iterations);
    house.judge::<BeforeLlmCall>("counts", move |event| {
        seen.lock().unwrap().push(event.iteration);
        None
    });
    let gateway = gateway(&house, &provider, HookSettings::default()).await;
    for _ in 0..2 {
        let mut client = open(&gateway).await;
        for turn in ["one", "two", "three"] {
            client.say(turn).await;
        }
    }
    assert_eq!(*iterations.lock().unwrap(), [0, 1, 2, 0, 1, 2], "each session by itself");
}

#[tokio::test]
async fn items_that_are_taken_away_are_not_asked_with() {
    let provider = provider(usize::MAX, |_| spoken("resp_1", "Done.", None)).await;
    let gateway = gateway(&house(), &provider, HookSettings::default()).await;
    let mut client = open(&gateway).await;
    let mut item = user(SECRET);
    item["item"]["id"] = "item_x".into();
    client.tell(item).await;
    client.told().await;
    client.told().await;
    for id in ["item_x", "item_of_before"] {
        client.tell(json!({"type": "conversation.item.delete", "item_id": id})).await;
        let told = client.told().await;
        assert_eq!((&told["type"], &told["item_id"]), (&json!("conversation.item.deleted"), &json!(id)));
    }
    // What the provider has to say to that is told nobody.
    assert_eq!(kind(client.say("hi").await.last().unwrap()), "response.done");
    let heard = provider.heard();
    assert!(!heard.concat().contains(SECRET) && !heard.concat().contains("item_x"), "{heard:?}");
    assert!(heard[0].contains("item_of_before"), "{heard:?}");
}

#[tokio::test]
async fn an_answer_can_be_cancelled() {
    let mut half = spoken("resp_1", "Half of it", None);
    half.retain(|event| !["rate_limits.updated", "response.done"].contains(&&*kind(event)));
    let mut last = spoken("resp_1", "Half of it", None);
    last.retain(|event| kind(event) == "response.done");
    let mut end: Value = serde_json::from_str(&last[0]).unwrap();
    end["response"]["status"] = "cancelled".into();
    end["response"]["status_details"] = json!({"type": "cancelled", "reason": "client_cancelled"});
    let provider = Provider::greeting(&[], move |_, said| match &*kind(said) {
        "response.create" => Play::events(&half),
        "response.cancel" => Play::events(&[end.to_string()]),
        _ => Play::default(),
    })
    .await;
    let gateway = gateway(&house(), &provider, HookSettings::default()).await;
    let mut client = open(&gateway).await;
    client.tell(json!({"type": "response.create"})).await;
    eventually("it is asked", || provider.heard().len() == 1).await;
    client.tell(json!({"type": "response.cancel", "event_id": "mine", "response_id": SECRET})).await;
    let said = client.answer().await;
    let last: Value = serde_json::from_str(said.last().unwrap()).unwrap();
    let details = json!({"type": "cancelled", "reason": "client_cancelled"});
    assert_eq!(
        (&last["response"]["status"], &last["response"]["status_details"]),
        (&json!("cancelled"), &details)
    );
    assert!(!provider.heard().concat().contains(SECRET));
}

#[tokio::test]
async fn what_a_provider_adds_to_the_wire_is_judged_as_a_call_of_that_name() {
    let event = json!({"type": "response.future_call", "event_id": "event_9", "response_id": "resp_1", "command": SECRET});
    let beside = json!({"type": "future.call", "event_id": "event_9", "command": SECRET});
    let other = json!({"type": "response.output_text.delta", "event_id": "e", "response_id": "resp_9", "item_id": "item_a", "output_index": 0, "content_index": 0, "delta": SECRET});
    let sound = json!({"type": "response.output_audio.delta", "event_id": "e", "response_id": "resp_1", "item_id": "item_a", "output_index": 0, "content_index": 0, "delta": SECRET});
    let spelled = json!({"type": "response.output_audio_transcript.delta", "event_id": "e", "response_id": "resp_1", "item_id": "item_a", "output_index": 0, "content_index": 0, "delta": SECRET});
    for event in [event, beside, other, sound, spelled] {
        let mut events = spoken("resp_1", "Hi.", None);
        events.insert(3, event.to_string());
        let provider = provider(13, move |_| events.clone()).await;
        let house = House::new();
        house.judge::<AfterLlmCall>("none", |_| {
            Some(AfterLlmCallOutcome {
                tool_calls: Some(ToolCallIds::new([""; 0])),
                ..AfterLlmCallOutcome::default()
            })
        });
        let gateway = gateway(&house, &provider, HookSettings::default()).await;
        let mut client = open(&gateway).await;
        let said = client.say("hi").await;
        assert!(!said.is_empty() && !said.concat().contains(SECRET), "{event}: {said:?}");
    }
}

#[tokio::test]
async fn a_provider_that_breaks_off_ends_the_turn_with_an_error_wherever_it_does() {
    let whole = Play::cut(&denied(), 40).bytes;
    let unfinished = denied().into_iter().take_while(|event| kind(event) != "response.done");
    let end = Play::cut(&unfinished.collect::<Vec<_>>(), 40).bytes.len();
    for cut in (0..end).step_by(311) {
        let bytes = whole[..cut].to_vec();
        let provider = Provider::greeting(&[], move |_, said| match &*kind(said) {
            "response.create" => Play { bytes: bytes.clone(), ..Play::default() }.then_breaks(),
            _ => Play::default(),
        })
        .await;
        let gateway = gateway(&house(), &provider, HookSettings::default()).await;
        let mut client = open(&gateway).await;
        client.tell(json!({"type": "response.create"})).await;
        let (said, goodbye) = client.rest().await;
        assert_eq!((kind(said.last().unwrap()), goodbye.0), ("error".to_owned(), 1011), "{cut}: {said:?}");
        let all = said.concat();
        assert!(!all.contains(SECRET) && !all.contains("function_call"), "{cut}: {all}");
    }
}

#[tokio::test]
async fn what_waits_for_an_answer_counts() {
    let provider = provider(usize::MAX, |_| spoken("resp_1", "Done.", None)).await;
    let mut settings = open_settings(&provider.url());
    settings.limits.buffered_bytes = 4_000;
    let gateway = hooked(&house(), settings, HookSettings::default()).await;
    let mut client = open(&gateway).await;
    let mut other = open(&gateway).await;
    client.tell(user(&"x".repeat(2_000))).await;
    client.told().await;
    client.told().await;
    other.tell(user(&"x".repeat(2_000))).await;
    let told = other.told().await;
    assert_eq!((&told["type"], &told["status"]), (&json!("error"), &json!(503)), "{told}");
    let session =
        json!({"type": "session.update", "session": {"type": "realtime", "instructions": "x".repeat(900)}});
    other.tell(session).await;
    assert_eq!(other.told().await["status"], 503, "the message and what is kept of it");
    drop(client);
    for tries in 0.. {
        other.tell(user(&"x".repeat(1_000))).await;
        if other.told().await["type"] == "conversation.item.added" {
            break;
        }
        assert!(tries < 100, "nothing becomes free");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_session_goes_where_its_model_is_and_with_the_operators_key() {
    let provider = provider(usize::MAX, |_| spoken("resp_1", "Done.", None)).await;
    let mut settings = open_settings(&provider.url());
    let openai = settings.providers.get_mut("openai").unwrap();
    openai.credential = Credential::Key(secret("sk-operator"));
    openai.models = vec!["gpt-realtime".to_owned()];
    let gateway = hooked(&house(), settings, HookSettings::default()).await;
    let answer = Client::try_open(&gateway, "/v1/realtime?model=another", "").await.err().unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    let mut client = open(&gateway).await;
    assert_eq!(kind(client.say("hi").await.last().unwrap()), "response.done");
    let heads = provider.heads.lock().unwrap().clone();
    let [head] = heads.as_slice() else { panic!("{heads:?}") };
    assert!(head.starts_with("GET /v1/realtime?model=gpt-realtime HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: Bearer sk-operator\r\n"), "{head}");
}
