//! A stream that is one JSON array, read element by element.
//!
//! Some providers stream `[{...},\n{...}]` where a client did not ask for server-sent events. The laws are
//! those of [`sse`](crate::sse): what is read does not depend on where the bytes were cut, *no byte is lost*
//! (brackets, commas and white space are in [`ArrayFrame::raw`]), and the largest element is bounded. Elements
//! are objects; whatever else stands between the brackets is refused, and so is an array that does not end.

use std::fmt;

use bytes::{Bytes, BytesMut};

use crate::error::{WireError, out_of_order};
use crate::sse::SseEvent;

/// Bytes up to the end of an element, and the element; or the bytes that open or end the array.
#[derive(Clone, PartialEq, Eq)]
pub struct ArrayFrame {
    /// The bytes as they came: what stands between two elements belongs to the later one.
    pub raw: Bytes,
    /// The element's JSON text, which is the end of `raw`; `None` for what opens or ends the array, and for white
    /// space behind it.
    pub element: Option<Bytes>,
}

impl fmt::Debug for ArrayFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let element = self.element.as_ref().map(Bytes::len);
        f.debug_struct("ArrayFrame").field("bytes", &self.raw.len()).field("element_bytes", &element).finish()
    }
}

impl ArrayFrame {
    /// The element as the event that it would be in a stream of events. Invalid UTF-8 is read with
    /// replacement characters, as there.
    pub fn event(&self) -> Option<SseEvent> {
        self.element.as_ref().map(|element| SseEvent::new(None, String::from_utf8_lossy(element)))
    }
}

/// Bytes in, frames out.
#[derive(Debug)]
pub struct ArrayDecoder {
    cutter: ArrayCutter,
}

/// Cuts bytes into frames.
#[derive(Debug)]
pub(crate) struct ArrayCutter {
    buffer: BytesMut,
    /// Up to where the buffer was read.
    read: usize,
    /// Where the element that is being read begins.
    begin: usize,
    at: At,
    max_element_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Start,
    /// After the bracket: an element or the end.
    FirstElement,
    /// After a comma: an element.
    Element,
    Inside {
        depth: usize,
        text: Text,
    },
    /// After an element: a comma or the end.
    Between,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Outside,
    Inside,
    Escaped,
}

impl ArrayDecoder {
    /// A decoder that refuses elements of more than `max_element_bytes`.
    pub fn new(max_element_bytes: usize) -> Self {
        Self { cutter: ArrayCutter::new(max_element_bytes) }
    }

    /// Takes bytes and gives the frames that became whole.
    ///
    /// # Errors
    /// If the bytes are no array of objects, or an element is too large. The decoder is of no use then.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<ArrayFrame>, WireError> {
        self.cutter.push(bytes);
        let mut frames = Vec::new();
        while let Some(frame) = self.cutter.next_frame()? {
            frames.push(frame);
        }
        Ok(frames)
    }

    /// The end of the stream.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if the array has not ended.
    pub fn finish(&self) -> Result<(), WireError> {
        self.cutter.finish()
    }
}

impl ArrayCutter {
    pub(crate) fn new(max_element_bytes: usize) -> Self {
        Self { buffer: BytesMut::new(), read: 0, begin: 0, at: At::Start, max_element_bytes }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The bytes of a frame that is not whole.
    pub(crate) fn pending(&self) -> usize {
        self.buffer.len()
    }

    /// The next frame, if it is whole.
    pub(crate) fn next_frame(&mut self) -> Result<Option<ArrayFrame>, WireError> {
        while let Some(byte) = self.buffer.get(self.read).copied() {
            if self.read == self.max_element_bytes {
                return Err(WireError::EventTooLarge { limit: self.max_element_bytes });
            }
            self.read += 1;
            let before = self.at;
            self.at = self.next(byte)?;
            match (before, self.at) {
                (At::FirstElement | At::Element, At::Inside { .. }) => self.begin = self.read - 1,
                (At::Inside { .. }, At::Between) => return Ok(Some(self.take(true))),
                (At::Start, At::FirstElement) | (At::FirstElement | At::Between, At::End) => {
                    return Ok(Some(self.take(false)));
                }
                _ => {}
            }
        }
        let is_behind = self.at == At::End && !self.buffer.is_empty();
        Ok(is_behind.then(|| self.take(false)))
    }

    pub(crate) fn finish(&self) -> Result<(), WireError> {
        if self.at == At::End { Ok(()) } else { Err(WireError::Truncated) }
    }

    fn next(&self, byte: u8) -> Result<At, WireError> {
        let begin = At::Inside { depth: 1, text: Text::Outside };
        Ok(match (self.at, byte) {
            (At::Inside { depth, text: Text::Escaped }, _) => At::Inside { depth, text: Text::Inside },
            (At::Inside { depth, text: Text::Inside }, b'\\') => At::Inside { depth, text: Text::Escaped },
            (At::Inside { depth, text: Text::Inside }, b'"') => At::Inside { depth, text: Text::Outside },
            (At::Inside { depth, text: Text::Outside }, b'"') => At::Inside { depth, text: Text::Inside },
            (At::Inside { depth, text: Text::Outside }, b'{' | b'[') => {
                At::Inside { depth: depth + 1, text: Text::Outside }
            }
            (At::Inside { depth: 1, text: Text::Outside }, b'}' | b']') => At::Between,
            (At::Inside { depth, text: Text::Outside }, b'}' | b']') => {
                At::Inside { depth: depth - 1, text: Text::Outside }
            }
            (at @ At::Inside { .. }, _) => at,
            (at, b' ' | b'\t' | b'\r' | b'\n') => at,
            (At::Start, b'[') => At::FirstElement,
            (At::FirstElement | At::Element, b'{') => begin,
            (At::Between, b',') => At::Element,
            (At::FirstElement | At::Between, b']') => At::End,
            _ => return Err(out_of_order("it is no array of objects")),
        })
    }

    fn take(&mut self, with_element: bool) -> ArrayFrame {
        let raw = self.buffer.split_to(self.read.min(self.buffer.len())).freeze();
        let element = with_element.then(|| raw.slice(self.begin.min(raw.len())..));
        (self.read, self.begin) = (0, 0);
        ArrayFrame { raw, element }
    }
}

/// What stands before the first element, between two, and behind the last one.
pub(crate) const OPENED: &str = "[";
pub(crate) const BETWEEN: &str = ",\r\n";
pub(crate) const CLOSED: &str = "\r\n]";

/// Writes an array, element by element.
#[derive(Debug, Default)]
pub struct ArrayEncoder {
    begun: bool,
}

impl ArrayEncoder {
    /// The bytes of one more element, with what stands before it.
    pub fn push(&mut self, event: &SseEvent) -> Bytes {
        let before = if std::mem::replace(&mut self.begun, true) { BETWEEN } else { OPENED };
        format!("{before}{}", event.data).into()
    }

    /// The bytes that end the array.
    pub fn finish(self) -> Bytes {
        Bytes::from_static(if self.begun { CLOSED.as_bytes() } else { b"[]" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pieces: &[&[u8]]) -> Result<(Vec<Vec<u8>>, Vec<u8>), WireError> {
        let mut decoder = ArrayDecoder::new(1_000);
        let mut frames = Vec::new();
        for piece in pieces {
            frames.extend(decoder.push(piece)?);
        }
        decoder.finish()?;
        let raw = frames.iter().flat_map(|frame| frame.raw.to_vec()).collect();
        Ok((frames.into_iter().filter_map(|frame| Some(frame.element?.to_vec())).collect(), raw))
    }

    #[test]
    fn elements_come_out_and_no_byte_is_lost() {
        let text = br#" [ {"a":"}]\"\\"} ,
            {"b":[{"c":"\u007b"}]}
        ]
"#;
        let whole = read(&[text]).unwrap();
        assert_eq!(whole.0, [&br#"{"a":"}]\"\\"}"#[..], br#"{"b":[{"c":"\u007b"}]}"#]);
        assert_eq!(whole.1, text);
        let single: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(read(&single).unwrap(), whole);
        for at in 0..text.len() - 12 {
            assert_eq!(read(&[text.split_at(at).0]), Err(WireError::Truncated), "cut at {at}");
        }
        assert_eq!(read(&[b"[]"]).unwrap().0, Vec::<Vec<u8>>::new());
    }

    #[test]
    fn what_is_no_array_of_objects_is_refused() {
        for text in ["{}", "[1]", "[{},]", "[,{}]", "[{} {}]", "[{},,{}]", "[]]", "[] x", "\"a\"", "[[]]"] {
            assert!(read(&[text.as_bytes()]).is_err(), "{text}");
        }
    }

    #[test]
    fn endless_elements_are_refused() {
        let mut decoder = ArrayDecoder::new(100);
        decoder.push(b"[{\"a\":\"").unwrap();
        assert_eq!(decoder.push(&[b'x'; 100]).unwrap_err(), WireError::EventTooLarge { limit: 100 });
        let mut decoder = ArrayDecoder::new(100);
        assert!(decoder.push(&[b' '; 200]).is_err());
    }

    #[test]
    fn what_is_written_is_read() {
        let mut encoder = ArrayEncoder::default();
        let elements = ["{\"a\":1}", "{}"];
        let mut bytes: Vec<u8> =
            elements.iter().flat_map(|data| encoder.push(&SseEvent::new(None, *data))).collect();
        bytes.extend(encoder.finish());
        assert_eq!(read(&[&bytes]).unwrap().0, elements.map(|data| data.as_bytes().to_vec()));
        assert_eq!(read(&[&ArrayEncoder::default().finish()]).unwrap().0.len(), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text in "[\\[\\]{},\" a\\\\]{0,40}", cut in 0usize..40) {
            let (left, right) = text.as_bytes().split_at(cut.min(text.len()));
            prop_assert_eq!(read(&[left, right]), read(&[text.as_bytes()]));
        }
    }
}
