//! Receipts: the record of one dispatch.
//!
//! A receipt says which hooks were asked, what each answered, what a latch refused, how long it took, and the digest of what was
//! judged. It never contains what was judged: text that is blocked or redacted must not survive in
//! the record of its own removal. What `explain` shows beyond that is captured separately, on request, and
//! stays in memory ([`StepDetail`]).

mod block;
mod failure;
mod step;

use std::borrow::Cow;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use backstop_hooks::{
    AgentId, ApprovalId, CallContext, Digest, DigestForm, FrontEnd, OwnerId, PointId, Requester, Resolution,
    RuleId, RunId, SessionId, SessionKey, Substitute, ToolCallId, ToolName, Trace, TraceId,
};
use backstop_store::{GrantId, audit_id};
use serde::{Serialize, Serializer};

use crate::hook_set::{HookSet, Places};
use crate::runner::shadow::Shadows;

pub use self::block::{BlockCause, Blocked, RecordedBlock};
pub use self::failure::{Failure, FailureKind, FailureMessage};
pub use self::step::{Replaced, Said, Step, StepDetail, Would};

/// The longest folder that a receipt names, in bytes: as long as a path can be on Linux.
const MOST_FOLDER_BYTES: usize = 4096;

fn as_micros<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

/// The result of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it was.
    Pass,
    /// Changed.
    Modify,
    /// Stopped.
    Block,
    /// Taken by a hook.
    Handled,
    /// Watched.
    Observed,
    /// Given up by its caller before it was decided; it had no effect.
    Dropped,
    /// Left to the host, which puts it to its own user. Nothing is permitted here, and what that person says is not known here.
    Ask,
}

impl Verdict {
    /// Returns its word, as receipts in JSON have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Modify => "modify",
            Self::Block => "block",
            Self::Handled => "handled",
            Self::Observed => "observed",
            Self::Dropped => "dropped",
            Self::Ask => "ask",
        }
    }

    pub(crate) fn of(blocked: bool, changed: bool) -> Self {
        match (blocked, changed) {
            (true, _) => Self::Block,
            (false, true) => Self::Modify,
            (false, false) => Self::Pass,
        }
    }
}

/// How a human was asked, and the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalNote {
    /// The request; absent when a grant given earlier answered it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<ApprovalId>,
    /// Whether the host puts it to its own user, of whose answer nothing is known here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hosted: bool,
    /// How it ended; `None` where that is not known here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// What the human put in the place of the call, if that is how it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub substitute: Option<Substitute>,
    /// The digest the human saw.
    pub digest: Digest,
    /// The grants that answered, if grants did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<GrantId>,
    /// The rules that required a human, if the hooks that asked name them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleId>,
}

/// Of which question a call came that a human changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EditedCall {
    /// The question.
    pub approval: ApprovalId,
    /// The digest of the call as it was.
    pub digest: Digest,
    /// Who changed it.
    pub by: String,
}

/// Which agent, session, run and call the dispatch belongs to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallKey {
    /// The agent.
    pub agent_id: Option<AgentId>,
    /// The conversation.
    pub session_key: Option<SessionKey>,
    /// The session.
    pub session_id: Option<SessionId>,
    /// The turn.
    pub run_id: Option<RunId>,
    /// The tool call.
    pub tool_call_id: Option<ToolCallId>,
    /// The tool, as called and canonical.
    pub tool: Option<ToolName>,
    /// The plugin that provides the tool, if one does.
    pub tool_owner: Option<OwnerId>,
    /// The span in which it happened.
    pub trace: Option<Trace>,
    /// Through what it was seen.
    pub front_end: FrontEnd,
    /// The folder that the agent works in.
    pub workspace: Option<String>,
    /// Who asked for it, as far as the host could prove.
    pub requester: Option<Requester>,
}

impl CallKey {
    pub(crate) fn of(call: &CallContext) -> Self {
        Self {
            agent_id: call.agent_id.clone(),
            session_key: call.session_key.clone(),
            session_id: call.session_id.clone(),
            run_id: call.run_id.clone(),
            tool_call_id: None,
            tool: None,
            tool_owner: None,
            trace: call.trace,
            front_end: call.front_end,
            workspace: call.workspace_dir.clone().filter(|folder| !folder.is_empty()),
            requester: call.requester.clone(),
        }
    }
}

/// The record of one dispatch. What is known only if hooks were asked is in its [`Record`], which it
/// dereferences to.
#[derive(Clone, Debug)]
pub struct Receipt {
    /// The dispatch's number in this process; with the process's start it names the dispatch.
    pub seq: u64,
    /// Where.
    pub point: PointId,
    /// What came out.
    pub verdict: Verdict,
    // Absent where no hook was met and nobody reads receipts: such a dispatch allocates nothing.
    // Shared, so that who keeps receipts copies none.
    record: Option<Arc<Record>>,
}

/// What a receipt says about the hooks that were asked.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// When, as Unix milliseconds; 0 for a dispatch that met no hook.
    pub at: u64,
    /// Whose.
    pub key: CallKey,
    /// Why it was stopped.
    pub blocked: Option<RecordedBlock>,
    /// The digest of the value as it came.
    pub original: Option<Digest>,
    /// The digest of the value as it was judged last.
    pub judged: Option<Digest>,
    /// How these two were computed.
    pub form: DigestForm,
    /// The digests of what hooks found besides the value and judged it by.
    pub facts: Vec<Digest>,
    /// How a human was asked, and the result.
    pub approval: Option<ApprovalNote>,
    /// Of which question the value came, if a human changed another one into it.
    pub edited_from: Option<EditedCall>,
    /// Who was asked, in order.
    pub steps: Vec<Step>,
    /// The hooks that there were; absent where nobody reads receipts.
    pub hooks: Option<Arc<HookSet>>,
    /// How long it took, without waiting for a human.
    pub elapsed: Duration,
}

static NO_RECORD: Record = Record {
    at: 0,
    key: CallKey {
        agent_id: None,
        session_key: None,
        session_id: None,
        run_id: None,
        tool_call_id: None,
        tool: None,
        tool_owner: None,
        trace: None,
        front_end: FrontEnd { host: None, client: None },
        workspace: None,
        requester: None,
    },
    blocked: None,
    original: None,
    judged: None,
    form: DigestForm::Whole,
    facts: Vec::new(),
    approval: None,
    edited_from: None,
    steps: Vec::new(),
    hooks: None,
    elapsed: Duration::ZERO,
};

impl Deref for Receipt {
    type Target = Record;

    fn deref(&self) -> &Record {
        self.record.as_deref().unwrap_or(&NO_RECORD)
    }
}

impl Serialize for Receipt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.write(Asked { named: self.steps.iter().collect(), ..Asked::default() }, serializer)
    }
}

/// Who was asked, as a receipt is written.
#[derive(Default)]
struct Asked<'a> {
    named: Vec<&'a Step>,
    /// What the places are about.
    hook_set: Option<Digest>,
    silent: Places,
    silent_again: Places,
}

/// A receipt that shares what is the same in many: hooks that were silent are places in a [`HookSet`], which an entry of
/// its own lists.
#[derive(Clone, Copy, Debug)]
pub struct SharedReceipt<'a>(&'a Receipt);

impl Serialize for SharedReceipt<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(hooks) = &self.0.hooks else { return self.0.serialize(serializer) };
        let (named, silent, silent_again) = hooks.divide(&self.0.steps);
        self.0.write(Asked { named, hook_set: Some(hooks.digest()), silent, silent_again }, serializer)
    }
}

impl Receipt {
    fn write<S: Serializer>(&self, asked: Asked<'_>, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            #[serde(serialize_with = "receipt_id", rename = "id")]
            seq: u64,
            point: PointId,
            at: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            agent_id: &'a Option<AgentId>,
            #[serde(skip_serializing_if = "Option::is_none")]
            session_key: Option<Cow<'a, str>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            session_id: Option<Cow<'a, str>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            run_id: Option<Cow<'a, str>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            tool_call_id: Option<Cow<'a, str>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            tool: Option<Cow<'a, str>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            called_as: Option<Cow<'a, str>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            tool_owner: &'a Option<OwnerId>,
            #[serde(skip_serializing_if = "Option::is_none")]
            trace_id: Option<TraceId>,
            #[serde(skip_serializing_if = "Option::is_none")]
            host: Option<&'static str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            client: Option<&'static str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            workspace: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            requester: &'a Option<Requester>,
            verdict: Verdict,
            #[serde(skip_serializing_if = "Option::is_none")]
            blocked: &'a Option<RecordedBlock>,
            #[serde(skip_serializing_if = "Option::is_none")]
            original: Option<Digest>,
            #[serde(skip_serializing_if = "Option::is_none")]
            judged: Option<Digest>,
            /// Absent for digests of the whole value.
            #[serde(skip_serializing_if = "Option::is_none")]
            digest_version: Option<u32>,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            facts: &'a [Digest],
            #[serde(skip_serializing_if = "Option::is_none")]
            approval: &'a Option<ApprovalNote>,
            #[serde(skip_serializing_if = "Option::is_none")]
            edited_from: &'a Option<EditedCall>,
            #[serde(skip_serializing_if = "Option::is_none")]
            hook_set: Option<Digest>,
            #[serde(skip_serializing_if = "Places::is_empty", serialize_with = "as_text")]
            silent: Places,
            #[serde(skip_serializing_if = "Places::is_empty", serialize_with = "as_text")]
            silent_again: Places,
            steps: Vec<&'a Step>,
            #[serde(rename = "elapsedUs", serialize_with = "as_micros")]
            elapsed: Duration,
        }
        let CallKey { agent_id, session_key, session_id, run_id, tool_call_id, tool, tool_owner, .. } =
            &self.key;
        let CallKey { trace, front_end, workspace, requester, .. } = &self.key;
        let wire = Wire {
            seq: self.seq,
            point: self.point,
            at: self.at,
            agent_id,
            session_key: session_key.as_ref().map(|id| audit_id(id.as_str())),
            session_id: session_id.as_ref().map(|id| audit_id(id.as_str())),
            run_id: run_id.as_ref().map(|id| audit_id(id.as_str())),
            tool_call_id: tool_call_id.as_ref().map(|id| audit_id(id.as_str())),
            tool: tool.as_ref().map(|tool| audit_id(tool.canonical())),
            called_as: tool.as_ref().and_then(ToolName::called_as).map(audit_id),
            tool_owner,
            trace_id: trace.map(|trace| trace.trace_id),
            host: front_end.host,
            client: front_end.client,
            workspace: workspace.as_deref().filter(|folder| folder.len() <= MOST_FOLDER_BYTES),
            requester,
            verdict: self.verdict,
            blocked: &self.blocked,
            original: self.original,
            judged: self.judged,
            digest_version: (self.form != DigestForm::Whole).then(|| self.form.version()),
            facts: &self.facts,
            approval: &self.approval,
            edited_from: &self.edited_from,
            hook_set: asked.hook_set,
            silent: asked.silent,
            silent_again: asked.silent_again,
            steps: asked.named,
            elapsed: self.elapsed,
        };
        wire.serialize(serializer)
    }
}

fn as_text<S: Serializer>(places: &Places, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(places)
}

fn receipt_id<S: Serializer>(seq: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{}-{seq}", process_tag()))
}

/// A tag of this process's start, so that receipts of two processes never share an id.
fn process_tag() -> &'static str {
    static TAG: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    TAG.get_or_init(|| uuid::Uuid::now_v7().simple().to_string())
}

impl Receipt {
    /// Returns the receipt of a dispatch that met no hook.
    pub(crate) fn untouched(point: PointId, verdict: Verdict) -> Self {
        Self { seq: next_seq(), point, verdict, record: None }
    }

    pub(crate) fn of(
        point: PointId,
        verdict: Verdict,
        key: CallKey,
        steps: Vec<Step>,
        elapsed: Duration,
    ) -> Self {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        let record = Record { at, key, steps, elapsed, ..Record::default() };
        Self { record: Some(Arc::new(record)), ..Self::untouched(point, verdict) }
    }

    /// Says which hooks there were.
    pub(crate) fn of_set(mut self, hooks: Option<Arc<HookSet>>) -> Self {
        self.record_mut().hooks = hooks;
        self
    }

    /// Returns the receipt as it is written where another entry lists the set of hooks.
    pub fn shared(&self) -> SharedReceipt<'_> {
        SharedReceipt(self)
    }

    pub(crate) fn record_mut(&mut self) -> &mut Record {
        Arc::make_mut(self.record.get_or_insert_default())
    }

    /// Returns whether hooks were not asked since the call came out of too many others.
    pub(crate) fn is_too_deep(&self) -> bool {
        let is_deep =
            |step: &Step| step.failure.as_ref().is_some_and(|failure| failure.kind == FailureKind::TooDeep);
        self.blocked.as_ref().is_some_and(|blocked| blocked.cause == BlockCause::TooDeep)
            || self.steps.iter().any(is_deep)
    }

    /// Says whose dispatch it was, where nothing is known of it yet.
    pub(crate) fn belongs_to(&mut self, call: &CallContext) {
        if self.record.is_none() {
            let seq = self.seq;
            *self = Self::of(self.point, self.verdict, CallKey::of(call), Vec::new(), Duration::ZERO);
            self.seq = seq;
        }
    }

    /// Notes what hooks in shadow said.
    pub(crate) fn asked_in_shadow(&mut self, shadows: Shadows) {
        let record = self.record_mut();
        record.elapsed = record.elapsed.saturating_add(shadows.elapsed);
        record.steps.extend(shadows.steps);
    }

    /// Notes the digests of the value as it came and as it was judged last.
    pub(crate) fn digested(
        &mut self,
        original: Option<(Digest, DigestForm)>,
        judged: Option<(Digest, DigestForm)>,
    ) {
        let record = self.record_mut();
        record.form = original.or(judged).map(|(_, form)| form).unwrap_or_default();
        record.original = original.map(|(digest, _)| digest);
        record.judged = judged.map(|(digest, _)| digest);
    }

    /// Notes that it was stopped, or that it is left to the host: then it is no block, though nothing is permitted.
    pub(crate) fn stop(&mut self, blocked: &Blocked) {
        let is_hosted = self.approval.as_ref().is_some_and(|note| note.hosted);
        if is_hosted && blocked.is_unanswered() {
            self.verdict = Verdict::Ask;
            return;
        }
        self.verdict = Verdict::Block;
        self.record_mut().blocked = Some(blocked.into());
    }

    /// Notes what hooks said that judged the value once more, after a human had answered.
    pub(crate) fn judged_again(&mut self, again: &Self) {
        let record = self.record_mut();
        record.elapsed = record.elapsed.saturating_add(again.elapsed);
        record.facts.extend(&again.facts);
        record.steps.extend(again.steps.iter().cloned().map(|step| Step { again: true, ..step }));
    }

    /// Returns whether something was stopped or asked: such a receipt is stored before its answer leaves.
    pub fn is_decisive(&self) -> bool {
        self.blocked.is_some() || self.approval.is_some() || self.edited_from.is_some()
    }

    /// Returns the receipt's id as text.
    pub fn id(&self) -> String {
        format!("{}-{}", process_tag(), self.seq)
    }
}

fn next_seq() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The wait until a sink has kept a receipt. Resolves to whether it has.
pub type Keeping = Pin<Box<dyn Future<Output = bool> + Send>>;

/// A consumer that is shown every receipt: the log, the audit trail, a terminal.
///
/// A sink is called after the decision, on the caller's task, and must not block. A sink that needs to
/// wait puts the receipt into a bounded queue of its own. The dispatch may wait for a block or a question: [`Self::keep`].
pub trait ReceiptSink: Send + Sync + 'static {
    /// Records a dispatch.
    fn record(&self, receipt: &Receipt);

    /// Records a dispatch that [stopped or asked](Receipt::is_decisive), before its answer leaves. A sink that
    /// stores receipts permanently returns a future for it, and the answer leaves after that. A block that can't be
    /// stored stays a block; a call that a human allowed does not run if that can't be stored.
    fn keep(&self, receipt: &Receipt) -> Option<Keeping> {
        self.record(receipt);
        None
    }

    /// Returns whether the sink wants receipts of dispatches at `point` that met no hook. If no sink does, the costly
    /// parts are omitted: such a receipt has neither a time nor a key, and no digest.
    fn reads_idle(&self, point: PointId) -> bool {
        let _ = point;
        true
    }
}
