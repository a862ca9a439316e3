//! TOML as text: where its headers and keys are, so that an edit touches the lines of one table and no others.
//!
//! A text is cut into statements: headers, and keys with their values, which may span lines. Values are not understood beyond
//! where they end, but for plain strings and whole numbers. What can't be cut that way is an error, and the file is left as
//! it is; a text that is cut may still be no TOML to its reader.

use std::ops::Range;

use super::edit::{ConfigError, line_of};

/// A header or a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Statement<'t> {
    /// Its lines, with the end of the last.
    pub(super) lines: Range<usize>,
    pub(super) says: Says<'t>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Says<'t> {
    /// `[name]`
    Table(Name),
    /// `[[name]]`
    List(Name),
    /// `name = value`, the value as it is written.
    Key(Name, &'t str),
}

/// The parts of a dotted name, without quotes.
pub(super) type Name = Vec<String>;

/// Cuts a text into its statements.
pub(super) fn statements(text: &str) -> Result<Vec<Statement<'_>>, ConfigError> {
    let mut cutter = Cutter { text, at: 0 };
    let mut found = Vec::new();
    while let Some(statement) = cutter.next()? {
        found.push(statement);
    }
    Ok(found)
}

/// The text that a string means; `None` for other values, strings of several lines, and escapes that JSON does not have.
pub(super) fn string(value: &str) -> Option<String> {
    if value.starts_with("\"\"\"") || value.starts_with("'''") {
        return None;
    }
    match value.strip_prefix('\'') {
        Some(rest) => rest.strip_suffix('\'').map(str::to_owned),
        None => serde_json::from_str(value).ok(),
    }
}

struct Cutter<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Cutter<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn wrong(&self, what: &str, at: usize) -> ConfigError {
        let before = self.text.get(..at).unwrap_or_default();
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        ConfigError::Syntax { what: what.to_owned(), line: line_of(self.text, at), column }
    }

    fn next(&mut self) -> Result<Option<Statement<'t>>, ConfigError> {
        let mut line = self.at;
        loop {
            let rest = self.rest();
            match rest.chars().next() {
                None => return Ok(None),
                Some('#') => self.at += rest.find('\n').unwrap_or(rest.len()),
                Some('\n') => {
                    self.at += 1;
                    line = self.at;
                }
                Some(c) if c.is_ascii_whitespace() || c == '\u{feff}' => self.at += c.len_utf8(),
                Some(_) => break,
            }
        }
        let rest = self.rest();
        let says = match (rest.strip_prefix("[["), rest.strip_prefix('[')) {
            (Some(_), _) => {
                self.at += 2;
                let name = self.name(']')?;
                if !self.rest().starts_with(']') {
                    return Err(self.wrong("a header without its end", self.at));
                }
                self.at += 1;
                Says::List(name)
            }
            (None, Some(_)) => {
                self.at += 1;
                Says::Table(self.name(']')?)
            }
            (None, None) => {
                let name = self.name('=')?;
                Says::Key(name, self.value()?)
            }
        };
        self.end_of_line()?;
        Ok(Some(Statement { lines: line..self.at, says }))
    }

    /// The name up to `end`, which is passed over.
    fn name(&mut self, end: char) -> Result<Name, ConfigError> {
        let (start, mut parts, mut part) = (self.at, Vec::new(), String::new());
        loop {
            let rest = self.rest();
            match rest.chars().next() {
                Some('"' | '\'') => {
                    let string_at = self.at;
                    self.string()?;
                    let quoted = self.text.get(string_at..self.at).and_then(string);
                    let quoted = quoted.ok_or_else(|| self.wrong("a name that can't be read", string_at))?;
                    part.push_str(&quoted);
                }
                Some(c) if c == '.' || c == end => {
                    parts.push(std::mem::take(&mut part));
                    self.at += 1;
                    if c == end {
                        return Ok(parts);
                    }
                }
                Some(' ' | '\t') => self.at += 1,
                Some(c) if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') => {
                    part.push(c);
                    self.at += 1;
                }
                _ => return Err(self.wrong("a name without its end", start)),
            }
        }
    }

    /// The value, up to the end of its line or the comment behind it.
    fn value(&mut self) -> Result<&'t str, ConfigError> {
        let (start, mut depth) = (self.at, 0_usize);
        loop {
            let rest = self.rest();
            match rest.chars().next() {
                None | Some('\n' | '#') if depth == 0 => break,
                None => return Err(self.wrong("a value without its end", start)),
                Some('#') => self.at += rest.find('\n').unwrap_or(rest.len()),
                Some('"' | '\'') => self.string()?,
                Some(c) => {
                    match c {
                        '[' | '{' => depth += 1,
                        ']' | '}' => {
                            depth =
                                depth.checked_sub(1).ok_or_else(|| self.wrong("a stray bracket", self.at))?;
                        }
                        _ => {}
                    }
                    self.at += c.len_utf8();
                }
            }
        }
        match self.text.get(start..self.at).map(str::trim) {
            Some(value) if !value.is_empty() => Ok(value),
            _ => Err(self.wrong("a key without a value", start)),
        }
    }

    /// Passes over the string that begins here.
    fn string(&mut self) -> Result<(), ConfigError> {
        let (start, rest) = (self.at, self.rest());
        let unended = || self.wrong("a string without its end", start);
        let quote = rest.chars().next().unwrap_or_default();
        let three: String = std::iter::repeat_n(quote, 3).collect();
        let (end, is_long) = if rest.starts_with(&three) { (three, true) } else { (quote.into(), false) };
        let mut at = end.len();
        let length = loop {
            let inside = rest.get(at..).ok_or_else(unended)?;
            if let Some(after) = inside.strip_prefix(&end) {
                // In a text of several lines the delimiter may follow one or two quotes that are its last letters, so of a run of quotes
                // the last three of the first five end it, and a sixth stands behind the end. The differential test below holds
                // this against a reader of the language.
                let more = after.chars().take(2).take_while(|c| is_long && *c == quote).count();
                break at + end.len() + more;
            }
            let mut letters = inside.chars();
            match letters.next() {
                Some('\\') if quote == '"' => {
                    at += 1 + letters.next().map_or(0, char::len_utf8);
                }
                Some('\n') if !is_long => return Err(unended()),
                Some(letter) => at += letter.len_utf8(),
                None => return Err(unended()),
            }
        };
        self.at = start + length;
        Ok(())
    }

    /// Nothing but a comment may follow.
    fn end_of_line(&mut self) -> Result<(), ConfigError> {
        let rest = self.rest();
        let line = rest.split_inclusive('\n').next().unwrap_or_default();
        if !(line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Err(self.wrong("something behind the end", self.at));
        }
        self.at += line.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(text: &str) -> Vec<String> {
        let name = |name: &Name| name.join("|");
        let shown = |says: &Says<'_>| match says {
            Says::Table(table) => format!("[{}]", name(table)),
            Says::List(list) => format!("[[{}]]", name(list)),
            Says::Key(key, value) => format!("{}={value}", name(key)),
        };
        statements(text).unwrap().iter().map(|statement| shown(&statement.says)).collect()
    }

    #[test]
    fn headers_and_keys_are_found_whatever_stands_in_values() {
        let text = concat!(
            "# [no]\n",
            "a = 1 # x = 2\n",
            "b.\"c.d\" = \"\"\"\n[no]\nx = \\\"\"\" end\"\"\"\"\n",
            "[t.'u v']\n",
            "list = [ # [no]\n  \"]\",\n  ['x'],\n]\r\n",
            "[[ hooks ]] # ours\n",
            "d = { e = '#' }",
        );
        let found = [
            "a=1",
            "b|c.d=\"\"\"\n[no]\nx = \\\"\"\" end\"\"\"\"",
            "[t|u v]",
            "list=[ # [no]\n  \"]\",\n  ['x'],\n]",
            "[[hooks]]",
            "d={ e = '#' }",
        ];
        assert_eq!(said(text), found);
    }

    #[test]
    fn what_can_not_be_cut_is_an_error_with_its_place() {
        for (text, what) in [
            ("a = 1\n[b", "a name without its end at line 2, column 2"),
            ("[[b]\n", "a header without its end at line 1"),
            ("a\n", "a name without its end"),
            ("a =\n", "a key without a value"),
            ("a = \"x\n", "a string without its end at line 1, column 5"),
            ("a = [1\n", "a value without its end"),
            ("a = 1]\n", "a stray bracket"),
            ("[a] b = 1\n", "something behind the end"),
        ] {
            let error = statements(text).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    /// Which of these texts Python's reader of the language takes, and what it finds under `a` and `b`.
    fn read_by_python(texts: &[String]) -> Vec<serde_json::Value> {
        const READ: &str = "import json, sys, tomllib\n\
            def read(text):\n  \
              try: found = tomllib.loads(text)\n  \
              except tomllib.TOMLDecodeError: return None\n  \
              return [sorted(found), found['a']]\n\
            print(json.dumps([read(text) for text in json.load(sys.stdin)]))";
        let mut python = std::process::Command::new("python3")
            .args(["-c", READ])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        serde_json::to_writer(python.stdin.take().unwrap(), texts).unwrap();
        serde_json::from_slice(&python.wait_with_output().unwrap().stdout).unwrap()
    }

    #[test]
    fn runs_of_quotes_end_a_string_where_they_end_it_for_a_reader_of_the_language() {
        let mut texts = Vec::new();
        for quote in ["\"", "'"] {
            for (open, close) in (1..=8).flat_map(|open| (0..=8).map(move |close| (open, close))) {
                for body in ["", "x", "\n", "xQy", "xQQy", "xQQQy", "\\Q", "x\\", "\\QQ y", "Q\nQQ#"] {
                    let body = body.replace('Q', quote);
                    texts.push(format!("a = {}{body}{}\nb = 1\n", quote.repeat(open), quote.repeat(close)));
                }
            }
        }
        let mut taken = 0;
        for (text, read) in texts.iter().zip(read_by_python(&texts)) {
            let cut = statements(text);
            if read.is_null() {
                // What the language does not have may be cut, but never so that a line of its own is lost.
                assert!(cut.is_err() || said(text).last().is_some_and(|last| last == "b=1"), "{text}");
                continue;
            }
            taken += 1;
            let names = |found: &[Statement<'_>]| -> Vec<String> {
                found
                    .iter()
                    .filter_map(|one| match &one.says {
                        Says::Key(name, _) => Some(name.join(".")),
                        _ => None,
                    })
                    .collect()
            };
            assert_eq!(serde_json::json!(names(&cut.unwrap())), read[0], "{text}");
            let Says::Key(_, value) = &statements(text).unwrap()[0].says else { panic!("{text}") };
            if let Some(value) = string(value) {
                assert_eq!(read[1], value, "{text}");
            }
        }
        assert!(taken > 100, "{taken}");
    }

    #[test]
    fn strings_mean_what_they_say() {
        assert_eq!(string(r#""a \"b\" \\ \u00e9""#).unwrap(), "a \"b\" \\ é");
        assert_eq!(string(r"'a \b'").unwrap(), r"a \b");
        for other in ["1", "true", "\"\"\"a\"\"\"", "'''a'''", "[]", "'a"] {
            assert_eq!(string(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn statements_stand_in_order_and_never_panic(text in "[a-z\\[\\]{}='\"\\\\#. \n\r]{0,60}") {
            if let Ok(found) = statements(&text) {
                let mut end = 0;
                for statement in found {
                    prop_assert!(statement.lines.start >= end && statement.lines.end <= text.len());
                    end = statement.lines.end;
                }
            }
        }
    }
}
