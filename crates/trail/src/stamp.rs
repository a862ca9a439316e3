//! Time stamps of checkpoints, as [RFC 3161](https://www.rfc-editor.org/rfc/rfc3161) has them.
//!
//! A time stamping authority signs the SHA-256 of a checkpoint together with its own time: the entries that the checkpoint covers were there
//! then. It keeps nothing, so the token is kept beside the checkpoint, byte by byte as it came.
//!
//! What is checked here is what the answer says: its status, that it is about this checkpoint and this request, and its time. **The signature of the
//! authority is not checked here**: that takes its certificate and the rules of PKIX. `openssl ts -verify` does it, from the two files.
//!
//! The law: *a stamp that was not asked for, or is about something else, is none*. Only what is needed of DER is read, in bounded memory;
//! nothing is followed that the answer points to.

use std::io;
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::files::read;
use crate::witness::COPY;
use crate::{Copies, SignedCheckpoint, TrailError};

/// The media type of a request.
pub const STAMP_QUERY_TYPE: &str = "application/timestamp-query";
/// The media type of an answer.
pub const STAMP_REPLY_TYPE: &str = "application/timestamp-reply";
/// The most bytes of an answer: certificates of its chain are in it.
pub const MAX_STAMP_BYTES: usize = 64 * 1024;

/// What the name of an answer ends with.
const ANSWER: &str = ".tsr";

const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// `[0]`, constructed.
const EXPLICIT: u8 = 0xa0;
/// `AlgorithmIdentifier` of SHA-256, with `NULL` as its parameters (RFC 5754).
const SHA256_ALGORITHM: [u8; 15] =
    [0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00];
/// The object identifier of SHA-256.
const SHA256_OID: [u8; 9] = [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01];
/// `id-signedData`, 1.2.840.113549.1.7.2.
const SIGNED_DATA: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x02];
/// `id-ct-TSTInfo`, 1.2.840.113549.1.9.16.1.4.
const TST_INFO: [u8; 11] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x10, 0x01, 0x04];

/// Why an answer is no stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StampError {
    /// It is no answer of RFC 3161.
    #[error("what it answered is no time stamp")]
    Form,
    /// The authority did not grant it.
    #[error("it did not grant a time stamp: status {0}")]
    Status(u64),
    /// It is about something else.
    #[error("its time stamp is about something else than the checkpoint")]
    Imprint,
    /// It answers another request.
    #[error("its time stamp answers another request")]
    Nonce,
}

/// A request for a stamp of a checkpoint.
#[derive(Clone, Debug)]
pub struct StampRequest {
    imprint: [u8; 32],
    nonce: [u8; 8],
}

impl StampRequest {
    /// Returns a request about a checkpoint, as its file has it, with a random number of 64 bits.
    ///
    /// # Errors
    ///
    /// [`TrailError::NoKey`] where the system gives no randomness.
    pub fn new(note: &SignedCheckpoint) -> Result<Self, TrailError> {
        let mut nonce = [0; 8];
        SystemRandom::new().fill(&mut nonce).map_err(|_| TrailError::NoKey)?;
        Ok(Self { imprint: imprint(note), nonce })
    }

    /// Returns the bytes that are sent (`TimeStampReq`). The certificate of the authority is asked for, so that the token can be checked later.
    pub fn to_der(&self) -> Vec<u8> {
        let imprint = tlv(SEQUENCE, &[&SHA256_ALGORITHM[..], &tlv(OCTETS, &self.imprint)].concat());
        let version = tlv(INTEGER, &[1]);
        let nonce = tlv(INTEGER, &integer(&self.nonce));
        tlv(SEQUENCE, &[version, imprint, nonce, tlv(BOOLEAN, &[0xff])].concat())
    }

    /// Returns what an answer says, if it is the one to this request.
    ///
    /// # Errors
    ///
    /// [`StampError`].
    pub fn check(&self, answer: &[u8]) -> Result<Stamp, StampError> {
        let said = Said::read(answer)?;
        if said.imprint != self.imprint {
            return Err(StampError::Imprint);
        }
        if said.nonce != Some(integer(&self.nonce).as_slice()) {
            return Err(StampError::Nonce);
        }
        Ok(Stamp { at: said.at })
    }
}

/// When a checkpoint was there, as an authority says. Whether it was that authority is not checked here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Its time, in seconds since 1970.
    pub at: i64,
}

impl Stamp {
    /// Returns what an answer that was kept says of a checkpoint.
    ///
    /// # Errors
    ///
    /// [`StampError`] where it is none, or about something else.
    pub fn read(answer: &[u8], note: &SignedCheckpoint) -> Result<Self, StampError> {
        let said = Said::read(answer)?;
        if said.imprint == imprint(note) { Ok(Self { at: said.at }) } else { Err(StampError::Imprint) }
    }
}

/// A checkpoint with its stamp, in a folder of copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// The checkpoint.
    pub note: SignedCheckpoint,
    /// What its stamp says.
    pub stamp: Stamp,
    /// The file of the checkpoint.
    pub checkpoint: PathBuf,
    /// The file of the answer of the authority.
    pub answer: PathBuf,
}

impl Copies {
    /// Keeps a checkpoint, and the answer that stamps it beside it, as it came. Returns whether the answer was not there yet.
    ///
    /// # Errors
    ///
    /// [`TrailError`] where they can't be written.
    pub fn add_stamp(&self, note: &SignedCheckpoint, answer: &[u8]) -> Result<bool, TrailError> {
        self.add(note)?;
        self.add_file(&self.path(note, ANSWER), answer)
    }

    /// Returns the stamped checkpoints of a log, by their sizes, and how many have an answer that is no stamp of them.
    ///
    /// # Errors
    ///
    /// [`TrailError`] where the folder can't be read, or has too many copies.
    pub fn stamped(&self, origin: &str) -> Result<(Vec<Stamped>, u64), TrailError> {
        let (notes, mut unreadable) = self.of(origin)?;
        let mut stamped = Vec::new();
        for note in notes {
            let (checkpoint, answer) = (self.path(&note, COPY), self.path(&note, ANSWER));
            let read = match read(&answer, MAX_STAMP_BYTES as u64) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                read => read.ok().and_then(|bytes| Stamp::read(&bytes, &note).ok()),
            };
            match read {
                Some(stamp) => stamped.push(Stamped { note, stamp, checkpoint, answer }),
                None => unreadable += 1,
            }
        }
        stamped.sort_by_key(|stamped| stamped.note.checkpoint().size);
        Ok((stamped, unreadable))
    }
}

/// Returns the command that checks the signature of the authority of a stamp; `CA.pem` stands for its certificate.
pub fn stamp_check(checkpoint: &Path, answer: &Path) -> String {
    let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', "'\\''"));
    format!("openssl ts -verify -data {} -in {} -CAfile CA.pem", quoted(checkpoint), quoted(answer))
}

/// Returns what is stamped: the SHA-256 of the checkpoint with its signatures.
fn imprint(note: &SignedCheckpoint) -> [u8; 32] {
    let hash = digest(&SHA256, note.to_string().as_bytes());
    hash.as_ref().first_chunk::<32>().copied().unwrap_or_default()
}

/// What an answer says.
struct Said<'a> {
    imprint: &'a [u8],
    nonce: Option<&'a [u8]>,
    at: i64,
}

impl<'a> Said<'a> {
    fn read(answer: &'a [u8]) -> Result<Self, StampError> {
        let form = StampError::Form;
        let answer = only(answer, SEQUENCE).filter(|_| answer.len() <= MAX_STAMP_BYTES).ok_or(form)?;
        let (status, token) = next(answer, SEQUENCE).ok_or(form)?;
        let (status, _) = next(status, INTEGER).ok_or(form)?;
        // Granted, or granted with changes.
        match status {
            [0 | 1] => {}
            other => return Err(StampError::Status(number(other).ok_or(form)?)),
        }
        Self::of_info(info(token).ok_or(form)?).ok_or(form)?
    }

    /// Reads a `TSTInfo`.
    fn of_info(info: &'a [u8]) -> Option<Result<Self, StampError>> {
        let info = only(info, SEQUENCE)?;
        let (version, rest) = next(info, INTEGER)?;
        let (_policy, rest) = next(rest, OID)?;
        let (imprint, rest) = next(rest, SEQUENCE)?;
        let (_serial, rest) = next(rest, INTEGER)?;
        let (time, mut rest) = next(rest, TIME)?;
        let (algorithm, hash) = next(imprint, SEQUENCE)?;
        let (algorithm, _) = next(algorithm, OID)?;
        let imprint = only(hash, OCTETS)?;
        if version != [1] || algorithm != SHA256_OID {
            return Some(Err(StampError::Imprint));
        }
        // How exact the time is, and whether stamps are ordered by it.
        for optional in [SEQUENCE, BOOLEAN] {
            rest = next(rest, optional).map_or(rest, |(_, rest)| rest);
        }
        let nonce = next(rest, INTEGER).map(|(nonce, _)| nonce);
        Some(Ok(Self { imprint, nonce, at: seconds(time)? }))
    }
}

/// Returns the `TSTInfo` in a token: a `ContentInfo` with `SignedData`.
fn info(token: &[u8]) -> Option<&[u8]> {
    let (kind, rest) = next(only(token, SEQUENCE)?, OID)?;
    let signed = only(only(rest, EXPLICIT)?, SEQUENCE)?;
    let (_version, rest) = next(signed, INTEGER)?;
    // A set of digest algorithms.
    let (_algorithms, rest) = next(rest, 0x31)?;
    let (content, _) = next(rest, SEQUENCE)?;
    let (content_kind, content) = next(content, OID)?;
    let is_stamp = kind == SIGNED_DATA && content_kind == TST_INFO;
    only(only(content, EXPLICIT)?, OCTETS).filter(|_| is_stamp)
}

/// Returns the value of the first element, which has this tag, and what stands behind it.
fn next(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (usize::try_from(number(length)?).ok()?, rest)
        }
        // A length that is not known ahead is no DER, and no answer is longer.
        _ => return None,
    };
    rest.split_at_checked(length).filter(|_| *found == tag)
}

/// Returns the value of the only element, which has this tag.
fn only(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    next(bytes, tag).filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value)
}

/// Returns an element.
fn tlv(tag: u8, value: &[u8]) -> Vec<u8> {
    // INVARIANT (a length has one byte): nothing that is written here is as long as 128 bytes.
    let length = u8::try_from(value.len()).unwrap_or(0x7f);
    [&[tag, length][..], value].concat()
}

/// Returns the shortest form of a number that is not negative.
fn integer(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let rest = bytes.get(zeros..).unwrap_or_default();
    let is_padded = rest.first().is_none_or(|first| *first >= 0x80);
    let padding: &[u8] = if is_padded { &[0] } else { &[] };
    [padding, rest].concat()
}

fn number(bytes: &[u8]) -> Option<u64> {
    (bytes.len() <= 8).then(|| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Reads a time in UTC (`20260102030405Z`, with parts of a second or not), in seconds since 1970.
fn seconds(time: &[u8]) -> Option<i64> {
    let time = std::str::from_utf8(time).ok()?.strip_suffix('Z')?;
    let (whole, parts) = time.split_at_checked(14)?;
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let parts =
        parts.strip_prefix('.').map_or(parts.is_empty(), |parts| !parts.is_empty() && is_digits(parts));
    let field = |from: usize, to: usize| whole.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (field(0, 4)?, field(4, 6)?, field(6, 8)?);
    let (hour, minute, second) = (field(8, 10)?, field(10, 12)?, field(12, 14)?);
    let is_time = parts
        && is_digits(whole)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    // The day, counted in years that begin in March (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
    let year = if month <= 2 { year - 1 } else { year };
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = year.div_euclid(400) * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    is_time.then_some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for (text, at) in [
            ("19700101000000Z", Some(0)),
            ("20000229120000Z", Some(951_825_600)),
            ("20240301000000.5Z", Some(1_709_251_200)),
            ("20261129063000Z", Some(1_795_933_800)),
            ("21000301000000Z", Some(4_107_542_400)),
            ("20261129063000", None),
            ("20261329063000Z", None),
            ("20261129243000Z", None),
            ("2026112906300Z", None),
            ("20261129063000.Z", None),
            ("+0261129063000Z", None),
        ] {
            assert_eq!(seconds(text.as_bytes()), at, "{text}");
        }
    }

    #[test]
    fn numbers_have_their_shortest_form() {
        for (bytes, form) in [
            (&[0, 0][..], &[0][..]),
            (&[0, 1], &[1]),
            (&[0, 0x80], &[0, 0x80]),
            (&[0xff, 0], &[0, 0xff, 0]),
            (&[0x7f, 0], &[0x7f, 0]),
        ] {
            assert_eq!(integer(bytes), form);
        }
    }
}
