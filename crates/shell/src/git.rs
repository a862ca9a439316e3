//! Programs that git runs: hooks, aliases, pagers, and those of the subcommands that exist to run programs.

use super::data::Data;
use super::git_settings::GitSetting;
use super::launch::option_after;
use super::walk::Shell;
use crate::options::Options;

impl Shell<'_> {
    /// Returns the programs that git is told to run: by its environment, and by subcommands made for it.
    pub(super) fn git_programs(&self, args: &[&str]) -> Vec<String> {
        const VARIABLES: [&str; 8] = [
            "GIT_PAGER",
            "GIT_EDITOR",
            "GIT_SEQUENCE_EDITOR",
            "GIT_SSH_COMMAND",
            "GIT_EXTERNAL_DIFF",
            "GIT_PROXY_COMMAND",
            "GIT_ASKPASS",
            "PAGER",
        ];
        let mut texts: Vec<String> = VARIABLES
            .iter()
            .map(|name| self.environment_of(name))
            .filter(|value| value.contains([' ', ';', '|']))
            .collect();
        let globals = Options::parse(args, self.programs.takes("git").until_operand());
        let Some((sub, rest)) = args.get(globals.consumed..).and_then(<[&str]>::split_first) else {
            return texts;
        };
        match *sub {
            "bisect" if rest.first() == Some(&"run") => {
                texts.push(quoted(rest.get(1..).unwrap_or_default()));
            }
            "rebase" => texts.extend(option_after(rest, &["-x", "--exec"])),
            "submodule" => {
                if let Some(at) = rest.iter().position(|arg| *arg == "foreach") {
                    let words: Vec<&str> = rest
                        .get(at + 1..)
                        .unwrap_or_default()
                        .iter()
                        .copied()
                        .skip_while(|arg| arg.starts_with('-'))
                        .collect();
                    texts.push(words.join(" "));
                }
            }
            "filter-branch" => texts.extend(rest.windows(2).filter_map(|pair| match pair {
                [flag, text] if flag.ends_with("-filter") => Some((*text).to_owned()),
                _ => None,
            })),
            "difftool" | "mergetool" => texts.extend(option_after(rest, &["-x", "--extcmd"])),
            "grep" => texts.extend(
                rest.iter()
                    .filter_map(|arg| {
                        arg.strip_prefix("-O").or_else(|| arg.strip_prefix("--open-files-in-pager="))
                    })
                    .filter(|text| !text.is_empty())
                    .map(str::to_owned),
            ),
            "clone" | "fetch" | "pull" | "ls-remote" | "remote" | "push" | "submodule--helper" => {
                texts.extend(rest.iter().filter_map(|arg| arg.strip_prefix("ext::")).map(str::to_owned));
                texts.extend(
                    option_after(rest, &["-u", "--upload-pack", "--receive-pack"])
                        .into_iter()
                        .filter(|text| text.contains([' ', ';', '|', '/'])),
                );
            }
            "config" => texts.extend(
                rest.iter()
                    .filter_map(|arg| arg.strip_prefix('!'))
                    .filter(|_| rest.iter().any(|arg| arg.to_ascii_lowercase().starts_with("alias.")))
                    .map(str::to_owned),
            ),
            _ => {}
        }
        texts
    }

    /// Aliases and commands in git's configuration given on the command line or in the environment.
    pub(super) fn git_hooks(&mut self, args: &[&str], process: usize) {
        let settings = crate::git_settings::settings(args, &self.process_environment());
        let globals = Options::parse(args, self.programs.takes("git").until_operand());
        let at = globals.consumed + 1;
        let sub = args.get(globals.consumed).copied().unwrap_or_default();
        for GitSetting { key, value } in settings {
            let used = key.strip_prefix("alias.").is_some_and(|name| name == sub);
            let text = match value.strip_prefix('!') {
                Some(text) if key.starts_with("alias.") => text.to_owned(),
                None if used => format!(
                    "git {value} {}",
                    args.get(at..)
                        .unwrap_or_default()
                        .iter()
                        .map(|arg| super::carrier::quote(arg))
                        .collect::<Vec<_>>()
                        .join(" ")
                ),
                Some(text) if is_command(&key) => text.to_owned(),
                None if is_command(&key) && value.contains(' ') => value,
                _ => continue,
            };
            self.in_subshell(|shell| shell.run_code(&Data::text(&text), &[], Some(process), "git"));
        }
    }
}

/// Returns whether a shell of git's runs the value of this setting; the last part of the key says so, whatever it is the
/// setting of.
fn is_command(key: &str) -> bool {
    const LAST: [&str; 23] = [
        "alternaterefscommand",
        "askpass",
        "cccmd",
        "clean",
        "cmd",
        "command",
        "difffilter",
        "driver",
        "editor",
        "external",
        "fsmonitor",
        "gitproxy",
        "helper",
        "packobjectshook",
        "pager",
        "process",
        "program",
        "receivepack",
        "smudge",
        "sshcommand",
        "textconv",
        "tocmd",
        "uploadpack",
    ];
    key.starts_with("pager.") || key.rsplit('.').next().is_some_and(|last| LAST.contains(&last))
}

/// An argument vector as shell text.
fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| super::carrier::quote(word)).collect::<Vec<_>>().join(" ")
}
