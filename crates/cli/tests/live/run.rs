//! One client in a world of its own: a home, a project, a model, our hooks.

use std::cell::Cell;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::client::{Client, NoBuild, Place};
use crate::elsewhere::Elsewhere;
use crate::lure::Lure;
use crate::model::{Call, Heard, Model};

/// The longest that a client takes. Most are done in some seconds; on a busy machine it is more.
const PATIENCE: Duration = Duration::from_secs(120);
/// Left behind by the tool, in the project.
pub(crate) const MARK: &str = "ran.txt";

/// A client with our hooks, and everything it can reach.
#[derive(Debug)]
pub(crate) struct World {
    client: Client,
    /// The operator's.
    configuration: String,
    folder: TempDir,
    /// The calls that were judged when our hooks were installed, to try them.
    tried: Cell<usize>,
    /// How the client ended last.
    ended: Cell<Option<i32>>,
}

/// What became of one run.
pub(crate) struct Outcome {
    /// What the model read.
    pub(crate) heard: Heard,
    /// What the client printed.
    pub(crate) printed: String,
    /// The code with which it ended, or the run around it.
    pub(crate) code: Option<i32>,
    /// The requests that came to the server that is not its model's.
    pub(crate) elsewhere: Vec<String>,
}

/// For failed tests: what the model read, and what the client printed.
impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { heard, printed, code, .. } = self;
        writeln!(f, "the model was asked {} times and read {:?}", heard.requests(), heard.results())?;
        write!(f, "--- it ended with {code:?} and printed\n{printed}")
    }
}

impl World {
    /// The folders, Backstop's configuration, and our hooks in the configuration of the client.
    pub(crate) fn new(client: Client, configuration: &str) -> Self {
        let world = Self {
            client,
            configuration: configuration.to_owned(),
            folder: tempfile::tempdir().unwrap(),
            tried: Cell::default(),
            ended: Cell::default(),
        };
        for folder in ["home/.config/backstop", "project", "temp", "bin"] {
            std::fs::create_dir_all(world.path(folder)).unwrap();
        }
        std::fs::write(world.path("home/.config/backstop/backstop.yaml"), configuration).unwrap();
        // A copy, since tests of failures put something else in its place.
        std::fs::copy(env!("CARGO_BIN_EXE_backstop"), world.program()).unwrap();
        client.configure(&world.place());
        world
    }

    pub(crate) fn place(&self) -> Place {
        Place {
            home: self.path("home"),
            project: self.path("project"),
            package: packages().join(self.client.name()),
            model: String::new(),
            by_variable: false,
            notes: self.notes(),
        }
    }

    /// A file of the user's, or of the test's own.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
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

    /// Whether the tool left its mark, where the client was started.
    pub(crate) fn ran(&self) -> bool {
        self.file(MARK).exists() || self.file("sub").join(MARK).exists()
    }

    /// The code with which the client that was waited for last ended.
    pub(crate) fn code(&self) -> Option<i32> {
        self.ended.get()
    }

    /// Runs `backstop` as the user of this world would. It must succeed.
    pub(crate) fn backstop(&self, arguments: &[&str]) -> String {
        let (succeeded, printed) = self.tried(arguments, &[]);
        assert!(succeeded, "`backstop {}`:\n{printed}", arguments.join(" "));
        printed
    }

    /// Whether `doctor` is content with the client, where these variables are set, and what it says.
    pub(crate) fn doctor(&self, variables: &[(&str, &str)]) -> (bool, String) {
        self.tried(&["doctor", self.client.name()], variables)
    }

    /// How many tool calls were judged since the hooks were installed last, by the audit trail.
    pub(crate) fn judged(&self) -> usize {
        self.recorded() - self.tried.get()
    }

    fn recorded(&self) -> usize {
        let trail = self.backstop(&["log", "--oldest-first", "--json"]);
        let trail: Vec<serde_json::Value> =
            trail.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let is_call = |entry: &&serde_json::Value| {
            let is = |name: &str, text: &str| entry.pointer(name).is_some_and(|value| value == text);
            is("/kind", "receipt") && is("/body/point", "before_tool_call")
        };
        trail.iter().filter(is_call).count()
    }

    /// Runs `backstop` as the user would, and tells whether it succeeded, and what it printed.
    pub(crate) fn tried(&self, arguments: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
        // As a person at a terminal: what people do is refused to whoever lost their session.
        let session = Path::new("/usr/bin/setsid");
        let mut command = Command::new(if session.exists() { session } else { Path::new("/usr/bin/env") });
        command.arg(self.program()).args(arguments).current_dir(self.path("project")).env_clear();
        command
            .env("HOME", self.path("home"))
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .envs(variables.iter().copied())
            .stdin(Stdio::null());
        let output = command.output().unwrap();
        let printed =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (output.status.success(), printed)
    }

    /// Runs one prompt with our hooks installed, after `meddle` changed the program that they start; in it the model makes
    /// these calls.
    ///
    /// # Errors
    ///
    /// [`NoBuild`] when the client can't be had here.
    pub(crate) fn run(&self, calls: &[Call], meddle: impl FnOnce(&Path)) -> Result<Outcome, NoBuild> {
        self.install();
        meddle(&self.program());
        self.trial(calls).go()
    }

    /// Puts our hooks into the client's configuration, where they are not yet.
    pub(crate) fn install(&self) {
        self.backstop(&["install", self.client.name(), "--user"]);
        self.tried.set(self.recorded());
    }

    /// A run in which the model makes these calls, with whatever is installed.
    pub(crate) fn trial<'w>(&'w self, calls: &'w [Call]) -> Trial<'w> {
        Trial {
            world: self,
            calls,
            at_once: false,
            by_run: false,
            is_deaf: false,
            on_terminal: false,
            arguments: Vec::new(),
            variables: Vec::new(),
            watch: Box::new(|_, _| ()),
            lure: None,
            cloud: None,
        }
    }

    /// The code by which a human can allow what was asked about last.
    pub(crate) fn last_code(&self) -> String {
        let list = self.backstop(&["approvals", "list", "--all", "--json"]);
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        list.pointer("/0/code").and_then(serde_json::Value::as_str).unwrap().to_owned()
    }

    /// Allows what was asked about last, by its code, as a human would.
    pub(crate) fn allow_last_question(&self) {
        self.backstop(&["allow-once", &self.last_code()]);
    }

    /// Where a daemon of the user would listen, in a folder that only the user writes.
    pub(crate) fn socket(&self) -> PathBuf {
        let folder = self.path("home/.local/share/backstop/daemon");
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).unwrap();
        folder.join("hooks.sock")
    }

    /// As [`run`](Self::run), with a human who allows what the model is told that a person may.
    ///
    /// # Errors
    ///
    /// [`NoBuild`] when the client can't be had here.
    pub(crate) fn run_with_human(&self, calls: &[Call]) -> Result<Outcome, NoBuild> {
        let mut allowed = false;
        let human = move |model: &Model, _| {
            let said = model.heard().results().concat();
            if !allowed && said.contains("a person can allow ") {
                self.allow_last_question();
                allowed = true;
            }
        };
        self.install();
        self.trial(calls).watch(human).go()
    }

    fn notes(&self) -> Vec<String> {
        let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/notes.mjs");
        let mark = self.file(MARK);
        vec!["node".to_owned(), server.display().to_string(), mark.display().to_string()]
    }
}

/// Looks at a run while it goes on: at what the model heard, and the client's process.
type Watch<'w> = dyn FnMut(&Model, Pid) + 'w;

/// One run of a client, as it is to be started.
pub(crate) struct Trial<'w> {
    world: &'w World,
    calls: &'w [Call],
    at_once: bool,
    by_run: bool,
    is_deaf: bool,
    on_terminal: bool,
    arguments: Vec<&'w str>,
    variables: Vec<(&'w str, String)>,
    watch: Box<Watch<'w>>,
    pub(crate) lure: Option<Box<Lead<'w>>>,
    /// What the provider of a run says beside its address, in place of what the client speaks by itself.
    cloud: Option<&'w str>,
}

/// What leads a client to the server of this address.
pub(crate) type Lead<'w> = dyn FnOnce(&str) -> Lure + 'w;

impl<'w> Trial<'w> {
    /// Has the model make all calls in one answer.
    pub(crate) fn at_once(self) -> Self {
        Self { at_once: true, ..self }
    }

    /// Starts it on a terminal.
    pub(crate) fn on_terminal(self) -> Self {
        Self { on_terminal: true, ..self }
    }

    /// Starts it by `backstop run`.
    pub(crate) fn by_run(self) -> Self {
        Self { by_run: true, ..self }
    }

    /// Starts it by `backstop run`, whose proxy asks the model in a cloud.
    pub(crate) fn in_cloud(self, cloud: &'w str) -> Self {
        Self { by_run: true, cloud: Some(cloud), ..self }
    }

    /// Starts it by `backstop run`, and loses on the way what the run gives it to have hooks.
    pub(crate) fn by_deaf_run(self) -> Self {
        Self { by_run: true, is_deaf: true, ..self }
    }

    /// Gives the client another argument.
    pub(crate) fn argument(mut self, argument: &'w str) -> Self {
        self.arguments.push(argument);
        self
    }

    /// Sets a variable of the client's environment.
    pub(crate) fn variable(mut self, name: &'w str, value: impl Into<String>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// Is called ten times a second with the model and the client's process, which leads a group.
    pub(crate) fn watch(self, watch: impl FnMut(&Model, Pid) + 'w) -> Self {
        Self { watch: Box::new(watch), ..self }
    }

    /// Runs the client to its end.
    ///
    /// # Errors
    ///
    /// [`NoBuild`] when the client can't be had here.
    pub(crate) fn go(mut self) -> Result<Outcome, NoBuild> {
        let (world, client) = (self.world, self.world.client);
        let model = Model::start(self.calls, self.at_once);
        // What the client is configured for, and its way out of this machine. A run points it at its proxy, whose
        // configuration names the model.
        let (there, out) = (Elsewhere::start(), Elsewhere::start());
        let configured = if self.by_run { there.address() } else { model.address() };
        let place = Place { model: configured, by_variable: self.is_deaf, ..world.place() };
        let mut command = place.started(client)?;
        if self.by_run {
            command = world.behind_run(&command, &model.address(), self.is_deaf, self.cloud);
        }
        let is_lured = self.lure.is_some();
        if self.by_run || is_lured {
            command.envs(["HTTP_PROXY", "HTTPS_PROXY"].map(|name| (name, out.address())));
        }
        if is_lured && !self.by_run {
            // What it would be told of its model anyway says nothing about what leads elsewhere.
            client.addresses().iter().for_each(|name| {
                command.env_remove(name);
            });
        }
        let lure = self.lure.take().map(|lure| lure(&there.address())).unwrap_or_default();
        lure.lay(&place);
        command.args(&self.arguments).envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.args(&lure.arguments).envs(lure.variables.iter().map(|(name, value)| (name, value)));
        for name in &lure.unset {
            command.env_remove(name);
        }
        if !lure.folder.is_empty() {
            command.current_dir(place.project.join(lure.folder));
        }
        let is_shown = || is_lured && !self.by_run && !there.came().is_empty();
        let printed = match self.on_terminal {
            true => world.wait_on_terminal(&mut command),
            false => world.wait(command.stdin(Stdio::null()), |process| {
                (self.watch)(&model, process);
                if is_shown() {
                    // Nothing more is to be seen, and some try again for a minute. It may be gone.
                    let _ = kill_process_group(process, Signal::KILL);
                }
            }),
        };
        let (elsewhere, code) = (there.came(), world.code());
        let outcome = Outcome { heard: model.stop(), printed, code, elsewhere };
        if self.by_run {
            let past = &outcome.elsewhere;
            assert!(past.is_empty(), "{}: {past:?} went past the proxy: {outcome:?}", lure.what);
            let is_other = |line: &String| client.ways_out().iter().any(|way| line.starts_with(way));
            let (known, out): (Vec<_>, Vec<_>) = out.came().into_iter().partition(is_other);
            assert!(
                out.is_empty(),
                "{}: {out:?} left this machine, beside {known:?}: {outcome:?}",
                lure.what
            );
        }
        Ok(outcome)
    }
}

impl Place {
    /// The command that runs one prompt of the client, which is pointed at its model.
    pub(crate) fn started(&self, client: Client) -> Result<Command, NoBuild> {
        let command = client.command(self, client.arguments())?;
        client.point(self);
        Ok(command)
    }
}

impl World {
    /// A command that runs the client by `backstop run`, whose proxy asks the same model.
    fn behind_run(&self, client: &Command, model: &str, is_deaf: bool, cloud: Option<&str>) -> Command {
        let (before, given) = match (is_deaf, self.client) {
            (false, _) => ("", "\"$@\""),
            (true, Client::Qwen) => ("unset QWEN_CODE_SYSTEM_SETTINGS_PATH\n", "\"$@\""),
            (true, Client::OpenCode) => ("unset OPENCODE_CONFIG_CONTENT\n", "\"$@\""),
            (true, _) => ("", ""),
        };
        let api = match self.client {
            _ if cloud.is_some() => format!("{}, base_url: '{model}'", cloud.unwrap_or_default()),
            Client::Claude => format!("api: anthropic, base_url: '{model}'"),
            Client::Codex => format!("api: openai-responses, base_url: '{model}/v1'"),
            Client::Gemini => format!("api: gemini, base_url: '{model}'"),
            // It speaks the others, too, where it is told to.
            Client::Qwen => format!(
                "api: openai-chat, base_url: '{model}/v1' }}, messages: {{ api: anthropic, base_url: '{model}' }}, \
                 google: {{ api: gemini, base_url: '{model}'"
            ),
            _ => format!("api: openai-chat, base_url: '{model}/v1'"),
        };
        let configuration = self.configuration.replace("{}", "");
        // Codex asks the provider of this name with a login, and its only one without.
        let name = if self.client == Client::Codex { "chatgpt" } else { "scripted" };
        let configuration = format!("{configuration}\nproviders: {{ {name}: {{ {api} }} }}\n");
        std::fs::write(self.path("home/.config/backstop/backstop.yaml"), configuration).unwrap();
        // By its name, so that the client is known. What takes the hooks from Codex takes its model, too, and it has no
        // variable that says where that is. The run trusts its own hooks, and no others.
        let arguments = client.get_args().filter(|word| *word != "--dangerously-bypass-hook-trust");
        let words: Vec<_> = std::iter::once(client.get_program()).chain(arguments).collect();
        let words: Vec<_> = words.iter().map(|word| format!("'{}'", word.to_str().unwrap())).collect();
        let provider = match self.client {
            Client::Codex if is_deaf => " -c model_providers.scripted.base_url=\"\\\"$OPENAI_BASE_URL\\\"\"",
            _ => "",
        };
        let name = self.path("bin").join(self.client.name());
        script(&name, &format!("{before}exec {}{provider} {given}", words.join(" ")));
        let mut command = Command::new(self.program());
        command.arg("run").arg("--").arg(name).current_dir(self.path("project"));
        command.env_clear().envs(client.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }

    /// Waits for the client and gives what it printed. Whatever it started ends with it.
    pub(crate) fn wait(&self, command: &mut Command, mut watch: impl FnMut(Pid)) -> String {
        let path = self.path("printed.txt");
        let file = std::fs::File::create(&path).unwrap();
        command.stdout(file.try_clone().unwrap()).stderr(file).process_group(0);
        let printed = || String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        self.ended(command, &mut watch, printed);
        printed()
    }

    /// Waits for the client's end, which must come.
    fn ended(&self, command: &mut Command, mut watch: impl FnMut(Pid), printed: impl Fn() -> String) {
        let mut group = Group(command.spawn().unwrap());
        let process = Pid::from_child(&group.0);
        let began = Instant::now();
        let ended = loop {
            match group.0.try_wait().unwrap() {
                Some(status) => {
                    self.ended.set(status.code());
                    break true;
                }
                None if began.elapsed() > PATIENCE => break false,
                None => std::thread::sleep(Duration::from_millis(100)),
            }
            watch(process);
        };
        drop(group);
        assert!(ended, "{} did not end:\n{}", self.client.name(), printed());
    }
}

impl World {
    /// As [`wait`](Self::wait), with the client on a terminal.
    fn wait_on_terminal(&self, command: &mut Command) -> String {
        use std::io::Read as _;

        use rustix::fs::{Mode, OFlags};
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let open =
            || rustix::fs::open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        command.env("TERM", "xterm").stdin(open());
        let mut screen = std::fs::File::from(master);
        // Held until the client has ended, so that what it wrote last can still be read.
        let (held, written) = (open(), self.path("screen.txt"));
        let file = std::fs::File::create(&written).unwrap();
        let reading = std::thread::spawn(move || {
            let (mut file, mut buffer) = (file, [0; 4096]);
            while let Ok(length @ 1..) = screen.read(&mut buffer) {
                std::io::Write::write_all(&mut file, buffer.get(..length).unwrap()).unwrap();
            }
        });
        command.stdout(open()).stderr(open()).process_group(0);
        self.ended(command, |_| (), String::new);
        // What holds the terminal open, so that reading ends.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        drop(held);
        reading.join().unwrap();
        String::from_utf8_lossy(&std::fs::read(&written).unwrap()).into_owned()
    }
}

/// Writes a program for the shell.
pub(crate) fn script(path: &Path, text: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
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
pub(crate) fn packages() -> PathBuf {
    let locked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/clients");
    std::env::var_os("BACKSTOP_TEST_CLIENTS").map_or(locked, PathBuf::from)
}
