//! Lines of JSON from stdin, answered one by one.
//!
//! Answers come in the order of the lines. A line that can't be understood gets an error object in its place,
//! so that line numbers in and out agree, and the exit code says at the end that not everything was
//! answered. A program that writes a line and waits gets its answer: output is held back only while more
//! input is there already.

use std::io::{self, BufRead, Read as _, Write as _};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest line that is read.
pub(super) const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;

/// A question, or why a line holds none.
pub(super) type Question<T> = Result<T, String>;

/// What stands in the place of an answer.
#[derive(Serialize)]
pub(super) struct NotAnswered {
    pub(super) error: String,
    pub(super) line: u64,
}

/// Lines of stdin, and stdout for their answers.
pub(super) struct Conversation {
    input: io::BufReader<io::Stdin>,
    output: io::BufWriter<io::Stdout>,
    line: Vec<u8>,
    number: u64,
}

impl Conversation {
    pub(super) fn new() -> Self {
        Self {
            input: io::BufReader::with_capacity(64 * 1024, io::stdin()),
            output: io::BufWriter::new(io::stdout()),
            line: Vec::new(),
            number: 0,
        }
    }

    /// The number of the line that was read last, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The next line as a `T`, which is written `form`; `None` at the end. Empty lines ask nothing.
    pub(super) fn next<T: DeserializeOwned>(&mut self, form: &str) -> io::Result<Option<Question<T>>> {
        while let Some(read) = read_line(&mut self.input, &mut self.line)? {
            self.number += 1;
            if let Some(question) = understand(read, &self.line, form).transpose() {
                return Ok(Some(question));
            }
        }
        self.output.flush()?;
        Ok(None)
    }

    /// Writes the answer to the line that was read last.
    pub(super) fn answer(&mut self, answer: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.output, answer).map_err(io::Error::from)?;
        self.output.write_all(b"\n")?;
        if !self.input.buffer().contains(&b'\n') {
            self.output.flush()?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    Whole,
    TooLong,
}

/// Reads the next line into `line`; `None` at the end. Of a line that is too long the rest is skipped.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<Read>> {
    line.clear();
    let limit = MAX_LINE_BYTES as u64 + 1;
    let length = input.by_ref().take(limit).read_until(b'\n', line)?;
    if length == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > MAX_LINE_BYTES {
        skip_line(input)?;
        return Ok(Some(Read::TooLong));
    }
    Ok(Some(Read::Whole))
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        match buffer.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                input.consume(end + 1);
                return Ok(());
            }
            None => {
                let all = buffer.len();
                input.consume(all);
            }
        }
    }
}

/// The question in a line; `None` for an empty line.
fn understand<T: DeserializeOwned>(read: Read, line: &[u8], form: &str) -> Result<Option<T>, String> {
    if read == Read::TooLong {
        return Err(format!("the line is longer than {MAX_LINE_BYTES} bytes"));
    }
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    // Without this a list would be taken for an object with its fields in order.
    if !line.trim_ascii_start().starts_with(b"{") {
        return Err(format!("the line is not {form}: it is no object"));
    }
    serde_json::from_slice(line)
        .map(Some)
        .map_err(|error| format!("the line is not {form}: {}", complaint(&error)))
}

/// The error with the column only: its line is always the first.
fn complaint(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.split_once(" at line 1 column ") {
        Some((what, column)) => format!("{what} at column {column}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_one_is_read() {
        let mut text = vec![b'x'; MAX_LINE_BYTES + 10];
        text.extend(b"\nnext\nlast");
        let mut input = io::BufReader::with_capacity(16, text.as_slice());
        let mut line = Vec::new();
        assert_eq!(read_line(&mut input, &mut line).unwrap(), Some(Read::TooLong));
        assert_eq!(read_line(&mut input, &mut line).unwrap(), Some(Read::Whole));
        assert_eq!(line, b"next");
        assert_eq!(read_line(&mut input, &mut line).unwrap(), Some(Read::Whole));
        assert_eq!(line, b"last");
        assert_eq!(read_line(&mut input, &mut line).unwrap(), None);
    }

    #[test]
    fn a_line_of_exactly_the_limit_is_whole() {
        let mut text = vec![b'x'; MAX_LINE_BYTES];
        text.push(b'\n');
        let mut line = Vec::new();
        assert_eq!(read_line(&mut text.as_slice(), &mut line).unwrap(), Some(Read::Whole));
        assert_eq!(line.len(), MAX_LINE_BYTES);
    }

    #[test]
    fn an_empty_line_asks_nothing_and_what_is_no_text_is_refused() {
        assert_eq!(understand::<Value>(Read::Whole, b"  \r", "JSON"), Ok(None));
        for wrong in [&b"\xff\xfe"[..], b"{\"\xff\": 1}", b"[1]", b"{", b"1"] {
            let error = understand::<Value>(Read::Whole, wrong, "JSON").unwrap_err();
            assert!(error.starts_with("the line is not JSON: "), "{error}");
            assert!(!error.contains(" at line "), "{error}");
        }
    }
}
