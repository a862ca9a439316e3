//! Confinement, by what a run, and what an agent starts, can't do. Every program here is a shell that tries to write into files of the test.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use backstop::confine::{Group, why_not_joined};

use super::support::{BACKSTOP, ModelServer, User, done, until};
use super::walls::{read, scene};

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
