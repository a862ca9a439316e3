//! The key by which a daemon shows that it is the one that was started here.
//!
//! Any process of the user can listen at the place where hooks look for a daemon. So a daemon writes a key beside its
//! socket, anew at each start and for the user alone, and signs each of its words with it and with what the hook said to
//! be different each time. Who can't read the key can't answer, and who passes questions on to the real daemon only
//! gets the real answer.
//!
//! Limits: a process of the same account that may read the folder has the key. It tells apart who is confined to
//! other places, and who only squats.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use backstop::hooks::Digest;
use rustix::fs::OFlags;

/// More than any key is long.
const MOST_BYTES: u64 = 1024;
/// The bytes of a signature.
pub(super) const TAG_BYTES: usize = 32;

/// A daemon's key.
#[derive(Clone)]
pub(crate) struct Key(String);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

fn place(socket: &Path) -> PathBuf {
    socket.with_extension("key")
}

impl Key {
    /// Makes a new key for the daemon at `socket`.
    pub(crate) fn create(socket: &Path) -> io::Result<Self> {
        let path = place(socket);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let key = backstop::new_token().expose().clone();
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(key.as_bytes())?;
        Ok(Self(key))
    }

    /// Takes the key away.
    pub(crate) fn remove(socket: &Path) {
        // What is left of it opens nothing: the next daemon makes another.
        let _ = fs::remove_file(place(socket));
    }

    /// The key of the daemon at `socket`, which only the user can have written. Where there is none, as beside a daemon of
    /// an earlier version, it is one that nobody has, so that no word is signed with it.
    pub(super) fn of(socket: &Path) -> io::Result<Self> {
        match Self::read(socket) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Self(backstop::new_token().expose().clone()))
            }
            read => read,
        }
    }

    pub(crate) fn read(socket: &Path) -> io::Result<Self> {
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(place(socket))?;
        if !is_ours_alone(&file)? {
            return Err(io::Error::other("its key is not the user's alone"));
        }
        let mut key = String::new();
        file.take(MOST_BYTES + 1).read_to_string(&mut key)?;
        match u64::try_from(key.len()).unwrap_or(u64::MAX) {
            0 => Err(io::Error::other("its key is empty")),
            length if length > MOST_BYTES => Err(io::Error::other("its key is too long")),
            _ => Ok(Self(key)),
        }
    }

    /// The key, to be said to the process that has made it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Whether this is the key that was said. How long that takes tells nothing of it.
    pub(crate) fn is(&self, said: &str) -> bool {
        Digest::of_text("key", &self.0) == Digest::of_text("key", said)
    }

    /// What stands for a key where everybody may ask, and the system says who answers: known to all, so that a signature
    /// says only that a word has come whole.
    pub(super) fn of_service() -> Self {
        Self(String::new())
    }

    /// The signature of a word to whoever asked with that `nonce`.
    pub(super) fn tag(&self, nonce: &str, word: &[u8]) -> [u8; TAG_BYTES] {
        let said = Digest::of_text("word", &String::from_utf8_lossy(word));
        let inner = Digest::of_text("daemon-inner", &format!("{}\0{nonce}\0{said}", self.0));
        *Digest::of_text("daemon-outer", &format!("{}\0{inner}", self.0)).as_bytes()
    }
}

fn is_ours_alone(file: &File) -> io::Result<bool> {
    let found = file.metadata()?;
    Ok(found.is_file() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_new_each_time_and_signs_one_word_to_one_asker() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("hooks.sock");
        assert!(Key::read(&socket).is_err(), "there is none");
        let first = Key::create(&socket).unwrap();
        let tag = first.tag("n", b"{}");
        assert_eq!(Key::read(&socket).unwrap().tag("n", b"{}"), tag);
        assert_ne!(first.tag("m", b"{}"), tag);
        assert_ne!(first.tag("n", b"[]"), tag);
        assert_ne!(Key::create(&socket).unwrap().tag("n", b"{}"), tag);
        Key::remove(&socket);
        assert!(Key::read(&socket).is_err());
    }

    #[test]
    fn a_key_that_is_cut_short_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("hooks.sock");
        Key::create(&socket).unwrap();
        fs::write(place(&socket), "k".repeat(1024)).unwrap();
        assert!(Key::read(&socket).is_ok());
        fs::write(place(&socket), "k".repeat(1025)).unwrap();
        assert_eq!(Key::read(&socket).unwrap_err().to_string(), "its key is too long");
    }

    #[test]
    fn a_key_that_others_may_read_or_that_is_a_link_is_none() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("hooks.sock");
        Key::create(&socket).unwrap();
        fs::set_permissions(place(&socket), fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Key::read(&socket).is_err());
        fs::set_permissions(place(&socket), fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(place(&socket), folder.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), place(&socket)).unwrap();
        assert!(Key::read(&socket).is_err());
    }
}
