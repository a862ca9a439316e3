//! Which points are judged here, and whose an event is.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use backstop_hooks::points::context_schema;
use backstop_hooks::{AgentId, CallContext, Digest, PointId, Requester, SessionId, SessionKey};
use backstop_store::DigestKey;
use serde_json::{Map, Value, json};

use super::super::operators::Problem;
use super::asked::without_values;
use crate::access::Holder;
use crate::sight::SharedFolders;

/// The hex digits of a digest in the name of a session.
const NAME_DIGITS: usize = 32;

/// The keys of each point's event.
static EVENT_KEYS: LazyLock<BTreeMap<PointId, Vec<String>>> =
    LazyLock::new(|| points().map(|point| (point, keys_of(&json!(point.event_schema())))).collect());
/// The keys of a context.
static CONTEXT_KEYS: LazyLock<Vec<String>> = LazyLock::new(|| keys_of(&json!(context_schema())));

/// The points whose events can be sent: all but those of this server's own life, the gates that a tool call passes together at
/// `before_tool_call`, and the one at which an answer is judged with its calls.
pub(super) fn points() -> impl Iterator<Item = PointId> {
    PointId::ALL.iter().copied().filter(|point| {
        !matches!(
            point,
            PointId::ToolBefore
                | PointId::TrustedToolPolicy
                // What is decided about an answer counts for the calls in it, which only the judge of whole answers keeps.
                | PointId::AfterLlmCall
                | PointId::GatewayStart
                | PointId::GatewayStop
                | PointId::BeforeInstall
        )
    })
}

fn keys_of(schema: &Value) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(|keys| keys.keys().cloned()).collect()
}

/// Refuses an event with keys that nobody would read: its sender means something that no hook is told.
pub(super) fn check_event(point: PointId, event: &Map<String, Value>) -> Result<(), Problem> {
    let known = EVENT_KEYS.get(&point).map_or(&[][..], Vec::as_slice);
    check("event", event, known)
}

fn check(what: &str, given: &Map<String, Value>, known: &[String]) -> Result<(), Problem> {
    match given.keys().find(|key| !known.contains(key)) {
        Some(_) => {
            Err(Problem::body(format!("`{what}` has a key that is not known; it knows {}", known.join(", "))))
        }
        None => Ok(()),
    }
}

/// Returns whose an event is. The agent and the requester are the token's, whatever the event says, so that nobody takes what was allowed
/// to somebody else; names of sessions are the agent's own: their digests stand for them, since receipts and questions repeat them. They are keyed where those
/// in the trail are. The disk of this machine is seen as far as it is shared with whoever works in that folder.
pub(super) fn context(
    holder: &Holder,
    given: Option<Map<String, Value>>,
    digest_key: Option<&Arc<DigestKey>>,
    shared: &SharedFolders,
) -> Result<CallContext, Problem> {
    let given = given.unwrap_or_default();
    check("context", &given, &CONTEXT_KEYS)?;
    let given: CallContext = serde_json::from_value(Value::Object(given)).map_err(|error| {
        Problem::body(format!("`context` can't be read: {}", without_values(&error.to_string())))
    })?;
    let is_other = given.agent_id.as_ref().is_some_and(|named| Some(named) != holder.agent.as_ref());
    if is_other {
        return Err(Problem::agent());
    }
    let user = holder.user.as_deref();
    let own = |kind: &str, name: Option<&str>| {
        let agent = holder.agent.as_ref().map(AgentId::as_str);
        let digest = Digest::of(kind, &(agent, user, name));
        let named =
            digest_key.map_or_else(|| digest.prefix(NAME_DIGITS), |key| key.name_of(&digest, NAME_DIGITS));
        format!("api-{named}")
    };
    let session = own("api_session", given.session_id.as_ref().map(SessionId::as_str));
    let key = given.session_key.as_ref().map(SessionKey::as_str);
    let key = own("api_conversation", key.or(given.session_id.as_ref().map(SessionId::as_str)));
    let requester = user.map(|user| Requester { sender_id: Some(user.to_owned()), ..Requester::default() });
    Ok(CallContext {
        agent_id: holder.agent.clone(),
        requester,
        channel_id: None,
        message_provider: None,
        session_id: Some(SessionId::new(session)),
        session_key: Some(SessionKey::new(key)),
        sight: shared.sight(given.workspace_dir.as_deref()),
        ..given
    })
}

#[cfg(test)]
mod tests {
    use backstop_store::Scope;

    use super::*;
    use crate::access::TokenLife;

    #[test]
    fn names_that_are_made_of_what_a_caller_names_are_keyed_where_the_trail_is() {
        let holder = Holder {
            id: "t1".to_owned().into(),
            agent: Some("main".into()),
            user: None,
            scopes: [Scope::Judge].into(),
            life: TokenLife::until(jiff::Timestamp::now()),
            vouched: None,
        };
        let folder = tempfile::tempdir().unwrap();
        let key = |name: &str| Arc::new(DigestKey::create(&folder.path().join(name)).unwrap());
        let named = |key: Option<&Arc<DigestKey>>| {
            let given = json!({ "sessionId": "s1" }).as_object().cloned();
            let context = context(&holder, given, key, &SharedFolders::default()).unwrap();
            let (session, conversation) = (context.session_id.unwrap(), context.session_key.unwrap());
            [session.as_str().to_owned(), conversation.as_str().to_owned()]
        };
        let (ours, theirs) = (key("ours"), key("theirs"));
        let (plain, keyed) = (named(None), named(Some(&ours)));
        assert_eq!(named(Some(&ours)), keyed);
        for other in [&plain, &named(Some(&theirs))] {
            for (name, keyed) in other.iter().zip(&keyed) {
                assert_ne!(name, keyed);
                assert!(keyed.starts_with("api-") && name.len() == keyed.len(), "{keyed}");
            }
        }
    }
}
