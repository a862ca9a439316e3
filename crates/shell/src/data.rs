//! Data flow: the output of a command, the input of the next, the content of a file.

use std::ops::{BitOr, BitOrAssign};
use std::rc::Rc;

use super::word::{HOLE, has_hole};

/// Most bytes of known text that are carried along.
pub(crate) const MAX_TEXT: usize = 64 * 1024;

/// Most bytes of a text that stands in the command as it is.
const MAX_DOCUMENT: usize = 2 * 1024 * 1024;

/// Most texts of which data may be one.
const MAX_POSSIBLE: usize = 8;

/// A set of origins of data, as far as they matter for judging.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Taint(u64);

impl Taint {
    /// No notable origin.
    pub const NONE: Self = Self(0);
    /// From the network.
    pub const NET: Self = Self(1);
    /// From a decoder (base64, gzip, hex, reversal) with unknown output.
    pub const DECODED: Self = Self(2);
    /// Holds credentials.
    pub const SECRET: Self = Self(4);
    /// The session's own standard input.
    pub const INPUT: Self = Self(8);
    /// Holds the environment.
    pub const ENVIRONMENT: Self = Self(16);
    /// The content of a local file that is not a credential.
    pub const FILE: Self = Self(32);
    /// Unpacked or cloned from the network by this very command.
    pub const FETCHED: Self = Self(128);
    /// The content of a file of the workspace that is too large to be read.
    pub const UNREAD: Self = Self(256);
    /// Never ends.
    pub const ENDLESS: Self = Self(512);
    /// Printed by a local program that is not modelled.
    pub const PROGRAM: Self = Self(64);
    /// The value of a variable that services document for their credentials.
    pub const CREDENTIAL: Self = Self(1024);

    /// The bit of the first service whose credentials are told apart.
    const FIRST_OWNER: u32 = 16;

    /// Creates a credential of the service that the catalogue lists at this place.
    pub(crate) fn credential_of(service: usize) -> Self {
        let bit = u32::try_from(service).ok().and_then(|at| 1u64.checked_shl(Self::FIRST_OWNER + at));
        Self(Self::CREDENTIAL.0 | bit.unwrap_or_default())
    }

    /// Returns the places of the services whose credentials it is.
    pub(crate) fn owners(self) -> impl Iterator<Item = usize> {
        let bits = self.0 >> Self::FIRST_OWNER;
        (0..48).filter(move |at| bits & (1u64 << at) != 0)
    }

    /// Returns the set without credentials, whosever they are.
    pub(crate) fn without_credentials(self) -> Self {
        Self(self.0 & !Self::CREDENTIAL.0 & ((1 << Self::FIRST_OWNER) - 1))
    }

    /// Returns whether the set contains all of `other`.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the set without `other`.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for Taint {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Taint {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Text, known or not, with its taint.
#[derive(Debug, Clone)]
pub(crate) struct Data {
    text: Option<Rc<String>>,
    /// The texts of which it is one, where it is not certain which; `text` is then all of them.
    possible: Option<Rc<[String]>>,
    /// What unknown text was made of, as which it may have come through unchanged.
    like: Option<Rc<String>>,
    /// Which open file it is, so that whoever reads goes on where the last one stopped; 0 when it is none.
    pub(crate) stream: usize,
    pub(crate) taint: Taint,
}

impl Data {
    /// Text that is known (it may contain holes).
    pub(crate) fn text(text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        if text.len() > MAX_TEXT {
            return Self::unknown(Taint::NONE);
        }
        Self {
            text: Some(Rc::new(text.to_owned())),
            possible: None,
            like: None,
            stream: 0,
            taint: Taint::NONE,
        }
    }

    /// Returns the text of a here-document, which may be as long as a command.
    pub(crate) fn document(text: &str) -> Self {
        if text.len() > MAX_DOCUMENT {
            return Self::unknown(Taint::NONE);
        }
        Self { text: Some(Rc::new(text.to_owned())), ..Self::unknown(Taint::NONE) }
    }

    /// No data at all.
    pub(crate) fn empty() -> Self {
        Self::text("")
    }

    /// Data of which only the origin is known.
    pub(crate) fn unknown(taint: Taint) -> Self {
        Self { text: None, possible: None, like: None, stream: 0, taint }
    }

    /// Unknown data that a program made of `input`.
    pub(crate) fn made_of(mut self, input: &Self) -> Self {
        self.like = match &input.text {
            Some(text) if !has_hole(text) && !text.trim().is_empty() => Some(Rc::clone(text)),
            Some(_) => None,
            None => input.like.clone(),
        };
        self
    }

    /// Returns the text that unknown data may be.
    pub(crate) fn like(&self) -> Option<&str> {
        self.like.as_deref().map(String::as_str).filter(|_| self.text.is_none())
    }

    /// Returns what a command gets that nothing is piped into.
    pub(crate) fn session_input() -> Self {
        Self::unknown(Taint::INPUT)
    }

    /// Returns the same data with more taint.
    pub(crate) fn tainted(mut self, taint: Taint) -> Self {
        self.taint |= taint;
        self
    }

    /// Returns the same data with this taint alone.
    pub(crate) fn only(mut self, taint: Taint) -> Self {
        self.taint = taint;
        self
    }

    /// Returns the text without any unknown part.
    pub(crate) fn exact(&self) -> Option<&str> {
        self.marked().filter(|text| !has_hole(text))
    }

    /// Returns the text, parts of which may be holes.
    pub(crate) fn marked(&self) -> Option<&str> {
        self.text.as_deref().map(String::as_str)
    }

    /// Returns the text for use inside a word: unknown data is one hole.
    pub(crate) fn as_word(&self) -> String {
        match &self.text {
            Some(text) => text.as_str().to_owned(),
            None => HOLE.to_string(),
        }
    }

    /// True for what a shell prints that takes its commands from the session.
    pub(crate) fn is_dialogue(&self) -> bool {
        self.text.is_none() && self.taint.has(Taint::INPUT | Taint::PROGRAM)
    }

    /// True when there is certainly nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.possible.is_none() && self.marked().is_some_and(str::is_empty)
    }

    /// Returns every text that this may be; unknown data is one hole.
    pub(crate) fn possible(&self) -> Vec<String> {
        self.possible.as_ref().map_or_else(|| vec![self.as_word()], |texts| texts.to_vec())
    }

    /// This data, or something that is not known.
    pub(crate) fn or_anything(mut self) -> Self {
        let texts = few(self.possible().into_iter().chain([HOLE.to_string()]));
        self.possible = Some(texts);
        self
    }

    /// This data or `other`: which of them is not known. As code it is both.
    pub(crate) fn or(&mut self, other: &Self) {
        if self.text == other.text && self.possible == other.possible {
            self.taint |= other.taint;
            return;
        }
        let texts = few(self.possible().into_iter().chain(other.possible()));
        let (ours, theirs) = (self.text.is_none(), other.text.is_none());
        self.then(other);
        if ours || theirs {
            self.text = self.text.take().filter(|_| !(ours && theirs));
        }
        self.possible = Some(texts);
    }

    /// This data followed by `next`.
    pub(crate) fn then(&mut self, next: &Self) {
        if self.possible.is_some() || next.possible.is_some() {
            let ours = self.possible();
            let theirs = next.possible();
            let joined = ours.iter().flat_map(|head| theirs.iter().map(move |tail| format!("{head}{tail}")));
            self.possible = Some(few(joined));
        }
        if next.is_empty() {
            self.taint |= next.taint;
            return;
        }
        if self.marked() == Some("") {
            self.text.clone_from(&next.text);
        } else {
            // The text grows in place where nobody else holds it.
            let mut joined = self.text.take().unwrap_or_else(|| Rc::new(HOLE.to_string()));
            match &next.text {
                Some(text) => Rc::make_mut(&mut joined).push_str(text),
                None => Rc::make_mut(&mut joined).push(HOLE),
            }
            self.text = (joined.len() <= MAX_TEXT).then_some(joined);
        }
        self.taint |= next.taint;
    }
}

/// Texts that data may be, each once; where there are more than a few, the last one stands for all others.
fn few(texts: impl Iterator<Item = String>) -> Rc<[String]> {
    let mut kept: Vec<String> = Vec::new();
    for text in texts {
        if kept.len() >= MAX_POSSIBLE || kept.iter().map(String::len).sum::<usize>() + text.len() > MAX_TEXT {
            kept.push(HOLE.to_string());
            break;
        }
        if !kept.contains(&text) {
            kept.push(text);
        }
    }
    kept.into()
}
