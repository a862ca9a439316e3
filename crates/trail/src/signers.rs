//! Whose signatures count: the keys that a log had, one after the other, and what each of them signed.

use std::ops::ControlFlow;

use sha2::{Digest as _, Sha256};

use crate::entry::{Entry, Envelope, KIND_ROTATED};
use crate::files::Files;
use crate::log::rotation_text;
use crate::merkle::Hash;
use crate::note::SignedCheckpoint;
use crate::prune::SignedTombstone;
use crate::reader::Reader;
use crate::verify::VerifyError;
use crate::wrong::Wrong;
use crate::{Checkpoint, TrailError, VerifierKey};

/// A handing over from one key to the next.
#[derive(Debug)]
pub(crate) struct Rotation {
    pub(crate) index: u64,
    pub(crate) from: VerifierKey,
    pub(crate) to: VerifierKey,
}

/// Returns the checkpoints that were kept elsewhere and that a key of the log has signed, and how many others there are: where they are kept,
/// somebody may have put in what they like, and that says nothing of the log. Without a key all count.
pub(crate) fn vouching<'n>(
    log: &Reader,
    kept: &'n [SignedCheckpoint],
    trusted: Option<&VerifierKey>,
) -> Result<(Vec<&'n SignedCheckpoint>, u64), TrailError> {
    let Some(trusted) = trusted else { return Ok((kept.iter().collect(), 0)) };
    let mut keys = vec![trusted.clone()];
    // The keys before and after it are asked for only where one of them may have signed.
    if kept.iter().any(|note| !note.is_signed_by(trusted)) {
        let mut rotations = Vec::new();
        log.scan(0, |index, frame| {
            let entry = frame
                .entry()
                .filter(|bytes| Envelope::read(bytes).is_some_and(|envelope| envelope.kind == KIND_ROTATED));
            rotations.extend(entry.and_then(Entry::read).and_then(|entry| rotation(index, &entry)));
            ControlFlow::Continue(())
        })?;
        keys.extend(rotations.iter().flat_map(|rotation| [rotation.from.clone(), rotation.to.clone()]));
    }
    let (vouching, foreign): (Vec<_>, Vec<_>) =
        kept.iter().partition(|note| keys.iter().any(|key| note.is_signed_by(key)));
    Ok((vouching, foreign.len() as u64))
}

/// Reads the handing over of a key, if both have signed it.
pub(crate) fn rotation(index: u64, entry: &Entry) -> Option<Rotation> {
    let text = |field: &str| entry.body.get(field)?.as_str();
    let (from, to): (VerifierKey, VerifierKey) = (text("from")?.parse().ok()?, text("to")?.parse().ok()?);
    let signatures = entry.body.get("signatures")?.as_array()?;
    let signed = rotation_text(from.name(), &to.to_string());
    let sound = signatures.len() == 2
        && [&from, &to].iter().zip(signatures).all(|(key, signature)| {
            let signature = signature.as_str().and_then(crate::note::bytes);
            signature.is_some_and(|signature| key.has_signed(&signed, &signature))
        });
    (sound && from.name() == to.name()).then_some(Rotation { index, from, to })
}

/// A checkpoint, and which of the keys of the log has signed it: of several the last.
#[derive(Clone, Copy, Debug)]
struct Signed {
    size: u64,
    by: Option<usize>,
    kept: bool,
}

/// The keys that a log had, and what they signed.
#[derive(Debug)]
pub(crate) struct Signers {
    keys: Vec<VerifierKey>,
    /// By size.
    signed: Vec<Signed>,
    /// By key, the size of the first checkpoint that it has signed, or one behind it.
    since: Vec<u64>,
}

impl Signers {
    /// Finds out who signed the checkpoints of a log.
    pub(crate) fn of(
        files: &Files,
        notes: &Notes<'_>,
        trusted: &VerifierKey,
        rotations: &[Rotation],
    ) -> Result<Self, VerifyError> {
        let keys: Vec<VerifierKey> = keys(trusted, rotations)?.into_iter().cloned().collect();
        let signed = notes.signed(files, &keys)?;
        let mut since = vec![u64::MAX; keys.len()];
        for (place, since) in since.iter_mut().enumerate() {
            let by = signed.iter().filter(|signed| signed.by >= Some(place));
            *since = by.map(|signed| signed.size).min().unwrap_or(u64::MAX);
        }
        Ok(Self { keys, signed, since })
    }

    /// Checks who signed the checkpoints. Returns the key that signs now.
    pub(crate) fn checkpoints(&self) -> Result<Option<VerifierKey>, VerifyError> {
        // Once the next key has signed, the one before it counts no more.
        let mut current = 0;
        for Signed { size, by, kept } in &self.signed {
            match by {
                Some(by) if *by >= current && !kept => current = *by,
                Some(by) if *by >= current || *kept => {}
                _ => return Err(VerifyError::Signature { size: *size }),
            }
        }
        Ok(self.keys.last().cloned())
    }

    /// Returns whether the key is the last one, and has signed nothing since it took the place of another: then the one before it, which may be in
    /// other hands by now, has signed all that there is.
    pub(crate) fn has_not_signed(&self, trusted: &VerifierKey) -> bool {
        let is_last = self.keys.last() == Some(trusted);
        is_last && self.keys.len() > 1 && self.since.last() == Some(&u64::MAX)
    }

    /// Checks who signed the tombstones, each by its place: the key that signed then, or the one before it while the former has signed no
    /// checkpoint, since a crash may come between handing over and that.
    pub(crate) fn tombstones(
        &self,
        origin: &str,
        tombstones: &[(u64, SignedTombstone)],
        rotations: &[Rotation],
    ) -> Result<(), VerifyError> {
        let mut rotations = rotations.iter().peekable();
        let mut current = 0;
        for (index, SignedTombstone { tombstone, signature }) in tombstones {
            while let Some(rotation) = rotations.next_if(|rotation| rotation.index < *index) {
                current += usize::from(self.keys.get(current) != Some(&rotation.to));
            }
            // INVARIANT (a key that was replaced takes nothing away): whoever has it can add entries, and no process signs with it any more.
            let has_signed = self.since.get(current).is_some_and(|since| since <= index);
            let first = if has_signed { current } else { current.saturating_sub(1) };
            let mut signers = self.keys.iter().take(current + 1).skip(first);
            let text = tombstone.text(origin).map_err(TrailError::from)?;
            let signature = crate::note::bytes(signature).unwrap_or_default();
            if !signers.any(|key| key.has_signed(&text, &signature)) {
                return Err(VerifyError::Entry { index: *index, why: Wrong::FalseTombstone });
            }
        }
        Ok(())
    }
}

/// The checkpoints that a log is compared with.
#[derive(Debug)]
pub(crate) struct Notes<'n> {
    /// How many bytes of the file of all there were.
    bytes: u64,
    /// Of the sizes and roots in there.
    digest: Hash,
    newest: Option<SignedCheckpoint>,
    kept: Vec<&'n SignedCheckpoint>,
    /// How many there are in the file of all, and how many of them can't be read.
    pub(crate) count: u64,
    pub(crate) torn: u64,
}

impl<'n> Notes<'n> {
    /// Reads the checkpoints of a log, and shows size and root of each, and whether it was kept elsewhere.
    pub(crate) fn read(
        log: &Reader,
        origin: &str,
        kept: Vec<&'n SignedCheckpoint>,
        mut show: impl FnMut(&Checkpoint, bool),
    ) -> Result<Self, VerifyError> {
        let (bytes, mut digest) = (log.files().checkpoint_bytes()?, Sha256::new());
        let (mut count, mut torn, mut other) = (0, 0, None);
        let mut look = |note: &SignedCheckpoint, kept| {
            let checkpoint = note.checkpoint();
            if checkpoint.origin != origin {
                other.get_or_insert_with(|| checkpoint.origin.clone());
            }
            show(checkpoint, kept);
        };
        log.files().checkpoints_between(0, bytes, |note| match note {
            Some(note) => {
                count += 1;
                add(&mut digest, note.checkpoint());
                look(&note, false);
            }
            None => torn += 1,
        })?;
        // Whoever appends between the two is seen by the second one only, which is read more: nothing that a checkpoint covers is missed.
        let newest = log.checkpoint()?;
        newest.iter().for_each(|note| look(note, false));
        kept.iter().for_each(|note| look(note, true));
        if let Some(found) = other {
            return Err(VerifyError::OtherLog { found, origin: origin.to_owned() });
        }
        Ok(Self { bytes, digest: digest.finalize().into(), newest, kept, count, torn })
    }

    /// Returns who signed each, by size.
    fn signed(&self, files: &Files, keys: &[VerifierKey]) -> Result<Vec<Signed>, VerifyError> {
        let (mut signed, mut digest) = (Vec::new(), Sha256::new());
        let mut look = |note: &SignedCheckpoint, kept| {
            let by = keys.iter().rposition(|key| note.is_signed_by(key));
            signed.push(Signed { size: note.checkpoint().size, by, kept });
        };
        files.checkpoints_between(0, self.bytes, |note| {
            let Some(note) = note else { return };
            add(&mut digest, note.checkpoint());
            look(&note, false);
        })?;
        // INVARIANT (what is signed is what was compared): they are read twice, since what is compared comes before the keys.
        if Hash::from(digest.finalize()) != self.digest {
            let path = files.checkpoints();
            return Err(TrailError::Damaged { path, what: "checkpoints as they were a moment before" }.into());
        }
        self.newest.iter().for_each(|note| look(note, false));
        self.kept.iter().for_each(|note| look(note, true));
        signed.sort_by_key(|signed| signed.size);
        Ok(signed)
    }

    /// Returns whether no checkpoint of that size is one that was kept elsewhere, or that the key signed.
    pub(crate) fn are_foreign(
        &self,
        files: &Files,
        size: u64,
        key: Option<&VerifierKey>,
    ) -> Result<bool, VerifyError> {
        let Some(key) = key else { return Ok(false) };
        let signed = self.signed(files, std::slice::from_ref(key))?;
        let mut of_size = signed.iter().filter(|signed| signed.size == size).peekable();
        Ok(of_size.peek().is_some() && of_size.all(|signed| !signed.kept && signed.by.is_none()))
    }
}

fn add(digest: &mut Sha256, checkpoint: &Checkpoint) {
    digest.update(checkpoint.size.to_le_bytes());
    digest.update(checkpoint.root);
}

/// Returns the keys that the log had, one after the other.
fn keys<'k>(
    trusted: &'k VerifierKey,
    rotations: &'k [Rotation],
) -> Result<Vec<&'k VerifierKey>, VerifyError> {
    let mut keys = vec![rotations.first().map_or(trusted, |first| &first.from)];
    for rotation in rotations {
        // Each hands over from the one before it; one that was done twice, since a crash came between, is the same again.
        if keys.last() != Some(&&rotation.to) {
            if keys.last() != Some(&&rotation.from) {
                return Err(VerifyError::Entry { index: rotation.index, why: Wrong::FalseRotation });
            }
            keys.push(&rotation.to);
        }
    }
    if !keys.contains(&trusted) {
        return Err(VerifyError::OtherKey);
    }
    Ok(keys)
}
