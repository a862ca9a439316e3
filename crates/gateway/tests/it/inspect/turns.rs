//! Everybody has their turn while a large answer is judged.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use backstop_gateway::inspect::HookSettings;
use backstop_hooks::points::{BeforeToolCall, ToolAfter};
use backstop_llm::Api;
use serde_json::{Value, json};

use super::support::*;
use crate::support::{Script, Upstream};

/// How many items the large answer has.
const ITEMS: usize = 2_000;

/// How often others had their turn meanwhile, at least. Somebody who keeps the thread lets them have none.
const TURNS: usize = 4;

/// A stream with thousands of blocks of the kind that `block` makes.
fn stream(block: impl Fn(usize) -> Value) -> Script {
    let usage = json!({"input_tokens": 1, "output_tokens": 1});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage});
    let mut events = vec![json!({"type": "message_start", "message": message})];
    for index in 0..ITEMS {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block(index)}));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({"stop_reason": "tool_use", "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": delta, "usage": usage}));
    events.push(json!({"type": "message_stop"}));
    let text: String = events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect();
    Script::events(&[&text])
}

/// At how many different times, as others count them, the items were judged.
async fn times(script: Script, judged: impl FnOnce(&House, Arc<dyn Fn() + Send + Sync>)) -> usize {
    let turns = Arc::new(AtomicUsize::new(0));
    let seen: Arc<Mutex<BTreeSet<usize>>> = Arc::default();
    let house = House::new();
    let look = {
        let (turns, seen) = (Arc::clone(&turns), Arc::clone(&seen));
        move || {
            seen.lock().unwrap().insert(turns.load(Ordering::Relaxed));
        }
    };
    judged(&house, Arc::new(look));
    let upstream = Upstream::start(move |_| script.clone()).await;
    let gateway = house
        .gateway(&upstream.url(), HookSettings { answer_bytes: 64 << 20, ..HookSettings::default() })
        .await;
    // Somebody else on the same thread.
    let other = tokio::spawn(async move {
        loop {
            turns.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let api = Api::AnthropicMessages;
    let answer = send_to(&gateway, api, true, &ask(api, true, "hi")).await;
    other.abort();
    assert!(answer.text().contains("message_stop"), "{}", answer.head());
    seen.lock().unwrap().len()
}

#[tokio::test]
async fn others_have_their_turn_while_thousands_of_calls_are_judged() {
    let script = stream(
        |index| json!({"type": "tool_use", "id": format!("toolu_{index:012}"), "name": "read", "input": {}}),
    );
    let times = times(script, |house, look| {
        house.judge::<BeforeToolCall>("looks", move |_| {
            look();
            None
        });
    });
    let times = times.await;
    assert!(times >= TURNS, "{times}");
}

#[tokio::test]
async fn others_have_their_turn_while_thousands_of_results_are_judged() {
    let script = stream(|index| {
        let found = json!([{"type": "web_search_result", "title": "words", "url": "https://x.example", "encrypted_content": "eA"}]);
        json!({"type": "web_search_tool_result", "tool_use_id": format!("srvtoolu_{index:012}"), "content": found})
    });
    let times = times(script, |house, look| {
        house.judge::<ToolAfter>("looks", move |_| {
            look();
            None
        });
    });
    let times = times.await;
    assert!(times >= TURNS, "{times}");
}
