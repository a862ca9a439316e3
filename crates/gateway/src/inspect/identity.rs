//! Which conversation a request belongs to, which turn of it, and how far the turn is.
//!
//! A request of an LLM wire has no session. What a client says about it is believed, in this order:
//!
//! 1. a header: `x-backstop-session`, `x-claude-code-session-id`, `session_id`, `session-id`,
//!    `conversation_id`, `x-session-id`, `x-conversation-id`, `x-session-affinity`;
//! 2. the body: the session in Anthropic's `metadata.user_id` as Claude Code writes it, `metadata.session_id`
//!    and `metadata.conversation_id`, OpenAI's `conversation`, the answer that `previous_response_id` names,
//!    `prompt_cache_key`;
//! 3. otherwise the digest of the agent, the system prompt and the first message, which stay the same while
//!    a conversation grows. Two conversations that begin alike are one by this rule.
//!
//! What a conversation or a turn is called that nobody named is made of what was said, which may be short and easy to guess. Where the digests of the trail are
//! keyed, these names are, by the same key: gateways that share it call the same conversation the same.
//!
//! An agent that names another's conversation gains nothing: budgets count by agent, and runs are named after
//! agent *and* conversation.
//!
//! A *run* is one turn: all requests whose last message of the human is the same one. Where a provider keeps the conversation a
//! request has only what is new, so that two turns in which the human says the same look alike: there a turn is told by what it
//! continues, and by how many answers that has, too. A request that brings results of tools alone belongs to the turn of the
//! answer that it continues.
//!
//! The *iteration* is the number of answers that the conversation has already; 0 for the first call. Answers that a provider
//! keeps are counted from the one that `previous_response_id` names, or in the `conversation`, as long as they are remembered.
//! Requests of Gemini Live name nothing and are counted by their session.

use std::sync::{Arc, Mutex, PoisonError};

use backstop_hooks::conversation::{Message, Part, Role};
use backstop_hooks::{AgentId, Digest, RunId, SessionId};
use backstop_llm::ModelRequest;
use backstop_store::DigestKey;
use http::HeaderMap;
use serde_json::{Value, json};

use super::bounded::Bounded;
use super::owed::conversation_of;

/// Headers in which clients name their conversation, the more exact ones first.
pub(crate) const SESSION_HEADERS: [&str; 8] = [
    "x-backstop-session",
    "x-claude-code-session-id",
    "session_id",
    "session-id",
    "conversation_id",
    "x-session-id",
    "x-conversation-id",
    "x-session-affinity",
];

/// Longer ids, and ids with other than visible ASCII characters, are replaced by their digest.
const MAX_ID_BYTES: usize = 128;
/// The hex digits in a name that is made of a digest.
const NAME_DIGITS: usize = 24;
/// How many answers are remembered for `previous_response_id`.
const MAX_LINKS: usize = 16_384;

/// Where a request belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// The conversation.
    pub(super) session: SessionId,
    /// The turn.
    pub(super) run: RunId,
    /// How many answers the conversation has.
    pub(super) iteration: u32,
}

/// The conversations of answers that later requests may name instead of repeating them, by the answer or by the conversation that
/// their provider keeps.
#[derive(Debug)]
pub(super) struct Links {
    known: Mutex<Bounded<Digest, Link>>,
    names: Names,
}

/// How names are made of digests.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(Option<Arc<DigestKey>>);

#[derive(Clone, Debug)]
struct Link {
    session: SessionId,
    /// The turn of the last answer.
    run: RunId,
    answers: u32,
}

impl Link {
    /// What is known once an answer to the request of this identity has come.
    fn behind(identity: &Identity) -> Self {
        let Identity { session, run, iteration } = identity;
        Self { session: session.clone(), run: run.clone(), answers: iteration.saturating_add(1) }
    }
}

impl Default for Links {
    fn default() -> Self {
        Self::naming(Names::default())
    }
}

impl Names {
    /// Names that are keyed as the digests in the trail are.
    pub(super) fn keyed(key: Option<&Arc<DigestKey>>) -> Self {
        Self(key.cloned())
    }

    /// A short name made of a digest: 96 bits of it are enough to tell things apart.
    fn of(&self, prefix: &str, digest: &Digest) -> String {
        match &self.0 {
            Some(key) => format!("{prefix}-{}", key.name_of(digest, NAME_DIGITS)),
            None => format!("{prefix}-{}", digest.prefix(NAME_DIGITS)),
        }
    }

    fn digested(&self, id: &str) -> SessionId {
        SessionId::new(self.of("conv", &Digest::of_text("conversation", id)))
    }

    fn well_formed(&self, id: &str) -> SessionId {
        if id.len() <= MAX_ID_BYTES && id.bytes().all(|byte| byte.is_ascii_graphic()) {
            SessionId::new(id)
        } else {
            self.digested(id)
        }
    }
}

impl Links {
    /// No answers yet, and names that are made so.
    pub(super) fn naming(names: Names) -> Self {
        Self { known: Mutex::new(Bounded::new(MAX_LINKS)), names }
    }

    /// Returns how names are made.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Remembers an answer to `request`.
    pub(super) fn remember(
        &self,
        agent: Option<&AgentId>,
        response: &str,
        request: &ModelRequest,
        identity: &Identity,
    ) {
        let named = [("answer", Some(response)), ("conversation", conversation_of(request))];
        let mut links = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, id) in named {
            if let Some(id) = id.filter(|id| !id.is_empty()) {
                links.insert(of_agent(agent, kind, id), Link::behind(identity));
            }
        }
    }

    /// Remembers one more answer in a session on a socket, whose requests do not name what they continue.
    pub(super) fn remember_session(&self, agent: Option<&AgentId>, session: &str, identity: &Identity) {
        let mut links = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        links.insert(of_agent(agent, "socket", session), Link::behind(identity));
    }

    fn find(&self, agent: Option<&AgentId>, kind: &str, id: &str) -> Option<Link> {
        let links = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        links.get(&of_agent(agent, kind, id)).cloned()
    }
}

impl Identity {
    /// The same, with the digest of the conversation's name in its place: receipts, questions and the trail repeat the name.
    pub(super) fn unnamed(self, names: &Names) -> Self {
        Self { session: names.digested(self.session.as_str()), ..self }
    }
}

/// Says where a request belongs. `socket` is the session on a WebSocket that it continues.
pub(super) fn identify(
    agent: Option<&AgentId>,
    headers: &HeaderMap,
    request: &ModelRequest,
    socket: Option<&str>,
    links: &Links,
) -> Identity {
    let previous = field(request, &["previous_response_id"]);
    let continued = Continued { previous, conversation: conversation_of(request), socket };
    let link = continued.link(agent, links);
    let answers = request.messages.iter().filter(|message| is_answer(message)).count();
    let before = link.as_ref().map_or(0, |link| link.answers);
    let iteration = before.saturating_add(u32::try_from(answers).unwrap_or(u32::MAX));
    let names = &links.names;
    let session = named_by_header(headers, names)
        .or_else(|| named_by_body(request, names))
        .or_else(|| link.as_ref().map(|link| link.session.clone()))
        .or_else(|| {
            let named = previous.or_else(|| field(request, &["prompt_cache_key"]))?;
            Some(names.well_formed(named))
        })
        .unwrap_or_else(|| by_beginning(agent, request, names));
    let run = run_of(agent, &session, request, continued, link, names);
    Identity { session, run, iteration }
}

/// What a request continues that is not in it.
#[derive(Clone, Copy)]
struct Continued<'a> {
    previous: Option<&'a str>,
    conversation: Option<&'a str>,
    socket: Option<&'a str>,
}

impl Continued<'_> {
    fn link(self, agent: Option<&AgentId>, links: &Links) -> Option<Link> {
        let named = [("answer", self.previous), ("conversation", self.conversation), ("socket", self.socket)];
        named.into_iter().find_map(|(kind, id)| links.find(agent, kind, id?))
    }
}

fn named_by_header(headers: &HeaderMap, names: &Names) -> Option<SessionId> {
    let named = SESSION_HEADERS.iter().filter_map(|name| headers.get(*name)?.to_str().ok());
    named.map(str::trim).find(|id| !id.is_empty()).map(|id| names.well_formed(id))
}

fn named_by_body(request: &ModelRequest, names: &Names) -> Option<SessionId> {
    let claude_code = field(request, &["metadata", "user_id"]).and_then(session_of_claude_code);
    let named = [
        claude_code.as_deref(),
        field(request, &["metadata", "session_id"]),
        field(request, &["metadata", "conversation_id"]),
        field(request, &["conversation"]),
        field(request, &["conversation", "id"]),
    ];
    named.into_iter().flatten().find(|id| !id.is_empty()).map(|id| names.well_formed(id))
}

/// `user_<..>_account_<..>_session_<id>`, or the same as JSON with a `session_id`.
fn session_of_claude_code(user: &str) -> Option<String> {
    if user.starts_with('{') {
        let value: Value = serde_json::from_str(user).ok()?;
        return value.get("session_id")?.as_str().map(str::to_owned);
    }
    user.rsplit_once("_session_").map(|(_, session)| session.to_owned())
}

pub(super) fn field<'a>(request: &'a ModelRequest, path: &[&str]) -> Option<&'a str> {
    let mut value: &Value = &request.extra;
    for key in path {
        value = value.get(key)?;
    }
    value.as_str().filter(|text| !text.is_empty())
}

fn by_beginning(agent: Option<&AgentId>, request: &ModelRequest, names: &Names) -> SessionId {
    let first = request.messages.iter().find(|message| is_turn(message));
    let said = first.map(|message| message.content.visible_text().digest().to_string()).unwrap_or_default();
    let beginning = format!("{}\0{said}", request.system.paragraphs().digest());
    SessionId::new(names.of("conv", &of_agent(agent, "beginning", &beginning)))
}

fn run_of(
    agent: Option<&AgentId>,
    session: &SessionId,
    request: &ModelRequest,
    continued: Continued<'_>,
    link: Option<Link>,
    names: &Names,
) -> RunId {
    let turns = request.messages.iter().filter(|message| is_turn(message));
    let (count, last) = turns.fold((0_usize, None), |(count, _), message| (count + 1, Some(message)));
    let answers = link.as_ref().map(|link| link.answers);
    let said = match (last, link) {
        // Results of tools alone: the answer that asked for them says which turn it is.
        (None, Some(link)) => return link.run,
        (None, None) => None,
        (Some(last), _) => Some((count, last.content.visible_text().digest())),
    };
    let Continued { previous, conversation, socket } = continued;
    let place = json!([session, previous, conversation, socket, answers, said]);
    RunId::new(names.of("run", &of_agent(agent, "run", &place.to_string())))
}

/// Whether a message is an answer of the model. Where nobody says anything, a request is made of an empty one.
fn is_answer(message: &Message) -> bool {
    let is_empty = matches!(message.content.as_slice(), [Part::Text { text, .. }] if text.is_empty());
    message.role == Role::Assistant && !is_empty
}

/// Whether a message is the human's, and no result of a tool.
pub(super) fn is_turn(message: &Message) -> bool {
    message.role == Role::User && message.content.iter().any(|part| !matches!(part, Part::ToolResult(_)))
}

pub(super) fn of_agent(agent: Option<&AgentId>, kind: &str, text: &str) -> Digest {
    Digest::of_text(kind, &format!("{}\0{text}", agent.map(AgentId::as_str).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_hooks::Json;

    fn request(texts: &[(Role, &str)], extra: Value) -> ModelRequest {
        let messages = texts.iter().map(|(role, text)| Message::text(*role, *text)).collect();
        ModelRequest { extra: Json::new(extra), ..ModelRequest::new("m", messages) }
    }

    fn of(request: &ModelRequest) -> Identity {
        identify(Some(&"main".into()), &HeaderMap::new(), request, None, &Links::default())
    }

    #[test]
    fn clients_name_their_conversations() {
        let session = |extra| of(&request(&[(Role::User, "hi")], extra)).session.to_string();
        assert_eq!(session(json!({"metadata": {"user_id": "user_1_account__session_abc-1"}})), "abc-1");
        assert_eq!(session(json!({"metadata": {"user_id": "{\"session_id\":\"abc-2\"}"}})), "abc-2");
        assert_eq!(session(json!({"prompt_cache_key": "k1"})), "k1");
        assert_eq!(session(json!({"conversation": "c1"})), "c1");
        assert_eq!(session(json!({"conversation": {"id": "c2"}})), "c2");
        assert_eq!(session(json!({"previous_response_id": "r1", "prompt_cache_key": "k1"})), "r1");
        assert!(
            session(json!({"metadata": {"user_id": "alice"}})).starts_with("conv-"),
            "a user is no conversation"
        );
        assert!(session(json!({"prompt_cache_key": "k 1"})).starts_with("conv-"));
        assert!(session(json!({"prompt_cache_key": "k".repeat(200)})).len() < 40);
        let headers = HeaderMap::from_iter([(
            http::HeaderName::from_static("x-claude-code-session-id"),
            "abc-3".parse().unwrap(),
        )]);
        let named = identify(
            None,
            &headers,
            &request(&[], json!({"prompt_cache_key": "k1"})),
            None,
            &Links::default(),
        );
        assert_eq!(named.session.as_str(), "abc-3");
    }

    #[test]
    fn names_that_are_made_of_what_was_said_are_keyed_where_the_trail_is() {
        let folder = tempfile::tempdir().unwrap();
        let key = |name: &str| Arc::new(DigestKey::create(&folder.path().join(name)).unwrap());
        let (ours, theirs) = (key("ours"), key("theirs"));
        let again = Arc::new(DigestKey::read(&folder.path().join("ours")).unwrap());
        let said = request(&[(Role::User, "hi")], Value::Null);
        let by = |key: Option<&Arc<DigestKey>>| {
            let links = Links::naming(Names::keyed(key));
            let identity = identify(Some(&"main".into()), &HeaderMap::new(), &said, None, &links);
            let withheld = identity.clone().unnamed(links.names());
            let odd = request(&[(Role::User, "hi")], json!({"prompt_cache_key": "k 1"}));
            let odd = identify(Some(&"main".into()), &HeaderMap::new(), &odd, None, &links);
            [&identity.session, &withheld.session, &odd.session]
                .map(ToString::to_string)
                .into_iter()
                .chain([identity.run.to_string()])
                .collect::<Vec<_>>()
        };
        let (plain, keyed) = (by(None), by(Some(&ours)));
        let shape = |name: &String| (name.split('-').next().unwrap().to_owned(), name.len());
        for (plain, keyed) in plain.iter().zip(&keyed) {
            assert_ne!(plain, keyed);
            assert_eq!(shape(plain), shape(keyed));
        }
        assert_eq!(by(Some(&again)), keyed, "after a start, and at each gateway that has the key");
        assert!(by(Some(&theirs)).iter().zip(&keyed).all(|(theirs, ours)| theirs != ours));
    }

    #[test]
    fn a_growing_conversation_stays_itself() {
        let first = of(&request(&[(Role::User, "hi")], Value::Null));
        let second =
            of(&request(&[(Role::User, "hi"), (Role::Assistant, "ho"), (Role::Tool, "x")], Value::Null));
        let third =
            of(&request(&[(Role::User, "hi"), (Role::Assistant, "ho"), (Role::User, "more")], Value::Null));
        assert_eq!(first.session, second.session);
        assert_eq!(first.session, third.session);
        assert_eq!(first.run, second.run, "one turn");
        assert_ne!(first.run, third.run, "the next turn");
        assert_eq!([first.iteration, second.iteration, third.iteration], [0, 1, 1]);
        let other = identify(
            Some(&"other".into()),
            &HeaderMap::new(),
            &request(&[(Role::User, "hi")], Value::Null),
            None,
            &Links::default(),
        );
        assert_ne!(other.session, first.session, "agents are apart");
    }

    #[test]
    fn answers_lead_back_to_their_conversation() {
        let links = Links::default();
        let first =
            identify(None, &HeaderMap::new(), &request(&[(Role::User, "hi")], Value::Null), None, &links);
        links.remember(None, "resp_1", &ModelRequest::default(), &first);
        let next = request(&[(Role::User, "more")], json!({"previous_response_id": "resp_1"}));
        let second = identify(None, &HeaderMap::new(), &next, None, &links);
        assert_eq!(second.session, first.session);
        assert_eq!(second.iteration, 1);
        let stranger = identify(Some(&"other".into()), &HeaderMap::new(), &next, None, &links);
        assert_ne!(stranger.session, first.session);
    }

    /// What a provider keeps is not in a request, so what a human says twice looks alike.
    #[test]
    fn turns_that_say_the_same_are_apart_where_the_provider_keeps_the_conversation() {
        let text = |name: &str| json!({name: "x_0"});
        let kinds = ["previous_response_id", "conversation", "socket"];
        for kind in kinds {
            let (links, mut runs) = (Links::default(), Vec::new());
            let headers = HeaderMap::from_iter([(
                http::HeaderName::from_static("x-backstop-session"),
                "mine".parse().unwrap(),
            )]);
            let socket = (kind == "socket").then_some("s_1");
            for turn in 0..3 {
                let continued = match kind {
                    "previous_response_id" => json!({kind: format!("resp_{turn}")}),
                    "conversation" => text(kind),
                    _ => Value::Null,
                };
                let asked = request(&[(Role::User, "go on")], continued.clone());
                let first = identify(None, &headers, &asked, socket, &links);
                assert_eq!(identify(None, &headers, &asked, socket, &links), first, "{kind}: asked again");
                let remember = |id: &str, identity: &Identity| {
                    links.remember(None, id, &asked, identity);
                    if let Some(socket) = socket {
                        links.remember_session(None, socket, identity);
                    }
                };
                // The model called a tool, and its result comes in a request of its own.
                let called = format!("called_{turn}");
                remember(&called, &first);
                let continued = match kind {
                    "previous_response_id" => json!({kind: called}),
                    _ => continued,
                };
                let results = request(&[(Role::Tool, "found")], continued);
                let second = identify(None, &headers, &results, socket, &links);
                assert_eq!(second.run, first.run, "{kind}: one turn");
                assert_eq!(second.iteration, first.iteration + 1, "{kind}");
                remember(&format!("resp_{}", turn + 1), &second);
                runs.push(first.run);
            }
            assert!(runs[0] != runs[1] && runs[1] != runs[2] && runs[0] != runs[2], "{kind}: {runs:?}");
        }
        let on = |socket| {
            let asked = request(&[(Role::User, "go on")], json!({"metadata": {"session_id": "mine"}}));
            identify(None, &HeaderMap::new(), &asked, Some(socket), &Links::default()).run
        };
        assert_ne!(on("s_1"), on("s_2"), "two connections of one conversation");
    }

    #[test]
    fn answers_of_a_conversation_that_its_provider_keeps_are_counted() {
        for (conversation, id) in [(json!("conv_1"), "resp_1"), (json!({"id": "conv_1"}), "")] {
            let links = Links::default();
            let asked = request(&[(Role::User, "hi")], json!({"conversation": conversation}));
            for iteration in 0..3 {
                let identity = identify(None, &HeaderMap::new(), &asked, None, &links);
                assert_eq!((identity.iteration, identity.session.as_str()), (iteration, "conv_1"));
                links.remember(None, id, &asked, &identity);
            }
            let stranger = identify(Some(&"other".into()), &HeaderMap::new(), &asked, None, &links);
            assert_eq!(stranger.iteration, 0, "agents are apart");
        }
    }
}
