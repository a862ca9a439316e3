//! A decision is keyed by session, run and call.

use std::sync::atomic::{AtomicU32, Ordering};

use backstop_engine::{Attendance, Engine};
use backstop_hooks::conversation::{Message, Part, ToolCall};
use backstop_hooks::points::{AfterLlmCall, AfterLlmCallEvent, AfterLlmCallOutcome, ToolCallIds};
use backstop_hooks::{Params, ToolCallId, hook_fn};
use proptest::prelude::*;

use crate::support::{block_on, engine, exec, in_run, on};

pub(crate) fn answer(run: &str, calls: &[&str]) -> AfterLlmCallEvent {
    let calls: Vec<_> = calls
        .iter()
        .map(|id| ToolCall {
            id: (*id).into(),
            name: "exec".to_owned(),
            arguments: Params::default(),
            malformed: None,
            meta: None,
        })
        .collect();
    AfterLlmCallEvent {
        run_id: run.into(),
        response: Message::new(
            backstop_hooks::conversation::Role::Assistant,
            calls.iter().cloned().map(Part::ToolCall).collect(),
        ),
        tool_calls: calls,
        iteration: 0,
        model: "m".into(),
        latency_ms: 1,
        token_usage: None,
    }
}

/// Whether a call of a run may run.
pub(crate) async fn may_run(engine: &Engine, session: &str, run: &str, call: Option<&str>) -> bool {
    let mut event = exec("ls");
    event.run_id = Some(run.into());
    event.tool_call_id = call.map(ToolCallId::from);
    engine.permit_tool_call(event, &in_run(session, run), &Attendance::Nobody).await.permit.is_ok()
}

/// A hook that leaves only the calls whose id begins with `ok`.
pub(crate) fn only_ok(engine: &Engine) {
    on(
        engine,
        "only-ok",
        0,
        hook_fn::<AfterLlmCall, _>(|event, _| {
            let kept = event
                .tool_calls
                .iter()
                .map(|call| call.id.clone())
                .filter(|id| id.as_str().starts_with("ok"));
            Ok(Some(AfterLlmCallOutcome { tool_calls: Some(ToolCallIds::new(kept)), ..Default::default() }))
        }),
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Runs and sessions share call ids; each call is allowed exactly where its own run's answer allowed it.
    #[test]
    fn law_11_runs_do_not_mix(
        judged in prop::collection::vec((0..3u8, 0..3u8, prop::collection::vec(0..4u8, 1..4)), 1..8),
    ) {
        let engine = engine();
        // Allows the calls with even numbers, and in each run other ones: the parity is the run's.
        on(&engine, "parity", 0, hook_fn::<AfterLlmCall, _>(|event, _| {
            let run: u8 = event.run_id.as_str().parse().unwrap();
            let kept = event.tool_calls.iter().map(|call| call.id.clone())
                .filter(|id| (id.as_str().parse::<u8>().unwrap() + run).is_multiple_of(2));
            Ok(Some(AfterLlmCallOutcome { tool_calls: Some(ToolCallIds::new(kept)), ..Default::default() }))
        }));
        block_on(async {
            let mut allowed = std::collections::HashSet::new();
            let mut touched = std::collections::HashSet::new();
            for (session, run, calls) in &judged {
                let mut calls = calls.clone();
                calls.sort_unstable();
                calls.dedup();
                let ids: Vec<_> = calls.iter().map(ToString::to_string).collect();
                let ids: Vec<_> = ids.iter().map(String::as_str).collect();
                let (session, run) = (session.to_string(), run.to_string());
                engine.judge_answer(answer(&run, &ids), &in_run(&session, &run)).await;
                touched.insert((session.clone(), run.clone()));
                for call in calls {
                    if (call + run.parse::<u8>().unwrap()).is_multiple_of(2) {
                        allowed.insert((session.clone(), run.clone(), call));
                    }
                }
            }
            for session in ["0", "1", "2"] {
                for run in ["0", "1", "2"] {
                    for call in 0..4u8 {
                        let key = (session.to_owned(), run.to_owned());
                        let expected = !touched.contains(&key) || allowed.contains(&(key.0.clone(), key.1.clone(), call));
                        let got = may_run(&engine, session, run, Some(&call.to_string())).await;
                        assert_eq!(got, expected, "session {session} run {run} call {call}");
                    }
                }
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn law_11_parallel_runs_do_not_wait_for_each_other() {
    let engine = engine();
    only_ok(&engine);
    let contexts = (in_run("s", "slow"), in_run("s", "fast"));
    let _judging = engine.judge_answer(answer("slow", &["ok-1"]), &contexts.0);
    engine.judge_answer(answer("fast", &["ok-1"]), &contexts.1).await;
    let start = tokio::time::Instant::now();
    assert!(may_run(&engine, "s", "fast", Some("ok-1")).await);
    assert!(start.elapsed().as_millis() < 100);
}

#[tokio::test]
async fn law_11_a_run_that_ended_leaves_nothing_behind() {
    let engine = engine();
    only_ok(&engine);
    engine.judge_answer(answer("r", &["no"]), &in_run("s", "r")).await;
    assert!(!may_run(&engine, "s", "r", Some("no")).await);
    engine.end_run(Some(&"s".into()), &"r".into()).await.unwrap();
    assert_eq!(engine.store().decision(&"s".into(), &"r".into(), &"no".into()).await.unwrap(), None);
}

#[tokio::test]
async fn law_11_a_denial_stays_when_a_later_answer_of_the_run_names_the_call_again() {
    let engine = engine();
    let asked = AtomicU32::new(0);
    let hook = hook_fn::<AfterLlmCall, _>(move |_, _| {
        let first = asked.fetch_add(1, Ordering::Relaxed) == 0;
        let none = || AfterLlmCallOutcome {
            tool_calls: Some(ToolCallIds::new(Vec::<ToolCallId>::new())),
            ..Default::default()
        };
        Ok(first.then(none))
    });
    on(&engine, "first-only", 0, hook);
    let call = in_run("s", "r");
    for again in [false, true] {
        engine.judge_answer(answer("r", &["call"]), &call).await;
        assert!(!may_run(&engine, "s", "r", Some("call")).await, "again: {again}");
    }
    engine.judge_answer(answer("r", &["another"]), &call).await;
    assert!(may_run(&engine, "s", "r", Some("another")).await, "it is the call that is denied, not the run");
}

#[tokio::test]
async fn law_11_a_run_that_is_forgotten_rules_over_no_later_run_of_its_name() {
    let engine = engine();
    only_ok(&engine);
    engine.judge_answer(answer("run", &["ok-1", "bad"]), &in_run("s", "run")).await;
    assert!(!may_run(&engine, "s", "run", Some("bad")).await);
    engine.forget_run(Some(&"s".into()), &"run".into());
    assert!(may_run(&engine, "s", "run", Some("bad")).await, "nothing is known of it any more");
}
