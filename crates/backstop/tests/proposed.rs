//! A configuration that is only proposed: what of it is asked, what is not and why, and that nothing which it names is touched.

#![expect(clippy::unwrap_used, reason = "tests fail loudly, helpers of tests too")]

use std::io::Read as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use backstop::config::{LayerKind, Loaded, Source};
use backstop::hooks::points::ToolCallEvent;
use backstop::hooks::{CallContext, Params, ToolName};
use backstop::{HookTypes, Proposed, ProposedError, Unasked, load_sources};
use serde_json::json;

fn loaded(text: &str, variable: &str) -> Loaded {
    let source = [Source::new(LayerKind::Operator, "backstop.yaml", text)];
    load_sources(&source, &HookTypes::built_in(&[]), &|_: &str| Some(variable.to_owned())).unwrap()
}

async fn proposed(text: &str) -> Result<Proposed, ProposedError> {
    let (one, other) = (loaded(text, "web_fetch"), loaded(text, "exec"));
    Proposed::build(&one, &other, HookTypes::built_in(&[]), None).await
}

async fn unasked(text: &str) -> Vec<(String, Unasked)> {
    let proposed = proposed(text).await.unwrap();
    // Nothing of what is not asked stands there.
    for (id, _) in proposed.unasked() {
        assert!(proposed.hooks().iter().all(|hook| !hook.id.as_str().starts_with(id)), "{id}");
    }
    let unasked = proposed.unasked().map(|(id, why)| (id.to_owned(), why)).collect();
    proposed.shut_down().await;
    unasked
}

async fn blocks(text: &str, command: &str) -> bool {
    let proposed = proposed(text).await.unwrap();
    let params = Params::from_value(json!({ "command": command })).unwrap();
    let event = ToolCallEvent::new(ToolName::new("exec"), params);
    let (reviewed, _) = proposed.judge(event, &CallContext::default()).await;
    proposed.shut_down().await;
    reviewed.blocked.is_some()
}

fn pre_call(hooks: &str) -> String {
    format!("hooks: {{tool_call: {{pre_call: [{hooks}]}}}}\n")
}

#[tokio::test]
async fn what_the_text_alone_says_is_judged_by() {
    let text = pre_call("{type: policy, id: words, config: {deny_argument_patterns: {command: ['alpha']}}}");
    assert!(blocks(&text, "echo alpha").await);
    assert!(!blocks(&text, "echo beta").await);
    assert!(blocks("{}", "rm -rf /").await, "the built-in guards judge");
    for off in [
        "guards: {command_safety: {enabled: false}, sensitive_files: {enabled: false}}",
        "plugins: {entries: {'builtin:command-safety-guard': {enabled: false}, 'builtin:security-audit': {enabled: false}}}",
    ] {
        assert!(!blocks(off, "rm -rf /").await, "{off}");
    }
    assert_eq!(unasked(&text).await, []);
    let wrong = proposed("guards: {command_safety: {allow: [{rule: none, reason: x}]}}").await.unwrap_err();
    assert!(wrong.to_string().contains("no rule of the command guard"), "{wrong}");
}

#[tokio::test]
async fn what_needs_more_than_the_text_is_told_and_not_asked() {
    let policy = "{type: policy, id: stays, config: {deny_tools: [canvas]}}";
    let text = pre_call(&format!(
        "{{type: policy, id: varies, config: {{deny_tools: ['${{TOOLS}}']}}}}, {policy}, {{type: webhook, config: {{url: 'https://x.example/'}}}}"
    ));
    let expected = [
        ("hooks.tool_call.pre_call[2]".to_owned(), Unasked::Elsewhere),
        ("varies".to_owned(), Unasked::Variable),
    ];
    assert_eq!(unasked(&text).await, expected);
    let ids: Vec<String> =
        proposed(&text).await.unwrap().hooks().iter().map(|hook| hook.id.to_string()).collect();
    assert!(ids.contains(&"stays".to_owned()), "{ids:?}");

    let guard = |why| vec![("builtin:command-safety-guard".to_owned(), why)];
    let pack = "guards: {command_safety: {packs: ['pack.yaml']}}";
    assert_eq!(unasked(pack).await, guard(Unasked::File));
    assert!(!blocks(pack, "rm -rf /").await, "without the guard, whose rules nobody knows");
    let allow = "guards: {command_safety: {allow: [{command: '${TOOLS}', reason: x}]}}";
    assert_eq!(unasked(allow).await, guard(Unasked::Variable));
    let files = "guards: {sensitive_files: {deny: ['/${TOOLS}/x']}}";
    assert_eq!(unasked(files).await, [("builtin:security-audit".to_owned(), Unasked::Variable)]);
    let formats = "guards: {secrets: {formats: ['formats.yaml'], kinds: {of-that-file: redact}}}";
    assert_eq!(unasked(formats).await, [("builtin:redactor".to_owned(), Unasked::File)]);
    // A reading that differs from the other one depends on a variable, whatever it is about.
    let (one, other) = (loaded("loops: {repeats: 1}", "x"), loaded("loops: {repeats: 2}", "x"));
    let repeats = Proposed::build(&one, &other, HookTypes::built_in(&[]), None).await.unwrap();
    assert_eq!(repeats.unasked().collect::<Vec<_>>(), [("builtin:loop", Unasked::Variable)]);
    assert!(repeats.hooks().iter().all(|hook| !hook.id.as_str().starts_with("builtin:loop")));
    repeats.shut_down().await;
    // What is off needs nothing.
    assert_eq!(unasked("guards: {command_safety: {enabled: false, packs: ['pack.yaml']}}").await, []);
    // What judges no call of a tool is no part of it.
    assert_eq!(unasked("providers: {a: {api: anthropic, api_key: '${TOOLS}'}}").await, []);
    let many = vec!["'x'"; 301].join(", ");
    let many =
        pre_call(&format!("{{type: policy, config: {{deny_argument_patterns: {{command: [{many}]}}}}}}"));
    assert!(matches!(proposed(&many).await, Err(ProposedError::Large)));
}

#[tokio::test]
async fn no_file_is_opened_and_no_server_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    // Whoever opens a pipe waits until somebody writes.
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let says = |path: &Path| format!("guards: {{command_safety: {{packs: ['{}']}}}}", path.display());
    assert_eq!(unasked(&says(&pipe)).await, unasked(&says(&folder.path().join("nowhere"))).await);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let webhook = format!("{{type: webhook, config: {{url: 'http://{}/'}}}}", server.local_addr().unwrap());
    assert!(!blocks(&pre_call(&webhook), "echo x").await);
    if let Ok((mut asked, _)) = server.accept() {
        let mut said = String::new();
        let _ = asked.read_to_string(&mut said);
        panic!("it was asked: {said}");
    }
}
