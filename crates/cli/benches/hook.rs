//! What a hook costs its client: the whole process, from start to end, as a client starts it.
//!
//! `cargo bench -p backstop-cli --bench hook -- [ROUNDS]` prints the median and the 95th percentile of `backstop hook claude`
//! with the built-in policy: alone, with the audit trail in a database of its own, and through a daemon; without a plugin, with three that
//! have a hook at the event, and with three that have none there. `true` is what starting any process takes.

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
/// The point of the event that is measured, and one that it does not come to.
const AT_THE_EVENT: &str = "before_tool_call";
const ELSEWHERE: &str = "session_end";
/// A plugin that reads the event and has no opinion.
const CODE: &str = r#"import { definePluginEntry } from "backstop/plugin-sdk";
export default definePluginEntry({ id: "ID", register(api) {
    api.on("POINT", (event) => { if (/^\s*sudo\b/.test(String(event.params?.command))) return { block: true, blockReason: "no" }; });
} });"#;

fn main() {
    // Test runners list and run everything that they find; only `cargo bench` says this.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(ROUNDS);
    let home = tempfile::tempdir().unwrap();
    report("/bin/true", &series(rounds, || start("/bin/true", &[], home.path())));
    for (what, point) in [
        ("no plugin", None),
        ("three plugins", Some(AT_THE_EVENT)),
        ("three that stand elsewhere", Some(ELSEWHERE)),
    ] {
        let home = tempfile::tempdir().unwrap();
        if let Some(point) = point {
            ["one", "two", "three"].iter().for_each(|id| install(home.path(), id, point));
        }
        measure(what, home.path(), rounds);
    }
}

/// A hook alone, and through a daemon.
fn measure(what: &str, home: &Path, rounds: usize) {
    let mut round = 0;
    let mut next = || {
        round += 1;
        hook(home, round)
    };
    report(&format!("{what}, alone"), &series(rounds, &mut next));
    let mut daemon = start(BACKSTOP, &["serve", "--port", "0"], home);
    let mut line = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
    report(&format!("{what}, through a daemon"), &series(rounds, &mut next));
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

fn hook(home: &Path, round: usize) -> Child {
    let folders = folders(home);
    let words: Vec<&str> = ["hook", "claude"].into_iter().chain(folders.iter().map(String::as_str)).collect();
    let mut child = start(BACKSTOP, &words, home);
    child.stdin.take().unwrap().write_all(event(home, round).as_bytes()).unwrap();
    child
}

/// Installs a plugin with one hook at a point, as a person would.
fn install(home: &Path, id: &str, point: &str) {
    let folder = home.join(id);
    std::fs::create_dir(&folder).unwrap();
    let manifest = format!(
        r#"{{"id": "{id}", "version": "1.0.0", "kind": "script", "entry": "a.js", "points": [{{"point": "{point}"}}]}}"#
    );
    std::fs::write(folder.join("backstop.plugin.json"), manifest).unwrap();
    let code = CODE.replace("ID", id).replace("POINT", point);
    std::fs::write(folder.join("a.js"), code).unwrap();
    let folder = folder.display().to_string();
    let told = done(home, &["plugins", "inspect", &folder, "--json"]);
    let (_, rest) = told.split_once("\"hash\"").unwrap();
    let hash = rest.split('"').nth(1).unwrap();
    done(home, &["plugins", "install", &folder, "--yes", "--trust", hash]);
}

/// What a command prints, once it has succeeded.
fn done(home: &Path, arguments: &[&str]) -> String {
    let ended = start(BACKSTOP, arguments, home).wait_with_output().unwrap();
    assert!(ended.status.success(), "{arguments:?}: {ended:?}");
    String::from_utf8(ended.stdout).unwrap()
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
    println!("{what:46} median {:5.2} ms   95 % {:5.2} ms   fastest {:5.2} ms", at(50), at(95), at(0));
}
