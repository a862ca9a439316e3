//! Programs that scripts start: those that were granted, and of those the file that was there when the script was loaded.
//!
//! The law: *look once*. Which file a name means is looked up when the plugin is loaded, by the [`Machine`](crate::set::Machine) and never
//! where the agent or the plugin writes; it is the same file at each start, or it is not started. A program gets the variables that were granted and no
//! others, and ends with all that it started: when it is done, when its time is up, when it writes too much, when the script does not wait
//! any more, when the plugin goes.
//!
//! Limits: a program may do what the account may do; a grant says so. It runs at most [`LONGEST`]. That a file is the same is told by its
//! place, number, size and times; what it loads itself is not looked at.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use backstop_process::{Bounded, Descriptors, Ending, Family, Program, Running, read_bounded};
use backstop_script::{HostError, ProgramOutput, ProgramRequest};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Notify;

use crate::external::MARKER;
use crate::package::Stamp;

/// How long a program may run.
const LONGEST: Duration = Duration::from_secs(120);
/// How long its tree is given to end when it is asked to.
const GRACE: Duration = Duration::from_secs(1);
/// How long to wait for the end of its output when it has ended.
const DRAIN: Duration = Duration::from_secs(1);
/// The bits of a file that say who may start it.
const STARTABLE: u32 = 0o111;
/// The bit that lets everybody write.
const EVERYBODY: u32 = 0o002;
/// The bit of a folder in which everybody may write, and remove only what is theirs.
const STICKY: u32 = 0o1000;

/// A program, as it was looked up.
#[derive(Clone, Debug)]
struct Pinned {
    /// What the grant calls it.
    path: PathBuf,
    /// Where links lead.
    real: PathBuf,
    stamp: Stamp,
}

/// The programs of one script.
#[derive(Debug)]
pub(super) struct Programs {
    pinned: Vec<Pinned>,
    family: Family,
}

/// Why a program was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Flooded,
    Late,
}

fn startable(path: &Path) -> Option<(PathBuf, Stamp)> {
    let real = path.canonicalize().ok()?;
    let about = real.metadata().ok()?;
    let stamp = Stamp::of(&about)?;
    (about.is_file() && about.mode() & STARTABLE != 0).then_some((real, stamp))
}

/// Whether anybody at all may put another file in its place.
fn is_everybodys(real: &Path) -> bool {
    let loose = |path: &Path| path.metadata().is_ok_and(|about| about.mode() & EVERYBODY != 0);
    let open = |folder: &Path| {
        folder.metadata().is_ok_and(|about| about.mode() & EVERYBODY != 0 && about.mode() & STICKY == 0)
    };
    loose(real) || real.ancestors().skip(1).any(open)
}

/// A granted program, if it can be started and lies where nobody writes who must not choose it. `written` are the folders in which the agent
/// and the plugin write.
///
/// # Errors
///
/// Why it can't be had, for people.
pub(crate) fn looked_up(file: PathBuf, written: &[PathBuf]) -> Result<PathBuf, String> {
    let (real, _) = startable(&file).ok_or("there is no such program")?;
    let mut written = written.iter().flat_map(|folder| [Some(folder.clone()), folder.canonicalize().ok()]);
    if written
        .any(|folder| folder.is_some_and(|folder| file.starts_with(&folder) || real.starts_with(folder)))
    {
        return Err(format!("`{}` lies where the agent or the plugin writes", file.display()));
    }
    if is_everybodys(&real) {
        return Err(format!("`{}` lies where everybody may write", file.display()));
    }
    Ok(file)
}

impl Programs {
    /// These programs, as they are now. One that is not there now never is.
    pub(super) fn new<'a>(granted: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let pinned = granted.into_iter().filter_map(|path| {
            let (real, stamp) = startable(path)?;
            Some(Pinned { path: path.clone(), real, stamp })
        });
        Self {
            pinned: pinned.collect(),
            family: Family::new(MARKER, uuid::Uuid::now_v7().simple().to_string()),
        }
    }

    /// Whether the file is the one that was looked up.
    fn check(&self, path: &Path) -> Result<(), HostError> {
        let name = path.display();
        let changed = || {
            let message = format!(
                "`{name}` is not the file that it was when the plugin was loaded\nhint: look at it, then `backstop plugins reload`"
            );
            HostError::new("EACCES", message)
        };
        let Some(pinned) = self.pinned.iter().find(|pinned| pinned.path == path) else {
            let message = format!("`{name}` was not there when the plugin was loaded");
            return Err(HostError::new("ENOENT", message));
        };
        let (real, stamp) = startable(path).ok_or_else(changed)?;
        if real != pinned.real || stamp != pinned.stamp {
            return Err(changed());
        }
        Ok(())
    }

    /// Runs a program to its end.
    pub(super) async fn run(&self, request: ProgramRequest) -> Result<ProgramOutput, HostError> {
        self.check(&request.program)?;
        let name = request.program.display().to_string();
        let timeout = request.timeout.unwrap_or(LONGEST).min(LONGEST);
        let most = request.most_output;
        let mut program = Program::new(&request.program);
        program.arguments = request.arguments.into_iter().map(OsString::from).collect();
        program.directory = request.directory;
        program.environment =
            request.environment.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        program.input = Stdio::piped();
        program.output = Stdio::piped();
        program.errors = Stdio::piped();
        program.descriptors = Descriptors::None;
        let running = self.family.start(program).map_err(|error| {
            let code = match error.kind() {
                std::io::ErrorKind::NotFound => "ENOENT",
                std::io::ErrorKind::PermissionDenied => "EACCES",
                _ => "EIO",
            };
            HostError::new(code, format!("`{name}` could not be started: {error}"))
        })?;
        let (ending, [stdout, stderr]) = talk(running, request.input, most, timeout).await;
        let signal = match ending.stopped {
            Some(_) => Some("SIGTERM".to_owned()),
            None => ending.status.and_then(|status| status.signal()).map(signal_name),
        };
        let code = ending.status.and_then(|status| status.code()).filter(|_| ending.stopped.is_none());
        Ok(ProgramOutput { code, signal, stdout: stdout.bytes, stderr: stderr.bytes })
    }
}

/// Gives a program its input and takes what it writes, until it has ended or was ended.
async fn talk(
    mut running: Running,
    input: Vec<u8>,
    most: usize,
    timeout: Duration,
) -> (Ending<Stop>, [Bounded; 2]) {
    let (flooded, ended) = (Notify::new(), Notify::new());
    let stdin = running.take_input();
    let write = async move {
        if let Some(mut stdin) = stdin {
            // A program need not read what it is given.
            let _ = stdin.write_all(&input).await;
        }
    };
    let (stdout, stderr) = (running.take_output(), running.take_errors());
    let mut read = [Bounded::default(), Bounded::default()];
    let [out, err] = &mut read;
    let flood = &flooded;
    let told = |read: &Bounded| {
        if read.is_cut {
            flood.notify_one();
        }
    };
    let output = async {
        if let Some(stdout) = stdout {
            *out = read_bounded(stdout, most).await.unwrap_or_default();
            told(out);
        }
    };
    let errors = async {
        if let Some(stderr) = stderr {
            *err = read_bounded(stderr, most).await.unwrap_or_default();
            told(err);
        }
    };
    let stop = async {
        tokio::select! {
            () = flooded.notified() => Stop::Flooded,
            () = tokio::time::sleep(timeout) => Stop::Late,
        }
    };
    let finish = async {
        let ending = running.finish(stop, GRACE).await;
        ended.notify_one();
        ending
    };
    let all = async {
        tokio::select! {
            _ = async { tokio::join!(write, output, errors) } => {}
            () = async { ended.notified().await; tokio::time::sleep(DRAIN).await } => {}
        }
    };
    let (ending, ()) = tokio::join!(finish, all);
    (ending, read)
}

/// A signal as Node calls it.
fn signal_name(number: i32) -> String {
    let name = match number {
        1 => "HUP",
        2 => "INT",
        3 => "QUIT",
        4 => "ILL",
        6 => "ABRT",
        8 => "FPE",
        9 => "KILL",
        11 => "SEGV",
        13 => "PIPE",
        14 => "ALRM",
        15 => "TERM",
        other => return format!("SIG{other}"),
    };
    format!("SIG{name}")
}
