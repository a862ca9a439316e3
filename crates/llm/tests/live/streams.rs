//! Streams of the fixtures, and of what fixtures do not have.

use std::collections::{BTreeSet, HashMap, HashSet};

use backstop_hooks::conversation::{Part, TokenUsage};
use backstop_llm::live::{PartKey, TextEdit, TextKind};
use backstop_llm::sse::SseDecoder;
use backstop_llm::{Api, ModelResponse, ProviderError, ProviderErrorKind, StopReason, WireError};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::*;

#[test]
fn untouched_is_identical_for_every_split() {
    for (form, name, text) in streams() {
        let mark = if form == Form::Array { "\r\n\t " } else { "\u{feff}" };
        let other_forms = [text.replace('\n', "\r\n"), format!("{mark}{text}"), text.trim_end().to_owned()];
        for (bytes, step) in [(text, 1)].into_iter().chain(other_forms.map(|text| (text, 41))) {
            let bytes = bytes.as_bytes();
            for at in (0..=bytes.len()).step_by(step) {
                let (left, right) = bytes.split_at(at);
                let (mut editor, mut host) = (stream(form), Host { lag: at % 7, ..Host::default() });
                pass(&mut *editor, &mut host, &[left, right]);
                assert_eq!(host.sent, bytes, "{form:?} {name} cut at {at}");
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            let (mut editor, mut host) = (stream(form), Host::default());
            pass(&mut *editor, &mut host, &single);
            assert_eq!(host.sent, bytes, "{form:?} {name} byte by byte");
            assert_eq!(
                heard(editor.responses()),
                heard(&read_choices(form, bytes).unwrap()),
                "{form:?} {name}"
            );
        }
    }
}

/// What was said in each choice. What is said besides them is in the only one, and in none of several.
fn heard(responses: &[ModelResponse]) -> Vec<(Vec<Part>, StopReason, TokenUsage)> {
    let told = |response: &ModelResponse| {
        let mut parts = response.message.content.to_vec();
        // Each choice is read as if it were the first.
        parts.iter_mut().filter(|_| responses.len() > 1).for_each(|part| {
            if let Part::ToolCall(call) = part {
                call.id = "any".into();
            }
        });
        (parts, response.stop.clone(), response.usage)
    };
    responses.iter().map(told).collect()
}

/// What a host has settled of the visible text in a choice.
fn settled(host: &Host, choice: u32) -> String {
    let of_choice =
        host.texts.iter().filter(|(part, kind, _)| *kind == TextKind::Visible && part.choice == choice);
    let settled = of_choice.map(|(part, _, text)| {
        let up_to = host.settled.iter().find(|(key, _)| key == part).unwrap().1;
        text[..up_to].replace('e', "[e]")
    });
    settled.collect()
}

#[test]
fn text_already_streamed_was_already_judged() {
    for (form, name, text) in streams() {
        let bytes = text.as_bytes();
        let masked = |response: &ModelResponse| response.message.visible_text().replace('e', "[e]");
        let texts: Vec<String> = read_choices(form, bytes).unwrap().iter().map(masked).collect();
        // Cuts that lie in one event have the same result.
        let mut known = HashMap::new();
        for at in 0..=bytes.len() {
            let (left, right) = bytes.split_at(at);
            let mut editor = stream(form);
            let mut host = Host { lag: at % 11, masked: Some(('e', "[e]")), ..Host::default() };
            let mut check = |host: &Host| {
                let told = known.entry(host.sent.clone()).or_insert_with(|| said_so_far(form, &host.sent));
                for (choice, sent) in (0..).zip(&told.0) {
                    assert!(settled(host, choice).starts_with(sent), "{form:?} {name} cut at {at}: {sent}");
                }
                assert_eq!(told.1, 0, "{form:?} {name} cut at {at}");
                // Nor does a copy of it leave.
                let sent = String::from_utf8_lossy(&host.sent);
                assert!(
                    !sent.contains("believe") && !sent.contains("the first"),
                    "{form:?} {name} cut at {at}"
                );
            };
            for piece in [left, right] {
                editor.push(piece).unwrap();
                // Nothing leaves before it is settled, whoever asks.
                host.take(&mut *editor);
                check(&host);
                host.round(&mut *editor);
                check(&host);
            }
            editor.finish().unwrap();
            host.round(&mut *editor);
            editor.keep_calls(&[], None);
            host.take(&mut *editor);
            let left = read_choices(form, &host.sent).unwrap();
            assert_eq!(
                left.iter().map(|l| l.message.visible_text()).collect::<Vec<_>>(),
                texts,
                "{form:?} {name}"
            );
        }
    }
}

#[test]
fn choices_say_the_same_streamed_and_whole() {
    for ((api, name, streamed), (_, _, body)) in several(".choices.sse").iter().zip(several(".choices.json"))
    {
        let (mut editor, mut host) = (stream(*api), Host::default());
        pass(&mut *editor, &mut host, &[streamed.as_bytes()]);
        let mut other = whole(*api);
        pass(&mut *other, &mut Host::default(), &[body.as_bytes()]);
        assert_eq!(editor.responses(), other.responses(), "{api} {name}");
        assert!(editor.responses().len() > 1);
        let ids: BTreeSet<&str> = editor
            .responses()
            .iter()
            .flat_map(|response| response.message.tool_calls())
            .map(|call| call.id.as_str())
            .collect();
        assert_eq!(ids.len(), 3, "{api} {name}: {ids:?}");
    }
}

#[test]
fn what_waits_is_counted() {
    for (form, _, text) in streams() {
        let mut editor = stream(form);
        let mut pushed = 0;
        for piece in text.as_bytes().chunks(13) {
            editor.push(piece).unwrap();
            pushed += piece.len();
            assert_eq!(editor.held_bytes(), pushed);
        }
        let sent = editor.take().len();
        assert_eq!(editor.held_bytes() + sent, pushed);
        assert_eq!(editor.has_sent(), sent > 0);
        assert!(editor.keep_alive().is_some());
    }
}

#[test]
fn settled_for_good_needs_no_more_settling() {
    for (api, name, text) in fixtures(".stream.sse") {
        let mut editor = stream(api);
        editor.release_calls();
        let mut sent = Vec::new();
        for piece in text.as_bytes().chunks(50) {
            editor.push(piece).unwrap();
            for fresh in editor.fresh() {
                editor.settle(fresh.part, usize::MAX, Vec::new());
            }
            sent.extend_from_slice(&editor.take());
            assert!(editor.held_bytes() < 600, "{api} {name}");
        }
        assert_eq!(sent, text.as_bytes(), "{api} {name}");
    }
}

#[test]
fn half_a_stream_is_an_error_and_can_be_failed() {
    let error = ProviderError::new(ProviderErrorKind::Server, 500, None, "the answer broke off");
    for (form, name, text) in streams() {
        let (mut failures, mut known) = (0, HashSet::new());
        for at in 0..text.len() {
            let (mut editor, mut host) = (stream(form), Host::default());
            editor.push(&text.as_bytes()[..at]).unwrap();
            host.round(&mut *editor);
            if editor.finish().is_ok() {
                continue;
            }
            failures += 1;
            assert!(editor.take().is_empty(), "{form:?} {name}");
            editor.fail(&error);
            host.take(&mut *editor);
            if known.contains(&host.sent) {
                continue;
            }
            match read_stream(form, &host.sent) {
                Err(WireError::Provider(error)) => assert_eq!(error.kind, ProviderErrorKind::Server),
                other => panic!("{form:?} {name} cut at {at}: {other:?}"),
            }
            known.insert(host.sent);
        }
        assert!(failures * 2 > text.len());
    }
}

fn chunks(chunks: &[Value]) -> String {
    let chunk = |choices: &Value| {
        let body = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices});
        format!("data: {body}\n\n")
    };
    chunks.iter().map(chunk).chain(["data: [DONE]\n\n".to_owned()]).collect()
}

fn delta(index: usize, delta: Value) -> Value {
    json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": null})
}

fn end(index: usize, reason: &str) -> Value {
    json!({"index": index, "delta": {}, "logprobs": null, "finish_reason": reason})
}

fn call(index: usize, id: &str, arguments: &str) -> Value {
    json!({"index": index, "id": id, "type": "function", "function": {"name": "exec", "arguments": arguments}})
}

/// The chunks of a stream, as they arrive.
fn parsed(sent: &[u8]) -> Vec<Value> {
    let frames = SseDecoder::default().push(sent).unwrap();
    let data = frames.into_iter().filter_map(|frame| frame.event).map(|event| event.data);
    data.filter(|data| data != "[DONE]").map(|data| serde_json::from_str(&data).unwrap()).collect()
}

/// What one choice of a stream of chunks says: text, indexes of calls, finish reasons.
fn choice(sent: &[u8], index: u64) -> (String, Vec<u64>, Vec<String>) {
    let (mut text, mut calls, mut ends) = (String::new(), Vec::new(), Vec::new());
    for chunk in parsed(sent) {
        for choice in chunk["choices"].as_array().unwrap().iter().filter(|choice| choice["index"] == index) {
            text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
            for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
                calls.push(call["index"].as_u64().unwrap());
            }
            ends.extend(choice["finish_reason"].as_str().map(str::to_owned));
        }
    }
    (text, calls, ends)
}

#[test]
fn every_choice_is_edited_on_its_own() {
    let text = chunks(&[
        json!([
            delta(0, json!({"role": "assistant", "content": "a sec"})),
            delta(1, json!({"role": "assistant", "content": "b"}))
        ]),
        json!([delta(1, json!({"content": " plain"}))]),
        json!([delta(0, json!({"content": "ret"}))]),
        json!([delta(1, json!({"tool_calls": [call(0, "x", "{}"), call(1, "y", "{}")]}))]),
        json!([delta(0, json!({"tool_calls": [call(0, "z", "{}")]}))]),
        json!([end(0, "tool_calls"), end(1, "tool_calls")]),
    ]);
    let (mut editor, mut host) =
        (stream(Api::OpenAiChat), Host { masked: Some(('s', "*")), ..Host::default() });
    editor.push(text.as_bytes()).unwrap();
    host.round(&mut *editor);
    assert_eq!(editor.responses().len(), 2);
    let removed = [editor.call_part(0, 0).unwrap(), editor.call_part(1, 0).unwrap()];
    editor.keep_calls(&removed, Some("Withheld."));
    host.take(&mut *editor);
    assert_eq!(choice(&host.sent, 0), ("a *ecret\n\nWithheld.".into(), vec![], vec!["stop".into()]));
    assert_eq!(choice(&host.sent, 1), ("b plain\n\nWithheld.".into(), vec![0], vec!["tool_calls".into()]));
}

#[test]
fn calls_and_text_in_one_chunk_are_told_apart() {
    let both = json!({"role": "assistant", "content": "Look: ", "tool_calls": [call(0, "x", "{}"), call(1, "y", "{}")]});
    let text = chunks(&[json!([delta(0, both)]), json!([end(0, "tool_calls")])]);
    for (removed, expected) in [
        (vec![0], ("Look: \n\nNo.", vec![0], "tool_calls")),
        (vec![0, 1], ("Look: \n\nNo.", vec![], "stop")),
        (vec![], ("Look: ", vec![0, 1], "tool_calls")),
    ] {
        let (mut editor, mut host) = (stream(Api::OpenAiChat), Host::default());
        editor.push(text.as_bytes()).unwrap();
        host.round(&mut *editor);
        assert!(host.sent.is_empty());
        let removed: Vec<PartKey> = removed.iter().map(|call| editor.call_part(0, *call).unwrap()).collect();
        editor.keep_calls(&removed, Some("No."));
        host.take(&mut *editor);
        let (said, calls, end) = expected;
        assert_eq!(choice(&host.sent, 0), (said.into(), calls, vec![end.into()]));
        if removed.is_empty() {
            assert_eq!(host.sent, text.as_bytes());
        }
    }
}

#[test]
fn copies_of_a_text_are_edited_with_it() {
    let logprobs = |token: &str| json!({"content": [{"token": token, "logprob": -0.1, "bytes": token.as_bytes(), "top_logprobs": []}], "refusal": null});
    let with = |choice: Value, copies: Value| {
        let mut choice = choice;
        choice["logprobs"] = copies;
        json!([choice])
    };
    let reasoning = json!({"reasoning": "my sec", "reasoning_content": "my sec"});
    let text = chunks(&[
        json!([delta(0, reasoning)]),
        with(delta(0, json!({"role": "assistant", "content": "see"})), logprobs("see")),
        with(delta(0, json!({"content": "", "annotations": []})), logprobs(" sum")),
        with(delta(0, json!({"content": " sum", "annotations": [{"text": "sum"}]})), json!(null)),
        json!([end(0, "stop")]),
    ]);
    // Untouched it is untouched, but a copy ahead of its text waits.
    let (mut editor, mut host) = (stream(Api::OpenAiChat), Host::default());
    let until_copy = text.match_indices("data:").nth(3).unwrap().0;
    editor.push(&text.as_bytes()[..until_copy]).unwrap();
    host.round(&mut *editor);
    assert!(!String::from_utf8_lossy(&host.sent).contains("sum"));
    editor.push(&text.as_bytes()[until_copy..]).unwrap();
    host.round(&mut *editor);
    assert_eq!(host.sent, text.as_bytes());
    // An edit reaches all copies.
    let mut host = Host { masked: Some(('s', "*")), masks_thinking: true, ..Host::default() };
    pass(&mut *stream(Api::OpenAiChat), &mut host, &[text.as_bytes()]);
    let sent = parsed(&host.sent);
    assert_eq!(sent[0]["choices"][0]["delta"], json!({"reasoning": "my *ec", "reasoning_content": "my *ec"}));
    assert_eq!(choice(&host.sent, 0).0, "*ee *um");
    assert!(sent.iter().all(|chunk| chunk["choices"][0]["logprobs"].is_null()));
    assert!(!String::from_utf8_lossy(&host.sent).contains("sum"));
    // Copies that disagree are two readings.
    let disagree = chunks(&[json!([delta(0, json!({"reasoning": "a", "reasoning_content": "b"}))])]);
    assert!(stream(Api::OpenAiChat).push(disagree.as_bytes()).is_err());
}

#[test]
fn streams_with_two_readings_are_refused() {
    for bad in [
        json!([delta(0, json!({"content": "x"})), delta(0, json!({"content": "y"}))]),
        json!([delta(4_000_000_000, json!({"content": "x"}))]),
        json!([delta(0, json!({"content": ["x"]}))]),
    ] {
        assert!(stream(Api::OpenAiChat).push(chunks(&[bad]).as_bytes()).is_err());
    }
    let gap = chunks(&[json!([delta(1, json!({"content": "x"}))]), json!([end(1, "stop")])]);
    assert!(stream(Api::OpenAiChat).push(gap.as_bytes()).is_err());
    let named = b"event: ping\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n";
    assert!(stream(Api::AnthropicMessages).push(named).is_err());
    let twice = "data: {\"choices\":[],\"choices\":[]}\n\n";
    assert!(stream(Api::OpenAiChat).push(twice.as_bytes()).is_err());
    assert!(stream(Api::AnthropicMessages).push(b"data: {\"type\":\"ping\",\"x\":\"\xff\"}\n\n").is_err());
}

#[test]
fn a_text_is_replaced_as_far_as_it_has_not_left() {
    for (api, _) in WIRES {
        let (_, _, text) = fixtures("text.stream.sse").into_iter().find(|(of, ..)| *of == api).unwrap();
        let part = PartKey { choice: 0, part: 0 };
        let mut editor = stream(api);
        editor.push(text.as_bytes()).unwrap();
        editor.settle(part, "Hello, w".len(), Vec::new());
        let mut sent = editor.take().to_vec();
        assert!(editor.replace_text(part, "Good bye").is_err());
        editor.replace_text(part, "Hello, world and all").unwrap();
        editor.settle(part, usize::MAX, Vec::new());
        sent.extend_from_slice(&editor.take());
        assert_eq!(read_stream(api, &sent).unwrap().message.visible_text(), "Hello, world and all");
        editor.replace_text(part, "Hello, world and all").unwrap();
        assert!(editor.replace_text(part, "Hello, world and all that").is_err());
    }
}

#[test]
fn a_text_put_behind_the_end_is_said_before_the_end() {
    for (api, _, text) in fixtures("text.stream.sse") {
        let mut editor = stream(api);
        editor.push(text.as_bytes()).unwrap();
        for fresh in editor.fresh() {
            let end = fresh.text.len();
            let more = TextEdit { span: end..end, replacement: " More.".into() };
            editor.settle(fresh.part, end, vec![more]);
        }
        let sent = editor.take();
        assert_eq!(read_stream(api, &sent).unwrap().message.visible_text(), "Hello, wörld 👋 More.");
    }
}

#[test]
fn citations_of_an_edited_text_are_dropped() {
    let events = [
        json!({"type": "message_start", "message": {"id": "m", "model": "m", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "", "citations": []}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "the secret"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {"cited_text": "secret"}}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta", "x": 1}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "new_event", "index": "x"}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
        json!({"type": "message_stop"}),
    ];
    let text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    for (masked, left) in
        [(None, events.len()), (Some(('x', "")), events.len()), (Some(('s', "*")), events.len() - 1)]
    {
        let mut host = Host { masked, ..Host::default() };
        pass(&mut *stream(Api::AnthropicMessages), &mut host, &[text.as_bytes()]);
        assert_eq!(parsed(&host.sent).len(), left);
        assert_eq!(String::from_utf8_lossy(&host.sent).contains("secret"), masked != Some(('s', "*")));
    }
}

#[test]
fn all_of_a_removed_call_goes_and_later_blocks_move_up() {
    let events = [
        json!({"type": "message_start", "message": {"id": "m", "model": "m", "content": []}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "a", "name": "x", "input": {}}}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "server_tool_use", "id": "s", "name": "y", "input": {}}}),
        json!({"type": "new_event", "index": 0, "copy": "secret"}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"a\":\"secret\"}"}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}}),
        json!({"type": "message_stop"}),
    ];
    let text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let (mut editor, mut host) = (stream(Api::AnthropicMessages), Host::default());
    editor.push(text.as_bytes()).unwrap();
    host.round(&mut *editor);
    editor.keep_calls(&[editor.call_part(0, 0).unwrap()], None);
    host.take(&mut *editor);
    let sent = parsed(&host.sent);
    let blocks: Vec<_> = sent.iter().filter_map(|event| event["index"].as_u64()).collect();
    assert_eq!((blocks, sent.len()), (vec![0, 0], 5));
    assert_eq!(sent[3]["delta"]["stop_reason"], "end_turn");
    assert!(!String::from_utf8_lossy(&host.sent).contains("secret"));
}

proptest! {
    #[test]
    fn any_bytes_are_survived(which in 0usize..5, at in any::<prop::sample::Index>(), gone in 0usize..40, with in prop::collection::vec(any::<u8>(), 0..6), twice in any::<bool>(), lag in 0usize..9) {
        let (api, _, text) = fixtures(".stream.sse").swap_remove(which);
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        let end = (at + gone).min(bytes.len());
        let again = bytes[at..end].to_vec();
        bytes.splice(at..end, if twice { [again.clone(), again].concat() } else { with });
        let (mut editor, mut host) = (stream(api), Host { lag, ..Host::default() });
        if try_pass(&mut *editor, &mut host, &bytes).is_ok() {
            editor.keep_calls(&[], None);
            host.take(&mut *editor);
            prop_assert_eq!(host.sent, bytes);
        } else {
            prop_assert!(bytes.starts_with(&host.sent));
            let after = editor.push(b": more\n\n");
            prop_assert!(after.is_err());
            editor.fail(&ProviderError::new(ProviderErrorKind::Server, 500, None, "x"));
            prop_assert!(!editor.take().is_empty());
        }
    }
}
