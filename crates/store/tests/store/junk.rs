//! Rows that can't be read, since they were damaged, restored in part, or written by somebody else: one stops no other, and counts for nothing.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::points::Placement;
use backstop_hooks::{ApprovalId, Decision};
use backstop_store::{
    ANSWERABLE, APPROVAL_ENDED, ApprovalFilter, ApprovalRecord, ApprovalStatus, AskingLimits, AuditFilter,
    Charge, CreateApprovalError, Deletion, DeletionCause, GrantQuery, NewAccessToken, NewInjection,
    PersonsAnswer, ReservationId, SqliteStore, Store, StoreErrorKind, audit_id,
};
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

use crate::grants::{grant, of_call, query};
#[cfg(feature = "postgres")]
use crate::server::Server;
use crate::support::{at, question, session};
use crate::votes::{by, everybody};

/// A store, and a way to write into its database past it.
struct Place {
    store: Arc<dyn Store>,
    database: Database,
    _folder: TempDir,
}

enum Database {
    File(PathBuf),
    #[cfg(feature = "postgres")]
    Server(Box<Server>),
}

impl Place {
    fn in_file() -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("state.db");
        Self { store: Arc::new(SqliteStore::new(&path)), database: Database::File(path), _folder: folder }
    }

    #[cfg(feature = "postgres")]
    fn on_server() -> Self {
        let (server, folder) = (Server::start(), TempDir::new().unwrap());
        let store = Arc::new(server.store(folder.path()));
        Self { store, database: Database::Server(Box::new(server)), _folder: folder }
    }

    async fn plant(&self, sql: &str) {
        match &self.database {
            Database::File(path) => {
                let direct = Connection::open(path).unwrap();
                direct.execute_batch(&format!("PRAGMA foreign_keys = OFF; {sql}")).unwrap();
            }
            #[cfg(feature = "postgres")]
            Database::Server(server) => drop(server.run(sql).await),
        }
    }

    async fn ask(&self, command: &str) -> ApprovalRecord {
        let filed = self.store.file_approval(question(command), false, &AskingLimits::default()).await;
        filed.unwrap()
    }

    /// Why the trail says that a question ended, each time.
    async fn ends(&self, id: &ApprovalId) -> Vec<String> {
        let all = self.store.audit(&AuditFilter::default(), 0, 9_999).await.unwrap();
        let about = |body: &Value| body.get("approval").and_then(Value::as_str) == Some(id.as_str());
        let ends = all.into_iter().filter(|entry| entry.kind == APPROVAL_ENDED && about(&entry.body));
        ends.map(|entry| entry.body["why"].as_str().unwrap().to_owned()).collect()
    }
}

/// One test per suite and database.
macro_rules! over_both {
    ($($suite:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $suite() {
                super::$suite(super::Place::in_file()).await;
            })*
        }

        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[tokio::test]
            async fn $suite() {
                super::$suite(super::Place::on_server()).await;
            })*
        }
    };
}

over_both!(
    a_question_that_cannot_be_read_ends_and_stops_no_other,
    what_a_row_says_that_its_question_does_not_stops_no_sweep,
    the_id_of_no_question_is_too_long_for_its_end,
    lists_leave_out_what_cannot_be_read,
    texts_are_wiped_whatever_stands_before_them,
    numbers_of_others_stop_no_overview,
    a_grant_that_cannot_be_read_allows_nothing_and_hides_none,
    pages_of_tokens_go_on_behind_what_cannot_be_read,
    amounts_of_others_spoil_their_own_counter_only,
    a_session_that_cannot_be_read_is_listed_nowhere_and_deleted,
    a_queued_text_that_cannot_be_read_keeps_back_no_other,
    a_count_of_refused_questions_that_is_none_is_counted_anew,
);

fn token() -> NewAccessToken {
    NewAccessToken::make("bot".into(), "ann".to_owned(), at(10), Duration::from_millis(90)).1
}

/// What is no question, in each of the places where it may stand; each leaves its row as something that waits.
fn spoils(id: &ApprovalId) -> Vec<String> {
    let of = |what: &str| format!("UPDATE approvals SET {what} WHERE id = '{id}'");
    let vote = |vote: &str| {
        format!("INSERT INTO approval_votes (approval, person, vote) VALUES ('{id}', 'x', '{vote}')")
    };
    vec![
        of("state = '[]'"),
        of("state = '{\"status\": \"none\"}'"),
        format!(
            "UPDATE texts SET body = CAST('junk' AS BYTEA) WHERE text_id = (SELECT text FROM approvals WHERE id = '{id}')"
        ),
        vote("[]"),
        vote("{\"token\": \"\\u0000\"}"),
        vote("{\"person\": \"x\", \"token\": \"\\ud800\"}"),
    ]
}

/// SQLite has no word for the type of bytes, and takes what is no JSON.
fn for_file(sql: &str) -> String {
    sql.replace("AS BYTEA", "AS BLOB").replace("'[]')", "'no json')")
}

async fn a_question_that_cannot_be_read_ends_and_stops_no_other(place: Place) {
    let mut spoilt = Vec::new();
    for n in 0..spoils(&ApprovalId::new("-")).len() {
        let asked = place.ask(&format!("spoilt {n}")).await;
        let sql = spoils(&asked.id)[n].clone();
        let is_file = matches!(place.database, Database::File(_));
        place.plant(&if is_file { for_file(&sql) } else { sql }).await;
        let read = place.store.approval(&asked.id).await.unwrap_err();
        assert_eq!(read.kind(), StoreErrorKind::Corrupt, "{n}");
        spoilt.push(asked);
    }
    let sound = place.ask("sound").await;
    let answer = |decision| PersonsAnswer::new(decision, by(&everybody(), "ann"), at(1_500));
    for asked in &spoilt {
        assert!(place.store.answer_approval(&asked.id, answer(Decision::AllowOnce)).await.is_err());
        assert!(place.store.consume_approval(&asked.id, &asked.request.digest, at(1_500)).await.is_err());
    }
    let ended = place.store.expire_approvals(at(3_000)).await.unwrap();
    assert_eq!(ended.iter().map(|record| &record.id).collect::<Vec<_>>(), [&sound.id]);
    assert_eq!(place.ends(&sound.id).await, ["deadline"]);
    assert_eq!(place.store.overview().await.unwrap().waiting, 0);
    assert_eq!(place.store.expire_approvals(at(3_000)).await.unwrap(), []);
    for asked in &spoilt {
        assert_eq!(place.ends(&asked.id).await, ["unreadable"]);
        assert!(place.store.consume_approval(&asked.id, &asked.request.digest, at(3_000)).await.is_err());
    }
    // What can be read again says what became of it.
    let state = place.store.approval(&spoilt[0].id).await.unwrap().unwrap().state;
    assert_eq!(state.status(), ApprovalStatus::Cancelled);
    // In the end they go with all others.
    let why = Deletion { cause: DeletionCause::Age, by: "tester".to_owned(), at: at(9_000) };
    let all = u64::try_from(spoilt.len() + 1).unwrap();
    assert_eq!(place.store.delete_approvals(Some(at(9_000)), None, 99, why).await.unwrap(), all);
}

async fn what_a_row_says_that_its_question_does_not_stops_no_sweep(place: Place) {
    // As many as end at once, so that nothing behind them would be reached.
    for n in 0..256 {
        place.ask(&format!("n {n}")).await;
    }
    place.plant("UPDATE approvals SET expires_at = 5").await;
    let sound = place.ask("sound").await;
    place.plant(&format!("UPDATE approvals SET expires_at = 1200 WHERE id = '{}'", sound.id)).await;
    let mut short = question("short");
    short.expires_at = at(1_100);
    let short = place.store.file_approval(short, false, &AskingLimits::default()).await.unwrap();
    let ended = place.store.expire_approvals(at(1_500)).await.unwrap();
    assert_eq!(ended.iter().map(|record| &record.id).collect::<Vec<_>>(), [&short.id]);
    assert_eq!(place.ends(&sound.id).await, ["unreadable"]);
    // What can be read of it is said.
    let all = place.store.audit(&AuditFilter::default(), 0, 9_999).await.unwrap();
    let (digest, id) = (sound.request.digest.to_string(), sound.id.as_str());
    let mut ends = all.iter().filter(|entry| entry.kind == APPROVAL_ENDED);
    let end = ends.find(|entry| entry.body["approval"].as_str() == Some(id)).unwrap();
    assert_eq!(end.body["digest"].as_str(), Some(digest.as_str()), "{end:?}");
    assert_eq!(place.store.overview().await.unwrap().waiting, 0);
}

async fn the_id_of_no_question_is_too_long_for_its_end(place: Place) {
    let (long, sound) = (place.ask("long").await, place.ask("sound").await);
    let id = "a".repeat(100_000);
    place.plant(&format!("UPDATE approvals SET id = '{id}' WHERE id = '{}'", long.id)).await;
    let ended = place.store.expire_approvals(at(3_000)).await.unwrap();
    assert_eq!(ended.len(), 2);
    assert_eq!(place.ends(&sound.id).await, ["deadline"]);
    let told = audit_id(&id).into_owned();
    assert_eq!(place.ends(&ApprovalId::new(told)).await, ["deadline"]);
}

async fn lists_leave_out_what_cannot_be_read(place: Place) {
    let (spoilt, sound) = (place.ask("spoilt").await, place.ask("sound").await);
    place.plant(&format!("UPDATE approvals SET state = '[]' WHERE id = '{}'", spoilt.id)).await;
    for filter in [ApprovalFilter::Pending, ApprovalFilter::All] {
        let found = place.store.approvals(filter, 9).await.unwrap();
        assert_eq!(found.iter().map(|record| &record.id).collect::<Vec<_>>(), [&sound.id]);
    }
    let open = place.store.open_approvals(at(1_500), 0, 9).await.unwrap();
    assert_eq!((open.records.len(), open.all), (1, 2), "how many there are is said");
    // Whoever comes upon it before its time may end it.
    let error = place.store.end_waiting(&spoilt.id, at(1_500)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Corrupt);
    assert_eq!(place.ends(&spoilt.id).await, ["unreadable"]);
    assert_eq!(place.store.overview().await.unwrap().waiting, 1);
    // A run that ends takes its own with it, and nothing is said twice.
    let spoilt = place.ask("another").await;
    place.plant(&format!("UPDATE approvals SET state = '[]' WHERE id = '{}'", spoilt.id)).await;
    let ended = place.store.cancel_run_approvals(&"s1".into(), &"r1".into(), at(1_500)).await.unwrap();
    assert_eq!(ended.iter().map(|record| &record.id).collect::<Vec<_>>(), [&sound.id]);
    assert_eq!(place.ends(&spoilt.id).await, ["unreadable"]);
}

async fn texts_are_wiped_whatever_stands_before_them(place: Place) {
    // More than are wiped at once.
    for n in 0..65 {
        place.ask(&format!("spoilt {n}")).await;
    }
    let sound = place.ask("sound").await;
    place.store.expire_approvals(at(2_500)).await.unwrap();
    place
        .plant(&format!(
            "UPDATE approvals SET state = '[]' WHERE id IN (SELECT id FROM approvals WHERE id <> '{}' ORDER BY row LIMIT 65)",
            sound.id
        ))
        .await;
    let late = at(2_001).after(ANSWERABLE);
    for _ in 0..3 {
        place.store.expire_approvals(late).await.unwrap();
    }
    let read = place.store.approval(&sound.id).await.unwrap().unwrap();
    assert!(read.request.preview.to_value().is_null() && read.request.starts.is_none());
}

async fn numbers_of_others_stop_no_overview(place: Place) {
    let (first, last) = (place.ask("first").await, place.ask("last").await);
    place.plant(&format!("UPDATE approvals SET row = 9223372036854775807 WHERE id = '{}'", last.id)).await;
    place.plant("UPDATE approval_changes SET change = 9223372036854775000").await;
    let before = place.store.overview().await.unwrap();
    let answer = PersonsAnswer::new(Decision::Deny, by(&everybody(), "ann"), at(1_500));
    place.store.answer_approval(&first.id, answer).await.unwrap();
    let after = place.store.overview().await.unwrap();
    assert_eq!((before.waiting, after.waiting), (2, 1));
    assert_ne!(before.mark, after.mark);
    // The first of all rows, in a list that begins with the newest.
    place.store.expire_approvals(at(3_000)).await.unwrap();
    place
        .plant(&format!("UPDATE approvals SET row = -9223372036854775807 - 1 WHERE id = '{}'", last.id))
        .await;
    let open = place.store.open_approvals(at(3_000), 0, 9).await.unwrap();
    assert_eq!(open.records.iter().map(|record| &record.id).collect::<Vec<_>>(), [&last.id]);
}

async fn a_grant_that_cannot_be_read_allows_nothing_and_hides_none(place: Place) {
    let query = GrantQuery { ..query() };
    let spoilt = place.store.add_grant(grant(of_call())).await.unwrap();
    place.plant("UPDATE grants SET uses = -1").await;
    assert_eq!(place.store.find_grant(&query, at(5)).await.unwrap(), None);
    let sound = place.store.add_grant(grant(of_call())).await.unwrap();
    assert_eq!(place.store.use_grant(&query, at(5)).await.unwrap().unwrap().id, sound.id);
    let listed = place.store.grants(9).await.unwrap();
    assert!(listed.iter().all(|grant| grant.id != spoilt.id) && listed.len() == 1);
}

async fn pages_of_tokens_go_on_behind_what_cannot_be_read(place: Place) {
    for _ in 0..4 {
        place.store.add_access_token(token()).await.unwrap();
    }
    place.plant("UPDATE access_tokens SET made = '[]' WHERE row IN (2, 3)").await;
    let (mut after, mut pages) = (None, Vec::new());
    for _ in 0..9 {
        let page = place.store.access_tokens_after(after, 1).await.unwrap();
        pages.push((page.tokens.len(), page.unreadable.len()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(pages, [(1, 0), (0, 1), (0, 1), (1, 0)]);
    assert_eq!(place.store.access_tokens_after(None, 4).await.unwrap().next, None);
}

async fn amounts_of_others_spoil_their_own_counter_only(place: Place) {
    let charge =
        |counter: &str| Charge { counter: counter.into(), since: at(0), until: None, amount: 1, limit: 9 };
    let store = &place.store;
    for counter in ["sound", "spent", "reserved"] {
        store.reserve(&ReservationId::new(counter), vec![charge(counter)]).await.unwrap();
    }
    place
        .plant(
            "UPDATE budgets SET spent = -5 WHERE counter = 'spent'; \
             INSERT INTO reservations (id, counter, since, amount) VALUES ('a', 'reserved', 0, -9223372036854775807), \
             ('b', 'reserved', 0, -9223372036854775807)",
        )
        .await;
    let listed = store.budgets(9).await.unwrap();
    assert_eq!(listed.iter().map(|used| used.counter.as_str()).collect::<Vec<_>>(), ["sound"]);
    assert!(store.reserve(&ReservationId::new("more"), vec![charge("spent")]).await.is_err(), "closed");
    store.reserve(&ReservationId::new("more"), vec![charge("sound")]).await.unwrap();
}

async fn a_session_that_cannot_be_read_is_listed_nowhere_and_deleted(place: Place) {
    let store = &place.store;
    for id in ["spoilt", "sound"] {
        store.create_session(session(id, "chat", 1)).await.unwrap();
    }
    place.plant("UPDATE sessions SET end_reason = 'none', ended_at = 3 WHERE id = 'spoilt'").await;
    let listed = store.sessions(9).await.unwrap();
    assert_eq!(listed.iter().map(|session| session.id.as_str()).collect::<Vec<_>>(), ["sound"]);
    // A question of it that can't be read goes as well.
    let asked = place.ask("ls").await;
    place
        .plant(&format!("UPDATE approvals SET session = 'spoilt', state = '[]' WHERE id = '{}'", asked.id))
        .await;
    let why = Deletion { cause: DeletionCause::Age, by: "tester".to_owned(), at: at(9_000) };
    let deleted = store.delete_session(&"spoilt".into(), why).await.unwrap();
    assert_eq!((deleted.session.id.as_str(), deleted.approvals), ("spoilt", 1));
    assert_eq!(place.ends(&asked.id).await, ["unreadable"]);
    assert_eq!(store.stored_size().await.unwrap().sessions, 1);
}

async fn a_queued_text_that_cannot_be_read_keeps_back_no_other(place: Place) {
    let note = |text: &str| NewInjection {
        session_key: "chat".into(),
        owner: "memo".into(),
        text: text.into(),
        placement: Placement::PrependContext,
        idempotency_key: None,
        ttl: None,
        metadata: None,
    };
    for text in ["spoilt", "sound"] {
        place.store.enqueue_injection(note(text), at(1)).await.unwrap();
    }
    place.plant("UPDATE injections SET placement = 'none' WHERE text = 'spoilt'").await;
    let owners = BTreeSet::from(["memo".into()]);
    let taken = place.store.take_injections(&"chat".into(), &"r1".into(), &owners, at(2)).await.unwrap();
    assert_eq!(taken.iter().map(|taken| taken.text.as_str()).collect::<Vec<_>>(), ["sound"]);
    assert_eq!(place.store.confirm_injections(&"r1".into()).await.unwrap(), 2, "it goes with what was told");
}

async fn a_count_of_refused_questions_that_is_none_is_counted_anew(place: Place) {
    let limits = AskingLimits { open: NonZeroU32::new(1), per_minute: None };
    place.store.file_approval(question("one"), false, &limits).await.unwrap();
    let too_many = async || {
        let refused = place.store.file_approval(question("two"), false, &limits).await.unwrap_err();
        assert!(matches!(refused, CreateApprovalError::TooMany { .. }), "{refused}");
        place.store.refused_questions(at(1_000)).await.unwrap().iter().map(|refused| refused.count).collect()
    };
    let counts: Vec<u64> = too_many().await;
    assert_eq!(counts, [1]);
    place.plant("UPDATE approval_refusals SET count = -1").await;
    assert_eq!(place.store.refused_questions(at(1_000)).await.unwrap(), []);
    assert_eq!(too_many().await, [1]);
}
