//! Outcomes: what a hook may answer, and how answers merge.
//!
//! Each point has one outcome type, so that an answer which makes no sense at a point does not compile,
//! and does not parse: the wire form refuses unknown fields, wrong types and `null` in place of a value.
//! The law: *absent is not empty*. A missing field is no opinion; `""`, `[]`, `{}` and `false` are answers.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::approval::{ApprovalRequest, OnResolution};
use crate::id::{HookId, OwnerId};
use crate::latch::Field;
use crate::reason::Reason;

/// What hooks at one point may answer.
pub trait Outcome:
    Clone + Default + fmt::Debug + PartialEq + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
    /// The fields and their latches, in declaration order.
    const FIELDS: &'static [Field];

    /// Merges the answer of the next hook into this one. Returns the fields that a latch refused.
    fn merge(&mut self, next: Self) -> Vec<&'static str>;

    /// Withdraws the values that this answer proposes and keeps the rest. Returns the fields.
    fn withdraw(&mut self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns the part of this answer that still counts when the hook is asked once more, about the final value: what
    /// stops, narrows or asks. The rest counted the first time.
    fn gates_only(self) -> Self {
        self
    }

    /// Returns whether this answer stops what is judged.
    fn blocks(&self) -> bool {
        false
    }

    /// Returns the reason of the block, if one was given.
    fn block_reason(&self) -> Option<&Reason> {
        None
    }

    /// Checks that the answer is complete. An answer that gives a reason to stop the value, but does not say whether it
    /// stops it, is not consent.
    ///
    /// # Errors
    ///
    /// [`Malformed`].
    fn whole(&self) -> Result<(), Malformed> {
        Ok(())
    }

    /// Returns the keys and values that a later hook may replace one by one, if the outcome has such keys.
    fn per_key(&self) -> Option<&BTreeMap<String, String>> {
        None
    }

    /// Returns the approvals asked for.
    fn approvals(&self) -> &[ApprovalRequest] {
        &[]
    }

    /// Registers `told` as the listener of the requests in this answer; it may then block. This is for hooks that speak JSON,
    /// which has no functions. An outcome that can't ask ignores it.
    fn listen(&mut self, _told: &OnResolution) {}

    /// Sets who really answered, overwriting whatever the answer claims.
    fn stamp(&mut self, _owner: &OwnerId, _hook: &HookId) {}

    /// Reads the wire form of one hook's answer. `null` means no opinion.
    ///
    /// # Errors
    ///
    /// [`Malformed`] for anything else that is not exactly this point's outcome.
    fn from_json(value: Value) -> Result<Option<Self>, Malformed> {
        match value {
            Value::Null => Ok(None),
            value => read_object(value).map(Some),
        }
    }
}

/// Reads an outcome from an object. Serde would also take an array for a list of fields, and `[]` for an
/// outcome without opinion.
pub(crate) fn read_object<T: DeserializeOwned>(value: Value) -> Result<T, Malformed> {
    if !value.is_object() {
        return Err(Malformed::new("an outcome is an object"));
    }
    serde_json::from_value(value).map_err(|error| Malformed::from_serde(&error))
}

/// An answer that is not the point's outcome. It counts as a failure of the hook, never as consent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed answer: {message}")]
pub struct Malformed {
    message: String,
}

impl Malformed {
    /// Creates the error. `message` says what is wrong; it must not contain values of the answer.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// Returns what is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn from_serde(error: &serde_json::Error) -> Self {
        Self::new(without_values(&error.to_string()))
    }
}

/// Returns what a serde error says without the value it complains about, which may be anything a hook holds. The
/// name of an unknown field is kept if it reads like one.
fn without_values(message: &str) -> String {
    let Some((complaint, expected)) =
        message.rsplit_once(", expected").or_else(|| message.rsplit_once(", there are no"))
    else {
        return message.to_owned();
    };
    let tail = message.get(complaint.len()..message.len() - expected.len()).unwrap_or_default();
    let field_name = complaint
        .strip_prefix("unknown field `")
        .and_then(|rest| rest.strip_suffix('`'))
        .filter(|name| name.len() <= 40 && name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_'));
    let complaint = match field_name {
        Some(_) => complaint,
        None => complaint.split(['"', '`']).next().unwrap_or_default().trim_end(),
    };
    format!("{complaint}{tail}{expected}")
}

/// The answer has a reason in this field, and nothing that the reason is for.
pub(crate) fn reason_for_nothing(field: &str) -> Malformed {
    Malformed::new(format!("it has `{field}` and does not say what for"))
}

/// The outcome of points that only watch. Its wire form is `null` or `{}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

impl Outcome for Nothing {
    const FIELDS: &'static [Field] = &[];

    fn merge(&mut self, _: Self) -> Vec<&'static str> {
        Vec::new()
    }
}

/// Reads a field that is there: its type must not be `null` in disguise of "absent".
pub(crate) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Declares an event or another record of the contract. `name?: T` is an optional field, absent on the
/// wire when it is `None`. Names are camelCase on the wire.
macro_rules! record {
    ($(#[$meta:meta])* pub struct $name:ident { $($body:tt)* }) => {
        crate::outcome::record!(@fields [$(#[$meta])*] $name [] $($body)*);
    };
    (@fields $meta:tt $name:ident [$($done:tt)*] $(#[$fm:meta])* $field:ident ? : $type:ty, $($rest:tt)*) => {
        crate::outcome::record!(@fields $meta $name [
            $($done)*
            $(#[$fm])*
            #[serde(
                default,
                skip_serializing_if = "Option::is_none",
                deserialize_with = "crate::outcome::present"
            )]
            pub $field: Option<$type>,
        ] $($rest)*);
    };
    (@fields $meta:tt $name:ident [$($done:tt)*] $(#[$fm:meta])* $field:ident : $type:ty, $($rest:tt)*) => {
        crate::outcome::record!(@fields $meta $name [$($done)* $(#[$fm])* pub $field: $type,] $($rest)*);
    };
    (@fields [$($meta:tt)*] $name:ident [$($done:tt)*]) => {
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase")]
        $($meta)*
        pub struct $name { $($done)* }
    };
}

/// Declares an event that hosts build with a constructor: a [`record`] that may get further fields. `new`
/// takes what every such event carries, in the order of the declaration; the rest is set by methods named
/// after the fields.
macro_rules! event {
    ($(#[$meta:meta])* pub struct $name:ident { $($body:tt)* }) => {
        crate::outcome::record! { $(#[$meta])* #[non_exhaustive] pub struct $name { $($body)* } }
        crate::outcome::event!(@split $name [] [] $($body)*);
    };
    (@split $name:ident $required:tt [$($optional:tt)*] $(#[$fm:meta])* $field:ident ? : $type:ty, $($rest:tt)*) => {
        crate::outcome::event!(@split $name $required [$($optional)* $field: $type,] $($rest)*);
    };
    // Numbers and lists are taken as they are, so that a literal or `collect()` has the field's type.
    (@split $name:ident [$($required:tt)*] $optional:tt $(#[$fm:meta])* $field:ident : u64, $($rest:tt)*) => {
        crate::outcome::event!(@split $name [$($required)* $field: u64, u64, $field;] $optional $($rest)*);
    };
    (@split $name:ident [$($required:tt)*] $optional:tt $(#[$fm:meta])* $field:ident : Vec<$item:ty>, $($rest:tt)*) => {
        crate::outcome::event!(@split $name [$($required)* $field: Vec<$item>, Vec<$item>, $field;] $optional $($rest)*);
    };
    (@split $name:ident [$($required:tt)*] $optional:tt $(#[$fm:meta])* $field:ident : $type:ty, $($rest:tt)*) => {
        crate::outcome::event!(@split $name [$($required)* $field: $type, impl Into<$type>, $field.into();] $optional $($rest)*);
    };
    (@split $name:ident
        [$($field:ident : $type:ty, $taken:ty, $value:expr;)*]
        [$($optional:ident : $optional_type:ty,)*]
    ) => {
        impl $name {
            /// Creates the event with its required fields; the optional ones are empty.
            pub fn new($($field: $taken),*) -> Self {
                Self { $($field: $value,)* $($optional: None,)* }
            }

            $(
                #[doc = concat!("Sets `", stringify!($optional), "`.")]
                #[must_use]
                pub fn $optional(mut self, $optional: impl Into<Option<$optional_type>>) -> Self {
                    self.$optional = $optional.into();
                    self
                }
            )*
        }
    };
}

/// Declares an outcome: every field is optional and names its latch.
macro_rules! outcome {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$fm:meta])* $field:ident / $wire:literal : $type:ty => $latch:ident,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $(
                $(#[$fm])*
                #[serde(
                    rename = $wire,
                    default,
                    skip_serializing_if = "Option::is_none",
                    deserialize_with = "crate::outcome::present"
                )]
                pub $field: Option<$type>,
            )*
        }

        impl crate::outcome::Outcome for $name {
            const FIELDS: &'static [crate::latch::Field] = &[
                $(crate::latch::Field { name: $wire, latch: crate::latch::Latch::$latch },)*
            ];

            fn merge(&mut self, next: Self) -> Vec<&'static str> {
                let turn = crate::latch::Turn {
                    newly_blocked: !self.blocks() && next.blocks(),
                };
                let mut refused = Vec::new();
                $(
                    if let Some(next) = next.$field
                        && !<crate::latch::$latch as crate::latch::Merge<$type>>::merge(&mut self.$field, next, turn)
                    {
                        refused.push($wire);
                    }
                )*
                refused
            }

            fn withdraw(&mut self) -> Vec<&'static str> {
                let mut withdrawn = Vec::new();
                $(
                    if <crate::latch::$latch as crate::latch::Merge<$type>>::withdraw(&mut self.$field) {
                        withdrawn.push($wire);
                    }
                )*
                withdrawn
            }

            fn gates_only(mut self) -> Self {
                $(
                    if !<crate::latch::$latch as crate::latch::Merge<$type>>::GATE {
                        self.$field = None;
                    }
                )*
                self
            }

            fn blocks(&self) -> bool {
                false $(|| <crate::latch::$latch as crate::latch::Merge<$type>>::blocks(&self.$field))*
            }

            fn block_reason(&self) -> Option<&crate::reason::Reason> {
                None $(.or_else(|| <crate::latch::$latch as crate::latch::Merge<$type>>::reason(&self.$field)))*
            }

            fn whole(&self) -> Result<(), crate::outcome::Malformed> {
                let decides = false $(
                    || <crate::latch::$latch as crate::latch::Merge<$type>>::decides(&self.$field)
                )*;
                $(
                    if !decides
                        && <crate::latch::$latch as crate::latch::Merge<$type>>::reason(&self.$field).is_some()
                    {
                        return Err(crate::outcome::reason_for_nothing($wire));
                    }
                )*
                Ok(())
            }

            outcome!(@asks $($field: $type;)*);
        }
    };
    // Only outcomes with a `require_approval` field ask.
    (@asks $first:ident : $t:ty; $($rest:tt)*) => { outcome!(@ask_field $first [$($rest)*]); };
    (@asks) => {};
    (@ask_field require_approval [$($rest:tt)*]) => {
        fn approvals(&self) -> &[crate::approval::ApprovalRequest] {
            self.require_approval.as_ref().map_or(&[], |requests| requests.as_slice())
        }

        fn listen(&mut self, told: &crate::approval::OnResolution) {
            if let Some(requests) = &mut self.require_approval {
                requests.listen(told);
            }
        }

        fn stamp(&mut self, owner: &crate::id::OwnerId, hook: &crate::id::HookId) {
            if let Some(requests) = &mut self.require_approval {
                requests.stamp(owner, hook);
            }
        }
    };
    (@ask_field $other:ident [$($rest:tt)*]) => { outcome!(@asks $($rest)*); };
}
pub(crate) use {event, outcome, record};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::{AgentRunOutcome, ToolCallOutcome};
    use serde_json::json;

    fn complaint<O: Outcome>(answer: Value) -> String {
        O::from_json(answer).unwrap_err().to_string()
    }

    #[test]
    fn malformed_names_the_mistake_and_never_the_value() {
        let secret = "hunter2 \", expected `x`";
        for answer in
            [json!({ "block": secret }), json!({ "params": secret }), json!({ secret: 1 }), json!(secret)]
        {
            let said = complaint::<ToolCallOutcome>(answer);
            assert!(!said.contains("hunter2"), "{said}");
        }
        assert!(!complaint::<AgentRunOutcome>(json!({ "outcome": secret })).contains("hunter2"));
        assert!(!complaint::<Nothing>(json!({ secret: 1 })).contains("hunter2"));
        assert_eq!(
            complaint::<ToolCallOutcome>(json!({ "block": secret })),
            "malformed answer: invalid type: string, expected a boolean"
        );
        assert!(
            complaint::<ToolCallOutcome>(json!({ "blok": true })).contains("unknown field `blok`, expected")
        );
        assert_eq!(
            complaint::<Nothing>(json!({ "block": true })),
            "malformed answer: unknown field `block`, there are no fields"
        );
        assert!(
            complaint::<ToolCallOutcome>(json!({ "requireApproval": {} })).contains("missing field `title`")
        );
    }
}
