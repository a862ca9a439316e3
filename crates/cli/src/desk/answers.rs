//! What a desk does with its questions.

use std::sync::Arc;

use backstop::hooks::ApprovalId;
use backstop::store::{
    Always, AlwaysError, AnswerStore, Answerer, ApprovalFilter, FindApprovalError, Given, Identity, People,
    PersonsAnswer, ResolveError, Timestamp, allow_always,
};

use super::{MOST_LISTED, Reply, Request};
use crate::error::Error;
use crate::output::plain;

/// Does what is asked by whoever has this account.
pub(super) async fn answer(
    store: &dyn AnswerStore,
    people: &Arc<People>,
    account: &Identity,
    request: Request,
) -> Result<Reply, Error> {
    let now = Timestamp::now();
    // INVARIANT (nobody says who they are): whose process it is makes out the person; the rest is what it says of itself.
    let answerer = |by: String| people.answerer(account, by);
    Ok(match request {
        Request::List { limit } => {
            store.expire_approvals(now).await?;
            Reply::Questions(store.approvals(ApprovalFilter::All, limit.min(MOST_LISTED)).await?)
        }
        Request::Open { limit } => {
            store.expire_approvals(now).await?;
            let open = store.open_approvals(now, 0, limit.min(MOST_LISTED)).await?;
            Reply::Open(open.records, open.all)
        }
        Request::Refused => Reply::Refusals(store.refused_questions(now).await?),
        Request::Find { name } => match store.find_approval(&name).await {
            Ok(record) => Reply::Question(record.into()),
            Err(FindApprovalError::Unknown(_)) => Reply::Unknown,
            Err(error) => return Err(error.into()),
        },
        Request::Seen { id } => seen(store, &id, &answerer(String::new())).await?,
        Request::Answer { id, decision, word, by } => {
            let answer = PersonsAnswer::new(decision, answerer(by), now).with_word(&word.unwrap_or_default());
            Reply::Question(store.answer_approval(&id, answer).await?.record.into())
        }
        Request::Substitute { id, given, by } => {
            let answer = match given {
                Given::Edit { arguments } => PersonsAnswer::edit(arguments, answerer(by), now),
                Given::Respond { result } => PersonsAnswer::respond(result, answerer(by), now),
            };
            let answer = answer.map_err(|error| Error::Failed(error.to_string()))?;
            Reply::Question(store.answer_approval(&id, answer).await?.record.into())
        }
        Request::Always { id, always, by } => approve_always(store, &id, &always, &answerer(by)).await?,
        Request::Later { id, ttl, by } => {
            Reply::Question(store.allow_later(&id, &answerer(by), ttl, now).await?.into())
        }
        Request::Grants => {
            Reply::Grants(store.grants(MOST_LISTED).await?, store.void_grants(MOST_LISTED).await?)
        }
        Request::Revoke { id, by } => {
            Reply::Revoked(store.revoke_grant(&id, answerer(by).by(), now).await?.map(Box::new))
        }
    })
}

/// INVARIANT (what the human saw): what is shown to somebody who may not answer counts as seen by nobody.
async fn seen(store: &dyn AnswerStore, id: &ApprovalId, by: &Answerer) -> Result<Reply, Error> {
    let Some(record) = store.approval(id).await? else { return Ok(Reply::Unknown) };
    if record.admits_person(by, Timestamp::now()).is_err() {
        return Ok(Reply::Question(record.into()));
    }
    let seen = store.mark_seen(id).await?;
    Ok(seen.map_or(Reply::Unknown, |record| Reply::Question(record.into())))
}

async fn approve_always(
    store: &dyn AnswerStore,
    id: &ApprovalId,
    always: &Always,
    by: &Answerer,
) -> Result<Reply, Error> {
    match allow_always(store, id, always, by).await {
        Ok((record, grants)) => Ok(Reply::Granted(record.into(), grants)),
        Err(AlwaysError::Resolve(ResolveError::Unknown(_))) => Ok(Reply::Unknown),
        Err(AlwaysError::Resolve(error)) => Err(error.into()),
        Err(error @ AlwaysError::Beyond { .. }) => {
            let said = plain(&error.to_string());
            Err(Error::Failed(format!("{said}\nhint: `--scope call` allows this very call")))
        }
    }
}
