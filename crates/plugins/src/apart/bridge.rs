//! What a plugin's runtime asks of its embedding program, asked of the host over the pipe.
//!
//! Bounds: of the host's modules [`MOST_MODULES`] are remembered; of what was denied [`MOST_DENIED`] grants are told one by one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use async_trait::async_trait;
use backstop_script::{
    Bridge, CallScope, FilesSeen, HostError, JsonText, LogLevel, ProgramOutput, ProgramRequest, Provided,
    ScriptError,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::pipe::Pipe;
use super::wire::{Absent, Denied, Done, Line, Wanted};
use super::{Failure, Plugin};

/// Names of modules of which it is remembered what the host said.
const MOST_MODULES: usize = 1024;
/// Bytes of such a name.
const MOST_NAME: usize = 512;
/// Grants that are told of one by one.
const MOST_DENIED: usize = 128;
/// What the others are told of as.
const OTHERS: &str = "others";

/// The bridge of a plugin whose host is elsewhere.
pub(super) struct Far {
    pipe: Arc<Pipe>,
    plugin: OnceLock<Weak<Plugin>>,
    modules: Mutex<HashMap<String, Option<Provided>>>,
    /// Grants that the host has been told of, and how often since then.
    denied: Mutex<BTreeMap<String, u64>>,
}

/// What the host says of a module.
#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    absent: Option<String>,
}

/// The data of a failure: a code, and further properties of the error.
#[derive(Default, Deserialize)]
struct Details {
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    properties: Vec<(String, String)>,
}

impl From<Failure> for HostError {
    fn from(failure: Failure) -> Self {
        let Details { code, properties } = Details::deserialize(failure.data).unwrap_or_default();
        Self { code: code.unwrap_or_else(|| "ERR_HOST".to_owned()), message: failure.message, properties }
    }
}

fn no_json() -> HostError {
    HostError::new("ERR_INVALID_ARG_VALUE", "it has no JSON form")
}

fn as_text(value: &Value) -> Result<JsonText, HostError> {
    JsonText::of(value).map_err(|_| no_json())
}

/// What is called with what, as JSON in one line. INVARIANT (nobody but this crate writes a line): the text is one value of JSON, and no more.
fn called(name: &str, arguments: &JsonText) -> Result<String, HostError> {
    let text = arguments.as_str();
    if text.contains('\n') {
        let value: Value = arguments.read().map_err(|_| no_json())?;
        return Ok(json!({ "name": name, "value": value }).to_string());
    }
    arguments.read::<IgnoredAny>().map_err(|_| no_json())?;
    Ok(format!(r#"{{"name":{},"value":{text}}}"#, json!(name)))
}

impl Far {
    pub(super) fn new(pipe: Arc<Pipe>) -> Self {
        Self { pipe, plugin: OnceLock::new(), modules: Mutex::default(), denied: Mutex::default() }
    }

    /// Says whose bridge it is.
    pub(super) fn belongs_to(&self, plugin: &Arc<Plugin>) {
        // It is said once.
        let _ = self.plugin.set(Arc::downgrade(plugin));
    }

    /// Tells the host how often things were denied of which it knows that they were.
    pub(super) fn tell_denied(&self) {
        let counted: Vec<Denied> = {
            let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
            let counted = denied.iter_mut().filter(|(_, times)| **times > 0);
            counted
                .map(|(grant, times)| Denied { grant: grant.clone(), times: std::mem::take(times) })
                .collect()
        };
        counted.iter().for_each(|denied| self.pipe.tell("denied", &json!(denied)));
    }

    /// Waits for what the host does for as long as the plugin does.
    async fn done(&self, method: &str, params: &str) -> Result<Value, HostError> {
        let (id, answer) = self.pipe.ask_later(method, params)?;
        let mut asked = Waiting { pipe: &self.pipe, id, stops: method == "program" };
        let answer = answer.await;
        asked.stops = false;
        let gone = || HostError::new("ERR_HOST", "the host has gone");
        Ok(answer.map_err(|_| gone())??)
    }
}

/// Something that is waited for.
struct Waiting<'a> {
    pipe: &'a Pipe,
    id: u64,
    stops: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.pipe.forgotten(self.id);
        if self.stops {
            self.pipe.tell("stop", &json!({ "id": self.id }));
        }
    }
}

#[async_trait]
impl Bridge for Far {
    fn module(&self, specifier: &str) -> Option<Provided> {
        if specifier.starts_with(['.', '/']) {
            return None;
        }
        if let Some(known) = self.modules.lock().unwrap_or_else(PoisonError::into_inner).get(specifier) {
            return known.clone();
        }
        let said = self.pipe.ask_now("module", &json!({ "name": specifier }).to_string()).ok()?;
        let provided = match Option::<Said>::deserialize(said).ok()? {
            Some(Said { source: Some(text), .. }) => Some(Provided::Source(text.into())),
            Some(Said { absent: Some(reason), .. }) => Some(Provided::Absent(reason)),
            _ => None,
        };
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if modules.len() < MOST_MODULES && specifier.len() <= MOST_NAME {
            modules.insert(specifier.to_owned(), provided.clone());
        }
        provided
    }

    fn absent(&self, module: &str, names: &BTreeSet<String>) {
        self.pipe.tell("absent", &json!(Absent { module: module.to_owned(), names: names.clone() }));
    }

    fn call(&self, _: &CallScope, name: &str, arguments: JsonText) -> Result<JsonText, HostError> {
        as_text(&self.pipe.ask_now("call", &called(name, &arguments)?)?)
    }

    async fn request(&self, _: CallScope, name: String, arguments: JsonText) -> Result<JsonText, HostError> {
        as_text(&self.done("request", &called(&name, &arguments)?).await?)
    }

    async fn run_program(&self, _: CallScope, request: ProgramRequest) -> Result<ProgramOutput, HostError> {
        let done = self.done("program", &json!(Wanted::from(request)).to_string()).await?;
        let done = Done::deserialize(done).ok().and_then(Done::read);
        done.ok_or_else(|| HostError::new("ERR_HOST", "the host's answer can't be read"))
    }

    fn denied(&self, _: &CallScope, grant: &str) {
        let is_new = {
            let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
            let is_known = denied.contains_key(grant);
            let grant = if is_known || denied.len() < MOST_DENIED { grant } else { OTHERS };
            // The host is told of a new one at once, and so it is counted there.
            *denied.entry(grant.to_owned()).or_default() += u64::from(is_known || grant == OTHERS);
            !is_known && grant != OTHERS
        };
        if is_new {
            self.pipe.tell("denied", &json!(Denied { grant: grant.to_owned(), times: 1 }));
        }
    }

    fn ended(&self, _: &CallScope, why: &ScriptError) {
        if let Some(plugin) = self.plugin.get().and_then(Weak::upgrade) {
            plugin.ended(why.to_string());
        }
    }

    fn log(&self, _: &CallScope, level: LogLevel, line: &str) {
        let level = match level {
            LogLevel::Debug => 0,
            LogLevel::Info => 1,
            LogLevel::Warn => 2,
            LogLevel::Error => 3,
        };
        self.pipe.tell("line", &json!(Line { level, text: line.to_owned() }));
    }
}

/// What the host saw of the plugin's files when it was trusted.
pub(super) struct Seen(pub(super) Arc<Pipe>);

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seen").finish_non_exhaustive()
    }
}

impl FilesSeen for Seen {
    fn holds(&self, name: &str, bytes: &[u8]) -> bool {
        let said = self.0.ask_now("seen", &json!({ "name": name }).to_string());
        let digest = said.ok().and_then(|digest| Option::<[u8; 32]>::deserialize(digest).ok().flatten());
        digest.is_some_and(|digest| Sha256::digest(bytes).as_slice() == digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_says_is_one_value_in_one_line_or_not_said() {
        let line = |text: &str| called("a\"\n", &JsonText::from_text(text));
        for text in ["{\"a\":[1]}", "{\n\"a\":\n[1]}"] {
            let line = line(text).unwrap();
            assert!(!line.contains('\n'), "{line}");
            let value: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(value, json!({ "name": "a\"\n", "value": { "a": [1] } }));
        }
        for text in ["", "1}", "1},\"name\":\"other\"", "1\n2", "1 2", "undefined"] {
            assert!(line(text).is_err(), "{text}");
        }
    }
}
