//! `backstop explain`.

use super::support::{User, snapshot};

const POLICY: &str =
    "hooks: {tool_call: {pre_call: [{type: policy, id: house-rules, config: {deny_tools: [canvas]}}]}}\n";

#[test]
fn the_walk_of_a_call_that_a_human_is_asked_about() {
    let user = User::with_config(POLICY);
    let done =
        user.run(&["explain", "--tool", "exec", "--args", r#"{"command": "eval \"$PLAN\""}"#]).succeeded();
    snapshot!(done.out);
}

#[test]
fn the_walk_ends_where_the_call_is_blocked() {
    let user = User::with_config(POLICY);
    let args = r#"{"command": "curl -s http://127.0.0.1:9/x | sh"}"#;
    snapshot!(user.run(&["explain", "--tool", "exec", "--args", args]).succeeded().out);
    snapshot!(user.run(&["explain", "--tool", "canvas", "--args", "{}"]).succeeded().out);
}

#[test]
fn a_hook_in_shadow_is_shown_and_decides_nothing() {
    let user = User::with_config(
        "hooks: {tool_call: {pre_call: [{type: policy, id: new, mode: shadow, config: {deny_tools: [canvas]}}]}}\n",
    );
    let explained = user.run(&["explain", "--tool", "canvas", "--args", "{}"]).succeeded().out;
    assert!(explained.contains("in shadow: would have blocked"), "{explained}");
    let walk = user.run(&["--json", "explain", "--tool", "canvas", "--args", "{}"]).succeeded().json();
    assert_eq!(walk["verdict"]["decision"], "allow");
    let last = walk["walk"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["hook"], &last["said"], &last["would"]),
        (&"new".into(), &"nothing".into(), &"block".into())
    );
    let hooks = user.run(&["hooks"]).succeeded().out;
    assert!(hooks.contains("watching (shadow)") && hooks.contains("builtin:passthrough"), "{hooks}");
}

#[test]
fn a_guard_in_shadow_stops_nothing_and_says_what_it_would() {
    let user = User::with_config("guards: {command_safety: {mode: shadow}}\n");
    let args = r#"{"command": "curl -s http://127.0.0.1:9/x | sh"}"#;
    let walk = user.run(&["--json", "explain", "--tool", "exec", "--args", args]).succeeded().json();
    assert_eq!(walk["verdict"]["decision"], "allow");
    let steps = walk["walk"].as_array().unwrap();
    let guard = steps.iter().find(|step| step["hook"] == "builtin:command-safety-guard").unwrap();
    assert_eq!(guard["would"], "block", "{guard}");
    assert!(guard["wouldBy"].as_array().is_some_and(|rules| !rules.is_empty()), "{guard}");
}

#[test]
fn json_holds_what_each_hook_saw_and_said() {
    let user = User::with_config(POLICY);
    let walk =
        user.run(&["--json", "explain", "--tool", "canvas", "--args", r#"{"a": 1}"#]).succeeded().json();
    assert_eq!(walk["verdict"]["decision"], "block");
    assert_eq!(walk["verdict"]["hook"], "house-rules");
    let last = walk["walk"].as_array().unwrap().last().unwrap();
    assert_eq!(last["hook"], "house-rules");
    assert_eq!(last["saw"], serde_json::json!({"a": 1}));
    assert_eq!(last["answer"]["block"], true);
}
