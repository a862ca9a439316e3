//! Variables in a client's settings that put code into what it starts, our hooks among it.
//!
//! What `LD_PRELOAD` names runs inside of the judge before its first line, `BASH_ENV` and `PATH` decide what the shell of a hook
//! does before it starts the judge; no program can undo that from inside. Claude Code gives `env` of all its settings to hooks;
//! Gemini CLI, Qwen Code and Cline read `.env` of the project into their own environment.
//!
//! Limits: what is read are these files, of the project, the user and the machine. What the client is started with is its
//! starter's.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::switches::{files_in, read, settings, user_folder};
use super::{Folders, Machine, machine_facts};
use crate::client::Client;

/// What puts code into any program that is started, by ld.so(8) and dyld(1), or into the shell that starts our hooks, by
/// the manuals of bash, dash and zsh.
const LOADERS: &[&str] = &[
    "PATH",
    "SHELL",
    "ENV",
    "BASH_ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "IFS",
    "ZDOTDIR",
    "GCONV_PATH",
    "LOCPATH",
    "GLIBC_TUNABLES",
];
const FAMILIES: &[&str] = &["LD_", "DYLD_", "BASH_FUNC_"];
/// What Node.js loads before a program, by its manual of `NODE_OPTIONS`: of a client that runs on it, and of what it starts.
const NODE: &str = "NODE_OPTIONS";
const NODE_LOADS: &[&str] = &["-r", "--require", "--import", "--loader", "--experimental-loader"];

/// Claude Code's settings of a project, in each folder that it may read.
pub(super) const CLAUDE_OF_PROJECT: [&str; 2] = [".claude/settings.json", ".claude/settings.local.json"];

/// The files of a project by which variables of the client's environment are set, in each folder that it may read.
pub(super) fn env_files(client: Client) -> &'static [&'static str] {
    match client {
        Client::Gemini => &[".env", ".gemini/.env"],
        Client::Qwen => &[".env", ".qwen/.env"],
        Client::Cline => &[".env"],
        _ => &[],
    }
}

/// A variable that a file sets for what a client starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loader {
    /// The file.
    pub file: PathBuf,
    /// The variable.
    pub variable: String,
    /// Whose settings these are.
    pub of: Whose,
}

/// Whose settings a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Whose {
    /// Whoever writes to the repository.
    Project,
    /// The user's.
    User,
    /// The administrator's of the machine.
    Machine,
}

/// Whether a variable decides by its name alone what runs in programs that are started with it.
pub(super) fn is_loader(name: &str) -> bool {
    LOADERS.contains(&name) || FAMILIES.iter().any(|family| name.starts_with(family))
}

/// What settings of `client` load into what it starts. `root` is the root of the machine's own places.
pub fn loaders(client: Client, folders: &Folders, root: &Path) -> Vec<Loader> {
    let project = |names: &[&str]| -> Vec<(PathBuf, Whose)> {
        folders.files_around(names).map(|file| (file, Whose::Project)).collect()
    };
    match client {
        Client::Claude => {
            let mut files = project(&CLAUDE_OF_PROJECT);
            files.push((user_folder(client, folders).join("settings.json"), Whose::User));
            if let Some(place) = machine_facts(client).place(Machine::this()) {
                let place = root.join(place.trim_start_matches('/'));
                let drop_ins = files_in(&place.join("managed-settings.d"));
                let managed = std::iter::once(place.join("managed-settings.json")).chain(drop_ins);
                files.extend(managed.map(|file| (file, Whose::Machine)));
            }
            files.into_iter().flat_map(|(file, of)| in_settings(&file, of)).collect()
        }
        Client::Gemini | Client::Qwen | Client::Cline => in_env_files(&project(env_files(client))),
        _ => Vec::new(),
    }
}

fn in_settings(file: &Path, of: Whose) -> Vec<Loader> {
    // What can't be read is told of with the switches.
    let Ok(Some(settings)) = settings(file) else { return Vec::new() };
    let set = settings.get("env").and_then(Value::as_object).into_iter().flatten();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    set.filter(|(name, value)| loads(name, &text(value)))
        .map(|(name, _)| Loader { file: file.to_path_buf(), variable: name.clone(), of })
        .collect()
}

fn in_env_files(files: &[(PathBuf, Whose)]) -> Vec<Loader> {
    let mut found = Vec::new();
    for (file, of) in files {
        let Ok(Some(text)) = read(file) else { continue };
        let set = text.lines().filter_map(assignment).filter(|(name, value)| loads(name, value));
        found.extend(set.map(|(name, _)| Loader { file: file.clone(), variable: name.to_owned(), of: *of }));
    }
    found
}

/// The name and the value of a line of a `.env` file.
pub(super) fn assignment(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
    let (name, value) = line.split_once(['=', ':'])?;
    let name = name.trim_end();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some((name, value))
}

/// Whether a variable with that value puts code into what is started.
fn loads(name: &str, value: &str) -> bool {
    let is_empty = value.trim().trim_matches(['"', '\'']).is_empty();
    let options = || value.split([' ', '=', '"', '\'', '\t']);
    !is_empty && (is_loader(name) || name == NODE && options().any(|option| NODE_LOADS.contains(&option)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// In a client that is started in `project/a/b`.
    fn found(client: Client, file: &str, text: &str) -> Vec<(String, Whose)> {
        let root = tempfile::tempdir().unwrap();
        let at = root.path();
        let path = at.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let mut folders = Folders::new(at.join("home"), at.join("project"));
        folders.here = folders.project.join("a/b");
        let found = loaders(client, &folders, at);
        assert!(found.iter().all(|loader| loader.file == path), "{found:?}");
        found.into_iter().map(|loader| (loader.variable, loader.of)).collect()
    }

    #[test]
    fn what_claude_codes_settings_load_is_found_in_each_of_them() {
        let managed = machine_facts(Client::Claude).place(Machine::this()).unwrap().trim_start_matches('/');
        let (of_machine, drop_in) =
            (format!("{managed}/managed-settings.json"), format!("{managed}/managed-settings.d/10.json"));
        for (file, of) in [
            ("project/.claude/settings.json", Whose::Project),
            ("project/.claude/settings.local.json", Whose::Project),
            ("project/a/.claude/settings.json", Whose::Project),
            ("project/a/b/.claude/settings.local.json", Whose::Project),
            ("home/.claude/settings.json", Whose::User),
            (&of_machine, Whose::Machine),
            (&drop_in, Whose::Machine),
        ] {
            for name in
                ["LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "PATH", "BASH_FUNC_ls%%"]
            {
                let text = format!("{{ // x\n\"env\": {{\"{name}\": \"./x.so\", \"LANG\": \"C\"}}}}");
                assert_eq!(found(Client::Claude, file, &text), [(name.to_owned(), of)], "{file}");
            }
            assert_eq!(found(Client::Claude, file, "{\"env\": {\"LD_PRELOAD\": \"\"}}"), []);
            assert_eq!(found(Client::Claude, file, "{\"LD_PRELOAD\": \"x\", \"env\": {\"CI\": \"1\"}}"), []);
        }
    }

    #[test]
    fn nodes_options_count_where_they_load_something() {
        let settings = |value: &str| format!("{{\"env\": {{\"NODE_OPTIONS\": \"{value}\"}}}}");
        let at = "project/.claude/settings.json";
        for value in ["--require ./x.js", "--import=./x.mjs", "--max-old-space-size=4096 -r ./x"] {
            assert_eq!(found(Client::Claude, at, &settings(value)).len(), 1, "{value}");
        }
        for value in ["--max-old-space-size=4096", "--no-warnings"] {
            assert_eq!(found(Client::Claude, at, &settings(value)), [], "{value}");
        }
    }

    #[test]
    fn what_an_environment_file_of_a_repository_loads_is_found() {
        for (client, file) in [
            (Client::Gemini, "project/.env"),
            (Client::Gemini, "project/.gemini/.env"),
            (Client::Gemini, "project/a/b/.env"),
            (Client::Qwen, "project/.qwen/.env"),
            (Client::Cline, "project/.env"),
        ] {
            let text =
                "KEY=1\nexport LD_PRELOAD=./x.so\n# BASH_ENV=x\nNODE_OPTIONS=\"--require ./x\"\nLD_DEBUG=\n";
            let names = ["LD_PRELOAD", "NODE_OPTIONS"].map(|name| (name.to_owned(), Whose::Project));
            assert_eq!(found(client, file, text), names, "{client} {file}");
        }
        assert_eq!(found(Client::Claude, "project/.env", "LD_PRELOAD=x"), [], "it reads none");
    }
}
