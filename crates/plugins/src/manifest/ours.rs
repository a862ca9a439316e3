//! `backstop.plugin.json`.

use std::path::Path;

use backstop_hooks::Json;
use backstop_yaml::{Kind as NodeKind, Node, Place, Problem, ProblemKind};
use serde::Deserialize;
use serde_json::Value;

use super::points::{self, Hook, Hooks};
use super::{Api, Contracts, Kind, Manifest, ManifestError, PluginId, Text, inside};
use crate::external::command::Dialect;
use crate::permissions::{Host, Permissions, Words};
use crate::registration::HookSpec;

/// Most words of a command.
const MOST_ARGUMENTS: usize = 64;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    id: String,
    name: Option<String>,
    version: String,
    description: Option<String>,
    #[serde(default = "backstop")]
    api: Api,
    kind: KindWord,
    entry: Option<String>,
    command: Option<Vec<String>>,
    dialect: Option<DialectWord>,
    url: Option<String>,
    authorization: Option<String>,
    points: Option<Vec<Hook>>,
    #[serde(default)]
    permissions: Words,
    #[serde(default)]
    contracts: ContractWords,
    config_schema: Option<Value>,
}

fn backstop() -> Api {
    Api::Backstop
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KindWord {
    Script,
    Process,
    Command,
    Http,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DialectWord {
    Backstop,
    Claude,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ContractWords {
    tools: Vec<String>,
    trusted_tool_policies: Vec<String>,
}

/// The node at a path of keys, as far as it is there.
fn at(root: &Node, path: &[&str]) -> Place {
    let mut node = root;
    for key in path {
        let NodeKind::Map(entries) = &node.kind else { break };
        let Some(entry) = entries.iter().find(|entry| entry.key == *key) else { break };
        node = &entry.value;
    }
    node.at.clone()
}

/// A problem whose message may bring its hint along.
fn wrong(place: Place, error: impl std::fmt::Display) -> Problem {
    let text = error.to_string();
    match text.split_once("\nhint: ") {
        Some((message, hint)) => Problem::new(ProblemKind::BadValue, place, message).with_hint(hint),
        None => Problem::new(ProblemKind::BadValue, place, text),
    }
}

pub(super) fn read(folder: &Path, file: &Text) -> Result<Manifest, ManifestError> {
    let root = file.tree()?;
    command_is_list(&root)?;
    let mut wire: Wire = root.read()?;
    let id = PluginId::new(wire.id.as_str()).map_err(|error| wrong(at(&root, &["id"]), error))?;
    let is_asked_by_point = matches!(wire.kind, KindWord::Command | KindWord::Http);
    let is_optional = |hooks: &Vec<Hook>| hooks.iter().any(|hook| hook.optional);
    if is_asked_by_point && wire.points.as_ref().is_some_and(is_optional) {
        let message =
            "`optional` is for points whose hooks the plugin's code registers, and this `kind` has none";
        return Err(wrong(at(&root, &["points"]), message).into());
    }
    let hooks = wire.points.take().map(|hooks| hooks_of(hooks, &root)).transpose()?;
    let (points, optional) = hooks.map(|Hooks { specs, optional }| (specs, optional)).unzip();
    let kind = kind(folder, &wire, points.as_deref(), &root)?;
    let mut asked = Permissions::try_from(&wire.permissions).map_err(|error| {
        let list = error.list;
        wrong(at(&root, &["permissions", list]), error)
    })?;
    if let Kind::Http { url, authorization } = &kind {
        asked.hosts.insert(host_of(url).map_err(|error| wrong(at(&root, &["url"]), error))?);
        asked.env.extend(authorization.clone());
    }
    for (key, text) in [("name", wire.name.as_deref()), ("version", Some(wire.version.as_str()))] {
        let is_bad =
            |text: &str| text.is_empty() || text.len() > 128 || text.chars().any(backstop_yaml::is_invisible);
        if text.is_some_and(is_bad) {
            let message = format!("`{key}` is a text of 1 to 128 bytes with nothing invisible in it");
            return Err(wrong(at(&root, &[key]), message).into());
        }
    }
    Ok(Manifest {
        name: wire.name.unwrap_or_else(|| id.to_string()),
        id,
        version: Some(wire.version),
        description: wire.description,
        api: wire.api,
        kind,
        points,
        optional: optional.unwrap_or_default(),
        asked: Some(asked),
        contracts: Contracts {
            tools: wire.contracts.tools,
            trusted_tool_policies: wire.contracts.trusted_tool_policies,
        },
        config_schema: wire.config_schema.map(Json::new),
        notes: Vec::new(),
        file: file.path.clone(),
    })
}

fn hooks_of(hooks: Vec<Hook>, root: &Node) -> Result<Hooks, Problem> {
    points::specs(hooks).map_err(|(index, error)| {
        let list = match &root.kind {
            NodeKind::Map(entries) => {
                entries.iter().find(|entry| entry.key == "points").map(|entry| &entry.value)
            }
            _ => None,
        };
        let item = match list.map(|list| &list.kind) {
            Some(NodeKind::List(items)) => items.get(index),
            _ => None,
        };
        wrong(item.map_or_else(|| at(root, &["points"]), |item| item.at.clone()), error)
    })
}

/// Which keys a kind has, and that no other is there.
fn kind(folder: &Path, wire: &Wire, points: Option<&[HookSpec]>, root: &Node) -> Result<Kind, Problem> {
    let there = [
        ("entry", wire.entry.is_some(), &[KindWord::Script][..]),
        ("command", wire.command.is_some(), &[KindWord::Process, KindWord::Command]),
        ("dialect", wire.dialect.is_some(), &[KindWord::Command]),
        ("url", wire.url.is_some(), &[KindWord::Http]),
        ("authorization", wire.authorization.is_some(), &[KindWord::Http]),
    ];
    if let Some((key, ..)) = there.iter().find(|(_, there, kinds)| *there && !kinds.contains(&wire.kind)) {
        return Err(wrong(at(root, &[key]), format!("a plugin of this `kind` has no `{key}`")));
    }
    let is_needed = |key: &str| !matches!(key, "dialect" | "authorization");
    if let Some((key, ..)) =
        there.iter().find(|(key, there, kinds)| !*there && is_needed(key) && kinds.contains(&wire.kind))
    {
        return Err(wrong(at(root, &["kind"]), format!("`{key}` is missing, which this `kind` needs")));
    }
    let is_asked_by_point = matches!(wire.kind, KindWord::Command | KindWord::Http);
    if is_asked_by_point && points.is_none_or(<[_]>::is_empty) {
        let message = "`points` is missing: only the manifest says where this `kind` has hooks";
        return Err(wrong(at(root, &["points"]), message));
    }
    let command = || command(folder, wire.command.as_deref().unwrap_or_default(), root);
    Ok(match wire.kind {
        KindWord::Script => {
            let entry = inside(folder, wire.entry.as_deref().unwrap_or_default());
            Kind::Script { entry: entry.map_err(|error| wrong(at(root, &["entry"]), error))? }
        }
        KindWord::Process => Kind::Process { command: command()? },
        KindWord::Command => {
            let dialect = match wire.dialect {
                Some(DialectWord::Claude) => Dialect::Claude,
                Some(DialectWord::Backstop) | None => Dialect::Backstop,
            };
            Kind::Command { command: command()?, dialect }
        }
        KindWord::Http => Kind::Http {
            url: wire.url.clone().unwrap_or_default(),
            authorization: wire.authorization.clone(),
        },
    })
}

/// How a command line is written in a manifest.
fn as_list(line: &str) -> String {
    let words = line.split_whitespace().map(|word| format!("\"{}\"", backstop_yaml::quote(word)));
    format!("write `\"command\": [{}]`", words.collect::<Vec<_>>().join(", "))
}

/// Says what a command is to whoever wrote a command line.
fn command_is_list(root: &Node) -> Result<(), Problem> {
    let NodeKind::Map(entries) = &root.kind else { return Ok(()) };
    let command = entries.iter().find(|entry| entry.key == "command");
    let Some((NodeKind::Text(line), at)) = command.map(|entry| (&entry.value.kind, &entry.value.at)) else {
        return Ok(());
    };
    let message = "`command` is a list of a program and its arguments, and no shell reads it";
    Err(wrong(at.clone(), message).with_hint(as_list(line)))
}

/// A command: a name that is looked for in `PATH`, or a file of the plugin (`./hook.py`), and arguments, in which `${plugin}` is the
/// plugin's folder.
fn command(folder: &Path, words: &[String], root: &Node) -> Result<Vec<String>, Problem> {
    let place = || at(root, &["command"]);
    let Some(program) = words.first().filter(|_| words.len() <= MOST_ARGUMENTS) else {
        return Err(wrong(place(), format!("a command has 1 to {MOST_ARGUMENTS} words")));
    };
    if words.iter().any(|word| word.contains('\0')) || program.is_empty() || program.starts_with('-') {
        return Err(wrong(place(), "a command begins with the name of a program, or a file of the plugin"));
    }
    if words.len() == 1 && program.contains(char::is_whitespace) && !folder.join(program).is_file() {
        let message = "the name of a program is a word, and this is a command line, which no shell reads";
        return Err(wrong(place(), message).with_hint(as_list(program)));
    }
    if program.contains('/') {
        inside(folder, program).map_err(|error| {
            let hint = "a program of the machine is named without its folder, and looked for in `PATH`";
            wrong(place(), error).with_hint(hint)
        })?;
    }
    Ok(words.to_vec())
}

/// The host of an address, as permissions name it.
fn host_of(url: &str) -> Result<Host, String> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let authority = rest.and_then(|rest| rest.split(['/', '?', '#', '\\']).next()).unwrap_or_default();
    if authority.contains('@') {
        return Err("an address of a plugin has no user and no password in it".to_owned());
    }
    authority.parse().map_err(|_| "this is no `https` address, or `http` on this machine".to_owned())
}
