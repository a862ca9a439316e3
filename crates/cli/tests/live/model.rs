//! The scripted model: which tools it asks for, and what it was told.

use backstop::hooks::conversation::ToolResult;
use backstop::llm::{RecordedRequest, Script, ScriptedServer, ServerOptions};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// A tool call that the model makes.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Codex groups its tools, and a call names the group.
    group: Option<&'static str>,
    tool: &'static str,
    arguments: Value,
    /// What the result of the call before it contains; without it, it is the first of its conversation.
    after: Option<&'static str>,
    /// How long the model thinks before it, in milliseconds.
    delay: u64,
}

impl Call {
    pub(crate) fn new(tool: &'static str, arguments: Value) -> Self {
        Self { group: None, tool, arguments, after: None, delay: 0 }
    }

    pub(crate) fn within(group: &'static str, tool: &'static str, arguments: Value) -> Self {
        Self { group: Some(group), ..Self::new(tool, arguments) }
    }

    pub(crate) fn after(self, result: &'static str) -> Self {
        Self { after: Some(result), ..self }
    }

    /// The call once more, after time enough for a human to read what was said about it.
    pub(crate) fn again(self, said: &'static str) -> Self {
        Self { delay: 5000, ..self.after(said) }
    }

    /// The calls in one turn, beside each other. None of them may be in a group, or after another.
    pub(crate) fn beside(calls: &[Self]) -> Value {
        let first = calls.first().unwrap().tool;
        let all: Vec<_> =
            calls.iter().map(|call| json!({ "name": call.tool, "arguments": call.arguments })).collect();
        json!({ "when": { "tools": [first], "tool_result": false }, "tool_calls": all })
    }

    /// The turn in which the model makes this call, once.
    fn turn(&self) -> Value {
        if let Some(result) = self.after {
            return json!({
                "when": { "tool_result_contains": result },
                "delay_ms": self.delay,
                "tool_calls": [{ "name": self.tool, "arguments": self.arguments }],
            });
        }
        match self.group {
            None => json!({
                "when": { "tools": [self.tool], "tool_result": false },
                "tool_calls": [{ "name": self.tool, "arguments": self.arguments }],
            }),
            Some(group) => json!({
                "when": { "tools": ["exec_command"], "tool_result": false },
                "fault": { "raw_sse": self.grouped(group) },
            }),
        }
    }

    /// The answer on the Responses wire, by hand: scripts have no groups.
    fn grouped(&self, group: &str) -> String {
        let arguments = self.arguments.to_string();
        let item = json!({
            "type": "function_call", "id": "fc_1", "call_id": "call_grouped", "namespace": group,
            "name": self.tool, "arguments": arguments, "status": "completed",
        });
        let response =
            json!({ "id": "resp_1", "object": "response", "model": "scripted-model", "output": [] });
        let done = json!({
            "id": "resp_1", "object": "response", "model": "scripted-model", "status": "completed", "output": [item],
            "usage": { "input_tokens": 1, "output_tokens": 1, "total_tokens": 2 },
        });
        let events = [
            json!({ "type": "response.created", "response": response }),
            json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
            json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
            json!({ "type": "response.completed", "response": done }),
        ];
        let frame = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
        events.iter().map(frame).collect()
    }
}

/// A model that makes some calls, one for each conversation that begins, and then says that it is done.
pub(crate) struct Model {
    runtime: Runtime,
    server: ScriptedServer,
}

impl Model {
    /// With `at_once`, all calls are in the first answer.
    pub(crate) fn start(calls: &[Call], at_once: bool) -> Self {
        let mut turns: Vec<_> =
            if at_once { vec![Call::beside(calls)] } else { calls.iter().map(Call::turn).collect() };
        turns.push(json!({ "repeat": true, "text": "Done." }));
        let script = Script::parse(&json!({ "turns": turns }).to_string()).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = runtime.block_on(ScriptedServer::start(script, ServerOptions::default())).unwrap();
        Self { runtime, server }
    }

    pub(crate) fn address(&self) -> String {
        self.server.base_url()
    }

    /// What it was asked so far.
    pub(crate) fn heard(&self) -> Heard {
        Heard(self.server.requests())
    }

    /// Stops it and tells what it was asked.
    pub(crate) fn stop(self) -> Heard {
        let heard = self.heard();
        self.runtime.block_on(self.server.shut_down());
        heard
    }
}

/// All that a model read.
pub(crate) struct Heard(Vec<RecordedRequest>);

impl Heard {
    pub(crate) fn requests(&self) -> usize {
        self.0.len()
    }

    /// The text of every tool result, in every request.
    pub(crate) fn results(&self) -> Vec<String> {
        let messages = self.0.iter().flat_map(|asked| &asked.request.messages);
        let results = messages.flat_map(|message| message.tool_results().map(ToolResult::visible_text));
        let mut texts: Vec<_> = results.collect();
        texts.dedup();
        texts
    }

    /// All messages as they came.
    pub(crate) fn everything(&self) -> String {
        let messages: Vec<_> = self.0.iter().map(|asked| &asked.request.messages).collect();
        serde_json::to_string(&messages).unwrap()
    }
}
