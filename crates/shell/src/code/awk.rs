//! awk and sed, whose programs are no code of a language with calls.

use super::calls::Call;
use super::language::{Languages, Syntax};
use super::reader::Found;
use super::tokens::{Token, tokenize};
use crate::Taint;
use crate::data::Data;
use crate::effects::{Action, Touch};
use crate::options::Options;
use crate::trace::Fact;
use crate::walk::Shell;
use crate::word::{HOLE, has_hole};

impl Shell<'_> {
    pub(super) fn awk(&mut self, args: &[&str], process: usize) {
        let takes = self.programs.takes("awk");
        let options = Options::parse(args, takes);
        let named = options.value(Some('f'), "file");
        let mut programs: Vec<&str> = options.values(Some('e'), "source").collect();
        if programs.is_empty() && named.is_none() {
            programs.extend(options.operands.first());
        }
        for program in programs.into_iter().map(str::to_owned).collect::<Vec<_>>() {
            if program.chars().all(|c| c == HOLE) && !program.is_empty()
                || self.open_ended && program == HOLE.to_string()
            {
                self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::PROGRAM });
                continue;
            }
            let mut program = program;
            for (name, value) in options.values(Some('v'), "assign").filter_map(|pair| pair.split_once('=')) {
                let call = format!("system({name})");
                program = program.replace(&call, &format!("system({value:?})"));
            }
            if multiplies(&program) {
                self.trace.facts.push(Fact::ForkBomb);
            }
            let found = read(&program);
            self.trace.note(found.over);
            if found.network {
                self.trace.facts.push(Fact::NetworkShell { process });
            }
            let computed = found.calls.iter().any(|call| matches!(call, Call::Carrier(_)));
            if computed && found.calls.iter().any(Call::fetches) {
                self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::NET });
            }
            for call in &found.calls {
                self.code_call(call, Languages::built_in().any(), process, 0);
            }
        }
        if let Some(file) = named {
            let file = file.to_owned();
            if has_hole(&file) || file == "-" {
                self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::PROGRAM });
            }
        }
    }

    /// The `e` command and flag of GNU sed.
    pub(super) fn sed_commands(&mut self, args: &[&str], stdin: &Data, process: usize) {
        let options = Options::parse(args, self.programs.takes("sed"));
        let mut scripts: Vec<String> = options.values(Some('e'), "expression").map(str::to_owned).collect();
        if scripts.is_empty() {
            scripts.extend(options.operands.first().map(|script| (*script).to_owned()));
        }
        for script in scripts {
            for command in script.split([';', '\n']) {
                let command = command
                    .trim()
                    .trim_start_matches(|c: char| c.is_ascii_digit() || c == ',' || c == '$')
                    .trim();
                if let Some(text) = command.strip_prefix("e ") {
                    self.run_found(text, process);
                } else if let Some((replacement, flags)) = substitution(command)
                    && flags.contains('e')
                {
                    self.run_found(&replacement, process);
                    if let Some(text) = stdin.exact().map(str::to_owned) {
                        self.run_found(&text, process);
                    }
                }
            }
        }
    }
}

/// Whether a loop without an end starts what it does not wait for.
fn multiplies(program: &str) -> bool {
    const LOOPS: [&str; 4] = ["while(1)", "for(;;)", "while(\"x\")", "do{"];
    let compact: String = program.chars().filter(|c| !c.is_whitespace()).collect();
    let detached = compact.contains("&\")") || compact.contains("&';") || compact.contains("|getline&");
    detached && compact.contains("system(") && LOOPS.iter().any(|endless| compact.contains(endless))
}

/// Splits `s/a/b/flags` into replacement and flags.
fn substitution(command: &str) -> Option<(String, String)> {
    let rest = command.strip_prefix('s')?;
    let mut chars = rest.chars();
    let separator = chars.next().filter(|c| !c.is_alphanumeric() && !c.is_whitespace())?;
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in chars {
        if c == separator && !escaped {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            if escaped && c != separator {
                part.push('\\');
            }
            if c != '\\' || escaped {
                part.push(c);
            }
        }
        escaped = c == '\\' && !escaped;
    }
    match parts.as_slice() {
        [_, replacement, flags, ..] => Some((replacement.clone(), flags.clone())),
        _ => None,
    }
}

/// Scans an awk program: `system`, pipes to and from commands, files read and written.
fn read(text: &str) -> Found {
    let mut found = Found::default();
    let (tokens, over) = tokenize(text, &Syntax { hash: true, ..Syntax::default() });
    found.over = over;
    found.network = text.contains("/inet/");
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|i| tokens.get(i));
        let earlier = at.checked_sub(2).and_then(|i| tokens.get(i));
        let next = tokens.get(at + 1);
        match token {
            Token::Text(body) => {
                let called = matches!((earlier, before), (Some(Token::Name(name)), Some(Token::Mark('('))) if name == "system");
                let piped = before == Some(&Token::Mark('|')) || next == Some(&Token::Mark('|'));
                if called || piped || matches!(before, Some(Token::Name(name)) if name == "system") {
                    found.calls.push(Call::Shell(body.body.clone()));
                } else if before == Some(&Token::Mark('<')) {
                    found.calls.push(Call::Touch(Touch::new(Action::Read, body.body.clone())));
                } else if before == Some(&Token::Mark('>')) {
                    found.calls.push(Call::Touch(Touch::new(Action::Write, body.body.clone())));
                }
            }
            Token::Name(name) if name == "system" => {
                let unknown =
                    !matches!(tokens.get(at + 2), Some(Token::Text(_))) && next == Some(&Token::Mark('('));
                if unknown {
                    found.calls.push(Call::Carrier(Taint::PROGRAM));
                }
            }
            _ => {}
        }
    }
    found
}
