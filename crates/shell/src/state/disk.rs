//! What a command is known to have written to disk: files, links, and folders that came from the network.
//!
//! The law: *what is on disk outlives the shell that put it there*. A subshell's variables are gone when it ends, its
//! files are not.

use std::collections::HashMap;

use crate::data::Data;
use crate::limits::{self, Over};

/// What one command wrote. Paths are resolved.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    files: HashMap<String, Data>,
    /// Those of them that lie in a folder for programs, by their names.
    installed: HashMap<String, String>,
    /// Symbolic links, and where they lead.
    links: Vec<(String, String)>,
    /// Folders that were filled from the network.
    fetched: Vec<String>,
    /// How often something was written.
    writes: usize,
}

/// Links that lead to links: behind so many the system opens nothing (`MAXSYMLINKS` in `include/linux/namei.h`).
const MOST_LINKS: usize = 40;

impl Disk {
    /// Creates a disk on which these files are known.
    pub(crate) fn with(files: HashMap<String, Data>) -> Self {
        Self { files, ..Self::default() }
    }

    /// Returns what is known of the content of a file.
    pub(crate) fn file(&self, path: &str) -> Option<&Data> {
        self.files.get(path)
    }

    /// Returns whether this command wrote the file.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Returns whether this command wrote no file.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the files that this command wrote, in no order.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&String, &Data)> {
        self.files.iter()
    }

    /// Returns whether more was written to the other disk, which was a copy of this one.
    pub(super) fn is_older_than(&self, other: &Self) -> bool {
        self.writes != other.writes
    }

    /// What either wrote: of a file that both wrote it is not known which content it has.
    pub(super) fn join(&mut self, other: Self) {
        self.writes = self.writes.max(other.writes) + 1;
        self.installed.extend(other.installed);
        for link in other.links {
            if !self.links.contains(&link) {
                self.links.push(link);
            }
        }
        for folder in other.fetched {
            if !self.fetched.contains(&folder) {
                self.fetched.push(folder);
            }
        }
        for (path, data) in other.files {
            match self.files.get_mut(&path) {
                Some(ours) => ours.or(&data),
                None => drop(self.files.insert(path, data)),
            }
        }
    }

    /// Remembers that `link` leads to `target`.
    pub(crate) fn link(&mut self, link: String, target: String) -> Over {
        if self.links.len() >= limits::LINKS.most {
            return Over::of(&limits::LINKS);
        }
        self.writes += 1;
        self.links.push((link, target));
        Over::NOTHING
    }

    /// Returns where a resolved path leads through the links this command made, and through those to which these lead. `None`
    /// where it leads through none.
    pub(crate) fn led(&self, path: &str) -> Option<String> {
        let mut at = self.followed(path)?;
        for _ in 1..MOST_LINKS {
            match self.followed(&at) {
                Some(next) if next != at => at = next,
                _ => break,
            }
        }
        Some(at)
    }

    /// Returns where a resolved path leads through one of the links this command made.
    fn followed(&self, path: &str) -> Option<String> {
        self.links.iter().rev().find_map(|(link, target)| {
            let rest = path.strip_prefix(link.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{target}{rest}"))
        })
    }

    /// Remembers that what lies below a directory came from the network.
    pub(crate) fn fetch_into(&mut self, directory: String) -> Over {
        if self.fetched.len() >= limits::FETCHED.most {
            return Over::of(&limits::FETCHED);
        }
        self.writes += 1;
        self.fetched.push(directory);
        Over::NOTHING
    }

    /// True for a path below a directory that this command filled from the network.
    pub(crate) fn is_fetched(&self, path: &str) -> bool {
        self.fetched
            .iter()
            .any(|directory| path.strip_prefix(directory.as_str()).is_some_and(|rest| rest.starts_with('/')))
    }

    /// Remembers what a file holds from now on.
    pub(crate) fn write(&mut self, path: String, data: Data) -> Over {
        if self.files.len() >= limits::FILES.most && !self.files.contains_key(&path) {
            return Over::of(&limits::FILES);
        }
        self.writes += 1;
        if let Some((folder, name)) = path.rsplit_once('/')
            && matches!(folder.rsplit('/').next(), Some("bin" | "sbin"))
            && !name.is_empty()
        {
            self.installed.insert(name.to_owned(), path.clone());
        }
        self.files.insert(path, data);
        Over::NOTHING
    }

    /// Returns the path of a program that this command wrote into a folder for programs.
    pub(crate) fn installed(&self, name: &str) -> Option<&str> {
        self.installed.get(name).map(String::as_str)
    }
}
