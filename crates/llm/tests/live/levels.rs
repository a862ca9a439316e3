//! Fields where they do not belong: a field is known at its own level of an answer and at no other.
//!
//! At each way in an answer, whole and streamed, each field that its wire has anywhere gets a text in each of its forms; where
//! another event or another type has the same way, in one of them. Either all calls of the answer are refused, or all are kept.

use std::collections::{BTreeMap, BTreeSet};

use backstop_hooks::Text;
use backstop_llm::Api;
use backstop_llm::live::{self, PartKey};
use backstop_llm::wire::{TypeClass, TypeTable, type_tables};
use serde_json::{Value, json};

use super::support::{Host, all_fixtures, request, several};

/// What nobody may read who was not shown it.
const SAID: &str = "Here is h1dden-argument to read";

/// Below these stands what passes as it came, what is judged as a whole, or what the provider ran, as `docs/gateway.md` says.
const CLOSED: [&str; 21] = [
    // What repeats the request, and the provider's explanations.
    "tools",
    "tool_choice",
    "metadata",
    "instructions",
    "error",
    "promptFeedback",
    "logprobs",
    "logprobsResult",
    "text",
    // What the provider ran.
    "executableCode",
    // Results.
    "annotations",
    "annotation",
    "citations",
    "citation",
    "groundingMetadata",
    "citationMetadata",
    "urlContextMetadata",
    "trace",
    "toolResult",
    "additionalModelResponseFields",
    "results",
];

/// What stands below these is what a call says to do.
const ARGUMENTS: [&str; 5] = ["/action", "/args", "/arguments", "/input", "/operation"];

/// Fields that pass as they came at this level: what repeats the request, explanations and errors of the provider, copies of
/// the text token by token.
fn passes(api: Api, level: &Level, field: &str) -> bool {
    let path = level.path.as_str();
    match api {
        Api::OpenAiChat => match path {
            "" => matches!(field, "metadata" | "moderation" | "provider"),
            "/choices/_" => matches!(field, "logprobs" | "token_ids" | "matched_stop"),
            "/choices/_/message" | "/choices/_/delta" => field == "token_ids",
            _ => false,
        },
        Api::OpenAiResponses => {
            let repeats = [
                "error",
                "instructions",
                "metadata",
                "moderation",
                "prompt",
                "prompt_cache_key",
                "text",
                "tool_choice",
                "tools",
                "user",
            ];
            let is_answer = path == "/response" || (path.is_empty() && level.kind.is_empty());
            (is_answer && repeats.contains(&field)) || (field == "logprobs" && !is_answer)
        }
        Api::AnthropicMessages => {
            let has_run = level.kind.contains("server_tool_use") || level.kind.contains("mcp_tool_use");
            let is_input = has_run && (field == "input" || path.contains("/input"));
            is_input || matches!(field, "stop_sequence" | "stop_details" | "error" | "diagnostics")
        }
        Api::Gemini => match path {
            "" => matches!(
                field,
                "error" | "modelStatus" | "model_status" | "promptFeedback" | "prompt_feedback"
            ),
            "/candidates/_" => {
                matches!(field, "finishMessage" | "finish_message" | "logprobsResult" | "logprobs_result")
            }
            _ => false,
        },
        Api::BedrockConverse => false,
    }
}

/// A place in answers where an object stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Level {
    streams: bool,
    /// The type of the event, and of the things around the place.
    kind: String,
    /// The way to it, with `_` for the places in lists.
    path: String,
}

/// The objects in a value that may be given a field: the pointers to them, and what they are.
fn objects(value: &Value, pointer: &str, kinds: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            let own = fields.get("type").and_then(Value::as_str).unwrap_or_default();
            let kinds = format!("{kinds} {own}").trim().to_owned();
            found.push((pointer.to_owned(), kinds.clone()));
            for (key, value) in fields.iter().filter(|(key, _)| !CLOSED.contains(&key.as_str())) {
                objects(value, &format!("{pointer}/{key}"), &kinds, found);
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                objects(item, &format!("{pointer}/{place}"), kinds, found);
            }
        }
        _ => {}
    }
}

/// Where one line of an answer, or the body, can be changed: its place, its value, and the name of the event.
fn values(answer: &str, streams: bool) -> Vec<(usize, Value, String)> {
    if !streams {
        return vec![(0, serde_json::from_str(answer).unwrap(), String::new())];
    }
    let mut name = String::new();
    let mut found = Vec::new();
    for (place, line) in answer.split('\n').enumerate() {
        if let Some(event) = line.strip_prefix("event: ") {
            name = event.to_owned();
        }
        if let Some(value) = line.strip_prefix("data: ").and_then(|data| serde_json::from_str(data).ok()) {
            found.push((place, value, name.clone()));
        }
    }
    found
}

/// The answer with another value in this place.
fn with(answer: &str, streams: bool, place: usize, value: &Value) -> String {
    if !streams {
        return value.to_string();
    }
    let lines = answer
        .split('\n')
        .enumerate()
        .map(|(at, line)| if at == place { format!("data: {value}") } else { line.to_owned() });
    lines.collect::<Vec<_>>().join("\n")
}

/// What becomes of the calls and results of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judged {
    /// Calls are removed, and nobody settles results.
    Refused,
    /// All of them stay, and who judges was shown them.
    Kept,
}

/// Whether the text in an answer leaves without having been shown to who judges.
fn leaks(api: Api, streams: bool, answer: &str, judged: Judged) -> bool {
    let mut editor =
        if streams { live::stream_editor(api, &request()) } else { live::whole_editor(api, &request()) };
    let mut host = Host::default();
    let mut shown = Vec::new();
    let read = editor.push(answer.as_bytes());
    host.round(&mut *editor);
    let read = read.and_then(|()| editor.finish());
    host.round(&mut *editor);
    if judged == Judged::Kept {
        for result in editor.results() {
            shown.push(result.value.to_string());
            editor.settle_result(result.key, None);
        }
    }
    if read.is_ok() && editor.is_whole() {
        let of = |choice: u32| (0..).map_while(|call| editor.call_part(choice, call)).collect::<Vec<_>>();
        let calls: Vec<PartKey> = match judged {
            Judged::Refused => (0..4).flat_map(of).collect(),
            Judged::Kept => Vec::new(),
        };
        if judged == Judged::Kept {
            let calls = editor.responses().iter().flat_map(|response| response.message.tool_calls());
            shown.extend(calls.map(|call| {
                let malformed = call.malformed.as_ref().map(Text::as_str).unwrap_or_default();
                format!("{} {} {malformed}", call.name, call.arguments.to_value())
            }));
        }
        editor.keep_calls(&calls, None);
        host.take(&mut *editor);
    }
    shown.extend(host.texts.iter().map(|(_, _, text)| text.clone()));
    !shown.iter().any(|shown| shown.contains(SAID)) && String::from_utf8_lossy(&host.sent).contains(SAID)
}

/// The fields of answers of a wire, and whether they say something.
fn known_fields(api: Api) -> BTreeMap<String, bool> {
    let of_answers = |table: &&TypeTable| {
        let is_other =
            ["Live", "Realtime", "requests", "tools"].iter().any(|other| table.things.contains(other));
        // The types of Converse are the names of fields.
        let is_field = table.things.starts_with("fields of") || api == Api::BedrockConverse;
        table.api == api && is_field && !is_other
    };
    let tables = type_tables().filter(of_answers);
    let known = tables.flat_map(TypeTable::types);
    let each = known.flat_map(|(name, class)| {
        let other = (api == Api::Gemini).then(|| snake(name));
        let names = [Some(name.to_owned()), other].into_iter().flatten();
        names.map(move |name| (name, class != TypeClass::Inert))
    });
    each.collect()
}

/// The other spelling that readers of Gemini take.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// Texts as a field may hold them.
fn texts(says_something: bool) -> Vec<Value> {
    let part = json!({"type": "output_text", "text": SAID});
    let mut forms = vec![json!(SAID)];
    if says_something {
        forms.push(json!({ "text": SAID }));
        forms.push(json!([{"type": "text", "text": SAID}]));
        forms.push(json!([{"type": "message", "role": "assistant", "content": [part]}]));
    }
    forms
}

/// A field of no table, and one whose name is what nobody may read.
const STRANGE: [&str; 2] = ["note", SAID];

/// The fields that an object is given, and with what in them.
fn given(fields: &BTreeMap<String, bool>, is_new_path: bool) -> Vec<(String, Value)> {
    // What is inert is held to words by one rule, whatever the event.
    let known = fields.iter().filter(|(_, says)| **says || is_new_path);
    let known = known.map(|(field, says)| (field.as_str(), *says));
    // On a way that was tried already, one of the forms, which go round with the fields.
    let mut round = 0;
    let mut texts = |(field, says): (&str, bool)| {
        let forms = texts(says);
        round += 1;
        let tried = round % forms.len();
        let forms = forms.into_iter().enumerate().filter(|(place, _)| is_new_path || *place == tried);
        forms.map(|(_, said)| (field.to_owned(), said)).collect::<Vec<_>>()
    };
    let mut given: Vec<_> = known.flat_map(&mut texts).collect();
    given.extend(STRANGE.map(|name| (name.to_owned(), json!(SAID))));
    given.push((SAID.to_owned(), json!(null)));
    // Whatever the event, the forms of what nobody knows are read alike.
    if is_new_path {
        given.extend(STRANGE.map(|name| (name, true)).into_iter().flat_map(&mut texts));
        let quiet = [json!(true), json!(7), json!("word"), json!([1, [null]]), json!({ "a": 1 })];
        given.extend(quiet.into_iter().map(|value| (SAID.to_owned(), value)));
        given.push(("note".to_owned(), json!({ SAID: null })));
    }
    given
}

fn check(api: Api, judged: Judged) {
    let (mut seen, mut paths) = (BTreeSet::new(), BTreeSet::new());
    let (mut count, mut leaking) = (0, BTreeSet::new());
    let mut all =
        several(".choices.json").into_iter().chain(all_fixtures(".response.json")).collect::<Vec<_>>();
    let wholes = all.len();
    all.extend(several(".choices.sse").into_iter().chain(all_fixtures(".stream.sse")));
    let fields = known_fields(api);
    for (number, (_, _, answer)) in all.iter().enumerate().filter(|(_, (of, ..))| *of == api) {
        let streams = number >= wholes;
        for (place, value, event) in values(answer, streams) {
            let mut found = Vec::new();
            objects(&value, "", "", &mut found);
            for (pointer, kinds) in found {
                let is_place =
                    |step: &&str| !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit());
                let step = |step| if is_place(&step) { "_" } else { step };
                let path = pointer.split('/').map(step).collect::<Vec<_>>().join("/");
                let level =
                    Level { streams, kind: if kinds.is_empty() { event.clone() } else { kinds }, path };
                if !seen.insert(level.clone()) {
                    continue;
                }
                let is_new_path = paths.insert((streams, level.path.clone()));
                let given = given(&fields, is_new_path).into_iter();
                for (field, said) in given.filter(|(field, _)| !passes(api, &level, field)) {
                    let mut changed = value.clone();
                    let Some(Value::Object(object)) = changed.pointer_mut(&pointer) else { continue };
                    object.insert(field.clone(), said.clone());
                    let changed = with(answer, streams, place, &changed);
                    // Outside of arguments what is inert is a call like others if it holds a text.
                    let is_call = fields.get(&field) == Some(&false)
                        && !ARGUMENTS.iter().any(|name| level.path.contains(name));
                    if judged == Judged::Kept && is_call {
                        continue;
                    }
                    count += 1;
                    if leaks(api, streams, &changed, judged) {
                        let Level { kind, path, streams } = &level;
                        leaking.insert(format!("{judged:?} {streams} [{kind}] {path}/{field}: {said}"));
                    }
                }
            }
        }
    }
    assert!(count > 500, "{count}");
    assert!(leaking.is_empty(), "{} of {count}: {leaking:#?}", leaking.len());
}

/// One test for each wire, and for what becomes of its calls.
macro_rules! wires {
    ($($refused:ident, $kept:ident: $api:ident;)+) => {$(
        #[test]
        fn $refused() {
            check(Api::$api, Judged::Refused);
        }

        #[test]
        fn $kept() {
            check(Api::$api, Judged::Kept);
        }
    )+};
}

wires! {
    refused_on_anthropic_messages, kept_on_anthropic_messages: AnthropicMessages;
    refused_on_openai_chat, kept_on_openai_chat: OpenAiChat;
    refused_on_openai_responses, kept_on_openai_responses: OpenAiResponses;
    refused_on_gemini, kept_on_gemini: Gemini;
    refused_on_converse, kept_on_converse: BedrockConverse;
}

/// What Anthropic says of who answered, and what it sums up, asks for nothing; what it changes about the tools does.
#[test]
fn marks_and_summaries_of_anthropic_are_no_calls() {
    let fallback = json!({"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}, "trigger": {"type": "refusal", "category": "cyber"}});
    let compaction =
        json!({"type": "compaction", "content": "So far.", "encrypted_content": null, "signature": "c2ln"});
    let mut changing = compaction.clone();
    changing["tool_changes"] =
        json!([{"type": "tool_addition", "tool": {"type": "tool_reference", "name": "read"}}]);
    for (block, calls) in [(fallback, 0), (compaction, 0), (changing, 1)] {
        let usage = json!({"input_tokens": 1, "output_tokens": 1});
        let answer = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
            "stop_sequence": null, "usage": usage, "content": [block, {"type": "text", "text": "hi"}]});
        let api = Api::AnthropicMessages;
        let mut editor = live::whole_editor(api, &request());
        editor.push(answer.to_string().as_bytes()).unwrap();
        editor.finish().unwrap();
        let found = editor.responses()[0].message.tool_calls().count();
        assert_eq!(found, calls, "{block}");
    }
}
