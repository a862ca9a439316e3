//! Fields where they do not belong: a field is known at its own level of an answer and at no other.

use std::collections::{BTreeMap, BTreeSet};

use backstop_llm::Api;
use backstop_llm::live::{self, PartKey};
use backstop_llm::wire::{TYPE_TABLES, TypeClass, TypeTable};
use serde_json::{Value, json};

use super::support::{Host, all_fixtures, request, several};

/// What nobody may read who was not shown it.
const SAID: &str = "Here is h1dden-argument to read";

/// Below these stands what passes as it came, what is judged as a whole, or what the provider ran, as `docs/gateway.md` says.
const CLOSED: [&str; 27] = [
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
    // What the model asks or asked for.
    "tool_calls",
    "function_call",
    "functionCall",
    "input",
    "action",
    "executableCode",
    "toolUse",
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
        Api::AnthropicMessages => matches!(field, "stop_sequence" | "stop_details" | "error" | "diagnostics"),
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

/// Whether the text in an answer leaves without having been shown to who judges: its calls are removed, and nobody settles its results.
fn leaks(api: Api, streams: bool, answer: &str) -> bool {
    let mut editor =
        if streams { live::stream_editor(api, &request()) } else { live::whole_editor(api, &request()) };
    let mut host = Host::default();
    let read = editor.push(answer.as_bytes());
    host.round(&mut *editor);
    let read = read.and_then(|()| editor.finish());
    host.round(&mut *editor);
    if read.is_ok() && editor.is_whole() {
        let of = |choice: u32| (0..).map_while(|call| editor.call_part(choice, call)).collect::<Vec<_>>();
        let calls: Vec<PartKey> = (0..4).flat_map(of).collect();
        editor.keep_calls(&calls, None);
        host.take(&mut *editor);
    }
    let is_shown = host.texts.iter().any(|(_, _, text)| text.contains(SAID));
    !is_shown && String::from_utf8_lossy(&host.sent).contains(SAID)
}

/// The fields of answers of a wire, and whether they say something.
fn known_fields(api: Api) -> BTreeMap<String, bool> {
    let of_answers = |table: &&TypeTable| {
        let is_other = ["Live", "Realtime", "requests"].iter().any(|other| table.things.contains(other));
        // The types of Converse are the names of fields.
        let is_field = table.things.starts_with("fields of") || api == Api::BedrockConverse;
        table.api == api && is_field && !is_other
    };
    let tables = TYPE_TABLES.into_iter().filter(of_answers);
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

fn check(api: Api) {
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
                // What is inert is held to words by one rule, whatever the event.
                let is_new_path = paths.insert((streams, level.path.clone()));
                let fields = fields.iter().filter(|(_, says)| **says || is_new_path);
                for (field, says) in fields.filter(|(field, _)| !passes(api, &level, field)) {
                    for said in texts(*says) {
                        let mut changed = value.clone();
                        let Some(Value::Object(object)) = changed.pointer_mut(&pointer) else { continue };
                        object.insert(field.clone(), said.clone());
                        count += 1;
                        if leaks(api, streams, &with(answer, streams, place, &changed)) {
                            leaking.insert(format!("[{}] {}/{field}: {said}", level.kind, level.path));
                        }
                    }
                }
            }
        }
    }
    assert!(count > 500, "{count}");
    assert!(leaking.is_empty(), "{} of {count}: {leaking:#?}", leaking.len());
}

#[test]
fn a_text_at_another_level_is_judged_or_stays_on_anthropic_messages() {
    check(Api::AnthropicMessages);
}

#[test]
fn a_text_at_another_level_is_judged_or_stays_on_openai_chat() {
    check(Api::OpenAiChat);
}

#[test]
fn a_text_at_another_level_is_judged_or_stays_on_openai_responses() {
    check(Api::OpenAiResponses);
}

#[test]
fn a_text_at_another_level_is_judged_or_stays_on_gemini() {
    check(Api::Gemini);
}

#[test]
fn a_text_at_another_level_is_judged_or_stays_on_converse() {
    check(Api::BedrockConverse);
}
