//! Texts for people: safe on a terminal, aligned, in human units.

use std::time::Duration;

use backstop::store::Timestamp;

/// The text with everything that could redraw a terminal or reorder what is read shown as an escape. Line
/// breaks and tabs stay.
pub(crate) fn plain(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\n' | '\t') || !is_deceptive(c) {
            safe.push(c);
        } else {
            safe.extend(c.escape_unicode());
        }
    }
    safe
}

/// As [`plain`], on one line of at most `most` characters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let line: String = text.chars().map(|c| if matches!(c, '\n' | '\t') { ' ' } else { c }).collect();
    let line = plain(line.trim());
    if line.chars().count() <= most {
        return line;
    }
    line.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Rows with aligned columns, two blanks between them. The first row is the heading.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max())
        .map(Option::unwrap_or_default)
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width_of_column) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.push_str(&" ".repeat(width_of_column.saturating_sub(width(cell)) + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

/// A duration in the unit in which people would say it.
pub(crate) fn elapsed(duration: Duration) -> String {
    let micros = duration.as_micros();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{:.1} ms", duration.as_secs_f64() * 1e3),
        _ if duration.as_secs() < 120 => format!("{:.1} s", duration.as_secs_f64()),
        _ => coarse(duration),
    }
}

/// How long ago a moment was.
pub(crate) fn ago(then: Timestamp, now: Timestamp) -> String {
    format!("{} ago", coarse(then.until(now)))
}

/// How far ahead a moment is.
pub(crate) fn in_future(now: Timestamp, then: Timestamp) -> String {
    if then <= now { "over".to_owned() } else { format!("in {}", coarse(now.until(then))) }
}

fn coarse(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_shown_can_drive_a_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\r\n\u{202e}c\u{9b}1m"), "a\\u{1b}[2Jb\\u{d}\n\\u{202e}c\\u{9b}1m");
        assert_eq!(one_line("  a\nb\tc  ", 10), "a b c");
        assert_eq!(one_line("abcdef", 4), "abc…");
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["id".into(), "name".into()], vec!["µµµ".into(), "x".into()]];
        assert_eq!(table(&rows), "id   name\nµµµ  x\n");
    }

    #[test]
    fn durations_are_said_as_people_say_them() {
        assert_eq!(elapsed(Duration::from_micros(12)), "12 µs");
        assert_eq!(elapsed(Duration::from_micros(1_500)), "1.5 ms");
        assert_eq!(elapsed(Duration::from_secs(3)), "3.0 s");
        assert_eq!(elapsed(Duration::from_secs(600)), "10 min");
        let now = Timestamp::from_millis(10_000);
        assert_eq!(ago(Timestamp::from_millis(3_000), now), "7 s ago");
        assert_eq!(in_future(now, Timestamp::from_millis(9_000)), "over");
    }
}
