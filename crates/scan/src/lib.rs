//! Finds what must not leave in any text: secrets, personal data, and hidden text.
//!
//! ```
//! use std::sync::Arc;
//!
//! use backstop_scan::{Action, Class, Policy, Redactor, Scanner};
//!
//! let scanner = Arc::new(Scanner::new());
//! let [span] = &scanner.detect("write to ann@example.org")[..] else { panic!() };
//! assert_eq!((span.class, span.kind, span.start), (Class::Pii, "email", 9));
//!
//! let redactor = Redactor::new(scanner, Policy::new(Action::Redact));
//! assert_eq!(redactor.apply("write to ann@example.org").text, "write to [redacted:email]");
//! ```
//!
//! The crate is pure: it reads no files, opens no connections, starts no threads, and knows nothing about agents or
//! hooks. Every function is total: it returns a result for any bytes.
//!
//! Two steps are separate. A [`Scanner`] *detects*: it returns [`Span`]s with class, kind, place,
//! confidence and evidence, and changes nothing. A [`Policy`] *decides* what happens to each finding (block,
//! redact, mask, hash, or a placeholder that a [`Vault`] can resolve) and writes the clean text. [`Stream`] does this for
//! text that arrives in pieces.
//!
//! **Law of locality.** Whether a span is found depends on a bounded neighbourhood of it, never on text far
//! away. For this reason a stream gives the same result as the whole text wherever it is split, and the
//! time is linear in the length of the text, whatever it contains.
//!
//! **Cost.** One pass looks for a few dozen literals and one for digits. Both use vector instructions and
//! skip text that can't contain a candidate. Token formats are tables of prefixes, alphabets and lengths
//! (see the private module `template`), so nothing has to be compiled. Building the tables takes a
//! millisecond, when the first text is scanned, and they serve all scanners of the process.
//!
//! **Reading.** Text with hidden characters or escapes is also read as its reader sees it
//! (see the private module `squeezed`), so encoding, padding or joining a token does not hide it.
//!
//! **Knowledge is data.** Formats of secrets and numbers are in `catalogue`, each with its source and its
//! cases, and are compiled in. [`Catalogue`] adds an operator's own, checked by the same reader.
//!
//! **Limits.** Only text is read: compressed, encrypted or spelled-out values pass. Base64 is
//! not decoded, except for the structure of JSON web tokens. Names and postal addresses of persons are not
//! found.

mod catalogue;
mod checks;
mod entry;
mod hidden;
mod json;
mod kinds;
mod notation;
mod pii;
mod policy;
mod sealed;
mod secrets;
mod span;
mod squeezed;
mod stream;
mod template;
mod text;
mod vault;

pub use catalogue::{Catalogue, Source};
pub use kinds::Described;
pub use policy::{Action, Edit, Finding, Policy, Redacted, Redactor};
pub use span::{Class, Evidence, Span};
pub use stream::{Certain, Stream};
pub use vault::Vault;

use std::sync::Arc;

use secrets::Secrets;
use squeezed::Squeezed;
use text::DIGIT;

/// Finds secrets, personal data and hidden text.
///
/// It is `Send + Sync` and has no inner state: one scanner serves any number of threads.
///
/// ```
/// use backstop_scan::{Class, Scanner};
///
/// let scanner = Scanner::new();
/// let spans = scanner.detect("write to ann@example.org");
/// assert_eq!(spans[0].class, Class::Pii);
/// assert_eq!(spans[0].kind, "email");
/// ```
#[derive(Debug)]
pub struct Scanner {
    secrets: bool,
    pii: bool,
    hidden: bool,
    own: Option<Arc<Catalogue>>,
}

/// What is known about a text as a whole: the only thing that does not fit into a neighbourhood.
#[derive(Clone, Copy, Debug)]
struct Scope {
    /// It holds nothing but identifiers.
    alone: bool,
    /// It is no longer than a line.
    brief: bool,
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

impl Scanner {
    /// Creates a scanner for all classes.
    #[must_use]
    pub fn new() -> Self {
        Self { secrets: true, pii: true, hidden: true, own: None }
    }

    /// Creates a scanner for some classes only.
    #[must_use]
    pub fn for_classes(classes: &[Class]) -> Self {
        Self {
            secrets: classes.contains(&Class::Secret),
            pii: classes.contains(&Class::Pii),
            hidden: classes.contains(&Class::Hidden),
            own: None,
        }
    }

    /// Adds an operator's catalogue.
    #[must_use]
    pub fn with(self, catalogue: Arc<Catalogue>) -> Self {
        Self { own: Some(catalogue), ..self }
    }

    /// Returns whether it can find `kind` of this class, including kinds that an operator added.
    #[must_use]
    pub fn knows(&self, class: Class, kind: &str) -> bool {
        let own = || self.own.iter().flat_map(|own| own.kinds(class));
        Self::kinds(class).contains(kind) || own().any(|known| known == kind)
    }

    /// Returns all findings in `text`, in the order of the text, without overlaps.
    #[must_use]
    pub fn detect(&self, text: &str) -> Vec<Span> {
        span::resolve(self.whole(text))
    }

    /// Returns all findings in `text`, also those that overlap.
    fn whole(&self, text: &str) -> Vec<Span> {
        let bytes = text.as_bytes();
        let scope = Scope { alone: pii::is_alone(bytes), brief: bytes.len() <= pii::LONGEST_ALONE };
        self.candidates(bytes, scope)
    }

    /// Returns the tables of secrets, if those are looked for.
    fn secrets(&self) -> impl Iterator<Item = &Secrets> {
        let own = self.own.as_deref().and_then(Catalogue::secrets);
        Secrets::built_in().into_iter().chain(own).filter(|_| self.secrets)
    }

    /// Returns all findings in a text of which so much is known, also those that overlap.
    fn candidates(&self, text: &[u8], scope: Scope) -> Vec<Span> {
        let mut found = Vec::new();
        hidden::find(text, &mut found);
        let squeezed = Squeezed::of(text, &found).filter(|_| self.secrets || self.pii);
        found.retain(|_| self.hidden);
        self.visible(text, scope, &mut found);
        if let Some(squeezed) = squeezed {
            let mut without = Vec::new();
            self.visible(squeezed.text(), scope, &mut without);
            found.extend(without.into_iter().map(|span| squeezed.in_whole(span)));
        }
        secrets::published::let_go(text, &mut found);
        found
    }

    /// Findings besides hidden text.
    fn visible(&self, text: &[u8], scope: Scope, found: &mut Vec<Span>) {
        for secrets in self.secrets() {
            secrets.at_anchors(text, found);
        }
        if self.pii || self.secrets {
            self.at_digits(text, scope, found);
        }
        if self.pii && scope.brief {
            pii::whole(text, found);
        }
    }

    fn at_digits(&self, text: &[u8], scope: Scope, found: &mut Vec<Span>) {
        let tables = pii::Tables { own: self.own.as_deref().map(Catalogue::numbers) };
        let mut probed = 0;
        for at in digits_and_signs(text) {
            if text.get(at) == Some(&b'@') {
                if self.pii {
                    pii::at_sign(text, at, found);
                }
            } else if !DIGIT.has(text::before(text, at)) {
                for secrets in self.secrets() {
                    secrets.around_digit(text, probed, at, found);
                }
                probed = at;
                if self.pii {
                    pii::at_digit(text, at, scope, tables, found);
                }
            }
        }
    }
}

/// Returns the places of all digits and `@`, in order.
fn digits_and_signs(text: &[u8]) -> impl Iterator<Item = usize> + '_ {
    const CHUNK: usize = u32::BITS as usize;
    let is_one = |byte: u8| (byte.wrapping_sub(b'0') < 10) | (byte == b'@');
    text.chunks(CHUNK).enumerate().flat_map(move |(index, chunk)| {
        // Most chunks have none, which vector instructions see at once; of the others one bit each tells.
        let mut left = match chunk.iter().fold(false, |any, &byte| any | is_one(byte)) {
            false => 0,
            true => chunk.iter().rev().fold(0_u32, |bits, &byte| bits << 1 | u32::from(is_one(byte))),
        };
        std::iter::from_fn(move || {
            let offset = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(index * CHUNK + offset)
        })
    })
}
