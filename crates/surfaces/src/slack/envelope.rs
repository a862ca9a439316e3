//! What comes over a connection to Slack (Socket Mode), read without being judged.
//!
//! Each message is JSON: a `hello` at first, a `disconnect` before the end, and envelopes with an `envelope_id`, by which they are acknowledged, and
//! a `payload`, which is what would have been posted ("Using Socket Mode", docs.slack.dev).

use serde_json::Value;

use crate::signature::LONGEST_ID;

/// A message of Slack.
#[derive(Debug)]
pub(super) enum Said {
    /// The connection stands, for this app if Slack says which.
    Hello(Option<String>),
    /// The connection ends soon, or has ended.
    Disconnect(Why),
    /// Something is delivered, and wants to be acknowledged.
    Envelope {
        /// By what it is acknowledged.
        id: String,
        /// What it is.
        kind: Kind,
        /// Whether it was delivered before (`retry_attempt`), as far as Slack says.
        is_again: bool,
        /// What would have been posted.
        payload: Value,
    },
    /// Something else, which wants no acknowledgement.
    Other,
}

/// What is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Somebody pressed something.
    Interactive,
    /// Somebody typed a slash command.
    Command,
    /// Something that is nothing for us, such as an event.
    Other,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Slack wants another one in its place (`warning`, `refresh_requested`, and whatever else it may say).
    Refresh,
    /// Socket Mode was switched off (`link_disabled`).
    Off,
    /// The app has as many as it may have (`too_many_websockets`).
    Crowded,
}

impl Said {
    /// Returns what a message says; `None` if it can't be read.
    pub(super) fn read(text: &str) -> Option<Self> {
        let Value::Object(mut said) = serde_json::from_str(text).ok()? else { return None };
        let kind = said.get("type")?.as_str()?;
        let kind = match kind {
            "hello" => {
                let app = said.get("connection_info").and_then(|info| info.get("app_id")?.as_str());
                return Some(Self::Hello(app.map(str::to_owned)));
            }
            "disconnect" => {
                return Some(Self::Disconnect(match said.get("reason").and_then(Value::as_str) {
                    Some("link_disabled") => Why::Off,
                    Some("too_many_websockets") => Why::Crowded,
                    _ => Why::Refresh,
                }));
            }
            "interactive" => Kind::Interactive,
            "slash_commands" => Kind::Command,
            _ => Kind::Other,
        };
        let attempt = said.get("retry_attempt").filter(|attempt| !attempt.is_null());
        let is_again = attempt.is_some_and(|attempt| attempt.as_u64() != Some(0));
        let id = match said.remove("envelope_id") {
            None if kind == Kind::Other => return Some(Self::Other),
            Some(Value::String(id)) if !id.is_empty() && id.len() <= LONGEST_ID => id,
            _ => return None,
        };
        Some(Self::Envelope { id, kind, is_again, payload: said.remove("payload").unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(said: &Value) -> Option<Said> {
        Said::read(&said.to_string())
    }

    #[test]
    fn each_message_of_the_documentation_is_read_as_what_it_is() {
        let hello = json!({ "type": "hello", "num_connections": 1, "connection_info": { "app_id": "A1" } });
        assert!(matches!(read(&hello), Some(Said::Hello(Some(app))) if app == "A1"));
        assert!(matches!(read(&json!({ "type": "hello" })), Some(Said::Hello(None))));
        for (reason, why) in [
            ("warning", Why::Refresh),
            ("refresh_requested", Why::Refresh),
            ("link_disabled", Why::Off),
            ("too_many_websockets", Why::Crowded),
            ("what is not known yet", Why::Refresh),
        ] {
            let said = json!({ "type": "disconnect", "reason": reason, "debug_info": { "host": "h" } });
            assert!(matches!(read(&said), Some(Said::Disconnect(said)) if said == why), "{reason}");
        }
        for (name, expected) in [
            ("interactive", Kind::Interactive),
            ("slash_commands", Kind::Command),
            ("events_api", Kind::Other),
        ] {
            let said = json!({ "type": name, "envelope_id": "e1", "payload": { "a": 1 }, "accepts_response_payload": false });
            let Some(Said::Envelope { id, kind, is_again, payload }) = read(&said) else { panic!("{name}") };
            assert_eq!((id.as_str(), kind, is_again, payload), ("e1", expected, false, json!({ "a": 1 })));
        }
        for (attempt, expected) in
            [(json!(0), false), (json!(null), false), (json!(1), true), (json!(7), true), (json!("1"), true)]
        {
            let said = json!({ "type": "slash_commands", "envelope_id": "e1", "retry_attempt": attempt, "retry_reason": "timeout" });
            let Some(Said::Envelope { is_again, .. }) = read(&said) else { panic!("{attempt}") };
            assert_eq!(is_again, expected, "{attempt}");
        }
        assert!(matches!(read(&json!({ "type": "news" })), Some(Said::Other)));
    }

    #[test]
    fn what_can_not_be_acknowledged_is_not_read() {
        let long = "x".repeat(LONGEST_ID + 1);
        for id in [json!(null), json!(""), json!(7), json!(["e1"]), json!(long)] {
            assert!(
                read(&json!({ "type": "interactive", "envelope_id": id, "payload": {} })).is_none(),
                "{id}"
            );
        }
        for said in
            [json!({ "type": "interactive" }), json!({ "type": 1 }), json!({}), json!([]), json!("hello")]
        {
            assert!(read(&said).is_none(), "{said}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_reading_fail_and_no_garbage_is_an_envelope(text in ".{0,200}") {
            let is_envelope = matches!(Said::read(&text), Some(Said::Envelope { .. }));
            prop_assert!(!is_envelope);
        }
    }
}
