//! Tools of plugins as tools of the agent.

use async_trait::async_trait;
use backstop_agent::ImageAttachment;
use backstop_agent::tools::{Tool, ToolContext, ToolOutput, ToolSpec, Toolbox};
use backstop_hooks::conversation::ImageSource;
use backstop_hooks::{CallContext, OwnerId};
use backstop_plugins::offers::tools::{PluginTool, ToolRequest};
use backstop_plugins::set::PluginSet;
use serde_json::{Map, Value};

/// The agent's own tools, and those of plugins behind them.
pub(crate) fn toolbox(plugins: &PluginSet) -> Toolbox {
    plugins
        .tools()
        .fold(Toolbox::built_in(), |toolbox, tool| toolbox.with(std::sync::Arc::new(Brought(tool.clone()))))
}

#[derive(Debug)]
struct Brought(PluginTool);

#[async_trait]
impl Tool for Brought {
    fn definition(&self) -> ToolSpec {
        ToolSpec {
            name: self.0.name().to_owned(),
            description: self.0.description().to_owned(),
            input_schema: self.0.schema().clone(),
        }
    }

    fn owner(&self) -> Option<&OwnerId> {
        Some(self.0.owner())
    }

    async fn run(&self, args: &Map<String, Value>, cx: &ToolContext) -> ToolOutput {
        // INVARIANT (what a plugin sees): the values behind placeholders are for the agent's own tools.
        let arguments = cx.shown.as_deref().unwrap_or(args);
        let nobody = CallContext::default();
        let (id, context) = match cx.caller.as_deref() {
            Some(caller) => (caller.id.as_str(), &caller.context),
            None => ("", &nobody),
        };
        let request = ToolRequest { id, arguments, context };
        let answer = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return ToolOutput::error("the call was cancelled"),
            answer = self.0.call(request, cx.limits.time) => answer,
        };
        let image = |(mime_type, data): (String, String)| ImageAttachment {
            mime_type,
            source: ImageSource::Data(data.into()),
        };
        ToolOutput {
            content: answer.text,
            is_error: answer.is_error,
            details: answer.details,
            images: answer.images.into_iter().map(image).collect(),
        }
    }
}
