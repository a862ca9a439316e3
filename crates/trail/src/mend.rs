//! What befalls a log besides its entries, and how it goes on.
//!
//! The law: *entries are written as long as entries can be*. A `checkpoint` or an `origin` that holds something else is put aside, in the
//! folder `damaged`, and what stood there is recovered where it can be proved: the checkpoint from the file of all, the name from a
//! checkpoint that the log's own key has signed. A checkpoint, a tile or a place that can't be written is tried again. Entries tell of all
//! of it ([`KIND_RECOVERED`], [`KIND_IMPAIRED`]), the latter once for each time that something begins to fail.
//!
//! Not recovered is a name where all checkpoints are signed by other keys: whoever made them is not known.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::entry::{Body, Draft, KIND_IMPAIRED, KIND_RECOVERED};
use crate::files::replace;
use crate::log::{Log, now};
use crate::{SignedCheckpoint, SigningKey, TrailError};

/// What befell a log, as far as this process has seen.
#[derive(Debug, Default)]
pub(crate) struct Befallen {
    /// What no entry tells yet: kinds, and bodies.
    untold: Vec<(&'static str, Value)>,
    /// Whether something that fails was told of, and nothing has succeeded since.
    fails: bool,
}

impl Befallen {
    pub(crate) fn note_recovered(&mut self, body: Value) {
        self.untold.push((KIND_RECOVERED, body));
    }
}

impl Log {
    /// Writes entries about what befell the log.
    pub(crate) fn tell(&mut self) -> Result<(), TrailError> {
        while let Some((kind, body)) = self.befallen.untold.first() {
            let draft = Draft::new(now(), kind, Body::of(body)?);
            let sealed = self.sealed(&draft)?;
            self.write(&[sealed])?;
            self.befallen.untold.remove(0);
        }
        Ok(())
    }

    /// Tells of what failed behind entries that are written.
    pub(crate) fn tell_behind(&mut self, signed: Result<(), TrailError>) {
        let behind = self.tail.as_mut().and_then(crate::tail::Tail::take_failed_behind);
        let Some(error) = signed.err().or(behind) else {
            self.befallen.fails = false;
            return;
        };
        if !std::mem::replace(&mut self.befallen.fails, true) {
            self.befallen.untold.push((KIND_IMPAIRED, impaired(&error)));
        }
        // What can't be told now is told before the next entry.
        if self.tell().is_err() {
            self.forget();
        }
    }

    /// Returns the newest checkpoint. One that is damaged is put aside, and the newest of all takes its place.
    pub(crate) fn newest(&mut self) -> Result<Option<SignedCheckpoint>, TrailError> {
        match self.files.newest() {
            // One of another log says nothing of this one.
            Ok(Some(other)) if other.checkpoint().origin != self.origin() => {}
            Err(error) if is_damage(&error) => {}
            read => return read,
        }
        let path = self.files.checkpoint();
        self.put_aside(&path, "checkpoint")?;
        let all = self.files.all_checkpoints()?.0;
        let newest = all.into_iter().filter(|note| note.checkpoint().origin == self.origin());
        let newest = newest.max_by_key(|note| note.checkpoint().size);
        if let Some(newest) = &newest {
            replace(&path, newest.to_string().as_bytes()).map_err(TrailError::file(&path, "written"))?;
        }
        if self.tail.is_some() {
            self.tell()?;
        }
        Ok(newest)
    }

    /// Returns the name of the log, and gives it one where it has none.
    pub(crate) fn known_name(&mut self) -> Result<String, TrailError> {
        let path = self.files.origin();
        match self.files.name() {
            Ok(Some(name)) if self.is_known_as(&name)? => return Ok(name),
            // A part of the name is a name.
            Ok(Some(_)) => self.put_aside(&path, "origin")?,
            Ok(None) => {}
            Err(error) if is_damage(&error) => self.put_aside(&path, "origin")?,
            Err(error) => return Err(error),
        }
        let name = match self.signed_name()? {
            Some(name) => name,
            None => format!("{}/{}", self.options.name, Uuid::new_v4()),
        };
        replace(&path, format!("{name}\n").as_bytes()).map_err(TrailError::file(&path, "written"))?;
        Ok(name)
    }

    /// Returns whether no checkpoint that the key of the log has signed speaks against the name.
    fn is_known_as(&self, name: &str) -> Result<bool, TrailError> {
        match self.files.newest().ok().flatten() {
            Some(newest) if newest.checkpoint().origin != name => {}
            _ => return Ok(true),
        }
        let Ok(key) = SigningKey::read(&self.options.key) else { return Ok(true) };
        let is_own = |note: &SignedCheckpoint, origin: &str| {
            let verifier = key.verifier(origin).filter(|_| note.checkpoint().origin == origin);
            verifier.is_some_and(|verifier| note.is_signed_by(&verifier))
        };
        let all = self.files.all_checkpoints()?.0;
        let speaks_for = all.iter().rev().any(|note| is_own(note, name));
        Ok(speaks_for || !all.iter().any(|note| is_own(note, &note.checkpoint().origin)))
    }

    /// Returns the name in a checkpoint of this log; `None` where there is no checkpoint.
    fn signed_name(&self) -> Result<Option<String>, TrailError> {
        let (all, _) = self.files.all_checkpoints()?;
        let newest = self.files.newest().ok().flatten();
        let mut notes = newest.iter().chain(all.iter().rev()).peekable();
        if notes.peek().is_none() {
            return Ok(None);
        }
        let unknown = || TrailError::UnknownName(self.files.origin());
        let key = SigningKey::read(&self.options.key).map_err(|_| unknown())?;
        let own = notes.find(|note| {
            let verifier = key.verifier(&note.checkpoint().origin);
            verifier.is_some_and(|verifier| note.is_signed_by(&verifier))
        });
        own.map(|note| Some(note.checkpoint().origin.clone())).ok_or_else(unknown)
    }

    /// Moves a file to where damaged ones are kept.
    fn put_aside(&mut self, path: &Path, name: &str) -> Result<(), TrailError> {
        let kept = self.files.damaged(name);
        let folder = kept.parent().unwrap_or(&kept);
        fs::create_dir_all(folder).map_err(TrailError::file(folder, "created"))?;
        fs::rename(path, &kept).map_err(TrailError::file(path, "put aside"))?;
        let kept = kept.file_name().map(|kept| kept.to_string_lossy().into_owned());
        self.befallen.note_recovered(json!({ "file": name, "kept": kept }));
        Ok(())
    }
}

/// Returns whether a file holds something else than it should, or is none.
fn is_damage(error: &TrailError) -> bool {
    const DAMAGE: [io::ErrorKind; 2] = [io::ErrorKind::InvalidInput, io::ErrorKind::InvalidData];
    match error {
        TrailError::Damaged { .. } => true,
        TrailError::File { source, .. } => DAMAGE.contains(&source.kind()),
        _ => false,
    }
}

/// Returns what is told of an error: the file by its name, without the folder that it is in.
fn impaired(error: &TrailError) -> Value {
    match error {
        TrailError::File { path, what, source } => {
            let file = path.file_name().map(|file| file.to_string_lossy().into_owned());
            json!({ "file": file, "not": what, "why": source.to_string() })
        }
        TrailError::Damaged { path, what } => {
            let file = path.file_name().map(|file| file.to_string_lossy().into_owned());
            json!({ "file": file, "why": format!("it holds no {what}") })
        }
        other => json!({ "why": other.to_string() }),
    }
}
