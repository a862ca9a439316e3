//! Digests of events: a second implementation, written from `docs/digests.md`, that knows nothing but JSON.

use backstop_hooks::conversation::{Message, Part};
use backstop_hooks::points::{BeforeLlmCall, BeforeLlmCallEvent, BeforeLlmCallOutcome};
use backstop_hooks::{Digest, DigestForm, Event as _, Point};
use proptest::prelude::*;
use serde_json::{Value, json};
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

/// The digest as it stands inside of another text.
fn hex(role: &str, said: &str) -> Value {
    json!(text(&h(role, &[said.as_bytes()])))
}

/// A text, a list of texts or of messages, a value of JSON: what `leaf` makes of the field, if it is there.
fn put(object: &mut Value, field: &str, leaf: impl Fn(&Value) -> Value) {
    if let Some(value) = object.get_mut(field) {
        *value = leaf(value);
    }
}

fn of_text(value: &Value) -> Value {
    hex("text", value.as_str().unwrap())
}

fn of_json(value: &Value) -> Value {
    hex("json", &canonical(value))
}

fn content(parts: &Value) -> Value {
    let mut parts = parts.clone();
    for part in parts.as_array_mut().unwrap() {
        match part["type"].as_str().unwrap() {
            "text" | "thinking" => put(part, "text", of_text),
            "toolResult" => put(part, "content", content),
            "image" => {
                let source = &mut part["source"];
                put(source, "data", of_text);
                put(source, "url", of_text);
            }
            "unknown" => put(part, "raw", of_json),
            _ => {}
        }
    }
    hex("content/v3", &canonical(&parts))
}

fn message(message: &Value) -> Value {
    let mut message = message.clone();
    put(&mut message, "content", content);
    hex("message/v3", &canonical(&message))
}

fn tool(tool: &Value) -> Value {
    let mut tool = tool.clone();
    put(&mut tool, "description", of_text);
    put(&mut tool, "inputSchema", of_json);
    hex("tool/v3", &canonical(&tool))
}

fn each(list: &Value, leaf: impl Fn(&Value) -> Value) -> Value {
    list.as_array().unwrap().iter().map(leaf).collect()
}

/// The fields that are leaves, by point.
const LEAVES: [(&str, &[&str]); 10] = [
    ("agent_end", &["messages"]),
    ("agent_turn_prepare", &["messages", "prompt"]),
    ("before_agent_finalize", &["lastAssistantMessage", "messages"]),
    ("before_agent_run", &["messages", "prompt", "systemPrompt"]),
    ("before_agent_start", &["messages", "prompt", "systemPrompt"]),
    ("before_llm_call", &["messages", "systemPrompt", "tools"]),
    ("before_prompt_build", &["messages", "prompt", "systemPrompt"]),
    ("before_reset", &["messages"]),
    ("llm_input", &["historyMessages", "prompt", "systemPrompt", "tools"]),
    ("message.before", &["message"]),
];

fn tree(point: &str, event: &Value, fields: &[&str]) -> String {
    let mut event = event.clone();
    for field in fields {
        put(&mut event, field, |value| match *field {
            "messages" | "historyMessages" => each(value, message),
            "tools" => each(value, tool),
            _ => of_text(value),
        });
    }
    hex(&format!("{point}/v3"), &canonical(&event)).as_str().unwrap().to_owned()
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

struct Digests(Vec<&'static str>);

impl Visit for Digests {
    fn visit<P: Point>(&mut self, sample: &Sample) {
        let (name, event) = (P::INFO.name, sample.event::<P>());
        let (digest, form) = event.digest(name);
        let leaves = LEAVES.iter().find(|(point, _)| *point == name).map(|(_, fields)| *fields);
        assert!(conversations::<P>().is_empty() || leaves.is_some(), "{name} holds a conversation");
        let is_there = |field: &&str| sample.event.get(*field).is_some_and(|value| !value.is_null());
        match leaves.filter(|fields| fields.iter().any(is_there)) {
            None => {
                assert_eq!((digest, form), (Digest::of(name, &event), DigestForm::Whole), "{name}");
                assert_eq!(digest.to_string(), hex(name, &canonical(&sample.event)), "{name}");
            }
            Some(fields) => {
                self.0.push(name);
                assert_eq!(form, DigestForm::Tree, "{name}");
                assert_eq!(digest.to_string(), tree(name, &sample.event, fields), "{name}");
            }
        }
    }
}

#[test]
fn every_event_has_the_digest_that_is_documented() {
    let mut digests = Digests(Vec::new());
    each_point(&mut digests);
    digests.0.sort_unstable();
    assert_eq!(digests.0, LEAVES.map(|(point, _)| point), "points whose events are hashed as a tree");
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
    assert_eq!(of(documented()), "sha256:9f11213389feb6606d748758d5a6f038262d18744aa98a3a0797a6aceb76057d");
    let mut empty = documented();
    empty["messages"] = json!([]);
    assert_eq!(of(empty), "sha256:4f894ce880a8d4eb5e15b7aa8dd0813b87c04a7c82b34a0a1a5d6183c3e60446");
    let first = &event(documented()).messages[0];
    assert_eq!(
        first.digest().to_string(),
        "sha256:49bd847f4a9fe60702807ab11d9a05e0574ef14fd6fe987cc57d29e236c19cae"
    );
    assert_eq!(
        first.content.digest().to_string(),
        "sha256:25b6e486efaf3fbc625d923bfb5408d12cf47e92da7e8df02951f4048938bbac"
    );
}

/// The digest of a tool call with these arguments, which stand as they are in `docs/digests.md`.
fn of_call(call: &str) -> String {
    let value: Value = serde_json::from_str(call).unwrap();
    let digest = Digest::of("tool_call", &value).to_string();
    // Nothing but bytes, as another language computes it.
    let digits: String =
        h("tool_call", &[call.as_bytes()]).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, format!("sha256:{digits}"), "{call} is not what is hashed");
    digest
}

/// The vectors of `docs/digests.md` for tool calls, in the bytes that are hashed.
#[test]
fn the_documented_vectors_of_tool_calls_hold() {
    let documented = include_str!("../../../../docs/digests.md");
    for (call, digest) in [
        (
            r#"{"params":{"command":"ls"},"tool":"exec"}"#,
            "5ecca76fa46f6325d472c960f0f8d03342a1dac08e77fc31d2fae5ad298f44f5",
        ),
        (
            r#"{"called_as":"Bash","owner":"acme","params":{"command":"ls"},"tool":"exec"}"#,
            "31f086b4c1323e33fea85f607896dcb12dd2fd1a1fe148fd7dfdc8a31aada401",
        ),
        (
            r#"{"params":{"n":[9007199254740993,18446744073709551615,1,1.0,-0.0,0.00001,1e-6,1000000000000000.0,1e+16,1.5e+300]},"tool":"exec"}"#,
            "8bde70a69eb26e29775f6721823084224197b179bc31a038ce430d5a5b8f5411",
        ),
        (
            r#"{"params":{"~":1,"～":2,"😀":3},"tool":"exec"}"#,
            "4cd374aeb44c7356439402f6e7c0b22e2912fc83cb8ca36b86c6f938fc8b2373",
        ),
    ] {
        assert_eq!(of_call(call), format!("sha256:{digest}"));
        assert!(documented.contains(call) && documented.contains(digest), "{call}");
    }
}

/// Where numbers are doubles, these two are one.
#[test]
fn integers_beyond_two_to_the_53_are_told_apart() {
    let of = |number: &str| of_call(&format!(r#"{{"params":{{"n":{number}}},"tool":"exec"}}"#));
    let numbers = ["9007199254740992", "9007199254740993", "9007199254740992.0", "-9007199254740993"];
    let digests: std::collections::BTreeSet<String> = numbers.into_iter().map(of).collect();
    assert_eq!(digests.len(), numbers.len());
}

#[test]
fn whatever_changes_in_a_conversation_changes_its_digest() {
    let all = event(documented());
    let before = digest(&all);
    let changes: [fn(&mut BeforeLlmCallEvent); 12] = [
        |event| event.system_prompt = "be goo".into(),
        |event| event.tools[0].description = Some("".into()),
        |event| event.tools[0].input_schema = Some(json!({}).into()),
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
            prop_assert_eq!(digest(event).to_string(), tree("before_llm_call", &transcript, LEAVES[5].1));
        }
    }
}
