//! Processes that listen: they read what is written to their end of a pipe, whoever writes it and when.
//!
//! `>(...)` and `coproc` start a process with a pipe to it. The pipe is a path and may also be a descriptor, which
//! outlives the command it was created for (`exec 5> >(sh)`), is copied, passed on and named by expansions. A listening
//! process is therefore tracked by the path of its pipe. The law: *whatever is written to the path is read*, immediately
//! and, if it is written in parts, once more as a whole when the command has ended. The listener's output goes to the
//! output of the process that wrote to it.

use std::rc::Rc;

use brush_parser::ast;

use super::data::{Data, Taint};
use super::redirect::Output;
use super::state::Value;
use super::trace::UnknownKind;
use super::walk::Shell;
use super::word::HOLE;

/// What reads from a pipe.
#[derive(Clone)]
pub(crate) struct Listener {
    reader: Rc<ast::Command>,
    /// The descriptor from which it can be heard, if it is not where the shell prints.
    answers: Option<String>,
    /// Where it prints: where the shell did when it was started.
    outputs: Vec<Output>,
    /// How often something was written to it.
    heard: usize,
    /// It is reading right now.
    runs: bool,
}

impl Shell<'_> {
    /// Returns the path of a new pipe.
    pub(crate) fn new_pipe(&mut self) -> String {
        self.pipes += 1;
        format!("/dev/fd/{}", 1000 + self.pipes)
    }

    /// Has a process listen to a new pipe; the answer is its path.
    pub(crate) fn let_listen(&mut self, reader: ast::Command, answers: Option<String>) -> String {
        let path = self.new_pipe();
        let outputs = self.state.outputs.clone();
        let listener = Listener { reader: Rc::new(reader), answers, outputs, heard: 0, runs: false };
        self.listeners.insert(path.clone(), listener);
        path
    }

    /// Runs what listens to a path on what is written there.
    pub(crate) fn hear(&mut self, path: &str, data: &Data) {
        if self.listeners.is_empty() || data.is_empty() {
            return;
        }
        let Some(listener) = self.listeners.get_mut(path) else { return };
        listener.heard += 1;
        if listener.runs {
            // What it prints comes back to it, so that what it reads is not known.
            self.trace.unknown(UnknownKind::Code, "a process reads what it prints itself", true);
            return;
        }
        self.feed(path, data);
    }

    fn feed(&mut self, path: &str, data: &Data) {
        let Some(listener) = self.listeners.get_mut(path) else { return };
        listener.runs = true;
        let (reader, answers) = (Rc::clone(&listener.reader), listener.answers.clone());
        let outputs = listener.outputs.clone();
        let data = self.opened(data.clone());
        let printed = self.in_subshell(|shell| {
            shell.state.outputs = outputs;
            shell.run_body(&reader, &data)
        });
        match answers {
            Some(descriptor) => match self.state.descriptors.get_mut(&descriptor) {
                Some(known) => known.then(&printed),
                None => drop(self.state.descriptors.insert(descriptor, printed)),
            },
            None => self.answered.then(&printed),
        }
        if let Some(listener) = self.listeners.get_mut(path) {
            listener.runs = false;
        }
    }

    /// Runs the processes of `>(...)` in a command to which it wrote nothing by their path: they may get what it prints.
    pub(crate) fn drain_sinks(&mut self, output: &Data) {
        for path in std::mem::take(&mut self.sinks) {
            if self.listeners.get(&path).is_some_and(|listener| listener.heard == 0) {
                self.feed(&path, output);
            }
        }
    }

    /// Returns what listened has printed since this was asked last.
    pub(crate) fn answers(&mut self) -> Data {
        std::mem::replace(&mut self.answered, Data::empty())
    }

    /// The command has ended: what was written in parts is read as a whole.
    pub(crate) fn end_listeners(&mut self) {
        let mut parted: Vec<String> =
            self.listeners.iter().filter(|(_, one)| one.heard > 1).map(|(path, _)| path.clone()).collect();
        parted.sort_unstable();
        for path in parted {
            let Some(whole) = self.state.disk.file(&path).cloned() else { continue };
            self.feed(&path, &whole);
        }
    }

    /// `coproc NAME COMMAND`: what it prints and what it reads are behind descriptors of which only the shell knows the
    /// numbers.
    pub(crate) fn coprocess(&mut self, coproc: &ast::CoprocessCommand) {
        let name = coproc.name.as_ref().map_or("COPROC", |name| name.value.as_str()).to_owned();
        let key = format!("{{coproc {name}}}");
        self.forks += 1;
        let output = self.in_subshell(|shell| shell.run_body(&coproc.body, &Data::session_input()));
        self.forks -= 1;
        // What it makes of its input comes when something is written to it.
        let output = if output.taint.has(Taint::INPUT) { Data::empty() } else { output };
        self.state.descriptors.insert(key.clone(), output);
        let path = self.let_listen((*coproc.body).clone(), Some(key.clone()));
        self.state.assign(&super::redirect::written_by(&key), Value::Text(path));
        self.state.assign(&name, Value::List(vec![HOLE.to_string(); 2]));
    }

    /// Returns the pipes of coprocesses, for whoever writes to "the" coprocess.
    pub(crate) fn coprocesses(&self) -> Vec<String> {
        let name = super::redirect::written_by("{coproc");
        let mut paths: Vec<String> =
            self.state.assigned_with_prefix(&name).map(|(_, value)| value.scalar().to_owned()).collect();
        paths.sort_unstable();
        paths
    }

    /// `print -p`, which writes to the coprocess of the shell.
    pub(crate) fn print_to_coprocess(&mut self, words: &[String]) {
        let data = Data::text(words.join(" ") + "\n").tainted(self.word_taint.without(Taint::INPUT));
        for path in self.coprocesses() {
            self.append_file(&path, &data);
        }
    }
}
