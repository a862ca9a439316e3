//! The built-in tools on real files, real processes and a real server on loopback.
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail loudly")]

mod exec;
mod files;
mod patch;
mod process;
mod schema;
mod web;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use backstop_agent::tools::{Limits, ToolContext, ToolOutput, Toolbox, Workspace};
use backstop_engine::{Attendance, Engine, Permitted};
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{CallContext, Params};
use serde_json::Value;

/// A workspace in a temporary folder, and the tools in it.
struct Bench {
    cx: ToolContext,
    tools: Toolbox,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("root")).unwrap();
        let workspace = Workspace::open(folder.path().join("root")).unwrap();
        Self { cx: ToolContext::new(workspace, limits), tools: Toolbox::built_in(), folder }
    }

    /// Judges a call, by no hook, and runs it.
    async fn run(&self, tool: &str, args: Value) -> ToolOutput {
        let permit = self.permit(self.complete(tool, args).await).await;
        self.tools.run(permit, &self.cx).await
    }

    /// A call as it is judged.
    async fn complete(&self, tool: &str, args: Value) -> ToolCallEvent {
        let event = ToolCallEvent::new(tool, Params::from_value(args).unwrap());
        self.tools.complete(event, &self.cx).await
    }

    async fn permit(&self, event: ToolCallEvent) -> Permitted<ToolCallEvent> {
        let engine = Engine::builder().build();
        engine.permit_tool_call(event, &CallContext::default(), &Attendance::Nobody).await.permit.unwrap()
    }

    /// Runs a call that is to succeed, and answers its text.
    async fn ok(&self, tool: &str, args: Value) -> String {
        let output = self.run(tool, args).await;
        assert!(!output.is_error, "{}", output.content);
        output.content
    }

    /// Runs a call that is to fail, and answers its text.
    async fn fails(&self, tool: &str, args: Value) -> String {
        let output = self.run(tool, args).await;
        assert!(output.is_error, "{}", output.content);
        output.content
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("root").join(name)
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    /// Whether a command has written a whole line into a file: the file is there before the line is.
    fn wrote(&self, name: &str) -> bool {
        std::fs::read_to_string(self.path(name)).is_ok_and(|text| text.ends_with('\n'))
    }

    fn get(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The names in the workspace, sorted.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path("")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Waits for `holds`, for ten seconds at most.
async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
