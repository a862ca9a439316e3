//! What was seen in a plugin's folder when it was looked at, file by file.
//!
//! The law: *what was looked at is what runs*. Code is read again after the look that its trust was about: a script's modules when they
//! are imported, a program each time that it is started. A [`Seal`] is made by that look, and whatever is read later is held against
//! it.
//!
//! A file that the system says is untouched since then (length, times, number) is taken as it was; one that was changed shortly before
//! the look is read again each time, since the system's times are coarse. Where a system does not tell, every file is read. The same holds for
//! looks of earlier processes ([`Seal::of_kept`]).
//!
//! Limits: between [`Seal::check`] and the start of a program its files are the disk's. Whoever can write there at that moment runs what
//! they like with the rights of the user already.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};

use super::kept::Kept;
use super::{Bounds, ContentHash, Entry, PackageError, Stamp, digest, list, read_file};

/// How coarse the times of files may be.
const COARSE: Duration = Duration::from_secs(3);

/// See the module.
#[derive(Clone, Debug)]
pub struct Seal {
    root: PathBuf,
    hash: ContentHash,
    looked: SystemTime,
    files: BTreeMap<String, (Entry, [u8; 32])>,
}

impl Seal {
    /// Looks at a plugin's folder.
    ///
    /// # Errors
    ///
    /// As [`Package::read`](super::Package::read).
    pub fn of(root: &Path) -> Result<Self, PackageError> {
        Self::knowing(root, &Kept::default())
    }

    /// Looks at a plugin's folder whose digest should be `trusted`, and reads only files that were not seen untouched by an earlier look,
    /// of which `kept` tells. That is written anew where there is more to tell.
    ///
    /// # Errors
    ///
    /// As [`Self::of`].
    pub fn of_kept(root: &Path, trusted: ContentHash, kept: &Path) -> Result<Self, PackageError> {
        let before = Kept::read(kept);
        let seal = match Self::knowing(root, &before)? {
            seal if seal.hash == trusted => seal,
            // Whatever is kept there: what a person is told is what is on the disk.
            _ => Self::of(root)?,
        };
        let now = Kept::of(seal.settled());
        if !now.is(&before) {
            now.write(kept);
        }
        Ok(seal)
    }

    fn knowing(root: &Path, kept: &Kept) -> Result<Self, PackageError> {
        let looked = SystemTime::now();
        let known = |name: &str, entry: &Entry| kept.digest(name, entry);
        let digested = digest(root, &Bounds::default(), &known, &mut |_, _| {})?;
        Ok(Self { root: root.to_owned(), hash: digested.hash, looked, files: digested.entries })
    }

    /// The files that were at rest when they were looked at, so that a later change shows in what the system says of them.
    fn settled(&self) -> impl Iterator<Item = (&String, &Stamp, &[u8; 32])> {
        self.files.iter().filter_map(|(name, (entry, digest))| match entry {
            Entry::File { stamp: Some(stamp), .. } if stamp.is_older_than(self.looked, COARSE) => {
                Some((name, stamp, digest))
            }
            _ => None,
        })
    }

    /// The digest of everything that was seen.
    pub fn hash(&self) -> ContentHash {
        self.hash
    }

    /// Whether the file of this name, with `/` between its parts, had these bytes.
    pub fn holds(&self, name: &str, bytes: &[u8]) -> bool {
        self.digest(name).is_some_and(|digest| Sha256::digest(bytes).as_slice() == digest)
    }

    /// The SHA-256 of what the file of this name had in it.
    pub fn digest(&self, name: &str) -> Option<[u8; 32]> {
        self.files
            .get(name)
            .filter(|(entry, _)| matches!(entry, Entry::File { .. }))
            .map(|(_, digest)| *digest)
    }

    /// Looks whether the folder is as it was.
    ///
    /// # Errors
    ///
    /// [`PackageError::Changed`] with the first file that is not, and as [`Self::of`].
    pub fn check(&self) -> Result<(), PackageError> {
        let changed = |name: &str| PackageError::Changed(PathBuf::from(name));
        let now = list(&self.root, &Bounds::default())?;
        if let Some(name) = self.files.keys().find(|name| !now.contains_key(*name)) {
            return Err(changed(name));
        }
        let mut buffer = Vec::new();
        for (name, entry) in &now {
            let Some((before, digest)) = self.files.get(name) else { return Err(changed(name)) };
            let is_same = match (before, entry) {
                (Entry::Link { target: before }, Entry::Link { target }) => before == target,
                (Entry::File { starts: before, stamp: old }, Entry::File { starts, stamp }) => {
                    before == starts
                        && (self.is_untouched(old.as_ref(), stamp.as_ref()) || {
                            read_file(
                                &self.root.join(name),
                                stamp.as_ref(),
                                &Bounds::default(),
                                &mut buffer,
                            )?;
                            Sha256::digest(&buffer).as_slice() == digest
                        })
                }
                _ => false,
            };
            if !is_same {
                return Err(changed(name));
            }
        }
        Ok(())
    }

    fn is_untouched(&self, before: Option<&Stamp>, now: Option<&Stamp>) -> bool {
        before.is_some_and(|stamp| now == Some(stamp) && stamp.is_older_than(self.looked, COARSE))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What is done to the folder.
    type Change = fn(&Path);

    #[test]
    fn a_seal_holds_what_was_seen_and_nothing_that_came_later() {
        let folder = tempfile::tempdir().unwrap();
        let fresh = || {
            let at = tempfile::tempdir_in(folder.path()).unwrap();
            fs::create_dir(at.path().join("b")).unwrap();
            for (name, text) in [("a.js", "one"), ("b/c.js", "two"), ("run", "three")] {
                fs::write(at.path().join(name), text).unwrap();
            }
            at
        };
        let at = fresh();
        let seal = Seal::of(at.path()).unwrap();
        assert!(seal.check().is_ok() && seal.holds("a.js", b"one") && seal.holds("b/c.js", b"two"));
        assert!(!seal.holds("a.js", b"two") && !seal.holds("c.js", b"two") && !seal.holds("b", b""));
        let changes: [(&str, Change); 6] = [
            ("a.js", |at| fs::write(at.join("a.js"), "eno").unwrap()),
            ("b/c.js", |at| fs::remove_file(at.join("b/c.js")).unwrap()),
            ("new.js", |at| fs::write(at.join("new.js"), "").unwrap()),
            ("a.js", |at| {
                fs::rename(at.join("a.js"), at.join("z.js")).unwrap();
            }),
            ("a.js", |at| {
                // Another file of the same length and time under the same name.
                let time = fs::metadata(at.join("a.js")).unwrap().modified().unwrap();
                fs::write(at.join("other"), "eno").unwrap();
                fs::File::options().write(true).open(at.join("other")).unwrap().set_modified(time).unwrap();
                fs::rename(at.join("other"), at.join("a.js")).unwrap();
            }),
            #[cfg(unix)]
            ("run", |at| {
                use std::os::unix::fs::PermissionsExt as _;
                fs::set_permissions(at.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
            }),
        ];
        for (name, change) in changes {
            let at = fresh();
            let mut seal = Seal::of(at.path()).unwrap();
            change(at.path());
            // Also where the look is long ago, so that the times of files are believed.
            for _ in 0..2 {
                let error = seal.check().unwrap_err().to_string();
                assert!(error.contains(&format!("`{name}`")), "{error}");
                seal.looked += Duration::from_secs(3600);
            }
        }
    }

    #[test]
    fn what_was_written_again_with_the_same_bytes_is_the_same() {
        let at = tempfile::tempdir().unwrap();
        fs::write(at.path().join("a.js"), "one").unwrap();
        let mut seal = Seal::of(at.path()).unwrap();
        seal.looked += Duration::from_secs(3600);
        fs::write(at.path().join("a.js"), "one").unwrap();
        assert!(seal.check().is_ok());
    }

    /// A folder whose files are at rest by now, as far as the look of a seal is told.
    fn at_rest(at: &Path, hash: ContentHash, kept: &Path) -> Seal {
        let mut seal = Seal::of(at).unwrap();
        assert_eq!(seal.hash(), hash);
        seal.looked += Duration::from_secs(3600);
        Kept::of(seal.settled()).write(kept);
        seal
    }

    #[test]
    fn what_an_earlier_look_saw_is_not_read_again_and_whatever_changed_since_is() {
        let outer = tempfile::tempdir().unwrap();
        let (at, kept) = (outer.path().join("plugin"), outer.path().join("looks/mine.json"));
        fs::create_dir_all(at.join("b")).unwrap();
        let write = |name: &str, text: &str| fs::write(at.join(name), text).unwrap();
        let files = [("a.js", "one"), ("b/c.js", "two"), ("run", "three")];
        files.iter().for_each(|(name, text)| write(name, text));
        let hash = Seal::of(&at).unwrap().hash();
        // Nothing is kept of files that were written just now.
        assert_eq!(Seal::of_kept(&at, hash, &kept).unwrap().hash(), hash);
        assert!(Kept::read(&kept).is(&Kept::default()));
        at_rest(&at, hash, &kept);
        let read = |known: &Kept| {
            let mut read = Vec::new();
            let known = |name: &str, entry: &Entry| known.digest(name, entry);
            let digested =
                digest(&at, &Bounds::default(), &known, &mut |name, _| read.push(name.to_owned())).unwrap();
            (digested.hash, read)
        };
        assert_eq!(read(&Kept::read(&kept)), (hash, Vec::new()));
        // What is read is what changed, and the digest is the one of a look at everything.
        let changes: [(&str, &dyn Fn()); 4] = [
            ("a.js", &|| write("a.js", "eno")),
            ("b/new.js", &|| write("b/new.js", "")),
            ("run", &|| {
                let time = fs::metadata(at.join("run")).unwrap().modified().unwrap();
                write("other", "eerht");
                fs::File::options().write(true).open(at.join("other")).unwrap().set_modified(time).unwrap();
                fs::rename(at.join("other"), at.join("run")).unwrap();
            }),
            ("b/c.js", &|| fs::rename(at.join("b/c.js"), at.join("c.js")).unwrap()),
        ];
        for (name, change) in changes {
            at_rest(&at, Seal::of(&at).unwrap().hash(), &kept);
            change();
            let (now, read) = read(&Kept::read(&kept));
            assert_eq!(now, Seal::of(&at).unwrap().hash(), "{name}");
            assert!(
                read.len() == 1 && read[0].ends_with(name.rsplit('/').next().unwrap()),
                "{name}: {read:?}"
            );
            assert_ne!(Seal::of_kept(&at, hash, &kept).unwrap().hash(), hash, "{name}");
        }
    }

    #[test]
    fn what_is_kept_of_a_look_makes_nothing_trusted_and_nothing_else_of_what_runs() {
        let outer = tempfile::tempdir().unwrap();
        let (at, kept) = (outer.path().join("plugin"), outer.path().join("looks/mine.json"));
        fs::create_dir_all(&at).unwrap();
        fs::write(at.join("a.js"), "one").unwrap();
        let hash = Seal::of(&at).unwrap().hash();
        at_rest(&at, hash, &kept);
        let fine = fs::read_to_string(&kept).unwrap();
        // Digests of other bytes lead to another digest of the whole, and then everything is read.
        let other = fine.replace(
            &ContentHash(Sha256::digest("one").into()).to_string(),
            &ContentHash([7; 32]).to_string(),
        );
        assert_ne!(other, fine);
        for text in [&other, "", "{}", "[", &fine.replace("\"form\":1", "\"form\":2")] {
            fs::write(&kept, text).unwrap();
            assert_eq!(Seal::of_kept(&at, hash, &kept).unwrap().hash(), hash, "{text}");
        }
        // Bytes that were changed so that the system says nothing of it are not what the seal holds.
        fs::write(&kept, &fine).unwrap();
        let seal = Seal::of_kept(&at, hash, &kept).unwrap();
        assert!(seal.holds("a.js", b"one") && !seal.holds("a.js", b"two"));
        // A place that can't be written costs time and nothing else.
        let nowhere = outer.path().join("plugin/a.js/looks.json");
        assert_eq!(Seal::of_kept(&at, hash, &nowhere).unwrap().hash(), hash);
    }
}
