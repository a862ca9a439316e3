//! Amazon's event streams: messages in binary frames, in which Bedrock streams its answers.
//!
//! ```text
//! 4 length of the whole │ 4 length of the headers │ 4 CRC-32 of these eight bytes
//! headers: 1 length, name, 1 type, value │ payload │ 4 CRC-32 of everything before
//! ```
//!
//! Numbers are big-endian. Laws: the messages do not depend on where the bytes were cut; a sum that does not fit, a length
//! that can't be, a header twice, or half a frame at the end is an error, after which nothing more is read.

use std::fmt;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use flate2::Crc;
use thiserror::Error;

const PRELUDE: usize = 12;
const SUM: usize = 4;
/// The largest frame that is taken, as of events of other streams.
const LARGEST: usize = 8 << 20;
/// The largest headers of a frame, as Amazon's SDKs take them.
const LARGEST_HEADERS: usize = 128 << 10;
/// The most headers of a frame. Those of answers have three.
const MOST_HEADERS: usize = 64;
/// The type of a header that is a text.
const TEXT: u8 = 7;

/// Bytes that are no frames, or frames that are no messages of their wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadFrame {
    /// What it says and its checksum differ.
    #[error("a frame has a checksum that does not fit")]
    Sum,
    /// It is shorter than its parts.
    #[error("a frame has lengths that can't be")]
    Length,
    /// It is larger than any that is taken.
    #[error("a frame has more than {LARGEST} bytes")]
    TooLarge,
    /// A header is none, or stands twice.
    #[error("a frame has a header that can't be read in one way")]
    Header,
    /// It has too many headers, or too many bytes of them.
    #[error("a frame has more than {MOST_HEADERS} headers, or more than {LARGEST_HEADERS} bytes of them")]
    Headers,
    /// The bytes end within it.
    #[error("it ends in the middle of a frame")]
    Cut,
    /// Its kind is none of the wire's.
    #[error("a frame is of a kind that nobody here knows")]
    Kind,
    /// Its payload is none of the wire's.
    #[error("a frame holds no event")]
    Event,
}

/// One message.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    /// The headers that are texts.
    headers: Vec<(String, String)>,
    /// What it carries.
    pub payload: Bytes,
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("headers", &self.headers.len())
            .field("payload_bytes", &self.payload.len())
            .finish()
    }
}

impl Frame {
    /// A message with these headers.
    pub fn new(headers: &[(&str, &str)], payload: impl Into<Bytes>) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self { headers: headers.collect(), payload: payload.into() }
    }

    /// What a header says, if it is a text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The message as bytes. Names and values that are too long for the format are left out.
    pub fn encode(&self, out: &mut BytesMut) {
        let mut headers = BytesMut::new();
        for (name, value) in &self.headers {
            let (Ok(name_length), Ok(length)) = (u8::try_from(name.len()), u16::try_from(value.len())) else {
                continue;
            };
            headers.put_u8(name_length);
            headers.put_slice(name.as_bytes());
            headers.put_u8(TEXT);
            headers.put_u16(length);
            headers.put_slice(value.as_bytes());
        }
        let whole = PRELUDE + headers.len() + self.payload.len() + SUM;
        let mut frame = BytesMut::with_capacity(whole);
        frame.put_u32(u32::try_from(whole).unwrap_or(u32::MAX));
        frame.put_u32(u32::try_from(headers.len()).unwrap_or(u32::MAX));
        frame.put_u32(sum(&frame));
        frame.put_slice(&headers);
        frame.put_slice(&self.payload);
        frame.put_u32(sum(&frame));
        out.unsplit(frame);
    }
}

/// Bytes in, messages out.
#[derive(Default)]
pub struct FrameReader {
    buffer: BytesMut,
    /// What went wrong, and so goes wrong ever after.
    bad: Option<BadFrame>,
}

impl fmt::Debug for FrameReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameReader").field("bytes", &self.buffer.len()).field("bad", &self.bad).finish()
    }
}

impl FrameReader {
    /// Takes bytes, cut anywhere.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message that is whole.
    ///
    /// # Errors
    /// If the bytes are no frames.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, BadFrame> {
        if let Some(bad) = self.bad {
            return Err(bad);
        }
        let read = self.read();
        if let Err(bad) = &read {
            self.bad = Some(*bad);
            self.buffer.clear();
        }
        read
    }

    /// The end of the stream.
    ///
    /// # Errors
    /// [`BadFrame::Cut`] if it ends within a frame, and what went wrong before.
    pub fn finish(&self) -> Result<(), BadFrame> {
        match self.bad {
            Some(bad) => Err(bad),
            None if !self.buffer.is_empty() => Err(BadFrame::Cut),
            None => Ok(()),
        }
    }

    fn read(&mut self) -> Result<Option<Frame>, BadFrame> {
        let Some((whole, headers)) = self.lengths()? else { return Ok(None) };
        if self.buffer.len() < whole {
            return Ok(None);
        }
        let mut frame = self.buffer.split_to(whole).freeze();
        let end = whole - SUM;
        let mut expected = frame.split_off(end);
        if sum(&frame) != expected.get_u32() {
            return Err(BadFrame::Sum);
        }
        frame.advance(PRELUDE);
        let payload = frame.split_off(headers);
        Ok(Some(Frame { headers: read_headers(frame)?, payload }))
    }

    /// The lengths of the first frame and of its headers, once they are there.
    fn lengths(&self) -> Result<Option<(usize, usize)>, BadFrame> {
        let Some(mut prelude) = self.buffer.get(..PRELUDE) else { return Ok(None) };
        let summed = sum(self.buffer.get(..PRELUDE - SUM).unwrap_or_default());
        let lengths = (prelude.get_u32(), prelude.get_u32());
        if prelude.get_u32() != summed {
            return Err(BadFrame::Sum);
        }
        let size = |length: u32| usize::try_from(length).unwrap_or(usize::MAX);
        let (whole, headers) = (size(lengths.0), size(lengths.1));
        if whole > LARGEST {
            return Err(BadFrame::TooLarge);
        }
        if whole < PRELUDE + SUM || headers > whole - PRELUDE - SUM {
            return Err(BadFrame::Length);
        }
        if headers > LARGEST_HEADERS {
            return Err(BadFrame::Headers);
        }
        Ok(Some((whole, headers)))
    }
}

fn sum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

fn read_headers(mut rest: Bytes) -> Result<Vec<(String, String)>, BadFrame> {
    let mut names: Vec<String> = Vec::new();
    let mut headers = Vec::new();
    while !rest.is_empty() {
        if names.len() == MOST_HEADERS {
            return Err(BadFrame::Headers);
        }
        let length = usize::from(rest.try_get_u8().map_err(|_| BadFrame::Header)?);
        let name = text(&mut rest, length)?;
        let value = match rest.try_get_u8().map_err(|_| BadFrame::Header)? {
            TEXT => {
                let length = usize::from(rest.try_get_u16().map_err(|_| BadFrame::Header)?);
                Some(text(&mut rest, length)?)
            }
            other => {
                let length = match other {
                    0 | 1 => 0,
                    2 => 1,
                    3 => 2,
                    4 => 4,
                    5 | 8 => 8,
                    6 => usize::from(rest.try_get_u16().map_err(|_| BadFrame::Header)?),
                    9 => 16,
                    _ => return Err(BadFrame::Header),
                };
                take(&mut rest, length)?;
                None
            }
        };
        if names.contains(&name) {
            return Err(BadFrame::Header);
        }
        names.push(name.clone());
        headers.extend(value.map(|value| (name, value)));
    }
    Ok(headers)
}

fn take(rest: &mut Bytes, length: usize) -> Result<Bytes, BadFrame> {
    if rest.len() < length { Err(BadFrame::Header) } else { Ok(rest.split_to(length)) }
}

fn text(rest: &mut Bytes, length: usize) -> Result<String, BadFrame> {
    String::from_utf8(take(rest, length)?.to_vec()).map_err(|_| BadFrame::Header)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> (Vec<Frame>, Result<(), BadFrame>) {
        let (mut reader, mut frames) = (FrameReader::default(), Vec::new());
        for piece in pieces {
            reader.push(piece);
            loop {
                match reader.next_frame() {
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => break,
                    Err(bad) => return (frames, Err(bad)),
                }
            }
        }
        let end = reader.finish();
        (frames, end)
    }

    fn encoded(frames: &[Frame]) -> Vec<u8> {
        let mut bytes = BytesMut::new();
        frames.iter().for_each(|frame| frame.encode(&mut bytes));
        bytes.to_vec()
    }

    /// The positive cases of `aws-eventstream` test data that the SDKs share: no headers, and one text.
    #[test]
    fn frames_are_those_of_amazon() {
        let empty = [0, 0, 0, 0x10, 0, 0, 0, 0, 0x05, 0xc2, 0x48, 0xeb, 0x7d, 0x98, 0xc8, 0xff];
        assert_eq!(read(&[&empty]), (vec![Frame::new(&[], "")], Ok(())));
        assert_eq!(encoded(&[Frame::new(&[], "")]), empty);
        let payload = [
            &[0, 0, 0, 0x1d, 0, 0, 0, 0, 0xfd, 0x52, 0x8c, 0x5a][..],
            b"{'foo':'bar'}",
            &[0xc3, 0x65, 0x39, 0x36],
        ]
        .concat();
        assert_eq!(read(&[&payload]), (vec![Frame::new(&[], "{'foo':'bar'}")], Ok(())));
        assert_eq!(encoded(&[Frame::new(&[], "{'foo':'bar'}")]), payload);
    }

    #[test]
    fn headers_of_other_types_are_passed_over_and_twice_is_an_error() {
        let with = |headers: &[u8]| {
            let mut frame = BytesMut::new();
            frame.put_u32(u32::try_from(16 + headers.len()).unwrap());
            frame.put_u32(u32::try_from(headers.len()).unwrap());
            frame.put_u32(sum(&frame));
            frame.put_slice(headers);
            frame.put_u32(sum(&frame));
            read(&[&frame])
        };
        let mixed = b"\x01a\x00\x01b\x02x\x01c\x03xx\x01d\x04xxxx\x01e\x05xxxxxxxx\x01f\x06\x00\x02xx\x01g\x07\x00\x02yy\x01h\x08xxxxxxxx\x01i\x09xxxxxxxxxxxxxxxx\x01j\x01";
        assert_eq!(with(mixed), (vec![Frame::new(&[("g", "yy")], "")], Ok(())));
        for bad in [
            &b"\x01a\x07\x00\x01x\x01a\x07\x00\x01y"[..],
            b"\x01a\x00\x01a\x07\x00\x01y",
            b"\x01a\x0a",
            b"\x01a",
            b"\x02a",
            b"\x01a\x07\x00\x05x",
            b"\x01a\x07\x00\x01\xff",
            b"\x01a\x06\x01",
        ] {
            assert_eq!(with(bad), (vec![], Err(BadFrame::Header)), "{bad:?}");
        }
    }

    #[test]
    fn lengths_that_can_not_be_are_errors() {
        let prelude = |whole: u32, headers: u32| {
            let mut frame = BytesMut::new();
            frame.put_u32(whole);
            frame.put_u32(headers);
            frame.put_u32(sum(&frame));
            read(&[&frame]).1
        };
        assert_eq!(prelude(15, 0), Err(BadFrame::Length));
        assert_eq!(prelude(16, 1), Err(BadFrame::Length));
        assert_eq!(prelude(0, u32::MAX), Err(BadFrame::Length));
        assert_eq!(prelude(u32::MAX, 0), Err(BadFrame::TooLarge));
        assert_eq!(prelude(17, 0), Err(BadFrame::Cut));
        // Before anybody waits for the rest of them.
        assert_eq!(prelude(1 << 20, (128 << 10) + 1), Err(BadFrame::Headers));
        assert_eq!(prelude(1 << 20, 128 << 10), Err(BadFrame::Cut));
    }

    #[test]
    fn headers_are_counted() {
        let with = |count: usize| {
            let headers: Vec<(String, String)> =
                (0..count).map(|number| (format!("h{number}"), String::new())).collect();
            read(&[&encoded(&[Frame { headers, payload: Bytes::new() }])]).1
        };
        assert_eq!((with(MOST_HEADERS), with(MOST_HEADERS + 1)), (Ok(()), Err(BadFrame::Headers)));
    }

    fn frames() -> impl Strategy<Value = Vec<Frame>> {
        let header = ("[a-z:-]{1,9}", "[ -~\u{e9}]{0,9}");
        let frame = (
            prop::collection::btree_map(header.0, header.1, 0..4),
            prop::collection::vec(any::<u8>(), 0..40),
        );
        let frame = frame.prop_map(|(headers, payload)| Frame {
            headers: headers.into_iter().collect(),
            payload: payload.into(),
        });
        prop::collection::vec(frame, 1..4)
    }

    proptest! {
        #[test]
        fn frames_do_not_depend_on_cuts(frames in frames(), cut in any::<prop::sample::Index>()) {
            let bytes = encoded(&frames);
            let (front, back) = bytes.split_at(cut.index(bytes.len()));
            prop_assert_eq!(read(&[front, back]), (frames.clone(), Ok(())));
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(read(&single), (frames.clone(), Ok(())));
            // A stream that ends early is short by whole frames, and says so.
            let (read, end) = read(&[front]);
            prop_assert!(frames.starts_with(&read));
            let is_whole = encoded(&read).len() == front.len();
            prop_assert_eq!(end, if is_whole { Ok(()) } else { Err(BadFrame::Cut) });
        }

        #[test]
        fn a_byte_that_changed_is_noticed(frames in frames(), at in any::<prop::sample::Index>(), by in 1_u8..) {
            let mut bytes = encoded(&frames);
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            let (read, end) = read(&[&bytes]);
            prop_assert!(end.is_err());
            prop_assert!(read.len() < frames.len() && frames.starts_with(&read));
        }

        #[test]
        fn bytes_that_are_no_frames_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let (frames, end) = read(&[&bytes]);
            prop_assert!(frames.is_empty());
            prop_assert_eq!(end.is_ok(), bytes.is_empty());
        }
    }
}
