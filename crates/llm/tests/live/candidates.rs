//! Gemini answers of several candidates.

use backstop_hooks::conversation::Part;
use backstop_llm::{Api, ProviderError, ProviderErrorKind, WireError};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::*;

const API: Api = Api::Gemini;

fn event(candidates: &Value) -> String {
    format!("data: {}\n\n", json!({"candidates": candidates, "responseId": "r", "modelVersion": "m"}))
}

fn says(index: u32, parts: &Value) -> Value {
    json!({"content": {"parts": parts, "role": "model"}, "index": index})
}

fn text(index: u32, text: &str) -> Value {
    says(index, &json!([{"text": text}]))
}

fn ends(index: u32) -> Value {
    json!({"content": {"parts": [{"text": ""}], "role": "model"}, "finishReason": "STOP", "index": index})
}

fn call(name: &str) -> Value {
    json!({"functionCall": {"name": name, "args": {}}})
}

/// Judges an answer: `s` is masked, and the calls with these choices and numbers go.
fn judged(editor: &mut dyn backstop_llm::live::AnswerEditor, bytes: &str, gone: &[(u32, usize)]) -> String {
    let mut host = Host { masked: Some(('s', "*")), ..Host::default() };
    for piece in bytes.as_bytes().chunks(17) {
        editor.push(piece).unwrap();
        host.round(editor);
    }
    editor.finish().unwrap();
    host.round(editor);
    let removed: Vec<_> =
        gone.iter().map(|(choice, call)| editor.call_part(*choice, *call).unwrap()).collect();
    editor.keep_calls(&removed, Some("Withheld."));
    host.take(editor);
    assert_eq!(editor.held_bytes(), 0);
    String::from_utf8(host.sent).unwrap()
}

#[test]
fn every_candidate_is_edited_on_its_own() {
    let events = [
        event(&json!([text(1, "plain"), text(0, "a secret")])),
        event(&json!([says(1, &json!([call("keep")])), says(0, &json!([call("go"), call("keep")]))])),
        event(&json!([ends(1)])),
        event(&json!([ends(0)])),
    ];
    let sent = judged(&mut *stream(API), &events.concat(), &[(0, 0)]);
    let left: Vec<&str> = sent.split_inclusive("\n\n").collect();
    assert_eq!(left[0], events[0].replace("a secret", "a *ecret"));
    assert_eq!(left[1], events[1].replace(&format!("{},", call("go")), ""));
    assert_eq!(left[2], events[2], "a candidate that lost nothing says nothing of it");
    assert!(left[3].contains("\\n\\nWithheld."), "{}", left[3]);

    let whole_of = |index: u32, parts: Value| json!({"content": {"parts": parts, "role": "model"}, "finishReason": "STOP", "finishMessage": "said a secret", "index": index});
    let body = json!({"candidates": [
        whole_of(0, json!([{"text": "a secret"}, call("go")])),
        whole_of(1, json!([{"text": "plain"}, call("keep")])),
    ], "responseId": "r"})
    .to_string();
    let sent = judged(&mut *whole(API), &body, &[(0, 0)]);
    let expected = body
        .replacen("a secret", "a *ecret", 1)
        .replacen(&call("go").to_string(), "{\"text\":\"\\n\\nWithheld.\"}", 1)
        .replacen("\"finishMessage\":\"said a secret\",", "", 1);
    assert_eq!(sent, expected);
}

#[test]
fn a_block_ends_all_candidates_that_have_not_ended() {
    let begun = [event(&json!([text(0, "one"), text(1, "two")])), event(&json!([text(2, "three"), ends(1)]))];
    let mut editor = stream(API);
    let mut host = Host::default();
    editor.push(begun.concat().as_bytes()).unwrap();
    host.round(&mut *editor);
    editor.end_with("Stopped.");
    host.take(&mut *editor);
    let left = read_choices(API, &host.sent).unwrap();
    let texts: Vec<String> = left.iter().map(|answer| answer.message.visible_text()).collect();
    assert_eq!(texts, ["one\n\nStopped.", "two", "three\n\nStopped."]);
    assert!(left.iter().all(|answer| answer.stop.as_str() == "end_turn"));

    let mut editor = stream(API);
    editor.push(begun[0].as_bytes()).unwrap();
    editor.fail(&ProviderError::new(ProviderErrorKind::Server, 500, None, "gone"));
    assert!(matches!(read_choices(API, &editor.take()), Err(WireError::Provider(_))));
}

#[test]
fn calls_of_all_candidates_wait_for_the_end_of_all() {
    let mut editor = stream(API);
    let mut host = Host::default();
    let last = event(&json!([ends(1)]));
    for piece in [
        event(&json!([text(0, "x"), text(1, "y")])),
        event(&json!([says(0, &json!([call("a")])), ends(1)])),
        event(&json!([says(0, &json!([call("b")]))])),
        event(&json!([ends(0)])),
    ] {
        editor.push(piece.as_bytes()).unwrap();
        host.round(&mut *editor);
        assert!(!editor.is_whole());
    }
    assert_eq!(said_so_far(API, &host.sent), (vec!["x".to_owned(), "y".to_owned()], 0));
    assert!(!String::from_utf8_lossy(&host.sent).contains("functionCall"));
    editor.finish().unwrap();
    assert!(editor.push(last.as_bytes()).is_err(), "something follows the end");
}

#[test]
fn candidates_with_two_readings_are_refused() {
    let streamed = |events: &[Value]| -> Result<(), WireError> {
        let mut editor = stream(API);
        for candidates in events {
            editor.push(event(candidates).as_bytes())?;
        }
        editor.finish()
    };
    let unnumbered = || json!({"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"});
    for bad in [
        // Twice in one event, also by the index that is left out.
        vec![json!([text(1, "x"), text(1, "y")])],
        vec![json!([unnumbered(), unnumbered()])],
        vec![json!([text(0, "x"), unnumbered()])],
        // A gap, and numbers that are none.
        vec![json!([ends(0), ends(2)])],
        vec![json!([ends(1)])],
        vec![json!([ends(4_000_000)])],
        vec![json!([{"index": -1}])],
        vec![json!([{"index": 0.5}])],
        vec![json!([{"index": "1"}])],
        // Other forms.
        vec![json!([[ends(0)]])],
        vec![json!({"0": ends(0)})],
        vec![json!([ends(0), "x"])],
        vec![json!([{"content": {"parts": {"text": "x"}}, "index": 0}, ends(1)])],
        vec![json!([ends(0), {"content": {"parts": {"text": "x"}}, "finishReason": "STOP", "index": 1}])],
        // One that does not end, and one that goes on behind its end.
        vec![json!([ends(0), text(1, "x")])],
        vec![json!([ends(0), ends(1)]), json!([text(1, "more")])],
    ] {
        assert!(streamed(&bad).is_err(), "{bad:?}");
    }
    streamed(&[json!([unnumbered()])]).unwrap();
    streamed(&[json!([unnumbered(), ends(1)])]).unwrap();

    let answered = |candidates: &Value| -> Result<usize, WireError> {
        let mut editor = whole(API);
        editor.push(json!({"candidates": candidates}).to_string().as_bytes())?;
        editor.finish()?;
        Ok(editor.responses().len())
    };
    for bad in [
        json!([ends(1)]),
        json!([ends(1), ends(0)]),
        json!([ends(0), ends(0)]),
        json!([ends(0), unnumbered()]),
        json!([unnumbered(), unnumbered(), ends(2)]),
        json!([ends(0), text(1, "x")]),
        json!([ends(0), [ends(1)]]),
        json!([ends(0), {"content": {"parts": {"text": "x"}}, "finishReason": "STOP", "index": 1}]),
        Value::from(vec![ends(0); 1_100]),
    ] {
        assert!(answered(&bad).is_err(), "{bad}");
    }
    assert_eq!(answered(&json!([unnumbered(), ends(1)])), Ok(2));
    // Where no candidate has an index, readers have the place alone.
    assert_eq!(answered(&json!([unnumbered(), unnumbered()])), Ok(2));
}

/// Copies of texts to come wait for the texts of each choice that they repeat.
#[test]
fn copies_in_several_choices_wait_for_each() {
    let gemini = |index: u32, copy: &str| json!({"content": {"parts": [{"text": ""}]}, "index": index, "logprobsResult": {"chosenCandidates": [{"token": copy}]}});
    let chat = |choices: Value| format!("data: {}\n\n", json!({"id": "c", "model": "m", "choices": choices}));
    let copy = |index: u32, copy: &str| json!({"index": index, "delta": {"content": ""}, "logprobs": {"content": [{"token": copy, "bytes": null}]}, "finish_reason": null});
    let said = |index: u32, text: &str, end: Value| json!({"index": index, "delta": {"content": text}, "logprobs": null, "finish_reason": end});
    let cases = [
        (
            API,
            event(&json!([gemini(0, "secret"), gemini(1, "b")])),
            event(&json!([text(1, "b")])) + &event(&json!([ends(1)])),
        ),
        (
            Api::OpenAiChat,
            chat(json!([copy(0, "secret"), copy(1, "b")])),
            chat(json!([said(1, "b", "stop".into())])),
        ),
    ];
    for (api, copies, second_choice) in cases {
        let first_text = match api {
            Api::Gemini => event(&json!([text(0, "se")])),
            _ => chat(json!([said(0, "se", Value::Null)])),
        };
        let (mut editor, mut host) = (stream(api), Host::default());
        for piece in [copies, first_text, second_choice] {
            editor.push(piece.as_bytes()).unwrap();
            host.round(&mut *editor);
        }
        assert!(host.sent.is_empty(), "{api}: {}", String::from_utf8_lossy(&host.sent));
    }
}

proptest! {
    /// However the texts of the candidates interleave, and wherever the bytes are cut.
    #[test]
    fn texts_of_candidates_never_mix(
        pieces in prop::collection::vec((0usize..6, any::<bool>(), "[a-c\"é]{1,3}"), 1..40),
        masked in any::<bool>(), cut in 1usize..60, lag in 0usize..6, array in any::<bool>(),
    ) {
        let mut said = vec![(String::new(), String::new()); 6];
        let mut events = Vec::new();
        for (choice, is_thought, piece) in &pieces {
            let (text, thought) = &mut said[*choice];
            if *is_thought { thought.push_str(piece) } else { text.push_str(piece) }
            let part = if *is_thought { json!({"text": piece, "thought": true}) } else { json!({"text": piece}) };
            events.push(json!({"candidates": [says(u32::try_from(*choice).unwrap(), &json!([part]))]}).to_string());
        }
        events.push(json!({"candidates": (0..6).map(ends).collect::<Vec<_>>()}).to_string());
        let (form, bytes) = if array {
            (Form::Array, format!("[{}]", events.join(",\r\n")))
        } else {
            (Form::Events(API), events.iter().map(|event| format!("data: {event}\r\n\r\n")).collect())
        };
        let mut host = Host { lag, masked: masked.then_some(('b', "[é]")), ..Host::default() };
        let pieces: Vec<&[u8]> = bytes.as_bytes().chunks(cut).collect();
        let mut editor = stream(form);
        pass(&mut *editor, &mut host, &pieces);
        let left = read_choices(form, &host.sent).unwrap();
        prop_assert_eq!(left.len(), 6);
        for ((answer, came), (text, thought)) in left.iter().zip(editor.responses()).zip(said) {
            prop_assert_eq!(came.message.visible_text(), text.clone());
            let expected = if masked { text.replace('b', "[é]") } else { text };
            prop_assert_eq!(answer.message.visible_text(), expected);
            let thoughts: String = answer.message.content.iter().filter_map(|part| match part {
                Part::Thinking { text, .. } => Some(text.as_str()),
                _ => None,
            }).collect();
            prop_assert_eq!(thoughts, thought);
        }
        if !masked {
            prop_assert_eq!(host.sent, bytes.into_bytes());
        }
    }
}
