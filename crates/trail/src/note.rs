//! Keys, signed notes and checkpoints, as C2SP writes them.
//!
//! A checkpoint says how many entries a log has and what the root of the tree over them is: three lines (origin, size, root in Base64), as
//! [tlog-checkpoint](https://c2sp.org/tlog-checkpoint) has them, followed by a blank line and signatures, as
//! [signed-note](https://c2sp.org/signed-note) has them. A signature names its key by four bytes of a hash; those of unknown keys are
//! ignored, so witnesses add theirs.
//!
//! Who can read the key can sign anything. It proves to others where a checkpoint comes from; against the user who owns the key, what
//! counts is that somebody else has kept an earlier checkpoint.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

use crate::TrailError;
use crate::files::{Links, open_as};
use crate::merkle::{HASH_BYTES, Hash};

/// The type of an Ed25519 key in a signed note.
const ED25519_KEY: u8 = 1;
/// The most bytes of a key or a checkpoint in a file.
pub(crate) const MAX_FILE_BYTES: u64 = 16 * 1024;
/// The most signatures of a note that are read.
const MAX_SIGNATURES: usize = 32;

/// A key that checks signatures: `name+hash+key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierKey {
    name: String,
    key: [u8; 32],
}

impl VerifierKey {
    /// Returns the key of that name; `None` for a name that no note can hold.
    pub fn new(name: &str, key: [u8; 32]) -> Option<Self> {
        is_name(name).then(|| Self { name: name.to_owned(), key })
    }

    /// Returns its name: the origin of the log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the public key itself.
    pub fn public(&self) -> &[u8; 32] {
        &self.key
    }

    /// Returns what names it in a signature.
    fn id(&self) -> [u8; 4] {
        key_id(&self.name, ED25519_KEY, &self.key)
    }

    /// Returns whether it signed the text.
    pub fn has_signed(&self, text: &str, signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.key).verify(text.as_bytes(), signature).is_ok()
    }
}

/// Returns what names a key in a signature.
pub(crate) fn key_id(name: &str, kind: u8, key: &[u8; 32]) -> [u8; 4] {
    let mut input = name.as_bytes().to_vec();
    input.extend_from_slice(&[b'\n', kind]);
    input.extend_from_slice(key);
    let hash = digest(&SHA256, &input);
    hash.as_ref().first_chunk::<4>().copied().unwrap_or_default()
}

pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 256 && !name.contains(|char: char| char.is_whitespace() || char == '+')
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut key = vec![ED25519_KEY];
        key.extend_from_slice(&self.key);
        write!(f, "{}+{:08x}+{}", self.name, u32::from_be_bytes(self.id()), BASE64.encode(key))
    }
}

impl FromStr for VerifierKey {
    type Err = TrailError;

    fn from_str(text: &str) -> Result<Self, TrailError> {
        let read = || {
            let (name, rest) = text.trim().split_once('+')?;
            let (id, key) = rest.split_once('+')?;
            let key = BASE64.decode(key).ok()?;
            let (&ED25519_KEY, key) = key.split_first()? else { return None };
            let key = Self::new(name, key.try_into().ok()?)?;
            (u32::from_str_radix(id, 16).ok()?.to_be_bytes() == key.id()).then_some(key)
        };
        read().ok_or(TrailError::NotAVerifierKey)
    }
}

/// A key that signs.
pub struct SigningKey(Ed25519KeyPair);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey").field(&BASE64.encode(self.public())).finish()
    }
}

impl SigningKey {
    /// Returns the key in the file. It is made, readable by its owner only, if there is no file.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when the file can't be read or made, or holds something else.
    pub fn open(path: &Path) -> Result<Self, TrailError> {
        if !path.try_exists().unwrap_or(true) {
            create(path)?;
        }
        Self::read(path)
    }

    /// Returns the key in the file.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when the file can't be read, or holds something else.
    pub fn read(path: &Path) -> Result<Self, TrailError> {
        let text = read_text(path, Links::Followed)?;
        let key = BASE64.decode(text.trim()).ok().and_then(|key| Ed25519KeyPair::from_pkcs8(&key).ok());
        key.map(Self).ok_or_else(|| TrailError::Damaged { path: path.to_path_buf(), what: "key that signs" })
    }

    /// Returns the public half.
    pub fn public(&self) -> [u8; 32] {
        self.0.public_key().as_ref().first_chunk::<32>().copied().unwrap_or_default()
    }

    /// Returns what others need to check signatures of whoever writes the log: by the key in this file, and by the one before it, which lies
    /// beside it. Where there is no file, there is none.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when a file is there and can't be read, or holds something else.
    pub fn own_verifiers(path: &Path, origin: &str) -> Result<Vec<VerifierKey>, TrailError> {
        Ok(OwnKeys::read(path)?.verifiers(origin))
    }

    /// Returns what others need to check its signatures of a log; `None` for an origin that no note can hold.
    pub fn verifier(&self, origin: &str) -> Option<VerifierKey> {
        VerifierKey::new(origin, self.public())
    }

    /// Signs a text.
    pub fn sign(&self, text: &str) -> Vec<u8> {
        self.0.sign(text.as_bytes()).as_ref().to_vec()
    }
}

/// The keys of a log whose signatures count for whoever writes it: the one that signs, and the one before it, since a crash may come between
/// handing over and the first signature of the new one.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnKeys {
    current: Option<[u8; 32]>,
    previous: Option<[u8; 32]>,
}

impl OwnKeys {
    /// Reads the keys at `path` and beside it. Where there is none, nothing is signed by one of them.
    ///
    /// # Errors
    ///
    /// [`TrailError`] where a file is there and can't be read, or holds something else: whose signatures count is not known then.
    pub(crate) fn read(path: &Path) -> Result<Self, TrailError> {
        let key = |path: &Path| match SigningKey::read(path) {
            Err(TrailError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(|key| Some(key.public())),
        };
        Ok(Self { current: key(path)?, previous: key(&beside(path, PREVIOUS_KEY))? })
    }

    /// Returns what others need to check their signatures of a log.
    pub(crate) fn verifiers(&self, origin: &str) -> Vec<VerifierKey> {
        let keys = self.current.iter().chain(&self.previous);
        keys.filter_map(|key| VerifierKey::new(origin, *key)).collect()
    }

    /// Returns whether one of them signed the checkpoint of the log that it names.
    pub(crate) fn have_signed(&self, note: &SignedCheckpoint) -> bool {
        self.verifiers(&note.checkpoint.origin).iter().any(|verifier| note.is_signed_by(verifier))
    }

    /// Returns whether the one that signs now signed it.
    pub(crate) fn current_has_signed(&self, note: &SignedCheckpoint) -> bool {
        let current = self.current.and_then(|key| VerifierKey::new(&note.checkpoint.origin, key));
        current.is_some_and(|verifier| note.is_signed_by(&verifier))
    }
}

/// What is behind the name of the file of the key that signed before.
pub(crate) const PREVIOUS_KEY: &str = ".old";
/// What is behind the name of the file of the key that is to sign next.
pub(crate) const NEXT_KEY: &str = ".next";

/// Returns the files that hold keys of the trail whose key is at `key`, there or not: it, the one that it has replaced, which still counts, and the
/// one that soon replaces it.
pub fn key_files(key: &Path) -> [PathBuf; 3] {
    [key.to_path_buf(), beside(key, PREVIOUS_KEY), beside(key, NEXT_KEY)]
}

/// Returns the file beside that of a key.
pub(crate) fn beside(key: &Path, suffix: &str) -> PathBuf {
    let mut name = key.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Makes the file whole under another name first: nobody ever reads half a key, and of two processes that make one at once the first has
/// its way.
fn create(path: &Path) -> Result<(), TrailError> {
    let failed = TrailError::file(path, "created");
    let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| TrailError::NoKey)?;
    let mut folders = fs::DirBuilder::new();
    folders.recursive(true);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
        folders.mode(0o700);
        options.mode(0o600);
    }
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", uuid::Uuid::new_v4().simple()));
    let draft = PathBuf::from(draft);
    let written = (|| {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            folders.create(folder)?;
        }
        let mut file = options.open(&draft)?;
        writeln!(file, "{}", BASE64.encode(key.as_ref()))?;
        file.sync_all()?;
        match fs::hard_link(&draft, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    })();
    // The draft holds a key that nobody uses, or the one that is in its place now.
    let _ = fs::remove_file(&draft);
    written.map_err(failed)
}

/// Reads a short text.
pub(crate) fn read_text(path: &Path, links: Links) -> Result<String, TrailError> {
    let mut bytes = Vec::new();
    let read = |bytes: &mut Vec<u8>| {
        let file = open_as(path, OpenOptions::new().read(true), links)?;
        file.take(MAX_FILE_BYTES + 1).read_to_end(bytes)
    };
    read(&mut bytes).map_err(TrailError::file(path, "read"))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(TrailError::Damaged { path: path.to_path_buf(), what: "text of this length" });
    }
    // What is no text is nothing else either: whoever reads on says so.
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

/// How many entries a log has, and the root of the tree over them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Which log.
    pub origin: String,
    /// How many entries.
    pub size: u64,
    /// The root of the tree.
    pub root: Hash,
}

impl Checkpoint {
    /// Returns what is signed.
    pub fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, BASE64.encode(self.root))
    }

    /// Signs the checkpoint; during a rotation with both keys.
    pub fn signed(self, keys: &[&SigningKey]) -> SignedCheckpoint {
        let text = self.text();
        let signatures = keys.iter().filter_map(|key| {
            let verifier = key.verifier(&self.origin)?;
            Some(Signature { name: self.origin.clone(), id: verifier.id(), bytes: key.sign(&text) })
        });
        let signatures = signatures.collect();
        SignedCheckpoint { checkpoint: self, text, signatures }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Signature {
    name: String,
    id: [u8; 4],
    bytes: Vec<u8>,
}

/// A checkpoint with its signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedCheckpoint {
    checkpoint: Checkpoint,
    text: String,
    signatures: Vec<Signature>,
}

impl SignedCheckpoint {
    /// Returns what it says. What the signatures are worth is for [`is_signed_by`](Self::is_signed_by) to say.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Returns whether the key signed it. The key that a note names itself says nothing about who made it.
    pub fn is_signed_by(&self, key: &VerifierKey) -> bool {
        let id = key.id();
        let mut named = self.signatures.iter().filter(|found| found.id == id && found.name == key.name);
        named.any(|found| key.has_signed(&self.text, &found.bytes))
    }

    /// Returns what names the keys by which the log says that it signed: the same key has the same one. Anybody can write them; what the signatures
    /// are worth is for [`is_signed_by`](Self::is_signed_by) to say.
    pub fn own_key_ids(&self) -> BTreeSet<[u8; 4]> {
        let own = self.signatures.iter().filter(|found| found.name == self.checkpoint.origin);
        own.map(|found| found.id).collect()
    }

    /// Returns what is signed.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the signatures that name a key so.
    pub(crate) fn signatures_of(&self, name: &str, id: [u8; 4]) -> impl Iterator<Item = &[u8]> {
        let named = self.signatures.iter().filter(move |found| found.id == id && found.name == name);
        named.map(|found| found.bytes.as_slice())
    }

    /// Returns the checkpoint with lines of signatures of others; `None` where they are none, or too many.
    pub fn with_signatures(&self, lines: &str) -> Option<Self> {
        format!("{self}{lines}").parse().ok()
    }

    /// Reads the checkpoint in a file.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when the file can't be read, or holds something else.
    pub fn read(path: &Path) -> Result<Self, TrailError> {
        Self::read_as(path, Links::Followed)
    }

    /// Reads the checkpoint in a file of a log.
    pub(crate) fn of_log(path: &Path) -> Result<Self, TrailError> {
        Self::read_as(path, Links::Refused)
    }

    fn read_as(path: &Path, links: Links) -> Result<Self, TrailError> {
        let damaged = |_| TrailError::Damaged { path: path.to_path_buf(), what: "signed checkpoint" };
        read_text(path, links)?.parse().map_err(damaged)
    }
}

impl fmt::Display for SignedCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)?;
        self.signatures.iter().try_for_each(|Signature { name, id, bytes }| {
            let mut all = id.to_vec();
            all.extend_from_slice(bytes);
            writeln!(f, "— {name} {}", BASE64.encode(all))
        })
    }
}

impl FromStr for SignedCheckpoint {
    type Err = TrailError;

    fn from_str(note: &str) -> Result<Self, TrailError> {
        parse(note).ok_or(TrailError::NotACheckpoint)
    }
}

fn parse(note: &str) -> Option<SignedCheckpoint> {
    let (text, signatures) = note.rsplit_once("\n\n")?;
    let text = format!("{text}\n");
    let mut lines = text.split_terminator('\n');
    let (origin, size, root) = (lines.next()?, lines.next()?, lines.next()?);
    let (size, root) = (decimal(size)?, hash(root)?);
    if !is_name(origin) || lines.any(str::is_empty) || !signatures.ends_with('\n') {
        return None;
    }
    let signatures = signatures.split_terminator('\n').map(signature).collect::<Option<Vec<_>>>()?;
    let sound = !signatures.is_empty() && signatures.len() <= MAX_SIGNATURES;
    let checkpoint = Checkpoint { origin: origin.to_owned(), size, root };
    sound.then_some(SignedCheckpoint { checkpoint, text, signatures })
}

fn signature(line: &str) -> Option<Signature> {
    let (name, bytes) = line.strip_prefix("— ")?.split_once(' ')?;
    let bytes = BASE64.decode(bytes).ok()?;
    let (id, bytes) = bytes.split_first_chunk::<4>()?;
    is_name(name).then(|| Signature { name: name.to_owned(), id: *id, bytes: bytes.to_vec() })
}

/// Reads a number that is written in the one way.
pub(crate) fn decimal(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// Reads a hash in Base64.
pub(crate) fn hash(text: &str) -> Option<Hash> {
    <[u8; HASH_BYTES]>::try_from(BASE64.decode(text).ok()?).ok()
}

/// Reads Base64.
pub(crate) fn bytes(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

/// Writes a hash in Base64.
pub(crate) fn base64(hash: &[u8]) -> String {
    BASE64.encode(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> SigningKey {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        SigningKey(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }

    fn signature_of(name: &str, bytes: &str) -> Signature {
        signature(&format!("— {name} {bytes}")).unwrap()
    }

    fn checkpoint(size: u64) -> Checkpoint {
        Checkpoint { origin: "backstop/a".to_owned(), size, root: [7; 32] }
    }

    #[test]
    fn a_verifier_key_is_the_one_of_the_specification() {
        // The example in the documentation of Go's package `note`, where the format comes from.
        let text = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
        let Ok(key) = text.parse::<VerifierKey>() else { panic!("the key is read") };
        assert_eq!((key.name(), key.to_string().as_str()), ("PeterNeumann", text));
        let said = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n";
        let signature =
            "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=";
        let signature = signature_of("PeterNeumann", signature);
        assert_eq!(signature.id, key.id());
        assert!(key.has_signed(said, &signature.bytes));
        assert!(!key.has_signed(&said.to_uppercase(), &signature.bytes));
        for other in [text.replace("Peter", "Paul"), text.replace("c74f", "c74e"), text.replace('+', "-")] {
            assert!(matches!(other.parse::<VerifierKey>(), Err(TrailError::NotAVerifierKey)), "{other}");
        }
    }

    #[test]
    fn a_checkpoint_is_worth_what_the_key_of_its_signature_is() {
        let (ours, other) = (key(), key());
        let note = checkpoint(7).signed(&[&ours]).to_string();
        let read: SignedCheckpoint = note.parse().unwrap();
        assert_eq!((read.checkpoint(), read.to_string()), (&checkpoint(7), note));
        assert!(read.is_signed_by(&ours.verifier("backstop/a").unwrap()));
        assert!(!read.is_signed_by(&other.verifier("backstop/a").unwrap()));
        assert!(!read.is_signed_by(&ours.verifier("backstop/b").unwrap()));
        let both = checkpoint(7).signed(&[&ours, &other]);
        assert!([&ours, &other].iter().all(|key| both.is_signed_by(&key.verifier("backstop/a").unwrap())));
        assert_eq!((read.own_key_ids().len(), both.own_key_ids().len()), (1, 2));
        assert!(both.own_key_ids().is_superset(&read.own_key_ids()));
    }

    #[test]
    fn no_byte_of_a_checkpoint_can_be_changed() {
        let ours = key();
        let verifier = ours.verifier("backstop/a").unwrap();
        let note = checkpoint(7).signed(&[&ours]).to_string().into_bytes();
        for at in 0..note.len() {
            let mut changed = note.clone();
            changed[at] ^= 1;
            let read = String::from_utf8(changed).ok().and_then(|note| note.parse::<SignedCheckpoint>().ok());
            assert!(!read.is_some_and(|read| read.is_signed_by(&verifier)), "byte {at}");
        }
    }

    #[test]
    fn what_is_no_checkpoint_is_not_read_as_one() {
        let good = checkpoint(7).signed(&[&key()]).to_string();
        for bad in [
            String::new(),
            good.replace("\n7\n", "\n07\n"),
            good.replace("\n7\n", "\n+7\n"),
            good.replace("backstop/a\n7", "a b\n7"),
            good.trim_end().to_owned(),
            good.replace('—', "-"),
            good.split_once("\n\n").unwrap().0.to_owned(),
        ] {
            assert!(bad.parse::<SignedCheckpoint>().is_err(), "{bad:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_key_is_made_once_and_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("backstop/audit.key");
        let first = SigningKey::open(&path).unwrap().public();
        assert_eq!(SigningKey::open(&path).unwrap().public(), first);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no draft stays");
        fs::write(&path, "rubbish").unwrap();
        assert!(matches!(SigningKey::open(&path), Err(TrailError::Damaged { .. })));
        fs::write(&path, " ".repeat(20_000)).unwrap();
        assert!(matches!(SigningKey::open(&path), Err(TrailError::Damaged { .. })));
    }
}
