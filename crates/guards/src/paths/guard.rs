//! The path guard: takes a path and an access, returns a judgement.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use backstop_shell::{Place, paths};
use serde::{Deserialize, Serialize};

use super::{Class, Level, class, footing, sensitive};
use crate::guard::{Finding, Judgement, Verdict};
use crate::rules::{Profile, Severity};

/// Longest path that is looked up, in bytes: Linux takes none that is longer.
const MAX_PATH: usize = 4096;
/// How many segments at the end of a longer one are judged.
const KEPT_SEGMENTS: usize = 16;
/// How many links one path may lead through: as many as Linux follows (`MAXSYMLINKS` in `include/linux/namei.h`).
const MAX_LINKS: usize = 40;

/// Every path that a written one could mean.
#[derive(Debug, Default)]
pub(crate) struct Meanings {
    /// Of paths that are too long, the last segments only.
    pub(crate) paths: Vec<String>,
    /// Whether one of them is longer than any path the system takes.
    pub(crate) too_long: bool,
    /// Whether one of them leads through more links than the system follows.
    pub(crate) endless: bool,
}

/// What a tool wants to do with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read it, or list it.
    Read,
    /// Create or overwrite it.
    Write,
    /// Change a part of it.
    Edit,
}

/// Judges file accesses of tools.
#[derive(Debug, Clone)]
pub struct PathGuard {
    profile: Profile,
    symlinks: bool,
}

impl PathGuard {
    /// Creates a guard with this profile that does not access the file system.
    pub fn new(profile: Profile) -> Self {
        Self { profile, symlinks: false }
    }

    /// Also judges the targets of symbolic links. This reads the file system.
    #[must_use]
    pub fn resolving_symlinks(mut self) -> Self {
        self.symlinks = true;
        self
    }

    /// Returns whether what links lead to is judged as well.
    pub(crate) fn looks_at_files(&self) -> bool {
        self.symlinks
    }

    /// Judges an access.
    pub fn judge(&self, path: &str, access: Access, place: &Place) -> Judgement {
        self.judge_meanings(&self.meanings(path, place), access, place)
    }

    /// Judges an access by what was found out about its path, so that it is looked up once.
    pub(crate) fn judge_meanings(&self, meanings: &Meanings, access: Access, place: &Place) -> Judgement {
        let mut findings = Vec::new();
        for resolved in &meanings.paths {
            self.judge_resolved(resolved, access, place, &mut findings);
        }
        if meanings.too_long {
            let reason =
                "this is longer than any path the system takes, so where it leads can't be looked up";
            findings.push(found("path.too-long", Verdict::Ask, reason.to_owned(), "a path of many bytes"));
        }
        if meanings.endless {
            let reason =
                "this leads through more links than the system follows, so where it will lead is not known";
            let path = meanings.paths.first().map_or("a path", String::as_str);
            findings.push(found("path.endless-links", Verdict::Ask, reason.to_owned(), path));
        }
        let verdict = findings.iter().map(|finding: &Finding| finding.verdict).max().unwrap_or(Verdict::Pass);
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
        Judgement { verdict, findings, unknown: Vec::new(), processes: Vec::new() }
    }

    /// Returns every path that the written one could mean.
    pub(crate) fn meanings(&self, path: &str, place: &Place) -> Meanings {
        if path.starts_with("http://") || path.starts_with("https://") {
            return Meanings::default();
        }
        let path = path.replace('\0', "");
        let mut meanings = vec![paths::of_tool(&path, place)];
        if let Some(decoded) = paths::percent_decoded(&path) {
            meanings.push(paths::of_tool(&decoded, place));
            meanings.push(paths::lexical(&decoded, "/"));
        }
        if path.contains("..") {
            // A traversal is meant to leave; how deep the real working directory is does not matter to it.
            let from_root = paths::lexical(&path, "/");
            if super::holds_credentials(&from_root, place) {
                meanings.push(from_root);
            }
        }
        let too_long = meanings.iter().any(|path| path.len() > MAX_PATH);
        for path in meanings.iter_mut().filter(|path| path.len() > MAX_PATH) {
            *path = end_of(path);
        }
        let mut endless = false;
        if self.symlinks && !too_long {
            let climbing = paths::climbing_of_tool(&path, place).filter(|path| path.len() <= MAX_PATH);
            let written: Vec<String> = meanings.iter().cloned().chain(climbing).collect();
            for real in written.iter().map(|path| followed(path, place)) {
                match real {
                    Some(real) => meanings.push(real),
                    None => endless = true,
                }
            }
        }
        meanings.dedup();
        Meanings { paths: meanings, too_long, endless }
    }

    fn judge_resolved(&self, path: &str, access: Access, place: &Place, findings: &mut Vec<Finding>) {
        let class = class::of(path, place);
        let writes = access != Access::Read;
        if writes && self.profile != Profile::Core && footing::is_one(path, place) {
            let reason = "this decides which of an agent's calls are judged".to_owned();
            findings.push(found("path.footing", Verdict::Block, reason, path));
        }
        if let Some(entry) = sensitive::find(path, place) {
            let verdict = match (entry.level, self.profile) {
                (Level::Secret, _) => Verdict::Block,
                (Level::Private, Profile::Core) => Verdict::Pass,
                (Level::Private, _) => Verdict::Block,
                (Level::Runs, Profile::Core) => Verdict::Pass,
                (Level::Runs, _) if writes => Verdict::Ask,
                (Level::Runs, _) => Verdict::Pass,
                (Level::Config, Profile::Strict) => Verdict::Block,
                (Level::Config, _) if writes && self.profile != Profile::Core => Verdict::Ask,
                (Level::Config, _) => Verdict::Pass,
            };
            if verdict != Verdict::Pass {
                findings.push(found(
                    &format!("path.{}", entry.id),
                    verdict,
                    format!("this is {}", entry.what),
                    path,
                ));
            }
        }
        let standard = self.profile >= Profile::Standard;
        let top = path.matches('/').count() <= 1;
        let (rule, verdict, reason) = match class {
            Class::Device => ("path.device", Verdict::Block, "this is a raw device"),
            Class::System if writes => {
                ("path.system-write", Verdict::Block, "this belongs to the operating system")
            }
            Class::System | Class::Root if top && standard => {
                ("path.system-directory", Verdict::Ask, "this is a directory of the operating system")
            }
            Class::History if writes && standard => {
                ("path.repository-history", Verdict::Ask, "this is the history of the repository")
            }
            Class::Outside | Class::Home if writes && self.profile == Profile::Strict => {
                ("path.outside-workspace", Verdict::Ask, "this is outside the workspace")
            }
            _ => return,
        };
        findings.push(found(rule, verdict, reason.to_owned(), path));
    }
}

fn found(rule: &str, verdict: Verdict, reason: String, path: &str) -> Finding {
    Finding {
        rule_id: rule.to_owned(),
        severity: if verdict == Verdict::Block { Severity::Critical } else { Severity::Warning },
        verdict,
        reason,
        code: rule.to_uppercase().replace(['.', '-'], "_"),
        alternative: None,
        what: path.to_owned(),
        about: vec![path.to_owned()],
        process: None,
        allowed_by: None,
    }
}

/// Returns the last segments of a path, as a path: what a file is called says what it is.
fn end_of(path: &str) -> String {
    let cut = path.rmatch_indices('/').nth(KEPT_SEGMENTS - 1).map_or(0, |(at, _)| at);
    let end = path.get(cut..).unwrap_or_default();
    // A segment of its own can be too long as well; no file is called that.
    let start = end.len().saturating_sub(MAX_PATH);
    end.get(end.ceil_char_boundary(start)..).unwrap_or_default().to_owned()
}

/// Returns where a path leads, by whoever follows links for this place, or else by this process.
fn followed(path: &str, place: &Place) -> Option<String> {
    if place.follows_links() { place.leads_to(path) } else { real_path(path) }
}

/// Returns where a path leads when links are followed, also those to what is not there yet, and `..` behind them; parts
/// that do not exist stay as written. `None` where the system would give up, too: it leads through too many links, or is
/// too long.
///
/// From the root down and one part at a time, as the system does it. Below a folder that is not there nothing is
/// looked up.
pub fn real_path(path: &str) -> Option<String> {
    walked(path).map(|real| paths::lexical(&real.to_string_lossy(), "/"))
}

/// Where paths lead, as [`real_path`] has it. Each folder is walked through once, however many files in it are asked for.
#[derive(Debug, Default)]
pub(crate) struct Folders {
    known: HashMap<String, Option<PathBuf>>,
}

impl Folders {
    /// Returns where an absolute path leads.
    pub(crate) fn lead(&mut self, path: &str) -> Option<String> {
        let parts = path.rsplit_once('/').filter(|(_, name)| !matches!(*name, "" | "." | ".."));
        let Some((folder, name)) = parts.filter(|_| path.len() <= MAX_PATH) else { return real_path(path) };
        let real = match self.known.get(folder) {
            Some(known) => known,
            None => self.known.entry(folder.to_owned()).or_insert_with(|| walked(folder)),
        };
        let real = real.as_ref()?.join(name);
        match real.read_link() {
            // How many links lead there counts from the root on.
            Ok(_) => real_path(path),
            Err(_) => Some(paths::lexical(&real.to_string_lossy(), "/")),
        }
    }
}

/// A path walked from the root down, before it is brought into its normal form.
fn walked(path: &str) -> Option<PathBuf> {
    if path.len() > MAX_PATH {
        return None;
    }
    let mut real = PathBuf::from("/");
    let mut rest = Vec::new();
    ahead(Path::new(path), &mut rest);
    let mut links = 0;
    let mut missing: Option<PathBuf> = None;
    while let Some(part) = rest.pop() {
        if part == ".." {
            real.pop();
            continue;
        }
        real.push(part);
        if missing.as_ref().is_some_and(|folder| real.starts_with(folder)) {
            continue;
        }
        match real.read_link() {
            Ok(_) if links == MAX_LINKS => return None,
            Ok(target) => {
                links += 1;
                real.pop();
                if target.has_root() {
                    real = PathBuf::from("/");
                }
                ahead(&target, &mut rest);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => missing = Some(real.clone()),
            Err(_) => {}
        }
    }
    Some(real)
}

/// Puts the parts of a path on top of those that are still to be walked, the first one last.
fn ahead(path: &Path, rest: &mut Vec<OsString>) {
    rest.extend(path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    }));
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_folder_is_walked_once_and_leads_where_each_of_its_files_would() {
        let place = tempfile::tempdir().expect("a folder");
        let root = place.path().canonicalize().expect("a path");
        fs::create_dir_all(root.join("a/b")).expect("folders");
        fs::write(root.join("a/file"), "x").expect("a file");
        symlink(root.join("a"), root.join("link")).expect("a link");
        symlink("../a/b", root.join("a/up")).expect("a link");
        symlink("round", root.join("round")).expect("a link");
        let root = root.to_string_lossy().into_owned();
        let mut folders = Folders::default();
        let names =
            ["", "/", "/.", "/..", "/file", "/up", "/up/x", "/../a/file", "/missing", "/missing/x/../y"];
        for folder in ["", "/a", "/link", "/link/up", "/round", "/missing", "/a/../link"] {
            for name in names {
                let path = format!("{root}{folder}{name}");
                assert_eq!(folders.lead(&path), real_path(&path), "{path}");
            }
        }
        for path in ["/", "x", "/x", "/etc/passwd", &format!("/{}", "a/".repeat(4_000))] {
            assert_eq!(folders.lead(path), real_path(path), "{path}");
        }
        let mut folders = Folders::default();
        (0..1_000).for_each(|at| assert!(folders.lead(&format!("{root}/a/file{at}")).is_some()));
        assert_eq!(folders.known.len(), 1);
    }
}
