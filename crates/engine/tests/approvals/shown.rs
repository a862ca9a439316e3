//! What people are shown of a call: all of it but its secrets, or nothing, and then they can't allow it.

use std::sync::Arc;
use std::time::Duration;

use backstop_engine::{Attendance, Engine, Foresight, Masker};
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{ApprovalRequest, CallContext, Decision, Digest, FrontEnd, TimeoutBehavior};
use backstop_store::{StartedProcess, Starts, Store};
use serde_json::{Value, json};

use crate::support::*;

over_both_stores! {
    secrets_are_masked_wherever_people_would_read_them,
    no_reason_says_what_a_question_hides,
    a_call_that_can_not_be_shown_is_not_allowed,
    what_a_call_would_start_is_told_without_asking,
    who_shows_a_call_is_told,
}

#[derive(Debug)]
struct Broken;

impl Masker for Broken {
    fn mask(&self, _: &mut Value) -> usize {
        panic!("on purpose")
    }
}

impl Foresight for Broken {
    fn foresee(&self, _: &ToolCallEvent, _: &CallContext) -> Option<Starts> {
        panic!("on purpose")
    }
}

/// Foresees the command itself.
#[derive(Debug)]
struct Itself;

impl Foresight for Itself {
    fn foresee(&self, event: &ToolCallEvent, _: &CallContext) -> Option<Starts> {
        let command = event.params.to_value()["command"].as_str()?.to_owned();
        let process = StartedProcess { words: vec![command.into()], ..StartedProcess::default() };
        Some(Starts { processes: vec![process], ..Starts::default() })
    }
}

/// Who masks, and who foresees.
type Shows = (Option<Arc<dyn Masker>>, Option<Arc<dyn Foresight>>);

fn with(engine: &Engine, masker: Option<Arc<dyn Masker>>, foresight: Option<Arc<dyn Foresight>>) {
    let set = |snapshot: &mut backstop_engine::Snapshot| {
        masker.into_iter().for_each(|masker| snapshot.set_masker(masker));
        foresight.into_iter().for_each(|foresight| snapshot.set_foresight(foresight));
        Ok::<_, backstop_engine::RegisterError>(())
    };
    engine.registry().update(set).unwrap();
}

async fn secrets_are_masked_wherever_people_would_read_them(store: Arc<dyn Store>) {
    let request = ApprovalRequest::new("Say hunter2?", "It says hunter2.").unwrap();
    let (engine, _) = asking(Arc::clone(&store), request);
    with(&engine, Some(Arc::new(Word)), Some(Arc::new(Itself)));
    for command in ["echo hunter2".to_owned(), format!("echo hunter2 {}", "x".repeat(40_000))] {
        permit(&engine, &command, &Attendance::Nobody).await.permit.unwrap_err();
        let row = rows(&store).await.remove(0);
        let said = serde_json::to_string(&row).unwrap();
        assert!(!said.contains("hunter2"), "{said}");
        let shown = row.request.whole.as_ref().unwrap_or(&row.request.preview).to_value();
        assert_eq!(shown, json!({ "command": command.replace("hunter2", "*******") }));
        assert_eq!((row.request.masked, row.request.title.as_str()), (1, "Say *******?"));
        assert_eq!(row.request.reasons[0].description, "It says *******.");
        let starts = row.request.starts.unwrap();
        assert_eq!(starts.processes[0].words[0].as_str(), command.replace("hunter2", "*******"));
        // The answer is about the call with the secret in it.
        let digest = backstop_engine::tool_call_digest(&exec(&command));
        assert_eq!(row.request.digest, digest);
    }
    let verdict = permit(&engine, "echo hunter2", &Human::says(Decision::AllowOnce)).await;
    let runs = verdict.permit.unwrap().redeem().unwrap();
    assert_eq!(runs.params.to_value(), json!({ "command": "echo hunter2" }));
}

async fn no_reason_says_what_a_question_hides(store: Arc<dyn Store>) {
    let request = || ApprovalRequest::new("Say hunter2?", "It says hunter2.").unwrap();
    let timed = || request().timeout(Duration::from_millis(20), TimeoutBehavior::Deny).unwrap();
    let (nobody, deny, queue) = (Attendance::Nobody, Human::says(Decision::Deny), Attendance::Queue);
    for (request, attendance) in [
        (request(), &nobody),
        (request(), &deny),
        (timed(), &queue),
        (timed().timeout_reason("nobody said hunter2"), &queue),
    ] {
        for masker in [Arc::new(Word) as Arc<dyn Masker>, Arc::new(Broken)] {
            let (engine, _) = asking(Arc::clone(&store), request.clone());
            with(&engine, Some(masker), None);
            let verdict = permit(&engine, "echo hunter2", attendance).await;
            let told = reason(&verdict);
            assert!(!told.is_empty() && !told.contains("hunter2"), "{told}");
        }
    }
}

async fn a_call_that_can_not_be_shown_is_not_allowed(store: Arc<dyn Store>) {
    let breaks: [Shows; 2] = [(Some(Arc::new(Broken)), None), (None, Some(Arc::new(Broken)))];
    for (masker, foresight) in breaks {
        let (engine, _) = asking(Arc::clone(&store), request());
        with(&engine, masker.clone(), foresight.clone());
        let verdict = permit(&engine, "echo hunter2", &Human::says(Decision::AllowOnce)).await;
        verdict.permit.unwrap_err();
        let row = rows(&store).await.remove(0).request;
        assert_eq!(row.title, "run a call that can't be shown");
        assert!(row.unseen && row.preview.is_null() && row.whole.is_none() && row.starts.is_none());
        assert_ne!(row.digest, Digest::of_text("tool_call", ""));
        let denied = permit(&engine, "echo hunter2", &Human::says(Decision::Deny)).await;
        assert!(reason(&denied).starts_with("denied by a human"), "{}", reason(&denied));
        let (lax, _) = asking(Arc::clone(&store), waiting(20, TimeoutBehavior::Allow));
        with(&lax, masker, foresight);
        permit(&lax, "echo hunter2", &Attendance::Queue).await.permit.unwrap_err();
    }
}

async fn what_a_call_would_start_is_told_without_asking(store: Arc<dyn Store>) {
    let started = |masker: Option<Arc<dyn Masker>>, foresight: Option<Arc<dyn Foresight>>| {
        let (engine, _) = asking(Arc::clone(&store), request());
        with(&engine, masker, foresight);
        let starts = engine.would_start(&exec("echo hunter2"), &context())?;
        Some(starts.processes[0].words[0].as_str().to_owned())
    };
    let itself = || Some(Arc::new(Itself) as Arc<dyn Foresight>);
    assert_eq!(started(Some(Arc::new(Word)), itself()).as_deref(), Some("echo *******"));
    assert_eq!(started(None, itself()).as_deref(), Some("echo hunter2"));
    assert_eq!(started(Some(Arc::new(Broken)), itself()), None);
    assert_eq!(started(None, Some(Arc::new(Broken))), None);
    assert_eq!(started(None, None), None);
    assert!(rows(&store).await.is_empty(), "nobody is asked");
}

async fn who_shows_a_call_is_told(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    let front_end = FrontEnd { host: Some("hooks"), client: Some("claude") };
    let call = CallContext { front_end, ..context() };
    engine.permit_tool_call(exec("ls"), &call, &Attendance::Nobody).await.permit.unwrap_err();
    let row = rows(&store).await.remove(0).request;
    assert_eq!((row.host.as_deref(), row.client.as_deref()), (Some("hooks"), Some("claude")));
}
