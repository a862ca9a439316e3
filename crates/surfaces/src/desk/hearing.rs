//! Deciding about what people do on surfaces.
//!
//! In this order: who is it, is that a known person; what does the handle stand for, and was it told here; does the surface take such an answer; is
//! the question still the one that was shown; may the person answer it. Only then is the handle used up, by each person once, so that nobody takes
//! it from others. The answer itself is given by the store, by the rules of `backstop approvals`, and a delivery is remembered once it is decided.

use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{ApprovalId, Decision};
use backstop_store::{
    Addressee, Allowance, Answerer, ApprovalRecord, ApprovalState, ApprovalStatus, FindApprovalError,
    Identity, PersonsAnswer, Reach, ResolveError, StoreError, Timestamp,
};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;

use super::{Desk, SHORT};
use crate::backoff::Backoff;
use crate::handle::Handle;
use crate::shown::line;
use crate::surface::{AnsweredOn, Asks, Heard, Posted, Refused, Surface};

/// How long this process alone hears a surface: longer than one request for updates takes.
const LEASE: Duration = Duration::from_secs(80);
/// How long it is waited while another process hears it.
const TAKEN: Duration = Duration::from_secs(15);
/// How many characters of an id are typed at least.
const FEWEST_OF_ID: usize = 12;

/// What came of what somebody did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The answer counts.
    Counts {
        /// The question.
        approval: ApprovalId,
        /// The answer.
        decision: Decision,
    },
    /// The answer was given before, for the next such call: nobody waited for it any more.
    Later {
        /// The question.
        approval: ApprovalId,
    },
    /// The answer counts, and the question waits for more people.
    Waits {
        /// The question.
        approval: ApprovalId,
    },
    /// Nobody is known as this person.
    Stranger,
    /// There is no such question, or not here.
    Nothing,
    /// The handle was used, or its question is over.
    Spent {
        /// What has become of the question.
        status: ApprovalStatus,
        /// By whom.
        by: Option<String>,
    },
    /// Such an answer is not taken here.
    NotHere,
    /// No answer is taken but on the machine itself (`agent.approvals.strict`).
    OnMachine,
    /// The answer does not count, for this reason.
    Refused(String),
    /// What was written is not understood.
    Unclear(&'static str),
    /// The delivery came before.
    Again,
    /// The state can't be read or written.
    Store,
}

impl Answered {
    /// Returns whether the answer counts.
    pub const fn does_count(&self) -> bool {
        matches!(self, Self::Counts { .. } | Self::Later { .. } | Self::Waits { .. })
    }

    /// Returns what the person is told.
    pub fn told(&self) -> String {
        match self {
            Self::Counts { decision: Decision::Deny, .. } => "Denied.".to_owned(),
            Self::Counts { .. } => "Allowed once.".to_owned(),
            Self::Later { .. } => {
                "Nobody waits for the answer any more: it allows the next such call, once.".to_owned()
            }
            Self::Waits { .. } => {
                "Your answer counts. The call is not allowed yet: more people have to allow it.".to_owned()
            }
            Self::Stranger => "You are not known here, so this counts for nothing.".to_owned(),
            Self::Nothing => "There is no such question here, or no more.".to_owned(),
            Self::Spent { status: ApprovalStatus::Pending, .. } => {
                "This button was used. Answer on the console.".to_owned()
            }
            Self::Spent { status, by: Some(by) } => {
                format!("Your answer does not count: {} was first, and it is {status}.", line(by, 80))
            }
            Self::Spent { status, by: None } => {
                format!("Your answer does not count: the question is {status}.")
            }
            Self::NotHere => "This can't be answered here. Answer on the console.".to_owned(),
            Self::OnMachine => format!("This can't be answered here. {}", AnsweredOn::Machine.words()),
            Self::Refused(why) => format!("Your answer does not count: {why}."),
            Self::Unclear(why) => (*why).to_owned(),
            Self::Again => "This came before.".to_owned(),
            Self::Store => {
                "The answer could not be recorded, so it does not count. Answer on the console.".to_owned()
            }
        }
    }
}

/// What a service is answered that posted something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// It is decided about afterwards.
    Later,
    /// This came of it.
    Now(Vec<Answered>),
    /// Too much is under way.
    Busy,
}

/// Hears a surface as long as the desk runs, unless another process does.
pub(super) async fn fetch(desk: Arc<Desk>, surface: Arc<dyn Surface>) {
    let mut backoff = Backoff::default();
    loop {
        let now = Timestamp::now();
        let name = surface.name().as_str();
        let leased = desk.store().lease_surface(name, desk.holder.as_str(), now.after(LEASE), now).await;
        if !leased.is_ok_and(|leased| leased) {
            sleep(TAKEN).await;
            continue;
        }
        match surface.fetch().await {
            Ok(all) => {
                backoff = Backoff::default();
                for heard in &all {
                    let answered = hear(&desk, surface.as_ref(), heard).await;
                    tell_back(surface.as_ref(), heard, &answered).await;
                }
            }
            Err(error) => {
                let after = match &error {
                    crate::SurfaceError::Later { after, .. } => *after,
                    crate::SurfaceError::Never { .. } | crate::SurfaceError::Content { .. } => None,
                };
                let wait = backoff.next(after);
                tracing::warn!(surface = %name, %error, wait_s = wait.as_secs(), "answers could not be fetched");
                sleep(wait).await;
            }
        }
    }
}

async fn tell_back(surface: &dyn Surface, heard: &Heard, answered: &Answered) {
    if let Err(error) = surface.reply(&heard.back, &answered.told()).await {
        tracing::debug!(surface = %surface.name(), %error, "a person could not be told what came of an answer");
    }
}

/// Decides about what a service posted.
pub(super) async fn posted(
    desk: &Arc<Desk>,
    surface: &Arc<dyn Surface>,
    posted: &Posted<'_>,
) -> Result<Given, Refused> {
    let all = surface.posted(posted)?;
    let Ok(place) = Arc::clone(&desk.posted).try_acquire_owned() else { return Ok(Given::Busy) };
    if !surface.is_answered_first() {
        let mut given = Vec::new();
        for heard in &all {
            given.push(hear(desk, surface.as_ref(), heard).await);
        }
        return Ok(Given::Now(given));
    }
    after(desk, surface, all, place);
    Ok(Given::Later)
}

/// Decides about what came over a connection, apart from whoever waits for more of it. Returns whether it will be: it is not where too much is
/// under way.
pub(super) fn later(desk: &Arc<Desk>, surface: &Arc<dyn Surface>, all: Vec<Heard>) -> bool {
    let Ok(place) = Arc::clone(&desk.posted).try_acquire_owned() else { return false };
    after(desk, surface, all, place);
    true
}

/// Decides, and tells each person what came of it.
fn after(desk: &Arc<Desk>, surface: &Arc<dyn Surface>, all: Vec<Heard>, place: OwnedSemaphorePermit) {
    let (desk, surface) = (Arc::clone(desk), Arc::clone(surface));
    tokio::spawn(async move {
        let _place = place;
        for heard in &all {
            let answered = hear(&desk, surface.as_ref(), heard).await;
            tell_back(surface.as_ref(), heard, &answered).await;
        }
    });
}

/// Decides about something that a person did.
async fn hear(desk: &Desk, surface: &dyn Surface, heard: &Heard) -> Answered {
    let answered = decide(desk, surface, heard).await.unwrap_or_else(|error| {
        tracing::warn!(surface = %surface.name(), %error, "an answer could not be recorded");
        Answered::Store
    });
    // What came before was counted then.
    if answered != Answered::Again {
        desk.holder.count(|counts| counts.answer(surface.name(), answered.does_count()));
    }
    if answered == Answered::Stranger {
        // So that an operator finds the identity to map. It is no secret of the service's.
        tracing::warn!(surface = %surface.name(), person = ?heard.person, "an answer of somebody who is not in `approvals.people` counts for nothing");
    }
    answered
}

async fn decide(desk: &Desk, surface: &dyn Surface, heard: &Heard) -> Result<Answered, StoreError> {
    let people = desk.engine.people();
    // INVARIANT (nobody says who they are): the service proves the identity, and the operator says whose it is.
    if people.known(&heard.person).is_none() {
        return Ok(Answered::Stranger);
    }
    let answerer = people.answerer(&heard.person, surface.signed(&heard.person));
    let answerer = match heard.person {
        // INVARIANT (one secret is one vote): nothing but the service says who that is.
        Identity::Vouched(_) => answerer.vouched_for_by(surface.name().as_str()),
        Identity::User(_)
        | Identity::Account { .. }
        | Identity::Telegram(_)
        | Identity::Slack { .. }
        | Identity::SignedIn { .. } => answerer,
    };
    // One after the other, so that of two that are the same the first is decided.
    let _turn = desk.turn.lock().await;
    let answered = act(desk, surface, heard, answerer).await?;
    // INVARIANT (nothing is lost): afterwards, so that what a failure kept from counting counts when it is delivered again.
    let Some((id, until)) = &heard.delivery else { return Ok(answered) };
    let name = surface.name().as_str();
    match desk.store().remember_delivery(name, id, *until, Timestamp::now()).await {
        Ok(true) => Ok(answered),
        Ok(false) => Ok(Answered::Again),
        Err(error) => {
            tracing::warn!(surface = %name, %error, "a delivery could not be remembered");
            Ok(answered)
        }
    }
}

async fn act(
    desk: &Desk,
    surface: &dyn Surface,
    heard: &Heard,
    answerer: Answerer,
) -> Result<Answered, StoreError> {
    if desk.is_strict() {
        return Ok(Answered::OnMachine);
    }
    match &heard.asks {
        Asks::Unclear(why) => Ok(Answered::Unclear(why)),
        Asks::Press(handle) => pressed(desk, surface, heard, handle, answerer).await,
        Asks::Command { approval, decision, word } => {
            typed(desk, surface, heard, approval, (*decision, word), answerer).await
        }
    }
}

async fn pressed(
    desk: &Desk,
    surface: &dyn Surface,
    heard: &Heard,
    handle: &Handle,
    answerer: Answerer,
) -> Result<Answered, StoreError> {
    let hash = handle.hash();
    let Some(known) = desk.store().handle(&hash).await? else { return Ok(Answered::Nothing) };
    let to = &known.addressee;
    // A handle counts where it was told.
    let is_here = to.surface == surface.name().as_str()
        && surface.places().contains(&to.place)
        && heard.place.as_ref().is_none_or(|place| *place == to.place);
    if !is_here {
        return Ok(Answered::Nothing);
    }
    let decision = known.decision;
    if !surface.ceiling().admits(decision) {
        return Ok(Answered::NotHere);
    }
    let Some(record) = desk.store().approval(&known.approval).await? else {
        return Ok(Answered::Nothing);
    };
    // INVARIANT (what the human saw): the answer is to the call that was told.
    if record.request.digest != known.digest {
        return Ok(Answered::Refused("the question is about another call now".to_owned()));
    }
    let now = Timestamp::now();
    if record.state != ApprovalState::Pending || record.request.is_over(now) {
        return Ok(spent(&record));
    }
    // INVARIANT (nobody takes it from those who may): before the handle is used up.
    if let Err(error) = record.admits_person(&answerer, now) {
        return refused(error);
    }
    let who = answerer.person().map_or_else(String::new, ToString::to_string);
    if !desk.store().use_handle(&hash, &who, now).await? {
        let Some(record) = desk.store().approval(&record.id).await? else { return Ok(Answered::Nothing) };
        let has_answered = record.votes.iter().any(|vote| Some(&vote.person) == answerer.person());
        if record.state != ApprovalState::Pending || has_answered {
            return Ok(spent(&record));
        }
        // It was used, and a failure kept the answer from counting.
    }
    give(desk, &record, (decision, ""), answerer).await
}

/// An answer that was typed counts for what was told in the same place, as a button there would.
async fn typed(
    desk: &Desk,
    surface: &dyn Surface,
    heard: &Heard,
    approval: &str,
    (decision, word): (Decision, &str),
    answerer: Answerer,
) -> Result<Answered, StoreError> {
    // INVARIANT (which question is meant is certain): a short beginning could be that of a question that somebody has not looked at.
    if approval.chars().count() < FEWEST_OF_ID {
        return Ok(Answered::Unclear("Give at least 12 characters of the id."));
    }
    let record = match desk.store().find_approval(approval).await {
        Ok(record) if record.id.as_str().starts_with(approval) => record,
        // By its code, which is answered with on the machine.
        Ok(_) => return Ok(Answered::Nothing),
        Err(FindApprovalError::Unknown(_)) => return Ok(Answered::Nothing),
        Err(FindApprovalError::Ambiguous(_)) => {
            return Ok(Answered::Unclear("Several questions begin with that. Give more of the id."));
        }
        Err(FindApprovalError::Store(error)) => return Err(error),
    };
    let Some(place) = heard.place.as_ref().filter(|place| surface.places().contains(place)) else {
        return Ok(Answered::Nothing);
    };
    let to = Addressee { surface: surface.name().as_str().to_owned(), place: place.clone() };
    let Some(notice) = desk.store().notice(&record.id, &to).await? else { return Ok(Answered::Nothing) };
    if record.state != ApprovalState::Pending {
        return Ok(spent(&record));
    }
    let (_, offered) = desk.offered(surface, &record, 0);
    if !offered.contains(&decision) {
        return Ok(Answered::NotHere);
    }
    // INVARIANT (what the human saw): the message showed nothing of the call.
    if decision != Decision::Deny && notice.reference.starts_with(SHORT) {
        return Ok(Answered::Refused(
            "the message shows nothing of the call; allow it on the console".to_owned(),
        ));
    }
    // INVARIANT (what the human saw): a part of it may have been shown elsewhere since, and what the message held only its buttons say.
    if decision != Decision::Deny && record.request.whole.is_some() {
        return Ok(Answered::Refused(
            "the message may have shown a part of the call alone; allow it by a button of the message, or on the console"
                .to_owned(),
        ));
    }
    give(desk, &record, (decision, word), answerer).await
}

fn spent(record: &ApprovalRecord) -> Answered {
    Answered::Spent { status: record.state.status(), by: record.state.by().map(str::to_owned) }
}

/// Gives an answer, by the rules that all answers have.
async fn give(
    desk: &Desk,
    record: &ApprovalRecord,
    (decision, word): (Decision, &str),
    answerer: Answerer,
) -> Result<Answered, StoreError> {
    let answer = PersonsAnswer::new(decision, answerer, Timestamp::now()).with_word(word);
    let answered = match desk.store().answer_approval(&record.id, answer).await {
        Ok(resolved) => resolved.record,
        Err(error) => return refused(error),
    };
    let approval = answered.id;
    Ok(match answered.state {
        ApprovalState::Pending => Answered::Waits { approval },
        ApprovalState::Allowed(Allowance { reach: Reach::LaterCall { .. }, .. }) => {
            Answered::Later { approval }
        }
        _ => Answered::Counts { approval, decision },
    })
}

/// Says why an answer does not count.
fn refused(error: ResolveError) -> Result<Answered, StoreError> {
    match error {
        ResolveError::Store(error) => Err(error),
        ResolveError::Unknown(_) => Ok(Answered::Nothing),
        ResolveError::AlreadyResolved { status, by, .. } => Ok(Answered::Spent { status, by }),
        ResolveError::Expired { at, .. } => Ok(Answered::Refused(format!("the question was over at {at}"))),
        // What stands in the place of a call is given elsewhere.
        ResolveError::NotOffered { .. } | ResolveError::NoSubstitute { .. } | ResolveError::Masked { .. } => {
            Ok(Answered::Refused("the hooks that asked did not offer this answer".to_owned()))
        }
        ResolveError::Unseen { .. } => {
            Ok(Answered::Refused("a part of the arguments was shown to nobody yet".to_owned()))
        }
        ResolveError::Abandoned { .. } => Ok(Answered::Refused(
            "nobody waits for it any more; allow the next such call with `backstop allow-once`, or on the console"
                .to_owned(),
        )),
        ResolveError::NotAsked(not_asked) => Ok(Answered::Refused(line(&not_asked.why(), 200))),
        ResolveError::OtherVote { .. } => {
            Ok(Answered::Refused("you have answered otherwise already".to_owned()))
        }
    }
}
