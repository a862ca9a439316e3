//! A receipt never holds what was judged, in no form and by no way.

use std::sync::Arc;

use backstop_engine::{BlockCause, Receipt};
use backstop_hooks::points::{
    AgentRunEvent, AgentRunOutcome, BeforeAgentRun, BeforeToolCall, ToolCallOutcome,
};
use backstop_hooks::{
    ApprovalRequest, Claim, ClaimPoint, DecidePoint, Digest, Ground, HookError, HookResult, JsonFuture,
    JsonHook, ObservePoint, Point, PointId, Reason, hook_fn, json_hook,
};
use backstop_store::ApprovalFilter;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::law_07_no_silent_gap::{ByMode, sample, visit_all};
use crate::model::quiet;
use crate::support::{block_on, context, exec, on, params, permit, watched};

/// What every text in the sample events begins with.
const MARK: &str = "CONFIDENTIAL";

fn assert_clean(receipt: &Receipt) {
    for view in [format!("{receipt:?}"), serde_json::to_string(receipt).unwrap()] {
        assert!(!view.contains(MARK), "{view}");
    }
}

fn quoted<P: Point>(event: &P::Event) -> String {
    serde_json::to_string(event).unwrap()
}

/// Hooks that fail, each quoting the event in its own way.
fn leaks<P: Point>(way: usize, event: &P::Event) -> HookResult<P> {
    let text = quoted::<P>(event);
    let from_mark = text.find(MARK).map_or("", |at| &text[at..]).chars().take(40).collect::<String>();
    match way {
        0 => Err(HookError::failed(text)),
        1 => Err(HookError::Unreachable(format!("http://policy/?q={from_mark}"))),
        2 => P::Outcome::from_json_text(&text).map_err(HookError::from),
        _ => std::panic::panic_any("on purpose"),
    }
}

trait FromText: Sized {
    fn from_json_text(text: &str) -> Result<Option<Self>, backstop_hooks::Malformed>;
}

impl<O: backstop_hooks::Outcome> FromText for O {
    fn from_json_text(text: &str) -> Result<Option<Self>, backstop_hooks::Malformed> {
        Self::from_json(json!({ "surprise": text }))
    }
}

struct Leaks;

impl Leaks {
    fn each<P: Point>(dispatch: impl Fn(&backstop_engine::Engine, P::Event) -> Receipt) {
        for way in 0..4 {
            let (engine, kept) = watched();
            on(&engine, "h", 0, hook_fn::<P, _>(move |event, _| leaks::<P>(way, event)));
            let receipt = dispatch(&engine, sample::<P>());
            let failed = P::INFO.id == PointId::ResolveExecEnv && way == 2;
            assert!(failed || receipt.steps[0].failure.is_some(), "{}", P::INFO.name);
            assert_clean(&receipt);
            kept.take().iter().for_each(assert_clean);
        }
    }
}

impl ByMode for Leaks {
    fn decide<P: DecidePoint>(&mut self) {
        Self::each::<P>(|engine, event| block_on(engine.decide::<P>(event, &context())).into_parts().receipt);
    }

    fn observe<P: ObservePoint>(&mut self) {
        Self::each::<P>(|engine, event| block_on(engine.observe::<P>(&event, &context())));
    }

    fn claim<P: ClaimPoint>(&mut self)
    where
        P::Outcome: Claim,
    {
        Self::each::<P>(|engine, event| block_on(engine.claim::<P>(&event, &context())).receipt);
    }
}

#[test]
fn law_09_no_receipt_holds_text_of_its_event_however_a_hook_fails() {
    quiet();
    visit_all(&mut Leaks);
}

#[tokio::test]
async fn law_09_a_failure_in_words_of_its_own_is_kept_and_bounded() {
    let (engine, kept) = watched();
    let on_call =
        |message: String| hook_fn::<BeforeToolCall, _>(move |_, _| Err(HookError::failed(&message)));
    on(&engine, "h", 0, on_call(format!("the policy server has no rule {}", "y".repeat(100_000))));
    permit(&engine, exec("ls")).await.permit.unwrap_err();
    let receipt = kept.take().pop().unwrap();
    let message = receipt.steps[0].failure.as_ref().unwrap().message.as_str();
    assert!(message.starts_with("the policy server has no rule y"));
    assert!(message.len() <= 300 && format!("{receipt:?}").len() < 3_000);
    let recorded = serde_json::to_value(&receipt).unwrap();
    let failure = &recorded["steps"][0]["failure"];
    assert_eq!(failure["kind"], "failed");
    assert!(failure["digest"].is_string() && !recorded.to_string().contains("policy server"), "{recorded}");
}

#[tokio::test]
async fn law_09_the_reason_of_before_agent_run_stays_inside() {
    let (engine, kept) = watched();
    on(
        &engine,
        "gate",
        0,
        hook_fn::<BeforeAgentRun, _>(|event, _| {
            Ok(Some(AgentRunOutcome::Block {
                reason: format!("prompt says {}", event.prompt).into(),
                message: Some("not today".into()),
                category: None,
                metadata: Some(params(json!({ "prompt": event.prompt.as_str() }))),
            }))
        }),
    );
    let event = AgentRunEvent {
        prompt: format!("{MARK} prompt").into(),
        messages: vec![],
        system_prompt: None,
        sender_id: None,
        sender_is_owner: None,
    };
    let decided = engine.decide::<BeforeAgentRun>(event, &context()).await.into_parts();
    assert_clean(&decided.receipt);
    kept.take().iter().for_each(assert_clean);
    assert!(!format!("{decided:?}").contains(MARK));
    let blocked = decided.blocked.unwrap();
    assert_eq!(blocked.cause, BlockCause::Decision);
    assert!(blocked.reason.unwrap().contains(MARK), "the host does learn it");
}

struct Echo;

impl JsonHook for Echo {
    fn call<'a>(&'a self, _: PointId, event: Value) -> JsonFuture<'a> {
        Box::pin(async move { Ok(json!({ "params": { "command": event["params"]["command"], "more": 1 } })) })
    }
}

#[tokio::test]
async fn law_09_explanations_are_not_part_of_a_receipts_views() {
    let (engine, _) = watched();
    on(&engine, "echo", 0, json_hook::<BeforeToolCall>(Arc::new(Echo)));
    let decided = engine.explain::<BeforeToolCall>(exec(MARK), &context()).await;
    assert!(decided.receipt().steps[0].detail.is_some());
    assert_clean(decided.receipt());
}

#[tokio::test]
async fn law_09_the_record_of_a_reason_has_its_rules_and_a_digest_and_no_words() {
    let (engine, kept) = watched();
    let stops = hook_fn::<BeforeToolCall, _>(|event, _| {
        let text = format!("`{}` [CODE]: ~/.ssh/id_rsa", event.params["command"]);
        Ok(Some(ToolCallOutcome::block(Reason::new(text).by(["toy.rule".into()]))))
    });
    on(&engine, "stops", 0, stops);
    let blocked = permit(&engine, exec(MARK)).await.permit.unwrap_err();
    let told = blocked.reason.unwrap();
    assert!(told.contains(MARK) && told.contains("id_rsa"), "who is told is told all");
    let receipt = kept.take().pop().unwrap();
    assert_clean(&receipt);
    let record = serde_json::to_value(&receipt).unwrap();
    assert_eq!(
        record["blocked"]["reason"],
        json!({ "rules": ["toy.rule"], "digest": Digest::of_text("reason", told.as_str()) })
    );
}

#[tokio::test]
async fn law_09_no_code_of_an_approval_reaches_the_model_or_the_record_not_even_as_a_digest() {
    let (engine, kept) = watched();
    let about = Ground { rule: "toy.rule".into(), about: vec![MARK.into()] };
    let request = ApprovalRequest::cut(MARK, MARK).grounds([about]);
    on(
        &engine,
        "asks",
        0,
        hook_fn::<BeforeToolCall, _>(move |_, _| Ok(Some(ToolCallOutcome::ask(request.clone())))),
    );
    let told = permit(&engine, exec("ls")).await.permit.unwrap_err().reason.unwrap();
    let code = engine.store().approvals(ApprovalFilter::All, 1).await.unwrap().remove(0).code;
    let receipt = kept.take().pop().unwrap();
    assert_clean(&receipt);
    let record = serde_json::to_value(&receipt).unwrap();
    assert!(!told.contains(&code) && !record.to_string().contains(&code));
    assert_eq!(record["blocked"]["reason"], json!({ "rules": ["approval.needed"] }));
    assert_eq!(record["approval"]["rules"], json!(["toy.rule"]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn law_09_arguments_never_reach_a_receipt(secret in "[A-Za-z0-9]{8,40}", rewrite in any::<bool>(), fail in any::<bool>()) {
        let (engine, kept) = watched();
        on(&engine, "h", 0, hook_fn::<BeforeToolCall, _>(move |event, _| {
            let text = event.params["command"].as_str().unwrap().to_owned();
            if fail {
                return Err(HookError::failed(format!("what about {text}?")));
            }
            Ok(rewrite.then(|| ToolCallOutcome::rewrite(params(json!({"command": text, "was": "rewritten"})))))
        }));
        block_on(permit(&engine, exec(&secret)));
        let receipt = kept.take().pop().unwrap();
        let views = format!("{receipt:?}{}", serde_json::to_string(&receipt).unwrap());
        prop_assert!(!views.contains(&secret), "{}", views);
    }
}
