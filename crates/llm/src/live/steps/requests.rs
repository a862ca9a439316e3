//! Steps of the editors of requests, of each wire: as many as there are messages, parts and tools, times a constant.
//!
//! A message that is gone is looked for behind at most 1024 others, so that lists which have nothing in common take up to as
//! many times their length.

use backstop_hooks::Text;
use backstop_hooks::conversation::{Message, Part, Role, ToolCall, ToolResult, ToolSpec};
use serde_json::json;

use super::{beyond_linear, counted};
use crate::live::LiveRequest;
use crate::model::{ModelRequest, ToolDefinition};
use crate::wire::{Api, RequestTarget};

fn call(number: usize) -> ToolCall {
    let id = format!("call_{number}");
    serde_json::from_value(json!({"id": id, "name": "exec", "arguments": {"command": "secret"}})).unwrap()
}

fn result(number: usize) -> Part {
    Part::ToolResult(ToolResult {
        tool_call_id: format!("call_{number}").as_str().into(),
        tool_name: Some("exec".to_owned()),
        content: vec![Part::text("secret")],
        is_error: false,
        details: None,
        meta: None,
    })
}

fn tool(number: usize) -> ToolDefinition {
    ToolDefinition::from(ToolSpec {
        name: format!("tool_{number}"),
        description: Some("secret".into()),
        input_schema: json!({"type": "object"}).into(),
    })
}

/// A conversation of so many turns, with as many parts in one message and as many tools.
fn conversation(count: usize) -> ModelRequest {
    let mut messages = Vec::new();
    let mut parts: Vec<Part> = vec![Part::text("secret"); count];
    messages.push(Message::new(Role::User, parts.clone()));
    parts.truncate(1);
    parts.extend((0..count).map(|number| Part::ToolCall(call(number))));
    messages.push(Message::new(Role::Assistant, parts));
    messages.extend((0..count).map(|number| Message::new(Role::Tool, vec![result(number)])));
    for number in count..2 * count {
        messages.push(Message::new(Role::User, vec![Part::text("secret")]));
        messages.push(Message::new(Role::Assistant, vec![Part::ToolCall(call(number))]));
        messages.push(Message::new(Role::Tool, vec![result(number)]));
    }
    let mut request = ModelRequest::new("m", messages);
    request.system = vec![Part::text("secret")].into();
    request.tools = (0..count).map(tool).collect();
    request.max_tokens = Some(9);
    request
}

fn rewrite(part: &mut Part) {
    match part {
        Part::Text { text, .. } => *text = Text::from(text.replace("secret", "[gone]")),
        Part::ToolCall(call) => {
            call.arguments = serde_json::from_value(json!({"command": "[gone]"})).unwrap();
        }
        Part::ToolResult(result) => result.content.iter_mut().for_each(rewrite),
        _ => {}
    }
}

fn rewrite_all(request: &mut ModelRequest) {
    request.messages.iter_mut().flat_map(|message| &mut message.content).for_each(rewrite);
}

/// What a hook does to a request, by name.
type Edit = (&'static str, fn(&mut ModelRequest));

const EDITS: [Edit; 5] = [
    ("every text, call and result is rewritten", rewrite_all),
    ("every other tool is gone", |request| {
        let mut number = 0;
        request.tools.retain(|_| {
            number += 1;
            number % 2 == 0
        });
    }),
    ("every third message is gone", |request| {
        let mut number = 0;
        request.messages.retain(|_| {
            number += 1;
            number % 3 != 0
        });
    }),
    ("every other part is gone", |request| {
        for message in &mut request.messages {
            let mut number = 0;
            let alone = message.content.len() == 1;
            message.content.retain(|_| {
                number += 1;
                alone || number % 2 == 0
            });
        }
    }),
    ("messages are added, and the rest is rewritten", |request| {
        rewrite_all(request);
        let old = std::mem::take(&mut request.messages);
        for message in old {
            if message.role == Role::User {
                request.messages.push(Message::new(Role::User, vec![Part::text("more")]));
            }
            request.messages.push(message);
        }
    }),
];

#[test]
fn steps_grow_with_what_a_request_has_many_of_and_no_faster() {
    let mut faults = Vec::new();
    for api in Api::ALL {
        for (name, edit) in EDITS {
            faults.extend(beyond_linear(&format!("{api}: {name}"), 30, |count| {
                let body = api.encode_request(&conversation(count), false).to_string();
                let target = RequestTarget { model: Some("m".to_owned()), ..RequestTarget::default() };
                let live = LiveRequest::read_at(api, &target, body.clone().into()).unwrap();
                let mut edited = live.request().clone();
                edit(&mut edited);
                counted(|| assert!(live.write(&edited) != body.as_bytes(), "{api}: {name}"))
            }));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
