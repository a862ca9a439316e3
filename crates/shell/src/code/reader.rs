//! The reader: calls, concatenation, plain assignments.

use std::collections::{HashMap, HashSet};

use super::bounded::Bounded;
use super::calls::{Call, Site, last_of};
use super::language::{Does, Language};
use super::tokens::{Text, Token, tokenize};
use super::values::{self, Value};
use crate::Taint;
use crate::limits::{self, Over};

mod lists;
mod names;

use names::{is_keyword, is_reversal, is_variable, names_starters};

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
    /// A module that starts processes is named.
    pub(crate) names_starters: bool,
    /// What was left out.
    pub(crate) over: Over,
}

impl Found {
    /// Returns whether the code starts nothing, evaluates nothing, writes nothing and sends nothing, so that its texts are no
    /// more than texts.
    pub(crate) fn is_harmless(&self) -> bool {
        !self.acts
            && !self.network
            && !self.evaluates
            && !self.fork_bomb
            && !self.reverse_shell
            && self.over == Over::NOTHING
    }

    /// Returns whether the code reads and writes files and does nothing else, so that its texts are at most what stands in
    /// them.
    pub(crate) fn keeps_to_files(&self) -> bool {
        !self.runs
            && !self.network
            && !self.evaluates
            && !self.fork_bomb
            && !self.reverse_shell
            && self.over == Over::NOTHING
    }

    /// Returns whether it starts or evaluates something itself, or could.
    pub(crate) fn starts_others(&self) -> bool {
        let starts = |call: &Call| {
            matches!(
                call,
                Call::Shell(_) | Call::Vector { .. } | Call::Code { .. } | Call::Carrier(_) | Call::Unread
            )
        };
        self.names_starters
            || self.evaluates
            || self.network
            || self.fork_bomb
            || self.reverse_shell
            || self.over != Over::NOTHING
            || self.calls.iter().any(starts)
    }

    /// Returns whether it runs something that is not written in it: what it is given.
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
        bounded: Bounded::read(&tokens, language),
        names_starters: names_starters(&tokens, language),
        lists: Vec::new(),
        handed: Vec::new(),
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
    reader.hand_over();
    let starters = reader.names_starters;
    found.names_starters = starters;
    found
}

#[derive(Default)]
struct Frame {
    name: String,
    receiver: Option<Value>,
    args: Vec<Value>,
    value: Option<Value>,
    key: Option<String>,
    joins: bool,
    /// Called without parentheses.
    bare: bool,
    /// It takes something out of the value in front of it.
    is_index: bool,
    /// What follows fills the template in front of it.
    fills: bool,
    lists: usize,
    /// Where the innermost list begins, if nothing but plain values stood in it so far.
    list_at: Option<usize>,
}

impl Frame {
    fn new(name: String, receiver: Option<Value>, bare: bool) -> Self {
        Self { name, receiver, bare, ..Self::default() }
    }

    fn add(&mut self, mut value: Value) {
        value.listed |= self.lists > 0;
        if self.fills && self.value.as_mut().is_some_and(|template| template.fill(&value, '%')) {
            return;
        }
        match &mut self.value {
            Some(current) if self.joins => current.join(&value),
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
        self.fills = false;
    }
}

struct Reader<'a> {
    found: &'a mut Found,
    /// Names whose values are written in the code, or are given to it.
    bounded: Bounded,
    /// Whether the code names a module that starts processes.
    names_starters: bool,
    /// Lists that are written in the code.
    lists: Vec<Vec<String>>,
    /// Texts that stand in lists, or that functions of the code are given.
    handed: Vec<String>,
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
        let function = |name: &String| Value::named(name);
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
                    if self.top().lists > 0 && value.text.contains(' ') {
                        self.handed.push(value.text.clone());
                    }
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
                Token::Mark('%')
                    if self.top().value.as_ref().is_some_and(|value| value.text.contains('%')) =>
                {
                    self.top().fills = true;
                }
                Token::Mark('<') if self.appends_to_list(tokens, at) => at += 1,
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
                Token::Mark(':') if self.is_symbol(tokens, at) => {
                    if let Some(Token::Name(name)) = tokens.get(at) {
                        self.top().add(Value::text(name.clone()));
                    }
                    at += 1;
                }
                Token::Mark('[') if is_reversal(tokens.get(at..).unwrap_or_default()) => {
                    if let Some(value) = &mut self.top().value {
                        value.text = value.text.chars().rev().collect();
                        value.taint |= Taint::DECODED;
                    }
                    at += 5;
                }
                Token::Mark('[') => self.open_list(at.checked_sub(2).and_then(|before| tokens.get(before))),
                Token::Mark(']') => self.close_list(),
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
        let top = self.top();
        let value = top.value.take();
        let mut items = std::mem::take(&mut top.args);
        (top.lists, top.list_at) = (0, None);
        let (Some(name), Some(value)) = (assigned, value) else { return };
        let is_list = !items.is_empty() && items.iter().chain([&value]).all(|item| item.key.is_none());
        let value = match is_list {
            true => {
                items.push(value);
                Value::list(items)
            }
            // An item of something like `{"a": print}`.
            false if !items.is_empty() && value.function().is_some() => Value::within(),
            false => value,
        };
        let bare = name.trim_start_matches(['@', '%']).to_owned();
        self.vars.insert(bare, value);
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
            Some(Token::Mark('[' | '@' | '\\')) if room && self.takes_bare(name) => {
                self.frames.push(Frame::new(name.to_owned(), None, true));
            }
            Some(Token::Mark('+' | '.'))
                if tokens.get(*at + 1) == Some(&Token::Mark('=')) && self.frames.is_empty() =>
            {
                *at += 2;
                *assigned = Some(name.to_owned());
                let value = self.lookup(name);
                self.put(value);
                self.top().joins = true;
            }
            Some(Token::Mark('[')) if room && !is_keyword(name) && self.takes_out(name) => {
                *at += 1;
                self.open_index(name);
            }
            Some(Token::Mark('{')) if values::is_environment(name) => self.environment(tokens, at),
            Some(Token::Mark('=')) if !matches!(tokens.get(*at + 1), Some(Token::Mark('=' | '~' | '>'))) => {
                *at += 1;
                if self.frames.is_empty() {
                    if self.language.name == "javascript" && assigned.is_some() {
                        // `const a = x, b = y`: what stood in front of the comma is the value of the first.
                        let top = self.top();
                        top.value = top.args.pop();
                        self.end(assigned.take());
                    }
                    // `a, b = ...` gives a list to nobody.
                    self.top().args.clear();
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
                self.value_of_name(name);
            }
        }
    }

    /// A name that is neither called nor assigned.
    fn value_of_name(&mut self, name: &str) {
        let does = self.does(name);
        let (acts, runs) =
            (does.iter().any(|does| !does.is_harmless()), does.iter().any(|does| does.may_run()));
        self.found.acts |= acts;
        self.found.runs |= runs;
        if name.starts_with('.') && self.top().value.is_some() {
            return self.member(name);
        }
        let value = self.lookup(name);
        let value = self.copy(value);
        self.put(value);
    }

    /// Functions that languages let take what follows without parentheses: `eval pack(...)`, `unlink glob "/etc/*"`.
    fn is_bare_call(&self, name: &str, of: &str, behind: Option<&Token>) -> bool {
        let known = |name: &str| !self.does(name).is_empty();
        let is_called = matches!(behind, Some(Token::Mark('(' | '[')))
            || known(of) && matches!(behind, Some(Token::Text(_) | Token::Name(_)));
        // `open F, ">x"`: the handle stands in front.
        let has_handle = self.language.syntax.sigils && matches!(behind, Some(Token::Mark(',')));
        let takes =
            self.language.syntax.percent || self.language.syntax.sigils || self.language.name == "any";
        let is_argument = of.starts_with(['$', '@', '%']) || values::is_environment(of);
        takes
            && known(name)
            && !is_keyword(name)
            && (is_called || is_argument || has_handle && self.acts(name))
    }

    fn acts(&self, name: &str) -> bool {
        self.does(name).iter().any(|does| !does.is_harmless())
    }

    /// Returns whether a function that does something takes a list without parentheses: `system [1].pack("C")`.
    fn takes_bare(&self, name: &str) -> bool {
        let takes = self.language.syntax.percent || self.language.syntax.sigils;
        takes && self.acts(name) && !is_keyword(name) && !self.vars.contains_key(name)
    }

    /// A string: names of variables in it are replaced, other code in it is read.
    fn text(&mut self, text: &Text) -> Value {
        let mut value = Value::text("");
        let mut inner = text.inner.iter();
        for c in text.body.chars() {
            let code = (c == crate::marks::HOLE).then(|| inner.next()).flatten();
            let variable = code.and_then(|code| values::variable_of(code));
            match code {
                Some(_) if variable.is_some() => {
                    let found = variable.map(|name| values::value_of_variable(name, self.home));
                    value.join(&found.unwrap_or_default());
                }
                Some(code) if is_variable(code) => {
                    let found = self.lookup(code);
                    let found = self.copy(found);
                    match found.function() {
                        Some(_) => value.join(&Value::hole()),
                        None => value.join(&found),
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
                    let (inner, _) = tokenize(code, &self.language.syntax);
                    let bounded = self.bounded.is_within(&inner, self.language);
                    value.join(&Value { bounded, ..Value::hole() });
                }
                Some(_) => {
                    self.found.acts = true;
                    self.found.runs = true;
                    value.join(&Value::hole());
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

    /// Returns the name by which the next value is handed over.
    fn top_key(&self) -> Option<&String> {
        self.frames.last().unwrap_or(&self.root).key.as_ref()
    }

    /// What a call returned, or a list holds, may itself be called: `getattr(os, "system")("...")`.
    fn call_of_a_value(&mut self, before: Option<&Token>) {
        let language = self.language;
        let called = match before {
            Some(Token::Mark(')' | ']' | '}')) => {
                let is_block = before == Some(&Token::Mark('}'));
                if is_block && !self.language.syntax.sigils {
                    None
                } else {
                    self.found.acts = true;
                    self.found.runs = true;
                    self.top().value.take_if(|value| {
                        value.function().is_some()
                            || !language.does(&value.text.to_ascii_lowercase()).is_empty()
                    })
                }
            }
            _ => None,
        };
        let name = called.map(|value| value.text.trim_start_matches(values::FUNCTION).to_owned());
        self.frames.push(Frame::new(name.unwrap_or_default(), None, false));
    }

    /// Ends the innermost call and hands its result to the one around it.
    fn close(&mut self) {
        // Calls without parentheses inside parentheses end with them.
        while let Some(mut frame) = self.frames.pop() {
            if frame.is_index {
                self.take_out(frame);
                continue;
            }
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
                self.put(result);
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
        // `@unlink(x)` keeps quiet about what goes wrong.
        let name = if self.language.name == "php" { name.trim_start_matches('@') } else { &name };
        let mut name = self.meant(name);
        let module = receiver.as_ref().and_then(Value::function).filter(|_| name.starts_with('.'));
        if let Some(module) = module {
            name = format!("{module}{name}");
        }
        let receiver = receiver.filter(|value| value.function().is_none());
        self.append_by_call(&name, &args);
        let by_name = self.does(&name).contains(&Does::Named);
        let sends = by_name || self.does(&name).contains(&Does::Sends);
        if sends && args.len() > 1 {
            let called = args.remove(0);
            if by_name && called.is_unsure() {
                self.found.calls.push(Call::Unread);
            }
            name = self.meant(called.function().unwrap_or(&called.text));
            self.found.acts = true;
            self.found.runs = true;
        }
        if last_of(&name).starts_with(crate::marks::HOLE) && !sends {
            // It was looked up by a name that is not known.
            self.found.calls.push(Call::Unread);
        }
        let lower = name.to_ascii_lowercase();
        let last = last_of(&lower).to_owned();
        if self.defined.contains(&last) {
            self.hand(&args);
        }
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
            home: self.home,
            starts: self.starts_processes(&lower),
            calls: Vec::new(),
            network: false,
        };
        let value = site.run(self.language);
        self.found.network |= site.network;
        let calls = site.calls;
        self.found.calls.extend(calls);
        self.copy(value)
    }

    /// Returns the value, if the code does not make more text than can be followed.
    fn copy(&mut self, value: Value) -> Value {
        self.copied += value.text.len();
        if self.copied > limits::COPIES.most {
            self.found.over = Over::of(&limits::COPIES);
            return Value { text: crate::marks::HOLE.to_string(), ..value };
        }
        value
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
}
