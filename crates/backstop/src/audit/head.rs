//! Heads of the audit trail that are signed, to be kept elsewhere.
//!
//! A chain shows what was changed within it. That its end was cut off, or that all of it was written anew, shows only
//! against a head from before: number and digest of the last entry. [`SignedHead`] is such a head with an Ed25519
//! signature, so that whoever keeps it for us (a colleague, a ticket, a log service) can't have made it up, and needs
//! no secret to check it.
//!
//! Who can forge what: the signature says that the holder of the key wrote this head. Whoever can read the key can
//! sign any other one. Against the user whose agent runs here, a key on the same machine proves nothing: what counts
//! is that the *head* was kept where this user, and whatever runs as this user, can't replace it. The key proves to
//! others where a head came from; it does so against the machine's own user only if it lies on something that
//! is there no more than for the moment of signing (`--key /media/...`).

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use backstop_hooks::Digest;
use backstop_store::{AuditHead, Timestamp};
use backstop_trail::{SigningKey, TrailError, VerifierKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

/// The most bytes of a head in a file.
const MAX_FILE_BYTES: u64 = 4096;
/// The name of a key where no log has one. It is no part of what is signed.
const UNNAMED: &str = "head";

/// A head of the audit trail, and who says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignedHead {
    seq: u64,
    digest: Digest,
    at: Timestamp,
    /// The public half of the key that signed, in Base64.
    key: String,
    /// The Ed25519 signature of [`SignedHead::signed_text`], in Base64.
    signature: String,
}

/// Why a key or a signed head can't be used.
#[derive(Debug, thiserror::Error)]
pub enum HeadError {
    /// A file can't be read or written.
    #[error("`{path}` can't be {what}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What was to be done with it.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The file holds no key.
    #[error(
        "`{0}` holds no key that signs heads\nhint: move it away, and `backstop audit head` makes a new one"
    )]
    NotAKey(PathBuf),
    /// The text is no public key.
    #[error("this is no public key of the audit trail\nhint: `backstop audit head` prints it as `key`")]
    NotAPublicKey,
    /// The file is longer than any head.
    #[error("`{0}` is longer than the {MAX_FILE_BYTES} bytes that a signed head has at most")]
    TooLong(PathBuf),
    /// The file holds no signed head.
    #[error("`{0}` holds no signed head\nhint: `backstop audit head` prints one")]
    NotAHead(PathBuf),
    /// Another key signed it.
    #[error(
        "the head was signed with another key: {found}\nhint: `--public-key` says whose heads are trusted"
    )]
    OtherKey {
        /// The key that it names.
        found: String,
    },
    /// The signature is not of this head.
    #[error("the signature of the head is false: it was changed, or made up")]
    Forged,
    /// The system has no randomness or the key can't be made.
    #[error("a key could not be made")]
    NoKey,
}

/// The key that signs heads: that of the trail.
pub struct HeadKey(SigningKey);

impl std::fmt::Debug for HeadKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("HeadKey").field(&self.public()).finish()
    }
}

impl HeadKey {
    /// The key in the file, which is made for its owner only if it is not there.
    ///
    /// # Errors
    ///
    /// [`HeadError`] when the file can't be read or made, or holds something else.
    pub fn open(path: &Path) -> Result<Self, HeadError> {
        SigningKey::open(path).map(Self).map_err(|error| unusable(path, error))
    }

    /// The key in the file, which must be there.
    ///
    /// # Errors
    ///
    /// [`HeadError`] when the file can't be read, or holds something else.
    pub fn read(path: &Path) -> Result<Self, HeadError> {
        SigningKey::read(path).map(Self).map_err(|error| unusable(path, error))
    }

    /// The public half, in Base64: what others need to check a head.
    pub fn public(&self) -> String {
        BASE64.encode(self.0.public())
    }

    /// Signs a head.
    pub fn sign(&self, head: AuditHead, at: Timestamp) -> SignedHead {
        let AuditHead { seq, digest } = head;
        let mut signed = SignedHead { seq, digest, at, key: self.public(), signature: String::new() };
        signed.signature = BASE64.encode(self.0.sign(&signed.signed_text()));
        signed
    }
}

impl SignedHead {
    /// The head in a file.
    ///
    /// # Errors
    ///
    /// [`HeadError`] when the file can't be read, or holds something else. What the signature is worth is for
    /// [`Self::verified`] to say.
    pub fn read(path: &Path) -> Result<Self, HeadError> {
        serde_json::from_str(&read(path)?).map_err(|_| HeadError::NotAHead(path.to_path_buf()))
    }

    /// The head, if the owner of this public key signed it. The key that a head itself names says nothing about who
    /// made it.
    ///
    /// # Errors
    ///
    /// [`HeadError`] when it was signed by somebody else, or not at all.
    pub fn verified(&self, public_key: &str) -> Result<AuditHead, HeadError> {
        let bytes = |text: &str| BASE64.decode(text.trim()).ok();
        let trusted = bytes(public_key).and_then(|key| <[u8; 32]>::try_from(key).ok());
        let trusted = trusted.ok_or(HeadError::NotAPublicKey)?;
        if bytes(&self.key).is_none_or(|key| key != trusted) {
            return Err(HeadError::OtherKey { found: self.key.chars().take(64).collect() });
        }
        let signature = bytes(&self.signature).ok_or(HeadError::Forged)?;
        let key = VerifierKey::new(UNNAMED, trusted).ok_or(HeadError::NotAPublicKey)?;
        if !key.has_signed(&self.signed_text(), &signature) {
            return Err(HeadError::Forged);
        }
        Ok(AuditHead { seq: self.seq, digest: self.digest })
    }

    /// When it was signed, by the clock of the machine that signed.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// What is signed: a title, the number of the entry, its digest, and the time in milliseconds, each ending its line.
    pub fn signed_text(&self) -> String {
        format!("backstop audit head 1\n{}\n{}\n{}\n", self.seq, self.digest, self.at.as_millis())
    }
}

fn unusable(path: &Path, error: TrailError) -> HeadError {
    match error {
        TrailError::File { path, what, source } => HeadError::File { path, what, source },
        TrailError::NoKey => HeadError::NoKey,
        _ => HeadError::NotAKey(path.to_path_buf()),
    }
}

fn read(path: &Path) -> Result<String, HeadError> {
    let failed = |source| HeadError::File { path: path.to_path_buf(), what: "read", source };
    let mut bytes = Vec::new();
    fs::File::open(path).map_err(failed)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(HeadError::TooLong(path.to_path_buf()));
    }
    // What is no text is neither: whoever reads on says so.
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(seq: u64) -> AuditHead {
        AuditHead { seq, digest: Digest::of_text("audit", "x") }
    }

    #[test]
    fn a_head_is_worth_what_the_key_of_its_signature_is() {
        let folder = tempfile::TempDir::new().unwrap();
        let key = HeadKey::open(&folder.path().join("a/key")).unwrap();
        let signed = key.sign(head(7), Timestamp::from_millis(5));
        assert_eq!(signed.verified(&key.public()).unwrap(), head(7));
        let path = folder.path().join("head.json");
        fs::write(&path, serde_json::to_string(&signed).unwrap()).unwrap();
        assert_eq!(SignedHead::read(&path).unwrap(), signed);

        let other = HeadKey::open(&folder.path().join("b/key")).unwrap();
        assert!(matches!(signed.verified(&other.public()), Err(HeadError::OtherKey { .. })));
        let mut renamed = signed.clone();
        renamed.key = other.public();
        assert!(matches!(renamed.verified(&other.public()), Err(HeadError::Forged)));
        assert!(matches!(signed.verified("not a key"), Err(HeadError::NotAPublicKey)));
    }

    #[test]
    fn a_head_that_is_too_long_is_called_so_and_not_cut() {
        let folder = tempfile::TempDir::new().unwrap();
        let key = HeadKey::open(&folder.path().join("key")).unwrap();
        let signed = serde_json::to_string(&key.sign(head(7), Timestamp::from_millis(5))).unwrap();
        let path = folder.path().join("head.json");
        let padded = |bytes: usize| format!("{}{signed}", " ".repeat(bytes - signed.len()));
        fs::write(&path, padded(4096)).unwrap();
        assert!(SignedHead::read(&path).is_ok());
        fs::write(&path, padded(4097)).unwrap();
        let error = SignedHead::read(&path).unwrap_err();
        assert!(matches!(error, HeadError::TooLong(_)), "{error}");
        assert!(matches!(HeadKey::read(&path), Err(HeadError::NotAKey(_))));
        fs::write(&path, [0xff]).unwrap();
        assert!(matches!(SignedHead::read(&path), Err(HeadError::NotAHead(_))));
    }

    #[test]
    fn no_field_of_a_signed_head_can_be_changed() {
        let folder = tempfile::TempDir::new().unwrap();
        let key = HeadKey::open(&folder.path().join("key")).unwrap();
        let signed = key.sign(head(7), Timestamp::from_millis(5));
        let mut forged = vec![signed.clone(); 3];
        forged[0].seq = 6;
        forged[1].digest = Digest::of_text("audit", "y");
        forged[2].at = Timestamp::from_millis(6);
        for forged in forged {
            assert!(matches!(forged.verified(&key.public()), Err(HeadError::Forged)), "{forged:?}");
        }
    }

    #[test]
    fn what_is_no_key_is_called_so() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("backstop/audit.key");
        let first = HeadKey::open(&path).unwrap().public();
        assert_eq!(HeadKey::open(&path).unwrap().public(), first);
        fs::write(&path, "rubbish").unwrap();
        assert!(matches!(HeadKey::open(&path), Err(HeadError::NotAKey(_))));
        assert!(matches!(HeadKey::read(&folder.path().join("none")), Err(HeadError::File { .. })));
    }
}
