//! Reading JSON of a known shape, with errors that name the field.

use serde_json::{Map, Value};

use super::strict::{MISREAD, TOO_MANY_VALUES, parse_json};
use crate::error::WireError;

/// A JSON object, with the name of what it is.
#[derive(Clone, Copy)]
pub(crate) struct Object<'a> {
    what: &'static str,
    fields: &'a Map<String, Value>,
}

impl<'a> Object<'a> {
    pub(crate) fn of(what: &'static str, value: &'a Value) -> Result<Self, WireError> {
        match value {
            Value::Object(fields) => Ok(Self { what, fields }),
            _ => Err(malformed(what, what, "is not an object")),
        }
    }

    pub(crate) fn error(&self, field: &str, problem: &'static str) -> WireError {
        malformed(self.what, field, problem)
    }

    /// The field's value; null counts as absent.
    pub(crate) fn get(&self, field: &str) -> Option<&'a Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    pub(crate) fn string(&self, field: &str) -> Result<Option<&'a str>, WireError> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.error(field, "is not a string")),
        }
    }

    pub(crate) fn required_string(&self, field: &str) -> Result<&'a str, WireError> {
        self.string(field)?.ok_or_else(|| self.error(field, "is missing"))
    }

    pub(crate) fn array(&self, field: &str) -> Result<Option<&'a [Value]>, WireError> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(_) => Err(self.error(field, "is not an array")),
        }
    }

    pub(crate) fn required_array(&self, field: &str) -> Result<&'a [Value], WireError> {
        self.array(field)?.ok_or_else(|| self.error(field, "is missing"))
    }

    pub(crate) fn object(&self, field: &str) -> Result<Option<Object<'a>>, WireError> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(Object { what: self.what, fields })),
            Some(_) => Err(self.error(field, "is not an object")),
        }
    }

    pub(crate) fn required_object(&self, field: &str) -> Result<Object<'a>, WireError> {
        self.object(field)?.ok_or_else(|| self.error(field, "is missing"))
    }

    pub(crate) fn u64(&self, field: &str) -> Result<Option<u64>, WireError> {
        match self.get(field) {
            None => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| self.error(field, "is not a whole number")),
        }
    }

    pub(crate) fn index(&self, field: &str) -> Result<Option<usize>, WireError> {
        let index = self.u64(field)?;
        index.map(|index| usize::try_from(index).map_err(|_| self.error(field, "is too large"))).transpose()
    }

    pub(crate) fn f64(&self, field: &str) -> Result<Option<f64>, WireError> {
        match self.get(field) {
            None => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or_else(|| self.error(field, "is not a number")),
        }
    }

    pub(crate) fn bool(&self, field: &str) -> Result<Option<bool>, WireError> {
        match self.get(field) {
            None => Ok(None),
            Some(value) => value.as_bool().map(Some).ok_or_else(|| self.error(field, "is not true or false")),
        }
    }

    /// All fields but the known ones.
    pub(crate) fn rest(&self, known: &[&str]) -> Map<String, Value> {
        self.fields
            .iter()
            .filter(|(key, _)| !known.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }
}

/// The items of a list.
pub(crate) fn array<'a>(what: &'static str, field: &str, value: &'a Value) -> Result<&'a [Value], WireError> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| malformed(what, field, "is not an array"))
}

pub(crate) fn malformed(what: &'static str, field: &str, problem: &'static str) -> WireError {
    WireError::Malformed { what, field: field.to_owned(), problem }
}

/// Parses JSON text; the error says where, never what.
pub(crate) fn parse(what: &'static str, text: &str) -> Result<Value, WireError> {
    parse_json(text.as_bytes()).map_err(|error| not_json(what, &error))
}

/// The wire error of a JSON error. Its text holds a place and a category, no input.
pub(crate) fn not_json(what: &'static str, error: &serde_json::Error) -> WireError {
    let kind = match error.classify() {
        serde_json::error::Category::Eof => "it ends too early",
        serde_json::error::Category::Io => "it cannot be read",
        serde_json::error::Category::Syntax => "syntax error",
        serde_json::error::Category::Data if error.to_string().starts_with(TOO_MANY_VALUES) => {
            TOO_MANY_VALUES
        }
        serde_json::error::Category::Data if error.to_string().starts_with(MISREAD) => {
            "a whole number is too large: readers disagree about it"
        }
        serde_json::error::Category::Data => "a key stands twice, or with letters of the wrong case",
    };
    WireError::NotJson { what, reason: format!("{kind} at line {} column {}", error.line(), error.column()) }
}
