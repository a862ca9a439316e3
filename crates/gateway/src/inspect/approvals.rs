//! What a client approves.
//!
//! OpenAI calls the tools of a server once a client approves (`mcp_approval_request`, `mcp_approval_response`). What is
//! asked is a call of the answer, and judged as that. The law: *an approval goes to the provider only for a call that was
//! judged as the provider has it.* So it does for a call that left here, and for one that the request brings with it, which
//! is judged now, where no conversation of the provider's stands behind it, in which the call could be another.
//! Everything else is refused: nobody here knows what it is that would run. That holds for requests that store items for later
//! (`/v1/conversations`) as for those that ask a model, and for a reference to a stored item that may be an approval, or offer a
//! tool: what it stands for is not in the request.
//!
//! The provider runs what is approved, and no program on this side sees it again. So the gates of tool calls judge it wherever
//! they stand, also where they are to leave the calls of answers alone (`tool_calls: off`, `judge-blocks`): it is judged when
//! it is approved then, and what they would ask is put as a question of its own.
//!
//! A call that a request or a later answer brings under the name of one that left, and that is another, ends what was known of
//! that name.
//!
//! Limits: what this process remembers, the latest [`MOST_JUDGED`] calls, and the latest [`MOST_WAITING`] that left unjudged with
//! at most [`LONGEST_WAITING`] bytes. After a restart an approval in a conversation that the provider keeps is
//! refused, and the model has to ask again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use backstop_hooks::conversation::{Part, ToolCall};
use backstop_hooks::{AgentId, Digest, Json};
use backstop_llm::wire::own_meta;
use backstop_llm::{Api, ModelRequest};
use serde_json::{Value, json};

use super::bounded::Bounded;
use super::identity::{field, of_agent};
use super::owed::{PREVIOUS, conversation_of};

const MOST_JUDGED: usize = 4_096;
/// Together with [`LONGEST_WAITING`] 32 MiB at most.
const MOST_WAITING: usize = 1_024;
const LONGEST_WAITING: usize = 32 * 1_024;
const ASKED: &str = "mcp_approval_request";
/// The type of what stands for an item that the provider has. It may be left out.
const REFERENCE: &str = "item_reference";
/// How the ids of stored items begin that neither approve nor offer anything (OpenAI refuses an id that does not begin as its type's
/// do).
const HARMLESS_IDS: [&str; 14] = [
    "ci_", "cmp_", "ctc_", "cu_", "fc_", "fs_", "ig_", "lsh_", "mcp_", "mcpl_", "msg_", "rs_", "tsc_", "ws_",
];
/// The field that names what is approved, or not.
const NAMED: &str = "approval_request_id";

/// The calls that left here and may be approved, by their ids.
#[derive(Debug)]
pub(super) struct Approvals(Mutex<Left>);

#[derive(Debug)]
struct Left {
    /// What the calls would run that were judged.
    judged: Bounded<Digest, Digest>,
    /// The calls that are to be judged once they are approved.
    waiting: Bounded<Digest, Arc<ToolCall>>,
}

impl Default for Approvals {
    fn default() -> Self {
        let (judged, waiting) = (Bounded::new(MOST_JUDGED), Bounded::new(MOST_WAITING));
        Self(Mutex::new(Left { judged, waiting }))
    }
}

impl Left {
    /// What the call of this name would run.
    fn run_by(&self, key: &Digest) -> Option<Digest> {
        self.judged.get(key).copied().or_else(|| self.waiting.get(key).map(|call| run_by(call)))
    }

    fn forget(&mut self, key: &Digest) {
        self.judged.forget(key);
        self.waiting.forget(key);
    }
}

/// Why it can't be known what a request approves.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unjudged {
    /// An approval of what nobody here knows.
    #[error(
        "it approves a call of a server's tool that this proxy does not remember to have passed here\nhint: have the model ask once more, or send the `{ASKED}` in `input`, without a conversation that is kept elsewhere"
    )]
    Call,
    /// A reference to what nobody here knows.
    #[error(
        "it refers to a stored item that may be an approval or offer a tool, which can't be judged by its id\nhint: send the item itself"
    )]
    Reference,
}

impl Approvals {
    /// What is left for other hooks: those calls that they judge when they are approved. What these judged, others would have to, so
    /// that it is unknown to them.
    pub(super) fn unjudged_by_others(&self) -> Self {
        let waiting = self.state().waiting.clone();
        Self(Mutex::new(Left { judged: Bounded::new(MOST_JUDGED), waiting }))
    }

    fn state(&self) -> MutexGuard<'_, Left> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers calls that leave here, whether or not all gates have judged them.
    pub(super) fn keep<'c>(
        &self,
        agent: Option<&AgentId>,
        calls: impl Iterator<Item = &'c ToolCall>,
        are_judged: bool,
    ) {
        for call in calls.filter(|call| asks(call)) {
            let (key, mut state) = (key(agent, call.id.as_str()), self.state());
            let known = state.run_by(&key);
            if known.is_some_and(|known| known != run_by(call)) {
                state.forget(&key);
            } else if are_judged {
                state.waiting.forget(&key);
                state.judged.insert(key, run_by(call));
            } else if known.is_none() {
                if size_of(call) <= LONGEST_WAITING {
                    state.waiting.insert(key, Arc::new(call.clone()));
                } else {
                    tracing::warn!(
                        ?agent,
                        most = LONGEST_WAITING,
                        "a call that a client may approve has more bytes than are remembered: its approval will be refused"
                    );
                }
            }
        }
    }

    /// Remembers that calls were judged when they were approved, so that they are not with each request that repeats it.
    pub(super) fn judged<'c>(&self, agent: Option<&AgentId>, calls: impl Iterator<Item = &'c ToolCall>) {
        let mut state = self.state();
        for call in calls {
            // What a request alone brings is not what stands in a conversation of the provider's under its name.
            let key = key(agent, call.id.as_str());
            if state.waiting.get(&key).is_some_and(|waiting| run_by(waiting) == run_by(call)) {
                state.waiting.forget(&key);
                state.judged.insert(key, run_by(call));
            }
        }
    }

    /// The calls that a request approves and that are to be judged before.
    pub(super) fn unjudged(
        &self,
        agent: Option<&AgentId>,
        request: &ModelRequest,
    ) -> Result<Vec<ToolCall>, Unjudged> {
        let mut unjudged: Vec<ToolCall> = Vec::new();
        let parts = || request.messages.iter().flat_map(|message| &message.content);
        if parts().any(refers_to_anything) {
            return Err(Unjudged::Reference);
        }
        for raw in parts().filter_map(approval) {
            let id = raw.get(NAMED).and_then(Value::as_str).ok_or(Unjudged::Call)?;
            let (key, state) = (key(agent, id), self.state());
            let (known, waiting) = (state.run_by(&key), state.waiting.get(&key));
            let calls = parts().filter_map(|part| match part {
                Part::ToolCall(call) if call.id.as_str() == id && asks(call) => Some(call),
                _ => None,
            });
            let others: Vec<&ToolCall> = calls.filter(|call| known != Some(run_by(call))).collect();
            let is_kept = field(request, &[PREVIOUS]).or_else(|| conversation_of(request)).is_some();
            let is_unknown = others.is_empty() && known.is_none();
            if is_unknown || (is_kept && !others.is_empty()) {
                return Err(Unjudged::Call);
            }
            unjudged.extend(others.into_iter().cloned());
            unjudged.extend(waiting.map(|call| ToolCall::clone(call)));
        }
        self.forget_others(agent, parts());
        Ok(unjudged)
    }

    /// Forgets what was known under the names of calls that a request brings and that are others.
    fn forget_others<'p>(&self, agent: Option<&AgentId>, parts: impl Iterator<Item = &'p Part>) {
        let mut state = self.state();
        for part in parts {
            let Part::ToolCall(call) = part else { continue };
            let key = key(agent, call.id.as_str());
            if asks(call) && state.run_by(&key).is_some_and(|known| known != run_by(call)) {
                state.forget(&key);
            }
        }
    }
}

/// Whether a part stands for a stored item that may be one by which something is approved or offered.
fn refers_to_anything(part: &Part) -> bool {
    let Part::Unknown { raw } = part else { return false };
    let is_reference = match raw.get("type") {
        None | Some(Value::Null) => raw.get("role").is_none_or(Value::is_null),
        Some(kind) => kind.as_str() == Some(REFERENCE),
    };
    let id = raw.get("id").and_then(Value::as_str).unwrap_or_default();
    is_reference && !HARMLESS_IDS.iter().any(|known| id.starts_with(known))
}

/// Turns down what a request approves of this call.
pub(super) fn turn_down(request: &mut ModelRequest, call: &ToolCall, reason: &str) {
    for part in request.messages.iter_mut().flat_map(|message| &mut message.content) {
        let is_it = approval(part)
            .is_some_and(|raw| raw.get(NAMED).and_then(Value::as_str) == Some(call.id.as_str()));
        if is_it {
            let raw = json!({"type": "mcp_approval_response", NAMED: call.id.as_str(), "approve": false, "reason": reason});
            *part = Part::Unknown { raw: Json::new(raw) };
        }
    }
}

/// What approves something, or may be taken for that: whatever names a call that is to be approved, and does not turn it down.
pub(super) fn approval(part: &Part) -> Option<&Json> {
    let Part::Unknown { raw } = part else { return None };
    (raw.get(NAMED).is_some() && raw.get("approve").and_then(Value::as_bool) != Some(false)).then_some(raw)
}

fn asks(call: &ToolCall) -> bool {
    own_meta(call.meta.as_ref(), Api::OpenAiResponses).get("type").and_then(Value::as_str) == Some(ASKED)
}

/// The bytes of a call with all that its wire says of it, or more than may be.
fn size_of(call: &ToolCall) -> usize {
    serde_json::to_vec(call).map_or(usize::MAX, |bytes| bytes.len())
}

fn key(agent: Option<&AgentId>, id: &str) -> Digest {
    of_agent(agent, "approval", id)
}

/// What is run once the call is approved. Its name has the server's.
fn run_by(call: &ToolCall) -> Digest {
    Digest::of("approval", &json!([call.name, call.arguments]))
}
