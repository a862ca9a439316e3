//! Servers that are replaced by their standbys, and networks that fall silent, while gateways are at work.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_hooks::{ApprovalId, Decision, Severity};
use backstop_store::{
    ApprovalFilter, ApprovalStatus, ApprovalStore as _, Asked, BudgetStore as _, Charge, ConsumeError,
    CreateApprovalError, Grant, GrantPlace, GrantQuery, GrantStore as _, GrantTarget, NewGrant,
    PersonsAnswer, PostgresOptions, PostgresStore, ReservationId, ReserveError, ResolveError, SessionError,
    SessionStore as _, StoreError, StoreErrorKind, Timestamp,
};
use tempfile::TempDir;

use crate::postgres::{LONG, told, until};
use crate::server::Server;
use crate::support::{at, digest, question, session};
use crate::wire::Wire;

/// How often the allowance can be used, and how much the budget has: more than is used before the server goes.
const MOST: u64 = 5_000;
/// What a gateway does not do at once.
const PACE: Duration = Duration::from_millis(10);

/// A gateway, and the network between it and the server.
struct Gateway {
    store: Arc<PostgresStore>,
    wire: Wire,
    _folder: TempDir,
}

impl Gateway {
    fn at(server: &Server) -> Self {
        Self::with(server, |options| options.connections(4))
    }

    fn with(server: &Server, set: impl FnOnce(PostgresOptions) -> PostgresOptions) -> Self {
        let (wire, folder) = (Wire::to(server.socket()), TempDir::new().unwrap());
        let store = Arc::new(server.store_with(set(wire.options()), folder.path()));
        Self { store, wire, _folder: folder }
    }

    /// Its address is that of another server by now.
    fn move_to(&self, server: &Server) {
        self.wire.lead_to(server.socket());
        self.wire.cut();
    }
}

fn asked() -> Asked {
    Asked {
        owner: "builtin".into(),
        hook: "guard".into(),
        severity: Severity::Warning,
        rules: ["git.push".into()].into(),
        title: "Push?".into(),
    }
}

fn grant(most_uses: u64) -> NewGrant {
    NewGrant {
        agent: "main".into(),
        tool_name: "exec".into(),
        place: GrantPlace::default(),
        question: asked(),
        target: GrantTarget::Call { digest: digest("git push"), facts: None },
        origin: None,
        title: "Push?".into(),
        created_by: "ann".to_owned(),
        person: None,
        created_at: at(1),
        expires_at: at(100),
        most_uses: Some(most_uses),
    }
}

async fn used(store: &PostgresStore) -> Result<Option<Grant>, StoreError> {
    let query = GrantQuery {
        agent: "main".into(),
        tool_name: "exec".into(),
        place: GrantPlace::default(),
        digest: digest("git push"),
        facts: None,
        question: asked(),
        program: None,
        amounts: Vec::new(),
        route: None,
    };
    store.use_grant(&query, at(50)).await
}

/// What gateways were told of what they did.
struct Heard<T> {
    kept: Mutex<Vec<T>>,
    failed: Mutex<Vec<T>>,
    uncertain: Mutex<Vec<T>>,
}

impl<T> Default for Heard<T> {
    fn default() -> Self {
        Self { kept: Mutex::default(), failed: Mutex::default(), uncertain: Mutex::default() }
    }
}

impl<T: Ord> Heard<T> {
    /// Notes what was told. Returns whether it was kept.
    fn note(&self, what: T, told: Result<(), StoreError>) -> bool {
        let list = match told.as_ref().map_err(StoreError::kind) {
            Ok(()) => &self.kept,
            Err(StoreErrorKind::Uncertain) => &self.uncertain,
            Err(StoreErrorKind::Unreachable | StoreErrorKind::Locked | StoreErrorKind::ReadOnly) => {
                &self.failed
            }
            Err(_) => panic!("{told:?}"),
        };
        list.lock().unwrap().push(what);
        told.is_ok()
    }

    fn kept(&self) -> u64 {
        u64::try_from(self.kept.lock().unwrap().len()).unwrap()
    }

    fn at_most(&self) -> u64 {
        self.kept() + u64::try_from(self.uncertain.lock().unwrap().len()).unwrap()
    }

    /// All that was kept is there, and nothing that failed.
    fn agrees_with(&self, there: &BTreeSet<T>) {
        assert!(self.kept.lock().unwrap().iter().all(|kept| there.contains(kept)), "lost");
        assert!(
            !self.failed.lock().unwrap().iter().any(|failed| there.contains(failed)),
            "it had not failed"
        );
    }
}

/// What one gateway does.
#[derive(Default)]
struct Work {
    is_over: AtomicBool,
    asked: Heard<String>,
    answered: Heard<ApprovalId>,
    consumed: Heard<ApprovalId>,
    used: Heard<u64>,
    spent: Heard<u64>,
}

impl Work {
    fn begin(gateway: &Gateway, name: &'static str) -> (Arc<Self>, Vec<tokio::task::JoinHandle<()>>) {
        let work = Arc::new(Self::default());
        let tasks = vec![
            tokio::spawn(Arc::clone(&work).ask(Arc::clone(&gateway.store), name)),
            tokio::spawn(Arc::clone(&work).use_up(Arc::clone(&gateway.store))),
            tokio::spawn(Arc::clone(&work).spend(Arc::clone(&gateway.store), name)),
        ];
        (work, tasks)
    }

    async fn is_over(&self) -> bool {
        tokio::time::sleep(PACE).await;
        self.is_over.load(Ordering::SeqCst)
    }

    /// Asks, answers, and uses the answer up.
    async fn ask(self: Arc<Self>, store: Arc<PostgresStore>, name: &str) {
        for n in 0.. {
            if self.is_over().await {
                return;
            }
            let command = format!("{name} {n}");
            let asked = store.create_approval(question(&command)).await;
            let (asked, heard) = match asked {
                Ok(asked) => (Some(asked), Ok(())),
                Err(CreateApprovalError::Store(error)) => (None, Err(error)),
                Err(other) => panic!("{other}"),
            };
            self.asked.note(command, heard);
            let Some(asked) = asked else { continue };
            let answer = PersonsAnswer::new(Decision::AllowOnce, "ann", at(1_500));
            let heard = match store.answer_approval(&asked.id, answer).await {
                Ok(_) => Ok(()),
                Err(ResolveError::Store(error)) => Err(error),
                Err(other) => panic!("{other}"),
            };
            if !self.answered.note(asked.id.clone(), heard) {
                continue;
            }
            let heard = match store.consume_approval(&asked.id, &asked.request.digest, at(1_600)).await {
                Ok(_) => Ok(()),
                Err(ConsumeError::Store(error)) => Err(error),
                Err(other) => panic!("{other}"),
            };
            self.consumed.note(asked.id, heard);
        }
    }

    async fn use_up(self: Arc<Self>, store: Arc<PostgresStore>) {
        for n in 0.. {
            if self.is_over().await {
                return;
            }
            let heard = match used(&store).await {
                Ok(Some(_)) => Ok(()),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            self.used.note(n, heard);
        }
    }

    async fn spend(self: Arc<Self>, store: Arc<PostgresStore>, name: &str) {
        for n in 0.. {
            if self.is_over().await {
                return;
            }
            let charge =
                Charge { counter: "requests".into(), since: at(0), until: None, amount: 1, limit: MOST };
            let heard = match store.reserve(&ReservationId::new(format!("{name} {n}")), vec![charge]).await {
                Ok(()) => Ok(()),
                Err(ReserveError::Exceeded(_)) => return,
                Err(ReserveError::Store(error)) => Err(error),
                Err(other) => panic!("{other}"),
            };
            self.spent.note(n, heard);
        }
    }

    /// Waits until so many more of everything was kept.
    async fn goes_on(&self, more: u64) {
        let counts = || [self.asked.kept(), self.consumed.kept(), self.used.kept(), self.spent.kept()];
        let before = counts();
        until(async || {
            let goes_on = counts().iter().zip(before).all(|(now, then)| *now >= (then + more).min(MOST / 2));
            goes_on.then_some(())
        })
        .await;
    }
}

/// Ends the work of all gateways, and compares what they were told with what is there.
async fn settle(works: Vec<(Arc<Work>, Vec<tokio::task::JoinHandle<()>>)>, store: &PostgresStore) {
    for (work, _) in &works {
        work.is_over.store(true, Ordering::SeqCst);
    }
    let mut all = Vec::new();
    for (work, tasks) in works {
        for task in tasks {
            task.await.unwrap();
        }
        all.push(work);
    }
    let there = store.approvals(ApprovalFilter::All, 1_000_000).await.unwrap();
    let of = |statuses: &[ApprovalStatus]| {
        let those = there.iter().filter(|record| statuses.contains(&record.state.status()));
        those.map(|record| record.id.clone()).collect::<BTreeSet<_>>()
    };
    let answered = of(&[ApprovalStatus::Allowed, ApprovalStatus::Used]);
    let consumed = of(&[ApprovalStatus::Used]);
    let digests: Vec<_> = there.iter().map(|record| record.request.digest).collect();
    for work in &all {
        for list in [&work.asked.kept, &work.asked.failed, &work.asked.uncertain] {
            for command in &*list.lock().unwrap() {
                let count = digests.iter().filter(|there| **there == digest(command)).count();
                assert!(count <= 1, "asked twice");
            }
        }
        let is_there = |command: &&String| digests.contains(&digest(command));
        let kept = work.asked.kept.lock().unwrap().clone();
        let failed = work.asked.failed.lock().unwrap().clone();
        work.asked.agrees_with(&kept.iter().chain(&failed).filter(is_there).cloned().collect());
        work.answered.agrees_with(&answered);
        work.consumed.agrees_with(&consumed);
    }
    let sum = |count: &dyn Fn(&Work) -> u64| all.iter().map(|work| count(work)).sum::<u64>();
    let uses = store.grants(1).await.unwrap()[0].uses;
    let (kept, most) = (sum(&|work| work.used.kept()), sum(&|work| work.used.at_most()));
    assert!(kept <= uses && uses <= most && kept <= MOST, "{kept} <= {uses} <= {most}");
    let spent = store.budgets(1).await.unwrap()[0].spent;
    let (kept, most) = (sum(&|work| work.spent.kept()), sum(&|work| work.spent.at_most()));
    assert!(kept <= spent && spent <= most && kept <= MOST, "{kept} <= {spent} <= {most}");
}

/// What a person answers after the servers have changed, whoever was waiting before hears.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_takes_over_at_work_and_nothing_that_was_kept_is_lost() {
    let mut primary = Server::own(&[]);
    let standby = primary.standby();
    primary.wait_for_standby().await;
    let gateways = [Gateway::at(&primary), Gateway::at(&primary)];
    let [one, other] = &gateways;
    one.store.add_grant(grant(MOST)).await.unwrap();
    let open = one.store.create_approval(question("who waits")).await.unwrap();
    let (store, id) = (Arc::clone(&one.store), open.id.clone());
    let waiting =
        tokio::spawn(async move { store.wait_approval(&id, Timestamp::now().after(LONG * 10)).await });
    let works = vec![Work::begin(one, "one"), Work::begin(other, "other")];
    for (work, _) in &works {
        work.goes_on(20).await;
    }
    primary.kill();
    standby.promote().await;
    for gateway in &gateways {
        gateway.move_to(&standby);
    }
    for (work, _) in &works {
        work.goes_on(20).await;
    }
    until(async || {
        let answer = PersonsAnswer::new(Decision::AllowOnce, "ann", at(1_500));
        other.store.answer_approval(&open.id, answer).await.ok()
    })
    .await;
    let answered = tokio::time::timeout(LONG, waiting).await.unwrap().unwrap().unwrap().unwrap();
    assert_eq!(answered.state.status(), ApprovalStatus::Allowed);
    settle(works, &other.store).await;
}

/// A server that is ended and started again while gateways are at work on it: they go on by themselves.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_restarted_at_work_and_nothing_that_was_kept_is_lost() {
    let mut server = Server::own(&[]);
    let gateways = [Gateway::at(&server), Gateway::at(&server)];
    let [one, other] = &gateways;
    one.store.add_grant(grant(MOST)).await.unwrap();
    let works = vec![Work::begin(one, "one"), Work::begin(other, "other")];
    for (work, _) in &works {
        work.goes_on(20).await;
    }
    for _ in 0..2 {
        server.stop();
        server.start_again();
        for (work, _) in &works {
            work.goes_on(20).await;
        }
    }
    settle(works, &other.store).await;
}

/// A server that is told to wait for its standby has not kept what the standby lacks, whatever it says when it is told to wait no longer.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_the_standby_lacks_is_not_said_to_be_kept() {
    let primary = Server::own(&[]);
    let standby = primary.standby();
    primary.wait_for_standby().await;
    let gateway = Gateway::with(&primary, |options| options.statement_timeout(Duration::from_millis(100)));
    let store = &gateway.store;
    store.add_grant(grant(2)).await.unwrap();
    standby.hold(true);
    let (using, _) = tokio::join!(used(store), async {
        let waits = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        until(async || primary.run(waits).await).await
    });
    let error = using.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Uncertain, "told to wait no longer: {error}");
    let error = used(store).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Uncertain, "the standby says nothing: {error}");
    standby.hold(false);
    let left = until(async || used(store).await.ok()).await;
    assert_eq!(left, None, "both may have been used");
}

/// A primary that waits for no standby reports what is lost with it. Whoever was told so notices, and goes no further.
#[tokio::test(flavor = "multi_thread")]
async fn who_was_told_that_something_was_kept_uses_no_server_that_lacks_it() {
    let mut primary = Server::own(&[]);
    let standby = primary.standby();
    let gateways = [Gateway::at(&primary), Gateway::at(&primary)];
    let [one, other] = &gateways;
    one.store.add_grant(grant(1)).await.unwrap();
    assert_eq!(other.store.grants(9).await.unwrap().len(), 1);
    primary.send_nothing_more().await;
    assert!(used(&one.store).await.unwrap().is_some());
    primary.kill();
    standby.promote().await;
    for gateway in &gateways {
        gateway.move_to(&standby);
    }
    // Others write until it looks.
    for n in 0..5 {
        until(async || other.store.create_approval(question(&format!("ls {n}"))).await.ok()).await;
    }
    for _ in 0..2 {
        let error = until(async || {
            let error = used(&one.store).await.unwrap_err();
            (error.kind() != StoreErrorKind::Unreachable).then_some(error)
        })
        .await;
        assert_eq!(error.kind(), StoreErrorKind::SetBack, "{error}");
        assert!(told(&error).contains("revoke the grants"));
        assert_eq!(one.store.sessions(9).await.unwrap_err().kind(), StoreErrorKind::SetBack);
    }
    // Whoever reads the configuration anew opens it anew.
    let folder = TempDir::new().unwrap();
    let anew = primary.store_with(one.wire.options(), folder.path());
    assert_eq!(anew.grants(9).await.unwrap_err().kind(), StoreErrorKind::SetBack);
    // Nobody told the other one. This is why the server has to wait for its standby.
    assert!(used(&other.store).await.unwrap().is_some());
    let again = Gateway::at(&standby);
    assert_eq!(
        again.store.grants(9).await.unwrap()[0].uses,
        1,
        "started again, it goes on with what there is"
    );
}

/// As above, but the answer was lost on its way, and the server said afterwards that the commit had counted.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_found_out_to_be_kept_is_missed_like_what_was_told() {
    let mut primary = Server::own(&[]);
    let standby = primary.standby();
    let gateway = Gateway::at(&primary);
    gateway.store.add_grant(grant(1)).await.unwrap();
    primary.send_nothing_more().await;
    gateway.wire.lose_the_answer_to_a_commit();
    assert!(used(&gateway.store).await.unwrap().is_some());
    assert!(gateway.wire.has_lost(), "or this proves nothing");
    primary.kill();
    standby.promote().await;
    gateway.move_to(&standby);
    let error = until(async || {
        let error = used(&gateway.store).await.unwrap_err();
        (error.kind() != StoreErrorKind::Unreachable).then_some(error)
    })
    .await;
    assert_eq!(error.kind(), StoreErrorKind::SetBack, "{error}");
}

/// Two servers take writes: whoever has used the new one writes nothing to the old one, neither by new connections nor by those it had.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_place_was_taken_is_not_used_again() {
    let mut primary = Server::own(&[]);
    let standby = primary.standby();
    let gateway = Gateway::at(&primary);
    let store = &gateway.store;
    // Several connections lead to the old server.
    let connections =
        "SELECT 1 FROM pg_stat_activity WHERE application_name = 'backstop' HAVING count(*) > 2";
    until(async || {
        let _ = tokio::join!(store.sessions(1), store.sessions(1), store.sessions(1), store.sessions(1));
        primary.run(connections).await
    })
    .await;
    store.add_grant(grant(9)).await.unwrap();
    primary.send_nothing_more().await;
    standby.promote().await;
    gateway.wire.lead_to(standby.socket());
    // Only one connection is cut, so that one is made to the new server.
    let ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'backstop' ORDER BY pid LIMIT 1";
    primary.run(ended).await.unwrap();
    until(async || {
        store.sessions(1).await.unwrap();
        (standby.run("SELECT count(*) FROM histories").await.as_deref() == Some("2")).then_some(())
    })
    .await;
    let before = primary.run("SELECT sum(written) FROM areas").await;
    for n in 0..16 {
        store.create_session(session(&format!("t{n}"), "chat", 1)).await.unwrap();
    }
    assert_eq!(primary.run("SELECT sum(written) FROM areas").await, before, "an old connection was used");
    gateway.move_to(&primary);
    let error = store.sessions(9).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::SetBack, "{error}");
    assert!(told(&error).contains("took its place"));
    // It has begun a history of its own since, of the same number, and others have done much there.
    primary.kill();
    primary.start_again();
    assert!(Gateway::at(&primary).store.sessions(9).await.is_ok(), "who knows of nothing");
    assert_eq!(primary.run("SELECT max(history) FROM histories").await.as_deref(), Some("2"));
    primary.run("UPDATE areas SET written = written + 100").await;
    gateway.move_to(&primary);
    assert_eq!(store.sessions(9).await.unwrap_err().kind(), StoreErrorKind::SetBack);
    gateway.move_to(&standby);
    until(async || store.sessions(99).await.ok()).await;
}

/// Where the old server waits for a standby that it has no more, nothing is kept there.
#[tokio::test(flavor = "multi_thread")]
async fn who_was_left_with_the_old_server_is_told_of_nothing_that_it_was_kept() {
    let primary = Server::own(&[]);
    let standby = primary.standby();
    primary.wait_for_standby().await;
    let short = |options: PostgresOptions| options.statement_timeout(Duration::from_millis(100));
    let (left, moved) = (Gateway::with(&primary, short), Gateway::at(&primary));
    left.store.add_grant(grant(1)).await.unwrap();
    assert_eq!(moved.store.grants(9).await.unwrap().len(), 1);
    standby.promote().await;
    moved.move_to(&standby);
    let (old, new) =
        tokio::join!(used(&left.store), async { until(async || used(&moved.store).await.ok()).await });
    assert!(new.is_some());
    let error = old.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Uncertain, "{error}");
}

/// One of two gateways is cut off in the middle of what it does, and nobody is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_cut_off_keeps_nobody_else_from_working() {
    let server = Server::own(&[]);
    let short =
        |options: PostgresOptions| options.statement_timeout(Duration::from_millis(500)).connections(4);
    let (away, here) = (Gateway::with(&server, short), Gateway::with(&server, short));
    here.store.add_grant(grant(MOST)).await.unwrap();
    let works = vec![Work::begin(&away, "away"), Work::begin(&here, "here")];
    for (work, _) in &works {
        work.goes_on(20).await;
    }
    // It is cut off while it holds a lock: whatever it sends next is on its way for a long time.
    away.wire.fall_silent_in_a_transaction();
    works[1].0.goes_on(20).await;
    let (mut failed, cut_off) = (0, &works[0].0);
    for heard in [&cut_off.used, &cut_off.spent] {
        until(async || {
            let (failures, doubts) =
                (heard.failed.lock().unwrap().len(), heard.uncertain.lock().unwrap().len());
            (failures + doubts > 0).then_some(())
        })
        .await;
        failed += 1;
    }
    assert_eq!(failed, 2, "it is not left waiting");
    away.wire.speak_again();
    for (work, _) in &works {
        work.goes_on(20).await;
    }
    settle(works, &here.store).await;
}

/// A crash takes with it what is not on disk, and the server gives the number of the transaction to another one, which is kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_a_crash_took_is_not_mistaken_for_another_one() {
    let mut server = Server::own(&["-c", "wal_writer_delay=10s"]);
    let gateway = Gateway::at(&server);
    gateway.store.create_session(session("s", "chat", 1)).await.unwrap();
    let slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(4); RETURN NULL; END $$; \
                CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON sessions DEFERRABLE INITIALLY DEFERRED \
                FOR EACH ROW EXECUTE FUNCTION slow()";
    server.run(slow).await;
    // What is on disk by then is up to the server: its number is given to nobody, and this proves nothing.
    for n in 0.. {
        let (store, name) = (Arc::clone(&gateway.store), format!("s{n}"));
        let writing = tokio::spawn(async move { store.create_session(session(&name, "chat", 1)).await });
        let committing =
            "SELECT backend_xid FROM pg_stat_activity WHERE query LIKE '%COMMIT' AND wait_event = 'PgSleep'";
        let number: u64 = until(async || server.run(committing).await).await.parse().unwrap();
        gateway.wire.lead_to("/nowhere".into());
        server.kill();
        server.start_again();
        let mut other = 0;
        while other < number {
            other = server.run("SELECT pg_current_xact_id()").await.unwrap().parse().unwrap();
        }
        gateway.wire.lead_to(server.socket());
        let Err(SessionError::Store(error)) = writing.await.unwrap() else { panic!("it was not kept") };
        assert!(matches!(error.kind(), StoreErrorKind::Uncertain | StoreErrorKind::Unreachable), "{error}");
        let there = until(async || gateway.store.sessions(9).await.ok()).await;
        assert_eq!(there.len(), 1);
        if other == number {
            return;
        }
    }
}
