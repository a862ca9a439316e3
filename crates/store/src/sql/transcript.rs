use async_trait::async_trait;
use backstop_hooks::conversation::Message;
use backstop_hooks::{MessageId, RunId, SessionId};

use super::row::{AsJson, Count, id as id_column, json, limit as limit_of, optional_id};
use super::sessions::is_leased_to;
use super::{Area, Db, Driver, Fault, Row, SqlResult, SqlStore, params, texts};
use crate::transcript::{encoded, stamped};
use crate::{
    Change, Entry, Erasure, LeaseHolder, Listed, NewEntry, StoreError, TranscriptError, TranscriptStore,
};

type Outcome<T> = Result<T, Fault<TranscriptError>>;

#[async_trait]
impl<D: Driver> TranscriptStore for SqlStore<D> {
    async fn append(
        &self,
        session: &SessionId,
        holder: &LeaseHolder,
        entries: Vec<NewEntry>,
    ) -> Result<Vec<u64>, TranscriptError> {
        let (session, holder) = (session.clone(), holder.clone());
        self.database
            .write(Area::Conversations, move |db| {
                let mut editor = Editor::open(db, session, &holder)?;
                let numbers =
                    entries.into_iter().map(|entry| editor.append(entry)).collect::<Outcome<_>>()?;
                editor.close()?;
                Ok(numbers)
            })
            .await
    }

    async fn transcript(&self, session: &SessionId) -> Result<Vec<Entry>, StoreError> {
        let session = session.clone();
        self.database
            .read(move |db| {
                let sql =
                    "SELECT * FROM entries JOIN texts ON text_id = text WHERE session = ?1 ORDER BY seq";
                Ok(db.all(sql, params![session.as_str()], entry)?)
            })
            .await
    }

    async fn transcript_page(
        &self,
        session: &SessionId,
        before: u64,
        limit: usize,
        most: usize,
    ) -> Result<Vec<Listed>, StoreError> {
        let (session, limit) = (session.clone(), limit_of(limit));
        let (before, most) = (i64::try_from(before).unwrap_or(i64::MAX), limit_of(most));
        self.database
            .read(move |db| {
                let sql = "SELECT seq, run, at, length(body) AS bytes, CASE WHEN length(body) <= ?4 THEN body END AS body \
                           FROM entries JOIN texts ON text_id = text WHERE session = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3";
                let mut found = db.all(sql, params![session.as_str(), before, limit, most], listed)?;
                found.reverse();
                Ok(found)
            })
            .await
    }

    async fn apply(
        &self,
        session: &SessionId,
        holder: &LeaseHolder,
        changes: Vec<Change>,
    ) -> Result<Erasure, TranscriptError> {
        let (session, holder) = (session.clone(), holder.clone());
        let erases = changes.iter().any(|change| !matches!(change, Change::Append(_)));
        let work = move |db: &Db<'_>| {
            let mut editor = Editor::open(db, session, &holder)?;
            changes.into_iter().try_for_each(|change| editor.change(change))?;
            editor.close()
        };
        if erases {
            let ((), erasure) = self.database.erase(Area::Conversations, work).await?;
            return Ok(erasure);
        }
        self.database.write(Area::Conversations, work).await?;
        Ok(Erasure::Complete)
    }
}

/// Changes one transcript within a transaction.
struct Editor<'a> {
    db: &'a Db<'a>,
    session: SessionId,
    last_seq: u64,
}

impl<'a> Editor<'a> {
    /// INVARIANT (fencing): the lease is looked at in the transaction that writes, so that nobody can take it over in
    /// between.
    fn open(db: &'a Db<'a>, session: SessionId, holder: &LeaseHolder) -> Outcome<Self> {
        let sql = "SELECT last_seq FROM sessions WHERE id = ?1";
        let last_seq = db.optional(sql, params![session.as_str()], |row| row.get(0))?;
        match last_seq {
            Some(Count(_)) if !is_leased_to(db, &session, holder)? => {
                Err(Fault::Refused(TranscriptError::LeaseLost(session)))
            }
            Some(Count(last_seq)) => Ok(Self { db, session, last_seq }),
            None => Err(Fault::Refused(TranscriptError::UnknownSession(session))),
        }
    }

    fn close(self) -> Outcome<()> {
        let sql = "UPDATE sessions SET last_seq = ?2 WHERE id = ?1";
        self.db.execute(sql, params![self.session.as_str(), Count(self.last_seq)])?;
        Ok(())
    }

    fn change(&mut self, change: Change) -> Outcome<()> {
        match change {
            Change::Append(new) => self.append(new).map(drop),
            Change::Replace { id, message } => {
                let run = self.run_of(&id)?;
                let message = stamped(message, &id, run.as_ref());
                let json = encoded(&id, &message).map_err(Fault::Refused)?;
                self.wipe(&id)?;
                let sql = "UPDATE entries SET text = ?3, tokens = NULL WHERE session = ?1 AND id = ?2";
                let text = texts::put(self.db, &json)?;
                self.db.execute(sql, params![self.session.as_str(), id.as_str(), text])?;
                Ok(())
            }
            Change::Remove { id } => {
                self.wipe(&id)?;
                let sql = "DELETE FROM entries WHERE session = ?1 AND id = ?2";
                match self.db.execute(sql, params![self.session.as_str(), id.as_str()])? {
                    0 => Err(self.unknown(&id)),
                    _ => Ok(()),
                }
            }
            Change::Compact { through, summary } => self.compact(through, summary),
        }
    }

    fn append(&mut self, new: NewEntry) -> Outcome<u64> {
        self.last_seq = self.last_seq.saturating_add(1);
        self.insert(self.last_seq, new)?;
        Ok(self.last_seq)
    }

    fn compact(&self, through: u64, summary: NewEntry) -> Outcome<()> {
        let old = "SELECT text FROM entries WHERE session = ?1 AND seq <= ?2";
        texts::wipe(self.db, old, params![self.session.as_str(), Count(through)])?;
        let sql = "DELETE FROM entries WHERE session = ?1 AND seq <= ?2";
        let removed = self.db.execute(sql, params![self.session.as_str(), Count(through)])?;
        if removed == 0 || through > self.last_seq {
            let session = self.session.clone();
            return Err(Fault::Refused(TranscriptError::NothingToCompact { session, through }));
        }
        self.insert(through, summary)
    }

    fn insert(&self, seq: u64, new: NewEntry) -> Outcome<()> {
        let taken = "SELECT 1 FROM entries WHERE session = ?1 AND id = ?2";
        if self.db.exists(taken, params![self.session.as_str(), new.id.as_str()])? {
            let session = self.session.clone();
            return Err(Fault::Refused(TranscriptError::DuplicateMessage { session, message: new.id }));
        }
        let entry = Entry::new(seq, new);
        let json = encoded(&entry.id, &entry.message).map_err(Fault::Refused)?;
        let sql = "INSERT INTO entries (session, seq, id, run, at, tokens, text) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        self.db.execute(
            sql,
            params![
                self.session.as_str(),
                Count(seq),
                entry.id.as_str(),
                entry.run.as_ref().map(RunId::as_str),
                entry.at,
                entry.tokens.map(Count),
                texts::put(self.db, &json)?,
            ],
        )?;
        Ok(())
    }

    /// Wipes an entry's text.
    fn wipe(&self, id: &MessageId) -> SqlResult<()> {
        let old = "SELECT text FROM entries WHERE session = ?1 AND id = ?2";
        texts::wipe(self.db, old, params![self.session.as_str(), id.as_str()])
    }

    /// Returns the run of an entry that must exist.
    fn run_of(&self, id: &MessageId) -> Outcome<Option<RunId>> {
        let sql = "SELECT run FROM entries WHERE session = ?1 AND id = ?2";
        let found = self
            .db
            .optional(sql, params![self.session.as_str(), id.as_str()], |row| optional_id(row, "run"))?;
        found.ok_or_else(|| self.unknown(id))
    }

    fn unknown(&self, id: &MessageId) -> Fault<TranscriptError> {
        Fault::Refused(TranscriptError::UnknownMessage { session: self.session.clone(), message: id.clone() })
    }
}

fn listed(row: &Row<'_>) -> SqlResult<Listed> {
    let message = row.get::<Option<AsJson<Message>>>("body")?.map(|message| message.0);
    let Count(bytes) = row.get("bytes")?;
    Ok(Listed {
        seq: row.get::<Count>("seq")?.0,
        run: optional_id(row, "run")?,
        at: row.get("at")?,
        message: message.ok_or(bytes),
    })
}

fn entry(row: &Row<'_>) -> SqlResult<Entry> {
    Ok(Entry {
        seq: row.get::<Count>("seq")?.0,
        id: id_column(row, "id")?,
        run: optional_id(row, "run")?,
        message: json(row, "body")?,
        at: row.get("at")?,
        tokens: row.get::<Option<Count>>("tokens")?.map(|tokens| tokens.0),
    })
}
