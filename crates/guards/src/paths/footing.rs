//! An agent's footing: the settings with which it starts its hooks, and Backstop itself.
//!
//! A place is protected as a class: the folder, everything in it that affects hooks, whatever is put into it
//! under an unknown name, links to it, and anything that moves it away together with a parent folder. In a home the whole
//! folder of a client is protected, whatever the client will put there next, except what agents keep there for themselves
//! (plans, sessions, memory). Only the table of sensitive paths says which places these are.
//!
//! Limits: a folder that a variable of the client relocates is recognised only if the command or the path names it by that
//! variable.

use backstop_shell::Place;
use backstop_shell::marks::{ANY, HOLE, STAR};

use super::sensitive;

/// The families of files and folders that decide which calls are judged.
pub(super) const FAMILIES: [&str; 5] =
    ["agent-footing", "guard-config", "guard-data", "guard-program", "guard-service"];

/// Folders of a home that hold some of these.
const ABOVE: &[&[&str]] =
    &[&[], &[".config"], &[".local"], &[".local", "share"], &[".agents"], &["Documents", "Cline"]];

/// Returns whether an absolute path is such a folder or such a file, by its name or by where links on the disk lead.
pub(crate) fn holds(path: &str, place: &Place) -> bool {
    is_one(path, place) || place.leads_to(path).is_some_and(|real| is_one(&real, place))
}

/// The same by its name alone.
pub(crate) fn is_one(path: &str, place: &Place) -> bool {
    let named = named(path);
    let shortest = format!("/{}", named.join("/"));
    sensitive::is_footing(path, place) || shortest != path && sensitive::is_footing(&shortest, place)
}

/// Returns whether a folder of the user is one that such folders lie in.
pub(crate) fn is_above(path: &str, place: &Place) -> bool {
    let (path, home) = (named(path), named(place.home()));
    let Some(rest) = path.strip_prefix(home.as_slice()) else { return false };
    place.workspace() != place.home() && ABOVE.contains(&rest)
}

/// Returns the segments, without those at the end that may be anything.
fn named(path: &str) -> Vec<&str> {
    let is_any = |segment: &&str| segment.chars().all(|c| matches!(c, STAR | ANY | HOLE));
    let mut segments: Vec<&str> =
        path.split('/').filter(|segment| !segment.is_empty() && *segment != ".").collect();
    while segments.last().is_some_and(is_any) {
        segments.pop();
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_and_what_decides_in_it_are_meant_and_a_clients_state_is_not() {
        let place = Place::new("/work/app").with_home("/home/me");
        let star = STAR.to_string();
        for path in [
            "/home/me/.claude",
            "/home/me/.claude/",
            "/home/me/.claude/*",
            "/home/me/.Claude/settings.json",
            "/work/app/.claude/settings.local.json",
            "/work/app/.github/hooks/x.json",
            "/home/me/.config/opencode/plugins/backstop.js",
            "/home/me/.local/share/backstop/pinned.json",
            "/etc/claude-code/managed-settings.json",
            "/home/other/.codex/config.toml",
            "/home/me/.claude/plugins/known.json",
            "/home/me/.c*/settings.json",
            "/home/me/.config/systemd/user/backstop.service",
            "/usr/local/bin/backstop",
        ] {
            assert!(is_one(&path.replace('*', &star), &place), "{path}");
        }
        for path in [
            "/home/me/.claude/plans/p.md",
            "/home/me/.claude/projects/x/memory/m.md",
            "/home/me/.claude/CLAUDE.md",
            "/home/me/.config/app/settings.json",
            "/work/app/*.json",
            "/work/app/.claude/commands/x.md",
            "/work/app/crates/backstop/src/lib.rs",
            "/work/app/src/settings.json",
            "/work/app/claude/settings.json",
            "/etc/hosts",
        ] {
            assert!(!is_one(path, &place), "{path}");
        }
    }

    #[test]
    fn what_lies_above_goes_with_them() {
        let place = Place::new("/work/app").with_home("/home/me");
        for path in ["/home/me", "/home/me/.config", "/home/me/.config/", "/home/me/.local/share"] {
            assert!(is_above(path, &place), "{path}");
        }
        for path in ["/home/me/Downloads", "/home/me/.cache", "/home", "/work/app", "/home/me/.local/bin"] {
            assert!(!is_above(path, &place), "{path}");
        }
    }
}
