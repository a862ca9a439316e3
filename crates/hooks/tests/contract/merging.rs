//! The latches one by one, each on the outcome that needs it.

use backstop_hooks::points::{
    AfterLlmCall, BeforeAgentFinalize, BeforeAgentReply, BeforeInstall, BeforeLlmCall, BeforePromptBuild,
    BeforeResponseEmit, BeforeToolCall, FinalizeAction, ResolveExecEnv, SubagentDeliveryTarget, ToolsAllow,
    TrustedToolPolicy,
};
use backstop_hooks::{Claim, Event, HookId, Outcome, OwnerId, Point, ToolName};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::sample::{Sample, answer, merged};

fn all<P: Point>(answers: &[Value]) -> P::Outcome {
    merged(&answers.iter().cloned().map(answer::<P>).collect::<Vec<_>>())
}

fn ask(title: &str) -> Value {
    json!({"title": title, "description": "d"})
}

#[test]
fn block_keeps_the_reason_of_the_hook_that_blocked_first() {
    let outcome = all::<BeforeToolCall>(&[
        json!({"blockReason": "not a block"}),
        json!({"block": false, "blockReason": "nor this"}),
        json!({"block": true, "blockReason": "first"}),
        json!({"block": true, "blockReason": "second"}),
        json!({"block": false}),
    ]);
    assert!(outcome.blocks());
    assert_eq!(outcome.block_reason().unwrap(), "first");
}

#[test]
fn a_block_without_a_reason_does_not_borrow_one() {
    let outcome =
        all::<BeforeToolCall>(&[json!({"block": true}), json!({"block": true, "blockReason": "later"})]);
    assert!(outcome.blocks());
    assert_eq!(outcome.block_reason(), None);
}

#[test]
fn params_are_proposed_also_after_a_human_is_to_be_asked() {
    let outcome = all::<BeforeToolCall>(&[
        json!({"params": {"n": 1}}),
        json!({"params": {"n": 2}, "requireApproval": ask("one")}),
        json!({"params": {"n": 3}, "requireApproval": ask("two")}),
    ]);
    assert_eq!(outcome.params.as_ref().unwrap().to_value(), json!({"n": 3}));
    let titles: Vec<_> = outcome.approvals().iter().map(|request| request.title().as_str()).collect();
    assert_eq!(titles, ["one", "two"], "one question, every reason");
}

#[test]
fn trusted_policies_propose_params_and_every_request_is_kept() {
    let outcome = all::<TrustedToolPolicy>(&[
        json!({"params": {"n": 1}, "requireApproval": ask("one")}),
        json!({"params": {"n": 2}, "requireApproval": ask("two")}),
        json!({"allow": false, "reason": "operator"}),
    ]);
    assert_eq!(outcome.params.as_ref().unwrap().to_value(), json!({"n": 2}));
    let titles: Vec<_> = outcome.approvals().iter().map(|request| request.title().as_str()).collect();
    assert_eq!(titles, ["one", "two"]);
    assert_eq!(outcome.block_reason().unwrap(), "operator");
}

#[test]
fn a_trusted_policy_can_refuse_but_not_allow() {
    type Policy = <TrustedToolPolicy as Point>::Outcome;
    assert!(Policy::from_json(json!({"allow": true})).is_err());
    assert!(Policy::from_json(json!({"allow": null})).is_err());
    assert!(answer::<TrustedToolPolicy>(json!({"allow": false, "block": false})).blocks());
}

#[test]
fn the_last_proposal_stands_and_empty_text_is_one() {
    let outcome = all::<BeforeLlmCall>(&[
        json!({"messages": [{"role": "user", "content": []}], "systemPrompt": "a"}),
        json!({"messages": []}),
        json!({"systemPrompt": ""}),
    ]);
    assert_eq!(outcome.messages.unwrap().len(), 0);
    assert_eq!(outcome.system_prompt.unwrap(), "");
}

#[test]
fn context_is_joined_by_a_blank_line_in_running_order() {
    let outcome = all::<BeforePromptBuild>(&[
        json!({"prependContext": ""}),
        json!({"prependContext": "high"}),
        json!({"prependContext": ""}),
        json!({"prependContext": "low", "appendSystemContext": "x"}),
    ]);
    assert_eq!(outcome.prepend_context.unwrap(), "high\n\nlow");
    assert_eq!(outcome.append_system_context.unwrap(), "x");
}

#[test]
fn the_first_origin_is_taken() {
    let outcome = all::<SubagentDeliveryTarget>(&[
        json!({}),
        json!({"origin": {"to": "a"}}),
        json!({"origin": {"to": "b", "threadId": "t"}}),
    ]);
    let origin = outcome.origin.unwrap();
    assert_eq!((origin.to.as_deref(), origin.thread_id), (Some("a"), None));
}

#[test]
fn findings_are_all_kept() {
    let finding = |rule: &str| json!({"findings": [{"ruleId": rule, "severity": "warn", "message": "m"}]});
    let outcome = all::<BeforeInstall>(&[finding("a"), json!({"findings": []}), finding("b")]);
    let rules: Vec<_> = outcome.findings.iter().flatten().map(|finding| finding.rule_id.as_str()).collect();
    assert_eq!(rules, ["a", "b"]);
}

#[test]
fn environment_merges_key_by_key_and_is_not_shown() {
    let outcome = all::<ResolveExecEnv>(&[json!({"A": "1", "B": "1"}), json!({"B": "s3cret"})]);
    assert_eq!(serde_json::to_value(&outcome).unwrap(), json!({"A": "1", "B": "s3cret"}));
    assert_eq!(format!("{outcome:?}"), r#"{"A", "B"}"#);
}

#[test]
fn the_first_claim_takes_the_event() {
    let outcome = all::<BeforeAgentReply>(&[
        json!({"handled": false, "reply": "not taken"}),
        json!({"handled": true}),
        json!({"handled": true, "reply": "late"}),
        json!({"handled": false}),
    ]);
    assert!(outcome.handled());
    assert_eq!(outcome.reply, None, "handled without a reply is silence");
}

#[test]
fn finalize_beats_revise_and_revisions_are_joined() {
    let revise =
        |reason: &str| json!({"action": "revise", "reason": reason, "retry": {"instruction": reason}});
    let mut outcome = all::<BeforeAgentFinalize>(&[
        json!({"action": "continue"}),
        revise("tests"),
        json!({"action": "continue"}),
        revise("docs"),
    ]);
    assert_eq!(outcome.action, Some(FinalizeAction::Revise));
    assert_eq!(outcome.reason.as_deref(), Some("tests\n\ndocs"));
    assert_eq!(outcome.retry.as_ref().unwrap().instruction, "tests");
    assert_eq!(outcome.more_retries.len(), 1);
    outcome.merge(answer::<BeforeAgentFinalize>(json!({"action": "finalize"})));
    assert_eq!(outcome.merge(answer::<BeforeAgentFinalize>(revise("more"))), ["action"]);
    assert_eq!(outcome.action, Some(FinalizeAction::Finalize));
}

#[test]
fn the_two_contents_are_views_of_one_value() {
    let mut event = Sample::of("before_response_emit").event::<BeforeResponseEmit>();
    event.all_content = vec!["a".into(), "b".into()];
    event.content = "b".into();
    assert!(event.absorb(&answer::<BeforeResponseEmit>(json!({"content": "c"}))));
    assert_eq!(event.all_content, ["a", "c"]);
    assert!(event.absorb(&answer::<BeforeResponseEmit>(json!({"allContent": ["d"]}))));
    assert_eq!(event.content, "d");
    let mut merged = all::<BeforeResponseEmit>(&[json!({"content": "c"}), json!({"allContent": ["d"]})]);
    event.conclude(&mut merged);
    assert_eq!((merged.content, merged.all_content), (None, Some(vec!["d".into()])));
}

#[test]
fn contents_that_contradict_each_other_are_malformed() {
    let mut event = Sample::of("before_response_emit").event::<BeforeResponseEmit>();
    event.all_content = vec!["a".into(), "b".into()];
    let check = |said: Value| event.check(&answer::<BeforeResponseEmit>(said)).is_ok();
    assert!(check(json!({"content": "x", "allContent": ["a", "x"]})));
    assert!(check(json!({"content": "", "allContent": []})));
    assert!(!check(json!({"content": "x", "allContent": ["a", "b"]})));
}

proptest! {
    #[test]
    fn all_content_cannot_grow_the_answer(
        answer in prop::collection::vec("[a-z]{0,4}", 0..5),
        rewrite in prop::collection::vec("[a-z]{0,4}", 0..9),
    ) {
        let mut event = Sample::of("before_response_emit").event::<BeforeResponseEmit>();
        event.all_content = answer.iter().map(|text| text.as_str().into()).collect();
        let said = self::answer::<BeforeResponseEmit>(json!({"allContent": rewrite}));
        prop_assert_eq!(event.check(&said).is_ok(), rewrite.len() <= answer.len());
    }

    #[test]
    fn the_order_of_narrowing_does_not_matter(
        a in prop::sample::subsequence(vec!["exec", "read", "write", "*", "group:web"], 0..5),
        b in prop::sample::subsequence(vec!["exec", "read", "edit", "*", "group:fs"], 0..5),
    ) {
        let list = |names: &[&str]| json!({"toolsAllow": names});
        let (ab, ba) = (all::<BeforePromptBuild>(&[list(&a), list(&b)]), all::<BeforePromptBuild>(&[list(&b), list(&a)]));
        prop_assert_eq!(&ab.tools_allow, &ba.tools_allow);
        let (ab, a, b) = (ab.tools_allow.unwrap(), ToolsAllow::new(a), ToolsAllow::new(b));
        for tool in backstop_hooks::tool_name::known_tools().map(ToolName::new) {
            prop_assert_eq!(ab.allows(&tool), a.allows(&tool) && b.allows(&tool));
        }
    }
}

#[test]
fn a_narrowed_list_names_tools_and_calls_that_exist() {
    let mut event = Sample::of("before_llm_call").event::<BeforeLlmCall>();
    let outcome = all::<BeforeLlmCall>(&[json!({"tools": [{"name": "read"}, {"name": "made_up"}]})]);
    assert!(event.absorb(&outcome));
    assert_eq!(event.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["read"]);

    let mut event = Sample::of("after_llm_call").event::<AfterLlmCall>();
    let outcome = all::<AfterLlmCall>(&[json!({"toolCalls": [{"id": "call-2"}, {"id": "made-up"}]})]);
    assert!(event.absorb(&outcome));
    assert_eq!(event.tool_calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["call-2"]);
}

#[test]
fn calls_without_or_with_double_ids_are_denied_under_an_allow_list() {
    let mut event = Sample::of("after_llm_call").event::<AfterLlmCall>();
    let (nameless, twin) = (event.tool_calls[0].clone(), event.tool_calls[1].clone());
    event.tool_calls.push(twin);
    event.tool_calls.push(backstop_hooks::conversation::ToolCall { id: "".into(), ..nameless });
    let all_ids: Vec<_> = event.tool_calls.iter().map(|call| json!({"id": call.id.as_str()})).collect();
    event.absorb(&answer::<AfterLlmCall>(json!({"toolCalls": all_ids})));
    assert_eq!(event.tool_calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["call-1"]);
}

#[test]
fn hook_cannot_impersonate_another_owner() {
    for point in ["before_tool_call", "trusted_tool_policy"] {
        let mut claimed = ask("one");
        claimed["pluginId"] = json!("bank");
        let (owner, hook) = (OwnerId::new("notes"), HookId::new("notes:1"));
        let requests = if point == "before_tool_call" {
            let mut outcome = answer::<BeforeToolCall>(json!({"requireApproval": claimed}));
            outcome.stamp(&owner, &hook);
            outcome.approvals().to_vec()
        } else {
            let mut outcome = answer::<TrustedToolPolicy>(json!({"requireApproval": claimed}));
            outcome.stamp(&owner, &hook);
            outcome.approvals().to_vec()
        };
        assert_eq!((requests[0].owner(), requests[0].hook()), (Some(&owner), Some(&hook)));
    }
}
