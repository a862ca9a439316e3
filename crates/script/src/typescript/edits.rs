//! Changes to a text that keep its lines, and its columns wherever nothing is written anew.

use std::collections::BTreeMap;

/// What a source becomes: parts blanked, parts replaced, texts put in.
#[derive(Debug)]
pub(super) struct Edits<'s> {
    source: &'s str,
    /// Start to end of what is blanked; overlaps are fine.
    blanks: BTreeMap<usize, usize>,
    /// One character instead of the one at a place, which is blanked or not.
    marks: BTreeMap<usize, char>,
    /// Texts put in before a place, in order.
    texts: BTreeMap<usize, Vec<String>>,
}

impl<'s> Edits<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        Self { source, blanks: BTreeMap::new(), marks: BTreeMap::new(), texts: BTreeMap::new() }
    }

    pub(super) fn blank(&mut self, start: usize, end: usize) {
        if start < end {
            let known = self.blanks.entry(start).or_insert(end);
            *known = (*known).max(end);
        }
    }

    /// Puts `character` at a place whose own is dropped.
    pub(super) fn mark(&mut self, at: usize, character: char) {
        self.marks.insert(at, character);
    }

    pub(super) fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.texts.entry(at).or_default().push(text.into());
    }

    /// Puts `text` before what was put in at the same place.
    pub(super) fn insert_first(&mut self, at: usize, text: impl Into<String>) {
        self.texts.entry(at).or_default().insert(0, text.into());
    }

    /// Whether a blanked part ends at `at`.
    pub(super) fn blank_ends_at(&self, at: usize) -> bool {
        self.blanks.range(..at).any(|(_, end)| *end == at)
    }

    /// Forgets all edits inside of a part, and gives what they would have made of it.
    pub(super) fn take(&mut self, start: usize, end: usize) -> String {
        let text = self.render(start, end);
        self.blanks.retain(|at, _| *at < start || *at >= end);
        self.marks.retain(|at, _| *at < start || *at >= end);
        self.texts.retain(|at, _| *at < start || *at >= end);
        text
    }

    pub(super) fn finish(&self) -> String {
        self.render(0, self.source.len())
    }

    fn render(&self, start: usize, end: usize) -> String {
        let mut made = String::with_capacity(end - start + 64);
        let mut blank_until = 0;
        for (offset, character) in self.source.get(start..end).unwrap_or_default().char_indices() {
            let at = start + offset;
            for text in self.texts.get(&at).into_iter().flatten() {
                made.push_str(text);
            }
            if let Some(end) = self.blanks.get(&at) {
                blank_until = blank_until.max(*end);
            }
            match self.marks.get(&at) {
                Some(mark) => made.push(*mark),
                None if at < blank_until
                    && !matches!(character, '\n' | '\r' | '\u{2028}' | '\u{2029}' | '\t') =>
                {
                    made.push(' ');
                }
                None => made.push(character),
            }
        }
        if end == self.source.len() {
            for text in self.texts.get(&end).into_iter().flatten() {
                made.push_str(text);
            }
        }
        made
    }
}

/// Where code goes on at or behind `at`: past blanks and comments.
pub(super) fn skip(source: &str, mut at: usize) -> usize {
    loop {
        let rest = source.get(at..).unwrap_or_default();
        let trimmed = rest.trim_start();
        at += rest.len() - trimmed.len();
        let comment = if trimmed.starts_with("//") {
            trimmed.find('\n').unwrap_or(trimmed.len())
        } else if trimmed.starts_with("/*") {
            trimmed.find("*/").map_or(trimmed.len(), |end| end + 2)
        } else {
            return at;
        };
        at += comment;
    }
}

/// Where `what` stands as the next code at or behind `at`, if it does.
pub(super) fn next_is(source: &str, at: usize, what: &str) -> Option<usize> {
    let at = skip(source, at);
    source.get(at..)?.starts_with(what).then_some(at)
}

/// The first place of `what` in code between two places, past comments.
pub(super) fn find_code(source: &str, mut at: usize, end: usize, what: &str) -> Option<usize> {
    loop {
        at = skip(source, at);
        if at >= end {
            return None;
        }
        let rest = source.get(at..)?;
        if rest.starts_with(what) {
            return Some(at);
        }
        at += rest.chars().next()?.len_utf8();
    }
}

/// The words and signs of code between two places, past comments: where each begins, and it.
pub(super) fn words(source: &str, start: usize, end: usize) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut at = skip(source, start);
    while at < end {
        let Some(rest) = source.get(at..end) else { break };
        let length = rest
            .find(|character: char| !character.is_alphanumeric() && character != '_' && character != '$')
            .unwrap_or(rest.len());
        let length = if length == 0 { rest.chars().next().map_or(1, char::len_utf8) } else { length };
        found.push((at, rest.get(..length).unwrap_or_default()));
        at = skip(source, at + length);
    }
    found
}
