//! Keys of an issuer (RFC 7517), and signatures by them.
//!
//! Law: *a key fixes its algorithms, and the token does not choose.* What a key may check follows from its type and curve, and from
//! `alg`, `use` and `key_ops` where it has them. A key that is secret, or holds its private part, checks nothing.

use backstop_llm::wire::parse_json;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde_json::{Map, Value};

use super::settings::TokenAlgorithm;

/// The most keys that an issuer may have.
pub(super) const MOST_KEYS: usize = 64;
/// The longest id of a key, in bytes.
const LONGEST_ID: usize = 256;
/// The members of private and of secret keys (RFC 7518, 6).
const PRIVATE: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

/// The keys that count.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: Option<String>,
    /// The algorithms for which it counts.
    algorithms: Vec<TokenAlgorithm>,
    public: Public,
}

#[derive(Debug)]
enum Public {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// A point as SEC 1 writes it without compression, or the 32 bytes of Ed25519.
    Point(Vec<u8>),
}

/// Why there are no keys in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoKeys {
    #[error("it is no JSON object with a list `keys`, or has a key twice")]
    Form,
    #[error("it has more than {MOST_KEYS} keys")]
    TooMany,
}

/// Why no key fits a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// No key has its id.
    Unknown,
    /// The token names none, and there is more than one that could be meant.
    Unnamed,
    /// The key checks other algorithms.
    Algorithm,
    /// The signature is not the key's.
    Signature,
}

impl Keys {
    /// Reads a set of keys. Also returns how many of them were left out.
    pub(super) fn read(text: &[u8]) -> Result<(Self, usize), NoKeys> {
        let Ok(Value::Object(set)) = parse_json(text) else { return Err(NoKeys::Form) };
        let Some(Value::Array(listed)) = set.get("keys") else { return Err(NoKeys::Form) };
        if listed.len() > MOST_KEYS {
            return Err(NoKeys::TooMany);
        }
        let keys: Vec<Key> = listed.iter().filter_map(|key| Key::read(key.as_object()?)).collect();
        let left_out = listed.len() - keys.len();
        // A set without keys that count is one, too: its issuer has withdrawn those that it had.
        Ok((Self(keys), left_out))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn knows(&self, id: Option<&str>) -> bool {
        id.map_or(!self.0.is_empty(), |id| self.0.iter().any(|key| key.id.as_deref() == Some(id)))
    }

    /// Checks a signature. Several keys may share an id if they are of different types (RFC 7517, 4.5).
    pub(super) fn check(
        &self,
        id: Option<&str>,
        algorithm: TokenAlgorithm,
        signed: &[u8],
        signature: &[u8],
    ) -> Result<(), Unfit> {
        if !self.knows(id) {
            return Err(Unfit::Unknown);
        }
        let named = self.0.iter().filter(|key| id.is_none() || key.id.as_deref() == id);
        let fitting: Vec<&Key> = named.filter(|key| key.algorithms.contains(&algorithm)).collect();
        match fitting.as_slice() {
            [] => Err(Unfit::Algorithm),
            [_, _, ..] if id.is_none() => Err(Unfit::Unnamed),
            fitting if fitting.iter().any(|key| key.public.fits(algorithm, signed, signature)) => Ok(()),
            _ => Err(Unfit::Signature),
        }
    }
}

impl Key {
    /// `None` for a key that is none of those that count here.
    fn read(key: &Map<String, Value>) -> Option<Self> {
        if PRIVATE.iter().any(|name| key.contains_key(*name)) {
            return None;
        }
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        let (public, mut algorithms) = match (text("kty")?, text("crv")) {
            ("RSA", _) => {
                let public = Public::Rsa { n: bytes("n")?, e: bytes("e")? };
                (public, vec![TokenAlgorithm::Rs256, TokenAlgorithm::Ps256])
            }
            ("EC", Some("P-256")) => (point(bytes("x")?, bytes("y")?, 32)?, vec![TokenAlgorithm::Es256]),
            ("EC", Some("P-384")) => (point(bytes("x")?, bytes("y")?, 48)?, vec![TokenAlgorithm::Es384]),
            ("OKP", Some("Ed25519")) => {
                let x = bytes("x").filter(|x| x.len() == 32)?;
                (Public::Point(x), vec![TokenAlgorithm::EdDsa])
            }
            _ => return None,
        };
        if let Some(named) = key.get("alg") {
            let named = TokenAlgorithm::named(named.as_str()?)?;
            algorithms.retain(|algorithm| *algorithm == named);
        }
        let is_for_signatures = key.get("use").is_none_or(|of| of == "sig")
            && key.get("key_ops").is_none_or(|of| {
                of.as_array().is_some_and(|of| of.iter().any(|operation| operation == "verify"))
            });
        let id = match key.get("kid") {
            None => None,
            Some(id) => Some(id.as_str().filter(|id| id.len() <= LONGEST_ID)?.to_owned()),
        };
        (is_for_signatures && !algorithms.is_empty()).then_some(Self { id, algorithms, public })
    }
}

/// A point of a curve whose coordinates have `size` bytes each, no more and no fewer (RFC 7518, 6.2.1.2).
fn point(x: Vec<u8>, y: Vec<u8>, size: usize) -> Option<Public> {
    (x.len() == size && y.len() == size).then(|| Public::Point([&[4][..], &x, &y].concat()))
}

impl Public {
    fn fits(&self, algorithm: TokenAlgorithm, signed: &[u8], signature: &[u8]) -> bool {
        let by_point = |key: &[u8], algorithm: &'static dyn VerificationAlgorithm| {
            UnparsedPublicKey::new(algorithm, key).verify(signed, signature).is_ok()
        };
        match (self, algorithm) {
            (Self::Rsa { n, e }, TokenAlgorithm::Rs256) => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature).is_ok()
            }
            (Self::Rsa { n, e }, TokenAlgorithm::Ps256) => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PSS_2048_8192_SHA256, signed, signature).is_ok()
            }
            (Self::Point(key), TokenAlgorithm::Es256) => by_point(key, &ECDSA_P256_SHA256_FIXED),
            (Self::Point(key), TokenAlgorithm::Es384) => by_point(key, &ECDSA_P384_SHA384_FIXED),
            (Self::Point(key), TokenAlgorithm::EdDsa) => by_point(key, &ED25519),
            (Self::Rsa { .. } | Self::Point(_), _) => false,
        }
    }
}

#[cfg(test)]
mod tests;
