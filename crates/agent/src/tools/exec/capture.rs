//! The output of a command in bounded memory.
//!
//! What a command prints first and what it prints last matter most, so the first and the last bytes are kept and what
//! falls between them is counted.

use std::collections::VecDeque;

use crate::tools::text;

/// The first and the last bytes of a stream.
#[derive(Debug)]
pub(in crate::tools) struct Capture {
    head: Vec<u8>,
    head_max: usize,
    tail: VecDeque<u8>,
    tail_max: usize,
    total: u64,
}

/// Captured output as text.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::tools) struct Rendered {
    pub(in crate::tools) text: String,
    pub(in crate::tools) dropped: u64,
    pub(in crate::tools) lossy: bool,
}

impl Capture {
    /// Keeps at most the first `head_max` and the last `tail_max` bytes.
    pub(in crate::tools) fn new(head_max: usize, tail_max: usize) -> Self {
        Self { head: Vec::new(), head_max, tail: VecDeque::new(), tail_max, total: 0 }
    }

    pub(in crate::tools) fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(length(bytes.len()));
        let (first, rest) = bytes.split_at(bytes.len().min(self.head_max - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = rest.get(rest.len().saturating_sub(self.tail_max)..).unwrap_or_default();
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_max);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// How many bytes came in.
    pub(in crate::tools) fn total(&self) -> u64 {
        self.total
    }

    /// Everything that was kept, as text of at most about `max` bytes, with a note where something is missing.
    pub(in crate::tools) fn render(&self, max: usize) -> Rendered {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let dropped = self.total - length(self.head.len()) - length(tail.len());
        if dropped == 0 {
            let whole = [self.head.as_slice(), &tail].concat();
            let decoded = text::decode(&whole);
            if decoded.text.len() <= max {
                return Rendered { text: decoded.text, dropped: 0, lossy: decoded.lossy };
            }
        }
        let head = self.head.get(..self.head.len() - text::unfinished_suffix(&self.head)).unwrap_or_default();
        let tail = tail.get(text::orphaned_prefix(&tail)..).unwrap_or_default();
        let (head, tail) = (text::decode(head), text::decode(tail));
        // Undecodable bytes grow threefold, so that the text may be longer than the bytes.
        let (first, last) = (text::prefix(&head.text, max / 2), text::suffix(&tail.text, max / 2));
        let note = match dropped {
            0 => "[some output was cut here]".to_owned(),
            dropped => format!("[{dropped} bytes of output were dropped here]"),
        };
        Rendered { text: format!("{first}\n{note}\n{last}"), dropped, lossy: head.lossy || tail.lossy }
    }

    /// What came in after the first `offset` bytes, and how many of these are no longer there.
    pub(in crate::tools) fn since(&self, offset: u64) -> (Vec<u8>, u64) {
        let kept_from = self.total - length(self.tail.len());
        let missing = kept_from.saturating_sub(offset);
        let skip = usize::try_from(offset.saturating_sub(kept_from)).unwrap_or(usize::MAX);
        (self.tail.iter().skip(skip).copied().collect(), missing)
    }
}

fn length(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cut_never_splits_a_character() {
        let mut capture = Capture::new(4, 4);
        capture.push("€€€€".as_bytes());
        let rendered = capture.render(100);
        assert_eq!(rendered.text, "€\n[4 bytes of output were dropped here]\n€");
        assert!(!rendered.lossy);
    }

    #[test]
    fn rendering_is_bounded_also_when_every_byte_is_invalid() {
        let mut capture = Capture::new(500, 500);
        capture.push(&[0xFF; 1000]);
        let rendered = capture.render(1000);
        assert!(rendered.text.len() < 1100 && rendered.lossy, "{}", rendered.text.len());
    }

    proptest! {
        #[test]
        fn head_and_tail_are_those_of_the_whole(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..20),
            head in 0_usize..30, tail in 0_usize..30, offset in 0_usize..500,
        ) {
            let whole = chunks.concat();
            let mut capture = Capture::new(head, tail);
            for chunk in &chunks {
                capture.push(chunk);
            }
            let first = head.min(whole.len());
            prop_assert_eq!(&capture.head, &whole[..first]);
            let kept = tail.min(whole.len() - first);
            prop_assert_eq!(capture.tail.iter().copied().collect::<Vec<_>>(), &whole[whole.len() - kept..]);
            prop_assert_eq!(capture.total(), whole.len() as u64);
            let (bytes, missing) = capture.since(offset as u64);
            let start = offset.max(whole.len() - kept).min(whole.len());
            prop_assert_eq!(bytes, &whole[start..]);
            prop_assert_eq!(missing, (whole.len() - kept).saturating_sub(offset) as u64);
        }
    }
}
