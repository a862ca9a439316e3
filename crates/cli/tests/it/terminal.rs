//! `backstop` on a terminal: a pseudo-terminal whose keys are pressed by the test.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::support::{ModelServer, User, interrupt, until};

/// Longer than nothing must come before a key counts.
const AT_REST: Duration = Duration::from_millis(900);

pub(crate) struct Terminal {
    child: Child,
    keys: File,
    seen: Arc<Mutex<String>>,
}

impl Terminal {
    pub(crate) fn start(user: &User, args: &[&str]) -> Self {
        Self::of(user.command(args))
    }

    /// As [`Self::start`], where it is the program's own, which so knows whether it is still there.
    fn of_its_own(user: &User, args: &[&str]) -> Self {
        let plain = user.command(args);
        let mut command = std::process::Command::new("/usr/bin/setsid");
        command.arg("--ctty").arg(plain.get_program()).args(plain.get_args()).env_clear();
        command.current_dir(plain.get_current_dir().unwrap());
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Self::of(command)
    }

    fn of(mut command: std::process::Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let open = || -> OwnedFd {
            rustix::fs::open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap()
        };
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
    pub(crate) fn wait_for(&self, text: &str) -> String {
        until(text, || {
            let mut seen = self.seen.lock().unwrap();
            seen.contains(text).then(|| std::mem::take(&mut *seen))
        })
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.type_bytes(keys.as_bytes());
    }

    fn type_bytes(&mut self, bytes: &[u8]) {
        self.keys.write_all(bytes).unwrap();
    }

    /// Presses a key at rest, again where a busy machine did not take it for one, until `text` is on the screen.
    #[track_caller]
    fn answer(&mut self, key: &str, text: &str) -> String {
        for _ in 0..10 {
            std::thread::sleep(AT_REST);
            self.press(key);
            let end = Instant::now() + Duration::from_secs(6);
            while Instant::now() < end {
                let mut seen = self.seen.lock().unwrap();
                if seen.contains(text) {
                    return std::mem::take(&mut *seen);
                }
                drop(seen);
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        panic!("`{key}` did not lead to `{text}`: {}", self.seen.lock().unwrap());
    }

    /// Types a word as a person does, and ends it.
    fn type_slowly(&mut self, word: &str) {
        std::thread::sleep(AT_REST);
        for c in word.chars() {
            self.press(&c.to_string());
            std::thread::sleep(Duration::from_millis(120));
        }
        self.press("\n");
    }

    pub(crate) fn end(mut self) -> Option<i32> {
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
    terminal.wait_for("(expires in 117 s)");
    terminal.answer("d", "as you like");
    assert!(!user.work().join("ran.txt").exists());
    // What is typed while the question is still being taken off the screen belongs to nobody.
    std::thread::sleep(AT_REST);
    terminal.press("do it all the same\n");
    terminal.wait_for("d deny");
    terminal.answer("a", "it ran");
    assert!(user.work().join("ran.txt").exists());
    std::thread::sleep(AT_REST);
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

const ASKS_ONCE: &str = r#"{"tool_calls": [{"name": "exec", "arguments": {"command": "eval \"$PLAN\" || true; echo ran > ran.txt"}}]}
       {"text": "over"}"#;

/// What comes at once, and the milliseconds before the next.
type Piece = (Vec<u8>, u64);

/// What nobody means as the answer `key`, in pieces as they come.
fn no_answers(key: char) -> Vec<(&'static str, Vec<Piece>)> {
    let upper = key.to_ascii_uppercase();
    let at_once = |text: String| vec![(text.into_bytes(), 0)];
    let ctrl = (key as u8) & 0x1f;
    vec![
        ("an arrow", at_once("\u{1b}[A".to_owned())),
        ("an arrow of another mode", at_once("\u{1b}OA".to_owned())),
        ("an arrow with Shift, as some terminals have it", at_once(format!("\u{1b}[{key}"))),
        ("an arrow cut in pieces", vec![(b"\x1b".to_vec(), 30), (b"[".to_vec(), 30), (b"A".to_vec(), 0)]),
        ("an arrow or a key by its letter", at_once(format!("\u{1b}[{upper}"))),
        ("Ctrl, as newer terminals have it", at_once(format!("\u{1b}[{};5u", key as u32))),
        ("Alt", at_once(format!("\u{1b}{key}"))),
        ("Alt, cut in pieces", vec![(b"\x1b".to_vec(), 30), (vec![key as u8], 0)]),
        ("Ctrl", vec![(vec![ctrl], 0)]),
        ("Shift", at_once(upper.to_string())),
        ("a paste with brackets", at_once(format!("\u{1b}[200~{key}\u{1b}[201~"))),
        ("a paste without", at_once(format!("{key}\n"))),
        ("a paste of more", at_once(format!("{key}{key}{key}"))),
        ("a letter that comes in two pieces", vec![(vec![0xc3], 700), (vec![0xa9], 0)]),
        ("a line", at_once("yes\n".to_owned())),
    ]
}

/// Presses what is no answer, allowing and denying, and answers in the end: the answer is what counts.
#[track_caller]
fn only_the_answer_counts(key: &str, runs: bool) {
    let user = User::new();
    let model = ModelServer::start(&user, ASKS_ONCE);
    user.configure(
        &model.config("").replace("scripted-model }", "scripted-model, approvals: {timeoutMs: 600000} }"),
    );
    let mut terminal = Terminal::start(&user, &["agent", "-m", "do it"]);
    // Ahead of the question, and as it comes.
    terminal.press("aaaa");
    terminal.wait_for("d deny");
    terminal.press("a");
    for meant in ['a', 'd', 'y', 'n', 'w'] {
        for (what, pieces) in no_answers(meant) {
            for (bytes, pause) in pieces {
                terminal.type_bytes(&bytes);
                std::thread::sleep(Duration::from_millis(pause));
            }
            std::thread::sleep(Duration::from_millis(560));
            assert!(!terminal.seen.lock().unwrap().contains("over"), "{what} of `{meant}` was an answer");
        }
    }
    // A resize is no key either.
    let size = rustix::termios::Winsize { ws_row: 7, ws_col: 31, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&terminal.keys, size).unwrap();
    let process = rustix::process::Pid::from_raw(i32::try_from(terminal.child.id()).unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::WINCH).unwrap();
    std::thread::sleep(Duration::from_millis(560));
    assert!(!terminal.seen.lock().unwrap().contains("over"), "a resize was an answer");
    let screen = terminal.answer(key, "over");
    assert!(!screen.contains("type `always`"), "{screen}");
    assert_eq!(terminal.end(), Some(0));
    assert_eq!(user.work().join("ran.txt").exists(), runs);
    assert_eq!(user.run(&["grants", "list", "--json"]).succeeded().out, "[]\n");
}

#[test]
fn what_is_no_key_on_its_own_allows_nothing() {
    only_the_answer_counts("d", false);
}

#[test]
fn what_is_no_key_on_its_own_denies_nothing() {
    only_the_answer_counts("a", true);
}

#[test]
fn what_holds_from_now_on_wants_a_word_that_is_typed() {
    let user = User::new();
    let model = ModelServer::start(&user, ASKS_ONCE);
    user.configure(&model.config(""));
    let mut terminal = Terminal::start(&user, &["agent", "-m", "do it"]);
    terminal.wait_for("d deny");
    terminal.answer("w", "type `always` and Enter");
    std::thread::sleep(AT_REST);
    terminal.press("always\n");
    terminal.wait_for("d deny");
    assert_eq!(user.run(&["grants", "list", "--json"]).succeeded().out, "[]\n", "pasted");
    let end = Instant::now() + Duration::from_secs(50);
    while !terminal.seen.lock().unwrap().contains("over") {
        assert!(Instant::now() < end, "no word was taken");
        terminal.answer("w", "type `always` and Enter");
        terminal.type_slowly("always");
        std::thread::sleep(AT_REST);
    }
    assert_eq!(terminal.end(), Some(0));
    assert!(user.work().join("ran.txt").exists());
    let grants = user.run(&["grants", "list", "--json"]).succeeded().json();
    assert_eq!(grants.as_array().unwrap().len(), 1, "{grants:#}");
}

#[test]
fn what_is_critical_is_allowed_in_another_terminal() {
    let critical = "guards: {command_safety: {packs: [{id: test.touch, severity: critical, verdict: ask, profile: core, \
                    reason: touching wants a word, code: TOUCHED, when: [{run: {program: [touch]}}]}]}}\n";
    let script =
        r#"{"tool_calls": [{"name": "exec", "arguments": {"command": "touch ran.txt"}}]} {"text": "over"}"#;
    for here in [false, true] {
        let user = User::new();
        let model = ModelServer::start(&user, script);
        let config = model.config(critical);
        user.configure(&match here {
            true => config.replace("scripted-model }", "scripted-model, approvals: {critical: here} }"),
            false => config,
        });
        let mut terminal = Terminal::start(&user, &["agent", "-m", "do it"]);
        let question = terminal.wait_for("d deny");
        let list = user.run(&["approvals", "list", "--json"]).succeeded().json();
        let code = list[0]["code"].as_str().unwrap();
        assert_eq!(question.contains("a allow once"), here, "{question}");
        assert_eq!(question.contains(&format!("backstop approvals approve {code}")), !here, "{question}");
        if here {
            terminal.answer("a", "over");
        } else {
            std::thread::sleep(AT_REST);
            terminal.press("a");
            terminal.wait_for("expires in 115 s");
            assert!(!user.work().join("ran.txt").exists(), "it was allowed here");
            user.run(&["approvals", "approve", code]).succeeded();
            terminal.wait_for("over");
        }
        assert_eq!(terminal.end(), Some(0));
        assert!(user.work().join("ran.txt").exists());
    }
}

/// The terminal's settings, as `stty -g` has them.
fn settings_of(terminal: &Terminal) -> rustix::termios::Termios {
    rustix::termios::tcgetattr(&terminal.keys).unwrap()
}

#[test]
fn a_signal_at_a_question_leaves_the_terminal_as_it_was() {
    use rustix::process::{Pid, Signal, kill_process};
    use rustix::termios::LocalModes;
    for signal in [Signal::TERM, Signal::QUIT, Signal::HUP] {
        let user = User::new();
        let model = ModelServer::start(&user, ASKS_ONCE);
        user.configure(&model.config(""));
        let mut terminal = Terminal::start(&user, &["agent", "-m", "do it"]);
        terminal.wait_for("d deny");
        let echo = LocalModes::ECHO | LocalModes::ICANON;
        until("single keys", || (!settings_of(&terminal).local_modes.intersects(echo)).then_some(()));
        let process = Pid::from_raw(i32::try_from(terminal.child.id()).unwrap()).unwrap();
        kill_process(process, signal).unwrap();
        until("the end", || terminal.child.try_wait().unwrap());
        assert!(settings_of(&terminal).local_modes.contains(echo), "{signal:?}");
        terminal.wait_for("\u{1b}[?2004l");
    }
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
    terminal.answer("d", "asked: deny");
    assert_eq!(terminal.end(), Some(0));
}

/// A program that owns the terminal has it to itself; what was decided is told when it is over.
#[test]
fn nothing_is_written_into_a_program_that_runs_on_the_terminal() {
    let user = User::with_config(super::run_client::NO_SHELL);
    let claude = super::run_client::claude(&user);
    let terminal = Terminal::start(&user, &["run", "--", claude.to_str().unwrap(), "-p", "hi"]);
    let screen = terminal.wait_for("asked about");
    assert_eq!(terminal.end(), Some(2));
    assert!(!screen.contains("before_tool_call"), "{screen}");
    let (before, after) = screen.split_once("arguments: -p hi").unwrap();
    assert!(!before.contains("backstop: "), "{screen}");
    assert!(after.contains("backstop: 1 tool call judged, 1 blocked, 0 asked about"), "{screen}");
}

/// The bell and notifications are bytes in the program's own output, so they are sent only where the operator asks for them, once
/// for a question.
#[test]
fn a_terminal_is_told_of_a_question_only_where_the_operator_says_how() {
    const ASKS: &str = "guards: {command_safety: {profile: strict}}\n";
    for (notify, bytes) in [
        ("bell", "\x07"),
        ("osc9", "\x1b]9;An agent's call waits for you: backstop approvals list\x07"),
        ("osc777", "\x1b]777;notify;Backstop;An agent's call waits for you: backstop approvals list\x07"),
        ("desktop", ""),
        ("\"off\"", ""),
    ] {
        let user = User::with_config(&format!("{ASKS}agent: {{approvals: {{notify: {notify}}}}}\n"));
        let claude = super::run_client::claude_that_stays(&user, "eval \"$PLAN\"");
        let mut terminal = Terminal::start(&user, &["run", "--", claude.to_str().unwrap(), "-p", "hi"]);
        let screen = terminal.wait_for("answered");
        assert!(!screen.contains('\x07'), "{notify}: before anything was asked: {screen:?}");
        if bytes.is_empty() {
            // The line of the run is written by the same clock.
            std::thread::sleep(AT_REST * 2);
        } else {
            let told = terminal.wait_for(bytes);
            assert!(!told.contains("PLAN") && !told.contains("allow-once"), "{told:?}");
        }
        terminal.press("\n");
        let rest = terminal.wait_for("asked about");
        assert!(rest.contains("1 asked about") && !rest.contains('\x07'), "{notify}: {rest:?}");
        terminal.end();
    }
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

/// A command, and a hook that adds a letter to what the model says: one more where it stands twice.
fn speaks(word: &str) -> String {
    format!(
        "api.registerCommand({{ name: 'speak', description: '', handler: () => ({{ text: 'command {word}' }}) }});
         api.on('before_response_emit', (event) => ({{ content: event.content + ' [{word}]' }}));"
    )
}

#[test]
fn plugins_are_loaded_anew_between_messages_and_when_the_terminal_hangs_up_and_is_still_there() {
    let user = User::new();
    super::plugin_tools::script(&user, "speaks", &speaks("one"));
    let model = ModelServer::start(&user, &[r#"{"text": "said"}"#; 8].join("\n"));
    user.configure(&model.config(SPEAKS));
    let mut terminal = Terminal::of_its_own(&user, &["agent"]);
    terminal.wait_for("Ctrl-D ends the conversation");
    let asked = |terminal: &mut Terminal, message: &str, answer: &str| {
        terminal.press(&format!("{message}\n"));
        // The prompt comes when the answer is over.
        terminal.wait_for(answer)
    };
    asked(&mut terminal, "hello", "said [one]");
    asked(&mut terminal, "/speak", "command one [one]");
    // Another version: neither lost nor doubled.
    super::plugin_tools::script(&user, "speaks", &speaks("two"));
    let seen = asked(&mut terminal, "hello", "said [two]");
    assert!(seen.contains("the plugins were loaded anew") && !seen.contains("[one]"), "{seen}");
    let seen = asked(&mut terminal, "/speak", "command two [two]");
    assert!(!seen.contains("loaded anew"), "nothing has changed since: {seen}");
    // One that can't be had changes nothing.
    super::plugin_tools::script(&user, "bad", "api.on('no_such_point', () => {});");
    let seen = asked(&mut terminal, "hello", "said [two]");
    assert!(seen.contains("those before stay") && seen.contains("no_such_point"), "{seen}");
    user.run(&["plugins", "remove", "bad"]).succeeded();
    let seen = asked(&mut terminal, "hello", "said [two]");
    assert!(seen.contains("the plugins were loaded anew"), "{seen}");
    // The signal alone, with the same list.
    super::support::hang_up(&terminal.child);
    until("the signal", || has_no_pending_hang_up(&terminal.child).then_some(()));
    let seen = asked(&mut terminal, "hello", "said [two]");
    assert!(seen.contains("the plugins were loaded anew"), "{seen}");
    // One that is gone takes its command and its hook with it.
    user.run(&["plugins", "disable", "speaks"]).succeeded();
    let seen = asked(&mut terminal, "/speak", "said");
    assert!(!seen.contains("command"), "{seen}");
    terminal.press("\u{4}");
    assert_eq!(terminal.end(), Some(0));
}

const SPEAKS: &str = "plugins: {entries: {speaks: {hooks: {allowConversationAccess: true}}}}\n";

/// Whether the program has taken the signal.
fn has_no_pending_hang_up(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let pending =
        status.lines().filter_map(|line| line.strip_prefix("ShdPnd:").or(line.strip_prefix("SigPnd:")));
    pending.map(|mask| u64::from_str_radix(mask.trim(), 16).unwrap()).all(|mask| mask & 1 == 0)
}
