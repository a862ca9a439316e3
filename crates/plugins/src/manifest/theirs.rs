//! `package.json` and `openclaw.plugin.json`, as plugins of OpenClaw are published with.
//!
//! What is read: `openclaw.extensions` (its first entry is the module to begin with), `name`, `version` and `description` of the
//! package; `id`, `name`, `version`, `description`, `configSchema` and `contracts` of the plugin's manifest. What else those files have is for
//! parts of that system that Backstop has not, and is reported.

use std::collections::BTreeSet;
use std::path::Path;

use backstop_hooks::Json;
use backstop_yaml::{Problem, ProblemKind};
use serde_json::{Map, Value};

use super::{Api, Contracts, Kind, Look, Manifest, ManifestError, PluginId, THEIRS, Text, inside};

/// Keys of their manifest that say nothing that would have to be done.
const SILENT: [&str; 12] = [
    "id",
    "name",
    "version",
    "description",
    "configSchema",
    "uiHints",
    "contracts",
    "enabledByDefault",
    "legacyPluginIds",
    "activation",
    "$schema",
    "icon",
];
/// Keys of theirs that are for parts that Backstop has not.
const ELSEWHERE: [&str; 14] = [
    "channels",
    "providers",
    "skills",
    "kind",
    "modelSupport",
    "cliBackends",
    "commandAliases",
    "providerAuthEnvVars",
    "providerAuthChoices",
    "channelConfigs",
    "channelEnvVars",
    "setup",
    "qaRunners",
    "autoEnableWhenConfiguredProviders",
];
/// The same of `openclaw` in `package.json`.
const PACKAGE_SILENT: [&str; 6] =
    ["extensions", "runtimeExtensions", "compat", "build", "install", "release"];
/// What is tried where a package names no entry.
const ENTRIES: [&str; 4] = ["index.ts", "index.js", "index.mjs", "index.cjs"];
/// Most notes.
const MOST_NOTES: usize = 64;

pub(super) fn read(look: Look<'_>) -> Result<Manifest, ManifestError> {
    let folder = look.folder;
    let [manifest, package] = THEIRS;
    let (manifest, package) = (Text::of(look, manifest)?, Text::of(look, package)?);
    let described = manifest.as_ref().map(object).transpose()?;
    let packed = package.as_ref().map(object).transpose()?;
    let openclaw = packed.as_ref().and_then(|packed| packed.get("openclaw")).and_then(Value::as_object);
    let Some(file) = manifest.as_ref().or(package.as_ref().filter(|_| openclaw.is_some())) else {
        return Err(ManifestError::None(look.shown.to_owned()));
    };
    let mut notes = Vec::new();
    let wrong = |message: String| Problem::new(ProblemKind::BadValue, file.place(), message);
    let entry = entry(folder, openclaw, &mut notes).map_err(wrong)?;
    let text = |key: &str| {
        let of = |map: Option<&Map<String, Value>>| map?.get(key)?.as_str().map(|text| shown(text, 500));
        of(described.as_ref()).or_else(|| of(packed.as_ref()))
    };
    let id = match described.as_ref().and_then(|map| map.get("id")) {
        Some(id) => id.as_str().ok_or_else(|| wrong("`id` is no text".to_owned()))?,
        // Without an id of its own a plugin goes by the name of its package, without its scope.
        None => packed.as_ref().and_then(|map| map.get("name")).and_then(Value::as_str).unwrap_or_default(),
    };
    let id = id.strip_prefix('@').and_then(|scoped| scoped.split_once('/')).map_or(id, |(_, name)| name);
    let id = PluginId::new(id).map_err(|error| wrong(error.to_string()))?;
    for (map, silent, name) in
        [(described.as_ref(), &SILENT[..], THEIRS[0]), (openclaw, &PACKAGE_SILENT[..], "openclaw")]
    {
        notes.extend(map.into_iter().flat_map(|map| unread(map, silent, name)));
    }
    if notes.len() > MOST_NOTES {
        let more = notes.len() - MOST_NOTES;
        notes.truncate(MOST_NOTES);
        notes.push(format!("and {more} further keys are not read"));
    }
    Ok(Manifest {
        name: text("name").unwrap_or_else(|| id.to_string()),
        id,
        version: text("version"),
        description: text("description"),
        api: Api::OpenClaw,
        kind: Kind::Script { entry },
        points: None,
        optional: BTreeSet::new(),
        asked: None,
        contracts: contracts(described.as_ref().and_then(|map| map.get("contracts"))),
        config_schema: described.as_ref().and_then(|map| map.get("configSchema")).cloned().map(Json::new),
        notes,
        file: file.path.clone(),
    })
}

fn object(text: &Text) -> Result<Map<String, Value>, Problem> {
    match text.json()? {
        Value::Object(map) => Ok(map),
        _ => Err(Problem::new(ProblemKind::BadValue, text.place(), "this is no JSON object")),
    }
}

fn entry(
    folder: &Path,
    openclaw: Option<&Map<String, Value>>,
    notes: &mut Vec<String>,
) -> Result<String, String> {
    let Some(extensions) = openclaw.and_then(|map| map.get("extensions")) else {
        let found = ENTRIES.iter().find_map(|entry| inside(folder, entry).ok());
        return found.ok_or_else(|| {
            "it names no module to begin with\nhint: `openclaw.extensions` in `package.json` lists it"
                .to_owned()
        });
    };
    let list = extensions.as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(first) = list.first().and_then(Value::as_str) else {
        return Err("`openclaw.extensions` is no list of paths".to_owned());
    };
    if list.len() > 1 {
        notes.push(format!("`openclaw.extensions` has {} entries; only the first is loaded", list.len()));
    }
    inside(folder, first).map_err(|error| format!("`openclaw.extensions`: {error}"))
}

fn unread<'a>(
    map: &'a Map<String, Value>,
    silent: &'a [&str],
    name: &'a str,
) -> impl Iterator<Item = String> {
    map.keys()
        .filter(|key| !silent.contains(&key.as_str()))
        .map(move |key| {
            let key = backstop_yaml::quote(key);
            match ELSEWHERE.contains(&key.as_str()) {
                true => format!("`{key}` of `{name}` is for a part that Backstop has not"),
                false => format!("`{key}` of `{name}` is not known here, and not read"),
            }
        })
        .collect::<Vec<_>>()
        .into_iter()
}

fn contracts(value: Option<&Value>) -> Contracts {
    let list = |key: &str| {
        let items = value.and_then(|value| value.get(key)).and_then(Value::as_array).map(Vec::as_slice);
        items.unwrap_or_default().iter().filter_map(Value::as_str).map(|text| shown(text, 128)).collect()
    };
    Contracts { tools: list("tools"), trusted_tool_policies: list("trustedToolPolicies") }
}

/// Text of others for people: one line, with nothing invisible, cut.
fn shown(text: &str, most: usize) -> String {
    text.chars().filter(|c| !backstop_yaml::is_invisible(*c)).take(most).collect()
}
