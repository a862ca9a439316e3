//! Programs of the machine that get plugins: run in bounds, with an environment that is ours.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::PipeWriter;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use backstop_process::{Bounded, Family, Program, read_bounded};

use super::{FetchError, KEPT, MOST_DISK, MOST_TIME, Scratch};

/// Most bytes of what a program says that are read.
const MOST_OUTPUT: usize = 4 << 20;
/// Most characters of what a program complains of that people are shown.
const MOST_SAID: usize = 1_500;
/// How long a program that is to end may take for it.
const GRACE: Duration = Duration::from_secs(2);
/// How often it is looked how much is on the disk.
const LOOK: Duration = Duration::from_millis(500);

/// A program, and for whom it is run.
pub(super) struct Tool<'a> {
    family: Family,
    name: &'static str,
    scratch: &'a Scratch<'a>,
    variables: BTreeMap<OsString, OsString>,
}

impl<'a> Tool<'a> {
    pub(super) fn new(name: &'static str, scratch: &'a Scratch<'a>, own: &[(&str, &str)]) -> Self {
        let kept =
            KEPT.iter().filter_map(|key| Some((OsString::from(key), (scratch.environment)(key)?.into())));
        let mut variables: BTreeMap<OsString, OsString> = kept.collect();
        for key in ["HOME", "TMPDIR", "XDG_CONFIG_HOME"] {
            variables.insert(key.into(), scratch.work.into());
        }
        variables.insert("LC_ALL".into(), "C".into());
        variables.extend(own.iter().map(|(key, value)| (OsString::from(key), OsString::from(value))));
        let mark = uuid::Uuid::new_v4().simple().to_string();
        Self { family: Family::new("BACKSTOP_FETCH", mark), name, scratch, variables }
    }

    fn program(&self, arguments: &[OsString], directory: &Path) -> Program {
        Program {
            arguments: arguments.to_vec(),
            directory: directory.to_owned(),
            environment: self.variables.clone(),
            errors: Stdio::piped(),
            ..Program::new(self.name)
        }
    }

    /// Runs it to its end, and answers what it printed.
    pub(super) async fn run(
        &self,
        what: &'static str,
        arguments: &[OsString],
        directory: &Path,
    ) -> Result<String, FetchError> {
        let program = Program { output: Stdio::piped(), ..self.program(arguments, directory) };
        let printed = self.finish(what, program).await?;
        if printed.is_cut {
            return Err(FetchError::TooMuch { tool: self.name, what: "prints without end" });
        }
        Ok(String::from_utf8_lossy(&printed.bytes).into_owned())
    }

    /// Runs it to its end; what it prints goes into the pipe.
    pub(super) async fn pour(
        &self,
        what: &'static str,
        arguments: &[OsString],
        directory: &Path,
        pipe: PipeWriter,
    ) -> Result<(), FetchError> {
        let program = Program { output: pipe.into(), ..self.program(arguments, directory) };
        self.finish(what, program).await.map(drop)
    }

    async fn finish(&self, what: &'static str, program: Program) -> Result<Bounded, FetchError> {
        let tool = self.name;
        let mut running = self.family.start(program).map_err(|error| FetchError::NoTool { tool, error })?;
        let (output, errors) = (running.take_output(), running.take_errors());
        let output = async {
            match output {
                Some(output) => read_bounded(output, MOST_OUTPUT).await.unwrap_or_default(),
                None => Bounded::default(),
            }
        };
        let errors = async {
            match errors {
                Some(errors) => read_bounded(errors, MOST_OUTPUT).await.unwrap_or_default(),
                None => Bounded::default(),
            }
        };
        let (ending, printed, complaints) =
            tokio::join!(running.finish(self.too_much(), GRACE), output, errors);
        if let Some(what) = ending.stopped {
            return Err(FetchError::TooMuch { tool, what });
        }
        match ending.status {
            Some(status) if status.success() => Ok(printed),
            _ => Err(FetchError::Tool { tool, what, said: shown(&complaints.bytes) }),
        }
    }

    /// Ends when the program has taken all that it may.
    async fn too_much(&self) -> &'static str {
        let deadline = tokio::time::Instant::now() + MOST_TIME;
        while tokio::time::Instant::now() < deadline {
            tokio::time::sleep(LOOK).await;
            if size(self.scratch.work) > MOST_DISK {
                return "puts more on the disk than a plugin may have";
            }
        }
        "takes longer than ten minutes"
    }
}

/// How many bytes lie in a folder, about. What goes away meanwhile does not count.
fn size(folder: &Path) -> u64 {
    let mut folders = vec![folder.to_owned()];
    let mut total = 0_u64;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => folders.push(entry.path()),
                Ok(found) => total = total.saturating_add(found.len()),
                Err(_) => {}
            }
            if total > MOST_DISK {
                return total;
            }
        }
    }
    total
}

/// The end of what a program complained of, in one line: what is wrong stands there mostly. Addresses lose what may be credentials.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let plain: String = lines.join("; ").chars().filter(|c| !backstop_yaml::is_invisible(*c)).collect();
    match plain.chars().count() {
        0 => "it does not say why".to_owned(),
        length => plain.chars().skip(length.saturating_sub(MOST_SAID)).collect(),
    }
}
