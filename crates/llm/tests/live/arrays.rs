//! Gemini streams that are one JSON array.

use backstop_llm::live::AnswerEditor;
use backstop_llm::{Api, ProviderError, ProviderErrorKind, WireError};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::*;

fn arrays() -> Vec<(String, String)> {
    let arrays = streams().into_iter().filter(|(form, ..)| *form == Form::Array);
    arrays.map(|(_, name, text)| (name, text)).collect()
}

fn array(name: &str) -> String {
    arrays().into_iter().find(|(found, _)| found == name).unwrap().1
}

/// The elements of an array that has ended.
fn elements(bytes: &[u8]) -> Vec<Value> {
    serde_json::from_slice(bytes).unwrap()
}

fn take_all(editor: &mut dyn AnswerEditor, host: &mut Host, bytes: &[u8]) {
    editor.push(bytes).unwrap();
    host.round(editor);
}

#[test]
fn an_array_says_what_the_events_say() {
    for (name, text) in arrays() {
        let events = streams()
            .into_iter()
            .find(|(form, found, _)| *form == Form::Events(Api::Gemini) && *found == name);
        let (mut one, mut other) = (stream(Form::Array), stream(Api::Gemini));
        pass(&mut *one, &mut Host::default(), &[text.as_bytes()]);
        pass(&mut *other, &mut Host::default(), &[events.unwrap().2.as_bytes()]);
        assert_eq!(one.responses(), other.responses(), "{name}");
    }
}

#[test]
fn an_edit_touches_one_string_of_an_element() {
    let text = array("text");
    let mut host = Host { masked: Some(('H', "\"[\n")), ..Host::default() };
    let pieces: Vec<&[u8]> = text.as_bytes().chunks(9).collect();
    pass(&mut *stream(Form::Array), &mut host, &pieces);
    let expected = text.replace("\"Hello", "\"\\\"[\\nello").replace("\" How", "\" \\\"[\\now");
    assert_eq!(String::from_utf8(host.sent).unwrap(), expected);
}

#[test]
fn elements_that_lost_their_calls_stay_elements() {
    for name in ["tools", "partial", "several"] {
        let text = array(name);
        let (mut editor, mut host) = (stream(Form::Array), Host::default());
        take_all(&mut *editor, &mut host, text.as_bytes());
        editor.finish().unwrap();
        host.round(&mut *editor);
        let removed: Vec<_> = (0..2)
            .flat_map(|choice| (0..2).filter_map(|call| editor.call_part(choice, call)).collect::<Vec<_>>())
            .collect();
        editor.keep_calls(&removed, Some("Withheld."));
        host.take(&mut *editor);
        let left = elements(&host.sent);
        assert_eq!(left.len(), elements(text.as_bytes()).len(), "{name}");
        let answers = read_choices(Form::Array, &host.sent).unwrap();
        for answer in &answers {
            assert_eq!(answer.message.tool_calls().count(), 0, "{name}");
            assert!(answer.message.visible_text().ends_with("Withheld."), "{name}");
        }
        assert!(!String::from_utf8_lossy(&host.sent).contains("functionCall"), "{name}");
    }
}

#[test]
fn an_array_that_is_ended_is_closed() {
    let error = ProviderError::new(ProviderErrorKind::Overloaded, 503, None, "gone");
    for (name, text) in arrays() {
        let calls = text.contains("functionCall");
        let step = if name == "text" { 1 } else { 5 };
        for at in (0..=text.len()).step_by(step) {
            let Some(begun) = text.get(..at) else { continue };
            let begin = || {
                let (mut editor, mut host) = (stream(Form::Array), Host { lag: at % 5, ..Host::default() });
                take_all(&mut *editor, &mut host, begun.as_bytes());
                (editor, host)
            };
            let (mut editor, mut host) = begin();
            let before = said_so_far(Form::Array, &host.sent).0;
            editor.end_with("No more.");
            host.take(&mut *editor);
            assert_eq!(editor.held_bytes(), 0);
            assert!(!elements(&host.sent).is_empty(), "{name} cut at {at}");
            let answers = read_choices(Form::Array, &host.sent).unwrap();
            for (choice, answer) in answers.iter().enumerate() {
                let text = answer.message.visible_text();
                let had_ended = before.get(choice) == Some(&text);
                assert!(text.ends_with("No more.") || had_ended, "{name} cut at {at}: {text}");
                assert_eq!(answer.message.tool_calls().count(), 0);
            }

            let (mut editor, mut host) = begin();
            editor.fail(&error);
            host.take(&mut *editor);
            let last = elements(&host.sent).pop().unwrap();
            let told = last["error"]["code"] == 503;
            let is_whole = !calls && at == text.len();
            assert!(told || is_whole, "{name} cut at {at}: {last}");
        }
    }
}

/// Some readers take white space only behind the bracket that opens the array.
#[test]
fn white_space_keeps_clients_patient_wherever_something_has_left() {
    for (name, text) in arrays() {
        let (mut editor, mut host) = (stream(Form::Array), Host::default());
        let patience = editor.keep_alive().unwrap();
        let mut sent = Vec::new();
        for piece in text.as_bytes().chunks(1) {
            take_all(&mut *editor, &mut host, piece);
            let left = std::mem::take(&mut host.sent);
            assert!(editor.has_sent(), "{name}: the bracket leaves at once");
            sent.extend_from_slice(&left);
            sent.extend_from_slice(&patience);
        }
        editor.finish().unwrap();
        host.round(&mut *editor);
        editor.keep_calls(&[], None);
        host.take(&mut *editor);
        sent.extend_from_slice(&host.sent);
        assert_eq!(sent[0], b'[');
        assert_eq!(elements(&sent), elements(text.as_bytes()), "{name}");
    }
}

#[test]
fn what_is_no_array_of_answers_is_refused() {
    let end = json!({"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}]});
    let read = |bytes: &str| -> Result<(), WireError> {
        let mut editor = stream(Form::Array);
        editor.push(bytes.as_bytes())?;
        editor.finish()
    };
    read(&format!(" [{end}]\n")).unwrap();
    for bad in [
        String::new(),
        "[]".to_owned(),
        end.to_string(),
        format!("\u{feff}[{end}]"),
        format!("[[{end}]]"),
        format!("[{end},[{end}]]"),
        format!("[[],{end}]"),
        format!("[{end}"),
        format!("[{end},"),
        format!("[{end},]"),
        format!("[,{end}]"),
        format!("[{end}{end}]"),
        format!("[{end}][{end}]"),
        format!("[{end}]{end}"),
        format!("[{end}]]"),
        format!("[{end},null]"),
        format!("[{end},\"x\"]"),
        format!("[{end} // x\n]"),
        format!("[{}]]", end.to_string().strip_suffix('}').unwrap()),
        format!("data: {end}\n\n"),
        format!("[{end},{{\"candidates\":[],\"candidates\":[{end}]}}]"),
        format!("[{end},{{\"Candidates\":[{end}]}}]"),
        format!("[{end},{end}]"),
        "[{\"error\":{\"code\":500,\"message\":\"x\",\"status\":\"INTERNAL\"}}]".to_owned(),
    ] {
        assert!(read(&bad).is_err(), "{bad}");
    }
    let mut editor = stream(Form::Array);
    assert!(editor.push(b"[{\"x\":\"\xff\"}]").is_err(), "not UTF-8");
    let mut editor = stream(Form::Array);
    editor.push(b"[").unwrap();
    assert!((0..9).any(|_| editor.push(&vec![b' '; 1 << 20]).is_err()), "white space without end");
}

proptest! {
    #[test]
    fn any_bytes_are_survived(which in 0usize..4, at in any::<prop::sample::Index>(), gone in 0usize..40, with in prop::collection::vec(any::<u8>(), 0..6), lag in 0usize..9) {
        let (_, text) = arrays().swap_remove(which);
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        let end = (at + gone).min(bytes.len());
        bytes.splice(at..end, with);
        let (mut editor, mut host) = (stream(Form::Array), Host { lag, ..Host::default() });
        if try_pass(&mut *editor, &mut host, &bytes).is_ok() {
            editor.keep_calls(&[], None);
            host.take(&mut *editor);
            prop_assert_eq!(host.sent, bytes);
        } else {
            prop_assert!(bytes.starts_with(&host.sent));
            editor.fail(&ProviderError::new(ProviderErrorKind::Server, 500, None, "x"));
            host.take(&mut *editor);
            let told = serde_json::from_slice::<Vec<Value>>(&host.sent).unwrap();
            prop_assert!(!told.is_empty());
        }
    }
}
