//! What is known is what would be read: bodies of conversations that grow, change and break, read in both ways.

use std::hash::{BuildHasher, Hasher};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::live::LiveRequest;

/// Takes everything for the same: whatever is looked up is found, and is another.
#[derive(Default)]
struct Poisoned;

impl Hasher for Poisoned {
    fn finish(&self) -> u64 {
        7
    }

    fn write(&mut self, _: &[u8]) {}
}

impl BuildHasher for Poisoned {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self
    }
}

fn naming(value: &Value, named: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| naming(item, named)),
        Value::Object(fields) => {
            named.extend(fields.get("model").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| naming(value, named));
        }
        _ => {}
    }
}

fn target() -> RequestTarget {
    RequestTarget { model: Some("m".to_owned()), ..RequestTarget::default() }
}

/// Elements of each wire: what people, models and tools say, with and without ids of calls.
fn element(api: Api, kind: usize, text: &str) -> Value {
    let kinds = match api {
        Api::AnthropicMessages => vec![
            json!({"role": "user", "content": text}),
            json!({"role": "user", "content": [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]}),
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "x", "input": {"model": text}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": text}]}),
            json!({"role": "nobody", "content": text}),
        ],
        Api::OpenAiChat => vec![
            json!({"role": "system", "content": text}),
            json!({"role": "user", "content": text}),
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "x", "arguments": "{}"}}]}),
            json!({"role": "assistant", "function_call": {"name": "x", "arguments": "{}"}}),
            json!({"role": "function", "name": "x", "content": text}),
            json!({"role": "tool", "tool_call_id": "c", "content": text}),
            json!({"role": "user"}),
        ],
        Api::OpenAiResponses => vec![
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}),
            json!({"role": "assistant", "content": text}),
            json!({"type": "function_call", "call_id": "c", "name": "x", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": "c", "output": text}),
            json!({"type": "web_search_call", "id": "w", "status": "completed", "model": text}),
            json!({"type": "message", "role": 1}),
        ],
        Api::Gemini => vec![
            json!({"role": "user", "parts": [{"text": text}]}),
            json!({"role": "model", "parts": [{"functionCall": {"name": "x", "args": {"a": text}}}]}),
            json!({"role": "model", "parts": [{"functionCall": {"name": "x", "args": {}}}]}),
            json!({"role": "user", "parts": [{"functionResponse": {"name": "x", "response": {"r": text}}}]}),
            json!({"role": "model", "parts": [{"function_call": {"id": "g", "name": "y", "args": {}}}]}),
            json!({"role": 1, "parts": []}),
        ],
        Api::BedrockConverse => vec![
            json!({"role": "user", "content": [{"text": text}]}),
            json!({"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "x", "input": {}}}]}),
            json!({"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"text": text}]}}]}),
            json!({"role": "user", "content": text}),
        ],
    };
    // The last one of each is none of its wire, and seldom.
    let usual = kinds.len() - 1;
    kinds[if kind % 23 == 22 { usual } else { kind % usual }].clone()
}

/// A change of a conversation from one request to the next.
#[derive(Clone, Debug)]
enum Change {
    Append(usize, u8),
    Replace(usize, usize, u8),
    Remove(usize),
    Swap(usize, usize),
    Tools(u8),
    System(u8),
    Order(u8),
    Byte(usize, u8),
    Cut(usize),
    Insert(usize, u8),
    Nothing,
}

fn change() -> impl Strategy<Value = Change> {
    let (place, word) = (0..1_000_usize, 0..4_u8);
    prop_oneof![
        6 => (place.clone(), word.clone()).prop_map(|(kind, word)| Change::Append(kind, word)),
        1 => (place.clone(), place.clone(), word.clone()).prop_map(|(at, kind, word)| Change::Replace(at, kind, word)),
        1 => place.clone().prop_map(Change::Remove),
        1 => (place.clone(), place.clone()).prop_map(|(one, other)| Change::Swap(one, other)),
        1 => word.clone().prop_map(Change::Tools),
        1 => word.prop_map(Change::System),
        1 => (0..24_u8).prop_map(Change::Order),
        1 => (place.clone(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        1 => place.clone().prop_map(Change::Cut),
        1 => (place, prop_oneof![Just(b'"'), Just(b'{'), Just(b'}'), Just(b','), Just(b'\\'), Just(b' '), Just(b']')])
            .prop_map(|(at, byte)| Change::Insert(at, byte)),
        1 => Just(Change::Nothing),
    ]
}

#[derive(Clone)]
struct Conversation {
    api: Api,
    elements: Vec<Value>,
    tools: Option<Value>,
    system: Option<Value>,
    order: u8,
}

impl Conversation {
    fn new(api: Api) -> Self {
        let first = element(api, 0, &"so long that it is worth while. ".repeat(140));
        Self { api, elements: vec![first], tools: None, system: None, order: 0 }
    }

    fn body(&self) -> Vec<u8> {
        let list = (self.api.list(), Some(Value::from(self.elements.clone())));
        let tools = ("tools", self.tools.clone());
        let system = ("system", self.system.clone());
        let rest = ("model", Some(json!("m")));
        let mut fields = vec![list, tools, system, rest];
        let mut order = usize::from(self.order);
        let mut text = Vec::new();
        while !fields.is_empty() {
            let (name, value) = fields.remove(order % fields.len());
            order /= 4;
            if let Some(value) = value {
                text.push(format!("\"{name}\":{value}"));
            }
        }
        format!("{{{}}}", text.join(",")).into_bytes()
    }

    /// The body after a change; one that breaks it holds for this body alone.
    fn changed(&mut self, change: &Change) -> Vec<u8> {
        let api = self.api;
        let word = |word: u8| ["a", "b\"\\", "{[", "a model"][usize::from(word % 4)];
        let count = self.elements.len();
        match *change {
            Change::Append(kind, text) => self.elements.push(element(api, kind, word(text))),
            Change::Replace(at, kind, text) => self.elements[at % count] = element(api, kind, word(text)),
            Change::Remove(at) if count > 1 => drop(self.elements.remove(at % count)),
            Change::Swap(one, other) => self.elements.swap(one % count, other % count),
            Change::Tools(text) => {
                let named = json!([{"type": "function", "name": word(text), "input_schema": {}, "model": word(text),
                    "function": {"name": word(text)}}]);
                let kinds = [None, Some(named), Some(json!([])), Some(json!({"x": 1}))];
                self.tools = kinds[usize::from(text % 4)].clone();
            }
            Change::System(text) => {
                let kinds = [
                    None,
                    Some(json!([{"type": "text", "text": word(text)}])),
                    Some(json!("x")),
                    Some(json!(1)),
                ];
                self.system = kinds[usize::from(text % 4)].clone();
            }
            Change::Order(order) => self.order = order,
            _ => {}
        }
        let mut body = self.body();
        let length = body.len();
        // The places are spread over the body, which is mostly one long text.
        let place = |at: usize| (length - 1).saturating_sub(at * 7 % length);
        match *change {
            Change::Byte(at, byte) => body[place(at)] = byte,
            Change::Cut(at) => drop(body.remove(place(at))),
            Change::Insert(at, byte) => body.insert(place(at), byte),
            _ => {}
        }
        body
    }
}

fn models(live: &LiveRequest) -> Vec<String> {
    let (frame, named) = live.models();
    let mut all = named.to_vec();
    naming(&serde_json::from_slice(frame).unwrap(), &mut all);
    all.sort();
    all
}

fn agree<S: BuildHasher>(known: &KnownBodies<S>, api: Api, body: &Bytes) -> Result<bool, TestCaseError> {
    let usual = LiveRequest::read_at(api, &target(), body.clone());
    let read = known.read(api, &target(), body, &naming);
    let was_known = read.is_some();
    if let Some(Read { decoded, frame, named, known: kept, continues }) = read {
        let usual = usual.map_err(|error| TestCaseError::fail(format!("read, and it is none: {error}")))?;
        prop_assert_eq!(&decoded.request, usual.request());
        prop_assert_eq!(decoded.stream, usual.is_stream());
        let mut all = named;
        naming(&serde_json::from_slice(&frame).unwrap(), &mut all);
        all.sort();
        prop_assert_eq!(all, models(&usual));
        known.keep(kept, continues.as_ref());
    }
    Ok(was_known)
}

fn all_wires(changes: &[Change]) -> Result<(), TestCaseError> {
    for api in Api::ALL {
        let (known, poisoned) = (KnownBodies::new(1 << 24), KnownBodies::with_hasher(1 << 24, Poisoned));
        let mut conversation = Conversation::new(api);
        for change in changes {
            let body = Bytes::from(conversation.changed(change));
            prop_assert_eq!(agree(&known, api, &body)?, agree(&poisoned, api, &body)?);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn what_is_known_is_what_would_be_read(changes in proptest::collection::vec(change(), 1..24)) {
        all_wires(&changes)?;
    }
}

/// A body of a conversation with so many messages.
fn chat(first: &str, messages: usize) -> Bytes {
    let mut conversation = Conversation::new(Api::OpenAiChat);
    conversation
        .elements
        .extend((0..messages).map(|at| element(Api::OpenAiChat, 1, &format!("{first} {at}"))));
    conversation.body().into()
}

fn read<S: BuildHasher>(known: &KnownBodies<S>, body: &Bytes) -> Vec<Arc<Element>> {
    let read = known.read(Api::OpenAiChat, &target(), body, &naming).unwrap();
    let elements = read.known.elements.clone();
    known.keep(read.known, read.continues.as_ref());
    elements
}

/// How many of these are the very same.
fn shared(one: &[Arc<Element>], other: &[Arc<Element>]) -> usize {
    one.iter().filter(|element| other.iter().any(|other| Arc::ptr_eq(element, other))).count()
}

#[test]
fn a_conversation_that_goes_on_is_compared_and_kept_once() {
    let known = KnownBodies::new(1 << 24);
    let first = read(&known, &chat("a", 20));
    let second = read(&known, &chat("a", 21));
    assert_eq!((shared(&first, &second), second.len()), (21, 22));
    assert_eq!(known.lock().len(), 1, "only the latest body is kept");
    // Another conversation that begins in the same way is another body, and what they share is found by its hash.
    let other = read(&known, &chat("b", 20));
    assert_eq!((shared(&second, &other), known.lock().len()), (1, 2));
    let third = read(&known, &chat("a", 22));
    assert_eq!((shared(&second, &third), known.lock().len()), (22, 2));
}

#[test]
fn what_moved_is_found_by_its_hash() {
    let known = KnownBodies::new(1 << 24);
    let before = read(&known, &chat("a", 20));
    let mut conversation = Conversation::new(Api::OpenAiChat);
    conversation.elements.insert(0, element(Api::OpenAiChat, 0, "a new beginning"));
    conversation.elements.extend((5..20).map(|at| element(Api::OpenAiChat, 1, &format!("a {at}"))));
    let body = Bytes::from(conversation.body());
    let after = read(&known, &body);
    assert_eq!((shared(&before, &after), after.len()), (16, 17));
    let poisoned = KnownBodies::with_hasher(1 << 24, Poisoned);
    let before = read(&poisoned, &chat("a", 20));
    // Each look finds the same element, whose bytes are others.
    assert_eq!(shared(&before, &read(&poisoned, &body)), 1);
}

#[test]
fn a_flood_of_conversations_stays_within_its_bytes() {
    let most = 200_000;
    let known = KnownBodies::new(most);
    for at in 0..200 {
        drop(read(&known, &chat(&format!("{at} {}", "x".repeat(at * 10)), 10)));
        assert!(known.bytes() <= most && known.lock().len() <= MOST_BODIES);
    }
    assert!(known.bytes() > most / 4);
    known.forget_oldest();
    assert!(known.forget_older(Duration::from_hours(1)));
    assert!(!known.forget_older(Duration::ZERO));
    assert_eq!(known.bytes(), 0);
    let small = KnownBodies::new(1_000);
    drop(read(&small, &chat("a", 10)));
    assert_eq!(small.bytes(), 0, "what is larger than all is not kept");
}

#[test]
fn a_request_has_as_many_values_and_is_as_deep_as_it_may_be() {
    let known = KnownBodies::new(1 << 28);
    let text = "so long that it is worth while. ".repeat(140);
    for (deep, fits) in [(120, true), (121, true), (122, true), (123, true), (124, false), (128, false)] {
        // The message, its list and its part stand around.
        let nested = format!("{}{}", "[".repeat(deep), "]".repeat(deep));
        let body = format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":"{text}"}},{{"role":"user","content":"x","x":{{"y":{nested}}}}}]}}"#
        );
        for _ in 0..2 {
            let usual = LiveRequest::read_at(Api::OpenAiChat, &target(), body.clone().into()).is_ok();
            let read = known.read(Api::OpenAiChat, &target(), &body.clone().into(), &naming);
            assert_eq!((usual, read.is_some()), (fits, fits), "{deep}");
        }
    }
    let zeros = |count: usize| vec!["0"; count].join(",");
    for (count, fits) in [(499_985, true), (499_986, false)] {
        let body = Bytes::from(format!(
            r#"{{"model":"m","tools":[],"messages":[{{"role":"user","content":"{text}"}},{{"role":"user","content":"x","x":[]}},{{"role":"user","content":"x","x":[{}]}}]}}"#,
            zeros(count)
        ));
        for _ in 0..2 {
            let usual = LiveRequest::read_at(Api::OpenAiChat, &target(), body.clone()).is_ok();
            let read = known.read(Api::OpenAiChat, &target(), &body, &naming);
            assert_eq!((usual, read.is_some()), (fits, fits), "{count}");
            if let Some(read) = read {
                known.keep(read.known, read.continues.as_ref());
            }
        }
    }
}

#[test]
fn few_bytes_that_need_much_memory_are_counted_or_not_kept() {
    let known = KnownBodies::new(1 << 24);
    let text = "so long that it is worth while. ".repeat(140);
    // Calls without ids that nobody answers: each element would keep all in front of it.
    for (api, first, call, fits) in [
        (Api::Gemini, r#"{"parts":[{"text":"T"}]}"#, r#"{"parts":[{"functionCall":{"name":"a"}}]}"#, 100),
        (
            Api::OpenAiChat,
            r#"{"role":"user","content":"T"}"#,
            r#"{"role":"assistant","function_call":{"name":"a","arguments":""}}"#,
            100,
        ),
    ] {
        for (calls, is_known) in [(fits, true), (200, false), (20_000, false)] {
            let list = vec![call; calls].join(",");
            let first = first.replace('T', &text);
            let body = Bytes::from(format!(r#"{{"model":"m","{}":[{first},{list}]}}"#, api.list()));
            let read = known.read(api, &target(), &body, &naming);
            assert_eq!(read.is_some(), is_known, "{calls}");
            assert!(LiveRequest::read_at(api, &target(), body).is_ok());
        }
    }
    let zeros = vec!["0"; 100_000].join(",");
    let body = Bytes::from(format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":[{{"type":"x","v":[{zeros}]}}]}}]}}"#
    ));
    assert!(body.len() < 300_000);
    let read = known.read(Api::OpenAiChat, &target(), &body, &naming).unwrap();
    assert!(read.known.bytes > 9_000_000, "{}", read.known.bytes);
}
