//! Codex: a provider of our own, named on the command line.
//!
//! Seen with Codex 0.169.0: it reads no `OPENAI_BASE_URL`; `-c` beats the user's file, the file of a profile, and the
//! project's, which may name no provider. `openai_base_url` alone leaves its WebSocket on; a provider of our own can
//! do without (`supports_websockets`).
//!
//! Voice has addresses of its own, which are set to the gateway's. What else names an address is not known to be harmless, so
//! that a setting which a later version adds is an error rather than a way past the gateway.
//!
//! With a login at ChatGPT its requests go to another service than OpenAI's API, in the same protocol: [`LOGIN`].

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::{Gateway, LoginProvider, Pointed, PointingError, Surroundings, has, read, values_of};
use crate::install::once::{Once, OnceError, toml};
use crate::install::toml::{Says, statements};

/// The service behind a login at ChatGPT.
pub(super) const LOGIN: LoginProvider =
    LoginProvider { name: "chatgpt", base_url: "https://chatgpt.com/backend-api/codex" };

const OPTION: &str = "-c";
const NAME: &str = "backstop";
const KEY: &str = "OPENAI_API_KEY";
/// Settings by which its user says where model calls go. An empty one is for all that begin with it.
const CHOICES: &[&str] =
    &["model_provider", "model_providers", "openai_base_url", "chatgpt_base_url", "oss_provider", "profiles"];
/// Where spoken turns go, and how a WebRTC call is opened.
const VOICE: [&str; 2] = ["experimental_realtime_ws_base_url", "experimental_realtime_webrtc_call_base_url"];
/// How names of settings end that say where something goes.
const ADDRESSES: [&str; 5] = ["_url", "_uri", "_endpoint", "_host", "_address"];
/// Those in its files that are overruled here, or ask no model.
const KNOWN_ADDRESSES: &[&str] =
    &["openai_base_url", "chatgpt_base_url", VOICE[0], VOICE[1], "mcp_oauth_callback_url"];
/// Tables of its files whose addresses are of servers of tools, of providers that are not asked, and of telemetry.
const OTHER_TABLES: &[&str] = &["mcp_servers", "model_providers", "otel", "projects"];

pub(super) fn point(
    once: &mut Once,
    gateway: &Gateway,
    given: Surroundings<'_>,
) -> Result<Pointed, PointingError> {
    if let Some(what) = chosen(&once.arguments) {
        return Err(PointingError::elsewhere(format!("`{what}`")));
    }
    if let Some(what) = unknown_address(given)? {
        return Err(PointingError::elsewhere(what));
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
    let voice = VOICE.map(|name| format!("{name}={url:?}"));
    let settings =
        [format!("model_provider={NAME:?}"), format!("model_providers.{NAME}={}", toml(&provider))];
    let options =
        settings.into_iter().chain(voice).flat_map(|setting| [OPTION.into(), OsString::from(setting)]);
    once.arguments.splice(0..0, options);
    Ok(Pointed::Yes)
}

/// What in its arguments chooses a service.
fn chosen(arguments: &[OsString]) -> Option<String> {
    let option = ["--oss", "--local-provider"].into_iter().find(|option| has(arguments, option));
    let setting = values_of(arguments, OPTION, "--config").into_iter().find(|setting| {
        let key = setting.split_once('=').map_or(*setting, |(key, _)| key);
        let mut parts = key.split('.').map(|part| part.trim().trim_matches(['"', '\'']));
        let last = parts.clone().next_back().unwrap_or_default();
        let first = parts.next().unwrap_or_default();
        CHOICES.contains(&first) || (is_address(last) && !OTHER_TABLES.contains(&first))
    });
    option.map(str::to_owned).or_else(|| setting.map(|setting| format!("{OPTION} {setting}")))
}

fn is_address(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ADDRESSES.iter().any(|end| key.ends_with(end) || key == end.trim_start_matches('_'))
}

fn folder(given: Surroundings<'_>) -> PathBuf {
    let moved = given.variable("CODEX_HOME");
    moved.map_or_else(|| given.folders.home.join(".codex"), PathBuf::from)
}

/// A setting of the user's files that names an address and is none that is known. Those of a project it passes over.
fn unknown_address(given: Surroundings<'_>) -> Result<Option<String>, OnceError> {
    let folder = folder(given);
    let profiles = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_profile = |path: &PathBuf| path.to_string_lossy().ends_with(".config.toml");
    for file in std::iter::once(folder.join("config.toml")).chain(profiles.filter(is_profile)) {
        let place = file.display().to_string();
        let text = read(&file)?;
        let statements =
            statements(&text).map_err(|source| OnceError::Settings { place: place.clone(), source })?;
        let mut table = Vec::new();
        for statement in statements {
            let name = match statement.says {
                Says::Table(name) | Says::List(name) => {
                    table = name;
                    continue;
                }
                Says::Key(name, _) => [table.as_slice(), &name].concat(),
            };
            let (Some(first), Some(last)) = (name.first(), name.last()) else { continue };
            let is_other = OTHER_TABLES.contains(&first.as_str()) || KNOWN_ADDRESSES.contains(&last.as_str());
            if is_address(last) && !is_other {
                return Ok(Some(format!("`{}` in `{place}`", name.join("."))));
            }
        }
    }
    Ok(None)
}

/// Whether it is logged in at ChatGPT, rather than with a key.
fn has_login(given: Surroundings<'_>) -> Result<bool, PointingError> {
    let text = read(&folder(given).join("auth.json"))?;
    // Its own file; one that it can't read either is no login.
    let Ok(login) = serde_json::from_str::<serde_json::Value>(&text) else { return Ok(false) };
    let is_set = |name: &str| login.get(name).is_some_and(|value| !value.is_null());
    Ok(match login.get("auth_mode").and_then(serde_json::Value::as_str) {
        Some(mode) => mode == "chatgpt",
        None => is_set("tokens") && !is_set(KEY),
    })
}
