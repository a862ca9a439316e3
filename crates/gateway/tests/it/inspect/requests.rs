//! What models get of judged requests.

use std::sync::{Arc, Mutex};

use backstop_engine::Verdict;
use backstop_gateway::inspect::{BlockedForm, HookSettings, Hooks};
use backstop_gateway::{AllowedOperation, Credential, Family, Settings};
use backstop_hooks::PointId;
use backstop_hooks::conversation::Message;
use backstop_hooks::points::{
    BeforeLlmCall, BeforeLlmCallOutcome, BeforeResponseEmit, BeforeToolCall, MessageBefore,
    MessageBeforeOutcome, PROVIDER_TOOL, ToolCallOutcome, ToolInfo, ToolNames,
};
use backstop_llm::{Api, ScriptedServer};
use serde_json::{Value, json};

use super::support::*;
use crate::support::{Script, TOKEN, Upstream, gateway, post, provider, secret, start, talk};

async fn polite() -> ScriptedServer {
    model(json!([{"repeat": true, "text": "fine"}])).await
}

fn stop(house: &House) {
    house.judge::<BeforeLlmCall>("no", |_| {
        Some(BeforeLlmCallOutcome {
            block: Some(true),
            block_reason: Some("not today".into()),
            ..BeforeLlmCallOutcome::default()
        })
    });
}

#[tokio::test]
async fn a_blocked_request_reaches_no_model() {
    for (api, stream) in forms() {
        for form in [BlockedForm::Answer, BlockedForm::Error] {
            let house = House::new();
            stop(&house);
            let model = polite().await;
            let settings = HookSettings { blocked: form, ..HookSettings::default() };
            let gateway = house.gateway(&model.base_url(), settings).await;
            let answer = send_to(&gateway, api, stream, &ask(api, stream, SECRET)).await;
            let context = format!("{api} {stream} {form:?}: {}", answer.text());
            assert!(model.requests().is_empty(), "{context}");
            assert!(!answer.text().contains(SECRET), "{context}");
            match form {
                BlockedForm::Answer => {
                    assert_eq!(answer.status(), 200, "{context}");
                    assert_eq!(is_streamed(&answer), stream, "{context}");
                    assert_eq!(read(api, &answer).message.visible_text(), "[backstop] blocked: not today");
                }
                BlockedForm::Error => {
                    assert_eq!(answer.status(), 403, "{context}");
                    assert!(!answer.text().contains("invalid_api_key"), "{context}");
                    let has_codes = matches!(api, Api::OpenAiChat | Api::OpenAiResponses);
                    assert_eq!(answer.text().contains("blocked_by_policy"), has_codes, "{context}");
                }
            }
            assert_eq!(house.receipts.of(PointId::BeforeLlmCall), [Verdict::Block]);
            assert!(!house.receipts.all().contains(SECRET));
        }
    }
}

#[tokio::test]
async fn counting_tokens_passes_the_same_gates() {
    for (api, path, count) in [
        (Api::AnthropicMessages, "/v1/messages/count_tokens", "input_tokens"),
        (Api::OpenAiResponses, "/v1/responses/input_tokens", "input_tokens"),
        (Api::Gemini, "/v1beta/models/m:countTokens", "totalTokens"),
    ] {
        let house = House::new();
        stop(&house);
        let model = polite().await;
        let gateway = house.gateway(&model.base_url(), HookSettings::default()).await;
        let mut body = ask(api, false, "hi");
        for field in ["max_tokens", "stream"] {
            body.as_object_mut().unwrap().remove(field);
        }
        let answer = talk(&gateway, post(path, &body.to_string())).await;
        assert_eq!(answer.status(), 403, "{path}: {}", answer.text());
        assert!(model.requests().is_empty());
        house.engine.registry().remove(&"no".into());
        house.judge::<BeforeLlmCall>("rewrites", |_| {
            Some(BeforeLlmCallOutcome {
                system_prompt: Some("be kind".into()),
                ..BeforeLlmCallOutcome::default()
            })
        });
        let answer = talk(&gateway, post(path, &body.to_string())).await;
        assert_eq!(answer.status(), 200, "{path}: {}", answer.text());
        assert!(answer.json()[count].is_number(), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_rewrite_changes_what_it_changes_and_nothing_else() {
    let house = House::new();
    house.judge::<BeforeLlmCall>("rewrites", |event| {
        assert_eq!((event.iteration, event.model.as_str()), (1, "m"));
        assert!(event.token_estimate > 0);
        let mut messages = event.messages.clone();
        let text = messages[0].visible_text().replace(SECRET, "[gone]");
        messages[0].set_visible_text(&text.into());
        Some(BeforeLlmCallOutcome {
            messages: Some(messages),
            // A field that nobody knows is told of as a tool, and stays with it.
            tools: Some(ToolNames::new(["read", "unknown"])),
            ..BeforeLlmCallOutcome::default()
        })
    });
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let before = r#"{ "unknown": {"b":1, "a":[ ]},"model":"m","max_tokens":9,"messages":[
        {"role":"user","content":[{"type":"text","text":"it is sw0rdfish-9151","cache_control":{"type":"ephemeral"}}]},
        {"role":"assistant","content":[{"type":"thinking","thinking":"so","signature":"c2ln"},{"type":"text","text":"ok\u0021"}]},
        {"role":"user","content":"go on"}],
        "tools":[{"name":"read","input_schema":{"type":"object"}},{"name":"exec","input_schema":{"type":"object"}}],
        "tool_choice":{"type":"tool","name":"exec"}}"#;
    talk(&gateway, post("/v1/messages", before)).await;
    let sent = upstream.request(0);
    let body = sent.split_once("\r\n\r\n").unwrap().1;
    assert!(!body.contains(SECRET), "{body}");
    for kept in [
        r#"{ "unknown": {"b":1, "a":[ ]},"model":"m""#,
        r#""text":"it is [gone]","cache_control":{"type":"ephemeral"}"#,
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"so","signature":"c2ln"},{"type":"text","text":"ok\u0021"}]}"#,
        r#"{"role":"user","content":"go on"}"#,
    ] {
        assert!(body.contains(kept), "{kept} is not in {body}");
    }
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["tools"].as_array().unwrap().len(), 1);
    assert!(body.get("tool_choice").is_none(), "{body}");
}

#[tokio::test]
async fn every_message_of_the_human_is_rewritten_in_every_later_request() {
    let house = House::new();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&asked);
    house.judge::<MessageBefore>("rewrites", move |event| {
        heard.lock().unwrap().push(event.message.to_string());
        event.message.contains(SECRET).then(|| MessageBeforeOutcome {
            message: Some(event.message.replace(SECRET, "[gone]").into()),
            ..MessageBeforeOutcome::default()
        })
    });
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let mut messages = vec![json!({"role": "user", "content": format!("first {SECRET}")})];
    let body = |messages: &[Value]| json!({"model": "m", "messages": messages});
    send(&gateway, Api::OpenAiChat, &body(&messages)).await;
    messages.push(json!({"role": "assistant", "content": "ok"}));
    messages.push(json!({"role": "user", "content": format!("second {SECRET}")}));
    send(&gateway, Api::OpenAiChat, &body(&messages)).await;
    for request in 0..2 {
        assert!(!upstream.request(request).contains(SECRET), "{}", upstream.request(request));
    }
    assert!(upstream.request(1).contains("first [gone]") && upstream.request(1).contains("second [gone]"));
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked, [format!("first {SECRET}"), format!("second {SECRET}")], "each is judged once");
}

#[tokio::test]
async fn results_of_tools_are_judged_before_a_model_reads_them() {
    let results = [
        (Api::OpenAiChat, json!({"role": "tool", "tool_call_id": "c1", "content": SECRET})),
        (
            Api::AnthropicMessages,
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": SECRET}]}),
        ),
    ];
    for (api, result) in results {
        let house = House::new();
        house.judge::<BeforeLlmCall>("looks", |event| {
            let seen = event.messages.iter().flat_map(Message::tool_results);
            let found = seen.into_iter().any(|result| result.visible_text().contains(SECRET));
            Some(BeforeLlmCallOutcome { block: Some(found), ..BeforeLlmCallOutcome::default() })
        });
        let model = polite().await;
        let gateway = house.gateway(&model.base_url(), HookSettings::default()).await;
        let mut body = ask(api, false, "hi");
        let call = match api {
            Api::OpenAiChat => json!({"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]}),
            _ => {
                json!({"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {}}]})
            }
        };
        body["messages"].as_array_mut().unwrap().extend([call, result]);
        let answer = send(&gateway, api, &body).await;
        assert!(answer.text().contains("blocked"), "{api}: {}", answer.text());
        assert!(model.requests().is_empty());
    }
}

const GEMINI: &str = r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#;

#[tokio::test]
async fn what_nobody_can_read_is_refused_while_something_may_be_stopped() {
    let house = House::new();
    house.judge::<BeforeLlmCall>("looks", |_| None);
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let bad = [
        ("/v1/messages", "{\"model\": \"m\""),
        ("/v1/messages", "[]"),
        ("/v1/messages", r#"{"model":"m","model":"n","max_tokens":1,"messages":[]}"#),
        ("/v1/chat/completions", r#"{"model":"m"}"#),
        ("/v1/completions", r#"{"model":"m","prompt":[1]}"#),
        ("/v1/files", r#"{"purpose":"x","text":"prose"}"#),
        ("/v1/messages/batches", r#"{"requests":[7]}"#),
        ("/v1/threads/t/runs", "{}"),
        ("/v1/%63ompletions", r#"{"model":"m","prompt":[1]}"#),
        // A version that the provider's own stands in for.
        ("/v2/messages", r#"{"prompt":"hi"}"#),
        ("/p/openai/v1beta/responses", r#"{"model":"m","input":"hi"}"#),
        // A model at its own address, and servers with a form of their own.
        ("/v1/models/m:batchGenerateContent", "{}"),
        ("/v1/publishers/p/models/m:streamRawPredict", "{}"),
        ("/models/maker/name", r#"{"inputs":"hi"}"#),
        ("/v1beta/models/aqa:generateAnswer", "{}"),
        ("/api/generate", r#"{"model":"m","prompt":"hi"}"#),
        ("/v1/videos", r#"{"prompt":"hi"}"#),
        ("/v1/responses/input_tokens", "[]"),
        ("/v1beta/models/m:countTokens", r#"{"generateContentRequest":{"contents":[]}}"#),
        // Another wire: what is Gemini's stands one level deeper.
        ("/v1internal:generateContent", GEMINI),
        ("/v1internal:streamGenerateContent?alt=sse", r#"{"model":"m","request":{"contents":[]}}"#),
        ("/v1beta/models/m:streamGenerateContent", "[]"),
    ];
    for (path, body) in bad {
        let answer = talk(&gateway, post(path, body)).await;
        assert!([400, 403].contains(&answer.status()), "{path}: {}", answer.text());
        assert!(answer.json()["error"]["message"].as_str().unwrap().starts_with("backstop: "), "{path}");
    }
    assert_eq!(upstream.count(), 0);
    for path in
        ["/v1/embeddings", "/v1/files", "/v1beta/models/m:embedContent", "/v1/models/m:batchEmbedContents"]
    {
        assert_eq!(talk(&gateway, post(path, "{}")).await.status(), 200, "{path}");
    }
}

#[tokio::test]
async fn an_operation_that_is_not_listed_is_refused_by_name_until_it_is_opened() {
    let house = House::new();
    house.withhold("exec");
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    for path in ["/v1/decisions", "/v1/dreams", "/v1/organization/admin_api_keys", "/v1/videos"] {
        let answer = talk(&gateway, post(path, "{}")).await;
        let (status, error) = (answer.status(), answer.json()["error"].clone());
        let message = error["message"].as_str().unwrap();
        assert_eq!((status, &error["code"]), (403, &json!("operation_not_allowed")), "{path}");
        assert!(message.contains(&format!("`POST {path}`")), "{message}");
        assert!(message.contains(&format!("hint: `gateway.allow: [\"POST {path}\"]`")), "{message}");
    }
    assert_eq!(upstream.count(), 0);
    let mut settings = settings_of(&upstream.url());
    settings.allow = vec![AllowedOperation::new("POST", "/v1/videos").unwrap()];
    let hooks = Hooks::new(house.engine.clone(), HookSettings::default()).unwrap();
    let gateway = start(settings, hooks).await.unwrap();
    assert_eq!(talk(&gateway, post("/v1/images/edits", "{}")).await.status(), 200);
    assert_eq!(talk(&gateway, post("/v1/dreams", "{}")).await.status(), 403);
    assert_eq!(upstream.count(), 1);
}

/// Nobody judges, but the operator pays, and may have more to lose than money.
#[tokio::test]
async fn with_the_operators_key_only_what_is_listed_passes() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    for (credential, status, reached) in
        [(Credential::Key(secret("operators-key-1")), 403, 1), (Credential::Client, 200, 3)]
    {
        let mut settings = Settings::new(secret(TOKEN));
        settings.providers.insert("one".to_owned(), provider(Family::OpenAi, &upstream.url(), credential));
        settings.defaults.insert(Family::OpenAi, vec!["one".to_owned()]);
        let gateway = gateway(settings).await;
        assert_eq!(talk(&gateway, post("/v1/fine_tuning/jobs", "{}")).await.status(), status);
        assert_eq!(talk(&gateway, post("/v1/embeddings", "{}")).await.status(), 200);
        assert_eq!(upstream.count(), reached);
    }
}

/// Denies calls of every tool whose name begins with `web_`.
fn no_web(house: &House) {
    house.judge::<BeforeToolCall>("no-web", |event| {
        event.tool_name.called().starts_with("web_").then(|| ToolCallOutcome::block("no web"))
    });
}

#[tokio::test]
async fn a_tool_that_the_provider_runs_is_not_offered_if_it_is_denied() {
    for (api, tools, left) in [
        (
            Api::OpenAiResponses,
            json!([{"type": "web_search_preview_2025_03_11"}, {"type": "file_search"}]),
            1,
        ),
        (
            Api::AnthropicMessages,
            json!([{"type": "web_fetch_20250910", "name": "web_fetch"}, {"type": "bash_20250124", "name": "bash"}]),
            1,
        ),
        (Api::Gemini, json!([{"googleSearch": {}}, {"codeExecution": {}}]), 1),
        (Api::Gemini, json!([{"urlContext": {}}]), 0),
        (Api::OpenAiResponses, json!([{"type": "function", "name": "web_own", "parameters": {}}]), 1),
    ] {
        let house = House::new();
        no_web(&house);
        let model = polite().await;
        let gateway = house.gateway(&model.base_url(), HookSettings::default()).await;
        let mut body = ask(api, false, "hi");
        body["tools"] = tools.clone();
        let answer = send(&gateway, api, &body).await;
        assert_eq!(answer.status(), 200, "{api}: {}", answer.text());
        let sent = model.requests().remove(0).request.tools;
        assert_eq!(sent.len(), left, "{api} {tools}: {sent:?}");
    }
}

#[tokio::test]
async fn a_request_with_a_denied_tool_outside_of_the_list_is_refused() {
    let house = House::new();
    house.judge::<BeforeToolCall>("no", |event| {
        let name = event.tool_name.called();
        // What is offered is no call that a client is going to make.
        let is_offer = event.tool_kind.as_deref() == Some(PROVIDER_TOOL) && event.tool_call_id.is_none();
        let is_denied = name.starts_with("web_") || name.starts_with("mcp__shop__");
        (is_denied && is_offer).then(|| ToolCallOutcome::block("not that"))
    });
    let model = polite().await;
    let settings = HookSettings { blocked: BlockedForm::Error, ..HookSettings::default() };
    let gateway = house.gateway(&model.base_url(), settings).await;
    for (api, field, value, status) in [
        (Api::OpenAiChat, "web_search_options", json!({}), 403),
        (
            Api::AnthropicMessages,
            "mcp_servers",
            json!([{"type": "url", "name": "shop", "url": "https://shop.example"}]),
            403,
        ),
        (
            Api::AnthropicMessages,
            "mcp_servers",
            json!([{"type": "url", "name": "docs", "url": "https://docs.example"}]),
            200,
        ),
    ] {
        let mut body = ask(api, false, "hi");
        body[field] = value;
        let answer = send(&gateway, api, &body).await;
        assert_eq!(answer.status(), status, "{api} {field}: {}", answer.text());
    }
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn texts_in_other_fields_are_shown_and_rewritten() {
    for (api, field, value) in [
        (Api::OpenAiChat, "prediction", json!({"type": "content", "content": SECRET})),
        (Api::OpenAiChat, "stop", json!([SECRET])),
        (Api::OpenAiResponses, "metadata", json!({"topic": SECRET})),
        (Api::AnthropicMessages, "stop_sequences", json!([SECRET])),
        (Api::Gemini, "labels", json!({"team": SECRET})),
        (Api::Gemini, "futureField", json!([{"x": SECRET}])),
    ] {
        let house = House::new();
        house.judge::<BeforeLlmCall>("rewrites", |event| {
            let messages: Vec<Value> = event.messages.iter().map(|message| json!(message)).collect();
            let cleaned = json!(messages).to_string().replace(SECRET, "[gone]");
            Some(BeforeLlmCallOutcome {
                messages: serde_json::from_str(&cleaned).ok(),
                ..BeforeLlmCallOutcome::default()
            })
        });
        let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
        let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
        let mut body = ask(api, false, "hi");
        body[field] = value.clone();
        send(&gateway, api, &body).await;
        let sent = upstream.request(0);
        let sent: Value = serde_json::from_str(sent.split_once("\r\n\r\n").unwrap().1).unwrap();
        body[field] = serde_json::from_str(&value.to_string().replace(SECRET, "[gone]")).unwrap();
        assert_eq!(sent, body, "{api} {field}");
    }
}

#[tokio::test]
async fn a_field_that_nobody_knows_is_an_offer_of_its_name() {
    let house = House::new();
    house.judge::<BeforeToolCall>("no", |event| {
        event.tool_name.called().starts_with("plugins").then(|| ToolCallOutcome::block("not that"))
    });
    let model = polite().await;
    let settings = HookSettings { blocked: BlockedForm::Error, ..HookSettings::default() };
    let gateway = house.gateway(&model.base_url(), settings).await;
    for api in WIRES {
        for (field, status) in [("plugins", 403), ("user", 200), ("future", 200)] {
            let mut body = ask(api, false, "hi");
            body[field] = json!([{"id": "web"}]);
            let answer = send(&gateway, api, &body).await;
            assert_eq!(answer.status(), status, "{api} {field}: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn hooks_are_told_what_the_provider_runs() {
    let house = House::new();
    let seen: Arc<Mutex<Vec<ToolInfo>>> = Arc::default();
    let told = Arc::clone(&seen);
    house.judge::<BeforeLlmCall>("looks", move |event| {
        told.lock().unwrap().clone_from(&event.tools);
        None
    });
    let model = polite().await;
    let gateway = house.gateway(&model.base_url(), HookSettings::default()).await;
    let mut body = ask(Api::OpenAiResponses, false, "hi");
    body["tools"] = json!([
        {"type": "mcp", "server_label": "shop", "server_url": "https://shop.example", "allowed_tools": ["buy"], "require_approval": "never"},
        {"type": "function", "name": "read", "parameters": {}},
    ]);
    assert_eq!(send(&gateway, Api::OpenAiResponses, &body).await.status(), 200);
    let seen = seen.lock().unwrap();
    let [shop, read] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!((shop.kind.as_deref(), shop.provider_run), (Some("mcp"), Some(true)));
    assert_eq!(
        (shop.server.as_deref(), shop.approval.as_deref()),
        (Some("https://shop.example"), Some("never"))
    );
    assert_eq!(shop.allowed_tools.as_deref(), Some(["buy".to_owned()].as_slice()));
    assert_eq!((read.kind.as_ref(), read.provider_run), (None, None));
}

#[tokio::test]
async fn parallel_conversations_do_not_mix() {
    let house = House::new();
    house.judge::<BeforeResponseEmit>("marks", |event| {
        Some(backstop_hooks::points::ResponseEmitOutcome {
            content: Some(format!("{} for {}", event.content, event.run_id.as_ref().unwrap()).into()),
            ..Default::default()
        })
    });
    house.withhold("exec");
    let turns: Vec<Value> = (0..16)
        .map(|n| {
            json!({"repeat": true, "when": {"user_contains": format!("question-{n:02}")}, "text": format!("answer-{n:02}"),
                "chunk": 2, "chunk_delay_ms": 2, "tool_calls": [{"name": "exec", "arguments": {"n": n}}]})
        })
        .collect();
    let model = model(json!(turns)).await;
    let settings = HookSettings { refusals: 0, ..HookSettings::default() };
    let gateway = house.gateway(&model.base_url(), settings).await;
    let asking = (0..16).map(|n| {
        let gateway = &gateway;
        async move {
            let api = WIRES[n % 2];
            let answer = send_to(gateway, api, true, &ask(api, true, &format!("question-{n:02}"))).await;
            read(api, &answer).message.visible_text()
        }
    });
    let answers = futures_util::future::join_all(asking).await;
    let mut runs: Vec<String> = Vec::new();
    for (n, answer) in answers.iter().enumerate() {
        assert!(answer.starts_with(&format!("answer-{n:02} for run-")), "{answer}");
        assert_eq!(answer.matches("answer-").count(), 1, "{answer}");
        runs.push(answer.split("run-").nth(1).unwrap().chars().take(24).collect());
    }
    runs.sort();
    runs.dedup();
    assert_eq!(runs.len(), 16, "each conversation is a run of its own");
}

#[tokio::test]
async fn decisions_reach_who_stands_in_front_of_the_tools() {
    let house = House::new();
    house.withhold("exec");
    let model = model(json!([{"tool_calls": [
        {"id": "call-exec-00001", "name": "exec", "arguments": {"command": "marker"}},
        {"id": "call-read-00001", "name": "read", "arguments": {}},
    ]}]))
    .await;
    let gateway = house.gateway(&model.base_url(), HookSettings::default()).await;
    send(&gateway, Api::OpenAiChat, &ask(Api::OpenAiChat, true, "hi")).await;
    // Another process on the same store, which knows the calls and nothing else.
    let adapter =
        backstop_engine::Engine::builder().store(Arc::clone(&house.store)).shared_decisions(true).build();
    for (id, tool, allowed) in [("call-exec-00001", "exec", false), ("call-read-00001", "read", true)] {
        let event = backstop_hooks::points::ToolCallEvent::new(
            backstop_hooks::ToolName::new(tool),
            backstop_hooks::Params::default(),
        )
        .tool_call_id(backstop_hooks::ToolCallId::from(id));
        let reviewed = adapter.review_tool_call(event, &Default::default(), false).await;
        assert_eq!(reviewed.blocked.is_none(), allowed, "{id}");
    }
}
