//! A person's answer, and all that comes of it.
//!
//! The laws: *all or nothing*: an answer that holds from now on is written with its grants in one transaction, so that no grant is there without the
//! answer that counts; *of what was denied no words are kept*: they are taken out in the transaction that denies it.

use backstop_hooks::{ApprovalId, Decision};

use super::approvals::{apply, find, rewrite};
use super::{Area, Db, Driver, SqlResult, SqlStore, grants, votes};
use crate::approvals::machine;
use crate::{ApprovalRecord, ApprovalState, Grant, NewGrant, PersonsAnswer, ResolveError, Resolved};

/// What an answer led to.
struct Outcome {
    /// The question as it is then. Of one that was denied just now it has the words, which whoever denied it has before them.
    record: ApprovalRecord,
    answer: Result<bool, ResolveError>,
    grants: Vec<Grant>,
}

#[expect(private_bounds, reason = "there are no drivers but our own")]
impl<D: Driver> SqlStore<D> {
    /// Records an answer, and what it grants if it is the one that allows the call.
    pub(super) async fn answer(
        &self,
        id: &ApprovalId,
        answer: PersonsAnswer,
        granted: Vec<NewGrant>,
    ) -> Result<(Resolved, Vec<Grant>), ResolveError> {
        let (of, denies) = (id.clone(), answer.decision == Decision::Deny);
        let work = move |db: &Db<'_>| Ok(give(db, &of, answer, granted)?);
        // Only a denial takes words out, and to wipe them costs more than to write.
        let given = match denies {
            true => {
                self.database.erase::<_, ResolveError>(Area::Questions, work).await.map(|(given, _)| given)
            }
            false => self.database.write(Area::Questions, work).await,
        };
        self.seats.wake(id);
        let Outcome { record, answer, grants } = given?.ok_or_else(|| ResolveError::Unknown(id.clone()))?;
        Ok((Resolved { record, first: answer? }, grants))
    }
}

fn give(
    db: &Db<'_>,
    id: &ApprovalId,
    answer: PersonsAnswer,
    granted: Vec<NewGrant>,
) -> SqlResult<Option<Outcome>> {
    let Some(mut record) = find(db, id)? else { return Ok(None) };
    let answer = PersonsAnswer { by: votes::vouched(db, answer.by)?, ..answer };
    let step = machine::resolve(&record, &answer);
    let is_denied = matches!(step.next, Some(ApprovalState::Denied { .. }));
    let grants = match step.next {
        Some(ApprovalState::Allowed(_)) => {
            granted.into_iter().map(|grant| grants::add(db, grant)).collect::<SqlResult<_>>()?
        }
        _ => Vec::new(),
    };
    let answer = apply(db, &mut record, step)?;
    if is_denied {
        let mut kept = record.clone();
        kept.request.forget_texts();
        rewrite(db, &kept)?;
    }
    Ok(Some(Outcome { record, answer, grants }))
}
