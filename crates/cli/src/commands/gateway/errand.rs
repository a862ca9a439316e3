//! Starts of a program that ask no model: it says its version or its help, or a client keeps its own house.
//!
//! A run without one request is told loudly, so this is a list of what is known: whole commands, since what stands beside
//! a harmless one may ask a model (`claude auto-mode critique`), serve one (`claude mcp serve`) or start anything
//! (`codex sandbox`). Only a program that is asked what it is, and nothing else, runs where it could not be pointed.

use std::ffi::OsString;

use backstop::clients::Client;

/// What every program takes for a question about itself.
const OF_ALL: [&str; 2] = ["--version", "--help"];

/// What a program is started for, where that asks no model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// It is asked what it is, and nothing else.
    Question,
    /// It shows help, or keeps its own house.
    House,
}

impl Errand {
    /// What `client`, or a program that is none, is started for with these arguments; `None` where that may ask a model.
    pub(super) fn of(client: Option<Client>, arguments: &[OsString]) -> Option<Self> {
        let words = arguments.iter().map_while(|word| word.to_str()).take_while(|word| *word != "--");
        let words: Vec<&str> = words.collect();
        let last = words.last().filter(|_| words.len() == arguments.len());
        let is_alone = arguments.len() == 1;
        let asks_itself = last.is_some_and(|last| OF_ALL.contains(last));
        if is_alone && asks_itself {
            return Some(Self::Question);
        }
        // Behind an option, the last word may be the value of that.
        let has_options = words.iter().rev().skip(1).any(|word| word.starts_with('-'));
        let is_house = |client| {
            let mut commands = SERVERS.iter().chain(house(client));
            let is_short = is_alone && last.is_some_and(|last| short(client).contains(last));
            is_short || commands.any(|command| begins(&words, command))
        };
        ((asks_itself && !has_options) || client.is_some_and(is_house)).then_some(Self::House)
    }
}

/// Whether the first words are those of a command.
fn begins(words: &[&str], command: &str) -> bool {
    let mut words = words.iter();
    command.split(' ').all(|word| words.next() == Some(&word))
}

/// Short options by which a client says its version or its help.
const fn short(client: Client) -> &'static [&'static str] {
    match client {
        // Its `-v` has it say more while it works.
        Client::Cline => &["-V", "-h"],
        _ => &["-v", "-V", "-h"],
    }
}

/// What is done with the list of tool servers, the same in each client that has one.
const SERVERS: [&str; 4] = ["mcp list", "mcp add", "mcp get", "mcp remove"];

/// The commands of a client by which it asks no model, as its help lists them; of those that were not tried, the ones that
/// mean the same everywhere.
const fn house(client: Client) -> &'static [&'static str] {
    match client {
        Client::Claude => &[
            "auth login",
            "auth logout",
            "auth status",
            "auto-mode config",
            "auto-mode defaults",
            "doctor",
            "install",
            "mcp add-from-claude-desktop",
            "mcp add-json",
            "mcp reset-project-choices",
            "plugin disable",
            "plugin enable",
            "plugin install",
            "plugin list",
            "plugin marketplace",
            "plugin uninstall",
            "plugin update",
            "plugin validate",
            "setup-token",
            "update",
            "upgrade",
        ],
        Client::Codex => &[
            "login",
            "logout",
            "mcp login",
            "mcp logout",
            "plugin add",
            "plugin list",
            "plugin marketplace",
            "plugin remove",
            "completion",
            "update",
            "doctor",
            "apply",
            "a",
            "archive",
            "delete",
            "unarchive",
            "migrate-rollouts",
            "migrate-nfs-db",
            "features list",
            "features enable",
            "features disable",
            "help",
        ],
        Client::Gemini => &[
            "mcp enable",
            "mcp disable",
            "extensions install",
            "extensions uninstall",
            "extensions list",
            "extensions update",
            "extensions disable",
            "extensions enable",
            "extensions link",
            "extensions new",
            "extensions validate",
            "extensions config",
            "skills list",
            "skills enable",
            "skills disable",
            "skills install",
            "skills link",
            "skills uninstall",
            "hooks migrate",
        ],
        Client::Qwen => &[
            "mcp reconnect",
            "mcp approve",
            "mcp reject",
            "extensions install",
            "extensions uninstall",
            "extensions list",
            "extensions update",
            "extensions disable",
            "extensions enable",
            "extensions link",
            "extensions new",
            "extensions settings",
            "extensions sources",
            "sessions list",
            "sessions ps",
            "update",
        ],
        Client::Copilot => &[
            "login",
            "help",
            "update",
            "version",
            "plugin install",
            "plugin uninstall",
            "plugin update",
            "plugin list",
            "plugin enable",
            "plugin disable",
            "plugin marketplace",
            "mcp enable",
            "mcp disable",
            "skill list",
            "skill add",
            "skill remove",
            "skill enable",
            "skill disable",
            "completion",
        ],
        Client::Cline => &[
            "auth",
            "config",
            "plugin install",
            "plugin i",
            "plugin uninstall",
            "plugin remove",
            "mcp install",
            "mcp uninstall",
            "doctor",
            "history delete",
            "history update",
            "history export",
            "update",
            "version",
        ],
        Client::OpenCode => &[
            "completion",
            "auth list",
            "auth login",
            "auth logout",
            "providers list",
            "providers login",
            "providers logout",
            "upgrade",
            "uninstall",
            "models",
            "stats",
            "export",
            "import",
            "session list",
            "session delete",
        ],
        _ => &["login", "logout", "configure", "doctor", "update", "version", "help", "completion"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(client: Option<Client>, words: &str) -> Option<Errand> {
        Errand::of(client, &words.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn an_interpreters_options_are_no_question_about_itself() {
        for words in [
            "-v agent.py",
            "-V agent.py",
            "-h",
            "-v",
            "-m pip version",
            "help",
            "config",
            "mcp",
            "auth",
            "mcp list",
            "",
        ] {
            assert_eq!(of(None, words), None, "{words}");
        }
        for words in ["--version agent.py", "agent.py -- --version", "-- --help", "--help x"] {
            assert_eq!(of(None, words), None, "{words}");
        }
        for words in ["--version", "--help"] {
            assert_eq!(of(None, words), Some(Errand::Question), "{words}");
        }
        assert_eq!(of(None, "agent.py --help"), Some(Errand::House));
    }

    #[test]
    fn the_value_of_an_option_is_no_question() {
        for client in Client::ALL.map(Some).into_iter().chain([None]) {
            for words in
                ["-p hi --append-system-prompt --help", "--prompt --version", "-m x --help", "-u --version"]
            {
                assert_eq!(of(client, words), None, "{client:?} {words}");
            }
        }
    }

    #[test]
    fn every_client_says_its_version_without_a_model_and_works_with_one() {
        for client in Client::ALL {
            for words in ["--version", "--help"] {
                assert_eq!(of(Some(client), words), Some(Errand::Question), "{client} {words}");
            }
            for words in ["mcp --help", "mcp list", "mcp remove x", "mcp add x -- npx y"] {
                assert_eq!(of(Some(client), words), Some(Errand::House), "{client} {words}");
            }
            for words in ["", "-p hi", "run hi", "exec hi", "hi", "-- --version", "-v -p hi", "-p mcp"] {
                assert_eq!(of(Some(client), words), None, "{client} {words}");
            }
            // What keeps a server, or says what its help has not, may ask a model.
            for words in
                ["mcp", "mcp serve", "mcp developer", "debug", "sandbox", "sandbox true", "auto-mode"]
            {
                assert_eq!(of(Some(client), words), None, "{client} {words}");
            }
        }
        assert_eq!(of(Some(Client::Claude), "-v"), Some(Errand::House));
        assert_eq!(of(Some(Client::Cline), "-v"), None);
        assert_eq!(of(Some(Client::Gemini), "help me"), None);
        assert_eq!(of(Some(Client::Claude), "auto-mode critique"), None);
        assert_eq!(of(Some(Client::Claude), "auto-mode defaults"), Some(Errand::House));
        assert_eq!(of(Some(Client::Codex), "debug app-server send-message-v2 hi"), None);
    }
}
