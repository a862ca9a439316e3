//! Finding the place of a hunk in a file, and putting it there.

use std::collections::HashSet;

use super::PatchError;
use super::parse::{Hunk, Line};
use crate::tools::text;

const NAMED_PLACES: usize = 10;

/// The contents of the file at `path` after `hunks`.
pub(super) fn apply_hunks(path: &str, content: &str, hunks: &[Hunk]) -> Result<String, PatchError> {
    let file = File::new(path, content);
    let mut result: Vec<String> = Vec::new();
    let mut copied = 0;
    let mut newline = file.final_newline;
    for hunk in hunks {
        let place = file.place(hunk, copied)?;
        result.extend(file.lines.get(copied..place).unwrap_or_default().iter().map(|&line| line.to_owned()));
        copied = place;
        for line in &hunk.lines {
            match line {
                Line::Keep(_) => {
                    result.extend(file.lines.get(copied).map(|&line| line.to_owned()));
                    copied += 1;
                }
                Line::Remove(_) => copied += 1,
                Line::Insert(text) => result.push(file.with_line_end(text)),
            }
        }
        newline = hunk.final_newline.unwrap_or(newline);
    }
    result.extend(file.lines.get(copied..).unwrap_or_default().iter().map(|&line| line.to_owned()));
    let mut content = result.join("\n");
    if newline && !result.is_empty() {
        content.push('\n');
    }
    Ok(content)
}

struct File<'a> {
    path: &'a str,
    /// Without `\n`, but with `\r` where there is one.
    lines: Vec<&'a str>,
    final_newline: bool,
    windows: bool,
}

impl<'a> File<'a> {
    fn new(path: &'a str, content: &'a str) -> Self {
        let final_newline = content.ends_with('\n') || content.is_empty();
        let body = content.strip_suffix('\n').unwrap_or(content);
        let lines = if content.is_empty() { Vec::new() } else { body.split('\n').collect() };
        Self { path, lines, final_newline, windows: content.contains("\r\n") }
    }

    fn with_line_end(&self, line: &str) -> String {
        match self.windows && !line.ends_with('\r') {
            true => format!("{line}\r"),
            false => line.to_owned(),
        }
    }

    /// The index of the line at which `hunk` goes, not before `from`.
    fn place(&self, hunk: &Hunk, from: usize) -> Result<usize, PatchError> {
        let from = self.below(hunk, from)?;
        let old = hunk.old_lines();
        if old.is_empty() {
            return Ok(self.insertion(hunk, from));
        }
        let mut fits = self.fits(&old, from, str::eq);
        if fits.is_empty() {
            fits = self.fits(&old, from, |a, b| a.trim_end() == b.trim_end());
        }
        if hunk.at_end {
            fits.retain(|place| place + old.len() == self.lines.len());
        }
        if let Some(start) = hunk.start {
            let wanted = start.saturating_sub(1);
            fits.sort_by_key(|place| place.abs_diff(wanted));
            fits.truncate(1);
        }
        match fits.as_slice() {
            [] => Err(self.no_fit(hunk, &old)),
            [place] => Ok(*place),
            [place, ..] if !hunk.above.is_empty() => Ok(*place),
            places => Err(PatchError::Ambiguous {
                line: hunk.line,
                path: self.path.to_owned(),
                places: named_places(places),
            }),
        }
    }

    /// The first line below all that stand above the hunk.
    fn below(&self, hunk: &Hunk, mut from: usize) -> Result<usize, PatchError> {
        for above in &hunk.above {
            let rest = self.lines.get(from..).unwrap_or_default();
            let found = rest
                .iter()
                .position(|line| line.trim_end() == above.trim_end())
                .or_else(|| rest.iter().position(|line| line.trim() == above.trim()));
            let found = found.ok_or_else(|| PatchError::NoFit {
                line: hunk.line,
                path: self.path.to_owned(),
                problem: format!("there is no line `{}` from line {} on", text::clip(above, 120), from + 1),
            })?;
            from += found + 1;
        }
        Ok(from)
    }

    /// Where lines go that have nothing around them.
    fn insertion(&self, hunk: &Hunk, from: usize) -> usize {
        match hunk.start {
            // A unified diff names the line *after* which they go.
            Some(after) => after.clamp(from, self.lines.len().max(from)),
            None if hunk.above.is_empty() || hunk.at_end => self.lines.len(),
            None => from,
        }
    }

    fn fits(&self, old: &[&str], from: usize, same: impl Fn(&str, &str) -> bool) -> Vec<usize> {
        let rest = self.lines.get(from..).unwrap_or_default();
        occurrences(rest, old, same).into_iter().map(|index| from + index).collect()
    }

    fn no_fit(&self, hunk: &Hunk, old: &[&str]) -> PatchError {
        let known: HashSet<&str> = self.lines.iter().map(|line| line.trim_end()).collect();
        let missing = old.iter().find(|line| !known.contains(line.trim_end()));
        let problem = match missing {
            Some(line) => format!("there is no line `{}`", text::clip(line, 120)),
            None if hunk.at_end => "its lines are not the last ones".to_owned(),
            None => format!("its {} old lines do not follow each other there", old.len()),
        };
        PatchError::NoFit { line: hunk.line, path: self.path.to_owned(), problem }
    }
}

/// Where `needle` occurs in `lines`, in linear time (Knuth, Morris, Pratt): both come from outside, and trying
/// every place would let a file and a patch of repeated lines keep a thread busy for hours.
fn occurrences(lines: &[&str], needle: &[&str], same: impl Fn(&str, &str) -> bool) -> Vec<usize> {
    // For each prefix of the needle, the length of its longest proper prefix that is also its suffix.
    let mut borders: Vec<usize> = Vec::with_capacity(needle.len());
    let advance = |borders: &[usize], mut matched: usize, line: &str| -> usize {
        loop {
            if needle.get(matched).is_some_and(|wanted| same(wanted, line)) {
                return matched + 1;
            }
            let Some(shorter) = matched.checked_sub(1).and_then(|last| borders.get(last)) else { return 0 };
            matched = *shorter;
        }
    };
    for (index, line) in needle.iter().enumerate() {
        let previous = index.checked_sub(1).and_then(|last| borders.get(last)).copied();
        let border = previous.map_or(0, |previous| advance(&borders, previous, line));
        borders.push(border);
    }
    let mut found = Vec::new();
    let mut matched = 0;
    for (index, line) in lines.iter().enumerate() {
        matched = advance(&borders, matched, line);
        if matched == needle.len() {
            found.push(index + 1 - needle.len());
        }
    }
    found
}

fn named_places(places: &[usize]) -> String {
    let named: Vec<String> = places.iter().take(NAMED_PLACES).map(|place| (place + 1).to_string()).collect();
    let more = if places.len() > NAMED_PLACES { ", ..." } else { "" };
    format!("{}{more}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::parse::{Operation, parse};
    use super::*;

    fn apply(content: &str, hunks: &str) -> Result<String, PatchError> {
        let patch = format!("*** Begin Patch\n*** Update File: f\n{hunks}\n*** End Patch");
        let Operation::Update { hunks, .. } = parse(&patch).unwrap().remove(0) else { panic!("no update") };
        apply_hunks("f", content, &hunks)
    }

    #[test]
    fn hunks_go_where_their_lines_are() {
        assert_eq!(apply("a\nb\nc\n", "@@\n a\n-b\n+x\n+y\n c").unwrap(), "a\nx\ny\nc\n");
        assert_eq!(apply("a\nb\nc\nd\n", "@@\n-a\n@@\n-c\n+C").unwrap(), "b\nC\nd\n");
        assert_eq!(apply("fn a\n x\nfn b\n x\n", "@@ fn b\n- x\n+ y").unwrap(), "fn a\n x\nfn b\n y\n");
        assert_eq!(apply("x\ny\nx\n", "@@\n-x\n+z\n*** End of File").unwrap(), "x\ny\nz\n");
        assert_eq!(apply("a\n", "@@\n+b").unwrap(), "a\nb\n");
        assert_eq!(apply("a\nb\n", "@@ a\n+x").unwrap(), "a\nx\nb\n");
        assert_eq!(apply("", "@@\n+b").unwrap(), "b\n");
        assert_eq!(apply("a\n", "@@\n-a").unwrap(), "");
    }

    #[test]
    fn line_ends_are_those_of_the_file() {
        assert_eq!(apply("a\r\nb\r\n", "@@\n a\n-b\n+c").unwrap(), "a\r\nc\r\n");
        assert_eq!(apply("a\nb", "@@\n a\n-b\n+c").unwrap(), "a\nc");
        assert_eq!(apply("a  \nb\n", "@@\n a\n-b\n+c").unwrap(), "a  \nc\n");
    }

    #[test]
    fn a_place_that_is_missing_or_not_the_only_one_is_refused() {
        let error = apply("x\nx\n", "@@\n-x\n+y").unwrap_err().to_string();
        assert!(error.contains("lines 1, 2"), "{error}");
        let error = apply("a\nb\n", "@@\n a\n-c").unwrap_err().to_string();
        assert!(error.contains("line 3 of the patch") && error.contains("no line `c`"), "{error}");
        let error = apply("a\n", "@@ fn z\n-a").unwrap_err().to_string();
        assert!(error.contains("no line `fn z`"), "{error}");
        let error = apply("a\nb\n", "@@\n-b\n@@\n-a").unwrap_err().to_string();
        assert!(error.contains("do not follow"), "hunks come in order: {error}");
    }

    #[test]
    fn unified_hunks_take_the_fitting_place_nearest_to_their_number() {
        let patch = "--- f\n+++ f\n@@ -5 +5 @@\n-x\n+y\n";
        let Operation::Update { hunks, .. } = parse(patch).unwrap().remove(0) else { panic!("no update") };
        assert_eq!(apply_hunks("f", "x\na\nb\nx\nc\n", &hunks).unwrap(), "x\na\nb\ny\nc\n");
    }

    #[test]
    fn repeated_lines_take_no_more_than_linear_time() {
        let lines = vec!["x"; 400_000];
        let mut needle = vec!["x"; 200_000];
        needle.push("y");
        let started = std::time::Instant::now();
        assert!(occurrences(&lines, &needle, str::eq).is_empty());
        assert!(started.elapsed() < std::time::Duration::from_secs(5));
    }

    proptest! {
        #[test]
        fn occurrences_are_all_windows_that_are_equal(
            lines in prop::collection::vec("[ab]", 0..20), needle in prop::collection::vec("[ab]", 1..5),
        ) {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let needle: Vec<&str> = needle.iter().map(String::as_str).collect();
            let windows = lines.windows(needle.len()).enumerate();
            let expected: Vec<usize> = windows.filter(|(_, window)| *window == needle).map(|(at, _)| at).collect();
            prop_assert_eq!(occurrences(&lines, &needle, str::eq), expected);
        }

        #[test]
        fn a_diff_made_from_two_texts_leads_from_one_to_the_other(
            before in prop::collection::vec("[a-d]{1,2}", 1..12), at in 0_usize..12, cut in 0_usize..4,
            new in prop::collection::vec("[x-z]{1,2}", 1..4),
        ) {
            let at = at.min(before.len());
            let cut = cut.min(before.len() - at);
            let mut after = before.clone();
            after.splice(at..at + cut, new.iter().cloned());
            let mut patch = format!("--- f\n+++ f\n@@ -1,{} +1,{} @@\n", before.len(), after.len());
            for (index, line) in before.iter().enumerate() {
                if index == at {
                    patch.extend(new.iter().map(|line| format!("+{line}\n")));
                }
                let mark = if (at..at + cut).contains(&index) { '-' } else { ' ' };
                patch.push_str(&format!("{mark}{line}\n"));
            }
            if at == before.len() {
                patch.extend(new.iter().map(|line| format!("+{line}\n")));
            }
            let Operation::Update { hunks, .. } = parse(&patch).unwrap().remove(0) else { panic!("no update") };
            let text = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
            prop_assert_eq!(apply_hunks("f", &text(&before), &hunks).unwrap(), text(&after));
        }
    }
}
