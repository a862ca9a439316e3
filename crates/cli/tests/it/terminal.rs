//! `backstop` on a terminal: a pseudo-terminal whose keys are pressed by the test.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::support::{ModelServer, User, interrupt, until};

struct Terminal {
    child: Child,
    keys: File,
    seen: Arc<Mutex<String>>,
}

impl Terminal {
    fn start(user: &User, args: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let open = || -> OwnedFd {
            rustix::fs::open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap()
        };
        let mut command = user.command(args);
        command.env("TERM", "xterm").stdin(open()).stdout(open()).stderr(open());
        let child = command.spawn().unwrap();
        let keys = File::from(master);
        let seen = Arc::new(Mutex::new(String::new()));
        let (mut screen, written) = (keys.try_clone().unwrap(), Arc::clone(&seen));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = screen.read(&mut buffer) {
                written.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..length]));
            }
        });
        Self { child, keys, seen }
    }

    /// Waits until `text` is on the screen, then takes all that was there from it.
    #[track_caller]
    fn wait_for(&self, text: &str) -> String {
        until(text, || {
            let mut seen = self.seen.lock().unwrap();
            seen.contains(text).then(|| std::mem::take(&mut *seen))
        })
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn end(mut self) -> Option<i32> {
        until("the end", || self.child.try_wait().unwrap()).code()
    }
}

#[test]
fn a_conversation_with_a_question_and_a_cancelled_turn() {
    let user = User::new();
    let model = ModelServer::start(
        &user,
        r#"{"text": "first answer"}
           {"tool_calls": [{"name": "exec", "arguments": {"command": "eval \"$PLAN\" || true; echo ran > ran.txt"}}]}
           {"expect": {"tool_result_contains": "denied by a human"}, "text": "as you like"}
           {"tool_calls": [{"name": "exec", "arguments": {"command": "eval \"$PLAN\" || true; echo ran > ran.txt"}}]}
           {"text": "it ran"}
           {"tool_calls": [{"name": "exec", "arguments": {"command": "sleep 614"}}]}
           {"text": "good bye"}"#,
    );
    user.configure(&model.config(""));
    let mut terminal = Terminal::start(&user, &["agent"]);
    terminal.wait_for("Ctrl-D ends the conversation");
    terminal.press("hello\n");
    terminal.wait_for("first answer");
    terminal.press("do it\n");
    let question = terminal.wait_for("d deny");
    for part in ["run a command that needs a look", "eval", "code:", "expires in"] {
        assert!(question.contains(part), "no `{part}` in {question}");
    }
    terminal.wait_for("(expires in 118 s)");
    terminal.press("xd");
    terminal.wait_for("as you like");
    assert!(!user.work().join("ran.txt").exists());
    terminal.press("do it all the same\n");
    terminal.wait_for("d deny");
    terminal.press("a");
    terminal.wait_for("it ran");
    assert!(user.work().join("ran.txt").exists());
    terminal.press("wait\n");
    terminal.wait_for("sleep 614");
    interrupt(&terminal.child);
    terminal.wait_for("cancelled");
    terminal.press("bye\n");
    terminal.wait_for("good bye");
    terminal.press("\u{4}");
    assert_eq!(terminal.end(), Some(0));
    assert_eq!(model.stop().code, Some(0));
}

#[test]
fn a_conversation_in_json_has_a_line_for_each_turn() {
    let user = User::new();
    let model = ModelServer::start(&user, r#"{"text": "first"} {"text": "second"}"#);
    user.configure(&model.config(""));
    let mut terminal = Terminal::start(&user, &["agent", "--json"]);
    terminal.wait_for("Ctrl-D ends the conversation");
    for answer in ["first", "second"] {
        terminal.press("go on\n");
        terminal.wait_for(&format!(r#"{{"outcome":"answered","text":"{answer}""#));
    }
    terminal.press("\u{4}");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn another_terminal_answers_first_and_the_question_goes_away() {
    let user = User::new();
    let model = ModelServer::start(
        &user,
        r#"{"tool_calls": [{"name": "exec", "arguments": {"command": "eval \"$PLAN\" || true; echo ran > ran.txt"}}]}
           {"text": "it ran"}"#,
    );
    user.configure(&model.config(""));
    let terminal = Terminal::start(&user, &["agent", "-m", "do it"]);
    terminal.wait_for("d deny");
    let list = user.run(&["approvals", "list", "--json"]).succeeded().json();
    user.run(&["approvals", "approve", list[0]["code"].as_str().unwrap()]).succeeded();
    terminal.wait_for("it ran");
    assert_eq!(terminal.end(), Some(0));
    assert!(user.work().join("ran.txt").exists());
}

#[test]
fn the_demo_can_be_answered_by_hand() {
    let user = User::new();
    let mut terminal = Terminal::start(&user, &["demo", "--interactive"]);
    let shown = terminal.wait_for("d deny");
    assert!(shown.contains("\u{1b}[1m"), "colour is for terminals: {shown}");
    terminal.press("d");
    terminal.wait_for("asked: deny");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn no_color_is_honoured() {
    let user = User::new();
    let terminal = Terminal::start(&user, &["--no-color", "hooks"]);
    let shown = terminal.wait_for("builtin:passthrough");
    assert!(!shown.contains('\u{1b}'), "{shown}");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn findings_on_a_terminal_are_a_table_with_lines_and_columns() {
    let user = User::new();
    let mut terminal = Terminal::start(&user, &["scan"]);
    terminal.press("nothing\nµ ann@example.org\n\u{4}");
    let screen = terminal.wait_for("0.");
    let row: Vec<_> = screen.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(row[..5], ["2", "3", "pii", "email", "11..26"], "{screen}");
    assert_eq!(terminal.end(), Some(0));
}
