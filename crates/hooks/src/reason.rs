//! Why a value was stopped: in words for people, by rule for the record.
//!
//! Words quote what they are about: a path, a command, an error. The recipient needs that, but a
//! record must not store it. A reason therefore has both: its text, which is shown, and
//! its rules, which are recorded. The record stores a [`RecordedReason`], a type
//! that has no room for text.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::digest::Digest;
use crate::id::RuleId;
use crate::value::Text;

/// Why a value was stopped. On the wire it is its text: rules come from hooks of this process.
#[derive(Clone, PartialEq, Eq)]
pub struct Reason {
    text: Text,
    rules: Arc<[RuleId]>,
    /// Whether the rules say all of it, so that not even a digest of the text is recorded.
    is_fixed: bool,
}

impl Reason {
    /// Creates a reason in words. A record stores only its digest.
    pub fn new(text: impl Into<Text>) -> Self {
        Self { text: text.into(), rules: Arc::default(), is_fixed: false }
    }

    /// Creates a reason from one of Backstop's own sentences, possibly with an error in it that must not be found
    /// in a record or guessed from a digest: a record stores the rule and nothing else.
    pub fn fixed(rule: impl Into<RuleId>, text: impl Into<Text>) -> Self {
        Self { text: text.into(), rules: Arc::new([rule.into()]), is_fixed: true }
    }

    /// Sets the rules that the reason comes from.
    #[must_use]
    pub fn by(mut self, rules: impl IntoIterator<Item = RuleId>) -> Self {
        self.rules = rules.into_iter().collect();
        self
    }

    /// Returns the words.
    pub fn text(&self) -> &Text {
        &self.text
    }

    /// Returns the rules that it comes from; empty if the hook names none.
    pub fn rules(&self) -> &[RuleId] {
        &self.rules
    }

    /// Returns the part that may be stored.
    pub fn recorded(&self) -> RecordedReason {
        let digest = (!self.is_fixed).then(|| Digest::of_text("reason", &self.text));
        RecordedReason { rules: self.rules.to_vec(), digest }
    }
}

/// What a record keeps of a [`Reason`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedReason {
    /// The rules that it comes from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleId>,
    /// The digest of its words, in the role `reason`: whoever was told them can show that it was these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

impl Deref for Reason {
    type Target = Text;

    fn deref(&self) -> &Text {
        &self.text
    }
}

impl Default for Reason {
    fn default() -> Self {
        Self::new("")
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reason").field("text", &self.text).field("rules", &self.rules).finish()
    }
}

impl From<Text> for Reason {
    fn from(text: Text) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<Reason> for Text {
    fn from(reason: Reason) -> Self {
        reason.text
    }
}

impl PartialEq<str> for Reason {
    fn eq(&self, other: &str) -> bool {
        self.text == *other
    }
}

impl PartialEq<&str> for Reason {
    fn eq(&self, other: &&str) -> bool {
        self.text == **other
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Text::deserialize(deserializer).map(Self::new)
    }
}

impl JsonSchema for Reason {
    fn schema_name() -> Cow<'static, str> {
        Text::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        Text::schema_id()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Text::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_rules_and_a_digest_and_no_words() {
        let reason = Reason::new("rm -rf /home/ann").by(["filesystem.delete".into()]);
        let kept = serde_json::to_string(&reason.recorded()).unwrap();
        assert!(kept.contains("filesystem.delete") && !kept.contains("ann"), "{kept}");
        assert_eq!(reason.recorded().digest, Some(Digest::of_text("reason", "rm -rf /home/ann")));
        assert!(!format!("{reason:?}").contains("ann"));
    }

    #[test]
    fn the_words_of_a_fixed_reason_can_not_be_guessed_from_its_record() {
        let kept = |error: &str| Reason::fixed("approval.failed", format!("failed: {error}")).recorded();
        assert_eq!(kept("no disk"), kept("no right"));
    }

    #[test]
    fn on_the_wire_a_reason_is_its_text() {
        let reason = Reason::new("no").by(["r".into()]);
        assert_eq!(serde_json::to_value(&reason).unwrap(), "no");
        assert_eq!(serde_json::from_str::<Reason>("\"no\"").unwrap(), Reason::new("no"));
    }
}
