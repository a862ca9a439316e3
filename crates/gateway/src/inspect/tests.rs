//! The law of live traffic, over every cut of every fixture.

#![expect(clippy::string_slice, reason = "a test may fail loudly")]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use backstop_engine::{Engine, HookOptions, RedactionStream, Settled, SpanEdit, SpanKind, SpanRedactor};
use backstop_hooks::points::{AfterLlmCall, BeforeResponseEmit};
use backstop_hooks::{CallContext, OwnerId, Point, async_hook_fn, hook_fn};
use backstop_llm::json_array::{ArrayDecoder, ArrayFrame};
use backstop_llm::sse::{SseDecoder, SseEvent};
use backstop_llm::{Api, ModelEvent};
use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use serde_json::Value;

use super::{HookSettings, Hooks};
use crate::endpoint::Endpoint;
use crate::exchange::{
    Answered, Body, Call, Exchange, Interceptor as _, Outgoing, Plan, Requested, Step, Watch,
};
use crate::operations::Permission;

/// Hooks of which one at this point never answers.
pub(super) fn hanging_at<P: Point>() -> Hooks {
    let engine = Engine::builder().build();
    let hangs = async_hook_fn::<P, _, _>(|_, _| std::future::pending());
    engine.registry().on(hangs, HookOptions::new(OwnerId::operator())).unwrap();
    Hooks::new(engine, HookSettings::default()).unwrap()
}

const WIRES: [(Api, &str); 4] = [
    (Api::AnthropicMessages, "anthropic"),
    (Api::OpenAiChat, "openai_chat"),
    (Api::OpenAiResponses, "openai_responses"),
    (Api::Gemini, "gemini"),
];

/// Masks every blank, which no name or id has, and is never sure of the last three bytes.
#[derive(Debug)]
struct Masks;

#[derive(Debug, Default)]
struct Masking {
    text: String,
    settled: usize,
}

impl SpanRedactor for Masks {
    fn open(&self, _: &CallContext) -> Box<dyn RedactionStream> {
        Box::new(Masking::default())
    }
}

impl RedactionStream for Masking {
    fn push(&mut self, text: &str) -> Settled {
        self.text.push_str(text);
        let sure = self.text.floor_char_boundary(self.text.len().saturating_sub(3));
        self.settle(sure.max(self.settled))
    }

    fn finish(&mut self) -> Settled {
        self.settle(self.text.len())
    }
}

impl Masking {
    fn settle(&mut self, up_to: usize) -> Settled {
        let found = self.text[self.settled..up_to].match_indices(' ').map(|(at, _)| SpanEdit {
            start: self.settled + at,
            end: self.settled + at + 1,
            replacement: "*".into(),
            kind: SpanKind { class: "test", kind: "blank" },
        });
        let edits = found.collect();
        self.settled = up_to;
        Settled { up_to, edits, ..Settled::default() }
    }
}

/// An engine whose hooks say when they were asked.
struct Judges {
    hooks: Hooks,
    calls_judged: Arc<AtomicBool>,
    texts_judged: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    /// What was read already, by a client that reads strictly. Cuts that lie in one event have the same result.
    read: Mutex<HashMap<(Form, Vec<u8>), Said>>,
}

impl Judges {
    /// Redactors and a gate over calls; with `whole` also a judge of whole texts.
    fn new(whole: bool) -> Self {
        let engine = Engine::builder().build();
        let registry = engine.registry();
        registry.on_spans(Arc::new(Masks), HookOptions::new(OwnerId::operator()).id("masks")).unwrap();
        let (calls_judged, texts_judged) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let asked = Arc::new(AtomicUsize::new(0));
        let (flag, count) = (Arc::clone(&calls_judged), Arc::clone(&asked));
        let gate = hook_fn::<AfterLlmCall, _>(move |_, _| {
            flag.store(true, Ordering::SeqCst);
            count.fetch_add(1, Ordering::SeqCst);
            Ok(None)
        });
        registry.on(gate, HookOptions::new(OwnerId::operator()).id("gate")).unwrap();
        if whole {
            let flag = Arc::clone(&texts_judged);
            let judge = hook_fn::<BeforeResponseEmit, _>(move |_, _| {
                flag.store(true, Ordering::SeqCst);
                Ok(None)
            });
            registry.on(judge, HookOptions::new(OwnerId::operator()).id("judge")).unwrap();
        }
        let hooks = Hooks::new(engine, HookSettings::default()).unwrap();
        Self { hooks, calls_judged, texts_judged, asked, read: Mutex::default() }
    }

    /// Lets an answer pass in these pieces; `look` sees all that has left after each.
    async fn pass(&self, form: Form, pieces: &[&[u8]], look: &mut dyn FnMut(&[u8])) -> Vec<u8> {
        self.calls_judged.store(false, Ordering::SeqCst);
        self.texts_judged.store(false, Ordering::SeqCst);
        let mut exchange = self.begin(form).await;
        let mut head = Response::new(());
        head.headers_mut().insert(http::header::CONTENT_TYPE, form.content_type().parse().unwrap());
        let (parts, ()) = head.into_parts();
        let answered = Answered { provider: "p", status: parts.status, headers: &parts.headers };
        assert!(matches!(exchange.response(&answered), Watch::Look { .. }));
        let mut out = Outgoing::new(parts.clone());
        let mut left = Vec::new();
        for piece in pieces {
            let step = exchange.chunk(Bytes::copy_from_slice(piece), &mut out);
            self.follow(&mut *exchange, step, &mut out).await;
            left.extend_from_slice(&out.take_data());
            look(&left);
        }
        let step = exchange.finish(&mut out);
        self.follow(&mut *exchange, step, &mut out).await;
        left.extend_from_slice(&out.take_data());
        look(&left);
        left
    }

    async fn begin(&self, form: Form) -> Box<dyn Exchange> {
        let (api, streamed) = (form.api(), form != Form::Array);
        let (headers, method, target) = (HeaderMap::new(), Method::POST, api.request_path("m", true));
        let (path, query) = target
            .split_once('?')
            .map_or((&*target, None), |(path, query)| (path, streamed.then_some(query)));
        let endpoint = Endpoint::of(path, &headers).unwrap();
        let call = Call {
            number: 1,
            endpoint: &endpoint,
            method: &method,
            path,
            query,
            headers: &headers,
            permission: Permission::Read,
            agent: None,
            user: None,
            recorder: &crate::record::Recorder::default(),
            session: None,
        };
        let Plan::Inspect(mut exchange) = self.hooks.begin(&call) else { panic!("nobody looks") };
        let body = match api {
            Api::AnthropicMessages | Api::OpenAiChat => {
                r#"{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#
            }
            Api::OpenAiResponses => r#"{"model":"m","stream":true,"input":"hi"}"#,
            Api::BedrockConverse => {
                r#"{"modelId":"m","messages":[{"role":"user","content":[{"text":"hi"}]}]}"#
            }
            Api::Gemini => r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#,
        };
        let bytes = Bytes::from_static(body.as_bytes());
        let requested = exchange.request(&Body { bytes: &bytes, provider: "p" }).await;
        assert!(matches!(requested, Requested::Unchanged));
        exchange
    }

    async fn follow(&self, exchange: &mut dyn Exchange, step: Step, out: &mut Outgoing) {
        match step {
            Step::Continue => {}
            Step::Decide => assert_eq!(exchange.decide(out).await, Step::Continue),
            Step::Again(_) | Step::End => panic!("the answer was ended: {out:?}"),
        }
    }

    fn read(&self, form: Form, left: &[u8]) -> Said {
        let mut known = self.read.lock().unwrap();
        known.entry((form, left.to_vec())).or_insert_with(|| read(form, left)).clone()
    }

    /// The law, for what has left so far.
    fn check(&self, form: Form, whole: bool, left: &[u8]) {
        let said = self.read(form, left);
        assert!(!by_the_model(&said.text).contains(' '), "text left that no redactor had settled");
        if whole && !self.texts_judged.load(Ordering::SeqCst) {
            assert!(said.text.is_empty(), "text left before it was judged");
        }
        if !self.calls_judged.load(Ordering::SeqCst) {
            assert_eq!(said.calls, 0, "a tool call left before it was judged");
        }
    }
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Form {
    Whole(Api),
    Events(Api),
    /// Gemini's, as one JSON array.
    Array,
}

impl Form {
    fn api(self) -> Api {
        match self {
            Self::Whole(api) | Self::Events(api) => api,
            Self::Array => Api::Gemini,
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Whole(_) | Self::Array => "application/json",
            Self::Events(_) => "text/event-stream",
        }
    }

    /// The events in a beginning of a stream.
    fn events(self, bytes: &[u8]) -> Vec<SseEvent> {
        if self == Self::Array {
            let frames = ArrayDecoder::new(1 << 20).push(bytes).unwrap();
            return frames.iter().filter_map(ArrayFrame::event).collect();
        }
        let frames = SseDecoder::default().push(bytes).unwrap();
        frames.into_iter().filter_map(|frame| frame.event).collect()
    }
}

/// What a client has read so far.
#[derive(Clone, Debug, Default, PartialEq)]
struct Said {
    text: String,
    calls: usize,
}

fn read(form: Form, left: &[u8]) -> Said {
    let (mut decoders, mut said, api) = (BTreeMap::new(), Said::default(), form.api());
    for (choice, event) in form.events(left).into_iter().flat_map(|event| by_choice(api, event)) {
        let (decoder, text) = decoders.entry(choice).or_insert_with(|| (api.stream_decoder(), String::new()));
        for event in decoder.push(&event).unwrap() {
            match event {
                ModelEvent::TextDelta { text: more, .. } => text.push_str(&more),
                ModelEvent::ToolCallStarted { .. } => said.calls += 1,
                _ => {}
            }
        }
    }
    said.text = decoders.into_values().map(|(_, text)| text).collect::<Vec<_>>().join("\n");
    said
}

/// What an event says in each choice, as if that were the only one.
fn by_choice(api: Api, event: SseEvent) -> Vec<(u64, SseEvent)> {
    let list = if api == Api::Gemini { "candidates" } else { "choices" };
    let body: Value = serde_json::from_str(&event.data).unwrap_or_default();
    let Some(choices @ [_, ..]) = body[list].as_array().map(Vec::as_slice) else { return vec![(0, event)] };
    let alone = |choice: &Value| {
        let (mut body, mut choice) = (body.clone(), choice.clone());
        let index = choice["index"].as_u64().unwrap_or(0);
        choice["index"] = 0.into();
        body[list] = vec![choice].into();
        (index, SseEvent::new(event.event.as_deref(), body.to_string()))
    };
    choices.iter().map(alone).collect()
}

/// A text without the note about calls that were withheld.
fn by_the_model(text: &str) -> &str {
    text.split("[backstop]").next().unwrap_or_default().trim_end()
}

fn fixtures(ending: &str) -> Vec<(Api, String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../llm/tests/fixtures");
    let mut found = Vec::new();
    for (api, folder) in WIRES {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if name.ends_with(ending) {
                found.push((api, name, fs::read(&path).unwrap()));
            }
        }
    }
    assert!(!found.is_empty());
    found
}

#[tokio::test]
async fn text_already_streamed_was_already_judged() {
    for whole in [false, true] {
        let judges = Judges::new(whole);
        let events = [fixtures(".stream.sse"), fixtures(".choices.sse")].concat();
        let events = events.into_iter().map(|(api, name, bytes)| (Form::Events(api), name, bytes));
        let arrays = fixtures(".array.json").into_iter().map(|(_, name, bytes)| (Form::Array, name, bytes));
        for (form, name, bytes) in events.chain(arrays) {
            let mut look = |left: &[u8]| judges.check(form, whole, left);
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            let expected = judges.pass(form, &single, &mut look).await;
            let expected = judges.read(form, &expected);
            assert_eq!(
                by_the_model(&expected.text),
                read(form, &bytes).text.replace(' ', "*"),
                "{form:?} {name}"
            );
            // Whole texts wait for the end in any case, so that few cuts say as much as all. Long fixtures are cut less
            // often: the editors themselves are held to every cut where they live.
            let step = if whole { 1 + bytes.len() / 200 } else { 1 + bytes.len() / 1_500 };
            for at in (0..=bytes.len()).step_by(step) {
                let (one, two) = bytes.split_at(at);
                let left = judges.pass(form, &[one, two], &mut look).await;
                assert_eq!(judges.read(form, &left), expected, "{form:?} {name} cut at {at}");
            }
        }
        assert!(judges.asked.load(Ordering::SeqCst) > 500);
    }
}

#[tokio::test]
async fn an_answer_in_one_piece_leaves_when_it_was_judged() {
    for whole in [false, true] {
        let judges = Judges::new(whole);
        for (api, name, bytes) in fixtures(".response.json") {
            for at in (0..=bytes.len()).step_by(7) {
                let (one, two) = bytes.split_at(at);
                let mut look = |left: &[u8]| {
                    assert!(
                        left.is_empty() || judges.calls_judged.load(Ordering::SeqCst),
                        "{api} {name} {at}"
                    );
                };
                let left = judges.pass(Form::Whole(api), &[one, two], &mut look).await;
                let read =
                    |bytes: &[u8]| api.decode_response(&serde_json::from_slice(bytes).unwrap()).unwrap();
                let text = read(&bytes).message.visible_text().replace(' ', "*");
                assert_eq!(by_the_model(&read(&left).message.visible_text()), text, "{api} {name}");
            }
        }
    }
}
