//! The JSON Schema of `backstop.yaml`, and the reference table generated from it.

use serde_json::{Map, Value};

use crate::config_value::ConfigValue as _;
use crate::sections::Config;

/// Returns the JSON Schema (draft 2020-12). Each key carries its description, its default and, as `x-repository`, what a
/// repository file may do to it.
#[must_use]
pub fn schema() -> Value {
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("title".to_owned(), "backstop.yaml".into());
    if let Value::Object(config) = Config::schema() {
        schema.extend(config);
    }
    Value::Object(schema)
}

/// Returns every key as a row of a Markdown table: key, type, default, what a repository file may do, meaning.
#[must_use]
pub fn reference() -> String {
    let mut rows = String::from(
        "| key | value | default | from a repository | meaning |\n| --- | --- | --- | --- | --- |\n",
    );
    table_rows("", &Config::schema(), &mut rows);
    rows
}

fn table_rows(path: &str, schema: &Value, rows: &mut String) {
    let Some(Value::Object(properties)) = schema.get("properties") else { return };
    let required = schema.get("required").and_then(Value::as_array);
    for (key, property) in properties {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let text = |name: &str| property.get(name).and_then(Value::as_str).unwrap_or_default();
        let default = match property.get("default") {
            Some(value) => format!("`{}`", value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
            None if required.is_some_and(|keys| keys.iter().any(|known| known == key)) => {
                "required".to_owned()
            }
            None => String::new(),
        };
        let meaning = text("description").replace("\n\n", " ").replace('|', "\\|");
        let value = value_words(property);
        rows.push_str(&format!(
            "| `{path}` | {value} | {default} | {} | {meaning} |\n",
            text("x-repository")
        ));
        table_rows(&path, property, rows);
        if let Some(items) = property.get("items") {
            table_rows(&format!("{path}[]"), items, rows);
        }
        if let Some(entries @ Value::Object(_)) = property.get("additionalProperties") {
            table_rows(&format!("{path}.<name>"), entries, rows);
            if let Some(items) = entries.get("items") {
                table_rows(&format!("{path}.<name>[]"), items, rows);
            }
        }
    }
}

/// Returns the types of a value that has several.
fn types(schema: &Value) -> impl Iterator<Item = &Value> {
    schema.get("type").and_then(Value::as_array).into_iter().flatten()
}

fn value_words(schema: &Value) -> String {
    let kind = schema.get("type").and_then(Value::as_str);
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return words
            .iter()
            .filter_map(Value::as_str)
            .map(|word| format!("`{word}`"))
            .collect::<Vec<_>>()
            .join(" ");
    }
    let range = || Some((schema.get("minimum")?, schema.get("maximum")?));
    match (kind, range()) {
        (Some("integer" | "number"), Some((min, max))) => format!("number {min} to {max}"),
        (Some("array"), _) => match schema.get("items") {
            Some(items) => format!("list of {}", value_words(items)),
            None => "list".to_owned(),
        },
        (Some("string"), _) if schema.get("format").is_some() => "date".to_owned(),
        (Some("string"), _) => "text".to_owned(),
        (Some("boolean"), _) => "`true` `false`".to_owned(),
        (Some("object"), _) => "mapping".to_owned(),
        _ if types(schema).any(|kind| kind == "array") => "text or list".to_owned(),
        _ => "text or mapping".to_owned(),
    }
}
