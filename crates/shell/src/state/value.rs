//! The possible values of a variable, and how assigned values are transformed.

use std::rc::Rc;

use crate::word::HOLE;

/// The value of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// Text that may contain holes.
    Text(String),
    /// An indexed array.
    List(Vec<String>),
    /// Certainly not set.
    Unset,
    /// What it is outside of this command, which is not known.
    Outside,
    /// One of these.
    OneOf(Rc<[Value]>),
}

/// Most values of which a variable may have one; where there are more, it may have any.
pub(super) const MAX_VALUES: usize = 8;

impl Value {
    /// Returns the value as one text, arrays by their first element.
    pub(crate) fn scalar(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::List(list) => list.first().map_or("", String::as_str),
            Self::Unset | Self::Outside => "",
            Self::OneOf(values) => values.first().map_or("", Self::scalar),
        }
    }

    /// This value or the other: those that say more come first.
    pub(super) fn or(self, other: Self) -> Self {
        let mut kept: Vec<Self> = Vec::new();
        for value in [self, other] {
            let each = match &value {
                Self::OneOf(values) => values.as_ref(),
                one => std::slice::from_ref(one),
            };
            for one in each {
                if !kept.contains(one) {
                    kept.push(one.clone());
                }
            }
        }
        kept.sort_by_key(|value| value.scalar().is_empty());
        if kept.len() > MAX_VALUES {
            kept.drain(MAX_VALUES - 1..);
            kept.push(Self::Text(HOLE.to_string()));
        }
        match kept.pop() {
            Some(only) if kept.is_empty() => only,
            last => Self::OneOf(kept.into_iter().chain(last).collect()),
        }
    }
}

/// How a declared variable changes what is assigned to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Casing {
    Lower,
    Upper,
    /// What is assigned is an arithmetic expression.
    Number,
}
