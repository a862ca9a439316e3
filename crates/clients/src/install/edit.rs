//! Editing JSON with comments as text.
//!
//! A parser says where things are; an edit then adds or removes exactly the bytes of one member or element,
//! with the comma and the white space that belong to it. Comments, order, indentation and line ends of
//! everything else stay as they are because they are never touched. Taking out what was put in gives the
//! text of before, apart from white space inside an object or array that was empty.

use std::ops::Range;

use jsonc_parser::ast::{Array, Object, ObjectProp, Value as Node};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde::Serialize as _;
use serde_json::Value;

/// A configuration file that can't be edited. Nothing is written then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Not JSON, with or without comments.
    #[error(
        "{what} at line {line}, column {column}; hint: the file was left as it is, mend it and try again"
    )]
    Syntax {
        /// What is wrong, in lower case.
        what: String,
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
    },
    /// Something has another type than the client knows there.
    #[error(
        "`{key}` at line {line} is not {expected}; hint: the file was left as it is, mend it and try again"
    )]
    Shape {
        /// The key.
        key: String,
        /// Counted from 1.
        line: usize,
        /// What it should be.
        expected: &'static str,
    },
    /// A key says something that hooks can't stand beside.
    #[error(
        "`{key}` at line {line} says otherwise than `{wanted}`; hint: the file was left as it is, take that out or settle it"
    )]
    Differs {
        /// The key.
        key: String,
        /// Counted from 1.
        line: usize,
        /// What it has to say.
        wanted: String,
    },
    /// A key that counts is there twice, and clients differ in which one they read.
    #[error("`{key}` is there twice, the second time at line {line}; hint: keep one of the two")]
    Twice {
        /// The key.
        key: String,
        /// Counted from 1.
        line: usize,
    },
}

/// Parses the text; `None` for one without a value.
pub(super) fn parse(text: &str) -> Result<Option<Node<'_>>, ConfigError> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    parse_to_ast(text, &CollectOptions::default(), &options).map(|parsed| parsed.value).map_err(|error| {
        let what = error.kind().to_string();
        let mut letters = what.chars();
        let what = letters.next().into_iter().flat_map(char::to_lowercase).chain(letters).collect();
        ConfigError::Syntax { what, line: error.line_display(), column: error.column_display() }
    })
}

/// The line of a place in the text, counted from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// The member of that name; an error when there are two.
pub(super) fn member<'n, 'a>(
    text: &str,
    object: &'n Object<'a>,
    key: &str,
) -> Result<Option<&'n ObjectProp<'a>>, ConfigError> {
    let mut found = object.properties.iter().filter(|member| member.name.as_str() == key);
    let first = found.next();
    match found.next() {
        Some(second) => Err(ConfigError::Twice { key: key.to_owned(), line: line_of(text, second.start()) }),
        None => Ok(first),
    }
}

/// The value as `serde_json` has it, for comparing and searching. Its depth is what the parser allows.
pub(super) fn value_of(node: &Node<'_>) -> Value {
    match node {
        Node::StringLit(text) => Value::String(text.value.to_string()),
        Node::NumberLit(number) => serde_json::from_str(number.value).unwrap_or(Value::Null),
        Node::BooleanLit(flag) => Value::Bool(flag.value),
        Node::NullKeyword(_) => Value::Null,
        Node::Array(array) => Value::Array(array.elements.iter().map(value_of).collect()),
        Node::Object(object) => Value::Object(
            object
                .properties
                .iter()
                .map(|member| (member.name.as_str().to_owned(), value_of(&member.value)))
                .collect(),
        ),
    }
}

/// Something with braces or brackets, and where its entries are.
#[derive(Clone, Debug)]
pub(super) struct Container {
    whole: Range<usize>,
    entries: Vec<Range<usize>>,
}

impl From<&Object<'_>> for Container {
    fn from(object: &Object<'_>) -> Self {
        Self {
            whole: object.start()..object.end(),
            entries: object.properties.iter().map(|member| member.start()..member.end()).collect(),
        }
    }
}

impl From<&Array<'_>> for Container {
    fn from(array: &Array<'_>) -> Self {
        Self {
            whole: array.start()..array.end(),
            entries: array.elements.iter().map(|element| element.start()..element.end()).collect(),
        }
    }
}

/// Replaces ranges of the text, which must not overlap.
fn splice(text: &str, mut edits: Vec<(Range<usize>, String)>) -> String {
    edits.sort_by_key(|(range, _)| range.start);
    let mut done = String::with_capacity(text.len() + 64);
    let mut at = 0;
    for (range, new) in edits {
        done.push_str(text.get(at..range.start).unwrap_or_default());
        done.push_str(&new);
        at = range.end;
    }
    done.push_str(text.get(at..).unwrap_or_default());
    done
}

/// What is written into a container: a value, and its key in an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) key: Option<&'a str>,
    pub(super) value: &'a Value,
}

/// How the text is laid out.
struct Style<'t> {
    text: &'t str,
    unit: String,
    newline: &'static str,
}

impl<'t> Style<'t> {
    fn of(text: &'t str) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        // The first line that begins with white space and something else says what one level is.
        let indented = text.lines().map(leading).find(|(space, rest)| !space.is_empty() && !rest.is_empty());
        let unit = indented.map_or("  ", |(space, _)| space);
        Self { text, unit: unit.to_owned(), newline }
    }

    /// The white space at the beginning of the line in which `at` is.
    fn indent_at(&self, at: usize) -> &'t str {
        let before = self.text.get(..at).unwrap_or_default();
        let line = before.rfind('\n').map_or(0, |end| end + 1);
        leading(self.text.get(line..).unwrap_or_default()).0
    }

    fn render(&self, entry: Entry<'_>, indent: Option<&str>) -> String {
        let key = entry.key.map(|key| Value::from(key).to_string());
        let key = key.map(|key| format!("{key}: ")).unwrap_or_default();
        let Some(indent) = indent else { return format!("{key}{}", entry.value) };
        let mut bytes = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(self.unit.as_bytes());
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        // Values are plain JSON, and writing to memory does not fail.
        let _ = entry.value.serialize(&mut serializer);
        let pretty = String::from_utf8(bytes).unwrap_or_default();
        format!("{key}{}", pretty.replace('\n', &format!("{}{indent}", self.newline)))
    }
}

fn leading(line: &str) -> (&str, &str) {
    let line = line.trim_end_matches(['\r', '\n']);
    let rest = line.trim_start_matches([' ', '\t']);
    (line.strip_suffix(rest).unwrap_or_default(), rest)
}

/// Adds an entry at the end of a container.
pub(super) fn append(text: &str, container: &Container, entry: Entry<'_>) -> String {
    let style = Style::of(text);
    let inner = container.whole.start + 1..container.whole.end.saturating_sub(1);
    let inside = text.get(inner.clone()).unwrap_or_default();
    let multiline = inside.contains('\n') || container.entries.is_empty();
    // After the last thing inside, comments included; before the white space in front of the closing brace.
    let end = inner.start + inside.trim_end().len();
    let Some(last) = container.entries.last() else {
        let outer = style.indent_at(container.whole.start);
        let indent = format!("{outer}{}", style.unit);
        let newline = style.newline;
        let rendered = style.render(entry, Some(&indent));
        let closing = if inside.contains('\n') { String::new() } else { format!("{newline}{outer}") };
        return splice(text, vec![(end..end, format!("{newline}{indent}{rendered}{closing}"))]);
    };
    let indent = multiline.then(|| style.indent_at(last.start));
    let gap = indent.map_or_else(|| " ".to_owned(), |indent| format!("{}{indent}", style.newline));
    let rendered = style.render(entry, indent);
    let tail = text.get(last.end..end).unwrap_or_default();
    if has_comma(tail) {
        return splice(text, vec![(end..end, format!("{gap}{rendered},"))]);
    }
    splice(text, vec![(last.end..last.end, ",".to_owned()), (end..end, format!("{gap}{rendered}"))])
}

/// Whether there is a comma outside of comments.
fn has_comma(text: &str) -> bool {
    comma_at(text).is_some()
}

/// Where the first comma outside of comments is.
fn comma_at(text: &str) -> Option<usize> {
    let mut rest = text;
    loop {
        let at = rest.find([',', '/'])?;
        let found = rest.get(at..)?;
        if found.starts_with(',') {
            return Some(text.len() - found.len());
        }
        let end = if found.starts_with("//") { found.find('\n')? } else { found.find("*/")? + 2 };
        rest = found.get(end..)?;
    }
}

/// Takes an entry out of a container, with the comma and the white space that came with it.
pub(super) fn remove(text: &str, container: &Container, index: usize) -> String {
    let Some(entry) = container.entries.get(index) else { return text.to_owned() };
    let before = text.get(..entry.start).unwrap_or_default();
    let start = before.trim_end().len();
    let previous = index.checked_sub(1).and_then(|index| container.entries.get(index));
    let next =
        container.entries.get(index + 1).map_or(container.whole.end.saturating_sub(1), |next| next.start);
    let after = text.get(entry.end..next).unwrap_or_default();
    let mut edits = Vec::new();
    match (comma_at(after), previous) {
        (Some(comma), _) => edits.push((start..entry.end + comma + 1, String::new())),
        (None, Some(previous)) => {
            let between = text.get(previous.end..start).unwrap_or_default();
            if let Some(comma) = comma_at(between) {
                edits.push((previous.end + comma..previous.end + comma + 1, String::new()));
            }
            edits.push((start..entry.end, String::new()));
        }
        // The only one: what is left of the container is closed up, unless there is a comment in it.
        (None, None) if after.trim().is_empty() && start == container.whole.start + 1 => {
            edits.push((start..next, String::new()));
        }
        (None, None) => edits.push((start..entry.end, String::new())),
    }
    splice(text, edits)
}

/// Puts another value in the place of an entry, in the layout of where it stands.
pub(super) fn replace(text: &str, container: &Container, index: usize, entry: Entry<'_>) -> String {
    let Some(old) = container.entries.get(index) else { return text.to_owned() };
    let style = Style::of(text);
    let multiline = text.get(container.whole.clone()).unwrap_or_default().contains('\n');
    let indent = multiline.then(|| style.indent_at(old.start));
    splice(text, vec![(old.clone(), style.render(entry, indent))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn root(text: &str) -> Container {
        parse(text).unwrap().as_ref().and_then(Node::as_object).map(Container::from).unwrap()
    }

    fn added(text: &str) -> String {
        append(text, &root(text), Entry { key: Some("new"), value: &json!({"x": [1]}) })
    }

    #[test]
    fn a_member_is_added_in_the_layout_of_its_neighbours() {
        let cases = [
            ("{}", "{\n  \"new\": {\n    \"x\": [\n      1\n    ]\n  }\n}"),
            ("{\"a\":1}", "{\"a\":1, \"new\": {\"x\":[1]}}"),
            (
                "{\n\t\"a\": 1 // one\n}\n",
                "{\n\t\"a\": 1, // one\n\t\"new\": {\n\t\t\"x\": [\n\t\t\t1\n\t\t]\n\t}\n}\n",
            ),
            (
                "{\r\n  \"a\": 1,\r\n}",
                "{\r\n  \"a\": 1,\r\n  \"new\": {\r\n    \"x\": [\r\n      1\r\n    ]\r\n  },\r\n}",
            ),
            ("{ // empty, yet\n}", "{ // empty, yet\n  \"new\": {\n    \"x\": [\n      1\n    ]\n  }\n}"),
        ];
        for (before, after) in cases {
            assert_eq!(added(before), after);
            let container = root(after);
            assert_eq!(remove(after, &container, container.entries.len() - 1), before, "{after}");
        }
    }

    #[test]
    fn an_entry_goes_with_its_own_comma() {
        let text = "{\n  \"a\": 1, // a, first\n  \"b\": 2, // b\n  \"c\": 3 /* c, last */\n}";
        let removed = |index| remove(text, &root(text), index);
        assert_eq!(removed(0), "{ // a, first\n  \"b\": 2, // b\n  \"c\": 3 /* c, last */\n}");
        assert_eq!(removed(1), "{\n  \"a\": 1, // a, first // b\n  \"c\": 3 /* c, last */\n}");
        assert_eq!(removed(2), "{\n  \"a\": 1, // a, first\n  \"b\": 2 // b /* c, last */\n}");
    }

    #[test]
    fn what_is_not_json_with_comments_is_refused_with_its_place() {
        for (text, said) in [
            ("{\"a\": 1", "unterminated object at line 1, column 1"),
            ("{\n  a: 1}", "line 2, column 3"),
            ("{\"a\": 1 \"b\": 2}", "expected comma at line 1"),
            ("{'a': 1}", "single-quoted strings are not allowed at line 1, column 2"),
            ("{} {}", "more than one JSON value"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        assert!(parse(&"[".repeat(5000)).is_err());
    }
}
