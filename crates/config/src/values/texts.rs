//! Texts, secrets, dates and times of day: values with a format that refer to nothing else.

use jiff::civil::Time;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::config_value::ConfigValue;
use crate::problem::{Problem, ProblemKind};
use crate::reader::{LayerKind, Reader};
use crate::secret_source::SecretOrigin;
use crate::text::{Secret, SecretFile, Text};
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
        let text = Text::read(node, cx)?;
        if text.variables().is_empty() {
            cx.secret_from(&node.at, SecretOrigin::Written);
        }
        for name in text.variables() {
            cx.secret_from(&node.at, SecretOrigin::Variable(name.clone()));
        }
        Some(Self(text))
    }

    fn schema() -> Value {
        Text::schema()
    }

    fn show(&self) -> Value {
        Value::from(self.to_string())
    }
}

impl ConfigValue for SecretFile {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let path = Text::read(node, cx)?;
        cx.secret_from(&node.at, SecretOrigin::File(path.expose().to_owned()));
        Some(Self(path))
    }

    fn schema() -> Value {
        Text::schema()
    }

    fn show(&self) -> Value {
        self.0.show()
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

/// A time of day in hours and minutes, such as `22:00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeOfDay(pub Time);

impl TimeOfDay {
    fn parse(text: &str) -> Option<Self> {
        let (hour, minute) = text.split_once(':')?;
        let two_digits = |part: &str| {
            let is_plain = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse::<i8>().ok().filter(|_| is_plain)
        };
        Time::new(two_digits(hour)?, two_digits(minute)?, 0, 0).ok().map(Self)
    }
}

impl ConfigValue for TimeOfDay {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let time = match &node.kind {
            Kind::Text(text) => Self::parse(text),
            _ => None,
        };
        if time.is_none() {
            let problem = cx.mismatch(node, "a time of day such as `22:00`", &node.describe());
            let hint = "write hours and minutes with two digits each, from `\"00:00\"` to `\"23:59\"`";
            cx.report(problem.with_hint(hint));
        }
        time
    }

    fn schema() -> Value {
        json!({ "type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$" })
    }

    fn show(&self) -> Value {
        Value::from(self.0.strftime("%H:%M").to_string())
    }
}

/// A time zone that this machine knows, by its name in the IANA database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(pub TimeZone);

impl ConfigValue for Zone {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let zone = match &node.kind {
            Kind::Text(text) => TimeZone::get(text).ok().filter(|zone| !zone.is_unknown()),
            _ => None,
        };
        if zone.is_none() {
            let problem = cx.mismatch(node, "a time zone that this machine knows", &node.describe());
            let hint = "write its name in the IANA database, for example `Europe/Berlin`";
            cx.report(problem.with_hint(hint));
        }
        zone.map(Self)
    }

    fn schema() -> Value {
        json!({ "type": "string", "minLength": 1 })
    }

    fn show(&self) -> Value {
        Value::from(self.0.iana_name().unwrap_or_default())
    }
}
