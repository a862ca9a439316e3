//! Digests of events: a second implementation, written from `docs/digests.md`, that knows nothing but JSON.

use backstop_hooks::conversation::{Message, Part};
use backstop_hooks::points::{BeforeLlmCall, BeforeLlmCallEvent, BeforeLlmCallOutcome};
use backstop_hooks::{Digest, DigestForm, Event as _, Point};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::sample::{Sample, Visit, each_point};

/// JSON with sorted keys and no white space.
fn canonical(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            let members = members.iter().map(|(key, value)| format!("{}:{}", json!(key), canonical(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        scalar => scalar.to_string(),
    }
}

fn h(role: &str, pieces: &[&[u8]]) -> Vec<u8> {
    Sha256::digest([role.as_bytes(), b"\0", &pieces.concat()].concat()).to_vec()
}

fn without(object: &Value, field: &str) -> String {
    let rest: Map<_, _> =
        object.as_object().unwrap().clone().into_iter().filter(|(key, _)| key != field).collect();
    canonical(&Value::Object(rest))
}

fn message(message: &Value) -> Vec<u8> {
    let content = h("content/v2", &[canonical(&message["content"]).as_bytes()]);
    h("message/v2", &[&content, without(message, "content").as_bytes()])
}

fn tree(point: &str, event: &Value, field: &str) -> String {
    let messages = event[field].as_array().unwrap();
    let fields = h(&format!("{point}/v2/fields"), &[without(event, field).as_bytes()]);
    let count = (messages.len() as u64).to_be_bytes();
    let leaves = messages.iter().map(message).collect::<Vec<_>>().concat();
    text(&h(&format!("{point}/v2"), &[&fields, &count, &leaves]))
}

fn text(digest: &[u8]) -> String {
    format!("sha256:{}", digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// The fields of an event that are lists of messages, as its schema says.
fn conversations<P: Point>() -> Vec<String> {
    let schema = P::INFO.id.event_schema().to_value();
    let fields = schema["properties"].as_object().unwrap();
    let is_list = |field: &Value| field["items"]["$ref"] == json!("#/$defs/Message");
    let of_messages = |field: &Value| {
        is_list(field) || field["anyOf"].as_array().is_some_and(|any| any.iter().any(is_list))
    };
    fields.iter().filter(|(_, field)| of_messages(field)).map(|(name, _)| name.clone()).collect()
}

struct Digests(u32);

impl Visit for Digests {
    fn visit<P: Point>(&mut self, sample: &Sample) {
        let (name, event) = (P::INFO.name, sample.event::<P>());
        let (digest, form) = event.digest(name);
        let fields = conversations::<P>();
        match &fields[..] {
            [] => {
                assert_eq!((digest, form), (Digest::of(name, &event), DigestForm::Whole), "{name}");
                assert_eq!(
                    digest.to_string(),
                    text(&h(name, &[canonical(&sample.event).as_bytes()])),
                    "{name}"
                );
            }
            [field] => {
                self.0 += 1;
                assert_eq!(form, DigestForm::Tree, "{name}");
                assert_eq!(digest.to_string(), tree(name, &sample.event, field), "{name}");
            }
            more => panic!("{name} has several conversations: {more:?}"),
        }
    }
}

#[test]
fn every_event_has_the_digest_that_is_documented() {
    let mut digests = Digests(0);
    each_point(&mut digests);
    assert_eq!(digests.0, 9, "points whose events hold a conversation");
}

fn documented() -> Value {
    json!({
        "runId": "r1",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hé \"there\"\n"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "toolCall", "id": "c1", "name": "exec", "arguments": {"b": 1, "a": [true, null]}},
                ],
                "id": "m2",
                "meta": {"x": {"y": 1}},
            },
        ],
        "systemPrompt": "be good", "model": "m", "provider": "p", "iteration": 0, "tools": [{"name": "exec"}],
        "tokenEstimate": 9,
    })
}

fn event(value: Value) -> BeforeLlmCallEvent {
    serde_json::from_value(value).unwrap()
}

fn digest(event: &BeforeLlmCallEvent) -> Digest {
    <BeforeLlmCallEvent as backstop_hooks::Event<BeforeLlmCallOutcome>>::digest(
        event,
        BeforeLlmCall::INFO.name,
    )
    .0
}

/// The vectors of `docs/digests.md`, computed with the Python there.
#[test]
fn the_documented_vectors_hold() {
    let of = |value: Value| digest(&event(value)).to_string();
    assert_eq!(of(documented()), "sha256:a8c19e1d99877aee119ea5c3dea56b7c7f9747a876ff3746f2bbf9695e4bfe32");
    let mut empty = documented();
    empty["messages"] = json!([]);
    assert_eq!(of(empty), "sha256:b1fea2a27f3fb6e49b2d53c535e6c52d88c4e5f4d79cbb94dd7eb09243e30e1c");
    let first = &event(documented()).messages[0];
    assert_eq!(
        first.digest().to_string(),
        "sha256:b30f08c91565d121bd383eef90d8261ab946ade6de6e89ab944f56a16b9586ca"
    );
    assert_eq!(
        first.content.digest().to_string(),
        "sha256:a15591668316ec4941b456553d6d7d05f1d8a425f3c0f3a88d006ae80a0385b9"
    );
}

#[test]
fn whatever_changes_in_a_conversation_changes_its_digest() {
    let all = event(documented());
    let before = digest(&all);
    let changes: [fn(&mut BeforeLlmCallEvent); 9] = [
        |event| event.model = "n".to_owned(),
        |event| event.tools.clear(),
        |event| event.messages.swap(0, 1),
        |event| drop(event.messages.pop()),
        |event| event.messages.push(Message::user("")),
        |event| event.messages[0].id = Some("m1".into()),
        |event| event.messages[0].role = backstop_hooks::conversation::Role::Tool,
        |event| event.messages[1].content.push(Part::text("")),
        |event| event.messages[1].meta = None,
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut other = all.clone();
        change(&mut other);
        assert_ne!(digest(&other), before, "change {number}");
        assert_eq!(digest(&all), before, "a copy was written to");
    }
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let role = prop::sample::select(vec!["system", "user", "assistant", "tool"]);
    let message = (role, prop::collection::vec(any::<String>(), 0..3), prop::option::of("[a-z]{1,3}"));
    let message = message.prop_map(|(role, texts, id)| {
        let content: Vec<_> = texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
        let mut message = json!({"role": role, "content": content});
        if let Some(id) = id {
            message["id"] = json!(id);
        }
        serde_json::from_value(message).unwrap()
    });
    prop::collection::vec(message, 0..5)
}

proptest! {
    /// Copies, rewrites and what is known from before change nothing about it.
    #[test]
    fn a_digest_is_that_of_what_the_transcript_says(
        before in messages(),
        after in messages(),
        at in any::<prop::sample::Index>(),
        text in "[a-c]{0,2}",
    ) {
        let mut judged = event(documented());
        judged.messages = before;
        digest(&judged);
        let original = judged.clone();
        judged.messages.extend(after);
        if !judged.messages.is_empty() {
            let message = at.get(&judged.messages).clone();
            judged.messages.push(message);
            let at = at.index(judged.messages.len());
            judged.messages[at].set_visible_text(&text.into());
        }
        for event in [&original, &judged] {
            let transcript = serde_json::to_value(event).unwrap();
            prop_assert_eq!(digest(event).to_string(), tree("before_llm_call", &transcript, "messages"));
        }
    }
}
