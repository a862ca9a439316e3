//! Sessions of Gemini Live.

mod answers;
pub(super) mod attacks;
mod media;
mod vertex;

use backstop_gateway::Gateway;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::support::*;

pub(super) const PATH: &str = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent";

/// What a model says piece by piece, as Google documents it.
pub(super) fn said(text: &str) -> Vec<Value> {
    let pieces: Vec<char> = text.chars().collect();
    let piece = |piece: &[char]| {
        let text: String = piece.iter().collect();
        json!({"serverContent": {"modelTurn": {"parts": [{"text": text}], "role": "model"}}})
    };
    pieces.chunks(5).map(piece).collect()
}

/// The end of a turn.
pub(super) fn over() -> Vec<Value> {
    let usage = json!({"promptTokenCount": 4, "responseTokenCount": 3, "totalTokenCount": 7,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 4}], "responseTokensDetails": [{"modality": "TEXT", "tokenCount": 3}]});
    vec![
        json!({"serverContent": {"generationComplete": true}}),
        json!({"serverContent": {"turnComplete": true}, "usageMetadata": usage}),
    ]
}

pub(super) fn calls(calls: &[(&str, &str, Value)]) -> Value {
    let calls: Vec<Value> =
        calls.iter().map(|(id, name, args)| json!({"id": id, "name": name, "args": args})).collect();
    json!({"toolCall": {"functionCalls": calls}})
}

/// An answer that says this, and is over.
fn answer(text: &str) -> Vec<Value> {
    [said(text), over()].concat()
}

/// A provider that opens a session and answers what asks it for the `n`th time with `answers(n)`, in fragments of so many bytes
/// that make up text or bytes.
pub(super) async fn provider(
    (size, is_binary): (usize, bool),
    answers: impl Fn(usize) -> Vec<Value> + Send + Sync + 'static,
) -> Provider {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let is_manual = std::sync::atomic::AtomicBool::new(false);
    Provider::greeting(&[], move |_, said| {
        let said: Value = serde_json::from_str(said).unwrap();
        if said["realtimeInput"].get("activityStart").is_some() {
            is_manual.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        let waits = is_manual.load(std::sync::atomic::Ordering::Relaxed);
        let messages = match said.as_object().unwrap().keys().next().unwrap().as_str() {
            "setup" => vec![json!({"setupComplete": {}})],
            _ if asks(&said, waits) => answers(asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed)),
            _ => Vec::new(),
        };
        let messages: Vec<String> = messages.iter().map(Value::to_string).collect();
        if is_binary { Play::cut_bytes(&messages, size) } else { Play::cut(&messages, size) }
    })
    .await
}

/// Whether a model answers this.
fn asks(said: &Value, waits_for_end: bool) -> bool {
    let real = if waits_for_end { "activityEnd" } else { "text" };
    said["clientContent"]["turnComplete"] == true
        || said.get("toolResponse").is_some()
        || said["realtimeInput"].get(real).is_some()
}

pub(super) fn setup(more: Value) -> Value {
    let mut setup =
        json!({"model": "models/gemini-live", "generationConfig": {"responseModalities": ["TEXT"]}});
    setup.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"setup": setup})
}

pub(super) async fn open(gateway: &Gateway) -> Client {
    open_with(gateway, json!({})).await
}

async fn open_with(gateway: &Gateway, more: Value) -> Client {
    open_at(gateway, PATH, setup(more)).await
}

async fn open_at(gateway: &Gateway, path: &str, setup: Value) -> Client {
    let mut client = Client::try_open(gateway, path, "").await.unwrap_or_else(|e| panic!("{e}"));
    client.tell(setup).await;
    assert_eq!(client.told().await, json!({"setupComplete": {}}));
    client
}

pub(super) fn user(text: &str) -> Value {
    json!({"clientContent": {"turns": [{"role": "user", "parts": [{"text": text}]}], "turnComplete": true}})
}

fn results(ids: &[&str]) -> Value {
    let responses: Vec<Value> =
        ids.iter().map(|id| json!({"id": id, "name": "read", "response": {"output": "fine"}})).collect();
    json!({"toolResponse": {"functionResponses": responses}})
}

impl Client {
    /// Says something, and hears the answer.
    async fn talk(&mut self, said: Value) -> Vec<Value> {
        self.tell(said).await;
        self.turn().await
    }

    /// The messages of an answer, to the end of its turn or to calls, or to the end of the connection.
    async fn turn(&mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Ok(message) = self.next().await {
            let message: Value = serde_json::from_str(&message).unwrap();
            let is_last =
                message["serverContent"]["turnComplete"] == true || message.get("toolCall").is_some();
            messages.push(message);
            if is_last {
                break;
            }
        }
        messages
    }
}

/// What was said, piece by piece, in one.
fn text_of(messages: &[Value]) -> String {
    let parts =
        messages.iter().filter_map(|message| message["serverContent"]["modelTurn"]["parts"].as_array());
    parts.flatten().filter_map(|part| part["text"].as_str()).collect()
}

fn heard(provider: &Provider) -> Vec<Value> {
    provider.heard().iter().map(|said| serde_json::from_str(said).unwrap()).collect()
}

fn all(messages: &[Value]) -> String {
    messages.iter().map(Value::to_string).collect()
}

fn binary_message(message: &Value) -> Message {
    Message::binary(message.to_string())
}
