//! `read` and `mapfile`: lines of an open file become values of variables.
//!
//! Every process that has an open file shares its read position, so the position is tracked per file and not per reader. If
//! another program that has the file as its standard input may have read more of it, a line is the next known one, or any.

use super::data::Data;
use super::limits::{self, Bounded};
use super::state::{Cursor, Value};
use super::walk::{Shell, slices};
use super::word::{HOLE, has_hole};
use crate::options::{Options, Takes};

/// What comes next in an open file.
enum Record {
    /// A line, and whether its end was there.
    Line(String, bool),
    /// Nothing is left.
    End,
    /// Something, or nothing.
    Unknown,
}

impl Shell<'_> {
    /// Opens data, so that what is read of it is gone for the next reader.
    pub(crate) fn opened(&mut self, mut data: Data) -> Data {
        self.streams += 1;
        data.stream = self.streams;
        data
    }

    /// Forgets the files that were opened since, but for those that a descriptor keeps open.
    pub(crate) fn close_after(&mut self, before: usize) {
        if self.state.cursors.keys().any(|stream| *stream > before) {
            let state = &mut *self.state;
            let open = &state.descriptors;
            state
                .cursors
                .retain(|stream, _| *stream <= before || open.values().any(|data| data.stream == *stream));
        }
    }

    /// A program was run that may have read what is open.
    pub(crate) fn reads_on(&mut self, program: &str, stdin: &Data) {
        let leaves = matches!(program, "echo" | "printf" | "[" | "test" | "true" | "false");
        if stdin.stream == 0 || leaves || stdin.marked().is_none() {
            return;
        }
        let cursor = self.state.cursors.get(&stdin.stream).copied().unwrap_or_default();
        if !cursor.shared {
            self.state.cursors.insert(stdin.stream, Cursor { shared: true, ..cursor });
        }
    }

    fn next_record(
        &mut self,
        data: &Data,
        ends: impl Fn(char) -> bool,
        most: Option<usize>,
        raw: bool,
    ) -> Record {
        let Some(text) = data.marked() else { return Record::Unknown };
        let cursor = self.state.cursors.get(&data.stream).copied().unwrap_or_default();
        let unsure = cursor.shared || data.possible().len() > 1;
        if unsure && self.decide_whether() != Some(true) {
            return Record::Unknown;
        }
        let rest = text.get(cursor.at..).unwrap_or_default();
        if rest.is_empty() {
            return if has_hole(text) || unsure { Record::Unknown } else { Record::End };
        }
        let mut line = String::new();
        let mut taken = 0;
        let mut ended = false;
        let mut escaped = false;
        for c in rest.chars() {
            taken += c.len_utf8();
            if escaped && c == '\n' {
                line.pop();
                escaped = false;
                continue;
            }
            if ends(c) && !escaped {
                ended = true;
                break;
            }
            escaped = c == '\\' && !escaped && !raw;
            line.push(c);
            if most.is_some_and(|most| line.chars().count() >= most) {
                ended = true;
                break;
            }
        }
        if data.stream != 0 {
            // What is not known may be several lines, so that the next one is not where it seems to be.
            let shared = cursor.shared || has_hole(&line);
            self.state.cursors.insert(data.stream, Cursor { at: cursor.at + taken, shared });
        }
        if unsure {
            self.status = None;
        }
        Record::Line(line, ended)
    }

    fn descriptor_data(&self, number: &str) -> Data {
        let known = self.state.descriptors.get(number).cloned();
        known.or_else(|| self.chosen(number)).unwrap_or_else(Data::session_input)
    }

    pub(super) fn read_builtin(&mut self, args: &[String], stdin: &Data) {
        let refs = slices(args);
        let options = Options::parse(&refs, Takes::values("adinNptuCcOsk", &[]));
        let raw = options.short('r');
        // What is read is gone, also for another way to split it.
        self.remember_start();
        let data = match options.value(Some('u'), "") {
            Some(number) => self.descriptor_data(number),
            None => stdin.clone(),
        };
        let delimiter = options.value(Some('d'), "").map(|text| text.chars().next().unwrap_or('\0'));
        let most = options.value(Some('n'), "").or_else(|| options.value(Some('N'), ""));
        let most = most.and_then(|text| text.parse::<usize>().ok());
        let record = self.next_record(&data, |c| c == delimiter.unwrap_or('\n'), most, raw);
        self.status = match &record {
            Record::Line(_, ended) => self.certainty_of(&data).then_some(*ended),
            Record::End => Some(false),
            Record::Unknown => None,
        };
        let list = options.value(Some('a'), "").map(str::to_owned);
        let zsh = options.short('A').then(|| options.operands.first().copied().unwrap_or("reply").to_owned());
        let names: Vec<String> = options.operands.iter().map(|name| (*name).to_owned()).collect();
        let (text, known) = match record {
            Record::Line(text, _) => (text, true),
            Record::End => (String::new(), true),
            Record::Unknown => (String::new(), false),
        };
        if let Some(name) = list.or(zsh) {
            let words = if known { self.words_of(&text, raw, usize::MAX) } else { vec![HOLE.to_string()] };
            self.state.mark(&name, data.taint);
            return self.state.assign(&name, Value::List(words));
        }
        let values = match (known, names.len()) {
            (false, count) => vec![HOLE.to_string(); count.max(1)],
            (true, 0) => vec![text],
            (true, count) => self.words_of(&text, raw, count),
        };
        let names = if names.is_empty() { vec!["REPLY".to_owned()] } else { names };
        for (at, name) in names.into_iter().enumerate() {
            self.state.mark(&name, data.taint);
            let value = values.get(at).cloned().unwrap_or_default();
            self.assign_named(&name, Value::Text(value));
        }
    }

    fn certainty_of(&self, data: &Data) -> bool {
        let shared = self.state.cursors.get(&data.stream).is_some_and(|cursor| cursor.shared);
        !shared && data.possible().len() == 1 && !data.marked().is_some_and(has_hole)
    }

    /// A line as words: each of them ends at a separator, and the last one is all that is left.
    fn words_of(&mut self, line: &str, raw: bool, count: usize) -> Vec<String> {
        let separators = self.separators();
        if has_hole(line) && self.decide_whether() != Some(true) {
            // What is not known may be of several words, and then nothing behind it is where it seems to be.
            let known = line.split(HOLE).next().unwrap_or_default();
            let mut words = split(known, &separators, raw, count);
            let last = words.pop().unwrap_or_default() + &HOLE.to_string();
            words.push(last);
            words.resize(if count == usize::MAX { words.len() } else { count }, HOLE.to_string());
            return words;
        }
        split(line, &separators, raw, count)
    }

    /// `mapfile -t lines`: an array of the lines of the input.
    pub(super) fn mapfile(&mut self, args: &[String], stdin: &Data) {
        let refs = slices(args);
        let options = Options::parse(&refs, Takes::values("dnOsuCc", &[]));
        let name = options.operands.first().copied().unwrap_or("MAPFILE");
        let stripped = options.short('t');
        self.remember_start();
        let data = match options.value(Some('u'), "") {
            Some(number) => self.descriptor_data(number),
            None => stdin.clone(),
        };
        let cursor = self.state.cursors.get(&data.stream).copied().unwrap_or_default();
        let odd = options.value(Some('d'), "").is_some() || !self.certainty_of(&data) || cursor.at > 0;
        let lines = match data.marked() {
            Some(text) if !odd || self.decide_whether() == Some(true) => {
                let lines = text.split_inclusive('\n').map(|line| match stripped {
                    true => line.strip_suffix('\n').unwrap_or(line).to_owned(),
                    false => line.to_owned(),
                });
                Bounded::of(&limits::LINES, lines).reported(&mut self.trace)
            }
            _ => vec![HOLE.to_string()],
        };
        if data.stream != 0 && data.marked().is_some() {
            let at = data.marked().map_or(0, str::len);
            self.state.cursors.insert(data.stream, Cursor { at, shared: cursor.shared });
        }
        self.state.mark(name, data.taint);
        self.state.assign(name, Value::List(lines));
    }
}

/// Splits a line into at most `count` words.
fn split(line: &str, separators: &str, raw: bool, count: usize) -> Vec<String> {
    let is_blank = |c: char| matches!(c, ' ' | '\t' | '\n') && separators.contains(c);
    // Each character, and whether it was escaped, which makes it one of a word.
    let mut chars: Vec<(char, bool)> = Vec::new();
    let mut escaped = false;
    for c in line.chars() {
        if c == '\\' && !raw && !escaped {
            escaped = true;
        } else {
            chars.push((c, std::mem::take(&mut escaped)));
        }
    }
    let separates = |&(c, escaped): &(char, bool)| !escaped && separators.contains(c);
    let blank = |&(c, escaped): &(char, bool)| !escaped && is_blank(c);
    let text = |part: &[(char, bool)]| part.iter().map(|(c, _)| *c).collect::<String>();
    let trimmed = |part: &[(char, bool)]| {
        let begin = part.iter().position(|c| !blank(c)).unwrap_or(part.len());
        part.get(begin..).unwrap_or_default().to_vec()
    };
    let mut words = Vec::new();
    let mut rest = trimmed(&chars);
    while !rest.is_empty() {
        let end = rest.iter().position(separates);
        let head = text(rest.get(..end.unwrap_or(rest.len())).unwrap_or_default());
        let mut tail = trimmed(rest.get(end.unwrap_or(rest.len())..).unwrap_or_default());
        if tail.first().is_some_and(separates) {
            tail = trimmed(tail.get(1..).unwrap_or_default());
        }
        if words.len() + 1 >= count && !tail.is_empty() {
            let end = rest.iter().rposition(|c| !blank(c)).map_or(0, |at| at + 1);
            words.push(text(rest.get(..end).unwrap_or_default()));
            return words;
        }
        words.push(head);
        rest = tail;
    }
    words
}
