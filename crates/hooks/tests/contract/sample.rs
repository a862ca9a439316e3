//! The samples, and a way to visit every point of the catalogue with its types.

use std::collections::BTreeMap;
use std::path::Path;

use backstop_hooks::{Outcome, Point, for_each_point, points};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// What every text of a person or a model in the samples begins with.
pub(crate) const BODY: &str = "CONFIDENTIAL";

/// One event of a point and some outcomes, the first of which has every field.
#[derive(Deserialize)]
pub(crate) struct Sample {
    pub(crate) event: Value,
    pub(crate) outcomes: Vec<Value>,
}

impl Sample {
    pub(crate) fn of(point: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("samples/{point}.json"));
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn event<P: Point>(&self) -> P::Event {
        serde_json::from_value(self.event.clone())
            .unwrap_or_else(|error| panic!("event of {}: {error}", P::INFO.name))
    }

    /// The fields of all outcomes, each with the values it has there and with simpler ones.
    pub(crate) fn fields(&self) -> BTreeMap<String, Vec<Value>> {
        let mut pools: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for (name, value) in self.outcomes.iter().filter_map(Value::as_object).flatten() {
            let pool = pools.entry(name.clone()).or_default();
            for value in variants(value) {
                if !pool.contains(&value) {
                    pool.push(value);
                }
            }
        }
        pools
    }

    /// Answers that are outcomes of the samples or mixtures of their fields. Some are malformed.
    pub(crate) fn answers(&self) -> BoxedStrategy<Value> {
        let fields: Vec<_> = self
            .fields()
            .into_iter()
            .map(|(name, pool)| prop::option::of(select(pool)).prop_map(move |value| (name.clone(), value)))
            .collect();
        let mixture = fields.prop_map(|fields| {
            Value::Object(fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
        });
        prop_oneof![select(self.outcomes.clone()), mixture, Just(json!({}))].boxed()
    }

    /// Runs `law` on lists of well-formed answers.
    pub(crate) fn for_all_answers<P: Point>(&self, law: impl Fn(Vec<P::Outcome>)) {
        let config = Config { cases: 48, failure_persistence: None, ..Config::default() };
        let answers = prop::collection::vec(self.answers(), 1..6);
        TestRunner::new(config)
            .run(&answers, |answers| {
                law(answers
                    .into_iter()
                    .filter_map(|answer| P::Outcome::from_json(answer).ok().flatten())
                    .collect());
                Ok(())
            })
            .unwrap_or_else(|error| panic!("{}: {error}", P::INFO.name));
    }
}

fn variants(value: &Value) -> Vec<Value> {
    let simpler = match value {
        Value::String(_) => vec![json!(""), json!("other")],
        Value::Bool(_) => vec![json!(true), json!(false)],
        Value::Array(items) if items.is_empty() => vec![],
        Value::Array(items) => vec![json!([]), json!(items[..1]), json!(items[1..])],
        Value::Object(_) => vec![Value::Object(Map::new())],
        Value::Number(_) | Value::Null => vec![],
    };
    [vec![value.clone()], simpler].concat()
}

/// Something to do at every point.
pub(crate) trait Visit {
    fn visit<P: Point>(&mut self, sample: &Sample);
}

macro_rules! visit_each {
    ($($point:ident, $name:literal, $mode:ident, $family:ident, $failure:ident, $budget:literal, $access:literal,
       $injection:literal, $event:ident, $outcome:ident, $summary:literal;)*) => {
        /// Visits every point of the catalogue.
        pub(crate) fn each_point(visit: &mut impl Visit) {
            $(visit.visit::<points::$point>(&Sample::of($name));)*
        }
    };
}

for_each_point!(visit_each);

/// The outcome after all answers, merged in order.
pub(crate) fn merged<O: Outcome>(answers: &[O]) -> O {
    let mut all = O::default();
    for answer in answers {
        all.merge(answer.clone());
    }
    all
}

/// The JSON form of a field of an outcome, if it is there.
pub(crate) fn field<O: Outcome>(outcome: &O, name: &str) -> Option<Value> {
    serde_json::to_value(outcome).unwrap().get(name).cloned()
}

/// Reads an answer that is well-formed.
pub(crate) fn answer<P: Point>(value: Value) -> P::Outcome {
    P::Outcome::from_json(value).unwrap().unwrap()
}
