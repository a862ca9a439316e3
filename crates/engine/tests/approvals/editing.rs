//! Answers that put something in the place of a call: other arguments, or a result.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_engine::{
    ApprovalRoute, ApprovalSettings, Attendance, BlockCause, Engine, HookOptions, Keeping, Receipt,
    ReceiptSink, Routes, Substituted, ToolVerdict, Verdict, tool_call_digest,
};
use backstop_hooks::points::{BeforeToolCall, ToolCallOutcome, UNSEEN_TERMINAL};
use backstop_hooks::{
    ApprovalRequest, CallContext, Decision, OwnerId, Params, Requester, Resolution, Substitute,
    TimeoutBehavior, hook_fn,
};
use backstop_store::{
    Answerer, ApprovalFilter, ApprovalRecord, ApprovalStatus, Identity, KnownBy, NewApproval, People,
    PersonName, PersonsAnswer, ResolveError, Store, Timestamp,
};
use serde_json::json;

use crate::support::*;

over_both_stores! {
    a_changed_call_is_a_call_of_its_own,
    what_blocks_a_changed_call_blocks_it,
    whoever_changes_a_call_has_not_allowed_it_by_that,
    whoever_changes_a_call_asks_for_it,
    what_hooks_make_of_a_changed_call_is_asked_about,
    what_was_masked_goes_back_to_where_it_stood,
    a_result_stands_in_the_place_of_the_call,
    nothing_is_offered_that_a_host_can_not_take,
    a_call_is_changed_only_so_often,
    every_question_about_a_changed_call_names_the_one_of_which_it_came,
    no_grant_comes_of_a_changed_call,
    who_objects_to_the_end_of_a_question_stops_what_comes_of_it,
}

const BOTH: [Substitute; 2] = [Substitute::Edit, Substitute::Respond];

type Call = tokio::task::JoinHandle<ToolVerdict>;

fn begin(engine: &Engine, command: &str) -> Call {
    begin_with(engine, command, &BOTH)
}

fn begin_with(engine: &Engine, command: &str, substitutes: &[Substitute]) -> Call {
    let (engine, command, substitutes) = (engine.clone(), command.to_owned(), substitutes.to_vec());
    tokio::spawn(async move {
        let attendance = Attendance::Queue;
        engine.permit_or_substitute(exec(&command), &context(), &attendance, &substitutes).await
    })
}

fn edit(command: &str, by: impl Into<Answerer>) -> PersonsAnswer {
    let arguments = Params::from_value(json!({ "command": command })).unwrap();
    PersonsAnswer::edit(arguments, by, Timestamp::now()).unwrap()
}

fn respond(result: &str) -> PersonsAnswer {
    PersonsAnswer::respond(result, "ann", Timestamp::now()).unwrap()
}

/// The question that waits besides these.
async fn next(store: &Arc<dyn Store>, known: &[&ApprovalRecord]) -> ApprovalRecord {
    loop {
        let row = pending(store).await;
        if known.iter().all(|known| known.id != row.id) {
            return row;
        }
    }
}

/// Allows the changed call, in an answer of its own.
async fn allow_next(store: &Arc<dyn Store>, asked: &ApprovalRecord, who: impl Into<Answerer>) {
    let child = next(store, &[asked]).await;
    let answer = PersonsAnswer::new(Decision::AllowOnce, who, Timestamp::now());
    store.answer_approval(&child.id, answer).await.unwrap();
}

/// All receipts.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<Receipt>>);

impl ReceiptSink for Kept {
    fn record(&self, receipt: &Receipt) {
        self.0.lock().unwrap().push(receipt.clone());
    }

    fn keep(&self, receipt: &Receipt) -> Option<Keeping> {
        self.record(receipt);
        None
    }
}

async fn a_changed_call_is_a_call_of_its_own(store: Arc<dyn Store>) {
    let kept = Arc::new(Kept::default());
    let sink = Arc::clone(&kept) as Arc<dyn ReceiptSink>;
    let engine = Engine::builder().store(Arc::clone(&store)).sink(sink).build();
    let heard = ask_more(&engine, "asks", request());
    let call = begin(&engine, "ls a");
    let asked = pending(&store).await;
    assert_eq!(asked.request.substitutes, BOTH);
    store.answer_approval(&asked.id, edit("ls b", "ann")).await.unwrap();
    allow_next(&store, &asked, "bob").await;
    let verdict = call.await.unwrap();
    let permit = verdict.permit.unwrap();
    let (before, after) = (tool_call_digest(&exec("ls a")), tool_call_digest(&exec("ls b")));
    assert_eq!(permit.digest(), after);
    // The question about it names the one of which it came, and was answered for itself.
    let rows = rows(&store).await;
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(
        (rows[1].state.status(), rows[0].state.status()),
        (ApprovalStatus::Edited, ApprovalStatus::Used)
    );
    assert_eq!((rows[1].request.digest, rows[0].request.digest), (before, after));
    assert_eq!((permit.approval(), rows[0].state.by()), (Some(&rows[0].id), Some("bob")));
    let from = rows[0].request.edited_from.as_ref().unwrap();
    assert_eq!((&from.approval, from.by.as_str(), from.digest), (&asked.id, "ann", before));
    assert_eq!(from.shown.to_value(), json!({ "command": "ls a" }));
    assert_eq!(permit.redeem().unwrap(), exec("ls b"));
    let edited = Substituted::Edited { approval: asked.id.clone(), by: "ann".to_owned() };
    assert_eq!(verdict.substituted, Some(edited));
    assert_eq!(told(&heard), [Resolution::Deny, Resolution::AllowOnce], "two calls, two ends");
    // Both are in the record, each under its own digest.
    let receipts = kept.0.lock().unwrap();
    let [first, second] = receipts.as_slice() else { panic!("{receipts:?}") };
    assert_eq!((first.verdict, first.judged), (Verdict::Block, Some(before)));
    let note = first.approval.as_ref().unwrap();
    assert_eq!((note.resolution, note.substitute), (Some(Resolution::Deny), Some(Substitute::Edit)));
    let written = serde_json::to_value(second).unwrap();
    assert_eq!((&written["judged"], &written["verdict"]), (&json!(after), &json!("pass")));
    let from = json!({ "approval": asked.id, "digest": before, "by": "ann" });
    assert_eq!((&written["editedFrom"], &written["approval"]["digest"]), (&from, &json!(after)));
}

/// A gate that stops what has this word in it.
fn stop(engine: &Engine, word: &'static str) {
    let hook = hook_fn::<BeforeToolCall, _>(move |event, _| {
        let is_it = event.params.to_value().to_string().contains(word);
        Ok(is_it.then(|| ToolCallOutcome::block(format!("{word} is stopped"))))
    });
    engine.registry().on(hook, HookOptions::new(OwnerId::new("plugin")).id("stops")).unwrap();
}

async fn what_blocks_a_changed_call_blocks_it(store: Arc<dyn Store>) {
    let (engine, heard) = asking(Arc::clone(&store), request());
    stop(&engine, "forbidden");
    let call = begin(&engine, "ls");
    let asked = pending(&store).await;
    store.answer_approval(&asked.id, edit("ls forbidden", "ann")).await.unwrap();
    let verdict = call.await.unwrap();
    assert_eq!(reason(&verdict), "forbidden is stopped");
    assert_eq!(verdict.permit.unwrap_err().cause, BlockCause::Decision);
    assert!(matches!(verdict.substituted, Some(Substituted::Edited { .. })));
    assert_eq!(rows(&store).await.len(), 1, "what is stopped is not asked about");
    assert_eq!(told(&heard), [Resolution::Deny, Resolution::Cancelled]);
}

fn people() -> Arc<People> {
    let known = ["ann", "bob", "carl"];
    let known = known.map(|name| (PersonName::new(name), vec![KnownBy::User(name.to_owned())]));
    Arc::new(People::new(known))
}

fn by(name: &str) -> Answerer {
    people().answerer(&Identity::User(name.to_owned()), name)
}

/// Calls with this word go to these people; the first that fits counts.
fn route(word: &'static str, ask: &[&str], votes: u32) -> ApprovalRoute {
    let fits = move |question: &NewApproval| question.title.contains(word);
    ApprovalRoute {
        fits: Arc::new(fits),
        ask: Some(ask.iter().map(|name| (*name).to_owned()).collect()),
        bars_requester: false,
        votes: NonZeroU32::new(votes).unwrap(),
        escalate: None,
        told: None,
        decisions: None,
        substitutes: None,
    }
}

/// A hook that asks about every call, by its command.
fn asks_by_name(store: &Arc<dyn Store>, routes: Vec<ApprovalRoute>) -> Engine {
    let settings = ApprovalSettings {
        people: people(),
        routes: Routes::from_iter(routes),
        ..ApprovalSettings::default()
    };
    let engine = Engine::builder().store(Arc::clone(store)).approvals(settings).build();
    let hook = hook_fn::<BeforeToolCall, _>(|event, _| {
        let command = event.params.to_value()["command"].as_str().unwrap_or_default().to_owned();
        Ok(Some(ToolCallOutcome::ask(ApprovalRequest::new(command, "").unwrap())))
    });
    engine.registry().on(hook, HookOptions::new(OwnerId::new("plugin")).id("asks")).unwrap();
    engine
}

async fn whoever_changes_a_call_has_not_allowed_it_by_that(store: Arc<dyn Store>) {
    let routes = vec![route("deploy", &["bob"], 1), route("pay", &["ann", "bob"], 2), route("", &["ann"], 1)];
    let engine = asks_by_name(&store, routes);
    // Also where the same person is asked, the changed call waits for an answer.
    let call = begin(&engine, "ls");
    let asked = pending(&store).await;
    let stranger = store.answer_approval(&asked.id, edit("ls -l", by("bob"))).await;
    assert!(matches!(stranger, Err(ResolveError::NotAsked(_))));
    store.answer_approval(&asked.id, edit("ls -l", by("ann"))).await.unwrap();
    let child = next(&store, &[&asked]).await;
    assert_eq!((child.state.status(), child.votes.len()), (ApprovalStatus::Pending, 0));
    allow_next(&store, &asked, by("ann")).await;
    assert_eq!(call.await.unwrap().permit.unwrap().redeem().unwrap(), exec("ls -l"));
    // Where somebody else is, that person decides, and may say no.
    let call = begin(&engine, "ls");
    let asked = pending(&store).await;
    store.answer_approval(&asked.id, edit("deploy", by("ann"))).await.unwrap();
    let child = next(&store, &[&asked]).await;
    assert!(child.votes.is_empty() && child.request.edited_from.is_some());
    let answer = PersonsAnswer::new(Decision::Deny, by("bob"), Timestamp::now());
    store.answer_approval(&child.id, answer).await.unwrap();
    assert!(reason(&call.await.unwrap()).contains("denied by a human"));
    // Where several are, nobody puts anything in its place.
    let call = begin(&engine, "ls");
    let asked = pending(&store).await;
    store.answer_approval(&asked.id, edit("pay", by("ann"))).await.unwrap();
    let child = next(&store, &[&asked]).await;
    assert!(child.request.substitutes.is_empty());
    let refused = store.answer_approval(&child.id, edit("ls", by("bob"))).await;
    assert!(matches!(refused, Err(ResolveError::NoSubstitute { .. })));
    let yes = |who| PersonsAnswer::new(Decision::AllowOnce, by(who), Timestamp::now());
    store.answer_approval(&child.id, yes("ann")).await.unwrap();
    store.answer_approval(&child.id, yes("bob")).await.unwrap();
    assert_eq!(call.await.unwrap().permit.unwrap().redeem().unwrap(), exec("pay"));
}

async fn what_hooks_make_of_a_changed_call_is_asked_about(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    let hook = hook_fn::<BeforeToolCall, _>(|event, _| {
        let is_it = event.params.to_value()["command"] == "ls b";
        Ok(is_it.then(|| ToolCallOutcome::rewrite(exec("ls c").params)))
    });
    engine.registry().on(hook, HookOptions::new(OwnerId::new("plugin")).id("rewrites")).unwrap();
    let call = begin(&engine, "ls a");
    let asked = pending(&store).await;
    store.answer_approval(&asked.id, edit("ls b", "ann")).await.unwrap();
    let child = next(&store, &[&asked]).await;
    assert_eq!(child.request.digest, tool_call_digest(&exec("ls c")), "nobody has written that");
    store.resolve_approval(&child.id, Decision::AllowOnce, "bob", Timestamp::now()).await.unwrap();
    assert_eq!(call.await.unwrap().permit.unwrap().redeem().unwrap(), exec("ls c"));
}

/// The person who asks is `bob`.
fn begin_for_bob(engine: &Engine) -> Call {
    let engine = engine.clone();
    tokio::spawn(async move {
        let requester = Requester { sender_id: Some("bob".to_owned()), ..Requester::default() };
        let call = CallContext { requester: Some(requester), ..context() };
        engine.permit_or_substitute(exec("ls"), &call, &Attendance::Queue, &BOTH).await
    })
}

async fn whoever_changes_a_call_asks_for_it(store: Arc<dyn Store>) {
    let barring = |word, ask: &[&str]| ApprovalRoute { bars_requester: true, ..route(word, ask, 1) };
    let everybody = barring("deploy", &["ann", "bob", "carl"]);
    let routes = vec![everybody, barring("alone", &["ann"]), route("", &["ann"], 1)];
    let engine = asks_by_name(&store, routes);
    let call = begin_for_bob(&engine);
    let asked = pending(&store).await;
    store.answer_approval(&asked.id, edit("deploy", by("ann"))).await.unwrap();
    let child = next(&store, &[&asked]).await;
    for barred in ["ann", "bob"] {
        let yes = PersonsAnswer::new(Decision::AllowOnce, by(barred), Timestamp::now());
        let refused = store.answer_approval(&child.id, yes).await;
        assert!(matches!(refused, Err(ResolveError::NotAsked(_))), "{barred}");
    }
    allow_next(&store, &asked, by("carl")).await;
    assert_eq!(call.await.unwrap().permit.unwrap().redeem().unwrap(), exec("deploy"));
    // Where nobody else is asked, nobody may answer.
    let call = begin_for_bob(&engine);
    let asked = pending(&store).await;
    store.answer_approval(&asked.id, edit("alone", by("ann"))).await.unwrap();
    let verdict = call.await.unwrap();
    assert!(reason(&verdict).contains("nobody may answer it"), "{}", reason(&verdict));
}

async fn what_was_masked_goes_back_to_where_it_stood(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    let set = |snapshot: &mut backstop_engine::Snapshot| {
        snapshot.set_masker(Arc::new(Word));
        Ok::<_, backstop_engine::RegisterError>(())
    };
    engine.registry().update(set).unwrap();
    let call = begin(&engine, "login hunter2 at a");
    let asked = pending(&store).await;
    assert_eq!(asked.request.masked_at, ["/command"]);
    for moved in ["echo ****", "login ******* at b"] {
        let moved = store.answer_approval(&asked.id, edit(moved, "ann")).await.unwrap_err();
        assert!(moved.to_string().contains("a mask is no value"), "{moved}");
    }
    let arguments = |command: &str| Params::from_value(json!({ "command": command, "cwd": "b" })).unwrap();
    let same = PersonsAnswer::edit(arguments("login ******* at a"), "ann", Timestamp::now()).unwrap();
    let answered = store.answer_approval(&asked.id, same).await.unwrap();
    assert!(!serde_json::to_string(&answered.record).unwrap().contains("hunter2"));
    allow_next(&store, &asked, "ann").await;
    let verdict = call.await.unwrap();
    assert_eq!(verdict.permit.unwrap().redeem().unwrap().params, arguments("login hunter2 at a"));
    assert!(!serde_json::to_string(&rows(&store).await).unwrap().contains("hunter2"));
}

async fn a_result_stands_in_the_place_of_the_call(store: Arc<dyn Store>) {
    let (engine, heard) = asking(Arc::clone(&store), request());
    let call = begin(&engine, "ls");
    let asked = pending(&store).await;
    store.answer_approval(&asked.id, respond("three files")).await.unwrap();
    let verdict = call.await.unwrap();
    let blocked = verdict.permit.unwrap_err();
    assert_eq!(blocked.cause, BlockCause::Approval { resolution: Resolution::Deny });
    let (approval, by) = (asked.id.clone(), "ann".to_owned());
    let responded = Substituted::Responded { approval, by, result: "three files".into() };
    assert_eq!(verdict.substituted, Some(responded));
    let note = verdict.receipt.approval.as_ref().unwrap();
    assert_eq!(note.substitute, Some(Substitute::Respond));
    let written = serde_json::to_string(&verdict.receipt).unwrap();
    assert!(!written.contains("three files"), "{written}");
    assert_eq!(told(&heard), [Resolution::Deny]);
}

async fn nothing_is_offered_that_a_host_can_not_take(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    let plain = {
        let engine = engine.clone();
        tokio::spawn(async move { permit(&engine, "ls", &Attendance::Queue).await })
    };
    let asked = pending(&store).await;
    assert!(asked.request.substitutes.is_empty());
    for answer in [edit("ls -l", "ann"), respond("none")] {
        let refused = store.answer_approval(&asked.id, answer).await;
        assert!(matches!(refused, Err(ResolveError::NoSubstitute { .. })));
    }
    store.resolve_approval(&asked.id, Decision::AllowOnce, "ann", Timestamp::now()).await.unwrap();
    plain.await.unwrap().permit.unwrap();
    // Nor where nobody waits for the answer.
    let filed = engine.permit_or_substitute(exec("df"), &context(), &Attendance::Nobody, &BOTH).await;
    assert!(filed.permit.is_err());
    let row = rows(&store).await.swap_remove(0);
    assert_eq!((row.state.status(), row.request.substitutes), (ApprovalStatus::Unattended, Vec::new()));
    let refused = store.answer_approval(&row.id, edit("ls", "ann")).await;
    assert!(refused.is_err());
    // Nor another call where the host says more of this one than its arguments.
    for told in [
        exec("du").derived_paths(vec!["a".to_owned()]),
        exec("du").tool_kind("typed".to_owned()),
        exec("du").tool_input_kind("python".to_owned()),
    ] {
        let engine = engine.clone();
        let call = tokio::spawn(async move {
            engine.permit_or_substitute(told, &context(), &Attendance::Queue, &BOTH).await
        });
        let asked = pending(&store).await;
        assert_eq!(asked.request.substitutes, [Substitute::Respond]);
        store.answer_approval(&asked.id, respond("none")).await.unwrap();
        assert!(call.await.unwrap().permit.is_err());
    }
    // That nothing sees what is typed into its terminals it says of itself.
    let told = exec("du").tool_kind(UNSEEN_TERMINAL.to_owned());
    let waits = engine.clone();
    let call =
        tokio::spawn(
            async move { waits.permit_or_substitute(told, &context(), &Attendance::Queue, &BOTH).await },
        );
    let asked = pending(&store).await;
    assert_eq!(asked.request.substitutes, BOTH);
    store.answer_approval(&asked.id, edit("du -s", "ann")).await.unwrap();
    allow_next(&store, &asked, "ann").await;
    let changed = exec("du -s").tool_kind(UNSEEN_TERMINAL.to_owned());
    assert_eq!(call.await.unwrap().permit.unwrap().redeem().unwrap(), changed, "it says so of any call");
    // Nor what the hooks that ask, or the operator, don't let anybody answer.
    let strict = request().decisions([Decision::Deny]);
    let (strict, _) = asking(Arc::clone(&store), strict);
    let call = begin(&strict, "pwd");
    assert!(pending(&store).await.request.substitutes.is_empty());
    call.abort();
    let narrow = ApprovalRoute { substitutes: Some(vec![Substitute::Respond]), ..route("", &["ann"], 1) };
    let engine = asks_by_name(&store, vec![narrow]);
    let waits = begin(&engine, "id");
    loop {
        let rows = store.approvals(ApprovalFilter::Pending, 9).await.unwrap();
        if let Some(row) = rows.iter().find(|row| row.request.title.as_str() == "id") {
            assert_eq!(row.request.substitutes, [Substitute::Respond]);
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    waits.abort();
}

async fn a_call_is_changed_only_so_often(store: Arc<dyn Store>) {
    let routes = vec![
        route("1", &["bob"], 1),
        route("2", &["ann"], 1),
        route("3", &["bob"], 1),
        route("", &["ann"], 1),
    ];
    let engine = asks_by_name(&store, routes);
    let call = begin(&engine, "ls");
    let mut asked = pending(&store).await;
    for (who, command) in [("ann", "ls 1"), ("bob", "ls 2"), ("ann", "ls 3")] {
        assert!(asked.request.substitutes.contains(&Substitute::Edit), "{command}");
        store.answer_approval(&asked.id, edit(command, by(who))).await.unwrap();
        asked = next(&store, &[&asked]).await;
    }
    assert_eq!(asked.request.substitutes, [Substitute::Respond]);
    let yes = PersonsAnswer::new(Decision::AllowOnce, by("bob"), Timestamp::now());
    store.answer_approval(&asked.id, yes).await.unwrap();
    assert_eq!(call.await.unwrap().permit.unwrap().redeem().unwrap(), exec("ls 3"));
}

async fn every_question_about_a_changed_call_names_the_one_of_which_it_came(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    let call = begin(&engine, "ls a");
    let asked = pending(&store).await;
    store.answer_approval(&asked.id, edit("ls b", "ann")).await.unwrap();
    let first = next(&store, &[&asked]).await;
    ask_more(&engine, "later", ApprovalRequest::new("something else", "").unwrap());
    store.resolve_approval(&first.id, Decision::AllowOnce, "ann", Timestamp::now()).await.unwrap();
    let second = next(&store, &[&asked, &first]).await;
    assert!(second.request.edited_from.is_some());
    assert_eq!(second.request.edited_from, first.request.edited_from);
    store.resolve_approval(&second.id, Decision::AllowOnce, "ann", Timestamp::now()).await.unwrap();
    assert_eq!(call.await.unwrap().permit.unwrap().redeem().unwrap(), exec("ls b"));
}

async fn no_grant_comes_of_a_changed_call(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    let call = begin(&engine, "ls a");
    let asked = pending(&store).await;
    store.answer_approval(&asked.id, edit("ls b", "ann")).await.unwrap();
    allow_next(&store, &asked, "ann").await;
    call.await.unwrap().permit.unwrap();
    assert!(store.grants(9).await.unwrap().is_empty());
    for command in ["ls a", "ls b"] {
        let again = permit(&engine, command, &Attendance::Nobody).await;
        assert!(again.permit.is_err(), "{command} was allowed once, and no more");
    }
}

async fn who_objects_to_the_end_of_a_question_stops_what_comes_of_it(store: Arc<dyn Store>) {
    let engine = Engine::builder().store(Arc::clone(&store)).build();
    let objects = waiting(60_000, TimeoutBehavior::Deny).on_resolution(|_| async { Some("no".into()) });
    ask_exactly(&engine, "asks", objects);
    for answer in [edit("ls b", "ann"), respond("none")] {
        let call = begin(&engine, "ls a");
        let asked = pending(&store).await;
        store.answer_approval(&asked.id, answer).await.unwrap();
        let verdict = call.await.unwrap();
        assert!(verdict.permit.is_err() && verdict.substituted.is_none());
    }
}

/// A sink that keeps so many receipts, and says of the others that it does not.
struct Full(Mutex<usize>);

impl ReceiptSink for Full {
    fn record(&self, _: &Receipt) {}

    fn keep(&self, _: &Receipt) -> Option<Keeping> {
        let mut left = self.0.lock().unwrap();
        let is_kept = *left > 0;
        *left = left.saturating_sub(1);
        Some(Box::pin(std::future::ready(is_kept)))
    }
}

#[tokio::test]
async fn what_can_not_be_kept_comes_to_nothing() {
    let store = memory().store;
    let sink = Arc::new(Full(Mutex::new(0))) as Arc<dyn ReceiptSink>;
    let engine = Engine::builder().store(Arc::clone(&store)).sink(sink).build();
    ask_more(&engine, "asks", request());
    for answer in [edit("ls b", "ann"), respond("none")] {
        let call = begin(&engine, "ls a");
        let asked = pending(&store).await;
        store.answer_approval(&asked.id, answer).await.unwrap();
        let verdict = call.await.unwrap();
        assert!(verdict.permit.is_err() && verdict.substituted.is_none());
    }
}

#[tokio::test]
async fn a_changed_call_that_can_not_be_kept_does_not_run() {
    let store = memory().store;
    let sink = Arc::new(Full(Mutex::new(1))) as Arc<dyn ReceiptSink>;
    let engine = Engine::builder().store(Arc::clone(&store)).sink(sink).build();
    ask_more(&engine, "asks", request());
    let call = begin(&engine, "ls a");
    let asked = pending(&store).await;
    store.answer_approval(&asked.id, edit("ls b", "ann")).await.unwrap();
    allow_next(&store, &asked, "ann").await;
    let verdict = call.await.unwrap();
    assert!(reason(&verdict).contains("the audit trail can't be written"), "{}", reason(&verdict));
}
