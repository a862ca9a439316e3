//! Code that is plain enough that it can't read what is typed after it.
//!
//! Any code may read a line from its own standard input, which would then be the line after it. This
//! module accepts listed words, names that were assigned values, numbers, and strings that end on the line
//! on which they begin.

/// What is plain in a language of values and calls.
pub(super) struct Plain {
    /// Functions that compute or print.
    calls: &'static [&'static str],
    /// Words of the language, and values.
    words: &'static [&'static str],
    /// What may be loaded without anything happening.
    modules: &'static [&'static str],
    /// The words in front of a name that is given a value.
    declares: &'static [&'static str],
    /// What a remark begins with, where lines may have one.
    remark: Option<char>,
}

pub(super) const PYTHON: Plain = Plain {
    calls: &[
        "print",
        "len",
        "range",
        "sum",
        "abs",
        "round",
        "str",
        "int",
        "float",
        "bool",
        "repr",
        "list",
        "tuple",
        "set",
        "dict",
        "enumerate",
        "zip",
        "reversed",
        "divmod",
        "hex",
        "bin",
        "chr",
        "ord",
        "type",
        "isinstance",
    ],
    words: &["and", "or", "not", "in", "is", "if", "elif", "else", "for", "pass", "True", "False", "None"],
    // Others are looked for in the folder first, where anybody may have put a file of that name.
    modules: &["os", "sys", "time"],
    declares: &[],
    remark: Some('#'),
};

pub(super) const NODE: Plain = Plain {
    calls: &["console.log", "Number", "String", "parseInt", "parseFloat", "isNaN"],
    words: &["true", "false", "null", "undefined", "if", "else", "NaN", "Infinity", "const", "let", "var"],
    modules: &[],
    declares: &["const", "let", "var"],
    remark: None,
};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Token<'a> {
    Name(&'a str),
    Value,
    Sign(char),
}

impl Plain {
    /// Returns whether all of the text is plain.
    pub(super) fn holds(&self, text: &str) -> bool {
        let mut variables: Vec<&str> = Vec::new();
        text.split('\n').all(|line| {
            let Some(tokens) = self.tokens(line) else { return false };
            self.imports(&tokens) || self.line_holds(&tokens, &mut variables)
        })
    }

    fn imports(&self, tokens: &[Token<'_>]) -> bool {
        matches!(tokens, [Token::Name("import"), Token::Name(module)] if self.modules.contains(module))
    }

    fn line_holds<'a>(&self, tokens: &[Token<'a>], variables: &mut Vec<&'a str>) -> bool {
        let start =
            usize::from(matches!(tokens.first(), Some(Token::Name(word)) if self.declares.contains(word)));
        let assigned = match (tokens.get(start), tokens.get(start + 1), tokens.get(start + 2)) {
            (Some(Token::Name(name)), Some(Token::Sign('=')), after) if after != Some(&Token::Sign('=')) => {
                Some(*name)
            }
            _ => None,
        };
        let taken = |name: &str| {
            let root = |call: &str| call.split('.').next() == Some(name);
            self.words.contains(&name) || self.calls.iter().any(|call| root(call)) || name.contains('.')
        };
        if assigned.is_some_and(taken) {
            return false;
        }
        variables.extend(assigned.filter(|name| !name.starts_with("__")));
        let looped = matches!(tokens.first(), Some(Token::Name("for"))) && self.words.contains(&"for");
        if looped
            && let Some(Token::Name(name)) = tokens.get(1)
            && !taken(name)
        {
            variables.push(name);
        }
        tokens.iter().enumerate().all(|(at, token)| {
            let called = tokens.get(at + 1) == Some(&Token::Sign('('));
            match token {
                Token::Name(name) if self.calls.contains(name) => called,
                Token::Name(name) if self.words.contains(name) => true,
                Token::Name(name) => variables.contains(name) && !called,
                Token::Value | Token::Sign(')' | ']' | '}') => !called,
                Token::Sign(_) => true,
            }
        })
    }

    /// Returns the tokens of a line; `None` when it holds anything else than plain ones.
    fn tokens<'a>(&self, line: &'a str) -> Option<Vec<Token<'a>>> {
        let mut tokens = Vec::new();
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            if first == ' ' {
                rest = rest.trim_start_matches(' ');
            } else if Some(first) == self.remark {
                break;
            } else if first.is_ascii_alphabetic() || first == '_' {
                let end = rest
                    .find(|c: char| !c.is_ascii_alphanumeric() && !"_.".contains(c))
                    .unwrap_or(rest.len());
                let (name, tail) = rest.split_at_checked(end)?;
                // Prefixes of texts change what is in them.
                if tail.starts_with(['"', '\'']) {
                    return None;
                }
                tokens.push(Token::Name(name));
                rest = tail;
            } else if first.is_ascii_digit() {
                let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
                let (_, tail) = rest.split_at_checked(end)?;
                if tail.starts_with(|c: char| c.is_alphabetic() || c == '_') {
                    return None;
                }
                tokens.push(Token::Value);
                rest = tail;
            } else if matches!(first, '"' | '\'') {
                let (_, behind) = rest.split_at_checked(1)?;
                let (inside, tail) = behind.split_once(first)?;
                if inside.contains('\\') || tail.starts_with(['"', '\'']) {
                    return None;
                }
                tokens.push(Token::Value);
                rest = tail;
            } else if "+-*%()[]{}<>=!,:;".contains(first) {
                tokens.push(Token::Sign(first));
                rest = rest.get(1..)?;
            } else {
                return None;
            }
        }
        Some(tokens)
    }
}

/// Words that statements begin with which a database, and not its client, reads.
const STATEMENTS: &[&str] = &[
    "select", "insert", "update", "delete", "create", "drop", "alter", "truncate", "show", "describe",
    "explain", "begin", "commit", "rollback", "grant", "revoke", "vacuum", "analyze", "pragma",
];

/// Words that clients of databases take for themselves at the beginning of a line.
const CLIENT_WORDS: &[&str] = &[
    "system",
    "source",
    "pager",
    "nopager",
    "edit",
    "ego",
    "go",
    "tee",
    "notee",
    "delimiter",
    "connect",
    "prompt",
    "rehash",
    "charset",
    "status",
    "use",
    "help",
    "print",
    "clear",
    "quit",
    "exit",
    "warnings",
    "nowarning",
    "resetconnection",
    "query_attributes",
    "costs",
];

/// Returns whether the text is statements for a database and nothing that its client reads itself, or goes on to read as
/// data.
pub(super) fn statements(text: &str) -> bool {
    let first = |text: &str| text.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    let quiet = text.split('\n').all(|line| {
        let even = |quote: char| line.matches(quote).count().is_multiple_of(2);
        even('\'')
            && even('"')
            && !CLIENT_WORDS.contains(&first(line).as_str())
            && !line.trim_start().starts_with(['.', '!'])
    });
    let odd = ["\\", "--", "/*", "#", "$", "`"].iter().any(|mark| text.contains(mark));
    let known = |statement: &str| {
        let first = first(statement);
        first.is_empty() || STATEMENTS.contains(&first.as_str())
    };
    // A text with a separator in it is cut here too, and then begins with no known word.
    quiet && !odd && text.split(';').all(known)
}
