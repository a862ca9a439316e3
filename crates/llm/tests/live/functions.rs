//! OpenAI Chat's older form of tools: `functions` and `function_call`.

use backstop_hooks::conversation::{Message, Part, ToolCall};
use backstop_llm::live::{AnswerEditor, LiveRequest};
use backstop_llm::{Api, ModelRequest, WireError};
use bytes::Bytes;
use serde_json::{Value, json};

use super::support::*;

const API: Api = Api::OpenAiChat;

fn fixture(ending: &str) -> String {
    fixtures(ending).into_iter().find(|(api, ..)| *api == API).unwrap().2
}

fn chunk(choices: &Value) -> String {
    format!(
        "data: {}\n\n",
        json!({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": choices})
    )
}

fn delta(index: u32, delta: &Value) -> Value {
    json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": null})
}

fn end(index: u32, reason: &str) -> Value {
    json!({"index": index, "delta": {}, "logprobs": null, "finish_reason": reason})
}

fn call(name: &str, arguments: &str) -> Value {
    json!({"function_call": {"name": name, "arguments": arguments}})
}

/// Takes the first call of these choices out of an answer.
fn without(editor: &mut dyn AnswerEditor, bytes: &[u8], choices: &[u32]) -> String {
    let mut host = Host::default();
    for piece in bytes.chunks(23) {
        editor.push(piece).unwrap();
        host.round(editor);
    }
    editor.finish().unwrap();
    host.round(editor);
    assert!(!String::from_utf8_lossy(&host.sent).contains("\"function_call\":{"), "a call left undecided");
    let removed: Vec<_> = choices.iter().map(|choice| editor.call_part(*choice, 0).unwrap()).collect();
    editor.keep_calls(&removed, Some("Withheld."));
    host.take(editor);
    assert_eq!(editor.held_bytes(), 0);
    String::from_utf8(host.sent).unwrap()
}

#[test]
fn a_function_call_is_a_tool_call() {
    let (streamed, body) = (fixture("function_call.stream.sse"), fixture("function_call.response.json"));
    let (mut one, mut other) = (stream(API), whole(API));
    pass(&mut *one, &mut Host::default(), &[streamed.as_bytes()]);
    pass(&mut *other, &mut Host::default(), &[body.as_bytes()]);
    assert_eq!(one.responses(), other.responses());
    let answer = &one.responses()[0];
    let calls: Vec<&ToolCall> = answer.message.tool_calls().collect();
    assert_eq!((calls.len(), calls[0].name.as_str(), calls[0].id.as_str()), (1, "read", "chatcmpl-4_1"));
    assert_eq!(calls[0].arguments.to_value(), json!({"path": "a.rs"}));
    assert_eq!(answer.stop.as_str(), "tool_use");
}

#[test]
fn a_removed_function_call_leaves_in_no_form() {
    let text = fixture("function_call.stream.sse");
    let sent = without(&mut *stream(API), text.as_bytes(), &[0]);
    let frames: Vec<&str> = text.split_inclusive("\n\n").collect();
    let left: Vec<&str> = sent.split_inclusive("\n\n").collect();
    assert_eq!(left[0], frames[0]);
    assert!(left[1].contains(r#""content":"\n\nWithheld.""#), "{}", left[1]);
    assert_eq!(left[2], frames[4].replace("\"function_call\"", "\"stop\""));
    assert_eq!(left[3..], frames[5..]);

    let body = fixture("function_call.response.json");
    let sent = without(&mut *whole(API), body.as_bytes(), &[0]);
    let mut expected: Value = serde_json::from_str(&body).unwrap();
    let choice = &mut expected["choices"][0];
    choice["message"].as_object_mut().unwrap().remove("function_call");
    choice["message"]["content"] = "Reading it.\n\nWithheld.".into();
    choice["finish_reason"] = "stop".into();
    assert_eq!(serde_json::from_str::<Value>(&sent).unwrap(), expected);
}

#[test]
fn every_choice_has_its_own_function_call() {
    let both = |first: &Value, second: &Value| chunk(&json!([delta(0, first), delta(1, second)]));
    let text = [
        both(
            &json!({"role": "assistant", "content": null, "function_call": {"name": "go", "arguments": ""}}),
            &call("stay", "{\"a\""),
        ),
        both(&json!({"function_call": {"arguments": "{}"}}), &json!({"function_call": {"arguments": ":1}"}})),
        chunk(&json!([end(1, "function_call"), end(0, "function_call")])),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat();
    let mut editor = stream(API);
    let sent = without(&mut *editor, text.as_bytes(), &[0]);
    let ids: Vec<&str> = editor
        .responses()
        .iter()
        .flat_map(|answer| answer.message.tool_calls())
        .map(|call| call.id.as_str())
        .collect();
    assert_eq!(ids, ["c_1", "c_c1_1"]);
    let left = read_choices(API, sent.as_bytes()).unwrap();
    assert_eq!(left[0].message.visible_text(), "Withheld.");
    assert_eq!((left[0].message.tool_calls().count(), left[0].stop.as_str()), (0, "end_turn"));
    let kept: Vec<&ToolCall> = left[1].message.tool_calls().collect();
    assert_eq!((kept[0].name.as_str(), left[1].stop.as_str()), ("stay", "tool_use"));
    assert!(!sent.contains("\"go\"") && sent.contains("\"role\":\"assistant\""), "{sent}");
}

/// Text beside a call is edited on its own, and the call waits with it.
#[test]
fn text_and_a_function_call_in_one_chunk_are_told_apart() {
    let text = [
        chunk(&json!([delta(0, &json!({"content": "a secret", "function_call": {"name": "go", "arguments": "{}"}, "annotations": {"x": "secret"}}))])),
        chunk(&json!([end(0, "function_call")])),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat();
    for (removed, kept) in [(vec![], 1), (vec![0], 0)] {
        let mut editor = stream(API);
        let mut host = Host { masked: Some(('s', "*")), ..Host::default() };
        editor.push(text.as_bytes()).unwrap();
        host.round(&mut *editor);
        assert!(host.sent.is_empty());
        let removed: Vec<_> = removed.into_iter().map(|call| editor.call_part(0, call).unwrap()).collect();
        editor.keep_calls(&removed, None);
        host.take(&mut *editor);
        let answer = read_stream(API, &host.sent).unwrap();
        assert_eq!(
            (answer.message.visible_text().as_str(), answer.message.tool_calls().count()),
            ("a *ecret", kept)
        );
        assert!(!String::from_utf8_lossy(&host.sent).contains("secret"));
    }
}

#[test]
fn calls_in_two_forms_are_refused() {
    let tool_calls = || json!([{"index": 0, "id": "x", "type": "function", "function": {"name": "exec", "arguments": "{}"}}]);
    let both = || json!({"function_call": {"name": "exec", "arguments": "{}"}, "tool_calls": tool_calls()});
    let streamed = |deltas: &[Value]| -> Result<(), WireError> {
        let mut editor = stream(API);
        for said in deltas {
            editor.push(chunk(&json!([delta(0, said)])).as_bytes())?;
        }
        editor.push(chunk(&json!([end(0, "function_call")])).as_bytes())
    };
    for bad in [
        vec![both()],
        vec![json!({"tool_calls": tool_calls()}), call("exec", "{}")],
        vec![call("exec", "{}"), json!({"tool_calls": tool_calls()})],
        // What never began, changes on the way, or has another form.
        vec![json!({"function_call": {"arguments": "{}"}})],
        vec![json!({"function_call": {}})],
        vec![call("exec", "{"), call("read", "}")],
        vec![json!({"function_call": "exec"})],
        vec![json!({"function_call": [{"name": "exec", "arguments": "{}"}]})],
        vec![json!({"function_call": {"name": ["exec"]}})],
        vec![json!({"Function_Call": {"name": "exec", "arguments": "{}"}})],
    ] {
        assert!(streamed(&bad).is_err(), "{bad:?}");
    }
    streamed(&[call("exec", "{}"), json!({"function_call": null, "tool_calls": []})]).unwrap();
    let mut editor = stream(API);
    editor.push(chunk(&json!([end(0, "stop")])).as_bytes()).unwrap();
    assert!(
        editor.push(chunk(&json!([delta(0, &call("exec", "{}"))])).as_bytes()).is_err(),
        "behind the end"
    );

    let answered = |message: Value| -> Result<(), WireError> {
        let body = json!({"id": "c", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "function_call"}]});
        let mut editor = whole(API);
        editor.push(body.to_string().as_bytes())?;
        editor.finish()
    };
    let asked = |message: &Value| {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}, message]});
        LiveRequest::read(API, body.to_string().into()).map(|_| ())
    };
    for bad in [
        both(),
        json!({"function_call": "exec"}),
        json!({"function_call": {"arguments": "{}"}}),
        json!({"function_call": {"name": 1}}),
    ] {
        let mut message = bad.clone();
        message["role"] = "assistant".into();
        assert!(answered(message.clone()).is_err() && asked(&message).is_err(), "{bad}");
    }
    answered(
        json!({"role": "assistant", "function_call": {"name": "exec", "arguments": "{}"}, "tool_calls": []}),
    )
    .unwrap();
    assert!(asked(&json!({"role": "function", "content": "a result of nobody"})).is_err());
}

fn request(body: &str) -> LiveRequest {
    LiveRequest::read(API, Bytes::copy_from_slice(body.as_bytes())).unwrap()
}

fn edited(body: &str, edit: impl FnOnce(&mut ModelRequest)) -> String {
    let request = request(body);
    let mut new = request.request().clone();
    edit(&mut new);
    String::from_utf8(request.write(&new).to_vec()).unwrap()
}

fn names(request: &ModelRequest) -> Vec<&str> {
    request.tools.iter().map(backstop_llm::ToolDefinition::name).collect()
}

#[test]
fn functions_are_narrowed_with_their_choice() {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"x"}],"functions":[ {"name":"read"} ,{"name":"list","x":1}],"function_call":{"name":"read"}}"#;
    assert_eq!(names(request(body).request()), ["read", "list"]);
    assert_eq!(edited(body, |_| {}), body);
    let got = edited(body, |new| drop(new.tools.remove(1)));
    assert_eq!(got, body.replace(r#" ,{"name":"list","x":1}"#, ""));
    let got = edited(body, |new| drop(new.tools.remove(0)));
    assert_eq!(
        got,
        body.replace(r#"{"name":"read"} ,"#, "").replace(r#","function_call":{"name":"read"}"#, "")
    );
    let got = edited(body, |new| new.tools.clear());
    assert_eq!(got, r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#);
    let none = body.replace(r#"{"name":"read"}}"#, r#""none"}"#);
    assert!(edited(&none, |new| drop(new.tools.remove(0))).contains(r#""function_call":"none""#));

    // Both forms side by side: each list has its own choice.
    let both = r#"{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"exec"}}],"tool_choice":"required","parallel_tool_calls":true,"functions":[{"name":"read"}],"function_call":{"name":"read"}}"#;
    assert_eq!(names(request(both).request()), ["exec", "read"]);
    let got = edited(both, |new| drop(new.tools.remove(0)));
    assert_eq!(
        got,
        r#"{"model":"m","messages":[{"role":"user","content":"x"}],"functions":[{"name":"read"}],"function_call":{"name":"read"}}"#
    );
    let got = edited(both, |new| drop(new.tools.remove(1)));
    assert_eq!(got, both.replace(r#","functions":[{"name":"read"}],"function_call":{"name":"read"}"#, ""));
}

#[test]
fn a_conversation_with_functions_is_edited_in_place() {
    let body = fixture("functions.request.json");
    let live = request(&body);
    let messages = &live.request().messages;
    let ids: Vec<&str> = messages.iter().flat_map(Message::tool_calls).map(|call| call.id.as_str()).collect();
    let answered: Vec<&str> =
        messages.iter().flat_map(Message::tool_results).map(|result| result.tool_call_id.as_str()).collect();
    assert_eq!(
        (ids.as_slice(), answered.as_slice()),
        (["call_1", "call_2"].as_slice(), ["call_1", "call_2"].as_slice())
    );

    let call_at = |new: &mut ModelRequest, message: usize, part: usize, change: fn(&mut ToolCall)| {
        let Part::ToolCall(call) = &mut new.messages[message].content[part] else { panic!("no call") };
        change(call);
    };
    let rename = |call: &mut ToolCall| {
        call.arguments.make_mut().insert("path".to_owned(), "c.rs".into());
    };
    let got = edited(&body, |new| call_at(new, 1, 0, rename));
    assert_eq!(got, body.replace("a.rs", "c.rs"));
    let got = edited(&body, |new| {
        let Part::ToolResult(result) = &mut new.messages[2].content[0] else { panic!("no result") };
        result.content = vec![Part::text("gone")];
    });
    assert_eq!(got, body.replace("fn a() {}", "gone"));
    // A call that is gone goes with its field, and a message that was nothing else as a whole.
    let got = edited(&body, |new| drop(new.messages[3].content.remove(1)));
    assert_eq!(
        got,
        body.replace(r#","function_call":{"name":"read","arguments":"{\"path\":\"b.rs\"}"}"#, "")
    );
    let got = edited(&body, |new| new.messages[1].content.clear());
    let left: Value = serde_json::from_str(&got).unwrap();
    assert_eq!(left["messages"].as_array().unwrap().len(), 5);
}

/// Fields that only this crate's `meta` has mean nothing where a wire says them.
#[test]
fn a_tool_call_is_never_taken_for_a_function_call() {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"exec","arguments":"{}"},"function_call":{"x":1}}]},{"role":"tool","tool_call_id":"a","content":"y"}],"tools":[{"type":"function","function":{"name":"exec","functions":true}}]}"#;
    let live = request(body);
    let written = API.encode_request(live.request(), false);
    assert_eq!(written["messages"][1]["tool_calls"][0]["id"], "a");
    assert_eq!(written["messages"][1].get("function_call"), None);
    assert_eq!(written["tools"][0]["function"]["name"], "exec");
    assert_eq!(written.get("functions"), None);
}
