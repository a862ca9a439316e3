//! One entry of a catalogue, as written in its file.

use serde::{Deserialize, Deserializer, de};

use crate::checks::{CHECKS, Check};
use crate::notation::Template;

/// What a token has to fulfil besides its shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Proof {
    /// The prefix says enough.
    #[default]
    Prefix,
    /// The last six characters may be a CRC-32 of those before, written in base 62.
    Crc62,
    /// The prefix is short or an ordinary word: the rest has to look random.
    Random,
}

/// A kind of secret: what it is, where that is written, how it looks, and cases that show it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecretEntry {
    /// Its name, in snake case.
    pub(crate) kind: KindName,
    /// What it is, in a few words.
    pub(crate) what: Words,
    /// The document that the shape was taken from.
    pub(crate) source: Words,
    #[serde(default)]
    pub(crate) proof: Proof,
    /// Words of which one has to stand in front of the value, as in `acme_token = ...`. For values that have no mark of
    /// their own.
    #[serde(default)]
    pub(crate) words: Vec<Words>,
    /// The shapes.
    #[serde(deserialize_with = "some")]
    pub(crate) formats: Vec<Template>,
    /// Texts in which it is found.
    #[serde(deserialize_with = "some")]
    pub(crate) matches: Vec<Template>,
    /// Texts that are nearly one, and in which it is not found.
    #[serde(deserialize_with = "some")]
    pub(crate) near_misses: Vec<Template>,
}

/// A kind of number that points to a person.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NumberEntry {
    /// Its name, in snake case.
    pub(crate) kind: KindName,
    /// What it is, in a few words.
    pub(crate) what: Words,
    /// The document that its form was taken from.
    pub(crate) source: Words,
    /// What its digits have to fulfil.
    #[serde(default)]
    pub(crate) check: Option<CheckName>,
    /// How sure a number of this form is by itself, from 0 to 1.
    #[serde(default)]
    pub(crate) confidence: Option<f32>,
    /// Words of which one has to stand near the number, in lower case.
    #[serde(default)]
    pub(crate) words: Vec<Words>,
    /// Whether it is a number of this kind where a text holds nothing else.
    #[serde(default)]
    pub(crate) alone: bool,
    /// How it is written.
    #[serde(deserialize_with = "some")]
    pub(crate) formats: Vec<Template>,
    /// Texts in which it is found.
    #[serde(deserialize_with = "some")]
    pub(crate) matches: Vec<Template>,
    /// Texts that nearly hold one, and in which it is not found.
    #[serde(deserialize_with = "some")]
    pub(crate) near_misses: Vec<Template>,
}

/// The name of a check.
#[derive(Clone, Debug)]
pub(crate) struct CheckName(pub(crate) String);

impl<'de> Deserialize<'de> for CheckName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        match Check::of(&name) {
            Some(_) => Ok(Self(name)),
            None => Err(de::Error::unknown_variant(&name, CHECKS)),
        }
    }
}

/// A name in snake case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KindName(pub(crate) String);

impl<'de> Deserialize<'de> for KindName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let snake = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if name.is_empty() || name.len() > 40 || !name.bytes().all(snake) {
            return Err(de::Error::custom("a kind is up to 40 small letters, digits and `_`"));
        }
        Ok(Self(name))
    }
}

/// Text that is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words(pub(crate) String);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.trim().is_empty() { Err(de::Error::custom("nothing is said here")) } else { Ok(Self(text)) }
    }
}

/// A list that is not empty.
fn some<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let list = Vec::deserialize(deserializer)?;
    if list.is_empty() { Err(de::Error::custom("the list needs an entry")) } else { Ok(list) }
}
