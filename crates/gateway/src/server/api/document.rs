//! The OpenAPI document (3.1), made from the table of routes.

use std::future::{Ready, ready};

use backstop_hooks::PointId;
use backstop_store::Scope;
use http::Method;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::super::operators::Problem;
use super::asked::{Answer, Asked, Empty};
use super::judge;
use super::table::{Handle, Route};
use super::{PREFIX, TABLE};

/// What is said of streams.
const GOES_ON: &str = "events, until the token ends or the gateway stops; after a break, whoever goes on by `last-event-id` is told what came meanwhile";
const ENDS: &str = "events, until there is nothing more to tell, the token ends or the gateway stops";

/// The document, as it is served.
pub(super) fn get(_: Asked, _: Empty, _: Empty) -> Ready<Result<Answer<Value>, Problem>> {
    ready(Ok(document(TABLE.routes()).into()))
}

pub(super) fn document(routes: &[Route]) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for route in routes {
        let parameters = parameters(route, &json!((route.query)(&mut generator)), generator.definitions());
        let request = json!((route.request)(&mut generator));
        let response = json!((route.response)(&mut generator));
        let operation = operation(route, parameters, &request, &response);
        let path = paths.entry(format!("{PREFIX}{}", route.path)).or_insert_with(|| json!({}));
        if let Value::Object(methods) = path {
            methods.insert(route.method.as_str().to_ascii_lowercase(), operation);
        }
    }
    let mut schemas = generator.take_definitions(true);
    // Those of nothing, and those of queries, which parameters describe.
    for unnamed in
        ["Empty", "Done", "Waits", "Page", "TokenPage", "Which", "Entries", "ApprovalEvents", "AuditEvents"]
    {
        schemas.remove(unnamed);
    }
    schemas.remove("GrantPage");
    schemas.insert("Problem".to_owned(), problem());
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Backstop",
            "description": "Decisions of hooks for any program, and what people see and answer. Versioned by its path: what stands in a version is not changed in it.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0 OR MIT" },
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An access token with scopes: `backstop token create --scope`.",
                },
            },
        },
    });
    absent_is_not_null(&mut document);
    document
}

/// What is optional is absent, or has its type.
fn absent_is_not_null(value: &mut Value) {
    let is_null = |form: &Value| form.get("type").is_some_and(|name| name == "null");
    match value {
        Value::Array(items) => items.iter_mut().for_each(absent_is_not_null),
        Value::Object(fields) => {
            fields.retain(|key, value| !(key == "default" && value.is_null()));
            if let Some(Value::Array(types)) = fields.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_mut_slice() {
                    let only = only.take();
                    fields.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(forms)) = fields.get_mut("anyOf") {
                forms.retain(|form| !is_null(form));
                if let [Value::Object(only)] = forms.as_mut_slice() {
                    let only = std::mem::take(only);
                    fields.remove("anyOf");
                    fields.extend(only);
                }
            }
            fields.values_mut().for_each(absent_is_not_null);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn operation(route: &Route, parameters: Vec<Value>, request: &Value, response: &Value) -> Value {
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.summary,
        "x-scope": route.scope.map(Scope::as_str),
        "parameters": parameters,
        "responses": {
            "default": {
                "description": "a problem",
                "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
            },
        },
    });
    let done = json!({
        "description": "done",
        "content": { "application/json": { "schema": response } },
    });
    let Value::Object(fields) = &mut operation else { return operation };
    if let Handle::Stream(_) = route.handle {
        let description = if goes_on(route) { GOES_ON } else { ENDS };
        let events = json!({
            "description": description,
            // The form by which OpenAPI 3.2 describes streams.
            "content": { "text/event-stream": { "schema": { "type": "string" }, "x-itemSchema": response } },
        });
        if let Some(Value::Object(responses)) = fields.get_mut("responses") {
            responses.insert("200".to_owned(), events);
        }
        return operation;
    }
    if let Some(Value::Object(responses)) = fields.get_mut("responses") {
        match is_empty(response) {
            true => responses.insert("204".to_owned(), json!({ "description": "done" })),
            false => responses.insert("200".to_owned(), done.clone()),
        };
        if route.path.starts_with("hooks/") {
            responses.insert(
                "202".to_owned(),
                json!({
                    "description": "a human is asked; the decision can be waited for at `location`",
                    "content": done.get("content"),
                }),
            );
        }
    }
    if !is_empty(request) {
        let body = json!({ "required": true, "content": { "application/json": { "schema": request } } });
        fields.insert("requestBody".to_owned(), body);
    }
    operation
}

/// The parameters in the path, in the query, and the header of idempotency.
fn parameters(route: &Route, query: &Value, definitions: &Map<String, Value>) -> Vec<Value> {
    let mut parameters = Vec::new();
    for name in route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
        let schema = match name {
            "point" => json!({ "enum": judge::points().map(PointId::name).collect::<Vec<_>>() }),
            _ => json!({ "type": "string", "maxLength": 128 }),
        };
        parameters.push(json!({ "name": name, "in": "path", "required": true, "schema": schema }));
    }
    let name = query.get("$ref").and_then(Value::as_str).and_then(|named| named.rsplit('/').next());
    let query = name.and_then(|name| definitions.get(name)).unwrap_or(query);
    for (name, schema) in query.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let mut schema = schema.clone();
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        parameters.push(json!({ "name": name, "in": "query", "description": description, "schema": schema }));
    }
    if goes_on(route) {
        parameters.push(json!({
            "name": "last-event-id", "in": "header", "schema": { "type": "string", "maxLength": 128 },
            "description": "The `id` of the last event that is known.",
        }));
    }
    if route.method != Method::GET {
        // Spaces at its ends are none of a header's value.
        let key =
            json!({ "type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]([ -~]*[!-~])?$" });
        parameters.push(json!({
            "name": "idempotency-key", "in": "header", "schema": key,
            "description": "The same request by the same token and key is done once; who repeats it within ten minutes gets the same response.",
        }));
    }
    parameters
}

/// Whether it is a stream whose readers go on where they were. One about a decision says at once how far that is.
fn goes_on(route: &Route) -> bool {
    matches!(route.handle, Handle::Stream(_)) && route.scope != Some(Scope::Judge)
}

/// Whether it is the schema of nothing.
fn is_empty(schema: &Value) -> bool {
    schema
        .get("$ref")
        .and_then(Value::as_str)
        .is_some_and(|named| named.ends_with("/Empty") || named.ends_with("/Done"))
}

fn problem() -> Value {
    json!({
        "type": "object",
        "description": "A problem, as RFC 9457 defines it.",
        "properties": {
            "type": { "type": "string", "description": "Which problem: `urn:backstop:problem:..`, or `about:blank`." },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string", "description": "What is wrong, and what to do about it." },
        },
        "required": ["type", "title", "status", "detail"],
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_document_holds_every_route_and_nothing_else() {
        let document = document(TABLE.routes());
        let mut told = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                told.insert((
                    method.to_ascii_uppercase(),
                    path.clone(),
                    operation["operationId"].to_string(),
                ));
            }
        }
        let routes = TABLE.routes().iter();
        let is = routes.map(|route| {
            (route.method.to_string(), format!("{PREFIX}{}", route.path), json!(route.name).to_string())
        });
        assert_eq!(told, is.collect());
        let names: BTreeSet<_> = TABLE.routes().iter().map(|route| route.name).collect();
        assert_eq!(names.len(), TABLE.routes().len());
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document(TABLE.routes());
        let text = document.to_string();
        for named in text.split("\"$ref\":\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            let pointer = named.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{named}");
        }
        assert!(!text.contains("$defs") && !text.contains("\"null\""), "{text}");
        // A second type of one name would be told by a number behind it.
        let names = document["components"]["schemas"].as_object().unwrap();
        assert!(names.keys().all(|name| !name.ends_with(|end: char| end.is_ascii_digit())), "{names:?}");
    }
}
