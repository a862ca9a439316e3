//! A user of their own for each test: home, configuration and database in a temporary folder.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The binary under test.
pub(crate) const BACKSTOP: &str = env!("CARGO_BIN_EXE_backstop");

/// Starts a program in a session of its own.
const SETSID: &str = "/usr/bin/setsid";

/// The longest that anything here may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How a process ended and what it wrote.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    /// Everything in one text, for snapshots.
    pub(crate) fn whole(&self) -> String {
        let code = self.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        format!("exit: {code}\n--- stdout\n{}--- stderr\n{}", self.out, self.err)
    }

    #[track_caller]
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "{}", self.whole());
        self
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.whole()))
    }
}

impl Done {
    /// The objects on the lines of stdout.
    pub(crate) fn lines(&self) -> Vec<serde_json::Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A user with nothing but a home.
pub(crate) struct User {
    folder: TempDir,
}

impl User {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let user = Self { folder };
        std::fs::create_dir(user.work()).unwrap();
        user
    }

    /// A user whose operator's file says `text`.
    pub(crate) fn with_config(text: &str) -> Self {
        let user = Self::new();
        user.configure(text);
        user
    }

    pub(crate) fn configure(&self, text: &str) {
        let folder = self.path().join("config/backstop");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("backstop.yaml"), text).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The working directory.
    pub(crate) fn work(&self) -> PathBuf {
        self.path().join("work")
    }

    /// The options that name this user's folders to a hook.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let [operator, data] = ["config/backstop", "data/backstop"].map(|folder| self.path().join(folder));
        let named = [("--home", self.path().to_path_buf()), ("--operator", operator), ("--data", data)];
        named.into_iter().flat_map(|(option, folder)| [PathBuf::from(option), folder]).collect()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let for_people = [
            "approvals",
            "allow-once",
            "install",
            "uninstall",
            "pin",
            "rotate",
            "prune",
            "token",
            "plugins",
            "--no-hooks",
            "--hooks-only",
            "--no-sandbox",
        ];
        // A command of a plugin, which is its owner's.
        let is_command = args.contains(&"agent") && args.iter().any(|arg| arg.starts_with('/'));
        let is_for_people = is_command || args.iter().any(|arg| for_people.contains(arg));
        let mut command = if is_for_people { in_a_session(BACKSTOP) } else { Command::new(BACKSTOP) };
        command.args(args);
        if args.first() == Some(&"hook") && !args.contains(&"--home") {
            // A hook takes its folders from no variable.
            command.args(self.folders());
        }
        command
            .current_dir(self.work())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.path())
            .env("USER", "tester")
            .env("XDG_CONFIG_HOME", self.path().join("config"))
            .env("XDG_DATA_HOME", self.path().join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Done {
        done(self.command(args).spawn().unwrap())
    }

    /// The audit trail, the oldest entry first, without what it says by itself of the versions of the policy that entries name.
    pub(crate) fn trail(&self) -> Vec<serde_json::Value> {
        let is_told = |entry: &serde_json::Value| {
            entry["kind"] == "configuration.read" && entry["body"]["cause"].is_null()
        };
        let mut trail = self.whole_trail();
        trail.retain(|entry| !is_told(entry));
        trail
    }

    /// All of the audit trail, the oldest entry first.
    pub(crate) fn whole_trail(&self) -> Vec<serde_json::Value> {
        self.run(&["log", "--oldest-first", "--json"]).succeeded().lines()
    }

    /// Runs with `input` on stdin.
    pub(crate) fn feed(&self, args: &[&str], input: impl Into<Vec<u8>>) -> Done {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.into();
        let writer = std::thread::spawn(move || {
            let _ = stdin.write_all(&input);
        });
        let done = done(child);
        writer.join().unwrap();
        done
    }
}

/// The program in a session of its own: what people do is refused to whoever lost theirs, as tests may have that run in
/// the background.
pub(crate) fn in_a_session(program: &str) -> Command {
    if !Path::new(SETSID).exists() {
        return Command::new(program);
    }
    let mut command = Command::new(SETSID);
    command.arg(program);
    command
}

/// Waits for a process, at most [`PATIENCE`].
pub(crate) fn done(mut child: Child) -> Done {
    let out = drain(child.stdout.take());
    let err = drain(child.stderr.take());
    let end = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > end {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it did not end: {:?} {:?}", out.join(), err.join());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Done { code: status.code(), out: out.join().unwrap(), err: err.join().unwrap() }
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The code of the question that was asked last, as a person finds it.
#[track_caller]
pub(crate) fn last_code(user: &User) -> String {
    let list = user.run(&["approvals", "list", "--all", "--json"]).succeeded().json();
    list[0]["code"].as_str().unwrap().to_owned()
}

/// Waits until `look` finds something.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The scripted model as a process of its own.
pub(crate) struct ModelServer {
    child: Child,
    pub(crate) base_url: String,
}

impl ModelServer {
    pub(crate) fn start(user: &User, script: &str) -> Self {
        let path = user.path().join("script.json");
        std::fs::write(&path, script).unwrap();
        let mut child = user
            .command(&["model", "serve", "--script", path.to_str().unwrap()])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, base_url: line.trim().to_owned() }
    }

    /// The configuration of an agent that asks this model.
    pub(crate) fn config(&self, more: &str) -> String {
        format!(
            "agent: {{ provider: scripted, model: scripted-model }}\n\
             providers: {{ scripted: {{ api: anthropic, base_url: '{}' }} }}\n{more}",
            self.base_url
        )
    }

    /// Ends it by Ctrl-C, and gives its exit code and what it said.
    pub(crate) fn stop(mut self) -> Done {
        interrupt(&self.child);
        let err = drain(self.child.stderr.take());
        let status = self.child.wait().unwrap();
        Done { code: status.code(), out: String::new(), err: err.join().unwrap() }
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends SIGINT to that process alone.
pub(crate) fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

/// SIGHUP.
pub(crate) fn hang_up(child: &Child) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
}

/// What differs from run to run, replaced.
pub(crate) fn filters() -> Vec<(&'static str, &'static str)> {
    vec![
        (r"/[^\s`\x22]*/\.tmp[A-Za-z0-9]+", "[user]"),
        (r"\b\d+(\.\d+)? (µs|ms)\b", "[time]"),
        (r#""elapsedUs": \d+"#, r#""elapsedUs": 0"#),
        (r"\b[0-9a-f]{12}\b", "[digest]"),
        (r"s-[0-9a-f]{32}", "[session]"),
        (r"127\.0\.0\.1:\d{4,5}", "127.0.0.1:[port]"),
        (r"backstop \d+\.\d+\.\d+", "backstop [version]"),
    ]
}

/// A snapshot in which what differs from run to run is replaced.
macro_rules! snapshot {
    ($value:expr, @$expected:literal) => {
        insta::with_settings!({ filters => $crate::support::filters() }, {
            insta::assert_snapshot!($value, @$expected);
        });
    };
    ($value:expr) => {
        insta::with_settings!({ filters => $crate::support::filters() }, {
            insta::assert_snapshot!($value);
        });
    };
}
pub(crate) use snapshot;

/// Runs async code in a test that is not async.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}
