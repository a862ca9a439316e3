//! Redirections: what a command reads, and where its output goes.

use std::rc::Rc;

use brush_parser::ast;

use super::data::{Data, Taint};
use super::trace::Fact;
use super::walk::Shell;
use super::word::HOLE;
use crate::effects::{Action, Touch};

/// The streams of one command after its redirections.
pub(crate) struct Streams {
    pub(crate) stdin: Data,
    /// Files that standard output goes to.
    pub(crate) outputs: Vec<String>,
    /// Standard output goes to a network connection.
    pub(crate) to_network: bool,
    /// Standard input comes from a network connection.
    pub(crate) from_network: bool,
    /// Standard output is still the one of the surrounding shell.
    passes: bool,
}

/// True for the paths with which bash opens connections.
pub(crate) fn is_socket(path: &str) -> bool {
    path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/")
}

/// True for targets that lose or merely show what is written.
fn is_sink(path: &str) -> bool {
    matches!(path, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty" | "/dev/zero" | "/dev/full")
        || path.starts_with("/dev/fd/")
        || path.starts_with("/dev/pts/")
        || path.starts_with("/proc/self/fd/")
}

impl Shell<'_> {
    /// Evaluates redirections in order.
    pub(crate) fn streams<'r>(
        &mut self,
        redirects: impl IntoIterator<Item = &'r ast::IoRedirect>,
        stdin: &Data,
    ) -> Streams {
        let mut streams = Streams {
            stdin: stdin.clone(),
            outputs: Vec::new(),
            to_network: false,
            from_network: false,
            passes: true,
        };
        for redirect in redirects {
            match redirect {
                ast::IoRedirect::HereString(_, word) => {
                    let before = streams.stdin.clone();
                    let taint = std::mem::take(&mut self.word_taint);
                    let text = self.single(&word.value) + "\n";
                    streams.stdin = self.opened(Data::text(text).tainted(self.word_taint));
                    self.word_taint = taint;
                    let fd = descriptor(redirect, 0);
                    self.open(fd, &mut streams, Some(before));
                }
                ast::IoRedirect::HereDocument(_, document) => {
                    let before = streams.stdin.clone();
                    let taint = std::mem::take(&mut self.word_taint);
                    let body = super::shifted::back(&document.doc.value);
                    let text = match document.requires_expansion {
                        true => self.heredoc(&body),
                        false => body.into_owned(),
                    };
                    streams.stdin = self.opened(Data::text(text).tainted(self.word_taint));
                    self.word_taint = taint;
                    let fd = descriptor(redirect, 0);
                    self.open(fd, &mut streams, Some(before));
                }
                ast::IoRedirect::OutputAndError(word, append) => {
                    let path = self.single(&word.value);
                    self.output(&path, *append, 1, &mut streams);
                }
                ast::IoRedirect::File(fd, kind, target) => {
                    self.file_redirect(*fd, kind, target, &mut streams);
                }
            }
        }
        streams
    }

    /// Moves what was read into a numbered descriptor when it is not standard input.
    fn open(&mut self, fd: i32, streams: &mut Streams, before: Option<Data>) {
        if fd != 0 {
            let data = std::mem::replace(&mut streams.stdin, before.unwrap_or_else(Data::session_input));
            self.state.descriptors.insert(fd.to_string(), data);
        }
    }

    fn file_redirect(
        &mut self,
        fd: Option<i32>,
        kind: &ast::IoFileRedirectKind,
        target: &ast::IoFileRedirectTarget,
        streams: &mut Streams,
    ) {
        use ast::IoFileRedirectKind as Kind;
        let reads = matches!(kind, Kind::Read | Kind::DuplicateInput);
        let fd = fd.unwrap_or(if reads || matches!(kind, Kind::ReadAndWrite) { 0 } else { 1 });
        match target {
            ast::IoFileRedirectTarget::Filename(word) => {
                let path = self.single(&word.value);
                match kind {
                    Kind::Read => {
                        let before = streams.stdin.clone();
                        self.touch_read(&path);
                        let data = self.content_of(&path);
                        streams.stdin = self.opened(data);
                        streams.from_network |= is_socket(&path) && fd == 0;
                        self.open(fd, streams, Some(before));
                    }
                    Kind::ReadAndWrite => {
                        if is_socket(&path) {
                            self.state.sockets.push(fd.to_string());
                            self.state.descriptors.insert(fd.to_string(), Data::unknown(Taint::NET));
                            streams.from_network |= fd == 0;
                        } else {
                            self.output(&path, true, fd, streams);
                        }
                    }
                    Kind::DuplicateInput | Kind::DuplicateOutput => self.duplicate(&path, fd, reads, streams),
                    Kind::Write | Kind::Clobber => self.output(&path, false, fd, streams),
                    Kind::Append => self.output(&path, true, fd, streams),
                }
            }
            ast::IoFileRedirectTarget::Fd(source) => self.duplicate(&source.to_string(), fd, reads, streams),
            ast::IoFileRedirectTarget::Duplicate(word) => {
                let source = self.single(&word.value);
                self.duplicate(&source, fd, reads, streams);
            }
            ast::IoFileRedirectTarget::ProcessSubstitution(kind, subshell) => {
                let path = self.process_substitution(kind, subshell);
                if reads {
                    let before = streams.stdin.clone();
                    let data = self.content_of(&path);
                    streams.stdin = self.opened(data);
                    self.open(fd, streams, Some(before));
                } else if fd == 1 {
                    streams.outputs.push(path);
                    streams.passes = false;
                }
            }
        }
    }

    fn duplicate(&mut self, source: &str, fd: i32, reads: bool, streams: &mut Streams) {
        let source = source.trim_end_matches('-');
        if reads {
            let data = match self.state.descriptors.get(source) {
                Some(data) => Some(data.clone()),
                None if source.contains(HOLE) => self.state.descriptors.get("coproc").cloned(),
                None => None,
            };
            if let Some(data) = data
                && fd == 0
            {
                streams.from_network |= data.taint.has(Taint::NET);
                streams.stdin = data;
            }
            if self.state.sockets.iter().any(|socket| socket == source) && fd == 0 {
                streams.from_network = true;
            }
            return;
        }
        if self.state.sockets.iter().any(|socket| socket == source) {
            streams.to_network |= fd == 1;
            streams.from_network |= fd == 0;
        } else if source.parse::<i32>().is_err() && !source.is_empty() && !source.contains(HOLE) {
            // `>&file` is `>file 2>&1`.
            self.output(source, false, fd, streams);
        } else if let Some(path) =
            self.state.assigned(&format!("\u{0}fd{source}")).map(|v| v.scalar().to_owned())
            && fd == 1
        {
            streams.outputs.push(path);
            streams.passes = false;
        }
    }

    fn output(&mut self, path: &str, append: bool, fd: i32, streams: &mut Streams) {
        if is_socket(path) {
            self.state.sockets.push(fd.to_string());
            self.state.descriptors.insert(fd.to_string(), Data::unknown(Taint::NET));
            streams.to_network |= fd == 1;
            return;
        }
        let resolved = self.resolve(path);
        if !is_sink(&resolved) {
            let action = match (append, self.bare) {
                (true, _) => Action::Append,
                (false, true) => Action::Empty,
                (false, false) => Action::Write,
            };
            self.touch_by(None, Touch::new(action, path));
        }
        if fd == 1 {
            streams.outputs.push(path.to_owned());
            streams.passes = matches!(resolved.as_str(), "/dev/stdout" | "/dev/tty");
        } else if fd > 2 {
            let name = format!("\u{0}fd{fd}");
            self.state.assign(&name, super::state::Value::Text(path.to_owned()));
        }
    }

    /// Sends output where the redirections say; what is left goes on to the next command.
    pub(crate) fn deliver(&mut self, streams: Streams, output: Data, program: Option<&str>) -> Data {
        if streams.to_network {
            let process = self.trace.processes.len().saturating_sub(1);
            self.trace.facts.push(Fact::Sends { process, what: output.taint | self.word_taint });
        }
        if program == Some("exec") || streams.is_plain() {
            return output;
        }
        for path in &streams.outputs {
            self.write_file(path, &output);
        }
        if streams.passes { output } else { Data::empty() }
    }

    /// Remembers what a file holds from now on.
    pub(crate) fn write_file(&mut self, path: &str, data: &Data) {
        let resolved = self.resolve(path);
        let over = self.state.write(resolved, data.clone());
        self.trace.note(over);
    }

    /// The absolute, normalised form of a path.
    pub(crate) fn resolve(&self, path: &str) -> String {
        crate::paths::lexical(path, self.state.cwd.as_deref().unwrap_or("/unknown"))
    }

    /// What can be said of the content of a file.
    pub(crate) fn content_of(&mut self, path: &str) -> Data {
        if is_socket(path) {
            return Data::unknown(Taint::NET);
        }
        let resolved = self.resolve(path);
        if matches!(resolved.as_str(), "/dev/stdin" | "/dev/tty" | "/proc/self/fd/0" | "/dev/fd/0") {
            return Data::session_input();
        }
        if resolved == "/dev/null" {
            return Data::empty();
        }
        if let Some(fd) =
            resolved.strip_prefix("/dev/fd/").or_else(|| resolved.strip_prefix("/proc/self/fd/"))
            && let Some(data) = self.state.descriptors.get(fd)
        {
            return data.clone();
        }
        let data = match self.state.files.get(&resolved) {
            Some(known) => known.clone(),
            None if self.state.is_fetched(&resolved) => Data::unknown(Taint::FETCHED),
            None => self.workspace_file(&resolved),
        };
        if resolved.starts_with("/proc/") && resolved.ends_with("/environ") {
            return data.tainted(Taint::ENVIRONMENT);
        }
        if self.labels.is_secret(&resolved, self.place) { data.tainted(Taint::SECRET) } else { data }
    }

    /// Reports that a file is read by a redirection.
    pub(crate) fn touch_read(&mut self, path: &str) {
        if !is_socket(path) && !is_sink(&self.resolve(path)) && !path.starts_with("/dev/fd/") {
            self.touch_by(None, Touch::new(Action::Read, path));
        }
    }

    /// Runs `<(...)`, or keeps `>(...)` for when there is something to read; the answer is its path.
    pub(crate) fn process_substitution(
        &mut self,
        kind: &ast::ProcessSubstitutionKind,
        subshell: &ast::SubshellCommand,
    ) -> String {
        self.pipes += 1;
        let path = format!("/dev/fd/{}", 1000 + self.pipes);
        match kind {
            ast::ProcessSubstitutionKind::Read => {
                let taint = self.word_taint;
                let environment = std::mem::take(&mut self.environment);
                let outer = std::mem::take(&mut self.sinks);
                let (output, _) =
                    self.in_subshell(|shell| shell.run_list(&subshell.list, &Data::session_input()));
                self.sinks = outer;
                self.environment = environment;
                self.word_taint = taint;
                let over = self.state.write(path.clone(), output);
                self.trace.note(over);
            }
            ast::ProcessSubstitutionKind::Write => {
                self.sinks.push((path.clone(), Rc::new(subshell.clone())));
            }
        }
        path
    }

    /// Runs the readers of `>(...)` on what was written to them.
    pub(crate) fn drain_sinks(&mut self, output: &Data) {
        for (path, subshell) in std::mem::take(&mut self.sinks) {
            let data = self.state.files.get(&path).cloned().unwrap_or_else(|| output.clone());
            self.in_subshell(|shell| shell.run_list(&subshell.list, &data));
        }
    }
}

fn descriptor(redirect: &ast::IoRedirect, default: i32) -> i32 {
    match redirect {
        ast::IoRedirect::File(fd, ..)
        | ast::IoRedirect::HereDocument(fd, _)
        | ast::IoRedirect::HereString(fd, _) => fd.unwrap_or(default),
        ast::IoRedirect::OutputAndError(..) => default,
    }
}
