//! The JSON Schema of a file of cases, for editors.

use backstop::hooks::points::context_schema;
use backstop::hooks::{Mode, PointId};
use serde_json::{Value, json};

use super::expect::Verdict;

/// The JSON Schema (draft 2020-12). Events are described by the schemas of their hook points.
#[must_use]
pub fn schema() -> Value {
    let text = json!({ "type": "string", "minLength": 1 });
    let texts = json!({ "oneOf": [text, { "type": "array", "items": text, "minItems": 1 }] });
    let verdicts: Vec<&str> = Verdict::ALL.into_iter().map(Verdict::as_str).collect();
    let verdict = json!({ "enum": verdicts });
    let context = json!({ "$ref": "#/$defs/context" });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "cases of `backstop test`",
        "type": "object",
        "additionalProperties": false,
        "required": ["cases"],
        "properties": {
            "config": described(&texts, "The configuration by which the cases are judged, or several, relative to this file. It holds alone: files of the working directory do not count. Absent, the configuration in force holds; `--config` takes the place of both."),
            "workspace": described(&text, "The folder in which the agent works, relative to this file."),
            "context": described(&context, "Who calls, where a case does not say so itself."),
            "cases": { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/case" } },
        },
        "$defs": {
            "case": {
                "type": "object",
                "additionalProperties": false,
                "required": ["call", "expect", "because"],
                "properties": {
                    "name": described(&text, "The name of the case in reports; its call where absent."),
                    "call": {
                        "description": "What is asked; each of a list is a case of its own.",
                        "oneOf": [
                            { "$ref": "#/$defs/call" },
                            { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/call" } },
                        ],
                    },
                    "expect": {
                        "description": "What has to come of it.",
                        "oneOf": [{ "$ref": "#/$defs/verdict" }, { "$ref": "#/$defs/expectation" }],
                    },
                    "because": described(&text, "Why: for whoever reads that the case failed."),
                    "context": described(&context, "Who calls."),
                },
            },
            "call": { "oneOf": calls() },
            "verdict": { "oneOf": [verdict, { "type": "array", "minItems": 1, "items": verdict }] },
            "expectation": {
                "type": "object",
                "additionalProperties": false,
                "required": ["verdict"],
                "properties": {
                    "verdict": { "$ref": "#/$defs/verdict" },
                    "hook": described(&text, "The hook that decides, or one of them."),
                    "rule": described(&texts, "The rule that is named, or several that all are."),
                    "reason": described(&text, "A text that the reason contains."),
                    "args": { "type": "object", "description": "All of the arguments with which the tool would run." },
                    "outcome": { "type": "object", "minProperties": 1, "description": "Fields of the merged outcome at another point, each with its whole value." },
                },
            },
            "context": closed(&json!(context_schema())),
        },
    })
}

fn calls() -> Value {
    let text = json!({ "type": "string", "minLength": 1 });
    let points: Vec<&str> = PointId::ALL
        .iter()
        .filter(|point| point.info().mode != Mode::Observe)
        .filter(|point| !matches!(point, PointId::ToolBefore | PointId::TrustedToolPolicy))
        .map(|point| point.name())
        .collect();
    json!([
        described(&text, "A command, as a call of `exec`."),
        object(&json!({ "command": text }), &["command"]),
        object(
            &json!({
                "tool": described(&text, "The tool, as it is called."),
                "args": { "type": "object", "description": "Its arguments; none where absent." },
            }),
            &["tool"],
        ),
        object(
            &json!({
                "point": { "enum": points, "description": "The hook point." },
                "event": { "type": "object", "description": "Its event, by the reference of the hook points." },
            }),
            &["point", "event"],
        ),
    ])
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": properties, "required": required })
}

fn described(schema: &Value, what: &str) -> Value {
    let mut schema = schema.clone();
    if let Value::Object(schema) = &mut schema {
        schema.insert("description".to_owned(), what.into());
    }
    schema
}

/// The schema of a record, in which nothing else stands.
fn closed(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Value::Object(schema) = &mut schema {
        schema.remove("$schema");
        schema.insert("additionalProperties".to_owned(), false.into());
    }
    schema
}
