//! Where a file that a command touches is, and what it holds.

use backstop_shell::marks::{HOLE, NOT_EMPTY, STAR};
use backstop_shell::{Holder, Labels, Place, Touch, paths};

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
        let sensitive = sensitive::find(&touch.resolved, place).or_else(below);
        // What an image holds, everybody has who has the image.
        let sensitive = sensitive.filter(|_| touch.holder != Holder::NewContainer);
        let sensitive = sensitive.map(|entry| (entry.id, entry.level));
        Self { class: class_of(touch, place), sensitive }
    }
}

fn class_of(touch: &Touch, place: &Place) -> Class {
    if !touch.is_anchored {
        return Class::Unknown;
    }
    if !touch.path.starts_with(HOLE) {
        let class = class::of(&touch.resolved, place);
        let is_gone = match touch.holder {
            Holder::Machine => false,
            Holder::Container => class == Class::Outside && class::is_cache(&touch.resolved),
            Holder::NewContainer => !matches!(class, Class::Device | Class::Null),
        };
        return if is_gone { Class::Temp } else { class };
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
        let leads_elsewhere = |real: &String| real != path;
        is_confidential(path, place)
            || place.leads_to(path).filter(leads_elsewhere).is_some_and(|real| is_confidential(&real, place))
    }

    fn is_ordinary(&self, path: &str, place: &Place) -> bool {
        matches!(class::of(path, place), Class::Workspace | Class::Inside | Class::Temp)
    }
}
