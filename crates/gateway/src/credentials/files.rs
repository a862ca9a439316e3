//! Files of credentials, and programs that print them: read only where nobody but the operator can have written them.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::Unobtained;

/// The largest file that is read, in bytes.
const LARGEST: u64 = 64 << 10;

/// Opens files that speak for the operator.
pub trait OperatorFiles: fmt::Debug + Send + Sync + 'static {
    /// Opens a file that nobody but the operator can have written; `None` where there is none.
    ///
    /// # Errors
    /// Why not, as the end of a sentence about the file: `it belongs to another user`.
    fn open(&self, path: &Path) -> Result<Option<File>, String>;

    /// Where a program is that was looked up when the gateway began, all links followed; `None` where there was none.
    /// Nothing is looked up later: whoever is judged could have put something there by then.
    ///
    /// # Errors
    /// Why it is not to be started, as the end of a sentence about the program: `other users may write it`.
    fn program(&self, name: &OsStr) -> Result<Option<PathBuf>, String>;
}

/// The text of a file; `None` where there is none.
pub(super) fn text(files: &dyn OperatorFiles, path: &Path) -> Result<Option<String>, String> {
    let Some(file) = files.open(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("it has more than {LARGEST} bytes"));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| "it is no text".to_owned())
}

/// How files are read.
#[derive(Clone, Debug)]
pub(super) struct Files(Arc<dyn OperatorFiles>);

impl Files {
    pub(super) fn new(files: Arc<dyn OperatorFiles>) -> Self {
        Self(files)
    }

    /// The text of a file; `None` where there is none.
    pub(super) async fn read(&self, path: &Path) -> Result<Option<String>, Unobtained> {
        let (files, place) = (Arc::clone(&self.0), path.to_owned());
        let read = spawn_blocking(move || text(files.as_ref(), &place));
        let read = read.await.unwrap_or_else(|_| Err("its reader ended early".to_owned()));
        read.map_err(|why| unreadable(path, &why))
    }

    /// Where a program is that was looked up when the gateway began.
    pub(super) async fn program(&self, name: OsString) -> Result<Option<PathBuf>, String> {
        let files = Arc::clone(&self.0);
        let found = spawn_blocking(move || files.program(&name)).await;
        found.unwrap_or_else(|_| Err("its reader ended early".to_owned()))
    }
}

fn unreadable(path: &Path, why: &str) -> Unobtained {
    file(path, format!("can't be read: {why}"))
}

/// What is wrong with a file.
pub(super) fn file(path: &Path, problem: impl Into<String>) -> Unobtained {
    Unobtained::File { path: path.display().to_string(), problem: problem.into() }
}
