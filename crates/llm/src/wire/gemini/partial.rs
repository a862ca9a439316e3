//! Arguments that come value by value, each with the path where it belongs.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::names::canonical;
use crate::error::{WireError, out_of_order};
use crate::wire::json::Object;

/// Deeper arguments are refused.
const MAX_DEPTH: usize = 64;

/// Arguments while they come. A place that is set twice is refused; a text grows for as long as its pieces
/// say that more follows.
#[derive(Debug)]
pub(super) struct PartialArgs {
    root: Value,
    /// Texts of which more is to follow.
    growing: BTreeSet<Vec<Step>>,
    /// Places that were set to null, which are not vacant.
    nulls: BTreeSet<Vec<Step>>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Key(String),
    Index(usize),
}

impl PartialArgs {
    /// Arguments of which `given` came at once.
    pub(super) fn starting_with(given: Map<String, Value>) -> Self {
        Self { root: Value::Object(given), growing: BTreeSet::new(), nulls: BTreeSet::new() }
    }

    /// Takes one value.
    pub(super) fn take(&mut self, piece: &Value) -> Result<(), WireError> {
        let piece = canonical("partial argument", piece)?;
        let piece = Object::of("partial argument", &piece)?;
        let path = piece.required_string("jsonPath")?;
        let steps = steps(path).ok_or_else(|| piece.error("jsonPath", "is not understood"))?;
        let grows = self.growing.remove(&steps);
        let inside_null =
            (1..=steps.len()).filter_map(|depth| steps.get(..depth)).any(|place| self.nulls.contains(place));
        let value = value(piece)?;
        let is_null = value == Some(Value::Null);
        match (value, self.place(&steps)?) {
            (Some(Value::String(more)), Value::String(so_far)) if grows => so_far.push_str(&more),
            (None, Value::String(_)) if grows => {}
            (Some(value), vacant @ Value::Null) if !inside_null => *vacant = value,
            _ => return Err(out_of_order("an argument is set twice")),
        }
        if piece.bool("willContinue")?.unwrap_or(false) {
            self.growing.insert(steps);
        } else if is_null {
            self.nulls.insert(steps);
        }
        Ok(())
    }

    /// The arguments as JSON text.
    pub(super) fn text(&self) -> String {
        self.root.to_string()
    }

    /// The place at the end of the path, made if it is not there yet.
    fn place(&mut self, steps: &[Step]) -> Result<&mut Value, WireError> {
        let mut at = &mut self.root;
        for step in steps {
            at = match (step, at) {
                (Step::Key(key), at @ Value::Null) => {
                    *at = Value::Object(Map::new());
                    at.as_object_mut().map(|object| object.entry(key.as_str()).or_insert(Value::Null))
                }
                (Step::Key(key), Value::Object(object)) => {
                    Some(object.entry(key.as_str()).or_insert(Value::Null))
                }
                (Step::Index(0), at @ Value::Null) => {
                    *at = Value::Array(vec![Value::Null]);
                    at.get_mut(0)
                }
                (Step::Index(index), Value::Array(items)) => {
                    if *index == items.len() {
                        items.push(Value::Null);
                    }
                    items.get_mut(*index)
                }
                _ => None,
            }
            .ok_or_else(|| out_of_order("an argument stands where another one is"))?;
        }
        Ok(at)
    }
}

fn value(piece: Object<'_>) -> Result<Option<Value>, WireError> {
    let kinds = ["stringValue", "numberValue", "boolValue", "nullValue"];
    let mut found = kinds.into_iter().filter_map(|kind| Some((kind, piece.get(kind)?)));
    let Some((kind, value)) = found.next() else { return Ok(None) };
    if let Some((other, _)) = found.next() {
        return Err(piece.error(other, "stands beside another value"));
    }
    match (kind, value) {
        ("stringValue", Value::String(_))
        | ("numberValue", Value::Number(_))
        | ("boolValue", Value::Bool(_)) => Ok(Some(value.clone())),
        ("nullValue", _) => Ok(Some(Value::Null)),
        _ => Err(piece.error(kind, "is a value of another kind")),
    }
}

/// Reads `$.a['b c'][0]`. Paths that mean several places are not understood.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let step;
        (step, rest) = match rest.strip_prefix('.') {
            Some(after) => {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                let (name, after) = after.split_at(end);
                (Step::Key((!name.is_empty() && name != "*").then(|| name.to_owned())?), after)
            }
            None => bracket(rest.strip_prefix('[')?)?,
        };
        steps.push(step);
    }
    (!steps.is_empty() && steps.len() <= MAX_DEPTH).then_some(steps)
}

fn bracket(text: &str) -> Option<(Step, &str)> {
    let Some(quote) = text.chars().next().filter(|c| matches!(c, '\'' | '"')) else {
        let (digits, after) = text.split_once(']')?;
        return Some((Step::Index(digits.parse().ok()?), after));
    };
    let mut name = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => match characters.next()?.1 {
                plain @ ('\'' | '"' | '\\' | '/') => name.push(plain),
                _ => return None,
            },
            c if c == quote => return Some((Step::Key(name), text.get(at + 1..)?.strip_prefix(']')?)),
            c => name.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn collect(pieces: &[Value]) -> Result<Value, WireError> {
        let mut args = PartialArgs::starting_with(Map::new());
        for piece in pieces {
            args.take(piece)?;
        }
        Ok(serde_json::from_str(&args.text()).unwrap())
    }

    #[test]
    fn values_go_where_their_path_says() {
        let pieces = [
            json!({"jsonPath": "$.brightness", "numberValue": 50}),
            json!({"jsonPath": "$.where", "stringValue": "New ", "willContinue": true}),
            json!({"json_path": "$.where", "string_value": "Delhi", "will_continue": true}),
            json!({"jsonPath": "$.where", "stringValue": ""}),
            json!({"jsonPath": "$.list[0].on", "boolValue": true}),
            json!({"jsonPath": "$.list[1]['a b']", "nullValue": "NULL_VALUE"}),
        ];
        let expected = json!({"brightness": 50, "where": "New Delhi", "list": [{"on": true}, {"a b": null}]});
        assert_eq!(collect(&pieces).unwrap(), expected);
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        let one = json!({"jsonPath": "$.a", "stringValue": "x"});
        let null = json!({"jsonPath": "$.n", "nullValue": "NULL_VALUE"});
        for second in [
            json!({"jsonPath": "$.a", "stringValue": "y"}),
            json!({"jsonPath": "$['a']", "stringValue": "y"}),
            json!({"jsonPath": "$.a.b", "stringValue": "y"}),
            json!({"jsonPath": "$.a[0]", "stringValue": "y"}),
            json!({"jsonPath": "$.b[1]", "stringValue": "y"}),
            json!({"jsonPath": "$.b", "stringValue": "y", "numberValue": 1}),
            json!({"jsonPath": "$.b", "numberValue": "1"}),
            json!({"jsonPath": "$..b", "numberValue": 1}),
            json!({"jsonPath": "$.*", "numberValue": 1}),
            json!({"jsonPath": "$", "numberValue": 1}),
            json!({"jsonPath": "$.n", "numberValue": 1}),
            json!({"jsonPath": "$.n.deep", "numberValue": 1}),
            json!({"jsonPath": "$.b[", "numberValue": 1}),
            json!({"jsonPath": format!("${}", ".a".repeat(65)), "numberValue": 1}),
        ] {
            assert!(collect(&[one.clone(), null.clone(), second.clone()]).is_err(), "{second}");
        }
    }
}
