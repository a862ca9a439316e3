//! The console: the pages on which people see and answer, below `/-/console`.
//!
//! Laws:
//!
//! - *A person signs in with a token of theirs* ([`backstop_store::Scope`]), and may do there what its scopes say. A [session](sessions) ends with the
//!   token, and no cookie opens anything but these pages.
//! - *A cookie is for one origin.* Browsers send it to every port of a host, and an agent can listen at one. In the clear, the console is
//!   therefore served at names of this machine that nobody can guess, with a key beside the cookie that browsers send to this port alone, and otherwise only
//!   where TLS makes it [`Secure`](guard::Transport).
//! - *Looking decides nothing.* What changes anything is posted, from a page of this origin and with the token of its session in the form.
//! - *What a person saw is what is answered*: answers carry the digest of the call, and are given by the rules of `backstop approvals`.
//! - *Everything is bounded*: sessions, forms, pages and streams at once, and what each of them shows.
//!
//! What pages look like is in `backstop-console`. Limits: sessions are in memory, so that a restart signs everybody out.

mod answers;
mod approvals;
mod chat;
mod devices;
mod events;
mod flows;
mod form;
mod guard;
mod login;
mod money;
mod pages;
mod sessions;
mod signing;
mod trail;
mod trial;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backstop_console::assets::Asset;
use backstop_console::{ROOT, SignIn, Viewer, message, sign_in};
use backstop_engine::Engine;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use hyper::body::Incoming;
use tokio::sync::Semaphore;

use self::events::Hub;
use self::guard::Transport;
use self::login::Logins;
use self::sessions::{Seat, Sessions};
use self::signing::Attempts;
use self::trail::Trail;
use self::trial::Trials;
use super::Shared;
use super::answer::AnswerBody;

/// Where people begin.
const HOME: &str = "/-/console/approvals";
/// How many pages there may be under way at once, and how many streams.
const MOST_PAGES: usize = 64;
const MOST_STREAMS: usize = 64;
/// The header of requests that a page sends by itself, and no person: they keep nobody signed in.
const ASIDE: &str = "x-backstop-aside";
/// What pages may do: nothing but what they are made of, from where they came.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      worker-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types backstop";

/// What all requests of the console share, for as long as the gateway runs.
#[derive(Debug)]
pub(super) struct Console {
    sessions: Sessions,
    attempts: Attempts,
    logins: Logins,
    hub: Arc<Hub>,
    trail: Trail,
    pages: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    trials: Trials,
    /// Whether names below `.localhost` lead nowhere but here.
    holds_names: AtomicBool,
}

impl Console {
    /// Says whether we listen wherever browsers look for names below `.localhost`.
    pub(super) fn holds_names(&self, holds: bool) {
        self.holds_names.store(holds, Ordering::SeqCst);
    }

    /// Shows open pages what the hooks in force say.
    pub(super) fn go_on_with(&self, engine: Option<&Engine>) {
        if let Some(engine) = engine {
            self.hub.go_on_with(engine);
        }
    }
}

impl Default for Console {
    fn default() -> Self {
        Self {
            sessions: Sessions::default(),
            attempts: Attempts::default(),
            logins: Logins::default(),
            hub: Arc::default(),
            trail: Trail::default(),
            pages: Arc::new(Semaphore::new(MOST_PAGES)),
            streams: Arc::new(Semaphore::new(MOST_STREAMS)),
            trials: Trials::default(),
            holds_names: AtomicBool::new(false),
        }
    }
}

/// Returns whether a path is one of the console.
pub(super) fn is_below(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// One request of a person who is signed in.
struct PageRequest<'a> {
    shared: &'a Arc<Shared>,
    engine: &'a Engine,
    seat: Seat,
    head: &'a Parts,
    /// Its path below the root, in parts.
    path: Vec<&'a str>,
    transport: Transport,
}

impl PageRequest<'_> {
    fn console(&self) -> &Console {
        &self.shared.console
    }

    fn viewer(&self) -> Viewer {
        self.seat.viewer()
    }
}

/// What is told to a person instead of a page.
#[derive(Debug)]
enum PageError {
    /// There is nothing here.
    Nothing,
    /// It is done by another method.
    Method(&'static str),
    /// The token does not allow it.
    Scope,
    /// It did not come from a page of this session.
    Foreign,
    /// The form can't be read.
    Form,
    /// Where state is kept can't be read or written.
    Store,
    /// There is as much under way as there may be at once.
    Busy,
    /// The token did it a moment ago.
    Often,
    /// The console is not served in the clear at such an address.
    Clear,
    /// Under TLS it wants a name that other ports of this machine do not have.
    Named,
    /// Somebody else may be where browsers look for it.
    Taken,
}

impl PageError {
    const fn told(&self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Nothing => (StatusCode::NOT_FOUND, "Nothing here", "There is no such page, or no more."),
            Self::Method(_) => {
                (StatusCode::METHOD_NOT_ALLOWED, "Not that way", "This address is not asked by that method.")
            }
            Self::Scope => (
                StatusCode::FORBIDDEN,
                "Not allowed",
                "The token that you signed in with does not allow this.",
            ),
            Self::Foreign => (
                StatusCode::FORBIDDEN,
                "Not from here",
                "This was not sent by a page of your session, so nothing was done. Go back, reload the page, and try again.",
            ),
            Self::Form => {
                (StatusCode::BAD_REQUEST, "Not understood", "The form can't be read, so nothing was done.")
            }
            Self::Store => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Not now",
                "Where state is kept can't be read or written now. Nothing was decided by that.",
            ),
            Self::Busy => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Not now",
                "There is as much under way as there may be at once. Try again in a moment.",
            ),
            Self::Often => (
                StatusCode::TOO_MANY_REQUESTS,
                "Not so often",
                "You can try one call a second. Nothing was judged: try it again in a moment.",
            ),
            Self::Clear => (
                StatusCode::FORBIDDEN,
                "Not in the clear",
                "Off this machine the console wants TLS (`gateway.tls`), so that nobody on the way reads or changes what you see. On the machine, open it at 127.0.0.1.",
            ),
            Self::Named => (
                StatusCode::FORBIDDEN,
                "Not by this name",
                "A browser sends what it knows of this name to every port of this machine, also in the clear. Open the console by a name of `gateway.hosts` for which the certificate is.",
            ),
            Self::Taken => (
                StatusCode::FORBIDDEN,
                "Not here",
                "Another program may listen at this port, at 127.0.0.1 or [::1], where your browser looks for the console, too. End it and start the server anew, or set `gateway.tls`.",
            ),
        }
    }

    fn response(&self, viewer: Option<&Viewer>) -> Response<AnswerBody> {
        let (status, title, text) = self.told();
        let mut response = html(status, message(viewer, title, text));
        if let Self::Method(allow) = self {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        if matches!(self, Self::Often) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

type Answer = Result<Response<AnswerBody>, PageError>;

/// Answers a request whose path [is one of the console](is_below), and whose host is known.
pub(super) async fn answer(shared: &Arc<Shared>, head: Parts, body: Incoming) -> Response<AnswerBody> {
    let Some(engine) = shared.interceptor.engine() else { return super::operators::nothing() };
    let holds_names = shared.console.holds_names.load(Ordering::SeqCst);
    let transport = match Transport::of(&head, shared.tls.is_some(), holds_names) {
        Ok(transport) => transport,
        Err(guard::Elsewhere::Clear) => return secured(PageError::Clear.response(None)),
        Err(guard::Elsewhere::Named) => return secured(PageError::Named.response(None)),
        Err(guard::Elsewhere::Taken) => return secured(PageError::Taken.response(None)),
        Err(guard::Elsewhere::Name(address)) if is_looking(&head.method) => {
            return secured(see_other(&address));
        }
        Err(guard::Elsewhere::Name(_)) => return secured(PageError::Foreign.response(None)),
    };
    let rest = head.uri.path().strip_prefix(ROOT).unwrap_or_default();
    let path: Vec<&str> = rest.split('/').skip(1).collect();
    if let ([name], true) = (path.as_slice(), is_looking(&head.method))
        && let Some(asset) = Asset::named(name)
    {
        return secured(file(asset, &head.headers));
    }
    if !is_looking(&head.method) && !guard::is_own(&head, transport) {
        return secured(PageError::Foreign.response(None));
    }
    if let (["sign-in"], &Method::POST) = (path.as_slice(), &head.method) {
        return secured(signing::sign_in(shared, engine, &head, body, transport).await);
    }
    if let ["oidc", step] = path.as_slice()
        && let Some(login) = &shared.login
    {
        return secured(login::step(shared, engine, login, (&head, body), step, transport).await);
    }
    if let ([guard::KEY_PATH], true) = (path.as_slice(), is_looking(&head.method)) {
        return secured(signing::take_key(shared, &head, transport));
    }
    if path.is_empty() && is_looking(&head.method) {
        // Browsers do not show the key there, since it is not beside where they were asked for it.
        return secured(see_other(HOME));
    }
    let is_aside = head.headers.contains_key(ASIDE) || path == ["events"];
    // What another port of this name has browsers ask is nothing that the person does here.
    let is_nobodys = is_aside || guard::is_of_another_page(&head.headers);
    let seat = guard::shown(&head.headers, transport)
        .and_then(|shown| shared.console.sessions.find(&shown, is_nobodys));
    let Some(seat) = seat else { return secured(unknown(shared, &head, transport, is_aside)) };
    if let (["sign-out"], &Method::POST) = (path.as_slice(), &head.method) {
        return secured(signing::sign_out(shared, &head, body, &seat, transport).await);
    }
    let request = PageRequest { shared, engine, seat, head: &head, path, transport };
    secured(dispatch(&request, body).await.unwrap_or_else(|error| error.response(Some(&request.viewer()))))
}

fn is_looking(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

async fn dispatch(request: &PageRequest<'_>, body: Incoming) -> Answer {
    if matches!(request.path.as_slice(), ["events"]) {
        return events::stream(request);
    }
    let _page = Arc::clone(&request.console().pages).try_acquire_owned().map_err(|_| PageError::Busy)?;
    let looks = is_looking(&request.head.method);
    match (looks, request.path.as_slice()) {
        (true, [""]) => Ok(see_other(HOME)),
        (true, ["session"]) => Ok(empty(StatusCode::NO_CONTENT)),
        (true, ["approvals"]) => approvals::queue(request).await,
        (true, ["approvals", "part"]) => approvals::part(request).await,
        (
            true,
            ["approvals", "deny" | "several"]
            | ["approvals", _, "answer" | "whole"]
            | ["audit", "verify"]
            | ["devices"]
            | ["devices", "remove"],
        ) => Err(PageError::Method("POST")),
        (true, ["approvals", id]) => approvals::question(request, id).await,
        (true, ["approvals", id, "state"]) => approvals::state(request, id).await,
        (true, ["live"]) => pages::live(request),
        (true, ["sessions"]) => pages::sessions(request).await,
        (true, ["sessions", "one"]) => pages::session(request).await,
        (true, ["policy"]) => pages::policy(request).await,
        (true, ["audit"]) => trail::page(request).await,
        (true, ["money"]) => money::page(request).await,
        (true, ["try"]) => trial::page(request),
        (true, ["chat"]) => chat::all(request),
        (true, ["chat", _, "say" | "stop" | "leave" | "go-on"]) => Err(PageError::Method("POST")),
        (true, ["chat", id]) => chat::one(request, id).await,
        (true, ["chat", id, "part"]) => chat::part(request, id).await,
        (true, ["audit.jsonl"]) => trail::download(request).await,
        (true, ["audit", "checkpoint"]) => trail::checkpoint(request).await,
        (false, _) if request.head.method == Method::POST => posted(request, body).await,
        (false, _) => Err(PageError::Method("GET, HEAD, POST")),
        _ => Err(PageError::Nothing),
    }
}

async fn posted(request: &PageRequest<'_>, body: Incoming) -> Answer {
    let most = match request.path.as_slice() {
        ["try"] if request.seat.may_administer() => trial::MOST_FORM,
        ["chat", _, "say"] => chat::MOST_FORM,
        _ => form::MOST_BYTES,
    };
    let form = form::read(request.head, body, most).await?;
    // The session may have ended while the form came.
    if !request.seat.is_its_form(form.one("form")?) || !request.console().sessions.goes_on(&request.seat) {
        return Err(PageError::Foreign);
    }
    match request.path.as_slice() {
        ["approvals", "deny"] => answers::deny_ticked(request, &form).await,
        ["approvals", "several"] => answers::several(request, &form).await,
        ["approvals", id, "answer"] => answers::answer(request, id, &form).await,
        ["approvals", id, "whole"] => answers::whole(request, id).await,
        ["grants", id, "revoke"] => pages::revoke(request, id).await,
        ["try"] => trial::judge(request, &form).await,
        ["chat"] => chat::begin(request).await,
        ["chat", id, "say"] => chat::say(request, id, &form).await,
        ["chat", id, "stop"] => chat::stop(request, id).await,
        ["chat", id, "leave"] => chat::leave(request, id).await,
        ["chat", id, "go-on"] => chat::go_on(request, id).await,
        ["audit", "verify"] => trail::verify(request).await,
        ["devices"] => devices::add(request, &form).await,
        ["devices", "remove"] => devices::remove(request, &form).await,
        _ => Err(PageError::Nothing),
    }
}

/// For whoever is not signed in: the page to sign in on, or a status for what the script asks.
fn unknown(shared: &Shared, head: &Parts, transport: Transport, is_aside: bool) -> Response<AnswerBody> {
    if is_aside || (is_looking(&head.method) && head.uri.path().ends_with("/session")) {
        return empty(StatusCode::UNAUTHORIZED);
    }
    let to = head.uri.path_and_query().map(http::uri::PathAndQuery::as_str);
    let to = to.filter(|_| is_looking(&head.method)).filter(|to| guard::is_destination(to));
    let had_session = guard::cookie(&head.headers, transport).is_some();
    let host = login::host(shared);
    let page = sign_in(&SignIn {
        to: to.unwrap_or(HOME),
        problem: had_session.then_some(backstop_console::NotSignedIn::Over),
        provider: login::provider(shared, host.as_deref(), head, transport),
        from_elsewhere: guard::fetch_site(&head.headers).is_some_and(|site| site == b"cross-site"),
    });
    html(StatusCode::UNAUTHORIZED, page)
}

fn file(asset: &Asset, headers: &HeaderMap) -> Response<AnswerBody> {
    let tag = asset.entity_tag();
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|known| known.to_str().ok());
    let is_known = known.flat_map(|known| known.split(',')).any(|known| known.trim() == tag);
    let mut response = match is_known {
        true => empty(StatusCode::NOT_MODIFIED),
        false => whole(StatusCode::OK, asset.kind, Bytes::from_static(asset.text.as_bytes())),
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.extend(HeaderValue::from_str(&tag).map(|tag| (header::ETAG, tag)));
    response
}

fn html(status: StatusCode, page: String) -> Response<AnswerBody> {
    whole(status, "text/html; charset=utf-8", page.into())
}

fn whole(status: StatusCode, kind: &'static str, body: Bytes) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn empty(status: StatusCode) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::whole(Bytes::new()));
    *response.status_mut() = status;
    response
}

/// Leads on to another page.
fn see_other(address: &str) -> Response<AnswerBody> {
    let mut response = empty(StatusCode::SEE_OTHER);
    match HeaderValue::from_str(address) {
        Ok(address) => {
            response.headers_mut().insert(header::LOCATION, address);
        }
        Err(_) => *response.status_mut() = StatusCode::BAD_REQUEST,
    }
    response
}

/// What each answer says to browsers about itself.
fn secured(mut response: Response<AnswerBody>) -> Response<AnswerBody> {
    let always = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    ];
    let headers = response.headers_mut();
    headers.extend(always.map(|(name, value)| (name, HeaderValue::from_static(value))));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// How long a form may take to come.
const PATIENCE: Duration = Duration::from_secs(10);
