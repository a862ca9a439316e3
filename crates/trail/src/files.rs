//! Where the parts of a log are.
//!
//! | file | holds |
//! | --- | --- |
//! | `origin` | the name of the log |
//! | `lock` | the lock of whoever writes, and a count of how often files were replaced |
//! | `pruning` | the lock of whoever prunes |
//! | `refused` | there while the disk refused entries that were not written again |
//! | `entries/<first>.log` | a segment: frames from that entry on, which is a multiple of 256 |
//! | `entries/<first>.places` | where every 256th of its entries begins; can be thrown away |
//! | `tile/<level>/<index>` | 256 hashes, as [tlog-tiles](https://c2sp.org/tlog-tiles) names and fills them; full tiles only |
//! | `frontier` | the tree's right edge at the last full tile; can be thrown away |
//! | `checkpoint` | the newest signed checkpoint |
//! | `checkpoints` | all of them, each behind a line `--` |
//! | `torn/<size>-<id>` | bytes that a crash left behind entry `size`, cut off at recovery |
//! | `damaged/<file>-<id>` | an `origin`, a `checkpoint`, a segment or a tile that was none, put aside at recovery |
//!
//! Each is a regular file: what is a link, a pipe or a device is refused, and no reader or writer waits for one.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::TrailError;
use crate::merkle::{HASH_BYTES, Hash, Tile, hashes};
use crate::note::is_name;
use crate::{SignedCheckpoint, TILE};

/// The most bytes of a name.
const MOST_NAME_BYTES: u64 = 4096;
/// The line before each checkpoint in the file of all, so that one that a crash tore spoils no other.
pub(crate) const CHECKPOINT_MARK: &str = "--\n";

/// The folder of a log.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    folder: PathBuf,
}

impl Files {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf() }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the folder, for its owner only.
    pub(crate) fn create(&self) -> Result<(), TrailError> {
        let mut folders = fs::DirBuilder::new();
        folders.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut folders, 0o700);
        let entries = self.entries();
        folders.create(&entries).map_err(TrailError::file(&entries, "created"))
    }

    pub(crate) fn origin(&self) -> PathBuf {
        self.folder.join("origin")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.folder.join("lock")
    }

    pub(crate) fn pruning(&self) -> PathBuf {
        self.folder.join("pruning")
    }

    pub(crate) fn refused(&self) -> PathBuf {
        self.folder.join("refused")
    }

    pub(crate) fn probe(&self) -> PathBuf {
        self.folder.join("probe")
    }

    pub(crate) fn frontier(&self) -> PathBuf {
        self.folder.join("frontier")
    }

    pub(crate) fn checkpoint(&self) -> PathBuf {
        self.folder.join("checkpoint")
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.folder.join("checkpoints")
    }

    pub(crate) fn entries(&self) -> PathBuf {
        self.folder.join("entries")
    }

    pub(crate) fn segment(&self, first: u64) -> PathBuf {
        self.entries().join(format!("{first:016}.log"))
    }

    pub(crate) fn places(&self, first: u64) -> PathBuf {
        self.entries().join(format!("{first:016}.places"))
    }

    /// Returns where a damaged file of that name is put, in a folder that is there.
    pub(crate) fn damaged(&self, name: &str) -> Result<PathBuf, TrailError> {
        let folder = self.folder.join("damaged");
        fs::create_dir_all(&folder).map_err(TrailError::file(&folder, "created"))?;
        Ok(folder.join(format!("{name}-{}", uuid::Uuid::new_v4().simple())))
    }

    pub(crate) fn torn(&self, size: u64) -> PathBuf {
        self.folder.join("torn").join(format!("{size}-{}", uuid::Uuid::new_v4().simple()))
    }

    fn tile(&self, level: u32, index: u64) -> PathBuf {
        let mut path = self.folder.join("tile").join(level.to_string());
        // Groups of three digits, all but the last marked.
        let mut groups = vec![format!("{:03}", index % 1000)];
        let mut rest = index / 1000;
        while rest > 0 {
            groups.push(format!("x{:03}", rest % 1000));
            rest /= 1000;
        }
        path.extend(groups.iter().rev());
        path
    }

    /// Returns the numbers of the first entries of all segments, in order.
    pub(crate) fn segments(&self) -> Result<Vec<u64>, TrailError> {
        let folder = self.entries();
        let listed = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            listed => listed.map_err(TrailError::file(&folder, "listed"))?,
        };
        let mut firsts = Vec::new();
        for file in listed {
            let name = file.map_err(TrailError::file(&folder, "listed"))?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(".log"));
            if let Some(name) = name.filter(|name| name.len() == 16)
                && let Ok(first) = name.parse()
            {
                firsts.push(first);
            }
        }
        firsts.sort_unstable();
        Ok(firsts)
    }

    /// Writes a full tile. Where there is another one, entries that it has were changed, or a power failure took them: it is evidence, and is
    /// put aside. Returns under which name.
    pub(crate) fn put_tile(&self, tile: &Tile) -> Result<Option<String>, TrailError> {
        let path = self.tile(tile.level, tile.index);
        let bytes = tile.hashes.concat();
        let kept = match self.get_tile(tile.level, tile.index)? {
            Some(known) if known == tile.hashes => return Ok(None),
            Some(_) => Some(self.put_aside(&path, &format!("tile-{}-{}", tile.level, tile.index))?),
            None => None,
        };
        match replace(&path, &bytes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = path.parent().unwrap_or(&self.folder);
                fs::create_dir_all(folder).map_err(TrailError::file(folder, "created"))?;
                replace(&path, &bytes).map_err(TrailError::file(&path, "written"))?;
            }
            written => written.map_err(TrailError::file(&path, "written"))?,
        }
        Ok(kept)
    }

    /// Moves a file to where damaged ones are kept. Returns its name there.
    fn put_aside(&self, path: &Path, name: &str) -> Result<String, TrailError> {
        let kept = self.damaged(name)?;
        fs::rename(path, &kept).map_err(TrailError::file(path, "put aside"))?;
        Ok(name_of(&kept))
    }

    /// Returns a full tile; `None` if there is none.
    pub(crate) fn get_tile(&self, level: u32, index: u64) -> Result<Option<Vec<Hash>>, TrailError> {
        let path = self.tile(level, index);
        let bytes = match read(&path, TILE * HASH_BYTES as u64) {
            // What is no tile is as good as none: it can be computed again, and is put in its place when one is written.
            Err(error) if NO_TILE.contains(&error.kind()) => return Ok(None),
            read => read.map_err(TrailError::file(&path, "read"))?,
        };
        // So is one that a power failure emptied.
        let full = bytes.len() as u64 == TILE * HASH_BYTES as u64;
        Ok(hashes(&bytes).filter(|_| full))
    }

    /// Returns the name of the log; `None` where it has none yet.
    pub(crate) fn name(&self) -> Result<Option<String>, TrailError> {
        let path = self.origin();
        let bytes = match read(&path, MOST_NAME_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(TrailError::file(&path, "read"))?,
        };
        let name = String::from_utf8(bytes).ok().map(|name| name.trim().to_owned());
        let name = name.filter(|name| is_name(name));
        name.map(Some).ok_or(TrailError::Damaged { path, what: "name of a log" })
    }

    /// Returns the newest checkpoint, if there is one.
    pub(crate) fn newest(&self) -> Result<Option<SignedCheckpoint>, TrailError> {
        let path = self.checkpoint();
        match SignedCheckpoint::of_log(&path) {
            Err(TrailError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Opens a segment to read, if it is there.
    pub(crate) fn open_segment(&self, first: u64) -> Result<File, TrailError> {
        let path = self.segment(first);
        open(&path, OpenOptions::new().read(true)).map_err(TrailError::file(&path, "read"))
    }
}

/// Returns the name of a file without the folder that it is in.
pub(crate) fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns what a new file of the log is opened with: it is its owner's only.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Opens a regular file of the log, without waiting for whatever else is there.
///
/// # Errors
///
/// As opening does, and where it is a link, or something else than a file.
pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    open_as(path, options, Links::Refused)
}

/// Whether a link stands for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// Yes, as the file of a key may be one.
    Followed,
    /// No: nothing but the log is in its folder.
    Refused,
}

/// How reading a tile fails where there is none.
const NO_TILE: [io::ErrorKind; 3] =
    [io::ErrorKind::NotFound, io::ErrorKind::InvalidInput, io::ErrorKind::InvalidData];
/// What is said of what is no file.
const NO_FILE: &str = "it is a link, a pipe, a folder or a device, and no file\nhint: move it away";

pub(crate) fn open_as(path: &Path, options: &mut OpenOptions, links: Links) -> io::Result<File> {
    let no_file = || io::Error::new(io::ErrorKind::InvalidInput, NO_FILE);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        let flags = match links {
            Links::Followed => OFlags::NONBLOCK,
            Links::Refused => OFlags::NONBLOCK | OFlags::NOFOLLOW,
        };
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags.bits().cast_signed());
    }
    let file = options.open(path);
    // Opening a pipe for writing fails where nobody reads it, and a link where links are refused, with words that help nobody.
    let is_other = fs::symlink_metadata(path)
        .is_ok_and(|found| !(found.is_file() || links == Links::Followed && found.file_type().is_symlink()));
    match file {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        Ok(_) => Err(no_file()),
        Err(_) if is_other => Err(no_file()),
        Err(error) => Err(error),
    }
}

/// Reads a file of the log, which has at most so many bytes.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, OpenOptions::new().read(true))?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let why = format!("it is larger than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(bytes)
}

/// Removes a file, if it is there.
pub(crate) fn removed(path: &Path) -> Result<(), TrailError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(TrailError::file(path, "removed")(error))
        }
        _ => Ok(()),
    }
}

/// Opens the file of a lock, which is made if it is not there.
pub(crate) fn open_lock(path: &Path) -> Result<File, TrailError> {
    let lock = open(path, options().read(true).write(true).create(true).truncate(false));
    lock.map_err(TrailError::file(path, "opened"))
}

/// Takes a lock. Whoever has it is waited for so long.
pub(crate) fn take_lock(lock: &File, path: &Path, patience: Duration) -> Result<(), TrailError> {
    let (begun, mut pause) = (Instant::now(), Duration::from_micros(50));
    loop {
        let source = match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if begun.elapsed() < patience => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(2));
                continue;
            }
            Err(TryLockError::WouldBlock) => io::ErrorKind::TimedOut.into(),
            Err(TryLockError::Error(error)) => error,
        };
        return Err(TrailError::file(path, "locked")(source));
    }
}

/// Waits until the names in a folder survive a power failure.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(test)]
    crate::faults::on_names(folder);
    File::open(folder)?.sync_all()
}

/// Puts a file in its place as a whole. That it is this one survives a power failure only behind [`sync_folder`].
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    // Only who holds the lock writes, so a draft that is there was left by a crash.
    let create = || open(&draft, options().write(true).create(true).truncate(true));
    let mut file = match create() {
        // Nobody needs what is no file there.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            fs::remove_file(&draft)?;
            create()?
        }
        created => created?,
    };
    file.write_all(bytes)?;
    // A name that a power failure leaves without its bytes would be taken for a damaged file.
    file.sync_all()?;
    fs::rename(&draft, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_named_as_the_specification_names_them() {
        let files = Files::new(Path::new("log"));
        let name = |level, index| files.tile(level, index).to_str().map(str::to_owned).unwrap();
        assert_eq!(name(0, 7), "log/tile/0/007");
        assert_eq!(name(1, 1234067), "log/tile/1/x001/x234/067");
        assert_eq!(name(2, 1000), "log/tile/2/x001/000");
    }
}
