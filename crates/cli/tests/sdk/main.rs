//! The SDKs of the providers, against the gateway.
//!
//! Each script here drives one SDK through the same cases and tells what the SDK understood, in every way in which the
//! SDK reads answers. Between it and a scripted model stands `backstop serve` with a policy that withholds a tool and
//! the redactor of secrets. The expectation is one per case: all SDKs, wires and modes must read the same.
//!
//! `cargo xtask test` installs the SDKs, from locked lists.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail loudly")]
#![expect(clippy::print_stdout, reason = "it says what it counted")]

mod clouds;
mod freeform;
mod own;
mod sockets;
mod surface;
mod traces;
mod waiting;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

const BACKSTOP: &str = env!("CARGO_BIN_EXE_backstop");

/// What an SDK understood of one answer.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(untagged)]
enum Told {
    Error {
        error: String,
    },
    Answer {
        text: String,
        calls: Vec<Value>,
        /// Why the model stopped, in the SDK's words.
        stop: Option<String>,
    },
}

/// By case and mode.
type Report = BTreeMap<String, BTreeMap<String, Told>>;

/// A program that ends with the test.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(home: &Path, args: &[&str]) -> Self {
        Self::start_with(home, args, &[])
    }

    fn start_with(home: &Path, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = backstop(home);
        command.envs(env.iter().copied()).args(args);
        Self::run(command)
    }

    /// Starts a program that prints its address.
    fn run(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http"), "{command:?} did not start");
        Self { child, url: url.trim().to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn backstop(home: &Path) -> Command {
    let mut command = Command::new(BACKSTOP);
    command
        .current_dir(home)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", home)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env("XDG_DATA_HOME", home.join("data"))
        .stdin(Stdio::null());
    command
}

/// What the call that is withheld would run. Nothing of it is ever told.
const SECRETLY: &str = "true # nobody-sees-this";

/// Looks like a token of GitHub and is none; put together here so that no scanner of this repository trips.
fn token() -> String {
    ["ghp", "_", "aB3dE5fG7hJ9kL1m", "N2pQ4rS6tU8vW0xY2zA4"].concat()
}

fn script() -> String {
    let read = json!({ "name": "read", "arguments": { "path": "notes.txt" } });
    let exec = json!({ "name": "exec", "arguments": { "command": SECRETLY } });
    let turn = |when: &str, text: &str, calls: Value| json!({ "repeat": true, "when": { "user_contains": when }, "text": text, "tool_calls": calls, "chunk": 7 });
    json!({ "turns": [
        turn("read the notes and run", "I will do both.", json!([read, exec])),
        turn("read the notes", "I will read them.", json!([read])),
        turn("run the command", "I will run it.", json!([exec])),
        turn("say hello", "Hello from the model: äöü 漢字 🙂.", json!([])),
        turn("say the token", &format!("The token is {}, keep it.", token()), json!([])),
        turn("answer as an object", "{\"city\": \"Ulm\", \"people\": 129942}", json!([])),
    ]})
    .to_string()
}

/// How the gateway is configured that an SDK speaks to.
#[derive(Clone, Copy, Default)]
struct Gate<'a> {
    /// The cloud whose envelope the SDK uses. The operator pays there.
    cloud: Option<&'a str>,
    /// More of `gateway`.
    gateway: &'a str,
    /// More of `gateway.hooks`.
    hooks: &'a str,
    /// How often a model goes on after its calls were refused.
    refusals: u32,
}

/// In a cloud the operator pays: what a client brings for one is for no other. There the gateway has its credentials from a program, or from Amazon's files.
fn config(model: &str, Gate { cloud, gateway, hooks, refusals }: Gate<'_>) -> String {
    let token = ", token_command: [./token, cloud]";
    let (maker, gpt) = match cloud {
        Some("vertex") => (format!("{token}, cloud: vertex, region: us-east5, project: ours"), String::new()),
        Some("azure") => (String::new(), format!("{token}, cloud: azure")),
        Some(_) | None => (String::new(), String::new()),
    };
    let anthropic = if cloud == Some("bedrock") { "bedrock" } else { "claude" };
    format!(
        "providers:\n\
         \x20 claude: {{ api: anthropic, base_url: '{model}'{maker} }}\n\
         \x20 gpt: {{ api: openai-chat, base_url: '{model}'{gpt} }}\n\
         \x20 google: {{ api: gemini, base_url: '{model}'{maker} }}\n\
         \x20 bedrock: {{ api: anthropic, cloud: bedrock, region: us-east-1, base_url: '{model}', aws_profile: models }}\n\
         gateway:\n\
         \x20 providers: {{ anthropic: [{anthropic}] }}\n\
         \x20 websockets: {{ enabled: true }}\n\
         \x20 hooks: {{ max_refusals: {refusals}{hooks} }}\n\
         {gateway}\
         hooks:\n\
         \x20 tool_call:\n\
         \x20   pre_call:\n\
         \x20     - {{ type: policy, config: {{ deny_tools: [exec] }} }}\n"
    )
}

/// Writes what the gateway has its credentials from, for the operator alone.
fn write_credentials(home: &Path) {
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    let write = |folder: &str, name: &str, text: &str| {
        let folder = home.join(folder);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).unwrap();
        let mut file = std::fs::OpenOptions::new();
        let mut file =
            file.write(true).create(true).truncate(true).mode(0o700).open(folder.join(name)).unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    };
    write(
        "config/backstop",
        "token",
        "#!/bin/sh\nprintf '{\"access_token\":\"%s-token\",\"expires_in\":3600}' \"$1\"\n",
    );
    let keys =
        "[models]\naws_access_key_id = nobodys\naws_secret_access_key = nothing\naws_session_token = lent\n";
    write(".aws", "credentials", keys);
}

/// Runs a script against a gateway of its own, in front of the scripted model.
fn run(command: Command, name: &str, cloud: Option<&str>) -> Report {
    run_with(command, name, Gate { cloud, ..Gate::default() }, model)
}

/// The scripted model.
fn model(home: &Path) -> Server {
    let script_file = home.join("script.json");
    std::fs::write(&script_file, script()).unwrap();
    Server::start(home, &["model", "serve", "--script", script_file.to_str().unwrap()])
}

fn run_with(command: Command, name: &str, gate: Gate<'_>, model: impl FnOnce(&Path) -> Server) -> Report {
    let folder: TempDir = tempfile::tempdir().unwrap();
    let home = folder.path();
    let model = model(home);
    write_credentials(home);
    std::fs::write(home.join("config/backstop/backstop.yaml"), config(&model.url, gate)).unwrap();
    let gateway = Server::start(home, &["serve", "--port", "0"]);
    told(command, name, gate.cloud, home, &gateway.url)
}

/// What an SDK tells of the answers at an address.
fn told(mut command: Command, name: &str, cloud: Option<&str>, home: &Path, url: &str) -> Report {
    let output = command
        .env("BACKSTOP_TEST_URL", url)
        .env("BACKSTOP_TEST_KEY", "client-key")
        .envs(cloud.map(|cloud| ("BACKSTOP_TEST_CLOUD", cloud)))
        .env("HOME", home)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{name}: {error}; `cargo xtask test` installs the SDKs"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} failed:\n{errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{name}: {error}\n{errors}"))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk")
}

fn in_venv(venv: &str, script: &str) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("target/sdk").join(venv).join("bin/python"));
    command.arg(folder().join("python").join(script));
    command
}

fn in_node(script: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(folder().join("node").join(script));
    command
}

fn python(venv: &str, script: &str) -> Report {
    run(in_venv(venv, script), script, None)
}

fn node(script: &str) -> Report {
    run(in_node(script), script, None)
}

/// What every SDK must have read, whatever its wire.
#[track_caller]
fn check(report: &Report) {
    let read = json!({ "name": "read", "arguments": { "path": "notes.txt" } });
    let object = "{\"city\": \"Ulm\", \"people\": 129942}";
    let note = "[backstop] withheld `exec`: ";
    type Expected<'a> = (&'a str, &'a [&'a str], Vec<Value>);
    let expected: [Expected<'_>; 6] = [
        ("text", &["Hello from the model: äöü 漢字 🙂."], vec![]),
        ("secret", &["The token is [redacted:github_token], keep it."], vec![]),
        ("call", &["I will read them."], vec![read.clone()]),
        ("withheld", &["I will run it.", note], vec![]),
        ("both", &["I will do both.", note], vec![read]),
        ("structured", &[object], vec![]),
    ];
    assert_eq!(report.len(), expected.len(), "{:?}", report.keys());
    for (case, texts, calls) in expected {
        let answers = report.get(case).unwrap_or_else(|| panic!("case `{case}` is missing"));
        assert!(!answers.is_empty(), "case `{case}` has no answers");
        for (mode, told) in answers {
            let at = format!("case `{case}`, mode `{mode}`");
            let (text, found, stop) = match told {
                Told::Error { error } => panic!("{at}: {error}"),
                Told::Answer { text, calls, stop } => (text, calls, stop.as_deref()),
            };
            assert_eq!(*found, calls, "{at}");
            assert!(!text.contains("nobody-sees-this"), "{at}: {text}");
            same_text(text, texts, &at);
            if let Some(stop) = stop {
                assert!(stops(!calls.is_empty()).contains(&stop), "{at}: it stopped with `{stop}`");
            }
        }
    }
}

/// The first text is how it begins, the second what follows somewhere; alone it is everything.
#[track_caller]
fn same_text(text: &str, expected: &[&str], at: &str) {
    match expected {
        [whole] if whole.starts_with('{') => {
            let read = |text: &str| serde_json::from_str::<Value>(text).ok();
            assert_eq!(read(text), read(whole), "{at}");
        }
        [whole] => assert_eq!(text, *whole, "{at}"),
        [start, rest] => assert!(text.starts_with(start) && text.contains(rest), "{at}: {text}"),
        _ => panic!("an expectation has one or two texts"),
    }
}

/// The words of the wires for why a model stopped.
fn stops(for_tools: bool) -> &'static [&'static str] {
    if for_tools {
        &["tool_calls", "tool_use", "tool-calls", "completed", "STOP"]
    } else {
        &["stop", "end_turn", "completed", "STOP"]
    }
}

#[test]
fn openai_chat_in_python() {
    check(&python("sdks", "openai_chat.py"));
}

#[test]
fn openai_responses_in_python() {
    check(&python("sdks", "openai_responses.py"));
}

#[test]
fn anthropic_in_python() {
    check(&python("sdks", "anthropic_messages.py"));
}

#[test]
fn gemini_in_python() {
    check(&python("sdks", "google_genai.py"));
}

#[test]
fn langchain_in_python() {
    check(&python("sdks", "langchain_models.py"));
}

#[test]
fn litellm_in_python() {
    check(&python("litellm", "litellm_client.py"));
}

#[test]
fn openai_chat_in_node() {
    check(&node("openai_chat.mjs"));
}

#[test]
fn openai_responses_in_node() {
    check(&node("openai_responses.mjs"));
}

#[test]
fn anthropic_in_node() {
    check(&node("anthropic_messages.mjs"));
}

#[test]
fn gemini_in_node() {
    check(&node("google_genai.mjs"));
}

#[test]
fn vercel_ai_sdk_in_node() {
    check(&node("ai_sdk.mjs"));
}
