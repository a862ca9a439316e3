//! The pages of the console, on which a person sees what agents do and answers what they ask.
//!
//! Each page is a function of what is known and of who looks, and returns HTML. Nothing here reads a store, a clock, a socket or a cookie;
//! the gateway does, and it decides who may see and do what.
//!
//! The laws:
//!
//! - *What is shown is what is there.* Whatever models, tools and clients wrote stands on a page as [plain](plain()) text: markup in it is
//!   escaped, and what nobody sees, or what reorders what is read, is spelled out.
//! - *The page works without its script.* Links lead everywhere, and forms decide. The script adds keys, what comes in meanwhile, and clocks.
//! - *Looking decides nothing.* What changes anything is a form that is posted, with the [token](Viewer::form_token) of the session in it and the digest
//!   of the call that was shown.
//! - *Nothing comes from elsewhere*, and nothing is inline: one style sheet, one script ([`assets`]), under a policy that allows no other.

mod approvals;
pub mod assets;
mod audit;
mod chat;
mod checkpoints;
mod compare;
mod conversation;
mod exceptions;
mod facts;
mod live;
mod money;
mod page;
mod policy;
mod provider;
mod question;
mod recent;
mod sessions;
mod shown;
mod sign_in;
mod substitutes;
mod trial;

pub use self::approvals::{Queue, is_alike, queue, queue_part};
pub use self::audit::{Audit, Search, TrailState, audit};
pub use self::chat::{
    ChatAgent, ChatDesk, ChatLine, ChatOpen, ChatPage, ChatSeen, ChatTool, ChatWaiting, ToolState, chat,
    chat_part, chats,
};
pub use self::checkpoints::{Signed, WitnessState};
pub use self::conversation::{Conversation, conversation};
pub use self::exceptions::Exception;
pub use self::live::{Decision, LiveRow, live};
pub use self::money::{BudgetLine, Money, Spender, Unit, Used, money};
pub use self::page::{Role, Viewer, message};
pub use self::policy::{Counts, HookUse, Policy, RuleUse, policy};
pub use self::provider::{IdentityProvider, lead_on, led_back, not_signed_in};
pub use self::question::{Question, Told, question, question_state};
pub use self::recent::{Recent, SPAN};
pub use self::sessions::{SeenSession, Sessions, sessions};
pub use self::shown::{one_line, plain};
pub use self::sign_in::{NotSignedIn, SignIn, hand_over, sign_in};
pub use self::trial::{TextProblem, Trial, Tried, Typed, trial};

/// Where the pages are.
pub const ROOT: &str = "/-/console";
