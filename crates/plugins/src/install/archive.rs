//! A plugin out of an archive: `.tar`, or that compressed with gzip.
//!
//! The archive is a stranger's, and the laws are those of a folder: *nothing lands outside of the folder*, and *what is not
//! known to be harmless is refused*. An entry is a file, a folder or a link, named by plain parts; an absolute name, `..`, a device, a
//! hard link, a sparse file, a size that is said twice, a name that is written twice are errors, not entries less. Links are made when
//! every file is written, so that none of them can be written through; where they lead is looked at with the rest of the folder.
//!
//! Limits: [`Bounds`], as for every plugin; [`MOST_ABOUT`] bytes about an entry; and past [`FREE`] bytes an archive may not unpack to more than
//! [`MOST_RATIO`] times what was read of it.

use std::cell::Cell;
use std::fs;
use std::io::{self, BufReader, Read};
use std::path::{Component, Path, PathBuf};

use tar::{Archive, Entry, EntryType, PaxExtensions};

use super::FetchError;
use crate::package::{Bounds, PackageError, make_link, open_itself, unwritable, write_file};

/// Most bytes of what stands before an entry about it, such as a long name.
const MOST_ABOUT: u64 = 64 << 10;
/// Most bytes of the names and targets of all links, which are made last.
const MOST_LINKS: u64 = 16 << 20;
/// What may be unpacked from however few bytes.
const FREE: u64 = 16 << 20;
/// How many bytes may become of one.
const MOST_RATIO: u64 = 200;
/// What an entry may have beside its bytes: its head, its filling, its longer names.
const BESIDE: u64 = 4 << 10;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZIP: &[u8] = b"PK\x03\x04";

/// Unpacks the archive at `path` into the folder `to`.
///
/// # Errors
///
/// [`FetchError`], which names the entry. What was written by then is left for the caller to remove.
pub(super) fn unpack(path: &Path, to: &Path, bounds: &Bounds) -> Result<(), FetchError> {
    let unreadable = |error| PackageError::Unreadable { path: path.to_owned(), error };
    // A person may name a link to an archive. What it leads to is asked what it is, and not waited for.
    let really = path.canonicalize().map_err(unreadable)?;
    let file = open_itself(&really).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(PackageError::Special(path.to_owned()).into());
    }
    let mut head = Vec::with_capacity(ZIP.len());
    let mut file = BufReader::new(file);
    (&mut file).take(4).read_to_end(&mut head).map_err(unreadable)?;
    if head == ZIP {
        return Err(FetchError::Form("a zip archive is not read".to_owned()));
    }
    let is_packed = head.starts_with(&GZIP);
    let whole = io::Cursor::new(head).chain(file);
    match is_packed {
        true => {
            let read = Cell::new(0);
            let counted = Counted { inner: whole, read: &read };
            let plain = flate2::read::MultiGzDecoder::new(counted);
            untar(Bounded::new(plain, bounds, Some(&read)), to, bounds)
        }
        false => untar(Bounded::new(whole, bounds, None), to, bounds),
    }
}

/// Writes what a tar stream holds into the folder `to`.
pub(super) fn untar(from: impl Read, to: &Path, bounds: &Bounds) -> Result<(), FetchError> {
    let mut archive = Archive::new(from);
    let mut writer =
        Writer { to, bounds, entries: 0, bytes: 0, links: Vec::new(), about: 0, buffer: Vec::new() };
    let mut longer = Longer::default();
    for entry in archive.entries().map_err(broken)?.raw(true) {
        let mut entry = entry.map_err(broken)?;
        match entry.header().entry_type() {
            // It holds for all that follow: the commit, mostly.
            EntryType::XGlobalHeader => longer.read_pax(&mut entry, true)?,
            EntryType::XHeader => longer.read_pax(&mut entry, false)?,
            EntryType::GNULongName => longer.name = Some(text(&mut entry)?),
            EntryType::GNULongLink => longer.link = Some(text(&mut entry)?),
            kind => writer.take(&mut entry, kind, std::mem::take(&mut longer))?,
        }
    }
    writer.link()
}

fn broken(error: io::Error) -> FetchError {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Exceeded>()) {
        Some(exceeded) => FetchError::Exceeded(exceeded.0.clone()),
        None => FetchError::Form(error.to_string()),
    }
}

fn refused(name: &str, what: &'static str) -> FetchError {
    FetchError::Entry { name: backstop_yaml::quote(name), what }
}

/// A name that is too long for an entry's head.
fn text(entry: &mut Entry<'_, impl Read>) -> Result<String, FetchError> {
    let bytes = small(entry)?;
    let text = String::from_utf8(bytes).map_err(|_| refused("?", "has a name that is not valid UTF-8"))?;
    Ok(text.trim_end_matches('\0').to_owned())
}

fn small(entry: &mut Entry<'_, impl Read>) -> Result<Vec<u8>, FetchError> {
    if entry.size() > MOST_ABOUT {
        return Err(refused("?", "has a longer name or more to say of itself than is read"));
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).map_err(broken)?;
    Ok(bytes)
}

/// What stands before an entry about it.
#[derive(Default)]
struct Longer {
    name: Option<String>,
    link: Option<String>,
}

impl Longer {
    fn read_pax(&mut self, entry: &mut Entry<'_, impl Read>, is_global: bool) -> Result<(), FetchError> {
        let bytes = small(entry)?;
        for said in PaxExtensions::new(&bytes) {
            let said = said.map_err(broken)?;
            let (key, value) = (said.key().unwrap_or_default(), said.value());
            let value = || value.map(str::to_owned).map_err(|_| refused(key, "is not valid UTF-8"));
            match key {
                "path" | "linkpath" if is_global => {
                    return Err(refused(key, "is said of all entries at once"));
                }
                "path" => self.name = Some(value()?),
                "linkpath" => self.link = Some(value()?),
                // Two sizes are two ways to read what follows.
                "size" => return Err(refused(key, "is said twice of one entry")),
                sparse if sparse.starts_with("GNU.sparse") => {
                    return Err(refused(key, "stands for a sparse file"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

struct Writer<'a> {
    to: &'a Path,
    bounds: &'a Bounds,
    entries: usize,
    bytes: u64,
    links: Vec<(PathBuf, String)>,
    /// How many bytes the names and targets of links have.
    about: u64,
    buffer: Vec<u8>,
}

impl Writer<'_> {
    fn take(
        &mut self,
        entry: &mut Entry<'_, impl Read>,
        kind: EntryType,
        longer: Longer,
    ) -> Result<(), FetchError> {
        let utf8 = |bytes: &[u8]| {
            String::from_utf8(bytes.to_vec()).map_err(|_| refused("?", "has a name that is not valid UTF-8"))
        };
        let name = match longer.name {
            Some(name) => name,
            None => utf8(&entry.path_bytes())?,
        };
        let Some(path) = self.plain(&name)? else { return Ok(()) };
        self.count(&path)?;
        let place = self.to.join(&path);
        match kind {
            EntryType::Directory => {
                self.folders_above(&path)?;
                make_folder(&place).map_err(unwritable(&place))?;
            }
            EntryType::Regular | EntryType::Continuous => self.file(entry, &path, &place)?,
            EntryType::Symlink => {
                let target = match (longer.link, entry.link_name_bytes()) {
                    (Some(target), _) => target,
                    (None, Some(target)) => utf8(&target)?,
                    (None, None) => return Err(refused(&name, "is a link to nothing")),
                };
                let length = u64::try_from(target.len()).unwrap_or(u64::MAX);
                let named = u64::try_from(name.len()).unwrap_or(u64::MAX);
                self.about = self.about.saturating_add(length).saturating_add(named);
                if self.about > MOST_LINKS {
                    return Err(FetchError::Exceeded(format!("its links say more than {MOST_LINKS} bytes")));
                }
                self.links.push((path, target));
            }
            EntryType::Link => return Err(refused(&name, "is a hard link")),
            EntryType::Char | EntryType::Block | EntryType::Fifo => {
                return Err(refused(&name, "is a device or a pipe"));
            }
            _ => return Err(refused(&name, "is no file, no folder and no link")),
        }
        Ok(())
    }

    /// Counts one thing more that comes to be in the folder, before it does.
    fn count(&mut self, path: &Path) -> Result<(), FetchError> {
        self.entries += 1;
        let most = u64::try_from(self.bounds.entries).unwrap_or(u64::MAX);
        match self.entries > self.bounds.entries {
            true => {
                Err(PackageError::TooMuch { what: "files and folders", most, path: path.to_owned() }.into())
            }
            false => Ok(()),
        }
    }

    /// Makes the folders in which this lies, those that are not there. They count, though the archive does not name them.
    fn folders_above(&mut self, path: &Path) -> Result<(), FetchError> {
        let mut missing: Vec<&Path> = path
            .ancestors()
            .skip(1)
            .filter(|above| *above != Path::new(""))
            .take_while(|above| self.to.join(above).symlink_metadata().is_err())
            .collect();
        while let Some(above) = missing.pop() {
            self.count(above)?;
            let place = self.to.join(above);
            fs::create_dir(&place).map_err(unwritable(&place))?;
        }
        Ok(())
    }

    /// The path that a name means below the folder; `None` for the folder itself.
    fn plain(&self, name: &str) -> Result<Option<PathBuf>, FetchError> {
        if name.contains('\0') || name.contains('\\') {
            return Err(refused(name, "has a name with a backslash or a zero byte"));
        }
        let mut path = PathBuf::new();
        for part in Path::new(name).components() {
            match part {
                Component::Normal(part) => path.push(part),
                Component::CurDir => {}
                Component::ParentDir => return Err(refused(name, "leads out of the folder with `..`")),
                Component::RootDir | Component::Prefix(_) => {
                    return Err(refused(name, "has an absolute name"));
                }
            }
        }
        if path.components().count() > self.bounds.depth.saturating_add(1) {
            let most = u64::try_from(self.bounds.depth).unwrap_or(u64::MAX);
            return Err(PackageError::TooMuch { what: "folders inside of each other", most, path }.into());
        }
        Ok((path != Path::new("")).then_some(path))
    }

    fn file(
        &mut self,
        entry: &mut Entry<'_, impl Read>,
        path: &Path,
        place: &Path,
    ) -> Result<(), FetchError> {
        let too_much = |what, most| PackageError::TooMuch { what, most, path: path.to_owned() };
        if entry.size() > self.bounds.file {
            return Err(too_much("bytes in one file", self.bounds.file).into());
        }
        self.bytes = self.bytes.saturating_add(entry.size());
        if self.bytes > self.bounds.bytes {
            return Err(too_much("bytes", self.bounds.bytes).into());
        }
        self.folders_above(path)?;
        let starts = entry.header().mode().is_ok_and(|mode| mode & 0o111 != 0);
        let size = entry.size();
        self.buffer.clear();
        entry.read_to_end(&mut self.buffer).map_err(broken)?;
        if u64::try_from(self.buffer.len()).ok() != Some(size) {
            return Err(FetchError::Form("it ends in the middle of a file".to_owned()));
        }
        match write_file(place, &self.buffer, starts) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(refused(&path.to_string_lossy(), "is there twice"))
            }
            written => Ok(written.map_err(unwritable(place))?),
        }
    }

    /// Makes the links. Whatever has the name of one by now is an entry of the archive, too.
    fn link(mut self) -> Result<(), FetchError> {
        for (path, target) in std::mem::take(&mut self.links) {
            let place = self.to.join(&path);
            // A link that stands in the way of this one is followed by nobody: what is behind it was not made by us.
            let parents = path.ancestors().skip(1).filter(|parent| *parent != Path::new(""));
            for parent in parents {
                if self.to.join(parent).symlink_metadata().is_ok_and(|found| found.is_symlink()) {
                    return Err(refused(&path.to_string_lossy(), "lies behind a link"));
                }
            }
            self.folders_above(&path)?;
            match make_link(&target, &place) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(refused(&path.to_string_lossy(), "is there twice"));
                }
                made => made.map_err(unwritable(&place))?,
            }
        }
        Ok(())
    }
}

/// Makes a folder, unless there is one.
fn make_folder(place: &Path) -> io::Result<()> {
    match fs::create_dir(place) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && place.symlink_metadata()?.is_dir() => {
            Ok(())
        }
        made => made,
    }
}

/// That there is more in a stream than is unpacked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Exceeded(String);

/// Counts what is read.
struct Counted<'a, R> {
    inner: R,
    read: &'a Cell<u64>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.read.set(self.read.get().saturating_add(u64::try_from(length).unwrap_or(u64::MAX)));
        Ok(length)
    }
}

/// A stream with an end that we set: also what is passed over in it is read.
pub(super) struct Bounded<'a, R> {
    inner: R,
    unpacked: u64,
    most: u64,
    packed: Option<&'a Cell<u64>>,
}

impl<'a, R> Bounded<'a, R> {
    pub(super) fn new(inner: R, bounds: &Bounds, packed: Option<&'a Cell<u64>>) -> Self {
        let beside =
            u64::try_from(bounds.entries).unwrap_or(u64::MAX).saturating_add(4).saturating_mul(BESIDE);
        Self { inner, unpacked: 0, most: bounds.bytes.saturating_add(beside), packed }
    }
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.unpacked = self.unpacked.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        if self.unpacked > self.most {
            return Err(io::Error::other(Exceeded(format!("it unpacks to more than {} bytes", self.most))));
        }
        let allowed = |packed: &Cell<u64>| packed.get().saturating_mul(MOST_RATIO).max(FREE);
        if self.packed.is_some_and(|packed| self.unpacked > allowed(packed)) {
            let ratio = format!("it unpacks to more than {MOST_RATIO} times its size");
            return Err(io::Error::other(Exceeded(ratio)));
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests;
