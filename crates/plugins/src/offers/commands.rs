//! Commands of plugins: `/name words` in a conversation, answered by the plugin without the model.
//!
//! What is a command is told as in the system that they come from: a message that begins with `/`, up to the first white space, in
//! whatever capitals. Words after it go to a command that takes some; for one that takes none such a message is no command, and
//! goes to the model. A command that wants authorization is answered to nobody else. While it is answered, the plugin may keep something with
//! that conversation, or say something for its next turn.
//!
//! Limits: of more than [`MOST_WORDS`] characters none goes to a command, and of fewer no control characters do; it answers within
//! [`BUDGET`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{CallContext, OwnerId};
use backstop_script::{Argument, Arguments, JsonText};
use serde_json::{Value, json};

use super::services::of_kind;
use crate::openclaw::{Offered, Scripted};
use crate::registration::OfferKind;
use crate::set::{BACKSTOP, PluginSet, Running, SetError, Why};

/// How long a command may take.
pub const BUDGET: Duration = Duration::from_secs(60);
/// The most characters of the words after a command.
pub const MOST_WORDS: usize = 4_096;

/// What is said to whoever may not.
const NOT_ALLOWED: &str = "This command wants authorization, which you do not have.";

/// A command that a plugin brings.
#[derive(Clone, Debug)]
pub struct PluginCommand {
    owner: OwnerId,
    script: Arc<Scripted>,
    offered: Offered,
    name: String,
    accepts_args: bool,
    requires_auth: bool,
}

/// Who sent the message that is a command.
#[derive(Clone, Copy, Debug)]
pub struct CommandRequest<'a> {
    /// The whole message.
    pub message: &'a str,
    /// Whose conversation it is.
    pub context: &'a CallContext,
    /// Whether the sender is somebody whom the operator lets do what is not for everybody.
    pub is_authorized: bool,
}

impl PluginCommand {
    /// The plugin.
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// Its name, without `/`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is for.
    pub fn description(&self) -> &str {
        &self.offered.offer.description
    }

    /// Whether words may follow it.
    pub fn accepts_args(&self) -> bool {
        self.accepts_args
    }

    /// The words after it if the message is this command.
    pub fn matches<'a>(&self, message: &'a str) -> Option<Option<&'a str>> {
        let rest = message.trim().strip_prefix('/')?;
        let (name, words) = match rest.split_once(char::is_whitespace) {
            Some((name, words)) => (name, Some(words.trim()).filter(|words| !words.is_empty())),
            None => (rest, None),
        };
        let is_it = name.eq_ignore_ascii_case(&self.name) && (words.is_none() || self.accepts_args);
        is_it.then_some(words)
    }

    /// Has the plugin answer. What it says is for whoever sent the message, once hooks have judged it.
    ///
    /// # Errors
    ///
    /// Why there is no answer, in words for whoever sent the message.
    pub async fn run(&self, request: CommandRequest<'_>, words: Option<&str>) -> Result<String, String> {
        if self.requires_auth && !request.is_authorized {
            return Err(NOT_ALLOWED.to_owned());
        }
        let failed =
            |why: String| format!("command `/{}` of plugin `{}` failed: {why}", self.name, self.owner);
        let words = words.map(clean).transpose().map_err(&failed)?;
        let CallContext { session_key, session_id, agent_id, message_provider, requester, .. } =
            request.context;
        let told = json!({
            "commandBody": request.message.trim(),
            "args": words,
            "isAuthorizedSender": request.is_authorized,
            "senderId": requester.as_ref().and_then(|requester| requester.sender_id.as_ref()),
            "channel": message_provider,
            "sessionKey": session_key,
            "sessionId": session_id,
            "agentId": agent_id,
        });
        let told = JsonText::of(&told).map_err(|error| failed(error.to_string()))?;
        let arguments = Arguments::new([Argument::Json(told)]);
        let _open = self.script.answering.open(session_key.as_ref());
        let answer = self.script.call(&self.offered, "handler", &arguments, BUDGET).await;
        let answer = answer.map_err(|error| failed(error.to_string()))?;
        let Some(answer) = answer else { return Ok(String::new()) };
        let answer: Value = answer.json.read().map_err(|error| failed(error.to_string()))?;
        text_of(&answer).map_err(|why| failed(format!("it answered garbage: {why}")))
    }
}

/// The words without what no person types; why they are too many for a command otherwise: half of an order is another order.
fn clean(words: &str) -> Result<String, String> {
    let words: String = words.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    match words.chars().count() {
        ..=MOST_WORDS => Ok(words),
        count => Err(format!("{count} characters follow it, and {MOST_WORDS} may")),
    }
}

/// The text of a reply. Pictures and buttons have no place here.
fn text_of(answer: &Value) -> Result<String, &'static str> {
    match answer {
        Value::String(text) => Ok(text.clone()),
        Value::Object(reply) => match reply.get("text") {
            Some(Value::String(text)) => Ok(text.clone()),
            None => Ok(String::new()),
            Some(_) => Err("`text` is no text"),
        },
        _ => Err("neither a text nor `{text}`"),
    }
}

impl PluginSet {
    /// The commands that plugins bring. No two have one name, and none has that of a command of the host.
    pub fn commands(&self) -> impl Iterator<Item = PluginCommand> {
        self.plugins().flat_map(of)
    }
}

fn of(plugin: &Running) -> impl Iterator<Item = PluginCommand> {
    of_kind(plugin, OfferKind::Command).map(|(script, offered)| PluginCommand {
        owner: OwnerId::new(plugin.id.as_str()),
        script: Arc::clone(script),
        offered: offered.clone(),
        name: offered.offer.name.to_ascii_lowercase(),
        accepts_args: offered.more.get("acceptsArgs") == Some(&Value::Bool(true)),
        requires_auth: offered.more.get("requireAuth") != Some(&Value::Bool(false)),
    })
}

/// Refuses names that are none, and that two have. `own` are the host's.
pub(crate) fn check_names(plugins: &[Running], own: &[&str]) -> Result<(), SetError> {
    let mut taken: BTreeMap<String, String> =
        own.iter().map(|name| ((*name).to_owned(), BACKSTOP.to_owned())).collect();
    for plugin in plugins {
        for command in of(plugin) {
            let error = |why| SetError { id: plugin.id.clone(), why: Box::new(why) };
            let name = command.name.clone();
            if !is_name(&name) {
                return Err(error(Why::Command(name)));
            }
            if let Some(by) = taken.insert(name.clone(), format!("plugin `{}`", plugin.id)) {
                return Err(error(Why::Taken { what: OfferKind::Command, name, by }));
            }
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_cleaned_and_what_is_answered_is_read() {
        assert_eq!(clean("a\u{1b}[2Jb\u{0}\nc").unwrap(), "a[2Jb\nc");
        assert_eq!(clean(&"x".repeat(MOST_WORDS)).unwrap().len(), MOST_WORDS);
        let why = clean(&"x".repeat(MOST_WORDS + 9)).unwrap_err();
        assert_eq!(why, "4105 characters follow it, and 4096 may");
        assert_eq!(text_of(&json!({ "text": "a" })).unwrap(), "a");
        assert_eq!(text_of(&json!({ "continueAgent": false })).unwrap(), "");
        for garbage in [json!(3), json!([]), json!({ "text": 3 }), json!(true)] {
            assert!(text_of(&garbage).is_err(), "{garbage}");
        }
        for (name, good) in
            [("a", true), ("a-b_9", true), ("9a", false), ("", false), ("a b", false), ("ä", false)]
        {
            assert_eq!(is_name(name), good, "{name}");
        }
    }
}
