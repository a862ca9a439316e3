//! Mistakes that were made elsewhere, each pinned by its name.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_engine::{
    Attendance, BlockCause, Engine, FailureKind, HookOptions, OperatorSettings, OwnerSettings, RegisterError,
    Snapshot, Unasked, Verdict, ungated_rulings,
};
use backstop_hooks::points::*;
use backstop_hooks::{ApprovalRequest, HookError, OwnerId, Resolution, ToolCallId, async_hook_fn, hook_fn};
use backstop_store::{ApprovalFilter, ApprovalStatus, ToolDecision};
use serde_json::json;

use crate::law_04_what_was_judged_is_what_runs::llm_call;
use crate::law_11_runs_do_not_mix::{answer, may_run, only_ok};
use crate::support::{context, engine, engine_with, exec, in_run, on, options, params, permit, watched};

#[tokio::test(start_paused = true)]
async fn tool_cannot_start_before_the_answer_was_judged() {
    let engine = engine();
    let done = Arc::new(AtomicU32::new(0));
    let judged = Arc::clone(&done);
    on(
        &engine,
        "slow",
        0,
        async_hook_fn::<AfterLlmCall, _, _>(move |_, _| {
            let judged = Arc::clone(&judged);
            async move {
                tokio::time::sleep(Duration::from_secs(5)).await;
                judged.store(1, Ordering::Relaxed);
                Ok(Some(AfterLlmCallOutcome {
                    tool_calls: Some(ToolCallIds::new(["ok"])),
                    ..Default::default()
                }))
            }
        }),
    );
    let context = in_run("s", "r");
    // Not polled yet, and already in force.
    let judging = engine.judge_answer(answer("r", &["ok", "no"]), &context);
    let tool = |call: &'static str| {
        let (engine, done) = (engine.clone(), Arc::clone(&done));
        tokio::spawn(
            async move { (may_run(&engine, "s", "r", Some(call)).await, done.load(Ordering::Relaxed)) },
        )
    };
    let (allowed, denied) = (tool("ok"), tool("no"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!allowed.is_finished() && !denied.is_finished());
    judging.await;
    assert_eq!(allowed.await.unwrap(), (true, 1));
    assert_eq!(denied.await.unwrap(), (false, 1));
}

#[tokio::test(start_paused = true)]
async fn a_judgement_that_is_dropped_denies_what_waits_for_it() {
    let engine = engine();
    let context = in_run("s", "r");
    let judging = engine.judge_answer(answer("r", &["a"]), &context);
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { may_run(&engine, "s", "r", Some("a")).await }
    });
    tokio::time::sleep(Duration::from_millis(1)).await;
    drop(judging);
    assert!(!waiting.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_in_vain_is_denied() {
    let engine = engine();
    let context = in_run("s", "r");
    let _judging = engine.judge_answer(answer("r", &["a"]), &context);
    assert!(!may_run(&engine, "s", "r", Some("a")).await);
}

#[tokio::test]
async fn a_host_without_tools_takes_the_calls_of_answers_through_their_gates() {
    let engine = engine();
    on(
        &engine,
        "gate",
        0,
        hook_fn::<BeforeToolCall, _>(|event, _| {
            Ok(match event.tool_call_id.as_ref().map(ToolCallId::as_str) {
                Some("blocked") => Some(ToolCallOutcome::block("not here")),
                Some("asked") => Some(ToolCallOutcome::ask(ApprovalRequest::cut("a question", ""))),
                Some("rewritten") => Some(ToolCallOutcome {
                    params: Some(params(json!({ "command": "something else" }))),
                    ..Default::default()
                }),
                _ => None,
            })
        }),
    );
    let ids = ["fine", "blocked", "asked", "rewritten"];
    let denied = async |run: &str, unasked: Unasked| -> Vec<bool> {
        let context = in_run("s", run);
        let judged = engine.judge_answer_and_calls(answer(run, &ids), &context, unasked).await;
        judged.rulings.iter().map(|ruling| *ruling != ToolDecision::Allow).collect()
    };
    assert_eq!(denied("r1", Unasked::Deny).await, [false, true, true, true]);
    assert_eq!(denied("r2", Unasked::Leave).await, [false, true, false, true]);
    // Whoever stands in front of the tools is bound by it, and only by what was denied.
    assert!(!may_run(&engine, "s", "r1", Some("blocked")).await);
    assert!(may_run(&engine, "s", "r1", Some("fine")).await);
    let context = in_run("s", "r3");
    let judged = engine.judge_answer(answer("r3", &ids), &context).await;
    assert!(judged.rulings.iter().all(|ruling| *ruling == ToolDecision::Allow));
}

#[tokio::test]
async fn decision_of_one_run_never_reaches_another() {
    let engine = engine();
    only_ok(&engine);
    engine.judge_answer(answer("r1", &["no"]), &in_run("s", "r1")).await;
    assert!(!may_run(&engine, "s", "r1", Some("no")).await);
    assert!(may_run(&engine, "s", "r2", Some("no")).await);
    assert!(may_run(&engine, "t", "r1", Some("no")).await);
}

#[tokio::test]
async fn a_gate_that_throws_blocks() {
    crate::model::quiet();
    let engine = engine();
    on(&engine, "llm", 0, hook_fn::<BeforeLlmCall, _>(|_, _| panic!("on purpose")));
    on(&engine, "answer", 0, hook_fn::<AfterLlmCall, _>(|_, _| Err(HookError::failed("no"))));
    on(&engine, "emit", 0, hook_fn::<BeforeResponseEmit, _>(|_, _| panic!("on purpose")));
    assert!(engine.decide::<BeforeLlmCall>(llm_call("x"), &context()).await.permit().is_err());
    let judged = engine.judge_answer(answer("r", &["a"]), &in_run("s", "r")).await;
    assert!(judged.decided.blocked().is_some());
    assert!(matches!(judged.rulings[..], [ToolDecision::Deny { .. }]));
    assert!(!may_run(&engine, "s", "r", Some("a")).await);
    assert!(engine.decide::<BeforeResponseEmit>(emit(&["x"]), &context()).await.permit().is_err());
}

#[tokio::test]
async fn sub_calls_do_not_clear_the_gate() {
    let engine = engine();
    only_ok(&engine);
    let context = in_run("s", "r");
    engine.judge_answer(answer("r", &["ok-1", "no-1"]), &context).await;
    // A summary, a retry, a sub-call: other answers of the same run.
    engine.judge_answer(answer("r", &[]), &context).await;
    engine.judge_answer(answer("r", &["ok-2"]), &context).await;
    assert!(may_run(&engine, "s", "r", Some("ok-1")).await);
    assert!(may_run(&engine, "s", "r", Some("ok-2")).await);
    assert!(!may_run(&engine, "s", "r", Some("no-1")).await);
}

#[tokio::test(start_paused = true)]
async fn a_sub_call_that_is_done_does_not_let_calls_of_a_pending_answer_go() {
    let engine = engine();
    only_ok(&engine);
    let context = in_run("s", "r");
    let pending = engine.judge_answer(answer("r", &["no-1"]), &context);
    engine.judge_answer(answer("r", &["ok-1"]), &context).await;
    let call = tokio::spawn({
        let engine = engine.clone();
        async move { may_run(&engine, "s", "r", Some("no-1")).await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(!call.is_finished());
    pending.await;
    assert!(!call.await.unwrap());
}

#[tokio::test]
async fn calls_without_or_with_double_ids_are_denied_under_an_allow_list() {
    let engine = engine();
    only_ok(&engine);
    let context = in_run("s", "r");
    let judged = engine.judge_answer(answer("r", &["ok-1", "", "ok-2", "ok-2"]), &context).await;
    let allowed: Vec<_> = judged.rulings.iter().map(|ruling| *ruling == ToolDecision::Allow).collect();
    assert_eq!(allowed, [true, false, false, false]);
    assert_eq!(judged.decided.event().tool_calls.len(), 1);
    assert!(may_run(&engine, "s", "r", Some("ok-1")).await);
    for call in [None, Some(""), Some("ok-2"), Some("never-asked-for")] {
        assert!(!may_run(&engine, "s", "r", call).await, "{call:?}");
    }
}

#[tokio::test]
async fn without_an_allow_list_only_broken_calls_are_denied() {
    let engine = engine();
    let mut event = answer("r", &["a", "", "b"]);
    event.tool_calls[2].malformed = Some("{".into());
    let rulings = ungated_rulings(&event.tool_calls);
    let judged = engine.judge_answer(event, &in_run("s", "r")).await;
    assert_eq!(judged.rulings, rulings);
    let allowed: Vec<_> = rulings.iter().map(|ruling| *ruling == ToolDecision::Allow).collect();
    assert_eq!(allowed, [true, true, false]);
    assert!(may_run(&engine, "s", "r", None).await);
}

#[tokio::test]
async fn decisions_travel_between_processes_through_the_store() {
    let store: Arc<dyn backstop_store::Store> = Arc::new(backstop_store::SqliteStore::in_memory());
    let proxy = Engine::builder().store(Arc::clone(&store)).build();
    let adapter = Engine::builder().store(store).shared_decisions(true).build();
    only_ok(&proxy);
    proxy.judge_answer(answer("r", &["ok", "no"]), &in_run("s", "r")).await;
    assert!(may_run(&adapter, "s", "r", Some("ok")).await);
    assert!(!may_run(&adapter, "s", "r", Some("no")).await);
}

#[tokio::test]
async fn a_denial_reaches_who_knows_the_call_and_not_its_run() {
    let store: Arc<dyn backstop_store::Store> = Arc::new(backstop_store::SqliteStore::in_memory());
    let proxy = Engine::builder().store(Arc::clone(&store)).build();
    let adapter = Engine::builder().store(store).shared_decisions(true).build();
    only_ok(&proxy);
    proxy.judge_answer(answer("r", &["ok-0123456789", "no-0123456789", "no"]), &in_run("s", "r")).await;
    proxy.forget_run(Some(&"s".into()), &"r".into());
    assert!(may_run(&adapter, "other", "x", Some("ok-0123456789")).await);
    assert!(!may_run(&adapter, "other", "x", Some("no-0123456789")).await);
    assert!(may_run(&adapter, "other", "x", Some("no")).await, "a short id is no name outside of its run");
    assert!(!may_run(&adapter, "s", "r", Some("no")).await);
}

#[tokio::test]
async fn hooks_registered_before_start_survive_start() {
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    let blocks = || hook_fn::<BeforeToolCall, _>(|_, _| Ok(Some(ToolCallOutcome::block("no"))));
    snapshot.on::<BeforeToolCall>(blocks(), options("early", 0)).unwrap();
    let engine = Engine::builder().snapshot(snapshot).build();
    assert!(engine.has_hooks::<BeforeToolCall>());
    assert!(permit(&engine, exec("ls")).await.permit.is_err());
}

#[tokio::test]
async fn hooks_survive_reload_once_each() {
    let engine = engine();
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    on(
        &engine,
        "program",
        0,
        hook_fn::<BeforeToolCall, _>(move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(None)
        }),
    );
    engine.interceptors().add::<ToolBefore>("interceptor", Default::default(), |_, _| Ok(())).unwrap();
    let configured = |ids: &[&str]| {
        let mut next = Snapshot::empty(OperatorSettings::default());
        for id in ids {
            let hook = hook_fn::<BeforeToolCall, _>(|_, _| Ok(None));
            next.on::<BeforeToolCall>(hook, options(id, 0).configured()).unwrap();
        }
        next
    };
    let ids = |engine: &Engine| {
        let mut ids: Vec<_> = engine.registry().list().iter().map(|meta| meta.id.to_string()).collect();
        ids.sort();
        ids
    };
    for _ in 0..3 {
        engine.registry().reload(configured(&["a", "b"])).unwrap();
        assert_eq!(ids(&engine), ["a", "b", "interceptor", "program"]);
    }
    permit(&engine, exec("ls")).await.permit.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    // What the configuration no longer names is gone, and an id that it now uses is the configuration's.
    engine.registry().reload(configured(&["b", "program"])).unwrap();
    assert_eq!(ids(&engine), ["b", "interceptor", "program"]);
    permit(&engine, exec("ls")).await.permit.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_reload_that_a_hook_can_not_follow_changes_nothing() {
    let plugin = OwnerId::new("plugin");
    let with = |settings: OwnerSettings| {
        Snapshot::empty(OperatorSettings {
            owners: [(plugin.clone(), settings)].into(),
            ..Default::default()
        })
    };
    let access = |allowed| OwnerSettings { allow_conversation_access: Some(allowed), ..Default::default() };
    let engine = Engine::builder().snapshot(with(access(true))).build();
    let hook = hook_fn::<BeforeLlmCall, _>(|_, _| Ok(None));
    engine.registry().on(hook, HookOptions::new(plugin.clone()).id("p")).unwrap();
    assert!(engine.registry().reload(with(access(false))).is_err());
    assert_eq!(engine.registry().list().len(), 1);
    let off = OwnerSettings { enabled: Some(false), ..Default::default() };
    engine.registry().reload(with(off)).unwrap();
    assert!(engine.registry().list().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_reload_does_not_touch_the_call_that_is_being_judged() {
    let engine = engine();
    on(
        &engine,
        "slow",
        1,
        async_hook_fn::<BeforeToolCall, _, _>(|_, _| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(None)
        }),
    );
    on(&engine, "gate", 0, hook_fn::<BeforeToolCall, _>(|_, _| Ok(Some(ToolCallOutcome::block("no")))));
    let call = tokio::spawn({
        let engine = engine.clone();
        async move { permit(&engine, exec("ls")).await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    engine.registry().replace(Snapshot::empty(OperatorSettings::default()));
    assert!(call.await.unwrap().permit.is_err());
    assert!(permit(&engine, exec("ls")).await.permit.is_ok());
}

#[tokio::test]
async fn aborted_run_releases_its_approvals() {
    for session in [Some("s"), None] {
        let engine = engine();
        let told = Arc::new(Mutex::new(Vec::new()));
        let listener = Arc::clone(&told);
        on(
            &engine,
            "asks",
            0,
            hook_fn::<BeforeToolCall, _>(move |_, _| {
                let told = Arc::clone(&listener);
                Ok(Some(ToolCallOutcome::ask(ApprovalRequest::cut("sure?", "").on_resolution(
                    move |resolution| {
                        told.lock().unwrap().push(resolution);
                        async { None }
                    },
                ))))
            }),
        );
        let mut context = in_run("s", "run-1");
        context.session_id = session.map(Into::into);
        let waiting = tokio::spawn({
            let engine = engine.clone();
            async move { engine.permit_tool_call(exec("ls"), &context, &Attendance::Queue).await }
        });
        while engine.store().approvals(ApprovalFilter::Pending, 9).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        engine.end_run(session.map(Into::into).as_ref(), &"run-1".into()).await.unwrap();
        let verdict = tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap();
        assert!(verdict.permit.is_err());
        assert_eq!(*told.lock().unwrap(), [Resolution::Cancelled]);
        let rows = engine.store().approvals(ApprovalFilter::All, 9).await.unwrap();
        assert_eq!(rows[0].state.status(), ApprovalStatus::Cancelled);
    }
}

#[tokio::test]
async fn hook_cannot_impersonate_another_owner() {
    let engine = engine_with(OperatorSettings::default());
    let request: ApprovalRequest =
        serde_json::from_value(json!({"title": "t", "description": "d", "pluginId": "bank"})).unwrap();
    engine
        .registry()
        .on(
            hook_fn::<BeforeToolCall, _>(move |_, _| Ok(Some(ToolCallOutcome::ask(request.clone())))),
            HookOptions::new(OwnerId::new("evil")).id("evil:1"),
        )
        .unwrap();
    permit(&engine, exec("ls")).await.permit.unwrap_err();
    let row = engine.store().approvals(ApprovalFilter::All, 1).await.unwrap().remove(0);
    assert_eq!(row.request.reasons[0].owner, OwnerId::new("evil"));
    assert_eq!(row.request.reasons[0].hook.as_str(), "evil:1");
}

#[tokio::test]
async fn each_owner_sees_only_its_own_configuration() {
    let owners = ["a", "b"].map(|name| {
        (OwnerId::new(name), OwnerSettings { config: json!({ "i am": name }).into(), ..Default::default() })
    });
    let engine = engine_with(OperatorSettings { owners: owners.into(), ..Default::default() });
    let seen = Arc::new(Mutex::new(Vec::new()));
    for owner in ["a", "b", "c"] {
        let seen = Arc::clone(&seen);
        let hook = hook_fn::<BeforeToolCall, _>(move |_, cx| {
            seen.lock().unwrap().push(cx.plugin_config.to_value());
            Ok(None)
        });
        engine.registry().on(hook, HookOptions::new(OwnerId::new(owner))).unwrap();
    }
    permit(&engine, exec("ls")).await.permit.unwrap();
    assert_eq!(*seen.lock().unwrap(), [json!({"i am": "a"}), json!({"i am": "b"}), json!(null)]);
}

#[tokio::test]
async fn rewrite_to_same_text_is_no_change() {
    let (engine, kept) = watched();
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    on(
        &engine,
        "gate",
        9,
        hook_fn::<BeforeToolCall, _>(move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(None)
        }),
    );
    on(
        &engine,
        "same",
        0,
        hook_fn::<BeforeToolCall, _>(|_, _| {
            Ok(Some(ToolCallOutcome::rewrite(params(json!({ "command": "ls" })))))
        }),
    );
    on(
        &engine,
        "same text",
        0,
        hook_fn::<BeforeResponseEmit, _>(|event, _| {
            Ok(Some(ResponseEmitOutcome { content: Some(event.content.clone()), ..Default::default() }))
        }),
    );
    let verdict = permit(&engine, exec("ls")).await;
    assert_eq!(verdict.receipt.verdict, Verdict::Pass);
    assert_eq!(asked.load(Ordering::Relaxed), 1, "nothing to judge again");
    let decided = engine.decide::<BeforeResponseEmit>(emit(&["a"]), &context()).await.into_parts();
    assert_eq!(decided.receipt.verdict, Verdict::Pass);
    for receipt in kept.take() {
        assert_eq!(receipt.original, receipt.judged);
    }
}

fn emit(texts: &[&str]) -> ResponseEmitEvent {
    ResponseEmitEvent {
        run_id: None,
        content: texts.last().copied().unwrap_or_default().into(),
        all_content: texts.iter().map(|text| (*text).into()).collect(),
        channel: None,
        message_count: 1,
    }
}

#[tokio::test]
async fn late_hooks_cannot_undo_redaction_through_the_other_field() {
    for redactor_uses_all in [true, false] {
        let engine = engine();
        on(
            &engine,
            "redactor",
            9,
            hook_fn::<BeforeResponseEmit, _>(move |event, _| {
                let redacted = |text: &backstop_hooks::Text| text.replace("secret", "***").into();
                Ok(Some(if redactor_uses_all {
                    let all = event.all_content.iter().map(redacted).collect();
                    ResponseEmitOutcome { all_content: Some(all), ..Default::default() }
                } else {
                    ResponseEmitOutcome { content: Some(redacted(&event.content)), ..Default::default() }
                }))
            }),
        );
        on(
            &engine,
            "utility",
            0,
            hook_fn::<BeforeResponseEmit, _>(move |_, _| {
                Ok(Some(if redactor_uses_all {
                    ResponseEmitOutcome { content: Some("my secret".into()), ..Default::default() }
                } else {
                    ResponseEmitOutcome { all_content: Some(vec!["my secret".into()]), ..Default::default() }
                }))
            }),
        );
        let decided =
            engine.decide::<BeforeResponseEmit>(emit(&["my secret"]), &context()).await.into_parts();
        let blocked = decided.blocked.unwrap();
        assert_eq!(blocked.cause, BlockCause::UnstableRewrite { writer: Some("utility".into()) });
        assert_eq!(blocked.hook, Some("redactor".into()));
    }
}

#[tokio::test]
async fn all_content_cannot_grow_the_answer() {
    let engine = engine();
    on(
        &engine,
        "grows",
        0,
        hook_fn::<BeforeResponseEmit, _>(|_, _| {
            let all_content = Some(vec!["a".into(), "b".into(), "c".into(), "d".into()]);
            Ok(Some(ResponseEmitOutcome { all_content, ..Default::default() }))
        }),
    );
    let decided = engine.decide::<BeforeResponseEmit>(emit(&["1", "2"]), &context()).await.into_parts();
    assert_eq!(decided.blocked.unwrap().cause, BlockCause::Failure { kind: FailureKind::Malformed });
    assert_eq!(decided.event.all_content, ["1", "2"]);
}

#[test]
fn prompt_injection_switch_covers_before_llm_call() {
    let plugin = OwnerId::new("plugin");
    let settings = OwnerSettings {
        allow_conversation_access: Some(true),
        allow_prompt_injection: Some(false),
        ..Default::default()
    };
    let owners = [(plugin.clone(), settings)].into();
    let engine = engine_with(OperatorSettings { owners, ..Default::default() });
    macro_rules! refused {
        ($($point:ident)*) => {$(
            let hook = hook_fn::<$point, _>(|_, _| Ok(None));
            let error = engine.registry().on(hook, HookOptions::new(plugin.clone())).unwrap_err();
            assert!(matches!(error, RegisterError::PromptInjection { .. }), "{error}");
        )*};
    }
    refused!(BeforeLlmCall MessageBefore AgentTurnPrepare BeforePromptBuild BeforeAgentStart HeartbeatPromptContribution);
    let watcher = hook_fn::<AfterLlmCall, _>(|_, _| Ok(None));
    assert!(engine.registry().on(watcher, HookOptions::new(plugin)).is_ok());
}

#[tokio::test]
async fn empty_string_and_empty_list_are_answers() {
    let engine = engine();
    on(
        &engine,
        "empties",
        0,
        hook_fn::<BeforeLlmCall, _>(|_, _| {
            Ok(Some(BeforeLlmCallOutcome {
                messages: Some(vec![]),
                system_prompt: Some("".into()),
                tools: Some(ToolNames(vec![])),
                ..Default::default()
            }))
        }),
    );
    on(
        &engine,
        "none",
        0,
        hook_fn::<AfterLlmCall, _>(|_, _| {
            let tool_calls = Some(ToolCallIds::new(Vec::<ToolCallId>::new()));
            Ok(Some(AfterLlmCallOutcome { tool_calls, ..Default::default() }))
        }),
    );
    on(
        &engine,
        "silence",
        0,
        hook_fn::<BeforeResponseEmit, _>(|_, _| {
            Ok(Some(ResponseEmitOutcome { content: Some("".into()), ..Default::default() }))
        }),
    );
    let mut event = llm_call("x");
    event.system_prompt = "be good".into();
    event.tools = vec![ToolInfo::named("exec")];
    let decided = engine.decide::<BeforeLlmCall>(event, &context()).await.into_parts();
    assert!(decided.event.messages.is_empty() && decided.event.system_prompt.is_empty());
    assert!(decided.event.tools.is_empty());
    assert_eq!(decided.receipt.verdict, Verdict::Modify);
    let judged = engine.judge_answer(answer("r", &["a"]), &in_run("s", "r")).await;
    assert!(matches!(judged.rulings[..], [ToolDecision::Deny { .. }]));
    let emitted = engine.decide::<BeforeResponseEmit>(emit(&["x"]), &context()).await.into_parts();
    assert_eq!(emitted.event.content, "");
}
