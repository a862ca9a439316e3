//! The tape of judged tool calls: off, until the operator names a recipient in `tape.recipient`.
//!
//! The engine hands calls over as their hooks left them ([`CallRecorder`]); the thread of the [tape](backstop_tape) masks their secrets,
//! and writes them for the recipient alone. This process has no key with which it could read them.
//!
//! Limits: whoever can write the folder can add to the tape what never happened, since the recipient is no secret. What stands there is
//! for trying policies, and is no proof of anything; that is the audit trail.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backstop_config::{ConfigError, Loaded};
use backstop_engine::{CallRecorder, CallRecording};
use backstop_tape::{Note, Recorder, Redact, Settings};
use serde_json::json;

pub use backstop_engine::{CallDecision, CallJudgement, RecordedAnswer, RecordedCall, RecordedStep};
pub use backstop_tape::{Bounds, Identity, InvalidKey, Pruned, Recipient, Segment, Tape, TapeError};

use crate::locations::from_operator;
use crate::lower::problem;

const DAY: Duration = Duration::from_hours(24);

/// Returns how much of the tape is kept.
pub fn tape_bounds(loaded: &Loaded) -> Bounds {
    let tape = &loaded.config.tape;
    let days = u32::try_from(tape.days.value.get()).unwrap_or(u32::MAX);
    Bounds { age: DAY.saturating_mul(days), bytes: tape.bytes.value.get() }
}

/// Returns where and to whom is recorded; `None` where nothing is, and where this process does not `record`. `folder` is where, unless
/// the configuration says so.
///
/// # Errors
///
/// [`ConfigError`] for a recipient that is none, and where there is no folder.
pub(crate) fn settings(
    loaded: &Loaded,
    folder: Option<&Path>,
    record: bool,
) -> Result<Option<Settings>, ConfigError> {
    let tape = &loaded.config.tape;
    let Some(recipient) = &tape.recipient else { return Ok(None) };
    let wrong = |text: String| ConfigError::from(problem(&recipient.at, &text));
    let to: Recipient = recipient
        .value
        .expose()
        .parse()
        .map_err(|error: InvalidKey| wrong(format!("`tape.recipient`: {error}")))?;
    let chosen = tape.path.as_ref().map(|path| from_operator(loaded, path.value.expose()));
    if let (Some(path), Some(folder)) = (&tape.path, &chosen)
        && !is_guarded(folder)
    {
        let text = format!(
            "`tape.path` must end in `{GUARDED}`, by which the guards know the folder that they keep agents out of\nhint: write `{}`",
            folder.join(GUARDED).display()
        );
        return Err(ConfigError::from(problem(&path.at, &text)));
    }
    if !record {
        return Ok(None);
    }
    let folder: PathBuf = chosen
        .or_else(|| folder.map(Path::to_path_buf))
        .ok_or_else(|| wrong("there is no folder for the tape\nhint: name one in `tape.path`".to_owned()))?;
    Ok(Some(Settings { tape: Tape::in_folder(folder), recipient: to, bounds: tape_bounds(loaded) }))
}

/// The end of the paths that the guards protect as the folder of a tape, wherever it is.
const GUARDED: &str = "backstop/tape";

/// Returns whether the guards keep agents out of the folder, by the name that it is given and by the one that it has.
fn is_guarded(folder: &Path) -> bool {
    folder.ends_with(GUARDED) && folder.canonicalize().map_or(true, |real| real.ends_with(GUARDED))
}

/// A call on its way to the tape.
struct Line(CallRecording);

impl Redact for Line {
    fn weight(&self) -> usize {
        self.0.weight()
    }

    fn line(self: Box<Self>) -> Option<Vec<u8>> {
        serde_json::to_vec(&self.0.redacted()?).ok()
    }

    fn gap(lost: u64) -> Vec<u8> {
        json!({ "lost": lost }).to_string().into_bytes()
    }
}

/// Who records calls on a tape.
#[derive(Clone)]
pub(crate) struct CallTape(Arc<Recorder<Line>>);

impl CallTape {
    /// Starts to record.
    pub(crate) fn start(settings: Settings) -> Result<Self, TapeError> {
        let folder = settings.tape.folder().display().to_string();
        let told = move |note: Note<'_>| match note {
            Note::Failed(error) => {
                tracing::error!(%folder, %error, "tool calls can't be recorded on the tape");
            }
            Note::Gone => {
                tracing::error!(%folder, "the tape has ended or failed: later tool calls are missing on it");
            }
            Note::Missing(calls) => {
                tracing::warn!(%folder, calls, "tool calls are missing on the tape");
            }
            Note::Kept(error) => {
                tracing::warn!(%folder, %error, "old segments of the tape can't be deleted");
            }
            Note::Pruned { segments, bytes } => {
                tracing::info!(%folder, segments, bytes, "old segments of the tape are deleted");
            }
        };
        Recorder::start(settings, told).map(|recorder| Self(Arc::new(recorder)))
    }

    /// Has what waits written, and waits so long at most.
    pub(crate) async fn end(&self, patience: Duration) {
        let recorder = Arc::clone(&self.0);
        let left = tokio::task::spawn_blocking(move || recorder.end(patience)).await;
        if let Ok(calls @ 1..) = left {
            tracing::warn!(calls, "the tape did not end in time: tool calls may be missing on it");
        }
    }
}

impl CallRecorder for CallTape {
    fn record(&self, recording: CallRecording) {
        self.0.record(Line(recording));
    }
}

/// Reads a line of the tape: a call, or how many are missing there.
///
/// # Errors
///
/// The words of why it is neither.
pub fn read_line(line: &[u8]) -> Result<TapeLine, String> {
    let value: serde_json::Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if let Some(lost) = value.get("lost").and_then(serde_json::Value::as_u64) {
        return Ok(TapeLine::Missing(lost));
    }
    serde_json::from_value(value)
        .map(|call| TapeLine::Call(Box::new(call)))
        .map_err(|error| error.to_string())
}

/// A line of the tape.
#[derive(Clone, Debug)]
pub enum TapeLine {
    /// A call.
    Call(Box<RecordedCall>),
    /// So many calls are missing here.
    Missing(u64),
}
