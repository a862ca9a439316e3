//! Results that a provider still wants.
//!
//! A provider that keeps a conversation (`previous_response_id`, `conversation`) has calls in it that were taken out of its
//! answers here. No client knows of them, and the provider goes on with the conversation only once each has its result. So
//! the next request brings it: that the call was refused, and why. A request that has a result already is left alone, but for
//! one that approves the call.
//!
//! An answer that went on after a refusal ([`Joint`](backstop_llm::live::Joint)) is several answers for the provider: its
//! client knows the id of the first, and what comes next follows the last.
//!
//! Limits: the latest [`MOST_ANSWERS`], across SIGHUP and [restarts](super::kept); answers with more than [`MOST_RESULTS`] refused calls, and
//! calls that have no result in words (screenshots), stay without; the log says so of the former.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use backstop_hooks::conversation::{Message, Part};
use backstop_hooks::{AgentId, Digest, Json};
use backstop_llm::ModelRequest;
use backstop_store::{Store, StoreError};
use serde_json::Value;
use tokio::sync::OnceCell;

use super::approvals::approval;
use super::bounded::Bounded;
use super::identity::{field, of_agent};
use super::kept::{self, Entry};

const MOST_ANSWERS: usize = 512;
const MOST_RESULTS: usize = 128;

/// The field that names the answer that a request follows.
pub(super) const PREVIOUS: &str = "previous_response_id";

/// What is remembered of conversations that a provider keeps.
#[derive(Debug)]
pub(super) struct Owed {
    state: Mutex<State>,
    /// What outlived the process before was read.
    read: OnceCell<()>,
}

#[derive(Debug)]
struct State {
    /// The results that an answer, or a conversation, still wants.
    results: Bounded<Digest, Arc<[Message]>>,
    /// The last answer of those that a client takes for one.
    last: Bounded<Digest, String>,
    /// What changed since it was written.
    changed: Vec<Digest>,
}

impl Default for Owed {
    fn default() -> Self {
        let (results, last) = (Bounded::new(MOST_ANSWERS), Bounded::new(MOST_ANSWERS));
        let state = Mutex::new(State { results, last, changed: Vec::new() });
        Self { state, read: OnceCell::new() }
    }
}

impl Owed {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what outlived the process before. Where that fails, the next request tries it again.
    pub(super) async fn read(&self, store: &dyn Store) {
        let read = self.read.get_or_try_init(async || {
            let all = kept::read(store).await?;
            let mut state = self.state();
            for Entry { key, results, last } in all {
                if !results.is_empty() && state.results.get(&key).is_none() {
                    state.results.insert(key, results.into());
                }
                if let Some(last) = last.filter(|_| state.last.get(&key).is_none()) {
                    state.last.insert(key, last);
                }
            }
            Ok::<(), StoreError>(())
        });
        if let Err(error) = read.await {
            tracing::warn!(%error, "what providers still want of refused calls could not be read");
        }
    }

    /// Writes what changed, so that it outlives this process.
    pub(super) async fn write(&self, store: &dyn Store) {
        let changes: Vec<(Digest, Option<Entry>)> = {
            let mut state = self.state();
            let changed: BTreeSet<Digest> = std::mem::take(&mut state.changed).into_iter().collect();
            let entry = |key: Digest| {
                let results = state.results.get(&key).map(|results| results.to_vec()).unwrap_or_default();
                let last = state.last.get(&key).cloned();
                let is_any = !results.is_empty() || last.is_some();
                (key, is_any.then_some(Entry { key, results, last }))
            };
            changed.into_iter().map(entry).collect()
        };
        if !changes.is_empty() {
            kept::write(store, changes).await;
        }
    }

    /// Remembers what the answer of this id to `request` still wants.
    pub(super) fn keep(
        &self,
        agent: Option<&AgentId>,
        request: &ModelRequest,
        answer: &str,
        results: Vec<Message>,
    ) {
        let is_kept = request.extra.get("store").and_then(Value::as_bool) != Some(false);
        if results.is_empty() || answer.is_empty() || !is_kept {
            return;
        }
        if results.len() > MOST_RESULTS {
            tracing::warn!(
                refused = results.len(),
                most = MOST_RESULTS,
                "an answer has more refused calls than are remembered: the provider will refuse to go on with it"
            );
            return;
        }
        let results: Arc<[Message]> = results.into();
        let mut state = self.state();
        if let Some(conversation) = conversation_of(request) {
            let key = of_agent(agent, "conversation", conversation);
            state.results.insert(key, Arc::clone(&results));
            state.changed.push(key);
        }
        let key = of_agent(agent, "answer", answer);
        state.results.insert(key, results);
        state.changed.push(key);
    }

    /// Adds to a request what the conversation still wants that it goes on with.
    pub(super) fn add(&self, agent: Option<&AgentId>, request: &mut ModelRequest) {
        let wanted = {
            let state = self.state();
            let shown = field(request, &[PREVIOUS]).map(str::to_owned);
            let last = shown.as_ref().and_then(|id| state.last.get(&of_agent(agent, "answer", id)).cloned());
            let of_answer = last.as_ref().or(shown.as_ref()).map(|id| of_agent(agent, "answer", id));
            let of_conversation = conversation_of(request).map(|id| of_agent(agent, "conversation", id));
            let found = of_answer.or(of_conversation).and_then(|key| state.results.get(&key).map(Arc::clone));
            if let Some(last) = last {
                name_previous(request, last);
            }
            found
        };
        let Some(wanted) = wanted else { return };
        // Nobody but a hook lets a call be, and it did not: what its client says to it is no result.
        let is_owed =
            |part: &Part| approval(part).is_some_and(|raw| wanted.iter().any(|result| is_for(result, raw)));
        for message in &mut request.messages {
            message.content.retain(|part| !is_owed(part));
        }
        request.messages.retain(|message| !message.content.is_empty());
        let missing: Vec<Message> = wanted.iter().filter(|result| !has(request, result)).cloned().collect();
        request.messages.splice(0..0, missing);
    }

    /// A request that goes on with a conversation was answered: the provider has what it wanted. (What follows an answer can be
    /// asked for again, from there.)
    pub(super) fn answered(&self, agent: Option<&AgentId>, request: &ModelRequest) {
        if let Some(conversation) = conversation_of(request) {
            let key = of_agent(agent, "conversation", conversation);
            let mut state = self.state();
            if state.results.get(&key).is_some() {
                state.results.forget(&key);
                state.changed.push(key);
            }
        }
    }

    /// The answer that its client knows as `shown` goes on in another one.
    pub(super) fn goes_on(&self, agent: Option<&AgentId>, shown: &str, last: &str) {
        if !last.is_empty() {
            let key = of_agent(agent, "answer", shown);
            let mut state = self.state();
            state.last.insert(key, last.to_owned());
            state.changed.push(key);
        }
    }
}

/// The conversation of the provider's that a request goes on with.
pub(super) fn conversation_of(request: &ModelRequest) -> Option<&str> {
    field(request, &["conversation"]).or_else(|| field(request, &["conversation", "id"]))
}

fn name_previous(request: &mut ModelRequest, answer: String) {
    let mut extra = request.extra.to_value();
    if let Value::Object(fields) = &mut extra {
        fields.insert(PREVIOUS.to_owned(), answer.into());
    }
    request.extra = Json::new(extra);
}

/// Whether a result turns down what somebody would approve.
fn is_for(result: &Message, approved: &Json) -> bool {
    result.content.iter().any(|part| {
        matches!(part, Part::Unknown { raw } if raw.get("approval_request_id") == approved.get("approval_request_id"))
    })
}

/// Whether a request brings this result by itself.
fn has(request: &ModelRequest, result: &Message) -> bool {
    let parts = || request.messages.iter().flat_map(|message| &message.content);
    result.content.iter().any(|wanted| match wanted {
        Part::ToolResult(wanted) => parts().any(
            |part| matches!(part, Part::ToolResult(result) if result.tool_call_id == wanted.tool_call_id),
        ),
        Part::Unknown { raw } => {
            let id = raw.get("approval_request_id");
            parts().any(|part| matches!(part, Part::Unknown { raw } if raw.get("approval_request_id") == id))
        }
        _ => false,
    })
}
