//! Proofs of single entries of the trail, which others check without the trail.

use std::path::{Path, PathBuf};

use backstop_trail::{Proof, TrailError, VerifierKey};

/// An entry that was proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvedEntry {
    /// Its number in the trail.
    pub seq: u64,
    /// How many entries the trail had when this was signed.
    pub entries: u64,
    /// The entry, as it is kept.
    pub entry: String,
}

/// Why a proof proves nothing.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// The file can't be read.
    #[error("`{path}` can't be read: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It holds no proof, or the key is none.
    #[error(transparent)]
    Form(#[from] TrailError),
    /// The entry was pruned before the proof was made.
    #[error(
        "the proof does not contain the entry: it was pruned before\nhint: the proof proves it to whoever has kept it"
    )]
    NoEntry,
    /// The key did not sign that this entry is in its trail.
    #[error(
        "the proof is false: the entry, its place, or the signature was changed, or the key is another one"
    )]
    False,
}

/// The most bytes of a proof.
const MAX_PROOF_BYTES: u64 = 256 * 1024;

/// Checks the proof in a file, by the key of a trail as `audit verify` prints it.
///
/// # Errors
///
/// [`ProofError`] where it proves nothing.
pub fn check_audit_proof(path: &Path, key: &str) -> Result<ProvedEntry, ProofError> {
    use std::io::Read as _;
    let failed = |source| ProofError::File { path: path.to_path_buf(), source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MAX_PROOF_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_PROOF_BYTES {
        let kind = std::io::ErrorKind::FileTooLarge;
        return Err(failed(std::io::Error::new(kind, format!("it is larger than {MAX_PROOF_BYTES} bytes"))));
    }
    // What is no text is no proof either.
    let proof: Proof = String::from_utf8(bytes).unwrap_or_default().parse()?;
    let key: VerifierKey = key.parse()?;
    let entry = proof.entry.as_ref().ok_or(ProofError::NoEntry)?;
    if !proof.proves(entry, &key) {
        return Err(ProofError::False);
    }
    let entry = String::from_utf8(entry.clone()).map_err(|_| ProofError::False)?;
    Ok(ProvedEntry { seq: proof.index.saturating_add(1), entries: proof.checkpoint.checkpoint().size, entry })
}
