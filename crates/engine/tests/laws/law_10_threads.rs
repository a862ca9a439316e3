//! Hooks that block their thread have few threads of their own, and a bounded queue in front of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use backstop_engine::{
    BlockCause, Budget, Engine, FailureKind, MAX_RUNNING, MAX_WAITING, ToolVerdict, blocking,
};
use backstop_hooks::points::{AfterToolCall, BeforeToolCall, ToolCallOutcome};
use backstop_hooks::{Hook, HookLoad, hook_fn};
use futures_util::future::join_all;
use serde_json::json;

use crate::support::{context, engine, exec, on, options, permit};

/// A door at which hooks hang until it is opened.
#[derive(Default)]
pub(crate) struct Door {
    open: Mutex<bool>,
    opened: Condvar,
    pub(crate) entered: AtomicUsize,
}

impl Door {
    pub(crate) fn pass(&self) {
        self.entered.fetch_add(1, Ordering::SeqCst);
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.opened.wait(open).unwrap();
        }
    }

    pub(crate) fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

fn hangs_at(door: &Arc<Door>) -> Arc<dyn Hook<BeforeToolCall>> {
    let door = Arc::clone(door);
    blocking::<BeforeToolCall, _>(move |_, _| {
        door.pass();
        Ok(None)
    })
}

fn with_50_ms(engine: &Engine, hook: Arc<dyn Hook<BeforeToolCall>>) -> Arc<dyn Hook<BeforeToolCall>> {
    let options = options("blocks", 0).timeout(Budget::from_millis(50).unwrap());
    engine.registry().on(Arc::clone(&hook), options).unwrap();
    hook
}

fn kind(verdict: &ToolVerdict) -> FailureKind {
    match verdict.permit.as_ref().unwrap_err().cause {
        BlockCause::Failure { kind } => kind,
        ref other => panic!("{other:?}"),
    }
}

fn count(verdicts: &[ToolVerdict], of: FailureKind) -> usize {
    verdicts.iter().filter(|verdict| kind(verdict) == of).count()
}

/// Waits for something that other threads bring about.
async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn law_10_a_blocking_hook_that_hangs_has_few_threads_and_a_bounded_queue() {
    let (engine, door) = (engine(), Arc::new(Door::default()));
    let hook = with_50_ms(&engine, hangs_at(&door));
    let surplus = 300;
    let calls = MAX_RUNNING + MAX_WAITING + surplus;
    let verdicts = join_all((0..calls).map(|_| permit(&engine, exec("ls")))).await;
    assert_eq!(count(&verdicts, FailureKind::Overloaded), surplus, "a full queue is a failure, which blocks");
    assert_eq!(
        count(&verdicts, FailureKind::TimedOut),
        MAX_RUNNING + MAX_WAITING,
        "waiting is in the budget"
    );
    until(|| door.entered.load(Ordering::SeqCst) == MAX_RUNNING).await;
    let held = HookLoad { running: MAX_RUNNING, overdue: MAX_RUNNING, waiting: 0 };
    assert_eq!(hook.load(), Some(held), "calls beyond their budget keep their places");

    let failure = permit(&engine, exec("ls")).await.receipt.steps[0].failure.clone().unwrap();
    assert_eq!(failure.kind, FailureKind::TimedOut);
    let said = "8 of its calls are running, 8 of them beyond their budget";
    assert!(failure.message.contains(said), "{}", failure.message);

    door.open();
    until(|| hook.load() == Some(HookLoad::default())).await;
    assert!(permit(&engine, exec("ls")).await.permit.is_ok(), "it is asked again as soon as it can be");
    let entered = door.entered.load(Ordering::SeqCst);
    assert_eq!(entered, MAX_RUNNING + 1, "calls whose budget ended while they waited never ran");
}

#[tokio::test]
async fn law_10_a_full_queue_is_said_in_the_receipt() {
    let (engine, door) = (engine(), Arc::new(Door::default()));
    with_50_ms(&engine, hangs_at(&door));
    let calls = MAX_RUNNING + MAX_WAITING + 1;
    let verdicts = join_all((0..calls).map(|_| permit(&engine, exec("ls")))).await;
    door.open();
    let full = verdicts.iter().find(|verdict| kind(verdict) == FailureKind::Overloaded).unwrap();
    let message = &full.receipt.steps[0].failure.as_ref().unwrap().message;
    assert!(
        message.contains("overloaded: 8 of its calls are running") && message.contains("and 256 wait"),
        "{message}"
    );
}

#[tokio::test]
async fn law_10_a_blocking_hook_that_hangs_is_in_the_way_of_nobody_else() {
    let (hanging, healthy, door) = (engine(), engine(), Arc::new(Door::default()));
    with_50_ms(&hanging, hangs_at(&door));
    join_all((0..600).map(|_| permit(&hanging, exec("ls")))).await;
    let hears = blocking::<BeforeToolCall, _>(|event, _| {
        Ok((crate::support::command(event) == "rm").then(|| ToolCallOutcome::block("no")))
    });
    on(&healthy, "hears", 0, hears);
    let verdict = permit(&healthy, exec("rm")).await;
    assert_eq!(verdict.permit.unwrap_err().reason_or_default(), "no", "another blocking hook answers");
    assert!(permit(&healthy, exec("ls")).await.permit.is_ok());
    assert_eq!(tokio::task::spawn_blocking(|| 7).await.unwrap(), 7, "the host's own threads are free");
    door.open();
}

#[tokio::test]
async fn law_10_a_full_queue_lets_observed_calls_go_on() {
    let (engine, door) = (engine(), Arc::new(Door::default()));
    let at = Arc::clone(&door);
    let watches = blocking::<AfterToolCall, _>(move |_, _| {
        at.pass();
        Ok(None)
    });
    engine.registry().on(watches, options("watches", 0).timeout(Budget::from_millis(50).unwrap())).unwrap();
    let ran = serde_json::from_value(json!({ "toolName": "exec", "params": {}, "durationMs": 1 })).unwrap();
    let call = context();
    let calls = (0..=MAX_RUNNING + MAX_WAITING).map(|_| engine.observe::<AfterToolCall>(&ran, &call));
    let receipts = join_all(calls).await;
    let overloaded = receipts
        .iter()
        .filter(|receipt| receipt.steps[0].failure.as_ref().unwrap().kind == FailureKind::Overloaded);
    assert_eq!(overloaded.count(), 1, "recorded, and nothing more");
    door.open();
}

#[tokio::test(flavor = "multi_thread")]
async fn law_10_a_blocking_hook_can_use_the_hosts_runtime() {
    let engine = engine();
    let hook = blocking::<BeforeToolCall, _>(|_, cx| {
        assert_eq!(cx.call.session_id.as_ref().unwrap().as_str(), "session-1");
        let sleeps = tokio::time::sleep(std::time::Duration::from_millis(1));
        tokio::runtime::Handle::current().block_on(sleeps);
        Ok(Some(ToolCallOutcome::block("slept")))
    });
    on(&engine, "sleeps", 0, hook);
    assert_eq!(permit(&engine, exec("ls")).await.permit.unwrap_err().reason_or_default(), "slept");
}

#[tokio::test]
async fn law_10_hooks_without_threads_of_their_own_say_nothing_of_a_load() {
    let hook = hook_fn::<BeforeToolCall, _>(|_, _| Ok(None));
    assert_eq!(hook.load(), None);
}
