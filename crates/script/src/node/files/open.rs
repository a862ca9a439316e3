//! Files that a script holds open, by numbers of ours: they say nothing about the descriptors of the process.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::{Mutex, PoisonError};

use cap_std::fs::{File, Metadata, OpenOptions, OpenOptionsExt as _};

use super::fault;
use crate::node::fault::Fault;

/// Files that may be open at once.
const MOST_OPEN: usize = 64;
/// Bytes that one call reads.
pub(super) const MOST_READ: u64 = 16 << 20;

/// How a file is opened, as Node's flags say it.
pub(super) struct Flags {
    pub(super) options: OpenOptions,
    pub(super) writes: bool,
}

impl Flags {
    pub(super) fn of(flags: &str, mode: u32) -> Option<Self> {
        let mut options = OpenOptions::new();
        // A pipe or a device that nobody serves would hold the thread.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed()).mode(mode & 0o777);
        let (kind, rest) = flags.split_at_checked(1)?;
        let (plus, exclusive) = (rest.contains('+'), rest.contains('x'));
        if rest.chars().any(|char| !matches!(char, '+' | 'x' | 's')) {
            return None;
        }
        match kind {
            "r" if !exclusive => options.read(true).write(plus),
            "w" if exclusive => options.write(true).create_new(true).read(plus),
            "w" => options.write(true).create(true).truncate(true).read(plus),
            "a" if exclusive => options.append(true).create_new(true).read(plus),
            "a" => options.append(true).create(true).read(plus),
            _ => return None,
        };
        Some(Self { options, writes: kind != "r" || plus })
    }
}

/// Refuses what is neither a file nor a folder: reading a pipe, a socket or a device may never end.
pub(super) fn ordinary(metadata: &Metadata, syscall: &'static str, path: &str) -> Result<(), Fault> {
    if metadata.is_file() || metadata.is_dir() {
        return Ok(());
    }
    let words = "pipes, sockets and devices are not opened here";
    Err(fault::coded("ENXIO", 6, words, syscall, path))
}

/// The open files of a script.
#[derive(Default)]
pub(super) struct OpenFiles {
    files: Mutex<BTreeMap<u32, File>>,
}

impl OpenFiles {
    pub(super) fn add(&self, file: File, path: &str) -> Result<u32, Fault> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= MOST_OPEN {
            return Err(fault::coded("EMFILE", 24, "too many open files", "open", path));
        }
        // As in a process: the lowest number that is free, after the three of a terminal.
        let number = (3..).find(|number| !files.contains_key(number)).unwrap_or(u32::MAX);
        files.insert(number, file);
        Ok(number)
    }

    fn with<T>(
        &self,
        number: u32,
        syscall: &'static str,
        act: impl FnOnce(&mut File) -> io::Result<T>,
    ) -> Result<T, Fault> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = files.get_mut(&number) else {
            let mut fault = Fault::new("EBADF", format!("EBADF: bad file descriptor, {syscall}"));
            fault.errno = Some(-9);
            return Err(fault.with("syscall", syscall));
        };
        act(file).map_err(|error| fault::bare(&error, syscall))
    }

    pub(super) fn read(&self, number: u32, length: u64, at: Option<u64>) -> Result<Vec<u8>, Fault> {
        self.with(number, "read", |file| {
            let back = at.map(|at| seek(file, at)).transpose()?;
            let mut bytes = Vec::new();
            file.take(length.min(MOST_READ)).read_to_end(&mut bytes)?;
            if let Some(back) = back {
                file.seek(SeekFrom::Start(back))?;
            }
            Ok(bytes)
        })
    }

    pub(super) fn write(&self, number: u32, bytes: &[u8], at: Option<u64>) -> Result<(), Fault> {
        self.with(number, "write", |file| {
            let back = at.map(|at| seek(file, at)).transpose()?;
            file.write_all(bytes)?;
            if let Some(back) = back {
                file.seek(SeekFrom::Start(back))?;
            }
            Ok(())
        })
    }

    pub(super) fn truncate(&self, number: u32, length: u64) -> Result<(), Fault> {
        self.with(number, "ftruncate", |file| file.set_len(length))
    }

    pub(super) fn sync(&self, number: u32) -> Result<(), Fault> {
        self.with(number, "fsync", |file| file.sync_all())
    }

    pub(super) fn metadata(&self, number: u32) -> Result<Metadata, Fault> {
        self.with(number, "fstat", |file| file.metadata())
    }

    pub(super) fn close(&self, number: u32) -> Result<(), Fault> {
        self.with(number, "close", |_| Ok(()))?;
        self.files.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        Ok(())
    }
}

/// Goes to `at`, and says where it was.
fn seek(file: &mut File, at: u64) -> io::Result<u64> {
    let back = file.stream_position()?;
    file.seek(SeekFrom::Start(at))?;
    Ok(back)
}
