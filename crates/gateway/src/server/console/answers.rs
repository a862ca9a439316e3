//! Answers that people give on pages. The rules are those of `backstop approvals`: the first answer counts, deny can always be answered, and what was
//! shown to nobody is not allowed.

use std::time::Duration;

use backstop_console::Told;
use backstop_hooks::{ApprovalId, Decision, Params};
use backstop_store::{
    Always, AlwaysError, AlwaysScope, Answerer, ApprovalRecord, ApprovalState, LATER, LONGEST_GRANT,
    PersonsAnswer, ResolveError, SHORTEST_GRANT, Timestamp, allow_always,
};

use super::form::Form;
use super::{Answer, PageError, PageRequest, approvals, see_other};

/// The most questions that are answered at once.
const MOST_AT_ONCE: usize = 200;

impl PageRequest<'_> {
    fn answers(&self) -> Result<(), PageError> {
        if self.seat.may_answer() && !self.engine.keeps_answers_apart() {
            Ok(())
        } else {
            Err(PageError::Scope)
        }
    }

    /// Who answers.
    pub(super) fn answerer(&self) -> Answerer {
        self.seat.answerer(self.engine.people())
    }
}

/// Answers one question.
pub(super) async fn answer(request: &PageRequest<'_>, id: &str, form: &Form) -> Answer {
    request.answers()?;
    let record = request.record(id).await?;
    // INVARIANT (what the human saw): an answer says which call it is about.
    if form.one("digest")? != record.request.digest.to_string() {
        let told = Told::Refused(
            "The question is about another call than the one that you saw. Look at it again.".to_owned(),
        );
        return approvals::page(request, &record, Some(&told)).await;
    }
    match given(request, &record, form).await? {
        // A page that is loaded anew answers nothing anew.
        Ok(()) => Ok(see_other(&format!("/-/console/approvals/{}", record.id))),
        Err(why) => {
            let record = request.record(id).await?;
            approvals::page(request, &record, Some(&Told::Refused(why))).await
        }
    }
}

async fn given(
    request: &PageRequest<'_>,
    record: &ApprovalRecord,
    form: &Form,
) -> Result<Result<(), String>, PageError> {
    let (store, by, now) = (request.engine.answer_store(), request.answerer(), Timestamp::now());
    let done = match form.one("decision")? {
        "allow-once" => {
            let answer = PersonsAnswer::new(Decision::AllowOnce, by, now);
            store.answer_approval(&record.id, answer).await.map(drop).map_err(AlwaysError::from)
        }
        "deny" => {
            let answer = PersonsAnswer::new(Decision::Deny, by, now).with_word(form.one("word")?);
            store.answer_approval(&record.id, answer).await.map(drop).map_err(AlwaysError::from)
        }
        "edit" => {
            let arguments = match serde_json::from_str(form.one("arguments")?).map(Params::from_value) {
                Ok(Some(arguments)) => arguments,
                Ok(None) => {
                    return Ok(Err("Nothing was answered: arguments are one JSON object.".to_owned()));
                }
                Err(error) => return Ok(Err(format!("Nothing was answered: this is no JSON: {error}."))),
            };
            match PersonsAnswer::edit(arguments, by, now) {
                Ok(answer) => {
                    store.answer_approval(&record.id, answer).await.map(drop).map_err(AlwaysError::from)
                }
                Err(error) => return Ok(Err(format!("Nothing was answered: {error}."))),
            }
        }
        "respond" => {
            // Browsers end the lines of a form with two signs.
            let result = form.one("result")?.replace("\r\n", "\n");
            match PersonsAnswer::respond(result, by, now) {
                Ok(answer) => {
                    store.answer_approval(&record.id, answer).await.map(drop).map_err(AlwaysError::from)
                }
                Err(error) => return Ok(Err(format!("Nothing was answered: {error}."))),
            }
        }
        "allow-later" => {
            store.allow_later(&record.id, &by, LATER, now).await.map(drop).map_err(AlwaysError::from)
        }
        "allow-always" => match always(form)? {
            Ok(always) => allow_always(store.as_ref(), &record.id, &always, &by).await.map(drop),
            Err(why) => return Ok(Err(why)),
        },
        _ => return Err(PageError::Form),
    };
    match done {
        Ok(()) => Ok(Ok(())),
        Err(error) => refused(request, &record.id, &error).await.map(Err),
    }
}

/// Reads how far an answer goes that holds from now on.
fn always(form: &Form) -> Result<Result<Always, String>, PageError> {
    let scope = match form.one("scope")? {
        "call" => AlwaysScope::Call,
        "program" => AlwaysScope::Program,
        "rule" => AlwaysScope::Rule,
        "up-to" => match form.one("most")?.trim().parse() {
            Ok(most) => AlwaysScope::UpTo { argument: form.one("argument")?.to_owned(), most },
            Err(error) => return Ok(Err(format!("Nothing was allowed: {error}."))),
        },
        _ => return Err(PageError::Form),
    };
    let span = Duration::from_secs(form.one("span")?.parse().map_err(|_| PageError::Form)?);
    if !(SHORTEST_GRANT..=LONGEST_GRANT).contains(&span) {
        return Err(PageError::Form);
    }
    let times = match form.one("times")?.trim() {
        "" => None,
        times => match times.parse() {
            Ok(times) => Some(times),
            Err(_) => return Ok(Err("Nothing was allowed: how many calls is a number from 1.".to_owned())),
        },
    };
    Ok(Ok(Always { scope, ttl: Some(span), times }))
}

/// Why an answer does not count, for the person who gave it.
async fn refused(
    request: &PageRequest<'_>,
    id: &ApprovalId,
    error: &AlwaysError,
) -> Result<String, PageError> {
    let why = match error {
        AlwaysError::Beyond { .. } => error.to_string(),
        AlwaysError::Resolve(ResolveError::Store(_)) => return Err(PageError::Store),
        AlwaysError::Resolve(ResolveError::Unknown(_)) => return Err(PageError::Nothing),
        AlwaysError::Resolve(ResolveError::AlreadyResolved { status, .. }) => {
            let record = request.record(id.as_str()).await?;
            let first = match record.state.by() {
                Some(by) => format!("{by} was first"),
                None => format!("the question is {status} already"),
            };
            match record.state {
                ApprovalState::Denied { .. } => format!("{first} and denied it"),
                ApprovalState::Allowed(_) | ApprovalState::Used { .. } => format!("{first} and allowed it"),
                ApprovalState::Edited(_) => format!("{first} and changed the call"),
                ApprovalState::Responded(_) => format!("{first} and gave the result"),
                _ => first,
            }
        }
        AlwaysError::Resolve(ResolveError::NotAsked(refused)) => refused.why(),
        AlwaysError::Resolve(ResolveError::OtherVote { .. }) => {
            "you have answered otherwise already".to_owned()
        }
        AlwaysError::Resolve(ResolveError::Expired { at, .. }) => format!("the question was over at {at}"),
        AlwaysError::Resolve(ResolveError::NotOffered { .. }) => {
            "the hooks that asked did not offer this answer".to_owned()
        }
        AlwaysError::Resolve(ResolveError::NoSubstitute { .. }) => {
            "whoever asks can't take this in the place of the call".to_owned()
        }
        AlwaysError::Resolve(ResolveError::Masked { moved, .. }) => {
            backstop_console::one_line(&moved.to_string(), 400)
        }
        AlwaysError::Resolve(ResolveError::Abandoned { .. }) => {
            "nobody waits for it any more. Allow one later call here, if you want to".to_owned()
        }
        AlwaysError::Resolve(ResolveError::Unseen { .. }) => {
            "a part of the arguments was shown to nobody yet".to_owned()
        }
    };
    Ok(backstop_console::plain(&format!("Your answer does not count: {why}.")))
}

/// Shows all of the arguments; to whoever may answer, so that the call can be allowed.
pub(super) async fn whole(request: &PageRequest<'_>, id: &str) -> Answer {
    request.answers()?;
    let mut record = request.record(id).await?;
    // INVARIANT (what the human saw): what is shown to others counts as seen by nobody.
    if record.admits_person(&request.answerer(), Timestamp::now()).is_err() {
        record.request.unseen &= record.request.whole.is_none();
        let told = "You are shown what is kept of it. You are not asked, so it counts as seen by nobody who may allow the call.";
        return approvals::page(request, &record, Some(&Told::Done(told.to_owned()))).await;
    }
    request.engine.answer_store().mark_seen(&record.id).await.map_err(|_| PageError::Store)?;
    Ok(see_other(&format!("/-/console/approvals/{}", record.id)))
}

/// Denies what is ticked in the queue.
pub(super) async fn deny_ticked(request: &PageRequest<'_>, form: &Form) -> Answer {
    let word = form.one("word")?;
    let (done, missed) = each(request, form.all("deny"), Decision::Deny, word).await?;
    Ok(see_other(&format!("/-/console/approvals?denied={done}&missed={missed}")))
}

/// Answers what is ticked on the page of a question, where each call is shown.
pub(super) async fn several(request: &PageRequest<'_>, form: &Form) -> Answer {
    let (decision, name) = match form.one("decision")? {
        "allow-once" => (Decision::AllowOnce, "allowed"),
        "deny" => (Decision::Deny, "denied"),
        _ => return Err(PageError::Form),
    };
    let (done, missed) = each(request, form.all("which"), decision, "").await?;
    Ok(see_other(&format!("/-/console/approvals?{name}={done}&missed={missed}")))
}

/// Answers each of some questions, which stand there with the digests of their calls. Returns how many count, and how many do not.
async fn each<'a>(
    request: &PageRequest<'_>,
    ticked: impl Iterator<Item = &'a str>,
    decision: Decision,
    word: &str,
) -> Result<(usize, usize), PageError> {
    request.answers()?;
    let ticked: Vec<&str> = ticked.take(MOST_AT_ONCE + 1).collect();
    if ticked.len() > MOST_AT_ONCE {
        return Err(PageError::Form);
    }
    let (mut done, mut missed) = (0_usize, 0_usize);
    for one in ticked {
        let (id, digest) = one.split_once(' ').ok_or(PageError::Form)?;
        let record = match request.record(id).await {
            Ok(record) => record,
            Err(PageError::Nothing) => {
                missed = missed.saturating_add(1);
                continue;
            }
            Err(error) => return Err(error),
        };
        // Where more is kept of a call than the list shows, it is allowed on its own page.
        let is_shown = decision == Decision::Deny || record.request.whole.is_none();
        let is_it = is_shown && record.request.digest.to_string() == digest;
        let answer = PersonsAnswer::new(decision, request.answerer(), Timestamp::now()).with_word(word);
        let counts = is_it
            && match request.engine.answer_store().answer_approval(&record.id, answer).await {
                Ok(_) => true,
                Err(ResolveError::Store(_)) => return Err(PageError::Store),
                Err(_) => false,
            };
        let counted = if counts { &mut done } else { &mut missed };
        *counted = counted.saturating_add(1);
    }
    Ok((done, missed))
}
