//! A log in a temporary folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use backstop_trail::{
    Body, Draft, Log, Options, Reader, Report, SigningKey, Trust, VerifierKey, VerifyError, now, verify,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder with a log and its key.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    /// A copy of the log, to be broken.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        copy_all(self.folder.path(), copy.folder.path());
        copy
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.folder.path().join("key")
    }

    pub(crate) fn options(&self) -> Options {
        Options::new(self.log(), self.key())
    }

    pub(crate) fn open(&self) -> Log {
        Log::open(self.options()).unwrap()
    }

    pub(crate) fn reader(&self) -> Reader {
        Reader::new(&self.log())
    }

    pub(crate) fn verifier(&self) -> VerifierKey {
        let origin = self.reader().origin().unwrap().unwrap();
        SigningKey::open(&self.key()).unwrap().verifier(&origin).unwrap()
    }

    pub(crate) fn verify(&self) -> Result<Report, VerifyError> {
        let key = Some(self.verifier());
        verify(&self.reader(), &Trust { key, clock_tolerance: 10_000, ..Trust::default() })
    }

    pub(crate) fn segment(&self, first: u64) -> PathBuf {
        self.log().join(format!("entries/{first:016}.log"))
    }

    /// The entries of a segment, each as its frame.
    pub(crate) fn frames(&self, first: u64) -> Vec<Vec<u8>> {
        let bytes = fs::read(self.segment(first)).unwrap();
        let (mut rest, mut frames) = (bytes.as_slice(), Vec::new());
        while !rest.is_empty() {
            let length = u32::from_le_bytes(rest[..4].try_into().unwrap()) & !(1 << 31);
            let (frame, after) = rest.split_at(8 + length as usize);
            frames.push(frame.to_vec());
            rest = after;
        }
        frames
    }

    pub(crate) fn put_frames(&self, first: u64, frames: &[Vec<u8>]) {
        fs::write(self.segment(first), frames.concat()).unwrap();
    }
}

/// The frame of an entry, as whoever knows the format makes it.
pub(crate) fn frame(entry: &[u8]) -> Vec<u8> {
    let length = (entry.len() as u32).to_le_bytes();
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length);
    hasher.update(entry);
    [&length, &hasher.finalize().to_le_bytes(), entry].concat()
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let to = to.join(file.file_name());
        if file.file_type().unwrap().is_dir() {
            copy_all(&file.path(), &to);
        } else {
            fs::copy(file.path(), to).unwrap();
        }
    }
}

/// When these tests began.
static BEGUN: LazyLock<i64> = LazyLock::new(now);

/// An entry that tells its number.
pub(crate) fn draft(n: u64) -> Draft {
    Draft::new(*BEGUN + n as i64, "test", Body::of(&json!({ "number": n })).unwrap())
}

/// The bodies of all entries of a kind.
pub(crate) fn bodies(place: &Place, kind: &str) -> Vec<Value> {
    let mut found = Vec::new();
    place
        .reader()
        .scan(0, |_, frame| {
            let entry = frame.entry().map(|entry| backstop_trail::Entry::read(entry).unwrap());
            found.extend(entry.filter(|entry| entry.kind == kind).map(|entry| entry.body));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    found
}

pub(crate) fn drafts(count: u64) -> Vec<Draft> {
    (0..count).map(draft).collect()
}

/// All entries of a log: the numbers that they tell, or their kinds.
pub(crate) fn told(log: &Reader) -> Vec<String> {
    let mut told = Vec::new();
    log.scan(0, |_, frame| {
        let entry = frame.entry().map(|entry| backstop_trail::Entry::read(entry).unwrap());
        told.push(match entry {
            None => "pruned".to_owned(),
            Some(entry) if entry.kind == "test" => entry.body["number"].to_string(),
            Some(entry) => entry.kind,
        });
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    told
}
