//! Tapes: recordings that only the holder of a key can read.
//!
//! A tape is a folder of segments. Each segment is a file in the format of [age](https://c2sp.org/age), encrypted to one X25519
//! recipient, so that `age -d -i KEY segment.age` reads it as well. Whoever records has the recipient alone, and can't read what was
//! recorded, not even by the same process a moment later.
//!
//! The laws: *nobody waits for a tape* (a recording goes through a bounded queue); *what is missing is told* (counted, on the tape
//! and beside it); *everything is bounded* (the queue by number and bytes, a segment by bytes and age, the folder by bytes and days).
//!
//! Limits: if the process is killed, what was recorded in the last minute is lost, up to the queue and one chunk of 64 KiB. A segment
//! that was cut off is read up to its last whole chunk, and told to be. Nothing says which segments there should be: whoever can
//! write the folder can delete some, and add others. The crate knows nothing of what is recorded: bytes without a line break, a line each.

mod age;
mod keys;
mod segments;
mod writer;

pub use age::{Decryptor, Encryptor, TapeError};
pub use keys::{Identity, InvalidKey, Recipient};
pub use segments::{Bounds, Pruned, Segment, Tape};
pub use writer::{Note, Recorder, Redact, Settings};
