use async_trait::async_trait;
use backstop_hooks::{RunId, SessionId, ToolCallId};

use super::row::{AsJson, json};
use super::{Area, Db, Driver, SqlResult, SqlStore, params};
use crate::{DecisionStore, StoreError, Timestamp, ToolDecision};

#[async_trait]
impl<D: Driver> DecisionStore for SqlStore<D> {
    async fn put_decisions(
        &self,
        session: &SessionId,
        run: &RunId,
        decisions: Vec<(ToolCallId, ToolDecision)>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let (session, run) = (session.clone(), run.clone());
        self.database
            .write(Area::Decisions, move |db| {
                for (call, decision) in decisions {
                    if find(db, &session, &run, &call)?.is_none_or(|known| known.yields_to(&decision)) {
                        let sql = "INSERT INTO decisions (session, run, call, decision, decided_at) \
                                   VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (session, run, call) DO UPDATE \
                                   SET decision = excluded.decision, decided_at = excluded.decided_at";
                        let values =
                            params![session.as_str(), run.as_str(), call.as_str(), AsJson(&decision), now];
                        db.execute(sql, values)?;
                    }
                }
                Ok(())
            })
            .await
    }

    async fn decision(
        &self,
        session: &SessionId,
        run: &RunId,
        call: &ToolCallId,
    ) -> Result<Option<ToolDecision>, StoreError> {
        let (session, run, call) = (session.clone(), run.clone(), call.clone());
        self.database.read(move |db| Ok(find(db, &session, &run, &call)?)).await
    }

    async fn decision_on_call(
        &self,
        call: &ToolCallId,
        since: Timestamp,
    ) -> Result<Option<ToolDecision>, StoreError> {
        if call.is_empty() {
            return Ok(None);
        }
        let call = call.clone();
        self.database
            .read(move |db| {
                let sql = "SELECT decision FROM decisions WHERE call = ?1 AND decided_at >= ?2 \
                           ORDER BY decision ->> 'decision' = 'deny' DESC LIMIT 1";
                Ok(db.optional(sql, params![call.as_str(), since], |row| json(row, "decision"))?)
            })
            .await
    }

    async fn prune_decisions(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.database
            .write(Area::Decisions, move |db| {
                Ok(db.execute("DELETE FROM decisions WHERE decided_at < ?1", params![before])?)
            })
            .await
    }

    async fn clear_decisions(&self, session: &SessionId, run: &RunId) -> Result<(), StoreError> {
        let (session, run) = (session.clone(), run.clone());
        self.database
            .write(Area::Decisions, move |db| {
                let sql = "DELETE FROM decisions WHERE session = ?1 AND run = ?2";
                db.execute(sql, params![session.as_str(), run.as_str()])?;
                Ok(())
            })
            .await
    }
}

fn find(db: &Db<'_>, session: &SessionId, run: &RunId, call: &ToolCallId) -> SqlResult<Option<ToolDecision>> {
    let sql = "SELECT decision FROM decisions WHERE session = ?1 AND run = ?2 AND call = ?3";
    let values = params![session.as_str(), run.as_str(), call.as_str()];
    db.optional(sql, values, |row| json(row, "decision"))
}
