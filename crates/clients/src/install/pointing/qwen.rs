//! Qwen Code: the settings of the machine, which beat the project's and the user's, and an option.
//!
//! Seen with Qwen Code 0.24.4: a list of models with addresses in `modelProviders` of any settings file beats variables
//! and options alike; an empty list of the same name in the machine's settings takes it away.

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::{Gateway, Pointed, PointingError, Surroundings, has, lay_over, read, settings, settings_in};
use crate::install::merge;
use crate::install::once::{ForOneRun, Once, OnceError};

const FILE: &str = "settings.json";
const MODELS: &str = "modelProviders";
/// The protocols that it has lists of models for.
const PROTOCOLS: &[&str] = &["openai", "anthropic", "gemini", "vertex-ai", "qwen-oauth"];

pub(super) fn point(
    once: &mut Once,
    gateway: &Gateway,
    given: Surroundings<'_>,
) -> Result<Pointed, PointingError> {
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
    for file in [user.join(FILE), given.folders.project.join(".qwen").join(FILE)] {
        let found = settings_in(&file)?;
        let named = found.get(MODELS).and_then(Value::as_object).into_iter().flat_map(Map::keys);
        lists.extend(named.map(|name| (name.clone(), json!([]))));
    }
    let named = all.get(MODELS).and_then(Value::as_object).into_iter().flat_map(Map::keys);
    lists.extend(named.map(|name| (name.clone(), json!([]))).collect::<Vec<_>>());
    let failed = |source| OnceError::Settings { place: place.clone(), source };
    let text = if text.trim().is_empty() { "{}\n".to_owned() } else { text };
    let text = merge::set(&text, MODELS, &Value::Object(lists)).map_err(failed)?;
    lay_over(&mut all, json!({ "security": { "auth": { "baseUrl": gateway.versioned() } } }));
    let security = all.get("security").cloned().unwrap_or_default();
    let text = merge::set(&text, "security", &security).map_err(failed)?;
    once.set_file(path.clone(), text);
    if !once.variables.iter().any(|(variable, _)| *variable == name) {
        once.variables.push((name, path.into_os_string()));
    }
    let mut options: Vec<OsString> = vec!["--openai-base-url".into(), gateway.versioned().into()];
    if has(&once.arguments, "--openai-base-url") {
        return Err(PointingError::elsewhere("`--openai-base-url`"));
    }
    if !has(&once.arguments, "--auth-type") {
        options.extend(["--auth-type".into(), "openai".into()]);
    }
    once.arguments.splice(0..0, options);
    Ok(Pointed::Yes)
}
