//! The installation for all users of a machine, with the real clients, as a user of their own.
//!
//! The machine is this one with a view of the disk of its own: what is written to `/etc`, `/opt` and other places lies in
//! memory and is gone with the test. That takes root and mounts; elsewhere the tests say that they were skipped.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::client::{Client, NoBuild, Place};
use crate::model::{Call, Model};
use crate::run::{MARK, Outcome, World, packages};
use crate::scenarios::{ASKS, assert_refused, leave_mark, mark_asked_about, policy, try_out};

/// Whose client it is, who may answer for her, and who may not.
const ANN: &str = "backstop-test-ann";
const BOB: &str = "backstop-test-bob";
const APPROVERS: &str = "backstop-test-approvers";
const PROGRAM: &str = "/opt/backstop/bin/backstop";
/// Where the clients are seen there.
const CLIENTS: &str = "/opt/backstop-test-clients";
const PASSWORD: &str = "not-a-secret";

/// Makes the view. `$1` is an empty folder, `$2` where the clients are, `$3` the program.
const VIEW: &str = r#"
set -e
mount -t tmpfs tmpfs "$1"
for place in /etc /opt /var/lib /home; do
    name=$(echo "$place" | tr / _)
    mkdir -p "$place" "$1/$name/upper" "$1/$name/work"
    mount -t overlay overlay -o "lowerdir=$place,upperdir=$1/$name/upper,workdir=$1/$name/work" "$place"
done
# No service manager of the machine is to hear of this.
mount -t tmpfs -o mode=755 tmpfs /run
mkdir "$4"
mount --bind "$2" "$4"
mkdir -m 755 /opt/backstop-test
cp "$3" /opt/backstop-test/backstop
echo ready
read end
"#;

/// A machine on which Backstop is installed for all users.
struct Machine {
    /// Holds the view for as long as its standard input is open.
    view: Child,
    service: Option<Child>,
    _folder: tempfile::TempDir,
}

impl Machine {
    /// `None` where this process may not make one.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut view = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", VIEW, "view"])
            .args([
                folder.path(),
                &packages().canonicalize().unwrap(),
                Path::new(env!("CARGO_BIN_EXE_backstop")),
            ])
            .arg(CLIENTS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(view.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut machine = Self { view, service: None, _folder: folder };
        if line != "ready\n" {
            machine.view.wait().unwrap();
            return None;
        }
        machine.succeeds(&["/opt/backstop-test/backstop", "install", "--system"]);
        machine.succeeds(&["useradd", "--create-home", ANN]);
        Some(machine)
    }

    /// A file as it is seen there.
    fn at(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.view.id()))
    }

    /// A command that root starts there.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("setsid");
        command
            .args(["--wait", "nsenter", "--mount", "--target", &self.view.id().to_string(), "--"])
            .args(words);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null());
        command
    }

    fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    #[track_caller]
    fn succeeds(&self, words: &[&str]) -> String {
        let output = self.output(words);
        let said =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(output.status.success(), "{words:?}: {said}");
        said
    }

    /// Starts the service with this configuration.
    fn serve(&mut self, configuration: &str) {
        std::fs::write(self.at("/etc/backstop/backstop.yaml"), configuration).unwrap();
        self.stop();
        let mut command = self.command(&[PROGRAM, "--json", "daemon"]);
        let mut service = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(service.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("hooks"), "the service does not listen: {line}");
        self.service = Some(service);
    }

    /// Ends the service, as root would.
    fn stop(&mut self) {
        if let Some(mut service) = self.service.take() {
            // What runs is below the words that started it.
            let socket = self.at("/run/backstop/hooks.sock");
            std::fs::remove_file(socket).unwrap();
            end_tree(service.id());
            service.wait().unwrap();
        }
    }

    /// A run of the client as Ann, with nothing of ours in her home.
    fn run(&self, client: Client, world: &World, calls: &[Call], more: &[&str]) -> Result<Outcome, NoBuild> {
        let model = Model::start(calls, false);
        let started = Place { model: model.address(), ..world.place() }.started(client)?;
        // Managed hooks need nobody's trust.
        let words = std::iter::once(started.get_program()).chain(started.get_args());
        let words = words.filter(|word| *word != "--dangerously-bypass-hook-trust");
        let here = packages().display().to_string();
        let words = words.map(|word| word.to_str().unwrap().replace(&here, CLIENTS));
        let project = world.file("").display().to_string();
        let whole = world.path("").display().to_string();
        self.succeeds(&["chown", "-R", &format!("{ANN}:{ANN}"), &whole]);
        let mut command = self.command(&["setpriv", "--reuid", ANN, "--regid", ANN, "--init-groups"]);
        command.args(["sh", "-c", "cd \"$0\" && exec \"$@\"", &project]).args(words).args(more);
        command.envs(started.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let printed = world.wait(&mut command, |_| ());
        Ok(Outcome { heard: model.stop(), printed, code: world.code(), elsewhere: Vec::new() })
    }

    /// What `sudo` says to a user who asks for an answer to be given, with that password.
    fn sudo(&self, user: &str, password: &str, words: &[&str]) -> Output {
        let mut command = self.command(&["setpriv", "--reuid", user, "--regid", user, "--init-groups"]);
        command.args(["sudo", "--stdin", "--prompt=", "--user=backstop", PROGRAM]).args(words);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Who is not asked for a password does not read one.
        let _ = writeln!(child.stdin.take().unwrap(), "{password}");
        child.wait_with_output().unwrap()
    }
}

/// Ends a process and what it has started, the last first.
fn end_tree(process: u32) {
    let children =
        std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    children.split_whitespace().for_each(|child| end_tree(child.parse().unwrap()));
    let process = rustix::process::Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
    // It may be gone by now.
    let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(mut service) = self.service.take() {
            end_tree(service.id());
            let _ = service.wait();
        }
        drop(self.view.stdin.take());
        let _ = self.view.wait();
    }
}

/// The options by which a user would start the client without hooks of their own account.
fn against_hooks(client: Client) -> &'static [&'static [&'static str]] {
    match client {
        Client::Claude => &[&["--bare"], &["--safe-mode"], &["--settings", "{\"disableAllHooks\": true}"]],
        _ => &[&["--disable", "hooks"], &["-c", "features.hooks=false"]],
    }
}

const DENIED: &str = "is denied by `deny_tools` pattern `exec`";

/// What `/etc/backstop` denies does not run, whatever the user starts the client with, and nothing does without the service.
fn the_machine_decides(client: Client) -> Result<(), NoBuild> {
    let Some(mut machine) = Machine::new() else {
        println!("skipped {}: this needs root, and mounts of one's own", client.name());
        return Ok(());
    };
    let call = [leave_mark(client)];
    machine.serve("{}");
    machine.succeeds(&[PROGRAM, "doctor", "--system", client.name()]);
    let world = World::new(client, "{}");
    let outcome = machine.run(client, &world, &call, &[])?;
    assert!(world.ran(), "the tool did not run\n{outcome:?}");

    machine.serve(&policy("deny_tools: [exec]"));
    for more in [&[][..]].into_iter().chain(against_hooks(client).iter().copied()) {
        let world = World::new(client, "{}");
        let outcome = machine.run(client, &world, &call, more)?;
        assert_refused(client, &world, &outcome, DENIED);
    }
    machine.serve("{}");
    machine.stop();
    let world = World::new(client, "{}");
    let outcome = machine.run(client, &world, &call, &[])?;
    assert!(!world.ran(), "{MARK} is there without the service\n{outcome:?}");
    machine.succeeds(&[PROGRAM, "uninstall", "--system"]);
    assert!(!machine.at(PROGRAM).exists());
    Ok(())
}

/// A question is answered by root, and by members of a group by the word of `sudo`, which wants their password; by nobody else.
fn approvers_answer(client: Client) -> Result<(), NoBuild> {
    let Some(mut machine) = Machine::new() else {
        println!("skipped {}: this needs root, and mounts of one's own", client.name());
        return Ok(());
    };
    machine.succeeds(&["groupadd", APPROVERS]);
    machine.succeeds(&["useradd", "--create-home", "--groups", APPROVERS, BOB]);
    for user in [ANN, BOB] {
        machine.succeeds(&["sh", "-c", &format!("echo '{user}:{PASSWORD}' | chpasswd")]);
    }
    let rules =
        format!("Defaults!{PROGRAM} timestamp_timeout=0\n%{APPROVERS} ALL=(backstop) {PROGRAM} --of *\n");
    let file = machine.at("/etc/sudoers.d/backstop");
    std::fs::write(&file, rules).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o440)).unwrap();
    machine.succeeds(&["visudo", "--check"]);

    machine.serve(ASKS);
    let call = [mark_asked_about(client)];
    let world = World::new(client, "{}");
    let outcome = machine.run(client, &world, &call, &[])?;
    assert_refused(client, &world, &outcome, "a person can allow ");
    let list = machine.succeeds(&[PROGRAM, "--of", ANN, "approvals", "list", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let code = list.pointer("/0/code").and_then(serde_json::Value::as_str).unwrap().to_owned();
    assert!(!outcome.heard.everything().contains(&code), "the model read the code");

    let allow = ["--of", ANN, "allow-once", &code];
    for (user, password, why) in [(ANN, PASSWORD, "is no approver"), (BOB, "a guess", "says no password")] {
        let said = machine.sudo(user, password, &allow);
        assert!(!said.status.success(), "{user} {why}, and was let: {said:?}");
    }
    let said = machine.sudo(BOB, PASSWORD, &allow);
    assert!(said.status.success(), "{said:?}");
    let outcome = machine.run(client, &world, &call, &[])?;
    assert!(world.ran(), "what was allowed did not run\n{outcome:?}");
    Ok(())
}

mod claude {
    use super::{approvers_answer, the_machine_decides, try_out};

    #[test]
    fn the_system_scope_decides() {
        try_out("claude", the_machine_decides);
    }

    #[test]
    fn approvers_answer_by_the_word_of_sudo() {
        try_out("claude", approvers_answer);
    }
}

mod codex {
    use super::{the_machine_decides, try_out};

    #[test]
    fn the_system_scope_decides() {
        try_out("codex", the_machine_decides);
    }
}
