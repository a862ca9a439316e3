//! Receipts: the record of one dispatch.
//!
//! Who was asked, what each said, what a latch refused, how long it took, and the digest of what was
//! judged. A receipt never holds what was judged: text that is blocked or redacted must not survive in
//! the trail of its own removal. What `explain` shows beyond that is captured apart, on request, and
//! stays in memory ([`StepDetail`]).

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use backstop_hooks::{
    AgentId, ApprovalId, CallContext, Digest, FailurePolicy, HookError, HookId, HookLoad, OwnerId, PointId,
    Reason, RecordedReason, Resolution, RuleId, RunId, SessionId, SessionKey, Text, ToolCallId, ToolName,
};
use backstop_store::GrantId;
use serde::{Serialize, Serializer};
use serde_json::Value;

#[cfg(doc)]
use crate::MAX_DEPTH;
use crate::foreign::TOO_DEEP;
use crate::hook_options::HookMeta;
use crate::operator::FailureSource;
use crate::redaction::SpanCount;

/// How a hook failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// It said so.
    Failed,
    /// What it depends on can't be reached.
    Unreachable,
    /// It answered something that is no outcome of its point.
    Malformed,
    /// It panicked.
    Panicked,
    /// Its budget was used up.
    TimedOut,
    /// As many of its calls were under way as there may be.
    Overloaded,
    /// It was not asked: the call comes from too deep inside of hooks.
    TooDeep,
}

/// A hook has no answer.
///
/// A record has the message where it is Backstop's own, and the digest of it where it is the hook's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// How.
    pub kind: FailureKind,
    /// In words, without values of the event.
    pub message: FailureMessage,
}

/// What is said of a failure.
#[derive(Clone, PartialEq, Eq)]
pub enum FailureMessage {
    /// Backstop says it, in words that are the same for every event.
    Own(Cow<'static, str>),
    /// The hook says it, in words that may name anything.
    OfHook(Text),
}

impl FailureMessage {
    /// The words.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Own(message) => message,
            Self::OfHook(message) => message,
        }
    }
}

impl Deref for FailureMessage {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for FailureMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for FailureMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(message) => fmt::Debug::fmt(message, f),
            Self::OfHook(message) => fmt::Debug::fmt(message, f),
        }
    }
}

impl Serialize for Failure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Wire<'a> {
            kind: FailureKind,
            #[serde(skip_serializing_if = "Option::is_none")]
            message: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            digest: Option<Digest>,
        }
        let (message, digest) = match &self.message {
            FailureMessage::Own(message) => (Some(&**message), None),
            FailureMessage::OfHook(message) => (None, Some(Digest::of_text("failure", message))),
        };
        Wire { kind: self.kind, message, digest }.serialize(serializer)
    }
}

impl Failure {
    /// Whether a hook that failed like this stops the value.
    pub fn blocks(&self, policy: FailurePolicy) -> bool {
        match policy {
            FailurePolicy::Closed => true,
            FailurePolicy::Open => false,
            FailurePolicy::OpenIfUnreachable => {
                !matches!(self.kind, FailureKind::Unreachable | FailureKind::TimedOut)
            }
        }
    }

    pub(crate) fn panicked() -> Self {
        // The panic's own message may quote the event, so it is not taken over.
        Self { kind: FailureKind::Panicked, message: FailureMessage::Own("the hook panicked".into()) }
    }

    /// An answer that makes no sense, in words that quote nothing.
    pub(crate) fn malformed(message: &'static str) -> Self {
        Self { kind: FailureKind::Malformed, message: FailureMessage::Own(message.into()) }
    }

    pub(crate) fn timed_out(budget: Duration, load: Option<HookLoad>) -> Self {
        let load = load.map(|load| format!("; {load}")).unwrap_or_default();
        let message = format!("no answer within {} ms{load}", budget.as_millis());
        Self { kind: FailureKind::TimedOut, message: FailureMessage::Own(message.into()) }
    }

    pub(crate) fn overloaded(message: String) -> Self {
        Self { kind: FailureKind::Overloaded, message: FailureMessage::Own(message.into()) }
    }

    pub(crate) fn too_deep() -> Self {
        Self { kind: FailureKind::TooDeep, message: FailureMessage::Own(TOO_DEEP.into()) }
    }

    /// A failure in the hook's own words, unless they quote the event they are about.
    pub(crate) fn of<E: Serialize>(error: &HookError, event: &E) -> Self {
        let kind = match error {
            HookError::Unreachable(_) => FailureKind::Unreachable,
            HookError::Malformed(_) => FailureKind::Malformed,
            HookError::Overloaded(_) => FailureKind::Overloaded,
            HookError::Panicked => FailureKind::Panicked,
            _ => FailureKind::Failed,
        };
        let message: String = error.to_string().chars().take(MAX_MESSAGE_CHARS).collect();
        let quotes = serde_json::to_value(event).is_ok_and(|event| quotes(&message, &event));
        let message = match quotes {
            true => FailureMessage::Own("its message quotes what it judged, and is not kept".into()),
            false => FailureMessage::OfHook(message.into()),
        };
        Self { kind, message }
    }
}

/// Most characters of a failure's message.
const MAX_MESSAGE_CHARS: usize = 300;
/// From this length on, a text of the event that a message repeats counts as quoted.
const QUOTE_CHARS: usize = 6;
/// A run of characters this long that both have counts as quoted at the latest when it is twice as long.
const OVERLAP_CHARS: usize = 12;

/// Whether `message` repeats a text of `event`, or a longer piece of one.
fn quotes(message: &str, event: &Value) -> bool {
    match event {
        Value::String(text) => {
            (text.chars().count() >= QUOTE_CHARS && message.contains(text.trim())) || overlaps(message, text)
        }
        Value::Array(items) => items.iter().any(|item| quotes(message, item)),
        Value::Object(fields) => fields.values().any(|field| quotes(message, field)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn overlaps(message: &str, text: &str) -> bool {
    let chars: Vec<char> = message.chars().collect();
    chars.chunks_exact(OVERLAP_CHARS).any(|piece| text.contains(&*String::from_iter(piece)))
}

/// What a hook did with the value, all in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    /// No opinion.
    Nothing,
    /// An answer that changed nothing.
    Pass,
    /// It changed the value.
    Rewrote,
    /// It wants a human to be asked.
    Asked,
    /// It stopped the value.
    Blocked,
    /// It took the event.
    Handled,
    /// It has no answer.
    Failed,
}

/// What a step saw and said, for `explain` only; never serialised, never stored.
#[derive(Clone)]
pub struct StepDetail {
    /// The event as the hook saw it.
    pub saw: Value,
    /// Its answer.
    pub said: Value,
}

impl fmt::Debug for StepDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StepDetail(..)")
    }
}

/// One hook's part in a dispatch.
#[derive(Clone, Debug)]
pub struct Step {
    /// The hook.
    pub hook: Arc<HookMeta>,
    /// What it said.
    pub said: Said,
    /// Whether this was the second round, in which gates judge the final value again.
    pub again: bool,
    /// Fields of its answer that were not taken: a latch refused them, or its rewrite gave way.
    pub refused: Vec<&'static str>,
    /// The hook to which its optional rewrite gave way.
    pub yielded_to: Option<HookId>,
    /// The hook whose optional rewrite was shown to it here; the value itself stood meanwhile.
    pub proposal_of: Option<HookId>,
    /// What others had set and it set to something else, where the last hook to set a key wins.
    pub replaced: Box<[Replaced]>,
    /// What it found, by kind and number.
    pub spans: Vec<SpanCount>,
    /// How it failed.
    pub failure: Option<Failure>,
    /// It failed at a gate, and what its failure means let the value pass all the same; whose word that was is in
    /// [`HookMeta::failure_source`].
    pub passed_despite_failure: bool,
    /// How long it took.
    pub elapsed: Duration,
    /// What it saw and said, when the dispatch was to be explained.
    pub detail: Option<Box<StepDetail>>,
}

/// A value that a later hook set to something else. The values themselves are not in a receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replaced {
    /// What it is a value of: the variable.
    pub key: String,
    /// The hook that had set it.
    pub of: HookId,
}

impl Step {
    /// The step of a hook that has said nothing yet.
    pub(crate) fn of(hook: Arc<HookMeta>) -> Self {
        Self {
            hook,
            said: Said::Nothing,
            again: false,
            refused: Vec::new(),
            yielded_to: None,
            proposal_of: None,
            replaced: Box::default(),
            spans: Vec::new(),
            failure: None,
            passed_despite_failure: false,
            elapsed: Duration::ZERO,
            detail: None,
        }
    }
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            hook: &'a HookId,
            owner: &'a OwnerId,
            point: PointId,
            said: Said,
            #[serde(skip_serializing_if = "is_false")]
            again: bool,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            refused: &'a [&'static str],
            #[serde(skip_serializing_if = "Option::is_none")]
            yielded_to: Option<&'a HookId>,
            #[serde(skip_serializing_if = "Option::is_none")]
            proposal_of: Option<&'a HookId>,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            replaced: &'a [Replaced],
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            spans: &'a [SpanCount],
            #[serde(skip_serializing_if = "Option::is_none")]
            failure: Option<&'a Failure>,
            #[serde(skip_serializing_if = "Option::is_none")]
            on_failure: Option<FailurePolicy>,
            #[serde(skip_serializing_if = "Option::is_none")]
            failure_source: Option<FailureSource>,
            #[serde(skip_serializing_if = "is_false")]
            passed_despite_failure: bool,
            #[serde(rename = "elapsedUs", serialize_with = "as_micros")]
            elapsed: Duration,
        }
        let HookMeta { id, owner, point, on_failure, failure_source, .. } = &*self.hook;
        let failed = self.failure.is_some();
        let wire = Wire {
            hook: id,
            owner,
            point: *point,
            said: self.said,
            again: self.again,
            refused: &self.refused,
            yielded_to: self.yielded_to.as_ref(),
            proposal_of: self.proposal_of.as_ref(),
            replaced: &self.replaced,
            spans: &self.spans,
            failure: self.failure.as_ref(),
            on_failure: failed.then_some(*on_failure),
            failure_source: failed.then_some(*failure_source),
            passed_despite_failure: self.passed_despite_failure,
            elapsed: self.elapsed,
        };
        wire.serialize(serializer)
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn as_micros<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

/// Why a value was stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "cause")]
pub enum BlockCause {
    /// A hook said so.
    Decision,
    /// A hook failed.
    Failure {
        /// How.
        kind: FailureKind,
    },
    /// A hook would change again a value that had been judged already.
    UnstableRewrite {
        /// The hook that wrote the value.
        #[serde(skip_serializing_if = "Option::is_none")]
        writer: Option<HookId>,
    },
    /// `after_llm_call` had removed the call from the answer.
    Withheld,
    /// It comes from too deep inside of hooks, and no hook was asked; see [`MAX_DEPTH`].
    TooDeep,
    /// A human was to be asked, and did not allow it.
    Approval {
        /// How the request ended.
        resolution: Resolution,
    },
}

/// A value was stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocked {
    /// Why, in a program's terms.
    pub cause: BlockCause,
    /// Why, in words, for whoever is told. At `before_agent_run` it is internal.
    pub reason: Option<Reason>,
    /// By which hook.
    pub hook: Option<HookId>,
    /// Whose hook.
    pub owner: Option<OwnerId>,
}

/// A block as a receipt has it: without the words of its reason, which quote what was judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedBlock {
    /// Why, in a program's terms.
    #[serde(flatten)]
    pub cause: BlockCause,
    /// By which rules, and the digest of the words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<RecordedReason>,
    /// By which hook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook: Option<HookId>,
    /// Whose hook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerId>,
}

impl From<&Blocked> for RecordedBlock {
    fn from(blocked: &Blocked) -> Self {
        Self {
            cause: blocked.cause.clone(),
            reason: blocked.reason.as_ref().map(Reason::recorded),
            hook: blocked.hook.clone(),
            owner: blocked.owner.clone(),
        }
    }
}

impl Blocked {
    /// The reason, or a plain sentence where none was given.
    pub fn reason_or_default(&self) -> Text {
        self.reason.clone().map(Text::from).unwrap_or_else(|| match &self.hook {
            Some(hook) => format!("blocked by {hook}").into(),
            None => "blocked".into(),
        })
    }
}

/// What came out of a dispatch.
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
    /// Given up before it was decided, by whoever waited for it: nothing came of it.
    Dropped,
}

impl Verdict {
    pub(crate) fn of(blocked: bool, changed: bool) -> Self {
        match (blocked, changed) {
            (true, _) => Self::Block,
            (false, true) => Self::Modify,
            (false, false) => Self::Pass,
        }
    }
}

/// How a human was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalNote {
    /// The request; absent when a grant given earlier answered it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<ApprovalId>,
    /// How it ended.
    pub resolution: Resolution,
    /// The digest the human saw.
    pub digest: Digest,
    /// The grants that answered, if it was they.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<GrantId>,
    /// The rules that wanted a human, where the hooks that asked name them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleId>,
}

/// Whose dispatch it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
        }
    }
}

/// The record of one dispatch. What is known only where hooks were asked is in its [`Record`], which it
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

/// What a receipt says of the hooks that were asked.
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
    /// How a human was asked.
    pub approval: Option<ApprovalNote>,
    /// Who was asked, in order.
    pub steps: Vec<Step>,
    /// How long it took, waiting for a human not included.
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
    },
    blocked: None,
    original: None,
    judged: None,
    approval: None,
    steps: Vec::new(),
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
            session_key: &'a Option<SessionKey>,
            #[serde(skip_serializing_if = "Option::is_none")]
            session_id: &'a Option<SessionId>,
            #[serde(skip_serializing_if = "Option::is_none")]
            run_id: &'a Option<RunId>,
            #[serde(skip_serializing_if = "Option::is_none")]
            tool_call_id: &'a Option<ToolCallId>,
            #[serde(skip_serializing_if = "Option::is_none")]
            tool: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            called_as: Option<&'a str>,
            verdict: Verdict,
            #[serde(skip_serializing_if = "Option::is_none")]
            blocked: &'a Option<RecordedBlock>,
            #[serde(skip_serializing_if = "Option::is_none")]
            original: Option<Digest>,
            #[serde(skip_serializing_if = "Option::is_none")]
            judged: Option<Digest>,
            #[serde(skip_serializing_if = "Option::is_none")]
            approval: &'a Option<ApprovalNote>,
            steps: &'a [Step],
            #[serde(rename = "elapsedUs", serialize_with = "as_micros")]
            elapsed: Duration,
        }
        let CallKey { agent_id, session_key, session_id, run_id, tool_call_id, tool } = &self.key;
        let wire = Wire {
            seq: self.seq,
            point: self.point,
            at: self.at,
            agent_id,
            session_key,
            session_id,
            run_id,
            tool_call_id,
            tool: tool.as_ref().map(ToolName::canonical),
            called_as: tool.as_ref().and_then(ToolName::called_as),
            verdict: self.verdict,
            blocked: &self.blocked,
            original: self.original,
            judged: self.judged,
            approval: &self.approval,
            steps: &self.steps,
            elapsed: self.elapsed,
        };
        wire.serialize(serializer)
    }
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
    /// The receipt of a dispatch that met no hook.
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

    pub(crate) fn record_mut(&mut self) -> &mut Record {
        Arc::make_mut(self.record.get_or_insert_default())
    }

    /// Says whose dispatch it was, where nothing is known of it yet.
    pub(crate) fn belongs_to(&mut self, call: &CallContext) {
        if self.record.is_none() {
            let seq = self.seq;
            *self = Self::of(self.point, self.verdict, CallKey::of(call), Vec::new(), Duration::ZERO);
            self.seq = seq;
        }
    }

    /// Notes that it was stopped.
    pub(crate) fn stop(&mut self, blocked: &Blocked) {
        self.verdict = Verdict::Block;
        self.record_mut().blocked = Some(blocked.into());
    }

    /// Notes what hooks said that judged the value once more, after a human had answered.
    pub(crate) fn judged_again(&mut self, again: &Self) {
        let record = self.record_mut();
        record.elapsed = record.elapsed.saturating_add(again.elapsed);
        record.steps.extend(again.steps.iter().cloned().map(|step| Step { again: true, ..step }));
    }

    /// Whether something was stopped or asked: it is kept before its answer leaves.
    pub fn is_decisive(&self) -> bool {
        self.blocked.is_some() || self.approval.is_some()
    }

    /// The receipt's id as text.
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

/// Somebody who is shown every receipt: the log, the audit trail, a terminal.
///
/// A sink is called after the decision, on the caller's task; it must not wait. A sink that needs to
/// wait puts the receipt into a bounded queue of its own. What stopped or asked may be waited for: [`Self::keep`].
pub trait ReceiptSink: Send + Sync + 'static {
    /// Takes note of a dispatch.
    fn record(&self, receipt: &Receipt);

    /// Takes note of a dispatch that [stopped or asked](Receipt::is_decisive), before its answer leaves. A sink that
    /// keeps receipts for good answers with the wait for it, and the answer leaves after that. A block that can't be
    /// kept stays a block; a call that a human allowed does not run where that can't be kept.
    fn keep(&self, receipt: &Receipt) -> Option<Keeping> {
        self.record(receipt);
        None
    }

    /// Whether it wants to know of dispatches at `point` that met no hook. What nobody wants to know is not put
    /// together: such a receipt says neither when nor whose, and has no digest, which is what it costs.
    fn reads_idle(&self, point: PointId) -> bool {
        let _ = point;
        true
    }
}
