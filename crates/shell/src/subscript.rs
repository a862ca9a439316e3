//! Subscripts in names and numbers that builtins are given.
//!
//! A shell that treats a word as the name of a variable, or as a number, expands the subscript in it like any other,
//! even if the word was quoted or came from a variable: `[[ -v 'a[$(cmd)]' ]]`, `read 'a[$(cmd)]'`,
//! `x='a[$(cmd)]'; (( x ))`. The law: *a substitution in a subscript runs, wherever a builtin may look for a name*.

use super::dialect::Dialect;
use super::limits::{self, Over};
use super::walk::Shell;

/// Builtins that take none of their words for a name or a number, or look after that themselves.
const NAMELESS: [&str; 24] = [
    "eval",
    "echo",
    "print",
    "cd",
    "chdir",
    "pushd",
    "popd",
    "source",
    ".",
    "exec",
    "builtin",
    "command",
    "time",
    "!",
    "trap",
    "alias",
    "unalias",
    "set",
    ":",
    "true",
    "false",
    "hash",
    "nocorrect",
    "noglob",
];
/// Operators between numbers.
const COMPARES: [&str; 6] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
impl Shell<'_> {
    /// Runs what is substituted in the subscripts of words that a builtin takes for names.
    pub(super) fn expand_subscripts(&mut self, name: &str, args: &[String]) {
        if NAMELESS.contains(&name) {
            return;
        }
        if name == "printf" && args.first().is_none_or(|arg| arg != "-v") {
            // Only one shell reads numbers as arithmetic.
            let counts =
                args.first().is_some_and(|format| format.contains(['d', 'i', 'u', 'x', 'f', 'e', 'g']));
            if !(counts && args.iter().any(|arg| has_code(arg)) && self.differs(Dialect::Zsh)) {
                return;
            }
        }
        for arg in args {
            self.expand_subscript(arg);
        }
        let compares = args.iter().any(|arg| COMPARES.contains(&arg.as_str()));
        if compares || matches!(name, "exit" | "return" | "shift") {
            for arg in args.iter().filter(|arg| !arg.starts_with('-')) {
                self.expand_value_of(arg);
            }
        }
    }

    /// Runs what is substituted in the subscript of a word.
    pub(super) fn expand_subscript(&mut self, word: &str) {
        if let Some(subscript) = word.find('[').and_then(|at| word.get(at..)).filter(|text| has_code(text)) {
            let subscript = subscript.to_owned();
            self.heredoc(&subscript);
        }
    }

    /// Runs what is substituted in the value of a variable, and of those it names, when it is read as a number.
    pub(super) fn expand_value_of(&mut self, name: &str) {
        let mut names = vec![name.to_owned()];
        let mut at = 0;
        while let Some(name) = names.get(at).cloned() {
            at += 1;
            let Some(value) = self.state.assigned(&name).map(|value| value.scalar().to_owned()) else {
                continue;
            };
            if value.bytes().all(|byte| byte.is_ascii_digit()) {
                continue;
            }
            self.expand_subscript(&value);
            for inner in value.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
                let known = names.iter().any(|name| name == inner);
                if !known && self.state.assigned(inner).is_some() {
                    if names.len() >= limits::NAMES.most {
                        self.trace.note(Over::of(&limits::NAMES));
                        return;
                    }
                    names.push(inner.to_owned());
                }
            }
        }
    }
}

/// Returns whether a command is substituted in a text.
fn has_code(text: &str) -> bool {
    text.contains("$(") || text.contains('`')
}
