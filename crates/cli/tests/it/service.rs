//! The service of all users: a daemon of another user, hooks that are pipes to it, and who may do what.
//!
//! Run by root, as on a build machine, these start a service and hooks under users that exist everywhere. Run by anybody else
//! they show what is refused then.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::{BACKSTOP, Done, done, in_a_session, interrupt};

/// Users of every Unix: what the service runs as, and whose client asks.
const SERVICE: &str = "daemon";
const ANN: &str = "nobody";

/// A user's number and home, by the system's list.
fn account(name: &str) -> (u32, u32, PathBuf) {
    let list = std::fs::read_to_string("/etc/passwd").unwrap();
    let entry = list.lines().find(|line| line.starts_with(&format!("{name}:"))).unwrap();
    let fields: Vec<&str> = entry.split(':').collect();
    (fields[2].parse().unwrap(), fields[3].parse().unwrap(), fields[5].into())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A machine with a service: everything below one folder.
struct Machine {
    folder: TempDir,
    program: PathBuf,
}

impl Machine {
    /// Whose operator says `text`. The program is copied to where every user can start it.
    fn new(text: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("machine").tempdir_in("/tmp").unwrap();
        let open =
            |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        open(folder.path());
        let program = folder.path().join("backstop");
        std::fs::copy(BACKSTOP, &program).unwrap();
        open(&program);
        let machine = Self { folder, program };
        for name in ["etc/backstop", "run", "work"] {
            std::fs::create_dir_all(machine.at(name)).unwrap();
            open(&machine.at(name));
        }
        std::fs::write(machine.at("etc/backstop/backstop.yaml"), text).unwrap();
        machine
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn socket(&self) -> PathBuf {
        self.at("run/hooks.sock")
    }

    fn command(&self, args: &[&str]) -> Command {
        // Answering is refused to whoever lost their session, as tests may have.
        let mut command = in_a_session(self.program.to_str().unwrap());
        command
            .args(args)
            .current_dir(self.at("work"))
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn daemon(&self) -> Command {
        let mut command = self.command(&["--json", "daemon", "--user", SERVICE]);
        command.arg("--socket").arg(self.socket());
        command.arg("--operator").arg(self.at("etc/backstop")).arg("--data").arg(self.at("var/backstop"));
        command
    }

    /// A command of root's about what the service keeps for a user.
    fn about(&self, uid: u32, args: &[&str]) -> Done {
        let data = self.at("var/backstop/users").join(uid.to_string());
        let mut command = self.command(args);
        command.env("HOME", "/root").env("XDG_CONFIG_HOME", self.at("etc")).env("XDG_DATA_HOME", data);
        done(command.spawn().unwrap())
    }

    /// A hook of that user's client.
    fn hook(&self, user: &str, payload: &str) -> Done {
        let (uid, gid, _) = account(user);
        let socket = self.socket();
        let mut command = self.command(&["hook", "claude", "--service", socket.to_str().unwrap()]);
        command.stdin(Stdio::piped());
        if is_root() {
            command.uid(uid).gid(gid);
        }
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(payload.as_bytes()).unwrap();
        done(child)
    }

    fn call(&self, command: &str) -> String {
        use std::sync::atomic::{AtomicU64, Ordering};
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let id = format!("toolu_9876543210{:06}", CALLS.fetch_add(1, Ordering::Relaxed));
        json!({
            "hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": self.at("work"), "tool_name": "Bash",
            "tool_use_id": id, "tool_input": { "command": command },
        })
        .to_string()
    }
}

/// A service that runs.
struct Running(Option<Child>);

impl Running {
    fn start(machine: &Machine) -> Self {
        let mut child = machine.daemon().spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Ok(Value::Object(said)) = serde_json::from_str(&line) else {
            panic!("{line:?} {}", done(child).whole());
        };
        assert_eq!(said["hooks"], json!(machine.socket()));
        Self(Some(child))
    }

    fn stop(mut self) -> Done {
        let child = self.0.take().unwrap();
        interrupt(&child);
        done(child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[track_caller]
fn refused(done: &Done, why: &str) {
    assert_eq!(done.code, Some(2), "{}", done.whole());
    assert!(done.err.contains(why), "`{why}` is not in {}", done.whole());
    assert!(done.json().is_object(), "{}", done.whole());
}

#[track_caller]
fn passes(done: &Done) {
    assert_eq!((done.code, done.out.as_str()), (Some(0), ""), "{}", done.whole());
}

/// What nobody but root can arrange is refused to anybody else: a service of the hook's own user is none.
fn refuses_a_service_of_the_own_user(machine: &Machine) {
    let running = Running::start(machine);
    refused(&machine.hook(ANN, &machine.call("ls")), "is not the service");
    running.stop();
}

#[test]
fn without_a_service_every_call_is_refused() {
    let machine = Machine::new("{}\n");
    refused(&machine.hook(ANN, &machine.call("ls")), "does not listen");
}

#[test]
fn a_service_of_another_user_judges_for_the_user_that_the_system_names() {
    let machine = Machine::new(
        "hooks: {tool_call: {pre_call: [{type: policy, id: house, config: {deny_tools: [read]}}]}}\n",
    );
    if !is_root() {
        return refuses_a_service_of_the_own_user(&machine);
    }
    let running = Running::start(&machine);
    passes(&machine.hook(ANN, &machine.call("ls")));
    refused(&machine.hook(ANN, &machine.call("mkfs.ext4 /dev/mapper/none")), "SYSTEM_RAW_DEVICE");
    let data = machine.at("var/backstop");
    let (service, _, _) = account(SERVICE);
    let (ann, _, _) = account(ANN);
    let found = std::fs::metadata(&data).unwrap();
    assert_eq!((found.uid(), found.mode() & 0o777), (service, 0o700));
    let database = data.join("users").join(ann.to_string()).join("backstop/backstop.db");
    assert_eq!(std::fs::metadata(&database).unwrap().uid(), service, "the service's, and not the user's");
    assert_eq!(std::fs::metadata(machine.socket()).unwrap().mode() & 0o777, 0o666);
    let other = machine.hook("root", &machine.call("ls"));
    passes(&other);
    assert!(data.join("users/0/backstop/backstop.db").exists(), "each user has a database");
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.whole());
    let trail = machine.about(ann, &["audit", "verify"]);
    assert_eq!(trail.code, Some(0), "{}", trail.whole());
    refused(&machine.hook(ANN, &machine.call("ls")), "does not listen");
}

#[test]
fn a_users_file_and_a_workspaces_tighten_and_never_loosen() {
    let machine = Machine::new("guards: {command_safety: {profile: standard}}\n");
    if !is_root() {
        return refuses_a_service_of_the_own_user(&machine);
    }
    let running = Running::start(&machine);
    let file = machine.at("work/backstop.yaml");
    passes(&machine.hook(ANN, &machine.call("ls")));
    std::fs::write(&file, "guards: {command_safety: {enabled: false}}\n").unwrap();
    refused(&machine.hook(ANN, &machine.call("mkfs.ext4 /dev/mapper/none")), "SYSTEM_RAW_DEVICE");
    std::fs::write(
        &file,
        "hooks: {tool_call: {pre_call: [{type: policy, id: mine, config: {deny_tools: [exec]}}]}}\n",
    )
    .unwrap();
    refused(&machine.hook(ANN, &machine.call("ls")), "deny_tools");
    std::fs::write(&file, "guards: {no_such_guard: {}}\n").unwrap();
    refused(&machine.hook(ANN, &machine.call("ls")), "no_such_guard");
    running.stop();
}

/// What the service itself can't read it sees through the hook: a script's text, and where a link leads.
#[test]
fn the_service_sees_a_private_workspace_through_the_hook() {
    let machine = Machine::new("{}\n");
    if !is_root() {
        return refuses_a_service_of_the_own_user(&machine);
    }
    let running = Running::start(&machine);
    let (uid, gid, home) = account(ANN);
    let work = machine.at("work");
    std::fs::write(work.join("good.sh"), "ls -l\n").unwrap();
    std::fs::write(work.join("bad.sh"), "mkfs.ext4 /dev/mapper/none\n").unwrap();
    std::os::unix::fs::symlink(home.join(".ssh/id_ed25519"), work.join("k")).unwrap();
    std::os::unix::fs::chown(&work, Some(uid), Some(gid)).unwrap();
    std::fs::set_permissions(&work, std::fs::Permissions::from_mode(0o700)).unwrap();
    passes(&machine.hook(ANN, &machine.call("sh good.sh")));
    refused(&machine.hook(ANN, &machine.call("sh bad.sh")), "SYSTEM_RAW_DEVICE");
    refused(&machine.hook(ANN, &machine.call("cat k")), "");
    running.stop();
}

#[test]
fn only_root_and_the_service_answer_what_is_asked() {
    let machine = Machine::new("{}\n");
    if !is_root() {
        return refuses_a_service_of_the_own_user(&machine);
    }
    let running = Running::start(&machine);
    let (ann, gid, _) = account(ANN);
    let asked = r#"eval "$PLAN" || true; echo ran > ran.txt"#;
    let first = machine.hook(ANN, &machine.call(asked));
    refused(&first, "a person can allow");
    let list = machine.about(ann, &["approvals", "list", "--all", "--json"]).succeeded().json();
    let code = list[0]["code"].as_str().unwrap().to_owned();
    let data = machine.at("var/backstop/users").join(ann.to_string());
    let mut own = machine.command(&["allow-once", &code]);
    own.env("HOME", "/nonexistent").env("XDG_CONFIG_HOME", machine.at("etc")).env("XDG_DATA_HOME", data);
    let own = done(own.uid(ann).gid(gid).spawn().unwrap());
    assert_ne!(own.code, Some(0), "the user whose agent asks can't: {}", own.whole());
    refused(&machine.hook(ANN, &machine.call(asked)), "a person can allow");
    machine.about(ann, &["allow-once", &code]).succeeded();
    passes(&machine.hook(ANN, &machine.call(asked)));
    refused(&machine.hook(ANN, &machine.call(asked)), "a person can allow");
    running.stop();
}

#[test]
fn a_database_for_all_users_is_refused() {
    for named in ["path: all.db", "postgres: {url: 'postgres:///state?host=/run/postgresql&user=ann'}"] {
        let machine = Machine::new(&format!("store: {{{named}}}\n"));
        let ended = done(machine.daemon().spawn().unwrap());
        assert_eq!(ended.code, Some(2), "{}", ended.whole());
        if is_root() {
            assert!(ended.err.contains("`store` would be one database for all users"), "{}", ended.whole());
        }
    }
}

#[test]
fn root_is_no_user_for_the_service() {
    let machine = Machine::new("{}\n");
    let mut command = machine.daemon();
    command.args(["--user", "root"]);
    let ended = done(command.spawn().unwrap());
    assert_ne!(ended.code, Some(0), "twice is refused: {}", ended.whole());
    let mut command = machine.command(&["daemon", "--user", "root"]);
    command.arg("--socket").arg(machine.socket());
    command.arg("--operator").arg(machine.at("etc/backstop")).arg("--data").arg(machine.at("var/backstop"));
    if is_root() {
        let ended = done(command.spawn().unwrap());
        assert_eq!(ended.code, Some(2), "{}", ended.whole());
        assert!(ended.err.contains("does not run as root"), "{}", ended.whole());
    } else {
        refuses_a_service_of_the_own_user(&machine);
    }
}
