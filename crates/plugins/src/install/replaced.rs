//! What an installation takes the place of.
//!
//! An id is all that ties grants, settings and data to a plugin, and its manifest chooses it. The law: *nobody takes the place of another in
//! silence*. Whoever consents is told which version is replaced and where that came from, and whether the new one comes from somewhere else.
//!
//! Limits: another commit or version from one place is the same place; who is allowed to publish there is not known here.

use super::Origin;

/// What is installed under the id of a plugin that is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Its version, as its manifest had it.
    pub version: Option<String>,
    /// Where it came from, in words.
    pub source: String,
    /// Whether that is another place than the new one's.
    pub is_elsewhere: bool,
}

impl Replaced {
    /// What is installed from `source`, held against where its successor comes from.
    pub(crate) fn new(version: Option<String>, source: String, origin: &Origin) -> Self {
        let is_elsewhere = place(&source) != place(&origin.words);
        Self { version, source, is_elsewhere }
    }
}

/// Where a plugin came from, without which version or commit: two words for a package, its name and its registry.
fn place(words: &str) -> (&str, Option<&str>) {
    if let Some(package) = words.strip_prefix("npm:") {
        let after = package.strip_prefix('@').map_or(0, |_| 1);
        let at = package.char_indices().skip(after).find(|(_, c)| *c == '@').map(|(at, _)| at);
        let name =
            at.and_then(|at| words.split_at_checked("npm:".len() + at)).map_or(words, |(name, _)| name);
        return (name, words.rsplit_once(") from ").map(|(_, registry)| registry));
    }
    if words.starts_with("git:") {
        let whole = words.rsplit_once(" at ").map_or(words, |(whole, _)| whole);
        return (whole.split_once('#').map_or(whole, |(place, _)| place), None);
    }
    (words, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_the_same_place_and_another_name_is_not() {
        let is_elsewhere = |before: &str, now: &str| {
            let origin = Origin { words: now.to_owned(), notes: Vec::new() };
            Replaced::new(None, before.to_owned(), &origin).is_elsewhere
        };
        let registry = "https://registry.example/";
        let npm = |name: &str| format!("npm:{name} (sha512-x) from {registry}");
        for (one, other) in [
            (npm("a@1"), npm("a@2")),
            (npm("@s/a@1"), npm("@s/a@2")),
            ("git:/a at 1".to_owned(), "git:/a#main at 2".to_owned()),
            ("git:/a at b#v1 at 1".to_owned(), "git:/a at b#v2 at 2".to_owned()),
            ("/a".to_owned(), "/a".to_owned()),
        ] {
            assert!(!is_elsewhere(&one, &other) && !is_elsewhere(&other, &one), "{one} {other}");
        }
        for (one, other) in [
            (npm("a@1"), npm("b@1")),
            (npm("@s/a@1"), npm("@t/a@1")),
            (npm("@s/a@1"), npm("a@1")),
            (npm("a@1"), "npm:a@1 (sha512-x) from https://registry.example.org/".to_owned()),
            (npm("a@1"), "npm:a@1 (sha512-x)".to_owned()),
            (npm("a@1"), "/a".to_owned()),
            ("git:/a at 1".to_owned(), "git:/b at 1".to_owned()),
            ("git:/a at 1".to_owned(), "/a".to_owned()),
            ("/a".to_owned(), "/b".to_owned()),
        ] {
            assert!(is_elsewhere(&one, &other) && is_elsewhere(&other, &one), "{one} {other}");
        }
    }
}
