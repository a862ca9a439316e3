//! When text of a model is shown: as it comes, after its answer was judged, or at the end of the turn.
//!
//! The law: *text that is shown was judged*. What can still be changed or dropped by some hook is held until
//! that hook has spoken. Only where no hook can object is text shown while it grows, behind the hold-back
//! window, part by part in the order in which the answer will have them; and then the answer must be what
//! was shown, or the turn fails. Span redactors do not object, they take out: text streams through them. So does
//! reasoning, which no other hook judges by itself, and which is shown only while text grows.

use backstop_engine::{Redaction, ResponseGate};
use backstop_hooks::conversation::{Message, Part};
use backstop_hooks::points::{AfterLlmCall, BeforeAgentFinalize, BeforeMessageWrite, ReasoningLevel};
use backstop_llm::ModelEvent;

use super::hold_back::HoldBack;
use super::run::Run;
use crate::output::Shown;

/// When text goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Release {
    /// While it grows: no hook can object to it.
    Growing,
    /// Once its answer was judged and stored.
    Judged,
    /// With the end of the turn.
    AtEnd,
}

impl Release {
    /// What the hooks that stand there now demand.
    pub(crate) fn now(run: &Run<'_>) -> Self {
        let engine = &run.agent.engine;
        if engine.response_gate() == ResponseGate::Whole || engine.has_hooks::<BeforeAgentFinalize>() {
            Self::AtEnd
        } else if engine.has_hooks::<AfterLlmCall>() || engine.has_hooks::<BeforeMessageWrite>() {
            Self::Judged
        } else {
            Self::Growing
        }
    }
}

/// The number of the visible text among the texts that are redacted; those of reasoning come after it.
const TEXT: usize = 0;

/// The voice of one answer.
#[derive(Debug)]
pub(crate) struct Voice {
    /// Whoever takes spans out of what is said, and who stood there when the answer began.
    redaction: Redaction,
    gate: ResponseGate,
    held: HoldBack,
    /// Everything given to the window so far.
    heard: String,
    /// The text part that is being heard, and whether it is whole.
    part: Option<(usize, bool)>,
    /// No more is said before the answer is whole.
    waits: bool,
    spoken: bool,
    reasoning: bool,
}

impl Voice {
    pub(crate) fn new(run: &Run<'_>, reasoning: ReasoningLevel) -> Self {
        Self {
            redaction: redaction(run),
            gate: run.agent.engine.response_gate(),
            held: HoldBack::new(run.agent.settings.hold_back_bytes),
            heard: String::new(),
            part: None,
            waits: false,
            spoken: false,
            reasoning: reasoning == ReasoningLevel::On,
        }
    }

    /// A voice that says nothing, for calls whose answer nobody is to see.
    pub(crate) fn silent(run: &Run<'_>) -> Self {
        Self {
            redaction: redaction(run),
            gate: run.agent.engine.response_gate(),
            held: HoldBack::new(0),
            heard: String::new(),
            part: None,
            waits: true,
            spoken: false,
            reasoning: false,
        }
    }

    /// Whether something of the answer was shown.
    pub(crate) fn has_spoken(&self) -> bool {
        self.spoken
    }

    /// Takes a step of the answer, and shows what may be shown by now.
    pub(crate) fn hear(&mut self, run: &Run<'_>, event: &ModelEvent) {
        // INVARIANT (judged text): hooks may come while an answer grows; from then on it is held.
        self.waits |= Release::now(run) != Release::Growing || self.is_outdated(run);
        if self.waits {
            return;
        }
        match event {
            ModelEvent::TextDelta { index, text } => match self.part {
                Some((part, _)) if part == *index => self.grow(run, text),
                None | Some((_, true)) if self.part.is_none_or(|(part, _)| part < *index) => {
                    self.part = Some((*index, false));
                    self.grow(run, text);
                }
                _ => self.waits = true,
            },
            ModelEvent::PartFinished { index, part } => {
                if self.reasoning && matches!(part, Part::Thinking { .. }) {
                    let rest = self.redaction.finish(reasoning(*index)).text;
                    self.reason(run, &rest);
                }
                if let Some((heard, whole)) = &mut self.part
                    && heard == index
                {
                    *whole = true;
                }
            }
            ModelEvent::ThinkingDelta { index, text } if self.reasoning => {
                let released = self.redaction.push(reasoning(*index), text).text;
                self.reason(run, &released);
            }
            _ => {}
        }
        self.waits |= self.redaction.is_blocked();
    }

    /// Whether other hooks stand at the way out than when the answer began.
    fn is_outdated(&self, run: &Run<'_>) -> bool {
        run.agent.engine.response_gate() != self.gate
    }

    fn grow(&mut self, run: &Run<'_>, text: &str) {
        self.heard.push_str(text);
        let clean = self.redaction.push(TEXT, text).text;
        let released = self.held.push(&clean);
        self.speak(run, &released);
    }

    fn reason(&mut self, run: &Run<'_>, text: &str) {
        if !text.is_empty() {
            self.spoken = true;
            run.outlet().say(Shown::Reasoning(text));
        }
    }

    fn speak(&mut self, run: &Run<'_>, text: &str) {
        if !text.is_empty() {
            self.spoken = true;
            run.outlet().say(Shown::Text(text));
        }
    }

    /// The answer was judged and stored: shows the rest of it, unless the turn's end decides.
    ///
    /// # Errors
    ///
    /// When what was shown is not how the answer begins.
    pub(crate) fn conclude(mut self, run: &Run<'_>, stored: &Message) -> Result<Spoken, Contradiction> {
        let text = stored.visible_text();
        let rest = text.strip_prefix(&self.heard).ok_or(Contradiction)?.to_owned();
        let rest = self.redaction.push(TEXT, &rest).text + &self.redaction.finish(TEXT).text;
        if Release::now(run) == Release::AtEnd || self.is_outdated(run) || self.redaction.is_blocked() {
            // If hooks came while the answer grew, its beginning is shown again at the end, as they left it.
            return Ok(Spoken::Held);
        }
        let held = std::mem::replace(&mut self.held, HoldBack::new(0)).finish();
        self.speak(run, &(held + &rest));
        if !text.is_empty() {
            run.outlet().say(Shown::TextEnd);
        }
        Ok(Spoken::Said)
    }
}

/// The run's texts are judged whole at the end of the turn, and that leaves the receipt.
fn redaction(run: &Run<'_>) -> Redaction {
    run.agent.engine.redaction(&run.call).unrecorded()
}

fn reasoning(part: usize) -> usize {
    part.saturating_add(TEXT + 1)
}

/// A short text as the span redactors let it be shown; nothing if they do not.
pub(crate) fn redacted(run: &Run<'_>, text: &str) -> Option<String> {
    let mut redaction = redaction(run);
    let clean = redaction.push(TEXT, text).text + &redaction.finish(TEXT).text;
    (!redaction.is_blocked()).then_some(clean)
}

/// Whether an answer's text was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    Said,
    Held,
}

/// An answer is not what was streamed of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contradiction;
