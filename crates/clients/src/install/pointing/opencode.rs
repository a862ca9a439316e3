//! OpenCode: a configuration in a variable, which is laid over that of its files.
//!
//! Seen with OpenCode 1.18.33: `options.baseURL` of a provider there beats the one in the user's and the project's
//! files. Providers that can't be pointed are switched off by naming those that are on (`enabled_providers`).
//!
//! The address does not help where a project brings code of its own: a package of a provider or a model (`npm`), plugins and
//! tools run inside of OpenCode and send prompts wherever they like; `share` and `enterprise` send them to a server. So a
//! project's files may say what is known to be harmless ([`HARMLESS`], [`PACKAGES`]), and anything else is an error. With
//! [`WITHOUT_PROJECT`] OpenCode reads no file of a project, which was tried with each of these.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{Gateway, Pointed, PointingError, Surroundings, lay_over, read, settings, settings_in};
use crate::client::Client;
use crate::install::once::{Once, OnceError};
use crate::install::{Folders, Scope, status};

const VARIABLE: &str = "OPENCODE_CONFIG_CONTENT";
/// Has OpenCode read no file of a project: settings, plugins, tools, agents, commands and instructions.
const WITHOUT_PROJECT: &str = "OPENCODE_DISABLE_PROJECT_CONFIG";
/// The names of its files, in each folder that it reads.
const FILES: [&str; 2] = ["opencode.json", "opencode.jsonc"];
/// Those of its screen, which may name plugins as well.
const SCREEN_FILES: [&str; 2] = ["tui.json", "tui.jsonc"];
/// The folder of a project, and those in it whose files OpenCode runs as code.
const FOLDER: &str = ".opencode";
const CODE: [&str; 4] = ["plugin", "plugins", "tool", "tools"];

/// Packages that OpenCode brings itself, and that were seen to ask the address in `options.baseURL`, whatever else the options
/// say, in a protocol that the gateway speaks.
const PACKAGES: &[&str] = &[
    "@ai-sdk/alibaba",
    "@ai-sdk/anthropic",
    "@ai-sdk/azure",
    "@ai-sdk/cerebras",
    "@ai-sdk/google",
    "@ai-sdk/groq",
    "@ai-sdk/mistral",
    "@ai-sdk/openai",
    "@ai-sdk/openai-compatible",
    "@ai-sdk/perplexity",
    "@ai-sdk/togetherai",
    "@ai-sdk/vercel",
    "@ai-sdk/xai",
    "@openrouter/ai-sdk-provider",
];
/// Providers whose package is known without being named.
const KNOWN: [(&str, &str); 3] =
    [("anthropic", "@ai-sdk/anthropic"), ("google", "@ai-sdk/google"), ("openai", "@ai-sdk/openai")];

/// What a project's settings may say, besides providers: nothing of it is code inside of OpenCode or sends a conversation
/// anywhere.
const HARMLESS: &[&str] = &[
    "$schema",
    "agent",
    "attachment",
    "autoupdate",
    "command",
    "compaction",
    "default_agent",
    "disabled_providers",
    "enabled_providers",
    "formatter",
    "instructions",
    "keybinds",
    "layout",
    "logLevel",
    "lsp",
    "mcp",
    "mode",
    "model",
    "permission",
    "skills",
    "small_model",
    "snapshot",
    "theme",
    "tool_output",
    "tools",
    "tui",
    "username",
    "watcher",
];
/// What a project may say of a provider, besides its package and its models.
const HARMLESS_OF_PROVIDER: &[&str] = &["api", "blacklist", "env", "id", "name", "options", "whitelist"];
/// What a project's settings of the screen may say.
const HARMLESS_OF_SCREEN: &[&str] = &["$schema", "keybinds", "theme"];

pub(super) fn point(
    once: &mut Once,
    gateway: &Gateway,
    given: Surroundings<'_>,
) -> Result<Pointed, PointingError> {
    if !is_without_project(given) {
        given.folders.here.ancestors().try_for_each(|folder| judge_folder(folder, given.folders))?;
    }
    let set = once.variables.iter().find(|(name, _)| *name == VARIABLE).map(|(_, value)| value.clone());
    let text = set.or_else(|| given.variable(VARIABLE)).unwrap_or_default();
    let mut whole = settings(&text.to_string_lossy(), VARIABLE)?;
    let mut providers = Map::new();
    for (name, package) in KNOWN {
        providers.insert(name.to_owned(), pointed(package, gateway));
    }
    let mut named = vec![(PathBuf::from(VARIABLE), whole.clone())];
    for file in files(given) {
        named.push((file.clone(), settings_in(&file)?));
    }
    let mut off = BTreeMap::new();
    for (file, name, provider) in named.iter().flat_map(|(file, value)| providers_in(file, value)) {
        match package_of(name, provider) {
            Ok(Some(package)) => {
                providers.entry(name.clone()).or_insert_with(|| pointed(package, gateway));
            }
            Ok(None) => {}
            Err(what) => drop(off.insert(name, format!("{what} in `{}` is another package", file.display()))),
        }
    }
    for (file, name, _) in named.iter().flat_map(|(file, value)| providers_in(file, value)) {
        if !providers.contains_key(name) {
            let unnamed = || format!("`{}` names no `npm` for it", file.display());
            off.entry(name).or_insert_with(unnamed);
        }
    }
    // A package that can't be pointed takes the provider with it, whatever another file says of that.
    for (name, why) in off {
        providers.remove(name);
        once.notes.push(format!(
            "OpenCode's provider `{name}` is off in this run: {why}, and these are known to ask the proxy: {}",
            PACKAGES.join(", ")
        ));
    }
    let mut enabled: Vec<&String> = providers.keys().collect();
    enabled.sort();
    let more = json!({ "enabled_providers": enabled, "provider": providers });
    lay_over(&mut whole, more);
    once.variables.retain(|(name, _)| *name != VARIABLE);
    once.variables.push((VARIABLE, OsString::from(whole.to_string())));
    Ok(Pointed::Yes)
}

/// Whether its starter has it read no file of a project. OpenCode takes just these two words for that.
fn is_without_project(given: Surroundings<'_>) -> bool {
    given.variable(WITHOUT_PROJECT).is_some_and(|value| value == "1" || value == "true")
}

/// The settings of a provider that speaks through that package, with the gateway's address.
fn pointed(package: &str, gateway: &Gateway) -> Value {
    let url = match package {
        "@ai-sdk/google" => format!("{}/v1beta", gateway.url),
        _ => gateway.versioned(),
    };
    json!({ "npm": package, "options": { "baseURL": url } })
}

/// The providers of which a file says something.
fn providers_in<'v>(
    file: &'v Path,
    value: &'v Value,
) -> impl Iterator<Item = (&'v Path, &'v String, &'v Value)> {
    let named = value.get("provider").and_then(Value::as_object).into_iter().flatten();
    named.map(move |(name, provider)| (file, name, provider))
}

/// The package that a provider speaks through, where that is said or known: one of [`PACKAGES`], as are those of its models.
/// An error says which is not.
fn package_of(name: &str, provider: &Value) -> Result<Option<&'static str>, String> {
    let models = provider.get("models").and_then(Value::as_object).into_iter().flatten();
    for (model, value) in models {
        if let Some(package) = value.pointer("/provider/npm")
            && known(package).is_none()
        {
            return Err(format!("`provider.{name}.models.{model}.provider.npm: {package}`"));
        }
    }
    match (provider.get("npm"), KNOWN.iter().find(|(known, _)| *known == name)) {
        (Some(package), _) => {
            known(package).map(Some).ok_or_else(|| format!("`provider.{name}.npm: {package}`"))
        }
        (None, known) => Ok(known.map(|(_, package)| *package)),
    }
}

fn known(package: &Value) -> Option<&'static str> {
    let package = package.as_str()?;
    PACKAGES.iter().copied().find(|known| *known == package)
}

/// Whether what a folder of the project, or one above it, says to OpenCode is known to be harmless. The user's own
/// folders are the user's.
fn judge_folder(folder: &Path, folders: &Folders) -> Result<(), PointingError> {
    if folder == folders.home {
        return Ok(());
    }
    for place in [folder.to_path_buf(), folder.join(FOLDER)] {
        for name in FILES {
            judge_settings(&place.join(name))?;
        }
        for name in SCREEN_FILES {
            let file = place.join(name);
            let said = settings_of_project(&file)?;
            if let Some(key) = other_than(HARMLESS_OF_SCREEN, &said) {
                return Err(of_project(&format!("`{key}`"), &file));
            }
        }
    }
    for name in CODE {
        let place = folder.join(FOLDER).join(name);
        if let Some(file) = code_in(&place)?.into_iter().find(|file| !is_ours(file, folders)) {
            return Err(of_project("code", &file));
        }
    }
    Ok(())
}

fn judge_settings(file: &Path) -> Result<(), PointingError> {
    let said = settings_of_project(file)?;
    for (key, value) in said.as_object().into_iter().flatten() {
        let is_harmless = match key.as_str() {
            "share" => ["manual", "disabled"].iter().any(|quiet| value == quiet),
            "plugin" => value.as_array().is_some_and(Vec::is_empty),
            "provider" => true,
            other => HARMLESS.contains(&other),
        };
        if !is_harmless {
            return Err(of_project(&format!("`{key}`"), file));
        }
    }
    for (_, name, provider) in providers_in(file, &said) {
        package_of(name, provider).map_err(|what| of_project(&what, file))?;
        let rest = [HARMLESS_OF_PROVIDER, &["npm", "models"]].concat();
        if let Some(key) = other_than(&rest, provider) {
            return Err(of_project(&format!("`provider.{name}.{key}`"), file));
        }
        for (model, value) in provider.get("models").and_then(Value::as_object).into_iter().flatten() {
            let service = value.get("provider");
            if let Some(key) = service.and_then(|service| other_than(&["npm", "api"], service)) {
                return Err(of_project(&format!("`provider.{name}.models.{model}.provider.{key}`"), file));
            }
        }
    }
    Ok(())
}

/// The settings in a file of the project, as OpenCode will read them.
///
/// OpenCode puts the values of `{env:NAME}` and `{file:PATH}` into the text before it parses it, so that the text that is judged
/// here may be another one than it reads: `/* *{env:NONE}/ ... /* */` is one comment before and settings afterwards. Plain JSON
/// has no comments, and a variable in the middle of a value leaves it a value; anything else is an error.
fn settings_of_project(file: &Path) -> Result<Value, PointingError> {
    let text = read(file)?;
    if text.contains("{file:") {
        return Err(of_project("`{file:...}`", file));
    }
    if text.contains("{env:") {
        let plain = serde_json::from_str::<Value>(&text).ok();
        if plain.is_none_or(|said| has_key_with_variable(&said)) {
            return Err(of_project("`{env:...}` beside comments or in a name", file));
        }
    }
    Ok(settings(&text, &file.display().to_string())?)
}

/// Whether a name in it, at any depth, is put together from a variable.
fn has_key_with_variable(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(key, field)| key.contains("{env:") || has_key_with_variable(field))
        }
        Value::Array(items) => items.iter().any(has_key_with_variable),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// A key of an object that is none of these.
fn other_than<'v>(known: &[&str], value: &'v Value) -> Option<&'v str> {
    let keys = value.as_object().into_iter().flat_map(Map::keys);
    keys.map(String::as_str).find(|key| !known.contains(key))
}

fn of_project(what: &str, file: &Path) -> PointingError {
    PointingError::OfProject {
        what: what.to_owned(),
        file: file.display().to_string(),
        instead: format!("with `{WITHOUT_PROJECT}=1` OpenCode reads no file of the project"),
    }
}

/// What is in a folder whose files run inside of OpenCode.
fn code_in(folder: &Path) -> Result<Vec<PathBuf>, OnceError> {
    let unreadable = |source| OnceError::Unreadable { place: folder.display().to_string(), source };
    match fs::read_dir(folder) {
        Ok(entries) => {
            let paths = entries.map(|entry| entry.map(|entry| entry.path()));
            paths.collect::<Result<_, _>>().map_err(unreadable)
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        Err(error) => Err(unreadable(error)),
    }
}

/// Whether a file is the plugin that `backstop install opencode --project` writes, to the letter.
fn is_ours(file: &Path, folders: &Folders) -> bool {
    let client = Client::OpenCode;
    if client.layout().path(Scope::Project, folders).is_none_or(|ours| ours != file) {
        return false;
    }
    let written_for = |program: &Path| status(client, Scope::Project, folders, program).ok();
    let Some(found) = written_for(Path::new("/backstop")) else { return false };
    let mut programs = found.programs.iter();
    match (programs.next(), programs.next()) {
        (Some(program), None) => written_for(Path::new(program))
            .is_some_and(|status| !status.outdated && status.missing.is_empty() && status.foreign == 0),
        _ => false,
    }
}

/// The files that it may read: the user's, those from the working directory up, and the one that a variable names.
fn files(given: Surroundings<'_>) -> Vec<PathBuf> {
    let base = given.variable("XDG_CONFIG_HOME");
    let base = base.map_or_else(|| given.folders.home.join(".config"), PathBuf::from);
    let mut folders = vec![base.join("opencode"), given.folders.home.join(FOLDER)];
    folders.extend(given.variable("OPENCODE_CONFIG_DIR").map(PathBuf::from));
    for folder in given.folders.here.ancestors().filter(|_| !is_without_project(given)) {
        folders.extend([folder.to_path_buf(), folder.join(FOLDER)]);
    }
    let mut files: Vec<PathBuf> =
        folders.iter().flat_map(|folder| FILES.map(|file| folder.join(file))).collect();
    files.push(base.join("opencode/config.json"));
    files.extend(given.variable("OPENCODE_CONFIG").map(PathBuf::from));
    files
}
