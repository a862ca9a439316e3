//! How a long program is run: statement by statement, as a shell reads it.

use std::collections::{HashMap, HashSet};

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
        let (programs, over) = self.parsed_statements(&statements, unheard)?;
        let mut output = Data::empty();
        let mut since = self.state.moment();
        let mut met: HashMap<&str, Data> = HashMap::new();
        let mut said = Said::default();
        for statement in statements {
            if !self.has_steps() {
                break;
            }
            let code = match statement {
                Statement::Idle(idle) if unheard && !self.moved && !self.is_taken(idle) => {
                    said.add(idle);
                    continue;
                }
                Statement::Idle(code) | Statement::Code(code) => code,
            };
            if !self.state.is_at(&since) {
                met.clear();
                since = self.state.moment();
            }
            let known = programs.get(code).cloned();
            let printed = match (met.get(code), known) {
                (Some(printed), _) => printed.clone(),
                (None, None) if over != Over::NOTHING => continue,
                (None, known) => {
                    let program = known.unwrap_or_else(|| self.texts.program(code));
                    let printed = self.run_statement(code, &program, stdin);
                    met.insert(code, printed.clone());
                    printed
                }
            };
            if !unheard {
                output.then(&printed);
            }
        }
        self.trace.note(over);
        for argv in said.processes {
            self.emit(&argv);
        }
        Some(output)
    }

    /// The statements, parsed, and whether there are more of them than that; `None` where one was cut wrongly.
    fn parsed_statements<'t>(
        &mut self,
        statements: &[Statement<'t>],
        unheard: bool,
    ) -> Option<(HashMap<&'t str, Program>, Over)> {
        let mut met = HashSet::new();
        let code = statements.iter().filter_map(|statement| match statement {
            Statement::Idle(_) if unheard => None,
            Statement::Idle(code) | Statement::Code(code) => Some(*code),
        });
        let different: Vec<&str> = code.filter(|code| met.insert(*code)).collect();
        let (chosen, over) = fair::chosen(different, &limits::PIECES, limits::FEW_PIECES, self.texts.room());
        let mut programs = HashMap::new();
        for code in chosen {
            let program = self.texts.program(code);
            match &*program {
                Ok(parsed) if parsed.complete => {}
                Err(Refusal::TooLong) => {}
                _ => return None,
            }
            programs.insert(code, program);
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

    /// Whether the command of an idle statement was given another meaning.
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

/// What the idle statements say, each once: one process for each command.
#[derive(Default)]
struct Said<'t> {
    met: HashSet<&'t str>,
    processes: Vec<Vec<String>>,
}

impl<'t> Said<'t> {
    fn add(&mut self, idle: &'t str) {
        if !self.met.insert(idle) {
            return;
        }
        let words = statements::idle_words(idle);
        match self.processes.iter_mut().find(|argv| argv.first() == words.first()) {
            Some(argv) => argv.extend(words.into_iter().skip(1)),
            None => self.processes.push(words),
        }
    }
}
