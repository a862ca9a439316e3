//! Calls that repeat in a loop.
//!
//! A model that is stuck asks for the same tool with the same arguments again and again. The guard counts equal
//! calls of a conversation, in the store, and stops a call that was made too often. Equal means the same tool
//! and the same arguments, whatever their order and spelling as JSON. A call is counted once, by its run and id,
//! however often it is judged.
//!
//! Limits: some models use the id `call_0` in every answer. Their calls are told apart if the host gives them ids of
//! its own, as the agent does, and from turn to turn. In a proxy, which can't change ids, such calls of one turn count
//! once.
//!
//! The count is reset when a conversation is silent for a day.

use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::conversation::ToolCall;
use backstop_hooks::points::{
    AfterLlmCall, AfterLlmCallEvent, AfterLlmCallOutcome, BeforeToolCall, PROVIDER_TOOL, ToolCallEvent,
    ToolCallIds, ToolCallOutcome,
};
use backstop_hooks::{
    AgentId, Answer, ApprovalRequest, CallContext, Context, Digest, Hook, HookError, Params, Reason, RunId,
    SessionId, Severity, ToolCallId, ToolName,
};
use backstop_store::{Charge, Exceeded, ReservationId, ReserveError, Store, Timestamp};

use super::unreachable;

/// How long a conversation remembers what it repeated after the last time.
const MEMORY: Duration = Duration::from_hours(24);

/// What happens to a call that was made too often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopAction {
    /// It is stopped.
    Block,
    /// A human is asked. A proxy, which has nobody to ask, stops it.
    Ask,
}

/// The guard over repeated calls.
#[derive(Clone, Debug)]
pub struct LoopGuard {
    store: Arc<dyn Store>,
    /// How often a call may be made.
    repeats: u64,
    action: LoopAction,
}

/// A call of a conversation.
struct Repeated<'a> {
    call: &'a CallContext,
    run: Option<&'a RunId>,
    id: Option<&'a ToolCallId>,
    tool: &'a ToolName,
    params: &'a Params,
}

impl LoopGuard {
    /// Creates a guard that lets a conversation make the same call `repeats` times.
    pub fn new(store: Arc<dyn Store>, repeats: u64, action: LoopAction) -> Self {
        Self { store, repeats, action }
    }

    pub(super) fn before_tools(&self) -> Arc<dyn Hook<BeforeToolCall>> {
        Arc::new(Tools(self.clone()))
    }

    pub(super) fn after_answers(&self) -> Arc<dyn Hook<AfterLlmCall>> {
        Arc::new(Answers(self.clone()))
    }

    /// Counts a call; returns whether there was room for it.
    async fn count(&self, repeated: &Repeated<'_>) -> Result<bool, HookError> {
        let now = Timestamp::now();
        let charge = Charge {
            counter: repeated.counter().into(),
            since: Timestamp::default(),
            until: Some(now.after(MEMORY)),
            amount: 1,
            limit: self.repeats,
        };
        match self.store.reserve(&repeated.reservation(), vec![charge]).await {
            Ok(()) => Ok(true),
            Err(ReserveError::Exceeded(Exceeded { .. })) => Ok(false),
            Err(ReserveError::Store(error)) => Err(unreachable(&error)),
            Err(error @ ReserveError::TooMany(_)) => Err(HookError::failed(error.to_string())),
        }
    }

    fn reason(&self, tool: &ToolName) -> Reason {
        Reason::new(format!(
            "the conversation has called `{tool}` with the same arguments {} times already [LOOP]; \
             do something else",
            self.repeats
        ))
        .by(["loop.repeated".into()])
    }
}

impl Repeated<'_> {
    fn conversation(&self) -> &str {
        let session = self.call.session_id.as_ref().map(SessionId::as_str);
        session.or(self.run.map(RunId::as_str)).unwrap_or_default()
    }

    fn counter(&self) -> String {
        let agent = self.call.agent_id.as_ref().map(AgentId::as_str).unwrap_or_default();
        let conversation = Digest::of_text("conversation", &format!("{agent}\0{}", self.conversation()));
        let call = serde_json::json!({"tool": self.tool.canonical(), "arguments": &**self.params});
        format!("loop/{}/{}", conversation.short(), Digest::of("repeated_call", &call))
    }

    /// Returns the same for all judgements of one call; a new one for a call that can't be told apart.
    fn reservation(&self) -> ReservationId {
        static NAMELESS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let of = self.counter();
        ReservationId::new(match self.id.filter(|id| !id.is_empty()) {
            Some(id) => {
                let run = self.run.map(RunId::as_str).unwrap_or_default();
                format!("{of}/{}", Digest::of("counted_call", &(run, id.as_str())))
            }
            None => {
                let number = NAMELESS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                format!("{of}/{}-{}-{number}", std::process::id(), Timestamp::now().as_millis())
            }
        })
    }
}

struct Tools(LoopGuard);

impl Hook<BeforeToolCall> for Tools {
    fn call<'a>(&'a self, event: &'a ToolCallEvent, cx: Context<'a>) -> Answer<'a, BeforeToolCall> {
        // The same tools are offered with each request of a conversation.
        if event.tool_kind.as_deref() == Some(PROVIDER_TOOL) && event.tool_call_id.is_none() {
            return Answer::Now(Ok(None));
        }
        Answer::Later(Box::pin(async move {
            let repeated = Repeated {
                call: cx.call,
                run: event.run_id.as_ref().or(cx.call.run_id.as_ref()),
                id: event.tool_call_id.as_ref(),
                tool: &event.tool_name,
                params: &event.params,
            };
            if self.0.count(&repeated).await? {
                return Ok(None);
            }
            let reason = self.0.reason(&event.tool_name);
            Ok(Some(match self.0.action {
                LoopAction::Block => ToolCallOutcome::block(reason),
                LoopAction::Ask => ToolCallOutcome::ask(
                    ApprovalRequest::cut("make the same call once more", &reason).severity(Severity::Warning),
                ),
            }))
        }))
    }
}

struct Answers(LoopGuard);

impl Hook<AfterLlmCall> for Answers {
    fn call<'a>(&'a self, event: &'a AfterLlmCallEvent, cx: Context<'a>) -> Answer<'a, AfterLlmCall> {
        Answer::Later(Box::pin(async move {
            let mut kept = Vec::with_capacity(event.tool_calls.len());
            for call in &event.tool_calls {
                if self.0.passes(call, event, cx.call).await? {
                    kept.push(call.id.clone());
                } else if call.id.is_empty() {
                    // What has no name can't be taken out by name.
                    return Ok(Some(AfterLlmCallOutcome {
                        block: Some(true),
                        block_reason: Some(self.0.reason(&call.tool_name())),
                        ..AfterLlmCallOutcome::default()
                    }));
                }
            }
            let narrowed = kept.len() < event.tool_calls.len();
            Ok(narrowed.then(|| AfterLlmCallOutcome {
                tool_calls: Some(ToolCallIds::new(kept)),
                ..AfterLlmCallOutcome::default()
            }))
        }))
    }
}

impl LoopGuard {
    async fn passes(
        &self,
        call: &ToolCall,
        event: &AfterLlmCallEvent,
        context: &CallContext,
    ) -> Result<bool, HookError> {
        let tool = ToolName::new(&call.name);
        let repeated = Repeated {
            call: context,
            run: Some(&event.run_id),
            id: Some(&call.id),
            tool: &tool,
            params: &call.arguments,
        };
        self.count(&repeated).await
    }
}
