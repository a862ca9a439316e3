//! Steps of the editors of answers, of each wire and form: as many as there are items, times a constant.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{beyond_linear, counted};
use crate::live::{self, AnswerEditor, PartKey, TextEdit};
use crate::model::ModelRequest;
use crate::wire::Api;

/// What an answer has many of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Many {
    /// Calls, of which every so manieth is removed.
    Calls(usize),
    /// Texts of their own, each of them rewritten, and longer than it was.
    Texts,
    /// Pieces of one text, each of them rewritten.
    Pieces,
    /// Items of a type that nobody knows, which are removed.
    Unknown,
    /// Fields that nobody knows, one in each frame, which are removed.
    Fields,
    /// Results of tools, which are rewritten, and beside the calls that they are of.
    Results,
    /// Copies of a text that say something else, and so wait for the end.
    Copies,
    /// Events that say nothing, in front of the end of an answer that lost its calls.
    Frames,
    /// Choices that lose a call each.
    Choices,
}

const ALL: [Many; 9] = [
    Many::Calls(1),
    Many::Texts,
    Many::Pieces,
    Many::Unknown,
    Many::Fields,
    Many::Results,
    Many::Copies,
    Many::Frames,
    Many::Choices,
];

/// The forms of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Streamed,
    Array,
    Whole,
}

/// A thing in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thing {
    Call,
    /// The call of the provider's own tool, or of a client's tool that the provider ran.
    Ran,
    /// The result of the thing before.
    Result,
    Text,
    Unknown,
}

/// The things in an answer with so many.
fn things(many: Many, count: usize) -> Vec<Thing> {
    let each: &[Thing] = match many {
        Many::Calls(_) => &[Thing::Call],
        Many::Texts => &[Thing::Text],
        Many::Unknown => &[Thing::Unknown],
        Many::Results => &[Thing::Ran, Thing::Result],
        Many::Pieces | Many::Fields | Many::Copies | Many::Frames | Many::Choices => &[Thing::Text],
    };
    match many {
        Many::Calls(_) | Many::Texts | Many::Unknown | Many::Results => each.repeat(count),
        // One that is lost, so that everything is written anew.
        Many::Frames => [vec![Thing::Call; count], vec![Thing::Text]].concat(),
        Many::Pieces | Many::Fields | Many::Copies | Many::Choices => each.to_vec(),
    }
}

fn event(name: Option<&str>, data: &Value) -> String {
    match name.or_else(|| data["type"].as_str()) {
        Some(name) => format!("event: {name}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}

/// The events of an answer, or its body; `None` if the wire has no such things in this form.
fn answer(api: Api, form: Form, many: Many, count: usize) -> Option<Vec<String>> {
    if form == Form::Array && api != Api::Gemini {
        return None;
    }
    match api {
        Api::AnthropicMessages => anthropic(form, many, count),
        Api::OpenAiChat => chat(form, many, count),
        Api::OpenAiResponses => responses(form, many, count),
        Api::Gemini => gemini(form, many, count),
        Api::BedrockConverse => converse(form, many, count),
    }
}

fn anthropic(form: Form, many: Many, count: usize) -> Option<Vec<String>> {
    let block = |(number, thing): (usize, &Thing)| {
        let (call, before) = (format!("toolu_{number}"), format!("toolu_{}", number.saturating_sub(1)));
        match thing {
            Thing::Call => json!({"type": "tool_use", "id": call, "name": "exec", "input": {}}),
            Thing::Ran => json!({"type": "server_tool_use", "id": call, "name": "web_search", "input": {}}),
            Thing::Result => {
                let found = json!([{"type": "web_search_result", "title": format!("t{number}"), "url": "u", "encrypted_content": "e"}]);
                json!({"type": "web_search_tool_result", "tool_use_id": before, "content": found})
            }
            Thing::Text => json!({"type": "text", "text": "secret"}),
            Thing::Unknown => json!({"type": "future_block", "id": call, "says": number}),
        }
    };
    let blocks: Vec<Value> = things(many, count).iter().enumerate().map(block).collect();
    let message =
        json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}});
    match (form, many) {
        (_, Many::Copies | Many::Choices) => return None,
        (Form::Whole, Many::Pieces | Many::Fields | Many::Frames) => return None,
        (Form::Whole, _) => {
            let mut whole = message;
            whole["content"] = blocks.into();
            whole["stop_reason"] = "tool_use".into();
            return Some(vec![whole.to_string()]);
        }
        _ => {}
    }
    let mut out = vec![event(None, &json!({"type": "message_start", "message": message}))];
    for (number, mut block) in blocks.into_iter().enumerate() {
        let text = block.get_mut("text").map(Value::take);
        if text.is_some() {
            block["text"] = "".into();
        }
        out.push(event(
            None,
            &json!({"type": "content_block_start", "index": number, "content_block": block}),
        ));
        let repeated = if matches!(many, Many::Pieces | Many::Fields) { count } else { 1 };
        for text in text.iter().flat_map(|text| std::iter::repeat_n(text, repeated)) {
            let mut delta = json!({"type": "content_block_delta", "index": number, "delta": {"type": "text_delta", "text": text}});
            if many == Many::Fields {
                delta["future"] = json!({"says": out.len()});
            }
            out.push(event(None, &delta));
        }
        out.push(event(None, &json!({"type": "content_block_stop", "index": number})));
    }
    let delta = json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}});
    if many == Many::Frames {
        out.extend(std::iter::repeat_n(event(None, &json!({"type": "ping"})), count));
    }
    out.push(event(None, &delta));
    out.push(event(None, &json!({"type": "message_stop"})));
    Some(out)
}

fn chat(form: Form, many: Many, count: usize) -> Option<Vec<String>> {
    let call = |number: usize| json!({"index": number, "id": format!("call_{number}"), "type": "function", "function": {"name": "exec", "arguments": "{}"}});
    let unknown = |number: usize| json!({"index": number, "id": format!("call_{number}"), "type": "future", "future": {"says": number}});
    let choice = |index: usize, said: &str, delta: Value, reason: Value| json!({"index": index, said: delta, "finish_reason": reason});
    let body = |choices: Vec<Value>| json!({"id": "c", "model": "m", "choices": choices});
    let calls = |of: &dyn Fn(usize) -> Value| -> Value { (0..count).map(of).collect() };
    if form == Form::Whole {
        let one = |message: Value| vec![choice(0, "message", message, "tool_calls".into())];
        let choices = match many {
            Many::Calls(_) => one(json!({"role": "assistant", "content": null, "tool_calls": calls(&call)})),
            Many::Unknown => {
                one(json!({"role": "assistant", "content": null, "tool_calls": calls(&unknown)}))
            }
            Many::Texts => {
                let parts = vec![json!({"type": "text", "text": "secret"}); count];
                one(json!({"role": "assistant", "content": parts}))
            }
            Many::Choices => {
                let message =
                    |index: usize| json!({"role": "assistant", "content": null, "tool_calls": [call(index)]});
                (0..count)
                    .map(|index| choice(index, "message", message(index), "tool_calls".into()))
                    .collect()
            }
            _ => return None,
        };
        return Some(vec![body(choices).to_string()]);
    }
    let chunk = |choices: Vec<Value>| event(None, &body(choices));
    let said = |delta: Value| chunk(vec![choice(0, "delta", delta, Value::Null)]);
    let mut out = match many {
        Many::Calls(_) => (0..count).map(|number| said(json!({"tool_calls": [call(number)]}))).collect(),
        Many::Unknown => (0..count).map(|number| said(json!({"tool_calls": [unknown(number)]}))).collect(),
        Many::Pieces => vec![said(json!({"content": "secret"})); count],
        Many::Fields => {
            (0..count).map(|number| said(json!({"content": "secret", "future": {"says": number}}))).collect()
        }
        Many::Copies => {
            let copies = json!({"content": [{"token": "other", "logprob": 0}]});
            let piece = json!({"index": 0, "delta": {"content": "secret"}, "logprobs": copies, "finish_reason": null});
            vec![chunk(vec![piece]); count]
        }
        // All calls in one chunk, and many behind it.
        Many::Frames => {
            let all = said(json!({"content": "secret", "tool_calls": calls(&call)}));
            std::iter::once(all).chain(std::iter::repeat_n(said(json!({})), count)).collect()
        }
        Many::Choices => {
            let calls = |index| choice(index, "delta", json!({"tool_calls": [call(0)]}), Value::Null);
            let texts = |index| choice(index, "delta", json!({"content": "secret"}), Value::Null);
            let ends = |index| choice(index, "delta", json!({}), "tool_calls".into());
            return Some(vec![
                chunk((0..count).map(texts).collect()),
                chunk((0..count).map(calls).collect()),
                chunk((0..count).map(ends).collect()),
                "data: [DONE]\n\n".to_owned(),
            ]);
        }
        Many::Texts | Many::Results => return None,
    };
    out.push(chunk(vec![choice(0, "delta", json!({}), "tool_calls".into())]));
    out.push("data: [DONE]\n\n".to_owned());
    Some(out)
}

fn responses(form: Form, many: Many, count: usize) -> Option<Vec<String>> {
    let item = |(number, thing): (usize, &Thing)| {
        let (id, before) = (format!("call_{number}"), format!("call_{}", number.saturating_sub(1)));
        match thing {
            Thing::Call => {
                json!({"type": "function_call", "id": format!("fc_{number}"), "call_id": id, "name": "exec", "arguments": "{}", "status": "completed"})
            }
            Thing::Ran => {
                json!({"type": "shell_call", "id": format!("sh_{number}"), "call_id": id, "action": {"commands": ["ls"]}, "status": "completed"})
            }
            Thing::Result => {
                let output = json!([{"stdout": format!("o{number}"), "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]);
                json!({"type": "shell_call_output", "id": format!("so_{number}"), "call_id": before, "output": output})
            }
            Thing::Text => {
                json!({"type": "message", "id": format!("msg_{number}"), "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": "secret", "annotations": []}]})
            }
            Thing::Unknown => json!({"type": "future_item", "id": id, "says": number}),
        }
    };
    let items: Vec<Value> = things(many, count).iter().enumerate().map(item).collect();
    let frame =
        |status: &str, output: &[Value]| json!({"id": "r", "status": status, "model": "m", "output": output});
    match (form, many) {
        (_, Many::Choices) | (Form::Whole, Many::Pieces | Many::Fields | Many::Copies | Many::Frames) => {
            return None;
        }
        (Form::Whole, _) => return Some(vec![frame("completed", &items).to_string()]),
        _ => {}
    }
    let mut out =
        vec![event(None, &json!({"type": "response.created", "response": frame("in_progress", &[])}))];
    let mut done = Vec::new();
    for (number, item) in items.into_iter().enumerate() {
        let told = |kind: &str, item: &Value| {
            event(None, &json!({"type": kind, "output_index": number, "item": item}))
        };
        if item["type"] != "message" {
            out.push(told("response.output_item.added", &item));
            out.push(told("response.output_item.done", &item));
            done.push(item);
            continue;
        }
        let mut begun = item.clone();
        begun["content"] = json!([]);
        out.push(told("response.output_item.added", &begun));
        let at = json!({"item_id": item["id"], "output_index": number, "content_index": 0});
        let with = |kind: &str, more: Value| {
            let mut event = at.clone();
            event["type"] = kind.into();
            event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            event
        };
        let repeated = if matches!(many, Many::Pieces | Many::Fields | Many::Copies) { count } else { 1 };
        for piece in 0..repeated {
            let mut delta = with("response.output_text.delta", json!({"delta": "secret"}));
            if many == Many::Fields {
                delta["future"] = json!({"says": piece});
            }
            if many == Many::Copies {
                delta["logprobs"] = json!([{"token": "other", "logprob": 0}]);
            }
            out.push(event(None, &delta));
        }
        let text = "secret".repeat(repeated);
        out.push(event(None, &with("response.output_text.done", json!({"text": text}))));
        let mut item = item;
        item["content"][0]["text"] = text.into();
        if many == Many::Texts {
            // What is quoted stands in the text in another order than it was given in.
            let note = |n: usize| json!({"type": "url_citation", "url": format!("u{n}"), "title": "t", "start_index": 0, "end_index": 1});
            let notes: Vec<Value> = (0..3).map(note).collect();
            for (index, note) in notes.iter().enumerate() {
                let more = json!({"annotation_index": index, "annotation": note});
                out.push(event(None, &with("response.output_text.annotation.added", more)));
            }
            item["content"][0]["annotations"] = notes.into_iter().rev().collect();
        }
        out.push(told("response.output_item.done", &item));
        done.push(item);
    }
    if many == Many::Frames {
        let more = json!({"type": "response.in_progress", "response": frame("in_progress", &[])});
        out.extend(std::iter::repeat_n(event(None, &more), count));
    }
    out.push(event(None, &json!({"type": "response.completed", "response": frame("completed", &done)})));
    Some(out)
}

fn gemini(form: Form, many: Many, count: usize) -> Option<Vec<String>> {
    let part = |(number, thing): (usize, &Thing)| match thing {
        Thing::Call => json!({"functionCall": {"id": format!("call_{number}"), "name": "exec", "args": {}}}),
        Thing::Ran => json!({"executableCode": {"language": "PYTHON", "code": "1"}}),
        Thing::Result => {
            json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": format!("o{number}")}})
        }
        // Neighbours of one kind would be one text.
        Thing::Text => json!({"text": "secret", "thought": number % 2 == 1}),
        Thing::Unknown => json!({"futurePart": {"says": number}}),
    };
    let parts: Vec<Value> = things(many, count).iter().enumerate().map(part).collect();
    let candidate = |index: usize, parts: Vec<Value>, reason: Value| json!({"index": index, "content": {"role": "model", "parts": parts}, "finishReason": reason});
    let body =
        |candidates: Vec<Value>| json!({"responseId": "g", "modelVersion": "m", "candidates": candidates});
    let all = |parts: &[Value]| body(vec![candidate(0, parts.to_vec(), "STOP".into())]);
    let last = || body(vec![candidate(0, vec![json!({"text": ""})], "STOP".into())]);
    let piece = |part: &Value| body(vec![candidate(0, vec![part.clone()], Value::Null)]);
    let each = |parts: &[Value]| parts.iter().map(piece).chain([last()]).collect::<Vec<_>>();
    let pieces = match (form, many) {
        (Form::Whole, Many::Pieces | Many::Fields | Many::Copies | Many::Frames) => return None,
        (_, Many::Choices) => {
            let call = |index| candidate(index, vec![part((index, &Thing::Call))], "STOP".into());
            vec![body((0..count).map(call).collect())]
        }
        (Form::Whole, _) => vec![all(&parts)],
        // All of them in one event.
        (Form::Array, Many::Texts | Many::Calls(_)) => vec![all(&parts)],
        (_, Many::Pieces) => each(&vec![json!({"text": "secret"}); count]),
        (_, Many::Fields) => {
            let strange = |number: usize| {
                let mut piece = piece(&json!({"text": "secret"}));
                piece["candidates"][0]["future"] = json!({"says": number});
                piece
            };
            (0..count).map(strange).chain([last()]).collect()
        }
        (_, Many::Copies) => {
            let mut piece = piece(&json!({"text": "secret"}));
            piece["candidates"][0]["groundingMetadata"] = json!({"webSearchQueries": ["secret"]});
            std::iter::repeat_n(piece, count).chain([last()]).collect()
        }
        (_, Many::Frames) => {
            let nothing = body(vec![candidate(0, vec![json!({"text": ""})], Value::Null)]);
            let (last, events) = {
                let mut events = each(&parts);
                (events.pop().unwrap(), events)
            };
            events.into_iter().chain(std::iter::repeat_n(nothing, count)).chain([last]).collect()
        }
        _ => each(&parts),
    };
    Some(match form {
        Form::Whole => pieces.iter().map(Value::to_string).collect(),
        Form::Streamed => pieces.iter().map(|piece| event(None, piece)).collect(),
        Form::Array => {
            let end = pieces.len() - 1;
            let framed = |(at, piece): (usize, &Value)| {
                format!("{}{piece}{}", if at == 0 { "[" } else { "," }, if at == end { "]" } else { "\r\n" })
            };
            pieces.iter().enumerate().map(framed).collect()
        }
    })
}

fn converse(form: Form, many: Many, count: usize) -> Option<Vec<String>> {
    let things = things(many, count);
    let ids = |number: usize| (format!("tooluse_{number}"), format!("tooluse_{}", number.saturating_sub(1)));
    if form == Form::Whole {
        if !matches!(many, Many::Calls(_) | Many::Texts | Many::Unknown | Many::Results) {
            return None;
        }
        let block = |(number, thing): (usize, &Thing)| {
            let (call, before) = ids(number);
            match thing {
                Thing::Call | Thing::Ran => {
                    json!({"toolUse": {"toolUseId": call, "name": "exec", "input": {}}})
                }
                Thing::Result => {
                    json!({"toolResult": {"toolUseId": before, "content": [{"text": format!("o{number}")}]}})
                }
                Thing::Text => json!({"text": "secret"}),
                Thing::Unknown => json!({"futureBlock": {"says": number}}),
            }
        };
        let blocks: Vec<Value> = things.iter().enumerate().map(block).collect();
        let message = json!({"role": "assistant", "content": blocks});
        return Some(vec![json!({"output": {"message": message}, "stopReason": "tool_use"}).to_string()]);
    }
    if matches!(many, Many::Copies | Many::Choices) {
        return None;
    }
    let told = |name: &str, data: Value| event(Some(name), &data);
    let mut out = vec![told("messageStart", json!({"role": "assistant"}))];
    for (number, thing) in things.iter().enumerate() {
        let (call, before) = ids(number);
        let start = match thing {
            Thing::Call | Thing::Ran => Some(json!({"toolUse": {"toolUseId": call, "name": "exec"}})),
            Thing::Result => Some(json!({"toolResult": {"toolUseId": before}})),
            Thing::Unknown => Some(json!({"futureBlock": {"says": number}})),
            Thing::Text => None,
        };
        if let Some(start) = start {
            out.push(told("contentBlockStart", json!({"contentBlockIndex": number, "start": start})));
        }
        if *thing == Thing::Result {
            let delta = json!({"toolResult": [{"text": format!("o{number}")}]});
            out.push(told("contentBlockDelta", json!({"contentBlockIndex": number, "delta": delta})));
        }
        let repeated = if matches!(many, Many::Pieces | Many::Fields) { count } else { 1 };
        for piece in 0..if *thing == Thing::Text { repeated } else { 0 } {
            let mut delta = json!({"contentBlockIndex": number, "delta": {"text": "secret"}});
            if many == Many::Fields {
                delta["future"] = json!({"says": piece});
            }
            out.push(told("contentBlockDelta", delta));
        }
        out.push(told("contentBlockStop", json!({"contentBlockIndex": number})));
    }
    if many == Many::Frames {
        let metadata = json!({"usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}});
        out.push(told("messageStop", json!({"stopReason": "tool_use"})));
        out.push(told("metadata", metadata));
        return Some(out);
    }
    out.push(told("messageStop", json!({"stopReason": "tool_use"})));
    Some(out)
}

fn editor(api: Api, form: Form) -> Box<dyn AnswerEditor> {
    let request = ModelRequest::new("m", Vec::new());
    match form {
        Form::Streamed => live::stream_editor(api, &request),
        Form::Array => live::array_editor(&request),
        Form::Whole => live::whole_editor(api, &request),
    }
}

/// A host that rewrites every text and every result, as they come.
fn judge(editor: &mut dyn AnswerEditor, seen: &mut std::collections::BTreeMap<PartKey, usize>) {
    for fresh in editor.fresh() {
        let from = seen.entry(fresh.part).or_default();
        let starts = fresh.text.match_indices("secret").map(|(at, _)| *from + at);
        let mut edits: Vec<TextEdit> =
            starts.map(|at| TextEdit { span: at..at + 6, replacement: "[gone]".into() }).collect();
        *from += fresh.text.len();
        if fresh.last {
            edits.push(TextEdit { span: *from..*from, replacement: "!".into() });
        }
        editor.settle(fresh.part, *from, edits);
    }
    for result in editor.results() {
        let new = Value::from("gone");
        editor.settle_result(result.key, Some(&new));
    }
}

/// The steps of an answer, read in one go or event by event; it ends by itself, or by a note in place of its end.
fn steps(api: Api, form: Form, answer: &[String], nth: usize, in_one: bool, is_stopped: bool) -> usize {
    let mut editor = editor(api, form);
    counted(|| {
        let (mut seen, mut left) = (std::collections::BTreeMap::new(), Vec::new());
        let whole = [answer.concat()];
        for piece in if in_one { whole.as_slice() } else { answer } {
            editor
                .push(piece.as_bytes())
                .unwrap_or_else(|error| panic!("{api} {form:?}: {error}: {}", answer[1]));
            judge(editor.as_mut(), &mut seen);
            left.extend_from_slice(&editor.take());
        }
        editor.finish().unwrap_or_else(|error| panic!("{api} {form:?}: {error}"));
        judge(editor.as_mut(), &mut seen);
        left.extend_from_slice(&editor.take());
        if is_stopped {
            editor.end_with("withheld");
        } else {
            let calls: Vec<usize> =
                editor.responses().iter().map(|said| said.message.tool_calls().count()).collect();
            let all = calls
                .iter()
                .enumerate()
                .flat_map(|(choice, count)| (0..*count).map(move |call| (choice, call)));
            let removed: Vec<PartKey> = all
                .step_by(nth)
                .map(|(choice, call)| editor.call_part(u32::try_from(choice).unwrap(), call).unwrap())
                .collect();
            editor.keep_calls(&removed, Some("withheld"));
        }
        left.extend_from_slice(&editor.take());
        let left = String::from_utf8(left).unwrap();
        assert!(!left.contains("secret"), "{api} {form:?}: {left}");
        assert!(!left.is_empty(), "{api} {form:?}: nothing has left");
    })
}

const FORMS: [Form; 3] = [Form::Streamed, Form::Array, Form::Whole];

/// Of which wires and forms an answer with many of something takes more steps than it may.
fn check(many: Many, count: usize) -> Vec<String> {
    let mut faults = Vec::new();
    for api in Api::ALL {
        for form in FORMS {
            if answer(api, form, many, 1).is_none() {
                continue;
            }
            let nth = if let Many::Calls(nth) = many { nth } else { 1 };
            for (in_one, is_stopped) in [(true, false), (false, false), (false, true)] {
                let what = format!("{api} {form:?} {many:?}, in one: {in_one}, stopped: {is_stopped}");
                faults.extend(beyond_linear(&what, count, |count| {
                    steps(api, form, &answer(api, form, many, count).unwrap(), nth, in_one, is_stopped)
                }));
            }
        }
    }
    faults
}

#[test]
fn steps_grow_with_what_an_answer_has_many_of_and_no_faster() {
    let faults: Vec<String> = ALL.into_iter().flat_map(|many| check(many, 24)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A wire that has nothing of something in any form would be tried for nothing.
#[test]
fn every_wire_has_most_of_it() {
    for api in Api::ALL {
        for form in FORMS.into_iter().filter(|form| *form != Form::Array || api == Api::Gemini) {
            let tried = ALL.iter().filter(|many| answer(api, form, **many, 1).is_some()).count();
            assert!(tried >= if form == Form::Whole { 4 } else { 6 }, "{api} {form:?}: {tried}");
        }
    }
    for many in ALL {
        let wires = Api::ALL.iter().filter(|api| answer(**api, Form::Streamed, many, 1).is_some()).count();
        assert!(wires >= 2, "{many:?}: {wires}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3))]

    #[test]
    fn steps_grow_with_the_calls_and_no_faster(count in 16_usize..32, nth in 1_usize..4) {
        prop_assert_eq!(check(Many::Calls(nth), count), Vec::<String>::new());
    }
}

#[test]
fn an_answer_has_only_so_many_items() {
    for form in [Form::Streamed, Form::Whole] {
        let answer = answer(Api::OpenAiResponses, form, Many::Calls(1), 10_001).unwrap().concat();
        let mut editor = editor(Api::OpenAiResponses, form);
        let pushed = editor.push(answer.as_bytes());
        assert!(pushed.and_then(|()| editor.finish()).is_err(), "{form:?}");
    }
}
