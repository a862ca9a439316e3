//! Approvals: one question to a human about one call, bound to the digest of its final arguments.
//!
//! The question is written to the store before anybody sees it. It therefore survives the process, can be
//! answered from another terminal, and is answered only once: the first answer wins in the store, whoever
//! gives it. A permit requires that the row is *consumed* for exactly the digest that is about to run, which
//! succeeds for one caller only. A call that an earlier grant or a code covers is not asked about again: one about which the same is asked,
//! and which is judged by the same files.
//!
//! No failure here allows a call. If a store can't be reached, a listener panics or a run is
//! dropped, the question ends as denied or cancelled. A store failure is distinguishable from a decision
//! ([`Blocked::is_unavailable`]), and the store's location goes only to the operator's log.
//!
//! The law: *only people answer*. A reason reaches the model, results and transcripts. It therefore says
//! what requires approval and that a person may give it. The code, and the commands that answer, are in the record, for
//! the part of the host that shows it to people.

mod asker;
mod editing;
mod petition;
mod question;
mod routes;

use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{
    ApprovalRequest, CallContext, Contained, DEFAULT_TIMEOUT, Decision, Digest, Reason, Resolution,
    Substitute, ToolCallId,
};
use backstop_store::{
    AnswerStore, ApprovalRecord, ApprovalState, AskingLimits, ConsumeError, CreateApprovalError, EditedFrom,
    GRANT_TTL, GrantId, GrantQuery, GrantTarget, Identity, LeaseHolder, NewApproval, NewGrant, People,
    PersonsAnswer, ResolveError, StoreError, Timestamp, Vote,
};

pub use self::asker::{AskFuture, Asker, Attendance};
pub(crate) use self::editing::{Edit, MAX_EDITS, Put};
pub(crate) use self::petition::{Petition, Withdrawals};
pub(crate) use self::question::{digest_of_facts, session_of};
use self::question::{end_within, query_of, question, rules_of, scope_of, told};
use self::routes::Unroutable;
pub use self::routes::{ApprovalRoute, Routes, ToldSurfaces};
use crate::exhibit::{CONCEALED, Exhibit};
use crate::receipt::{ApprovalNote, BlockCause, Blocked, FailureKind};
use crate::tool_call::tool_call_digest;

/// How approvals are kept.
#[derive(Clone, Debug)]
pub struct ApprovalSettings {
    /// How long an allow-always counts.
    pub grant_ttl: Duration,
    /// How long a question waits for its answer if the hook that asks does not say.
    pub timeout: Duration,
    /// How long the engine waits for the hooks that asked once the answer is known.
    pub listener_budget: Duration,
    /// Those who are known by name when they answer.
    pub people: Arc<People>,
    /// To whom questions go.
    pub routes: Routes,
    /// How much one agent may ask.
    pub limits: AskingLimits,
    /// The account whose agents ask here, if it is that of one person.
    pub account: Option<Identity>,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        Self {
            grant_ttl: GRANT_TTL,
            timeout: DEFAULT_TIMEOUT,
            listener_budget: Duration::from_secs(15),
            people: Arc::default(),
            routes: Routes::default(),
            limits: AskingLimits::default(),
            account: None,
        }
    }
}

/// How a question ended.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) note: ApprovalNote,
    pub(crate) blocked: Option<Blocked>,
    /// What stands in the place of the call, which is blocked then.
    pub(crate) put: Option<Put>,
}

/// How a question is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    /// Who can be asked.
    pub(crate) attendance: &'a Attendance,
    /// Whether a grant or a code that somebody gave earlier answers it: an answer given to one question about the call is none to the next.
    pub(crate) earlier: bool,
    /// Whether the call has placeholders: no grant answers for it, and none comes of it, since with other values in their place it would
    /// be another call.
    pub(crate) sealed: bool,
    /// What may be put in the place of the call.
    pub(crate) substitutes: &'a [Substitute],
    /// The question of which the call came, if a person changed another one into it.
    pub(crate) edited_from: Option<&'a EditedFrom>,
    /// The digest of what hooks judged the call by besides itself.
    pub(crate) facts: Option<Digest>,
}

/// The approvals of one engine.
#[derive(Debug)]
pub(crate) struct Approvals {
    pub(crate) store: Arc<dyn AnswerStore>,
    pub(crate) settings: ApprovalSettings,
    pub(crate) withdrawals: Withdrawals,
}

impl Approvals {
    /// Those who asked, to be told how it ended.
    pub(crate) fn petition(&self, requests: &[ApprovalRequest], call: &CallContext) -> Petition {
        Petition::new(requests, call, self.settings.listener_budget, self.withdrawals.clone())
    }

    /// Tells those who asked that nobody needs to answer.
    pub(crate) async fn cancel(&self, requests: &[ApprovalRequest], call: &CallContext) {
        if !requests.is_empty() {
            self.petition(requests, call).end(Resolution::Cancelled).await;
        }
    }

    /// Ends the questions about a call that its host put to its own user, since its tool has run. Where that fails, they stay as they were: nothing is
    /// allowed by it.
    pub(crate) async fn host_ran(&self, call: &CallContext, id: &ToolCallId) {
        let (agent, session) = (question::agent_of(call), session_of(call.session_id.as_ref()));
        if let Err(error) = self.store.end_hosted_approvals(&agent, &session, id, Timestamp::now()).await {
            tracing::warn!(%error, "that a tool has run can't be written to its question");
        }
    }

    /// Gets an answer about a call from a human, or from a grant or a code that one gave earlier.
    pub(crate) async fn settle(
        &self,
        exhibit: &Exhibit<'_>,
        requests: &[ApprovalRequest],
        terms: Terms<'_>,
    ) -> Settled {
        let Terms { sealed, .. } = terms;
        let Exhibit { event, call, .. } = *exhibit;
        let mut petition = self.petition(requests, call);
        let digest = tool_call_digest(event);
        let timeout = self.settings.timeout;
        let mut question = question(event, digest, requests, timeout, call, Timestamp::now(), sealed);
        question.edited_from = terms.edited_from.cloned();
        question.facts = terms.facts;
        question.substitutes = terms.substitutes.to_vec();
        let requester = routes::requester_of(call, self.settings.account.as_ref());
        let routed =
            self.settings.routes.route(&mut question, requests, &self.settings.people, requester.as_ref());
        editing::offered(&mut question, event);
        let attendance = terms.attendance.of_question(question.route.is_some());
        let terms = Terms { attendance: &attendance, ..terms };
        let is_routed = routed.is_err() || question.route.is_some();
        let queries: Option<Vec<_>> = match sealed {
            true => Some(Vec::new()),
            // INVARIANT (a grant holds no secret): it is about the question as people are shown it. What can't be shown is granted by nobody.
            false => requests.iter().map(|request| shown_query(exhibit, request, &question)).collect(),
        };
        let queries = queries.unwrap_or_default();
        let asking = Asking {
            exhibit,
            requests,
            queries,
            offered: question.allowed_decisions.clone(),
            digest,
            title: exhibit.masked(&question.title).unwrap_or_else(|| CONCEALED.to_owned()),
        };
        let answered = match routed {
            Ok(()) => Box::pin(self.answer(question, &asking, terms, &mut petition)).await,
            Err(unroutable) => Ok(Answered::unroutable(unroutable, &asking)),
        };
        let answered = match answered {
            Ok(answered) if is_routed => answered.kept_from_the_host(),
            Ok(answered) => answered,
            Err(error) => Answered::unasked(&error).kept_from_the_host(),
        };
        let Answered { resolution, record, grants, blocked, put } = answered;
        let objection = petition.end(resolution).await;
        let rules = rules_of(requests);
        let (substitute, put) = put.unzip();
        // Who objects to the end of a question does not want that anything comes of it.
        let put = put.filter(|_| objection.is_none());
        let hosted = record.as_ref().is_some_and(|record| record.state.is_hosted());
        let id = record.map(|record| record.id);
        // INVARIANT (nobody else may answer): what leads to certain people was never filed so.
        let resolution = if hosted { None } else { Some(resolution) };
        let note = ApprovalNote { id, hosted, resolution, substitute, digest, grants, rules };
        Settled { note, blocked: blocked.or(objection), put }
    }

    async fn answer(
        &self,
        mut question: NewApproval,
        asking: &Asking<'_>,
        terms: Terms<'_>,
        petition: &mut Petition,
    ) -> Result<Answered, AskError> {
        let Terms { attendance, earlier, .. } = terms;
        let Asking { exhibit, offered, .. } = asking;
        let now = question.created_at;
        let offers_once = offered.contains(&Decision::AllowOnce);
        if earlier && let Some(grants) = self.granted(asking, now).await? {
            let resolution = Resolution::AllowAlways;
            return Ok(Answered { resolution, record: None, grants, blocked: None, put: None });
        }
        exhibit.show(&mut question);
        if earlier
            && offers_once
            && let Some(record) = self.store.take_allowance(&scope_of(&question), now).await?
        {
            return Ok(Answered::allowed(Resolution::AllowOnce, record));
        }
        // Only now it is known whether silence allows it: who has to allow it, and whether all of it is shown.
        if let Attendance::Present(asker) = attendance
            && let Some(patience) = asker.patience()
        {
            end_within(&mut question, patience);
        }
        let unattended = match attendance {
            Attendance::Present(_) | Attendance::Queue => None,
            Attendance::Nobody => Some("nobody is there to ask; "),
            Attendance::Host | Attendance::HostOr(_) => Some("where nobody can be asked, "),
        };
        if let Some(circumstances) = unattended {
            // Nobody waits who could take it.
            question.substitutes.clear();
            // What leads to certain people, that user may not answer.
            let hosted =
                matches!(attendance, Attendance::Host | Attendance::HostOr(_)) && question.route.is_none();
            let limits = &self.settings.limits;
            let record = match hosted {
                true => self.store.file_hosted_approval(question, limits).await?,
                false => self.store.file_approval(question, true, limits).await?,
            };
            let way = match offers_once {
                true => BY_A_PERSON,
                false => "the call can't be allowed afterwards",
            };
            let told =
                format!("approval needed: {}{}\n{circumstances}{way}", record.request.title, asking.told());
            let reason = Reason::fixed("approval.needed", told);
            return Ok(Answered::denied(Resolution::Cancelled, Some(record), reason));
        }
        question.waiter = Some(LeaseHolder::unique());
        // Of processes that were killed.
        self.store.expire_approvals(now).await?;
        let record = petition.open(&self.store, question, self.settings.limits).await?;
        let record = self.wait(record, attendance).await?;
        match record.state {
            ApprovalState::Edited(_) | ApprovalState::Responded(_) => self.substituted(record, asking).await,
            _ => self.conclude(record, asking).await,
        }
    }

    /// Returns the earlier grants that cover the requests, if they cover every one.
    async fn granted(&self, asking: &Asking<'_>, now: Timestamp) -> Result<Option<Vec<GrantId>>, StoreError> {
        let queries = &asking.queries;
        if queries.is_empty() || !asking.offered.contains(&Decision::AllowAlways) {
            return Ok(None);
        }
        for query in queries {
            if self.store.find_grant(query, now).await?.is_none() {
                return Ok(None);
            }
        }
        let mut grants = Vec::with_capacity(queries.len());
        for query in queries {
            // Revoked between the two looks: the revocation wins.
            let Some(grant) = self.store.use_grant(query, now).await? else { return Ok(None) };
            if !grants.contains(&grant.id) {
                grants.push(grant.id);
            }
        }
        Ok(Some(grants))
    }

    /// Waits for the first answer, from here or from elsewhere, and no longer than the deadline.
    async fn wait(
        &self,
        record: ApprovalRecord,
        attendance: &Attendance,
    ) -> Result<ApprovalRecord, AskError> {
        // An answer at the deadline itself still counts, so it is over one tick later.
        let until = record.request.expires_at.after(Duration::from_millis(1));
        let id = record.id.clone();
        let mut elsewhere = self.store.wait_approval(&id, until);
        let answered = match attendance {
            Attendance::Present(asker) => {
                let here = Contained::new(Box::pin(async { asker.ask(&record).await }));
                tokio::select! {
                    ended = &mut elsewhere => ended?,
                    said = here => match said {
                        Ok(Some(decision)) => {
                            let answerer = asker.answerer(&self.settings.people);
                            let answer = PersonsAnswer::new(decision, answerer, Timestamp::now());
                            match self.resolve(&record, answer).await? {
                                // Others have to answer as well, or instead.
                                Some(record) if record.state == ApprovalState::Pending => elsewhere.await?,
                                answered => answered,
                            }
                        }
                        Ok(None) | Err(_) => elsewhere.await?,
                    },
                }
            }
            Attendance::Queue | Attendance::Nobody | Attendance::Host | Attendance::HostOr(_) => {
                elsewhere.await?
            }
        };
        // INVARIANT (a clock that is set loses nothing): whoever asked has waited as long as it may, so it is over.
        let ended = match answered {
            Some(answered) if answered.state == ApprovalState::Pending => {
                self.store.end_waiting(&id, Timestamp::now()).await?
            }
            answered => answered,
        };
        Ok(ended.unwrap_or(record))
    }

    /// Writes an answer down, and returns the question as it is then. Losing the race to another terminal is fine: its answer is the one that counts.
    async fn resolve(
        &self,
        record: &ApprovalRecord,
        answer: PersonsAnswer,
    ) -> Result<Option<ApprovalRecord>, AskError> {
        match self.store.answer_approval(&record.id, answer).await {
            Ok(resolved) => Ok(Some(resolved.record)),
            Err(
                ResolveError::AlreadyResolved { .. }
                | ResolveError::Expired { .. }
                | ResolveError::NotAsked(_)
                | ResolveError::OtherVote { .. },
            ) => Ok(self.store.approval(&record.id).await?),
            Err(error) => Err(AskError::Resolve(error)),
        }
    }

    async fn conclude(&self, record: ApprovalRecord, asking: &Asking<'_>) -> Result<Answered, AskError> {
        // Of what was denied the record has no words any more.
        let Asking { requests, digest, title, .. } = asking;
        let now = Timestamp::now();
        let resolution = match &record.state {
            ApprovalState::Allowed(allowance) => Resolution::from(allowance.decision),
            ApprovalState::TimedOut { .. } => Resolution::Timeout,
            ApprovalState::Denied { .. } => Resolution::Deny,
            _ => Resolution::Cancelled,
        };
        let silence_allows = record.request.silence_allows();
        let refusal = match resolution {
            Resolution::AllowOnce | Resolution::AllowAlways => None,
            Resolution::Timeout if silence_allows => None,
            Resolution::Timeout => {
                let own = requests.iter().find_map(ApprovalRequest::reason_of_timeout);
                let why = own.and_then(|own| asking.exhibit.masked(own));
                let why = why.unwrap_or_else(|| format!("approval timed out: {title}"));
                let text = format!("{why}{}\n{BY_A_PERSON}", asking.told());
                Some(Reason::fixed("approval.timed-out", text))
            }
            Resolution::Deny => {
                let word = match &record.state {
                    ApprovalState::Denied { word: Some(word), .. } => format!("\nthe human says: {word}"),
                    _ => String::new(),
                };
                let text = format!("denied by a human: {title}. the tool call did not run{word}");
                Some(Reason::fixed("approval.denied", text))
            }
            Resolution::Cancelled => {
                Some(Reason::fixed("approval.cancelled", format!("approval cancelled: {title}")))
            }
        };
        if let Some(reason) = refusal {
            return Ok(Answered::denied(resolution, Some(record), reason));
        }
        // INVARIANT (what the human saw): consuming fails for any other digest, and for a second caller.
        match self.store.consume_approval(&record.id, digest, now).await {
            Ok(_) => {}
            Err(ConsumeError::Store(error)) => return Err(error.into()),
            Err(error) => {
                tracing::error!(%error, "an approval could not be used");
                let told = "approval can't be used: it is for another call, or was used or closed meanwhile";
                let reason = Reason::fixed("approval.unusable", told);
                return Ok(Answered::denied(Resolution::Cancelled, Some(record), reason));
            }
        }
        if resolution == Resolution::AllowAlways {
            self.grant(&record, asking, now).await?;
        }
        Ok(Answered::allowed(resolution, record))
    }

    /// Writes an allow-always down, for each who asked, unless another call of the same kind was answered so meanwhile, or whoever
    /// answered has written down how far it reaches: a call that is beyond that adds nothing to it.
    async fn grant(
        &self,
        record: &ApprovalRecord,
        asking: &Asking<'_>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let ApprovalState::Allowed(allowance) = &record.state else { return Ok(()) };
        if allowance.has_grants {
            return Ok(());
        }
        let is_theirs = |vote: &&Vote| vote.decision == Decision::AllowAlways && vote.by == allowance.by;
        let person = record.votes.iter().find(is_theirs).map(|vote| vote.person.clone());
        for query in &asking.queries {
            if self.store.find_grant(query, now).await?.is_some() {
                continue;
            }
            self.store
                .add_grant(NewGrant {
                    agent: query.agent.clone(),
                    tool_name: query.tool_name.clone(),
                    place: query.place.clone(),
                    question: query.question.clone(),
                    target: GrantTarget::Call { digest: query.digest, facts: query.facts },
                    origin: Some(record.into()),
                    title: query.question.title.clone(),
                    created_by: allowance.by.clone(),
                    person: person.clone(),
                    created_at: now,
                    expires_at: now.after(self.settings.grant_ttl),
                    most_uses: None,
                })
                .await?;
        }
        Ok(())
    }
}

/// What the model is told of a call that can be allowed after the fact. INVARIANT (only people answer): neither the code
/// nor a command that answers is in it, since whoever reads it could run that.
const BY_A_PERSON: &str = "a person can allow this exact call once, in Backstop's list of approvals; after that you may call it again";

/// Why no answer could be got. Its words name files and codes: they are for the operator's log and for nobody else.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error(transparent)]
    Create(#[from] CreateApprovalError),
    #[error("the store broke while it wrote the question down")]
    Broken,
    #[error("the answer can't be used: {0}")]
    Resolve(ResolveError),
    #[error("the store that keeps approvals failed: {0}")]
    Store(#[from] StoreError),
}

impl AskError {
    /// Returns what whoever made the call is told, and whether nobody could judge it.
    fn told(&self) -> (String, bool) {
        let failed = |error: &StoreError| (format!("the store that keeps approvals {}", error.kind()), true);
        match self {
            Self::Store(error)
            | Self::Create(CreateApprovalError::Store(error))
            | Self::Resolve(ResolveError::Store(error)) => failed(error),
            Self::Broken => ("the store that keeps approvals broke".to_owned(), true),
            Self::Create(
                error @ (CreateApprovalError::TooLarge(_) | CreateApprovalError::TooMany { .. }),
            ) => (error.to_string(), false),
            // What the store says of these names the code.
            Self::Resolve(ResolveError::NotOffered { decision, .. }) => {
                let decision = match decision {
                    Decision::AllowOnce => "allow-once",
                    Decision::AllowAlways => "allow-always",
                    Decision::Deny => "deny",
                };
                (format!("the question can't be answered with {decision}"), false)
            }
            Self::Resolve(ResolveError::Unseen { .. }) => {
                let told = "the question shows a part of its arguments only, so it can't be allowed yet";
                (told.to_owned(), false)
            }
            Self::Resolve(_) => ("the answer can't be used".to_owned(), false),
        }
    }
}

/// What is asked about one call.
struct Asking<'a> {
    exhibit: &'a Exhibit<'a>,
    requests: &'a [ApprovalRequest],
    /// What grants must cover to answer it; nothing for a call that none answers.
    queries: Vec<GrantQuery>,
    /// What may be answered.
    offered: Vec<Decision>,
    /// Of the call.
    digest: Digest,
    /// The question in one line, with its secrets masked.
    title: String,
}

impl Asking<'_> {
    /// Returns who asks, and why, for whoever made the call. INVARIANT (who is judged is told no more than who is asked): what the question does not
    /// show is not in it.
    fn told(&self) -> String {
        self.exhibit.masked(&told(self.requests)).unwrap_or_default()
    }
}

/// Returns which grants would cover a request, by its title as it is shown; `None` if that can't be shown.
fn shown_query(
    exhibit: &Exhibit<'_>,
    request: &ApprovalRequest,
    question: &NewApproval,
) -> Option<GrantQuery> {
    let mut query = query_of(request, question);
    query.question.title = exhibit.masked(&query.question.title)?.into();
    Some(query)
}

struct Answered {
    resolution: Resolution,
    record: Option<ApprovalRecord>,
    /// The grants that answered it.
    grants: Vec<GrantId>,
    blocked: Option<Blocked>,
    /// What stands in the place of the call.
    put: Option<(Substitute, Put)>,
}

impl Answered {
    fn allowed(resolution: Resolution, record: ApprovalRecord) -> Self {
        Self { resolution, record: Some(record), grants: Vec::new(), blocked: None, put: None }
    }

    /// Nobody could be asked. Where that is since the store failed it is no decision, and is told apart from one.
    fn unasked(error: &AskError) -> Self {
        tracing::error!(%error, "a question about a tool call could not be asked");
        let (why, is_unavailable) = error.told();
        let told = format!("approval needed, and it could not be asked for: {why}");
        let rule = match error {
            AskError::Create(CreateApprovalError::TooMany { .. }) => "approval.too-many",
            _ => "approval.failed",
        };
        let reason = Reason::fixed(rule, told);
        if !is_unavailable {
            return Self::denied(Resolution::Cancelled, None, reason);
        }
        let cause = BlockCause::Failure { kind: FailureKind::Unreachable };
        let blocked = Blocked { cause, reason: Some(reason), hook: None, owner: None };
        let resolution = Resolution::Cancelled;
        Self { resolution, record: None, grants: Vec::new(), blocked: Some(blocked), put: None }
    }

    /// Nobody may answer.
    fn unroutable(why: Unroutable, asking: &Asking<'_>) -> Self {
        tracing::warn!(%why, "a question about a tool call leads to nobody");
        let told = format!("approval needed: {}{}\n{why}", asking.title, asking.told());
        let mut denied = Self::denied(Resolution::Cancelled, None, Reason::fixed("approval.nobody", told));
        if let Some(blocked) = &mut denied.blocked {
            blocked.cause = BlockCause::Approval { resolution: Resolution::Deny };
        }
        denied
    }

    /// INVARIANT (nobody else may answer): what was cancelled a host may ask its own user, of whom nobody knows who it is. So what lacks
    /// the answer of somebody else is stopped as what nobody answered. So is what could not be asked: that user would be asked without the
    /// question, as often as an agent that asks too much wants it, and nothing would tell of it.
    fn kept_from_the_host(mut self) -> Self {
        if let Some(Blocked { cause: BlockCause::Approval { resolution }, .. }) = &mut self.blocked
            && *resolution == Resolution::Cancelled
        {
            *resolution = Resolution::Timeout;
        }
        self
    }

    fn denied(resolution: Resolution, record: Option<ApprovalRecord>, reason: Reason) -> Self {
        let cause = BlockCause::Approval { resolution };
        let blocked = Blocked { cause, reason: Some(reason), hook: None, owner: None };
        Self { resolution, record, grants: Vec::new(), blocked: Some(blocked), put: None }
    }
}
