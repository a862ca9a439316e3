//! OpenCode: a configuration in a variable, which is laid over that of its files.
//!
//! Seen with OpenCode 1.18.33: `options.baseURL` of a provider there beats the one in the user's and the project's
//! files. Providers that nobody can point are switched off by naming those that are on (`enabled_providers`).

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::{Gateway, Pointed, PointingError, Surroundings, lay_over, settings, settings_in};
use crate::install::once::Once;

const VARIABLE: &str = "OPENCODE_CONFIG_CONTENT";
/// The names of its files, in each folder that it reads.
const FILES: [&str; 2] = ["opencode.json", "opencode.jsonc"];

pub(super) fn point(
    once: &mut Once,
    gateway: &Gateway,
    given: Surroundings<'_>,
) -> Result<Pointed, PointingError> {
    let set = once.variables.iter().find(|(name, _)| *name == VARIABLE).map(|(_, value)| value.clone());
    let text = set.or_else(|| given.variable(VARIABLE)).unwrap_or_default();
    let mut whole = settings(&text.to_string_lossy(), VARIABLE)?;
    let mut providers = Map::new();
    for name in ["anthropic", "openai", "google"] {
        providers.insert(name.to_owned(), pointed(name, gateway));
    }
    let mut named = vec![whole.clone()];
    for file in files(given) {
        named.push(settings_in(&file)?);
    }
    for (name, provider) in
        named.iter().filter_map(|value| value.get("provider")?.as_object()).flat_map(Map::iter)
    {
        let package = provider.get("npm").and_then(Value::as_str).unwrap_or(name);
        providers.entry(name.clone()).or_insert_with(|| pointed(package, gateway));
    }
    let mut enabled: Vec<&String> = providers.keys().collect();
    enabled.sort();
    let more = json!({ "enabled_providers": enabled, "provider": providers });
    lay_over(&mut whole, more);
    once.variables.retain(|(name, _)| *name != VARIABLE);
    once.variables.push((VARIABLE, OsString::from(whole.to_string())));
    Ok(Pointed::Yes)
}

/// The settings of a provider that speaks through that package, with the gateway's address.
fn pointed(package: &str, gateway: &Gateway) -> Value {
    let url = match package.trim_start_matches("@ai-sdk/") {
        "google" => format!("{}/v1beta", gateway.url),
        _ => gateway.versioned(),
    };
    json!({ "options": { "baseURL": url } })
}

/// The files that it may read: the user's, those from the project's folder up, and the one that a variable names.
fn files(given: Surroundings<'_>) -> Vec<PathBuf> {
    let base = given.variable("XDG_CONFIG_HOME");
    let base = base.map_or_else(|| given.folders.home.join(".config"), PathBuf::from);
    let mut folders = vec![base.join("opencode"), given.folders.home.join(".opencode")];
    folders.extend(given.variable("OPENCODE_CONFIG_DIR").map(PathBuf::from));
    for folder in given.folders.project.ancestors() {
        folders.extend([folder.to_path_buf(), folder.join(".opencode")]);
    }
    let mut files: Vec<PathBuf> =
        folders.iter().flat_map(|folder| FILES.map(|file| folder.join(file))).collect();
    files.push(base.join("opencode/config.json"));
    files.extend(given.variable("OPENCODE_CONFIG").map(PathBuf::from));
    files
}
