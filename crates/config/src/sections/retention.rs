//! `retention`: how long stored data is kept. Only the operator can set it: the store holds the sessions, approvals and
//! audit entries of all folders, and neither a longer nor a shorter time is clearly the stricter one. A repository that
//! could shorten it could have the traces of its agent deleted; one that could lengthen it could keep the secrets of
//! others.

use crate::config_value::section;
use crate::place::Spanned;
use crate::values::Whole;

/// A number of days, up to a hundred years.
pub type Days = Whole<1, 36_500>;
/// A number of things.
pub type Most = Whole<1, 1_000_000_000_000>;

section! {
    /// How long what is stored is kept; without a bound, for ever. What is deleted is wiped from the files, and each
    /// deletion is said in the audit trail. A session that a process works in is left alone.
    pub struct Retention {
        /// Sessions, with everything that is kept of them.
        sessions ("sessions"): KeptSessions, OperatorOnly;
        /// Transcripts of sessions that stay.
        transcripts ("transcripts"): KeptTranscripts, OperatorOnly;
        /// Approvals that are settled.
        approvals ("approvals"): KeptApprovals, OperatorOnly;
        /// Entries of the audit trail. What goes leaves its digest, and the rest still verifies.
        audit ("audit"): KeptAudit, OperatorOnly;
    }
}

section! {
    /// How long sessions are kept.
    pub struct KeptSessions {
        /// For so many days after something last happened in one.
        days ("days"): Option<Spanned<Days>>, OperatorOnly;
        /// The newest so many.
        most ("most"): Option<Spanned<Most>>, OperatorOnly;
    }
}

section! {
    /// How long transcripts are kept.
    pub struct KeptTranscripts {
        /// For so many days after something last happened in the session.
        days ("days"): Option<Spanned<Days>>, OperatorOnly;
        /// So many bytes of all transcripts together; those of the sessions with the oldest activity go first.
        bytes ("max_bytes"): Option<Spanned<Most>>, OperatorOnly;
    }
}

section! {
    /// How long settled approvals are kept.
    pub struct KeptApprovals {
        /// For so many days after their deadline.
        days ("days"): Option<Spanned<Days>>, OperatorOnly;
        /// The newest so many.
        most ("most"): Option<Spanned<Most>>, OperatorOnly;
    }
}

section! {
    /// How long entries of the audit trail are kept.
    pub struct KeptAudit {
        /// For so many days: receipts of what passed, and what processes write about themselves.
        days ("days"): Option<Spanned<Days>>, OperatorOnly;
        /// Decisions: blocks, questions, answers, grants, deletions, and whatever is not named above.
        decisions ("decisions"): KeptDecisions, OperatorOnly;
        /// The newest so many.
        most ("most"): Option<Spanned<Most>>, OperatorOnly;
    }
}

section! {
    /// How long decisions in the audit trail are kept.
    pub struct KeptDecisions {
        /// For so many days; without it, four times as long as what passed.
        days ("days"): Option<Spanned<Days>>, OperatorOnly;
    }
}
