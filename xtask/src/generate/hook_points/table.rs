//! Fields of a JSON Schema as a Markdown table.

use serde_json::Value;

/// A row for each field. `merges` says how an outcome's field merges; a table without such a field has no
/// such column. A schema of several forms becomes a table for each.
pub(crate) fn fields(root: &Value, merges: impl Fn(&str) -> Option<&'static str> + Copy) -> String {
    if let Some(forms) = root.get("oneOf").and_then(Value::as_array) {
        let forms = forms
            .iter()
            .map(|form| format!("{}\n\n{}", text(form, "description"), table(root, form, merges)));
        return forms.collect::<Vec<_>>().join("\n");
    }
    if let Some(any) = root.get("additionalProperties").filter(|any| any.is_object()) {
        return format!("Any keys, each with a {}.\n", type_name(root, any));
    }
    table(root, root, merges)
}

fn table(root: &Value, schema: &Value, merges: impl Fn(&str) -> Option<&'static str> + Copy) -> String {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return "No fields.\n".to_owned();
    };
    let required = |name: &str| {
        schema.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(|n| n == name))
    };
    let merged = properties.keys().any(|name| merges(name).is_some());
    let mut text = if merged {
        "| field | type | meaning | several answers |\n| --- | --- | --- | --- |\n".to_owned()
    } else {
        "| field | type | meaning |\n| --- | --- | --- |\n".to_owned()
    };
    for (name, property) in properties {
        let optional = if required(name) || merged { "" } else { "?" };
        let meaning = self::text(property, "description").replace('\n', " ").replace('|', "\\|");
        text.push_str(&format!("| `{name}`{optional} | {} | {meaning} |", type_name(root, property)));
        if merged {
            text.push_str(&format!(" {} |", merges(name).unwrap_or_default()));
        }
        text.push('\n');
    }
    text
}

/// A type in words: `text`, `list of Message`, `"a" or "b"`.
fn type_name(root: &Value, schema: &Value) -> String {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let named =
            reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer)).unwrap_or(&Value::Null);
        let record = named.get("properties").is_some() || is_union_of_records(named);
        let name = reference.rsplit('/').next().unwrap_or_default();
        return if record { name.to_owned() } else { type_name(root, named) };
    }
    if let Some(forms) = schema.get("oneOf").and_then(Value::as_array) {
        return forms.iter().map(|form| type_name(root, form)).collect::<Vec<_>>().join(" or ");
    }
    if let Some(constant) = schema.get("const") {
        return format!("`{constant}`");
    }
    if let Some(constants) = schema.get("enum").and_then(Value::as_array) {
        return constants.iter().map(|constant| format!("`{constant}`")).collect::<Vec<_>>().join(" or ");
    }
    match text(schema, "type") {
        "array" => {
            format!("list of {}", schema.get("items").map(|of| type_name(root, of)).unwrap_or_default())
        }
        "" => "any JSON".to_owned(),
        name => name.to_owned(),
    }
}

fn is_union_of_records(schema: &Value) -> bool {
    schema
        .get("oneOf")
        .and_then(Value::as_array)
        .is_some_and(|forms| forms.iter().any(|form| form.get("properties").is_some()))
}

fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}
