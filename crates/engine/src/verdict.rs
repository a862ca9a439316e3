//! Verdict hooks: `pre_call` approves, denies or modifies a tool call; `post_call` is told the result.
//!
//! They are chosen by `type:` in the configuration file, in the order in which they stand there. A type
//! is a factory in [`VerdictTypes`]; programs add their own. In the registry a verdict hook stands at
//! `before_tool_call` and `after_tool_call`, so every law that holds there holds for it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use backstop_hooks::conversation::ToolResult;
use backstop_hooks::points::{AfterToolCall, BeforeToolCall, ToolCallOutcome};
use backstop_hooks::{
    Answer, Context, FailurePolicy, Hook, HookError, HookId, Malformed, Params, SessionId, Text, ToolName,
};
use serde_json::Value;

use crate::operator::Budget;
use crate::registry::{HookOptions, RegisterError, Snapshot, Style};

/// What a verdict hook says about a call.
#[derive(Clone, Debug, PartialEq)]
pub enum HookVerdict {
    /// Go on with the next hook.
    Approve,
    /// Stop the call.
    Deny {
        /// Why; shown to the model.
        reasoning: Option<Text>,
    },
    /// Go on with other arguments.
    Modify {
        /// The arguments: the whole object.
        modified_arguments: Params,
    },
}

/// A tool call, as verdict hooks see it.
#[derive(Clone, Copy, Debug)]
pub struct VerdictCall<'a> {
    /// The tool.
    pub tool_name: &'a ToolName,
    /// Its arguments.
    pub arguments: &'a Params,
    /// The session.
    pub session_id: Option<&'a SessionId>,
}

/// A hook with an opinion before a tool runs and an eye on it afterwards.
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

    /// Judges a call.
    ///
    /// # Errors
    ///
    /// A failure denies the call.
    async fn pre_call(&self, call: VerdictCall<'_>) -> Result<HookVerdict, HookError>;

    /// Is told how the call went.
    ///
    /// # Errors
    ///
    /// A failure is recorded and changes nothing.
    async fn post_call(&self, _call: VerdictCall<'_>, _result: Option<&ToolResult>) -> Result<(), HookError> {
        Ok(())
    }

    /// Whether [`Self::post_call`] does anything; hooks that don't watch need not be called.
    fn watches(&self) -> bool {
        false
    }

    /// What a failure of this hook means, where it is not that the call is denied.
    fn on_failure(&self) -> Option<FailurePolicy> {
        None
    }

    /// How long a judgement may take, where the point's default does not fit.
    fn budget(&self) -> Option<Budget> {
        None
    }

    /// Called once, when no call will come any more, by
    /// [`RunningVerdicts::stop`](crate::RunningVerdicts::stop).
    async fn teardown(&self) {}
}

struct Pre(Arc<dyn VerdictHook>);

impl Hook<BeforeToolCall> for Pre {
    fn call<'a>(
        &'a self,
        event: &'a backstop_hooks::points::ToolCallEvent,
        cx: Context<'a>,
    ) -> Answer<'a, BeforeToolCall> {
        Answer::Later(Box::pin(async move {
            let call = VerdictCall {
                tool_name: &event.tool_name,
                arguments: &event.params,
                session_id: cx.call.session_id.as_ref(),
            };
            Ok(match self.0.pre_call(call).await? {
                HookVerdict::Approve => None,
                HookVerdict::Deny { reasoning } => Some(ToolCallOutcome {
                    block: Some(true),
                    block_reason: reasoning,
                    ..ToolCallOutcome::default()
                }),
                HookVerdict::Modify { modified_arguments } => {
                    Some(ToolCallOutcome::rewrite(modified_arguments))
                }
            })
        }))
    }
}

struct Post(Arc<dyn VerdictHook>);

impl Hook<AfterToolCall> for Post {
    fn call<'a>(
        &'a self,
        event: &'a backstop_hooks::points::AfterToolCallEvent,
        cx: Context<'a>,
    ) -> Answer<'a, AfterToolCall> {
        Answer::Later(Box::pin(async move {
            let call = VerdictCall {
                tool_name: &event.tool_name,
                arguments: &event.params,
                session_id: cx.call.session_id.as_ref(),
            };
            self.0.post_call(call, event.result.as_ref()).await?;
            Ok(None)
        }))
    }
}

/// Puts a verdict hook into a snapshot: in front of tool calls and, if it watches, behind them.
///
/// # Errors
///
/// [`RegisterError`] when it can't stand there.
pub fn register_verdict_hook(
    snapshot: &mut Snapshot,
    hook: &Arc<dyn VerdictHook>,
    options: HookOptions,
) -> Result<HookId, RegisterError> {
    let options = HookOptions {
        style: Style::Verdict,
        on_failure: options.on_failure.or_else(|| hook.on_failure()),
        timeout: options.timeout.or_else(|| hook.budget()),
        ..options
    };
    let id = snapshot.on::<BeforeToolCall>(Arc::new(Pre(Arc::clone(hook))), options.clone())?;
    if hook.watches() {
        watch(
            snapshot,
            hook,
            HookOptions { on_failure: None, timeout: None, ..options }.id(format!("{id}:post")),
        )?;
    }
    Ok(id)
}

/// Puts only the watching half of a verdict hook into a snapshot.
///
/// # Errors
///
/// [`RegisterError`] when it can't stand there.
pub fn watch(
    snapshot: &mut Snapshot,
    hook: &Arc<dyn VerdictHook>,
    options: HookOptions,
) -> Result<HookId, RegisterError> {
    // The budget of a notification is its own: 5 s, whatever observers have.
    let budget = Budget::from_millis(5_000).ok();
    let options = HookOptions { style: Style::Verdict, timeout: options.timeout.or(budget), ..options };
    snapshot.on::<AfterToolCall>(Arc::new(Post(Arc::clone(hook))), options)
}

/// Builds a verdict hook from its `config:`.
pub type VerdictFactory = Arc<dyn Fn(&Value) -> Result<Arc<dyn VerdictHook>, Malformed> + Send + Sync>;

/// The verdict hook types that the configuration can name.
#[derive(Clone, Default)]
pub struct VerdictTypes(BTreeMap<String, VerdictFactory>);

/// A `type:` that leads to no hook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerdictTypeError {
    /// No such type.
    #[error("unknown hook type `{name}`\nhint: known types: {known}")]
    Unknown {
        /// What was given.
        name: String,
        /// The types that exist.
        known: String,
    },
    /// The type refuses its configuration.
    #[error("hook type `{name}`: {}", .error.message())]
    Config {
        /// The type.
        name: String,
        /// What is wrong.
        error: Malformed,
    },
}

impl VerdictTypes {
    /// Adds a type, or replaces it.
    pub fn register(
        &mut self,
        name: impl Into<String>,
        factory: impl Fn(&Value) -> Result<Arc<dyn VerdictHook>, Malformed> + Send + Sync + 'static,
    ) {
        self.0.insert(name.into(), Arc::new(factory));
    }

    /// The names of all types.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Builds a hook.
    ///
    /// # Errors
    ///
    /// [`VerdictTypeError`].
    pub fn build(&self, name: &str, config: &Value) -> Result<Arc<dyn VerdictHook>, VerdictTypeError> {
        let factory = self.0.get(name).ok_or_else(|| VerdictTypeError::Unknown {
            name: name.to_owned(),
            known: self.names().collect::<Vec<_>>().join(", "),
        })?;
        factory(config).map_err(|error| VerdictTypeError::Config { name: name.to_owned(), error })
    }
}

impl fmt::Debug for VerdictTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
