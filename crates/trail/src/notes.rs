//! The file of all checkpoints, note by note.
//!
//! It grows for as long as the log does, about 250 bytes with each checkpoint, so nobody holds it as a whole: whoever checks the log keeps size
//! and root of each, and whoever writes looks at the end.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom};

use crate::files::{CHECKPOINT_MARK, Files, open};
use crate::note::MAX_FILE_BYTES;
use crate::{SignedCheckpoint, TrailError};

/// The most bytes of checkpoints that are held at once.
const MOST_HELD_BYTES: u64 = 256 << 20;
/// How much of the end is looked at: some thousand checkpoints.
const END_BYTES: u64 = 1 << 20;

/// Checkpoints, each behind its mark.
struct Notes<R> {
    file: R,
    /// What was read of a line.
    line: Vec<u8>,
    /// What was read of a checkpoint before the line.
    note: Vec<u8>,
    /// Whether there was a mark. What is before the first one is no checkpoint.
    begun: bool,
    /// Whether the checkpoint is longer than one is.
    long: bool,
}

impl<R: BufRead> Notes<R> {
    fn new(file: R) -> Self {
        Self { file, line: Vec::new(), note: Vec::new(), begun: false, long: false }
    }

    /// Returns the next checkpoint, which is `None` where there is something else; or that there is none.
    fn next(&mut self) -> io::Result<Option<Option<SignedCheckpoint>>> {
        loop {
            let read = self.file.by_ref().take(MAX_FILE_BYTES).read_until(b'\n', &mut self.line)?;
            // The mark behind a torn one does not begin a line.
            let before = self.line.strip_suffix(CHECKPOINT_MARK.as_bytes()).map(<[u8]>::len);
            let keeps = match (self.line.last(), before) {
                (_, Some(before)) => before,
                _ if read == 0 => self.line.len(),
                (Some(b'\n'), _) => self.line.len(),
                // The rest of it may be the beginning of a mark.
                _ => self.line.len().saturating_sub(CHECKPOINT_MARK.len()),
            };
            self.long |= self.note.len().saturating_add(keeps) as u64 > MAX_FILE_BYTES;
            if self.begun && !self.long {
                self.note.extend(self.line.iter().take(keeps));
            }
            self.line.drain(..keeps);
            if before.is_none() && read > 0 {
                continue;
            }
            self.line.clear();
            let note =
                self.begun.then(|| str::from_utf8(&self.note).ok().filter(|_| !self.long)?.parse().ok());
            self.note.clear();
            (self.begun, self.long) = (before.is_some(), false);
            if note.is_some() || read == 0 {
                return Ok(note);
            }
        }
    }
}

impl Files {
    /// Returns how many bytes of checkpoints there are.
    pub(crate) fn checkpoint_bytes(&self) -> Result<u64, TrailError> {
        let path = self.checkpoints();
        let length = open(&path, OpenOptions::new().read(true)).and_then(|file| file.metadata());
        match length {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            length => Ok(length.map_err(TrailError::file(&path, "read"))?.len()),
        }
    }

    /// Shows the checkpoints that stand between two places in the file of all, in the order in which they were written; `None` for each that
    /// can't be read.
    pub(crate) fn checkpoints_between(
        &self,
        from: u64,
        to: u64,
        mut visit: impl FnMut(Option<SignedCheckpoint>),
    ) -> Result<(), TrailError> {
        if from >= to {
            return Ok(());
        }
        let path = self.checkpoints();
        let shown = open(&path, OpenOptions::new().read(true)).and_then(|mut file| {
            file.seek(SeekFrom::Start(from))?;
            let mut notes = Notes::new(BufReader::new(file.take(to.saturating_sub(from))));
            while let Some(note) = notes.next()? {
                visit(note);
            }
            Ok(())
        });
        shown.map_err(TrailError::file(&path, "read"))
    }

    /// Returns all checkpoints, in the order in which they were written, and how many can't be read.
    pub(crate) fn all_checkpoints(&self) -> Result<(Vec<SignedCheckpoint>, u64), TrailError> {
        let (length, mut all, mut torn) = (self.checkpoint_bytes()?, Vec::new(), 0);
        if length > MOST_HELD_BYTES {
            return Err(TrailError::Damaged { path: self.checkpoints(), what: "checkpoints of this length" });
        }
        self.checkpoints_between(0, length, |note| match note {
            Some(note) => all.push(note),
            None => torn += 1,
        })?;
        Ok((all, torn))
    }

    /// Returns the checkpoints at the end of the file of all, in the order in which they were written.
    pub(crate) fn last_checkpoints(&self) -> Result<Vec<SignedCheckpoint>, TrailError> {
        let (length, mut last) = (self.checkpoint_bytes()?, Vec::new());
        self.checkpoints_between(length.saturating_sub(END_BYTES), length, |note| last.extend(note))?;
        Ok(last)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Checkpoint;

    fn all(bytes: &[u8]) -> Vec<Option<u64>> {
        let (mut notes, mut found) = (Notes::new(bytes), Vec::new());
        while let Some(note) = notes.next().unwrap() {
            found.push(note.map(|note| note.checkpoint().size));
        }
        found
    }

    fn note(size: u64) -> String {
        let signature = format!("— log {}", crate::note::base64(&[7; 68]));
        format!("{}\n{signature}\n", Checkpoint { origin: "log".to_owned(), size, root: [1; 32] }.text())
    }

    proptest! {
        #[test]
        fn of_checkpoints_and_what_is_none_each_is_shown(
            pieces in prop::collection::vec(prop_oneof![
                (0..99_u64).prop_map(|size| (note(size).into_bytes(), Some(size))),
                (0..40_000_usize, any::<bool>()).prop_map(|(count, ends)| {
                    let mut zeros = vec![if ends { b'-' } else { 0 }; count];
                    zeros.extend(ends.then_some(b'\n').filter(|_| count < 2));
                    (zeros, None)
                }),
            ], 0..6),
        ) {
            let mut bytes = b"something\nbefore".to_vec();
            for (piece, _) in &pieces {
                bytes.extend_from_slice(CHECKPOINT_MARK.as_bytes());
                bytes.extend_from_slice(piece);
            }
            let expected: Vec<_> = pieces.iter().map(|(_, size)| *size).collect();
            prop_assert_eq!(all(&bytes), expected);
        }
    }
}
