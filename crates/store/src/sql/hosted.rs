//! Questions that the program that made the call puts to its own user.

use backstop_hooks::{AgentId, SessionId, ToolCallId};

use super::{Db, SqlResult, approvals};
use crate::{ANSWERABLE, ApprovalRecord, Timestamp};

/// The most open questions of a session that are looked at.
const MOST_LOOKED_AT: usize = 1_024;

/// A call about which its program may have asked its own user.
#[derive(Clone)]
pub(super) struct Hosted {
    pub(super) agent: AgentId,
    pub(super) session: SessionId,
    pub(super) call: ToolCallId,
}

impl Hosted {
    /// Returns the questions about it that are open.
    pub(super) fn found(&self, db: &Db<'_>, now: Timestamp) -> SqlResult<Vec<ApprovalRecord>> {
        // In these words: that is an index of its own.
        let clause = format!(
            "WHERE status = 'unattended' AND agent = ?1 AND expires_at >= ?2 AND session = ?3 \
             ORDER BY row DESC LIMIT {MOST_LOOKED_AT}"
        );
        let since = now.before(ANSWERABLE);
        let values = [&self.agent.as_str() as _, &since as _, &self.session.as_str() as _];
        let mut found = approvals::readable(db, &clause, &values)?;
        if found.len() == MOST_LOOKED_AT {
            tracing::warn!("a session has so many open questions that one whose call has run may stay open");
        }
        found.retain(|record| record.state.is_hosted() && record.request.call == self.call);
        Ok(found)
    }
}
