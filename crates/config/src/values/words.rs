//! Words from a list: `true` and `false`, and one enum for each key that takes one of a few words.
//!
//! A word that is not in the list is a problem that names all of them, and the nearest one. If a repository's file can
//! only tighten such a key, the order of the variants is the order of strictness.

use backstop_hooks::FailurePolicy;
use serde_json::{Value, json};

use crate::config_value::ConfigValue;
use crate::problem::{Problem, ProblemKind, nearest, quoted_list};
use crate::reader::Reader;
use backstop_yaml::{Kind, Node};

impl ConfigValue for bool {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        match node.kind {
            Kind::Bool(value) => Some(value),
            _ => cx.expected(node, "`true` or `false`"),
        }
    }

    fn schema() -> Value {
        json!({ "type": "boolean" })
    }

    fn show(&self) -> Value {
        Value::Bool(*self)
    }
}

/// Declares an enum of words. The order of the variants is the order of strictness where a [`crate::rules`] rule
/// compares them.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $( $(#[doc = $doc:literal])* $variant:ident = $word:literal, )* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $( $(#[doc = $doc])* $variant, )* }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the word in the file.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl ConfigValue for $name {
            fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
                let words = [$($word),*];
                let found = match &node.kind {
                    Kind::Text(text) => Self::ALL.iter().copied().find(|known| known.name() == text),
                    _ => None,
                };
                if found.is_some() {
                    return found;
                }
                word_expected(node, &words, cx);
                None
            }

            fn schema() -> Value {
                json!({ "type": "string", "enum": [$($word),*] })
            }

            fn show(&self) -> Value {
                Value::from(self.name())
            }
        }
    };
}

fn word_expected(node: &Node, words: &[&str], cx: &mut Reader<'_>) {
    let message = format!(
        "{} must be one of {}, found {}",
        cx.subject(),
        quoted_list(words.iter().copied()),
        node.describe()
    );
    let mut problem = Problem::new(ProblemKind::BadValue, node.at.clone(), message);
    if let Kind::Text(text) = &node.kind
        && let Some(word) = nearest(text, words.iter().copied())
    {
        problem = problem.with_hint(format!("did you mean `{word}`?"));
    }
    cx.report(problem);
}

choice! {
    /// What a failed hook (a panic, a timeout, no connection, a malformed answer) means for the call.
    pub enum OnFailure {
        /// The call goes on, marked in its receipt.
        Allow = "allow",
        /// The call is blocked.
        Block = "block",
    }
}

choice! {
    /// The most that can be answered on a surface.
    pub enum SurfaceAnswers {
        /// Nothing: it tells people, who answer on the console.
        None = "none",
        /// Denials.
        Deny = "deny",
        /// Denials, and allowing one call once.
        Once = "once",
    }
}

choice! {
    /// How grave a question is, at least, that people are told of in quiet hours.
    pub enum QuietUnless {
        /// It may do harm.
        Warning = "warning",
        /// It does harm if it is wrong.
        Critical = "critical",
        /// None is told.
        Never = "never",
    }
}

choice! {
    /// How a connection to a mail server is encrypted.
    pub enum MailEncryption {
        /// From the beginning.
        Tls = "tls",
        /// By `STARTTLS`, and not at all otherwise.
        StartTls = "starttls",
        /// Not at all: for a server on this machine.
        None = "none",
    }
}

choice! {
    /// A signature algorithm of signed tokens, by its name in them.
    pub enum IssuerAlgorithm {
        /// RSASSA-PKCS1-v1_5 with SHA-256.
        Rs256 = "RS256",
        /// RSASSA-PSS with SHA-256.
        Ps256 = "PS256",
        /// ECDSA on P-256.
        Es256 = "ES256",
        /// ECDSA on P-384.
        Es384 = "ES384",
        /// Ed25519.
        EdDsa = "EdDSA",
    }
}

choice! {
    /// By which claim of an identity provider a person is known.
    pub enum PersonClaim {
        /// The address, where the provider says that it is this person's (`email_verified`).
        Email = "email",
        /// The name that the provider gives nobody else, ever.
        Sub = "sub",
    }
}

choice! {
    /// What a person may do at the console.
    pub enum ConsoleScope {
        /// See what there is.
        Read = "read",
        /// Answer questions, and revoke grants.
        Approve = "approve",
        /// Administer.
        Admin = "admin",
    }
}

choice! {
    /// What a hook is that is not in this process.
    pub enum Outside {
        /// A program that is started for each event.
        Command = "command",
        /// A program that is started once and stays.
        Process = "process",
        /// A server.
        Http = "http",
    }
}

choice! {
    /// In whose words a program is spoken to that is started for each event.
    pub enum CommandDialect {
        /// Backstop's own.
        Backstop = "backstop",
        /// Those of Claude Code's hooks.
        Claude = "claude",
    }
}

choice! {
    /// What becomes of a hook's rewrite to which a hook that stands before it objects.
    pub enum RewriteChoice {
        /// The call is blocked: the rewrite is what makes the value acceptable to the hook.
        Required = "required",
        /// The rewrite is dropped, and the receipt says so.
        Optional = "optional",
    }
}

choice! {
    /// Whether what a hook answers counts. Strictness grows in this order.
    pub enum HookMode {
        /// It changes nothing: the receipt says what the hook would have done.
        Shadow = "shadow",
        /// It does.
        Enforce = "enforce",
    }
}

choice! {
    /// How much the command guard stops.
    pub enum Profile {
        /// Only what cannot be undone.
        Core = "core",
        /// The default.
        Standard = "standard",
        /// Also what is merely risky.
        Strict = "strict",
    }
}

choice! {
    /// What happens to a command whose effect cannot be decided.
    pub enum Unknown {
        /// It runs.
        Pass = "pass",
        /// A human is asked.
        Ask = "ask",
        /// It is blocked.
        Block = "block",
    }
}

choice! {
    /// What becomes of a secret or of personal data. Strictness grows from `off` to `block`: with what gives less of the
    /// value away.
    pub enum SpanAction {
        /// It is not looked for.
        Off = "off",
        /// It stays, and is reported.
        Report = "report",
        /// A placeholder stands in its place, which tools in `restore_in` can be given the value of.
        Placeholder = "placeholder",
        /// All but its last four characters is replaced by `*`.
        Mask = "mask",
        /// A keyed digest stands in its place, the same for the same value.
        Hash = "hash",
        /// Its kind stands in its place.
        Redact = "redact",
        /// What holds it does not pass.
        Block = "block",
    }
}

choice! {
    /// What becomes of a call whose arguments hold a secret, personal data or hidden text. Strictness grows from `off` to `block`.
    pub enum ArgumentAction {
        /// They are not looked at.
        Off = "off",
        /// It runs, and what was found is reported.
        Report = "report",
        /// A human is asked first.
        Ask = "ask",
        /// It does not run.
        Block = "block",
    }
}

choice! {
    /// What becomes of hidden text. Strictness grows from `off` to `block`.
    pub enum HiddenAction {
        /// It is not looked for.
        Off = "off",
        /// It stays, and is reported.
        Report = "report",
        /// It is taken out.
        Strip = "strip",
        /// What holds it does not pass.
        Block = "block",
    }
}

choice! {
    /// The wire format that a provider speaks.
    pub enum Api {
        /// Anthropic Messages.
        Anthropic = "anthropic",
        /// OpenAI Chat Completions and whatever is compatible with it.
        OpenaiChat = "openai-chat",
        /// OpenAI Responses.
        OpenaiResponses = "openai-responses",
        /// Google's Gemini API.
        Gemini = "gemini",
    }
}

choice! {
    /// A cloud that hosts models of others, in addresses and envelopes of its own.
    pub enum CloudName {
        /// Azure OpenAI.
        Azure = "azure",
        /// Amazon Bedrock.
        Bedrock = "bedrock",
        /// Vertex AI.
        Vertex = "vertex",
    }
}

choice! {
    /// Where the credentials are by which requests to Amazon are signed.
    pub enum AwsSource {
        /// In `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and, if they are only lent, `AWS_SESSION_TOKEN`.
        Environment = "environment",
    }
}

choice! {
    /// Where access tokens of Google's come from.
    pub enum GoogleSource {
        /// The file that `GOOGLE_APPLICATION_CREDENTIALS` of the gateway's environment names, else the one that
        /// `gcloud auth application-default login` writes.
        ApplicationDefault = "application-default",
        /// The metadata server of the machine in Google's cloud on which the gateway runs.
        Metadata = "metadata",
    }
}

choice! {
    /// How long the model may think before it answers.
    pub enum Thinking {
        /// Not at all.
        Off = "off",
        /// Briefly.
        Low = "low",
        /// Moderately.
        Medium = "medium",
        /// As long as it takes.
        High = "high",
    }
}

choice! {
    /// Where questions about what is critical are answered.
    pub enum CriticalAt {
        /// In another terminal than the agent's own.
        Elsewhere = "elsewhere",
        /// On the agent's own terminal as well.
        Here = "here",
    }
}

choice! {
    /// Who may not answer a question, although a route asks them.
    pub enum Barred {
        /// Nobody.
        Nobody = "nobody",
        /// The person who asked for the call.
        Requester = "requester",
    }
}

choice! {
    /// How grave the thing is that is asked about.
    pub enum AskedSeverity {
        /// Worth a look.
        Info = "info",
        /// May do harm.
        Warning = "warning",
        /// Does harm if it is wrong.
        Critical = "critical",
    }
}

choice! {
    /// What a person can answer.
    pub enum AnswerWord {
        /// This call, once.
        AllowOnce = "allow-once",
        /// This call and its like, from now on.
        AllowAlways = "allow-always",
        /// No.
        Deny = "deny",
        /// Other arguments for the same tool, where whoever asks can take them.
        Edit = "edit",
        /// The result, without running the tool, where whoever asks can take it.
        Respond = "respond",
    }
}

choice! {
    /// How much of the hooks' work the agent reports.
    pub enum Verbose {
        /// Nothing.
        Off = "off",
        /// What hooks blocked or changed.
        On = "on",
        /// Every hook that ran.
        Full = "full",
    }
}

choice! {
    /// After what time a budget begins anew. All of them are in UTC.
    pub enum BudgetWindow {
        /// At each full hour.
        Hour = "hour",
        /// At midnight.
        Day = "day",
        /// At the first of a month.
        Month = "month",
        /// Never.
        Total = "total",
    }
}

choice! {
    /// What a budget is counted apart by.
    pub enum BudgetPer {
        /// Each agent has one of its own.
        Agent = "agent",
        /// Each model has.
        Model = "model",
        /// Each user has.
        User = "user",
    }
}

choice! {
    /// What happens to a call that was repeated too often.
    pub enum LoopAction {
        /// A human is asked.
        Ask = "ask",
        /// It is blocked.
        Block = "block",
    }
}

choice! {
    /// How text leaves that hooks at `before_response_emit` judge.
    pub enum LiveText {
        /// As it comes; hooks see it afterwards and can't change it.
        Pass = "pass",
        /// As soon as the redactors have settled it. Possible where only redactors stand.
        Window = "window",
        /// When the whole answer was judged.
        Hold = "hold",
    }
}

choice! {
    /// What a client is told when something was stopped.
    pub enum LiveBlock {
        /// A valid answer of its wire that says so.
        Answer = "answer",
        /// HTTP 403, in the provider's error shape.
        Error = "error",
    }
}

choice! {
    /// What is done with sound, and pictures as they are made, in sessions in which hooks decide: nobody can judge them.
    pub enum UnjudgedMedia {
        /// They pass unread, and what the provider writes of them is judged once they have left.
        Pass = "pass",
        /// They pass in neither direction.
        Refuse = "refuse",
    }
}

choice! {
    /// What is done about the tool calls of answers, besides `after_llm_call`.
    pub enum LiveCalls {
        /// Nothing: the program that runs the tools takes them through the gates itself. What the provider runs is judged all the
        /// same.
        Off = "off",
        /// What the gates of tool calls stop is taken out; whoever runs the tool asks about what is to be asked.
        JudgeBlocks = "judge-blocks",
        /// What the gates of tool calls stop is taken out; what they would ask a human about is as `approvals` says.
        Judge = "judge",
    }
}

choice! {
    /// What becomes of a tool call in an answer about which a human is to be asked, with `tool_calls: judge`.
    pub enum LiveApprovals {
        /// It is taken out, and the question is filed: a person can allow the call afterwards.
        File = "file",
        /// The answer waits for the human, as long as the question says.
        Wait = "wait",
    }
}

choice! {
    /// What becomes of an event of a coding agent when the daemon is there and gives no answer.
    pub enum DaemonFailure {
        /// The hook judges it by itself.
        Judge = "judge",
        /// It is refused.
        Block = "block",
    }
}

choice! {
    /// What runs the code of a plugin.
    pub enum PluginRuntime {
        /// Backstop itself, where it reaches nothing that is not granted.
        Inside = "inside",
        /// A process of Backstop for it alone, which can be killed whatever it does, and which the system, too, keeps to what is granted, as far
        /// as it can.
        Process = "process",
        /// The machine's Node.js, in a process of its own. That has the rights of your account: files are held to what is granted as far as
        /// Node.js can, and the network is not.
        Node = "node",
    }
}

choice! {
    /// How much is insisted on that programs are confined.
    pub enum SandboxMode {
        /// As strongly as this machine can; where it can't, they are started all the same, and it is said.
        Auto = "auto",
        /// Where they can't be confined, they are not started.
        Required = "required",
        /// They are not confined.
        Off = "off",
    }
}

choice! {
    /// What confined programs can change.
    pub enum SandboxWrite {
        /// Everything but what is protected.
        Anywhere = "anywhere",
        /// The workspace and temporary folders. Refused where the machine can't do it.
        Workspace = "workspace",
    }
}

choice! {
    /// How a person is told that a question waits.
    pub enum Notify {
        /// Not at all: it is in the list of questions.
        Off = "off",
        /// On the desktop, where there is one.
        Desktop = "desktop",
        /// By the bell of the terminal on which `backstop run` was started.
        Bell = "bell",
        /// By a message to that terminal that it shows as a notification (OSC 9: iTerm2, kitty, WezTerm, Windows Terminal).
        Osc9 = "osc9",
        /// The same for other terminals (OSC 777: foot, Ghostty, rxvt, WezTerm).
        Osc777 = "osc777",
    }
}

impl From<OnFailure> for FailurePolicy {
    fn from(on_failure: OnFailure) -> Self {
        match on_failure {
            OnFailure::Allow => Self::Open,
            OnFailure::Block => Self::Closed,
        }
    }
}
