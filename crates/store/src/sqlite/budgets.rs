use async_trait::async_trait;
use backstop_hooks::Text;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::SqliteStore;
use super::database::Fault;
use super::row::{Count, limit as limit_of};
use crate::budgets::later;
use crate::{
    BudgetStore, BudgetUse, Charge, Exceeded, MAX_CHARGES, ReservationId, ReserveError, StoreError, Timestamp,
};

#[async_trait]
impl BudgetStore for SqliteStore {
    async fn reserve(&self, id: &ReservationId, charges: Vec<Charge>) -> Result<(), ReserveError> {
        if charges.len() > MAX_CHARGES {
            return Err(ReserveError::TooMany(charges.len()));
        }
        let id = id.clone();
        self.database
            .write(move |db| {
                give_back(db, &id)?;
                for (place, charge) in charges.iter().enumerate() {
                    take(db, &id, place, charge)?;
                }
                Ok(())
            })
            .await
    }

    async fn settle(&self, id: &ReservationId, costs: Vec<(Text, u64)>) -> Result<bool, StoreError> {
        let id = id.clone();
        self.database
            .write(move |db| {
                let reserved = give_back(db, &id)?;
                for (counter, since, amount) in &reserved {
                    let cost = costs.iter().find(|(named, _)| named == counter.as_str());
                    let cost = cost.map_or(*amount, |(_, cost)| *cost);
                    add(db, counter, *since, cost)?;
                }
                Ok(!reserved.is_empty())
            })
            .await
    }

    async fn budgets(&self, limit: usize) -> Result<Vec<BudgetUse>, StoreError> {
        self.database
            .read(move |db| {
                let sql = "SELECT *, (SELECT CAST(min(total(amount), 9.2e18) AS INTEGER) FROM reservations r \
                           WHERE r.counter = b.counter AND r.since = b.since) AS reserved \
                           FROM budgets b ORDER BY since DESC, counter DESC LIMIT ?1";
                let mut statement = db.prepare_cached(sql)?;
                let uses = statement.query_map([limit_of(limit)], use_of)?;
                Ok(uses.collect::<Result<_, _>>()?)
            })
            .await
    }

    async fn prune_budgets(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.database
            .write(move |db| {
                let pruned = db.prepare_cached("DELETE FROM budgets WHERE until < ?1")?.execute([before])?;
                if pruned > 0 {
                    let sql = "DELETE FROM reservations WHERE NOT EXISTS (SELECT 1 FROM budgets b \
                               WHERE b.counter = reservations.counter AND b.since = reservations.since)";
                    db.prepare_cached(sql)?.execute([])?;
                }
                Ok(pruned)
            })
            .await
    }
}

/// Undoes a reservation. Returns what it had charged.
fn give_back(db: &Connection, id: &ReservationId) -> rusqlite::Result<Vec<(String, Timestamp, u64)>> {
    let sql = "DELETE FROM reservations WHERE id = ?1 RETURNING counter, since, amount";
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement
        .query_map([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, Count>(2)?.0)))?;
    let reserved: Vec<(String, Timestamp, u64)> = rows.collect::<Result<_, _>>()?;
    for (counter, since, amount) in &reserved {
        let sql = "UPDATE budgets SET spent = max(0, spent - ?3) WHERE counter = ?1 AND since = ?2";
        db.prepare_cached(sql)?.execute(params![counter, since, Count(*amount)])?;
    }
    Ok(reserved)
}

fn take(
    db: &Connection,
    id: &ReservationId,
    place: usize,
    charge: &Charge,
) -> Result<(), Fault<ReserveError>> {
    let counter = charge.counter.as_str();
    let sql = "SELECT spent, until FROM budgets WHERE counter = ?1 AND since = ?2";
    let known: Option<(Count, Option<Timestamp>)> = db
        .prepare_cached(sql)?
        .query_row(params![counter, charge.since], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (spent, until) = match known {
        Some((Count(spent), until)) => (spent, later(until, charge.until)),
        None => (0, charge.until),
    };
    if spent.saturating_add(charge.amount) > charge.limit {
        let exceeded = Exceeded { charge: place, spent, amount: charge.amount, limit: charge.limit };
        return Err(Fault::Refused(ReserveError::Exceeded(exceeded)));
    }
    let sql = "INSERT OR IGNORE INTO budgets (counter, since, until, spent) VALUES (?1, ?2, ?3, 0)";
    db.prepare_cached(sql)?.execute(params![counter, charge.since, until])?;
    let sql = "UPDATE budgets SET until = ?3 WHERE counter = ?1 AND since = ?2";
    db.prepare_cached(sql)?.execute(params![counter, charge.since, until])?;
    add(db, counter, charge.since, charge.amount)?;
    let sql = "INSERT INTO reservations (id, counter, since, amount) VALUES (?1, ?2, ?3, ?4) \
               ON CONFLICT (id, counter, since) DO UPDATE \
               SET amount = amount + min(excluded.amount, 9223372036854775807 - amount)";
    let values = params![id.as_str(), counter, charge.since, Count(charge.amount)];
    db.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

/// Adds to a counter, which stops at the largest number that SQLite has.
fn add(db: &Connection, counter: &str, since: Timestamp, amount: u64) -> rusqlite::Result<()> {
    let sql = "UPDATE budgets SET spent = spent + min(?3, 9223372036854775807 - spent) \
               WHERE counter = ?1 AND since = ?2";
    db.prepare_cached(sql)?.execute(params![counter, since, Count(amount)])?;
    Ok(())
}

fn use_of(row: &Row<'_>) -> rusqlite::Result<BudgetUse> {
    Ok(BudgetUse {
        counter: row.get::<_, String>("counter")?.into(),
        since: row.get("since")?,
        until: row.get("until")?,
        spent: row.get::<_, Count>("spent")?.0,
        reserved: row.get::<_, Count>("reserved")?.0,
    })
}
