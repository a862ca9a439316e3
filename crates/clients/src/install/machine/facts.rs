//! Where each client has a place for the whole machine, what it holds to there, and what slips.

use super::Machine;
use crate::adapter::Evidence;
use crate::client::Client;

/// What is known about a client's place for the whole machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineFacts {
    /// The folder on Linux; `None` for a client without such a place.
    pub linux: Option<&'static str>,
    /// The folder on macOS.
    pub macos: Option<&'static str>,
    /// The folder on Windows, where nothing is written.
    pub windows: Option<&'static str>,
    /// What users and repositories can't take back.
    pub holds: &'static [&'static str],
    /// What goes past it all the same.
    pub slips: &'static [&'static str],
    /// How that is known.
    pub evidence: Evidence,
}

impl MachineFacts {
    /// The folder on such a machine.
    #[must_use]
    pub const fn place(&self, machine: Machine) -> Option<&'static str> {
        match machine {
            Machine::Linux => self.linux,
            Machine::MacOs => self.macos,
        }
    }
}

const NONE: MachineFacts = MachineFacts {
    linux: None,
    macos: None,
    windows: None,
    holds: &[],
    slips: &["it has no place for the whole machine: `backstop install` for each user, or `backstop run`"],
    evidence: Evidence::Documented,
};

/// What is known about the client's place.
#[must_use]
pub const fn machine_facts(client: Client) -> MachineFacts {
    match client {
        Client::Claude => CLAUDE,
        Client::Codex => CODEX,
        Client::Gemini => GEMINI,
        Client::Qwen => QWEN,
        Client::Copilot => COPILOT,
        Client::OpenCode => OPENCODE,
        Client::Cursor => CURSOR,
        Client::Windsurf => WINDSURF,
        Client::Cline | Client::Kiro | Client::Goose | Client::Droid | Client::Devin | Client::Kimi => NONE,
    }
}

const CLAUDE: MachineFacts = MachineFacts {
    linux: Some("/etc/claude-code"),
    macos: Some("/Library/Application Support/ClaudeCode"),
    windows: Some("C:\\Program Files\\ClaudeCode"),
    holds: &[
        "`disableAllHooks` of user, repository and `--settings`",
        "`--bare`, `--safe-mode`, `--setting-sources`, `CLAUDE_CODE_SIMPLE`, `CLAUDE_CODE_SAFE_MODE`, by settings and plugin",
        "`enabledPlugins` of user and repository against the plugin",
        "`CLAUDE_CONFIG_DIR`, `CLAUDE_CODE_MANAGED_SETTINGS_PATH`",
    ],
    slips: &["settings that the vendor's server manages for an organisation come before the file"],
    evidence: Evidence::Live,
};

const CODEX: MachineFacts = MachineFacts {
    linux: Some("/etc/codex"),
    macos: Some("/etc/codex"),
    windows: Some("%ProgramData%\\OpenAI\\Codex"),
    holds: &[
        "`--disable hooks`, `-c features.hooks=false`, `-c hooks={}`, `features.hooks` of user and repository",
        "`--dangerously-bypass-approvals-and-sandbox`",
        "hooks of users and repositories are not run beside ours",
        "no `/hooks` step: managed hooks are trusted",
    ],
    slips: &["requirements that the vendor's cloud sets for a business account come before the file"],
    evidence: Evidence::Live,
};

const GEMINI: MachineFacts = MachineFacts {
    linux: Some("/etc/gemini-cli"),
    macos: Some("/Library/Application Support/GeminiCli"),
    windows: Some("C:\\ProgramData\\gemini-cli"),
    holds: &[
        "`hooksConfig.enabled: false` of user and repository",
        "a folder that is not trusted, where it runs nothing",
    ],
    slips: &[
        "`hooksConfig.disabled` of user or repository with our name in it: the lists of all files are joined",
        "`GEMINI_CLI_SYSTEM_SETTINGS_PATH` moves the file: whoever starts the client with it has no hooks",
    ],
    evidence: Evidence::Live,
};

const QWEN: MachineFacts = MachineFacts {
    linux: Some("/etc/qwen-code"),
    macos: Some("/Library/Application Support/QwenCode"),
    windows: Some("C:\\ProgramData\\qwen-code"),
    holds: &["`disableAllHooks` of user and repository"],
    slips: &[
        "`--bare` and `--safe-mode` start it without hooks",
        "`QWEN_CODE_SYSTEM_SETTINGS_PATH` moves the file: whoever starts the client with it has no hooks",
    ],
    evidence: Evidence::Live,
};

const COPILOT: MachineFacts = MachineFacts {
    linux: Some("/etc/github-copilot/policy.d"),
    macos: Some("/etc/github-copilot/policy.d"),
    windows: Some("C:\\ProgramData\\GitHub\\Copilot\\policy.d"),
    holds: &["`disableAllHooks` of user and repository, `-p`, `COPILOT_ALLOW_ALL`", "`COPILOT_HOME`"],
    slips: &[
        "a file that its group or others may write is passed over without a word; `doctor --system` looks",
    ],
    evidence: Evidence::Live,
};

const OPENCODE: MachineFacts = MachineFacts {
    linux: Some("/etc/opencode"),
    macos: Some("/Library/Application Support/opencode"),
    windows: Some("%ProgramData%\\opencode"),
    holds: &["a list of plugins of user or repository"],
    slips: &[
        "`--pure` and `OPENCODE_PURE` start it without plugins",
        "`OPENCODE_TEST_MANAGED_CONFIG_DIR` moves the folder",
    ],
    evidence: Evidence::Live,
};

const CURSOR: MachineFacts = MachineFacts {
    linux: Some("/etc/cursor"),
    macos: Some("/Library/Application Support/Cursor"),
    windows: Some("C:\\ProgramData\\Cursor"),
    holds: &["no switch of users or repositories is known"],
    slips: &["its cloud agents read no file of this machine"],
    evidence: Evidence::Documented,
};

const WINDSURF: MachineFacts = MachineFacts {
    linux: Some("/etc/windsurf"),
    macos: Some("/Library/Application Support/Windsurf"),
    windows: Some("C:\\ProgramData\\Windsurf"),
    holds: &["no switch of users or repositories is known"],
    slips: &["it waits for no answer but an exit code, and nothing is rewritten"],
    evidence: Evidence::Documented,
};
