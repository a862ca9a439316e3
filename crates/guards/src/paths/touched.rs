//! Where a file that a command touches lies, and what it holds.

use backstop_shell::marks::{HOLE, NOT_EMPTY, STAR};
use backstop_shell::{Labels, Place, Touch, paths};

use super::{Class, Level, class, is_confidential, sensitive};

/// What the tables say of a file that a command touches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) class: Class,
    /// The family of sensitive places it belongs to, and how sensitive that is.
    pub(crate) sensitive: Option<(&'static str, Level)>,
}

impl Target {
    pub(crate) fn of(touch: &Touch, place: &Place) -> Self {
        let below = touch.resolved.trim_end_matches(['/', STAR]);
        let below = || if below == touch.resolved { None } else { sensitive::find(below, place) };
        let sensitive =
            sensitive::find(&touch.resolved, place).or_else(below).map(|entry| (entry.id, entry.level));
        Self { class: class_of(touch, place), sensitive }
    }
}

fn class_of(touch: &Touch, place: &Place) -> Class {
    if !touch.is_anchored {
        return Class::Unknown;
    }
    if !touch.path.starts_with(HOLE) {
        return class::of(&touch.resolved, place);
    }
    // Two marks in a row stand for what is known not to be empty (`${x:?}`).
    let rest = touch.path.trim_start_matches(HOLE);
    let at_root = rest.starts_with('/')
        && !touch.path.starts_with(NOT_EMPTY)
        && class::of(&paths::lexical(rest, "/"), place) == Class::Root;
    if at_root { Class::Unset } else { Class::Unknown }
}

/// What the analysis of commands is told of files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places;

impl Labels for Places {
    fn is_secret(&self, path: &str, place: &Place) -> bool {
        // What a link on the disk leads to is what is read.
        is_confidential(path, place) || place.leads_to(path).is_some_and(|real| is_confidential(&real, place))
    }

    fn is_ordinary(&self, path: &str, place: &Place) -> bool {
        matches!(class::of(path, place), Class::Workspace | Class::Inside | Class::Temp)
    }
}
