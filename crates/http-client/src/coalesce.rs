//! Coalesces HTTP/1.1 chunks that arrive together.
//!
//! Providers write each event of a stream as a chunk of its own, and hyper handles chunks one by one, which costs many
//! times what parsing the chunk does. So the bytes of an HTTP/1.1 connection pass through [`CoalesceChunks`] before hyper
//! reads them: the chunks that one read of the network returned are rewritten in place as one chunk with the same
//! content. Chunks from different reads are never merged.
//!
//! The law: *decoding the rewritten bytes yields exactly what the provider wrote.* Framing is followed only where it is
//! unambiguous (one `transfer-encoding: chunked` or one `content-length`, sizes in plain hexadecimal digits, no
//! trailers); at the first ambiguity the rest of the connection passes unchanged, and hyper judges it. No byte is delayed
//! that hyper would not wait for: at most the beginning of a chunk-size line is held back.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Larger chunks are not coalesced. The size of a coalesced chunk then has at most five digits, which fit in the space of
/// the two size lines that it replaces.
const LARGEST_COALESCED: u64 = 0xffff;
/// Reads larger than this are not coalesced, for the same reason.
const LARGEST_READ: usize = 0xf_ffff - 0xffff;
/// The longest chunk-size line: sixteen digits and the line ending.
const LONGEST_LINE: usize = 18;
const LINE_END: &[u8] = b"\r\n";

/// An HTTP/1.1 connection to a provider whose chunks are coalesced as they are read.
#[derive(Debug)]
pub(crate) struct CoalesceChunks<S> {
    stream: S,
    at: Place,
    /// The beginning of a chunk-size line that has not arrived completely.
    held: Vec<u8>,
    /// The contents of the chunks that are being coalesced.
    contents: Vec<Range<usize>>,
}

/// What comes next on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The head of an answer.
    Head,
    /// So many bytes of a body with a length.
    Body(u64),
    /// The line that says how large a chunk is.
    Size,
    /// So many bytes of a chunk, with the end of the line behind it.
    Chunk(u64),
    /// Whatever: nothing is known of it any more.
    Unknown,
}

/// A line that says how large a chunk is.
enum Size {
    Is { size: u64, line: usize },
    Incomplete,
    Odd,
}

impl<S> CoalesceChunks<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, at: Place::Head, held: Vec::new(), contents: Vec::new() }
    }

    /// Coalesces the chunks in `bytes` in place. Returns how many bytes of the result are passed on.
    fn coalesce(&mut self, bytes: &mut [u8]) -> usize {
        let mut pass = Pass { bytes, read: 0, kept: 0 };
        if pass.bytes.len() > LARGEST_READ {
            self.at = Place::Unknown;
        }
        while pass.read < pass.bytes.len() {
            self.at = match self.at {
                Place::Unknown => {
                    pass.keep(u64::MAX);
                    Place::Unknown
                }
                Place::Head => match head(pass.rest()) {
                    Some((length, next)) => {
                        pass.keep(length as u64);
                        next
                    }
                    None => Place::Unknown,
                },
                Place::Body(left) => match left - pass.keep(left) {
                    0 => Place::Head,
                    left => Place::Body(left),
                },
                Place::Chunk(left) => match left - pass.keep(left) {
                    0 => Place::Size,
                    left => Place::Chunk(left),
                },
                Place::Size => match self.chunks(&mut pass) {
                    Some(next) => next,
                    None => {
                        self.held.extend_from_slice(pass.rest());
                        break;
                    }
                },
            };
        }
        pass.kept
    }

    /// Coalesces the chunks that begin here. Returns what follows, or `None` if more bytes must arrive to tell.
    fn chunks(&mut self, pass: &mut Pass<'_>) -> Option<Place> {
        let (mut at, mut total) = (pass.read, 0);
        self.contents.clear();
        let next = loop {
            let rest = pass.bytes.get(at..).unwrap_or_default();
            let (size, line) = match size_of(rest) {
                Size::Is { size: 0, line } => break last(rest, line),
                Size::Is { size, .. } if size > LARGEST_COALESCED && at > pass.read => {
                    break Some(Place::Size);
                }
                Size::Is { size, line } => (size, line),
                Size::Incomplete => break None,
                Size::Odd => break Some(Place::Unknown),
            };
            let arrived = (rest.len() - line) as u64;
            let whole = size.saturating_add(LINE_END.len() as u64);
            if arrived < whole {
                self.contents.push(at + line..pass.bytes.len());
                pass.write_chunk(&self.contents, total + size, pass.bytes.len());
                return Some(Place::Chunk(whole - arrived));
            }
            let begin = at + line;
            // It has arrived, so its size is one of memory.
            let content = begin..begin.saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
            let end = content.end + LINE_END.len();
            if pass.bytes.get(content.end..end) != Some(LINE_END) {
                break Some(Place::Unknown);
            }
            total += size;
            self.contents.push(content);
            at = end;
        };
        if let Some(content) = self.contents.last_mut() {
            content.end += LINE_END.len();
            pass.write_chunk(&self.contents, total, at);
        }
        if next == Some(Place::Head) {
            let line = memchr::memchr(b'\n', pass.rest()).map_or(0, |end| end + 1);
            pass.keep((line + LINE_END.len()) as u64);
        }
        next
    }
}

/// What stands behind the chunks, where `rest` begins with a line that says so; `None` if more has to arrive.
fn last(rest: &[u8], line: usize) -> Option<Place> {
    match rest.get(line..).unwrap_or_default() {
        [b'\r', b'\n', ..] => Some(Place::Head),
        [] | [b'\r'] => None,
        // Trailers.
        _ => Some(Place::Unknown),
    }
}

/// One way through what has arrived.
struct Pass<'a> {
    bytes: &'a mut [u8],
    /// Up to here it was read.
    read: usize,
    /// Up to here stands what goes on.
    kept: usize,
}

impl Pass<'_> {
    fn rest(&self) -> &[u8] {
        self.bytes.get(self.read..).unwrap_or_default()
    }

    /// Lets bytes go on, `most` at most. Answers how many.
    fn keep(&mut self, most: u64) -> u64 {
        let end = usize::try_from(most).map_or(usize::MAX, |most| self.read.saturating_add(most));
        let end = end.min(self.bytes.len());
        let kept = (end - self.read) as u64;
        self.move_here(self.read..end);
        self.read = end;
        kept
    }

    fn move_here(&mut self, from: Range<usize>) {
        let end = self.kept + from.len();
        if from.start != self.kept {
            self.bytes.copy_within(from, self.kept);
        }
        self.kept = end;
    }

    /// Lets chunks go on as one of size `total`; the last of `contents` has the end of its line with it.
    fn write_chunk(&mut self, contents: &[Range<usize>], total: u64, end: usize) {
        if contents.len() == 1 {
            self.keep((end - self.read) as u64);
            return;
        }
        // There is room: two sizes, two ends of lines and more stand where one of each goes. It is written last,
        // since it may reach into the first content, which has then moved.
        let line = format!("{total:x}\r\n");
        let begin = self.kept;
        self.kept += line.len();
        for content in contents {
            self.move_here(content.clone());
        }
        if let Some(room) = self.bytes.get_mut(begin..begin + line.len()) {
            room.copy_from_slice(line.as_bytes());
        }
        self.read = end;
    }
}

fn size_of(bytes: &[u8]) -> Size {
    let line = bytes.get(..LONGEST_LINE).unwrap_or(bytes);
    let Some(end) = memchr::memchr(b'\n', line) else {
        let may_become_one = line.len() < LONGEST_LINE;
        return if may_become_one { Size::Incomplete } else { Size::Odd };
    };
    let digits = line.get(..end).and_then(|line| line.strip_suffix(b"\r")).unwrap_or_default();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Size::Odd;
    }
    let size = str::from_utf8(digits).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
    size.map_or(Size::Odd, |size| Size::Is { size, line: end + 1 })
}

/// The length of the head that `bytes` begin with, and what follows it; `None` if that is not beyond doubt.
fn head(bytes: &[u8]) -> Option<(usize, Place)> {
    let end = memchr::memmem::find(bytes, b"\r\n\r\n")?;
    let (mut length, mut chunked) = (None, false);
    let mut lines =
        bytes.get(..end)?.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let status: [u8; 3] = lines.next()?.strip_prefix(b"HTTP/1.1 ")?.first_chunk().copied()?;
    // A line that ends in another way than the others may be the end of the head for somebody.
    let breaks = memchr::memchr2_iter(b'\r', b'\n', bytes.get(..end)?).count();
    if breaks != memchr::memmem::find_iter(bytes.get(..end)?, LINE_END).count() * 2 {
        return None;
    }
    for line in lines {
        let colon = memchr::memchr(b':', line)?;
        let (name, value) = line.split_at_checked(colon)?;
        let value = value.get(1..)?.trim_ascii();
        if name.is_empty() || name.iter().any(u8::is_ascii_whitespace) {
            return None;
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            let number = value.iter().all(u8::is_ascii_digit).then(|| str::from_utf8(value).ok())??;
            if length.replace(number.parse().ok()?).is_some() {
                return None;
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return None;
            }
            chunked = true;
        }
    }
    let next = match (&status, length, chunked) {
        (b"101", ..) => return None,
        ([b'1', ..] | b"204" | b"304", ..) | (_, Some(0), false) => Place::Head,
        (_, Some(length), false) => Place::Body(length),
        (_, None, true) => Place::Size,
        (_, Some(_), true) | (_, None, false) => return None,
    };
    Some((end + 4, next))
}

impl<S: AsyncRead + Unpin> AsyncRead for CoalesceChunks<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.at == Place::Unknown && this.held.is_empty() {
                return Pin::new(&mut this.stream).poll_read(cx, buffer);
            }
            let begin = buffer.filled().len();
            if buffer.remaining() <= this.held.len() {
                // Too little room for what is held and anything behind it.
                this.at = Place::Unknown;
                let fitting = this.held.len().min(buffer.remaining());
                buffer.put_slice(this.held.drain(..fitting).as_slice());
                return Poll::Ready(Ok(()));
            }
            buffer.put_slice(&this.held);
            let before = buffer.filled().len();
            let polled = Pin::new(&mut this.stream).poll_read(cx, buffer);
            if !matches!(polled, Poll::Ready(Ok(()))) {
                buffer.set_filled(begin);
                return polled;
            }
            this.held.clear();
            if buffer.filled().len() == before {
                // The end: what was held goes on as it is.
                this.at = Place::Unknown;
                return Poll::Ready(Ok(()));
            }
            let arrived = buffer.filled_mut().get_mut(begin..).unwrap_or_default();
            let kept = this.coalesce(arrived);
            buffer.set_filled(begin + kept);
            if kept > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CoalesceChunks<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::Write as _;

    use proptest::prelude::*;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// Brings one piece with each read.
    struct Pieces(VecDeque<Vec<u8>>);

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if let Some(mut piece) = self.0.pop_front() {
                let rest = piece.split_off(piece.len().min(buffer.remaining()));
                buffer.put_slice(&piece);
                if !rest.is_empty() {
                    self.0.push_front(rest);
                }
            }
            Poll::Ready(Ok(()))
        }
    }

    /// What goes on of bytes that arrive cut at `cuts`, read with `room`.
    fn passed(bytes: &[u8], cuts: &[usize], room: usize) -> Vec<u8> {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        cuts.dedup();
        let pieces = cuts.windows(2).map(|ends| bytes[ends[0]..ends[1]].to_vec()).collect();
        let mut coalesced = CoalesceChunks::new(Pieces(pieces));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut out, mut buffer) = (Vec::new(), vec![0; room]);
            loop {
                match coalesced.read(&mut buffer).await.unwrap() {
                    0 => return out,
                    count => out.extend_from_slice(&buffer[..count]),
                }
            }
        })
    }

    /// What a reader makes of a connection: heads with their contents, and whether all of it makes sense.
    fn read(mut bytes: &[u8]) -> (Vec<Vec<u8>>, bool) {
        let mut messages = Vec::new();
        while let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") {
            let (head, rest) = bytes.split_at(end + 4);
            let text = String::from_utf8_lossy(head).to_ascii_lowercase();
            let (body, after) = if text.contains("\r\ntransfer-encoding: chunked\r\n") {
                contents(rest)
            } else if let Some((_, length)) = text.split_once("\r\ncontent-length: ") {
                let length: usize = length.split('\r').next().unwrap().parse().unwrap();
                let (body, after) = rest.split_at(length.min(rest.len()));
                (body.to_vec(), Some(after))
            } else {
                (Vec::new(), Some(rest))
            };
            messages.push([head, &body].concat());
            let Some(after) = after else { return (messages, false) };
            bytes = after;
        }
        (messages, bytes.is_empty())
    }

    /// What chunks hold, and what stands behind the last; `None` if they break off or make no sense.
    fn contents(mut bytes: &[u8]) -> (Vec<u8>, Option<&[u8]>) {
        let mut all = Vec::new();
        loop {
            let line = memchr::memmem::find(bytes, LINE_END);
            let digits = line.and_then(|line| str::from_utf8(&bytes[..line]).ok());
            let size = digits.and_then(|digits| usize::from_str_radix(digits, 16).ok());
            let (Some(line), Some(size)) = (line, size) else { return (all, None) };
            let rest = &bytes[line + 2..];
            all.extend_from_slice(&rest[..size.min(rest.len())]);
            match rest.get(size..).and_then(|rest| rest.strip_prefix(LINE_END)) {
                Some(rest) if size == 0 => return (all, Some(rest)),
                Some(rest) => bytes = rest,
                None => return (all, None),
            }
        }
    }

    fn chunked(contents: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for content in contents.iter().filter(|content| !content.is_empty()) {
            write!(bytes, "{:x}\r\n", content.len()).unwrap();
            bytes.extend_from_slice(content);
            bytes.extend_from_slice(LINE_END);
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        bytes
    }

    #[test]
    fn chunks_that_arrive_together_are_one() {
        let contents: Vec<_> = (0..200).map(|n| format!("data: {n}\n\n").into_bytes()).collect();
        let bytes = chunked(&contents);
        let whole = contents.concat();
        let out = passed(&bytes, &[], 1 << 20);
        assert_eq!(out, chunked(&[whole]), "one chunk, and the end");
        let next =
            [bytes.clone(), b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n5\r\n".to_vec(), bytes].concat();
        let out = passed(&next, &[], 1 << 20);
        assert_eq!(read(&out), read(&next), "answers follow one another");
    }

    #[test]
    fn what_is_doubtful_passes_as_it_is() {
        for head in [
            "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 3",
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 3",
            "HTTP/1.1 200 OK\r\ncontent-length: +3",
            "HTTP/1.1 200 OK\r\nx: y\n\nz: a\r\ntransfer-encoding: chunked",
            "HTTP/1.1 200 OK\r\nx: y\r\n folded: z\r\ntransfer-encoding: chunked",
            "HTTP/1.1 101 Switching\r\ntransfer-encoding: chunked",
            "HTTP/1.1 200 OK",
        ] {
            let bytes = format!("{head}\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n").into_bytes();
            assert_eq!(passed(&bytes, &[], 1 << 16), bytes, "{head}");
        }
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        for body in [
            "1;x=y\r\na\r\n1\r\nb\r\n",
            "1\r\nab1\r\nc\r\n",
            "0x1\r\na\r\n",
            "0\r\nx: y\r\n\r\n",
            "\r\n1\r\na",
        ] {
            let bytes = format!("{head}{body}").into_bytes();
            assert_eq!(passed(&bytes, &[], 1 << 16), bytes, "{body}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(
            contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..12),
            large in prop::sample::select(vec![0_usize, 300, 5_000, 70_000]),
            cuts in prop::collection::vec(any::<usize>(), 0..12),
            room in prop::sample::select(vec![19_usize, 64, 8192, 1 << 20]),
            again in any::<bool>(),
        ) {
            let mut contents = contents;
            contents.insert(contents.len() / 2, vec![b'x'; large]);
            let mut bytes = chunked(&contents);
            if again {
                bytes.extend(bytes.clone());
            }
            prop_assert_eq!(read(&passed(&bytes, &cuts, room)), read(&bytes));
        }

        #[test]
        fn what_makes_no_sense_makes_the_same_sense(
            contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 1..6),
            cuts in prop::collection::vec(any::<usize>(), 0..12),
            damage in prop::collection::vec((any::<usize>(), any::<u8>()), 0..3),
            end in any::<usize>(),
        ) {
            let mut bytes = chunked(&contents);
            for (place, byte) in damage {
                let begin = 48.min(bytes.len() - 1);
                let place = begin + place % (bytes.len() - begin);
                bytes[place] = byte;
            }
            bytes.truncate(bytes.len() - end % 10);
            prop_assert_eq!(read(&passed(&bytes, &cuts, 8192)), read(&bytes));
        }
    }
}
