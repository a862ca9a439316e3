//! What a person puts in the place of a call: other arguments, or a result.
//!
//! Both end the question like a denial: the call that was asked about does not run. *Edited* arguments are those of another call, which
//! whoever asked takes through every gate again, as a question of its own if one asks ([`EditedFrom`]). A *result* is what the model is
//! told instead. Whoever asked has to say that it can take them ([`NewApproval::substitutes`]); otherwise they are not offered.
//!
//! The laws: *it is an allowing answer*: whoever may not allow the call puts nothing in its place, and where several must allow it nobody
//! does; *it is taken once*, for the digest that the person was shown; *a mask is no value*: a text in which a secret is masked stays as and
//! where it was shown, or the edit is refused ([`NewApproval::restored`]).

use backstop_hooks::{ApprovalId, Digest, Json, Params, Substitute, Text};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::people::{Answerer, PersonName};
use super::request::NewApproval;
use super::{MAX_RESULT_BYTES, MAX_WHOLE_BYTES};
use crate::Timestamp;

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
    /// The digest of what was given.
    pub given: Digest,
    /// When whoever asked took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<Timestamp>,
}

impl Substitution {
    pub(crate) fn new(given: &Given, by: &Answerer, at: Timestamp) -> Self {
        Self { at, by: by.by.clone(), person: by.person.clone(), given: given.digest(), taken_at: None }
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
    /// Which person of the configuration that is, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<PersonName>,
    /// The digest of the call as it was.
    pub digest: Digest,
    /// The arguments as they were shown then.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub shown: Json,
}

/// Why masked secrets can't be put back into arguments: the place of a text with a mask that is not as and where it was shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{at}` holds a mask (`***`) and is not as and where it was shown: a mask is no value\nhint: leave a text with a mask in it wholly as it is shown, and lists as long as they are, or write the text without it"
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

    /// Puts the secrets that are masked in what was shown back into edited arguments; `original` are the arguments as they were. A text
    /// that holds a mask has to be as it was shown, at its very place: the same names, and lists of as many items, on the way. Any other
    /// text holds none of the masks.
    ///
    /// # Errors
    ///
    /// [`MaskMoved`] where a text with a mask is not as and where it was shown.
    pub fn restored(&self, original: &Value, edited: &Value) -> Result<Value, MaskMoved> {
        let shown = self.shown().to_value();
        let masked = |at: &String| shown.pointer(at).and_then(Value::as_str);
        let masks = Masks(self.masked_at.iter().filter_map(masked).flat_map(starred).collect());
        masks.restored(edited, Some((&shown, original)), &mut String::new())
    }
}

/// The shortest row of `*` that is taken for a mask where one may not stand.
const LEAST_MASK: &str = "****";

/// All words that hold a mask.
struct Masks<'a>(Vec<&'a str>);

impl Masks<'_> {
    /// `place` is what was shown at the place of the edited value, and what is there, if it is the same place still.
    fn restored(
        &self,
        edited: &Value,
        place: Option<(&Value, &Value)>,
        at: &mut String,
    ) -> Result<Value, MaskMoved> {
        Ok(match edited {
            Value::String(text) => match place {
                Some((shown, original)) if shown == edited => original.clone(),
                _ if self.are_in(text) => return Err(MaskMoved { at: at.clone() }),
                _ => edited.clone(),
            },
            Value::Array(items) => {
                // INVARIANT (a mask is no value): with one item more, or less, nobody knows which one is which.
                let is_as_long = |list: &Value| list.as_array().is_some_and(|list| list.len() == items.len());
                let place = place.filter(|(shown, original)| is_as_long(shown) && is_as_long(original));
                let items = items.iter().enumerate().map(|(index, item)| {
                    let place =
                        place.and_then(|(shown, original)| Some((shown.get(index)?, original.get(index)?)));
                    self.below(item, place, at, &index.to_string())
                });
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Value::Object(map) => {
                let mut restored = Map::new();
                for (name, item) in map {
                    if self.are_in(name) {
                        return Err(MaskMoved { at: at.clone() });
                    }
                    let step = name.replace('~', "~0").replace('/', "~1");
                    let place =
                        place.and_then(|(shown, original)| Some((shown.get(name)?, original.get(name)?)));
                    restored.insert(name.clone(), self.below(item, place, at, &step)?);
                }
                Value::Object(restored)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => edited.clone(),
        })
    }

    fn below(
        &self,
        item: &Value,
        place: Option<(&Value, &Value)>,
        at: &mut String,
        step: &str,
    ) -> Result<Value, MaskMoved> {
        let length = at.len();
        at.push('/');
        at.push_str(step);
        let restored = self.restored(item, place, at);
        at.truncate(length);
        restored
    }

    fn are_in(&self, text: &str) -> bool {
        !self.0.is_empty() && (text.contains(LEAST_MASK) || starred(text).any(|word| self.0.contains(&word)))
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
