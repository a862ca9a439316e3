//! Slack: messages of an app with buttons (docs.slack.dev).
//!
//! The person is the workspace and the member that Slack names in what it signs (`user.team_id` or `team.id`, and `user.id`); names that people
//! choose count for nothing. Requests are signed with the secret of the app ([`is_slacks`]), and acknowledged at once: what came of a press is told
//! afterwards, to whoever pressed. Arguments are sent as plain text, which Slack reads nothing into.

use std::borrow::Cow;
use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::{Decision, Secret};
use backstop_store::{Identity, Timestamp};
use http::HeaderMap;
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

use crate::asking::{Asker, Egress, bearer};
use crate::command::{self, Typed};
use crate::handle::Handle;
use crate::shown::{head, line};
use crate::signature::{LONGEST_ID, REMEMBERED, is_plausibly_slacks, is_slacks};
use crate::surface::{
    Asks, Back, Ceiling, Heard, Message, Offer, Outcome, Posted, Refused, Surface, SurfaceError, SurfaceName,
    TEST,
};

/// Where the service is.
pub(crate) const API: &str = "https://slack.com/api/";
/// The most characters of a section of a message.
const MOST_SECTION: usize = 3_000;
const PATIENCE: Duration = Duration::from_secs(20);
const MOST_BYTES: usize = 1 << 20;
/// How long it is waited after a token was refused.
const REFUSED: Duration = Duration::from_secs(300);

/// An app at Slack.
#[derive(Debug)]
pub struct Slack {
    settings: SlackSettings,
    asker: Asker,
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
    /// The secret with which Slack signs what it posts; without one, nothing is answered.
    pub signing_secret: Option<Secret>,
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
        let asker = Asker::new(settings.egress.clone(), PATIENCE, MOST_BYTES);
        Self { settings, asker }
    }

    async fn call(&self, method: &str, body: &Value) -> Result<Value, SurfaceError> {
        let url = self.settings.api.join(method).map_err(|_| SurfaceError::never("`api` is no address"))?;
        let token = bearer(self.settings.token.expose());
        let token = token.ok_or_else(|| SurfaceError::never("the token can't stand in a header"))?;
        let answer = self.asker.post(&url, [token], body.to_string().into_bytes()).await?;
        if !answer.status.is_success() {
            return Err(answer.refusal());
        }
        // A success of HTTP says nothing yet.
        let said = answer.json().ok_or_else(|| SurfaceError::later("the service did not answer JSON"))?;
        if said.get("ok") == Some(&Value::Bool(true)) {
            return Ok(said);
        }
        let error = line(said.get("error").and_then(Value::as_str).unwrap_or("no error"), 60);
        let why = format!("{method} was answered `{error}`");
        Err(match error.as_str() {
            "ratelimited" | "rate_limited" => SurfaceError::Later { why, after: answer.after },
            "internal_error" | "fatal_error" | "service_unavailable" | "request_timeout" => {
                SurfaceError::later(why)
            }
            "invalid_auth" | "not_authed" | "account_inactive" | "token_revoked" | "token_expired" => {
                SurfaceError::Later { why, after: Some(REFUSED) }
            }
            "msg_too_long" | "msg_blocks_too_long" | "invalid_blocks" | "invalid_blocks_format" => {
                SurfaceError::content(why)
            }
            _ => SurfaceError::never(why),
        })
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
        let until = posted.now.after(REMEMBERED);
        if let Some(payload) = field("payload") {
            let payload: Value =
                serde_json::from_str(payload).map_err(|_| Refused::Malformed("`payload` is not JSON"))?;
            return self.pressed(&payload, until);
        }
        let (Some(_), Some(text)) = (field("command"), field("text")) else {
            return Err(Refused::Malformed("it has neither `payload` nor `command`"));
        };
        let ids = (field("team_id"), field("user_id"), field("channel_id"), field("trigger_id"));
        let (Some(team), Some(user), Some(channel), Some(trigger)) = ids else {
            return Err(Refused::Malformed("it does not say who wrote it, and where"));
        };
        if field("api_app_id") != Some(&self.settings.app) {
            return Err(Refused::Malformed("it is about another app"));
        }
        let asks = match command::read(&format!("/approve {text}")) {
            Typed::Answer { approval, decision } => Asks::Command { approval, decision },
            Typed::Unclear(why) => Asks::Unclear(why),
            Typed::Other => return Ok(None),
        };
        let (team, user, channel) = (short(team)?, short(user)?, short(channel)?);
        let back = Back::Message { place: channel.clone(), to: user.clone() };
        let delivery = Some((short(trigger)?, until));
        Ok(Some(Heard { person: Identity::Slack { team, user }, asks, place: Some(channel), delivery, back }))
    }

    fn pressed(&self, payload: &Value, until: Timestamp) -> Result<Option<Heard>, Refused> {
        let text = |path: &str| payload.pointer(path).and_then(Value::as_str);
        if text("/type") != Some("block_actions") {
            return Ok(None);
        }
        if text("/api_app_id") != Some(&self.settings.app) {
            return Err(Refused::Malformed("it is about another app"));
        }
        // A button that opens a page decides nothing.
        let Some(value) = text("/actions/0/value") else { return Ok(None) };
        let team = text("/user/team_id").or_else(|| text("/team/id"));
        let ids = (team, text("/user/id"), text("/channel/id"), text("/trigger_id"));
        let (Some(team), Some(user), Some(channel), Some(trigger)) = ids else {
            return Err(Refused::Malformed("it does not say who pressed, and where"));
        };
        let (team, user, channel) = (short(team)?, short(user)?, short(channel)?);
        let asks = Handle::read(value).map_or(Asks::Unclear("This button is none of ours."), Asks::Press);
        let back = Back::Message { place: channel.clone(), to: user.clone() };
        let delivery = Some((short(trigger)?, until));
        Ok(Some(Heard { person: Identity::Slack { team, user }, asks, place: Some(channel), delivery, back }))
    }
}

fn short(id: &str) -> Result<String, Refused> {
    let fits = !id.is_empty() && id.len() <= LONGEST_ID;
    if fits { Ok(id.to_owned()) } else { Err(Refused::Malformed("one of its ids is empty, or too long")) }
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
        match self.settings.signing_secret {
            Some(_) => self.settings.ceiling,
            None => Ceiling::Notice,
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

    fn expects(&self, headers: &HeaderMap, now: Timestamp) -> Result<(), Refused> {
        self.settings.signing_secret.as_ref().ok_or(Refused::NotHere)?;
        if is_plausibly_slacks(headers, now) { Ok(()) } else { Err(Refused::Unsigned) }
    }

    fn posted(&self, posted: &Posted<'_>) -> Result<Vec<Heard>, Refused> {
        let secret = self.settings.signing_secret.as_ref().ok_or(Refused::NotHere)?;
        if !is_slacks(secret, posted.headers, posted.body, posted.now) {
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
