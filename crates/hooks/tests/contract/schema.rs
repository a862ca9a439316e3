//! The generated JSON Schemas say what the parser does.

use backstop_hooks::{Latch, Outcome, Point, PointId};
use serde_json::{Map, Value, json};

use crate::sample::{Sample, Visit, each_point};

/// Keywords that describe and do not restrict.
const NOTES: &[&str] = &["$schema", "$defs", "title", "description", "default", "format", "deprecated"];

/// Validates by the keywords that the generated schemas use. An unknown keyword is a failed test, so that
/// nothing is validated in appearance only.
fn valid(root: &Value, schema: &Value, value: &Value) -> bool {
    let Value::Object(keywords) = schema else { return schema != &Value::Bool(false) };
    keywords.iter().all(|(keyword, rule)| match keyword.as_str() {
        "$ref" => valid(root, resolve(root, rule), value),
        "type" => is_type(rule.as_str().unwrap(), value),
        "const" => rule == value,
        "enum" => rule.as_array().unwrap().contains(value),
        "oneOf" => rule.as_array().unwrap().iter().filter(|form| valid(root, form, value)).count() == 1,
        "anyOf" => rule.as_array().unwrap().iter().any(|form| valid(root, form, value)),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| valid(root, rule, item))),
        "required" => value.as_object().is_none_or(|object| {
            rule.as_array().unwrap().iter().all(|name| object.contains_key(name.as_str().unwrap()))
        }),
        "properties" => value.as_object().is_none_or(|object| {
            rule.as_object()
                .unwrap()
                .iter()
                .all(|(name, rule)| object.get(name).is_none_or(|field| valid(root, rule, field)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|object| {
            let empty = Map::new();
            let known = keywords.get("properties").and_then(Value::as_object).unwrap_or(&empty);
            object
                .iter()
                .filter(|(name, _)| !known.contains_key(*name))
                .all(|(_, field)| valid(root, rule, field))
        }),
        "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
        "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
        "minLength" => length(value).is_none_or(|length| length >= rule.as_u64().unwrap()),
        "maxLength" => length(value).is_none_or(|length| length <= rule.as_u64().unwrap()),
        note if NOTES.contains(&note) => true,
        unknown => panic!("the validator does not know `{unknown}`"),
    })
}

fn length(value: &Value) -> Option<u64> {
    value.as_str().map(|text| u64::try_from(text.chars().count()).unwrap())
}

fn resolve<'a>(root: &'a Value, reference: &Value) -> &'a Value {
    root.pointer(reference.as_str().unwrap().strip_prefix('#').unwrap()).unwrap()
}

fn is_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        unknown => panic!("the validator does not know the type `{unknown}`"),
    }
}

fn fits(schema: &schemars::Schema, value: &Value) -> bool {
    valid(schema.as_value(), schema.as_value(), value)
}

struct SamplesFit;

impl Visit for SamplesFit {
    fn visit<P: Point>(&mut self, sample: &Sample) {
        assert!(fits(&P::INFO.id.event_schema(), &sample.event), "event of {}", P::INFO.name);
        for outcome in &sample.outcomes {
            assert!(fits(&P::INFO.id.outcome_schema(), outcome), "outcome of {}: {outcome}", P::INFO.name);
        }
    }
}

#[test]
fn every_sample_fits_its_schema() {
    each_point(&mut SamplesFit);
}

struct Agree;

impl Visit for Agree {
    fn visit<P: Point>(&mut self, sample: &Sample) {
        let schema = P::INFO.id.outcome_schema();
        let open_ended = P::Outcome::FIELDS.iter().any(|of| of.latch == Latch::PerKey);
        let full = sample.outcomes.first().unwrap();
        let mut wrong: Vec<Value> = Vec::new();
        for name in full.as_object().unwrap().keys() {
            let mut null = full.clone();
            null[name] = Value::Null;
            if P::INFO.id == PointId::ParamsBefore {
                assert!(fits(&schema, &null), "`null` clears a parameter");
            } else {
                wrong.push(null);
            }
        }
        if !open_ended {
            let mut stranger = full.clone();
            stranger["surprise"] = json!(1);
            wrong.push(stranger);
        }
        for wrong in wrong {
            assert!(!fits(&schema, &wrong), "the schema of {} takes {wrong}", P::INFO.name);
        }
        sample.for_all_answers::<P>(|answers| {
            for answer in answers {
                let answer = serde_json::to_value(answer).unwrap();
                assert!(fits(&schema, &answer), "the schema of {} refuses {answer}", P::INFO.name);
            }
        });
    }
}

#[test]
fn schema_and_parser_agree_on_outcomes() {
    each_point(&mut Agree);
}

struct Required;

impl Visit for Required {
    fn visit<P: Point>(&mut self, sample: &Sample) {
        let schema = P::INFO.id.event_schema();
        for name in sample.event.as_object().unwrap().keys() {
            for edit in [None, Some(Value::Null)] {
                let mut event = sample.event.clone();
                match edit {
                    None => drop(event.as_object_mut().unwrap().remove(name)),
                    Some(null) => event[name] = null,
                }
                let read = serde_json::from_value::<P::Event>(event.clone()).is_ok();
                assert_eq!(read, fits(&schema, &event), "`{name}` of the event of {}", P::INFO.name);
            }
        }
    }
}

#[test]
fn schema_and_parser_agree_on_what_an_event_needs() {
    each_point(&mut Required);
}

#[test]
fn the_validator_can_say_no() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"],
        "additionalProperties": false});
    assert!(valid(&schema, &schema, &json!({"n": 1})));
    for wrong in [json!({"n": 0}), json!({"n": "1"}), json!({}), json!({"n": 1, "m": 1}), json!([])] {
        assert!(!valid(&schema, &schema, &wrong), "{wrong}");
    }
}
