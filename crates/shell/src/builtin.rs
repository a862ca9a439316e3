//! Builtins that change the state of the shell or run other commands.

use super::data::{Data, Taint};
use super::limits::{self, Bounded};
use super::state::Value;
use super::trace::{Fact, UnknownKind};
use super::walk::{Shell, slices};
use super::word::{HOLE, has_hole};
use crate::options::{Options, Takes};

impl Shell<'_> {
    /// Runs a builtin; `None` when `name` is none.
    pub(crate) fn builtin(&mut self, name: &str, args: &[String], stdin: &Data) -> Option<Data> {
        match name {
            "cd" | "pushd" | "chdir" => self.change_directory(args),
            "popd" => self.state.cwd = None,
            "eval" => return Some(self.eval(args)),
            "source" | "." => return Some(self.source(args, stdin)),
            "exec" => return Some(self.exec(args, stdin)),
            "builtin" | "nocorrect" | "noglob" | "-" | "--" => return Some(self.dispatch(args, stdin)),
            "command" => return Some(self.command(args, stdin)),
            "time" | "!" => {
                let skip = args.iter().take_while(|arg| arg.starts_with('-') || *arg == "!").count();
                return Some(self.dispatch(args.get(skip..).unwrap_or_default(), stdin));
            }
            "unset" => {
                if args.iter().any(|arg| arg.starts_with("HIST")) {
                    self.emit_plain(name, args);
                }
                let functions = args.iter().any(|arg| arg == "-f");
                for arg in args.iter().filter(|arg| !arg.starts_with('-')) {
                    if functions {
                        self.state.functions.remove(arg);
                    } else {
                        self.state.unset(arg);
                    }
                }
            }
            "alias" => {
                for (name, text) in args.iter().filter_map(|arg| arg.split_once('=')) {
                    self.state.aliases.insert(name.to_owned(), text.to_owned());
                }
            }
            "unalias" => {
                for arg in args {
                    self.state.aliases.remove(arg);
                }
            }
            "read" => self.read_builtin(args, stdin),
            "mapfile" | "readarray" => self.mapfile(args, stdin),
            "set" => {
                if let Some(at) = args.iter().position(|arg| arg == "--") {
                    self.state.positional = args.get(at + 1..).unwrap_or_default().to_vec();
                } else if args.is_empty() {
                    return Some(Data::unknown(Taint::ENVIRONMENT));
                }
            }
            "shift" => {
                let by =
                    args.first().and_then(|n| n.parse().ok()).unwrap_or(1).min(self.state.positional.len());
                self.state.positional.drain(..by);
            }
            "trap" => {
                if let Some(code) = args.iter().find(|arg| !arg.starts_with('-')) {
                    let data = Data::text(code).tainted(self.word_taint);
                    self.run_code(&data, &[], None, "trap");
                }
            }
            "printf" if args.first().is_some_and(|arg| arg == "-v") => {
                let text = self.output_of("printf", args.get(2..).unwrap_or_default(), stdin);
                if let Some(name) = args.get(1) {
                    self.state.mark(name, self.word_taint);
                    self.state.assign(name, Value::Text(text.as_word()));
                }
            }
            "let" => {
                for arg in args {
                    self.arithmetic(arg);
                }
            }
            "wait" => self.pending = if self.pending >= 1000 { 1000 } else { 0 },
            "sleep" => {
                self.pending = 0;
                self.emit_plain("sleep", args);
            }
            "export" | "declare" | "typeset" | "local" | "readonly" => {
                if args.iter().any(|arg| arg.starts_with("HIST")) {
                    let value = self.state.value("HISTFILE", None);
                    self.emit_plain(name, &[args, &[format!("HISTFILE={}", value.scalar())]].concat());
                }
                if args.iter().all(|arg| arg.starts_with('-')) {
                    return Some(Data::unknown(Taint::ENVIRONMENT));
                }
            }
            "hash" => {
                if let [flag, path, name, ..] = args
                    && flag == "-p"
                {
                    self.state.aliases.insert(name.clone(), path.clone());
                }
            }
            "return" | "exit" | "break" | "continue" | "shopt" | "ulimit" | "umask" | "jobs" | "fg"
            | "bg" | "disown" | ":" | "true" | "false" | "getopts" | "times" | "caller" | "enable"
            | "bind" | "complete" | "compgen" => {}
            _ => return None,
        }
        Some(Data::empty())
    }

    fn emit_plain(&mut self, name: &str, args: &[String]) {
        let mut argv = vec![name.to_owned()];
        argv.extend(args.iter().cloned());
        self.emit(&argv);
    }

    fn change_directory(&mut self, args: &[String]) {
        let target = args.iter().find(|arg| !arg.starts_with('-') || *arg == "-");
        self.state.cwd = match target.map(String::as_str) {
            None => {
                let home = self.state.value("HOME", Some(self.place.home()));
                Some(home.scalar().to_owned())
            }
            Some("-") => None,
            Some(path) if has_hole(path) => None,
            Some(path) => {
                let is_relative = !path.starts_with('/');
                match (&self.state.cwd, is_relative) {
                    (None, true) => None,
                    _ => Some(self.resolve(path)),
                }
            }
        };
    }

    fn eval(&mut self, args: &[String]) -> Data {
        // What is evaluated many times over means what it means after a few.
        let again = args.iter().take_while(|arg| *arg == "eval").count().saturating_sub(2);
        let args = args.get(again..).unwrap_or_default();
        let args = match args.split_first() {
            Some((first, rest)) if first == "--" => rest,
            _ => args,
        };
        let text = args.join(" ");
        let data = Data::text(&text).tainted(self.word_taint);
        let positional = self.state.positional.clone();
        self.run_code(&data, &positional, None, "eval")
    }

    fn source(&mut self, args: &[String], stdin: &Data) -> Data {
        let options = Options::parse(&slices(args), Takes::wrapper("p", &[]));
        let Some((path, rest)) = options.operands.split_first() else {
            // Without a path some shells read what is piped in.
            let piped = stdin.taint.has(Taint::NET) || stdin.taint.has(Taint::DECODED);
            return if piped { self.run_code(stdin, &[], None, "source") } else { Data::empty() };
        };
        let rest: Vec<String> = rest.iter().map(|arg| (*arg).to_owned()).collect();
        if has_hole(path) {
            self.state.foreign = true;
            self.trace.unknown(UnknownKind::Code, "a script that is not known is sourced", false);
            self.trace.facts.push(Fact::RunsCode { process: None, from: self.word_taint });
            return Data::unknown(Taint::PROGRAM);
        }
        let path = (*path).to_owned();
        let data =
            if matches!(path.as_str(), "/dev/stdin" | "-") { stdin.clone() } else { self.content_of(&path) };
        if data.taint.without(Taint::SECRET) == Taint::FILE && data.marked().is_none() {
            self.state.foreign = true;
            return Data::unknown(Taint::PROGRAM);
        }
        if data.taint.has(Taint::INPUT) && data.marked().is_none() {
            return Data::unknown(Taint::PROGRAM);
        }
        self.run_code(&data, &rest, None, "source")
    }

    fn exec(&mut self, args: &[String], stdin: &Data) -> Data {
        let refs = slices(args);
        let options = Options::parse(&refs, Takes::wrapper("a", &[]));
        self.dispatch(args.get(options.consumed..).unwrap_or_default(), stdin)
    }

    fn command(&mut self, args: &[String], stdin: &Data) -> Data {
        let refs = slices(args);
        let options = Options::parse(&refs, Takes::wrapper("", &[]));
        if options.short('v') || options.short('V') {
            return Data::unknown(Taint::NONE);
        }
        let functions = std::mem::take(&mut self.state.functions);
        let output = self.dispatch(args.get(options.consumed..).unwrap_or_default(), stdin);
        self.state.functions.extend(functions);
        output
    }

    /// `mapfile -t lines`: an array of the lines of the input.
    fn mapfile(&mut self, args: &[String], stdin: &Data) {
        let refs = slices(args);
        let options = Options::parse(&refs, Takes::values("dnOsuCc", &[]));
        let name = options.operands.first().copied().unwrap_or("MAPFILE");
        let lines = match stdin.marked() {
            Some(text) => {
                Bounded::of(&limits::LINES, text.lines().map(str::to_owned)).reported(&mut self.trace)
            }
            None => vec![HOLE.to_string()],
        };
        self.state.mark(name, stdin.taint);
        self.state.assign(name, Value::List(lines));
    }

    fn read_builtin(&mut self, args: &[String], stdin: &Data) {
        let refs = slices(args);
        let options = Options::parse(&refs, Takes::values("adinNptuCcOs", &[]));
        let line = stdin.marked().map(|text| text.split('\n').next().unwrap_or_default().to_owned());
        let mut words: Vec<String> = match &line {
            Some(line) => line.split_whitespace().map(str::to_owned).collect(),
            None => Vec::new(),
        };
        let names: Vec<&str> = options.operands.clone();
        if let Some(name) = options.value(Some('a'), "") {
            let list = if line.is_some() { words } else { vec![HOLE.to_string()] };
            self.state.mark(name, stdin.taint);
            self.state.assign(name, Value::List(list));
            return;
        }
        let names = if names.is_empty() { vec!["REPLY"] } else { names };
        let count = names.len();
        for (at, name) in names.into_iter().enumerate() {
            let value = match (&line, at + 1 == count) {
                (None, _) => HOLE.to_string(),
                (Some(_), true) => words.join(" "),
                (Some(_), false) if words.is_empty() => String::new(),
                (Some(_), false) => words.remove(0),
            };
            self.state.mark(name, stdin.taint);
            self.state.assign(name, Value::Text(value));
        }
    }
}
