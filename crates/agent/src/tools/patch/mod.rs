//! `apply_patch`: changes to several files, all of them or none.
//!
//! Two notations are understood. The *envelope* names each operation:
//!
//! ```text
//! *** Begin Patch
//! *** Update File: src/lib.rs
//! *** Move to: src/root.rs
//! @@ fn main() {
//!      let a = 1;
//! -    let b = 2;
//! +    let b = 3;
//! *** Add File: notes.txt
//! +first line
//! *** Delete File: old.txt
//! *** End Patch
//! ```
//!
//! The other one is the plain unified diff (`---`, `+++`, `@@ -1,3 +1,4 @@`) with correct line counts.
//!
//! A patch is parsed as a whole, then every operation is carried out in memory, then the new files are written
//! beside the old ones, and only then anything is replaced; if that fails midway, it is undone. A place that
//! fits twice is refused rather than guessed.

mod apply;
mod parse;
mod place;
mod unified;

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::context::ToolContext;
use super::error::ToolError;
use super::params::{Kind, Param, Params};
use super::tool::{Tool, ToolOutput, ToolSpec};
use super::workspace::WorkspaceError;

const PARAMS: Params = Params {
    tool: "apply_patch",
    list: &[Param::required(
        "patch",
        Kind::Text,
        "The patch: `*** Begin Patch`, then for each file `*** Update File: PATH` (optionally followed by \
         `*** Move to: PATH`) with hunks that start with `@@` or `@@ LINE ABOVE` and hold lines starting with a \
         space, `-` or `+`; or `*** Add File: PATH` with lines starting with `+`; or `*** Delete File: PATH`; \
         then `*** End Patch`. A unified diff is accepted too.",
    )],
};

/// Why a patch was not applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// The text is in neither notation.
    #[error("this is not a patch; hint: start with `*** Begin Patch`, or give a unified diff")]
    NotAPatch,
    /// The patch is larger than the limit.
    #[error("the patch has {bytes} bytes, more than the limit of {limit}; hint: split it")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: u64,
    },
    /// The files are together larger than the limit.
    #[error("the files to change have together more than {limit} bytes; hint: split the patch")]
    TooMuch {
        /// The limit.
        limit: u64,
    },
    /// A line of the patch cannot stand where it stands.
    #[error("line {line} of the patch: {problem}")]
    Malformed {
        /// Counted from 1.
        line: usize,
        /// What is wrong, and what is expected.
        problem: String,
    },
    /// A file to add, or to move to, exists.
    #[error("`{path}` exists already; hint: use `*** Update File`, or delete it first")]
    Exists {
        /// The path.
        path: String,
    },
    /// The file is not UTF-8.
    #[error("`{path}` is not UTF-8 text")]
    NotText {
        /// The path.
        path: String,
    },
    /// The lines of a hunk are not in the file.
    #[error(
        "the hunk at line {line} of the patch does not fit `{path}`: {problem}; hint: `read` the file and \
         copy the lines exactly"
    )]
    NoFit {
        /// Where the hunk starts in the patch, counted from 1.
        line: usize,
        /// The file.
        path: String,
        /// What was looked for.
        problem: String,
    },
    /// The lines of a hunk are in the file more than once.
    #[error(
        "the hunk at line {line} of the patch fits `{path}` at lines {places}; hint: add lines around it, \
         or `@@ LINE ABOVE`"
    )]
    Ambiguous {
        /// Where the hunk starts in the patch, counted from 1.
        line: usize,
        /// The file.
        path: String,
        /// Where it fits, counted from 1.
        places: String,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// Replacing failed midway, and so did undoing it.
    #[error("{cause}, and undoing the patch failed for {left}; hint: look at these files before going on")]
    Torn {
        /// What failed first.
        cause: WorkspaceError,
        /// The files that keep their new state.
        left: String,
    },
}

/// The files that `patch` would create, change, move or delete, in order, each once.
///
/// This is what the tool itself would touch: a text that it would refuse to parse touches nothing and has
/// none. The paths are as written in the patch, not resolved.
#[must_use]
pub fn affected_paths(patch: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for operation in parse::parse(patch).unwrap_or_default() {
        for path in operation.paths() {
            if !paths.iter().any(|known| known == path) {
                paths.push(path.to_owned());
            }
        }
    }
    paths
}

/// The tool `apply_patch`.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::tools) struct ApplyPatchTool;

#[async_trait]
impl Tool for ApplyPatchTool {
    fn definition(&self) -> ToolSpec {
        ToolSpec {
            name: PARAMS.tool.to_owned(),
            description:
                "Add, change, move and delete several text files at once. Either all of the patch is \
                          applied, or nothing is changed."
                    .to_owned(),
            input_schema: PARAMS.schema(),
        }
    }

    async fn run(&self, args: &Map<String, Value>, cx: &ToolContext) -> ToolOutput {
        apply_patch(args, cx).await.unwrap_or_else(|error| match error {
            ToolError::Patch(PatchError::Torn { .. }) => error.into(),
            error => ToolOutput::error(format!("{error}; nothing was changed")),
        })
    }
}

async fn apply_patch(args: &Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let args = PARAMS.check(args)?;
    let patch = args.need("patch")?.to_owned();
    let limit = cx.limits.file_bytes;
    if u64::try_from(patch.len()).is_ok_and(|bytes| bytes > limit) {
        return Err(PatchError::TooLarge { bytes: patch.len(), limit }.into());
    }
    let workspace = cx.workspace.clone();
    tokio::task::spawn_blocking(move || {
        let operations = parse::parse(&patch)?;
        let summary = apply::apply(&workspace, &operations, limit)?;
        let details = json!({"files": summary.len()});
        Ok(ToolOutput::text(summary.join("\n")).with_details(details))
    })
    .await?
}
