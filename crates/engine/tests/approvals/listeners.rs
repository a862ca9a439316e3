//! `onResolution`: told once, in every case, and able to object.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use backstop_engine::Attendance;
use backstop_hooks::{ApprovalRequest, Decision, Resolution};
use backstop_store::{ApprovalFilter, ApprovalStatus, Store};

use crate::support::*;

over_both_stores! {
    an_objection_blocks_what_a_human_allowed,
    a_listener_that_panics_or_hangs_blocks,
    listeners_of_a_denied_call_do_not_change_the_reason,
    a_dropped_call_cancels_its_question_and_tells,
    a_call_dropped_at_any_step_leaves_no_question_open,
    a_call_dropped_while_it_tells_tells_all_the_same,
    what_a_dropped_call_still_tells_is_waited_for,
}

async fn an_objection_blocks_what_a_human_allowed(store: Arc<dyn Store>) {
    let (engine, heard) = asking(Arc::clone(&store), request());
    ask_exactly(&engine, "objects", request().on_resolution(|_| async { Some("too late".into()) }));
    let verdict = permit(&engine, "ls", &Human::says(Decision::AllowOnce)).await;
    assert_eq!(reason(&verdict), "too late");
    let blocked = verdict.permit.unwrap_err();
    let (hook, owner) = (blocked.hook.unwrap(), blocked.owner.unwrap());
    assert_eq!((hook.as_str(), owner.as_str()), ("objects", "plugin"));
    assert_eq!(told(&heard), [Resolution::AllowOnce]);
}

async fn a_listener_that_panics_or_hangs_blocks(store: Arc<dyn Store>) {
    let at_once: fn(ApprovalRequest) -> ApprovalRequest =
        |request| request.on_resolution(|_| -> std::future::Ready<_> { panic!("on purpose") });
    let later: fn(ApprovalRequest) -> ApprovalRequest =
        |request| request.on_resolution(|_| async { panic!("on purpose") });
    let never: fn(ApprovalRequest) -> ApprovalRequest =
        |request| request.on_resolution(|_| std::future::pending());
    for (broken, said) in [(at_once, "panicked"), (later, "panicked"), (never, "in time")] {
        let (engine, heard) = asking(Arc::clone(&store), request());
        ask_exactly(&engine, "broken", broken(request()));
        let verdict = permit(&engine, "ls", &Human::says(Decision::AllowOnce)).await;
        assert!(reason(&verdict).contains(said), "{}", reason(&verdict));
        assert_eq!(told(&heard), [Resolution::AllowOnce], "one broken listener does not keep the others");
    }
}

async fn listeners_of_a_denied_call_do_not_change_the_reason(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    ask_exactly(&engine, "objects", request().on_resolution(|_| async { Some("my reason".into()) }));
    let verdict = permit(&engine, "ls", &Human::says(Decision::Deny)).await;
    assert!(reason(&verdict).starts_with("denied by a human"));
}

async fn settles(store: &Arc<dyn Store>, heard: &Told, status_after: ApprovalStatus) {
    for _ in 0..500 {
        if told(heard) == [Resolution::Cancelled] && status(store).await == status_after {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("told {:?}, {:?}", told(heard), status(store).await);
}

async fn a_dropped_call_cancels_its_question_and_tells(store: Arc<dyn Store>) {
    for attendance in [Attendance::Queue, Human::stares()] {
        let (engine, heard) = asking(Arc::clone(&store), request());
        let call = tokio::spawn(async move { permit(&engine, "ls", &attendance).await });
        pending(&store).await;
        call.abort();
        settles(&store, &heard, ApprovalStatus::Cancelled).await;
    }
}

/// Also in the step that writes the question down, of which the call has not heard yet.
async fn a_call_dropped_at_any_step_leaves_no_question_open(store: Arc<dyn Store>) {
    for steps in 1..12 {
        let (engine, _) = asking(Arc::clone(&store), request());
        let mut call = Box::pin(permit(&engine, "ls", &Attendance::Queue));
        let mut taken = 0;
        let steps_taken = poll_fn(|cx| {
            taken += 1;
            assert!(call.as_mut().poll(cx).is_pending(), "nobody answers");
            if taken == steps { Poll::Ready(()) } else { Poll::Pending }
        });
        let _ = tokio::time::timeout(Duration::from_millis(20), steps_taken).await;
        drop(call);
        tokio::time::sleep(Duration::from_millis(20)).await;
        none_stays_open(&store).await;
    }
}

async fn none_stays_open(store: &Arc<dyn Store>) {
    for _ in 0..500 {
        if store.approvals(ApprovalFilter::Pending, 1).await.unwrap().is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{:?}", rows(store).await);
}

async fn a_call_dropped_while_it_tells_tells_all_the_same(store: Arc<dyn Store>) {
    let (engine, heard) = asking(Arc::clone(&store), request());
    ask_exactly(
        &engine,
        "slow",
        request().on_resolution(|_| async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }),
    );
    let call = tokio::spawn(async move { permit(&engine, "ls", &Human::says(Decision::Deny)).await });
    while told(&heard).is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    call.abort();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(told(&heard), [Resolution::Deny], "once, and not a second time as cancelled");
}

async fn what_a_dropped_call_still_tells_is_waited_for(store: Arc<dyn Store>) {
    let (engine, heard) = asking(Arc::clone(&store), request());
    let late = Told::default();
    let hears = Arc::clone(&late);
    ask_exactly(
        &engine,
        "slow",
        request().on_resolution(move |resolution| {
            let hears = Arc::clone(&hears);
            async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                hears.lock().unwrap().push(resolution);
                None
            }
        }),
    );
    let calls = engine.clone();
    let call = tokio::spawn(async move { permit(&calls, "ls", &Human::says(Decision::Deny)).await });
    while told(&heard).is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    call.abort();
    engine.withdrawn().await;
    assert_eq!(told(&late), [Resolution::Deny]);
}
