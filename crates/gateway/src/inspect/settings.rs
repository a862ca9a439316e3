//! What the operator chose about judged traffic.

use std::time::Duration;

use backstop_hooks::Sight;

pub use backstop_engine::Unasked;

/// How `before_response_emit` meets a streamed answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextMode {
    /// Text leaves as soon as the span redactors have settled it. Possible where nobody else stands there.
    Window,
    /// No text leaves before the whole answer was judged.
    Hold,
    /// Text leaves as it comes; hooks see the answer afterwards and can't change it any more.
    Pass,
}

/// What a client is told when something was stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockedForm {
    /// A valid answer of its wire that says so.
    #[default]
    Answer,
    /// HTTP 403 in the provider's error shape; where bytes of the answer have left already, the wire's error
    /// event.
    Error,
}

/// What is done about the tool calls of answers, besides `after_llm_call`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolCalls {
    /// They pass the gates of tool calls too, and what those stop is taken out of the answer.
    Judge(Unasked),
    /// Nothing: the program that runs the tools takes them through the gates itself. What the provider runs passes them all the
    /// same, where it is offered and where a client approves it.
    Leave,
}

impl ToolCalls {
    /// What becomes of a tool about which a human would be asked, where the provider runs it: no program on this side would ask
    /// later, so a question that is not waited for is filed.
    pub(crate) fn unasked_of_provider(self) -> Unasked {
        match self {
            Self::Judge(Unasked::Wait) => Unasked::Wait,
            Self::Judge(Unasked::Deny | Unasked::Leave) | Self::Leave => Unasked::Deny,
        }
    }
}

impl Default for ToolCalls {
    /// What would have to be asked is taken out, and the question filed.
    fn default() -> Self {
        Self::Judge(Unasked::Deny)
    }
}

/// What is done with sound, and pictures as they are made, in a session in which hooks decide: nobody can judge them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnjudgedMedia {
    /// They pass in neither direction.
    #[default]
    Refuse,
    /// They pass unread. What the provider writes of them is judged, after they have left.
    Pass,
}

/// How traffic is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookSettings {
    /// How text leaves; `None` for [`Window`](TextMode::Window) where it is possible and
    /// [`Hold`](TextMode::Hold) where it is not.
    pub text: Option<TextMode>,
    /// What a client is told when something was stopped.
    pub blocked: BlockedForm,
    /// What is done about tool calls.
    pub tool_calls: ToolCalls,
    /// How often, within one answer, a model is told that all its calls were refused, and goes on; the answer ends then. 0:
    /// it ends at once, and says what was withheld.
    pub refusals: u32,
    /// After how much silence a client whose answer is held is told to be patient.
    pub keep_alive: Duration,
    /// The most bytes of the arguments of one tool call; a call that has more is removed.
    pub call_bytes: usize,
    /// The most bytes of an answer that are held at once; an answer that needs more is ended as an error. So is one
    /// that has 16 times as many bytes in all, since what it said is remembered.
    pub answer_bytes: usize,
    /// How many tokens an answer of a batch is reckoned to have where its request sets no limit, so that a budget reserves as many
    /// for each of the answers that it asks for.
    pub answer_tokens: u64,
    /// Whether clients may name the user on whose behalf they ask, so that budgets count by user. Only for
    /// clients that would not lie about it.
    pub trust_user: bool,
    /// What is done with what nobody can judge.
    pub unjudged_media: UnjudgedMedia,
    /// The program for which the gateway was started, where it was started for one and has a token of its own: people are told it with each
    /// question. INVARIANT (whoever asks does not say who asks): it is what whoever started both knows, and never what a request says.
    pub client: Option<&'static str>,
    /// How the disk around calls of tools is seen: as this process sees it, if nothing else is said. Where clients may be on other machines,
    /// [`SharedFolders::proxied`](crate::SharedFolders::proxied).
    pub sight: Sight,
}

impl Default for HookSettings {
    /// An answer goes on after two refusals; a patience of 10 s, 1 MiB for a call, 16 MiB for an answer, 1000 tokens for one of a batch; what nobody can judge
    /// does not pass.
    fn default() -> Self {
        Self {
            text: None,
            blocked: BlockedForm::default(),
            tool_calls: ToolCalls::default(),
            refusals: 2,
            keep_alive: Duration::from_secs(10),
            call_bytes: 1 << 20,
            answer_bytes: 16 << 20,
            answer_tokens: 1_000,
            trust_user: false,
            unjudged_media: UnjudgedMedia::default(),
            client: None,
            sight: Sight::default(),
        }
    }
}
