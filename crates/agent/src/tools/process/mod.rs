//! `process`: looks after what `exec` left running in the background.
//!
//! Of the output of a background process only the last part is kept. `poll` shows what is new since the last poll,
//! `log` what is kept. A process ends with its session at the latest.

mod input;
pub(super) mod table;

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::points::TYPED_TERMINAL;
use serde_json::{Map, Value, json};

use self::table::{Background, ProcessTable};
use super::context::ToolContext;
use super::error::ToolError;
use super::exec::capture::Capture;
use super::exec::{ending_details, notes, succeeded};
use super::params::{Args, Kind, Param, Params};
use super::text;
use super::tool::{Tool, ToolOutput, ToolSpec};

const MAX_WAIT_MS: u64 = 60_000;
const NOTE_BYTES: usize = 1024;

const PARAMS: Params = Params {
    tool: "process",
    list: &[
        Param::required(
            "action",
            Kind::Choice(&["list", "poll", "log", "write", "kill"]),
            "`list` all; for one `id`: `poll` shows new output, `log` the last output, `write` sends `data`, \
             `kill` ends it.",
        ),
        Param::optional("id", Kind::Text, "The process, as named by `exec`. Needed by all but `list`."),
        Param::optional("data", Kind::Text, "What `write` sends to the standard input, as it is."),
        Param::optional("eof", Kind::Flag, "Close the standard input after the `write`. Default: false."),
        Param::optional(
            "wait_ms",
            Kind::Integer { min: 0, max: MAX_WAIT_MS },
            "How many milliseconds `poll` waits for new output or the end. Default: 0.",
        ),
    ],
};

/// Why a background process could not be started or reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// There is no such process.
    #[error("there is no background process `{id}`{hint}")]
    Unknown {
        /// The id as the model gave it.
        id: String,
        /// A suggestion, or empty.
        hint: String,
    },
    /// Too many run already.
    #[error("{max} background processes run already; hint: `kill` one with `process`")]
    TooMany {
        /// How many may run.
        max: usize,
    },
    /// The system could not start it.
    #[error("the command could not be started: {0}")]
    Start(io::Error),
    /// It has ended.
    #[error("`{id}` has ended; hint: use `log` to see its last output")]
    Ended {
        /// The id.
        id: String,
    },
    /// Its input was closed.
    #[error("the input of `{id}` is closed")]
    InputClosed {
        /// The id.
        id: String,
    },
    /// Something else was typed since the call was judged, or the beginning of its line was changed.
    #[error(
        "`{id}` has been given other input than this call was judged with, so nothing was sent; hint: send it again"
    )]
    NotAsJudged {
        /// The id.
        id: String,
    },
    /// It did not take the input.
    #[error("`{id}` did not take all of the input: {source}")]
    Write {
        /// The id.
        id: String,
        /// What the system said.
        source: io::Error,
    },
}

/// The tool `process`.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::tools) struct ProcessTool;

#[async_trait]
impl Tool for ProcessTool {
    fn definition(&self) -> ToolSpec {
        ToolSpec {
            name: PARAMS.tool.to_owned(),
            description: "Look after commands that `exec` runs in the background.".to_owned(),
            input_schema: PARAMS.schema(),
        }
    }

    async fn complete(&self, args: &mut Map<String, Value>, cx: &ToolContext) -> Option<&'static str> {
        if !is_write(args) {
            return None;
        }
        let process = cx.processes.get(args.get("id")?.as_str()?)?;
        input::complete(args, &process).await;
        Some(TYPED_TERMINAL)
    }

    fn completes(&self) -> bool {
        true
    }

    async fn run(&self, args: &Map<String, Value>, cx: &ToolContext) -> ToolOutput {
        process(args, cx).await.unwrap_or_else(ToolOutput::from)
    }
}

fn is_write(args: &Map<String, Value>) -> bool {
    args.get("action").is_some_and(|action| action == "write")
}

async fn process(args: &Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let completed = args;
    let given = if is_write(args) { input::without_own(args) } else { args.clone() };
    let args = PARAMS.check(&given)?;
    let action = args.need("action")?;
    if action == "list" {
        return Ok(list(&cx.processes));
    }
    let process = find(&cx.processes, args.need("id")?)?;
    let room = cx.limits.output_bytes.saturating_sub(NOTE_BYTES);
    match action {
        "poll" => poll(&process, &args, cx, room).await,
        "write" => {
            args.need("data")?;
            let shown = cx.shown.as_deref().unwrap_or(completed);
            let eof = args.flag("eof");
            let sent = input::write(&process, completed, shown, eof).await?;
            let closed = if eof { " and closed its input" } else { "" };
            Ok(ToolOutput::text(format!("sent {sent} bytes to `{}`{closed}", process.id))
                .with_details(details(&process)))
        }
        "kill" => kill(&process, cx).await,
        _ => Ok(log(&process, room)),
    }
}

fn find(processes: &ProcessTable, id: &str) -> Result<Arc<Background>, ProcessError> {
    processes.get(id).ok_or_else(|| {
        let known = processes.all();
        let hint = text::did_you_mean(id, known.iter().map(|process| process.id.as_str()));
        ProcessError::Unknown { id: text::clip(id, 32), hint }
    })
}

fn list(processes: &ProcessTable) -> ToolOutput {
    let all = processes.all();
    let lines: Vec<String> = all
        .iter()
        .map(|process| format!("{}  {}  {}", process.id, state(process), text::clip(&process.command, 120)))
        .collect();
    let content = if lines.is_empty() { "[no background processes]".to_owned() } else { lines.join("\n") };
    ToolOutput::text(content).with_details(json!({"total": all.len()}))
}

fn state(process: &Background) -> String {
    match process.ending() {
        None => format!("running for {} s", process.started.elapsed().as_secs()),
        Some(ending) => match notes(&ending, false).first() {
            None => "exit code 0".to_owned(),
            Some(note) => note.clone(),
        },
    }
}

async fn poll(
    process: &Background,
    args: &Args<'_>,
    cx: &ToolContext,
    room: usize,
) -> Result<ToolOutput, ToolError> {
    let shown = *process.shown.lock().unwrap_or_else(PoisonError::into_inner);
    let wait = Duration::from_millis(args.integer("wait_ms").unwrap_or(0));
    tokio::select! {
        biased;
        () = cx.cancel.cancelled() => return Err(ToolError::Cancelled),
        () = process.output.beyond(shown) => {}
        _ = process.ended() => {}
        () = tokio::time::sleep(wait) => {}
    }
    let ending = process.ending();
    let (content, lossy) = {
        let mut shown = process.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut bytes, missing) = process.output.with(|capture| capture.since(*shown));
        if ending.is_none() {
            bytes.truncate(bytes.len() - text::unfinished_suffix(&bytes));
        }
        let start = if missing > 0 { text::orphaned_prefix(&bytes) } else { 0 };
        *shown += missing + u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let decoded = text::decode(bytes.get(start..).unwrap_or_default());
        let kept = text::suffix(&decoded.text, room);
        let cut = missing > 0 || kept.len() < decoded.text.len();
        let note = if cut { "[earlier output was dropped]\n" } else { "" };
        (format!("{note}{kept}"), decoded.lossy)
    };
    Ok(report(process, content, lossy, "[no new output]"))
}

fn log(process: &Background, room: usize) -> ToolOutput {
    let rendered = process.output.with(|capture| capture.render(room));
    report(process, rendered.text, rendered.lossy, "[no output]")
}

fn report(process: &Background, mut content: String, lossy: bool, nothing: &str) -> ToolOutput {
    if content.is_empty() {
        content.push_str(nothing);
    }
    let ending = process.ending();
    let mut notes = ending.map(|ending| notes(&ending, lossy)).unwrap_or_default();
    if let Some(ending) = ending {
        if succeeded(&ending) {
            notes.insert(0, "exit code 0".to_owned());
        }
    } else {
        notes.push(state(process));
    }
    for note in notes {
        if !content.ends_with('\n') {
            content.push('\n');
        }
        content.push_str(&format!("[{note}]"));
    }
    ToolOutput::text(content).with_details(details(process))
}

fn details(process: &Background) -> Value {
    let mut details = match process.ending() {
        Some(ending) => ending_details(&ending),
        None => json!({"status": "running"}),
    };
    if let Some(details) = details.as_object_mut() {
        details.insert("sessionId".to_owned(), process.id.clone().into());
        details.insert("outputBytes".to_owned(), process.output.with(Capture::total).into());
    }
    details
}

async fn kill(process: &Background, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    if process.ending().is_some() {
        return Err(ProcessError::Ended { id: process.id.clone() }.into());
    }
    process.stop();
    tokio::select! {
        () = cx.cancel.cancelled() => return Err(ToolError::Cancelled),
        _ = process.ended() => {}
    }
    Ok(ToolOutput::text(format!("`{}` was ended", process.id)).with_details(details(process)))
}
