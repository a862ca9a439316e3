//! The law of requests: every string of a request, and every name of a field, is shown to the hooks at `before_llm_call`, or the
//! request is refused; and a secret in any of these places does not leave once redactors take secrets out of prompts.
//!
//! Both are tried at every place of every request fixture and of every table of fields. There is no place that is excepted: what
//! is not shown are words of a list, which these texts are none of.

use std::sync::{Arc, Mutex};

use backstop_engine::{Engine, HookOptions};
use backstop_guards::hooks::{ArgumentActions, InArguments, RedactionSettings, register_redaction};
use backstop_hooks::points::BeforeLlmCall;
use backstop_hooks::{OwnerId, hook_fn};
use backstop_llm::Api;
use backstop_llm::wire::request_fields;
use backstop_scan::{Action, Class, Policy};
use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::{Value, json};

use super::walk_tests::{WORD, token, variants};
use super::{HookSettings, Hooks};
use crate::endpoint::{Endpoint, Family, Operation};
use crate::exchange::{Body, Call, Interceptor as _, Plan, Requested};
use crate::operations::Permission;

/// Names that codecs keep for notes of their own, or read in other places: what a client writes there is a field like any other.
const RESERVED: [&str; 14] = [
    "backstop",
    "continues",
    "function_call",
    "functions",
    "guardContent",
    "index",
    "item",
    "kind",
    "logprobs",
    "reasoning",
    "refusal",
    "role",
    "status",
    "whole",
];

/// The smallest body of a wire with each field of its table, in several forms.
fn fields(api: Api, said: &str) -> Vec<(String, Value)> {
    let body = match api {
        Api::AnthropicMessages => {
            json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]})
        }
        Api::OpenAiChat => json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}),
        Api::OpenAiResponses => json!({"model": "m", "input": "hi"}),
        Api::Gemini => json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}),
        Api::BedrockConverse => {
            json!({"modelId": "m", "messages": [{"role": "user", "content": [{"text": "hi"}]}]})
        }
    };
    let mut found = Vec::new();
    let named = request_fields(api).types();
    for name in named.map(|(name, _)| name).chain(["field_of_tomorrow"]) {
        for value in [
            json!(said),
            json!([said]),
            json!([[[said]]]),
            json!({ said: 1 }),
            json!({ said: null }),
            json!({ "type": said }),
            json!({ "id": said }),
            json!({ "x": { "y": { "z": said } } }),
            json!([{ "type": "text", "text": "a", "note": said }]),
            json!([{ "type": said }]),
            json!({ "skills": [], "id": said }),
        ] {
            let mut body = body.clone();
            let what = format!("{name}: {value}");
            body[name] = value;
            found.push((what, body));
        }
    }
    found
}

/// Requests that pass while hooks decide.
fn requests(api: Api) -> Vec<Value> {
    let fixture = |text| serde_json::from_str::<Value>(text).unwrap();
    let mut responses =
        fixture(include_str!("../../../llm/tests/fixtures/openai_responses/agent.request.json"));
    // An approval of what did not pass here is refused.
    let items = responses["input"].as_array_mut().unwrap();
    items.retain(|item| item["type"] != "mcp_approval_response");
    let mut converse =
        fixture(include_str!("../../../llm/tests/fixtures/bedrock_converse/agent.request.json"));
    converse.as_object_mut().unwrap().remove("promptVariables");
    converse["modelId"] = "m".into();
    let mut requests = vec![
        (
            Api::AnthropicMessages,
            fixture(include_str!("../../../llm/tests/fixtures/anthropic/agent.request.json")),
        ),
        (
            Api::OpenAiChat,
            fixture(include_str!("../../../llm/tests/fixtures/openai_chat/agent.request.json")),
        ),
        (
            Api::OpenAiChat,
            fixture(include_str!("../../../llm/tests/fixtures/openai_chat/functions.request.json")),
        ),
        (Api::OpenAiResponses, responses),
        (Api::Gemini, fixture(include_str!("../../../llm/tests/fixtures/gemini/agent.request.json"))),
        (Api::BedrockConverse, converse),
    ];
    requests.extend(more());
    requests.into_iter().filter(|(own, _)| *own == api).map(|(_, body)| body).collect()
}

/// What the fixtures do not have.
fn more() -> Vec<(Api, Value)> {
    vec![
        (
            Api::AnthropicMessages,
            json!({"model": "m", "max_tokens": 9, "container": {"id": "c"}, "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
                "system": [{"type": "text", "text": "a"}, {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "b"}]}],
                "messages": [{"role": "user", "content": [{"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "b"}]}]},
                    {"role": "assistant", "content": [{"type": "text", "text": "c", "citations": [{"type": "char_location", "cited_text": "d", "encrypted_index": "ZW5j"}]},
                        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
                        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result", "encrypted_content": "ZW5j", "title": "e", "url": "https://example.com"}]}]},
                    {"role": "user", "content": "and"}],
                "tools": [{"name": "read", "input_schema": {"type": "object"}, "input_examples": [{"path": "a"}]}]}),
        ),
        (
            Api::OpenAiChat,
            json!({"model": "m", "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "read"}}]}},
                "tools": [{"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {"kind": {"enum": ["a", "b"]}}}}}],
                "messages": [{"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                    {"role": "user", "content": "hi", "name": "ann"},
                    {"role": "assistant", "content": null, "reasoning_content": "r", "reasoning": "s",
                        "tool_calls": [{"id": "call_1", "type": "custom", "custom": {"name": "apply", "input": "x"}}, {"id": "call_2", "type": "function", "function": {"name": "read", "arguments": "{}"}}]},
                    {"role": "tool", "tool_call_id": "call_1", "content": "ok"},
                    {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "ok"}]},
                    {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
                    {"role": "user", "content": "go on"}],
                "user": "u", "safety_identifier": "s", "prompt_cache_key": "k", "service_tier": "auto",
                "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}, "metadata": {"a": "b"}}),
        ),
        (
            Api::OpenAiResponses,
            json!({"model": "m", "tool_choice": {"type": "function", "name": "read"}, "tools": [{"type": "function", "name": "read", "parameters": {}}],
                "conversation": {"id": "conv_1"}, "user": "u", "input": [
                    {"role": "user", "content": "hi"},
                    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
                    {"type": "code_interpreter_call", "id": "ci_1", "code": "print(1)", "container_id": "c", "outputs": [{"type": "logs", "logs": "1"}]},
                    {"type": "image_generation_call", "id": "ig_1", "result": "AAAA", "status": "completed"},
                    {"type": "message", "role": "assistant", "id": "msg_1", "content": [{"type": "output_text", "text": "a", "annotations": [{"type": "url_citation", "url": "https://example.com", "title": "t"}],
                        "logprobs": [{"token": "a", "bytes": [97], "logprob": -0.1, "top_logprobs": [{"token": "b", "logprob": -2.0}]}]}]},
                    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ZW5j"},
                    {"role": "user", "content": [{"type": "input_text", "text": "b"}]}]}),
        ),
        (
            Api::Gemini,
            json!({"systemInstruction": {"role": "user", "parts": [{"text": "a"}]}, "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
                "generationConfig": {"responseMimeType": "application/json", "responseSchema": {"type": "OBJECT"}},
                "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}, "tools": [{"functionDeclarations": [{"name": "f", "response": {"type": "STRING"}}]}]}),
        ),
        (
            Api::BedrockConverse,
            json!({"modelId": "m", "system": [{"text": "a"}], "messages": [{"role": "user", "content": [{"text": "hi"}]}],
                "toolConfig": {"tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": {}}}}], "toolChoice": {"auto": {}}},
                "additionalModelRequestFields": {"anthropic_beta": ["x"], "thinking": {"type": "enabled", "budget_tokens": 1024}}}),
        ),
    ]
}

/// What becomes of a request.
#[derive(Debug)]
enum Came {
    Left(String),
    Stopped,
}

async fn send(hooks: &Hooks, api: Api, body: &Value) -> Came {
    let (headers, method, target) = (HeaderMap::new(), Method::POST, api.request_path("m", false));
    // As the address of Bedrock is once its model stands in the body.
    let converse = Endpoint { family: Family::Anthropic, operation: Operation::Converse };
    let (path, endpoint) = match api {
        Api::BedrockConverse => ("/bedrock/converse", converse),
        _ => (&*target, Endpoint::of(&target, &headers).unwrap()),
    };
    let call = Call {
        number: 1,
        endpoint: &endpoint,
        method: &method,
        path,
        query: None,
        headers: &headers,
        permission: Permission::Read,
        agent: None,
        user: None,
        recorder: &crate::record::Recorder::default(),
        session: None,
    };
    let Plan::Inspect(mut exchange) = hooks.begin(&call) else { panic!("nobody looks") };
    let bytes = Bytes::from(body.to_string());
    match exchange.request(&Body { bytes: &bytes, provider: "p" }).await {
        Requested::Unchanged => Came::Left(body.to_string()),
        Requested::Replaced(body) => Came::Left(String::from_utf8(body.to_vec()).unwrap()),
        Requested::Reply(_) => Came::Stopped,
    }
}

/// What is shown of each variant of the requests of a wire.
async fn show_all(api: Api) {
    let (engine, shown) = (Engine::builder().build(), Arc::new(Mutex::new(String::new())));
    let seen = Arc::clone(&shown);
    let hook = hook_fn::<BeforeLlmCall, _>(move |event, _| {
        *seen.lock().unwrap() = serde_json::to_string(event).unwrap();
        Ok(None)
    });
    engine.registry().on(hook, HookOptions::new(OwnerId::operator()).id("sees")).unwrap();
    let hooks = Hooks::new(engine, HookSettings::default()).unwrap();
    for body in requests(api) {
        let came = send(&hooks, api, &body).await;
        let sent = body.to_string();
        assert!(matches!(&came, Came::Left(left) if *left == sent), "{api}: {came:?}");
    }
    let (mut tried, mut refused, mut unseen) = (0, 0, Vec::new());
    for (what, body) in all(api, WORD) {
        shown.lock().unwrap().clear();
        tried += 1;
        match send(&hooks, api, &body).await {
            Came::Left(left) => {
                assert_eq!(left, body.to_string(), "{api} {what}: nobody rewrote it");
                if !shown.lock().unwrap().contains(WORD) {
                    unseen.push(what);
                }
            }
            Came::Stopped => refused += 1,
        }
    }
    assert!(tried > 500 && refused < tried / 2, "{api}: {tried} tried, {refused} refused");
    assert!(unseen.is_empty(), "{} of {tried} are not shown:\n{}", unseen.len(), unseen.join("\n"));
}

fn all(api: Api, said: &str) -> Vec<(String, Value)> {
    let in_requests = requests(api).into_iter().flat_map(|body| variants(&body, said, &RESERVED));
    in_requests.chain(fields(api, said)).collect()
}

/// An engine whose redactor takes secrets out of prompts.
fn redacting() -> Hooks {
    let engine = Engine::builder().build();
    let policy = || Policy::new(Action::Ignore).class(Class::Secret, Action::Redact);
    let settings = RedactionSettings {
        results: Policy::new(Action::Ignore),
        answers: Policy::new(Action::Ignore),
        prompts: policy(),
        withdraws_tools: false,
        reports_tools: false,
        restored_in: Vec::new(),
        arguments: ArgumentActions { secrets: Some(InArguments::Block), ..ArgumentActions::default() },
        catalogue: Arc::default(),
    };
    engine.registry().update(|snapshot| register_redaction(snapshot, &settings)).unwrap();
    Hooks::new(engine, HookSettings::default()).unwrap()
}

/// Whether a secret leaves from a variant of the requests of a wire.
async fn redact_all(api: Api) {
    let (hooks, token) = (redacting(), token());
    let (mut tried, mut stopped, mut leaked) = (0, 0, Vec::new());
    for (what, body) in all(api, &token) {
        tried += 1;
        match send(&hooks, api, &body).await {
            Came::Left(left) if left.contains(&token) => leaked.push(what),
            Came::Left(_) => {}
            Came::Stopped => stopped += 1,
        }
    }
    assert!(tried > 500 && stopped < tried * 2 / 3, "{api}: {stopped} of {tried} were stopped");
    assert!(leaked.is_empty(), "{} of {tried} leave:\n{}", leaked.len(), leaked.join("\n"));
}

macro_rules! wires {
    ($($wire:ident: $api:expr,)*) => {
        mod shown_or_refused {
            use super::*;
            $(#[tokio::test] async fn $wire() { show_all($api).await })*
        }
        mod redacted_or_stopped {
            use super::*;
            $(#[tokio::test] async fn $wire() { redact_all($api).await })*
        }
    };
}

wires! {
    anthropic_messages: Api::AnthropicMessages,
    openai_chat: Api::OpenAiChat,
    openai_responses: Api::OpenAiResponses,
    gemini: Api::Gemini,
    bedrock_converse: Api::BedrockConverse,
}
