//! The hooks that asked, until they are told how the question ended.
//!
//! The law: *every request ends exactly once*. If a petition is dropped because its run was dropped, it
//! ends as cancelled: its row is closed, and the hooks that asked are told. This holds from the moment the row is
//! requested, because a store may have written it before the dropped run heard of it. Once the notification has
//! begun, it completes on its own.

use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{
    ApprovalId, ApprovalRequest, CallContext, HookId, Nesting, OnResolution, OwnerId, Reason, Resolution,
};
use backstop_store::{
    AnswerStore, ApprovalRecord, AskingLimits, CreateApprovalError, NewApproval, Timestamp,
};
use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::AskError;
use crate::foreign::Foreign;
use crate::receipt::{BlockCause, Blocked};

pub(crate) struct Petition {
    listeners: Vec<Listener>,
    budget: Duration,
    open: Option<Row>,
    withdrawals: Withdrawals,
}

/// The petitions that are being closed, also those that were dropped: each has a receiver.
#[derive(Clone, Debug, Default)]
pub(crate) struct Withdrawals(Arc<watch::Sender<()>>);

impl Withdrawals {
    /// Waits until no petition is being closed.
    pub(crate) async fn end(&self) {
        self.0.closed().await;
    }
}

/// A row that waits for an answer, or is about to.
struct Row {
    store: Arc<dyn AnswerStore>,
    creating: JoinHandle<Result<ApprovalRecord, CreateApprovalError>>,
    /// Known once it is created.
    id: Option<ApprovalId>,
}

impl Row {
    async fn cancel(self) {
        let id = match self.id {
            Some(id) => Some(id),
            None => self.creating.await.ok().and_then(Result::ok).map(|record| record.id),
        };
        if let Some(id) = id {
            // A row that has its answer stays as it is. Where the store fails, the row's deadline ends the question.
            let _ = self.store.cancel_approval(&id, Timestamp::now()).await;
        }
    }
}

struct Listener {
    told: OnResolution,
    hook: Option<HookId>,
    owner: Option<OwnerId>,
    /// Of the call that was asked about.
    nesting: Nesting,
}

impl Petition {
    pub(crate) fn new(
        requests: &[ApprovalRequest],
        call: &CallContext,
        budget: Duration,
        withdrawals: Withdrawals,
    ) -> Self {
        let listeners = requests.iter().filter_map(|request| {
            Some(Listener {
                told: request.resolution_listener().cloned()?,
                hook: request.hook().cloned(),
                owner: request.owner().cloned(),
                nesting: call.nesting.clone(),
            })
        });
        Self { listeners: listeners.collect(), budget, open: None, withdrawals }
    }

    /// Opens the row of the question. From now on it is not left waiting for nobody, also when whoever waits
    /// for this very step is dropped.
    pub(super) async fn open(
        &mut self,
        store: &Arc<dyn AnswerStore>,
        question: NewApproval,
        limits: AskingLimits,
    ) -> Result<ApprovalRecord, AskError> {
        let (writer, store) = (Arc::clone(store), Arc::clone(store));
        let creating = tokio::spawn(async move { writer.file_approval(question, false, &limits).await });
        let row = self.open.insert(Row { store, creating, id: None });
        let created = match (&mut row.creating).await {
            Ok(created) => created.map_err(AskError::from),
            Err(_) => Err(AskError::Broken),
        };
        match &created {
            Ok(record) => row.id = Some(record.id.clone()),
            Err(_) => self.open = None,
        }
        created
    }

    /// Tells everybody. The first of those who object, or who fail to take the answer, stops the call.
    pub(crate) async fn end(mut self, resolution: Resolution) -> Option<Blocked> {
        let telling = self.telling(resolution)?;
        // A task of its own: whoever waits for it here may be dropped, the telling may not. That it is under way is known until its end, as
        // where the petition itself is dropped.
        let under_way = self.withdrawals.0.subscribe();
        let told = async move {
            let told = telling.await;
            drop(under_way);
            told
        };
        tokio::spawn(told).await.unwrap_or_else(|_| Some(objection("the hook that asked could not be told")))
    }

    /// Closes what is open and tells everybody; `None` if there is nothing to do.
    fn telling(
        &mut self,
        resolution: Resolution,
    ) -> Option<impl Future<Output = Option<Blocked>> + Send + 'static> {
        let (listeners, open) = (std::mem::take(&mut self.listeners), self.open.take());
        let budget = self.budget;
        if listeners.is_empty() && open.is_none() {
            return None;
        }
        Some(async move {
            if let Some(row) = open {
                row.cancel().await;
            }
            let told = listeners.iter().map(|listener| listener.tell(resolution, budget));
            join_all(told).await.into_iter().flatten().next()
        })
    }
}

impl Drop for Petition {
    fn drop(&mut self) {
        // Without a runtime the process is going away, and the row's deadline ends the question.
        let Ok(runtime) = Handle::try_current() else { return };
        let under_way = self.withdrawals.0.subscribe();
        if let Some(telling) = self.telling(Resolution::Cancelled) {
            runtime.spawn(async move {
                telling.await;
                drop(under_way);
            });
        }
    }
}

impl Listener {
    async fn tell(&self, resolution: Resolution, budget: Duration) -> Option<Blocked> {
        let listening = Box::pin(async { (self.told)(resolution).await });
        let listening = Foreign::new(&self.nesting, listening);
        let objection = match timeout(budget, listening).await {
            Ok(Ok(None)) => return None,
            Ok(Ok(Some(reason))) => Blocked { reason: Some(reason.into()), ..objection("") },
            Ok(Err(_)) => objection("the hook that asked panicked when it was told"),
            Err(_) => objection("the hook that asked did not take the answer in time"),
        };
        Some(Blocked { hook: self.hook.clone(), owner: self.owner.clone(), ..objection })
    }
}

fn objection(reason: &str) -> Blocked {
    let reason = Reason::fixed("approval.objection", reason);
    Blocked { cause: BlockCause::Decision, reason: Some(reason), hook: None, owner: None }
}
