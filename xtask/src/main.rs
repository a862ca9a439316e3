//! What people repeat: `cargo xtask test`, `cargo xtask gen`, `cargo xtask eval`, `cargo xtask bench`,
//! `cargo xtask mutants`, `cargo xtask shells`, `cargo xtask live-clients`.
//!
//! `test` is everything that must pass before a change is merged, in one command: it puts in place what the
//! tests need, checks form, generated files, lints and documentation, and runs every test. There is no
//! second list of checks elsewhere; whatever else runs checks runs this.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its output is for people at a terminal")]

mod bench;
mod clients;
mod error;
mod eval;
mod generate;
mod hook_sdks;
mod mutants;
mod prometheus;
mod sdks;
mod setup;
mod shells;
mod soak;
mod step;
mod test;
mod workspace;

use std::process::ExitCode;

use error::Error;

const USAGE: &str = "\
usage: cargo xtask <command>

commands:
  test          everything that must pass: form, generated files, lints, docs, all tests
                (`ci` is another name for it)
  gen           writes the generated reference documentation
  gen --check   says whether it is up to date, and changes nothing
  sdks          installs the SDKs that the gateway is tried with, as `test` does, calls all of
                their methods, and counts what comes out behind the gateway
  hook-sdks     tests our own SDKs, in which hooks are written: on Python (the oldest and the
                default one), Node and Bun, with their types and the Python package
  eval [FILE]...
                scores the guards on their cases, writes that into docs/guards.md, and
                scores them on the labelled cases in these files too
  bench [NAME]  runs the benchmarks, or the one named so
  soak [MINUTES [PROGRAM]]
                mixed load on `backstop serve`, with clients that go away; fails if memory
                grows. 30 minutes, on a release build, unless said otherwise
  mutants [ARGUMENT]...
                changes the engine's code in one place at a time, runs its tests, and says
                how many changes they notice; the arguments are cargo-mutants' (`--shard 1/40`).
                Takes hours for all
  shells [PROGRAMS [SEED]]
                runs random programs in bash, dash and zsh, where they reach nothing but stubs,
                and fails if one starts what the analysis of commands did not foresee;
                `shells show SEED SHELL` shows one program
  live-clients [CLIENT]...
                installs the real coding agents from npm and drives them, or those named
  client-versions [--try] [CLIENT]...
                says which of them are behind; with --try, what the newest ones do
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ Error::Usage) => {
            eprintln!("{error}\n\n{USAGE}");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Result<(), Error> {
    match args {
        ["test" | "ci"] => test::run(),
        ["gen"] => generate::write(),
        ["gen", "--check"] => generate::check(),
        ["sdks"] => sdks::prepare().and_then(|()| sdks::count()),
        ["hook-sdks"] => hook_sdks::run(),
        ["eval", files @ ..] => eval::run(files),
        ["bench"] => bench::run(None),
        ["bench", name] => bench::run(Some(name)),
        ["soak"] => soak::run("30", None),
        ["soak", minutes] => soak::run(minutes, None),
        ["soak", minutes, program] => soak::run(minutes, Some(program)),
        ["mutants", args @ ..] => mutants::run(args),
        ["shells", args @ ..] => shells::run(args),
        ["live-clients", clients @ ..] => clients::live(clients),
        ["client-versions", "--try", clients @ ..] => clients::versions(true, clients),
        ["client-versions", clients @ ..] => clients::versions(false, clients),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(Error::Usage),
    }
}
