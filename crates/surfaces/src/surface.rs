//! What each surface is: the trait, and what passes through it.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::{ApprovalId, Decision};
use backstop_store::{ApprovalRecord, ApprovalState, ApprovalStatus, Identity, Timestamp};
use http::HeaderMap;
use thiserror::Error;
use url::Url;

use crate::desk::Ear;
use crate::handle::Handle;
use crate::push::WebPush;
use crate::shown::Shown;

/// What a test notice says.
pub(crate) const TEST: &str = "This is a test of Backstop. Nothing is asked, and nothing has to be done.";

/// The name of a surface in the configuration: letters, digits, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SurfaceName(String);

impl SurfaceName {
    /// The longest name.
    const LONGEST: usize = 64;

    /// Returns the name, if it is one.
    pub fn new(name: &str) -> Option<Self> {
        let fits = !name.is_empty() && name.len() <= Self::LONGEST;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (fits && name.bytes().all(is_plain)).then(|| Self(name.to_owned()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SurfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The most that can be answered on a surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ceiling {
    /// Nothing: it tells people, who answer on the console.
    Notice,
    /// Denials.
    Deny,
    /// Denials, and allowing one call once.
    Once,
}

impl Ceiling {
    /// Returns whether an answer may be given below it.
    pub fn admits(self, decision: Decision) -> bool {
        match decision {
            Decision::Deny => self >= Self::Deny,
            Decision::AllowOnce => self >= Self::Once,
            // What holds from now on is granted where a person has signed in.
            Decision::AllowAlways => false,
        }
    }
}

/// An answer that a message offers.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The answer.
    pub decision: Decision,
    /// What stands for it.
    pub handle: Handle,
}

/// Where a question is answered that can't be answered on a surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsweredOn {
    /// On the console.
    Console,
    /// On the machine itself: answers are kept apart from the database (`agent.approvals.strict`), and the console only shows.
    Machine,
}

impl AnsweredOn {
    /// Returns what people are told of it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Console => "Answer on the console.",
            Self::Machine => "Answer on the machine itself: `backstop approvals`.",
        }
    }
}

/// A question to be told to one addressee.
#[derive(Debug)]
pub struct Message<'a> {
    /// The question.
    pub record: &'a ApprovalRecord,
    /// What is shown of it.
    pub shown: &'a Shown,
    /// Where it is told.
    pub place: &'a str,
    /// What can be answered there.
    pub offers: &'a [Offer],
    /// Where it is shown on the console.
    pub link: Option<&'a Url>,
    /// Where it can be answered, if not here.
    pub answered_on: AnsweredOn,
    /// How many more questions of the same agent wait until it is their turn to be told there; 0 if it is soon.
    pub more: usize,
    /// Whether nothing of the call is to be sent, since the service did not take it.
    pub is_short: bool,
    /// The moment at which it is told.
    pub now: Timestamp,
}

/// How a question ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The question.
    pub approval: ApprovalId,
    /// The tool.
    pub tool: String,
    /// The agent.
    pub agent: String,
    /// How.
    pub status: ApprovalStatus,
    /// By whom, if that was a person.
    pub by: Option<String>,
}

impl Outcome {
    /// Returns the outcome of a question; `None` as long as it waits.
    pub fn of(record: &ApprovalRecord) -> Option<Self> {
        (record.state != ApprovalState::Pending).then(|| Self {
            approval: record.id.clone(),
            tool: record.request.tool_name.in_full(),
            agent: record.request.agent.to_string(),
            status: record.state.status(),
            by: record.state.by().map(str::to_owned),
        })
    }

    /// Returns the outcome in one line, as people read it. It holds nothing of the arguments.
    pub fn line(&self) -> String {
        let ended = match (self.status, &self.by) {
            (ApprovalStatus::Allowed | ApprovalStatus::Used, Some(by)) => {
                format!("Allowed by {}", crate::shown::line(by, 120))
            }
            (ApprovalStatus::Denied, Some(by)) => format!("Denied by {}", crate::shown::line(by, 120)),
            (ApprovalStatus::Edited, Some(by)) => format!("Changed by {}", crate::shown::line(by, 120)),
            (ApprovalStatus::Responded, Some(by)) => {
                format!("Answered with a result by {}", crate::shown::line(by, 120))
            }
            (ApprovalStatus::TimedOut, _) => "Nobody answered in time".to_owned(),
            (ApprovalStatus::Cancelled, _) => "No longer asked: its run has ended".to_owned(),
            (status, _) => format!("Over: {status}"),
        };
        let (tool, agent) = (crate::shown::line(&self.tool, 80), crate::shown::line(&self.agent, 80));
        format!("{ended}. It was about {tool} of {agent} ({}).", self.approval)
    }
}

/// What somebody wants.
#[derive(Clone, Debug)]
pub enum Asks {
    /// The answer that a handle stands for.
    Press(Handle),
    /// An answer that was typed: `/approve <id> <decision>`.
    Command {
        /// The question, by its id or a beginning of it.
        approval: String,
        /// The answer.
        decision: Decision,
        /// With a denial, what the model is told besides; empty where nothing is.
        word: String,
    },
    /// Something that is not understood, which the person is told.
    Unclear(&'static str),
}

/// How a person is told what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Back {
    /// Not at all, or as the answer to the request.
    Here,
    /// By answering a press with this id.
    Press(String),
    /// By a message to somebody, or about another message, in a place.
    Message {
        /// The place.
        place: String,
        /// The person, or the message.
        to: String,
    },
}

/// Something that a person did on a surface.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Who, as the service proves it.
    pub person: Identity,
    /// What.
    pub asks: Asks,
    /// Where, if the service says so.
    pub place: Option<String>,
    /// The id of the delivery and until when it is remembered, where the same could be delivered again.
    pub delivery: Option<(String, Timestamp)>,
    /// How the person is told what came of it.
    pub back: Back,
}

/// A request that a service made to us.
#[derive(Debug)]
pub struct Posted<'a> {
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// Its body, as it came.
    pub body: &'a [u8],
    /// When it came.
    pub now: Timestamp,
}

/// Why a request of a service is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// Nothing is posted to this surface.
    #[error("nothing is posted to this surface")]
    NotHere,
    /// It is not signed by whoever has the secret, or too long ago.
    #[error("the request is not signed by the service, or its time is more than five minutes away")]
    Unsigned,
    /// It is signed, and can't be read.
    #[error("the request can't be read: {0}")]
    Malformed(&'static str),
}

/// Why something did not reach a service. It holds no address and no secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SurfaceError {
    /// It may next time, after this long if the service says so.
    #[error("{why}")]
    Later {
        /// Why not now.
        why: String,
        /// How long the service wants to be left alone.
        after: Option<Duration>,
    },
    /// It never will as it is, for its size or for what is in it; a shorter one may.
    #[error("{why}")]
    Content {
        /// Why not.
        why: String,
    },
    /// It never will.
    #[error("{why}")]
    Never {
        /// Why not.
        why: String,
    },
}

impl SurfaceError {
    pub(crate) fn later(why: impl Into<String>) -> Self {
        Self::Later { why: why.into(), after: None }
    }

    pub(crate) fn content(why: impl Into<String>) -> Self {
        Self::Content { why: why.into() }
    }

    pub(crate) fn never(why: impl Into<String>) -> Self {
        Self::Never { why: why.into() }
    }
}

/// A service at which people are told of questions.
#[async_trait]
pub trait Surface: fmt::Debug + Send + Sync {
    /// Returns its name in the configuration.
    fn name(&self) -> &SurfaceName;

    /// Returns what kind of service it is, for people and for the record.
    fn kind(&self) -> &'static str;

    /// Returns the most that can be answered on it.
    fn ceiling(&self) -> Ceiling;

    /// Returns where people are told there now.
    fn places(&self) -> Cow<'_, [String]>;

    /// Returns whether there is less to tell than it is told at first: where messages hold something of the call.
    fn has_short(&self) -> bool {
        false
    }

    /// Returns how many characters of a question fit into one message, in UTF-16 units; `None` where all do.
    fn room(&self) -> Option<usize>;

    /// Returns what the record says of an answer of this person: who that is for the service, and by what means.
    fn signed(&self, person: &Identity) -> String {
        let who = match person {
            Identity::Telegram(account) => format!("account {account}"),
            Identity::Slack { team, user } => format!("member {team}/{user}"),
            Identity::User(_)
            | Identity::Account { .. }
            | Identity::Vouched(_)
            | Identity::SignedIn { .. } => "somebody".to_owned(),
        };
        format!("{who} of {}, by surface {}", self.kind(), self.name())
    }

    /// Tells a question. Returns what the service calls the message.
    async fn send(&self, message: &Message<'_>) -> Result<String, SurfaceError>;

    /// Takes the answers away from a message, and says how the question ended.
    async fn withdraw(&self, place: &str, reference: &str, outcome: &Outcome) -> Result<(), SurfaceError>;

    /// Says that this works, for `backstop approvals surfaces test`. Returns what the service calls the message.
    async fn test(&self, place: &str) -> Result<String, SurfaceError>;

    /// Returns it as web push, whose devices come and go.
    fn web_push(&self) -> Option<&WebPush> {
        None
    }

    /// Returns whether it has to be asked for answers ([`fetch`](Self::fetch)).
    fn is_fetched(&self) -> bool {
        false
    }

    /// Waits for what people did, and returns it. What was returned before counts as received.
    async fn fetch(&self) -> Result<Vec<Heard>, SurfaceError> {
        std::future::pending().await
    }

    /// Returns whether people are heard over connections that it makes ([`listen`](Self::listen)).
    fn is_listened_to(&self) -> bool {
        false
    }

    /// Hears what people did over connections that it makes, until the ear is told to stop. Several processes may do so at once.
    async fn listen(&self, _ear: Ear) {}

    /// Returns whether a request could be the service's by its headers alone: whoever can't be is refused before the body is read.
    ///
    /// # Errors
    ///
    /// [`Refused`] if nothing is posted to this surface, or the headers are not such that the service signs.
    fn expects(&self, _headers: &HeaderMap, _now: Timestamp) -> Result<(), Refused> {
        Err(Refused::NotHere)
    }

    /// Reads what a service posted. The signature is checked before anything else is looked at.
    fn posted(&self, _posted: &Posted<'_>) -> Result<Vec<Heard>, Refused> {
        Err(Refused::NotHere)
    }

    /// Returns whether what was posted is answered at once and decided afterwards.
    fn is_answered_first(&self) -> bool {
        false
    }

    /// Tells a person what came of what they did.
    async fn reply(&self, _back: &Back, _text: &str) -> Result<(), SurfaceError> {
        Ok(())
    }
}
