//! From a request to the bytes that answer it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstop_hooks::Json;
use backstop_hooks::conversation::{Part, TokenUsage};
use bytes::{Bytes, BytesMut};
use serde_json::json;

use super::cloud;
use super::format::{Fault, HttpFault, Script, ScriptedToolCall, Turn};
use super::report::{Mismatch, Recent, RecordedRequest, ScriptReport};
use crate::answer::BodyForm;
use crate::error::{ProviderError, ProviderErrorKind};
use crate::json_array::ArrayEncoder;
use crate::model::{ModelRequest, ModelResponse, StopReason, ToolCallBuilder};
use crate::sse::{SseDecoder, SseEvent};
use crate::tokens::{estimate_message_tokens, estimate_tokens};
use crate::wire::converse::frame_of;
use crate::wire::{Api, DecodedRequest, StreamFraming};

const DEFAULT_CHUNK: usize = 16;

/// A script while it is played.
#[derive(Debug)]
pub(super) struct Player {
    script: Script,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    requests: u64,
    used: Vec<bool>,
    recorded: Recent<RecordedRequest>,
    mismatches: Recent<Mismatch>,
}

/// An answer as bytes.
#[derive(Debug)]
pub(super) struct Playback {
    pub(super) status: u16,
    pub(super) retry_after: Option<f64>,
    pub(super) form: BodyForm,
    pub(super) delay: Duration,
    pub(super) pieces: Vec<Bytes>,
    pub(super) piece_delay: Duration,
    pub(super) end: End,
}

/// How the events of a stream stand one after the other, and in which shape errors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// As the wire has it.
    Wire(StreamFraming),
    /// In Bedrock's frames around another wire.
    Bedrock,
}

impl Framing {
    /// The wire whose errors there are.
    pub(super) const fn errors(self, api: Api) -> Api {
        match self {
            Self::Wire(_) => api,
            Self::Bedrock => Api::BedrockConverse,
        }
    }
}

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Properly.
    Closed,
    /// The connection breaks off.
    Reset,
    /// The connection breaks off before anything was answered.
    NoAnswer,
}

impl Player {
    pub(super) fn new(script: Script) -> Self {
        let used = vec![false; script.turns.len()];
        Self { script, state: Mutex::new(State { used, ..State::default() }) }
    }

    /// Chooses the turn for a request and renders it.
    pub(super) fn answer(&self, api: Api, asked: &DecodedRequest, framing: Framing) -> Playback {
        let number = {
            let mut state = self.state();
            state.requests += 1;
            let request = asked.request.clone();
            state.recorded.push(RecordedRequest { api, stream: asked.stream, request });
            state.requests
        };
        match self.choose(number, &asked.request) {
            Ok(turn) => render(turn, number, api, asked, framing),
            Err(mismatch) => {
                let text = mismatch.to_string();
                self.state().mismatches.push(mismatch);
                let error = ProviderError::new(ProviderErrorKind::InvalidRequest, 400, None, &text);
                error_playback(framing.errors(api), &error)
            }
        }
    }

    fn choose(&self, number: u64, request: &ModelRequest) -> Result<&Turn, Mismatch> {
        let mut state = self.state();
        let holds = |turn: &Turn| turn.when.as_ref().is_none_or(|when| when.unmet(request).is_none());
        let left = self.script.turns.iter().zip(&mut state.used).enumerate();
        let mut left = left.filter(|(_, (turn, used))| turn.repeat || !**used);
        let Some((index, (turn, used))) = left.find(|(_, (turn, _))| holds(turn)) else {
            let expected = format!("none of the {} turns is left for it", self.script.turns.len());
            return Err(Mismatch { request: number, turn: None, expected });
        };
        *used = true;
        match turn.expect.as_ref().and_then(|expect| expect.unmet(request)) {
            None => Ok(turn),
            Some(expected) => Err(Mismatch { request: number, turn: Some(index + 1), expected }),
        }
    }

    pub(super) fn requests(&self) -> Vec<RecordedRequest> {
        self.state().recorded.to_vec()
    }

    pub(super) fn report(&self) -> ScriptReport {
        let state = self.state();
        let unused = state.used.iter().enumerate().filter(|(_, used)| !**used).map(|(index, _)| index + 1);
        ScriptReport {
            requests: state.requests,
            turns: self.script.turns.len(),
            unused: unused.collect(),
            mismatches: state.mismatches.to_vec(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An error answer as bytes.
pub(super) fn error_playback(api: Api, error: &ProviderError) -> Playback {
    Playback {
        status: error.status,
        retry_after: None,
        form: BodyForm::Json,
        delay: Duration::ZERO,
        pieces: vec![Bytes::from(api.encode_error(error).to_string())],
        piece_delay: Duration::ZERO,
        end: End::Closed,
    }
}

fn render(turn: &Turn, number: u64, api: Api, asked: &DecodedRequest, framing: Framing) -> Playback {
    let mut playback = match &turn.fault {
        Some(Fault::HttpStatus(fault)) => http_fault(framing.errors(api), fault),
        Some(Fault::RawSse(raw)) => whole(BodyForm::Events, split_frames(raw)),
        fault => {
            let response = response(turn, number, &asked.request);
            let playback = if asked.stream {
                let events = stream_events(turn, api, &asked.request, &response);
                match framing {
                    Framing::Bedrock => whole(BodyForm::Frames, events.iter().map(cloud::framed).collect()),
                    Framing::Wire(StreamFraming::Events) if api == Api::BedrockConverse => {
                        whole(BodyForm::Frames, events.iter().filter_map(framed).collect())
                    }
                    Framing::Wire(StreamFraming::Events) => {
                        whole(BodyForm::Events, events.iter().map(SseEvent::encode).collect())
                    }
                    Framing::Wire(StreamFraming::JsonArray) => whole(BodyForm::Json, array_pieces(&events)),
                }
            } else {
                whole(BodyForm::Json, vec![Bytes::from(api.encode_response(&response).to_string())])
            };
            cut(playback, asked.stream, fault.as_ref())
        }
    };
    playback.delay = Duration::from_millis(turn.delay_ms);
    playback.piece_delay = Duration::from_millis(turn.chunk_delay_ms);
    playback
}

fn whole(form: BodyForm, pieces: Vec<Bytes>) -> Playback {
    Playback {
        status: 200,
        retry_after: None,
        form,
        delay: Duration::ZERO,
        pieces,
        piece_delay: Duration::ZERO,
        end: End::Closed,
    }
}

/// Raw bytes cut where frames end, so that delays fall between events.
fn split_frames(raw: &str) -> Vec<Bytes> {
    let mut decoder = SseDecoder::new(usize::MAX);
    let mut frames = decoder.push(raw.as_bytes()).unwrap_or_default();
    frames.extend(decoder.finish());
    frames.into_iter().map(|frame| frame.raw).collect()
}

fn http_fault(api: Api, fault: &HttpFault) -> Playback {
    let kind = ProviderErrorKind::of_status(fault.status);
    let message = fault.message.as_deref().unwrap_or("the script says so");
    let error = ProviderError::new(kind, fault.status, None, message);
    Playback { retry_after: fault.retry_after, ..error_playback(api, &error) }
}

fn stream_events(turn: &Turn, api: Api, request: &ModelRequest, response: &ModelResponse) -> Vec<SseEvent> {
    let mut encoder = api.stream_encoder(request);
    let events = response.to_events(turn.chunk.unwrap_or(DEFAULT_CHUNK));
    events.iter().flat_map(|event| encoder.push(event)).collect()
}

fn framed(event: &SseEvent) -> Option<Bytes> {
    let mut bytes = BytesMut::new();
    frame_of(event)?.encode(&mut bytes);
    Some(bytes.freeze())
}

fn array_pieces(events: &[SseEvent]) -> Vec<Bytes> {
    let mut encoder = ArrayEncoder::default();
    let mut pieces: Vec<Bytes> = events.iter().map(|event| encoder.push(event)).collect();
    pieces.push(encoder.finish());
    pieces
}

fn cut(mut playback: Playback, streamed: bool, fault: Option<&Fault>) -> Playback {
    let (keep, end) = match fault {
        Some(Fault::HalfStreamAfter(events)) => (*events, End::Closed),
        Some(Fault::ResetAfter(events)) => (*events, End::Reset),
        Some(Fault::CloseConnection) => (0, End::NoAnswer),
        _ => return playback,
    };
    match playback.pieces.first_mut() {
        Some(body) if !streamed => body.truncate(body.len() / 2),
        _ => playback.pieces.truncate(keep),
    }
    playback.end = end;
    playback
}

fn response(turn: &Turn, number: u64, request: &ModelRequest) -> ModelResponse {
    // Real models sign what they think, and only signed thinking goes back to them.
    let signature = Json::new(json!({Api::AnthropicMessages.as_str(): {"signature": "c2NyaXB0ZWQ="}}));
    let thinking =
        turn.thinking.iter().map(|text| Part::Thinking { text: text.clone(), meta: Some(signature.clone()) });
    let text = turn.text.iter().map(|text| Part::text(text.clone()));
    let calls = turn.tool_calls.iter().enumerate().map(|(index, call)| tool_call(turn, number, index, call));
    let parts: Vec<Part> = thinking.chain(text).chain(calls).collect();
    let stop = match &turn.stop {
        Some(name) => StopReason::from(name.as_str()),
        None if turn.tool_calls.is_empty() => StopReason::EndTurn,
        None => StopReason::ToolUse,
    };
    let mut response = ModelResponse::new(format!("msg_script_{number}"), &request.model, parts, stop);
    response.usage = turn.usage.unwrap_or_else(|| TokenUsage {
        input: estimate_tokens(request),
        output: estimate_message_tokens(&response.message),
        ..TokenUsage::default()
    });
    response
}

fn tool_call(turn: &Turn, number: u64, index: usize, call: &ScriptedToolCall) -> Part {
    let named = match (&turn.fault, turn.tool_calls.first()) {
        (Some(Fault::DuplicateToolCallIds), Some(first)) => (0, first),
        _ => (index, call),
    };
    let id = named.1.id.clone().unwrap_or_else(|| format!("call_{number}_{}", named.0 + 1));
    let mut arguments = match &call.arguments {
        serde_json::Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    if matches!(turn.fault, Some(Fault::MalformedJson)) {
        let half = arguments.char_indices().nth(arguments.chars().count() / 2).map_or(1, |(at, _)| at.max(1));
        arguments.truncate(half);
    }
    Part::ToolCall(ToolCallBuilder { id: id.into(), name: call.name.clone(), arguments, meta: None }.finish())
}
