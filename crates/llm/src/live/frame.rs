//! Frames of a stream as text: where their data stands, and the frame with other data.
//!
//! A frame is an event of a stream of events, or an element of an array with what stands before it.
//!
//! Lines that readers take differently are refused. A line that is none of the format's fields is skipped by most, but
//! some look for `data:` behind white space, or take bare JSON. And some readers end lines where the format
//! does not, at any character that Unicode counts as an end of line: for them, an event may begin in the middle of a
//! comment or of a text.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use crate::error::{WireError, out_of_order};
use crate::json_array::ArrayFrame;
use crate::sse::RawFrame;

/// The bytes of one frame, not read yet.
#[derive(Debug)]
pub(crate) struct Frame {
    /// The bytes as they came.
    pub(crate) bytes: Bytes,
    form: Form,
}

/// What a frame is, and where that begins in its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Event(usize),
    Element(usize),
    /// A bracket of an array, or white space behind it.
    Bracket,
}

impl From<RawFrame> for Frame {
    fn from(frame: RawFrame) -> Self {
        Self { form: Form::Event(frame.start()), bytes: frame.bytes }
    }
}

impl From<ArrayFrame> for Frame {
    fn from(frame: ArrayFrame) -> Self {
        let form = match frame.element {
            Some(element) => Form::Element(frame.raw.len().saturating_sub(element.len())),
            None => Form::Bracket,
        };
        Self { form, bytes: frame.raw }
    }
}

impl Frame {
    /// Whether it is a bracket of an array, or white space behind it.
    pub(crate) fn is_bracket(&self) -> bool {
        self.form == Form::Bracket
    }
}

/// A frame, read.
pub(crate) struct FrameLines<'a> {
    /// The whole frame.
    text: &'a str,
    /// The event's name.
    pub(crate) name: Option<&'a str>,
    /// What it says besides its data: the name, the id, how long to wait, and comments.
    pub(crate) beside: Vec<&'a str>,
    /// The data lines, joined by line feeds; `None` if there are none (a comment).
    pub(crate) data: Option<Cow<'a, str>>,
    /// Where the data stands in the frame, if it stands in one place.
    pub(crate) place: Option<Range<usize>>,
    form: Form,
}

impl<'a> FrameLines<'a> {
    /// Reads a frame.
    ///
    /// # Errors
    /// If it is not UTF-8, or has lines that are no fields or that may be several: readers differ in what they make
    /// of that. If the name or the id of an event says more than a word, which nobody would judge.
    pub(crate) fn read(frame: &'a Frame) -> Result<Self, WireError> {
        let text = std::str::from_utf8(&frame.bytes).map_err(|error| WireError::NotJson {
            what: "stream event",
            reason: format!("byte {} is not UTF-8", error.valid_up_to()),
        })?;
        let beside = Vec::new();
        let mut lines = Self { text, name: None, beside, data: None, place: None, form: frame.form };
        let start = match frame.form {
            Form::Event(start) => start,
            Form::Element(start) => {
                lines.data = text.get(start..).map(Cow::Borrowed);
                lines.place = Some(start..text.len());
                return Ok(lines);
            }
            Form::Bracket => return Ok(lines),
        };
        for line in line_spans(text, start) {
            let Some((field, value, at)) = field(text, &line) else { continue };
            match field {
                "data" if may_be_two_lines(value) => return Err(two_lines()),
                "data" => {
                    lines.place = lines.data.is_none().then_some(at);
                    lines.data = Some(match lines.data.take() {
                        None => Cow::Borrowed(value),
                        Some(so_far) => Cow::Owned(so_far.into_owned() + "\n" + value),
                    });
                }
                _ if value.contains(is_line_end) => return Err(two_lines()),
                "event" | "id" | "retry" if !is_word(value) => {
                    return Err(out_of_order("the name or the id of an event is no word"));
                }
                "event" | "" | "id" | "retry" => {
                    lines.beside.push(value);
                    if field == "event" {
                        lines.name = (!value.is_empty()).then_some(value);
                    }
                }
                _ => return Err(out_of_order("a line of the stream is no field of an event")),
            }
        }
        Ok(lines)
    }

    /// The frame with `data` in place of its own; every other line stays.
    pub(crate) fn with_data(&self, data: &str) -> String {
        if let Some(place) = &self.place
            && let (Some(before), Some(after)) = (self.text.get(..place.start), self.text.get(place.end..))
            && (matches!(self.form, Form::Element(_)) || !data.contains('\n'))
        {
            return [before, data, after].concat();
        }
        let Form::Event(start) = self.form else { return self.text.to_owned() };
        let mut out = self.text.get(..start).unwrap_or_default().to_owned();
        let mut written = false;
        for line in line_spans(self.text, start) {
            if field(self.text, &line).is_none_or(|(field, ..)| field != "data") {
                out.push_str(self.text.get(line.start..line.end).unwrap_or_default());
            } else if !std::mem::replace(&mut written, true) {
                for piece in data.split('\n') {
                    out.push_str("data: ");
                    out.push_str(piece);
                    out.push('\n');
                }
            }
        }
        out
    }
}

/// The longest name or id of an event.
const LONGEST_WORD: usize = 128;

/// Whether a value is a name or a number: what says more would be told to a client, and nobody judges it.
fn is_word(value: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:/+=".contains(&byte);
    value.len() <= LONGEST_WORD && value.bytes().all(is_letter)
}

fn two_lines() -> WireError {
    out_of_order("a line of the stream may be read as two")
}

/// Whether a character ends a line for readers who go by Unicode.
fn is_line_end(c: char) -> bool {
    matches!(c, '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether readers who end lines where the format does not would find another field in a line of data.
pub(super) fn may_be_two_lines(data: &str) -> bool {
    !data.is_ascii()
        && data.split(is_line_end).skip(1).any(|line| {
            let line = line.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            ["data", "event", "id", "retry"]
                .iter()
                .any(|field| line.strip_prefix(field).is_some_and(|rest| rest.trim_start().starts_with(':')))
        })
}

/// A line with its end.
struct Line {
    start: usize,
    content_end: usize,
    end: usize,
}

/// The lines of a frame; LF, CR and CRLF each end one.
fn line_spans(text: &str, mut at: usize) -> impl Iterator<Item = Line> {
    std::iter::from_fn(move || {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let start = at;
        let length = rest.find(['\r', '\n']).unwrap_or(rest.len());
        let ending = match rest.get(length..).unwrap_or_default() {
            ending if ending.starts_with("\r\n") => 2,
            ending => ending.len().min(1),
        };
        at = start + length + ending;
        Some(Line { start, content_end: start + length, end: at })
    })
}

/// Field, value, and where the value stands.
fn field<'a>(text: &'a str, line: &Line) -> Option<(&'a str, &'a str, Range<usize>)> {
    let content = text.get(line.start..line.content_end)?;
    let (field, value) = content.split_once(':').unwrap_or((content, ""));
    let value = value.strip_prefix(' ').unwrap_or(value);
    Some((field, value, line.content_end - value.len()..line.content_end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json_array::ArrayCutter;
    use crate::sse::FrameCutter;

    fn frame(text: &str) -> Frame {
        let mut cutter = FrameCutter::new(8 << 20);
        cutter.push(text.as_bytes());
        cutter.next_frame().unwrap().or_else(|| cutter.rest()).unwrap().into()
    }

    #[test]
    fn elements_are_replaced_with_what_stands_before_them() {
        let mut cutter = ArrayCutter::new(1 << 10);
        cutter.push("[\n{\n \"a\": 1\n}\n ,\r\n{}]\n".as_bytes());
        let mut left = Vec::new();
        while let Some(frame) = cutter.next_frame().unwrap().map(Frame::from) {
            let lines = FrameLines::read(&frame).unwrap();
            let edited = lines.data.is_some().then(|| lines.with_data("{\n1}"));
            left.push((lines.data.map(Cow::into_owned), edited, frame.is_bracket()));
        }
        let element = |data: &str, edited: &str| (Some(data.to_owned()), Some(edited.to_owned()), false);
        let bracket = || (None, None, true);
        let first = element("{\n \"a\": 1\n}", "\n{\n1}");
        assert_eq!(left, [bracket(), first, element("{}", "\n ,\r\n{\n1}"), bracket(), bracket()]);
    }

    #[test]
    fn data_is_replaced_and_nothing_else() {
        for (text, data, expected) in [
            ("event: a\ndata: {}\nid: 1\n\n", "{}", "event: a\ndata: {1}\nid: 1\n\n"),
            ("\u{feff}data:{}\r\n\r\n", "{}", "\u{feff}data:{1}\r\n\r\n"),
            (": c\rdata: {}", "{}", ": c\rdata: {1}"),
            ("data: {\nevent: x\ndata: }\n\n", "{\n}", "data: {1}\nevent: x\n\n"),
        ] {
            let frame = frame(text);
            let lines = FrameLines::read(&frame).unwrap();
            assert_eq!(lines.data.as_deref(), Some(data), "{text:?}");
            assert_eq!(lines.with_data("{1}"), expected);
        }
        assert_eq!(FrameLines::read(&frame(": hi\n\n")).unwrap().data, None);
        let many = frame("data: {\ndata: }\n\n");
        assert_eq!(FrameLines::read(&many).unwrap().with_data("{\n1}"), "data: {\ndata: 1}\n\n");
    }

    #[test]
    fn lines_that_readers_take_differently_are_refused() {
        for text in [
            "{\"a\":1}\n\n",
            " data: {}\n\n",
            "\u{feff}\u{feff}data: {}\n\n",
            "DATA: {}\n\n",
            "data : {}\n\n",
            ": x\u{2028}data: {}\n\n",
            "event: x\u{85}data: {}\n\n",
            "id: x\u{b}y\n\n",
            "data: {\"text\":\"x\u{2029} data: {}\"}\n\n",
            "data: [DONE]\u{85}event:x\n\n",
        ] {
            assert!(FrameLines::read(&frame(text)).is_err(), "{text:?}");
        }
        for text in
            [": hi\n\n", ":\n\n", "id\n\n", "retry: 3\ndata\n\n", "data: {\"t\":\"a\u{2028}data\"}\n\n"]
        {
            assert!(FrameLines::read(&frame(text)).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn a_great_many_lines_are_read_once() {
        let lines = 300_000;
        let frame = frame(&("data: 1234567\n".repeat(lines) + "\n"));
        let data = FrameLines::read(&frame).unwrap().data.unwrap();
        assert_eq!(data.len(), lines * 8 - 1);
    }
}
