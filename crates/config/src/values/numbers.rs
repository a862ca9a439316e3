//! Numbers with a range, and amounts of money.
//!
//! The range is part of the type; a number outside the range is a problem that names both ends.

use serde_json::{Value, json};

use crate::config_value::ConfigValue;
use crate::reader::Reader;
use backstop_yaml::{Kind, Node};

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Whole<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Whole<MIN, MAX> {
    /// Returns the number, or `None` outside the range.
    #[must_use]
    pub const fn new(value: u64) -> Option<Self> {
        if value >= MIN && value <= MAX { Some(Self(value)) } else { None }
    }

    /// Returns the number, clamped to the range.
    #[must_use]
    pub const fn clamped(value: u64) -> Self {
        Self(if value < MIN {
            MIN
        } else if value > MAX {
            MAX
        } else {
            value
        })
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A time budget set by the operator: 1 to 600 000 milliseconds.
pub type Millis = Whole<1, 600_000>;

impl Millis {
    /// Returns the budget as a duration.
    #[must_use]
    pub const fn duration(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

impl<const MIN: u64, const MAX: u64> ConfigValue for Whole<MIN, MAX> {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let value = match node.kind {
            Kind::Integer(value) => u64::try_from(value).ok().and_then(Self::new),
            _ => None,
        };
        value.or_else(|| cx.expected(node, &format!("a whole number from {MIN} to {MAX}")))
    }

    fn schema() -> Value {
        json!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }

    fn show(&self) -> Value {
        Value::from(self.0)
    }
}

/// The order of the hooks at a point: higher numbers run first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(i32);

impl Priority {
    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> i32 {
        self.0
    }
}

impl ConfigValue for Priority {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let value = match node.kind {
            Kind::Integer(value) => i32::try_from(value).ok().map(Self),
            _ => None,
        };
        value.or_else(|| cx.expected(node, &format!("a whole number from {} to {}", i32::MIN, i32::MAX)))
    }

    fn schema() -> Value {
        json!({ "type": "integer", "minimum": i32::MIN, "maximum": i32::MAX })
    }

    fn show(&self) -> Value {
        Value::from(self.0)
    }
}

/// A sampling temperature, 0 to 2.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Temperature(f64);

impl Temperature {
    /// Returns the temperature.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl ConfigValue for Temperature {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let value = match node.kind {
            Kind::Integer(0) => Some(0.0),
            Kind::Integer(1) => Some(1.0),
            Kind::Integer(2) => Some(2.0),
            Kind::Number(value) if (0.0..=2.0).contains(&value) => Some(value),
            _ => None,
        };
        value.map(Self).or_else(|| cx.expected(node, "a number from 0 to 2"))
    }

    fn schema() -> Value {
        json!({ "type": "number", "minimum": 0, "maximum": 2 })
    }

    fn show(&self) -> Value {
        Value::from(self.0)
    }
}

/// A part of a whole, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Ratio(f64);

impl Ratio {
    /// The whole.
    pub const ALL: Self = Self(1.0);

    /// Returns the part.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl ConfigValue for Ratio {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let value = match node.kind {
            Kind::Integer(0) => Some(0.0),
            Kind::Integer(1) => Some(1.0),
            Kind::Number(value) if (0.0..=1.0).contains(&value) => Some(value),
            _ => None,
        };
        value.map(Self).or_else(|| cx.expected(node, "a number from 0 to 1"))
    }

    fn schema() -> Value {
        json!({ "type": "number", "minimum": 0, "maximum": 1 })
    }

    fn show(&self) -> Value {
        Value::from(self.0)
    }
}

/// An amount of money, in millionths of the operator's currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(u64);

impl Money {
    /// The most that can be written.
    const MOST: f64 = 1_000_000_000.0;

    /// Millionths of the currency.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.0
    }
}

impl ConfigValue for Money {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let value = match &node.kind {
            Kind::Integer(value) => value.to_string().parse().ok(),
            Kind::Number(value) => Some(*value),
            _ => None,
        };
        let value: Option<f64> = value.filter(|value| (0.0..=Self::MOST).contains(value));
        // A number between the bounds, times a million, is a whole number that fits.
        let micros = value.and_then(|value| format!("{:.0}", value * 1e6).parse().ok());
        micros.map(Self).or_else(|| cx.expected(node, "an amount from 0 to 1000000000"))
    }

    fn schema() -> Value {
        json!({ "type": "number", "minimum": 0, "maximum": 1_000_000_000 })
    }

    fn show(&self) -> Value {
        let (whole, rest) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let text = format!("{whole}.{rest:06}");
        text.trim_end_matches('0')
            .trim_end_matches('.')
            .parse()
            .map_or(Value::Null, |number: serde_json::Number| number.into())
    }
}
