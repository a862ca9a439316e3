//! How a long program is run: statement by statement, as a shell reads it.

use std::collections::HashMap;

use super::data::Data;
use super::fair;
use super::limits::{self, Over};
use super::prescan::{MAX_BYTES, Refusal};
use super::statements::{self, LONG, Statement};
use super::texts::Program;
use super::trace::UnknownKind;
use super::walk::Shell;

impl Shell<'_> {
    /// Runs a long program statement by statement; `None` for one that is short, or that can't be cut.
    ///
    /// A statement that was met before in the same state does the same again and is not followed twice. One that only
    /// says something is a process with its words and nothing else, unless somebody hears it: what the outermost program
    /// prints is nobody's input as long as its own output is not moved.
    pub(crate) fn run_long(&mut self, text: &str, stdin: &Data) -> Option<Data> {
        if text.len() <= LONG {
            return None;
        }
        let unheard = self.depth == 1 && !self.moved;
        let statements = statements::cut(text);
        if matches!(statements.as_slice(), [Statement::Code(code)] if code.trim() == text.trim() && code.len() <= MAX_BYTES)
        {
            return None;
        }
        let different = Different::of(&statements);
        let (programs, over) = self.parsed_statements(&statements, &different, unheard)?;
        let mut output = Data::empty();
        let mut since = self.state.moment();
        // What the statements printed in the present state, by their numbers.
        let mut printed: Vec<Option<(usize, Data)>> = vec![None; different.texts.len()];
        let mut states = 0;
        let mut said = Said { met: vec![false; different.texts.len()], processes: Vec::new() };
        for (statement, nth) in statements.iter().zip(different.numbers) {
            if !self.has_steps() {
                break;
            }
            let code = match *statement {
                Statement::Idle(idle) if unheard && !self.moved && !self.is_taken(idle) => {
                    said.add(nth, idle);
                    continue;
                }
                Statement::Idle(code) | Statement::Code(code) => code,
            };
            if !self.state.is_at(&since) {
                states += 1;
                since = self.state.moment();
            }
            let data = match (printed.get(nth), programs.get(nth).cloned().flatten()) {
                (Some(Some((state, data))), _) if *state == states => data.clone(),
                (_, None) if over != Over::NOTHING => continue,
                (_, program) => {
                    let program = program.unwrap_or_else(|| self.texts.program(code));
                    let data = self.run_statement(code, &program, stdin);
                    if let Some(known) = printed.get_mut(nth) {
                        *known = Some((states, data.clone()));
                    }
                    data
                }
            };
            if !unheard {
                output.then(&data);
            }
        }
        self.trace.note(over);
        for argv in said.processes {
            self.emit(&argv);
        }
        Some(output)
    }

    /// Returns the statements, parsed, by their numbers, and whether there are more of them than that; `None` where one was cut
    /// wrongly.
    fn parsed_statements(
        &mut self,
        statements: &[Statement<'_>],
        different: &Different<'_>,
        unheard: bool,
    ) -> Option<(Vec<Option<Program>>, Over)> {
        let mut is_code = vec![!unheard; different.texts.len()];
        for (statement, nth) in statements.iter().zip(&different.numbers) {
            if let (Statement::Code(_), Some(is_code)) = (statement, is_code.get_mut(*nth)) {
                *is_code = true;
            }
        }
        let numbers: Vec<usize> =
            (0..).zip(is_code).filter_map(|(nth, is_code)| is_code.then_some(nth)).collect();
        let codes: Vec<&str> = numbers.iter().filter_map(|nth| different.texts.get(*nth).copied()).collect();
        let (followed, over) = fair::followed(&codes, &limits::PIECES, limits::FEW_PIECES, self.texts.room());
        let mut programs = vec![None; different.texts.len()];
        for (nth, code) in numbers.iter().zip(codes).zip(followed).filter_map(|(it, kept)| kept.then_some(it))
        {
            let program = self.texts.program(code);
            match &*program {
                Ok(parsed) if parsed.complete => {}
                Err(Refusal::TooLong) => {}
                _ => return None,
            }
            if let Some(slot) = programs.get_mut(*nth) {
                *slot = Some(program);
            }
        }
        Some((programs, over))
    }

    fn run_statement(&mut self, code: &str, program: &Program, stdin: &Data) -> Data {
        match &**program {
            Ok(parsed) => self.run_parsed(parsed, stdin),
            Err(refusal) => {
                let too_long = *refusal == Refusal::TooLong;
                let squeezed = too_long.then(|| statements::squeezed(code)).flatten();
                let code = squeezed.as_deref().unwrap_or(code);
                if squeezed.is_some()
                    && let Ok(parsed) = &*self.texts.program(code)
                    && parsed.complete
                {
                    return self.run_parsed(parsed, stdin);
                }
                // What is left when long texts are taken out may be short enough to be read as what it is.
                let abridged = statements::abridged(code).filter(|_| too_long);
                if let Some(abridged) = abridged
                    && let Ok(parsed) = &*self.texts.program(&abridged)
                    && parsed.complete
                {
                    self.run_parsed(parsed, stdin);
                }
                self.run_refused(code, *refusal, stdin)
            }
        }
    }

    /// Returns whether the command of an idle statement was given another meaning.
    fn is_taken(&self, idle: &str) -> bool {
        let name = idle.split([' ', '\t']).next().unwrap_or_default();
        self.state.functions.contains_key(name) || self.state.aliases.contains_key(name)
    }

    /// Runs what can be read of a text that is not given to the parser.
    pub(crate) fn run_refused(&mut self, text: &str, refusal: Refusal, stdin: &Data) -> Data {
        let reason = match refusal {
            Refusal::TooLong => "the command is too long to be analysed",
            Refusal::TooDeep => "the command is nested too deeply to be analysed",
        };
        self.trace.unknown(UnknownKind::Limit, reason, true);
        let parsed = self.texts.recover(text);
        self.run_parsed(&parsed, stdin)
    }
}

/// The statements of a program, equal ones under one number. Each byte is hashed once.
struct Different<'t> {
    /// The number of each statement.
    numbers: Vec<usize>,
    /// What each number stands for.
    texts: Vec<&'t str>,
}

impl<'t> Different<'t> {
    fn of(statements: &[Statement<'t>]) -> Self {
        let mut known: HashMap<&str, usize> = HashMap::with_capacity(statements.len());
        let mut texts = Vec::new();
        let mut number = |statement: &Statement<'t>| {
            let (Statement::Idle(text) | Statement::Code(text)) = *statement;
            *known.entry(text).or_insert_with(|| {
                texts.push(text);
                texts.len() - 1
            })
        };
        let numbers = statements.iter().map(&mut number).collect();
        Self { numbers, texts }
    }
}

/// What the idle statements say, each once: one process for each command.
struct Said {
    /// Whether a statement was met, by its number.
    met: Vec<bool>,
    processes: Vec<Vec<String>>,
}

impl Said {
    fn add(&mut self, nth: usize, idle: &str) {
        if self.met.get_mut(nth).is_none_or(|met| std::mem::replace(met, true)) {
            return;
        }
        let mut words = statements::idle_words(idle);
        let Some(name) = words.next() else { return };
        match self.processes.iter_mut().find(|argv| argv.first() == Some(&name)) {
            Some(argv) => argv.extend(words),
            None => self.processes.push(std::iter::once(name).chain(words).collect()),
        }
    }
}
