//! Cline: a file of providers that a variable names, in place of the user's.
//!
//! Seen with Cline 1.0: `CLINE_PROVIDER_SETTINGS_PATH` beats its folder, also one that `--config` names, and a provider
//! that `-P` names takes its address from there. The file holds keys, so it is the user's alone and goes with the run.

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::{Gateway, Pointed, PointingError, Surroundings, lay_over, settings_in, values_of};
use crate::install::once::Once;

const VARIABLE: &str = "CLINE_PROVIDER_SETTINGS_PATH";
const FILE: &str = "providers.json";
/// When an entry that nobody wrote was written.
const NEVER: &str = "1970-01-01T00:00:00.000Z";

pub(super) fn point(
    once: &mut Once,
    gateway: &Gateway,
    given: Surroundings<'_>,
) -> Result<Pointed, PointingError> {
    let pointed = [
        ("anthropic", gateway.versioned()),
        ("openai-compatible", gateway.versioned()),
        ("openai-native", gateway.versioned()),
        ("gemini", gateway.url.clone()),
    ];
    let is_pointed = |name: &str| pointed.iter().any(|(known, _)| *known == name);
    let source = users_file(&once.arguments, given);
    let mut all = settings_in(&source)?;
    let used = all.get("lastUsedProvider").and_then(Value::as_str).map(str::to_owned);
    match (values_of(&once.arguments, "-P", "--provider").last(), used) {
        (Some(name), _) if !is_pointed(name) => {
            return Err(PointingError::elsewhere(format!("`-P {name}`")));
        }
        (None, Some(name)) if !is_pointed(&name) => {
            let what = format!("`lastUsedProvider: {name}` in `{}`", source.display());
            return Err(PointingError::elsewhere(what));
        }
        (None, None) => return Err(PointingError::elsewhere("its own service, its first choice,")),
        _ => {}
    }
    let mut providers = Map::new();
    for (name, url) in pointed {
        let own = all.pointer(&format!("/providers/{name}")).cloned();
        // One entry that lacks any of these, and Cline takes the whole file for broken, and its own addresses instead.
        let mut entry = own.unwrap_or_else(|| json!({ "updatedAt": NEVER, "tokenSource": "manual" }));
        lay_over(&mut entry, json!({ "settings": { "provider": name, "baseUrl": url } }));
        providers.insert(name.to_owned(), entry);
    }
    if let Some(fields) = all.as_object_mut() {
        fields.entry("version").or_insert_with(|| 1.into());
        fields.entry("modes").or_insert_with(|| json!({}));
        fields.insert("providers".to_owned(), Value::Object(providers));
    }
    let path = given.folder.join(FILE);
    once.set_file(path.clone(), format!("{all:#}\n"));
    once.variables.push((VARIABLE, path.into_os_string()));
    Ok(Pointed::Yes)
}

/// Where the user's providers are.
fn users_file(arguments: &[OsString], given: Surroundings<'_>) -> PathBuf {
    if let Some(named) = given.variable(VARIABLE) {
        return named.into();
    }
    let option = |name: &str| values_of(arguments, name, name).last().map(PathBuf::from);
    let moved = given.variable("CLINE_DIR").map(PathBuf::from);
    let data = option("--data-dir").or_else(|| given.variable("CLINE_DATA_DIR").map(PathBuf::from));
    let folder = option("--config").or(moved).unwrap_or_else(|| given.folders.home.join(".cline"));
    data.unwrap_or_else(|| folder.join("data")).join("settings").join(FILE)
}
