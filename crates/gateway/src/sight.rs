//! What is seen of this machine's disk for callers who may be on another one.
//!
//! Laws:
//!
//! - *Nobody who asks chooses what is read here.* Who is judged names its folder, and is told why a call was stopped: with the eyes of this process
//!   it would be told what is in the files of the server.
//! - *Nobody is judged by another machine's disk* (closed world). What is in a file of the caller can't be told here, whatever file this machine has
//!   by that name, so that running it is unknown code.
//! - *What is shared, the operator says*, by folder. Whoever works in one of them is judged by what is in it, and by nothing outside of it.
//! - *A link is no way around* (what is secret is so by every name). Whoever asks may be on this machine as well, so where paths lead here counts beside what
//!   they say: that can make a judgement stricter, and never milder.
//!
//! Limit: links on the disk of a caller on another machine are not seen.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use backstop_hooks::{Eyes, Seen, Sight};

/// Sees nothing of the disk: what is in a file can't be told, and a path leads where it says, as if there were no links.
#[derive(Default)]
pub(crate) struct Closed {
    was_asked: AtomicBool,
}

impl Closed {
    /// Returns whether somebody wanted to see a file.
    pub(crate) fn was_asked(&self) -> bool {
        self.was_asked.load(Ordering::SeqCst)
    }
}

impl Eyes for Closed {
    fn file(&self, _: &str) -> Seen {
        self.was_asked.store(true, Ordering::SeqCst);
        Seen::Unreadable
    }

    fn leads_to(&self, path: &str) -> Option<String> {
        Some(plain(path))
    }
}

/// Returns a path without `.` and `..`, as it reads.
fn plain(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Folders of this machine in which callers of the API work as well, by whatever they are judged by. By default there are none.
#[derive(Clone)]
pub struct SharedFolders {
    folders: Vec<String>,
    disk: Arc<dyn Eyes>,
}

impl Default for SharedFolders {
    fn default() -> Self {
        Self { folders: Vec::new(), disk: Arc::new(Closed::default()) }
    }
}

impl fmt::Debug for SharedFolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedFolders").field(&self.folders).finish()
    }
}

impl SharedFolders {
    /// Shares these folders, by their absolute paths. `disk` is this machine's: what is outside of them is not read through it.
    pub fn new(folders: impl IntoIterator<Item = String>, disk: Arc<dyn Eyes>) -> Self {
        Self { folders: folders.into_iter().collect(), disk }
    }

    /// Returns how the disk is seen for a caller who works in this folder. Where it leads is looked at once, and what is read later is looked at by
    /// where that leads: a link that is put there meanwhile leads nowhere.
    pub(crate) fn sight(&self, folder: Option<&str>) -> Sight {
        let eyes = folder.filter(|folder| folder.starts_with('/')).and_then(|folder| self.within(folder));
        match eyes {
            Some(eyes) => Sight::through(Arc::new(eyes)),
            None => {
                Sight::through(Arc::new(Proxied(Self { folders: Vec::new(), disk: Arc::clone(&self.disk) })))
            }
        }
    }

    /// Returns how the disk is seen for calls that a model makes behind the proxy. Where a client works is not known there, and the call may name any
    /// folder: files of shared folders are read, and no others. Where a path leads is looked at on this machine, since whoever is judged may well be
    /// here, and a link to what is secret must not pass for a file.
    pub fn proxied(&self) -> Sight {
        Sight::through(Arc::new(Proxied(self.clone())))
    }

    /// Returns the eyes of whoever works in a folder, if it is shared.
    fn within(&self, folder: &str) -> Option<Within> {
        if self.folders.is_empty() {
            return None;
        }
        let place = self.disk.leads_to(folder)?;
        self.folders.iter().find_map(|written| {
            let shared = self.disk.leads_to(written).filter(|shared| is_in(&place, shared))?;
            Some(Within { shared, disk: Arc::clone(&self.disk) })
        })
    }
}

/// Sees where all paths lead, and what is in files of shared folders.
struct Proxied(SharedFolders);

impl Eyes for Proxied {
    fn file(&self, path: &str) -> Seen {
        let SharedFolders { folders, disk } = &self.0;
        if folders.is_empty() {
            return Seen::Unreadable;
        }
        let shared = || folders.iter().filter_map(|folder| disk.leads_to(folder));
        match disk.leads_to(path) {
            Some(real) if shared().any(|shared| is_in(&real, &shared)) => disk.file(&real),
            Some(_) | None => Seen::Unreadable,
        }
    }

    fn leads_to(&self, path: &str) -> Option<String> {
        self.0.disk.leads_to(path)
    }
}

/// Returns whether a path is a folder or below it, as they are written.
fn is_in(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Sees what is in one folder, and where all paths lead.
struct Within {
    /// Where it is.
    shared: String,
    disk: Arc<dyn Eyes>,
}

impl Eyes for Within {
    fn file(&self, path: &str) -> Seen {
        match self.leads_to(path) {
            Some(real) if is_in(&real, &self.shared) => self.disk.file(&real),
            Some(_) | None => Seen::Unreadable,
        }
    }

    fn leads_to(&self, path: &str) -> Option<String> {
        self.disk.leads_to(path)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A disk of these links, on which every file holds its path.
    struct Disk(BTreeMap<&'static str, &'static str>);

    impl Eyes for Disk {
        fn file(&self, path: &str) -> Seen {
            Seen::Text(path.to_owned())
        }

        fn leads_to(&self, path: &str) -> Option<String> {
            let mut path = plain(path);
            while let Some((link, to)) = self.0.iter().find(|(link, _)| is_in(&path, link)) {
                path = path.replacen(link, to, 1);
            }
            Some(path)
        }
    }

    fn shared(folders: &[&str]) -> SharedFolders {
        let links =
            [("/srv/out", "/etc"), ("/home/a", "/srv/a"), ("/srv/a/self", "/srv/b"), ("/mnt", "/srv")];
        let folders = folders.iter().map(|folder| (*folder).to_owned());
        SharedFolders::new(folders, Arc::new(Disk(links.into())))
    }

    fn sees(folders: &[&str], folder: Option<&str>, path: &str) -> Option<String> {
        match shared(folders).sight(folder).lent().unwrap().file(path) {
            Seen::Text(text) => Some(text),
            Seen::Missing | Seen::Unreadable => None,
        }
    }

    #[test]
    fn a_shared_folder_is_seen_by_whoever_works_in_it_and_nothing_else_is() {
        let there = |text: &str| Some(text.to_owned());
        assert_eq!(sees(&["/srv"], Some("/srv/a"), "/srv/a/x"), there("/srv/a/x"));
        assert_eq!(sees(&["/srv/"], Some("/srv"), "/srv/./a/../b/x"), there("/srv/b/x"));
        assert_eq!(sees(&["/srv"], Some("/home/a"), "/home/a/x"), there("/srv/a/x"), "by another name");
        assert_eq!(sees(&["/mnt"], Some("/mnt/a"), "/mnt/a/x"), there("/srv/a/x"), "a link is shared");
        assert_eq!(sees(&["/srv"], Some("/srv/a"), "/srv/a/self/x"), there("/srv/b/x"));
        assert_eq!(sees(&["/"], Some("/srv"), "/srv/x"), there("/srv/x"));
        for (folders, folder, path) in [
            (&["/srv"][..], Some("/srv/a"), "/etc/x"),
            (&["/srv"], Some("/srv/a"), "/srv/out/x"),
            (&["/srv"], Some("/srv/a"), "/srv/a/../../etc/x"),
            (&["/srv"], Some("/srvs"), "/srvs/x"),
            (&["/srv"], Some("/srv/out"), "/srv/out/x"),
            (&["/srv"], Some("/srv/.."), "/srv/x"),
            (&["/srv"], Some("/"), "/srv/x"),
            (&["/srv"], Some("srv"), "/srv/x"),
            (&["/srv"], Some(""), "/srv/x"),
            (&["/srv"], None, "/srv/x"),
            (&["/srv/a"], Some("/srv/a"), "/srv/a/self/x"),
            (&[], Some("/srv"), "/srv/x"),
        ] {
            assert_eq!(sees(folders, folder, path), None, "{folders:?} {folder:?} {path}");
        }
    }

    #[test]
    fn behind_the_proxy_only_shared_files_are_read_and_links_are_followed() {
        let sees = |folders: &[&str], path: &str| match shared(folders).proxied().lent().unwrap().file(path) {
            Seen::Text(text) => Some(text),
            Seen::Missing | Seen::Unreadable => None,
        };
        assert_eq!(sees(&["/srv"], "/home/a/x").as_deref(), Some("/srv/a/x"));
        assert_eq!(sees(&["/mnt"], "/srv/a/x").as_deref(), Some("/srv/a/x"));
        for (folders, path) in [
            (&["/srv"][..], "/etc/x"),
            (&["/srv"], "/srv/out/x"),
            (&["/srv/a"], "/srv/a/../b/x"),
            (&[], "/srv/x"),
        ] {
            assert_eq!(sees(folders, path), None, "{folders:?} {path}");
        }
        let leads = shared(&[]).proxied().lent().unwrap().leads_to("/srv/out/x");
        assert_eq!(leads.as_deref(), Some("/etc/x"), "what is secret is so by every name");
    }

    #[test]
    fn what_is_secret_is_so_by_every_name_whatever_is_shared() {
        for folders in [&["/srv"][..], &[]] {
            for folder in [Some("/srv/a"), Some("/elsewhere"), None] {
                let sight = shared(folders).sight(folder);
                let leads = |path: &str| sight.lent().unwrap().leads_to(path);
                assert_eq!(leads("/srv/out/x").as_deref(), Some("/etc/x"), "{folders:?} {folder:?}");
                assert_eq!(leads("/mnt/a/x").as_deref(), Some("/srv/a/x"), "{folders:?} {folder:?}");
            }
        }
    }
}
