//! Fixtures, hosts and readers.

use std::fs;
use std::path::PathBuf;

use backstop_llm::json_array::{ArrayDecoder, ArrayFrame};
use backstop_llm::live::{self, AnswerEditor, FreshText, PartKey, TextEdit, TextKind};
use backstop_llm::sse::{SseDecoder, SseEvent};
use backstop_llm::{Accumulator, Api, ModelEvent, ModelRequest, ModelResponse, WireError};
use serde_json::Value;

/// The wires under test, and the folders of their fixtures.
pub(crate) const WIRES: [(Api, &str); 3] = [
    (Api::AnthropicMessages, "anthropic"),
    (Api::OpenAiChat, "openai_chat"),
    (Api::BedrockConverse, "bedrock_converse"),
];

/// Texts of the fixtures of both wires whose names end with `ending`.
pub(crate) fn fixtures(ending: &str) -> Vec<(Api, String, String)> {
    fixtures_of(&WIRES, ending)
}

/// Texts of the fixtures of all wires whose names end with `ending`.
pub(crate) fn all_fixtures(ending: &str) -> Vec<(Api, String, String)> {
    let more = [(Api::OpenAiResponses, "openai_responses"), (Api::Gemini, "gemini")];
    fixtures_of(&[WIRES.as_slice(), &more].concat(), ending)
}

/// How a streamed answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Events(Api),
    /// Gemini's, as one JSON array.
    Array,
}

impl From<Api> for Form {
    fn from(api: Api) -> Self {
        Self::Events(api)
    }
}

impl Form {
    fn api(self) -> Api {
        match self {
            Self::Events(api) => api,
            Self::Array => Api::Gemini,
        }
    }

    /// The events in a beginning of a stream.
    fn events(self, bytes: &[u8]) -> Result<Vec<SseEvent>, WireError> {
        if self == Self::Array {
            let frames = ArrayDecoder::new(1 << 20).push(bytes)?;
            return Ok(frames.iter().filter_map(ArrayFrame::event).collect());
        }
        let mut frames = SseDecoder::default();
        let mut found = frames.push(bytes)?;
        found.extend(frames.finish());
        Ok(found.into_iter().filter_map(|frame| frame.event).collect())
    }
}

/// The streams of both wires and of Gemini, in all their forms: what holds for every stream, wherever it is cut.
pub(crate) fn streams() -> Vec<(Form, String, String)> {
    let mut found = fixtures(".stream.sse");
    found.extend(fixtures_of(&[(Api::Gemini, "gemini")], ".stream.sse"));
    found.extend(several(".choices.sse"));
    let events = found.into_iter().map(|(api, name, text)| (Form::Events(api), name, text));
    let arrays = fixtures_of(&[(Api::Gemini, "gemini")], ".array.json").into_iter();
    events.chain(arrays.map(|(_, name, text)| (Form::Array, name, text))).collect()
}

/// Answers of several choices.
pub(crate) fn several(ending: &str) -> Vec<(Api, String, String)> {
    fixtures_of(&[(Api::OpenAiChat, "openai_chat"), (Api::Gemini, "gemini")], ending)
}

fn fixtures_of(wires: &[(Api, &str)], ending: &str) -> Vec<(Api, String, String)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut found = Vec::new();
    for &(api, folder) in wires {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if let Some(name) = path.file_name().unwrap().to_str().unwrap().strip_suffix(ending) {
                found.push((api, name.to_owned(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(!found.is_empty());
    found
}

pub(crate) fn request() -> ModelRequest {
    ModelRequest::new("model-1", Vec::new())
}

/// An editor of a host that judges no results.
pub(crate) fn stream(form: impl Into<Form>) -> Box<dyn AnswerEditor> {
    let mut editor = match form.into() {
        Form::Events(api) => live::stream_editor(api, &request()),
        Form::Array => live::array_editor(&request()),
    };
    editor.release_results();
    editor
}

/// An editor of a host that judges no results.
pub(crate) fn whole(api: Api) -> Box<dyn AnswerEditor> {
    let mut editor = live::whole_editor(api, &request());
    editor.release_results();
    editor
}

/// What the strict codec reads out of a stream of one choice.
pub(crate) fn read_stream(form: impl Into<Form>, bytes: &[u8]) -> Result<ModelResponse, WireError> {
    read_choices(form, bytes).map(|mut choices| choices.remove(0))
}

/// What the strict codec reads out of a stream, choice by choice.
pub(crate) fn read_choices(form: impl Into<Form>, bytes: &[u8]) -> Result<Vec<ModelResponse>, WireError> {
    let form = form.into();
    let api = form.api();
    by_choice(api, &form.events(bytes)?).iter().map(|events| read_events(api, events)).collect()
}

fn read_events(api: Api, events: &[SseEvent]) -> Result<ModelResponse, WireError> {
    let (mut decoder, mut answer) = (api.stream_decoder(), Accumulator::new());
    let mut take = |events: Vec<ModelEvent>| events.iter().for_each(|event| answer.push(event));
    for event in events {
        take(decoder.push(event)?);
    }
    take(decoder.finish()?);
    answer.finish().map_err(|_| WireError::Truncated)
}

/// The visible text of each choice, and the number of calls, in a beginning of a stream.
pub(crate) fn said_so_far(form: impl Into<Form>, bytes: &[u8]) -> (Vec<String>, usize) {
    let form = form.into();
    let api = form.api();
    let (mut texts, mut calls) = (Vec::new(), 0);
    for events in by_choice(api, &form.events(bytes).unwrap()) {
        let (mut decoder, mut text) = (api.stream_decoder(), String::new());
        for event in events.iter().flat_map(|event| decoder.push(event).unwrap()) {
            match event {
                ModelEvent::TextDelta { text: more, .. } => text.push_str(&more),
                ModelEvent::ToolCallStarted { .. } => calls += 1,
                _ => {}
            }
        }
        texts.push(text);
    }
    (texts, calls)
}

/// The events of each choice, as if it were the only one; those without a choice belong to all.
fn by_choice(api: Api, events: &[SseEvent]) -> Vec<Vec<SseEvent>> {
    let list = match api {
        Api::OpenAiChat => "choices",
        Api::Gemini => "candidates",
        Api::AnthropicMessages | Api::OpenAiResponses | Api::BedrockConverse => return vec![events.to_vec()],
    };
    let index = |choice: &Value| choice["index"].as_u64().unwrap_or(0);
    let parsed: Vec<Option<Value>> =
        events.iter().map(|event| serde_json::from_str(&event.data).ok()).collect();
    let choices = |event: &Option<Value>| -> Vec<Value> {
        let found = event.as_ref().and_then(|event| event[list].as_array().cloned());
        found.unwrap_or_default()
    };
    let last = parsed.iter().flat_map(&choices).map(|choice| index(&choice)).max().unwrap_or(0);
    let of_choice = |wanted: u64| {
        let each = events.iter().zip(&parsed).filter_map(|(event, parsed)| {
            let mut own = choices(parsed);
            if own.is_empty() {
                return Some(event.clone());
            }
            own.retain(|choice| index(choice) == wanted);
            own.iter_mut().for_each(|choice| choice["index"] = 0.into());
            let mut body = parsed.clone()?;
            body[list] = own.into();
            Some(SseEvent { data: body.to_string(), ..event.clone() })
        });
        each.collect()
    };
    (0..=last).map(of_choice).collect()
}

/// What the strict codec reads out of a body.
pub(crate) fn read_whole(api: Api, bytes: &[u8]) -> ModelResponse {
    api.decode_response(&serde_json::from_slice(bytes).unwrap()).unwrap()
}

/// A host that settles every text up to `lag` bytes before its end, and all of it at the end of a part.
#[derive(Default)]
pub(crate) struct Host {
    pub(crate) texts: Vec<(PartKey, TextKind, String)>,
    pub(crate) sent: Vec<u8>,
    pub(crate) lag: usize,
    /// What stands in place of each occurrence of a letter.
    pub(crate) masked: Option<(char, &'static str)>,
    /// Whether thinking is masked, too.
    pub(crate) masks_thinking: bool,
    pub(crate) settled: Vec<(PartKey, usize)>,
}

impl Host {
    /// One round of the host's loop.
    pub(crate) fn round(&mut self, editor: &mut dyn AnswerEditor) {
        for FreshText { part, kind, text, last } in editor.fresh() {
            let place = self.texts.iter().position(|(key, ..)| *key == part).unwrap_or_else(|| {
                self.texts.push((part, kind, String::new()));
                self.settled.push((part, 0));
                self.texts.len() - 1
            });
            self.texts[place].2.push_str(&text);
            let so_far = &self.texts[place].2;
            let mut up_to = if last { so_far.len() } else { so_far.len().saturating_sub(self.lag) };
            while !so_far.is_char_boundary(up_to) {
                up_to -= 1;
            }
            let from = self.settled[place].1;
            let up_to = up_to.max(from);
            let edits = match self.masked {
                Some((letter, mask)) if kind == TextKind::Visible || self.masks_thinking => so_far
                    [from..up_to]
                    .match_indices(letter)
                    .map(|(at, found)| TextEdit {
                        span: from + at..from + at + found.len(),
                        replacement: mask.into(),
                    })
                    .collect(),
                _ => Vec::new(),
            };
            self.settled[place].1 = up_to;
            editor.settle(part, up_to, edits);
        }
        self.take(editor);
    }

    pub(crate) fn take(&mut self, editor: &mut dyn AnswerEditor) {
        let held = editor.held_bytes();
        let taken = editor.take();
        assert!(editor.held_bytes() <= held);
        self.sent.extend_from_slice(&taken);
    }
}

/// Passes bytes that may make no sense through an editor, up to their end or the first error.
pub(crate) fn try_pass(
    editor: &mut dyn AnswerEditor,
    host: &mut Host,
    bytes: &[u8],
) -> Result<(), WireError> {
    let mut result = Ok(());
    for piece in bytes.chunks(97) {
        result = result.and_then(|()| editor.push(piece));
        host.round(editor);
    }
    result = result.and_then(|()| editor.finish());
    host.round(editor);
    result
}

/// Passes an answer through an editor: pieces in, what leaves out. Calls are released when it is whole.
pub(crate) fn pass(editor: &mut dyn AnswerEditor, host: &mut Host, pieces: &[&[u8]]) {
    for piece in pieces {
        editor.push(piece).unwrap();
        host.round(editor);
    }
    editor.finish().unwrap();
    host.round(editor);
    assert!(editor.is_whole());
    editor.keep_calls(&[], None);
    host.take(editor);
    assert_eq!(editor.held_bytes(), 0);
}
