//! `backstop tape`: the recording of judged tool calls.

mod reading;

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use backstop::config::Loaded;
use backstop::hooks::{Resolution, RuleId};
use backstop::store::Timestamp;
use backstop::tape::{Identity, Pruned, RecordedCall, Segment, Tape, tape_bounds};
use rustix::fs::OFlags;
use serde::Serialize;

pub(super) use self::reading::Reading;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{one_line, plain, table};
use crate::session::Surroundings;

/// The most bytes of a file with a key.
const MOST_KEY_BYTES: u64 = 64 * 1024;
/// The most characters of a call that people are shown.
const MOST_SHOWN: usize = 160;

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Settings {
    Keygen { file: PathBuf },
    List { folder: Option<PathBuf> },
    Show(Span),
    Prune { dry_run: bool },
}

/// Which part of the recording, and who reads it.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) identity: PathBuf,
    /// The folder of the tape, if it is not the configuration's.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
}

pub(super) fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    match settings {
        Settings::Keygen { file } => keygen(&file, surroundings),
        Settings::List { folder } => list(folder.as_deref(), surroundings),
        Settings::Show(span) => show(&span, surroundings),
        Settings::Prune { dry_run } => prune(dry_run, &surroundings.load()?, surroundings),
    }
}

fn keygen(file: &Path, surroundings: &Surroundings) -> Result<Exit, Error> {
    let failed = |source| Error::File { path: file.to_path_buf(), what: "written", source };
    let identity = Identity::generate().map_err(|error| Error::Failed(error.to_string()))?;
    let recipient = identity.recipient().to_string();
    let text = format!("# public key: {recipient}\n{}\n", identity.expose());
    let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).map_err(failed)?;
    to.write_all(text.as_bytes()).and_then(|()| to.sync_all()).map_err(failed)?;
    let output = &surroundings.output;
    if output.is_json() {
        output.json(&serde_json::json!({ "recipient": recipient, "identity": file }))?;
    } else {
        output.text(&recipient)?;
    }
    output.say(&format!(
        "the key is in `{}`: move it to where no agent can read it; without it nobody reads the tape\nhint: write the line above into `tape.recipient`",
        plain(&file.display().to_string())
    ));
    Ok(Exit::Success)
}

/// Reads the file with a key, which nobody but its account can read.
pub(super) fn identity(path: &Path) -> Result<Identity, Error> {
    let failed = |source| Error::File { path: path.to_path_buf(), what: "read", source };
    let mut text = String::new();
    // A pipe would never be opened while nobody writes into it.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let met = file.metadata().map_err(failed)?;
    let refused = match (met.is_file(), met.mode() & 0o077 == 0) {
        (false, _) => Some("it is no file"),
        (true, false) => Some("others can read it, too\nhint: `chmod 600` it, or make a new key"),
        // A part of it might hold another key than the whole.
        (true, true) if met.len() > MOST_KEY_BYTES => Some("it has more than 64 KiB"),
        (true, true) => None,
    };
    if let Some(why) = refused {
        return Err(Error::Failed(format!("`{}` is no place for a key: {why}", path.display())));
    }
    file.take(MOST_KEY_BYTES).read_to_string(&mut text).map_err(failed)?;
    Identity::in_file(&text).map_err(|error| Error::Failed(format!("`{}`: {error}", path.display())))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'s> {
    file: &'s Path,
    began: Timestamp,
    bytes: u64,
    /// Whether it was ended; otherwise it is being written, or was cut off.
    whole: bool,
}

fn listed(segments: &[Segment]) -> Vec<Listed<'_>> {
    let list = segments.iter().map(|segment| Listed {
        file: &segment.path,
        began: began(segment),
        bytes: segment.bytes,
        whole: segment.is_whole,
    });
    list.collect()
}

fn began(segment: &Segment) -> Timestamp {
    Timestamp::from_millis(i64::try_from(segment.began).unwrap_or(i64::MAX))
}

fn told(segments: &[Segment], surroundings: &Surroundings) -> io::Result<()> {
    let output = &surroundings.output;
    let list = listed(segments);
    if output.is_json() {
        return output.json(&list);
    }
    let mut rows = vec![["began", "bytes", "state", "file"].map(str::to_owned).to_vec()];
    rows.extend(list.iter().map(|segment| {
        let state = if segment.whole { "whole" } else { "open" };
        let file = plain(&segment.file.display().to_string());
        vec![segment.began.to_string(), segment.bytes.to_string(), state.to_owned(), file]
    }));
    output.text(&table(&rows))
}

/// The tape in this folder, or where the configuration has it.
fn opened(folder: Option<&Path>, loaded: &Loaded, surroundings: &Surroundings) -> Result<Tape, Error> {
    match folder {
        Some(folder) if !folder.is_dir() => {
            Err(Error::Failed(format!("there is no folder `{}`", folder.display())))
        }
        Some(folder) => Ok(Tape::in_folder(folder)),
        None => surroundings.tape(loaded),
    }
}

fn list(folder: Option<&Path>, surroundings: &Surroundings) -> Result<Exit, Error> {
    let tape = opened(folder, &surroundings.load()?, surroundings)?;
    let segments = tape.segments().map_err(|error| unread(tape.folder(), &error))?;
    if segments.is_empty() && !surroundings.output.is_json() {
        let folder = plain(&tape.folder().display().to_string());
        surroundings.output.say(&format!("nothing is recorded in `{folder}`"));
        return Ok(Exit::Success);
    }
    told(&segments, surroundings)?;
    Ok(Exit::Success)
}

fn prune(dry_run: bool, loaded: &Loaded, surroundings: &Surroundings) -> Result<Exit, Error> {
    let (tape, bounds) = (surroundings.tape(loaded)?, tape_bounds(loaded));
    let pruned = match dry_run {
        true => tape.due(bounds).map(|gone| Pruned { gone, failed: None }),
        false => tape.prune(bounds),
    };
    let Pruned { gone, failed } = pruned.map_err(|error| unread(tape.folder(), &error))?;
    told(&gone, surroundings)?;
    match failed {
        Some(error) => Err(Error::Failed(format!("not all of it can be deleted: {error}"))),
        None => Ok(Exit::Success),
    }
}

fn unread(path: &Path, error: &impl std::fmt::Display) -> Error {
    Error::Failed(format!("the tape `{}` can't be read: {error}", path.display()))
}

fn show(span: &Span, surroundings: &Surroundings) -> Result<Exit, Error> {
    let output = &surroundings.output;
    let mut reading = Reading::open(span, &surroundings.load()?, surroundings)?;
    while let Some(calls) = reading.next() {
        for call in calls {
            match output.is_json() {
                true => output.json_line(&call)?,
                false => output.text(&line(&call))?,
            }
        }
    }
    reading.end()
}

/// A call as people are shown it in a list.
fn line(call: &RecordedCall) -> String {
    let judgement = &call.judgement;
    let rules: Vec<&str> = judgement.rules.iter().map(RuleId::as_str).collect();
    let by = match &judgement.hook {
        _ if !rules.is_empty() => format!("  by {}", plain(&rules.join(", "))),
        Some(hook) => format!("  by {}", plain(hook.as_str())),
        None => String::new(),
    };
    let answer = call.answer.map(|answer| format!("  {}", resolution(answer.resolution))).unwrap_or_default();
    format!("{}  {:<6}  {}{by}{answer}", time(call), judgement.decision.as_str(), in_words(call))
}

fn resolution(resolution: Resolution) -> &'static str {
    match resolution {
        Resolution::AllowOnce => "allowed once",
        Resolution::AllowAlways => "allowed",
        Resolution::Deny => "denied",
        Resolution::Timeout => "not answered",
        Resolution::Cancelled => "cancelled",
    }
}

pub(super) fn time(call: &RecordedCall) -> Timestamp {
    Timestamp::from_millis(i64::try_from(call.at).unwrap_or(i64::MAX))
}

/// The call in one line, for people.
pub(super) fn in_words(call: &RecordedCall) -> String {
    let text = |name: &str| call.event.get(name).and_then(serde_json::Value::as_str);
    let tool = text("calledAs").or_else(|| text("toolName")).unwrap_or("-");
    let arguments = match call.without_arguments {
        true => "(without its arguments)".to_owned(),
        false => call.event.get("params").map(ToString::to_string).unwrap_or_default(),
    };
    format!("{} {}", one_line(tool, MOST_SHOWN), one_line(&arguments, MOST_SHOWN))
}
