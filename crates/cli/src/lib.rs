//! The command line of Backstop.
//!
//! It parses, wires and prints; it has no rules of its own. `args` is the command line as it is written
//! (clap's types), lowered once into the settings of `commands`. Data goes to stdout, talk to stderr; exit
//! codes are in [`Exit`].

mod args;
mod commands;
mod confine;
mod consent;
mod daemon;
mod desk;
mod error;
mod exit;
mod log;
mod outlet;
mod output;
mod reference;
mod session;
mod system;

use std::panic::PanicHookInfo;
use std::process::ExitCode;

use backstop::process::{adopt_orphans, end_descendants};
use clap::error::ErrorKind;

pub use backstop::all_hosts;
pub use backstop::gateway::openapi;
pub use commands::cases::schema as case_schema;
pub use commands::clients::guide::page as clients_page;
pub use exit::Exit;
pub use reference::reference;

use crate::args::Cli;
use crate::commands::Action;
use crate::error::Error;
use crate::session::{Global, Surroundings};

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    std::panic::set_hook(Box::new(report_panic));
    log::listen();
    // A bug must look like a denial, not like whatever code the runtime picks for panics.
    std::panic::catch_unwind(run)
        .unwrap_or_else(|_| failed(Exit::Refused, "there is a bug in backstop"))
        .into()
}

/// Says that there is a bug and where. The panic's own message is left out: it may quote what was judged.
fn report_panic(info: &PanicHookInfo<'_>) {
    use std::io::Write as _;
    let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let _ = writeln!(
        std::io::stderr().lock(),
        "error: there is a bug in backstop at {place}\nhint: nothing was allowed because of it; please report it"
    );
}

fn run() -> Exit {
    // While this process has one thread.
    if let Some(exit) = confine::become_program().or_else(become_plugin) {
        return exit;
    }
    if let Some(exit) = commands::gateway::banner::print_line() {
        return exit;
    }
    let read = match args::of_client().map_or_else(Cli::read, |action| Ok(Ok(action))) {
        Ok(read) => read,
        Err(error) => {
            // Help and version are answers; everything else is a refusal. Whether anybody reads it is their affair.
            let answered = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            let _ = error.print();
            return if answered { Exit::Success } else { failed(Exit::Refused, "its command line is wrong") };
        }
    };
    match read.and_then(|(global, action)| perform(global, action)) {
        Ok(exit) => exit,
        Err(error) if error.is_broken_pipe() => Exit::Success,
        Err(error) => {
            match log::current().format {
                log::Format::Text => log::write(&error.report()),
                log::Format::Json => {
                    log::json("log", log::Level::Error, [("message", error.report().into())]);
                }
            }
            failed(error.exit(), "it can't start")
        }
    }
}

/// Is the process of a plugin, where this process was started to be one (`backstop plugin-host`, which is no command for people).
fn become_plugin() -> Option<Exit> {
    use std::io::Write as _;
    let Err(error) = backstop::plugins::apart::main()? else { return Some(Exit::Success) };
    let _ = writeln!(std::io::stderr().lock(), "error: {error}");
    Some(Exit::Failed)
}

/// The end of a command that did not get to its work. Whoever started `backstop hook` waits for an answer all
/// the same, and may take its absence for consent.
fn failed(exit: Exit, why: &str) -> Exit {
    if std::env::args_os().nth(1).is_some_and(|command| command == "hook") {
        return commands::hook::refuse_blindly(why);
    }
    exit
}

fn perform(global: Global, action: Action) -> Result<Exit, Error> {
    let surroundings = Surroundings::new(global)?;
    let runtime = runtime(&action).map_err(|error| Error::Failed(format!("no runtime: {error}")))?;
    // What judges and ends leaves nothing behind, also not what left its parent, its group and its mark.
    let adopts = action.ends_what_it_starts() && adopt_orphans().is_ok();
    let done = runtime.block_on(action.perform(&surroundings));
    // A thread that is stuck in a system call (reading the terminal) must not hold the end up.
    runtime.shutdown_background();
    if adopts {
        end_descendants(&[]);
    }
    done
}

/// Starting threads takes longer than judging a call, so only what runs agents and servers gets them.
fn runtime(action: &Action) -> std::io::Result<tokio::runtime::Runtime> {
    let mut builder = if action.is_long_running() {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    builder.enable_all().build()
}
