//! Codex: a provider of our own, named on the command line.
//!
//! Seen with Codex 0.169.0: it reads no `OPENAI_BASE_URL`; `-c` beats the user's file, the file of a profile, and the
//! project's, which may name no provider. `openai_base_url` alone leaves its WebSocket on; a provider of our own can
//! do without (`supports_websockets`).
//!
//! With a login at ChatGPT its requests go to another service than OpenAI's API, in the same protocol: [`LOGIN`].

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::json;

use super::{Gateway, LoginProvider, Pointed, PointingError, Surroundings, has, read, values_of};
use crate::install::once::{Once, toml};

/// The service behind a login at ChatGPT.
pub(super) const LOGIN: LoginProvider =
    LoginProvider { name: "chatgpt", base_url: "https://chatgpt.com/backend-api/codex" };

const OPTION: &str = "-c";
const NAME: &str = "backstop";
const KEY: &str = "OPENAI_API_KEY";
/// Settings by which its user says where model calls go. An empty one is for all that begin with it.
const CHOICES: &[&str] =
    &["model_provider", "model_providers", "openai_base_url", "chatgpt_base_url", "oss_provider", "profiles"];

pub(super) fn point(
    once: &mut Once,
    gateway: &Gateway,
    given: Surroundings<'_>,
) -> Result<Pointed, PointingError> {
    if let Some(what) = chosen(&once.arguments) {
        return Err(PointingError::elsewhere(format!("`{what}`")));
    }
    let has_login = !gateway.has_openai_key && has_login(given)?;
    let url = if has_login { gateway.of_provider(LOGIN.name) } else { gateway.versioned() };
    let mut provider = json!({
        "name": "Backstop", "base_url": url, "wire_api": "responses", "supports_websockets": false,
    });
    let by_variable = gateway.has_openai_key || (!has_login && given.variable(KEY).is_some());
    if let Some(fields) = provider.as_object_mut() {
        match by_variable {
            true => fields.insert("env_key".to_owned(), KEY.into()),
            // Its own credentials, wherever it keeps them.
            false => fields.insert("requires_openai_auth".to_owned(), true.into()),
        };
    }
    let settings =
        [format!("model_provider={NAME:?}"), format!("model_providers.{NAME}={}", toml(&provider))];
    let options = settings.into_iter().flat_map(|setting| [OPTION.into(), OsString::from(setting)]);
    once.arguments.splice(0..0, options);
    Ok(Pointed::Yes)
}

/// What in its arguments chooses a service.
fn chosen(arguments: &[OsString]) -> Option<String> {
    let option = ["--oss", "--local-provider"].into_iter().find(|option| has(arguments, option));
    let setting = values_of(arguments, OPTION, "--config").into_iter().find(|setting| {
        let key = setting.split_once('=').map_or(*setting, |(key, _)| key);
        let first = key.trim().split('.').next().unwrap_or_default();
        CHOICES.contains(&first.trim().trim_matches(['"', '\'']))
    });
    option.map(str::to_owned).or_else(|| setting.map(|setting| format!("{OPTION} {setting}")))
}

/// Whether it is logged in at ChatGPT, rather than with a key.
fn has_login(given: Surroundings<'_>) -> Result<bool, PointingError> {
    let moved = given.variable("CODEX_HOME");
    let folder = moved.map_or_else(|| given.folders.home.join(".codex"), PathBuf::from);
    let text = read(&folder.join("auth.json"))?;
    // Its own file; one that it can't read either is no login.
    let Ok(login) = serde_json::from_str::<serde_json::Value>(&text) else { return Ok(false) };
    let is_set = |name: &str| login.get(name).is_some_and(|value| !value.is_null());
    Ok(match login.get("auth_mode").and_then(serde_json::Value::as_str) {
        Some(mode) => mode == "chatgpt",
        None => is_set("tokens") && !is_set(KEY),
    })
}
