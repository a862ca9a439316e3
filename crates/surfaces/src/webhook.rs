//! Signed webhooks, out and back, by Standard Webhooks ([`signature`](crate::signature)).
//!
//! Out, a server of the operator's is told of questions with all of their facts. Back, it answers with a handle and the name of a user, signed
//! with another secret: who sends is proved, and for the person it vouches, so the record says that the webhook says so.
//!
//! A delivery that is tried again has the id of the first time. Redirects are not followed, and addresses that are not public are refused unless
//! the operator allows them.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::Digest;
use backstop_store::{ApprovalRecord, Identity, Timestamp};
use http::{HeaderMap, HeaderValue};
use serde_json::{Map, Value, json};
use url::Url;

use crate::asking::{Asker, Egress};
use crate::handle::Handle;
use crate::shown::line;
use crate::signature::{REMEMBERED, SigningSecret, is_plausible, sign, verified};
use crate::surface::{
    Asks, Back, Ceiling, Heard, Message, Outcome, Posted, Refused, Surface, SurfaceError, SurfaceName,
};

/// The longest delivery.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most bytes of an answer to a delivery; nobody reads them.
const MOST_BYTES: usize = 64 << 10;
/// The most bytes of what is posted back.
const MOST_POSTED: usize = 16 << 10;
/// The longest name of a user.
const LONGEST_USER: usize = 128;

/// A server that is told, and that may answer.
#[derive(Debug)]
pub struct Webhook {
    settings: WebhookSettings,
    place: [String; 1],
    asker: Asker,
}

/// What a webhook is made of. Addresses of webhooks often hold a secret, so it is not shown.
#[derive(Clone)]
pub struct WebhookSettings {
    /// Its name.
    pub name: SurfaceName,
    /// Where deliveries go.
    pub url: Url,
    /// The secret of what we send.
    pub secret: SigningSecret,
    /// The secret of what is sent to us; without one, nothing is answered.
    pub answer_secret: Option<SigningSecret>,
    /// The most that can be answered.
    pub ceiling: Ceiling,
    /// Where deliveries may go.
    pub egress: Egress,
}

impl fmt::Debug for WebhookSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, ceiling, egress, .. } = self;
        let mut shown = f.debug_struct("WebhookSettings");
        shown.field("name", name).field("ceiling", ceiling).field("egress", egress).finish_non_exhaustive()
    }
}

impl Webhook {
    /// Returns the webhook.
    pub fn new(settings: WebhookSettings) -> Self {
        let asker = Asker::new(settings.egress.clone(), PATIENCE, MOST_BYTES);
        Self { settings, place: [String::new()], asker }
    }

    /// Sends an event. What makes it one is in `of`: the same event has the same id.
    async fn deliver(&self, kind: &str, of: &str, data: Value) -> Result<String, SurfaceError> {
        let now = Timestamp::now();
        let id = Digest::of("webhook_delivery", &json!([self.settings.name.as_str(), kind, of]));
        let id = format!("msg_{}", id.prefix(32));
        let body =
            json!({ "type": kind, "timestamp": now.to_string(), "data": data }).to_string().into_bytes();
        let to = (&self.settings.url, &self.settings.secret);
        post_signed(&self.asker, to, &id, now, body).await?;
        Ok(id)
    }
}

/// Posts a body that is signed with the secret of whoever is told. Redirects are not followed.
pub(crate) async fn post_signed(
    asker: &Asker,
    (url, secret): (&Url, &SigningSecret),
    id: &str,
    now: Timestamp,
    body: Vec<u8>,
) -> Result<(), SurfaceError> {
    let mut headers = Vec::new();
    for (name, value) in sign(secret, id, now, &body) {
        let value = HeaderValue::try_from(value);
        headers.push((name, value.map_err(|_| SurfaceError::never("an id can't stand in a header"))?));
    }
    let answer = asker.post(url, headers, body).await?;
    if answer.status.is_success() { Ok(()) } else { Err(answer.refusal()) }
}

/// Returns the facts of a question. The code is not there: whoever holds it could answer elsewhere.
fn facts(record: &ApprovalRecord) -> Map<String, Value> {
    let request = &record.request;
    let arguments = request.whole.as_ref().filter(|_| !request.unseen).unwrap_or(&request.preview);
    let whence = request.whence().into_iter().map(|(name, value)| (name.to_owned(), Value::from(value)));
    let reasons: Vec<Value> = request
        .reasons
        .iter()
        .map(|reason| {
            json!({
                "hook": reason.hook, "title": reason.title, "description": reason.description,
                "severity": reason.severity, "rules": reason.rules,
            })
        })
        .collect();
    let facts = json!({
        "id": record.id, "digest": request.digest, "severity": request.severity, "title": request.title,
        "description": request.description, "agent": request.agent, "tool": request.tool_name.canonical(),
        "calledAs": request.tool_name.called_as(), "whence": whence.collect::<Map<_, _>>(), "arguments": arguments,
        "masked": request.masked, "unseen": request.unseen, "starts": request.starts, "reasons": reasons,
        "createdAt": request.created_at.as_millis(), "expiresAt": request.expires_at.as_millis(),
    });
    match facts {
        Value::Object(facts) => facts,
        _ => Map::new(),
    }
}

/// Returns the facts of a question without anything of its call, for a server that does not take all of them.
fn few_facts(record: &ApprovalRecord) -> Map<String, Value> {
    let few = ["id", "digest", "severity", "agent", "tool", "calledAs", "createdAt", "expiresAt"];
    facts(record).into_iter().filter(|(name, _)| few.contains(&name.as_str())).collect()
}

#[async_trait]
impl Surface for Webhook {
    fn name(&self) -> &SurfaceName {
        &self.settings.name
    }

    fn kind(&self) -> &'static str {
        "webhook"
    }

    fn ceiling(&self) -> Ceiling {
        match self.settings.answer_secret {
            Some(_) => self.settings.ceiling,
            None => Ceiling::Notice,
        }
    }

    fn places(&self) -> Cow<'_, [String]> {
        Cow::Borrowed(&self.place)
    }

    fn has_short(&self) -> bool {
        true
    }

    fn room(&self) -> Option<usize> {
        None
    }

    fn signed(&self, person: &Identity) -> String {
        let who = if let Identity::Vouched(name) = person { name } else { "somebody" };
        format!("webhook {} says: {who}", self.settings.name)
    }

    async fn send(&self, message: &Message<'_>) -> Result<String, SurfaceError> {
        let answers: Vec<Value> = message
            .offers
            .iter()
            .map(|offer| json!({ "decision": offer.decision, "handle": offer.handle.expose() }))
            .collect();
        let link = message.link.map(Url::as_str);
        let facts = if message.is_short { few_facts(message.record) } else { facts(message.record) };
        let data = json!({
            "approval": facts, "answers": answers, "link": link, "short": message.is_short, "more": message.more,
        });
        let id = message.record.id.as_str();
        // Another delivery, since there is something else in it.
        let of = if message.is_short { format!("{id} short") } else { id.to_owned() };
        self.deliver("approval.requested", &of, data).await
    }

    async fn withdraw(&self, _place: &str, _reference: &str, outcome: &Outcome) -> Result<(), SurfaceError> {
        let data = json!({
            "id": outcome.approval, "status": outcome.status.as_str(), "by": outcome.by, "agent": outcome.agent, "tool": outcome.tool,
        });
        self.deliver("approval.resolved", outcome.approval.as_str(), data).await.map(drop)
    }

    async fn test(&self, _place: &str) -> Result<String, SurfaceError> {
        let now = Timestamp::now().as_millis().to_string();
        let id = self.deliver("backstop.test", &now, json!({ "message": "This is a test." })).await?;
        Ok(format!("delivery {id}"))
    }

    fn expects(&self, headers: &HeaderMap, now: Timestamp) -> Result<(), Refused> {
        self.settings.answer_secret.as_ref().ok_or(Refused::NotHere)?;
        if is_plausible(headers, now) { Ok(()) } else { Err(Refused::Unsigned) }
    }

    fn posted(&self, posted: &Posted<'_>) -> Result<Vec<Heard>, Refused> {
        let secret = self.settings.answer_secret.as_ref().ok_or(Refused::NotHere)?;
        let id = verified(secret, posted.headers, posted.body, posted.now).ok_or(Refused::Unsigned)?;
        if posted.body.len() > MOST_POSTED {
            return Err(Refused::Malformed("it has more than 16 KiB"));
        }
        let body: Value =
            serde_json::from_slice(posted.body).map_err(|_| Refused::Malformed("it is not JSON"))?;
        if body.get("type").and_then(Value::as_str) != Some("approval.answer") {
            return Err(Refused::Malformed("its `type` is not `approval.answer`"));
        }
        let text = |name: &str| body.get("data").and_then(|data| data.get(name)?.as_str());
        let handle = text("handle").and_then(Handle::read);
        let handle = handle.ok_or(Refused::Malformed("`data.handle` is no handle"))?;
        let user = text("user").filter(|user| !user.is_empty() && user.len() <= LONGEST_USER);
        let user = user.ok_or(Refused::Malformed("`data.user` is no name of a user"))?;
        Ok(vec![Heard {
            person: Identity::Vouched(line(user, LONGEST_USER)),
            asks: Asks::Press(handle),
            place: None,
            delivery: Some((id.to_owned(), posted.now.after(REMEMBERED))),
            back: Back::Here,
        }])
    }
}
