//! Telling questions, and withdrawing what was told.
//!
//! A round tells what was not told and withdraws what is over. What comes to nothing is tried again after a while that doubles, for each message and
//! for each place, so that neither a message that fails each time nor a chat that is gone keeps anything else back. The claim of a notice ends by
//! itself, so that another process goes on if this one ends. Messages are sent one after the other and at a pace that chat services take, and agents
//! take [turns](super::turns), so that one that asks a lot buries neither people nor the questions of others; of one agent, the questions that end
//! first come first. How many wait for their turn is told with the last one before them. What is kept quiet is claimed for a while, so that it takes
//! no place of what is told; its last claim ends with the quiet. So is what other surfaces are told of, by the route of the question: until this one's
//! time comes, or the question ends.
//!
//! What a service does not take for its size or its content is told in short, once, and can't be allowed there.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{AgentId, ApprovalId};
use backstop_store::{
    ActionHandle, Addressee, ApprovalRecord, ApprovalState, LONGEST_HOLD, SentNotice, StoreError,
    StoreErrorKind, TellWhen, Timestamp, ToldOn,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::turns::{Next, Turns};
use super::{Desk, LOOK, SHORT};
use crate::backoff::Backoff;
use crate::counts::Became;
use crate::handle::Handle;
use crate::surface::{Message, Offer, Outcome, Surface, SurfaceError};

/// How long a notice is claimed: longer than sending it takes.
const CLAIM: Duration = Duration::from_secs(60);
/// The longest that a message may take.
const PATIENCE: Duration = Duration::from_secs(45);
/// How many questions are looked at in one round, and how many of one place are told.
const LISTED: usize = 1_000;
const ROUND: usize = 8;
/// How many messages of what is over are looked at in one round.
const STALE: usize = 32;
/// How long after the end of its question a message is still withdrawn, if that fails. Its buttons stand for nothing by then.
const WITHDRAWING: Duration = Duration::from_secs(3_600);
/// How many messages are known at most that failed.
const MOST_BACKOFFS: usize = 1_024;
/// How long a message is left alone that a service will never take.
const NEVER: Duration = Duration::from_secs(600);
/// How long a question is left alone at most that is kept quiet: another configuration may tell it.
const HUSH: Duration = Duration::from_secs(60);
/// How soon a surface looks again for a question whose time should have come.
const SOON: Duration = Duration::from_secs(1);
/// How often a surface looks although nothing changed: claims may have ended.
const IDLE: Duration = Duration::from_secs(5);

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
    let (mut teller, mut backoff) = (Teller::new(&desk, surface.as_ref()), Backoff::default());
    loop {
        marks.mark_unchanged();
        match teller.round().await {
            Ok(did) => {
                backoff = Backoff::default();
                if !did {
                    let _ = timeout(teller.soonest(), marks.changed()).await;
                }
            }
            Err(failed) => {
                let wait = backoff.next(None);
                tracing::warn!(surface = %surface.name(), error = %failed, wait_s = wait.as_secs(), "people could not be told");
                sleep(wait).await;
            }
        }
    }
}

/// Why a round ended. What a service refuses ends none: that is a matter of one message, or of one place.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the system has no randomness to give")]
    Random,
}

/// Tells one surface.
struct Teller<'a> {
    desk: &'a Desk,
    surface: &'a dyn Surface,
    turns: HashMap<String, Turns>,
    /// What of questions never changes.
    known: HashMap<ApprovalId, Known>,
    rests: Rests,
    /// How long nothing is anybody's turn.
    pause: Duration,
    /// Devices whose people can't sign in any more by their tokens, and that can't be deleted.
    barred: BTreeSet<String>,
    /// How long it is not tried to delete them.
    deleting: Rest,
}

/// What of a question never changes: of which agent it is, and which surfaces are told of it, if not all.
#[derive(Clone, Debug)]
struct Known {
    agent: AgentId,
    told: Option<ToldOn>,
    expires_at: Timestamp,
}

impl<'a> Teller<'a> {
    fn new(desk: &'a Desk, surface: &'a dyn Surface) -> Self {
        Self {
            desk,
            surface,
            turns: HashMap::new(),
            known: HashMap::new(),
            rests: Rests::default(),
            pause: IDLE,
            barred: BTreeSet::new(),
            deleting: Rest::default(),
        }
    }

    /// Returns how long there is nothing to do, unless something happens.
    fn soonest(&self) -> Duration {
        self.rests.soonest().min(self.pause).min(IDLE)
    }

    /// Does what there is to do, up to a bound. Returns whether there was anything. Questions come before what is over.
    async fn round(&mut self) -> Result<bool, Failed> {
        let (store, surface, mut did) = (self.desk.store(), self.surface, false);
        store.expire_approvals(Timestamp::now()).await?;
        self.pause = IDLE;
        self.forget_devices().await?;
        let places = surface.places();
        self.turns.retain(|place, _| places.contains(place));
        for place in places.iter() {
            // INVARIANT (whoever may no longer sign in is told nothing more): also where its device can't be deleted.
            if self.barred.contains(place) {
                continue;
            }
            let to = Addressee { surface: surface.name().as_str().to_owned(), place: place.clone() };
            did |= self.tell_place(&to).await?;
            // A service may have taken long: a token may have ended meanwhile.
            self.forget_devices().await?;
        }
        let now = Timestamp::now();
        for notice in store.stale_notices(surface.name().as_str(), now, STALE).await? {
            did |= self.withdraw(&notice).await?;
        }
        Ok(did)
    }

    /// Tells devices no longer whose people can't sign in any more by the token by which they had them told. What can't be deleted keeps no
    /// other device from being told.
    async fn forget_devices(&mut self) -> Result<(), Failed> {
        let (surface, Some(push)) = (self.surface.name(), self.surface.web_push()) else { return Ok(()) };
        if push.places().is_empty() {
            return Ok(());
        }
        let counting = self.desk.engine.store().counting_access_tokens(Timestamp::now()).await?;
        let tokens = counting.tokens.iter().map(|token| token.made.id.as_str().to_owned()).collect();
        let ended = push.ended(&tokens);
        if !ended.is_empty() && self.deleting.left().is_some() {
            self.barred = ended;
            return Ok(());
        }
        match push.keep(tokens).await {
            Ok(count) => {
                if count > 0 {
                    tracing::info!(%surface, count, "devices are told no longer: their tokens have ended");
                }
                (self.barred, self.deleting) = (BTreeSet::new(), Rest::default());
            }
            Err(error) => {
                let wait = self.deleting.failed(None);
                tracing::warn!(%surface, count = ended.len(), %error, wait_s = wait.as_secs(), "devices whose tokens have ended can't be deleted: they are told nothing, and the others are");
                self.barred = ended;
            }
        }
        Ok(())
    }

    /// Tells one place what it is the turn of. Returns whether that was anything.
    async fn tell_place(&mut self, to: &Addressee) -> Result<bool, Failed> {
        let (mut did, mut waiting) = (false, self.waiting(to).await?);
        for _ in 0..ROUND {
            if waiting.is_empty() || self.rests.left(&to.place).is_some() {
                return Ok(did);
            }
            let turns = self.turns.entry(to.place.clone()).or_insert_with(|| Turns::new(Instant::now()));
            let agent = match turns.next(waiting.iter().map(|(agent, _)| agent), Instant::now()) {
                Next::Tell(agent) => agent.clone(),
                Next::Wait(wait) => {
                    self.pause = self.pause.min(wait);
                    return Ok(did);
                }
            };
            let of_agent = waiting.iter_mut().find(|(one, _)| *one == agent);
            let Some(approval) = of_agent.and_then(|(_, approvals)| approvals.pop_front()) else { break };
            let left = waiting.iter().find(|(one, _)| *one == agent).map_or(0, |(_, left)| left.len());
            waiting.retain(|(_, approvals)| !approvals.is_empty());
            did |= self.tell_one(to, &approval, &agent, left).await?;
        }
        Ok(did)
    }

    /// Returns what a place is to be told of, by agents: those first that began to wait first. What is beyond the bound of a round is of agents
    /// that have others before it, or that began to wait behind a thousand others.
    async fn waiting(&mut self, to: &Addressee) -> Result<Vec<(AgentId, VecDeque<ApprovalId>)>, Failed> {
        let store = self.desk.store();
        let mut all: Vec<(AgentId, VecDeque<ApprovalId>)> = Vec::new();
        for approval in store.untold_approvals(to, Timestamp::now(), LISTED).await? {
            let Some(known) = self.known(&approval).await? else { continue };
            if self.is_told_elsewhere(to, &approval, &known).await? || self.is_quiet(to, &approval).await? {
                continue;
            }
            let agent = known.agent;
            match all.iter_mut().find(|(one, _)| *one == agent) {
                Some((_, approvals)) => approvals.push_back(approval),
                None => all.push((agent, [approval].into())),
            }
        }
        Ok(all)
    }

    /// Returns what of a question never changes.
    async fn known(&mut self, approval: &ApprovalId) -> Result<Option<Known>, Failed> {
        if let Some(known) = self.known.get(approval) {
            return Ok(Some(known.clone()));
        }
        let Some(record) = read(self.desk, approval).await? else { return Ok(None) };
        if self.known.len() >= 4 * LISTED {
            self.known.clear();
        }
        let request = record.request;
        let told = request.route.and_then(|route| route.told);
        let known = Known { agent: request.agent, told, expires_at: request.expires_at };
        self.known.insert(approval.clone(), known.clone());
        Ok(Some(known))
    }

    /// Returns whether other surfaces are told of a question, and this one is not, or not yet. Then it is left alone until that changes.
    async fn is_told_elsewhere(
        &mut self,
        to: &Addressee,
        approval: &ApprovalId,
        known: &Known,
    ) -> Result<bool, Failed> {
        let now = Timestamp::now();
        let Some(told) = &known.told else { return Ok(false) };
        let until = match told.when(&to.surface, now) {
            TellWhen::Now => return Ok(false),
            TellWhen::At(at) => {
                // The clock that nobody sets may be behind or ahead of it.
                let left = now.until(at).clamp(SOON, HUSH);
                self.pause = self.pause.min(left);
                now.after(left)
            }
            TellWhen::Never => known.expires_at.max(now.after(HUSH)).min(now.after(LONGEST_HOLD)),
        };
        let desk = self.desk;
        desk.store().claim_notice(approval, to, desk.holder.as_str(), until, now).await?;
        Ok(true)
    }

    /// Returns whether a question is kept quiet now. Then it is left alone for a while.
    async fn is_quiet(&self, to: &Addressee, approval: &ApprovalId) -> Result<bool, Failed> {
        let (desk, now) = (self.desk, Timestamp::now());
        let Some(quiet) = &desk.quiet else { return Ok(false) };
        let Some(left) = quiet.left(now) else { return Ok(false) };
        let Some(record) = read(desk, approval).await? else { return Ok(false) };
        // INVARIANT (fail closed): what passes if nobody answers is told while somebody can still deny it.
        if quiet.lets_through(record.request.severity) || record.request.silence_allows() {
            return Ok(false);
        }
        let until = now.after(left.min(HUSH));
        desk.store().claim_notice(approval, to, desk.holder.as_str(), until, now).await?;
        Ok(true)
    }

    /// Tells a place a question of an agent, of which `left` more wait.
    async fn tell_one(
        &mut self,
        to: &Addressee,
        approval: &ApprovalId,
        agent: &AgentId,
        left: usize,
    ) -> Result<bool, Failed> {
        let (desk, surface) = (self.desk, self.surface);
        let (store, holder, now) = (desk.store(), desk.holder.as_str(), Timestamp::now());
        if !store.claim_notice(approval, to, holder, now.after(CLAIM), now).await? {
            return Ok(false);
        }
        let Some(record) = read(desk, approval).await? else { return Ok(false) };
        if record.state != ApprovalState::Pending {
            return Ok(false);
        }
        let is_last = self.turns.get_mut(&to.place).is_some_and(|turns| turns.take(agent, Instant::now()));
        let more = if is_last { left } else { 0 };
        let (shown, decisions) = desk.offered(surface, &record, more);
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
            answered_on: desk.answered_on(),
            more,
            is_short: false,
            now,
        };
        let (place, name) = (to.place.as_str(), surface.name());
        match self.send(&message).await {
            Ok((reference, became)) => {
                self.became(became);
                self.rests.went(place, approval);
                store.sent_notice(approval, to, &reference).await?;
            }
            Err(SurfaceError::Never { why } | SurfaceError::Content { why }) => {
                self.became(Became::Failed);
                // Others may be taken: only this one is left alone.
                tracing::warn!(surface = %name, error = %why, "a question could not be told there");
                store
                    .claim_notice(approval, to, holder, Timestamp::now().after(NEVER), Timestamp::now())
                    .await?;
            }
            Err(SurfaceError::Later { why, after }) => {
                self.became(Became::Failed);
                // The claim lasts until it is tried again, so that what fails each time keeps nothing else back.
                let wait = self.rests.failed(place, approval, after);
                tracing::warn!(surface = %name, error = %why, wait_s = wait.as_secs(), "a question could not be told there yet");
                let now = Timestamp::now();
                store.claim_notice(approval, to, holder, now.after(wait), now).await?;
            }
        }
        Ok(true)
    }

    /// Sends a message; where the service does not take it for what is in it, a short one, once. Returns what the message is called.
    async fn send(&self, message: &Message<'_>) -> Result<(String, Became), SurfaceError> {
        let surface = self.surface;
        let why = match patiently(surface.send(message)).await {
            Err(SurfaceError::Content { why }) if surface.has_short() => why,
            sent => return sent.map(|reference| (reference, Became::Told)),
        };
        tracing::warn!(surface = %surface.name(), error = %why, "a question is told there in short, since the whole of it was not taken");
        let shown = self.desk.in_short(message.record, message.more);
        let short = Message { shown: &shown, offers: &[], is_short: true, ..*message };
        let reference = patiently(surface.send(&short)).await?;
        Ok((format!("{SHORT}{reference}"), Became::Shortened))
    }

    /// Withdraws a message. Returns whether there was anything to do.
    async fn withdraw(&mut self, notice: &SentNotice) -> Result<bool, Failed> {
        let (desk, surface, now) = (self.desk, self.surface, Timestamp::now());
        let (store, holder) = (desk.store(), desk.holder.as_str());
        let (place, approval) = (notice.addressee.place.as_str(), &notice.approval);
        // A place that rests is left alone, and what belongs to others comes up in its place.
        if let Some(left) = self.rests.left(place) {
            store.claim_withdrawal(notice, holder, now.after(left), now).await?;
            return Ok(true);
        }
        let is_told = surface.places().contains(&notice.addressee.place) && !self.barred.contains(place);
        let turns = self.turns.entry(place.to_owned()).or_insert_with(|| Turns::new(Instant::now()));
        if let (true, Err(wait)) = (is_told, turns.take_aside(Instant::now())) {
            self.pause = self.pause.min(wait);
            store.claim_withdrawal(notice, holder, now.after(wait), now).await?;
            return Ok(false);
        }
        let now = Timestamp::now();
        if !store.claim_withdrawal(notice, holder, now.after(CLAIM), now).await? {
            return Ok(false);
        }
        let Some(record) = read(desk, approval).await? else {
            // What became of it nobody knows, so there is nothing that could be said there.
            store.withdrawn_notice(notice).await?;
            return Ok(false);
        };
        let Some(outcome) = Outcome::of(&record) else { return Ok(false) };
        let reference = notice.reference.strip_prefix(SHORT).unwrap_or(&notice.reference);
        // A place that is told no longer is not spoken to.
        if is_told {
            match patiently(surface.withdraw(place, reference, &outcome)).await {
                Ok(()) => {
                    self.became(Became::Withdrawn);
                    self.rests.went(place, approval);
                }
                Err(SurfaceError::Never { why } | SurfaceError::Content { why }) => {
                    self.became(Became::Failed);
                    tracing::warn!(surface = %surface.name(), error = %why, "a message could not be withdrawn");
                }
                Err(SurfaceError::Later { why, after }) => {
                    self.became(Became::Failed);
                    let (wait, now) = (self.rests.failed(place, approval, after), Timestamp::now());
                    if now <= record.request.expires_at.after(WITHDRAWING) {
                        store.claim_withdrawal(notice, holder, now.after(wait), now).await?;
                        return Ok(true);
                    }
                    tracing::warn!(surface = %surface.name(), error = %why, "a message is not withdrawn: that was tried for long enough");
                }
            }
        }
        store.withdrawn_notice(notice).await?;
        Ok(true)
    }

    fn became(&self, became: Became) {
        self.desk.holder.count(|counts| counts.message(self.surface.name(), became));
    }
}

/// Returns a question, if there is one that can be read. One that can't be ends, since nobody can answer it; it keeps back no other.
async fn read(desk: &Desk, approval: &ApprovalId) -> Result<Option<ApprovalRecord>, Failed> {
    match desk.store().approval(approval).await {
        Err(error) if error.kind() == StoreErrorKind::Corrupt => {
            tracing::warn!("a question that can't be read is told nowhere, and ends");
            // It fails for the same reason, once it has ended.
            let _ = desk.store().end_waiting(approval, Timestamp::now()).await;
            Ok(None)
        }
        found => Ok(found?),
    }
}

/// What is left alone for a while after failures: places, and single messages in them.
#[derive(Debug, Default)]
struct Rests {
    places: HashMap<String, Rest>,
    messages: HashMap<(String, ApprovalId), Rest>,
}

#[derive(Debug)]
struct Rest {
    backoff: Backoff,
    until: Instant,
}

impl Default for Rest {
    fn default() -> Self {
        Self { backoff: Backoff::default(), until: Instant::now() }
    }
}

impl Rest {
    /// Something failed. Returns how long it is left alone.
    fn failed(&mut self, said: Option<Duration>) -> Duration {
        let wait = self.backoff.next(said);
        self.until = Instant::now() + wait;
        wait
    }

    fn left(&self) -> Option<Duration> {
        Some(self.until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }
}

impl Rests {
    /// Returns how long a place is still left alone.
    fn left(&self, place: &str) -> Option<Duration> {
        self.places.get(place)?.left()
    }

    /// Returns when the next of them is no longer left alone.
    fn soonest(&self) -> Duration {
        self.places.values().chain(self.messages.values()).filter_map(Rest::left).min().unwrap_or(IDLE)
    }

    /// Something went to a place.
    fn went(&mut self, place: &str, approval: &ApprovalId) {
        self.places.remove(place);
        self.messages.remove(&(place.to_owned(), approval.clone()));
    }

    /// Something did not go to a place. Returns how long this message is left alone: longer than the place, where others come first then.
    fn failed(&mut self, place: &str, approval: &ApprovalId, said: Option<Duration>) -> Duration {
        if self.messages.len() >= MOST_BACKOFFS {
            self.messages.clear();
        }
        let of_place = self.places.entry(place.to_owned()).or_default();
        let rest = of_place.failed(said);
        let message = self.messages.entry((place.to_owned(), approval.clone())).or_default();
        let wait = rest.saturating_add(message.backoff.next(None));
        message.until = Instant::now() + wait;
        wait
    }
}

async fn patiently<T>(work: impl Future<Output = Result<T, SurfaceError>>) -> Result<T, SurfaceError> {
    timeout(PATIENCE, work).await.unwrap_or_else(|_| Err(SurfaceError::later("the service took too long")))
}
