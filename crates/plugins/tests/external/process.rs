//! A good program: what it is asked, what it answers, how it is stopped.

use backstop_engine::{FailureKind, Said};
use backstop_plugins::registration::{OfferKind, Registration};
use serde_json::json;

use crate::support::{
    PATIENCE, begun, failure, judge, observe, passes, patient, runs, settings, start, started, until,
};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test]
async fn a_program_judges_rewrites_and_fails() {
    let folder = folder();
    let (plugin, engine) = started("good", folder.path()).await;
    assert!(passes(&engine, "ls").await);
    let blocked = judge(&engine, "sudo ls").await.permit.unwrap_err();
    assert_eq!(blocked.reason.unwrap().text().as_str(), "sudo is not allowed");
    assert_eq!(blocked.hook.unwrap().as_str(), "mine:before_tool_call:before_tool_call");
    let rewritten = judge(&engine, "rewrite this").await;
    assert_eq!(rewritten.receipt.steps[0].said, Said::Rewrote);
    let event = rewritten.permit.unwrap().redeem().unwrap();
    assert_eq!(event.params.get("command").unwrap(), "echo changed");
    assert_eq!(failure(&engine, "fail").await, (FailureKind::Failed, "I give up".to_owned()));
    assert_eq!(failure(&engine, "malformed").await.0, FailureKind::Malformed);
    assert!(observe(&engine, "ls").await.steps[0].failure.is_none());
    assert!(plugin.is_ready(), "none of this is a reason to start it again");
}

#[tokio::test]
async fn a_program_gets_the_environment_of_its_entry_and_its_mark() {
    let folder = folder();
    assert!(std::env::vars().count() > 2, "there is more that it could be given");
    let (_plugin, engine) = started("good", folder.path()).await;
    let blocked = judge(&engine, "environment").await.permit.unwrap_err();
    let names = blocked.reason.unwrap().text().as_str().to_owned();
    // What a `python3` that is a shell script, or Python itself, adds.
    let added = |name: &str| {
        ["PYENV_", "_PYENV_", "LC_CTYPE", "PWD", "OLDPWD", "SHLVL", "_"]
            .iter()
            .any(|own| name.starts_with(own))
    };
    let names: Vec<_> = names.split(' ').filter(|name| !added(name)).collect();
    assert_eq!(names, ["BACKSTOP_PLUGIN_ID", "PATH"]);
}

#[tokio::test]
async fn a_program_brings_tools() {
    let folder = folder();
    let (plugin, _) = started("good", folder.path()).await;
    let mut registration = Registration::new("mine").unwrap();
    plugin.register(&mut registration, |hook| hook).unwrap();
    let offer = &registration.offers()[0];
    assert_eq!((offer.kind, offer.name.as_str()), (OfferKind::Tool, "echo"));
    let answer = plugin.call_tool("echo", &json!({ "a": 1 })).await.unwrap();
    assert_eq!(answer, json!({ "echo": { "a": 1 } }));
}

#[tokio::test]
async fn a_program_works_on_as_many_events_as_it_says() {
    let folder = folder();
    let (plugin, engine) = started("slow", folder.path()).await;
    let engine = std::sync::Arc::new(engine);
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let engine = std::sync::Arc::clone(&engine);
            tokio::spawn(async move { judge(&engine, "x").await.permit.unwrap_err().reason.unwrap() })
        })
        .collect();
    until("three are worked on", || folder.path().join("running-3").exists()).await;
    std::fs::write(folder.path().join("go"), "").unwrap();
    for call in calls {
        let most: usize = call.await.unwrap().text().as_str().parse().unwrap();
        assert!(most <= 3, "{most} at once");
    }
    assert!(!folder.path().join("running-4").exists());
    assert!(plugin.is_idle());
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled_and_its_late_answer_dropped() {
    let folder = folder();
    let (plugin, engine) = started("late", folder.path()).await;
    let engine = std::sync::Arc::new(engine);
    let waits = tokio::spawn({
        let engine = std::sync::Arc::clone(&engine);
        async move { judge(&engine, "wait").await }
    });
    until("it was asked", || folder.path().join("asked").exists()).await;
    waits.abort();
    until("it answered late", || folder.path().join("answered-late").exists()).await;
    assert!(passes(&engine, "ls").await, "an answer to another call was taken for this one's");
    assert!(plugin.is_idle());
    let starts = std::fs::read_to_string(folder.path().join("started")).unwrap();
    assert_eq!(starts.lines().count(), 1, "a late answer is no reason to start it again");
}

#[tokio::test]
async fn a_program_that_is_told_to_stop_ends_and_its_hooks_fail() {
    let folder = folder();
    for kind in ["good", "stubborn"] {
        let (plugin, engine) = started(kind, folder.path()).await;
        plugin.shut_down().await;
        let (kind, message) = failure(&engine, "ls").await;
        assert_eq!(kind, FailureKind::Unreachable);
        assert!(message.contains("has been shut down"), "{message}");
    }
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    assert!(!runs(&pid), "it ignored the polite signal and is still there");
}

#[tokio::test]
async fn a_program_that_is_lost_and_told_to_stop_is_not_started_any_more() {
    let folder = folder();
    let (plugin, engine) = start(patient("mute-again", folder.path())).await.unwrap();
    let starts = || std::fs::read_to_string(folder.path().join("started")).unwrap().lines().count();
    assert_eq!(failure(&engine, "bad").await.0, FailureKind::Unreachable);
    until("it is being started again", || starts() == 2).await;
    let over = plugin.shut_down();
    assert!(tokio::time::timeout(PATIENCE, over).await.is_ok(), "its end has no end");
    let (_, message) = failure(&engine, "ls").await;
    assert!(message.contains("has been shut down"), "{message}");
    assert_eq!(starts(), 2, "it was started after it was told to stop");
    for pid in std::fs::read_to_string(folder.path().join("started")).unwrap().lines() {
        assert!(!runs(pid), "{pid} is still there");
    }
}

#[tokio::test]
async fn dropping_a_plugin_ends_its_whole_tree() {
    let folder = folder();
    let (plugin, engine) = start(patient("forks-away", folder.path())).await.unwrap();
    let child = std::fs::read_to_string(folder.path().join("child")).unwrap();
    let begun = begun(&child);
    assert!(runs(&child) && begun.is_some());
    drop(plugin);
    assert!(passes(&engine, "ls").await, "its hooks keep it");
    drop(engine);
    // Its number may be another's by then.
    until("what left its group is gone", || !runs(&child) || self::begun(&child) != begun).await;
}

#[tokio::test]
async fn what_a_program_logs_is_no_answer() {
    let folder = folder();
    let (_plugin, engine) = started("logs", folder.path()).await;
    assert!(passes(&engine, "ls").await);
    assert!(!passes(&engine, "sudo").await);
}

#[tokio::test]
async fn a_program_that_is_no_plugin_is_an_error_that_says_why() {
    let folder = folder();
    for (kind, said) in [
        ("crash-at-start", &["exit status: 4", "no module named  hunter"][..]),
        ("mute", &["did not answer `initialize` within"]),
        ("old", &["speaks protocol 7", "speaks 1"]),
    ] {
        let mut settings = settings(kind, folder.path());
        settings.limits.start = std::time::Duration::from_millis(if kind == "mute" { 300 } else { 10_000 });
        let error = start(settings).await.map(drop).unwrap_err().to_string();
        assert!(error.contains("process of `mine`"), "{error}");
        assert!(said.iter().all(|said| error.contains(said)), "{error}");
    }
    let mut settings = settings("good", folder.path());
    settings.program = "/nonexistent/program".into();
    let error = start(settings).await.map(drop).unwrap_err().to_string();
    assert!(error.contains("could not be started"), "{error}");
}

#[tokio::test]
async fn law_04_a_program_whose_files_are_not_those_that_were_looked_at_is_not_started() {
    let folder = folder();
    std::fs::write(folder.path().join("words.py"), "one = 1").unwrap();
    let mut given = settings("good", folder.path());
    let seal = std::sync::Arc::new(backstop_plugins::package::Seal::of(folder.path()).unwrap());
    given.seal = Some(seal);
    assert!(start(given.clone()).await.is_ok());
    std::fs::write(folder.path().join("words.py"), "one = 2").unwrap();
    let error = start(given).await.unwrap_err().to_string();
    assert!(
        error.contains("is not started: `words.py` was changed") && error.contains("\nhint: "),
        "{error}"
    );
}
