//! Code that a shell stores to run later: completions, key bindings, hooks, callbacks, history.
//!
//! Nobody knows when later is, so the code is run when it is stored. A function with a name that the shell calls by itself
//! (`precmd`, `TRAPINT`, `command_not_found_handle`) is run when it is defined.

use std::rc::Rc;

use brush_parser::ast;

use super::data::{Data, Taint};
use super::state::Value;
use super::walk::Shell;
use super::word::HOLE;
use crate::options::{Options, Takes};

/// The last command of the history, as far as this command put it there.
const HISTORY: &str = "\u{0}history";
/// Functions that shells call by themselves (zshmisc(1), bash(1)).
const HOOKS: [&str; 8] = [
    "precmd",
    "preexec",
    "chpwd",
    "periodic",
    "zshaddhistory",
    "zshexit",
    "command_not_found_handle",
    "command_not_found_handler",
];

impl Shell<'_> {
    /// Runs what a builtin keeps for later; false where it keeps nothing.
    pub(super) fn keep_code(&mut self, name: &str, args: &[String], stdin: &Data) -> bool {
        let refs = super::walk::slices(args);
        match name {
            "complete" | "compgen" => {
                let options = Options::parse(&refs, Takes::values("oAGWFCXPS", &[]));
                for code in options.values(Some('C'), "").chain(options.values(Some('F'), "")) {
                    self.state.hooks.push(code.to_owned());
                    // It is given the words that are to be completed.
                    self.run_kept(code, name);
                    self.run_kept(&format!("{code} {HOLE} {HOLE} {HOLE}"), name);
                }
                for words in options.values(Some('W'), "") {
                    let words = words.to_owned();
                    self.in_subshell(|shell| shell.heredoc(&words));
                }
            }
            "bind" => {
                let options = Options::parse(&refs, Takes::values("mqufrx", &[]));
                for binding in options.values(Some('x'), "") {
                    self.run_kept(binding.split_once(':').map_or("", |(_, code)| code), name);
                }
            }
            "mapfile" | "readarray" => {
                let options = Options::parse(&refs, Takes::values("dnOsuCc", &[]));
                for code in options.values(Some('C'), "") {
                    self.run_kept(&format!("{code} {HOLE} {HOLE}"), name);
                }
            }
            "add-zsh-hook" => {
                for function in refs.iter().filter(|arg| !arg.starts_with('-')).skip(1) {
                    self.state.hooks.push((*function).to_owned());
                    self.run_kept(function, name);
                }
            }
            "emulate" => {
                let options = Options::parse(&refs, Takes::values("co", &[]));
                for code in options.values(Some('c'), "") {
                    let data = Data::text(code).tainted(self.word_taint);
                    self.run_here(&data, None, name, stdin);
                }
            }
            "sched" => self.run_kept(&args.get(1..).unwrap_or_default().join(" "), name),
            "enable" if refs.contains(&"-f") => {
                let library = refs.iter().skip_while(|arg| **arg != "-f").nth(1).copied().unwrap_or_default();
                let from = self.content_of(library).taint.without(Taint::FILE);
                self.run_code(&Data::unknown(from | Taint::PROGRAM), &[], None, name);
            }
            "history" => match refs.as_slice() {
                ["-s", words @ ..] => self.state.assign(HISTORY, Value::Text(words.join(" "))),
                ["-r" | "-n" | "-a", file, ..] => {
                    let text = self.content_of(file).as_word();
                    self.state.assign(HISTORY, Value::Text(text));
                }
                _ => return false,
            },
            "fc" if !refs.first().is_some_and(|arg| arg.starts_with("-l")) => self.run_history(&refs),
            _ => return false,
        }
        true
    }

    /// Runs the last command again, behind an editor or without one.
    fn run_history(&mut self, args: &[&str]) {
        let options = Options::parse(args, Takes::values("e", &[]));
        let own = ["FCEDIT", "EDITOR"].map(|name| self.environment_of(name));
        let editor = options.value(Some('e'), "").map(str::to_owned);
        let editor = editor.or_else(|| own.into_iter().find(|editor| !editor.is_empty()));
        if let Some(editor) = editor.filter(|editor| editor != "-") {
            self.run_kept(&format!("{editor} {HOLE}"), "fc");
        }
        if let Some(text) = self.state.assigned(HISTORY).map(|text| text.scalar().to_owned()) {
            self.run_kept(&text, "fc");
        }
    }

    fn run_kept(&mut self, code: &str, name: &str) {
        let data = Data::text(code).tainted(self.word_taint);
        self.in_subshell(|shell| shell.run_code(&data, &[], None, name));
    }

    /// Calls a function that was just defined, where the shell does so by itself.
    pub(super) fn call_hook(&mut self, name: &str, definition: &Rc<ast::FunctionDefinition>) {
        let is_trap = name.strip_prefix("TRAP").is_some_and(|signal| {
            !signal.is_empty() && signal.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
        });
        if is_trap || HOOKS.contains(&name) || self.state.hooks.iter().any(|hook| hook == name) {
            // Some are told what they are called for.
            let told = name.starts_with("command_not_found") || matches!(name, "preexec" | "zshaddhistory");
            let words = if told { vec![HOLE.to_string()] } else { Vec::new() };
            self.in_subshell(|shell| shell.call(name, definition, &words, &Data::session_input()));
        }
    }
}
