//! The threads of all blocking hooks of a process together. A test program of its own, because that bound is
//! one for the whole process.

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail loudly")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use backstop_engine::{
    Attendance, Budget, Engine, HookOptions, MAX_RUNNING, MAX_THREADS, ToolVerdict, blocking,
};
use backstop_hooks::points::BeforeToolCall;
use backstop_hooks::{CallContext, OwnerId};
use futures_util::future::join_all;
use serde_json::json;

#[derive(Default)]
struct Door {
    open: Mutex<bool>,
    opened: Condvar,
    entered: AtomicUsize,
}

async fn permit(engine: &Engine) -> ToolVerdict {
    let call = json!({ "toolName": "exec", "params": { "command": "ls" } });
    let (call, context) = (serde_json::from_value(call).unwrap(), CallContext::default());
    engine.permit_tool_call(call, &context, &Attendance::Nobody).await
}

#[tokio::test]
async fn law_10_all_blocking_hooks_together_have_a_bounded_number_of_threads() {
    let door = Arc::new(Door::default());
    let hooks = MAX_THREADS / MAX_RUNNING + 2;
    let engines: Vec<_> = std::iter::repeat_with(|| Engine::builder().build()).take(hooks).collect();
    for engine in &engines {
        let door = Arc::clone(&door);
        let hangs = blocking::<BeforeToolCall, _>(move |_, _| {
            door.entered.fetch_add(1, Ordering::SeqCst);
            let mut open = door.open.lock().unwrap();
            while !*open {
                open = door.opened.wait(open).unwrap();
            }
            Ok(None)
        });
        let options = HookOptions::new(OwnerId::operator()).timeout(Budget::from_millis(50).unwrap());
        engine.registry().on(hangs, options).unwrap();
    }
    let calls = engines.iter().flat_map(|engine| std::iter::repeat_n(engine, MAX_RUNNING));
    let verdicts = join_all(calls.map(permit)).await;
    assert!(verdicts.iter().all(|verdict| verdict.permit.is_err()));
    while door.entered.load(Ordering::SeqCst) < MAX_THREADS {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let verdict = permit(engines.last().unwrap()).await;
    assert!(verdict.permit.is_err(), "there is no thread for it");
    assert_eq!(door.entered.load(Ordering::SeqCst), MAX_THREADS);
    assert_eq!(tokio::task::spawn_blocking(|| 7).await.unwrap(), 7, "the host's own are not counted");

    *door.open.lock().unwrap() = true;
    door.opened.notify_all();
    for engine in &engines {
        while permit(engine).await.permit.is_err() {}
    }
}
