//! How long a judgement takes.

use backstop_guards::{Access, CommandGuard, GuardSettings, PathGuard, Place, Profile, ShellKind};
use divan::Bencher;

fn main() {
    divan::main();
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

#[divan::bench]
fn path(bencher: Bencher<'_, '_>) {
    let guard = PathGuard::new(Profile::Standard);
    let place = Place::new("/work/project").with_home("/home/me");
    bencher.bench_local(|| guard.judge(divan::black_box("src/../.env.local"), Access::Read, &place));
}
