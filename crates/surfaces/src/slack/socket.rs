//! Socket Mode: what people do at Slack comes over connections that we open ("Using Socket Mode", docs.slack.dev).
//!
//! `apps.connections.open`, called with the token of the app, names an address at which one WebSocket can be opened. Nothing that comes over it is
//! signed: *that it is Slack's is what TLS proves*. So the address counts only if it is one of [Slack's](DOMAINS), or of the server that the
//! operator named as `api`.
//!
//! Laws:
//!
//! - *The address is a secret* that opens one connection: it is in no log, error or `Debug` output, and not kept.
//! - *What comes is judged as what is posted*: read by the same code, decided by the same desk. Acknowledging it decides nothing.
//! - *What is not acknowledged was not taken*: only where too much is under way, which is counted.
//! - *A connection that nobody speaks on is dead*: each is asked for a sign of life, and given up without one.
//! - *Bounded*: the size of a message, what is under way, how many connections stand at once, and how often one is opened.
//!
//! Slack gives each connection up after a while, and says so before: then the next one is opened while the old one is still heard. Of several
//! connections of an app, in this process or in others, Slack tells one of each press.

use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::Secret;
use backstop_http_client::Socket;
use backstop_store::Timestamp;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, HeaderValue, header};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, Utf8Bytes};
use url::{Host, Url};
use uuid::Uuid;

use super::api::{Api, REFUSED};
use super::envelope::{Kind, Said, Why};
use super::reading;
use crate::backoff::Backoff;
use crate::counts::Came;
use crate::desk::{Ear, Stands};
use crate::signature::{REMEMBERED, TOLERANCE};
use crate::surface::{Asks, Heard, Refused, SurfaceError};

/// Where Slack's connections are: below `slack.com` (`wss-primary.slack.com` and others, as the documentation of `apps.connections.open` and of
/// `disconnect` shows them), and below `slack-gov.com` for GovSlack.
const DOMAINS: [&str; 2] = ["slack.com", "slack-gov.com"];
/// The longest address of a connection.
const LONGEST_URL: usize = 4_096;
/// The most bytes of a message. A press brings the whole message along that was pressed on.
const MOST_BYTES: usize = 1 << 20;
/// Bytes that one read brings at most.
const READ: usize = 16 << 10;
/// How many messages of one connection may be such that nobody can read them.
const MOST_UNREAD: usize = 32;
/// How many connections stand at once: one, and one that it takes the place of.
const MOST_STANDING: usize = 2;
/// How long it may take to acknowledge something, or to ask for a sign of life. Slack waits three seconds.
const WRITE: Duration = Duration::from_secs(3);
/// How long a connection is waited for that is told goodbye.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long it is waited where the app has as many connections as it may have.
const CROWDED: Duration = Duration::from_secs(60);
/// What is appended to a key before it is hashed (RFC 6455, 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// When connections are looked after.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How often one is asked for a sign of life.
    pub ping: Duration,
    /// After how much silence one is dead; also how long one may take to say `hello`.
    pub silence: Duration,
    /// How long one has to stand so that the next one is opened without waiting.
    pub settled: Duration,
    /// How long one is still heard that another one takes the place of.
    pub linger: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            ping: Duration::from_secs(10),
            silence: Duration::from_secs(30),
            settled: Duration::from_secs(30),
            linger: Duration::from_secs(30),
        }
    }
}

/// Where connections of an app come from.
pub(super) struct Line {
    api: Arc<Api>,
    token: Secret,
    app: Arc<str>,
    pace: Pace,
}

type WebSocket = WebSocketStream<Socket>;

impl Line {
    pub(super) fn new(api: Arc<Api>, token: Secret, app: String, pace: Pace) -> Self {
        Self { api, token, app: app.into(), pace }
    }

    /// Hears people until the ear is told to stop, and then closes what stands.
    pub(super) async fn listen(&self, ear: Ear) {
        let (mut standing, mut stopped) = (JoinSet::new(), ear.clone());
        tokio::select! {
            biased;
            () = stopped.stopped() => {}
            () = self.keep(&ear, &mut standing) => {}
        }
        // Each is told the same, and says goodbye.
        while standing.join_next().await.is_some() {}
    }

    /// Keeps a connection, for ever.
    async fn keep(&self, ear: &Ear, standing: &mut JoinSet<()>) {
        let mut backoff = Backoff::default();
        loop {
            let opened = Instant::now();
            let ended = match self.open().await {
                Ok(socket) => {
                    while standing.try_join_next().is_some() {}
                    if standing.len() >= MOST_STANDING {
                        // The old ones have had their time.
                        standing.shutdown().await;
                    }
                    let (leaves, left) = oneshot::channel();
                    standing.spawn(Connection::new(socket, ear.clone(), self, leaves).hear());
                    left.await.unwrap_or(Ended::Broken("it broke off"))
                }
                Err(error) => Ended::Unopened(error),
            };
            if opened.elapsed() >= self.pace.settled && !matches!(ended, Ended::Unopened(_)) {
                backoff = Backoff::default();
                if matches!(ended, Ended::Refreshed) {
                    continue;
                }
            }
            let wait = jittered(backoff.next(ended.after()));
            if !matches!(ended, Ended::Refreshed) {
                tracing::warn!(surface = %ear.name(), error = %ended, wait_s = wait.as_secs(), "there is no connection on which answers come");
            }
            sleep(wait).await;
        }
    }

    /// Opens a connection. Its address is a secret, and forgotten.
    async fn open(&self) -> Result<WebSocket, SurfaceError> {
        let said = self.api.call(&self.token, "apps.connections.open", &json!({})).await?;
        let url = said.get("url").and_then(Value::as_str);
        let url = url.and_then(|url| judged(url, &self.api.url));
        let url = url.ok_or_else(|| {
            SurfaceError::never("apps.connections.open named an address that is none of Slack's connections")
        })?;
        let offer = Offer::new();
        let (answer, socket) = self.api.asker.open(&url, offer.headers()).await?;
        if !offer.is_taken(&answer) {
            return Err(SurfaceError::later("the service opened something else than a WebSocket"));
        }
        let config = WebSocketConfig::default().read_buffer_size(READ).write_buffer_size(READ);
        let config = config.max_message_size(Some(MOST_BYTES)).max_frame_size(Some(MOST_BYTES));
        Ok(WebSocketStream::from_raw_socket(socket, Role::Client, Some(config)).await)
    }
}

/// Returns the address at which a WebSocket is opened, as the HTTP client knows it, if it is Slack's or that of `api`.
fn judged(text: &str, api: &Url) -> Option<Url> {
    let mut url = Url::parse(text).ok().filter(|_| text.len() <= LONGEST_URL)?;
    let is_bare = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    let is_slacks = match url.host() {
        Some(Host::Domain(host)) => DOMAINS.iter().any(|domain| {
            host.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
        }),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) | None => false,
    };
    let is_here = match api.host() {
        Some(Host::Domain(host)) => host == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let is_apis = url.host() == api.host() && url.port_or_known_default() == api.port_or_known_default();
    let scheme = match (url.scheme(), api.scheme()) {
        ("wss", _) if is_slacks && url.port().is_none() => "https",
        ("wss", "https") if is_apis => "https",
        // In the clear, nothing proves that it is Slack's, and the operator said so by naming this machine.
        ("ws", "http") if is_apis && is_here => "http",
        _ => return None,
    };
    url.set_scheme(scheme).ok()?;
    Some(url).filter(|_| is_bare)
}

/// Returns a time that is up to half as long again, so that those who lost a connection together don't come back together.
fn jittered(wait: Duration) -> Duration {
    let mut random = [0];
    if SystemRandom::new().fill(&mut random).is_err() {
        return wait;
    }
    let [random] = random;
    wait.saturating_add((wait / 512).saturating_mul(u32::from(random)))
}

/// A handshake without extensions and subprotocols (RFC 6455, 4).
struct Offer(String);

impl Offer {
    fn new() -> Self {
        Self(BASE64_STANDARD.encode(Uuid::new_v4().as_bytes()))
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        if let Ok(key) = HeaderValue::from_str(&self.0) {
            headers.insert(header::SEC_WEBSOCKET_KEY, key);
        }
        headers
    }

    /// Returns whether an answer takes this offer, and nothing that was not offered.
    fn is_taken(&self, answer: &HeaderMap) -> bool {
        let proof =
            digest(&SHA1_FOR_LEGACY_USE_ONLY, [self.0.as_bytes(), GUID.as_bytes()].concat().as_slice());
        let proof = BASE64_STANDARD.encode(proof);
        let is_websocket = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"websocket");
        answer.get(header::SEC_WEBSOCKET_ACCEPT).is_some_and(|accept| accept.as_bytes() == proof.as_bytes())
            && answer.get(header::UPGRADE).is_some_and(is_websocket)
            && !answer.contains_key(header::SEC_WEBSOCKET_EXTENSIONS)
            && !answer.contains_key(header::SEC_WEBSOCKET_PROTOCOL)
    }
}

/// Why a connection is not, or no longer, the one on which people are heard. None of it is text of the other side.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("Slack wants another one in its place")]
    Refreshed,
    #[error(
        "Socket Mode is switched off for this app: switch it on at Slack, or have answers posted (`signing_secret`)"
    )]
    Off,
    #[error("the app has as many connections as Slack lets it have: other processes use its token")]
    Crowded,
    #[error("`app_token` is one of another app than `app_id`")]
    OtherApp,
    #[error("{0}")]
    Broken(&'static str),
    #[error("{0}")]
    Unopened(SurfaceError),
}

impl Ended {
    /// Returns how long it is waited at least before the next one is opened.
    fn after(&self) -> Option<Duration> {
        match self {
            Self::Refreshed | Self::Broken(_) => None,
            Self::Crowded => Some(CROWDED),
            Self::Off | Self::OtherApp => Some(REFUSED),
            Self::Unopened(SurfaceError::Later { after, .. }) => *after,
            // What will never be is so until somebody changes something at Slack.
            Self::Unopened(SurfaceError::Content { .. } | SurfaceError::Never { .. }) => Some(REFUSED),
        }
    }
}

/// A connection.
struct Connection {
    socket: WebSocket,
    ear: Ear,
    app: Arc<str>,
    pace: Pace,
    /// When Slack last gave a sign of life.
    heard: Instant,
    /// When it is asked for one.
    ping: Instant,
    /// That it has greeted.
    stands: Option<Stands>,
    /// How much of what it said can't be read.
    unread: usize,
    /// Whoever opens the next one, and then, until when this one is still heard.
    leaves: Option<oneshot::Sender<Ended>>,
    leave: Option<Instant>,
}

impl Connection {
    fn new(socket: WebSocket, ear: Ear, line: &Line, leaves: oneshot::Sender<Ended>) -> Self {
        let (now, pace) = (Instant::now(), line.pace);
        Self {
            socket,
            ear,
            app: Arc::clone(&line.app),
            pace,
            heard: now,
            ping: now + pace.ping,
            stands: None,
            unread: 0,
            leaves: Some(leaves),
            leave: None,
        }
    }

    /// Hears people until it ends. It says when another one is to take its place, and is heard for a while longer then.
    async fn hear(mut self) {
        let ended = loop {
            let done = match self.text().await {
                Ok(Some(text)) => self.said(&text).await,
                Ok(None) => Ok(()),
                Err(ended) => Err(ended),
            };
            if let Err(ended) = done {
                break ended;
            }
        };
        if let Some(leaves) = self.leaves.take() {
            let _ = leaves.send(ended);
        }
        // Nobody waits for a goodbye of the other side.
        let _ = timeout(LAST_WORDS, self.socket.close(None)).await;
    }

    /// Waits for something to happen. Returns what Slack said, if that was it.
    async fn text(&mut self) -> Result<Option<Utf8Bytes>, Ended> {
        let silent = self.heard + self.pace.silence;
        let message = tokio::select! {
            biased;
            () = self.ear.stopped() => return Err(Ended::Broken("it is over here")),
            () = sleep_until(self.leave.unwrap_or(silent)), if self.leave.is_some() => return Err(Ended::Refreshed),
            () = sleep_until(silent) => return Err(Ended::Broken("Slack was silent for too long")),
            () = sleep_until(self.ping) => {
                self.ping = Instant::now() + self.pace.ping;
                return self.say(Message::Ping(Bytes::new())).await.map(|()| None);
            }
            message = self.socket.next() => message,
        };
        match message {
            Some(Ok(Message::Text(text))) => Ok(Some(text)),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {
                self.lives();
                Ok(None)
            }
            // Slack sends none of these.
            Some(Ok(Message::Binary(_) | Message::Frame(_))) => Ok(Some(Utf8Bytes::default())),
            Some(Ok(Message::Close(_))) | None => Err(Ended::Broken("Slack closed it")),
            Some(Err(Error::Capacity(_))) => {
                self.ear.came(Came::Unread);
                Err(Ended::Broken("Slack said more than fits into a message"))
            }
            Some(Err(_)) => Err(Ended::Broken("it broke")),
        }
    }

    /// Notes a sign of life. Only a connection that has greeted is kept by them.
    fn lives(&mut self) {
        if self.stands.is_some() {
            self.heard = Instant::now();
        }
    }

    /// Does what there is to do about what Slack said.
    async fn said(&mut self, text: &str) -> Result<(), Ended> {
        let Some(said) = Said::read(text) else {
            self.ear.came(Came::Unread);
            self.unread += 1;
            return match self.unread {
                0..MOST_UNREAD => Ok(()),
                _ => Err(Ended::Broken("too much of what Slack said can't be read")),
            };
        };
        match said {
            Said::Hello(Some(app)) if app != *self.app => return Err(Ended::OtherApp),
            Said::Hello(_) if self.stands.is_none() => self.stands = Some(self.ear.stands()),
            Said::Hello(_) => {}
            Said::Disconnect(why) => self.hand_over(why),
            Said::Envelope { id, kind, is_again, payload } => {
                let came = self.take(kind, is_again, &payload);
                self.ear.came(came);
                // What is not acknowledged is delivered again.
                if came != Came::Busy {
                    self.say(Message::text(json!({ "envelope_id": id }).to_string())).await?;
                }
            }
            Said::Other => self.ear.came(Came::Other),
        }
        self.lives();
        Ok(())
    }

    /// Has another connection opened in the place of this one.
    fn hand_over(&mut self, why: Why) {
        let Some(leaves) = self.leaves.take() else { return };
        self.leave = Some(Instant::now() + self.pace.linger);
        let _ = leaves.send(match why {
            Why::Refresh => Ended::Refreshed,
            Why::Off => Ended::Off,
            Why::Crowded => Ended::Crowded,
        });
    }

    /// Has something decided, if it is for us.
    fn take(&self, kind: Kind, is_again: bool, payload: &Value) -> Came {
        let until = Timestamp::now().after(REMEMBERED);
        let heard = match kind {
            Kind::Interactive => pressed(&self.app, payload, until),
            Kind::Command => typed(&self.app, payload, is_again, until),
            Kind::Other => return Came::Other,
        };
        match heard {
            Ok(None) => Came::Other,
            Ok(Some(heard)) => {
                if self.ear.hear(heard) {
                    return Came::Heard;
                }
                tracing::warn!(surface = %self.ear.name(), "an answer was not taken: too many are under way");
                Came::Busy
            }
            Err(refused) => {
                tracing::warn!(surface = %self.ear.name(), error = %refused, "a delivery counts for nothing");
                Came::Refused
            }
        }
    }

    /// Sends a message, in time or not at all.
    async fn say(&mut self, message: Message) -> Result<(), Ended> {
        match timeout(WRITE, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Ended::Broken("the connection takes nothing more")),
        }
    }
}

/// Reads a press, which is judged by its time as what is posted is by that of its signature: nothing else says how old it is.
fn pressed(app: &str, payload: &Value, until: Timestamp) -> Result<Option<Heard>, Refused> {
    let Some(heard) = reading::pressed(app, payload, until)? else { return Ok(None) };
    let at = payload.pointer("/actions/0/action_ts").and_then(Value::as_str).and_then(moment);
    let at = at.ok_or(Refused::Malformed("it does not say when somebody pressed"))?;
    let now = Timestamp::now();
    if at.until(now) <= TOLERANCE && now.until(at) <= TOLERANCE {
        return Ok(Some(heard));
    }
    let why = "This was pressed more than five minutes ago, or a clock is wrong. It counts for nothing.";
    Ok(Some(Heard { asks: Asks::Unclear(why), ..heard }))
}

/// Reads a command. Nothing says when it was typed, so that one may be old that was delivered before.
fn typed(app: &str, payload: &Value, is_again: bool, until: Timestamp) -> Result<Option<Heard>, Refused> {
    let field = |name: &str| payload.get(name).and_then(Value::as_str);
    let Some(heard) = reading::typed(app, field, until)? else { return Ok(None) };
    if !is_again {
        return Ok(Some(heard));
    }
    let why = "Slack delivered this again, and does not say when it was typed. It counts for nothing: type it once more.";
    Ok(Some(Heard { asks: Asks::Unclear(why), ..heard }))
}

/// Returns a time that is written as Slack does: seconds, and a part of a second behind a dot.
fn moment(text: &str) -> Option<Timestamp> {
    let (seconds, _) = text.split_once('.').unwrap_or((text, ""));
    let is_number = !seconds.is_empty() && seconds.bytes().all(|byte| byte.is_ascii_digit());
    let millis = seconds.parse::<i64>().ok().filter(|_| is_number)?.checked_mul(1_000)?;
    Some(Timestamp::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn a_connection_is_opened_at_slack_or_where_the_operator_said_and_nowhere_else() {
        let slack = url("https://slack.com/api/");
        let ticket = "/link/?ticket=1&app_id=A1";
        for host in ["wss-primary.slack.com", "wss-111.slack.com", "wss-primary.slack-gov.com"] {
            let judged = judged(&format!("wss://{host}{ticket}"), &slack).unwrap();
            assert_eq!(judged.as_str(), format!("https://{host}{ticket}"));
        }
        for text in [
            "ws://wss-primary.slack.com/link",
            "https://wss-primary.slack.com/link",
            "wss://wss-primary.slack.com:8443/link",
            "wss://me:word@wss-primary.slack.com/link",
            "wss://wss-primary.slack.com/link#there",
            "wss://wss-primary.slack.com./link",
            "wss://slack.com.example.com/link",
            "wss://evilslack.com/link",
            "wss://.slack.com/link",
            "wss://slack.com@example.com/link",
            "wss://example.com/?slack.com",
            "wss://127.0.0.1/link",
            "wss://localhost/link",
            "wss://169.254.169.254/link",
            "ws://127.0.0.1:1/link",
            "nothing",
            "",
        ] {
            assert_eq!(judged(text, &slack), None, "{text}");
        }
        assert_eq!(judged(&format!("wss://a.slack.com/{}", "x".repeat(LONGEST_URL)), &slack), None);
        let own = url("https://slack.example.com/api/");
        assert!(judged("wss://slack.example.com/link", &own).is_some());
        assert!(judged("ws://slack.example.com/link", &own).is_none());
        assert!(judged("wss://other.example.com/link", &own).is_none());
        assert!(judged("wss://slack.example.com:444/link", &own).is_none());
        let here = url("http://127.0.0.1:4000/api/");
        assert_eq!(judged("ws://127.0.0.1:4000/link", &here).unwrap().as_str(), "http://127.0.0.1:4000/link");
        for text in ["ws://127.0.0.1:4001/link", "ws://localhost:4000/link", "wss://127.0.0.1:4000/link"] {
            assert_eq!(judged(text, &here), None, "{text}");
        }
        assert_eq!(judged("ws://10.0.0.1:4000/link", &url("http://10.0.0.1:4000/api/")), None);
    }

    #[test]
    fn an_offer_is_taken_as_it_was_made() {
        // RFC 6455, 1.3.
        let offer = Offer("dGhlIHNhbXBsZSBub25jZQ==".to_owned());
        let mut answer = HeaderMap::new();
        answer.insert(header::UPGRADE, HeaderValue::from_static("WebSocket"));
        assert!(!offer.is_taken(&answer));
        answer.insert(header::SEC_WEBSOCKET_ACCEPT, HeaderValue::from_static("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert!(offer.is_taken(&answer));
        assert!(!Offer::new().is_taken(&answer));
        answer.insert(header::SEC_WEBSOCKET_EXTENSIONS, HeaderValue::from_static("permessage-deflate"));
        assert!(!offer.is_taken(&answer));
    }

    #[test]
    fn times_are_read_as_slack_writes_them_and_not_otherwise() {
        assert_eq!(moment("1548426417.840180"), Some(Timestamp::from_millis(1_548_426_417_000)));
        assert_eq!(moment("1548426417"), Some(Timestamp::from_millis(1_548_426_417_000)));
        for text in ["", ".5", "-1.0", "+1.0", " 1", "1e3", "99999999999999999999", "9223372036854775807.1"] {
            assert_eq!(moment(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn waiting_is_never_shorter_and_at_most_half_as_long_again(millis in 0_u64..4_000_000) {
            let wait = Duration::from_millis(millis);
            let jittered = jittered(wait);
            prop_assert!(jittered >= wait && jittered <= wait + wait / 2);
        }

        #[test]
        fn whatever_address_is_named_a_host_of_slack_is_connected_to(text in "(wss|ws|https)://[ -~]{0,40}") {
            let Some(url) = judged(&text, &url("https://slack.com/api/")) else { return Ok(()) };
            let host = url.host_str().unwrap();
            prop_assert!(url.scheme() == "https" && url.port().is_none());
            prop_assert!(host == "slack.com" || host.ends_with(".slack.com") || host.ends_with(".slack-gov.com"));
        }
    }
}
