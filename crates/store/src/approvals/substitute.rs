//! What a person puts in the place of a call: other arguments, or a result.
//!
//! Both end the question like a denial: the call that was asked about does not run. *Edited* arguments are those of another call, which
//! whoever asked takes through every gate again, as a question of its own if one asks ([`EditedFrom`]). A *result* is what the model is
//! told instead. Whoever asked has to say that it can take them ([`NewApproval::substitutes`]); otherwise they are not offered.
//!
//! The laws: *it is an allowing answer*: whoever may not allow the call puts nothing in its place, and where several must allow it nobody
//! does; *it is taken once*, for the digest that the person was shown; *a mask is no value*: a masked secret goes back to where it stood,
//! or the edit is refused ([`NewApproval::restored`]).

use std::sync::Arc;

use backstop_hooks::{ApprovalId, Digest, Json, Params, Substitute, Text};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::people::{Answerer, People, PersonName};
use super::request::NewApproval;
use super::{MAX_RESULT_BYTES, MAX_WHOLE_BYTES};
use crate::{AccessTokenId, Timestamp};

/// What a person gave in the place of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Given {
    /// Other arguments, in which secrets are masked as they were shown.
    Edit {
        /// All of them.
        arguments: Params,
    },
    /// The result.
    Respond {
        /// What the model is told.
        result: Text,
    },
}

impl Given {
    /// Returns which way to answer it is.
    pub const fn substitute(&self) -> Substitute {
        match self {
            Self::Edit { .. } => Substitute::Edit,
            Self::Respond { .. } => Substitute::Respond,
        }
    }

    /// Returns its digest, by which the same answer is known.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of("substitute", self)
    }
}

/// Why something can't stand in the place of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnfitSubstitute {
    /// The arguments are too large to be shown whole, so that nobody could allow them.
    #[error("arguments have at most {MAX_WHOLE_BYTES} bytes of JSON, these have {0}")]
    LargeArguments(usize),
    /// The result is too large.
    #[error("a result that a person gives has at most {MAX_RESULT_BYTES} bytes, this one has {0}")]
    LargeResult(usize),
    /// There is no result.
    #[error("a result that a person gives is not empty\nhint: to refuse the call, deny it")]
    NoResult,
}

/// Checks what a person wants to give.
pub(crate) fn fit(given: Given) -> Result<Given, UnfitSubstitute> {
    match &given {
        Given::Edit { arguments } => match arguments.to_value().to_string().len() {
            size if size > MAX_WHOLE_BYTES => Err(UnfitSubstitute::LargeArguments(size)),
            _ => Ok(given),
        },
        Given::Respond { result } => match result.len() {
            0 => Err(UnfitSubstitute::NoResult),
            size if size > MAX_RESULT_BYTES => Err(UnfitSubstitute::LargeResult(size)),
            _ => Ok(given),
        },
    }
}

/// Who put something in the place of a call, and whether whoever asked has taken it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Substitution {
    /// When.
    pub at: Timestamp,
    /// Who, for the record.
    pub by: String,
    /// Which person of the configuration that is, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<PersonName>,
    /// The access token with which it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<AccessTokenId>,
    /// The service that alone says who gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voucher: Option<String>,
    /// The digest of what was given.
    pub given: Digest,
    /// When whoever asked took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<Timestamp>,
}

impl Substitution {
    pub(crate) fn new(given: &Given, by: &Answerer, at: Timestamp) -> Self {
        Self {
            at,
            by: by.by.clone(),
            person: by.person.clone(),
            token: by.token.clone(),
            voucher: by.voucher.clone(),
            given: given.digest(),
            taken_at: None,
        }
    }

    /// Returns the person who gave it, as somebody who answers the question about what it became.
    pub fn answerer(&self, people: &Arc<People>) -> Answerer {
        Answerer {
            by: self.by.clone(),
            person: self.person.clone(),
            people: Some(Arc::clone(people)),
            token: self.token.clone(),
            ends_at: None,
            voucher: self.voucher.clone(),
        }
    }
}

/// The question of which a call came that a person changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EditedFrom {
    /// That question.
    pub approval: ApprovalId,
    /// Who changed the call.
    pub by: String,
    /// The digest of the call as it was.
    pub digest: Digest,
    /// The arguments as they were shown then.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub shown: Json,
}

/// Why masked secrets can't be put back into arguments: the place of a text in which they are not as they were shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{at}` holds a mask (`***`) that is not where it was shown, and a mask is no value\nhint: leave each masked word as and where it is shown, or take it out"
)]
pub struct MaskMoved {
    /// The place, as a JSON pointer.
    pub at: String,
}

fn is_nothing(shown: &Json) -> bool {
    shown.is_null()
}

impl NewApproval {
    /// Returns the arguments as people are shown them, all of them if they were asked for.
    pub fn shown(&self) -> &Json {
        self.whole.as_ref().filter(|_| !self.unseen).unwrap_or(&self.preview)
    }

    /// Puts the secrets that are masked in what was shown back into edited arguments; `original` are the arguments as they were. In
    /// each text in which something is masked, the words that hold a `*` have to be the same, in the same order. Elsewhere none of the
    /// masks may stand.
    ///
    /// # Errors
    ///
    /// [`MaskMoved`] where a masked word is not as and where it was shown.
    pub fn restored(&self, original: &Value, edited: &Value) -> Result<Value, MaskMoved> {
        let shown = self.shown().to_value();
        let masked = |at: &String| shown.pointer(at).and_then(Value::as_str);
        let masks = self.masked_at.iter().filter_map(masked).flat_map(starred).collect();
        Restoring { masked_at: &self.masked_at, shown: &shown, original, masks }
            .value(edited, &mut String::new())
    }
}

/// The shortest row of `*` that is taken for a mask where one may not stand.
const LEAST_MASK: &str = "****";

struct Restoring<'a> {
    masked_at: &'a [String],
    shown: &'a Value,
    original: &'a Value,
    /// All words that hold a mask.
    masks: Vec<&'a str>,
}

impl Restoring<'_> {
    fn value(&self, edited: &Value, at: &mut String) -> Result<Value, MaskMoved> {
        Ok(match edited {
            Value::String(text) => Value::String(self.text(text, at)?),
            Value::Array(items) => {
                let items = items.iter().enumerate();
                Value::Array(
                    items
                        .map(|(index, item)| self.below(item, at, &index.to_string()))
                        .collect::<Result<_, _>>()?,
                )
            }
            Value::Object(map) => {
                let mut restored = Map::new();
                for (name, item) in map {
                    if self.holds_mask(name) {
                        return Err(MaskMoved { at: at.clone() });
                    }
                    let step = name.replace('~', "~0").replace('/', "~1");
                    restored.insert(name.clone(), self.below(item, at, &step)?);
                }
                Value::Object(restored)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => edited.clone(),
        })
    }

    fn below(&self, item: &Value, at: &mut String, step: &str) -> Result<Value, MaskMoved> {
        let length = at.len();
        at.push('/');
        at.push_str(step);
        let restored = self.value(item, at);
        at.truncate(length);
        restored
    }

    fn text(&self, edited: &str, at: &str) -> Result<String, MaskMoved> {
        let text = |value: &'_ Value| value.pointer(at).and_then(Value::as_str).map(str::to_owned);
        let restored =
            match (self.masked_at.iter().any(|masked| masked == at), text(self.shown), text(self.original)) {
                (true, Some(shown), Some(original)) => put_back(&shown, &original, edited),
                (_, Some(shown), _) if shown == edited => Some(shown),
                _ => (!self.holds_mask(edited)).then(|| edited.to_owned()),
            };
        restored.ok_or_else(|| MaskMoved { at: at.to_owned() })
    }

    fn holds_mask(&self, text: &str) -> bool {
        !self.masks.is_empty()
            && (text.contains(LEAST_MASK) || starred(text).any(|word| self.masks.contains(&word)))
    }
}

/// Whether it is a sign of a word: signs that tokens have, and masks.
fn is_of_word(sign: char) -> bool {
    sign.is_alphanumeric() || "+/=_-.~:@%,!#*^?".contains(sign)
}

/// Returns the words that hold a `*`.
fn starred(text: &str) -> impl Iterator<Item = &str> {
    text.split(|sign| !is_of_word(sign)).filter(|word| word.contains('*'))
}

/// Puts what the masks of a text hide into the edited text; `None` if they are not as they were shown. A mask is as long as what it hides,
/// so that the words of both texts stand at the same places.
fn put_back(shown: &str, original: &str, edited: &str) -> Option<String> {
    if starred(edited).next().is_none() {
        return Some(edited.to_owned());
    }
    let words = |text: &'_ str| text.split(|sign| !is_of_word(sign)).map(str::to_owned).collect::<Vec<_>>();
    let (was, is) = (words(original), words(shown));
    if was.len() != is.len() {
        return None;
    }
    let hidden = is.into_iter().zip(was).filter(|(shown, _)| shown.contains('*'));
    let (masked, hidden): (Vec<String>, Vec<String>) = hidden.unzip();
    if !starred(edited).eq(masked.iter().map(String::as_str)) {
        return None;
    }
    let mut hidden = hidden.into_iter();
    let parts = edited.split_inclusive(|sign| !is_of_word(sign));
    parts
        .map(|part| {
            let word = part.trim_end_matches(|sign| !is_of_word(sign));
            match word.contains('*') {
                true => Some(hidden.next()? + part.get(word.len()..)?),
                false => Some(part.to_owned()),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masked_words_go_back_to_where_they_stood() {
        let (original, shown) = ("curl -H 'x: aB3dE5' a/*.rs host", "curl -H 'x: ******' a/*.rs host");
        for (edited, restored) in [
            ("curl -H 'x: ******' a/*.rs other", Some("curl -H 'x: aB3dE5' a/*.rs other")),
            ("wget 'x: ******' and a/*.rs", Some("wget 'x: aB3dE5' and a/*.rs")),
            (shown, Some(original)),
            ("echo done", Some("echo done")),
            ("curl -H 'x: *****' a/*.rs host", None),
            ("curl a/*.rs -H 'x: ******' host", None),
            ("curl -H 'x: ******' host", None),
            ("curl -H 'x: ******' a/*.rs ******", None),
        ] {
            assert_eq!(put_back(shown, original, edited).as_deref(), restored, "{edited}");
        }
        assert_eq!(put_back("a_*-* b", "a_x-y b", "do a_*-*;x").as_deref(), Some("do a_x-y;x"));
    }
}
