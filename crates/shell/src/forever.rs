//! What runs for ever: loops that nothing ends, data without an end, and code that runs itself.
//!
//! The law: *a loop is called endless only if none of its conditions can change*. Conditions are read as they are
//! written, because a value that is known here may be different where the command runs.

use std::hash::{DefaultHasher, Hash, Hasher};

use brush_parser::ast;

use super::trace::Fact;
use super::walk::Shell;

/// How often a text may run itself and still be followed.
const MOST_RECURSIONS: usize = 3;

/// Code that is being read.
pub(crate) struct Running {
    text: u64,
    forks: usize,
    /// It runs beside itself.
    beside: bool,
}

impl Shell<'_> {
    /// Begins to run a text; false where it runs itself beside itself, and has been followed far enough.
    pub(crate) fn begin_text(&mut self, text: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let text = hasher.finish();
        let same = || self.running.iter().filter(|running| running.text == text);
        let beside = same().any(|running| self.forks > running.forks);
        let often = same().count() >= MOST_RECURSIONS;
        if beside {
            self.trace.facts.push(Fact::ForkBomb);
        }
        let known = beside || same().any(|running| running.beside);
        self.running.push(Running { text, forks: self.forks, beside });
        !(known && often)
    }

    pub(crate) fn end_text(&mut self) {
        self.running.pop();
    }
}

/// Returns whether a condition always ends with this status: it is one command, and every word of it is written out.
pub(crate) fn always(condition: &ast::CompoundList, status: bool) -> bool {
    let Some(ast::CompoundListItem(and_or, _)) = condition.0.last() else { return false };
    let [command] = and_or.first.seq.as_slice() else { return false };
    let known = match command {
        ast::Command::Simple(simple) => words(simple).and_then(|words| of_words(&words)),
        ast::Command::ExtendedTest(test, _) => of_test(&test.expr),
        _ => None,
    };
    and_or.additional.is_empty() && known == Some(status != and_or.first.bang)
}

/// Returns whether a condition is one command that takes nothing in, and every word of it is written out.
pub(crate) fn is_written_out(condition: &ast::CompoundList) -> bool {
    const READERS: [&str; 4] = ["read", "mapfile", "readarray", "getopts"];
    let [ast::CompoundListItem(and_or, _)] = condition.0.as_slice() else { return false };
    let [command] = and_or.first.seq.as_slice() else { return false };
    and_or.additional.is_empty()
        && match command {
            ast::Command::Simple(simple) => {
                words(simple).is_some_and(|words| words.iter().all(|word| !READERS.contains(&word.as_str())))
            }
            ast::Command::ExtendedTest(test, _) => is_plain_test(&test.expr),
            _ => false,
        }
}

fn is_plain_test(expr: &ast::ExtendedTestExpr) -> bool {
    use ast::ExtendedTestExpr as T;
    match expr {
        T::Not(inner) | T::Parenthesized(inner) => is_plain_test(inner),
        T::And(left, right) | T::Or(left, right) => is_plain_test(left) && is_plain_test(right),
        T::UnaryTest(_, word) => literal(&word.value).is_some(),
        T::BinaryTest(_, left, right) => literal(&left.value).is_some() && literal(&right.value).is_some(),
    }
}

/// Returns whether nothing follows a round of the loop: it ends itself, and no command in front of that begins another
/// round.
pub(crate) fn ends_itself(body: &ast::CompoundList) -> bool {
    const ENDS: [&str; 3] = ["break", "exit", "return"];
    for ast::CompoundListItem(and_or, separator) in &body.0 {
        let [ast::Command::Simple(simple)] = and_or.first.seq.as_slice() else { return false };
        let Some(name) = simple.word_or_name.as_ref().map(|word| word.value.as_str()) else { continue };
        let is_alone = and_or.additional.is_empty() && matches!(separator, ast::SeparatorOperator::Sequence);
        if is_alone && ENDS.contains(&name) && words(simple).is_some_and(|words| words.len() == 1) {
            return true;
        }
        // What could be `continue` by another name.
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        if !is_plain || matches!(name, "continue" | "eval" | "source" | "." | "builtin" | "command" | "trap")
        {
            return false;
        }
    }
    false
}

/// Returns the words of a command where all are written out.
fn words(simple: &ast::SimpleCommand) -> Option<Vec<String>> {
    let first = literal(&simple.word_or_name.as_ref()?.value)?;
    let suffix = simple.suffix.iter().flat_map(|suffix| &suffix.0);
    let rest = suffix.filter_map(|item| match item {
        ast::CommandPrefixOrSuffixItem::Word(word) => Some(literal(&word.value)),
        ast::CommandPrefixOrSuffixItem::IoRedirect(_) => None,
        _ => Some(None),
    });
    std::iter::once(Some(first)).chain(rest).collect()
}

/// A word that stands for itself, without its quotes.
fn literal(word: &str) -> Option<String> {
    let plain = !word.contains(['$', '`', '\\', '*', '?', '~', '{']);
    plain.then(|| word.replace(['\'', '"'], ""))
}

fn of_words(words: &[String]) -> Option<bool> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["true" | ":" | "echo" | "printf" | "date" | "pwd" | "whoami" | "id" | "uptime" | "hostname", ..] => {
            Some(true)
        }
        ["false", ..] => Some(false),
        ["let", number] => number.parse::<i64>().ok().map(|number| number != 0),
        ["[", args @ .., "]"] | ["test", args @ ..] => of_args(args),
        _ => None,
    }
}

fn of_args(args: &[&str]) -> Option<bool> {
    match args {
        [] => Some(false),
        ["!", rest @ ..] if !rest.is_empty() => of_args(rest).map(|status| !status),
        [text] | ["-n", text] => Some(!text.is_empty()),
        ["-z", text] => Some(text.is_empty()),
        [left, "=" | "==", right] => Some(left == right),
        [left, "!=", right] => Some(left != right),
        [left, operator, right] => {
            let (left, right) = (left.parse::<i64>().ok()?, right.parse::<i64>().ok()?);
            match *operator {
                "-eq" => Some(left == right),
                "-ne" => Some(left != right),
                "-lt" => Some(left < right),
                "-le" => Some(left <= right),
                "-gt" => Some(left > right),
                "-ge" => Some(left >= right),
                _ => None,
            }
        }
        _ => None,
    }
}

fn of_test(expr: &ast::ExtendedTestExpr) -> Option<bool> {
    use ast::ExtendedTestExpr as T;
    match expr {
        T::Not(inner) => of_test(inner).map(|status| !status),
        T::Parenthesized(inner) => of_test(inner),
        T::And(left, right) => Some(of_test(left)? && of_test(right)?),
        T::Or(left, right) => Some(of_test(left)? || of_test(right)?),
        T::UnaryTest(operator, word) => of_args(&[&operator.to_string(), &literal(&word.value)?]),
        T::BinaryTest(operator, left, right) => {
            of_args(&[&literal(&left.value)?, &operator.to_string(), &literal(&right.value)?])
        }
    }
}
