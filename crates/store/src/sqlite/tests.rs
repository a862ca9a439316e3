//! Failures that can be provoked only from inside the store.

use backstop_hooks::AgentId;
use rusqlite::Connection;
use tempfile::TempDir;

use super::SqliteStore;
use super::migrations::STEPS;
use super::open::describe;
use crate::sql::{Area, Fault, params};
use crate::{
    AUDIT_CHAIN, AccessTokenStore as _, AuditFilter, AuditStore as _, GRANTS_VOIDED, GrantId,
    GrantStore as _, NewAccessToken, StoreError, StoreErrorKind, Timestamp, UnreadableAccessToken,
};

#[tokio::test]
async fn a_full_disk_loses_nothing_that_was_kept() {
    let folder = TempDir::new().unwrap();
    let store = SqliteStore::new(folder.path().join("state.db"));
    let limited: Result<i64, StoreError> =
        store.database.read(|db| Ok(db.one("PRAGMA max_page_count = 120", &[], |row| row.get(0))?)).await;
    assert_eq!(limited.unwrap(), 120);
    let add = async |number: usize| {
        store
            .database
            .write(Area::Everything, move |db| {
                db.execute("CREATE TABLE IF NOT EXISTS filled (text TEXT)", &[])?;
                db.execute(
                    "INSERT INTO filled VALUES (?1)",
                    params![format!("{number}{}", "x".repeat(9_000))],
                )?;
                Ok::<_, Fault<StoreError>>(())
            })
            .await
    };
    let mut kept = 0;
    let error = loop {
        match add(kept).await {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), StoreErrorKind::Full);
    assert!(error.to_string().ends_with("hint: is the disk full, or the memory?"), "{error}");
    assert!(kept > 0);
    // The limit went with the connection that failed: there is room again.
    add(kept).await.unwrap();
    let rows: Result<i64, StoreError> =
        store.database.read(|db| Ok(db.one("SELECT count(*) FROM filled", &[], |row| row.get(0))?)).await;
    assert_eq!(usize::try_from(rows.unwrap()).unwrap(), kept + 1);
}

#[tokio::test]
async fn what_a_transaction_says_is_in_the_trail_before_it_counts() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let store = SqliteStore::new(&path);
    let make = || {
        let (by, now) = ("a test".to_owned(), Timestamp::from_millis(1));
        NewAccessToken::make("a".into(), by, now, std::time::Duration::from_secs(9)).1
    };
    store.add_access_token(make()).await.unwrap();
    let (trail, aside) = (store.trail().unwrap().to_owned(), folder.path().join("aside"));
    // What it wrote is signed before its folder is away: else the next one says that it was not.
    store.conclude_audit().await.unwrap();
    drop(store);
    std::fs::rename(&trail, &aside).unwrap();
    std::fs::write(&trail, "no folder").unwrap();
    let broken = SqliteStore::new(&path);
    broken.add_access_token(make()).await.unwrap_err();
    assert_eq!(broken.access_tokens(9).await.unwrap().tokens.len(), 1, "nothing counts that is not said");
    drop(broken);
    std::fs::remove_file(&trail).unwrap();
    std::fs::rename(&aside, &trail).unwrap();
    let mended = SqliteStore::new(&path);
    mended.add_access_token(make()).await.unwrap();
    assert_eq!(mended.audit(&AuditFilter::default(), 0, 9).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_chain_of_an_earlier_version_stays_and_the_trail_says_how_it_ended() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let db = Connection::open(&path).unwrap();
    for step in &STEPS[..7] {
        db.execute_batch(step).unwrap();
    }
    db.pragma_update(None, "application_id", 0x424b_5354).unwrap();
    db.pragma_update(None, "user_version", 7).unwrap();
    for seq in 1..=3 {
        let sql =
            "INSERT INTO audit (seq, at, kind, body, prev, digest) VALUES (?1, 5, 'receipt', '{}', 'p', ?2)";
        db.execute(sql, rusqlite::params![seq, format!("sha256:{seq}")]).unwrap();
    }
    drop(db);
    let store = SqliteStore::new(&path);
    store.grants(1).await.unwrap();
    let said = store.audit(&AuditFilter::default(), 0, 9).await.unwrap();
    assert_eq!((said.len(), said[0].kind.as_str()), (1, AUDIT_CHAIN));
    assert_eq!(said[0].body.to_value(), serde_json::json!({ "entries": 3, "digest": "sha256:3" }));
    let rows = "SELECT count(*) FROM audit_chain";
    let left: i64 = Connection::open(&path).unwrap().query_row(rows, [], |row| row.get(0)).unwrap();
    assert_eq!(left, 3);
}

#[tokio::test]
async fn an_operation_that_is_refused_is_undone() {
    let folder = TempDir::new().unwrap();
    let store = SqliteStore::new(folder.path().join("state.db"));
    #[derive(Debug, PartialEq)]
    struct Refused;
    impl From<StoreError> for Refused {
        fn from(error: StoreError) -> Self {
            panic!("{error}")
        }
    }
    let refused: Result<(), Refused> = store
        .database
        .write(Area::Everything, |db| {
            db.execute("INSERT INTO pending_erasure VALUES (1)", &[])?;
            Err(Fault::Refused(Refused))
        })
        .await;
    assert_eq!(refused, Err(Refused));
    let left: Result<i64, StoreError> = store
        .database
        .read(|db| Ok(db.one("SELECT count(*) FROM pending_erasure", &[], |row| row.get(0))?))
        .await;
    assert_eq!(left.unwrap(), 0);
}

#[tokio::test]
async fn grants_that_were_bound_to_no_place_count_no_longer_and_that_is_said() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let db = Connection::open(&path).unwrap();
    for step in &STEPS[..3] {
        db.execute_batch(step).unwrap();
    }
    db.pragma_update(None, "application_id", 0x424b_5354).unwrap();
    db.pragma_update(None, "user_version", 3).unwrap();
    let old = r#"{"agent":"main","toolName":"exec","target":{"kind":"hook","owner":"o","hook":"h"},"title":"Run it?","createdBy":"ann","createdAt":1,"expiresAt":null}"#;
    for (id, revoked) in [("one", None), ("two", Some(5)), ("three", None)] {
        let sql = "INSERT INTO grants (id, agent, tool_name, granted, revoked_at) VALUES (?1, 'main', 'exec', ?2, ?3)";
        db.execute(sql, rusqlite::params![id, old, revoked]).unwrap();
    }
    drop(db);
    let store = SqliteStore::new(path);
    assert!(store.grants(9).await.unwrap().is_empty());
    let void = store.void_grants(9).await.unwrap();
    let ids: Vec<&str> = void.iter().map(|grant| grant.id.as_str()).collect();
    assert_eq!(ids, ["three", "one"], "the one that was revoked needs no word");
    assert_eq!((void[0].title.as_str(), void[0].created_by.as_str()), ("Run it?", "ann"));
    let said = store.audit(&AuditFilter::default(), 0, 9).await.unwrap();
    assert_eq!((said.len(), said[0].kind.as_str()), (1, GRANTS_VOIDED));
    assert_eq!(said[0].body.to_value()["grants"], serde_json::json!(["one", "three"]));
    store.verify_audit(None).await.unwrap();
}

#[tokio::test]
async fn a_grant_that_can_not_be_read_allows_nothing_and_is_counted() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let store = SqliteStore::new(&path);
    let at = Timestamp::from_millis(1);
    assert_eq!(store.revoke_grant(&GrantId::new("none"), "ann", at).await.unwrap(), None);
    let db = Connection::open(&path).unwrap();
    let sql = "INSERT INTO grants (id, agent, tool_name, granted) VALUES (?1, 'main', 'exec', '{}')";
    for id in ["one", "two"] {
        db.execute(sql, rusqlite::params![id]).unwrap();
    }
    drop(db);
    let list = store.grants_in_force(at, 9).await.unwrap();
    assert_eq!((list.grants.len(), list.unreadable, list.is_cut), (0, 2, false));
}

#[test]
fn each_failure_of_the_library_has_its_kind() {
    let kinds = [
        (rusqlite::ffi::SQLITE_BUSY, StoreErrorKind::Locked),
        (rusqlite::ffi::SQLITE_FULL, StoreErrorKind::Full),
        (rusqlite::ffi::SQLITE_READONLY_DIRECTORY, StoreErrorKind::ReadOnly),
        (rusqlite::ffi::SQLITE_CANTOPEN, StoreErrorKind::CannotOpen),
        (rusqlite::ffi::SQLITE_NOTADB, StoreErrorKind::NotADatabase),
        (rusqlite::ffi::SQLITE_CORRUPT, StoreErrorKind::Corrupt),
        (rusqlite::ffi::SQLITE_IOERR_WRITE, StoreErrorKind::Io),
    ];
    for (code, kind) in kinds {
        let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        assert_eq!(describe("state.db", &error).kind(), kind);
    }
}

#[test]
fn no_stored_text_gets_into_an_error() {
    let db = Connection::open_in_memory().unwrap();
    let error = db.query_row("SELECT 'hunter2'", [], |row| row.get::<_, i64>(0)).unwrap_err();
    assert!(!describe("state.db", &error).to_string().contains("hunter2"));
}

/// A row that holds something else than a token opens nothing, and keeps no other from it.
#[tokio::test]
async fn an_unreadable_access_token_is_told_apart() {
    let folder = TempDir::new().unwrap();
    let store = SqliteStore::new(folder.path().join("state.db"));
    let made = |agent: &str| {
        let (by, now) = ("a test".to_owned(), Timestamp::from_millis(1));
        NewAccessToken::make(agent.into(), by, now, std::time::Duration::from_secs(9)).1
    };
    let tokens = ["a", "b", "c", "d", "e"].map(made);
    for token in &tokens {
        store.add_access_token(token.clone()).await.unwrap();
    }
    let [a, b, c, d, e] = tokens.clone().map(|token| token.id);
    let spoilt = [
        ("UPDATE access_tokens SET made = 'no JSON' WHERE id = ?1", a.clone()),
        ("UPDATE access_tokens SET made = json_set(made, '$.digest', 7) WHERE id = ?1", b.clone()),
        ("UPDATE access_tokens SET made = json_set(made, '$.agent', 7) WHERE id = ?1", c.clone()),
        ("UPDATE access_tokens SET made = json_set(made, '$.id', 'other') WHERE id = ?1", d.clone()),
    ];
    let written: Result<(), StoreError> = store
        .database
        .write(Area::Everything, move |db| {
            for (sql, id) in &spoilt {
                assert_eq!(db.execute(sql, params![id.as_str()])?, 1);
            }
            Ok::<_, Fault<StoreError>>(())
        })
        .await;
    written.unwrap();
    for list in [
        store.counting_access_tokens(Timestamp::from_millis(2)).await.unwrap(),
        store.access_tokens(9).await.unwrap(),
    ] {
        assert_eq!(list.tokens.iter().map(|token| &token.made.id).collect::<Vec<_>>(), [&e]);
        let mut unreadable = list.unreadable;
        unreadable.sort();
        let agent = |name: &str| Some(AgentId::new(name));
        let mut expected = [(&a, None), (&b, agent("b")), (&c, None), (&d, agent("d"))]
            .map(|(id, agent)| UnreadableAccessToken { id: Some(id.clone()), agent });
        expected.sort();
        assert_eq!(unreadable, expected);
    }
}
