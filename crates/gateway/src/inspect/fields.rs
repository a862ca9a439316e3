//! What a request says outside of the conversation and its tools: in fields of its own, and beside what is known.
//!
//! A model reads more than messages: expected answers, descriptions in a schema, the values of a stored prompt; and a
//! provider keeps what it is given as metadata. Hooks at `before_llm_call` are shown each such thing as a message of the
//! system with one part that nobody knows, `{"where it stands": value}`. What they make of the value is put in its place; a thing
//! whose message they take out goes. The places are
//!
//! - the fields of the request, under their names,
//! - `tool_choice`, unless it names a tool that is offered,
//! - `system[0]`, and so on: what stands beside a text of the system prompt, or in place of one,
//! - `tools[0]`, and so on: what stands beside the name, the description and the schema of a function.
//!
//! *Closed.* Not shown are [settings](is_setting): numbers, and the names and words of a list, in fields that the
//! [table](backstop_llm::wire::request_fields) of the wire knows.

use std::collections::HashMap;

use backstop_hooks::conversation::{Message, Part, Role};
use backstop_hooks::{Json, MessageId};
use backstop_llm::wire::{TypeClass, is_setting, is_setting_name, own_meta, request_fields};
use backstop_llm::{Api, ModelRequest, ToolChoice, ToolDefinition};
use serde_json::{Map, Value};

use super::offers;

/// What ids of messages begin with that are none of the conversation.
const PREFIX: &str = "backstop:field:";

/// Where something stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Field(String),
    ToolChoice,
    /// A part of the system prompt.
    System(usize),
    /// A function of the list of tools.
    Tool(usize),
}

impl Place {
    fn name(&self) -> String {
        match self {
            Self::Field(name) => name.clone(),
            Self::ToolChoice => "tool_choice".to_owned(),
            Self::System(place) => format!("system[{place}]"),
            Self::Tool(place) => format!("tools[{place}]"),
        }
    }
}

/// What is shown besides the conversation.
#[derive(Debug)]
pub(super) struct Beside {
    api: Api,
    places: Vec<Place>,
    messages: Vec<Message>,
}

impl Beside {
    pub(super) fn of(api: Api, request: &ModelRequest) -> Self {
        let mut found: Vec<(Place, Value)> = Vec::new();
        let fields = request.extra.as_object().into_iter().flatten();
        let fields = fields.filter(|(name, value)| has_text(api, name, value));
        found.extend(fields.map(|(name, value)| (Place::Field(name.clone()), value.clone())));
        found.extend(choice(request).map(|choice| (Place::ToolChoice, choice)));
        for (place, part) in request.system.iter().enumerate() {
            let beside = match part {
                Part::Text { meta, .. } => with_text(own_meta(meta.as_ref(), api)),
                Part::Unknown { raw } => Some(raw.to_value()).filter(|raw| !is_setting(raw)),
                other => serde_json::to_value(other).ok(),
            };
            found.extend(beside.map(|beside| (Place::System(place), beside)));
        }
        for (place, tool) in request.tools.iter().enumerate() {
            if let ToolDefinition::Function { meta, .. } = tool {
                let beside = with_text(own_meta(meta.as_ref(), api));
                found.extend(beside.map(|beside| (Place::Tool(place), beside)));
            }
        }
        let messages = found.iter().enumerate().map(|(number, (place, value))| message(number, place, value));
        let messages = messages.collect();
        Self { api, places: found.into_iter().map(|(place, _)| place).collect(), messages }
    }

    /// As messages.
    pub(super) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Takes these messages out of what hooks made of all of them, and puts what they say into the request.
    pub(super) fn take(&self, messages: &mut Vec<Message>, request: &mut ModelRequest) {
        if self.messages.is_empty() {
            return;
        }
        let mut left: HashMap<String, Message> = HashMap::new();
        messages.retain(|message| match &message.id {
            Some(id) if id.as_str().starts_with(PREFIX) => {
                left.insert(id.as_str().to_owned(), message.clone());
                false
            }
            _ => true,
        });
        for (place, old) in self.places.iter().zip(&self.messages) {
            let new = old.id.as_ref().and_then(|id| left.get(id.as_str()));
            if new != Some(old) {
                self.put(place, new.and_then(|new| value_of(&place.name(), new)), request);
            }
        }
        let is_gone = |part: &Part| matches!(part, Part::Unknown { raw } if raw.is_null());
        if request.system.iter().any(is_gone) {
            request.system.retain(|part| !is_gone(part));
        }
    }

    fn put(&self, place: &Place, value: Option<Value>, request: &mut ModelRequest) {
        match place {
            Place::Field(name) => {
                let mut fields = request.extra.as_object().cloned().unwrap_or_default();
                match value {
                    Some(value) => fields.insert(name.clone(), value),
                    None => fields.shift_remove(name),
                };
                request.extra = Value::from(fields).into();
            }
            Place::ToolChoice => {
                request.tool_choice = value.map(|value| ToolChoice::Other(value.into()));
            }
            Place::System(place) => match request.system.get_mut(*place) {
                Some(Part::Text { meta, .. }) => *meta = self.meta(meta.as_ref(), value),
                // What is null goes once all places have been found.
                Some(part) => *part = Part::Unknown { raw: value.unwrap_or_default().into() },
                None => {}
            },
            Place::Tool(place) => {
                if let Some(ToolDefinition::Function { meta, .. }) = request.tools.get_mut(*place) {
                    *meta = self.meta(meta.as_ref(), value);
                }
            }
        }
    }

    /// What was attached, with `value` in the place of what was shown of it.
    fn meta(&self, meta: Option<&Json>, value: Option<Value>) -> Option<Json> {
        let mut fields = own_meta(meta, self.api);
        fields.retain(|name, value| is_plain(name, value));
        if let Some(Value::Object(value)) = value {
            fields.extend(value);
        }
        let wrapped = || Map::from_iter([(self.api.as_str().to_owned(), fields.clone().into())]);
        (!fields.is_empty()).then(|| Value::from(wrapped()).into())
    }
}

fn message(number: usize, place: &Place, value: &Value) -> Message {
    let raw = Value::from(Map::from_iter([(place.name(), value.clone())]));
    let part = Part::Unknown { raw: raw.into() };
    // Names of fields may be secrets: the id has none.
    let id = MessageId::new(format!("{PREFIX}{number}"));
    Message { id: Some(id), ..Message::new(Role::System, vec![part]) }
}

/// What a hook left of a thing.
fn value_of(name: &str, message: &Message) -> Option<Value> {
    match message.content.as_slice() {
        [Part::Unknown { raw }] => raw.get(name).cloned(),
        _ => None,
    }
}

/// What stands beside something, without settings; `None` if nothing is left.
fn with_text(mut fields: Map<String, Value>) -> Option<Value> {
    fields.retain(|name, value| !is_plain(name, value));
    (!fields.is_empty()).then(|| fields.into())
}

fn is_plain(name: &str, value: &Value) -> bool {
    is_setting_name(name) && is_setting(value)
}

/// The choice among tools, if it says more than words and names of tools that are offered.
fn choice(request: &ModelRequest) -> Option<Value> {
    let is_offered = |name: &str| request.tools.iter().any(|tool| tool.name() == name);
    match request.tool_choice.as_ref()? {
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Required => None,
        ToolChoice::Tool(name) => (!is_offered(name)).then(|| name.as_str().into()),
        ToolChoice::Other(raw) => (!is_setting(raw)).then(|| raw.to_value()),
    }
}

fn has_text(api: Api, name: &str, value: &Value) -> bool {
    match request_fields(api).class(name) {
        Some(TypeClass::Inert) => !is_setting(value),
        // What it offers is told as a tool, with all that is in it.
        Some(TypeClass::Ran) => !offers::is_told(name, value) && !is_setting(value),
        Some(_) => holds_strings(value) || !is_setting(value),
        // Its name may be a text, whatever stands there.
        None => true,
    }
}

/// Whether there is a text in a value.
fn holds_strings(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => items.iter().any(holds_strings),
        Value::Object(fields) => fields.values().any(holds_strings),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use backstop_hooks::conversation::ToolSpec;
    use serde_json::json;

    use super::*;

    fn names(api: Api, extra: Value) -> Vec<String> {
        let request = ModelRequest { extra: extra.into(), ..ModelRequest::default() };
        Beside::of(api, &request).places.iter().map(Place::name).collect()
    }

    #[test]
    fn fields_with_texts_are_shown_and_settings_are_not() {
        for (api, extra, expected) in [
            (Api::OpenAiChat, json!({"n": 2, "store": true, "reasoning_effort": "low"}), vec![]),
            (Api::OpenAiChat, json!({"user": "u-1"}), vec!["user"]),
            (Api::OpenAiChat, json!({"reasoning_effort": "alice"}), vec!["reasoning_effort"]),
            (Api::OpenAiChat, json!({"stream_options": {"alice": 1}}), vec!["stream_options"]),
            (Api::OpenAiChat, json!({"prediction": {"type": "content", "content": "x"}}), vec!["prediction"]),
            (Api::OpenAiChat, json!({"metadata": {"k": 1}, "stop": null}), vec!["metadata"]),
            (Api::OpenAiChat, json!({"response_format": {"type": "json_object"}}), vec![]),
            (
                Api::OpenAiChat,
                json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}}),
                vec!["response_format"],
            ),
            (Api::OpenAiChat, json!({"future": {"x": ["y"]}, "flag": null}), vec!["future", "flag"]),
            (
                Api::AnthropicMessages,
                json!({"thinking": {"type": "enabled", "budget_tokens": 9}, "container": "c"}),
                vec!["container"],
            ),
            (Api::AnthropicMessages, json!({"metadata": {"user_id": "u"}}), vec!["metadata"]),
            (
                Api::OpenAiResponses,
                json!({"text": {"format": {"type": "text"}, "verbosity": "low"}, "include": ["reasoning.encrypted_content"]}),
                vec![],
            ),
            (Api::OpenAiResponses, json!({"prompt": {"id": "p", "variables": {"x": "y"}}}), vec!["prompt"]),
            (Api::Gemini, json!({"labels": {"team": "x"}, "generationConfig": {"topP": 1}}), vec!["labels"]),
        ] {
            assert_eq!(names(api, extra.clone()), expected, "{api} {extra}");
        }
    }

    fn request() -> ModelRequest {
        let attached = |fields: Value| Some(json!({ "openai-chat": fields }).into());
        ModelRequest {
            system: vec![
                Part::text("a"),
                Part::Text {
                    text: "b".into(),
                    meta: attached(json!({"note": "n", "cache_control": {"type": "ephemeral"}})),
                },
                Part::Unknown { raw: json!({"type": "picture"}).into() },
            ]
            .into(),
            tools: vec![ToolDefinition::Function {
                spec: ToolSpec { name: "f".to_owned(), description: None, input_schema: Json::default() },
                meta: attached(json!({"strict": true, "input_examples": ["e"]})),
            }],
            tool_choice: Some(ToolChoice::Other(json!({"x": "y"}).into())),
            extra: json!({"a": "x y", "n": 1, "b": {"c": "z"}, "d": ["e"]}).into(),
            ..ModelRequest::new("m", vec![Message::user("hi")])
        }
    }

    #[test]
    fn what_hooks_make_of_a_thing_is_put_in_its_place() {
        let beside = Beside::of(Api::OpenAiChat, &request());
        let places: Vec<String> = beside.places.iter().map(Place::name).collect();
        assert_eq!(places, ["a", "b", "d", "tool_choice", "system[1]", "system[2]", "tools[0]"]);
        let mut same = request();
        let mut messages = [same.messages.clone(), beside.messages.clone()].concat();
        beside.take(&mut messages, &mut same);
        assert_eq!((same, messages.len()), (request(), 1));
        let mut other = request();
        let new = |at: usize, value: Value| message(at, &beside.places[at], &value);
        let mut messages = vec![
            new(1, json!("new")),
            other.messages[0].clone(),
            beside.messages[2].clone(),
            new(4, json!({"note": "m"})),
            new(6, json!({"input_examples": []})),
        ];
        beside.take(&mut messages, &mut other);
        assert_eq!(other.extra.to_value(), json!({"n": 1, "b": "new", "d": ["e"]}));
        assert_eq!(messages, other.messages);
        assert_eq!((other.tool_choice, other.system.len()), (None, 2));
        let Part::Text { meta, .. } = &other.system[1] else { panic!("no text") };
        let own = |meta: Option<&Json>| Value::from(own_meta(meta, Api::OpenAiChat));
        assert_eq!(own(meta.as_ref()), json!({"cache_control": {"type": "ephemeral"}, "note": "m"}));
        let ToolDefinition::Function { meta, .. } = &other.tools[0] else { panic!("no function") };
        assert_eq!(own(meta.as_ref()), json!({"strict": true, "input_examples": []}));
    }
}
