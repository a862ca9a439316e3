//! Where the parts of a log are.
//!
//! | file | holds |
//! | --- | --- |
//! | `origin` | the name of the log |
//! | `lock` | the lock of whoever writes, and a count of how often files were replaced |
//! | `entries/<first>.log` | a segment: frames from that entry on, which is a multiple of 256 |
//! | `entries/<first>.places` | where every 256th of its entries begins; can be thrown away |
//! | `tile/<level>/<index>` | 256 hashes, as [tlog-tiles](https://c2sp.org/tlog-tiles) names and fills them; full tiles only |
//! | `frontier` | the tree's right edge at the last full tile; can be thrown away |
//! | `checkpoint` | the newest signed checkpoint |
//! | `checkpoints` | all of them, each behind a line `--` |
//! | `torn/<size>-<id>` | bytes that a crash left behind entry `size`, cut off at recovery |

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::TrailError;
use crate::merkle::{HASH_BYTES, Hash, Tile, hashes};
use crate::{SignedCheckpoint, TILE};

/// The folder of a log.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    folder: PathBuf,
}

impl Files {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf() }
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

    fn entries(&self) -> PathBuf {
        self.folder.join("entries")
    }

    pub(crate) fn segment(&self, first: u64) -> PathBuf {
        self.entries().join(format!("{first:016}.log"))
    }

    pub(crate) fn places(&self, first: u64) -> PathBuf {
        self.entries().join(format!("{first:016}.places"))
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

    /// Writes a full tile, which never changes.
    pub(crate) fn put_tile(&self, tile: &Tile) -> Result<(), TrailError> {
        let path = self.tile(tile.level, tile.index);
        let bytes = tile.hashes.concat();
        match replace(&path, &bytes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = path.parent().unwrap_or(&self.folder);
                fs::create_dir_all(folder).map_err(TrailError::file(folder, "created"))?;
                replace(&path, &bytes).map_err(TrailError::file(&path, "written"))
            }
            written => written.map_err(TrailError::file(&path, "written")),
        }
    }

    /// Returns a full tile; `None` if there is none.
    pub(crate) fn get_tile(&self, level: u32, index: u64) -> Result<Option<Vec<Hash>>, TrailError> {
        let path = self.tile(level, index);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(TrailError::file(&path, "read"))?,
        };
        // One that a power failure emptied is as good as none: it can be computed again.
        let full = bytes.len() as u64 == TILE * HASH_BYTES as u64;
        Ok(hashes(&bytes).filter(|_| full))
    }

    /// Returns the newest checkpoint, if there is one.
    pub(crate) fn newest(&self) -> Result<Option<SignedCheckpoint>, TrailError> {
        let path = self.checkpoint();
        match SignedCheckpoint::read(&path) {
            Err(TrailError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Opens a segment to read, if it is there.
    pub(crate) fn open_segment(&self, first: u64) -> Result<File, TrailError> {
        let path = self.segment(first);
        File::open(&path).map_err(TrailError::file(&path, "read"))
    }
}

/// Returns what a new file of the log is opened with: it is its owner's only.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Puts a file in its place as a whole.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    // Only who holds the lock writes, so a draft that is there was left by a crash.
    let mut file = options().write(true).create(true).truncate(true).open(&draft)?;
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
