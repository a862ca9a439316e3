//! Keyed digests: what the trail says of what was judged, so that only who has the key can try guesses against it.
//!
//! A digest says exactly this was judged, and whoever has the value can compare. So can whoever guesses it, and short arguments (`ls`, an amount)
//! are guessed quickly. With a [`DigestKey`], each digest in an entry is HMAC-SHA-256 by that key, `hmac-sha256:` and 64 hex digits, and
//! the entry says in `digestKey` by which key. What has that form already stays. Equal values have equal digests under one key, so that entries still belong together.
//!
//! The law: *what is harmless is listed* ([`HARMLESS`]); every other text in the body of an entry that reads like a digest is keyed,
//! whatever the field, and whoever wrote it. A trail takes nothing but a [`KeyedEntry`], which only [`Keying::apply`] makes, so that
//! entries that are written by themselves and those of a transaction take the same way.
//!
//! Limits: what was written before there was a key stays as it is. Who has calls judged and reads the trail can try a guess by a call of its own,
//! which the trail then has. The names of conversations and turns (`conv-`, `run-`) are no digests in this sense, since they are what entries are found by; where the
//! proxy makes them of what was said, it makes them by the key ([`DigestKey::name_of`]). Ids of calls that were made of what the calls ask for are keyed here, and
//! names that were made of those of tools in which a secret was found.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use backstop_hooks::Digest;
use backstop_trail::{Body, Draft};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::hmac::{self, HMAC_SHA256};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Map, Value, json};

use crate::audit::{RUN, SESSION};
use crate::policy::POLICY;
use crate::{
    APPROVAL_ANSWERED, APPROVAL_ASKED, APPROVAL_ENDED, APPROVAL_VOTED, AUDIT_CHAIN, AUDIT_HOOKS, AuditBody,
    CONFIGURATION_READ, GRANT_GIVEN, GRANT_REVOKED, MAX_AUDIT_BYTES, NewAuditEntry, PEER_CHECKPOINT,
    PolicyInForce, PolicyVersion, StoreError, StoreErrorKind, audit_id,
};

/// The bytes of a key.
const KEY_BYTES: usize = 32;
/// The longest file with a key that is read, in bytes.
const MOST_FILE_BYTES: u64 = 4096;
/// How a plain digest begins.
const PLAIN: &str = "sha256:";
/// How a keyed one begins.
const KEYED: &str = "hmac-sha256:";
/// What stands in it before what is in a plain one, too.
const OF_KEYED: &str = "hmac-";
/// The hex digits of a digest.
const DIGITS: usize = 64;
/// What is hashed before a digest, and before nothing for the id of the key.
const OF_DIGEST: &[u8] = b"digest\0";
const OF_KEY: &[u8] = b"digest key id\0";
/// The hex digits of the id of a key.
const ID_DIGITS: usize = 16;
/// What is hashed before what an id of a call was made of.
const OF_CALL: &[u8] = b"call\0";
/// How the id of a call begins that was made of what the call asks for, and how many hex digits follow.
const MADE_CALL: &str = "call_";
const MADE_DIGITS: usize = 12;
/// What stands before these digits where they are keyed.
const MADE_KEYED: &str = "keyed_";
/// How the name begins that a receipt has for a tool in whose own name a secret was found; as many hex digits follow.
const MADE_NAME: &str = "redacted-";
/// What stands before these digits where they are keyed.
const NAME_KEYED: &str = "keyed-";
/// What is hashed before them.
const OF_NAME: &[u8] = b"name\0";
/// What is hashed before a digest of which a name is made.
const OF_MADE: &[u8] = b"made name\0";
/// The field of an entry that says by which key its digests are.
const DIGEST_KEY: &str = "digestKey";

/// The fields of an entry, by its kind, that hold no digest of anything that was judged: the set of hooks that there were, and its list; a
/// configuration and the files that it names; the content of a plugin; the end of the chain of an earlier version. Those are compared by readers
/// who have no key, or computed anew from what stands beside them. What a configuration's texts and variables were is keyed by whoever tells it, since
/// the version is computed of that. A folder is a name, and entries are found by it.
const HARMLESS: [(&str, &[&str]); 17] = [
    ("receipt", &["hookSet", "workspace"]),
    (APPROVAL_ASKED, &["workspace"]),
    (APPROVAL_ENDED, &["workspace"]),
    (APPROVAL_ANSWERED, &["workspace"]),
    (APPROVAL_VOTED, &["workspace"]),
    (GRANT_GIVEN, &["workspace"]),
    (GRANT_REVOKED, &["workspace"]),
    (AUDIT_HOOKS, &["hookSet", "hooks"]),
    (CONFIGURATION_READ, &["digest", "files", "named", "plugins", "hookSet", "texts", "variables"]),
    ("configuration.pinned", &["digest"]),
    ("plugin.installed", &["hash"]),
    ("plugin.trusted", &["hash"]),
    ("plugin.enabled", &["hash"]),
    ("plugin.disabled", &["hash"]),
    ("plugin.removed", &["hash"]),
    (AUDIT_CHAIN, &["digest"]),
    (PEER_CHECKPOINT, &["origin", "checkpoint"]),
];

/// The key of the digests in an audit trail: 32 random bytes in a file that is its owner's alone.
pub struct DigestKey {
    key: hmac::Key,
    id: String,
}

/// Why there is no key of digests.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DigestKeyError {
    /// The file can't be read, or written.
    #[error("it can't be {what}: {source}")]
    File {
        /// What could not be done.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// It is a folder, a pipe or a device.
    #[error("it is no file")]
    NoFile,
    /// Others can read or write it, or it belongs to somebody else.
    #[error(
        "others than the account that runs this can read or write it\nhint: `chmod 600` it, or make another one with `backstop audit keygen`"
    )]
    NotPrivate,
    /// It holds something else.
    #[error("it holds no key, which is 32 bytes in base64\nhint: `backstop audit keygen` makes one")]
    NoKey,
    /// There is no randomness.
    #[error("the system gives no random bytes")]
    NoRandomness,
}

impl DigestKey {
    fn of(bytes: &[u8; KEY_BYTES]) -> Self {
        let key = hmac::Key::new(HMAC_SHA256, bytes);
        let id = hex(&key, OF_KEY, &[]).chars().take(ID_DIGITS).collect();
        Self { key, id }
    }

    /// Reads the key in a file. A link to it is followed, as secrets that are mounted are links.
    ///
    /// # Errors
    ///
    /// [`DigestKeyError`] if there is none, or others can read or write it.
    pub fn read(path: &Path) -> Result<Self, DigestKeyError> {
        let failed = |source| DigestKeyError::File { what: "read", source };
        let file = opened(path).map_err(failed)?;
        let met = file.metadata().map_err(failed)?;
        if !met.is_file() {
            return Err(DigestKeyError::NoFile);
        }
        if !is_private(&met) {
            return Err(DigestKeyError::NotPrivate);
        }
        let mut text = String::new();
        // One more, so that the beginning of a longer file is not taken for all of it.
        let mut file = file.take(MOST_FILE_BYTES + 1);
        file.read_to_string(&mut text).map_err(|source| match source.kind() {
            io::ErrorKind::InvalidData => DigestKeyError::NoKey,
            _ => failed(source),
        })?;
        if file.limit() == 0 {
            return Err(DigestKeyError::NoKey);
        }
        let bytes = BASE64_STANDARD.decode(text.trim()).map_err(|_| DigestKeyError::NoKey)?;
        let bytes: [u8; KEY_BYTES] = bytes.try_into().map_err(|_| DigestKeyError::NoKey)?;
        Ok(Self::of(&bytes))
    }

    /// Makes a key, and the file for it, readable by its owner only. A file that is there stays as it is.
    ///
    /// # Errors
    ///
    /// [`DigestKeyError`] if it can't be written, or there is something at that place.
    pub fn create(path: &Path) -> Result<Self, DigestKeyError> {
        let failed = |source| DigestKeyError::File { what: "written", source };
        let mut bytes = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut bytes).map_err(|_| DigestKeyError::NoRandomness)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path).map_err(failed)?;
        let written = writeln!(file, "{}", BASE64_STANDARD.encode(bytes)).and_then(|()| file.sync_all());
        written.map_err(failed)?;
        Ok(Self::of(&bytes))
    }

    /// Returns what names the key: the first 16 hex digits of an HMAC of its own, as entries have it in `digestKey`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns a digest as entries have it: `hmac-sha256:` and 64 hex digits.
    pub fn keyed(&self, digest: &Digest) -> String {
        format!("{KEYED}{}", hex(&self.key, OF_DIGEST, digest.as_bytes()))
    }

    /// Returns the id of a tool call as entries have it, if it was made of what the call asks for (`call_`, 12 hex digits, and its place), as
    /// where a model names neither its answer nor its calls; `None` for any other.
    pub fn keyed_call(&self, id: &str) -> Option<String> {
        let (digits, place) = id.strip_prefix(MADE_CALL)?.split_at_checked(MADE_DIGITS)?;
        let is_made = place.starts_with('_') && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_made.then(|| format!("{MADE_CALL}{MADE_KEYED}{}{place}", self.short(OF_CALL, digits)))
    }

    /// Returns the name of a tool as entries have it, if it was made of one in which a secret was found (`redacted-` and 12 hex digits); `None` for
    /// any other.
    pub fn keyed_name(&self, name: &str) -> Option<String> {
        let digits = name.strip_prefix(MADE_NAME)?;
        let is_made = digits.len() == MADE_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_made.then(|| format!("{MADE_NAME}{NAME_KEYED}{}", self.short(OF_NAME, digits)))
    }

    /// Returns what stands in a name that is made of a digest: as many hex digits as are asked for, up to 64.
    pub fn name_of(&self, digest: &Digest, digits: usize) -> String {
        hex(&self.key, OF_MADE, digest.as_bytes()).chars().take(digits).collect()
    }

    /// Keys the few digits that stand in a name.
    fn short(&self, role: &[u8], digits: &str) -> String {
        hex(&self.key, role, digits.as_bytes()).chars().take(MADE_DIGITS).collect()
    }

    /// Keys what reads like a digest in a text; `None` where nothing does.
    fn keyed_in(&self, text: &str) -> Option<String> {
        if let Some(made) = self.keyed_call(text).or_else(|| self.keyed_name(text)) {
            return Some(made);
        }
        let (mut keyed, mut rest) = (String::new(), text);
        while let Some((before, digest, behind)) = first_digest(rest) {
            keyed.push_str(before);
            // The end of an id that was too long for an entry; it is found by it.
            match before.ends_with('…') {
                true => keyed.push_str(&digest.to_string()),
                false => keyed.push_str(&self.keyed(&digest)),
            }
            rest = behind;
        }
        keyed.push_str(rest);
        (keyed != text).then_some(keyed)
    }

    /// Keys what reads like a digest in a value, names of members too. Returns whether there was any.
    fn key_all(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => match self.keyed_in(text) {
                Some(keyed) => {
                    *text = keyed;
                    true
                }
                None => false,
            },
            // Each of them, whatever was found in the one before.
            Value::Array(items) => {
                items.iter_mut().filter_map(|item| self.key_all(item).then_some(())).count() > 0
            }
            Value::Object(fields) => self.key_fields(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    fn key_fields(&self, fields: &mut Map<String, Value>) -> bool {
        let mut any = false;
        let keyed = std::mem::take(fields).into_iter().map(|(name, mut value)| {
            any |= self.key_all(&mut value);
            let keyed = self.keyed_in(&name);
            any |= keyed.is_some();
            (keyed.unwrap_or(name), value)
        });
        *fields = keyed.collect();
        any
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Returns the hex digits of the HMAC of bytes in a role.
fn hex(key: &hmac::Key, role: &[u8], bytes: &[u8]) -> String {
    let mut context = hmac::Context::with_key(key);
    context.update(role);
    context.update(bytes);
    context.sign().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Opens a file without waiting for what is none.
fn opened(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
    }
    options.open(path)
}

/// Returns whether a file is that of the account that runs this, or of root, and nobody else's.
#[cfg(unix)]
fn is_private(met: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let is_ours = met.uid() == rustix::process::geteuid().as_raw() || met.uid() == 0;
    is_ours && met.mode() & 0o077 == 0
}

#[cfg(not(unix))]
fn is_private(_: &std::fs::Metadata) -> bool {
    true
}

/// Returns the first text that reads like a digest, and what is before and behind it. One that is keyed already is none.
fn first_digest(text: &str) -> Option<(&str, Digest, &str)> {
    text.match_indices(PLAIN).find_map(|(at, _)| {
        let (before, from) = text.split_at_checked(at).filter(|(before, _)| !before.ends_with(OF_KEYED))?;
        let (digest, behind) = from.split_at_checked(PLAIN.len() + DIGITS)?;
        Some((before, digest.parse().ok()?, behind))
    })
}

/// By what the digests in entries are keyed, if they are.
#[derive(Clone, Debug, Default)]
pub(crate) enum Keying {
    /// They are not.
    #[default]
    Plain,
    /// By this key.
    Keyed(Arc<DigestKey>),
    /// By a key that is not there, for this reason: nothing can be written.
    Missing(Arc<str>),
}

impl Keying {
    /// Returns the one by this key, or for this reason why it is not there.
    pub(crate) fn of(key: Result<Option<Arc<DigestKey>>, String>) -> Self {
        match key {
            Ok(key) => key.into(),
            Err(why) => Self::Missing(why.into()),
        }
    }

    /// Returns the key.
    pub(crate) fn key(&self) -> Option<&Arc<DigestKey>> {
        match self {
            Self::Keyed(key) => Some(key),
            Self::Plain | Self::Missing(_) => None,
        }
    }

    /// Returns entries as the trail at that place has them: with keyed digests and the policy under which they are written, and what this policy is before
    /// them. A trail that is known to have that leaves it out.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::NoDigestKey`] if the key is not there.
    pub(crate) fn apply(
        &self,
        place: &str,
        policy: Option<&PolicyInForce>,
        entries: Vec<NewAuditEntry>,
    ) -> Result<Vec<KeyedEntry>, StoreError> {
        let key = match self {
            Self::Plain => None,
            Self::Keyed(key) => Some(key),
            Self::Missing(why) => {
                return Err(StoreError::because(place, StoreErrorKind::NoDigestKey, why));
            }
        };
        let policy = policy.map(PolicyInForce::version);
        // One that says what the policy is stands for the other that would be put before it.
        let first = entries.first().filter(|first| first.kind != CONFIGURATION_READ);
        let told = policy.as_ref().zip(first).map(|(policy, first)| {
            let (at, kind) = (first.at, CONFIGURATION_READ.to_owned());
            (NewAuditEntry { at, kind, session: None, run: None, body: policy.told().clone() }, true)
        });
        let entries = told.into_iter().chain(entries.into_iter().map(|entry| (entry, false)));
        let keyed = entries.map(|(mut entry, once)| {
            if let Some(body) = key.and_then(|key| keyed_body(key, &entry)) {
                entry.body = body;
            }
            KeyedEntry { entry, policy: policy.clone(), once }
        });
        Ok(keyed.collect())
    }

    /// Returns whether a body is not too large for an entry, as it will be there.
    pub(crate) fn fits(&self, body: &AuditBody) -> bool {
        let grows = if self.key().is_some() { growth(body) } else { 0 };
        body.as_str().len() + grows <= MAX_AUDIT_BYTES
    }

    /// Returns whether a body is not too large for an entry, whether its digests will be keyed there or not.
    pub(crate) fn fits_whatever(body: &AuditBody) -> bool {
        body.as_str().len() + growth(body) <= MAX_AUDIT_BYTES
    }
}

/// Returns by how much keyed digests and names make a body longer than plain ones, with `,"digestKey":"…"`.
fn growth(body: &AuditBody) -> usize {
    let more =
        [(PLAIN, KEYED.len() - PLAIN.len()), (MADE_CALL, MADE_KEYED.len()), (MADE_NAME, NAME_KEYED.len())];
    let more: usize = more.iter().map(|(begin, more)| body.as_str().matches(begin).count() * more).sum();
    if more == 0 { 0 } else { more + DIGEST_KEY.len() + ID_DIGITS + 6 }
}

impl From<Option<Arc<DigestKey>>> for Keying {
    fn from(key: Option<Arc<DigestKey>>) -> Self {
        key.map_or(Self::Plain, Self::Keyed)
    }
}

/// Returns the body of an entry with keyed digests; `None` where it has none to key.
fn keyed_body(key: &DigestKey, entry: &NewAuditEntry) -> Option<AuditBody> {
    if ![PLAIN, MADE_CALL, MADE_NAME].iter().any(|begin| entry.body.as_str().contains(begin)) {
        return None;
    }
    // What can't be read can't be keyed, and goes nowhere plain.
    let Ok(mut body) = serde_json::from_str::<Value>(entry.body.as_str()) else {
        return Some(AuditBody::from(
            json!({ "omitted": "its digests can't be keyed: it is nested too deep" }),
        ));
    };
    let is_keyed = match &mut body {
        Value::Object(fields) => {
            let harmless = HARMLESS.iter().find(|(kind, _)| *kind == entry.kind);
            let harmless = harmless.map_or(&[][..], |(_, fields)| fields);
            let aside: Vec<_> = harmless.iter().filter_map(|name| fields.remove_entry(*name)).collect();
            let is_keyed = key.key_fields(fields);
            fields.extend(aside);
            if is_keyed {
                fields.insert(DIGEST_KEY.to_owned(), key.id.as_str().into());
            }
            is_keyed
        }
        other => key.key_all(other),
    };
    is_keyed.then(|| AuditBody::from(body))
}

/// An entry whose digests are as the trail has them, and the policy that it names.
pub(crate) struct KeyedEntry {
    entry: NewAuditEntry,
    policy: Option<PolicyVersion>,
    /// Whether it says what the policy is, which a trail has once.
    once: bool,
}

impl KeyedEntry {
    /// Returns whether it is too large for the trail.
    pub(crate) fn is_too_large(&self) -> bool {
        !self.once && self.entry.body.is_too_large()
    }

    /// Returns the entry as the log takes it. One that is too large is another one that says so.
    pub(crate) fn draft(self) -> Draft {
        let Self { entry: NewAuditEntry { at, kind, session, run, body }, policy, once } = self;
        let label = |name: &str, id: &str| (name.to_owned(), audit_id(id).into_owned());
        let session = session.map(|session| label(SESSION, session.as_str()));
        let policy = policy.map(|policy| label(POLICY, policy.as_str()));
        let labels = session.into_iter().chain(run.map(|run| label(RUN, run.as_str()))).chain(policy);
        let (at, bytes) = (at.as_millis(), body.as_str().len());
        let draft = match Body::try_from(body.into_canonical()) {
            Ok(body) => Draft::new(at, &kind, body),
            Err(_) => Draft::omitted(at, &kind, bytes),
        };
        Draft { labels: labels.collect(), once, ..draft }
    }
}
