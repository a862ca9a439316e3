//! Asking a human: what a hook may request, and what comes back.
//!
//! A request is bound to the exact value that is asked about (its [`Digest`](crate::Digest)), and it
//! says who asked: the host sets the owner, so no hook can speak for another.
//! Limits: a title has at most 80 characters and a description at most 512. A request waits 120 s unless
//! it says otherwise, and never longer than 600 s. *Deny* is always offered, and a request that nobody
//! answers is denied unless the request itself says allow.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::contained::drop_contained;
use crate::id::{HookId, OwnerId, RuleId};
use crate::value::{Params, Text};

/// Most characters of a title.
pub const MAX_TITLE_CHARS: usize = 80;
/// Most characters of a description.
pub const MAX_DESCRIPTION_CHARS: usize = 512;
/// How long a request waits when it does not say.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_millis(120_000);
/// The longest a request may wait.
pub const MAX_TIMEOUT: Duration = Duration::from_millis(600_000);

/// How grave the thing is that is asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth a look.
    Info,
    /// May do harm.
    #[default]
    Warning,
    /// Does harm if it is wrong.
    Critical,
}

/// What happens when nobody answers in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TimeoutBehavior {
    /// The call runs.
    Allow,
    /// The call is denied.
    #[default]
    Deny,
}

/// What a human can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// This call, once.
    AllowOnce,
    /// This call and its like, from now on: becomes a stored grant that can be listed and revoked.
    AllowAlways,
    /// No.
    Deny,
}

/// What a human can put in the place of a call, where whoever asks can take it. The call that was asked about does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Substitute {
    /// Other arguments for the same tool: a call of its own, which every hook judges.
    Edit,
    /// The result, without running the tool.
    Respond,
}

impl Substitute {
    /// Returns the word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::Respond => "respond",
        }
    }
}

impl fmt::Display for Substitute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Resolution {
    /// A human allowed this one call.
    AllowOnce,
    /// A human allowed this call and its like, or a grant given earlier covers it.
    AllowAlways,
    /// A human said no.
    Deny,
    /// Nobody answered in time.
    Timeout,
    /// The run ended, a later gate blocked the call, or nobody could be asked.
    Cancelled,
}

impl From<Decision> for Resolution {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::AllowOnce => Self::AllowOnce,
            Decision::AllowAlways => Self::AllowAlways,
            Decision::Deny => Self::Deny,
        }
    }
}

/// What the hook that asked says once it knows the answer: `Some(reason)` blocks the call after all.
pub type ResolutionFuture = Pin<Box<dyn Future<Output = Option<Text>> + Send>>;

/// Told how a request ended. Every request ends exactly once, in one of the [`Resolution`]s.
pub type OnResolution = Arc<dyn Fn(Resolution) -> ResolutionFuture + Send + Sync>;

/// One ground of a request, in a program's terms: the rule that wants a human, and what it is about. The texts of
/// a request are made from its grounds and may be cut; these are whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ground {
    /// The rule.
    pub rule: RuleId,
    /// What it is about, word by word: a program and its arguments, a path.
    pub about: Vec<Text>,
}

/// A hook's request to ask a human before the call may run.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct ApprovalRequest {
    /// The one-line question.
    #[schemars(length(min = 1, max = 80))]
    title: Text,
    /// What the human should know.
    #[schemars(length(max = 512))]
    description: Text,
    /// How grave it is.
    #[serde(default)]
    severity: Severity,
    /// How long to wait for an answer, in milliseconds.
    #[serde(default = "default_timeout_ms")]
    #[schemars(range(min = 1, max = 600_000))]
    timeout_ms: u64,
    /// Whether the hook chose the timeout; otherwise the operator may.
    #[serde(skip)]
    #[schemars(skip)]
    own_timeout: bool,
    /// What happens when nobody answers.
    #[serde(default)]
    timeout_behavior: TimeoutBehavior,
    /// What the model is told when nobody answers in time and the call is denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    timeout_reason: Option<Text>,
    /// What the call would do to the world, for the human: a message to be sent, a payment, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Params")]
    scope: Option<Params>,
    /// What the human can answer; deny is always added.
    #[serde(default = "all_decisions")]
    allowed_decisions: Vec<Decision>,
    /// Who asks. Stamped by the host; what a hook writes here is overwritten.
    #[serde(rename = "pluginId", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    owner: Option<OwnerId>,
    #[serde(rename = "hookId", default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    hook: Option<HookId>,
    /// What it rests on, where a hook of this process says so.
    #[serde(skip)]
    #[schemars(skip)]
    grounds: Vec<Ground>,
    /// How grave each of its rules is, where the hook says so.
    #[serde(skip)]
    #[schemars(skip)]
    severities: BTreeMap<RuleId, Severity>,
    #[serde(skip)]
    #[schemars(skip)]
    on_resolution: Option<OnResolution>,
}

fn default_timeout_ms() -> u64 {
    u64::try_from(DEFAULT_TIMEOUT.as_millis()).unwrap_or(u64::MAX)
}

fn all_decisions() -> Vec<Decision> {
    vec![Decision::AllowOnce, Decision::AllowAlways, Decision::Deny]
}

/// A request that breaks a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidApprovalRequest {
    /// No title, or white space only.
    #[error("an approval request needs a title")]
    EmptyTitle,
    /// The title is too long.
    #[error("an approval's title has at most {MAX_TITLE_CHARS} characters, this one has {0}")]
    LongTitle(usize),
    /// The description is too long.
    #[error("an approval's description has at most {MAX_DESCRIPTION_CHARS} characters, this one has {0}")]
    LongDescription(usize),
    /// The timeout is zero or too long.
    #[error("an approval's `timeoutMs` is between 1 and 600000, not {0}")]
    Timeout(u64),
}

impl ApprovalRequest {
    /// Creates a request with the default severity, timeout and decisions.
    ///
    /// # Errors
    ///
    /// [`InvalidApprovalRequest`] if the title or the description exceeds its limit.
    pub fn new(title: impl Into<Text>, description: impl Into<Text>) -> Result<Self, InvalidApprovalRequest> {
        let (title, description) = (clean(&title.into()), clean(&description.into()));
        if title.trim().is_empty() {
            return Err(InvalidApprovalRequest::EmptyTitle);
        }
        match (title.chars().count(), description.chars().count()) {
            (n, _) if n > MAX_TITLE_CHARS => Err(InvalidApprovalRequest::LongTitle(n)),
            (_, n) if n > MAX_DESCRIPTION_CHARS => Err(InvalidApprovalRequest::LongDescription(n)),
            _ => Ok(Self {
                title,
                description,
                severity: Severity::default(),
                timeout_ms: default_timeout_ms(),
                own_timeout: false,
                timeout_behavior: TimeoutBehavior::default(),
                timeout_reason: None,
                scope: None,
                allowed_decisions: all_decisions(),
                owner: None,
                hook: None,
                grounds: Vec::new(),
                severities: BTreeMap::new(),
                on_resolution: None,
            }),
        }
    }

    /// Creates a request whose title and description are cut to their limits, for texts made from data.
    pub fn cut(title: &str, description: &str) -> Self {
        let title = cut(title, MAX_TITLE_CHARS);
        let title = if title.trim().is_empty() { "approval needed".into() } else { title };
        Self {
            title,
            description: cut(description, MAX_DESCRIPTION_CHARS),
            severity: Severity::default(),
            timeout_ms: default_timeout_ms(),
            own_timeout: false,
            timeout_behavior: TimeoutBehavior::default(),
            timeout_reason: None,
            scope: None,
            allowed_decisions: all_decisions(),
            owner: None,
            hook: None,
            grounds: Vec::new(),
            severities: BTreeMap::new(),
            on_resolution: None,
        }
    }

    /// Sets the severity.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Sets how long to wait, and what happens then.
    ///
    /// # Errors
    ///
    /// [`InvalidApprovalRequest::Timeout`] outside 1..=600000 ms.
    pub fn timeout(
        mut self,
        timeout: Duration,
        behavior: TimeoutBehavior,
    ) -> Result<Self, InvalidApprovalRequest> {
        self.timeout_ms = checked_timeout(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX))?;
        self.own_timeout = true;
        self.timeout_behavior = behavior;
        Ok(self)
    }

    /// Sets what the model is told when nobody answers in time and the call is denied.
    #[must_use]
    pub fn timeout_reason(mut self, reason: impl Into<Text>) -> Self {
        self.timeout_reason = Some(clean(&reason.into()));
        self
    }

    /// Sets what the call would do to the world, for the human to see.
    #[must_use]
    pub fn scope(mut self, scope: Params) -> Self {
        self.scope = Some(scope);
        self
    }

    /// Limits what the human can answer. Deny is always offered.
    #[must_use]
    pub fn decisions(mut self, decisions: impl IntoIterator<Item = Decision>) -> Self {
        self.allowed_decisions = with_deny(decisions);
        self
    }

    /// Sets what the request is based on. Two requests of a hook that have grounds ask about the same thing if the grounds
    /// are equal, whatever their texts say.
    #[must_use]
    pub fn grounds(mut self, grounds: impl IntoIterator<Item = Ground>) -> Self {
        self.grounds = grounds.into_iter().collect();
        self
    }

    /// Sets how grave each rule of its grounds is. Of a rule that is named twice the graver counts. Where rules say nothing of themselves, each is taken to be as
    /// grave as the request or milder, whichever leads to more people.
    #[must_use]
    pub fn severities(mut self, severities: impl IntoIterator<Item = (RuleId, Severity)>) -> Self {
        for (rule, severity) in severities {
            let known = self.severities.entry(rule).or_insert(severity);
            *known = severity.max(*known);
        }
        self
    }

    /// Sets a listener that is told how the request ended, and that may still block the call.
    #[must_use]
    pub fn on_resolution<F, Fut>(mut self, told: F) -> Self
    where
        F: Fn(Resolution) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Option<Text>> + Send + 'static,
    {
        let told = Listener(Some(told));
        self.on_resolution = Some(Arc::new(move |resolution| match &told.0 {
            Some(told) => Box::pin(told(resolution)),
            None => Box::pin(std::future::ready(None)),
        }));
        self
    }

    /// Returns the one-line question.
    pub fn title(&self) -> &Text {
        &self.title
    }

    /// Returns what the human should know.
    pub fn description(&self) -> &Text {
        &self.description
    }

    /// Returns the severity.
    pub fn severity_level(&self) -> Severity {
        self.severity
    }

    /// Returns how long to wait for an answer.
    pub fn timeout_after(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// Returns how long to wait for an answer, if the hook chose it; otherwise [`Self::timeout_after`] is the default.
    pub fn own_timeout(&self) -> Option<Duration> {
        self.own_timeout.then(|| self.timeout_after())
    }

    /// Returns what happens when nobody answers.
    pub fn timeout_behavior(&self) -> TimeoutBehavior {
        self.timeout_behavior
    }

    /// Returns what the model is told when nobody answers in time and the call is denied.
    pub fn reason_of_timeout(&self) -> Option<&Text> {
        self.timeout_reason.as_ref()
    }

    /// Returns what the call would do to the world.
    pub fn scope_of_call(&self) -> Option<&Params> {
        self.scope.as_ref()
    }

    /// Returns the possible answers, which always include deny.
    pub fn allowed_decisions(&self) -> &[Decision] {
        &self.allowed_decisions
    }

    /// Returns the owner that asks, once the host has set it.
    pub fn owner(&self) -> Option<&OwnerId> {
        self.owner.as_ref()
    }

    /// Returns the hook that asks, once the host has set it.
    pub fn hook(&self) -> Option<&HookId> {
        self.hook.as_ref()
    }

    /// Returns what it is based on; empty if the hook does not say.
    pub fn rests_on(&self) -> &[Ground] {
        &self.grounds
    }

    /// Returns how grave a rule of its grounds is; `None` if the hook does not say.
    pub fn severity_of(&self, rule: &RuleId) -> Option<Severity> {
        self.severities.get(rule).copied()
    }

    /// Returns the listener that is told how it ended.
    pub fn resolution_listener(&self) -> Option<&OnResolution> {
        self.on_resolution.as_ref()
    }
}

/// What a hook holds to be told with. Requests are kept and dropped by hosts, whom its destructor must not hurt.
struct Listener<F>(Option<F>);

impl<F> Drop for Listener<F> {
    fn drop(&mut self) {
        drop_contained(self.0.take());
    }
}

fn checked_timeout(ms: u64) -> Result<u64, InvalidApprovalRequest> {
    let longest = u64::try_from(MAX_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
    if (1..=longest).contains(&ms) { Ok(ms) } else { Err(InvalidApprovalRequest::Timeout(ms)) }
}

fn with_deny(decisions: impl IntoIterator<Item = Decision>) -> Vec<Decision> {
    let mut all: Vec<_> = decisions.into_iter().chain([Decision::Deny]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Control characters could redraw the terminal of the human who is asked, and bidirectional marks could
/// reorder what is read; both become spaces.
fn clean(text: &str) -> Text {
    text.chars().map(|c| if is_deceptive(c) { ' ' } else { c }).collect::<String>().into()
}

fn is_deceptive(c: char) -> bool {
    c.is_control() && c != '\n'
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn cut(text: &str, most: usize) -> Text {
    let clean = clean(text);
    if clean.chars().count() <= most {
        return clean;
    }
    clean.chars().take(most.saturating_sub(1)).chain(['…']).collect::<String>().into()
}

impl PartialEq for ApprovalRequest {
    fn eq(&self, other: &Self) -> bool {
        let listeners = match (&self.on_resolution, &other.on_resolution) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        listeners
            && self.title == other.title
            && self.description == other.description
            && self.severity == other.severity
            && self.timeout_ms == other.timeout_ms
            && self.timeout_behavior == other.timeout_behavior
            && self.timeout_reason == other.timeout_reason
            && self.scope == other.scope
            && self.allowed_decisions == other.allowed_decisions
            && self.owner == other.owner
            && self.hook == other.hook
            && self.grounds == other.grounds
    }
}

impl fmt::Debug for ApprovalRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApprovalRequest")
            .field("title", &self.title)
            .field("severity", &self.severity)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

impl<'de> Deserialize<'de> for ApprovalRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        struct Wire {
            title: Text,
            description: Text,
            #[serde(default)]
            severity: Severity,
            #[serde(default, deserialize_with = "crate::outcome::present")]
            timeout_ms: Option<u64>,
            #[serde(default)]
            timeout_behavior: TimeoutBehavior,
            #[serde(default, deserialize_with = "crate::outcome::present")]
            timeout_reason: Option<Text>,
            #[serde(default, deserialize_with = "crate::outcome::present")]
            scope: Option<Params>,
            #[serde(default = "all_decisions")]
            allowed_decisions: Vec<Decision>,
            // Accepted because authors write it, dropped because only the host knows.
            #[serde(default, rename = "pluginId")]
            _plugin_id: Option<String>,
        }
        let wire = Wire::deserialize(deserializer)?;
        let request = Self::new(wire.title, wire.description).map_err(serde::de::Error::custom)?;
        Ok(Self {
            severity: wire.severity,
            timeout_ms: checked_timeout(wire.timeout_ms.unwrap_or_else(default_timeout_ms))
                .map_err(serde::de::Error::custom)?,
            own_timeout: wire.timeout_ms.is_some(),
            timeout_behavior: wire.timeout_behavior,
            timeout_reason: wire.timeout_reason.map(|reason| clean(&reason)),
            scope: wire.scope,
            allowed_decisions: with_deny(wire.allowed_decisions),
            ..request
        })
    }
}

/// All requests that were made about one call. A hook answers one; a merged outcome holds every one, and
/// the human is asked once with all of them in view.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApprovalRequests(Vec<ApprovalRequest>);

impl ApprovalRequests {
    /// Returns the requests, in the order in which they were made.
    pub fn as_slice(&self) -> &[ApprovalRequest] {
        &self.0
    }

    /// Returns the requests as a list.
    pub fn into_vec(self) -> Vec<ApprovalRequest> {
        self.0
    }

    /// Returns whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds requests. A hook that is asked again about the final value replaces its own request.
    pub(crate) fn extend(&mut self, more: Self) {
        self.0.retain(|old| old.hook.is_none() || more.0.iter().all(|new| new.hook != old.hook));
        self.0.extend(more.0);
    }

    pub(crate) fn listen(&mut self, told: &OnResolution) {
        for request in &mut self.0 {
            let told = Arc::clone(told);
            *request = request.clone().on_resolution(move |resolution| told(resolution));
        }
    }

    pub(crate) fn stamp(&mut self, owner: &OwnerId, hook: &HookId) {
        for request in &mut self.0 {
            request.owner = Some(owner.clone());
            request.hook = Some(hook.clone());
        }
    }
}

impl From<ApprovalRequest> for ApprovalRequests {
    fn from(request: ApprovalRequest) -> Self {
        Self(vec![request])
    }
}

impl Serialize for ApprovalRequests {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(serializer),
            many => many.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ApprovalRequests {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ApprovalRequest::deserialize(deserializer).map(Self::from)
    }
}

impl JsonSchema for ApprovalRequests {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        ApprovalRequest::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        ApprovalRequest::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn limits_hold_on_the_wire() {
        let read = |value| serde_json::from_value::<ApprovalRequest>(value);
        assert!(read(json!({"title": "t", "description": "d"})).is_ok());
        assert!(read(json!({"title": " ", "description": "d"})).is_err());
        assert!(read(json!({"title": "t".repeat(81), "description": "d"})).is_err());
        assert!(read(json!({"title": "t", "description": "d".repeat(513)})).is_err());
        assert!(read(json!({"title": "t", "description": "d", "timeoutMs": 0})).is_err());
        assert!(read(json!({"title": "t", "description": "d", "timeoutMs": 600_001})).is_err());
        assert!(read(json!({"title": "t", "description": "d", "surprise": 1})).is_err());
    }

    #[test]
    fn only_a_timeout_that_was_given_is_the_hooks_own() {
        let read = |value| serde_json::from_value::<ApprovalRequest>(value);
        let left_open = read(json!({"title": "t", "description": "d"})).unwrap();
        assert_eq!((left_open.own_timeout(), left_open.timeout_after()), (None, DEFAULT_TIMEOUT));
        let given = read(json!({"title": "t", "description": "d", "timeoutMs": 5})).unwrap();
        assert_eq!(given.own_timeout(), Some(Duration::from_millis(5)));
        assert!(read(json!({"title": "t", "description": "d", "timeoutMs": null})).is_err());
    }

    #[test]
    fn deny_is_always_offered() {
        let request: ApprovalRequest = serde_json::from_value(
            json!({"title": "t", "description": "d", "allowedDecisions": ["allow-once"]}),
        )
        .unwrap();
        assert_eq!(request.allowed_decisions(), [Decision::AllowOnce, Decision::Deny]);
    }

    #[test]
    fn hook_cannot_impersonate_another_owner() {
        let mut requests: ApprovalRequests =
            serde_json::from_value(json!({"title": "t", "description": "d", "pluginId": "bank"})).unwrap();
        requests.stamp(&OwnerId::new("evil"), &HookId::new("evil:1"));
        assert_eq!(requests.as_slice()[0].owner(), Some(&OwnerId::new("evil")));
    }

    #[test]
    fn what_a_human_reads_cannot_redraw_the_terminal() {
        let request = ApprovalRequest::cut("a\u{1b}[2Jb\u{202e}c", "d");
        assert_eq!(request.title().as_str(), "a [2Jb c");
    }
}
