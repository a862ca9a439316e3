//! Programs of the machine that get plugins: run in bounds, with an environment that is ours.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, PipeWriter};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use backstop_process::{Bounded, Family, Program, read_bounded};

use super::{FetchError, KEPT, MOST_DISK, MOST_ENTRIES, MOST_MEMORY, MOST_TIME, Scratch};

/// Most bytes of what a program says that are read.
const MOST_OUTPUT: usize = 4 << 20;
/// Most characters of what a program complains of that people are shown.
const MOST_SAID: usize = 1_500;
/// How long a program that is to end may take for it.
const GRACE: Duration = Duration::from_secs(2);
/// How often it is looked how much is on the disk.
const LOOK: Duration = Duration::from_millis(500);
/// What a file, folder or link takes of the disk however little is in it.
const LEAST: u64 = 4 << 10;

/// What a program may put into its folder.
#[derive(Clone, Copy)]
struct Room {
    bytes: u64,
    entries: u64,
}

/// A program, and for whom it is run.
pub(super) struct Tool<'a> {
    family: Family,
    name: &'static str,
    scratch: &'a Scratch<'a>,
    variables: BTreeMap<OsString, OsString>,
    room: Room,
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
        let room = Room { bytes: MOST_DISK, entries: MOST_ENTRIES };
        Self { family: Family::new("BACKSTOP_FETCH", mark), name, scratch, variables, room }
    }

    fn program(&self, arguments: &[OsString], directory: &Path) -> Result<Program, FetchError> {
        let path = self.found().ok_or_else(|| FetchError::NoTool {
            tool: self.name,
            error: io::Error::new(io::ErrorKind::NotFound, "it is not in `PATH`"),
        })?;
        Ok(Program {
            arguments: arguments.to_vec(),
            directory: directory.to_owned(),
            environment: self.variables.clone(),
            errors: Stdio::piped(),
            memory: Some(MOST_MEMORY),
            ..Program::new(path)
        })
    }

    /// Where it is. Whoever bounds its memory starts it and can't tell that it is missing.
    fn found(&self) -> Option<PathBuf> {
        let path = self.variables.get(std::ffi::OsStr::new("PATH"))?;
        std::env::split_paths(path)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(self.name))
            .find(|program| program.metadata().is_ok_and(|found| found.is_file() && starts(&found)))
    }

    /// Runs it to its end, and answers what it printed.
    pub(super) async fn run(
        &self,
        what: &'static str,
        arguments: &[OsString],
        directory: &Path,
    ) -> Result<String, FetchError> {
        let program = Program { output: Stdio::piped(), ..self.program(arguments, directory)? };
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
        let program = Program { output: pipe.into(), ..self.program(arguments, directory)? };
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
            let (folder, room) = (self.scratch.work.to_owned(), self.room);
            // Where it can't be looked, it is not known that there is room.
            let looked = tokio::task::spawn_blocking(move || is_within(&folder, room)).await;
            if !looked.unwrap_or(false) {
                return "puts more on the disk than a plugin may have";
            }
        }
        "takes longer than ten minutes"
    }
}

/// Whether a folder has no more than this, about. What goes away meanwhile does not count.
fn is_within(folder: &Path, room: Room) -> bool {
    let mut folders = vec![folder.to_owned()];
    let (mut bytes, mut entries) = (0_u64, 0_u64);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            entries += 1;
            bytes = bytes.saturating_add(found.len().max(LEAST));
            if entries > room.entries || bytes > room.bytes {
                return false;
            }
            if found.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    true
}

#[cfg(unix)]
fn starts(found: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    found.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn starts(_: &std::fs::Metadata) -> bool {
    true
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

#[cfg(all(test, unix))]
#[expect(clippy::unwrap_used, reason = "helpers of tests may fail loudly")]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Runs a script in place of git, in a folder that may have this much.
    async fn ran(script: &str, room: Room) -> Result<String, String> {
        let outer = tempfile::tempdir().unwrap();
        let [plugin, work, programs] = ["plugin", "work", "bin"].map(|name| outer.path().join(name));
        for folder in [&plugin, &work, &programs] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(programs.join("git"), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(programs.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let environment = move |name: &str| (name == "PATH").then(|| path.clone());
        let scratch = Scratch { plugin: &plugin, work: &work, environment: &environment };
        let mut git = Tool::new("git", &scratch, &[]);
        git.room = room;
        git.run("do it", &[], &work).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn what_a_program_puts_on_the_disk_is_counted_by_bytes_and_by_files_and_folders() {
        let (few, much) = (Room { bytes: 1 << 30, entries: 20 }, Room { bytes: 64 << 10, entries: 1 << 20 });
        // It waits to be ended, so that it is seen however slow the machine is.
        for (script, room) in [
            ("for n in $(seq 30); do : > $n; done; exec sleep 600", few),
            ("for n in $(seq 30); do mkdir $n; done; exec sleep 600", few),
            ("for n in $(seq 30); do printf 1 > $n; done; exec sleep 600", much),
            ("head -c 100000 /dev/zero > a; exec sleep 600", much),
        ] {
            let error = ran(script, room).await.unwrap_err();
            assert!(error.contains("more on the disk"), "{script}: {error}");
        }
        assert!(ran("for n in $(seq 10); do : > $n; done", few).await.is_ok());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn memory_of_a_program_that_reads_what_strangers_send_is_bounded() {
        let room = Room { bytes: 1 << 30, entries: 20 };
        let most = ran("ulimit -Hd", room).await.unwrap();
        assert_eq!(most.trim().parse::<u64>().ok(), Some(MOST_MEMORY / 1024));
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_said_to_be_missing() {
        let outer = tempfile::tempdir().unwrap();
        let environment = |name: &str| (name == "PATH").then(|| outer.path().display().to_string());
        let scratch = Scratch { plugin: outer.path(), work: outer.path(), environment: &environment };
        let error = Tool::new("git", &scratch, &[]).run("x", &[], outer.path()).await.unwrap_err();
        assert!(matches!(error, FetchError::NoTool { tool: "git", .. }), "{error}");
    }
}
