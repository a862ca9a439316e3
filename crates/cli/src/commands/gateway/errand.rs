//! Starts of a program that ask no model: it says its version or its help, or a client keeps its own house.
//!
//! A run without one request is told loudly, so this is a list of what is known. Of a program that nobody knows only two
//! whole words are: `python -v agent.py` begins with what is a version elsewhere, and runs an agent.

use std::ffi::OsString;

use backstop::clients::Client;

/// What every program takes for a question about itself.
const OF_ALL: &[&str] = &["--version", "--help"];

/// Whether `client`, or a program that is none, asks no model when it is started with these arguments.
pub(super) fn is_errand(client: Option<Client>, arguments: &[OsString]) -> bool {
    let words = || arguments.iter().map_while(|word| word.to_str()).take_while(|word| *word != "--");
    let is_whole = words().count() == arguments.len();
    let of_all = words().last().filter(|_| is_whole).is_some_and(|last| OF_ALL.contains(&last));
    let Some(client) = client else { return of_all };
    let (Some(first), is_alone) = (words().next(), arguments.len() == 1) else { return of_all };
    of_all || (is_alone && short(client).contains(&first)) || house(client).contains(&first)
}

/// Short options by which a client says its version or its help.
const fn short(client: Client) -> &'static [&'static str] {
    match client {
        // Its `-v` has it say more while it works.
        Client::Cline => &["-V", "-h"],
        _ => &["-v", "-V", "-h"],
    }
}

/// The commands of a client by which it asks no model, as its help lists them; of those that were not tried, the ones that
/// mean the same everywhere.
const fn house(client: Client) -> &'static [&'static str] {
    match client {
        Client::Claude => &[
            "auth",
            "auto-mode",
            "config",
            "doctor",
            "import",
            "install",
            "logs",
            "mcp",
            "plugin",
            "plugins",
            "purge",
            "rm",
            "setup-token",
            "stop",
            "kill",
            "update",
            "upgrade",
        ],
        Client::Codex => &[
            "login",
            "logout",
            "mcp",
            "plugin",
            "completion",
            "update",
            "doctor",
            "sandbox",
            "debug",
            "apply",
            "a",
            "archive",
            "delete",
            "unarchive",
            "migrate-rollouts",
            "migrate-nfs-db",
            "features",
            "help",
        ],
        Client::Gemini => &["mcp", "extensions", "extension", "skills", "skill", "hooks", "hook"],
        Client::Qwen => &["auth", "extensions", "hooks", "mcp", "sandbox", "sessions", "update"],
        Client::Copilot => &[
            "login",
            "help",
            "config",
            "update",
            "version",
            "sessions",
            "memories",
            "plugin",
            "mcp",
            "skill",
            "instruction",
            "lsp",
            "sandbox",
            "completion",
        ],
        Client::Cline => &[
            "auth", "config", "plugin", "skill", "mcp", "doctor", "history", "h", "hook", "update", "version",
        ],
        Client::OpenCode => &[
            "completion",
            "mcp",
            "providers",
            "auth",
            "upgrade",
            "uninstall",
            "models",
            "stats",
            "export",
            "import",
            "session",
            "plugin",
            "plug",
            "db",
        ],
        _ => &[
            "login",
            "logout",
            "auth",
            "mcp",
            "config",
            "configure",
            "doctor",
            "update",
            "version",
            "help",
            "completion",
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(client: Option<Client>, words: &str) -> bool {
        is_errand(client, &words.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn an_interpreters_options_are_no_question_about_itself() {
        for words in
            ["-v agent.py", "-V agent.py", "-h", "-v", "-m pip version", "help", "config", "mcp", "auth", ""]
        {
            assert!(!is(None, words), "{words}");
        }
        for words in ["--version", "--help", "-u --version", "agent.py --help"] {
            assert!(is(None, words), "{words}");
        }
        for words in ["--version agent.py", "agent.py -- --version", "-- --help", "--help x"] {
            assert!(!is(None, words), "{words}");
        }
    }

    #[test]
    fn every_client_says_its_version_without_a_model_and_works_with_one() {
        for client in Client::ALL {
            for words in ["--version", "--help", "mcp --help"] {
                assert!(is(Some(client), words), "{client} {words}");
            }
            for words in ["", "-p hi", "run hi", "exec hi", "hi", "-- --version", "-v -p hi", "-p mcp"] {
                assert!(!is(Some(client), words), "{client} {words}");
            }
        }
        assert!(is(Some(Client::Claude), "-v") && !is(Some(Client::Cline), "-v"));
        assert!(is(Some(Client::Codex), "mcp list") && !is(Some(Client::Gemini), "help me"));
    }
}
