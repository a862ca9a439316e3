//! What does not pass, what is too much, and how sessions end.

use super::*;

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
        let asked = provider.heard().iter().filter(|said| kind(said) == "response.create").count();
        assert_eq!(asked, 1, "the answer to the first may come yet");
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
