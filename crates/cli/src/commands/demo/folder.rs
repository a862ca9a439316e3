//! The demo's folder: made for it, gone after it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::steps::made_up_key;
use crate::error::Error;

/// A folder of this user's in the temporary folder; removed when dropped.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn create() -> Result<Self, Error> {
        let moment = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let path = std::env::temp_dir().join(format!("backstop-demo-{}-{moment}", std::process::id()));
        let failed = |source: io::Error| Error::File { path: path.clone(), what: "created", source };
        // Fails if something is there already, so that nobody else can have prepared it.
        make_private(&path).map_err(failed)?;
        let folder = Self(path.clone());
        fs::create_dir(folder.workspace()).map_err(failed)?;
        let settings = format!("[service]\nurl = http://127.0.0.1:9\nkey = {}\n", made_up_key());
        fs::write(folder.workspace().join("settings.ini"), settings).map_err(failed)?;
        Ok(folder)
    }

    pub(super) fn workspace(&self) -> PathBuf {
        self.0.join("workspace")
    }

    pub(super) fn database(&self) -> PathBuf {
        self.0.join("backstop.db")
    }
}

fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().mode(0o700).create(path)
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What can't be removed stays in the temporary folder, which the system clears.
        let _ = fs::remove_dir_all(&self.0);
    }
}
