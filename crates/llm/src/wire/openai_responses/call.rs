//! Calls that the client runs, and their results.

use backstop_hooks::conversation::{Part, ToolCall, ToolResult};
use backstop_hooks::{Json, Params};
use serde_json::{Map, Value, json};

use super::API;
use super::content::{INPUT_TEXT, decode_content, encode_content};
use super::item::{Reader, own_fields};
use crate::error::WireError;
use crate::model::parse_arguments;
use crate::wire::json::Object;
use crate::wire::meta::{attach, own_field, wrap};
use crate::wire::openai_chat::arguments_text;
use crate::wire::whole_call::{is_whole_call, thing_of, whole_call};
use crate::wire::{RESPONSES_ITEMS, TypeClass, own_meta};

/// The argument that holds the text of a custom tool's call.
pub(super) const INPUT: &str = "input";
const TYPE: &str = "type";
const APPROVAL: &str = "mcp_approval_request";

/// The items that ask the client to run something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    Function,
    Custom,
    LocalShell,
    Shell,
    ApplyPatch,
    Computer,
    /// A person, or a program for them, is asked whether a server may be called.
    Approval,
    /// A type that has no form here: the item is the arguments.
    Whole,
}

impl CallKind {
    /// Those with a form of their own.
    const ALL: [Self; 6] =
        [Self::Function, Self::Custom, Self::LocalShell, Self::Shell, Self::ApplyPatch, Self::Computer];

    pub(crate) fn of_item(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|call| call.item_type() == kind)
    }

    /// The kind of call that an item of this type is in an answer; `None` if it is none. A type that nobody knows is
    /// one.
    pub(crate) fn in_answer(item_type: &str) -> Option<Self> {
        let is_call = RESPONSES_ITEMS.class_or_call(item_type) == TypeClass::Call;
        is_call.then(|| Self::of_item(item_type).unwrap_or_else(|| Self::other(item_type)))
    }

    /// The kind of call that an item of this type is in a conversation. One that nobody knows is of no account there:
    /// what came of it has come.
    pub(super) fn in_request(item_type: &str) -> Option<Self> {
        let is_call = RESPONSES_ITEMS.class(item_type) == Some(TypeClass::Call);
        is_call.then(|| Self::of_item(item_type).unwrap_or_else(|| Self::other(item_type)))
    }

    fn other(item_type: &str) -> Self {
        if item_type == APPROVAL { Self::Approval } else { Self::Whole }
    }

    /// The kind of call that an output of this type answers. A screenshot is no text and stays as it is.
    pub(crate) fn of_output(kind: &str) -> Option<Self> {
        let call = Self::of_item(kind.strip_suffix("_output")?);
        call.filter(|call| *call != Self::Computer)
    }

    pub(super) fn item_type(self) -> &'static str {
        match self {
            Self::Function => "function_call",
            Self::Custom => "custom_tool_call",
            Self::LocalShell => "local_shell_call",
            Self::Shell => "shell_call",
            Self::ApplyPatch => "apply_patch_call",
            Self::Computer => "computer_call",
            Self::Approval => APPROVAL,
            Self::Whole => "",
        }
    }

    /// The kind of a call that was read earlier, or that another wire or a program made.
    pub(crate) fn of_call(call: &ToolCall) -> Self {
        if is_whole_call(call, API) {
            return Self::Whole;
        }
        let own = own_field(call.meta.as_ref(), API, TYPE).and_then(Value::as_str);
        if own == Some(APPROVAL) {
            return Self::Approval;
        }
        let own = own.and_then(Self::of_item);
        // The item has no place for another name.
        own.filter(|kind| kind.tool().is_none_or(|name| name == call.name)).unwrap_or(Self::Function)
    }

    /// The name of the tool, where the item has none.
    fn tool(self) -> Option<&'static str> {
        match self {
            Self::Function | Self::Custom | Self::Approval | Self::Whole => None,
            Self::LocalShell => Some("local_shell"),
            Self::Shell => Some("shell"),
            Self::ApplyPatch => Some("apply_patch"),
            Self::Computer => Some("computer"),
        }
    }

    /// Whether its result is an item of texts.
    fn has_text_result(self) -> bool {
        !matches!(self, Self::Computer | Self::Approval | Self::Whole)
    }

    /// Whether the fields of an item of this kind can be edited one by one.
    pub(crate) fn has_fields(self) -> bool {
        !matches!(self, Self::Approval | Self::Whole)
    }

    /// The fields that say what to run.
    pub(crate) fn payload(self) -> &'static [&'static str] {
        match self {
            Self::Function => &["name", "arguments"],
            Self::Custom => &["name", INPUT],
            Self::LocalShell | Self::Shell => &["action"],
            Self::ApplyPatch => &["operation"],
            Self::Computer => &["action", "actions"],
            Self::Approval => &["arguments"],
            Self::Whole => &[],
        }
    }
}

pub(super) fn decode_call(
    kind: CallKind,
    item: Object<'_>,
    reader: Reader<'_>,
) -> Result<ToolCall, WireError> {
    let (arguments, malformed) = match kind {
        CallKind::Approval => return decode_approval(item),
        CallKind::Whole => return decode_whole(item),
        CallKind::Function => parse_arguments(item.string("arguments")?.unwrap_or_default()),
        CallKind::Custom => {
            let input = item.string(INPUT)?.unwrap_or_default();
            (Params::new(Map::from_iter([(INPUT.to_owned(), input.into())])), None)
        }
        CallKind::LocalShell | CallKind::Shell | CallKind::ApplyPatch => {
            let field = kind.payload().iter().find_map(|field| item.get(field));
            match field {
                None => (Params::default(), None),
                Some(Value::Object(fields)) => (Params::new(fields.clone()), None),
                Some(other) => (Params::default(), Some(other.to_string().into())),
            }
        }
        CallKind::Computer => {
            let mut fields = item.rest(&[]);
            fields.retain(|key, value| kind.payload().contains(&key.as_str()) && !value.is_null());
            (Params::new(fields), None)
        }
    };
    let name = match kind.tool() {
        Some(name) => name,
        None => item.required_string("name")?,
    };
    let mut meta = reader.item_fields(item, &[&[TYPE, "call_id"], kind.payload()].concat());
    if kind != CallKind::Function {
        meta.insert(TYPE.to_owned(), kind.item_type().into());
    }
    Ok(ToolCall {
        id: item.string("call_id")?.unwrap_or_default().into(),
        name: name.to_owned(),
        arguments,
        malformed,
        meta: wrap(API, meta),
    })
}

/// A call of a server's tool that somebody is to approve. It is named as clients name tools of such servers, so that
/// what holds for the tool holds for the approval.
fn decode_approval(item: Object<'_>) -> Result<ToolCall, WireError> {
    let name = item.required_string("name")?;
    let server = item.string("server_label")?.unwrap_or_default();
    let (arguments, malformed) = parse_arguments(item.string("arguments")?.unwrap_or_default());
    Ok(ToolCall {
        id: item.string("id")?.unwrap_or_default().into(),
        name: format!("mcp__{server}__{name}"),
        arguments,
        malformed,
        meta: wrap(API, item.rest(&["id", "arguments"])),
    })
}

fn decode_whole(item: Object<'_>) -> Result<ToolCall, WireError> {
    let id = item.string("call_id")?.or(item.string("id")?).unwrap_or_default();
    Ok(whole_call(API, id.into(), item.required_string(TYPE)?, item.rest(&[])))
}

/// A call as an item, without the fields that only answers have.
pub(super) fn encode_call(call: &ToolCall) -> Map<String, Value> {
    let kind = CallKind::of_call(call);
    if let Some(item) = thing_of(call, API) {
        return item;
    }
    if kind == CallKind::Approval {
        let mut item = own_meta(call.meta.as_ref(), API);
        item.insert("id".to_owned(), call.id.as_str().into());
        item.insert("arguments".to_owned(), arguments_text(call).into());
        return item;
    }
    let mut item = Map::from_iter([
        (TYPE.to_owned(), Value::from(kind.item_type())),
        ("call_id".to_owned(), call.id.as_str().into()),
    ]);
    if kind.tool().is_none() {
        item.insert("name".to_owned(), call.name.as_str().into());
    }
    match kind {
        CallKind::Function | CallKind::Approval | CallKind::Whole => {
            item.insert("arguments".to_owned(), arguments_text(call).into());
        }
        CallKind::Custom => {
            item.insert(INPUT.to_owned(), custom_input(call).into());
        }
        CallKind::LocalShell | CallKind::Shell | CallKind::ApplyPatch => {
            let payload = match &call.malformed {
                None => call.arguments.to_value(),
                Some(text) => serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into()),
            };
            item.extend(kind.payload().iter().map(|field| ((*field).to_owned(), payload.clone())));
        }
        CallKind::Computer => {
            item.extend(call.arguments.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
    }
    attach(&mut item, call.meta.as_ref(), API);
    item
}

/// The text of a custom tool's call. Arguments that a rewrite gave another shape are sent as JSON.
fn custom_input(call: &ToolCall) -> String {
    match (call.malformed.as_ref(), call.arguments.get(INPUT).and_then(Value::as_str)) {
        (None, Some(input)) if call.arguments.len() == 1 => input.to_owned(),
        _ => arguments_text(call),
    }
}

pub(super) fn decode_result(kind: CallKind, item: Object<'_>) -> Result<ToolResult, WireError> {
    let (id, id_field) = match (item.string("call_id")?, kind) {
        // This one is named after the call itself.
        (None, CallKind::LocalShell) => (item.required_string("id")?, "id"),
        (id, _) => (id.unwrap_or_default(), "call_id"),
    };
    let content = match (kind, item.get("output")) {
        (_, None) => Vec::new(),
        (CallKind::Shell, Some(_)) => decode_shell_output(item.required_array("output")?)?,
        (_, Some(output)) => decode_content(output, INPUT_TEXT)?,
    };
    let mut meta = item.rest(&[TYPE, "output", id_field]);
    let is_error = kind == CallKind::ApplyPatch && item.string("status")? == Some("failed");
    if kind == CallKind::ApplyPatch && matches!(item.string("status")?, Some("failed" | "completed")) {
        meta.remove("status");
    }
    if kind != CallKind::Function {
        meta.insert(TYPE.to_owned(), kind.item_type().into());
    }
    Ok(ToolResult {
        tool_call_id: id.into(),
        tool_name: None,
        content,
        is_error,
        details: None,
        meta: wrap(API, meta),
    })
}

/// A result as an item. `asked` is the kind of the call, if it is in the conversation.
pub(super) fn encode_result(result: &ToolResult, asked: Option<CallKind>) -> Value {
    let mut meta = own_meta(result.meta.as_ref(), API);
    let own = meta.remove(TYPE).and_then(|kind| kind.as_str().and_then(CallKind::of_item));
    let kind = own.or(asked).filter(|kind| kind.has_text_result()).unwrap_or(CallKind::Function);
    let mut item = Map::from_iter([(TYPE.to_owned(), Value::from(format!("{}_output", kind.item_type())))]);
    let id_field = if kind == CallKind::LocalShell && !meta.contains_key("id") { "id" } else { "call_id" };
    if !result.tool_call_id.as_str().is_empty() {
        item.insert(id_field.to_owned(), result.tool_call_id.as_str().into());
    }
    let output = match kind {
        CallKind::Shell => encode_shell_output(result),
        CallKind::LocalShell | CallKind::ApplyPatch => result.visible_text().into(),
        CallKind::Function | CallKind::Custom | CallKind::Computer | CallKind::Approval | CallKind::Whole => {
            match encode_content(&result.content, INPUT_TEXT) {
                Value::Array(parts) if parts.is_empty() => "".into(),
                output => output,
            }
        }
    };
    item.insert("output".to_owned(), output);
    if kind == CallKind::ApplyPatch {
        item.insert("status".to_owned(), if result.is_error { "failed" } else { "completed" }.into());
    }
    for (key, value) in meta {
        item.entry(key).or_insert(value);
    }
    item.into()
}

const STREAM: &str = "stream";

/// Each command's output is two texts; what else is said about the command stands at the first.
fn decode_shell_output(outputs: &[Value]) -> Result<Vec<Part>, WireError> {
    let mut parts = Vec::with_capacity(outputs.len() * 2);
    for output in outputs {
        let output = Object::of("shell output", output)?;
        for stream in ["stdout", "stderr"] {
            let mut meta = Map::from_iter([(STREAM.to_owned(), Value::from(stream))]);
            if stream == "stdout" {
                meta.extend(output.rest(&["stdout", "stderr"]));
            }
            let text = output.string(stream)?.unwrap_or_default();
            parts.push(Part::Text { text: text.into(), meta: wrap(API, meta) });
        }
    }
    Ok(parts)
}

fn encode_shell_output(result: &ToolResult) -> Value {
    let mut outputs: Vec<Value> = Vec::new();
    for part in &result.content {
        let Part::Text { text, meta } = part else { continue };
        let stream = own_field(meta.as_ref(), API, STREAM).and_then(Value::as_str);
        if let (Some("stderr"), Some(Value::Object(last))) = (stream, outputs.last_mut()) {
            last.insert("stderr".to_owned(), text.as_str().into());
            continue;
        }
        let exit_code = i32::from(result.is_error);
        let mut output = own_fields(meta.as_ref(), &[STREAM]);
        output.insert("stdout".to_owned(), text.as_str().into());
        output.entry("stderr").or_insert_with(|| "".into());
        output.entry("outcome").or_insert_with(|| json!({"type": "exit", "exit_code": exit_code}));
        outputs.push(output.into());
    }
    outputs.into()
}

/// The raw form of an item.
pub(super) fn unknown(value: &Value) -> Part {
    Part::Unknown { raw: Json::new(value.clone()) }
}
