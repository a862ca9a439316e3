//! The words that are no text: ids, names of models and fields, signatures, in an answer and in the heads of both directions.
//!
//! Each of an answer passes the redactors of answers by itself before anything that holds it leaves. Nothing is taken out of one: another value
//! would name something else, so what a redactor finds fault with ends the answer. What stands in a head or an address is
//! [left out or refused](withheld) by whoever asks. Hooks that judge whole texts are not shown them.

use backstop_engine::{BlockCause, Blocked, Engine, Redaction, ResponseGate};
use backstop_hooks::{CallContext, Text};
use backstop_llm::live::Word;
use serde_json::{Map, Value};

use super::judge::Gates;
use super::settings::TextMode;

/// The number under which redactors read a word.
const WORD: usize = 0;

/// Which of the words of a head or an address can't be shown. A receipt says what was found.
pub(super) fn withheld(engine: &Engine, call: &CallContext, gates: &Gates, words: &[&str]) -> Vec<usize> {
    let can_not = |word: &str| {
        // Each by itself: what stands beside a word may hide it, and a word that ends a text is another one.
        let mut names = Names::new(engine, call, gates);
        let is_withheld = !names.passes_text(word);
        if let Some(redaction) = names.redaction.as_mut().filter(|_| is_withheld) {
            redaction.record();
        }
        is_withheld
    };
    words.iter().enumerate().filter(|(_, word)| can_not(word)).map(|(at, _)| at).collect()
}

/// The words of one answer on their way past the redactors.
#[derive(Debug)]
pub(super) struct Names {
    /// `None` where texts pass unjudged.
    redaction: Option<Redaction>,
    /// What the word was that can't leave.
    fault: Option<String>,
}

impl Names {
    pub(super) fn new(engine: &Engine, call: &CallContext, gates: &Gates) -> Self {
        let judges = gates.emit != ResponseGate::Open && gates.text != Some(TextMode::Pass);
        // A receipt for each answer would say nothing.
        let redaction = judges.then(|| engine.redaction(call).unrecorded());
        Self { redaction: redaction.filter(|redaction| !redaction.is_empty()), fault: None }
    }

    #[cfg(test)]
    pub(super) fn of(engine: &Engine, call: &CallContext) -> Self {
        Self { redaction: Some(engine.redaction(call).unrecorded()), fault: None }
    }

    /// Whether these words may leave.
    pub(super) fn pass(&mut self, words: &[Word]) -> bool {
        words.iter().all(|word| self.passes(word))
    }

    fn passes_text(&mut self, text: &str) -> bool {
        let Some(redaction) = &mut self.redaction else { return true };
        redaction.finish_with(WORD, text).edits.is_empty() && !redaction.is_blocked()
    }

    fn passes(&mut self, word: &Word) -> bool {
        let Some(redaction) = &mut self.redaction else { return true };
        let edits = match word.is_sealed {
            true => redaction.seal(WORD, &word.text).edits,
            false => redaction.finish_with(WORD, &word.text).edits,
        };
        if let Some(edit) = edits.first() {
            self.fault.get_or_insert_with(|| edit.kind.to_string());
        }
        self.fault.is_none() && !redaction.is_blocked()
    }

    /// Whether any word passes.
    pub(super) fn are_open(&self) -> bool {
        self.redaction.is_none()
    }

    /// Whether redactors leave every string and every name in a value as it is.
    pub(super) fn stay(&mut self, fields: &Map<String, Value>) -> bool {
        fields.iter().all(|(name, value)| self.stays(name) && self.all_stay(value))
    }

    fn all_stay(&mut self, value: &Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
            Value::String(text) => self.stays(text),
            Value::Array(items) => items.iter().all(|item| self.all_stay(item)),
            Value::Object(fields) => self.stay(fields),
        }
    }

    fn stays(&mut self, text: &str) -> bool {
        self.shown(text).as_deref() == Some(text)
    }

    /// Whether a word can't leave.
    pub(super) fn has_fault(&self) -> bool {
        self.fault.is_some() || self.redaction.as_ref().is_some_and(Redaction::is_blocked)
    }

    /// Why the answer can't go on, if a word can't leave. That is in the trail by then.
    pub(super) async fn blocked(&mut self) -> Option<Blocked> {
        if !self.has_fault() {
            return None;
        }
        let mut redaction = self.redaction.take()?;
        redaction.record();
        let blocked = redaction.blocked().await;
        let found = self.fault.get_or_insert_default().as_str();
        if blocked.is_some() {
            return blocked;
        }
        redaction.close().await;
        let told: Text = format!("a name or an id in the answer can't be shown: it holds {found}").into();
        Some(Blocked { cause: BlockCause::Withheld, reason: Some(told.into()), hook: None, owner: None })
    }

    /// A text of ours that may quote names, as redactors leave it; `None` if it can't be shown.
    pub(super) fn shown(&mut self, text: &str) -> Option<String> {
        let Some(redaction) = &mut self.redaction else { return Some(text.to_owned()) };
        let said = redaction.finish_with(WORD, text).text;
        (!redaction.is_blocked()).then_some(said)
    }
}
