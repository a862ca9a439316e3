//! Bounding and decoding text that came from outside.

/// A decoded piece of foreign bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decoded {
    /// The text, with U+FFFD where bytes were not UTF-8.
    pub(super) text: String,
    /// Whether there was such a place.
    pub(super) lossy: bool,
}

/// Decodes UTF-8, replacing what is not.
pub(super) fn decode(bytes: &[u8]) -> Decoded {
    match String::from_utf8_lossy(bytes) {
        std::borrow::Cow::Borrowed(text) => Decoded { text: text.to_owned(), lossy: false },
        std::borrow::Cow::Owned(text) => Decoded { text, lossy: true },
    }
}

/// How many bytes at the end of `bytes` are the beginning of a character whose rest is missing (0 to 3).
pub(super) fn unfinished_suffix(bytes: &[u8]) -> usize {
    (1..=3.min(bytes.len()))
        .find(|&count| {
            let tail = bytes.get(bytes.len() - count..).unwrap_or_default();
            let needed = match tail.first() {
                Some(0xC2..=0xDF) => 2,
                Some(0xE0..=0xEF) => 3,
                Some(0xF0..=0xF4) => 4,
                _ => 0,
            };
            let cut = std::str::from_utf8(tail).err().is_some_and(|error| error.error_len().is_none());
            needed > count && cut
        })
        .unwrap_or(0)
}

/// How many bytes at the start of `bytes` are the end of a character whose start is missing (0 to 3).
pub(super) fn orphaned_prefix(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|byte| (0x80..0xC0).contains(*byte)).count()
}

/// The longest prefix of `text` of at most `max` bytes that ends at a character boundary.
pub(super) fn prefix(text: &str, max: usize) -> &str {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// The longest suffix of `text` of at most `max` bytes that starts at a character boundary.
pub(super) fn suffix(text: &str, max: usize) -> &str {
    let mut start = text.len().saturating_sub(max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default()
}

/// `text` cut to `max` bytes for use inside a message, with control characters made visible.
pub(super) fn clip(text: &str, max: usize) -> String {
    let kept = prefix(text, max);
    let mut clipped: String = kept.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect();
    if kept.len() < text.len() {
        clipped.push('…');
    }
    clipped
}

/// `text` itself if it has at most `max` bytes, else its beginning with a note of what was cut.
pub(super) fn bound(text: String, max: usize) -> String {
    const NOTE_BYTES: usize = 64;
    if text.len() <= max {
        return text;
    }
    let kept = prefix(&text, max.saturating_sub(NOTE_BYTES));
    let dropped = text.len() - kept.len();
    format!("{kept}\n[{dropped} more bytes were cut]")
}

/// A hint naming the known word nearest to `word`, or all of them if none is near; empty without any.
pub(super) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    const NEAR: f64 = 0.75;
    let word = prefix(word, 64);
    let known: Vec<&str> = known.into_iter().collect();
    let best = known
        .iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), *candidate))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        Some((score, candidate)) if score >= NEAR => format!("; hint: did you mean `{candidate}`?"),
        Some(_) => format!("; hint: use one of `{}`", known.join("`, `")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_characters_are_found_at_both_ends() {
        let bytes = "aé€😀".as_bytes();
        for end in 0..=bytes.len() {
            let head = &bytes[..end];
            let whole = end - unfinished_suffix(head);
            assert!(std::str::from_utf8(&head[..whole]).is_ok(), "head of {end}");
            let tail = &bytes[end..];
            assert!(std::str::from_utf8(&tail[orphaned_prefix(tail)..]).is_ok(), "tail from {end}");
        }
    }

    #[test]
    fn bytes_that_are_simply_wrong_are_not_taken_for_unfinished() {
        assert_eq!(unfinished_suffix(b"a\xff"), 0);
        assert_eq!(unfinished_suffix(b"\x80\x80\x80"), 0);
        assert_eq!(unfinished_suffix(b"abc"), 0);
        assert!(decode(b"a\xffb").lossy);
    }

    #[test]
    fn bound_keeps_short_text_and_says_what_it_cut() {
        assert_eq!(bound("short".to_owned(), 5), "short");
        let cut = bound("é".repeat(500), 301);
        assert!(cut.len() <= 301, "{}", cut.len());
        assert!(cut.contains("more bytes were cut"), "{cut}");
    }

    #[test]
    fn near_words_are_suggested_and_far_ones_listed() {
        assert_eq!(did_you_mean("pth", ["path", "content"]), "; hint: did you mean `path`?");
        assert_eq!(did_you_mean("zzz", ["path", "content"]), "; hint: use one of `path`, `content`");
    }
}
