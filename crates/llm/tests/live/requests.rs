//! Requests: what is not edited stays, what is edited says what it should.

use backstop_hooks::conversation::{Content, Message, Part, Role};
use backstop_llm::live::LiveRequest;
use backstop_llm::{Api, ModelRequest, ToolChoice};
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::fixtures;

fn live(api: Api, body: &str) -> LiveRequest {
    read(api, Bytes::copy_from_slice(body.as_bytes())).unwrap()
}

/// The body of a request for a stream, at the address that it has.
fn read(api: Api, body: Bytes) -> Result<LiveRequest, backstop_llm::WireError> {
    let target = api.request_target(&api.request_path("m", true)).unwrap();
    LiveRequest::read_at(api, &target, body)
}

fn written(request: &LiveRequest, edited: &ModelRequest) -> String {
    String::from_utf8(request.write(edited).to_vec()).unwrap()
}

fn edited(api: Api, body: &str, edit: impl FnOnce(&mut ModelRequest)) -> String {
    let request = live(api, body);
    let mut new = request.request().clone();
    edit(&mut new);
    written(&request, &new)
}

/// The fixtures as they are, indented, and with every space that JSON allows.
fn bodies() -> Vec<(Api, String)> {
    let mut bodies = Vec::new();
    for (api, _, text) in fixtures(".request.json") {
        let value: Value = serde_json::from_str(&text).unwrap();
        bodies.push((api, serde_json::to_string_pretty(&value).unwrap()));
        bodies.push((api, text));
    }
    bodies
}

/// All texts of a request, for editing.
fn texts(request: &mut ModelRequest) -> Vec<&mut Part> {
    fn inside<'a>(parts: impl Iterator<Item = &'a mut Part>, found: &mut Vec<&'a mut Part>) {
        for part in parts {
            match part {
                Part::Text { .. } => found.push(part),
                Part::ToolResult(result) => inside(result.content.iter_mut(), found),
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    inside(request.system.iter_mut(), &mut found);
    inside(request.messages.iter_mut().flat_map(|message| message.content.iter_mut()), &mut found);
    found
}

fn set_text(part: &mut Part, new: &str) -> String {
    match part {
        Part::Text { text, .. } => std::mem::replace(text, new.into()).to_string(),
        _ => String::new(),
    }
}

#[test]
fn untouched_is_identical() {
    for (api, body) in bodies() {
        assert_eq!(edited(api, &body, |_| {}), body);
    }
}

#[test]
fn a_rewritten_text_is_one_string() {
    for (api, body) in bodies() {
        let count = texts(&mut live(api, &body).request().clone()).len();
        assert!(count >= 4, "{api}");
        for place in 0..count {
            let request = live(api, &body);
            let mut new = request.request().clone();
            let old = set_text(texts(&mut new)[place], "new \"text\"\n");
            let got = written(&request, &new);
            // Exactly one string that said `old` says something else, and no other byte differs.
            let literal = Value::from(old).to_string();
            let candidates: Vec<String> = body
                .match_indices(&literal)
                .map(|(at, found)| {
                    [&body[..at], "\"new \\\"text\\\"\\n\"", &body[at + found.len()..]].concat()
                })
                .collect();
            assert!(candidates.contains(&got), "{api} {place}: {got}");
        }
    }
}

#[test]
fn what_is_removed_goes_and_the_rest_stays() {
    for (api, body) in bodies() {
        let request = live(api, &body);
        let list: Value = serde_json::from_str(&body).unwrap();
        let first = usize::from(api == Api::OpenAiChat);
        for place in 0..request.request().messages.len() {
            let mut new = request.request().clone();
            new.messages.remove(place);
            let got: Value = serde_json::from_str(&written(&request, &new)).unwrap();
            let mut expected = list.clone();
            expected["messages"].as_array_mut().unwrap().remove(place + first);
            assert_eq!(got, expected);
        }
        let without_tools = edited(api, &body, |new| new.tools.clear());
        let got: Value = serde_json::from_str(&without_tools).unwrap();
        for field in
            ["tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "toolConfig"]
        {
            assert!(got.get(field).is_none(), "{field}");
        }
        let narrowed = edited(api, &body, |new| drop(new.tools.remove(0)));
        let got: Value = serde_json::from_str(&narrowed).unwrap();
        let (got, tools, choice) = match (list.get("functions"), got.get("toolConfig")) {
            (_, Some(config)) => (config, "tools", "toolChoice"),
            (Some(_), None) => (&got, "functions", "function_call"),
            (None, None) => (&got, "tools", "tool_choice"),
        };
        assert_eq!(got[tools].as_array().unwrap().len(), 1);
        assert!(got.get(choice).is_none(), "it named the tool that is gone");
    }
}

/// Of Bedrock, texts stand one deeper, and tools beside the choice among them.
#[test]
fn blocks_and_tools_of_converse_are_edited_in_their_place() {
    let body = r#"{ "system" : [{"text":"Be kind."},{"cachePoint":{"type":"default"}}],"messages":[{"role":"user","content":[ {"guardContent":{"text":{"text":"secret","qualifiers":[]}}},{"cachePoint":{"type":"default"}} ]},
        {"role":"assistant","content":[{"toolUse":{"toolUseId":"t","name":"exec","input":{"a" : 1}}}]}],
        "toolConfig": { "tools": [ {"toolSpec":{"name":"exec","inputSchema":{"json":{}}}} , {"systemTool":{"name":"nova_grounding"}} ], "toolChoice": {"any":{}} , "more": 1 }, "modelId":"m" }"#;
    let api = Api::BedrockConverse;
    let edit = |edit: fn(&mut ModelRequest)| {
        let request = LiveRequest::read(api, Bytes::from_static(body.as_bytes())).unwrap();
        let mut new = request.request().clone();
        edit(&mut new);
        written(&request, &new)
    };
    let got = edit(|new| drop(set_text(&mut new.messages[0].content[0], "gone")));
    assert_eq!(got, body.replace("\"secret\"", "\"gone\""));
    let got = edit(|new| drop(new.tools.remove(1)));
    assert_eq!(got, body.replace(r#" , {"systemTool":{"name":"nova_grounding"}}"#, ""));
    let got = edit(|new| new.tool_choice = Some(ToolChoice::Tool("exec".into())));
    assert_eq!(got, body.replace(r#"{"any":{}}"#, r#"{"tool":{"name":"exec"}}"#));
    let got = edit(|new| new.tool_choice = None);
    assert_eq!(got, body.replace(r#", "toolChoice": {"any":{}} "#, " "));
    let got: Value = serde_json::from_str(&edit(|new| new.tools.clear())).unwrap();
    assert!(got.get("toolConfig").is_none() && got["modelId"] == "m", "{got}");
    let got: Value = serde_json::from_str(&edit(|new| new.max_tokens = Some(7))).unwrap();
    assert_eq!((&got["inferenceConfig"], &got["toolConfig"]["more"]), (&json!({"maxTokens": 7}), &json!(1)));
}

#[test]
fn only_the_edited_block_of_a_message_changes() {
    let body = r#"{ "model" : "m", "max_tokens": 1.0e2,"system": "Be kind." , "messages":[
        {"role":"user","content":[ {"type":"text","text":"keep \u0061","cache_control":{"type":"ephemeral"}}, {"type":"text", "text":"secret"} ]},
        {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"tool_use","id":"t","name":"exec","input":{"a":  1.50},"caller":{"type":"direct"}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"secret 2"}]}
    ], "metadata" : {"user_id":"u"}, "future": [1,  2] }"#;
    let body = body.replace("1.0e2", "100");
    let got = edited(Api::AnthropicMessages, &body, |new| {
        new.messages[0].content.remove(1);
        if let Part::ToolResult(result) = &mut new.messages[2].content[0] {
            result.content = vec![Part::text("gone")];
        }
    });
    let expected = body.replace(r#", {"type":"text", "text":"secret"}"#, "").replace("secret 2", "gone");
    assert_eq!(got, expected);
    // Signed thinking is withheld, not altered.
    let got = edited(Api::AnthropicMessages, &body, |new| {
        if let Part::Thinking { text, .. } = &mut new.messages[1].content[0] {
            *text = "altered".into();
        }
    });
    assert_eq!(got, body.replace("\"hm\"", "\"\""));
    let got = edited(Api::AnthropicMessages, &body, |new| {
        if let Part::ToolCall(call) = &mut new.messages[1].content[1] {
            call.arguments.make_mut().insert("a".to_owned(), json!(2));
        }
    });
    assert_eq!(got, body.replace("{\"a\":  1.50}", "{\"a\":2}"));
    let got = edited(Api::AnthropicMessages, &body, |new| new.system = Content::default());
    assert_eq!(got, body.replace(",\"system\": \"Be kind.\"", ""));
    let got = edited(Api::AnthropicMessages, &body, |new| {
        new.max_tokens = Some(7);
        new.model = "n".to_owned();
        new.temperature = Some(0.5);
    });
    let expected = body.replace("100", "7").replace("\"m\"", "\"n\"");
    assert_eq!(got, expected.replace("[1,  2]", "[1,  2], \"temperature\":0.5"));
}

#[test]
fn calls_and_texts_of_the_chat_wire_are_edited_in_place() {
    let body = r#"{"model":"m","messages":[{"role":"developer","content":"Be kind."},
        {"role":"assistant","content":"see","reasoning_content":"hm","tool_calls":[{"id":"1","type":"function","function":{"name":"a","arguments":"{ }"}} , {"id":"2","type":"function","function":{"name":"b","arguments":"{\"x\": 1}"}}],"extra":1},
        {"role":"tool","tool_call_id":"2","content":"secret"}],"functions_note":null}"#;
    let got = edited(Api::OpenAiChat, body, |new| {
        new.set_system_text(Some("Be short.".into()));
        new.messages[0].content.remove(2);
        if let Part::ToolResult(result) = &mut new.messages[1].content[0] {
            result.content = vec![Part::text("gone")];
        }
    });
    let expected = body
        .replace(r#"{"id":"1","type":"function","function":{"name":"a","arguments":"{ }"}} , "#, "")
        .replace("Be kind", "Be short")
        .replace("secret", "gone");
    assert_eq!(got, expected);
    let got = edited(Api::OpenAiChat, body, |new| {
        new.messages[0].content.retain(|part| matches!(part, Part::Text { .. } | Part::Thinking { .. }));
    });
    let value: Value = serde_json::from_str(&got).unwrap();
    assert_eq!(
        value["messages"][1],
        json!({"role": "assistant", "content": "see", "reasoning_content": "hm", "extra": 1})
    );
    let got = edited(Api::OpenAiChat, body, |new| {
        new.messages[0].content.retain(|part| matches!(part, Part::ToolCall(_)));
    });
    assert_eq!(got, body.replace("\"content\":\"see\",\"reasoning_content\":\"hm\"", "\"content\":null"));
    let got = edited(Api::OpenAiChat, body, |new| new.system.clear());
    let value: Value = serde_json::from_str(&got).unwrap();
    assert_eq!(value["messages"][0]["role"], "assistant");
}

#[test]
fn bodies_with_two_readings_are_refused() {
    for (api, _) in super::support::WIRES {
        for body in [
            r#"{"model":"m","messages":[],"messages":[{"role":"user","content":"x"}]}"#,
            r#"{"model":"m","messages":[{"role":"user","content":"x","content":"y"}]}"#,
            r#"{"model":"m","messages":[],"Messages":[{"role":"user","content":"x"}]}"#,
            r#"{"model":"m","messages":[{"role":"user","content":"x","CONTENT":"y"}]}"#,
            r#"{"model":"m","messages":[]"#,
            "<html>",
            "",
        ] {
            assert!(LiveRequest::read(api, Bytes::copy_from_slice(body.as_bytes())).is_err(), "{body}");
        }
    }
}

#[derive(Clone, Debug)]
enum Edit {
    Text(usize, String),
    RemovePart(usize, usize),
    RemoveMessage(usize),
    AddMessage(usize, Role, String),
    AddPart(usize, String),
    System(Option<String>),
    RemoveTool(usize),
    Choice(ToolChoice),
    MaxTokens(u64),
}

fn edit() -> impl Strategy<Value = Edit> {
    let word = "[a-zé\"\\\\\n]{1,6}";
    let role = prop::sample::select(vec![Role::User, Role::Assistant]);
    prop_oneof![
        (0usize..20, word).prop_map(|(at, text)| Edit::Text(at, text)),
        (0usize..9, 0usize..4).prop_map(|(message, part)| Edit::RemovePart(message, part)),
        (0usize..9).prop_map(Edit::RemoveMessage),
        (0usize..9, role, word).prop_map(|(at, role, text)| Edit::AddMessage(at, role, text)),
        (0usize..9, word).prop_map(|(at, text)| Edit::AddPart(at, text)),
        prop::option::of(word).prop_map(Edit::System),
        (0usize..3).prop_map(Edit::RemoveTool),
        Just(Edit::Choice(ToolChoice::Required)),
        (1u64..99).prop_map(Edit::MaxTokens),
    ]
}

fn apply(edit: &Edit, request: &mut ModelRequest) {
    match edit {
        Edit::Text(at, new) => {
            if let Some(part) = texts(request).into_iter().nth(*at) {
                set_text(part, new);
            }
        }
        Edit::RemovePart(message, part) => {
            if let Some(message) = request.messages.get_mut(*message)
                && *part < message.content.len()
            {
                message.content.remove(*part);
            }
        }
        Edit::RemoveMessage(at) if *at < request.messages.len() => drop(request.messages.remove(*at)),
        Edit::AddMessage(at, role, text) => {
            let at = (*at).min(request.messages.len());
            request.messages.insert(at, Message::text(*role, text.as_str()));
        }
        Edit::AddPart(at, text) => {
            if let Some(message) = request.messages.get_mut(*at).filter(|message| message.role == Role::User)
            {
                message.content.push(Part::text(text.as_str()));
            }
        }
        Edit::System(text) => request.set_system_text(text.as_deref().map(Into::into)),
        Edit::RemoveTool(at) if *at < request.tools.len() => drop(request.tools.remove(*at)),
        Edit::Choice(choice) if !request.tools.is_empty() => request.tool_choice = Some(choice.clone()),
        Edit::MaxTokens(limit) => request.max_tokens = Some(*limit),
        Edit::RemoveMessage(_) | Edit::RemoveTool(_) | Edit::Choice(_) => {}
    }
}

proptest! {
    #[test]
    fn edited_requests_say_what_was_edited(which in 0usize..6, edits in prop::collection::vec(edit(), 0..5)) {
        let (api, body) = bodies().swap_remove(which);
        let request = live(api, &body);
        let mut new = request.request().clone();
        edits.iter().for_each(|edit| apply(edit, &mut new));
        let got = written(&request, &new);
        let read = live(api, &got);
        // The choice follows the tools.
        let mut expected = new.clone();
        expected.tool_choice.clone_from(&read.request().tool_choice);
        expected.extra = read.request().extra.clone();
        // The prompt keeps its role, which a new prompt does not know of.
        let said = |request: &ModelRequest| {
            let body = api.encode_request(request, true).to_string();
            body.replacen("\"role\":\"developer\"", "\"role\":\"system\"", 1)
        };
        prop_assert_eq!(said(read.request()), said(&expected));
        prop_assert!(read.is_stream());
        if new == *request.request() {
            prop_assert_eq!(got, body);
        }
    }

    #[test]
    fn any_bytes_are_survived(which in 0usize..6, at in any::<prop::sample::Index>(), with in prop::collection::vec(any::<u8>(), 0..4), edits in prop::collection::vec(edit(), 1..3)) {
        let (api, body) = bodies().swap_remove(which);
        let mut bytes = body.into_bytes();
        let at = at.index(bytes.len());
        let end = (at + with.len()).min(bytes.len());
        bytes.splice(at..end, with);
        if let Ok(request) = read(api, bytes.into()) {
            let mut new = request.request().clone();
            edits.iter().for_each(|edit| apply(edit, &mut new));
            read(api, request.write(&new)).unwrap();
        }
    }
}
