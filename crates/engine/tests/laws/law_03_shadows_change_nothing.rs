//! A hook in shadow changes nothing, whatever it answers and however it fails, and the receipt says what it would have done.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backstop_engine::{
    Attendance, HookMode, HookOptions, OperatorSettings, OwnerSettings, RegisterError, ResponseGate, Said,
    Snapshot, Verdict, Would,
};
use backstop_hooks::points::{
    AfterToolCall, AgentReplyEvent, AgentReplyOutcome, BeforeAgentReply, BeforeLlmCall, BeforeResponseEmit,
    BeforeToolCall, ResponseEmitEvent, ResponseEmitOutcome, ToolBefore, ToolCallOutcome, TrustedToolPolicy,
};
use backstop_hooks::{
    ApprovalRequest, CallContext, DecidePoint, Fact, FailurePolicy, Ground, Hook, HookError, HookResult,
    OwnerId, PointId, Reason, async_hook_fn, hook_fn,
};
use proptest::prelude::*;
use serde_json::json;

use crate::model::{Behaviour, actual, actual_beside, any_behaviour, hooks, quiet};
use crate::support::{
    block_on, command, context, engine, exec, on, on_failing, options, params, permit, watched,
};

fn in_shadow(id: &str) -> HookOptions {
    options(id, 9).mode(HookMode::Shadow)
}

/// What a hook that judges `x` at first sight would do: the letter that it wants is not there.
fn at_first_sight(behaviour: Behaviour, value: &str, asks: bool) -> Option<Would> {
    match behaviour {
        Behaviour::Nothing | Behaviour::Pass => None,
        Behaviour::Append(_) => Some(Would::Modify),
        Behaviour::AddOnce(letter) => (!value.contains(letter)).then_some(Would::Modify),
        Behaviour::Block => Some(Would::Block),
        Behaviour::BlockIf(letter) => value.contains(letter).then_some(Would::Block),
        Behaviour::Ask => asks.then_some(Would::Ask),
        Behaviour::Fails(how, policy) => {
            let outage = matches!(how, crate::model::How::Unreachable | crate::model::How::Hangs);
            let blocks = match policy {
                FailurePolicy::Closed => true,
                FailurePolicy::Open => false,
                FailurePolicy::OpenIfUnreachable => !outage,
            };
            blocks.then_some(Would::Block)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn law_03_shadows_change_nothing(
        specs in hooks(any_behaviour()),
        shadows in hooks(any_behaviour()),
        places in prop::collection::vec(0_usize..9, 8),
    ) {
        quiet();
        let alone = actual(&specs);
        let placed: Vec<_> = places.iter().copied().zip(shadows.iter().copied()).collect();
        let (beside, would) = actual_beside(&specs, &placed);
        prop_assert_eq!(&beside, &alone, "{:?}", would);
        // Each judges the value as the others left it, and says what it would do to it. What was stopped is shown to none.
        let asked = if alone.verdict == Verdict::Block { &[][..] } else { &shadows[..] };
        let mut expected: Vec<_> = asked.iter().enumerate().map(|(number, spec)| {
            let asks = spec.stage != crate::model::Stage::Interceptor;
            (format!("shadow {number}"), at_first_sight(spec.behaviour, &alone.value, asks))
        }).collect();
        expected.sort();
        prop_assert_eq!(&would, &expected);
        // Where they stand makes no difference.
        let turned: Vec<_> = placed.iter().map(|(place, spec)| (place + 3, *spec)).collect();
        prop_assert_eq!(actual_beside(&specs, &turned), (beside, would));
    }
}

#[tokio::test]
async fn law_03_an_owner_in_shadow_changes_nothing_and_an_entry_makes_no_shadow_count() {
    let owner = OwnerId::new("plugin");
    let settings = |settings: OwnerSettings| OperatorSettings {
        owners: [(owner.clone(), settings)].into(),
        ..OperatorSettings::default()
    };
    let shadow = OwnerSettings { mode: HookMode::Shadow, ..OwnerSettings::default() };
    let at = |mode| OwnerSettings { modes: [(PointId::BeforeToolCall, mode)].into(), ..shadow.clone() };
    let enforced = OwnerSettings {
        modes: [(PointId::BeforeToolCall, HookMode::Shadow)].into(),
        ..OwnerSettings::default()
    };
    for (decided, own, blocks, injects) in [
        (OwnerSettings::default(), HookMode::Enforce, true, true),
        (OwnerSettings::default(), HookMode::Shadow, false, true),
        (shadow.clone(), HookMode::Enforce, false, false),
        (at(HookMode::Enforce), HookMode::Enforce, true, false),
        (at(HookMode::Enforce), HookMode::Shadow, false, false),
        (enforced, HookMode::Enforce, false, true),
    ] {
        let mut snapshot = Snapshot::empty(settings(decided));
        let options = || HookOptions::new(owner.clone()).mode(own);
        let block = hook_fn::<BeforeToolCall, _>(|_, _| Ok(Some(ToolCallOutcome::block("no"))));
        snapshot.on(block, options().id("gate")).unwrap();
        // What only watches goes on watching.
        let watch = hook_fn::<AfterToolCall, _>(|_, _| Ok(None));
        snapshot.on(watch, HookOptions::new(owner.clone()).id("watch")).unwrap();
        assert_eq!(snapshot.injecting_owners().contains(&owner), injects);
        let modes: Vec<_> =
            snapshot.iter().filter(|meta| meta.id.as_str() == "watch").map(|meta| meta.mode).collect();
        assert_eq!(modes, [HookMode::Enforce]);
        let engine = backstop_engine::Engine::builder().snapshot(snapshot).build();
        let verdict = permit(&engine, exec("ls")).await;
        assert_eq!(verdict.permit.is_err(), blocks);
    }
}

#[tokio::test]
async fn law_03_shadows_ask_nobody_and_name_their_rules() {
    let (engine, kept) = watched();
    let asks = hook_fn::<BeforeToolCall, _>(|_, _| {
        let ground = Ground { rule: "pay.large".into(), about: Vec::new() };
        Ok(Some(ToolCallOutcome::ask(ApprovalRequest::cut("may I?", "").grounds([ground]))))
    });
    let blocks = hook_fn::<BeforeToolCall, _>(|_, _| {
        let reason = Reason::new("secret words").by(["net.send".into()]);
        Ok(Some(ToolCallOutcome { block: Some(true), block_reason: Some(reason), ..Default::default() }))
    });
    engine.registry().on(asks, in_shadow("asks")).unwrap();
    engine.registry().on(blocks, in_shadow("blocks")).unwrap();
    // Where nobody attends, a question is a denial.
    let verdict = permit(&engine, exec("ls")).await;
    assert!(verdict.permit.is_ok());
    let receipts = kept.take();
    let [receipt] = receipts.as_slice() else { panic!("{receipts:?}") };
    assert_eq!((receipt.verdict, receipt.approval.is_none()), (Verdict::Pass, true));
    let written = serde_json::to_value(receipt).unwrap();
    let steps = written["steps"].as_array().unwrap();
    let told: Vec<_> = steps.iter().map(|step| (&step["said"], &step["would"], &step["wouldBy"])).collect();
    let (asked, blocked) = (json!(["pay.large"]), json!(["net.send"]));
    let nothing = json!("nothing");
    assert_eq!(told, [(&nothing, &json!("ask"), &asked), (&nothing, &json!("block"), &blocked)]);
    assert!(steps.iter().all(|step| step["shadow"] == json!(true)));
    assert!(!written.to_string().contains("secret words"));
    // The list of hooks, which receipts in the trail rest on, says who is in shadow.
    let set = receipt.hooks.as_ref().unwrap();
    let listed = serde_json::to_value(set.hooks().collect::<Vec<_>>()).unwrap();
    assert!(listed.as_array().unwrap().iter().all(|hook| hook["shadow"] == json!(true)), "{listed}");
}

#[tokio::test]
async fn law_03_shadows_are_no_gate() {
    let engine = engine();
    assert!(!engine.has_tool_gates());
    engine.registry().on::<BeforeToolCall>(hook_fn(|_, _| Ok(None)), in_shadow("shadow")).unwrap();
    let emit = hook_fn::<BeforeResponseEmit, _>(|_, _| {
        Ok(Some(ResponseEmitOutcome { block: Some(true), ..Default::default() }))
    });
    engine.registry().on(emit, in_shadow("emit")).unwrap();
    // A stream is not held back for it.
    assert!(!engine.has_tool_gates() && engine.response_gate() == ResponseGate::Open);
    let lonely: Vec<_> =
        engine.registry().snapshot().lonely_shadows().map(|meta| meta.id.to_string()).collect();
    assert_eq!(lonely, ["emit", "shadow"]);
    on::<BeforeToolCall>(
        &engine,
        "stops",
        0,
        hook_fn(|_, _| Ok(Some(ToolCallOutcome { block: Some(true), ..Default::default() }))),
    );
    assert!(engine.has_tool_gates());
    let lonely: Vec<_> =
        engine.registry().snapshot().lonely_shadows().map(|meta| meta.id.to_string()).collect();
    assert_eq!(lonely, ["emit"]);
}

/// A hook in shadow that must not be asked.
fn never<P: DecidePoint>() -> Arc<dyn Hook<P>> {
    hook_fn::<P, _>(|_, _| panic!("asked about what was stopped"))
}

#[tokio::test]
async fn law_09_what_was_stopped_is_shown_to_no_shadow() {
    let (engine, kept) = watched();
    let stops = hook_fn::<BeforeToolCall, _>(|_, _| Ok(Some(ToolCallOutcome::block("no"))));
    on::<BeforeToolCall>(&engine, "stops", 0, stops);
    engine.registry().on(never::<TrustedToolPolicy>(), in_shadow("policy")).unwrap();
    engine.registry().on(never::<ToolBefore>(), in_shadow("interceptor")).unwrap();
    engine.registry().on(never::<BeforeToolCall>(), in_shadow("typed")).unwrap();
    assert!(permit(&engine, exec("ls")).await.permit.is_err());
    // The receipt says that they stood there and were not asked.
    let receipts = kept.take();
    let [receipt] = receipts.as_slice() else { panic!("{receipts:?}") };
    let told: Vec<_> = receipt.steps.iter().map(|step| (step.hook.id.to_string(), step.said)).collect();
    assert_eq!(told, [("stops".to_owned(), Said::Blocked)]);
    let stood = receipt.hooks.as_ref().unwrap().hooks().filter(|hook| hook.shadow).count();
    assert_eq!(stood, 3);

    let stops = hook_fn::<BeforeResponseEmit, _>(|_, _| {
        Ok(Some(ResponseEmitOutcome { block: Some(true), ..Default::default() }))
    });
    on::<BeforeResponseEmit>(&engine, "stops emission", 0, stops);
    engine.registry().on(never::<BeforeResponseEmit>(), in_shadow("emit")).unwrap();
    let event = ResponseEmitEvent {
        run_id: None,
        content: "words".into(),
        all_content: vec!["words".into()],
        channel: None,
        message_count: 1,
    };
    let decided = engine.decide::<BeforeResponseEmit>(event, &context()).await;
    assert_eq!((decided.blocked().is_some(), decided.receipt().steps.len()), (true, 1));

    // So is what no hook could take, because one failed.
    let fails = hook_fn::<BeforeAgentReply, _>(|_, _| Err(HookError::failed("no")));
    on_failing(&engine, "fails", FailurePolicy::Closed, fails);
    let takes = hook_fn::<BeforeAgentReply, _>(|_, _| panic!("asked about what was stopped"));
    engine.registry().on(takes, in_shadow("takes")).unwrap();
    let claimed = engine.claim::<BeforeAgentReply>(&AgentReplyEvent::new("hi"), &context()).await;
    assert_eq!((claimed.blocked.is_some(), claimed.receipt.steps.len()), (true, 1));
}

#[tokio::test]
async fn law_03_shadows_leave_no_evidence() {
    let engine = engine();
    let reads = hook_fn::<BeforeToolCall, _>(|_, cx| {
        assert!(cx.evidence.is_none() && cx.forms.is_none());
        Ok(None)
    });
    engine.registry().on(reads, in_shadow("reads")).unwrap();
    let reviewed = engine.review_tool_call(exec("ls"), &context(), false).await;
    assert!(reviewed.facts.iter().all(Fact::still_holds) && reviewed.facts.is_empty());
    assert!(reviewed.receipt.steps.iter().all(|step| step.failure.is_none()));
}

#[test]
fn law_03_shadows_take_no_longer_than_their_budgets() {
    block_on(async {
        let engine = engine();
        for number in 0..10 {
            let hangs = async_hook_fn::<BeforeToolCall, _, _>(|_, _| {
                std::future::pending::<HookResult<BeforeToolCall>>()
            });
            let budget = backstop_engine::Budget::from_millis(1_000).unwrap();
            engine.registry().on(hangs, in_shadow(&format!("hangs {number}")).timeout(budget)).unwrap();
        }
        let begin = tokio::time::Instant::now();
        let verdict = engine.permit_tool_call(exec("ls"), &context(), &Attendance::Nobody).await;
        assert!(verdict.permit.is_ok());
        assert_eq!(begin.elapsed().as_secs(), 1, "they are asked at once");
        assert!(verdict.receipt.elapsed >= Duration::from_secs(1), "and the receipt counts it");
        assert!(verdict.receipt.steps.iter().all(|step| step.would == Some(Would::Block)));
    });
}

#[test]
fn law_03_shadows_take_no_longer_than_all_of_them_may() {
    for (left, taken) in [(None, 2_000), (Some(60_000), 2_000), (Some(5_000), 500), (Some(0), 0)] {
        block_on(async {
            let engine = engine();
            let budget = backstop_engine::Budget::from_millis(10_000).unwrap();
            for number in 0..3 {
                let hangs = async_hook_fn::<BeforeToolCall, _, _>(|_, _| {
                    std::future::pending::<HookResult<BeforeToolCall>>()
                });
                engine.registry().on(hangs, in_shadow(&format!("hangs {number}")).timeout(budget)).unwrap();
            }
            let begin = tokio::time::Instant::now();
            let answer_by = left.map(|left| begin.into_std() + Duration::from_millis(left));
            let call = CallContext { answer_by, ..context() };
            let verdict = engine.permit_tool_call(exec("ls"), &call, &Attendance::Nobody).await;
            assert!(verdict.permit.is_ok());
            assert_eq!(begin.elapsed().as_millis(), taken, "{left:?}");
            // Each would have had more time, so that nobody knows what it would have done.
            for step in &verdict.receipt.steps {
                assert_eq!((step.said, step.would), (Said::Failed, None));
                let message = step.failure.as_ref().unwrap().message.to_string();
                assert_eq!(message, format!("no answer within {taken} ms"));
            }
            assert_eq!(verdict.receipt.steps.len(), 3);
        });
    }
}

#[tokio::test]
async fn law_03_shadows_take_nothing_for_themselves() {
    let engine = engine();
    let takes = hook_fn::<BeforeAgentReply, _>(|_, _| {
        Ok(Some(AgentReplyOutcome { handled: true, reply: Some("mine".into()), reason: None }))
    });
    engine.registry().on(takes, in_shadow("takes")).unwrap();
    let claimed = engine.claim::<BeforeAgentReply>(&AgentReplyEvent::new("hi"), &context()).await;
    assert!(claimed.outcome.is_none());
    let would: Vec<_> = claimed.receipt.steps.iter().map(|step| step.would).collect();
    assert_eq!((claimed.receipt.verdict, would), (Verdict::Pass, vec![Some(Would::Handle)]));
}

#[tokio::test]
async fn law_03_shadows_stay_in_shadow_over_a_reload() {
    let engine = engine();
    let blocks = hook_fn::<BeforeToolCall, _>(|_, _| {
        Ok(Some(ToolCallOutcome { block: Some(true), ..Default::default() }))
    });
    engine.registry().on(blocks, in_shadow("blocks")).unwrap();
    engine.registry().reload(Snapshot::empty(Default::default())).unwrap();
    let verdict = permit(&engine, exec("ls")).await;
    assert!(verdict.permit.is_ok());
    assert_eq!(verdict.receipt.steps.len(), 1);
}

#[tokio::test]
async fn law_03_shadows_that_rewrite_are_not_seen_by_others() {
    let engine = engine();
    let seen = Arc::new(AtomicUsize::default());
    let count = Arc::clone(&seen);
    on::<BeforeToolCall>(
        &engine,
        "judges",
        0,
        hook_fn(move |event, _| {
            assert_eq!(command(event), "ls");
            count.fetch_add(1, Ordering::Relaxed);
            Ok(None)
        }),
    );
    let rewrites = hook_fn::<BeforeToolCall, _>(|_, _| {
        Ok(Some(ToolCallOutcome::rewrite(params(json!({ "command": "other" })))))
    });
    engine.registry().on(rewrites, in_shadow("rewrites")).unwrap();
    let verdict = permit(&engine, exec("ls")).await;
    assert_eq!((command(&verdict.event), seen.load(Ordering::Relaxed)), ("ls".to_owned(), 1));
    assert!(verdict.permit.is_ok());
}

#[test]
fn law_07_a_shadow_stands_only_where_it_means_something() {
    let engine = engine();
    let watches = engine.registry().on::<AfterToolCall>(hook_fn(|_, _| Ok(None)), in_shadow("watches"));
    assert!(matches!(watches, Err(RegisterError::NoShadow { .. })), "{watches:?}");
    let asked = engine.registry().on::<BeforeLlmCall>(hook_fn(|_, _| Ok(None)), in_shadow("asked"));
    assert!(asked.is_ok());
}
