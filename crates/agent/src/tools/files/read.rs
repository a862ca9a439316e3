//! `read`: a file's text, or the names in a directory.

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use crate::tools::context::ToolContext;
use crate::tools::error::ToolError;
use crate::tools::params::{Args, Kind, Param, Params};
use crate::tools::text;
use crate::tools::tool::{Tool, ToolOutput, ToolSpec};
use crate::tools::workspace::{Entry, Located, Workspace};

const DEFAULT_LINES: u64 = 2000;
const MAX_ENTRIES: usize = 1000;
/// How much of a file is looked at to tell whether it is text.
const SNIFFED_BYTES: usize = 8192;
/// Room kept free in the answer for the notes below the text.
const NOTE_BYTES: usize = 512;

const PARAMS: Params = Params {
    tool: "read",
    list: &[
        Param::required("path", Kind::Text, "File or directory, relative to the workspace."),
        Param::optional(
            "offset",
            Kind::Integer { min: 1, max: u32::MAX as u64 },
            "Number of the first line to show, counted from 1. Default: 1.",
        ),
        Param::optional(
            "limit",
            Kind::Integer { min: 1, max: u32::MAX as u64 },
            "How many lines to show at most. Default: 2000.",
        ),
        Param::optional(
            "line_numbers",
            Kind::Flag,
            "Put the number and a tab before each line. Default: false. Leave the numbers out of edits.",
        ),
    ],
};

/// Why a file cannot be shown.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The file is not text.
    #[error(
        "`{path}` is a binary file of {bytes} bytes; hint: use `exec` with a program that understands it"
    )]
    Binary {
        /// The path as it was given.
        path: String,
        /// Its size.
        bytes: usize,
    },
    /// The file has fewer lines than were skipped.
    #[error("`{path}` has {lines} lines, so there is no line {offset}")]
    PastEnd {
        /// The path as it was given.
        path: String,
        /// How many lines there are.
        lines: usize,
        /// Which was asked for.
        offset: usize,
    },
}

/// The tool `read`.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::tools) struct ReadTool;

#[async_trait]
impl Tool for ReadTool {
    fn definition(&self) -> ToolSpec {
        ToolSpec {
            name: PARAMS.tool.to_owned(),
            description:
                "Read a text file, or list a directory (directories end in `/`, links in `@`). Long \
                          files are shown in parts: continue with `offset`."
                    .to_owned(),
            input_schema: PARAMS.schema(),
        }
    }

    async fn run(&self, args: &Map<String, Value>, cx: &ToolContext) -> ToolOutput {
        read(args, cx).await.unwrap_or_else(ToolOutput::from)
    }
}

struct Window {
    offset: usize,
    limit: usize,
    numbered: bool,
    max_bytes: usize,
}

impl Window {
    fn of(args: &Args<'_>, cx: &ToolContext) -> Self {
        let count =
            |name, default| usize::try_from(args.integer(name).unwrap_or(default)).unwrap_or(usize::MAX);
        Self {
            offset: count("offset", 1),
            limit: count("limit", DEFAULT_LINES),
            numbered: args.flag("line_numbers"),
            max_bytes: cx.limits.output_bytes.saturating_sub(NOTE_BYTES),
        }
    }
}

async fn read(args: &Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let args = PARAMS.check(args)?;
    let path = args.need("path")?.to_owned();
    let window = Window::of(&args, cx);
    let workspace = cx.workspace.clone();
    let limit = cx.limits.file_bytes;
    tokio::task::spawn_blocking(move || {
        let at = workspace.resolve(&path)?;
        match workspace.open_entry(&at)? {
            Entry::Directory => listing(&workspace, &at),
            Entry::File(file, metadata) => {
                let bytes = workspace.read_open(&at, file, &metadata, limit)?;
                Ok(show(at.shown(), &bytes, &window)?)
            }
        }
    })
    .await?
}

fn listing(workspace: &Workspace, at: &Located) -> Result<ToolOutput, ToolError> {
    let (names, total) = workspace.list(at, MAX_ENTRIES)?;
    let mut content = match total {
        0 => "[empty directory]".to_owned(),
        _ => names.join("\n"),
    };
    if names.len() < total {
        content.push_str(&format!("\n[{} of {total} entries shown]", names.len()));
    }
    let details = json!({"kind": "directory", "entries": total, "truncated": names.len() < total});
    Ok(ToolOutput::text(content).with_details(details))
}

fn show(path: &str, bytes: &[u8], window: &Window) -> Result<ToolOutput, ReadError> {
    let sniffed = bytes.get(..SNIFFED_BYTES.min(bytes.len())).unwrap_or_default();
    if sniffed.contains(&0) {
        return Err(ReadError::Binary { path: path.to_owned(), bytes: bytes.len() });
    }
    let decoded = text::decode(bytes);
    let total = decoded.text.lines().count();
    if total == 0 {
        let details = json!({"kind": "file", "bytes": bytes.len(), "totalLines": 0, "truncated": false});
        return Ok(ToolOutput::text("[empty file]").with_details(details));
    }
    if window.offset > total {
        return Err(ReadError::PastEnd { path: path.to_owned(), lines: total, offset: window.offset });
    }
    let mut content = String::new();
    let mut last = window.offset - 1;
    let mut notes = Vec::new();
    for (number, line) in
        (1..=total).zip(decoded.text.split_inclusive('\n')).skip(window.offset - 1).take(window.limit)
    {
        let prefix = if window.numbered { format!("{number}\t") } else { String::new() };
        let room = window.max_bytes.saturating_sub(content.len() + prefix.len());
        if line.len() > room {
            if last >= window.offset {
                break;
            }
            // A single line that does not fit: its beginning is better than nothing.
            content.push_str(&prefix);
            content.push_str(text::prefix(line, room));
            notes.push(format!("line {number} has {} bytes and was cut", line.len()));
            last = number;
            break;
        }
        content.push_str(&prefix);
        content.push_str(line);
        last = number;
    }
    if last < total {
        notes.push(format!(
            "lines {} to {last} of {total} shown; continue with offset {}",
            window.offset,
            last + 1
        ));
    }
    if decoded.lossy {
        notes.push("not UTF-8 everywhere: such bytes are shown as \u{FFFD}".to_owned());
    }
    let truncated = last < total || window.offset > 1;
    for note in &notes {
        if !content.ends_with('\n') {
            content.push('\n');
        }
        content.push_str(&format!("[{note}]"));
    }
    let details = json!({
        "kind": "file", "bytes": bytes.len(), "totalLines": total, "firstLine": window.offset, "lastLine": last,
        "truncated": truncated, "lossy": decoded.lossy,
    });
    Ok(ToolOutput::text(content).with_details(details))
}
