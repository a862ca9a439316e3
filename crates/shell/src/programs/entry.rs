//! One entry of the catalogue, as written in its file.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, Visitor};

use crate::effects::Action;
use crate::options::{Options, Takes};

/// What is known about a program. An absent key means that there is nothing to say.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Program {
    /// What it is called, without folders and in small letters; a `*` at the end stands for any ending.
    pub(crate) names: Vec<String>,
    /// Whether its names are also followed by a version (`python3.12`).
    pub(crate) versions: bool,
    /// Where the knowledge comes from: program and version, or document.
    source: String,
    /// Its options that take a value.
    pub(crate) values: Flags,
    /// The options of its subcommands that take a value.
    pub(crate) subcommands: BTreeMap<String, Flags>,
    /// What it does to the files it is given. Without it, whatever could be a file is taken to be read.
    pub(crate) touches: Option<Touches>,
    /// How it starts another program that stands in its arguments.
    pub(crate) starts: Option<Starts>,
    /// Options, as they are written, whose value a shell reads or which name a program to run.
    pub(crate) runs: Vec<String>,
    /// Signs behind which it takes the rest of a line for a shell command.
    pub(crate) escapes: Option<Escapes>,
    /// What it does with data.
    pub(crate) does: Vec<Does>,
    /// Options that name the folder it fills.
    pub(crate) into: Flags,
    /// Options that name a file with the names of more operands; `-` is its input.
    pub(crate) lists: Flags,
    /// Options with which its input names its operands.
    pub(crate) lists_input: Flags,
    /// What files hold after it ran.
    pub(crate) stores: Option<Stores>,
    /// Subcommands with which it sends what it is given; without any it always does.
    pub(crate) uploads: Vec<String>,
    /// Options whose values are commands of a transfer (`put FILE`), as its input is.
    pub(crate) batch: Option<Flags>,
    /// When it waits to be told what to do.
    pub(crate) waits: Option<Waits>,
    /// Subcommands that open a shell or a prompt; an empty one is the program without any.
    pub(crate) prompts: Vec<String>,
    /// Which output of it is made to be evaluated by a shell.
    pub(crate) settings: Settings,
    /// When it prints what it keeps secret.
    pub(crate) secrets: Option<Secrets>,
    /// How it takes code of its language.
    pub(crate) code: Option<Code>,
    /// What the program is called that it makes of the source files it is given; `*` for the name of the first.
    pub(crate) compiles: Option<String>,
    /// Files that it runs without being told their names, as patterns, with the subcommands that do so; all if none.
    pub(crate) collects: BTreeMap<String, String>,
    /// Files that tell it what to run, in the same form: what came from elsewhere to their place is run.
    pub(crate) obeys: BTreeMap<String, String>,
    /// Commands, and what is true of each.
    #[serde(rename = "match")]
    matches: Vec<String>,
    /// Commands, and what is not true of each though it could seem so.
    no_match: Vec<String>,
}

impl Program {
    /// Returns whether it may start what stands anywhere in its arguments, or runs code of a language: what that does is
    /// said apart from the program itself. A program whose arguments are read as it reads them itself starts nothing but
    /// what is found there.
    pub fn leads_to_other_code(&self) -> bool {
        let is_guessed = |starts: &Starts| !starts.is_grammar();
        self.starts.as_ref().is_some_and(is_guessed)
            || self.code.is_some()
            || self.does.contains(&Does::SpeaksShell)
    }

    /// Returns what every entry must have, and this one has not.
    pub(crate) fn lacking(&self) -> Option<&'static str> {
        [
            (self.names.is_empty(), "an entry needs `names`"),
            (self.source.trim().is_empty(), "an entry needs a `source`: program and version, or a document"),
            (self.matches.is_empty(), "an entry needs at least one case under `match`"),
            (self.no_match.is_empty(), "an entry needs at least one near miss under `no_match`"),
        ]
        .into_iter()
        .find_map(|(is_lacking, message)| is_lacking.then_some(message))
    }

    /// Returns the cases, with whether they hold.
    pub(super) fn cases(&self) -> impl Iterator<Item = (&str, bool)> {
        let holding = self.matches.iter().map(|case| (case.as_str(), true));
        holding.chain(self.no_match.iter().map(|case| (case.as_str(), false)))
    }
}

/// Options, written as they are given: `-o --output`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Flags {
    short: String,
    long: Vec<String>,
}

impl Flags {
    /// As options that take a value.
    pub(crate) fn takes(&self) -> Takes<'_> {
        Takes::listed(&self.short, &self.long)
    }

    /// Returns whether one of them was given.
    pub(crate) fn any_in(&self, given: &Options<'_>) -> bool {
        self.short.chars().any(|c| given.short(c)) || self.long.iter().any(|name| given.long(name))
    }

    /// Returns the values that were given to them.
    pub(crate) fn values_in<'a>(&self, given: &Options<'a>) -> Vec<&'a str> {
        let letters = self.short.chars().flat_map(|c| given.values(Some(c), ""));
        letters.chain(self.long.iter().flat_map(|name| given.values(None, name))).collect()
    }

    /// Returns the last value that was given to one of them.
    pub(crate) fn value_in<'a>(&self, given: &Options<'a>) -> Option<&'a str> {
        self.values_in(given).last().copied()
    }

    /// Returns the value of one of them in `args`, which also programs may have that read their other arguments in a way of
    /// their own: attached to it, behind a `=`, or in the next argument.
    pub(crate) fn value_among<'a>(&self, args: &[&'a str]) -> Option<&'a str> {
        let value = |at: usize, rest: &'a str| match rest {
            "" => args.get(at + 1).copied(),
            rest => Some(rest.strip_prefix('=').unwrap_or(rest)),
        };
        args.iter().enumerate().find_map(|(at, arg)| {
            let long = || {
                let given = arg.strip_prefix("--")?;
                let named = |name: &&String| given.split('=').next() == Some(name.as_str());
                value(at, given.get(self.long.iter().find(named)?.len()..)?)
            };
            let short = || {
                let given =
                    arg.strip_prefix('-').filter(|given| given.starts_with(|c| self.short.contains(c)))?;
                value(at, given.get(given.chars().next()?.len_utf8()..)?)
            };
            long().or_else(short).filter(|value| !value.starts_with('-'))
        })
    }

    /// Returns whether `args` hold one of the words behind a single dash, as some programs write them.
    pub(crate) fn any_behind_one_dash(&self, args: &[&str]) -> bool {
        self.long.iter().any(|name| args.iter().any(|arg| arg.strip_prefix('-') == Some(name)))
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flags(-{} {:?})", self.short, self.long)
    }
}

impl<'de> Deserialize<'de> for Flags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;

        impl Visitor<'_> for Written {
            type Value = Flags;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("options such as `-o --output`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Flags, E> {
                let mut flags = Flags::default();
                for word in text.split_whitespace() {
                    let mut letters = word.strip_prefix('-').unwrap_or_default().chars();
                    match (word.strip_prefix("--"), letters.next(), letters.next()) {
                        (Some(long), ..) if !long.is_empty() => flags.long.push(long.to_owned()),
                        (None, Some(letter), None) => flags.short.push(letter),
                        _ => {
                            return Err(E::custom(format_args!(
                                "`{word}` is no option: write `-o` or `--output`"
                            )));
                        }
                    }
                }
                Ok(flags)
            }
        }

        deserializer.deserialize_str(Written).map_err(D::Error::custom)
    }
}

/// What a program does with data and input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Does {
    /// Speaks the language of POSIX shells, near enough.
    SpeaksShell,
    /// Starts a shell where it is not told what to start.
    OpensShell,
    /// Sends its input, or what it is given, to another machine.
    Sends,
    /// Prints what came over the network.
    Fetches,
    /// Prints its input, or a part of it.
    CopiesInput,
    /// Prints other text that it makes of its input.
    Rewrites,
    /// Installs packages, whose scripts run.
    Installs,
    /// Reads statements for a database from its input.
    ReadsStatements,
    /// Talks to one service only, whose credentials it is made for.
    BelongsToService,
    /// Ends as soon as it has done what it was told, which takes no time worth mentioning.
    EndsAtOnce,
    /// Never reads its input, whatever its arguments are.
    IgnoresInput,
    /// Leaves its input to what it starts, and always starts it.
    HandsInputOn,
    /// Leaves its input to what it starts, if that stands in the command.
    HandsInputToCommand,
    /// Prints, looks and selects, whatever it is given.
    OnlyLooks,
    /// Starts its command in the container in which it runs itself, and as nobody who sees more of the machine.
    StaysInside,
}

/// What files hold after a program ran, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stores {
    /// Its operands hold its input.
    Input,
    /// The file that it is told by an option, or one of the same name, holds what was fetched.
    Fetched,
    /// The last operand holds what the others do, as a copy or under another name.
    Copies,
    /// The last operand holds what lies at a service, which the one in front of it names.
    Downloads,
    /// The file behind `-outfile` and its like, or the last operand, holds what an address in the arguments does.
    NamedOption,
    /// An archive, or a file of the same name with an ending more, holds what it packed.
    Packs,
    /// The same, where the first operand may be the archive.
    PacksFirst,
    /// A file of the same name without its ending holds what was packed.
    Unpacks,
    /// The file behind `-out` holds what the one behind `-in` does, in other characters.
    Enciphered,
    /// Its operands are named pipes.
    Pipe,
    /// The second operand is another name of the first, where it is told to bind them.
    Mount,
}

/// When a program waits to be told what to do by its input.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Waits {
    /// Options with which it has something to do.
    pub(crate) unless: Flags,
    /// How many operands it may have and still wait; any number if there is none.
    pub(crate) operands: Option<usize>,
    /// Whether its own options end at the first operand.
    pub(crate) options_first: bool,
    /// Options of which it must be given one.
    pub(crate) only: Flags,
}

/// Signs behind which a program takes the rest of a line of its own language for a shell command: `!ls` in an editor.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Escapes {
    /// The signs, which stand in front of a line or behind a `;`.
    pub(crate) behind: Vec<String>,
    /// Options, as they are written, whose values are in that language; without any all its arguments are.
    #[serde(default)]
    pub(crate) options: Vec<String>,
    /// Whether its input is as well.
    #[serde(default)]
    pub(crate) input: bool,
}

/// Subcommands whose output is made to be evaluated by a shell; an empty one is the program without any.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// These print what stands in everybody's start files.
    pub(crate) everyday: Vec<String>,
    /// These print settings, too; without any word all of them.
    pub(crate) known: Option<Vec<String>>,
}

impl Settings {
    pub(crate) fn is_everyday(&self, subcommand: &str) -> bool {
        self.everyday.iter().any(|name| name == subcommand)
    }

    /// Returns whether the program prints settings when it is called like that.
    pub(crate) fn are_printed(&self, args: &[&str]) -> bool {
        let among = |names: &[String]| {
            let named = |name: &String| args.contains(&name.as_str()) || args.is_empty() && name.is_empty();
            names.iter().any(named)
        };
        among(&self.everyday) || self.known.as_ref().is_some_and(|names| names.is_empty() || among(names))
    }
}

/// When a program prints secrets.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Secrets {
    /// With all words of one of these among its arguments; a `*` at the end stands for any ending.
    when: Vec<String>,
    /// Unless its first argument is one of these.
    #[serde(default)]
    unless: Vec<String>,
}

impl Secrets {
    pub(crate) fn are_printed(&self, args: &[&str]) -> bool {
        let is = |arg: &str, word: &str| match word.strip_suffix('*') {
            Some(beginning) => arg.starts_with(beginning) && !arg.starts_with('-'),
            None => arg == word,
        };
        let all = |words: &String| words.split(' ').all(|word| args.iter().any(|arg| is(arg, word)));
        let first = args.first().copied().unwrap_or_default();
        !self.unless.iter().any(|word| word == first) && self.when.iter().any(all)
    }
}

/// How an interpreter takes code.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Code {
    /// Options whose value is code, as they are written.
    pub(crate) options: Vec<String>,
    /// Letters of other options that take a value, behind which none of a cluster is code.
    pub(crate) values: String,
    /// Whether code is read from the input when no script is named.
    pub(crate) input: bool,
    /// Subcommands behind which a script is named, or a `-` for the input.
    pub(crate) under: Vec<String>,
}

/// How a program starts another: where its command stands, or which code of `wrap` finds it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Starts {
    /// The command follows the program's own options and so many operands.
    After(usize),
    /// The command begins at the first word that names a program.
    Somewhere,
    /// The command is all words but these switches of the program, in any case.
    WordsBut(Vec<String>),
    /// The command follows one of the subcommands and its options.
    Subcommand {
        /// The subcommands.
        names: Vec<String>,
        /// Their options that take a value.
        #[serde(default)]
        values: Flags,
        /// Their options whose value a shell reads in place of a command.
        #[serde(default)]
        text: Flags,
    },
    /// The command follows one of these words, wherever it stands, the program's options and so many operands.
    Behind {
        /// The words.
        words: Vec<String>,
        /// The operands between the options and the command.
        operands: usize,
    },
    /// A shell reads the value of one of these options.
    Text(Flags),
    /// A shell reads the value of one of these options; without any, the command follows the program's own.
    TextOrWords(Flags),
    /// A shell reads the value of one of these options behind this word.
    TextUnder {
        /// The subcommand.
        word: String,
        /// The options.
        options: Flags,
    },
    /// A shell reads what follows one of these words.
    TextBehind(Vec<String>),
    /// A shell reads each word that is no option.
    Texts,
    /// A shell reads what follows the program's own options, so many operands and a `-c`, all words as one text.
    Joined(usize),
    /// A shell of another machine reads what follows the program's own options and so many operands.
    Remote(usize),
    /// A shell of another machine reads what follows one of these words and its options.
    RemoteBehind(Vec<String>),
    /// As `sudo` takes it: behind variables and options that change who runs it, and where.
    AsUser,
    /// As `su` takes it: the text of an option, or words behind two dashes.
    OtherUser,
    /// As `env` takes it: behind variables.
    Environment,
    /// As `flock` takes it: words, or a text, behind the file that is locked.
    Lock,
    /// As `xargs` takes it: once for what it reads.
    EachLine,
    /// As GNU `parallel` takes it: for each of its inputs.
    EachJob,
    /// As `find` takes it: among its tests.
    EachFound,
    /// As `fd` takes it: for each name that fits.
    EachNamed,
    /// As `ssh` takes it: by a shell of another machine, or by options.
    SecureShell,
    /// As `mosh` takes it: words that reach another machine as they are.
    Mosh,
    /// As `docker run` and `docker exec` take it: behind an image or a container.
    Container,
    /// As `kubectl exec` takes it: behind two dashes.
    Pod,
    /// As `tmux` takes it: a text, words, or keys that are typed.
    Terminal,
    /// As `at` takes it: lines of a file or of its input.
    Queued,
    /// As `crontab` takes it: behind a schedule, in the lines of a file or of its input.
    Crontab,
    /// As `aws ssm send-command` takes it: texts in a parameter.
    SentCommands,
    /// As `cmd /c` takes it: in the language of the command prompt.
    CommandPrompt,
}

impl Starts {
    /// Returns whether code of its own reads the arguments, by the whole grammar of the program.
    fn is_grammar(&self) -> bool {
        match self {
            Self::After(_)
            | Self::Somewhere
            | Self::WordsBut(_)
            | Self::Subcommand { .. }
            | Self::Behind { .. }
            | Self::Text(_)
            | Self::TextOrWords(_)
            | Self::TextUnder { .. }
            | Self::TextBehind(_)
            | Self::Texts
            | Self::Joined(_)
            | Self::Remote(_)
            | Self::RemoteBehind(_)
            | Self::Terminal => false,
            Self::AsUser
            | Self::OtherUser
            | Self::Environment
            | Self::Lock
            | Self::EachLine
            | Self::EachJob
            | Self::EachFound
            | Self::EachNamed
            | Self::SecureShell
            | Self::Mosh
            | Self::Container
            | Self::Pod
            | Self::Queued
            | Self::Crontab
            | Self::SentCommands
            | Self::CommandPrompt => true,
        }
    }
}

/// What a program does to files.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Touches {
    /// Its arguments are no files, or what it does with them is told elsewhere.
    Nothing,
    /// The same to each of its operands.
    Operands(Operands),
    /// Deletes its operands.
    Deletes,
    /// Deletes its operands with all that is below them, and asks nobody.
    DeletesAll,
    /// Moves all operands but the last to the last.
    Moves,
    /// Copies all operands but the last to the last.
    Copies,
    /// Makes the last operand a link to the others.
    Links,
    /// Changes permissions.
    Modes,
    /// Changes lists of access rights.
    AccessLists,
    /// Changes owners.
    Owners,
    /// Reads `if=`, writes `of=`.
    Dd,
    /// Rewrites its operands with `-i`, else reads them.
    Sed,
    /// Rewrites its operands with `-i` behind its code.
    InPlace,
    /// Copies between machines, and deletes what is not in the source.
    Rsync,
    /// Copies between machines.
    Scp,
    /// Makes archives and unpacks them.
    Tar,
    /// Unpacks archives.
    Unpacks,
    /// Copies into containers and out of them.
    ContainerCopies,
    /// Changes the files that a patch on its input, or among its operands, names.
    Patches,
    /// Sends files to addresses, and writes what comes back.
    Transfers,
    /// Reads files by revision.
    Git,
    /// Reads the files of its addresses.
    Socat,
    /// Reads its arguments but those it writes.
    Openssl,
    /// Makes file systems or changes partitions.
    Formats(Formats),
}

/// When a program that can make a file system or change partitions does so: always, but for what is said here. Each word
/// is an option as it is written, or an argument in small letters; a `*` at the end stands for any ending.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Formats {
    /// With one of these it changes nothing, whatever else it is told.
    pub(crate) pretends: Vec<String>,
    /// With nothing but these, beside the disk, it only shows.
    pub(crate) looks: Vec<String>,
    /// It does with one of these alone.
    pub(crate) only: Vec<String>,
    /// How names of disks begin that stand without `/dev/`.
    pub(crate) bare: String,
}

/// One action on the operands.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Operands {
    pub(crate) action: Action,
    /// How many operands come before the files.
    #[serde(default)]
    pub(crate) skip: usize,
    /// With one of these options none is skipped.
    #[serde(default)]
    pub(crate) unless: Flags,
    /// Only so many are files.
    #[serde(default)]
    pub(crate) most: Option<usize>,
    /// With one of these options files are appended to.
    #[serde(default)]
    pub(crate) append: Flags,
    /// Values of these options are touched in the same way.
    #[serde(default)]
    pub(crate) values: Flags,
}
