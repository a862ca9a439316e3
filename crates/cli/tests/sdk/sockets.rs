//! SDKs that speak on WebSockets, in front of scripted providers.

use std::path::Path;
use std::process::Command;

use rcgen::{CertificateParams, KeyPair};

use super::{Gate, Report, Server, check, in_node, in_venv, run_with, script};

/// Realtime says things aloud only where sound passes.
const ALOUD: Gate<'static> = Gate { cloud: None, gateway: "", hooks: ", unjudged_media: pass", refusals: 0 };

fn run_live(command: Command, name: &str) -> Report {
    run_with(command, name, Gate::default(), |_| provider("live_provider.py"))
}

fn run_openai(command: Command, name: &str, gate: Gate<'_>) -> Report {
    run_with(command, name, gate, |_| provider("sockets_provider.py"))
}

fn provider(name: &str) -> Server {
    let mut provider = in_venv("sdks", name);
    provider.arg(script()).env("PYTHONDONTWRITEBYTECODE", "1");
    Server::run(provider)
}

/// Writes a certificate for this machine, and its key.
fn certify(home: &Path) {
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    std::fs::write(home.join("cert.pem"), certificate.pem()).unwrap();
    std::fs::write(home.join("key.pem"), key.serialize_pem()).unwrap();
}

#[test]
fn gemini_live_in_python() {
    check(&run_live(in_venv("sdks", "google_genai_live.py"), "google_genai_live.py"));
}

#[test]
fn gemini_live_in_node() {
    check(&run_live(in_node("google_genai_live.mjs"), "google_genai_live.mjs"));
}

#[test]
fn openai_realtime_in_python() {
    check(&run_openai(in_venv("sdks", "openai_realtime.py"), "openai_realtime.py", ALOUD));
}

#[test]
fn openai_realtime_in_node() {
    let folder = tempfile::tempdir().unwrap();
    certify(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (file("cert.pem"), file("key.pem"));
    let tls = format!("\x20 tls: {{ cert_file: '{certificate}', key_file: '{key}' }}\n");
    let mut command = in_node("openai_realtime.mjs");
    command.env("NODE_EXTRA_CA_CERTS", certificate);
    check(&run_openai(command, "openai_realtime.mjs", Gate { gateway: &tls, ..ALOUD }));
}

#[test]
fn openai_responses_on_sockets_in_python() {
    let name = "openai_responses_socket.py";
    check(&run_openai(in_venv("sdks", name), name, Gate::default()));
}

#[test]
fn openai_responses_on_sockets_in_node() {
    let name = "openai_responses_socket.mjs";
    check(&run_openai(in_node(name), name, Gate::default()));
}
