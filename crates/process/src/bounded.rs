//! Reading what a program writes, into bounded memory.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

const CHUNK_BYTES: usize = 16 * 1024;

/// What was read, from the beginning.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Bounded {
    /// The first bytes.
    pub bytes: Vec<u8>,
    /// There was more: the bytes are a beginning, and the reader stopped there.
    pub is_cut: bool,
}

impl std::fmt::Debug for Bounded {
    /// Without the bytes: programs print what nobody else is to read.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bounded(<{} bytes>, is_cut: {})", self.bytes.len(), self.is_cut)
    }
}

/// Reads to the end of `reader`, or until there is more than `most` bytes; what comes then is left unread, so that a
/// program that floods stands still until it is ended.
///
/// # Errors
///
/// What the system says about the reader.
pub async fn read_bounded(mut reader: impl AsyncRead + Unpin, most: usize) -> io::Result<Bounded> {
    let mut read = Bounded::default();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let length = reader.read(&mut chunk).await?;
        if length == 0 {
            return Ok(read);
        }
        let room = most.saturating_sub(read.bytes.len());
        read.bytes.extend_from_slice(chunk.get(..length.min(room)).unwrap_or_default());
        if length > room {
            read.is_cut = true;
            return Ok(read);
        }
    }
}
