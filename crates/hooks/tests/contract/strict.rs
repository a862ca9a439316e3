//! Answers that have the right form but make no sense, and the gate whose form is strict.

use backstop_hooks::points::{
    AfterLlmCall, BeforeAgentFinalize, BeforeAgentRun, BeforePromptBuild, BeforeToolCall, MessageSending,
    ParamsBefore, ParamsBeforeOutcome, ToolAfter, ToolsAllow, TrustedToolPolicy,
};
use backstop_hooks::{Event, Outcome, Point, ToolName};
use serde_json::{Value, json};

use crate::sample::{Sample, answer};

type RunOutcome = <BeforeAgentRun as Point>::Outcome;

#[test]
fn before_agent_run_takes_exactly_two_forms() {
    for malformed in [
        Value::Null,
        json!({}),
        json!([]),
        json!("pass"),
        json!(true),
        json!({"outcome": "ask"}),
        json!({"outcome": "Pass"}),
        json!({"outcome": null}),
        json!({"outcome": "pass", "reason": "fine"}),
        json!({"outcome": "pass", "extra": 1}),
        json!({"outcome": "block"}),
        json!({"outcome": "block", "reason": null}),
        json!({"outcome": "block", "reason": 7}),
        json!({"outcome": "block", "reason": "r", "message": null}),
        json!({"outcome": "block", "reason": "r", "extra": 1}),
        json!({"block": true}),
    ] {
        assert!(RunOutcome::from_json(malformed.clone()).is_err(), "{malformed} passes");
    }
    assert!(!answer::<BeforeAgentRun>(json!({"outcome": "pass"})).blocks());
    assert!(answer::<BeforeAgentRun>(json!({"outcome": "block", "reason": "r"})).blocks());
}

#[test]
fn before_agent_run_needs_words_where_it_has_words() {
    let event = Sample::of("before_agent_run").event::<BeforeAgentRun>();
    for blank in [
        json!({"outcome": "block", "reason": " "}),
        json!({"outcome": "block", "reason": "r", "message": ""}),
        json!({"outcome": "block", "reason": "r", "category": "\t"}),
    ] {
        let outcome = answer::<BeforeAgentRun>(blank.clone());
        assert!(event.check(&outcome).is_err(), "{blank} passes");
        assert!(outcome.blocks(), "and it is a block all the same");
    }
}

#[test]
fn before_agent_run_stays_blocked() {
    let mut outcome = answer::<BeforeAgentRun>(json!({"outcome": "block", "reason": "first"}));
    outcome.merge(answer::<BeforeAgentRun>(json!({"outcome": "pass"})));
    outcome.merge(answer::<BeforeAgentRun>(json!({"outcome": "block", "reason": "second"})));
    assert_eq!(outcome.block_reason().unwrap(), "first");
}

fn allows(list: &Value) -> Vec<&'static str> {
    let outcome = answer::<BeforePromptBuild>(json!({ "toolsAllow": list }));
    let allowed = outcome.tools_allow.unwrap();
    backstop_hooks::tool_name::known_tools().filter(|tool| allowed.allows(&ToolName::new(tool))).collect()
}

#[test]
fn a_malformed_tool_list_allows_nothing() {
    for malformed in [
        Value::Null,
        json!("exec"),
        json!({"exec": true}),
        json!(true),
        json!(["exec", 7]),
        json!(["exec", null]),
        json!(["exec", " "]),
        json!(["*", []]),
    ] {
        assert_eq!(allows(&malformed), Vec::<&str>::new(), "{malformed} allows something");
    }
}

#[test]
fn a_tool_list_knows_groups_and_the_star_and_means_what_it_says() {
    assert_eq!(allows(&json!(["group:fs"])), ["read", "write", "edit", "apply_patch"]);
    assert_eq!(allows(&json!(["exec", "apply_patch"])), ["apply_patch", "exec"]);
    let spelled = ToolsAllow::new(["bash"]);
    assert!(spelled.allows(&ToolName::new("bash")) && !spelled.allows(&ToolName::new("exec")));
    assert!(ToolsAllow::new(["exec"]).allows(&ToolName::new("bash")), "a canonical name means the tool");
    let theirs = ToolName::with_canonical("exec", "mcp__box__exec");
    assert!(
        !ToolsAllow::new(["exec"]).allows(&theirs) && ToolsAllow::new(["mcp__box__exec"]).allows(&theirs)
    );
    assert_eq!(allows(&json!(["group:nothing"])), Vec::<&str>::new());
    assert_eq!(allows(&json!(["*"])).len(), backstop_hooks::tool_name::known_tools().count());
    assert!(ToolsAllow::new(["mcp__notes"]).allows(&ToolName::new("mcp__notes")));
}

#[test]
fn after_llm_call_refuses_edited_calls() {
    let event = Sample::of("after_llm_call").event::<AfterLlmCall>();
    let call = serde_json::to_value(&event.tool_calls[0]).unwrap();
    let with = |field: &str, value: Value| {
        let mut edited = call.clone();
        edited[field] = value;
        answer::<AfterLlmCall>(json!({ "toolCalls": [edited] }))
    };
    assert!(event.check(&answer::<AfterLlmCall>(json!({ "toolCalls": [call] }))).is_ok());
    assert!(event.check(&answer::<AfterLlmCall>(json!({"toolCalls": [{"id": "call-1"}]}))).is_ok());
    assert!(event.check(&with("arguments", json!({"command": "rm"}))).is_err());
    assert!(event.check(&with("arguments", json!({}))).is_err());
    assert!(event.check(&with("arguments", json!("ls"))).is_err());
    assert!(event.check(&with("name", json!("read"))).is_err());
}

#[test]
fn a_temperature_has_bounds() {
    let event = Sample::of("params.before").event::<ParamsBefore>();
    for (temperature, fits) in [(0.0, true), (2.0, true), (-0.1, false), (2.1, false)] {
        let outcome = answer::<ParamsBefore>(json!({ "temperature": temperature }));
        assert_eq!(event.check(&outcome).is_ok(), fits, "{temperature}");
    }
    let nan = ParamsBeforeOutcome { temperature: Some(Some(f64::NAN)), ..Default::default() };
    assert!(event.check(&nan).is_err());
}

#[test]
fn parameters_are_cleared_by_null_and_left_alone_by_silence() {
    let mut event = Sample::of("params.before").event::<ParamsBefore>();
    let set = json!({ "thinkLevel": "high", "reasoningLevel": "on", "temperature": 0.5 });
    event.absorb(&answer::<ParamsBefore>(set));
    let cleared = answer::<ParamsBefore>(json!({ "thinkLevel": null, "reasoningLevel": null }));
    assert_eq!(
        serde_json::to_value(&cleared).unwrap(),
        json!({ "thinkLevel": null, "reasoningLevel": null })
    );
    assert!(event.absorb(&cleared));
    assert_eq!((event.think_level, event.reasoning_level, event.temperature), (None, None, Some(0.5)));
    assert!(!event.absorb(&cleared), "once is enough");
}

#[test]
fn a_reason_to_block_that_blocks_nothing_is_no_consent() {
    for (reason, yes) in [
        (json!({"blockReason": "no"}), json!({"blockReason": "no", "block": true})),
        (json!({"blockReason": "no", "params": {}}), json!({"blockReason": "no", "block": false})),
    ] {
        assert!(answer::<BeforeToolCall>(reason).whole().is_err());
        assert!(answer::<BeforeToolCall>(yes).whole().is_ok());
    }
    assert!(answer::<TrustedToolPolicy>(json!({"reason": "no"})).whole().is_err());
    assert!(answer::<TrustedToolPolicy>(json!({"reason": "no", "allow": false})).whole().is_ok());
    assert!(answer::<MessageSending>(json!({"cancelReason": "no"})).whole().is_err());
    assert!(answer::<BeforeAgentFinalize>(json!({"reason": "not yet"})).whole().is_err());
    assert!(answer::<BeforeAgentFinalize>(json!({"retry": {"instruction": "test it"}})).whole().is_err());
    assert!(answer::<BeforeAgentFinalize>(json!({"action": "revise", "reason": "not yet"})).whole().is_ok());
    assert!(answer::<BeforeAgentFinalize>(json!({})).whole().is_ok());
}

#[test]
fn a_result_cannot_be_moved_to_another_call() {
    let event = Sample::of("tool.after").event::<ToolAfter>();
    let moved = answer::<ToolAfter>(json!({"result": {"toolCallId": "call-9", "content": []}}));
    assert!(event.check(&moved).is_err());
}
