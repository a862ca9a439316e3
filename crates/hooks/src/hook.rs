//! The `Hook` trait: one handler at one point.
//!
//! A hook gets an event that it can only read, and answers with its point's outcome, with nothing, or
//! with an error. It can answer immediately ([`Answer::Now`], no allocation) or later ([`Answer::Later`]).
//! The runner bounds the time, catches panics and validates the answer. A hook that returns an error has *failed*, and at gates
//! that blocks. A hook must not block its thread, because its budget cancels it by dropping its future.
//!
//! Most authors write a closure:
//!
//! ```
//! use backstop_hooks::points::BeforeToolCall;
//! use backstop_hooks::{hook_fn, Outcome};
//! use backstop_hooks::points::ToolCallOutcome;
//!
//! let no_sudo = hook_fn::<BeforeToolCall, _>(|event, _cx| {
//!     let sudo = event.params.get("command").is_some_and(|c| c.as_str().is_some_and(|c| c.contains("sudo")));
//!     Ok(sudo.then(|| ToolCallOutcome::block("sudo is not allowed")))
//! });
//! # let _ = no_sudo;
//! ```

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::batch::Membership;
use crate::evidence::{Evidence, Fact};
use crate::forms::Forms;
use crate::front_end::FrontEnd;
use crate::id::{AgentId, RunId, SessionId, SessionKey};
use crate::nesting::Nesting;
use crate::outcome::{Malformed, Outcome, record};
use crate::point::{Point, PointId};
use crate::sight::Sight;
use crate::trace::Trace;
use crate::value::Json;

record! {
    /// Facts about the call that are the same for every hook at a point: who acts, in which session,
    /// on whose behalf. In JSON it is the event's `context`.
    #[derive(Default)]
    pub struct CallContext {
        /// The agent.
        agent_id?: AgentId,
        /// The conversation.
        session_key?: SessionKey,
        /// The stretch of the conversation.
        session_id?: SessionId,
        /// The turn.
        run_id?: RunId,
        /// The scheduled job that started the run.
        job_id?: String,
        /// What started the run.
        trigger?: Trigger,
        /// The conversation's place in a channel (a chat, a thread).
        channel_id?: String,
        /// The channel's kind (`terminal`, `slack`, ...).
        message_provider?: String,
        /// The folder the agent works in.
        workspace_dir?: String,
        /// Who asked for the call, as far as the host could prove it.
        requester?: Requester,
        /// For correlating with traces.
        trace?: Trace,
        /// How many hooks the call is inside of. It is set by making or copying the context, in no other way.
        #[serde(skip)]
        nesting: Nesting,
        /// Through what it is seen.
        #[serde(skip)]
        front_end: FrontEnd,
        /// Through whose eyes the disk around the call is seen.
        #[serde(skip)]
        sight: Sight,
        /// Until when the caller waits for the answer, as far as the host knows. What may be left out is cut short for it.
        #[serde(skip)]
        answer_by: Option<Instant>,
    }
}

/// What started a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Trigger {
    /// A human's message.
    User,
    /// A schedule.
    Cron,
    /// The background monitor.
    Heartbeat,
    /// Another agent.
    Agent,
}

record! {
    /// Who asked, derived by the host. What is missing is unproven.
    #[derive(Default)]
    pub struct Requester {
        /// The channel.
        channel?: String,
        /// The account on that channel.
        account_id?: String,
        /// The sender.
        sender_id?: String,
        /// Whether the sender owns this agent.
        sender_is_owner?: bool,
        /// Roles of the sender.
        role_ids?: Vec<String>,
    }
}

impl Requester {
    /// The channel of whoever speaks to an agent on the terminal on which it runs.
    pub const TERMINAL: &'static str = "terminal";
    /// The channel of whoever speaks to an agent in the console of its server. Their account there is the issuer that vouches for them; without
    /// one, they are a user of access tokens.
    pub const CONSOLE: &'static str = "console";

    /// Returns whether that is whoever runs the agent: nobody else writes on its terminal.
    pub fn is_at_terminal(&self) -> bool {
        self.channel.as_deref() == Some(Self::TERMINAL) && self.sender_id.is_none()
    }
}

/// What a hook is given besides its event: the shared facts, and what is its own.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The shared facts.
    pub call: &'a CallContext,
    /// The configuration of the hook's owner. Each owner sees only its own.
    pub plugin_config: &'a Json,
    /// When the runner stops waiting; `None` in tests that run a hook by hand.
    pub deadline: Option<Instant>,
    /// Where the hook names what its answer rests on besides the event; `None` where nothing is done with the answer later.
    pub evidence: Option<&'a Evidence>,
    /// Other forms of the event, for hooks that make one; `None` where nobody else is asked about it.
    pub forms: Option<&'a Forms>,
}

impl Context<'_> {
    /// Reports something that the answer depends on: if it has changed by the time the answer is acted upon, the answer no
    /// longer counts.
    pub fn rests_on(&self, fact: Fact) {
        if let Some(evidence) = self.evidence {
            evidence.add(fact);
        }
    }

    /// Returns how much of the hook's budget is left.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }
}

/// What a hook says: an outcome, or `None` for no opinion.
pub type HookResult<P> = Result<Option<<P as Point>::Outcome>, HookError>;

/// An answer that is still being worked on.
pub type HookFuture<'a, P> = Pin<Box<dyn Future<Output = HookResult<P>> + Send + 'a>>;

/// A hook's answer, now or later.
pub enum Answer<'a, P: Point> {
    /// Already known.
    Now(HookResult<P>),
    /// Being worked on; dropped when the budget is used up.
    Later(HookFuture<'a, P>),
}

impl<P: Point> fmt::Debug for Answer<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Now(_) => "Answer::Now",
            Self::Later(_) => "Answer::Later",
        })
    }
}

/// One handler at the point `P`.
pub trait Hook<P: Point>: Send + Sync + 'static {
    /// Judges, rewrites or watches one event.
    fn call<'a>(&'a self, event: &'a P::Event, cx: Context<'a>) -> Answer<'a, P>;

    /// Returns how busy the hook is, if it has threads or connections of its own with a bound. It is
    /// reported when the hook did not answer in time.
    fn load(&self) -> Option<HookLoad> {
        None
    }

    /// Returns the batch in which the hook can be asked together with its neighbours, if it is in one. It is read when the hook
    /// is registered.
    fn membership(&self) -> Option<Membership<P>> {
        None
    }
}

/// How busy a hook is that has a bound of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HookLoad {
    /// How many of its calls are being worked on.
    pub running: usize,
    /// How many of these nobody waits for any more, because their budget is used up.
    pub overdue: usize,
    /// How many wait for their turn.
    pub waiting: usize,
}

impl fmt::Display for HookLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { running, overdue, waiting } = self;
        write!(
            f,
            "{running} of its calls are running, {overdue} of them beyond their budget, and {waiting} wait"
        )
    }
}

/// Why a hook has no answer. At gates and mutators each of these blocks, unless the operator chose
/// otherwise for this hook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HookError {
    /// The hook says that it failed.
    #[error("{0}")]
    Failed(String),
    /// What the hook depends on (a server, a process) can't be reached.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// The hook noticed itself that it would not answer in its time.
    #[error("{0}")]
    TimedOut(String),
    /// The hook answered something that is not an outcome of its point.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Too many of its calls are under way already; this one was not taken on.
    #[error("overloaded: {0}")]
    Overloaded(String),
    /// Its code panicked, on a thread or in a process of its own.
    #[error("the hook panicked")]
    Panicked,
}

impl HookError {
    /// Creates a failure in the hook's own words. They end up in receipts: no secrets.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::Failed(message.to_string())
    }
}

struct SyncFn<F>(F);

impl<P, F> Hook<P> for SyncFn<F>
where
    P: Point,
    F: Fn(&P::Event, Context<'_>) -> HookResult<P> + Send + Sync + 'static,
{
    fn call<'a>(&'a self, event: &'a P::Event, cx: Context<'a>) -> Answer<'a, P> {
        Answer::Now((self.0)(event, cx))
    }
}

/// Creates a hook from a closure that answers immediately.
pub fn hook_fn<P, F>(f: F) -> Arc<dyn Hook<P>>
where
    P: Point,
    F: Fn(&P::Event, Context<'_>) -> HookResult<P> + Send + Sync + 'static,
{
    Arc::new(SyncFn(f))
}

struct AsyncFn<F>(F);

impl<P, F, Fut> Hook<P> for AsyncFn<F>
where
    P: Point,
    F: Fn(P::Event, OwnedContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = HookResult<P>> + Send + 'static,
{
    fn call<'a>(&'a self, event: &'a P::Event, cx: Context<'a>) -> Answer<'a, P> {
        Answer::Later(Box::pin((self.0)(event.clone(), cx.to_owned())))
    }
}

/// The context for a future that outlives the borrow.
#[derive(Clone, Debug)]
pub struct OwnedContext {
    /// The shared facts.
    pub call: CallContext,
    /// The configuration of the hook's owner.
    pub plugin_config: Json,
    /// When the runner stops waiting.
    pub deadline: Option<Instant>,
    /// Where the hook names what its answer rests on.
    pub evidence: Option<Evidence>,
}

impl OwnedContext {
    /// Like [`Context::rests_on`].
    pub fn rests_on(&self, fact: Fact) {
        if let Some(evidence) = &self.evidence {
            evidence.add(fact);
        }
    }
}

impl Context<'_> {
    /// Returns a copy without a lifetime.
    pub fn to_owned(self) -> OwnedContext {
        OwnedContext {
            call: self.call.clone(),
            plugin_config: self.plugin_config.clone(),
            deadline: self.deadline,
            evidence: self.evidence.cloned(),
        }
    }
}

/// Creates a hook from a closure that returns a future. The event is cloned for it, which shares the values.
pub fn async_hook_fn<P, F, Fut>(f: F) -> Arc<dyn Hook<P>>
where
    P: Point,
    F: Fn(P::Event, OwnedContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = HookResult<P>> + Send + 'static,
{
    Arc::new(AsyncFn(f))
}

/// A hook that is not written in Rust: it speaks the JSON form at any point.
///
/// The event is the point's event with the shared facts under `context` (`context.pluginConfig` is the
/// owner's configuration); the answer is the point's outcome or `null`.
pub trait JsonHook: Send + Sync + 'static {
    /// Answers one event.
    fn call<'a>(&'a self, point: PointId, event: Value) -> JsonFuture<'a>;
}

/// The answer of a [`JsonHook`].
pub type JsonFuture<'a> = Pin<Box<dyn Future<Output = Result<Value, HookError>> + Send + 'a>>;

struct JsonAdapter<H: ?Sized>(Arc<H>);

impl<P: Point, H: JsonHook + ?Sized> Hook<P> for JsonAdapter<H> {
    fn call<'a>(&'a self, event: &'a P::Event, cx: Context<'a>) -> Answer<'a, P> {
        Answer::Later(Box::pin(async move {
            let answer = self.0.call(P::INFO.id, event_json::<P>(event, cx)).await?;
            Ok(P::Outcome::from_json(answer)?)
        }))
    }
}

/// Adapts a JSON hook to the point `P`.
pub fn json_hook<P: Point>(hook: Arc<dyn JsonHook>) -> Arc<dyn Hook<P>> {
    Arc::new(JsonAdapter(hook))
}

/// Returns the JSON form of an event, with its context.
pub fn event_json<P: Point>(event: &P::Event, cx: Context<'_>) -> Value {
    // Events are plain records of the contract; all of them have a JSON form.
    let mut value = serde_json::to_value(event).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        let mut context = serde_json::to_value(cx.call).unwrap_or_default();
        if let Value::Object(context) = &mut context {
            context.insert("pluginConfig".to_owned(), cx.plugin_config.to_value());
        }
        fields.insert("context".to_owned(), context);
    }
    value
}
