//! Talking with the own agent.
//!
//! Laws:
//!
//! - *Only who may administer talks*: the agent uses tools with the rights of the server's account, which is more than answering what it asks.
//! - *Who talks asked for what the agent does*, and is its requester in receipts and questions: whoever is barred from answering their own calls stays barred.
//! - *A conversation is its person's*: nobody else sees, stops or goes on with it here, and for others it is not there. What was said is a session like
//!   others, which whoever may read sees.
//! - *Who may talk no more is not worked for*: a run ends with the token, or the sign-in, by which its message came.

use std::sync::Arc;

use backstop_console::{ChatDesk, ChatPage, ChatWaiting, ToolState, chat, chat_part, chats};
use backstop_hooks::SessionId;
use backstop_store::{ApprovalStatus, Timestamp};
use http::{Response, StatusCode};

use super::form::Form;
use super::sessions::Seat;
use super::{Answer, PageError, PageRequest, html, see_other};
use crate::chat::{Chat, ChatLine, ChatPerson, ChatSeen, MOST_MESSAGE};
use crate::server::answer::AnswerBody;

/// The questions that are looked at for those of a conversation, and the most of these that are shown.
const LOOKED_AT: usize = 300;
const MOST_WAITING: usize = 20;
/// The most bytes of a form with a message, in which each byte may take three, and a line break two of them.
pub(super) const MOST_FORM: usize = 8 * MOST_MESSAGE;

/// Returns who talks; `None` for whoever may not.
pub(super) fn person(seat: &Seat) -> Option<ChatPerson> {
    let holder = seat.holder();
    let user = holder.user.as_deref().filter(|_| seat.may_administer() && holder.agent.is_none())?;
    Some(match &holder.vouched {
        None => ChatPerson::user(user),
        Some(vouched) => ChatPerson::signed_in(&vouched.issuer, &vouched.subject, user),
    })
}

impl PageRequest<'_> {
    fn talks(&self) -> Result<ChatPerson, PageError> {
        person(&self.seat).ok_or(PageError::Scope)
    }

    /// Who talks, and with whom.
    fn talks_with(&self) -> Result<(ChatPerson, &Arc<dyn Chat>), PageError> {
        let who = self.talks()?;
        Ok((who, self.shared.chat.as_ref().ok_or(PageError::Nothing)?))
    }
}

/// The page on which conversations begin.
pub(super) fn all(request: &PageRequest<'_>) -> Answer {
    listed(request, None)
}

fn listed(request: &PageRequest<'_>, told: Option<&str>) -> Answer {
    let who = request.talks()?;
    let Some(host) = &request.shared.chat else {
        return Ok(html(StatusCode::OK, chats(&request.viewer(), &ChatDesk::Off, None)));
    };
    let status = if told.is_some() { StatusCode::CONFLICT } else { StatusCode::OK };
    let page = match host.agent() {
        Err(why) => chats(&request.viewer(), &ChatDesk::Missing(&why), told),
        Ok(agent) => chats(&request.viewer(), &ChatDesk::Open { agent: &agent, own: &host.open(&who) }, told),
    };
    Ok(html(status, page))
}

/// The page of one.
pub(super) async fn one(request: &PageRequest<'_>, id: &str) -> Answer {
    Ok(html(StatusCode::OK, shown(request, id, &Shown::Page { told: None, kept: "" }).await?))
}

/// What of it comes in meanwhile.
pub(super) async fn part(request: &PageRequest<'_>, id: &str) -> Answer {
    Ok(html(StatusCode::OK, shown(request, id, &Shown::Part).await?))
}

enum Shown<'a> {
    /// The whole page, why something was not done, and what was typed for nothing.
    Page {
        told: Option<&'a str>,
        kept: &'a str,
    },
    Part,
}

async fn shown(request: &PageRequest<'_>, id: &str, how: &Shown<'_>) -> Result<String, PageError> {
    let ((who, host), session) = (request.talks_with()?, named(id)?);
    let seen = host.seen(&who, &session);
    if seen.is_none() && !is_own(request, &who, &session).await? {
        return Err(PageError::Nothing);
    }
    let (waiting, is_cut) = match &seen {
        Some(seen) if is_judged(seen) => waiting(request, &session).await?,
        _ => (Vec::new(), false),
    };
    let (told, kept) = match how {
        Shown::Page { told, kept } => (*told, *kept),
        Shown::Part => (None, ""),
    };
    let page = ChatPage { id, seen: seen.as_ref(), waiting: &waiting, is_cut, kept, most: MOST_MESSAGE };
    Ok(match how {
        Shown::Page { .. } => chat(&request.viewer(), &page, told),
        Shown::Part => chat_part(&page).into_string(),
    })
}

/// Whether a call may wait for a person.
fn is_judged(seen: &ChatSeen) -> bool {
    seen.is_running
        && seen
            .lines
            .iter()
            .any(|line| matches!(line, ChatLine::Tool(call) if call.state == ToolState::Judged))
}

/// The id of a session, as far as it can be one.
pub(super) fn named(id: &str) -> Result<SessionId, PageError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if id.is_empty() || id.len() > 128 || !id.bytes().all(is_plain) {
        return Err(PageError::Nothing);
    }
    Ok(SessionId::from(id.to_owned()))
}

async fn is_own(request: &PageRequest<'_>, who: &ChatPerson, session: &SessionId) -> Result<bool, PageError> {
    let found = request.engine.store().session(session).await.map_err(|_| PageError::Store)?;
    Ok(found.is_some_and(|found| found.key == who.key()))
}

/// The questions of a conversation that wait, and whether there are more than were looked at.
async fn waiting(request: &PageRequest<'_>, id: &SessionId) -> Result<(Vec<ChatWaiting>, bool), PageError> {
    let open = request.engine.answer_store().open_approvals(Timestamp::now(), 0, LOOKED_AT);
    let open = open.await.map_err(|_| PageError::Store)?.records;
    let is_cut = open.len() >= LOOKED_AT;
    let own = open.into_iter().filter(|record| record.request.session == *id);
    let own = own.filter(|record| record.state.status() == ApprovalStatus::Pending).take(MOST_WAITING);
    let waiting: Vec<_> = own
        .map(|record| ChatWaiting {
            title: record.request.title.as_str().to_owned(),
            call: record.request.call.to_string(),
            id: record.id,
        })
        .collect();
    let is_cut = is_cut && waiting.is_empty();
    Ok((waiting, is_cut))
}

pub(super) async fn begin(request: &PageRequest<'_>) -> Answer {
    let (who, host) = request.talks_with()?;
    match host.begin(&who).await {
        Ok(id) => Ok(to(&id)),
        Err(why) => listed(request, Some(&why)),
    }
}

pub(super) async fn go_on(request: &PageRequest<'_>, id: &str) -> Answer {
    let ((who, host), session) = (request.talks_with()?, named(id)?);
    if !is_own(request, &who, &session).await? {
        return Err(PageError::Nothing);
    }
    match host.go_on(&who, &session).await {
        Ok(()) => Ok(to(&session)),
        Err(why) => refused(request, id, &why, "").await,
    }
}

pub(super) async fn say(request: &PageRequest<'_>, id: &str, form: &Form) -> Answer {
    let ((who, host), session) = (request.talks_with()?, named(id)?);
    let message = form.one("message")?.replace("\r\n", "\n");
    let life = request.seat.holder().life.clone();
    match host.say(&who, &session, message.clone(), Box::pin(life.over())) {
        Ok(()) => Ok(to(&session)),
        Err(why) => refused(request, id, &why, &message).await,
    }
}

pub(super) async fn stop(request: &PageRequest<'_>, id: &str) -> Answer {
    let ((who, host), session) = (request.talks_with()?, named(id)?);
    if host.stop(&who, &session) {
        return Ok(to(&session));
    }
    refused(request, id, "The agent does nothing that could be stopped.", "").await
}

pub(super) async fn leave(request: &PageRequest<'_>, id: &str) -> Answer {
    let ((who, host), session) = (request.talks_with()?, named(id)?);
    if host.mark(&who, &session).is_none() && !is_own(request, &who, &session).await? {
        return Err(PageError::Nothing);
    }
    host.leave(&who, &session).await;
    Ok(see_other("/-/console/chat"))
}

async fn refused(request: &PageRequest<'_>, id: &str, why: &str, kept: &str) -> Answer {
    let page = Shown::Page { told: Some(why), kept };
    Ok(html(StatusCode::CONFLICT, shown(request, id, &page).await?))
}

fn to(id: &SessionId) -> Response<AnswerBody> {
    see_other(&format!("/-/console/chat/{}", id.as_str()))
}
