//! The unified diff.
//!
//! The line counts in hunk headers are taken at their word: they alone tell where a hunk ends, since a removed line
//! that starts with `-- ` looks like a file header. What this notation can say and the tool cannot do (modes,
//! renames, binary patches, files without hunks) is an error, not skipped.

use std::iter::Peekable;

use super::PatchError;
use super::parse::{Hunk, Line, Operation, malformed};
use crate::tools::text;

const UNSUPPORTED: [&str; 8] = [
    "rename from ",
    "rename to ",
    "copy from ",
    "copy to ",
    "old mode ",
    "new mode ",
    "GIT binary patch",
    "Binary files ",
];

pub(super) fn parse(patch: &str) -> Result<Vec<Operation>, PatchError> {
    let mut reader = Reader { lines: (1..).zip(patch.lines()).peekable() };
    let mut operations = Vec::new();
    let mut announced = None;
    while let Some((number, line)) = reader.lines.next() {
        if let Some(old) = line.strip_prefix("--- ") {
            announced = None;
            operations.push(reader.file(number, old)?);
        } else if line.starts_with("diff ") {
            if let Some(number) = announced.replace(number) {
                return Err(no_hunks(number));
            }
        } else if let Some(what) = UNSUPPORTED.iter().find(|what| line.starts_with(**what)) {
            return Err(malformed(
                number,
                format!("`{}` is not supported; hint: use the `*** Begin Patch` notation", what.trim_end()),
            ));
        } else if line.starts_with("@@ ") || line.starts_with("+++ ") {
            return Err(malformed(
                number,
                "expected a file header `--- PATH` here; hint: check the line counts of the hunk above",
            ));
        } else if !operations.is_empty()
            && announced.is_none()
            && matches!(line.chars().next(), Some(' ' | '+' | '-'))
        {
            return Err(malformed(number, "the hunk above has more lines than its header says"));
        }
    }
    match announced {
        Some(number) => Err(no_hunks(number)),
        None => Ok(operations),
    }
}

fn no_hunks(number: usize) -> PatchError {
    malformed(
        number,
        "this file has no hunks; hint: use the `*** Begin Patch` notation to add or delete empty files",
    )
}

struct Reader<'a, I: Iterator<Item = (usize, &'a str)>> {
    lines: Peekable<I>,
}

impl<'a, I: Iterator<Item = (usize, &'a str)>> Reader<'a, I> {
    fn file(&mut self, number: usize, old: &str) -> Result<Operation, PatchError> {
        let new = match self.lines.next() {
            Some((_, line)) => line.strip_prefix("+++ "),
            None => None,
        };
        let new = new.ok_or_else(|| malformed(number + 1, "expected `+++ PATH` after `--- PATH`"))?;
        let (old, new) = paths(number, old, new)?;
        let mut hunks = Vec::new();
        while let Some((number, header)) = self.lines.next_if(|(_, line)| line.starts_with("@@ ")) {
            hunks.push(self.hunk(number, header)?);
        }
        if hunks.is_empty() {
            return Err(no_hunks(number));
        }
        match (old, new) {
            (None, Some(path)) => Ok(Operation::Add { content: added(&hunks)?, path }),
            (Some(path), None) => Ok(Operation::Delete { path, hunks }),
            (Some(old), Some(new)) if old == new => Ok(Operation::Update { path: new, move_to: None, hunks }),
            (Some(_), Some(_)) => Err(malformed(
                number,
                "the two paths differ; hint: use `*** Move to:` of the `*** Begin Patch` notation to move a file",
            )),
            (None, None) => Err(malformed(number, "both paths are `/dev/null`")),
        }
    }

    fn hunk(&mut self, number: usize, header: &str) -> Result<Hunk, PatchError> {
        let Some((start, mut old_left, mut new_left)) = ranges(header) else {
            return Err(malformed(
                number,
                format!("`{}` is not of the form `@@ -1,3 +1,4 @@`", text::clip(header, 60)),
            ));
        };
        let mut hunk = Hunk { line: number, start: Some(start), ..Hunk::default() };
        while old_left > 0 || new_left > 0 {
            let Some((at, line)) = self.lines.next() else {
                return Err(malformed(
                    number,
                    "the patch ends before the hunk has all the lines its header says",
                ));
            };
            if line.starts_with('\\') {
                no_final_newline(&mut hunk);
                continue;
            }
            let line = Line::parse(line)
                .ok_or_else(|| malformed(at, "a line of a hunk starts with a space, `-` or `+`"))?;
            let (old, new) = match line {
                Line::Keep(_) => (1, 1),
                Line::Remove(_) => (1, 0),
                Line::Insert(_) => (0, 1),
            };
            let left = old_left.checked_sub(old).zip(new_left.checked_sub(new));
            (old_left, new_left) = left
                .ok_or_else(|| malformed(at, "the hunk has more lines of this kind than its header says"))?;
            hunk.lines.push(line);
        }
        if self.lines.next_if(|(_, line)| line.starts_with('\\')).is_some() {
            no_final_newline(&mut hunk);
        }
        Ok(hunk)
    }
}

/// The marker speaks of the line before it.
fn no_final_newline(hunk: &mut Hunk) {
    match hunk.lines.last() {
        Some(Line::Remove(_)) => hunk.final_newline = Some(true),
        Some(Line::Insert(_) | Line::Keep(_)) => hunk.final_newline = Some(false),
        None => {}
    }
}

fn added(hunks: &[Hunk]) -> Result<String, PatchError> {
    let mut lines = Vec::new();
    for hunk in hunks {
        for line in &hunk.lines {
            match line {
                Line::Insert(text) => lines.push(text.as_str()),
                Line::Keep(_) | Line::Remove(_) => {
                    return Err(malformed(hunk.line, "a new file has only lines that start with `+`"));
                }
            }
        }
    }
    let mut content = lines.join("\n");
    let newline = hunks.last().and_then(|hunk| hunk.final_newline).unwrap_or(true);
    if newline && !lines.is_empty() {
        content.push('\n');
    }
    Ok(content)
}

/// Old and new path; `None` is `/dev/null`.
fn paths(number: usize, old: &str, new: &str) -> Result<(Option<String>, Option<String>), PatchError> {
    let plain = |path: &str| -> Result<Option<String>, PatchError> {
        let path = path.split('\t').next().unwrap_or_default().trim_end();
        match path {
            "" => Err(malformed(number, "a path is missing")),
            "/dev/null" => Ok(None),
            path if path.starts_with('"') => Err(malformed(number, "quoted paths are not supported")),
            path => Ok(Some(path.to_owned())),
        }
    };
    let (old, new) = (plain(old)?, plain(new)?);
    let prefixed = old.as_ref().is_none_or(|path| path.starts_with("a/"))
        && new.as_ref().is_none_or(|path| path.starts_with("b/"));
    if !prefixed {
        return Ok((old, new));
    }
    let strip = |path: Option<String>, prefix: &str| {
        path.map(|path| path.strip_prefix(prefix).map_or_else(|| path.clone(), str::to_owned))
    };
    Ok((strip(old, "a/"), strip(new, "b/")))
}

/// Start and count of the old lines, count of the new lines.
fn ranges(header: &str) -> Option<(usize, usize, usize)> {
    let inside = header.strip_prefix("@@ -")?;
    let (inside, _) = inside.split_once(" @@")?;
    let (old, new) = inside.split_once(" +")?;
    let range = |text: &str| -> Option<(usize, usize)> {
        let (start, count) = text.split_once(',').unwrap_or((text, "1"));
        Some((start.parse().ok()?, count.parse().ok()?))
    };
    let (start, old_count) = range(old)?;
    let (_, new_count) = range(new)?;
    Some((start, old_count, new_count))
}
