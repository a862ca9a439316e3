//! Redirections: what a command reads, and where its output goes.

use brush_parser::ast;

use super::data::{Data, Taint};
use super::dialect::Dialect;
use super::limits::{self, Over};
use super::state::Value;
use super::trace::Fact;
use super::walk::Shell;
use super::word::{ANY, HOLE, SET, STAR, has_hole};
use crate::effects::{Action, Touch};

/// The streams of one command after its redirections.
pub(crate) struct Streams {
    pub(crate) stdin: Data,
    /// Standard input is not that of the surrounding shell.
    pub(crate) feeds: bool,
    /// Files that standard output goes to.
    pub(crate) outputs: Vec<Output>,
    /// Standard output goes to a network connection.
    pub(crate) to_network: bool,
    /// Standard input comes from a network connection.
    pub(crate) from_network: bool,
    /// Standard output is still the one of the surrounding shell.
    passes: bool,
    /// Where errors went before.
    errors: Option<Value>,
}

/// True for the paths with which bash opens connections.
pub(crate) fn is_socket(path: &str) -> bool {
    let Some((kind, target)) = path.strip_prefix("/dev/").and_then(|rest| rest.split_once('/')) else {
        return false;
    };
    // A part that is not known may be either, where a host and a port follow.
    let may_be = |name| has_hole(kind) && target.contains('/') && super::pattern::matches(kind, name);
    ["tcp", "udp"].into_iter().any(|name| kind == name || may_be(name))
}

/// True for targets that lose or merely show what is written.
fn is_sink(path: &str) -> bool {
    matches!(path, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty" | "/dev/zero" | "/dev/full")
        || path.starts_with("/dev/fd/")
        || path.starts_with("/dev/pts/")
        || path.starts_with("/proc/self/fd/")
}

/// A file that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Output {
    path: String,
    /// What it holds stays.
    append: bool,
}

/// Returns the name under which the path is kept that a descriptor writes to.
pub(crate) fn written_by(descriptor: &str) -> String {
    format!("\u{0}fd{descriptor}")
}

/// The descriptor of errors.
const ERRORS: &str = "2";

/// Numbers from here on are given out by the shell itself.
const FIRST_CHOSEN: u32 = 10;

/// Returns whether a descriptor may be one that the shell chose: those that a command numbers itself are small.
fn is_chosen(source: &str) -> bool {
    source.contains(HOLE) || source.parse().is_ok_and(|number: u32| number >= FIRST_CHOSEN)
}

/// Returns the descriptor that a path stands for: `/dev/stdin`, `/dev/fd/3`, `/proc/self/fd/3`.
pub(crate) fn descriptor_in(resolved: &str) -> Option<&str> {
    match resolved {
        "/dev/stdin" => Some("0"),
        "/dev/stdout" => Some("1"),
        "/dev/stderr" => Some(ERRORS),
        path => path
            .strip_prefix("/dev/fd/")
            .or_else(|| Some(path.strip_prefix("/proc/")?.rsplit_once("/fd/")?.1)),
    }
}

impl Shell<'_> {
    /// Returns the name of a descriptor: its number, or what the command calls it. Such a descriptor is opened under a number
    /// that the shell chooses.
    fn key_of(&mut self, fd: i32) -> String {
        let Some(name) = self.texts.names.of(fd).map(str::to_owned) else { return fd.to_string() };
        self.state.assign(&name, Value::Text(HOLE.into()));
        format!("{{{name}}}")
    }

    /// Returns the word that a descriptor with a name is in a shell that knows none.
    pub(crate) fn as_word(&mut self, redirect: &ast::IoRedirect) -> Option<String> {
        let fd = match redirect {
            ast::IoRedirect::File(fd, ..)
            | ast::IoRedirect::HereDocument(fd, _)
            | ast::IoRedirect::HereString(fd, _) => (*fd)?,
            ast::IoRedirect::OutputAndError(..) => return None,
        };
        let name = self.texts.names.of(fd)?.to_owned();
        self.differs(Dialect::Dash).then(|| format!("{{{name}}}"))
    }

    /// Returns the number of a descriptor as this shell knows it.
    fn number(&self, fd: Option<i32>, default: i32) -> i32 {
        fd.filter(|fd| self.dialect != Dialect::Dash || self.texts.names.of(*fd).is_none()).unwrap_or(default)
    }

    /// Returns what can be read behind a descriptor; where it is not known which one it is, any that the shell has chosen.
    fn behind(&self, source: &str, streams: &Streams) -> Option<Data> {
        if let Some(data) = self.state.descriptors.get(source) {
            return Some(data.clone());
        }
        if source == "0" {
            return Some(streams.stdin.clone());
        }
        self.chosen(source)
    }

    /// Returns what can be read behind a descriptor of which only the shell knows the number.
    pub(crate) fn chosen(&self, source: &str) -> Option<Data> {
        if !is_chosen(source) {
            return None;
        }
        let mut named: Vec<_> =
            self.state.descriptors.iter().filter(|(name, _)| name.starts_with('{')).collect();
        named.sort_by_key(|(name, _)| name.as_str());
        named.into_iter().map(|(_, data)| data.clone()).reduce(|mut all, data| {
            all.or(&data);
            all
        })
    }

    /// Evaluates redirections in order.
    pub(crate) fn streams<'r>(
        &mut self,
        redirects: impl IntoIterator<Item = &'r ast::IoRedirect>,
        stdin: &Data,
    ) -> Streams {
        let mut streams = Streams {
            stdin: self.state.input_or(stdin),
            feeds: false,
            outputs: Vec::new(),
            to_network: false,
            from_network: false,
            passes: true,
            errors: self.state.raw(&written_by(ERRORS)).cloned(),
        };
        for redirect in redirects {
            match redirect {
                ast::IoRedirect::HereString(_, word) => {
                    let before = streams.stdin.clone();
                    let taint = std::mem::take(&mut self.word_taint);
                    let text = self.single(&word.value) + "\n";
                    streams.stdin = self.opened(Data::text(text).tainted(self.word_taint));
                    self.word_taint = taint;
                    let fd = self.descriptor(redirect, 0);
                    self.open(fd, &mut streams, Some(before));
                }
                ast::IoRedirect::HereDocument(_, document) => {
                    let before = streams.stdin.clone();
                    let taint = std::mem::take(&mut self.word_taint);
                    let body = super::shifted::back(&document.doc.value);
                    let kept = self.texts.document(&body);
                    let body = kept.as_deref().unwrap_or(&body);
                    let data = match document.requires_expansion {
                        true => self.document(body),
                        false => Data::document(body),
                    };
                    streams.stdin = self.opened(data.tainted(self.word_taint));
                    self.word_taint = taint;
                    let fd = self.descriptor(redirect, 0);
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

    fn descriptor(&self, redirect: &ast::IoRedirect, default: i32) -> i32 {
        match redirect {
            ast::IoRedirect::File(fd, ..)
            | ast::IoRedirect::HereDocument(fd, _)
            | ast::IoRedirect::HereString(fd, _) => self.number(*fd, default),
            ast::IoRedirect::OutputAndError(..) => default,
        }
    }

    /// Moves what was read into another descriptor when it is not standard input.
    fn open(&mut self, fd: i32, streams: &mut Streams, before: Option<Data>) {
        if fd == 0 {
            streams.feeds = true;
            return;
        }
        let data = std::mem::replace(&mut streams.stdin, before.unwrap_or_else(Data::session_input));
        let key = self.key_of(fd);
        self.state.descriptors.insert(key, data);
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
        let fd = self.number(fd, if reads || matches!(kind, Kind::ReadAndWrite) { 0 } else { 1 });
        match target {
            ast::IoFileRedirectTarget::Filename(word) => {
                let path = self.single(&word.value);
                match kind {
                    Kind::Read => {
                        let before = streams.stdin.clone();
                        self.touch_read(&path);
                        let outer = std::mem::replace(&mut self.stdin, before.clone());
                        let data = self.content_of(&path);
                        self.stdin = outer;
                        streams.stdin = self.opened(data);
                        streams.from_network |= is_socket(&path) && fd == 0;
                        self.open(fd, streams, Some(before));
                    }
                    Kind::ReadAndWrite => {
                        if is_socket(&path) {
                            self.connect(fd);
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
                    streams.outputs.push(Output { path, append: false });
                    streams.passes = false;
                } else {
                    let name = written_by(&self.key_of(fd));
                    self.state.assign(&name, Value::Text(path));
                }
            }
        }
    }

    /// A descriptor is connected to the network.
    fn connect(&mut self, fd: i32) {
        let key = self.key_of(fd);
        self.state.descriptors.insert(key.clone(), Data::unknown(Taint::NET));
        self.state.sockets.push(key);
    }

    /// Makes a descriptor the same as another. Whether it is written as one to read or to write makes no difference.
    fn duplicate(&mut self, source: &str, fd: i32, reads: bool, streams: &mut Streams) {
        let source = source.trim_end_matches('-');
        if source.is_empty() {
            return;
        }
        if !reads && is_socket(source) {
            return self.output(source, false, fd, streams);
        }
        if let Some(data) = self.behind(source, streams) {
            if fd == 0 {
                streams.from_network |= data.taint.has(Taint::NET);
                streams.stdin = data;
                streams.feeds = true;
            } else if fd > 2 {
                let key = self.key_of(fd);
                self.state.descriptors.insert(key, data);
            }
        }
        let is_socket =
            |socket: &String| socket == source || source.contains(HOLE) && socket.starts_with('{');
        if self.state.sockets.iter().any(is_socket) {
            streams.to_network |= fd == 1;
            streams.from_network |= fd == 0;
            if fd > 2 {
                self.connect(fd);
            }
            return;
        }
        let mut paths = self.paths_behind(source);
        if source == "p" {
            paths.extend(self.coprocesses());
        }
        if paths.is_empty() && !reads && source.parse::<i32>().is_err() && !source.contains(HOLE) {
            // `>&file` is `>file 2>&1`.
            return self.output(source, false, fd, streams);
        }
        for path in paths {
            if fd == 1 {
                streams.outputs.push(Output { path, append: true });
                // Errors may be sent back to where they came from.
                streams.passes &= source == ERRORS;
            } else if fd >= 2 {
                let key = self.key_of(fd);
                self.state.assign(&written_by(&key), Value::Text(path));
            }
        }
    }

    /// Returns the files that a descriptor writes to, of one that is not known all.
    fn paths_behind(&self, source: &str) -> Vec<String> {
        let own = written_by(source);
        let any = is_chosen(source) && self.state.assigned(&own).is_none();
        let name = if any { written_by("{") } else { own };
        let named = self.state.assigned_with_prefix(&name).filter(|(found, _)| any || *found == name);
        let mut paths: Vec<String> = named.map(|(_, value)| value.scalar().to_owned()).collect();
        paths.sort_unstable();
        paths
    }

    fn output(&mut self, path: &str, append: bool, fd: i32, streams: &mut Streams) {
        if is_socket(path) {
            self.connect(fd);
            streams.to_network |= fd == 1;
            return;
        }
        let resolved = self.resolve(path);
        if let Some(source) = descriptor_in(&resolved).filter(|_| !self.listeners.contains_key(&resolved)) {
            let source = source.to_owned();
            if !self.paths_behind(&source).is_empty() {
                return self.duplicate(&source, fd, false, streams);
            }
        }
        if !is_sink(&resolved) {
            let action = match (append, self.bare) {
                (true, _) => Action::Append,
                (false, true) => Action::Empty,
                (false, false) => Action::Write,
            };
            self.touch_by(None, Touch::new(action, path));
        }
        if fd == 1 {
            streams.outputs.push(Output { path: path.to_owned(), append });
            streams.passes = matches!(resolved.as_str(), "/dev/stdout" | "/dev/tty");
        } else if fd > 2 {
            if !append {
                self.write_file(path, &Data::empty());
            }
            let name = written_by(&self.key_of(fd));
            self.state.assign(&name, Value::Text(path.to_owned()));
        } else if fd == 2 && !is_sink(&resolved) {
            self.state.assign(&written_by(ERRORS), Value::Text(path.to_owned()));
        }
    }

    /// Sends output where the redirections say; what is left goes on to the next command.
    pub(crate) fn deliver(&mut self, streams: Streams, output: Data, program: Option<&str>) -> Data {
        let errors = streams.errors.clone();
        let mut output = self.delivered(streams, output, program);
        if program != Some("exec") && self.state.raw(&written_by(ERRORS)) != errors.as_ref() {
            self.state.narrow(&written_by(ERRORS), errors.unwrap_or(Value::Outside));
        }
        output.then(&self.answers());
        output
    }

    fn delivered(&mut self, streams: Streams, output: Data, program: Option<&str>) -> Data {
        if streams.to_network {
            let process = self.trace.processes.len().saturating_sub(1);
            self.trace.facts.push(Fact::Sends { process, what: output.taint | self.word_taint });
        }
        if streams.passes && program.is_some() && !output.is_empty() {
            // What `exec` redirected gets what nothing else takes.
            for Output { path, .. } in self.state.outputs.clone() {
                self.append_file(&path, &output);
            }
        }
        if program == Some("exec") || streams.is_plain() {
            return output;
        }
        for Output { path, append } in &streams.outputs {
            let keeps = !is_sink(&self.resolve(path)) && !path.starts_with("/dev/");
            // What a loop prints now and then fills no disk.
            if output.taint.has(Taint::ENDLESS) && keeps && program.is_some() {
                self.trace.facts.push(Fact::Endless);
            }
            match append {
                true => self.append_file(path, &output),
                false => self.write_file(path, &output),
            }
        }
        if streams.passes { output } else { Data::empty() }
    }

    /// Remembers what a file holds from now on.
    pub(crate) fn write_file(&mut self, path: &str, data: &Data) {
        let located = self.located(path);
        self.hear(&located, data);
        let over = self.state.disk.write(located, data.clone());
        self.trace.note(over);
    }

    /// Remembers what a file holds besides what it held. What that was is known only of files that the command made.
    pub(crate) fn append_file(&mut self, path: &str, data: &Data) {
        let located = self.located(path);
        self.hear(&located, data);
        let mut all = self.state.disk.file(&located).cloned().unwrap_or_else(Data::empty);
        all.then(data);
        let over = self.state.disk.write(located, all);
        self.trace.note(over);
    }

    /// Makes the redirections of an `exec` without a command those of the shell.
    pub(crate) fn keep_streams(&mut self, streams: &Streams) {
        if streams.feeds {
            self.state.input = Some(streams.stdin.clone());
        }
        if !streams.is_plain() {
            self.state.outputs.clone_from(&streams.outputs);
        }
    }

    /// Returns the absolute, normalised form of a path.
    pub(crate) fn resolve(&self, path: &str) -> String {
        crate::paths::lexical(path, self.state.cwd.as_deref().unwrap_or("/unknown"))
    }

    /// Returns the folder that a shell comes to by a path, in its normal form; none, out loud, for one that is longer than can
    /// be followed. What is written may be as long as it likes: a shell resolves it before the system sees it.
    pub(crate) fn folder_at(&mut self, path: &str) -> Option<String> {
        let folder = self.resolve(path);
        if folder.len() > limits::PATH.most {
            self.trace.note(Over::of(&limits::PATH));
            return None;
        }
        Some(folder)
    }

    /// Returns the path of a file behind the links that this command made.
    pub(crate) fn located(&self, path: &str) -> String {
        let at = self.resolve(path);
        self.state.disk.led(&at).unwrap_or(at)
    }

    /// Returns what can be said of the content of a file.
    pub(crate) fn content_of(&mut self, path: &str) -> Data {
        if is_socket(path) {
            return Data::unknown(Taint::NET);
        }
        let resolved = self.located(path);
        match resolved.as_str() {
            "/dev/null" => return Data::empty(),
            "/dev/tty" => return Data::session_input(),
            "/dev/zero" | "/dev/random" | "/dev/urandom" => {
                return Data::unknown(Taint::FILE | Taint::ENDLESS);
            }
            _ => {}
        }
        if let Some(fd) = descriptor_in(&resolved)
            && let Some(data) = self.open_data(fd)
        {
            return data;
        }
        let data = match self.state.disk.file(&resolved) {
            Some(known) => known.clone(),
            // A pattern stands for what it finds among the files of the command.
            None if resolved.contains([STAR, ANY, SET]) && !self.state.disk.is_empty() => {
                let mut found: Vec<(&String, &Data)> = self
                    .state
                    .disk
                    .files()
                    .filter(|(path, _)| super::pattern::matches(&resolved, path))
                    .collect();
                found.sort_by_key(|(path, _)| *path);
                found.first().map_or_else(|| Data::unknown(Taint::FILE), |(_, data)| (*data).clone())
            }
            None if self.state.disk.is_fetched(&resolved) => Data::unknown(Taint::FETCHED),
            None => self.workspace_file(&resolved),
        };
        if resolved.starts_with("/proc/") && resolved.ends_with("/environ") {
            return data.tainted(Taint::ENVIRONMENT);
        }
        if self.labels.is_secret(&resolved, self.place) { data.tainted(Taint::SECRET) } else { data }
    }

    /// Returns what can be read behind an open descriptor, by its number or a number that is not known.
    fn open_data(&self, fd: &str) -> Option<Data> {
        if fd == "0" {
            return Some(self.stdin.clone());
        }
        let known = self.state.descriptors.get(fd).cloned();
        if known.is_some() || !fd.contains(HOLE) {
            return known
                .or_else(|| self.chosen(fd).filter(|_| !self.state.disk.has(&format!("/dev/fd/{fd}"))));
        }
        // It may be any that is open, and the input as well.
        let mut numbered: Vec<_> = self.state.descriptors.iter().collect();
        numbered.sort_by_key(|(name, _)| name.as_str());
        let mut all = self.stdin.clone();
        numbered.into_iter().for_each(|(_, data)| all.or(data));
        Some(all)
    }

    /// Reports that a file is read by a redirection.
    pub(crate) fn touch_read(&mut self, path: &str) {
        let resolved = self.resolve(path);
        if !is_socket(path) && !is_sink(&resolved) && descriptor_in(&resolved).is_none() {
            self.touch_by(None, Touch::new(Action::Read, path));
        }
    }

    /// Runs `<(...)`, or keeps `>(...)` for when there is something to read; the answer is its path.
    pub(crate) fn process_substitution(
        &mut self,
        kind: &ast::ProcessSubstitutionKind,
        subshell: &ast::SubshellCommand,
    ) -> String {
        match kind {
            ast::ProcessSubstitutionKind::Read => {
                let path = self.new_pipe();
                let taint = self.word_taint;
                let environment = std::mem::take(&mut self.environment);
                let outer = std::mem::take(&mut self.sinks);
                let (output, _) =
                    self.in_subshell(|shell| shell.run_list(&subshell.list, &Data::session_input()));
                self.sinks = outer;
                self.environment = environment;
                self.word_taint = taint;
                let over = self.state.disk.write(path.clone(), output);
                self.trace.note(over);
                path
            }
            ast::ProcessSubstitutionKind::Write => {
                let reader = ast::CompoundCommand::Subshell(subshell.clone());
                let path = self.let_listen(ast::Command::Compound(reader, None), None);
                self.sinks.push(path.clone());
                path
            }
        }
    }
}
