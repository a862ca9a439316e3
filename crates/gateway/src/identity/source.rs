//! Where the keys of an issuer come from, and how long they count.
//!
//! One task reads them, so that no two requests ask for them at once: at the start, every [`EVERY`], and when a token names a key
//! that is not known, for which at most [`MOST_WAITING`]
//! requests wait, and at most [`PATIENCE`]. Tokens can have that done once in [`AT_MOST_EVERY`]; whoever
//! invents ids of keys gets no more.
//!
//! Keys that were read count until others are read, for [`STALE`] at most: an issuer that can't be reached locks nobody out at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use backstop_http_client::tls::Trust as Trusted;
use backstop_http_client::{Client, Request, Route, Settings as ClientSettings};
use backstop_llm::wire::parse_json;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::Value;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use url::{Host, Url};

use super::endpoints::Endpoints;
use super::keys::Keys;
use super::settings::TokenIssuer;
use crate::settings::{Proxies, Trust};

/// How often keys are read.
const EVERY: Duration = Duration::from_secs(300);
/// How often tokens can have them read.
const AT_MOST_EVERY: Duration = Duration::from_secs(60);
/// How long a request waits for them.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many requests wait for them at once.
const MOST_WAITING: usize = 256;
/// How long they count without being read anew.
const STALE: Duration = Duration::from_hours(24);
/// How long reading them may take, and connecting for it.
const READING: Duration = Duration::from_secs(10);
const CONNECTING: Duration = Duration::from_secs(5);
/// The largest document, in bytes.
const LARGEST: usize = 256 << 10;
/// Where a discovery document is (OpenID Connect Discovery, 4).
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// An issuer and its keys.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) issuer: TokenIssuer,
    proxies: Proxies,
    document: Document,
    /// Whether people sign in there, which takes more than its keys.
    is_for_people: bool,
    client: Client,
    known: watch::Sender<Known>,
    wanted: Arc<Notify>,
    /// Places for requests that wait for keys.
    waiting: Semaphore,
    /// When a token had keys read last.
    sought_at: Mutex<Option<Instant>>,
    /// How many keys were left out of the last set that was read.
    left_out: AtomicUsize,
}

/// What is read first.
#[derive(Debug)]
enum Document {
    Keys(Url),
    Discovery(Url),
}

/// The keys, as they were read last.
#[derive(Clone, Debug, Default)]
struct Known {
    keys: Arc<Keys>,
    /// Where people sign in, if they do.
    endpoints: Option<Arc<Endpoints>>,
    read_at: Option<Instant>,
    /// How often it was tried to read them.
    tried: u64,
    /// They are being read, or will be at once.
    is_reading: bool,
    has_failed: bool,
}

/// What was read of an issuer.
struct Found {
    keys: Keys,
    left_out: usize,
    endpoints: Option<Endpoints>,
}

/// How far the keys of an issuer can be gone by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KeyState {
    /// They are as the issuer has them, or nearly.
    Fresh,
    /// They could not be read anew, and still count.
    Old,
    /// There are none that count.
    None,
}

impl Source {
    /// Follows the keys of an issuer for as long as what is returned exists.
    pub(super) fn follow(issuer: TokenIssuer, proxies: Proxies) -> Result<Arc<Self>, &'static str> {
        Self::followed(issuer, proxies, false)
    }

    /// As [`follow`](Self::follow), of an issuer at which people sign in: also where they do.
    pub(super) fn follow_for_people(
        issuer: TokenIssuer,
        proxies: Proxies,
    ) -> Result<Arc<Self>, &'static str> {
        Self::followed(issuer, proxies, true)
    }

    fn followed(
        issuer: TokenIssuer,
        proxies: Proxies,
        is_for_people: bool,
    ) -> Result<Arc<Self>, &'static str> {
        if address(&issuer.issuer)?.query().is_some() {
            return Err("is no name of an issuer: it has a query");
        }
        let document = match &issuer.jwks {
            Some(jwks) => Document::Keys(address(jwks)?),
            None => {
                let discovery = format!("{}{DISCOVERY}", issuer.issuer.trim_end_matches('/'));
                Document::Discovery(address(&discovery)?)
            }
        };
        let trust = match &issuer.trust {
            Trust::System => Trusted::System,
            Trust::Only { pem, .. } => {
                Trusted::only(pem).map_err(|_| "has a `ca_file` without certificates that can be used")?
            }
        };
        let client = Client::new(ClientSettings {
            trust,
            route: Route::Proxied(proxies.clone()),
            connect_timeout: CONNECTING,
            timeout: Some(READING),
        });
        let source = Arc::new(Self {
            issuer,
            proxies,
            document,
            is_for_people,
            client,
            known: watch::Sender::default(),
            wanted: Arc::default(),
            waiting: Semaphore::new(MOST_WAITING),
            sought_at: Mutex::default(),
            left_out: AtomicUsize::new(0),
        });
        // Without a runtime nobody reads keys, and no token counts.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            source.known.send_modify(|known| known.is_reading = true);
            runtime.spawn(follow(Arc::downgrade(&source), Arc::clone(&source.wanted)));
        }
        Ok(source)
    }

    pub(super) fn is_of(&self, issuer: &TokenIssuer, proxies: &Proxies) -> bool {
        let same = |of: fn(&Proxies) -> &Option<String>| of(&self.proxies) == of(proxies);
        self.issuer == *issuer
            && same(|proxies| &proxies.http)
            && same(|proxies| &proxies.https)
            && same(|proxies| &proxies.all)
            && same(|proxies| &proxies.no)
    }

    /// The keys that count; none, if they are too old.
    pub(super) fn keys(&self) -> Arc<Keys> {
        let known = self.known.borrow();
        match known.read_at {
            Some(at) if at.elapsed() < STALE => Arc::clone(&known.keys),
            Some(_) | None => Arc::default(),
        }
    }

    /// Where people sign in; `None`, if that was not read, or too long ago.
    pub(super) fn endpoints(&self) -> Option<Arc<Endpoints>> {
        let known = self.known.borrow();
        known.endpoints.clone().filter(|_| known.read_at.is_some_and(|at| at.elapsed() < STALE))
    }

    pub(super) fn state(&self) -> KeyState {
        let known = self.known.borrow();
        match known.read_at {
            _ if known.keys.is_empty() => KeyState::None,
            Some(at) if at.elapsed() < STALE && known.has_failed => KeyState::Old,
            Some(at) if at.elapsed() < STALE => KeyState::Fresh,
            Some(_) | None => KeyState::None,
        }
    }

    /// Waits until a key of this id is known, or can't be known soon.
    pub(super) async fn seek(&self, id: Option<&str>) {
        if self.keys().knows(id) {
            return;
        }
        let mut known = self.known.subscribe();
        let (tried, is_reading) = {
            let known = known.borrow_and_update();
            (known.tried, known.is_reading)
        };
        if !is_reading {
            let mut sought_at = self.sought_at.lock().unwrap_or_else(PoisonError::into_inner);
            if sought_at.is_some_and(|at| at.elapsed() < AT_MOST_EVERY) {
                return;
            }
            *sought_at = Some(Instant::now());
            // From here on others wait for the same reading.
            self.known.send_modify(|known| known.is_reading = true);
            self.wanted.notify_one();
        }
        // Nobody who waits has come in yet: some may, and others are told at once.
        let Ok(_place) = self.waiting.try_acquire() else { return };
        let _ = timeout(PATIENCE, known.wait_for(|known| known.tried > tried)).await;
    }

    /// Reads the keys. Returns how long to wait until they are read again.
    async fn read(&self, failures: &mut u32) -> Duration {
        self.known.send_modify(|known| known.is_reading = true);
        let read = timeout(READING, self.fetch()).await;
        let read = read.unwrap_or_else(|_| Err("does not answer in time".to_owned()));
        let issuer = self.issuer.issuer.as_str();
        let before = self.state();
        let has_failed = read.is_err();
        let pause = match read {
            Ok(Found { keys, left_out, endpoints }) => {
                if keys.is_empty() {
                    tracing::warn!(
                        issuer,
                        left_out,
                        "an issuer has no key that counts here, so none of its tokens does"
                    );
                } else if left_out > self.left_out.swap(left_out, Ordering::Relaxed) {
                    tracing::warn!(issuer, left_out, "some keys of an issuer are not used");
                }
                if *failures > 0 {
                    tracing::info!(issuer, "the keys of an issuer can be read again");
                }
                *failures = 0;
                let pause = if keys.is_empty() { AT_MOST_EVERY } else { EVERY };
                let (keys, read_at) = (Arc::new(keys), Some(Instant::now()));
                let endpoints = endpoints.map(Arc::new);
                self.known.send_modify(|known| {
                    (known.keys, known.endpoints, known.read_at) = (keys, endpoints, read_at);
                });
                pause
            }
            Err(problem) => {
                *failures = failures.saturating_add(1);
                if *failures == 1 || failures.is_multiple_of(60) {
                    let counting = if before == KeyState::None {
                        "none counts"
                    } else {
                        "those read before count for a day"
                    };
                    tracing::warn!(issuer, problem, counting, "the keys of an issuer can't be read");
                }
                match before {
                    KeyState::None => Duration::from_secs(1 << (*failures).min(6)).min(AT_MOST_EVERY),
                    KeyState::Fresh | KeyState::Old => AT_MOST_EVERY,
                }
            }
        };
        self.known.send_modify(|known| {
            known.tried += 1;
            (known.is_reading, known.has_failed) = (false, has_failed);
        });
        pause
    }

    async fn fetch(&self) -> Result<Found, String> {
        let (found, endpoints);
        let keys = match &self.document {
            Document::Keys(keys) => {
                endpoints = None;
                keys
            }
            Document::Discovery(discovery) => {
                (found, endpoints) = self.discovered(discovery, &self.document(discovery).await?)?;
                &found
            }
        };
        let read = Keys::read(&self.document(keys).await?);
        let (keys, left_out) = read.map_err(|problem| problem.to_string())?;
        Ok(Found { keys, left_out, endpoints })
    }

    /// What a discovery document names: the address of the keys and, if people sign in there, where they do.
    fn discovered(&self, discovery: &Url, document: &[u8]) -> Result<(Url, Option<Endpoints>), String> {
        let Ok(Value::Object(document)) = parse_json(document) else {
            return Err("its discovery document is no JSON object, or has a key twice".to_owned());
        };
        if document.get("issuer").and_then(Value::as_str) != Some(&self.issuer.issuer) {
            return Err("its discovery document is that of another issuer".to_owned());
        }
        let named = |name: &'static str| {
            let said = document.get(name).and_then(Value::as_str);
            let said = said.ok_or_else(|| format!("its discovery document names no `{name}`"))?;
            let problem = |problem| format!("the `{name}` of its discovery document {problem}");
            let found = address(said).map_err(problem)?;
            // What somebody elsewhere says must not lead to this machine.
            let is_here = |address: &Url| address.host().is_some_and(|host| is_loopback(&host));
            if is_here(&found) && !is_here(discovery) {
                return Err(problem("is on this machine"));
            }
            Ok(found)
        };
        let endpoints = match self.is_for_people {
            true => Some(Endpoints::of(&document, named)?),
            false => None,
        };
        Ok((named("jwks_uri")?, endpoints))
    }

    async fn document(&self, url: &Url) -> Result<Vec<u8>, String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let request = Request { method: Method::GET, url, headers, body: Bytes::new() };
        match self.ask(request).await? {
            (StatusCode::OK, document) => Ok(document),
            (status, _) => Err(format!("it answers {}", status.as_u16())),
        }
    }

    /// Asks it something, and returns the status and the body of its answer, which has at most [`LARGEST`] bytes.
    pub(super) async fn ask(&self, request: Request<'_>) -> Result<(StatusCode, Vec<u8>), String> {
        let answer = self.client.send(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let body = answer.whole(LARGEST).await.map_err(|error| error.to_string())?;
        Ok((status, body))
    }
}

/// Whoever waits to read on has to hear that nobody is left.
impl Drop for Source {
    fn drop(&mut self) {
        self.wanted.notify_one();
    }
}

async fn follow(source: Weak<Source>, wanted: Arc<Notify>) {
    let mut failures = 0;
    loop {
        let Some(followed) = source.upgrade() else { return };
        let pause = followed.read(&mut failures).await;
        drop(followed);
        tokio::select! {
            () = sleep(pause) => {}
            () = wanted.notified() => {}
        }
    }
}

/// An address that may be asked for keys: encrypted, or on this machine.
fn address(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text).map_err(|_| "is no address")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("is an address with credentials");
    }
    if url.fragment().is_some() {
        return Err("is an address with a fragment");
    }
    let is_here = url.host().is_some_and(|host| is_loopback(&host));
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_here => Ok(url),
        _ => Err("is neither an `https` address nor an `http` address of this machine"),
    }
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.is_loopback(),
    }
}
