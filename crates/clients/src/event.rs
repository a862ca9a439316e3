//! Events: what a client reports, in our words.
//!
//! A [`ClientEvent`] has a [`Frame`], which says who speaks, in which session and on behalf of which
//! sub-agent, and a [`Moment`], which says what is happening. Names of events differ per client; moments
//! don't.

use std::time::Instant;

use backstop_hooks::{
    AgentId, CallContext, FrontEnd, RunId, SessionId, SessionKey, Sight, Text, Trace, Trigger,
};

use crate::client::Client;
use crate::tools::{ToolOutput, ToolUse};

/// What a client reported.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientEvent {
    /// Who, where, for whom.
    pub frame: Frame,
    /// What is happening.
    pub moment: Moment,
}

/// Who speaks, in which session, on behalf of whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub(crate) client: Client,
    pub(crate) event: String,
    pub(crate) session: Option<SessionId>,
    pub(crate) run: Option<RunId>,
    pub(crate) folder: Option<String>,
    pub(crate) sub_agent: Option<SubAgent>,
    pub(crate) mode: Option<String>,
    pub(crate) speech: Speech,
    pub(crate) attended: Attended,
    pub(crate) sight: Sight,
    pub(crate) trace: Option<Trace>,
    pub(crate) answer_by: Option<Instant>,
}

/// In whose words a client's entry was spoken to, and is to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speech {
    /// In the client's.
    Own,
    /// In those of VS Code, which starts entries of other clients.
    VsCode,
}

/// Whether a person sits at a client and would see its question.
///
/// Where nobody does, a client denies what it is told to ask about, waits for ever, or, in a mode in which it asks
/// nothing, runs the tool. So a question is left to a client only where it is known that somebody attends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attended {
    /// The client does not say.
    #[default]
    Unsaid,
    /// It says that a person does, or the operator says it in its place.
    Yes,
    /// It says that nobody does.
    No,
}

impl Attended {
    /// What the environment of a client's hooks says. Claude Code alone was found to say anything.
    pub fn by(client: Client, environment: &dyn Fn(&str) -> Option<String>) -> Self {
        if client != Client::Claude {
            return Self::Unsaid;
        }
        // With `-p` and below an SDK nobody sees a question.
        let entry = environment("CLAUDE_CODE_ENTRYPOINT").unwrap_or_default();
        match environment("CLAUDE_CODE_SESSION_ATTENDED").as_deref() {
            Some("1") if !entry.starts_with("sdk") => Self::Yes,
            Some(_) => Self::No,
            None if entry.starts_with("sdk") => Self::No,
            None => Self::Unsaid,
        }
    }
}

/// A sub-agent, as its client names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubAgent {
    /// Its id.
    pub id: String,
    /// What kind of agent it is.
    pub kind: Option<String>,
    /// The agent that started it, where the client says it.
    pub parent: Option<String>,
}

/// What is happening.
#[derive(Clone, Debug, PartialEq)]
pub enum Moment {
    /// A tool is about to run, and waits for our word.
    ToolCall(ToolUse),
    /// The client is about to ask its user whether a tool may run.
    Permission(ToolUse),
    /// A tool has run or failed.
    ToolResult(ToolOutput),
    /// A user's message is about to go to the model.
    Prompt(Text),
    /// The agent wants to end its turn.
    Stop(Stop),
    /// A session begins.
    SessionStart {
        /// It goes on from an earlier one.
        resumed: bool,
    },
    /// A session is over.
    SessionEnd {
        /// Why, in the client's words.
        reason: Option<String>,
    },
    /// The conversation is about to be summed up.
    BeforeCompaction,
    /// The conversation was summed up.
    AfterCompaction,
    /// A sub-agent begins.
    SubAgentStart,
    /// A sub-agent is done.
    SubAgentStop(Stop),
    /// Something that no hook point is about.
    Other,
}

/// A moment without its facts: what a client may report at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MomentKind {
    /// A tool is about to run, or its permission is about to be asked for.
    ToolCall,
    /// A tool has run or failed.
    ToolResult,
    /// A user's message is about to go to the model.
    Prompt,
    /// The agent wants to end its turn.
    Stop,
    /// A session begins.
    SessionStart,
    /// A session is over.
    SessionEnd,
    /// The conversation is about to be summed up.
    BeforeCompaction,
    /// The conversation was summed up.
    AfterCompaction,
    /// A sub-agent begins.
    SubAgentStart,
    /// A sub-agent is done.
    SubAgentStop,
}

/// The end of a turn, as an agent proposes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stop {
    /// A hook has sent the agent on already, in this turn.
    pub again: bool,
    /// What the agent said last.
    pub last_message: Option<Text>,
}

impl ClientEvent {
    /// The event with the disk around it seen through these eyes, for a judge of another user.
    #[must_use]
    pub fn seen_through(mut self, sight: Sight) -> Self {
        self.frame.sight = sight;
        self
    }

    /// The event as it is judged in this span.
    #[must_use]
    pub fn in_trace(mut self, trace: Trace) -> Self {
        self.frame.trace = Some(trace);
        self
    }

    /// The event of a client that waits for the answer until then.
    #[must_use]
    pub fn answer_by(mut self, end: Instant) -> Self {
        self.frame.answer_by = Some(end);
        self
    }

    /// The event of a client of which this is known.
    #[must_use]
    pub fn attended(mut self, attended: Attended) -> Self {
        self.frame.attended = attended;
        self
    }

    /// The event, where the operator says that a person attends clients that do not say so themselves.
    #[must_use]
    pub fn attended_unless_said(mut self) -> Self {
        if self.frame.attended == Attended::Unsaid {
            self.frame.attended = Attended::Yes;
        }
        self
    }

    /// The event of a hook that was started in `folder`, an absolute path.
    ///
    /// For a client whose agent chooses the folder that a payload names ([`Facts::names_the_calls_folder`]): what
    /// the hook was started in is the session's folder, and the other one belongs to the call. Otherwise an agent
    /// would choose which repository's rules hold for its call, and which folder counts as its own.
    ///
    /// [`Facts::names_the_calls_folder`]: crate::Facts::names_the_calls_folder
    #[must_use]
    pub fn started_in(mut self, folder: &str) -> Self {
        if !self.frame.client.facts().names_the_calls_folder {
            return self;
        }
        let named = self.frame.folder.replace(folder.to_owned()).filter(|named| named != folder);
        let call = match &mut self.moment {
            Moment::ToolCall(call) | Moment::Permission(call) => Some(call),
            Moment::ToolResult(output) => Some(&mut output.call),
            _ => None,
        };
        if let (Some(call), Some(named)) = (call, named) {
            call.run_in(&named);
        }
        self
    }
}

impl Frame {
    pub(crate) fn new(client: Client, event: &str) -> Self {
        Self {
            client,
            event: event.to_owned(),
            session: None,
            run: None,
            folder: None,
            sub_agent: None,
            mode: None,
            speech: Speech::Own,
            attended: Attended::Unsaid,
            sight: Sight::default(),
            trace: None,
            answer_by: None,
        }
    }

    /// The client.
    pub fn client(&self) -> Client {
        self.client
    }

    /// The event, as the client spells it.
    pub fn event(&self) -> &str {
        &self.event
    }

    /// The client's session.
    pub fn session(&self) -> Option<&SessionId> {
        self.session.as_ref()
    }

    /// The turn, where the client names it.
    pub fn run(&self) -> Option<&RunId> {
        self.run.as_ref()
    }

    /// The folder in which the client works.
    pub fn folder(&self) -> Option<&str> {
        self.folder.as_deref()
    }

    /// The sub-agent that acts, if one does.
    pub fn sub_agent(&self) -> Option<&SubAgent> {
        self.sub_agent.as_ref()
    }

    /// The client's permission mode, in its own words.
    pub fn mode(&self) -> Option<&str> {
        self.mode.as_deref()
    }

    /// The name of the conversation: client and session, and the sub-agent's id for what a sub-agent does,
    /// so that a child's calls can be told from its parent's and still be found below it.
    pub fn session_key(&self) -> Option<SessionKey> {
        let session = self.session.as_ref()?;
        let client = self.client.name();
        Some(match &self.sub_agent {
            Some(child) => format!("{client}:{session}:{}", child.id).into(),
            None => format!("{client}:{session}").into(),
        })
    }

    /// The facts that hooks are given beside each event. The agent is the client by its name.
    pub fn call_context(&self) -> CallContext {
        CallContext {
            agent_id: Some(AgentId::new(self.client.name())),
            session_key: self.session_key(),
            session_id: self.session.clone(),
            run_id: self.run.clone(),
            trigger: Some(if self.sub_agent.is_some() { Trigger::Agent } else { Trigger::User }),
            workspace_dir: self.folder.clone(),
            sight: self.sight.clone(),
            trace: self.trace,
            answer_by: self.answer_by,
            front_end: FrontEnd { host: Some("hooks"), client: Some(self.client.name()) },
            ..CallContext::default()
        }
    }
}
