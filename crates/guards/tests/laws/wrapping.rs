//! Wrapping: a command that another program starts is judged at least as strictly as alone.
//!
//! The wrappers are those of the catalogue. Where an entry says that a call of its program starts `rm x`, every command
//! is put in the place of `rm x`, under every name of the program; so a new wrapper is under the law by having a case.

use serde_json::Value;

use super::generated::share;
use super::{Change, assert_none, guard, milder, quoted, stopped};

/// What the cases of the catalogue start.
const STARTED: &str = "rm x";

/// Commands that know no entry of their own, or are code, or stand for several programs.
const CODED: &[&str] = &[
    "gfind -exec rm x ';'",
    "bfs -exec rm x ';'",
    "fd -x bash -c 'rm x' {}",
    "fdfind -X bash -c 'rm x' {}",
    "docker compose exec a rm x",
    "docker exec -it a rm x",
    "k exec a -- rm x",
    "k3s kubectl exec a -- rm x",
    "crictl exec a rm x",
    "singularity exec image rm x",
    "apptainer exec image rm x",
    "hyperfine 'rm x'",
    "concurrently 'rm x'",
    "npx -c 'rm x'",
    "pnpm dlx rm x",
    "exec rm x",
    "command rm x",
    "builtin eval 'rm x'",
    "time rm x",
    "nohup nice -n 10 rm x",
    "sudo env A=b timeout 5 rm x",
    "env -u A bash -lc 'rm x'",
    "tmux new-session -d 'rm x'",
    "tmux send-keys 'rm x' Enter",
    "screen -dm bash -c 'rm x'",
    "git -c alias.around='!rm x' around",
    "git rebase -x 'rm x' HEAD~2",
    "git bisect run rm x",
    "git submodule foreach 'rm x'",
    "make SHELL=/bin/sh --eval 'around:;rm x' around",
    "tar cf a.tar --checkpoint=1 --checkpoint-action=exec='rm x' notes",
    "rsync -e 'rm x' notes h:",
    "vim -c '!rm x' notes",
    "awk 'BEGIN{system(\"rm x\")}'",
    "perl -e 'system(\"rm x\")'",
    "ssh -t me@h 'cd /srv && rm x'",
];

/// Wrappers that put their words together again before a shell reads them, so that one word has to be one for it, too.
const JOINING: [&str; 7] = ["ssh", "slogin", "rsh", "autossh", "watch", "gwatch", "parallel"];

/// How `rm x` stands in a call, and so what may take its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    /// As words of the call.
    Words,
    /// As one word that a shell reads.
    Text,
    /// As what `echo` prints.
    Printed,
    /// In a text in quotes, or in code: only what has no quotes of its own fits.
    Inside,
}

#[derive(Debug, Clone)]
struct Wrapper {
    call: String,
    stands: Stands,
}

impl Wrapper {
    /// The wrapper whose call starts [`STARTED`]; `None` where that does not stand in the call as it is.
    fn of(call: &str) -> Option<Self> {
        let (head, tail) = call.split_once(STARTED)?;
        let stands = match (head.chars().last(), tail.chars().next()) {
            (Some('\''), Some('\'')) if !head.ends_with("\"'") => Stands::Text,
            (Some(' '), Some(' ')) if head == "echo " => Stands::Printed,
            (Some(' '), None | Some(' ')) => Stands::Words,
            _ => Stands::Inside,
        };
        (!tail.contains(STARTED)).then(|| Self { call: call.to_owned(), stands })
    }

    /// The call with `command` in place of what it starts; `None` where it can't stand there.
    fn around(&self, command: &str) -> Option<String> {
        match self.stands {
            Stands::Text => Some(self.call.replacen(&format!("'{STARTED}'"), &quoted(command), 1)),
            Stands::Words => {
                let program = self.call.split(' ').next().unwrap_or_default();
                let inner = match () {
                    () if JOINING.contains(&program) => quoted(command),
                    () if is_words(command) => command.to_owned(),
                    () => format!("bash -c {}", quoted(command)),
                };
                Some(self.call.replacen(STARTED, &inner, 1))
            }
            Stands::Printed => Some(self.call.replacen(
                &format!("echo {STARTED}"),
                &format!("printf '%s\\n' {}", quoted(command)),
                1,
            )),
            Stands::Inside => {
                let fits =
                    !command.contains(['\'', '"', '\\', '\n', '$', '`', '%', '#', '{', '}', '@', '!', '~']);
                fits.then(|| self.call.replacen(STARTED, command, 1))
            }
        }
    }
}

/// Whether a command is one program with its words, which something else could start as well.
fn is_words(command: &str) -> bool {
    const BUILTINS: [&str; 23] = [
        "alias", "builtin", "cd", "command", "declare", "eval", "exec", "export", "history", "let", "local",
        "popd", "pushd", "read", "readonly", "set", "shopt", "source", "time", "trap", "typeset", "ulimit",
        "unset",
    ];
    let program = command.split(' ').next().unwrap_or_default();
    let is_program = program.starts_with(|c: char| c.is_ascii_lowercase() || c == '/')
        && program.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    is_program
        && !BUILTINS.contains(&program)
        && !command.contains([';', '|', '&', '<', '>', '(', ')', '`', '{', '}', '\n', '#', '$', '\\'])
}

/// Every wrapper that the catalogue tells of, and the entries that say they start programs without a case that shows it.
fn catalogue() -> (Vec<Wrapper>, Vec<String>) {
    let mut wrappers = Vec::new();
    let mut without = Vec::new();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shell/programs");
    let files = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("the catalogue: {error}"));
    for file in files.flatten() {
        let text =
            std::fs::read_to_string(file.path()).unwrap_or_else(|error| panic!("the catalogue: {error}"));
        let name = file.file_name().to_string_lossy().into_owned().into();
        let root = backstop_yaml::parse(&name, &text).unwrap_or_else(|problem| panic!("{problem}"));
        let entries =
            root.map(|root| root.read::<Vec<Value>>().unwrap_or_else(|problem| panic!("{problem}")));
        for entry in entries.into_iter().flatten() {
            let texts = |key: &str| -> Vec<String> {
                let list = entry.get(key).and_then(Value::as_array).into_iter().flatten();
                list.filter_map(Value::as_str).map(str::to_owned).collect()
            };
            let names = texts("names");
            let calls: Vec<String> = texts("match")
                .iter()
                .filter_map(|case| case.split_once(" => "))
                .filter(|(_, fact)| *fact == format!("starts {STARTED}"))
                .map(|(call, _)| call.to_owned())
                .collect();
            let first = names.first().cloned().unwrap_or_default();
            let own: Vec<Wrapper> = calls
                .iter()
                .flat_map(|call| {
                    let others = names.iter().filter(|_| call.starts_with(&format!("{first} ")));
                    let named = others.map(|name| call.replacen(&first, name, 1));
                    named.chain(std::iter::once(call.clone())).collect::<Vec<_>>()
                })
                .filter_map(|call| Wrapper::of(&call))
                .collect();
            if own.is_empty() && entry.get("starts").is_some() {
                without.push(names.join(", "));
            }
            wrappers.extend(own);
        }
    }
    wrappers.sort_by(|a, b| a.call.cmp(&b.call));
    wrappers.dedup_by(|a, b| a.call == b.call);
    (wrappers, without)
}

#[test]
fn every_wrapper_of_the_catalogue_is_under_the_law() {
    let (wrappers, without) = catalogue();
    assert!(without.is_empty(), "these need a case `... {STARTED} => starts {STARTED}`: {without:?}");
    for named in [
        "sudo", "env", "timeout", "nice", "bash", "xargs", "find", "ssh", "su", "docker", "kubectl",
        "parallel",
    ] {
        let begins = |wrapper: &Wrapper| wrapper.call.starts_with(&format!("{named} "));
        assert!(wrappers.iter().any(begins), "`{named}` wraps");
    }
    for call in CODED {
        assert!(Wrapper::of(call).is_some(), "{call}");
    }
}

/// Wrappers that put what they found in the place of `{}`.
const FINDING: [&str; 6] = ["find", "gfind", "bfs", "fd", "fdfind", "parallel"];

/// Wrappers whose command runs on another machine, where no relative path is one of this one.
const REMOTE: [&str; 6] = ["ssh", "slogin", "rsh", "autossh", "mosh", "kubectl"];

/// Whether a command names paths that lead from where it runs.
fn is_relative(command: &str) -> bool {
    const PATHS: [&str; 12] = [
        "../",
        "=./",
        " ./",
        " .git",
        "git clone",
        "git rev-parse",
        " *",
        " .;",
        " .\n",
        " . ",
        "cwd()",
        ".parent",
    ];
    command.ends_with(" .") || command.ends_with(" ..") || PATHS.iter().any(|path| command.contains(path))
}

/// Why a command is not the same any more inside of the wrapper, if it is not.
fn difference(wrapper: &str, command: &str) -> Option<&'static str> {
    let program = wrapper.split(' ').next().unwrap_or_default();
    if FINDING.contains(&program) && command.contains("{}") {
        return Some("the braces are replaced by what the outer search found");
    }
    if (REMOTE.contains(&program) || wrapper.contains("-execdir")) && is_relative(command) {
        return Some("what is in the working folder here is not in it there");
    }
    if wrapper.starts_with("env -S") && !is_words(command) {
        return Some("it splits words, and is no shell");
    }
    let names = wrapper.ends_with("{}") || wrapper.ends_with("; sh s") || program.starts_with("fd");
    if names && command.contains("$0") {
        return Some("it has another name");
    }
    if wrapper.ends_with("| cmd") && command.contains('\'') {
        return Some("single quotes are none to the command prompt");
    }
    let feeds = program.ends_with("xargs") || program == "parallel" || wrapper.starts_with("printf ");
    if feeds && command.contains("args ") {
        return Some("what xargs starts has no input to take words from");
    }
    None
}

#[test]
fn wrapping_never_makes_a_verdict_milder() {
    let (mut wrappers, _) = catalogue();
    wrappers.extend(CODED.iter().filter_map(|call| Wrapper::of(call)));
    let stopped = stopped(&guard());
    let changes = wrappers.iter().map(|wrapper| -> Change<'_> {
        let is_same = |command: &str| difference(&wrapper.call, command).is_none();
        (&wrapper.call, Box::new(move |command| is_same(command).then(|| wrapper.around(command)).flatten()))
    });
    assert_none(&milder(&stopped, share(16), changes));
}
