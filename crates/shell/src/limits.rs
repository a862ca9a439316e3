//! How much of a command is followed, and what happens when there is more.
//!
//! The law: *nothing is dropped silently*. Whatever exceeds a limit leaves an unknown that may carry code. It
//! is therefore asked about where unknown carriers are, and in every profile as a command that is too large to be read. Two
//! types enforce that: [`Bounded`] returns its content only to callers that report what it had to leave out, and [`Over`]
//! is the proof that something was left out, which must be passed on.
//!
//! Each limit bounds memory and time and is wide enough for what people write; steps bound the work as a whole.

use super::trace::{Trace, UnknownKind};

/// A bound, and what there is too much of when it is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) most: usize,
    what: &'static str,
}

const fn limit(most: usize, what: &'static str) -> Limit {
    Limit { most, what }
}

/// Commands looked at, repeats included: a loop over a thousand words with three commands in it.
pub(crate) const STEPS: usize = 16 * 1024;
/// Steps that are kept for the statements behind those which used up all others.
pub(crate) const SPARE_STEPS: usize = 1024;
/// Steps of these that one statement gets at a time.
pub(crate) const STEPS_AT_A_TIME: usize = 16;
/// Processes that one command is reported to start. Each is held against the rules.
pub(crate) static PROCESSES: Limit = limit(4096, "processes are started");
/// Facts of one command. A command of the longest length that is read names fewer files than this.
pub(crate) static FACTS: Limit = limit(64 * 1024, "files are touched");
/// Rounds of a loop over known words. The words beyond are walked together, as one that is not known.
pub(crate) static ROUNDS: Limit = limit(4096, "words are looped over");
/// Items that `xargs -I` and `parallel` are followed for one by one.
pub(crate) static ITEMS: Limit = limit(1024, "items are handed to another command");
/// Words of a wrapper that are taken for the beginning of a command though nobody knows such a program.
pub(crate) static UNKNOWN_STARTS: Limit = limit(16, "words could be the program that a wrapper starts");
/// Words that `xargs` adds to one command.
pub(crate) static WORDS: Limit = limit(8192, "words are handed to another command");
/// Words that one word may become.
pub(crate) static FIELDS: Limit = limit(4096, "words come out of one");
/// Words of those that go on where one word becomes too many.
pub(crate) static FIRST_FIELDS: Limit = limit(64, "words come out of too many braces");
/// Bytes of long words and lists that expansions come to, one after another. Short ones are never too much.
pub(crate) static MATERIAL: Limit = limit(4 * 1024 * 1024, "bytes come out of expansions");
/// What comes out of a word is long from so many bytes on.
pub(crate) const LONG_MATERIAL: usize = 1024;
/// Bytes of a path in its normal form. No system takes one nearly as long; what is written may be longer, since shells and
/// languages resolve a path before the system sees it.
pub(crate) static PATH: Limit = limit(128 * 1024, "bytes are in a path");
/// Bytes that one word, or the words of its braces together, may become.
pub(crate) static FIELD_BYTES: Limit = limit(256 * 1024, "bytes come out of one word");
/// Variables whose values are looked into for one number.
pub(crate) static NAMES: Limit = limit(256, "variables are in one number");
/// Variables of a makefile that stand in one another, and bytes that come of them.
pub(crate) static FILLINGS: Limit =
    limit(64, "variables of a makefile are in one another, or come to too much");
/// Bytes that are kept of what the programs of one command read.
pub(crate) static INPUTS: Limit = limit(8 * 1024 * 1024, "bytes are read by programs");
/// Lines that `mapfile` keeps.
pub(crate) static LINES: Limit = limit(4096, "lines are read into one variable");
/// Statements for the client of a database. Each is judged as a call of it.
pub(crate) static STATEMENTS: Limit = limit(2048, "statements are sent to a database");
/// Files whose content is remembered.
pub(crate) static FILES: Limit = limit(4096, "files are written");
/// Symbolic links that are remembered.
pub(crate) static LINKS: Limit = limit(1024, "links are made");
/// Folders that are remembered to have come from the network.
pub(crate) static FETCHED: Limit = limit(1024, "folders are fetched");
/// Tokens of code of another language. A text of the longest length that is kept has fewer.
pub(crate) static TOKENS: Limit = limit(64 * 1024, "words are in inline code");
/// Calls inside calls in such code, and values of one call.
pub(crate) static CALLS: Limit = limit(64, "values or calls are in one call of inline code");
/// Bytes of the values that such code copies: a text that is doubled in each line is none to be followed.
pub(crate) static COPIES: Limit = limit(4 * 1024 * 1024, "bytes are copied in inline code");
/// Different statements of a long text, and pieces that text is cut into which can't be parsed.
pub(crate) static PIECES: Limit = limit(2048, "different statements are in one text");
/// How many of those are followed where there are more than that: some of each kind.
pub(crate) const FEW_PIECES: usize = 1024;
/// Bytes of shell code that are parsed in one analysis, here-documents not counted.
pub(crate) static CODE: Limit = limit(192 * 1024, "bytes of shell code are in one command");
/// Bytes of code that are parsed piece by piece where the whole can't be. Of the pieces behind them the words are read.
pub(crate) const RECOVERED: usize = 128 * 1024;
/// Words of a text that can't be parsed, behind its first ones.
pub(crate) static ROUGH_WORDS: Limit = limit(2048, "words are in a text that can't be read");
/// Files that the arguments of one command name, each counted once. Those that lie highest come first.
pub(crate) static TOUCHES: Limit = limit(4096, "files are named in one command");
/// Bytes of text that are carried from one program to the next.
pub(crate) static TEXT: Limit = limit(super::data::MAX_TEXT, "bytes are sent to a program");

/// That something was left out, if it was.
#[must_use = "what was left out has to be reported"]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Over(Option<&'static Limit>);

impl Over {
    /// Nothing was left out.
    pub(crate) const NOTHING: Self = Self(None);

    /// Returns what was left out by either.
    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0.or(other.0))
    }

    /// Something beyond the limit was.
    pub(crate) fn of(limit: &'static Limit) -> Self {
        Self(Some(limit))
    }
}

/// A list that knows when it has left something out.
#[derive(Debug)]
pub(crate) struct Bounded<T> {
    items: Vec<T>,
    limit: &'static Limit,
    over: bool,
}

impl<T> Bounded<T> {
    pub(crate) fn new(limit: &'static Limit) -> Self {
        Self { items: Vec::new(), limit, over: false }
    }

    /// As many of the items as the limit lets in.
    pub(crate) fn of(limit: &'static Limit, items: impl IntoIterator<Item = T>) -> Self {
        let mut items = items.into_iter();
        let kept: Vec<T> = items.by_ref().take(limit.most).collect();
        Self { items: kept, limit, over: items.next().is_some() }
    }

    pub(crate) fn push(&mut self, item: T) {
        if self.items.len() < self.limit.most {
            self.items.push(item);
        } else {
            self.over = true;
        }
    }

    /// Returns the items, to be had together with the word on what is missing.
    pub(crate) fn into_parts(self) -> (Vec<T>, Over) {
        (self.items, if self.over { Over::of(self.limit) } else { Over::NOTHING })
    }

    /// Returns the items; what is missing is reported.
    pub(crate) fn reported(self, trace: &mut Trace) -> Vec<T> {
        let (items, over) = self.into_parts();
        trace.note(over);
        items
    }
}

impl Trace {
    /// Reports what was left out.
    pub(crate) fn note(&mut self, over: Over) {
        if let Some(limit) = over.0 {
            let reason = format!("more than {} {}, and the rest is not followed", limit.most, limit.what);
            self.unknown(UnknownKind::Limit, reason, true);
        }
    }
}
