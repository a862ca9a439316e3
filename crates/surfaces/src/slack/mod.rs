//! Slack: messages of an app with buttons (docs.slack.dev).
//!
//! The person is the workspace and the member that Slack [names](reading) by their ids; names that people choose count for nothing. What people do
//! comes in one of two ways, and is judged in the same one:
//!
//! - Slack posts it, signed with the secret of the app ([`is_slacks`]), to an address that it can reach;
//! - or it comes over a [connection](socket) that we open (Socket Mode), so that nothing of ours has to be reachable.
//!
//! Either is acknowledged at once: what came of a press is told afterwards, to whoever pressed. Arguments are sent as plain text, which Slack reads
//! nothing into.

mod api;
mod envelope;
mod reading;
mod socket;

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use backstop_hooks::{Decision, Secret};
use backstop_store::Timestamp;
use http::HeaderMap;
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

use self::api::Api;
use self::socket::Line;
use crate::asking::Egress;
use crate::desk::Ear;
use crate::shown::{head, line};
use crate::signature::{REMEMBERED, is_plausibly_slacks, is_slacks};
use crate::surface::{
    Back, Ceiling, Heard, Message, Offer, Outcome, Posted, Refused, Surface, SurfaceError, SurfaceName, TEST,
};

pub use self::socket::Pace;

/// Where the service is.
pub(crate) const API: &str = "https://slack.com/api/";
/// The most characters of a section of a message.
const MOST_SECTION: usize = 3_000;

/// An app at Slack.
#[derive(Debug)]
pub struct Slack {
    settings: SlackSettings,
    api: Arc<Api>,
}

/// How Slack says what people do.
#[derive(Clone, Debug)]
pub enum SlackAnswers {
    /// Not at all: nothing is answered.
    None,
    /// It posts it, signed with this secret.
    Posted(Secret),
    /// It says it over connections that this token of the app (`xapp-…`, scope `connections:write`) opens.
    Connected(Secret, Pace),
}

/// What an app is made of.
#[derive(Clone, Debug)]
pub struct SlackSettings {
    /// Its name here.
    pub name: SurfaceName,
    /// Where the service is.
    pub api: Url,
    /// Its id at Slack (`A…`), so that no other app's press counts.
    pub app: String,
    /// The token of its bot (`xoxb-…`).
    pub token: Secret,
    /// How it says what people do.
    pub answers: SlackAnswers,
    /// The channels that are told, by id.
    pub channels: Vec<String>,
    /// The most that can be answered.
    pub ceiling: Ceiling,
    /// Where requests may go.
    pub egress: Egress,
}

impl Slack {
    /// Returns the app.
    pub fn new(settings: SlackSettings) -> Self {
        let api = Arc::new(Api::new(settings.api.clone(), settings.egress.clone()));
        Self { settings, api }
    }

    async fn call(&self, method: &str, body: &Value) -> Result<Value, SurfaceError> {
        self.api.call(&self.settings.token, method, body).await
    }

    /// Returns the secret with which Slack signs what it posts, if it posts anything.
    fn signing_secret(&self) -> Result<&Secret, Refused> {
        match &self.settings.answers {
            SlackAnswers::Posted(secret) => Ok(secret),
            SlackAnswers::None | SlackAnswers::Connected(..) => Err(Refused::NotHere),
        }
    }

    fn blocks(title: &str, text: &str, offers: &[Offer], link: Option<&Url>) -> Value {
        let mut blocks = vec![section(title)];
        if !text.is_empty() {
            blocks.push(section(text));
        }
        let mut elements: Vec<Value> = offers
            .iter()
            .map(|offer| {
                let (label, action, style) = match offer.decision {
                    Decision::Deny => ("Deny", "backstop_deny", "danger"),
                    Decision::AllowOnce | Decision::AllowAlways => {
                        ("Allow once", "backstop_allow_once", "primary")
                    }
                };
                json!({
                    "type": "button", "action_id": action, "style": style, "value": offer.handle.expose(),
                    "text": { "type": "plain_text", "text": label },
                })
            })
            .collect();
        if let Some(link) = link {
            elements.push(json!({
                "type": "button", "action_id": "backstop_console", "url": link.as_str(),
                "text": { "type": "plain_text", "text": "Open the console" },
            }));
        }
        if !elements.is_empty() {
            blocks.push(json!({ "type": "actions", "elements": elements }));
        }
        blocks.into()
    }

    async fn say(&self, place: &str, fallback: &str, blocks: Value) -> Result<String, SurfaceError> {
        let body = json!({
            "channel": place, "text": escaped(fallback), "blocks": blocks, "unfurl_links": false, "unfurl_media": false,
        });
        let said = self.call("chat.postMessage", &body).await?;
        let ts = said.get("ts").and_then(Value::as_str);
        ts.map(|ts| line(ts, 64)).ok_or_else(|| SurfaceError::later("the service named no message"))
    }

    /// Reads what was pressed or typed; `None` if that is nothing for us.
    fn read(&self, body: &[u8], posted: &Posted<'_>) -> Result<Option<Heard>, Refused> {
        let fields: Vec<(String, String)> = form_urlencoded::parse(body).into_owned().take(64).collect();
        let field = |name: &str| {
            let mut values =
                fields.iter().filter(|(field, _)| field == name).map(|(_, value)| value.as_str());
            values.next().filter(|_| values.next().is_none())
        };
        let (app, until) = (self.settings.app.as_str(), posted.now.after(REMEMBERED));
        if let Some(payload) = field("payload") {
            let payload: Value =
                serde_json::from_str(payload).map_err(|_| Refused::Malformed("`payload` is not JSON"))?;
            return reading::pressed(app, &payload, until);
        }
        reading::typed(app, field, until)
    }
}

fn section(text: &str) -> Value {
    json!({ "type": "section", "text": { "type": "plain_text", "emoji": false, "text": head(text, MOST_SECTION) } })
}

/// Returns a text in which Slack reads no links, mentions and entities.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[async_trait]
impl Surface for Slack {
    fn name(&self) -> &SurfaceName {
        &self.settings.name
    }

    fn kind(&self) -> &'static str {
        "Slack"
    }

    fn ceiling(&self) -> Ceiling {
        match self.settings.answers {
            SlackAnswers::Posted(_) | SlackAnswers::Connected(..) => self.settings.ceiling,
            SlackAnswers::None => Ceiling::Notice,
        }
    }

    fn places(&self) -> Cow<'_, [String]> {
        Cow::Borrowed(&self.settings.channels)
    }

    fn has_short(&self) -> bool {
        true
    }

    fn room(&self) -> Option<usize> {
        // Title and text have a section each.
        Some(MOST_SECTION)
    }

    async fn send(&self, message: &Message<'_>) -> Result<String, SurfaceError> {
        let shown = message.shown;
        let blocks = Self::blocks(&shown.title, &shown.text, message.offers, message.link);
        self.say(message.place, &shown.title, blocks).await
    }

    async fn withdraw(&self, place: &str, reference: &str, outcome: &Outcome) -> Result<(), SurfaceError> {
        let text = outcome.line();
        let body = json!({
            "channel": place, "ts": reference, "text": escaped(&text), "blocks": Self::blocks(&text, "", &[], None),
        });
        self.call("chat.update", &body).await.map(drop)
    }

    async fn test(&self, place: &str) -> Result<String, SurfaceError> {
        let ts = self.say(place, TEST, Self::blocks(TEST, "", &[], None)).await?;
        Ok(format!("message {ts}"))
    }

    fn is_listened_to(&self) -> bool {
        matches!(self.settings.answers, SlackAnswers::Connected(..))
            && self.settings.ceiling > Ceiling::Notice
    }

    async fn listen(&self, ear: Ear) {
        let SlackAnswers::Connected(token, pace) = &self.settings.answers else { return };
        let line = Line::new(Arc::clone(&self.api), token.clone(), self.settings.app.clone(), *pace);
        Box::pin(line.listen(ear)).await;
    }

    fn expects(&self, headers: &HeaderMap, now: Timestamp) -> Result<(), Refused> {
        self.signing_secret()?;
        if is_plausibly_slacks(headers, now) { Ok(()) } else { Err(Refused::Unsigned) }
    }

    fn posted(&self, posted: &Posted<'_>) -> Result<Vec<Heard>, Refused> {
        if !is_slacks(self.signing_secret()?, posted.headers, posted.body, posted.now) {
            return Err(Refused::Unsigned);
        }
        Ok(self.read(posted.body, posted)?.into_iter().collect())
    }

    fn is_answered_first(&self) -> bool {
        true
    }

    async fn reply(&self, back: &Back, text: &str) -> Result<(), SurfaceError> {
        let Back::Message { place, to } = back else { return Ok(()) };
        let body = json!({ "channel": place, "user": to, "text": escaped(text) });
        self.call("chat.postEphemeral", &body).await.map(drop)
    }
}
