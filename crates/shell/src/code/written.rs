//! Programs that are built from texts which the same command wrote, and texts that run without being named: a program
//! compiled from a here-document, a `conftest.py` that `pytest` loads.
//!
//! The entries of programs say which of them do that (`compiles`, `collects`). If the language of a text is read, the text
//! is read. Otherwise its effect is unknown, unless it only prints.

use super::{Languages, Reading, reader};
use crate::Taint;
use crate::data::Data;
use crate::options::Options;
use crate::pattern;
use crate::walk::Shell;
use crate::word::STAR;

/// Programs that start a tool of the project by its name.
const LAUNCHERS: &[&str] = &[
    "npx", "bunx", "pnpx", "npm", "pnpm", "yarn", "bun", "poetry", "uv", "uvx", "pipenv", "hatch", "bundle",
];

impl Shell<'_> {
    /// Looks for files of this command that the program compiles, or runs without being told to.
    pub(super) fn collected(&mut self, program: &str, args: &[&str], process: usize) {
        let programs = self.programs;
        if self.state.disk.is_empty() {
            return;
        }
        if LAUNCHERS.contains(&program)
            && let Some(at) =
                args.iter().position(|arg| programs.get(arg).is_some_and(|entry| !entry.collects.is_empty()))
            && let Some((started, rest)) = args.get(at..).and_then(<[&str]>::split_first)
        {
            self.collected(started, rest, process);
        }
        let Some(entry) = programs.get(program) else { return };
        if let Some(output) = &entry.compiles {
            self.compile(output, program, args);
        }
        let asked = |when: &str| when.is_empty() || when.split(' ').any(|word| args.contains(&word));
        let strange: Vec<Taint> = entry
            .obeys
            .iter()
            .filter(|(_, when)| asked(when))
            .flat_map(|(pattern, _)| {
                self.state.disk.files().filter(move |(path, _)| is_called(path, pattern))
            })
            .map(|(_, data)| data.taint)
            .filter(|taint| taint.has(Taint::NET) || taint.has(Taint::DECODED) || taint.has(Taint::FETCHED))
            .collect();
        for taint in strange {
            self.runs_code(process, taint);
        }
        for pattern in entry.collects.iter().filter(|(_, when)| asked(when)).map(|(pattern, _)| pattern) {
            let files = self.state.disk.files().map(|(path, _)| path);
            let mut files: Vec<String> = files.filter(|path| is_called(path, pattern)).cloned().collect();
            files.sort();
            for file in files {
                let reading = if is_test(&file) { Reading::Test } else { Reading::Alone };
                self.read_script(program, &file, process, reading);
            }
        }
    }

    /// What is compiled of texts that are not harmless is code that nobody has read.
    fn compile(&mut self, output: &str, program: &str, args: &[&str]) {
        let sources: Vec<(&str, Data)> = args
            .iter()
            .filter_map(|arg| Some((*arg, self.state.disk.file(&self.resolve(arg))?.clone())))
            .collect();
        let Some((first, _)) = sources.first() else { return };
        let options = Options::parse(args, self.programs.takes(program));
        let stem = first.rsplit_once('.').map_or(*first, |(stem, _)| stem);
        let made = options.value(Some('o'), "output").unwrap_or(if output == "*" { stem } else { output });
        let (languages, home) = (Languages::built_in(), self.place.home());
        let harmless = sources.iter().all(|(path, data)| {
            data.exact()
                .is_some_and(|text| reader::read(text, languages.of_file(path), home, 0).is_harmless())
        });
        // A harmless program is as any other of the workspace: what it prints is not known.
        if !harmless {
            let taint = sources.iter().fold(Taint::PROGRAM, |all, (_, data)| all | data.taint);
            self.write_file(made, &Data::unknown(taint));
        }
        for (path, _) in sources {
            let process = self.trace.processes.len().saturating_sub(1);
            self.code_of_source(path, process);
        }
    }

    /// What the text of a program starts counts when it is compiled: the program may be run by any name.
    fn code_of_source(&mut self, path: &str, process: usize) {
        if let Some(text) = self.content_of(path).exact().map(str::to_owned) {
            self.code(&text, Languages::built_in().of_file(path), process, 0);
        }
    }
}

/// Returns whether the name of a file fits a pattern.
fn is_called(path: &str, pattern: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    pattern::matches(&pattern.replace('*', &String::from(STAR)), name)
}

/// Returns whether a file is a test by its name, as pytest 8 and Jest 29 find them.
fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.split('.').next().unwrap_or(name);
    stem.starts_with("test_") || stem.ends_with("_test") || name.contains(".test.") || name.contains(".spec.")
}
