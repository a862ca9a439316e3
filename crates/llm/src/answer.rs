//! From the bytes of an answer to its events, whatever brings the bytes.

use std::collections::VecDeque;

use serde_json::Value;

use crate::error::{ModelError, WireError, out_of_order};
use crate::frames::{BadFrame, FrameReader};
use crate::model::ModelEvent;
use crate::sse::{DEFAULT_MAX_EVENT_BYTES, SseDecoder, SseEvent, SseFrame};
use crate::wire::converse::event_of;
use crate::wire::{Api, StreamDecoder, parse_json};

/// How the body of an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyForm {
    /// One JSON text.
    Json,
    /// Server-sent events.
    Events,
    /// Frames of Amazon's.
    Frames,
}

/// The type of a body in frames.
pub(crate) const FRAMES: &str = "application/vnd.amazon.eventstream";

/// Reads one answer. The events read before an error are in the queue, so that they can be passed on first.
#[derive(Debug)]
pub(crate) struct AnswerReader {
    api: Api,
    body: Body,
    read: u64,
    limit: u64,
    finished: bool,
}

#[derive(Debug)]
enum Body {
    Json(Vec<u8>),
    Events { frames: SseDecoder, decoder: Box<StreamDecoder> },
    Frames { frames: FrameReader, decoder: Box<StreamDecoder> },
}

impl AnswerReader {
    pub(crate) fn new(api: Api, form: BodyForm, limit: u64) -> Self {
        let body = match form {
            BodyForm::Json => Body::Json(Vec::new()),
            BodyForm::Frames => {
                Body::Frames { frames: FrameReader::default(), decoder: Box::new(api.stream_decoder()) }
            }
            BodyForm::Events => Body::Events {
                frames: SseDecoder::new(
                    DEFAULT_MAX_EVENT_BYTES.min(usize::try_from(limit).unwrap_or(usize::MAX)),
                ),
                decoder: Box::new(api.stream_decoder()),
            },
        };
        Self { api, body, read: 0, limit, finished: false }
    }

    /// Whether the answer is whole. What follows is not read.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    pub(crate) fn push(&mut self, bytes: &[u8], queue: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        self.read = self.read.saturating_add(bytes.len() as u64);
        if self.read > self.limit {
            return Err(ModelError::TooLarge { limit: self.limit });
        }
        match &mut self.body {
            Body::Json(body) => body.extend_from_slice(bytes),
            Body::Events { frames, .. } => {
                for frame in frames.push(bytes)? {
                    self.frame(frame, queue)?;
                }
            }
            Body::Frames { frames, .. } => {
                frames.push(bytes);
                while let Some(events) = self.unframed()? {
                    self.take(events, queue);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self, queue: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        let rest = match &mut self.body {
            Body::Json(body) => {
                let value = parse_json(body).map_err(|error| not_json(&error))?;
                let events = whole_answer(self.api, &value)?;
                self.take(events, queue);
                return Ok(());
            }
            Body::Events { frames, .. } => frames.finish(),
            Body::Frames { frames, .. } => {
                frames.finish().map_err(|_| WireError::Truncated)?;
                None
            }
        };
        if let Some(frame) = rest {
            self.frame(frame, queue)?;
        }
        if let (Body::Events { decoder, .. } | Body::Frames { decoder, .. }, false) =
            (&mut self.body, self.finished)
        {
            let events = decoder.finish()?;
            self.take(events, queue);
        }
        if self.finished { Ok(()) } else { Err(WireError::Truncated.into()) }
    }

    fn frame(&mut self, frame: SseFrame, queue: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        if self.finished {
            return Ok(());
        }
        if let (Some(event), Body::Events { decoder, .. }) = (frame.event, &mut self.body) {
            let events = decoder.push(&event)?;
            self.take(events, queue);
        }
        Ok(())
    }

    /// What the next of Amazon's frames says, if it is whole.
    fn unframed(&mut self) -> Result<Option<Vec<ModelEvent>>, ModelError> {
        let (Body::Frames { frames, decoder }, false) = (&mut self.body, self.finished) else {
            return Ok(None);
        };
        let Some(frame) = frames.next_frame().map_err(|bad| no_frame(&bad))? else { return Ok(None) };
        let event = event_of(&frame).map_err(|bad| no_frame(&bad))?;
        Ok(Some(decoder.push(&event)?))
    }

    fn take(&mut self, events: Vec<ModelEvent>, queue: &mut VecDeque<ModelEvent>) {
        self.finished |= matches!(events.last(), Some(ModelEvent::Finished { .. }));
        queue.extend(events);
    }
}

/// The events of an answer in one JSON text. Some servers of the Gemini wire send a stream as one array,
/// whatever they were asked for.
fn whole_answer(api: Api, value: &Value) -> Result<Vec<ModelEvent>, WireError> {
    let (Api::Gemini, Value::Array(pieces)) = (api, value) else {
        return Ok(api.decode_response(value)?.to_events(usize::MAX));
    };
    let (mut decoder, mut events) = (api.stream_decoder(), Vec::new());
    for piece in pieces {
        events.extend(decoder.push(&SseEvent::new(None, piece.to_string()))?);
    }
    events.extend(decoder.finish()?);
    Ok(events)
}

/// What can't be taken out of its frame.
fn no_frame(bad: &BadFrame) -> WireError {
    out_of_order(bad.to_string())
}

fn not_json(error: &serde_json::Error) -> WireError {
    if error.is_eof() { WireError::Truncated } else { crate::wire::not_json("the answer", error) }
}
