//! Digests: what was judged, in 32 bytes.
//!
//! A digest identifies a value without containing it, so that receipts, approvals and the audit trail can say
//! *exactly this was judged* even when the text is redacted or gone. It is the SHA-256 of the
//! value's canonical JSON (object keys sorted, no white space), prefixed by the role of the value,
//! so that equal JSON in two roles has two digests. The digest of an event that holds a conversation is a tree over its
//! texts ([`Leaves`]).

mod canonical;
mod tree;

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

pub(crate) use self::tree::{AsLeaf, leaves};
pub use self::tree::{DigestForm, Leaves};

/// The SHA-256 of a value's canonical JSON. Written as `sha256:<64 hex digits>`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Returns the digest of `value` in the role `kind` (`tool_call`, `message`, ...). A value that has no JSON form (which
    /// none of Backstop's events is) takes the digest of `null`.
    pub fn of<T: Serialize + ?Sized>(kind: &str, value: &T) -> Self {
        let mut text = Vec::with_capacity(1024);
        canonical::append(&mut text, value, &[]);
        Self::of_bytes(&[kind], &text)
    }

    /// Returns the digest of plain text in the role `kind`.
    pub fn of_text(kind: &str, text: &str) -> Self {
        Self::of_bytes(&[kind], text.as_bytes())
    }

    /// Returns the digest of a list of digests in the role `kind`.
    pub fn of_digests(kind: &str, digests: &[Self]) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(kind.as_bytes());
        hasher.update([0]);
        digests.iter().for_each(|digest| hasher.update(digest.0));
        Self(hasher.finalize().into())
    }

    /// Returns the digest of `bytes` in the role whose name has these pieces.
    fn of_bytes(role: &[&str], bytes: &[u8]) -> Self {
        let mut hasher = Sha256::new();
        role.iter().for_each(|piece| hasher.update(piece.as_bytes()));
        hasher.update([0]);
        hasher.update(bytes);
        Self(hasher.finalize().into())
    }

    /// Returns the digest that has these bytes, such as one of an entry of the audit trail.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the raw bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the first 12 hex digits, for people.
    pub fn short(&self) -> String {
        self.prefix(12)
    }

    /// Returns the first `digits` of its 64 hex digits, for names that are made of digests.
    pub fn prefix(&self, digits: usize) -> String {
        let mut text = [0; TEXT_LEN];
        let all = self.text(&mut text).strip_prefix(ALGORITHM).unwrap_or_default();
        all.get(..digits).unwrap_or(all).to_owned()
    }

    /// Returns its text form, written to `text`.
    fn text<'a>(&self, text: &'a mut [u8; TEXT_LEN]) -> &'a str {
        let digit = |half: u8| if half < 10 { b'0' + half } else { b'a' + (half - 10) };
        let (algorithm, digits) = text.split_at_mut(ALGORITHM.len());
        algorithm.copy_from_slice(ALGORITHM.as_bytes());
        for (pair, byte) in digits.as_chunks_mut().0.iter_mut().zip(&self.0) {
            *pair = [digit(byte >> 4), digit(byte & 0xf)];
        }
        str::from_utf8(text).unwrap_or_default()
    }
}

const ALGORITHM: &str = "sha256:";
/// The length of the text form.
const TEXT_LEN: usize = ALGORITHM.len() + 64;

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text(&mut [0; TEXT_LEN]))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.short())
    }
}

/// Text that is not `sha256:` and 64 hex digits.
#[derive(Debug, thiserror::Error)]
#[error("a digest is written `sha256:` and 64 hex digits")]
pub struct InvalidDigest(());

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let digits = text.strip_prefix(ALGORITHM).ok_or(InvalidDigest(()))?;
        if digits.len() != 64 || !digits.is_ascii() {
            return Err(InvalidDigest(()));
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| InvalidDigest(()))?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| InvalidDigest(()))?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text(&mut [0; TEXT_LEN]))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Digest {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Digest".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^sha256:[0-9a-f]{64}$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn key_order_does_not_change_a_digest() {
        let a: Value = serde_json::from_str(r#"{"b":1,"a":[{"y":1,"x":2}]}"#).unwrap();
        let b: Value = serde_json::from_str(r#"{"a":[{"x":2,"y":1}],"b":1}"#).unwrap();
        assert_eq!(Digest::of("t", &a), Digest::of("t", &b));
    }

    #[test]
    fn a_role_and_every_value_change_a_digest() {
        let base = Digest::of("t", &json!({"a": "1"}));
        assert_ne!(base, Digest::of("u", &json!({"a": "1"})));
        assert_ne!(base, Digest::of("t", &json!({"a": 1})));
        assert_ne!(base, Digest::of("t", &json!({"a": "1", "b": null})));
    }

    #[test]
    fn text_form_round_trips_and_rejects_garbage() {
        let digest = Digest::of("t", &json!([]));
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        assert_eq!(serde_json::to_value(digest).unwrap(), json!(digest.to_string()));
        assert_eq!(digest.to_string(), format!("sha256:{}", digest.prefix(64)));
        assert!(digest.prefix(64).starts_with(&digest.short()) && digest.short().len() == 12);
        for bad in ["", "sha256:", "sha256:zz", &format!("sha256:{}", "é".repeat(32))] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
