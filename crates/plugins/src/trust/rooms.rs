//! Places for code that is not trusted yet: to be installed from, or only to be looked at.
//!
//! The law: *what a person was shown is what is installed*. So one installs at a time, also while a person is asked. Whoever only looks holds
//! nobody up and is held up by nobody.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::{Home, Lock, TrustError, folders, io_error, make_private};

pub(super) const STAGING: &str = "staging";
const LOOKING: &str = "looking";
/// The file whose lock is held as long as its folder is used.
const HELD: &str = "held";

/// A place for code that is not trusted yet. While there is one in which it is to be installed, nobody else installs.
#[derive(Debug)]
pub(crate) struct Room {
    folder: PathBuf,
    plugin: PathBuf,
    _lock: Lock,
}

impl Room {
    /// The plugin's folder.
    pub(crate) fn plugin(&self) -> &Path {
        &self.plugin
    }

    /// Makes a folder for what is needed on the way.
    pub(crate) fn work(&self) -> Result<PathBuf, TrustError> {
        let work = self.folder.join("work");
        fs::create_dir(&work).map_err(io_error(&work))?;
        // Others find it by the name that it really has.
        work.canonicalize().map_err(io_error(&work))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // Where this fails, the next installation removes it.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What a plugin is fetched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To be installed, if a person consents. One installation goes on at a time.
    Install,
    /// To be looked at.
    Look,
}

impl Home {
    /// A new place for code that is only looked at. It keeps nobody from installing. What those have left who were killed while they
    /// looked goes now: nobody holds its lock.
    fn looking(&self) -> Result<Room, TrustError> {
        let _lock = self.lock()?;
        let all = self.0.join(LOOKING);
        for left in folders(&all) {
            let is_held = File::open(left.join(HELD)).is_ok_and(|file| file.try_lock().is_err());
            if !is_held {
                fs::remove_dir_all(&left).map_err(io_error(&left))?;
            }
        }
        let folder = all.join(uuid::Uuid::new_v4().simple().to_string());
        let plugin = folder.join("plugin");
        make_private(&plugin).map_err(io_error(&plugin))?;
        let held = folder.join(HELD);
        let file = File::create(&held).map_err(io_error(&held))?;
        file.lock().map_err(io_error(&held))?;
        Ok(Room { folder, plugin, _lock: Lock(file) })
    }

    /// A new place for code that is not trusted yet.
    ///
    /// # Errors
    ///
    /// [`TrustError::Busy`] while somebody else has one to install from, and [`TrustError::Io`].
    pub(crate) fn room(&self, purpose: Purpose) -> Result<Room, TrustError> {
        match purpose {
            Purpose::Install => self.staging(),
            Purpose::Look => self.looking(),
        }
    }

    /// One to install from. Whoever was killed while they had one has left it; it goes now.
    pub(super) fn staging(&self) -> Result<Room, TrustError> {
        let lock = self.lock_installing()?;
        let all = self.0.join(STAGING);
        for left in folders(&all) {
            fs::remove_dir_all(&left).map_err(io_error(&left))?;
        }
        let folder = all.join(uuid::Uuid::new_v4().simple().to_string());
        let plugin = folder.join("plugin");
        let room = Room { folder, plugin, _lock: lock };
        make_private(&room.plugin).map_err(io_error(&room.plugin))?;
        Ok(room)
    }

    /// Taken for as long as somebody installs, also while a person is asked: two at once would be shown one thing and get another.
    fn lock_installing(&self) -> Result<Lock, TrustError> {
        let path = self.0.join("installing");
        let failed = io_error(&path);
        make_private(&self.0).map_err(&failed)?;
        let file = File::options().create(true).append(true).open(&path).map_err(&failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Lock(file)),
            Err(fs::TryLockError::WouldBlock) => Err(TrustError::Busy),
            Err(fs::TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}
