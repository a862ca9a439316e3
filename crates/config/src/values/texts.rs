//! Texts, secrets and dates: values with a format that refer to nothing else.

use serde_json::{Value, json};

use crate::config_value::ConfigValue;
use crate::problem::{Problem, ProblemKind};
use crate::reader::{LayerKind, Reader};
use crate::text::{Secret, Text};
use backstop_yaml::{Kind, Node};

/// A text without variables: what is written is what is meant.
pub(crate) fn plain_text<'n>(node: &'n Node, cx: &mut Reader<'_>, what: &str) -> Option<&'n str> {
    let problem = match &node.kind {
        Kind::Text(text) if !text.trim().is_empty() => return Some(text),
        Kind::Bool(_) | Kind::Integer(_) | Kind::Number(_) => {
            cx.mismatch(node, what, &node.describe()).with_hint("put it in quotes")
        }
        _ => cx.mismatch(node, what, &node.describe()),
    };
    cx.report(problem);
    None
}

impl ConfigValue for Text {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let written = plain_text(node, cx, "a text that is not empty")?;
        let environment = (cx.layer == LayerKind::Operator).then_some(cx.environment);
        Self::expand(written, &node.at, environment).map_err(|problem| cx.report(problem)).ok()
    }

    fn schema() -> Value {
        json!({ "type": "string", "minLength": 1 })
    }

    fn show(&self) -> Value {
        Value::from(self.as_written())
    }
}

impl ConfigValue for Secret {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        if !matches!(&node.kind, Kind::Text(text) if !text.trim().is_empty()) {
            let message = format!("{} must be a text that is not empty", cx.subject());
            cx.report(Problem::new(ProblemKind::BadValue, node.at.clone(), message));
            return None;
        }
        Text::read(node, cx).map(Self)
    }

    fn schema() -> Value {
        Text::schema()
    }

    fn show(&self) -> Value {
        Value::from(self.to_string())
    }
}

/// The day after whose end an exception no longer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExpiryDate(pub jiff::civil::Date);

impl ConfigValue for ExpiryDate {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let date = match &node.kind {
            Kind::Text(text) if text.len() == "2026-12-31".len() => text.parse().ok(),
            _ => None,
        };
        date.map(Self).or_else(|| cx.expected(node, "a date such as `2026-12-31`"))
    }

    fn schema() -> Value {
        json!({ "type": "string", "format": "date" })
    }

    fn show(&self) -> Value {
        Value::from(self.0.to_string())
    }
}
