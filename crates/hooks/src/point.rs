//! Hook points: the places in an agent's life, each with one event, one outcome and one way to merge.
//!
//! A point is a type without values. [`PointInfo`] describes a point for programs that do not know its
//! type. The catalogue of all points is in [`crate::points`].

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::digest::{Digest, DigestForm, Leaves};
use crate::latch::Field;
use crate::outcome::{Malformed, Outcome};
pub use crate::points::PointId;
use crate::tool_name::ToolName;

/// Keeps the points those of the catalogue.
pub(crate) mod sealed {
    /// INVARIANT (one type for one point): whoever could write a point of their own could give it the id of
    /// another, and put their hooks, or none, where that one's stand.
    pub trait Sealed {}
}

/// One hook point. The points are those of the catalogue; nobody else can write one.
///
/// ```compile_fail
/// use backstop_hooks::{Nothing, Point, PointInfo, points};
/// enum Mine {}
/// impl Point for Mine {
///     const INFO: &'static PointInfo = points::BeforeToolCall::INFO;
///     type Event = points::AgentEndEvent;
///     type Outcome = Nothing;
/// }
/// ```
pub trait Point: sealed::Sealed + Sized + Send + Sync + 'static {
    /// What is known about the point.
    const INFO: &'static PointInfo;
    /// What hooks are given.
    type Event: Event<Self::Outcome>;
    /// What hooks may answer.
    type Outcome: Outcome;
}

/// What a hook is given. It is shared, and a hook can only read it.
pub trait Event<O>:
    Clone + fmt::Debug + PartialEq + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
    /// Whether [`absorb`](Self::absorb) takes over all that answers can change. If not, the host applies
    /// the outcome, and an outcome that says anything is a change.
    const ABSORBS: bool = false;

    /// Applies what one hook's answer changes, so that the next hook sees it. Returns whether the judged value has
    /// changed.
    fn absorb(&mut self, _answer: &O) -> bool {
        false
    }

    /// Writes the current value into the merged outcome, if several of its fields are views of one value.
    fn conclude(&self, _merged: &mut O) {}

    /// Returns the tool that the event is about, at points where hooks can be limited to tools.
    fn tool_name(&self) -> Option<&ToolName> {
        None
    }

    /// Returns the fields that are hashed on their own: texts, conversations and tools that come again in other events. The digest of
    /// the event is then a tree over them.
    fn leaves(&self) -> Leaves {
        Leaves::default()
    }

    /// Returns the digest of the event in the role `kind`, which is the name of its point, and how it was computed.
    fn digest(&self, kind: &str) -> (Digest, DigestForm) {
        let leaves = self.leaves();
        match leaves.is_empty() {
            false => (Digest::of_tree(kind, self, &leaves), DigestForm::Tree),
            true => (Digest::of(kind, self), DigestForm::Whole),
        }
    }

    /// Refuses an answer that is well-formed but makes no sense for this event.
    ///
    /// # Errors
    ///
    /// [`Malformed`], which counts as a failure of the hook.
    fn check(&self, _answer: &O) -> Result<(), Malformed> {
        Ok(())
    }
}

/// Points whose hooks run one after another and may block, rewrite or ask.
pub trait DecidePoint: Point {}
/// Points whose hooks run concurrently and only watch.
pub trait ObservePoint: Point<Outcome = crate::outcome::Nothing> {}
/// Points whose hooks run one after another until one takes the event.
pub trait ClaimPoint: Point
where
    Self::Outcome: Claim,
{
}

/// An outcome that can take an event.
pub trait Claim {
    /// Returns whether the hook took the event.
    fn handled(&self) -> bool;
}

/// How hooks at a point run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// One after another; each sees the value as the one before left it.
    Decide,
    /// Concurrently, on the final value.
    Observe,
    /// One after another; the first that says `handled` takes it.
    Claim,
}

/// What a failed hook means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailurePolicy {
    /// A failed hook blocks.
    Closed,
    /// A failed hook is recorded and skipped.
    Open,
    /// A hook that can't be reached or does not answer in time is recorded and skipped; any other failure
    /// blocks. This is what `fail_open` of a remote hook means: an outage is not an answer, nonsense is.
    OpenIfUnreachable,
}

/// Which part of an agent's life a point belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// A: around model calls.
    Model,
    /// B: around tools.
    Tools,
    /// C: messages and delivery.
    Messages,
    /// D: sessions, sub-agents, lifecycle.
    Lifecycle,
}

/// What is known about a point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PointInfo {
    /// Which point.
    pub id: PointId,
    /// Its name on the wire and in the configuration.
    pub name: &'static str,
    /// Older names.
    pub aliases: &'static [&'static str],
    /// What it is for, in one line.
    pub summary: &'static str,
    /// The family.
    pub family: Family,
    /// How its hooks run.
    pub mode: Mode,
    /// What a failed hook means, unless the operator says otherwise for that hook.
    pub failure: FailurePolicy,
    /// The budget of each hook, in milliseconds, when neither operator nor author set one.
    pub budget_ms: u64,
    /// Hooks read the conversation: plugins that are not built in need `allowConversationAccess: true`.
    pub conversation_access: bool,
    /// Hooks change what the model reads: `allowPromptInjection: false` switches them off.
    pub prompt_injection: bool,
    /// What to use instead, for a point that is kept for old plugins.
    pub deprecated: Option<&'static str>,
    /// The outcome's fields and how they merge.
    pub fields: &'static [Field],
}

impl PointInfo {
    /// Returns the default budget of one hook.
    pub fn budget(&self) -> Duration {
        Duration::from_millis(self.budget_ms)
    }
}

impl PointId {
    /// Returns the point's name on the wire.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns the known name that is most like `name`, for error messages.
    pub fn nearest(name: &str) -> Option<Self> {
        let distance = |point: &&Self| edit_distance(point.name(), name);
        Self::ALL.iter().min_by_key(distance).filter(|point| distance(point) <= 1 + name.len() / 3).copied()
    }
}

/// A name that is no hook point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown hook point `{name}`{}", hint(.nearest))]
pub struct UnknownPoint {
    name: String,
    nearest: Option<PointId>,
}

fn hint(nearest: &Option<PointId>) -> String {
    nearest.map(|point| format!("\nhint: did you mean `{}`?", point.name())).unwrap_or_default()
}

impl FromStr for PointId {
    type Err = UnknownPoint;

    fn from_str(name: &str) -> Result<Self, UnknownPoint> {
        Self::ALL
            .iter()
            .find(|point| point.name() == name || point.info().aliases.contains(&name))
            .copied()
            .ok_or_else(|| UnknownPoint { name: name.to_owned(), nearest: Self::nearest(name) })
    }
}

impl fmt::Display for PointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for PointId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for PointId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}

/// Levenshtein distance over bytes: names are ASCII.
pub(crate) fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, y) in row.iter_mut().skip(1).zip(b.bytes()) {
            let best = (diagonal + usize::from(x != y)).min(*cell + 1).min(left + 1);
            diagonal = std::mem::replace(cell, best);
            left = best;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases_parse_and_typos_get_a_suggestion() {
        assert_eq!("before_tool_call".parse(), Ok(PointId::BeforeToolCall));
        assert_eq!("deactivate".parse(), Ok(PointId::GatewayStop));
        let error = "before_tool_cal".parse::<PointId>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown hook point `before_tool_cal`\nhint: did you mean `before_tool_call`?"
        );
        assert_eq!("xyz".parse::<PointId>().unwrap_err().to_string(), "unknown hook point `xyz`");
    }

    #[test]
    fn edit_distance_is_levenshtein() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("abc", "abc"), 0);
    }
}
