use async_trait::async_trait;
use backstop_hooks::{RunId, SessionId, ToolCallId};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::SqliteStore;
use super::row::{AsJson, json};
use crate::{DecisionStore, StoreError, Timestamp, ToolDecision};

#[async_trait]
impl DecisionStore for SqliteStore {
    async fn put_decisions(
        &self,
        session: &SessionId,
        run: &RunId,
        decisions: Vec<(ToolCallId, ToolDecision)>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let (session, run) = (session.clone(), run.clone());
        self.database
            .write(move |db| {
                for (call, decision) in decisions {
                    if find(db, &session, &run, &call)?.is_none_or(|known| known.yields_to(&decision)) {
                        let sql = "INSERT OR REPLACE INTO decisions (session, run, call, decision, decided_at) \
                                   VALUES (?1, ?2, ?3, ?4, ?5)";
                        let values =
                            params![session.as_str(), run.as_str(), call.as_str(), AsJson(&decision), now];
                        db.prepare_cached(sql)?.execute(values)?;
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
                           ORDER BY json_extract(decision, '$.decision') = 'deny' DESC LIMIT 1";
                let found = db
                    .prepare_cached(sql)?
                    .query_row(params![call.as_str(), since], |row| json(row, "decision"));
                Ok(found.optional()?)
            })
            .await
    }

    async fn prune_decisions(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.database
            .write(move |db| {
                Ok(db.prepare_cached("DELETE FROM decisions WHERE decided_at < ?1")?.execute([before])?)
            })
            .await
    }

    async fn clear_decisions(&self, session: &SessionId, run: &RunId) -> Result<(), StoreError> {
        let (session, run) = (session.clone(), run.clone());
        self.database
            .write(move |db| {
                let sql = "DELETE FROM decisions WHERE session = ?1 AND run = ?2";
                db.prepare_cached(sql)?.execute([session.as_str(), run.as_str()])?;
                Ok(())
            })
            .await
    }
}

fn find(
    db: &Connection,
    session: &SessionId,
    run: &RunId,
    call: &ToolCallId,
) -> rusqlite::Result<Option<ToolDecision>> {
    let sql = "SELECT decision FROM decisions WHERE session = ?1 AND run = ?2 AND call = ?3";
    let values = [session.as_str(), run.as_str(), call.as_str()];
    db.prepare_cached(sql)?.query_row(values, |row| json(row, "decision")).optional()
}
