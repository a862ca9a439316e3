//! Whole answers of the fixtures, and of what fixtures do not have.

use backstop_llm::{Api, ProviderError, ProviderErrorKind};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::*;

#[test]
fn untouched_is_identical() {
    for (api, name, text) in fixtures(".response.json") {
        let pretty = serde_json::to_string_pretty(&serde_json::from_str::<Value>(&text).unwrap()).unwrap();
        for body in [text, pretty] {
            let (mut editor, mut host) = (whole(api), Host::default());
            pass(&mut *editor, &mut host, &[body.as_bytes()]);
            assert_eq!(host.sent, body.as_bytes(), "{api} {name}");
            assert_eq!(editor.responses(), [read_whole(api, body.as_bytes())], "{api} {name}");
            assert!(editor.has_sent() && editor.keep_alive().is_none());
        }
    }
}

#[test]
fn nothing_leaves_before_texts_and_calls_are_decided() {
    for (api, name, text) in fixtures("tools.response.json") {
        let (mut editor, mut host) = (whole(api), Host::default());
        editor.push(text.as_bytes()).unwrap();
        editor.finish().unwrap();
        assert!(editor.take().is_empty(), "{api} {name}");
        host.round(&mut *editor);
        assert!(host.sent.is_empty() && editor.held_bytes() == text.len(), "{api} {name}");
        editor.release_calls();
        host.take(&mut *editor);
        assert_eq!(host.sent, text.as_bytes());
    }
}

#[test]
fn an_edit_touches_nothing_else() {
    for (api, _, text) in fixtures("tools.response.json") {
        let mut host = Host { masked: Some(('g', "*")), ..Host::default() };
        pass(&mut *whole(api), &mut host, &[text.as_bytes()]);
        assert_eq!(String::from_utf8(host.sent).unwrap(), text.replace("Reading both.", "Readin* both."));
    }
}

#[test]
fn the_note_of_withheld_calls_is_text() {
    for (api, _, text) in fixtures("tools.response.json") {
        let (mut editor, mut host) = (whole(api), Host::default());
        editor.push(text.as_bytes()).unwrap();
        editor.finish().unwrap();
        host.round(&mut *editor);
        let removed = [editor.call_part(0, 0).unwrap(), editor.call_part(0, 1).unwrap()];
        editor.keep_calls(&removed, Some("Withheld."));
        host.take(&mut *editor);
        let answer = read_whole(api, &host.sent);
        assert_eq!(answer.message.tool_calls().count(), 0);
        assert!(answer.message.visible_text().ends_with("Withheld."));
        assert_eq!(answer.stop.as_str(), "end_turn");
        let (mut old, mut new): (Value, Value) =
            (serde_json::from_str(&text).unwrap(), serde_json::from_slice(&host.sent).unwrap());
        for field in ["content", "choices", "stop_reason", "output", "stopReason"] {
            old.as_object_mut().unwrap().remove(field);
            new.as_object_mut().unwrap().remove(field);
        }
        assert_eq!(old, new);
    }
}

#[test]
fn every_choice_is_edited_on_its_own() {
    let message = |text: &str, id: &str| {
        let calls = json!([{"id": id, "type": "function", "function": {"name": "exec", "arguments": "{}"}}]);
        json!({"role": "assistant", "content": text, "refusal": null, "tool_calls": calls, "annotations": [{"x": text}]})
    };
    let body = json!({"id": "c", "model": "m", "choices": [
        {"index": 0, "message": message("a secret", "x"), "logprobs": {"content": []}, "finish_reason": "tool_calls"},
        {"index": 1, "message": message("plain", "y"), "logprobs": null, "finish_reason": "tool_calls"},
    ], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}});
    let (mut editor, mut host) =
        (whole(Api::OpenAiChat), Host { masked: Some(('s', "*")), ..Host::default() });
    editor.push(body.to_string().as_bytes()).unwrap();
    editor.finish().unwrap();
    host.round(&mut *editor);
    assert_eq!(editor.responses().len(), 2);
    editor.keep_calls(&[editor.call_part(0, 0).unwrap()], Some("No."));
    host.take(&mut *editor);
    let mut expected = body;
    expected["choices"][0] = json!({"index": 0, "message": {"role": "assistant", "content": "a *ecret\n\nNo.", "refusal": null}, "logprobs": null, "finish_reason": "stop"});
    assert_eq!(serde_json::from_slice::<Value>(&host.sent).unwrap(), expected);
}

#[test]
fn a_withheld_answer_is_the_note_alone() {
    for (api, _, text) in fixtures("tools.response.json") {
        for body in [Some(text), None] {
            let mut editor = whole(api);
            if let Some(body) = &body {
                editor.push(body.as_bytes()).unwrap();
                editor.finish().unwrap();
            }
            editor.end_with("Blocked.");
            let answer = read_whole(api, &editor.take());
            assert_eq!(
                (answer.message.visible_text().as_str(), answer.message.content.len()),
                ("Blocked.", 1)
            );
            assert_eq!(answer.stop.as_str(), "end_turn");
            assert_eq!(answer.usage.output > 0, body.is_some());
        }
    }
}

#[test]
fn bodies_that_are_no_answers_fail_in_the_shape_of_the_wire() {
    let error = ProviderError::new(ProviderErrorKind::Server, 502, None, "no answer");
    for (api, _) in WIRES {
        for body in
            ["<html>", "", "{}", "[1]", "{\"choices\":[{}],\"content\":[{}]}", "{\"id\":\"a\",\"id\":\"b\"}"]
        {
            let mut editor = whole(api);
            editor.push(body.as_bytes()).unwrap();
            assert!(editor.finish().is_err(), "{api} {body}");
            assert!(editor.take().is_empty());
            editor.fail(&error);
            let sent: Value = serde_json::from_slice(&editor.take()).unwrap();
            assert_eq!(sent, api.encode_error(&error));
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_survived(which in 0usize..5, at in any::<prop::sample::Index>(), gone in 0usize..20, with in prop::collection::vec(any::<u8>(), 0..6)) {
        let (api, _, text) = fixtures(".response.json").swap_remove(which);
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        let end = (at + gone).min(bytes.len());
        bytes.splice(at..end, with);
        let (mut editor, mut host) = (whole(api), Host::default());
        editor.push(&bytes).unwrap();
        if editor.finish().is_ok() {
            host.round(&mut *editor);
            editor.keep_calls(&[], None);
            host.take(&mut *editor);
            prop_assert_eq!(host.sent, bytes);
        } else {
            prop_assert!(editor.take().is_empty());
        }
    }
}
