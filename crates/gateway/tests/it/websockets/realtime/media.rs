//! Sound, which nobody can judge, and what is written of it.

use backstop_gateway::inspect::{TextMode, UnjudgedMedia};
use backstop_hooks::points::{BeforeResponseEmit, ResponseEmitOutcome};

use super::*;

/// Settings under which sound passes.
pub(super) fn passing() -> HookSettings {
    HookSettings { unjudged_media: UnjudgedMedia::Pass, refusals: 0, ..HookSettings::default() }
}

/// The events of an answer that is said aloud, as OpenAI documents them: sounds, and what is said in each.
pub(super) fn aloud(id: &str, pieces: &[(&str, &str)], call: Option<(&str, Value)>) -> Vec<String> {
    let whole: String = pieces.iter().map(|(_, text)| *text).collect();
    let mut events = Vec::new();
    for event in spoken(id, &whole, call) {
        let mut event: Value = serde_json::from_str(&event).unwrap();
        let at = json!({"item_id": "item_a", "output_index": 0, "content_index": 0, "response_id": id, "event_id": "e"});
        let with = |kind: &str, more: Value| {
            let mut event = at.clone();
            event["type"] = kind.into();
            event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            event.to_string()
        };
        match event["type"].as_str().unwrap() {
            "response.output_text.delta" => continue,
            "response.output_text.done" => {
                for (sound, text) in pieces {
                    events.push(with("response.output_audio_transcript.delta", json!({"delta": text})));
                    events.push(with("response.output_audio.delta", json!({"delta": sound})));
                }
                events.push(with("response.output_audio.done", json!({})));
                events.push(with("response.output_audio_transcript.done", json!({"transcript": whole})));
                continue;
            }
            _ => {}
        }
        if let Some(part) = event.get_mut("part") {
            *part = json!({"type": "audio", "transcript": part["text"]});
        }
        if let Some(item) = event.get_mut("item") {
            sounding(item);
        }
        if let Some(response) = event.get_mut("response") {
            response["output_modalities"] = json!(["audio"]);
            response["output"].as_array_mut().unwrap().iter_mut().for_each(sounding);
        }
        events.push(event.to_string());
    }
    events
}

fn sounding(item: &mut Value) {
    for part in item["content"].as_array_mut().into_iter().flatten() {
        *part = json!({"type": "output_audio", "transcript": part["text"]});
    }
}

/// What a provider says once it has heard something to its end.
pub(super) fn committed(item: &str) -> Vec<Value> {
    vec![
        json!({"type": "input_audio_buffer.speech_started", "event_id": "e", "audio_start_ms": 10, "item_id": item}),
        json!({"type": "input_audio_buffer.speech_stopped", "event_id": "e", "audio_end_ms": 90, "item_id": item}),
        json!({"type": "input_audio_buffer.committed", "event_id": "e", "item_id": item, "previous_item_id": null}),
        json!({"type": "conversation.item.added", "event_id": "e", "item": {"id": item, "type": "message", "role": "user", "content": [{"type": "input_audio", "transcript": SECRET}]}}),
    ]
}

pub(super) fn written(item: &str, text: &str) -> Vec<Value> {
    let kind = |end: &str| format!("conversation.item.input_audio_transcription.{end}");
    vec![
        json!({"type": kind("delta"), "event_id": "e", "item_id": item, "content_index": 0, "delta": text}),
        json!({"type": kind("completed"), "event_id": "e", "item_id": item, "content_index": 0, "transcript": text,
            "usage": {"type": "tokens", "input_tokens": 1, "output_tokens": 2, "total_tokens": 3, "note": SECRET}}),
    ]
}

/// A provider that hears `heard` in the second piece of sound, or once it is told to where it is not to hear turns by itself, and
/// answers as told.
pub(super) async fn listener(
    size: usize,
    heard: Vec<Value>,
    answers: impl Fn(usize) -> Vec<String> + Send + Sync + 'static,
) -> Provider {
    let (asked, sounds) = (std::sync::atomic::AtomicUsize::new(0), std::sync::atomic::AtomicUsize::new(0));
    let is_manual = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    Provider::greeting(&[], move |_, said| {
        let said: Value = serde_json::from_str(said).unwrap();
        let events = match said["type"].as_str().unwrap() {
            "session.update" => {
                is_manual.store(said["session"]["audio"]["input"]["turn_detection"].is_null(), relaxed);
                let session = json!({"instructions": SECRET});
                vec![json!({"type": "session.updated", "event_id": "e", "session": session}).to_string()]
            }
            "input_audio_buffer.commit" => heard.iter().map(Value::to_string).collect(),
            "input_audio_buffer.append" if sounds.fetch_add(1, relaxed) == 1 && !is_manual.load(relaxed) => {
                heard.iter().map(Value::to_string).collect()
            }
            "response.create" => answers(asked.fetch_add(1, relaxed)),
            _ => Vec::new(),
        };
        Play::cut(&events, size)
    })
    .await
}

pub(super) fn append(sound: &str) -> Value {
    json!({"type": "input_audio_buffer.append", "audio": sound})
}

pub(super) fn session(audio: Value) -> Value {
    json!({"type": "session.update", "session": {"type": "realtime", "audio": audio}})
}

pub(super) fn transcribing() -> Value {
    json!({"input": {"transcription": {"model": "whisper-1", "language": "en"}}})
}

/// Opens a session and says something in it.
pub(super) async fn speaking(gateway: &Gateway, audio: Value) -> Client {
    let mut client = open(gateway).await;
    client.tell(session(audio)).await;
    assert_eq!(client.told().await["type"], "session.updated");
    client.tell(append("AAAA")).await;
    client.tell(append("BBB=")).await;
    client
}

pub(super) fn heard(provider: &Provider) -> Vec<Value> {
    provider.heard().iter().map(|said| serde_json::from_str(said).unwrap()).collect()
}

pub(super) fn kinds(provider: &Provider) -> Vec<String> {
    provider.heard().iter().map(|said| kind(said)).collect()
}

/// The sound that a client heard.
fn sound_of(said: &[String]) -> Vec<String> {
    let pieces = said.iter().filter(|event| kind(event) == "response.output_audio.delta");
    pieces
        .map(|event| serde_json::from_str::<Value>(event).unwrap()["delta"].as_str().unwrap().to_owned())
        .collect()
}

pub(super) fn blocking(house: &House) {
    house.judge::<BeforeLlmCall>("no", |event| {
        let text: String = event.messages.iter().map(Said::visible_text).collect();
        text.contains(SECRET).then(|| BeforeLlmCallOutcome {
            block: Some(true),
            block_reason: Some("not that".into()),
            ..BeforeLlmCallOutcome::default()
        })
    });
}

#[tokio::test]
async fn sound_passes_both_ways_and_what_is_written_of_it_is_judged() {
    for size in CUTS {
        let answer =
            aloud("resp_1", &[("QUJD", "Hello "), ("+/8=", "there.")], Some(("read", json!({"path": "a"}))));
        let played = answer.clone();
        let all = [committed("item_u"), written("item_u", "say hello")].concat();
        let provider = listener(size, all, move |_| played.clone()).await;
        let house = house();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let texts = Arc::clone(&seen);
        house.judge::<BeforeLlmCall>("hears", move |event| {
            texts.lock().unwrap().push(event.messages.iter().map(Said::visible_text).collect::<String>());
            None
        });
        let gateway = gateway(&house, &provider, passing()).await;
        let mut client = speaking(&gateway, transcribing()).await;
        let said = client.answer().await;
        assert_eq!(*seen.lock().unwrap(), ["", "say hello"], "the session, and what was said");
        let (aside, of_answer): (Vec<_>, Vec<_>) = said.iter().cloned().partition(|event| {
            let kind = kind(event);
            kind.starts_with("input_audio")
                || kind.contains("transcription")
                || event.contains("\"id\":\"item_u\"")
        });
        assert_eq!(essence(&of_answer), essence(&answer), "{size}");
        assert_eq!(sound_of(&said), ["QUJD", "+/8="]);
        let told: Vec<String> = aside.iter().map(|event| kind(event)).collect();
        let expected = [
            "input_audio_buffer.speech_started",
            "input_audio_buffer.speech_stopped",
            "input_audio_buffer.committed",
            "conversation.item.added",
            "conversation.item.done",
            "conversation.item.input_audio_transcription.completed",
        ];
        assert_eq!(told, expected, "{size}");
        let last: Value = serde_json::from_str(aside.last().unwrap()).unwrap();
        assert_eq!((&last["transcript"], &last["item_id"]), (&json!("say hello"), &json!("item_u")));
        assert_eq!(
            last["usage"],
            json!({"type": "tokens", "input_tokens": 1, "output_tokens": 2, "total_tokens": 3})
        );
        assert!(!said.concat().contains(SECRET), "{said:?}");
        let heard = heard(&provider);
        assert_eq!(
            kinds(&provider),
            ["session.update", "input_audio_buffer.append", "input_audio_buffer.append", "response.create"]
        );
        assert_eq!((&heard[1]["audio"], &heard[2]["audio"]), (&json!("AAAA"), &json!("BBB=")));
        assert_eq!(heard[3]["response"]["output_modalities"], json!(["audio"]));
        let input = &heard[0]["session"]["audio"]["input"];
        assert_eq!(
            input["turn_detection"],
            json!({"type": "server_vad", "create_response": false, "interrupt_response": false})
        );
        assert_eq!(input["transcription"], json!({"model": "whisper-1", "language": "en"}));
        assert_eq!(house.receipts.of(PointId::BeforeLlmCall).len(), 2);
    }
}

#[tokio::test]
async fn what_nobody_looks_at_sounds_as_well() {
    let answer = aloud("resp_1", &[("QUJD", SECRET)], Some(("shell", json!({"command": SECRET}))));
    let played = answer.clone();
    let provider = listener(7, committed("item_u"), move |_| played.clone()).await;
    let gateway =
        crate::support::start(open_settings(&provider.url()), backstop_gateway::Transparent).await.unwrap();
    let mut client = speaking(&gateway, json!({})).await;
    assert_eq!(essence(&client.answer().await), essence(&answer));
}

#[tokio::test]
async fn a_secret_is_taken_out_of_a_transcript_and_of_all_its_copies() {
    for (size, at) in CUTS.iter().flat_map(|size| [1, 5, 9].map(|at| (*size, at))) {
        let (one, other) = SECRET.split_at(at);
        let events =
            aloud("resp_1", &[("QUJD", "It is "), ("REVG", one), ("R0hJ", other), ("SktM", ".")], None);
        let provider = listener(size, committed("item_u"), move |_| events.clone()).await;
        let gateway = gateway(&house(), &provider, passing()).await;
        let mut client = speaking(&gateway, json!({})).await;
        let said = client.answer().await;
        assert!(!said.concat().contains(SECRET), "{size}: {said:?}");
        let deltas = said.iter().filter(|event| kind(event) == "response.output_audio_transcript.delta");
        let text: String = deltas
            .map(|event| serde_json::from_str::<Value>(event).unwrap()["delta"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(text, "It is [gone].", "{size}");
        let done: Value = serde_json::from_str(said.last().unwrap()).unwrap();
        let content = json!([{"type": "output_audio", "transcript": "It is [gone]."}]);
        assert_eq!(done["response"]["output"][0]["content"], content);
        assert_eq!(sound_of(&said), ["QUJD", "REVG", "R0hJ", "SktM"], "sound is as it was");
    }
}

#[tokio::test]
async fn calls_of_an_answer_that_is_said_aloud_are_held_and_judged() {
    for size in CUTS {
        for (name, passes) in [("shell", false), ("read", true)] {
            let call = Some((name, json!({"command": if passes { "x" } else { SECRET }})));
            let events = aloud("resp_1", &[("QUJD", "I do it.")], call);
            let provider = listener(size, committed("item_u"), move |_| events.clone()).await;
            let gateway = gateway(&house(), &provider, passing()).await;
            let mut client = speaking(&gateway, json!({})).await;
            let said = client.answer().await.concat();
            assert_eq!(said.contains("function_call"), passes, "{said}");
            assert!(!said.contains(SECRET) && said.contains("QUJD"), "{said}");
            assert_eq!(said.contains("withheld `shell`"), !passes, "{said}");
        }
    }
}

#[tokio::test]
async fn a_model_that_speaks_goes_on_after_its_calls_were_refused() {
    let answers = |n| match n {
        0 => aloud("resp_1", &[("QUJD", "I clean up.")], Some(("shell", json!({"command": SECRET})))),
        _ => {
            let events = aloud("resp_2", &[("REVG", "I stop.")], None);
            events.iter().map(|event| event.replace("item_a", "item_c")).collect()
        }
    };
    let all = [committed("item_u"), written("item_u", "clean up")].concat();
    let provider = listener(11, all, answers).await;
    let hooks = HookSettings { refusals: 1, ..passing() };
    let gateway = gateway(&house(), &provider, hooks).await;
    let mut client = speaking(&gateway, transcribing()).await;
    let said = client.answer().await;
    assert_eq!(sound_of(&said), ["QUJD", "REVG"], "{said:?}");
    assert!(!said.concat().contains(SECRET), "{said:?}");
    let done: Value = serde_json::from_str(said.last().unwrap()).unwrap();
    let output = done["response"]["output"].as_array().unwrap();
    let transcripts: Vec<&str> =
        output.iter().filter_map(|item| item["content"][0]["transcript"].as_str()).collect();
    assert_eq!(transcripts, ["I clean up.", "I stop."], "{done}");
    let sounds = ["input_audio_buffer.append"; 2];
    let rest = ["response.create", "conversation.item.create", "response.create"];
    assert_eq!(kinds(&provider)[1..], [&sounds[..], &rest].concat());
}

#[tokio::test]
async fn a_transcript_that_is_blocked_ends_the_session_once_something_was_heard() {
    for hold in [false, true] {
        let house = House::new();
        if hold {
            house.judge::<BeforeResponseEmit>("no", |event| {
                let block = Some(event.content.contains(SECRET));
                Some(ResponseEmitOutcome { block, ..Default::default() })
            });
        } else {
            house.redact();
            house.judge::<AfterLlmCall>("no", |event| {
                let text = serde_json::to_string(event).unwrap();
                Some(AfterLlmCallOutcome { block: Some(text.contains(SECRET)), ..Default::default() })
            });
        }
        let answers = |n| match n {
            0 => aloud("resp_1", &[("QUJD", "It is "), ("REVG", SECRET)], None),
            _ => aloud("resp_2", &[("R0hJ", "Fine.")], None),
        };
        let provider = listener(usize::MAX, committed("item_u"), answers).await;
        let text = Some(if hold { TextMode::Hold } else { TextMode::Window });
        let gateway = gateway(&house, &provider, HookSettings { text, ..passing() }).await;
        let mut client = speaking(&gateway, json!({})).await;
        if hold {
            let said = client.answer().await;
            assert!(sound_of(&said).is_empty(), "what is held has not left: {said:?}");
            assert!(said.concat().contains("[backstop] blocked"), "{said:?}");
            client.tell(json!({"type": "response.create"})).await;
            assert_eq!(sound_of(&client.answer().await), ["R0hJ"], "the session goes on");
        } else {
            let (said, goodbye) = client.rest().await;
            assert_eq!(sound_of(&said), ["QUJD", "REVG"], "sound leaves before it is judged: {said:?}");
            assert!(!said.concat().contains(SECRET), "{said:?}");
            assert_eq!(goodbye.0, 1008, "and then the session ends");
        }
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_anywhere_ends_the_session() {
    let events =
        aloud("resp_1", &[("QUJD", "I do "), ("REVG", "it.")], Some(("shell", json!({"command": SECRET}))));
    let unfinished: Vec<String> =
        events.iter().take_while(|event| kind(event) != "response.done").cloned().collect();
    let whole = Play::cut(&unfinished, 50).bytes;
    for cut in (0..whole.len()).step_by(397) {
        let bytes = whole[..cut].to_vec();
        let provider = Provider::greeting(&[], move |_, said| match &*kind(said) {
            "response.create" => Play { bytes: bytes.clone(), ..Play::default() }.then_breaks(),
            _ => Play::default(),
        })
        .await;
        let gateway = gateway(&house(), &provider, passing()).await;
        let mut client = open(&gateway).await;
        client.tell(json!({"type": "response.create"})).await;
        let (said, goodbye) = client.rest().await;
        assert_eq!((kind(said.last().unwrap()), goodbye.0), ("error".to_owned(), 1011), "{cut}: {said:?}");
        let all = said.concat();
        assert!(!all.contains(SECRET) && !all.contains("function_call"), "{cut}: {all}");
    }
}

#[tokio::test]
async fn sound_with_words_in_it_is_no_sound() {
    let played = |event: Value| {
        let mut events = aloud("resp_1", &[("QUJD", "Hi.")], None);
        events.insert(4, event.to_string());
        events
    };
    let at = json!({"item_id": "item_a", "output_index": 0, "content_index": 0, "response_id": "resp_1", "event_id": "e"});
    let with = |more: Value| {
        let mut event = at.clone();
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    for event in [
        with(json!({"type": "response.output_audio.delta", "delta": format!("a text {SECRET}")})),
        with(json!({"type": "response.output_audio.delta", "delta": {"text": SECRET}})),
        with(
            json!({"type": "response.output_audio.delta", "delta": "QUJD", "item_id": format!("a {SECRET}")}),
        ),
        with(json!({"type": "response.output_audio.delta", "delta": "QUJD", "content_index": SECRET})),
        with(json!({"type": "response.output_audio.delta", "delta": "QUJD", "note": SECRET})),
        with(json!({"type": "response.output_audio.delta", "delta": "QUJD", "response_id": SECRET})),
        with(json!({"type": "response.output_audio.words", "delta": SECRET})),
        with(json!({"type": "response.output_audio_transcript.words", "delta": SECRET})),
        with(
            json!({"type": "response.image_generation_call.partial_image", "partial_image_b64": "QUJD", "partial_image_index": 0}),
        ),
        json!({"type": "input_audio_buffer.speech_started", "item_id": SECRET.repeat(9), "audio_start_ms": 1}),
        json!({"type": "input_audio_buffer.speech_started", "item_id": "i", "audio_start_ms": SECRET}),
        json!({"type": "input_audio_buffer.committed", "item_id": "i", "note": SECRET, "previous_item_id": SECRET}),
        json!({"type": "input_audio_buffer.timeout_triggered", "item_id": "i", "audio_start_ms": 1, "audio_end_ms": 2, "text": SECRET}),
        json!({"type": "conversation.item.input_audio_transcription.delta", "item_id": "i", "content_index": 0, "delta": SECRET}),
        json!({"type": "conversation.item.input_audio_transcription.segment", "item_id": "i", "content_index": 0, "text": SECRET, "speaker": SECRET}),
        json!({"type": "conversation.item.input_audio_transcription.failed", "item_id": "i", "content_index": 0, "error": {"message": SECRET, "code": format!("a {SECRET}")}}),
        json!({"type": "conversation.item.retrieved", "item": {"id": "i", "content": [{"type": "input_audio", "transcript": SECRET}]}}),
        json!({"type": "input_audio_buffer.future", "text": SECRET}),
    ] {
        let events = played(event.clone());
        let provider = listener(13, Vec::new(), move |_| events.clone()).await;
        let house = House::new();
        house.redact();
        house.judge::<AfterLlmCall>("none", |_| {
            let tool_calls = Some(ToolCallIds::new([""; 0]));
            Some(AfterLlmCallOutcome { tool_calls, ..AfterLlmCallOutcome::default() })
        });
        let gateway = gateway(&house, &provider, passing()).await;
        let mut client = open(&gateway).await;
        client.tell(json!({"type": "response.create"})).await;
        let said = client.answer_or_rest().await;
        assert!(!said.is_empty() && !said.concat().contains(SECRET), "{event}: {said:?}");
    }
}
