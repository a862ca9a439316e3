//! All users of a machine: our entries in the places that only its administrator writes.
//!
//! Most clients read a file of the system's before or after the user's. What is written there no user takes back, as far as the
//! client holds to it; [`MachineFacts`] says for each what it holds to, what slips, and how that is known. The laws are those
//! of [installing](super): what is not ours stays byte for byte, twice is once, and a file that can't be parsed, or says
//! the opposite, is left as it is.
//!
//! Limits: Cline, Kiro, goose, Droid, Devin CLI and Kimi Code have no such place. On Windows the places are known and nothing is written: Backstop does
//! not run there.

mod facts;
mod members;
mod requirements;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::members::Member;
use super::{ConfigError, Events, Form, HookCommand, InvalidProgram, Merged, OwnFile, Program, merge};
use crate::client::Client;

pub use self::facts::{MachineFacts, machine_facts};

/// A kind of machine, by where its clients look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Machine {
    /// Linux, and whatever else keeps to `/etc`.
    Linux,
    /// macOS.
    MacOs,
}

impl Machine {
    /// The kind that this program was built for.
    #[must_use]
    pub const fn this() -> Self {
        if cfg!(target_os = "macos") { Self::MacOs } else { Self::Linux }
    }

    /// A word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::MacOs => "macos",
        }
    }
}

/// A file of the machine with something of ours in it.
#[derive(Clone, Debug)]
pub struct MachineFile {
    /// Its place, as the client reads it.
    pub path: PathBuf,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    /// All of it is ours.
    Own(OwnFile),
    /// Entries and members in a JSON file.
    Json { hooks: Option<Merged>, command: HookCommand, members: Vec<Member> },
    /// Lines in a TOML file.
    Toml { hooks: Merged, command: HookCommand },
}

impl MachineFile {
    /// What the file has to hold, where it holds `now`.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] where it can't be edited, or says the opposite.
    pub fn with_us(&self, now: Option<&str>) -> Result<String, ConfigError> {
        let text = now.unwrap_or_default();
        match &self.content {
            Content::Own(file) => Ok(file.text.clone()),
            Content::Json { hooks, command, members } => {
                let hooked = match hooks {
                    Some(hooks) => merge::install(text, hooks, Events::UnderHooks, command)?,
                    None => text.to_owned(),
                };
                members.iter().try_fold(hooked, |text, member| members::put(&text, member))
            }
            Content::Toml { hooks, command } => requirements::put(text, hooks, command),
        }
    }

    /// What is left of `now` without us; `None` for a file that is ours alone, or that says nothing then.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] where it can't be edited.
    pub fn without_us(&self, now: &str) -> Result<Option<String>, ConfigError> {
        match &self.content {
            Content::Own(_) => Ok(None),
            Content::Json { hooks, command, members } => {
                let mut text = members
                    .iter()
                    .rev()
                    .try_fold(now.to_owned(), |text, member| members::take(&text, member))?;
                if hooks.is_some() {
                    text = merge::uninstall(&text, Events::UnderHooks, command)?;
                }
                let is_bare =
                    hooks.as_ref().map_or_else(|| text.trim() == "{}", |hooks| merge::is_bare(&text, hooks));
                Ok((!is_bare).then_some(text))
            }
            Content::Toml { .. } => {
                let text = requirements::take(now);
                Ok((!text.trim().is_empty()).then_some(text))
            }
        }
    }

    /// The command that the client starts at that event, where this file says it.
    #[must_use]
    pub fn command_at(&self, event: &str) -> Option<String> {
        let (hooks, command) = match &self.content {
            Content::Json { hooks: Some(hooks), command, .. } | Content::Toml { hooks, command } => {
                (hooks, command)
            }
            Content::Json { .. } | Content::Own(_) => return None,
        };
        let event = hooks.events.iter().find(|known| **known == event)?;
        let group = (hooks.group)(event, command);
        let entry = group.pointer("/hooks/0").unwrap_or(&group);
        entry.get("command").and_then(Value::as_str).map(str::to_owned)
    }
}

/// The files by which `client` starts `program` for all users of a machine; none where it has no place for that. `share` is a
/// folder of ours that only the administrator writes, for what a client has to be pointed to.
///
/// # Errors
///
/// [`InvalidProgram`] when the program can't be named in a configuration.
pub fn machine_files(
    client: Client,
    machine: Machine,
    program: impl Into<Program>,
    share: &Path,
) -> Result<Vec<MachineFile>, InvalidProgram> {
    let command = HookCommand::new(client, program)?;
    let Some(folder) = machine_facts(client).place(machine) else { return Ok(Vec::new()) };
    let folder = Path::new(folder);
    let files = match (client, &client.layout().form) {
        (Client::Codex, Form::Merged(merged)) => {
            let content = Content::Toml { hooks: *merged, command };
            vec![MachineFile { path: folder.join("requirements.toml"), content }]
        }
        (_, Form::Merged(merged)) => {
            let (name, members) = settings(client, share);
            let mut files = vec![MachineFile {
                path: folder.join(name),
                content: Content::Json { hooks: Some(*merged), command: command.clone(), members },
            }];
            if client == Client::Claude {
                files.extend(plugin(merged, &command, share));
            }
            files
        }
        (Client::OpenCode, Form::Own(own)) => {
            let (name, members) = settings(client, share);
            let own = own(&command).into_iter().map(|file| own_file(&share.join(client.name()), file));
            let mut files: Vec<_> = own.collect();
            files.push(MachineFile {
                path: folder.join(name),
                content: Content::Json { hooks: None, command, members },
            });
            files
        }
        // No client with such a file has a place for the whole machine.
        (_, Form::Tables(_)) => Vec::new(),
        (_, Form::Own(own)) => own(&command).into_iter().map(|file| own_file(folder, file)).collect(),
    };
    Ok(files)
}

fn own_file(folder: &Path, file: OwnFile) -> MachineFile {
    MachineFile { path: folder.join(&file.name), content: Content::Own(file) }
}

/// The file of a client's settings, and what has to stand in it beside hooks, so that they are run.
fn settings(client: Client, share: &Path) -> (&'static str, Vec<Member>) {
    let at = |below: &str| share.join(client.name()).join(below).to_string_lossy().into_owned();
    match client {
        Client::Claude => (
            "managed-settings.json",
            vec![
                Member::Is(&["allowManagedHooksOnly"], json!(true)),
                Member::Is(
                    &["extraKnownMarketplaces", NAME],
                    json!({ "source": { "source": "directory", "path": at("") .trim_end_matches('/') } }),
                ),
                Member::Is(&["enabledPlugins", "backstop@backstop"], json!(true)),
            ],
        ),
        Client::Gemini => ("settings.json", vec![Member::Is(&["hooksConfig", "enabled"], json!(true))]),
        Client::Qwen => ("settings.json", vec![Member::Is(&["disableAllHooks"], json!(false))]),
        Client::OpenCode => {
            ("opencode.json", vec![Member::Has(&["plugin"], json!(format!("file://{}", at("backstop.js"))))])
        }
        Client::Codex
        | Client::Copilot
        | Client::Cline
        | Client::Cursor
        | Client::Windsurf
        | Client::Kiro
        | Client::Goose
        | Client::Droid
        | Client::Devin
        | Client::Kimi => ("hooks.json", Vec::new()),
    }
}

/// What our plugin for Claude Code and its marketplace are called.
const NAME: &str = "backstop";
/// Where Claude Code can be kept from something. What is only watched the settings report.
const GATES: [&str; 3] = ["PreToolUse", "PostToolUse", "UserPromptSubmit"];

/// A plugin with the same hooks, in a marketplace of its own: Claude Code runs the hooks of plugins that managed settings enable
/// also where it is started without settings.
fn plugin(merged: &Merged, command: &HookCommand, share: &Path) -> Vec<MachineFile> {
    let events = merged.events.iter().filter(|event| GATES.contains(event));
    let hooks: serde_json::Map<String, Value> =
        events.map(|event| ((*event).to_owned(), json!([(merged.group)(event, command)]))).collect();
    let about = "Judges what the agent is about to do";
    let version = env!("CARGO_PKG_VERSION");
    let files = [
        OwnFile::json(
            ".claude-plugin/marketplace.json",
            &json!({
                "name": NAME, "owner": { "name": "Backstop" },
                "plugins": [{ "name": NAME, "source": "./plugin", "description": about }],
            }),
        ),
        OwnFile::json(
            "plugin/.claude-plugin/plugin.json",
            &json!({ "name": NAME, "version": version, "description": about }),
        ),
        OwnFile::json("plugin/hooks/hooks.json", &json!({ "hooks": hooks })),
    ];
    files.into_iter().map(|file| own_file(&share.join(command.client().name()), file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::Fixed;

    fn files(client: Client, machine: Machine) -> Vec<MachineFile> {
        let fixed = Fixed::service(Path::new("/run/backstop/hooks.sock")).ok();
        let program = Program { path: "/opt/backstop/bin/backstop".into(), fixed };
        machine_files(client, machine, program, Path::new("/opt/backstop")).unwrap()
    }

    #[test]
    fn every_client_with_a_place_gets_files_there_and_starts_the_pipe() {
        for machine in [Machine::Linux, Machine::MacOs] {
            for client in Client::ALL {
                let files = files(client, machine);
                let place = machine_facts(client).place(machine);
                assert_eq!(files.is_empty(), place.is_none(), "{client}");
                let texts: Vec<_> = files.iter().map(|file| file.with_us(None).unwrap()).collect();
                for file in &files {
                    let is_there = place.is_some_and(|place| file.path.starts_with(place));
                    assert!(is_there || file.path.starts_with("/opt/backstop"), "{}", file.path.display());
                }
                let says = texts.iter().any(|text| {
                    text.contains("/opt/backstop/bin/backstop") && text.contains("/run/backstop/hooks.sock")
                });
                assert!(says || files.is_empty(), "{client}: {texts:?}");
            }
        }
    }

    #[test]
    fn files_are_ours_or_shared_and_give_back_what_was_there() {
        let before = "{\n  // the administrator's\n  \"theirs\": [1, 2],\n  \"hooks\": {}\n}\n";
        for client in Client::ALL {
            for file in files(client, Machine::Linux) {
                let alone = file.with_us(None).unwrap();
                assert_eq!(file.with_us(Some(&alone)).unwrap(), alone, "{}", file.path.display());
                assert_eq!(file.without_us(&alone).unwrap(), None, "{}", file.path.display());
                if let Content::Json { .. } = file.content {
                    let text = file.with_us(Some(before)).unwrap();
                    assert!(text.contains("// the administrator's"), "{text}");
                    let left = file.without_us(&text).unwrap().unwrap();
                    assert!(left.contains("\"theirs\": [1, 2]") && !left.contains("backstop"), "{left}");
                }
            }
        }
    }

    #[test]
    fn claude_gets_settings_that_lock_and_a_plugin() {
        let all = files(Client::Claude, Machine::Linux);
        let settings: Value = serde_json::from_str(&all[0].with_us(None).unwrap()).unwrap();
        assert_eq!(settings["allowManagedHooksOnly"], true);
        assert_eq!(settings["extraKnownMarketplaces"]["backstop"]["source"]["path"], "/opt/backstop/claude");
        assert_eq!(settings["enabledPlugins"]["backstop@backstop"], true);
        let plugin = all.iter().find(|file| file.path.ends_with("plugin/hooks/hooks.json")).unwrap();
        assert!(plugin.with_us(None).unwrap().contains("hook claude --service /run/backstop/hooks.sock"));
        assert!(all[0].command_at("PreToolUse").unwrap().contains("--service"));
    }
}
