use async_trait::async_trait;
use backstop_hooks::{ApprovalId, Digest};

use super::row::{Count, Word, id as id_column, limit as limit_of};
use super::{Area, Driver, Row, SqlResult, SqlStore, params};
use crate::notices::kept_reference;
use crate::{
    ANSWERABLE, ActionHandle, Addressee, LONGEST_HOLD, NoticeStore, SentNotice, StoreError, Timestamp, Uptime,
};

/// Those that wait, and that nobody tells this addressee of now or has told it.
const UNTOLD: &str = "status = 'pending' AND NOT EXISTS (SELECT 1 FROM notices WHERE approval = approvals.id \
                      AND surface = ?1 AND place = ?2 AND (reference IS NOT NULL OR (held_until > ?3 AND held_until <= ?5)))";

#[async_trait]
impl<D: Driver> NoticeStore for SqlStore<D> {
    async fn untold_approvals(
        &self,
        to: &Addressee,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<ApprovalId>, StoreError> {
        let (to, limit, longest) = (to.clone(), limit_of(limit), now.after(LONGEST_HOLD));
        self.database
            .read(move |db| {
                // INVARIANT (turns): what one agent asks keeps no other one's first question out of the list, nor does an agent that comes later.
                let sql = format!(
                    "SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY agent ORDER BY expires_at, row) AS turn, \
                     min(row) OVER (PARTITION BY agent) AS since FROM approvals WHERE {UNTOLD}) AS untold \
                     ORDER BY turn, since LIMIT ?4"
                );
                let values = params![to.surface, to.place, now, limit, longest];
                Ok(db.readable("questions", &sql, values, |row| id_column(row, "id"))?)
            })
            .await
    }

    async fn claim_notice(
        &self,
        approval: &ApprovalId,
        to: &Addressee,
        holder: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let (approval, to, holder) = (approval.clone(), to.clone(), holder.to_owned());
        let longest = now.after(LONGEST_HOLD);
        self.database
            .write(Area::Questions, move |db| {
                let sql = "INSERT INTO notices (approval, surface, place, holder, held_until) \
                           SELECT ?1, ?2, ?3, ?4, ?5 FROM approvals WHERE id = ?1 AND status = 'pending' \
                           ON CONFLICT (approval, surface, place) DO UPDATE \
                           SET holder = excluded.holder, held_until = excluded.held_until WHERE notices.reference IS NULL \
                           AND (notices.held_until <= ?6 OR notices.held_until > ?7 OR notices.holder = excluded.holder)";
                let values = params![approval.as_str(), to.surface, to.place, holder, until, now, longest];
                Ok(db.execute(sql, values)? == 1)
            })
            .await
    }

    async fn sent_notice(
        &self,
        approval: &ApprovalId,
        to: &Addressee,
        reference: &str,
    ) -> Result<(), StoreError> {
        let (approval, to) = (approval.clone(), to.clone());
        let reference = kept_reference(reference).to_owned();
        self.database
            .write(Area::Questions, move |db| {
                let sql = "UPDATE notices SET reference = ?4, held_until = 0 \
                           WHERE approval = ?1 AND surface = ?2 AND place = ?3 AND reference IS NULL";
                let values = params![approval.as_str(), to.surface, to.place, reference];
                db.execute(sql, values)?;
                Ok(())
            })
            .await
    }

    async fn stale_notices(
        &self,
        surface: &str,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<SentNotice>, StoreError> {
        let (surface, limit, longest) = (surface.to_owned(), limit_of(limit), now.after(LONGEST_HOLD));
        self.database
            .read(move |db| {
                let sql = "SELECT approval, surface, place, reference FROM notices JOIN approvals ON id = approval \
                           WHERE surface = ?1 AND reference IS NOT NULL AND withdrawn = 0 \
                           AND (held_until <= ?2 OR held_until > ?4) AND status <> 'pending' LIMIT ?3";
                Ok(db.readable("notices", sql, params![surface, now, limit, longest], sent)?)
            })
            .await
    }

    async fn claim_withdrawal(
        &self,
        notice: &SentNotice,
        holder: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let (notice, holder, longest) = (notice.clone(), holder.to_owned(), now.after(LONGEST_HOLD));
        self.database
            .write(Area::Questions, move |db| {
                let sql = "UPDATE notices SET holder = ?4, held_until = ?5 \
                           WHERE approval = ?1 AND surface = ?2 AND place = ?3 \
                           AND withdrawn = 0 AND (held_until <= ?6 OR held_until > ?7 OR holder = ?4)";
                let SentNotice { approval, addressee: to, .. } = &notice;
                let values = params![approval.as_str(), to.surface, to.place, holder, until, now, longest];
                Ok(db.execute(sql, values)? == 1)
            })
            .await
    }

    async fn withdrawn_notice(&self, notice: &SentNotice) -> Result<(), StoreError> {
        let notice = notice.clone();
        self.database
            .write(Area::Questions, move |db| {
                let sql =
                    "UPDATE notices SET withdrawn = 1 WHERE approval = ?1 AND surface = ?2 AND place = ?3";
                let SentNotice { approval, addressee, .. } = &notice;
                let values = params![approval.as_str(), addressee.surface, addressee.place];
                db.execute(sql, values)?;
                Ok(())
            })
            .await
    }

    async fn notice(&self, approval: &ApprovalId, to: &Addressee) -> Result<Option<SentNotice>, StoreError> {
        let (approval, to) = (approval.clone(), to.clone());
        self.database
            .read(move |db| {
                let sql = "SELECT * FROM notices WHERE approval = ?1 AND surface = ?2 AND place = ?3 \
                           AND reference IS NOT NULL";
                let values = params![approval.as_str(), to.surface, to.place];
                Ok(db.optional(sql, values, sent)?)
            })
            .await
    }

    async fn add_handles(&self, handles: Vec<ActionHandle>, now: Timestamp) -> Result<(), StoreError> {
        self.database
            .write(Area::Questions, move |db| {
                let old = now.before(ANSWERABLE);
                // Where the clock was set forward, their questions may still wait.
                let sql = "DELETE FROM action_handles WHERE expires_at < ?1 \
                           AND NOT EXISTS (SELECT 1 FROM approvals WHERE id = approval AND status = 'pending')";
                db.execute(sql, params![old])?;
                let sql =
                    "INSERT INTO action_handles (hash, approval, digest, decision, surface, place, expires_at) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
                for handle in &handles {
                    db.execute(sql, params![
                        handle.hash.to_string(),
                        handle.approval.as_str(),
                        handle.digest.to_string(),
                        Word(handle.decision),
                        handle.addressee.surface,
                        handle.addressee.place,
                        handle.expires_at,
                    ])?;
                }
                Ok(())
            })
            .await
    }

    async fn handle(&self, hash: &Digest) -> Result<Option<ActionHandle>, StoreError> {
        let hash = hash.to_string();
        self.database
            .read(move |db| {
                let sql = "SELECT * FROM action_handles WHERE hash = ?1";
                Ok(db.optional(sql, params![hash], known)?)
            })
            .await
    }

    async fn use_handle(&self, hash: &Digest, who: &str, now: Timestamp) -> Result<bool, StoreError> {
        let (hash, who) = (hash.to_string(), who.to_owned());
        self.database
            .write(Area::Questions, move |db| {
                let uptime = Uptime::now();
                let (boot, at) = uptime.as_ref().map(Uptime::parts).unzip();
                let sql = "INSERT INTO handle_uses (hash, who, used_at) SELECT hash, ?2, ?3 FROM action_handles \
                           WHERE hash = ?1 AND EXISTS (SELECT 1 FROM approvals WHERE id = approval AND status = 'pending' \
                           AND CASE WHEN deadline_boot = ?4 THEN deadline_at >= ?5 ELSE action_handles.expires_at >= ?3 END) \
                           ON CONFLICT DO NOTHING";
                Ok(db.execute(sql, params![hash, who, now, boot, at.map(Count)])? == 1)
            })
            .await
    }

    async fn remember_delivery(
        &self,
        surface: &str,
        id: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let (surface, id) = (surface.to_owned(), id.to_owned());
        self.database
            .write(Area::Questions, move |db| {
                db.execute("DELETE FROM surface_deliveries WHERE until < ?1", params![now])?;
                let sql = "INSERT INTO surface_deliveries (surface, id, until) VALUES (?1, ?2, ?3) \
                           ON CONFLICT DO NOTHING";
                Ok(db.execute(sql, params![surface, id, until])? == 1)
            })
            .await
    }

    async fn lease_surface(
        &self,
        surface: &str,
        holder: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let (surface, holder, longest) = (surface.to_owned(), holder.to_owned(), now.after(LONGEST_HOLD));
        self.database
            .write(Area::Questions, move |db| {
                let sql = "INSERT INTO surface_leases (surface, holder, until) VALUES (?1, ?2, ?3) \
                           ON CONFLICT (surface) DO UPDATE SET holder = excluded.holder, until = excluded.until \
                           WHERE surface_leases.holder = excluded.holder OR surface_leases.until <= ?4 \
                           OR surface_leases.until > ?5";
                Ok(db.execute(sql, params![surface, holder, until, now, longest])? == 1)
            })
            .await
    }
}

fn addressee(row: &Row<'_>) -> SqlResult<Addressee> {
    Ok(Addressee { surface: row.get("surface")?, place: row.get("place")? })
}

fn sent(row: &Row<'_>) -> SqlResult<SentNotice> {
    let approval = id_column(row, "approval")?;
    Ok(SentNotice { approval, addressee: addressee(row)?, reference: row.get("reference")? })
}

fn known(row: &Row<'_>) -> SqlResult<ActionHandle> {
    Ok(ActionHandle {
        hash: digest(row, "hash")?,
        approval: id_column(row, "approval")?,
        digest: digest(row, "digest")?,
        decision: row.get::<Word<_>>("decision")?.0,
        addressee: addressee(row)?,
        expires_at: row.get("expires_at")?,
    })
}

fn digest(row: &Row<'_>, column: &str) -> SqlResult<Digest> {
    row.get::<Word<Digest>>(column).map(|digest| digest.0)
}
