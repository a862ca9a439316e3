//! `approvals.surfaces`: people are told by `serve`, and a test notice by the command line.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::approvals::{agent, ran, script};
use super::gateway::{look, serve, text};
use super::support::{ModelServer, User, done, interrupt, until};

/// A server of bots: whoever is told of a question presses its first button. Returns where it is, and what it was told.
fn bots() -> (u16, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (told, heard) = mpsc::channel();
    let pressed = Arc::<Mutex<Option<Value>>>::default();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (told, pressed) = (told.clone(), Arc::clone(&pressed));
            thread::spawn(move || take(stream.unwrap(), &told, &pressed));
        }
    });
    (port, heard)
}

fn take(mut stream: TcpStream, told: &mpsc::Sender<Value>, pressed: &Mutex<Option<Value>>) {
    let Some((method, body)) = read(&mut stream) else { return };
    let result = match method.as_str() {
        "getUpdates" => {
            let update = pressed.lock().unwrap().take();
            // Whoever asks for updates waits for one.
            if update.is_none() {
                thread::sleep(Duration::from_millis(50));
            }
            Value::Array(update.into_iter().collect())
        }
        _ => json!({ "message_id": 7 }),
    };
    if let Some(handle) = body["reply_markup"]["inline_keyboard"][0][0].get("callback_data") {
        *pressed.lock().unwrap() = Some(json!({ "update_id": 1, "callback_query": {
            "id": "q1", "from": { "id": 42, "is_bot": false }, "data": handle, "message": { "chat": { "id": -100 } },
        }}));
    }
    if method == "sendMessage" {
        let _ = told.send(body);
    }
    let answer = json!({ "ok": true, "result": result }).to_string();
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
        answer.len()
    );
}

/// Reads a request: the last part of its path, and its body.
fn read(stream: &mut TcpStream) -> Option<(String, Value)> {
    let mut lines = BufReader::new(stream);
    let mut first = String::new();
    lines.read_line(&mut first).ok()?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).ok()?;
        if let Some(said) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = said.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    lines.read_exact(&mut body).ok()?;
    let method = first.split(' ').nth(1)?.rsplit('/').next()?.to_owned();
    Some((method, serde_json::from_slice(&body).ok()?))
}

fn token() -> String {
    ["7001:", "AAH-sesame-of-", "the-bot"].concat()
}

fn operators() -> String {
    ["watch", "0123456789abcdef"].join("-")
}

fn config(port: u16) -> String {
    let token = token();
    format!(
        "
approvals:
  people: {{ann: {{telegram: 42}}}}
  surfaces:
    console: https://backstop.example.com
    telegram:
      phone: {{token: \"{token}\", chats: [-100], api: \"http://127.0.0.1:{port}\"}}
"
    )
}

#[test]
fn a_test_notice_is_sent_and_what_came_back_is_said() {
    let (port, heard) = bots();
    let user = User::with_config(&config(port));
    let done = user.run(&["approvals", "surfaces", "test", "phone"]).succeeded();
    assert_eq!(done.out, "-100: sent, message 7\n");
    let message = heard.recv().unwrap();
    assert_eq!(message["chat_id"], "-100");
    assert!(message["text"].as_str().unwrap().contains("test of Backstop"), "{message}");
    let listed = user.run(&["--json", "approvals", "surfaces", "list"]).succeeded().json();
    assert_eq!((&listed[0]["surface"], &listed[0]["answers"]), (&"phone".into(), &"once".into()));
    let unknown = user.run(&["approvals", "surfaces", "test", "phones"]);
    assert!(unknown.code == Some(1) && unknown.err.contains("there are `phone`"), "{}", unknown.whole());
    // One that nobody is behind.
    user.configure(&config(1));
    let failed = user.run(&["approvals", "surfaces", "test", "phone"]);
    assert!(
        failed.code == Some(1) && failed.err.contains("error: -100: no connection"),
        "{}",
        failed.whole()
    );
    assert!(!failed.whole().contains("sesame"), "{}", failed.whole());
}

#[test]
fn the_list_says_whether_it_is_quiet_and_until_when() {
    let utc = jiff::tz::TimeZone::UTC;
    let hour = |from_now: i64| {
        let at = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(from_now);
        utc.to_datetime(at).strftime("%H:00").to_string()
    };
    let hours = |from: &str, to: &str| {
        let surfaces = config(1);
        format!("{surfaces}    quiet_hours: {{from: '{from}', to: '{to}', zone: UTC, unless: never}}\n")
    };
    // Also where another hour begins while the test runs.
    let (from, to) = (hour(-1), hour(3));
    let user = User::with_config(&hours(&from, &to));
    let listed = user.run(&["approvals", "surfaces", "list"]).succeeded();
    assert!(listed.out.contains("phone") && !listed.out.contains("quiet"), "{}", listed.whole());
    let says = format!("quiet hours: {from} to {to} (UTC); now, until 20");
    assert!(listed.err.contains(&says), "{}", listed.whole());
    assert!(listed.err.contains(&format!(" {to}: no new question is told")), "{}", listed.whole());
    let until = user.run(&["--json", "approvals", "surfaces", "list"]).succeeded().json();
    let left = until[0]["quietUntil"].as_i64().unwrap() - jiff::Timestamp::now().as_millisecond();
    assert!((3_600_000..=3 * 3_600_000).contains(&left), "{until}");
    user.configure(&hours(&hour(5), &hour(6)));
    let listed = user.run(&["approvals", "surfaces", "list"]).succeeded();
    assert!(listed.err.contains("(UTC); not now"), "{}", listed.whole());
    let until = user.run(&["--json", "approvals", "surfaces", "list"]).succeeded().json();
    assert_eq!(until[0]["quietUntil"], Value::Null);
}

#[test]
fn the_doctor_says_of_each_surface_whether_it_can_be_used_and_who_could_answer() {
    let [out, back] = ["o", "b"].map(|letter| letter.repeat(32));
    let user = User::with_config(&format!(
        "
approvals:
  people: {{ann: {{telegram: 42}}}}
  surfaces:
    console: https://backstop.example.com
    telegram:
      phone: {{token: \"{}\", chats: [-100]}}
    ntfy:
      alarm: {{server: https://ntfy.example.com, topic: ops, token_file: gone}}
      bell: {{server: https://ntfy.example.com, topic: ops}}
    webhook:
      pager: {{url: https://pager.example.com/hook, secret: {out}, answer_secret: {back}}}
",
        token()
    ));
    let told = user.run(&["doctor", "claude", "--json"]);
    assert_eq!(told.code, Some(1), "{}", told.whole());
    assert!(!told.whole().contains("sesame") && !told.whole().contains(&out), "{}", told.whole());
    let told = told.json();
    let about = told.as_array().unwrap().last().unwrap();
    assert_eq!(about["client"], Value::Null, "{about}");
    let checks = about["checks"].as_array().unwrap();
    let text_of = |check: &Value, key: &str| check[key].as_str().unwrap().to_owned();
    let found = checks.iter().map(|check| (text_of(check, "grade"), text_of(check, "text")));
    let expected = [
        ("good", "`telegram.phone` can be used as it is configured; 1 of `approvals.people` could"),
        ("failed", "`approvals.surfaces.ntfy.alarm` can't be used: "),
        ("good", "`ntfy.bell` can be used as it is configured; nothing is answered there"),
        ("warning", "none of `approvals.people` has `webhook`"),
        ("note", "not told of questions of coding agents and the proxy: "),
        ("note", "the audit trail has no witness: "),
    ];
    for ((grade, text), (expected, part)) in found.clone().zip(expected) {
        assert!(grade == expected && text.contains(part), "{grade} {text}");
    }
    assert_eq!(found.count(), expected.len(), "{about}");
    // People read it below a title of its own, after the clients.
    let read = user.run(&["doctor", "claude"]);
    assert!(read.out.contains("\nBackstop\n  good    the surface `telegram.phone`"), "{}", read.whole());
}

/// What the doctor says of those whom `serve` tells: grades and texts.
fn looked_at(user: &User) -> Vec<(String, String)> {
    let told = user.run(&["doctor", "claude", "--json"]).json();
    let about = told.as_array().unwrap().last().unwrap();
    assert_eq!(about["client"], Value::Null, "{told}");
    let text_of = |check: &Value, key: &str| check[key].as_str().unwrap().to_owned();
    let checks = about["checks"].as_array().unwrap().iter();
    checks.map(|check| (text_of(check, "grade"), text_of(check, "text"))).collect()
}

#[test]
fn the_doctor_says_how_much_could_be_answered() {
    let config = |strict: bool| {
        format!(
            "
agent: {{approvals: {{strict: {strict}}}}}
approvals:
  people: {{ann: {{telegram: 42}}}}
  surfaces:
    console: https://backstop.example.com
    telegram:
      phone: {{token: \"{}\", chats: [-100], answers: deny}}
",
            token()
        )
    };
    let user = User::new();
    for (strict, said) in [
        (false, "1 of `approvals.people` could answer there, up to `deny`"),
        (true, "nothing is answered there, by `agent.approvals.strict`"),
    ] {
        user.configure(&config(strict));
        let checks = looked_at(&user);
        let (grade, text) = &checks[0];
        assert!(grade == "good" && text.ends_with(said), "{grade} {text}");
    }
}

#[test]
fn the_doctor_says_whose_questions_no_surface_is_told_of() {
    let user = User::new();
    let surface = "approvals: {surfaces: {console: 'https://backstop.example.com', ntfy: {bell: {server: 'https://ntfy.example.com', topic: ops}}}}";
    let waits = "agent: {approvals: {wait: true}}";
    let proxy = "gateway: {hooks: {approvals: wait}}";
    for (config, whose) in [
        (format!("{surface}\n"), Some("coding agents and the proxy")),
        (format!("{surface}\n{waits}\n"), Some("the proxy")),
        (format!("{surface}\n{proxy}\n"), Some("coding agents")),
        (format!("{surface}\n{proxy}\n{waits}\n"), None),
        // Where there is none, nobody expects to be told.
        ("{}\n".to_owned(), None),
    ] {
        user.configure(&config);
        let checks = looked_at(&user);
        let told = checks.iter().find(|(_, text)| text.contains("are not told of questions of"));
        match whose {
            Some(whose) => assert!(told.unwrap().1.contains(&format!("questions of {whose}:")), "{checks:?}"),
            None => assert_eq!(told, None, "{config}"),
        }
    }
}

#[test]
fn the_doctor_asks_no_server_that_is_a_witness_and_misses_nothing_before_there_is_a_trail() {
    let user = User::new();
    let kept = user.path().join("kept");
    std::fs::create_dir(&kept).unwrap();
    let key = "witness.example/w1+eb762cc2+BNdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea";
    user.configure(&format!(
        "audit: {{witness: [{{to: 'https://witness.example', key: '{key}'}}, {{to: '{}'}}]}}\n",
        kept.display()
    ));
    let checks = looked_at(&user);
    let expected = [
        "the witness `witness.example/w1` is configured, and is not asked here",
        "has nothing to keep: there is no audit trail yet",
    ];
    for ((grade, text), expected) in checks.iter().zip(expected) {
        assert!(grade == "note" && text.ends_with(expected), "{grade} {text}");
    }
    assert_eq!(checks.len(), expected.len(), "{checks:?}");
}

#[test]
fn serve_tells_of_a_question_that_another_process_asks_and_hears_the_answer() {
    let (port, heard) = bots();
    let user = User::new();
    let model = ModelServer::start(&user, &script(1));
    let gateway = format!("gateway: {{operators: {{token: {}}}}}\n", operators());
    user.configure(&format!("{}{}", model.config(&gateway), config(port)));
    let (child, line) = serve(&user);
    let asking = agent(&user, &["--wait-approvals"]);
    let question = heard.recv().unwrap();
    assert!(question["text"].as_str().unwrap().contains("echo ran"), "{question}");
    done(asking).succeeded();
    assert!(ran(&user), "the call that was allowed there runs here");
    let outcome = heard.recv().unwrap();
    let by = "Allowed by ann: account 42 of Telegram, by surface phone.";
    assert!(outcome["text"].as_str().unwrap().starts_with(by), "{outcome}");
    // The message is withdrawn by the one that was heard of just now.
    until("what was told and answered is counted", || {
        let metrics = look(text(&line, "address"), "/-/metrics", &operators());
        let expected = [
            "messages_total{surface=\"phone\",result=\"told\"} 1\n",
            "messages_total{surface=\"phone\",result=\"withdrawn\"} 1\n",
            "messages_total{surface=\"phone\",result=\"failed\"} 0\n",
            "answers_total{surface=\"phone\",result=\"counted\"} 1\n",
        ];
        let is_there = |line: &&str| metrics.contains(&format!("backstop_surface_{line}"));
        expected.iter().all(is_there).then_some(())
    });
    let trail = user.trail();
    let answered = trail.iter().find(|entry| entry["kind"] == "approval.answered").unwrap();
    assert!(answered.to_string().contains("ann: account 42 of Telegram, by surface phone"), "{answered}");
    interrupt(&child);
    let ended = done(child);
    assert_eq!(ended.code, Some(0), "{}", ended.whole());
    assert!(!ended.whole().contains("sesame"), "{}", ended.whole());
    model.stop();
}
