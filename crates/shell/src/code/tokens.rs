//! Tokens of code: words, strings and punctuation.

use super::language::{Backquotes, Syntax};
use crate::decode;
use crate::limits::{self, Over};
use crate::marks::HOLE;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Name(String),
    Text(Text),
    /// A command between backquotes, or what a language has for them.
    Command(Text),
    Mark(char),
    End,
}

/// A string, with the code that stands inside of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Text {
    /// The parts that are written, with a hole for each piece of code.
    pub(super) body: String,
    /// The pieces of code, in order.
    pub(super) inner: Vec<String>,
}

impl Text {
    fn plain(body: String) -> Self {
        Self { body, inner: Vec::new() }
    }
}

/// Cuts code into tokens.
pub(super) fn tokenize(text: &str, syntax: &Syntax) -> (Vec<Token>, Over) {
    let chars: Vec<char> = text.chars().collect();
    let mut tokenizer = Tokenizer { chars, at: 0, tokens: Vec::new(), syntax };
    while tokenizer.at < tokenizer.chars.len() {
        if tokenizer.tokens.len() >= limits::TOKENS.most {
            return (tokenizer.tokens, Over::of(&limits::TOKENS));
        }
        tokenizer.next();
    }
    (tokenizer.tokens, Over::NOTHING)
}

struct Tokenizer<'s> {
    chars: Vec<char>,
    at: usize,
    tokens: Vec<Token>,
    syntax: &'s Syntax,
}

impl Tokenizer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn before(&self) -> Option<char> {
        self.at.checked_sub(1).and_then(|at| self.chars.get(at)).copied()
    }

    fn next(&mut self) {
        let (Some(c), next) = (self.peek(0), self.peek(1)) else { return };
        match c {
            '\n' | ';' if c == '\n' || !self.syntax.lisp => self.push(Token::End, 1),
            c if c.is_whitespace() => self.at += 1,
            '#' if next == Some('=') && self.syntax.hash => self.skip_to("=#", 2),
            '#' if self.syntax.hash && self.before().is_none_or(char::is_whitespace) => self.skip_line(),
            ';' => self.skip_line(),
            '/' if next == Some('*') && self.syntax.slash_star => self.skip_to("*/", 2),
            '\'' if self.syntax.lisp => self.at += 1,
            '"' | '\'' | '`' => self.quoted(c, false),
            '%' if self.syntax.percent
                && matches!(next, Some('q' | 'Q' | 'x' | 'w'))
                && self.peek(2).is_some_and(|c| "({[<|!".contains(c)) =>
            {
                self.percent(next);
            }
            '[' if self.syntax.long_brackets && matches!(next, Some('[' | '=')) && self.long_bracket() => {}
            '<' if self.syntax.globs && self.glob() => {}
            '-' if self.syntax.arrows && next == Some('>') && self.peek(2).is_some_and(starts_name) => {
                // A method is called as it is in the other languages.
                self.at += 2;
                self.name(".");
            }
            // Two dots join, whatever stands behind them.
            '.' if self.syntax.long_brackets && (next == Some('.') || self.before() == Some('.')) => {
                self.push(Token::Mark('.'), 1);
            }
            // Where names have sigils, a dot joins.
            c if starts_name(c)
                || c == '.' && next.is_some_and(char::is_alphabetic) && !self.syntax.sigils =>
            {
                self.name("");
            }
            c if c.is_ascii_digit() => {
                let start = self.at;
                while self.peek(0).is_some_and(|c| c.is_ascii_alphanumeric()) {
                    self.at += 1;
                }
                let digits = self.chars.get(start..self.at).unwrap_or_default();
                self.tokens.push(Token::Name(digits.iter().collect()));
            }
            other => self.push(Token::Mark(other), 1),
        }
    }

    fn push(&mut self, token: Token, width: usize) {
        self.tokens.push(token);
        self.at += width;
    }

    fn skip_line(&mut self) {
        self.at = self
            .chars
            .iter()
            .skip(self.at)
            .position(|c| *c == '\n')
            .map_or(self.chars.len(), |n| self.at + n);
    }

    fn skip_to(&mut self, end: &str, from: usize) {
        self.at = find(&self.chars, self.at + from, end).map_or(self.chars.len(), |at| at + end.len());
    }

    /// A string that begins here; `formats` when its braces hold code.
    fn quoted(&mut self, quote: char, formats: bool) {
        let triple = quote != '`' && self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        let (body, end) = match triple {
            true => long_string(&self.chars, self.at + 3, quote),
            false => string(&self.chars, self.at + 1, quote),
        };
        self.at = end;
        let interpolates = quote != '\'' || self.syntax.single_interpolates;
        let text = self.text(&body, formats, interpolates);
        self.tokens.push(match (quote, self.syntax.backquotes) {
            ('`', Backquotes::Command) => Token::Command(text),
            _ => Token::Text(text),
        });
    }

    fn text(&self, body: &str, formats: bool, interpolates: bool) -> Text {
        let body = decode::ansi_c(&unescaped(body));
        let openings: Vec<&str> = if formats {
            vec!["{"]
        } else if interpolates {
            self.syntax.interpolates.iter().map(String::as_str).collect()
        } else {
            Vec::new()
        };
        interpolated(&body, &openings, self.syntax.sigils && interpolates)
    }

    /// `%q(...)`, `%w[...]` and `%x{...}`.
    fn percent(&mut self, kind: Option<char>) {
        let (body, end) = bracketed(&self.chars, self.at + 2);
        self.at = end;
        match kind {
            Some('x') => {
                let text = self.text(&body, false, true);
                self.tokens.push(Token::Command(text));
            }
            Some('w') => self.words(&body),
            kind => {
                let text = self.text(&body, false, kind == Some('Q'));
                self.tokens.push(Token::Text(text));
            }
        }
    }

    fn words(&mut self, body: &str) {
        let words = body.split_whitespace().map(|word| Token::Text(Text::plain(word.to_owned())));
        self.tokens.extend(words);
    }

    /// `[[text]]`, `[==[text]==]`.
    fn long_bracket(&mut self) -> bool {
        let rest = self.chars.get(self.at + 1..).unwrap_or_default();
        let level = rest.iter().take_while(|c| **c == '=').count();
        if rest.get(level) != Some(&'[') {
            return false;
        }
        let close = format!("]{}]", "=".repeat(level));
        let from = self.at + level + 2;
        let end = find(&self.chars, from, &close).unwrap_or(self.chars.len());
        let body = self.chars.get(from..end).unwrap_or_default().iter().collect();
        self.tokens.push(Token::Text(Text::plain(body)));
        self.at = (end + level + 2).min(self.chars.len());
        true
    }

    /// `</etc/*>`, which lists files.
    fn glob(&mut self) -> bool {
        let rest = self.chars.get(self.at + 1..).unwrap_or_default();
        let end = rest.iter().position(|c| *c == '>' || *c == '\n' || *c == ';');
        let body: String = match end.map(|end| (rest.get(end), rest.get(..end))) {
            Some((Some('>'), Some(body))) => body.iter().collect(),
            _ => return false,
        };
        if !body.starts_with(['/', '~', '.']) && !body.contains('*') || body.contains(' ') {
            return false;
        }
        self.at += body.chars().count() + 2;
        self.tokens.extend([
            Token::Name("glob".into()),
            Token::Mark('('),
            Token::Text(Text::plain(body)),
            Token::Mark(')'),
        ]);
        true
    }

    fn name(&mut self, front: &str) {
        let start = self.at;
        while let Some(c) = self.peek(0) {
            let colons =
                c == ':' && (self.peek(1) == Some(':') || self.before() == Some(':') && self.at > start);
            let lisp = self.syntax.lisp && "-*!/<>+".contains(c) && self.at > start;
            let bang = c == '!' && self.peek(1) == Some('(');
            // Two dots join in Lua.
            if c == '.' && self.peek(1) == Some('.') && self.syntax.long_brackets {
                break;
            }
            if !(c.is_alphanumeric() || "_$@.?".contains(c) || c == HOLE || colons || lisp || bang) {
                break;
            }
            self.at += 1;
        }
        let body: String = self.chars.get(start..self.at).unwrap_or_default().iter().collect();
        let name = format!("{front}{body}");
        let quote = self.peek(0);
        if self.syntax.percent
            && matches!(name.as_str(), "qx" | "q" | "qq" | "qw")
            && quote.is_some_and(|c| "({[<|!/".contains(c))
        {
            let (body, end) = bracketed(&self.chars, self.at);
            self.at = end;
            let text = self.text(&body, false, matches!(name.as_str(), "qx" | "qq"));
            match name.as_str() {
                "qx" => self.tokens.push(Token::Command(text)),
                "qw" => self.words(&body),
                _ => self.tokens.push(Token::Text(text)),
            }
            return;
        }
        match quote {
            Some(quote @ ('"' | '\'')) if is_string_prefix(&name) => {
                self.quoted(quote, self.syntax.formats && name.to_ascii_lowercase().contains('f'));
            }
            _ => self.tokens.push(Token::Name(name)),
        }
    }
}

fn starts_name(c: char) -> bool {
    c.is_alphabetic() || "_$@".contains(c) || c == HOLE
}

fn is_string_prefix(name: &str) -> bool {
    matches!(name.to_ascii_lowercase().as_str(), "r" | "b" | "f" | "u" | "rb" | "br" | "fr" | "rf")
}

/// Takes the code out of a string: what stands between one of the openings and its end, and names of variables.
fn interpolated(body: &str, openings: &[&str], sigils: bool) -> Text {
    let mut text = Text::default();
    let mut rest = body;
    while let Some(c) = rest.chars().next() {
        if let Some(opening) = openings.iter().find(|opening| rest.starts_with(**opening)) {
            let doubled = *opening == "{" && rest.starts_with("{{");
            if !doubled {
                let (inner, after) = enclosed(rest.get(opening.len()..).unwrap_or_default(), opening);
                text.inner.push(inner.to_owned());
                text.body.push(HOLE);
                rest = after;
                continue;
            }
        }
        let name = match rest.strip_prefix(['$', '@']).filter(|_| sigils) {
            Some(tail) => {
                tail.len() - tail.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len()
            }
            None => 0,
        };
        // `$ENV{HOME}`, `$a[0]`: what stands in the brackets belongs to it.
        let indexed = rest.get(name + 1..).filter(|_| name > 0).map_or(0, |tail| match tail.chars().next() {
            Some(open @ ('{' | '[')) => {
                let close = if open == '{' { '}' } else { ']' };
                tail.find(close).filter(|end| *end < 40).map_or(0, |end| end + 1)
            }
            _ => 0,
        });
        let width = if name > 0 { name + 1 + indexed } else { c.len_utf8() };
        let (head, tail) = rest.split_at_checked(width).unwrap_or((rest, ""));
        if name > 0 && !head.starts_with("$0") {
            text.inner.push(head.to_owned());
            text.body.push(HOLE);
        } else {
            text.body.push_str(head);
        }
        rest = tail;
    }
    text
}

/// Returns what stands between an opening and its bracket, and what follows.
fn enclosed<'t>(text: &'t str, opening: &str) -> (&'t str, &'t str) {
    let (open, close) = if opening.contains('{') { ('{', '}') } else { ('(', ')') };
    let mut depth = 1usize;
    for (at, c) in text.char_indices() {
        depth = match c {
            c if c == open => depth + 1,
            c if c == close => depth - 1,
            _ => depth,
        };
        if depth == 0 {
            return (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default());
        }
    }
    (text, "")
}

/// `\u{2e}` and Lua's decimal `\046`, in the form the shared decoder knows.
fn unescaped(body: &str) -> String {
    let mut out = String::with_capacity(body.len());
    let mut rest = body;
    while let Some((head, tail)) = rest.split_once("\\u{") {
        out.push_str(head);
        let Some((hex, after)) = tail.split_once('}') else {
            out.push_str("\\u{");
            rest = tail;
            break;
        };
        out.push(u32::from_str_radix(hex, 16).ok().and_then(char::from_u32).unwrap_or('?'));
        rest = after;
    }
    out.push_str(rest);
    // `.` is 046 in decimal and `&` is 046 in octal; a path separator before it decides.
    out.replace("/\\046", "/.").replace("/\\46", "/.")
}

fn find(chars: &[char], from: usize, needle: &str) -> Option<usize> {
    let needle: Vec<char> = needle.chars().collect();
    chars.get(from..)?.windows(needle.len()).position(|window| window == needle).map(|at| at + from)
}

fn string(chars: &[char], from: usize, quote: char) -> (String, usize) {
    let mut body = String::new();
    let mut at = from;
    while let Some(&c) = chars.get(at) {
        at += 1;
        if c == '\\' {
            body.push(c);
            body.extend(chars.get(at));
            at += 1;
        } else if c == quote {
            return (body, at);
        } else {
            body.push(c);
        }
    }
    (body, at)
}

fn long_string(chars: &[char], from: usize, quote: char) -> (String, usize) {
    let end = find(chars, from, &String::from_iter([quote; 3])).unwrap_or(chars.len());
    (chars.get(from..end).unwrap_or_default().iter().collect(), (end + 3).min(chars.len()))
}

fn bracketed(chars: &[char], at: usize) -> (String, usize) {
    let open = chars.get(at).copied().unwrap_or('(');
    let close = match open {
        '(' => ')',
        '{' => '}',
        '[' => ']',
        '<' => '>',
        other => other,
    };
    let mut depth = 1usize;
    let mut end = at + 1;
    while let Some(&c) = chars.get(end) {
        if c == close {
            depth -= 1;
            if depth == 0 {
                break;
            }
        } else if c == open {
            depth += 1;
        }
        end += 1;
    }
    (chars.get(at + 1..end).unwrap_or_default().iter().collect(), end + 1)
}
