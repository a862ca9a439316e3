//! How long a judgement takes: of common commands, over length and shape, and for the first time.

#![expect(clippy::print_stdout, reason = "a bench reports")]

use std::time::Instant;

use backstop_guards::{Access, CommandGuard, GuardSettings, PathGuard, Place, Profile, ShellKind};
use divan::Bencher;

fn main() {
    // Test runners list benches too, and read what they print.
    if std::env::args().any(|arg| arg == "--bench") {
        first_judgement();
    }
    divan::main();
}

/// Rules are parsed once in a process, when the first command is judged.
fn first_judgement() {
    let start = Instant::now();
    let guard = CommandGuard::new(GuardSettings::default());
    guard.judge("ls", ShellKind::Posix, &Place::unknown(), 0);
    println!("the first judgement of a process: {:?}", start.elapsed());
}

const COMMANDS: &[&str] = &[
    "ls -la",
    "cd crates/engine && cargo test --workspace --quiet 2>&1 | grep -E 'warning|error' | head -n 40 | sort",
    "for f in $(git ls-files '*.rs'); do sed -i 's/foo/bar/g' \"$f\"; done && git diff --stat | tail -1",
    "bash -c 'echo cm0gLXJmIC8= | base64 -d | sh'",
];

#[divan::bench(args = 0..COMMANDS.len())]
fn command(bencher: Bencher<'_, '_>, which: usize) {
    let guard = CommandGuard::new(GuardSettings::default());
    let place = Place::new("/work/project").with_home("/home/me");
    let command = COMMANDS.get(which).copied().unwrap_or_default();
    bencher.bench_local(|| guard.judge(divan::black_box(command), ShellKind::Posix, &place, 0));
}

#[divan::bench(args = [100, 1_000, 10_000, 60_000])]
fn length(bencher: Bencher<'_, '_>, bytes: usize) {
    let guard = CommandGuard::new(GuardSettings::default());
    let place = Place::new("/work/project");
    let command = "echo hello world; ".repeat(bytes / 18 + 1);
    bencher.bench_local(|| guard.judge(divan::black_box(&command), ShellKind::Posix, &place, 0));
}

/// Shapes that make parsers and interpreters slow, by name.
const SHAPES: &[&str] =
    &["substitutions", "parentheses", "braces", "quotes", "evals", "nuls", "heredocs", "pipes"];

fn shape(name: &str, bytes: usize) -> String {
    let of = |unit: &str| unit.repeat(bytes / unit.len() + 1);
    match name {
        "substitutions" => of("$("),
        "parentheses" => of("( "),
        "braces" => of("{a,b}"),
        "quotes" => of("'\"`"),
        "evals" => format!("x='eval \"$x\"'; {}", of("eval \"$x\"; ")),
        "nuls" => of("\0;"),
        "heredocs" => of("cat <<E\n"),
        _ => of("a|"),
    }
}

/// Bytes of the adversarial commands.
const SIZES: &[usize] = &[1_000, 10_000, 60_000, 1_000_000];

/// A shape at a size.
#[derive(Clone, Copy)]
struct Adversary {
    name: &'static str,
    bytes: usize,
}

impl std::fmt::Display for Adversary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, self.bytes)
    }
}

fn adversaries() -> impl Iterator<Item = Adversary> {
    SHAPES.iter().flat_map(|name| SIZES.iter().map(|bytes| Adversary { name, bytes: *bytes }))
}

#[divan::bench(args = adversaries(), sample_count = 5)]
fn adversarial(bencher: Bencher<'_, '_>, adversary: Adversary) {
    let command = shape(adversary.name, adversary.bytes);
    let guard = CommandGuard::new(GuardSettings::default());
    let place = Place::new("/work/project");
    bencher.bench_local(|| guard.judge(divan::black_box(&command), ShellKind::Posix, &place, 0));
}

/// A megabyte of something: its name, what stands before it, what is written again and again (`%` becomes a number), and
/// what stands behind it. The goal is 50 ms of processor time for each.
const MEGABYTES: &[(&str, &str, &str, &str)] = &[
    ("one word", "", "a", ""),
    ("a quoted text", "git log --grep '", "some text, and more. ", "'"),
    ("a path", "cat ", "a/", ""),
    ("equal statements", "", "ls -la; ", ""),
    ("other statements", "", "ls f%\n", ""),
    ("other programs", "", "tool% x\n", ""),
    ("writes", "", "echo x > n%\n", ""),
    ("values", "", "x%=1\n", ""),
    ("functions", "", "f%() { ls; }\n", ""),
    ("aliases", "", "alias a%=ls\n", ""),
    ("one value", "x=", "a", "; ls"),
    ("a function body", "f() {\n", "ls f%\n", "}\nf\n"),
    ("operands", "rm", " f%", ""),
    ("words of a loop", "for i in", " f%", "; do ls $i; done"),
    ("cases", "", "case a in b) ls f%;; esac; ", ""),
    ("parentheses", "", "(a); ", ""),
    ("open parentheses", "", "( ", ""),
    ("open substitutions", "", "$(", ""),
    ("substitutions", "", "$(a) ", ""),
    ("expansions", "", "${a%:-b} ", ""),
    ("sums", "", "$((1+1)) ", ""),
    ("braces", "", "{a,b}", ""),
    ("patterns", "ls ", "a*", ""),
    ("a document", "cat <<'E'\n", "some text, and more\n", "E\n"),
    ("a document for a shell", "sh <<'E'\n", "ls f%\n", "E\n"),
    ("evaluations", "", "eval ", ""),
    ("pipes", "", "a|", ""),
    ("and", "", "a && ", ""),
    ("comments", "", "# some words; and more\n", ""),
    ("code", "python3 -c '", "f%(\"a\")\n", "'"),
    ("awk", "awk '", "{ print $1 } ", "'"),
];

/// One of them, shown by its name.
#[derive(Clone, Copy)]
struct Megabyte((&'static str, &'static str, &'static str, &'static str));

impl std::fmt::Display for Megabyte {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.0)
    }
}

fn megabytes() -> impl Iterator<Item = Megabyte> {
    MEGABYTES.iter().copied().map(Megabyte)
}

#[divan::bench(args = megabytes(), sample_count = 5)]
fn megabyte(bencher: Bencher<'_, '_>, Megabyte((_, front, unit, back)): Megabyte) {
    let mut command = front.to_owned();
    for at in 0.. {
        if command.len() >= 1 << 20 {
            break;
        }
        command += &unit.replace('%', &at.to_string());
    }
    command += back;
    let guard = CommandGuard::new(GuardSettings::default());
    let place = Place::new("/work/project");
    bencher.bench_local(|| guard.judge(divan::black_box(&command), ShellKind::Posix, &place, 0));
}

#[divan::bench]
fn path(bencher: Bencher<'_, '_>) {
    let guard = PathGuard::new(Profile::Standard);
    let place = Place::new("/work/project").with_home("/home/me");
    bencher.bench_local(|| guard.judge(divan::black_box("src/../.env.local"), Access::Read, &place));
}
