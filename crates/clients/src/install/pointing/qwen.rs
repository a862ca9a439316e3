//! Qwen Code: the settings of the machine, which beat the project's and the user's, and an option.
//!
//! Seen with Qwen Code 0.24.4: a list of models with addresses in `modelProviders` of any settings file beats variables
//! and options alike; an empty list of the same name in the machine's settings takes it away. Which service it asks is
//! `--auth-type`'s to say; each of [`SERVICES`] was seen to come to the gateway, and its own (`qwen-oauth`) was not.

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::{
    Gateway, Pointed, PointingError, Surroundings, has, lay_over, read, settings, settings_in, telemetry,
    values_of,
};
use crate::install::merge;
use crate::install::once::{ForOneRun, Once, OnceError};

const FILE: &str = "settings.json";
const MODELS: &str = "modelProviders";
/// The protocols that it has lists of models for.
const PROTOCOLS: &[&str] = &["openai", "openai-responses", "anthropic", "gemini", "vertex-ai", "qwen-oauth"];
/// How it can be told to ask for a model, such that it asks the gateway.
const SERVICES: &[&str] = &["openai", "openai-responses", "anthropic", "gemini", "vertex-ai"];
/// Its options, each in the two ways that it reads.
const SERVICE: [&str; 2] = ["--auth-type", "--authType"];
const ADDRESS: [&str; 2] = ["--openai-base-url", "--openaiBaseUrl"];

pub(super) fn point(
    once: &mut Once,
    gateway: &Gateway,
    given: Surroundings<'_>,
) -> Result<Pointed, PointingError> {
    if let Some(address) = ADDRESS.into_iter().find(|option| has(&once.arguments, option)) {
        return Err(PointingError::elsewhere(format!("`{address}`")));
    }
    let chosen = service(&once.arguments)?;
    // The versions of this one are in its paths.
    let url = if chosen == Some("anthropic") { gateway.url.clone() } else { gateway.versioned() };
    let ForOneRun::SettingsVariable { name, otherwise } = crate::Client::Qwen.layout().once else {
        return Ok(Pointed::Not("it can't be told of settings for one run"));
    };
    let path = given.folder.join(FILE);
    let text = match once.file(&path) {
        Some(text) => text.to_owned(),
        None => read(&given.variable(name).map_or_else(|| otherwise.into(), PathBuf::from))?,
    };
    let place = path.display().to_string();
    let moved = given.variable("QWEN_HOME");
    let user = moved.map_or_else(|| given.folders.home.join(".qwen"), PathBuf::from);
    let mut lists: Map<String, Value> =
        PROTOCOLS.iter().map(|protocol| ((*protocol).to_owned(), json!([]))).collect();
    let mut all = settings(&text, &place)?;
    let of_project = given.folders.files_around(&[".qwen/settings.json"]);
    for file in std::iter::once(user.join(FILE)).chain(of_project) {
        let found = settings_in(&file)?;
        let named = found.get(MODELS).and_then(Value::as_object).into_iter().flat_map(Map::keys);
        lists.extend(named.map(|name| (name.clone(), json!([]))));
    }
    let named = all.get(MODELS).and_then(Value::as_object).into_iter().flat_map(Map::keys);
    lists.extend(named.map(|name| (name.clone(), json!([]))).collect::<Vec<_>>());
    let failed = |source| OnceError::Settings { place: place.clone(), source };
    let text = if text.trim().is_empty() { "{}\n".to_owned() } else { text };
    let text = merge::set(&text, MODELS, &Value::Object(lists)).map_err(failed)?;
    lay_over(&mut all, json!({ "security": { "auth": { "baseUrl": url } } }));
    let security = all.get("security").cloned().unwrap_or_default();
    let text = merge::set(&text, "security", &security).map_err(failed)?;
    once.set_file(path.clone(), text);
    if !once.variables.iter().any(|(variable, _)| *variable == name) {
        once.variables.push((name, path.into_os_string()));
    }
    telemetry::settle(crate::Client::Qwen, once, given)?;
    let [address, service] = [ADDRESS[0], SERVICE[0]];
    let mut options: Vec<OsString> = vec![address.into(), url.into()];
    if chosen.is_none() {
        options.extend([service.into(), "openai".into()]);
    }
    once.arguments.splice(0..0, options);
    Ok(Pointed::Yes)
}

/// The service that the person who starts it chose, if any. More than one, or one that is unknown, may be any.
fn service(arguments: &[OsString]) -> Result<Option<&'static str>, PointingError> {
    let options: Vec<&str> = SERVICE.into_iter().filter(|option| has(arguments, option)).collect();
    let values: Vec<&str> = SERVICE.iter().flat_map(|option| values_of(arguments, option, option)).collect();
    let known = values.last().and_then(|last| SERVICES.iter().copied().find(|known| known == last));
    match (options.as_slice(), values.as_slice(), known) {
        ([], ..) => Ok(None),
        ([_], [_], Some(known)) => Ok(Some(known)),
        _ => Err(PointingError::elsewhere(format!("`{} {}`", options.join("` and `"), values.join(" ")))),
    }
}
