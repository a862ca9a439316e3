use std::time::Duration;

use backstop_hooks::points::SessionEndReason;
use backstop_store::{LeaseError, LeaseHolder, RunError, RunOutcome, SessionEnd, SessionError, Store};

use crate::support::{at, over_all_forms, session};

over_all_forms!(
    a_session_is_kept_as_it_was_given,
    lists_are_ordered_and_bounded,
    a_session_ends_once,
    one_holder_at_a_time,
    a_dead_holder_holds_nobody_up,
    a_lost_lease_is_not_renewed,
    an_interrupted_run_is_seen,
);

const TTL: Duration = Duration::from_millis(100);

async fn a_session_is_kept_as_it_was_given(store: &dyn Store) {
    let mut wanted = session("s1", "chat", 7);
    wanted.resumed_from = Some("s0".into());
    wanted.ended = Some(SessionEnd { at: at(9), reason: SessionEndReason::Compaction });
    store.create_session(wanted.clone()).await.unwrap();
    assert_eq!(store.session(&"s1".into()).await.unwrap(), Some(wanted.clone()));
    assert_eq!(store.session(&"s2".into()).await.unwrap(), None);
    let twice = store.create_session(wanted).await;
    assert!(matches!(twice, Err(SessionError::Exists(id)) if id.as_str() == "s1"));
}

async fn lists_are_ordered_and_bounded(store: &dyn Store) {
    for (id, created) in [("a", 1), ("b", 3), ("c", 2)] {
        store.create_session(session(id, "chat", created)).await.unwrap();
    }
    store.touch_session(&"a".into(), at(10)).await.unwrap();
    store.touch_session(&"a".into(), at(4)).await.unwrap();
    let ids = |sessions: Vec<backstop_store::Session>| {
        sessions.iter().map(|session| session.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(store.sessions(9).await.unwrap()), ["a", "b", "c"]);
    assert_eq!(ids(store.sessions(2).await.unwrap()), ["a", "b"]);
    let latest = store.latest_session(&"chat".into()).await.unwrap().unwrap();
    assert_eq!(latest.id.as_str(), "b");
    assert_eq!(store.latest_session(&"other".into()).await.unwrap(), None);
    assert!(matches!(store.touch_session(&"z".into(), at(1)).await, Err(SessionError::Unknown(_))));
}

async fn a_session_ends_once(store: &dyn Store) {
    store.create_session(session("s1", "chat", 1)).await.unwrap();
    assert!(store.end_session(&"s1".into(), SessionEndReason::Reset, at(5)).await.unwrap());
    assert!(!store.end_session(&"s1".into(), SessionEndReason::Idle, at(6)).await.unwrap());
    let end = store.session(&"s1".into()).await.unwrap().unwrap().ended;
    assert_eq!(end, Some(SessionEnd { at: at(5), reason: SessionEndReason::Reset }));
    let unknown = store.end_session(&"s2".into(), SessionEndReason::Reset, at(5)).await;
    assert!(matches!(unknown, Err(SessionError::Unknown(_))));
}

async fn one_holder_at_a_time(store: &dyn Store) {
    store.create_session(session("s1", "chat", 1)).await.unwrap();
    let (mine, yours) = (LeaseHolder::new("me"), LeaseHolder::new("you"));
    let lease = store.lease_session(&"s1".into(), &mine, TTL, at(0)).await.unwrap();
    assert_eq!(lease.until, at(100));
    assert!(store.lease_session(&"s1".into(), &mine, TTL, at(10)).await.is_ok(), "mine already");
    let refused = store.lease_session(&"s1".into(), &yours, TTL, at(109)).await;
    match refused {
        Err(LeaseError::Held { holder, until, .. }) => assert_eq!((holder, until), (mine.clone(), at(110))),
        other => panic!("{other:?}"),
    }
    store.release_lease(&"s1".into(), &yours).await.unwrap();
    assert!(store.lease_session(&"s1".into(), &yours, TTL, at(109)).await.is_err(), "not yours to release");
    store.release_lease(&"s1".into(), &mine).await.unwrap();
    assert!(store.lease_session(&"s1".into(), &yours, TTL, at(109)).await.is_ok());
    let unknown = store.lease_session(&"s2".into(), &mine, TTL, at(0)).await;
    assert!(matches!(unknown, Err(LeaseError::Unknown(_))));
}

async fn a_dead_holder_holds_nobody_up(store: &dyn Store) {
    store.create_session(session("s1", "chat", 1)).await.unwrap();
    let (mine, yours) = (LeaseHolder::unique(), LeaseHolder::unique());
    assert!(!mine.is_gone() && !LeaseHolder::new("somewhere else").is_gone());
    // The same process id with another start is another process: this one's predecessor, long gone.
    let (name, _) = mine.as_str().rsplit_once(' ').unwrap();
    let dead = LeaseHolder::new(format!("{name} 1)"));
    assert!(dead.is_gone());
    store.lease_session(&"s1".into(), &dead, TTL, at(0)).await.unwrap();
    store.lease_session(&"s1".into(), &yours, TTL, at(1)).await.unwrap();
    let held = store.lease_session(&"s1".into(), &mine, TTL, at(2)).await;
    assert!(matches!(held, Err(LeaseError::Held { .. })), "the living keep theirs");
    // Of a process elsewhere nothing is known.
    let elsewhere = LeaseHolder::new("pid 1 (tag another-boot/pid:[1] 1)");
    assert!(!elsewhere.is_gone());
}

async fn a_lost_lease_is_not_renewed(store: &dyn Store) {
    store.create_session(session("s1", "chat", 1)).await.unwrap();
    let (mine, yours) = (LeaseHolder::unique(), LeaseHolder::unique());
    assert_ne!(mine, yours);
    store.lease_session(&"s1".into(), &mine, TTL, at(0)).await.unwrap();
    assert_eq!(store.renew_lease(&"s1".into(), &mine, TTL, at(150)).await.unwrap().until, at(250));
    store.lease_session(&"s1".into(), &yours, TTL, at(250)).await.unwrap();
    let lost = store.renew_lease(&"s1".into(), &mine, TTL, at(251)).await;
    assert!(matches!(lost, Err(LeaseError::Lost(_))));
}

async fn an_interrupted_run_is_seen(store: &dyn Store) {
    store.create_session(session("s1", "chat", 1)).await.unwrap();
    let s1 = "s1".into();
    store.start_run(&s1, &"r1".into(), at(1)).await.unwrap();
    store.start_run(&s1, &"r2".into(), at(2)).await.unwrap();
    assert!(store.end_run(&s1, &"r1".into(), RunOutcome::Blocked, at(3)).await.unwrap());
    assert!(!store.end_run(&s1, &"r1".into(), RunOutcome::Finished, at(4)).await.unwrap());
    let ended = store.run(&s1, &"r1".into()).await.unwrap().unwrap().ended.unwrap();
    assert_eq!((ended.at, ended.outcome), (at(3), RunOutcome::Blocked));
    let open = store.open_runs(&s1).await.unwrap();
    assert_eq!(open.len(), 1);
    assert_eq!((open[0].id.as_str(), open[0].started_at), ("r2", at(2)));
    assert!(matches!(store.start_run(&s1, &"r2".into(), at(5)).await, Err(RunError::Exists { .. })));
    assert!(matches!(
        store.start_run(&"x".into(), &"r".into(), at(5)).await,
        Err(RunError::UnknownSession(_))
    ));
    let unknown = store.end_run(&s1, &"r9".into(), RunOutcome::Failed, at(5)).await;
    assert!(matches!(unknown, Err(RunError::Unknown { .. })));
}
