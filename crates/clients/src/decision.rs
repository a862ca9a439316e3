//! Decisions: what Backstop says at each moment, before it is put into a client's words.
//!
//! Each moment has its own type, so that a decision which makes no sense there can't be made. What a client
//! can't honour *degrades*, always to something stricter: a question becomes a refusal that says that a person
//! may allow the call, changed arguments become a refusal, a changed result is withheld or ends the run. Where a
//! client offers nothing at all, [`Reply::shortfall`] says so: the caller logs it, and nobody believes it
//! was done.

use std::fmt;

use backstop_hooks::Params;
use backstop_hooks::conversation::ToolResult;
use serde_json::Value;

use crate::adapter::{AskGate, Evidence, ResultGate};
use crate::answer::Answer;
use crate::event::{Attended, Frame};
use crate::reason::Reason;
use crate::tools::{ToolOutput, ToolUse};

/// About a tool that is about to run.
#[derive(Clone, Debug, PartialEq)]
pub enum CallDecision {
    /// No objection. The client's own permission rules stay in force.
    Pass,
    /// It must not run.
    Deny(Reason),
    /// A human is to be asked.
    Ask {
        /// What the human reads.
        question: Reason,
        /// What the model reads where the client can't ask. Never holds what could answer the question.
        refusal: Reason,
        /// The arguments of each part, where hooks changed them.
        changed: Option<Vec<Params>>,
    },
    /// It runs with other arguments: those of each part, in our words.
    Rewrite(Vec<Params>),
}

/// About what a tool returned.
#[derive(Clone, Debug, PartialEq)]
pub enum ResultDecision {
    /// The model reads it as it is.
    Keep,
    /// The model reads this instead.
    Replace(ToolResult),
    /// The model does not read it.
    Withhold(Reason),
}

/// About a user's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptDecision {
    /// It goes to the model.
    Pass,
    /// It does not.
    Block(Reason),
}

/// About the end of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopDecision {
    /// The turn may end.
    Finish,
    /// The agent goes on; it reads the reason.
    Revise(Reason),
}

/// How a decision was weakened or hardened to what the client can honour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shortfall {
    /// The client can't ask a human here: the call is denied.
    AskDenied,
    /// The client can't take changed arguments: the call is denied.
    RewriteDenied,
    /// The changed arguments have no form in the client's own shape: the call is denied.
    RewriteHasNoForm,
    /// The client replaces a result only as a whole: the model reads the changed texts without their shape.
    ResultFlattened,
    /// The client can't change a result: the run ends instead.
    RunEnded,
    /// The client can't change a result: the model has read it.
    ResultWasRead,
    /// The client can't stop a message: the model has read it.
    PromptWasRead,
    /// The client can't be sent on: the turn ends.
    TurnEnded,
}

impl Shortfall {
    /// Whether something went through that hooks wanted stopped or changed.
    pub fn lets_through(self) -> bool {
        match self {
            Self::ResultWasRead | Self::PromptWasRead | Self::TurnEnded => true,
            Self::AskDenied
            | Self::RewriteDenied
            | Self::RewriteHasNoForm
            | Self::ResultFlattened
            | Self::RunEnded => false,
        }
    }
}

impl Shortfall {
    /// What happens, in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AskDenied => "it can't ask a human here: the call is denied, and waits among the approvals",
            Self::RewriteDenied => "it can't take changed arguments: the call is denied",
            Self::RewriteHasNoForm => "the changed arguments have no form of its own: the call is denied",
            Self::ResultFlattened => "a changed result reaches the model as plain text",
            Self::RunEnded => "it can't change a result: the run ends instead",
            Self::ResultWasRead => "it can't change a result: the model reads it unchanged",
            Self::PromptWasRead => "it can't stop a message: the model reads it",
            Self::TurnEnded => "it can't be sent on: the turn ends",
        }
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A result as one text: itself, or its JSON.
fn flat(body: &Value) -> String {
    body.as_str().map_or_else(|| body.to_string(), str::to_owned)
}

/// An answer in the client's words, and what it could not honour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// What the hook process prints and how it ends.
    pub answer: Answer,
    /// What the client could not honour.
    pub shortfall: Option<Shortfall>,
}

impl Reply {
    fn full(answer: Answer) -> Self {
        Self { answer, shortfall: None }
    }

    fn short(answer: Answer, shortfall: Shortfall) -> Self {
        Self { answer, shortfall: Some(shortfall) }
    }
}

impl Frame {
    /// The answer where nothing is to be said: observed events, and calls without objection.
    pub fn pass(&self) -> Reply {
        Reply::full((self.client.gates(self).pass)(self))
    }

    /// The answer about a tool that is about to run.
    pub fn answer_call(&self, call: &ToolUse, decision: &CallDecision) -> Reply {
        match decision {
            CallDecision::Pass => self.pass(),
            CallDecision::Deny(reason) => Reply::full(self.deny(reason)),
            CallDecision::Rewrite(parts) => self.rewrite(call, parts),
            CallDecision::Ask { question, refusal, changed } => {
                self.ask(call, question, refusal, changed.as_deref())
            }
        }
    }

    fn deny(&self, reason: &Reason) -> Answer {
        (self.client.gates(self).deny)(self, reason)
    }

    fn rewrite(&self, call: &ToolUse, parts: &[Params]) -> Reply {
        let Some(encode) = self.client.gates(self).rewrite else {
            let reason = format!(
                "policy changes the arguments of this call, and {} can't take changed arguments; the call is denied",
                self.client.title()
            );
            return Reply::short(self.deny(&Reason::new(&reason)), Shortfall::RewriteDenied);
        };
        match call.restore(parts) {
            Ok(arguments) => Reply::full(encode(self, &arguments)),
            Err(error) => self.no_form(&error.to_string()),
        }
    }

    fn no_form(&self, why: &str) -> Reply {
        Reply::short(
            self.deny(&Reason::new(&format!("{why}; the call is denied"))),
            Shortfall::RewriteHasNoForm,
        )
    }

    fn ask(&self, call: &ToolUse, question: &Reason, refusal: &Reason, changed: Option<&[Params]>) -> Reply {
        let refused = || Reply::short(self.deny(refusal), Shortfall::AskDenied);
        let AskGate::Native { when, encode, with_changes, .. } = self.client.gates(self).ask else {
            return refused();
        };
        if self.attended != Attended::Yes || !when(self) || (changed.is_some() && !with_changes) {
            return refused();
        }
        match changed.map(|parts| call.restore(parts)).transpose() {
            Ok(arguments) => Reply::full(encode(self, question, arguments.as_ref())),
            Err(error) => self.no_form(&error.to_string()),
        }
    }

    /// Whether the client itself would ask its user about a call at this moment, and somebody attends it.
    pub fn can_ask(&self) -> bool {
        match self.client.gates(self).ask {
            AskGate::Native { when, .. } => self.attended == Attended::Yes && when(self),
            AskGate::Never => false,
        }
    }

    /// Whether the client asks its own user about calls, at whatever moment, and somebody attends it.
    pub(crate) fn asks_its_user(&self) -> bool {
        self.attended == Attended::Yes && matches!(self.client.gates(self).ask, AskGate::Native { .. })
    }

    /// Whether the client runs a call with the arguments that the answer to this event has in place of its own, so that a person may change
    /// it. It must have been seen to, in the dialect that an installation uses: where it takes no notice of them, what runs is the call that
    /// the person did not allow.
    pub fn takes_changes(&self) -> bool {
        let is_seen = self.client.facts().evidence == Evidence::Live;
        is_seen && self.client.is_as_installed(self) && self.client.gates(self).rewrite.is_some()
    }

    /// The answer where the client is about to ask its user. A refusal is said; anything else is left to
    /// that user: what policy does not object to is not thereby consented to.
    pub fn answer_permission(&self, decision: &CallDecision) -> Reply {
        match (decision, self.client.gates(self).deny_permission) {
            (CallDecision::Deny(reason), Some(deny)) => Reply::full(deny(self, reason)),
            (CallDecision::Rewrite(_), Some(deny)) => {
                let reason =
                    Reason::new("policy changes the arguments of this call; it can't be allowed as it is");
                Reply::short(deny(self, &reason), Shortfall::RewriteDenied)
            }
            _ => self.pass(),
        }
    }

    /// The answer about what a tool returned.
    pub fn answer_result(&self, output: &ToolOutput, decision: &ResultDecision) -> Reply {
        let (shaped, text) = match decision {
            ResultDecision::Keep => return self.pass(),
            ResultDecision::Replace(result) => {
                let shaped = output.rewritten(result);
                let parted = shaped.as_ref().filter(|_| !output.body.is_whole());
                let text = parted.map_or_else(|| result.visible_text(), flat);
                (shaped, text)
            }
            ResultDecision::Withhold(reason) => {
                let notice = format!("[result withheld: {reason}]");
                (output.withheld(&notice), notice)
            }
        };
        match (self.result_gate(output), shaped) {
            (ResultGate::Rewrite(encode), Some(body)) => Reply::full(encode(self, output, body)),
            (ResultGate::Replace(encode), _) => {
                let replaced = Reply::full(encode(self, &text));
                match decision {
                    ResultDecision::Replace(_) => {
                        Reply { shortfall: Some(Shortfall::ResultFlattened), ..replaced }
                    }
                    ResultDecision::Keep | ResultDecision::Withhold(_) => replaced,
                }
            }
            (ResultGate::EndRun(encode), _) => {
                let reason = Reason::new("policy keeps a tool's result from the model");
                Reply::short(encode(self, &reason), Shortfall::RunEnded)
            }
            (ResultGate::Unreachable, _) | (ResultGate::Rewrite(_), None) => {
                Reply { shortfall: Some(Shortfall::ResultWasRead), ..self.pass() }
            }
        }
    }

    fn result_gate(&self, output: &ToolOutput) -> ResultGate {
        let gates = self.client.gates(self);
        match (output.is_error, output.call.mcp()) {
            (true, _) => gates.failure,
            (false, Some(_)) => gates.mcp_result,
            (false, None) => gates.result,
        }
    }

    /// The answer about a user's message.
    pub fn answer_prompt(&self, decision: &PromptDecision) -> Reply {
        match (decision, self.client.gates(self).block_prompt) {
            (PromptDecision::Pass, _) => self.pass(),
            (PromptDecision::Block(reason), Some(encode)) => Reply::full(encode(self, reason)),
            (PromptDecision::Block(_), None) => {
                Reply { shortfall: Some(Shortfall::PromptWasRead), ..self.pass() }
            }
        }
    }

    /// The answer about the end of a turn.
    pub fn answer_stop(&self, decision: &StopDecision) -> Reply {
        match (decision, self.client.gates(self).revise) {
            (StopDecision::Finish, _) => self.pass(),
            (StopDecision::Revise(reason), Some(encode)) => Reply::full(encode(self, reason)),
            (StopDecision::Revise(_), None) => Reply { shortfall: Some(Shortfall::TurnEnded), ..self.pass() },
        }
    }
}
