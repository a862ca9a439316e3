//! Interceptors edit in place, by priority, where their matcher says.

use std::sync::Arc;

use backstop_engine::{
    BlockCause, Engine, FailureKind, HookOptions, InterceptorOptions, InvalidMatcher, RegisterError, Rewrite,
    Style, ToolInput, Verdict, format_event,
};
use backstop_hooks::conversation::{Part, ToolResult};
use backstop_hooks::points::{
    BeforeToolCall, MessageBefore, MessageBeforeEvent, MessageBeforeOutcome, ParamsBefore, ParamsBeforeEvent,
    ReasoningLevel, ThinkLevel, ToolAfter, ToolAfterEvent, ToolBefore, ToolBeforeEvent, ToolBeforeOutcome,
    ToolCallEvent, ToolCallOutcome,
};
use backstop_hooks::{HookError, OwnerId, Params, PointId, ToolName, hook_fn};
use serde_json::{Value, json};

use crate::{Notes, command, context, note, params, permit, taken};

fn engine() -> Engine {
    Engine::builder().build()
}

fn options(priority: i32) -> InterceptorOptions {
    InterceptorOptions { priority, ..InterceptorOptions::default() }
}

fn on_tools(matcher: &str) -> InterceptorOptions {
    InterceptorOptions { tool_matcher: Some(matcher.to_owned()), ..InterceptorOptions::default() }
}

fn message(text: &str) -> MessageBeforeEvent {
    MessageBeforeEvent {
        agent_id: "main".into(),
        session_key: None,
        provider: "anthropic".into(),
        model: "m".into(),
        message: text.into(),
        metadata: Params::default(),
    }
}

fn turn(metadata: Params) -> ParamsBeforeEvent {
    ParamsBeforeEvent {
        agent_id: "main".into(),
        session_key: None,
        message: "hi".into(),
        metadata,
        provider: "anthropic".into(),
        model: "m".into(),
        think_level: None,
        reasoning_level: None,
        temperature: None,
    }
}

fn no_rm(engine: &Engine) {
    let options = InterceptorOptions { priority: 100, ..on_tools("^exec$") };
    engine
        .interceptors()
        .add::<ToolBefore>("builtin:command-safety-guard", options, |_, output| {
            if command(&output.args).contains("rm -rf") {
                output.block = Some(true);
                output.block_reason = Some("rm -rf is not allowed".into());
            }
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn a_guard_blocks_its_tool_and_no_other() {
    let engine = engine();
    no_rm(&engine);
    let blocked = permit(&engine, "exec", "rm -rf x").await.permit.unwrap_err();
    assert_eq!(blocked.reason.unwrap(), "rm -rf is not allowed");
    // `bash` is `exec` under another name.
    assert!(permit(&engine, "bash", "rm -rf x").await.permit.is_err());
    assert!(permit(&engine, "process", "rm -rf x").await.permit.is_ok());
    assert!(permit(&engine, "exec", "ls").await.permit.is_ok());
}

#[tokio::test]
async fn interceptors_run_by_priority_and_see_each_others_edits() {
    let engine = engine();
    let notes = Notes::default();
    for (id, priority) in [("audit", -10), ("first", 50), ("second", 50), ("colour", 0)] {
        let notes = Arc::clone(&notes);
        engine
            .interceptors()
            .add::<ToolBefore>(id, options(priority), move |_, output| {
                note(&notes, format!("{id}: {}", command(&output.args)));
                if id == "colour" && !command(&output.args).contains("--color") {
                    let with = format!("{} --color=never", command(&output.args));
                    output.args = params(json!({ "command": with }));
                }
                Ok(())
            })
            .unwrap();
    }
    let permit = permit(&engine, "exec", "ls").await.permit.unwrap();
    assert_eq!(command(&permit.params), "ls --color=never");
    let first_round: Vec<_> = taken(&notes).into_iter().take(4).collect();
    assert_eq!(first_round, ["first: ls", "second: ls", "colour: ls", "audit: ls --color=never"]);
}

#[tokio::test]
async fn tags_flow_from_messages_to_parameters() {
    let engine = engine();
    engine
        .interceptors()
        .add::<MessageBefore>("classifier", options(0), |_, output| {
            let complex = output.message.contains("debug");
            let mut tags = (*output.metadata).clone();
            tags.insert("complexity".to_owned(), Value::from(if complex { "high" } else { "low" }));
            output.metadata = tags.into();
            Ok(())
        })
        .unwrap();
    engine
        .interceptors()
        .add::<ParamsBefore>("think-adjuster", options(0), |event, output| {
            if event.metadata.get("complexity") == Some(&Value::from("high")) {
                output.think_level = Some(ThinkLevel::High);
            }
            Ok(())
        })
        .unwrap();
    for (text, level) in [("debug this", Some(ThinkLevel::High)), ("hi", None)] {
        let judged = engine.decide::<MessageBefore>(message(text), &context("main")).await.into_parts().event;
        let turn =
            engine.decide::<ParamsBefore>(turn(judged.metadata), &context("main")).await.into_parts().event;
        assert_eq!(turn.think_level, level);
    }
}

#[tokio::test]
async fn parameters_can_be_cleared() {
    let engine = engine();
    let clear = |_: &ParamsBeforeEvent, output: &mut backstop_engine::ParamsOutput| {
        (output.think_level, output.temperature) = (None, None);
        Ok(())
    };
    engine.interceptors().add::<ParamsBefore>("clears", options(0), clear).unwrap();
    let lines = Notes::default();
    let heard = Arc::clone(&lines);
    engine
        .interceptors()
        .set_on_event(Some(Arc::new(move |event| heard.lock().unwrap().push(format_event(event)))));
    let set = ParamsBeforeEvent {
        think_level: Some(ThinkLevel::High),
        temperature: Some(0.5),
        reasoning_level: Some(ReasoningLevel::On),
        ..turn(Params::default())
    };
    let left = engine.decide::<ParamsBefore>(set, &context("main")).await.into_parts().event;
    assert_eq!((left.think_level, left.temperature), (None, None));
    assert_eq!(left.reasoning_level, Some(ReasoningLevel::On), "what is left alone stays");
    assert_eq!(taken(&lines), ["⚙️ params.before · thinkLevel cleared, temperature cleared"]);
}

#[tokio::test]
async fn a_provider_or_a_model_that_an_interceptor_sets_is_a_failure_and_not_ignored() {
    for sets in [
        (|output: &mut backstop_engine::ParamsOutput| output.provider = "other".to_owned()) as fn(&mut _),
        |output| output.model = "other".to_owned(),
    ] {
        let engine = engine();
        let set = move |_: &ParamsBeforeEvent, output: &mut _| {
            sets(output);
            Ok(())
        };
        engine.interceptors().add::<ParamsBefore>("sets", options(0), set).unwrap();
        let decided = engine.decide::<ParamsBefore>(turn(Params::default()), &context("main")).await;
        let blocked = decided.blocked().unwrap();
        assert_eq!(blocked.cause, BlockCause::Failure { kind: FailureKind::Malformed });
        assert!(blocked.reason_or_default().contains("before_model_resolve"), "{blocked:?}");
    }
}

#[tokio::test]
async fn results_are_rewritten_at_once_or_later() {
    let engine = engine();
    let strip = |result: &mut ToolResult| {
        for part in &mut result.content {
            if let Part::Text { text, .. } = part {
                *text = text.replace("\u{1b}[31m", "").into();
            }
        }
    };
    engine
        .interceptors()
        .add::<ToolAfter>("strip", options(1), move |_, output| {
            strip(&mut output.result);
            Ok(())
        })
        .unwrap();
    engine
        .interceptors()
        .add_async::<ToolAfter>("later", on_tools("^web_search$"), |event, mut output| {
            Box::pin(async move {
                tokio::task::yield_now().await;
                output.result.details = Some(json!({ "failed": event.is_error }).into());
                Ok(output)
            })
        })
        .unwrap();
    let result = ToolResult {
        tool_call_id: "call-1".into(),
        tool_name: None,
        content: vec![Part::text("\u{1b}[31mred")],
        is_error: false,
        details: None,
        meta: None,
    };
    let event = |tool: &str| ToolAfterEvent::new(tool, "call-1", true, result.clone());
    let searched = engine.decide::<ToolAfter>(event("web_search"), &context("main")).await.permit().unwrap();
    assert_eq!(searched.result.visible_text(), "red");
    assert_eq!(searched.result.details, Some(json!({ "failed": true }).into()));
    let read = engine.decide::<ToolAfter>(event("read"), &context("main")).await.into_parts().event;
    assert_eq!(read.result.details, None);
}

#[tokio::test]
async fn an_interceptor_that_fails_blocks() {
    let engine = engine();
    engine.interceptors().add::<ToolBefore>("bad", options(0), |_, _| Err(HookError::failed("no"))).unwrap();
    assert!(permit(&engine, "exec", "ls").await.permit.is_err());
    assert_eq!(engine.interceptors().remove(&"bad".into()), Ok(true));
    assert!(permit(&engine, "exec", "ls").await.permit.is_ok());
}

#[test]
fn a_matcher_that_matches_no_tool_lists_the_tools() {
    let engine = engine();
    let refused = |matcher: &str| {
        engine.interceptors().add::<ToolBefore>("bad", on_tools(matcher), |_, _| Ok(())).unwrap_err()
    };
    let error = refused("^nonexistent_tool$");
    assert!(matches!(&error, RegisterError::Matcher { error: InvalidMatcher::MatchesNothing { .. }, .. }));
    for tool in ["read", "apply_patch", "sessions_spawn", "tts", "image", "nodes"] {
        assert!(error.to_string().contains(tool), "{error}");
    }
    assert!(matches!(refused("("), RegisterError::Matcher { error: InvalidMatcher::Regex { .. }, .. }));
    let on_messages = engine.interceptors().add::<MessageBefore>("bad", on_tools("^exec$"), |_, _| Ok(()));
    assert!(matches!(on_messages.unwrap_err(), RegisterError::NoTools { .. }));
    for good in ["^exec$", "^web", "^(read|write)$", ".*"] {
        engine.interceptors().add::<ToolBefore>(good, on_tools(good), |_, _| Ok(())).unwrap();
    }
}

#[tokio::test]
async fn agent_matchers_choose_the_agent() {
    let engine = engine();
    let options =
        InterceptorOptions { agent_matcher: Some("^coder$".to_owned()), ..InterceptorOptions::default() };
    engine
        .interceptors()
        .add::<MessageBefore>("shout", options, |_, output| {
            output.message = output.message.to_uppercase().into();
            Ok(())
        })
        .unwrap();
    for (agent, text) in [("coder", "HI"), ("writer", "hi")] {
        let decided = engine.decide::<MessageBefore>(message("hi"), &context(agent)).await.into_parts();
        assert_eq!(decided.event.message, text);
    }
}

#[test]
fn the_registry_adds_removes_gets_lists_and_clears() {
    let engine = engine();
    let interceptors = engine.interceptors();
    no_rm(&engine);
    interceptors.add::<ToolBefore>("any", options(5), |_, _| Ok(())).unwrap();
    interceptors.add::<ToolAfter>("after", options(0), |_, _| Ok(())).unwrap();
    let typed = HookOptions::new(OwnerId::operator()).id("typed");
    engine.registry().on(hook_fn::<BeforeToolCall, _>(|_, _| Ok(None)), typed).unwrap();
    let ids = |metas: Vec<Arc<backstop_engine::HookMeta>>| -> Vec<String> {
        metas.iter().map(|meta| meta.id.to_string()).collect()
    };
    let get = |tool: &str| ids(interceptors.get(PointId::ToolBefore, Some(&ToolName::new(tool)), None));
    assert_eq!(get("exec"), ["builtin:command-safety-guard", "any"]);
    assert_eq!(get("read"), ["any"]);
    assert_eq!(ids(interceptors.list()), ["builtin:command-safety-guard", "any", "after"]);
    assert!(interceptors.list().iter().all(|meta| meta.style == Style::Interceptor));
    let twice = interceptors.add::<ToolAfter>("any", options(0), |_, _| Ok(()));
    assert_eq!(twice.unwrap_err(), RegisterError::Duplicate("any".into()));
    assert_eq!(interceptors.remove(&"any".into()), Ok(true));
    assert_eq!(interceptors.remove(&"any".into()), Ok(false));
    assert_eq!(interceptors.remove(&"typed".into()), Ok(false), "that is no interceptor");
    interceptors.clear();
    assert!(interceptors.list().is_empty());
    assert_eq!(ids(engine.registry().list()), ["typed"]);
}

#[tokio::test]
async fn what_interceptors_do_is_shown_line_by_line() {
    let engine = engine();
    let lines = Notes::default();
    let shown = Arc::clone(&lines);
    engine.interceptors().set_on_event(Some(Arc::new(move |event| note(&shown, format_event(event)))));
    no_rm(&engine);
    engine
        .interceptors()
        .add::<ToolBefore>("silent", options(0), |_, output| {
            if !command(&output.args).ends_with('!') {
                output.args = params(json!({ "command": format!("{}!", command(&output.args)) }));
            }
            Ok(())
        })
        .unwrap();
    engine
        .interceptors()
        .add::<MessageBefore>("m", options(0), |_, output| {
            if output.metadata.is_empty() {
                output.message = "other".into();
                output.metadata = params(json!({ "complexity": "high" }));
            }
            Ok(())
        })
        .unwrap();
    engine
        .interceptors()
        .add::<ParamsBefore>("p", options(0), |_, output| {
            output.think_level = Some(ThinkLevel::High);
            output.reasoning_level = Some(ReasoningLevel::On);
            output.temperature = Some(0.5);
            Ok(())
        })
        .unwrap();
    engine
        .interceptors()
        .add::<ToolBefore>("no-reason", on_tools("^tts$"), |_, output| {
            output.block = Some(true);
            Ok(())
        })
        .unwrap();
    permit(&engine, "exec", "rm -rf x").await.permit.unwrap_err();
    permit(&engine, "exec", "ls").await.permit.unwrap();
    permit(&engine, "tts", "ls!").await.permit.unwrap_err();
    engine.decide::<MessageBefore>(message("hi"), &context("main")).await.into_parts();
    engine.decide::<ParamsBefore>(turn(Params::default()), &context("main")).await.into_parts();
    assert_eq!(
        taken(&lines),
        [
            "🛡️ builtin:command-safety-guard · blocked exec — \"rm -rf is not allowed\"",
            "🛡️ no-reason · blocked tts",
            "📨 message.before · message mutated, metadata: complexity",
            "⚙️ params.before · thinkLevel → high, reasoningLevel → on, temperature → 0.5",
        ]
    );
    engine.interceptors().set_on_event(None);
    permit(&engine, "exec", "rm -rf x").await.permit.unwrap_err();
    assert!(taken(&lines).is_empty());
}

#[tokio::test]
async fn a_listener_that_panics_does_not_stop_the_message() {
    let engine = engine();
    engine.interceptors().set_on_event(Some(Arc::new(|_| panic!("on purpose"))));
    engine
        .interceptors()
        .add::<MessageBefore>("m", options(0), |_, output| {
            output.message = "other".into();
            Ok(())
        })
        .unwrap();
    let decided = engine.decide::<MessageBefore>(message("hi"), &context("main")).await.into_parts();
    assert_eq!(decided.event.message, "other");
    assert_eq!(decided.receipt.verdict, Verdict::Modify);
}

/// A guard as Backstop brings it: a typed hook at an interceptor's point, of an owner that is built in.
fn built_in(engine: &Engine, fails: bool) {
    let options = HookOptions::new(OwnerId::new("builtin:guard")).id("builtin:guard").priority(100);
    let guard = hook_fn::<ToolBefore, _>(move |event, _| match command(&event.args) {
        "rm" if fails => Err(HookError::failed("broken")),
        "rm" => Ok(Some(ToolBeforeOutcome {
            block: Some(true),
            block_reason: Some("not that".into()),
            ..ToolBeforeOutcome::default()
        })),
        _ => Ok(None),
    });
    engine.registry().on(guard, options).unwrap();
    let options = HookOptions::new(OwnerId::new("builtin:guard")).id("builtin:guard:ask");
    engine.registry().on(hook_fn::<BeforeToolCall, _>(|_, _| Ok(None)), options).unwrap();
}

#[tokio::test]
async fn built_ins_are_seen_in_list_and_get_and_cannot_be_removed() {
    let engine = engine();
    built_in(&engine, false);
    let interceptors = engine.interceptors();
    interceptors.add::<ToolBefore>("mine", options(0), |_, _| Ok(())).unwrap();
    let ids = |metas: Vec<Arc<backstop_engine::HookMeta>>| -> Vec<String> {
        metas.iter().map(|meta| meta.id.to_string()).collect()
    };
    let both = ["builtin:guard", "mine"];
    assert_eq!(ids(interceptors.list()), both, "and not what stands at another point");
    assert_eq!(ids(interceptors.get(PointId::ToolBefore, Some(&ToolName::new("exec")), None)), both);
    assert!(interceptors.get(PointId::ToolAfter, None, None).is_empty());

    let refused = interceptors.remove(&"builtin:guard".into()).unwrap_err();
    assert!(refused.to_string().contains("plugins.entries.builtin:guard.enabled"), "{refused}");
    assert_eq!(interceptors.remove(&"builtin:guard:ask".into()), Ok(false), "that is no interceptor");
    interceptors.clear();
    assert_eq!(ids(interceptors.list()), ["builtin:guard"]);
    assert!(permit(&engine, "exec", "rm").await.permit.is_err(), "it still judges");
    let again = interceptors.add::<ToolBefore>("builtin:guard", options(0), |_, _| Ok(()));
    assert_eq!(again.unwrap_err(), RegisterError::Duplicate("builtin:guard".into()));
}

#[tokio::test]
async fn on_event_is_told_when_built_ins_block() {
    for (fails, reason) in [(false, "not that"), (true, "broken")] {
        let engine = engine();
        let lines = Notes::default();
        let shown = Arc::clone(&lines);
        engine.interceptors().set_on_event(Some(Arc::new(move |event| note(&shown, format_event(event)))));
        built_in(&engine, fails);
        permit(&engine, "exec", "ls").await.permit.unwrap();
        assert!(taken(&lines).is_empty());
        permit(&engine, "exec", "rm").await.permit.unwrap_err();
        let [line] = taken(&lines).try_into().unwrap();
        assert!(line.starts_with("🛡️ builtin:guard · blocked exec — ") && line.contains(reason), "{line}");
        let event = ToolCallEvent::new("exec", params(json!({ "command": "rm" })));
        assert!(engine.review_tool_call(event, &context("main"), false).await.blocked.is_some());
        assert!(taken(&lines).is_empty(), "where a call is only looked at, nothing was stopped");
    }
}

#[tokio::test]
async fn an_interceptor_sees_which_call_it_is_about() {
    let engine = engine();
    let seen = Notes::default();
    let log = Arc::clone(&seen);
    let look = move |event: &ToolBeforeEvent, _: &mut ToolInput| {
        note(&log, event.tool_call_id.to_string());
        Ok(())
    };
    engine.interceptors().add::<ToolBefore>("look", options(0), look).unwrap();
    let event = ToolCallEvent::new("exec", params(json!({ "command": "ls" })))
        .tool_call_id(backstop_hooks::ToolCallId::from("call-7"));
    engine.review_tool_call(event, &context("main"), false).await;
    assert_eq!(taken(&seen), ["call-7"]);
}

#[tokio::test]
async fn on_event_is_told_once_of_a_built_in_that_judged_twice() {
    let engine = engine();
    let lines = Notes::default();
    let shown = Arc::clone(&lines);
    engine.interceptors().set_on_event(Some(Arc::new(move |event| note(&shown, format_event(event)))));
    built_in(&engine, false);
    let rewrite = hook_fn::<BeforeToolCall, _>(|_, _| {
        Ok(Some(ToolCallOutcome::rewrite(params(json!({ "command": "rm" })))))
    });
    engine.registry().on(rewrite, HookOptions::new(OwnerId::operator()).id("rewrites")).unwrap();
    permit(&engine, "exec", "ls").await.permit.unwrap_err();
    assert_eq!(taken(&lines).len(), 1);
}

#[tokio::test]
async fn an_interceptor_can_say_that_its_edit_is_optional() {
    let engine = engine();
    built_in(&engine, false);
    let optional = InterceptorOptions { rewrite: Some(Rewrite::Optional), ..options(-1) };
    let edit = |_: &ToolBeforeEvent, output: &mut ToolInput| {
        output.args = params(json!({ "command": "rm" }));
        Ok(())
    };
    engine.interceptors().add::<ToolBefore>("convenience", optional, edit).unwrap();
    assert_eq!(permit(&engine, "exec", "ls").await.permit.unwrap().params["command"], "ls");
}

#[tokio::test]
async fn on_event_is_told_of_messages_that_built_ins_change() {
    let engine = engine();
    let lines = Notes::default();
    let shown = Arc::clone(&lines);
    engine.interceptors().set_on_event(Some(Arc::new(move |event| note(&shown, format_event(event)))));
    let options = HookOptions::new(OwnerId::builtin()).id("builtin:cleaner");
    let cleaner = hook_fn::<MessageBefore, _>(|event, _| {
        let secret = event.message.contains("secret");
        Ok(secret.then(|| MessageBeforeOutcome { message: Some("***".into()), metadata: None }))
    });
    engine.registry().on(cleaner, options).unwrap();
    for (text, told) in [("hi", &[][..]), ("a secret", &["📨 message.before · message mutated"])] {
        engine.decide::<MessageBefore>(message(text), &context("main")).await;
        assert_eq!(taken(&lines), told, "{text}");
    }
}
