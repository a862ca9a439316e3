//! Approvals: one question to a human about one call, bound to the digest of its final arguments.
//!
//! The question is a row in the store before anybody is shown it, so that it survives the process, can be
//! answered from another terminal, and is answered once: the first answer wins in the store, whoever
//! gives it. A permit needs the row to be *consumed* for the very digest that is about to run, which
//! succeeds for one caller only. What an earlier grant or a code covers is not asked again.
//!
//! Nothing here allows by failing: a store that can't be reached, a listener that panics, a run that is
//! dropped all end as denied or cancelled.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{
    ApprovalRequest, CallContext, Decision, HookId, OwnerId, Resolution, Severity, Text, TimeoutBehavior,
};
use backstop_store::{
    AllowanceScope, ApprovalReason, ApprovalRecord, ApprovalState, CreateApprovalError, GrantQuery,
    GrantTarget, NewApproval, NewGrant, Store, StoreError, Timestamp, preview,
};

use crate::receipt::{ApprovalNote, BlockCause, Blocked};
use crate::tool_call::tool_call_digest;

/// A human's answer, or `None` when this asker can't get one.
pub type AskFuture<'a> = Pin<Box<dyn Future<Output = Option<Decision>> + Send + 'a>>;

/// Shows a question to a human and brings the answer back. Dropped when the question was answered
/// elsewhere or timed out. This is the seam for other ways of asking: consoles, channels.
pub trait Asker: Send + Sync + 'static {
    /// Asks. The record is already in the store; the answer is written there by the caller.
    fn ask<'a>(&'a self, record: &'a ApprovalRecord) -> AskFuture<'a>;

    /// Who answers through this asker, for the record.
    fn name(&self) -> &str;
}

/// Who can be asked.
#[derive(Clone)]
pub enum Attendance {
    /// Somebody sits at this asker; others may answer through the store.
    Present(Arc<dyn Asker>),
    /// Nobody is here, but the run waits for an answer through the store.
    Queue,
    /// Nobody is here and the run does not wait: denied, with a code by which a human can allow it later.
    Nobody,
}

impl fmt::Debug for Attendance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Present(asker) => write!(f, "Present({})", asker.name()),
            Self::Queue => f.write_str("Queue"),
            Self::Nobody => f.write_str("Nobody"),
        }
    }
}

/// How approvals are kept.
#[derive(Clone, Debug)]
pub struct ApprovalSettings {
    /// How long an allow-always counts; `None` for no end.
    pub grant_ttl: Option<Duration>,
    /// How long whoever asked is waited for once the answer is known.
    pub listener_budget: Duration,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        Self {
            grant_ttl: Some(Duration::from_secs(30 * 24 * 3600)),
            listener_budget: Duration::from_secs(15),
        }
    }
}

/// How a question ended.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) note: ApprovalNote,
    pub(crate) blocked: Option<Blocked>,
}

/// The approvals of one engine.
#[derive(Debug)]
pub(crate) struct Approvals {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) settings: ApprovalSettings,
}

impl Approvals {
    /// Gets an answer for `event` from a grant, a code, or a human.
    pub(crate) async fn settle(
        &self,
        event: &ToolCallEvent,
        requests: &[ApprovalRequest],
        call: &CallContext,
        attendance: &Attendance,
    ) -> Settled {
        let digest = tool_call_digest(event);
        let asked = self.answer(event, requests, call, attendance).await;
        let (resolution, id, mut blocked) = match asked {
            Ok(answered) => (answered.resolution, answered.record.map(|record| record.id), answered.blocked),
            Err(error) => {
                let reason = format!("approval needed, and it could not be asked for: {error}");
                (Resolution::Cancelled, None, Some(denied(Resolution::Cancelled, reason)))
            }
        };
        let objection = tell(requests, resolution, self.settings.listener_budget).await;
        if let (None, Some((reason, request))) = (&blocked, objection) {
            blocked = Some(Blocked {
                cause: BlockCause::Decision,
                reason: Some(reason),
                hook: request.hook().cloned(),
                owner: request.owner().cloned(),
            });
        }
        Settled { note: ApprovalNote { id, resolution, digest }, blocked }
    }

    async fn answer(
        &self,
        event: &ToolCallEvent,
        requests: &[ApprovalRequest],
        call: &CallContext,
        attendance: &Attendance,
    ) -> Result<Answered, AskError> {
        let digest = tool_call_digest(event);
        let now = Timestamp::now();
        let question = question(event, requests, call, now);
        let scope = AllowanceScope {
            agent: question.agent.clone(),
            session_key: question.session_key.clone(),
            tool_name: question.tool_name.clone(),
            digest,
        };
        if self.granted(&scope, requests, now).await? {
            return Ok(Answered::by_grant());
        }
        if let Some(record) = self.store.take_allowance(&scope, now).await? {
            return Ok(Answered::allowed(Resolution::AllowOnce, record));
        }
        if let Attendance::Nobody = attendance {
            let record = self.store.create_unattended_approval(question).await?;
            let reason = format!(
                "approval needed: {}. nobody is there to ask; a human can allow this exact call once with `backstop allow-once {}`, after which you may call it again",
                record.request.title, record.code
            );
            return Ok(Answered::denied(Resolution::Cancelled, record, reason));
        }
        let record = self.store.create_approval(question).await?;
        let mut cancel = CancelOnDrop::new(&self.store, &record);
        let record = self.wait(&record, attendance).await?;
        cancel.disarm();
        self.conclude(record, requests, &scope).await
    }

    /// Whether earlier grants cover every request: the very call, or all that the hook asks about.
    async fn granted(
        &self,
        scope: &AllowanceScope,
        requests: &[ApprovalRequest],
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let queries = requests.iter().map(|request| {
            let (owner, hook) = asker_of(request);
            GrantQuery {
                agent: scope.agent.clone(),
                tool_name: scope.tool_name.clone(),
                digest: scope.digest,
                owner,
                hook,
            }
        });
        let queries: Vec<_> = queries.collect();
        for (query, request) in queries.iter().zip(requests) {
            let offered = request.allowed_decisions().contains(&Decision::AllowAlways);
            if !offered || self.store.find_grant(query, now).await?.is_none() {
                return Ok(false);
            }
        }
        for query in &queries {
            // Revoked between the two looks: the revocation wins.
            if self.store.use_grant(query, now).await?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn wait(
        &self,
        record: &ApprovalRecord,
        attendance: &Attendance,
    ) -> Result<ApprovalRecord, StoreError> {
        let until = record.request.expires_at;
        let elsewhere = self.store.wait_approval(&record.id, until);
        let ended = match attendance {
            Attendance::Present(asker) => {
                let mut elsewhere = std::pin::pin!(elsewhere);
                tokio::select! {
                    ended = &mut elsewhere => ended?,
                    decision = asker.ask(record) => match decision {
                        Some(decision) => {
                            // Losing the race to another terminal is fine: its answer is the one that counts.
                            let _ = self.store.resolve_approval(&record.id, decision, asker.name(), Timestamp::now()).await;
                            self.store.approval(&record.id).await?
                        }
                        None => elsewhere.await?,
                    },
                }
            }
            Attendance::Queue | Attendance::Nobody => elsewhere.await?,
        };
        self.store.expire_approvals(Timestamp::now()).await?;
        let latest = self.store.approval(&record.id).await?;
        Ok(latest.or(ended).unwrap_or_else(|| record.clone()))
    }

    async fn conclude(
        &self,
        record: ApprovalRecord,
        requests: &[ApprovalRequest],
        scope: &AllowanceScope,
    ) -> Result<Answered, AskError> {
        let now = Timestamp::now();
        let title = record.request.title.clone();
        let resolution = match &record.state {
            ApprovalState::Allowed(allowance) => Resolution::from(allowance.decision),
            ApprovalState::TimedOut { .. } => Resolution::Timeout,
            ApprovalState::Denied { .. } => Resolution::Deny,
            _ => Resolution::Cancelled,
        };
        let may_run = matches!(resolution, Resolution::AllowOnce | Resolution::AllowAlways)
            || (resolution == Resolution::Timeout
                && record.request.timeout_behavior == TimeoutBehavior::Allow);
        if !may_run {
            let reason = match resolution {
                Resolution::Deny => format!("denied by a human: {title}. the tool call did not run"),
                Resolution::Timeout => format!(
                    "approval timed out: {title}. a human can allow this exact call once with `backstop allow-once {}`",
                    record.code
                ),
                _ => format!("approval cancelled: {title}"),
            };
            return Ok(Answered::denied(resolution, record, reason));
        }
        // INVARIANT (what the human saw): consuming fails for any other digest, and for a second caller.
        if let Err(error) = self.store.consume_approval(&record.id, &scope.digest, now).await {
            return Ok(Answered::denied(
                Resolution::Cancelled,
                record,
                format!("approval can't be used: {error}"),
            ));
        }
        if resolution == Resolution::AllowAlways {
            self.grant(&record, requests, scope, now).await?;
        }
        Ok(Answered::allowed(resolution, record))
    }

    async fn grant(
        &self,
        record: &ApprovalRecord,
        requests: &[ApprovalRequest],
        scope: &AllowanceScope,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let ApprovalState::Allowed(allowance) = &record.state else { return Ok(()) };
        if self.granted(scope, requests, now).await? {
            return Ok(());
        }
        self.store
            .add_grant(NewGrant {
                agent: scope.agent.clone(),
                tool_name: scope.tool_name.clone(),
                target: GrantTarget::Call { digest: scope.digest },
                title: record.request.title.clone(),
                created_by: allowance.by.clone(),
                created_at: now,
                expires_at: self.settings.grant_ttl.map(|ttl| now.after(ttl)),
            })
            .await
            .map(drop)
    }
}

/// Why no answer could be got.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error(transparent)]
    Create(#[from] CreateApprovalError),
    #[error("the store that keeps approvals failed: {0}")]
    Store(#[from] StoreError),
}

struct Answered {
    resolution: Resolution,
    record: Option<ApprovalRecord>,
    blocked: Option<Blocked>,
}

impl Answered {
    fn by_grant() -> Self {
        Self { resolution: Resolution::AllowAlways, record: None, blocked: None }
    }

    fn allowed(resolution: Resolution, record: ApprovalRecord) -> Self {
        Self { resolution, record: Some(record), blocked: None }
    }

    fn denied(resolution: Resolution, record: ApprovalRecord, reason: String) -> Self {
        Self { resolution, record: Some(record), blocked: Some(denied(resolution, reason)) }
    }
}

fn denied(resolution: Resolution, reason: String) -> Blocked {
    Blocked {
        cause: BlockCause::Approval { resolution },
        reason: Some(reason.into()),
        hook: None,
        owner: None,
    }
}

fn asker_of(request: &ApprovalRequest) -> (OwnerId, HookId) {
    (
        request.owner().cloned().unwrap_or_else(|| OwnerId::new("")),
        request.hook().cloned().unwrap_or_else(|| HookId::new("")),
    )
}

/// One question out of several requests: the gravest one leads, the strictest limits hold.
fn question(
    event: &ToolCallEvent,
    requests: &[ApprovalRequest],
    call: &CallContext,
    now: Timestamp,
) -> NewApproval {
    let gravest = requests.iter().rev().max_by_key(|request| request.severity_level());
    let offered = [Decision::AllowOnce, Decision::AllowAlways, Decision::Deny]
        .into_iter()
        .filter(|decision| requests.iter().all(|request| request.allowed_decisions().contains(decision)));
    let timeout = requests.iter().map(ApprovalRequest::timeout_after).min().unwrap_or_default();
    let all_allow = requests.iter().all(|request| request.timeout_behavior() == TimeoutBehavior::Allow);
    let session = call.session_id.clone().unwrap_or_else(|| "none".into());
    NewApproval {
        agent: call.agent_id.clone().unwrap_or_else(|| "default".into()),
        session_key: call.session_key.clone().unwrap_or_else(|| session.as_str().into()),
        session,
        run: event.run_id.clone().or_else(|| call.run_id.clone()),
        call: event.tool_call_id.clone().unwrap_or_else(|| "".into()),
        tool_name: event.tool_name.as_str().to_owned(),
        digest: tool_call_digest(event),
        title: gravest.map_or_else(|| Text::from("approval needed"), |request| request.title().clone()),
        description: gravest.map(|request| request.description().clone()).unwrap_or_default(),
        severity: gravest.map_or(Severity::Warning, ApprovalRequest::severity_level),
        reasons: requests
            .iter()
            .map(|request| {
                let (owner, hook) = asker_of(request);
                ApprovalReason {
                    owner,
                    hook,
                    title: request.title().clone(),
                    description: request.description().clone(),
                    severity: request.severity_level(),
                }
            })
            .collect(),
        preview: preview(&event.params.to_value()),
        allowed_decisions: offered.collect(),
        created_at: now,
        expires_at: now.after(timeout),
        timeout_behavior: if all_allow { TimeoutBehavior::Allow } else { TimeoutBehavior::Deny },
    }
}

/// Tells whoever asked how it ended. The first that objects, or fails to answer, stops the call.
pub(crate) async fn tell(
    requests: &[ApprovalRequest],
    resolution: Resolution,
    budget: Duration,
) -> Option<(Text, &ApprovalRequest)> {
    let mut objection = None;
    for request in requests {
        let Some(listener) = request.resolution_listener() else { continue };
        let listening = std::panic::catch_unwind(AssertUnwindSafe(|| listener(resolution)));
        let said = match listening {
            // A task of its own, so that a panic in it is an error here.
            Ok(future) => tokio::time::timeout(budget, tokio::spawn(future)).await,
            Err(_) => return Some((Text::from("the hook that asked panicked when it was told"), request)),
        };
        let reason = match said {
            Ok(Ok(reason)) => reason,
            Ok(Err(_)) => Some(Text::from("the hook that asked panicked when it was told")),
            Err(_) => Some(Text::from("the hook that asked did not take the answer in time")),
        };
        if let (Some(reason), None) = (reason, &objection) {
            objection = Some((reason, request));
        }
    }
    objection
}

/// A run that is dropped while it waits releases its question.
struct CancelOnDrop {
    store: Arc<dyn Store>,
    record: ApprovalRecord,
    armed: bool,
}

impl CancelOnDrop {
    fn new(store: &Arc<dyn Store>, record: &ApprovalRecord) -> Self {
        Self { store: Arc::clone(store), record: record.clone(), armed: true }
    }

    fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let (store, id) = (Arc::clone(&self.store), self.record.id.clone());
        // Without a runtime the process is going away, and the row's deadline ends the question.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = store.cancel_approval(&id, Timestamp::now()).await;
            });
        }
    }
}
