//! What the recorded payloads mean, in our words.

use std::fmt::Write as _;

use backstop_hooks::Params;
use proptest::prelude::*;
use serde_json::Value;

use super::{Fixture, fixtures};
use crate::client::Client;
use crate::event::Moment;
use crate::tools::ToolUse;

fn call(used: &ToolUse) -> String {
    let parts: Vec<String> = used.parts().iter().map(|part| part.to_value().to_string()).collect();
    format!("{} = {} {}", used.their_name(), used.name().canonical(), parts.join(" + "))
}

fn moment(moment: &Moment) -> String {
    match moment {
        Moment::ToolCall(used) => format!("tool call: {}", call(used)),
        Moment::Permission(used) => format!("permission: {}", call(used)),
        Moment::ToolResult(output) => {
            let result = output.as_result();
            let texts: Vec<_> =
                result.content.iter().filter_map(|part| part.as_text()).map(ToString::to_string).collect();
            let failed = if output.is_error { "tool failure" } else { "tool result" };
            format!("{failed}: {} -> {texts:?}", call(&output.call))
        }
        Moment::Prompt(text) => format!("prompt: {text}"),
        Moment::Stop(stop) => format!(
            "stop: again {}, last {:?}",
            stop.again,
            stop.last_message.as_ref().map(ToString::to_string)
        ),
        Moment::SubAgentStop(stop) => {
            format!(
                "sub-agent stop: again {}, last {:?}",
                stop.again,
                stop.last_message.as_ref().map(ToString::to_string)
            )
        }
        Moment::SessionStart { resumed } => format!("session start: resumed {resumed}"),
        Moment::SessionEnd { reason } => format!("session end: {reason:?}"),
        Moment::BeforeCompaction => "before compaction".to_owned(),
        Moment::AfterCompaction => "after compaction".to_owned(),
        Moment::SubAgentStart => "sub-agent start".to_owned(),
        Moment::Other => "other".to_owned(),
    }
}

/// Nothing that a client reports is overlooked: an installation asks for it, or the facts say why not.
#[test]
fn every_recorded_event_is_installed_or_left_out_for_a_reason() {
    for fixture in fixtures() {
        let event = fixture.read();
        let facts = fixture.client.facts();
        let passes = event.moment == Moment::Other;
        let named = facts.leaves_out(event.frame.event());
        // What only some payloads of an event are about is told by the payload.
        let in_part = matches!(
            (fixture.client, event.frame.event()),
            (Client::Cline, "SessionShutdown")
                | (Client::OpenCode, "event.session.idle")
                | (_, "UserPromptSubmit")
        );
        assert!(!passes || named || in_part, "{} {}", fixture.client, fixture.name);
    }
}

#[test]
fn every_recorded_payload_is_understood() {
    let mut listing = String::new();
    for fixture in fixtures() {
        let event = fixture.read();
        let frame = &event.frame;
        let child = frame.sub_agent().map(|child| format!(" child {child:?}")).unwrap_or_default();
        let key = frame.session_key().map(|key| key.to_string());
        let key = key.unwrap_or_else(|| "no session".to_owned());
        writeln!(listing, "{} {}\n  {}", fixture.client, fixture.name, moment(&event.moment)).unwrap();
        writeln!(
            listing,
            "  {key} run {:?} mode {:?}{child}",
            frame.run().map(ToString::to_string),
            frame.mode()
        )
        .unwrap();
    }
    insta::assert_snapshot!(listing);
}

/// The arguments as the client sent them.
fn sent(fixture: &Fixture) -> Option<Params> {
    let payload: Value = serde_json::from_slice(&fixture.bytes).unwrap();
    let places = [
        "/tool_input",
        "/toolArgs",
        "/toolInput",
        "/tool_call/input",
        "/tool_result/input",
        "/output/args",
        "/input/args",
    ];
    let found = places.iter().find_map(|place| payload.pointer(place));
    found.cloned().and_then(Params::from_value)
}

fn calls() -> impl Iterator<Item = (Fixture, ToolUse)> {
    fixtures().into_iter().filter_map(|fixture| match fixture.read().moment {
        Moment::ToolCall(used) | Moment::Permission(used) => Some((fixture, used)),
        Moment::ToolResult(output) => Some((fixture, output.call)),
        _ => None,
    })
}

#[test]
fn translating_and_back_is_the_same_call() {
    let mut seen = 0;
    for (fixture, used) in calls() {
        let back = used.restore(used.parts()).unwrap();
        assert_eq!(
            back.to_value().to_string(),
            sent(&fixture).unwrap().to_value().to_string(),
            "{} {}",
            fixture.client,
            fixture.name
        );
        seen += 1;
    }
    assert!(seen > 70, "only {seen} calls");
}

#[test]
fn changing_the_command_changes_nothing_else() {
    let mut seen = 0;
    for (fixture, used) in calls().filter(|(_, used)| used.name().canonical() == "exec") {
        let mut parts = used.parts().to_vec();
        let old = parts[0].get("command").unwrap().as_str().unwrap().to_owned();
        parts[0].make_mut().insert("command".to_owned(), "echo safe".into());
        let expected = sent(&fixture)
            .unwrap()
            .to_value()
            .to_string()
            .replace(&Value::from(old).to_string(), "\"echo safe\"");
        assert_eq!(
            used.restore(&parts).unwrap().to_value().to_string(),
            expected,
            "{} {}",
            fixture.client,
            fixture.name
        );
        seen += 1;
    }
    assert!(seen > 15, "only {seen} shell calls");
}

#[test]
fn a_sub_agents_calls_stand_below_their_parents() {
    for (client, name, parent) in [
        (Client::Claude, "PreToolUse.subagent.Bash", "claude:7b2c7317"),
        (Client::Codex, "PreToolUse.subagent.Bash", "codex:01a1ffe9-ab82"),
        (Client::Qwen, "PreToolUse.subagent.run_shell_command", "qwen:35b4e6fa"),
        (Client::Cline, "PreToolUse.subagent.run_commands", "cline:1795295512253_80git"),
    ] {
        let fixture =
            fixtures().into_iter().find(|fixture| fixture.client == client && fixture.name == name).unwrap();
        let event = fixture.read();
        let key = event.frame.session_key().unwrap();
        assert!(key.as_str().starts_with(parent), "{key}");
        assert!(key.as_str().ends_with(&format!(":{}", event.frame.sub_agent().unwrap().id)), "{key}");
        assert_eq!(event.frame.call_context().trigger, Some(backstop_hooks::Trigger::Agent));
    }
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((key(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Keys that tables know, and others.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "command",
            "commands",
            "path",
            "file_path",
            "filePath",
            "content",
            "old_string",
            "old_text",
            "new_string",
            "input",
            "cmd",
            "directory",
            "workdir",
            "dir_path",
            "target_file",
            "file_text",
            "patchText",
        ])
        .prop_map(str::to_owned),
        "[a-z]{1,6}",
    ]
}

/// Names of tools, known and not, as a payload of each client holds them.
fn named() -> impl Strategy<Value = (Client, &'static str)> {
    proptest::sample::select(vec![
        (Client::Claude, "Bash"),
        (Client::Claude, "Edit"),
        (Client::Claude, "NotebookEdit"),
        (Client::Claude, "mcp__a__b"),
        (Client::Codex, "apply_patch"),
        (Client::Codex, "exec_command"),
        (Client::Gemini, "run_shell_command"),
        (Client::Gemini, "replace"),
        (Client::Qwen, "write_file"),
        (Client::Copilot, "create"),
        (Client::Copilot, "edit"),
        (Client::Cline, "run_commands"),
        (Client::Cline, "editor"),
        (Client::OpenCode, "apply_patch"),
        (Client::Cursor, "Shell"),
        (Client::Cursor, "Write"),
        (Client::Kiro, "fs_write"),
        (Client::Goose, "developer__shell"),
        (Client::Goose, "nobody_knows"),
        (Client::Droid, "Execute"),
        (Client::Droid, "Create"),
        (Client::Devin, "exec"),
        (Client::Kimi, "Bash"),
        (Client::Kimi, "Edit"),
    ])
}

proptest! {
    #[test]
    fn any_call_translated_and_back_is_the_same((client, tool) in named(), arguments in proptest::collection::vec((key(), json()), 0..6)) {
        let arguments: serde_json::Map<String, Value> = arguments.into_iter().collect();
        let payload = super::answers::tool_payload(client, tool, &Value::Object(arguments.clone()));
        let event = client.read(&payload.into(), Some(super::answers::tool_event(client))).unwrap();
        let Moment::ToolCall(used) = event.moment else { panic!("not a tool call") };
        let back = used.restore(used.parts()).unwrap();
        prop_assert_eq!(back.to_value().to_string(), Value::Object(arguments).to_string());
    }
}
