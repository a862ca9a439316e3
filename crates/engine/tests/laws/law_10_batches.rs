//! Law 10, *isolation*, for hooks that are asked in one go: a batch changes what asking costs and nothing else.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_engine::{Budget, Engine, HookOptions, Said, Verdict};
use backstop_hooks::points::{BeforeToolCall, ToolCallEvent, ToolCallOutcome};
use backstop_hooks::{
    Answer, Batch, BatchAnswer, BatchContext, BatchFuture, Contained, Context, Hook, HookError, Member,
    Membership, contained, hook_fn,
};
use proptest::prelude::*;
use tokio::time::{Instant, timeout};

use crate::model::{actual_with, any_behaviour, expected, hooks, quiet};
use crate::support::{block_on, context, exec, options};

type Typed = Arc<dyn Hook<BeforeToolCall>>;

/// Asks its members as a worker would, one after another on their own clock.
#[derive(Default)]
struct Worker {
    members: Mutex<Vec<Typed>>,
    messages: AtomicUsize,
}

impl Worker {
    fn adopt(self: &Arc<Self>, hook: Typed) -> Typed {
        let mut members = self.members.lock().unwrap();
        members.push(Arc::clone(&hook));
        Arc::new(Employed { hook, worker: Arc::clone(self), number: members.len() - 1 })
    }
}

impl Batch<BeforeToolCall> for Worker {
    fn ask<'a>(
        &'a self,
        members: Vec<Member<'a>>,
        event: &'a ToolCallEvent,
        cx: BatchContext<'a>,
    ) -> BatchFuture<'a, BeforeToolCall> {
        self.messages.fetch_add(1, Ordering::Relaxed);
        let all = self.members.lock().unwrap().clone();
        Box::pin(async move {
            let mut silent = Vec::new();
            for member in members {
                let begin = Instant::now();
                let cx = Context {
                    call: cx.call,
                    plugin_config: member.plugin_config,
                    deadline: None,
                    evidence: None,
                    forms: None,
                };
                let hook = &all[member.number];
                let said = match contained(|| hook.call(event, cx)) {
                    Err(_) => Err(HookError::Panicked),
                    Ok(Answer::Now(said)) => said,
                    Ok(Answer::Later(future)) => match timeout(member.budget, Contained::new(future)).await {
                        Ok(Ok(said)) => said,
                        Ok(Err(_)) => Err(HookError::Panicked),
                        Err(_) => {
                            let late = member.budget + Duration::from_millis(1);
                            return BatchAnswer {
                                silent,
                                said: Some((Err(HookError::failed("late")), late)),
                            };
                        }
                    },
                };
                match said {
                    Ok(None) => silent.push(begin.elapsed()),
                    said => return BatchAnswer { silent, said: Some((said, begin.elapsed())) },
                }
            }
            BatchAnswer { silent, said: None }
        })
    }
}

struct Employed {
    hook: Typed,
    worker: Arc<Worker>,
    number: usize,
}

impl Hook<BeforeToolCall> for Employed {
    fn call<'a>(&'a self, event: &'a ToolCallEvent, cx: Context<'a>) -> Answer<'a, BeforeToolCall> {
        self.hook.call(event, cx)
    }

    fn membership(&self) -> Option<Membership<BeforeToolCall>> {
        let batch: Arc<dyn Batch<BeforeToolCall>> = Arc::<Worker>::clone(&self.worker);
        Some(Membership { batch, number: self.number })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn law_10_hooks_asked_in_one_go_do_what_hooks_asked_alone_do(
        specs in hooks(any_behaviour()),
        // No worker, the first or the second.
        places in prop::collection::vec(0..3_usize, 8),
    ) {
        quiet();
        let workers = [Arc::new(Worker::default()), Arc::new(Worker::default())];
        let employ = |index: usize, hook: Typed| match places[index].checked_sub(1) {
            Some(worker) => workers[worker].adopt(hook),
            None => hook,
        };
        prop_assert_eq!(actual_with(&specs, &employ), expected(&specs));
    }
}

#[test]
fn law_10_neighbours_cost_one_message_for_each_value() {
    let worker = Arc::new(Worker::default());
    let engine = Engine::builder().build();
    for index in 0..40 {
        // One in the middle rewrites, once.
        let hook = hook_fn::<BeforeToolCall, _>(move |event, _| {
            let is_new = event.params.get("command").and_then(|c| c.as_str()) == Some("true");
            let rewrite = index == 20 && is_new;
            Ok(rewrite.then(|| ToolCallOutcome::rewrite(exec("false").params)))
        });
        engine.registry().on(worker.adopt(hook), options(&index.to_string(), 0)).unwrap();
    }
    let reviewed = block_on(engine.review_tool_call(exec("true"), &context(), false));
    assert_eq!(reviewed.receipt.verdict, Verdict::Modify);
    // Up to the one that rewrites, behind it, and those before it once more.
    assert_eq!(worker.messages.load(Ordering::Relaxed), 3);
    assert_eq!(reviewed.receipt.steps.len(), 40 + 20);
}

/// Says what it was told to say, whatever it was asked.
struct Liar(fn(usize) -> BatchAnswer<BeforeToolCall>);

impl Batch<BeforeToolCall> for Liar {
    fn ask<'a>(
        &'a self,
        members: Vec<Member<'a>>,
        _: &'a ToolCallEvent,
        _: BatchContext<'a>,
    ) -> BatchFuture<'a, BeforeToolCall> {
        let answer = (self.0)(members.len());
        Box::pin(async move { answer })
    }
}

struct Lies(Arc<Liar>);

impl Hook<BeforeToolCall> for Lies {
    fn call<'a>(&'a self, _: &'a ToolCallEvent, _: Context<'a>) -> Answer<'a, BeforeToolCall> {
        Answer::Now(Ok(None))
    }

    fn membership(&self) -> Option<Membership<BeforeToolCall>> {
        let batch: Arc<dyn Batch<BeforeToolCall>> = Arc::<Liar>::clone(&self.0);
        Some(Membership { batch, number: 0 })
    }
}

#[test]
fn law_05_a_batch_that_passes_hooks_by_has_failed() {
    let lies: [fn(usize) -> BatchAnswer<BeforeToolCall>; 4] = [
        |_| BatchAnswer { silent: vec![], said: None },
        |_| BatchAnswer { silent: vec![Duration::ZERO], said: None },
        |members| BatchAnswer { silent: vec![Duration::ZERO; members + 1], said: None },
        |members| BatchAnswer {
            silent: vec![Duration::ZERO; members],
            said: Some((Ok(None), Duration::ZERO)),
        },
    ];
    for lie in lies {
        let engine = Engine::builder().build();
        let liar = Arc::new(Liar(lie));
        for index in 0..3 {
            engine.registry().on(Arc::new(Lies(Arc::clone(&liar))), options(&index.to_string(), 0)).unwrap();
        }
        let reviewed = block_on(engine.review_tool_call(exec("true"), &context(), false));
        assert_eq!(reviewed.receipt.verdict, Verdict::Block);
        assert_eq!(reviewed.receipt.steps[0].said, Said::Failed);
    }
}

#[test]
fn law_10_a_batch_that_hangs_ends_with_the_budgets_of_its_members() {
    struct Hangs;
    impl Batch<BeforeToolCall> for Hangs {
        fn ask<'a>(
            &'a self,
            _: Vec<Member<'a>>,
            _: &'a ToolCallEvent,
            _: BatchContext<'a>,
        ) -> BatchFuture<'a, BeforeToolCall> {
            Box::pin(std::future::pending())
        }
    }
    struct Hung(Arc<Hangs>);
    impl Hook<BeforeToolCall> for Hung {
        fn call<'a>(&'a self, _: &'a ToolCallEvent, _: Context<'a>) -> Answer<'a, BeforeToolCall> {
            Answer::Now(Ok(None))
        }
        fn membership(&self) -> Option<Membership<BeforeToolCall>> {
            let batch: Arc<dyn Batch<BeforeToolCall>> = Arc::<Hangs>::clone(&self.0);
            Some(Membership { batch, number: 0 })
        }
    }
    let engine = Engine::builder().build();
    let hangs = Arc::new(Hangs);
    for index in 0..3 {
        let options =
            HookOptions { timeout: Some(Budget::from_millis(50).unwrap()), ..options(&index.to_string(), 0) };
        engine.registry().on(Arc::new(Hung(Arc::clone(&hangs))), options).unwrap();
    }
    block_on(async {
        let begin = Instant::now();
        let reviewed = engine.review_tool_call(exec("true"), &context(), false).await;
        assert_eq!(reviewed.receipt.verdict, Verdict::Block);
        assert!(begin.elapsed() <= Duration::from_millis(151));
    });
}
