//! Telling questions, and withdrawing what was told.
//!
//! A round withdraws what is over and tells what was not told. What it comes to nothing with is tried again after a while that doubles, and at
//! once by another process if this one ends: the claim of a notice ends by itself. Messages are sent one after the other and at a pace that chat
//! services take, so that an agent that asks a lot can't bury anybody; the questions that end first come first.

use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::ApprovalId;
use backstop_store::{ActionHandle, Addressee, ApprovalState, SentNotice, StoreError, Timestamp};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::{Desk, LOOK};
use crate::handle::Handle;
use crate::surface::{Message, Offer, Outcome, Surface, SurfaceError};

/// How long a notice is claimed: longer than sending it takes.
const CLAIM: Duration = Duration::from_secs(60);
/// The longest that a message may take.
const PATIENCE: Duration = Duration::from_secs(45);
/// How many messages may follow each other at once, and how often there is one more.
const BURST: u32 = 5;
const PACE: Duration = Duration::from_secs(3);
/// How many are looked at in one round.
const ROUND: usize = 8;
/// How long after a failure it is tried again, at first and at most.
const FIRST: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_secs(120);
/// How long a message is left alone that a service will never take.
const NEVER: Duration = Duration::from_secs(600);
/// How often a surface looks although nothing changed: claims of others may have ended.
const QUIET: Duration = Duration::from_secs(5);

/// Notices new questions, and those that are answered or over, of all processes that share them.
pub(super) async fn look_out(desk: Arc<Desk>, mark: watch::Sender<u64>) {
    let mut seen = None;
    loop {
        if let Ok(overview) = desk.store().overview().await
            && seen.replace(overview.mark) != Some(overview.mark)
        {
            mark.send_modify(|rounds| *rounds = rounds.wrapping_add(1));
        }
        sleep(LOOK).await;
    }
}

/// Tells one surface, as long as the desk runs.
pub(super) async fn tell(desk: Arc<Desk>, surface: Arc<dyn Surface>, mut marks: watch::Receiver<u64>) {
    let (mut pace, mut trouble) = (Pace::new(), Trouble::default());
    loop {
        marks.mark_unchanged();
        match round(&desk, surface.as_ref(), &mut pace).await {
            Ok(true) => trouble = Trouble::default(),
            Ok(false) => {
                let _ = timeout(QUIET, marks.changed()).await;
            }
            Err(failed) => {
                let wait = trouble.next(failed.after());
                tracing::warn!(surface = %surface.name(), error = %failed, wait_s = wait.as_secs(), "people could not be told");
                sleep(wait).await;
            }
        }
    }
}

/// Why a round ended.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Surface(#[from] SurfaceError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the system has no randomness to give")]
    Random,
}

impl Failed {
    fn after(&self) -> Option<Duration> {
        match self {
            Self::Surface(SurfaceError::Later { after, .. }) => *after,
            Self::Surface(SurfaceError::Never { .. }) | Self::Store(_) | Self::Random => None,
        }
    }
}

/// Does what there is to do, up to a bound. Returns whether there was anything.
async fn round(desk: &Desk, surface: &dyn Surface, pace: &mut Pace) -> Result<bool, Failed> {
    let mut did = false;
    let now = Timestamp::now();
    desk.store().expire_approvals(now).await?;
    for notice in desk.store().stale_notices(surface.name().as_str(), now, ROUND).await? {
        withdraw(desk, surface, &notice, pace).await?;
        did = true;
    }
    for place in surface.places() {
        let to = Addressee { surface: surface.name().as_str().to_owned(), place: place.clone() };
        for approval in desk.store().untold_approvals(&to, Timestamp::now(), ROUND).await?.approvals {
            did |= tell_one(desk, surface, &to, &approval, pace).await?;
        }
    }
    Ok(did)
}

async fn tell_one(
    desk: &Desk,
    surface: &dyn Surface,
    to: &Addressee,
    approval: &ApprovalId,
    pace: &mut Pace,
) -> Result<bool, Failed> {
    pace.next().await;
    let (store, holder, now) = (desk.store(), desk.holder.as_str(), Timestamp::now());
    if !store.claim_notice(approval, to, holder, now.after(CLAIM), now).await? {
        return Ok(false);
    }
    let Some(record) = store.approval(approval).await? else { return Ok(false) };
    if record.state != ApprovalState::Pending {
        return Ok(false);
    }
    let (shown, decisions) = desk.offered(surface, &record);
    let mut offers = Vec::new();
    for decision in decisions {
        offers.push(Offer { decision, handle: Handle::make().ok_or(Failed::Random)? });
    }
    let handles = offers.iter().map(|offer| ActionHandle {
        hash: offer.handle.hash(),
        approval: approval.clone(),
        digest: record.request.digest,
        decision: offer.decision,
        addressee: to.clone(),
        expires_at: record.request.expires_at,
    });
    // Before the message: an answer may come faster than its sending ends.
    store.add_handles(handles.collect(), now).await?;
    let link = desk.link(approval);
    let message = Message {
        record: &record,
        shown: &shown,
        place: &to.place,
        offers: &offers,
        link: link.as_ref(),
        now,
    };
    match patiently(surface.send(&message)).await {
        Ok(reference) => {
            store.sent_notice(approval, to, &reference).await?;
            Ok(true)
        }
        Err(SurfaceError::Never { why }) => {
            // Others may be taken: only this one is left alone.
            tracing::warn!(surface = %surface.name(), error = %why, "a question could not be told there");
            store.claim_notice(approval, to, holder, Timestamp::now().after(NEVER), Timestamp::now()).await?;
            Ok(true)
        }
        Err(error) => {
            // Free for whoever tries next.
            let now = Timestamp::now();
            store.claim_notice(approval, to, holder, now, now).await?;
            Err(error.into())
        }
    }
}

async fn withdraw(
    desk: &Desk,
    surface: &dyn Surface,
    notice: &SentNotice,
    pace: &mut Pace,
) -> Result<(), Failed> {
    pace.next().await;
    let (store, now) = (desk.store(), Timestamp::now());
    if !store.claim_withdrawal(notice, desk.holder.as_str(), now.after(CLAIM), now).await? {
        return Ok(());
    }
    let outcome = store.approval(&notice.approval).await?.as_ref().and_then(Outcome::of);
    let Some(outcome) = outcome else { return Ok(()) };
    // A place that is told no longer is not spoken to.
    if surface.places().contains(&notice.addressee.place) {
        let done = patiently(surface.withdraw(&notice.addressee.place, &notice.reference, &outcome)).await;
        match done {
            Ok(()) => {}
            Err(SurfaceError::Never { why }) => {
                tracing::warn!(surface = %surface.name(), error = %why, "a message could not be withdrawn");
            }
            Err(error) => {
                let now = Timestamp::now();
                store.claim_withdrawal(notice, desk.holder.as_str(), now, now).await?;
                return Err(error.into());
            }
        }
    }
    Ok(store.withdrawn_notice(notice).await?)
}

async fn patiently<T>(work: impl Future<Output = Result<T, SurfaceError>>) -> Result<T, SurfaceError> {
    timeout(PATIENCE, work).await.unwrap_or_else(|_| Err(SurfaceError::later("the service took too long")))
}

/// How fast messages follow each other.
struct Pace {
    left: u32,
    since: Instant,
}

impl Pace {
    fn new() -> Self {
        Self { left: BURST, since: Instant::now() }
    }

    /// Waits until there may be one more.
    async fn next(&mut self) {
        loop {
            let more = self.since.elapsed().as_secs() / PACE.as_secs();
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            self.since += PACE.saturating_mul(more.min(BURST));
            if more >= BURST {
                self.since = Instant::now();
            }
            self.left = self.left.saturating_add(more).min(BURST);
            if let Some(left) = self.left.checked_sub(1) {
                self.left = left;
                return;
            }
            sleep(PACE.saturating_sub(self.since.elapsed())).await;
        }
    }
}

/// How long it is waited after failures that follow each other.
#[derive(Default)]
pub(super) struct Trouble(u32);

impl Trouble {
    /// Returns how long it is waited now; as long as the service says, if it does.
    pub(super) fn next(&mut self, said: Option<Duration>) -> Duration {
        let doubled = FIRST.saturating_mul(1_u32.checked_shl(self.0).unwrap_or(u32::MAX)).min(LAST);
        self.0 = self.0.saturating_add(1).min(16);
        said.unwrap_or(doubled)
    }
}
