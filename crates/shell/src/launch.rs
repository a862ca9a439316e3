//! Options and settings with which programs that are no wrappers still run other programs: pagers, hooks,
//! aliases, checkpoint actions, makefiles.

use super::code::Languages;
use super::data::{Data, Taint};
use super::project;
use super::trace::Fact;
use super::walk::Shell;
use crate::options::Options;

impl Shell<'_> {
    /// Options with which programs run other programs.
    pub(super) fn hooks(&mut self, program: &str, args: &[&str], stdin: &Data, process: usize) {
        let mut texts: Vec<String> = self
            .environment
            .iter()
            .filter(|(name, value)| PROGRAM_VARIABLES.contains(&name.as_str()) && value.contains([' ', ';']))
            .map(|(_, value)| value.trim_start_matches('|').to_owned())
            .collect();
        match program {
            "tar" | "gtar" | "bsdtar" => {
                let options = Options::parse(args, self.programs.takes("tar"));
                for long in [
                    "checkpoint-action",
                    "to-command",
                    "info-script",
                    "new-volume-script",
                    "use-compress-program",
                    "rsh-command",
                ] {
                    let short = match long {
                        "use-compress-program" => Some('I'),
                        "info-script" => Some('F'),
                        _ => None,
                    };
                    for value in options.values(short, long) {
                        texts.push(value.strip_prefix("exec=").unwrap_or(value).to_owned());
                    }
                }
            }
            "rsync" => {
                let options = Options::parse(args, self.programs.takes("rsync"));
                texts.extend(
                    options
                        .values(Some('e'), "rsh")
                        .chain(options.values(None, "rsync-path"))
                        .filter(|v| v.contains(' '))
                        .map(str::to_owned),
                );
            }
            "git" => {
                self.git_hooks(args, process);
                texts.extend(self.git_programs(args));
            }
            "zip" => texts.extend(option_after(args, &["-TT", "--unzip-command"])),
            "vim" | "vi" | "nvim" | "view" | "ex" | "rvim" | "gvim" => {
                for text in args
                    .windows(2)
                    .filter(|pair| matches!(pair.first(), Some(&"-c" | &"--cmd")))
                    .filter_map(|pair| pair.get(1))
                    .copied()
                    .chain(args.iter().filter_map(|arg| arg.strip_prefix('+')))
                {
                    let text = text.trim_start_matches(':');
                    let text = ["silent! ", "silent ", "sil! ", "sil "]
                        .iter()
                        .find_map(|quiet| text.strip_prefix(quiet))
                        .unwrap_or(text);
                    if let Some(shell) = text.strip_prefix('!') {
                        texts.push(shell.to_owned());
                    } else if text.contains("system(") || EDITOR_LANGUAGES.iter().any(|l| text.starts_with(l))
                    {
                        self.code(text, Languages::built_in().any(), process, 0);
                    }
                }
            }
            "make" | "gmake" | "just" => {
                let options = Options::parse(args, self.programs.takes("make"));
                let rules = match options.value(Some('f'), "file").or(options.value(None, "makefile")) {
                    Some("-" | "/dev/stdin") => Some(stdin.clone()),
                    Some(file) => Some(self.content_of(file)),
                    None => {
                        let folder = options.value(Some('C'), "directory").unwrap_or(".");
                        Some(self.content_of(&format!("{folder}/Makefile")))
                    }
                };
                if rules.as_ref().is_some_and(|rules| rules.taint.has(Taint::FETCHED)) {
                    self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::FETCHED });
                }
                // A variable of the command line is a command in most makefiles.
                texts.extend(
                    args.iter()
                        .filter_map(|arg| arg.split_once('='))
                        .filter(|(name, value)| !name.starts_with('-') && value.contains([' ', ';', '|']))
                        .map(|(_, value)| value.to_owned()),
                );
                if let Some(text) = rules.as_ref().and_then(Data::marked) {
                    texts.extend(project::recipes(text, &options.operands));
                }
                for text in args
                    .iter()
                    .filter_map(|arg| arg.strip_prefix("--eval="))
                    .map(str::to_owned)
                    .chain(option_after(args, &["--eval", "-E"]))
                {
                    texts.extend(
                        text.split("$(shell ")
                            .skip(1)
                            .filter_map(|rest| rest.rsplit_once(')').map(|(code, _)| code.to_owned())),
                    );
                    texts.extend(text.split(['\t', ';']).skip(1).map(str::to_owned));
                }
            }
            "npm" | "pnpm" | "yarn" | "bun" => {
                let package = self.content_of("package.json");
                texts.extend(
                    package.exact().into_iter().flat_map(|text| project::scripts(text, program, args)),
                );
            }
            "man" => texts.extend(option_after(args, &["-P", "--pager", "-H"])),
            "rg" => texts.extend(option_after(args, &["--hostname-bin"])),
            "less" => texts.extend(args.iter().filter_map(|arg| arg.strip_prefix("+!")).map(str::to_owned)),
            "mysql" | "mariadb" => {
                texts.extend(option_after(args, &["-e", "--execute"]).iter().filter_map(|sql| {
                    let sql = sql.trim();
                    sql.strip_prefix("\\!").or_else(|| sql.strip_prefix("system ")).map(str::to_owned)
                }));
            }
            "psql" => texts.extend(option_after(args, &["-c", "--command"]).into_iter().filter_map(|sql| {
                let sql = sql.trim();
                let program = || {
                    let (_, rest) = sql.split_once("PROGRAM").or_else(|| sql.split_once("program"))?;
                    let text = rest.trim().trim_start_matches('\'');
                    Some(text.rsplit_once('\'').map_or(text, |(text, _)| text))
                };
                sql.strip_prefix("\\!").or_else(program).map(str::to_owned)
            })),
            "sqlite3" => texts.extend(
                args.iter()
                    .filter_map(|arg| arg.strip_prefix(".shell ").or_else(|| arg.strip_prefix(".system ")))
                    .map(str::to_owned),
            ),
            "gdb" | "lldb" => {
                for code in option_after(args, &["-ex", "--eval-command", "-o"]) {
                    if let Some(code) = code.strip_prefix("python ").or_else(|| code.strip_prefix("script "))
                    {
                        self.code(code, Languages::built_in().of_program("python"), process, 0);
                    }
                }
                texts.extend(option_after(args, &["-ex", "--eval-command", "-o"]).into_iter().filter_map(
                    |c| c.strip_prefix("shell ").or_else(|| c.strip_prefix('!')).map(str::to_owned),
                ));
            }
            "tcpdump" => texts.extend(option_after(args, &["-z"])),
            "ed" | "red" => texts.extend(
                stdin
                    .marked()
                    .into_iter()
                    .flat_map(str::lines)
                    .filter_map(|line| line.trim_start().strip_prefix('!').map(str::to_owned)),
            ),
            "nmap" => {
                if let Some(text) = args.iter().find(|arg| arg.contains("os.execute")) {
                    texts.push((*text).to_owned());
                }
            }
            "expect" | "tclsh" | "wish" => {
                for code in option_after(args, &["-c"]).into_iter().chain(stdin.marked().map(str::to_owned)) {
                    texts.extend(code.split([';', '\n']).filter_map(|line| {
                        line.trim()
                            .strip_prefix("exec ")
                            .or_else(|| line.trim().strip_prefix("spawn "))
                            .map(str::to_owned)
                    }));
                }
            }
            _ => {}
        }
        for text in texts {
            let data = Data::text(&text);
            self.in_subshell(|shell| shell.run_code(&data, &[], Some(process), program));
        }
    }

    /// The programs that git is told to run: by its environment, and by subcommands made for it.
    fn git_programs(&self, args: &[&str]) -> Vec<String> {
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
    fn git_hooks(&mut self, args: &[&str], process: usize) {
        let mut settings: Vec<(String, String)> = Vec::new();
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            at += 1;
            let pair = match *arg {
                "-c" => {
                    at += 1;
                    args.get(at - 1).copied()
                }
                "-C" | "--git-dir" | "--work-tree" | "--namespace" | "--config-env" => {
                    at += 1;
                    None
                }
                _ if arg.starts_with("-c") => arg.get(2..),
                _ if arg.starts_with('-') => None,
                _ => break,
            };
            if let Some((key, value)) = pair.and_then(|pair| pair.split_once('=')) {
                settings.push((key.to_lowercase(), value.to_owned()));
            }
        }
        for index in 0..8 {
            let key = self.environment_of(&format!("GIT_CONFIG_KEY_{index}"));
            if key.is_empty() {
                break;
            }
            let value = self.environment_of(&format!("GIT_CONFIG_VALUE_{index}"));
            settings.push((key.to_lowercase(), value));
        }
        let sub = args
            .get(at - usize::from(at > 0 && args.get(at - 1).is_some_and(|arg| !arg.starts_with('-'))))
            .copied()
            .unwrap_or_default();
        for (key, value) in settings {
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
                None if matches!(
                    key.as_str(),
                    "core.pager"
                        | "core.editor"
                        | "core.fsmonitor"
                        | "core.sshcommand"
                        | "diff.external"
                        | "credential.helper"
                ) && value.contains(' ') =>
                {
                    value
                }
                _ => continue,
            };
            self.in_subshell(|shell| shell.run_code(&Data::text(&text), &[], Some(process), "git"));
        }
    }
}

/// Variables that name a program which others start.
const PROGRAM_VARIABLES: &[&str] =
    &["PAGER", "MANPAGER", "SYSTEMD_PAGER", "EDITOR", "VISUAL", "SUDO_EDITOR", "BROWSER", "LESSOPEN"];

/// Commands of editors behind which code of another language stands.
const EDITOR_LANGUAGES: &[&str] =
    &["py", "python", "python3", "pyx", "ruby", "rubydo", "perl", "perldo", "lua", "luado", "tcl", "mz"];

/// An argument vector as shell text.
fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| super::carrier::quote(word)).collect::<Vec<_>>().join(" ")
}

/// The values after these options.
fn option_after(args: &[&str], names: &[&str]) -> Vec<String> {
    let mut found: Vec<String> = args
        .windows(2)
        .filter(|pair| pair.first().is_some_and(|name| names.contains(name)))
        .filter_map(|pair| pair.get(1).map(|value| (*value).to_owned()))
        .collect();
    for name in names.iter().filter(|name| name.starts_with("--")) {
        found.extend(
            args.iter().filter_map(|arg| arg.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned),
        );
    }
    found
}
