//! What programs read: what the command itself gives them, and the session's own standard input.
//!
//! Input typed into a shell is read by the shell, until it starts a program that inherits its input and consumes
//! some of it. From then on nobody outside can tell which of them reads what. The law: *a program reads what is
//! typed unless it is known not to*. The catalogue says which never do. A program that reads the files
//! it is told to read is not among them: any of those may be the standard input under another name.

use std::sync::Arc;

use super::data::{Data, Taint};
use super::limits::{self, Over};
use super::redirect::descriptor_in;
use super::trace::{Input, Reader, UnknownKind};
use super::walk::Shell;
use super::word::unglob;
use crate::programs::Does;

/// Builtins that read.
const READING_BUILTINS: &[&str] = &["read", "mapfile", "readarray", "source", "."];

impl Shell<'_> {
    /// Takes down what a process reads of what this command made: its standard input, and files that it is named.
    pub(super) fn note_inputs(&mut self, process: usize, args: &[String], stdin: &Data) {
        let mut inputs: Vec<Input> = self.input(stdin, true).into_iter().collect();
        if !self.state.disk.is_empty() {
            for arg in args {
                let path = arg.split_once('=').map_or(arg.as_str(), |(_, value)| value);
                let path = self.located(path);
                let flows = descriptor_in(&path).is_some();
                let data = self.state.disk.file(&path).cloned();
                inputs.extend(data.and_then(|data| self.input(&data, flows)));
            }
        }
        if let Some(process) = self.trace.processes.get_mut(process) {
            process.inputs = inputs;
        }
    }

    /// Returns what can be said of data that a process reads; nothing is to be said of what the session types.
    fn input(&mut self, data: &Data, flows: bool) -> Option<Input> {
        let from = data.taint;
        let text = data.marked().filter(|text| !text.is_empty());
        self.inputs += text.map_or(0, str::len);
        let has_room = self.inputs <= limits::INPUTS.most;
        if text.is_some() && !has_room {
            self.trace.note(Over::of(&limits::INPUTS));
        }
        let is_lost = data.marked().is_none() && from == Taint::NONE;
        let is_told = text.is_some() || is_lost || from.without(Taint::INPUT | Taint::FILE) != Taint::NONE;
        let text = text.filter(|_| has_room).map(|text| Arc::from(&*unglob(text)));
        is_told.then_some(Input { text, from, flows })
    }

    /// Takes down that the program may read the session's own input, unless it is known not to.
    pub(super) fn note_reader(&mut self, argv: &[String], program: &str, stdin: &Data) {
        let ours = stdin.taint.has(Taint::INPUT) && stdin.marked().is_none() && !stdin.is_dialogue();
        if ours && !self.is_deaf(argv, program) {
            self.trace.reader(Reader { program: program.to_owned(), argv: argv.to_vec() });
        }
    }

    /// Takes down that code runs which nobody has read, and which may read the session's own input.
    pub(super) fn note_unread_reader(&mut self, name: &str) {
        self.trace.reader(Reader { program: name.to_owned(), argv: Vec::new() });
    }

    /// As [`Self::note_reader`], for a builtin.
    pub(super) fn note_reading_builtin(&mut self, argv: &[String], name: &str, stdin: &Data) {
        if READING_BUILTINS.contains(&name) {
            self.note_reader(argv, name, stdin);
        }
    }

    /// As [`Self::note_reader`], for a wrapper that was followed; `before` is how many readers were known until then.
    pub(super) fn note_reading_wrapper(
        &mut self,
        argv: &[String],
        program: &str,
        stdin: &Data,
        before: usize,
    ) {
        let mut options = argv.iter().skip(1).filter(|arg| arg.starts_with('-'));
        let hands_on = self.programs.does(program, Does::HandsInputOn)
            || matches!(program, "sudo" | "doas") && options.all(|option| !option.contains('e'))
            || self.programs.does(program, Does::HandsInputToCommand) && self.trace.readers.len() > before;
        if !hands_on {
            self.note_reader(argv, program, stdin);
        }
    }

    /// True for a program that leaves its standard input alone.
    fn is_deaf(&self, argv: &[String], program: &str) -> bool {
        // A program of somebody else's may have any name.
        let folder = argv.first().and_then(|word| word.strip_suffix(program));
        matches!(folder, Some("" | "/bin/" | "/usr/bin/")) && self.programs.does(program, Does::IgnoresInput)
    }
}

/// True when it is certain that nothing started by the command reads what is typed behind it.
pub fn leaves_input_alone(trace: &super::Trace) -> bool {
    let lost = |unknown: &super::Unknown| unknown.carrier || unknown.kind == UnknownKind::Limit;
    trace.readers.is_empty() && !trace.unknowns.iter().any(lost)
}
