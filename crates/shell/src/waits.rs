//! Programs that take their commands from whoever types into them.
//!
//! A shell, an interpreter or the client of a database that is started without anything to do waits for input.
//! Where an agent has a tool that types into what it started, and no hook sees that tool, such a start is the
//! last thing a guard is shown. Only a program that is connected to the session's own input counts: what is
//! piped or redirected into it is known, and judged.
//!
//! Pagers, and programs that start an editor of their own accord (`git commit`), are not looked for.

use super::carrier::is_shell;
use super::data::{Data, Taint};
use super::walk::{Shell, slices};
use crate::Argument;
use crate::options::{Options, Takes};

/// Most commands that are reported.
const MOST: usize = 16;

/// A program that waits, unless its arguments give it something to do.
struct Waiter {
    names: &'static [&'static str],
    takes: Takes,
    /// Options with which it has something to do, short and long.
    work: (&'static str, &'static [&'static str]),
    /// How many operands it has before it has something to do.
    idle_operands: usize,
}

const fn waiter(
    names: &'static [&'static str],
    takes: Takes,
    work: (&'static str, &'static [&'static str]),
    idle_operands: usize,
) -> Waiter {
    Waiter { names, takes, work, idle_operands }
}

/// No operand is something to do.
const ANY: usize = usize::MAX;

const WAITERS: &[Waiter] = &[
    waiter(
        &["python", "pypy", "ipython", "bpython", "ptpython", "micropython"],
        Takes::wrapper("cmWXQ", &[]),
        ("cmVh", &[]),
        0,
    ),
    waiter(
        &["node", "nodejs", "tsx", "ts-node"],
        Takes::wrapper("epr", &["eval", "print", "require", "import"]),
        ("epvhc", &["eval", "print", "check", "test"]),
        0,
    ),
    waiter(&["perl", "raku"], Takes::wrapper("eEIMmCDFx", &[]), ("eEvVhc", &[]), 0),
    waiter(&["ruby", "jruby"], Takes::wrapper("eICrEFKTWx", &[]), ("evhc", &[]), 0),
    waiter(&["php"], Takes::wrapper("rBREfdcz", &["run", "file"]), ("rBREfvihmS", &["run", "file"]), 0),
    waiter(&["lua", "luajit", "texlua"], Takes::wrapper("el", &[]), ("ev", &[]), 0),
    waiter(
        &["julia"],
        Takes::wrapper("eELJtpC", &["eval", "print", "load"]),
        ("eEvh", &["eval", "print"]),
        0,
    ),
    waiter(&["r"], Takes::wrapper("ef", &["file"]), ("ef", &["file"]), 0),
    waiter(&["tclsh", "wish", "expect"], Takes::wrapper("cf", &[]), ("cf", &[]), 0),
    waiter(
        &["guile", "racket", "sbcl", "ocaml", "utop", "clj", "clojure", "bc", "dc", "octave"],
        Takes::wrapper("ecf", &["eval", "script", "load"]),
        ("ecfvh", &["eval", "script"]),
        0,
    ),
    waiter(
        &["scala", "swift", "groovysh", "jshell", "gnuplot", "nu", "xonsh", "elvish"],
        Takes::wrapper("ec", &[]),
        ("ec", &[]),
        0,
    ),
    waiter(&["ghci", "irb", "pry", "iex"], Takes::values("e", &["eval"]), ("", &[]), ANY),
    waiter(&["erl"], Takes::values("", &["eval"]), ("", &["noshell", "noinput"]), ANY),
    waiter(&["powershell", "pwsh"], Takes::wrapper("", &[]), ("", &[]), 0),
    waiter(
        &["psql", "pgcli", "cockroach"],
        Takes::values(
            "cfdhpUvoFPRTL",
            &["command", "file", "dbname", "host", "port", "username", "set", "output", "execute"],
        ),
        ("cflV", &["command", "file", "list", "execute"]),
        ANY,
    ),
    waiter(
        &["mysql", "mariadb", "mycli", "clickhouse-client", "cqlsh", "sqlcmd", "snowsql", "usql"],
        Takes::values(
            "ehuPDSqfQi",
            &["execute", "host", "user", "port", "database", "query", "file", "command"],
        ),
        ("efqQV", &["execute", "query", "file", "command"]),
        ANY,
    ),
    waiter(
        &["sqlite3", "sqlite", "duckdb", "litecli"],
        Takes::values("c", &["cmd", "init", "separator", "nullvalue"]),
        ("c", &["execute"]),
        1,
    ),
    waiter(
        &["mongosh", "mongo"],
        Takes::values("fup", &["eval", "file", "host", "port", "username", "password"]),
        ("f", &["eval", "file"]),
        1,
    ),
    waiter(
        &["redis-cli", "valkey-cli"],
        Takes::wrapper("hpsanuri", &["user", "pass", "eval"]),
        ("", &["eval", "scan", "bigkeys", "memkeys", "hotkeys", "stat", "latency", "pipe", "rdb"]),
        0,
    ),
    waiter(
        &["ssh", "slogin", "autossh", "mosh"],
        Takes::wrapper("bcDEeFIiJlmOopQRSWwBLM", &[]),
        ("NVGQOW", &[]),
        1,
    ),
    waiter(&["telnet", "ftp"], Takes::values("ln", &[]), ("", &[]), ANY),
    waiter(&["sftp"], Takes::values("bBcDFiJloPRSs", &[]), ("b", &[]), ANY),
    waiter(&["lftp"], Takes::values("efcpu", &[]), ("fc", &[]), ANY),
    waiter(&["nc", "ncat", "netcat"], Takes::values("eIioPpqsTVwXx", &[]), ("zh", &[]), ANY),
    waiter(
        &["gdb", "lldb", "jdb", "dlv"],
        Takes::values("xp", &["command", "args", "pid"]),
        ("v", &["batch"]),
        ANY,
    ),
    waiter(
        &["vi", "vim", "nvim", "view", "rvim", "nano", "pico", "micro", "ed", "red"],
        Takes::values("cSsu", &["cmd"]),
        ("esh", &["headless"]),
        ANY,
    ),
    waiter(&["emacs"], Takes::values("lf", &["eval", "load", "funcall"]), ("", &["batch", "script"]), ANY),
    waiter(&["tmux"], Takes::values("fLS", &[]), ("VC", &[]), 0),
    waiter(&["screen"], Takes::values("ScehptTXQ", &[]), ("XQvd", &["list"]), ANY),
    waiter(&["script"], Takes::values("cIOBTtmEo", &["command"]), ("cV", &["command"]), ANY),
    waiter(
        &["su", "runuser"],
        Takes::values("cgGsuw", &["command", "session-command"]),
        ("cV", &["command", "session-command"]),
        ANY,
    ),
    waiter(&["login", "newgrp", "sg"], Takes::values("hp", &[]), ("", &[]), 1),
    waiter(&["at", "batch"], Takes::values("fqt", &[]), ("flVdcr", &[]), ANY),
    waiter(
        &["parallel", "xargs", "gxargs"],
        Takes::values("aIdnPELsij", &["arg-file", "replace", "delimiter"]),
        ("a", &["arg-file"]),
        ANY,
    ),
];

/// Subcommands that open a shell or a prompt.
const PROMPTS: &[(&str, &[&str])] = &[
    ("docker", &["attach"]),
    ("podman", &["attach"]),
    ("kubectl", &["attach"]),
    ("nix", &["shell", "develop", "repl"]),
    ("nix-shell", &[""]),
    ("poetry", &["shell"]),
    ("pipenv", &["shell"]),
    ("hatch", &["shell"]),
    ("rails", &["console", "c", "dbconsole"]),
    ("deno", &["", "repl"]),
    ("bun", &["repl"]),
    ("node", &["inspect"]),
    ("vagrant", &["ssh"]),
    ("crontab", &["-"]),
    ("source", &["/dev/stdin", "/dev/tty", "/dev/fd/0"]),
    (".", &["/dev/stdin", "/dev/tty", "/dev/fd/0"]),
];

/// Modules of Python that are prompts, and scripts that open one.
const PROMPT_MODULES: &[&str] = &["pdb", "code", "asyncio", "ipython", "bpython", "ptpython"];
const PROMPT_COMMANDS: &[&str] = &["shell", "dbshell", "shell_plus", "tinker"];

impl Shell<'_> {
    /// Takes down that the program waits to be told what to do by the session's own input, if it does.
    pub(super) fn note_waiting(&mut self, argv: &[String], program: &str, stdin: &Data) {
        let typed = stdin.taint == Taint::INPUT && stdin.marked().is_none();
        let args = argv.get(1..).unwrap_or_default();
        if typed && self.trace.waiting.len() < MOST && waits(program, &slices(args)) {
            let words: Vec<_> = argv.iter().take(8).cloned().map(Argument::marked).collect();
            let words: Vec<_> = words.iter().map(Argument::display).collect();
            self.trace.waiting.push(words.join(" "));
        }
    }
}

/// Whether the program, started like that, waits for commands on its standard input.
pub fn waits(program: &str, args: &[&str]) -> bool {
    let base = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    // `sqlite3` ends in its number.
    let is = |name: &str| name == program || (!base.is_empty() && name == base);
    if args.iter().any(|arg| matches!(*arg, "--version" | "--help" | "-version" | "-help")) {
        return false;
    }
    let first = args.iter().find(|arg| !arg.starts_with('-') || **arg == "-").copied().unwrap_or_default();
    if PROMPTS.iter().any(|(name, subs)| is(name) && subs.contains(&first)) {
        return true;
    }
    if is_shell(program) {
        return super::carrier::reads_commands(args);
    }
    if matches!(program, "sudo" | "doas") {
        let options =
            Options::parse(args, Takes::wrapper("ugpCcDhrRtTU", &["user", "group", "chdir", "host"]));
        return options.operands.is_empty() && (options.has('i', "login") || options.has('s', "shell"));
    }
    if matches!(program, "powershell" | "pwsh") {
        let code = |arg: &&str| {
            let arg = arg.to_ascii_lowercase();
            !arg.starts_with("-no")
                && (arg.starts_with("-c") || arg.starts_with("-e") || arg.starts_with("-f"))
        };
        return !args.iter().any(code)
            && (first.is_empty() || args.iter().any(|arg| arg.eq_ignore_ascii_case("-noexit")));
    }
    let Some(waiter) = WAITERS.iter().find(|waiter| waiter.names.iter().any(|name| is(name))) else {
        return false;
    };
    let options = Options::parse(args, waiter.takes);
    let interpreter = waiter.idle_operands == 0;
    let prompts = || {
        let module = options.value(Some('m'), "").unwrap_or_default().to_ascii_lowercase();
        let named = options.operands.get(1).is_some_and(|sub| PROMPT_COMMANDS.contains(sub));
        base.starts_with("py") && PROMPT_MODULES.contains(&module.as_str())
            || matches!(base, "python" | "php") && named
    };
    // `-i` keeps an interpreter open behind its script.
    if interpreter && (matches!(base, "python" | "pypy" | "node") && options.short('i') || prompts()) {
        return true;
    }
    let (short, long) = waiter.work;
    let works = short.chars().any(|c| options.short(c))
        || long.iter().any(|name| options.long(name) || args.contains(&format!("-{name}").as_str()));
    let operands =
        options.operands.iter().filter(|operand| !matches!(**operand, "-" | "/dev/stdin" | "/dev/tty"));
    !works && operands.count() <= waiter.idle_operands
}

#[cfg(test)]
mod tests {
    use crate::place::Place;
    use crate::{Analyzer, ShellKind};

    fn waiting(command: &str) -> Vec<String> {
        Analyzer::new().trace(command, ShellKind::Posix, &Place::new("/work")).waiting
    }

    #[test]
    fn what_waits_to_be_told_is_known() {
        for command in [
            "bash",
            "/bin/bash --norc",
            "bash -i",
            "sh -s",
            "zsh -l",
            "exec bash",
            "sudo bash",
            "sudo -i",
            "env FOO=1 sh",
            "bash -c bash",
            "cd /tmp && sh",
            "bash < /dev/tty",
            "bash /dev/stdin",
            "cat | sh",
            "python",
            "python3.12 -q",
            "python3 -i setup.py",
            "python -m pdb x.py",
            "python manage.py shell",
            "node",
            "node -i",
            "deno",
            "perl",
            "ruby -w",
            "irb",
            "php -a",
            "pwsh -NoProfile",
            "psql",
            "psql -h db -U me shop",
            "mysql -u root -p shop",
            "sqlite3",
            "sqlite3 shop.db",
            "redis-cli -h cache",
            "mongosh",
            "ssh host",
            "ssh -t -i key me@host",
            "sftp host",
            "nc host 80",
            "docker exec -it box bash",
            "docker attach box",
            "kubectl exec -it pod -- sh",
            "gdb ./a.out",
            "vim notes.txt",
            "tmux",
            "su -",
            "script",
            "nohup python",
            "timeout 60 bash",
            "xargs rm",
            "source /dev/stdin",
            "nix-shell",
            "poetry shell",
        ] {
            assert!(!waiting(command).is_empty(), "{command}");
        }
    }

    #[test]
    fn what_has_something_to_do_does_not_wait() {
        for command in [
            "ls",
            "bash build.sh",
            "bash -lc 'ls'",
            "bash --version",
            "echo ls | bash",
            "bash < script.sh",
            "bash <<'E'\nls\nE",
            "python x.py",
            "python3 -c 'print(1)'",
            "python3 -uc 'print(1)'",
            "python -m pytest",
            "python -V",
            "python - <<'E'\nprint(1)\nE",
            "python manage.py migrate",
            "node server.js",
            "node -e '1'",
            "node --version",
            "deno test",
            "perl -ne 'print' f",
            "ruby x.rb",
            "php artisan migrate",
            "pwsh -File x.ps1",
            "psql -tAc 'select 1' shop",
            "psql shop < dump.sql",
            "python gen.py | psql shop",
            "mysql -Ne 'select 1'",
            "sqlite3 shop.db 'select 1'",
            "sqlite3 shop.db < q.sql",
            "redis-cli get x",
            "mongosh --eval '1'",
            "ssh host uptime",
            "ssh -V",
            "sftp -b batch host",
            "nc -z host 80",
            "docker exec box ls",
            "docker run --rm image",
            "gdb -batch -ex bt ./a.out",
            "emacs --batch --eval '1'",
            "tmux ls",
            "su me -c ls",
            "find . | xargs rm",
            "git status",
            "cargo test",
        ] {
            assert!(waiting(command).is_empty(), "{command}: {:?}", waiting(command));
        }
    }
}
