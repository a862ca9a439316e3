//! What stands in fields that hold no text: roles, states, reasons, ids, types, names, numbers.
//!
//! Nobody judges such a field, so nobody must be able to read a text in it. Each string in it, however deep, is a word: letters,
//! digits and signs without a blank, and no more of them than a name has; a role is one of the wires, and a state or a reason one
//! that its wire lists ([`states`]). What is sealed may be longer, and is Base64, however long it is. Many words are a sentence: a field has a few, and the names in it are bounded, too. A field
//! that says more is taken for one that nobody knows.
//!
//! Limits: an id can be any word, and a few names can be any few; what is written in the letters of Base64 is taken for it. Fields that hold texts of the wire and belong to nobody's answer are listed in [`TEXTS`].

use std::collections::BTreeSet;

use serde_json::Value;

use crate::wire::{Api, states};

/// Fields that hold more than words: what repeats the request, the provider's own explanations and errors, what repeats the text
/// of the answer, and events inside of which everything is looked at by itself.
const TEXTS: [&str; 25] = [
    // The request.
    "instructions",
    "metadata",
    "prompt",
    "prompt_cache_key",
    "text",
    "tool_choice",
    "tools",
    "user",
    "matched_stop",
    "stop_sequence",
    "provider",
    // The provider itself.
    "error",
    "modelStatus",
    "moderation",
    "promptFeedback",
    "stop_details",
    "diagnostics",
    // The text, token by token.
    "logprobs",
    "logprobsResult",
    "token_ids",
    // Looked at by themselves.
    "delta",
    "item",
    "message",
    "response",
    "compaction",
];

/// Fields whose words are sealed, or padding.
const SEALED: [&str; 13] = [
    "signature",
    "encrypted_content",
    "reasoning_opaque",
    "reasoning_signature",
    "continuationToken",
    "thoughtSignature",
    "thought_signature",
    "obfuscation",
    "inlineData",
    "data",
    "partial_image_b64",
    // Of Converse.
    "redactedContent",
    "bytes",
];

/// Words by which Gemini rates an answer: one for each of its categories, so that there are many.
const RATINGS: [&str; 18] = [
    "HARM_CATEGORY_HARASSMENT",
    "HARM_CATEGORY_HATE_SPEECH",
    "HARM_CATEGORY_SEXUALLY_EXPLICIT",
    "HARM_CATEGORY_DANGEROUS_CONTENT",
    "HARM_CATEGORY_CIVIC_INTEGRITY",
    "HARM_CATEGORY_UNSPECIFIED",
    "HARM_PROBABILITY_UNSPECIFIED",
    "HARM_SEVERITY_UNSPECIFIED",
    "HARM_SEVERITY_NEGLIGIBLE",
    "HARM_SEVERITY_LOW",
    "HARM_SEVERITY_MEDIUM",
    "HARM_SEVERITY_HIGH",
    "HARM_BLOCK_THRESHOLD_UNSPECIFIED",
    "NEGLIGIBLE",
    "LOW",
    "MEDIUM",
    "HIGH",
    "",
];

/// The roles of the wires.
const ROLES: [&str; 10] = [
    "assistant",
    "model",
    "user",
    "tool",
    "function",
    "system",
    "developer",
    "critic",
    "discriminator",
    "unknown",
];

/// Longer words are no names.
const LONGEST_WORD: usize = 256;
/// More words in one field are a sentence.
const MOST_WORDS: usize = 8;
/// More names of fields in one field are one, too.
const MOST_KEYS: usize = 32;

/// Whether nobody can read a text in what the field `name` holds.
pub(super) fn is_quiet(api: Api, name: &str, value: &Value) -> bool {
    if TEXTS.contains(&name) {
        return true;
    }
    match value {
        Value::String(role) if name == "role" => role.is_empty() || ROLES.contains(&role.as_str()),
        value => Words { api, words: BTreeSet::new(), keys: BTreeSet::new() }.take(name, value),
    }
}

/// What stands in a field, each word once.
struct Words<'a> {
    api: Api,
    words: BTreeSet<&'a str>,
    keys: BTreeSet<&'a str>,
}

impl<'a> Words<'a> {
    /// Whether all strings in a value are words, and the keys of its objects, and they are no more than a few.
    fn take(&mut self, name: &str, value: &'a Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
            Value::String(word) => {
                if let Some(states) = states(self.api, name) {
                    return word.is_empty() || states.contains(&word.as_str());
                }
                if !RATINGS.contains(&word.as_str()) {
                    self.words.insert(word);
                }
                self.words.len() <= MOST_WORDS && is_word(word, SEALED.contains(&name))
            }
            Value::Array(items) => items.iter().all(|item| self.take(name, item)),
            Value::Object(fields) => fields.iter().all(|(key, value)| {
                self.keys.insert(key);
                self.keys.len() <= MOST_KEYS && is_word(key, false) && self.take(key, value)
            }),
        }
    }
}

fn is_word(word: &str, is_sealed: bool) -> bool {
    if is_sealed {
        return is_base64(word);
    }
    word.len() <= LONGEST_WORD && word.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether a text is Base64, in one of its two alphabets, with its padding or without it.
fn is_base64(text: &str) -> bool {
    let letters = text.trim_end_matches('=');
    let is_of =
        |signs: [u8; 2]| letters.bytes().all(|byte| byte.is_ascii_alphanumeric() || signs.contains(&byte));
    text.len() - letters.len() <= 2 && (is_of([b'+', b'/']) || is_of([b'-', b'_']))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_without_text_holds_words() {
        for (name, value) in [
            ("id", json!("chatcmpl-1.a:b/c+d=")),
            ("status", json!("in_progress")),
            ("usage", json!({"input_tokens": 1, "tiers": ["standard", null, {"a.b/c": 0.5}]})),
            ("signature", json!("A".repeat(4_000))),
            ("redactedContent", json!("a+/b".repeat(1_000))),
            ("image", json!({"format": "png", "source": {"bytes": "A-_9".repeat(1_000)}})),
            ("signature", json!("c2ln+/==")),
            ("system_fingerprint", json!(["a", "b", "c", "d", "e", "f", "g", "h"])),
            ("qualifiers", json!(vec!["grounding_source"; 100])),
            ("safetyRatings", json!(RATINGS.map(|word| json!({"category": word, "probability": "LOW"})))),
            ("role", json!("assistant")),
            ("error", json!({"message": "It is not there."})),
            ("created", json!(1)),
        ] {
            assert!(is_quiet(Api::OpenAiResponses, name, &value), "{name} {value}");
        }
        for (name, value) in [
            ("id", json!("It is here")),
            ("id", json!("a\u{a0}b")),
            ("id", json!("wort\u{fc}")),
            ("id", json!("A".repeat(4_000))),
            ("signature", json!("It is here")),
            ("role", json!("It")),
            ("status", json!("deleted")),
            ("incomplete_details", json!({"reason": "deleted"})),
            ("signature", json!("delete.all")),
            ("signature", json!("delete-all+")),
            ("signature", json!("a==b")),
            ("usage", json!({"a": ["b", {"c": "It is here"}]})),
            ("usage", json!({"It is here": 1})),
            ("signature", json!("It,is,here.".repeat(100))),
            (
                "qualifiers",
                json!("What is written in words is a sentence of nine".split(' ').collect::<Vec<_>>()),
            ),
            (
                "usage",
                json!({"a": {"b": ["1", "2", "3", "4"]}, "c": [{"d": "5"}, {"d": ["6", "7", "8", "9"]}]}),
            ),
            ("usage", (0..=MOST_KEYS).map(|key| (format!("k{key}"), json!(1))).collect::<Value>()),
        ] {
            assert!(!is_quiet(Api::OpenAiResponses, name, &value), "{name} {value}");
        }
    }
}
