//! The law of answers: every string of an answer, and every name of a field, is shown to hooks before it leaves, or the answer is
//! refused; and a secret in any of these places does not leave where redactors take secrets out of results and answers.
//!
//! Both are tried at every place of every answer fixture, whole and streamed. What is shown is what redactors of the text, hooks
//! at `tool.after` and hooks that judge calls at `after_llm_call` read. [`EXCEPTED`] has what is shown to none of them, and why.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use backstop_engine::{Engine, HookOptions, RedactionStream, Settled, SpanRedactor};
use backstop_guards::hooks::{ArgumentActions, InArguments, RedactionSettings, register_redaction};
use backstop_hooks::points::{AfterLlmCall, ToolAfter};
use backstop_hooks::{CallContext, OwnerId, hook_fn};
use backstop_llm::Api;
use backstop_llm::sse::{SseDecoder, SseEvent};
use backstop_scan::{Action, Class, Policy};
use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use serde_json::{Value, json};

use super::walk_tests::{WORD, token, variants};
use super::{HookSettings, Hooks};
use crate::endpoint::{Endpoint, Family, Operation};
use crate::exchange::{
    Answered, Body, Call, Exchange, Interceptor as _, Outgoing, Plan, Requested, Step, Watch,
};
use crate::operations::Permission;
use crate::record::Recorder;

/// What is shown to nobody: the wire, how the places end, and the reason. `*` stands for any item of a list.
const EXCEPTED: [(Api, &str, &str); 2] = [
    (Api::OpenAiChat, ": /obfuscation is it", PADDING),
    (Api::OpenAiResponses, ": /obfuscation is it", PADDING),
];
const PADDING: &str = "letters that pad an event, other ones each time; as many as a token has are shown";

/// Names that codecs keep for notes of their own, or read in other places.
const RESERVED: [&str; 3] = ["signature", "function_call", "message"];

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Whole,
    Events,
    /// Gemini's, as one JSON array.
    Array,
}

/// An answer with something in it at one place.
struct Variant {
    what: String,
    written: Written,
    /// One of a whole answer; each event of a stream.
    pieces: Vec<String>,
}

/// An event of a stream: its name, and its data.
type Told = (Option<String>, Value);

fn piece((name, data): &Told) -> String {
    let data = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
    String::from_utf8(SseEvent::new(name.as_deref(), data).encode().to_vec()).unwrap()
}

fn events(stream: &str) -> Vec<Told> {
    let mut decoder = SseDecoder::new(1 << 20);
    let mut frames = decoder.push(stream.as_bytes()).unwrap();
    frames.extend(decoder.finish());
    let told = |event: SseEvent| {
        let data = serde_json::from_str(&event.data).unwrap_or_else(|_| event.data.clone().into());
        (event.event, data)
    };
    frames.into_iter().filter_map(|frame| frame.event.map(told)).collect()
}

/// How a list of items stands in an array.
fn in_array(items: &[Told]) -> Vec<String> {
    let mut pieces: Vec<String> = items.iter().map(|(_, item)| format!(",{item}")).collect();
    pieces[0].replace_range(..1, "[");
    pieces.push("]".to_owned());
    pieces
}

macro_rules! fixture {
    ($path:literal) => {
        include_str!(concat!("../../../llm/tests/fixtures/", $path))
    };
}

fn wholes(api: Api) -> Vec<Value> {
    let texts: &[&str] = match api {
        Api::AnthropicMessages => {
            &[fixture!("anthropic/text.response.json"), fixture!("anthropic/tools.response.json")]
        }
        Api::OpenAiChat => &[
            fixture!("openai_chat/function_call.response.json"),
            fixture!("openai_chat/refusal.response.json"),
            fixture!("openai_chat/several.choices.json"),
            fixture!("openai_chat/text.response.json"),
            fixture!("openai_chat/tools.response.json"),
        ],
        Api::OpenAiResponses => &[
            fixture!("openai_responses/builtin.response.json"),
            fixture!("openai_responses/incomplete.response.json"),
            fixture!("openai_responses/reasoning.response.json"),
            fixture!("openai_responses/refusal.response.json"),
            fixture!("openai_responses/text.response.json"),
            fixture!("openai_responses/tools.response.json"),
        ],
        Api::Gemini => &[
            fixture!("gemini/blocked_prompt.response.json"),
            fixture!("gemini/partial.response.json"),
            fixture!("gemini/refusal.response.json"),
            fixture!("gemini/several.choices.json"),
            fixture!("gemini/text.response.json"),
            fixture!("gemini/tools.response.json"),
        ],
        Api::BedrockConverse => &[
            fixture!("bedrock_converse/builtin.response.json"),
            fixture!("bedrock_converse/refusal.response.json"),
            fixture!("bedrock_converse/text.response.json"),
            fixture!("bedrock_converse/tools.response.json"),
        ],
    };
    let fixtures = texts.iter().map(|text| serde_json::from_str(text).unwrap());
    fixtures.chain(more(api, "whole")).collect()
}

fn streams(api: Api) -> Vec<Vec<Told>> {
    let texts: &[&str] = match api {
        Api::AnthropicMessages => {
            &[fixture!("anthropic/text.stream.sse"), fixture!("anthropic/tools.stream.sse")]
        }
        Api::OpenAiChat => &[
            fixture!("openai_chat/function_call.stream.sse"),
            fixture!("openai_chat/refusal.stream.sse"),
            fixture!("openai_chat/several.choices.sse"),
            fixture!("openai_chat/text.stream.sse"),
            fixture!("openai_chat/tools.stream.sse"),
        ],
        Api::OpenAiResponses => &[
            fixture!("openai_responses/builtin.stream.sse"),
            fixture!("openai_responses/incomplete.stream.sse"),
            fixture!("openai_responses/reasoning.stream.sse"),
            fixture!("openai_responses/refusal.stream.sse"),
            fixture!("openai_responses/text.stream.sse"),
            fixture!("openai_responses/tools.stream.sse"),
        ],
        Api::Gemini => &[
            fixture!("gemini/blocked_prompt.stream.sse"),
            fixture!("gemini/partial.stream.sse"),
            fixture!("gemini/refusal.stream.sse"),
            fixture!("gemini/several.choices.sse"),
            fixture!("gemini/text.stream.sse"),
            fixture!("gemini/tools.stream.sse"),
        ],
        Api::BedrockConverse => &[
            fixture!("bedrock_converse/builtin.stream.sse"),
            fixture!("bedrock_converse/refusal.stream.sse"),
            fixture!("bedrock_converse/text.stream.sse"),
            fixture!("bedrock_converse/tools.stream.sse"),
        ],
    };
    texts.iter().map(|text| events(text)).chain(more_streams(api)).collect()
}

/// What the fixtures do not have: answers in one piece, and streams of events with their names.
fn more(api: Api, form: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("fixtures/answers.json")).unwrap();
    all[api.as_str()][form].as_array().unwrap().clone()
}

fn more_streams(api: Api) -> Vec<Vec<Told>> {
    let told = |event: &Value| (event[0].as_str().map(str::to_owned), event[1].clone());
    let stream = |events: Value| events.as_array().unwrap().iter().map(told).collect();
    more(api, "streamed").into_iter().map(stream).collect()
}

/// Every answer of a wire with `said` at every place.
fn all(api: Api, said: &str) -> Vec<Variant> {
    let mut found = Vec::new();
    for body in wholes(api) {
        let variant = |(what, body): (String, Value)| Variant {
            what,
            written: Written::Whole,
            pieces: vec![body.to_string()],
        };
        found.extend(variants(&body, said, &RESERVED).into_iter().map(variant));
    }
    for stream in streams(api).iter().take(1) {
        let pieces: Vec<String> = stream.iter().map(piece).collect();
        for beside in [": {}\n\n", ": say {}\n", "id: {}\n", "retry: {}\n", "event: {}\n\n"] {
            let what = format!("event: beside it, {}", beside.trim_end());
            let first = beside.replace("{}", said) + &pieces[0];
            let pieces = std::iter::once(first).chain(pieces.iter().skip(1).cloned()).collect();
            found.push(Variant { what, written: Written::Events, pieces });
        }
    }
    // One event of a kind is like another.
    let mut known = BTreeSet::new();
    for stream in streams(api) {
        for (at, (name, data)) in stream.iter().enumerate() {
            let kind = name.clone().unwrap_or_else(|| "event".to_owned());
            for (what, new) in variants(data, said, &RESERVED[..1]) {
                let what = format!("{kind}: {what}");
                if !known.insert(place(&what)) {
                    continue;
                }
                let mut events = stream.clone();
                events[at].1 = new;
                if api == Api::Gemini {
                    let (what, pieces) = (what.clone(), in_array(&events));
                    found.push(Variant { what, written: Written::Array, pieces });
                }
                let pieces = events.iter().map(piece).collect();
                found.push(Variant { what, written: Written::Events, pieces });
            }
        }
    }
    found
}

/// An exchange that waits for an answer.
async fn asked(hooks: &Hooks, api: Api, written: Written) -> Box<dyn Exchange> {
    let (headers, method, target) =
        (HeaderMap::new(), Method::POST, api.request_path("m", written != Written::Whole));
    let (path, query) = target.split_once('?').map_or((&*target, None), |(path, query)| (path, Some(query)));
    let streams = written != Written::Whole;
    let converse = Endpoint { family: Family::Anthropic, operation: Operation::Converse };
    let (path, endpoint) = match api {
        Api::BedrockConverse => ("/bedrock/converse", converse),
        _ => (path, Endpoint::of(path, &headers).unwrap()),
    };
    let call = Call {
        number: 1,
        endpoint: &endpoint,
        method: &method,
        path,
        query: query.filter(|_| written != Written::Array),
        headers: &headers,
        permission: Permission::Read,
        agent: None,
        session: None,
        user: None,
        recorder: &Recorder::default(),
    };
    let Plan::Inspect(mut exchange) = hooks.begin(&call) else { panic!("nobody looks") };
    let body = match api {
        Api::AnthropicMessages | Api::OpenAiChat => {
            json!({"model": "m", "stream": streams, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]})
        }
        Api::OpenAiResponses => json!({"model": "m", "stream": streams, "input": "hi"}),
        Api::BedrockConverse => {
            json!({"modelId": "m", "messages": [{"role": "user", "content": [{"text": "hi"}]}]})
        }
        Api::Gemini => json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}),
    };
    let bytes = Bytes::from(body.to_string());
    let requested = exchange.request(&Body { bytes: &bytes, provider: "p" }).await;
    assert!(matches!(requested, Requested::Unchanged), "{requested:?}");
    exchange
}

/// Lets an answer pass; `look` sees each piece that leaves. Returns whether it ended before its time.
async fn pass(hooks: &Hooks, api: Api, variant: &Variant, look: &mut dyn FnMut(&[u8])) -> bool {
    let mut exchange = asked(hooks, api, variant.written).await;
    let kind = if variant.written == Written::Events { "text/event-stream" } else { "application/json" };
    let mut head = Response::new(());
    head.headers_mut().insert(http::header::CONTENT_TYPE, kind.parse().unwrap());
    let (parts, ()) = head.into_parts();
    let answered = Answered { provider: "p", status: parts.status, headers: &parts.headers };
    assert!(matches!(exchange.response(&answered), Watch::Look { .. }));
    let mut out = Outgoing::new(parts.clone());
    let mut pieces = variant.pieces.iter();
    loop {
        let next = pieces.next();
        let mut step = match next {
            Some(piece) => exchange.chunk(Bytes::from(piece.clone()), &mut out),
            None => exchange.finish(&mut out),
        };
        look(&out.take_data());
        while step == Step::Decide {
            step = exchange.decide(&mut out).await;
            look(&out.take_data());
        }
        match (step, next) {
            (Step::Continue, Some(_)) => {}
            (Step::Continue, None) => return false,
            (Step::End, _) => return true,
            (other, _) => panic!("{other:?}"),
        }
    }
}

/// Says that everything may stay, and remembers it.
#[derive(Debug)]
struct Reads(Arc<Mutex<String>>);

#[derive(Debug)]
struct Reading(Arc<Mutex<String>>, usize);

impl SpanRedactor for Reads {
    fn open(&self, _: &CallContext) -> Box<dyn RedactionStream> {
        Box::new(Reading(Arc::clone(&self.0), 0))
    }
}

impl RedactionStream for Reading {
    fn push(&mut self, text: &str) -> Settled {
        self.0.lock().unwrap().push_str(text);
        self.1 += text.len();
        Settled { up_to: self.1, ..Settled::default() }
    }

    fn finish(&mut self) -> Settled {
        Settled { up_to: self.1, ..Settled::default() }
    }
}

pub(super) fn watching(shown: &Arc<Mutex<String>>) -> Hooks {
    let engine = Engine::builder().build();
    let options = |id: &str| HookOptions::new(OwnerId::operator()).id(id);
    engine.registry().on_spans(Arc::new(Reads(Arc::clone(shown))), options("texts")).unwrap();
    let seen = Arc::clone(shown);
    let results = hook_fn::<ToolAfter, _>(move |event, _| {
        seen.lock().unwrap().push_str(&serde_json::to_string(event).unwrap());
        Ok(None)
    });
    engine.registry().on(results, options("results")).unwrap();
    let seen = Arc::clone(shown);
    let calls = hook_fn::<AfterLlmCall, _>(move |event, _| {
        seen.lock().unwrap().push_str(&serde_json::to_string(&event.tool_calls).unwrap());
        Ok(None)
    });
    engine.registry().on(calls, options("calls")).unwrap();
    Hooks::new(engine, HookSettings { refusals: 0, ..HookSettings::default() }).unwrap()
}

/// The place of a variant, with `*` for items of lists.
pub(super) fn place(what: &str) -> String {
    let step = |step: &str| if step.parse::<usize>().is_ok() { "*".to_owned() } else { step.to_owned() };
    what.split('/')
        .map(|part| match part.split_once(' ') {
            Some((first, rest)) => format!("{} {rest}", step(first)),
            None => step(part),
        })
        .collect::<Vec<_>>()
        .join("/")
}

/// What is shown of each variant of the answers of a wire.
async fn show_all(api: Api) {
    let shown = Arc::new(Mutex::new(String::new()));
    let hooks = watching(&shown);
    let (mut tried, mut refused, mut unseen, mut used) = (0, 0, BTreeSet::new(), BTreeSet::new());
    for variant in all(api, WORD) {
        shown.lock().unwrap().clear();
        tried += 1;
        let mut leaked = false;
        let ended = pass(&hooks, api, &variant, &mut |left| {
            let has_left = left.windows(WORD.len()).any(|bytes| bytes == WORD.as_bytes());
            leaked |= has_left && !shown.lock().unwrap().contains(WORD);
        })
        .await;
        refused += usize::from(ended);
        if leaked {
            let place = place(&variant.what);
            match EXCEPTED.iter().find(|(wire, known, _)| *wire == api && place.ends_with(known)) {
                Some((_, known, _)) => drop(used.insert(*known)),
                None => drop(unseen.insert(format!("{:?} {place}", variant.written))),
            }
        }
    }
    let stale: Vec<_> =
        EXCEPTED.iter().filter(|(wire, known, _)| *wire == api && !used.contains(known)).collect();
    assert!(stale.is_empty(), "these are shown: {stale:?}");
    assert!(
        unseen.is_empty(),
        "{} of {tried} places are not shown:\n{}",
        unseen.len(),
        unseen.into_iter().collect::<Vec<_>>().join("\n")
    );
    assert!(tried > 500 && refused < tried / 2, "{api}: {tried} tried, {refused} refused");
}

/// An engine whose redactor takes secrets out of what is answered.
pub(super) fn redacting() -> Hooks {
    let engine = Engine::builder().build();
    let policy = || Policy::new(Action::Ignore).class(Class::Secret, Action::Redact);
    let settings = RedactionSettings {
        results: policy(),
        answers: policy(),
        prompts: Policy::new(Action::Ignore),
        withdraws_tools: false,
        reports_tools: false,
        restored_in: Vec::new(),
        arguments: ArgumentActions { secrets: Some(InArguments::Block), ..ArgumentActions::default() },
        catalogue: Arc::default(),
    };
    engine.registry().update(|snapshot| register_redaction(snapshot, &settings)).unwrap();
    Hooks::new(engine, HookSettings { refusals: 0, ..HookSettings::default() }).unwrap()
}

/// Whether a secret leaves from a variant of the answers of a wire.
async fn redact_all(api: Api) {
    let (hooks, token) = (redacting(), token());
    let (mut tried, mut ended, mut leaked) = (0, 0, BTreeSet::new());
    for variant in all(api, &token) {
        tried += 1;
        let mut left = Vec::new();
        ended += usize::from(pass(&hooks, api, &variant, &mut |bytes| left.extend_from_slice(bytes)).await);
        if left.windows(token.len()).any(|bytes| bytes == token.as_bytes()) {
            leaked.insert(format!("{:?} {}", variant.written, place(&variant.what)));
        }
    }
    assert!(
        leaked.is_empty(),
        "{} of {tried} leave:\n{}",
        leaked.len(),
        leaked.into_iter().collect::<Vec<_>>().join("\n")
    );
    assert!(tried > 500 && ended < tried * 2 / 3, "{api}: {ended} of {tried} ended");
}

/// Ids and names as providers make them are no secrets.
#[tokio::test]
async fn ids_of_providers_pass() {
    let hooks = redacting();
    for id in [
        "chatcmpl-BXyZ1a2B3c4D5e6F7g8H9i0J1k2L3",
        "resp_68af4030592c81938ec0a5fbab4a3e9f05438e46b5f69a3b",
        "msg_01XFDUDYJgAACzvnptvVoYEL",
        "toolu_01T1x1fJ34qAmk2tNTrN7Up6",
        "srvtoolu_01WYG3ziw53XMcoyKL4XcZmE",
        "call_9pw1qnYScqvGrCH58HWCvFH6",
        "fp_44709d6fcb",
        "req_011CSHoEeqs5C35K2UUqR7Fy",
        "tooluse_kZJMlvQmRJ6eAyJE5GIl7Q",
        "ws_67c9fa0502748190b7dd390736892e100be649c1a5ff9609",
        "cntr_682d30f13bc88191a3a2b8a4e3b5e3a2",
        "gen-1756230000-AbCdEfGhIjKlMnOpQrSt",
        "XyZ2aJkLPWOxN8P3v2Q6Ag",
        "6f1c9e0a-3f5b-4b7e-9a51-0d8a3c1f2e4d",
        "us.anthropic.claude-3-5-sonnet-20241022-v2:0",
        "accounts/fireworks/models/llama-v3p1-405b-instruct",
        "gemini-2.5-flash-preview-09-2025",
    ] {
        let body = json!({"id": id, "object": "chat.completion", "created": 1, "model": id, "system_fingerprint": id,
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}]});
        let pieces = vec![body.to_string()];
        let variant = Variant { what: String::new(), written: Written::Whole, pieces };
        let mut left = Vec::new();
        assert!(
            !pass(&hooks, Api::OpenAiChat, &variant, &mut |bytes| left.extend_from_slice(bytes)).await,
            "{id}"
        );
        assert_eq!(String::from_utf8(left).unwrap(), body.to_string());
    }
}

macro_rules! wires {
    ($($wire:ident: $api:expr,)*) => {
        mod shown_or_refused {
            use super::*;
            $(#[tokio::test] async fn $wire() { show_all($api).await })*
        }
        mod redacted_or_stopped {
            use super::*;
            $(#[tokio::test] async fn $wire() { redact_all($api).await })*
        }
    };
}

wires! {
    anthropic_messages: Api::AnthropicMessages,
    openai_chat: Api::OpenAiChat,
    openai_responses: Api::OpenAiResponses,
    gemini: Api::Gemini,
    bedrock_converse: Api::BedrockConverse,
}
