//! Hooks that are registered while a human is asked judge what the human allowed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use backstop_engine::{
    AskFuture, Asker, Attendance, BlockCause, Engine, OperatorSettings, Snapshot, ToolVerdict,
};
use backstop_hooks::points::{BeforeToolCall, LlmInput, ToolBefore, ToolBeforeOutcome, ToolCallOutcome};
use backstop_hooks::{ApprovalRequest, Decision, Hook, Resolution, hook_fn};
use backstop_store::ApprovalRecord;
use serde_json::json;

use crate::support::{command, context, engine, exec, on, options, params, watched};

type Told = Arc<Mutex<Vec<Resolution>>>;

/// A hook that asks about every call, and what it is told.
fn asks(title: &'static str) -> (Arc<dyn Hook<BeforeToolCall>>, Told) {
    let told = Told::default();
    let heard = Arc::clone(&told);
    let hook = hook_fn::<BeforeToolCall, _>(move |_, _| {
        let heard = Arc::clone(&heard);
        Ok(Some(ToolCallOutcome::ask(ApprovalRequest::cut(title, "").on_resolution(move |resolution| {
            heard.lock().unwrap().push(resolution);
            async { None }
        }))))
    });
    (hook, told)
}

fn blocks() -> Arc<dyn Hook<BeforeToolCall>> {
    hook_fn::<BeforeToolCall, _>(|_, _| Ok(Some(ToolCallOutcome::block("not any more"))))
}

/// A human during whose n-th answer something happens.
struct Human<F> {
    answers: Vec<Decision>,
    meanwhile: F,
    asked: AtomicUsize,
}

impl<F: Fn(usize) + Send + Sync + 'static> Asker for Human<F> {
    fn ask<'a>(&'a self, _: &'a ApprovalRecord) -> AskFuture<'a> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        (self.meanwhile)(number);
        let answer = self.answers.get(number).or(self.answers.last()).copied();
        Box::pin(async move { answer })
    }

    fn name(&self) -> &'static str {
        "human"
    }
}

/// Takes a call past a human; returns how often the human was asked, too.
async fn asked(
    engine: &Engine,
    answers: &[Decision],
    meanwhile: impl Fn(usize) + Send + Sync + 'static,
) -> (ToolVerdict, usize) {
    let human = Arc::new(Human { answers: answers.to_vec(), meanwhile, asked: AtomicUsize::new(0) });
    let attendance = Attendance::Present(Arc::clone(&human) as Arc<dyn Asker>);
    let verdict = engine.permit_tool_call(exec("make"), &context(), &attendance).await;
    (verdict, human.asked.load(Ordering::Relaxed))
}

const YES: [Decision; 1] = [Decision::AllowOnce];

#[tokio::test]
async fn law_04_a_block_that_comes_while_a_human_is_asked_counts() {
    let (engine, kept) = watched();
    let (hook, told) = asks("sure?");
    on(&engine, "asks", 0, hook);
    let later = engine.clone();
    let (verdict, times) = asked(&engine, &YES, move |_| {
        on(&later, "late", 0, blocks());
    })
    .await;
    let blocked = verdict.permit.unwrap_err();
    assert_eq!((blocked.cause, blocked.hook), (BlockCause::Decision, Some("late".into())));
    assert_eq!(
        (times, told.lock().unwrap().as_slice()),
        (1, &[Resolution::AllowOnce, Resolution::Cancelled][..])
    );
    let receipts = kept.take();
    let steps: Vec<_> = receipts[0].steps.iter().map(|step| (step.hook.id.as_str(), step.again)).collect();
    assert_eq!(steps, [("asks", false), ("asks", true), ("late", true)]);
    assert_eq!(receipts.len(), 1);
}

#[tokio::test]
async fn law_04_a_block_at_another_gate_of_tool_calls_counts_as_well() {
    let engine = engine();
    on(&engine, "asks", 0, asks("sure?").0);
    let later = engine.clone();
    let (verdict, _) = asked(&engine, &YES, move |_| {
        let no = ToolBeforeOutcome { block: Some(true), ..ToolBeforeOutcome::default() };
        on(&later, "late", 0, hook_fn::<ToolBefore, _>(move |_, _| Ok(Some(no.clone()))));
    })
    .await;
    assert_eq!(verdict.permit.unwrap_err().hook, Some("late".into()));
}

#[tokio::test]
async fn law_04_a_rewrite_of_what_a_human_saw_is_unstable() {
    let engine = engine();
    on(&engine, "asks", 0, asks("sure?").0);
    let later = engine.clone();
    let (verdict, times) = asked(&engine, &YES, move |_| {
        let rewrites = hook_fn::<BeforeToolCall, _>(|_, _| {
            Ok(Some(ToolCallOutcome::rewrite(params(json!({ "command": "make clean" })))))
        });
        on(&later, "late", 0, rewrites);
    })
    .await;
    let blocked = verdict.permit.unwrap_err();
    assert_eq!(blocked.cause, BlockCause::UnstableRewrite { writer: None });
    assert_eq!((blocked.hook, times), (Some("late".into()), 1));
}

#[tokio::test]
async fn law_04_a_new_question_is_put_to_the_human_and_no_earlier_answer_counts_for_it() {
    for first in [Decision::AllowOnce, Decision::AllowAlways] {
        for (second, runs) in [(Decision::AllowOnce, true), (Decision::Deny, false)] {
            let engine = engine();
            let (hook, told) = asks("sure?");
            on(&engine, "asks", 0, hook);
            let later = engine.clone();
            let (verdict, times) = asked(&engine, &[first, second], move |number| {
                if number == 0 {
                    on(&later, "late", 0, asks("really?").0);
                }
            })
            .await;
            assert_eq!((verdict.permit.is_ok(), times), (runs, 2), "{first:?} {second:?}");
            assert_eq!(told.lock().unwrap().len(), 2, "each question ends once");
            let note = verdict.receipt.approval.as_ref().unwrap();
            assert_eq!(note.resolution, Some(Resolution::from(second)));
        }
    }
}

#[tokio::test]
async fn law_04_a_human_is_not_asked_twice_about_the_same() {
    let engine = engine();
    let (hook, told) = asks("sure?");
    on(&engine, "asks", 0, hook);
    let later = engine.clone();
    let (verdict, times) = asked(&engine, &YES, move |_| {
        on(&later, "late", 0, hook_fn::<BeforeToolCall, _>(|_, _| Ok(None)));
        later.registry().reload(Snapshot::empty(OperatorSettings::default())).unwrap();
    })
    .await;
    assert_eq!((command(&verdict.permit.unwrap()).as_str(), times), ("make", 1));
    assert_eq!(*told.lock().unwrap(), [Resolution::AllowOnce; 2], "who asks again is told the answer");
}

#[tokio::test]
async fn law_04_hooks_elsewhere_change_nothing_for_the_call() {
    let engine = engine();
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&looks);
    on(&engine, "asks", 0, asks("sure?").0);
    on(
        &engine,
        "counts",
        0,
        hook_fn::<BeforeToolCall, _>(move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(None)
        }),
    );
    let later = engine.clone();
    let (verdict, _) = asked(&engine, &YES, move |_| {
        on(&later, "late", 0, hook_fn::<LlmInput, _>(|_, _| Ok(None)));
    })
    .await;
    verdict.permit.unwrap();
    assert_eq!(looks.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn law_04_questions_that_never_end_end_the_call() {
    let engine = engine();
    on(&engine, "asks", 0, asks("sure?").0);
    let (later, told) = (engine.clone(), Arc::new(Mutex::new(Vec::new())));
    let heard = Arc::clone(&told);
    let (verdict, times) = asked(&engine, &YES, move |number| {
        let (hook, told) = asks("and this?");
        heard.lock().unwrap().push(told);
        later.registry().on(hook, options(&format!("late-{number}"), 0)).unwrap();
    })
    .await;
    let blocked = verdict.permit.unwrap_err();
    assert_eq!((blocked.cause, times), (BlockCause::Withheld, 3));
    for told in told.lock().unwrap().iter() {
        assert_eq!(told.lock().unwrap().last(), Some(&Resolution::Cancelled));
    }
}
