//! The scanner: strings, names, calls, concatenation, plain assignments.

use std::collections::HashMap;

use super::calls::{self, Call, Value};
use crate::Taint;
use crate::decode;
use crate::effects::{Action, Touch};
use crate::limits::{self, Over};
use crate::marks::HOLE;

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
    /// The environment is taken as a whole.
    pub(crate) environment: bool,
    /// What was left out.
    pub(crate) over: Over,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    Text(String),
    /// Text in backquotes or `qx`: a command in some languages.
    Command(String),
    Mark(char),
    End,
}

/// Scans code of any of the supported languages.
pub(crate) fn scan(text: &str, home: &str) -> Found {
    let mut found = Found::default();
    let (tokens, over) = tokenize(text);
    found.over = over;
    let root = Frame::new(String::new(), None, true);
    let mut reader = Reader { found: &mut found, vars: HashMap::new(), root, frames: Vec::new(), home };
    reader.read(&tokens);
    let lower = text.to_ascii_lowercase();
    let has = |needle: &str| lower.contains(needle);
    let socket = has("socket")
        || has("fsockopen")
        || has("net.connect")
        || has("net.socket")
        || has("/dev/tcp/")
        || has("tcpsocket")
        || has("net.dial")
        || has("tcpclient")
        || has("net.createconnection")
        || has("deno.connect")
        || has("tcpstream::connect")
        || has("require(\"net\")")
        || has("require('net')")
        || has("node:net")
        || has("io::socket");
    let shell = has("/bin/sh")
        || has("/bin/bash")
        || has("sh -i")
        || has("pty.spawn")
        || has("cmd.exe")
        || has("dup2")
        || has("powershell")
        || has("proc_open")
        || has("io.popen")
        || has("execsync")
        || has("exec.command")
        || has("processbuilder")
        || has("command::new")
        || has("process.start")
        || has("process.new")
        || has("deno.command")
        || has("spawn(")
        || has("`sh ")
        || has("exec(");
    found.reverse_shell = socket && shell;
    found.network |= socket;
    found.network |=
        has("lwp::simple") || has("open-uri") || has("http.get") || has("https.get") || has("fetch(");
    let addressed = has("http://") || has("https://");
    found.network |= addressed && (has("get") || has("fetch") || has("open") || has("request"));
    // `exec` of a process is no evaluation, and is found as a call.
    found.evaluates = evaluates(&tokens, has("child_process"));
    found.environment = takes_environment(text);
    let forks = has("fork");
    found.fork_bomb =
        forks && (has("while") || has("loop") || has("for(;;)") || has("fork,fork") || has("for (;;)"));
    found
}

/// Names that make text code.
const EVALUATORS: &[&str] = &[
    "eval",
    "Function",
    "instance_eval",
    "class_eval",
    "loadstring",
    "runInThisContext",
    "vm.runInThisContext",
    "vm.runInNewContext",
    "window.eval",
    "globalThis.eval",
    "builtins.exec",
    "builtins.eval",
];

/// True when text becomes code: `eval` and its kin, called or handed on, but not methods that merely
/// share the name (`pattern.exec(x)`), nor `exec` where it starts a process.
fn evaluates(tokens: &[Token], starts_processes: bool) -> bool {
    tokens.iter().any(|token| match token {
        Token::Name(name) if name == "exec" => !starts_processes,
        Token::Name(name) => EVALUATORS.contains(&name.as_str()),
        _ => false,
    })
}

/// True when the whole environment is used, not one variable of it.
fn takes_environment(text: &str) -> bool {
    ["os.environ", "process.env", "ENV.to", "%ENV", "os.Environ()", "getenv()", "System.getenv()"].iter().any(
        |name| {
            text.match_indices(name).any(|(at, _)| {
                let rest = text.get(at + name.len()..).unwrap_or_default();
                !rest.starts_with(['[', '.', '{', 'b'])
                    || rest.starts_with(".items")
                    || rest.starts_with(".copy")
            })
        },
    )
}

fn tokenize(text: &str) -> (Vec<Token>, Over) {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        if tokens.len() >= limits::TOKENS.most {
            return (tokens, Over::of(&limits::TOKENS));
        }
        let next = chars.get(at + 1).copied();
        let before = at.checked_sub(1).and_then(|i| chars.get(i)).copied();
        match c {
            '\n' => {
                tokens.push(Token::End);
                at += 1;
            }
            c if c.is_whitespace() => at += 1,
            '#' if next == Some('=') => {
                at = find(&chars, at + 2, "=#").map_or(chars.len(), |end| end + 2);
            }
            '#' if before.is_none_or(char::is_whitespace) => {
                at = chars.iter().skip(at).position(|c| *c == '\n').map_or(chars.len(), |n| at + n);
            }
            '/' if next == Some('*') => at = find(&chars, at + 2, "*/").map_or(chars.len(), |end| end + 2),
            '"' | '\'' | '`' => {
                let triple = c != '`' && next == Some(c) && chars.get(at + 2) == Some(&c);
                let (body, end) =
                    if triple { long_string(&chars, at + 3, c) } else { string(&chars, at + 1, c) };
                let body = decode::ansi_c(&lua_and_braces(&body));
                tokens.push(if c == '`' { Token::Command(body) } else { Token::Text(body) });
                at = end;
            }
            '%' if matches!(next, Some('q' | 'Q' | 'x' | 'w'))
                && chars.get(at + 2).is_some_and(|c| "({[<|!".contains(*c)) =>
            {
                let (body, end) = bracketed(&chars, at + 2);
                match next {
                    Some('x') => tokens.push(Token::Command(body)),
                    Some('w') => {
                        tokens.extend(body.split_whitespace().map(|word| Token::Text(word.to_owned())));
                    }
                    _ => tokens.push(Token::Text(body)),
                }
                at = end;
            }
            c if c.is_alphabetic()
                || "_$@".contains(c)
                || c == HOLE
                || c == '.' && next.is_some_and(char::is_alphabetic) =>
            {
                let start = at;
                while chars.get(at).is_some_and(|c| c.is_alphanumeric() || "_$@.?".contains(*c) || *c == HOLE)
                    || chars.get(at) == Some(&':') && chars.get(at + 1) == Some(&':')
                    || chars.get(at) == Some(&':')
                        && at.checked_sub(1).and_then(|i| chars.get(i)) == Some(&':')
                    || chars.get(at) == Some(&'!') && chars.get(at + 1) == Some(&'(')
                {
                    at += 1;
                }
                let name: String = chars.get(start..at).unwrap_or_default().iter().collect();
                let quote = chars.get(at).copied();
                if matches!(name.as_str(), "qx" | "q" | "qq") && quote.is_some_and(|c| "({[<|!/".contains(c))
                {
                    let (body, end) = bracketed(&chars, at);
                    tokens.push(if name == "qx" { Token::Command(body) } else { Token::Text(body) });
                    at = end;
                } else if matches!(
                    name.to_ascii_lowercase().as_str(),
                    "r" | "b" | "f" | "u" | "rb" | "br" | "fr" | "rf"
                ) && matches!(quote, Some('"' | '\''))
                {
                    // A string prefix, not a name.
                } else {
                    tokens.push(Token::Name(name));
                }
            }
            ';' => {
                tokens.push(Token::End);
                at += 1;
            }
            c if c.is_ascii_digit() => {
                while chars.get(at).is_some_and(char::is_ascii_alphanumeric) {
                    at += 1;
                }
                tokens.push(Token::Name("0".into()));
            }
            other => {
                tokens.push(Token::Mark(other));
                at += 1;
            }
        }
    }
    (tokens, Over::NOTHING)
}

/// `\u{2e}` and Lua's decimal `\046`, in the form the shared decoder knows.
fn lua_and_braces(body: &str) -> String {
    let mut out = body.to_owned();
    while let Some(start) = out.find("\\u{") {
        let Some(len) = out.get(start..).and_then(|rest| rest.find('}')) else { break };
        let c = out
            .get(start + 3..start + len)
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
            .and_then(char::from_u32);
        out.replace_range(start..=start + len, &c.unwrap_or('?').to_string());
    }
    // `.` is 046 in decimal and `&` is 046 in octal; a path separator before it decides.
    out.replace("/\\046", "/.").replace("/\\46", "/.")
}

fn find(chars: &[char], from: usize, needle: &str) -> Option<usize> {
    let needle: Vec<char> = needle.chars().collect();
    chars.get(from..)?.windows(needle.len()).position(|window| window == needle).map(|at| at + from)
}

fn string(chars: &[char], from: usize, quote: char) -> (String, usize) {
    let mut body = String::new();
    let mut at = from;
    while let Some(&c) = chars.get(at) {
        at += 1;
        if c == '\\' {
            body.push(c);
            body.extend(chars.get(at));
            at += 1;
        } else if c == quote {
            return (body, at);
        } else {
            body.push(c);
        }
    }
    (body, at)
}

fn long_string(chars: &[char], from: usize, quote: char) -> (String, usize) {
    let end = find(chars, from, &String::from_iter([quote; 3])).unwrap_or(chars.len());
    (chars.get(from..end).unwrap_or_default().iter().collect(), (end + 3).min(chars.len()))
}

fn bracketed(chars: &[char], at: usize) -> (String, usize) {
    let open = chars.get(at).copied().unwrap_or('(');
    let close = match open {
        '(' => ')',
        '{' => '}',
        '[' => ']',
        '<' => '>',
        other => other,
    };
    let mut depth = 1usize;
    let mut end = at + 1;
    while let Some(&c) = chars.get(end) {
        if c == close {
            depth -= 1;
            if depth == 0 {
                break;
            }
        } else if c == open {
            depth += 1;
        }
        end += 1;
    }
    (chars.get(at + 1..end).unwrap_or_default().iter().collect(), end + 1)
}

struct Frame {
    name: String,
    receiver: Option<Value>,
    args: Vec<Value>,
    value: Option<Value>,
    joins: bool,
    /// Called without parentheses.
    bare: bool,
    lists: usize,
}

impl Frame {
    fn new(name: String, receiver: Option<Value>, bare: bool) -> Self {
        Self { name, receiver, args: Vec::new(), value: None, joins: false, bare, lists: 0 }
    }

    fn add(&mut self, mut value: Value) {
        value.listed |= self.lists > 0;
        match &mut self.value {
            Some(current) if self.joins => {
                current.text.push_str(&value.text);
                current.taint |= value.taint;
            }
            Some(current) => {
                let done = std::mem::replace(current, value);
                self.args.push(done);
            }
            None => self.value = Some(value),
        }
        self.joins = false;
    }

    fn comma(&mut self) {
        self.args.extend(self.value.take());
        self.joins = false;
    }
}

struct Reader<'a> {
    found: &'a mut Found,
    vars: HashMap<String, Value>,
    /// The program itself, in which calls without parentheses and assignments stand.
    root: Frame,
    frames: Vec<Frame>,
    home: &'a str,
}

impl Reader<'_> {
    fn read(&mut self, tokens: &[Token]) {
        let mut assigned: Option<String> = None;
        let mut at = 0;
        for window in tokens.windows(4) {
            // `from os import popen as p`.
            if let [Token::Name(import), Token::Name(name), Token::Name(word), Token::Name(alias)] = window
                && (import == "import" || import == "const")
                && word == "as"
            {
                self.vars.insert(alias.clone(), Value::text(format!("\u{1}{name}")));
            }
        }
        while let Some(token) = tokens.get(at) {
            at += 1;
            let next = tokens.get(at);
            if self.frames.len() >= limits::CALLS.most {
                self.found.over = Over::of(&limits::CALLS);
            }
            match token {
                Token::Name(name) => match next {
                    Some(Token::Mark('(')) => {
                        at += 1;
                        let receiver = name
                            .starts_with('.')
                            .then(|| self.top().value.take())
                            .flatten()
                            .or_else(|| self.receiver_of(name));
                        self.frames.push(Frame::new(name.clone(), receiver, false));
                    }
                    Some(Token::Text(_) | Token::Command(_))
                        if !is_keyword(name) && self.frames.len() < limits::CALLS.most =>
                    {
                        self.frames.push(Frame::new(name.clone(), None, true));
                    }
                    Some(Token::Name(_))
                        if takes_bare_call(name)
                            && tokens.get(at + 1) == Some(&Token::Mark('('))
                            && self.frames.len() < limits::CALLS.most =>
                    {
                        self.frames.push(Frame::new(name.clone(), None, true));
                    }
                    Some(Token::Mark('=')) if tokens.get(at + 1) != Some(&Token::Mark('=')) => {
                        if self.top().bare && self.frames.is_empty() {
                            assigned = Some(name.clone());
                        }
                        at += 1;
                        self.top().value = None;
                    }
                    _ if is_keyword(name) => {}
                    _ => {
                        let value = self.lookup(name);
                        self.top().add(value);
                    }
                },
                Token::Text(text) => {
                    self.found.literals.push(text.clone());
                    self.top().add(Value::text(text.clone()));
                }
                Token::Command(text) => {
                    // A template literal in one language, a command in others.
                    self.templates(text);
                    let called = self.top().name.is_empty() || self.top().bare;
                    if called && !text.contains("${") {
                        self.found.calls.push(Call::Shell(text.clone()));
                    }
                    self.top().add(Value::text(text.clone()));
                }
                Token::Mark('+' | '.') => self.top().joins = true,
                Token::Mark('/') if matches!(next, Some(Token::Text(_))) && self.top().value.is_some() => {
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
                Token::Mark('[' | '{') => self.top().lists += 1,
                Token::Mark(']' | '}') => {
                    let top = self.top();
                    top.lists = top.lists.saturating_sub(1);
                }
                Token::Mark('(') => {
                    // What a call returned may itself be called: `getattr(os, "system")("...")`.
                    let called = match at.checked_sub(2).and_then(|before| tokens.get(before)) {
                        Some(Token::Mark(')' | ']')) => {
                            self.top().value.take_if(|v| v.text.starts_with('\u{1}'))
                        }
                        _ => None,
                    };
                    let name = called.map(|value| value.text.trim_start_matches('\u{1}').to_owned());
                    self.frames.push(Frame::new(name.unwrap_or_default(), None, false));
                }
                Token::Mark(')') => self.close(),
                Token::Mark('=') => self.top().value = None,
                Token::End if self.frames.iter().all(|frame| frame.bare) => {
                    while !self.frames.is_empty() {
                        self.close();
                    }
                    let value = self.top().value.take();
                    self.top().args.clear();
                    if let (Some(name), Some(value)) = (assigned.take(), value) {
                        self.vars.insert(name, value);
                    }
                }
                Token::Mark(_) | Token::End => {}
            }
        }
        while !self.frames.is_empty() {
            self.close();
        }
    }

    fn top(&mut self) -> &mut Frame {
        self.frames.last_mut().unwrap_or(&mut self.root)
    }

    /// Ends the innermost call and hands its result to the one around it.
    fn close(&mut self) {
        // Calls without parentheses inside parentheses end with them.
        while !self.frames.is_empty() {
            let Some(mut frame) = self.frames.pop() else { return };
            frame.comma();
            let bare = frame.bare;
            let result = if frame.name.is_empty() {
                frame.args.pop().unwrap_or_else(Value::hole)
            } else {
                let mut args = frame.args;
                // An alias of a function: `const read = Bun.file; read(path)`.
                let name = self
                    .vars
                    .get(&frame.name)
                    .filter(|value| value.text.starts_with("\u{1}"))
                    .map(|value| value.text.trim_start_matches('\u{1}').to_owned())
                    .unwrap_or(frame.name);
                if args.len() > limits::CALLS.most {
                    self.found.over = Over::of(&limits::CALLS);
                    args.truncate(limits::CALLS.most);
                }
                let (calls, result) =
                    calls::evaluate(&name, frame.receiver.as_ref(), &args, &mut self.found.network);
                self.found.calls.extend(calls);
                result
            };
            self.top().add(result);
            if !bare {
                return;
            }
        }
    }

    fn receiver_of(&self, name: &str) -> Option<Value> {
        let (object, _) = name.rsplit_once('.')?;
        self.vars.get(object).cloned()
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
        if name.contains('.') && !name.starts_with('.') {
            return Value::text(format!("\u{1}{name}"));
        }
        if matches!(bare, "chr" | "unichr") {
            return Value { text: HOLE.to_string(), taint: Taint::DECODED, listed: false };
        }
        if matches!(bare, "true" | "True" | "shell" | "recursive" | "force") {
            return Value::text(bare);
        }
        Value::hole()
    }

    /// Code inside `${...}` of a template.
    fn templates(&mut self, text: &str) {
        for part in text.split("${").skip(1) {
            let inner = scan(part, self.home);
            self.found.calls.extend(inner.calls);
        }
    }
}

/// Functions that languages let take the result of another call without parentheses: `eval pack(...)`.
fn takes_bare_call(name: &str) -> bool {
    matches!(name, "unlink" | "eval" | "system" | "exec" | "rmtree" | "rmdir" | "remove_tree" | "spawn")
}

/// `::-1]`, with which Python turns a text around.
fn is_reversal(tokens: &[Token]) -> bool {
    matches!(
        tokens,
        [Token::Mark(':'), Token::Mark(':'), Token::Mark('-'), Token::Name(_), Token::Mark(']'), ..]
    )
}

fn is_keyword(name: &str) -> bool {
    matches!(
        name,
        "return"
            | "if"
            | "else"
            | "elsif"
            | "elif"
            | "unless"
            | "in"
            | "and"
            | "or"
            | "not"
            | "import"
            | "from"
            | "as"
            | "const"
            | "let"
            | "var"
            | "my"
            | "our"
            | "local"
            | "print"
            | "puts"
            | "echo"
            | "await"
            | "async"
            | "do"
            | "then"
            | "while"
            | "for"
            | "use"
            | "BEGIN"
            | "END"
            | "def"
            | "class"
            | "end"
            | "with"
            | "lambda"
            | "case"
            | "when"
            | "require_relative"
            | "0"
    )
}

/// Scans an awk program: `system`, pipes to and from commands, files read and written.
pub(crate) fn awk(text: &str) -> Found {
    let mut found = Found::default();
    let (tokens, over) = tokenize(text);
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
                    found.calls.push(Call::Shell(body.clone()));
                } else if before == Some(&Token::Mark('<')) {
                    found.calls.push(Call::Touch(Touch::new(Action::Read, body.clone())));
                } else if before == Some(&Token::Mark('>')) {
                    found.calls.push(Call::Touch(Touch::new(Action::Write, body.clone())));
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

/// Decodes what PowerShell takes as an encoded command.
pub(crate) fn utf16_base64(text: &str) -> Option<String> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
    let units: Vec<u16> = bytes
        .chunks_exact(2)
        .filter_map(|pair| Some(u16::from_le_bytes([*pair.first()?, *pair.get(1)?])))
        .collect();
    String::from_utf16(&units).ok()
}
