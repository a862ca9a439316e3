//! Conversations with the own agent: what was said, what it does, and what waits for a person.

use backstop_hooks::ApprovalId;
use maud::{Markup, html};

use crate::page::{Place, Role, Viewer, form_token, page};
use crate::sessions::encoded;
use crate::shown::{bytes_more, one_line, plain};

/// One thing that is shown of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatLine {
    /// What the person said, or its beginning, and how many bytes more it is.
    Person(String, usize),
    /// What the agent says.
    Agent(String, usize),
    /// What the model was thinking, where that is shown.
    Reasoning(String, usize),
    /// A call of a tool.
    Tool(ChatTool),
    /// A line about the work of hooks.
    Note(String),
    /// How a run ended, where it did not with an answer.
    Ended(String),
}

/// A call of a tool, and what was decided on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatTool {
    /// The id of the call.
    pub call: String,
    /// The name of the tool.
    pub tool: String,
    /// What it works on, shortened; empty for a call that did not run.
    pub about: String,
    /// Where it stands.
    pub state: ToolState,
    /// What was decided, and by whom; empty where hooks had nothing to say.
    pub decided: String,
    /// The question about it, if one was put.
    pub question: Option<ApprovalId>,
}

/// Where a call of a tool stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolState {
    /// Hooks judge it, or a person is asked.
    Judged,
    /// It runs.
    Runs,
    /// It ran.
    Ran,
    /// It ran, and failed.
    Failed,
    /// A person gave its result.
    Answered,
    /// It was denied.
    Denied,
    /// The run was over before it was.
    Stopped,
}

impl ToolState {
    /// The class of its badge, and its word.
    const fn shown(self) -> (&'static str, &'static str) {
        match self {
            Self::Judged => ("info", "being judged"),
            Self::Runs => ("info", "runs"),
            Self::Ran => ("good", "ran"),
            Self::Failed => ("warning", "failed"),
            Self::Answered => ("good", "answered"),
            Self::Denied => ("critical", "denied"),
            Self::Stopped => ("warning", "stopped"),
        }
    }
}

/// A question about a call of a conversation that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatWaiting {
    /// The question.
    pub id: ApprovalId,
    /// Its title.
    pub title: String,
    /// The id of the call.
    pub call: String,
}

/// The agent that people talk with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatAgent {
    /// The provider of its model.
    pub provider: String,
    /// Its model.
    pub model: String,
    /// The folder that it works in.
    pub workspace: String,
}

/// A conversation that is open here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatOpen {
    /// The id of its session.
    pub id: String,
    /// How it begins.
    pub begins: String,
    /// Whether the agent works.
    pub is_running: bool,
}

/// Whether people can talk with the agent.
#[derive(Debug)]
pub enum ChatDesk<'a> {
    /// It is not switched on.
    Off,
    /// It is, and this is missing.
    Missing(&'a str),
    /// They can.
    Open {
        /// With whom.
        agent: &'a ChatAgent,
        /// The conversations of whoever looks.
        own: &'a [ChatOpen],
    },
}

/// A conversation.
#[derive(Debug)]
pub struct ChatPage<'a> {
    /// The id of its session.
    pub id: &'a str,
    /// What is shown of it; `None` where it is not open here any more.
    pub seen: Option<&'a ChatSeen>,
    /// The questions of its agent that wait.
    pub waiting: &'a [ChatWaiting],
    /// Whether there are more questions than were looked at, so that more of these may be of this conversation.
    pub is_cut: bool,
    /// What was typed and not taken, so that nobody types it again.
    pub kept: &'a str,
    /// The most bytes of a message.
    pub most: usize,
}

/// What is shown of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatSeen {
    /// The latest lines.
    pub lines: Vec<ChatLine>,
    /// How many lines there were before them.
    pub left_out: usize,
    /// Whether the agent works.
    pub is_running: bool,
}

/// The page on which conversations begin. `told` is why something was not done.
pub fn chats(viewer: &Viewer, desk: &ChatDesk<'_>, told: Option<&str>) -> String {
    let content = html! {
        h1 { "Chat" }
        @if let Some(told) = told { p.alert role="alert" { (plain(told)) } }
        @match desk {
            ChatDesk::Off => {
                p { "Nobody talks with the agent here. Whoever runs this server switches it on with " code { "gateway: {console: {chat: true}}" } " in the operator's file: a person with the scope " code { "admin" } " then has the agent use its tools with the rights of the server's account." }
            },
            ChatDesk::Missing(why) => {
                p { "The agent can't be talked with: " (plain(why)) }
                p { "It is configured by " code { "agent" } " (" code { "provider" } ", " code { "model" } ", " code { "workspace" } ") and " code { "providers" } ", as for " code { "backstop agent" } "." }
            },
            ChatDesk::Open { agent, own } => {
                p { "You talk with the agent that " code { "backstop agent" } " runs. Its calls are judged by the hooks in force and run with the rights of the server's account; you are who asked for them." }
                dl.facts {
                    div { dt { "model" } dd { (one_line(&agent.model, 120)) " of " (one_line(&agent.provider, 80)) } }
                    div { dt { "workspace" } dd { code.exact { (one_line(&agent.workspace, 300)) } } }
                }
                form.tools method="post" action="/-/console/chat" {
                    (form_token(viewer))
                    button.primary type="submit" { "Begin a conversation" }
                }
                @if !own.is_empty() {
                    section aria-labelledby="own-title" {
                        h2 #own-title { "Yours" }
                        ul.rows { @for one in *own {
                            li.row { div {
                                p.first { a href={ "/-/console/chat/" (encoded(&one.id)) } { (one_line(&one.begins, 120)) } }
                                p.meta { span { @if one.is_running { "works" } @else { "waits for you" } } code { (one_line(&one.id, 60)) } }
                            } }
                        } }
                    }
                }
            }
        }
    };
    page(viewer, Place::Chat, "Chat", None, content)
}

/// The page of a conversation.
pub fn chat(viewer: &Viewer, of: &ChatPage<'_>, told: Option<&str>) -> String {
    let address = format!("/-/console/chat/{}", encoded(of.id));
    let content = html! {
        h1 { "Chat" }
        p { a href="/-/console/chat" { "All of yours" } " " a href={ "/-/console/sessions/one?id=" (encoded(of.id)) } { "Its session: what was judged, and all that was said" } }
        @if let Some(told) = told { p.alert role="alert" { (plain(told)) } }
        @if of.seen.is_none() {
            p.note { "This conversation is not open here: the server was started anew, or the conversation was left. What was said is kept in its session." }
            form.tools method="post" action={ (address) "/go-on" } {
                (form_token(viewer))
                button.primary type="submit" { "Go on with it" }
            }
        } @else {
            div #chat data-part={ (address) "/part" } { (chat_part(of)) }
            form.fields method="post" action={ (address) "/say" } {
                (form_token(viewer))
                label for="message" { "Message" }
                textarea #message name="message" rows="4" maxlength=(of.most) required spellcheck="true" { (of.kept) }
                button.primary type="submit" { "Send" }
            }
            div.tools {
                form method="post" action={ (address) "/stop" } { (form_token(viewer)) button type="submit" { "Stop the agent" } }
                form method="post" action={ (address) "/leave" } { (form_token(viewer)) button type="submit" { "Leave the conversation" } }
            }
        }
    };
    let events = of.seen.map(|_| format!("/-/console/events?chat={}", encoded(of.id)));
    page(viewer, Place::Chat, "Chat", events.as_deref(), content)
}

/// What of a conversation comes in while a page is open.
pub fn chat_part(of: &ChatPage<'_>) -> Markup {
    let Some(seen) = of.seen else {
        return html! { p.note { "This conversation is not open here any more. " a href={ "/-/console/chat/" (encoded(of.id)) } { "Load the page anew" } "." } };
    };
    html! {
        @if seen.left_out > 0 { p.quiet { (seen.left_out) " earlier lines are not shown here; the session has what was said." } }
        ol.talk { @for one in &seen.lines { (line(one, of.waiting)) } }
        @for one in of.waiting {
            p.note { "A call waits for an answer: " (question(&one.id, &one.title)) }
        }
        @if of.is_cut { p.note { "More questions wait than were looked at here. If one of them is of this conversation, it is among " a href="/-/console/approvals" { "all of them" } "." } }
        p #chat-state .quiet role="status" {
            @if !of.waiting.is_empty() { "The agent waits for an answer." }
            @else if seen.is_running { "The agent works." }
            @else { "The agent waits for you." }
        }
    }
}

fn line(line: &ChatLine, waiting: &[ChatWaiting]) -> Markup {
    html! {
        @match line {
            ChatLine::Person(text, more) => li.mine { (said("You", text, *more)) },
            ChatLine::Agent(text, more) => li.agents { (said("Agent", text, *more)) },
            ChatLine::Reasoning(text, more) => li.agents { details { summary { "Reasoning" } (said("Agent's reasoning", text, *more)) } },
            ChatLine::Tool(call) => li.call { (tool(call, waiting)) },
            ChatLine::Note(text) => li.quiet { (one_line(text, 400)) },
            ChatLine::Ended(text) => li.bad { (plain(text)) },
        }
    }
}

fn tool(call: &ChatTool, waiting: &[ChatWaiting]) -> Markup {
    let asked = waiting.iter().find(|one| call.state == ToolState::Judged && one.call == call.call);
    let (class, word) = match asked {
        Some(_) => ("warning", "waits for an answer"),
        None => call.state.shown(),
    };
    html! {
        span class={ "badge " (class) } { (word) }
        " " code { (one_line(&call.tool, 80)) }
        @if !call.about.is_empty() { " " span.quiet { (one_line(&call.about, 200)) } }
        @if !call.decided.is_empty() { p.decided { (one_line(&call.decided, 600)) } }
        @if let Some(id) = asked.map(|one| &one.id).or(call.question.as_ref()) { p { (question(id, "its question")) } }
    }
}

fn question(id: &ApprovalId, title: &str) -> Markup {
    html! { a href={ "/-/console/approvals/" (encoded(id.as_str())) } { (one_line(title, 120)) } }
}

fn said(who: &str, text: &str, more: usize) -> Markup {
    html! {
        p.quiet { (who) }
        pre.exact tabindex="0" role="group" aria-label={ (who) " said" } { (plain(text)) }
        @if more > 0 { p.quiet { (bytes_more(more)) } }
    }
}

/// Whether a person is led there.
pub(crate) fn is_for(viewer: &Viewer) -> bool {
    viewer.role == Role::Admin
}
