//! One client in a world of its own: a home, a project, a model, our hooks.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::client::{Client, NoBuild, Place};
use crate::model::{Call, Heard, Model};

/// The longest that a client takes. Most are done in some seconds; on a busy machine it is more.
const PATIENCE: Duration = Duration::from_secs(120);
/// Left behind by the tool, in the project.
pub(crate) const MARK: &str = "ran.txt";

/// A client with our hooks, and everything it can reach.
#[derive(Debug)]
pub(crate) struct World {
    client: Client,
    folder: TempDir,
}

/// What became of one run.
pub(crate) struct Outcome {
    /// What the model read.
    pub(crate) heard: Heard,
    /// What the client printed.
    pub(crate) printed: String,
}

/// For failed tests: what the model read, and what the client printed.
impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { heard, printed } = self;
        writeln!(f, "the model was asked {} times and read {:?}", heard.requests(), heard.results())?;
        write!(f, "--- printed\n{printed}")
    }
}

impl World {
    /// The folders, Backstop's configuration, and our hooks in the configuration of the client.
    pub(crate) fn new(client: Client, configuration: &str) -> Self {
        let world = Self { client, folder: tempfile::tempdir().unwrap() };
        for folder in ["home/.config/backstop", "project", "temp", "bin"] {
            std::fs::create_dir_all(world.path(folder)).unwrap();
        }
        std::fs::write(world.path("home/.config/backstop/backstop.yaml"), configuration).unwrap();
        // A copy, since tests of failures put something else in its place.
        std::fs::copy(env!("CARGO_BIN_EXE_backstop"), world.program()).unwrap();
        world
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// The Backstop that the hooks start.
    pub(crate) fn program(&self) -> PathBuf {
        self.path("bin/backstop")
    }

    /// A file of the project.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path("project").join(name)
    }

    /// Whether the tool left its mark.
    pub(crate) fn ran(&self) -> bool {
        self.file(MARK).exists()
    }

    /// Runs `backstop` as the user of this world would. It must succeed.
    pub(crate) fn backstop(&self, arguments: &[&str]) -> String {
        // As a person at a terminal: what people do is refused to whoever lost their session.
        let session = Path::new("/usr/bin/setsid");
        let mut command = Command::new(if session.exists() { session } else { Path::new("/usr/bin/env") });
        command.arg(self.program()).args(arguments).current_dir(self.path("project")).env_clear();
        command
            .env("HOME", self.path("home"))
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .stdin(Stdio::null());
        let output = command.output().unwrap();
        let printed =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(output.status.success(), "`backstop {}`:\n{printed}", arguments.join(" "));
        printed
    }

    /// Installs our hooks, then lets `meddle` change the program that they start, and runs one prompt, in which the
    /// model makes these calls.
    ///
    /// # Errors
    ///
    /// [`NoBuild`] when the client can't be had here.
    pub(crate) fn run(&self, calls: &[Call], meddle: impl FnOnce(&Path)) -> Result<Outcome, NoBuild> {
        self.run_watched(calls, meddle, |_| ())
    }

    /// Allows what was asked about last, by its code, as a human would.
    pub(crate) fn allow_last_question(&self) {
        let list = self.backstop(&["approvals", "list", "--all", "--json"]);
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        self.backstop(&["allow-once", list.pointer("/0/code").and_then(serde_json::Value::as_str).unwrap()]);
    }

    /// As [`run`](Self::run), with a human who allows what the model is told that a person may.
    ///
    /// # Errors
    ///
    /// [`NoBuild`] when the client can't be had here.
    pub(crate) fn run_with_human(&self, calls: &[Call]) -> Result<Outcome, NoBuild> {
        let mut allowed = false;
        let human = |model: &Model| {
            let said = model.heard().results().concat();
            if !allowed && said.contains("a person can allow ") {
                self.allow_last_question();
                allowed = true;
            }
        };
        self.run_watched(calls, |_| (), human)
    }

    fn run_watched(
        &self,
        calls: &[Call],
        meddle: impl FnOnce(&Path),
        mut watch: impl FnMut(&Model),
    ) -> Result<Outcome, NoBuild> {
        let model = Model::start(calls);
        let place = Place {
            home: self.path("home"),
            project: self.path("project"),
            package: packages().join(self.client.name()),
            model: model.address(),
            notes: self.notes(),
        };
        let mut command = self.client.command(&place, self.client.arguments())?;
        self.client.configure(&place);
        self.backstop(&["install", self.client.name(), "--user"]);
        meddle(&self.program());
        let printed = self.wait(command.stdin(Stdio::null()), || watch(&model));
        Ok(Outcome { heard: model.stop(), printed })
    }

    fn notes(&self) -> Vec<String> {
        let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/notes.mjs");
        let mark = self.file(MARK);
        vec!["node".to_owned(), server.display().to_string(), mark.display().to_string()]
    }

    /// Waits for the client and gives what it printed. Whatever it started ends with it.
    fn wait(&self, command: &mut Command, mut watch: impl FnMut()) -> String {
        let path = self.path("printed.txt");
        let file = std::fs::File::create(&path).unwrap();
        command.stdout(file.try_clone().unwrap()).stderr(file).process_group(0);
        let mut group = Group(command.spawn().unwrap());
        let began = Instant::now();
        let ended = loop {
            match group.0.try_wait().unwrap() {
                Some(_) => break true,
                None if began.elapsed() > PATIENCE => break false,
                None => std::thread::sleep(Duration::from_millis(100)),
            }
            watch();
        };
        drop(group);
        let printed = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        assert!(ended, "{} did not end:\n{printed}", self.client.name());
        printed
    }
}

/// A program and what it started, which ends when this goes.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        let group = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        // There is nobody left in most groups.
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
        let _ = self.0.wait();
    }
}

/// Where the clients are installed: the locked ones, unless others are tried.
fn packages() -> PathBuf {
    let locked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/clients");
    std::env::var_os("BACKSTOP_TEST_CLIENTS").map_or(locked, PathBuf::from)
}
