//! Pages that are read: what passes, sessions, and what judges.

use backstop_console::Policy;
use backstop_store::{GrantId, Timestamp};
use http::StatusCode;

use super::{Answer, Trouble, Visit, form, html, see_other};

/// The most rows of a list.
const MOST: usize = 200;

impl Visit<'_> {
    pub(super) fn reads(&self) -> Result<(), Trouble> {
        if self.seat.may_read() { Ok(()) } else { Err(Trouble::Scope) }
    }
}

pub(super) fn live(visit: &Visit<'_>) -> Answer {
    visit.reads()?;
    Ok(html(StatusCode::OK, backstop_console::live(&visit.viewer())))
}

pub(super) async fn sessions(visit: &Visit<'_>) -> Answer {
    visit.reads()?;
    let sessions = visit.engine.store().sessions(MOST).await.map_err(|_| Trouble::Store)?;
    let (is_cut, now) = (sessions.len() == MOST, Timestamp::now());
    Ok(html(StatusCode::OK, backstop_console::sessions(&visit.viewer(), &sessions, is_cut, now)))
}

pub(super) async fn policy(visit: &Visit<'_>) -> Answer {
    visit.reads()?;
    let hooks = visit.engine.registry().list();
    let grants = visit.engine.answer_store().grants(MOST).await.map_err(|_| Trouble::Store)?;
    let done =
        (form::query(visit.head, "revoked") == "1").then_some("Revoked: it answers nothing from now on.");
    let policy = Policy { hooks: &hooks, grants: &grants, done };
    Ok(html(StatusCode::OK, backstop_console::policy(&visit.viewer(), &policy, Timestamp::now())))
}

/// Revokes a grant. That makes nothing milder, so it is done wherever grants are kept.
pub(super) async fn revoke(visit: &Visit<'_>, id: &str) -> Answer {
    if !visit.seat.may_answer() {
        return Err(Trouble::Scope);
    }
    let (id, by) = (GrantId::new(id), visit.seat.by());
    let revoked = visit.engine.answer_store().revoke_grant(&id, &by, Timestamp::now());
    revoked.await.map_err(|_| Trouble::Store)?.ok_or(Trouble::Nothing)?;
    Ok(see_other("/-/console/policy?revoked=1"))
}
