//! What stands in fields that hold no text: roles, states, reasons, ids, types, names, numbers.
//!
//! Nobody reads a text in such a field, so nobody must be able to: each string in it, however deep, is a word: letters,
//! digits and signs without a blank, and no more of them than a name has; a role is one of the wires, and a state or a reason one
//! that its wire lists ([`states`]). What is sealed may be longer, and is Base64. Many words are a sentence: a field has a few, and
//! the names in it are bounded, too. A field that says more is taken for one that nobody knows.
//!
//! Words that are in no list are shown to redactors: an id can be any word, also one that is a secret.
//!
//! A few fields hold something else. They are [listed](HELD) by wire and by the kind of thing that they are fields of: the same name
//! elsewhere is held to be words.
//!
//! Limits: a few names can be any few; what is sealed is shown as it is written, and nobody here can open it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::asked::Asked;
use super::findings::Word;
use crate::wire::{Api, RATINGS, TypeTable, is_word_of, states};

/// What a field holds besides words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    /// What the request says: its strings are the request's. Others make it [`Holds::Told`].
    Asked,
    /// What the provider, or somebody whom it quotes, says in words of its own: that is judged like a result.
    Told,
    /// The text once more, token by token.
    Tokens,
    /// Something that is looked at by itself.
    Nested,
    /// What only the provider reads.
    Sealed,
    /// Letters that say nothing.
    Padding,
    /// An object with something sealed in it, at this place inside.
    SealedIn(&'static [&'static str]),
}

/// Fields that hold more than words: the wire, what they are fields of, what they hold, and their names.
const HELD: [(Api, &str, Holds, &[&str]); 33] = [
    (
        Api::OpenAiResponses,
        "fields of answers",
        Holds::Asked,
        &["instructions", "metadata", "prompt", "prompt_cache_key", "text", "tool_choice", "tools", "user"],
    ),
    (Api::OpenAiResponses, "fields of answers", Holds::Told, &["error", "moderation"]),
    (Api::OpenAiResponses, "fields of events", Holds::Nested, &["item", "response"]),
    (Api::OpenAiResponses, "fields of events", Holds::Told, &["message"]),
    (Api::OpenAiResponses, "fields of events", Holds::Tokens, &["logprobs"]),
    (Api::OpenAiResponses, "fields of events", Holds::Sealed, &["partial_image_b64"]),
    (Api::OpenAiResponses, "fields of events", Holds::Padding, &["obfuscation"]),
    (Api::OpenAiResponses, "fields of messages", Holds::Tokens, &["logprobs"]),
    (Api::OpenAiResponses, "fields of messages", Holds::Sealed, &["encrypted_content"]),
    (Api::OpenAiResponses, "fields of sealed items", Holds::Sealed, &["encrypted_content"]),
    (Api::OpenAiChat, "fields of answers", Holds::Asked, &["metadata"]),
    (Api::OpenAiChat, "fields of answers", Holds::Told, &["moderation", "provider"]),
    (Api::OpenAiChat, "fields of answers", Holds::Padding, &["obfuscation"]),
    (Api::OpenAiChat, "fields of choices", Holds::Asked, &["matched_stop", "stop_reason"]),
    (Api::OpenAiChat, "fields of choices", Holds::Tokens, &["logprobs"]),
    (Api::OpenAiChat, "fields of messages", Holds::Sealed, &["reasoning_opaque"]),
    (Api::OpenAiChat, "fields of details of reasoning", Holds::Sealed, &["data", "signature"]),
    (
        Api::OpenAiChat,
        "fields of calls",
        Holds::SealedIn(&["google", "thought_signature"]),
        &["extra_content"],
    ),
    (Api::AnthropicMessages, "fields of answers", Holds::Nested, &["message"]),
    (Api::AnthropicMessages, "fields of answers", Holds::Told, &["diagnostics", "error", "stop_details"]),
    (Api::AnthropicMessages, "fields of answers", Holds::Asked, &["stop_sequence"]),
    (Api::AnthropicMessages, "fields of texts", Holds::Sealed, &["encrypted_content", "signature"]),
    (Api::AnthropicMessages, "fields of blocks", Holds::Sealed, &["data"]),
    (Api::AnthropicMessages, "fields of blocks", Holds::SealedIn(&["data"]), &["source"]),
    (Api::Gemini, "fields of answers", Holds::Told, &["error", "modelStatus", "promptFeedback"]),
    (Api::Gemini, "fields of candidates", Holds::Tokens, &["logprobsResult"]),
    (Api::Gemini, "fields of candidates", Holds::Sealed, &["continuationToken"]),
    (Api::Gemini, "fields of parts", Holds::Sealed, &["thoughtSignature"]),
    (Api::Gemini, "fields of parts", Holds::SealedIn(&["data"]), &["inlineData"]),
    (Api::BedrockConverse, "fields of texts", Holds::Sealed, &["redactedContent", "signature"]),
    // What is said of a picture that failed is judged as a result of its own.
    (Api::BedrockConverse, "fields of pictures", Holds::Nested, &["error"]),
    (Api::BedrockConverse, "fields of texts", Holds::SealedIn(&["source", "bytes"]), &["image"]),
    (Api::BedrockConverse, "fields of pictures", Holds::SealedIn(&["bytes"]), &["source"]),
];

/// Longer words are no names.
const LONGEST_WORD: usize = 256;
/// Longer tokens of a text are none.
const LONGEST_TOKEN: usize = 256;
/// Padding that is shorter is no token that opens anything.
const SHORTEST_SHOWN: usize = 17;
/// More words in one field are a sentence.
const MOST_WORDS: usize = 8;
/// More names of fields in one field are one, too.
const MOST_KEYS: usize = 32;

/// What a field says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// Nobody can read a text in it. These words of it are in no list.
    Words(Vec<Word>),
    /// What somebody wrote.
    Told,
    /// More than a field may that holds no text.
    More,
}

/// What the field `name` of a thing says, whose fields `table` has.
pub(super) fn said(table: &TypeTable, name: &str, value: &Value, asked: &Asked) -> Says {
    let is_it = |(api, things, _, names): &&(Api, &str, Holds, &[&str])| {
        *api == table.api && *things == table.things && names.contains(&name)
    };
    let words = |sealed: &'static [&'static str]| Words::new(table.api, sealed);
    match HELD.iter().find(is_it).map(|(.., holds, _)| *holds) {
        None => words(&[]).all(name, value, true),
        Some(Holds::Nested) => Says::Words(Vec::new()),
        Some(Holds::Padding) => match value.as_str().and_then(padding) {
            Some(is_shown) => {
                Says::Words(value.as_str().filter(|_| is_shown).map(Word::sealed).into_iter().collect())
            }
            None => Says::More,
        },
        Some(Holds::Sealed) => words(&[]).all(name, value, false),
        Some(Holds::SealedIn(place)) => words(place).all(name, value, true),
        Some(Holds::Tokens) => tokens(table.api, value),
        Some(Holds::Told) => match words(&[]).all(name, value, true) {
            Says::More => Says::Told,
            says => says,
        },
        Some(Holds::Asked) => match repeated(table.api, value, asked) {
            Some(words) => Says::Words(words),
            None => Says::Told,
        },
    }
}

/// Whether a padding says nothing, and whether it has to be shown all the same.
pub(super) fn padding(text: &str) -> Option<bool> {
    is_base64(text).then_some(text.len() >= SHORTEST_SHOWN)
}

/// What stands in a field, each word once.
struct Words<'a> {
    api: Api,
    words: BTreeSet<&'a str>,
    keys: BTreeSet<&'a str>,
    seals: Vec<&'a str>,
    /// What leads to something sealed inside of the field.
    sealed: &'static [&'static str],
}

impl<'a> Words<'a> {
    fn new(api: Api, sealed: &'static [&'static str]) -> Self {
        Self { api, words: BTreeSet::new(), keys: BTreeSet::new(), seals: Vec::new(), sealed }
    }

    /// What a field says whose value `is_open`, or is sealed.
    fn all(mut self, name: &str, value: &'a Value, is_open: bool) -> Says {
        let sealed = self.sealed;
        let place = if is_open { (!sealed.is_empty()).then_some(sealed) } else { Some(&[][..]) };
        if !self.take(name, value, place) {
            return Says::More;
        }
        let named = self.keys.iter().filter(|key| !is_word_of(self.api, key));
        Says::Words({
            let open = self.words.iter().chain(named).map(|word| Word::new(*word));
            open.chain(self.seals.iter().map(|seal| Word::sealed(*seal))).collect()
        })
    }

    /// Whether all strings in a value are words, and the keys of its objects, and they are no more than a few. `sealed` leads to
    /// what is sealed in it: it is this value itself if nothing is left of the way.
    fn take(&mut self, name: &str, value: &'a Value, sealed: Option<&'static [&'static str]>) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
            Value::String(word) if sealed.is_some_and(<[_]>::is_empty) => {
                self.seals.push(word);
                is_base64(word)
            }
            Value::String(word) => {
                if let Some(states) = states(self.api, name) {
                    return word.is_empty() || states.contains(&word.as_str());
                }
                if !(self.api == Api::Gemini && RATINGS.words.contains(&word.as_str())) {
                    self.words.insert(word);
                }
                self.words.len() <= MOST_WORDS && is_word(word)
            }
            Value::Array(items) => items.iter().all(|item| self.take(name, item, sealed)),
            Value::Object(fields) => fields.iter().all(|(key, value)| {
                self.keys.insert(key);
                let inside = sealed.and_then(|way| way.split_first()).filter(|(first, _)| *first == key);
                self.keys.len() <= MOST_KEYS
                    && is_word(key)
                    && self.take(key, value, inside.map(|(_, rest)| rest))
            }),
        }
    }
}

/// The words of a field that repeats the request, and that the request does not have; `None` if it says more than words.
fn repeated(api: Api, value: &Value, asked: &Asked) -> Option<Vec<Word>> {
    fn take<'a>(value: &'a Value, is_known: &dyn Fn(&str) -> bool, new: &mut BTreeSet<&'a str>) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) if is_known(text) => {}
            Value::String(text) => drop(new.insert(text)),
            Value::Array(items) => items.iter().for_each(|item| take(item, is_known, new)),
            Value::Object(fields) => {
                for (name, value) in fields {
                    if !is_known(name) {
                        new.insert(name);
                    }
                    take(value, is_known, new);
                }
            }
        }
    }
    let mut new = BTreeSet::new();
    take(value, &|text| text.is_empty() || asked.has(text) || is_word_of(api, text), &mut new);
    let is_quiet = new.len() <= MOST_KEYS && new.iter().all(|word| is_word(word));
    is_quiet.then(|| new.into_iter().map(Word::new).collect())
}

/// The names of what tells probabilities of tokens.
const OF_TOKENS: [&str; 14] = [
    "bytes",
    "candidates",
    "chosenCandidates",
    "content",
    "logProbability",
    "logProbabilitySum",
    "logprob",
    "refusal",
    "token",
    "tokenId",
    "token_id",
    "topCandidates",
    "top_logprobs",
    "chosen_candidates",
];

/// What the tokens of a text say: each of them, and those of a list as they stand behind each other.
fn tokens(api: Api, value: &Value) -> Says {
    fn take(value: &Value, words: &mut Vec<String>) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
            Value::String(token) => {
                words.push(token.clone());
                token.len() <= LONGEST_TOKEN
            }
            Value::Array(items) => {
                let spelled = items.iter().filter_map(|item| item.get("token").and_then(Value::as_str));
                words.push(spelled.collect());
                items.iter().all(|item| take(item, words))
            }
            Value::Object(fields) => fields.iter().all(|(name, value)| {
                if !OF_TOKENS.contains(&name.as_str()) {
                    words.push(name.clone());
                }
                is_word(name) && take(value, words)
            }),
        }
    }
    let mut words = Vec::new();
    if !take(value, &mut words) {
        return Says::More;
    }
    words.retain(|word| !word.is_empty() && !is_word_of(api, word));
    words.sort_unstable();
    words.dedup();
    Says::Words(words.into_iter().map(Word::new).collect())
}

fn is_word(word: &str) -> bool {
    word.len() <= LONGEST_WORD && word.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether a text is Base64, in one of its two alphabets, with its padding or without it.
pub(super) fn is_base64(text: &str) -> bool {
    let letters = text.trim_end_matches('=');
    let is_of =
        |signs: [u8; 2]| letters.bytes().all(|byte| byte.is_ascii_alphanumeric() || signs.contains(&byte));
    text.len() - letters.len() <= 2 && (is_of([b'+', b'/']) || is_of([b'-', b'_']))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::ModelRequest;
    use crate::wire::type_tables;

    fn table(api: Api, things: &str) -> &'static TypeTable {
        type_tables().find(|table| table.api == api && table.things == things).unwrap()
    }

    fn says(api: Api, things: &'static str, name: &str, value: &Value) -> Says {
        let extra = json!({"metadata": {"team": "the blue one"}, "stop": ["THE END"]});
        let request = ModelRequest { extra: extra.into(), ..ModelRequest::new("m", Vec::new()) };
        said(table(api, things), name, value, &Asked::of(api, &request))
    }

    fn words(says: &Says) -> Option<Vec<&str>> {
        match says {
            Says::Words(words) => Some(words.iter().map(|word| word.text.as_str()).collect()),
            Says::Told | Says::More => None,
        }
    }

    #[test]
    fn a_field_without_text_holds_words() {
        for (name, value) in [
            ("id", json!("chatcmpl-1.a:b/c+d=")),
            ("status", json!("in_progress")),
            ("usage", json!({"input_tokens": 1, "tiers": ["standard", null, {"a.b/c": 0.5}]})),
            ("system_fingerprint", json!(["a", "b", "c", "d", "e", "f", "g", "h"])),
            ("qualifiers", json!(vec!["grounding_source"; 100])),
            ("role", json!("assistant")),
            ("created", json!(1)),
        ] {
            let says = says(Api::OpenAiResponses, "fields of answers", name, &value);
            assert!(words(&says).is_some(), "{name} {value}");
        }
        for (name, value) in [
            ("id", json!("It is here")),
            ("id", json!("a\u{a0}b")),
            ("id", json!("wort\u{fc}")),
            ("id", json!("A".repeat(4_000))),
            ("role", json!("It")),
            ("status", json!("deleted")),
            ("incomplete_details", json!({"reason": "deleted"})),
            ("usage", json!({"a": ["b", {"c": "It is here"}]})),
            ("usage", json!({"It is here": 1})),
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
            let says = says(Api::OpenAiResponses, "fields of answers", name, &value);
            assert_eq!(says, Says::More, "{name} {value}");
        }
    }

    #[test]
    fn words_that_are_in_no_list_are_shown() {
        let of = |name, value: Value| says(Api::OpenAiResponses, "fields of answers", name, &value);
        assert_eq!(words(&of("status", json!("completed"))), Some(vec![]));
        assert_eq!(words(&of("id", json!("resp_1"))), Some(vec!["resp_1"]));
        assert_eq!(words(&of("usage", json!({"zq": 1, "tier": "b"}))), Some(vec!["b", "tier", "zq"]));
        let ratings: Value =
            RATINGS.words.iter().map(|word| json!({"category": word, "probability": "LOW"})).collect();
        let rated = says(Api::Gemini, "fields of candidates", "safetyRatings", &ratings);
        assert!(words(&rated).is_some_and(|words| !words.contains(&"LOW")), "{rated:?}");
        let elsewhere = says(Api::OpenAiChat, "fields of choices", "content_filter_results", &ratings);
        assert_eq!(elsewhere, Says::More);
    }

    /// By wire, by the kind of thing, and by the way inside of it: a field of the same name elsewhere holds words.
    #[test]
    fn what_is_sealed_is_so_at_its_place_alone() {
        let seal = "A-_9".repeat(1_000);
        let sealed = |api, things, name, value: &Value| match says(api, things, name, value) {
            Says::Words(words) => words.iter().any(|word| word.is_sealed && word.text == seal),
            Says::Told | Says::More => false,
        };
        for (api, things, name, value) in [
            (Api::AnthropicMessages, "fields of texts", "signature", json!(seal)),
            (Api::AnthropicMessages, "fields of blocks", "source", json!({"type": "base64", "data": seal})),
            (
                Api::BedrockConverse,
                "fields of texts",
                "image",
                json!({"format": "png", "source": {"bytes": seal}}),
            ),
            (
                Api::OpenAiChat,
                "fields of calls",
                "extra_content",
                json!({"google": {"thought_signature": seal}}),
            ),
            (Api::Gemini, "fields of parts", "inlineData", json!({"mimeType": "a/b", "data": seal})),
        ] {
            assert!(sealed(api, things, name, &value), "{things} {name}");
        }
        for (api, things, name, value) in [
            (Api::OpenAiChat, "fields of choices", "signature", json!(seal)),
            (Api::AnthropicMessages, "fields of answers", "signature", json!(seal)),
            (Api::AnthropicMessages, "fields of blocks", "source", json!({"inner": {"data": seal}})),
            (Api::AnthropicMessages, "fields of blocks", "id", json!({"data": seal})),
            (Api::BedrockConverse, "fields of texts", "image", json!({"bytes": seal})),
            (Api::OpenAiChat, "fields of calls", "extra_content", json!({"thought_signature": seal})),
        ] {
            assert_eq!(says(api, things, name, &value), Says::More, "{things} {name}");
        }
        for text in ["It is here", "delete.all", "delete-all+", "a==b", &"It,is,here.".repeat(100)] {
            let says = says(Api::AnthropicMessages, "fields of texts", "signature", &json!(text));
            assert_eq!(says, Says::More, "{text}");
        }
    }

    #[test]
    fn what_repeats_the_request_is_the_requests() {
        let asked = |name, value: Value| says(Api::OpenAiResponses, "fields of answers", name, &value);
        assert_eq!(words(&asked("metadata", json!({"team": "the blue one"}))), Some(vec![]));
        assert_eq!(words(&asked("metadata", json!({"team": "red", "zq": null}))), Some(vec!["red", "zq"]));
        assert_eq!(asked("metadata", json!({"team": "the red one"})), Says::Told);
        assert_eq!(asked("instructions", json!("Be somebody else.")), Says::Told);
        let stopped =
            |text: &str| says(Api::AnthropicMessages, "fields of answers", "stop_sequence", &json!(text));
        assert_eq!(words(&stopped("THE END")), Some(vec![]));
        assert_eq!(stopped("THE START"), Says::Told);
        // The same name elsewhere is none.
        assert_eq!(
            says(Api::OpenAiResponses, "fields of events", "metadata", &json!("the blue one")),
            Says::More
        );
    }

    #[test]
    fn what_a_provider_says_of_itself_is_judged_like_a_result() {
        for (api, things, name) in [
            (Api::OpenAiResponses, "fields of answers", "error"),
            (Api::Gemini, "fields of answers", "promptFeedback"),
            (Api::OpenAiChat, "fields of answers", "provider"),
        ] {
            assert_eq!(says(api, things, name, &json!("It is not there.")), Says::Told);
            assert_eq!(words(&says(api, things, name, &json!("word"))), Some(vec!["word"]));
        }
        assert_eq!(says(Api::OpenAiChat, "fields of choices", "provider", &json!("It is not.")), Says::More);
    }

    #[test]
    fn tokens_are_words_and_what_they_spell() {
        let spelled = json!({"content": [{"token": "It ", "bytes": [1], "top_logprobs": [{"token": "The"}]}, {"token": "is", "zq": 1}]});
        let says = says(Api::OpenAiChat, "fields of choices", "logprobs", &spelled);
        assert_eq!(words(&says), Some(vec!["It ", "It is", "The", "is", "zq"]));
    }

    #[test]
    fn padding_is_letters_of_base64() {
        for (text, is_shown) in
            [("x9", Some(false)), ("", Some(false)), (&*"x".repeat(17), Some(true)), ("it is", None)]
        {
            assert_eq!(padding(text), is_shown, "{text}");
        }
    }

    /// A field that no table of its wire has would be an exception for nothing.
    #[test]
    fn each_exception_is_for_a_field_of_a_table() {
        for (api, things, _, names) in HELD {
            for name in names {
                assert!(table(api, things).class(name).is_some(), "{api} {things} {name}");
            }
        }
    }
}
