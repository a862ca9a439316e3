//! Programs that start another program given in their arguments.

use std::rc::Rc;

use super::carrier::quote;
use super::container::Mounts;
use super::data::{Data, Taint};
use super::trace::Fact;
use super::walk::{Shell, slices};
use super::word::has_hole;
use crate::effects::{Action, Touch};
use crate::options::{Name, Options, Takes};
use crate::programs::Starts;

impl Shell<'_> {
    /// Follows a wrapper; `None` when `program` is none, or wraps nothing here.
    pub(crate) fn wrapper(&mut self, argv: &[String], program: &str, stdin: &Data) -> Option<Data> {
        let args = argv.get(1..).unwrap_or_default();
        match program {
            "sudo" | "doas" | "run0" => self.sudo(argv, args, program, stdin),
            "env" | "genv" => self.env(argv, args, stdin),
            "xargs" | "gxargs" => Some(self.xargs(argv, args, stdin)),
            "parallel" | "rush" => Some(self.parallel(argv, args, stdin)),
            "find" | "gfind" | "bfs" => Some(self.find(argv, args, stdin)),
            "fd" | "fdfind" => self.fd(argv, args, stdin),
            "watch" | "gwatch" => {
                let options = Options::parse(&slices(args), self.programs.takes(program).until_operand());
                self.joined(argv, options.consumed, program)
            }
            "mosh" => self.mosh(argv, args, stdin),
            "ssh" | "autossh" | "slogin" | "rsh" => self.ssh(argv, args, program, stdin),
            "su" | "runuser" | "sg" | "newgrp" => self.su(argv, args, program, stdin),
            "flock" => self.flock(argv, args, stdin),
            "docker" | "podman" | "nerdctl" | "docker-compose" | "podman-compose" => {
                self.container(argv, args, program, stdin)
            }
            "kubectl" | "oc" | "k3s" | "microk8s" | "k" => self.kubectl(argv, args, program, stdin),
            "crictl" | "ctr" | "singularity" | "apptainer" => {
                let at = args.iter().position(|arg| arg == "exec")?;
                let options = Options::parse(&slices(args.get(at + 1..)?), Takes::wrapper("B", &["bind"]));
                let rest = args.get(at + 1 + options.consumed + 1..)?.to_vec();
                Some(self.inner(argv, &rest, program, stdin))
            }
            "hyperfine" | "nodemon" | "onchange" | "concurrently" => {
                let texts: Vec<String> = args.iter().filter(|arg| !arg.starts_with('-')).cloned().collect();
                self.emit(argv);
                let mut output = Data::empty();
                for text in texts {
                    output.then(&self.pushed(program, |shell| shell.run_text(&text, stdin)));
                }
                Some(output)
            }
            "nix-shell" | "nix" => {
                let at = args.iter().position(|arg| matches!(arg.as_str(), "--run" | "--command" | "-c"))?;
                self.joined(argv, at + 1, program)
            }
            "tmux" | "screen" => self.terminal(argv, args, program, stdin),
            "crontab" => self.crontab(argv, args, stdin),
            "at" | "batch" => {
                let refs = slices(args);
                let options = Options::parse(&refs, self.programs.takes(program));
                let data = match options.value(Some('f'), "") {
                    Some(file) => self.content_of(file),
                    None => stdin.clone(),
                };
                Some(self.text_data(argv, &data, program))
            }
            "npx" | "npm" | "pnpm" | "bunx" | "yarn"
                if program == "npx"
                    || args.first().is_some_and(|sub| matches!(sub.as_str(), "exec" | "x")) =>
            {
                let own = if program == "npx" { args } else { args.get(1..).unwrap_or_default() };
                let refs = slices(own);
                let text = Options::parse(&refs, Takes::values("cp", &["call", "package"]).until_operand());
                match text.value(Some('c'), "call").map(str::to_owned) {
                    Some(text) => Some(self.text(argv, &text, program)),
                    None => self.listed(argv, args, program, stdin),
                }
            }
            "aws" => self.sent_commands(argv, args, program, stdin),
            // Elsewhere `--command` is what a container starts.
            "gcloud" if !args.iter().any(|arg| arg == "ssh") => None,
            "cmd" => self.command_prompt(argv, args, stdin, program),
            "start-process" | "saps" | "invoke-item" | "ii" => {
                let rest: Vec<String> = args.iter().filter(|arg| !arg.starts_with('-')).cloned().collect();
                (!rest.is_empty()).then(|| self.inner(argv, &rest, program, stdin))
            }
            _ => self.listed(argv, args, program, stdin),
        }
    }

    /// `cmd /c COMMAND`, or lines on its standard input.
    fn command_prompt(
        &mut self,
        argv: &[String],
        args: &[String],
        stdin: &Data,
        program: &str,
    ) -> Option<Data> {
        let found =
            args.iter().enumerate().find_map(|(at, arg)| Some((at, super::windows::behind_switch(arg)?)));
        let Some((at, first)) = found else {
            let lines = match stdin.exact() {
                Some(lines) => Data::text(super::windows::from_cmd(lines, self.place)),
                None => stdin.clone(),
            };
            return Some(self.text_data(argv, &lines, program));
        };
        let rest = args.get(at + 1..).unwrap_or_default();
        let words: Vec<&str> = [first]
            .into_iter()
            .filter(|first| !first.is_empty())
            .chain(rest.iter().map(String::as_str))
            .collect();
        let text = super::windows::from_cmd(&words.join(" "), self.place);
        Some(self.text(argv, &text, program))
    }

    /// Follows a wrapper of which the catalogue says where its command stands.
    fn listed(&mut self, argv: &[String], args: &[String], program: &str, stdin: &Data) -> Option<Data> {
        let programs = self.programs;
        match programs.starts(program)? {
            Starts::Somewhere => self.loose(argv, args, program, stdin),
            Starts::Subcommand { .. } => self.runner(argv, args, program, stdin),
            Starts::Text(options) => {
                let given = Options::parse(&slices(args), programs.takes(program));
                let text = options.value_in(&given)?.to_owned();
                Some(self.text(argv, &text, program))
            }
            Starts::Remote(operands) => {
                let options = Options::parse(&slices(args), programs.takes(program).until_operand());
                self.remote(argv, args.get(options.consumed + operands..)?, program, stdin)
            }
            Starts::RemoteBehind(words) => {
                let at = args.iter().position(|arg| words.contains(arg))? + 1;
                let rest = args.get(at..)?;
                let options = Options::parse(&slices(rest), programs.takes(program).until_operand());
                self.remote(argv, rest.get(options.consumed..)?, program, stdin)
            }
            Starts::After(operands) => {
                let options = Options::parse(&slices(args), programs.takes(program).until_operand());
                let rest = args.get(options.consumed + operands..)?.to_vec();
                if rest.is_empty() {
                    return None;
                }
                for (name, value) in options.every_value() {
                    if matches!(name, Name::Short('o')) && program == "strace" {
                        self.touch_by(None, Touch::new(Action::Write, value));
                    }
                }
                Some(self.inner(argv, &rest, program, stdin))
            }
        }
    }

    /// A command somewhere among the options of another; `None` when no word names one.
    fn loose(&mut self, argv: &[String], args: &[String], program: &str, stdin: &Data) -> Option<Data> {
        let programs = self.programs;
        let known =
            args.iter().position(|arg| super::code::is_command(programs, &super::trace::program_name(arg)));
        // A word before it, or any if none is known, could be a program that nobody here knows.
        let unknown = (0..known.unwrap_or(args.len()).min(MOST_UNKNOWN))
            .filter(|at| args.get(*at).is_some_and(|arg| !arg.starts_with('-')));
        let mut output = None;
        for at in unknown.chain(known).collect::<Vec<_>>() {
            let printed = self.inner(argv, args.get(at..).unwrap_or_default(), program, stdin);
            output.get_or_insert_with(Data::empty).or(&printed);
        }
        output
    }

    /// Programs that keep terminals: words with blanks or operators are read by a shell, keys are typed into one, and
    /// other words are a command.
    fn terminal(&mut self, argv: &[String], args: &[String], program: &str, stdin: &Data) -> Option<Data> {
        let typed = args.iter().position(|arg| matches!(arg.as_str(), "send-keys" | "send" | "stuff"));
        let mut texts: Vec<String> = match typed {
            Some(at) => vec![typed_keys(args.get(at + 1..).unwrap_or_default())],
            None => Vec::new(),
        };
        texts.extend(
            args.iter()
                .filter(|arg| arg.contains(|c: char| c.is_whitespace() || "$`;|&<>(){}".contains(c)))
                .cloned(),
        );
        let mut output = self.loose(argv, args, program, stdin);
        if !texts.is_empty() {
            let printed = self.text(argv, &texts.join("\n"), program);
            output.get_or_insert_with(Data::empty).or(&printed);
        }
        output
    }

    /// `tool run CMD...`; `None` when this is none.
    fn runner(&mut self, argv: &[String], args: &[String], program: &str, stdin: &Data) -> Option<Data> {
        let Starts::Subcommand { names, values } = self.programs.starts(program)? else { return None };
        let at = args.iter().position(|arg| !arg.starts_with('-'))?;
        if !args.get(at).is_some_and(|sub| names.contains(sub)) {
            return None;
        }
        let takes = values.takes().until_operand();
        let options = Options::parse(&slices(args.get(at + 1..).unwrap_or_default()), takes);
        let rest = args.get(at + 1 + options.consumed..).unwrap_or_default().to_vec();
        Some(self.inner(argv, &rest, program, stdin))
    }

    /// Runs `work` below `program`.
    pub(super) fn pushed<T>(&mut self, program: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        self.via.push(program.to_owned());
        let outer = self.mounts.clone();
        if let Some(mounts) = outer.as_ref().filter(|_| !STAYS.contains(&program)) {
            // It may lead out of the container: to another machine, root or container.
            self.mounts = Some(Rc::new(mounts.as_ref().clone().of_the_machine()));
        }
        let result = work(self);
        self.mounts = outer;
        self.via.pop();
        result
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

    /// `aws ssm send-command --parameters commands=TEXT`, where the texts may be a list in JSON.
    fn sent_commands(
        &mut self,
        argv: &[String],
        args: &[String],
        program: &str,
        stdin: &Data,
    ) -> Option<Data> {
        if !args.iter().any(|arg| matches!(arg.as_str(), "send-command" | "start-session")) {
            return None;
        }
        let value = args.iter().find_map(|arg| arg.split_once("commands").map(|(_, value)| value))?;
        let value = value.trim_start_matches(['"', '=', ':', ' ']);
        let list = value.rfind(']').and_then(|end| value.get(..=end)).filter(|_| value.starts_with('['));
        let texts: Option<Vec<String>> =
            list.and_then(|list| serde_json::from_str(&list.replace(char::is_control, " ")).ok());
        let text = texts.map_or_else(|| value.to_owned(), |texts| texts.join("\n"));
        self.remote(argv, &[text], program, stdin)
    }

    fn joined(&mut self, argv: &[String], skip: usize, program: &str) -> Option<Data> {
        let rest = argv.get(1 + skip..)?;
        if rest.is_empty() {
            return None;
        }
        Some(self.text(argv, &rest.join(" "), program))
    }

    fn sudo(&mut self, argv: &[String], args: &[String], program: &str, stdin: &Data) -> Option<Data> {
        let refs = slices(args);
        let takes = self.programs.takes(program).until_operand();
        let options = Options::parse(&refs, takes);
        let mut rest = args.get(options.consumed..).unwrap_or_default();
        if options.has('e', "edit") {
            self.emit(argv);
            for file in rest {
                self.touch(Touch::new(Action::Write, file));
            }
            return Some(Data::empty());
        }
        if rest.is_empty() {
            return None;
        }
        let directory = options.value(Some('D'), "chdir").map(str::to_owned);
        self.emit(argv);
        let mut environment = self.environment.clone();
        while let Some((first, tail)) = rest.split_first()
            && let Some((name, value)) = first.split_once('=').filter(|(name, _)| is_name(name))
        {
            environment.push((name.to_owned(), value.to_owned()));
            rest = tail;
        }
        let rest = rest.to_vec();
        let shell_wanted = options.short('s') || options.short('i') || options.long("login");
        self.with_directory(directory, |shell| {
            let outer = std::mem::replace(&mut shell.environment, environment);
            let output = shell.pushed(program, |shell| match rest.as_slice() {
                [text] if shell_wanted => shell.run_text(text, stdin),
                _ => shell.dispatch(&rest, stdin),
            });
            shell.environment = outer;
            output
        })
        .into()
    }

    fn with_directory<T>(&mut self, directory: Option<String>, work: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.state.cwd.clone();
        if let Some(directory) = directory {
            self.state.cwd = if has_hole(&directory) { None } else { self.folder_at(&directory) };
        }
        let result = work(self);
        self.state.cwd = outer;
        result
    }

    fn env(&mut self, argv: &[String], args: &[String], stdin: &Data) -> Option<Data> {
        let mut environment = self.environment.clone();
        let mut directory = None;
        let mut at = 0;
        let mut split: Option<String> = None;
        while let Some(arg) = args.get(at) {
            at += 1;
            match arg.as_str() {
                "--" => break,
                "-u" | "--unset" | "--argv0" | "-a" => at += 1,
                "-C" | "--chdir" => {
                    directory = args.get(at).cloned();
                    at += 1;
                }
                "-S" | "--split-string" => {
                    split = args.get(at).cloned();
                    at += 1;
                    break;
                }
                "-P" => at += 1,
                _ if arg.starts_with("--split-string=") => {
                    split = arg.strip_prefix("--split-string=").map(str::to_owned);
                    break;
                }
                // The last of several letters: `-iS`, `-vStext`.
                _ if is_split(arg) => {
                    let text = arg.split_once('S').map_or("", |(_, text)| text);
                    split = if text.is_empty() { args.get(at).cloned() } else { Some(text.to_owned()) };
                    at += usize::from(text.is_empty());
                    break;
                }
                _ if arg.starts_with("--chdir=") => {
                    directory = arg.strip_prefix("--chdir=").map(str::to_owned);
                }
                _ if arg.starts_with('-') => {}
                // Whatever has `=` in it is a variable here, also names that no shell would take.
                _ => match arg.split_once('=').filter(|(name, _)| !name.is_empty()) {
                    Some((name, value)) => environment.push((name.to_owned(), value.to_owned())),
                    None => {
                        at -= 1;
                        break;
                    }
                },
            }
        }
        let rest = args.get(at..).unwrap_or_default().to_vec();
        if rest.is_empty() && split.is_none() {
            return None;
        }
        self.emit(argv);
        Some(self.with_directory(directory, |shell| {
            let outer = std::mem::replace(&mut shell.environment, environment);
            let output = shell.pushed("env", |shell| match split {
                Some(text) => {
                    let words: Vec<String> = rest.iter().map(|word| quote(word)).collect();
                    shell.in_subshell(|shell| shell.run_text(&format!("{text} {}", words.join(" ")), stdin))
                }
                None => {
                    let functions = std::mem::take(&mut shell.state.functions);
                    let output = shell.dispatch(&rest, stdin);
                    shell.state.functions = functions;
                    output
                }
            });
            shell.environment = outer;
            output
        }))
    }

    fn ssh(&mut self, argv: &[String], args: &[String], program: &str, stdin: &Data) -> Option<Data> {
        let refs = slices(args);
        let options = Options::parse(&refs, self.programs.takes(program).until_operand());
        let proxies: Vec<String> = options
            .values(Some('o'), "")
            .filter_map(|option| option.split_once(['=', ' ']))
            .filter(|(name, _)| {
                name.eq_ignore_ascii_case("proxycommand") || name.eq_ignore_ascii_case("localcommand")
            })
            .map(|(_, text)| text.to_owned())
            .collect();
        let consumed = options.consumed;
        let rest = args.get(consumed + 1..).unwrap_or_default().to_vec();
        let process = self.emit(argv);
        if !options.short('n') {
            self.trace.facts.push(Fact::Sends { process, what: stdin.taint | self.word_taint });
        }
        for text in proxies {
            self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::PROGRAM });
            self.pushed(program, |shell| shell.run_text(&text, stdin));
        }
        let typed = stdin.taint.has(Taint::INPUT) && stdin.marked().is_none();
        if rest.is_empty() {
            // The shell on the other side reads what it is sent.
            if !(typed || options.short('n') || options.short('N')) {
                self.in_subshell(|shell| {
                    shell.state.cwd = None;
                    shell.run_code(stdin, &[], Some(process), program)
                });
            }
            return Some(Data::unknown(Taint::NET));
        }
        let text = rest.join(" ");
        let output = self.pushed(program, |shell| {
            shell.in_subshell(|shell| {
                shell.state.cwd = None;
                shell.run_text(&text, stdin)
            })
        });
        Some(Data::unknown(output.taint | Taint::NET))
    }

    /// `mosh HOST [--] COMMAND`, whose words reach the other side as they are.
    fn mosh(&mut self, argv: &[String], args: &[String], stdin: &Data) -> Option<Data> {
        let options = Options::parse(&slices(args), self.programs.takes("mosh").until_operand());
        let rest = args.get(options.consumed + 1..).unwrap_or_default();
        let rest = rest.strip_prefix(&["--".to_owned()]).unwrap_or(rest);
        if rest.is_empty() {
            return None;
        }
        self.emit(argv);
        self.pushed("mosh", |shell| {
            shell.in_subshell(|shell| {
                shell.state.cwd = None;
                shell.state.functions.clear();
                shell.dispatch(rest, stdin)
            })
        });
        Some(Data::unknown(Taint::NET))
    }

    fn su(&mut self, argv: &[String], args: &[String], program: &str, stdin: &Data) -> Option<Data> {
        let refs = slices(args);
        let options = Options::parse(&refs, self.programs.takes(program));
        if let Some(text) = options.value(Some('c'), "command").map(str::to_owned) {
            return Some(self.text(argv, &text, program));
        }
        let skip = options.dashes_at?;
        let rest: Vec<String> = options.operands.iter().skip(skip).map(|arg| (*arg).to_owned()).collect();
        (!rest.is_empty()).then(|| self.inner(argv, &rest, program, stdin))
    }

    fn flock(&mut self, argv: &[String], args: &[String], stdin: &Data) -> Option<Data> {
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

    fn container(&mut self, argv: &[String], args: &[String], program: &str, stdin: &Data) -> Option<Data> {
        let at = args.iter().position(|arg| matches!(arg.as_str(), "exec" | "run"))?;
        if args
            .iter()
            .take(at)
            .any(|arg| !arg.starts_with('-') && !matches!(arg.as_str(), "compose" | "container"))
        {
            return None;
        }
        let refs = slices(args.get(at + 1..)?);
        let takes = self.programs.takes_of(program, "run").until_operand();
        let options = Options::parse(&refs, takes);
        let entrypoint = options.value(None, "entrypoint").map(str::to_owned);
        let outside = self.state.cwd.clone().unwrap_or_else(|| "/unknown".to_owned());
        let mounts = Mounts::of(&options, &outside);
        // What an `exec` enters, or a file of services describes, was set up by somebody else.
        let is_new =
            at == 0 && args.first().is_some_and(|sub| sub == "run") && !program.ends_with("-compose");
        let mounts = if is_new { mounts } else { others(mounts, args) };
        let mounts = Rc::new(mounts);
        let folder = options.value(Some('w'), "workdir").map(str::to_owned);
        let consumed = options.consumed;
        let mut rest = args.get(at + 1 + consumed + 1..)?.to_vec();
        if let Some(entrypoint) = entrypoint {
            rest.insert(0, entrypoint);
        }
        if rest.is_empty() {
            return None;
        }
        self.emit(argv);
        let output = self.pushed(program, |shell| {
            shell.mounts = Some(mounts);
            shell.in_subshell(|shell| {
                shell.state.functions.clear();
                if let Some(folder) = folder.filter(|folder| folder.starts_with('/')) {
                    shell.state.cwd = Some(folder);
                }
                shell.dispatch(&rest, stdin)
            })
        });
        Some(output)
    }

    fn kubectl(&mut self, argv: &[String], args: &[String], program: &str, stdin: &Data) -> Option<Data> {
        if !args.iter().any(|arg| matches!(arg.as_str(), "exec" | "run" | "debug")) {
            return None;
        }
        let at = args.iter().position(|arg| arg == "--")?;
        let rest = args.get(at + 1..)?.to_vec();
        let mounts = others(Mounts::default(), args.get(..at).unwrap_or_default());
        self.emit(argv);
        Some(self.pushed(program, |shell| {
            shell.mounts = Some(Rc::new(mounts));
            shell.in_subshell(|shell| {
                shell.state.functions.clear();
                shell.dispatch(&rest, stdin)
            })
        }))
    }

    fn crontab(&mut self, argv: &[String], args: &[String], stdin: &Data) -> Option<Data> {
        let reads_stdin = args.iter().any(|arg| arg == "-") || args.is_empty();
        let process = self.emit(argv);
        if args.iter().any(|arg| arg == "-l") {
            // What is there already runs by itself, and is no part of what is set up now.
            return Some(Data::text("#\n").tainted(Taint::PROGRAM));
        }
        let data = if reads_stdin {
            stdin.clone()
        } else {
            let file = args.iter().find(|arg| !arg.starts_with('-'))?;
            self.content_of(&file.clone())
        };
        let text = data.marked()?.to_owned();
        for line in text.lines() {
            let line = line.trim();
            let is_setting = line.split_once('=').is_some_and(|(name, _)| is_name(name.trim()));
            if line.is_empty() || line.starts_with('#') || is_setting {
                continue;
            }
            let skip = if line.starts_with('@') { 1 } else { 5 };
            let command = line.splitn(skip + 1, char::is_whitespace).nth(skip).unwrap_or_default().to_owned();
            let schedule = line.split_whitespace().take(skip).all(|field| {
                field.starts_with('@')
                    || field.chars().all(|c| c.is_ascii_alphanumeric() || "*,/-".contains(c))
            });
            if schedule {
                self.in_subshell(|shell| {
                    shell.run_code(&Data::text(&command), &[], Some(process), "crontab")
                });
            }
        }
        Some(Data::empty())
    }
}

/// Whether `S` is among the letters of an option, and none before it takes a value.
fn is_split(arg: &str) -> bool {
    let letters = arg.strip_prefix('-').and_then(|letters| letters.split_once('S')).map(|(before, _)| before);
    letters.is_some_and(|letters| letters.chars().all(|c| matches!(c, 'i' | '0' | 'v')))
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Wrappers whose command runs in the container in which they run themselves.
const STAYS: [&str; 28] = [
    "ash",
    "bash",
    "builtin",
    "busybox",
    "command",
    "dash",
    "dumb-init",
    "env",
    "eval",
    "exec",
    "find",
    "gosu",
    "ionice",
    "ksh",
    "nice",
    "nohup",
    "setsid",
    "sh",
    "stdbuf",
    "su",
    "su-exec",
    "sudo",
    "time",
    "timeout",
    "tini",
    "watch",
    "xargs",
    "zsh",
];

/// The mounts of a container that was there before; one that is called as if it served people may hold anything.
fn others(mounts: Mounts, args: &[String]) -> Mounts {
    const SERVES: [&str; 4] = ["prod", "production", "prd", "live"];
    let serves =
        |arg: &String| arg.split(|c: char| !c.is_ascii_alphabetic()).any(|part| SERVES.contains(&part));
    if args.iter().any(serves) { mounts.of_the_machine() } else { mounts.of_others() }
}

/// Words of a wrapper that are taken for the beginning of a command though nobody knows such a program.
const MOST_UNKNOWN: usize = 16;

/// What keys type: those with a name are not spelled out.
fn typed_keys(keys: &[String]) -> String {
    let mut text = String::new();
    for key in keys {
        match key.as_str() {
            "Enter" | "C-m" | "C-j" | "KPEnter" => text.push('\n'),
            "Space" => text.push(' '),
            "Tab" => text.push('\t'),
            "-t" | "-l" | "-H" | "-R" | "-M" => {}
            key => text.push_str(
                &key.replace("^M", "\n").replace("\\n", "\n").replace("\\015", "\n").replace("\\r", "\n"),
            ),
        }
    }
    text
}
