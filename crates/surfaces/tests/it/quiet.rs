//! Quiet hours.

use std::time::Duration;

use backstop_hooks::{Decision, Severity, TimeoutBehavior};
use backstop_store::{NewApproval, Timestamp};
use backstop_surfaces::{Ntfy, QuietHours};
use jiff::SignedDuration;
use jiff::civil::Time;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::server::{Server, ok};
use crate::stage::{Stage, anywhere, desk_with, name, question};

/// The priorities of notices: of critical questions, of warnings, and of what is over.
const CRITICAL: i64 = 5;
const WARNING: i64 = 4;
const OVER: i64 = 1;

/// The time of day that it is in so many seconds, or was.
fn time(seconds: i64) -> Time {
    TimeZone::UTC.to_datetime(jiff::Timestamp::now() + SignedDuration::from_secs(seconds)).time()
}

/// Hours that began an hour ago.
fn quiet(left: i64, unless: Option<Severity>) -> QuietHours {
    QuietHours::new(time(-3_600), time(left), TimeZone::UTC, unless).unwrap()
}

fn topic(server: &Server) -> Ntfy {
    Ntfy::new(name("topic"), server.url.clone(), "ops".to_owned(), None, anywhere())
}

fn priorities(notices: &[Value]) -> Vec<i64> {
    notices.iter().map(|notice| notice["priority"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn what_is_grave_is_told_while_it_is_quiet_and_the_rest_waits_without_taking_its_place() {
    let stage = Stage::new();
    let server = Server::start(|_| ok(json!({ "id": "n1", "time": 1 }))).await;
    // They end before the one that is told, and are more than are looked at in one round.
    for _ in 0..20 {
        stage.ask_as(Severity::Warning).await;
    }
    let critical = stage.ask_as(Severity::Critical).await;
    let quiet = quiet(3_600, Some(Severity::Critical));
    let _running = desk_with(stage.engine(), topic(&server), Some(quiet)).run();
    assert_eq!(priorities(&server.until("", 1).await), [CRITICAL]);
    // Messages about what is over are withdrawn as ever.
    stage.store.resolve_approval(&critical.id, Decision::Deny, "joe", Timestamp::now()).await.unwrap();
    assert_eq!(priorities(&server.until("", 2).await), [CRITICAL, OVER]);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(server.of("").len(), 2, "nobody is told of the others");
}

#[tokio::test]
async fn what_still_waits_when_the_quiet_ends_is_told_then() {
    let stage = Stage::new();
    let server = Server::start(|_| ok(json!({ "id": "n1", "time": 1 }))).await;
    stage.ask_as(Severity::Warning).await;
    let over = stage.ask_as(Severity::Warning).await;
    let quiet = quiet(4, Some(Severity::Critical));
    let _running = desk_with(stage.engine(), topic(&server), Some(quiet.clone())).run();
    // Answers count while it is quiet.
    stage.store.resolve_approval(&over.id, Decision::Deny, "joe", Timestamp::now()).await.unwrap();
    stage.ask_as(Severity::Critical).await;
    let told = server.until("", 2).await;
    assert_eq!(quiet.left(Timestamp::now()), None, "the second one is told once the quiet is over");
    assert_eq!(priorities(&told), [CRITICAL, WARNING]);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(server.of("").len(), 2, "what was answered meanwhile is not told");
}

#[tokio::test]
async fn nothing_is_told_in_quiet_hours_that_nothing_breaks() {
    let stage = Stage::new();
    let server = Server::start(|_| ok(json!({ "id": "n1", "time": 1 }))).await;
    let _running = desk_with(stage.engine(), topic(&server), Some(quiet(3_600, None))).run();
    stage.ask_as(Severity::Critical).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(server.of("").is_empty());
}

#[tokio::test]
async fn what_passes_when_nobody_answers_is_told_while_it_is_quiet() {
    let stage = Stage::new();
    let server = Server::start(|_| ok(json!({ "id": "n1", "time": 1 }))).await;
    let _running =
        desk_with(stage.engine(), topic(&server), Some(quiet(3_600, Some(Severity::Critical)))).run();
    stage.ask_as(Severity::Warning).await;
    let passes =
        NewApproval { timeout_behavior: TimeoutBehavior::Allow, ..question(&json!({ "command": "ls" })) };
    stage.store.create_approval(passes).await.unwrap();
    server.until("", 1).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(server.of("").len(), 1, "the other one waits");
}
