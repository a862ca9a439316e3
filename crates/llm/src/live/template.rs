//! Frames that are like others but for their text.
//!
//! What stands around the text of a frame is kept; a frame with the same bytes around a JSON string is the same event with another
//! text, and is read without parsing.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use super::frame::{Frame, may_be_two_lines};
use super::ledger::TextId;
use super::span::literal_end;
use super::stream::Reading;

/// Texts that grow side by side (one per choice) beyond this number are read the long way.
pub(super) const MOST_TEMPLATES: usize = 4;

/// A frame with one text, and what stands around the text.
#[derive(Debug)]
pub(super) struct Template<M> {
    pub(super) mark: M,
    pub(super) text: TextId,
    /// Where the literal begins in the data.
    pub(super) literal_start: usize,
    /// The bytes up to the inside of the text's literal, from there to the inside of each padding, and to the end.
    fixed: Vec<Bytes>,
}

impl<M: Clone> Template<M> {
    pub(super) fn of(frame: &Frame, place: Option<&Range<usize>>, reading: &Reading<M>) -> Option<Self> {
        let ([text], Some(padding), Some(place), false, true) =
            (reading.texts.as_slice(), &reading.padding, place, reading.call, reading.repeats.is_empty())
        else {
            return None;
        };
        // Padding before the text would move it.
        let mut literals = vec![text.literal.clone()];
        literals.extend(padding.iter().cloned());
        if !literals.is_sorted_by_key(|literal| literal.start) {
            return None;
        }
        let (mut fixed, mut from) = (Vec::with_capacity(literals.len() + 1), 0);
        for literal in literals {
            let inside = place.start + literal.start + 1;
            fixed.push(frame.bytes.slice_ref(frame.bytes.get(from..inside)?));
            from = (place.start + literal.end).checked_sub(1)?;
        }
        fixed.push(frame.bytes.slice_ref(frame.bytes.get(from..)?));
        Some(Self { mark: reading.mark.clone(), text: text.id, literal_start: text.literal.start, fixed })
    }

    /// The text of a frame that is like this one, and the length of its literal. `is_padding` says of a text whether it is padding.
    pub(super) fn text_of<'a>(
        &self,
        frame: &'a [u8],
        is_padding: &mut dyn FnMut(&str) -> bool,
    ) -> Option<(Cow<'a, str>, usize)> {
        let (first, rest) = self.fixed.split_first()?;
        let mut at = frame.starts_with(first).then_some(first.len())?;
        let mut text = None;
        for (place, fixed) in rest.iter().enumerate() {
            let end = literal_end(frame, at)?;
            let inside = frame.get(at..end)?;
            if place == 0 {
                let said = unescape(inside)?;
                if may_be_two_lines(&said) {
                    return None;
                }
                text = Some((said, inside.len() + 2));
            } else if !is_padding(str::from_utf8(inside).ok()?) {
                return None;
            }
            at = end + fixed.len();
            if frame.get(end..at) != Some(fixed) {
                return None;
            }
        }
        text.filter(|_| at == frame.len())
    }
}

/// What a literal says; `None` if it is not one.
fn unescape(literal: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(literal).ok()?;
    if !literal.iter().any(|byte| *byte < b' ' || *byte == b'\\') {
        return Some(Cow::Borrowed(text));
    }
    serde_json::from_str::<String>(&format!("\"{text}\"")).ok().map(Cow::Owned)
}
