//! What waits in a process, for its metrics.

use std::sync::Arc;

use async_trait::async_trait;
use backstop_gateway::{AuditLag, Waiting};
use backstop_store::{AnswerStore, ApprovalFilter};

use crate::audit::{AuditBacklog, AuditSink};
use crate::builder::Backstop;
use crate::traces::Traces;

/// The most questions that are counted: they are read to be counted.
const MOST_COUNTED: usize = 1_000;

struct Backlog {
    answers: Arc<dyn AnswerStore>,
    audit: Option<AuditSink>,
}

#[async_trait]
impl Waiting for Backlog {
    async fn approvals(&self) -> Option<u64> {
        let waiting = self.answers.approvals(ApprovalFilter::Pending, MOST_COUNTED).await.ok()?;
        u64::try_from(waiting.len()).ok()
    }

    fn audit(&self) -> Option<AuditLag> {
        let audit = self.audit.as_ref()?;
        let AuditBacklog { waiting, oldest, lost } = audit.backlog();
        let waiting = u64::try_from(waiting).unwrap_or(u64::MAX);
        Some(AuditLag { waiting, oldest, lost, late: audit.late() })
    }

    fn spans_dropped(&self) -> u64 {
        Traces::dropped()
    }
}

impl Backstop {
    /// What waits for people and for the audit trail, for [`Metrics::ask`](backstop_gateway::Metrics::ask).
    pub fn backlog(&self) -> Arc<dyn Waiting> {
        let answers = Arc::clone(self.engine().answer_store());
        Arc::new(Backlog { answers, audit: self.audit().cloned() })
    }
}
