//! Trying a call in the console of a real server, under the configuration in force and another one beside it.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Child;

use serde_json::Value;

use super::gateway::{serve, text};
use super::support::{User, done, interrupt, until};

/// The name by which the console is opened, as through TLS in front of the server.
pub(super) const HOST: &str = "console.example";

/// A server, and somebody who is signed in at its console.
struct Seat {
    child: Child,
    server: Value,
    cookie: String,
    form: String,
}

fn encoded(fields: &[(&str, &str)]) -> String {
    let escaped = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let pairs: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    pairs.join("&")
}

/// The status of an answer, its head and its body.
pub(super) fn ask(
    server: &Value,
    method: &str,
    path: &str,
    cookie: &str,
    fields: &[(&str, &str)],
) -> (u16, String, String) {
    let body = encoded(fields);
    let head = format!(
        "{method} /-/console{path} HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\nsec-fetch-site: same-origin\r\n\
         cookie: {cookie}\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(text(server, "address").strip_prefix("http://").unwrap()).unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_owned(), body.to_owned())
}

impl Seat {
    fn take(user: &User, scopes: &[&str]) -> Self {
        let (child, server) = serve(user);
        let mut words = vec!["--json", "token", "create", "--user", "ann"];
        words.extend(scopes.iter().flat_map(|scope| ["--scope", scope]));
        let made = user.run(&words).succeeded().json();
        let cookie = until("somebody was signed in", || {
            let (status, head, _) = ask(&server, "POST", "/sign-in", "", &[("token", text(&made, "token"))]);
            let line = head.lines().find_map(|line| line.strip_prefix("set-cookie: "))?;
            (status < 400).then(|| line.split(';').next().unwrap().to_owned())
        });
        let (status, _, page) = ask(&server, "GET", "/try", &cookie, &[]);
        assert_eq!(status, 200, "{page}");
        let form = page.split_once("name=\"form\" value=\"").unwrap().1.chars().take(64).collect();
        Self { child, server, cookie, form }
    }

    fn page(&self) -> String {
        ask(&self.server, "GET", "/try", &self.cookie, &[]).2
    }

    /// Tries a command as soon as the person may.
    fn tries(&self, command: &str, other: &str) -> (u16, String) {
        let fields = [("form", self.form.as_str()), ("command", command), ("other", other)];
        until("the call was tried", || {
            let (status, _, page) = ask(&self.server, "POST", "/try", &self.cookie, &fields);
            (status != 429).then_some((status, page))
        })
    }

    /// What the page says of the whole, in short.
    fn compared(&self, command: &str, other: &str) -> String {
        let (status, page) = self.tries(command, other);
        assert_eq!(status, 200, "{page}");
        let begun = page.split_once("id=\"compared\"").unwrap_or_else(|| panic!("{page}")).1;
        words(begun.split_once("<div").unwrap().0)
    }

    fn end(self) {
        interrupt(&self.child);
        assert_eq!(done(self.child).code, Some(0));
    }
}

/// A part of a page without its markup.
pub(super) fn words(page: &str) -> String {
    let texts = page.split('<').map(|part| part.split_once('>').map_or("", |(_, text)| text));
    let texts = texts.collect::<Vec<_>>().join(" ");
    texts.split_whitespace().collect::<Vec<_>>().join(" ").replace(" .", ".").replace(" ,", ",")
}

fn config(hooks: &str) -> String {
    format!("gateway: {{hosts: [{HOST}]}}\n{hooks}")
}

/// A configuration that stops commands with a word in them.
fn stopping(word: &str) -> String {
    format!(
        "hooks: {{tool_call: {{pre_call: [{{type: policy, id: words, config: {{deny_argument_patterns: {{command: [\"{word}\"]}}}}}}]}}}}\n"
    )
}

#[test]
fn a_call_is_judged_under_two_configurations() {
    let user = User::with_config(&config(&stopping("alpha")));
    let seat = Seat::take(&user, &["admin"]);
    assert!(seat.page().contains("name=\"other\""), "whoever may have one checked is offered it");
    // By itself, as before.
    assert!(!seat.tries("echo alpha", "").1.contains("Compared"));
    let same = seat.compared("echo alpha", &stopping("alpha"));
    assert!(same.starts_with("the same In force: block. The other configuration: block."), "{same}");
    let looser = seat.compared("echo alpha", &stopping("beta"));
    assert!(looser.starts_with("looser In force: block. The other configuration: allow."), "{looser}");
    let stricter = seat.compared("echo beta", &stopping("beta"));
    assert!(stricter.starts_with("stricter In force: allow. The other configuration: block."), "{stricter}");
    // A guard that is off is not there, and what it stopped passes.
    let off = "guards: {command_safety: {enabled: false}, sensitive_files: {enabled: false}}\n";
    let (_, page) = seat.tries("rm -rf /", off);
    let row = page.split("builtin:command-safety-guard").nth(1).unwrap().split("</tr>").next().unwrap();
    assert!(words(row).contains("not there") && words(row).contains("looser"), "{row}");
    // One that can't be used is told with its place, and compares nothing.
    let (status, wrong) = seat.tries("echo x", "guards: {}\ngatewai: {}\n");
    assert!(status == 400 && wrong.contains("Line 2, column 1") && wrong.contains("gatewai"), "{wrong}");
    let (status, wrong) =
        seat.tries("echo x", "guards: {command_safety: {allow: [{rule: none, reason: x}]}}\n");
    assert!(status == 400 && wrong.contains("no rule of the command guard"), "{wrong}");
    assert!(!wrong.contains("Compared"), "{wrong}");
    // What it says is shown as a text.
    let (_, hostile) = seat.tries("echo x", "\"<script>alert(1)</script>\": {}\n");
    assert!(!hostile.contains("<script>alert") && hostile.contains("&lt;script&gt;alert"), "{hostile}");
    // Who tried what is in the trail by digest, and nothing of it came into force.
    let tried: Vec<Value> =
        user.trail().into_iter().filter(|entry| entry["kind"] == "console.tried").collect();
    assert_eq!(tried.len(), 8, "{tried:?}");
    assert!(tried[0]["body"].get("configuration").is_none(), "{tried:?}");
    let digest = tried[1]["body"]["configuration"].as_str().unwrap();
    assert!(digest.len() >= 12 && tried[2]["body"]["configuration"] != digest, "{tried:?}");
    assert!(!serde_json::to_string(&tried).unwrap().contains("beta"), "{tried:?}");
    assert!(words(&seat.tries("echo alpha", "").1).contains("It would be stopped"));
    seat.end();
}

#[test]
fn what_another_configuration_names_is_not_touched_and_never_counts_as_the_same() {
    let user = User::with_config(&config(""));
    let seat = Seat::take(&user, &["admin"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let webhook = format!(
        "hooks: {{tool_call: {{pre_call: [{{type: webhook, id: asks, config: {{url: 'http://{}/'}}}}]}}}}\n",
        listener.local_addr().unwrap()
    );
    let touched = user.path().join("touched");
    let program = user.path().join("program.sh");
    std::fs::write(&program, format!("#!/bin/sh\n: > {}\n", touched.display())).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = format!(
        "hooks: {{at: {{before_tool_call: [{{type: command, id: starts, command: ['{}']}}]}}}}\n",
        program.display()
    );
    let pack =
        |path: &std::path::Path| format!("guards: {{command_safety: {{packs: ['{}']}}}}\n", path.display());
    let is_there = user.path().join("pack.yaml");
    std::fs::write(&is_there, "no rules: [").unwrap();
    let variable =
        "hooks: {tool_call: {pre_call: [{type: policy, id: names, config: {deny_tools: ['${HOME}']}}]}}\n";
    for (other, name, why) in [
        (webhook.as_str(), "asks", "starts a program or asks a server"),
        (program.as_str(), "starts", "starts a program or asks a server"),
        (&pack(&is_there), "builtin:command-safety-guard", "names a file"),
        (&pack(&user.path().join("nowhere")), "builtin:command-safety-guard", "names a file"),
        (variable, "names", "names a variable"),
    ] {
        let said = seat.compared("echo hello", other);
        assert!(said.starts_with("can't be compared In force: allow."), "{other}: {said}");
        assert!(said.contains(&format!("`{name}` was not asked")) && said.contains(why), "{other}: {said}");
    }
    // Nobody finds out whether a file is there, or what it holds.
    let of = |path: &std::path::Path| seat.compared("echo hello", &pack(path));
    assert_eq!(of(&is_there), of(&user.path().join("nowhere")));
    // A variable of something that judges no call changes nothing, and is told.
    let key = "providers: {a: {api: anthropic, base_url: 'https://a.example', api_key: '${HOME}'}}\n";
    let said = seat.compared("echo hello", key);
    assert!(said.starts_with("the same") && said.contains("variables that it names: HOME"), "{said}");
    assert!(!said.contains(&user.path().display().to_string()), "{said}");
    assert!(listener.accept().is_err(), "no server was asked");
    assert!(!touched.exists(), "no program was started");
    seat.end();
}

#[test]
fn only_who_may_have_a_configuration_checked_may_try_one() {
    let user = User::with_config(&config(""));
    let seat = Seat::take(&user, &["read", "approve"]);
    assert!(!seat.page().contains("name=\"other\""));
    let (status, page) = seat.tries("echo x", "{}");
    assert!(status == 403 && !page.contains("Decision"), "{page}");
    assert_eq!(seat.tries("echo x", "").0, 200, "without one, as before");
    let tried = user.trail().into_iter().filter(|entry| entry["kind"] == "console.tried").count();
    assert_eq!(tried, 1, "what is refused leaves no entry");
    seat.end();
    let user = User::with_config(&config(""));
    let seat = Seat::take(&user, &["admin"]);
    let (status, page) = seat.tries("echo x", &format!("#{}", "x".repeat(1 << 20)));
    assert!(status == 400 && page.contains("has more than 1048576 bytes"), "{status}");
    // So many patterns could take more memory than there is.
    let patterns = vec!["'x'"; 400].join(", ");
    let many = format!(
        "hooks: {{tool_call: {{pre_call: [{{type: policy, config: {{deny_argument_patterns: {{command: [{patterns}]}}}}}}]}}}}\n"
    );
    let (status, page) = seat.tries("echo x", &many);
    assert!(status == 400 && page.contains("too many for a trial"), "{page}");
    seat.end();
}
