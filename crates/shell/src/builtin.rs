//! Builtins that change the state of the shell or run other commands.

use super::data::{Data, Taint};
use super::dialect::Dialect;
use super::redirect::descriptor_in;
use super::simple::{is_key, keyed};
use super::state::Value;
use super::trace::{Fact, UnknownKind};
use super::walk::{Shell, slices};
use super::word::{GAP, HOLE, has_hole, is_open};
use crate::options::{Options, Takes};

impl Shell<'_> {
    /// Runs a builtin; `None` when `name` is none.
    pub(crate) fn builtin(&mut self, name: &str, args: &[String], stdin: &Data) -> Option<Data> {
        let keeps = self.keep_code(name, args, stdin);
        match name {
            "cd" | "chdir" => self.change_directory(args),
            "pushd" | "popd" => self.stack(name, args),
            "eval" => return Some(self.eval(args, stdin)),
            "source" | "." => return Some(self.source(args, stdin)),
            "exec" => {
                self.rests += usize::from(!args.is_empty());
                return Some(self.exec(args, stdin));
            }
            "builtin" | "nocorrect" | "noglob" | "-" | "--" => return Some(self.dispatch(args, stdin)),
            "command" => return Some(self.command(args, stdin)),
            "!" => {
                let skip = args.iter().take_while(|arg| *arg == "!").count();
                return Some(self.dispatch(args.get(skip..).unwrap_or_default(), stdin));
            }
            "unset" => {
                if args.iter().any(|arg| arg.starts_with("HIST")) {
                    self.emit_plain(name, args);
                }
                self.unset(args);
            }
            "alias" => {
                let of_endings = args.first().is_some_and(|flag| flag == "-s");
                for (name, text) in args.iter().filter_map(|arg| arg.split_once('=')) {
                    let name = if of_endings { format!(".{name}") } else { name.to_owned() };
                    self.state.alias(&name, text.to_owned());
                }
            }
            "repeat" => return Some(self.dispatch(args.get(1..).unwrap_or_default(), stdin)),
            "print" => return Some(self.print(args)),
            "read" => {
                // Whoever waits for somebody to type is in no hurry.
                self.rests += usize::from(stdin.taint.has(Taint::INPUT));
                self.read_builtin(args, stdin);
            }
            "mapfile" | "readarray" => self.mapfile(args, stdin),
            "set" => {
                if args.is_empty() {
                    return Some(Data::unknown(Taint::ENVIRONMENT));
                }
                self.set(args);
            }
            "shift" => self.shift(args),
            "trap" => self.trap(args),
            "printf" if args.first().is_some_and(|arg| arg == "-v") => {
                let text = self.output_of("printf", args.get(2..).unwrap_or_default(), stdin);
                if let Some(name) = args.get(1) {
                    let text = self.settled(&text);
                    self.state.mark(name, self.word_taint);
                    self.assign_named(name, Value::Text(text));
                }
            }
            "let" => {
                for arg in args {
                    self.arithmetic(arg);
                }
            }
            "wait" => {
                self.rests += 1;
                self.pending = if self.pending >= 1000 { 1000 } else { 0 };
            }
            "sleep" => {
                self.pending = 0;
                self.rests += 1;
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
                self.declared_words(name, args);
            }
            "hash" => {
                if let [flag, path, name, ..] = args
                    && flag == "-p"
                {
                    self.state.alias(name, path.clone());
                }
            }
            "return" | "break" | "continue" => {
                self.rests += usize::from(name != "continue");
                self.leave_block(name);
            }
            "exit" => {
                self.rests += 1;
                let farewells = self.state.clone();
                self.say_farewell();
                self.state = farewells;
            }
            "unalias" => {}
            "shopt" if args.iter().any(|arg| arg == "lastpipe") => self.state.last_pipe = true,
            "shopt" | "ulimit" | "umask" | "jobs" | "fg" | "bg" | "disown" | ":" | "true" | "false"
            | "getopts" | "times" | "caller" | "enable" | "bind" | "complete" | "compgen" => {}
            _ if keeps => {}
            _ => return None,
        }
        Some(Data::empty())
    }

    /// `print` of shells that have it; in others it is a program, of which is not known what it prints.
    fn print(&mut self, args: &[String]) -> Data {
        self.emit_plain("print", args);
        let refs = slices(args);
        let options = Options::parse(&refs, Takes::values("Cfuvx", &[]));
        let text = options.operands.join(" ");
        if options.short('p') {
            let words: Vec<String> = options.operands.iter().map(|word| (*word).to_owned()).collect();
            self.print_to_coprocess(&words);
        }
        if options.short('P') {
            self.prompt(&text);
        }
        if options.short('s') {
            self.keep_code("history", &["-s".to_owned(), text.clone()], &Data::empty());
        }
        Data::text(text + "\n").or_anything()
    }

    fn emit_plain(&mut self, name: &str, args: &[String]) {
        let mut argv = vec![name.to_owned()];
        argv.extend(args.iter().cloned());
        self.emit(&argv);
    }

    /// `cd`, which remembers where it was.
    fn change_directory(&mut self, args: &[String]) {
        let target = args.iter().find(|arg| !arg.starts_with('-') || *arg == "-");
        let before = self.state.cwd.clone();
        self.state.cwd = match target.map(String::as_str) {
            None => {
                let home = self.state.value("HOME", Some(self.place.home()));
                Some(home.scalar().to_owned())
            }
            Some("-") => self.place_before(),
            Some(path) => {
                let path = self.searched_folder(path);
                self.folder(&path)
            }
        };
        let before = before.unwrap_or_else(|| HOLE.to_string());
        self.state.forget("PWD");
        self.state.assign("OLDPWD", Value::Text(before));
    }

    /// A folder by its path, if that is known.
    fn folder(&mut self, path: &str) -> Option<String> {
        let known = !has_hole(path) && (path.starts_with('/') || self.state.cwd.is_some());
        if known { self.folder_at(path) } else { None }
    }

    /// Returns the folder that `cd -` goes to.
    fn place_before(&mut self) -> Option<String> {
        self.settle("OLDPWD");
        let before = self.state.assigned("OLDPWD")?.scalar().to_owned();
        self.folder(&before)
    }

    /// `pushd` and `popd`: folders to come back to, the next one last.
    fn stack(&mut self, name: &str, args: &[String]) {
        let mut folders = match self.state.assigned(FOLDERS) {
            Some(Value::List(list)) => list.clone(),
            _ => Vec::new(),
        };
        let before = self.state.cwd.clone().unwrap_or_else(|| HOLE.to_string());
        let target = args.iter().find(|arg| !arg.starts_with('-')).cloned();
        if args.iter().any(|arg| is_turn(arg)) {
            // The whole stack is turned.
            folders = vec![HOLE.to_string()];
            self.state.cwd = None;
        } else if name == "popd" {
            self.state.cwd = folders.pop().and_then(|folder| self.folder(&folder));
        } else {
            let to = target.or_else(|| folders.pop());
            self.state.cwd = to.and_then(|to| self.folder(&to));
            folders.push(before.clone());
        }
        self.state.assign(FOLDERS, Value::List(folders));
        self.state.forget("PWD");
        self.state.assign("OLDPWD", Value::Text(before));
    }

    /// A folder of the stack, counted from the working directory or from the other end.
    pub(super) fn stacked(&self, count: usize, from_end: bool) -> String {
        let folders = match self.state.assigned(FOLDERS) {
            Some(Value::List(list)) => list.as_slice(),
            _ => &[],
        };
        let at = if from_end { Some(count) } else { folders.len().checked_sub(count) };
        let here = || self.state.cwd.clone();
        let folder = match at {
            Some(at) if at == folders.len() => here(),
            at => at.and_then(|at| folders.get(at).cloned()),
        };
        folder.unwrap_or_else(|| HOLE.to_string())
    }

    /// Returns where `cd` goes: it looks in the folders of `CDPATH` first, of which it is not known which have such a folder.
    fn searched_folder(&mut self, path: &str) -> String {
        if path.starts_with(['/', '.', '~']) || path.is_empty() {
            return path.to_owned();
        }
        let set = self.environment_of("CDPATH");
        let list = match self.state.assigned("cdpath") {
            Some(Value::List(list)) => list.clone(),
            _ => Vec::new(),
        };
        let folders = set.split(':').filter(|_| !set.is_empty()).map(str::to_owned).chain(list);
        let mut found: Vec<String> = folders
            .map(|folder| match folder.as_str() {
                "" | "." => path.to_owned(),
                folder => format!("{folder}/{path}"),
            })
            .collect();
        found.push(path.to_owned());
        found.dedup();
        let way = self.decide(found.len());
        way.and_then(|way| found.into_iter().nth(way)).unwrap_or_else(|| HOLE.to_string())
    }

    fn eval(&mut self, args: &[String], stdin: &Data) -> Data {
        // What is evaluated many times over means what it means after a few.
        let again = args.iter().take_while(|arg| *arg == "eval").count().saturating_sub(2);
        let args = args.get(again..).unwrap_or_default();
        let args = match args.split_first() {
            Some((first, rest)) if first == "--" => rest,
            _ => args,
        };
        let text = args.join(" ");
        let data = Data::text(&text).tainted(self.word_taint);
        self.run_here(&data, None, "eval", stdin)
    }

    fn source(&mut self, args: &[String], stdin: &Data) -> Data {
        let options = Options::parse(&slices(args), Takes::wrapper("p", &[]));
        let Some((path, rest)) = options.operands.split_first() else {
            // Without a path some shells read what is piped in.
            let piped = stdin.taint.has(Taint::NET) || stdin.taint.has(Taint::DECODED);
            return if piped { self.run_code(stdin, &[], None, "source") } else { Data::empty() };
        };
        let rest: Vec<String> = rest.iter().map(|arg| (*arg).to_owned()).collect();
        let opened = descriptor_in(&self.resolve(path)).is_some();
        if has_hole(path) && !opened {
            self.state.foreign = true;
            self.trace.unknown(UnknownKind::Code, "a script that is not known is sourced", false);
            self.trace.facts.push(Fact::RunsCode { process: None, from: self.word_taint });
            return Data::unknown(Taint::PROGRAM);
        }
        let path = (*path).to_owned();
        // What is sourced is gone from the input.
        let own =
            path == "-" || descriptor_in(&self.resolve(&path)).is_some_and(|fd| fd == "0" || has_hole(fd));
        let rest_of_input = if own { Data::session_input() } else { stdin.clone() };
        let data = if path == "-" { stdin.clone() } else { self.program_text(&path) };
        if data.taint.without(Taint::SECRET) == Taint::FILE && data.marked().is_none() {
            self.state.foreign = true;
            return Data::unknown(Taint::PROGRAM);
        }
        if data.taint.has(Taint::INPUT) && data.marked().is_none() {
            return Data::unknown(Taint::PROGRAM);
        }
        // Without words of its own, or in a shell that gives it none, it sees those of the shell.
        if rest.is_empty() || self.differs(Dialect::Dash) {
            return self.in_function(|shell| shell.run_here(&data, None, "source", &rest_of_input));
        }
        let data = data.clone();
        self.in_function(|shell| shell.run_code(&data, &rest, None, "source"))
    }

    fn exec(&mut self, args: &[String], stdin: &Data) -> Data {
        self.moved = true;
        let refs = slices(args);
        let options = Options::parse(&refs, Takes::wrapper("a", &[]));
        self.dispatch(args.get(options.consumed..).unwrap_or_default(), stdin)
    }

    fn command(&mut self, args: &[String], stdin: &Data) -> Data {
        let refs = slices(args);
        let options = Options::parse(&refs, Takes::wrapper("", &[]));
        if options.short('v') || options.short('V') {
            // It may be a function, lie elsewhere, or not be there at all.
            let named = args.last().filter(|name| !name.starts_with('-') && !has_hole(name));
            return named.map_or_else(
                || Data::unknown(Taint::NONE),
                |name| Data::text(format!("/usr/bin/{name}\n")).or_anything(),
            );
        }
        let functions = std::mem::take(&mut self.state.functions);
        let output = self.dispatch(args.get(options.consumed..).unwrap_or_default(), stdin);
        self.state.functions.extend(functions);
        output
    }

    /// Forgets variables, elements of arrays, or functions.
    fn unset(&mut self, args: &[String]) {
        let functions = args.iter().any(|arg| arg == "-f");
        for arg in args.iter().filter(|arg| !arg.starts_with('-')) {
            if functions {
                self.state.functions.remove(arg);
            } else if let Some((name, index)) = arg.strip_suffix(']').and_then(|arg| arg.split_once('[')) {
                self.unset_element(name, index);
            } else if self.state.is_frozen(arg) {
                self.state.blur(arg);
            } else if self.state.raw(arg).is_none() && self.state.functions.contains_key(arg) {
                // Where there is no such variable, it may be the function.
                if self.decide_whether() == Some(true) {
                    self.state.functions.remove(arg);
                }
            } else {
                self.state.unset(arg);
            }
        }
    }

    fn unset_element(&mut self, name: &str, index: &str) {
        if self.state.is_keyed(name) || is_key(index) {
            return self.state.unset(&keyed(name, index));
        }
        let at = self.index(index);
        self.settle(name);
        if matches!(self.state.assigned(name), Some(Value::List(_))) {
            // One shell keeps an empty element in the place.
            let nothing = if self.differs(Dialect::Zsh) { String::new() } else { GAP.to_string() };
            let Some(Value::List(list)) = self.state.assigned(name) else { return };
            let mut list = list.clone();
            match at.and_then(|at| list.get_mut(at)) {
                Some(slot) => *slot = nothing,
                None => list.retain(|item| !item.is_empty()),
            }
            self.state.assign(name, Value::List(list));
        }
    }

    /// `set -- words`, `set -e`.
    fn set(&mut self, args: &[String]) {
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            match arg.as_str() {
                "--" => {
                    at += 1;
                    return self.set_positional(args.get(at..).unwrap_or_default());
                }
                "-o" | "+o" => at += 2,
                "-" => at += 1,
                "-A" | "+A" => return,
                flag if flag.len() > 1 && flag.starts_with(['-', '+']) => at += 1,
                _ => return self.set_positional(args.get(at..).unwrap_or_default()),
            }
        }
    }

    fn set_positional(&mut self, words: &[String]) {
        self.state.positionals.clear();
        self.state.positional = words.to_vec();
    }

    fn shift(&mut self, args: &[String]) {
        self.settle_positional();
        let by = match args.first() {
            None => Some(1),
            Some(text) => self.arithmetic(text).and_then(|number| usize::try_from(number).ok()),
        };
        let open = self.state.positional.iter().any(|item| is_open(item));
        match by {
            Some(_) | None if open => self.set_positional(&[HOLE.to_string()]),
            None => self.set_positional(&[HOLE.to_string()]),
            Some(by) if by <= self.state.positional.len() => drop(self.state.positional.drain(..by)),
            Some(_) => {}
        }
    }

    /// What a trap says is run now, since nobody knows when its signal comes, and what waits for the end also then.
    fn trap(&mut self, args: &[String]) {
        let args = args.strip_prefix(&["--".to_owned()]).unwrap_or(args);
        let ends = args.iter().skip(1).any(|signal| matches!(signal.as_str(), "EXIT" | "0" | "exit"));
        let Some(code) = args.first().filter(|arg| !arg.starts_with('-')) else {
            if ends {
                self.state.farewells.clear();
            }
            return;
        };
        let data = Data::text(code).tainted(self.word_taint);
        let before = self.state.clone();
        self.run_here(&data, None, "trap", &Data::session_input());
        let after = std::mem::replace(&mut self.state, before);
        self.state.keep_files_of(&after);
        if ends {
            self.state.farewells = vec![code.clone()];
        }
    }

    /// The words of `export`, `local` and their like that are no assignments to the parser.
    fn declared_words(&mut self, command: &str, args: &[String]) {
        let flags: String =
            args.iter().filter(|arg| arg.starts_with('-')).flat_map(|arg| arg.chars()).collect();
        for arg in args.iter().filter(|arg| !arg.starts_with('-')) {
            if let Some((name, value)) = arg.split_once('=') {
                let name = name.strip_suffix('+').unwrap_or(name);
                self.declare(command, &flags, name);
                self.state.mark(name, self.word_taint);
                self.assign_named(name, Value::Text(value.to_owned()));
            } else if !self.state.is_hidden(arg) {
                self.declare(command, &flags, arg);
                let local = self.state.is_hidden(arg);
                let inherits = local && self.state.raw(arg).is_some() && self.differs(Dialect::Dash);
                if local && !inherits {
                    self.state.unset(arg);
                }
            }
            if command == "readonly" || flags.contains('r') {
                self.state.freeze(arg.split('=').next().unwrap_or(arg));
            }
        }
    }
}

/// The name under which the folders of `pushd` are kept.
const FOLDERS: &str = "\u{0}folders";

/// `+1`, `-1`: which folder of the stack.
fn is_turn(arg: &str) -> bool {
    arg.strip_prefix(['+', '-'])
        .is_some_and(|digits| !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()))
}
