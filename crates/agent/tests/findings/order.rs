//! The order of a turn, and that no point of families A and B is forgotten.

use std::sync::{Arc, Mutex};

use backstop_agent::{TurnInput, TurnTrigger, Verbosity};
use backstop_hooks::points::*;
use backstop_hooks::{Family, HookError, JsonHook, Point, PointId, json_hook};
use serde_json::{Value, json};

use crate::support::{Bench, answered, says};

/// Notes where it is called, and has no opinion.
#[derive(Default)]
struct Log(Mutex<Vec<PointId>>);

impl JsonHook for Log {
    fn call<'a>(&'a self, point: PointId, _: Value) -> backstop_hooks::JsonFuture<'a> {
        self.0.lock().unwrap().push(point);
        Box::pin(async move {
            // Silence is no opinion everywhere but at the strict gate.
            Ok(if point == PointId::BeforeAgentRun { json!({ "outcome": "pass" }) } else { Value::Null })
        })
    }
}

fn watch<P: Point>(bench: &Bench, log: &Arc<Log>) {
    bench.on::<P>(json_hook::<P>(Arc::clone(log) as Arc<dyn JsonHook>));
}

fn watch_all(bench: &Bench) -> Arc<Log> {
    let log = Arc::new(Log::default());
    macro_rules! watch_each {
        ($($point:ident)*) => {{
            $(watch::<$point>(bench, &log);)*
            let listed = [$(PointId::$point),*];
            for point in PointId::ALL {
                let ours = matches!(point.info().family, Family::Model | Family::Tools);
                assert_eq!(listed.contains(point), ours, "{point}: each point of the two families is in the list");
            }
        }};
    }
    watch_each!(
        MessageBefore ParamsBefore BeforeModelResolve AgentTurnPrepare BeforePromptBuild BeforeAgentStart
        BeforeAgentRun BeforeAgentReply BeforeLlmCall ModelCallStarted ModelCallEnded LlmInput LlmOutput
        AfterLlmCall BeforeAgentFinalize BeforeResponseEmit AgentEnd HeartbeatPromptContribution
        TrustedToolPolicy ToolBefore BeforeToolCall ToolAfter AfterToolCall ResolveExecEnv
        ToolResultPersist BeforeMessageWrite
    );
    log
}

#[tokio::test]
async fn every_point_of_the_two_families_is_fired_in_order() {
    let exec = json!({ "tool_calls": [{ "name": "exec", "arguments": { "command": "echo hi" } }] });
    let bench = Bench::new([exec, says("done")]);
    let log = watch_all(&bench);
    let session = bench.session().await;
    let input = TurnInput { trigger: TurnTrigger::Heartbeat { name: None }, ..TurnInput::user("go") };
    let report = bench.turn(&session, input).await;
    assert_eq!(report.outcome, answered("done"));
    let fired = log.0.lock().unwrap().clone();
    for point in PointId::ALL {
        if matches!(point.info().family, Family::Model | Family::Tools) {
            assert!(fired.contains(point), "{point} was never fired");
        }
    }
    assert_eq!(report.receipts, fired.iter().filter(|point| !in_review(**point)).count() as u64);
    // Observers have a queue of their own; the order is that of the points that decide.
    let decided: Vec<PointId> =
        fired.into_iter().filter(|point| point.info().mode != backstop_hooks::Mode::Observe).collect();
    use PointId as P;
    assert_eq!(
        decided,
        [
            P::MessageBefore,
            P::ParamsBefore,
            P::BeforeModelResolve,
            P::AgentTurnPrepare,
            P::BeforePromptBuild,
            P::BeforeAgentStart,
            P::HeartbeatPromptContribution,
            P::BeforeAgentRun,
            P::BeforeMessageWrite,
            P::BeforeAgentReply,
            P::BeforeLlmCall,
            P::AfterLlmCall,
            P::BeforeMessageWrite,
            P::TrustedToolPolicy,
            P::ToolBefore,
            P::BeforeToolCall,
            P::ResolveExecEnv,
            P::ToolAfter,
            P::ToolResultPersist,
            P::BeforeMessageWrite,
            P::BeforeLlmCall,
            P::AfterLlmCall,
            P::BeforeMessageWrite,
            P::BeforeAgentFinalize,
            P::BeforeResponseEmit,
        ]
    );
}

/// The three points of one tool call share one receipt.
fn in_review(point: PointId) -> bool {
    matches!(point, PointId::TrustedToolPolicy | PointId::ToolBefore)
}

#[tokio::test]
async fn verbose_lines_tell_what_hooks_did() {
    let turns =
        [json!({ "tool_calls": [{ "name": "exec", "arguments": { "command": "rm -rf /" } }] }), says("done")];
    let bench = Bench::with(turns, |setup| setup.settings.verbosity = Verbosity::On);
    let interceptors = bench.engine.interceptors();
    interceptors
        .add::<MessageBefore>("tagger", Default::default(), |_, output| {
            output.metadata.make_mut().insert("complexity".to_owned(), "high".into());
            Ok(())
        })
        .unwrap();
    interceptors
        .add::<ParamsBefore>("thinker", Default::default(), |event, output| {
            if event.metadata.get("complexity").is_some() {
                output.think_level = Some(ThinkLevel::High);
            }
            Ok(())
        })
        .unwrap();
    interceptors
        .add::<ToolBefore>("guard", Default::default(), |_, output| {
            output.block = Some(true);
            output.block_reason = Some("rm -rf is not allowed".into());
            Ok(())
        })
        .unwrap();
    let session = bench.session().await;
    bench.say(&session, "go").await;
    let notes: Vec<String> = bench
        .screen
        .lines()
        .iter()
        .filter_map(|line| Some(line.strip_prefix("note: ")?.to_owned()))
        .collect();
    assert_eq!(
        notes,
        [
            "📨 message.before · metadata: complexity",
            "⚙️ params.before · thinkLevel → high",
            "🛡️ guard · blocked exec — \"rm -rf is not allowed\"",
        ]
    );
    let request = bench.model.requests().pop().unwrap().request;
    assert_eq!(request.thinking, Some(backstop_llm::ThinkLevel::High));
}

#[tokio::test]
async fn full_verbosity_shows_a_receipt_for_each_dispatch_that_met_a_hook() {
    let bench = Bench::with([says("done")], |setup| setup.settings.verbosity = Verbosity::Full);
    bench.watch_llm_calls();
    bench.on::<AgentEnd>(backstop_hooks::hook_fn(|_: &AgentEndEvent, _| Err(HookError::failed("no matter"))));
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.receipts, 2);
    let receipts: Vec<String> =
        bench.screen.lines().into_iter().filter(|line| line.starts_with("note: 🧾")).collect();
    assert_eq!(receipts.len(), 2);
    assert!(receipts[0].starts_with("note: 🧾 before_llm_call · pass · 1 hook · "), "{receipts:?}");
    assert!(receipts[1].starts_with("note: 🧾 agent_end · observed · 1 hook · "), "{receipts:?}");
}
