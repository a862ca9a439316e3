//! What the provider's own tools brought in is judged before it is shown.

use backstop_gateway::inspect::HookSettings;
use backstop_hooks::conversation::{Part, ToolResult};
use backstop_hooks::hook_fn;
use backstop_hooks::points::{ToolAfter, ToolAfterOutcome};
use backstop_llm::Api;
use serde_json::{Value, json};

use super::support::*;
use crate::support::{Script, Upstream};

/// A result, in each form of an answer that has one.
struct Shown {
    api: Api,
    stream: bool,
    tool: &'static str,
    body: String,
}

fn events(all: &[Value]) -> String {
    let mut body = String::new();
    for event in all {
        if let Some(name) = event["type"].as_str() {
            body += &format!("event: {name}\n");
        }
        body += &format!("data: {event}\n\n");
    }
    body
}

fn message(content: &Value) -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": "end_turn", "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}})
}

fn anthropic(block: &Value) -> [String; 2] {
    let text = json!({"type": "text", "text": "Fine."});
    let mut start = message(&json!([]));
    start["stop_reason"] = Value::Null;
    let mut all = vec![json!({"type": "message_start", "message": start})];
    for (index, block) in [block, &text].into_iter().enumerate() {
        all.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        all.push(json!({"type": "content_block_stop", "index": index}));
    }
    all.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 2}}));
    all.push(json!({"type": "message_stop"}));
    [message(&json!([block, text])).to_string(), events(&all)]
}

fn responses(item: &Value) -> [String; 2] {
    let text = json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
        "content": [{"type": "output_text", "text": "Fine.", "annotations": []}]});
    let frame = |status: &str, output: Value| json!({"id": "resp_1", "object": "response", "status": status, "model": "m", "output": output});
    let mut all = vec![json!({"type": "response.created", "response": frame("in_progress", json!([]))})];
    for (index, item) in [item, &text].into_iter().enumerate() {
        all.push(json!({"type": "response.output_item.added", "output_index": index, "item": item}));
        all.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    let whole = frame("completed", json!([item, text]));
    all.push(json!({"type": "response.completed", "response": whole}));
    for (number, event) in all.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
    }
    [whole.to_string(), events(&all)]
}

fn gemini(candidate: Value) -> [String; 2] {
    let mut candidate = candidate;
    candidate["finishReason"] = "STOP".into();
    candidate["index"] = 0.into();
    let body = json!({"responseId": "g", "modelVersion": "m", "candidates": [candidate]});
    [body.to_string(), events(&[body])]
}

fn chat(annotations: &Value, citations: &Value) -> [String; 2] {
    let said = json!({"role": "assistant", "content": "Fine.", "annotations": annotations});
    let body = |object: &str, field: &str, reason: Value| {
        let choice = json!({"index": 0, field: said, "finish_reason": reason});
        json!({"id": "c", "object": object, "model": "m", "citations": citations, "choices": [choice]})
    };
    let first = body("chat.completion.chunk", "delta", Value::Null);
    let last = json!({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let streamed = events(&[first, last]) + "data: [DONE]\n\n";
    [body("chat.completion", "message", "stop".into()).to_string(), streamed]
}

fn shown(said: &str) -> Vec<Shown> {
    let found = json!({"type": "web_search_result", "title": said, "url": "https://example.com", "encrypted_content": "c2VhbGVk"});
    let search = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [found]});
    let code = json!({"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_2",
        "content": {"type": "code_execution_result", "stdout": said, "stderr": "", "return_code": 0, "content": []}});
    let cited = json!({"type": "text", "text": "So.", "citations": [{"type": "char_location", "cited_text": said, "document_index": 0, "start_char_index": 0, "end_char_index": 1}]});
    let listed = json!({"type": "mcp_tool_listing", "server_name": "shop", "tools": [{"name": "list", "description": said}]});
    let mcp = json!({"type": "mcp_call", "id": "mcp_1", "server_label": "shop", "name": "list", "arguments": "{}", "output": said});
    let files = json!({"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"], "results": [{"file_id": "f", "text": said}]});
    let run = json!({"type": "code_interpreter_call", "id": "ci_1", "status": "completed", "code": "x", "container_id": "c", "outputs": [{"type": "logs", "logs": said}]});
    let quoted = json!({"type": "message", "id": "msg_0", "status": "completed", "role": "assistant",
        "content": [{"type": "output_text", "text": "So.", "annotations": [{"type": "url_citation", "title": said, "url": "https://example.com", "start_index": 0, "end_index": 1}]}]});
    let grounded = json!({"content": {"role": "model", "parts": [{"text": "Fine."}]},
        "groundingMetadata": {"groundingChunks": [{"web": {"uri": "https://example.com", "title": said}}]}});
    let executed = json!({"content": {"role": "model", "parts": [{"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": said}}, {"text": "Fine."}]}});
    let annotation = json!([{"type": "url_citation", "url_citation": {"title": said, "url": "https://example.com", "start_index": 0, "end_index": 1}}]);
    let all = [
        (Api::AnthropicMessages, "web_search", anthropic(&search)),
        (Api::AnthropicMessages, "code_execution", anthropic(&code)),
        (Api::AnthropicMessages, "mcp", anthropic(&listed)),
        (Api::AnthropicMessages, "citations", anthropic(&cited)),
        (Api::OpenAiResponses, "mcp", responses(&mcp)),
        (Api::OpenAiResponses, "file_search", responses(&files)),
        (Api::OpenAiResponses, "code_execution", responses(&run)),
        (Api::OpenAiResponses, "citations", responses(&quoted)),
        (Api::Gemini, "web_search", gemini(grounded)),
        (Api::Gemini, "code_execution", gemini(executed)),
        (Api::OpenAiChat, "citations", chat(&annotation, &Value::Null)),
        (Api::OpenAiChat, "provider_tool", chat(&json!([]), &json!([said]))),
    ];
    let forms = all.into_iter().flat_map(|(api, tool, bodies)| {
        let forms = [false, true].into_iter().zip(bodies);
        forms.map(move |(stream, body)| Shown { api, stream, tool, body })
    });
    forms.collect()
}

async fn answered(house: &House, shown: &Shown) -> crate::support::Answer {
    let script =
        if shown.stream { Script::events(&[&shown.body]) } else { Script::json("200 OK", &shown.body) };
    let upstream = Upstream::start(move |_| script.clone()).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    send_to(&gateway, shown.api, shown.stream, &ask(shown.api, shown.stream, "hi")).await
}

/// Takes [`SECRET`] out of results of `tool`.
fn redacting(tool: &'static str) -> House {
    let house = House::new();
    let hook = hook_fn::<ToolAfter, _>(move |event, _| {
        let [Part::Unknown { raw }] = event.result.content.as_slice() else { panic!("{event:?}") };
        let raw = raw.to_value().to_string();
        assert!(!raw.contains("c2VhbGVk"), "what is sealed is shown to nobody");
        let cleaned = serde_json::from_str::<Value>(&raw.replace(SECRET, "[gone]")).unwrap();
        let result =
            ToolResult { content: vec![Part::Unknown { raw: cleaned.into() }], ..event.result.clone() };
        let is_meant = event.tool_name.called() == tool && raw.contains(SECRET);
        Ok(is_meant.then_some(ToolAfterOutcome { result: Some(result) }))
    });
    house.on::<ToolAfter>("redacts", hook);
    house
}

#[tokio::test]
async fn results_are_redacted_in_their_place() {
    for shown in shown(&format!("the word is {SECRET} here")) {
        let context = format!("{} {} {}", shown.api, shown.stream, shown.tool);
        let answer = answered(&redacting(shown.tool), &shown).await;
        assert_eq!(answer.status(), 200, "{context}: {}", answer.text());
        let body = answer.body().0;
        let expected = shown.body.replace(SECRET, "[gone]");
        assert_eq!(body, expected, "{context}");
        assert!(body.contains("Fine.") && read(shown.api, &answer).message.has_text(), "{context}");
    }
}

#[tokio::test]
async fn results_that_pass_leave_as_they_came() {
    for shown in shown("nothing of note") {
        let answer = answered(&redacting(shown.tool), &shown).await;
        assert_eq!(answer.body().0, shown.body, "{} {} {}", shown.api, shown.stream, shown.tool);
    }
}

#[tokio::test]
async fn a_result_that_may_not_be_shown_ends_the_answer() {
    for shown in shown(&format!("the word is {SECRET} here")) {
        let house = House::new();
        let withhold = hook_fn::<ToolAfter, _>(move |event, _| {
            let content = vec![Part::text("withheld: a word")];
            let result = ToolResult { content, is_error: true, ..event.result.clone() };
            let is_meant = event.tool_name.called() == shown.tool;
            Ok(is_meant.then_some(ToolAfterOutcome { result: Some(result) }))
        });
        house.on::<ToolAfter>("withholds", withhold);
        let answer = answered(&house, &shown).await;
        let context = format!("{} {} {}: {}", shown.api, shown.stream, shown.tool, answer.text());
        assert!(!answer.text().contains(SECRET), "{context}");
        assert!(answer.text().contains("withheld: a word"), "{context}");
        assert!(!answer.text().contains("Fine."), "what follows is gone with it: {context}");
    }
}

/// The wire has no place for what a hook says beside the content, so it is not dropped in silence.
#[tokio::test]
async fn a_result_that_can_not_be_told_as_it_was_decided_ends_the_answer() {
    type Change = fn(&mut ToolResult);
    let changes: [Change; 4] = [
        |result| result.is_error = true,
        |result| result.details = Some(json!({"why": "no"}).into()),
        |result| result.meta = Some(json!({"why": "no"}).into()),
        // The first hit is gone, and the seals stand by place.
        |result| {
            let [Part::Unknown { raw }] = result.content.as_slice() else { panic!("{result:?}") };
            let mut raw = raw.to_value();
            raw["content"] = json!([]);
            result.content = vec![Part::Unknown { raw: raw.into() }];
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        for shown in shown("nothing of note").into_iter().filter(|shown| shown.tool == "web_search").take(2) {
            let house = House::new();
            let hook = hook_fn::<ToolAfter, _>(move |event, _| {
                let mut result = event.result.clone();
                change(&mut result);
                Ok(Some(ToolAfterOutcome { result: Some(result) }))
            });
            house.on::<ToolAfter>("changes", hook);
            let answer = answered(&house, &shown).await;
            let context = format!("{number} {}: {}", shown.stream, answer.text());
            assert!(!answer.text().contains("nothing of note"), "{context}");
            assert!(!answer.text().contains("Fine."), "{context}");
        }
    }
}
