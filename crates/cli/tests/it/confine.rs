//! Confinement, by what a program can't do behind the walls of each tier. Every program here is a shell that tries to
//! write into files of the test.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use backstop::confine::{Group, why_not_joined};

use super::support::{BACKSTOP, Done, ModelServer, User, done, until};

/// The walls of a launcher, and a program behind them.
struct Walled<'a> {
    how: &'static str,
    read_only: &'a [&'a Path],
    hidden: &'a [&'a Path],
    writable: &'a [&'a Path],
}

impl Walled<'_> {
    fn run(&self, folder: &Path, script: &str) -> Done {
        let mut command = Command::new(BACKSTOP);
        self.command(&mut command, script).current_dir(folder);
        done(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// As somebody who has no right to make mounts of their own without a user namespace.
    fn run_without_rights(&self, folder: &Path, script: &str) -> Done {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", BACKSTOP]);
        self.command(&mut command, script).current_dir(folder);
        done(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn command<'c>(&self, command: &'c mut Command, script: &str) -> &'c mut Command {
        command.args(["confined", self.how]);
        for (option, paths) in
            [("--read-only", self.read_only), ("--hidden", self.hidden), ("--writable", self.writable)]
        {
            for path in paths {
                command.arg(option).arg(path);
            }
        }
        command.args(["--", "sh", "-c", script])
    }
}

const TIERS: [&str; 2] = ["--mount-walls", "--keep-files"];

/// A home with a protected file and a secret one, and a place to work in.
fn scene() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for folder in ["agent", "data", "work"] {
        std::fs::create_dir(home.path().join(folder)).unwrap();
    }
    std::fs::write(home.path().join("agent/settings"), "guarded").unwrap();
    std::fs::write(home.path().join("agent/state"), "old").unwrap();
    std::fs::write(home.path().join("data/rows"), "hush").unwrap();
    home
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Ways to put something else where a protected file is. Each ends with the name of the file's content, if it could.
const WAYS: [&str; 12] = [
    "echo evil > ../agent/settings",
    "echo evil >> ../agent/settings",
    "rm -f ../agent/settings; echo evil > ../agent/settings",
    "echo evil > ../agent/x; mv ../agent/x ../agent/settings",
    "mv ../agent ../gone; mkdir ../agent; echo evil > ../agent/settings",
    "mv ../agent/settings ../agent/gone; echo evil > ../agent/settings",
    "cd ..; mv work/../agent elsewhere; mkdir -p agent; echo evil > agent/settings",
    "ln ../agent/settings k; echo evil > k",
    "ln -s ../agent/settings l; echo evil > l",
    "cd ../agent; echo evil > settings",
    "echo evil > /proc/self/cwd/../agent/settings",
    "unshare --user --map-root-user --mount sh -c 'umount ../agent/settings; echo evil > ../agent/settings'",
];

#[test]
fn a_protected_file_stays_what_it_is_whatever_is_tried() {
    for how in TIERS {
        for way in WAYS {
            let home = scene();
            let settings = home.path().join("agent/settings");
            let walled = Walled { how, read_only: &[&settings], hidden: &[], writable: &[] };
            for done in [
                walled.run(&home.path().join("work"), way),
                walled.run_without_rights(&home.path().join("work"), way),
            ] {
                assert_eq!(read(&settings), "guarded", "{how}: {way}: {}", done.whole());
            }
        }
    }
}

#[test]
fn what_is_hidden_can_not_be_read_nor_replaced() {
    for how in TIERS {
        let home = scene();
        let data = home.path().join("data");
        let rows = data.join("rows");
        for hidden in [&data, &rows] {
            let walled = Walled { how, read_only: &[], hidden: &[hidden], writable: &[] };
            let tried = "cat ../data/rows; cat /proc/self/cwd/../data/rows; echo evil > ../data/rows; \
                         mv ../data ../gone && mkdir ../data && echo evil > ../data/rows; cp ../data/rows taken; cat taken";
            let done = walled.run(&home.path().join("work"), tried);
            assert!(!done.out.contains("hush"), "{how}: {}", done.whole());
            assert_eq!(read(&rows), "hush", "{how}: {}", done.whole());
        }
    }
}

/// The way to keep services that run things on request from a tree. Landlock has no say in connecting before its version 9.
#[test]
fn a_hidden_socket_can_not_be_connected_to_behind_mounts() {
    let home = scene();
    let socket = home.path().join("data/bus");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let connect = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"../data/bus\"); print(\"connected\")'";
    let data = home.path().join("data");
    for hidden in [&socket, &data] {
        let walled = Walled { how: "--mount-walls", read_only: &[], hidden: &[hidden], writable: &[] };
        let done = walled.run(&home.path().join("work"), connect);
        assert!(!done.out.contains("connected"), "{}", done.whole());
    }
    let other = home.path().join("data/rows");
    let walled = Walled { how: "--mount-walls", read_only: &[&socket], hidden: &[&other], writable: &[] };
    let done = walled.run(&home.path().join("work"), connect);
    assert!(done.out.contains("connected"), "what is not hidden is open: {}", done.whole());
    drop(listener);
}

#[test]
fn what_is_not_protected_can_be_used_as_ever() {
    for how in TIERS {
        let home = scene();
        let settings = home.path().join("agent/settings");
        let walled =
            Walled { how, read_only: &[&settings], hidden: &[&home.path().join("data")], writable: &[] };
        let usual = "cat ../agent/settings && echo new > ../agent/state && mkdir d && echo a > d/f && mv d/f g && \
                     echo x > /dev/null && ls .. > /dev/null && sleep 0 & wait; exit 7";
        let done = walled.run(&home.path().join("work"), usual);
        assert_eq!(done.code, Some(7), "{how}: {}", done.whole());
        assert!(done.out.contains("guarded"), "{how}: {}", done.whole());
        assert_eq!(read(&home.path().join("agent/state")), "new\n", "{how}");
        assert_eq!(read(&home.path().join("work/g")), "a\n", "{how}");
    }
    // In a folder that holds a protected file, new names can be made where mounts protect it.
    let home = scene();
    let settings = home.path().join("agent/settings");
    let walled = Walled { how: "--mount-walls", read_only: &[&settings], hidden: &[], writable: &[] };
    walled
        .run(&home.path().join("work"), "echo b > ../agent/new && mv ../agent/new ../agent/state")
        .succeeded();
    assert_eq!(read(&home.path().join("agent/state")), "b\n");
}

#[test]
fn where_only_some_places_can_be_changed_no_other_can() {
    for how in TIERS {
        let home = scene();
        let (work, settings) = (home.path().join("work"), home.path().join("work/settings"));
        std::fs::write(&settings, "guarded").unwrap();
        let walled = Walled { how, read_only: &[&settings], hidden: &[], writable: &[&work] };
        let tried = "echo a > a; echo evil > settings; echo evil > ../agent/state; echo evil > ../new; echo x > /dev/null && echo null";
        let done = walled.run(&work, tried);
        assert!(done.out.contains("null"), "{how}: {}", done.whole());
        assert_eq!(read(&settings), "guarded", "{how}");
        assert_eq!(read(&home.path().join("agent/state")), "old", "{how}");
        assert!(!home.path().join("new").exists(), "{how}");
        if how == "--mount-walls" {
            assert_eq!(read(&work.join("a")), "a\n", "{}", done.whole());
        }
    }
}

/// What is on a disk is read from its device, too, a line in `/proc/sys` starts a program outside, and whoever becomes
/// another user sees through that user's processes.
#[test]
fn root_reaches_nothing_behind_mounts_that_is_no_file() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let home = scene();
    let work = home.path().join("work");
    // A node for what is harmless, which is a device all the same.
    assert!(Command::new("mknod").arg(work.join("node")).args(["c", "1", "3"]).status().unwrap().success());
    let tried = "
        (: < node) || echo 'no node'
        for device in null zero full random urandom; do (: < /dev/$device) || echo \"no $device\"; done
        for setting in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/irq /sys /sys/kernel; do
            test ! -w $setting || echo \"$setting can be written\"
        done
        echo 100 > /proc/self/oom_score_adj || echo 'not even its own'
        setpriv --reuid 65534 true || echo 'no other user'
        setpriv --regid 65534 --clear-groups true || echo 'no other group'
        grep CapInh /proc/self/status
        python3 -c 'import pty; pty.openpty(); print(\"a terminal\")'";
    let walled = Walled { how: "--mount-walls", read_only: &[], hidden: &[], writable: &[] };
    let mut inherited = Command::new("setpriv");
    inherited.args(["--inh-caps", "+perfmon,+sys_admin", BACKSTOP]);
    walled.command(&mut inherited, tried).current_dir(&work);
    inherited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let expected = "no node\nno other user\nno other group\nCapInh:\t0000000000000000\na terminal\n";
    for done in [done(inherited.spawn().unwrap()), walled.run_without_rights(&work, tried)] {
        assert_eq!(done.out, expected, "{}", done.whole());
    }
    // What is narrowed further stays closed.
    let narrowed = Walled { writable: &[&work], ..walled };
    let done = narrowed.run(&work, tried);
    assert_eq!(done.out, expected, "{}", done.whole());
}

/// A file system may be mounted more than once.
#[test]
fn what_is_protected_is_protected_by_all_of_its_names() {
    for how in TIERS {
        let home = scene();
        let (work, data, settings) =
            (home.path().join("work"), home.path().join("data"), home.path().join("agent/settings"));
        for folder in ["around", "same", "inner"] {
            std::fs::create_dir(home.path().join(folder)).unwrap();
        }
        std::fs::create_dir(data.join("deep")).unwrap();
        std::fs::write(data.join("deep/rows"), "hush").unwrap();
        let walled = Walled { how, read_only: &[&settings], hidden: &[&data], writable: &[] };
        let tried =
            "cat ../around/data/rows ../same/rows ../inner/rows; echo evil > ../around/agent/settings";
        let mounts = "mount --bind .. ../around && mount --bind ../data ../same && mount --bind ../data/deep ../inner && exec \"$0\" \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", mounts, BACKSTOP]);
        walled.command(&mut command, tried).current_dir(&work);
        let done =
            done(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        assert!(!done.out.contains("hush"), "{how}: {}", done.whole());
        assert!(done.err.contains("around/data/rows"), "{how}: it was tried: {}", done.whole());
        assert_eq!(read(&settings), "guarded", "{how}: {}", done.whole());
    }
}

/// What is typed into one may be an answer.
#[test]
fn terminals_of_others_are_out_of_reach_behind_mounts() {
    let home = scene();
    let script = r#"
import os, pty, subprocess, sys
def read(master):
    os.set_blocking(master, False)
    try:
        return os.read(master, 99).decode().strip()
    except BlockingIOError:
        return "nothing"
(own, inside), (other, name) = pty.openpty(), pty.openpty()
name = os.ttyname(name)
tried = f'echo mine > "$(tty)"; echo evil > {name}; exec 3<>{name}; test -t 3 && echo terminal >&2'
done = subprocess.run(sys.argv[1:] + ["sh", "-c", tried], stdin=inside, capture_output=True, text=True)
print(read(own), read(other), done.stderr.strip())
"#;
    for (program, before) in
        [(BACKSTOP, &[][..]), ("setpriv", &["--bounding-set", "-sys_admin", BACKSTOP][..])]
    {
        let mut command = Command::new("python3");
        command.args(["-c", script, program]).args(before).args(["confined", "--mount-walls", "--"]);
        command.current_dir(home.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let done = done(command.spawn().unwrap());
        assert_eq!(done.out, "mine nothing \n", "{}", done.whole());
    }
}

#[test]
fn a_wall_that_is_lost_since_others_replaced_the_file_is_told_of() {
    let user = User::with_config("{}");
    std::fs::create_dir(user.path().join(".claude")).unwrap();
    let settings = user.path().join(".claude/settings.json");
    std::fs::write(&settings, "{}").unwrap();
    let script = "touch started; while [ ! -e done ]; do sleep 0.05; done";
    let run = user.command(&["run", "--hooks-only", "--", "sh", "-c", script]).spawn().unwrap();
    until("the program", || user.work().join("started").exists().then_some(()));
    std::fs::write(user.path().join("new"), "{} ").unwrap();
    std::fs::rename(user.path().join("new"), &settings).unwrap();
    std::fs::write(user.work().join("done"), "").unwrap();
    let done = done(run);
    let named = format!("another program replaced `{}`", settings.canonicalize().unwrap().display());
    assert!(done.err.contains(&named), "{}", done.whole());
}

#[test]
fn a_wall_that_can_not_be_built_starts_nothing() {
    for how in TIERS {
        let home = scene();
        let absent = home.path().join("absent");
        let walled = Walled { how, read_only: &[&absent], hidden: &[], writable: &[] };
        let done = walled.run(home.path(), "echo started");
        assert_eq!(done.code, Some(126), "{}", done.whole());
        assert!(done.err.contains("absent") && done.out.is_empty(), "{}", done.whole());
    }
    let done = done(
        Command::new(BACKSTOP)
            .args(["confined", "--unheard-of", "--", "true"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    assert_eq!(done.code, Some(126), "{}", done.whole());
}

#[test]
fn a_run_can_not_reach_what_judges_it() {
    let user = User::with_config("{}");
    std::fs::create_dir(user.path().join(".claude")).unwrap();
    let settings = user.path().join(".claude/settings.json");
    std::fs::write(&settings, "{}").unwrap();
    let tried = "echo evil > ~/.claude/settings.json; echo evil > \"$XDG_CONFIG_HOME/backstop/backstop.yaml\"; \
                 cat \"$XDG_DATA_HOME\"/backstop/*; echo evil > \"$XDG_DATA_HOME/backstop/backstop.db\"; \
                 kill -0 \"$PPID\" && echo reached; echo evil > \"$BACKSTOP\"; echo done > here; exit 3";
    let program = std::fs::metadata(BACKSTOP).unwrap().len();
    let mut command = user.command(&["run", "--", "sh", "-c", tried]);
    let done = done(command.env("BACKSTOP", BACKSTOP).spawn().unwrap());
    assert_eq!(done.code, Some(3), "{}", done.whole());
    assert!(!done.out.contains("reached") && !done.out.contains("SQLite"), "{}", done.whole());
    assert_eq!(read(&settings), "{}");
    assert_eq!(read(&user.path().join("config/backstop/backstop.yaml")), "{}");
    assert_eq!(std::fs::metadata(BACKSTOP).unwrap().len(), program);
    assert_eq!(read(&user.work().join("here")), "done\n");
    // The same without walls, so that this is known to test them.
    user.run(&[
        "run",
        "--hooks-only",
        "--no-sandbox",
        "--",
        "sh",
        "-c",
        "echo changed > ~/.claude/settings.json",
    ])
    .succeeded();
    assert_eq!(read(&settings), "changed\n");
}

/// Whoever reads them answers in the name of people, or pushes what the trail is said to have had.
#[test]
fn a_run_reads_no_secret_of_a_surface() {
    let user = User::with_config(
        "
audit: {witness: [{to: 'git+ssh://git@witness.example/trail.git', ssh_key: ../../keys/push}]}
approvals:
  surfaces:
    console: 'https://gate.example.com'
    telegram: {phone: {token_file: ../../keys/telegram, chats: [1]}}
    slack:
      ops: {token_file: ../../keys/slack, signing_secret_file: ../../keys/signing, app_id: A1, channels: [C1]}
      desk: {token_file: ../../keys/slack, app_token_file: ../../keys/app, app_id: A2, channels: [C1]}
    ntfy: {alarm: {server: 'https://ntfy.example.com', topic: t, token_file: ../../keys/ntfy}}
    email: {mail: {server: smtp.example.com, user: u, password_file: ../../keys/mail, from: a@example.com, to: [b@example.com]}}
    webhook: {pager: {url: 'https://pager.example.com', secret_file: ../../keys/out, answer_secret_file: ../../keys/back}}
",
    );
    let keys = user.path().join("keys");
    std::fs::create_dir(&keys).unwrap();
    let names = ["telegram", "slack", "signing", "app", "ntfy", "mail", "out", "back", "push"];
    for name in names {
        std::fs::write(keys.join(name), format!("hush-{name}")).unwrap();
    }
    let tried = "cat ~/keys/*; echo done > here";
    let done = user.run(&["run", "--hooks-only", "--", "sh", "-c", tried]);
    assert_eq!(read(&user.work().join("here")), "done\n", "{}", done.whole());
    assert!(!done.out.contains("hush"), "{}", done.whole());
    let open = user.run(&["run", "--hooks-only", "--no-sandbox", "--", "sh", "-c", tried]).succeeded();
    assert!(names.iter().all(|name| open.out.contains(&format!("hush-{name}"))), "{}", open.whole());
}

/// The same of those in the environment, also where there are no walls.
#[test]
fn a_run_has_no_variable_with_a_secret_of_a_surface() {
    let user = User::with_config(
        "
approvals:
  surfaces:
    console: 'https://gate.example.com'
    slack:
      ops: {token: '${BOT}', signing_secret: '${SIGNING}', app_id: A1, channels: [C1]}
      desk: {token: '${BOT}', app_token: '${APP}', app_id: A2, channels: [C1]}
    webhook: {pager: {url: 'https://pager.example.com', secret: '${OUT}', answer_secret: '${BACK}'}}
",
    );
    let names = ["BOT", "SIGNING", "APP", "OUT", "BACK", "OTHER"];
    let arguments = ["run", "--hooks-only", "--no-sandbox", "--", "env"];
    let mut command = user.command(&arguments);
    command.envs(names.map(|name| (name, format!("hush-{name}"))));
    let done = done(command.spawn().unwrap()).succeeded();
    assert!(done.out.contains("OTHER=hush-OTHER"), "{}", done.whole());
    assert_eq!(done.out.matches("hush-").count(), 1, "{}", done.whole());
}

/// Whoever makes a file that counts before another, or a program that is found before another, makes credentials.
#[test]
fn a_run_makes_no_credentials() {
    for provider in [
        "cloud: bedrock, region: r, aws_profile: work",
        "cloud: vertex, region: r, project: p, token_command: [a-tool]",
    ] {
        let user = User::with_config(&format!("providers: {{a: {{api: anthropic, {provider}}}}}"));
        let (aws, bin) = (user.path().join(".aws"), user.path().join("bin"));
        let is_aws = provider.contains("aws");
        for folder in [&bin, &user.path().join("tools")] {
            std::fs::create_dir(folder).unwrap();
        }
        let tool = user.path().join("tools/a-tool");
        std::fs::write(&tool, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
        let config = user.path().join("tools/config");
        std::fs::write(&config, "[profile work]\ncredential_process = a-tool\n").unwrap();
        let path = format!("{}:{}:/usr/bin:/bin", bin.display(), user.path().join("tools").display());
        let tried = "mkdir -p ~/.aws; echo evil > ~/.aws/credentials; echo evil > ~/bin/a-tool; \
                     echo evil > ~/bin/python3; echo evil > ~/tools/a-tool; mv ~/bin ~/moved; \
                     mv ~/tools ~/moved; echo done > here; echo done > ~/other";
        let mut command = user.command(&["run", "--hooks-only", "--", "sh", "-c", tried]);
        let command = command.env("PATH", path).env("AWS_CONFIG_FILE", &config);
        let done = done(command.spawn().unwrap());
        assert_eq!(read(&user.work().join("here")), "done\n", "{}", done.whole());
        assert_eq!(read(&user.path().join("other")), "done\n");
        assert!(!is_aws || (aws.is_dir() && !aws.join("credentials").exists()), "{}", done.whole());
        assert_eq!(std::fs::read_dir(&bin).unwrap().count(), 0, "{}", done.whole());
        assert_eq!(read(&tool), "#!/bin/sh\n");
    }
}

/// Whoever writes a program of `hooks.at`, or puts another in its place, judges.
#[test]
fn a_run_makes_no_judge() {
    let user = User::with_config(
        "hooks: {at: {before_tool_call: [{type: command, command: [../../tools/gate.sh]}, {type: command, command: [sh, ../../scripts/gate.sh]}]}}",
    );
    let script = |folder: &str| {
        let script = user.path().join(folder).join("gate.sh");
        std::fs::create_dir(script.parent().unwrap()).unwrap();
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        script
    };
    let scripts = ["tools", "scripts"].map(script);
    let command = scripts.each_ref().map(|script| {
        let (script, folder) = (script.display(), script.parent().unwrap().display());
        format!("echo evil > {script}; rm -f {script}; echo evil > {folder}/other; mv {folder} ~/moved; mkdir -p {folder}; echo evil > {script};")
    });
    let tried = format!("{} echo done > here; echo done > ~/other", command.join(" "));
    let done = user.run(&["run", "--hooks-only", "--", "sh", "-c", &tried]);
    assert_eq!(read(&user.work().join("here")), "done\n", "{}", done.whole());
    assert_eq!(read(&user.path().join("other")), "done\n");
    for script in scripts {
        assert_eq!(read(&script), "#!/bin/sh\n", "{}", done.whole());
        assert_eq!(std::fs::read_dir(script.parent().unwrap()).unwrap().count(), 1);
    }
}

/// What the guards know to decide about hooks is what the walls are around; sessions, history and trust are their client's.
#[test]
fn a_run_changes_no_place_of_the_guards_table_and_clients_keep_their_state() {
    let user = User::with_config("{}");
    std::fs::create_dir(user.work().join(".git")).unwrap();
    let (home, work) = (user.path().to_path_buf(), user.work().clone());
    let decides = [
        home.join(".claude/settings.json"),
        home.join(".claude/hooks/own.sh"),
        home.join(".codex/config.toml"),
        home.join(".codex/fast.config.toml"),
        home.join(".copilot/settings.json"),
        home.join(".agents/plugins/x/hooks/hooks.json"),
        home.join("Documents/Cline/Hooks/PreToolUse"),
        user.path().join("config/opencode/plugins/own.js"),
        work.join(".claude/settings.local.json"),
        work.join(".codex/config.toml"),
        work.join(".github/hooks/own.json"),
        work.join("opencode.json"),
    ];
    let of_clients = [
        home.join(".claude/history.jsonl"),
        home.join(".claude/projects/p/s.jsonl"),
        home.join(".codex/sessions/s.jsonl"),
        home.join(".gemini/trustedFolders.json"),
        user.path().join("config/opencode/package.json"),
        work.join(".claude/commands/own.md"),
    ];
    let mut script = String::new();
    for file in decides.iter().chain(&of_clients) {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "old").unwrap();
        script.push_str(&format!("printf new > '{}'\n", file.display()));
    }
    let done = user.run(&["run", "--hooks-only", "--", "sh", "-c", &script]);
    for file in &decides {
        assert_eq!(read(file), "old", "{}: {}", file.display(), done.whole());
    }
    for file in &of_clients {
        assert_eq!(read(file), "new", "{}: {}", file.display(), done.whole());
    }
}

#[test]
fn a_protected_name_that_a_run_makes_is_told_of() {
    let user = User::with_config("{}");
    std::fs::create_dir(user.path().join(".claude")).unwrap();
    let done = user.run(&["run", "--", "sh", "-c", "echo '{}' > ~/.claude/settings.json"]);
    let is_there = user.path().join(".claude/settings.json").exists();
    assert_eq!(is_there, done.err.contains("was made in this run"), "{}", done.whole());
}

#[test]
fn a_run_may_change_the_workspace_alone_where_the_operator_says_so() {
    let user = User::with_config("sandbox: {write: workspace, writable: [~/more]}");
    for folder in ["more", "other"] {
        std::fs::create_dir(user.path().join(folder)).unwrap();
    }
    // The home of the test lies in a temporary folder, where anything goes; not in this one.
    let mut command = user.command(&[
        "run",
        "--hooks-only",
        "--",
        "sh",
        "-c",
        "echo a > here; echo a > ~/more/f; echo a > ~/other/f; :",
    ]);
    let done = done(command.env("TMPDIR", user.path().join("more")).spawn().unwrap());
    assert_eq!(done.code, Some(0), "{}", done.whole());
    assert!(user.path().join("more/f").exists(), "{}", done.whole());
    assert!(!user.path().join("other/f").exists(), "{}", done.whole());
}

#[test]
fn what_the_agent_starts_is_confined() {
    for (mode, expected) in [("auto", "{}"), ("required", "{}"), ("\"off\"", "evil")] {
        let user = User::new();
        std::fs::create_dir(user.path().join(".claude")).unwrap();
        let settings = user.path().join(".claude/settings.json");
        std::fs::write(&settings, "{}").unwrap();
        std::fs::write(user.work().join("tool.sh"), "printf evil > \"$HOME/.claude/settings.json\"").unwrap();
        let script = r#"{"text": "I try.", "tool_calls": [{"name": "exec", "arguments": {"command": "sh tool.sh"}}]}
                        {"text": "I tried."}"#;
        let model = ModelServer::start(&user, script);
        // The guards would stop it first.
        let more = format!(
            "guards: {{command_safety: {{enabled: false}}, sensitive_files: {{enabled: false}}}}\nsandbox: {{mode: {mode}}}\n"
        );
        user.configure(&model.config(&more));
        let done = user.run(&["agent", "-m", "go"]).succeeded();
        assert_eq!(read(&settings), expected, "{mode}: {}", done.whole());
    }
}

#[test]
fn a_run_leaves_no_process_behind() {
    let user = User::with_config("{}");
    for sandbox in [&["run", "--hooks-only"][..], &["run", "--hooks-only", "--no-sandbox"]] {
        let script = "setsid sh -c 'echo $$ > pid; exec sleep 600' & while [ ! -s pid ]; do sleep 0.05; done; echo ended";
        let _ = std::fs::remove_file(user.work().join("pid"));
        let words: Vec<&str> = sandbox.iter().copied().chain(["--", "sh", "-c", script]).collect();
        user.run(&words).succeeded();
        let process = read(&user.work().join("pid"));
        assert!(!Path::new("/proc").join(process.trim()).exists(), "{process} still runs");
    }
}

#[test]
fn a_protected_link_that_a_run_replaces_and_a_named_place_that_is_not_there_are_told_of() {
    let user = User::with_config("sandbox: {hidden: [~/nowhere]}");
    std::fs::create_dir(user.path().join(".claude")).unwrap();
    std::fs::write(user.path().join("mine.json"), "{}").unwrap();
    std::os::unix::fs::symlink("../mine.json", user.path().join(".claude/settings.json")).unwrap();
    let done = user.run(&[
        "run",
        "--",
        "sh",
        "-c",
        "echo evil > ~/mine.json; ln -sf ../other ~/.claude/settings.json",
    ]);
    assert_eq!(read(&user.path().join("mine.json")), "{}", "{}", done.whole());
    let link = std::fs::read_link(user.path().join(".claude/settings.json")).unwrap();
    assert_eq!(
        link != Path::new("../mine.json"),
        done.err.contains("leads elsewhere now"),
        "{}",
        done.whole()
    );
    assert!(done.err.contains("nowhere` of `sandbox` is not there"), "{}", done.whole());
}

#[test]
fn what_is_in_a_control_group_ends_with_it_wherever_it_went() {
    let name = format!("backstop-test-{}", std::process::id());
    let group = match Group::create(&name) {
        Ok(group) => group,
        // Without a delegation there is none, and a run says so.
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let launcher = [BACKSTOP.into(), "confined".into()];
    assert_eq!(why_not_joined(&launcher, group.path()), None);
    let why = why_not_joined(&launcher, Path::new("/nowhere/of-this-name")).unwrap();
    assert!(why.contains("/nowhere/of-this-name"), "{why}");
    let home = scene();
    let script = "setsid sleep 600 < /dev/null > /dev/null 2>&1 & echo $!; grep ^0:: /proc/self/cgroup";
    let mut command = Command::new(BACKSTOP);
    command.args(["confined", "--group"]).arg(group.path()).args(["--", "sh", "-c", script]);
    command.current_dir(home.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let done = done(command.spawn().unwrap()).succeeded();
    let (process, own) = done.out.split_once('\n').unwrap();
    assert!(own.contains(&name), "{}", done.whole());
    let members = group.path().join("cgroup.procs");
    assert!(read(&members).contains(process), "{}", done.whole());
    group.end();
    while !read(&members).is_empty() {
        std::thread::yield_now();
    }
}
