//! The notation for the shape of a token: literal text, and runs of one alphabet in angle brackets.
//!
//! | written | means |
//! | --- | --- |
//! | `ghp_<alnum:36>` | these four characters, then 36 letters and digits |
//! | `<hex:32-40>` | from 32 to 40 |
//! | `<alnum:36+>` | 36, and any number of further ones that may be joined to it |
//! | `<url64\|dot:20>` | characters of either alphabet |
//! | `<dash?>` | an optional dash |
//! | `<fold:de>` | these letters, case-insensitive |
//! | `<<` | a `<` |

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de};

use crate::template::Part;
use crate::text::{self, ByteSet};

/// How much may be glued to a token whose prefix says enough: the longest word that is read as a part of it.
const GLUED: usize = 64;
/// The longest run that a format may have, in bytes.
const LONGEST_RUN: usize = 4096;

/// The alphabets by name.
const ALPHABETS: [(&str, ByteSet); 20] = [
    ("digit", text::DIGIT),
    ("lower", text::LOWER),
    ("upper", text::UPPER),
    ("letter", text::LETTER),
    ("alnum", text::ALNUM),
    ("lower_alnum", text::LOWER_ALNUM),
    ("upper_alnum", text::UPPER_ALNUM),
    ("hex", text::HEX),
    ("any_hex", text::ANY_HEX),
    ("word", text::WORD),
    ("url64", text::URL64),
    ("base64", text::BASE64),
    ("dash", text::DASH),
    ("underscore", text::UNDERSCORE),
    ("dot", text::DOT),
    ("equals", text::EQUALS),
    ("plus_slash", text::PLUS_SLASH),
    ("joiner", text::JOINER),
    ("space", text::SPACE),
    ("mark", text::TOKEN_MARK),
];

/// A shape as it was written, and what it means.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) written: String,
    pub(crate) parts: Vec<Part>,
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = String::deserialize(deserializer)?;
        let parts = parse(&written).map_err(de::Error::custom)?;
        Ok(Self { written, parts })
    }
}

impl Template {
    /// A text of this shape, the same for the same seed: what is not fixed is letters and digits where the alphabet
    /// has them, and as short as it may be.
    pub(crate) fn filled(&self, seed: u64) -> String {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state >> 16
        };
        let mut filled = String::new();
        for part in &self.parts {
            match part {
                Part::Lit(literal) | Part::Fold(literal) => filled.push_str(literal),
                Part::Maybe(_) => {}
                Part::Run(set, least, _) => {
                    let members = members(*set);
                    for _ in 0..*least {
                        let chosen = usize::try_from(next()).unwrap_or(0) % members.len().max(1);
                        filled.extend(members.get(chosen).copied().map(char::from));
                    }
                }
            }
        }
        filled
    }
}

/// Returns the characters of a set that a filled text is made of.
fn members(set: ByteSet) -> Vec<u8> {
    let of =
        |wanted: fn(&u8) -> bool| (0x20..0x7f_u8).filter(|&b| set.has(b)).filter(wanted).collect::<Vec<_>>();
    let plain = of(u8::is_ascii_alphanumeric);
    if plain.is_empty() { of(|_| true) } else { plain }
}

/// Returns the parts of a shape.
pub(crate) fn parse(written: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = written;
    while let Some((before, from)) = rest.split_once('<') {
        literal.push_str(before);
        if let Some(after) = from.strip_prefix('<') {
            literal.push('<');
            rest = after;
            continue;
        }
        let (inside, after) =
            from.split_once('>').ok_or_else(|| format!("`<{from}` has no end; a `<` is written `<<`"))?;
        flush(&mut literal, &mut parts);
        parts.push(part(inside)?);
        rest = after;
    }
    literal.push_str(rest);
    flush(&mut literal, &mut parts);
    if parts.is_empty() {
        Err("a shape that has nothing in it fits everywhere".to_owned())
    } else {
        Ok(parts)
    }
}

fn flush(literal: &mut String, parts: &mut Vec<Part>) {
    if !literal.is_empty() {
        parts.push(Part::Lit(Cow::Owned(std::mem::take(literal))));
    }
}

fn part(inside: &str) -> Result<Part, String> {
    if let Some(names) = inside.strip_suffix('?') {
        return Ok(Part::Maybe(alphabet(names)?));
    }
    let (names, length) = inside
        .split_once(':')
        .ok_or_else(|| format!("`<{inside}>` says no length, as in `<{inside}:32>` or `<{inside}?>`"))?;
    if names == "fold" {
        return Ok(Part::Fold(Cow::Owned(length.to_owned())));
    }
    let number = |text: &str| text.parse::<usize>().ok().filter(|&length| length <= LONGEST_RUN);
    let (least, most) = match (length.strip_suffix('+'), length.split_once('-')) {
        (Some(least), _) => (number(least), number(least).map(|least| least + GLUED)),
        (None, Some((least, most))) => (number(least), number(most)),
        (None, None) => (number(length), number(length)),
    };
    match (least, most) {
        (Some(least), Some(most)) if least <= most && most > 0 => {
            Ok(Part::Run(alphabet(names)?, least, most))
        }
        _ => Err(format!("`{length}` is no length: write `32`, `20-40` or `32+`, of {LONGEST_RUN} at most")),
    }
}

fn alphabet(names: &str) -> Result<ByteSet, String> {
    let mut sets = names.split('|').map(|name| {
        let known = ALPHABETS.iter().find(|(known, _)| *known == name);
        known.map(|(_, set)| *set).ok_or_else(|| {
            let all: Vec<&str> = ALPHABETS.iter().map(|(name, _)| *name).collect();
            format!("no alphabet is called `{name}`; they are {}", all.join(", "))
        })
    });
    let first = sets.next().unwrap_or_else(|| Err("an alphabet is missing".to_owned()))?;
    sets.try_fold(first, |all, set| set.map(|set| all.or(set)))
}
