//! Which parts of an agent's footing a confined process tree can only read: the places of the table, as they are on disk.
//!
//! One table says what decides whether an agent is guarded. The guards use it to judge whatever names such a place.
//! Confinement uses it to protect these places from what no guard sees, such as a script or a build. It applies to the
//! client as well, which is part of the tree, so what a client has to write while it runs can't be protected this way. Such
//! places are listed here with their reasons; only the guards protect them. Everything else in the table is confined.
//!
//! Limits: a name that does not exist can't be confined. It is passed on all the same, so that its creation can be
//! reported. A pattern stands for what it matches at the time.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::footing::FAMILIES;
use super::table::entries;

/// Families of what Backstop has for itself: whoever builds walls knows where these really are, and hides what this can't tell.
const OWN: [&str; 2] = ["guard-data", "guard-program"];

/// Whole folders of a home: sessions, history, logins, caches and answers of its user lie there beside what decides about hooks, and
/// a client that can't write them does not start. What decides in them is in the table by its own name, and walled off.
const FOLDERS_OF_CLIENTS: &[&str] = &[
    "~/.claude/**",
    "~/.codex/**",
    "~/.gemini/**",
    "~/.qwen/**",
    "~/.copilot/**",
    "~/.cline/**",
    "~/.config/opencode/**",
    "~/.opencode/**",
    "~/.cursor/**",
    "~/.codeium/**",
    "~/.kiro/**",
    "~/.config/goose/**",
    "~/.kimi/**",
    "~/.kimi-code/**",
];

/// Files that a client writes while it runs, and for which it ends or forgets its user's word where it can't.
const FILES_OF_CLIENTS: &[&str] = &[
    // Gemini CLI ends where it can't save that a folder is trusted; without trust it runs no hooks and no tools of the folder.
    ".gemini/trustedfolders.json",
    // What its user answered "always" to, for its own sandbox; hooks are asked before it.
    ".codex/rules/**",
    // Model, login and permissions of Cursor's command line; hooks stand in `hooks.json`.
    ".cursor/cli-config.json",
];

/// Where names of the table are looked for.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    /// The user's home.
    pub home: PathBuf,
    /// The user's settings folder, if it is not `.config` in the home.
    pub settings: Option<PathBuf>,
    /// Folders in which an agent works.
    pub workspaces: Vec<PathBuf>,
    /// Relocated folders of a home: their names in it, and where they are.
    pub moved: Vec<(PathBuf, PathBuf)>,
}

/// Returns the places below `roots` that decide whether an agent is guarded and that no client writes while it runs.
pub fn unwritable_footing(roots: &Roots) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for pattern in walled() {
        for (base, name) in places_of(pattern, roots) {
            find(&base, &name, &mut found);
        }
    }
    found
}

/// Returns the patterns of the table that walls stand for.
fn walled() -> impl Iterator<Item = &'static str> {
    let is_left = |pattern: &&str| FOLDERS_OF_CLIENTS.contains(pattern) || FILES_OF_CLIENTS.contains(pattern);
    footing().filter(move |pattern| !is_left(pattern) && !is_above(pattern))
}

/// Returns all patterns of the families that walls are for.
fn footing() -> impl Iterator<Item = &'static str> {
    entries()
        .filter(|entry| FAMILIES.contains(&entry.id) && !OWN.contains(&entry.id))
        .flat_map(|entry| entry.patterns.iter().copied())
}

/// Returns whether a pattern names nothing but the folder in which others lie. Walls keep such a folder where it is.
fn is_above(pattern: &str) -> bool {
    let name = name_of(pattern);
    !pattern.ends_with("/**")
        && footing().any(|other| name_of(other).strip_prefix(name).is_some_and(|rest| rest.starts_with('/')))
}

/// A pattern without what says where it stands, and that all below is meant.
fn name_of(pattern: &str) -> &str {
    pattern.trim_start_matches("~/").trim_start_matches('/').trim_end_matches("/**")
}

/// Returns where a pattern stands, as folders and names below them.
fn places_of(pattern: &'static str, roots: &Roots) -> Vec<(PathBuf, PathBuf)> {
    let name = PathBuf::from(name_of(pattern));
    if pattern.starts_with('/') {
        let is_elsewhere = name.starts_with("library") && !cfg!(target_os = "macos");
        return if is_elsewhere { Vec::new() } else { vec![("/".into(), name)] };
    }
    // What has neither a dot in front nor is one file lies in a folder of settings, which other folders of that name are not.
    let is_of_settings = !pattern.starts_with(['~', '.']) && name.components().count() > 1;
    let below_home = match is_of_settings {
        true => [".config", "Documents", "Library"].map(|folder| Path::new(folder).join(&name)).to_vec(),
        false => vec![name.clone()],
    };
    let mut places: Vec<(PathBuf, PathBuf)> = Vec::new();
    for name in below_home {
        let elsewhere = roots.settings.iter().map(|folder| (PathBuf::from(".config"), folder.clone()));
        for (from, to) in elsewhere.chain(roots.moved.iter().cloned()) {
            places.extend(name.strip_prefix(from).ok().map(|rest| (to, rest.to_path_buf())));
        }
        places.push((roots.home.clone(), name));
    }
    if !is_of_settings && !pattern.starts_with('~') {
        places.extend(roots.workspaces.iter().map(|workspace| (workspace.clone(), name.clone())));
    }
    places
}

/// What `name` is below `base`, in any letters: the table has small ones, and clients look for others. A star is what it fits.
fn find(base: &Path, name: &Path, found: &mut BTreeSet<PathBuf>) {
    let mut segments = name.components();
    let Some(first) = segments.next() else {
        found.insert(base.to_path_buf());
        return;
    };
    let (first, rest) = (first.as_os_str(), segments.as_path());
    let wanted = first.to_string_lossy();
    let is_glob = wanted.contains('*');
    if !is_glob && base.join(first).symlink_metadata().is_ok() {
        return find(&base.join(first), rest, found);
    }
    let listed = fs::read_dir(base).into_iter().flatten().flatten();
    let mut there = listed.filter(|child| fits(&wanted, &child.file_name().to_string_lossy())).peekable();
    if there.peek().is_none() && !name.to_string_lossy().contains('*') {
        found.insert(base.join(name));
    }
    there.for_each(|child| find(&child.path(), rest, found));
}

fn fits(wanted: &str, name: &str) -> bool {
    let name = name.to_lowercase();
    match wanted.split_once('*') {
        Some((start, end)) => name.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
        None => name == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(at: &Path) -> Roots {
        Roots { home: at.join("home"), workspaces: vec![at.join("work")], ..Roots::default() }
    }

    #[test]
    fn what_is_left_to_clients_is_in_the_table() {
        for pattern in FOLDERS_OF_CLIENTS.iter().chain(FILES_OF_CLIENTS) {
            assert!(footing().any(|found| found == *pattern), "{pattern}");
        }
    }

    #[test]
    fn every_folder_that_is_left_to_its_client_has_its_settings_walled_off() {
        let walled: Vec<&str> = walled().map(name_of).collect();
        // Backstop has no entries in that of the former Kimi CLI.
        let without = ["~/.kimi/**"];
        // These have them in another folder, as the table of clients says.
        let elsewhere = ["~/.opencode/**", "~/.codeium/**", "~/.config/goose/**", "~/.config/opencode/**"];
        for folder in FOLDERS_OF_CLIENTS.iter().filter(|it| !without.contains(it) && !elsewhere.contains(it))
        {
            let inside = format!("{}/", name_of(folder));
            assert!(walled.iter().any(|name| name.starts_with(&inside)), "{folder}");
        }
        for name in
            ["opencode/plugins", ".codeium/windsurf/hooks.json", ".agents/plugins", "opencode/opencode.json"]
        {
            assert!(walled.contains(&name), "{name}");
        }
    }

    #[test]
    fn places_are_found_in_home_and_workspace_in_any_letters_and_by_stars() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let roots = Roots {
            settings: Some(at.join("xdg")),
            moved: vec![(".codex".into(), at.join("moved"))],
            ..roots(at)
        };
        let there = [
            "home/.claude/settings.json",
            "home/Documents/Cline/Hooks/PreToolUse",
            "home/.codex/fast.config.toml",
            "work/.claude/settings.local.json",
            "work/.github/hooks/x.json",
            "work/opencode.jsonc",
            "xdg/opencode/plugins/x.js",
            "moved/config.toml",
            // What clients write, and what only has the name of something else.
            "home/.claude/history.jsonl",
            "home/.gemini/trustedFolders.json",
            "work/cline/hooks/x.ts",
            "work/.claude/commands/x.md",
        ];
        for file in there {
            fs::create_dir_all(at.join(file).parent().unwrap()).unwrap();
            fs::write(at.join(file), "").unwrap();
        }
        let found = unwritable_footing(&roots);
        let is_walled = |file: &str| at.join(file).ancestors().any(|above| found.contains(above));
        let (walled, left) = there.split_at(8);
        for file in walled {
            assert!(is_walled(file), "{file}: {found:?}");
        }
        for file in left {
            assert!(!is_walled(file), "{file}");
        }
        // What is not there can be told of when it is made.
        assert!(found.contains(&at.join("work/.claude/settings.json")));
        assert!(!found.iter().any(|path| path.to_string_lossy().contains('*')), "{found:?}");
        for whole in ["home", "home/.claude", "home/.codex", "work", "work/.claude", "xdg", "moved"] {
            assert!(!found.contains(&at.join(whole)), "{whole}");
        }
    }
}
