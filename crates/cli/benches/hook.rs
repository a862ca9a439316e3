//! What a hook costs its client: the whole process, from start to end, as a client starts it.
//!
//! `cargo bench -p backstop-cli --bench hook -- [ROUNDS]` prints the median and the 95th percentile of `backstop hook claude`
//! with the built-in policy: alone, with the audit trail in a database of its own, and through a daemon. `true` is what
//! starting any process takes.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench fails loudly, and prints"
)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const BACKSTOP: &str = env!("CARGO_BIN_EXE_backstop");
const ROUNDS: usize = 200;

fn main() {
    // Test runners list and run everything that they find; only `cargo bench` says this.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(ROUNDS);
    let home = tempfile::tempdir().unwrap();
    report("/bin/true", &series(rounds, || start("/bin/true", &[], home.path())));
    let hook = |round: usize| {
        let (home, folders) = (home.path(), folders(home.path()));
        let words: Vec<&str> =
            ["hook", "claude"].into_iter().chain(folders.iter().map(String::as_str)).collect();
        let mut child = start(BACKSTOP, &words, home);
        child.stdin.take().unwrap().write_all(event(home, round).as_bytes()).unwrap();
        child
    };
    let mut round = 0;
    let mut next = || {
        round += 1;
        hook(round)
    };
    report("hook, alone", &series(rounds, &mut next));
    let mut daemon = start(BACKSTOP, &["serve", "--port", "0"], home.path());
    let mut line = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
    report("hook, through a daemon", &series(rounds, &mut next));
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

/// The folders, as `install` writes them into the command.
fn folders(home: &Path) -> Vec<String> {
    let [operator, data] = [".config/backstop", ".local/share/backstop"].map(|folder| home.join(folder));
    let named = [("--home", home.to_path_buf()), ("--operator", operator), ("--data", data)];
    named.into_iter().flat_map(|(option, folder)| [option.to_owned(), folder.display().to_string()]).collect()
}

fn event(home: &Path, round: usize) -> String {
    format!(
        r#"{{"hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": {home:?}, "permission_mode": "default",
            "tool_name": "Bash", "tool_use_id": "toolu_0123456789{round:06}",
            "tool_input": {{"command": "git status && cargo test -p backstop"}}}}"#
    )
}

fn start(program: &str, arguments: &[&str], home: &Path) -> Child {
    Command::new(program)
        .args(arguments)
        .env_clear()
        .env("HOME", home)
        .env("PATH", "/usr/bin:/bin")
        .current_dir(home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// How long each of them took, the shortest first.
fn series(rounds: usize, mut start: impl FnMut() -> Child) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let began = Instant::now();
            let ended = start().wait_with_output().unwrap();
            let took = began.elapsed();
            assert!(ended.status.success() && ended.stdout.is_empty(), "{ended:?}");
            took
        })
        .collect();
    times.sort();
    times
}

fn report(what: &str, times: &[Duration]) {
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    println!("{what:24} median {:5.2} ms   95 % {:5.2} ms   fastest {:5.2} ms", at(50), at(95), at(0));
}
