//! Ways around the laws that somebody found who had not seen the code. Each failed before it was closed.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use backstop_engine::{AgentMatcher, Attendance, BlockCause, FailureKind, HookOptions, Rewrite, Unsealer};
use backstop_hooks::points::{
    AgentReplyEvent, AgentReplyOutcome, BeforeAgentReply, BeforeLlmCall, BeforeLlmCallOutcome,
    BeforeToolCall, ExecEnvEvent, ExecEnvOutcome, ExecHost, ResolveExecEnv, ToolCallEvent, ToolCallOutcome,
    ToolInfo, ToolNames,
};
use backstop_hooks::{ApprovalRequest, CallContext, Params, Resolution, Trigger, hook_fn};
use serde_json::json;

use crate::law_04_what_was_judged_is_what_runs::llm_call;
use crate::support::{command, context, engine, exec, on, options, params, permit};

fn rewrites(to: &'static str) -> Arc<dyn backstop_hooks::Hook<BeforeToolCall>> {
    hook_fn::<BeforeToolCall, _>(move |_, _| {
        Ok(Some(ToolCallOutcome::rewrite(params(json!({ "command": to })))))
    })
}

fn denies(word: &'static str) -> Arc<dyn backstop_hooks::Hook<BeforeToolCall>> {
    hook_fn::<BeforeToolCall, _>(move |event, _| {
        Ok(command(event).contains(word).then(|| ToolCallOutcome::block("never that")))
    })
}

#[tokio::test]
async fn an_edited_description_or_schema_of_a_tool_is_refused_and_not_dropped() {
    let schema = |text: &str| Some(json!({ "properties": { "path": { "description": text } } }).into());
    let offered = ToolInfo {
        description: Some("poisoned".into()),
        input_schema: schema("poisoned"),
        ..ToolInfo::named("read")
    };
    let other_words = ToolInfo { description: Some("clean".into()), ..offered.clone() };
    let other_schema = ToolInfo { input_schema: schema("clean"), ..offered.clone() };
    for (answer, refused) in [
        (other_words, true),
        (other_schema, true),
        (offered.clone(), false),
        (ToolInfo::named("read"), false),
    ] {
        let engine = engine();
        let says = hook_fn::<BeforeLlmCall, _>(move |_, _| {
            let tools = Some(ToolNames(vec![answer.clone()]));
            Ok(Some(BeforeLlmCallOutcome { tools, ..Default::default() }))
        });
        on(&engine, "cleans", 0, says);
        let mut event = llm_call("hi");
        event.tools = vec![offered.clone()];
        let decided = engine.decide::<BeforeLlmCall>(event, &context()).await.into_parts();
        let malformed = BlockCause::Failure { kind: FailureKind::Malformed };
        assert_eq!(decided.blocked.map(|blocked| blocked.cause), refused.then_some(malformed));
        assert_eq!(decided.event.tools, vec![offered.clone()]);
    }
}

#[tokio::test]
async fn a_value_that_gave_way_is_not_judged_a_second_time() {
    for rewrite in [Rewrite::Optional, Rewrite::Required] {
        let engine = engine();
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looks);
        // A gate whose second look at a value is milder than its first.
        let moody = hook_fn::<BeforeToolCall, _>(move |event, _| {
            let first = command(event) == "y" && counted.fetch_add(1, Ordering::Relaxed) == 0;
            Ok(first.then(|| ToolCallOutcome::block("not y")))
        });
        on(&engine, "gate", 9, moody);
        engine.registry().on(rewrites("y"), options("one", 5).rewrite(Rewrite::Optional)).unwrap();
        engine.registry().on(rewrites("y"), options("two", 4).rewrite(rewrite)).unwrap();
        let reviewed = engine.review_tool_call(exec("x"), &context(), false).await;
        assert_eq!(looks.load(Ordering::Relaxed), 1);
        match rewrite {
            Rewrite::Optional => {
                assert_eq!((command(&reviewed.event).as_str(), reviewed.blocked), ("x", None));
            }
            Rewrite::Required => {
                let blocked = reviewed.blocked.unwrap();
                assert_eq!(blocked.hook, Some("gate".into()));
                assert_eq!(blocked.cause, BlockCause::UnstableRewrite { writer: Some("two".into()) });
            }
        }
    }
}

#[tokio::test]
async fn a_question_about_a_rewrite_that_gave_way_is_cancelled() {
    let engine = engine();
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    on(
        &engine,
        "asks",
        9,
        hook_fn::<BeforeToolCall, _>(move |event, _| {
            let heard = Arc::clone(&heard);
            let ask = move || {
                ToolCallOutcome::ask(ApprovalRequest::cut("y?", "").on_resolution(move |resolution| {
                    heard.lock().unwrap().push(resolution);
                    async { None }
                }))
            };
            Ok((command(event) == "y").then(ask))
        }),
    );
    engine.registry().on(rewrites("y"), options("utility", 0).rewrite(Rewrite::Optional)).unwrap();
    let permitted = permit(&engine, exec("x")).await.permit.unwrap();
    assert_eq!(command(&permitted), "x");
    assert_eq!(*told.lock().unwrap(), [Resolution::Cancelled]);
}

#[derive(Debug)]
struct Vault;

impl Unsealer for Vault {
    fn unseal(&self, event: &ToolCallEvent, _: &CallContext) -> Option<Params> {
        let filled = command(event).replace("[HOST_1]", "prod-db");
        (filled != command(event)).then(|| params(json!({ "command": filled })))
    }
}

#[tokio::test]
async fn a_policy_judges_what_runs_behind_placeholders() {
    for (judges_values, runs) in [(Some(true), false), (None, true)] {
        let engine = engine();
        engine
            .registry()
            .update(|snapshot| {
                snapshot.set_unsealer(Arc::new(Vault));
                Ok::<_, Infallible>(())
            })
            .unwrap();
        let policy = HookOptions { judges_values, ..options("policy", 0) };
        engine.registry().on(denies("prod-db"), policy).unwrap();
        assert!(permit(&engine, exec("psql prod-db")).await.permit.is_err());
        // A hook that may send on what it reads is not shown the value, and says so by not asking for it.
        assert_eq!(permit(&engine, exec("psql [HOST_1]")).await.permit.is_ok(), runs);
    }
}

#[tokio::test]
async fn a_gate_for_some_agents_is_asked_about_a_call_of_nobody() {
    let engine = engine();
    let only = options("gate", 0).agents(AgentMatcher::regex("^coder$").unwrap());
    engine.registry().on(denies("rm"), only).unwrap();
    let nameless = CallContext { agent_id: None, ..context() };
    let other = CallContext { agent_id: Some("writer".into()), ..context() };
    for (call, blocked) in [(nameless, true), (other, false)] {
        let verdict = engine.permit_tool_call(exec("rm"), &call, &Attendance::Nobody).await;
        assert_eq!(verdict.permit.is_err(), blocked);
    }
}

#[tokio::test]
async fn hooks_are_limited_to_the_triggers_they_are_eligible_for() {
    let engine = engine();
    let takes = hook_fn::<BeforeAgentReply, _>(|_, _| {
        Ok(Some(AgentReplyOutcome { handled: true, ..AgentReplyOutcome::default() }))
    });
    engine.registry().on(takes, options("nightly", 0).triggers([Trigger::Cron, Trigger::Heartbeat])).unwrap();
    let event = AgentReplyEvent::new("hi");
    for (trigger, taken) in [
        (Some(Trigger::Cron), true),
        (Some(Trigger::Heartbeat), true),
        (Some(Trigger::User), false),
        (None, false),
    ] {
        let call = CallContext { trigger, ..context() };
        let claimed = engine.claim::<BeforeAgentReply>(&event, &call).await;
        assert_eq!(claimed.outcome.is_some(), taken, "{trigger:?}");
    }
    // Where failing is not passing, not knowing is not passing either.
    engine.registry().on(denies("rm"), options("gate", 0).triggers([Trigger::Cron])).unwrap();
    for (trigger, blocked) in [(Some(Trigger::Cron), true), (Some(Trigger::User), false), (None, true)] {
        let call = CallContext { trigger, ..context() };
        let reviewed = engine.review_tool_call(exec("rm"), &call, false).await;
        assert_eq!(reviewed.blocked.is_some(), blocked, "{trigger:?}");
    }
}

#[tokio::test]
async fn a_reason_to_block_without_the_word_is_no_consent() {
    let mute = ToolCallOutcome { block_reason: Some("never that".into()), ..ToolCallOutcome::default() };
    let unblocked = ToolCallOutcome { block: Some(false), ..mute.clone() };
    for (said, cause) in
        [(mute, Some(BlockCause::Failure { kind: FailureKind::Malformed })), (unblocked, None)]
    {
        let engine = engine();
        on(&engine, "gate", 0, hook_fn::<BeforeToolCall, _>(move |_, _| Ok(Some(said.clone()))));
        let blocked = permit(&engine, exec("rm")).await.permit.err();
        assert_eq!(blocked.map(|blocked| blocked.cause), cause);
    }
}

#[tokio::test]
async fn whose_variable_was_replaced_is_in_the_receipt() {
    let engine = engine();
    let sets = |value: &'static str| {
        hook_fn::<ResolveExecEnv, _>(move |_, _| {
            let both =
                [("STAGE", value), ("SAME", "x")].map(|(key, value)| (key.to_owned(), value.to_owned()));
            Ok(Some(ExecEnvOutcome(both.into())))
        })
    };
    on(&engine, "first", 9, sets("test"));
    on(&engine, "second", 5, sets("live"));
    on(&engine, "third", 1, sets("live"));
    let event = ExecEnvEvent::new("exec", ExecHost::Gateway);
    let decided = engine.decide::<ResolveExecEnv>(event, &context()).await;
    assert_eq!(decided.outcome().0["STAGE"], "live");
    let replaced: Vec<_> =
        decided.receipt().steps.iter().map(|step| serde_json::to_value(&step.replaced).unwrap()).collect();
    assert_eq!(replaced, [json!([]), json!([{ "key": "STAGE", "of": "first" }]), json!([])]);
    assert!(!serde_json::to_string(decided.receipt()).unwrap().contains("live"), "no value is kept");
}
