//! The entries of `tool_calls`, whole and in pieces.
//!
//! A function has its arguments as JSON text; a custom tool has free text, which is the argument `input`, as on the
//! other wire of this provider; an entry of any other type that holds neither is a call named after it, with the entry as arguments, or
//! with its `pieces` where it came in several.

use backstop_hooks::conversation::ToolCall;
use backstop_hooks::{Params, ToolCallId};
use serde_json::{Map, Value, json};

use super::API;
use super::content::{arguments_of, arguments_text};
use super::functions::FUNCTION_CALL;
use crate::error::{WireError, out_of_order};
use crate::model::ToolCallBuilder;
use crate::wire::json::Object;
use crate::wire::meta::{attach, own_field, wrap};
use crate::wire::whole_call::{thing_of, whole_call};

const FUNCTION: &str = "function";
const CUSTOM: &str = "custom";
/// The argument that holds the text of a custom tool's call.
const INPUT: &str = "input";

/// How an entry says what is called.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    Function,
    Custom,
    /// By a type that has no form here.
    Other(String),
}

impl Form {
    /// The form that an entry names; `None` for a piece that leaves it out.
    fn of(call: Object<'_>) -> Result<Option<Self>, WireError> {
        let (function, custom) = (call.object(FUNCTION)?, call.object(CUSTOM)?);
        if function.is_some() && custom.is_some() {
            return Err(call.error(CUSTOM, "stands beside `function`"));
        }
        Ok(match call.string("type")?.filter(|kind| !kind.is_empty()) {
            Some(FUNCTION) if custom.is_none() => Some(Self::Function),
            Some(CUSTOM) if function.is_none() => Some(Self::Custom),
            Some(FUNCTION | CUSTOM) => return Err(call.error("type", "is not that of the call")),
            // Whoever runs calls reads the name where it stands, whatever the type says.
            Some(_) if function.is_some() => Some(Self::Function),
            Some(_) if custom.is_some() => Some(Self::Custom),
            Some(other) => Some(Self::Other(other.to_owned())),
            None if custom.is_some() => Some(Self::Custom),
            None => function.map(|_| Self::Function),
        })
    }

    /// What is called, as far as the entry says so.
    fn name<'a>(&'a self, call: Object<'a>) -> Result<&'a str, WireError> {
        let holder = match self {
            Self::Function => call.object(FUNCTION)?,
            Self::Custom => call.object(CUSTOM)?,
            Self::Other(kind) => return Ok(kind),
        };
        Ok(holder.map(|holder| holder.string("name")).transpose()?.flatten().unwrap_or_default())
    }
}

/// Reads a whole entry.
pub(super) fn decode_call(value: &Value) -> Result<ToolCall, WireError> {
    let call = Object::of("tool call", value)?;
    let id = call.string("id")?.unwrap_or_default();
    match Form::of(call)?.unwrap_or(Form::Function) {
        Form::Function => {
            let function = call.required_object(FUNCTION)?;
            let (arguments, malformed) = arguments_of(function);
            Ok(ToolCall {
                id: id.into(),
                name: function.required_string("name")?.to_owned(),
                arguments,
                malformed,
                meta: wrap(API, call_fields(call, FUNCTION, function.rest(&["name", "arguments"]))?),
            })
        }
        Form::Custom => {
            let custom = call.required_object(CUSTOM)?;
            let input = custom.string(INPUT)?.unwrap_or_default();
            let fields = call_fields(call, CUSTOM, custom.rest(&["name", INPUT]))?;
            Ok(custom_call(id.into(), custom.required_string("name")?, input, fields))
        }
        Form::Other(kind) => Ok(whole_call(API, id.into(), &kind, call.rest(&[]))),
    }
}

/// What stands beside what is called, and under its form what no entry has: fields beside its name and its arguments, another
/// type, a function's call. That is shown, and an entry that is encoded anew is without it.
fn call_fields(
    call: Object<'_>,
    form: &str,
    mut beside: Map<String, Value>,
) -> Result<Map<String, Value>, WireError> {
    if let Some(other) = call.string("type")?.filter(|kind| !kind.is_empty() && *kind != form) {
        beside.insert("type".to_owned(), other.into());
    }
    let strange = [FUNCTION_CALL, "index"].into_iter().filter_map(|field| Some((field, call.get(field)?)));
    let strange = strange.filter(|(_, value)| !value.is_number());
    beside.extend(strange.map(|(field, value)| (field.to_owned(), value.clone())));
    let mut fields = call.rest(&["id", "type", form, "index", FUNCTION_CALL]);
    if !beside.is_empty() {
        fields.insert(form.to_owned(), beside.into());
    }
    Ok(fields)
}

fn custom_call(id: ToolCallId, name: &str, input: &str, mut meta: Map<String, Value>) -> ToolCall {
    meta.insert("type".to_owned(), CUSTOM.into());
    ToolCall {
        id,
        name: name.to_owned(),
        arguments: Params::new(Map::from_iter([(INPUT.to_owned(), input.into())])),
        malformed: None,
        meta: wrap(API, meta),
    }
}

/// A call as an entry.
pub(super) fn encode_call(call: &ToolCall) -> Value {
    if let Some(entry) = thing_of(call, API) {
        return entry.into();
    }
    let is_custom = own_field(call.meta.as_ref(), API, "type").and_then(Value::as_str) == Some(CUSTOM);
    let (form, held) = if is_custom {
        let input = call.arguments.get(INPUT).and_then(Value::as_str).filter(|_| call.arguments.len() == 1);
        let input = input.map_or_else(|| arguments_text(call), str::to_owned);
        (CUSTOM, json!({"name": call.name, INPUT: input}))
    } else {
        (FUNCTION, json!({"name": call.name, "arguments": arguments_text(call)}))
    };
    let mut object = Map::from_iter([
        ("id".to_owned(), Value::from(call.id.as_str())),
        ("type".to_owned(), form.into()),
        (form.to_owned(), held),
    ]);
    attach(&mut object, call.meta.as_ref(), API);
    object.into()
}

/// A piece of an entry of a stream.
pub(super) struct CallPiece<'a> {
    call: Object<'a>,
    form: Option<Form>,
    pub(super) index: Option<usize>,
}

impl<'a> CallPiece<'a> {
    pub(super) fn read(value: &'a Value) -> Result<Self, WireError> {
        let call = Object::of("tool call", value)?;
        Ok(Self { call, form: Form::of(call)?, index: call.index("index")? })
    }

    /// Whether it names what is called, as the first piece does.
    pub(super) fn begins(&self) -> Result<bool, WireError> {
        Ok(match &self.form {
            Some(form) => !form.name(self.call)?.is_empty(),
            None => false,
        })
    }

    /// The call that begins with it.
    pub(super) fn open(&self) -> Result<OpenCall, WireError> {
        let form = self.form.clone().unwrap_or(Form::Function);
        let name = form.name(self.call)?.to_owned();
        if name.is_empty() {
            return Err(out_of_order("a tool call begins without a name"));
        }
        let meta = self.call.rest(&["index", "id", "type", FUNCTION, CUSTOM, FUNCTION_CALL]);
        let meta = if matches!(form, Form::Other(_)) { None } else { wrap(API, meta) };
        let id = self.call.string("id")?.unwrap_or_default().into();
        let builder = ToolCallBuilder { id, name, arguments: String::new(), meta };
        Ok(OpenCall { form, builder, pieces: Vec::new() })
    }
}

/// A call that is not whole.
#[derive(Debug)]
pub(super) struct OpenCall {
    form: Form,
    pub(super) builder: ToolCallBuilder,
    /// The pieces of one that has no form here.
    pieces: Vec<Value>,
}

impl OpenCall {
    /// A function whose entry is made up.
    pub(super) fn function(builder: ToolCallBuilder) -> Self {
        Self { form: Form::Function, builder, pieces: Vec::new() }
    }

    /// Takes a piece; gives what it adds to the arguments as they are told on.
    pub(super) fn grow(&mut self, piece: &CallPiece<'_>) -> Result<String, WireError> {
        if piece.form.as_ref().is_some_and(|form| *form != self.form) {
            return Err(out_of_order("a tool call changes its type"));
        }
        let call = piece.call;
        self.check(call.string("id")?.unwrap_or_default(), self.form.name(call)?)?;
        match &self.form {
            Form::Function => {
                let function = call.object(FUNCTION)?;
                Ok(self.grow_arguments(function.and_then(|function| function.get("arguments"))))
            }
            Form::Custom => {
                let input = call.object(CUSTOM)?.map(|custom| custom.string(INPUT)).transpose()?.flatten();
                self.builder.arguments.push_str(input.unwrap_or_default());
                Ok(String::new())
            }
            Form::Other(_) => {
                self.pieces.push(call.rest(&[]).into());
                Ok(String::new())
            }
        }
    }

    /// Refuses a piece that says another id or name.
    pub(super) fn check(&self, id: &str, name: &str) -> Result<(), WireError> {
        let changes = |new: &str, old: &str| !new.is_empty() && new != old;
        if changes(id, self.builder.id.as_str()) || changes(name, &self.builder.name) {
            return Err(out_of_order("a tool call changes its id or name"));
        }
        Ok(())
    }

    /// Adds to the arguments of a function; gives what was added.
    pub(super) fn grow_arguments(&mut self, more: Option<&Value>) -> String {
        let more = match more {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        self.builder.arguments.push_str(&more);
        more
    }

    /// The call, and what of its arguments has not been told on.
    pub(super) fn finish(mut self) -> (ToolCall, Option<String>) {
        let call = match self.form {
            Form::Function => return (self.builder.finish(), None),
            Form::Custom => {
                let ToolCallBuilder { id, name, arguments, meta } = self.builder;
                custom_call(id, &name, &arguments, crate::wire::own_meta(meta.as_ref(), API))
            }
            Form::Other(kind) => {
                let only = if self.pieces.len() == 1 { self.pieces.pop() } else { None };
                let entry = match only {
                    Some(Value::Object(entry)) => entry,
                    only => {
                        self.pieces.extend(only);
                        let kind = Value::from(kind.as_str());
                        Map::from_iter([("type".to_owned(), kind), ("pieces".to_owned(), self.pieces.into())])
                    }
                };
                whole_call(API, self.builder.id, &kind, entry)
            }
        };
        let arguments = call.arguments.to_value().to_string();
        (call, Some(arguments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_named_as_who_runs_it_reads_it_whatever_its_type() {
        for (entry, name) in [
            (json!({"id": "c", "type": "function", "function": {"name": "a", "arguments": "{}"}}), "a"),
            (json!({"id": "c", "type": "Function", "function": {"name": "a", "arguments": "{}"}}), "a"),
            (json!({"id": "c", "type": "okay_call", "custom": {"name": "a", "input": "x"}}), "a"),
            (json!({"id": "c", "type": "okay_call", "okay_call": {"do": 1}}), "okay_call"),
        ] {
            assert_eq!(decode_call(&entry).unwrap().name, name, "{entry}");
            let piece = CallPiece::read(&entry).unwrap();
            assert!(piece.begins().unwrap());
        }
        assert!(
            decode_call(&json!({"type": "custom", "function": {"name": "a", "arguments": "{}"}})).is_err()
        );
    }
}
