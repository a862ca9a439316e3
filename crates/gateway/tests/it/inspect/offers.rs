//! Every tool that a request offers, wherever it stands, is told to hooks, and is not offered once one of them took it away.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use backstop_gateway::inspect::{BlockedForm, HookSettings};
use backstop_hooks::points::{BeforeLlmCall, BeforeLlmCallOutcome, ToolInfo, ToolNames};
use backstop_llm::Api;
use serde_json::{Value, json};

use super::support::*;
use crate::support::{Script, Upstream};

/// What stands for a tool that must not reach the provider: whoever offers it says so somewhere in it.
const MARK: &str = "mark-5512";

/// Requests that offer several tools, each of which has a mark of its own in it.
fn requests() -> Vec<(Api, &'static str, Value, usize)> {
    let mark = |number: usize| format!("{MARK}-{number}");
    let connector = |number: usize| json!({"type": "mcp", "server_label": "shop", "server_url": format!("https://{}.example", mark(number))});
    let labelled = |number: usize| json!({"type": "mcp", "server_label": mark(number), "server_url": "https://x.example"});
    let function =
        |number: usize| json!({"type": "function", "name": mark(number), "parameters": {"type": "object"}});
    let toolset = |number: usize| {
        json!({"type": "mcp_toolset", "mcp_server_name": mark(number),
        "default_config": {"enabled": false}, "configs": {"delete": {"enabled": true}}})
    };
    let server = |number: usize| json!({"type": "url", "name": mark(number), "url": "https://x.example"});
    let own = |number: usize| json!({"name": mark(number), "input_schema": {"type": "object"}});
    let gemini = |number: usize| json!({"name": mark(number), "streamableHttpTransport": {"url": "https://x.example"}});
    let item = |tools: Value| json!([{"type": "message", "role": "user", "content": "hi"}, {"type": "additional_tools", "tools": tools}]);
    vec![
        (Api::OpenAiResponses, "tools", json!([connector(0), connector(1), function(2)]), 3),
        (Api::OpenAiResponses, "tools", json!([labelled(0), labelled(1)]), 2),
        (
            Api::OpenAiResponses,
            "tools",
            json!([{"type": "namespace", "name": mark(0), "tools": [function(1), labelled(2), {"type": "namespace", "name": "inner", "tools": [function(3)]}]}, function(4)]),
            6,
        ),
        (Api::OpenAiResponses, "input", item(json!([labelled(0), function(1)])), 2),
        (
            Api::OpenAiChat,
            "tools",
            json!([{"type": "function", "function": {"name": mark(0), "parameters": {}}}, {"type": "custom", "custom": {"name": mark(1)}}]),
            2,
        ),
        (
            Api::OpenAiChat,
            "web_search_options",
            json!({"user_location": {"approximate": {"city": mark(0)}}}),
            1,
        ),
        (
            Api::AnthropicMessages,
            "tools",
            json!([own(0), toolset(1), toolset(2), {"type": "bash_20250124", "name": "bash"}]),
            4,
        ),
        (Api::AnthropicMessages, "mcp_servers", json!([server(0), server(1)]), 2),
        (
            Api::AnthropicMessages,
            "container",
            json!({"id": "c", "skills": [{"type": "custom", "skill_id": mark(0)}]}),
            1,
        ),
        (
            Api::AnthropicMessages,
            "fallbacks",
            json!([{"model": "m", "tools": [own(0), toolset(1)], "mcp_servers": [server(2)]}]),
            3,
        ),
        (
            Api::AnthropicMessages,
            "fallbacks",
            json!([{"model": "m", "max_tokens": 10, "future": {"id": mark(0)}}]),
            1,
        ),
        (
            Api::AnthropicMessages,
            "fallbacks",
            json!([{"model": "m", "fallbacks": [{"model": "m", "tools": [toolset(0)]}]}]),
            1,
        ),
        (
            Api::Gemini,
            "tools",
            json!([{"mcpServers": [gemini(0), gemini(1)], "googleSearch": {"x": mark(2)}, "functionDeclarations": [{"name": mark(3)}]}]),
            4,
        ),
        (
            Api::Gemini,
            "tools",
            json!([{"urlContext": {}, "codeExecution": {}}, {"mcpServers": [gemini(0)]}]),
            3,
        ),
        (Api::Gemini, "plugins", json!([{"id": mark(0)}]), 1),
    ]
}

/// What hooks are told of the tools in a request, and what the provider gets if they leave only those that `left` lets.
async fn sent(
    api: Api,
    body: &Value,
    left: impl Fn(&[ToolInfo]) -> Option<Vec<ToolInfo>> + Send + Sync + 'static,
) -> (Vec<ToolInfo>, Option<String>) {
    let house = House::new();
    let seen: Arc<Mutex<Vec<ToolInfo>>> = Arc::default();
    let told = Arc::clone(&seen);
    house.judge::<BeforeLlmCall>("narrows", move |event| {
        told.lock().unwrap().clone_from(&event.tools);
        left(&event.tools).map(|left| BeforeLlmCallOutcome {
            tools: Some(ToolNames(left)),
            ..BeforeLlmCallOutcome::default()
        })
    });
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let settings = HookSettings { blocked: BlockedForm::Error, ..HookSettings::default() };
    let gateway = house.gateway(&upstream.url(), settings).await;
    let answer = send(&gateway, api, body).await;
    let seen = seen.lock().unwrap().clone();
    match upstream.count() {
        0 => {
            assert_eq!(answer.status(), 403, "{}", answer.text());
            (seen, None)
        }
        _ => (seen, Some(upstream.request(0))),
    }
}

fn said(tool: &ToolInfo) -> String {
    serde_json::to_string(tool).unwrap()
}

/// The marks in a text.
fn marks(text: &str) -> BTreeSet<String> {
    text.match_indices(MARK)
        .filter_map(|(at, _)| text.get(at..at + MARK.len() + 2))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn every_tool_is_told_and_none_that_was_taken_away_is_offered() {
    for (api, field, value, count) in requests() {
        let mut body = ask(api, false, "hi");
        body[field] = value;
        let context = format!("{api} {field}: {body}");
        let (all, untouched) = sent(api, &body, |_| None).await;
        assert_eq!(all.len(), count, "{context}: {all:?}");
        let names: BTreeSet<&str> = all.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names.len(), all.len(), "no two of one name: {context}: {names:?}");
        let offered = marks(&untouched.unwrap());
        assert_eq!(marks(&all.iter().map(said).collect::<String>()), offered, "{context}");
        for (gone, taken) in all.iter().enumerate() {
            let (_, left) = sent(api, &body, move |tools| {
                Some(
                    tools
                        .iter()
                        .enumerate()
                        .filter(|(at, _)| *at != gone)
                        .map(|(_, tool)| tool.clone())
                        .collect(),
                )
            })
            .await;
            // What says more than the tool itself holds others, which go with it.
            let (own, sent) = (marks(&said(taken)), left.as_deref().map(marks).unwrap_or_default());
            assert!(own.is_disjoint(&sent), "{gone}: {context}: {left:?}");
            assert!(sent.is_subset(&offered), "{gone}: {context}");
            if own.is_empty() {
                assert!(left.as_ref() != Some(&body.to_string()), "{gone}: {context}");
            }
        }
    }
}

#[tokio::test]
async fn a_connector_is_told_with_its_name_its_server_and_its_tools() {
    let mut body = ask(Api::Gemini, false, "hi");
    body["tools"] = json!([{"googleSearch": {}, "mcpServers": [
        {"name": "one", "streamableHttpTransport": {"url": "https://one.example"}},
        {"name": "two", "streamableHttpTransport": {"url": "https://two.example"}, "allowed_tools": ["look"]}]}]);
    let (told, _) = sent(Api::Gemini, &body, |_| None).await;
    let told: Vec<_> = told
        .iter()
        .map(|tool| {
            (tool.name.as_str(), tool.server.as_deref(), tool.allowed_tools.clone(), tool.provider_run)
        })
        .collect();
    assert_eq!(
        told,
        [
            ("googleSearch", None, None, Some(true)),
            ("one", Some("https://one.example"), None, Some(true)),
            ("two", Some("https://two.example"), Some(vec!["look".to_owned()]), Some(true)),
        ]
    );
}
