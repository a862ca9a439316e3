//! Hosts: who fires which hook points, and what happens to the answers there.
//!
//! A *host* turns the outside world into events and obeys outcomes: the agent, a proxy, the adapter of a
//! coding agent, a program that embeds the engine. No host sees all of an agent's life. Each declares in a
//! [`HostProfile`] the points that it fires and, field by field, whether it can do what an answer there
//! says. The law: *no silent gap*. A hook at a point that no host of its process fires would never be
//! called, so it can't be registered. A field that a host can't honour becomes something stricter, or
//! the profile says explicitly that it has no effect.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::point::PointId;

/// What a host does with one field of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "honour", content = "why")]
pub enum Honour {
    /// The host does what the field says.
    Obeyed,
    /// The host can't, and does this stricter thing instead.
    Stricter(&'static str),
    /// The field has no effect, for this reason.
    Ignored(&'static str),
}

impl Honour {
    /// Returns whether the field has any effect.
    pub fn has_effect(self) -> bool {
        !matches!(self, Self::Ignored(_))
    }
}

/// What one host fires and honours.
///
/// ```
/// use backstop_hooks::{HostProfile, Honour, PointId};
///
/// let host = HostProfile::new("bot", "My bot")
///     .fires([PointId::BeforeToolCall, PointId::AfterToolCall])
///     .except(PointId::BeforeToolCall, "requireApproval", Honour::Stricter("the call is denied"));
/// assert!(host.does_fire(PointId::AfterToolCall));
/// assert_eq!(host.honour(PointId::BeforeToolCall, "params"), Some(Honour::Obeyed));
/// assert_eq!(host.honour(PointId::BeforeLlmCall, "messages"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostProfile {
    name: &'static str,
    title: &'static str,
    /// The points that it fires, each with the fields that it does not simply obey.
    points: BTreeMap<PointId, BTreeMap<&'static str, Honour>>,
}

impl HostProfile {
    /// Creates a host that fires nothing yet. `name` is one word, for commands and JSON; `title` is for people.
    pub fn new(name: &'static str, title: &'static str) -> Self {
        Self { name, title, points: BTreeMap::new() }
    }

    /// Creates a program that embeds the engine: it fires whatever it calls, which nobody else can know.
    pub fn program() -> Self {
        Self::new("program", "embedding program").fires(PointId::ALL.iter().copied())
    }

    /// Declares that the host fires these points and obeys every field of their outcomes.
    #[must_use]
    pub fn fires(mut self, points: impl IntoIterator<Item = PointId>) -> Self {
        for point in points {
            self.points.entry(point).or_default();
        }
        self
    }

    /// Declares that the host fires the point and does something else with one field.
    #[must_use]
    pub fn except(mut self, point: PointId, field: &'static str, honour: Honour) -> Self {
        self.points.entry(point).or_default().insert(field, honour);
        self
    }

    /// Returns its name, one word.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns its name for people.
    pub fn title(&self) -> &'static str {
        self.title
    }

    /// Returns the points that it fires, in the order of the catalogue.
    pub fn points(&self) -> impl Iterator<Item = PointId> + '_ {
        self.points.keys().copied()
    }

    /// Returns whether it fires the point.
    pub fn does_fire(&self, point: PointId) -> bool {
        self.points.contains_key(&point)
    }

    /// Returns what it does with a field; `None` if it does not fire the point, or if the point's outcome has no such field.
    pub fn honour(&self, point: PointId, field: &str) -> Option<Honour> {
        let exceptions = self.points.get(&point)?;
        let field = point.info().fields.iter().find(|known| known.name == field)?;
        Some(exceptions.get(field.name).copied().unwrap_or(Honour::Obeyed))
    }

    /// Returns the fields that it does not simply obey, in the order of the catalogue.
    pub fn exceptions(&self) -> impl Iterator<Item = (PointId, &'static str, Honour)> + '_ {
        self.points
            .iter()
            .flat_map(|(point, fields)| fields.iter().map(|(field, honour)| (*point, *field, *honour)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_fire_everything_and_is_taken_at_its_word() {
        let program = HostProfile::program();
        assert_eq!(program.points().count(), PointId::ALL.len());
        for point in PointId::ALL {
            for field in point.info().fields {
                assert_eq!(program.honour(*point, field.name), Some(Honour::Obeyed));
            }
            assert_eq!(program.honour(*point, "no such field"), None);
        }
    }
}
