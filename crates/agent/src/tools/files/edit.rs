//! `edit`: replaces a piece of a file that is named by its exact text.
//!
//! The text must occur exactly once, so that the model cannot change another place than the one it meant. In a file
//! whose lines end in CR LF, a text written with LF alone is taken to mean CR LF, for models cannot tell.

use std::fmt;

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use crate::tools::context::ToolContext;
use crate::tools::error::ToolError;
use crate::tools::params::{Kind, Param, Params};
use crate::tools::text;
use crate::tools::tool::{Tool, ToolOutput, ToolSpec};
use crate::tools::workspace::{Workspace, WorkspaceError};

/// How many lines are compared when nothing matched, and how much of each.
const COMPARED_LINES: usize = 20_000;
const COMPARED_BYTES: usize = 200;
const NAMED_MATCHES: usize = 10;

const PARAMS: Params = Params {
    tool: "edit",
    list: &[
        Param::required("path", Kind::Text, "File to change, relative to the workspace."),
        Param::required(
            "old_text",
            Kind::Text,
            "The exact text to replace, with its white space. Must occur once, unless `replace_all` is set.",
        ),
        Param::required("new_text", Kind::Text, "What to put in its place; empty to delete it."),
        Param::optional("replace_all", Kind::Flag, "Replace every occurrence. Default: false."),
    ],
};

/// Why nothing was replaced.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditError {
    /// The text to replace is empty.
    #[error("`old_text` is empty; hint: use `write` to replace a whole file")]
    Empty,
    /// Old and new text are the same.
    #[error("`old_text` and `new_text` are the same; nothing would change")]
    Same,
    /// The file is not UTF-8.
    #[error("`{path}` is not UTF-8 text; hint: use `exec` with a program that understands it")]
    NotText {
        /// The path as it was given.
        path: String,
    },
    /// The text does not occur.
    #[error(
        "`old_text` does not occur in `{path}`{nearest}; hint: `read` the file and copy the text exactly"
    )]
    NotFound {
        /// The path as it was given.
        path: String,
        /// The line that comes nearest to the first line of the text, or empty.
        nearest: String,
    },
    /// The text occurs more than once.
    #[error(
        "`old_text` occurs {count} times in `{path}` (lines {lines}); hint: add lines around it, or set `replace_all`"
    )]
    Ambiguous {
        /// The path as it was given.
        path: String,
        /// How often.
        count: usize,
        /// Where the first of them start.
        lines: String,
    },
}

/// The tool `edit`.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::tools) struct EditTool;

#[async_trait]
impl Tool for EditTool {
    fn definition(&self) -> ToolSpec {
        ToolSpec {
            name: PARAMS.tool.to_owned(),
            description: "Replace a piece of a text file, given by its exact text.".to_owned(),
            input_schema: PARAMS.schema(),
        }
    }

    async fn run(&self, args: &Map<String, Value>, cx: &ToolContext) -> ToolOutput {
        edit(args, cx).await.unwrap_or_else(ToolOutput::from)
    }
}

struct Request {
    path: String,
    old: String,
    new: String,
    all: bool,
}

async fn edit(args: &Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let args = PARAMS.check(args)?;
    let request = Request {
        path: args.need("path")?.to_owned(),
        old: args.need("old_text")?.to_owned(),
        new: args.need("new_text")?.to_owned(),
        all: args.flag("replace_all"),
    };
    let workspace = cx.workspace.clone();
    let limit = cx.limits.file_bytes;
    tokio::task::spawn_blocking(move || apply(&workspace, &request, limit)).await?
}

fn apply(workspace: &Workspace, request: &Request, limit: u64) -> Result<ToolOutput, ToolError> {
    let _writing = workspace.exclusive();
    let at = workspace.resolve(&request.path)?;
    let bytes = workspace.read_file(&at, limit)?;
    let content = String::from_utf8(bytes).map_err(|_| EditError::NotText { path: at.shown().to_owned() })?;
    let change = find(at.shown(), &content, &request.old, &request.new, request.all)?;
    let bytes = change.new_size(&content);
    if bytes > limit {
        return Err(WorkspaceError::TooLarge { path: at.shown().to_owned(), bytes, limit }.into());
    }
    let edited = change.apply(&content);
    workspace.stage(&at, edited.as_bytes())?.publish()?;
    let plural = if change.places.count == 1 { "line" } else { "lines" };
    let details = json!({"replacements": change.places.count, "bytes": edited.len()});
    Ok(ToolOutput::text(format!("edited `{}` at {plural} {}", at.shown(), change.places))
        .with_details(details))
}

/// A replacement that was found to be possible.
#[derive(Debug)]
struct Change {
    old: String,
    new: String,
    places: Places,
}

impl Change {
    fn new_size(&self, content: &str) -> u64 {
        let length = |len: usize| u64::try_from(len).unwrap_or(u64::MAX);
        let count = length(self.places.count);
        let kept = length(content.len()) - count * length(self.old.len());
        kept.saturating_add(count.saturating_mul(length(self.new.len())))
    }

    fn apply(&self, content: &str) -> String {
        content.replace(&self.old, &self.new)
    }
}

/// Where a text occurs: how often, and at which lines the first ones start.
#[derive(Debug)]
struct Places {
    count: usize,
    first: Vec<usize>,
}

impl Places {
    fn of(old: &str, content: &str) -> Self {
        let mut places = Self { count: 0, first: Vec::new() };
        let (mut line, mut counted) = (1, 0);
        for (start, _) in content.match_indices(old) {
            places.count += 1;
            if places.count <= NAMED_MATCHES {
                line += content.get(counted..start).unwrap_or_default().matches('\n').count();
                counted = start;
                places.first.push(line);
            }
        }
        places
    }
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.first.iter().map(usize::to_string).collect();
        let more = if self.count > self.first.len() { ", ..." } else { "" };
        write!(f, "{}{more}", lines.join(", "))
    }
}

fn find(path: &str, content: &str, old: &str, new: &str, all: bool) -> Result<Change, EditError> {
    if old.is_empty() {
        return Err(EditError::Empty);
    }
    if old == new {
        return Err(EditError::Same);
    }
    let with_cr = |text: &str| text.replace('\n', "\r\n");
    let (old, new) = match content.contains(old) || old.contains('\r') || !content.contains("\r\n") {
        true => (old.to_owned(), new.to_owned()),
        false => (with_cr(old), if new.contains('\r') { new.to_owned() } else { with_cr(new) }),
    };
    let places = Places::of(&old, content);
    match places.count {
        0 => Err(EditError::NotFound { path: path.to_owned(), nearest: nearest(content, &old) }),
        count if count > 1 && !all => {
            Err(EditError::Ambiguous { path: path.to_owned(), count, lines: places.to_string() })
        }
        _ => Ok(Change { old, new, places }),
    }
}

fn nearest(content: &str, old: &str) -> String {
    const SIMILAR: f64 = 0.6;
    let Some(wanted) = old.lines().map(str::trim).find(|line| !line.is_empty()) else { return String::new() };
    let wanted = text::prefix(wanted, COMPARED_BYTES);
    let best = content
        .lines()
        .take(COMPARED_LINES)
        .enumerate()
        .map(|(index, line)| {
            let line = text::prefix(line.trim(), COMPARED_BYTES);
            (strsim::sorensen_dice(wanted, line), index + 1, line)
        })
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    match best {
        Some((score, number, line)) if score >= SIMILAR => {
            format!("; the nearest is line {number}: `{}`", text::clip(line, COMPARED_BYTES))
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn replace(content: &str, old: &str, new: &str, all: bool) -> Result<(String, Vec<usize>), EditError> {
        let change = find("f", content, old, new, all)?;
        let edited = change.apply(content);
        assert_eq!(change.new_size(content), edited.len() as u64);
        Ok((edited, change.places.first))
    }

    #[test]
    fn a_single_occurrence_is_replaced() {
        let replaced = replace("a\nb\nc\n", "b\n", "x\ny\n", false).unwrap();
        assert_eq!(replaced, ("a\nx\ny\nc\n".to_owned(), vec![2]));
    }

    #[test]
    fn several_occurrences_are_counted_and_located() {
        let error = replace("x\ny x\nx", "x", "z", false).unwrap_err();
        assert_eq!(
            error,
            EditError::Ambiguous { path: "f".to_owned(), count: 3, lines: "1, 2, 3".to_owned() }
        );
        assert_eq!(replace("x\ny x\nx", "x", "z", true).unwrap().0, "z\ny z\nz");
    }

    #[test]
    fn nearest_line_is_named_when_nothing_matches() {
        let error =
            replace("fn main() {\n    let total = 1;\n}\n", "let totals = 1;", "", false).unwrap_err();
        assert!(error.to_string().contains("line 2: `let total = 1;`"), "{error}");
        let error = replace("aaa", "completely different", "", false).unwrap_err();
        assert_eq!(error, EditError::NotFound { path: "f".to_owned(), nearest: String::new() });
    }

    #[test]
    fn windows_line_ends_are_kept() {
        let replaced = replace("a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\n", false).unwrap();
        assert_eq!(replaced.0, "x\r\ny\r\nc\r\n");
    }

    proptest! {
        #[test]
        fn what_is_not_matched_stays(before in "[a-c\n]{0,12}", after in "[a-c\n]{0,12}", new in "[x-z\n]{0,4}") {
            let replaced = replace(&format!("{before}@{after}"), "@", &new, false).unwrap();
            prop_assert_eq!(replaced.0, format!("{before}{new}{after}"));
            prop_assert_eq!(replaced.1, vec![before.matches('\n').count() + 1]);
        }
    }
}
