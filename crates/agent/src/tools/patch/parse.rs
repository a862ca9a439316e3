//! The envelope notation, and what a patch means.

use std::iter::Peekable;

use super::{PatchError, unified};
use crate::tools::text;

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const UPDATE: &str = "*** Update File:";
const DELETE: &str = "*** Delete File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// What is done to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operation {
    Add { path: String, content: String },
    Delete { path: String, hunks: Vec<Hunk> },
    Update { path: String, move_to: Option<String>, hunks: Vec<Hunk> },
}

impl Operation {
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let (path, other) = match self {
            Self::Add { path, .. } | Self::Delete { path, .. } => (path, None),
            Self::Update { path, move_to, .. } => (path, move_to.as_deref()),
        };
        std::iter::once(path.as_str()).chain(other)
    }
}

/// One contiguous change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// Where it starts in the patch, counted from 1.
    pub(super) line: usize,
    /// Lines that stand somewhere above it, outermost first.
    pub(super) above: Vec<String>,
    /// The line of the old file at which it starts, counted from 1, if the patch says so.
    pub(super) start: Option<usize>,
    /// Whether it ends where the file ends.
    pub(super) at_end: bool,
    pub(super) lines: Vec<Line>,
    /// Whether the new file ends in a line break, if the patch says so.
    pub(super) final_newline: Option<bool>,
}

impl Hunk {
    /// The lines that must be in the file.
    pub(super) fn old_lines(&self) -> Vec<&str> {
        self.lines.iter().filter_map(Line::old).collect()
    }
}

/// One line of a hunk, without its mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    Keep(String),
    Remove(String),
    Insert(String),
}

impl Line {
    /// Reads a line with its mark; an empty one is an empty line that stays, its space having been trimmed.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut chars = line.chars();
        let mark = chars.next();
        let rest = chars.as_str().to_owned();
        match mark {
            None | Some(' ') => Some(Self::Keep(rest)),
            Some('-') => Some(Self::Remove(rest)),
            Some('+') => Some(Self::Insert(rest)),
            Some(_) => None,
        }
    }

    pub(super) fn old(&self) -> Option<&str> {
        match self {
            Self::Keep(text) | Self::Remove(text) => Some(text),
            Self::Insert(_) => None,
        }
    }
}

/// Reads a patch in either notation. It has at least one operation.
pub(super) fn parse(patch: &str) -> Result<Vec<Operation>, PatchError> {
    let first = patch.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if first.trim() == BEGIN {
        return envelope(patch).parse();
    }
    if patch.lines().any(|line| line.starts_with("--- ")) {
        return unified::parse(patch);
    }
    Err(PatchError::NotAPatch)
}

pub(super) fn malformed(line: usize, problem: impl Into<String>) -> PatchError {
    PatchError::Malformed { line, problem: problem.into() }
}

struct Envelope<'a, I: Iterator<Item = (usize, &'a str)>> {
    lines: Peekable<I>,
    last: usize,
}

fn envelope(patch: &str) -> Envelope<'_, impl Iterator<Item = (usize, &str)>> {
    let lines = (1..).zip(patch.lines()).skip_while(|(_, line)| line.trim().is_empty()).skip(1);
    Envelope { lines: lines.peekable(), last: patch.lines().count() }
}

impl<'a, I: Iterator<Item = (usize, &'a str)>> Envelope<'a, I> {
    fn parse(mut self) -> Result<Vec<Operation>, PatchError> {
        let mut operations = Vec::new();
        loop {
            let Some((number, line)) = self.lines.next() else {
                return Err(malformed(self.last, format!("the patch does not end with `{END}`")));
            };
            if line.trim().is_empty() {
                continue;
            }
            if line.trim_end() == END {
                break;
            }
            operations.push(self.operation(number, line)?);
        }
        if let Some((number, _)) = self.lines.find(|(_, line)| !line.trim().is_empty()) {
            return Err(malformed(number, format!("there is text after `{END}`")));
        }
        match operations.is_empty() {
            true => Err(malformed(self.last, "the patch has no operation")),
            false => Ok(operations),
        }
    }

    fn operation(&mut self, number: usize, line: &str) -> Result<Operation, PatchError> {
        if let Some(path) = line.strip_prefix(ADD) {
            return Ok(Operation::Add { path: path_of(number, path)?, content: self.added() });
        }
        if let Some(path) = line.strip_prefix(DELETE) {
            return Ok(Operation::Delete { path: path_of(number, path)?, hunks: Vec::new() });
        }
        if let Some(path) = line.strip_prefix(UPDATE) {
            let path = path_of(number, path)?;
            let move_to = match self.lines.peek().copied() {
                Some((number, line)) if line.starts_with(MOVE) => {
                    self.lines.next();
                    Some(path_of(number, line.strip_prefix(MOVE).unwrap_or_default())?)
                }
                _ => None,
            };
            let hunks = self.hunks()?;
            if hunks.is_empty() && move_to.is_none() {
                return Err(malformed(number, format!("`{path}` is to be updated, but no hunk follows")));
            }
            return Ok(Operation::Update { path, move_to, hunks });
        }
        let shown = text::clip(line, 60);
        Err(malformed(
            number,
            format!("`{shown}` is none of `{ADD} PATH`, `{UPDATE} PATH`, `{DELETE} PATH`, `{END}`"),
        ))
    }

    fn added(&mut self) -> String {
        let mut content = String::new();
        while let Some((_, line)) = self.lines.next_if(|(_, line)| line.starts_with('+')) {
            content.push_str(line.strip_prefix('+').unwrap_or_default());
            content.push('\n');
        }
        content
    }

    fn hunks(&mut self) -> Result<Vec<Hunk>, PatchError> {
        let mut hunks = Vec::new();
        let mut hunk = Hunk::default();
        // Empty lines may belong to the hunk, or only separate it from what follows.
        let mut empty = 0;
        while let Some((number, line)) =
            self.lines.next_if(|(_, line)| !line.starts_with("*** ") || line.trim_end() == END_OF_FILE)
        {
            if line.trim_end() == END_OF_FILE {
                hunk.at_end = true;
                continue;
            }
            if let Some(above) = line.strip_prefix("@@") {
                if !hunk.lines.is_empty() {
                    finish(&mut hunk, &mut hunks)?;
                }
                empty = 0;
                hunk.line = if hunk.line == 0 { number } else { hunk.line };
                let above = above.strip_prefix(' ').unwrap_or(above);
                if !above.trim().is_empty() {
                    hunk.above.push(above.to_owned());
                }
                continue;
            }
            if hunk.at_end {
                if line.is_empty() {
                    continue;
                }
                return Err(malformed(number, format!("a hunk goes on after `{END_OF_FILE}`")));
            }
            if line.is_empty() {
                empty += 1;
                continue;
            }
            let parsed = Line::parse(line)
                .ok_or_else(|| malformed(number, "a line of a hunk starts with a space, `-`, `+` or `@@`"))?;
            hunk.line = if hunk.line == 0 { number } else { hunk.line };
            hunk.lines.extend(std::iter::repeat_n(Line::Keep(String::new()), std::mem::take(&mut empty)));
            hunk.lines.push(parsed);
        }
        if hunk != Hunk::default() {
            finish(&mut hunk, &mut hunks)?;
        }
        Ok(hunks)
    }
}

fn finish(hunk: &mut Hunk, hunks: &mut Vec<Hunk>) -> Result<(), PatchError> {
    let done = std::mem::take(hunk);
    if done.lines.iter().all(|line| matches!(line, Line::Keep(_))) {
        return Err(malformed(done.line.max(1), "a hunk changes nothing"));
    }
    hunks.push(done);
    Ok(())
}

fn path_of(number: usize, path: &str) -> Result<String, PatchError> {
    match path.trim() {
        "" => Err(malformed(number, "a path is missing")),
        path => Ok(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn problem(patch: &str) -> (usize, String) {
        match parse(patch).unwrap_err() {
            PatchError::Malformed { line, problem } => (line, problem),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn every_operation_is_read() {
        let patch = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@ class X\n@@ fn y\n keep\n-old\n+new\n\n \
            after\n*** End of File\n\n*** Add File: c d\n+one\n+\n*** Delete File: e\n*** End Patch\n";
        let hunk = Hunk {
            line: 4,
            above: vec!["class X".to_owned(), "fn y".to_owned()],
            start: None,
            at_end: true,
            lines: vec![
                Line::Keep("keep".to_owned()),
                Line::Remove("old".to_owned()),
                Line::Insert("new".to_owned()),
                Line::Keep(String::new()),
                Line::Keep("after".to_owned()),
            ],
            final_newline: None,
        };
        assert_eq!(
            parse(patch).unwrap(),
            [
                Operation::Update { path: "a".to_owned(), move_to: Some("b".to_owned()), hunks: vec![hunk] },
                Operation::Add { path: "c d".to_owned(), content: "one\n\n".to_owned() },
                Operation::Delete { path: "e".to_owned(), hunks: Vec::new() },
            ]
        );
    }

    #[test]
    fn mistakes_are_located() {
        for (patch, line, word) in [
            ("*** Begin Patch\n*** Delete File: a\n", 2, "does not end"),
            ("*** Begin Patch\n*** End Patch\n", 2, "no operation"),
            ("*** Begin Patch\n*** Delete File: a\n*** End Patch\nrm -rf x\n", 4, "text after"),
            ("*** Begin Patch\n*** Delete File:  \n*** End Patch\n", 2, "path is missing"),
            ("*** Begin Patch\n*** Remove File: a\n*** End Patch\n", 2, "none of"),
            ("*** Begin Patch\n*** Update File: a\n*** End Patch\n", 2, "no hunk"),
            ("*** Begin Patch\n*** Update File: a\n@@\n same\n*** End Patch\n", 3, "changes nothing"),
            ("*** Begin Patch\n*** Update File: a\n@@\n+x\nbad\n*** End Patch\n", 5, "starts with"),
            ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch\n", 3, "none of"),
            ("--- a\n+++ a\n@@ -1,2 +1 @@\n-x\n", 3, "ends before"),
            ("--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n+z\n", 6, "more lines"),
            ("--- a\n+++ a\n", 1, "no hunks"),
            ("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n", 1, "differ"),
            ("diff --git a/x b/y\nrename from x\nrename to y\n--- a/x\n", 2, "not supported"),
            (
                "diff --git a/x b/x\nnew file mode 100644\ndiff --git a/y b/y\n--- a/y\n+++ b/y\n",
                1,
                "no hunks",
            ),
        ] {
            let (at, problem) = problem(patch);
            assert!(at == line && problem.contains(word), "{patch:?}: line {at}: {problem}");
        }
        assert!(matches!(parse("hello"), Err(PatchError::NotAPatch)));
    }

    #[test]
    fn git_diff_is_read() {
        let patch = "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -3,2 +3,2 @@ fn f\n keep\n--- old\n+++ new\n\
            \\ No newline at end of file\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+text\n";
        let operations = parse(patch).unwrap();
        let Operation::Update { path, hunks, .. } = &operations[0] else { panic!("{operations:?}") };
        assert_eq!((path.as_str(), hunks[0].start, hunks[0].final_newline), ("x", Some(3), Some(false)));
        assert_eq!(hunks[0].lines[1], Line::Remove("-- old".to_owned()));
        assert_eq!(operations[1], Operation::Add { path: "y".to_owned(), content: "text\n".to_owned() });
    }

    fn patch_like() -> impl Strategy<Value = String> {
        let line = prop::sample::select(vec![
            "*** Begin Patch",
            "*** End Patch",
            "*** Update File: a",
            "*** Add File: b",
            "*** Delete File: c",
            "*** Move to: d",
            "*** End of File",
            "@@",
            "@@ x",
            "@@ -1,2 +1,2 @@",
            "@@ -0,0 +1 @@",
            "@@ -9",
            "--- a/x",
            "+++ b/x",
            "--- /dev/null",
            "+++ /dev/null",
            "diff --git a/x b/x",
            "\\ No newline",
            " x",
            "-x",
            "+x",
            "",
            "é",
            "@@ -18446744073709551615,18446744073709551615 +1 @@",
        ]);
        prop::collection::vec(line, 0..16).prop_map(|lines| lines.join("\n"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn parser_never_panics_on_what_looks_like_a_patch(body in patch_like(), framed in any::<bool>()) {
            let patch = if framed { format!("*** Begin Patch\n{body}\n*** End Patch") } else { body };
            if let Ok(operations) = parse(&patch) {
                prop_assert!(!operations.is_empty());
                for path in operations.iter().flat_map(Operation::paths) {
                    prop_assert!(patch.contains(path));
                }
            }
        }

        #[test]
        fn parser_never_panics_on_any_text(text in any::<String>()) {
            let _ = parse(&text);
            let _ = parse(&format!("*** Begin Patch\n{text}"));
            let _ = parse(&format!("--- a\n+++ a\n{text}"));
        }
    }
}
