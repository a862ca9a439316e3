//! Server-sent events: frames in, frames out.
//!
//! The decoder takes bytes cut anywhere and gives frames. Two laws: the frames do not depend on where the
//! bytes were cut, and *no byte is lost*: what a frame was read from (comments, line ends and all) is in
//! [`SseFrame::raw`], so that a proxy can pass on untouched what it did not change. Invalid UTF-8 is read
//! with replacement characters, as the standard says. The largest frame is bounded.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr2;

use crate::error::WireError;

/// The largest frame that is taken unless told otherwise: 8 MiB.
pub const DEFAULT_MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

/// One event.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SseEvent {
    /// The event's name; `None` stands for `message`.
    pub event: Option<String>,
    /// The data lines, joined by line feeds.
    pub data: String,
    /// The event's id.
    pub id: Option<String>,
}

/// Bytes up to and including a blank line, and the event in them.
#[derive(Clone, PartialEq, Eq)]
pub struct SseFrame {
    /// The bytes as they came.
    pub raw: Bytes,
    /// The event; `None` if the frame has no data (a comment, used to keep connections alive).
    pub event: Option<SseEvent>,
}

impl SseEvent {
    /// An event with data and a name.
    pub fn new(event: Option<&str>, data: impl Into<String>) -> Self {
        Self { event: event.map(str::to_owned), data: data.into(), id: None }
    }

    /// The event as bytes, blank line included. Line breaks in names and ids, which the format cannot
    /// carry, are left out.
    pub fn encode(&self) -> Bytes {
        let mut out = String::with_capacity(self.data.len() + 48);
        for (field, value) in [("event", &self.event), ("id", &self.id)] {
            if let Some(value) = value {
                out.push_str(field);
                out.push_str(": ");
                out.extend(value.chars().filter(|c| !matches!(c, '\r' | '\n' | '\0')));
                out.push('\n');
            }
        }
        for line in lines(&self.data) {
            out.push_str("data: ");
            out.push_str(line);
            out.push('\n');
        }
        out.push('\n');
        out.into()
    }
}

impl fmt::Debug for SseEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SseEvent").field("event", &self.event).field("data_bytes", &self.data.len()).finish()
    }
}

impl fmt::Debug for RawFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawFrame").field("bytes", &self.bytes.len()).finish()
    }
}

impl fmt::Debug for SseFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SseFrame").field("bytes", &self.raw.len()).field("event", &self.event).finish()
    }
}

/// Bytes in, frames out.
#[derive(Debug)]
pub struct SseDecoder {
    cutter: FrameCutter,
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_EVENT_BYTES)
    }
}

impl SseDecoder {
    /// A decoder that refuses frames of more than `max_event_bytes`.
    pub fn new(max_event_bytes: usize) -> Self {
        Self { cutter: FrameCutter::new(max_event_bytes) }
    }

    /// Takes bytes and gives the frames that became whole.
    ///
    /// # Errors
    /// [`WireError::EventTooLarge`] if a frame does not end within the limit. The decoder is of no use then.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<SseFrame>, WireError> {
        self.cutter.push(bytes);
        let mut frames = Vec::new();
        while let Some(raw) = self.cutter.next_frame()? {
            frames.push(raw.parse());
        }
        Ok(frames)
    }

    /// The end of the stream: what is left, read as if a blank line followed. The standard drops such a
    /// rest, but some servers leave out the last blank line. Half a JSON text is never a JSON object, so
    /// the layer above still notices a cut.
    pub fn finish(&mut self) -> Option<SseFrame> {
        self.cutter.rest().map(RawFrame::parse)
    }
}

/// The bytes of one frame, not read yet.
#[derive(Clone)]
pub(crate) struct RawFrame {
    /// The bytes as they came.
    pub(crate) bytes: Bytes,
    /// Whether it is the first of the stream, which may begin with a byte order mark.
    first: bool,
}

impl RawFrame {
    /// Where the lines begin.
    pub(crate) fn start(&self) -> usize {
        if self.first && self.bytes.starts_with(BOM) { BOM.len() } else { 0 }
    }

    fn parse(self) -> SseFrame {
        let mut text = self.bytes.clone();
        text.advance(self.start());
        SseFrame { event: parse(&String::from_utf8_lossy(&text)), raw: self.bytes }
    }
}

/// Cuts bytes into frames.
#[derive(Debug)]
pub(crate) struct FrameCutter {
    buffer: BytesMut,
    /// Up to where the buffer was searched for the end of a frame, and whether a line starts there.
    searched: usize,
    at_line_start: bool,
    /// The last frame ended with CR at the very end of the bytes; a LF that follows belongs to that line.
    skip_line_feed: bool,
    at_stream_start: bool,
    max_event_bytes: usize,
}

impl FrameCutter {
    pub(crate) fn new(max_event_bytes: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            at_line_start: true,
            skip_line_feed: false,
            at_stream_start: true,
            max_event_bytes,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The bytes of a frame that is not whole.
    pub(crate) fn pending(&self) -> usize {
        self.buffer.len()
    }

    /// The next frame, if it is whole.
    pub(crate) fn next_frame(&mut self) -> Result<Option<RawFrame>, WireError> {
        let end = self.find_end();
        if end.unwrap_or(self.buffer.len()) > self.max_event_bytes {
            return Err(WireError::EventTooLarge { limit: self.max_event_bytes });
        }
        Ok(end.map(|end| self.take(end)))
    }

    /// What is left at the end of the stream.
    pub(crate) fn rest(&mut self) -> Option<RawFrame> {
        let end = self.buffer.len();
        (end > 0).then(|| self.take(end))
    }

    /// The length of the first frame in the buffer, if it is whole.
    fn find_end(&mut self) -> Option<usize> {
        if self.skip_line_feed && self.searched == 0 {
            match self.buffer.first() {
                None => return None,
                Some(b'\n') => self.searched = 1,
                Some(_) => {}
            }
            self.skip_line_feed = false;
        }
        if self.at_stream_start && self.searched == 0 {
            let start = self.buffer.get(..BOM.len()).unwrap_or(&self.buffer);
            if start.len() < BOM.len() && BOM.starts_with(start) {
                return None;
            }
            if start == BOM {
                self.searched = BOM.len();
            }
        }
        while let Some(rest) = self.buffer.get(self.searched..) {
            let at = memchr2(b'\r', b'\n', rest);
            let Some(at) = at else {
                self.at_line_start &= rest.is_empty();
                self.searched = self.buffer.len();
                return None;
            };
            let blank = at == 0 && self.at_line_start;
            let line_end = match (rest.get(at), rest.get(at + 1)) {
                (Some(b'\r'), Some(b'\n')) => at + 2,
                // A blank line that ends with CR ends the frame at once; waiting for a possible LF would hold
                // the event back.
                (Some(b'\r'), None) if blank => {
                    self.skip_line_feed = true;
                    at + 1
                }
                (Some(b'\r'), None) => {
                    self.at_line_start &= at == 0;
                    self.searched += at;
                    return None;
                }
                _ => at + 1,
            };
            self.searched += line_end;
            self.at_line_start = true;
            if blank {
                return Some(self.searched);
            }
        }
        None
    }

    fn take(&mut self, end: usize) -> RawFrame {
        let bytes = self.buffer.split_to(end.min(self.buffer.len())).freeze();
        self.searched = 0;
        self.at_line_start = true;
        RawFrame { bytes, first: std::mem::take(&mut self.at_stream_start) }
    }
}

const BOM: &[u8] = b"\xef\xbb\xbf";

/// The lines of a frame; LF, CR and CRLF each end one.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'))
}

fn parse(frame: &str) -> Option<SseEvent> {
    let mut event = SseEvent::default();
    let mut data: Option<String> = None;
    for line in lines(frame) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => data = Some(value.to_owned()),
            },
            "event" => event.event = (!value.is_empty()).then(|| value.to_owned()),
            "id" if !value.contains('\0') => event.id = Some(value.to_owned()),
            _ => {}
        }
    }
    event.data = data?;
    Some(event)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(pieces: &[&[u8]]) -> (Vec<SseEvent>, Vec<u8>) {
        let mut decoder = SseDecoder::default();
        let mut frames = Vec::new();
        for piece in pieces {
            frames.extend(decoder.push(piece).unwrap());
        }
        frames.extend(decoder.finish());
        let raw = frames.iter().flat_map(|frame| frame.raw.to_vec()).collect();
        (frames.into_iter().filter_map(|frame| frame.event).collect(), raw)
    }

    fn events(bytes: &[u8]) -> Vec<SseEvent> {
        decode(&[bytes]).0
    }

    #[test]
    fn all_line_ends_are_lines() {
        let expected = vec![SseEvent::new(Some("a"), "1\n2"), SseEvent::new(None, "3")];
        for end in ["\n", "\r", "\r\n"] {
            let text = ["event: a", "data: 1", "data:2", "", "data: 3", "", ""].join(end);
            assert_eq!(events(text.as_bytes()), expected, "{end:?}");
        }
    }

    #[test]
    fn bom_comments_unknown_fields_and_ids() {
        let text = "\u{feff}: hello\n\ndata: x\nid: 7\nretry: 10\nother: y\nnocolon\n\n";
        assert_eq!(
            events(text.as_bytes()),
            vec![SseEvent { event: None, data: "x".into(), id: Some("7".into()) }]
        );
        assert_eq!(events("\u{feff}data: x\n\n".as_bytes()), vec![SseEvent::new(None, "x")]);
    }

    #[test]
    fn comment_is_a_frame_at_once() {
        let mut decoder = SseDecoder::default();
        let frames = decoder.push(b": keep-alive\n\n").unwrap();
        assert_eq!((frames.len(), frames[0].event.clone()), (1, None));
        assert_eq!(frames[0].raw, b": keep-alive\n\n"[..]);
    }

    #[test]
    fn blank_line_of_cr_ends_the_frame_at_once() {
        let mut decoder = SseDecoder::default();
        assert_eq!(decoder.push(b"data: x\r\r").unwrap().len(), 1);
        assert_eq!(decoder.push(b"data: y\r\n\r").unwrap().len(), 1);
        assert_eq!(decoder.push(b"\ndata: z\n\n").unwrap()[0].event, Some(SseEvent::new(None, "z")));
    }

    #[test]
    fn missing_last_blank_line_is_forgiven() {
        assert_eq!(events(b"data: [DONE]"), vec![SseEvent::new(None, "[DONE]")]);
    }

    #[test]
    fn endless_event_is_refused() {
        let mut decoder = SseDecoder::new(100);
        assert!(decoder.push(&[b'x'; 100]).is_ok());
        assert_eq!(decoder.push(b"x").unwrap_err(), WireError::EventTooLarge { limit: 100 });
        let mut decoder = SseDecoder::new(10);
        assert!(decoder.push(b"data: 0123456789\n\n").is_err());
    }

    #[test]
    fn debug_never_prints_data() {
        let mut decoder = SseDecoder::default();
        let frames = decoder.push(b"data: secret\n\n").unwrap();
        assert!(!format!("{frames:?}").contains("secret"));
    }

    fn stream_like() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just("data: ".to_owned()),
            Just("event: x".to_owned()),
            Just("\n".to_owned()),
            Just("\r".to_owned()),
            Just("\r\n".to_owned()),
            Just("\n\n".to_owned()),
            Just(":".to_owned()),
            Just("\u{feff}".to_owned()),
            "[a-zé漢🙂 ]{0,4}",
        ];
        prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn cuts_change_nothing_and_lose_nothing(bytes in stream_like(), cuts in prop::collection::vec(0usize..200, 0..6)) {
            let (whole, raw) = decode(&[&bytes]);
            prop_assert_eq!(&raw, &bytes);
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < bytes.len()).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&bytes[from..cut]);
                from = cut;
            }
            pieces.push(&bytes[from..]);
            let (cut_up, raw) = decode(&pieces);
            prop_assert_eq!(raw, bytes.clone());
            prop_assert_eq!(cut_up, whole);
        }

        #[test]
        fn byte_by_byte_is_the_same(bytes in stream_like()) {
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(decode(&single), decode(&[&bytes]));
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let (_, raw) = decode(&[&bytes]);
            prop_assert_eq!(raw, bytes);
        }

        #[test]
        fn encoded_event_comes_back(name in "[a-z_.]{1,12}", data in "[^\r\u{feff}]{0,60}", id in proptest::option::of("[a-z0-9]{0,6}")) {
            let event = SseEvent { event: Some(name), data, id };
            prop_assert_eq!(events(&event.encode()), vec![event]);
        }
    }
}
