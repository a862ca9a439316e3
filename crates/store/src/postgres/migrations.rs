//! The schema, as numbered steps. A released step is never edited; changes are new steps.

use super::Failure;
use super::connection::Connection;
use crate::StoreErrorKind;

const STEPS: &[&str] = &[
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_histories.sql"),
    include_str!("migrations/0003_left_words.sql"),
];

fn newest() -> i64 {
    i64::try_from(STEPS.len()).unwrap_or(i64::MAX)
}

/// What a schema holds.
enum Contents {
    /// There is none.
    Absent,
    Nothing,
    Ours(i64),
}

/// Brings a schema to the newest version, in one transaction. When several processes do this at once, one does it and the others find nothing left to
/// do. A schema that is not ours, or newer than this program, is left as it is.
pub(super) fn bring_up(connection: &Connection, schema: &str) -> Result<(), Failure> {
    if let Contents::Ours(version) = contents(connection, schema)?
        && version == newest()
    {
        return Ok(());
    }
    connection
        .batch(&format!("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('backstop/{schema}', 0))"))?;
    let done = match contents(connection, schema)? {
        Contents::Absent => {
            connection.batch(&format!("CREATE SCHEMA \"{schema}\""))?;
            0
        }
        Contents::Nothing => 0,
        Contents::Ours(version) => version,
    };
    for step in STEPS.iter().skip(usize::try_from(done).unwrap_or_default()) {
        connection.batch(step)?;
    }
    if done < newest() {
        connection.batch(&format!("UPDATE backstop_schema SET version = {}", newest()))?;
    }
    connection.batch("COMMIT")
}

fn contents(connection: &Connection, schema: &str) -> Result<Contents, Failure> {
    let client = &connection.client;
    let sql = "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1), \
               EXISTS (SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = $1), \
               EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = 'backstop_schema')";
    let row = connection.wait_for(client.query_one(sql, &[&schema]))?;
    let (exists, is_used, is_ours): (bool, bool, bool) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    match (exists, is_used, is_ours) {
        (false, ..) => return Ok(Contents::Absent),
        (true, false, _) => return Ok(Contents::Nothing),
        (true, true, false) => {
            let cause = format!("the schema `{schema}` holds other tables");
            return Err(Failure::new(StoreErrorKind::ForeignDatabase, cause));
        }
        (true, true, true) => {}
    }
    let version = connection.wait_for(client.query_one("SELECT version FROM backstop_schema", &[]))?;
    let version: i64 = version.try_get(0)?;
    if version > newest() {
        let kind = StoreErrorKind::NewerSchema { found: version, known: newest() };
        return Err(Failure { kind, cause: None, is_lost: false, is_silent: false });
    }
    Ok(Contents::Ours(version))
}
