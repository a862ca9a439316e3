//! Programs that change what an agent stands on, and clients that are started without it.
//!
//! What the analysis knows a program to do to files is judged by the files. Here are the others: programs that unpack,
//! apply, fetch or edit by their own language, told from those that only look by what they are called; and coding
//! agents, which are asked about unless their whole command line and environment are known to keep their hooks.

use backstop_shell::marks::has_hole;
use backstop_shell::{Argument, Looked, Place, Process, paths};

use crate::paths::footing;

/// Programs that change files that they are given, by their first operand or by the folder they work in.
const EDITORS: &[&str] = &[
    "ed",
    "ex",
    "vi",
    "vim",
    "nvim",
    "view",
    "rvim",
    "nano",
    "emacs",
    "emacsclient",
    "micro",
    "hx",
    "patch",
    "sponge",
    "unzip",
    "cpio",
    "7z",
    "7za",
    "7zz",
    "unrar",
    "unar",
    "unsquashfs",
    "mount",
    "umount",
    "bindfs",
    "wget",
    "aria2c",
    "git-apply",
    "crudini",
    "dasel",
    "yq",
];
/// Programs that copy to their last operand, or to the folder that an option names.
const COPIERS: &[&str] =
    &["cp", "scp", "rsync", "rclone", "install", "gcp", "ditto", "robocopy", "xcopy", "sftp"];
/// Programs that take away what they are given, or make another name for it.
const MOVERS: &[&str] = &["mv", "ln", "link", "rename", "gmv", "gln", "exch"];
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

/// Whether a process changes a place that an agent stands on.
pub(super) fn changes(process: &Process, at: &Place) -> bool {
    let program = process.program();
    let args: Vec<&str> = process.argv().iter().skip(1).map(Argument::raw).collect();
    let look = Look { process, at };
    match program.as_str() {
        "patch" if look.patches(&args) => true,
        name if EDITORS.contains(&name) => look.names_any(&args) || look.works_there(),
        name if ARCHIVERS.contains(&name) => unpacks(&args) && (look.names_any(&args) || look.works_there()),
        name if MOVERS.contains(&name) => look.names_any(&args) || look.lands_there(&args),
        name if COPIERS.contains(&name) => look.targets(&args) || look.lands_there(&args),
        "git" => {
            let writes = args.iter().any(|arg| GIT_WRITES.contains(arg));
            let applies = args.iter().any(|arg| matches!(*arg, "apply" | "am"));
            writes && (look.names_any(&args) || look.works_there()) || applies && look.patches(&args)
        }
        _ => false,
    }
}

fn unpacks(args: &[&str]) -> bool {
    let mode = |(place, arg): (usize, &&str)| {
        let letters = arg.strip_prefix('-').or_else(|| (place == 0).then_some(*arg));
        letters.is_some_and(|letters| !letters.starts_with('-') && letters.contains('x'))
            || matches!(*arg, "--extract" | "--get" | "-r")
    };
    args.iter().enumerate().any(mode)
}

/// The files that a line of a patch says are changed, without the prefixes that git writes.
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

    /// Whether an argument is such a place: as it stands, behind `=` or `:`, or behind the letter of an option.
    fn names(&self, arg: &str) -> bool {
        let behind = |mark: char| arg.split_once(mark).is_some_and(|(_, rest)| self.holds(rest));
        let letter = arg.strip_prefix('-').filter(|rest| !rest.starts_with('-')).and_then(|rest| {
            let mut letters = rest.chars();
            letters.next().map(|_| letters.as_str())
        });
        self.holds(arg) || behind('=') || behind(':') || letter.is_some_and(|path| self.holds(path))
    }

    fn names_any(&self, args: &[&str]) -> bool {
        args.iter().any(|arg| self.names(arg))
    }

    /// Whether the process works in such a folder, where what it writes lands without being named.
    fn works_there(&self) -> bool {
        self.process.cwd().is_some_and(footing::is_folder)
    }

    /// Whether a patch in the workspace that is named changes such a place.
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

    /// Whether what is copied is copied to such a place.
    fn targets(&self, args: &[&str]) -> bool {
        let by_option = args.windows(2).any(|pair| match pair {
            [option, folder] => TARGETS.contains(option) && self.names(folder),
            _ => false,
        });
        let last = args.iter().rev().find(|arg| !arg.starts_with('-'));
        let glued = args.iter().any(|arg| arg.starts_with('-') && self.names(arg));
        by_option || glued || last.is_some_and(|last| self.names(last))
    }

    /// Whether what is copied into a folder is such a place there, by its own name.
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
    program: &'static str,
    /// Options without a value.
    flags: &'static [&'static str],
    /// Options with one.
    valued: &'static [&'static str],
    /// Subcommands that change what the client is.
    not_sub: &'static [&'static str],
}

const CLIENTS: &[Known] = &[
    Known {
        program: "claude",
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
        not_sub: &["config", "plugin", "plugins"],
    },
    Known {
        program: "codex",
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
        not_sub: &["features", "config"],
    },
    Known {
        program: "gemini",
        flags: &["-d", "--debug", "--list-sessions", "-s", "--sandbox", "-l", "--list-extensions"],
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
        not_sub: &["hooks", "extensions"],
    },
    Known {
        program: "qwen",
        flags: &["-d", "--debug", "-s", "--sandbox", "-c", "--continue"],
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
        not_sub: &["hooks", "extensions"],
    },
    Known {
        program: "copilot",
        flags: &["--continue", "-s", "--silent", "--no-color", "--banner"],
        valued: &["-p", "--prompt", "-i", "--interactive", "--model", "--resume", "--add-dir", "--log-level"],
        not_sub: &["plugin"],
    },
    Known {
        program: "cline",
        flags: &["--json", "--plan", "--act", "-a", "--verbose"],
        valued: &["-m", "--model", "-t", "--timeout", "-c", "--cwd"],
        not_sub: &["config", "auth"],
    },
    Known {
        program: "opencode",
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
        ],
        not_sub: &["plugin"],
    },
];

/// Options that only tell something.
const TELL: &[&str] = &["-h", "--help", "-v", "-V", "--version"];

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

/// Whether a process is a coding agent that is not known to keep its hooks.
pub(super) fn may_lose_hooks(process: &Process) -> bool {
    let program = process.program();
    let Some(known) = CLIENTS.iter().find(|known| known.program == program) else { return false };
    let args: Vec<&str> = process.argv().iter().skip(1).map(Argument::raw).collect();
    if let [only] = args.as_slice()
        && TELL.contains(only)
    {
        return false;
    }
    if process.via().iter().any(|starter| !HARMLESS_STARTERS.contains(&starter.as_str())) {
        return true;
    }
    let harmless = |name: &str| HARMLESS_VARIABLES.contains(&name);
    process.environment().iter().any(|(name, _)| !harmless(name)) || !known.keeps(&args)
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
                        return false;
                    }
                    operands += 1;
                }
            }
        }
        true
    }
}
