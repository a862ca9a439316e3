//! What a desk does with its questions.

use std::num::NonZeroU64;

use backstop::engine::ApprovalSettings;
use backstop::hooks::{ApprovalId, Decision};
use backstop::store::{
    AnswerStore, ApprovalFilter, ApprovalReason, ApprovalRecord, Asked, FindApprovalError, GrantTarget,
    NewGrant, PersonsAnswer, Timestamp,
};

use super::{Always, MOST_LISTED, Reply, Request, Scope};
use crate::error::Error;
use crate::output::plain;

/// Does what is asked.
pub(super) async fn answer(store: &dyn AnswerStore, request: Request) -> Result<Reply, Error> {
    let now = Timestamp::now();
    Ok(match request {
        Request::List { limit } => {
            store.expire_approvals(now).await?;
            Reply::Questions(store.approvals(ApprovalFilter::All, limit.min(MOST_LISTED)).await?)
        }
        Request::Find { name } => match store.find_approval(&name).await {
            Ok(record) => Reply::Question(record.into()),
            Err(FindApprovalError::Unknown(_)) => Reply::Unknown,
            Err(error) => return Err(error.into()),
        },
        Request::Seen { id } => match store.mark_seen(&id).await? {
            Some(record) => Reply::Question(record.into()),
            None => Reply::Unknown,
        },
        Request::Answer { id, decision, word, by } => {
            let answer = PersonsAnswer::new(decision, by, now).with_word(&word.unwrap_or_default());
            Reply::Question(store.answer_approval(&id, answer).await?.record.into())
        }
        Request::Always { id, always, by } => approve_always(store, &id, &always, &by).await?,
        Request::Later { id, ttl, by } => {
            Reply::Question(store.allow_later(&id, &by, ttl, now).await?.into())
        }
        Request::Grants => {
            Reply::Grants(store.grants(MOST_LISTED).await?, store.void_grants(MOST_LISTED).await?)
        }
        Request::Revoke { id, by } => Reply::Revoked(store.revoke_grant(&id, &by, now).await?.map(Box::new)),
    })
}

async fn approve_always(
    store: &dyn AnswerStore,
    id: &ApprovalId,
    always: &Always,
    by: &str,
) -> Result<Reply, Error> {
    let Some(record) = store.approval(id).await? else { return Ok(Reply::Unknown) };
    // The grants come first: the call that waits goes on the moment its question is answered, and an equal one may follow at once.
    if !record.request.allowed_decisions.contains(&Decision::AllowAlways) {
        return Err(Error::Failed(format!("approval `{}` can't be answered with allow-always", record.code)));
    }
    let mut grants = Vec::new();
    for reason in &record.request.reasons {
        let grant = grant(&record, reason, always, by)?;
        grants.push(store.add_grant(grant).await?);
    }
    let answer = PersonsAnswer::new(Decision::AllowAlways, by, Timestamp::now()).with_grants();
    match store.answer_approval(&record.id, answer).await {
        Ok(resolved) => Ok(Reply::Granted(resolved.record.into(), grants)),
        Err(error) => {
            // All of them, also where one can't be revoked.
            let mut failed = None;
            for grant in &grants {
                failed = store.revoke_grant(&grant.id, by, Timestamp::now()).await.err().or(failed);
            }
            Err(failed.map_or(error.into(), Error::from))
        }
    }
}

/// What answers one of those who asked from now on.
fn grant(
    record: &ApprovalRecord,
    reason: &ApprovalReason,
    always: &Always,
    by: &str,
) -> Result<NewGrant, Error> {
    let request = &record.request;
    let failed = |why: &str| {
        Error::Failed(format!(
            "what {} asks can't be allowed so: {why}\nhint: `--scope call` allows this very call",
            plain(reason.hook.as_str())
        ))
    };
    let target = match &always.scope {
        Scope::Call => GrantTarget::Call { digest: request.digest },
        Scope::Program => match &reason.program {
            Some(words) => GrantTarget::Program { words: words.clone() },
            None => return Err(failed("it is not about one program that is known by name")),
        },
        Scope::Rule if reason.rules.is_empty() => return Err(failed("it names no rule")),
        Scope::Rule if request.place.workspace.is_none() => return Err(failed("the call has no workspace")),
        Scope::Rule => GrantTarget::Rule,
        Scope::UpTo { argument, most } => {
            let named = request.amounts.iter().find(|one| one.argument == *argument);
            let without =
                named.ok_or_else(|| failed(&format!("`{}` is no amount in it", plain(argument))))?.without;
            GrantTarget::Amount { argument: argument.clone(), most: *most, without }
        }
    };
    let question = Asked {
        owner: reason.owner.clone(),
        hook: reason.hook.clone(),
        severity: reason.severity,
        rules: reason.rules.clone(),
        title: reason.title.clone(),
    };
    let now = Timestamp::now();
    Ok(NewGrant {
        agent: request.agent.clone(),
        tool_name: request.tool_name.clone(),
        place: request.place.clone(),
        question,
        target,
        title: reason.title.clone(),
        created_by: by.to_owned(),
        created_at: now,
        expires_at: now.after(always.ttl.unwrap_or(ApprovalSettings::default().grant_ttl)),
        most_uses: always.times.map(NonZeroU64::get),
    })
}
