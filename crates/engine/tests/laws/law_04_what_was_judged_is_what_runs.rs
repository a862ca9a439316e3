//! A value that was rewritten after a gate judged it is judged by that gate again, and then it stands.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use backstop_engine::{BlockCause, InterceptorOptions, tool_call_digest};
use backstop_hooks::conversation::Message;
use backstop_hooks::points::{
    BeforeLlmCall, BeforeLlmCallEvent, BeforeLlmCallOutcome, BeforeToolCall, ToolBefore, ToolCallOutcome,
    TrustedPolicyOutcome, TrustedToolPolicy,
};
use backstop_hooks::{ApprovalRequest, hook_fn};
use serde_json::json;

use crate::support::{command, context, engine, exec, on, params, permit, watched};

fn rewrite_to(command: &str) -> ToolCallOutcome {
    ToolCallOutcome::rewrite(params(json!({ "command": command })))
}

#[tokio::test]
async fn law_04_an_interceptor_that_let_pass_judges_a_typed_rewrite_again() {
    let engine = engine();
    engine
        .interceptors()
        .add::<ToolBefore>("guard", InterceptorOptions::default(), |_, output| {
            let bad =
                output.args.get("command").is_some_and(|c| c.as_str().unwrap_or_default().contains("rm"));
            if bad {
                output.block = Some(true);
                output.block_reason = Some("no rm".into());
            }
            Ok(())
        })
        .unwrap();
    on(&engine, "sneaky", 0, hook_fn::<BeforeToolCall, _>(|_, _| Ok(Some(rewrite_to("rm -rf x")))));
    let verdict = permit(&engine, exec("ls")).await;
    let blocked = verdict.permit.unwrap_err();
    assert_eq!(blocked.hook.unwrap().as_str(), "guard");
    assert_eq!(blocked.reason.unwrap(), "no rm");
    assert!(verdict.receipt.steps.iter().any(|step| step.again && step.hook.id.as_str() == "guard"));
}

#[tokio::test]
async fn law_04_a_trusted_policy_judges_again_what_any_later_hook_rewrote() {
    for trusted_first in [true, false] {
        let engine = engine();
        on(
            &engine,
            "policy",
            0,
            hook_fn::<TrustedToolPolicy, _>(|event, _| {
                Ok(command(event)
                    .contains("rm")
                    .then(|| TrustedPolicyOutcome { block: Some(true), ..TrustedPolicyOutcome::default() }))
            }),
        );
        if trusted_first {
            on(
                &engine,
                "later",
                -1,
                hook_fn::<TrustedToolPolicy, _>(|_, _| {
                    let params = Some(params(json!({ "command": "rm" })));
                    Ok(Some(TrustedPolicyOutcome { params, ..TrustedPolicyOutcome::default() }))
                }),
            );
        } else {
            on(&engine, "typed", 0, hook_fn::<BeforeToolCall, _>(|_, _| Ok(Some(rewrite_to("rm")))));
        }
        let verdict = permit(&engine, exec("ls")).await;
        assert_eq!(verdict.permit.unwrap_err().hook.unwrap().as_str(), "policy");
    }
}

#[tokio::test]
async fn law_04_two_hooks_that_never_agree_block_as_unstable_rewrite() {
    let engine = engine();
    on(&engine, "a", 1, hook_fn::<BeforeToolCall, _>(|_, _| Ok(Some(rewrite_to("a")))));
    on(&engine, "b", 0, hook_fn::<BeforeToolCall, _>(|_, _| Ok(Some(rewrite_to("b")))));
    let verdict = permit(&engine, exec("x")).await;
    let blocked = verdict.permit.unwrap_err();
    assert_eq!(blocked.cause, BlockCause::UnstableRewrite { writer: Some("b".into()) });
    assert!(blocked.reason.unwrap().starts_with("unstable_rewrite"));
}

#[tokio::test]
async fn law_04_an_answer_without_arguments_does_not_bring_older_arguments_back() {
    // A policy that rewrites, a hook that rewrites further, and the policy only asking the second time.
    let engine = engine();
    on(
        &engine,
        "policy",
        0,
        hook_fn::<TrustedToolPolicy, _>(|event, _| {
            Ok(Some(match command(event).as_str() {
                "x" => TrustedPolicyOutcome {
                    params: Some(params(json!({ "command": "y" }))),
                    ..TrustedPolicyOutcome::default()
                },
                _ => TrustedPolicyOutcome {
                    require_approval: Some(ApprovalRequest::cut("sure?", "").into()),
                    ..TrustedPolicyOutcome::default()
                },
            }))
        }),
    );
    on(&engine, "typed", 0, hook_fn::<BeforeToolCall, _>(|_, _| Ok(Some(rewrite_to("z")))));
    let reviewed = engine.review_tool_call(exec("x"), &context(), false).await;
    assert_eq!(reviewed.blocked, None);
    assert_eq!(command(&reviewed.event), "z");
    assert_eq!(reviewed.requests.len(), 1);
}

#[tokio::test]
async fn law_04_a_rewrite_that_a_latch_refuses_in_the_second_round_still_blocks() {
    // `messages` belongs to whoever set it first; a redactor in front of it that objects to the result
    // must not be overruled in silence.
    let engine = engine();
    on(
        &engine,
        "redactor",
        9,
        hook_fn::<BeforeLlmCall, _>(|event, _| {
            let leaks = event.messages.iter().any(|message| message.visible_text().contains("secret"));
            Ok(leaks.then(|| BeforeLlmCallOutcome {
                messages: Some(vec![Message::user("***")]),
                ..BeforeLlmCallOutcome::default()
            }))
        }),
    );
    on(
        &engine,
        "leaks",
        0,
        hook_fn::<BeforeLlmCall, _>(|_, _| {
            let messages = Some(vec![Message::user("secret")]);
            Ok(Some(BeforeLlmCallOutcome { messages, ..BeforeLlmCallOutcome::default() }))
        }),
    );
    let decided = engine.decide::<BeforeLlmCall>(llm_call("hi"), &context()).await.into_parts();
    let blocked = decided.blocked.unwrap();
    assert_eq!(blocked.cause, BlockCause::UnstableRewrite { writer: Some("leaks".into()) });
    assert_eq!(blocked.hook, Some("redactor".into()));
}

pub(crate) fn llm_call(text: &str) -> BeforeLlmCallEvent {
    BeforeLlmCallEvent {
        other_models: None,
        run_id: "run-1".into(),
        messages: vec![Message::user(text)],
        system_prompt: "".into(),
        model: "m".into(),
        provider: "p".into(),
        iteration: 0,
        tools: vec![],
        answer_tokens: None,
        token_estimate: 1,
    }
}

#[tokio::test]
async fn law_04_the_permit_holds_exactly_what_was_judged() {
    let (engine, kept) = watched();
    on(
        &engine,
        "rewrites",
        0,
        hook_fn::<BeforeToolCall, _>(|event, _| Ok((command(event) == "ls").then(|| rewrite_to("ls -l")))),
    );
    let verdict = permit(&engine, exec("ls")).await;
    let permit = verdict.permit.unwrap();
    let receipt = kept.take().pop().unwrap();
    assert_eq!(receipt.original, Some(tool_call_digest(&exec("ls"))));
    assert_eq!(receipt.judged, Some(tool_call_digest(&permit)));
    assert_eq!(command(&permit.redeem().unwrap()), "ls -l");
}

#[tokio::test]
async fn law_04_one_gate_alone_permits_no_tool_call() {
    let engine = engine();
    on(
        &engine,
        "asks",
        0,
        hook_fn::<BeforeToolCall, _>(|_, _| {
            Ok(Some(ToolCallOutcome::ask(ApprovalRequest::cut("sure?", ""))))
        }),
    );
    let decided = engine.decide::<BeforeToolCall>(exec("ls"), &context()).await;
    assert_eq!(decided.blocked(), None);
    assert_eq!(decided.permit().unwrap_err().cause, BlockCause::Withheld);
    let decided = engine.decide::<TrustedToolPolicy>(exec("ls"), &context()).await;
    assert!(decided.permit().is_err());
}

#[tokio::test]
async fn law_04_each_gate_is_asked_at_most_twice() {
    let engine = engine();
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    on(
        &engine,
        "counts",
        9,
        hook_fn::<BeforeToolCall, _>(move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(None)
        }),
    );
    for index in 0..5 {
        on(
            &engine,
            &format!("r{index}"),
            0,
            hook_fn::<BeforeToolCall, _>(move |event, _| {
                let marked = event.params.contains_key(&index.to_string());
                let mut more = (*event.params).clone();
                more.insert(index.to_string(), json!(1));
                Ok((!marked).then(|| ToolCallOutcome::rewrite(more.into())))
            }),
        );
    }
    assert!(permit(&engine, exec("ls")).await.permit.is_ok());
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn law_04_facts_derived_from_other_arguments_do_not_outlive_them() {
    let interceptor = |engine: &backstop_engine::Engine| {
        let rewrite = |_: &backstop_hooks::points::ToolBeforeEvent,
                       output: &mut backstop_engine::ToolInput| {
            output.args = params(json!({ "command": "y" }));
            Ok(())
        };
        engine.interceptors().add::<ToolBefore>("i", InterceptorOptions::default(), rewrite).unwrap();
    };
    let typed = |engine: &backstop_engine::Engine| {
        on(engine, "t", 0, hook_fn::<BeforeToolCall, _>(|_, _| Ok(Some(rewrite_to("y")))));
    };
    for arm in [&interceptor as &dyn Fn(&backstop_engine::Engine), &typed] {
        let engine = engine();
        arm(&engine);
        let mut event = exec("x");
        event.derived_paths = Some(vec!["x".to_owned()]);
        assert_eq!(permit(&engine, event).await.permit.unwrap().derived_paths, None);
    }
}
