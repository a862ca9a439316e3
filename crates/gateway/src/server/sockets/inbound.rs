//! What comes from a client, counted while a message of it is not whole.
//!
//! A message is kept until its last byte has come, and who never sends that byte would keep it for good. So what is kept
//! counts like the body of a request, and has the time that one has: for its next piece and, ten times as much, for the
//! whole. Pings between the fragments of a message are no pieces of it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::server::load::{Buffered, Load};
use crate::server::request::PATIENCE_FOR_WHOLE;

/// Where a stream of frames stands, as RFC 6455, 5.2 has them.
#[derive(Debug, Default)]
struct Frames {
    /// The head of a frame, as far as it has come.
    head: Vec<u8>,
    /// Bytes of the frame that are still to come.
    left: u64,
    /// The message has fragments that are still to come.
    is_fragmented: bool,
    /// The frame belongs to a message, and is no ping.
    is_data: bool,
}

impl Frames {
    /// Takes more bytes. Answers whether a piece of a message was among them.
    fn read(&mut self, mut bytes: &[u8]) -> bool {
        let mut has_data = false;
        while let Some((first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let step = usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
                self.left -= step as u64;
                has_data |= self.is_data;
                bytes = bytes.get(step..).unwrap_or_default();
                continue;
            }
            self.head.push(*first);
            bytes = rest;
            self.read_head();
        }
        has_data
    }

    /// Goes on to the frame's payload once its head has come.
    fn read_head(&mut self) {
        let [flags, length, more @ ..] = self.head.as_slice() else { return };
        let (flags, length) = (*flags, *length);
        let extended = match length & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mask = if length & 0x80 == 0 { 0 } else { 4 };
        if more.len() < extended + mask {
            return;
        }
        let number = more.iter().take(extended).fold(0, |number, byte| (number << 8) | u64::from(*byte));
        self.left = if extended == 0 { u64::from(length & 0x7f) } else { number };
        self.is_data = flags & 0x08 == 0;
        if self.is_data {
            self.is_fragmented = flags & 0x80 == 0;
        }
        self.head.clear();
    }

    /// Whether a message has begun and not ended.
    fn is_open(&self) -> bool {
        self.is_fragmented || self.left > 0 || !self.head.is_empty()
    }
}

/// A message that is not whole.
#[derive(Debug)]
struct Unfinished {
    begun: Instant,
    /// When the next piece of it has to be there, or all.
    until: Pin<Box<Sleep>>,
    buffered: Buffered,
}

/// The connection of a client.
#[derive(Debug)]
pub(super) struct Inbound<S> {
    stream: S,
    load: Arc<Load>,
    patience: Duration,
    frames: Frames,
    unfinished: Option<Unfinished>,
}

impl<S> Inbound<S> {
    /// A connection on which a piece of a message may take as long as `patience`.
    pub(super) fn new(stream: S, load: &Arc<Load>, patience: Duration) -> Self {
        Self { stream, load: Arc::clone(load), patience, frames: Frames::default(), unfinished: None }
    }

    fn count(&mut self, bytes: &[u8]) -> io::Result<()> {
        let has_data = self.frames.read(bytes);
        if !self.frames.is_open() {
            self.unfinished = None;
            return Ok(());
        }
        let now = Instant::now();
        let next = now + self.patience;
        let unfinished = self.unfinished.get_or_insert_with(|| Unfinished {
            begun: now,
            until: Box::pin(sleep_until(next)),
            buffered: self.load.buffer(),
        });
        if has_data {
            let whole = unfinished.begun + self.patience.saturating_mul(PATIENCE_FOR_WHOLE);
            unfinished.until.as_mut().reset(next.min(whole));
        }
        unfinished.buffered.grow(bytes.len()).map_err(|_| io::ErrorKind::OutOfMemory.into())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Inbound<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            Poll::Ready(Ok(())) => Poll::Ready(self.count(buffer.filled().get(before..).unwrap_or_default())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => match &mut self.unfinished {
                Some(unfinished) => {
                    unfinished.until.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
                }
                None => Poll::Pending,
            },
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Inbound<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
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
    use super::*;

    #[test]
    fn a_message_is_open_until_its_last_byte() {
        let masked = |flags: u8, length: &[u8], payload: usize| {
            let mut frame = vec![flags];
            frame.extend_from_slice(length);
            frame.extend(std::iter::repeat_n(0, 4 + payload));
            frame
        };
        let (text, ping) = (masked(0x81, &[0x83], 3), masked(0x89, &[0x81], 1));
        let long = masked(0x81, &[0xfe, 1, 0], 256);
        let longest = masked(0x81, &[0xff, 0, 0, 0, 0, 0, 0, 0, 2], 2);
        let empty = masked(0x81, &[0x80], 0);
        let fragments = [masked(0x01, &[0x81], 1), ping.clone(), masked(0x80, &[0x81], 1)].concat();
        for message in [text, ping, long, longest, empty, fragments] {
            let (last, rest) = message.split_last().unwrap();
            let mut frames = Frames::default();
            for byte in rest {
                frames.read(&[*byte]);
                assert!(frames.is_open(), "{message:?}");
            }
            frames.read(&[*last]);
            assert!(!frames.is_open(), "{message:?}");
            // In one piece with the next one.
            frames.read(&[&message, rest].concat());
            assert!(frames.is_open(), "{message:?}");
        }
    }
}
