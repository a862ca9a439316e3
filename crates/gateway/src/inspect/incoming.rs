//! A request as it came, whatever its body is: what it says, and the body that says something else.
//!
//! A count of tokens at Bedrock has what is counted in it, as a request of Converse or as the body of one of Anthropic's
//! Messages in Base64: that is read and written as any of its wire, and put back where it stood.

use std::borrow::Cow;
use std::collections::BTreeSet;

use backstop_hooks::Text;
use backstop_hooks::conversation::{ImageSource, Message, Part, Role};
use backstop_llm::live::{KnownBodies, LiveDocument, LiveRequest, Word};
use backstop_llm::wire::parse_request;
use backstop_llm::{Api, ModelRequest, WireError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::form::Kind;
use super::parts::{BadParts, LiveParts};
use crate::models::named_in_part;
use crate::readable::{Readable, is_plain};

/// A request that was read.
#[derive(Debug)]
pub(super) enum Incoming {
    /// One that asks a model for an answer.
    Conversation(LiveRequest),
    /// One that asks how long another one is.
    Counted(Box<Counted>),
    /// One whose body is a document, as a request in which each of its texts is a message.
    Document(LiveDocument, ModelRequest),
    /// One whose body is a document that stores items of a conversation: the same, and the items as a request has them.
    Stored(LiveDocument, ModelRequest, Box<Items>),
    /// The same of a body in parts.
    Parts(LiveParts, ModelRequest),
}

/// The items that a document stores in a conversation.
#[derive(Debug)]
pub(super) struct Items {
    /// As a request has them.
    request: ModelRequest,
    /// The conversation that the address names.
    conversation: Option<String>,
}

/// A document that stores items, and these.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<'a> {
    document: &'a LiveDocument,
    items: &'a Items,
}

impl<'a> Stored<'a> {
    /// The items, as a request that says them.
    pub(super) fn items(self) -> &'a ModelRequest {
        &self.items.request
    }

    /// The same once the texts of the document are those of `edited`; `None` if the document can't say that.
    pub(super) fn items_with(self, edited: &ModelRequest) -> Option<ModelRequest> {
        let body = self.document.write(&texts_of(&edited.messages))?;
        stored_items(&parse_request(&body).ok()?, self.items.conversation.as_deref()).ok()
    }
}

/// A count of tokens at Bedrock.
#[derive(Debug)]
pub(super) struct Counted {
    /// What is counted.
    live: LiveRequest,
    /// The fields around it.
    around: Map<String, Value>,
    is_invoked: bool,
}

/// What is counted stands below one of these, inside of `input`.
const INPUT: &str = "input";
const CONVERSED: &str = "converse";
const INVOKED: &str = "invokeModel";
const STRANGE: &str = "what is counted is neither a request of Converse nor a body of Anthropic's Messages";

impl Counted {
    fn read(body: &Bytes) -> Result<Self, Unread> {
        let strange = || Unread::Unjudged(STRANGE);
        let Value::Object(mut around) = parse_request(body).map_err(|_| strange())? else {
            return Err(strange());
        };
        let Some(Value::Object(mut input)) = around.shift_remove(INPUT) else { return Err(strange()) };
        let model = around.get("modelId").cloned().ok_or_else(strange)?;
        let (conversed, invoked) = (input.shift_remove(CONVERSED), input.shift_remove(INVOKED));
        if !input.is_empty() {
            return Err(strange());
        }
        match (conversed, invoked) {
            (Some(Value::Object(mut fields)), None) => {
                fields.insert("modelId".to_owned(), model);
                let live = LiveRequest::read(Api::BedrockConverse, Value::from(fields).to_string().into())?;
                Ok(Self { live, around, is_invoked: false })
            }
            (None, Some(Value::Object(mut holder))) if holder.len() == 1 => {
                let Some(Value::String(sealed)) = holder.shift_remove("body") else { return Err(strange()) };
                let bytes = STANDARD.decode(sealed.as_bytes()).map_err(|_| strange())?;
                let Ok(Value::Object(mut fields)) = parse_request(&bytes) else { return Err(strange()) };
                fields.insert("model".to_owned(), model);
                let live = LiveRequest::read(Api::AnthropicMessages, Value::from(fields).to_string().into())?;
                Ok(Self { live, around, is_invoked: true })
            }
            _ => Err(strange()),
        }
    }

    fn write(&self, edited: &ModelRequest) -> Option<Bytes> {
        let Value::Object(mut fields) = serde_json::from_slice(&self.live.write(edited)).ok()? else {
            return None;
        };
        let input = if self.is_invoked {
            fields.shift_remove("model");
            json!({ INVOKED: { "body": STANDARD.encode(Value::from(fields).to_string()) } })
        } else {
            fields.shift_remove("modelId");
            json!({ CONVERSED: fields })
        };
        let mut body = self.around.clone();
        body.insert(INPUT.to_owned(), input);
        Some(Value::from(body).to_string().into())
    }
}

/// Why a request can't be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unread {
    /// It is none of its wire.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Its parts can't be told.
    #[error(transparent)]
    Parts(#[from] BadParts),
    /// It can't be judged.
    #[error("{0}")]
    Unjudged(&'static str),
}

impl Incoming {
    /// Reads the body of a request for `path`; `None` if there is nothing in it to read.
    pub(super) fn read(
        kind: &Kind,
        api: Api,
        path: &str,
        body: &Bytes,
        known: &KnownBodies,
    ) -> Result<Option<Self>, Unread> {
        Ok(match kind {
            Kind::Ask(target) => {
                let live = LiveRequest::read_known(api, target, body.clone(), known, &named_in_part)?;
                Some(Self::Conversation(live))
            }
            Kind::Texts { readable, model, parts } => match (readable.asked, parts) {
                (Some(table), Some(headers)) => {
                    let live = LiveParts::read(table, headers, body.clone())?;
                    let named = live.fields().get("model").and_then(Value::as_str).map(str::to_owned);
                    let model = model.as_deref().or(named.as_deref()).unwrap_or_default();
                    let mut request = ModelRequest::new(model, live.texts().map(Message::user).collect());
                    show_words(&mut request, live.words().iter());
                    Some(Self::Parts(live, request))
                }
                (Some(table), None) => {
                    let document = LiveDocument::read(table, body.clone())?;
                    let mut request = as_request(&document, model.as_deref());
                    Some(match readable.stored_in(path) {
                        Some(stored) => {
                            let conversation = stored.conversation.map(str::to_owned);
                            let items = stored_items(document.value(), conversation.as_deref())?;
                            let items = Items { request: items, conversation };
                            Self::Stored(document, request, Box::new(items))
                        }
                        None => {
                            show_words(&mut request, document.words().iter());
                            Self::Document(document, request)
                        }
                    })
                }
                (None, _) => None,
            },
            Kind::BedrockCount => Some(Self::Counted(Box::new(Counted::read(body)?))),
            Kind::Fetch { .. } => None,
            Kind::Unreadable(why) => return Err(Unread::Unjudged(why)),
        })
    }

    /// Why hooks that judge requests can't judge this one.
    pub(super) fn unjudgeable(&self) -> Option<&'static str> {
        match self {
            Self::Conversation(_) | Self::Counted(_) if has_variables(self.request()) => {
                Some("the variables of a stored prompt are texts that no hook is shown")
            }
            Self::Document(document, _) | Self::Stored(document, ..) if document.has_tokens() => {
                Some("it says texts as numbers of tokens, which no hook can read; send them as strings")
            }
            Self::Conversation(_)
            | Self::Counted(_)
            | Self::Document(..)
            | Self::Stored(..)
            | Self::Parts(..) => None,
        }
    }

    /// The items that it stores in a conversation.
    pub(super) fn stored(&self) -> Option<Stored<'_>> {
        match self {
            Self::Stored(document, _, items) => Some(Stored { document, items }),
            Self::Conversation(_) | Self::Counted(_) | Self::Document(..) | Self::Parts(..) => None,
        }
    }

    /// The fields of a document that its table does not list: each may have the provider do something. `None` for conversations.
    pub(super) fn unlisted(&self, readable: Option<&Readable>) -> Option<Map<String, Value>> {
        let fields = self.fields()?.into_owned();
        let Value::Object(mut fields) = fields else { return Some(Map::new()) };
        if let Some(table) = readable.and_then(|readable| readable.asked) {
            fields.retain(|name, _| !table.lists(name));
        }
        Some(fields)
    }

    /// The wire of what is counted, where the address does not tell.
    pub(super) fn api(&self) -> Option<Api> {
        match self {
            Self::Counted(counted) if counted.is_invoked => Some(Api::AnthropicMessages),
            Self::Conversation(_)
            | Self::Counted(_)
            | Self::Document(..)
            | Self::Stored(..)
            | Self::Parts(..) => None,
        }
    }

    /// Why the answer to it can't be judged.
    pub(super) fn unanswerable(&self, readable: Option<&Readable>) -> Option<&'static str> {
        readable?.unjudged_answer(self.fields()?.as_ref())
    }

    /// Whether the answer is asked for as a plain text.
    pub(super) fn is_plain(&self) -> bool {
        self.fields().is_some_and(|fields| is_plain(&fields))
    }

    /// The object in which models are named, and those that are named in what the object leaves out.
    pub(super) fn naming(&self, body: &Bytes) -> (Bytes, &[String]) {
        match self {
            Self::Parts(parts, _) => (parts.fields().to_string().into(), &[]),
            Self::Conversation(live) => {
                let (frame, named) = live.models();
                (frame.clone(), named)
            }
            Self::Counted(_) | Self::Document(..) | Self::Stored(..) => (body.clone(), &[]),
        }
    }

    /// What a document says.
    fn fields(&self) -> Option<Cow<'_, Value>> {
        match self {
            Self::Conversation(_) | Self::Counted(_) => None,
            Self::Document(document, _) | Self::Stored(document, ..) => Some(Cow::Borrowed(document.value())),
            Self::Parts(parts, _) => Some(Cow::Owned(parts.fields())),
        }
    }

    /// How many tokens all of its answers have at most, where each has `usual` ones if it does not say; `None` if nobody answers
    /// it in tokens.
    pub(super) fn answer_tokens(&self, usual: u64) -> Option<u64> {
        let number = |value: Option<&Value>| value.and_then(Value::as_u64);
        let (each, answers) = match self {
            Self::Conversation(live) => {
                let request = live.request();
                (request.max_tokens.unwrap_or(usual), number(request.extra.get("n")).unwrap_or(1))
            }
            Self::Document(document, _) | Self::Stored(document, ..) => {
                let fields = document.value();
                let choices = number(fields.get("n")).max(number(fields.get("best_of"))).unwrap_or(1).max(1);
                let usual = fields.get("prompt").map(|_| usual);
                let each = number(fields.get("max_tokens")).or(usual)?;
                (each, choices.saturating_mul(prompts(fields)))
            }
            Self::Counted(_) | Self::Parts(..) => return None,
        };
        Some(each.saturating_mul(answers.max(1)))
    }

    /// What is asked.
    pub(super) fn request(&self) -> &ModelRequest {
        match self {
            Self::Conversation(live) => live.request(),
            Self::Counted(counted) => counted.live.request(),
            Self::Document(_, request) | Self::Stored(_, request, _) | Self::Parts(_, request) => request,
        }
    }

    /// Whether the answer is to be streamed.
    pub(super) fn is_stream(&self) -> bool {
        match self {
            Self::Conversation(live) => live.is_stream(),
            Self::Counted(_) | Self::Document(..) | Self::Stored(..) | Self::Parts(..) => false,
        }
    }

    /// The body that asks for `edited`; `None` if this form of request can't say that.
    pub(super) fn write(&self, edited: &ModelRequest) -> Option<Bytes> {
        match self {
            Self::Conversation(live) => Some(live.write(edited)),
            Self::Counted(counted) => counted.write(edited),
            Self::Document(..) | Self::Stored(..) | Self::Parts(..)
                if !edited.system.is_empty() || edited.extra != self.request().extra =>
            {
                None
            }
            Self::Document(document, request) | Self::Stored(document, request, _) => {
                document.write(&Self::texts(edited, request, document.texts().count())?)
            }
            Self::Parts(parts, request) => parts.write(&Self::texts(edited, request, parts.texts().count())?),
        }
    }

    /// The first `count` messages, which are the texts of a document; `None` if what is shown behind them is another.
    fn texts(edited: &ModelRequest, own: &ModelRequest, count: usize) -> Option<Vec<Text>> {
        let (texts, beside) = edited.messages.split_at_checked(count)?;
        (Some(beside) == own.messages.get(count..)).then(|| texts_of(texts))
    }
}

/// How many prompts a document has, each of which is answered: a list of texts, or of lists of tokens.
fn prompts(fields: &Value) -> u64 {
    let Some(Value::Array(prompts)) = fields.get("prompt") else { return 1 };
    let count = prompts.iter().filter(|prompt| !prompt.is_number()).count();
    u64::try_from(count).unwrap_or(u64::MAX).max(1)
}

fn texts_of(messages: &[Message]) -> Vec<Text> {
    messages.iter().map(|message| message.visible_text().into()).collect()
}

/// A document's texts as messages, for the model that the address names, or the body.
fn as_request(document: &LiveDocument, model: Option<&str>) -> ModelRequest {
    let named = document.value().get("model").and_then(Value::as_str);
    let messages = document.texts().map(Message::user).collect();
    ModelRequest::new(model.or(named).unwrap_or_default(), messages)
}

/// Where words stand in the request that hooks are shown of a document.
const WORDS: &str = "words";

/// What is said of Base64 of which nobody here knows what it holds.
const SEALED: &str = "application/octet-stream";

/// Shows hooks what a document says in single words, beside its texts, and what is sealed in it, as pictures: any of them may be a
/// secret. What a hook makes of them can't be said by the document, so that it is refused.
fn show_words<'w>(request: &mut ModelRequest, all: impl Iterator<Item = &'w Word>) {
    let (sealed, words): (BTreeSet<_>, BTreeSet<_>) = all.partition(|word| word.is_sealed);
    let words: Vec<&str> =
        words.iter().map(|word| word.text.as_str()).filter(|word| *word != request.model).collect();
    if !words.is_empty() {
        request.extra = json!({ WORDS: words }).into();
    }
    let picture = |word: &&Word| Part::Image {
        mime_type: SEALED.to_owned(),
        source: ImageSource::Data(word.text.as_str().into()),
        meta: None,
    };
    if !sealed.is_empty() {
        request.messages.push(Message::new(Role::User, sealed.iter().map(picture).collect()));
    }
}

/// Where a document lists the items that it stores.
const ITEMS: &str = "items";
/// Where a request has them.
const ASKED: &str = "input";

/// The items of a document as a request with them, in the conversation that the address names.
fn stored_items(document: &Value, conversation: Option<&str>) -> Result<ModelRequest, WireError> {
    let mut fields = document.as_object().cloned().unwrap_or_default();
    if let Some(stored) = fields.shift_remove(ITEMS) {
        // A document that has both says both.
        let asked = fields.shift_remove(ASKED);
        let all = match (asked, stored) {
            (None, stored) => stored,
            (Some(Value::Array(asked)), Value::Array(stored)) => asked.into_iter().chain(stored).collect(),
            (Some(asked), Value::Array(stored)) => {
                let asked = json!({"role": "user", "content": asked});
                std::iter::once(asked).chain(stored).collect()
            }
            (Some(_), stored) => stored,
        };
        fields.insert(ASKED.to_owned(), all);
    }
    if let Some(conversation) = conversation {
        fields.insert("conversation".to_owned(), conversation.into());
    }
    let live = LiveRequest::read(Api::OpenAiResponses, Value::from(fields).to_string().into())?;
    Ok(live.request().clone())
}

/// Whether a request fills the variables of a prompt that the provider has.
fn has_variables(request: &ModelRequest) -> bool {
    let of_openai = request.extra.get("prompt").and_then(|prompt| prompt.get("variables"));
    let variables = [of_openai, request.extra.get("promptVariables")];
    variables.into_iter().flatten().any(|variables| !variables.is_null())
}
