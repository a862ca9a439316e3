//! The version of a policy: a digest of the effective configuration and of the plugins that are on, by which each entry of the trail says under which
//! policy it was written.
//!
//! The laws: *the same policy has the same version*, whatever the order of keys, comments, the time or the machine. *What was read is digested*, and not what a
//! file holds later ([`Readings`](backstop_config::Readings)). *No secret can be guessed from it*: secrets are masked and variables stand as they are written;
//! what variables held counts only where digests are keyed (`audit.digest_key`), as a digest by that key.
//!
//! Limits: what is read after the start is not in it: what a program of `hooks.at` or a plugin reads when it runs, a program that is started anew for each event,
//! a server that is asked. Hooks that an embedding program registers are in the set of hooks that a receipt names. docs/digests.md says how to compute a version
//! anew, and what it does not prove.

use std::collections::BTreeMap;

use backstop_config::Loaded;
use backstop_hooks::Digest;
use backstop_store::{AuditBody, DigestKey, PolicyVersion};
use serde_json::{Map, Value, json};

/// The role of a version.
const ROLE: &str = "policy";
/// The program whose rules are built in.
const PROGRAM: &str = concat!("backstop ", env!("CARGO_PKG_VERSION"));
/// The most bytes of lists of files and plugins in an entry. What has more is counted there.
const MOST_LISTED_BYTES: usize = 40 * 1024;

/// A plugin that is on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PolicyPlugin {
    pub(crate) id: String,
    pub(crate) version: Option<String>,
    /// The digest of its content, which is what is loaded of it.
    pub(crate) hash: String,
}

impl PolicyPlugin {
    fn json(&self) -> Value {
        let mut plugin = json!({ "id": self.id, "hash": self.hash });
        if let (Some(version), Some(fields)) = (&self.version, plugin.as_object_mut()) {
            fields.insert("version".to_owned(), version.as_str().into());
        }
        plugin
    }
}

/// What a policy is made of.
#[derive(Debug)]
pub(crate) struct PolicyParts<'a> {
    pub(crate) loaded: &'a Loaded,
    /// The digest of its values: computing it costs most of all, so it is done once.
    pub(crate) configuration: Digest,
    /// By what digests are keyed, if they are.
    pub(crate) key: Option<&'a DigestKey>,
    /// The files that the configuration names, as they were read; `None` for one that could not be.
    pub(crate) named: BTreeMap<String, Option<Digest>>,
    /// The plugins that are on.
    pub(crate) plugins: Vec<PolicyPlugin>,
    /// The set of hooks that there is.
    pub(crate) hooks: Option<Digest>,
}

impl<'a> PolicyParts<'a> {
    /// Returns those of a process that has read the configuration and loads nothing that it names.
    pub(crate) fn of_configuration(loaded: &'a Loaded, key: Option<&'a DigestKey>) -> Self {
        let configuration = loaded.digest();
        Self { loaded, configuration, key, named: BTreeMap::new(), plugins: Vec::new(), hooks: None }
    }

    /// Returns the version, with what is told of it.
    pub(crate) fn version(mut self) -> PolicyVersion {
        self.plugins.sort();
        PolicyVersion::new(self.digest(), AuditBody::from(self.told()))
    }

    fn digest(&self) -> Digest {
        let plugins: Vec<Value> = self.plugins.iter().map(PolicyPlugin::json).collect();
        let mut parts = json!({
            "program": PROGRAM, "configuration": self.configuration, "files": self.named, "plugins": plugins,
        });
        if let (Some(given), Some(fields)) = (self.given(), parts.as_object_mut()) {
            fields.insert("variables".to_owned(), given.into());
        }
        Digest::of(ROLE, &parts)
    }

    /// The digest of what variables held, by the key of digests.
    fn given(&self) -> Option<String> {
        Some(self.key?.keyed(&self.loaded.readings.variables()?))
    }

    fn told(&self) -> Value {
        let loaded = self.loaded;
        let files: Vec<&String> = loaded.layers.iter().map(|(_, file)| file).collect();
        let plugins: Vec<Value> = self.plugins.iter().map(PolicyPlugin::json).collect();
        let mut told = Map::new();
        told.insert("program".to_owned(), PROGRAM.into());
        told.insert("digest".to_owned(), json!(self.configuration));
        insert_bounded(&mut told, "files", &json!(files), files.len());
        insert_bounded(&mut told, "named", &json!(self.named), self.named.len());
        insert_bounded(&mut told, "plugins", &json!(plugins), plugins.len());
        if let Some(hooks) = self.hooks {
            told.insert("hookSet".to_owned(), json!(hooks));
        }
        if let Some(key) = self.key {
            // INVARIANT (guessable): these digests are in no trail unless by its key.
            let keyed = |(file, digest): &(String, Digest)| (file.clone(), key.keyed(digest).into());
            let texts: Map<String, Value> = loaded.readings.texts().iter().map(keyed).collect();
            let count = texts.len();
            insert_bounded(&mut told, "texts", &Value::Object(texts), count);
            told.extend(self.given().map(|given| ("variables".to_owned(), given.into())));
            told.insert("digestKey".to_owned(), key.id().into());
        }
        Value::Object(told)
    }
}

/// Adds a list or, where it would fill the entry, how long it is.
fn insert_bounded(told: &mut Map<String, Value>, name: &str, list: &Value, count: usize) {
    let used: usize = told.values().map(|value| value.to_string().len()).sum();
    match used + list.to_string().len() > MOST_LISTED_BYTES {
        true => told.insert(format!("{name}Omitted"), count.into()),
        false => told.insert(name.to_owned(), list.clone()),
    };
}
