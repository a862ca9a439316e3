//! `backstop serve` and `backstop run`, with a scripted model behind them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Child;

use serde_json::Value;

use super::run_client::NO_SHELL;
use super::support::{ModelServer, User, done, hang_up, interrupt, until};

pub(super) const MESSAGE: &str =
    r#"{"model": "scripted-model", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}"#;

/// Posts to `url`, which has everything but the scheme, and gives the whole answer.
pub(super) fn post(url: &str, body: &str) -> String {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// `backstop serve --json --port 0`, and the line it prints.
pub(super) fn serve(user: &User) -> (Child, Value) {
    let mut child = user.command(&["serve", "--json", "--port", "0"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let line = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
    (child, line)
}

pub(super) fn text<'a>(line: &'a Value, key: &str) -> &'a str {
    line[key].as_str().unwrap_or_else(|| panic!("`{key}` is missing in {line}"))
}

fn is_running(process: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z ")
}

#[test]
fn serve_passes_requests_to_the_configured_provider() {
    let user = User::new();
    let model = ModelServer::start(&user, r#"{"text": "from the model"}"#);
    user.configure(&model.config(""));
    let (child, line) = serve(&user);
    let url = text(&line, "url");
    assert_eq!(text(&line["environment"], "ANTHROPIC_BASE_URL"), url);
    assert_eq!(text(&line["environment"], "OPENAI_BASE_URL"), format!("{url}/v1"));
    let answer = post(&format!("{url}/v1/messages"), MESSAGE);
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("from the model"), "{answer}");
    let refused = post(&format!("{}/v1/messages", text(&line, "address")), MESSAGE);
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    interrupt(&child);
    let ended = done(child);
    assert_eq!(ended.code, Some(0), "{}", ended.whole());
    assert!(!ended.err.contains(text(&line, "token")), "JSON has it on stdout: {}", ended.err);
}

#[test]
fn serve_reads_its_configuration_anew_and_keeps_the_one_it_has_where_that_is_broken() {
    let user = User::new();
    let call = r#"{"repeat": true, "tool_calls": [{"name": "exec", "arguments": {"command": "ls"}}]}"#;
    let model = ModelServer::start(&user, call);
    user.configure(&model.config(""));
    let (mut child, line) = serve(&user);
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut hears = |words: &str| {
        let heard = told.by_ref().map(Result::unwrap).find(|line| line.contains(words));
        assert!(heard.is_some(), "never said: {words}");
    };
    let ask = || post(&format!("{}/v1/messages", text(&line, "url")), MESSAGE);
    assert!(ask().contains("tool_use"));
    user.configure(&model.config(NO_SHELL));
    assert!(ask().contains("tool_use"), "nobody said that it should be read");
    hang_up(&child);
    hears("was read anew");
    assert!(ask().contains("withheld `exec`"), "with the token that it had");
    for broken in ["gateway: {listen: nowhere}\n", "gateway: {listen: '0.0.0.0:1'}\n", "guards: [\n"] {
        user.configure(broken);
        hang_up(&child);
        hears("was not read anew");
        assert!(ask().contains("withheld `exec`"), "{broken}");
    }
    interrupt(&child);
    assert_eq!(done(child).code, Some(0));
}

#[test]
fn who_asks_twice_does_not_wait_for_answers() {
    let user = User::new();
    // A model that never answers.
    let model = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}", model.local_addr().unwrap());
    user.configure(&format!(
        "providers: {{ slow: {{ api: anthropic, base_url: '{base_url}' }} }}\ngateway: {{ timeouts: {{ drainMs: 600000 }} }}\n"
    ));
    let (mut child, line) = serve(&user);
    let address = text(&line, "address").strip_prefix("http://").unwrap().to_owned();
    let mut client = TcpStream::connect(&address).unwrap();
    let length = MESSAGE.len();
    write!(
        client,
        "POST /t/{}/v1/messages HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n{MESSAGE}",
        text(&line, "token")
    )
    .unwrap();
    let asked = model.accept().unwrap();
    interrupt(&child);
    until("it takes no more requests", || TcpStream::connect(&address).is_err().then_some(()));
    assert!(child.try_wait().unwrap().is_none(), "it waits for the answer");
    interrupt(&child);
    let status = until("it ends", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    drop(asked);
}

#[test]
fn a_second_server_on_the_same_port_says_why_it_can_not() {
    let user = User::new();
    let (first, line) = serve(&user);
    let port = text(&line, "address").rsplit(':').next().unwrap().to_owned();
    let second = user.run(&["serve", "--port", &port]);
    assert_eq!(second.code, Some(1), "{}", second.whole());
    assert!(second.err.contains(&format!("127.0.0.1:{port} can't be listened on")), "{}", second.err);
    assert!(second.err.contains("hint: another process"), "{}", second.err);
    // Another port works beside it, with a token of its own.
    let (other, other_line) = serve(&user);
    assert_ne!(text(&line, "token"), text(&other_line, "token"));
    for child in [first, other] {
        interrupt(&child);
        assert_eq!(done(child).code, Some(0));
    }
}

#[test]
fn a_token_of_the_operator_is_not_printed() {
    let token = ["chosen-by-the", "-operator"].concat();
    let user = User::with_config(&format!("gateway: {{token: {token}}}\n"));
    let (child, line) = serve(&user);
    assert!(line["token"].is_null() && !line.to_string().contains(&token), "{line}");
    interrupt(&child);
    let ended = done(child);
    assert!(!ended.err.contains(&token), "{}", ended.err);
}

#[test]
fn a_store_that_can_not_be_used_is_named_at_the_start() {
    let user = User::new();
    let folder = user.path().join("data/backstop");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("backstop.db"), "no database at all".repeat(1_000)).unwrap();
    for command in [&["serve", "--port", "0"][..], &["run", "--", "true"]] {
        let ended = user.run(command);
        assert_ne!(ended.code, Some(0), "{}", ended.whole());
        assert!(ended.err.contains("backstop.db` is not a database"), "{}", ended.err);
        assert!(ended.out.is_empty(), "{}", ended.out);
    }
}

#[test]
fn configurations_that_leave_the_way_open_are_refused() {
    let two = "providers: {a: {api: anthropic}, b: {api: anthropic}}\n";
    let ended = User::with_config(two).run(&["serve", "--port", "0"]);
    assert_eq!(ended.code, Some(2), "{}", ended.whole());
    assert!(ended.err.contains("`a`, `b` speak the anthropic API"), "{}", ended.err);
    let witness = "audit: {witness: [{to: 'https://witness.example', key: none}]}\n";
    let ended = User::with_config(witness).run(&["serve", "--port", "0"]);
    assert_eq!(ended.code, Some(2), "{}", ended.whole());
    assert!(ended.err.contains("`key` is no key of a witness"), "{}", ended.err);
    let wrong = "providers: {a: {api: openai-chat}}\ngateway: {providers: {gemini: [a]}}\n";
    let ended = User::with_config(wrong).run(&["serve", "--port", "0"]);
    assert_eq!(ended.code, Some(2), "{}", ended.whole());
    assert!(ended.err.contains("does not speak the gemini API"), "{}", ended.err);
}

#[test]
fn authorities_that_can_not_be_read_are_named() {
    let config = "providers: {a: {api: openai-responses, base_url: 'https://127.0.0.1:9', ca_file: ca.pem}}\nagent: {model: m}\n";
    let user = User::with_config(config);
    for command in [&["serve", "--port", "0"][..], &["agent", "-m", "hi"]] {
        let ended = user.run(command);
        assert_ne!(ended.code, Some(0), "{}", ended.whole());
        assert!(
            ended.err.contains("`providers.a.ca_file`") && ended.err.contains("ca.pem`"),
            "{}",
            ended.err
        );
    }
    std::fs::write(user.path().join("config/backstop/ca.pem"), "not a certificate").unwrap();
    for command in [&["serve", "--port", "0"][..], &["agent", "-m", "hi"]] {
        let ended = user.run(command);
        assert_ne!(ended.code, Some(0), "{}", ended.whole());
        assert!(ended.err.contains("ca.pem` holds no certificates"), "{}", ended.err);
    }
}

#[test]
fn run_points_the_program_at_its_gateway_and_ends_as_it_does() {
    let user = User::with_config("providers: {own: {api: anthropic, api_key_file: key}}\n");
    let show = "echo $ANTHROPIC_BASE_URL $ANTHROPIC_API_KEY; echo $OPENAI_BASE_URL $OPENAI_API_BASE; \
                echo $GOOGLE_GEMINI_BASE_URL; echo $NO_PROXY; exit 7";
    let ended = user.run(&["run", "--agent", "me", "--", "sh", "-c", show]);
    assert_eq!(ended.code, Some(7), "{}", ended.whole());
    let lines: Vec<&str> = ended.out.lines().collect();
    let (base, key) = lines[0].split_once(' ').unwrap();
    assert!(base.starts_with("http://127.0.0.1:") && base.ends_with(&format!("/t/{key}")), "{base}");
    assert_eq!(lines[1], format!("{base}/v1 {base}/v1"));
    assert_eq!(lines[2], base);
    assert_eq!(lines[3], "127.0.0.1,localhost");
    let address = base.strip_prefix("http://").unwrap().split('/').next().unwrap();
    assert!(TcpStream::connect(address).is_err(), "nothing is left running");
}

#[test]
fn a_program_behind_run_reaches_the_model() {
    let user = User::new();
    let model = ModelServer::start(&user, r#"{"text": "from the model"}"#);
    user.configure(&model.config(""));
    // The program only says where its model is; the request is made here while it waits for its input to end.
    let mut child = user
        .command(&["run", "--", "sh", "-c", "echo $ANTHROPIC_BASE_URL; cat"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let answer = post(&format!("{}/v1/messages", url.trim()), MESSAGE);
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("from the model"), "{answer}");
    drop(child.stdin.take());
    assert_eq!(done(child).code, Some(0));
}

#[test]
fn a_program_that_is_an_agent_can_be_no_other() {
    let user = User::new();
    let model = ModelServer::start(&user, r#"{"repeat": true, "text": "from the model"}"#);
    user.configure(&model.config("gateway: {agents: {me: {token: 0123456789abcdef}}}\n"));
    let mut child = user
        .command(&["run", "--agent", "me", "--", "sh", "-c", "echo $ANTHROPIC_BASE_URL; cat"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let url = url.trim();
    for (prefix, status) in [("", "200"), ("/a/me", "200"), ("/a/other", "403")] {
        let answer = post(&format!("{url}{prefix}/v1/messages"), MESSAGE);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{prefix}: {answer}");
    }
    drop(child.stdin.take());
    assert_eq!(done(child).code, Some(0));
}

#[test]
fn programs_that_can_not_be_run_end_like_in_a_shell() {
    let user = User::new();
    let ended = user.run(&["run", "--", "no-such-program"]);
    assert_eq!(ended.code, Some(127), "{}", ended.whole());
    assert!(ended.err.contains("`no-such-program` can't be run"), "{}", ended.err);
    let ended = user.run(&["run", "--", "/"]);
    assert_eq!(ended.code, Some(126), "{}", ended.whole());
    let ended = user.run(&["run", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(ended.code, Some(143), "{}", ended.whole());
}

/// Starts a program that does what comes before, writes its process id and that of a child of its own, and waits.
fn waiting(user: &User, before: &str, script: &str) -> (Child, [String; 2]) {
    let ids = user.work().join("ids");
    let script = format!("{before} sleep 60 & echo $$ $! > ids.new; mv ids.new ids; {script}");
    let child = user.command(&["run", "--", "sh", "-c", &script]).spawn().unwrap();
    let text = until("the program starts", || read(&ids));
    let (own, below) = text.trim().split_once(' ').unwrap();
    (child, [own.to_owned(), below.to_owned()])
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[test]
fn signals_reach_the_program() {
    let user = User::new();
    let (child, ids) = waiting(&user, "trap 'exit 5' INT;", "while true; do sleep 0.05; done");
    interrupt(&child);
    let ended = done(child);
    assert_eq!(ended.code, Some(5), "{}", ended.whole());
    for id in ids {
        until("its processes end", || (!is_running(&id)).then_some(()));
    }
}

#[test]
fn a_killed_backstop_takes_the_program_with_it() {
    let user = User::new();
    let (mut child, ids) = waiting(&user, "", "wait");
    child.kill().unwrap();
    child.wait().unwrap();
    for id in ids {
        until("its processes end", || (!is_running(&id)).then_some(()));
    }
}

#[test]
fn a_server_says_which_hooks_wait_for_another_host() {
    // What programs report to its API is told to whoever watches tools.
    let hooks = "hooks:\n\
         \x20 at: {before_agent_run: [{type: http, url: 'http://127.0.0.1:9/hook'}]}\n\
         \x20 tool_call: {post_call: [{type: webhook, config: {url: 'http://127.0.0.1:9/hook'}}]}\n";
    // With the daemon, the hooks of coding agents are answered in the same process.
    for (daemon, waits) in [("daemon: {enabled: false}\n", true), ("", false)] {
        let user = User::with_config(&format!("{hooks}{daemon}"));
        let mut child = user.command(&["serve", "--json", "--port", "0"]).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("\"address\""), "{line}");
        interrupt(&child);
        let ended = done(child);
        let said = "waits: no host of this process fires `before_agent_run`";
        assert_eq!(ended.err.contains(said), waits, "{}", ended.whole());
        assert!(!ended.err.contains("after_tool_call"), "{}", ended.whole());
    }
}

/// Asks for something below `/-/`, and gives the whole answer.
pub(super) fn look(address: &str, path: &str, token: &str) -> String {
    let address = address.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn operators_of_serve_see_what_it_does_and_its_clients_do_not() {
    let user = User::new();
    let model = ModelServer::start(&user, r#"{"text": "from the model"}"#);
    let operators = ["watch", "0123456789abcdef"].join("-");
    let gateway = |token: &str| model.config(&format!("gateway: {{operators: {{token: {token}}}}}\n"));
    user.configure(&gateway(&operators));
    let (child, line) = serve(&user);
    let address = text(&line, "address");
    post(&format!("{}/v1/messages", text(&line, "url")), MESSAGE);
    assert!(look(address, "/-/ready", "").starts_with("HTTP/1.1 200 "));
    for token in ["", text(&line, "token")] {
        assert!(look(address, "/-/metrics", token).starts_with("HTTP/1.1 401 "), "{token}");
    }
    let metrics = look(address, "/-/metrics", &operators);
    for part in [
        "model=\"scripted-model\",agent=\"none\",outcome=\"answered\"} 1",
        "backstop_approvals_waiting 0",
        "backstop_audit_lost_total 0",
        "backstop_audit_signed_late_total 0",
    ] {
        assert!(metrics.contains(part), "{part} is not in {metrics}");
    }
    // Another token holds once the configuration was read anew, and counters go on.
    let other = ["other", "0123456789abcdef"].join("-");
    user.configure(&gateway(&other));
    hang_up(&child);
    until("the other token holds", || {
        look(address, "/-/metrics", &operators).starts_with("HTTP/1.1 401 ").then_some(())
    });
    assert!(look(address, "/-/metrics", &other).contains("outcome=\"answered\"} 1"));
    interrupt(&child);
    let ended = done(child);
    assert!(!ended.err.contains(&operators) && !ended.out.contains(&operators), "{}", ended.whole());
}

#[test]
fn nobody_is_an_operator_of_a_run() {
    let token = ["watch", "0123456789abcdef"].join("-");
    let user = User::with_config(&format!("gateway: {{operators: {{token: {token}}}}}\n"));
    let script = "for page in health metrics; do curl -s -o /dev/null -w '%{http_code} ' \
                  -H \"Authorization: Bearer $1\" \"${BACKSTOP_GATEWAY_URL%%/t/*}/-/$page\"; done";
    let ended = user.run(&["run", "--no-sandbox", "--", "sh", "-c", script, "sh", &token]);
    assert!(ended.out.contains("200 404"), "{}", ended.whole());
}

#[test]
fn each_request_leaves_a_line_without_a_text_and_a_log_for_programs_has_nothing_else() {
    let user = User::new();
    let model = ModelServer::start(&user, r#"{"text": "from the model"}"#);
    user.configure(&model.config(""));
    let serve = |format: &str, level: &str| {
        let log = ["serve", "--json", "--port", "0", "--log-format", format, "--log-level", level];
        let mut child = user.command(&log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        let url = text(&line, "url").to_owned();
        let said = MESSAGE.replace("scripted-model", "made-up-model").replace("hi", "said by a client");
        post(&format!("{url}/a/made-up-agent/v1/messages?api-version=made-up-version"), &said);
        post(&format!("{}/v1/messages", text(&line, "address")), &said);
        interrupt(&child);
        let ended = done(child);
        for hidden in ["made-up", "said by", "from the model", text(&line, "token")] {
            assert!(!ended.err.contains(hidden), "{hidden} is in {}", ended.err);
        }
        ended.err
    };
    let told = serve("json", "info");
    let lines: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let requests: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "request").collect();
    assert_eq!(requests.len(), 2, "{told}");
    for (name, value) in [
        ("method", "POST"),
        ("operation", "messages"),
        ("wire", "anthropic-messages"),
        ("provider", "scripted"),
        ("model", "other"),
        ("agent", "other"),
        ("outcome", "answered"),
        ("level", "info"),
    ] {
        assert_eq!(requests[0][name], value, "{told}");
    }
    assert!(requests[0]["status"] == 200 && requests[0]["addedMs"].as_f64() > Some(0.0), "{told}");
    assert!(requests[1]["status"] == 401 && requests[1]["outcome"] == "denied", "{told}");
    let told = serve("text", "info");
    assert_eq!(told.lines().filter(|line| line.starts_with("request: method=POST")).count(), 2, "{told}");
    assert!(!serve("text", "warn").contains("request:"));
}
