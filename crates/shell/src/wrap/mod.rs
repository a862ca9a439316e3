//! Programs that start another program given in their arguments.
//!
//! The catalogue says which programs those are, and where the command is ([`Starts`]). This module finds it: in a
//! few lines for most programs, with the neighbouring files for programs with a grammar of their own.

mod compose;
mod container;
mod environment;
mod later;
mod remote;
mod terminal;
mod users;
mod windows;

use std::rc::Rc;

use super::data::{Data, Taint};
use super::limits::{self, Bounded};
use super::trace::program_name;
use super::walk::{Shell, slices};
use super::word::has_hole;
use crate::effects::Touch;
use crate::options::{Options, Takes};
use crate::programs::{Does, Flags, Starts, Touches};

/// How a wrapper is called.
#[derive(Clone, Copy)]
struct Call<'a> {
    /// All words of it, as they are reported.
    argv: &'a [String],
    /// The words behind its name.
    args: &'a [String],
    /// What it is called, without folders.
    program: &'a str,
    stdin: &'a Data,
}

impl Shell<'_> {
    /// Follows a wrapper; `None` when `program` is none, or wraps nothing here.
    pub(crate) fn wrapper(&mut self, argv: &[String], program: &str, stdin: &Data) -> Option<Data> {
        let args = argv.get(1..).unwrap_or_default();
        let call = Call { argv, args, program, stdin };
        let programs = self.programs;
        match programs.starts(program)? {
            Starts::AsUser => self.sudo(call),
            Starts::OtherUser => self.su(call),
            Starts::Environment => self.env(call),
            Starts::Lock => self.flock(call),
            Starts::EachLine => Some(self.xargs(argv, args, stdin)),
            Starts::EachJob => Some(self.parallel(argv, args, stdin)),
            Starts::EachFound => Some(self.find(argv, args, stdin)),
            Starts::EachNamed => self.fd(argv, args, stdin),
            Starts::SecureShell => self.ssh(call),
            Starts::Mosh => self.mosh(call),
            Starts::Container => {
                self.compose(args, program, stdin);
                self.container(call)
            }
            Starts::Pod => self.kubectl(call),
            Starts::Terminal => self.terminal(call),
            Starts::Queued => self.queued(call),
            Starts::Crontab => self.crontab(call),
            Starts::SentCommands => self.sent_commands(call),
            Starts::CommandPrompt => self.command_prompt(call),
            Starts::Remote(operands) => {
                let rest = behind_options(args, programs.takes(program), *operands)?;
                self.remote(argv, rest, program, stdin)
            }
            Starts::RemoteBehind(words) => {
                let at = args.iter().position(|arg| words.contains(arg))? + 1;
                let rest = behind_options(args.get(at..)?, programs.takes(program), 0)?;
                self.remote(argv, rest, program, stdin)
            }
            starts => match self.text_in(starts, args, program) {
                Some(texts) => Some(self.texts(argv, &texts, program, stdin)),
                None => self.words(starts, call),
            },
        }
    }

    /// Returns the texts for a shell among the arguments, where they stand as the catalogue says; `None` if there is none.
    fn text_in(&self, starts: &Starts, args: &[String], program: &str) -> Option<Vec<String>> {
        let takes = self.programs.takes(program);
        let given = |options: &Flags, args: &[String], takes: Takes<'_>| {
            Some(vec![options.value_in(&Options::parse(&slices(args), takes))?.to_owned()])
        };
        let joined = |words: &[String]| (!words.is_empty()).then(|| vec![words.join(" ")]);
        match starts {
            Starts::Text(options) => given(options, args, takes),
            Starts::TextOrWords(options) => given(options, args, takes.until_operand()),
            Starts::TextUnder { word, options } if args.contains(word) => given(options, args, takes),
            Starts::Subcommand { names, values, text } => {
                let rest = behind_subcommand(args, names)?;
                given(text, rest, values.takes().until_operand())
            }
            Starts::TextBehind(words) => {
                let at = args.iter().position(|arg| words.contains(arg))?;
                joined(args.get(at + 1..)?)
            }
            Starts::Joined(operands) => {
                let rest = behind_options(args, takes, *operands)?;
                joined(rest.strip_prefix(&["-c".to_owned()]).unwrap_or(rest))
            }
            Starts::Texts => Some(args.iter().filter(|arg| !arg.starts_with('-')).cloned().collect()),
            _ => None,
        }
    }

    /// Runs the command among the arguments that stands where the catalogue says.
    fn words(&mut self, starts: &Starts, call: Call<'_>) -> Option<Data> {
        let Call { argv, args, program, stdin } = call;
        let takes = self.programs.takes(program);
        let rest = match starts {
            Starts::Somewhere => return self.loose(call),
            Starts::WordsBut(switches) => {
                let is_own = |arg: &&String| switches.iter().any(|switch| arg.eq_ignore_ascii_case(switch));
                args.iter().filter(|arg| !is_own(arg)).cloned().collect()
            }
            Starts::After(operands) => behind_options(args, takes, *operands)?.to_vec(),
            Starts::TextOrWords(_) => behind_options(args, takes, 0)?.to_vec(),
            Starts::Behind { words, operands } => {
                let at = args.iter().position(|arg| words.contains(arg))? + 1;
                behind_options(args.get(at..)?, takes, *operands)?.to_vec()
            }
            Starts::Subcommand { names, values, .. } => {
                let rest = behind_subcommand(args, names)?;
                // The program itself is known, and what it starts is nothing then.
                behind_options(rest, values.takes(), 0).unwrap_or_default().to_vec()
            }
            _ => return None,
        };
        if rest.is_empty() && !matches!(starts, Starts::Subcommand { .. } | Starts::Behind { .. }) {
            return None;
        }
        self.touch_by_options(args, program);
        Some(self.inner(argv, &rest, program, stdin))
    }

    /// Reports the files that are named by options of a wrapper.
    fn touch_by_options(&mut self, args: &[String], program: &str) {
        let programs = self.programs;
        if let Some(Touches::Operands(operands)) = programs.touches(program) {
            let refs = slices(args);
            let given = Options::parse(&refs, programs.takes(program).until_operand());
            for value in operands.values.values_in(&given) {
                self.touch_by(None, Touch::new(operands.action, value));
            }
        }
    }

    /// A command somewhere among the options of another; `None` when no word names one.
    fn loose(&mut self, call: Call<'_>) -> Option<Data> {
        let Call { argv, args, program, stdin } = call;
        let programs = self.programs;
        let known = args.iter().position(|arg| super::code::is_command(programs, &program_name(arg)));
        // A word before it, or any if none is known, could be a program that nobody here knows.
        let unknown = (0..known.unwrap_or(args.len()))
            .filter(|at| args.get(*at).is_some_and(|arg| !arg.starts_with('-')));
        let unknown = Bounded::of(&limits::UNKNOWN_STARTS, unknown).reported(&mut self.trace);
        let mut output = None;
        for at in unknown.into_iter().chain(known) {
            let printed = self.inner(argv, args.get(at..).unwrap_or_default(), program, stdin);
            output.get_or_insert_with(Data::empty).or(&printed);
        }
        output
    }

    /// Runs `work` below `program`.
    pub(super) fn pushed<T>(&mut self, program: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        self.via.push(program.to_owned());
        let outer = self.mounts.clone();
        if let Some(mounts) = outer.as_ref().filter(|_| !self.stays_inside(program)) {
            // It may lead out of the container: to another machine, root or container.
            self.mounts = Some(Rc::new(mounts.as_ref().clone().of_the_machine()));
        }
        let result = work(self);
        self.mounts = outer;
        self.via.pop();
        result
    }

    /// Returns whether what `program` starts runs in the container in which it runs itself.
    fn stays_inside(&self, program: &str) -> bool {
        // Words of the shell's own language that run a command.
        matches!(program, "builtin" | "command" | "eval" | "exec")
            || self.programs.does(program, Does::SpeaksShell)
            || self.programs.does(program, Does::StaysInside)
    }

    /// Reports the wrapper and runs the inner vector.
    fn inner(&mut self, argv: &[String], rest: &[String], program: &str, stdin: &Data) -> Data {
        self.emit(argv);
        self.pushed(program, |shell| {
            shell.in_subshell(|shell| {
                // Wrappers start programs, they do not call functions.
                shell.state.functions.clear();
                shell.dispatch(rest, stdin)
            })
        })
    }

    /// Reports the wrapper and runs text that a shell will read.
    fn text(&mut self, argv: &[String], text: &str, program: &str) -> Data {
        let process = self.emit(argv);
        let data = Data::text(text).tainted(self.word_taint);
        self.in_subshell(|shell| shell.run_code(&data, &[], Some(process), program))
    }

    /// Reports the wrapper and runs each of the texts that a shell will read.
    fn texts(&mut self, argv: &[String], texts: &[String], program: &str, stdin: &Data) -> Data {
        if let [text] = texts {
            return self.text(argv, text, program);
        }
        self.emit(argv);
        let mut output = Data::empty();
        for text in texts {
            output.then(&self.pushed(program, |shell| shell.run_text(text, stdin)));
        }
        output
    }

    fn text_data(&mut self, argv: &[String], data: &Data, program: &str) -> Data {
        let process = self.emit(argv);
        if data.taint.has(Taint::INPUT) {
            return Data::empty();
        }
        self.in_subshell(|shell| shell.run_code(data, &[], Some(process), program))
    }

    /// Runs words that are handed to another machine: put together for a shell there, or as they are.
    fn remote(&mut self, argv: &[String], words: &[String], program: &str, stdin: &Data) -> Option<Data> {
        if words.is_empty() {
            return None;
        }
        self.emit(argv);
        let output = self.pushed(program, |shell| {
            let joined = shell.in_subshell(|shell| shell.run_text(&words.join(" "), stdin));
            let mut output = joined;
            if words.len() > 1 {
                output.then(&shell.in_subshell(|shell| {
                    shell.state.functions.clear();
                    shell.dispatch(words, stdin)
                }));
            }
            output
        });
        Some(Data::unknown(output.taint | Taint::NET))
    }

    /// Does `work` in another folder.
    pub(crate) fn with_directory<T>(
        &mut self,
        directory: Option<String>,
        work: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let outer = self.state.cwd.clone();
        if let Some(directory) = directory {
            self.state.cwd = if has_hole(&directory) { None } else { self.folder_at(&directory) };
        }
        let result = work(self);
        self.state.cwd = outer;
        result
    }

    fn flock(&mut self, call: Call<'_>) -> Option<Data> {
        let Call { argv, args, stdin, .. } = call;
        let refs = slices(args);
        let options = Options::parse(&refs, self.programs.takes("flock").until_operand());
        let rest = args.get(options.consumed + 1..)?;
        match rest.split_first() {
            Some((flag, rest)) if flag == "-c" || flag == "--command" => {
                let text = rest.first()?.clone();
                Some(self.text(argv, &text, "flock"))
            }
            Some(_) => Some(self.inner(argv, rest, "flock", stdin)),
            None => None,
        }
    }
}

/// Returns the words behind the options of a program and so many operands; `None` where there are fewer.
fn behind_options<'a>(args: &'a [String], takes: Takes<'_>, operands: usize) -> Option<&'a [String]> {
    args.get(Options::parse(&slices(args), takes.until_operand()).consumed + operands..)
}

/// Returns the words behind the first word that is no option, if that is one of the subcommands.
fn behind_subcommand<'a>(args: &'a [String], names: &[String]) -> Option<&'a [String]> {
    let at = args.iter().position(|arg| !arg.starts_with('-'))?;
    args.get(at).filter(|sub| names.contains(sub))?;
    args.get(at + 1..)
}

/// Returns whether a variable can be called that.
fn is_variable(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
