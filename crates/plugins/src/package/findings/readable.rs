//! Whether a person can read source: how long its lines are, and how many of its names are of one letter.
//!
//! Both are measured where the source is at its worst, so that what is easy to read does not make up for what stands beside it: of the
//! lines, the length of the one in which an average *byte* stands; of the names, the share in each stretch of [`STRETCH`] of them.

/// A line of source that nobody reads, in bytes.
const LONG_LINE: usize = 5_000;
/// Beyond this, in bytes, lines are no lines of a person's. It is the length of the line in which an average byte stands.
const LONG_LINES: u64 = 500;
/// So many names are looked at together.
const STRETCH: usize = 400;
/// The fewest names that say something, where there is no whole stretch.
const FEWEST: usize = 100;
/// Of a hundred names in a row, this many of one letter are not a person's.
const SHORT_NAMES: usize = 45;

/// Whether this source was made shorter by a program, or so that nobody can read it.
pub(super) fn is_minified(text: &str) -> bool {
    has_long_lines(text) || has_short_names(text)
}

fn has_long_lines(text: &str) -> bool {
    let (mut bytes, mut squares) = (0_u64, 0_u64);
    for line in text.lines() {
        if line.len() > LONG_LINE {
            return true;
        }
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        bytes = bytes.saturating_add(length);
        squares = squares.saturating_add(length.saturating_mul(length));
    }
    squares > bytes.saturating_mul(LONG_LINES)
}

fn has_short_names(text: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    let names = text
        .split(|c| !is_of_name(c))
        .filter(|word| !word.is_empty() && !word.starts_with(|c: char| c.is_ascii_digit()));
    let (mut seen, mut short) = (0, 0);
    let are_short = |seen: usize, short: usize| short * 100 > seen * SHORT_NAMES;
    for name in names {
        seen += 1;
        short += usize::from(name.chars().nth(1).is_none());
        if seen == STRETCH {
            if are_short(seen, short) {
                return true;
            }
            (seen, short) = (0, 0);
        }
    }
    seen >= FEWEST && are_short(seen, short)
}
