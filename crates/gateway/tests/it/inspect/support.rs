//! Engines with hooks, models with scripts, and what came of them.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_engine::{
    ApprovalRoute, ApprovalSettings, Engine, HookOptions, OperatorSettings, Receipt, ReceiptSink,
    RedactionStream, Routes, Settled, Snapshot, SpanEdit, SpanKind, SpanRedactor, Verdict,
};
use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_gateway::{Cloud, Credential, Family, Gateway, Settings};
use backstop_hooks::points::{
    AfterLlmCall, AfterLlmCallOutcome, BeforeLlmCall, BeforeLlmCallOutcome, BeforeResponseEmit,
    ResponseEmitOutcome, ToolCallIds,
};
use backstop_hooks::{CallContext, DecidePoint, HookId, OwnerId, Point, PointId, Severity, hook_fn};
use backstop_llm::frames::FrameReader;
use backstop_llm::sse::SseDecoder;
use backstop_llm::wire::converse::event_of;
use backstop_llm::{Accumulator, Api, ModelResponse, Script, ScriptedServer, ServerOptions};
use backstop_store::{
    Asked, GrantPlace, GrantTarget, KnownBy, NewGrant, People, PersonName, SqliteStore, Store, Timestamp,
};
use serde_json::{Value, json};

use crate::clouds::frames::bytes;
use crate::support::{Answer, TOKEN, post, provider, secret, start, talk};

/// The wires under test.
pub(crate) const WIRES: [Api; 5] =
    [Api::AnthropicMessages, Api::OpenAiChat, Api::OpenAiResponses, Api::Gemini, Api::BedrockConverse];
/// Those that stream events as lines, for tests that write these themselves: the other has frames.
pub(crate) const LINED: [Api; 4] =
    [Api::AnthropicMessages, Api::OpenAiChat, Api::OpenAiResponses, Api::Gemini];
/// The provider that is asked in the envelope of Bedrock.
const BEDROCK: &str = "bedrock";

/// What stands for a secret in these tests.
pub(crate) const SECRET: &str = "sw0rdfish-9151";

/// Keeps all receipts, as JSON.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receipts(Arc<Mutex<Vec<(PointId, Verdict, String)>>>);

impl ReceiptSink for Receipts {
    fn record(&self, receipt: &Receipt) {
        let json = serde_json::to_string(receipt).unwrap();
        self.0.lock().unwrap().push((receipt.point, receipt.verdict, json));
    }
}

impl Receipts {
    pub(crate) fn of(&self, point: PointId) -> Vec<Verdict> {
        self.0.lock().unwrap().iter().filter(|receipt| receipt.0 == point).map(|receipt| receipt.1).collect()
    }

    pub(crate) fn all(&self) -> String {
        self.0.lock().unwrap().iter().map(|receipt| receipt.2.clone() + "\n").collect()
    }
}

/// Two of these must allow what is asked about; each is known by a token of that user.
pub(crate) fn two_must(names: &[&str]) -> ApprovalSettings {
    let known = names.iter().map(|name| (PersonName::new(*name), vec![KnownBy::User((*name).to_owned())]));
    let route = ApprovalRoute {
        fits: Arc::new(|_| true),
        ask: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        bars_requester: false,
        votes: NonZeroU32::new(2).unwrap(),
        escalate: None,
        told: None,
        decisions: None,
        substitutes: None,
    };
    let people = Arc::new(People::new(known));
    ApprovalSettings { people, routes: Routes::from_iter([route]), ..ApprovalSettings::default() }
}

/// What somebody allowed for longer, for an hour from now on.
pub(crate) fn grant(title: &str) -> NewGrant {
    let now = Timestamp::now();
    NewGrant {
        agent: "bot".into(),
        tool_name: "exec".into(),
        place: GrantPlace { workspace: Some("/w".to_owned()), ..GrantPlace::default() },
        question: Asked {
            owner: OwnerId::operator(),
            hook: HookId::new("gate"),
            severity: Severity::Warning,
            rules: ["exec.any".into()].into(),
            title: title.into(),
        },
        target: GrantTarget::Rule,
        origin: None,
        title: title.into(),
        created_by: "ann".to_owned(),
        person: None,
        created_at: now,
        expires_at: now.after(Duration::from_hours(1)),
        most_uses: None,
    }
}

/// An engine, its store and its receipts.
#[derive(Clone, Debug)]
pub(crate) struct House {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) receipts: Receipts,
}

impl House {
    pub(crate) fn new() -> Self {
        Self::over(Arc::new(SqliteStore::in_memory()))
    }

    pub(crate) fn over(store: Arc<dyn Store>) -> Self {
        Self::asking(store, ApprovalSettings::default())
    }

    pub(crate) fn asking(store: Arc<dyn Store>, approvals: ApprovalSettings) -> Self {
        let receipts = Receipts::default();
        let engine = Engine::builder()
            .snapshot(Snapshot::empty(OperatorSettings::default()))
            .store(Arc::clone(&store))
            .sink(Arc::new(receipts.clone()))
            .approvals(approvals)
            .shared_decisions(true)
            .build();
        Self { engine, store, receipts }
    }

    pub(crate) fn on<P: Point>(&self, id: &str, hook: Arc<dyn backstop_hooks::Hook<P>>) {
        let options = HookOptions::new(OwnerId::operator()).id(HookId::new(id));
        self.engine.registry().on::<P>(hook, options).unwrap();
    }

    /// Blocks, or rewrites, or whatever `judge` says.
    pub(crate) fn judge<P: DecidePoint>(
        &self,
        id: &str,
        judge: impl Fn(&P::Event) -> Option<P::Outcome> + Send + Sync + 'static,
    ) {
        self.on::<P>(id, hook_fn::<P, _>(move |event, _| Ok(judge(event))));
    }

    /// Takes calls of the tool out of answers.
    pub(crate) fn withhold(&self, tool: &'static str) {
        self.judge::<AfterLlmCall>("withhold", move |event| {
            let kept = event.tool_calls.iter().filter(|call| call.name != tool);
            Some(AfterLlmCallOutcome {
                tool_calls: Some(ToolCallIds::new(kept.map(|call| call.id.clone()))),
                ..AfterLlmCallOutcome::default()
            })
        });
    }

    /// Takes [`SECRET`] out of answers while they stream.
    pub(crate) fn redact(&self) {
        let options = HookOptions::new(OwnerId::operator()).id("redact");
        self.engine.registry().on_spans(Arc::new(Redactor), options).unwrap();
    }

    /// Takes [`SECRET`] out of whole answers.
    pub(crate) fn rewrite(&self) {
        self.judge::<BeforeResponseEmit>("rewrite", |event| {
            event.content.contains(SECRET).then(|| ResponseEmitOutcome {
                content: Some(event.content.replace(SECRET, "[gone]").into()),
                ..ResponseEmitOutcome::default()
            })
        });
    }

    pub(crate) async fn gateway(&self, url: &str, settings: HookSettings) -> Gateway {
        start(settings_of(url), Hooks::new(self.engine.clone(), settings).unwrap()).await.unwrap()
    }
}

/// Settings with one provider for all families.
pub(crate) fn settings_of(url: &str) -> Settings {
    let mut settings = Settings::new(secret(TOKEN));
    for family in Family::ALL {
        let name = family.as_str().to_owned();
        settings.providers.insert(name.clone(), provider(family, url, Credential::Client));
        settings.defaults.insert(family, vec![name]);
    }
    let mut bedrock = provider(Family::Anthropic, url, Credential::Key(secret("cloud-key")));
    bedrock.cloud = Some(Cloud::Bedrock { region: "us-east-1".to_owned() });
    settings.providers.insert(BEDROCK.to_owned(), bedrock);
    settings
}

/// Takes [`SECRET`] out; holds back what might become one.
#[derive(Debug)]
struct Redactor;

#[derive(Debug, Default)]
struct Reading {
    held: String,
    offset: usize,
}

impl SpanRedactor for Redactor {
    fn open(&self, _: &CallContext) -> Box<dyn RedactionStream> {
        Box::new(Reading::default())
    }
}

impl RedactionStream for Reading {
    fn push(&mut self, text: &str) -> Settled {
        self.held.push_str(text);
        let end = self.held.len();
        let partial = (0..SECRET.len()).rev().find(|len| self.held.ends_with(&SECRET[..*len])).unwrap_or(0);
        self.settle(end - partial)
    }

    fn finish(&mut self) -> Settled {
        self.settle(self.held.len())
    }
}

impl Reading {
    fn settle(&mut self, up_to: usize) -> Settled {
        let edits = self.held[..up_to].match_indices(SECRET).map(|(at, _)| SpanEdit {
            start: self.offset + at,
            end: self.offset + at + SECRET.len(),
            replacement: "[gone]".into(),
            kind: SpanKind { class: "secret", kind: "test" },
        });
        let edits = edits.collect();
        self.held.drain(..up_to);
        self.offset += up_to;
        Settled { up_to: self.offset, edits, ..Settled::default() }
    }
}

pub(crate) async fn model(turns: Value) -> ScriptedServer {
    let script: Script = serde_json::from_value(json!({"turns": turns})).unwrap();
    ScriptedServer::start(script, ServerOptions::default()).await.unwrap()
}

/// A request of one message.
pub(crate) fn ask(api: Api, stream: bool, text: &str) -> Value {
    let messages = json!([{"role": "user", "content": text}]);
    match api {
        Api::AnthropicMessages => {
            json!({"model": "m", "stream": stream, "max_tokens": 100, "messages": messages})
        }
        Api::OpenAiChat if stream => json!({
            "model": "m", "stream": true, "stream_options": {"include_usage": true}, "messages": messages,
        }),
        Api::OpenAiChat => json!({"model": "m", "messages": messages}),
        Api::OpenAiResponses => json!({"model": "m", "stream": stream, "input": text}),
        Api::Gemini => json!({"contents": [{"role": "user", "parts": [{"text": text}]}]}),
        Api::BedrockConverse => json!({"messages": [{"role": "user", "content": [{"text": text}]}]}),
    }
}

/// Where requests of a wire are sent to.
pub(crate) fn path(api: Api, stream: bool) -> String {
    api.request_path("m", stream)
}

/// Where a client of the gateway sends them.
pub(crate) fn way(api: Api, stream: bool) -> String {
    let path = path(api, stream);
    if api == Api::BedrockConverse { format!("/p/{BEDROCK}{path}") } else { path }
}

pub(crate) async fn send(gateway: &Gateway, api: Api, body: &Value) -> Answer {
    send_to(gateway, api, body["stream"] == true, body).await
}

/// As [`send`], for wires whose address says whether a stream is wanted.
pub(crate) async fn send_to(gateway: &Gateway, api: Api, stream: bool, body: &Value) -> Answer {
    talk(gateway, post(&way(api, stream), &body.to_string())).await
}

/// What a strict reader of the wire makes of an answer.
pub(crate) fn read(api: Api, answer: &Answer) -> ModelResponse {
    let (body, whole) = answer.body();
    assert!(whole, "cut off: {}", answer.text());
    let has_frames = answer.head().contains("application/vnd.amazon.eventstream");
    if !has_frames && !answer.head().contains("text/event-stream") {
        return api.decode_response(&serde_json::from_str(&body).unwrap()).unwrap();
    }
    let (mut frames, mut decoder, mut heard) =
        (SseDecoder::default(), api.stream_decoder(), Accumulator::new());
    let mut events = Vec::new();
    if has_frames {
        let mut frames = FrameReader::default();
        frames.push(&bytes(answer));
        while let Some(frame) = frames.next_frame().unwrap() {
            events.extend(decoder.push(&event_of(&frame).unwrap()).unwrap());
        }
        frames.finish().unwrap();
    } else {
        for frame in frames.push(body.as_bytes()).unwrap() {
            if let Some(event) = frame.event {
                events.extend(decoder.push(&event).unwrap());
            }
        }
    }
    events.extend(decoder.finish().unwrap());
    events.iter().for_each(|event| heard.push(event));
    heard.finish().unwrap()
}

/// The message of an error, which Bedrock has alone.
pub(crate) fn error_message(answer: &Answer) -> Value {
    let said = answer.json();
    said.pointer("/error/message").or_else(|| said.get("message")).cloned().unwrap_or_default()
}

/// Whether an answer comes as events.
pub(crate) fn is_streamed(answer: &Answer) -> bool {
    let kinds = ["text/event-stream", "application/vnd.amazon.eventstream"];
    kinds.iter().any(|kind| answer.head().contains(kind))
}

/// Each wire, streamed and in one piece.
pub(crate) fn forms() -> impl Iterator<Item = (Api, bool)> {
    WIRES.into_iter().flat_map(|api| [(api, true), (api, false)])
}

/// Hooks that take the secret out of whatever they are shown.
pub(super) fn taking() -> House {
    let house = House::new();
    house.judge::<BeforeLlmCall>("takes", |event| {
        let said = serde_json::to_string(&event.messages).unwrap();
        said.contains(SECRET).then(|| BeforeLlmCallOutcome {
            messages: Some(serde_json::from_str(&said.replace(SECRET, "[gone]")).unwrap()),
            ..BeforeLlmCallOutcome::default()
        })
    });
    house
}
