//! The leaves: numbers with a range, words from a list, names, dates, tool sets.
//!
//! A leaf's type carries its range, so that a value that exists is a value that is allowed.

use backstop_hooks::{FailurePolicy, PointId, ToolName, tool_name};
use serde_json::{Value, json};

use crate::place::Place;
use crate::problem::{Problem, ProblemKind, is_invisible, nearest, quote, quoted_list, suggestion};
use crate::reader::{LayerKind, Reader};
use crate::text::{Secret, Text};
use crate::wire::{Key, Wire};
use backstop_yaml::{Kind, Node};

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Whole<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Whole<MIN, MAX> {
    /// The number, or `None` outside the range.
    #[must_use]
    pub const fn new(value: u64) -> Option<Self> {
        if value >= MIN && value <= MAX { Some(Self(value)) } else { None }
    }

    /// The number, moved into the range.
    #[must_use]
    pub const fn clamped(value: u64) -> Self {
        Self(if value < MIN {
            MIN
        } else if value > MAX {
            MAX
        } else {
            value
        })
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A time budget set by the operator: 1 to 600 000 milliseconds.
pub type Millis = Whole<1, 600_000>;

impl Millis {
    /// The budget as a duration.
    #[must_use]
    pub const fn duration(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

impl<const MIN: u64, const MAX: u64> Wire for Whole<MIN, MAX> {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let value = match node.kind {
            Kind::Integer(value) => u64::try_from(value).ok().and_then(Self::new),
            _ => None,
        };
        value.or_else(|| cx.expected(node, &format!("a whole number from {MIN} to {MAX}")))
    }

    fn schema() -> Value {
        json!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }

    fn show(&self) -> Value {
        Value::from(self.0)
    }
}

/// A sampling temperature, 0 to 2.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Temperature(f64);

impl Temperature {
    /// The temperature.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl Wire for Temperature {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let value = match node.kind {
            Kind::Integer(0) => Some(0.0),
            Kind::Integer(1) => Some(1.0),
            Kind::Integer(2) => Some(2.0),
            Kind::Number(value) if (0.0..=2.0).contains(&value) => Some(value),
            _ => None,
        };
        value.map(Self).or_else(|| cx.expected(node, "a number from 0 to 2"))
    }

    fn schema() -> Value {
        json!({ "type": "number", "minimum": 0, "maximum": 2 })
    }

    fn show(&self) -> Value {
        Value::from(self.0)
    }
}

impl Wire for bool {
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

/// A text without variables: what is written is what is meant.
pub(crate) fn plain_text<'n>(node: &'n Node, cx: &mut Reader<'_>, what: &str) -> Option<&'n str> {
    let problem = match &node.kind {
        Kind::Text(text) if !text.trim().is_empty() => return Some(text),
        Kind::Bool(_) | Kind::Integer(_) | Kind::Number(_) => {
            cx.mismatch(node, what, &node.describe()).with_hint("put it in quotes")
        }
        _ => cx.mismatch(node, what, &node.describe()),
    };
    cx.report(problem);
    None
}

impl Wire for Text {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let written = plain_text(node, cx, "a text that is not empty")?;
        let environment = (cx.layer == LayerKind::Operator).then_some(cx.environment);
        Self::expand(written, &node.at, environment).map_err(|problem| cx.report(problem)).ok()
    }

    fn schema() -> Value {
        json!({ "type": "string", "minLength": 1 })
    }

    fn show(&self) -> Value {
        Value::from(self.as_written())
    }
}

impl Wire for Secret {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        if !matches!(&node.kind, Kind::Text(text) if !text.trim().is_empty()) {
            let message = format!("{} must be a text that is not empty", cx.subject());
            cx.report(Problem::new(ProblemKind::BadValue, node.at.clone(), message));
            return None;
        }
        Text::read(node, cx).map(Self)
    }

    fn schema() -> Value {
        Text::schema()
    }

    fn show(&self) -> Value {
        Value::from(self.to_string())
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

            /// The word in the file.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl Wire for $name {
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
    /// What becomes of a hook's rewrite to which a hook that stands before it objects.
    pub enum RewriteChoice {
        /// The call is blocked: the rewrite is what makes the value acceptable to the hook.
        Required = "required",
        /// The rewrite is dropped, and the receipt says so.
        Optional = "optional",
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
    /// What becomes of a call whose arguments hold a secret. Strictness grows from `off` to `block`.
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
    /// What is done about the tool calls of answers, besides `after_llm_call`.
    pub enum LiveCalls {
        /// Nothing: the program that runs the tools takes them through the gates itself.
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

/// An amount of money, in millionths of the operator's currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(u64);

impl Money {
    /// The most that can be written.
    const MOST: f64 = 1_000_000_000.0;

    /// Millionths of the currency.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.0
    }
}

impl Wire for Money {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let value = match &node.kind {
            Kind::Integer(value) => value.to_string().parse().ok(),
            Kind::Number(value) => Some(*value),
            _ => None,
        };
        let value: Option<f64> = value.filter(|value| (0.0..=Self::MOST).contains(value));
        // A number between the bounds, times a million, is a whole number that fits.
        let micros = value.and_then(|value| format!("{:.0}", value * 1e6).parse().ok());
        micros.map(Self).or_else(|| cx.expected(node, "an amount from 0 to 1000000000"))
    }

    fn schema() -> Value {
        json!({ "type": "number", "minimum": 0, "maximum": 1_000_000_000 })
    }

    fn show(&self) -> Value {
        let (whole, rest) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let text = format!("{whole}.{rest:06}");
        text.trim_end_matches('0')
            .trim_end_matches('.')
            .parse()
            .map_or(Value::Null, |number: serde_json::Number| number.into())
    }
}

/// The day after whose end an exception no longer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExpiryDate(pub jiff::civil::Date);

impl Wire for ExpiryDate {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let date = match &node.kind {
            Kind::Text(text) if text.len() == "2026-12-31".len() => text.parse().ok(),
            _ => None,
        };
        date.map(Self).or_else(|| cx.expected(node, "a date such as `2026-12-31`"))
    }

    fn schema() -> Value {
        json!({ "type": "string", "format": "date" })
    }

    fn show(&self) -> Value {
        Value::from(self.0.to_string())
    }
}

/// The tools an agent may use, groups replaced by their members, in the order they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSet(Vec<ToolName>);

impl ToolSet {
    /// The tool names, without repetition.
    #[must_use]
    pub fn names(&self) -> &[ToolName] {
        &self.0
    }

    /// Whether the set holds this tool.
    #[must_use]
    pub fn contains(&self, tool: &ToolName) -> bool {
        self.0.contains(tool)
    }

    /// The tools that `allowed` also holds, and the rest.
    pub(crate) fn split_by(self, allowed: &Self) -> (Self, Vec<ToolName>) {
        let (kept, refused) = self.0.into_iter().partition(|tool| allowed.contains(tool));
        (Self(kept), refused)
    }
}

impl Wire for ToolSet {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let items = cx.list(node)?;
        let mut tools = Vec::new();
        let mut complete = true;
        for (index, item) in items.iter().enumerate() {
            match cx.in_item(index, |cx| tool_or_group(item, cx)) {
                Some(names) => tools.extend(names),
                None => complete = false,
            }
        }
        let mut seen = std::collections::HashSet::new();
        tools.retain(|tool| seen.insert(tool.clone()));
        complete.then_some(Self(tools))
    }

    fn schema() -> Value {
        json!({ "type": "array", "items": { "type": "string", "minLength": 1 } })
    }

    fn show(&self) -> Value {
        self.0.iter().map(ToolName::canonical).collect()
    }
}

fn tool_or_group(node: &Node, cx: &mut Reader<'_>) -> Option<Vec<ToolName>> {
    let written = plain_text(node, cx, "the name of a tool or of a group")?;
    if let Some(members) = tool_name::group(written) {
        return Some(members.iter().copied().map(ToolName::new).collect());
    }
    // The list chooses among the agent's own tools, so each entry becomes the tool that it is a spelling of.
    let name = ToolName::new(written);
    if let Some(known) = cx.names.tools().find(|known| ToolName::new(known).canonical() == name.canonical()) {
        return Some(vec![ToolName::new(ToolName::new(known).canonical())]);
    }
    let groups: Vec<String> = tool_name::GROUPS.iter().map(|(group, _)| format!("group:{group}")).collect();
    let known: Vec<&str> = cx.names.tools().chain(groups.iter().map(String::as_str)).collect();
    let message = format!("no tool is called `{}`", quote(written));
    let problem = Problem::new(ProblemKind::UnknownName, node.at.clone(), message)
        .with_hint(suggestion(written, &known, "tools"));
    cx.report(problem);
    None
}

/// A name chosen by the author: of a plugin, a hook or a provider. At most 128 characters, none of them blank or
/// invisible.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    const LIMIT: usize = 128;

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn new(name: impl Into<String>) -> Option<Self> {
        let name = name.into();
        let fits = !name.is_empty() && name.chars().count() <= Self::LIMIT;
        (fits && !name.chars().any(|c| c.is_whitespace() || is_invisible(c))).then_some(Self(name))
    }
}

impl Key for Name {
    fn read(key: &str, at: &Place, cx: &mut Reader<'_>) -> Option<Self> {
        Self::new(key).or_else(|| {
            let message = format!("`{}` cannot be a name", quote(key));
            let hint = format!("a name has 1 to {} characters and no blanks", Self::LIMIT);
            cx.report(Problem::new(ProblemKind::BadValue, at.clone(), message).with_hint(hint));
            None
        })
    }

    fn as_str(&self) -> &str {
        &self.0
    }
}

impl Wire for Name {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let text = plain_text(node, cx, "a name")?;
        <Self as Key>::read(text, &node.at, cx)
    }

    fn schema() -> Value {
        json!({ "type": "string", "minLength": 1, "maxLength": Self::LIMIT })
    }

    fn show(&self) -> Value {
        Value::from(self.0.as_str())
    }
}

impl Key for PointId {
    fn read(key: &str, at: &Place, cx: &mut Reader<'_>) -> Option<Self> {
        key.parse().ok().or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|point| point.name()).collect();
            let message = format!("no hook point is called `{}`", quote(key));
            let problem = Problem::new(ProblemKind::UnknownName, at.clone(), message).with_hint(suggestion(
                key,
                &known,
                "hook points",
            ));
            cx.report(problem);
            None
        })
    }

    fn as_str(&self) -> &str {
        self.name()
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
