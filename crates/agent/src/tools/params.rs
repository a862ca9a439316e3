//! The arguments of a tool: one table from which both the JSON Schema and the check are made.
//!
//! Keeping them in one place means that what the model is told is what is enforced. Arguments are checked
//! strictly: an unknown name, a missing value or another type is an error, never a guess.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::text;

/// Arguments that do not fit a tool's schema.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArgumentError {
    /// The tool has no such argument.
    #[error("`{tool}` has no argument `{name}`{hint}")]
    Unknown {
        /// The tool.
        tool: &'static str,
        /// The argument as the model spelled it.
        name: String,
        /// A suggestion, or empty.
        hint: String,
    },
    /// A required argument is not there.
    #[error("`{tool}` needs the argument `{name}`: {about}")]
    Missing {
        /// The tool.
        tool: &'static str,
        /// The argument.
        name: &'static str,
        /// What it means.
        about: &'static str,
    },
    /// An argument has the wrong type, or is out of range.
    #[error("`{tool}` takes {expected} as `{name}`, not {found}")]
    Unfit {
        /// The tool.
        tool: &'static str,
        /// The argument.
        name: &'static str,
        /// What is accepted.
        expected: String,
        /// What was given instead.
        found: String,
    },
}

/// What an argument may be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Text,
    Choice(&'static [&'static str]),
    Integer { min: u64, max: u64 },
    Flag,
    TextMap,
}

impl Kind {
    fn schema(self) -> Value {
        match self {
            Self::Text => json!({"type": "string"}),
            Self::Choice(words) => json!({"type": "string", "enum": words}),
            Self::Integer { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
            Self::Flag => json!({"type": "boolean"}),
            Self::TextMap => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        }
    }

    fn accepts(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Choice(words) => value.as_str().is_some_and(|word| words.contains(&word)),
            Self::Integer { min, max } => value.as_u64().is_some_and(|number| (min..=max).contains(&number)),
            Self::Flag => value.is_boolean(),
            Self::TextMap => value.as_object().is_some_and(|map| map.values().all(Value::is_string)),
        }
    }

    fn expected(self) -> String {
        match self {
            Self::Text => "a string".to_owned(),
            Self::Choice(words) => format!("one of `{}`", words.join("`, `")),
            Self::Integer { min, max } => format!("an integer from {min} to {max}"),
            Self::Flag => "true or false".to_owned(),
            Self::TextMap => "an object of strings".to_owned(),
        }
    }
}

/// One argument.
#[derive(Debug, Clone, Copy)]
pub(super) struct Param {
    name: &'static str,
    kind: Kind,
    required: bool,
    about: &'static str,
}

impl Param {
    pub(super) const fn required(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, required: true, about }
    }

    pub(super) const fn optional(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, required: false, about }
    }
}

/// All arguments of one tool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Params {
    pub(super) tool: &'static str,
    pub(super) list: &'static [Param],
}

impl Params {
    /// The JSON Schema of the arguments.
    pub(super) fn schema(&self) -> Value {
        let mut properties = Map::new();
        for param in self.list {
            let mut schema = param.kind.schema();
            if let Some(object) = schema.as_object_mut() {
                object.insert("description".to_owned(), Value::from(param.about));
            }
            properties.insert(param.name.to_owned(), schema);
        }
        let required: Vec<&str> = self.list.iter().filter(|p| p.required).map(|p| p.name).collect();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }

    /// Checks `args` against the table.
    pub(super) fn check<'a>(&self, args: &'a Map<String, Value>) -> Result<Args<'a>, ArgumentError> {
        if let Some(name) =
            args.keys().find(|name| !self.list.iter().any(|param| param.name == name.as_str()))
        {
            return Err(ArgumentError::Unknown {
                tool: self.tool,
                name: text::clip(name, 64),
                hint: text::did_you_mean(name, self.list.iter().map(|param| param.name)),
            });
        }
        for param in self.list {
            match args.get(param.name) {
                Some(value) if param.kind.accepts(value) => {}
                None if !param.required => {}
                None => {
                    return Err(ArgumentError::Missing {
                        tool: self.tool,
                        name: param.name,
                        about: param.about,
                    });
                }
                Some(value) => {
                    return Err(ArgumentError::Unfit {
                        tool: self.tool,
                        name: param.name,
                        expected: param.kind.expected(),
                        found: found(value),
                    });
                }
            }
        }
        Ok(Args { tool: self.tool, values: args })
    }
}

fn found(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(word) => format!("the string `{}`", text::clip(word, 40)),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// Arguments that fit their table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Args<'a> {
    tool: &'static str,
    values: &'a Map<String, Value>,
}

impl<'a> Args<'a> {
    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        self.values.get(name).and_then(Value::as_str)
    }

    /// A text that this call cannot do without.
    pub(super) fn need(&self, name: &'static str) -> Result<&'a str, ArgumentError> {
        self.text(name).ok_or(ArgumentError::Missing { tool: self.tool, name, about: "a string" })
    }

    pub(super) fn integer(&self, name: &str) -> Option<u64> {
        self.values.get(name).and_then(Value::as_u64)
    }

    /// Whether a flag was given and is true.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.values.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn text_map(&self, name: &str) -> BTreeMap<String, String> {
        let entries = self.values.get(name).and_then(Value::as_object).into_iter().flatten();
        entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: Params = Params {
        tool: "sample",
        list: &[
            Param::required("path", Kind::Text, "the file"),
            Param::optional("limit", Kind::Integer { min: 1, max: 9 }, "how many"),
            Param::optional("env", Kind::TextMap, "variables"),
            Param::optional("mode", Kind::Choice(&["a", "b"]), "which"),
        ],
    };

    fn error_of(args: Value) -> String {
        let Value::Object(map) = args else { panic!("an object is needed") };
        PARAMS.check(&map).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_tool_argument_and_remedy() {
        assert_eq!(
            error_of(json!({"pth": "x"})),
            "`sample` has no argument `pth`; hint: did you mean `path`?"
        );
        assert_eq!(error_of(json!({})), "`sample` needs the argument `path`: the file");
        assert_eq!(error_of(json!({"path": 3})), "`sample` takes a string as `path`, not the number 3");
        assert_eq!(
            error_of(json!({"path": "x", "limit": 10})),
            "`sample` takes an integer from 1 to 9 as `limit`, not the number 10"
        );
        assert_eq!(
            error_of(json!({"path": "x", "limit": "5"})),
            "`sample` takes an integer from 1 to 9 as `limit`, not the string `5`"
        );
        assert_eq!(
            error_of(json!({"path": "x", "env": {"A": 1}})),
            "`sample` takes an object of strings as `env`, not an object"
        );
        assert_eq!(
            error_of(json!({"path": "x", "mode": "c"})),
            "`sample` takes one of `a`, `b` as `mode`, not the string `c`"
        );
    }

    #[test]
    fn null_is_a_value_of_the_wrong_type() {
        assert_eq!(
            error_of(json!({"path": "x", "limit": null})),
            "`sample` takes an integer from 1 to 9 as `limit`, not null"
        );
    }

    #[test]
    fn schema_is_closed_and_lists_what_is_required() {
        let schema = PARAMS.schema();
        assert_eq!(schema["additionalProperties"], json!(false));
        assert_eq!(schema["required"], json!(["path"]));
        assert_eq!(schema["properties"]["limit"]["maximum"], json!(9));
        assert_eq!(schema["properties"]["path"]["description"], json!("the file"));
    }
}
