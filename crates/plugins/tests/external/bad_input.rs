//! Programs that break the protocol: the call fails, which blocks at a gate and is recorded at an observer; the program is
//! replaced; its author reads what to do.

use std::time::Duration;

use backstop_engine::FailureKind;

use crate::support::{failure, observe, passes, runs, settings, start, started, until};

/// How each does it, what kind of failure that is, and what its author reads.
const BAD: &[(&str, FailureKind, &str)] = &[
    ("flood-line", FailureKind::Malformed, "a line of more than 100000 bytes"),
    ("flood-logs", FailureKind::Malformed, "hint: log less"),
    ("dies", FailureKind::Unreachable, "ended (exit status: 3)"),
    ("dies-in-answer", FailureKind::Malformed, "ended (exit status: 3) in the middle of an answer"),
    ("twice", FailureKind::Malformed, "hint: answer each request once"),
    ("other-id", FailureKind::Malformed, "with an id that is not open"),
    ("no-json", FailureKind::Malformed, "hint: standard output is for the protocol"),
    ("no-message", FailureKind::Malformed, "hint: an answer has `jsonrpc`"),
    ("asks", FailureKind::Malformed, "sent `fs/read`, which this host does not offer"),
];

#[tokio::test]
async fn law_05_a_program_that_breaks_the_protocol_blocks_at_a_gate_and_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, expected, said) in BAD {
        let (_plugin, engine) = started(kind, folder.path()).await;
        assert!(passes(&engine, "ls").await, "{kind}");
        let (kind_of_failure, message) = failure(&engine, "bad").await;
        assert_eq!(kind_of_failure, *expected, "{kind}: {message}");
        assert!(message.contains(said) && message.contains("process of `mine`"), "{kind}: {message}");
        assert!(passes(&engine, "ls").await, "{kind}: it was not started again");
    }
}

#[tokio::test]
async fn law_05_at_an_observer_a_failure_is_recorded_and_ignored() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, expected, _) in BAD {
        let (_plugin, engine) = started(kind, folder.path()).await;
        let receipt = observe(&engine, "bad").await;
        assert_eq!(receipt.steps[0].failure.as_ref().map(|failure| failure.kind), Some(*expected), "{kind}");
        assert!(receipt.blocked.is_none(), "{kind}");
    }
}

#[tokio::test]
async fn a_flood_of_standard_error_is_dropped_and_harms_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (_plugin, engine) = started("flood-errors", folder.path()).await;
    assert!(passes(&engine, "bad").await);
}

#[tokio::test]
async fn a_program_that_never_reads_fails_its_calls_within_bounds_and_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings("never-reads", folder.path());
    settings.limits.stall = Duration::from_millis(300);
    let (_plugin, engine) = start(settings).await.unwrap();
    let deaf = || std::fs::read_to_string(folder.path().join("deaf")).unwrap_or_default().lines().count();
    until("it is deaf", || deaf() == 1).await;
    // More than a pipe holds.
    let (kind, message) = failure(&engine, &"x".repeat(1 << 20)).await;
    assert_eq!(kind, FailureKind::Unreachable);
    assert!(message.contains("did not read its standard input"), "{message}");
    until("it was started again", || deaf() == 2).await;
}

#[tokio::test]
async fn a_program_that_forgets_cancelled_calls_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings("silent", folder.path());
    settings.limits.cancel_grace = Duration::from_millis(200);
    let (_plugin, engine) = start(settings).await.unwrap();
    let engine = std::sync::Arc::new(engine);
    let waits = tokio::spawn({
        let engine = std::sync::Arc::clone(&engine);
        async move { crate::support::judge(&engine, "wait").await }
    });
    until("it was asked", || folder.path().join("asked").exists()).await;
    // Its place among those that are worked on is taken until then.
    waits.abort();
    let starts = || std::fs::read_to_string(folder.path().join("started")).unwrap().lines().count();
    until("it was started again", || starts() == 2).await;
    assert!(passes(&engine, "ls").await);
}

#[tokio::test]
async fn a_program_that_fails_again_and_again_is_started_again_later_and_calls_fail_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (plugin, engine) = started("crash-later", folder.path()).await;
    std::fs::write(folder.path().join("crash"), "").unwrap();
    failure(&engine, "bad").await;
    until("it is given time", || !plugin.is_ready()).await;
    let (kind, message) = loop {
        let (kind, message) = failure(&engine, "ls").await;
        if message.contains("started again soon") {
            break (kind, message);
        }
    };
    assert_eq!(kind, FailureKind::Unreachable);
    assert!(message.contains("ended (exit status: 5)"), "{message}");
    std::fs::remove_file(folder.path().join("crash")).unwrap();
    until("it is back", || plugin.is_ready()).await;
    assert!(passes(&engine, "ls").await);
}

#[tokio::test]
async fn a_program_that_declares_something_else_when_it_is_started_again_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let (plugin, engine) = started("changes", folder.path()).await;
    failure(&engine, "bad").await;
    until("it is down", || !plugin.is_ready()).await;
    let message = loop {
        let (_, message) = failure(&engine, "ls").await;
        if message.contains("started again soon") {
            break message;
        }
    };
    assert!(message.contains("declares other hooks") && message.contains("hint: reload"), "{message}");
}

#[tokio::test]
async fn what_a_bad_program_started_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let (plugin, engine) = started("forks-away", folder.path()).await;
    let child = std::fs::read_to_string(folder.path().join("child")).unwrap();
    plugin.shut_down().await;
    until("its child is gone", || !runs(&child)).await;
    drop(engine);
}
