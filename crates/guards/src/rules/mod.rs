//! Rules: what about a command is worth a verdict.
//!
//! A rule is data. It names the facts it looks for, and what it says when it finds them: how severe it is,
//! whether to block or to ask, why (for the human), a short code (for the model) and a safer alternative. It names its
//! source and includes its examples: those under `match` must trigger it and those under `no_match` must not, and
//! [`RuleSet`] refuses a pack whose examples fail.
//!
//! Packs are YAML files with a list of rules (`packs`). The built-in ones are compiled into the binary by the build
//! script; those of the configuration have the same form and are read by [`read_pack`].

mod built_in;
mod environment;
mod footing;
mod git_settings;
mod library;
mod made;
mod matching;
mod pack;
mod remote;
mod set;
mod sql;
mod values;
pub(crate) mod words;

use backstop_shell::Action;
use serde::{Deserialize, Serialize};

use crate::paths::{Class, Level};

pub use pack::{read_pack, rules_of};
pub use set::{PackError, RuleSet};

/// How much a guard stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Only what is catastrophic.
    Core,
    /// What no agent should do unless it was asked to.
    #[default]
    Standard,
    /// Also what is a matter of taste, and whatever could not be decided.
    Strict,
}

/// How bad it would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth a note.
    Info,
    /// Loses work or weakens the machine.
    Warning,
    /// Destroys data, leaks credentials or runs foreign code.
    Critical,
}

/// A rule's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A human decides.
    Ask,
    /// It does not run.
    Block,
}

/// One rule.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Unique name, `category.name`.
    pub id: String,
    /// How bad it would be.
    pub severity: Severity,
    /// What to do.
    pub verdict: Answer,
    /// The mildest profile that includes the rule.
    pub profile: Profile,
    /// Why, for the human who reads it.
    pub reason: String,
    /// A short code for the model.
    pub code: String,
    /// The source of the knowledge: a program and its version, or a document. Every built-in rule has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// A command that reaches the likely goal safely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternative: Option<String>,
    /// The conditions; any one triggers the rule.
    pub when: Vec<When>,
    /// Commands that trigger the rule.
    #[serde(default, rename = "match", skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<String>,
    /// Commands that do not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_match: Vec<String>,
}

impl Rule {
    /// Returns the category: the part of the id before the first dot.
    pub fn category(&self) -> &str {
        self.id.split('.').next().unwrap_or(&self.id)
    }
}

/// A condition.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum When {
    /// A process with certain arguments.
    Run(Run),
    /// A file is touched in a certain way.
    Touch(TouchCondition),
    /// Code of one of these origins runs.
    Code(Vec<Origin>),
    /// Data of one of these origins goes to the network.
    Sends(Vec<Origin>),
    /// Something that is a fact by itself.
    Signal(Signal),
}

/// A process with certain arguments. Every part that is given must hold.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    /// Program names; `*` at the end stands for any ending.
    pub program: Vec<String>,
    /// Not these programs, nor one that only starts the command in its arguments.
    pub not_program: Vec<String>,
    /// The words at the start of a subcommand, alternatives separated by `|`; a trailing `*` stands for any ending.
    pub sub: Vec<String>,
    /// The first word is none of these.
    pub not_sub: Vec<String>,
    /// At least one of these options: `-f`, `--force`, or `=text` for an exact argument.
    pub any: Vec<String>,
    /// All of these options.
    pub all: Vec<String>,
    /// None of these options.
    pub none: Vec<String>,
    /// Some argument contains one of these texts, ignoring case. A `^` in front and a `$` behind stand for the
    /// beginning and the end of the argument, a NUL between two words for the gap between two arguments.
    pub contains: Vec<String>,
    /// Some argument contains one of these texts, too, which are written in the same way.
    pub also: Vec<String>,
    /// No argument contains any of these texts, which are written in the same way.
    pub lacks: Vec<String>,
    /// One of these variables is set for the process: `NAME` or `NAME=value`; `*` at the start of the name
    /// stands for any beginning.
    pub environment: Vec<String>,
    /// At least this many operands after the subcommand.
    pub operands: usize,
    /// At most this many operands after the subcommand.
    pub at_most: Option<usize>,
    /// A test that only code can make.
    pub test: Option<Test>,
}

/// Tests on arguments that need more than options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// A push refspec that starts with `+`.
    ForcedRefspec,
    /// A push refspec that deletes (`:name`).
    DeletingRefspec,
    /// `git checkout` that overwrites files.
    CheckoutOverwrites,
    /// `git restore` that touches the working tree.
    RestoreWorktree,
    /// `git clean` that removes more than what a build recreates.
    CleansWork,
    /// An operand names a file of credentials.
    NamesSecret,
    /// A file of credentials gets another name.
    LinksSecret,
    /// A search that starts anywhere but in temporary folders and in what a build recreates.
    SearchesWork,
    /// An environment variable of the process makes it run, load or find other code.
    EnvironmentRunsCode,
    /// A setting that may make git start another program, passed or stored.
    SetsWhatGitRuns,
    /// SQL that drops, truncates or deletes everything, in an argument, the value of an option, or what the program reads.
    DestructiveSql,
    /// `kill` of every process, or of whatever a pattern finds.
    KillsAll,
    /// A package name or URL instead of what a lock file says.
    NamedPackages,
    /// It unpacks, applies, copies or edits an agent's footing: settings that decide about hooks, Backstop itself.
    ChangesFooting,
    /// An argument, or a path in one, names an agent's footing.
    NamesFooting,
    /// It copies the content of a folder into a folder in which an agent keeps its settings.
    FillsAboveFooting,
    /// An operand is the program of a coding agent, which it could start under another name.
    CopiesClient,
    /// A coding agent that is not known to keep its hooks.
    MayLoseHooks,
    /// Code on the command line calls a function that deletes, or permanently ends, something that a library reaches.
    DeletesByLibrary,
    /// A program that is not known to be local to this machine is told to delete or end something that it manages.
    EndsRemotely,
    /// Such a program is told to release something to its users.
    ReleasesRemotely,
    /// A client of a service sends a message to people.
    SendsMessages,
    /// Something called production is changed.
    ChangesProduction,
    /// Code calls a function that ends, pays or cancels something at a service whose library it imports.
    EndsAtService,
    /// An operand that may be many: a pattern, or more than one word.
    ManyArguments,
    /// An operand leads out of the workspace.
    OutsideArgument,
    /// A container that the same command did not make.
    OthersContainer,
    /// A repository that the same command did not make in a temporary folder.
    OthersRepository,
    /// A registry that the user's logins do not belong to.
    ForeignRegistry,
    /// An argument that is not known.
    UnknownArgument,
    /// An argument of which not even the beginning is known, so that it could be an option.
    UnknownOption,
    /// It counts the lines of settings files, or shows the names in them and no value: `cut -d= -f1`.
    ShowsNoValues,
    /// An argument that is added from outside the command.
    StreamedArguments,
    /// The program is started by a path inside a temporary directory.
    ProgramInTemp,
    /// The name of the program has blanks in it: a whole command in quotes.
    ProgramWithBlanks,
    /// An argument, or the data around it, comes out of a command substitution of a local program.
    ComputedProgram,
}

/// A file touched in a certain way. Every part that is given must hold.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TouchCondition {
    /// What is done.
    pub action: Vec<Action>,
    /// Where.
    pub class: Vec<Class>,
    /// How sensitive the place is, at least one of these.
    pub level: Vec<Level>,
    /// Families of sensitive places.
    pub family: Vec<String>,
    /// Families that do not count.
    pub not_family: Vec<String>,
    /// An agent's footing: settings that decide about hooks, their folders, and the parents that these can be moved away with.
    pub footing: bool,
    /// Includes everything below it.
    pub recursive: Option<bool>,
    /// Without questions.
    pub force: Option<bool>,
    /// Found by a search.
    pub searched: Option<bool>,
    /// Named by data from outside the command.
    pub streamed: Option<bool>,
    /// The path starts with one of these.
    pub below: Vec<String>,
    /// The path does not start with any of these.
    pub not_below: Vec<String>,
    /// The path ends in a pattern that stands for everything in its folder.
    pub ends_open: Option<bool>,
    /// The path, in its absolute form, ends with one of these.
    pub ends: Vec<String>,
    /// The path, in its absolute form, ends with none of these.
    pub not_ends: Vec<String>,
    /// Only for these programs.
    pub program: Vec<String>,
    /// Not for these programs.
    pub not_program: Vec<String>,
    /// Not by a process with one of these arguments.
    pub unless: Vec<Run>,
}

/// Where code or data comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The network.
    Network,
    /// An archive or a repository that the same command fetched.
    Fetched,
    /// A decoder.
    Decoded,
    /// A file of credentials.
    Secret,
    /// The environment.
    Environment,
    /// A variable for the credentials of a service, sent to another service.
    Credential,
    /// The output of a local program.
    Program,
    /// Anything that is not known.
    Unknown,
}

/// Facts that need no further condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// Inline code of another language starts processes, evaluates text or talks to the network.
    CodeActs,
    /// Processes multiply without end.
    ForkBomb,
    /// A loop, or what is written to a file, has no end.
    Endless,
    /// A shell is wired to the network.
    NetworkShell,
    /// The text is written so that it cannot be read.
    Obfuscated,
}
