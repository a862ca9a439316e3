//! Telegram: messages of a bot with buttons (core.telegram.org/bots/api).
//!
//! The person is `from.id` of a press or of a message; names can change hands and count for nothing, and anybody in a group may press. Updates
//! are fetched (`getUpdates`), so that nothing has to be reachable from outside; what was handled is confirmed by the next request. Texts are
//! sent without a markup language, so that nothing in a call is read as one.
//!
//! The law: *the bot's token is part of every address*, so addresses of this adapter are in no log, error or `Debug` output.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::{Decision, Secret};
use backstop_store::Identity;
use serde_json::{Value, json};
use url::Url;

use crate::asking::{Answer, Asker, Egress, bounded};
use crate::command::{self, Typed};
use crate::handle::Handle;
use crate::shown::head;
use crate::surface::{
    Asks, Back, Ceiling, Heard, Message, Offer, Outcome, Surface, SurfaceError, SurfaceName, TEST,
};

/// Where the service is, unless the operator runs a server for bots.
pub(crate) const API: &str = "https://api.telegram.org";
/// The most characters of a message.
const MOST_TEXT: usize = 4_096;
/// The most characters of an answer to a press.
const MOST_ANSWER: usize = 200;
/// How long a request for updates waits for one, in seconds.
const POLL: u64 = 50;
/// How many updates are fetched at once. One brings the message that was pressed on along.
const UPDATES: u64 = 20;
/// The most bytes of an answer.
const MOST_BYTES: usize = 4 << 20;
/// The longest request.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long it is waited while another process fetches updates of the same bot.
const TAKEN: Duration = Duration::from_secs(10);
/// How long it is waited after a token was refused.
const REFUSED: Duration = Duration::from_secs(300);

/// A bot at Telegram.
pub struct Telegram {
    name: SurfaceName,
    api: Url,
    token: Secret,
    chats: Vec<String>,
    ceiling: Ceiling,
    asker: Asker,
    poller: Asker,
    /// The update that is fetched next.
    next: AtomicI64,
}

impl fmt::Debug for Telegram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telegram").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Telegram {
    /// Returns the bot with this token, which tells these chats. `api` is where the service is.
    pub fn new(
        name: SurfaceName,
        api: Url,
        token: Secret,
        chats: Vec<String>,
        ceiling: Ceiling,
        egress: Egress,
    ) -> Self {
        let poll = PATIENCE.saturating_add(Duration::from_secs(POLL));
        Self {
            name,
            api,
            token,
            chats,
            ceiling,
            asker: Asker::new(egress.clone(), PATIENCE, MOST_BYTES),
            poller: Asker::new(egress, poll, MOST_BYTES),
            next: AtomicI64::new(0),
        }
    }

    async fn call(&self, asker: &Asker, method: &str, body: &Value) -> Result<Value, SurfaceError> {
        let malformed = || SurfaceError::never("the bot's token can't be part of an address");
        let mut url = self.api.clone();
        url.path_segments_mut()
            .map_err(|()| malformed())?
            .pop_if_empty()
            .push(&format!("bot{}", self.token.expose()))
            .push(method);
        let answer = asker.post(&url, [], body.to_string().into_bytes()).await?;
        result(method, &answer)
    }

    fn markup(offers: &[Offer], link: Option<&Url>) -> Value {
        let row: Vec<Value> = offers
            .iter()
            .map(|offer| json!({ "text": label(offer.decision), "callback_data": offer.handle.expose() }))
            .collect();
        let mut rows: Vec<Value> = Vec::new();
        if !row.is_empty() {
            rows.push(row.into());
        }
        // Telegram takes no address of this machine in a button.
        if let Some(link) = link.filter(|link| link.scheme() == "https") {
            rows.push(json!([{ "text": "Open the console", "url": link.as_str() }]));
        }
        json!({ "inline_keyboard": rows })
    }

    async fn say(&self, place: &str, text: &str, more: Value) -> Result<String, SurfaceError> {
        let mut body = json!({
            "chat_id": place, "text": head(text, MOST_TEXT), "link_preview_options": { "is_disabled": true }, "protect_content": true,
        });
        if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
            body.extend(more);
        }
        let sent = self.call(&self.asker, "sendMessage", &body).await?;
        let id = sent.get("message_id").and_then(Value::as_i64);
        id.map(|id| id.to_string()).ok_or_else(|| SurfaceError::later("the service named no message"))
    }
}

/// Reads an answer of the service: `ok` decides, whatever the status is.
fn result(method: &str, answer: &Answer) -> Result<Value, SurfaceError> {
    let Some(mut said) = answer.json() else { return Err(answer.refusal()) };
    if said.get("ok") == Some(&Value::Bool(true)) {
        return Ok(said.get_mut("result").map(Value::take).unwrap_or_default());
    }
    let code = said.get("error_code").and_then(Value::as_u64).unwrap_or(u64::from(answer.status.as_u16()));
    let after = said.get("parameters").and_then(|parameters| parameters.get("retry_after")?.as_u64());
    let description = said.get("description").and_then(Value::as_str).unwrap_or_default();
    // What the service says of a message holds nothing of an address.
    let why = format!("{method} was answered {code}: {}", crate::shown::line(description, 160));
    Err(match code {
        429 => SurfaceError::Later { why, after: after.map(bounded).or(answer.after) },
        409 => SurfaceError::Later { why, after: Some(TAKEN) },
        401 | 404 => SurfaceError::Later { why, after: Some(REFUSED) },
        400 | 413 => SurfaceError::content(why),
        500.. => SurfaceError::later(why),
        _ => SurfaceError::never(why),
    })
}

const fn label(decision: Decision) -> &'static str {
    match decision {
        Decision::AllowOnce => "Allow once",
        Decision::AllowAlways => "Allow always",
        Decision::Deny => "Deny",
    }
}

/// Returns an id of a chat or message as text: numbers of up to 64 bits.
fn id(value: Option<&Value>) -> Option<String> {
    value?.as_i64().map(|id| id.to_string())
}

/// Reads an update; `None` if it is nothing for us.
fn heard(update: &Value) -> Option<Heard> {
    if let Some(press) = update.get("callback_query") {
        let back = Back::Press(press.get("id")?.as_str()?.to_owned());
        let handle = press.get("data").and_then(Value::as_str).and_then(Handle::read);
        let asks = handle.map_or(Asks::Unclear("This button is none of ours."), Asks::Press);
        // An old message may come without its chat, and then the handle alone says whose it is.
        let place = press.get("message").and_then(|message| id(message.get("chat")?.get("id")));
        return Some(Heard { person: person(press)?, asks, place, delivery: None, back });
    }
    let message = update.get("message")?;
    let place = id(message.get("chat")?.get("id"))?;
    let asks = match command::read(message.get("text")?.as_str()?) {
        Typed::Answer { approval, decision, word } => Asks::Command { approval, decision, word },
        Typed::Unclear(why) => Asks::Unclear(why),
        Typed::Other => return None,
    };
    // Written in the name of a channel or a group, it is nobody's; forwarded, it is somebody else's.
    let is_own = message.get("sender_chat").is_none()
        && message.get("forward_origin").is_none()
        && message.get("via_bot").is_none();
    let person = person(message).filter(|_| is_own)?;
    let back = Back::Message { place: place.clone(), to: id(message.get("message_id"))? };
    Some(Heard { person, asks, place: Some(place), delivery: None, back })
}

/// Returns who it is, if that is a person.
fn person(of: &Value) -> Option<Identity> {
    let from = of.get("from")?;
    let is_bot = from.get("is_bot") != Some(&Value::Bool(false));
    Some(Identity::Telegram(from.get("id")?.as_i64()?)).filter(|_| !is_bot)
}

#[async_trait]
impl Surface for Telegram {
    fn name(&self) -> &SurfaceName {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "Telegram"
    }

    fn ceiling(&self) -> Ceiling {
        self.ceiling
    }

    fn places(&self) -> Cow<'_, [String]> {
        Cow::Borrowed(&self.chats)
    }

    fn has_short(&self) -> bool {
        true
    }

    fn room(&self) -> Option<usize> {
        // One line break between title and text.
        Some(MOST_TEXT - 2)
    }

    async fn send(&self, message: &Message<'_>) -> Result<String, SurfaceError> {
        let text = format!("{}\n{}", message.shown.title, message.shown.text);
        let markup = Self::markup(message.offers, message.link);
        self.say(message.place, &text, json!({ "reply_markup": markup })).await
    }

    async fn withdraw(&self, place: &str, reference: &str, outcome: &Outcome) -> Result<(), SurfaceError> {
        let Ok(message) = reference.parse::<i64>() else { return Ok(()) };
        let none = json!({ "inline_keyboard": [] });
        let buttons = json!({ "chat_id": place, "message_id": message, "reply_markup": none });
        match self.call(&self.asker, "editMessageReplyMarkup", &buttons).await {
            // What has no buttons, or is gone, has nothing to take away.
            Ok(_) | Err(SurfaceError::Never { .. }) => {}
            Err(error) => return Err(error),
        }
        let reply = json!({ "message_id": message, "allow_sending_without_reply": true });
        let more = json!({ "reply_parameters": reply, "disable_notification": true });
        self.say(place, &outcome.line(), more).await.map(drop)
    }

    async fn test(&self, place: &str) -> Result<String, SurfaceError> {
        self.say(place, TEST, json!({})).await.map(|id| format!("message {id}"))
    }

    fn is_fetched(&self) -> bool {
        self.ceiling > Ceiling::Notice
    }

    async fn fetch(&self) -> Result<Vec<Heard>, SurfaceError> {
        let body = json!({
            "offset": self.next.load(Ordering::SeqCst), "timeout": POLL, "limit": UPDATES,
            "allowed_updates": ["callback_query", "message"],
        });
        let updates = self.call(&self.poller, "getUpdates", &body).await?;
        let Value::Array(updates) = updates else {
            return Err(SurfaceError::later("getUpdates was answered without a list"));
        };
        let mut all = Vec::new();
        for update in updates.iter().take(usize::try_from(UPDATES).unwrap_or(usize::MAX)) {
            let Some(number) = update.get("update_id").and_then(Value::as_i64) else { continue };
            let next = self.next.load(Ordering::SeqCst);
            // One that was handled is not handled again.
            if number < next {
                continue;
            }
            self.next.store(number.saturating_add(1), Ordering::SeqCst);
            // Whoever writes to the bot elsewhere is not answered.
            let is_ours = |heard: &Heard| match &heard.back {
                Back::Message { place, .. } => self.chats.contains(place),
                Back::Press(_) | Back::Here => true,
            };
            all.extend(heard(update).filter(is_ours));
        }
        Ok(all)
    }

    async fn reply(&self, back: &Back, text: &str) -> Result<(), SurfaceError> {
        match back {
            Back::Press(id) => {
                let body =
                    json!({ "callback_query_id": id, "text": head(text, MOST_ANSWER), "show_alert": true });
                self.call(&self.asker, "answerCallbackQuery", &body).await.map(drop)
            }
            Back::Message { place, to } => {
                let to = to.parse::<i64>().unwrap_or_default();
                let reply = json!({ "message_id": to, "allow_sending_without_reply": true });
                self.say(place, text, json!({ "reply_parameters": reply })).await.map(drop)
            }
            Back::Here => Ok(()),
        }
    }
}
