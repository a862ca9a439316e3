//! The corpus of adversarial answers on WebSockets, for the [matrix](crate::matrix): each event as a message, messages as
//! fragments, and the connection broken off.
//!
//! A message is cut in fragments, with pings between them; below that the bytes of a connection end where it breaks.

use std::sync::{Arc, Mutex};

use backstop_gateway::Gateway;
use backstop_gateway::inspect::HookSettings;
use serde_json::{Value, json};

use super::live::attacks::{frames, own_corpus};
use super::support::*;
use super::{gateway, live, realtime};
use crate::inspect::adversarial::corpus::{Adverse, tells};
use crate::inspect::adversarial::{as_messages, denying};
use crate::matrix::PHASE;
use crate::matrix::Transport;
use crate::matrix::cuts::{endings, places};

/// Messages as the provider of a transport sends those events.
fn messages(transport: Transport, answer: &Adverse) -> Vec<Vec<u8>> {
    let events = as_messages(answer);
    match transport {
        Transport::Live => events.iter().flat_map(|event| frames(event)).collect(),
        Transport::Realtime => events.iter().map(|event| of_realtime(event)).collect(),
        _ => events,
    }
}

/// An event of Responses as Realtime has it, where it can be read.
fn of_realtime(event: &[u8]) -> Vec<u8> {
    let Ok(Value::Object(mut fields)) = serde_json::from_slice(event) else { return event.to_vec() };
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    fields.remove("sequence_number");
    fields.insert("event_id".to_owned(), "event_1".into());
    if ["response.completed", "response.incomplete", "response.failed"].contains(&kind.as_str()) {
        fields.insert("type".to_owned(), "response.done".into());
    } else if kind.starts_with("response.") && !fields.contains_key("response") {
        fields.insert("response_id".to_owned(), "resp_1".into());
    }
    Value::Object(fields).to_string().into_bytes()
}

/// The ways in which messages come: whole, in fragments of each size and phase, and broken off.
fn ways(number: usize, messages: &[Vec<u8>], is_plain: bool) -> Vec<Vec<u8>> {
    let whole = Play::bytes(messages, usize::MAX).bytes;
    let mut ways = vec![whole.clone(), phased(messages, 1 + number % PHASE)];
    let edges = edges(messages);
    let ends =
        if is_plain { places(whole.len(), &edges) } else { endings(number, &edges).copied().collect() };
    ways.extend(ends.iter().map(|end| whole[..*end].to_vec()));
    if is_plain {
        ways.push(Play::bytes(messages, 1).bytes);
        ways.extend((1..=PHASE).map(|first| phased(messages, first)));
        let longest = messages.iter().map(Vec::len).max().unwrap_or_default();
        ways.extend((1..longest).map(|cut| in_two(messages, cut)));
    }
    ways
}

/// Messages whose first fragment has `first` bytes, and the others [`PHASE`].
fn phased(messages: &[Vec<u8>], first: usize) -> Vec<u8> {
    let of = |message: &Vec<u8>| {
        let (head, tail) = message.split_at(first.min(message.len()));
        let pieces: Vec<&[u8]> = std::iter::once(head).chain(tail.chunks(PHASE)).collect();
        fragmented(&pieces)
    };
    messages.iter().flat_map(of).collect()
}

/// Messages in two fragments, cut at `cut` if they have as many bytes.
fn in_two(messages: &[Vec<u8>], cut: usize) -> Vec<u8> {
    let of = |message: &Vec<u8>| {
        let (head, tail) = message.split_at(cut.min(message.len()));
        fragmented(&[head, tail])
    };
    messages.iter().flat_map(of).collect()
}

/// Where frames and their payloads begin, and one byte before and behind.
fn edges(messages: &[Vec<u8>]) -> Vec<usize> {
    let (mut edges, mut begin) = (Vec::new(), 0);
    for message in messages {
        let whole = Play::bytes(std::slice::from_ref(message), usize::MAX).bytes.len();
        let payload = begin + whole - message.len();
        edges.extend([
            begin.saturating_sub(1),
            begin,
            begin + 1,
            payload.saturating_sub(1),
            payload,
            payload + 1,
        ]);
        begin += whole;
    }
    edges.sort_unstable();
    edges.dedup();
    edges.retain(|edge| *edge < begin);
    edges
}

/// A provider that opens a session, and plays what is next when an answer is asked for.
async fn provider(transport: Transport, next: &Arc<Mutex<Vec<u8>>>) -> Provider {
    let next = Arc::clone(next);
    let greeting = match transport {
        Transport::Realtime => vec![
            json!({"type": "session.created", "event_id": "event_0", "session": {"type": "realtime"}})
                .to_string(),
        ],
        _ => Vec::new(),
    };
    Provider::greeting(&greeting, move |_, said| {
        let said: Value = serde_json::from_str(said).unwrap();
        if said.get("setup").is_some() {
            return Play::events(&[json!({"setupComplete": {}}).to_string()]);
        }
        if said["type"] == "conversation.item.create" {
            let added =
                json!({"type": "conversation.item.added", "event_id": "event_2", "item": said["item"]});
            return Play::events(&[added.to_string()]);
        }
        Play { bytes: next.lock().unwrap().clone(), ..Play::default() }.then_breaks()
    })
    .await
}

/// What a client hears of an answer: all messages, and why the connection ended.
async fn heard(transport: Transport, gateway: &Gateway) -> String {
    let path = match transport {
        Transport::Live => live::PATH,
        Transport::Realtime => "/v1/realtime?model=gpt-realtime",
        _ => "/v1/responses",
    };
    let mut client = Client::try_open(gateway, path, "").await.unwrap_or_else(|e| panic!("{e}"));
    match transport {
        Transport::Live => {
            client.tell(live::setup(json!({}))).await;
            client.tell(live::user("hi")).await;
        }
        Transport::Realtime => {
            client.tell(realtime::user("hi")).await;
            client.tell(json!({"type": "response.create"})).await;
        }
        _ => client.ask("hi").await,
    }
    let (messages, goodbye) = match transport {
        Transport::Live => client.rest().await,
        _ => (client.answer_or_rest().await, (0, String::new())),
    };
    messages.join("\n") + "\n" + &goodbye.1
}

/// What is wrong with what clients heard of these answers.
pub(crate) async fn faults(transport: Transport, answers: &[(Adverse, bool)]) -> Vec<String> {
    let next = Arc::<Mutex<Vec<u8>>>::default();
    let provider = provider(transport, &next).await;
    let hooks = HookSettings { refusals: 0, ..HookSettings::default() };
    let gateway = gateway(&denying(), &provider, hooks).await;
    let of_wire =
        answers.iter().map(|(answer, plain)| (answer.name.clone(), messages(transport, answer), *plain));
    let own = if transport == Transport::Live { own_corpus() } else { Vec::new() };
    let own = own.into_iter().map(|(name, messages)| (name, messages, false));
    let (mut faults, mut tries, mut answered) = (Vec::new(), 0, 0);
    for (number, (name, messages, is_plain)) in of_wire.chain(own).enumerate() {
        for bytes in ways(number, &messages, is_plain) {
            tries += 1;
            let length = bytes.len();
            *next.lock().unwrap() = bytes;
            let got = heard(transport, &gateway).await;
            answered += usize::from(got.contains("response.created") || got.contains("serverContent"));
            let reads = |line: &str| line.is_empty() || serde_json::from_str::<Value>(line).is_ok();
            let is_readable = got.lines().rev().skip(1).all(reads);
            if tells(got.as_bytes()) || !is_readable {
                faults.push(format!("{name} in {length}: {got}"));
            }
        }
    }
    // Most of what comes is strange, and yet no provider is simply out of reach.
    assert!(answered * 5 > tries, "{answered} of {tries}");
    faults
}
