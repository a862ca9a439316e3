//! Vertex AI: Anthropic's and Google's models below a project.

use std::sync::{Arc, Mutex};

use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_gateway::{Cloud, Family, Settings};
use backstop_hooks::points::BeforeLlmCall;
use serde_json::{Value, json};

use super::{body, in_cloud, line};
use crate::inspect::support::House;
use crate::support::{Script, Upstream, gateway, post, settings, start, talk};

const BASE: &str = "/v1/projects/ours/locations/europe-west1/publishers";
const THEIRS: &str = "/v1/projects/theirs/locations/us-east5/publishers";

fn vertex(upstream: &Upstream) -> Settings {
    let cloud = Cloud::Vertex { project: "ours".to_owned(), region: "europe-west1".to_owned() };
    in_cloud(upstream, &cloud, &[Family::Anthropic, Family::Gemini])
}

async fn answering() -> Upstream {
    Upstream::start(|_| Script::json("200 OK", "{}")).await
}

fn messages(more: &Value) -> String {
    let mut body = json!({"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body.to_string()
}

#[tokio::test]
async fn clients_of_the_makers_reach_models_below_the_operators_project() {
    for (path, asked, expected, sent) in [
        (
            "/v1/messages?beta=true",
            messages(&json!({"model": "claude@1", "stream": true})),
            format!("{BASE}/anthropic/models/claude@1:streamRawPredict"),
            messages(&json!({"stream": true, "anthropic_version": "vertex-2023-10-16"})),
        ),
        (
            "/v1/messages",
            messages(&json!({"model": "claude@1"})),
            format!("{BASE}/anthropic/models/claude@1:rawPredict"),
            messages(&json!({"anthropic_version": "vertex-2023-10-16"})),
        ),
        (
            "/v1/messages/count_tokens",
            messages(&json!({"model": "claude@1"})),
            format!("{BASE}/anthropic/models/count-tokens:rawPredict"),
            messages(&json!({"model": "claude@1", "anthropic_version": "vertex-2023-10-16"})),
        ),
        (
            "/v1beta/models/gemini-2.5:streamGenerateContent?alt=sse&key=mine",
            json!({"contents": []}).to_string(),
            format!("{BASE}/google/models/gemini-2.5:streamGenerateContent?alt=sse"),
            json!({"contents": []}).to_string(),
        ),
    ] {
        let upstream = answering().await;
        let gateway = gateway(vertex(&upstream)).await;
        assert_eq!(talk(&gateway, post(path, &asked)).await.status(), 200, "{path}");
        let request = upstream.request(0);
        assert_eq!(line(&request), format!("POST {expected} HTTP/1.1"));
        assert_eq!(body(&request), serde_json::from_str::<Value>(&sent).unwrap(), "{path}");
        assert!(request.contains("\r\nauthorization: Bearer cloud-key\r\n"), "{request}");
    }
}

#[tokio::test]
async fn clients_of_vertex_are_judged_by_the_makers_wire() {
    let version = json!({"anthropic_version": "vertex-2023-10-16", "stream": true});
    for (path, asked, expected, model) in [
        (
            format!("{THEIRS}/anthropic/models/claude@1:streamRawPredict"),
            messages(&version),
            format!("{BASE}/anthropic/models/claude@1:streamRawPredict"),
            "claude@1",
        ),
        (
            // As Anthropic's SDK asks where its address was set.
            format!("{}/anthropic/models/claude@1:rawPredict", THEIRS.trim_start_matches("/v1")),
            messages(&json!({"anthropic_version": "vertex-2023-10-16"})),
            format!("{BASE}/anthropic/models/claude@1:rawPredict"),
            "claude@1",
        ),
        (
            format!("{THEIRS}/google/models/gemini-2.5:generateContent").replace("/v1/", "/v1beta1/"),
            json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}).to_string(),
            format!("{BASE}/google/models/gemini-2.5:generateContent"),
            "gemini-2.5",
        ),
    ] {
        let upstream = answering().await;
        let house = House::new();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = Arc::clone(&seen);
        house.judge::<BeforeLlmCall>("looks", move |event| {
            told.lock().unwrap().push(event.model.clone());
            None
        });
        let hooks = Hooks::new(house.engine.clone(), HookSettings::default()).unwrap();
        let gateway = start(vertex(&upstream), hooks).await.unwrap();
        let answer = talk(&gateway, post(&path, &asked)).await;
        assert_eq!(answer.status(), 200, "{path}: {}", answer.text());
        let request = upstream.request(0);
        assert_eq!(line(&request), format!("POST {expected} HTTP/1.1"));
        assert!(request.ends_with(&asked), "what nobody changed leaves as it came: {request}");
        assert_eq!(*seen.lock().unwrap(), [model]);
    }
}

#[tokio::test]
async fn other_operations_and_others_credentials_are_refused() {
    let upstream = answering().await;
    let gateway_of_cloud = gateway(vertex(&upstream)).await;
    for rest in [
        "anthropic/models/m:generateContent",
        "anthropic/models/count-tokens:streamRawPredict",
        "google/models/m:predict",
        "google/models/m:embedContent",
        "mistralai/models/m:rawPredict",
        "anthropic/models/a%2Fb:rawPredict",
        "anthropic/models/..:rawPredict",
        "anthropic/models/m",
    ] {
        let answer = talk(&gateway_of_cloud, post(&format!("{THEIRS}/{rest}"), "{}")).await;
        assert!([400, 403].contains(&answer.status()), "{rest}: {}", answer.text());
    }
    assert_eq!(talk(&gateway_of_cloud, post("/v1beta/models/m:embedContent", "{}")).await.status(), 400);
    // Not a word of a body that it has not.
    let models = post("/v1/models", "").replacen("POST", "GET", 1);
    let models = models.replacen("\r\n", "\r\nanthropic-version: 2023-06-01\r\n", 1);
    let answer = talk(&gateway_of_cloud, models).await;
    assert!(answer.status() == 400 && answer.text().contains("no such operation"), "{}", answer.text());
    let to_maker = gateway(settings(&upstream)).await;
    let path = format!("{THEIRS}/google/models/m:generateContent");
    assert_eq!(talk(&to_maker, post(&path, "{}")).await.status(), 400);
    assert_eq!(upstream.count(), 0);
}
