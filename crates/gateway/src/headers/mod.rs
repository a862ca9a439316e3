//! Which headers pass, in either direction.
//!
//! Where hooks decide, or the operator's key pays, a header passes if a table has its name and its value has the shape that the
//! table says ([`Shape`]). Words among the values are shown to the redactors of answers
//! ([`Interceptor::withholds`](crate::Interceptor::withholds)). A header that does not pass is left out, as by any proxy that
//! knows of a hop of its own; it is counted, and the log says so once for each name. What the operator names
//! (`gateway.headers`) passes with any text, which counts as a word.
//!
//! Laws:
//!
//! - *What no table has does not pass*, whatever its value.
//! - *One value.* Of a header that is no list the first value counts, as for those who judge; if that has another shape, none passes.
//! - *Nothing is added.* What passes is what came, or a part of it.
//!
//! Where no hook decides and the client pays, this is a plain proxy, and headers pass as bodies do; but for `x-backstop-*`, which is
//! ours to say.
//!
//! Limits: hooks that judge requests, and hooks that judge whole texts, are not shown what heads hold; the log names the first [`MOST_TOLD`], without their values, and without a name that may be a secret itself.

mod answers;
mod media;
mod requests;
pub(crate) mod shape;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, Mutex, PoisonError};

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};

use self::shape::Shape;

/// The most names that are told of, in each direction.
const MOST_TOLD: usize = 64;

/// The longest name that is told, and the most digits in one.
const LONGEST_TOLD: usize = 48;
const MOST_DIGITS_TOLD: usize = 4;
/// Stands for all names that are not told of. No header has it.
const MORE: &str = "";
/// What is told of a name that is none of the kind.
const UNTOLD: &str = "(a name that is not shown)";

/// The prefix of all headers that are ours.
pub(crate) const OWN: &str = "x-backstop-";

/// The longest value of a header that the operator named.
const LONGEST_NAMED: usize = 4_096;

/// Names, in which `{a|b}` stands for each of several words, and the shape of their values.
type Row = (&'static str, Shape);

type Table = BTreeMap<String, Shape>;

static OF_REQUESTS: LazyLock<Table> = LazyLock::new(|| table(&requests::TABLES));
static OF_ANSWERS: LazyLock<Table> = LazyLock::new(|| table(&answers::TABLES));

fn table(tables: &[&[Row]]) -> Table {
    let rows = tables.iter().flat_map(|rows| rows.iter());
    rows.flat_map(|(names, shape)| expanded(names).into_iter().map(|name| (name, *shape))).collect()
}

/// All names that a pattern stands for.
fn expanded(pattern: &str) -> Vec<String> {
    let parts = pattern.split_once('{').and_then(|(front, rest)| {
        let (words, behind) = rest.split_once('}')?;
        Some((front, words, behind))
    });
    let Some((front, words, behind)) = parts else { return vec![pattern.to_owned()] };
    let behind = expanded(behind);
    words.split('|').flat_map(|word| behind.iter().map(move |rest| format!("{front}{word}{rest}"))).collect()
}

/// Whose head it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From a client to a provider.
    Request,
    /// From a provider to a client.
    Answer,
}

impl Way {
    fn table(self) -> &'static Table {
        match self {
            Self::Request => &OF_REQUESTS,
            Self::Answer => &OF_ANSWERS,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Request => "requests",
            Self::Answer => "answers",
        }
    }
}

/// Why a header does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stays {
    Unknown,
    Unfit,
    Withheld,
}

impl Stays {
    const fn why(self) -> &'static str {
        match self {
            Self::Unknown => "no table has it; `gateway.headers` names others",
            Self::Unfit => "its value has not the form that this header has",
            Self::Withheld => "a redactor takes its value out",
        }
    }
}

/// The headers that pass where not all do.
#[derive(Debug, Default)]
pub(crate) struct KnownHeaders {
    /// Those that the operator named.
    also: Vec<String>,
    told: [Mutex<BTreeSet<String>>; 2],
}

impl KnownHeaders {
    pub(crate) fn with(also: &[String]) -> Self {
        let also = also.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { also, told: Default::default() }
    }

    /// Whether the operator named the header.
    pub(crate) fn is_named(&self, name: &HeaderName) -> bool {
        self.also.iter().any(|also| also == name.as_str())
    }

    /// What lets headers of a head through.
    pub(crate) fn sieve(&self, way: Way) -> Sieve<'_> {
        Sieve { known: self, way, last: None, words: Vec::new(), out: 0 }
    }

    /// Says that a header does not pass, once for each name.
    fn tell(&self, way: Way, name: &HeaderName, stays: Stays) {
        let [requests, answers] = &self.told;
        let told = if way == Way::Request { requests } else { answers };
        let name = shown(name.as_str());
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        match told.len() {
            ..MOST_TOLD if told.insert(name.to_owned()) => {
                tracing::info!(
                    header = name,
                    of = way.as_str(),
                    "a header does not pass on: {}",
                    stays.why()
                );
            }
            MOST_TOLD if told.insert(MORE.to_owned()) => {
                tracing::info!(of = way.as_str(), "more headers do not pass on, whose names are not told");
            }
            _ => {}
        }
    }
}

/// What lets headers of one head through, one after the other. All values of a name come behind each other.
#[derive(Debug)]
pub(crate) struct Sieve<'a> {
    known: &'a KnownHeaders,
    way: Way,
    /// The name of which the value that counts has come.
    last: Option<HeaderName>,
    /// What passed and is a word.
    words: Vec<HeaderName>,
    /// How many headers were left out.
    out: u32,
}

impl Sieve<'_> {
    /// A value of a header was taken out before: it was the one that counts.
    pub(crate) fn pass_over(&mut self, name: &HeaderName) {
        self.last = Some(name.clone());
    }

    /// Puts a header into `to`, if it passes.
    pub(crate) fn take(&mut self, name: &HeaderName, value: &HeaderValue, to: &mut HeaderMap) {
        let shape = self.shape(name);
        let is_list = shape.is_none_or(Shape::is_list);
        if !is_list && self.last.as_ref() == Some(name) {
            self.out = self.out.saturating_add(1);
            return;
        }
        self.last = Some(name.clone());
        let (taken, is_word) = match shape {
            Some(shape) => (shape.of(value), shape.is_word_in(value)),
            // What is ours nobody else says.
            None if !self.known.is_named(name) || name.as_str().starts_with(OWN) => {
                return self.leave_out(name, Stays::Unknown);
            }
            None => (Some(value.clone()).filter(is_named_value), true),
        };
        let Some(mut taken) = taken else { return self.leave_out(name, Stays::Unfit) };
        taken.set_sensitive(value.is_sensitive());
        if is_word && self.words.last() != Some(name) {
            self.words.push(name.clone());
        }
        to.append(name.clone(), taken);
    }

    /// Takes the words out of `to` that can't be shown, and says how many headers were left out in all. `withholds` says which
    /// of some words these are.
    pub(crate) fn finish(mut self, to: &mut HeaderMap, withholds: impl FnOnce(&[&str]) -> Vec<usize>) -> u32 {
        let names = std::mem::take(&mut self.words);
        let values = names.iter().flat_map(|name| to.get_all(name).iter().map(move |value| (name, value)));
        // What is no text can't be shown, so that it does not pass.
        let (said, unsaid): (Vec<_>, Vec<_>) = values.partition(|(_, value)| value.to_str().is_ok());
        let unsaid: Vec<HeaderName> = unsaid.into_iter().map(|(name, _)| name.clone()).collect();
        let said: Vec<(&HeaderName, &str)> =
            said.into_iter().filter_map(|(name, value)| Some((name, value.to_str().ok()?))).collect();
        if said.is_empty() && unsaid.is_empty() {
            return self.out;
        }
        let words: Vec<&str> = said.iter().map(|(_, word)| *word).collect();
        // All of a list go: the rest of it would be another one.
        let withheld: Vec<HeaderName> = withholds(&words)
            .into_iter()
            .filter_map(|at| said.get(at))
            .map(|(name, _)| (*name).clone())
            .chain(unsaid)
            .collect();
        if withheld.is_empty() {
            return self.out;
        }
        // Whatever is removed in place changes the order of the rest.
        let mut kept = HeaderMap::with_capacity(to.len());
        for (name, value) in to.iter() {
            match withheld.contains(name) {
                true => self.leave_out(name, Stays::Withheld),
                false => drop(kept.append(name.clone(), value.clone())),
            }
        }
        *to = kept;
        self.out
    }

    /// The form of a header's values; `None` if no table has it, or if the operator named it and it holds no key.
    fn shape(&self, name: &HeaderName) -> Option<Shape> {
        let shape = self.way.table().get(name.as_str()).copied();
        shape.filter(|shape| *shape == Shape::Credentials || !self.known.is_named(name))
    }

    fn leave_out(&mut self, name: &HeaderName, stays: Stays) {
        self.out = self.out.saturating_add(1);
        self.known.tell(self.way, name, stays);
    }
}

/// The name of a header as the log may have it. Whoever sends it chose it.
fn shown(name: &str) -> &str {
    let digits = name.bytes().filter(u8::is_ascii_digit).count();
    if name.len() <= LONGEST_TOLD && digits <= MOST_DIGITS_TOLD { name } else { UNTOLD }
}

/// Whether a header that the operator named may have this value.
fn is_named_value(value: &HeaderValue) -> bool {
    value.len() <= LONGEST_NAMED && value.to_str().is_ok()
}

/// Whether a maker of models has the name of a header for its own.
pub(crate) fn is_of_maker(name: &str) -> bool {
    requests::MAKERS.iter().any(|family| name.starts_with(family))
}

#[cfg(test)]
mod tests;
