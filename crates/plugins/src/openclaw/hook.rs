//! A function of a plugin as a hook at any point, and hooks that are handed over together.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use backstop_hooks::{
    Answer, Batch, BatchAnswer, BatchContext, BatchFuture, CallContext, Context, Forms, Hook, HookError,
    HookResult, Member, Membership, Point, PointId,
};
use backstop_script::{Argument, Arguments, FunctionId, JsonText, Loaded, RunItem, ScriptError, Workers};
use futures_util::future::join_all;

use super::answering::Handed;
use super::answers::outcome;
use super::desk::Desk;
use super::{Dialect, shape};
use crate::registration::AtAnyPoint;

/// Where an answer may hold a function.
const ON_RESOLUTION: &str = "requireApproval.onResolution";

/// A function of a plugin.
#[derive(Clone)]
struct Function {
    script: Loaded,
    function: FunctionId,
    dialect: Dialect,
    workers: Workers,
    desk: Arc<Desk>,
    /// How many events were encoded.
    encoded: Arc<AtomicU64>,
}

/// A function of a plugin, and the batches that it joins.
pub(super) struct ScriptHook {
    function: Function,
    batches: Arc<Batches>,
}

impl ScriptHook {
    pub(super) fn new(
        script: Loaded,
        function: FunctionId,
        dialect: Dialect,
        workers: Workers,
        batches: Arc<Batches>,
        desk: Arc<Desk>,
    ) -> Self {
        let encoded = Arc::clone(&batches.encoded);
        Self { function: Function { script, function, dialect, workers, desk, encoded }, batches }
    }
}

/// A [`ScriptHook`] that stands at the point `P`.
struct Standing<P: Point> {
    hook: Function,
    membership: Membership<P>,
}

impl<P: Point> Hook<P> for Standing<P> {
    fn call<'a>(&'a self, event: &'a P::Event, cx: Context<'a>) -> Answer<'a, P> {
        Answer::Later(Box::pin(async move {
            let hook = &self.hook;
            let question = Question::<P>::next();
            let arguments = arguments::<P>(hook, event, cx.call, cx.forms, question)?;
            let _handed = question.hand_over(hook, cx.call).await;
            let budget = cx.remaining().unwrap_or_else(|| P::INFO.budget());
            let _open = hook.desk.answering().open(cx.call.session_key.as_ref());
            let said = hook.script.call(hook.function, &arguments, budget).await;
            answered::<P>(hook, event, said, budget)
        }))
    }

    fn membership(&self) -> Option<Membership<P>> {
        Some(self.membership.clone())
    }
}

impl AtAnyPoint for ScriptHook {
    fn at<P: Point>(&self) -> Arc<dyn Hook<P>> {
        let membership = self.batches.join::<P>(self.function.clone());
        Arc::new(Standing { hook: self.function.clone(), membership })
    }
}

fn arguments<P: Point>(
    hook: &Function,
    event: &P::Event,
    call: &CallContext,
    forms: Option<&Forms>,
    question: Question<P>,
) -> Result<Arguments, HookError> {
    let encode = || {
        hook.encoded.fetch_add(1, Ordering::Relaxed);
        shape::arguments::<P>(hook.dialect, event, call)
    };
    let shared = forms.map(Forms::form::<Encoded<P>>);
    let list = match &shared {
        Some(shared) => shared.of(hook.dialect).get_or_init(encode).clone(),
        None => encode(),
    };
    let mut list = list.map_err(HookError::failed)?;
    if let Some(number) = question.number {
        list.push(Argument::Json(JsonText::of(&number).map_err(HookError::failed)?));
    }
    Ok(Arguments::new(list).keeping([ON_RESOLUTION.to_owned()]))
}

/// An event as plugins are told of it, once for each dialect; kept with the version of the event.
struct Encoded<P> {
    openclaw: OnceLock<Result<Vec<Argument>, String>>,
    backstop: OnceLock<Result<Vec<Argument>, String>>,
    point: PhantomData<P>,
}

impl<P> Default for Encoded<P> {
    fn default() -> Self {
        Self { openclaw: OnceLock::new(), backstop: OnceLock::new(), point: PhantomData }
    }
}

impl<P> Encoded<P> {
    fn of(&self, dialect: Dialect) -> &OnceLock<Result<Vec<Argument>, String>> {
        match dialect {
            Dialect::OpenClaw => &self.openclaw,
            Dialect::Backstop => &self.backstop,
        }
    }
}

/// One time that hooks at the point `P` are asked. Where they read what they keep with the conversation, it has a number that says
/// whose values are meant: they are read before the hook is asked, so that it has them at once.
struct Question<P> {
    number: Option<u64>,
    point: PhantomData<P>,
}

impl<P> Clone for Question<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Question<P> {}

impl<P: Point> Question<P> {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let reads = P::INFO.id == PointId::TrustedToolPolicy;
        let number = reads.then(|| NEXT.fetch_add(1, Ordering::Relaxed));
        Self { number, point: PhantomData }
    }

    /// Hands over what the hook's plugin keeps with the conversation.
    async fn hand_over(self, hook: &Function, call: &CallContext) -> Option<Handed> {
        Some(hook.desk.hand_over(self.number?, call.session_key.as_ref()).await)
    }
}

fn answered<P: Point>(
    hook: &Function,
    event: &P::Event,
    said: Result<Option<backstop_script::Answer>, ScriptError>,
    budget: Duration,
) -> HookResult<P> {
    match said {
        Ok(None) => Ok(None),
        Ok(Some(answer)) => outcome::<P>(&hook.script, hook.dialect, &hook.desk, event, answer),
        Err(error) => Err(failure(&error, budget)),
    }
}

/// What a script's failure is among the failures of hooks, where it had this time.
fn failure(error: &ScriptError, budget: Duration) -> HookError {
    match error {
        ScriptError::Malformed { path, reason } => {
            HookError::Malformed(backstop_hooks::Malformed::new(format!("`{path}` {reason}")))
        }
        ScriptError::Elsewhere { reason, is_malformed: true } => {
            HookError::Malformed(backstop_hooks::Malformed::new(reason.clone()))
        }
        ScriptError::Busy { .. } => HookError::Overloaded(error.to_string()),
        // What was interrupted before its time, since it held the thread, has failed: it was not late.
        ScriptError::TimedOut { budget: had, .. } if *had >= budget => HookError::TimedOut(error.to_string()),
        ScriptError::Stuck
        | ScriptError::TooManyStuck { .. }
        | ScriptError::Ended { .. }
        | ScriptError::Gone
        | ScriptError::Elsewhere { .. }
        | ScriptError::Runtime { .. } => HookError::Unreachable(error.to_string()),
        _ => HookError::failed(error),
    }
}

/// The batches of all points: hooks of all plugins at a point are one batch.
#[derive(Default)]
pub struct Batches {
    points: Mutex<HashMap<TypeId, Box<dyn Any + Send + Sync>>>,
    encoded: Arc<AtomicU64>,
}

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches").finish_non_exhaustive()
    }
}

/// The hooks of one point. None holds the batches: what holds itself is never unloaded.
#[derive(Default)]
struct AtPoint(Mutex<Vec<Function>>);

impl Batches {
    /// How many events have been encoded so far for the plugins that are asked together.
    pub fn encoded(&self) -> u64 {
        self.encoded.load(Ordering::Relaxed)
    }

    /// Makes a hook a member of its point's batch.
    fn join<P: Point>(&self, hook: Function) -> Membership<P> {
        let mut points = self.points.lock().unwrap_or_else(PoisonError::into_inner);
        let found = points.entry(TypeId::of::<P>()).or_insert_with(|| Box::new(Arc::<AtPoint>::default()));
        let point = found.downcast_ref::<Arc<AtPoint>>().map_or_else(Arc::default, Arc::clone);
        let mut members = point.0.lock().unwrap_or_else(PoisonError::into_inner);
        members.push(hook);
        let number = members.len() - 1;
        drop(members);
        Membership { batch: point, number }
    }
}

impl<P: Point> Batch<P> for AtPoint {
    fn ask<'a>(
        &'a self,
        members: Vec<Member<'a>>,
        event: &'a P::Event,
        cx: BatchContext<'a>,
    ) -> BatchFuture<'a, P> {
        Box::pin(async move {
            let hooks: Vec<(Function, Duration)> = {
                let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                members
                    .iter()
                    .filter_map(|member| Some((all.get(member.number)?.clone(), member.budget)))
                    .collect()
            };
            together::<P>(&hooks, event, cx).await
        })
    }
}

/// Asks hooks in their order until one answers. Those of one dialect are one run; where it changes, the next one begins.
async fn together<P: Point>(
    hooks: &[(Function, Duration)],
    event: &P::Event,
    BatchContext { call, forms, .. }: BatchContext<'_>,
) -> BatchAnswer<P> {
    let mut silent = Vec::with_capacity(hooks.len());
    for run in hooks.chunk_by(|(one, _), (other, _)| one.dialect == other.dialect) {
        let Some((first, _)) = run.first() else { break };
        let question = Question::<P>::next();
        let arguments = match arguments::<P>(first, event, call, forms, question) {
            Ok(arguments) => arguments,
            Err(error) => return BatchAnswer { silent, said: Some((Err(error), Duration::ZERO)) },
        };
        let items: Vec<RunItem<'_>> = run
            .iter()
            .map(|(hook, budget)| RunItem {
                script: &hook.script,
                callee: hook.function.into(),
                budget: *budget,
            })
            .collect();
        let open = run.iter().map(|(hook, _)| hook.desk.answering().open(call.session_key.as_ref()));
        let _open: Vec<_> = open.collect();
        let handed = run.iter().map(|(hook, _)| question.hand_over(hook, call));
        let _handed = join_all(handed).await;
        let outcome = first.workers.call_run(&items, &arguments).await;
        let Some((at, ended)) = outcome.ended_at else {
            silent.extend(outcome.took);
            continue;
        };
        // Where nobody answered in time, it is not known how long those before it took.
        let before = outcome.took.iter().copied().chain(std::iter::repeat(Duration::ZERO));
        silent.extend(before.take(at));
        let took = outcome.took.get(at).copied().unwrap_or_default();
        let said = match run.get(at) {
            Some((hook, budget)) => answered::<P>(hook, event, ended.map(Some), *budget),
            None => Err(HookError::failed("the workers answered for a hook that was not asked")),
        };
        return BatchAnswer { silent, said: Some((said, took)) };
    }
    BatchAnswer { silent, said: None }
}
