//! Interceptors: hooks that edit in place.
//!
//! An interceptor reads the event and changes an output. The changes are its outcome;
//! an unchanged output means no opinion. There are four points for interceptors: `message.before`,
//! `params.before`, `tool.before` and `tool.after`. Interceptors are in the same registry as all other hooks, so
//! the same laws apply: order, chain, budgets, and a failure blocks.
//!
//! A host can show the user what interceptors do as it happens ([`Interceptors::set_on_event`],
//! [`format_event`]).
//!
//! Built-in hooks at these points are listed among the interceptors, and their blocks
//! are reported, but they are read-only here. The configuration controls them, so a program that
//! removes its own interceptors can't remove the guards.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use backstop_hooks::conversation::ToolResult;
use backstop_hooks::points::{
    MessageBefore, MessageBeforeOutcome, ParamsBefore, ParamsBeforeOutcome, ReasoningLevel, ThinkLevel,
    ToolAfter, ToolAfterOutcome, ToolBefore, ToolBeforeOutcome,
};
use backstop_hooks::{
    AgentId, Answer, CallContext, Context, DecidePoint, Hook, HookError, HookId, Malformed, OwnerId, Params,
    Point, PointId, Reason, Text, ToolName, contained, drop_contained,
};
use serde::Serialize;

use crate::hook_options::{HookMeta, HookOptions, Rewrite, Style};
use crate::matcher::{AgentMatcher, ToolMatcher};
use crate::receipt::{Blocked, Receipt, Said};
use crate::refusal::RegisterError;
use crate::registry::Registry;

/// A point where interceptors can stand.
pub trait InterceptPoint: DecidePoint {
    /// What the interceptor changes in place.
    type Output: Clone + PartialEq + fmt::Debug + Send + Sync + 'static;

    /// Returns the output as the previous interceptor left it.
    fn output(event: &Self::Event) -> Self::Output;

    /// Returns what the interceptor changed, as an outcome; `None` when it changed nothing.
    ///
    /// # Errors
    ///
    /// [`Malformed`] for a change that can't be honoured: dropping it would be a wish dropped in silence.
    fn outcome(before: &Self::Output, after: Self::Output) -> Result<Option<Self::Outcome>, Malformed>;

    /// Returns what the user may be told about the change.
    fn effect(event: &Self::Event, outcome: &Self::Outcome) -> Option<Effect>;
}

/// `message.before`: what can be changed.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageOutput {
    /// The message.
    pub message: Text,
    /// The tags for `params.before`.
    pub metadata: Params,
}

/// `params.before`: what can be changed. Provider and model are there to read.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamsOutput {
    /// The provider; an interceptor that changes it has failed.
    pub provider: String,
    /// The model; an interceptor that changes it has failed.
    pub model: String,
    /// How much the model thinks. `None` clears it, as for the other two.
    pub think_level: Option<ThinkLevel>,
    /// Whether reasoning is shown.
    pub reasoning_level: Option<ReasoningLevel>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
}

/// `tool.before`: what can be changed.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolInput {
    /// The arguments.
    pub args: Params,
    /// Set to stop the call.
    pub block: Option<bool>,
    /// Why.
    pub block_reason: Option<Reason>,
}

/// `tool.after`: what can be changed.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// The result.
    pub result: ToolResult,
}

impl InterceptPoint for MessageBefore {
    type Output = MessageOutput;

    fn output(event: &Self::Event) -> MessageOutput {
        MessageOutput { message: event.message.clone(), metadata: event.metadata.clone() }
    }

    fn outcome(
        before: &MessageOutput,
        after: MessageOutput,
    ) -> Result<Option<MessageBeforeOutcome>, Malformed> {
        Ok((after != *before).then(|| MessageBeforeOutcome {
            message: (after.message != before.message).then_some(after.message),
            metadata: (after.metadata != before.metadata).then_some(after.metadata),
        }))
    }

    fn effect(_: &Self::Event, outcome: &MessageBeforeOutcome) -> Option<Effect> {
        let message = outcome.message.as_ref().map(|_| MESSAGE_MUTATED.to_owned());
        let metadata = outcome.metadata.as_ref().filter(|tags| !tags.is_empty()).map(|tags| {
            format!("metadata: {}", tags.keys().map(String::as_str).collect::<Vec<_>>().join(", "))
        });
        Effect::mutated([message, metadata].into_iter().flatten().collect())
    }
}

impl InterceptPoint for ParamsBefore {
    type Output = ParamsOutput;

    fn output(event: &Self::Event) -> ParamsOutput {
        ParamsOutput {
            provider: event.provider.clone(),
            model: event.model.clone(),
            think_level: event.think_level,
            reasoning_level: event.reasoning_level,
            temperature: event.temperature,
        }
    }

    fn outcome(before: &ParamsOutput, after: ParamsOutput) -> Result<Option<ParamsBeforeOutcome>, Malformed> {
        if (&after.provider, &after.model) != (&before.provider, &before.model) {
            return Err(Malformed::new(
                "`provider` and `model` can only be read here; hooks at `before_model_resolve` choose them",
            ));
        }
        let outcome = ParamsBeforeOutcome {
            think_level: (after.think_level != before.think_level).then_some(after.think_level),
            reasoning_level: (after.reasoning_level != before.reasoning_level)
                .then_some(after.reasoning_level),
            temperature: (after.temperature != before.temperature).then_some(after.temperature),
        };
        Ok((outcome != ParamsBeforeOutcome::default()).then_some(outcome))
    }

    fn effect(_: &Self::Event, outcome: &ParamsBeforeOutcome) -> Option<Effect> {
        Effect::mutated(parameter_changes(outcome))
    }
}

/// Returns what an answer at `params.before` changes, in words for the user.
pub fn parameter_changes(outcome: &ParamsBeforeOutcome) -> Vec<String> {
    fn told<T: Serialize>(name: &str, value: Option<Option<T>>) -> Option<String> {
        let value = match value? {
            Some(value) => serde_json::to_value(value).unwrap_or_default(),
            None => return Some(format!("{name} cleared")),
        };
        Some(format!("{name} → {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
    }
    let changes = [
        told("thinkLevel", outcome.think_level),
        told("reasoningLevel", outcome.reasoning_level),
        told("temperature", outcome.temperature),
    ];
    changes.into_iter().flatten().collect()
}

impl InterceptPoint for ToolBefore {
    type Output = ToolInput;

    fn output(event: &Self::Event) -> ToolInput {
        ToolInput { args: event.args.clone(), block: None, block_reason: None }
    }

    fn outcome(before: &ToolInput, after: ToolInput) -> Result<Option<ToolBeforeOutcome>, Malformed> {
        Ok((after != *before).then(|| ToolBeforeOutcome {
            args: (after.args != before.args).then_some(after.args),
            block: after.block,
            block_reason: after.block_reason,
            require_approval: None,
        }))
    }

    fn effect(event: &Self::Event, outcome: &ToolBeforeOutcome) -> Option<Effect> {
        (outcome.block == Some(true)).then(|| Effect::Blocked {
            what: event.tool_name.to_string(),
            reason: outcome.block_reason.clone().map(Text::from),
        })
    }
}

impl InterceptPoint for ToolAfter {
    type Output = ToolOutput;

    fn output(event: &Self::Event) -> ToolOutput {
        ToolOutput { result: event.result.clone() }
    }

    fn outcome(before: &ToolOutput, after: ToolOutput) -> Result<Option<ToolAfterOutcome>, Malformed> {
        Ok((after != *before).then(|| ToolAfterOutcome { result: Some(after.result) }))
    }

    fn effect(_: &Self::Event, _: &ToolAfterOutcome) -> Option<Effect> {
        // Results are rewritten too often for a line each.
        None
    }
}

/// What an interceptor did, in words for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It stopped something.
    Blocked {
        /// What: the tool.
        what: String,
        /// Why.
        reason: Option<Text>,
    },
    /// It changed something: what, in the order of the fields. Values of messages are never named.
    Mutated(Vec<String>),
}

impl Effect {
    fn mutated(changes: Vec<String>) -> Option<Self> {
        (!changes.is_empty()).then_some(Self::Mutated(changes))
    }
}

/// Something the user may be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterceptorEvent {
    /// The interceptor.
    pub id: HookId,
    /// The point.
    pub point: PointId,
    /// What it did.
    pub effect: Effect,
}

/// Returns the event as a status line.
///
/// ```
/// use backstop_engine::{Effect, InterceptorEvent, format_event};
/// let event = InterceptorEvent {
///     id: "builtin:command-safety-guard".into(),
///     point: backstop_hooks::PointId::ToolBefore,
///     effect: Effect::Blocked { what: "exec".into(), reason: Some("rm -rf is not allowed".into()) },
/// };
/// assert_eq!(format_event(&event), "🛡️ builtin:command-safety-guard · blocked exec — \"rm -rf is not allowed\"");
/// ```
pub fn format_event(event: &InterceptorEvent) -> String {
    match &event.effect {
        Effect::Blocked { what, reason: Some(reason) } => {
            format!("🛡️ {} · blocked {what} — \"{reason}\"", event.id)
        }
        Effect::Blocked { what, reason: None } => format!("🛡️ {} · blocked {what}", event.id),
        Effect::Mutated(changes) => {
            let sign = if event.point == PointId::MessageBefore { "📨" } else { "⚙️" };
            format!("{sign} {} · {}", event.point, changes.join(", "))
        }
    }
}

/// A callback that is told what interceptors do.
pub type OnEvent = Arc<dyn Fn(&InterceptorEvent) + Send + Sync>;

#[derive(Default)]
struct Listener(Mutex<Option<OnEvent>>);

impl Listener {
    fn tell(&self, event: &InterceptorEvent) {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(told) = told {
            // A listener is a convenience; its panic must not become the interceptor's failure.
            let _ = contained(|| told(event));
            drop_contained(told);
        }
    }
}

/// How an interceptor is registered.
#[derive(Clone, Debug, Default)]
pub struct InterceptorOptions {
    /// Higher runs first.
    pub priority: i32,
    /// A regular expression on the normalised tool name; at `tool.before` and `tool.after`.
    pub tool_matcher: Option<String>,
    /// A regular expression on the agent's id.
    pub agent_matcher: Option<String>,
    /// The owner that registers it; the operator when absent.
    pub owner: Option<OwnerId>,
    /// Whether its edits give way to earlier hooks; they don't when absent.
    pub rewrite: Option<Rewrite>,
}

/// The interceptors of an engine: a view of its registry in terms of outputs instead of outcomes.
#[derive(Clone)]
pub struct Interceptors {
    registry: Arc<Registry>,
    listener: Arc<Listener>,
}

/// The changed output, as a future.
pub type OutputFuture<O> = Pin<Box<dyn Future<Output = Result<O, HookError>> + Send>>;

impl Interceptors {
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        Self { registry, listener: Arc::default() }
    }

    /// Registers an interceptor that answers immediately.
    ///
    /// # Errors
    ///
    /// [`RegisterError`]: a taken id, or a matcher that matches no known tool (the error lists them).
    pub fn add<P: InterceptPoint>(
        &self,
        id: impl Into<HookId>,
        options: InterceptorOptions,
        handler: impl Fn(&P::Event, &mut P::Output) -> Result<(), HookError> + Send + Sync + 'static,
    ) -> Result<HookId, RegisterError> {
        let id = id.into();
        let hook = Arc::new(Immediate::<P, _> {
            id: id.clone(),
            listener: Arc::clone(&self.listener),
            handler,
            point: PhantomData,
        });
        self.register::<P>(id, options, hook)
    }

    /// Registers an interceptor that answers later. It gets its own copies, which share the values.
    ///
    /// # Errors
    ///
    /// As [`Self::add`].
    pub fn add_async<P: InterceptPoint>(
        &self,
        id: impl Into<HookId>,
        options: InterceptorOptions,
        handler: impl Fn(P::Event, P::Output) -> OutputFuture<P::Output> + Send + Sync + 'static,
    ) -> Result<HookId, RegisterError> {
        let id = id.into();
        let hook = Arc::new(Later::<P, _> {
            id: id.clone(),
            listener: Arc::clone(&self.listener),
            handler,
            point: PhantomData,
        });
        self.register::<P>(id, options, hook)
    }

    fn register<P: InterceptPoint>(
        &self,
        id: HookId,
        options: InterceptorOptions,
        hook: Arc<dyn Hook<P>>,
    ) -> Result<HookId, RegisterError> {
        let matcher = |error| RegisterError::Matcher { hook: id.clone(), error };
        let tools = options.tool_matcher.as_deref().map(ToolMatcher::regex).transpose().map_err(matcher)?;
        // Who writes an interceptor for some tools knows which; a typo in one would turn it off unseen.
        if let Some(tools) = &tools {
            tools.check(self.registry.snapshot().tools()).map_err(matcher)?;
        }
        let agents =
            options.agent_matcher.as_deref().map(AgentMatcher::regex).transpose().map_err(matcher)?;
        let mut hook_options =
            HookOptions::new(options.owner.unwrap_or_else(OwnerId::operator)).id(id.clone());
        hook_options.priority = options.priority;
        hook_options.tools = tools;
        hook_options.agents = agents;
        hook_options.style = Style::Interceptor;
        hook_options.rewrite = options.rewrite;
        self.registry.on::<P>(hook, hook_options)
    }

    /// Removes an interceptor. Returns whether it was there.
    ///
    /// # Errors
    ///
    /// [`BuiltInInterceptor`]: those that ship with Backstop can't be removed here.
    pub fn remove(&self, id: &HookId) -> Result<bool, BuiltInInterceptor> {
        match self.list().into_iter().find(|meta| meta.id == *id && is_built_in(meta)) {
            Some(meta) => Err(BuiltInInterceptor { id: id.clone(), owner: meta.owner.clone() }),
            None => Ok(self.change(|meta| meta.id != *id)),
        }
    }

    /// Returns the interceptors at a point that are about this tool (at `tool.*`) or agent, in running order, the
    /// built-ins among them.
    pub fn get(
        &self,
        point: PointId,
        tool: Option<&ToolName>,
        agent: Option<&AgentId>,
    ) -> Vec<Arc<HookMeta>> {
        self.list().into_iter().filter(|meta| meta.point == point && meta.applies_to(tool, agent)).collect()
    }

    /// Returns all interceptors, point by point, in running order, the built-ins among them: these are the ones whose
    /// [style](HookMeta::style) is another.
    pub fn list(&self) -> Vec<Arc<HookMeta>> {
        let seen = |meta: &HookMeta| meta.style == Style::Interceptor || is_built_in(meta);
        self.registry.list().into_iter().filter(|meta| seen(meta)).collect()
    }

    /// Removes all interceptors; built-ins and hooks of other styles stay.
    pub fn clear(&self) {
        self.change(|_| false);
    }

    fn change(&self, keep: impl Fn(&HookMeta) -> bool) -> bool {
        let keep = |meta: &HookMeta| meta.style != Style::Interceptor || keep(meta);
        let changed: Result<bool, std::convert::Infallible> =
            self.registry.update(|snapshot| Ok(snapshot.retain(keep)));
        changed.unwrap_or_default()
    }

    /// Tells what built-ins did in a dispatch: what they stopped, and messages that they changed. Interceptors tell
    /// it themselves.
    pub(crate) fn report_built_ins(&self, receipt: &Receipt, blocked: Option<&Blocked>, call: &CallContext) {
        let mut told: Vec<&HookId> = Vec::new();
        for step in receipt.steps.iter().filter(|step| is_built_in(&step.hook) && step.proposal_of.is_none())
        {
            if told.contains(&&step.hook.id) {
                // Who judged twice did what it did once.
                continue;
            }
            let HookMeta { id, point, .. } = &*step.hook;
            let stopped = blocked.filter(|blocked| blocked.hook.as_ref() == Some(id));
            let effect = match stopped {
                Some(blocked) => Effect::Blocked {
                    what: receipt.key.tool.as_ref().map_or_else(|| point.to_string(), ToString::to_string),
                    reason: blocked.reason.clone().map(Text::from),
                },
                None if *point == PointId::MessageBefore && step.said == Said::Rewrote => {
                    Effect::Mutated(vec![MESSAGE_MUTATED.to_owned()])
                }
                None => continue,
            };
            told.push(id);
            let event = InterceptorEvent { id: id.clone(), point: *point, effect };
            call.nesting.descend(|| self.listener.tell(&event));
        }
    }

    /// Sets who is told what interceptors do; `None` for nobody.
    pub fn set_on_event(&self, told: Option<OnEvent>) {
        let mut listener = self.listener.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *listener, told);
        drop(listener);
        drop_contained(before);
    }
}

/// The error for an attempt to remove a built-in interceptor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{id}` ships with Backstop and can't be removed as an interceptor\nhint: the configuration decides over it: `plugins.entries.{owner}.enabled`"
)]
pub struct BuiltInInterceptor {
    id: HookId,
    owner: OwnerId,
}

impl BuiltInInterceptor {
    /// Returns which one.
    pub fn id(&self) -> &HookId {
        &self.id
    }
}

/// Returns whether a hook stands where interceptors do, and ships with Backstop.
fn is_built_in(meta: &HookMeta) -> bool {
    const POINTS: [PointId; 4] =
        [PointId::MessageBefore, PointId::ParamsBefore, PointId::ToolBefore, PointId::ToolAfter];
    meta.style != Style::Interceptor && meta.owner.is_builtin() && POINTS.contains(&meta.point)
}

/// What is told of a message that is another one now.
const MESSAGE_MUTATED: &str = "message mutated";

impl fmt::Debug for Interceptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list().iter().map(|meta| &meta.id)).finish()
    }
}

struct Immediate<P, F> {
    id: HookId,
    listener: Arc<Listener>,
    handler: F,
    point: PhantomData<fn() -> P>,
}

impl<P, F> Hook<P> for Immediate<P, F>
where
    P: InterceptPoint,
    F: Fn(&P::Event, &mut P::Output) -> Result<(), HookError> + Send + Sync + 'static,
{
    fn call<'a>(&'a self, event: &'a P::Event, _: Context<'a>) -> Answer<'a, P> {
        let before = P::output(event);
        let mut after = before.clone();
        Answer::Now((self.handler)(event, &mut after).and_then(|()| {
            let outcome = P::outcome(&before, after)?;
            report::<P>(&self.listener, &self.id, event, outcome.as_ref());
            Ok(outcome)
        }))
    }
}

struct Later<P, F> {
    id: HookId,
    listener: Arc<Listener>,
    handler: F,
    point: PhantomData<fn() -> P>,
}

impl<P, F> Hook<P> for Later<P, F>
where
    P: InterceptPoint,
    F: Fn(P::Event, P::Output) -> OutputFuture<P::Output> + Send + Sync + 'static,
{
    fn call<'a>(&'a self, event: &'a P::Event, _: Context<'a>) -> Answer<'a, P> {
        let before = P::output(event);
        Answer::Later(Box::pin(async move {
            let after = (self.handler)(event.clone(), before.clone()).await?;
            let outcome = P::outcome(&before, after)?;
            report::<P>(&self.listener, &self.id, event, outcome.as_ref());
            Ok(outcome)
        }))
    }
}

fn report<P: InterceptPoint>(
    listener: &Listener,
    id: &HookId,
    event: &P::Event,
    outcome: Option<&P::Outcome>,
) {
    if let Some(effect) = outcome.and_then(|outcome| P::effect(event, outcome)) {
        listener.tell(&InterceptorEvent { id: id.clone(), point: <P as Point>::INFO.id, effect });
    }
}
