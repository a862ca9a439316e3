//! Verdict hooks: `pre_call` approves, denies, modifies or asks; `post_call` is told the result.
//!
//! There are two families, and a hook belongs to those whose trait it implements. [`ToolCallHook`] judges
//! tool calls (`before_tool_call`) and is told their results (`after_tool_call`). [`LlmCallHook`]
//! judges model calls (`before_llm_call`) and is told the answers (`llm_output`). Both share one
//! lifecycle, [`VerdictHook`]. The configuration file selects them by `type:`, and they run in the order in which they
//! are listed ([`VerdictTypes`](crate::VerdictTypes)). Programs can add their own types. Every law of
//! those points applies to verdict hooks.
//!
//! Limits: nobody can be asked about a model call, so *ask* denies it and says why. Tools can
//! be removed from the offer, not added. The answer or failure of a watcher changes nothing.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use backstop_hooks::conversation::{Message, ToolResult};
use backstop_hooks::points::{
    AfterToolCall, AfterToolCallEvent, BeforeLlmCall, BeforeLlmCallEvent, BeforeLlmCallOutcome,
    BeforeToolCall, LlmOutput, LlmOutputEvent, ToolCallEvent, ToolCallOutcome, ToolNames,
};
use backstop_hooks::{
    Answer, ApprovalRequest, Context, FailurePolicy, Hook, HookError, HookId, Params, Point, PointId,
    SessionId, Text, ToolName,
};

use crate::hook_options::{HookMode, HookOptions, Style};
use crate::hosts::Hosts;
use crate::operator::{Budget, stricter};
use crate::refusal::RegisterError;
use crate::registry::Snapshot;

/// What a verdict hook says about a call. `M` is what it can change about it.
#[derive(Clone, Debug, PartialEq)]
pub enum HookVerdict<M = Params> {
    /// Go on with the next hook.
    Approve,
    /// Stop the call.
    Deny {
        /// Why; shown to the model.
        reasoning: Option<Text>,
    },
    /// Go on with other arguments (the whole object), or with other input for the model.
    Modify(M),
    /// Let a human decide. Nobody can be asked about a model call: there it is denied.
    Ask(Box<ApprovalRequest>),
}

/// What a verdict hook changes about a model call; what is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LlmChanges {
    /// Other messages: the whole list.
    pub messages: Option<Vec<Message>>,
    /// Another system prompt; `""` clears it.
    pub system_prompt: Option<Text>,
    /// The names of the tools to leave on offer. A name that is not on offer adds nothing.
    pub tools: Option<Vec<String>>,
}

/// A tool call, as verdict hooks see it.
#[derive(Clone, Copy, Debug)]
pub struct VerdictCall<'a> {
    /// The tool's name as the model or the client wrote it.
    pub tool_name: &'a str,
    /// Which tool it is: the name as called and the canonical one.
    pub tool: &'a ToolName,
    /// Its arguments.
    pub arguments: &'a Params,
    /// The session.
    pub session_id: Option<&'a SessionId>,
}

/// A model call, as verdict hooks see it.
#[derive(Clone, Copy, Debug)]
pub struct LlmCall<'a> {
    /// What the model is to be asked.
    pub request: &'a BeforeLlmCallEvent,
    /// The session.
    pub session_id: Option<&'a SessionId>,
}

/// A model's answer, as verdict hooks see it: before `after_llm_call` and redactors judge it.
#[derive(Clone, Copy, Debug)]
pub struct LlmAnswer<'a> {
    /// What the model answered.
    pub output: &'a LlmOutputEvent,
}

/// What every verdict hook has, whatever it judges: setup, teardown, a budget, and what its failure means.
#[async_trait]
pub trait VerdictHook: Send + Sync + 'static {
    /// Called once, before the first call, by [`VerdictSet::start`](crate::VerdictSet::start).
    ///
    /// # Errors
    ///
    /// A failure keeps the configuration from loading.
    async fn setup(&self) -> Result<(), HookError> {
        Ok(())
    }

    /// Returns what a failure of this hook means, if it does not deny the call.
    fn on_failure(&self) -> Option<FailurePolicy> {
        None
    }

    /// Returns how long a judgement may take, if the point's default does not fit.
    fn budget(&self) -> Option<Budget> {
        None
    }

    /// Returns whether it judges calls once more with the values of their placeholders in place: only hooks that run in this
    /// process and keep nothing of what they read.
    fn judges_values(&self) -> bool {
        false
    }

    /// Returns hints for people about its configuration, such as names that look like typos.
    fn hints(&self) -> Vec<String> {
        Vec::new()
    }

    /// Called once, after the last call, by
    /// [`RunningVerdicts::stop`](crate::RunningVerdicts::stop).
    async fn teardown(&self) {}
}

/// A verdict hook that judges a tool call before it runs and sees its result afterwards.
#[async_trait]
pub trait ToolCallHook: VerdictHook {
    /// Judges a call.
    ///
    /// # Errors
    ///
    /// A failure denies the call.
    async fn pre_call(&self, call: VerdictCall<'_>) -> Result<HookVerdict, HookError>;

    /// Receives the result of the call.
    ///
    /// # Errors
    ///
    /// A failure is recorded and changes nothing.
    async fn post_call(&self, _call: VerdictCall<'_>, _result: Option<&ToolResult>) -> Result<(), HookError> {
        Ok(())
    }

    /// Returns whether [`Self::post_call`] does anything; hooks that don't watch need not be called.
    fn watches() -> bool
    where
        Self: Sized,
    {
        false
    }
}

/// A verdict hook that judges a model call before it is made and sees the answer afterwards.
#[async_trait]
pub trait LlmCallHook: VerdictHook {
    /// Judges a call.
    ///
    /// # Errors
    ///
    /// A failure denies the call.
    async fn pre_call(&self, call: LlmCall<'_>) -> Result<HookVerdict<LlmChanges>, HookError>;

    /// Receives the answer.
    ///
    /// # Errors
    ///
    /// A failure is recorded and changes nothing.
    async fn post_call(&self, _answer: LlmAnswer<'_>) -> Result<(), HookError> {
        Ok(())
    }

    /// Returns whether [`Self::post_call`] does anything; hooks that don't watch need not be called.
    fn watches() -> bool
    where
        Self: Sized,
    {
        false
    }
}

/// A place where a verdict hook can be registered: one half of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VerdictSlot {
    /// Judges tool calls; a hook that watches also receives their results.
    ToolPreCall,
    /// Only receives the results of tool calls.
    ToolPostCall,
    /// Judges model calls; a hook that watches also receives the answers.
    LlmPreCall,
    /// Only receives the answers of models.
    LlmPostCall,
}

impl fmt::Display for VerdictSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ToolPreCall => "tool_call.pre_call",
            Self::ToolPostCall => "tool_call.post_call",
            Self::LlmPreCall => "llm_call.pre_call",
            Self::LlmPostCall => "llm_call.post_call",
        })
    }
}

/// A type-erased verdict hook, and which of its halves is valid where.
///
/// INVARIANT (nobody stands where it can't judge): the families are those whose trait the type has, so that a
/// hook in a slot is one that is asked there.
#[derive(Clone)]
pub struct AnyVerdictHook {
    life: Arc<dyn VerdictHook>,
    tool_calls: Option<Arc<dyn ToolCallHook>>,
    llm_calls: Option<Arc<dyn LlmCallHook>>,
    watches: Watches,
    placeholder: bool,
}

/// Which calls a hook wants to be told about.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watches {
    pub(crate) tool_calls: bool,
    pub(crate) llm_calls: bool,
}

impl AnyVerdictHook {
    /// Creates a hook that judges tool calls.
    pub fn for_tool_calls<H: ToolCallHook>(hook: Arc<H>) -> Self {
        Self {
            life: Arc::clone(&hook) as Arc<dyn VerdictHook>,
            tool_calls: Some(hook),
            llm_calls: None,
            watches: Watches { tool_calls: H::watches(), llm_calls: false },
            placeholder: false,
        }
    }

    /// Creates a hook that judges model calls.
    pub fn for_llm_calls<H: LlmCallHook>(hook: Arc<H>) -> Self {
        Self {
            life: Arc::clone(&hook) as Arc<dyn VerdictHook>,
            tool_calls: None,
            llm_calls: Some(hook),
            watches: Watches { tool_calls: false, llm_calls: H::watches() },
            placeholder: false,
        }
    }

    /// Creates a hook that judges both.
    pub fn for_all_calls<H: ToolCallHook + LlmCallHook>(hook: Arc<H>) -> Self {
        Self {
            life: Arc::clone(&hook) as Arc<dyn VerdictHook>,
            tool_calls: Some(Arc::clone(&hook) as Arc<dyn ToolCallHook>),
            llm_calls: Some(hook),
            watches: Watches {
                tool_calls: <H as ToolCallHook>::watches(),
                llm_calls: <H as LlmCallHook>::watches(),
            },
            placeholder: false,
        }
    }

    /// Permits the hook in a list of watchers too, although it watches nothing: it documents that nothing was
    /// forgotten there.
    #[must_use]
    pub fn placeholder(mut self) -> Self {
        self.placeholder = true;
        self
    }

    /// Returns the slots in which the hook is valid.
    pub fn slots(&self) -> impl Iterator<Item = VerdictSlot> + use<> {
        slots(self.tool_calls.is_some(), self.llm_calls.is_some(), self.watches, self.placeholder)
    }

    /// Returns its setup, teardown, budget and what its failure means.
    pub fn life(&self) -> &Arc<dyn VerdictHook> {
        &self.life
    }

    /// Registers the hook in a snapshot. In a slot of `pre_call`, a hook that watches also receives the results of the calls,
    /// under its id with the suffix `:post`, if a host of this process shows them; otherwise a
    /// [hint](HookOptions::hints) says so. If both the options and the hook have a failure policy,
    /// the stricter one applies.
    ///
    /// # Errors
    ///
    /// [`RegisterError`] if it can't be registered there, [`RegisterError::Slot`] if it would have no effect there.
    pub fn register(
        &self,
        slot: VerdictSlot,
        snapshot: &mut Snapshot,
        options: HookOptions,
    ) -> Result<HookId, RegisterError> {
        let options = HookOptions { style: Style::Verdict, ..options };
        // Not to be told is no failure of a judge, and yet it is to be known.
        let untold = |watches: bool, point: PointId, hosts: &Hosts| {
            (watches && !hosts.does_fire(point)).then(|| {
                let (here, elsewhere) = (hosts.names(), hosts.fired_elsewhere(point));
                let who =
                    if elsewhere.is_empty() { String::new() } else { format!("; these do: {elsewhere}") };
                format!(
                    "it judges calls and is not told what came of them: {here} never fires `{point}`{who}"
                )
            })
        };
        let judging = |options: HookOptions, untold: Option<String>| HookOptions {
            on_failure: match (options.on_failure, self.life.on_failure()) {
                (Some(chosen), Some(own)) => Some(stricter(chosen, own)),
                (chosen, own) => chosen.or(own),
            },
            timeout: options.timeout.or_else(|| self.life.budget()),
            hints: self.life.hints().into_iter().chain(untold).collect(),
            judges_values: Some(options.judges_values.unwrap_or_else(|| self.life.judges_values())),
            ..options
        };
        let Watches { tool_calls, llm_calls } = self.watches;
        match (slot, &self.tool_calls, &self.llm_calls) {
            (VerdictSlot::ToolPreCall, Some(hook), _) => {
                let pre = Arc::new(ToolPre(Arc::clone(hook)));
                let untold = untold(tool_calls, PointId::AfterToolCall, snapshot.hosts());
                let id = snapshot.on::<BeforeToolCall>(pre, judging(options.clone(), untold))?;
                if tool_calls && snapshot.hosts().does_fire(PointId::AfterToolCall) {
                    watch::<AfterToolCall>(snapshot, ToolPost(Arc::clone(hook)), behind(&id, options))?;
                }
                Ok(id)
            }
            (VerdictSlot::ToolPostCall, Some(hook), _) if tool_calls || self.placeholder => {
                watch::<AfterToolCall>(snapshot, ToolPost(Arc::clone(hook)), options)
            }
            (VerdictSlot::LlmPreCall, _, Some(hook)) => {
                let pre = Arc::new(LlmPre(Arc::clone(hook)));
                let untold = untold(llm_calls, PointId::LlmOutput, snapshot.hosts());
                let id = snapshot.on::<BeforeLlmCall>(pre, judging(options.clone(), untold))?;
                if llm_calls && snapshot.hosts().does_fire(PointId::LlmOutput) {
                    watch::<LlmOutput>(snapshot, LlmPost(Arc::clone(hook)), behind(&id, options))?;
                }
                Ok(id)
            }
            (VerdictSlot::LlmPostCall, _, Some(hook)) if llm_calls || self.placeholder => {
                watch::<LlmOutput>(snapshot, LlmPost(Arc::clone(hook)), options)
            }
            _ => Err(RegisterError::Slot { slot, possible: self.slots().collect() }),
        }
    }
}

impl fmt::Debug for AnyVerdictHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.slots()).finish()
    }
}

pub(crate) fn slots(
    tool_calls: bool,
    llm_calls: bool,
    watches: Watches,
    placeholder: bool,
) -> impl Iterator<Item = VerdictSlot> + use<> {
    [
        (VerdictSlot::ToolPreCall, tool_calls),
        (VerdictSlot::ToolPostCall, tool_calls && (watches.tool_calls || placeholder)),
        (VerdictSlot::LlmPreCall, llm_calls),
        (VerdictSlot::LlmPostCall, llm_calls && (watches.llm_calls || placeholder)),
    ]
    .into_iter()
    .filter_map(|(slot, can)| can.then_some(slot))
}

/// Returns the options of the watching half of a hook that also judges.
fn behind(id: &HookId, options: HookOptions) -> HookOptions {
    let mode = HookMode::Enforce;
    HookOptions { on_failure: None, timeout: None, rewrite: None, mode, ..options }.id(format!("{id}:post"))
}

fn watch<P: Point>(
    snapshot: &mut Snapshot,
    hook: impl Hook<P>,
    options: HookOptions,
) -> Result<HookId, RegisterError> {
    // The budget of a notification is its own: 5 s, whatever observers have.
    let budget = Budget::from_millis(5_000).ok();
    snapshot.on::<P>(Arc::new(hook), HookOptions { timeout: options.timeout.or(budget), ..options })
}

struct ToolPre(Arc<dyn ToolCallHook>);

impl Hook<BeforeToolCall> for ToolPre {
    fn call<'a>(&'a self, event: &'a ToolCallEvent, cx: Context<'a>) -> Answer<'a, BeforeToolCall> {
        Answer::Later(Box::pin(async move {
            let call = VerdictCall {
                tool_name: event.tool_name.called(),
                tool: &event.tool_name,
                arguments: &event.params,
                session_id: cx.call.session_id.as_ref(),
            };
            Ok(match self.0.pre_call(call).await? {
                HookVerdict::Approve => None,
                HookVerdict::Deny { reasoning } => Some(ToolCallOutcome {
                    block: Some(true),
                    block_reason: reasoning.map(Into::into),
                    ..ToolCallOutcome::default()
                }),
                HookVerdict::Modify(arguments) => Some(ToolCallOutcome::rewrite(arguments)),
                HookVerdict::Ask(request) => Some(ToolCallOutcome::ask(*request)),
            })
        }))
    }
}

struct ToolPost(Arc<dyn ToolCallHook>);

impl Hook<AfterToolCall> for ToolPost {
    fn call<'a>(&'a self, event: &'a AfterToolCallEvent, cx: Context<'a>) -> Answer<'a, AfterToolCall> {
        Answer::Later(Box::pin(async move {
            let call = VerdictCall {
                tool_name: event.tool_name.called(),
                tool: &event.tool_name,
                arguments: &event.params,
                session_id: cx.call.session_id.as_ref(),
            };
            self.0.post_call(call, event.result.as_ref()).await?;
            Ok(None)
        }))
    }
}

struct LlmPre(Arc<dyn LlmCallHook>);

impl Hook<BeforeLlmCall> for LlmPre {
    fn call<'a>(&'a self, event: &'a BeforeLlmCallEvent, cx: Context<'a>) -> Answer<'a, BeforeLlmCall> {
        Answer::Later(Box::pin(async move {
            let call = LlmCall { request: event, session_id: cx.call.session_id.as_ref() };
            Ok(match self.0.pre_call(call).await? {
                HookVerdict::Approve => None,
                HookVerdict::Deny { reasoning } => Some(denied(reasoning)),
                HookVerdict::Modify(LlmChanges { messages, system_prompt, tools }) => {
                    Some(BeforeLlmCallOutcome {
                        messages,
                        system_prompt,
                        tools: tools.map(ToolNames::new),
                        ..BeforeLlmCallOutcome::default()
                    })
                }
                // A model call has no place where a human could be asked: what would wait for a yes is a no.
                HookVerdict::Ask(request) => Some(denied(Some(unasked(&request)))),
            })
        }))
    }
}

/// Returns why a model call is denied that somebody should have been asked about.
fn unasked(request: &ApprovalRequest) -> Text {
    let (title, description) = (request.title(), request.description());
    let colon = if description.is_empty() { "" } else { ": " };
    format!("{title}{colon}{description} (nobody can be asked about a model call, so it is denied)").into()
}

fn denied(reasoning: Option<Text>) -> BeforeLlmCallOutcome {
    BeforeLlmCallOutcome {
        block: Some(true),
        block_reason: reasoning.map(Into::into),
        ..BeforeLlmCallOutcome::default()
    }
}

struct LlmPost(Arc<dyn LlmCallHook>);

impl Hook<LlmOutput> for LlmPost {
    fn call<'a>(&'a self, event: &'a LlmOutputEvent, _: Context<'a>) -> Answer<'a, LlmOutput> {
        Answer::Later(Box::pin(async move {
            self.0.post_call(LlmAnswer { output: event }).await?;
            Ok(None)
        }))
    }
}
