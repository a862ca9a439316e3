//! `write`: a whole file, new or replaced.

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use crate::tools::context::ToolContext;
use crate::tools::error::ToolError;
use crate::tools::params::{Kind, Param, Params};
use crate::tools::tool::{Tool, ToolOutput, ToolSpec};
use crate::tools::workspace::{Workspace, WorkspaceError};

const PARAMS: Params = Params {
    tool: "write",
    list: &[
        Param::required("path", Kind::Text, "File to write, relative to the workspace."),
        Param::required("content", Kind::Text, "The whole new contents."),
    ],
};

/// The tool `write`.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::tools) struct WriteTool;

#[async_trait]
impl Tool for WriteTool {
    fn definition(&self) -> ToolSpec {
        ToolSpec {
            name: PARAMS.tool.to_owned(),
            description:
                "Create a file, or replace all of an existing one. Missing directories are made. Use \
                          `edit` to change a part of a file."
                    .to_owned(),
            input_schema: PARAMS.schema(),
        }
    }

    async fn run(&self, args: &Map<String, Value>, cx: &ToolContext) -> ToolOutput {
        write(args, cx).await.unwrap_or_else(ToolOutput::from)
    }
}

async fn write(args: &Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let args = PARAMS.check(args)?;
    let path = args.need("path")?.to_owned();
    let content = args.need("content")?.to_owned();
    let workspace = cx.workspace.clone();
    let limit = cx.limits.file_bytes;
    tokio::task::spawn_blocking(move || Ok(replace(&workspace, &path, &content, limit)?)).await?
}

fn replace(
    workspace: &Workspace,
    path: &str,
    content: &str,
    limit: u64,
) -> Result<ToolOutput, WorkspaceError> {
    let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
    if bytes > limit {
        return Err(WorkspaceError::TooLarge { path: path.to_owned(), bytes, limit });
    }
    let _writing = workspace.exclusive();
    let at = workspace.resolve(path)?;
    let existed = workspace.exists(&at)?;
    workspace.stage(&at, content.as_bytes())?.publish()?;
    let verb = if existed { "replaced" } else { "created" };
    let details = json!({"bytes": bytes, "created": !existed});
    Ok(ToolOutput::text(format!("{verb} `{}` ({bytes} bytes)", at.shown())).with_details(details))
}
