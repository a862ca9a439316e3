//! What tests of plugins in a process share: a plugin that answers in words, and waiting for what must happen.

use std::path::Path;
use std::time::Duration;

use backstop_engine::{Engine, FailureKind, Verdict};
use backstop_plugins::openclaw::Dialect::OpenClaw;
use backstop_plugins::openclaw::Scripted;
use serde_json::json;

use crate::support::{Plugins, call, context, engine};

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What the reason of a block says, for a call with this command.
pub(crate) async fn said(engine: &Engine, command: &str) -> Result<String, (FailureKind, String)> {
    let reviewed =
        engine.review_tool_call(call("exec", json!({ "command": command })), &context(), false).await;
    let failure = reviewed.receipt.steps.iter().find_map(|step| step.failure.as_ref());
    match failure {
        Some(failure) => {
            assert_eq!(reviewed.receipt.verdict, Verdict::Block, "failing is not passing");
            Err((failure.kind, failure.message.to_string()))
        }
        None => Ok(reviewed
            .blocked
            .and_then(|blocked| blocked.reason)
            .map(|it| it.to_string())
            .unwrap_or_default()),
    }
}

/// A plugin whose hook answers what an expression over `command` is, in words.
pub(crate) async fn judging(plugins: &Plugins, before: &str, expression: &str) -> (Scripted, Engine) {
    let source = format!(
        "{before}\nexport default {{ register(api) {{ api.on(\"before_tool_call\", async ({{ params: {{ command }} }}, ctx) => \
         ({{ block: true, blockReason: String(await ({expression})) }}), {{ timeoutMs: 2000 }}); }} }};"
    );
    let plugin = plugins.load("mine", OpenClaw, &source).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    (plugin, engine)
}

pub(crate) fn exists(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(std::time::Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Asks until the hook answers again, since a program is started anew with growing waits.
pub(crate) async fn answers_again(engine: &Engine, command: &str) -> String {
    let end = std::time::Instant::now() + PATIENCE;
    loop {
        match said(engine, command).await {
            Ok(words) => return words,
            Err(failure) => assert!(std::time::Instant::now() < end, "{failure:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
