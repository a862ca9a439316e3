//! The way of a request: `message.before`, `before_llm_call`, `llm_input`.
//!
//! - *Every message of the human is judged before a model reads it.* Clients send the whole conversation with
//!   each request, as it was before any hook rewrote it. So each message passes `message.before` once, and what
//!   the hooks made of it is put in its place in every later request; a message that this process has not
//!   judged (it was restarted, or forgot) is judged again.
//! - *Everything a model reads is shown to `before_llm_call`*: the system prompt, the messages, and in them the
//!   results of tools, whatever role a wire gives them, and the texts [beside](super::fields) all that.
//! - *What a provider runs is judged where it is offered*: a tool whose calls would be denied is taken out of the
//!   request, or the request is refused. A question about one is filed once for the conversation, and the tool is not offered before a
//!   person allows it.
//! - *A tool that was taken away is not asked for*: who writes the request takes it out of `tool_choice`, too.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use backstop_engine::{BlockCause, Blocked, Engine, OfferQuestion, OfferRuling, Unasked};
use backstop_hooks::conversation::{Message, Part, Role, ToolSpec};
use backstop_hooks::points::{
    BeforeLlmCall, BeforeLlmCallEvent, LlmInputEvent, MessageBefore, MessageBeforeEvent,
};
use backstop_hooks::{AgentId, CallContext, Digest, Json, Params, ShownName, Text};
use backstop_llm::{Api, ModelRequest, ToolDefinition, estimate_tokens};
use serde_json::{Map, Value};
use tokio::task::{consume_budget, yield_now};

use super::bounded::Bounded;
use super::fields::Beside;
use super::identity::{Identity, is_turn};
use super::incoming::Stored;
use super::offers::{Offer, offers, offers_of_document};

/// How many messages are remembered that stayed as they were.
const MAX_UNCHANGED: usize = 8_192;
/// How many are that became something else: with their texts, 32 MiB at most.
const MAX_REWRITTEN: usize = 1_024;
/// How many offers are remembered that a person allowed.
const MAX_ALLOWED: usize = 1_024;
/// A longer text that a hook wrote is not remembered, but asked for again.
const MAX_REMEMBERED_BYTES: usize = 32 * 1_024;
/// After how many bytes of messages others have their turn, and a client that has left is heard of.
const STEP_BYTES: usize = 64 * 1_024;
/// The agent of requests that name none.
const NO_AGENT: &str = "unknown";

/// What `message.before` made of messages, so that each is judged once, and what people allowed to be offered. Texts that came are kept
/// as digests. Once the hooks are others, nothing of it counts any more.
#[derive(Debug)]
pub(super) struct Remembered(Mutex<Made>);

#[derive(Debug)]
struct Made {
    /// Under which hooks, as the engine counts them.
    generation: u64,
    unchanged: Bounded<Digest, ()>,
    rewritten: Bounded<Digest, Text>,
    allowed: Bounded<Digest, ()>,
}

impl Default for Remembered {
    fn default() -> Self {
        let (unchanged, rewritten) = (Bounded::new(MAX_UNCHANGED), Bounded::new(MAX_REWRITTEN));
        let allowed = Bounded::new(MAX_ALLOWED);
        Self(Mutex::new(Made { generation: 0, unchanged, rewritten, allowed }))
    }
}

impl Made {
    fn find(&self, key: &Digest) -> Option<Option<Text>> {
        match self.rewritten.get(key) {
            Some(text) => Some(Some(text.clone())),
            None => self.unchanged.get(key).map(|()| None),
        }
    }
}

impl Remembered {
    /// What is remembered under the hooks of this generation: what others made of messages, and what was allowed under them, is forgotten.
    fn under(&self, generation: u64) -> RememberedNow<'_> {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if made.generation < generation {
            let forgotten = Self::default().0.into_inner().unwrap_or_else(PoisonError::into_inner);
            *made = Made { generation, ..forgotten };
        }
        RememberedNow { remembered: self, generation }
    }
}

/// What is remembered under some hooks. Once a request has come that others judge, nothing is found and nothing is kept here.
#[derive(Clone, Copy, Debug)]
struct RememberedNow<'a> {
    remembered: &'a Remembered,
    generation: u64,
}

impl RememberedNow<'_> {
    /// Looks at what was made, or changes it, as long as it counts.
    fn with<T: Default>(self, look: impl FnOnce(&mut Made) -> T) -> T {
        let mut made = self.remembered.0.lock().unwrap_or_else(PoisonError::into_inner);
        if made.generation == self.generation { look(&mut made) } else { T::default() }
    }

    /// What became of a message, which may be nothing.
    #[expect(clippy::option_option, reason = "a message may be unknown, and a known one unchanged")]
    fn find(self, key: &Digest) -> Option<Option<Text>> {
        self.with(|made| made.find(key))
    }

    /// Whether a person allowed an offer.
    fn is_allowed(self, key: &Digest) -> bool {
        self.with(|made| made.allowed.get(key).is_some())
    }

    fn allow(self, key: Digest) {
        self.with(|made| made.allowed.insert(key, ()));
    }

    fn keep(self, key: Digest, text: Option<Text>) {
        self.with(|made| {
            if made.find(&key).is_some_and(|known| known == text) {
                return;
            }
            // Hooks change: only their last word counts.
            made.unchanged.forget(&key);
            made.rewritten.forget(&key);
            match text {
                None => made.unchanged.insert(key, ()),
                Some(text) if text.len() <= MAX_REMEMBERED_BYTES => made.rewritten.insert(key, text),
                Some(_) => {}
            }
        });
    }
}

/// Who asks what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking<'a> {
    pub(super) engine: &'a Engine,
    pub(super) call: &'a CallContext,
    pub(super) identity: &'a Identity,
    pub(super) provider: &'a str,
    /// The models that the request names besides the one that it is for.
    pub(super) other_models: &'a [String],
    /// The wire of the request.
    pub(super) api: Api,
    /// What becomes of a tool of the provider's about which a human would be asked.
    pub(super) unasked: Unasked,
    /// The items that a document stores in a conversation: what they offer is offered with each request that goes on with it, and
    /// what they say is read with it.
    pub(super) stored: Option<Stored<'a>>,
    /// The fields of a document that nobody knows; `None` for a conversation.
    pub(super) unlisted: Option<&'a Map<String, Value>>,
    /// How many tokens the answer has at most, where a budget reserves as many.
    pub(super) answer_tokens: Option<u64>,
}

impl Asking<'_> {
    /// Takes a request past its gates, which may rewrite it.
    pub(super) async fn gate(
        self,
        request: &mut ModelRequest,
        remembered: &Remembered,
    ) -> Result<(), Blocked> {
        // INVARIANT (one policy): the number is read before anybody is asked.
        let remembered = remembered.under(self.engine.generation());
        if self.engine.has_hooks::<MessageBefore>() {
            self.messages(request, remembered).await?;
        }
        if self.engine.has_hooks::<BeforeLlmCall>() {
            self.call(request).await?;
        }
        if self.engine.has_tool_gates() {
            self.offers(request, remembered).await?;
        }
        Ok(())
    }

    /// What is offered: nothing can be taken out of a document, or of items that are stored.
    fn offered(self, request: &ModelRequest) -> Vec<Offer> {
        let Some(stored) = self.stored else {
            return self.unlisted.map_or_else(|| offers(self.api, request), offers_of_document);
        };
        let mut offers = offers(self.api, stored.items());
        offers.iter_mut().for_each(|offer| offer.place = None);
        offers
    }

    /// Takes out of the request what the provider would run by itself although a call of it would be denied.
    async fn offers(self, request: &mut ModelRequest, remembered: RememberedNow<'_>) -> Result<(), Blocked> {
        let mut gone = HashSet::new();
        for offer in self.offered(request).iter().filter(|offer| offer.is_run_by_provider()) {
            let Some(blocked) = self.refused(offer, remembered).await else { continue };
            match offer.place {
                _ if blocked.is_unavailable() => return Err(blocked),
                Some(place) => gone.extend([place]),
                None => return Err(refused(&offer.info.name, &blocked.reason_or_default())),
            }
        }
        without(&gone, &mut request.tools);
        Ok(())
    }

    /// Why a tool may not be offered in this conversation. A person who allows it does so for the conversation, and for this very
    /// tool: an offer that says anything else is another one.
    async fn refused(self, offer: &Offer, remembered: RememberedNow<'_>) -> Option<Blocked> {
        let definition = offer.info.input_schema.as_ref().map(Json::to_value).unwrap_or_default();
        let conversation = self.identity.session.as_str();
        let said = [("conversation".to_owned(), conversation.into()), ("offered".to_owned(), definition)];
        let said = Params::new(said.into_iter().collect());
        let key = self.offer_key(offer, &said);
        let question = match remembered.is_allowed(&key) {
            true => OfferQuestion::Answered,
            false => self.unasked.into(),
        };
        match self.engine.rule_offer(&offer.names, &said, &self.identity.run, self.call, question).await {
            OfferRuling::Passes => None,
            OfferRuling::Allowed => {
                remembered.allow(key);
                None
            }
            OfferRuling::Refused(blocked) => Some(blocked),
        }
    }

    fn offer_key(self, offer: &Offer, said: &Params) -> Digest {
        let names: Vec<&str> = offer.names.iter().map(String::as_str).collect();
        Digest::of("offer", &serde_json::json!([self.asker(), names, &**said]))
    }

    async fn messages(
        self,
        request: &mut ModelRequest,
        remembered: RememberedNow<'_>,
    ) -> Result<(), Blocked> {
        let model = request.model.clone();
        let place = self.place(&model);
        let last = request.messages.iter().rposition(is_turn);
        let mut since_turn = 0_usize;
        for (index, message) in request.messages.iter_mut().enumerate() {
            if !is_turn(message) || !message.has_text() {
                continue;
            }
            // A request of thousands of messages does not keep a worker for itself.
            consume_budget().await;
            let text = message.content.visible_text();
            // All that a hook is shown of a message.
            let key = Digest::of_digests("message.before", &[place, text.digest()]);
            let length = text.len();
            // The newest message is judged with each request that a person may have made.
            let known = if Some(index) == last { None } else { remembered.find(&key) };
            let made = match known {
                Some(made) => made,
                None => {
                    let made = self.message(text, &model).await?;
                    remembered.keep(key, made.clone());
                    made
                }
            };
            since_turn = since_turn.saturating_add(length);
            if let Some(text) = made {
                message.set_visible_text(&text);
            }
            if since_turn >= STEP_BYTES {
                since_turn = 0;
                yield_now().await;
            }
        }
        Ok(())
    }

    async fn message(self, text: Text, model: &str) -> Result<Option<Text>, Blocked> {
        let event = MessageBeforeEvent {
            agent_id: self.call.agent_id.clone().unwrap_or_else(|| AgentId::new(NO_AGENT)),
            session_key: self.call.session_key.clone(),
            provider: self.provider.to_owned(),
            model: model.to_owned(),
            message: text.clone(),
            metadata: Params::default(),
        };
        let decided = self.engine.decide::<MessageBefore>(event, self.call).await.into_parts();
        match decided.blocked {
            Some(blocked) => Err(blocked),
            None => Ok((decided.event.message != text).then_some(decided.event.message)),
        }
    }

    /// Where messages stand: what a hook is shown of one besides its text.
    fn place(self, model: &str) -> Digest {
        let place = (&self.identity.session, self.provider, model);
        Digest::of("message.before", &serde_json::json!([self.asker(), place]))
    }

    /// Whose request it is. What hooks and people said about one agent's or user's is said about nobody else's, although clients name
    /// their conversations as they like.
    fn asker(self) -> Value {
        let user = self.call.requester.as_ref().and_then(|requester| requester.sender_id.as_deref());
        serde_json::json!([self.call.agent_id, user])
    }

    async fn call(self, request: &mut ModelRequest) -> Result<(), Blocked> {
        let system = request.system_text().unwrap_or_default();
        let offers = self.offered(request);
        let beside = Beside::of(self.api, request);
        let texts = request.messages.len();
        let mut messages = [request.messages.as_slice(), beside.messages()].concat();
        messages.extend(self.items(request)?);
        let shown = messages.len();
        let event = BeforeLlmCallEvent {
            run_id: self.identity.run.clone(),
            answer_tokens: self.answer_tokens,
            token_estimate: estimate_tokens(request),
            messages,
            system_prompt: system.clone(),
            model: request.model.clone(),
            other_models: (!self.other_models.is_empty()).then(|| self.other_models.to_vec()),
            provider: self.provider.to_owned(),
            iteration: self.identity.iteration,
            tools: offers.iter().map(|offer| offer.info.clone()).collect(),
        };
        let decided = self.engine.decide::<BeforeLlmCall>(event, self.call).await.into_parts();
        if let Some(blocked) = decided.blocked {
            return Err(blocked);
        }
        let mut event = decided.event;
        if self.stored.is_some() {
            if event.messages.len() != shown {
                return Err(unstorable());
            }
            let items = event.messages.split_off(texts);
            request.messages.clone_from(&event.messages);
            if items != self.items(request)? {
                return Err(unstorable());
            }
        }
        beside.take(&mut event.messages, request);
        request.messages = event.messages;
        if event.system_prompt != system {
            request.set_system_text((!event.system_prompt.is_empty()).then_some(event.system_prompt));
        }
        let left: HashSet<&str> = event.tools.iter().map(|tool| tool.name.as_str()).collect();
        let mut gone = HashSet::new();
        for offer in offers.iter().filter(|offer| !offer.stays(&left)) {
            match offer.place {
                Some(place) => gone.extend([place]),
                None => return Err(refused(&offer.info.name, "a hook took it away")),
            }
        }
        without(&gone, &mut request.tools);
        Ok(())
    }

    /// What the model is going to read of the items that a document stores, with the texts of `request` in them: the document shows
    /// texts alone, and the items have names, ids, pictures and files. Hooks can change nothing of it but those texts.
    fn items(self, request: &ModelRequest) -> Result<Vec<Message>, Blocked> {
        let Some(stored) = self.stored else { return Ok(Vec::new()) };
        let items = stored.items_with(request).ok_or_else(unstorable)?;
        let beside = Beside::of(self.api, &items);
        Ok([items.messages.as_slice(), beside.messages()].concat())
    }

    /// What the model is given, for those who watch.
    pub(super) fn input(self, request: &ModelRequest) -> LlmInputEvent {
        let images = |message: &Message| {
            message.content.iter().filter(|part| matches!(part, Part::Image { .. })).count()
        };
        let count: usize = request.messages.iter().map(images).sum();
        let mut history = request.messages.clone();
        let prompt = history.iter().rposition(is_turn).map(|at| history.remove(at).content.visible_text());
        let specs = request.tools.iter().filter_map(|tool| match tool {
            ToolDefinition::Function { spec, .. } => Some(ToolSpec::clone(spec)),
            ToolDefinition::Provider { .. } => None,
        });
        LlmInputEvent {
            run_id: self.identity.run.clone(),
            session_id: self.identity.session.clone(),
            provider: self.provider.to_owned(),
            model: request.model.clone(),
            system_prompt: request.system_text(),
            prompt: prompt.unwrap_or_default(),
            history_messages: history,
            images_count: u32::try_from(count).unwrap_or(u32::MAX),
            tools: Some(specs.collect()),
        }
    }
}

/// How many messages the turn has, without the answer to come.
pub(super) fn messages_of_turn(messages: &[Message]) -> u32 {
    let since = messages.iter().rposition(is_turn).unwrap_or_default();
    let answers = messages.iter().skip(since).filter(|message| message.role != Role::System).count();
    u32::try_from(answers).unwrap_or(u32::MAX)
}

/// Takes the tools at these places out of the list.
fn without(gone: &HashSet<usize>, tools: &mut Vec<ToolDefinition>) {
    let mut place = 0..;
    tools.retain(|_| place.next().is_none_or(|place| !gone.contains(&place)));
}

/// A tool stands where it can't be taken out of the request.
fn refused(tool: &str, reason: &str) -> Blocked {
    let tool = ShownName::new(tool);
    let told = format!("the request offers `{tool}`, and it can't be taken out: {reason}");
    Blocked { cause: BlockCause::Withheld, reason: Some(told.into()), hook: None, owner: None }
}

/// Hooks change what stays as it is in a document.
fn unstorable() -> Blocked {
    let told = "a hook would change what is stored in a conversation, in a name, an id, a picture or a file, or in the number of texts, which is not possible\nhint: store it without what the hook objects to";
    Blocked { cause: BlockCause::Withheld, reason: Some(told.into()), hook: None, owner: None }
}

#[cfg(test)]
mod tests {
    use backstop_hooks::Requester;

    use super::*;

    #[test]
    fn the_last_word_about_a_message_counts() {
        let (all, key) = (Remembered::default(), Digest::of_text("message.before", "x"));
        let remembered = all.under(1);
        assert_eq!(remembered.find(&key), None);
        let too_long = Text::from("y".repeat(MAX_REMEMBERED_BYTES + 1));
        for (made, found) in [
            (None, Some(None)),
            (Some("z".into()), Some(Some("z".into()))),
            (None, Some(None)),
            (Some(too_long), None),
        ] {
            remembered.keep(key, made);
            assert_eq!(remembered.find(&key), found);
        }
    }

    #[test]
    fn other_hooks_begin_with_nothing() {
        let (all, key) = (Remembered::default(), Digest::of_text("message.before", "x"));
        let before = all.under(1);
        before.keep(key, None);
        before.allow(key);
        assert!(all.under(1).find(&key).is_some() && all.under(1).is_allowed(&key));
        let now = all.under(2);
        assert!(now.find(&key).is_none() && !now.is_allowed(&key));
        // A request that began under the hooks of before ends under them.
        before.keep(key, Some("y".into()));
        before.allow(key);
        assert!(now.find(&key).is_none() && !now.is_allowed(&key));
        assert!(all.under(1).find(&key).is_none(), "one that read the number before the other did");
        now.keep(key, None);
        assert_eq!((now.find(&key), before.find(&key)), (Some(None), None));
    }

    #[test]
    fn what_is_remembered_of_one_user_is_nobody_elses() {
        let engine = Engine::builder().build();
        let identity = Identity { session: "s".into(), run: "r".into(), iteration: 0 };
        let key_of = |agent: Option<&str>, user: Option<&str>, session: &str| {
            let sender_id = user.map(str::to_owned);
            let call = CallContext {
                agent_id: agent.map(AgentId::from),
                requester: Some(Requester { sender_id, ..Requester::default() }),
                ..CallContext::default()
            };
            let identity = Identity { session: session.into(), ..identity.clone() };
            let asking = Asking {
                engine: &engine,
                call: &call,
                identity: &identity,
                provider: "p",
                other_models: &[],
                api: Api::OpenAiChat,
                unasked: Unasked::Deny,
                stored: None,
                unlisted: None,
                answer_tokens: None,
            };
            asking.place("m")
        };
        let all = [
            (None, None, "s"),
            (None, Some("alice"), "s"),
            (None, Some("bob"), "s"),
            (Some("alice"), None, "s"),
            (Some("a"), Some("alice"), "s"),
            (Some("a"), Some("alice"), "t"),
            (Some("a"), None, "alice\0s"),
        ];
        let keys: HashSet<Digest> = all.map(|(agent, user, session)| key_of(agent, user, session)).into();
        assert_eq!(keys.len(), all.len());
    }
}
