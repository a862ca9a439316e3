//! Does a rule apply to a fact?

use std::cell::OnceCell;

use backstop_shell::marks::{ANY, HOLE, SET, STAR, has_hole};
use backstop_shell::options::{Name, Options};
use backstop_shell::programs::{Program, Programs};
use backstop_shell::{Action, Argument, Input, Place, Process, Taint, Touch, paths};

use super::made::Made;
use super::{
    Origin, Run, Signal, Test, TouchCondition, environment, footing, git_settings, library, remote, sql,
    values, words,
};
use crate::paths::{Class, Target, class, footing as places, is_confidential};

/// A process with its arguments parsed once, for all rules.
pub(super) struct Parsed<'a> {
    pub(super) process: &'a Process,
    /// Its index in the trace.
    nth: usize,
    programs: &'a Programs,
    made: &'a Made<'a>,
    /// Where the command runs.
    at: &'a Place,
    args: Vec<&'a str>,
    options: Options<'a>,
    /// Words of the subcommand and operands.
    words: Vec<&'a str>,
    /// All arguments, and the code that is given otherwise, in small letters and each between NULs, for searching, made when
    /// first needed.
    lower: OnceCell<String>,
}

impl<'a> Parsed<'a> {
    /// Returns the process at index `nth` of the trace.
    pub(super) fn new(nth: usize, process: &'a Process, made: &'a Made<'a>, at: &'a Place) -> Self {
        let programs = &*made.trace().programs;
        let program = process.program();
        let args: Vec<&str> = process.argv().iter().skip(1).map(Argument::raw).collect();
        if program == "git" {
            // Options before the subcommand belong to git itself.
            let globals = Options::parse(&args, programs.takes("git").until_operand());
            let start = globals.consumed;
            let sub = args.get(start).copied().unwrap_or_default().to_ascii_lowercase();
            let rest = args.get(start + 1..).unwrap_or_default();
            let options = Options::parse(rest, programs.takes_of("git", &sub));
            let words = args.get(start).into_iter().chain(&options.operands).copied().collect();
            return Self {
                process,
                nth,
                programs,
                made,
                at,
                args: args.clone(),
                options,
                words,
                lower: OnceCell::new(),
            };
        }
        let options = Options::parse(&args, programs.takes(&program));
        let words = options.operands.clone();
        Self { process, nth, programs, made, at, args, options, words, lower: OnceCell::new() }
    }

    pub(super) fn fits(&self, run: &Run) -> bool {
        (run.not_program.is_empty() || !self.is_one_of(&run.not_program))
            && !self.words.first().is_some_and(|word| run.not_sub.iter().any(|sub| is_called(word, sub)))
            && (run.sub.is_empty() || self.has_sub(&run.sub))
            && (run.environment.is_empty() || run.environment.iter().any(|wanted| self.has_variable(wanted)))
            && (run.any.is_empty() || run.any.iter().any(|flag| self.has(flag)))
            && run.all.iter().all(|flag| self.has(flag))
            && !run.none.iter().any(|flag| self.has(flag))
            && (run.contains.is_empty() || run.contains.iter().any(|text| self.contains(text)))
            && (run.also.is_empty() || run.also.iter().any(|text| self.contains(text)))
            && !run.lacks.iter().any(|text| self.contains(text))
            && self.words.len() >= run.operands + run.sub.len()
            && run.at_most.is_none_or(|most| self.words.len() <= most + run.sub.len())
            && run.test.is_none_or(|test| self.passes(test))
            && !self.only_asks_for_help(run)
    }

    /// Returns whether it is one of the programs, with the arguments that are wanted.
    pub(super) fn is_run(&self, run: &Run) -> bool {
        let program = self.process.program();
        run.program.iter().any(|name| is_called(&program, name)) && self.fits(run)
    }

    /// Returns whether the program is only asked how it is used: a word for help behind plain words, which are its subcommands
    /// (`kubectl delete --help`). Behind an option the word could be its value, and what is read as code or started all
    /// the same is no question; nor does it help where a rule is about the variables or the place of any program.
    fn only_asks_for_help(&self, run: &Run) -> bool {
        let named = run.environment.is_empty() && !run.program.iter().any(|name| name == "*");
        let Some((last, before)) = self.args.split_last().filter(|_| named && !self.process.is_open_ended())
        else {
            return false;
        };
        let plain = |word: &&str| {
            !word.starts_with('-') && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_:.".contains(c))
        };
        let program = self.process.program();
        // `kill` of a shell takes whatever stands behind a number for another process.
        let asks = match *last {
            "--help" => program != "kill",
            // Elsewhere this is a cluster of letters, and `-h` a host, or says to halt.
            "-help" => HASHICORP.contains(&program.as_str()),
            "-h" => !run.sub.is_empty() && !before.is_empty(),
            "help" => program == "aws" && !before.is_empty(),
            _ => false,
        };
        asks && before.iter().all(plain) || program == "heroku" && self.args.first() == Some(&"help")
    }

    /// One of these programs, or a wrapper or interpreter, whose command or code is judged by itself.
    fn is_one_of(&self, programs: &[String]) -> bool {
        let program = self.process.program();
        programs.iter().any(|name| is_called(&program, name))
            || self.programs.get(&program).is_some_and(Program::leads_to_other_code)
    }

    fn has_sub(&self, wanted: &[String]) -> bool {
        wanted.iter().enumerate().all(|(at, choices)| {
            self.words.get(at).is_some_and(|word| choices.split('|').any(|choice| is_called(word, choice)))
        })
    }

    fn has(&self, flag: &str) -> bool {
        if let Some(exact) = flag.strip_prefix('=') {
            return self.args.iter().any(|arg| arg.eq_ignore_ascii_case(exact));
        }
        if let Some(long) = flag.strip_prefix("--") {
            return self.options.long(long);
        }
        flag.strip_prefix('-').and_then(|rest| rest.chars().next()).is_some_and(|c| self.options.short(c))
    }

    /// True when some argument contains `text`, which is in small letters.
    fn contains(&self, text: &str) -> bool {
        self.lower
            .get_or_init(|| {
                format!("\0{}\0{}\0", self.args.join("\0"), self.process.code().unwrap_or_default())
                    .to_ascii_lowercase()
            })
            .contains(text)
    }

    /// Texts that can be code: the arguments, and what is read as code otherwise.
    fn code(&self) -> impl Iterator<Item = &str> {
        self.args.iter().copied().chain(self.process.code())
    }

    /// `NAME`, or `NAME=value`.
    fn has_variable(&self, wanted: &str) -> bool {
        let (name, value) =
            wanted.split_once('=').map_or((wanted, None), |(name, value)| (name, Some(value)));
        self.process.environment().iter().any(|(known, text)| {
            let named = name.strip_prefix('*').map_or(known == name, |ending| known.ends_with(ending));
            named && value.is_none_or(|value| value == text)
        })
    }

    /// A path from where the process runs.
    fn resolved(&self, path: &str) -> String {
        paths::lexical(path, self.process.cwd().unwrap_or_else(|| self.at.cwd()))
    }

    /// Returns whether a word is a path that leads out of the workspace.
    fn leads_out(&self, word: &str) -> bool {
        let outside = |class| matches!(class, Class::Root | Class::Home | Class::System | Class::Outside);
        let is_path = word.starts_with(['/', '~']) || word.starts_with("..");
        is_path && outside(class::of(&self.resolved(word), self.at))
    }

    /// Returns whether a path is known to lie in a temporary folder, or in what a build makes again.
    fn is_remade(&self, path: &str) -> bool {
        if has_hole(path) || self.process.cwd().is_none() && !path.starts_with('/') {
            return false;
        }
        matches!(class::of(&self.resolved(path), self.at), Class::Temp | Class::Rebuilt)
    }

    /// True for interpreters whose code is written out, so that what is streamed to them is data.
    fn has_its_code(&self) -> bool {
        let program = self.process.program();
        if matches!(program.as_str(), "awk" | "gawk") {
            let named = self.options.value(Some('f'), "file");
            return named.or(self.words.first().copied()).is_some_and(|code| !has_hole(code));
        }
        if program == "find" {
            return self.searches_for_data();
        }
        self.args.windows(2).any(|pair| match pair {
            ["-c" | "-e", code] => {
                !has_hole(code) && !code.contains("eval") && !code.trim_start().starts_with("$")
            }
            _ => false,
        })
    }

    /// True for a search in which what is not known is only looked for or printed.
    fn searches_for_data(&self) -> bool {
        const VALUES: [&str; 9] =
            ["-name", "-iname", "-path", "-ipath", "-newer", "-regex", "-printf", "-user", "-group"];
        const PRINTERS: [&str; 6] = ["echo", "printf", "ls", "cat", "grep", "wc"];
        let executes = self.args.iter().position(|arg| arg.starts_with("-exec") || arg.starts_with("-ok"));
        let printed =
            executes.and_then(|at| self.args.get(at + 1)).is_some_and(|name| PRINTERS.contains(name));
        let deletes =
            self.args.iter().any(|arg| *arg == "-delete" || arg.starts_with("-fp") && *arg != "-fprintf");
        let bare = self.args.windows(2).enumerate().any(|(at, pair)| match pair {
            [before, value] if has_hole(value) => {
                let inside = executes.is_some_and(|executes| at + 1 > executes + 1) && printed;
                let format = at > 0 && self.args.get(at - 1).is_some_and(|arg| *arg == "-fprintf");
                !(VALUES.contains(before) || inside || format)
            }
            _ => false,
        });
        let ends = self.args.last().is_some_and(|last| has_hole(last));
        let starts = self.args.first().is_some_and(|first| has_hole(first));
        let value_last = self.args.iter().rev().nth(1).is_some_and(|arg| VALUES.contains(arg))
            || self.args.iter().rev().nth(2).is_some_and(|arg| *arg == "-fprintf");
        !deletes && !bare && !starts && (!ends || value_last) && (executes.is_none() || printed)
    }

    /// Returns whether a lease protects the branch that a forced refspec overwrites. One that names a branch protects
    /// that one only.
    fn is_leased(&self, refspec: &str) -> bool {
        const LEASE: &str = "force-with-lease";
        let given = |name: &Name<'_>| matches!(name, Name::Long(long) if long.starts_with(LEASE));
        let leases: Vec<&str> = self.options.values(None, LEASE).collect();
        if leases.is_empty() {
            return self.options.names().any(|name| given(&name));
        }
        let short = |name: &str| name.strip_prefix("refs/heads/").unwrap_or(name).to_owned();
        let target = refspec.trim_start_matches('+');
        let target = target.rsplit_once(':').map_or(target, |(_, target)| target);
        leases.iter().any(|lease| short(lease.split(':').next().unwrap_or_default()) == short(target))
    }

    /// Returns whether a statement destroys data: one that stands in an argument, behind an option or attached to one, or that
    /// the program reads from its input or a file which the same command wrote.
    fn destroys_by_sql(&self) -> bool {
        let given = self.args.iter().map(|arg| match arg.strip_prefix('-') {
            Some(option) => sql::behind_an_option(option),
            None => arg,
        });
        let read = self.process.inputs().iter().filter_map(Input::text);
        given.chain(read).any(sql::destroys)
    }

    /// Returns whether `kill` is told to end every process (`-1` behind the signal), or those that a pattern of names stands
    /// for.
    fn kills_all(&self) -> bool {
        let mut args = self.args.iter().copied().peekable();
        match args.peek().copied() {
            Some("-s" | "-n" | "--signal") => {
                args.next();
                args.next();
            }
            Some(first) if first.starts_with('-') && first != "--" && self.args.len() > 1 => {
                args.next();
            }
            _ => {}
        }
        // `$(pgrep .)`: a pattern that every name fits.
        let of_all = |arg: &str| {
            let pattern = arg.trim_matches(HOLE);
            pattern.len() < arg.len() && matches!(pattern, "." | ".*" | "^" | "-f ." | "-v .")
        };
        args.any(|arg| arg == "-1" || arg.contains([STAR, ANY, SET]) || of_all(arg))
    }

    fn operands(&self) -> &[&'a str] {
        self.words.get(1..).unwrap_or_default()
    }

    /// Returns whether `git checkout` is given files, and not a branch alone.
    fn overwrites_by_checkout(&self) -> bool {
        let creates = self.options.short('b')
            || self.options.short('B')
            || self.options.long("orphan")
            || self.options.long("track");
        let count = self.operands().len();
        let separated = self.options.dashes_at.is_some_and(|at| count > at);
        let pathlike =
            self.operands().iter().any(|arg| *arg == "." || arg.starts_with("./") || arg.starts_with(":/"));
        !creates && (separated || pathlike || count > 1)
    }

    /// Returns whether another container than those that the same command made is removed. Whatever is no option counts as a
    /// name: `-f` has a value in front of the subcommand only.
    fn removes_others(&self) -> bool {
        let words = self.args.iter().filter(|arg| !arg.starts_with('-'));
        let mut names = words.skip_while(|word| **word == "container").skip(1).peekable();
        self.process.is_open_ended()
            || names.peek().is_none()
            || !names.all(|name| self.made.is_container(name, self.nth))
    }

    /// Returns whether an option or a variable names a registry to which nobody's login belongs that is kept for another one.
    fn asks_foreign_registry(&self) -> bool {
        let variables = self.process.environment().iter();
        let variables = variables
            .filter(|(name, _)| REGISTRIES.iter().any(|known| name.eq_ignore_ascii_case(known)))
            .map(|(_, address)| address.as_str());
        let is_foreign = |address: &str| {
            let host = address.split_once("://").map_or(address, |(_, rest)| rest);
            let host = host.split(['/', '?', '#']).next().unwrap_or(host);
            let host = host.rsplit('@').next().unwrap_or(host).to_ascii_lowercase();
            let host = host.split(':').next().unwrap_or_default();
            !words::is(words::OWN_REGISTRIES, host)
        };
        self.options.values(None, "registry").chain(variables).any(is_foreign)
    }

    fn sets_what_git_runs(&self) -> bool {
        let folder = self.process.cwd().unwrap_or_else(|| self.at.cwd());
        git_settings::run_code(&self.args, self.process.environment(), folder, self.at)
    }

    /// Returns whether `find` starts anywhere but in what a build makes again.
    fn searches_work(&self) -> bool {
        let starts = self.args.iter().skip_while(|arg| FIND_OPTIONS.contains(arg));
        let starts: Vec<_> = starts.take_while(|arg| !arg.starts_with(['-', '(', '!'])).collect();
        starts.is_empty() || !starts.iter().all(|path| self.is_remade(path))
    }

    fn passes(&self, test: Test) -> bool {
        match test {
            Test::ForcedRefspec => self
                .operands()
                .iter()
                .any(|arg| arg.len() > 1 && arg.starts_with('+') && !self.is_leased(arg)),
            Test::DeletingRefspec => self.operands().iter().any(|arg| arg.starts_with(':') && arg.len() > 1),
            Test::CheckoutOverwrites => self.overwrites_by_checkout(),
            Test::RestoreWorktree => {
                let staged = self.options.has('S', "staged");
                let worktree = self.options.has('W', "worktree");
                let off = self.options.long("no-worktree");
                (worktree || !staged)
                    && !off
                    && (!self.operands().is_empty()
                        || self.options.value(None, "pathspec-from-file").is_some())
            }
            Test::CleansWork => {
                self.operands().is_empty() || !self.operands().iter().all(|path| self.is_remade(path))
            }
            Test::NamesSecret => {
                self.operands().iter().any(|path| is_confidential(&self.resolved(path), self.at))
            }
            Test::LinksSecret => {
                let is_secret = |path: &&str| is_confidential(&self.resolved(path), self.at);
                self.words.iter().any(is_secret)
            }
            Test::SearchesWork => self.searches_work(),
            Test::EnvironmentRunsCode => environment::runs_code(self.process, self.at),
            Test::SetsWhatGitRuns => self.sets_what_git_runs(),
            Test::DestructiveSql => self.destroys_by_sql(),
            Test::KillsAll => self.kills_all(),
            Test::NamedPackages => self
                .words
                .iter()
                .skip(1)
                .any(|word| !word.starts_with('.') && !word.contains('=') || word.contains("==")),
            Test::ChangesFooting => footing::changes(self.process, self.at),
            Test::NamesFooting => footing::names(self.process, self.at),
            Test::FillsAboveFooting => footing::fills_above(self.process, self.at),
            Test::CopiesClient => footing::copies_client(self.process),
            Test::MayLoseHooks => footing::may_lose_hooks(self.process, self.at),
            Test::DeletesByLibrary => self.code().any(library::deletes),
            Test::EndsAtService => self.code().any(library::ends_at_service),
            Test::EndsRemotely => remote::ends(self.process, self.at),
            Test::ReleasesRemotely => remote::releases(self.process, self.at),
            Test::SendsMessages => remote::sends(self.process, self.at),
            Test::ChangesProduction => remote::changes_production(self.process, self.at),
            Test::ManyArguments => {
                self.words.len() > 2 || self.words.iter().any(|word| word.contains([STAR, ANY, SET]))
            }
            Test::OutsideArgument => self.words.iter().any(|word| self.leads_out(word)),
            Test::OthersContainer => self.removes_others(),
            Test::OthersRepository => !self.made.is_in_repository(self.process, self.nth, self.at),
            Test::ForeignRegistry => self.asks_foreign_registry(),
            Test::ShowsNoValues => values::are_kept(&self.process.program(), &self.args, &self.options),
            Test::UnknownOption => self.args.iter().any(|arg| arg.starts_with(HOLE)),
            Test::UnknownArgument => self.args.iter().any(|arg| has_hole(arg)),
            Test::StreamedArguments => self.process.is_open_ended() && !self.has_its_code(),
            Test::ProgramInTemp => self
                .process
                .argv()
                .first()
                .is_some_and(|arg| arg.raw().starts_with("/tmp/") || arg.raw().starts_with("/var/tmp/")),
            Test::ProgramWithBlanks => {
                const HARMFUL: [&str; 8] = ["rm", "dd", "mkfs", "shred", "chmod", "chown", "curl", "sudo"];
                let name = self.process.argv().first().map(|arg| arg.raw().trim()).unwrap_or_default();
                let first = name.split(char::is_whitespace).next().unwrap_or_default();
                first != name && HARMFUL.contains(&first)
            }
            Test::ComputedProgram => self
                .process
                .argv()
                .first()
                .is_some_and(|arg| has_hole(arg.raw().rsplit('/').next().unwrap_or_default())),
        }
    }
}

/// Variables that name a registry of packages (npm 10 `config`, Yarn 4).
const REGISTRIES: [&str; 2] = ["npm_config_registry", "yarn_registry"];

/// Programs whose long options have one dash.
const HASHICORP: [&str; 9] =
    ["terraform", "tofu", "terragrunt", "packer", "vault", "consul", "nomad", "boundary", "waypoint"];

/// Options of `find` that stand in front of where it starts.
const FIND_OPTIONS: [&str; 3] = ["-H", "-L", "-P"];

/// Returns whether a word is the one that is wanted; `*` at the end of that stands for any ending.
fn is_called(word: &str, wanted: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(beginning) => {
            word.get(..beginning.len()).is_some_and(|front| front.eq_ignore_ascii_case(beginning))
        }
        None => word.eq_ignore_ascii_case(wanted),
    }
}

/// Does a touch fit the condition?
pub(super) fn touch_fits(
    condition: &TouchCondition,
    touch: &Touch,
    target: Target,
    program: &str,
    at: &Place,
) -> bool {
    let listed = |list: &[String], name: &str| list.iter().any(|item| item == name);
    let below = |prefixes: &[String]| {
        prefixes.iter().any(|prefix| {
            touch
                .resolved
                .strip_prefix(prefix.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || prefix.ends_with('/'))
        })
    };
    let is_footing = || {
        let goes = touch.action == Action::Move || touch.recursive && touch.action == Action::Delete;
        places::is_one(&touch.resolved, at) || goes && places::is_above(&touch.resolved, at)
    };
    (condition.action.is_empty() || condition.action.contains(&touch.action))
        && (condition.class.is_empty() || condition.class.contains(&target.class))
        && (condition.level.is_empty()
            || target.sensitive.is_some_and(|(_, level)| condition.level.contains(&level)))
        && (condition.family.is_empty()
            || target.sensitive.is_some_and(|(id, _)| listed(&condition.family, id)))
        && !target.sensitive.is_some_and(|(id, _)| listed(&condition.not_family, id))
        && condition.recursive.is_none_or(|wanted| wanted == touch.recursive)
        && condition.force.is_none_or(|wanted| wanted == touch.force)
        && condition.searched.is_none_or(|wanted| wanted == touch.searched)
        && condition.streamed.is_none_or(|wanted| wanted == touch.streamed)
        && condition.ends_open.is_none_or(|wanted| wanted == class::ends_open(&touch.resolved))
        && (condition.below.is_empty() || below(&condition.below))
        && !below(&condition.not_below)
        && (condition.ends.is_empty()
            || condition.ends.iter().any(|end| touch.resolved.ends_with(end.as_str())))
        && !condition.not_ends.iter().any(|end| touch.resolved.ends_with(end.as_str()))
        && (condition.program.is_empty() || listed(&condition.program, program))
        && !listed(&condition.not_program, program)
        && (!condition.footing || is_footing())
}

/// Does data of this taint have one of the origins?
pub(super) fn origin_fits(origins: &[Origin], taint: Taint) -> bool {
    origins.iter().any(|origin| match origin {
        Origin::Network => taint.has(Taint::NET),
        Origin::Fetched => taint.has(Taint::FETCHED),
        Origin::Decoded => taint.has(Taint::DECODED),
        Origin::Secret => taint.has(Taint::SECRET),
        Origin::Environment => taint.has(Taint::ENVIRONMENT),
        Origin::Credential => taint.has(Taint::CREDENTIAL),
        Origin::Program => taint.has(Taint::PROGRAM),
        Origin::Unknown => true,
    })
}

/// Does the fact carry the signal?
pub(super) fn signal_of(fact: &backstop_shell::Fact) -> Option<Signal> {
    match fact {
        backstop_shell::Fact::CodeActs { .. } => Some(Signal::CodeActs),
        backstop_shell::Fact::ForkBomb => Some(Signal::ForkBomb),
        backstop_shell::Fact::Endless => Some(Signal::Endless),
        backstop_shell::Fact::NetworkShell { .. } => Some(Signal::NetworkShell),
        backstop_shell::Fact::Obfuscated => Some(Signal::Obfuscated),
        _ => None,
    }
}
