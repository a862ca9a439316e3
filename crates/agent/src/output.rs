//! The one door out: what a user sees of a turn.
//!
//! An [`Output`] is given only what has passed. [`Outlet`] is the only holder of it inside this crate, and
//! the places that call [`Outlet::say`] with text of a model are the ones that come after the judgement of
//! that text: the stream, while no hook can object, and the end of the turn, after `before_response_emit`.

use std::fmt;
use std::sync::Arc;

use backstop_engine::{Effect, InterceptorEvent, Receipt, format_event};
use backstop_hooks::{ApprovalId, HookId, PointId, Resolution, ToolCallId, ToolName};

use crate::settings::Verbosity;

/// Something a user is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shown<'a> {
    /// More of what the assistant says.
    Text(&'a str),
    /// The assistant has finished one message; more may follow after tools ran.
    TextEnd,
    /// More of the model's reasoning, where that is to be shown.
    Reasoning(&'a str),
    /// A call of a tool is about to be judged, and perhaps waits for a person.
    ToolJudged {
        /// The name of the tool.
        tool: &'a str,
        /// The call, as the transcript has it.
        call: &'a ToolCallId,
    },
    /// What was decided on a call of a tool. One that may run begins to at once. Calls of one session are taken one after the other.
    ToolDecided(ToolDecided<'a>),
    /// A tool begins to run.
    ToolStarted {
        /// The tool.
        tool: &'a ToolName,
        /// What it works on, shortened. Absent while the turn's texts are held back, since it may quote them.
        about: Option<&'a str>,
    },
    /// A tool has run.
    ToolEnded {
        /// The tool.
        tool: &'a ToolName,
        /// Whether it failed.
        failed: bool,
    },
    /// A line about the work of hooks. Never text of the conversation.
    Note(&'a str),
    /// The turn's answer, whole. It was shown before, piece by piece, as [`Shown::Text`].
    Answer(&'a str),
}

/// What was decided on a call of a tool. It does not hold the arguments of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolDecided<'a> {
    /// The name of the tool; of one that does not exist, that it does not.
    pub tool: &'a str,
    /// The call, as the transcript has it.
    pub call: &'a ToolCallId,
    /// What becomes of it.
    pub fate: Fate<'a>,
    /// How people answered, or grants that they had given; `None` where nobody was asked.
    pub answer: Option<Resolution>,
    /// The question, if one was put. Grants answer without one.
    pub question: Option<&'a ApprovalId>,
    /// Whether a person changed the call. What was decided is then about the changed one.
    pub is_edited: bool,
    /// Whether hooks changed its arguments.
    pub is_rewritten: bool,
}

/// What becomes of a call of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate<'a> {
    /// It runs.
    Runs,
    /// A person gave its result, and nothing runs.
    Answered,
    /// It does not run.
    Denied {
        /// The hook that stopped it, where one did by itself.
        by: Option<&'a HookId>,
        /// Why, as the model is told.
        reason: &'a str,
    },
}

/// Where a user sees what an agent does. Called on the agent's task: it must not wait.
pub trait Output: Send + Sync {
    /// Shows something.
    fn show(&self, shown: Shown<'_>);
}

/// The only holder of an [`Output`].
#[derive(Clone)]
pub(crate) struct Outlet {
    output: Arc<dyn Output>,
    verbosity: Verbosity,
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").field("verbosity", &self.verbosity).finish_non_exhaustive()
    }
}

impl Outlet {
    pub(crate) fn new(output: Arc<dyn Output>, verbosity: Verbosity) -> Self {
        Self { output, verbosity }
    }

    pub(crate) fn say(&self, shown: Shown<'_>) {
        self.output.show(shown);
    }

    /// A line about a block: of a tool call, a model call, an answer.
    pub(crate) fn blocked(&self, point: PointId, hook: Option<&HookId>, what: &str, reason: Option<&str>) {
        let id = hook.cloned().unwrap_or_else(|| HookId::new(point.info().name));
        let effect = Effect::Blocked { what: what.to_owned(), reason: reason.map(Into::into) };
        self.note(|| format_event(&InterceptorEvent { id, point, effect }));
    }

    /// A line about changes at a point that prepares the turn.
    pub(crate) fn changed(&self, point: PointId, changes: Vec<String>) {
        if !changes.is_empty() {
            let effect = Effect::Mutated(changes);
            self.note(|| format_event(&InterceptorEvent { id: point.info().name.into(), point, effect }));
        }
    }

    /// A line about anything else, from [`Verbosity::On`] on.
    pub(crate) fn note(&self, line: impl FnOnce() -> String) {
        if self.verbosity >= Verbosity::On {
            self.say(Shown::Note(&line()));
        }
    }

    /// The receipt's line, at [`Verbosity::Full`].
    pub(crate) fn receipt(&self, receipt: &Receipt) {
        if self.verbosity == Verbosity::Full && !receipt.steps.is_empty() {
            self.say(Shown::Note(&receipt_line(receipt)));
        }
    }
}

fn receipt_line(receipt: &Receipt) -> String {
    let verdict = receipt.verdict.as_str();
    let tool = receipt.key.tool.as_ref().map(|tool| format!(" {tool}")).unwrap_or_default();
    let judged = receipt.judged.map(|digest| format!(" · {}", digest.short())).unwrap_or_default();
    let hooks = receipt.steps.iter().filter(|step| !step.again).count();
    let noun = if hooks == 1 { "hook" } else { "hooks" };
    format!(
        "🧾 {}{tool} · {verdict} · {hooks} {noun} · {} µs{judged}",
        receipt.point.info().name,
        receipt.elapsed.as_micros()
    )
}
