//! Inspects live traffic with hooks.
//!
//! [`Hooks`] implements the gateway's [`Interceptor`] and takes requests and answers through
//! the hook points of an LLM proxy:
//!
//! ```text
//! request   message.before ► before_llm_call ► llm_input, model_call_started ► provider
//! answer    tool.after ► model_call_ended, llm_output ► after_llm_call ► before_response_emit ► client
//! ```
//!
//! Beside them it tells the life of the server and of the conversations that pass it: `gateway_start`, `gateway_stop`,
//! `session_start`, `session_end`.
//!
//! - *No hook, no look.* While no hook stands at any of these points, requests and answers pass undecoded.
//! - *Nothing unjudged.* While hooks stand that may stop or rewrite something, what can't be read is refused:
//!   a request that is no request of its wire, an operation that is neither listed nor opened by
//!   the operator, an answer that makes no sense.
//! - *A block is an answer.* It is no failure of the provider, so nothing is asked again because of it.
//! - *Decisions stay.* What `after_llm_call` decided about tool calls is in the store, by conversation and
//!   call, for whoever stands in front of the tools.

#[cfg(test)]
mod answer_walk_tests;
mod approvals;
mod batched;
mod batches;
mod bounded;
mod charset;
mod document;
#[cfg(test)]
mod document_walk_tests;
mod exchange;
mod fields;
mod files;
mod form;
mod gate;
mod heads;
mod held;
mod housekeeping;
mod identity;
mod incoming;
mod judge;
mod kept;
mod known;
mod life;
mod lines;
mod listed;
mod names;
mod number;
mod numbers;
mod offers;
mod owed;
mod parts;
mod profile;
mod refusal;
mod reply;
#[cfg(test)]
mod request_walk_tests;
mod results;
mod settings;
#[cfg(test)]
mod tests;
mod text;
mod usage;
#[cfg(test)]
mod walk_tests;
mod watch;

use std::fmt;
use std::sync::Arc;

use backstop_engine::{Engine, ResponseGate};
use backstop_hooks::points::{
    AfterLlmCall, BeforeLlmCall, LlmInput, LlmOutput, MessageBefore, ModelCallEnded, ModelCallStarted,
    SessionEnd, SessionStart, ToolAfter,
};
use backstop_hooks::{AgentId, CallContext};

use self::approvals::Approvals;
use self::batched::Batched;
use self::batches::BatchExchange;
use self::exchange::InspectedExchange;
use self::files::{AnswerFiles, JudgedFiles};
use self::form::Form;
use self::gate::Remembered;
use self::housekeeping::Housekeeping;
use self::identity::{Links, Names};
use self::judge::Gates;
use self::known::KnownConversations;
use self::life::Conversations;
use self::listed::ListedExchange;
use self::owed::Owed;
use self::refusal::Refusal;
use self::watch::Room;
use crate::error::Failure;
use crate::exchange::{Call, Interceptor, NotReady, Plan, Readiness};
use crate::operations::Permission;

pub(crate) use self::heads::trace_parent;
pub(crate) use self::identity::SESSION_HEADERS;
pub use self::profile::{api_profile, host_profile};
pub use self::settings::{BlockedForm, HookSettings, TextMode, ToolCalls, Unasked, UnjudgedMedia};

/// The operator asked for something that the hooks that stand make impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unenforceable {
    /// Text is to leave before it is whole, and a hook wants the whole.
    #[error(
        "`gateway.hooks.text: window` is impossible: a hook at `before_response_emit` judges whole answers\nhint: `hold`, or leave the key out"
    )]
    Window,
}

/// The hooks of an engine as the [`Interceptor`] of a gateway.
#[derive(Clone)]
pub struct Hooks(Arc<Shared>);

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hooks").field(&self.0.settings).finish()
    }
}

/// What all exchanges share.
#[derive(Debug)]
struct Shared {
    engine: Engine,
    settings: HookSettings,
    links: Arc<Links>,
    owed: Arc<Owed>,
    approvals: Arc<Approvals>,
    batched: Arc<Batched>,
    judged_files: JudgedFiles,
    answer_files: Arc<AnswerFiles>,
    remembered: Remembered,
    known: KnownConversations,
    housekeeping: Housekeeping,
    conversations: Arc<Conversations>,
    room: Room,
    under_way: UnderWay,
}

/// Held by what hooks still do beside requests, so that nobody takes them down meanwhile.
#[derive(Clone, Debug, Default)]
struct UnderWay(Arc<()>);

/// Which hook points had hooks when an exchange began.
#[derive(Clone, Copy, Debug)]
struct ActiveHooks {
    /// `message.before` or `before_llm_call`.
    request: bool,
    /// The gates of tool calls, by which offers of tools, and what clients approve, are judged whoever judges the calls.
    offers: bool,
    /// `after_llm_call`, or the gates of tool calls.
    calls: bool,
    /// `before_response_emit`.
    emit: ResponseGate,
    /// `tool.after`.
    results: bool,
    /// Any that only watch.
    watch: bool,
}

impl Hooks {
    /// The hooks of `engine`.
    ///
    /// # Errors
    /// [`Unenforceable`] if the settings ask for what can't be done with the hooks that stand.
    pub fn new(engine: Engine, settings: HookSettings) -> Result<Self, Unenforceable> {
        Self::with(engine, settings, None)
    }

    /// The hooks of another engine in the place of these: conversations that pass go on. What these judge already they judge to
    /// its end.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn renewed(&self, engine: Engine, settings: HookSettings) -> Result<Self, Unenforceable> {
        Self::with(engine, settings, Some(&self.0))
    }

    /// Returns whether nothing is judged or watched by these any more, once nobody brings them requests.
    pub fn are_idle(&self) -> bool {
        Arc::strong_count(&self.0) == 1 && Arc::strong_count(&self.0.under_way.0) == 1
    }

    fn with(engine: Engine, settings: HookSettings, before: Option<&Shared>) -> Result<Self, Unenforceable> {
        if settings.text == Some(TextMode::Window) && engine.response_gate() == ResponseGate::Whole {
            return Err(Unenforceable::Window);
        }
        let names = Names::keyed(engine.store().digest_key());
        let shared = Shared {
            engine,
            settings,
            links: before.map_or_else(|| Arc::new(Links::naming(names)), |before| Arc::clone(&before.links)),
            owed: before.map_or_else(Arc::default, |before| Arc::clone(&before.owed)),
            approvals: before
                .map_or_else(Arc::default, |before| Arc::new(before.approvals.unjudged_by_others())),
            batched: before.map_or_else(Arc::default, |before| Arc::clone(&before.batched)),
            // What other hooks let through these would have to judge.
            judged_files: JudgedFiles::default(),
            answer_files: before.map_or_else(Arc::default, |before| Arc::clone(&before.answer_files)),
            remembered: Remembered::default(),
            known: KnownConversations::default(),
            housekeeping: Housekeeping::default(),
            conversations: before.map_or_else(Arc::default, |before| Arc::clone(&before.conversations)),
            room: before.map_or_else(Room::default, |before| before.room.clone()),
            under_way: UnderWay::default(),
        };
        let shared = Arc::new(shared);
        shared.conversations.told_to(&shared);
        Ok(Self(shared))
    }
}

impl Shared {
    /// Returns which hook points have hooks now.
    fn active_hooks(&self) -> ActiveHooks {
        let engine = &self.engine;
        ActiveHooks {
            request: engine.has_hooks::<MessageBefore>() || engine.has_hooks::<BeforeLlmCall>(),
            offers: engine.has_tool_gates(),
            calls: engine.has_hooks::<AfterLlmCall>()
                || self.settings.tool_calls != ToolCalls::Leave && engine.has_tool_gates(),
            emit: engine.response_gate(),
            results: engine.has_hooks::<ToolAfter>(),
            watch: engine.has_hooks::<LlmInput>()
                || engine.has_hooks::<LlmOutput>()
                || engine.has_hooks::<ModelCallStarted>()
                || engine.has_hooks::<ModelCallEnded>()
                || engine.has_hooks::<SessionStart>()
                || engine.has_hooks::<SessionEnd>(),
        }
    }
}

impl ActiveHooks {
    /// Returns whether a hook may block or rewrite something.
    fn decides(self) -> bool {
        self.offers || self.judges_texts()
    }

    /// Returns whether a hook may block or rewrite something but the tools that are offered.
    fn judges_texts(self) -> bool {
        self.request || self.gates_answers()
    }

    /// Returns whether a hook may deny what a client approves: the provider runs it, whoever judges the calls of answers.
    fn judges_approvals(self) -> bool {
        self.calls || self.offers
    }

    /// Returns whether all hooks that may deny a call, or ask about it, do so in the answer that holds it.
    fn settles_calls(self, tool_calls: ToolCalls) -> bool {
        let asks = matches!(tool_calls, ToolCalls::Judge(Unasked::Deny | Unasked::Wait));
        self.calls && (asks || !self.offers)
    }

    fn gates_answers(self) -> bool {
        self.calls || self.results || self.emit != ResponseGate::Open
    }

    fn is_empty(self) -> bool {
        !self.decides() && !self.watch
    }

    /// Returns what answers are judged by, or `None` if no hook judges them.
    fn gates(self, settings: &HookSettings) -> Option<Gates> {
        self.gates_answers().then_some(Gates {
            calls: self.calls,
            tool_calls: settings.tool_calls,
            emit: self.emit,
            results: self.results,
            text: settings.text,
            call_bytes: settings.call_bytes,
            answer_bytes: settings.answer_bytes,
        })
    }
}

impl Interceptor for Hooks {
    fn ready(&self) -> Readiness<'_> {
        Box::pin(async {
            self.0.engine.store().check_writable().await.map_err(|error| {
                tracing::warn!(%error, "not ready: where decisions are kept can't be written");
                NotReady::Store
            })
        })
    }

    fn decides(&self) -> bool {
        self.0.active_hooks().decides()
    }

    fn engine(&self) -> Option<&Engine> {
        Some(&self.0.engine)
    }

    fn withholds(&self, agent: Option<&AgentId>, words: &[&str]) -> Vec<usize> {
        let Some(gates) = self.0.active_hooks().gates(&self.0.settings) else { return Vec::new() };
        let call = CallContext { agent_id: agent.cloned(), ..CallContext::default() };
        names::withheld(&self.0.engine, &call, &gates, words)
    }

    fn passes_media(&self) -> bool {
        !self.0.active_hooks().judges_texts() || self.0.settings.unjudged_media == UnjudgedMedia::Pass
    }

    fn begin(&self, call: &Call<'_>) -> Plan {
        let active_hooks = self.0.active_hooks();
        if active_hooks.is_empty() {
            return Plan::Opaque;
        }
        let refusal = || {
            let error = Failure::closed(call.method, call.path).to_provider_error();
            Plan::Inspect(Box::new(Refusal(reply::error(call.endpoint.family, &error))))
        };
        // Whoever is asked may take it for another request than the one that would be judged.
        if active_hooks.decides() && call.permission == Permission::Closed {
            return refusal();
        }
        if let Some(batch) = BatchExchange::of(&self.0, active_hooks, call) {
            return Plan::Inspect(Box::new(batch));
        }
        if active_hooks.decides()
            && let Some(exchange) = files::exchange(&self.0, active_hooks, call)
        {
            return Plan::Inspect(exchange);
        }
        if active_hooks.decides()
            && let Some(listed) = ListedExchange::of(&self.0, active_hooks, call)
        {
            return Plan::Inspect(Box::new(listed));
        }
        if let Some(form) = Form::of(call) {
            return Plan::Inspect(Box::new(InspectedExchange::new(
                Arc::clone(&self.0),
                active_hooks,
                form,
                call,
            )));
        }
        if active_hooks.decides() && call.permission == Permission::Read {
            return refusal();
        }
        Plan::Opaque
    }
}
