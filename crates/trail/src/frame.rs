//! Frames: how an entry lies in a file.
//!
//! A frame is the length of its content, a CRC-32 of length and content (each four bytes, little endian), and the content. The top bit of
//! the length marks an entry that was pruned: its content is the entry's hash. The checksum finds frames that were torn by a crash;
//! against people it is no protection, the [tree](crate::merkle) is.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};

use crate::MAX_ENTRY_BYTES;
use crate::entry::Envelope;
use crate::merkle::{HASH_BYTES, Hash, leaf_hash};

/// What precedes the content.
pub(crate) const HEADER_BYTES: usize = 8;
/// The mark of a pruned entry in the length.
const PRUNED: u32 = 1 << 31;
/// The most bytes of which checksums are computed to find a frame.
const MOST_CHECKED: usize = 256 << 20;
/// How much is read at once.
const READ: usize = 128 * 1024;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'f> {
    /// An entry.
    Entry(&'f [u8]),
    /// The hash of an entry that was pruned.
    Pruned(Hash),
}

impl Frame<'_> {
    /// Returns the hash of the entry.
    pub fn leaf(&self) -> Hash {
        match self {
            Self::Entry(entry) => leaf_hash(entry),
            Self::Pruned(hash) => *hash,
        }
    }

    /// Returns the bytes of the entry, unless it was pruned.
    pub fn entry(&self) -> Option<&[u8]> {
        match self {
            Self::Entry(entry) => Some(entry),
            Self::Pruned(_) => None,
        }
    }

    /// Adds the frame to `out`. An entry has at most [`MAX_ENTRY_BYTES`].
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let (content, mark): (&[u8], u32) = match self {
            Self::Entry(entry) => (entry, 0),
            Self::Pruned(hash) => (hash, PRUNED),
        };
        let length = (u32::try_from(content.len()).unwrap_or(PRUNED - 1) | mark).to_le_bytes();
        out.extend_from_slice(&length);
        out.extend_from_slice(&checksum(length, content).to_le_bytes());
        out.extend_from_slice(content);
    }
}

/// What a header says of its content.
struct Header {
    length: [u8; 4],
    bytes: usize,
    pruned: bool,
    checksum: u32,
}

impl Header {
    /// Reads a header; `None` for one of no frame.
    fn read(header: [u8; HEADER_BYTES]) -> Option<Self> {
        let [a, b, c, d, rest @ ..] = header;
        let length = [a, b, c, d];
        let marked = u32::from_le_bytes(length);
        let (bytes, pruned) = (marked & !PRUNED, marked & PRUNED != 0);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let possible = if pruned { bytes == HASH_BYTES } else { (1..=MAX_ENTRY_BYTES).contains(&bytes) };
        possible.then_some(Self { length, bytes, pruned, checksum: u32::from_le_bytes(rest) })
    }

    /// Returns the frame with this content, if it is the one that was written.
    fn frame<'f>(&self, content: &'f [u8]) -> Option<Frame<'f>> {
        let sound = content.len() == self.bytes && checksum(self.length, content) == self.checksum;
        sound.then(|| match content.first_chunk::<HASH_BYTES>() {
            Some(hash) if self.pruned => Frame::Pruned(*hash),
            _ => Frame::Entry(content),
        })
    }
}

/// Returns the first frame of `bytes`, and what stands behind it; `None` where there is no whole frame.
pub(crate) fn split(bytes: &[u8]) -> Option<(Frame<'_>, &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let header = Header::read(*header)?;
    let (content, rest) = rest.split_at_checked(header.bytes)?;
    Some((header.frame(content)?, rest))
}

/// Whether a whole frame stands somewhere in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// The next one begins there.
    At(usize),
    /// None does.
    Nothing,
    /// There are too many places at which one might begin: nobody writes such bytes by accident.
    Unclear,
}

/// Looks for the next whole frame in `bytes` from place `from` on. An entry holds no line of zeros as a header has them, so what is found
/// is no part of one that was torn.
pub(crate) fn ahead(bytes: &[u8], from: usize) -> Ahead {
    let mut checked = 0_usize;
    for at in from..bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some((header, content)) = rest.split_first_chunk::<HEADER_BYTES>() else { break };
        let Some(header) = Header::read(*header) else { continue };
        let Some(content) = content.get(..header.bytes) else { continue };
        checked = checked.saturating_add(header.bytes);
        if checked > MOST_CHECKED {
            return Ahead::Unclear;
        }
        let is_whole = match header.frame(content) {
            Some(Frame::Entry(entry)) => Envelope::read(entry).is_some(),
            Some(Frame::Pruned(_)) => true,
            None => false,
        };
        if is_whole {
            return Ahead::At(at);
        }
    }
    Ahead::Nothing
}

fn checksum(length: [u8; 4], content: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length);
    hasher.update(content);
    hasher.finalize()
}

/// What comes next in a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<'f> {
    /// A frame.
    Frame(Frame<'f>),
    /// The file ends here.
    End,
    /// Something that is no frame, or a part of one.
    Torn,
}

/// The frames of a file, one after the other.
#[derive(Debug)]
pub(crate) struct Frames<R> {
    file: BufReader<R>,
    /// Where the next frame begins.
    offset: u64,
    content: Vec<u8>,
}

impl Frames<File> {
    /// Returns the frames of a file from `offset`.
    pub(crate) fn from(mut file: File, offset: u64) -> io::Result<Self> {
        file.seek(SeekFrom::Start(offset))?;
        Ok(Self { offset, ..Self::new(file) })
    }
}

impl<R: Read> Frames<R> {
    pub(crate) fn new(file: R) -> Self {
        Self { file: BufReader::with_capacity(READ, file), offset: 0, content: Vec::new() }
    }

    /// Returns where the next frame begins: behind the last one that was whole.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn next(&mut self) -> io::Result<Next<'_>> {
        let mut header = [0; HEADER_BYTES];
        match fill(&mut self.file, &mut header)? {
            0 => return Ok(Next::End),
            HEADER_BYTES => {}
            _ => return Ok(Next::Torn),
        }
        let Some(header) = Header::read(header) else { return Ok(Next::Torn) };
        self.content.resize(header.bytes, 0);
        fill(&mut self.file, &mut self.content).map(|filled| self.content.truncate(filled))?;
        let Some(frame) = header.frame(&self.content) else { return Ok(Next::Torn) };
        self.offset += (HEADER_BYTES + header.bytes) as u64;
        Ok(Next::Frame(frame))
    }
}

/// Reads as much as there is, at most as much as fits. Returns how much.
fn fill(file: &mut impl Read, mut into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while !into.is_empty() {
        match file.read(into) {
            Ok(0) => break,
            Ok(bytes) => {
                filled += bytes;
                into = into.split_at_mut(bytes).1;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, bool) {
        let (mut frames, mut found) = (Frames::new(bytes), Vec::new());
        loop {
            match frames.next().unwrap() {
                Next::Frame(frame) => {
                    found.push(frame.entry().map_or_else(|| frame.leaf().to_vec(), <[u8]>::to_vec));
                }
                Next::End => return (found, true),
                Next::Torn => return (found, false),
            }
        }
    }

    proptest! {
        #[test]
        fn of_a_file_that_was_cut_anywhere_whole_frames_remain(
            entries in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..5),
        ) {
            let (mut bytes, mut ends) = (Vec::new(), vec![0]);
            for entry in &entries {
                Frame::Entry(entry).write(&mut bytes);
                ends.push(bytes.len());
            }
            for cut in 0..=bytes.len() {
                let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
                let (found, sound) = read(&bytes[..cut]);
                prop_assert_eq!(&found, &entries[..whole]);
                prop_assert_eq!(sound, ends.contains(&cut), "cut at {}", cut);
            }
        }

        #[test]
        fn a_changed_byte_ends_the_file_where_it_is(
            entries in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..5),
            at in any::<prop::sample::Index>(),
            flip in 1..=255_u8,
        ) {
            let (mut bytes, mut ends) = (Vec::new(), Vec::new());
            for entry in &entries {
                Frame::Entry(entry).write(&mut bytes);
                ends.push(bytes.len());
            }
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            let before = ends.iter().filter(|end| **end <= at).count();
            let (found, sound) = read(&bytes);
            prop_assert!(!sound);
            prop_assert_eq!(&found, &entries[..before]);
        }
    }

    #[test]
    fn a_frame_is_found_behind_bytes_that_are_none_and_not_in_a_part_of_one() {
        let entry = |n: u64| {
            let draft = crate::Draft::new(5, "test", crate::Body::of(&"x".repeat(300)).unwrap());
            let mut bytes = Vec::new();
            Frame::Entry(&draft.sealed("p", n).unwrap()).write(&mut bytes);
            bytes
        };
        let (first, second) = (entry(1), entry(2));
        for cut in 1..first.len() {
            assert_eq!(ahead(&first[..cut], 0), Ahead::Nothing, "cut at {cut}");
            let torn = [&first[..cut], &second[..]].concat();
            assert_eq!(ahead(&torn, 1), Ahead::At(cut), "cut at {cut}");
        }
        let crafted = [0, 0, 1, 0].repeat(100_000);
        assert_eq!(ahead(&crafted, 0), Ahead::Unclear, "looking is bounded");
    }

    #[test]
    fn a_pruned_entry_is_its_hash() {
        let (mut bytes, hash) = (Vec::new(), leaf_hash(b"gone"));
        Frame::Pruned(hash).write(&mut bytes);
        let mut frames = Frames::new(bytes.as_slice());
        assert_eq!(frames.next().unwrap(), Next::Frame(Frame::Pruned(hash)));
        assert_eq!(frames.next().unwrap(), Next::End);
        assert_eq!(frames.offset(), 40);
        assert_eq!(read(&[0; 64]), (Vec::new(), false), "what a disk left empty is no frame");
    }
}
