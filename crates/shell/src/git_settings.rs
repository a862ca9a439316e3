//! Git settings that a command line or the environment passes, or stores in one of git's files.
//!
//! Many settings name a program that git starts, now or at a later command (git-config(1), git(1) `-c`,
//! `--config-env`, `GIT_CONFIG_KEY_<n>`). They are read in one place, so that a question about a setting covers every
//! way to set it. An unknown part of a key or a value is a hole.

use crate::marks::HOLE;

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitSetting {
    /// Its key, in small letters: `core.pager`, `remote.origin.url`.
    pub key: String,
    /// Its value.
    pub value: String,
}

impl GitSetting {
    fn new(key: &str, value: impl Into<String>) -> Self {
        Self { key: key.to_lowercase(), value: value.into() }
    }

    /// `KEY=VALUE`; a key alone is switched on.
    fn pair(text: &str) -> Self {
        let (key, value) = text.split_once('=').unwrap_or((text, "true"));
        Self::new(key, value)
    }
}

/// Options of git itself that take the next word.
const TAKE_A_WORD: [&str; 6] =
    ["-C", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--attr-source"];

/// Returns the settings in the arguments of git, without its name, and in its environment.
pub fn settings(args: &[&str], environment: &[(String, String)]) -> Vec<GitSetting> {
    let mut found = of_environment(environment);
    let mut args = args.iter().copied();
    while let Some(arg) = args.next() {
        match arg {
            "-c" => found.extend(args.next().map(GitSetting::pair)),
            "--config-env" => found.extend(args.next().map(|pair| of_variable(pair, environment))),
            _ if TAKE_A_WORD.contains(&arg) => {
                args.next();
            }
            _ if let Some(pair) = arg.strip_prefix("--config-env=") => {
                found.push(of_variable(pair, environment));
            }
            _ if arg.starts_with("--") => {}
            _ if let Some(pair) = arg.strip_prefix("-c") => found.push(GitSetting::pair(pair)),
            _ if arg.starts_with('-') => {}
            subcommand => {
                let rest: Vec<&str> = args.collect();
                match subcommand {
                    "config" => found.extend(stored(&rest)),
                    "clone" | "init" => found.extend(of_new_repository(&rest)),
                    _ => {}
                }
                break;
            }
        }
    }
    found
}

/// `GIT_CONFIG_KEY_<n>` with `GIT_CONFIG_VALUE_<n>`, and the folder that new repositories are copies of.
fn of_environment(environment: &[(String, String)]) -> Vec<GitSetting> {
    let value_of =
        |wanted: &str| environment.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let keys =
        environment.iter().filter_map(|(name, key)| Some((name.strip_prefix("GIT_CONFIG_KEY_")?, key)));
    let mut found: Vec<GitSetting> = keys
        .map(|(number, key)| {
            GitSetting::new(key, value_of(&format!("GIT_CONFIG_VALUE_{number}")).unwrap_or_default())
        })
        .collect();
    found.extend(value_of("GIT_TEMPLATE_DIR").map(|folder| GitSetting::new("init.templatedir", folder)));
    found
}

/// `KEY=VARIABLE`: the value is whatever the variable holds.
fn of_variable(pair: &str, environment: &[(String, String)]) -> GitSetting {
    let (key, variable) = pair.split_once('=').unwrap_or((pair, ""));
    let value = environment.iter().find(|(name, _)| name == variable).map(|(_, value)| value.clone());
    GitSetting::new(key, value.unwrap_or_else(|| HOLE.to_string()))
}

/// Returns what `git config` stores; nothing where it reads or takes away.
fn stored(args: &[&str]) -> Option<GitSetting> {
    const VALUES: [&str; 9] =
        ["-f", "--file", "--blob", "-t", "--type", "--default", "--comment", "--value", "--url"];
    const READS: [&str; 9] = [
        "--get",
        "--get-all",
        "--get-regexp",
        "--get-urlmatch",
        "--get-color",
        "--get-colorbool",
        "--list",
        "-l",
        "--name-only",
    ];
    const TAKES_AWAY: [&str; 3] = ["--unset", "--unset-all", "--remove-section"];
    let mut operands = Vec::new();
    let mut words = args.iter().copied();
    let mut only_operands = false;
    while let Some(word) = words.next() {
        match word {
            _ if only_operands || !word.starts_with('-') || word == "-" => operands.push(word),
            "--" => only_operands = true,
            _ if READS.contains(&word) || TAKES_AWAY.contains(&word) => return None,
            _ if VALUES.contains(&word) => {
                words.next();
            }
            _ => {}
        }
    }
    let renames = args.contains(&"--rename-section");
    match operands.as_slice() {
        ["get" | "list" | "unset" | "remove-section" | "edit", ..] if !renames => None,
        ["rename-section", _, section] => Some(GitSetting::new(&format!("{section}.{HOLE}"), HOLE)),
        [_, section, ..] if renames => Some(GitSetting::new(&format!("{section}.{HOLE}"), HOLE)),
        ["set", key, value, ..] | [key, value, ..] => Some(GitSetting::new(key, *value)),
        _ => None,
    }
}

/// `--config KEY=VALUE` and `--template FOLDER` of `git clone` and `git init`.
fn of_new_repository(args: &[&str]) -> Vec<GitSetting> {
    let mut found = Vec::new();
    let mut words = args.iter().copied();
    while let Some(word) = words.next() {
        match word {
            "-c" | "--config" => found.extend(words.next().map(GitSetting::pair)),
            "--template" => {
                found.extend(words.next().map(|folder| GitSetting::new("init.templatedir", folder)));
            }
            _ if let Some(pair) = word.strip_prefix("--config=") => found.push(GitSetting::pair(pair)),
            _ if let Some(folder) = word.strip_prefix("--template=") => {
                found.push(GitSetting::new("init.templatedir", folder));
            }
            _ if !word.starts_with("--")
                && let Some(pair) = word.strip_prefix("-c") =>
            {
                found.push(GitSetting::pair(pair));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(command: &str) -> Vec<(String, String)> {
        let words: Vec<&str> = command.split(' ').collect();
        settings(&words, &[]).into_iter().map(|setting| (setting.key, setting.value)).collect()
    }

    #[test]
    fn every_way_to_make_a_setting_is_read() {
        let pager = vec![("core.pager".to_owned(), "x".to_owned())];
        for command in [
            "-c core.pager=x log",
            "-ccore.pager=x log",
            "-C /a -c Core.Pager=x log",
            "config core.pager x",
            "config --global core.pager x",
            "config -f a.cfg core.pager x",
            "config set core.pager x",
            "config set --append core.pager x",
            "config --add core.pager x",
            "config --replace-all core.pager x ^y",
            "config --type path core.pager x",
            "clone -c core.pager=x https://a.example/b",
            "clone --config core.pager=x https://a.example/b",
            "clone --config=core.pager=x https://a.example/b",
        ] {
            assert_eq!(found(command), pager, "{command}");
        }
        for command in
            ["clone --template=t https://a.example/b", "init --template t", "-c init.templateDir=t init"]
        {
            assert_eq!(found(command), [("init.templatedir".to_owned(), "t".to_owned())], "{command}");
        }
        assert_eq!(found("--config-env=core.pager=P log"), [("core.pager".to_owned(), HOLE.to_string())]);
        assert_eq!(found("config --rename-section user core"), [(format!("core.{HOLE}"), HOLE.to_string())]);
        assert_eq!(found("-c core.bare log"), [("core.bare".to_owned(), "true".to_owned())]);
    }

    #[test]
    fn the_environment_makes_settings_of_any_number() {
        let environment =
            [("GIT_CONFIG_KEY_12", "core.pager"), ("GIT_CONFIG_VALUE_12", "x"), ("GIT_TEMPLATE_DIR", "t")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let found = settings(&["log"], &environment);
        assert_eq!(found, [GitSetting::new("core.pager", "x"), GitSetting::new("init.templatedir", "t")]);
    }

    #[test]
    fn who_reads_or_takes_away_sets_nothing() {
        for command in [
            "config core.pager",
            "config --get core.pager x",
            "config get core.pager",
            "config --unset core.pager x",
            "config unset core.pager",
            "config --list",
            "log -c",
            "commit -c HEAD",
        ] {
            assert_eq!(found(command), [], "{command}");
        }
    }
}
