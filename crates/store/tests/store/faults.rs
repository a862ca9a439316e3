//! What the user is told when the storage can't do its work, and that nothing is half done.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use backstop_store::{
    AuditStore as _, GrantStore as _, SessionError, SessionStore as _, SqliteStore, StoreError,
    StoreErrorKind,
};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::session;

async fn error_at(path: &Path) -> StoreError {
    let store = SqliteStore::with_busy_timeout(path, Duration::from_millis(50));
    match store.create_session(session("s1", "chat", 1)).await {
        Err(SessionError::Store(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn explained(error: &StoreError, path: &Path) {
    let text = error.to_string();
    assert!(text.contains(&path.display().to_string()) && text.contains("\nhint: "), "{text}");
}

#[tokio::test]
async fn nothing_is_created_before_the_first_operation() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("deep/er/state.db");
    let store = SqliteStore::new(&path);
    assert_eq!(store.path(), Some(path.as_path()));
    assert!(!folder.path().join("deep").exists());
    store.sessions(1).await.unwrap();
    assert!(path.exists());
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_what_is_created() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("deep/er/state.db");
    let store = SqliteStore::new(&path);
    store.create_session(session("s1", "chat", 1)).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for made in ["deep", "deep/er"] {
        assert_eq!(mode(&folder.path().join(made)), 0o700, "{made}");
    }
    for file in fs::read_dir(path.parent().unwrap()).unwrap() {
        let file = file.unwrap().path();
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn what_one_handle_wrote_another_one_reads() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    SqliteStore::new(&path).create_session(session("s1", "chat", 1)).await.unwrap();
    let found = SqliteStore::new(&path).session(&"s1".into()).await.unwrap();
    assert_eq!(found, Some(session("s1", "chat", 1)));
}

#[tokio::test]
async fn whether_it_can_be_written_is_found_out_by_writing() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let store = SqliteStore::with_busy_timeout(&path, Duration::from_millis(50));
    store.create_session(session("s1", "chat", 1)).await.unwrap();
    let log = || fs::metadata(path.with_extension("db-wal")).unwrap().len();
    let (before, head) = (log(), store.audit_head().await.unwrap());
    store.check_writable().await.unwrap();
    assert!(log() > before, "nothing reached the disk");
    assert_eq!(store.audit_head().await.unwrap(), head);
    // Reading goes on beside another writer, and so would whoever only reads to find out.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(store.sessions(1).await.is_ok());
    assert_eq!(store.check_writable().await.unwrap_err().kind(), StoreErrorKind::Locked);
    other.execute_batch("ROLLBACK").unwrap();
    store.check_writable().await.unwrap();
}

#[tokio::test]
async fn opening_is_fast() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    SqliteStore::new(&path).sessions(1).await.unwrap();
    let mut times = Vec::new();
    for _ in 0..9 {
        let start = Instant::now();
        SqliteStore::new(&path).grants(1).await.unwrap();
        times.push(start.elapsed());
    }
    times.sort_unstable();
    // The aim is 5 ms for an optimised build on an idle machine; this is neither.
    assert!(times[0] < Duration::from_millis(25), "{times:?}");
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("notes.txt");
    let notes = "dear diary, ".repeat(100);
    fs::write(&path, &notes).unwrap();
    let error = error_at(&path).await;
    assert_eq!(error.kind(), StoreErrorKind::NotADatabase);
    explained(&error, &path);
    assert_eq!(fs::read_to_string(&path).unwrap(), notes);
}

#[tokio::test]
async fn a_database_of_another_program_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("other.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
    let before = fs::read(&path).unwrap();
    let error = error_at(&path).await;
    assert_eq!(error.kind(), StoreErrorKind::ForeignDatabase);
    explained(&error, &path);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_newer_database_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    SqliteStore::new(&path).sessions(1).await.unwrap();
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 4_000).unwrap();
    let error = error_at(&path).await;
    assert!(matches!(error.kind(), StoreErrorKind::NewerSchema { found: 4_000, .. }));
    explained(&error, &path);
    assert!(error.to_string().contains("update backstop"));
}

#[tokio::test]
async fn a_database_that_another_process_holds_is_waited_for() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    SqliteStore::new(&path).sessions(1).await.unwrap();
    let holder = Connection::open(&path).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = error_at(&path).await;
    assert_eq!(error.kind(), StoreErrorKind::Locked);
    explained(&error, &path);
    assert!(error.to_string().contains("another backstop process"));
    let patient = SqliteStore::new(&path);
    let (created, ()) = tokio::join!(patient.create_session(session("s1", "chat", 1)), async {
        tokio::time::sleep(Duration::from_millis(60)).await;
        holder.execute_batch("COMMIT").unwrap();
    });
    created.unwrap();
}

#[tokio::test]
async fn a_damaged_row_is_an_error_and_not_shown() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let store = SqliteStore::new(&path);
    store.create_session(session("s1", "chat", 1)).await.unwrap();
    let direct = Connection::open(&path).unwrap();
    direct.execute("UPDATE sessions SET meta = '{\"password\": hunter2'", []).unwrap();
    let error = store.session(&"s1".into()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Corrupt);
    explained(&error, &path);
    assert!(!format!("{error} {error:?}").contains("hunter2"));
    direct.execute("UPDATE sessions SET meta = 'null'", []).unwrap();
    assert!(store.session(&"s1".into()).await.unwrap().is_some(), "the store works on");
}

#[tokio::test]
async fn a_damaged_file_is_an_error() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    SqliteStore::new(&path).create_session(session("s1", "chat", 1)).await.unwrap();
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    Connection::open(&path).unwrap().query_row(checkpoint, [], |_| Ok(())).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    for byte in bytes.iter_mut().skip(4_096) {
        *byte = 0x5a;
    }
    fs::write(&path, bytes).unwrap();
    let store = SqliteStore::new(&path);
    let error = store.sessions(1).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_an_error() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let path = file.join("state.db");
    let error = error_at(&path).await;
    assert_eq!(error.kind(), StoreErrorKind::CannotOpen);
    explained(&error, &path);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_folder_that_cannot_be_written_is_an_error() {
    // Nobody can create a file there, root included.
    let path = Path::new("/proc/self/state.db");
    let error = error_at(path).await;
    assert!(matches!(error.kind(), StoreErrorKind::CannotOpen | StoreErrorKind::ReadOnly), "{error}");
    explained(&error, path);
}
