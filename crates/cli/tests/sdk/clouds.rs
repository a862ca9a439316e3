//! SDKs that take themselves to be in a cloud: what they read behind the gateway, and of the model itself.

use std::process::Command;

use serde_json::json;

use super::{SECRETLY, Told, check, in_node, in_venv, model, run, told};

/// Checks an SDK in a cloud: behind the gateway it reads what it should, and where nothing is withheld or redacted the same as
/// of the model itself.
#[track_caller]
fn check_in(command: impl Fn() -> Command, script: &str, cloud: &str) {
    let cloud = Some(cloud);
    let through = run(command(), script, cloud);
    check(&through);
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path());
    let direct = told(command(), script, cloud, folder.path(), &model.url);
    for case in ["text", "call", "structured"] {
        assert_eq!(through.get(case), direct.get(case), "case `{case}`");
    }
    // It was there to be withheld.
    let exec = json!({ "name": "exec", "arguments": { "command": SECRETLY } });
    let withheld = direct.get("withheld").unwrap();
    assert!(!withheld.is_empty());
    for (mode, told) in withheld {
        assert!(matches!(told, Told::Answer { calls, .. } if *calls == [exec.clone()]), "{mode}: {told:?}");
    }
}

#[track_caller]
fn check_python(script: &str, cloud: &str) {
    check_in(|| in_venv("sdks", script), script, cloud);
}

#[track_caller]
fn check_node(script: &str, cloud: &str) {
    check_in(|| in_node(script), script, cloud);
}

#[test]
fn converse_in_bedrock() {
    check_python("bedrock_converse.py", "bedrock");
}

#[test]
fn anthropic_in_bedrock() {
    check_python("anthropic_messages.py", "bedrock");
}

#[test]
fn anthropic_in_vertex() {
    check_python("anthropic_messages.py", "vertex");
}

#[test]
fn gemini_in_vertex() {
    check_python("google_genai.py", "vertex");
}

#[test]
fn openai_chat_at_azure() {
    check_python("openai_chat.py", "azure");
}

#[test]
fn openai_responses_at_azure() {
    check_python("openai_responses.py", "azure");
}

#[test]
fn converse_in_bedrock_in_node() {
    check_node("bedrock_converse.mjs", "bedrock");
}

#[test]
fn anthropic_in_bedrock_in_node() {
    check_node("anthropic_messages.mjs", "bedrock");
}

#[test]
fn anthropic_in_vertex_in_node() {
    check_node("anthropic_messages.mjs", "vertex");
}

#[test]
fn gemini_in_vertex_in_node() {
    check_node("google_genai.mjs", "vertex");
}

#[test]
fn openai_chat_at_azure_in_node() {
    check_node("openai_chat.mjs", "azure");
}

#[test]
fn openai_responses_at_azure_in_node() {
    check_node("openai_responses.mjs", "azure");
}
