//! `exec`: runs a shell command in the workspace.
//!
//! The command is given to `/bin/sh -c`; standard input is empty, output and errors come back in the order in
//! which they were written. The command leads a process group. When it ends, what it left running in the group
//! ends too; when it times out, is cancelled, or the call's future is dropped, so does everything that it ever
//! started, and when this program is killed, too (see [`backstop_process`] for how, and for what escapes). With `background` the command goes on after the call, under the care of the
//! [`ProcessTable`](crate::tools::ProcessTable).
//!
//! The working directory is inside the workspace; what the command then touches is not confined by this tool.

pub(super) mod capture;
pub(super) mod env;
pub(super) mod spawn;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use self::capture::{Capture, Rendered};
use self::env::{Dropped, filter_inherited, filter_overrides};
use self::spawn::{Ending, Job, Stop, start};
use super::context::ToolContext;
use super::error::ToolError;
use super::params::{Args, Kind, Param, Params};
use super::tool::{Tool, ToolOutput, ToolSpec};

const DEFAULT_TIMEOUT_MS: u64 = 120_000;
const MAX_TIMEOUT_MS: u64 = 600_000;
/// Room kept free in the answer for the notes below the output.
const NOTE_BYTES: usize = 1024;

const PARAMS: Params = Params {
    tool: "exec",
    list: &[
        Param::required("command", Kind::Text, "The command, for `/bin/sh -c`."),
        Param::optional(
            "workdir",
            Kind::Text,
            "Directory to run it in, relative to the workspace. Default: the workspace.",
        ),
        Param::optional(
            "timeout_ms",
            Kind::Integer { min: 1, max: MAX_TIMEOUT_MS },
            "Milliseconds after which the command is killed. Default: 120000, in the background: none.",
        ),
        Param::optional(
            "env",
            Kind::TextMap,
            "Environment variables to set. Those that change what programs load or run are refused.",
        ),
        Param::optional(
            "background",
            Kind::Flag,
            "Return at once and let the command run; use `process` to look after it. Default: false.",
        ),
    ],
};

/// Why a command was not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecError {
    /// The command is empty or holds a NUL.
    #[error("`command` is empty or holds a NUL byte")]
    Command,
    /// Variables that may not be set were asked for.
    #[error("`env` may not set these: {}; nothing was run; hint: leave them out", list(.0))]
    Environment(Vec<Dropped>),
    /// The working directory is not a directory.
    #[error("`workdir` is `{path}`, which is not a directory")]
    Directory {
        /// The path as it was given.
        path: String,
    },
    /// The system could not start it.
    #[error("the command could not be started: {0}")]
    Start(#[from] io::Error),
}

fn list(dropped: &[Dropped]) -> String {
    dropped.iter().map(Dropped::to_string).collect::<Vec<_>>().join(", ")
}

/// The tool `exec`.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::tools) struct ExecTool;

#[async_trait]
impl Tool for ExecTool {
    fn definition(&self) -> ToolSpec {
        ToolSpec {
            name: PARAMS.tool.to_owned(),
            description:
                "Run a shell command in the workspace. Standard input is empty; output and errors come \
                          back together, long output without its middle. Processes that the command leaves \
                          running are ended with it, unless `background` is set."
                    .to_owned(),
            input_schema: PARAMS.schema(),
        }
    }

    async fn run(&self, args: &Map<String, Value>, cx: &ToolContext) -> ToolOutput {
        exec(args, cx).await.unwrap_or_else(ToolOutput::from)
    }
}

async fn exec(args: &Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let args = PARAMS.check(args)?;
    let background = args.flag("background");
    let asked = args.integer("timeout_ms").or((!background).then_some(DEFAULT_TIMEOUT_MS));
    let job = job(&args, cx, background)?;
    if background {
        let lifetime = asked.map(Duration::from_millis);
        let shown = cx.shown.as_ref().and_then(|args| args.get("command")?.as_str());
        let shown = shown.unwrap_or(&job.command).to_owned();
        let id = cx.processes.adopt(job, &shown, lifetime)?;
        let details = json!({"status": "running", "sessionId": id});
        let hint =
            format!("started in the background as `{id}`; use `process` with `poll` to see its output");
        return Ok(ToolOutput::text(hint).with_details(details));
    }
    let timeout = asked.map_or(cx.limits.time, Duration::from_millis).min(cx.limits.time);
    let running = start(job, &cx.processes).map_err(ExecError::from)?;
    let output = running.output();
    let stop = async {
        tokio::select! {
            () = tokio::time::sleep(timeout) => Stop::TimedOut,
            () = cx.cancel.cancelled() => Stop::Cancelled,
        }
    };
    let ending = running.finish(stop).await;
    let room = cx.limits.output_bytes.saturating_sub(NOTE_BYTES);
    let (rendered, total) = output.with(|capture| (capture.render(room), capture.total()));
    Ok(report(rendered, total, &ending))
}

fn job(args: &Args<'_>, cx: &ToolContext, background: bool) -> Result<Job, ToolError> {
    let command = args.need("command")?;
    if command.trim().is_empty() || command.contains('\0') {
        return Err(ExecError::Command.into());
    }
    let at = cx.workspace.resolve(args.text("workdir").unwrap_or("."))?;
    let directory = cx.workspace.absolute(&at);
    if !directory.is_dir() {
        return Err(ExecError::Directory { path: at.shown().to_owned() }.into());
    }
    let (kept, dropped) = filter_overrides(&args.text_map("env"));
    if !dropped.is_empty() {
        return Err(ExecError::Environment(dropped).into());
    }
    let mut environment = filter_inherited(std::env::vars_os());
    environment.retain(|name, _| name.to_str().is_none_or(|name| !cx.withheld.contains(name)));
    for (name, value) in kept.iter().chain(&cx.exec_env) {
        environment.insert(OsString::from(name), OsString::from(value));
    }
    let half = cx.limits.output_bytes / 2;
    let capture = if background { Capture::new(0, 2 * half) } else { Capture::new(half, half) };
    Ok(Job {
        launcher: Arc::clone(&cx.launcher),
        command: command.to_owned(),
        directory,
        environment,
        with_input: background,
        capture,
    })
}

fn report(rendered: Rendered, total: u64, ending: &Ending) -> ToolOutput {
    let mut content = rendered.text;
    if total == 0 {
        content.push_str("[no output]");
    }
    for note in notes(ending, rendered.lossy) {
        if !content.ends_with('\n') {
            content.push('\n');
        }
        content.push_str(&format!("[{note}]"));
    }
    let mut details = ending_details(ending);
    if let Some(details) = details.as_object_mut() {
        details.insert("outputBytes".to_owned(), total.into());
        details.insert("droppedBytes".to_owned(), rendered.dropped.into());
        details.insert("truncated".to_owned(), (rendered.dropped > 0).into());
        details.insert("lossy".to_owned(), rendered.lossy.into());
    }
    ToolOutput { is_error: !succeeded(ending), ..ToolOutput::text(content).with_details(details) }
}

/// Whether a command did what it was to do, as far as its exit code tells.
pub(super) fn succeeded(ending: &Ending) -> bool {
    ending.stopped.is_none() && ending.status.is_some_and(|status| status.success())
}

/// How a command ended, for the model. Nothing if it simply succeeded.
pub(super) fn notes(ending: &Ending, lossy: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let after = ending.duration.as_millis();
    match ending.stopped {
        Some(Stop::TimedOut) => notes.push(format!(
            "timed out after {after} ms and was killed; hint: raise `timeout_ms`, or set `background`"
        )),
        Some(Stop::Cancelled) => notes.push(format!("cancelled after {after} ms and killed")),
        None => match ending.status {
            Some(status) => match (status.code(), status.signal()) {
                (Some(0), _) => {}
                (Some(code), _) => notes.push(format!("exit code {code}")),
                (None, Some(signal)) => notes.push(format!("killed by signal {signal}")),
                (None, None) => notes.push("ended in an unknown way".to_owned()),
            },
            None => notes.push("it is not known how the command ended".to_owned()),
        },
    }
    if ending.leftovers {
        notes.push("processes that the command left running were ended; hint: set `background`".to_owned());
    }
    if lossy {
        notes.push("the output is not UTF-8 everywhere: such bytes are shown as \u{FFFD}".to_owned());
    }
    notes
}

/// How a command ended, for transcripts and displays.
pub(super) fn ending_details(ending: &Ending) -> Value {
    json!({
        "status": if succeeded(ending) { "completed" } else { "failed" },
        "exitCode": ending.status.and_then(|status| status.code()),
        "exitSignal": ending.status.and_then(|status| status.signal()),
        "durationMs": u64::try_from(ending.duration.as_millis()).unwrap_or(u64::MAX),
        "timedOut": ending.stopped == Some(Stop::TimedOut),
        "cancelled": ending.stopped == Some(Stop::Cancelled),
        "leftovers": ending.leftovers,
    })
}
