//! Code of which only a part is known: whether what is not known begins a command.
//!
//! The law: *a word behind it makes nothing milder*. `eval "$plan"` runs code that nobody sees, and so does `eval "$plan; true"`: what is not
//! known is read as code, so that it may hold any number of commands. Behind the name of a program it is taken for an argument (`eval "cd $dir"`),
//! which is what people mean by it.

use crate::word::HOLE;

/// Words behind which a command begins.
const BEFORE_A_COMMAND: [&str; 10] = ["!", "{", "then", "do", "else", "elif", "if", "while", "until", "time"];

/// Returns whether a command in this code begins with a word of which nothing is known.
pub(crate) fn begins_unknown(code: &str) -> bool {
    if !code.contains(HOLE) {
        return false;
    }
    let mut scan = Scan { is_start: true, ..Scan::default() };
    code.chars().any(|c| scan.take(c)) || scan.end_word()
}

#[derive(Default)]
struct Scan {
    /// The word so far, without quotes.
    word: String,
    /// The quotes in which it is.
    quote: Option<char>,
    is_escaped: bool,
    /// Whether a command begins with the word.
    is_start: bool,
}

impl Scan {
    /// Takes one more character. Returns whether a word of which nothing is known has begun a command.
    fn take(&mut self, c: char) -> bool {
        if std::mem::take(&mut self.is_escaped) {
            self.word.push(c);
            return false;
        }
        match (self.quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => self.quote = None,
            (None, '\'' | '"') => self.quote = Some(c),
            (None | Some('"'), '\\') => self.is_escaped = true,
            (None, ';' | '&' | '|' | '\n' | '(' | ')') => {
                let found = self.end_word();
                self.is_start = true;
                return found;
            }
            (None, c) if c.is_whitespace() => return self.end_word(),
            (_, c) => self.word.push(c),
        }
        false
    }

    fn end_word(&mut self) -> bool {
        let word = std::mem::take(&mut self.word);
        if word.is_empty() {
            return false;
        }
        let is_unknown = word.chars().all(|c| c == HOLE);
        let was_start = self.is_start;
        let goes_on = BEFORE_A_COMMAND.contains(&word.as_str()) || is_assignment(&word);
        self.is_start = was_start && goes_on;
        was_start && is_unknown
    }
}

/// Returns whether a word in front of a command sets a variable.
fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        text.replace('?', &HOLE.to_string())
    }

    #[test]
    fn what_begins_a_command_is_code() {
        for text in [
            "?",
            "?;",
            "? one",
            "?; true",
            "true; ?",
            "true && ? x",
            "( ? )",
            "if ?; then a; fi",
            "if a; then ? b; fi",
            "A=b ? c",
            "\"?\" c",
            "! ?",
            "a\n? b",
            "a | ?",
            "{ ? a; }",
            "??",
        ] {
            assert!(begins_unknown(&code(text)), "{text}");
        }
    }

    #[test]
    fn what_stands_behind_a_name_is_an_argument() {
        for text in [
            "",
            "a",
            "cd ?",
            "echo 'a; ? b'",
            "?/bin/a",
            "a=?",
            "?=1",
            "export A=?; b",
            "a \\; ?",
            "if a ?; then b ?; fi",
        ] {
            assert!(!begins_unknown(&code(text)), "{text}");
        }
    }
}
