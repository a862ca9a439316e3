//! What leaves: every method of every SDK, against a gateway with hooks that decide, counted behind it.
//!
//! The gateway passes the operations that are known to be harmless, so most of what an SDK can ask for must end there.
//! For each operation that an SDK asks for this walk knows whether the gateway refused the operation as such
//! ([`Fate::Closed`]), knew it and refused this request ([`Fate::Judged`]), or sent it on ([`Fate::Passed`]). The
//! files in `reached` list the second and the third, what came out behind the gateway, and why methods that sent no
//! request sent none; a person has read them. A new SDK whose new operation is not refused, or that has methods which
//! this walk can't call, is a red test.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;

use super::{Server, folder, write_credentials};

/// What a script tells of its SDKs.
#[derive(Deserialize)]
struct Surface {
    /// The requests that it made, each with the status and the beginning of the answer.
    asked: Vec<(String, u16, String)>,
    /// Methods that made none.
    silent: BTreeSet<String>,
}

/// What the gateway did with an operation. Of several requests the one that came furthest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// It refused the operation, whatever the request says.
    Closed,
    /// It knows the operation, and refused this request.
    Judged,
    /// It sent the request to the provider.
    Passed,
}

impl Fate {
    fn of(status: u16, answer: &str) -> Self {
        let is_closed = CLOSED.iter().any(|(of, words)| *of == status && answer.contains(words));
        if answer.contains(NOTHING) || answer.contains(NO_SOCKET) || status == 101 {
            Self::Passed
        } else if is_closed {
            Self::Closed
        } else {
            Self::Judged
        }
    }
}

/// How a gateway refuses an operation. Anthropic's errors have no codes, so its words have to be known.
const CLOSED: [(u16, &str); 6] = [
    (403, "operation_not_allowed"),
    (403, "is not among the operations that pass here"),
    (403, "and nothing else of it"),
    (400, "its cloud has no such operation"),
    (400, "the path has empty, `.` or `..` segments"),
    (426, "WebSockets do not pass here"),
];
/// What a gateway says that asked the provider for a WebSocket.
const NO_SOCKET: &str = "opens no WebSocket (it answered 404";
/// What the provider answers to everything.
const NOTHING: &str = "there is nothing behind the gateway";

/// What stands between the parts of a file in `reached`.
const PASSED: &str = "# operations that the gateway sends on";
const JUDGED: &str = "# operations that the gateway knows, of which it refuses the requests of this walk";
const HEARD: &str = "# what the provider is asked for";
const SILENT: &str = "# methods that ask nothing, and why";
/// Why, of a method of which nobody has said it yet.
const UNEXPLAINED: &str = "?";

/// The methods that ask nothing, and why, as a file says it.
fn explained(file: &str) -> BTreeMap<&str, &str> {
    let methods = file.split_once(SILENT).map_or("", |(_, methods)| methods);
    methods.lines().filter_map(|line| line.split_once(": ")).collect()
}

/// A provider that has nothing, and remembers what it was asked for.
struct Provider {
    url: String,
    heard: Arc<Mutex<BTreeSet<String>>>,
}

impl Provider {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard = Arc::<Mutex<BTreeSet<String>>>::default();
        let hears = Arc::clone(&heard);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let hears = Arc::clone(&hears);
                std::thread::spawn(move || answer(connection, &hears));
            }
        });
        Self { url, heard }
    }

    fn heard(&self) -> BTreeSet<String> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Takes one request and says that there is nothing.
fn answer(mut connection: TcpStream, hears: &Mutex<BTreeSet<String>>) {
    let _ = connection.set_read_timeout(Some(Duration::from_secs(10)));
    let mut first = String::new();
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    if reader.read_line(&mut first).is_err() {
        return;
    }
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        line.clear();
    }
    if let Some((request, _)) = first.rsplit_once(' ') {
        hears.lock().unwrap_or_else(PoisonError::into_inner).insert(request.to_owned());
    }
    let body = format!(r#"{{"type":"error","error":{{"message":"{NOTHING}","type":"not_found_error"}}}}"#);
    let head =
        "HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length";
    let _ = connection.write_all(format!("{head}: {}\r\n\r\n{body}", body.len()).as_bytes());
    let _ = connection.shutdown(Shutdown::Write);
    // A body that nobody reads would break the connection before the answer was read.
    let _ = reader.read_to_end(&mut Vec::new());
}

fn config(provider: &str) -> String {
    let key = "api_key_env: OPERATORS_KEY";
    let vertex = "cloud: vertex, region: us-east5, project: ours, token_command: [./token, cloud]";
    let providers: String = [
        ("claude", "anthropic", key),
        ("gpt", "openai-chat", key),
        ("google", "gemini", key),
        ("azure", "openai-chat", "cloud: azure, token_command: [./token, cloud]"),
        ("bedrock", "anthropic", "cloud: bedrock, region: us-east-1, aws_profile: models"),
        ("claude-vertex", "anthropic", vertex),
        ("vertex", "gemini", vertex),
    ]
    .iter()
    .map(|(name, api, rest)| format!("  {name}: {{ api: {api}, base_url: '{provider}', {rest} }}\n"))
    .collect();
    let routes = "{ anthropic: [claude], openai: [gpt], gemini: [google] }";
    let gateway = format!("gateway:\n  providers: {routes}\n  websockets: {{ enabled: true }}\n");
    let deny = "{ type: policy, config: { deny_tools: ['*'] } }";
    format!("providers:\n{providers}{gateway}hooks:\n  tool_call:\n    pre_call:\n      - {deny}\n")
}

/// A request as an operation: made-up names and queries do not count.
fn shape(request: &str) -> String {
    let (method, target) = request.split_once(' ').unwrap_or((request, ""));
    let path = target.split(['?', '#']).next().unwrap_or_default();
    // Which provider of the gateway it is for is no part of the operation.
    let path = path
        .strip_prefix("/p/")
        .and_then(|rest| rest.find('/').and_then(|at| rest.get(at..)))
        .unwrap_or(path);
    let segments = path.split('/').map(|segment| match segment.split_once(':') {
        Some((name, verb)) if name.contains("zz") => format!("{{}}:{verb}"),
        None if segment.contains("zz") => "{}".to_owned(),
        _ => segment.to_owned(),
    });
    format!("{method} {}", segments.collect::<Vec<_>>().join("/"))
}

/// What a walk found.
struct Walked {
    /// The operations that the SDKs asked for.
    fates: BTreeMap<String, Fate>,
    /// The methods that sent no request.
    silent: BTreeSet<String>,
    /// What came out behind the gateway.
    heard: BTreeSet<String>,
}

fn walk(mut command: Command) -> Walked {
    let home = tempfile::tempdir().unwrap();
    let provider = Provider::start();
    write_credentials(home.path());
    std::fs::write(home.path().join("config/backstop/backstop.yaml"), config(&provider.url)).unwrap();
    let gateway =
        Server::start_with(home.path(), &["serve", "--port", "0"], &[("OPERATORS_KEY", "operators-key")]);
    let output = command
        .current_dir(home.path())
        .env("BACKSTOP_TEST_URL", &gateway.url)
        .env("BACKSTOP_TEST_KEY", "client-key")
        .env("HOME", home.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let surface: Surface =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}\n{errors}"));
    // The gateway's own prefix is no part of what was asked.
    let prefix = gateway.url.splitn(4, '/').nth(3).map(|prefix| format!("/{prefix}")).unwrap_or_default();
    let mut fates = BTreeMap::new();
    for (request, status, answer) in &surface.asked {
        let fate = Fate::of(*status, answer);
        let known = fates.entry(shape(&request.replacen(&prefix, "", 1))).or_insert(fate);
        *known = fate.max(*known);
    }
    let heard = provider.heard().iter().map(|request| shape(request)).collect();
    Walked { fates, silent: surface.silent, heard }
}

/// What a file in `reached` says of a walk, of which `why` says why methods ask nothing.
fn file_of(walked: &Walked, why: impl Fn(&str) -> String) -> String {
    let of = |fate| walked.fates.iter().filter(move |(_, is)| **is == fate).map(|(operation, _)| operation);
    let lines = |operations: &mut dyn Iterator<Item = &String>| {
        operations.map(|operation| format!("{operation}\n")).collect::<String>()
    };
    let methods: String = walked.silent.iter().map(|name| format!("{name}: {}\n", why(name))).collect();
    format!(
        "# {} operations asked for, {} of them refused as operations\n\n{PASSED}\n{}\n{JUDGED}\n{}\n{HEARD}\n{}\n{SILENT}\n{methods}",
        walked.fates.len(),
        of(Fate::Closed).count(),
        lines(&mut of(Fate::Passed)),
        lines(&mut of(Fate::Judged)),
        lines(&mut walked.heard.iter()),
    )
}

/// What a walk found must be what the file says.
#[track_caller]
fn check(command: Command, name: &str) {
    let walked = walk(command);
    let file = folder().join("reached").join(format!("{name}.txt"));
    let known = std::fs::read_to_string(&file).unwrap();
    let known = explained(&known);
    let why = |name: &str| known.get(name).copied().unwrap_or(UNEXPLAINED).to_owned();
    let told = file_of(&walked, why);
    println!("{name}: {}", told.lines().next().unwrap_or_default());
    if std::env::var_os("BACKSTOP_WRITE_REACHED").is_some() {
        std::fs::write(&file, &told).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap();
    assert_eq!(
        expected,
        told,
        "what reaches a provider has changed; BACKSTOP_WRITE_REACHED=1 writes {}, to be read by you",
        file.display()
    );
    let unexplained: Vec<&String> = walked.silent.iter().filter(|name| why(name) == UNEXPLAINED).collect();
    assert!(
        unexplained.is_empty(),
        "they ask nothing: call them, or say why in {}: {unexplained:?}",
        file.display()
    );
}

#[test]
fn what_the_python_sdks_ask_reaches_a_provider_only_where_it_is_known() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/sdk/sdks/bin/python");
    let mut command = Command::new(python);
    command.arg(folder().join("python/surface.py"));
    check(command, "python");
}

#[test]
fn what_the_node_sdks_ask_reaches_a_provider_only_where_it_is_known() {
    let mut command = Command::new("node");
    command.arg(folder().join("node/surface.mjs"));
    check(command, "node");
}
