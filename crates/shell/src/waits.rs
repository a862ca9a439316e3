//! Programs that read commands from whoever types into them.
//!
//! A shell, an interpreter or a database client that is started without anything to do waits for input.
//! If an agent has a tool that types into what it started, and no hook sees that tool, such a start is the
//! last thing that a guard sees. Only a program that is connected to the session's own input counts: what is
//! piped or redirected into it is known, and judged.
//!
//! Pagers, and programs that start an editor on their own (`git commit`), are not looked for.

use super::data::{Data, Taint};
use super::walk::{Shell, slices};
use crate::Argument;
use crate::options::Options;
use crate::programs::{Does, Flags, Programs, Waits};

/// Most commands that are reported.
const MOST: usize = 16;

/// Modules of Python that are prompts, and scripts that open one.
const PROMPT_MODULES: &[&str] = &["pdb", "code", "asyncio", "ipython", "bpython", "ptpython"];
const PROMPT_COMMANDS: &[&str] = &["shell", "dbshell", "shell_plus", "tinker"];

impl Shell<'_> {
    /// Takes down that the program waits to be told what to do by the session's own input, if it does.
    pub(super) fn note_waiting(&mut self, argv: &[String], program: &str, stdin: &Data) {
        let typed = stdin.taint == Taint::INPUT && stdin.marked().is_none();
        let args = argv.get(1..).unwrap_or_default();
        if typed && self.trace.waiting.len() < MOST && self.programs.waits(program, &slices(args)) {
            let words: Vec<_> = argv.iter().take(8).cloned().map(Argument::marked).collect();
            let words: Vec<_> = words.iter().map(Argument::display).collect();
            self.trace.waiting.push(words.join(" "));
        }
    }
}

impl Programs {
    /// Returns whether the program, when started with these arguments, waits for commands on its standard input.
    pub fn waits(&self, program: &str, args: &[&str]) -> bool {
        if args.iter().any(|arg| matches!(*arg, "--version" | "--help" | "-version" | "-help")) {
            return false;
        }
        let first =
            args.iter().find(|arg| !arg.starts_with('-') || **arg == "-").copied().unwrap_or_default();
        let Some(entry) = self.get(program) else { return false };
        if entry.prompts.iter().any(|sub| sub == first) {
            return true;
        }
        if self.does(program, Does::SpeaksShell) {
            return super::carrier::reads_commands(args);
        }
        match program {
            "powershell" | "pwsh" => {
                let code = |arg: &&str| {
                    let arg = arg.to_ascii_lowercase();
                    !arg.starts_with("-no")
                        && (arg.starts_with("-c") || arg.starts_with("-e") || arg.starts_with("-f"))
                };
                !args.iter().any(code)
                    && (first.is_empty() || args.iter().any(|arg| arg.eq_ignore_ascii_case("-noexit")))
            }
            _ => self.waits_when(program).is_some_and(|waits| self.is_idle(program, args, waits)),
        }
    }

    /// Returns whether its arguments give a program that can wait nothing to do.
    fn is_idle(&self, program: &str, args: &[&str], waits: &Waits) -> bool {
        let takes = self.takes(program);
        let options = Options::parse(args, if waits.options_first { takes.until_operand() } else { takes });
        let base = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        let prompts = || {
            let module = options.value(Some('m'), "").unwrap_or_default().to_ascii_lowercase();
            let named = options.operands.get(1).is_some_and(|sub| PROMPT_COMMANDS.contains(sub));
            base.starts_with("py") && PROMPT_MODULES.contains(&module.as_str())
                || matches!(base, "python" | "php") && named
        };
        // `-i` keeps an interpreter open behind its script.
        let stays = matches!(base, "python" | "pypy" | "node") && options.short('i');
        if waits.operands == Some(0) && (stays || prompts()) {
            return true;
        }
        let works = waits.unless.any_in(&options) || waits.unless.any_behind_one_dash(args);
        let operands =
            options.operands.iter().filter(|operand| !matches!(**operand, "-" | "/dev/stdin" | "/dev/tty"));
        let is_asked = waits.only == Flags::default() || waits.only.any_in(&options);
        !works && is_asked && waits.operands.is_none_or(|most| operands.count() <= most)
    }
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
