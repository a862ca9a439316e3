//! Renaming: a word that means nothing can be another one, and the verdict stays.
//!
//! A word means nothing where no rule, no class of paths, no entry of a program or of a language and no text in the
//! code of the analysis has it, or the beginning of it: the names of hosts, branches, files, users, remotes, databases
//! and containers are of that kind. Names of devices are not, since they are known by a pattern, and letters that are
//! options without a dash. Each such word becomes another one everywhere in its command at once, since names of
//! variables, functions and files are used again.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use backstop_guards::Profile;

use super::{assert_none, guard_of, verdict, whole};

/// Where the knowledge of the guards stands.
const KNOWLEDGE: [&str; 6] =
    ["src", "../shell/src", "../shell/programs", "../shell/languages", "../scan/src", "../scan/catalogue"];

/// Words that could be the names of anything, none of which is known.
const OTHERS: [&str; 4] = ["zorvik", "belmat", "quundle", "iffrast"];

/// Words that shells and operating systems know, and no list of ours has: changing them changes the command. The last one
/// is a command of which `cut` takes away the beginning.
const OF_SHELLS: [&str; 5] = ["esac", "elif", "coproc", "select", "xxxrm"];

fn files_below(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())).flatten()
    {
        let path = entry.path();
        if path.is_dir() {
            files_below(&path, files);
        } else {
            files.push(path);
        }
    }
}

/// The words of a text, in small letters.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
}

/// Cases tell what is true of commands, not what is known.
fn without_cases(text: &str) -> String {
    let mut cases = false;
    let mut kept = String::new();
    for line in text.lines() {
        let key = line.trim_start().trim_start_matches("- ");
        if key.contains(": ") || key.ends_with(':') {
            cases = key.starts_with("match:") || key.starts_with("no_match:");
        }
        if !cases {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// The texts in quotes of Rust code; names and remarks are not known to a program.
fn texts(code: &str) -> String {
    let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split('"').skip(1).step_by(2)).collect::<Vec<_>>().join("\n")
}

fn known_words() -> HashSet<String> {
    let mut files = Vec::new();
    for folder in KNOWLEDGE {
        files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut files);
    }
    let mut known: HashSet<String> = OF_SHELLS.iter().map(|word| (*word).to_owned()).collect();
    for file in files {
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let is_yaml = file.extension().is_some_and(|extension| extension == "yaml");
        known.extend(words(&if is_yaml { without_cases(&text) } else { texts(&text) }));
    }
    known
}

/// Texts of which each character counts, so that no word of them is a name: codings, and parts of words.
fn is_encoded(command: &str) -> bool {
    const CODINGS: [&str; 17] = [
        "base64",
        "base32",
        "xxd",
        "rev",
        "tr ",
        "\\x",
        "\\u",
        "\\1",
        "\\0",
        "%2",
        "sed ",
        "openssl",
        "frombase64",
        "$'",
        "${",
        "\\\n",
        "[::",
    ];
    let command = command.to_ascii_lowercase();
    CODINGS.iter().any(|coding| command.contains(coding))
}

/// Whether a word may stand between these two as one of its own: quotes may be around it, and not glue it to another.
fn stands_alone(before: &str, behind: &str) -> bool {
    let glues =
        |next: Option<char>| next.is_some_and(|c| c.is_ascii_alphanumeric() || "-_\\^%$`@{}".contains(c));
    let is_quote = |c: char| c == '\'' || c == '"';
    let is_device = before.ends_with("dev/");
    let is_cluster = before.ends_with("tar ");
    !is_device
        && !is_cluster
        && !glues(before.trim_end_matches(is_quote).chars().next_back())
        && !glues(behind.trim_start_matches(is_quote).chars().next())
}

/// The words of a command that mean nothing: small letters, in no option and in no longer word.
fn meaningless(command: &str, known: &HashSet<String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in command.split(|c: char| !c.is_ascii_alphanumeric()) {
        let is_name = word.len() >= 3 && word.chars().all(|c| c.is_ascii_lowercase());
        let is_known = (3..=word.len()).any(|end| {
            let beginning = word.get(..end).unwrap_or_default();
            (end > 3 || end == word.len()) && known.contains(beginning)
        });
        let everywhere = command.match_indices(word).all(|(at, _)| {
            let (before, rest) = command.split_at(at);
            stands_alone(before, rest.get(word.len()..).unwrap_or_default())
        });
        if is_name && !is_known && everywhere && !found.iter().any(|known| known == word) {
            found.push(word.to_owned());
        }
    }
    found
}

/// Commands of every day besides, since a name must not make a harmless command a dangerous one either.
fn everyday() -> Vec<String> {
    let texts = [include_str!("../cases/everyday.jsonl"), include_str!("../cases/probes/commands.jsonl")];
    let lines = texts.iter().flat_map(|text| text.lines());
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .filter_map(|case: serde_json::Value| case.get("input")?.as_str().map(str::to_owned))
        .filter(|command| backstop_shell::is_whole(command))
        .collect()
}

#[test]
fn names_that_mean_nothing_change_no_verdict() {
    let known = known_words();
    for other in OTHERS {
        assert!(!known.contains(other), "`{other}` has to be a word that nobody knows");
    }
    let guards = [Profile::Core, Profile::Standard, Profile::Strict].map(guard_of);
    let mut wrong = Vec::new();
    let mut renamed = 0_usize;
    for command in whole().into_iter().chain(everyday()) {
        if is_encoded(&command) {
            continue;
        }
        for (at, word) in meaningless(&command, &known).iter().enumerate() {
            renamed += 1;
            let other = OTHERS.get((at + word.len()) % OTHERS.len()).copied().unwrap_or_default();
            let changed = command.replace(word.as_str(), other);
            for guard in &guards {
                let (before, after) = (verdict(guard, &command), verdict(guard, &changed));
                if before != after {
                    wrong.push(format!("`{word}` as `{other}`: {before:?}, now {after:?}: {changed}"));
                }
            }
        }
    }
    assert!(renamed > 200, "only {renamed} words were renamed");
    assert_none(&wrong);
}
