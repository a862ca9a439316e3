//! What an agent stands on: the settings by which it starts its hooks, and Backstop itself.
//!
//! A place is protected as a class: the folder, everything in it that decides about hooks, whatever is put into it
//! under a name that is not known, and what moves it away together with a folder above it. Clients keep state of
//! their own in the same folders (plans, sessions, memory), which is not meant.
//!
//! Limits: a folder that a variable of the client moves is known only where the command or the path names it as such.

use backstop_shell::Place;
use backstop_shell::marks::{ANY, HOLE, STAR};

use super::sensitive;

/// The families of files that decide about hooks.
const FAMILIES: [&str; 2] = ["agent-footing", "guard-config"];

/// Folders that hold such files, by their last segments.
const FOLDERS: &[&[&str]] = &[
    &[".claude"],
    &[".claude", "hooks"],
    &[".codex"],
    &[".codex", "hooks"],
    &[".gemini"],
    &[".gemini", "config"],
    &[".qwen"],
    &[".copilot"],
    &[".copilot", "hooks"],
    &[".github", "hooks"],
    &[".github", "copilot"],
    &[".cline"],
    &[".cline", "hooks"],
    &[".clinerules"],
    &[".clinerules", "hooks"],
    &[".opencode"],
    &[".opencode", "plugin"],
    &[".opencode", "plugins"],
    &[".config", "opencode"],
    &["opencode", "plugins"],
    &[".cursor"],
    &[".cursor", "hooks"],
    &[".windsurf"],
    &[".codeium"],
    &[".codeium", "windsurf"],
    &[".kiro"],
    &[".kiro", "hooks"],
    &[".agents"],
    &[".agents", "plugins"],
    &[".factory"],
    &[".devin"],
    &[".config", "goose"],
    &[".kimi"],
    &[".kimi-code"],
    &[".config", "backstop"],
    &[".local", "share", "backstop"],
    &[".backstop"],
    &["etc", "claude-code"],
    &["etc", "codex"],
    &["etc", "gemini-cli"],
    &["etc", "qwen-code"],
    &["etc", "github-copilot"],
    &["etc", "opencode"],
    &["etc", "cursor"],
    &["etc", "windsurf"],
    &["etc", "backstop"],
];

/// Folders of a home that hold some of these.
const ABOVE: &[&[&str]] = &[&[], &[".config"], &[".local"], &[".local", "share"]];

/// Whether an absolute path is such a folder or such a file.
pub(crate) fn holds(path: &str, place: &Place) -> bool {
    is_folder(path) || sensitive::belongs(path, place, &FAMILIES)
}

/// Whether an absolute path is such a folder, or stands for what is directly in it.
pub(crate) fn is_folder(path: &str) -> bool {
    let lower = path.to_lowercase();
    let segments = named(&lower);
    FOLDERS.iter().any(|folder| segments.ends_with(folder))
}

/// Whether a folder of the user is one that such folders lie in.
pub(crate) fn is_above(path: &str, place: &Place) -> bool {
    let (path, home) = (named(path), named(place.home()));
    let Some(rest) = path.strip_prefix(home.as_slice()) else { return false };
    place.workspace() != place.home() && ABOVE.contains(&rest)
}

/// The segments, without those at the end that may be anything.
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
        ] {
            assert!(holds(&path.replace('*', &star), &place), "{path}");
        }
        for path in [
            "/home/me/.claude/plans/p.md",
            "/home/me/.claude/projects/x/memory/m.md",
            "/work/app/src/settings.json",
            "/work/app/claude/settings.json",
            "/etc/hosts",
        ] {
            assert!(!holds(path, &place), "{path}");
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
