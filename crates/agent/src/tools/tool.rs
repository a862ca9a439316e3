//! What a tool is, what it answers, and the set of tools a session has.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use backstop_engine::Permitted;
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{OwnerId, ToolName};
use serde_json::{Map, Value, json};

use super::context::ToolContext;
use super::error::ToolError;
use super::exec::ExecTool;
use super::files::edit::EditTool;
use super::files::read::ReadTool;
use super::files::write::WriteTool;
use super::patch::ApplyPatchTool;
use super::process::ProcessTool;
use super::text;
use super::web_fetch::WebFetchTool;
use crate::report::ImageAttachment;

/// What a model is told about a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The name by which the model calls the tool and by which hooks match it.
    pub name: String,
    /// What the tool does, written for the model.
    pub description: String,
    /// JSON Schema of the arguments; always an object that allows no further properties.
    pub input_schema: Value,
}

/// What a tool answers to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// The text the model reads. [`Toolbox::run`] bounds it by [`Limits::output_bytes`](super::Limits).
    pub content: String,
    /// Whether the call did not do what it was asked to do.
    pub is_error: bool,
    /// Facts about the call for transcripts and displays (exit code, bytes, truncation); never sent to a
    /// model, and never holding file contents or command output.
    pub details: Value,
    /// Pictures that the model sees behind the text.
    pub images: Vec<ImageAttachment>,
}

impl ToolOutput {
    /// A successful answer without details.
    #[must_use]
    pub fn text(content: impl Into<String>) -> Self {
        Self { content: content.into(), is_error: false, details: json!({}), images: Vec::new() }
    }

    /// A failed answer without details.
    #[must_use]
    pub fn error(content: impl Into<String>) -> Self {
        Self { content: content.into(), is_error: true, ..Self::text("") }
    }

    /// The same answer with `details`.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }
}

impl From<ToolError> for ToolOutput {
    fn from(error: ToolError) -> Self {
        Self::error(error.to_string())
    }
}

/// Something a model can call.
///
/// Implementations answer every failure as a [`ToolOutput`] with `is_error`, end promptly when
/// [`ToolContext::cancel`] fires, and leave nothing running when their future is dropped.
#[async_trait]
pub trait Tool: Debug + Send + Sync {
    /// Name, description and argument schema. The same for the whole life of the tool.
    fn definition(&self) -> ToolSpec;

    /// The plugin that brings the tool; none for one of the agent's own.
    fn owner(&self) -> Option<&OwnerId> {
        None
    }

    /// Adds to the arguments what the call depends on beside them, so that it is judged, approved and recorded with
    /// it. Answers the kind of the call for hooks ([`ToolCallEvent::tool_kind`]), where it has one. Whatever is added
    /// must be checked against the facts again when the call runs: others may have changed them meanwhile.
    async fn complete(&self, _args: &mut Map<String, Value>, _cx: &ToolContext) -> Option<&'static str> {
        None
    }

    /// Whether [`complete`](Self::complete) may add something to a call. People can't change such calls: what they write would be judged
    /// without it.
    fn completes(&self) -> bool {
        false
    }

    /// Does the work. Not to be called but through [`Toolbox::run`].
    async fn run(&self, args: &Map<String, Value>, cx: &ToolContext) -> ToolOutput;
}

/// The tools of a session, in the order in which the model is told about them.
#[derive(Debug, Clone, Default)]
pub struct Toolbox {
    tools: Vec<(String, Arc<dyn Tool>)>,
}

impl Toolbox {
    /// No tools.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// The built-in tools: `read`, `write`, `edit`, `apply_patch`, `exec`, `process`, `web_fetch`.
    #[must_use]
    pub fn built_in() -> Self {
        Self::empty()
            .with(Arc::new(ReadTool))
            .with(Arc::new(WriteTool))
            .with(Arc::new(EditTool))
            .with(Arc::new(ApplyPatchTool))
            .with(Arc::new(ExecTool))
            .with(Arc::new(ProcessTool))
            .with(Arc::new(WebFetchTool))
    }

    /// The same set with `tool`; a tool of the same name is replaced in its place.
    #[must_use]
    pub fn with(mut self, tool: Arc<dyn Tool>) -> Self {
        let name = tool.definition().name;
        match self.tools.iter_mut().find(|(known, _)| *known == name) {
            Some(slot) => slot.1 = tool,
            None => self.tools.push((name, tool)),
        }
        self
    }

    /// What the model is told.
    #[must_use]
    pub fn definitions(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(|(_, tool)| tool.definition()).collect()
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|(name, _)| name.as_str())
    }

    /// The plugin that brings the tool called `name`, spelled exactly.
    #[must_use]
    pub fn owner(&self, name: &str) -> Option<&OwnerId> {
        self.get(name).and_then(|tool| tool.owner())
    }

    /// What the model is told about the tool called `name`, spelled exactly.
    #[must_use]
    pub fn definition(&self, name: &str) -> Option<ToolSpec> {
        self.get(name).map(|tool| tool.definition())
    }

    /// The call with what it depends on beside its arguments: to be asked for before it is judged.
    #[must_use = "the completed call is the one to be judged"]
    pub async fn complete(&self, mut call: ToolCallEvent, cx: &ToolContext) -> ToolCallEvent {
        if let Some((_, tool)) = self.find(&call.tool_name) {
            call.tool_owner = tool.owner().cloned();
            let mut args = call.params.clone();
            if let Some(kind) = tool.complete(args.make_mut(), cx).await {
                call.tool_kind = Some(kind.to_owned());
                call.params = args;
            }
        }
        call
    }

    /// Whether the tool that a call by this name runs may add something to the call before it is judged.
    pub fn completes(&self, tool: &ToolName) -> bool {
        self.find(tool).is_some_and(|(_, tool)| tool.completes())
    }

    fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|(known, _)| known == name).map(|(_, tool)| tool)
    }

    /// The name, as defined, of the tool that a call by this name runs: the one that is called exactly so, else
    /// the first that is the same tool by its canonical name.
    pub fn resolve(&self, tool: &ToolName) -> Option<&str> {
        self.find(tool).map(|(name, _)| name.as_str())
    }

    fn find(&self, tool: &ToolName) -> Option<&(String, Arc<dyn Tool>)> {
        let called = self.tools.iter().find(|(name, _)| name == tool.called());
        called.or_else(|| {
            self.tools.iter().find(|(name, _)| ToolName::new(name).canonical() == tool.canonical())
        })
    }

    /// Runs one call and bounds its output. The only door through which tools are run: it takes the engine's
    /// permit, and runs exactly the name and arguments that were judged.
    pub async fn run(&self, call: Permitted<ToolCallEvent>, cx: &ToolContext) -> ToolOutput {
        let ToolCallEvent { tool_name, tool_owner, params, .. } = match call.redeem() {
            Ok(judged) => judged,
            Err(error) => return ToolOutput::error(error.to_string()),
        };
        let Some((_, tool)) = self.find(&tool_name) else {
            let name = tool_name.called();
            let hint = text::did_you_mean(name, self.names());
            return ToolOutput::error(format!("there is no tool called `{tool_name}`{hint}"));
        };
        if tool.owner() != tool_owner.as_ref() {
            return ToolOutput::error(format!(
                "`{tool_name}` is another tool now than the one that was judged"
            ));
        }
        if cx.cancel.is_cancelled() {
            return ToolError::Cancelled.into();
        }
        let mut output = tool.run(&params, cx).await;
        output.content = text::bound(output.content, cx.limits.output_bytes);
        output
    }
}
