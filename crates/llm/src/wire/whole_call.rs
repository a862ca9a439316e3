//! Calls of a type that has no form here: the whole of what came is their arguments.

use backstop_hooks::conversation::ToolCall;
use backstop_hooks::{Params, ToolCallId};
use serde_json::{Map, Value};

use super::Api;
use super::meta::{own_field, wrap};

/// The entry of `meta` that says so.
const WHOLE: &str = "whole";

/// A call named `name` whose arguments are the thing of the wire itself.
pub(super) fn whole_call(api: Api, id: ToolCallId, name: &str, thing: Map<String, Value>) -> ToolCall {
    ToolCall {
        id,
        name: name.to_owned(),
        arguments: Params::new(thing),
        malformed: None,
        meta: wrap(api, Map::from_iter([(WHOLE.to_owned(), true.into())])),
    }
}

/// Whether the arguments of a call are the thing itself.
pub(crate) fn is_whole_call(call: &ToolCall, api: Api) -> bool {
    own_field(call.meta.as_ref(), api, WHOLE).is_some()
}

/// The thing that a call came as; `None` if it has a form of its own.
pub(super) fn thing_of(call: &ToolCall, api: Api) -> Option<Map<String, Value>> {
    let is_object = is_whole_call(call, api) && call.malformed.is_none();
    is_object.then(|| call.arguments.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
}
