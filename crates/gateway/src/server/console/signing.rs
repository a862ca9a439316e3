//! Signing in and out.
//!
//! Laws:
//!
//! - *A right token always opens.* It holds 244 random bits, so that nothing has to keep it from being guessed; what is limited is what wrong ones cost. Nobody
//!   keeps a person out by trying wrong ones.
//! - *Who signs in is in the trail* before the session counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backstop_console::{NotSignedIn, SignIn};
use backstop_engine::Engine;
use backstop_store::{AuditBody, Durability, NewAuditEntry, Scope, Timestamp};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};
use hyper::body::Incoming;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::guard::{CHALLENGE, Transport, cookie, is_destination, shown};
use super::sessions::{Entered, Seat};
use super::{PageError, empty, form, html, login, see_other, unknown};
use crate::access::Holder;
use crate::server::Shared;
use crate::server::answer::AnswerBody;

/// The most bytes of the form: a token, and where one wants to go.
const MOST_BYTES: usize = 4 << 10;
/// How long whoever brings a wrong token waits for the answer, and how many wait at once. More are told at once to come back later.
const WAIT: Duration = Duration::from_secs(1);
const MOST_WAITING: usize = 8;
/// Of how many wrong tokens the log has a line.
const LOGGED: u64 = 100;
/// The kinds of entries about it in the trail.
pub(super) const SIGNED_IN: &str = "console.signed_in";
const SIGNED_OUT: &str = "console.signed_out";

/// Wrong attempts to sign in.
#[derive(Debug)]
pub(super) struct Attempts {
    waiting: Semaphore,
    wrong: AtomicU64,
}

impl Default for Attempts {
    fn default() -> Self {
        Self { waiting: Semaphore::new(MOST_WAITING), wrong: AtomicU64::new(0) }
    }
}

impl Attempts {
    /// Takes note of a wrong one, and returns how it is answered.
    async fn wrong(&self) -> StatusCode {
        let count = self.wrong.fetch_add(1, Ordering::Relaxed);
        if count.is_multiple_of(LOGGED) {
            tracing::warn!(
                count = count.saturating_add(1),
                "somebody tried to sign in at the console with a token that does not count there"
            );
        }
        match self.waiting.try_acquire() {
            Ok(_place) => {
                sleep(WAIT).await;
                StatusCode::FORBIDDEN
            }
            Err(_) => StatusCode::TOO_MANY_REQUESTS,
        }
    }
}

/// Signs a person in.
pub(super) async fn sign_in(
    shared: &Shared,
    engine: &Engine,
    head: &Parts,
    body: Incoming,
    transport: Transport,
) -> Response<AnswerBody> {
    let form = match form::read(head, body, MOST_BYTES).await {
        Ok(form) => form,
        Err(error) => return error.response(None),
    };
    let (Ok(token), Ok(to)) = (form.one("token"), form.one("to")) else {
        return PageError::Form.response(None);
    };
    let to = if is_destination(to) { to } else { super::HOME };
    let host = login::host(shared);
    let again = |status, problem| {
        let provider = login::provider(shared, host.as_deref(), head, transport);
        let sign_in = SignIn { to, problem: Some(problem), provider, from_elsewhere: false };
        html(status, backstop_console::sign_in(&sign_in))
    };
    let holder = shared.access_tokens.api_holder(token.trim().as_bytes());
    let Some(holder) = holder.filter(is_person) else {
        return again(shared.console.attempts.wrong().await, NotSignedIn::Token);
    };
    if !tell(engine, SIGNED_IN, &holder).await {
        return again(StatusCode::SERVICE_UNAVAILABLE, NotSignedIn::Store);
    }
    let Some(entered) = shared.console.sessions.enter(holder, transport) else {
        return again(StatusCode::SERVICE_UNAVAILABLE, NotSignedIn::Full);
    };
    let mut response = match &entered.key {
        None => see_other(to),
        Some(key) => html(StatusCode::OK, backstop_console::hand_over(key, to)),
    };
    give(&mut response, &entered, transport);
    response
}

/// Gives a browser the cookie of a session.
pub(super) fn give(response: &mut Response<AnswerBody>, entered: &Entered, transport: Transport) {
    let cookie = format!("{}={}; {}", transport.cookie(), entered.cookie, transport.attributes());
    if let Ok(mut cookie) = HeaderValue::from_str(&cookie) {
        cookie.set_sensitive(true);
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
}

/// Lets a browser that has the cookie of a session show the key, too, and leads on. Whoever has no cookie is not asked for it, so that pages of others
/// make no browser ask. It prolongs nothing: a page at another port of the name can have browsers ask for it, as for an image.
pub(super) fn take_key(shared: &Shared, head: &Parts, transport: Transport) -> Response<AnswerBody> {
    let seat = shown(&head.headers, transport).and_then(|shown| shared.console.sessions.find(&shown, true));
    if seat.is_some() {
        let to = form::query(head, "to");
        return if is_destination(&to) { see_other(&to) } else { empty(StatusCode::NO_CONTENT) };
    }
    let has_cookie = transport == Transport::Own && cookie(&head.headers, transport).is_some();
    let mut response = unknown(shared, head, transport, false);
    if has_cookie {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
    }
    response
}

/// Signs a person out.
pub(super) async fn sign_out(
    shared: &Shared,
    head: &Parts,
    body: Incoming,
    seat: &Seat,
    transport: Transport,
) -> Response<AnswerBody> {
    match form::read(head, body, MOST_BYTES).await {
        Ok(form) if form.one("form").is_ok_and(|given| seat.is_its_form(given)) => {}
        Ok(_) => return PageError::Foreign.response(Some(&seat.viewer())),
        Err(error) => return error.response(Some(&seat.viewer())),
    }
    shared.console.sessions.leave(seat);
    if let Some(engine) = shared.interceptor.engine() {
        // It is over, whether or not that can be written down.
        tell(engine, SIGNED_OUT, seat.holder()).await;
    }
    let mut response = see_other(super::HOME);
    let gone = format!("{}=; {}; Max-Age=0", transport.cookie(), transport.attributes());
    if let Ok(gone) = HeaderValue::from_str(&gone) {
        response.headers_mut().insert(header::SET_COOKIE, gone);
    }
    response
}

/// Returns whether a token is that of a person, who is judged nowhere.
fn is_person(holder: &Holder) -> bool {
    holder.agent.is_none() && holder.user.is_some() && !holder.scopes.contains(&Scope::Judge)
}

/// What an entry of the trail says of who did something: the name, the token, and who vouches for whom where there is none.
pub(super) fn who(holder: &Holder) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("user".to_owned(), holder.user.as_deref().into());
    body.insert("token".to_owned(), holder.id.as_str().into());
    if let Some(vouched) = &holder.vouched {
        body.insert("issuer".to_owned(), vouched.issuer.as_str().into());
        body.insert("subject".to_owned(), vouched.subject.as_str().into());
    }
    body
}

/// Writes into the trail what somebody did who is signed in. Returns whether that was possible.
pub(super) async fn tell(engine: &Engine, kind: &str, holder: &Holder) -> bool {
    let entry = NewAuditEntry {
        at: Timestamp::now(),
        kind: kind.to_owned(),
        session: None,
        run: None,
        body: AuditBody::from(Value::Object(who(holder))),
    };
    engine.store().append_audit_all(vec![entry], Durability::Soon).await.is_ok()
}
