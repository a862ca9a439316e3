//! The program that runs behind a gateway.
//!
//! On a terminal it stays in Backstop's process group, so that it can read the keyboard and the terminal's signals
//! reach it directly. Elsewhere it leads a group of its own, which is ended as a whole. What the program leaves behind, in
//! whatever group or session, comes to Backstop and is ended with the run. It never outlives Backstop.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use backstop::clients::Client;
use backstop::process::{Lifeline, Target, adopt_orphans, end_descendants, reap_orphans};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};

use crate::error::Error;
use crate::exit::Exit;

/// How often ended orphans of the program are cleared away.
const REAPING: Duration = Duration::from_secs(5);
/// What shells answer for a program that does not exist, and for one that can't be run.
const NOT_FOUND: u8 = 127;
const NOT_RUNNABLE: u8 = 126;

/// The signals that are passed on.
struct Received {
    interrupt: Signals,
    quit: Signals,
    terminate: Signals,
    hang_up: Signals,
    user_1: Signals,
    user_2: Signals,
}

impl Received {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            user_1: signal(SignalKind::user_defined1())?,
            user_2: signal(SignalKind::user_defined2())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.quit.recv() => Signal::QUIT,
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.hang_up.recv() => Signal::HUP,
            _ = self.user_1.recv() => Signal::USR1,
            _ = self.user_2.recv() => Signal::USR2,
        }
    }
}

/// Runs a program to its end, and says how it ended. Variables that are `withheld` are empty there, so that what reads the configuration below
/// it still can. `folder` is cleared when this process is killed and can't do it.
/// A client is ended when `unheard` returns: it calls tools without its hooks.
pub(super) async fn run(
    command: &[OsString],
    variables: &[(&str, OsString)],
    withheld: &BTreeSet<String>,
    folder: &Path,
    unheard: Option<(Client, impl Future<Output = ()>)>,
) -> Result<Exit, Error> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Error::Usage("a program to run is missing".to_owned()));
    };
    // Nobody may be told to go before there is somebody to pass it on to.
    let mut received = Received::listen()?;
    let on_terminal = io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal();
    let mut builder = Command::new(program);
    builder.args(arguments).kill_on_drop(true);
    for name in withheld {
        builder.env(name, "");
    }
    for (name, value) in variables {
        builder.env(name, value);
    }
    if !on_terminal {
        builder.process_group(0);
    }
    let lifeline = Lifeline::with_folder(folder);
    lifeline.hold()?;
    // Where the system can't do it, orphans go where they always went.
    let _ = adopt_orphans();
    let mut child = match builder.spawn() {
        Ok(child) => child,
        Err(error) => {
            let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE };
            let program = program.to_string_lossy().into_owned();
            return Err(Error::Program { program, source: error, code });
        }
    };
    let process = pid(&child)?;
    let target = if on_terminal { Target::Process(process) } else { Target::Group(process) };
    lifeline.watch(target)?;
    let own: Vec<Pid> = std::iter::once(process).chain(lifeline.watcher()).collect();
    let mut reaping = tokio::time::interval(REAPING);
    let client = unheard.as_ref().map(|(client, _)| *client);
    let unheard = async {
        match unheard {
            Some((_, unheard)) => unheard.await,
            None => std::future::pending().await,
        }
    };
    let mut unheard = std::pin::pin!(unheard);
    let mut was_ended = false;
    let ended = loop {
        tokio::select! {
            ended = child.wait() => break ended,
            signal = received.next() => pass_on(signal, process, on_terminal),
            _ = reaping.tick() => reap_orphans(&own),
            () = &mut unheard, if !was_ended => {
                was_ended = true;
                pass_on(Signal::KILL, process, on_terminal);
            }
        }
    };
    if !on_terminal {
        // Whatever it left behind would have no model any more.
        let _ = kill_process_group(process, Signal::KILL);
    }
    lifeline.forget(target);
    drop(lifeline);
    end_descendants(&[]);
    match client {
        Some(client) if was_ended => Err(Error::Failed(format!(
            "{} called a tool and none of its hooks was heard of, so the run was ended\nhint: `backstop doctor {client}` says what may keep it from starting them",
            client.title()
        ))),
        _ => Ok(exit(ended?)),
    }
}

fn pid(child: &Child) -> Result<Pid, Error> {
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    id.ok_or_else(|| Error::Failed("the program has no process".to_owned()))
}

fn pass_on(signal: Signal, process: Pid, on_terminal: bool) {
    // A program that has just ended needs no signal any more.
    let _ = match signal {
        // The terminal sends these to everybody.
        Signal::INT | Signal::QUIT if on_terminal => Ok(()),
        signal if on_terminal => kill_process(process, signal),
        signal => kill_process_group(process, signal),
    };
}

fn exit(status: ExitStatus) -> Exit {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Exit::Program(u8::try_from(code).unwrap_or(u8::MAX))
}
