//! On which surfaces people are told of one question.
//!
//! Operators choose surfaces by routes. What was chosen is kept with the question, so that every process that shares it tells the same.
//!
//! The laws: *who is told is not who may answer*: nothing here lets anybody answer, or keeps anybody from it; *one reason more keeps it from nobody*:
//! where several routes hold, each surface is told as soon as one of them has it told.
//!
//! Limit: a surface that no process has configured any more is told nothing, and no other one is told in its place.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Timestamp, Uptime};

/// The surfaces on which a question is told, by name. On no other one it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToldOn {
    /// Those that are told from the beginning.
    pub surfaces: BTreeSet<String>,
    /// Those that are told later, while the question still waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub later: Vec<ToldLater>,
}

/// Surfaces that are told of a question once it has waited for some time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToldLater {
    /// The surfaces, by name.
    pub surfaces: BTreeSet<String>,
    /// From when on.
    pub at: Timestamp,
    /// The same moment on a clock that nobody sets, which decides on the machine that asks until it is started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime: Option<Uptime>,
}

/// When a surface is told of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TellWhen {
    /// Now.
    Now,
    /// At this moment, if the question still waits then.
    At(Timestamp),
    /// Never.
    Never,
}

impl ToldOn {
    /// Tells on the surfaces of both, on each from the earlier moment on.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.surfaces.extend(other.surfaces);
        self.later.extend(other.later);
        self
    }

    /// Returns when the surface of this name is told, as it is at `now`.
    pub fn when(&self, surface: &str, now: Timestamp) -> TellWhen {
        if self.surfaces.contains(surface) {
            return TellWhen::Now;
        }
        let later = || self.later.iter().filter(|later| later.surfaces.contains(surface));
        if later().any(|later| later.has_come(now)) {
            return TellWhen::Now;
        }
        later().map(|later| later.at).min().map_or(TellWhen::Never, TellWhen::At)
    }

    /// Returns it in words: `ops-slack; from 2026-03-01T10:05:00Z on also pager`.
    pub fn in_words(&self) -> String {
        let listed = |surfaces: &BTreeSet<String>| {
            let names: Vec<&str> = surfaces.iter().map(String::as_str).collect();
            names.join(", ")
        };
        let mut words =
            if self.surfaces.is_empty() { "no surface".to_owned() } else { listed(&self.surfaces) };
        for later in &self.later {
            words.push_str(&format!("; from {} on also {}", later.at, listed(&later.surfaces)));
        }
        words
    }
}

impl ToldLater {
    fn has_come(&self, now: Timestamp) -> bool {
        self.uptime.as_ref().and_then(Uptime::has_passed).unwrap_or(now > self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_surface_is_told_from_the_earliest_moment_on_that_is_its_own() {
        let at = |millis| Timestamp::from_millis(millis);
        let later =
            |surfaces: &[&str], millis| ToldLater { surfaces: names(surfaces), at: at(millis), uptime: None };
        let one = ToldOn { surfaces: names(&["chat"]), later: vec![later(&["pager"], 500)] };
        let other = ToldOn { surfaces: names(&[]), later: vec![later(&["chat", "pager", "mail"], 300)] };
        let both = one.or(other);
        for (surface, now, when) in [
            ("chat", 0, TellWhen::Now),
            ("pager", 300, TellWhen::At(at(300))),
            ("pager", 301, TellWhen::Now),
            ("mail", 0, TellWhen::At(at(300))),
            ("bell", 9_999, TellWhen::Never),
        ] {
            assert_eq!(both.when(surface, at(now)), when, "{surface} at {now}");
        }
        let words = both.in_words();
        assert!(words.starts_with("chat; from 1970-01-01T00:00:00.5"), "{words}");
        assert!(ToldOn::default().in_words() == "no surface");
    }

    #[test]
    fn the_clock_that_nobody_sets_decides() {
        let Some(uptime) = Uptime::now() else { return };
        let later = |span| ToldLater {
            surfaces: names(&["pager"]),
            at: Timestamp::from_millis(0),
            uptime: Some(uptime.clone().after(span)),
        };
        let not_yet = ToldOn { surfaces: names(&[]), later: vec![later(Duration::from_hours(1))] };
        assert_eq!(not_yet.when("pager", Timestamp::now()), TellWhen::At(Timestamp::from_millis(0)));
    }
}
