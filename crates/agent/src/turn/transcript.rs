//! The one door to the transcript.
//!
//! The conversation is kept in memory as it is stored, and every change goes to the store before it counts.
//! The laws: each message passes `before_message_write` on its way; a message that is not stored is not part of
//! the conversation, so no model reads it either; and hooks on the way can change what a message says but not
//! its place: a rewrite that turns it into another speaker's, invents tool calls or answers another call
//! counts as a block.

use backstop_engine::{BlockCause, Blocked};
use backstop_hooks::conversation::{Message, Part, Role, ToolResult};
use backstop_hooks::points::{
    BeforeMessageWrite, MessageWriteEvent, ToolResultPersist, ToolResultPersistEvent,
};
use backstop_hooks::{Json, MessageId, RunId, ToolCallId, ToolName};
use backstop_store::{Change, Entry, NewEntry, Timestamp, unanswered_calls};
use serde_json::json;

use super::results;
use super::run::Run;
use crate::error::AgentError;

/// The conversation of a session, as stored.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    entries: Vec<Entry>,
}

/// What became of a message.
#[derive(Debug)]
pub(crate) enum Written {
    /// It is stored, under this id.
    Stored(MessageId),
    /// A hook kept it out.
    Withheld(Blocked),
}

/// One entry of the run, changed.
#[derive(Debug)]
pub(crate) enum Edit {
    /// It says something else now.
    Replace(MessageId, Message),
    /// It is gone.
    Remove(MessageId),
}

impl Transcript {
    pub(crate) async fn load(run: &Run<'_>) -> Result<Self, AgentError> {
        Ok(Self { entries: run.agent.store.transcript(run.session.id()).await? })
    }

    /// All entries, oldest first.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// All messages, oldest first.
    pub(crate) fn messages(&self) -> Vec<Message> {
        self.entries.iter().map(|entry| entry.message.clone()).collect()
    }

    /// The entries of one run.
    pub(crate) fn of_run<'a>(&'a self, run: &'a RunId) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| entry.run.as_ref() == Some(run))
    }

    pub(crate) fn get(&self, id: &MessageId) -> Option<&Message> {
        self.entries.iter().find(|entry| entry.id == *id).map(|entry| &entry.message)
    }

    /// Adds a message of this run.
    pub(crate) async fn append(&mut self, run: &Run<'_>, message: Message) -> Result<Written, AgentError> {
        match judge(run, message).await {
            Ok(message) => Ok(Written::Stored(self.store(run, run.id.clone(), message).await?)),
            Err(blocked) => Ok(Written::Withheld(blocked)),
        }
    }

    /// Adds the result of a tool call. A result that hooks withhold is replaced by one that says so, since the
    /// call needs an answer. `of` is the run that made the call, where it is not this one.
    pub(crate) async fn append_result(
        &mut self,
        run: &Run<'_>,
        of: Option<&RunId>,
        result: ToolResult,
        synthetic: bool,
    ) -> Result<(), AgentError> {
        let stub = results::withheld(&result.tool_call_id, result.tool_name.as_deref());
        let message = Message::new(
            Role::Tool,
            vec![Part::ToolResult(results::bounded(result, run.session.tools().limits.output_bytes))],
        );
        let judged = match persist(run, message, synthetic).await {
            Ok(message) => {
                judge(run, results::bound_message(message, run.session.tools().limits.output_bytes)).await
            }
            Err(blocked) => Err(blocked),
        };
        let message = judged.unwrap_or_else(|blocked| {
            tracing::info!(
                hook = blocked.hook.as_ref().map(tracing::field::display),
                "a tool result was withheld"
            );
            Message::new(Role::Tool, vec![Part::ToolResult(stub)])
        });
        let of = of.unwrap_or(&run.id).clone();
        self.store(run, of, message).await.map(drop)
    }

    async fn store(
        &mut self,
        run: &Run<'_>,
        of: RunId,
        mut message: Message,
    ) -> Result<MessageId, AgentError> {
        let id = new_message_id();
        message.id = Some(id.clone());
        message.run_id = Some(of.clone());
        let tokens = Some(backstop_llm::estimate_message_tokens(&message));
        let at = Timestamp::now();
        let new = NewEntry { id: id.clone(), run: Some(of.clone()), message: message.clone(), at, tokens };
        run.claim.check()?;
        let (session, holder) = (run.session.id(), run.claim.holder());
        let written = run.agent.store.append(session, holder, vec![new]).await;
        let seqs = run.claim.fenced(written)?;
        let seq = seqs.first().copied().unwrap_or_default();
        self.entries.push(Entry { seq, id: id.clone(), run: Some(of), message, at, tokens });
        Ok(id)
    }

    /// Makes changes, all or none. Of a replacement that hooks withhold nothing stays but the calls and results
    /// that others need.
    pub(crate) async fn edit(&mut self, run: &Run<'_>, edits: Vec<Edit>) -> Result<(), AgentError> {
        if edits.is_empty() {
            return Ok(());
        }
        let edits = judge_edits(run, edits).await;
        let changes = edits.iter().map(|edit| match edit {
            Edit::Replace(id, message) => Change::Replace { id: id.clone(), message: message.clone() },
            Edit::Remove(id) => Change::Remove { id: id.clone() },
        });
        run.claim.check()?;
        let (session, holder) = (run.session.id(), run.claim.holder());
        let written = run.agent.store.apply(session, holder, changes.collect()).await;
        run.claim.fenced(written)?;
        for edit in edits {
            match edit {
                Edit::Remove(id) => self.entries.retain(|entry| entry.id != id),
                Edit::Replace(id, message) => {
                    if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id) {
                        let (id, run) = (Some(entry.id.clone()), entry.run.clone());
                        entry.message = Message { id, run_id: run, ..message };
                        entry.tokens = None;
                    }
                }
            }
        }
        Ok(())
    }

    /// Puts `summary` in place of the entries up to and including `through`. It belongs to no run: what it
    /// says was said before this one. Answers whether it was stored.
    pub(crate) async fn compact(
        &mut self,
        run: &Run<'_>,
        through: u64,
        summary: Message,
    ) -> Result<bool, AgentError> {
        let Ok(mut message) = judge(run, summary).await else { return Ok(false) };
        let id = new_message_id();
        message.id = Some(id.clone());
        message.run_id = None;
        let tokens = Some(backstop_llm::estimate_message_tokens(&message));
        let at = Timestamp::now();
        let summary = NewEntry { id: id.clone(), run: None, message: message.clone(), at, tokens };
        let change = Change::Compact { through, summary };
        run.claim.check()?;
        let (session, holder) = (run.session.id(), run.claim.holder());
        let written = run.agent.store.apply(session, holder, vec![change]).await;
        run.claim.fenced(written)?;
        self.entries.retain(|entry| entry.seq > through);
        self.entries.insert(0, Entry { seq: through, id, run: None, message, at, tokens });
        Ok(true)
    }

    /// Answers the tool calls that have no result, so that the transcript is whole.
    pub(crate) async fn close_open_calls(
        &mut self,
        run: &Run<'_>,
        reason: &str,
    ) -> Result<usize, AgentError> {
        let open = unanswered_calls(&self.entries);
        for call in &open {
            let result = results::interrupted(&call.call, reason);
            self.append_result(run, call.run.as_ref(), result, true).await?;
        }
        Ok(open.len())
    }
}

pub(crate) fn new_message_id() -> MessageId {
    format!("m-{}", uuid::Uuid::now_v7().simple()).into()
}

/// Takes a message through `before_message_write`.
async fn judge(run: &Run<'_>, message: Message) -> Result<Message, Blocked> {
    let frame = Frame::of(&message);
    let event = MessageWriteEvent::new(message)
        .session_key(run.call.session_key.clone())
        .agent_id(run.call.agent_id.clone());
    let decided = run.write::<BeforeMessageWrite>(event).await;
    match decided.blocked {
        Some(blocked) => Err(blocked),
        None if frame.still_holds(&decided.event.message) => Ok(decided.event.message),
        None => Err(out_of_place("before_message_write")),
    }
}

/// Takes a message that carries a tool's result through `tool_result_persist`.
async fn persist(run: &Run<'_>, message: Message, synthetic: bool) -> Result<Message, Blocked> {
    let frame = Frame::of(&message);
    let (tool_name, tool_call_id) = message
        .tool_results()
        .next()
        .map(|result| (result.tool_name.as_deref().map(ToolName::new), result.tool_call_id.clone()))
        .unzip();
    let event = ToolResultPersistEvent::new(tool_name.flatten(), message)
        .tool_call_id(tool_call_id)
        .is_synthetic(synthetic.then_some(true));
    let decided = run.write::<ToolResultPersist>(event).await;
    match decided.blocked {
        Some(blocked) => Err(blocked),
        None if frame.still_holds(&decided.event.message) => Ok(decided.event.message),
        None => Err(out_of_place("tool_result_persist")),
    }
}

async fn judge_edits(run: &Run<'_>, edits: Vec<Edit>) -> Vec<Edit> {
    let mut judged = Vec::with_capacity(edits.len());
    for edit in edits {
        judged.push(match edit {
            Edit::Remove(id) => Edit::Remove(id),
            Edit::Replace(id, message) => {
                let bare = results::bare(&message);
                match (judge(run, message).await, bare) {
                    (Ok(message), _) => Edit::Replace(id, message),
                    (Err(_), Some(bare)) => Edit::Replace(id, bare),
                    (Err(_), None) => Edit::Remove(id),
                }
            }
        });
    }
    judged
}

fn out_of_place(point: &str) -> Blocked {
    Blocked {
        cause: BlockCause::UnstableRewrite { writer: None },
        reason: Some(
            format!("a hook at `{point}` gave the message another place in the conversation").into(),
        ),
        hook: None,
        owner: None,
    }
}

/// What hooks can't change about a message.
struct Frame {
    role: Role,
    calls: Vec<ToolCallId>,
    results: Vec<ToolCallId>,
}

impl Frame {
    fn of(message: &Message) -> Self {
        Self {
            role: message.role,
            calls: message.tool_calls().map(|call| call.id.clone()).collect(),
            results: message.tool_results().map(|result| result.tool_call_id.clone()).collect(),
        }
    }

    fn still_holds(&self, message: &Message) -> bool {
        let now = Self::of(message);
        now.role == self.role && now.results == self.results && now.calls == self.calls
    }
}

/// Facts about a message that are Backstop's own and no provider's.
pub(crate) fn own_meta(name: &str, facts: serde_json::Value) -> Json {
    json!({ "backstop": { name: facts } }).into()
}
