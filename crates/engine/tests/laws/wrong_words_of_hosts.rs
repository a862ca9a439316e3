//! As `wrong_words`, for what surrounds a dispatch: what the registry admits and hands on, what a store keeps, and what
//! nobody reads.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_engine::{
    BlockCause, Engine, FailureKind, HookOptions, Hosts, OperatorSettings, OwnerSettings, Rewrite, Said,
    Snapshot, ToolMatcher, Unasked, Verdict,
};
use backstop_hooks::points::{
    AfterLlmCall, AfterLlmCallOutcome, AfterToolCall, BeforeAgentReply, BeforeLlmCall, BeforeToolCall,
    ToolBefore, ToolCallIds, ToolCallOutcome, TrustedToolPolicy,
};
use backstop_hooks::{
    ApprovalRequest, CallContext, Decision, HostProfile, Json, OwnerId, ToolCallId, async_hook_fn, hook_fn,
};
use backstop_store::{SqliteStore, Store, Timestamp, ToolDecision};
use serde_json::json;
use tempfile::TempDir;

use crate::law_07_no_silent_gap::sample;
use crate::law_11_runs_do_not_mix::answer;
use crate::support::{
    block_on, command, context, engine, engine_with, exec, in_run, on, options, params, permit, watched,
};

#[test]
fn a_host_learns_of_any_gate_in_front_of_tool_calls() {
    assert!(!engine().has_tool_gates());
    let gates: [fn(&Engine); 3] = [
        |engine| drop(on(engine, "policy", 0, hook_fn::<TrustedToolPolicy, _>(|_, _| Ok(None)))),
        |engine| drop(on(engine, "interceptor", 0, hook_fn::<ToolBefore, _>(|_, _| Ok(None)))),
        |engine| drop(on(engine, "hook", 0, hook_fn::<BeforeToolCall, _>(|_, _| Ok(None)))),
    ];
    for gate in gates {
        let engine = engine();
        gate(&engine);
        assert!(engine.has_tool_gates());
    }
}

/// An engine whose store can keep nothing: a folder stands where its database should be.
fn without_a_store(folder: &TempDir) -> Engine {
    Engine::builder().store(Arc::new(SqliteStore::new(folder.path()))).build()
}

/// What is denied here must not run in another process; what is allowed may.
#[tokio::test]
async fn an_answer_whose_decisions_can_not_be_stored_is_stopped_if_there_is_a_denial_among_them() {
    let folder = TempDir::new().unwrap();
    for (keeps, stopped) in [(&["a", "b"][..], false), (&["a"][..], true)] {
        let engine = without_a_store(&folder);
        let hook = hook_fn::<AfterLlmCall, _>(move |_, _| {
            let kept = ToolCallIds::new(keeps.iter().copied());
            Ok(Some(AfterLlmCallOutcome { tool_calls: Some(kept), ..Default::default() }))
        });
        on(&engine, "keeps", 0, hook);
        let judged = engine.judge_answer(answer("r", &["a", "b"]), &in_run("s", "r")).await;
        let cause = judged.decided.blocked().map(|blocked| blocked.cause.clone());
        let unreachable = BlockCause::Failure { kind: FailureKind::Unreachable };
        assert_eq!(cause, stopped.then_some(unreachable), "{keeps:?}");
        let denied = judged.rulings.iter().filter(|ruling| **ruling != ToolDecision::Allow).count();
        assert_eq!(denied, if stopped { 2 } else { 0 });
    }
    let engine = without_a_store(&folder);
    let hook = hook_fn::<AfterLlmCall, _>(|_, _| {
        Ok(Some(serde_json::from_value(json!({ "block": true, "blockReason": "no" })).unwrap()))
    });
    on(&engine, "blocks", 0, hook);
    let judged = engine.judge_answer(answer("r", &["a"]), &in_run("s", "r")).await;
    assert_eq!(
        judged.decided.blocked().unwrap().cause,
        BlockCause::Decision,
        "a block stays the block it was"
    );
}

/// Also where no hook stands at the answer, so that nothing was known of it before.
#[tokio::test]
async fn an_answer_that_is_stopped_after_all_says_whose_it_was() {
    let folder = TempDir::new().unwrap();
    let engine = without_a_store(&folder);
    on(&engine, "stops", 0, hook_fn::<BeforeToolCall, _>(|_, _| Ok(Some(ToolCallOutcome::block("no")))));
    let judged = engine.judge_answer_and_calls(answer("r", &["a"]), &in_run("s", "r"), Unasked::Deny).await;
    let receipt = judged.decided.receipt();
    assert_eq!(
        receipt.blocked.as_ref().unwrap().cause,
        BlockCause::Failure { kind: FailureKind::Unreachable }
    );
    assert_eq!((receipt.key.session_id.as_ref(), receipt.at > 0), (Some(&"s".into()), true));
}

/// Ids that are long enough to be nobody else's are looked up without their run.
#[tokio::test]
async fn a_gate_that_does_not_know_the_run_finds_calls_by_ids_of_twelve_characters() {
    for (id, is_found) in [("0123456789a", false), ("0123456789ab", true)] {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
        let denied = vec![(ToolCallId::new(id), ToolDecision::Deny { reason: "no".into() })];
        store.put_decisions(&"s".into(), &"r".into(), denied, Timestamp::now()).await.unwrap();
        let engine = Engine::builder().store(store).shared_decisions(true).build();
        let mut event = exec("ls").tool_call_id(ToolCallId::new(id));
        event.run_id = None;
        let nobody = backstop_engine::Attendance::Nobody;
        let verdict = engine.permit_tool_call(event, &CallContext::default(), &nobody).await;
        assert_eq!(verdict.permit.is_err(), is_found, "{id}");
    }
}

#[tokio::test]
async fn where_nobody_reads_receipts_none_is_put_together() {
    let engine = engine();
    let claimed = engine.claim::<BeforeAgentReply>(&sample::<BeforeAgentReply>(), &context()).await;
    let observed = engine.observe::<AfterToolCall>(&sample::<AfterToolCall>(), &context()).await;
    let decided = engine.decide::<BeforeLlmCall>(sample::<BeforeLlmCall>(), &context()).await;
    for receipt in [&claimed.receipt, &observed, decided.receipt()] {
        assert_eq!((receipt.at, receipt.judged), (0, None));
    }
    on(&engine, "judges", 0, hook_fn::<BeforeToolCall, _>(|_, _| Ok(None)));
    assert_eq!(permit(&engine, exec("ls")).await.receipt.judged, None);
}

#[test]
fn a_name_that_looks_like_a_typo_is_told_of_the_hook_that_has_it() {
    let engine = engine();
    let hook = || hook_fn::<BeforeToolCall, _>(|_, _| Ok(None));
    let matcher = |name| ToolMatcher::names([name]).unwrap();
    engine.registry().on(hook(), options("typo", 0).tools(matcher("exce"))).unwrap();
    engine.registry().on(hook(), options("none", 0).tools(matcher("exec"))).unwrap();
    let hints: Vec<_> = engine.registry().list().iter().map(|meta| meta.hints.len()).collect();
    assert_eq!(hints, [1, 0]);
}

#[test]
fn a_snapshot_says_for_which_hosts_and_under_which_settings_it_admits() {
    let mut settings = OperatorSettings::default();
    settings.owners.insert(OwnerId::operator(), OwnerSettings { enabled: Some(true), ..Default::default() });
    let snapshot = Snapshot::empty(settings).hosted_by(Hosts::new([HostProfile::new("ours", "our program")]));
    let names: Vec<_> = snapshot.hosts().here().iter().map(HostProfile::name).collect();
    assert_eq!(names, ["ours"]);
    assert_eq!(snapshot.settings().owner(&OwnerId::operator()).unwrap().enabled, Some(true));
}

#[test]
fn a_hook_without_an_id_of_its_own_keeps_the_id_that_it_was_given() {
    let engine = engine();
    let hook = hook_fn::<BeforeToolCall, _>(|_, _| Ok(None));
    let id = engine.registry().on(hook, HookOptions::new(OwnerId::operator())).unwrap();
    engine.registry().reload(Snapshot::empty(OperatorSettings::default())).unwrap();
    let ids: Vec<_> = engine.registry().list().iter().map(|meta| meta.id.clone()).collect();
    assert_eq!(ids, [id]);
}

#[test]
fn all_hooks_of_an_owner_go_and_no_others() {
    let engine = engine();
    for (owner, id) in [("one", "a"), ("two", "b"), ("one", "c")] {
        let hook = hook_fn::<BeforeToolCall, _>(|_, _| Ok(None));
        engine.registry().on(hook, HookOptions::new(OwnerId::new(owner)).id(id)).unwrap();
    }
    let remove = |owner: &str| {
        let owner = OwnerId::new(owner);
        engine.registry().update(|next| Ok::<_, std::convert::Infallible>(next.remove_owner(&owner))).unwrap()
    };
    assert!(!remove("three") && remove("one") && !remove("one"));
    let ids: Vec<_> = engine.registry().list().iter().map(|meta| meta.id.clone()).collect();
    assert_eq!(ids, ["b".into()]);
}

#[test]
fn tools_that_programs_made_known_stay_known_over_a_reload() {
    let engine = engine();
    let added: Result<(), std::convert::Infallible> = engine.registry().update(|snapshot| {
        snapshot.add_tools(["special_tool"]);
        Ok(())
    });
    added.unwrap();
    engine.registry().reload(Snapshot::empty(OperatorSettings::default())).unwrap();
    let snapshot = engine.registry().snapshot();
    assert!(snapshot.tools().iter().any(|tool| tool.called() == "special_tool"));
}

#[tokio::test]
async fn a_hook_is_given_its_own_configuration_and_otherwise_its_owners() {
    let mut settings = OperatorSettings::default();
    let ours = OwnerSettings { config: Json::new(json!("the owner's")), ..OwnerSettings::default() };
    settings.owners.insert(OwnerId::operator(), ours);
    let engine = engine_with(settings);
    let seen = Arc::new(Mutex::new(Vec::new()));
    for config in [None, Some(Json::new(json!("its own")))] {
        let log = Arc::clone(&seen);
        let hook = hook_fn::<BeforeToolCall, _>(move |_, cx| {
            log.lock().unwrap().push(cx.plugin_config.to_value());
            Ok(None)
        });
        let id = if config.is_some() { "with" } else { "without" };
        engine.registry().on(hook, HookOptions { config, ..options(id, 0) }).unwrap();
    }
    permit(&engine, exec("ls")).await.permit.unwrap();
    assert_eq!(*seen.lock().unwrap(), [json!("the owner's"), json!("its own")]);
}

/// A hook that only would like another value than a proposed one has not forbidden it to those who need it.
#[tokio::test]
async fn what_a_convenience_objected_to_may_be_written_by_a_hook_that_must() {
    let engine = engine();
    let writes = |from: &'static str, to: &'static str| {
        hook_fn::<BeforeToolCall, _>(move |event, _| {
            let rewrite = || ToolCallOutcome::rewrite(params(json!({ "command": to })));
            Ok((command(event) == from).then(rewrite))
        })
    };
    let optional = |id, priority| options(id, priority).rewrite(Rewrite::Optional);
    engine.registry().on(writes("x", "y"), optional("objects", 3)).unwrap();
    engine.registry().on(writes("start", "x"), optional("proposes", 2)).unwrap();
    engine.registry().on(writes("start", "x"), options("must", 1)).unwrap();
    let verdict = permit(&engine, exec("start")).await;
    assert_eq!(command(&verdict.permit.unwrap()), "x");
    let yielded = |id: &str| {
        let mut steps = verdict.receipt.steps.iter().filter(|step| step.hook.id.as_str() == id);
        steps.find_map(|step| step.yielded_to.clone())
    };
    assert_eq!((yielded("proposes"), yielded("objects")), (Some("objects".into()), Some("must".into())));
}

#[test]
fn receipts_of_what_is_watched_or_claimed_say_about_which_tool_and_how_long_it_took() {
    let (engine, kept) = watched();
    let wait = || tokio::time::sleep(Duration::from_millis(5));
    let watches = async_hook_fn::<AfterToolCall, _, _>(move |_, _| async move {
        wait().await;
        Ok(None)
    });
    on(&engine, "watches", 0, watches);
    let claims = async_hook_fn::<BeforeAgentReply, _, _>(move |_, _| async move {
        wait().await;
        Ok(None)
    });
    on(&engine, "claims", 0, claims);
    block_on(engine.observe::<AfterToolCall>(&sample::<AfterToolCall>(), &context()));
    block_on(engine.claim::<BeforeAgentReply>(&sample::<BeforeAgentReply>(), &context()));
    let receipts = kept.take();
    assert_eq!(receipts[0].key.tool, Some(sample::<AfterToolCall>().tool_name));
    for receipt in &receipts {
        assert!(receipt.steps[0].elapsed >= Duration::from_millis(5), "{receipt:?}");
    }
}

/// The step of a hook that was shown a proposal says what it made of that.
#[test]
fn what_a_hook_objects_to_in_a_proposal_is_said_in_its_step() {
    let answers: [(fn() -> ToolCallOutcome, Said); 3] = [
        (|| ToolCallOutcome::block("no"), Said::Blocked),
        (|| ToolCallOutcome::ask(ApprovalRequest::cut("sure?", "")), Said::Asked),
        (|| ToolCallOutcome::rewrite(params(json!({ "command": "z" }))), Said::Rewrote),
    ];
    for (answer, said) in answers {
        let (engine, kept) = watched();
        let objects = hook_fn::<BeforeToolCall, _>(move |event, _| Ok((command(event) == "y").then(answer)));
        on(&engine, "objects", 1, objects);
        let proposes = hook_fn::<BeforeToolCall, _>(|event, _| {
            let rewrite = || ToolCallOutcome::rewrite(params(json!({ "command": "y" })));
            Ok((command(event) == "x").then(rewrite))
        });
        engine.registry().on(proposes, options("proposes", 0).rewrite(Rewrite::Optional)).unwrap();
        assert_eq!(command(&block_on(permit(&engine, exec("x"))).permit.unwrap()), "x");
        let receipts = kept.take();
        let heard = receipts[0].steps.iter().find(|step| step.proposal_of.is_some()).unwrap();
        assert_eq!((heard.said, heard.hook.id.as_str()), (said, "objects"));
    }
}

/// A human who allows, and while whose answer is awaited other hooks come.
struct Meanwhile<F>(F);

impl<F: Fn() + Send + Sync + 'static> backstop_engine::Asker for Meanwhile<F> {
    fn ask<'a>(&'a self, _: &'a backstop_store::ApprovalRecord) -> backstop_engine::AskFuture<'a> {
        (self.0)();
        Box::pin(std::future::ready(Some(Decision::AllowOnce)))
    }

    fn name(&self) -> &str {
        "meanwhile"
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_while_hooks_that_came_later_judge_it_tells_what_they_had_said() {
    let (engine, kept) = watched();
    let ask = hook_fn::<BeforeToolCall, _>(|_, _| {
        Ok(Some(ToolCallOutcome::ask(ApprovalRequest::cut("sure?", ""))))
    });
    on(&engine, "asks", 0, ask);
    let registry = engine.clone();
    let human = Meanwhile(move || {
        on(&registry, "answers", 2, hook_fn::<BeforeToolCall, _>(|_, _| Ok(None)));
        on(&registry, "hangs", 1, async_hook_fn::<BeforeToolCall, _, _>(|_, _| std::future::pending()));
    });
    let attendance = backstop_engine::Attendance::Present(Arc::new(human));
    let call = context();
    let permit = engine.permit_tool_call(exec("ls"), &call, &attendance);
    tokio::time::timeout(Duration::from_secs(1), permit).await.unwrap_err();
    let receipts = kept.take();
    let ids: Vec<_> = receipts[0].steps.iter().map(|step| step.hook.id.as_str()).collect();
    assert_eq!((receipts[0].verdict, ids), (Verdict::Dropped, vec!["asks", "answers"]));
}
