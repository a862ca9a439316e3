//! The scripted model in-process.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, header};
use tokio::time::{Instant, sleep};

use super::format::Script;
use super::play::{End, Framing, Playback, Player};
use super::report::{RecordedRequest, ScriptReport};
use crate::answer::AnswerReader;
use crate::error::ModelError;
use crate::model::{Model, ModelEvent, ModelRequest, ModelStream, StatsCell};
use crate::wire::{Api, DecodedRequest, StreamFraming};

/// The largest scripted answer in bytes.
const MAX_ANSWER_BYTES: u64 = 64 * 1024 * 1024;

/// A model that plays a script. Cheap to clone; clones play the same script on.
#[derive(Clone)]
pub struct ScriptedModel {
    player: Arc<Player>,
    api: Api,
}

impl ScriptedModel {
    /// A model that plays `script` on the Anthropic wire.
    pub fn new(script: Script) -> Self {
        Self::with_api(script, Api::AnthropicMessages)
    }

    /// A model that plays `script` on the wire `api`.
    pub fn with_api(script: Script, api: Api) -> Self {
        Self { player: Arc::new(Player::new(script)), api }
    }

    /// The requests so far, oldest first. The last 256 are kept.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.player.requests()
    }

    /// What happened so far.
    pub fn report(&self) -> ScriptReport {
        self.player.report()
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedModel").field("api", &self.api).field("report", &self.report()).finish()
    }
}

impl Model for ScriptedModel {
    fn provider(&self) -> &str {
        "scripted"
    }

    fn api(&self) -> Api {
        self.api
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let stats = StatsCell::default();
        let asked = Asked { model: self.clone(), request, stats: stats.clone() };
        let events = stream::unfold(Some(Stage::Asked(Box::new(asked))), async |stage| {
            let mut playing = match stage? {
                Stage::Asked(asked) => asked.begin(),
                Stage::Playing(playing) => playing,
            };
            match playing.next().await {
                Ok(Some(event)) => Some((Ok(event), Some(Stage::Playing(playing)))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        ModelStream::new(events, stats)
    }
}

enum Stage {
    Asked(Box<Asked>),
    Playing(Box<Playing>),
}

struct Asked {
    model: ScriptedModel,
    request: ModelRequest,
    stats: StatsCell,
}

struct Playing {
    api: Api,
    playback: Playback,
    pieces: std::vec::IntoIter<Bytes>,
    reader: AnswerReader,
    queue: VecDeque<ModelEvent>,
    failure: Option<ModelError>,
    begun: Instant,
    stats: StatsCell,
    finished: bool,
}

impl Asked {
    fn begin(self) -> Box<Playing> {
        let api = self.model.api;
        let bytes = api.encode_request(&self.request, true).to_string().len() as u64;
        self.stats.update(|stats| {
            stats.attempts = 1;
            stats.request_bytes = bytes;
        });
        let asked = DecodedRequest { request: self.request, stream: true };
        let mut playback = self.model.player.answer(api, &asked, Framing::Wire(StreamFraming::Events));
        let pieces = std::mem::take(&mut playback.pieces).into_iter();
        let reader = AnswerReader::new(api, playback.form, MAX_ANSWER_BYTES);
        Box::new(Playing {
            api,
            playback,
            pieces,
            reader,
            queue: VecDeque::new(),
            failure: None,
            begun: Instant::now(),
            stats: self.stats,
            finished: false,
        })
    }
}

impl Playing {
    async fn next(&mut self) -> Result<Option<ModelEvent>, ModelError> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Ok(Some(event));
            }
            if let Some(error) = self.failure.take() {
                return Err(error);
            }
            if self.finished {
                return Ok(None);
            }
            if let Err(error) = self.advance().await {
                self.failure = Some(error);
            }
        }
    }

    async fn advance(&mut self) -> Result<(), ModelError> {
        wait(std::mem::take(&mut self.playback.delay)).await;
        if self.playback.status != 200 {
            return Err(ModelError::Provider(self.refusal()));
        }
        match self.pieces.next() {
            Some(piece) => {
                let begun = self.begun;
                self.stats.update(|stats| {
                    stats.response_bytes += piece.len() as u64;
                    stats.time_to_first_byte.get_or_insert_with(|| begun.elapsed());
                });
                self.reader.push(&piece, &mut self.queue)?;
                wait(self.playback.piece_delay).await;
            }
            None if self.playback.end == End::Closed => self.reader.finish(&mut self.queue)?,
            None => {
                let (host, reason) = ("script".to_owned(), "the script says so".to_owned());
                return Err(ModelError::Interrupted { host, reset: self.playback.end == End::Reset, reason });
            }
        }
        self.finished = self.reader.is_finished();
        Ok(())
    }

    fn refusal(&mut self) -> crate::error::ProviderError {
        let seconds =
            self.playback.retry_after.and_then(|seconds| HeaderValue::from_str(&seconds.to_string()).ok());
        let headers: HeaderMap = seconds.map(|value| (header::RETRY_AFTER, value)).into_iter().collect();
        let body = self.pieces.next().unwrap_or_default();
        self.api.decode_error(self.playback.status, &headers, &body)
    }
}

async fn wait(delay: Duration) {
    if !delay.is_zero() {
        sleep(delay).await;
    }
}
