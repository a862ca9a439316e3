//! Freeform (`custom`) tools of Chat Completions: their calls have a text in place of arguments.

use serde_json::{Value, json};

use super::{Gate, Server, Told, in_venv, run_with, told};

const SCRIPT: &str = "openai_custom_tools.py";

fn provider() -> Server {
    let mut provider = in_venv("sdks", "custom_provider.py");
    provider.env("PYTHONDONTWRITEBYTECODE", "1");
    Server::run(provider)
}

fn calls(told: &Told) -> (&str, &[Value]) {
    match told {
        Told::Answer { text, calls, .. } => (text, calls),
        Told::Error { error } => panic!("{error}"),
    }
}

#[test]
fn freeform_tools_are_judged_and_a_refused_call_is_no_end() {
    // The gateway lets the model go on.
    let gate = Gate { refusals: 1, ..Gate::default() };
    let through = run_with(in_venv("sdks", SCRIPT), SCRIPT, gate, |_| provider());
    let home = tempfile::tempdir().unwrap();
    let provider = provider();
    let direct = told(in_venv("sdks", SCRIPT), SCRIPT, None, home.path(), &provider.url);

    let read = json!({ "name": "read", "arguments": { "input": "notes.txt\nfrom the top" } });
    for (mode, said) in &through["call"] {
        assert_eq!(calls(said), ("I try.", &[read.clone()][..]), "{mode}");
    }
    for mode in ["whole", "streamed"] {
        assert_eq!(through["call"][mode], direct["call"][mode], "{mode}");
        // It was there to be refused.
        assert_eq!(calls(&direct["refused"][mode]).1[0]["name"], "exec", "{mode}");
    }
    for (mode, said) in &through["refused"] {
        let (text, calls) = calls(said);
        assert!(calls.is_empty(), "{mode}: {calls:?}");
        assert!(text.starts_with("I try.") && text.ends_with("Then I stop."), "{mode}: {text}");
        assert!(text.contains("[backstop] withheld `exec`"), "{mode}: {text}");
        assert!(!text.contains("nobody-sees-this"), "{mode}: {text}");
    }
    assert_eq!(through.values().map(std::collections::BTreeMap::len).sum::<usize>(), 6);
}
