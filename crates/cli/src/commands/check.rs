//! `backstop check`: judges calls without running them.
//!
//! Lines from stdin are judged one after the other, and answers come in the same order. A line that can't be
//! understood gets an error object in its place, so that line numbers in and out agree, and the exit code
//! says at the end that not everything was judged. A program that writes a line and waits gets its answer:
//! output is held back only while more input is there already.

use std::io::{self, BufRead, Read as _, Write as _};

use backstop::Backstop;
use backstop::hooks::points::ToolCallEvent;
use backstop::hooks::{CallContext, Params, ToolName};
use serde::{Deserialize, Serialize};

use super::verdict::{Verdict, Word};
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Style, plain};
use crate::session::Surroundings;

/// The longest line that is judged.
const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;

/// What is to be judged.
#[derive(Debug)]
pub(crate) enum Settings {
    /// One call.
    Call(Call),
    /// Lines from stdin.
    Lines,
}

/// A call that nobody is going to run.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) tool: ToolName,
    pub(crate) args: Params,
}

impl Call {
    pub(super) fn event(self) -> ToolCallEvent {
        ToolCallEvent {
            tool_name: self.tool,
            params: self.args,
            tool_kind: None,
            tool_input_kind: None,
            derived_paths: None,
            run_id: None,
            tool_call_id: None,
        }
    }
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let backstop = surroundings.judge().await?;
    let call = surroundings.call_context(backstop.config())?;
    let done = match settings {
        Settings::Call(one) => {
            let verdict = judge(&backstop, one, &call).await;
            print(&verdict, surroundings)?;
            Ok(Exit::Success)
        }
        Settings::Lines => lines(&backstop, &call).await,
    };
    backstop.shut_down().await;
    done
}

async fn judge(backstop: &Backstop, one: Call, call: &CallContext) -> Verdict {
    Verdict::of(&backstop.engine().review_tool_call(one.event(), call, false).await)
}

fn print(verdict: &Verdict, surroundings: &Surroundings) -> io::Result<()> {
    let output = &surroundings.output;
    if output.is_json() {
        return output.json_line(verdict);
    }
    let style = match verdict.decision {
        Word::Allow => Style::Good,
        Word::Ask | Word::Modify => Style::Notice,
        Word::Block => Style::Bad,
    };
    let mut text = output.paint().with(style, verdict.decision.as_str());
    if let Some(hook) = &verdict.hook {
        text.push_str(&format!(" by {hook}"));
    }
    if let Some(reason) = &verdict.reason {
        text.push_str(&format!(": {}", plain(reason)));
    }
    if let (Word::Modify, Some(params)) = (verdict.decision, &verdict.params) {
        text.push_str(&format!("\nparams: {}", plain(&params.to_value().to_string())));
    }
    output.text(&text)
}

/// A line of input. Anything else in it is a mistake: a call that was half understood is not judged.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    tool: String,
    args: Params,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Judged(Verdict),
    NotJudged { error: String, line: u64 },
}

async fn lines(backstop: &Backstop, call: &CallContext) -> Result<Exit, Error> {
    let mut input = io::BufReader::with_capacity(64 * 1024, io::stdin());
    let mut output = io::BufWriter::new(io::stdout());
    let (mut line, mut number, mut exit) = (Vec::new(), 0_u64, Exit::Success);
    while let Some(read) = read_line(&mut input, &mut line)? {
        number += 1;
        let answer = match understand(read, &line) {
            Ok(None) => continue,
            Ok(Some(one)) => Answer::Judged(judge(backstop, one, call).await),
            Err(error) => {
                exit = Exit::Incomplete;
                Answer::NotJudged { error, line: number }
            }
        };
        serde_json::to_writer(&mut output, &answer).map_err(io::Error::from)?;
        output.write_all(b"\n")?;
        if !input.buffer().contains(&b'\n') {
            output.flush()?;
        }
    }
    output.flush()?;
    Ok(exit)
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

/// The call in a line; `None` for an empty line, which asks nothing.
fn understand(read: Read, line: &[u8]) -> Result<Option<Call>, String> {
    if read == Read::TooLong {
        return Err(format!("the line is longer than {MAX_LINE_BYTES} bytes"));
    }
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let Line { tool, args } = serde_json::from_slice(line).map_err(|error| {
        format!("the line is not {{\"tool\": ..., \"args\": {{...}}}}: {}", complaint(&error))
    })?;
    if tool.trim().is_empty() {
        return Err("`tool` is empty".to_owned());
    }
    Ok(Some(Call { tool: ToolName::new(&tool), args }))
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
    fn what_is_not_a_call_is_refused() {
        for wrong in [
            r#"{"tool": "exec"}"#,
            r#"{"tool": "exec", "args": "ls"}"#,
            r#"{"tool": "exec", "args": {}, "extra": 1}"#,
            r#"{"tool": " ", "args": {}}"#,
            r#"["exec"]"#,
            "nonsense",
        ] {
            assert!(understand(Read::Whole, wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(understand(Read::Whole, b"\xff\xfe").is_err());
        assert!(understand(Read::Whole, b"  \r").is_ok_and(|call| call.is_none()));
    }
}
