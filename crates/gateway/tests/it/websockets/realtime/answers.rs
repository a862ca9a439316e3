//! What passes, what is judged, and what is told of it.

use super::*;

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
    let mut client = open_in_text(&gateway).await;
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
    assert!(!said.contains("\"response_id\":null") && !said.contains("resp_2"), "it is one answer: {said}");
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
async fn turns_that_say_the_same_are_runs_of_their_own() {
    let provider = provider(usize::MAX, |n| spoken(&format!("resp_{n}"), "Done.", None)).await;
    let (house, runs) = runs();
    let gateway = gateway(&house, &provider, HookSettings::default()).await;
    for _ in 0..2 {
        let mut client = open(&gateway).await;
        for _ in 0..3 {
            client.say("go on").await;
        }
    }
    assert_eq!(runs.lock().unwrap().len(), 6);
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
