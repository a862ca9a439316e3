//! A program that is started for one event.
//!
//! It is given JSON on its standard input and says by its exit code how it went, as the hooks of coding agents do: 0 means that
//! its standard output is its answer, empty for none; 2 stops what is judged, with its standard error as the reason; anything
//! else is a failure. Whether the JSON is ours or that of Claude Code is its [`Dialect`], so that a script that was written as a
//! hook of Claude Code can be a hook here, unchanged.
//!
//! The law: *failing is not passing*. A crash, a signal, an answer that is cut or can't be read fail the hook, and at a gate
//! that blocks, also where the client that a script was written for would have let the call pass. And *an answer can only
//! tighten*: a script's `allow` is no opinion.
//!
//! Limits: 1 MiB of standard output, 64 KiB of standard error, and the budget of the hook, after which the program is ended
//! with its tree.

mod claude;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{HookError, JsonFuture, JsonHook, Malformed, PointId, Unambiguous};
use backstop_process::{Bounded, Descriptors, Family, Program, Running, read_bounded};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Notify;

use super::process::MARKER;
use super::{Held, MOST_ANSWER_BYTES, no_opinion, not_started, session_folder, shown, stop};

const MOST_ERROR_BYTES: usize = 64 * 1024;
/// Most characters of a reason.
const MOST_REASON_CHARS: usize = 4_000;
/// How long a program's tree is given to end when it is asked to.
const GRACE: Duration = Duration::from_secs(1);
/// How long to wait for the end of its output when a program has ended.
const DRAIN: Duration = Duration::from_secs(1);

/// In whose words a program is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Ours: the JSON form of the event, with its `point`; the answer is the point's outcome.
    #[default]
    Backstop,
    /// That of Claude Code's hooks.
    Claude,
}

/// Which program it is, and what it is given.
#[derive(Clone)]
pub struct CommandSettings {
    /// What to run: a path, or a name that is looked for in the `PATH` of this process.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Where it runs: never in the folder of a session, since interpreters and package managers take code and settings out of the folder
    /// that they are started in, and the agent writes in the session's. A script of Claude Code learns of that one from `cwd` in its input
    /// and from `CLAUDE_PROJECT_DIR`.
    pub directory: PathBuf,
    /// Its environment; `BACKSTOP_POINT` and, for scripts of Claude Code, `CLAUDE_PROJECT_DIR` are added.
    pub environment: BTreeMap<OsString, OsString>,
    /// In whose words it is spoken to.
    pub dialect: Dialect,
    /// What was seen of its files when it was trusted; it is looked at again before each start.
    pub seal: Option<Arc<dyn Held>>,
}

impl fmt::Debug for CommandSettings {
    /// Without arguments and environment, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandSettings")
            .field("program", &self.program)
            .field("dialect", &self.dialect)
            .finish_non_exhaustive()
    }
}

/// A dialect in which nothing can be said about a point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no event of Claude Code is about `{point}`\nhint: these are: {}", claude::POINTS.map(|(point, _)| point.name()).join(", "))]
pub struct NoSuchEvent {
    point: PointId,
}

/// One hook that is a program.
#[derive(Debug)]
pub struct CommandHook {
    settings: CommandSettings,
    family: Arc<Family>,
}

/// The programs of one plugin. When the last hook of it is dropped, what they left running dies.
#[derive(Clone, Debug)]
pub struct Commands(Arc<Family>);

impl Default for Commands {
    fn default() -> Self {
        Self(Arc::new(Family::new(MARKER, uuid::Uuid::now_v7().simple().to_string())))
    }
}

impl Commands {
    /// A hook at `point`.
    ///
    /// # Errors
    ///
    /// [`NoSuchEvent`], where the dialect has no words for it.
    pub fn hook(&self, point: PointId, settings: CommandSettings) -> Result<CommandHook, NoSuchEvent> {
        if settings.dialect == Dialect::Claude && claude::event_name(point).is_none() {
            return Err(NoSuchEvent { point });
        }
        Ok(CommandHook { settings, family: Arc::clone(&self.0) })
    }
}

/// How a program came to its end, and what it said.
struct Said {
    status: Option<ExitStatus>,
    output: Bounded,
    errors: Bounded,
}

impl CommandHook {
    fn program(&self, point: PointId, event: &Value) -> Program {
        let settings = &self.settings;
        let mut program = Program::new(&settings.program);
        program.arguments.clone_from(&settings.arguments);
        program.directory.clone_from(&settings.directory);
        program.environment.clone_from(&settings.environment);
        program.environment.insert("BACKSTOP_POINT".into(), point.name().into());
        if settings.dialect == Dialect::Claude {
            let folder =
                session_folder(event).map_or_else(|| settings.directory.clone().into(), OsString::from);
            program.environment.insert("CLAUDE_PROJECT_DIR".into(), folder);
        }
        program.input = Stdio::piped();
        program.output = Stdio::piped();
        program.errors = Stdio::piped();
        program.descriptors = Descriptors::None;
        program
    }

    async fn run(&self, point: PointId, event: &Value, input: &Value) -> Result<Said, HookError> {
        if let Some(seal) = self.settings.seal.clone() {
            let looked =
                tokio::task::spawn_blocking(move || seal.check()).await.map_err(HookError::failed)?;
            looked.map_err(|error| HookError::Unreachable(format!("it is not started: {error}")))?;
        }
        let running = self.family.start(self.program(point, event)).map_err(|error| {
            let program = shown(&self.settings.program.to_string_lossy(), 200);
            HookError::Unreachable(format!("`{program}` could not be started: {}", not_started(&error)))
        })?;
        let input = serde_json::to_vec(input).map_err(HookError::failed)?;
        talk(running, input).await
    }

    fn read(&self, point: PointId, event: &Value, said: &Said) -> Result<Value, HookError> {
        if said.output.is_cut {
            return Err(
                Malformed::new(format!("the command answered more than {MOST_ANSWER_BYTES} bytes")).into()
            );
        }
        let Some(status) = said.status else {
            return Err(HookError::failed("it is not known how the command ended"));
        };
        match status.code() {
            Some(0) => {}
            Some(2) => return self.stopped(point, event, &said.errors),
            _ => {
                self.log(&said.errors);
                return Err(HookError::failed(format!(
                    "the command ended with {status}\nhint: 0 says that its output is its answer, 2 stops what is judged, anything else is a failure"
                )));
            }
        }
        let output = said.output.bytes.trim_ascii();
        match self.settings.dialect {
            Dialect::Backstop if output.is_empty() => Ok(no_opinion(point)),
            Dialect::Backstop => Unambiguous::read(output)
                .map(|answer| if answer.is_null() { no_opinion(point) } else { answer })
                .map_err(|error| not_json(&error).into()),
            Dialect::Claude => claude::read(point, event, output),
        }
    }

    /// Exit code 2.
    fn stopped(&self, point: PointId, event: &Value, errors: &Bounded) -> Result<Value, HookError> {
        let reason = String::from_utf8_lossy(&errors.bytes);
        let reason: String = reason.trim().chars().take(MOST_REASON_CHARS).collect();
        let stopped = match self.settings.dialect {
            Dialect::Backstop => stop(point, &reason),
            Dialect::Claude => claude::stop_at(point, event, &reason),
        };
        stopped.ok_or_else(|| {
            self.log(errors);
            HookError::failed(format!("the command ended with 2, and nothing can be stopped at `{point}`"))
        })
    }

    /// What a program said about its failure is for the log: receipts hold no text of others.
    fn log(&self, errors: &Bounded) {
        let said = shown(String::from_utf8_lossy(&errors.bytes).trim(), 2_000);
        if !said.is_empty() {
            tracing::warn!(program = %self.settings.program.to_string_lossy(), "a hook failed and said: {said}");
        }
    }
}

/// What is wrong with an output that is no JSON, or none that all readers read alike.
fn not_json(error: &serde_json::Error) -> Malformed {
    let (line, column) = (error.line(), error.column());
    if error.is_data() {
        return Malformed::new(format!(
            "the command's answer has a key twice (line {line}, column {column})"
        ));
    }
    Malformed::new(format!(
        "the command's output is no JSON (line {line}, column {column})\nhint: standard output is for the answer; print to standard error"
    ))
}

/// Gives a program its input and takes what it says, all at once, until it has ended.
async fn talk(mut running: Running, input: Vec<u8>) -> Result<Said, HookError> {
    let pipes = (running.take_input(), running.take_output(), running.take_errors());
    let (Some(mut stdin), Some(stdout), Some(mut stderr)) = pipes else {
        return Err(HookError::failed("the command has no pipes"));
    };
    let (flooded, ended) = (Notify::new(), Notify::new());
    let write = async move {
        // A program need not read what it is given; whether it has judged it is its own affair.
        let _ = stdin.write_all(&input).await;
        drop(stdin);
    };
    let output = async {
        let output = read_bounded(stdout, MOST_ANSWER_BYTES).await;
        if output.as_ref().is_ok_and(|output| output.is_cut) {
            flooded.notify_one();
        }
        output
    };
    let errors = async move {
        let errors = read_bounded(&mut stderr, MOST_ERROR_BYTES).await;
        // The rest is read and forgotten, so that nobody stands still who only talks much.
        let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
        errors
    };
    let finish = async {
        let ending = running.finish(flooded.notified(), GRACE).await;
        ended.notify_one();
        ending
    };
    let all = async {
        tokio::select! {
            ((), output, errors) = async { tokio::join!(write, output, errors) } => Some((output, errors)),
            () = async { ended.notified().await; tokio::time::sleep(DRAIN).await } => None,
        }
    };
    let (ending, all) = tokio::join!(finish, all);
    let Some((output, errors)) = all else {
        return Err(Malformed::new(
            "the command's output has no end\nhint: a process that it leaves behind must not keep its standard output",
        )
        .into());
    };
    let failed = |error: std::io::Error| HookError::failed(format!("the command can't be read: {error}"));
    Ok(Said { status: ending.status, output: output.map_err(failed)?, errors: errors.map_err(failed)? })
}

impl JsonHook for CommandHook {
    fn call<'a>(&'a self, point: PointId, event: Value) -> JsonFuture<'a> {
        Box::pin(async move {
            let input = match self.settings.dialect {
                Dialect::Backstop => with_point(point, &event),
                Dialect::Claude => claude::payload(point, &event, &self.settings.directory)?,
            };
            let said = self.run(point, &event, &input).await?;
            self.read(point, &event, &said)
        })
    }
}

/// The event with the name of its point, which a program that stands at several asks for first.
fn with_point(point: PointId, event: &Value) -> Value {
    let mut event = event.clone();
    if let Value::Object(fields) = &mut event {
        fields.insert("point".to_owned(), point.name().into());
    }
    event
}
