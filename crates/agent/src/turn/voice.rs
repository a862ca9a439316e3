//! When text of a model is shown: as it comes, after its answer was judged, or at the end of the turn.
//!
//! The law: *text that is shown was judged*. What can still be changed or dropped by some hook is held until
//! that hook has spoken. Only where no hook can object is text shown while it grows, behind the hold-back
//! window, part by part in the order in which the answer will have them; and then the answer must be what
//! was shown, or the turn fails. Reasoning, which no hook judges by itself, is shown only there.

use backstop_hooks::conversation::Message;
use backstop_hooks::points::{
    AfterLlmCall, BeforeAgentFinalize, BeforeMessageWrite, BeforeResponseEmit, ReasoningLevel,
};
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
        if engine.has_hooks::<BeforeResponseEmit>() || engine.has_hooks::<BeforeAgentFinalize>() {
            Self::AtEnd
        } else if engine.has_hooks::<AfterLlmCall>() || engine.has_hooks::<BeforeMessageWrite>() {
            Self::Judged
        } else {
            Self::Growing
        }
    }
}

/// The voice of one answer.
#[derive(Debug)]
pub(crate) struct Voice {
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
            held: HoldBack::new(run.agent.settings.hold_back_bytes),
            heard: String::new(),
            part: None,
            waits: false,
            spoken: false,
            reasoning: reasoning == ReasoningLevel::On,
        }
    }

    /// A voice that says nothing, for calls whose answer nobody is to see.
    pub(crate) fn silent() -> Self {
        Self {
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
        self.waits |= Release::now(run) != Release::Growing;
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
            ModelEvent::PartFinished { index, .. } => {
                if let Some((part, whole)) = &mut self.part
                    && part == index
                {
                    *whole = true;
                }
            }
            ModelEvent::ThinkingDelta { text, .. } if self.reasoning => {
                self.spoken = true;
                run.outlet().say(Shown::Reasoning(text));
            }
            _ => {}
        }
    }

    fn grow(&mut self, run: &Run<'_>, text: &str) {
        self.heard.push_str(text);
        let released = self.held.push(text);
        self.speak(run, &released);
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
        if Release::now(run) == Release::AtEnd {
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

/// Whether an answer's text was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    Said,
    Held,
}

/// An answer is not what was streamed of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contradiction;
