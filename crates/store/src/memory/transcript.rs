use async_trait::async_trait;
use backstop_hooks::{MessageId, SessionId};

use super::{MemoryStore, Transcript};
use crate::transcript::{encoded, stamped};
use crate::{
    Change, Entry, Erasure, LeaseHolder, Listed, NewEntry, StoreError, TranscriptError, TranscriptStore,
};

#[async_trait]
impl TranscriptStore for MemoryStore {
    async fn append(
        &self,
        session: &SessionId,
        holder: &LeaseHolder,
        entries: Vec<NewEntry>,
    ) -> Result<Vec<u64>, TranscriptError> {
        self.edit(session, holder, |transcript| {
            entries.into_iter().map(|entry| transcript.append(session, entry)).collect()
        })
    }

    async fn transcript(&self, session: &SessionId) -> Result<Vec<Entry>, StoreError> {
        let state = self.state();
        Ok(state.transcripts.get(session).map(|transcript| transcript.entries.clone()).unwrap_or_default())
    }

    async fn transcript_page(
        &self,
        session: &SessionId,
        before: u64,
        limit: usize,
        most: usize,
    ) -> Result<Vec<Listed>, StoreError> {
        let state = self.state();
        let entries = state.transcripts.get(session).into_iter().flat_map(|transcript| &transcript.entries);
        let mut found: Vec<_> = entries.filter(|entry| entry.seq < before).collect();
        let surplus = found.len().saturating_sub(limit);
        found.drain(..surplus);
        let listed = |entry: &Entry| {
            let bytes = serde_json::to_string(&entry.message).unwrap_or_default().len();
            let message = if bytes <= most { Ok(entry.message.clone()) } else { Err(bytes as u64) };
            Listed { seq: entry.seq, run: entry.run.clone(), at: entry.at, message }
        };
        Ok(found.into_iter().map(listed).collect())
    }

    async fn apply(
        &self,
        session: &SessionId,
        holder: &LeaseHolder,
        changes: Vec<Change>,
    ) -> Result<Erasure, TranscriptError> {
        self.edit(session, holder, |transcript| {
            changes.into_iter().try_for_each(|change| transcript.change(session, change))
        })?;
        Ok(Erasure::Complete)
    }
}

impl MemoryStore {
    /// Edits a copy, and keeps it if all went well.
    fn edit<T>(
        &self,
        session: &SessionId,
        holder: &LeaseHolder,
        edit: impl FnOnce(&mut Transcript) -> Result<T, TranscriptError>,
    ) -> Result<T, TranscriptError> {
        let mut state = self.state();
        if !state.has_session(session) {
            return Err(TranscriptError::UnknownSession(session.clone()));
        }
        if state.leases.get(session).is_none_or(|lease| lease.holder != *holder) {
            return Err(TranscriptError::LeaseLost(session.clone()));
        }
        let mut transcript = state.transcripts.get(session).cloned().unwrap_or_default();
        let answer = edit(&mut transcript)?;
        state.transcripts.insert(session.clone(), transcript);
        Ok(answer)
    }
}

impl Transcript {
    fn append(&mut self, session: &SessionId, new: NewEntry) -> Result<u64, TranscriptError> {
        self.check(session, &new)?;
        self.last_seq = self.last_seq.saturating_add(1);
        self.entries.push(Entry::new(self.last_seq, new));
        Ok(self.last_seq)
    }

    fn change(&mut self, session: &SessionId, change: Change) -> Result<(), TranscriptError> {
        match change {
            Change::Append(new) => self.append(session, new).map(drop),
            Change::Replace { id, message } => {
                encoded(&id, &message)?;
                let entry = self.entries.iter_mut().find(|entry| entry.id == id);
                let entry = entry.ok_or_else(|| unknown(session, &id))?;
                entry.message = stamped(message, &id, entry.run.as_ref());
                entry.tokens = None;
                Ok(())
            }
            Change::Remove { id } => {
                let at = self.entries.iter().position(|entry| entry.id == id);
                self.entries.remove(at.ok_or_else(|| unknown(session, &id))?);
                Ok(())
            }
            Change::Compact { through, summary } => self.compact(session, through, summary),
        }
    }

    fn compact(
        &mut self,
        session: &SessionId,
        through: u64,
        summary: NewEntry,
    ) -> Result<(), TranscriptError> {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.seq > through);
        if self.entries.len() == before || through > self.last_seq {
            return Err(TranscriptError::NothingToCompact { session: session.clone(), through });
        }
        self.check(session, &summary)?;
        self.entries.insert(0, Entry::new(through, summary));
        Ok(())
    }

    fn check(&self, session: &SessionId, new: &NewEntry) -> Result<(), TranscriptError> {
        encoded(&new.id, &new.message)?;
        if self.entries.iter().any(|entry| entry.id == new.id) {
            return Err(TranscriptError::DuplicateMessage {
                session: session.clone(),
                message: new.id.clone(),
            });
        }
        Ok(())
    }
}

fn unknown(session: &SessionId, message: &MessageId) -> TranscriptError {
    TranscriptError::UnknownMessage { session: session.clone(), message: message.clone() }
}
