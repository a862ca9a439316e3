//! Opening and creating the file, and what its failures mean.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::audit::{SAID, SaidError};
use super::migrations::{migrate, newest};
use super::texts;
use super::trail::Trail;
use crate::sql::SqlError;
use crate::{StoreError, StoreErrorKind};

/// Marks a database as Backstop's: `BKST`.
const APPLICATION_ID: i32 = 0x424b_5354;

/// The value of `PRAGMA temp_store` by which what is temporary stays in memory.
const TEMPORARY_IN_MEMORY: i64 = 2;

/// Opens the database, and creates or updates it if that is needed. A file that is not Backstop's, or
/// newer than this program, is left as it is.
pub(super) fn open(
    place: &str,
    path: &Path,
    busy_timeout: Duration,
    trail: &Trail,
) -> Result<Connection, StoreError> {
    create_private(path).map_err(|error| StoreError::because(place, kind_of_io(&error), error))?;
    let failed = |error: rusqlite::Error| describe(place, &error);
    let unmigrated = |error| unmigrated(place, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(busy_timeout).map_err(failed)?;
    match contents(&connection).map_err(failed)? {
        Contents::Foreign => return Err(StoreError::new(place, StoreErrorKind::ForeignDatabase)),
        Contents::Ours { version } if version > newest() => {
            return Err(StoreError::new(
                place,
                StoreErrorKind::NewerSchema { found: version, known: newest() },
            ));
        }
        Contents::Ours { version } => {
            configure(&connection).map_err(failed)?;
            log_ahead(&connection, busy_timeout).map_err(failed)?;
            if version < newest() {
                migrate(&mut connection, APPLICATION_ID, Some(trail)).map_err(unmigrated)?;
            }
        }
        Contents::Nothing => {
            configure(&connection).map_err(failed)?;
            log_ahead(&connection, busy_timeout).map_err(failed)?;
            migrate(&mut connection, APPLICATION_ID, Some(trail)).map_err(unmigrated)?;
        }
    }
    Ok(connection)
}

/// Makes a database in memory, of which nothing reaches a disk: neither what it holds, nor its journal, nor what a statement sorts.
pub(super) fn in_memory(place: &str) -> Result<Connection, StoreError> {
    let failed = |error: rusqlite::Error| describe(place, &error);
    let mut connection = Connection::open_in_memory_with_flags(
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .map_err(failed)?;
    configure(&connection).map_err(failed)?;
    stay_in_memory(&connection).map_err(failed)?;
    migrate(&mut connection, APPLICATION_ID, None).map_err(|error| unmigrated(place, error))?;
    connection.execute_batch(texts::GONE_AT_ONCE).map_err(failed)?;
    Ok(connection)
}

fn unmigrated(place: &str, error: SaidError) -> StoreError {
    match error {
        SaidError::Sql(error) => describe(place, &error),
        SaidError::Trail(error) => error,
    }
}

/// Opens a database that is there for looking at it, beside the connection that [`open`] opened.
pub(super) fn view(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::from_secs(1))?;
    connection.execute_batch(
        "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY; PRAGMA cache_size = 8;",
    )?;
    Ok(connection)
}

/// Creates the file for its owner only, and its folders, unless it exists. SQLite gives the files beside
/// it the same permissions.
fn create_private(path: &Path) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut folders = fs::DirBuilder::new();
    folders.recursive(true);
    let mut file = OpenOptions::new();
    file.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
        folders.mode(0o700);
        file.mode(0o600);
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        folders.create(folder)?;
    }
    match file.open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

enum Contents {
    Nothing,
    Ours { version: i64 },
    Foreign,
}

fn contents(connection: &Connection) -> rusqlite::Result<Contents> {
    let sql = "SELECT (SELECT application_id FROM pragma_application_id), \
               (SELECT user_version FROM pragma_user_version), \
               (SELECT count(*) FROM sqlite_schema)";
    let (application, version, tables): (i32, i64, i64) =
        connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(match (application, version, tables) {
        (APPLICATION_ID, version, _) => Contents::Ours { version },
        (0, 0, 0) => Contents::Nothing,
        _ => Contents::Foreign,
    })
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "PRAGMA secure_delete = ON; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY; \
         PRAGMA trusted_schema = OFF; PRAGMA synchronous = FULL;",
    )?;
    connection.execute_batch(SAID)
}

/// Makes sure that nothing reaches a disk. Only then are zeros over what is deleted of no use.
fn stay_in_memory(connection: &Connection) -> rusqlite::Result<()> {
    let ask = |pragma, value| connection.pragma_update_and_check(None, pragma, value, |row| row.get(0));
    let journal: String = ask("journal_mode", "memory")?;
    let temporary: i64 = connection.pragma_query_value(None, "temp_store", |row| row.get(0))?;
    let files = "SELECT count(*) FROM pragma_database_list WHERE file <> ''";
    let files: i64 = connection.query_row(files, [], |row| row.get(0))?;
    if journal != "memory" || temporary != TEMPORARY_IN_MEMORY || files != 0 {
        return Err(cannot_open("it is not in memory alone"));
    }
    connection.execute_batch("PRAGMA secure_delete = OFF; PRAGMA synchronous = OFF;")
}

/// Switches to the write-ahead log. Two processes that do this at once to a new file are not made to
/// wait for each other by SQLite, so the waiting is done here.
fn log_ahead(connection: &Connection, busy_timeout: Duration) -> rusqlite::Result<()> {
    let start = Instant::now();
    loop {
        let mode =
            connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0));
        match mode {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && start.elapsed() < busy_timeout =>
            {
                thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error),
            Ok(mode) if mode == "wal" => return Ok(()),
            // Without the log, text that was taken out would survive in rollback journals.
            Ok(_) => return Err(cannot_open("the file system does not support a write-ahead log")),
        }
    }
}

fn cannot_open(why: &str) -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
    rusqlite::Error::SqliteFailure(code, Some(why.to_owned()))
}

/// Returns what a failure means to the user. Neither SQL nor stored values get into the text.
pub(super) fn describe(place: &str, error: &rusqlite::Error) -> StoreError {
    match error {
        rusqlite::Error::SqliteFailure(code, text) => {
            let cause = text.clone().unwrap_or_else(|| code.to_string());
            StoreError::because(place, kind_of(code.code), cause)
        }
        rusqlite::Error::FromSqlConversionFailure(..) | rusqlite::Error::InvalidColumnType(..) => {
            StoreError::because(place, StoreErrorKind::Corrupt, "a row can't be read")
        }
        _ => StoreError::because(place, StoreErrorKind::Internal, "the statement does not fit the schema"),
    }
}

/// As [`describe`], of what a statement or a row of the store's led to.
pub(super) fn describe_sql(place: &str, error: &SqlError) -> StoreError {
    match error {
        SqlError::Sqlite(error) => describe(place, error),
        SqlError::Unreadable => StoreError::because(place, StoreErrorKind::Corrupt, "a row can't be read"),
        #[cfg(feature = "postgres")]
        SqlError::Postgres(_) => StoreError::new(place, StoreErrorKind::Internal),
        SqlError::Unwritable => {
            StoreError::because(place, StoreErrorKind::Internal, "a value can't be written")
        }
    }
}

fn kind_of(code: ErrorCode) -> StoreErrorKind {
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreErrorKind::Locked,
        ErrorCode::DiskFull | ErrorCode::OutOfMemory => StoreErrorKind::Full,
        ErrorCode::ReadOnly => StoreErrorKind::ReadOnly,
        ErrorCode::CannotOpen | ErrorCode::PermissionDenied => StoreErrorKind::CannotOpen,
        ErrorCode::NotADatabase => StoreErrorKind::NotADatabase,
        ErrorCode::DatabaseCorrupt => StoreErrorKind::Corrupt,
        ErrorCode::SystemIoFailure => StoreErrorKind::Io,
        _ => StoreErrorKind::Internal,
    }
}

fn kind_of_io(error: &io::Error) -> StoreErrorKind {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => StoreErrorKind::ReadOnly,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreErrorKind::Full,
        _ => StoreErrorKind::CannotOpen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyed::Keying;

    #[test]
    fn what_is_in_memory_has_no_files() {
        let made = in_memory("memory").unwrap();
        let zeros = |db: &Connection| -> i64 {
            db.pragma_query_value(None, "secure_delete", |row| row.get(0)).unwrap()
        };
        assert_eq!(zeros(&made), 0);
        assert_eq!(made.path(), Some(""));
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("state.db");
        let wait = Duration::from_secs(1);
        let file = open("state.db", &path, wait, &Trail::beside(&path, Keying::default())).unwrap();
        assert_eq!(stay_in_memory(&file).unwrap_err().sqlite_error_code(), Some(ErrorCode::CannotOpen));
        assert_eq!(zeros(&file), 1, "a file keeps its zeros");
        let spilt = Connection::open_in_memory().unwrap();
        spilt.execute_batch("PRAGMA temp_store = FILE").unwrap();
        assert!(stay_in_memory(&spilt).is_err(), "what is temporary is in files");
    }
}
