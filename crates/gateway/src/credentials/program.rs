//! Programs of the operator's that print credentials.
//!
//! A program is started without a shell, with an environment that is written down, nothing on its standard input, and nobody who
//! reads its standard error: whatever it says there may be a part of a secret. When it has ended, what it left running ends with
//! it; when it is given up, so does it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use backstop_process::{Descriptors, Family, Program, read_bounded};
use jiff::Timestamp;
use tokio::sync::Notify;
use uuid::Uuid;

use super::files::Files;
use super::token::Token;
use super::{TokenCommand, Unobtained};

/// The variable by which what a program starts is known.
const MARKER: &str = "BACKSTOP_CREDENTIALS";
/// The most that a program may print, in bytes.
const MOST: usize = 64 << 10;
/// How long a program is given to end when it is asked to.
const GRACE: Duration = Duration::from_millis(500);

/// Starts programs of one provider.
#[derive(Debug)]
pub(crate) struct Programs {
    files: Files,
    family: Family,
}

impl Programs {
    pub(super) fn new(files: Files) -> Self {
        Self { files, family: Family::new(MARKER, Uuid::new_v4().simple().to_string()) }
    }

    /// The token that a program prints.
    pub(super) async fn token(&self, command: &TokenCommand) -> Result<Token, Unobtained> {
        let printed = self.run(command).await?;
        Token::read(&printed, Timestamp::now()).map_err(|said| problem(command, said))
    }

    /// What a program prints, when it has ended well.
    pub(super) async fn run(&self, command: &TokenCommand) -> Result<Vec<u8>, Unobtained> {
        let wrong = |what: &str| problem(command, what);
        let path = self.find(command).await?;
        let mut program = Program::new(path);
        program.arguments.clone_from(&command.arguments);
        program.environment.clone_from(&command.environment);
        program.output = Stdio::piped();
        program.descriptors = Descriptors::None;
        let started = self.family.start(program);
        let mut running = started.map_err(|error| problem(command, format!("can't be started: {error}")))?;
        let output = running.take_output().ok_or_else(|| wrong("has no standard output"))?;
        let flooded = Notify::new();
        let read = async {
            let read = read_bounded(output, MOST).await;
            if read.as_ref().is_ok_and(|read| read.is_cut) {
                flooded.notify_one();
            }
            read
        };
        let (ending, read) = tokio::join!(running.finish(flooded.notified(), GRACE), read);
        let read = read.map_err(|error| problem(command, format!("can't be read: {error}")))?;
        if read.is_cut {
            return Err(problem(command, format!("printed more than {MOST} bytes")));
        }
        match ending.status {
            Some(status) if status.success() => Ok(read.bytes),
            Some(status) => Err(problem(command, format!("failed: {status}"))),
            None => Err(wrong("ended in a way that is not known")),
        }
    }

    /// Where a program is, if nobody but the operator can have put it there.
    async fn find(&self, command: &TokenCommand) -> Result<PathBuf, Unobtained> {
        let name = Path::new(&command.program);
        if !name.is_absolute() && name.components().count() > 1 {
            return Err(problem(command, "has a relative path\nhint: name it by an absolute one"));
        }
        match self.files.program(command.program.clone()).await {
            Ok(found) => found.ok_or_else(|| problem(command, "is not there")),
            Err(why) => Err(problem(command, format!("is not started: {why}"))),
        }
    }
}

fn problem(command: &TokenCommand, problem: impl Into<String>) -> Unobtained {
    Unobtained::Program { program: command.program.to_string_lossy().into_owned(), problem: problem.into() }
}
