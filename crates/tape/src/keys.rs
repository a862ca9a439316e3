//! Keys: an identity reads, its recipient records.

use std::fmt;
use std::str::FromStr;

use bech32::primitives::decode::CheckedHrpstring;
use bech32::{Bech32, Hrp};
use ring::rand::{SecureRandom as _, SystemRandom};
use x25519_dalek::{PublicKey, SharedSecret, StaticSecret};

use crate::age::TapeError;

pub(crate) const KEY_BYTES: usize = 32;
const RECIPIENT: Hrp = Hrp::parse_unchecked("age");
const IDENTITY: Hrp = Hrp::parse_unchecked("age-secret-key-");

/// A text that is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// It is no recipient.
    #[error(
        "this is no recipient of age's X25519 type\nhint: `backstop tape keygen` makes one, which begins with `age1`"
    )]
    Recipient,
    /// It is an identity, which belongs nowhere near those who record.
    #[error(
        "this is the secret key itself\nhint: only its recipient belongs here, which begins with `age1`; make a new key, since this one may have been read"
    )]
    Secret,
    /// It is no identity.
    #[error(
        "this is no identity of age's X25519 type\nhint: it is a line that begins with `AGE-SECRET-KEY-1`"
    )]
    Identity,
}

/// To whom is recorded: the public half of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Recipient([u8; KEY_BYTES]);

impl Recipient {
    pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    pub(crate) fn public(&self) -> PublicKey {
        PublicKey::from(self.0)
    }
}

impl FromStr for Recipient {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        if text.to_ascii_lowercase().starts_with(IDENTITY.as_str()) {
            return Err(InvalidKey::Secret);
        }
        // With a key of low order nothing secret can be agreed, whoever tries: it would load, and nothing be recorded.
        let has_secrets = |bytes: &[u8; KEY_BYTES]| {
            let anybody = StaticSecret::from([1; KEY_BYTES]);
            contributory(anybody.diffie_hellman(&PublicKey::from(*bytes))).is_some()
        };
        bytes_of(RECIPIENT, text).filter(has_secrets).map(Self).ok_or(InvalidKey::Recipient)
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 62 letters, which the code has room for.
        f.write_str(&bech32::encode::<Bech32>(RECIPIENT, &self.0).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Who reads what was recorded. Its `Debug` never prints it.
#[derive(Clone)]
pub struct Identity(StaticSecret);

impl Identity {
    /// Makes a new one.
    ///
    /// # Errors
    ///
    /// [`TapeError::Random`] if the system has no randomness.
    pub fn generate() -> Result<Self, TapeError> {
        Ok(Self(StaticSecret::from(random::<KEY_BYTES>()?)))
    }

    /// Returns its recipient.
    pub fn recipient(&self) -> Recipient {
        Recipient(PublicKey::from(&self.0).to_bytes())
    }

    /// Returns the text of it, which is secret.
    pub fn expose(&self) -> String {
        // 74 letters, which the code has room for.
        bech32::encode_upper::<Bech32>(IDENTITY, self.0.as_bytes()).unwrap_or_default()
    }

    /// Reads the first identity of a file as `age-keygen` writes it: a line each, comments begin with `#`.
    ///
    /// # Errors
    ///
    /// [`InvalidKey::Identity`] if there is none.
    pub fn in_file(text: &str) -> Result<Self, InvalidKey> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.next().ok_or(InvalidKey::Identity)?.parse()
    }

    pub(crate) fn agree(&self, public: [u8; KEY_BYTES]) -> Option<SharedSecret> {
        contributory(self.0.diffie_hellman(&PublicKey::from(public)))
    }
}

impl FromStr for Identity {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let bytes = bytes_of(IDENTITY, text).ok_or(InvalidKey::Identity)?;
        Ok(Self(StaticSecret::from(bytes)))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(..)")
    }
}

/// The bytes behind a prefix. Another spelling of the same bytes is no key: bits that fill the last letter up are zeros.
fn bytes_of(prefix: Hrp, text: &str) -> Option<[u8; KEY_BYTES]> {
    let checked = CheckedHrpstring::new::<Bech32>(text).ok()?;
    checked.validate_segwit_padding().ok()?;
    if checked.hrp() != prefix {
        return None;
    }
    let bytes: Vec<u8> = checked.byte_iter().collect();
    bytes.try_into().ok()
}

/// A key for one file, and what it agrees on with a recipient; `None` for a recipient with which nothing secret can be agreed.
pub(crate) fn ephemeral(recipient: &Recipient) -> Result<Option<([u8; KEY_BYTES], SharedSecret)>, TapeError> {
    let secret = StaticSecret::from(random::<KEY_BYTES>()?);
    let share = PublicKey::from(&secret).to_bytes();
    Ok(contributory(secret.diffie_hellman(&recipient.public())).map(|shared| (share, shared)))
}

/// A shared secret to which both sides contributed: the format refuses that of a public key of low order.
fn contributory(shared: SharedSecret) -> Option<SharedSecret> {
    shared.was_contributory().then_some(shared)
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], TapeError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| TapeError::Random)?;
    Ok(bytes)
}
