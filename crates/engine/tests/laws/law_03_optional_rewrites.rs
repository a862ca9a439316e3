//! Rewrites that may give way: who is heard about them, what a human is asked about the value in the end, and what of
//! an answer counts when a hook is asked once more.

use std::sync::Arc;

use backstop_engine::{Engine, Reviewed, Rewrite};
use backstop_hooks::points::{
    BeforeModelResolve, BeforePromptBuild, BeforeToolCall, ModelResolveEvent, ModelResolveOutcome,
    PromptBuildOutcome, ToolCallOutcome,
};
use backstop_hooks::{ApprovalRequest, Hook, hook_fn};
use serde_json::json;

use crate::law_03_no_wish_is_dropped::prompt_event;
use crate::support::{block_on, command, context, engine, exec, on, options, params};

/// Would like the command to be `y`, and does without if somebody minds.
fn would_like_y(engine: &Engine) {
    let utility = hook_fn::<BeforeToolCall, _>(|event, _| {
        let rewrite = || ToolCallOutcome::rewrite(params(json!({ "command": "y" })));
        Ok((command(event) != "y").then(rewrite))
    });
    engine.registry().on(utility, options("utility", 0).rewrite(Rewrite::Optional)).unwrap();
}

/// Asks a human about the commands that `about` picks, by a question that quotes them.
fn asks(about: impl Fn(&str) -> bool + Send + Sync + 'static) -> Arc<dyn Hook<BeforeToolCall>> {
    hook_fn::<BeforeToolCall, _>(move |event, _| {
        let command = command(event);
        Ok(about(&command)
            .then(|| ToolCallOutcome::ask(ApprovalRequest::cut(&format!("run {command}?"), ""))))
    })
}

fn review(engine: &Engine) -> Reviewed {
    block_on(engine.review_tool_call(exec("x"), &context(), false))
}

fn questions(reviewed: &Reviewed) -> Vec<&str> {
    reviewed.requests.iter().map(|request| request.title().as_str()).collect()
}

#[test]
fn law_03_an_optional_rewrite_gives_way_where_a_human_would_have_to_be_asked_because_of_it() {
    let engine = engine();
    on(&engine, "asks", 9, asks(|command| command == "y"));
    would_like_y(&engine);
    let reviewed = review(&engine);
    assert_eq!((command(&reviewed.event).as_str(), reviewed.changed), ("x", false));
    assert_eq!(questions(&reviewed), [""; 0], "nobody is asked about what does not run");
    let utility = reviewed.receipt.steps.iter().find(|step| step.hook.id.as_str() == "utility").unwrap();
    assert_eq!(utility.yielded_to, Some("asks".into()));
}

#[test]
fn law_03_where_a_human_is_asked_anyway_the_question_is_about_what_runs() {
    let engine = engine();
    on(&engine, "asks", 9, asks(|_| true));
    would_like_y(&engine);
    let reviewed = review(&engine);
    assert_eq!(command(&reviewed.event), "y", "to be asked as before is no objection");
    assert_eq!(questions(&reviewed), ["run y?"]);
}

#[test]
fn law_03_whoever_stands_right_before_an_optional_rewrite_is_heard_too() {
    let engine = engine();
    for (id, priority) in [("first", 9), ("second", 8), ("third", 7)] {
        on(
            &engine,
            id,
            priority,
            hook_fn::<BeforeToolCall, _>(move |event, _| {
                let minds = id == "third" && command(event) == "y";
                Ok(minds.then(|| ToolCallOutcome::block("not y")))
            }),
        );
    }
    would_like_y(&engine);
    let reviewed = review(&engine);
    assert_eq!(reviewed.blocked, None);
    assert_eq!(command(&reviewed.event), "x");
}

#[test]
fn law_03_what_a_hook_adds_is_added_once_though_it_is_asked_twice() {
    let engine = engine();
    let adds = |text: &'static str| {
        hook_fn::<BeforePromptBuild, _>(move |_, _| {
            let prepend_context = Some(text.into());
            Ok(Some(PromptBuildOutcome { prepend_context, ..Default::default() }))
        })
    };
    on(&engine, "adds", 9, adds("remember the milk"));
    let writes = hook_fn::<BeforePromptBuild, _>(|_, _| {
        Ok(Some(PromptBuildOutcome { system_prompt: Some("another".into()), ..Default::default() }))
    });
    engine.registry().on(writes, options("writes", 0).rewrite(Rewrite::Required)).unwrap();
    let decided = block_on(engine.decide::<BeforePromptBuild>(prompt_event(), &context())).into_parts();
    let again: Vec<_> = decided.receipt.steps.iter().filter(|step| step.again).collect();
    assert_eq!(again.iter().map(|step| step.hook.id.as_str()).collect::<Vec<_>>(), ["adds"]);
    assert_eq!(decided.outcome.prepend_context.unwrap(), "remember the milk");
}

#[test]
fn law_03_a_preference_that_loses_is_told() {
    let engine = engine();
    for (id, priority) in [("first", 9), ("second", 0)] {
        on(
            &engine,
            id,
            priority,
            hook_fn::<BeforeModelResolve, _>(move |_, _| {
                Ok(Some(ModelResolveOutcome { model_override: Some(id.to_owned()), ..Default::default() }))
            }),
        );
    }
    let event = ModelResolveEvent { prompt: "hi".into(), attachments: None };
    let decided = block_on(engine.decide::<BeforeModelResolve>(event, &context())).into_parts();
    assert_eq!(decided.outcome.model_override.as_deref(), Some("first"));
    let refused: Vec<_> = decided.receipt.steps.iter().map(|step| step.refused.as_slice()).collect();
    assert_eq!(refused, [&[][..], &["modelOverride"][..]]);
}
