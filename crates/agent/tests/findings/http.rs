//! The same turns over HTTP, on each wire, with answers that are as bad as they get.

use std::sync::Arc;

use backstop_hooks::hook_fn;
use backstop_hooks::points::{BeforeToolCall, ToolCallEvent, ToolCallOutcome};
use backstop_llm::{Api, ProviderClient, ProviderSettings, Script, ScriptedServer, ServerOptions};
use serde_json::json;

use crate::support::{Bench, answered, assert_whole, says};

#[tokio::test]
async fn a_transcript_that_was_repaired_is_taken_by_every_wire() {
    for api in [Api::AnthropicMessages, Api::OpenAiChat] {
        let script = json!({ "turns": [
            { "fault": { "http_status": { "status": 429, "retry_after": 0.01 } } },
            { "text": "Let me see.", "tool_calls": [
                { "id": "x", "name": "exec", "arguments": { "command": "echo hunter2" } },
                { "id": "x", "name": "exec", "arguments": { "command": "echo again" } },
                { "id": "y", "name": "exec", "arguments": "{\"command\": " },
                { "id": "z", "name": "write", "arguments": { "path": "a.txt", "content": "x" } },
                { "id": "w", "name": "exec", "arguments": { "command": "printf '\\377ok'" } },
            ] },
            { "expect": { "tool_result_contains": "no commands" }, "text": "Done." },
            { "expect": { "user_contains": "again" }, "text": "Still here." },
        ] });
        let script = Script::parse(&script.to_string()).unwrap();
        let server = ScriptedServer::start(script, ServerOptions::default()).await.unwrap();
        let client = ProviderClient::new(ProviderSettings::new("http", api, server.base_url())).unwrap();
        let bench = Bench::with([says("never")], |setup| {
            setup.other_model = Some(Arc::new(client));
            setup.settings.provider = "http".to_owned();
        });
        bench.on::<BeforeToolCall>(hook_fn(|event: &ToolCallEvent, _| {
            let write = event.tool_name.canonical() == "write";
            Ok(write.then(|| ToolCallOutcome::block("no commands")))
        }));
        let session = bench.session().await;
        assert_eq!(bench.say(&session, "go").await.outcome, answered("Done."));
        assert_eq!(bench.say(&session, "and again").await.outcome, answered("Still here."));
        let messages = bench.transcript(&session).await;
        assert_whole(&messages);
        let report = server.shut_down().await;
        assert!(report.is_clean(), "{api:?}: {report}");
        assert!(bench.stored(&session).await.contains("\u{fffd}ok"), "bytes that are no text become text");
    }
}
