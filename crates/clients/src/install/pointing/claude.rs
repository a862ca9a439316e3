//! Claude Code: `env` of the settings that `--settings` names, which beats the user's and the project's.
//!
//! Seen with Claude Code 2.1.330: these variables, set to nothing there, are off whatever `env` of a repository's
//! settings says, and whatever the process inherits.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{Clouds, Gateway, Pointed, PointingError, Surroundings, is_on, lay_over, settings, settings_in};
use crate::install::loaders::CLAUDE_OF_PROJECT;
use crate::install::merge;
use crate::install::once::{Once, OnceError, settings_given, take_option};

const OPTION: &str = "--settings";
const ENVIRONMENT: &str = "env";
const FILE: &str = "settings.json";

/// Services with a protocol of their own: those that the program's text names.
const SERVICES: &[&str] = &[
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_MANTLE",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS",
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD",
    "CLAUDE_CODE_USE_GATEWAY",
    "ANTHROPIC_UNIX_SOCKET",
];

/// A service that the gateway stands in for where it has a provider of that cloud, with a key of its own. How Claude Code is
/// told of a gateway is in its documentation ("LLM gateway configuration").
struct Spoken {
    switch: &'static str,
    address: &'static str,
    /// The gateway has the credentials.
    without_credentials: &'static str,
    is_versioned: bool,
    is_there: fn(Clouds) -> bool,
}

const SPOKEN: [Spoken; 2] = [
    Spoken {
        switch: "CLAUDE_CODE_USE_BEDROCK",
        address: "ANTHROPIC_BEDROCK_BASE_URL",
        without_credentials: "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
        is_versioned: false,
        is_there: |clouds| clouds.bedrock,
    },
    Spoken {
        switch: "CLAUDE_CODE_USE_VERTEX",
        address: "ANTHROPIC_VERTEX_BASE_URL",
        without_credentials: "CLAUDE_CODE_SKIP_VERTEX_AUTH",
        is_versioned: true,
        is_there: |clouds| clouds.vertex,
    },
];

/// What moves a request, or one of those services, to another host.
const ADDRESSES: &[&str] = &[
    "ANTHROPIC_BEDROCK_BASE_URL",
    "ANTHROPIC_BEDROCK_MANTLE_BASE_URL",
    "ANTHROPIC_VERTEX_BASE_URL",
    "ANTHROPIC_FOUNDRY_BASE_URL",
    "ANTHROPIC_AWS_BASE_URL",
    "ANTHROPIC_GOOGLE_CLOUD_BASE_URL",
    "CLAUDE_CODE_API_BASE_URL",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_BEDROCK",
    "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
];

/// The proxies of the environment stay those of the person who started it.
const PROXIES: &[&str] = &[
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "CLAUDE_CODE_HTTP_PROXY",
    "CLAUDE_CODE_HTTPS_PROXY",
    "CLAUDE_CODE_PROXY_URL",
    "CLAUDE_CODE_PROXY_HOST",
];

/// Claude Code's own variables that are limits, or that switch something off that it would do beyond a turn.
const HARMLESS: &[&str] = &[
    "BASH_DEFAULT_TIMEOUT_MS",
    "BASH_MAX_OUTPUT_LENGTH",
    "BASH_MAX_TIMEOUT_MS",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS",
    "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS",
    "CLAUDE_CODE_DISABLE_FEEDBACK_SURVEY",
    "CLAUDE_CODE_DISABLE_FILE_CHECKPOINTING",
    "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "CLAUDE_CODE_DISABLE_TERMINAL_TITLE",
    "CLAUDE_CODE_DISABLE_THINKING",
    "CLAUDE_CODE_DISABLE_WEB_FETCH",
    "DISABLE_AUTOUPDATER",
    "DISABLE_AUTO_COMPACT",
    "DISABLE_BUG_COMMAND",
    "DISABLE_COMPACT",
    "DISABLE_COST_WARNINGS",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_FEEDBACK_COMMAND",
    "DISABLE_INTERLEAVED_THINKING",
    "DISABLE_PROMPT_CACHING",
    "DISABLE_TELEMETRY",
    "MAX_MCP_OUTPUT_TOKENS",
    "MAX_THINKING_TOKENS",
    "MCP_TIMEOUT",
    "MCP_TOOL_TIMEOUT",
];
const HARMLESS_FAMILIES: &[&str] = &["CLAUDE_CODE_MAX_", "LC_"];
/// Names of models, which choose no service.
const MODELS: &[&str] = &[
    "MODEL",
    "SMALL_FAST_MODEL",
    "DEFAULT_OPUS_MODEL",
    "DEFAULT_SONNET_MODEL",
    "DEFAULT_HAIKU_MODEL",
    "CUSTOM_MODEL_OPTION",
];
/// What programs of a repository read, and neither loads code nor moves a file or a connection of others.
const OF_PROGRAMS: &[&str] = &[
    "APP_ENV",
    "CARGO_TERM_COLOR",
    "CI",
    "COLORTERM",
    "DEBUG",
    "DJANGO_SETTINGS_MODULE",
    "DO_NOT_TRACK",
    "FLASK_ENV",
    "FORCE_COLOR",
    "LANG",
    "LOG_LEVEL",
    "NODE_ENV",
    "NO_COLOR",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RACK_ENV",
    "RAILS_ENV",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "TERM",
    "TZ",
];

pub(super) fn point(
    once: &mut Once,
    gateway: &Gateway,
    given: Surroundings<'_>,
) -> Result<Pointed, PointingError> {
    let mut chosen = None;
    for name in SERVICES.iter().filter(|name| given.is_on(name)) {
        choose(name, gateway, &mut chosen, || format!("the variable `{name}`"))?;
    }
    let user = user_file(given);
    let of_user = settings_in(&user)?;
    for name in services_in(&of_user) {
        let what = || format!("`{ENVIRONMENT}.{name}` in `{}`", user.display());
        choose(name, gateway, &mut chosen, what)?;
    }
    let path = given.folder.join(FILE);
    let place = path.display().to_string();
    let text = own_settings(once, &path)?;
    let mut all = settings(&text, &place)?;
    for name in services_in(&all) {
        let what = || format!("`{ENVIRONMENT}.{name}` in what `{OPTION}` names");
        choose(name, gateway, &mut chosen, what)?;
    }
    let Environment { variables: mut env, overruled } =
        environment(&of_user, &once.variables, gateway, given)?;
    once.notes.extend(overruled);
    if let Some(service) = chosen {
        let address = if service.is_versioned { gateway.versioned() } else { gateway.url.clone() };
        env.insert(service.address.to_owned(), address.into());
        env.extend([service.switch, service.without_credentials].map(|name| (name.to_owned(), "1".into())));
    }
    lay_over(&mut all, json!({ ENVIRONMENT: env }));
    let env = all.get(ENVIRONMENT).cloned().unwrap_or_default();
    let text = if text.trim().is_empty() { "{}\n".to_owned() } else { text };
    let text =
        merge::set(&text, ENVIRONMENT, &env).map_err(|source| OnceError::Settings { place, source })?;
    once.set_file(path.clone(), text);
    once.arguments.splice(0..0, [OPTION.into(), path.into_os_string()]);
    Ok(Pointed::Yes)
}

/// The variables that stand over those of all other settings.
struct Environment {
    variables: Map<String, Value>,
    /// What is said of those of a repository.
    overruled: Vec<String>,
}

fn environment(
    of_user: &Value,
    of_run: &[(&'static str, OsString)],
    gateway: &Gateway,
    given: Surroundings<'_>,
) -> Result<Environment, OnceError> {
    let off = [SERVICES, ADDRESSES].concat().into_iter().map(|name| (name.to_owned(), String::new()));
    let mut env: BTreeMap<String, String> = off.collect();
    let of_person = |name: &str| {
        let of_run =
            of_run.iter().find(|(variable, _)| *variable == name).and_then(|(_, value)| value.to_str());
        let in_settings = of_user.get(ENVIRONMENT).and_then(|env| env.get(name)).and_then(Value::as_str);
        let inherited = || given.variable(name).and_then(|value| value.into_string().ok());
        of_run.or(in_settings).map(str::to_owned).or_else(inherited).unwrap_or_default()
    };
    env.extend(PROXIES.iter().map(|name| ((*name).to_owned(), of_person(name))));
    let mut overruled = Vec::new();
    for file in given.folders.files_around(&CLAUDE_OF_PROJECT) {
        let of_project = settings_in(&file)?;
        let set = of_project.get(ENVIRONMENT).and_then(Value::as_object).into_iter().flat_map(Map::keys);
        let judged: Vec<_> = set.filter(|name| !is_harmless(name)).collect();
        if !judged.is_empty() {
            overruled.push(overruled_in(&file, &judged));
        }
        for name in judged {
            env.entry(name.clone()).or_insert_with(|| of_person(name));
        }
    }
    env.insert("ANTHROPIC_BASE_URL".to_owned(), gateway.url.clone());
    env.extend(["NO_PROXY", "no_proxy"].map(|name| (name.to_owned(), gateway.no_proxy.clone())));
    Ok(Environment {
        variables: env.into_iter().map(|(name, value)| (name, value.into())).collect(),
        overruled,
    })
}

/// The most names of variables that are said of a file.
const MOST_NAMES: usize = 8;

fn overruled_in(file: &Path, names: &[&String]) -> String {
    let mut said: Vec<String> = names.iter().take(MOST_NAMES).map(|name| format!("`{name}`")).collect();
    if let more @ 1.. = names.len().saturating_sub(MOST_NAMES) {
        said.push(format!("{more} more"));
    }
    format!(
        "`{ENVIRONMENT}` in `{}` does not set {} in this run, because a repository could redirect model calls or load code by it; set it in your own environment or settings if you need it",
        file.display(),
        said.join(", ")
    )
}

/// Takes a service that a person chose. Two of them leave open where requests go.
fn choose(
    name: &str,
    gateway: &Gateway,
    chosen: &mut Option<&'static Spoken>,
    what: impl Fn() -> String,
) -> Result<(), PointingError> {
    let spoken = SPOKEN.iter().find(|spoken| spoken.switch == name && (spoken.is_there)(gateway.clouds));
    let spoken = spoken.ok_or_else(|| PointingError::elsewhere(what()))?;
    match chosen {
        Some(known) if known.switch != spoken.switch => Err(PointingError::elsewhere(what())),
        _ => {
            *chosen = Some(spoken);
            Ok(())
        }
    }
}

/// The services of another protocol that these settings switch on.
fn services_in(settings: &Value) -> impl Iterator<Item = &'static str> {
    let is_on = |value: &Value| match value {
        Value::String(text) => is_on(text),
        other => !matches!(other, Value::Bool(false) | Value::Null),
    };
    let env = settings.get(ENVIRONMENT);
    SERVICES.iter().copied().filter(move |name| env.and_then(|env| env.get(name)).is_some_and(is_on))
}

/// The settings that it is started with, taken out of its arguments. `ours` is the file of the run.
fn own_settings(once: &mut Once, ours: &Path) -> Result<String, OnceError> {
    let Some(value) = take_option(&mut once.arguments, OPTION) else { return Ok(String::new()) };
    match once.file(ours) {
        Some(text) if value == ours.as_os_str() => Ok(text.to_owned()),
        _ => settings_given(&value),
    }
}

fn user_file(given: Surroundings<'_>) -> PathBuf {
    let moved = given.variable("CLAUDE_CONFIG_DIR");
    moved.map_or_else(|| given.folders.home.join(".claude"), PathBuf::from).join(FILE)
}

/// Whether a variable that a repository sets is known to have no say in where model calls go, who pays for them, and what
/// runs inside of our hooks, which Claude Code starts with it, too. What is in none of these lists may have one.
fn is_harmless(name: &str) -> bool {
    let is_of_client = HARMLESS.contains(&name)
        || HARMLESS_FAMILIES.iter().any(|family| name.starts_with(family))
        || name.strip_prefix("ANTHROPIC_").is_some_and(|rest| MODELS.contains(&rest));
    is_of_client || OF_PROGRAMS.contains(&name)
}
