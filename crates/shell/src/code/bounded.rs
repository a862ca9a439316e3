//! Names in code whose values are in the code or are passed to it: items of lists, parameters, arguments, input.
//!
//! If such a name is run or deleted, its value is in the text that is judged, or is judged where it is passed. What runs by
//! any other name is unknown. Limit: a name is bound once for the whole code, wherever that is done, and an expression of
//! more than [`LONGEST`] words binds nothing.

use std::collections::HashSet;

use super::language::{Does, Language};
use super::tokens::Token;

/// The most words of an expression that are looked at.
const LONGEST: usize = 400;

/// The most words of what stands in front of a body or of an expression; names behind them are not bound.
const HEAD: usize = 24;

/// What code is given: its arguments, and its input.
const GIVEN: [&str; 22] = [
    "argv",
    "sys.argv",
    "process.argv",
    "args",
    "ARGV",
    "ARGF",
    "_",
    "0",
    "@",
    "STDIN",
    "stdin",
    "sys.stdin",
    "process.stdin",
    "$stdin",
    "Bun.argv",
    "Deno.args",
    "F",
    "self",
    "this",
    "arguments",
    "kwargs",
    "options",
];

/// The names that are bound.
#[derive(Debug, Default)]
pub(super) struct Bounded {
    names: HashSet<String>,
}

impl Bounded {
    /// Returns whether a name is bound, or belongs to something that is.
    pub(super) fn has(&self, name: &str) -> bool {
        let bare = name.trim_start_matches(['$', '@', '&', '%']);
        let root = bare.split('.').next().unwrap_or(bare);
        let is = |name: &str| GIVEN.contains(&name) || self.names.contains(name);
        is(name) || is(bare) || is(root) || bare.is_empty() && !name.is_empty()
    }

    /// Looks for the names that code binds.
    pub(super) fn read(tokens: &[Token], language: &Language) -> Self {
        let mut all = Self::default();
        for (at, token) in tokens.iter().enumerate() {
            let rest = tokens.get(at + 1..).unwrap_or_default();
            match token {
                Token::Name(word) if matches!(word.as_str(), "for" | "foreach") => all.items(rest, language),
                Token::Name(word) if matches!(word.as_str(), "def" | "function" | "sub" | "fn" | "func") => {
                    let behind = rest.iter().position(|token| *token == Token::Mark('('));
                    let behind = behind.filter(|at| *at < 2).and_then(|at| rest.get(at + 1..));
                    all.parameters(behind.unwrap_or_default(), ')');
                }
                Token::Name(word) if word == "lambda" => all.parameters(rest, ':'),
                Token::Mark('|') if language.name == "ruby" => all.parameters(rest, '|'),
                Token::Mark('=') if rest.first() == Some(&Token::Mark('>')) => {
                    all.parameters_in_front(tokens.get(..at).unwrap_or_default());
                }
                Token::Name(name)
                    if rest.first() == Some(&Token::Mark('='))
                        && !matches!(rest.get(1), Some(Token::Mark('=' | '~' | '>')))
                        && all.is_within(rest.get(1..).unwrap_or_default(), language) =>
                {
                    all.add(name);
                }
                _ => {}
            }
        }
        all
    }

    fn add(&mut self, name: &str) {
        self.names.insert(name.trim_start_matches(['$', '@', '&', '%']).to_owned());
    }

    fn parameters(&mut self, tokens: &[Token], end: char) {
        let until = front(tokens).iter().take_while(|token| {
            **token != Token::Mark(end) && !matches!(token, Token::End | Token::Mark('('))
        });
        let names: Vec<&str> = until.filter_map(name_of).collect();
        for name in names {
            self.add(name);
        }
    }

    /// `(a, b) =>`, `a =>`.
    fn parameters_in_front(&mut self, tokens: &[Token]) {
        match tokens.last() {
            Some(Token::Name(name)) => self.add(name),
            Some(Token::Mark(')')) => {
                let within = tokens.get(tokens.len().saturating_sub(HEAD)..).unwrap_or_default();
                let names: Vec<&str> = within
                    .iter()
                    .rev()
                    .skip(1)
                    .take_while(|token| **token != Token::Mark('('))
                    .filter_map(name_of)
                    .collect();
                for name in names {
                    self.add(name);
                }
            }
            _ => {}
        }
    }

    /// `for NAMES in EXPRESSION`, `for my $x (EXPRESSION)`, `foreach (EXPRESSION as $x)`.
    fn items(&mut self, tokens: &[Token], language: &Language) {
        let head = front(tokens).iter();
        let at = head.clone().position(
            |token| matches!(token, Token::Name(word) if matches!(word.as_str(), "in" | "of" | "as")),
        );
        let open = head.clone().position(|token| *token == Token::Mark('('));
        let (names, expression) = match (at, open) {
            (Some(at), _) => {
                let is_behind = tokens.get(at) == Some(&Token::Name("as".to_owned()));
                let (names, behind) = tokens.split_at_checked(at).unwrap_or_default();
                let behind = behind.get(1..).unwrap_or_default();
                let end = behind.iter().position(|token| *token == Token::Mark(')')).unwrap_or(0);
                match is_behind {
                    true => {
                        (behind.get(..end.min(8)).unwrap_or_default(), names.get(1..).unwrap_or_default())
                    }
                    false => (names, behind),
                }
            }
            (None, Some(open)) => {
                let (names, behind) = tokens.split_at_checked(open).unwrap_or_default();
                (names, behind.get(1..).unwrap_or_default())
            }
            (None, None) => return,
        };
        let names: Vec<&str> = names.iter().filter_map(name_of).collect();
        if names.len() < 12 && self.is_within(expression, language) {
            for name in names {
                self.add(name);
            }
        }
    }

    /// Returns whether the expression at the start of the tokens is made of what is written in it, of names that are bound, and
    /// of calls that change nothing and hide nothing.
    pub(super) fn is_within(&self, tokens: &[Token], language: &Language) -> bool {
        let mut depth = 0_usize;
        for (count, token) in tokens.iter().enumerate() {
            if count > LONGEST {
                return false;
            }
            match token {
                Token::End if depth == 0 => return true,
                Token::Mark('(' | '[' | '{') => depth += 1,
                Token::Mark(')' | ']' | '}') => match depth.checked_sub(1) {
                    Some(less) => depth = less,
                    None => return true,
                },
                Token::Mark(':') if depth == 0 => return true,
                Token::Name(word) if depth == 0 && matches!(word.as_str(), "if" | "do" | "as") => {
                    return true;
                }
                // The name by which something is handed over.
                Token::Name(_) if depth > 0 && tokens.get(count + 1) == Some(&Token::Mark('=')) => {}
                Token::Name(name) if !self.is_plain(name, language) => return false,
                Token::Command(_) => return false,
                Token::Text(text) if !text.inner.iter().all(|code| self.has(code.trim())) => return false,
                _ => {}
            }
        }
        true
    }

    fn is_plain(&self, name: &str, language: &Language) -> bool {
        let hides = |does: &Does| {
            matches!(
                does,
                Does::Base64 | Does::Hex | Does::Pack | Does::Decodes | Does::Reads | Does::Imports
            )
        };
        let lower = name.to_ascii_lowercase();
        let does = language.does(&lower);
        let is_harmless = !does.is_empty() && does.iter().all(|does| does.is_harmless() && !hides(does));
        name.starts_with(|c: char| c.is_ascii_digit())
            || WORDS.contains(&name)
            || is_harmless
            || self.has(name)
            || super::values::constant(&lower).is_some()
    }
}

fn front(tokens: &[Token]) -> &[Token] {
    tokens.get(..HEAD).unwrap_or(tokens)
}

/// Words of languages that stand in expressions.
const WORDS: [&str; 22] = [
    "True",
    "False",
    "None",
    "true",
    "false",
    "null",
    "nil",
    "undefined",
    "and",
    "or",
    "not",
    "in",
    "if",
    "else",
    "for",
    "my",
    "const",
    "let",
    "await",
    "new",
    "is",
    "sys",
];

fn name_of(token: &Token) -> Option<&str> {
    match token {
        Token::Name(name) if !WORDS.contains(&name.as_str()) && name != "var" => Some(name),
        _ => None,
    }
}
