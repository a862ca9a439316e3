//! Signing in at an identity provider: the way there, and back.
//!
//! Laws:
//!
//! - *Where TLS is, and at one address.* A provider sends people back to what it was told before, and in the clear the console has a name that nobody
//!   knows before. Elsewhere the page says where to go.
//! - *A person begins*: by a form of a page of this origin. What comes back counts in the browser that began, once ([`flows`](super::flows)).
//! - *What comes back shows nothing before it is ours*: a link with words in it is no page of the console.
//! - *Nobody opens anything by trying*: few codes are exchanged at once, and whoever brings one that leads to nobody waits.
//!
//! Limits: whoever begins and brings wrong codes in great number makes others wait, who can sign in by a token meanwhile. Signing out here is no signing out
//! at the provider.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backstop_console::{IdentityProvider, lead_on, led_back, not_signed_in};
use backstop_engine::Engine;
use backstop_hooks::Digest;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use super::flows::{Back, Flows, Lost};
use super::guard::{Transport, cookie_named, is_destination};
use super::signing::{SIGNED_IN, give, tell};
use super::{PageError, form, html};
use crate::access::Holder;
use crate::auth::asked_host;
use crate::identity::{Asked, Known, Login, Unknown};
use crate::server::Shared;
use crate::server::answer::AnswerBody;

/// The cookie of a sign-in. A provider sends people back from another site, so that it can't be `Strict`. It has no `Max-Age`: browsers would keep it in
/// a file. When it is over, it says itself.
const COOKIE: &str = "__Host-backstop-sign-in";
const ATTRIBUTES: &str = "Path=/; HttpOnly; SameSite=Lax; Secure";
/// The most bytes of the form: where one wants to go.
const MOST_BYTES: usize = 2 << 10;
/// How many codes are exchanged at once, and how long others wait for it.
const MOST_AT_ONCE: usize = 16;
const PATIENCE: Duration = Duration::from_secs(10);
/// How long whoever brings a code that leads to nobody waits for the answer.
const WAIT: Duration = Duration::from_secs(1);
/// Of how many that lead to nobody, or come back in another browser, the log has a line.
const LOGGED: u64 = 20;
/// The role of a person in a digest.
const ROLE: &str = "console_person";

/// Sign-ins that are under way.
#[derive(Debug)]
pub(super) struct Logins {
    flows: Flows,
    places: Arc<Semaphore>,
    failed: AtomicU64,
    strayed: AtomicU64,
}

impl Default for Logins {
    fn default() -> Self {
        Self {
            flows: Flows::default(),
            places: Arc::new(Semaphore::new(MOST_AT_ONCE)),
            failed: AtomicU64::new(0),
            strayed: AtomicU64::new(0),
        }
    }
}

/// The host of the provider, for people.
pub(super) fn host(shared: &Shared) -> Option<String> {
    shared.login.as_ref().map(|login| login.host())
}

/// What a page says of the provider.
pub(super) fn provider<'a>(
    shared: &'a Shared,
    host: Option<&'a str>,
    head: &Parts,
    transport: Transport,
) -> Option<IdentityProvider<'a>> {
    let login = shared.login.as_ref()?;
    let elsewhere = (!is_here(login, head, transport)).then(|| login.origin().trim_end_matches('/'));
    Some(IdentityProvider { host: host?, elsewhere })
}

fn is_here(login: &Login, head: &Parts, transport: Transport) -> bool {
    transport == Transport::Secure && asked_host(head).is_some_and(|host| login.is_at(host))
}

/// Goes a step of the way. What is posted was posted by a page of this origin.
pub(super) async fn step(
    shared: &Arc<Shared>,
    engine: &Engine,
    login: &Arc<Login>,
    (head, body): (&Parts, Incoming),
    step: &str,
    transport: Transport,
) -> Response<AnswerBody> {
    if !is_here(login, head, transport) {
        return PageError::Nothing.response(None);
    }
    match (step, &head.method) {
        ("begin", &Method::POST) => begin(shared, login, head, body).await,
        ("begin", _) => PageError::Method("POST").response(None),
        // Looking ahead (`HEAD`) uses nothing up.
        ("done", &Method::GET) => done(shared, engine, login, head, transport).await,
        ("done", _) => PageError::Method("GET").response(None),
        _ => PageError::Nothing.response(None),
    }
}

/// Sends a person to the provider.
async fn begin(shared: &Shared, login: &Login, head: &Parts, body: Incoming) -> Response<AnswerBody> {
    let form = match form::read(head, body, MOST_BYTES).await {
        Ok(form) => form,
        Err(error) => return error.response(None),
    };
    let Ok(to) = form.one("to") else { return PageError::Form.response(None) };
    let to = if is_destination(to) { to } else { super::HOME };
    let logins = &shared.console.logins;
    let Some(begun) = logins.flows.begin(&login.bound_to(), to) else {
        return PageError::Store.response(None);
    };
    let asked = Asked { state: &begun.state, nonce: &begun.nonce, challenge: &begun.challenge };
    let address = match login.address(&asked).await {
        Ok(address) => address,
        Err(unknown) => return logins.unknown(login, &unknown),
    };
    // No redirect: the policy of the page that posted the form lets it lead nowhere but here.
    let mut response = html(StatusCode::OK, lead_on(&login.host(), address.as_str()));
    refresh(&mut response, address.as_str());
    set_cookie(&mut response, &begun.cookie, "");
    response
}

/// Signs in whoever comes back.
async fn done(
    shared: &Arc<Shared>,
    engine: &Engine,
    login: &Arc<Login>,
    head: &Parts,
    transport: Transport,
) -> Response<AnswerBody> {
    let logins = &shared.console.logins;
    let waiting = timeout(PATIENCE, Arc::clone(&logins.places).acquire_owned()).await;
    let Ok(Ok(place)) = waiting else { return PageError::Busy.response(None) };
    let finishing = finish(Arc::clone(shared), Arc::clone(login), Brought::of(head), place);
    // A task of its own, so that whoever closes the connection pays for what it used up.
    let finished = tokio::spawn(finishing).await;
    let mut response = match finished {
        Ok(Ok((known, to))) => enter(shared, engine, holder(known), &to, transport).await,
        // What this browser began is not over by that.
        Ok(Err(Refusal::Lost(lost))) => {
            if lost == Lost::Elsewhere {
                logins.strayed();
            }
            return lost_way(lost);
        }
        Ok(Err(refusal)) => logins.refused(login, &refusal),
        Err(_) => return PageError::Store.response(None),
    };
    set_cookie(&mut response, "", "; Max-Age=0");
    response
}

/// What a browser brings that comes back.
struct Brought {
    cookie: String,
    state: String,
    code: String,
    /// Who sent it, if it says so at all.
    issuer: Option<String>,
    /// What went wrong, if something did.
    error: Option<String>,
}

impl Brought {
    fn of(head: &Parts) -> Self {
        let query = |name: &str| form::query(head, name);
        let error = says(head, "error").then(|| match (query("error"), query("error_description")) {
            (error, more) if more.is_empty() => error,
            (error, more) => format!("{error}: {more}"),
        });
        Self {
            cookie: cookie_named(&head.headers, COOKIE).unwrap_or_default(),
            state: query("state"),
            code: query("code"),
            issuer: says(head, "iss").then(|| query("iss")),
            error,
        }
    }
}

/// Why somebody who comes back is not let in.
enum Refusal {
    Lost(Lost),
    /// It is not from this provider.
    Mixed,
    /// The provider says this.
    Said(String),
    Unknown(Unknown),
}

/// Finds out who comes back, and where they wanted to go. Whoever used a sign-in up for nothing keeps the place for a while: so many are used up
/// in a second, and no more.
async fn finish(
    shared: Arc<Shared>,
    login: Arc<Login>,
    brought: Brought,
    place: OwnedSemaphorePermit,
) -> Result<(Known, String), Refusal> {
    let back = shared.console.logins.flows.end(&login.bound_to(), &brought.cookie, &brought.state);
    let known = match back {
        Ok(back) => recognized(&login, &back, brought).await.map(|known| (known, back.to)),
        // It used nothing up.
        Err(lost @ (Lost::Unknown | Lost::Used | Lost::Full)) => return Err(Refusal::Lost(lost)),
        Err(lost @ (Lost::Elsewhere | Lost::Over)) => Err(Refusal::Lost(lost)),
    };
    if known.is_err() {
        sleep(WAIT).await;
    }
    drop(place);
    known
}

async fn recognized(login: &Login, back: &Back, brought: Brought) -> Result<Known, Refusal> {
    if !login.is_from(brought.issuer.as_deref()) {
        return Err(Refusal::Mixed);
    }
    if let Some(error) = brought.error {
        return Err(Refusal::Said(error));
    }
    login.finish(&brought.code, &back.verifier, &back.nonce).await.map_err(Refusal::Unknown)
}

/// Opens a session, and leads on.
async fn enter(
    shared: &Shared,
    engine: &Engine,
    holder: Holder,
    to: &str,
    transport: Transport,
) -> Response<AnswerBody> {
    let not_now = |text| html(StatusCode::SERVICE_UNAVAILABLE, not_signed_in(text, None));
    if !tell(engine, SIGNED_IN, &holder).await {
        return not_now("Where state is kept can't be written now, so nobody can sign in.");
    }
    let Some(entered) = shared.console.sessions.enter(holder, transport) else {
        return not_now("Too many are signed in already.");
    };
    let to = if is_destination(to) { to } else { super::HOME };
    // No redirect: a browser that comes from another site shows no `Strict` cookie where one leads.
    let mut response = html(StatusCode::OK, led_back(to));
    refresh(&mut response, to);
    give(&mut response, &entered, transport);
    response
}

/// Returns whether the query of a request has that at all, once or more.
fn says(head: &Parts, name: &str) -> bool {
    url::form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes()).any(|(one, _)| one == name)
}

/// Somebody who signed in. The id is the same for the same person, so that what holds for one token holds for one person.
fn holder(known: Known) -> Holder {
    let Known { user, vouched, scopes, life } = known;
    let person = Digest::of_text(ROLE, &format!("{}\n{}", vouched.issuer, vouched.subject));
    let person: String = person.as_bytes().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    Holder {
        id: format!("oidc-{person}").into(),
        agent: None,
        user: Some(user.into()),
        scopes: scopes.into(),
        life,
        vouched: Some(Arc::new(vouched)),
    }
}

impl Logins {
    /// What whoever is not let in is told. The log has what the operator can mend.
    fn refused(&self, login: &Login, refusal: &Refusal) -> Response<AnswerBody> {
        let forbidden = |text, said| html(StatusCode::FORBIDDEN, not_signed_in(text, said));
        match refusal {
            Refusal::Lost(lost) => lost_way(*lost),
            Refusal::Mixed => forbidden(
                "What came back is not from the identity provider of this console, so nothing was opened.",
                None,
            ),
            Refusal::Said(said) => {
                forbidden("The identity provider did not sign you in.", Some(said.as_str()))
            }
            Refusal::Unknown(unknown) => self.unknown(login, unknown),
        }
    }

    /// Says now and then what anybody can bring about, with one browser and no code.
    fn strayed(&self) {
        if let Some(count) = logged(&self.strayed) {
            tracing::warn!(
                count,
                "a sign-in at the console came back in another browser than the one that began it, and was refused"
            );
        }
    }

    fn unknown(&self, login: &Login, unknown: &Unknown) -> Response<AnswerBody> {
        if let Some(count) = logged(&self.failed) {
            let issuer = login.issuer();
            tracing::warn!(count, issuer, problem = %unknown, "somebody was not signed in at the console");
        }
        let said = match unknown {
            Unknown::Code { word, .. } => word.as_deref(),
            _ => None,
        };
        let (status, text) = in_words(unknown);
        html(status, not_signed_in(&text, said))
    }
}

/// Counts one more. Returns how many there were, if the log has a line of this one.
fn logged(counter: &AtomicU64) -> Option<u64> {
    let before = counter.fetch_add(1, Ordering::Relaxed);
    before.is_multiple_of(LOGGED).then(|| before.saturating_add(1))
}

/// What is told to whoever is not known.
fn in_words(unknown: &Unknown) -> (StatusCode, Cow<'static, str>) {
    let text = match unknown {
        Unknown::Down(_) | Unknown::Answer => {
            let text = "The identity provider can't be asked now, or does not answer as it should. Nothing was opened: try again later, or sign in by a token.";
            return (StatusCode::SERVICE_UNAVAILABLE, text.into());
        }
        Unknown::Code { .. } => {
            "The identity provider does not take what you came back with, so nothing was opened. Begin again."
                .into()
        }
        Unknown::Token(refused) => {
            format!("What the identity provider says of you does not count here: its token {refused}.").into()
        }
        Unknown::Nonce => {
            "What the identity provider says is not about this sign-in, so nothing was opened. Begin again."
                .into()
        }
        Unknown::Unverified => {
            "The identity provider does not say that your address is verified, so it does not count who you are."
                .into()
        }
        Unknown::Stale => {
            "The identity provider does not say that you signed in there just now, which this console asks for. Begin again."
                .into()
        }
        Unknown::NoRole { user } => format!(
            "You are {user}, and you have no role here. Whoever runs Backstop gives one to groups of the identity provider (`gateway.console.oidc.roles`)."
        )
        .into(),
    };
    (StatusCode::FORBIDDEN, text)
}

fn lost_way(lost: Lost) -> Response<AnswerBody> {
    let (status, text) = match lost {
        Lost::Unknown | Lost::Elsewhere => (
            StatusCode::FORBIDDEN,
            "This browser did not begin this sign-in, or began another one since. Nothing was opened: begin again.",
        ),
        Lost::Over => (StatusCode::FORBIDDEN, "This took longer than ten minutes. Begin again."),
        Lost::Used => (StatusCode::FORBIDDEN, "This sign-in was finished already. Begin again."),
        Lost::Full => (
            StatusCode::SERVICE_UNAVAILABLE,
            "Too many sign in at once. Try again in some minutes, or sign in by a token.",
        ),
    };
    html(status, not_signed_in(text, None))
}

/// Has a browser go on by itself, without a script.
fn refresh(response: &mut Response<AnswerBody>, address: &str) {
    if let Ok(refresh) = HeaderValue::from_str(&format!("0; url={address}")) {
        response.headers_mut().insert(header::REFRESH, refresh);
    }
}

fn set_cookie(response: &mut Response<AnswerBody>, value: &str, span: &str) {
    let cookie = format!("{COOKIE}={value}; {ATTRIBUTES}{span}");
    if let Ok(mut cookie) = HeaderValue::from_str(&cookie) {
        cookie.set_sensitive(true);
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_a_line_of_one_in_many_with_their_number() {
        let counter = AtomicU64::new(0);
        let lines: Vec<u64> = (0..=2 * LOGGED).filter_map(|_| logged(&counter)).collect();
        assert_eq!(lines, [1, LOGGED + 1, 2 * LOGGED + 1]);
    }
}
