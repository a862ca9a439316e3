//! Options and settings with which programs that are not wrappers still run other programs: pagers, checkpoint
//! actions, makefiles. `git.rs` handles those of git, and the catalogue handles those that are the value of an option.

use super::carrier::quote;
use super::code::Languages;
use super::data::{Data, Taint};
use super::project;
use super::trace::Fact;
use super::walk::Shell;
use crate::options::Options;
use crate::programs::Escapes;

impl Shell<'_> {
    /// Options with which programs run other programs.
    pub(super) fn hooks(&mut self, program: &str, args: &[&str], stdin: &Data, process: usize) {
        let mut texts: Vec<String> = self
            .environment
            .iter()
            .filter(|(name, value)| PROGRAM_VARIABLES.contains(&name.as_str()) && value.contains([' ', ';']))
            .map(|(_, value)| value.trim_start_matches('|').to_owned())
            .collect();
        texts.extend(option_after(args, self.programs.runs(program)));
        texts
            .extend(self.programs.escapes(program).into_iter().flat_map(|signs| escaped(signs, args, stdin)));
        texts.extend(match program {
            "tar" | "gtar" | "bsdtar" => self.tar_programs(args),
            "rsync" => option_after(args, &["-e", "--rsh", "--rsync-path"])
                .into_iter()
                .filter(|text| !matches!(text.as_str(), "ssh" | "rsh" | "rsync"))
                .collect(),
            "git" => {
                self.git_hooks(args, process);
                self.git_programs(args)
            }
            "vim" | "vi" | "nvim" | "view" | "ex" | "rvim" | "gvim" => self.editor_programs(args, process),
            "make" | "gmake" | "just" => self.make_programs(args, stdin, process),
            "npm" | "pnpm" | "yarn" | "bun" => {
                let package = self.content_of("package.json");
                package.exact().map(|text| project::scripts(text, program, args)).unwrap_or_default()
            }
            "curl" => self.configured_transfers(args, stdin),
            "psql" => psql_programs(&option_after(args, &["-c", "--command"])),
            "gdb" | "lldb" => {
                let commands = option_after(args, &["-ex", "--eval-command", "-o"]);
                for code in inside(&commands, &["python ", "script "]) {
                    self.code(&code, Languages::built_in().of_program("python"), process, 0);
                }
                Vec::new()
            }
            "nmap" => args
                .iter()
                .find(|arg| arg.contains("os.execute"))
                .map(|arg| vec![(*arg).to_owned()])
                .unwrap_or_default(),
            _ => Vec::new(),
        });
        for text in texts {
            let data = Data::text(&text);
            let input = stdin.clone();
            self.in_subshell(|shell| {
                shell.inherited = input;
                shell.run_code(&data, &[], Some(process), program)
            });
        }
    }

    fn tar_programs(&self, args: &[&str]) -> Vec<String> {
        const OPTIONS: [(Option<char>, &str); 6] = [
            (None, "checkpoint-action"),
            (None, "to-command"),
            (Some('F'), "info-script"),
            (None, "new-volume-script"),
            (Some('I'), "use-compress-program"),
            (None, "rsh-command"),
        ];
        let options = Options::parse(args, self.programs.takes("tar"));
        let values = OPTIONS.iter().flat_map(|(short, long)| options.values(*short, long));
        values.map(|value| value.strip_prefix("exec=").unwrap_or(value).to_owned()).collect()
    }

    /// `curl -K FILE`: the command line that the options in the file make, where they can be read.
    fn configured_transfers(&mut self, args: &[&str], stdin: &Data) -> Vec<String> {
        let options = Options::parse(args, self.programs.takes("curl"));
        let files: Vec<&str> = options.values(Some('K'), "config").collect();
        let read = files.iter().map(|file| match *file {
            "-" | "/dev/stdin" => stdin.clone(),
            file => self.content_of(file),
        });
        let texts: Vec<String> = read.filter_map(|data| data.marked().map(str::to_owned)).collect();
        if texts.is_empty() {
            return Vec::new();
        }
        let words = texts.iter().flat_map(|text| text.lines()).flat_map(configured);
        let own = args.iter().filter(|arg| !files.contains(arg) && !matches!(**arg, "-K" | "--config"));
        let own = own.filter(|arg| !arg.starts_with("-K") && !arg.starts_with("--config="));
        let all: Vec<String> =
            own.map(|arg| (*arg).to_owned()).chain(words).map(|word| quote(&word)).collect();
        vec![format!("curl {}", all.join(" "))]
    }

    /// Commands that an editor is started with.
    fn editor_programs(&mut self, args: &[&str], process: usize) -> Vec<String> {
        const QUIET: [&str; 4] = ["silent! ", "silent ", "sil! ", "sil "];
        let mut texts = Vec::new();
        let clustered =
            args.windows(2).filter(|pair| pair.first().is_some_and(|flag| takes_editor_command(flag)));
        let clustered = clustered.filter_map(|pair| pair.get(1)).map(|text| (*text).to_owned());
        for text in clustered.chain(behind(args, &["+", "-c"])) {
            let text = text.trim_start_matches(':');
            let text = QUIET.iter().find_map(|quiet| text.strip_prefix(quiet)).unwrap_or(text);
            if let Some((range, shell)) = text.split_once('!')
                && range.chars().all(|c| c.is_ascii_digit() || "%$.,rw ".contains(c))
            {
                texts.push(shell.to_owned());
            } else if text.contains("system(") || EDITOR_LANGUAGES.iter().any(|l| text.starts_with(l)) {
                self.code(text, Languages::built_in().any(), process, 0);
            }
        }
        texts
    }

    /// Returns the recipes of a makefile, and what stands for commands on the command line.
    fn make_programs(&mut self, args: &[&str], stdin: &Data, process: usize) -> Vec<String> {
        let options = Options::parse(args, self.programs.takes("make"));
        let rules = match options.value(Some('f'), "file").or(options.value(None, "makefile")) {
            Some("-" | "/dev/stdin") => stdin.clone(),
            Some(file) => self.content_of(file),
            None => {
                let folder = options.value(Some('C'), "directory").unwrap_or(".");
                self.content_of(&format!("{folder}/Makefile"))
            }
        };
        if rules.taint.has(Taint::FETCHED) {
            self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::FETCHED });
        }
        // A variable of the command line is a command in most makefiles.
        let mut texts: Vec<String> = args
            .iter()
            .filter_map(|arg| arg.split_once('='))
            .filter(|(name, value)| !name.starts_with('-') && value.contains([' ', ';', '|']))
            .map(|(_, value)| value.to_owned())
            .collect();
        if let Some(text) = rules.marked() {
            let (recipes, over) = project::recipes(text, &options.operands);
            self.trace.note(over);
            texts.extend(recipes);
        }
        for text in option_after(args, &["--eval", "-E"]) {
            let calls = text.split("$(shell ").skip(1).filter_map(|rest| rest.rsplit_once(')'));
            texts.extend(calls.map(|(code, _)| code.to_owned()));
            texts.extend(text.split(['\t', ';']).skip(1).map(str::to_owned));
            // The recipe behind a target is one text, whatever is in it.
            texts.extend(text.split_once(';').map(|(_, recipe)| recipe.to_owned()));
        }
        texts
    }
}

/// Returns the words that a line of a file of `curl` stands for (curl 8.9, `--config`): `url = "x"`, `--url x`, `-s`.
fn configured(line: &str) -> Vec<String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Vec::new();
    }
    let end = line.find(|c: char| c.is_whitespace() || matches!(c, '=' | ':')).unwrap_or(line.len());
    let (name, rest) = line.split_at_checked(end).unwrap_or((line, ""));
    let name = if name.starts_with('-') { name.to_owned() } else { format!("--{name}") };
    let value = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '=' | ':'));
    let value = match value.strip_prefix('"') {
        Some(quoted) => quoted.rsplit_once('"').map_or(quoted, |(value, _)| value),
        None => value.split_whitespace().next().unwrap_or_default(),
    };
    let value = Some(value.to_owned()).filter(|value| !value.is_empty());
    std::iter::once(name).chain(value).collect()
}

/// Returns what `psql` runs: by `\\!`, and by `COPY ... PROGRAM '...'`.
fn psql_programs(statements: &[String]) -> Vec<String> {
    let program = |sql: &str| {
        let (_, rest) = sql.split_once("PROGRAM").or_else(|| sql.split_once("program"))?;
        let text = rest.trim().trim_start_matches('\'');
        Some(text.rsplit_once('\'').map_or(text, |(text, _)| text).to_owned())
    };
    let run =
        |sql: &String| sql.trim().strip_prefix("\\!").map(str::to_owned).or_else(|| program(sql.trim()));
    statements.iter().filter_map(run).collect()
}

/// Returns what a program is told to start in its own language: all of a line behind its first sign, and what stands behind
/// each up to the next `;`.
fn escaped(signs: &Escapes, args: &[&str], stdin: &Data) -> Vec<String> {
    let given = match signs.options.as_slice() {
        [] => args.iter().map(|arg| (*arg).to_owned()).collect(),
        options => option_after(args, options),
    };
    let input = stdin.marked().filter(|_| signs.input);
    let lines = given.iter().map(String::as_str).chain(input).flat_map(str::lines);
    let is_told = |rest: &&str| signs.behind.iter().any(|sign| rest.trim_start().starts_with(sign.as_str()));
    let parts = lines.flat_map(|line| {
        let starts = std::iter::once(0).chain(line.match_indices(';').map(|(at, _)| at + 1));
        let first = starts.filter_map(|at| line.get(at..)).find(is_told);
        first.into_iter().chain(line.split(';').skip(usize::from(first == Some(line))))
    });
    inside(&parts.collect::<Vec<_>>(), &signs.behind)
}

/// Returns what follows one of the beginnings, of the arguments that have one.
fn behind(args: &[&str], beginnings: &[impl AsRef<str>]) -> Vec<String> {
    let rest = args
        .iter()
        .filter_map(|arg| beginnings.iter().find_map(|beginning| arg.strip_prefix(beginning.as_ref())));
    rest.map(str::to_owned).collect()
}

/// Returns the same of commands that may be indented.
fn inside(commands: &[impl AsRef<str>], beginnings: &[impl AsRef<str>]) -> Vec<String> {
    let trimmed: Vec<&str> = commands.iter().map(|command| command.as_ref().trim()).collect();
    behind(&trimmed, beginnings)
}

/// Variables that name a program which others start.
const PROGRAM_VARIABLES: &[&str] =
    &["PAGER", "MANPAGER", "SYSTEMD_PAGER", "EDITOR", "VISUAL", "SUDO_EDITOR", "BROWSER", "LESSOPEN"];

/// Commands of editors behind which code of another language stands.
const EDITOR_LANGUAGES: &[&str] =
    &["py", "python", "python3", "pyx", "ruby", "rubydo", "perl", "perldo", "lua", "luado", "tcl", "mz"];

/// Returns the values after these options.
pub(super) fn option_after(args: &[&str], names: &[impl AsRef<str>]) -> Vec<String> {
    let mut found: Vec<String> = args
        .windows(2)
        .filter(|pair| pair.first().is_some_and(|name| names.iter().any(|known| known.as_ref() == *name)))
        .filter_map(|pair| pair.get(1).map(|value| (*value).to_owned()))
        .collect();
    for name in names.iter().map(AsRef::as_ref).filter(|name| name.starts_with("--")) {
        found.extend(
            args.iter().filter_map(|arg| arg.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned),
        );
    }
    found
}

/// Returns whether an editor takes the next word for a command: `-c`, also as the last of several letters (`-esc`).
fn takes_editor_command(flag: &str) -> bool {
    let letters = flag.strip_prefix('-').unwrap_or_default();
    flag == "--cmd" || letters.ends_with('c') && letters.chars().all(|c| c.is_ascii_alphabetic())
}
