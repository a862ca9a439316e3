//! Web push: notices on the devices of people who use the console (RFC 8030, 8291, 8292).
//!
//! A person who is signed in at the console has their browser subscribe at its push service, and gives us the [address](services) and the keys that
//! come of it. What is sent is [encrypted](seal) for that browser, and [signed](vapid) for the service, which sees neither text nor link.
//!
//! Laws:
//!
//! - *A push is a notice*: that something waits, of which tool and agent, how grave it is, and a link to the console. Opening it decides nothing, and
//!   neither arguments nor what hooks wrote are in it: devices show notices while they are locked.
//! - *Only push services are spoken to*, over TLS, whatever address a browser names.
//! - *Whoever may no longer sign in is told nothing more*: the desk looks at the [tokens](devices) before it tells anything.
//!
//! Limits: devices of one process are told one after the other, so that a service that gives no answer delays the devices of others, by at most
//! ten seconds; then none of its devices is told for a minute. The push service learns that something was sent to the device, when, and how long it is.

pub(crate) mod devices;
mod seal;
mod services;
mod vapid;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::{ApprovalId, Digest, Secret, Severity};
use backstop_http_client::tls::Trust;
use backstop_store::{ApprovalStatus, Timestamp};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use tokio::time::Instant;
use url::Url;

use self::devices::{Added, Device, DeviceError, Devices, NewDevice};
use self::seal::seal;
use self::services::Whose;
use self::vapid::VapidKey;
use crate::asking::{Asker, Egress};
use crate::shown::{line, more_waits, severity, until};
use crate::surface::{Ceiling, Message, Outcome, Surface, SurfaceError, SurfaceName, TEST};

pub use self::services::BadEndpoint;

/// The longest push.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a service is left alone that gave no answer.
const REST: Duration = Duration::from_secs(60);
const MOST_BYTES: usize = 64 << 10;
/// The most bytes of a text, which push services have to take when it is encrypted (RFC 8291, section 4).
const MOST_TEXT: usize = 3_900;
/// How long a service keeps what is told of the end of a question.
const KEPT: Duration = Duration::from_secs(3_600);
/// The role of a question in its topic.
const ROLE: &str = "web_push_topic";

/// What web push is made of.
#[derive(Debug)]
pub struct WebPushSettings {
    /// Its name.
    pub name: SurfaceName,
    /// Our key (PKCS #8); without one, that in the folder, which is made when it is needed first.
    pub key: Option<Secret>,
    /// Where devices are kept, and the key.
    pub folder: PathBuf,
    /// Where people open the console, which is also where services find whoever runs this.
    pub console: Url,
    /// The origins of push services besides those of browsers.
    pub services: Vec<Url>,
    /// Where pushes to these may go; those of browsers are on the public internet.
    pub egress: Egress,
    /// Whose certificates are believed.
    pub trust: Trust,
}

/// The devices of people, which are told.
pub struct WebPush {
    name: SurfaceName,
    folder: PathBuf,
    key: OnceLock<VapidKey>,
    about: String,
    devices: Devices,
    browsers: Asker,
    operators: Asker,
    /// The services that gave no answer, by origin, and until when they are left alone.
    resting: Mutex<HashMap<String, Instant>>,
}

impl fmt::Debug for WebPush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebPush").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a push is like for a service.
struct How {
    ttl: Duration,
    urgency: &'static str,
    topic: Option<String>,
}

impl WebPush {
    /// Returns web push with these settings.
    ///
    /// # Errors
    /// Why it can't be: the key is none.
    pub fn new(settings: WebPushSettings) -> Result<Self, String> {
        let WebPushSettings { name, key, folder, console, services, egress, trust } = settings;
        let known = OnceLock::new();
        if let Some(key) = &key {
            let key =
                VapidKey::read(key).ok_or("`key` is no private key of P-256 (PKCS #8, PEM or base64)")?;
            let _ = known.set(key);
        }
        let devices = Devices::kept(folder.join("devices.json"), services);
        let asker = |egress| Asker::trusting(trust.clone(), egress, PATIENCE, MOST_BYTES);
        let (browsers, operators) = (asker(Egress::Public), asker(egress));
        let (about, resting) = (console.to_string(), Mutex::default());
        Ok(Self { name, folder, key: known, about, devices, browsers, operators, resting })
    }

    /// Returns our public key, as browsers want it. It is made if there is none.
    ///
    /// # Errors
    /// If it can't be read or made.
    pub fn public_key(&self) -> Result<&str, DeviceError> {
        self.key().map(VapidKey::public)
    }

    fn key(&self) -> Result<&VapidKey, DeviceError> {
        if let Some(key) = self.key.get() {
            return Ok(key);
        }
        let key = VapidKey::kept(&self.folder.join("key")).map_err(DeviceError::File)?;
        Ok(self.key.get_or_init(|| key))
    }

    /// Tells a device from now on.
    ///
    /// # Errors
    /// [`DeviceError`]; then nothing changes.
    pub async fn add(&self, new: NewDevice) -> Result<Added, DeviceError> {
        self.devices.add(new, self.public_key()?.to_owned()).await
    }

    /// Tells a device of a person no longer. Returns whether it was told.
    ///
    /// # Errors
    /// [`DeviceError`]; then it is told as before.
    pub async fn remove(&self, user: &str, endpoint: &str) -> Result<bool, DeviceError> {
        self.devices.remove(user, endpoint, self.public_key()?.to_owned()).await
    }

    /// Returns the devices that are told; none before the first has subscribed.
    fn all(&self) -> std::sync::Arc<[Device]> {
        if self.key.get().is_none() && !self.folder.join("devices.json").exists() {
            return std::sync::Arc::default();
        }
        match self.key() {
            Ok(key) => self.devices.all(key.public()),
            Err(error) => {
                tracing::warn!(%error, "no device is told: the key for web push can't be read");
                std::sync::Arc::default()
            }
        }
    }

    /// Returns the devices whose tokens are not among these, as places.
    pub(crate) fn ended(&self, tokens: &BTreeSet<String>) -> BTreeSet<String> {
        let all = self.all();
        all.iter().filter(|one| !tokens.contains(&one.token)).map(|one| one.place.clone()).collect()
    }

    /// Tells devices no longer whose tokens are not among these. Returns how many there were.
    pub(crate) async fn keep(&self, tokens: BTreeSet<String>) -> Result<usize, DeviceError> {
        self.devices.keep(tokens, self.public_key()?.to_owned()).await
    }

    async fn push(&self, place: &str, text: &Value, how: &How) -> Result<(), SurfaceError> {
        let all = self.all();
        let device = all.iter().find(|device| device.place == place);
        let device = device.ok_or_else(|| SurfaceError::never("that device is told no longer"))?;
        let text = text.to_string().into_bytes();
        if text.len() > MOST_TEXT {
            return Err(SurfaceError::never("the notice has more than 3 900 bytes"));
        }
        let body = seal(&text, &device.receiver);
        let body = body.ok_or_else(|| SurfaceError::later("the notice can't be encrypted"))?;
        let headers = self.headers(device, how);
        let headers = headers.ok_or_else(|| SurfaceError::later("the notice can't be signed"))?;
        let asker = match device.whose {
            Whose::Browsers => &self.browsers,
            Whose::Operators => &self.operators,
        };
        let origin = device.endpoint.origin().ascii_serialization();
        if let Some(after) = self.rests(&origin) {
            let why = "its service gave no answer a moment ago".to_owned();
            return Err(SurfaceError::Later { why, after: Some(after) });
        }
        let answer = match asker.send(&device.endpoint, headers, body).await {
            Ok(answer) => answer,
            Err(error) => {
                self.rest(origin);
                return Err(error);
            }
        };
        if answer.status.is_success() {
            return Ok(());
        }
        if matches!(answer.status, StatusCode::NOT_FOUND | StatusCode::GONE) {
            let key = self
                .public_key()
                .map(str::to_owned)
                .map_err(|error| SurfaceError::later(error.to_string()))?;
            let removed = self.devices.gone(place, key).await;
            removed.map_err(|error| SurfaceError::later(error.to_string()))?;
            return Err(SurfaceError::never(
                "the service says that the device is gone: it is told no longer",
            ));
        }
        Err(answer.refusal())
    }

    /// Returns how long a service is left alone, if it is.
    fn rests(&self, origin: &str) -> Option<Duration> {
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        resting.retain(|_, until| *until > now);
        resting.get(origin).map(|until| until.saturating_duration_since(now))
    }

    fn rest(&self, origin: String) {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner).insert(origin, Instant::now() + REST);
    }

    fn headers(&self, device: &Device, how: &How) -> Option<HeaderMap> {
        let authorization =
            self.key().ok()?.authorization(&device.endpoint, &self.about, Timestamp::now())?;
        let mut authorization = HeaderValue::try_from(authorization).ok()?;
        authorization.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, authorization);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("aes128gcm"));
        headers.insert(HeaderName::from_static("ttl"), how.ttl.as_secs().into());
        headers.insert(HeaderName::from_static("urgency"), HeaderValue::from_static(how.urgency));
        if let Some(topic) = &how.topic {
            headers.insert(HeaderName::from_static("topic"), HeaderValue::try_from(topic).ok()?);
        }
        Some(headers)
    }
}

/// Returns the topic of what is told of a question, by which what was not delivered yet is replaced: 32 characters that say nothing.
fn topic(approval: &ApprovalId) -> String {
    Digest::of_text(ROLE, approval.as_str()).prefix(32)
}

/// Returns where a question is on the console, without where the console is: the device knows that.
fn path(approval: &ApprovalId) -> String {
    format!("{}/approvals/{approval}", backstop_console::ROOT)
}

#[async_trait]
impl Surface for WebPush {
    fn name(&self) -> &SurfaceName {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "web push"
    }

    fn ceiling(&self) -> Ceiling {
        Ceiling::Notice
    }

    fn places(&self) -> Cow<'_, [String]> {
        self.all().iter().map(|device| device.place.clone()).collect()
    }

    fn room(&self) -> Option<usize> {
        None
    }

    fn web_push(&self) -> Option<&WebPush> {
        Some(self)
    }

    async fn send(&self, message: &Message<'_>) -> Result<String, SurfaceError> {
        let request = &message.record.request;
        let (tool, agent) = (line(&request.tool_name.in_full(), 80), line(request.agent.as_str(), 80));
        let answer = message.answered_on.words();
        let more = more_waits(message.more).map(|more| format!(" {more}")).unwrap_or_default();
        let text = json!({
            "kind": "question", "tag": topic(&message.record.id), "link": path(&message.record.id),
            "title": format!("{}: approval wanted for {tool}", severity(request.severity)),
            "body": format!("{agent} waits until {}. {answer}{more}", until(request.expires_at)),
        });
        let how = How {
            ttl: message.now.until(request.expires_at),
            urgency: if request.severity == Severity::Info { "normal" } else { "high" },
            topic: Some(topic(&message.record.id)),
        };
        self.push(message.place, &text, &how).await.map(|()| "pushed".to_owned())
    }

    async fn withdraw(&self, place: &str, _reference: &str, outcome: &Outcome) -> Result<(), SurfaceError> {
        let (tool, agent) = (line(&outcome.tool, 80), line(&outcome.agent, 80));
        let ended = match outcome.status {
            ApprovalStatus::Allowed
            | ApprovalStatus::Used
            | ApprovalStatus::Denied
            | ApprovalStatus::Edited
            | ApprovalStatus::Responded => "was answered",
            _ => "is over",
        };
        let text = json!({
            "kind": "over", "tag": topic(&outcome.approval), "link": path(&outcome.approval),
            "title": "Backstop", "body": format!("The question about {tool} of {agent} {ended}."),
        });
        let how = How { ttl: KEPT, urgency: "low", topic: Some(topic(&outcome.approval)) };
        self.push(place, &text, &how).await
    }

    async fn test(&self, place: &str) -> Result<String, SurfaceError> {
        let link = format!("{}/approvals", backstop_console::ROOT);
        let text = json!({ "kind": "test", "tag": "test", "link": link, "title": "Backstop", "body": TEST });
        let how = How { ttl: KEPT, urgency: "normal", topic: None };
        self.push(place, &text, &how).await.map(|()| "taken by the push service".to_owned())
    }
}
