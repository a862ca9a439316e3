//! JSON that all readers read alike.
//!
//! Readers disagree about an object that has a key twice: most take the last value, some the first. And some
//! readers (Go's, .NET's) take `Tool_Calls` for `tool_calls`, which for all others is a field that they do not
//! know. What was judged would not be what runs, so such text is refused. Only what belongs to a wire has to keep
//! its letters: keys of arguments, schemas and the like are whatever their authors want. Nor is an answer read, or the arguments of a
//! call, with a [whole number that some readers take for another one](misreads_whole_number); requests have schemas with such bounds.

use std::cell::Cell;
use std::fmt;

use backstop_hooks::misreads_whole_number;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

/// Parses JSON and refuses objects that have a key twice, at any depth.
///
/// # Errors
/// If the bytes are not JSON, or a key stands twice.
pub fn parse_json(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    parse_said(bytes, Keys::Own, usize::MAX)
}

/// Parses one line of a document with many answers: as [`parse_json`], and refuses more than two million values, with which few
/// bytes would take a lot of memory.
///
/// # Errors
/// If the bytes are not JSON, a key stands twice, or there are too many values.
pub fn parse_line(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    parse_said(bytes, Keys::Own, MOST_VALUES_OF_LINE)
}

/// Parses a message of a wire: as [`parse_json`], and refuses keys that some readers take for one of the wire's
/// although their letters differ.
///
/// # Errors
/// If the bytes are not JSON, a key stands twice, or with letters of the wrong case.
pub(crate) fn parse_message(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    parse_said(bytes, Keys::Wire, usize::MAX)
}

/// Parses a request of a wire. A key that stands twice, or that some readers take for one of the wire's although its
/// letters differ, is refused, and so are more than half a million values, with which few bytes would take a lot of memory
/// and time.
///
/// # Errors
/// If the bytes are not JSON, or are refused.
pub fn parse_request(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    parse(bytes, Keys::Wire, MOST_VALUES)
}

/// Parses a value that stands in a request of a wire as deep as `outer` objects and lists: as [`parse_request`], which reads it
/// no deeper than it would with what it stands in. What `budget` has left is shared by all parts of one request.
pub(crate) fn parse_part(bytes: &[u8], outer: usize, budget: &Budget) -> Result<Value, serde_json::Error> {
    let room = MOST_DEEP.saturating_sub(outer);
    parse_within(bytes, Strict { keys: Keys::Wire, left: &budget.0, room, is_rounded: &Cell::new(false) })
}

/// How many values a request may still have.
#[derive(Debug)]
pub(crate) struct Budget(Cell<usize>);

impl Budget {
    /// That of a request that stands in `parts` pieces, each of which is a value that is read twice.
    pub(crate) fn of_request(parts: usize) -> Self {
        Self(Cell::new(MOST_VALUES.saturating_add(parts)))
    }

    /// How many are left.
    pub(crate) fn left(&self) -> usize {
        self.0.get()
    }

    /// Takes values that are known; `None` if there are not as many left.
    pub(crate) fn take(&self, values: usize) -> Option<()> {
        self.0.set(self.0.get().checked_sub(values)?);
        Some(())
    }
}

const MOST_VALUES: usize = 500_000;
/// How deep `serde_json` reads.
const MOST_DEEP: usize = 127;
const MOST_VALUES_OF_LINE: usize = 2_000_000;
/// The smallest number, but for its sign, as which a whole one may be read that 64 bits don't hold: 2^63.
const FIRST_ROUNDED: f64 = 9_223_372_036_854_775_808.0;
/// What is said of a text with a whole number that readers disagree about.
pub(crate) const MISREAD: &str = "a whole number is too large";
/// What is said of a text with more of them.
pub(crate) const TOO_MANY_VALUES: &str = "there are too many values";

fn parse(bytes: &[u8], keys: Keys, most: usize) -> Result<Value, serde_json::Error> {
    parse_within(
        bytes,
        Strict { keys, left: &Cell::new(most), room: MOST_DEEP, is_rounded: &Cell::new(false) },
    )
}

/// Parses what somebody said, in which a call of a tool may be.
fn parse_said(bytes: &[u8], keys: Keys, most: usize) -> Result<Value, serde_json::Error> {
    let is_rounded = Cell::new(false);
    let strict = Strict { keys, left: &Cell::new(most), room: MOST_DEEP, is_rounded: &is_rounded };
    let value = parse_within(bytes, strict)?;
    // The text is looked through again only where it matters.
    if is_rounded.get() && misreads_whole_number(bytes) {
        return Err(serde_json::Error::custom(MISREAD));
    }
    Ok(value)
}

fn parse_within(bytes: &[u8], strict: Strict<'_>) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = strict.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Reads a value.
#[derive(Clone, Copy)]
struct Strict<'a> {
    keys: Keys,
    /// How many values may still come.
    left: &'a Cell<usize>,
    /// How many objects and lists may still stand in one another.
    room: usize,
    /// Set where a number is beyond those of which each whole one is held.
    is_rounded: &'a Cell<bool>,
}

impl Strict<'_> {
    /// The same for what stands in an object or a list.
    fn inside<E: Error>(self, keys: Keys) -> Result<Self, E> {
        let room = self.room.checked_sub(1).ok_or_else(|| E::custom("it is nested too deep"))?;
        Ok(Self { keys, room, ..self })
    }
}

/// Whose keys a value has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// The wire's.
    Wire,
    /// Its own if it is an object, and the wire's if it is a list.
    OwnObject,
    /// Its own.
    Own,
}

impl Keys {
    /// Whose keys the value of a key has.
    fn of(self, key: &str) -> Self {
        match (self, key) {
            (Self::Own | Self::OwnObject, _) => Self::Own,
            // Items of OpenAI's wire, and the arguments of Anthropic's.
            (Self::Wire, "input" | "arguments") => Self::OwnObject,
            (Self::Wire, key) if OWN.binary_search(&key).is_ok() => Self::Own,
            (Self::Wire, _) => Self::Wire,
        }
    }
}

/// Where keys are those of tools, schemas and users, in order.
const OWN: [&str; 28] = [
    "args",
    "attributes",
    "env",
    "examples",
    "filters",
    "functionResponse",
    "function_response",
    "headers",
    "inputSchema",
    "input_examples",
    "input_schema",
    "json",
    "json_schema",
    "labels",
    "logit_bias",
    "metadata",
    "parameters",
    "parametersJsonSchema",
    "parameters_json_schema",
    "promptVariables",
    "properties",
    "requestMetadata",
    "responseJsonSchema",
    "responseSchema",
    "response_json_schema",
    "response_schema",
    "schema",
    "variables",
];

/// The keys of the wires that say something to a model, a person or a tool, in small letters and in order.
const SAYING: [&str; 111] = [
    "action",
    "additionalmodelrequestfields",
    "additionalmodelresponsefieldpaths",
    "additionalmodelresponsefields",
    "args",
    "arguments",
    "candidates",
    "choices",
    "citation",
    "citations",
    "citationscontent",
    "code",
    "code_execution",
    "code_execution_result",
    "codeexecution",
    "codeexecutionresult",
    "computer_use",
    "computeruse",
    "content",
    "content_block",
    "contentblockindex",
    "contents",
    "conversation",
    "delta",
    "enterprise_web_search",
    "enterprisewebsearch",
    "executable_code",
    "executablecode",
    "file_data",
    "file_search",
    "filedata",
    "filesearch",
    "function",
    "function_call",
    "function_declarations",
    "functioncall",
    "functiondeclarations",
    "functions",
    "google_maps",
    "google_search",
    "google_search_retrieval",
    "googlemaps",
    "googlesearch",
    "googlesearchretrieval",
    "guardcontent",
    "guardrailconfig",
    "index",
    "inferenceconfig",
    "inline_data",
    "inlinedata",
    "input",
    "instructions",
    "item",
    "mcp_servers",
    "mcpservers",
    "message",
    "messages",
    "model",
    "modelid",
    "name",
    "operation",
    "output",
    "output_text",
    "outputconfig",
    "part",
    "partial_args",
    "partial_json",
    "partialargs",
    "parts",
    "previous_response_id",
    "prompt",
    "promptvariables",
    "reasoning",
    "reasoning_content",
    "reasoningcontent",
    "reasoningtext",
    "refusal",
    "requestmetadata",
    "response",
    "role",
    "searchresult",
    "sourcecontent",
    "start",
    "stopreason",
    "stopsequences",
    "stream",
    "summary",
    "system",
    "system_instruction",
    "systeminstruction",
    "systemtool",
    "text",
    "thinking",
    "thought",
    "tool_calls",
    "tool_choice",
    "tool_config",
    "tooladdition",
    "toolchoice",
    "toolconfig",
    "toolremoval",
    "toolresult",
    "tools",
    "toolspec",
    "tooluse",
    "tooluseid",
    "trace",
    "transcript",
    "type",
    "url_context",
    "urlcontext",
];

/// The keys of [`SAYING`] that a wire itself writes with capital letters, and what is left of them without;
/// in order by either.
const CAMEL: [(&str, &str); 44] = [
    ("additionalModelRequestFields", "additionalmodelrequestfields"),
    ("additionalModelResponseFieldPaths", "additionalmodelresponsefieldpaths"),
    ("additionalModelResponseFields", "additionalmodelresponsefields"),
    ("citationsContent", "citationscontent"),
    ("codeExecution", "codeexecution"),
    ("codeExecutionResult", "codeexecutionresult"),
    ("computerUse", "computeruse"),
    ("contentBlockIndex", "contentblockindex"),
    ("enterpriseWebSearch", "enterprisewebsearch"),
    ("executableCode", "executablecode"),
    ("fileData", "filedata"),
    ("fileSearch", "filesearch"),
    ("functionCall", "functioncall"),
    ("functionDeclarations", "functiondeclarations"),
    ("googleMaps", "googlemaps"),
    ("googleSearch", "googlesearch"),
    ("googleSearchRetrieval", "googlesearchretrieval"),
    ("guardContent", "guardcontent"),
    ("guardrailConfig", "guardrailconfig"),
    ("inferenceConfig", "inferenceconfig"),
    ("inlineData", "inlinedata"),
    ("mcpServers", "mcpservers"),
    ("modelId", "modelid"),
    ("outputConfig", "outputconfig"),
    ("partialArgs", "partialargs"),
    ("promptVariables", "promptvariables"),
    ("reasoningContent", "reasoningcontent"),
    ("reasoningText", "reasoningtext"),
    ("requestMetadata", "requestmetadata"),
    ("searchResult", "searchresult"),
    ("sourceContent", "sourcecontent"),
    ("stopReason", "stopreason"),
    ("stopSequences", "stopsequences"),
    ("systemInstruction", "systeminstruction"),
    ("systemTool", "systemtool"),
    ("toolAddition", "tooladdition"),
    ("toolChoice", "toolchoice"),
    ("toolConfig", "toolconfig"),
    ("toolRemoval", "toolremoval"),
    ("toolResult", "toolresult"),
    ("toolSpec", "toolspec"),
    ("toolUse", "tooluse"),
    ("toolUseId", "tooluseid"),
    ("urlContext", "urlcontext"),
];

/// Whether a reader that does not mind letter case takes a key for one that says something.
fn is_disguised(key: &str) -> bool {
    if !key.bytes().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii()) {
        return CAMEL.binary_search_by_key(&key, |(_, lowered)| lowered).is_ok();
    }
    if CAMEL.binary_search_by_key(&key, |(camel, _)| camel).is_ok() {
        return false;
    }
    // Two letters beyond ASCII count as one in it.
    let folded = key.chars().map(|c| match c {
        '\u{212a}' => 'k',
        '\u{17f}' => 's',
        c => c.to_ascii_lowercase(),
    });
    SAYING.binary_search(&folded.collect::<String>().as_str()).is_ok()
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| D::Error::custom(TOO_MANY_VALUES))?;
        self.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        if value.abs() >= FIRST_ROUNDED {
            self.is_rounded.set(true);
        }
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        // What lies in a list of own values is own, too.
        let keys = if self.keys == Keys::OwnObject { Keys::Wire } else { self.keys };
        let inside = self.inside(keys)?;
        while let Some(item) = items.next_element_seed(inside)? {
            array.push(item);
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        let inside = self.inside(self.keys)?;
        while let Some(key) = entries.next_key::<String>()? {
            if self.keys == Keys::Wire && is_disguised(&key) {
                return Err(A::Error::custom("a key has letters of the wrong case"));
            }
            let inside = Self { keys: self.keys.of(&key), ..inside };
            match object.entry(key) {
                Entry::Vacant(place) => place.insert(entries.next_value_seed(inside)?),
                Entry::Occupied(_) => return Err(A::Error::custom("a key stands twice")),
            };
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_json_is_read_as_usual() {
        for text in
            ["null", "[1,-2,1.5,\"x\\u00e9\",true]", "{\"b\":{\"a\":[]},\"a\":{}}", "18446744073709551615"]
        {
            let usual: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse_json(text.as_bytes()).unwrap(), usual);
        }
        assert!(parse_json(b"{} x").is_err());
        assert!(parse_json(&[b'['; 100_000]).is_err());
    }

    #[test]
    fn a_whole_number_is_one_for_all_readers() {
        for text in ["12345678901234567890123", "{\"a\":[-9223372036854775809]}"] {
            for parse in [parse_json, parse_line, parse_message] {
                assert!(parse(text.as_bytes()).unwrap_err().to_string().starts_with(MISREAD), "{text}");
            }
            assert!(parse_request(text.as_bytes()).is_ok(), "bounds of schemas are so large");
        }
        assert!(parse_json(b"[1e30,123456789012345680000,\"12345678901234567890123\"]").is_ok());
    }

    #[test]
    fn keys_stand_once() {
        for text in ["{\"a\":1,\"a\":1}", "[{\"x\":{\"a\":1,\"b\":2,\"a\":3}}]", "{\"a\":1,\"\\u0061\":2}"] {
            assert!(parse_json(text.as_bytes()).unwrap_err().to_string().starts_with("a key stands twice"));
        }
    }

    #[test]
    fn keys_of_a_wire_keep_their_letters() {
        for text in [
            r#"{"choices":[{"message":{"content":"ok","Tool_Calls":[]}}]}"#,
            r#"{"Choices":[]}"#,
            r#"{"candidates":[{"index":1,"Index":0}]}"#,
            r#"{"tool_call\u017f":[]}"#,
            r#"{"input":[{"role":"user","Content":"x"}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"FunctionCall":{}}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"functioncall":{}}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"a","Args":{},"args":{}}}]}}]}"#,
            r#"{"tools":[{"googlesearch":{}}]}"#,
            r#"{"tools":[{"GOOGLE_SEARCH":{}}]}"#,
        ] {
            let error = parse_message(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("a key has letters of the wrong case"), "{text}: {error}");
            assert!(parse_json(text.as_bytes()).is_ok());
        }
    }

    #[test]
    fn a_request_has_only_so_many_values() {
        let most = format!("[{}]", vec!["0"; MOST_VALUES - 1].join(","));
        assert!(parse_request(most.as_bytes()).is_ok());
        let more = most.replacen('0', "[0]", 1);
        assert!(parse_request(more.as_bytes()).unwrap_err().to_string().starts_with(TOO_MANY_VALUES));
        assert!(parse_message(more.as_bytes()).is_ok());
    }

    #[test]
    fn other_keys_are_their_authors_own() {
        for text in [
            r#"{"content":[{"type":"tool_use","name":"edit","input":{"Content":{"Text":1},"content":2}}]}"#,
            r#"{"tools":[{"name":"x","input_schema":{"properties":{"Name":{"Type":"string"}}}}]}"#,
            r#"{"parts":[{"functionCall":{"args":{"Name":"x"}}},{"functionResponse":{"response":{"Text":1}}}]}"#,
            r#"{"unKnown":1,"Ordner":{"Ä":[]},"metadata":{"Role":"x"},"response":{"parameters":{"Role":1}}}"#,
        ] {
            assert_eq!(parse_message(text.as_bytes()).unwrap(), parse_json(text.as_bytes()).unwrap());
        }
    }

    #[test]
    fn lists_of_keys_are_in_order() {
        assert!(OWN.is_sorted() && SAYING.is_sorted());
        assert!(CAMEL.is_sorted_by_key(|(camel, _)| camel) && CAMEL.is_sorted_by_key(|(_, lowered)| lowered));
        assert!(SAYING.iter().all(|key| key.to_ascii_lowercase() == **key));
        assert!(
            CAMEL
                .iter()
                .all(|(key, lowered)| key.to_ascii_lowercase() == *lowered && SAYING.contains(lowered))
        );
    }
}
