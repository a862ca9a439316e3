//! What leaves: every method of every SDK, against a gateway with hooks that decide, counted behind it.
//!
//! The paths of providers are a list of what is known to be harmless, so most of what an SDK can ask must end at the
//! gateway. What comes out is compared with the files in `reached`, which a person has read: a new SDK whose new
//! operation comes out, or that has methods which this walk can't call, is a red test. A method that asks nothing is called as it
//! wants, or the file says why it asks nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;

use super::{Server, folder};

/// What a script tells of an SDK.
#[derive(Deserialize)]
struct Surface {
    /// The requests that it made.
    asked: BTreeSet<String>,
    /// Methods that made none.
    silent: BTreeSet<String>,
}

/// What stands between what came out and the methods that asked nothing, in a file of `reached`.
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
    let body = r#"{"error":{"message":"there is nothing","type":"not_found_error"}}"#;
    let head =
        "HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length";
    let _ = connection.write_all(format!("{head}: {}\r\n\r\n{body}", body.len()).as_bytes());
    let _ = connection.shutdown(Shutdown::Write);
    // A body that nobody reads would break the connection before the answer was read.
    let _ = reader.read_to_end(&mut Vec::new());
}

fn config(provider: &str) -> String {
    let providers: String = [("claude", "anthropic"), ("gpt", "openai-chat"), ("google", "gemini")]
        .iter()
        .map(|(name, api)| {
            format!("  {name}: {{ api: {api}, base_url: '{provider}', api_key_env: OPERATORS_KEY }}\n")
        })
        .collect();
    let deny = "{ type: policy, config: { deny_tools: ['*'] } }";
    format!("providers:\n{providers}hooks:\n  tool_call:\n    pre_call:\n      - {deny}\n")
}

/// A request as an operation: made-up names and queries do not count.
fn shape(request: &str) -> String {
    let (method, target) = request.split_once(' ').unwrap_or((request, ""));
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let segments = path.split('/').map(|segment| match segment.split_once(':') {
        Some((name, verb)) if name.contains("zz") => format!("{{}}:{verb}"),
        None if segment.contains("zz") => "{}".to_owned(),
        _ => segment.to_owned(),
    });
    format!("{method} {}", segments.collect::<Vec<_>>().join("/"))
}

/// What the SDKs asked, the methods that asked nothing, and what came out behind the gateway.
fn walk(mut command: Command) -> (BTreeSet<String>, BTreeSet<String>, BTreeSet<String>) {
    let home = tempfile::tempdir().unwrap();
    let provider = Provider::start();
    std::fs::create_dir_all(home.path().join("config/backstop")).unwrap();
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
    let asked = surface.asked.iter().map(|request| shape(&request.replacen(&prefix, "", 1))).collect();
    (asked, surface.silent, provider.heard().iter().map(|request| shape(request)).collect())
}

/// What came out, and which methods asked nothing, must be what the file says; and the walk must not go past much.
#[track_caller]
fn check(command: Command, name: &str, at_least: usize) {
    let (asked, silent, reached) = walk(command);
    println!("{name}: {} operations asked, {} reached the provider", asked.len(), reached.len());
    let file = folder().join("reached").join(format!("{name}.txt"));
    let known = std::fs::read_to_string(&file).unwrap();
    let known = explained(&known);
    let why = |name: &str| known.get(name).copied().unwrap_or(UNEXPLAINED);
    let reached: String = reached.iter().map(|request| format!("{request}\n")).collect();
    let methods: String = silent.iter().map(|name| format!("{name}: {}\n", why(name))).collect();
    let told = format!("{reached}\n{SILENT}\n{methods}");
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
    let unexplained: Vec<&String> = silent.iter().filter(|name| why(name) == UNEXPLAINED).collect();
    assert!(
        unexplained.is_empty(),
        "they ask nothing: call them, or say why in {}: {unexplained:?}",
        file.display()
    );
    assert!(asked.len() >= at_least, "only {} operations were asked: the walk goes past some", asked.len());
}

#[test]
fn what_the_python_sdks_ask_reaches_a_provider_only_where_it_is_known() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/sdk/sdks/bin/python");
    let mut command = Command::new(python);
    command.arg(folder().join("python/surface.py"));
    check(command, "python", 670);
}

#[test]
fn what_the_node_sdks_ask_reaches_a_provider_only_where_it_is_known() {
    let mut command = Command::new("node");
    command.arg(folder().join("node/surface.mjs"));
    check(command, "node", 550);
}
