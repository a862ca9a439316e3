//! Questions as they come and end.
//!
//! One task looks for all streams, as long as there is one, and keeps the last [`KEPT`] events: `opened` and `resolved`, each told with the question as it
//! is when it is told. What is over is read from the store each time, so that nothing is told that was wiped there.
//! Who comes first, or was away for longer than that, is told all questions that wait (`opened`) and then `current`, so that a reader knows
//! what there is whenever it came.
//!
//! Limits: of more than [`MOST_WAITING`] questions that wait the newest are told, and `current` says how many there are; a question that came and
//! ended while nobody looked is not told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use backstop_engine::Engine;
use backstop_hooks::ApprovalId;
use backstop_store::{
    AnswerStore, ApprovalFilter, ApprovalRecord, ApprovalState, People, StoreError, StoreErrorKind, Timestamp,
};
use http::Response;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;
use uuid::Uuid;

use super::super::super::operators::Problem;
use super::super::approvals::Approval;
use super::super::asked::Asked;
use super::{Source, TICK, open, place, written};
use crate::server::answer::AnswerBody;

/// How many events are kept.
const KEPT: usize = 256;
/// How many questions that wait are known.
const MOST_WAITING: usize = 1_000;
/// How many of the newest are looked at, for those that ended between two looks.
const NEWEST: usize = 50;

/// No choice: all questions.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::server::api) struct ApprovalEvents {}

/// Looks, for all streams.
#[derive(Debug)]
pub(in crate::server::api) struct Hub {
    known: Mutex<Known>,
    in_force: Mutex<InForce>,
    /// The number of the last event; 0 before the first look with the hooks in force.
    told: watch::Sender<u64>,
    is_looking: Mutex<bool>,
    /// The hooks that came into force last, whether somebody listens or not. Taken while `is_looking` is held.
    newest: Mutex<Option<Engine>>,
}

/// The hooks by which those who listen are told.
#[derive(Debug, Default)]
struct InForce {
    /// One more each time that others are in force: who may answer, others may say.
    number: u64,
    /// Nothing where nobody listens.
    engine: Option<Engine>,
}

/// What is known of the questions.
#[derive(Debug)]
struct Known {
    /// Numbers count within it alone: what another process, or a look that began anew, has told is not continued.
    name: String,
    /// The number of the last event.
    last: u64,
    events: VecDeque<Event>,
    /// Those that wait.
    waiting: BTreeMap<ApprovalId, Waiting>,
    /// The newest, whatever became of them.
    newest: BTreeSet<ApprovalId>,
    /// How many wait.
    all: usize,
    mark: Option<u64>,
    /// The number of the hooks by which those that wait were written.
    by: u64,
}

#[derive(Debug)]
struct Event {
    number: u64,
    kind: &'static str,
    of: ApprovalId,
}

/// An event that is about to be told.
struct Due {
    id: String,
    kind: &'static str,
    of: ApprovalId,
    /// The question, as long as it waits.
    data: Option<String>,
}

#[derive(Debug)]
struct Waiting {
    until: Timestamp,
    at: Timestamp,
    data: String,
}

impl Default for Hub {
    fn default() -> Self {
        let known = Known {
            name: Uuid::new_v4().simple().to_string(),
            last: 0,
            events: VecDeque::new(),
            waiting: BTreeMap::new(),
            newest: BTreeSet::new(),
            all: 0,
            mark: None,
            by: 0,
        };
        Self {
            known: Mutex::new(known),
            in_force: Mutex::default(),
            told: watch::Sender::new(0),
            is_looking: Mutex::new(false),
            newest: Mutex::default(),
        }
    }
}

impl Hub {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears of events from now on. `engine` counts where no other came into force yet: that of a request may be the one before a reload.
    fn listen(self: &Arc<Self>, engine: &Engine) -> watch::Receiver<u64> {
        let mut is_looking = self.is_looking.lock().unwrap_or_else(PoisonError::into_inner);
        let told = self.told.subscribe();
        let engine = self.newest().get_or_insert_with(|| engine.clone()).clone();
        if !std::mem::replace(&mut *is_looking, true) {
            self.take_engine(Some(engine));
            tokio::spawn(look(Arc::clone(self)));
        }
        told
    }

    /// Returns whether nobody listens any more. If so, whoever looks is to stop.
    fn is_over(&self) -> bool {
        let mut is_looking = self.is_looking.lock().unwrap_or_else(PoisonError::into_inner);
        *is_looking = self.told.receiver_count() > 0;
        if !*is_looking {
            self.take_engine(None);
        }
        !*is_looking
    }

    /// Goes on with the hooks in force, now or when somebody listens.
    pub(in crate::server) fn go_on_with(&self, engine: Option<&Engine>) {
        let is_looking = self.is_looking.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = engine {
            *self.newest() = Some(engine.clone());
            if *is_looking {
                self.take_engine(Some(engine.clone()));
            }
        }
    }

    fn newest(&self) -> MutexGuard<'_, Option<Engine>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_force(&self) -> MutexGuard<'_, InForce> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_engine(&self, engine: Option<Engine>) {
        let mut in_force = self.in_force();
        *in_force = InForce { number: in_force.number.saturating_add(1), engine };
        // What is known may be long ago, or what other hooks say: whoever comes first waits for the next look.
        self.told.send_replace(0);
    }

    fn engine(&self) -> Option<(u64, Engine)> {
        let in_force = self.in_force();
        in_force.engine.clone().map(|engine| (in_force.number, engine))
    }

    /// Tells readers what was seen by these hooks, if they are still in force, and there is something new or somebody waits for a look.
    fn tell(&self, number: u64, is_new: bool) {
        let in_force = self.in_force();
        let is_awaited = *self.told.borrow() == 0;
        if in_force.number == number && (is_new || is_awaited) {
            let last = self.known().last;
            self.told.send_replace(last);
        }
    }

    /// Writes events with their questions; `None` if one of these is gone.
    async fn write(&self, events: Vec<Due>) -> Result<Option<String>, StoreError> {
        let mut text = String::new();
        for Due { id, kind, of, data } in events {
            let data = match data {
                Some(data) => Some(data),
                None => self.question(&of).await?,
            };
            let Some(data) = data else { return Ok(None) };
            text.push_str(&written(Some(&id), kind, &data));
        }
        Ok(Some(text))
    }

    /// Returns a question as it is now.
    async fn question(&self, id: &ApprovalId) -> Result<Option<String>, StoreError> {
        let Some((_, engine)) = self.engine() else { return Ok(None) };
        let found = read(engine.answer_store().as_ref(), id).await?;
        Ok(found.map(|record| data_of(&record, engine.people())))
    }
}

/// Looks until nobody listens.
async fn look(hub: Arc<Hub>) {
    while !hub.is_over() {
        // What can't be read now is looked at again: readers know what is so, and nothing that is not.
        if let Some((number, engine)) = hub.engine()
            && let Ok(is_new) = once(&hub, number, &engine).await
        {
            hub.tell(number, is_new);
        }
        sleep(TICK).await;
    }
}

/// Looks once, by the hooks with this number. Returns whether there is something new.
async fn once(hub: &Hub, number: u64, engine: &Engine) -> Result<bool, StoreError> {
    let answers = engine.answer_store();
    let now = Timestamp::now();
    let (mark, by, is_late) = {
        let known = hub.known();
        (known.mark, known.by, known.waiting.values().any(|waiting| waiting.until < now))
    };
    if is_late {
        answers.expire_approvals(now).await?;
    }
    let overview = answers.overview().await?;
    if mark == Some(overview.mark) && by == number {
        return Ok(false);
    }
    let waiting = answers.approvals(ApprovalFilter::Pending, MOST_WAITING).await?;
    let newest = answers.approvals(ApprovalFilter::All, NEWEST).await?;
    let gone: Vec<ApprovalId> = {
        let still: BTreeSet<&ApprovalId> = waiting.iter().map(|record| &record.id).collect();
        hub.known().waiting.keys().filter(|id| !still.contains(id)).cloned().collect()
    };
    let mut ended = Vec::new();
    for id in gone {
        ended.extend(read(answers.as_ref(), &id).await?.filter(is_over));
    }
    let mut known = hub.known();
    known.take(&waiting, &newest, &ended, engine.people());
    (known.all, known.mark, known.by) = (overview.waiting, Some(overview.mark), number);
    // The first look tells, too: what there is.
    known.last = known.last.max(1);
    Ok(true)
}

/// Returns a question, if there is one that can be read: one that can't be is none, and keeps back no other.
async fn read(answers: &dyn AnswerStore, id: &ApprovalId) -> Result<Option<ApprovalRecord>, StoreError> {
    match answers.approval(id).await {
        Err(error) if error.kind() == StoreErrorKind::Corrupt => Ok(None),
        found => found,
    }
}

fn is_over(record: &ApprovalRecord) -> bool {
    !matches!(record.state, ApprovalState::Pending)
}

impl Known {
    fn take(
        &mut self,
        waiting: &[ApprovalRecord],
        newest: &[ApprovalRecord],
        ended: &[ApprovalRecord],
        people: &People,
    ) {
        let is_first = self.mark.is_none();
        // Those of a list are the newest first.
        for record in waiting.iter().rev() {
            if !self.waiting.contains_key(&record.id) && !is_first {
                self.tell("opened", &record.id);
            }
        }
        for record in newest.iter().rev().filter(|record| is_over(record) && !is_first) {
            // It came and ended since the last look.
            if !self.newest.contains(&record.id) && !self.waiting.contains_key(&record.id) {
                self.tell("opened", &record.id);
                self.tell("resolved", &record.id);
            }
        }
        for record in ended {
            self.tell("resolved", &record.id);
        }
        let kept = waiting.iter().map(|record| {
            let request = &record.request;
            let (until, at) = (request.expires_at, request.created_at);
            (record.id.clone(), Waiting { until, at, data: data_of(record, people) })
        });
        self.waiting = kept.collect();
        self.newest = newest.iter().map(|record| record.id.clone()).collect();
    }

    fn tell(&mut self, kind: &'static str, of: &ApprovalId) {
        self.last = self.last.max(1).saturating_add(1);
        self.events.push_back(Event { number: self.last, kind, of: of.clone() });
        if self.events.len() > KEPT {
            self.events.pop_front();
        }
    }

    fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.name)
    }

    /// Returns which of its events somebody knows who names the last, if all that came after are kept.
    fn reached(&self, id: &str) -> Option<u64> {
        let number: u64 = id.strip_prefix(&self.name)?.strip_prefix('-')?.parse().ok()?;
        self.is_kept_after(number).then_some(number)
    }

    fn is_kept_after(&self, number: u64) -> bool {
        let oldest = self.events.front().map_or(self.last.saturating_add(1), |event| event.number);
        number != 0 && number <= self.last && number.saturating_add(1) >= oldest
    }

    /// What there is, for whoever knows nothing.
    fn all(&self) -> String {
        let mut waiting: Vec<&Waiting> = self.waiting.values().collect();
        waiting.sort_by_key(|waiting| waiting.at);
        let told = waiting.iter().map(|waiting| written(None, "opened", &waiting.data));
        let current = json!({ "waiting": self.all }).to_string();
        told.chain([written(Some(&self.id(self.last)), "current", &current)]).collect()
    }

    fn after(&self, number: u64) -> Vec<Due> {
        let events = self.events.iter().filter(|event| event.number > number);
        let due = events.map(|event| Due {
            id: self.id(event.number),
            kind: event.kind,
            of: event.of.clone(),
            data: self.waiting.get(&event.of).map(|waiting| waiting.data.clone()),
        });
        due.collect()
    }
}

/// A question as the API tells it. Its parts all have a JSON form.
fn data_of(record: &ApprovalRecord, people: &People) -> String {
    serde_json::to_string(&Approval::of(record, people)).unwrap_or_default()
}

/// Opens a stream of questions.
pub(in crate::server::api) async fn approvals(
    asked: Asked,
    _: ApprovalEvents,
) -> Result<Response<AnswerBody>, Problem> {
    let place = place(&asked)?;
    let hub = &asked.shared.api.streams.hub;
    let told = hub.listen(asked.engine()?);
    let reached = asked.last_event.as_deref().and_then(|id| hub.known().reached(id));
    let questions = Questions { hub: Arc::clone(hub), told, reached };
    Ok(open(&asked, place, questions))
}

struct Questions {
    hub: Arc<Hub>,
    told: watch::Receiver<u64>,
    /// The last event that the reader knows; `None` where it knows nothing.
    reached: Option<u64>,
}

impl Source for Questions {
    async fn next(&mut self) -> Option<String> {
        loop {
            let reached = self.reached;
            // Whoever looks lives as long as somebody listens.
            self.told.wait_for(|last| *last > reached.unwrap_or(0)).await.ok()?;
            let Some(number) = reached else {
                let known = self.hub.known();
                self.reached = Some(known.last);
                return Some(known.all());
            };
            let (last, due) = {
                let known = self.hub.known();
                if !known.is_kept_after(number) {
                    return None;
                }
                (known.last, known.after(number))
            };
            match self.hub.write(due).await {
                Ok(Some(text)) => {
                    self.reached = Some(last);
                    if !text.is_empty() {
                        return Some(text);
                    }
                }
                // Of a question that is gone nothing can be told: the reader is told all that wait, as at first.
                Ok(None) => self.reached = None,
                Err(_) => sleep(TICK).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use backstop_store::{SqliteStore, Store};

    use super::*;

    #[tokio::test]
    async fn who_listens_with_the_hooks_from_before_a_reload_hears_those_in_force() {
        let before = Arc::new(SqliteStore::in_memory());
        let store: Arc<dyn Store> = Arc::clone(&before) as Arc<dyn Store>;
        let engine = Engine::builder().store(store).build();
        let hub = Arc::<Hub>::default();
        // Nobody listens when the other configuration comes into force.
        hub.go_on_with(Some(&Engine::builder().build()));
        let _told = hub.listen(&engine);
        drop(engine);
        for _ in 0..2000 {
            if Arc::strong_count(&before) == 1 {
                return;
            }
            sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("somebody still holds it");
    }
}
