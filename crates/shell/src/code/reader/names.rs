//! What names in code mean: aliased functions, variables, constants, keywords.

use super::super::calls::last_of;
use super::super::language::{Does, Language};
use super::super::tokens::Token;
use super::super::values::{self, Value};
use super::Reader;
use crate::Taint;

/// Returns whether code names a module that starts processes.
pub(super) fn names_starters(tokens: &[Token], language: &Language) -> bool {
    let is_one = |text: &str| {
        let text = text.strip_prefix("node:").unwrap_or(text);
        language.processes.iter().any(|module| !module.is_empty() && text == module.as_str())
    };
    // `import os` is no sign of it, and what stands in it is called with it.
    let from =
        |at: usize| at.checked_sub(1).and_then(|at| tokens.get(at)) == Some(&Token::Name("from".to_owned()));
    language.processes.iter().any(String::is_empty)
        || tokens.iter().enumerate().any(|(at, token)| match token {
            Token::Name(name) => {
                (is_one(name) || name.split('.').any(is_one)) && (!name.starts_with("os") || from(at))
            }
            Token::Text(text) => is_one(&text.body),
            _ => false,
        })
}

impl Reader<'_> {
    /// Returns the function that is meant by a name: `const read = Bun.file; read(path)`.
    pub(super) fn meant(&self, name: &str) -> String {
        let of = |name: &str| {
            self.vars.get(name).or_else(|| self.vars.get(name.trim_start_matches(['$', '@', '&'])))
        };
        if let Some(value) = of(name) {
            if let Some(function) = value.function() {
                return function.to_owned();
            }
            if !self.language.does(&value.text.to_ascii_lowercase()).is_empty() {
                return value.text.clone();
            }
        }
        let alias = name.split_once('.').and_then(|(object, rest)| Some((of(object)?.function()?, rest)));
        alias.map_or_else(|| name.to_owned(), |(object, rest)| format!("{object}.{rest}"))
    }

    /// Returns whether a name that starts processes somewhere is meant so here.
    pub(super) fn starts_processes(&self, lower: &str) -> bool {
        let last = last_of(lower);
        let owner = lower.strip_suffix(last).unwrap_or_default().trim_end_matches(['.', ':', '>', '-']);
        match owner {
            "" => self.names_starters,
            owner => self.language.processes.iter().any(|module| {
                !module.is_empty() && owner.rsplit(['.', ':']).any(|part| part == module.as_str())
            }),
        }
    }

    pub(super) fn receiver_of(&self, name: &str) -> Option<Value> {
        let (object, _) = name.rsplit_once('.')?;
        self.vars.get(object).or_else(|| self.vars.get(object.trim_start_matches(['$', '@']))).cloned()
    }

    pub(super) fn lookup(&self, name: &str) -> Value {
        let bare = name.trim_start_matches(['$', '@']);
        if let Some(value) = self.vars.get(name).or_else(|| self.vars.get(bare)) {
            let mut value = value.clone();
            value.bounded |= value.function().is_none() && self.bounded.has(bare);
            return value;
        }
        if let Some((object, member)) = bare.rsplit_once('.')
            && self.does(member).contains(&Does::Climbs)
            && let Some(value) = self.vars.get(object)
        {
            return value.climbed();
        }
        let lower = bare.to_ascii_lowercase();
        if let Some(text) = values::constant(&name.to_ascii_lowercase()) {
            return Value::text(text);
        }
        if lower.ends_with("env.home")
            || lower == "home"
            || lower == "dir.home"
            || lower.ends_with(".homedir")
            || lower.ends_with("env.userprofile")
        {
            return Value::text(self.home);
        }
        if name.contains('.') && !name.starts_with('.')
            || self.does(bare).iter().any(|does| !does.is_harmless())
        {
            let is_own = !values::is_environment(name) && self.bounded.has(name);
            return if is_own && self.does(bare).is_empty() { Value::within() } else { Value::named(name) };
        }
        if self.bounded.has(name) {
            return Value::within();
        }
        if matches!(bare, "chr" | "unichr") {
            return Value { taint: Taint::DECODED, ..Value::hole() };
        }
        if matches!(bare, "true" | "True" | "TRUE" | "shell" | "recursive" | "force") {
            return Value::text(if bare.eq_ignore_ascii_case("true") { "true" } else { bare });
        }
        if matches!(bare, "false" | "False" | "FALSE" | "None" | "nil" | "null") && self.top_key().is_some() {
            return Value::text("false");
        }
        Value::hole()
    }
}

pub(super) fn is_variable(code: &str) -> bool {
    let name = code.trim().trim_start_matches(['$', '@']);
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// `::-1]`, with which Python turns a text around.
pub(super) fn is_reversal(tokens: &[Token]) -> bool {
    matches!(
        tokens,
        [Token::Mark(':'), Token::Mark(':'), Token::Mark('-'), Token::Name(_), Token::Mark(']'), ..]
    )
}

pub(super) fn is_keyword(name: &str) -> bool {
    const KEYWORDS: &[&str] = &[
        "return",
        "if",
        "else",
        "elsif",
        "elif",
        "unless",
        "in",
        "and",
        "or",
        "not",
        "import",
        "from",
        "as",
        "const",
        "let",
        "var",
        "my",
        "our",
        "local",
        "await",
        "async",
        "do",
        "then",
        "while",
        "for",
        "use",
        "BEGIN",
        "END",
        "def",
        "class",
        "end",
        "with",
        "lambda",
        "case",
        "when",
        "require_relative",
        "function",
        "sub",
        "fn",
        "func",
    ];
    KEYWORDS.contains(&name) || name.starts_with(|c: char| c.is_ascii_digit())
}
