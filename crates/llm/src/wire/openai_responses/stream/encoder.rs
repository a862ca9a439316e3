//! Writing.

use std::collections::BTreeMap;

use backstop_hooks::conversation::{Part, ToolCall};
use backstop_hooks::{Json, Text};
use serde_json::{Map, Value, json};

use crate::model::{ModelEvent, ModelResponse};
use crate::sse::SseEvent;
use crate::wire::meta::own_field;
use crate::wire::openai_responses::API;
use crate::wire::openai_responses::call::encode_call;
use crate::wire::openai_responses::item::{Writer, complete, encode_items, item_fields, made_id};
use crate::wire::openai_responses::response::{encode_body, encode_frame};

/// Writes one streamed answer. Each part is an item of its own. A call is written when it is whole, because
/// only then it is known which kind of item it is; its arguments come in the pieces in which they came.
#[derive(Debug, Default)]
pub(crate) struct StreamEncoder {
    id: String,
    model: String,
    sequence: u64,
    /// The place of the item that begins next.
    next: usize,
    open: BTreeMap<usize, OpenItem>,
    /// Arguments of calls that are not whole.
    arguments: BTreeMap<usize, Vec<Text>>,
    output: BTreeMap<usize, Value>,
}

#[derive(Debug)]
struct OpenItem {
    place: usize,
    id: String,
    said: Said,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Text,
    Thinking,
}

impl Said {
    fn item_type(self) -> &'static str {
        match self {
            Self::Text => "message",
            Self::Thinking => "reasoning",
        }
    }

    fn item(self, id: &str, status: &str, parts: Vec<Value>) -> Value {
        match self {
            Self::Text => {
                json!({"type": "message", "id": id, "status": status, "role": "assistant", "content": parts})
            }
            Self::Thinking => json!({"type": "reasoning", "id": id, "status": status, "summary": parts}),
        }
    }

    fn part(self, text: &str) -> Value {
        match self {
            Self::Text => json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []}),
            Self::Thinking => json!({"type": "summary_text", "text": text}),
        }
    }

    /// Names of the events of a part and of its text.
    fn events(self) -> (&'static str, &'static str) {
        match self {
            Self::Text => ("response.content_part", "response.output_text"),
            Self::Thinking => ("response.reasoning_summary_part", "response.reasoning_summary_text"),
        }
    }
}

impl StreamEncoder {
    pub(crate) fn push(&mut self, event: &ModelEvent) -> Vec<SseEvent> {
        let mut out = Vec::new();
        match event {
            ModelEvent::Started { id, model } => {
                self.id.clone_from(id);
                self.model.clone_from(model);
                for kind in ["response.created", "response.in_progress"] {
                    let frame = encode_frame(id, model, "in_progress");
                    self.write(kind, json!({"response": frame}), &mut out);
                }
            }
            ModelEvent::TextDelta { index, text } => self.grow(*index, Said::Text, text, &mut out),
            ModelEvent::ThinkingDelta { index, text } => self.grow(*index, Said::Thinking, text, &mut out),
            ModelEvent::ToolCallStarted { index, .. } => {
                self.arguments.insert(*index, Vec::new());
            }
            ModelEvent::ToolCallArguments { index, delta } => {
                self.arguments.entry(*index).or_default().push(delta.clone());
            }
            ModelEvent::PartFinished { index, part } => self.finish_part(*index, part, &mut out),
            ModelEvent::Usage { .. } => {}
            ModelEvent::Finished { response } => self.end(response, &mut out),
        }
        out
    }

    fn write(&mut self, kind: &str, mut data: Value, out: &mut Vec<SseEvent>) {
        if let Value::Object(data) = &mut data {
            data.insert("type".to_owned(), kind.into());
            data.insert("sequence_number".to_owned(), self.sequence.into());
        }
        self.sequence += 1;
        out.push(SseEvent::new(Some(kind), data.to_string()));
    }

    fn take_place(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    fn grow(&mut self, index: usize, said: Said, more: &str, out: &mut Vec<SseEvent>) {
        if !self.open.contains_key(&index) {
            self.open_item(index, said, None, out);
        }
        let Some(item) = self.open.get_mut(&index) else { return };
        item.text.push_str(more);
        let mut data = position(item);
        data.insert("delta".to_owned(), more.into());
        if said == Said::Text {
            data.insert("logprobs".to_owned(), json!([]));
        }
        let kind = format!("{}.delta", said.events().1);
        self.write(&kind, data.into(), out);
    }

    fn open_item(&mut self, index: usize, said: Said, own_id: Option<&str>, out: &mut Vec<SseEvent>) {
        let place = self.take_place();
        let id = match own_id {
            Some(id) => id.to_owned(),
            None => made_id(said.item_type(), &self.id, place),
        };
        let added = json!({"output_index": place, "item": said.item(&id, "in_progress", Vec::new())});
        self.write("response.output_item.added", added, out);
        let item = OpenItem { place, id, said, text: String::new() };
        let mut data = position(&item);
        data.insert("part".to_owned(), said.part(""));
        self.open.insert(index, item);
        self.write(&format!("{}.added", said.events().0), data.into(), out);
    }

    fn finish_part(&mut self, index: usize, part: &Part, out: &mut Vec<SseEvent>) {
        match part {
            Part::Text { text, meta } => self.finish_text(index, Said::Text, text, meta.as_ref(), out),
            Part::Thinking { text, meta } => {
                self.finish_text(index, Said::Thinking, text, meta.as_ref(), out);
            }
            Part::ToolCall(call) => self.write_call(index, call, out),
            Part::ToolResult(_) | Part::Image { .. } | Part::Unknown { .. } => {
                let writer = Writer::Client { response: &self.id };
                for item in encode_items(std::slice::from_ref(part), writer, &mut BTreeMap::new()) {
                    let place = self.take_place();
                    self.write_item("response.output_item.added", place, &item, out);
                    self.finish_item(place, item, out);
                }
            }
        }
    }

    fn finish_text(
        &mut self,
        index: usize,
        said: Said,
        text: &str,
        meta: Option<&Json>,
        out: &mut Vec<SseEvent>,
    ) {
        let mut fields = item_fields(meta);
        let own_id = fields.remove("id");
        if !self.open.contains_key(&index) {
            self.open_item(index, said, own_id.as_ref().and_then(Value::as_str), out);
            if !text.is_empty() {
                self.grow(index, said, text, out);
            }
        }
        let Some(item) = self.open.remove(&index) else { return };
        let mut part = said.part(&item.text);
        if let Some(annotations) = own_field(meta, API, "annotations") {
            self.write_annotations(&item, annotations, out);
            if let Value::Object(part) = &mut part {
                part.insert("annotations".to_owned(), annotations.clone());
            }
        }
        let (part_event, text_event) = said.events();
        let mut data = position(&item);
        data.insert("text".to_owned(), item.text.as_str().into());
        if said == Said::Text {
            data.insert("logprobs".to_owned(), json!([]));
        }
        self.write(&format!("{text_event}.done"), data.into(), out);
        let mut data = position(&item);
        data.insert("part".to_owned(), part.clone());
        self.write(&format!("{part_event}.done"), data.into(), out);
        let mut whole = said.item(&item.id, "completed", vec![part]);
        if let Value::Object(whole) = &mut whole {
            whole.extend(fields);
        }
        self.finish_item(item.place, whole, out);
    }

    fn write_annotations(&mut self, item: &OpenItem, annotations: &Value, out: &mut Vec<SseEvent>) {
        for (place, annotation) in annotations.as_array().into_iter().flatten().enumerate() {
            let mut data = position(item);
            data.insert("annotation_index".to_owned(), place.into());
            data.insert("annotation".to_owned(), annotation.clone());
            self.write("response.output_text.annotation.added", data.into(), out);
        }
    }

    fn write_call(&mut self, index: usize, call: &ToolCall, out: &mut Vec<SseEvent>) {
        let pieces = self.arguments.remove(&index).unwrap_or_default();
        let place = self.take_place();
        let mut item = encode_call(call);
        complete(&mut item, &self.id, place);
        let mut begun = item.clone();
        begun.insert("status".to_owned(), "in_progress".into());
        let text = match item.get("type").and_then(Value::as_str) {
            Some("function_call") => Some(("arguments", "response.function_call_arguments")),
            Some("custom_tool_call") => Some(("input", "response.custom_tool_call_input")),
            _ => None,
        };
        if let Some((field, _)) = text {
            begun.insert(field.to_owned(), "".into());
        }
        self.write_item("response.output_item.added", place, &begun.into(), out);
        if let Some((field, event)) = text {
            let whole = item.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            let pieces = match pieces.iter().map(Text::as_str).collect::<String>() == whole {
                true => pieces,
                false => vec![whole.as_str().into()],
            };
            let id = item.get("id").cloned().unwrap_or_default();
            for delta in pieces {
                let data = json!({"item_id": id, "output_index": place, "delta": delta});
                self.write(&format!("{event}.delta"), data, out);
            }
            let mut data = json!({"item_id": id, "output_index": place, (field): whole});
            if let (Value::Object(data), "arguments") = (&mut data, field) {
                data.insert("name".to_owned(), call.name.as_str().into());
            }
            self.write(&format!("{event}.done"), data, out);
        }
        self.finish_item(place, item.into(), out);
    }

    fn write_item(&mut self, kind: &str, place: usize, item: &Value, out: &mut Vec<SseEvent>) {
        self.write(kind, json!({"output_index": place, "item": item}), out);
    }

    fn finish_item(&mut self, place: usize, item: Value, out: &mut Vec<SseEvent>) {
        self.write_item("response.output_item.done", place, &item, out);
        self.output.insert(place, item);
    }

    fn end(&mut self, response: &ModelResponse, out: &mut Vec<SseEvent>) {
        let output = std::mem::take(&mut self.output).into_values().collect();
        let mut body = encode_body(response, output);
        let kind = match body.get("status").and_then(Value::as_str) {
            Some("completed") => "response.completed",
            _ => "response.incomplete",
        };
        if let (Value::Object(body), "response.incomplete") = (&mut body, kind) {
            body.insert("status".to_owned(), "incomplete".into());
            let details = body.entry("incomplete_details").or_insert(Value::Null);
            if details.is_null() {
                *details = json!({"reason": response.stop.as_str()});
            }
        }
        self.write(kind, json!({"response": body}), out);
    }
}

/// Where a text of an item stands.
fn position(item: &OpenItem) -> Map<String, Value> {
    let index = match item.said {
        Said::Text => "content_index",
        Said::Thinking => "summary_index",
    };
    Map::from_iter([
        ("item_id".to_owned(), Value::from(item.id.as_str())),
        ("output_index".to_owned(), item.place.into()),
        (index.to_owned(), 0.into()),
    ])
}
