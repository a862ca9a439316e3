use async_trait::async_trait;
use backstop_hooks::{RunId, SessionId, ToolCallId};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::SqliteStore;
use super::row::{AsJson, json};
use crate::{DecisionStore, StoreError, ToolDecision};

#[async_trait]
impl DecisionStore for SqliteStore {
    async fn put_decisions(
        &self,
        session: &SessionId,
        run: &RunId,
        decisions: Vec<(ToolCallId, ToolDecision)>,
    ) -> Result<(), StoreError> {
        let (session, run) = (session.clone(), run.clone());
        self.database
            .write(move |db| {
                for (call, decision) in decisions {
                    if find(db, &session, &run, &call)?.is_none_or(|known| known.yields_to(&decision)) {
                        let sql = "INSERT OR REPLACE INTO decisions (session, run, call, decision) \
                                   VALUES (?1, ?2, ?3, ?4)";
                        let values =
                            params![session.as_str(), run.as_str(), call.as_str(), AsJson(&decision)];
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
