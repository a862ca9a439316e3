//! Which paths hold what nobody should see.
//!
//! Patterns are indexed by one literal segment (or extension), so judging a path costs one lookup per
//! segment and not one match per pattern.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use backstop_shell::Place;
use backstop_shell::marks::{ANY, HOLE, SET, STAR};
use serde::{Deserialize, Serialize};

use super::footing::FAMILIES as FOOTING;
use super::innocent::{
    BACKUPS, INNOCENT_DIRECTORIES, INNOCENT_NAMES, INNOCENT_SUFFIXES, OWN_NOTES, SOURCES, VENDORED,
};
use super::sieve::Sieve;
use super::table::entries;

/// How much harm reading the path does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// What a tool runs, or an agent follows, automatically: writing it is asked about.
    Runs,
    /// Settings that decide what an agent may do: writing is judged, and reading only in strict.
    Config,
    /// Private, and kept from file tools; a shell may read it except in strict.
    Private,
    /// Credentials.
    Secret,
}

/// A family of sensitive paths.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: &'static str,
    pub(crate) level: Level,
    pub(crate) what: &'static str,
    pub(super) patterns: &'static [&'static str],
}

impl Entry {
    /// Returns whether it decides which of an agent's calls are judged.
    fn is_footing(&self) -> bool {
        FOOTING.contains(&self.id)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    Anywhere,
    Home,
    Root,
}

struct Pattern {
    entry: &'static Entry,
    anchor: Anchor,
    segments: Vec<Glob>,
    /// What each segment stands for at least: its text without the star.
    shortest: Vec<String>,
    below: bool,
}

/// A name that is written out, or one with a star.
struct Glob {
    written: &'static str,
    /// What stands before the first star, and what behind it, if there is one.
    parts: (&'static str, Option<&'static str>),
}

impl Glob {
    fn new(written: &'static str) -> Self {
        let parts = written.split_once('*').map_or((written, None), |(head, tail)| (head, Some(tail)));
        Self { written, parts }
    }
}

#[derive(Default)]
struct Index {
    patterns: Vec<Pattern>,
    by_segment: HashMap<&'static str, Vec<usize>>,
    /// What may be a key of that.
    segments: Sieve,
    by_extension: HashMap<&'static str, Vec<usize>>,
    /// Those without a literal segment, by the byte with which a name begins that they may fit.
    loose: HashMap<u8, Vec<usize>>,
    /// Those of them that fit names with any beginning.
    any_beginning: Vec<usize>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut index = Index::default();
    for entry in entries() {
        for written in entry.patterns {
            index.add(entry, written);
        }
    }
    index.any_beginning.iter().for_each(|at| {
        index.loose.values_mut().for_each(|fitting| fitting.push(*at));
    });
    index.loose.values_mut().for_each(|fitting| fitting.sort_unstable());
    index
});

impl Index {
    fn add(&mut self, entry: &'static Entry, written: &'static str) {
        let (anchor, rest) = match (written.strip_prefix("~/"), written.strip_prefix('/')) {
            (Some(rest), _) => (Anchor::Home, rest),
            (None, Some(rest)) => (Anchor::Root, rest),
            (None, None) => (Anchor::Anywhere, written),
        };
        let below = rest.ends_with("/**");
        let segments: Vec<&'static str> = rest.trim_end_matches("/**").split('/').collect();
        let at = self.patterns.len();
        let last = segments.last().copied().unwrap_or_default();
        let literal = segments.iter().rev().find(|segment| !segment.contains('*'));
        let extension = last.strip_prefix("*.").filter(|ext| !ext.contains(['*', '.']));
        let beginning = last.bytes().next().filter(|byte| *byte != b'*' && !below);
        match (literal, extension, beginning) {
            (Some(literal), ..) => {
                self.segments.add(literal);
                self.by_segment.entry(literal).or_default().push(at);
            }
            (None, Some(extension), _) => self.by_extension.entry(extension).or_default().push(at),
            (None, None, Some(beginning)) => self.loose.entry(beginning).or_default().push(at),
            (None, None, None) => self.any_beginning.push(at),
        }
        let shortest = segments.iter().map(|segment| segment.replace('*', "")).collect();
        let segments = segments.into_iter().map(Glob::new).collect();
        self.patterns.push(Pattern { entry, anchor, segments, shortest, below });
    }

    /// Returns the patterns that are filed under a segment of the path, each once however often the segment stands there: a
    /// match looks at the whole path.
    fn filed(&self, segments: &[&str]) -> Vec<usize> {
        let mut met = HashSet::new();
        let literals = segments.iter().filter(|segment| self.segments.lets_through(segment));
        let filed = literals.filter_map(|segment| self.by_segment.get(segment)).flatten().copied();
        filed.filter(|at| met.insert(*at)).collect()
    }
}

/// Returns the family an absolute, normalised path belongs to, if it is sensitive. A backup of credentials is as good as
/// they are.
pub(crate) fn find(path: &str, place: &Place) -> Option<&'static Entry> {
    let itself = by_name(path, place);
    if itself.is_some_and(|entry| entry.level == Level::Secret) {
        return itself;
    }
    let original = without_backup(path).and_then(|original| by_name(original, place));
    original.filter(|entry| entry.level == Level::Secret).or(itself)
}

/// Returns whether an absolute, normalised path is one that decides which calls are judged, whatever else it is.
pub(super) fn is_footing(path: &str, place: &Place) -> bool {
    let lower = in_small_letters(path);
    let segments: Vec<&str> = lower.split('/').filter(|segment| !segment.is_empty()).collect();
    let home = home_depth(&lower, &segments, place);
    let index = &*INDEX;
    let filed = index.filed(&segments);
    let mut filed = filed.iter().filter_map(|at| index.patterns.get(*at)).filter(|it| it.entry.is_footing());
    filed.any(|pattern| fits(pattern, &segments, home)) || is_globbed_footing(&segments, home)
}

/// Returns whether a written glob in the user's own folders, or in the workspace, can match such a path.
fn is_globbed_footing(segments: &[&str], home: Option<usize>) -> bool {
    let inner = segments.get(home.unwrap_or_default()..).unwrap_or_default();
    let may_mean_more =
        |segment: &&str| segment.contains([STAR, ANY, SET]) && fixed(segment) >= LEAST_FIXED_OF_FOOTING;
    inner.iter().any(may_mean_more)
        && INDEX.patterns.iter().any(|pattern| {
            pattern.entry.is_footing() && globbed(pattern, segments, home, LEAST_FIXED_OF_FOOTING)
        })
}

/// Returns the path of a file whose backup this seems to be.
fn without_backup(path: &str) -> Option<&str> {
    let (start, name) = path.rsplit_once('/').map_or((0, path), |(folder, name)| (folder.len() + 1, name));
    let kept = BACKUPS.iter().find_map(|suffix| {
        let end = name.len().checked_sub(suffix.len())?;
        name.get(end..).filter(|found| found.eq_ignore_ascii_case(suffix)).map(|_| end)
    });
    // `name.20250131`, `name.2025-01-31`, `name.1`.
    let dated = || {
        let (kept, date) = name.rsplit_once('.')?;
        date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-').then_some(kept.len())
    };
    let end = kept.or_else(dated).filter(|end| *end > 0)?;
    path.get(..start + end)
}

fn by_name(path: &str, place: &Place) -> Option<&'static Entry> {
    let lower = in_small_letters(path);
    let segments: Vec<&str> = lower.split('/').filter(|segment| !segment.is_empty()).collect();
    let name = *segments.last()?;
    let home = home_depth(&lower, &segments, place);
    let index = &*INDEX;
    let mut found: Option<&Pattern> = None;
    let mut consider = |at: &usize| {
        if let Some(pattern) = index.patterns.get(*at)
            && found.is_none_or(|best| best.entry.level < pattern.entry.level)
            && fits(pattern, &segments, home)
        {
            found = Some(pattern);
        }
    };
    index.filed(&segments).iter().for_each(&mut consider);
    if let Some((_, extension)) = name.rsplit_once('.') {
        index.by_extension.get(extension).into_iter().flatten().for_each(&mut consider);
    }
    let loose = name.bytes().next().and_then(|first| index.loose.get(&first));
    loose.unwrap_or(&index.any_beginning).iter().for_each(&mut consider);
    if found.is_none() && name.contains([STAR, ANY]) && fixed(name) >= LEAST_FIXED {
        let mut secrets = index.patterns.iter().filter(|pattern| pattern.entry.level == Level::Secret);
        found = secrets.find(|pattern| globbed(pattern, &segments, home, LEAST_FIXED));
    }
    let pattern = found.or_else(|| searched(&segments, home))?;
    let inner = segments.get(home.unwrap_or_default()..).unwrap_or_default();
    (!is_innocent(pattern, inner, name)).then_some(pattern.entry)
}

/// Returns what runs by itself among the files that a search below one of its folders finds, or a pattern that names the
/// folder (`.github/*/*.yml`, `.github/workf*/ci.yml`).
fn searched(segments: &[&str], home: Option<usize>) -> Option<&'static Pattern> {
    let is_open = |segment: &&str| segment.contains([STAR, ANY, HOLE]);
    let at = segments.iter().position(is_open).filter(|at| at + 1 < segments.len())?;
    let glob = segments.get(at)?.replace(HOLE, &STAR.to_string());
    let mut filled = segments.to_vec();
    INDEX.patterns.iter().filter(|pattern| pattern.entry.level == Level::Runs).find(|pattern| {
        let folders = pattern.segments.iter().skip(1).map(|folder| folder.written);
        folders.filter(|folder| backstop_shell::pattern_matches(&glob, folder)).any(|folder| {
            if let Some(place) = filled.get_mut(at) {
                *place = folder;
            }
            fits(pattern, &filled, home)
        })
    })
}

fn in_small_letters(text: &str) -> Cow<'_, str> {
    let is_small = text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    if is_small { Cow::Borrowed(text) } else { Cow::Owned(text.to_lowercase()) }
}

/// Returns how many leading segments are the home directory of somebody.
fn home_depth(lower: &str, segments: &[&str], place: &Place) -> Option<usize> {
    let home = in_small_letters(place.home());
    if lower.strip_prefix(&*home).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        return Some(home.split('/').filter(|segment| !segment.is_empty()).count());
    }
    match segments {
        ["root", ..] => Some(1),
        ["home" | "users", _, ..] => Some(2),
        [drive, "users", _, ..] if drive.ends_with(':') => Some(3),
        _ => None,
    }
}

fn fits(pattern: &Pattern, segments: &[&str], home: Option<usize>) -> bool {
    let len = pattern.segments.len();
    let matches_at = |start: usize| {
        segments.get(start..start + len).is_some_and(|window| {
            window.iter().zip(&pattern.segments).all(|(segment, wanted)| segment_fits(wanted, segment))
        })
    };
    let last_start = segments.len().checked_sub(len);
    match (pattern.anchor, last_start) {
        (_, None) => false,
        (Anchor::Root, Some(last)) => {
            let start = usize::from(segments.first().is_some_and(|first| first.ends_with(':')));
            (pattern.below || start == last) && matches_at(start)
        }
        (Anchor::Home, Some(last)) => {
            let is_own = |start| pattern.entry.is_footing() && is_own_note(segments, start);
            home.is_some_and(|start| (pattern.below || start == last) && matches_at(start) && !is_own(start))
        }
        (Anchor::Anywhere, Some(last)) if pattern.below => (0..=last).any(matches_at),
        (Anchor::Anywhere, Some(last)) => matches_at(last),
    }
}

/// Returns whether this is what an agent writes for itself below its folder in a home of `start` segments.
fn is_own_note(segments: &[&str], start: usize) -> bool {
    let below = segments.get(start..).unwrap_or_default();
    OWN_NOTES.iter().any(|note| {
        let mut rest = below.iter();
        note.split('/').all(|wanted| rest.next() == Some(&wanted))
    })
}

/// Matches one segment; `*` does not stand for blanks, so that prose which mentions a name is no path.
fn segment_fits(wanted: &Glob, segment: &str) -> bool {
    let (head, tail) = wanted.parts;
    let Some(tail) = tail else { return head == segment };
    let Some(rest) = segment.strip_prefix(head) else { return false };
    if let Some((middle, end)) = tail.split_once('*') {
        return rest.contains(middle) && rest.ends_with(end) && !rest.contains(' ');
    }
    let Some(filler) = rest.strip_suffix(tail) else { return false };
    // A name that is the pattern without its star (`id_rsa` for `id_rsa*`) counts unless the star ends it.
    (!filler.is_empty() || !tail.is_empty() || !head.ends_with(['.', '-', '_']))
        && (!filler.contains([' ', ')', '(']) || head.starts_with("id_"))
}

/// A written glob that can match a sensitive name (`~/.ss?/id*`).
fn globbed(pattern: &Pattern, segments: &[&str], home: Option<usize>, least: usize) -> bool {
    let len = pattern.segments.len();
    let Some(start) = segments.len().checked_sub(len) else { return false };
    if pattern.anchor == Anchor::Root && start != 0 || pattern.anchor == Anchor::Home && home != Some(start) {
        return false;
    }
    // `*.json` is how people name all files of a kind, wherever credentials of that kind may lie; it names none of them.
    let is_name = pattern.anchor == Anchor::Anywhere && len == 1;
    if is_name
        && segments.last().is_some_and(|glob| names_a_kind(glob))
        && segments.last().copied() != pattern.segments.last().map(|last| last.written)
    {
        return false;
    }
    segments.iter().skip(start).zip(pattern.segments.iter().zip(&pattern.shortest)).all(
        |(glob, (wanted, shortest))| {
            *glob == wanted.written
                || may_begin(glob, shortest)
                    && fixed(glob) >= least
                    && backstop_shell::pattern_matches(glob, shortest)
        },
    )
}

/// Characters that a glob must have of a name to mean it.
const LEAST_FIXED: usize = 3;

/// The same of what decides which calls are judged: nobody means `.c*` to leave `.claude` out.
const LEAST_FIXED_OF_FOOTING: usize = 2;

/// Returns whether a name that begins like `text` may be one that a glob stands for.
fn may_begin(glob: &str, text: &str) -> bool {
    let first = glob.chars().next();
    first == text.chars().next() || first.is_some_and(|c| matches!(c, STAR | ANY | SET | HOLE))
}

/// Returns how many characters of a glob stand for themselves.
fn fixed(glob: &str) -> usize {
    glob.chars().filter(|c| !matches!(*c, STAR | ANY)).count()
}

/// Returns whether a glob names nothing of a file but its extension.
fn names_a_kind(glob: &str) -> bool {
    glob.rsplit_once('.')
        .is_some_and(|(stem, extension)| !stem.is_empty() && fixed(stem) == 0 && fixed(extension) > 0)
}

fn is_innocent(pattern: &Pattern, segments: &[&str], name: &str) -> bool {
    if pattern.entry.level == Level::Runs {
        return segments.iter().rev().skip(1).any(|segment| VENDORED.contains(segment));
    }
    if pattern.entry.is_footing() {
        return false;
    }
    if INNOCENT_NAMES.contains(&name) {
        return true;
    }
    // `.env.example.production`, `config.env.sample`.
    let innocent_part =
        INNOCENT_SUFFIXES.iter().any(|suffix| name.ends_with(suffix) || name.contains(&format!("{suffix}.")));
    if innocent_part && pattern.entry.id != "ssh-directory" || name.ends_with(".pub") {
        return true;
    }
    if matches!(pattern.entry.id, "ssh-key" | "key-file")
        && SOURCES.iter().any(|ending| name.ends_with(ending))
    {
        return true;
    }
    if pattern.anchor != Anchor::Anywhere || pattern.segments.len() > 1 {
        return false;
    }
    name.contains(".test.")
        || segments.iter().rev().skip(1).any(|segment| INNOCENT_DIRECTORIES.contains(segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_held_against_a_path_once_however_often_its_segment_stands_there() {
        let index = &*INDEX;
        let segments: Vec<&str> = (0..1_000).flat_map(|_| index.by_segment.keys().copied()).collect();
        let filed = index.filed(&segments);
        let all: usize = index.by_segment.values().map(Vec::len).sum();
        assert_eq!(filed.len(), all);
        // The first ones first, as they stand in the path.
        let once = index.filed(segments.get(..index.by_segment.len()).unwrap_or_default());
        assert_eq!(filed, once);
        assert!(index.filed(&["a", "b"]).is_empty());
    }
}
