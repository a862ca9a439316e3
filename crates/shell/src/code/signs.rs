//! Properties of a whole program that no single call shows.

use super::language::Language;
use super::reader::Found;
use super::tokens::Token;
use crate::{Taint, credentials};

/// Parts of code that talk to a socket.
const SOCKETS: &[&str] = &[
    "socket",
    "fsockopen",
    "net.connect",
    "net.socket",
    "/dev/tcp/",
    "tcpsocket",
    "net.dial",
    "tcpclient",
    "net.createconnection",
    "deno.connect",
    "tcpstream::connect",
    "require(\"net\")",
    "require('net')",
    "node:net",
    "io::socket",
];

/// Parts of code that start a shell, or hand one what it reads.
const SHELLS: &[&str] = &[
    "/bin/sh",
    "/bin/bash",
    "sh -i",
    "pty.spawn",
    "cmd.exe",
    "dup2",
    "powershell",
    "proc_open",
    "io.popen",
    "execsync",
    "exec.command",
    "processbuilder",
    "command::new",
    "process.start",
    "process.new",
    "deno.command",
    "spawn(",
    "`sh ",
    "exec(",
];

/// Parts of code that give something to another machine.
const UPLOADS: &[&str] = &[
    "post", "put(", "patch(", "delete(", "socket", "send", "upload", "connect(", "net.dial", "ftp", "smtp",
    "data=", "body:",
];

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

/// Parts of code, without blanks, that run a source of the network: R 4.4 `source`, Julia 1.10 `include`, PHP 8.3
/// `include`, Lua 5.4 `load`, ECMAScript `import`.
const REMOTE_SOURCES: &[&str] = &[
    "source(\"http",
    "source('http",
    "source(url(",
    "source_url(",
    "include(\"http",
    "include('http",
    "include'http",
    "include\"http",
    "require'http",
    "require_once'http",
    "include(download(",
    "import('http",
    "import(\"http",
    "importscripts(",
    "dofile('http",
    "load('http",
    "load(\"http",
];

/// Returns whether code starts its own program again and again: Node.js 22 `process.execPath`, Python 3.13
/// `sys.executable`.
fn starts_itself(compact: &str) -> bool {
    const OWN: [&str; 6] = [
        "process.execpath",
        "process.argv[0]",
        "process.argv0",
        "sys.executable,__file__",
        "sys.executable,sys.argv",
        "fork(__filename",
    ];
    const STARTERS: [&str; 5] = ["spawn(", "fork(", "exec(", "popen(", "execfile("];
    const AGAIN: [&str; 7] =
        ["while(1)", "while(true)", "for(;;)", "setinterval(", "whiletrue:", "while1:", "setimmediate("];
    let has = |signs: &[&str]| signs.iter().any(|sign| compact.contains(sign));
    has(&OWN) && has(&STARTERS) && has(&AGAIN)
}

/// Looks for the signs in the code.
pub(super) fn read(text: &str, tokens: &[Token], language: &Language, found: &mut Found) {
    let lower = text.to_ascii_lowercase();
    let has = |needle: &str| lower.contains(needle);
    let socket = SOCKETS.iter().any(|sign| has(sign));
    found.reverse_shell = socket && SHELLS.iter().any(|sign| has(sign));
    found.network |= socket;
    found.network |=
        has("lwp::simple") || has("open-uri") || has("http.get") || has("https.get") || has("fetch(");
    let addressed = has("http://") || has("https://");
    found.network |= addressed && (has("get") || has("fetch") || has("open") || has("request"));
    found.hosts = hosts(text);
    // `exec` of a process is no evaluation, and is found as a call.
    found.evaluates = evaluates(tokens, has("child_process"));
    let away = found.hosts.iter().any(|host| !credentials::stays(host)) || found.hosts.is_empty();
    found.uploads = found.network && away && UPLOADS.iter().any(|sign| has(sign));
    found.environment = takes_environment(text);
    found.credentials = takes_credentials(text);
    found.talks = tokens.iter().any(|token| names_a_module(token, language));
    let compact: String = lower.chars().filter(|c| !c.is_whitespace()).collect();
    let sourced = REMOTE_SOURCES.iter().any(|sign| compact.contains(sign));
    found.network |= sourced;
    found.evaluates |= sourced;
    if kills_all(tokens) {
        let argv = ["kill", "-9", "-1"].map(str::to_owned).to_vec();
        found.calls.push(super::calls::Call::Vector { argv, input: None });
        found.acts = true;
        found.runs = true;
    }
    found.fork_bomb = has("fork")
        && (has("while") || has("loop") || has("for(;;)") || has("fork,fork") || has("for (;;)"))
        || forks_in_a_comprehension(&compact)
        || starts_itself(&compact);
}

/// Returns whether code sends a signal to every process there is: Python 3.13 `os.kill(-1, 9)`, Perl 5.40 `kill 9, -1`,
/// Ruby 3.3 `Process.kill(9, -1)`, Node.js 22 `process.kill(-1)`, PHP 8.3 `posix_kill(-1, 9)`.
fn kills_all(tokens: &[Token]) -> bool {
    let is_kill = |name: &str| matches!(super::calls::last_of(name), "kill" | "posix_kill");
    let everything = |rest: &[Token]| match rest {
        [Token::Mark('(' | ','), Token::Mark('-'), Token::Name(number), behind @ ..] => {
            number == "1" && matches!(behind.first(), None | Some(Token::Mark(',' | ')') | Token::End))
        }
        _ => false,
    };
    let mut kills = false;
    tokens.iter().enumerate().any(|(at, token)| {
        match token {
            Token::End => kills = false,
            Token::Name(name) => kills |= is_kill(name),
            _ => {}
        }
        kills && tokens.get(at..).is_some_and(everything)
    })
}

/// Returns whether a comprehension or a generator forks once for each item of what has no end, or has very many:
/// `[os.fork() for _ in itertools.count()]`. Text without blanks.
fn forks_in_a_comprehension(compact: &str) -> bool {
    const ENDLESS: [&str; 5] = ["initer(", "count(", "repeat(", "cycle(", "initertools."];
    compact.split("fork()for").skip(1).any(|rest| {
        let source = rest.split([')', ']']).next().unwrap_or_default();
        let many = source
            .split("range(")
            .nth(1)
            .is_some_and(|size| size.contains("**") || size.bytes().filter(u8::is_ascii_digit).count() > 2);
        many || ENDLESS.iter().any(|endless| source.contains(endless))
    })
}

/// Returns whether text becomes code: `eval` and its kin, called or handed on, but not methods that merely share the name
/// (`pattern.exec(x)`), nor `exec` where it starts a process.
fn evaluates(tokens: &[Token], starts_processes: bool) -> bool {
    tokens.iter().any(|token| match token {
        Token::Name(name) if name == "exec" => !starts_processes,
        Token::Name(name) => EVALUATORS.contains(&name.as_str()),
        _ => false,
    })
}

/// Returns whether the whole environment is used, not one variable of it.
fn takes_environment(text: &str) -> bool {
    const NAMES: &[&str] = &[
        "os.environ",
        "process.env",
        "ENV.to",
        "%ENV",
        "os.Environ()",
        "getenv()",
        "System.getenv()",
        "import environ",
        "Sys.getenv()",
        "env.toObject",
        "$_ENV",
        "environ(",
    ];
    NAMES.iter().any(|name| {
        text.match_indices(name).any(|(at, _)| {
            let rest = text.get(at + name.len()..).unwrap_or_default();
            !rest.starts_with(['[', '.', '{', 'b']) || rest.starts_with(".items") || rest.starts_with(".copy")
        })
    })
}

/// Returns the variables of credentials that code takes out of the environment.
fn takes_credentials(text: &str) -> Taint {
    const READERS: [&str; 6] = ["environ", "getenv", "process.env", "Deno.env", "ENV", "$_SERVER"];
    if !READERS.iter().any(|reader| text.contains(reader)) {
        return Taint::NONE;
    }
    let names = text.split(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '_');
    names.fold(Taint::NONE, |all, name| all | credentials::taint_of(name))
}

/// Returns the hosts that code names in addresses.
fn hosts(text: &str) -> Vec<String> {
    let schemes = text.match_indices("://");
    schemes.filter_map(|(at, _)| credentials::host_of(text.get(at..)?)).collect()
}

/// Returns whether it names a module of the network, in an import or as what a call belongs to.
fn names_a_module(token: &Token, language: &Language) -> bool {
    let text = match token {
        Token::Name(name) => name.as_str(),
        Token::Text(text) => text.body.as_str(),
        _ => return false,
    };
    language.network.iter().any(|module| {
        let rest = text.strip_prefix("node:").unwrap_or(text).strip_prefix(module.as_str());
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '-'))
    })
}
