//! The Responses wire, which says everything several times.

use std::fs;
use std::path::PathBuf;

use backstop_llm::live::{AnswerEditor, PartKey};
use backstop_llm::{Api, ModelResponse, ProviderError, ProviderErrorKind, StopReason};
use serde_json::{Value, json};

use super::support::{Host, pass, read_stream, read_whole, stream, whole};

const API: Api = Api::OpenAiResponses;

fn fixtures(ending: &str) -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/openai_responses");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = files
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_suffix(ending)?.to_owned();
            Some((name, fs::read_to_string(&path).unwrap()))
        })
        .collect();
    found.sort();
    assert!(found.len() >= 6);
    found
}

fn fixture(name: &str, ending: &str) -> String {
    fixtures(ending).into_iter().find(|(found, _)| found == name).unwrap().1
}

/// The events of a stream.
fn events(text: &[u8]) -> Vec<Value> {
    let text = str::from_utf8(text).unwrap();
    text.lines()
        .filter_map(|line| Some(serde_json::from_str(line.strip_prefix("data: ")?).unwrap()))
        .collect()
}

/// What holds for every stream that leaves: numbers ascend by one, and the strict codec accepts it.
fn read(text: &[u8]) -> ModelResponse {
    for (place, event) in events(text).iter().enumerate() {
        assert_eq!(event["sequence_number"], place, "{event}");
    }
    read_stream(API, text).unwrap()
}

/// Passes a stream that loses the calls at `removed`, with a note.
fn without_calls(text: &str, removed: &[usize]) -> (Vec<u8>, ModelResponse) {
    let (mut editor, mut host) = (stream(API), Host::default());
    editor.push(text.as_bytes()).unwrap();
    host.round(&mut *editor);
    editor.finish().unwrap();
    host.round(&mut *editor);
    let parts: Vec<PartKey> = removed.iter().map(|call| editor.call_part(0, *call).unwrap()).collect();
    editor.keep_calls(&parts, Some("Some calls were withheld."));
    host.take(&mut *editor);
    assert_eq!(editor.held_bytes(), 0);
    let answer = read(&host.sent);
    (host.sent, answer)
}

#[test]
fn untouched_is_identical_wherever_it_is_cut() {
    for (name, text) in fixtures(".stream.sse") {
        let bytes = text.as_bytes();
        for at in (0..=bytes.len()).step_by(1 + bytes.len() / 150) {
            let (left, right) = bytes.split_at(at);
            let (mut editor, mut host) = (stream(API), Host { lag: at % 7, ..Host::default() });
            pass(&mut *editor, &mut host, &[left, right]);
            assert_eq!(host.sent, bytes, "{name} cut at {at}");
            assert_eq!(editor.responses(), [read_stream(API, bytes).unwrap()], "{name}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        let (mut editor, mut host) = (stream(API), Host::default());
        pass(&mut *editor, &mut host, &single);
        assert_eq!(host.sent, bytes, "{name} byte by byte");
    }
    for (name, text) in fixtures(".response.json") {
        let (mut editor, mut host) = (whole(API), Host::default());
        pass(&mut *editor, &mut host, &[text.as_bytes()]);
        assert_eq!(host.sent, text.as_bytes(), "{name}");
    }
}

#[test]
fn a_masked_letter_is_in_no_copy() {
    for (name, text) in fixtures(".stream.sse") {
        let said = read_stream(API, text.as_bytes()).unwrap();
        for lag in [0, 1, 5] {
            for chunk in [1, 7, text.len()] {
                let masked =
                    Host { lag, masked: Some(('e', "<mask>")), masks_thinking: true, ..Host::default() };
                let (mut editor, mut host) = (stream(API), masked);
                let pieces: Vec<&[u8]> = text.as_bytes().chunks(chunk).collect();
                pass(&mut *editor, &mut host, &pieces);
                let answer = read(&host.sent);
                let expected = said.message.visible_text().replace('e', "<mask>");
                assert_eq!(answer.message.visible_text(), expected, "{name} {lag} {chunk}");
                assert_eq!(answer.message.content.len(), said.message.content.len(), "{name}");
            }
        }
    }
}

#[test]
fn a_masked_letter_is_in_no_copy_of_a_whole_answer() {
    for (name, text) in fixtures(".response.json") {
        let mut body: Value = serde_json::from_str(&text).unwrap();
        let said = read_whole(API, text.as_bytes());
        let refusal = name == "refusal";
        let copy = if refusal { String::new() } else { said.message.visible_text() };
        body["output_text"] = copy.into();
        let (mut editor, mut host) =
            (whole(API), Host { masked: Some(('e', "<mask>")), masks_thinking: true, ..Host::default() });
        pass(&mut *editor, &mut host, &[body.to_string().as_bytes()]);
        let answer = read_whole(API, &host.sent);
        assert_eq!(answer.message.visible_text(), said.message.visible_text().replace('e', "<mask>"));
        if name == "text" {
            assert!(
                !String::from_utf8(host.sent).unwrap().contains("url_citation"),
                "citations quote the text"
            );
        }
    }
}

#[test]
fn removed_calls_are_in_no_copy() {
    let text = fixture("tools", ".stream.sse");
    let said = read_stream(API, text.as_bytes()).unwrap();
    let calls: Vec<_> = said.message.tool_calls().cloned().collect();
    assert_eq!(calls.len(), 8);
    for removed in [vec![0], vec![3], vec![1, 4, 7], (0..8).collect()] {
        let (sent, answer) = without_calls(&text, &removed);
        let left: Vec<_> = answer.message.tool_calls().map(|call| call.id.as_str().to_owned()).collect();
        let expected: Vec<_> = (0..8).filter(|call| !removed.contains(call)).collect();
        assert_eq!(left.len(), expected.len());
        let sent = String::from_utf8(sent).unwrap();
        for call in &removed {
            assert!(!sent.contains(calls[*call].id.as_str()), "call {call}");
        }
        assert!(answer.message.visible_text().ends_with("Some calls were withheld."));
        let stop = if left.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        assert_eq!((answer.stop, answer.usage), (stop, said.usage));
        let mut indexes: Vec<u64> = events(sent.as_bytes())
            .iter()
            .filter(|event| event["type"] == "response.output_item.added")
            .map(|event| event["output_index"].as_u64().unwrap())
            .collect();
        let count = indexes.len() as u64;
        assert_eq!(indexes, (0..count).collect::<Vec<_>>());
        indexes.dedup();
        assert_eq!(indexes.len() as u64, count);
    }
}

#[test]
fn removed_calls_are_gone_from_whole_answers() {
    let text = fixture("tools", ".response.json");
    let (mut editor, mut host) = (whole(API), Host::default());
    editor.push(text.as_bytes()).unwrap();
    editor.finish().unwrap();
    host.round(&mut *editor);
    assert!(host.sent.is_empty(), "calls are held");
    let removed: Vec<PartKey> = [0, 2].iter().map(|call| editor.call_part(0, *call).unwrap()).collect();
    editor.keep_calls(&removed, Some("Withheld."));
    host.take(&mut *editor);
    let answer = read_whole(API, &host.sent);
    assert_eq!(answer.message.tool_calls().count(), 6);
    assert!(answer.message.visible_text().ends_with("Withheld."));
    assert!(!String::from_utf8(host.sent).unwrap().contains("fc_1"));
}

#[test]
fn a_servers_answer_to_a_removed_call_goes_with_it() {
    let call = json!({"type": "shell_call", "id": "sh_1", "call_id": "c1", "status": "completed", "action": {"commands": ["id"]}});
    let result = json!({"type": "shell_call_output", "id": "sho_1", "call_id": "c1", "output": [{"stdout": "root", "stderr": ""}]});
    let body = json!({"id": "r", "model": "m", "status": "completed", "output": [call, result]}).to_string();
    let (mut editor, mut host) = (whole(API), Host::default());
    editor.push(body.as_bytes()).unwrap();
    editor.finish().unwrap();
    host.round(&mut *editor);
    editor.keep_calls(&[editor.call_part(0, 0).unwrap()], Some("Withheld."));
    host.take(&mut *editor);
    let body: Value = serde_json::from_slice(&host.sent).unwrap();
    assert_eq!(body["output"].as_array().unwrap().len(), 1);
    assert_eq!(read_whole(API, &host.sent).message.visible_text(), "Withheld.");
}

#[test]
fn nothing_of_a_call_leaves_before_it_is_decided() {
    let text = fixture("tools", ".stream.sse");
    let (mut editor, mut host) = (stream(API), Host::default());
    editor.push(text.as_bytes()).unwrap();
    host.round(&mut *editor);
    let sent = String::from_utf8(host.sent.clone()).unwrap();
    assert!(sent.contains("Both files.") && !sent.contains("function_call") && !sent.contains("call_"));
    assert!(editor.held_bytes() > 0);
    editor.release_calls();
    host.take(&mut *editor);
    assert_eq!(host.sent, text.as_bytes());
}

/// Where the frames of a stream end.
fn frame_ends(text: &str) -> Vec<usize> {
    text.match_indices("\n\n").map(|(at, end)| at + end.len()).collect()
}

#[test]
fn an_answer_can_end_at_any_place() {
    for (name, text) in fixtures(".stream.sse") {
        for end in std::iter::once(0).chain(frame_ends(&text)) {
            for lag in [0, 3, 1_000] {
                let (mut editor, mut host) =
                    (stream(API), Host { lag, masked: Some(('e', "")), ..Host::default() });
                for piece in text.as_bytes()[..end].chunks(50) {
                    editor.push(piece).unwrap();
                    host.round(&mut *editor);
                }
                editor.end_with("This answer was withheld.");
                host.take(&mut *editor);
                let answer = read(&host.sent);
                let is_whole = answer.stop == StopReason::EndTurn
                    || answer.message.visible_text().contains("This answer was withheld.");
                assert!(is_whole || end == text.len(), "{name} {end}: {:?}", answer.stop);
                assert_eq!(answer.message.tool_calls().count(), 0);
            }
        }
    }
}

#[test]
fn half_a_released_call_never_looks_whole() {
    let text = fixture("tools", ".stream.sse");
    for end in frame_ends(&text) {
        let (mut editor, mut host) = (stream(API), Host::default());
        editor.release_calls();
        editor.push(&text.as_bytes()[..end]).unwrap();
        host.round(&mut *editor);
        editor.end_with("Over.");
        host.take(&mut *editor);
        let sent = events(&host.sent);
        let done = sent.iter().filter(|event| event["type"] == "response.output_item.done").count();
        let last = sent.last().unwrap();
        assert_eq!(last["response"]["output"].as_array().unwrap().len(), done);
        let added = sent.iter().filter(|event| event["type"] == "response.output_item.added").count();
        read(&host.sent);
        let expected = if added == done { "response.completed" } else { "response.incomplete" };
        assert_eq!(last["type"], expected);
    }
}

#[test]
fn an_error_is_the_last_event() {
    let text = fixture("text", ".stream.sse");
    let end = frame_ends(&text)[4];
    let (mut editor, mut host) = (stream(API), Host::default());
    editor.push(&text.as_bytes()[..end]).unwrap();
    host.round(&mut *editor);
    editor.fail(&ProviderError::new(ProviderErrorKind::Server, 500, None, "gone"));
    host.take(&mut *editor);
    let sent = events(&host.sent);
    let last = sent.last().unwrap();
    assert_eq!(
        (&last["type"], &last["message"], &last["sequence_number"]),
        (&json!("error"), &json!("gone"), &json!(5))
    );
}

#[test]
fn a_text_is_replaced_before_it_leaves_and_not_after() {
    let text = fixture("text", ".stream.sse");
    let mut editor = stream(API);
    editor.push(text.as_bytes()).unwrap();
    let part = editor.fresh()[0].part;
    editor.replace_text(part, "Something else.").unwrap();
    editor.settle(part, usize::MAX, Vec::new());
    editor.release_calls();
    let sent = editor.take();
    assert_eq!(read(&sent).message.visible_text(), "Something else.");
    assert!(!String::from_utf8(sent.to_vec()).unwrap().contains("Hi"));
    assert!(editor.replace_text(part, "Too late.").is_err());
}

#[test]
fn log_probabilities_of_another_text_wait() {
    let text = fixture("text", ".stream.sse");
    let delta = "\"delta\":\"Hi\",\"logprobs\":[{\"token\":\"Hi\"";
    assert!(text.contains(delta));
    let later = text.replacen(delta, "\"delta\":\"Hi\",\"logprobs\":[{\"token\":\"the\"", 1);
    let (mut editor, mut host) = (stream(API), Host { masked: Some(('t', "*")), lag: 1, ..Host::default() });
    pass(&mut *editor, &mut host, &[later.as_bytes()]);
    assert!(!String::from_utf8(host.sent).unwrap().contains("\"token\""));
}

#[test]
fn copies_that_disagree_never_leave() {
    let text = fixture("tools", ".stream.sse");
    for (from, to) in [
        ("\"text\":\"Both files.\"", "\"text\":\"Both rites.\""),
        ("\"sequence_number\":9,", "\"sequence_number\":7,"),
    ] {
        let at = text.rfind(from).unwrap();
        let altered = format!("{}{to}{}", &text[..at], &text[at + from.len()..]);
        let mut editor = stream(API);
        assert!(editor.push(altered.as_bytes()).is_err(), "{from}");
        assert!(!editor.is_whole());
    }
}

#[test]
fn keep_alives_are_skipped() {
    let editor: Box<dyn AnswerEditor> = stream(API);
    assert!(editor.keep_alive().unwrap().starts_with(b":"));
}
