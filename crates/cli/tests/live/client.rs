//! The clients: how each is started without a terminal, told where its model is, and what it calls its tools.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::model::Call;

/// A coding agent that comes from npm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    Claude,
    Codex,
    Gemini,
    Qwen,
    Copilot,
    Cline,
    OpenCode,
}

/// The folders of one test, and the address of its model.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) home: PathBuf,
    pub(crate) project: PathBuf,
    /// Where the client is installed.
    pub(crate) package: PathBuf,
    pub(crate) model: String,
    /// Whether the client is to read in its environment where its model is, if it can.
    pub(crate) by_variable: bool,
    /// The command of the MCP server `notes`.
    pub(crate) notes: Vec<String>,
}

/// A package that this platform has no build of.
#[derive(Debug)]
pub(crate) struct NoBuild(pub(crate) String);

/// This platform in npm's words, as the names of packages have it.
fn platform() -> Result<(&'static str, &'static str), NoBuild> {
    let system = match std::env::consts::OS {
        "linux" => "linux",
        "macos" => "darwin",
        other => return Err(NoBuild(format!("the suite does not know the builds for {other}"))),
    };
    match std::env::consts::ARCH {
        "x86_64" => Ok((system, "x64")),
        "aarch64" => Ok((system, "arm64")),
        other => Err(NoBuild(format!("the suite does not know the builds for {other}"))),
    }
}

impl Client {
    pub(crate) const ALL: [Self; 7] =
        [Self::Claude, Self::Codex, Self::Gemini, Self::Qwen, Self::Copilot, Self::Cline, Self::OpenCode];

    /// The name by which Backstop, npm's folder and the tests know it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Qwen => "qwen",
            Self::Copilot => "copilot",
            Self::Cline => "cline",
            Self::OpenCode => "opencode",
        }
    }

    /// The program and what must stand before its arguments.
    fn program(self, package: &Path) -> Result<Vec<PathBuf>, NoBuild> {
        let (system, machine) = platform()?;
        let modules = package.join("node_modules");
        let native = |name: String| vec![modules.join(name)];
        // A client's own Node, where the one of the machine may be too old for it.
        let node =
            Some(modules.join(format!("node-{system}-{machine}/bin/node"))).filter(|node| node.exists());
        let script = |path: &str| vec![node.unwrap_or_else(|| "node".into()), modules.join(path)];
        Ok(match self {
            Self::Claude => native(format!("@anthropic-ai/claude-code-{system}-{machine}/claude")),
            Self::Codex => {
                let cpu = std::env::consts::ARCH;
                let target = if system == "linux" { "unknown-linux-musl" } else { "apple-darwin" };
                native(format!("@openai/codex-{system}-{machine}/vendor/{cpu}-{target}/bin/codex"))
            }
            Self::Gemini => script("@google/gemini-cli/bundle/gemini.js"),
            Self::Qwen => script("@qwen-code/qwen-code/cli-entry.js"),
            Self::Copilot => native(format!("@github/copilot-{system}-{machine}/copilot")),
            Self::Cline => native(format!("@cline/cli-{system}-{machine}/bin/cline")),
            Self::OpenCode => native(format!("opencode-{system}-{machine}/bin/opencode")),
        })
    }

    /// The command that runs one prompt, with what it needs in its environment.
    ///
    /// # Errors
    ///
    /// [`NoBuild`] when the client can't be had for this platform.
    pub(crate) fn command(self, place: &Place, arguments: &[&str]) -> Result<Command, NoBuild> {
        let program = self.program(&place.package)?;
        assert!(
            program.iter().all(|path| path.is_relative() || path.exists()),
            "{} is not installed; `cargo xtask live-clients {}` does that",
            self.name(),
            self.name()
        );
        let mut words = program.iter();
        let mut command = Command::new(words.next().unwrap());
        command.args(words).args(arguments).current_dir(&place.project);
        command.env_clear().envs(surroundings(place)).envs(self.environment(place));
        Ok(command)
    }

    /// Arguments that make it run one prompt and let every tool run that no hook stops.
    pub(crate) fn arguments(self) -> &'static [&'static str] {
        const PROMPT: &str = "Please do what the plan says.";
        match self {
            Self::Claude => &[
                "-p",
                PROMPT,
                "--output-format",
                "stream-json",
                "--verbose",
                "--mcp-config",
                ".mcp.json",
                "--strict-mcp-config",
                "--allowedTools",
                "Bash",
                "Agent",
                "mcp__notes__take_note",
            ],
            // A person trusts the hooks once, with `/hooks`; without a terminal there is this option.
            Self::Codex => {
                &["exec", "--skip-git-repo-check", "--json", "--dangerously-bypass-hook-trust", PROMPT]
            }
            Self::Gemini | Self::Qwen => {
                &["-p", PROMPT, "--output-format", "stream-json", "--approval-mode", "yolo"]
            }
            Self::Copilot => &["-p", PROMPT, "--no-auto-update", "--allow-all-tools", "--allow-all-paths"],
            Self::Cline => {
                &["--json", "-P", "openai-compatible", "-m", "scripted-model", "-k", "none", PROMPT]
            }
            Self::OpenCode => &["run", "--print-logs", PROMPT],
        }
    }

    /// The variables in which it is told where its model is, if they beat files.
    pub(crate) fn addresses(self) -> &'static [&'static str] {
        match self {
            Self::Gemini => &["GOOGLE_GEMINI_BASE_URL"],
            Self::Qwen => &["OPENAI_BASE_URL"],
            Self::Copilot => &["COPILOT_PROVIDER_BASE_URL"],
            Self::Claude | Self::Codex | Self::Cline | Self::OpenCode => &[],
        }
    }

    fn environment(self, place: &Place) -> Vec<(&'static str, String)> {
        let Place { home, model, .. } = place;
        let v1 = format!("{model}/v1");
        let pairs: Vec<(&str, &str)> = match self {
            Self::Claude => vec![
                ("ANTHROPIC_BASE_URL", model),
                ("ANTHROPIC_API_KEY", "none"),
                ("ANTHROPIC_MODEL", "claude-sonnet-4-5"),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
                // A model that can't be had is none; it would try ten times.
                ("CLAUDE_CODE_MAX_RETRIES", "1"),
                ("DISABLE_AUTOUPDATER", "1"),
                ("DISABLE_ERROR_REPORTING", "1"),
                ("DISABLE_TELEMETRY", "1"),
                // With it, tools of MCP servers are not offered until they are searched for.
                ("ENABLE_TOOL_SEARCH", "false"),
                // It will not run unattended as root elsewhere, and containers run tests as root.
                ("IS_SANDBOX", "1"),
            ],
            Self::Codex => vec![("SCRIPTED_KEY", "none"), ("OTEL_SDK_DISABLED", "true")],
            Self::Gemini => vec![
                ("GOOGLE_GEMINI_BASE_URL", model),
                ("GEMINI_API_KEY", "none"),
                ("GEMINI_TELEMETRY_ENABLED", "false"),
                ("GEMINI_CLI_NO_RELAUNCH", "true"),
                ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
            ],
            Self::Qwen => vec![
                ("OPENAI_BASE_URL", &v1),
                ("OPENAI_API_KEY", "none"),
                ("OPENAI_MODEL", "scripted-model"),
                ("QWEN_TELEMETRY_ENABLED", "false"),
                ("QWEN_CODE_NO_RELAUNCH", "true"),
            ],
            Self::Copilot => vec![
                ("COPILOT_PROVIDER_BASE_URL", &v1),
                ("COPILOT_PROVIDER_TYPE", "openai"),
                ("COPILOT_PROVIDER_API_KEY", "none"),
                ("COPILOT_MODEL", "gpt-4.1"),
                ("COPILOT_OFFLINE", "true"),
                ("COPILOT_AUTO_UPDATE", "false"),
            ],
            Self::Cline => vec![
                ("CLINE_TELEMETRY_DISABLED", "1"),
                ("CLINE_NO_AUTO_UPDATE", "1"),
                ("CLINE_SESSION_BACKEND_MODE", "local"),
            ],
            Self::OpenCode => vec![
                ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
                ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
                ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
                ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
                ("OPENCODE_DISABLE_SHARE", "1"),
            ],
        };
        let mut variables: Vec<_> = pairs.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        if self == Self::Codex {
            variables.push(("CODEX_HOME", home.join(".codex").display().to_string()));
        }
        variables
    }

    /// Writes what the client's own configuration says whoever its model is: its MCP server, and nothing of ours.
    pub(crate) fn configure(self, place: &Place) {
        let Place { home, project, notes, .. } = place;
        let (program, arguments) = notes.split_first().unwrap();
        let server = json!({ "command": program, "args": arguments, "trust": true });
        match self {
            Self::Claude => {
                write(
                    project.join(".mcp.json"),
                    &json!({ "mcpServers": { "notes": { "command": program, "args": arguments } } }),
                );
            }
            Self::Gemini => write(
                home.join(".gemini/settings.json"),
                &json!({
                    "security": { "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": false } },
                    "general": { "enableAutoUpdate": false },
                    "privacy": { "usageStatisticsEnabled": false },
                    "model": { "name": "gemini-2.5-flash" },
                    "mcpServers": { "notes": server },
                }),
            ),
            Self::Qwen => write(
                home.join(".qwen/settings.json"),
                &json!({
                    "security": { "auth": { "selectedType": "openai" }, "folderTrust": { "enabled": false } },
                    "general": { "enableAutoUpdate": false },
                    "privacy": { "usageStatisticsEnabled": false },
                    "model": { "name": "scripted-model" },
                    "mcpServers": { "notes": server },
                }),
            ),
            Self::Copilot => {
                let servers = json!({ "notes": { "type": "local", "command": program, "args": arguments, "tools": ["*"] } });
                write(home.join(".copilot/mcp-config.json"), &json!({ "mcpServers": servers }));
                write(
                    home.join(".copilot/config.json"),
                    &json!({ "trusted_folders": [project], "banner": "never" }),
                );
            }
            // All of it is in the file that names the model.
            Self::Codex | Self::Cline | Self::OpenCode => {}
        }
    }

    /// Points the client at its model, where that is said in a file.
    pub(crate) fn point(self, place: &Place) {
        let Place { home, project, model, by_variable, notes, .. } = place;
        let (program, arguments) = notes.split_first().unwrap();
        match self {
            Self::Claude | Self::Gemini | Self::Qwen | Self::Copilot => {}
            Self::Codex => {
                let text = format!(
                    "model = \"gpt-5.1-codex\"\nmodel_provider = \"scripted\"\napproval_policy = \"never\"\n\
                     sandbox_mode = \"danger-full-access\"\ncheck_for_update_on_startup = false\n\
                     [analytics]\nenabled = false\n[feedback]\nenabled = false\n\
                     [model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{model}/v1\"\n\
                     env_key = \"SCRIPTED_KEY\"\nwire_api = \"responses\"\nrequest_max_retries = 0\n\
                     stream_max_retries = 0\n[projects.{project:?}]\ntrust_level = \"trusted\"\n\
                     [mcp_servers.notes]\ncommand = {program:?}\nargs = {arguments:?}\n",
                );
                std::fs::create_dir_all(home.join(".codex")).unwrap();
                std::fs::write(home.join(".codex/config.toml"), text).unwrap();
            }
            Self::Cline => {
                let servers =
                    json!({ "notes": { "command": program, "args": arguments, "disabled": false } });
                write(
                    home.join(".cline/data/settings/cline_mcp_settings.json"),
                    &json!({ "mcpServers": servers }),
                );
                let address = format!("{model}/v1");
                let login =
                    ["auth", "-p", "openai-compatible", "-k", "none", "-m", "scripted-model", "-b", &address];
                if let Ok(mut login) = self.command(place, &login) {
                    assert!(login.output().unwrap().status.success(), "`cline auth` failed");
                }
            }
            Self::OpenCode => {
                let folder = home.join(".config/opencode");
                let address =
                    if *by_variable { "{env:OPENAI_BASE_URL}".to_owned() } else { format!("{model}/v1") };
                write(
                    folder.join("opencode.json"),
                    &json!({
                        "autoupdate": false, "share": "disabled", "permission": "allow",
                        "model": "scripted/scripted-model", "small_model": "scripted/scripted-model",
                        "mcp": { "notes": { "type": "local", "command": notes, "enabled": true } },
                        "provider": { "scripted": {
                            "npm": "@ai-sdk/openai-compatible", "name": "Scripted",
                            "options": { "baseURL": address, "apiKey": "none" },
                            "models": { "scripted-model": { "name": "Scripted", "tool_call": true, "limit": { "context": 100_000, "output": 8000 } } },
                        } },
                    }),
                );
                // Without its plugin package, and a lock that names it, it asks the registry at each start.
                for name in ["package.json", "package-lock.json"] {
                    std::fs::copy(place.package.join(name), folder.join(name)).unwrap();
                }
                let modules = folder.join("node_modules");
                if !modules.exists() {
                    std::os::unix::fs::symlink(place.package.join("node_modules"), modules).unwrap();
                }
            }
        }
    }

    /// The option by which it asks its user nothing, beyond [`arguments`](Self::arguments).
    pub(crate) fn bypass(self) -> Option<&'static str> {
        match self {
            Self::Claude => Some("--dangerously-skip-permissions"),
            Self::Codex => Some("--dangerously-bypass-approvals-and-sandbox"),
            Self::Copilot => Some("--allow-all"),
            // Theirs is among the arguments, or in the configuration.
            Self::Gemini | Self::Qwen | Self::Cline | Self::OpenCode => None,
        }
    }

    /// The file of the user's in which our hooks stand, below the home.
    pub(crate) fn installed(self) -> &'static str {
        match self {
            Self::Claude => ".claude/settings.json",
            Self::Codex => ".codex/hooks.json",
            Self::Gemini => ".gemini/settings.json",
            Self::Qwen => ".qwen/settings.json",
            Self::Copilot => ".copilot/hooks/backstop.json",
            Self::Cline => ".cline/hooks/PreToolUse",
            Self::OpenCode => ".config/opencode/plugins/backstop.js",
        }
    }

    /// The variable that moves the client to another folder, the folder that it is instead of, below the home, and what of
    /// that the client can't do without.
    pub(crate) fn moved_by(self) -> (&'static str, &'static str, &'static [&'static str]) {
        match self {
            Self::Claude => ("CLAUDE_CONFIG_DIR", ".claude", &[]),
            Self::Codex => ("CODEX_HOME", ".codex", &["config.toml"]),
            Self::Gemini => ("GEMINI_CLI_HOME", "", &[".gemini/settings.json"]),
            Self::Qwen => ("QWEN_HOME", ".qwen", &["settings.json"]),
            Self::Copilot => ("COPILOT_HOME", ".copilot", &["config.json", "mcp-config.json"]),
            Self::Cline => ("CLINE_DIR", ".cline", &["data"]),
            Self::OpenCode => (
                "XDG_CONFIG_HOME",
                ".config",
                &[
                    "opencode/opencode.json",
                    "opencode/package.json",
                    "opencode/package-lock.json",
                    "opencode/node_modules",
                ],
            ),
        }
    }

    /// A file of a repository that switches the client's hooks off, and what it says, for clients that have such a switch.
    pub(crate) fn switch(self) -> (&'static str, &'static str) {
        match self {
            Self::Codex => (".codex/config.toml", "[features]\nhooks = false\n"),
            Self::Gemini => (".gemini/settings.json", r#"{"hooksConfig": {"enabled": false}}"#),
            Self::Qwen => (".qwen/settings.json", r#"{"disableAllHooks": true}"#),
            _ => (".claude/settings.json", r#"{"disableAllHooks": true}"#),
        }
    }

    /// The files of a project that say which hooks run.
    pub(crate) fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Claude => &[".claude/settings.json", ".claude/settings.local.json"],
            Self::Codex => &[".codex/config.toml", ".codex/hooks.json"],
            Self::Gemini => &[".gemini/settings.json"],
            Self::Qwen => &[".qwen/settings.json"],
            Self::Copilot => &[".github/hooks/quiet.json", ".claude/settings.json"],
            Self::Cline => &[".cline/hooks/PreToolUse", ".clinerules/hooks/PreToolUse"],
            Self::OpenCode => &[".opencode/plugins/other.js", "opencode.json"],
        }
    }

    /// A call that runs `command` in a shell.
    pub(crate) fn exec(self, command: &str) -> Call {
        let described = json!({ "command": command, "description": "follow the plan" });
        match self {
            Self::Claude => Call::new("Bash", described),
            Self::Codex => Call::new("exec_command", json!({ "cmd": command })),
            Self::Gemini => Call::new("run_shell_command", described),
            Self::Qwen => Call::new(
                "run_shell_command",
                json!({ "command": command, "is_background": false, "description": "follow the plan" }),
            ),
            Self::Copilot | Self::OpenCode => Call::new("bash", described),
            Self::Cline => Call::new("run_commands", json!({ "commands": [command] })),
        }
    }

    /// A call of the MCP tool `take_note`.
    pub(crate) fn note(self, text: &str) -> Call {
        let arguments = json!({ "text": text });
        match self {
            Self::Claude => Call::new("mcp__notes__take_note", arguments),
            Self::Codex => Call::within("mcp__notes", "take_note", arguments),
            Self::Gemini => Call::new("mcp_notes_take_note", arguments),
            // Tools of MCP servers are reached through one that is always offered.
            Self::Qwen => {
                Call::new("tool_call", json!({ "name": "mcp__notes__take_note", "arguments": arguments }))
            }
            Self::Copilot => Call::new("notes-take_note", arguments),
            Self::Cline => Call::new("notes__take_note", arguments),
            Self::OpenCode => Call::new("notes_take_note", arguments),
        }
    }

    /// A call that keeps the parent busy while its sub-agent works, where it would not wait by itself.
    pub(crate) fn wait_for_sub_agent(self) -> Option<Call> {
        (self == Self::Codex).then(|| self.exec("sleep 6").after("agent_id"))
    }

    /// A call that starts a sub-agent.
    pub(crate) fn sub_agent(self, task: &str) -> Call {
        match self {
            Self::Claude => Call::new(
                "Agent",
                json!({ "description": "the plan", "prompt": task, "subagent_type": "general-purpose", "run_in_background": false }),
            ),
            Self::Codex => Call::within("multi_agent_v1", "spawn_agent", json!({ "message": task })),
            Self::Gemini => Call::new("invoke_agent", json!({ "agent_name": "generalist", "prompt": task })),
            Self::Qwen => Call::new(
                "agent",
                json!({ "description": "the plan", "prompt": task, "subagent_type": "general-purpose", "run_in_background": false }),
            ),
            Self::Copilot => Call::new(
                "task",
                json!({ "description": "the plan", "prompt": task, "agent_type": "general-purpose", "name": "helper", "mode": "sync" }),
            ),
            Self::Cline => {
                Call::new("spawn_agent", json!({ "systemPrompt": "You are a helper.", "task": task }))
            }
            Self::OpenCode => Call::new(
                "task",
                json!({ "description": "the plan", "prompt": task, "subagent_type": "general" }),
            ),
        }
    }
}

/// What every client has in its environment. All ways out of this machine are closed.
fn surroundings(place: &Place) -> Vec<(&'static str, String)> {
    const NOWHERE: &str = "http://127.0.0.1:9";
    let home = place.home.display().to_string();
    let temp = place.home.with_file_name("temp").display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    vec![
        ("HOME", home),
        ("PATH", path),
        ("TMPDIR", temp),
        ("USER", "tester".to_owned()),
        ("SHELL", "/bin/sh".to_owned()),
        ("LANG", "C.UTF-8".to_owned()),
        ("TERM", "dumb".to_owned()),
        ("CI", "1".to_owned()),
        ("NO_COLOR", "1".to_owned()),
        ("DO_NOT_TRACK", "1".to_owned()),
        ("HTTP_PROXY", NOWHERE.to_owned()),
        ("HTTPS_PROXY", NOWHERE.to_owned()),
        ("NO_PROXY", "127.0.0.1,localhost".to_owned()),
    ]
}

fn write(path: PathBuf, value: &Value) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("{value:#}\n")).unwrap();
}
