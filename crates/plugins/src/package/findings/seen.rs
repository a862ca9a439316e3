//! Whether a reader sees what a text holds.
//!
//! What may stand in a text is a closed list: white space that editors show, and characters that leave a mark. Those are the ones that the
//! standard library prints as they are (letters, marks, numbers, punctuation and symbols that Unicode has assigned), without those that
//! Unicode calls [default ignorable](https://www.unicode.org/reports/tr44/#Default_Ignorable_Code_Point), which are drawn as nothing, and
//! without the one symbol that is drawn as nothing, too. The list of default ignorable characters is closed: Unicode reserves its places.
//!
//! Three things that are not seen belong to what stands before them: a selector that says how an emoji is drawn, one that makes a key of a
//! digit, and in prose the joiner between the parts of an emoji. Each stands once, right behind what it belongs to.

use std::ops::RangeInclusive;

/// What Unicode draws as nothing: the property `Default_Ignorable_Code_Point` of `DerivedCoreProperties.txt` (Unicode 17).
const IGNORABLE: [RangeInclusive<char>; 17] = [
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{61c}'..='\u{61c}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{200b}'..='\u{200f}',
    '\u{202a}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{3164}'..='\u{3164}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fff8}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e0fff}',
];
/// The Braille pattern without dots: a symbol, and empty.
const EMPTY: char = '\u{2800}';
const JOINER: char = '\u{200d}';
const KEY: char = '\u{20e3}';

/// Whether there is anything that a reader does not see. A byte order mark may stand at the beginning.
pub(super) fn has_hidden(text: &str, is_code: bool) -> bool {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut all = text.chars().peekable();
    let mut before = ' ';
    while let Some(c) = all.next() {
        let is_seen = match c {
            '\r' => all.peek() == Some(&'\n'),
            // Data and records of terminals have sequences for them; source has them written.
            '\u{1b}' => !is_code,
            '\n' | '\t' | '\u{c}' => true,
            JOINER => !is_code && is_emoji(before),
            '\u{fe0e}' | '\u{fe0f}' => is_drawn(before) || is_key(before) && all.peek() == Some(&KEY),
            c => is_visible(c),
        };
        if !is_seen {
            return true;
        }
        before = c;
    }
    false
}

/// Whether a character leaves a mark wherever it stands, or is a space that everybody knows.
pub(super) fn is_visible(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // No-break spaces and the space of East Asian text; the other ones are of typesetters.
    matches!(c, '\u{a0}' | '\u{202f}' | '\u{3000}')
        || c != EMPTY && is_printed(c) && !IGNORABLE.iter().any(|range| range.contains(&c))
}

/// Whether the standard library prints a character as it is. Marks that stand on a letter are given one.
fn is_printed(c: char) -> bool {
    let (mut letter, mut mark) = ([0; 5], [0; 4]);
    let mark = c.encode_utf8(&mut mark).as_bytes();
    let Some(place) = letter.get_mut(..=mark.len()) else { return false };
    place.fill(b'a');
    if let Some(rest) = place.get_mut(1..) {
        rest.copy_from_slice(mark);
    }
    std::str::from_utf8(place).is_ok_and(|text| text.escape_debug().eq(text.chars()))
}

/// What the way to draw it can be said of: emoji and symbols.
fn is_drawn(c: char) -> bool {
    is_visible(c)
        && (is_emoji(c)
            || matches!(c, '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}'))
        || matches!(c, '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}')
}

fn is_key(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '#' | '*')
}

fn is_emoji(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{2bff}' | '\u{fe0f}' | '\u{1f000}'..='\u{1faff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn honest_text_is_seen() {
        for text in [
            "\u{feff}let a = 1;\r\n\tb();\n",
            "// na\u{ef}ve, e\u{301}, \u{915}\u{94d}\u{937}, \u{65e5}\u{672c}\u{8a9e}\u{3000}, \u{5e9}\u{5b8}, \u{a0}",
            "log('\u{26a0}\u{fe0f} careful \u{2714}\u{fe0e} 1\u{fe0f}\u{20e3} \u{a9}\u{fe0f} \u{1f44d}\u{1f3fd}');",
        ] {
            assert!(!has_hidden(text, true) && !has_hidden(text, false), "{text}");
        }
        let family = "\u{1f469}\u{200d}\u{2764}\u{fe0f}\u{200d}\u{1f469}";
        assert!(!has_hidden(family, false) && has_hidden(family, true));
        assert!(!has_hidden("\u{1b}[1m", false));
    }

    #[test]
    fn what_is_not_seen_is_found() {
        for c in [
            "\u{fe00}",
            "\u{fe0f}",
            "\u{e0100}",
            "\u{e01ef}",
            "\u{3164}",
            "\u{ffa0}",
            "\u{2800}",
            "\u{1b}",
            "\u{115f}",
            "\u{180e}",
            "\u{200b}",
            "\u{202e}",
            "\u{2028}",
            "\u{e0041}",
            "\u{34f}",
            "\u{8}",
            "\u{85}",
            "\u{2003}",
            "\u{e000}",
            "\u{fdd0}",
            "\u{378}",
            "\u{fff9}",
        ] {
            assert!(has_hidden(&format!("let a{c} = 1;"), true), "{c:?}");
        }
        for text in ["a();\r// b();\n", "a\r", "1\u{fe0f} ", "\u{26a0}\u{fe0f}\u{fe0f}", "\u{2800}\u{fe0f}"] {
            assert!(has_hidden(text, true) && has_hidden(text, false), "{text:?}");
        }
    }

    /// Neither what stands before nor what stands behind makes up for it.
    #[test]
    fn what_is_ignorable_is_found_wherever_it_stands() {
        for c in IGNORABLE.into_iter().flatten() {
            for text in [
                format!("x{c}"),
                format!("x{c}{c}y"),
                format!("x();\n\u{e9}{c} y"),
                format!("\u{26a0}\u{fe0f}{c}"),
            ] {
                // An emoji may be drawn as one, once, and in prose be joined to another.
                if text.starts_with('\u{26a0}') && c == JOINER {
                    continue;
                }
                assert!(has_hidden(&text, true) && has_hidden(&text, false), "{text:?}");
            }
        }
    }
}
