use async_trait::async_trait;
use backstop_hooks::Text;

use super::row::{Count, limit as limit_of};
use super::{Area, Db, Driver, Fault, Row, SqlResult, SqlStore, params};
use crate::budgets::later;
use crate::{
    BudgetStore, BudgetUse, Charge, Exceeded, MAX_CHARGES, ReservationId, ReserveError, StoreError,
    Timestamp, WINDOWS_LAST,
};

#[async_trait]
impl<D: Driver> BudgetStore for SqlStore<D> {
    async fn reserve(&self, id: &ReservationId, charges: Vec<Charge>) -> Result<(), ReserveError> {
        if charges.len() > MAX_CHARGES {
            return Err(ReserveError::TooMany(charges.len()));
        }
        let id = id.clone();
        self.database
            .write(Area::Budgets, move |db| {
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
            .write(Area::Budgets, move |db| {
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
                let sql = "SELECT *, CAST(CASE WHEN sum > 9.2e18 THEN 9.2e18 WHEN sum < 0 THEN -1 ELSE sum END AS BIGINT) AS reserved FROM \
                           (SELECT *, (SELECT coalesce(sum(CAST(amount AS DOUBLE PRECISION)), 0) FROM reservations r \
                           WHERE r.counter = b.counter AND r.since = b.since) AS sum FROM budgets b) AS known ORDER BY since DESC, counter DESC LIMIT ?1";
                Ok(db.readable("budgets", sql, params![limit_of(limit)], use_of)?)
            })
            .await
    }

    async fn prune_budgets(&self, now: Timestamp) -> Result<usize, StoreError> {
        self.database
            .write(Area::Budgets, move |db| {
                // INVARIANT (no clock gives back): an end alone does not say that a window is over, since this clock may be ahead.
                // Counted as floating numbers, which an end beyond all times does not take over their range.
                let over = format!(
                    "DELETE FROM budgets WHERE until < ?1 AND until + {WINDOWS_LAST}.0 * (CAST(until AS DOUBLE PRECISION) - since) < ?1"
                );
                let pruned = db.execute(&over, params![now])?;
                if pruned > 0 {
                    let sql = "DELETE FROM reservations WHERE NOT EXISTS (SELECT 1 FROM budgets b \
                               WHERE b.counter = reservations.counter AND b.since = reservations.since)";
                    db.execute(sql, params![])?;
                }
                Ok(pruned)
            })
            .await
    }
}

/// Undoes a reservation. Returns what it had charged.
fn give_back(db: &Db<'_>, id: &ReservationId) -> SqlResult<Vec<(String, Timestamp, u64)>> {
    let sql = "DELETE FROM reservations WHERE id = ?1 RETURNING counter, since, amount";
    let reserved: Vec<(String, Timestamp, u64)> =
        db.all(sql, params![id.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get::<Count>(2)?.0)))?;
    for (counter, since, amount) in &reserved {
        let sql = "UPDATE budgets SET spent = CASE WHEN spent > ?3 THEN spent - ?3 ELSE 0 END WHERE counter = ?1 AND since = ?2";
        db.execute(sql, params![counter, since, Count(*amount)])?;
    }
    Ok(reserved)
}

fn take(db: &Db<'_>, id: &ReservationId, place: usize, charge: &Charge) -> Result<(), Fault<ReserveError>> {
    let counter = charge.counter.as_str();
    let sql = "SELECT spent, until FROM budgets WHERE counter = ?1 AND since = ?2";
    let known: Option<(Count, Option<Timestamp>)> =
        db.optional(sql, params![counter, charge.since], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (spent, until) = match known {
        Some((Count(spent), until)) => (spent, later(until, charge.until)),
        None => (0, charge.until),
    };
    if spent.saturating_add(charge.amount) > charge.limit {
        let exceeded = Exceeded { charge: place, spent, amount: charge.amount, limit: charge.limit };
        return Err(Fault::Refused(ReserveError::Exceeded(exceeded)));
    }
    let sql =
        "INSERT INTO budgets (counter, since, until, spent) VALUES (?1, ?2, ?3, 0) ON CONFLICT DO NOTHING";
    db.execute(sql, params![counter, charge.since, until])?;
    let sql = "UPDATE budgets SET until = ?3 WHERE counter = ?1 AND since = ?2";
    db.execute(sql, params![counter, charge.since, until])?;
    add(db, counter, charge.since, charge.amount)?;
    let sql = "INSERT INTO reservations (id, counter, since, amount) VALUES (?1, ?2, ?3, ?4) \
               ON CONFLICT (id, counter, since) DO UPDATE \
               SET amount = CASE WHEN excluded.amount > 9223372036854775807 - reservations.amount \
               THEN 9223372036854775807 ELSE reservations.amount + excluded.amount END";
    let values = params![id.as_str(), counter, charge.since, Count(charge.amount)];
    db.execute(sql, values)?;
    Ok(())
}

/// Adds to a counter, which stops at the largest number that a column holds.
fn add(db: &Db<'_>, counter: &str, since: Timestamp, amount: u64) -> SqlResult<()> {
    let sql = "UPDATE budgets SET spent = CASE WHEN ?3 > 9223372036854775807 - spent THEN 9223372036854775807 ELSE spent + ?3 END \
               WHERE counter = ?1 AND since = ?2";
    db.execute(sql, params![counter, since, Count(amount)])?;
    Ok(())
}

fn use_of(row: &Row<'_>) -> SqlResult<BudgetUse> {
    Ok(BudgetUse {
        counter: row.get::<String>("counter")?.into(),
        since: row.get("since")?,
        until: row.get("until")?,
        spent: row.get::<Count>("spent")?.0,
        reserved: row.get::<Count>("reserved")?.0,
    })
}
