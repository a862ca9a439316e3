//! What stands in fields that hold no text: roles, states, reasons, ids, types, names, numbers.
//!
//! Nobody judges such a field, so nobody must be able to read a text in it. Each string in it, however deep, is a word: letters,
//! digits and signs without a blank, and no more of them than a name has; a role is one of the wires. What is sealed may be
//! longer. A field that says more is taken for one that nobody knows.
//!
//! Limits: a word can be any word. Fields that hold texts of the wire and belong to nobody's answer are listed in [`TEXTS`].

use serde_json::Value;

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
const SEALED: [&str; 9] = [
    "signature",
    "encrypted_content",
    "reasoning_opaque",
    "reasoning_signature",
    "continuationToken",
    "thoughtSignature",
    "obfuscation",
    "inlineData",
    "data",
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

/// Whether nobody can read a text in what the field `name` holds.
pub(super) fn is_quiet(name: &str, value: &Value) -> bool {
    if TEXTS.contains(&name) {
        return true;
    }
    match value {
        Value::String(role) if name == "role" => role.is_empty() || ROLES.contains(&role.as_str()),
        value => are_words(name, value),
    }
}

/// Whether all strings in a value are words, and the keys of its objects.
fn are_words(name: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(word) => is_word(word, SEALED.contains(&name)),
        Value::Array(items) => items.iter().all(|item| are_words(name, item)),
        Value::Object(fields) => {
            fields.iter().all(|(key, value)| is_word(key, false) && are_words(key, value))
        }
    }
}

fn is_word(word: &str, is_sealed: bool) -> bool {
    (is_sealed || word.len() <= LONGEST_WORD) && word.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_without_text_holds_words() {
        for (name, value) in [
            ("id", json!("chatcmpl-1.a:b/c+d=")),
            ("finish_reason", json!("tool_calls")),
            ("usage", json!({"input_tokens": 1, "tiers": ["standard", null, {"a.b/c": 0.5}]})),
            ("signature", json!("A".repeat(4_000))),
            ("role", json!("assistant")),
            ("error", json!({"message": "It is not there."})),
            ("created", json!(1)),
        ] {
            assert!(is_quiet(name, &value), "{name} {value}");
        }
        for (name, value) in [
            ("id", json!("It is here")),
            ("id", json!("a\u{a0}b")),
            ("id", json!("wort\u{fc}")),
            ("id", json!("A".repeat(4_000))),
            ("signature", json!("It is here")),
            ("role", json!("It")),
            ("status", json!({"a": ["b", {"c": "It is here"}]})),
            ("usage", json!({"It is here": 1})),
        ] {
            assert!(!is_quiet(name, &value), "{name} {value}");
        }
    }
}
