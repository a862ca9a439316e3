//! Reading what Slack says that somebody pressed or typed: the same for what it posts and for what comes over a connection.
//!
//! The law: *who it was is what Slack says by id* (`user.team_id` or `team.id`, and `user.id`), and of which app (`api_app_id`). Names are not read.

use backstop_store::{Identity, Timestamp};
use serde_json::Value;

use crate::command::{self, Typed};
use crate::handle::Handle;
use crate::signature::LONGEST_ID;
use crate::surface::{Asks, Back, Heard, Refused};

/// Reads a press (`block_actions`); `None` if it is nothing for us. The delivery is remembered until then.
pub(super) fn pressed(app: &str, payload: &Value, until: Timestamp) -> Result<Option<Heard>, Refused> {
    let text = |path: &str| payload.pointer(path).and_then(Value::as_str);
    if text("/type") != Some("block_actions") {
        return Ok(None);
    }
    if text("/api_app_id") != Some(app) {
        return Err(Refused::Malformed("it is about another app"));
    }
    // A button that opens a page decides nothing.
    let Some(value) = text("/actions/0/value") else { return Ok(None) };
    let team = text("/user/team_id").or_else(|| text("/team/id"));
    let ids = (team, text("/user/id"), text("/channel/id"), text("/trigger_id"));
    let (Some(team), Some(user), Some(channel), Some(trigger)) = ids else {
        return Err(Refused::Malformed("it does not say who pressed, and where"));
    };
    let asks = Handle::read(value).map_or(Asks::Unclear("This button is none of ours."), Asks::Press);
    heard([team, user, channel, trigger], asks, until).map(Some)
}

/// Reads a slash command by its fields; `None` if it is nothing for us. The delivery is remembered until then.
pub(super) fn typed<'a>(
    app: &str,
    field: impl Fn(&str) -> Option<&'a str>,
    until: Timestamp,
) -> Result<Option<Heard>, Refused> {
    let (Some(_), Some(text)) = (field("command"), field("text")) else {
        return Err(Refused::Malformed("it has neither `payload` nor `command`"));
    };
    let ids = (field("team_id"), field("user_id"), field("channel_id"), field("trigger_id"));
    let (Some(team), Some(user), Some(channel), Some(trigger)) = ids else {
        return Err(Refused::Malformed("it does not say who wrote it, and where"));
    };
    if field("api_app_id") != Some(app) {
        return Err(Refused::Malformed("it is about another app"));
    }
    let asks = match command::read(&format!("/approve {text}")) {
        Typed::Answer { approval, decision, word } => Asks::Command { approval, decision, word },
        Typed::Unclear(why) => Asks::Unclear(why),
        Typed::Other => return Ok(None),
    };
    heard([team, user, channel, trigger], asks, until).map(Some)
}

/// Returns what a member of a workspace did in a channel.
fn heard([team, user, channel, trigger]: [&str; 4], asks: Asks, until: Timestamp) -> Result<Heard, Refused> {
    let (team, user, channel) = (short(team)?, short(user)?, short(channel)?);
    let back = Back::Message { place: channel.clone(), to: user.clone() };
    let delivery = Some((short(trigger)?, until));
    Ok(Heard { person: Identity::Slack { team, user }, asks, place: Some(channel), delivery, back })
}

fn short(id: &str) -> Result<String, Refused> {
    let fits = !id.is_empty() && id.len() <= LONGEST_ID;
    if fits { Ok(id.to_owned()) } else { Err(Refused::Malformed("one of its ids is empty, or too long")) }
}
