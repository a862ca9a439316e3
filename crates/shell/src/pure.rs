//! What commands without side effects print.
//!
//! Only what decides what later runs is modelled: programs that produce text (`echo`, `printf`) or copy it (`cat`, `tee`),
//! and decoders. The output of all other programs is unknown, with the taint that matters: it came from
//! the network, from a decoder, from a credential file, or from the environment.

use super::data::{Data, Taint};
use super::decode;
use super::limits::{Bounded, TOUCHES};
use super::walk::Shell;
use super::word::{HOLE, MADE, STAR, has_hole, unglob};
use crate::options::{Options, Takes};
use crate::programs::Does;

impl Shell<'_> {
    /// Returns the output of a program that was given `args` and `stdin`.
    pub(crate) fn output_of(&mut self, program: &str, args: &[String], stdin: &Data) -> Data {
        let refs: Vec<&str> = args.iter().map(String::as_str).collect();
        if crate::container::containers_made(program, &refs, self.programs).contains(&MADE) {
            return Data::text(MADE);
        }
        if let Some(known) = listing(program, &refs, stdin).or_else(|| self.coded(program, &refs, stdin)) {
            return known;
        }
        match program {
            "echo" | "printf" => self.said(program, &refs),
            "env" | "printenv" | "export" | "set" | "declare"
                if refs.iter().all(|arg| arg.starts_with('-')) =>
            {
                Data::unknown(Taint::ENVIRONMENT)
            }
            "pwd" => Data::text(self.state.cwd.clone().unwrap_or_else(|| HOLE.into())),
            "which" | "type" if refs.iter().any(|arg| !arg.starts_with('-')) => match refs.last() {
                Some(name) => Data::text(format!("/usr/bin/{name}")),
                _ => Data::unknown(Taint::PROGRAM),
            },
            "getent" => account(&refs),
            "xdg-user-dir" => Data::text(self.user_folder(&refs)),
            "git" if refs.contains(&"rev-parse") => self.of_repository(&refs),
            "true" | "false" | ":" | "cd" | "exit" | "test" | "[" | "sleep" | "rm" | "mkdir" | "touch"
            | "wait" => Data::empty(),
            "head" | "tail" => {
                let options = Options::parse(&refs, self.programs.takes(program));
                a_part_of(self.operand_data(&options.operands, stdin))
            }
            "tee" | "sponge" => stdin.clone(),
            // A selection of known text is taken to be all of it: more is judged, never less.
            _ if self.programs.does(program, Does::CopiesInput) => {
                let options = Options::parse(&refs, self.programs.takes(program));
                self.operand_data(&options.operands, stdin)
            }
            "history" => Data::unknown(Taint::SECRET),
            "aws" | "gsutil" | "gcloud" | "rclone" if refs.last() == Some(&"-") && refs.contains(&"cp") => {
                Data::unknown(Taint::NET)
            }
            "get-childitem" | "gci" => child_items(&refs),
            _ if self.programs.prints_secrets(program, &refs) => {
                Data::unknown(Taint::SECRET | Taint::PROGRAM | stdin.taint.without(Taint::INPUT))
            }
            _ if self.programs.does(program, Does::Fetches) => {
                if refs.iter().any(|arg| matches!(*arg, "--version" | "--help" | "-V" | "--manual")) {
                    return Data::unknown(Taint::NONE);
                }
                Data::unknown(Taint::NET)
            }
            _ if self.programs.does(program, Does::ReadsStatements) && !literals(&refs).is_empty() => {
                Data::text(literals(&refs)).or_anything().tainted(Taint::PROGRAM)
            }
            _ if computes(program, &refs)
                || self.programs.does(program, Does::Rewrites) && is_written_here(stdin) =>
            {
                let taint = stdin.taint.without(Taint::INPUT) | self.word_taint | Taint::DECODED;
                Data::unknown(taint).made_of(stdin)
            }
            _ => {
                if let Some(settings) = self.settings_of(program, &refs) {
                    return settings;
                }
                // Whatever it does, it may pass on what it was given, by name or on its input.
                let given = self.operand_taint(&refs) | stdin.taint | self.word_taint;
                // A program that is given its own credential does not print it.
                let given = given.without_credentials().without(Taint::ENDLESS);
                let given = given.without(Taint::INPUT | Taint::FILE | Taint::UNREAD) | Taint::PROGRAM;
                Data::unknown(given).made_of(stdin)
            }
        }
    }

    /// Returns what programs print that encode or decode, pack or unpack, or change each character. `None` for all other
    /// programs.
    fn coded(&mut self, program: &str, args: &[&str], stdin: &Data) -> Option<Data> {
        Some(match program {
            "rev" => self.transformed(args, stdin, |text| Some(decode::rev(text))),
            "openssl" if args.first() == Some(&"s_client") => Data::unknown(Taint::NET),
            "base64" | "gbase64" | "base32" | "basenc" | "b64decode" | "openssl" | "uudecode" => {
                self.base_coding(program, args, stdin)
            }
            "xxd" | "od" | "hexdump" => self.dump(args, stdin),
            "tr" => translated(args, stdin),
            "gunzip" | "zcat" | "gzcat" | "bunzip2" | "bzcat" | "unxz" | "xzcat" | "unlzma" | "zstdcat"
            | "unzstd" | "lz4cat" | "uncompress" => {
                let input = self.operand_data(args, stdin);
                Data::unknown(input.taint | Taint::DECODED)
            }
            "gzip" | "bzip2" | "xz" | "zstd" | "lzma" | "lz4" | "pigz" | "gpg" | "gpg2" => {
                self.packed(program, args, stdin)
            }
            _ => return None,
        })
    }

    /// A folder of the user's own that has a name of its own (`xdg-user-dir DOCUMENTS`).
    fn user_folder(&self, args: &[&str]) -> String {
        let folder = match args {
            ["DESKTOP"] => "Desktop",
            ["DOCUMENTS"] => "Documents",
            ["DOWNLOAD"] => "Downloads",
            ["MUSIC"] => "Music",
            ["PICTURES"] => "Pictures",
            ["VIDEOS"] => "Videos",
            // Names that it doesn't know are the home itself.
            _ => return self.place.home().to_owned(),
        };
        format!("{}/{folder}", self.place.home())
    }

    /// Returns where a repository is. It is that of the workspace as long as the command stays there.
    fn of_repository(&self, args: &[&str]) -> Data {
        let workspace = self.place.workspace();
        let inside = self.state.cwd.as_deref().and_then(|cwd| cwd.strip_prefix(workspace));
        let known = args.first() == Some(&"rev-parse")
            && inside.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        match args.last() {
            Some(&"--show-toplevel") if known => Data::text(workspace).or_anything(),
            Some(&("--git-dir" | "--git-common-dir" | "--absolute-git-dir")) if known => {
                Data::text(format!("{workspace}/.git")).or_anything()
            }
            _ => Data::unknown(Taint::PROGRAM),
        }
    }

    /// Returns what is printed of the words of the command itself.
    fn said(&self, program: &str, args: &[&str]) -> Data {
        let text = if program == "echo" { Data::text(echo(args)) } else { print(args) };
        // A word that may be none, or many, changes more than its own place.
        let text = if is_loose(args) { text.or_anything() } else { text };
        text.tainted(self.own_credentials())
    }

    /// Returns the credentials among what flowed into the words of the current command.
    fn own_credentials(&self) -> Taint {
        self.word_taint.without(self.word_taint.without_credentials())
    }

    /// Returns what a dump, or the reversal of one, prints.
    fn dump(&mut self, args: &[&str], stdin: &Data) -> Data {
        let options = Options::parse(args, Takes::values("gclos", &[]));
        let input = self.file_or_input(options.operands.first().copied(), stdin);
        if options.short('r') || options.long("revert") {
            return decoded(&input, decode::hex);
        }
        Data::unknown(input.taint.without(Taint::INPUT))
    }

    /// Returns what programs print that pack and unpack, or encrypt and decrypt.
    fn packed(&mut self, program: &str, args: &[&str], stdin: &Data) -> Data {
        let input = self.operand_data(args, stdin);
        let options = Options::parse(args, Takes::values("o", &["output"]));
        let decodes = options.has('d', "decompress") || options.long("decrypt") || options.long("uncompress");
        let encrypted = program.starts_with("gpg") && (decodes || options.long("export-secret-keys"));
        let secret = if encrypted { Taint::SECRET } else { Taint::NONE };
        let code = if decodes { Taint::DECODED } else { Taint::NONE };
        Data::unknown(input.taint | secret | code)
    }

    /// Returns what a tool prints to be evaluated by a shell: nothing to look at where it is one of the few that everybody
    /// evaluates, and as good as a file where it is any other that is known for it. `None` for all other programs.
    fn settings_of(&self, program: &str, args: &[&str]) -> Option<Data> {
        /// What programs of every kind call the command that prints their completions.
        const COMPLETIONS: [&str; 5] =
            ["completion", "completions", "--completion", "--completions", "shell-completion"];
        /// Where package managers put programs.
        const FOLDERS: [&str; 5] =
            ["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/home/linuxbrew/.linuxbrew/bin", "/bin"];
        let first = args.first().copied().unwrap_or_default();
        let process = self.trace.processes.last();
        let folder = process.and_then(|process| Some(process.argv().first()?.raw().rsplit_once('/')?.0));
        let settings = self.programs.get(program).map(|entry| &entry.settings);
        if folder.is_none() && settings.is_some_and(|settings| settings.is_everyday(first)) {
            return Some(Data::empty());
        }
        let completes = COMPLETIONS.contains(&first) && !self.programs.is_interpreter(program);
        let named = completes || settings.is_some_and(|settings| settings.are_printed(args));
        let installed = folder.is_none_or(|folder| FOLDERS.contains(&folder));
        let known = !args.iter().any(|arg| has_hole(arg));
        (named && installed && known).then(|| Data::unknown(Taint::PROGRAM | Taint::FILE))
    }

    /// Returns the data a filter works on: its operands when there are any, else its input.
    fn operand_data(&mut self, args: &[&str], stdin: &Data) -> Data {
        let mut files = args.iter().filter(|arg| !arg.starts_with('-') || **arg == "-").peekable();
        if files.peek().is_none() {
            return stdin.clone();
        }
        let mut all = Data::empty();
        for file in files {
            let data = if *file == "-" { stdin.clone() } else { self.content_of(file) };
            all.then(&data);
        }
        all
    }

    /// Returns where the data of all operands comes from.
    fn operand_taint(&mut self, args: &[&str]) -> Taint {
        let mut met = std::collections::HashSet::new();
        let files = args.iter().filter(|arg| !arg.starts_with('-') && met.insert(**arg));
        let files = Bounded::of(&TOUCHES, files).reported(&mut self.trace);
        files.into_iter().fold(Taint::NONE, |taint, file| taint | self.content_of(file).taint)
    }

    fn file_or_input(&mut self, file: Option<&str>, stdin: &Data) -> Data {
        match file {
            Some(file) if file != "-" => self.content_of(file),
            _ => stdin.clone(),
        }
    }

    fn transformed(&mut self, args: &[&str], stdin: &Data, change: impl Fn(&str) -> Option<String>) -> Data {
        let input = self.operand_data(args, stdin);
        decoded(&input, change)
    }

    fn base_coding(&mut self, program: &str, args: &[&str], stdin: &Data) -> Data {
        let options = Options::parse(args, Takes::values("wob", &["wrap"]));
        let flag = |name: &str| args.contains(&name);
        let decodes = match program {
            "openssl" => flag("-d") || flag("-D"),
            "b64decode" | "uudecode" => true,
            _ => options.has('d', "decode") || options.short('D'),
        };
        let input = match program {
            "openssl" => {
                let named =
                    args.iter().position(|arg| *arg == "-in").and_then(|at| args.get(at + 1)).copied();
                self.file_or_input(named, stdin)
            }
            _ => self.file_or_input(
                options.value(Some('i'), "input").or(options.operands.first().copied()),
                stdin,
            ),
        };
        let plain64 =
            matches!(program, "base64" | "gbase64" | "b64decode") || program == "openssl" && flag("base64");
        match (decodes, plain64) {
            (true, true) => decoded(&input, decode::base64),
            (true, false) => Data::unknown(input.taint | Taint::DECODED),
            (false, _) => match input.exact() {
                Some(text) if plain64 && program != "openssl" => {
                    Data::text(decode::to_base64(text) + "\n").tainted(input.taint)
                }
                _ => Data::unknown(input.taint.without(Taint::INPUT)),
            },
        }
    }
}

/// Returns what `tr` makes of its input.
fn translated(args: &[&str], stdin: &Data) -> Data {
    let options = Options::parse(args, Takes::NOTHING);
    let from = unglob(options.operands.first().copied().unwrap_or_default());
    let to = unglob(options.operands.get(1).copied().unwrap_or_default());
    let delete = options.has('d', "delete");
    decoded(stdin, |text| decode::tr(text, &from, &to, delete))
}

/// Returns the input changed by a decoder: known when the input is, else of decoded origin.
fn decoded(input: &Data, change: impl Fn(&str) -> Option<String>) -> Data {
    match input.exact().map(change) {
        Some(Some(text)) => Data::text(text).tainted(input.taint | Taint::DECODED),
        _ => Data::unknown(input.taint | Taint::DECODED),
    }
}

/// True for code on the command line that makes text out of nothing: what it prints is as hidden as what a
/// decoder prints.
fn computes(program: &str, args: &[&str]) -> bool {
    let base = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    match base {
        "perl" | "ruby" | "lua" | "node" => {
            args.contains(&"-e") && !args.iter().any(|arg| arg.starts_with("-n") || arg.starts_with("-p"))
        }
        "python" => args.contains(&"-c"),
        "php" => args.contains(&"-r"),
        "awk" | "gawk" | "mawk" => args.first().is_some_and(|code| code.trim_start().starts_with("BEGIN")),
        "dc" => args.first() == Some(&"-e"),
        "jq" => args.iter().any(|arg| {
            arg.starts_with('-') && !arg.starts_with("--") && arg.contains('n') || *arg == "--null-input"
        }),
        _ => false,
    }
}

/// Returns the texts in quotes in the statements that a client of a database is given, which it may print: one for each
/// line.
fn literals(args: &[&str]) -> String {
    let quoted = args.iter().flat_map(|statement| statement.split('\'').skip(1).step_by(2));
    quoted.filter(|text| text.contains(' ')).collect::<Vec<_>>().join("\n")
}

/// True for text that stands in the command itself. Whoever rewrites such text and runs the result could
/// have written the result.
fn is_written_here(data: &Data) -> bool {
    data.marked().is_some_and(|text| !text.trim().is_empty() && !has_hole(text))
}

/// Returns what PowerShell lists: the names in a folder, or the environment.
fn child_items(args: &[&str]) -> Data {
    let folder = args.iter().find(|arg| !arg.starts_with('-')).copied().unwrap_or(".");
    if folder.to_ascii_lowercase().starts_with("env:") {
        return Data::unknown(Taint::ENVIRONMENT);
    }
    Data::text(format!("{}/{STAR}\n", folder.trim_end_matches('/')))
}

/// Returns what `echo` prints.
fn echo(args: &[&str]) -> String {
    let mut newline = true;
    let mut interprets = false;
    let mut words = args;
    while let Some((flag, rest)) = words.split_first() {
        let Some(letters) =
            flag.strip_prefix('-').filter(|l| !l.is_empty() && l.chars().all(|c| "neE".contains(c)))
        else {
            break;
        };
        newline &= !letters.contains('n');
        interprets |= letters.contains('e');
        words = rest;
    }
    let joined = words.join(" ");
    let (mut text, stopped) = if interprets { decode::echo_escapes(&joined) } else { (joined, false) };
    if newline && !stopped {
        text.push('\n');
    }
    text
}

fn print(args: &[&str]) -> Data {
    match args {
        ["-v", ..] => Data::empty(),
        // Patterns stay what they are: what they match is printed.
        ["--", format, rest @ ..] | [format, rest @ ..] => Data::text(decode::printf(format, rest)),
        [] => Data::empty(),
    }
}

fn path_tool(program: &str, args: &[&str]) -> Data {
    let path = args.iter().find(|arg| !arg.starts_with('-'));
    let Some(path) = path.filter(|path| !has_hole(path)) else {
        // Most paths are no links, and keep their name.
        let followed = path.filter(|_| matches!(program, "realpath" | "readlink"));
        return followed.map_or_else(|| Data::unknown(Taint::NONE), |path| Data::text(path).or_anything());
    };
    let trimmed = path.trim_end_matches('/');
    match program {
        "basename" => Data::text(trimmed.rsplit('/').next().unwrap_or(trimmed)),
        "dirname" => Data::text(match trimmed.rsplit_once('/') {
            Some(("", _)) => "/",
            Some((dir, _)) => dir,
            None if path.starts_with('/') => "/",
            None => ".",
        }),
        _ => Data::text(path),
    }
}

/// Returns what programs print that list or name things: files, numbers, variables. `None` for all other programs.
fn listing(program: &str, args: &[&str], stdin: &Data) -> Option<Data> {
    match program {
        "yes" => {
            let words = if args.is_empty() { "y".to_owned() } else { args.join(" ") };
            Some(Data::text(words + "\n").tainted(Taint::ENDLESS))
        }
        "seq" if args.contains(&"inf") => Some(Data::unknown(Taint::ENDLESS)),
        "seq" => Some(Data::unknown(Taint::NONE)),
        "printenv" if args.iter().any(|arg| !arg.starts_with('-')) => {
            let taints = args.iter().map(|name| super::credentials::taint_of(name));
            Some(Data::unknown(taints.fold(Taint::NONE, |all, taint| all | taint)))
        }
        "ls" | "dir" | "vdir" => Some(listed(args)),
        "git" if lists_all_files(args) => Some(Data::text(format!("./{STAR}\n")).tainted(Taint::PROGRAM)),
        "cut" => cut_parts(args, stdin),
        "basename" | "dirname" | "realpath" | "readlink" => Some(path_tool(program, args)),
        // A folder of its own in the usual place has a name like any other, so that it is known where a shell is that enters it.
        "mktemp" if matches!(args, ["-d" | "--directory" | "-qd" | "-dq"]) => {
            Some(Data::text(format!("/tmp/tmp.{MADE}")))
        }
        "mktemp" => Some(Data::text(format!("/tmp/tmp.{HOLE}"))),
        "ps" if lists_all_processes(args) => Some(Data::text(format!("{STAR}\n")).tainted(Taint::PROGRAM)),
        // The numbers are not known, but whose they are is: the name stays readable for the rules.
        "pgrep" | "pidof" => Some(Data::text(format!("{HOLE}{}{HOLE}", args.join(" ")))),
        _ => None,
    }
}

/// Returns whether `ps` (procps 4.0) lists every process: it is told to, and not which ones.
fn lists_all_processes(args: &[&str]) -> bool {
    let letters = |arg: &str| !arg.starts_with("--") && arg.trim_start_matches('-').len() < 6;
    let all = args.iter().any(|arg| match arg.strip_prefix('-') {
        Some(rest) => letters(arg) && rest.contains(['e', 'A']),
        None => arg.contains('x') && letters(arg),
    });
    let chosen = args.iter().any(|arg| {
        matches!(*arg, "-C" | "-p" | "-u" | "-U" | "-g" | "-G" | "-t" | "-s" | "--ppid" | "--pid" | "--user")
            || arg.starts_with("--")
    });
    all && !chosen
}

/// Returns what a listing prints: the names in a folder, without it.
fn listed(args: &[&str]) -> Data {
    let flag = |letter: char| {
        args.iter().any(|arg| arg.starts_with('-') && !arg.starts_with("--") && arg.contains(letter))
    };
    if (flag('d') || args.contains(&"--directory")) && !flag('l') {
        // The operands themselves.
        let mut named: Vec<&str> = args.iter().copied().filter(|arg| !arg.starts_with('-')).collect();
        if named.is_empty() {
            named.push(".");
        }
        return Data::text(named.join("\n") + "\n").tainted(Taint::PROGRAM);
    }
    let all = args.iter().filter(|arg| !arg.starts_with('-')).count() < 2;
    let names = args
        .iter()
        .all(|arg| arg.starts_with("--") || !arg.starts_with('-') || !arg.contains(['l', 'd', 'R']));
    if all && names {
        Data::text(format!("{STAR}\n")).tainted(Taint::PROGRAM)
    } else {
        Data::unknown(Taint::PROGRAM)
    }
}

/// Returns whether git lists every file that it knows, or every one that it does not know: not those that it ignores.
fn lists_all_files(args: &[&str]) -> bool {
    let Some((&"ls-files", rest)) = args.split_first() else { return false };
    rest.iter().all(|arg| match arg.strip_prefix("--") {
        Some(option) => {
            matches!(option, "cached" | "full-name" | "others" | "modified" | "deleted" | "exclude-standard")
        }
        None => {
            *arg == "."
                || arg.strip_prefix('-').is_some_and(|letters| letters.chars().all(|c| "zcomd".contains(c)))
        }
    })
}

/// Returns what `getent passwd NAME` prints: an account, whose home is where homes are.
fn account(args: &[&str]) -> Data {
    match args {
        ["passwd", name] if !name.is_empty() => {
            let home = if *name == "root" { "/root".to_owned() } else { format!("/home/{name}") };
            Data::text(format!("{name}:x:{HOLE}:{HOLE}:{HOLE}:{home}:/bin/{HOLE}\n"))
        }
        _ => Data::unknown(Taint::PROGRAM),
    }
}

/// Parts of known lines: `cut -c1`, `cut -c 2-`, `cut -d, -f1,3-`.
fn cut_parts(args: &[&str], stdin: &Data) -> Option<Data> {
    let text = stdin.marked()?;
    let options =
        Options::parse(args, Takes::values("bcdf", &["bytes", "characters", "delimiter", "fields"]));
    let characters = options.value(Some('c'), "characters").or(options.value(Some('b'), "bytes"));
    let fields = options.value(Some('f'), "fields");
    // How many characters stand for what is not known nobody can say.
    if characters.is_some() && has_hole(text) {
        return None;
    }
    let ranges = characters.or(fields)?.split(',').map(range_of).collect::<Option<Vec<_>>>()?;
    let is_wanted = |nth: usize| ranges.iter().any(|(from, to)| (*from..=*to).contains(&nth));
    let delimiter =
        options.value(Some('d'), "delimiter").and_then(|text| text.chars().next()).unwrap_or('\t');
    let whole =
        options.operands.is_empty() && !options.long("complement") && !options.long("output-delimiter");
    let mut out = String::new();
    for line in text.lines() {
        if characters.is_some() {
            out.extend(line.chars().zip(1..).filter(|(_, nth)| is_wanted(*nth)).map(|(c, _)| c));
        } else if line.contains(delimiter) {
            let kept =
                line.split(delimiter).zip(1..).filter(|(_, nth)| is_wanted(*nth)).map(|(part, _)| part);
            out.push_str(&kept.collect::<Vec<_>>().join(delimiter.encode_utf8(&mut [0; 4])));
        } else {
            out.push_str(line);
        }
        out.push('\n');
    }
    // The first characters of a line are a part of it; other parts make another text.
    let is_head = characters.is_some() && matches!(ranges.as_slice(), [(1, _)]);
    let taint = if is_head { Taint::NONE } else { Taint::DECODED };
    whole.then(|| Data::text(out).tainted(stdin.taint | taint))
}

/// `3`, `2-`, `-4`, `1-3`
fn range_of(text: &str) -> Option<(usize, usize)> {
    let number = |text: &str, other| if text.is_empty() { Some(other) } else { text.parse().ok() };
    match text.split_once('-') {
        Some((from, to)) => Some((number(from, 1)?, number(to, usize::MAX)?)),
        None => text.parse().ok().map(|at| (at, at)),
    }
}

/// A part of data, which has an end and is not all that a pattern in it stands for.
fn a_part_of(data: Data) -> Data {
    let taint = data.taint.without(Taint::ENDLESS);
    match data.marked() {
        Some(text) if text.contains(STAR) => {
            Data::text(text.replace(STAR, HOLE.encode_utf8(&mut [0; 4]))).tainted(taint)
        }
        _ => data.only(taint),
    }
}

/// Returns whether there is a word among others of which nothing is known.
fn is_loose(words: &[&str]) -> bool {
    words.len() > 1 && words.iter().any(|word| !word.is_empty() && word.chars().all(|c| c == HOLE))
}
