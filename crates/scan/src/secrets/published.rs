//! Values that everybody knows: examples from standards and documentation, which grant no access.
//!
//! They are stored as the first half of their SHA-256, so that no file of the project contains what looks like a token.

use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::span::{Class, Span};
use crate::text::cut;

/// The longest value that is printed as an example, in bytes.
const LONGEST: usize = 512;

/// The digests, in order, as `build.rs` made them of `catalogue/published.yaml`.
static PUBLISHED: &[[u8; 16]] = include!(concat!(env!("OUT_DIR"), "/published.rs"));

/// Takes what documents print out of `found`, also what was found inside of it.
pub(crate) fn let_go(text: &[u8], found: &mut Vec<Span>) {
    let printed = |span: &&Span| span.class == Class::Secret && is_published(cut(text, span.start, span.end));
    let mut known: Vec<Range<usize>> =
        found.iter().filter(printed).map(|span| span.start..span.end).collect();
    known.sort_by_key(|known| known.start);
    let inside = |span: &Span| {
        let behind = known.partition_point(|known| known.start <= span.start);
        known.get(..behind).and_then(<[_]>::last).is_some_and(|known| span.end <= known.end)
    };
    if !known.is_empty() {
        found.retain(|span| span.class != Class::Secret || !inside(span));
    }
}

/// Returns whether documents print this value.
fn is_published(value: &[u8]) -> bool {
    let digest = || Sha256::digest(value);
    let known = |digest: &[u8]| PUBLISHED.binary_search_by(|known| known.as_slice().cmp(digest)).is_ok();
    value.len() <= LONGEST && digest().get(..16).is_some_and(known)
}
