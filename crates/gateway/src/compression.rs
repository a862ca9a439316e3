//! Bodies that come compressed, for those who must read them.
//!
//! Only what an exchange looks at is decoded; everything else passes as it came. Decoding is incremental, so that
//! an event leaves as soon as its last byte is there, and bounded: a small body that unfolds to a huge one stops
//! at the limit.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http::{HeaderMap, header};
use thiserror::Error;

/// A compression of HTTP bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Brotli,
    Zstd,
}

/// Why a body can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Undecodable {
    #[error("its `content-encoding` is not one of gzip, br and zstd")]
    Unknown,
    #[error("it is not what its `content-encoding` says")]
    Damaged,
    #[error("it is larger than allowed when decoded")]
    TooLarge,
}

impl Coding {
    /// How the body under these headers is compressed, if it is.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Self>, Undecodable> {
        let mut values = headers.get_all(header::CONTENT_ENCODING).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return if headers.contains_key(header::CONTENT_ENCODING) {
                Err(Undecodable::Unknown)
            } else {
                Ok(None)
            };
        };
        match value.as_bytes().trim_ascii().to_ascii_lowercase().as_slice() {
            b"" | b"identity" => Ok(None),
            b"gzip" | b"x-gzip" => Ok(Some(Self::Gzip)),
            b"br" => Ok(Some(Self::Brotli)),
            b"zstd" => Ok(Some(Self::Zstd)),
            _ => Err(Undecodable::Unknown),
        }
    }

    /// The whole body, decoded.
    pub(crate) fn decode(self, body: &[u8], limit: u64) -> Result<Bytes, Undecodable> {
        let mut decoder = Decoder::new(self, limit)?;
        let mut decoded = decoder.push(body)?.to_vec();
        decoded.extend_from_slice(&decoder.finish()?);
        Ok(decoded.into())
    }
}

/// Decodes a body piece by piece.
pub(crate) struct Decoder(Kind);

enum Kind {
    Gzip(MultiGzDecoder<Sink>),
    Brotli(Box<brotli_decompressor::DecompressorWriter<Sink>>),
    Zstd(zstd::stream::write::Decoder<'static, Sink>),
}

/// Bytes so far, up to a limit over all pieces.
struct Sink {
    data: Vec<u8>,
    left: u64,
}

const BROTLI_BUFFER: usize = 16 << 10;
/// 8 MiB, what RFC 9659 allows for content codings.
const ZSTD_WINDOW_LOG: u32 = 23;

impl Decoder {
    /// A decoder of one body of at most `limit` decoded bytes.
    pub(crate) fn new(coding: Coding, limit: u64) -> Result<Self, Undecodable> {
        let sink = Sink { data: Vec::new(), left: limit };
        Ok(Self(match coding {
            Coding::Gzip => Kind::Gzip(MultiGzDecoder::new(sink)),
            Coding::Brotli => {
                Kind::Brotli(Box::new(brotli_decompressor::DecompressorWriter::new(sink, BROTLI_BUFFER)))
            }
            Coding::Zstd => {
                let mut decoder =
                    zstd::stream::write::Decoder::new(sink).map_err(|_| Undecodable::Damaged)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(|_| Undecodable::Damaged)?;
                Kind::Zstd(decoder)
            }
        }))
    }

    /// What `bytes` decode to, as far as that is known by now.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Bytes, Undecodable> {
        let written = match &mut self.0 {
            Kind::Gzip(decoder) => decoder.write_all(bytes).and_then(|()| decoder.flush()),
            Kind::Brotli(decoder) => decoder.write_all(bytes),
            Kind::Zstd(decoder) => decoder.write_all(bytes).and_then(|()| decoder.flush()),
        };
        self.taken(written)
    }

    /// What is left, once the body has ended.
    pub(crate) fn finish(&mut self) -> Result<Bytes, Undecodable> {
        let ended = match &mut self.0 {
            Kind::Gzip(decoder) => decoder.try_finish(),
            Kind::Brotli(decoder) => decoder.close(),
            Kind::Zstd(decoder) => decoder.flush(),
        };
        self.taken(ended)
    }

    fn taken(&mut self, done: io::Result<()>) -> Result<Bytes, Undecodable> {
        let sink = match &mut self.0 {
            Kind::Gzip(decoder) => decoder.get_mut(),
            Kind::Brotli(decoder) => decoder.get_mut(),
            Kind::Zstd(decoder) => decoder.get_mut(),
        };
        match done {
            Ok(()) => Ok(std::mem::take(&mut sink.data).into()),
            Err(_) if sink.left == 0 => Err(Undecodable::TooLarge),
            Err(_) => Err(Undecodable::Damaged),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            self.left = 0;
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        self.left = left;
        self.data.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").finish_non_exhaustive()
    }
}
