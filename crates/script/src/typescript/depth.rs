//! How deep a source is nested, before a recursive parser sees it.
//!
//! The bound is on what could become levels of recursion: for each open bracket, the words and signs since the last
//! thing that ends a statement or an element. That is more than what is nested, and far more than people write. Where
//! the scan can't tell code from a literal for sure, the source is refused: guessing would let nested code hide.

use super::Problem;

/// Words and signs that may stand inside of each other.
pub(super) const MOST_DEPTH: usize = 10_000;

#[derive(Clone, Copy, PartialEq)]
enum Last {
    /// A value has ended: a slash divides.
    Value,
    /// A bracket was closed: a slash most likely divides.
    Closed,
    /// An operator, or a word that wants a value: a slash begins a regular expression.
    Operator,
}

struct Level {
    bracket: u8,
    /// Words and signs since the last end of a statement or an element.
    run: usize,
    /// Those that stay nested until the bracket is closed.
    kept: usize,
    /// A `<` since then: what a comma ends is not clear.
    angle: bool,
}

struct Scan<'s> {
    bytes: &'s [u8],
    at: usize,
    levels: Vec<Level>,
    total: usize,
    last: Last,
}

/// Refuses a source that is nested too deep.
pub(super) fn check(source: &str) -> Result<(), Problem> {
    let mut scan =
        Scan { bytes: source.as_bytes(), at: 0, levels: Vec::new(), total: 0, last: Last::Operator };
    scan.levels.push(Level { bracket: 0, run: 0, kept: 0, angle: false });
    scan.run()
}

impl Scan<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn count(&mut self) -> Result<(), Problem> {
        self.total += 1;
        if let Some(level) = self.levels.last_mut() {
            level.run += 1;
        }
        if self.total > MOST_DEPTH {
            return Err(Problem::new(
                self.at,
                format!(
                    "more than {MOST_DEPTH} words and signs inside of each other; split it, or ship it as JavaScript"
                ),
            ));
        }
        Ok(())
    }

    fn reset(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            self.total -= level.run;
            level.run = 0;
            level.angle = false;
        }
    }

    fn run(&mut self) -> Result<(), Problem> {
        while self.at < self.bytes.len() {
            let byte = self.peek(0);
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                b'"' | b'\'' => self.string(byte),
                b'`' => {
                    self.at += 1;
                    self.count()?;
                    self.template()?;
                }
                b'/' => self.slash()?,
                b'(' | b'[' | b'{' => self.open(byte)?,
                b')' | b']' | b'}' => self.close(byte)?,
                b';' => {
                    self.reset();
                    self.last = Last::Operator;
                    self.at += 1;
                }
                b',' => {
                    if self.levels.last().is_some_and(|level| !level.angle) {
                        self.reset();
                    }
                    self.last = Last::Operator;
                    self.at += 1;
                }
                _ if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80 => {
                    self.word()?;
                }
                _ => {
                    if byte == b'<'
                        && let Some(level) = self.levels.last_mut()
                    {
                        level.angle = true;
                    }
                    self.count()?;
                    self.last = if byte == b'>' { Last::Closed } else { Last::Operator };
                    self.at += 1;
                }
            }
        }
        Ok(())
    }

    fn word(&mut self) -> Result<(), Problem> {
        const WANTS_VALUE: &[&[u8]] = &[
            b"return",
            b"typeof",
            b"case",
            b"in",
            b"of",
            b"delete",
            b"void",
            b"throw",
            b"new",
            b"else",
            b"do",
            b"await",
            b"yield",
            b"instanceof",
        ];
        let start = self.at;
        while self.at < self.bytes.len() {
            let byte = self.peek(0);
            if !(byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80) {
                break;
            }
            self.at += 1;
        }
        let word = self.bytes.get(start..self.at).unwrap_or_default();
        if word == b"else" {
            // What follows is nested in what stands before, whatever ends a statement in between.
            if let Some(level) = self.levels.last_mut() {
                level.kept += 1;
            }
            self.total += 1;
        } else if self.begins_statement(start, word) {
            self.reset();
        }
        self.last = if WANTS_VALUE.contains(&word) { Last::Operator } else { Last::Value };
        self.count()
    }

    /// Words that stand nowhere but at the beginning of a statement, so that sources without semicolons have ends.
    fn begins_statement(&self, start: usize, word: &[u8]) -> bool {
        let starts_line = self
            .bytes
            .get(..start)
            .unwrap_or_default()
            .iter()
            .rev()
            .find(|byte| !matches!(byte, b' ' | b'\t'))
            .is_none_or(|byte| *byte == b'\n');
        let next = self.bytes.get(self.at..).unwrap_or_default().trim_ascii_start().first().copied();
        starts_line
            && match word {
                b"const" | b"let" | b"var" | b"export" => true,
                b"import" => !matches!(next, Some(b'(' | b'.')),
                _ => false,
            }
    }

    fn string(&mut self, quote: u8) {
        self.at += 1;
        while self.at < self.bytes.len() {
            match self.peek(0) {
                b'\\' => self.at += 2,
                b'\n' => break,
                byte if byte == quote => {
                    self.at += 1;
                    break;
                }
                _ => self.at += 1,
            }
        }
        self.last = Last::Value;
    }

    /// The text of a template, up to its end or to code inside of it.
    fn template(&mut self) -> Result<(), Problem> {
        while self.at < self.bytes.len() {
            match self.peek(0) {
                b'\\' => self.at += 2,
                b'`' => {
                    self.at += 1;
                    self.last = Last::Value;
                    return Ok(());
                }
                b'$' if self.peek(1) == b'{' => {
                    self.at += 1;
                    self.open(b'$')?;
                    return Ok(());
                }
                _ => self.at += 1,
            }
        }
        Ok(())
    }

    fn slash(&mut self) -> Result<(), Problem> {
        if self.peek(1) == b'/' {
            while self.at < self.bytes.len() && self.peek(0) != b'\n' {
                self.at += 1;
            }
            return Ok(());
        }
        if self.peek(1) == b'*' {
            self.at += 2;
            while self.at < self.bytes.len() && !(self.peek(0) == b'*' && self.peek(1) == b'/') {
                self.at += 1;
            }
            self.at += 2;
            return Ok(());
        }
        if self.last == Last::Value {
            self.at += 1;
            self.last = Last::Operator;
            return self.count();
        }
        let Some(end) = self.regex_end() else {
            self.at += 1;
            self.last = Last::Operator;
            return self.count();
        };
        let inside = self.bytes.get(self.at + 1..end).unwrap_or_default();
        if self.last == Last::Closed {
            // Division or expression: it makes no difference unless a quote stands in it.
            if inside.iter().any(|byte| matches!(byte, b'"' | b'\'' | b'`')) {
                return Err(Problem::new(
                    self.at,
                    "a slash behind a bracket, with a quote before the next slash, can't be told from a regular expression here; put a part of it into a variable",
                ));
            }
            self.at += 1;
            self.last = Last::Operator;
            return self.count();
        }
        self.at = end + 1;
        self.last = Last::Value;
        self.count()
    }

    /// Where a regular expression that begins here would end, on this line.
    fn regex_end(&self) -> Option<usize> {
        let mut at = self.at + 1;
        let mut in_class = false;
        while let Some(byte) = self.bytes.get(at) {
            match byte {
                b'\n' => return None,
                b'\\' => at += 1,
                b'[' => in_class = true,
                b']' => in_class = false,
                b'/' if !in_class => return Some(at),
                _ => {}
            }
            at += 1;
        }
        None
    }

    fn open(&mut self, bracket: u8) -> Result<(), Problem> {
        self.count()?;
        self.levels.push(Level { bracket, run: 0, kept: 0, angle: false });
        self.last = Last::Operator;
        self.at += 1;
        Ok(())
    }

    fn close(&mut self, bracket: u8) -> Result<(), Problem> {
        self.at += 1;
        self.last = Last::Closed;
        let opened = self.levels.last().map(|level| level.bracket);
        if opened == Some(0) || opened.is_none() {
            // One too many: the parser says so.
            return Ok(());
        }
        self.reset();
        if let Some(level) = self.levels.pop() {
            self.total -= level.kept;
        }
        if opened == Some(b'$') {
            return self.template();
        }
        // A block ends a statement, unless a sign or one of these words makes it go on.
        const GOES_ON: &[&[u8]] =
            &[b"as", b"satisfies", b"instanceof", b"in", b"of", b"is", b"extends", b"implements", b"else"];
        if bracket == b'}' {
            let rest = self.bytes.get(self.at..).unwrap_or_default().trim_ascii_start();
            let word = rest.split(|byte| !byte.is_ascii_alphanumeric()).next().unwrap_or_default();
            if rest.first() == Some(&b'}') || !word.is_empty() && !GOES_ON.contains(&word) {
                self.reset();
            }
        }
        Ok(())
    }
}
