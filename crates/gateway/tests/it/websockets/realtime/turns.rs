//! Who speaks when: what is heard, what is answered, and what a session with sound may be told.

use backstop_hooks::conversation::Part;

use super::media::*;
use super::*;

#[tokio::test]
async fn what_was_heard_and_is_blocked_ends_the_session() {
    let manual = json!({"input": {"turn_detection": null, "transcription": {"model": "whisper-1"}}});
    let quiet = json!({"input": {"turn_detection": {"type": "semantic_vad", "create_response": false}, "transcription": {"model": "whisper-1"}}});
    for (audio, ask) in [(transcribing(), false), (manual, true), (quiet, false)] {
        for rewrites in [false, true] {
            let house = House::new();
            if rewrites {
                house.judge::<BeforeLlmCall>("rewrites", |event| {
                    let text = serde_json::to_string(&event.messages).unwrap().replace(SECRET, "[gone]");
                    let messages = Some(serde_json::from_str(&text).unwrap());
                    Some(BeforeLlmCallOutcome { messages, ..BeforeLlmCallOutcome::default() })
                });
            } else {
                blocking(&house);
            }
            let all = [committed("item_u"), written("item_u", SECRET)].concat();
            let provider = listener(5, all, |_| aloud("resp_1", &[("QUJD", "Fine.")], None)).await;
            let gateway = gateway(&house, &provider, passing()).await;
            let mut client = speaking(&gateway, audio.clone()).await;
            if ask {
                client.tell(json!({"type": "input_audio_buffer.commit"})).await;
                client.tell(json!({"type": "response.create"})).await;
            }
            let (said, goodbye) = client.rest().await;
            assert_eq!(goodbye.0, 1008, "{audio}: {said:?}");
            assert!(!said.concat().contains(SECRET) && !said.concat().contains("QUJD"), "{said:?}");
            assert!(!kinds(&provider).contains(&"response.create".to_owned()), "{audio}");
        }
    }
}

#[tokio::test]
async fn what_was_heard_is_judged_and_told_though_nobody_asks() {
    let quiet = json!({"input": {"turn_detection": {"type": "server_vad", "create_response": false}, "transcription": {"model": "whisper-1"}}});
    let all = [committed("item_u"), written("item_u", "hello")].concat();
    let provider = listener(5, all, |_| aloud("resp_1", &[("QUJD", "Hi.")], None)).await;
    let house = house();
    let gateway = gateway(&house, &provider, passing()).await;
    let mut client = speaking(&gateway, quiet).await;
    loop {
        let told = client.told().await;
        if told["type"] == "conversation.item.input_audio_transcription.completed" {
            assert_eq!(told["transcript"], "hello");
            break;
        }
    }
    assert_eq!(house.receipts.of(PointId::BeforeLlmCall).len(), 2);
    assert!(!kinds(&provider).contains(&"response.create".to_owned()), "nobody wished for an answer");
    client.tell(json!({"type": "response.create"})).await;
    assert_eq!(kind(client.answer().await.last().unwrap()), "response.done");
    assert_eq!(provider.heard().concat().matches("hello").count(), 0, "the provider has heard it");
}

#[tokio::test]
async fn a_request_waits_for_the_words_of_what_was_said() {
    for late in [false, true] {
        let provider = Provider::greeting(&[], move |_, said| match &*kind(said) {
            "input_audio_buffer.commit" => {
                let taken = json!({"type": "input_audio_buffer.committed", "event_id": "e", "item_id": "item_u", "previous_item_id": null});
                let all: Vec<String> = written("item_u", "say hello").iter().map(Value::to_string).collect();
                let taken = Play::events(&[taken.to_string()]);
                if late { taken.then(50, &all) } else { Play { bytes: [taken.bytes, Play::events(&all).bytes].concat(), ..Play::default() } }
            }
            "response.create" => Play::events(&aloud("resp_1", &[("QUJD", "Hello.")], None)),
            _ => Play::default(),
        })
        .await;
        let house = house();
        let seen = Arc::new(Mutex::new(String::new()));
        let texts = Arc::clone(&seen);
        house.judge::<BeforeLlmCall>("hears", move |event| {
            let text: String = event.messages.iter().map(Said::visible_text).collect();
            texts.lock().unwrap().push_str(&text);
            None
        });
        let gateway = gateway(&house, &provider, passing()).await;
        let manual = json!({"input": {"turn_detection": null, "transcription": {"model": "whisper-1"}}});
        let mut client = speaking(&gateway, manual).await;
        client.tell(json!({"type": "input_audio_buffer.commit", "event_id": "mine"})).await;
        client.tell(json!({"type": "response.create"})).await;
        let said = client.answer().await;
        let place = |of: &str| said.iter().position(|event| kind(event) == of).unwrap();
        let transcript = place("conversation.item.input_audio_transcription.completed");
        assert!(transcript < place("response.created"), "{said:?}");
        assert_eq!(*seen.lock().unwrap(), "say hello");
        let asked = heard(&provider).into_iter().filter(|said| said["type"] == "response.create").count();
        assert_eq!(asked, 1, "the client asked, and nobody else");
    }
}

#[tokio::test]
async fn words_that_are_not_to_come_are_not_waited_for() {
    let failed = json!({"type": "conversation.item.input_audio_transcription.failed", "event_id": "e", "item_id": "item_u", "content_index": 0,
        "error": {"type": "transcription_error", "code": "audio_unintelligible", "message": SECRET}});
    let all = [committed("item_u"), vec![failed]].concat();
    let provider = listener(5, all, |_| aloud("resp_1", &[("QUJD", "What?")], None)).await;
    let gateway = gateway(&house(), &provider, passing()).await;
    let mut client = speaking(&gateway, transcribing()).await;
    let said = client.answer().await;
    let all = said.concat();
    assert!(
        all.contains("audio_unintelligible") && all.contains("QUJD") && !all.contains(SECRET),
        "{said:?}"
    );
}

#[tokio::test]
async fn words_that_never_come_end_the_session() {
    let provider = listener(5, committed("item_u"), |_| Vec::new()).await;
    let mut settings = open_settings(&provider.url());
    settings.timeouts.first_byte = std::time::Duration::from_millis(50);
    let gateway = hooked(&house(), settings, passing()).await;
    let mut client = speaking(&gateway, transcribing()).await;
    let (said, goodbye) = client.rest().await;
    assert_eq!((kind(said.last().unwrap()), goodbye.0), ("error".to_owned(), 1011), "{said:?}");
    assert!(!kinds(&provider).contains(&"response.create".to_owned()));
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for_ends_the_session() {
    for call in [None, Some(("read", json!({})))] {
        let all: Vec<Value> = aloud("resp_9", &[("QUJD", SECRET)], call)
            .iter()
            .map(|event| serde_json::from_str(event).unwrap())
            .collect();
        let manual = json!({"input": {"turn_detection": null}});
        let provider = listener(5, all, |_| Vec::new()).await;
        let gateway = gateway(&house(), &provider, passing()).await;
        let mut client = speaking(&gateway, manual).await;
        client.tell(json!({"type": "input_audio_buffer.commit"})).await;
        let (said, goodbye) = client.rest().await;
        assert_eq!((said.len(), goodbye.0), (0, 1011), "{said:?}");
    }
}

#[tokio::test]
async fn who_begins_to_speak_ends_an_answer_where_that_is_wished_for() {
    for (interrupts, size) in [(true, 3), (true, usize::MAX), (false, usize::MAX)] {
        let whole = aloud("resp_1", &[("QUJD", "A long story.")], None);
        let (mut half, mut end) = (whole.clone(), whole);
        half.retain(|event| kind(event) != "response.done" && kind(event) != "rate_limits.updated");
        half.push(json!({"type": "input_audio_buffer.speech_started", "event_id": "e", "item_id": "item_v", "audio_start_ms": 5}).to_string());
        end.retain(|event| kind(event) == "response.done");
        let mut cancelled: Value = serde_json::from_str(&end[0]).unwrap();
        cancelled["response"]["status"] = "cancelled".into();
        cancelled["response"]["status_details"] = json!({"type": "cancelled", "reason": "client_cancelled"});
        let provider = Provider::greeting(&[], move |_, said| match &*kind(said) {
            "response.create" if interrupts => Play::cut(&half, size),
            "response.create" => Play::cut(&[half.clone(), end.clone()].concat(), size),
            "response.cancel" => Play::cut(&[cancelled.to_string()], size),
            _ => Play::default(),
        })
        .await;
        let gateway = gateway(&house(), &provider, passing()).await;
        let mut client = open(&gateway).await;
        client.tell(session(json!({"input": {"turn_detection": {"type": "server_vad", "interrupt_response": interrupts}}}))).await;
        client.told().await;
        client.tell(json!({"type": "response.create"})).await;
        let said = client.answer().await;
        let last: Value = serde_json::from_str(said.last().unwrap()).unwrap();
        let details = json!({"type": "cancelled", "reason": "turn_detected"});
        let expected = if interrupts { ("cancelled", details) } else { ("completed", Value::Null) };
        assert_eq!(
            (&last["response"]["status"], &last["response"]["status_details"]),
            (&json!(expected.0), &expected.1)
        );
        assert_eq!(kinds(&provider).contains(&"response.cancel".to_owned()), interrupts);
    }
}

#[tokio::test]
async fn settings_of_sound_are_words_and_numbers_and_are_told_before_they_are_needed() {
    let provider = listener(usize::MAX, Vec::new(), |_| aloud("resp_1", &[("QUJD", "Hi.")], None)).await;
    let gateway = gateway(&house(), &provider, passing()).await;
    let mut client = open(&gateway).await;
    let input = |fields: Value| session(json!({"input": fields}));
    let output = |fields: Value| session(json!({"output": fields}));
    for message in [
        input(json!({"transcription": {"model": "whisper-1", "prompt": SECRET}})),
        input(json!({"transcription": {"model": "whisper-1", "keywords": [SECRET]}})),
        input(json!({"transcription": {"model": format!("two words {SECRET}")}})),
        input(json!({"transcription": {"language": {"x": SECRET}}})),
        input(json!({"turn_detection": {"type": "server_vad", "note": SECRET}})),
        input(json!({"turn_detection": {"type": "server_vad", "create_response": "yes"}})),
        input(json!({"turn_detection": "server_vad"})),
        input(json!({"noise_reduction": {"type": "a text of words"}})),
        input(json!({"format": {"type": "audio/pcm", "note": SECRET}})),
        input(json!({"format": null})),
        input(json!({"note": SECRET})),
        output(json!({"voice": "a voice that says this"})),
        output(json!({"voice": {"id": "voice_1", "note": SECRET}})),
        output(json!({"speed": SECRET})),
        output(json!({"note": SECRET})),
        session(json!({"note": SECRET})),
        session(json!(SECRET)),
        json!({"type": "session.update", "session": {"type": "realtime", "output_modalities": ["text", "audio"]}}),
        json!({"type": "response.create", "response": {"audio": {"input": {}}}}),
        json!({"type": "response.create", "response": {"output_modalities": [SECRET]}}),
        json!({"type": "input_audio_buffer.append"}),
        json!({"type": "input_audio_buffer.append", "audio": format!("a text {SECRET}")}),
        json!({"type": "input_audio_buffer.append", "audio": "AAAA", "text": SECRET}),
        json!({"type": "input_audio_buffer.append", "audio": "A=AA"}),
        json!({"type": "input_audio_buffer.commit", "text": SECRET}),
        json!({"type": "conversation.item.truncate", "item_id": "item_a", "content_index": 0}),
        json!({"type": "conversation.item.truncate", "item_id": "item_a", "content_index": 0, "audio_end_ms": SECRET}),
        json!({"type": "conversation.item.retrieve", "item_id": "item_a"}),
        json!({"type": "output_audio_buffer.clear"}),
        json!({"type": "conversation.item.create", "item": {"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": "AAAA", "transcript": SECRET}]}}),
        json!({"type": "conversation.item.create", "item": {"type": "message", "role": "user", "content": [{"type": "input_audio"}]}}),
        json!({"type": "conversation.item.create", "item": {"type": "message", "role": "system", "content": [{"type": "input_audio", "audio": "AAAA"}]}}),
        json!({"type": "conversation.item.create", "item": {"type": "message", "role": "assistant", "content": [{"type": "output_audio", "audio": "AAAA"}]}}),
    ] {
        client.tell(message.clone()).await;
        let told = client.told().await;
        assert_eq!((&told["type"], &told["status"]), (&json!("error"), &json!(400)), "{message}: {told}");
    }
    let audio = json!({
        "input": {
            "format": {"type": "audio/pcm", "rate": 24_000}, "noise_reduction": {"type": "near_field"}, "transcription": null,
            "turn_detection": {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300, "idle_timeout_ms": null},
        },
        "output": {"format": {"type": "audio/pcmu"}, "voice": "marin", "speed": 1.25},
    });
    client.tell(session(audio.clone())).await;
    let told = client.told().await;
    assert_eq!(told["session"]["output_modalities"], json!(["audio"]));
    assert_eq!(told["session"]["audio"]["output"], audio["output"]);
    assert_eq!(provider.heard(), [""; 0]);
    client.tell(json!({"type": "response.create", "response": {"output_modalities": ["text"], "audio": {"output": {"voice": {"id": "voice_1"}}}}})).await;
    client.answer().await;
    client.tell(session(json!({"input": {"turn_detection": null}}))).await;
    assert_eq!(client.told().await["session"]["audio"]["input"]["turn_detection"], Value::Null);
    client.tell(json!({"type": "input_audio_buffer.clear"})).await;
    eventually("it is told", || provider.heard().len() == 4).await;
    let heard = heard(&provider);
    let mut expected = audio;
    let turns = json!({"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300, "create_response": false, "interrupt_response": false});
    expected["input"]["turn_detection"] = turns;
    assert_eq!((&heard[0]["type"], &heard[0]["session"]["audio"]), (&json!("session.update"), &expected));
    assert_eq!(heard[1]["response"]["output_modalities"], json!(["text"]));
    assert_eq!(heard[1]["response"]["audio"], json!({"output": {"voice": {"id": "voice_1"}}}));
    assert_eq!(heard[2]["session"]["audio"]["input"]["turn_detection"], Value::Null);
    assert_eq!(heard[3]["type"], "input_audio_buffer.clear");
}

#[tokio::test]
async fn an_error_about_sound_is_the_clients_and_one_about_the_session_ends_it() {
    let provider = Provider::greeting(&[], |_, said| {
        let said: Value = serde_json::from_str(said).unwrap();
        let is_wrong = said["session"]["audio"]["output"]["voice"] == "nobody";
        let events = match said["type"].as_str().unwrap() {
            "input_audio_buffer.commit" | "conversation.item.truncate" => vec![json!({"type": "error", "event_id": "e", "error": {"type": "invalid_request_error", "code": format!("a {SECRET}"), "message": SECRET, "param": {"x": SECRET}, "note": SECRET, "event_id": said["event_id"]}}).to_string()],
            "session.update" if is_wrong => vec![json!({"type": "error", "event_id": "e", "error": {"type": "invalid_request_error", "code": "no_such_voice", "message": format!("none of {SECRET}"), "param": format!("a {SECRET}"), "event_id": said["event_id"]}}).to_string()],
            "response.create" => aloud("resp_1", &[("QUJD", "Hi.")], None),
            _ => Vec::new(),
        };
        Play::events(&events)
    })
    .await;
    let gateway = gateway(&house(), &provider, passing()).await;
    let mut client = speaking(&gateway, transcribing()).await;
    for (message, name) in [
        (json!({"type": "input_audio_buffer.commit", "event_id": "mine"}), json!("mine")),
        (
            json!({"type": "conversation.item.truncate", "item_id": "i", "content_index": 0, "audio_end_ms": 4}),
            Value::Null,
        ),
    ] {
        client.tell(message).await;
        let told = client.told().await;
        assert_eq!((&told["type"], &told["error"]["event_id"]), (&json!("error"), &name), "{told}");
        assert_eq!(told["error"]["type"], "invalid_request_error", "{told}");
        assert!(!told.to_string().contains(SECRET), "{told}");
    }
    client.tell(json!({"type": "response.create"})).await;
    assert_eq!(
        kind(client.answer().await.last().unwrap()),
        "response.done",
        "nothing was taken that words belong to"
    );
    client.tell(session(json!({"output": {"voice": "nobody"}}))).await;
    client.told().await;
    let (said, goodbye) = client.rest().await;
    assert!(said.concat().contains("no_such_voice") && goodbye.0 == 1011, "{said:?} {goodbye:?}");
    assert!(!said.concat().contains(SECRET), "{said:?}");
}

/// The names under which errors go past those who judge are the provider's to write, too.
#[tokio::test]
async fn the_words_of_an_error_leave_past_nobody() {
    for event in ["backstop_sound_x", "backstop_commit_x", "backstop_session", "backstop_x"] {
        for how in [passing(), HookSettings::default()] {
            let error = json!({"type": "error", "event_id": "e", "error": {"type": "invalid_request_error",
                "code": format!("a {SECRET}"), "message": SECRET, "param": format!("a {SECRET}"), "event_id": event}});
            let provider = Provider::greeting(&[], move |_, said| match &*kind(said) {
                "response.create" => {
                    let mut events = vec![error.to_string()];
                    events.extend(spoken("resp_1", "Done.", None));
                    Play::events(&events)
                }
                _ => Play::default(),
            })
            .await;
            let gateway = gateway(&house(), &provider, how).await;
            let mut client = open(&gateway).await;
            let said = client.say("hi").await;
            assert!(!said.is_empty() && !said.concat().contains(SECRET), "{event}: {said:?}");
        }
    }
}

/// Whoever sends a second item of one name would have the sound of the first pass for that of the second, or none.
#[tokio::test]
async fn an_item_of_a_name_that_waits_is_refused() {
    let provider = listener(usize::MAX, Vec::new(), |_| aloud("resp_1", &[("QUJD", "Hi.")], None)).await;
    let gateway = gateway(&house(), &provider, passing()).await;
    let mut client = open(&gateway).await;
    let item = |sound: &str| {
        let content = json!([{"type": "input_audio", "audio": sound}]);
        json!({"type": "conversation.item.create", "item": {"id": "item_x", "type": "message", "role": "user", "content": content}})
    };
    client.tell(item("QUFB")).await;
    for _ in 0..2 {
        client.told().await;
    }
    client.tell(item("QkJC")).await;
    let told = client.told().await;
    assert_eq!((&told["type"], &told["status"]), (&json!("error"), &json!(400)), "{told}");
    client.tell(json!({"type": "response.create"})).await;
    client.answer().await;
    let heard = heard(&provider);
    let items: Vec<&Value> = heard.iter().filter(|said| said.get("item").is_some()).collect();
    assert_eq!(items, [&item("QUFB")]);
}

#[tokio::test]
async fn sound_in_an_item_passes_and_those_who_judge_see_that_there_is_some() {
    let provider = listener(usize::MAX, Vec::new(), |_| aloud("resp_1", &[("QUJD", "Hi.")], None)).await;
    let house = House::new();
    house.redact();
    house.judge::<BeforeLlmCall>("hears", |event| {
        let all = serde_json::to_string(event).unwrap();
        assert!(all.contains("input_audio") && !all.contains("U0VD"), "{all}");
        let mut messages = event.messages.clone();
        for message in &mut messages {
            if all.contains("rewrite this") {
                message.set_visible_text(&"something else".into());
            }
            if all.contains("without sound") {
                message.content.retain(|part| matches!(part, Part::Text { .. }));
            }
        }
        Some(BeforeLlmCallOutcome { messages: Some(messages), ..BeforeLlmCallOutcome::default() })
    });
    let gateway = gateway(&house, &provider, passing()).await;
    let mut client = open(&gateway).await;
    let item = |text: &str| {
        let content = json!([{"type": "input_audio", "audio": "U0VD"}, {"type": "input_text", "text": text}, {"type": "input_audio", "audio": "UkVU"}]);
        json!({"type": "conversation.item.create", "item": {"id": "item_x", "type": "message", "role": "user", "content": content}})
    };
    client.tell(item("and this")).await;
    for _ in 0..2 {
        assert!(!client.told().await.to_string().contains("U0VD"));
    }
    client.tell(json!({"type": "response.create"})).await;
    client.answer().await;
    assert_eq!(heard(&provider)[1], item("and this"));
    for (text, passes) in [("rewrite this", true), ("without sound", false)] {
        client.tell(item(text)).await;
        client.told().await;
        client.told().await;
        client.tell(json!({"type": "response.create"})).await;
        let said = client.answer().await;
        assert_eq!(kind(said.last().unwrap()) == "response.done", passes, "{text}: {said:?}");
    }
    let heard = heard(&provider);
    let items: Vec<&Value> = heard.iter().filter(|said| said.get("item").is_some()).collect();
    assert_eq!(items, [&item("and this"), &item("something else")], "a sound is not left out");
}

#[tokio::test]
async fn lists_of_models_hold_for_the_one_that_writes_down_what_is_heard() {
    for (listed, passes) in [(vec!["gpt-realtime", "whisper-1"], true), (vec!["gpt-realtime"], false)] {
        let provider = listener(usize::MAX, Vec::new(), |_| aloud("resp_1", &[("QUJD", "Hi.")], None)).await;
        let mut settings = open_settings(&provider.url());
        settings.providers.get_mut("openai").unwrap().models =
            listed.into_iter().map(str::to_owned).collect();
        let gateway = hooked(&house(), settings, passing()).await;
        let mut client = speaking(&gateway, transcribing()).await;
        if passes {
            eventually("sound passes", || provider.heard().len() == 3).await;
            continue;
        }
        let (said, goodbye) = client.rest().await;
        assert_eq!((kind(said.last().unwrap()), goodbye.0), ("error".to_owned(), 1008), "{said:?}");
        assert_eq!(provider.heard(), [""; 0]);
    }
}

#[tokio::test]
async fn a_session_that_does_not_pass_hears_nothing() {
    let provider = listener(usize::MAX, Vec::new(), |_| Vec::new()).await;
    let house = House::new();
    house.judge::<BeforeLlmCall>("no", |event| {
        let block = Some(event.system_prompt.contains(SECRET));
        Some(BeforeLlmCallOutcome { block, ..BeforeLlmCallOutcome::default() })
    });
    let gateway = gateway(&house, &provider, passing()).await;
    let mut client = open(&gateway).await;
    client
        .tell(json!({"type": "session.update", "session": {"type": "realtime", "instructions": SECRET}}))
        .await;
    client.told().await;
    client.tell(append("AAAA")).await;
    assert_eq!(client.rest().await.1.0, 1008);
    assert_eq!(provider.heard(), [""; 0]);
}

#[tokio::test]
async fn sound_comes_in_its_order_also_while_somebody_decides_or_is_answered() {
    let mut half = aloud("resp_1", &[("QUJD", "Hi.")], None);
    half.retain(|event| kind(event) != "rate_limits.updated");
    let end = half.pop().unwrap();
    let provider = Provider::greeting(&[], move |_, said| match &*kind(said) {
        "response.create" => Play::events(&half),
        "input_audio_buffer.clear" => Play::events(std::slice::from_ref(&end)),
        _ => Play::default(),
    })
    .await;
    let gateway = gateway(&house(), &provider, passing()).await;
    let mut client = open(&gateway).await;
    client.tell(session(json!({"input": {"turn_detection": null}}))).await;
    client.tell(json!({"type": "response.create"})).await;
    let sounds: Vec<String> = (0..200).map(|n| format!("A{n:03}")).collect();
    for sound in &sounds {
        client.tell(append(sound)).await;
    }
    client.tell(json!({"type": "input_audio_buffer.clear"})).await;
    let said = client.answer().await;
    assert_eq!(kind(said.last().unwrap()), "response.done", "sound passes while the answer is under way");
    let heard = heard(&provider);
    let came: Vec<&str> = heard.iter().filter_map(|said| said["audio"].as_str()).collect();
    assert_eq!(came, sounds);
}
