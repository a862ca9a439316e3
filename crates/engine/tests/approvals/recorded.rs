//! What is handed to those who record calls: as hooks left it, without secrets, with the answer of people.

use std::sync::{Arc, Mutex};

use backstop_engine::{
    Attendance, CallDecision, CallRecorder, CallRecording, Engine, HookOptions, Masker, RecordedAnswer,
    RecordedCall,
};
use backstop_hooks::points::{BeforeToolCall, ToolCallOutcome};
use backstop_hooks::{ApprovalRequest, Decision, OwnerId, Params, Resolution, Severity, hook_fn};
use backstop_store::SqliteStore;
use serde_json::{Value, json};

use crate::support::*;

#[derive(Default)]
struct Recorded(Mutex<Vec<CallRecording>>);

impl CallRecorder for Recorded {
    fn record(&self, recording: CallRecording) {
        self.0.lock().unwrap().push(recording);
    }
}

impl Recorded {
    fn last(&self) -> RecordedCall {
        self.0.lock().unwrap().last().unwrap().redacted().unwrap()
    }
}

#[derive(Debug)]
struct Word;

impl Masker for Word {
    fn mask(&self, value: &mut Value) -> usize {
        let text = value.to_string();
        *value = serde_json::from_str(&text.replace("hunter2", "*******")).unwrap();
        text.matches("hunter2").count()
    }
}

/// An engine with a hook that rewrites what names a customer and stops what names nobody, over a recorder.
fn recording() -> (Engine, Arc<Recorded>) {
    let recorded = Arc::new(Recorded::default());
    let recorder: Arc<dyn CallRecorder> = Arc::<Recorded>::clone(&recorded);
    let engine = Engine::builder().store(Arc::new(SqliteStore::in_memory())).recorder(recorder).build();
    let hook = hook_fn::<BeforeToolCall, _>(|event, _| {
        let command = event.params.to_value()["command"].as_str().unwrap().to_owned();
        Ok(match command {
            command if command.contains("customer") => {
                let command = command.replace("customer", "somebody");
                Some(ToolCallOutcome::rewrite(Params::from_value(json!({ "command": command })).unwrap()))
            }
            command if command.contains("nobody") => Some(ToolCallOutcome::block("nobody may")),
            _ => None,
        })
    });
    engine.registry().on(hook, HookOptions::new(OwnerId::new("plugin")).id("writes")).unwrap();
    engine
        .registry()
        .update(|snapshot| {
            snapshot.set_masker(Arc::new(Word));
            Ok::<_, backstop_engine::RegisterError>(())
        })
        .unwrap();
    (engine, recorded)
}

#[tokio::test]
async fn a_call_is_recorded_as_hooks_left_it_and_without_secrets() {
    let (engine, recorded) = recording();
    permit(&engine, "say hunter2 to customer 1", &Attendance::Nobody).await.permit.unwrap();
    let call = recorded.last();
    let text = serde_json::to_string(&call).unwrap();
    assert!(!text.contains("customer") && !text.contains("hunter2"), "{text}");
    assert_eq!(call.event["params"], json!({ "command": "say ******* to somebody 1" }));
    assert_eq!((call.judgement.decision, call.masked, call.passed), (CallDecision::Modify, 1, true));
    assert_eq!(call.judgement.hook.as_ref().unwrap().as_str(), "writes");
    assert_eq!(format!("{call:?}").matches("somebody").count(), 0);
    // It is read back as what it was.
    let again: RecordedCall = serde_json::from_str(&text).unwrap();
    assert_eq!((again.judgement, again.hooks.len()), (call.judgement, call.hooks.len()));
    permit(&engine, "ask nobody", &Attendance::Nobody).await.permit.unwrap_err();
    let call = recorded.last();
    assert_eq!((call.judgement.decision, call.passed), (CallDecision::Block, false));
}

#[tokio::test]
async fn a_call_that_was_stopped_before_its_rewriter_was_asked_is_recorded_without_arguments() {
    let (engine, recorded) = recording();
    let stops = hook_fn::<BeforeToolCall, _>(|_, _| Ok(Some(ToolCallOutcome::block("nothing runs"))));
    let options = HookOptions::new(OwnerId::new("other")).id("stops");
    engine.registry().on(stops, HookOptions { priority: 9, ..options }).unwrap();
    permit(&engine, "say it to customer 1", &Attendance::Nobody).await.permit.unwrap_err();
    let call = recorded.last();
    assert!(call.without_arguments && !serde_json::to_string(&call).unwrap().contains("customer"));
    assert_eq!((call.judgement.decision, &call.event["params"]), (CallDecision::Block, &json!({})));
    // One that comes behind it has the call as it was rewritten.
    let (engine, recorded) = recording();
    let stops = hook_fn::<BeforeToolCall, _>(|_, _| Ok(Some(ToolCallOutcome::block("nothing runs"))));
    let options = HookOptions::new(OwnerId::new("other")).id("stops");
    engine.registry().on(stops, HookOptions { priority: -9, ..options }).unwrap();
    permit(&engine, "say it to customer 1", &Attendance::Nobody).await.permit.unwrap_err();
    let call = recorded.last();
    assert_eq!(call.event["params"], json!({ "command": "say it to somebody 1" }));
    assert!(!call.without_arguments);
}

#[tokio::test]
async fn a_call_weighs_no_less_than_its_text_and_what_its_values_take_in_memory() {
    let (engine, recorded) = recording();
    let (many, texts) = (vec![json!([]); 1_000], vec![json!("\u{1}"); 1_000]);
    for more in [json!([]), json!(many), json!(texts), json!({ "a": { "\u{1}\u{1}": many } })] {
        let params = Params::from_value(json!({ "command": "ls", "more": more })).unwrap();
        let call = backstop_hooks::CallContext { workspace_dir: Some("/w".repeat(9_000)), ..context() };
        let event = backstop_hooks::points::ToolCallEvent::new("exec", params);
        engine.permit_tool_call(event.clone(), &call, &Attendance::Nobody).await.permit.unwrap();
        let weight = recorded.0.lock().unwrap().last().unwrap().weight();
        let text = serde_json::to_string(&event).unwrap().len() + serde_json::to_string(&call).unwrap().len();
        assert!(weight >= text, "{weight} {text}");
        let values = more.as_array().map_or(1_000, Vec::len);
        assert!(weight >= values * size_of::<Value>(), "{weight}");
    }
}

#[tokio::test]
async fn what_people_answer_is_recorded_beside_what_hooks_made_of_it() {
    let (engine, recorded) = recording();
    ask_exactly(&engine, "asks", ApprovalRequest::new("Really?", "").unwrap().severity(Severity::Info));
    for (decision, resolution, passed) in
        [(Decision::AllowOnce, Resolution::AllowOnce, true), (Decision::Deny, Resolution::Deny, false)]
    {
        permit(&engine, "ls", &Human::says(decision)).await;
        let call = recorded.last();
        let judgement = &call.judgement;
        assert_eq!((judgement.decision, judgement.severity), (CallDecision::Ask, Some(Severity::Info)));
        assert_eq!((judgement.asked_by.len(), call.passed), (1, passed));
        assert_eq!(call.answer, Some(RecordedAnswer { resolution, by_grant: false, substitute: None }));
    }
    permit(&engine, "ls", &Human::says(Decision::AllowAlways)).await;
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap();
    let answer = recorded.last().answer.unwrap();
    assert!(answer.by_grant, "an answer given to another call is none to this one");
}

#[tokio::test]
async fn a_recorder_that_panics_changes_nothing_and_a_call_that_can_not_be_masked_is_not_recorded() {
    struct Panics;

    impl CallRecorder for Panics {
        fn record(&self, recording: CallRecording) {
            assert!(recording.redacted().is_some(), "on purpose");
        }
    }

    // There is nobody who masks.
    let engine = Engine::builder().recorder(Arc::new(Panics)).build();
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap();
}
