//! `hooks.at`: programs and servers of the operator that judge without a plugin around them.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::daemon::Serving;
use super::support::{Done, ModelServer, User, snapshot, until};

/// A user with these files beside the configuration, which says `text`.
fn user(text: &str, files: &[(&str, &str)]) -> User {
    let user = User::with_config(text);
    let folder = folder(&user);
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (name, text) in files {
        let file = folder.join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    user
}

fn folder(user: &User) -> PathBuf {
    user.path().join("config/backstop")
}

/// One entry at `before_tool_call`.
fn gate(entry: &str) -> String {
    format!("hooks: {{at: {{before_tool_call: [{{{entry}}}]}}}}\n")
}

/// What Claude Code is answered about a harmless command, in a call of its own.
fn asked(user: &User, command: &str) -> Done {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let id = format!("toolu_0123456789{:06}", CALLS.fetch_add(1, Ordering::Relaxed));
    let event = json!({
        "hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": user.work(), "tool_name": "Bash",
        "permission_mode": "default", "tool_use_id": id,
        "tool_input": { "command": command },
    });
    user.feed(&["hook", "claude"], event.to_string())
}

#[track_caller]
fn blocks(user: &User, why: &str) {
    let done = asked(user, "ls");
    assert_eq!(done.code, Some(2), "{}", done.whole());
    assert!(done.whole().contains(why), "`{why}` is not in {}", done.whole());
}

#[track_caller]
fn passes(user: &User) {
    let done = asked(user, "ls");
    assert_eq!((done.code, done.out.as_str()), (Some(0), ""), "{}", done.whole());
}

/// Writes down where and with what it runs, and stops `date`.
const CLAUDE: &str = r#"#!/bin/sh
pwd > "$HOME/seen"
env | sed 's/=.*//' | sort | tr '\n' ' ' >> "$HOME/seen"
echo >> "$HOME/seen"
echo "$1 $CLAUDE_PROJECT_DIR $A_TOKEN" >> "$HOME/seen"
case "$(cat)" in
  *'"command":"date"'*) echo 'no dates here' >&2; exit 2 ;;
  *'"command":"pwd"'*)
    echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask", "permissionDecisionReason": "who knows"}}' ;;
esac
"#;

#[test]
fn a_script_for_claude_code_judges_from_the_configuration() {
    let entry = "type: command, command: [./gate.sh, --strict], dialect: claude, matcher: [exec], env: [USER, NOT_SET]";
    let user = user(&gate(entry), &[("gate.sh", CLAUDE)]);
    passes(&user);
    let seen = std::fs::read_to_string(folder(&user).join("seen")).unwrap();
    let lines: Vec<&str> = seen.lines().collect();
    let beside = folder(&user).canonicalize().unwrap();
    assert_eq!(lines[0], beside.to_str().unwrap(), "it starts beside the configuration");
    let names: Vec<&str> =
        lines[1].split(' ').filter(|name| !matches!(*name, "" | "_" | "SHLVL" | "OLDPWD")).collect();
    let given = ["BACKSTOP_PLUGIN_ID", "BACKSTOP_POINT", "CLAUDE_PROJECT_DIR", "HOME", "PATH", "PWD"];
    let python = ["PYTHONDONTWRITEBYTECODE", "PYTHONNOUSERSITE", "USER"];
    assert_eq!(names, given.iter().chain(&python).copied().collect::<Vec<_>>());
    assert!(lines[2].starts_with(&format!("--strict {}", user.work().display())), "{seen}");
    let stopped = asked(&user, "date");
    assert_eq!(stopped.code, Some(2), "{}", stopped.whole());
    assert!(stopped.whole().contains("no dates here"), "{}", stopped.whole());
    let question = asked(&user, "pwd");
    assert!(question.whole().contains("who knows"), "{}", question.whole());
    assert!(!question.out.contains("\"allow\""), "{}", question.whole());
    // Another tool is not its affair.
    std::fs::remove_file(folder(&user).join("seen")).unwrap();
    let event = json!({
        "hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": user.work(), "tool_name": "WebSearch",
        "permission_mode": "default", "tool_use_id": "toolu_0123456789abcdef", "tool_input": { "query": "x" },
    });
    assert_eq!(user.feed(&["hook", "claude"], event.to_string()).code, Some(0));
    assert!(!folder(&user).join("seen").exists());
}

/// Interpreters look for code in the folder that they are started in first, and the agent writes in the session's.
#[test]
fn law_14_no_code_of_the_session_s_folder_judges() {
    let judge = "import json, os, sys\njson.load(sys.stdin)\nsys.exit(2)\n";
    for (command, dialect) in [
        ("[python3, -m, gate]", "claude"),
        ("[python3, -m, gate]", "backstop"),
        ("[python3, -c, 'import gate']", "claude"),
    ] {
        let entry = format!("type: command, command: {command}, dialect: {dialect}");
        let user = user(&gate(&entry), &[("gate.py", judge)]);
        let marker = user.path().join("marker");
        let lure = format!("import pathlib, sys\npathlib.Path({marker:?}).touch()\nsys.exit(0)\n");
        for name in ["gate.py", "json.py", "os.py", "sitecustomize.py"] {
            std::fs::write(user.work().join(name), &lure).unwrap();
        }
        assert_eq!(asked(&user, "ls").code, Some(2), "{command} {dialect}");
        assert!(!marker.exists(), "{command} {dialect}: the agent's own code ran");
        // Who works beside the configuration could write what the program imports.
        let event = json!({
            "hook_event_name": "PreToolUse", "session_id": "s-2", "cwd": folder(&user), "tool_name": "Bash",
            "permission_mode": "default", "tool_use_id": "toolu_0123456789abcdef", "tool_input": { "command": "ls" },
        });
        std::fs::write(folder(&user).join("gate.py"), "").unwrap();
        let beside = user.feed(&["hook", "claude"], event.to_string());
        assert_eq!(beside.code, Some(2), "{command} {dialect}: {}", beside.whole());
        passes(&user);
    }
}

#[test]
fn law_05_a_program_that_can_not_judge_blocks() {
    let entry = |more: &str| gate(&format!("type: command, command: [./gate.sh], timeoutMs: 3000{more}"));
    for (script, why) in [
        ("#!/bin/sh\nexit 1\n", "exit status: 1"),
        ("#!/bin/sh\nkill -s KILL $$\n", "signal: 9"),
        ("#!/bin/sh\necho fine\n", "no JSON"),
        ("#!/bin/sh\nexec sleep 600\n", "3000 ms"),
        ("#!/nowhere/at/all\n", "could not be started"),
    ] {
        let user = user(&entry(""), &[("gate.sh", script)]);
        let done = asked(&user, "ls");
        assert_eq!(done.code, Some(2), "{script}: {}", done.whole());
        let explained = user.run(&["check", "--tool", "exec", "--args", r#"{"command": "ls"}"#]).whole();
        assert!(
            explained.contains(why) || done.whole().contains(why),
            "{script}: {explained}{}",
            done.whole()
        );
    }
    let open = user(&entry(", on_failure: allow"), &[("gate.sh", "#!/bin/sh\nexit 1\n")]);
    passes(&open);
    let stopped = user(&entry(", on_failure: allow"), &[("gate.sh", "#!/bin/sh\necho no >&2\nexit 2\n")]);
    blocks(&stopped, "no");
}

/// Speaks the protocol: blocks `date`, dies at `pwd`, counts its lives.
const PROCESS: &str = r#"
import json, os, sys
with open(os.path.join(os.environ["HOME"], "lives"), "a") as lives:
    lives.write("x")
points = sys.argv[1:]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = None
    if message["method"] == "initialize":
        level = message["params"]["plugin"]["config"].get("level")
        hooks = [{"id": "own", "point": point, "matcher": ["exec"]} for point in points]
        answer = {"protocol": 1, "hooks": hooks}
    elif message["method"] == "event":
        command = message["params"]["event"]["params"].get("command", "")
        if command == "pwd":
            os._exit(3)
        if command == "date":
            answer = {"block": True, "blockReason": "level %s" % level}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
    if message["method"] == "shutdown":
        break
"#;

#[test]
fn a_program_that_stays_judges_and_is_shared_by_its_entries() {
    let program = |points: &str| {
        format!("{{type: process, command: [python3, ./hook.py, {points}], config: {{level: 3}}}}")
    };
    let shared = program("before_tool_call, after_tool_call");
    let text = format!("hooks: {{at: {{before_tool_call: [{shared}], after_tool_call: [{shared}]}}}}\n");
    let user = user(&text, &[("hook.py", PROCESS)]);
    passes(&user);
    blocks_command(&user, "date", "level 3");
    blocks_command(&user, "pwd", "ended");
    let lives = || std::fs::read_to_string(folder(&user).join("lives")).unwrap_or_default().len();
    std::fs::remove_file(folder(&user).join("lives")).unwrap();
    let listed = user.run(&["hooks"]).succeeded().out;
    assert_eq!(lives(), 1, "both entries are one program: {listed}");
    assert!(
        listed.contains("process hooks.at.before_tool_call[0]: an outage blocks the call (default)"),
        "{listed}"
    );
    assert!(listed.contains("process hooks.at.after_tool_call[0]: an outage changes nothing"), "{listed}");
    // What no event of this point needs is not started.
    let event = json!({ "hook_event_name": "UserPromptSubmit", "session_id": "s-1", "cwd": user.work(), "prompt": "hi" });
    assert_eq!(user.feed(&["hook", "claude"], event.to_string()).code, Some(0));
    assert_eq!(lives(), 1);
    for (points, said) in [
        ("after_tool_call", "has a hook `own` at `after_tool_call`, where no entry asks it"),
        ("--", "python3"),
    ] {
        user.configure(&format!("hooks: {{at: {{before_tool_call: [{}]}}}}\n", program(points)));
        let check = user.run(&["config", "check"]);
        assert_ne!(check.code, Some(0), "{said}: {}", check.whole());
    }
}

#[track_caller]
fn blocks_command(user: &User, command: &str, why: &str) {
    let done = asked(user, command);
    assert_eq!(done.code, Some(2), "{}", done.whole());
    assert!(done.whole().contains(why), "`{why}` is not in {}", done.whole());
}

/// Says its process and that of a child of it in the file `pids`, with its argument before it.
const MARKED: &str = r#"
import json, os, subprocess, sys
child = subprocess.Popen(["sleep", "600"])
with open("pids", "a") as pids:
    pids.write("%s %d %d\n" % (sys.argv[1], os.getpid(), child.pid))
for line in sys.stdin:
    message = json.loads(line)
    answer = None
    if message["method"] == "initialize":
        answer = {"protocol": 1, "hooks": [{"id": "own", "point": "before_tool_call"}]}
    elif message["method"] == "event":
        answer = {"block": True, "blockReason": "says " + sys.argv[1]}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
"#;

#[test]
fn a_server_exchanges_its_programs_whole_and_leaves_none_behind() {
    let entry = |word: &str| format!("{{type: process, command: [python3, ./hook.py, {word}]}}");
    let text =
        |entries: &[String]| format!("hooks: {{at: {{before_tool_call: [{}]}}}}\n", entries.join(", "));
    let user = user(&text(&[entry("first")]), &[("hook.py", MARKED), ("broken.sh", "#!/bin/sh\nexit 1\n")]);
    let started = |word: &str| -> Vec<String> {
        let pids = std::fs::read_to_string(folder(&user).join("pids")).unwrap_or_default();
        let lines = pids.lines().filter_map(|line| line.strip_prefix(word));
        lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
    };
    let lives = |pid: &String| std::path::Path::new("/proc").join(pid).exists();
    let gone = |word: &str| until("its end", || (!started(word).iter().any(lives)).then_some(()));
    let serving = Serving::start(&user);
    assert!(started("first").len() == 2 && started("first").iter().all(lives), "{:?}", started("first"));
    blocks(&user, "says first");
    assert!(started("first").len() == 4, "the daemon's own: {:?}", started("first"));
    user.configure(&text(&[entry("second"), "{type: process, command: [./broken.sh]}".to_owned()]));
    serving.hang_up();
    until("the second start", || (!started("second").is_empty()).then_some(()));
    gone("second");
    assert!(started("first").iter().all(lives), "what can't be had as a whole changes nothing");
    user.configure(&text(&[entry("third")]));
    serving.hang_up();
    until("the third start", || (!started("third").is_empty()).then_some(()));
    blocks(&user, "says third");
    gone("first");
    serving.stop();
    gone("third");
}

#[test]
fn the_agent_asks_programs_and_says_which_of_them_wait_for_others() {
    let script = "#!/bin/sh\ngrep -q never.txt || exit 0\necho 'not that file' >&2\nexit 2\n";
    let user = user("{}\n", &[("gate.sh", script)]);
    let model = ModelServer::start(
        &user,
        r#"{"tool_calls": [{"name": "write", "arguments": {"path": "never.txt", "content": "a"}}]}
           {"tool_calls": [{"name": "write", "arguments": {"path": "fine.txt", "content": "a"}}]}
           {"text": "Done."}"#,
    );
    user.configure(&model.config(
        "hooks: {at: {before_tool_call: [{type: command, command: [./gate.sh], dialect: claude}], before_install: [{type: command, command: [./gate.sh], id: installs}]}}\n",
    ));
    let done = user.run(&["agent", "-m", "write"]).succeeded();
    assert!(
        !user.work().join("never.txt").exists() && user.work().join("fine.txt").exists(),
        "{}",
        done.whole()
    );
    assert!(
        done.err.contains("hook `installs` waits: no host of this process fires `before_install`"),
        "{}",
        done.whole()
    );
}

/// A server that answers each request with `answer`, or never, and hands over what it was sent.
fn server(answer: Option<&'static str>) -> (u16, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut silent: Vec<TcpStream> = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut heard = Vec::new();
            let mut piece = [0; 4096];
            // The body is the end of it, and it ends with the object around the event.
            while !heard.ends_with(b"}") {
                match stream.read(&mut piece) {
                    Ok(0) | Err(_) => break,
                    Ok(length) => heard.extend_from_slice(&piece[..length]),
                }
            }
            let _ = tell.send(String::from_utf8_lossy(&heard).into_owned());
            match answer {
                Some(answer) => {
                    let head = format!(
                        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                        answer.len()
                    );
                    stream.write_all(format!("{head}{answer}").as_bytes()).unwrap();
                }
                None => silent.push(stream),
            }
        }
    });
    (port, told)
}

#[test]
fn a_server_judges_and_one_that_hangs_blocks_when_its_time_is_over() {
    let (port, told) = server(Some(r#"{"block": true, "blockReason": "says the server"}"#));
    let entry = format!("type: http, url: 'http://127.0.0.1:{port}/judge', authorization: {{file: key}}");
    let secret = ["Bearer ", "s3", "cr3t-value"].concat();
    let user = user(&gate(&entry), &[("key", &format!("{secret}\n"))]);
    blocks(&user, "says the server");
    let heard = told.recv().unwrap();
    let (head, body) = heard.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&secret), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        (&body["point"], &body["hook"]),
        (&json!("before_tool_call"), &json!("hooks.at.before_tool_call[0]"))
    );
    for args in [&["config", "show"], &["hooks", "--json"], &["config", "check"][..]] {
        let shown = user.run(args).succeeded().whole();
        assert!(!shown.contains(&secret), "{shown}");
    }
    let (port, _told) = server(None);
    let silent =
        |more: &str| gate(&format!("type: http, url: 'http://127.0.0.1:{port}/', timeoutMs: 400{more}"));
    user.configure(&silent(""));
    blocks(&user, "400 ms");
    user.configure(&silent(", fail_open: false, on_failure: allow"));
    assert_eq!(asked(&user, "ls").code, Some(2), "the stricter counts");
    user.configure(&gate("type: http, url: 'http://127.0.0.1:9/', fail_open: true"));
    passes(&user);
    user.configure(&gate("type: http, url: 'http://127.0.0.1:9/', authorization: {env: NOT_SET}"));
    snapshot!(user.run(&["config", "check"]).whole(), @r"
    exit: 2
    --- stdout
    --- stderr
    error: there is no `authorization` in the variable `NOT_SET`: it is not set
      --> [user]/config/backstop/backstop.yaml:1:95
      hint: it is the whole value of the header, as in `Bearer ...`
    ");
}

#[test]
fn law_14_a_repository_adds_no_program() {
    let user = User::new();
    let marker = user.path().join("marker");
    let script = format!("#!/bin/sh\ntouch '{}'\n", marker.display());
    std::fs::write(user.work().join("own.sh"), script).unwrap();
    let text = "hooks: {at: {before_tool_call: [{type: command, command: [sh, ./own.sh]}], session_start: [{type: process, command: [sh, ./own.sh]}]}}\n";
    std::fs::write(user.work().join("backstop.yaml"), text).unwrap();
    passes(&user);
    assert_eq!(user.run(&["hooks"]).code, Some(0));
    assert!(!marker.exists());
    let shown = user.run(&["config", "show"]).succeeded().out;
    for kind in ["command", "process"] {
        let said = format!("a repository file may not add hooks of type `{kind}`");
        assert!(shown.contains(&said), "{shown}");
    }
}

#[test]
fn programs_that_are_not_the_operators_are_errors_at_their_places() {
    let user =
        user("{}\n", &[("gate.sh", "#!/bin/sh\n"), ("loose.sh", "#!/bin/sh\n"), ("plain.sh", "#!/bin/sh\n")]);
    let mode = |name: &str, mode| {
        std::fs::set_permissions(folder(&user).join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("loose.sh", 0o777);
    mode("plain.sh", 0o644);
    let own = user.work().join("own.sh");
    std::fs::write(&own, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(&own, folder(&user).join("link.sh")).unwrap();
    user.configure(
        "\
hooks:
  at:
    before_tool_call:
      - {type: command, command: [./gone.sh]}
      - {type: command, command: [no-such-program]}
      - {type: command, command: [./plain.sh]}
      - {type: command, command: [./loose.sh]}
      - {type: command, command: [../../work/own.sh]}
      - {type: command, command: [./link.sh]}
      - {type: command, command: [sh, ./link.sh]}
      - {type: command, command: [sh, ./gone.sh]}
      - {type: command, command: [./gate.sh], matcher: [execc]}
      - {type: process, command: [./gate.sh]}
    llm_output:
      - {type: command, command: [./gate.sh], dialect: claude}
      - {type: command, command: [./gate.sh], matcher: [exec]}
",
    );
    snapshot!(user.run(&["config", "check"]).whole(), @r"
    exit: 2
    --- stdout
    --- stderr
    error: `./gone.sh` can't be used: No such file or directory (os error 2)
      --> [user]/config/backstop/backstop.yaml:4:35

    error: `no-such-program` can't be used: no folder of `PATH` that belongs to root has it
      --> [user]/config/backstop/backstop.yaml:5:35
      hint: write its whole path, or `./` before what lies beside the configuration

    error: `./plain.sh` can't be used: it is no program
      --> [user]/config/backstop/backstop.yaml:6:35
      hint: chmod u+x [user]/config/backstop/plain.sh

    error: `./loose.sh` can't be used: other users may write `[user]/config/backstop/loose.sh`, so it is not taken for the operator's
      --> [user]/config/backstop/backstop.yaml:7:35
      hint: chmod go-w [user]/config/backstop/loose.sh

    error: `../../work/own.sh` can't be used: it lies in the workspace `[user]/work`, where the agent works, so it is not taken for the operator's
      --> [user]/config/backstop/backstop.yaml:8:35
      hint: move it out of there

    error: `./link.sh` can't be used: it lies in the workspace `[user]/work`, where the agent works, so it is not taken for the operator's
      --> [user]/config/backstop/backstop.yaml:9:35
      hint: move it out of there

    error: `./link.sh` can't be used: it lies in the workspace `[user]/work`, where the agent works, so it is not taken for the operator's
      --> [user]/config/backstop/backstop.yaml:10:39
      hint: move it out of there

    error: `./gone.sh` can't be used: No such file or directory (os error 2)
      --> [user]/config/backstop/backstop.yaml:11:39

    error: the process of `hooks.at.before_tool_call[9]` ended (exit status: 0)
      --> [user]/config/backstop/backstop.yaml:13:16

    error: no event of Claude Code is about `llm_output`
      --> [user]/config/backstop/backstop.yaml:15:56
      hint: these are: before_tool_call, tool.after, after_tool_call, before_agent_run, before_agent_finalize, session_start, session_end, before_compaction, after_compaction, subagent_spawned, subagent_ended

    error: hook `hooks.at.llm_output[1]`: `llm_output` is not about tools, so a tool matcher there would match nothing
      --> [user]/config/backstop/backstop.yaml:16:56
    ");
    assert_eq!(asked(&user, "ls").code, Some(2), "what can't be loaded refuses");
}

#[test]
fn a_program_is_not_asked_about_who_works_where_it_lies() {
    // The operator works elsewhere when the configuration is read; the session works in the program's folder.
    let user = user(&gate("type: command, command: [../../tools/gate.sh]"), &[]);
    let tools = user.path().join("tools");
    std::fs::create_dir(&tools).unwrap();
    std::fs::write(tools.join("gate.sh"), "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(tools.join("gate.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    passes(&user);
    let event = json!({
        "hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": tools, "tool_name": "Bash",
        "permission_mode": "default", "tool_use_id": "toolu_0123456789abcdef", "tool_input": { "command": "ls" },
    });
    let done = user.feed(&["hook", "claude"], event.to_string());
    assert_eq!(done.code, Some(2), "{}", done.whole());
}

#[test]
fn a_script_that_changed_is_not_the_pinned_one() {
    let user = user(&gate("type: command, command: [./gate.sh]"), &[("gate.sh", "#!/bin/sh\nexit 0\n")]);
    user.run(&["config", "pin"]).succeeded();
    let event = json!({
        "hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": user.work(), "tool_name": "Bash",
        "permission_mode": "default", "tool_use_id": "toolu_0123456789abcdef", "tool_input": { "command": "ls" },
    });
    let pinned = || user.feed(&["hook", "--pinned", "claude"], event.to_string());
    assert_eq!(pinned().code, Some(0), "{}", pinned().whole());
    std::fs::write(folder(&user).join("gate.sh"), "#!/bin/sh\nexit 0 \n").unwrap();
    let done = pinned();
    assert_eq!(done.code, Some(2), "{}", done.whole());
    assert!(done.err.contains("gate.sh"), "{}", done.whole());
}
