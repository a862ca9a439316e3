//! Every dispatch leaves a receipt, also one that met no hook.

use std::sync::Arc;
use std::time::Duration;

use backstop_engine::{Attendance, Engine, Receipt, ReceiptSink, Said, Verdict, tool_call_digest};
use backstop_hooks::points::{BeforeLlmCall, BeforeToolCall, ToolCallEvent, ToolCallOutcome};
use backstop_hooks::{
    ApprovalRequest, ClaimPoint, DecidePoint, Event as _, ObservePoint, Params, Point, async_hook_fn, hook_fn,
};
use serde_json::json;

use crate::law_07_no_silent_gap::{ByMode, sample, visit_all};
use crate::support::{Kept, block_on, context, exec, on, params, permit, watched};

struct Dispatches {
    engine: Engine,
    kept: Arc<Kept>,
    count: usize,
}

impl Dispatches {
    fn check<P: Point>(&mut self) {
        self.count += 1;
        let [receipt] = <[Receipt; 1]>::try_from(self.kept.take()).unwrap();
        assert_eq!(receipt.point, P::INFO.id);
        assert!(receipt.at > 0 && receipt.judged.is_some(), "{}", P::INFO.name);
        assert_eq!(receipt.key.session_id, context().session_id);
        assert_eq!(receipt.key.run_id, context().run_id);
    }
}

impl ByMode for Dispatches {
    fn decide<P: DecidePoint>(&mut self) {
        block_on(self.engine.decide::<P>(sample::<P>(), &context()));
        self.check::<P>();
    }

    fn observe<P: ObservePoint>(&mut self) {
        block_on(self.engine.observe::<P>(&sample::<P>(), &context()));
        self.check::<P>();
    }

    fn claim<P: ClaimPoint>(&mut self)
    where
        P::Outcome: backstop_hooks::Claim,
    {
        block_on(self.engine.claim::<P>(&sample::<P>(), &context()));
        self.check::<P>();
    }
}

#[test]
fn law_08_every_dispatch_leaves_a_receipt_even_without_hooks() {
    let (engine, kept) = watched();
    let mut dispatches = Dispatches { engine, kept, count: 0 };
    visit_all(&mut dispatches);
    assert_eq!(dispatches.count, backstop_hooks::PointId::ALL.len());
}

#[tokio::test]
async fn law_08_a_tool_call_leaves_one_receipt_with_every_step() {
    let (engine, kept) = watched();
    on(
        &engine,
        "rewrites",
        1,
        hook_fn::<BeforeToolCall, _>(|event, _| {
            let already = event.params.contains_key("safe");
            Ok((!already).then(|| ToolCallOutcome::rewrite(params(json!({"command": "ls", "safe": true})))))
        }),
    );
    on(
        &engine,
        "blocks",
        0,
        hook_fn::<BeforeToolCall, _>(|_, _| Ok(Some(ToolCallOutcome::block("because")))),
    );
    permit(&engine, exec("ls")).await.permit.unwrap_err();
    let [receipt] = <[Receipt; 1]>::try_from(kept.take()).unwrap();
    assert_eq!(receipt.verdict, Verdict::Block);
    assert_ne!(receipt.original, receipt.judged);
    let view = serde_json::to_value(&receipt).unwrap();
    assert_eq!(view["verdict"], "block");
    assert_eq!(
        view["blocked"],
        json!({
            "cause": "decision",
            "reason": { "digest": backstop_hooks::Digest::of_text("reason", "because") },
            "hook": "blocks",
            "owner": "operator",
        })
    );
    assert_eq!(view["steps"][0]["hook"], "rewrites");
    assert_eq!(view["steps"][0]["said"], "rewrote");
    assert_eq!(view["toolCallId"], "call-1");
    assert_eq!(view["tool"], "exec");
    assert_eq!(view["id"], receipt.id());
}

#[tokio::test]
async fn law_08_receipts_have_ids_of_their_own() {
    let (engine, kept) = watched();
    for _ in 0..50 {
        permit(&engine, exec("ls")).await.permit.unwrap();
    }
    let ids: std::collections::HashSet<_> = kept.take().iter().map(Receipt::id).collect();
    assert_eq!(ids.len(), 50);
}

struct Panics;

impl ReceiptSink for Panics {
    fn record(&self, _: &Receipt) {
        panic!("on purpose");
    }
}

#[tokio::test]
async fn law_08_a_sink_that_panics_neither_undoes_the_decision_nor_hides_it_from_others() {
    crate::model::quiet();
    let kept = Arc::new(Kept::default());
    let engine =
        Engine::builder().sink(Arc::new(Panics)).sink(Arc::clone(&kept) as Arc<dyn ReceiptSink>).build();
    permit(&engine, exec("ls")).await.permit.unwrap();
    assert_eq!(kept.take().len(), 1);
}

#[tokio::test]
async fn law_08_explaining_is_no_dispatch() {
    let (engine, kept) = watched();
    on(&engine, "h", 0, hook_fn::<BeforeToolCall, _>(|_, _| Ok(Some(ToolCallOutcome::block("no")))));
    let decided = engine.explain::<BeforeToolCall>(exec("ls"), &context()).await;
    let detail = decided.receipt().steps[0].detail.as_ref().unwrap();
    assert_eq!(detail.saw["params"]["command"], "ls");
    assert_eq!(detail.said["blockReason"], "no");
    assert!(engine.review_tool_call(exec("ls"), &context(), true).await.receipt.steps[0].detail.is_some());
    assert!(kept.take().is_empty());
}

/// A call that somebody stopped waiting for, and the one receipt of it.
fn given_up(engine: &Engine, kept: &Kept, attendance: &Attendance) -> Receipt {
    block_on(async {
        let (event, call) = (exec("ls"), context());
        let waiting = engine.permit_tool_call(event, &call, attendance);
        tokio::time::timeout(Duration::from_millis(20), waiting).await.unwrap_err();
    });
    let [receipt] = <[Receipt; 1]>::try_from(kept.take()).unwrap();
    assert_eq!((receipt.verdict, receipt.point.name()), (Verdict::Dropped, "before_tool_call"));
    assert_eq!(receipt.key.tool.as_ref().map(backstop_hooks::ToolName::canonical), Some("exec"));
    assert_eq!(receipt.key.tool_call_id, Some("call-1".into()));
    assert_eq!(receipt.key.run_id, context().run_id);
    receipt
}

#[test]
fn law_08_a_dispatch_that_was_dropped_leaves_a_receipt_with_the_steps_so_far() {
    let (engine, kept) = watched();
    on(&engine, "quick", 2, hook_fn::<BeforeToolCall, _>(|_, _| Ok(None)));
    on(
        &engine,
        "asked",
        1,
        hook_fn::<BeforeToolCall, _>(|_, _| {
            Ok(Some(ToolCallOutcome::ask(ApprovalRequest::cut("sure?", ""))))
        }),
    );
    on(&engine, "hangs", 0, async_hook_fn::<BeforeToolCall, _, _>(|_, _| std::future::pending()));
    let receipt = given_up(&engine, &kept, &Attendance::Nobody);
    let steps: Vec<_> = receipt.steps.iter().map(|step| (step.hook.id.as_str(), step.said)).collect();
    assert_eq!(steps, [("quick", Said::Nothing), ("asked", Said::Asked)]);
    assert!(receipt.at > 0);
}

#[test]
fn law_08_a_call_that_was_dropped_while_a_human_was_asked_leaves_a_receipt() {
    let (engine, kept) = watched();
    on(
        &engine,
        "asked",
        1,
        hook_fn::<BeforeToolCall, _>(|_, _| {
            Ok(Some(ToolCallOutcome::ask(ApprovalRequest::cut("sure?", ""))))
        }),
    );
    let receipt = given_up(&engine, &kept, &Attendance::Queue);
    assert_eq!(receipt.steps.len(), 1);
    assert!(receipt.judged.is_some(), "what the human was asked about");
}

#[test]
fn law_08_a_dropped_decision_at_any_point_leaves_a_receipt_and_a_whole_one_leaves_one() {
    let (engine, kept) = watched();
    on(&engine, "hangs", 0, async_hook_fn::<BeforeToolCall, _, _>(|_, _| std::future::pending()));
    block_on(async {
        let call = context();
        let waiting = engine.decide::<BeforeToolCall>(exec("ls"), &call);
        tokio::time::timeout(Duration::from_millis(20), waiting).await.unwrap_err();
    });
    let [receipt] = <[Receipt; 1]>::try_from(kept.take()).unwrap();
    assert_eq!(
        (receipt.verdict, receipt.key.tool.as_ref().map(backstop_hooks::ToolName::canonical)),
        (Verdict::Dropped, Some("exec"))
    );
}

/// Grants and open questions are bound to these digests: they never change.
#[test]
fn law_08_a_call_has_the_digest_that_it_always_had() {
    let params: Params = serde_json::from_value(json!({"command": "ls -la", "b": [1, "é"]})).unwrap();
    let called = tool_call_digest(&ToolCallEvent::new("Bash", params));
    let pinned = "sha256:20e54390d35101a223faae1b5467b7294e8060b4edc9ef1ac4a395fbcd97cb88";
    assert_eq!(called.to_string(), pinned);
}

#[test]
fn law_08_a_receipt_says_how_the_digest_of_a_conversation_was_computed() {
    let (engine, kept) = watched();
    block_on(engine.decide::<BeforeLlmCall>(sample::<BeforeLlmCall>(), &context()));
    block_on(permit(&engine, exec("ls")));
    let [asked, called] = <[Receipt; 2]>::try_from(kept.take()).unwrap();
    let version = |receipt: &Receipt| serde_json::to_value(receipt).unwrap().get("digestVersion").cloned();
    assert_eq!((version(&asked), version(&called)), (Some(json!(3)), None));
    assert_eq!(asked.judged, Some(sample::<BeforeLlmCall>().digest("before_llm_call").0));
}
