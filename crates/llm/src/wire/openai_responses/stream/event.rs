//! The names of events that carry pieces of items.

use serde_json::Value;

use crate::error::WireError;
use crate::wire::json::Object;
use crate::wire::openai_responses::content::{SPOKEN, unknown_part};

/// A text within an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// Text of a message.
    Content(usize),
    /// Refusal in a message.
    Refusal(usize),
    /// Summary of reasoning.
    Summary(usize),
    /// Reasoning itself.
    Reasoning(usize),
    /// Arguments of a call that the client runs.
    Arguments,
    /// Arguments of a call that the provider runs.
    ServerArguments,
    /// Free text of a custom tool's call.
    Input,
    /// Code that the provider runs.
    Code,
    /// A command for a shell.
    Command(usize),
    /// A patch.
    Diff,
}

impl Place {
    /// No place stands before this one.
    pub(crate) const FIRST: Self = Self::Content(0);

    /// Where a part of a message has its text: a refusal, or a text.
    pub(crate) fn in_message(index: usize, part_type: Option<&str>) -> Self {
        if part_type == Some("refusal") { Self::Refusal(index) } else { Self::Content(index) }
    }

    /// This place in an item of the type `kind`: some servers call reasoning by the name of a message's text
    /// where a part begins.
    pub(crate) fn within(self, kind: &str) -> Self {
        match self {
            Self::Content(index) if kind == "reasoning" => Self::Reasoning(index),
            place => place,
        }
    }

    /// Whether it is the whole of the field `name` of an item.
    pub(super) fn is(self, name: &str) -> bool {
        match self {
            Self::Arguments | Self::ServerArguments => name == "arguments",
            Self::Input => name == "input",
            _ => false,
        }
    }

    /// The text that stands here in an item.
    pub(super) fn of(self, item: &Value) -> Option<&str> {
        let pointer = match self {
            Self::Content(index) | Self::Reasoning(index) => format!("/content/{index}/text"),
            Self::Refusal(index) => format!("/content/{index}/refusal"),
            Self::Summary(index) => format!("/summary/{index}/text"),
            Self::Arguments | Self::ServerArguments => "/arguments".to_owned(),
            Self::Input => "/input".to_owned(),
            Self::Code => "/code".to_owned(),
            Self::Command(index) => format!("/action/commands/{index}"),
            Self::Diff => "/operation/diff".to_owned(),
        };
        item.pointer(&pointer)?.as_str()
    }
}

/// What an event says about a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It begins.
    Begins,
    /// It grows.
    Grows,
    /// It is whole.
    Ends,
}

/// A piece of a text.
pub(crate) struct Piece<'a> {
    pub(crate) place: Place,
    pub(crate) change: Change,
    pub(crate) text: &'a str,
}

impl<'a> Piece<'a> {
    /// Reads an event that carries a piece of a text; `None` if events of this type do not.
    pub(crate) fn of_event(event: &'a Value) -> Result<Option<Self>, WireError> {
        let event = Object::of("stream event", event)?;
        Self::read(event.required_string("type")?, event)
    }

    /// Reads an event that carries a piece of a text; `None` if events of this kind do not.
    pub(super) fn read(kind: &str, event: Object<'a>) -> Result<Option<Self>, WireError> {
        let Some((family, change)) = split(kind) else { return Ok(None) };
        if matches!(family, "content_part" | "reasoning_summary_part") {
            return read_part(family, change, event);
        }
        let index = |field: &str| event.index(field)?.ok_or_else(|| event.error(field, "is missing"));
        let (place, field) = match family {
            "output_text" => (Place::Content(index("content_index")?), "text"),
            "refusal" => (Place::Refusal(index("content_index")?), "refusal"),
            "reasoning_summary_text" => (Place::Summary(index("summary_index")?), "text"),
            "reasoning_text" => (Place::Reasoning(index("content_index")?), "text"),
            "function_call_arguments" => (Place::Arguments, "arguments"),
            "mcp_call_arguments" => (Place::ServerArguments, "arguments"),
            "custom_tool_call_input" => (Place::Input, "input"),
            "code_interpreter_call_code" => (Place::Code, "code"),
            "shell_call_command" => (Place::Command(index("command_index")?), "command"),
            "apply_patch_call_operation_diff" => (Place::Diff, "diff"),
            _ => return Ok(None),
        };
        let text = match change {
            Change::Begins => event.string(field)?.unwrap_or_default(),
            Change::Grows => event.required_string("delta")?,
            Change::Ends => event.required_string(field)?,
        };
        Ok(Some(Self { place, change, text }))
    }
}

fn split(kind: &str) -> Option<(&str, Change)> {
    let (family, end) = kind.strip_prefix("response.")?.rsplit_once('.')?;
    let change = match end {
        "added" => Change::Begins,
        "delta" => Change::Grows,
        "done" => Change::Ends,
        _ => return None,
    };
    Some((family, change))
}

/// A part of an item's content or summary begins or ends.
fn read_part<'a>(family: &str, change: Change, event: Object<'a>) -> Result<Option<Piece<'a>>, WireError> {
    let field = if family == "content_part" { "content_index" } else { "summary_index" };
    let index = event.index(field)?.ok_or_else(|| event.error(field, "is missing"))?;
    let part = event.required_object("part")?;
    let (place, text) = match part.required_string("type")? {
        "output_text" => (Place::Content(index), "text"),
        "refusal" => (Place::Refusal(index), "refusal"),
        "reasoning_text" => (Place::Reasoning(index), "text"),
        "summary_text" => (Place::Summary(index), "text"),
        SPOKEN => return Ok(None),
        _ => return Err(unknown_part()),
    };
    Ok(Some(Piece { place, change, text: part.string(text)?.unwrap_or_default() }))
}

/// Where the text of each part of an item stands.
pub(super) fn places(kind: &str, item: &Value) -> Vec<Option<Place>> {
    let parts =
        |field: &str| item.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let places: Vec<Option<Place>> = match kind {
        "message" => {
            let types = parts("content").iter().map(|part| part.get("type").and_then(Value::as_str));
            let places = types.enumerate().map(|(index, kind)| Place::in_message(index, kind));
            places.map(|place| place.of(item).map(|_| place)).collect()
        }
        "reasoning" => {
            let summary = (0..parts("summary").len()).map(Place::Summary);
            summary.chain((0..parts("content").len()).map(Place::Reasoning)).map(Some).collect()
        }
        "function_call" => vec![Some(Place::Arguments)],
        "custom_tool_call" => vec![Some(Place::Input)],
        _ => Vec::new(),
    };
    if places.is_empty() { vec![None] } else { places }
}

impl<'a> Piece<'a> {
    /// The texts that an item has when it begins; empty ones are yet to come.
    pub(super) fn in_item(item: &'a Value) -> Vec<Self> {
        let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
        let texts =
            places(kind, item).into_iter().flatten().filter_map(|place| Some((place, place.of(item)?)));
        texts
            .filter(|(_, text)| !text.is_empty())
            .map(|(place, text)| Self { place, change: Change::Begins, text })
            .collect()
    }
}
