//! Payloads that are cut, twisted or unknown end as errors, never as panics and never as somebody's consent.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixtures;
use crate::client::Client;
use crate::event::Moment;
use crate::payload::{Payload, PayloadError};

#[test]
fn a_payload_that_is_cut_short_is_an_error() {
    for fixture in fixtures() {
        for end in [1, fixture.bytes.len() / 2, fixture.bytes.trim_ascii_end().len() - 1] {
            assert!(
                Payload::parse(&fixture.bytes[..end]).is_err(),
                "{} {} {end}",
                fixture.client,
                fixture.name
            );
        }
    }
}

/// A result that the client cut in the middle of a character is judged; a call with such a half does not run.
#[test]
fn half_a_character_hides_no_result_and_lets_no_call_run() {
    let read = |text: &str| Client::Claude.read(&Payload::parse(text.as_bytes()).unwrap(), None);
    let result = r#"{"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {}, "tool_response": {"stdout": "key \ud83d"}}"#;
    assert!(matches!(read(result).unwrap().moment, Moment::ToolResult(_)));
    let call =
        r#"{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls \ud83d"}}"#;
    assert_eq!(read(call).unwrap_err(), PayloadError::HalfCharacter);
}

#[test]
fn an_unknown_event_is_an_error_that_names_it() {
    for client in Client::ALL {
        let payload = json!({ "tool_info": {}, "input": {} });
        let error = client.read(&payload.clone().into(), Some("AfterTomorrow")).unwrap_err();
        assert!(
            matches!(&error, PayloadError::UnknownEvent { event, .. } if event == "AfterTomorrow"),
            "{client}: {error}"
        );
        let error = client.read(&payload.into(), None).unwrap_err();
        assert!(matches!(error, PayloadError::NoEvent { .. }), "{client}: {error}");
    }
}

#[test]
fn a_version_that_is_none_is_an_error_that_names_it() {
    let cases = [(Client::Cursor, "cursor_version"), (Client::Cline, "clineVersion")];
    for (client, field) in cases {
        let read = |version: Value| {
            let mut payload: Value = serde_json::from_str(client.sample().payload).unwrap();
            payload[field] = version;
            client.read(&payload.into(), Some(client.sample().event))
        };
        for known in ["", "1.7.2", "3.0.65", "v2.0.0-rc.1+abc", "12"] {
            assert!(read(known.into()).is_ok(), "{client} {known}");
        }
        for unknown in [json!("latest"), json!(7), json!(null), json!("v"), json!("9".repeat(300))] {
            let error = read(unknown.clone()).unwrap_err();
            assert!(matches!(error, PayloadError::UnknownVersion { .. }), "{client} {unknown}: {error}");
        }
        let error = read("lat`est".into()).unwrap_err().to_string();
        assert!(error.contains("`lat?est` is no version"), "{error}");
    }
}

#[test]
fn a_tool_call_without_its_tool_is_an_error() {
    for client in Client::ALL {
        let name = super::answers::tool_event(client);
        let payload = match client {
            Client::OpenCode => json!({ "event": name, "input": {}, "output": {} }),
            Client::Windsurf => json!({ "tool_info": {} }),
            _ => json!({}),
        };
        let error = client.read(&payload.into(), Some(name)).unwrap_err();
        assert!(matches!(error, PayloadError::Field { .. }), "{client}: {error}");
    }
}

#[test]
fn arguments_that_are_no_object_are_an_error() {
    for arguments in [json!([1]), json!(1), json!("not json"), json!("[1]")] {
        let payload =
            json!({ "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": arguments });
        assert!(Client::Claude.read(&payload.into(), None).is_err());
    }
    let payload = json!({ "toolName": "bash", "toolArgs": "{\"command\": \"ls\"}" });
    assert!(Client::Copilot.read(&payload.into(), Some("preToolUse")).is_ok());
}

/// Places in a value, as JSON pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                places(field, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                places(item, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

proptest! {
    /// One value of a real payload is exchanged for one of another type.
    #[test]
    fn a_twisted_payload_never_panics(index in any::<prop::sample::Index>(), place in any::<prop::sample::Index>(), twist in 0..7usize) {
        let fixtures = fixtures();
        let fixture = index.get(&fixtures);
        let mut payload: Value = serde_json::from_slice(&fixture.bytes).unwrap();
        let mut found = Vec::new();
        places(&payload, "", &mut found);
        let twists = [json!(null), json!(true), json!(-1), json!(""), json!("x"), json!([]), json!({})];
        if let Some(value) = payload.pointer_mut(place.get(&found).as_str()) {
            *value = twists[twist].clone();
        }
        if let Ok(payload) = Payload::parse(payload.to_string().as_bytes()) {
            let _ = fixture.client.read(&payload, Some(fixture.event()));
        }
    }
}
