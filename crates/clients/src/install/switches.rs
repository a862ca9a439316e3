//! Settings by which a client runs no hook, though our entries are there.
//!
//! A line of a repository's settings is enough with some clients. Whoever starts the client, or looks at an
//! installation, asks for these first: with hooks off nothing of ours hears of a call.
//!
//! Limits: what is read are the files that the client's documents name, of the user and of the project around the working
//! directory, from its root down to that. Options and variables of the client's own command line are not seen here.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::loaders::{CLAUDE_OF_PROJECT, assignment, env_files};
use super::once::DISABLE_ALL;
use super::{Folders, edit, tables};
use crate::client::Client;

/// The largest file that is read, in bytes.
const MOST_BYTES: u64 = 4 * 1024 * 1024;
/// The name that our entries have where entries have names.
const OUR_NAME: &str = "backstop";

/// Something that keeps a client from running hooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The file.
    pub file: PathBuf,
    /// What it says, as a key and a value, or why it can't be read.
    pub says: String,
}

/// What keeps `client` from running our hooks in the project, whether or not any are installed.
pub fn switches(client: Client, folders: &Folders) -> Vec<Switch> {
    let mut found = switched_off(client, folders);
    found.extend(moved_away(client, folders));
    found
}

/// Files of the project by which variables of the client's environment are set: those that move its folder.
fn moved_away(client: Client, folders: &Folders) -> Vec<Switch> {
    let Some(moved) = client.layout().user.variable else { return Vec::new() };
    let sets = |line: &str| assignment(line).is_some_and(|(name, _)| name == moved.by);
    let look = |file: PathBuf| {
        let says = match read(&file) {
            Ok(text) => text?.lines().any(sets).then(|| format!("`{}`, which moves its folder", moved.by))?,
            Err(why) => why,
        };
        Some(Switch { file, says })
    };
    folders.files_around(env_files(client)).filter_map(look).collect()
}

fn switched_off(client: Client, folders: &Folders) -> Vec<Switch> {
    let user = user_folder(client, folders);
    let project = |names: &[&str]| folders.files_around(names).collect::<Vec<_>>();
    let both = |file: &str, below: &str| {
        let mut files = vec![user.join(file)];
        files.extend(project(&[below]));
        files
    };
    match client {
        Client::Claude => {
            let mut files = vec![user.join("settings.json")];
            files.extend(project(&CLAUDE_OF_PROJECT));
            in_settings(files, &[DISABLE_ALL])
        }
        Client::Qwen => in_settings(both("settings.json", ".qwen/settings.json"), &[DISABLE_ALL]),
        Client::Gemini => in_settings(both("settings.json", ".gemini/settings.json"), &[]),
        Client::Copilot => {
            let mut files = both("settings.json", ".github/copilot/settings.json");
            files.extend(both("config.json", ".github/copilot/settings.local.json"));
            files.extend(project(&CLAUDE_OF_PROJECT));
            files.extend(files_in(&user.join("hooks")));
            files.extend(project(&[".github/hooks"]).iter().flat_map(|folder| files_in(folder)));
            in_settings(files, &[DISABLE_ALL])
        }
        Client::Codex => {
            both("config.toml", ".codex/config.toml").iter().filter_map(|path| in_toml(path)).collect()
        }
        Client::Cline
        | Client::OpenCode
        | Client::Cursor
        | Client::Windsurf
        | Client::Kiro
        | Client::Goose
        | Client::Droid
        | Client::Devin => Vec::new(),
        Client::Kimi => in_tables(&user.join("config.toml")).into_iter().collect(),
    }
}

/// The folder of the client's own settings.
pub(super) fn user_folder(client: Client, folders: &Folders) -> PathBuf {
    let folder = client.layout().user_folder(folders);
    match client {
        // Hooks have a folder of their own in it.
        Client::Copilot => folder.parent().map_or_else(|| folder.clone(), Path::to_path_buf),
        _ => folder,
    }
}

/// The JSON files of a folder, by name.
pub(super) fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    files.sort();
    files
}

/// What the settings in these files say: one of `keys` set to anything but `false`, or hooks off by the keys that Gemini CLI
/// and Qwen Code share.
fn in_settings(files: impl IntoIterator<Item = PathBuf>, keys: &[&str]) -> Vec<Switch> {
    let mut found = Vec::new();
    for file in files {
        let says = match settings(&file) {
            Ok(Some(value)) => said_in(&value, keys),
            Ok(None) => Vec::new(),
            Err(why) => vec![why],
        };
        found.extend(says.into_iter().map(|says| Switch { file: file.clone(), says }));
    }
    found
}

fn said_in(value: &Value, keys: &[&str]) -> Vec<String> {
    let set = |key: &&str| {
        let set = value.get(key).filter(|set| **set != Value::Bool(false))?;
        Some(format!("`{key}: {set}`"))
    };
    let hooks = value.get("hooksConfig");
    let enabled = hooks.and_then(|hooks| hooks.get("enabled")).filter(|set| **set != Value::Bool(true));
    let disabled = hooks.and_then(|hooks| hooks.get("disabled")).and_then(Value::as_array);
    let is_ours = |name: &&Value| name.as_str().is_some_and(|name| name.contains(OUR_NAME));
    let ours = disabled.into_iter().flatten().find(is_ours);
    let mut said: Vec<String> = keys.iter().filter_map(set).collect();
    said.extend(enabled.map(|set| format!("`hooksConfig.enabled: {set}`")));
    said.extend(ours.map(|name| format!("`hooksConfig.disabled` with {name}")));
    said
}

/// The settings in a file; `None` where there are none. What can't be read is said.
pub(super) fn settings(file: &Path) -> Result<Option<Value>, String> {
    let Some(text) = read(file)? else { return Ok(None) };
    let node = edit::parse(&text).map_err(|error| format!("what can't be read: {error}"))?;
    Ok(node.as_ref().map(edit::value_of))
}

pub(super) fn read(file: &Path) -> Result<Option<String>, String> {
    let cannot = |error: io::Error| format!("what can't be read: {error}");
    match fs::metadata(file) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(cannot(error)),
        Ok(found) if !found.is_file() || found.len() > MOST_BYTES => {
            Err("what can't be read: it is no file, or too large a one".to_owned())
        }
        Ok(_) => fs::read_to_string(file).map(Some).map_err(cannot),
    }
}

/// The events, the keys and the longest time of a hook of Kimi Code, by the schema in its source (2.1.0). An entry with
/// anything else makes it drop the whole list.
const KIMI_EVENTS: &[&str] = &[
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PermissionRequest",
    "PermissionResult",
    "UserPromptSubmit",
    "UserPromptQueued",
    "TurnStarted",
    "Stop",
    "StopFailure",
    "Interrupt",
    "SessionStart",
    "SessionEnd",
    "SessionHeartbeat",
    "SubagentStart",
    "SubagentStop",
    "TaskStarted",
    "PreCompact",
    "PostCompact",
    "Notification",
];
const KIMI_KEYS: &[&str] = &["event", "matcher", "command", "timeout"];
const KIMI_MOST_SECONDS: u64 = 600;

/// An entry in Kimi Code's configuration for which it drops them all, or a configuration that can't be read as one.
fn in_tables(file: &Path) -> Option<Switch> {
    let says = match read(file) {
        Ok(text) => match tables::hooks(&text?) {
            Ok(hooks) => hooks.iter().find_map(odd)?,
            Err(error) => format!("what can't be read: {error}"),
        },
        Err(why) => why,
    };
    Some(Switch { file: file.to_path_buf(), says })
}

/// What is wrong with an entry.
fn odd(hook: &tables::Hook<'_>) -> Option<String> {
    let all = "for which it drops all of them";
    if let Some((key, _)) = hook.keys.iter().find(|(key, _)| !KIMI_KEYS.contains(&key.as_str())) {
        return Some(format!("`{key}` in an entry of `hooks`, {all}"));
    }
    let wrong = |key: &str, value: &str| match key {
        "event" => hook.text(key).is_none_or(|event| !KIMI_EVENTS.contains(&event.as_str())),
        "command" => matches!(value, "\"\"" | "''") || !value.starts_with(['"', '\'']),
        "matcher" => !value.starts_with(['"', '\'']),
        _ => value.replace('_', "").parse().map_or(true, |time| !(1..=KIMI_MOST_SECONDS).contains(&time)),
    };
    let said = hook.keys.iter().find(|(key, value)| wrong(key, value));
    let missing =
        ["event", "command"].into_iter().find(|wanted| hook.keys.iter().all(|(key, _)| key != wanted));
    match (said, missing) {
        (Some((key, value)), _) => Some(format!("`{key} = {value}` in an entry of `hooks`, {all}")),
        (None, Some(key)) => Some(format!("an entry of `hooks` without `{key}`, {all}")),
        (None, None) => None,
    }
}

/// What a configuration of Codex says: its feature `hooks` (or by its former name) set to anything but `true`. Read line
/// by line: a line that looks like it counts wherever it stands.
fn in_toml(file: &Path) -> Option<Switch> {
    let says = match read(file) {
        Ok(text) => off_in_toml(&text?)?,
        Err(why) => why,
    };
    Some(Switch { file: file.to_path_buf(), says })
}

fn off_in_toml(text: &str) -> Option<String> {
    let mut table = String::new();
    for line in text.lines() {
        let code = line.split('#').next().unwrap_or_default();
        let code: String = code.chars().filter(|c| !c.is_whitespace() && !matches!(c, '"' | '\'')).collect();
        if let Some(name) = code.strip_prefix('[') {
            name.trim_end_matches(']').trim_start_matches('[').clone_into(&mut table);
            continue;
        }
        let says = ["hooks", "codex_hooks"].into_iter().find_map(|name| off_in_line(name, &code, &table));
        if says.is_some() {
            return says;
        }
    }
    None
}

/// What a line of that table, without blanks and quotes, says against the feature.
fn off_in_line(name: &str, line: &str, table: &str) -> Option<String> {
    let (key, value) = line.split_once('=')?;
    let whole = if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
    let is = |wanted: &str| whole == wanted || whole.ends_with(&format!(".{wanted}"));
    let as_key = is(&format!("features.{name}")) && value != "true";
    let inline = is("features") && value.split(['{', '}', ',']).any(|part| part == format!("{name}=false"));
    (as_key || inline).then(|| format!("`{whole} = {value}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client is started in `project/a/b`.
    fn folders(root: &Path) -> Folders {
        let mut folders = Folders::new(root.join("home"), root.join("project"));
        folders.here = folders.project.join("a/b");
        folders
    }

    fn says(client: Client, file: &str, text: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let found = switches(client, &folders(root.path()));
        assert!(found.iter().all(|switch| switch.file == path), "{found:?}");
        found.into_iter().map(|switch| switch.says).collect()
    }

    #[test]
    fn one_line_of_a_repository_that_switches_hooks_off_is_found() {
        let all = "{ // quiet\n \"disableAllHooks\": true }";
        let claude = ["home/.claude/settings.json", "project/.claude/settings.json"];
        let copilot = ["project/.github/hooks/x.json", "project/.github/copilot/settings.json"];
        for (client, files) in [
            (Client::Claude, &claude[..]),
            (Client::Claude, &["project/.claude/settings.local.json", "project/a/b/.claude/settings.json"]),
            (Client::Qwen, &["project/.qwen/settings.json", "home/.qwen/settings.json"]),
            (Client::Copilot, &copilot),
            (Client::Copilot, &["home/.copilot/settings.json", "home/.copilot/hooks/y.json"]),
            (Client::Copilot, &["project/.claude/settings.json", "project/a/.github/hooks/x.json"]),
        ] {
            for file in files {
                assert_eq!(says(client, file, all), ["`disableAllHooks: true`"], "{client} {file}");
                assert_eq!(says(client, file, "{\"disableAllHooks\": false}").len(), 0, "{client} {file}");
                let odd = says(client, file, "{\"disableAllHooks\": \"yes\"}");
                assert_eq!(odd.len(), 1, "what is no false may be a true");
                let broken = says(client, file, "{ broken").concat();
                assert!(broken.contains("can't be read"), "{client} {file}");
            }
        }
        for client in [Client::Gemini, Client::Qwen] {
            let file = format!("project/.{client}/settings.json");
            for (text, number) in [
                ("{\"hooksConfig\": {\"enabled\": false}}", 1),
                ("{\"hooksConfig\": {\"enabled\": true}}", 0),
                ("{\"hooksConfig\": {\"disabled\": [\"backstop\"]}}", 1),
                ("{\"hooksConfig\": {\"disabled\": [\"other\"]}}", 0),
            ] {
                assert_eq!(says(client, &file, text).len(), number, "{client} {text}");
            }
        }
    }

    #[test]
    fn a_repositorys_environment_that_moves_a_client_is_found() {
        for (client, file, text) in [
            (Client::Gemini, "project/.env", "KEY=1\nGEMINI_CLI_HOME=/elsewhere\n"),
            (Client::Gemini, "project/.gemini/.env", "export GEMINI_CLI_HOME = x"),
            (Client::Qwen, "project/.qwen/.env", " QWEN_HOME: x"),
            (Client::Cline, "project/.env", "CLINE_DIR=."),
            (Client::Gemini, "project/a/b/.env", "GEMINI_CLI_HOME=/elsewhere"),
        ] {
            assert_eq!(says(client, file, text).len(), 1, "{client} {text}");
            assert_eq!(says(client, file, &format!("# {text}").replace('\n', " ")).len(), 0, "{client}");
        }
        assert_eq!(says(Client::Claude, "project/.env", "CLAUDE_CONFIG_DIR=x").len(), 0, "it reads none");
    }

    #[test]
    fn an_entry_for_which_kimi_code_drops_all_hooks_is_found() {
        let entry = "[[hooks]]\nevent = \"Stop\"\ncommand = 'x'\n";
        for odd in [
            "extra = 1",
            "timeout = 0",
            "timeout = 601",
            "timeout = \"9\"",
            "matcher = 1",
            "[[hooks]]\nevent = \"stop\"\ncommand = \"x\"",
            "[[hooks]]\nevent = \"Stop\"\ncommand = \"\"",
            "[[hooks]]\nevent = \"Stop\"",
            "[[hooks]]\ncommand = \"x\"",
            "[hooks.x]",
            "a = [",
        ] {
            let file = "home/.kimi-code/config.toml";
            assert_eq!(says(Client::Kimi, file, &format!("{entry}{odd}\n")).len(), 1, "{odd}");
        }
        for fine in ["", "timeout = 600", "matcher = \"^Bash$\"", "[other]\nextra = 1"] {
            let text = format!("{entry}{fine}\n");
            assert_eq!(says(Client::Kimi, "home/.kimi-code/config.toml", &text).len(), 0, "{fine}");
            assert_eq!(says(Client::Kimi, "project/.kimi-code/config.toml", "[[hooks]]\nx = 1\n").len(), 0);
        }
    }

    #[test]
    fn codexs_feature_is_found_however_it_is_written() {
        for off in [
            "[features]\nhooks = false",
            "[features]\nother = true\n  hooks=false # quiet",
            "features.hooks = false",
            "features = { web = true, hooks = false }",
            "[features]\n\"hooks\" = false",
            "[profiles.fast.features]\nhooks = false",
            "[features]\ncodex_hooks = false",
        ] {
            assert_eq!(says(Client::Codex, "project/.codex/config.toml", off).len(), 1, "{off}");
            assert_eq!(says(Client::Codex, "home/.codex/config.toml", off).len(), 1, "{off}");
        }
        for on in ["", "[features]\nhooks = true", "[hooks]\nx = false", "# features.hooks = false"] {
            assert_eq!(says(Client::Codex, "project/.codex/config.toml", on).len(), 0, "{on}");
        }
    }
}
