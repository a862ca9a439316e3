//! Answers that wait for a person, as real clients read them behind keep-alives.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{BACKSTOP, Server, in_node, stops};

/// A call about which the guard asks. Nobody runs it.
const ASKED: &str = r#"eval "$PLAN" || true; echo ran > ran.txt"#;

/// What an SDK understood, and how often it was told to be patient before the person answered.
#[derive(Debug, Deserialize)]
struct Waited {
    kept: i64,
    text: String,
    calls: Vec<Value>,
    stop: String,
}

/// What each SDK and mode tells, where the person gives this answer.
fn waited(answer: &str) -> BTreeMap<String, Waited> {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let call = json!({ "name": "exec", "arguments": { "command": ASKED } });
    let turn = json!({ "repeat": true, "text": "I ask.", "tool_calls": [call], "chunk": 7 });
    let script = home.join("script.json");
    std::fs::write(&script, json!({ "turns": [turn] }).to_string()).unwrap();
    let model = Server::start(home, &["model", "serve", "--script", script.to_str().unwrap()]);
    std::fs::create_dir_all(home.join("config/backstop")).unwrap();
    let config = format!(
        "providers:\n\
         \x20 claude: {{ api: anthropic, base_url: '{url}' }}\n\
         \x20 gpt: {{ api: openai-chat, base_url: '{url}' }}\n\
         gateway:\n\
         \x20 hooks: {{ max_refusals: 0, approvals: wait, keepAliveMs: 20 }}\n",
        url = model.url
    );
    std::fs::write(home.join("config/backstop/backstop.yaml"), config).unwrap();
    let gateway = Server::start(home, &["serve", "--port", "0"]);
    let output = in_node("waiting.mjs")
        .current_dir(home)
        .env("BACKSTOP_TEST_URL", &gateway.url)
        .env("BACKSTOP_TEST_KEY", "client-key")
        .env("BACKSTOP_TEST_PROGRAM", BACKSTOP)
        .env("BACKSTOP_TEST_ANSWER", answer)
        .env("HOME", home)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env("XDG_DATA_HOME", home.join("data"))
        .output()
        .unwrap_or_else(|error| panic!("{error}; `cargo xtask test` installs the SDKs"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}\n{errors}"))
}

#[test]
fn answers_behind_keep_alives_are_read_by_the_sdks_for_node() {
    let call = json!({ "name": "exec", "arguments": { "command": ASKED } });
    for (answer, calls) in [("approve", vec![call]), ("deny", Vec::new())] {
        let told = waited(answer);
        assert_eq!(told.len(), 9, "{:?}", told.keys());
        for (mode, said) in told {
            let at = format!("{answer}: {mode}");
            assert_eq!(said.calls, calls, "{at}");
            assert!(said.text.starts_with("I ask."), "{at}: {}", said.text);
            assert_eq!(said.text == "I ask.", !calls.is_empty(), "{at}: {}", said.text);
            assert!(stops(!calls.is_empty()).contains(&said.stop.as_str()), "{at}: {}", said.stop);
            // What is in one piece has nothing before it; a stream was kept alive.
            let is_kept = if mode.ends_with("whole") { said.kept == 0 } else { said.kept >= 2 };
            assert!(is_kept, "{at}: {}", said.kept);
        }
    }
}
