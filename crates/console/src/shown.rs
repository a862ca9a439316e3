//! Texts as people are shown them.

use std::time::Duration;

use backstop_store::Timestamp;
use maud::{Markup, html};

/// Returns the text with every character spelled out that can't be seen, or that changes how others are read. Line breaks and tabs stay.
///
/// What stays is a closed list: letters and digits of all scripts, and what the standard library knows as printable.
pub fn plain(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\n' | '\t' | ' ') || is_seen(c) {
            safe.push(c);
        } else {
            safe.extend(c.escape_unicode());
        }
    }
    safe
}

/// Tells how much of a text is not shown.
pub(crate) fn bytes_more(more: usize) -> String {
    format!("and {more} bytes more")
}

/// As [`plain`], on one line of at most `most` characters.
pub fn one_line(text: &str, most: usize) -> String {
    // Twice as much is looked at, since blanks may go.
    let begun: String = text.chars().take(most.saturating_mul(2).saturating_add(1)).collect();
    let line = begun.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = plain(&line);
    if line.chars().count() <= most && begun.len() == text.len() {
        return line;
    }
    line.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// Whether it can be seen, and leaves what stands beside it as it is read.
pub(crate) fn is_seen(c: char) -> bool {
    // Letters and signs without any ink.
    if matches!(c, '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}') {
        return false;
    }
    // The quotation marks and the backslash are escaped there for programs, and not since they can't be seen.
    c.is_ascii_graphic() || c.is_alphanumeric() || c.escape_debug().count() == 1
}

/// Returns a span of time as people say it.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A moment in the past.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(at) title=(at) { (span(at.until(now))) " ago" } }
}

/// A moment that is still to come; the script counts down to it.
pub(crate) fn left(until: Timestamp, now: Timestamp) -> Markup {
    html! {
        time.countdown datetime=(until) title=(until) data-until=(until.as_millis()) {
            @if now > until { "over" } @else { (span(now.until(until))) " left" }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_can_not_be_seen_is_spelled_out() {
        for (text, shown) in [
            ("plain text: \"a\" 'b' \\c", "plain text: \"a\" 'b' \\c"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("a\u{0}b\u{1b}[2J", "a\\u{0}b\\u{1b}[2J"),
            ("x\u{200b}y\u{feff}z\u{e0041}", "x\\u{200b}y\\u{feff}z\\u{e0041}"),
            ("line\nbreak\tand tab\r", "line\nbreak\tand tab\\u{d}"),
            ("\u{3164}\u{2800}\u{a0}", "\\u{3164}\\u{2800}\\u{a0}"),
            ("grüße, 你好, שלום, हिन्दी 🙂 €", "grüße, 你好, שלום, हिन\\u{94d}दी 🙂 €"),
        ] {
            assert_eq!(plain(text), shown);
        }
        assert_eq!(one_line("a \n b\u{202e}", 20), "a b\\u{202e}");
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(one_line(&"a".repeat(100_000), 4), "aaa…");
    }

    proptest! {
        #[test]
        fn whatever_is_shown_is_shown_the_same_again(text in any::<String>()) {
            let once = plain(&text);
            prop_assert_eq!(plain(&once), once.clone());
            prop_assert!(!once.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')));
            let line = one_line(&text, 30);
            prop_assert!(line.chars().count() <= 30 && !line.contains('\n'));
        }
    }
}
