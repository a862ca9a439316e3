//! What people answered, gathered by the command that they were asked about.

use std::collections::{BTreeMap, BTreeSet};

use backstop::guards::COMMAND_SAFETY_ID;
use backstop::hooks::{HookId, Resolution, RuleId, Severity};
use backstop::store::Timestamp;
use backstop::tape::{CallDecision, RecordedCall};
use serde_json::Value;

use super::super::replay::{Example, Policy};
use super::super::tape::time;
use super::Counts;
use super::draft::{Command, Kind};
use super::trail::Trail;

/// The most different commands that answers are gathered about; the answers about all others are counted.
const MOST_COMMANDS: usize = 10_000;

/// The answers about one command.
#[derive(Default)]
struct Answers {
    /// Those that the trail has, by folder.
    folders: BTreeMap<String, Answered>,
    /// Denials on the tape, whether the trail has them or not, and allowed calls that the trail says were denied at another time: they only
    /// argue against an exception.
    denied: u32,
    /// Whether no exception may be made, since what asks is critical, has no exceptions, or has read a file.
    is_barred: bool,
    /// The rules by which people were asked who allowed it.
    rules: BTreeSet<RuleId>,
    /// When the first and the last of those that the trail has was given.
    span: Option<(Timestamp, Timestamp)>,
}

#[derive(Default)]
struct Answered {
    allowed: u32,
    denied: u32,
}

/// Something that might be suggested.
pub(super) struct Candidate {
    pub(super) command: Command,
    pub(super) kind: Kind,
    /// The rules that an exception is one from.
    pub(super) rules: BTreeSet<RuleId>,
    /// How often people answered so, and the trail has it.
    pub(super) answers: u32,
    pub(super) folders: Vec<String>,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    pub(super) examples: Vec<Example>,
}

/// Everything that was gathered.
pub(super) struct Gathered {
    commands: BTreeMap<Command, (Answers, Vec<Example>)>,
    trail: Trail,
    /// The most examples of each command.
    examples: usize,
    pub(super) counts: Counts,
}

impl Gathered {
    pub(super) fn new(trail: Trail, examples: usize) -> Self {
        Self { commands: BTreeMap::new(), trail, examples, counts: Counts::default() }
    }

    /// Adds what a person answered about a call, if one did.
    pub(super) async fn add(&mut self, policy: &Policy, call: RecordedCall) {
        let Some(is_allowed) = answered(&call) else { return };
        self.counts.answers += 1;
        if is_changed(&call) {
            self.counts.changed += 1;
            return;
        }
        if call.masked > 0 {
            self.counts.masked += 1;
            return;
        }
        let Some(command) = Command::of(&call) else {
            self.counts.without_form += 1;
            return;
        };
        if !self.commands.contains_key(&command) && self.commands.len() >= MOST_COMMANDS {
            self.counts.beyond += 1;
            return;
        }
        let excepted = if is_allowed { may_be_excepted(policy, &call).await } else { Some(Vec::new()) };
        let was_denied = !is_allowed || self.trail.has_denied(&call);
        let is_confirmed = self.trail.strike(&call);
        let (answers, examples) = self.commands.entry(command).or_default();
        answers.is_barred |= excepted.is_none();
        answers.denied += u32::from(was_denied);
        if !is_confirmed {
            self.counts.unconfirmed += 1;
            return;
        }
        let folder = call.context.get("workspaceDir").and_then(Value::as_str).unwrap_or_default();
        answers.rules.extend(excepted.unwrap_or_default());
        let folder = answers.folders.entry(folder.to_owned()).or_default();
        folder.allowed += u32::from(is_allowed);
        folder.denied += u32::from(!is_allowed);
        let at = time(&call);
        let (first, last) = answers.span.unwrap_or((at, at));
        answers.span = Some((first.min(at), last.max(at)));
        if examples.len() < self.examples {
            examples.push(Example::of(&call));
        }
    }

    /// Returns what might be suggested, what was answered most often first.
    pub(super) fn candidates(self, min: u32) -> (Vec<Candidate>, Counts) {
        let (mut candidates, mut counts) = (Vec::new(), self.counts);
        for (command, (answers, examples)) in self.commands {
            let Answers { folders, denied, is_barred, rules, span } = answers;
            let allowed: u32 = folders.values().map(|folder| folder.allowed).sum();
            let kind = match (allowed, denied) {
                (0, 0) => continue,
                (0, _) => Kind::Rule,
                (_, 0) if is_barred => {
                    counts.barred += 1;
                    continue;
                }
                (_, 0) if !self.trail.is_whole() => {
                    counts.uncertain += 1;
                    continue;
                }
                (_, 0) => Kind::Exception,
                _ => {
                    counts.disputed += 1;
                    continue;
                }
            };
            let of_kind = |folder: &Answered| match kind {
                Kind::Exception => folder.allowed,
                Kind::Rule => folder.denied,
            };
            // People who allowed something in one folder have said nothing about another one.
            if !folders.values().all(|folder| of_kind(folder) >= min) || folders.is_empty() {
                counts.seldom += 1;
                continue;
            }
            let (first, last) = span.unwrap_or_default();
            candidates.push(Candidate {
                command,
                kind,
                rules,
                answers: folders.values().map(of_kind).sum(),
                folders: folders.into_keys().collect(),
                first,
                last,
                examples,
            });
        }
        candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.answers));
        (candidates, counts)
    }
}

/// Whether a person changed the call or gave its result, which says neither that it may run nor that it never may; or whether it is what a
/// person made of another one.
fn is_changed(call: &RecordedCall) -> bool {
    call.edited || call.answer.is_some_and(|answer| answer.substitute.is_some())
}

/// What a person answered about this very call: whether it may run. `None` if nobody did.
pub(super) fn answered(call: &RecordedCall) -> Option<bool> {
    let answer = call.answer.filter(|answer| !answer.by_grant)?;
    match answer.resolution {
        Resolution::AllowOnce | Resolution::AllowAlways => Some(true),
        Resolution::Deny => Some(false),
        Resolution::Timeout | Resolution::Cancelled => None,
    }
}

/// The rules that a call may be excepted from: those by which the guard of commands asks about it. `None` if another hook asks, too, since no other
/// one knows exceptions; if it is critical, then or now; if another rule asked then; and if the call alone does not say what it does.
async fn may_be_excepted(policy: &Policy, call: &RecordedCall) -> Option<Vec<RuleId>> {
    // An exception would hold for whatever a script comes to hold, and an agent can write scripts.
    let (now, false) = policy.review(call).await? else { return None };
    let is_mild = |severity: Option<Severity>| severity.is_some_and(|severity| severity < Severity::Critical);
    let may_be = now.decision == CallDecision::Ask
        && now.asked_by == [HookId::new(COMMAND_SAFETY_ID)]
        && is_mild(now.severity)
        && is_mild(call.judgement.severity)
        && call.judgement.asked_by == now.asked_by
        && call.judgement.rules == now.rules
        && !now.rules.is_empty();
    may_be.then_some(now.rules)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_person_changed_is_neither_allowed_nor_denied() {
        let call = |edited: bool, substitute: Value| -> RecordedCall {
            serde_json::from_value(json!({
                "at": 1, "receipt": "r-1", "event": {}, "context": {}, "decision": "ask", "passed": false,
                "answer": { "resolution": "deny", "substitute": substitute }, "edited": edited,
            }))
            .unwrap()
        };
        assert!(!is_changed(&call(false, Value::Null)));
        assert!(is_changed(&call(true, Value::Null)));
        for substitute in ["edit", "respond"] {
            assert!(is_changed(&call(false, json!(substitute))), "{substitute}");
        }
    }
}
