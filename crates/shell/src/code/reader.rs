//! The reader: calls, concatenation, plain assignments.

use std::collections::{HashMap, HashSet};

use super::calls::{Call, FUNCTION, Site, Value, last_of};
use super::language::{Does, Language};
use super::tokens::{Text, Token, tokenize};
use crate::Taint;
use crate::limits::{self, Over};

/// What was found in code.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) calls: Vec<Call>,
    pub(crate) literals: Vec<String>,
    pub(crate) network: bool,
    pub(crate) reverse_shell: bool,
    pub(crate) fork_bomb: bool,
    /// Text is evaluated as code somewhere.
    pub(crate) evaluates: bool,
    /// It sends something to another machine, or talks to one over a socket.
    pub(crate) uploads: bool,
    /// The environment is taken as a whole.
    pub(crate) environment: bool,
    /// The variables of credentials that are taken out of it.
    pub(crate) credentials: Taint,
    /// The hosts that are named in it.
    pub(crate) hosts: Vec<String>,
    /// A module of the network is named.
    pub(crate) talks: bool,
    /// Something stands in it that is not known to be harmless.
    pub(crate) acts: bool,
    /// Something stands in it that may run what it is given, or of which nobody knows what it does.
    pub(crate) runs: bool,
    /// What it prints, where all of it is known, with where that comes from.
    pub(crate) printed: Option<(String, Taint)>,
    /// What was left out.
    pub(crate) over: Over,
}

impl Found {
    /// Whether the code starts nothing, evaluates nothing, writes nothing and sends nothing, so that its texts are no
    /// more than texts.
    pub(crate) fn is_harmless(&self) -> bool {
        !self.acts
            && !self.network
            && !self.evaluates
            && !self.fork_bomb
            && !self.reverse_shell
            && self.over == Over::NOTHING
    }

    /// Whether the code reads and writes files and does nothing else, so that its texts are at most what stands in them.
    pub(crate) fn keeps_to_files(&self) -> bool {
        !self.runs
            && !self.network
            && !self.evaluates
            && !self.fork_bomb
            && !self.reverse_shell
            && self.over == Over::NOTHING
    }

    /// Whether it runs something that is not written in it: what it is given.
    pub(crate) fn runs_what_it_is_given(&self) -> bool {
        let is_open = |text: &str| text.trim_start().starts_with(crate::marks::HOLE);
        let reads = |call: &Call| matches!(call, Call::Code { text: Some(_), .. });
        let runs = |call: &Call| match call {
            Call::Carrier(_) | Call::Code { text: None, .. } => true,
            Call::Shell(text) => is_open(text),
            Call::Vector { argv, .. } => argv.first().is_some_and(|word| is_open(word)),
            _ => false,
        };
        self.calls.iter().any(runs) || self.evaluates && !self.calls.iter().any(reads)
    }
}

/// How deep code may stand in strings of code.
const MAX_INNER: usize = 4;

/// Reads code.
pub(super) fn read(text: &str, language: &Language, home: &str, inner: usize) -> Found {
    let mut found = Found { printed: Some((String::new(), Taint::NONE)), ..Found::default() };
    let (tokens, over) = tokenize(text, &language.syntax);
    found.over = over;
    super::signs::read(text, &tokens, language, &mut found);
    let mut reader = Reader {
        found: &mut found,
        vars: HashMap::new(),
        defined: HashSet::new(),
        root: Frame::new(String::new(), None, true),
        frames: Vec::new(),
        home,
        language,
        inner,
        copied: 0,
    };
    reader.aliases(&tokens);
    reader.read(&tokens);
    found
}

struct Frame {
    name: String,
    receiver: Option<Value>,
    args: Vec<Value>,
    value: Option<Value>,
    key: Option<String>,
    joins: bool,
    /// Called without parentheses.
    bare: bool,
    lists: usize,
}

impl Frame {
    fn new(name: String, receiver: Option<Value>, bare: bool) -> Self {
        Self { name, receiver, args: Vec::new(), value: None, key: None, joins: false, bare, lists: 0 }
    }

    fn add(&mut self, mut value: Value) {
        value.listed |= self.lists > 0;
        match &mut self.value {
            Some(current) if self.joins => {
                current.text.push_str(&value.text);
                current.taint |= value.taint;
            }
            Some(_) => {
                self.comma();
                self.value = Some(value);
            }
            None => self.value = Some(value),
        }
        self.joins = false;
    }

    fn comma(&mut self) {
        if let Some(mut value) = self.value.take() {
            value.key = self.key.take();
            self.args.push(value);
        }
        self.joins = false;
    }
}

struct Reader<'a> {
    found: &'a mut Found,
    vars: HashMap<String, Value>,
    /// Functions that the code itself defines.
    defined: HashSet<String>,
    /// The program itself, in which calls without parentheses and assignments stand.
    root: Frame,
    frames: Vec<Frame>,
    home: &'a str,
    language: &'a Language,
    inner: usize,
    /// Bytes of values that were copied.
    copied: usize,
}

impl Reader<'_> {
    /// Other names of functions, and the functions that are defined: `from os import popen as p`,
    /// `const {execSync: e} = ...`, `def f`.
    fn aliases(&mut self, tokens: &[Token]) {
        let function = |name: &String| Value::text(format!("{FUNCTION}{name}"));
        for window in tokens.windows(3) {
            match window {
                [Token::Name(name), Token::Name(word), Token::Name(alias)]
                    if word == "as" && !name.starts_with('$') =>
                {
                    self.vars.insert(alias.clone(), function(name));
                }
                [Token::Name(word), Token::Name(name), _]
                    if matches!(
                        word.as_str(),
                        "def" | "function" | "sub" | "fn" | "func" | "defun" | "defn" | "fun"
                    ) =>
                {
                    self.defined.insert(last_of(name).to_ascii_lowercase());
                }
                _ => {}
            }
        }
        for window in tokens.windows(5) {
            if let [
                Token::Mark('{' | ','),
                Token::Name(name),
                Token::Mark(':'),
                Token::Name(alias),
                Token::Mark('}' | ','),
            ] = window
                && self.does(name).iter().any(|does| !does.is_harmless())
            {
                self.vars.insert(alias.clone(), function(name));
            }
        }
    }

    fn does(&self, name: &str) -> &[Does] {
        self.language.does(name.trim_start_matches(['$', '@', '&']).to_ascii_lowercase().as_str())
    }

    fn read(&mut self, tokens: &[Token]) {
        let mut assigned: Option<String> = None;
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            if self.frames.len() >= limits::CALLS.most {
                self.found.over = Over::of(&limits::CALLS);
            }
            match token {
                Token::Name(name) => self.name(name, tokens, &mut at, &mut assigned),
                Token::Text(text) => {
                    let value = self.text(text);
                    self.found.literals.push(value.text.clone());
                    if matches!(at.checked_sub(2).and_then(|before| tokens.get(before)), Some(Token::Text(_)))
                    {
                        // Strings side by side are one in some languages.
                        self.found.printed = None;
                        self.top().joins |= self.language.name == "python";
                    }
                    self.top().add(value);
                }
                Token::Command(text) => self.command(text),
                Token::Mark('+' | '.') => self.top().joins = true,
                Token::Mark('/')
                    if matches!(tokens.get(at), Some(Token::Text(_))) && self.top().value.is_some() =>
                {
                    // `Path(a) / "b"`.
                    if let Some(value) = &mut self.top().value {
                        value.text.push('/');
                    }
                    self.top().joins = true;
                }
                Token::Mark(',') => self.top().comma(),
                Token::Mark('[') if is_reversal(tokens.get(at..).unwrap_or_default()) => {
                    if let Some(value) = &mut self.top().value {
                        value.text = value.text.chars().rev().collect();
                        value.taint |= Taint::DECODED;
                    }
                    at += 5;
                }
                Token::Mark('[') => self.top().lists += 1,
                Token::Mark(']') => {
                    let top = self.top();
                    top.lists = top.lists.saturating_sub(1);
                }
                Token::Mark('(')
                    if self.language.syntax.lisp && matches!(tokens.get(at), Some(Token::Name(_))) =>
                {
                    if let Some(Token::Name(name)) = tokens.get(at) {
                        self.frames.push(Frame::new(name.clone(), None, false));
                    }
                    at += 1;
                }
                Token::Mark('(') => {
                    self.call_of_a_value(at.checked_sub(2).and_then(|before| tokens.get(before)));
                }
                Token::Mark(')') => self.close(),
                Token::Mark('=') => self.top().value = None,
                Token::End if self.frames.iter().all(|frame| frame.bare) => self.end(assigned.take()),
                Token::Mark(_) => self.found.printed = None,
                Token::End => {}
            }
        }
        self.end(assigned);
        while !self.frames.is_empty() {
            self.close();
        }
    }

    /// The end of a statement.
    fn end(&mut self, assigned: Option<String>) {
        while self.frames.last().is_some_and(|frame| frame.bare) {
            self.close();
        }
        let value = self.top().value.take();
        self.top().args.clear();
        if let (Some(name), Some(value)) = (assigned, value) {
            self.vars.insert(name, value);
        }
    }

    fn name(&mut self, name: &str, tokens: &[Token], at: &mut usize, assigned: &mut Option<String>) {
        let next = tokens.get(*at);
        let before = at.checked_sub(2).and_then(|before| tokens.get(before));
        let room = self.frames.len() < limits::CALLS.most;
        match next {
            Some(Token::Mark('(')) => {
                *at += 1;
                let own = || name.starts_with('.');
                let receiver =
                    own().then(|| self.top().value.take()).flatten().or_else(|| self.receiver_of(name));
                self.frames.push(Frame::new(name.to_owned(), receiver, false));
            }
            Some(Token::Text(_) | Token::Command(_))
                if !is_keyword(name) && room && !self.language.syntax.lisp =>
            {
                self.frames.push(Frame::new(name.to_owned(), None, true));
            }
            Some(Token::Name(of)) if room && self.is_bare_call(name, of, tokens.get(*at + 1)) => {
                self.frames.push(Frame::new(name.to_owned(), None, true));
            }
            Some(Token::Mark('=')) if !matches!(tokens.get(*at + 1), Some(Token::Mark('=' | '~' | '>'))) => {
                *at += 1;
                if self.frames.iter().all(|frame| frame.bare) && self.frames.is_empty() {
                    *assigned = Some(name.to_owned());
                    let is_known = !self.does(name).is_empty();
                    self.found.acts |= is_known;
                    self.found.runs |= is_known;
                } else {
                    self.top().comma();
                    self.top().key = Some(name.to_ascii_lowercase());
                }
                self.top().value = None;
            }
            Some(Token::Mark(':'))
                if matches!(before, Some(Token::Mark('{' | ',' | '('))) && self.language.name != "python" =>
            {
                *at += 1;
                self.top().comma();
                self.top().key = Some(name.to_ascii_lowercase());
            }
            _ if is_keyword(name) => {
                if !matches!(
                    name,
                    "import" | "from" | "const" | "let" | "var" | "my" | "our" | "local" | "use"
                ) {
                    self.found.printed = None;
                }
            }
            _ => {
                let does = self.does(name);
                let (acts, runs) =
                    (does.iter().any(|does| !does.is_harmless()), does.iter().any(|does| does.may_run()));
                self.found.acts |= acts;
                self.found.runs |= runs;
                let value = self.lookup(name);
                let value = self.copy(value);
                self.top().add(value);
            }
        }
    }

    /// Functions that languages let take what follows without parentheses: `eval pack(...)`, `unlink glob "/etc/*"`.
    fn is_bare_call(&self, name: &str, of: &str, behind: Option<&Token>) -> bool {
        let known = |name: &str| !self.does(name).is_empty();
        let is_called = matches!(behind, Some(Token::Mark('(' | '[')))
            || known(of) && matches!(behind, Some(Token::Text(_)));
        let takes =
            self.language.syntax.percent || self.language.syntax.sigils || self.language.name == "any";
        takes && known(name) && !is_keyword(name) && (is_called || of.starts_with('$'))
    }

    /// A string: names of variables in it are replaced, other code in it is read.
    fn text(&mut self, text: &Text) -> Value {
        let mut value = Value::text("");
        let mut inner = text.inner.iter();
        for c in text.body.chars() {
            let code = (c == crate::marks::HOLE).then(|| inner.next()).flatten();
            match code {
                Some(code) if is_variable(code) => {
                    let found = self.lookup(code);
                    let found = self.copy(found);
                    value.taint |= found.taint;
                    match found.function() {
                        Some(_) => value.text.push(c),
                        None => value.text.push_str(&found.text),
                    }
                }
                Some(code) if self.inner < MAX_INNER => {
                    let found = read(code, self.language, self.home, self.inner + 1);
                    self.found.calls.extend(found.calls);
                    self.found.literals.extend(found.literals);
                    self.found.acts |= found.acts;
                    self.found.runs |= found.runs;
                    self.found.network |= found.network;
                    self.found.evaluates |= found.evaluates;
                    value.text.push(c);
                }
                Some(_) => {
                    self.found.acts = true;
                    self.found.runs = true;
                    value.text.push(c);
                }
                None => value.text.push(c),
            }
        }
        value
    }

    /// Backquotes: a command, whose output is a value.
    fn command(&mut self, text: &Text) {
        self.found.acts = true;
        self.found.runs = true;
        let value = self.text(text);
        self.found.calls.push(Call::Shell(value.text.clone()));
        self.top().add(value);
    }

    fn top(&mut self) -> &mut Frame {
        self.frames.last_mut().unwrap_or(&mut self.root)
    }

    /// The name by which the next value is handed over.
    fn top_key(&self) -> Option<&String> {
        self.frames.last().unwrap_or(&self.root).key.as_ref()
    }

    /// What a call returned, or a list holds, may itself be called: `getattr(os, "system")("...")`.
    fn call_of_a_value(&mut self, before: Option<&Token>) {
        let language = self.language;
        let called = match before {
            Some(Token::Mark(')' | ']')) => {
                self.found.acts = true;
                self.found.runs = true;
                self.top().value.take_if(|value| {
                    value.function().is_some() || !language.does(&value.text.to_ascii_lowercase()).is_empty()
                })
            }
            _ => None,
        };
        let name = called.map(|value| value.text.trim_start_matches(FUNCTION).to_owned());
        self.frames.push(Frame::new(name.unwrap_or_default(), None, false));
    }

    /// Ends the innermost call and hands its result to the one around it.
    fn close(&mut self) {
        // Calls without parentheses inside parentheses end with them.
        while let Some(mut frame) = self.frames.pop() {
            frame.comma();
            let bare = frame.bare;
            if frame.name.is_empty() {
                let last = frame.args.pop().unwrap_or_else(Value::hole);
                for mut value in frame.args {
                    value.listed = true;
                    self.top().add(value);
                }
                self.top().add(last);
            } else {
                let result = self.result(frame);
                self.top().add(result);
            }
            if !bare {
                return;
            }
        }
    }

    fn result(&mut self, frame: Frame) -> Value {
        let Frame { name, receiver, mut args, .. } = frame;
        if args.len() > limits::CALLS.most {
            self.found.over = Over::of(&limits::CALLS);
            args.truncate(limits::CALLS.most);
        }
        let mut name = self.meant(&name);
        let sends = self.does(&name).contains(&Does::Sends);
        if sends && args.len() > 1 {
            let called = args.remove(0);
            name = self.meant(called.function().unwrap_or(&called.text));
            self.found.acts = true;
            self.found.runs = true;
        }
        let lower = name.to_ascii_lowercase();
        let last = last_of(&lower).to_owned();
        let does = self.language.does(&lower);
        let (acts, runs) = match does {
            [] => (!self.defined.contains(&last), !self.defined.contains(&last)),
            known => (!known.iter().all(|does| does.is_harmless()), known.iter().any(|does| does.may_run())),
        };
        self.found.acts |= acts;
        self.found.runs |= runs;
        self.print(&lower, &args);
        let mut site = Site {
            name: &lower,
            receiver: receiver.as_ref(),
            args: &args,
            calls: Vec::new(),
            network: false,
        };
        let value = site.run(self.language);
        self.found.network |= site.network;
        let calls = site.calls;
        self.found.calls.extend(calls);
        self.copy(value)
    }

    /// The value, if the code does not make more text than can be followed.
    fn copy(&mut self, value: Value) -> Value {
        self.copied += value.text.len();
        if self.copied > limits::COPIES.most {
            self.found.over = Over::of(&limits::COPIES);
            return Value { text: crate::marks::HOLE.to_string(), ..value };
        }
        value
    }

    /// The function that is meant by a name: `const read = Bun.file; read(path)`.
    fn meant(&self, name: &str) -> String {
        let of = |name: &str| {
            self.vars.get(name).or_else(|| self.vars.get(name.trim_start_matches(['$', '@', '&'])))
        };
        if let Some(value) = of(name) {
            if let Some(function) = value.function() {
                return function.to_owned();
            }
            if !self.language.does(&value.text.to_ascii_lowercase()).is_empty() {
                return value.text.clone();
            }
        }
        let alias = name.split_once('.').and_then(|(object, rest)| Some((of(object)?.function()?, rest)));
        alias.map_or_else(|| name.to_owned(), |(object, rest)| format!("{object}.{rest}"))
    }

    /// Takes down what a call prints; it is not known any more when one value of it is not.
    fn print(&mut self, name: &str, args: &[Value]) {
        if !self.language.does(name).contains(&Does::Prints) {
            return;
        }
        let formats = args.len() > 1 && args.first().is_some_and(|value| value.text.contains('%'));
        let plain = self.frames.is_empty()
            && !formats
            && args.iter().all(|value| value.is_known() && value.key.is_none());
        if !args.iter().all(|value| value.key.is_none()) {
            // Where it is printed to may be anything.
            self.found.acts = true;
        }
        match (&mut self.found.printed, self.language.printing(name)) {
            (Some((text, taint)), Some(printing)) if plain => {
                let parts: Vec<&str> = args.iter().map(|value| value.text.as_str()).collect();
                let line = parts.join(&printing.between);
                let ends = printing.end.is_empty() || self.language.name == "ruby" && line.ends_with('\n');
                text.push_str(&line);
                text.push_str(if ends { "" } else { &printing.end });
                *taint |= args.iter().fold(Taint::NONE, |all, value| all | value.taint);
            }
            (printed, _) => *printed = None,
        }
    }

    fn receiver_of(&self, name: &str) -> Option<Value> {
        let (object, _) = name.rsplit_once('.')?;
        self.vars.get(object).or_else(|| self.vars.get(object.trim_start_matches(['$', '@']))).cloned()
    }

    fn lookup(&self, name: &str) -> Value {
        let bare = name.trim_start_matches(['$', '@']);
        if let Some(value) = self.vars.get(name).or_else(|| self.vars.get(bare)) {
            return value.clone();
        }
        let lower = bare.to_ascii_lowercase();
        if lower.ends_with("env.home")
            || lower == "home"
            || lower == "dir.home"
            || lower.ends_with(".homedir")
            || lower.ends_with("env.userprofile")
        {
            return Value::text(self.home);
        }
        if name.contains('.') && !name.starts_with('.')
            || self.does(bare).iter().any(|does| !does.is_harmless())
        {
            return Value::text(format!("{FUNCTION}{name}"));
        }
        if matches!(bare, "chr" | "unichr") {
            return Value { taint: Taint::DECODED, ..Value::hole() };
        }
        if matches!(bare, "true" | "True" | "TRUE" | "shell" | "recursive" | "force") {
            return Value::text(if bare.eq_ignore_ascii_case("true") { "true" } else { bare });
        }
        if matches!(bare, "false" | "False" | "FALSE" | "None" | "nil" | "null") && self.top_key().is_some() {
            return Value::text("false");
        }
        Value::hole()
    }
}

fn is_variable(code: &str) -> bool {
    let name = code.trim().trim_start_matches(['$', '@']);
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// `::-1]`, with which Python turns a text around.
fn is_reversal(tokens: &[Token]) -> bool {
    matches!(
        tokens,
        [Token::Mark(':'), Token::Mark(':'), Token::Mark('-'), Token::Name(_), Token::Mark(']'), ..]
    )
}

fn is_keyword(name: &str) -> bool {
    const KEYWORDS: &[&str] = &[
        "return",
        "if",
        "else",
        "elsif",
        "elif",
        "unless",
        "in",
        "and",
        "or",
        "not",
        "import",
        "from",
        "as",
        "const",
        "let",
        "var",
        "my",
        "our",
        "local",
        "await",
        "async",
        "do",
        "then",
        "while",
        "for",
        "use",
        "BEGIN",
        "END",
        "def",
        "class",
        "end",
        "with",
        "lambda",
        "case",
        "when",
        "require_relative",
        "0",
        "function",
        "sub",
        "fn",
        "func",
    ];
    KEYWORDS.contains(&name)
}
