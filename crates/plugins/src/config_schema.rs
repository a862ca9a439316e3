//! The options that the operator gives to a plugin, held against the `configSchema` of its manifest before its code runs.
//!
//! The law: *no silent gap*. What a schema says is checked, or is told of: [`check`] answers the words that it does not read, and
//! whoever loads the plugin refuses them (manifests of ours) or lists them (those of others). An option that is wrong is an error with
//! its place and what it should be. Values are in no message: an option may be a secret.
//!
//! The words that are read are those of JSON Schema that manifests use: `type`, `properties`, `required`, `additionalProperties`, `items`,
//! `enum`, `const`, bounds of numbers, texts, lists and objects, `uniqueItems`, `anyOf`, `oneOf`, `allOf`, `not`. Words that only tell
//! (`title`, `description`, `default`, `format`, ...) are passed over, as the standard has it; a `default` is not filled in.
//!
//! Limits: [`MOST_DEPTH`] levels, [`MOST_STEPS`] steps, [`MOST_UNREAD`] words that are told of one by one.

use serde_json::{Map, Value};

/// How deep a schema or options may be nested.
pub const MOST_DEPTH: usize = 64;
/// How often a schema is held against a value.
pub const MOST_STEPS: usize = 100_000;
/// How many words that are not read are told of one by one.
pub const MOST_UNREAD: usize = 32;

/// Words that ask for nothing.
const TELLING: [&str; 13] = [
    "$schema",
    "$id",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
    "sensitive",
    "uiHints",
];

/// Why options are not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", at(.path))]
pub struct BadConfig {
    /// The place in the options, such as `.levels[2].name`; empty for all of them.
    pub path: String,
    /// What is wrong.
    pub what: String,
}

fn at(path: &str) -> String {
    if path.is_empty() {
        String::new()
    } else {
        format!("`{}` ", backstop_yaml::quote(path.trim_start_matches('.')))
    }
}

impl BadConfig {
    fn new(path: &str, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), what: what.into() }
    }

    /// A word of the schema that nobody reads.
    pub(crate) fn unread(word: &str) -> Self {
        Self::new(
            "",
            format!(
                "{word} is not read\nhint: leave it out, or say it in words that are: `type`, `properties`, `required`, `enum`, bounds, `anyOf` and the like"
            ),
        )
    }
}

/// Holds `config` against `schema`. Answers the words of the schema that are not read, each with its place.
///
/// # Errors
///
/// [`BadConfig`]: the first option that is wrong, or what is wrong with the schema itself.
pub fn check(schema: &Value, config: &Value) -> Result<Vec<String>, BadConfig> {
    let mut unread = Vec::new();
    read(schema, "", 0, &mut unread)?;
    if unread.len() > MOST_UNREAD {
        let more = unread.len() - MOST_UNREAD;
        unread.truncate(MOST_UNREAD);
        unread.push(format!("and {more} further words of `configSchema`"));
    }
    let mut checker = Checker { steps: 0 };
    checker.check(schema, config, "", 0)?;
    // INVARIANT: what was given up is consent nowhere, whatever stands around it.
    if checker.steps > MOST_STEPS {
        return Err(BadConfig::new("", "can't be checked: there is too much of them"));
    }
    Ok(unread)
}

fn of_schema(place: &str, what: &str) -> BadConfig {
    let place = backstop_yaml::quote(&format!("configSchema{place}"));
    BadConfig::new("", format!("can't be checked: `{place}` {what}"))
}

/// Finds the words that are not read, and what is no schema.
fn read(schema: &Value, place: &str, depth: usize, unread: &mut Vec<String>) -> Result<(), BadConfig> {
    if depth > MOST_DEPTH {
        return Err(of_schema("", "is nested too deep"));
    }
    let words = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(words) => words,
        _ => return Err(of_schema(place, "is no schema")),
    };
    for (word, value) in words {
        let at = format!("{place}.{word}");
        let is_number = value.is_number();
        let is_count = value.as_u64().is_some();
        let is_well = match word.as_str() {
            "type" => match value {
                Value::String(name) => is_type(name),
                Value::Array(names) => {
                    !names.is_empty() && names.iter().all(|name| name.as_str().is_some_and(is_type))
                }
                _ => false,
            },
            "properties" => {
                let Value::Object(fields) = value else { return Err(of_schema(&at, "is no object")) };
                for (name, schema) in fields {
                    read(schema, &format!("{at}.{name}"), depth + 1, unread)?;
                }
                true
            }
            "additionalProperties" | "items" | "not" => {
                read(value, &at, depth + 1, unread)?;
                true
            }
            "anyOf" | "oneOf" | "allOf" => {
                let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
                for (index, schema) in list.iter().enumerate() {
                    read(schema, &format!("{at}[{index}]"), depth + 1, unread)?;
                }
                !list.is_empty()
            }
            "required" => value.as_array().is_some_and(|names| names.iter().all(Value::is_string)),
            "enum" => value.as_array().is_some_and(|values| !values.is_empty()),
            "const" => true,
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => is_number,
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
                is_count
            }
            "uniqueItems" => value.is_boolean(),
            telling if TELLING.contains(&telling) => true,
            _ => {
                unread.push(format!("`configSchema{}`", backstop_yaml::quote(&at)));
                true
            }
        };
        if !is_well {
            return Err(of_schema(&at, "is not what this word of JSON Schema takes"));
        }
    }
    Ok(())
}

fn is_type(name: &str) -> bool {
    matches!(name, "object" | "array" | "string" | "number" | "integer" | "boolean" | "null")
}

fn is_of_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => false,
    }
}

/// Whether two values are the same to JSON Schema, to which 1 and 1.0 are.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| same(value, other)))
        }
        _ => one == other,
    }
}

struct Checker {
    steps: usize,
}

type Checked = Result<(), BadConfig>;

impl Checker {
    fn check(&mut self, schema: &Value, value: &Value, path: &str, depth: usize) -> Checked {
        self.steps += 1;
        if depth > MOST_DEPTH || self.steps > MOST_STEPS {
            return Err(BadConfig::new(path, "is nested too deep to be checked, or there is too much of it"));
        }
        let words = match schema {
            Value::Object(words) => words,
            Value::Bool(true) => return Ok(()),
            _ => return Err(BadConfig::new(path, "is no option of this plugin")),
        };
        kind(words, value, path)?;
        match value {
            Value::Object(fields) => self.object(words, fields, path, depth)?,
            Value::Array(items) => self.list(words, items, path, depth)?,
            Value::String(text) => {
                length(words, ["minLength", "maxLength"], text.chars().count(), "characters", path)?;
            }
            Value::Number(number) => bounds(words, number.as_f64().unwrap_or(f64::NAN), path)?,
            Value::Null | Value::Bool(_) => {}
        }
        self.several(words, value, path, depth)
    }

    fn object(
        &mut self,
        words: &Map<String, Value>,
        fields: &Map<String, Value>,
        path: &str,
        depth: usize,
    ) -> Checked {
        let required = words.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if let Some(name) = required.iter().filter_map(Value::as_str).find(|name| !fields.contains_key(*name))
        {
            return Err(BadConfig::new(&format!("{path}.{name}"), "is missing, which the plugin needs"));
        }
        length(words, ["minProperties", "maxProperties"], fields.len(), "fields", path)?;
        let known = words.get("properties").and_then(Value::as_object);
        for (name, value) in fields {
            let path = format!("{path}.{name}");
            match (known.and_then(|known| known.get(name)), words.get("additionalProperties")) {
                (Some(schema), _) => self.check(schema, value, &path, depth + 1)?,
                (None, Some(Value::Bool(false))) => {
                    let names = known.into_iter().flat_map(Map::keys).map(String::as_str);
                    let near = backstop_yaml::nearest(name, names);
                    let hint = near.map(|near| format!("\nhint: did you mean `{near}`?")).unwrap_or_default();
                    return Err(BadConfig::new(&path, format!("is no option of this plugin{hint}")));
                }
                (None, Some(schema)) => self.check(schema, value, &path, depth + 1)?,
                (None, None) => {}
            }
        }
        Ok(())
    }

    fn list(&mut self, words: &Map<String, Value>, items: &[Value], path: &str, depth: usize) -> Checked {
        length(words, ["minItems", "maxItems"], items.len(), "items", path)?;
        if let Some(schema) = words.get("items") {
            for (index, item) in items.iter().enumerate() {
                self.check(schema, item, &format!("{path}[{index}]"), depth + 1)?;
            }
        }
        if words.get("uniqueItems") == Some(&Value::Bool(true)) {
            for (index, item) in items.iter().enumerate() {
                self.steps += index;
                if self.steps > MOST_STEPS || items.iter().take(index).any(|other| same(item, other)) {
                    return Err(BadConfig::new(&format!("{path}[{index}]"), "is there twice"));
                }
            }
        }
        Ok(())
    }

    /// Schemas that are put together of others.
    fn several(&mut self, words: &Map<String, Value>, value: &Value, path: &str, depth: usize) -> Checked {
        let all = |word: &str| words.get(word).and_then(Value::as_array).map(Vec::as_slice);
        for schema in all("allOf").unwrap_or_default() {
            self.check(schema, value, path, depth + 1)?;
        }
        for (word, what) in [("anyOf", "at least"), ("oneOf", "exactly")] {
            let Some(schemas) = all(word) else { continue };
            let fit =
                schemas.iter().filter(|schema| self.check(schema, value, path, depth + 1).is_ok()).count();
            if fit == 0 || (word == "oneOf" && fit > 1) {
                return Err(BadConfig::new(
                    path,
                    format!("has to be {what} one of several forms, and is {fit}"),
                ));
            }
        }
        match words.get("not") {
            Some(schema) if self.check(schema, value, path, depth + 1).is_ok() => {
                Err(BadConfig::new(path, "has a form that the plugin excludes"))
            }
            _ => Ok(()),
        }
    }
}

/// `type`, `enum` and `const`.
fn kind(words: &Map<String, Value>, value: &Value, path: &str) -> Checked {
    let names: Vec<&str> = match words.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !names.is_empty() && !names.iter().any(|name| is_of_type(name, value)) {
        return Err(BadConfig::new(path, format!("is no {}", names.join(" and no "))));
    }
    let allowed = match (words.get("enum"), words.get("const")) {
        (Some(Value::Array(values)), None) => values.as_slice(),
        (None, Some(value)) => std::slice::from_ref(value),
        (Some(Value::Array(values)), Some(only)) if values.iter().any(|one| same(one, only)) => {
            std::slice::from_ref(only)
        }
        (None, None) => return Ok(()),
        _ => &[],
    };
    match allowed.iter().any(|one| same(one, value)) {
        true => Ok(()),
        false => {
            let allowed: Vec<_> =
                allowed.iter().take(16).map(|one| backstop_yaml::quote(&one.to_string())).collect();
            Err(BadConfig::new(path, format!("is none of {}", allowed.join(", "))))
        }
    }
}

fn length(
    words: &Map<String, Value>,
    [least, most]: [&str; 2],
    length: usize,
    of: &str,
    path: &str,
) -> Checked {
    let bound =
        |word: &str| words.get(word).and_then(Value::as_u64).and_then(|bound| usize::try_from(bound).ok());
    if let Some(least) = bound(least).filter(|least| length < *least) {
        return Err(BadConfig::new(path, format!("has {length} {of}; the least is {least}")));
    }
    match bound(most).filter(|most| length > *most) {
        Some(most) => Err(BadConfig::new(path, format!("has {length} {of}; the most is {most}"))),
        None => Ok(()),
    }
}

fn bounds(words: &Map<String, Value>, number: f64, path: &str) -> Checked {
    type Holds = fn(&f64, &f64) -> bool;
    let all: [(&str, Holds, &str); 4] = [
        ("minimum", f64::ge, "at least"),
        ("maximum", f64::le, "at most"),
        ("exclusiveMinimum", f64::gt, "more than"),
        ("exclusiveMaximum", f64::lt, "less than"),
    ];
    for (word, holds, what) in all {
        if let Some(bound) = words.get(word).and_then(Value::as_f64)
            && !holds(&number, &bound)
        {
            return Err(BadConfig::new(path, format!("has to be {what} {bound}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(schema: &Value, config: &Value) -> String {
        check(schema, config).map_or_else(|error| error.to_string(), |unread| unread.join(", "))
    }

    #[test]
    fn options_are_held_against_each_word_that_is_read() {
        let object = |name: &str, schema: Value| json!({ "type": "object", "properties": { name: schema } });
        for (schema, good, bad, words) in [
            (json!({ "type": "string" }), json!("x"), json!(1), "`a` is no string"),
            (json!({ "type": ["string", "null"] }), json!(null), json!(false), "no string and no null"),
            (json!({ "type": "integer" }), json!(2.0), json!(2.5), "no integer"),
            (json!({ "enum": ["on", "off"] }), json!("on"), json!("ON"), "none of"),
            (json!({ "const": 1 }), json!(1.0), json!(2), "none of"),
            (json!({ "minimum": 1, "exclusiveMaximum": 3 }), json!(1), json!(3), "less than 3"),
            (json!({ "minimum": 1 }), json!(1), json!(0.5), "at least 1"),
            (
                json!({ "minLength": 2, "maxLength": 3 }),
                json!("\u{e4}\u{f6}"),
                json!("\u{e4}"),
                "the least is 2",
            ),
            (json!({ "items": { "type": "number" } }), json!([1, 2]), json!([1, "2"]), "`a[1]` is no number"),
            (json!({ "maxItems": 1 }), json!([1]), json!([1, 2]), "the most is 1"),
            (json!({ "uniqueItems": true }), json!([1, 2]), json!([1, 2, 1.0]), "`a[2]` is there twice"),
            (json!({ "required": ["b"] }), json!({ "b": null }), json!({}), "`a.b` is missing"),
            (
                json!({ "additionalProperties": false, "properties": { "level": true } }),
                json!({ "level": 1 }),
                json!({ "levle": 1 }),
                "did you mean `level`",
            ),
            (
                json!({ "additionalProperties": { "type": "string" } }),
                json!({ "x": "" }),
                json!({ "x": 1 }),
                "`a.x` is no string",
            ),
            (json!({ "maxProperties": 1 }), json!({ "x": 1 }), json!({ "x": 1, "y": 2 }), "the most is 1"),
            (
                json!({ "anyOf": [{ "type": "string" }, { "type": "number" }] }),
                json!(1),
                json!(null),
                "at least one",
            ),
            (json!({ "oneOf": [{ "minimum": 1 }, { "minimum": 5 }] }), json!(2), json!(7), "exactly one"),
            (json!({ "allOf": [{ "minimum": 1 }, { "maximum": 5 }] }), json!(2), json!(7), "at most 5"),
            (json!({ "not": { "type": "null" } }), json!(1), json!(null), "excludes"),
            (json!(true), json!(1), json!(1), ""),
        ] {
            let schema = object("a", schema);
            assert_eq!(said(&schema, &json!({ "a": good })), "", "{schema}");
            assert!(
                said(&schema, &json!({ "a": bad })).contains(words),
                "{schema}: {}",
                said(&schema, &json!({ "a": bad }))
            );
        }
        assert!(
            said(&json!({ "type": "object", "properties": { "a": false } }), &json!({ "a": 1 }))
                .contains("no option")
        );
    }

    #[test]
    fn a_schema_that_is_none_is_an_error_and_a_word_that_is_not_read_is_told_of() {
        for bad in [
            json!(1),
            json!({ "type": "text" }),
            json!({ "properties": [] }),
            json!({ "properties": { "a": 1 } }),
            json!({ "minimum": "1" }),
            json!({ "required": "a" }),
            json!({ "enum": [] }),
            json!({ "anyOf": [] }),
            json!({ "maxLength": -1 }),
        ] {
            assert!(said(&bad, &json!({})).contains("can't be checked"), "{bad}");
        }
        let schema = json!({ "title": "x", "properties": { "a": { "pattern": "^x$", "format": "uri" } }, "$ref": "#/x" });
        let unread = check(&schema, &json!({ "a": "y" })).unwrap();
        assert_eq!(unread, ["`configSchema.properties.a.pattern`", "`configSchema.$ref`"]);
        let many: Map<String, Value> = (0..100).map(|n| (format!("x{n}"), json!(1))).collect();
        assert_eq!(check(&Value::Object(many), &json!({})).unwrap().len(), MOST_UNREAD + 1);
    }

    #[test]
    fn no_value_is_in_a_message_and_no_schema_takes_forever() {
        let secret = ["to", "ken"].concat();
        for schema in [
            json!({ "type": "number" }),
            json!({ "enum": [1] }),
            json!({ "maxLength": 1 }),
            json!({ "not": {} }),
        ] {
            let schema = json!({ "properties": { "a": schema } });
            let words = said(&schema, &json!({ "a": secret }));
            assert!(!words.is_empty() && !words.contains(&secret), "{words}");
        }
        let deep = (0..200).fold(json!({}), |inner, _| json!({ "items": inner }));
        assert!(said(&deep, &json!({})).contains("too deep"));
        // Each level doubles the work, and a `not` around what was given up does not turn that into consent.
        let wide =
            (0..16).fold(json!({ "type": "null" }), |inner, _| json!({ "anyOf": [inner.clone(), inner] }));
        assert!(!said(&wide, &json!(1)).is_empty());
        assert!(!said(&json!({ "not": wide }), &json!(1)).is_empty());
    }
}
