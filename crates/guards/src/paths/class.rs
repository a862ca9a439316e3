//! Classifies where a path leads, in terms of possible harm.

use std::sync::LazyLock;

use backstop_shell::Place;
use backstop_shell::marks::{ANY, HOLE, SET, STAR};
use serde::{Deserialize, Serialize};

use super::sieve::Sieve;

/// The class of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The root of the file system, or everything directly below it.
    Root,
    /// A home directory, or everything in it.
    Home,
    /// A system directory, or something below one.
    System,
    /// A device that holds data.
    Device,
    /// A device or stream that discards what is written.
    Null,
    /// Something below a temporary directory, or in a cache of a home directory.
    Temp,
    /// The workspace itself, or everything in it.
    Workspace,
    /// The history of a repository (`.git`, `.hg`).
    History,
    /// Something in the workspace that tools recreate: dependencies, build output, caches.
    Rebuilt,
    /// Something in the workspace.
    Inside,
    /// Something elsewhere.
    Outside,
    /// The root of the file system if a variable is empty.
    Unset,
    /// Not known.
    Unknown,
}

/// What a git that is gone leaves behind, and the next one asks to remove (git 2.46, lockfile.h).
const LOCKS: [&str; 6] =
    ["HEAD.lock", "ORIG_HEAD.lock", "config.lock", "index.lock", "packed-refs.lock", "shallow.lock"];

/// Folders in which systems of version control keep what was committed: Git, Mercurial, Jujutsu, Sapling, Bazaar, Darcs, Pijul.
const HISTORIES: [&str; 7] = [".git", ".hg", ".jj", ".sl", ".bzr", "_darcs", ".pijul"];

const SYSTEM: &[&str] = &[
    "bin",
    "boot",
    "dev",
    "etc",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "opt",
    "proc",
    "run",
    "sbin",
    "srv",
    "sys",
    "usr",
    "var",
    "snap",
    "system",
    "library",
    "applications",
    "efi",
    "lost+found",
];

/// Directories of a Windows drive that the system lives in.
const WINDOWS: &[&str] = &["windows", "program files", "program files (x86)", "programdata"];

const HOMES: &[&str] = &["home", "users"];

/// Directories that tools fill and fill again.
const REBUILT: &[&str] = &[
    "node_modules",
    "bower_components",
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".tox",
    ".nox",
    ".venv",
    "venv",
    ".eggs",
    "htmlcov",
    "coverage",
    ".nyc_output",
    "target",
    "dist",
    "build",
    "out",
    ".next",
    ".nuxt",
    ".output",
    ".svelte-kit",
    ".turbo",
    ".parcel-cache",
    ".vite",
    ".cache",
    ".angular",
    ".gradle",
    ".dart_tool",
    ".terraform",
    ".serverless",
    "bin",
    "obj",
    "DerivedData",
    "Pods",
    "_build",
    "deps",
    ".stack-work",
    "dist-newstyle",
    "zig-cache",
    ".zig-cache",
    "zig-out",
    "cmake-build-debug",
    "cmake-build-release",
    "tmp",
    ".tmp",
    "logs",
    ".sass-cache",
    ".eslintcache",
    ".jest-cache",
    "playwright-report",
    "test-results",
    ".direnv",
    ".import",
    ".godot",
];

/// Classes an absolute, normalised path.
pub(crate) fn of(path: &str, place: &Place) -> Class {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    // A trailing wildcard stands for everything in the directory before it.
    let kept = segments.len() - segments.iter().rev().take_while(|segment| is_everything(segment)).count();
    let whole = kept < segments.len();
    let base = segments.get(..kept).unwrap_or_default();
    let windows = drive(base);
    let is_drive = windows.is_some();
    let base = windows.unwrap_or(base);
    let Some((first, rest)) = base.split_first() else { return Class::Root };
    if first.starts_with(HOLE) && rest.is_empty() && !whole && segments.len() == 1 {
        return Class::Unknown;
    }
    if is_home(base, place) {
        return Class::Home;
    }
    let is_history = |segment: &str| {
        segment.starts_with(['.', '_']) && HISTORIES.contains(&segment)
            || segment.ends_with(".git") && segment.len() > 4
    };
    if let [.., ".git", lock] = base
        && LOCKS.contains(lock)
    {
        return Class::Rebuilt;
    }
    if base.iter().any(|segment| is_history(segment)) {
        return Class::History;
    }
    if let Some(class) = device(base) {
        return class;
    }
    if cached(base, place) {
        return Class::Temp;
    }
    let (tmp, below) = match (*first, rest) {
        ("tmp", rest) => (true, !rest.is_empty()),
        ("var", ["tmp" | "folders", rest @ ..]) => (true, !rest.is_empty()),
        ("dev", ["shm", rest @ ..]) => (true, !rest.is_empty()),
        _ => (false, false),
    };
    if is_below(base, place.workspace()) {
        let depth = place.workspace().split('/').filter(|s| !s.is_empty()).count();
        let rebuilt = base.get(depth..).unwrap_or_default().iter().any(|name| is_rebuilt(name));
        return match (base.len() == depth, rebuilt) {
            (true, _) => Class::Workspace,
            (false, true) => Class::Rebuilt,
            (false, false) => Class::Inside,
        };
    }
    if tmp {
        return if below || whole { Class::Temp } else { Class::System };
    }
    if SYSTEM.iter().any(|name| is_or_means(first, name))
        || is_drive && WINDOWS.iter().any(|name| is_or_means(first, name))
    {
        return Class::System;
    }
    Class::Outside
}

/// True for a path below a folder that is called as one that programs fill again, wherever it lies but in homes.
pub(crate) fn is_cache(path: &str) -> bool {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    let in_home = segments.clone().next().is_some_and(|first| HOMES.contains(&first) || first == "root");
    !in_home && segments.any(|name| name == "cache" || name == "caches" || is_rebuilt(name))
}

fn is_rebuilt(name: &str) -> bool {
    static SIEVE: LazyLock<Sieve> = LazyLock::new(|| Sieve::of(REBUILT));
    SIEVE.lets_through(name) && REBUILT.contains(&name)
}

/// True for what lies in the folder of caches of the user's home directory.
fn cached(base: &[&str], place: &Place) -> bool {
    let home = place.home().split('/').filter(|segment| !segment.is_empty()).count();
    is_below(base, place.home())
        && matches!(base.get(home..), Some([".cache", _, ..] | ["Library", "Caches", _, ..]))
}

/// Returns what lies on a Windows drive: `C:/x`, `/mnt/c/x` of WSL, `/c/Windows` of shells that run there.
fn drive<'a, 'p>(base: &'a [&'p str]) -> Option<&'a [&'p str]> {
    let is_letter = |name: &str| name.len() == 1 && name.bytes().all(|byte| byte.is_ascii_alphabetic());
    match base {
        [first, rest @ ..] if first.len() == 2 && first.ends_with(':') => Some(rest),
        ["mnt", letter, rest @ ..] if is_letter(letter) => Some(rest),
        [letter, rest @ ..] if is_letter(letter) => {
            let known = WINDOWS.iter().chain(HOMES);
            let first = rest.first()?;
            known.into_iter().any(|name| first.eq_ignore_ascii_case(name)).then_some(rest)
        }
        _ => None,
    }
}

/// Returns whether a segment is a name, or a pattern that this name fits.
fn is_or_means(segment: &str, name: &str) -> bool {
    let means = segment.contains([STAR, ANY, SET]) && !segment.starts_with(HOLE);
    segment.eq_ignore_ascii_case(name) || means && backstop_shell::pattern_matches(segment, name)
}

/// Returns whether a path ends in everything that its folder holds.
pub(crate) fn ends_open(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(is_everything)
}

/// True for a segment that matches every name: `*`, `.*`, `**`, `?*`, `{*}`.
fn is_everything(segment: &str) -> bool {
    segment.contains(STAR)
        && segment.chars().all(|c| matches!(c, STAR | ANY | '.'))
        && segment != "."
        && !(segment.ends_with('.') && segment.len() > 1)
        || segment.starts_with(SET) && segment.contains(STAR) && segment.contains("!.")
}

fn is_home(base: &[&str], place: &Place) -> bool {
    let home = place.home();
    let home_len = home.split('/').filter(|segment| !segment.is_empty()).count();
    if base.len() == home_len && is_below(base, home) && place.workspace() != home {
        return true;
    }
    match base {
        ["root"] => true,
        [homes] => HOMES.iter().any(|name| name.eq_ignore_ascii_case(homes)),
        [homes, user] => {
            HOMES.iter().any(|name| name.eq_ignore_ascii_case(homes))
                && !place.workspace().ends_with(&format!("/{homes}/{user}"))
        }
        _ => false,
    }
}

fn is_below(base: &[&str], directory: &str) -> bool {
    let mut segments = base.iter();
    let mut any = false;
    for wanted in directory.split('/').filter(|segment| !segment.is_empty()) {
        any = true;
        if segments.next() != Some(&wanted) {
            return false;
        }
    }
    any
}

/// Devices by name: those that hold data, those that lose it, and what only pretends to be one.
fn device(base: &[&str]) -> Option<Class> {
    let ["dev", rest @ ..] = base else { return None };
    match rest {
        [] => Some(Class::System),
        [
            "null" | "zero" | "full" | "stdout" | "stderr" | "stdin" | "tty" | "random" | "urandom" | "ptmx"
            | "console",
        ] => Some(Class::Null),
        ["fd" | "pts" | "tcp" | "udp", ..] => Some(Class::Null),
        ["shm", ..] => None,
        ["disk" | "mapper" | "md" | "zvol" | "block" | "vg" | "dm", ..] => Some(Class::Device),
        [name] if is_disk(name) => Some(Class::Device),
        _ => Some(Class::System),
    }
}

fn is_disk(name: &str) -> bool {
    if name.starts_with([HOLE, STAR]) {
        return true;
    }
    const PREFIXES: [&str; 21] = [
        "sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "loop", "dm-", "md", "sr", "ram", "zram",
        "nbd", "ubd", "pmem", "mtdblock", "drbd", "rbd", "ada",
    ];
    PREFIXES.iter().any(|prefix| {
        name.strip_prefix(prefix).is_some_and(|rest| {
            rest.chars()
                .next()
                .is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, STAR | ANY | SET | HOLE))
        })
    }) || matches!(name, "mem" | "kmem" | "port")
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_shell::paths::lexical;

    #[test]
    fn classes_of_common_targets() {
        let place = Place::new("/work/app").with_home("/home/me");
        let star = STAR.to_string();
        for (path, expected) in [
            ("/", Class::Root),
            ("/*", Class::Root),
            ("/*/*", Class::Root),
            ("/home/me", Class::Home),
            ("/home/me/*", Class::Home),
            ("/root", Class::Home),
            ("/home", Class::Home),
            ("/etc/nginx", Class::System),
            ("/tmp/x", Class::Temp),
            ("/tmp", Class::System),
            (".", Class::Workspace),
            ("./*", Class::Workspace),
            (".git", Class::History),
            (".jj", Class::History),
            (".git/index.lock", Class::Rebuilt),
            (".git/index", Class::History),
            ("vendor/lib/.hg/store", Class::History),
            ("src/x", Class::Inside),
            ("../other", Class::Outside),
            ("/dev/sda1", Class::Device),
            ("/dev/null", Class::Null),
            ("/dev/stderr.log", Class::System),
            ("/home/me/Downloads/x", Class::Outside),
            ("/e?c", Class::System),
            ("/*bin", Class::System),
            ("/[e]tc/x", Class::System),
            ("/data*", Class::Outside),
            ("/mnt/c/Windows", Class::System),
            ("/mnt/c/Users", Class::Home),
            ("/mnt/c", Class::Root),
            ("/mnt/disk/x", Class::Outside),
            ("/c/Program Files", Class::System),
            ("/c/src", Class::Outside),
        ] {
            let path = path.replace('*', &star).replace('?', &ANY.to_string()).replace('[', &SET.to_string());
            let path = lexical(&path, place.cwd());
            assert_eq!(of(&path, &place), expected, "{path}");
        }
    }
}
