//! Entries: what is written, in a form that has one spelling.
//!
//! An entry is a JSON object in the canonical form of RFC 8785 with these members: `at` (milliseconds since 1970), `body`, `kind`,
//! `labels` (texts by which entries are found), `n` and `process`. Each process numbers its entries from one, so what is missing between
//! two of them shows. The body is the caller's; numbers beyond ±2^53 become texts, since RFC 8785 reads numbers as doubles and would
//! round them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The most bytes of an entry, with everything around its body.
pub const MAX_ENTRY_BYTES: usize = 80 * 1024;
/// The most bytes of its body.
pub const MAX_BODY_BYTES: usize = 64 * 1024;
/// The most characters of the kind of an entry that was too large.
const MOST_KIND_CHARS: usize = 64;
/// Integers up to this have one spelling as doubles.
const SAFE: u64 = 1 << 53;
/// The same as a double.
const FIRST_UNSAFE: f64 = 9_007_199_254_740_992.0;

/// What stands before the labels of an entry. Behind them are a number and the name of a process, and in texts quotes are escaped, so that the last
/// place where this stands is that one.
const LABELS: &[u8] = br#","labels":{"#;

/// The kind of an entry with which a process begins.
pub const KIND_START: &str = "start";
/// The kind of the last entry of a process that ended in order.
pub const KIND_STOP: &str = "stop";
/// The kind of an entry that says that torn bytes were cut off, or that a damaged file was put aside.
pub const KIND_RECOVERED: &str = "recovered";
/// The kind of an entry that says that something besides the entries (a checkpoint, a tile) could not be written.
pub const KIND_IMPAIRED: &str = "impaired";
/// The kind of an entry that says which entries were found without a checkpoint, as a killed process leaves them.
pub const KIND_UNSIGNED: &str = "unsigned";
/// The kind of an entry that stands for one that was too large.
pub const KIND_OMITTED: &str = "omitted";
/// The kind of an entry that says that nothing happened.
pub const KIND_HEARTBEAT: &str = "heartbeat";
/// The kind of an entry that says which entries were pruned.
pub const KIND_TOMBSTONE: &str = "tombstone";
/// The kind of an entry that hands over from one key to the next.
pub const KIND_ROTATED: &str = "rotated";

/// A JSON text in its canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canonical(String);

impl Default for Canonical {
    /// Returns `null`.
    fn default() -> Self {
        Self("null".to_owned())
    }
}

impl Canonical {
    /// Returns the canonical form of a value.
    ///
    /// # Errors
    ///
    /// [`BodyError::NotJson`] for a value without a JSON form.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, BodyError> {
        let mut value = serde_json::to_value(value).map_err(|_| BodyError::NotJson)?;
        make_safe(&mut value);
        let mut plain = String::new();
        if write_plain(&value, &mut plain).is_some() {
            return Ok(Self(plain));
        }
        serde_json_canonicalizer::to_string(&value).map(Self).map_err(|_| BodyError::NotJson)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The body of an entry: canonical JSON that is not too large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body(Canonical);

/// Why something is no body.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It has no JSON form.
    #[error("the body of an entry has no JSON form")]
    NotJson,
    /// It is too large.
    #[error("the body of an entry has at most {MAX_BODY_BYTES} bytes, this one has {0}")]
    TooLarge(usize),
}

impl Body {
    /// Returns the canonical form of a value.
    ///
    /// # Errors
    ///
    /// [`BodyError`] for a value without a JSON form, or a large one.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, BodyError> {
        Canonical::of(value)?.try_into()
    }

    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl TryFrom<Canonical> for Body {
    type Error = BodyError;

    fn try_from(text: Canonical) -> Result<Self, BodyError> {
        let bytes = text.0.len();
        if bytes > MAX_BODY_BYTES { Err(BodyError::TooLarge(bytes)) } else { Ok(Self(text)) }
    }
}

/// Writes a value whose canonical form takes no more than sorting its names, as those of receipts: names of ASCII, which are in the same
/// order by bytes and by UTF-16, and integers. `None` for any other, which the library writes, at ten times the cost.
fn write_plain(value: &Value, out: &mut String) -> Option<()> {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(is) => out.push_str(if *is { "true" } else { "false" }),
        Value::Number(number) if !number.is_f64() => write!(out, "{number}").ok()?,
        Value::Number(_) => return None,
        Value::String(text) => write_text(text, out)?,
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                out.push(if index == 0 { '[' } else { ',' });
                write_plain(item, out)?;
            }
            out.push_str(if items.is_empty() { "[]" } else { "]" });
        }
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| *name);
            for (index, (name, value)) in sorted.iter().enumerate() {
                if !name.is_ascii() {
                    return None;
                }
                out.push(if index == 0 { '{' } else { ',' });
                write_text(name, out)?;
                out.push(':');
                write_plain(value, out)?;
            }
            out.push_str(if fields.is_empty() { "{}" } else { "}" });
        }
    }
    Some(())
}

/// Writes a text with its quotes. Most have nothing to escape.
fn write_text(text: &str, out: &mut String) -> Option<()> {
    if text.bytes().any(|byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        out.push_str(&serde_json::to_string(text).ok()?);
    } else {
        out.push('"');
        out.push_str(text);
        out.push('"');
    }
    Some(())
}

/// Spells numbers out beyond which doubles don't tell integers apart.
fn make_safe(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let integer = number.as_i64().map(i64::unsigned_abs).or_else(|| number.as_u64());
            // A double as large is written as an integer, and would be read as one.
            let is_large = |number: f64| number.abs() > FIRST_UNSAFE;
            if integer.map_or_else(|| number.as_f64().is_some_and(is_large), |integer| integer > SAFE) {
                *value = Value::String(number.to_string());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_safe),
        Value::Object(fields) => fields.values_mut().for_each(make_safe),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// An entry to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// When it happened, in milliseconds since 1970.
    pub at: i64,
    /// What kind of thing.
    pub kind: String,
    /// By what it is found.
    pub labels: BTreeMap<String, String>,
    /// The facts.
    pub body: Body,
    /// Whether it explains the value of the label that the log remembers (`Options::remembers`), and is left out where the log has entries with that
    /// value already.
    pub once: bool,
}

impl Draft {
    /// Returns an entry without labels.
    pub fn new(at: i64, kind: &str, body: Body) -> Self {
        Self { at, kind: kind.to_owned(), labels: BTreeMap::new(), body, once: false }
    }

    /// Returns the entry that stands for one that is too large: when, which kind (its first 64 characters) and how many bytes it had. Its
    /// labels are gone with it.
    pub fn omitted(at: i64, kind: &str, bytes: usize) -> Self {
        let kind: String = kind.chars().take(MOST_KIND_CHARS).collect();
        let body = serde_json::json!({ "bytes": bytes, "kind": kind });
        Self::new(at, KIND_OMITTED, Body::of(&body).unwrap_or_else(|_| Body(Canonical::default())))
    }

    /// Returns the bytes of the entry as number `n` of the process.
    ///
    /// # Errors
    ///
    /// [`BodyError::TooLarge`] where labels and body are too large together.
    pub fn sealed(&self, process: &str, n: u64) -> Result<Vec<u8>, BodyError> {
        let Self { at, kind, labels, body, .. } = self;
        let text = |text: &str| {
            let mut out = String::with_capacity(text.len() + 2);
            write_text(text, &mut out).map(|()| out).ok_or(BodyError::NotJson)
        };
        let Canonical(labels) = Canonical::of(labels)?;
        // The members in the order of RFC 8785; the body is canonical already.
        let sealed = format!(
            "{{\"at\":{at},\"body\":{body},\"kind\":{kind},\"labels\":{labels},\"n\":{n},\"process\":{process}}}",
            body = body.as_str(),
            kind = text(kind)?,
            process = text(process)?,
        );
        if sealed.len() > MAX_ENTRY_BYTES {
            return Err(BodyError::TooLarge(sealed.len()));
        }
        Ok(sealed.into_bytes())
    }
}

/// An entry that was read.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// When it happened, in milliseconds since 1970.
    pub at: i64,
    /// The facts.
    pub body: Value,
    /// What kind of thing.
    pub kind: String,
    /// By what it is found.
    pub labels: BTreeMap<String, String>,
    /// Its number among those of its process.
    pub n: u64,
    /// The process that wrote it.
    pub process: String,
}

impl Entry {
    /// Reads an entry; `None` for something else.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

/// Returns the value of a label of an entry, as its canonical form has it between the quotes; `None` where it has none. Nothing else is read.
pub fn label_of<'e>(entry: &'e [u8], label: &str) -> Option<&'e str> {
    let at = entry.windows(LABELS.len()).rposition(|window| window == LABELS)?;
    let labels = entry.get(at + LABELS.len()..)?;
    let name = format!("\"{label}\":\"");
    let at = labels.windows(name.len()).position(|window| window == name.as_bytes())?;
    let rest = labels.get(at + name.len()..)?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    str::from_utf8(rest.get(..end)?).ok()
}

/// An entry without its body: what is needed to find it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Envelope<'e> {
    /// When it happened, in milliseconds since 1970.
    pub at: i64,
    /// What kind of thing.
    #[serde(borrow)]
    pub kind: std::borrow::Cow<'e, str>,
    /// Its number among those of its process.
    pub n: u64,
    /// The process that wrote it.
    #[serde(borrow)]
    pub process: std::borrow::Cow<'e, str>,
}

impl<'e> Envelope<'e> {
    /// Reads what is around a body; `None` for something else.
    pub fn read(bytes: &'e [u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_is_canonical_as_a_whole() {
        let body = Body::of(&json!({ "z": 1.0, "a": [true, null], "\u{e000}": 1, "\u{1f600}": 2 })).unwrap();
        let mut draft = Draft::new(5, "re\"ceipt", body);
        draft.labels.insert("session".to_owned(), "s\n1".to_owned());
        let sealed = String::from_utf8(draft.sealed("p1", 7).unwrap()).unwrap();
        let expected = "{\"at\":5,\"body\":{\"a\":[true,null],\"z\":1,\"\u{1f600}\":2,\"\u{e000}\":1},\
                        \"kind\":\"re\\\"ceipt\",\"labels\":{\"session\":\"s\\n1\"},\"n\":7,\"process\":\"p1\"}";
        assert_eq!(sealed, expected);
        let value: Value = serde_json::from_str(&sealed).unwrap();
        assert_eq!(serde_json_canonicalizer::to_string(&value).unwrap(), sealed);
        let entry = Entry::read(sealed.as_bytes()).unwrap();
        assert_eq!(
            (entry.n, entry.kind.as_str(), entry.labels["session"].as_str()),
            (7, "re\"ceipt", "s\n1")
        );
        assert_eq!(Envelope::read(sealed.as_bytes()).unwrap().process, "p1");
    }

    #[test]
    fn a_value_is_that_of_the_label_whatever_else_an_entry_holds() {
        let of = |body: Value, policy: Option<&str>, session: &str| {
            let mut draft = Draft::new(5, "a", Body::of(&body).unwrap());
            draft.labels.insert("session".to_owned(), session.to_owned());
            draft.labels.extend(policy.map(|policy| ("policy".to_owned(), policy.to_owned())));
            let sealed = draft.sealed("p", 1).unwrap();
            label_of(&sealed, "policy").map(str::to_owned)
        };
        let forged = json!({ "labels": { "policy": "forged" }, "text": r#","labels":{"policy":"forged"}"# });
        let text = r#"","policy":"forged"#;
        assert_eq!(of(forged.clone(), Some("v1"), text), Some("v1".to_owned()));
        assert_eq!(of(forged, None, text), None);
        assert_eq!(label_of(b"", "policy"), None);
    }

    #[test]
    fn two_integers_never_become_one() {
        let numbers = [SAFE - 1, SAFE, SAFE + 1, u64::MAX - 1, u64::MAX];
        let texts = numbers.map(|number| Body::of(&number).unwrap().as_str().to_owned());
        assert_eq!(
            texts,
            [
                "9007199254740991",
                "9007199254740992",
                "\"9007199254740993\"",
                "\"18446744073709551614\"",
                "\"18446744073709551615\""
            ]
        );
        assert_eq!(Body::of(&i64::MIN).unwrap().as_str(), "\"-9223372036854775808\"");
    }

    #[test]
    fn what_is_too_large_is_refused() {
        assert!(Body::of(&"x".repeat(MAX_BODY_BYTES - 2)).is_ok());
        assert!(matches!(Body::of(&"x".repeat(MAX_BODY_BYTES)), Err(BodyError::TooLarge(_))));
        let mut draft = Draft::new(1, "a", Body::of(&1).unwrap());
        draft.labels.insert("long".to_owned(), "x".repeat(MAX_ENTRY_BYTES));
        assert!(matches!(draft.sealed("p", 1), Err(BodyError::TooLarge(_))));
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(".{0,6}", inner, 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_plainly_is_what_the_library_writes(value in json()) {
            let mut safe = value.clone();
            make_safe(&mut safe);
            let (body, by_library) = (Body::of(&value).unwrap(), serde_json_canonicalizer::to_string(&safe).unwrap());
            prop_assert_eq!(body.as_str(), by_library);
        }

        #[test]
        fn the_canonical_form_is_stable(value in json()) {
            let first = Body::of(&value).unwrap();
            let read: Value = serde_json::from_str(first.as_str()).unwrap();
            prop_assert_eq!(Body::of(&read).unwrap(), first);
        }
    }
}
