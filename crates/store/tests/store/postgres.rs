//! The store on a server: what several machines agree on, and what becomes of operations when the server goes away.

use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::conversation::Message;
use backstop_hooks::{ApprovalId, Decision};
use backstop_store::{
    APPROVAL_ANSWERED, ApprovalStatus, ApprovalStore as _, AuditFilter, AuditStore as _, BudgetStore as _,
    Change, Charge, Erasure, GrantStore as _, PersonsAnswer, PostgresOptions, ReservationId, ReserveError,
    SessionError, SessionStore as _, Store, StoreError, StoreErrorKind, Timestamp, TranscriptError,
    TranscriptStore as _,
};
use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::server::{Server, free_port, give};
use crate::support::{at, begun, block_on, entry, me, question, session};
use crate::wire::Wire;

pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Waits for what comes of itself, for as long as a slow machine may take.
pub(crate) async fn until<T>(mut found: impl AsyncFnMut() -> Option<T>) -> T {
    tokio::time::timeout(LONG, async {
        loop {
            if let Some(found) = found().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap()
}

pub(crate) fn told(error: &StoreError) -> String {
    let text = error.to_string();
    assert!(text.contains("schema") && text.contains("\nhint: "), "{text}");
    text
}

#[tokio::test]
async fn two_gateways_answer_a_question_at_once_and_one_was_first() {
    let (server, folders) = (Server::start(), [TempDir::new().unwrap(), TempDir::new().unwrap()]);
    let [one, other] = folders.each_ref().map(|folder| Arc::new(server.store(folder.path())));
    for n in 0..20 {
        let asked = one.create_approval(question(&format!("ls {n}"))).await.unwrap();
        let answer = |decision, by: &str| PersonsAnswer::new(decision, by, at(1_500));
        let (a, b) = tokio::join!(
            one.answer_approval(&asked.id, answer(Decision::AllowOnce, "ann")),
            other.answer_approval(&asked.id, answer(Decision::Deny, "bob")),
        );
        assert!(a.is_ok() != b.is_ok(), "both heard that theirs counts, or neither");
        let (x, y) = tokio::join!(
            one.consume_approval(&asked.id, &asked.request.digest, at(1_600)),
            other.consume_approval(&asked.id, &asked.request.digest, at(1_600)),
        );
        assert_eq!(
            u8::from(x.is_ok()) + u8::from(y.is_ok()),
            u8::from(a.is_ok()),
            "used once, if it was allowed"
        );
    }
    let mut said = 0;
    for store in [one, other] {
        let answers = AuditFilter { kind: Some(APPROVAL_ANSWERED.to_owned()), ..AuditFilter::default() };
        said += store.audit(&answers, 0, 99).await.unwrap().len();
        store.verify_audit(None).await.unwrap();
    }
    assert_eq!(said, 20, "whoever answers says so in the trail of their machine");
}

#[tokio::test]
async fn gateways_never_spend_more_than_there_is() {
    let (server, folders) = (Server::start(), [TempDir::new().unwrap(), TempDir::new().unwrap()]);
    let mut spending = Vec::new();
    for (name, folder) in folders.iter().enumerate() {
        let store = Arc::new(server.store(folder.path()));
        for task in 0..4 {
            let store = Arc::clone(&store);
            spending.push(tokio::spawn(async move {
                let mut spent = 0_u64;
                loop {
                    let id = ReservationId::new(format!("{name}-{task}-{spent}"));
                    let charge = Charge {
                        counter: "requests".into(),
                        since: at(0),
                        until: None,
                        amount: 1,
                        limit: 60,
                    };
                    match store.reserve(&id, vec![charge]).await {
                        Ok(()) => spent += 1,
                        Err(ReserveError::Exceeded(_)) => return spent,
                        Err(other) => panic!("{other}"),
                    }
                }
            }));
        }
    }
    let mut all = 0;
    for spent in spending {
        all += spent.await.unwrap();
    }
    assert_eq!(all, 60);
}

#[tokio::test]
async fn an_answer_at_one_gateway_wakes_who_waits_at_another() {
    let (server, folders) = (Server::start(), [TempDir::new().unwrap(), TempDir::new().unwrap()]);
    let [here, there] = folders.each_ref().map(|folder| Arc::new(server.store(folder.path())));
    for n in 0..5 {
        let asked = here.create_approval(question(&format!("ls {n}"))).await.unwrap();
        let (store, id) = (Arc::clone(&here), asked.id.clone());
        let wait = async move { store.wait_approval(&id, Timestamp::now().after(LONG * 10)).await };
        let waiting = tokio::spawn(wait);
        there.resolve_approval(&asked.id, Decision::AllowOnce, "ann", at(1_500)).await.unwrap();
        let answered = tokio::time::timeout(LONG, waiting).await.unwrap().unwrap().unwrap().unwrap();
        assert_eq!(answered.state.status(), ApprovalStatus::Allowed);
    }
}

/// Nobody looks here but who was told: what one gateway answers, another one hears from the server.
#[tokio::test]
async fn the_server_tells_of_answers_so_that_nobody_has_to_look() {
    let (server, folders) = (Server::start(), [TempDir::new().unwrap(), TempDir::new().unwrap()]);
    let [here, there] = folders.each_ref().map(|folder| {
        let options = server.options().look_every(Duration::from_hours(1));
        Arc::new(server.store_with(options, folder.path()))
    });
    let wait = |id: ApprovalId| {
        let store = Arc::clone(&here);
        tokio::spawn(async move { store.wait_approval(&id, Timestamp::now().after(LONG * 10)).await })
    };
    // As long as this one waits, the same connection listens.
    let kept = here.create_approval(question("kept")).await.unwrap();
    let keeping = wait(kept.id.clone());
    // Whoever begins to listen looks once. That is over by then.
    let listening =
        "SELECT pid FROM pg_stat_activity WHERE state = 'idle' AND query LIKE 'SELECT coalesce(max(change)%'";
    until(async || server.run(listening).await).await;
    for n in 0..3 {
        let asked = here.create_approval(question(&format!("ls {n}"))).await.unwrap();
        let waiting = wait(asked.id.clone());
        // It has read its row, and waits.
        tokio::time::sleep(Duration::from_millis(200)).await;
        there.resolve_approval(&asked.id, Decision::AllowOnce, "ann", at(1_500)).await.unwrap();
        let answered = tokio::time::timeout(LONG, waiting).await.unwrap().unwrap().unwrap().unwrap();
        assert_eq!(answered.state.status(), ApprovalStatus::Allowed);
    }
    assert!(!keeping.is_finished());
    there.resolve_approval(&kept.id, Decision::Deny, "ann", at(1_500)).await.unwrap();
    let ended = tokio::time::timeout(LONG, keeping).await.unwrap().unwrap().unwrap().unwrap();
    assert_eq!(ended.state.status(), ApprovalStatus::Denied);
}

#[tokio::test]
async fn who_waits_hears_of_an_answer_though_the_listening_connection_was_cut() {
    let (server, folders) = (Server::own(&[]), [TempDir::new().unwrap(), TempDir::new().unwrap()]);
    let [here, there] = folders.each_ref().map(|folder| Arc::new(server.store(folder.path())));
    let asked = here.create_approval(question("ls")).await.unwrap();
    let (store, id) = (Arc::clone(&here), asked.id.clone());
    let waiting =
        tokio::spawn(async move { store.wait_approval(&id, Timestamp::now().after(LONG * 10)).await });
    let listening = "FROM pg_stat_activity WHERE query LIKE '%approval_changes WHERE change > %' AND pid <> pg_backend_pid()";
    until(async || server.run(&format!("SELECT pid {listening}")).await).await;
    server.run(&format!("SELECT pg_terminate_backend(pid) {listening}")).await.unwrap();
    there.resolve_approval(&asked.id, Decision::AllowOnce, "ann", at(1_500)).await.unwrap();
    let answered = tokio::time::timeout(LONG, waiting).await.unwrap().unwrap().unwrap().unwrap();
    assert_eq!(answered.state.status(), ApprovalStatus::Allowed);
}

/// It would look by itself only after an hour.
#[tokio::test]
async fn what_the_server_says_of_an_answer_is_enough() {
    let (server, folders) = (Server::own(&[]), [TempDir::new().unwrap(), TempDir::new().unwrap()]);
    let here =
        Arc::new(server.store_with(server.options().look_every(Duration::from_hours(1)), folders[0].path()));
    let there = server.store(folders[1].path());
    let wait = async |question| {
        let asked = here.create_approval(question).await.unwrap();
        let (store, id) = (Arc::clone(&here), asked.id.clone());
        let wait = async move { store.wait_approval(&id, Timestamp::now().after(LONG * 10)).await };
        (asked.id, tokio::spawn(wait))
    };
    let (_, never) = wait(question("never")).await;
    // Whoever begins to listen looks as well, so that is over first: it looks again only if it is told.
    let looked = "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%approval_changes WHERE change > %' AND pid <> pg_backend_pid()";
    until(async || {
        let other = there.create_approval(question("other")).await.unwrap();
        there.resolve_approval(&other.id, Decision::Deny, "ann", at(1_500)).await.unwrap();
        server.run(looked).await
    })
    .await;
    for n in 0..3 {
        let (asked, waiting) = wait(question(&format!("ls {n}"))).await;
        there.resolve_approval(&asked, Decision::AllowOnce, "ann", at(1_500)).await.unwrap();
        let answered = tokio::time::timeout(LONG, waiting).await.unwrap().unwrap().unwrap().unwrap();
        assert_eq!(answered.state.status(), ApprovalStatus::Allowed);
    }
    never.abort();
}

/// It would look by itself only after an hour.
#[tokio::test]
async fn a_change_of_the_greatest_number_hides_no_answer() {
    let (server, folders) = (Server::start(), [TempDir::new().unwrap(), TempDir::new().unwrap()]);
    let [here, there] = folders.each_ref().map(|folder| {
        let options = server.options().look_every(Duration::from_hours(1));
        Arc::new(server.store_with(options, folder.path()))
    });
    let asked = here.create_approval(question("ls")).await.unwrap();
    let (store, id) = (Arc::clone(&here), asked.id.clone());
    let waiting =
        tokio::spawn(async move { store.wait_approval(&id, Timestamp::now().after(LONG * 10)).await });
    let listening =
        "SELECT pid FROM pg_stat_activity WHERE state = 'idle' AND query LIKE 'SELECT coalesce(max(change)%'";
    until(async || server.run(listening).await).await;
    let (greatest, all) = (
        "INSERT INTO approval_changes (change, approval) VALUES (9223372036854775807, 'none')",
        "SELECT max(change) FROM approval_changes WHERE change = 9223372036854775807 HAVING count(*) > 0",
    );
    server.run(greatest).await;
    there.resolve_approval(&asked.id, Decision::AllowOnce, "ann", at(1_500)).await.unwrap();
    let answered = tokio::time::timeout(LONG, waiting).await.unwrap().unwrap().unwrap().unwrap();
    assert_eq!(answered.state.status(), ApprovalStatus::Allowed);
    assert_eq!(server.run(all).await, None, "what comes is hidden by it no longer");
}

/// As when the server's machine, or this one, is set to another time.
#[tokio::test]
async fn nothing_is_done_while_the_clocks_disagree() {
    const FAR: i64 = 3_600_000;
    let (server, folder) = (Server::own(&[]), TempDir::new().unwrap());
    let wire = Wire::to(server.socket());
    let store = server.store_with(wire.options(), folder.path());
    let s1 = begun(&store).await;
    for ahead in [FAR, -FAR] {
        for is_connected in [true, false] {
            wire.set_clock(ahead);
            if !is_connected {
                wire.cut();
            }
            for _ in 0..2 {
                let error = store.append(&s1, &me(), vec![entry("m1", "one")]).await.unwrap_err();
                let TranscriptError::Store(error) = error else { panic!("{error}") };
                assert_eq!(error.kind(), StoreErrorKind::CannotOpen, "{error}");
                assert!(told(&error).contains("clocks"), "{error}");
                assert_eq!(store.sessions(9).await.unwrap_err().kind(), StoreErrorKind::CannotOpen);
            }
            wire.set_clock(0);
            until(async || store.sessions(9).await.ok()).await;
            assert_eq!(store.transcript(&s1).await.unwrap().len(), 0);
        }
    }
    wire.set_clock(20_000);
    store.append(&s1, &me(), vec![entry("m1", "one")]).await.unwrap();
}

#[tokio::test]
async fn without_its_server_it_fails_and_recovers_by_itself() {
    let (mut server, folder) = (Server::own(&[]), TempDir::new().unwrap());
    let options = server.options().statement_timeout(Duration::from_millis(500));
    let store = server.store_with(options, folder.path());
    let s1 = begun(&store).await;
    store.append(&s1, &me(), vec![entry("m1", "one")]).await.unwrap();
    let asked = store.create_approval(question("ls")).await.unwrap();
    server.stop();
    for _ in 0..3 {
        let Err(SessionError::Store(error)) = store.create_session(session("s2", "chat", 1)).await else {
            panic!()
        };
        assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
        told(&error);
    }
    let waited = store.wait_approval(&asked.id, Timestamp::now().after(LONG * 10)).await;
    assert_eq!(waited.unwrap_err().kind(), StoreErrorKind::Unreachable, "who waits is not left waiting");
    let waited = store.wait_approval(&asked.id, Timestamp::now().after(Duration::from_millis(100))).await;
    assert_eq!(waited.unwrap_err().kind(), StoreErrorKind::Unreachable, "nor told that nobody has answered");
    assert!(store.consume_approval(&asked.id, &asked.request.digest, at(1_500)).await.is_err());
    server.start_again();
    until(async || store.create_session(session("s3", "chat", 1)).await.ok()).await;
    assert_eq!(store.session(&"s2".into()).await.unwrap(), None, "what failed did not happen");
    assert_eq!(store.transcript(&s1).await.unwrap().len(), 1);
    // A server that was restarted while nothing was asked of it makes no operation fail.
    server.stop();
    server.start_again();
    store.check_writable().await.unwrap();
    assert_eq!(store.sessions(9).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_server_that_says_nothing_is_not_waited_for_without_end() {
    let (server, folder) = (Server::own(&[]), TempDir::new().unwrap());
    let options = server.options().statement_timeout(Duration::from_millis(100)).connections(1);
    let store = server.store_with(options, folder.path());
    store.create_session(session("s1", "chat", 1)).await.unwrap();
    for kept in [true, false] {
        server.hold(true);
        let answered = tokio::time::timeout(LONG, store.sessions(9)).await;
        server.hold(false);
        let error = answered.unwrap().unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
        assert!(
            error.to_string().contains("did not answer in time"),
            "with a connection ({kept}) or without: {error}"
        );
    }
    until(async || store.sessions(9).await.ok()).await;
}

/// A transaction whose connection ends before it is committed has changed nothing.
#[tokio::test]
async fn a_connection_that_is_cut_in_an_operation_leaves_nothing_of_it() {
    let (server, folder) = (Server::own(&[]), TempDir::new().unwrap());
    let store = Arc::new(server.store(folder.path()));
    store.create_session(session("s0", "chat", 1)).await.unwrap();
    // The operation is held in its middle by a trigger, and its process is ended there.
    server
        .run(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(4); RETURN NEW; END $$; \
             CREATE TRIGGER slow AFTER INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION slow()",
        )
        .await;
    let writing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.create_session(session("s1", "chat", 1)).await }
    });
    let busy = "FROM pg_stat_activity WHERE query LIKE 'INSERT INTO sessions%' AND state = 'active'";
    until(async || server.run(&format!("SELECT pg_terminate_backend(pid) {busy}")).await).await;
    let Err(SessionError::Store(error)) = writing.await.unwrap() else { panic!() };
    assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
    server.run("DROP TRIGGER slow ON sessions").await;
    assert_eq!(store.sessions(9).await.unwrap().len(), 1);
    store.create_session(session("s1", "chat", 1)).await.unwrap();
}

/// The process of a connection is ended by a deferred trigger, which is when it commits.
async fn cut_while_committing(server: &Server, after: &str) -> Result<(), StoreError> {
    let folder = TempDir::new().unwrap();
    let store = server.store(folder.path());
    store.sessions(1).await.unwrap();
    server
        .run(&format!(
            "CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {after} \
             PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(1); RETURN NULL; END $$; \
             CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON sessions DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION cut()"
        ))
        .await;
    match store.create_session(session("s1", "chat", 1)).await {
        Ok(()) => Ok(()),
        Err(SessionError::Store(error)) => Err(error),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_commit_that_was_cut_before_it_counted_is_known_to_have_failed() {
    let server = Server::start();
    let error = cut_while_committing(&server, "").await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
    assert_eq!(server.run("SELECT count(*) FROM sessions").await.as_deref(), Some("0"));
}

/// The answer to a commit is lost on its way, and the server says afterwards that it counted.
#[tokio::test]
async fn a_commit_that_counted_has_happened_though_its_answer_was_lost() {
    let (server, folder) = (Server::own(&[]), TempDir::new().unwrap());
    let wire = Wire::to(server.socket());
    let store = server.store_with(wire.options(), folder.path());
    let s1 = begun(&store).await;
    wire.lose_the_answer_to_a_commit();
    store.append(&s1, &me(), vec![entry("m1", "one")]).await.unwrap();
    assert!(wire.has_lost(), "or this proves nothing");
    assert_eq!(store.transcript(&s1).await.unwrap().len(), 1);
}

/// As above, but nobody can be asked.
#[tokio::test]
async fn a_commit_of_which_nobody_knows_is_said_to_be_one() {
    let (mut server, folder) = (Server::own(&[]), TempDir::new().unwrap());
    let wire = Wire::to(server.socket());
    let store = Arc::new(server.store_with(wire.options(), folder.path()));
    let s1 = begun(&*store).await;
    wire.lose_the_answer_to_a_commit();
    wire.let_nobody_in();
    let error = store.append(&s1, &me(), vec![entry("m1", "one")]).await.unwrap_err();
    let TranscriptError::Store(error) = error else { panic!("{error}") };
    assert!(wire.has_lost(), "or this proves nothing");
    assert_eq!(error.kind(), StoreErrorKind::Uncertain, "{error}");
    assert!(told(&error).contains("may or may not"));
    server.stop();
}

#[tokio::test]
async fn what_was_taken_out_is_in_no_table_and_not_said_to_be_wiped() {
    let (server, folder) = (Server::start(), TempDir::new().unwrap());
    let store = server.store(folder.path());
    let s1 = begun(&store).await;
    store.append(&s1, &me(), vec![entry("m1", "hush"), entry("m2", "hush")]).await.unwrap();
    let asked = store.create_approval(question("hush")).await.unwrap();
    let changes = vec![
        Change::Replace { id: "m1".into(), message: Message::user("-") },
        Change::Remove { id: "m2".into() },
    ];
    assert_eq!(store.apply(&s1, &me(), changes).await.unwrap(), Erasure::Pending);
    store.erase_preview(&asked.id).await.unwrap();
    let left =
        "SELECT count(*) FROM texts WHERE position('hush'::bytea IN body) > 0 OR octet_length(body) = 0";
    assert_eq!(server.run(left).await.as_deref(), Some("0"));
    assert_eq!(server.run("SELECT count(*) FROM texts").await.as_deref(), Some("2"));
}

#[tokio::test]
async fn who_holds_a_lock_is_waited_for_up_to_a_limit() {
    let (server, folder) = (Server::start(), TempDir::new().unwrap());
    let options = server.options().statement_timeout(Duration::from_millis(100));
    let store = server.store_with(options, folder.path());
    store.create_session(session("s1", "chat", 1)).await.unwrap();
    let held = "BEGIN; LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(2); COMMIT";
    let (error, _) = tokio::join!(
        async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            store.sessions(9).await.unwrap_err()
        },
        server.run(held),
    );
    assert_eq!(error.kind(), StoreErrorKind::Locked, "{error}");
    told(&error);
    store.sessions(9).await.unwrap();
}

#[tokio::test]
async fn gateways_that_begin_at_once_make_one_schema() {
    let server = Server::start();
    let folders: Vec<TempDir> = (0..4).map(|_| TempDir::new().unwrap()).collect();
    let stores = folders.iter().map(|folder| server.store(folder.path()));
    let mut begun = Vec::new();
    for (n, store) in stores.enumerate() {
        begun.push(tokio::spawn(
            async move { store.create_session(session(&format!("s{n}"), "chat", 1)).await },
        ));
    }
    for begun in begun {
        begun.await.unwrap().unwrap();
    }
    assert_eq!(server.run("SELECT count(*) FROM sessions").await.as_deref(), Some("4"));
}

#[tokio::test]
async fn a_newer_schema_and_one_of_another_program_are_left_alone() {
    let (server, folder) = (Server::start(), TempDir::new().unwrap());
    let store = || server.store(folder.path());
    store().sessions(1).await.unwrap();
    server.run("UPDATE backstop_schema SET version = 4000").await;
    let error = store().grants(1).await.unwrap_err();
    assert!(matches!(error.kind(), StoreErrorKind::NewerSchema { found: 4_000, .. }), "{error}");
    assert!(told(&error).contains("update backstop"));
    server.run("DROP TABLE backstop_schema").await;
    let error = store().grants(1).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::ForeignDatabase, "{error}");
    told(&error);
}

#[tokio::test]
async fn a_wrong_address_names_the_server_and_never_the_password() {
    let word = ["hun", "ter2"].concat();
    let folder = TempDir::new().unwrap();
    let address = format!("postgres://ann:{word}@127.0.0.1:{}/db?sslmode=disable", free_port());
    let options = PostgresOptions::from_url(&address).unwrap();
    let store = backstop_store::PostgresStore::new(
        options,
        folder.path().join("t.trail"),
        folder.path().join("audit.key"),
    );
    let error = store.sessions(1).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);
    let text = format!("{error} {error:?} {store:?}");
    assert!(text.contains("db at 127.0.0.1") && !text.contains(&word), "{text}");
}

#[tokio::test]
async fn text_with_a_null_character_is_refused_and_harms_nothing() {
    let (server, folder) = (Server::start(), TempDir::new().unwrap());
    let store = server.store(folder.path());
    let error = store.create_session(session("a\0b", "chat", 1)).await.unwrap_err();
    assert!(error.to_string().contains("null character"), "{error}");
    store.create_session(session("s1", "chat", 1)).await.unwrap();
    // In messages and in JSON it is written as an escape.
    let s2 = store.create_session(session("s2", "chat", 1)).await.map(|()| "s2".into()).unwrap();
    store.lease_session(&s2, &me(), LONG, at(1)).await.unwrap();
    store.append(&s2, &me(), vec![entry("m1", "a\0b")]).await.unwrap();
    assert_eq!(store.transcript(&s2).await.unwrap()[0].message.visible_text(), "a\0b");
}

#[tokio::test]
async fn a_damaged_row_is_an_error_and_not_shown() {
    let (server, folder) = (Server::start(), TempDir::new().unwrap());
    let store = server.store(folder.path());
    store.create_session(session("s1", "chat", 1)).await.unwrap();
    server.run("UPDATE sessions SET end_reason = 'hunter2', ended_at = 3").await;
    let error = store.session(&"s1".into()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Corrupt);
    assert!(!format!("{error} {error:?}").contains("hunter2"));
    server.run("UPDATE sessions SET end_reason = NULL, ended_at = NULL").await;
    assert!(store.session(&"s1".into()).await.unwrap().is_some(), "the store works on");
}

/// The server proves its name to who connects, by the authority that was named and no other.
#[tokio::test]
async fn an_encrypted_connection_is_one_to_the_server_that_was_meant() {
    let authority = || {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        (Issuer::new(params, key), pem)
    };
    let ((issuer, ours), (_, other)) = (authority(), authority());
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let mut server = Server::own(&[]);
    server.stop();
    for (name, text) in [("server.crt", certificate.pem()), ("server.key", key.serialize_pem())] {
        use std::os::unix::fs::PermissionsExt as _;
        let path = server.data().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        give(&path);
    }
    let port = free_port();
    std::fs::write(
        server.data().join("pg_hba.conf"),
        "local all all trust\nhostssl all all 127.0.0.1/32 trust\n",
    )
    .unwrap();
    server.start_again_with(&[
        "-c",
        "ssl=on",
        "-c",
        "listen_addresses=127.0.0.1",
        "-c",
        &format!("port={port}"),
    ]);
    let open = async |host: &str, more: &str, authorities: Option<&str>| {
        let address = format!("postgres://backstop@{host}:{port}/postgres?{more}");
        let options = match authorities {
            Some(pem) => PostgresOptions::from_url_trusting(&address, pem.as_bytes()),
            None => PostgresOptions::from_url(&address),
        };
        let trail = TempDir::new().unwrap();
        let store = server.store_with(options.unwrap(), trail.path());
        store.sessions(1).await.map(drop)
    };
    open("127.0.0.1", "", Some(&ours)).await.unwrap();
    for (host, more, authorities) in [
        ("127.0.0.1", "", Some(&*other)),
        ("127.0.0.1", "sslmode=verify-full", None),
        ("localhost", "", Some(&*ours)),
        ("127.0.0.1", "", None),
        ("127.0.0.1", "sslmode=disable", None),
    ] {
        let error = open(host, more, authorities).await.unwrap_err();
        told(&error);
        assert_eq!(error.kind(), StoreErrorKind::CannotOpen, "{host} {more}: {error}");
    }
}

/// The form behind the trait that everything else sees.
#[tokio::test]
async fn it_is_a_store_like_any_other() {
    let (server, folder) = (Server::start(), TempDir::new().unwrap());
    let store: Arc<dyn Store> = Arc::new(server.store(folder.path()));
    store.check_writable().await.unwrap();
    assert!(store.void_grants(9).await.unwrap().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    /// Whatever two gateways do with a question at once, it is answered once and used at most once.
    #[test]
    fn gateways_agree_whatever_they_do(acts in prop::collection::vec((0..4_u8, any::<bool>()), 1..12)) {
        block_on(async {
            let (server, folders) = (Server::start(), [TempDir::new().unwrap(), TempDir::new().unwrap()]);
            let stores = folders.each_ref().map(|folder| Arc::new(server.store(folder.path())));
            let asked = stores[0].create_approval(question("ls")).await.unwrap();
            let doing: Vec<_> = acts.iter().map(|(act, here)| {
                let (store, id, digest) = (Arc::clone(&stores[usize::from(*here)]), asked.id.clone(), asked.request.digest);
                let act = *act;
                tokio::spawn(async move {
                    match act {
                        0 => (store.resolve_approval(&id, Decision::AllowOnce, "ann", at(1_500)).await.is_ok_and(|answer| answer.first), false),
                        1 => (store.resolve_approval(&id, Decision::Deny, "bob", at(1_500)).await.is_ok_and(|answer| answer.first), false),
                        2 => {
 let _ = store.cancel_approval(&id, at(1_500)).await; (false, false) },
                        _ => (false, store.consume_approval(&id, &digest, at(1_600)).await.is_ok()),
                    }
                })
            }).collect();
            let (mut answered, mut used) = (0, 0);
            for done in doing {
                let (first, consumed) = done.await.unwrap();
                answered += usize::from(first);
                used += usize::from(consumed);
            }
            assert!(answered <= 1 && used <= 1, "{answered} {used}");
        });
    }
}
