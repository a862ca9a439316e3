//! Surfaces: where people are told of questions away from the machine, and where some of them answer.
//!
//! A [`Surface`] is a small adapter for one service: it sends a question, withdraws the message once the question is over, and hears answers.
//! The [`Desk`] does the rest for all of them. Its queue is the store: what waits and was not told is told, by one of the processes that
//! share the questions, and what was told and is over is withdrawn. So a service that is down delays no call, and a restart loses nothing.
//!
//! Laws:
//!
//! - *A button carries nothing but a [handle]*: random characters that stand for one answer of one addressee to one question, count
//!   once for each person, and end with the question. Following a link decides nothing.
//! - *Who pressed is what the service proves, and not what a message says.* A person counts if the operator mapped the identity that the
//!   service vouches for. Names that people choose for themselves count for nothing.
//! - *What a surface proves is its ceiling* ([`Ceiling`]): one that names nobody takes no answer. The operator may lower it.
//! - *What was shown is what is answered.* The handle is bound to the digest of the call. What does not fit is named, and can then only be denied.
//! - *Answers count by the rules of `backstop approvals`*: the first one counts, and where answers are kept apart from the database
//!   (`agent.approvals.strict`) none is taken here.
//! - *No secret is shown*: tokens are in no log, error or `Debug` output, and addresses that hold one are not either.
//! - *Everything is bounded*: bodies, texts, messages in a time, connections, and what waits.
//!
//! Limits: a message whose sending broke off may be sent again. Whoever can write the database can write handles, as they can write answers:
//! `strict` is against that.

mod asking;
mod backoff;
mod callback;
pub mod command;
mod counts;
mod desk;
mod email;
pub mod handle;
mod ntfy;
mod push;
mod quiet;
mod shown;
pub mod signature;
mod slack;
mod surface;
mod telegram;
mod webhook;

pub use asking::Egress;
pub use backstop_http_client::tls::Trust;
pub use callback::{Callback, CallbackSettings};
pub use counts::{Became, Came, Counts};
pub use desk::{Answered, Desk, Ear, Given, Holder, Running, Stands};
pub use email::{Email, EmailSettings, Encryption};
pub use ntfy::Ntfy;
pub use push::devices::{Added, DeviceError, NewDevice};
pub use push::{BadEndpoint, WebPush, WebPushSettings};
pub use quiet::QuietHours;
pub use shown::{Shown, shown};
pub use slack::{Pace, Slack, SlackAnswers, SlackSettings};
pub use surface::{
    AnsweredOn, Asks, Back, Ceiling, Heard, Message, Offer, Outcome, Posted, Refused, Surface, SurfaceError,
    SurfaceName,
};
pub use telegram::Telegram;
pub use webhook::{Webhook, WebhookSettings};

/// Where Telegram is, unless the operator runs a server for bots.
pub const TELEGRAM_API: &str = telegram::API;
/// Where Slack is.
pub const SLACK_API: &str = slack::API;
