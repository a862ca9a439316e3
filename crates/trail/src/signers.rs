//! Whose signatures count: the keys that a log had, one after the other, and what each of them signed.

use std::ops::ControlFlow;

use crate::entry::{Entry, Envelope, KIND_ROTATED};
use crate::log::rotation_text;
use crate::note::SignedCheckpoint;
use crate::prune::SignedTombstone;
use crate::reader::Reader;
use crate::verify::VerifyError;
use crate::wrong::Wrong;
use crate::{TrailError, VerifierKey};

/// Returns whether no checkpoint of that size is one that was kept elsewhere, or that the key signed.
pub(crate) fn is_foreign(notes: &[(&SignedCheckpoint, bool)], size: u64, key: Option<&VerifierKey>) -> bool {
    let Some(key) = key else { return false };
    let mut of_size = notes.iter().filter(|(note, _)| note.checkpoint().size == size).peekable();
    of_size.peek().is_some() && of_size.all(|(note, kept)| !kept && !note.is_signed_by(key))
}

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

/// Checks who signed the checkpoints. Returns the key that signs now.
pub(crate) fn signatures(
    mut notes: Vec<(&SignedCheckpoint, bool)>,
    trusted: Option<&VerifierKey>,
    rotations: &[Rotation],
) -> Result<Option<VerifierKey>, VerifyError> {
    let Some(trusted) = trusted else { return Ok(None) };
    let keys = keys(trusted, rotations)?;
    notes.sort_by_key(|(note, _)| note.checkpoint().size);
    // Once the next key has signed, the one before it counts no more.
    let mut current = 0;
    for (note, kept) in &notes {
        let by = keys.iter().enumerate().skip(current).rev().find(|(_, key)| note.is_signed_by(key));
        match by {
            Some((by, _)) if !kept => current = by,
            Some(_) => {}
            None if *kept && keys.iter().any(|key| note.is_signed_by(key)) => {}
            None => return Err(VerifyError::Signature { size: note.checkpoint().size }),
        }
    }
    Ok(keys.last().copied().cloned())
}

/// Checks who signed the tombstones, each by its place: the key that signed then, or the one before it, since a crash may come between handing
/// over and the first signature of the new one. Without a trusted key none is checked.
pub(crate) fn tombstones(
    origin: &str,
    tombstones: &[(u64, SignedTombstone)],
    trusted: Option<&VerifierKey>,
    rotations: &[Rotation],
) -> Result<(), VerifyError> {
    let Some(trusted) = trusted.filter(|_| !tombstones.is_empty()) else { return Ok(()) };
    let keys = keys(trusted, rotations)?;
    let mut rotations = rotations.iter().peekable();
    let mut current = 0;
    for (index, SignedTombstone { tombstone, signature }) in tombstones {
        while let Some(rotation) = rotations.next_if(|rotation| rotation.index < *index) {
            current += usize::from(keys.get(current) != Some(&&rotation.to));
        }
        let mut signers = keys.iter().take(current + 1).skip(current.saturating_sub(1));
        let text = tombstone.text(origin).map_err(TrailError::from)?;
        let signature = crate::note::bytes(signature).unwrap_or_default();
        if !signers.any(|key| key.has_signed(&text, &signature)) {
            return Err(VerifyError::Entry { index: *index, why: Wrong::FalseTombstone });
        }
    }
    Ok(())
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
