//! Soundness against real shells: whatever a shell starts, the interpreter said it would.
//!
//! Random programs over a vocabulary of stubs run in `bash`, `dash` and `zsh`, in a folder from which nothing but the
//! stubs can be reached. Each stub writes down how it was called, and each of these calls must be one that the
//! interpreter foresaw, or be covered by something it says is unknown and may carry code.
//!
//! This program is three things: the harness (`run`, `show`), the stubs (when it is called by the name of one), and a
//! test for `cargo test` and `cargo nextest`.

#![expect(clippy::print_stdout, reason = "its output is for people at a terminal")]
#![expect(clippy::print_stderr, reason = "its output is for people at a terminal")]

mod builtins;
mod choices;
mod compare;
mod generator;
mod harness;
mod processes;
mod sandbox;
mod shrink;
mod stub;
mod words;

use std::process::{Command, ExitCode, Stdio};

use harness::{Plan, given, print, replay, run, show};

/// Programs for each shell in the test, and where their seeds begin.
const PROGRAMS: u64 = 340;
const SEED: u64 = 1;

const USAGE: &str = "usage: shells run [PROGRAMS [SEED]] | shells show SEED SHELL | shells print SEED SHELL | shells case SHELL <PROGRAM";

fn main() -> ExitCode {
    if let Some(code) = stub::act() {
        return code;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    if words.contains(&"--list") {
        // What nextest asks for before it runs anything.
        if !words.contains(&"--ignored") {
            TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        }
        return ExitCode::SUCCESS;
    }
    if !words.contains(&"--offline")
        && let Some(code) = without_network(&args)
    {
        return code;
    }
    let words: Vec<&str> = words.into_iter().filter(|word| *word != "--offline").collect();
    let number = |text: Option<&&str>, default| text.map_or(Ok(default), |text| text.parse::<u64>());
    let succeeded = match words.as_slice() {
        ["run", rest @ ..] => match (number(rest.first(), PROGRAMS), number(rest.get(1), SEED)) {
            (Ok(programs), Ok(seed)) => run(Plan { programs, seed }),
            _ => return usage(),
        },
        ["show", seed, shell] => match seed.parse() {
            Ok(seed) => show(seed, shell),
            Err(_) => return usage(),
        },
        ["print", seed, shell] => seed.parse().is_ok_and(|seed| print(seed, shell)),
        ["case", shell] => given(shell),
        ["help" | "--help"] => return usage(),
        _ => {
            let filters: Vec<&str> = words.iter().copied().filter(|word| !word.starts_with('-')).collect();
            let wanted =
                |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter));
            TESTS.iter().filter(|(name, _)| wanted(name)).all(|(_, test)| test())
        }
    };
    if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

/// A test and its name.
type Test = (&'static str, fn() -> bool);

const TESTS: [Test; 2] = [
    ("what_real_shells_start_was_foreseen", || run(Plan { programs: PROGRAMS, seed: SEED })),
    ("what_was_once_not_foreseen_is_now", replay),
];

/// Runs this program again where there is no network, if the system allows it.
fn without_network(args: &[String]) -> Option<ExitCode> {
    let executable = std::env::current_exe().ok()?;
    for flags in ["-n", "-rn"] {
        let probe = Command::new("unshare").args([flags, "true"]).stderr(Stdio::null()).status();
        if probe.is_ok_and(|status| status.success()) {
            let status =
                Command::new("unshare").arg(flags).arg(&executable).arg("--offline").args(args).status();
            return Some(if status.ok()?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
    }
    None
}
