//! awk and sed, whose programs have no calls like other languages.

use std::collections::HashMap;

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
    pub(super) fn awk(&mut self, args: &[&str], stdin: &Data, process: usize) {
        let takes = self.programs.takes("awk");
        let options = Options::parse(args, takes);
        let named = options.value(Some('f'), "file");
        let mut programs: Vec<&str> = options.values(Some('e'), "source").collect();
        if programs.is_empty() && named.is_none() {
            programs.extend(options.operands.first());
        }
        let mut programs: Vec<String> = programs.into_iter().map(str::to_owned).collect();
        let code = programs.len().saturating_sub(usize::from(options.value(Some('e'), "source").is_some()));
        programs.extend(self.scripts_in(named, stdin, process));
        // What stands behind the program, and in variables, is at hand for it as much as what it reads.
        let operands = options.operands.iter().skip(code).map(|operand| (*operand).to_owned());
        let given: Vec<String> =
            operands.chain(self.environment.iter().map(|(_, value)| value.clone())).collect();
        for program in programs {
            if program.chars().all(|c| c == HOLE) && !program.is_empty()
                || self.open_ended && program == HOLE.to_string()
            {
                self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::PROGRAM });
                continue;
            }
            if multiplies(&program) {
                self.trace.facts.push(Fact::ForkBomb);
            }
            let variables = options.values(Some('v'), "assign").filter_map(|pair| pair.split_once('='));
            let set = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let own = self.process_environment();
            let own = std::iter::once(("HOME".to_owned(), self.place.home().to_owned())).chain(own);
            let own = own.map(|(name, value)| (in_environment(&name), value));
            let variables = own.chain(set).map(|(name, value)| (name, Made::from(value))).collect();
            let found = read(&program, variables);
            self.trace.note(found.over);
            if found.network {
                self.trace.facts.push(Fact::NetworkShell { process });
            }
            let computed = found.calls.iter().any(|call| matches!(call, Call::Carrier(_)));
            if computed && found.calls.iter().any(Call::fetches) {
                self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::NET });
            }
            self.note_unread_code("awk", &found);
            for call in &found.calls {
                self.code_call(call, Languages::built_in().any(), process, 0);
            }
            self.give_to(&found, stdin, process);
            // What is computed may be any text that is at hand: one that is given, or one of its own.
            for text in given.iter().chain(&found.literals).filter(|text| computed && text.contains(' ')) {
                self.run_found(text, process);
            }
        }
        if let Some(file) = named {
            let file = file.to_owned();
            if has_hole(&file) || file == "-" {
                self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::PROGRAM });
            }
        }
    }

    /// Returns the script in a file that awk or sed is named, where this command wrote it or pipes it in.
    fn scripts_in(&mut self, file: Option<&str>, stdin: &Data, process: usize) -> Option<String> {
        let file = file.filter(|file| !has_hole(file))?;
        let data = if file == "-" || file == "/dev/stdin" { stdin.clone() } else { self.content_of(file) };
        if data.taint.has(Taint::NET) {
            self.trace.facts.push(Fact::RunsCode { process: Some(process), from: data.taint });
        }
        data.exact().map(str::to_owned)
    }

    /// What commands of sed run, read and write: `e` and the flag `e` of GNU sed, `r`, `R`, `w`, `W`.
    pub(super) fn sed_commands(&mut self, args: &[&str], stdin: &Data, process: usize) {
        let options = Options::parse(args, self.programs.takes("sed"));
        let file = options.value(Some('f'), "file");
        let mut scripts: Vec<String> = options.values(Some('e'), "expression").map(str::to_owned).collect();
        scripts.extend(self.scripts_in(file, stdin, process));
        if scripts.is_empty() && file.is_none() {
            scripts.extend(options.operands.first().map(|script| (*script).to_owned()));
        }
        for script in scripts {
            for command in script.split([';', '\n']) {
                let command = without_address(command.trim());
                if let Some(text) = command.strip_prefix("e ") {
                    self.run_found(text, process);
                } else if command == "e" {
                    self.runs_lines(stdin, process);
                } else if let Some((action, path)) = file_of(command) {
                    self.touch_by(Some(process), Touch::new(action, path));
                } else if let Some((replacement, flags)) = substitution(command) {
                    if let Some((_, path)) = flags.split_once("w ") {
                        self.touch_by(Some(process), Touch::new(Action::Write, path.trim()));
                    } else if flags.contains('e') {
                        self.run_found(&replacement, process);
                        self.runs_lines(stdin, process);
                    }
                }
            }
        }
    }

    /// Each line that is read is run.
    fn runs_lines(&mut self, stdin: &Data, process: usize) {
        if stdin.taint.has(Taint::NET) {
            self.trace.facts.push(Fact::RunsCode { process: Some(process), from: stdin.taint });
        }
        if let Some(text) = stdin.exact().map(str::to_owned) {
            self.run_found(&text, process);
        }
    }
}

/// A command of sed without the lines that it is for: numbers, `$`, `/pattern/`.
fn without_address(command: &str) -> &str {
    let mut rest = command;
    loop {
        rest = rest
            .trim_start_matches(|c: char| c.is_ascii_digit() || c.is_whitespace() || "$,~+!{}".contains(c));
        let Some(pattern) = rest.strip_prefix('/') else { return rest };
        let mut escaped = false;
        let end = pattern.char_indices().find_map(|(at, c)| {
            let ends = c == '/' && !escaped;
            escaped = c == '\\' && !escaped;
            ends.then_some(at + 1)
        });
        let Some(behind) = end.and_then(|end| pattern.get(end..)) else { return rest };
        rest = behind;
    }
}

/// Returns the file that a command of sed reads or writes.
fn file_of(command: &str) -> Option<(Action, &str)> {
    let action = match command.chars().next()? {
        'r' | 'R' => Action::Read,
        'w' | 'W' => Action::Write,
        _ => return None,
    };
    let path = command.get(1..)?.trim();
    (!path.is_empty()).then_some((action, path))
}

/// Returns whether a loop without an end starts what it does not wait for.
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
        // What stands behind the flag `w` is a path, which may hold the separator.
        if c == separator && !escaped && parts.len() < 3 {
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
fn read(text: &str, variables: Known) -> Found {
    let mut found = Found::default();
    let (tokens, over) = tokenize(text, &Syntax { hash: true, ..Syntax::default() });
    found.over = over;
    found.network = text.contains("/inet/");
    let known = assigned(&tokens, variables);
    let own = tokens.iter().filter_map(|token| match token {
        Token::Text(text) => Some(text.body.clone()),
        _ => None,
    });
    found.literals = own.collect();
    for (at, token) in tokens.iter().enumerate() {
        let before = tokens.get(..at).unwrap_or_default();
        let behind = tokens.get(at + 1..).unwrap_or_default();
        match token {
            Token::Name(name) if name == "system" => {
                let opens = matches!(behind.first(), Some(Token::Mark('(')));
                found.calls.push(run(&known, behind.get(usize::from(opens)..).unwrap_or_default()));
            }
            Token::Mark('|') if !matches!(before.last(), Some(Token::Mark('|'))) => match behind {
                // What stands in front of it is a command, and this takes its output.
                [Token::Name(name), ..] if name == "getline" => found.calls.push(run_before(&known, before)),
                // `||`
                [Token::Mark('|'), ..] => {}
                _ => {
                    if let Some(Token::Text(printed)) = before.last() {
                        found.calls.push(Call::Shell(printed.body.clone()));
                    } else if speaks_shell(behind) {
                        found.calls.push(Call::Carrier(Taint::PROGRAM));
                    }
                    found.calls.push(run(&known, behind));
                }
            },
            Token::Mark(c @ ('<' | '>')) => {
                if let Some(path) = expression(&known, behind).filter(|path| !has_hole(&path.text)) {
                    let action = if *c == '<' { Action::Read } else { Action::Write };
                    found.calls.push(Call::Touch(Touch::new(action, path.text)));
                }
            }
            _ => {}
        }
    }
    found
}

/// Variables that a text is assigned to.
fn assigned(tokens: &[Token], mut known: Known) -> Known {
    for (at, pair) in tokens.windows(2).enumerate() {
        if let [Token::Name(name), Token::Mark('=')] = pair
            && let Some(text) = expression(&known, tokens.get(at + 2..).unwrap_or_default())
        {
            known.insert(name.clone(), text);
        }
    }
    known
}

/// Returns what the entry of the environment is called among the variables.
fn in_environment(name: &str) -> String {
    format!("ENVIRON[{name}]")
}

/// What an expression of awk comes to.
#[derive(Clone, Debug, Default)]
struct Made {
    /// With a hole for each part that is not known.
    text: String,
    /// Whether a function that nobody follows made a part of it.
    computed: bool,
}

impl From<String> for Made {
    fn from(text: String) -> Self {
        Self { text, computed: false }
    }
}

/// The variables of an awk program whose values are known in part.
type Known = HashMap<String, Made>;

/// Returns the text that texts and variables side by side make, as awk joins them.
fn expression(known: &Known, tokens: &[Token]) -> Option<Made> {
    let mut made = None::<Made>;
    let mut tokens = tokens.iter();
    while let Some(token) = tokens.next() {
        let part = match (token, tokens.as_slice()) {
            (Token::Text(body), _) => Some(Made::from(body.body.clone())),
            (Token::Name(name), [Token::Mark('['), Token::Text(key), Token::Mark(']'), rest @ ..])
                if name == "ENVIRON" =>
            {
                tokens = rest.iter();
                known.get(&in_environment(&key.body)).cloned()
            }
            (Token::Name(name), [Token::Mark('('), rest @ ..]) if is_function(name) => {
                let (arguments, rest) = arguments(rest);
                tokens = rest.iter();
                let format = (name == "sprintf").then(|| formatted(known, &arguments)).flatten();
                Some(format.unwrap_or(Made { text: HOLE.to_string(), computed: true }))
            }
            (Token::Name(name), _) => known.get(name.as_str()).cloned(),
            (Token::Mark(')' | '}' | '|' | ',' | ';' | ':') | Token::End, _) => break,
            (Token::Mark('$' | ']'), _) => continue,
            _ => None,
        };
        let made = made.get_or_insert_default();
        let part = part.unwrap_or_else(|| Made::from(HOLE.to_string()));
        made.text.push_str(&part.text);
        made.computed |= part.computed;
    }
    made
}

/// Returns whether a name with a parenthesis behind it is called, and no statement.
fn is_function(name: &str) -> bool {
    !matches!(
        name,
        "if" | "while" | "for" | "print" | "printf" | "in" | "return" | "switch" | "exit" | "delete"
    )
}

/// Returns the arguments of a call that was opened in front of these tokens, and what stands behind it.
fn arguments(tokens: &[Token]) -> (Vec<&[Token]>, &[Token]) {
    let mut all = Vec::new();
    let (mut depth, mut from) = (0_usize, 0);
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark('(' | '[') => depth += 1,
            Token::Mark(')') if depth == 0 => {
                all.push(tokens.get(from..at).unwrap_or_default());
                return (all, tokens.get(at + 1..).unwrap_or_default());
            }
            Token::Mark(')' | ']') => depth = depth.saturating_sub(1),
            Token::Mark(',') if depth == 0 => {
                all.push(tokens.get(from..at).unwrap_or_default());
                from = at + 1;
            }
            _ => {}
        }
    }
    all.push(tokens.get(from..).unwrap_or_default());
    (all, &[])
}

/// Returns what `sprintf` makes of a format that is known: `%c` of a number is a character. `None` for conversions that are
/// not read.
fn formatted(known: &Known, arguments: &[&[Token]]) -> Option<Made> {
    let (format, values) = arguments.split_first()?;
    let format = expression(known, format).filter(|format| !format.computed)?.text;
    let mut values = values.iter();
    let mut made = Made::default();
    let mut rest = format.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '%' {
            made.text.push(c);
            continue;
        }
        while rest.next_if(|c| matches!(c, '-' | '+' | '#' | '.') || c.is_ascii_digit()).is_some() {}
        let conversion = rest.next()?;
        if conversion == '%' {
            made.text.push('%');
            continue;
        }
        let value = values.next().copied()?;
        let number = match value {
            [Token::Name(number)] => number.parse::<u32>().ok(),
            _ => None,
        };
        match (conversion, number) {
            ('c', Some(number)) => made.text.push(char::from_u32(number)?),
            ('d' | 'i' | 's', Some(number)) => made.text.push_str(&number.to_string()),
            ('s' | 'c', None) => {
                let value = expression(known, value)?;
                made.text.push_str(&value.text);
                made.computed |= value.computed;
            }
            ('d' | 'i' | 'o' | 'x' | 'X' | 'u' | 'f' | 'F' | 'g' | 'e', _) => made.text.push(HOLE),
            _ => return None,
        }
    }
    Some(made)
}

/// A command that begins here: known, or something that is made while the program runs.
fn run(known: &Known, tokens: &[Token]) -> Call {
    match expression(known, tokens) {
        Some(command) if command.computed => Call::Unread,
        Some(command) if !command.text.trim_start().starts_with(HOLE) => Call::Shell(command.text),
        _ => Call::Carrier(Taint::PROGRAM),
    }
}

/// A command that ends here.
fn run_before(known: &Known, tokens: &[Token]) -> Call {
    let is_part = |token: &&Token| matches!(token, Token::Text(_) | Token::Name(_));
    let length = tokens.iter().rev().take_while(is_part).count();
    run(known, tokens.get(tokens.len() - length..).unwrap_or_default())
}

/// Returns whether what is printed goes to a shell.
fn speaks_shell(tokens: &[Token]) -> bool {
    matches!(tokens.first(), Some(Token::Text(command)) if {
        let name = command.body.split_whitespace().next().unwrap_or_default();
        matches!(name.rsplit('/').next().unwrap_or(name), "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash")
    })
}
