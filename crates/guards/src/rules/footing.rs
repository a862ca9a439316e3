//! Programs that change an agent's footing, and clients that are started without it.
//!
//! If the analysis knows what a program does to files, the files are judged. Otherwise the list is inverted for these
//! places: the rule lists the programs that are known to read them, and any other program that is given such a path is
//! assumed to change it ([`names`]). [`changes`] finds changes without a name on the command line: by programs that unpack
//! or fetch into their working directory, by patches, and under the own names of what is copied. Coding agents are asked
//! about unless their whole command line and environment are known to keep their hooks.

use backstop_shell::marks::{ANY, HOLE, SET, STAR, has_hole};
use backstop_shell::{Argument, Looked, Place, Process, paths};

use crate::paths::footing;

/// Programs that write files into the folder they work in.
const FILLERS: &[&str] = &[
    "unzip",
    "cpio",
    "7z",
    "7za",
    "7zz",
    "unrar",
    "unar",
    "unsquashfs",
    "wget",
    "aria2c",
    "patch",
    "git-apply",
];
/// Programs that copy to their last operand, or to the folder that an option names.
const COPIERS: &[&str] =
    &["cp", "scp", "rsync", "rclone", "install", "gcp", "ditto", "robocopy", "xcopy", "sftp"];
/// Programs that make another name for what they are given.
const LINKERS: &[&str] = &["ln", "link", "gln"];
/// Programs that take away what they are given, which the analysis knows.
const MOVERS: &[&str] = &["mv", "gmv"];
/// Programs that unpack if they are told so.
const ARCHIVERS: &[&str] = &["tar", "bsdtar", "gtar", "star", "pax"];
/// Subcommands of git that write files of the working folder.
const GIT_WRITES: &[&str] = &[
    "apply",
    "am",
    "checkout",
    "restore",
    "clone",
    "pull",
    "reset",
    "stash",
    "mv",
    "rm",
    "clean",
    "switch",
    "merge",
    "rebase",
    "cherry-pick",
    "revert",
    "worktree",
    "init",
    "submodule",
    "checkout-index",
    "read-tree",
    "sparse-checkout",
];
const TARGETS: &[&str] = &["-t", "--target-directory"];

/// Returns whether a process changes a place that an agent stands on.
pub(super) fn changes(process: &Process, at: &Place) -> bool {
    let program = process.program();
    let args = arguments(process);
    let look = Look { process, at };
    match program.as_str() {
        "patch" if look.patches(&args) => true,
        "wget" if look.names_any(&args) => true,
        name if FILLERS.contains(&name) => look.works_there(),
        name if ARCHIVERS.contains(&name) => unpacks(&args) && (look.names_any(&args) || look.works_there()),
        name if LINKERS.contains(&name) => look.names_any(&args) || look.lands_there(&args),
        name if MOVERS.contains(&name) => look.lands_there(&args),
        name if COPIERS.contains(&name) => look.targets(&args) || look.lands_there(&args),
        "git" => {
            let writes = args.iter().any(|arg| GIT_WRITES.contains(arg));
            let applies = args.iter().any(|arg| matches!(*arg, "apply" | "am"));
            writes && (look.names_any(&args) || look.works_there()) || applies && look.patches(&args)
        }
        _ => false,
    }
}

/// Returns whether a process fills a folder in which such places lie with what another folder holds: what that is called is
/// not known.
pub(super) fn fills_above(process: &Process, at: &Place) -> bool {
    let cwd = process.cwd().unwrap_or_else(|| at.cwd());
    let args = arguments(process);
    let mut operands = args.iter().filter(|arg| !arg.starts_with('-'));
    let above = |path: &str| footing::is_above(&paths::lexical(path, cwd), at);
    let is_content = |path: &&&str| path.ends_with(['/', STAR]) || path.ends_with("/.") || **path == ".";
    operands.next_back().is_some_and(|target| above(target)) && operands.any(|source| is_content(&source))
}

/// Returns whether an argument of a process, or a path in one, names a place that an agent stands on. Paths are found in
/// values of options, behind `=`, `:` and `@`, and in texts, which may be code of any language.
pub(super) fn names(process: &Process, at: &Place) -> bool {
    let cwd = process.cwd().unwrap_or_else(|| at.cwd());
    arguments(process).iter().any(|arg| mentions(arg, cwd, at))
}

fn mentions(arg: &str, cwd: &str, at: &Place) -> bool {
    let resolved = |path: &str| match path.starts_with('~') {
        true => paths::of_tool(path, at),
        false => paths::lexical(path, cwd),
    };
    // What stands in a text or behind a mark is known by its name alone.
    let leads = |path: &str| footing::is_one(&resolved(path), at);
    // A bare word leads there only from a folder that is near; most words are looked at no further.
    let near = cwd.contains("/.")
        || !cwd.strip_prefix(at.workspace()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let is_text = arg.contains(char::is_whitespace);
    let could_be = |part: &str| match is_text {
        true => part.contains('/'),
        false => !part.starts_with('-') && (near || part.contains(['/', '.', '~', STAR, ANY, SET, HOLE])),
    };
    let whole = || !is_text && could_be(arg) && footing::holds(&resolved(arg), at);
    let mut parts = arg.split(is_no_part_of_a_path).filter(|part| part.len() < arg.len() && could_be(part));
    behind_letter(arg).is_some_and(|path| path.contains('/') && leads(path)) || whole() || parts.any(leads)
}

fn is_no_part_of_a_path(c: char) -> bool {
    c.is_whitespace() || "\"'`(){}[],;<>|&=:@!".contains(c)
}

/// Returns the value that is written behind the letter of an option.
fn behind_letter(arg: &str) -> Option<&str> {
    let mut letters = arg.strip_prefix('-').filter(|rest| !rest.starts_with('-'))?.chars();
    letters.next().map(|_| letters.as_str())
}

fn arguments(process: &Process) -> Vec<&str> {
    process.argv().iter().skip(1).map(Argument::raw).collect()
}

fn unpacks(args: &[&str]) -> bool {
    let mode = |(place, arg): (usize, &&str)| {
        let letters = arg.strip_prefix('-').or_else(|| (place == 0).then_some(*arg));
        letters.is_some_and(|letters| !letters.starts_with('-') && letters.contains('x'))
            || matches!(*arg, "--extract" | "--get" | "-r")
    };
    args.iter().enumerate().any(mode)
}

/// Returns the files that a line of a patch says are changed, without the prefixes that git writes.
fn patched(line: &str) -> impl Iterator<Item = &str> {
    const MARKS: [&str; 5] = ["+++ ", "--- ", "rename to ", "copy to ", "diff --git "];
    let files = MARKS.iter().find_map(|mark| line.strip_prefix(mark));
    let files = files.into_iter().flat_map(|rest| rest.split(['\t', ' ']));
    files.map(|file| {
        let file = file.trim_matches('"');
        file.strip_prefix("a/").or_else(|| file.strip_prefix("b/")).unwrap_or(file)
    })
}

struct Look<'a> {
    process: &'a Process,
    at: &'a Place,
}

impl Look<'_> {
    fn holds(&self, path: &str) -> bool {
        if path.is_empty() || path.contains("://") {
            return false;
        }
        let cwd = self.process.cwd().unwrap_or_else(|| self.at.cwd());
        footing::holds(&paths::lexical(path, cwd), self.at)
    }

    /// Returns whether an argument is such a place: as it stands, behind `=` or `:`, or behind the letter of an option.
    fn names(&self, arg: &str) -> bool {
        let behind = |mark: char| arg.split_once(mark).is_some_and(|(_, rest)| self.holds(rest));
        self.holds(arg)
            || behind('=')
            || behind(':')
            || behind_letter(arg).is_some_and(|path| self.holds(path))
    }

    fn names_any(&self, args: &[&str]) -> bool {
        args.iter().any(|arg| self.names(arg))
    }

    /// Returns whether the process works in such a folder, where what it writes lands without being named.
    fn works_there(&self) -> bool {
        self.process.cwd().is_some_and(|cwd| footing::holds(cwd, self.at))
    }

    /// Returns whether a patch in the workspace that is named changes such a place.
    fn patches(&self, args: &[&str]) -> bool {
        let cwd = self.process.cwd().unwrap_or_else(|| self.at.cwd());
        let changes = |line: &str| patched(line).any(|path| self.holds(path));
        args.iter().filter(|arg| !arg.starts_with('-')).any(|arg| {
            match self.at.look_at(&paths::lexical(arg, cwd)) {
                Looked::Text(text) => text.lines().any(changes),
                _ => false,
            }
        })
    }

    /// Returns whether what is copied is copied to such a place.
    fn targets(&self, args: &[&str]) -> bool {
        let by_option = args.windows(2).any(|pair| match pair {
            [option, folder] => TARGETS.contains(option) && self.names(folder),
            _ => false,
        });
        let last = args.iter().rev().find(|arg| !arg.starts_with('-'));
        let glued = args.iter().any(|arg| arg.starts_with('-') && self.names(arg));
        by_option || glued || last.is_some_and(|last| self.names(last))
    }

    /// Returns whether what is copied into a folder is such a place there, by its own name.
    fn lands_there(&self, args: &[&str]) -> bool {
        let mut operands = args.iter().filter(|arg| !arg.starts_with('-'));
        let Some(folder) = operands.next_back() else { return false };
        let name = |source: &&&str| {
            source.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default().to_owned()
        };
        let mut names = operands.filter(|source| !has_hole(source)).map(|source| name(&source));
        names.any(|name| !name.is_empty() && name != "." && self.holds(&format!("{folder}/{name}")))
    }
}

/// What of a client's command line keeps its hooks.
struct Known {
    programs: &'static [&'static str],
    /// Options without a value.
    flags: &'static [&'static str],
    /// Options with one.
    valued: &'static [&'static str],
    /// Subcommands that change what the client is.
    not_sub: &'static [&'static str],
}

const CLIENTS: &[Known] = &[
    Known {
        programs: &["claude"],
        flags: &[
            "-p",
            "--print",
            "-c",
            "--continue",
            "--verbose",
            "--include-partial-messages",
            "--replay-user-messages",
            "--fork-session",
            "--ide",
            "--no-session-persistence",
        ],
        valued: &[
            "--model",
            "--output-format",
            "--input-format",
            "-r",
            "--resume",
            "--max-turns",
            "--max-budget-usd",
            "--append-system-prompt",
            "--system-prompt",
            "--session-id",
            "--allowedTools",
            "--allowed-tools",
            "--disallowedTools",
            "--disallowed-tools",
            "--tools",
            "--add-dir",
            "--fallback-model",
            "--json-schema",
            "--effort",
            "--permission-mode",
            "-n",
            "--name",
        ],
        not_sub: &["config", "plugin", "plugins", "mcp"],
    },
    Known {
        programs: &["codex"],
        flags: &[
            "--json",
            "--full-auto",
            "--skip-git-repo-check",
            "--search",
            "--last",
            "--no-alt-screen",
            "--ephemeral",
        ],
        valued: &[
            "-m",
            "--model",
            "-C",
            "--cd",
            "-s",
            "--sandbox",
            "-a",
            "--ask-for-approval",
            "-i",
            "--image",
            "-o",
            "--output-last-message",
            "--output-schema",
            "--color",
            "--add-dir",
        ],
        not_sub: &["features", "config", "mcp", "app-server", "mcp-server", "sandbox", "debug", "proto"],
    },
    // Qwen Code is made from Gemini CLI.
    Known {
        programs: &["gemini", "qwen"],
        flags: &[
            "-c",
            "--continue",
            "-d",
            "--debug",
            "-l",
            "--list-extensions",
            "--list-sessions",
            "-s",
            "--sandbox",
            "--screen-reader",
        ],
        valued: &[
            "-m",
            "--model",
            "-p",
            "--prompt",
            "-i",
            "--prompt-interactive",
            "-o",
            "--output-format",
            "-r",
            "--resume",
            "--include-directories",
        ],
        not_sub: &["hooks", "extensions", "mcp", "serve", "web", "acp"],
    },
    Known {
        programs: &["copilot"],
        flags: &["--continue", "-s", "--silent", "--no-color", "--banner"],
        valued: &["-p", "--prompt", "-i", "--interactive", "--model", "--resume", "--add-dir", "--log-level"],
        not_sub: &["plugin", "mcp"],
    },
    Known {
        programs: &["cline"],
        flags: &["--json", "--plan", "--act", "-a", "--verbose"],
        valued: &["-m", "--model", "-t", "--timeout", "-c", "--cwd"],
        not_sub: &["config", "auth"],
    },
    Known {
        programs: &["opencode"],
        flags: &["-c", "--continue", "--print-logs", "--share"],
        valued: &[
            "-m",
            "--model",
            "-s",
            "--session",
            "--prompt",
            "--agent",
            "--format",
            "--log-level",
            "--title",
            "-f",
            "--file",
            "--variant",
        ],
        not_sub: &["plugin", "mcp", "serve", "web", "acp", "attach"],
    },
    Known {
        programs: &["cursor-agent"],
        flags: &["-p", "--print", "--continue"],
        valued: &["-m", "--model", "--output-format", "--resume"],
        not_sub: &["mcp"],
    },
    Known {
        programs: &["goose"],
        flags: &["-r", "--resume", "-q", "--quiet"],
        valued: &["-t", "--text", "-i", "--instructions", "-n", "--name"],
        not_sub: &["configure", "mcp", "serve", "web", "acp"],
    },
    Known {
        programs: &["kiro-cli", "kiro-cli-chat"],
        flags: &["--resume", "--no-interactive"],
        valued: &[],
        not_sub: &["mcp", "settings", "agent", "acp"],
    },
];

/// Options that only tell something.
const TELL: &[&str] = &["-h", "--help", "-v", "-V", "--version"];

/// Words behind a subcommand that only tell how something is set.
const ONLY_SAY: &[&str] = &["list", "ls", "show", "get", "status", "view", "help", "-h", "--help"];

/// Variables that say nothing about hooks, settings or folders.
const HARMLESS_VARIABLES: &[&str] = &[
    "NO_COLOR",
    "FORCE_COLOR",
    "TERM",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "CI",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "DEBUG",
    "PAGER",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_MODEL",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "MAX_THINKING_TOKENS",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "IFS",
    "OPTIND",
    "PS4",
    "_",
];

/// Programs that start others with the environment and the account that they have themselves.
const HARMLESS_STARTERS: &[&str] = &[
    "timeout", "nice", "ionice", "nohup", "time", "command", "exec", "builtin", "sh", "bash", "dash", "zsh",
    "stdbuf", "setsid", "watch",
];

/// Returns whether a process is a coding agent that is not known to keep its hooks.
pub(super) fn may_lose_hooks(process: &Process, at: &Place) -> bool {
    let program = process.program();
    let Some(known) = CLIENTS.iter().find(|known| known.programs.contains(&program.as_str())) else {
        return false;
    };
    let args = arguments(process);
    if let [only] = args.as_slice()
        && TELL.contains(only)
    {
        return false;
    }
    // Settings of another folder could switch hooks off.
    let elsewhere = |cwd: &str| {
        !cwd.strip_prefix(at.workspace()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if process.via().iter().any(|starter| !HARMLESS_STARTERS.contains(&starter.as_str()))
        || process.cwd().is_none_or(elsewhere)
    {
        return true;
    }
    let harmless = |name: &str| HARMLESS_VARIABLES.contains(&name);
    process.environment().iter().any(|(name, _)| !harmless(name)) || !known.keeps(&args)
}

/// Returns whether an operand is the program of a coding agent: in a folder of programs, or where a shell finds it.
pub(super) fn copies_client(process: &Process) -> bool {
    let is_client = |name: &str| CLIENTS.iter().any(|known| known.programs.contains(&name));
    arguments(process).iter().any(|arg| {
        let Some((folder, name)) = arg.rsplit_once('/') else { return false };
        is_client(name) && (folder.ends_with("bin") || folder.starts_with(HOLE))
            || arg.contains("/claude/versions/")
    })
}

impl Known {
    fn keeps(&self, args: &[&str]) -> bool {
        let mut args = args.iter();
        let mut operands = 0;
        while let Some(arg) = args.next() {
            let option = arg.split_once('=').map_or(*arg, |(name, _)| name);
            match (arg.starts_with('-') && *arg != "-", arg.contains('=')) {
                (true, _) if TELL.contains(&option) || self.flags.contains(arg) => {}
                (true, true) if self.valued.contains(&option) => {}
                (true, false) if self.valued.contains(arg) => {
                    args.next();
                }
                (true, _) => return false,
                (false, _) if *arg == "--" => return true,
                // What is not known may be an option; a prompt that is not known is one word in quotes.
                (false, _) if has_hole(arg) && !arg.contains(' ') => return false,
                (false, _) => {
                    if operands == 0 && self.not_sub.contains(arg) {
                        return args.next().is_some_and(|word| ONLY_SAY.contains(word));
                    }
                    operands += 1;
                }
            }
        }
        true
    }
}
