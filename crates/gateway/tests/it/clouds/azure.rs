//! Azure OpenAI: deployments.

use std::sync::{Arc, Mutex};

use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_gateway::{Cloud, Credential, Family, Settings};
use backstop_hooks::points::BeforeLlmCall;
use serde_json::json;

use crate::exchange::gzip;
use crate::inspect::support::{House, settings_of};
use crate::support::{Script, Upstream, gateway, post, secret, settings, start, talk};

/// As `AzureOpenAI` of OpenAI's Python SDK 2.9 asks for a deployment.
const PATH: &str = "/openai/deployments/large/chat/completions?api-version=2024-10-21";

fn azure(mut settings: Settings, api_version: Option<&str>) -> Settings {
    let provider = settings.providers.get_mut("openai").unwrap();
    provider.credential = Credential::Key(secret("azure-key"));
    provider.cloud = Some(Cloud::Azure { api_version: api_version.map(str::to_owned) });
    settings
}

fn chat(model: &str) -> String {
    format!(r#"{{"messages":[{{"role":"user","content":"hi"}}],  "model":"{model}"}}"#)
}

async fn answering() -> Upstream {
    Upstream::start(|_| Script::json("200 OK", "{}")).await
}

fn line(request: &str) -> &str {
    request.lines().next().unwrap()
}

#[tokio::test]
async fn a_client_of_openai_reaches_a_deployment() {
    for (version, path, expected) in [
        (Some("V"), "/v1/chat/completions", "/openai/deployments/gpt/chat/completions?api-version=V"),
        (Some("V"), "/v1/embeddings", "/openai/deployments/gpt/embeddings?api-version=V"),
        (Some("V"), "/v1/responses", "/openai/responses?api-version=V"),
        (None, "/v1/chat/completions", "/openai/v1/chat/completions"),
    ] {
        let upstream = answering().await;
        let gateway = gateway(azure(settings(&upstream), version)).await;
        let mut request = post(path, &chat("gpt"));
        request = request.replacen("host: localhost", "host: localhost\r\nauthorization: Bearer mine", 1);
        assert_eq!(talk(&gateway, request).await.status(), 200, "{path}");
        let request = upstream.request(0);
        assert_eq!(line(&request), format!("POST {expected} HTTP/1.1"));
        assert!(request.contains("\r\napi-key: azure-key\r\n") && !request.contains("mine"), "{request}");
        assert!(request.ends_with(&chat("gpt")), "{request}");
    }
}

#[tokio::test]
async fn a_client_of_azure_passes_as_it_came() {
    for body in [chat("large"), r#"{"messages": [ ]}"#.to_owned(), chat("small")] {
        let upstream = answering().await;
        let gateway = gateway(azure(settings(&upstream), Some("V"))).await;
        assert_eq!(talk(&gateway, post(PATH, &body)).await.status(), 200);
        let request = upstream.request(0);
        assert_eq!(line(&request), format!("POST {PATH} HTTP/1.1"));
        assert!(request.ends_with(&body), "{request}");
    }
}

/// What is judged has the model of the address also where the body came compressed.
#[tokio::test]
async fn a_compressed_request_is_judged_with_the_model_of_its_address() {
    for is_compressed in [false, true] {
        let upstream = answering().await;
        let (house, models) = (House::new(), Arc::new(Mutex::new(Vec::new())));
        let seen = Arc::clone(&models);
        house.judge::<BeforeLlmCall>("looks", move |event| {
            seen.lock().unwrap().push(event.model.clone());
            None
        });
        let settings = azure(settings_of(&upstream.url()), Some("V"));
        let hooks = Hooks::new(house.engine.clone(), HookSettings::default()).unwrap();
        let gateway = start(settings, hooks).await.unwrap();
        let body = br#"{"messages":[{"role":"user","content":"hi"}]}"#.to_vec();
        let (body, coding) = match is_compressed {
            true => (gzip(&body), "content-encoding: gzip\r\n"),
            false => (body, ""),
        };
        let mut request = post(PATH, &"x".repeat(body.len())).replacen("host:", &format!("{coding}host:"), 1);
        request.truncate(request.len() - body.len());
        let answer = talk(&gateway, [request.as_bytes(), &body].concat()).await;
        assert_eq!(upstream.count(), 1, "{is_compressed}: {}", answer.text());
        assert_eq!(*models.lock().unwrap(), ["large"], "{is_compressed}");
        assert!(upstream.request(0).contains(r#""content":"hi""#), "{}", upstream.request(0));
    }
}

#[tokio::test]
async fn what_can_be_no_deployment_is_not_asked_for() {
    let upstream = answering().await;
    let gateway = gateway(azure(settings(&upstream), Some("V"))).await;
    for body in
        [chat("../x"), chat("a/b"), chat(""), "{}".to_owned(), r#"{"model":"a","model":"b"}"#.to_owned()]
    {
        let answer = talk(&gateway, post("/v1/chat/completions", &body)).await;
        assert_eq!(answer.status(), 400, "{body}");
        assert!(answer.text().contains("can't be asked for this"), "{}", answer.text());
    }
    assert_eq!(upstream.count(), 0);
}

/// Azure goes by the address: a model in the body that may be asked for is no way to another one.
#[tokio::test]
async fn lists_hold_for_the_deployment() {
    let upstream = answering().await;
    let mut settings = azure(settings(&upstream), Some("V"));
    settings.providers.get_mut("openai").unwrap().models = vec!["small".to_owned()];
    let gateway = gateway(settings).await;
    for path in [PATH, "/openai/deployment%73/large/chat/completions"] {
        assert_eq!(talk(&gateway, post(path, &chat("small"))).await.status(), 404, "{path}");
    }
    assert_eq!(upstream.count(), 0);
    // What the body says then is no model.
    let answer = talk(&gateway, post(&PATH.replace("large", "small"), &chat("large"))).await;
    assert_eq!(answer.status(), 200);
    assert!(upstream.request(0).ends_with(&chat("small").replace("  ", "")), "{}", upstream.request(0));
}

/// Budgets count, and hooks are told of, what Azure goes by.
#[tokio::test]
async fn hooks_judge_the_deployment() {
    for body in [chat("small"), r#"{"messages": [{"role":"user","content":"hi"}]}"#.to_owned(), chat("large")]
    {
        let upstream = answering().await;
        let house = House::new();
        let seen: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
        let told = Arc::clone(&seen);
        house.judge::<BeforeLlmCall>("looks", move |event| {
            told.lock().unwrap().push((event.model.clone(), event.other_models.is_some()));
            None
        });
        let hooks = Hooks::new(house.engine.clone(), HookSettings::default()).unwrap();
        let gateway = start(azure(settings_of(&upstream.url()), None), hooks).await.unwrap();
        assert_eq!(talk(&gateway, post(PATH, &body)).await.status(), 200);
        assert_eq!(*seen.lock().unwrap(), [("large".to_owned(), false)]);
        let sent = upstream.request(0);
        let sent: serde_json::Value = serde_json::from_str(sent.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        assert!(sent.get("model").is_none_or(|model| *model == json!("large")), "{sent}");
    }
}

#[tokio::test]
async fn a_deployment_at_a_server_of_no_cloud_passes_as_before() {
    let upstream = answering().await;
    let gateway = gateway(settings(&upstream)).await;
    assert_eq!(talk(&gateway, post(PATH, &chat("small"))).await.status(), 200);
    assert_eq!(line(&upstream.request(0)), format!("POST {PATH} HTTP/1.1"));
    assert_eq!(settings(&upstream).defaults[&Family::OpenAi], ["openai"]);
}
