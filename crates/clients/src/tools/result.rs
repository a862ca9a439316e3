//! Results of tools: the texts in them for hooks to read and change, and the way back into the tool's own
//! shape.
//!
//! A client hands a result over as whatever its tool returned: a string, an object with `stdout` and
//! `stderr`, a list of content blocks. Clients that let a result be rewritten want that very shape and
//! ignore any other, so a changed text is put back exactly where it stood. When hooks change the number of
//! texts, or withhold the result, one text takes what is new and the others are emptied. Numbers are not
//! texts: they are neither shown to hooks nor taken out.

use backstop_hooks::Text;
use backstop_hooks::conversation::{Part, ToolResult};
use serde_json::Value;

use super::ToolUse;

/// Most texts of a result that are handed out one by one; the rest of a larger result is one text, its JSON.
const MAX_TEXTS: usize = 2048;
/// How deep a result is looked into.
const MAX_DEPTH: usize = 24;

/// Fields that say what a value is, not what it holds. A short word under one of these names stays when a
/// result is withheld, because without it the client takes the result for a malformed one.
const TAGS: &[&str] = &["type", "status", "mimeType", "mime_type", "resultType", "result_type"];
const MAX_TAG_BYTES: usize = 32;
/// Fields whose text a model reads, where a result has texts that it doesn't.
const READ: &[&str] = &["stdout", "content", "text", "output", "llmContent", "textResultForLlm"];

/// What a tool returned.
#[derive(Clone, PartialEq)]
pub struct ResultBody {
    raw: Value,
    /// Where the texts are, as JSON pointers.
    places: Vec<String>,
    /// The result is too large to be taken apart and counts as one text, its JSON.
    whole: bool,
}

impl ResultBody {
    /// Finds the texts in a result.
    pub(crate) fn new(raw: Value) -> Self {
        let mut places = Vec::new();
        let complete = find_texts(&raw, String::new(), 0, &mut places);
        if complete {
            Self { raw, places, whole: false }
        } else {
            Self { raw, places: vec![String::new()], whole: true }
        }
    }

    /// What was returned, as it came.
    pub fn raw(&self) -> &Value {
        &self.raw
    }

    /// Whether the result counts as one text, its JSON.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    fn texts(&self) -> Vec<Text> {
        if self.whole {
            return vec![self.raw.to_string().into()];
        }
        self.places.iter().filter_map(|place| self.raw.pointer(place)?.as_str()).map(Text::from).collect()
    }

    /// The body with other texts: each in its place when there are as many as before, or else all of them in
    /// one place and the others empty. `None` where there is no text, and so no place for another one.
    pub(crate) fn with_texts(&self, texts: &[&str]) -> Option<Value> {
        if self.whole || texts.len() != self.places.len() {
            return replaced(&self.raw, texts.concat());
        }
        let mut body = self.raw.clone();
        for (place, text) in self.places.iter().zip(texts) {
            *body.pointer_mut(place)? = Value::String((*text).to_owned());
        }
        (!texts.is_empty()).then_some(body)
    }
}

/// What a text of a result is to its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// A model reads it.
    Read,
    /// It may.
    Text,
    /// It says what another value is.
    Tag,
}

impl Weight {
    fn of(field: &str, word: &str) -> Self {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '.' | '+');
        if READ.contains(&field) {
            Self::Read
        } else if TAGS.contains(&field) && word.len() <= MAX_TAG_BYTES && word.chars().all(plain) {
            Self::Tag
        } else {
            Self::Text
        }
    }

    /// Of the weightiest text in a value.
    fn most(value: &Value, field: &str) -> Option<Self> {
        match value {
            Value::String(word) => Some(Self::of(field, word)),
            Value::Array(items) => items.iter().filter_map(|item| Self::most(item, "")).min(),
            Value::Object(fields) => fields.iter().filter_map(|(key, item)| Self::most(item, key)).min(),
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }
}

/// The value with `text` in the place of its weightiest text, and nothing of the others but tags.
fn replaced(raw: &Value, text: String) -> Option<Value> {
    let weight = Weight::most(raw, "")?;
    let mut body = raw.clone();
    replace(&mut body, "", weight, &mut Some(text));
    Some(body)
}

fn replace(value: &mut Value, field: &str, weight: Weight, text: &mut Option<String>) {
    match value {
        Value::String(word) => {
            let own = Weight::of(field, word);
            match text.take_if(|_| own == weight) {
                Some(text) => *word = text,
                None if own == Weight::Tag => {}
                None => word.clear(),
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, "", weight, text)),
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(key, item)| replace(item, key, weight, text));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Collects the places of texts, in order. `false` when there are too many or they are too deep.
fn find_texts(value: &Value, place: String, depth: usize, places: &mut Vec<String>) -> bool {
    if depth > MAX_DEPTH || places.len() > MAX_TEXTS {
        return false;
    }
    match value {
        Value::String(_) => {
            places.push(place);
            places.len() <= MAX_TEXTS
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .all(|(index, item)| find_texts(item, format!("{place}/{index}"), depth + 1, places)),
        Value::Object(fields) => fields.iter().all(|(key, item)| {
            let key = key.replace('~', "~0").replace('/', "~1");
            find_texts(item, format!("{place}/{key}"), depth + 1, places)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

impl std::fmt::Debug for ResultBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ResultBody(<{} texts>)", self.places.len())
    }
}

/// A tool has run: the call and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// The call.
    pub call: ToolUse,
    /// What the tool returned, or the message of its failure.
    pub body: ResultBody,
    /// Whether it failed.
    pub is_error: bool,
    /// How long it ran, in milliseconds, where the client says it.
    pub duration_ms: Option<u64>,
}

impl ToolOutput {
    /// The result for hooks: one text part for each text in it.
    pub fn as_result(&self) -> ToolResult {
        ToolResult {
            tool_call_id: self.call.id().cloned().unwrap_or_else(|| "".into()),
            tool_name: Some(self.call.name().canonical().to_owned()),
            content: self.body.texts().into_iter().map(Part::text).collect(),
            is_error: self.is_error,
            details: None,
            meta: None,
        }
    }

    /// The tool's own shape with the texts of `result`; `None` where that shape would be lost.
    pub(crate) fn rewritten(&self, result: &ToolResult) -> Option<Value> {
        let texts: Vec<&str> = result.content.iter().filter_map(Part::as_text).map(Text::as_str).collect();
        self.body.with_texts(&texts)
    }

    /// The tool's own shape with no text in it but `notice`; `None` where that shape would be lost.
    pub(crate) fn withheld(&self, notice: &str) -> Option<Value> {
        self.body.with_texts(&[notice])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rewritten(raw: Value, texts: &[&str]) -> Value {
        ResultBody::new(raw).with_texts(texts).unwrap()
    }

    #[test]
    fn a_changed_text_goes_back_to_its_place() {
        let bash = json!({"stdout": "key", "stderr": "", "interrupted": false});
        assert_eq!(
            rewritten(bash, &["***", ""]),
            json!({"stdout": "***", "stderr": "", "interrupted": false})
        );
        let blocks = json!([{"type": "text", "text": "key"}]);
        assert_eq!(rewritten(blocks, &["text", "***"]), json!([{"type": "text", "text": "***"}]));
        assert_eq!(rewritten(json!("key"), &["***"]), json!("***"));
    }

    #[test]
    fn another_number_of_texts_leaves_nothing_of_the_old_ones() {
        let read = json!({"type": "text", "file": {"filePath": "/a", "content": "key", "numLines": 1}});
        assert_eq!(
            rewritten(read, &["gone"]),
            json!({"type": "text", "file": {"filePath": "", "content": "gone", "numLines": 1}})
        );
        let sly = json!({"type": "a secret in the place of a tag", "text": "key"});
        assert_eq!(rewritten(sly, &["gone"]), json!({"type": "", "text": "gone"}));
    }

    #[test]
    fn what_is_too_large_or_too_deep_is_one_text() {
        let mut deep = json!("key");
        for _ in 0..100 {
            deep = json!([deep]);
        }
        let body = ResultBody::new(deep);
        assert_eq!(body.texts().len(), 1);
        let gone = body.with_texts(&["gone"]).unwrap().to_string();
        assert!(gone.contains("gone") && !gone.contains("key"), "{gone}");
        assert_eq!(ResultBody::new(json!({"n": 1})).with_texts(&["gone"]), None);
        let many = ResultBody::new(json!({"type": "list", "names": vec!["key"; 10_000], "content": "key"}));
        assert_eq!(many.texts().len(), 1);
        let gone = many.with_texts(&["gone"]).unwrap();
        assert_eq!(gone, json!({"type": "list", "names": vec![""; 10_000], "content": "gone"}));
        let tags =
            ResultBody::new(json!(vec![json!({"type": "key"}); 10_000])).with_texts(&["gone"]).unwrap();
        assert_eq!(tags[0], json!({"type": "gone"}));
    }

    #[test]
    fn keys_with_slashes_are_found_again() {
        assert_eq!(rewritten(json!({"a/b~c": "key"}), &["***"]), json!({"a/b~c": "***"}));
    }
}
