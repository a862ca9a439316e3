//! The command guard: takes a command and a place, returns a judgement.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use backstop_shell::programs::Programs;
use backstop_shell::{Analyzer, Argument, Fact, Place, Process, ShellKind, Trace, Unknown, UnknownKind};
use serde::{Deserialize, Serialize};

use crate::paths::Places;
use crate::rules::{Answer, Profile, Rule, RuleSet, Severity};

/// A guard's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No objection.
    #[default]
    Pass,
    /// A human decides.
    Ask,
    /// It does not run.
    Block,
}

/// One objection.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// The id of the rule.
    pub rule_id: String,
    /// How bad it would be.
    pub severity: Severity,
    /// The rule's verdict.
    pub verdict: Verdict,
    /// Why, for people.
    pub reason: String,
    /// A short code for the model.
    pub code: String,
    /// A safer alternative, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alternative: Option<String>,
    /// What it concerns, in a few words: the process, or the path.
    pub what: String,
    /// The same word by word, and whole.
    #[serde(skip)]
    pub about: Vec<String>,
    /// The index of the process in [`Judgement::processes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<usize>,
    /// The allow-list entry that lifts this objection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_by: Option<String>,
}

/// The result of a guard.
#[derive(Debug, Default)]
pub struct Judgement {
    /// The strictest verdict of all findings.
    pub verdict: Verdict,
    /// Every objection, worst first.
    pub findings: Vec<Finding>,
    /// What could not be decided.
    pub unknown: Vec<Unknown>,
    /// Every process that could start.
    pub processes: Vec<Process>,
}

impl Judgement {
    /// Takes over what another judgement of the same call found.
    pub(crate) fn add(&mut self, other: Self) {
        self.verdict = self.verdict.max(other.verdict);
        let known = |finding: &Finding| (finding.rule_id.clone(), finding.what.clone());
        let ours: Vec<_> = self.findings.iter().map(known).collect();
        self.findings.extend(other.findings.into_iter().filter(|finding| !ours.contains(&known(finding))));
        self.findings.sort_by_key(Finding::rank);
        self.unknown.extend(other.unknown);
        self.processes.extend(other.processes);
    }
}

impl Judgement {
    /// Returns what this one finds and another judgement of the same command, by fewer rules, does not. What can't be decided is the same by
    /// all rules.
    pub(crate) fn beyond(self, other: &Self) -> Self {
        let is_known = |finding: &Finding| {
            other
                .findings
                .iter()
                .any(|known| (&known.rule_id, &known.what) == (&finding.rule_id, &finding.what))
        };
        let findings: Vec<Finding> = self.findings.into_iter().filter(|finding| !is_known(finding)).collect();
        let standing = findings.iter().filter(|finding| finding.allowed_by.is_none());
        let verdict = standing.map(|finding| finding.verdict).max().unwrap_or_default();
        Self { verdict, findings, unknown: Vec::new(), processes: self.processes }
    }
}

impl Finding {
    /// The worst first, and what was lifted last.
    fn rank(&self) -> (bool, std::cmp::Reverse<(Verdict, Severity)>) {
        (self.allowed_by.is_some(), std::cmp::Reverse((self.verdict, self.severity)))
    }
}

/// An exception by the operator.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowEntry {
    /// The rule that does not object, or `*`.
    pub rule: String,
    /// The exact command, or a prefix of it that ends in `*`. Without it, every command.
    #[serde(default)]
    pub command: Option<String>,
    /// Why it is allowed.
    pub reason: String,
    /// When it ends, in seconds since 1970.
    #[serde(default)]
    pub expires_at: Option<u64>,
}

impl AllowEntry {
    fn covers(&self, rule: &str, command: &str, now: u64) -> bool {
        let rule_fits = self.rule == "*" || self.rule == rule;
        let command_fits = self.command.as_deref().is_none_or(|allowed| match allowed.strip_suffix('*') {
            Some(beginning) => {
                command.starts_with(beginning) && !command.contains(['\n', ';', '|', '&', '`', '$', '<', '>'])
            }
            None => allowed == command.trim(),
        });
        rule_fits && command_fits && self.expires_at.is_none_or(|end| now < end)
    }
}

/// What to do with code that could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownPolicy {
    /// Ask about what could carry code, pass the rest.
    #[default]
    AskCarriers,
    /// Ask about everything unknown, except invalid syntax that names nothing which could do harm.
    AskAll,
    /// Pass everything unknown, except what was too large to be read, which is asked about.
    PassAll,
    /// Block what could carry code, pass the rest.
    BlockCarriers,
    /// Block everything unknown.
    BlockAll,
}

/// The settings of a guard.
#[derive(Debug, Clone)]
pub struct GuardSettings {
    /// How much is stopped.
    pub profile: Profile,
    /// The rules.
    pub rules: Arc<RuleSet>,
    /// What is known about programs.
    pub programs: Arc<Programs>,
    /// Exceptions.
    pub allow: Vec<AllowEntry>,
    /// The rules that are as if they were not there, by id.
    pub without: BTreeSet<String>,
    /// What to do with the unknown; by default according to the profile.
    pub unknown: Option<UnknownPolicy>,
    /// The time limit for one command. Counted steps bound the work; this is a last resort. When it expires,
    /// the findings so far count and the rest is unknown.
    pub budget: Duration,
}

impl Default for GuardSettings {
    fn default() -> Self {
        Self {
            profile: Profile::Standard,
            rules: RuleSet::built_in(),
            programs: Programs::built_in(),
            allow: Vec::new(),
            without: BTreeSet::new(),
            unknown: None,
            budget: Duration::from_millis(500),
        }
    }
}

/// Judges commands. Cheap to clone and to share.
#[derive(Debug, Clone)]
pub struct CommandGuard {
    settings: Arc<GuardSettings>,
    analyzer: Analyzer,
}

/// A trace without deadline, for checking the examples of rules.
pub(crate) fn trace_for_check(command: &str, place: &Place, programs: &Arc<Programs>) -> Trace {
    let analyzer = Analyzer::new().with_labels(Arc::new(Places)).with_programs(Arc::clone(programs));
    analyzer.trace(command, ShellKind::Posix, place)
}

impl CommandGuard {
    /// Creates a guard with these settings.
    pub fn new(settings: GuardSettings) -> Self {
        let analyzer = Analyzer::new()
            .with_labels(Arc::new(Places))
            .with_programs(Arc::clone(&settings.programs))
            .with_time(settings.budget);
        Self { settings: Arc::new(settings), analyzer }
    }

    /// Judges a command that would run at `place`, at the time `now` (seconds since 1970, for allow-list
    /// entries that expire).
    pub fn judge(&self, command: &str, shell: ShellKind, place: &Place, now: u64) -> Judgement {
        let trace = self.trace(command, shell, place);
        self.conclude(trace, None, command, place, now)
    }

    /// Judges code of a language that nobody here reads: it may do anything.
    pub(crate) fn judge_unread(&self, language: &str) -> Judgement {
        let reason = format!("code in {language} is not read");
        let unknown = vec![Unknown { kind: UnknownKind::Code, reason, carrier: true }];
        Judgement { verdict: self.about_unknown(&unknown), unknown, ..Judgement::default() }
    }

    /// Analyses a command whose standard input is known.
    pub(crate) fn trace_fed(&self, command: &str, input: &str, place: &Place) -> Trace {
        self.analyzer.trace_fed(command, input, place)
    }

    /// Returns how much is stopped.
    pub(crate) fn profile(&self) -> Profile {
        self.settings.profile
    }

    /// Returns what is known of programs.
    pub(crate) fn programs(&self) -> &Programs {
        &self.settings.programs
    }

    pub(crate) fn trace(&self, command: &str, shell: ShellKind, place: &Place) -> Trace {
        self.analyzer.trace(command, shell, place)
    }

    /// Returns what there is to say about a trace, except for what was said about `known`, the trace of its beginning.
    pub(crate) fn conclude(
        &self,
        trace: Trace,
        known: Option<&Trace>,
        command: &str,
        place: &Place,
        now: u64,
    ) -> Judgement {
        let mut judgement = self.by_rules(trace, known, command, place, now);
        if judgement.verdict == Verdict::Pass {
            self.judge_what_is_given(&mut judgement, command, place, now);
        }
        judgement
    }

    /// Returns what the rules say about a trace.
    pub(crate) fn by_rules(
        &self,
        trace: Trace,
        known: Option<&Trace>,
        command: &str,
        place: &Place,
        now: u64,
    ) -> Judgement {
        let rules = &self.settings.rules;
        let mut findings: Vec<Finding> = Vec::new();
        let mut said = known.map(|known| self.said(known, place)).unwrap_or_default();
        let mut found_of: HashSet<(usize, Vec<String>)> = HashSet::new();
        let hits = rules.hits(&trace, place, self.settings.profile);
        // Looking is when a rule turns out to be unreadable.
        if let Some(why) = rules.broken() {
            return without_rules(why);
        }
        for hit in hits {
            let Some(rule) = rules.rule(hit.rule) else { continue };
            if self.settings.without.contains(&rule.id) {
                continue;
            }
            let what = describe(&trace, hit.fact, hit.process);
            if let Some(times @ 1..) = said.get_mut(&(hit.rule, what.clone())) {
                *times -= 1;
                continue;
            }
            let about = subject(&trace, hit.fact, hit.process);
            if !found_of.insert((hit.rule, about.clone())) {
                continue;
            }
            let allowed_by = self.exception(&rule.id, command, now);
            let mut found = finding(rule, what, hit.process, allowed_by);
            found.about = about;
            findings.push(found);
        }
        if place.input_is_unseen() {
            let allowed_by = self.exception(UNSEEN_INPUT, command, now);
            findings.extend(trace.waiting.iter().map(|what| waits_unseen(what, allowed_by.clone())));
        }
        let unknown = self.about_unknown(&trace.unknowns);
        // What follows only asks, which somebody is already about a command that was too much to be followed.
        let is_asked = unknown > Verdict::Pass
            && trace.unknowns.iter().any(|unknown| unknown.kind == UnknownKind::Limit);
        if findings.is_empty() && !is_asked {
            findings.extend(self.judge_what_is_named(&trace, command, place, now));
        }
        if findings.is_empty() && !is_asked {
            findings.extend(self.judge_what_may_be_rewritten(&trace, command, place, now));
        }
        findings.sort_by_key(Finding::rank);
        let standing = findings.iter().filter(|finding| finding.allowed_by.is_none());
        let worst = standing.map(|finding| finding.verdict).max().unwrap_or(Verdict::Pass);
        let verdict = worst.max(unknown);
        Judgement { verdict, findings, unknown: trace.unknowns, processes: trace.processes }
    }

    /// Returns how often each rule hits each thing. What is said of a text as a whole, and not of a part of it, is not in it.
    fn said(&self, trace: &Trace, place: &Place) -> HashMap<(usize, String), usize> {
        let mut said = HashMap::new();
        for hit in self.settings.rules.hits(trace, place, self.settings.profile) {
            let whole =
                matches!(trace.facts.get(hit.fact), Some(Fact::Obfuscated | Fact::ForkBomb | Fact::Endless));
            if !whole {
                *said.entry((hit.rule, describe(trace, hit.fact, hit.process))).or_default() += 1;
            }
        }
        said
    }

    /// Returns the operator's reason why the rule does not object to the command.
    pub(crate) fn exception(&self, rule: &str, command: &str, now: u64) -> Option<String> {
        let entry = self.settings.allow.iter().find(|entry| entry.covers(rule, command, now));
        entry.map(|entry| entry.reason.clone())
    }

    pub(crate) fn about_unknown(&self, unknowns: &[Unknown]) -> Verdict {
        let policy = self.settings.unknown.unwrap_or(match self.settings.profile {
            Profile::Core => UnknownPolicy::PassAll,
            Profile::Standard => UnknownPolicy::AskCarriers,
            Profile::Strict => UnknownPolicy::AskAll,
        });
        let counts = |unknown: &Unknown| match policy {
            UnknownPolicy::PassAll => unknown.kind == UnknownKind::Limit,
            UnknownPolicy::AskCarriers | UnknownPolicy::BlockCarriers => unknown.carrier,
            // What no shell would run either is no reason to ask, as long as nothing in it could do harm.
            UnknownPolicy::AskAll => unknown.carrier || unknown.kind != UnknownKind::Unparsed,
            UnknownPolicy::BlockAll => true,
        };
        let blocks = matches!(policy, UnknownPolicy::BlockCarriers | UnknownPolicy::BlockAll);
        match unknowns.iter().any(counts) {
            false => Verdict::Pass,
            true if blocks => Verdict::Block,
            true => Verdict::Ask,
        }
    }
}

/// Returns the judgement of a guard whose rules could not be read.
fn without_rules(why: &str) -> Judgement {
    let finding = Finding {
        rule_id: "guard.broken".to_owned(),
        severity: Severity::Critical,
        verdict: Verdict::Block,
        reason: "the rules of the command guard can't be read, so nothing can be judged".to_owned(),
        code: "GUARD_BROKEN".to_owned(),
        alternative: None,
        what: why.to_owned(),
        about: Vec::new(),
        process: None,
        allowed_by: None,
    };
    Judgement { verdict: Verdict::Block, findings: vec![finding], unknown: Vec::new(), processes: Vec::new() }
}

/// The rule for a program that waits for commands which no guard will see. It applies in every profile, and only at a
/// [`Place`] where that is the case.
pub const UNSEEN_INPUT: &str = "terminal.unseen-input";

fn waits_unseen(what: &str, allowed_by: Option<String>) -> Finding {
    typed_finding(
        UNSEEN_INPUT,
        "UNSEEN_INPUT",
        "it takes its commands from what is typed into it later, which nothing judges",
        "say what to run in the command itself: `-c`, `-e`, a file or a here-document",
        what,
        allowed_by,
    )
}

/// A question about what is typed into a program.
pub(crate) fn typed_finding(
    rule: &str,
    code: &str,
    reason: &str,
    alternative: &str,
    what: &str,
    allowed_by: Option<String>,
) -> Finding {
    Finding {
        rule_id: rule.to_owned(),
        severity: Severity::Warning,
        verdict: Verdict::Ask,
        reason: reason.to_owned(),
        code: code.to_owned(),
        alternative: Some(alternative.to_owned()),
        what: what.to_owned(),
        about: vec![what.to_owned()],
        process: None,
        allowed_by,
    }
}

fn finding(rule: &Rule, what: String, process: Option<usize>, allowed_by: Option<String>) -> Finding {
    Finding {
        rule_id: rule.id.clone(),
        severity: rule.severity,
        verdict: match rule.verdict {
            Answer::Ask => Verdict::Ask,
            Answer::Block => Verdict::Block,
        },
        reason: rule.reason.clone(),
        code: rule.code.clone(),
        alternative: rule.alternative.clone(),
        what,
        about: Vec::new(),
        process,
        allowed_by,
    }
}

/// Returns what a finding is about, word by word. What is about no process of its own is about all of them.
fn subject(trace: &Trace, fact: usize, process: Option<usize>) -> Vec<String> {
    let touched = match trace.facts.get(fact) {
        Some(Fact::Touches { touch, .. }) => {
            Some(Argument::marked(touch.path.clone()).display().into_owned())
        }
        _ => None,
    };
    let about = match process.and_then(|at| trace.processes.get(at)) {
        Some(process) => std::slice::from_ref(process),
        None => trace.processes.as_slice(),
    };
    // A word of its own at each end, so that two processes are not taken for one.
    let words = about.iter().flat_map(|process| {
        process.argv().iter().map(|word| word.display().into_owned()).chain([String::from("\n")])
    });
    touched.into_iter().chain(words).collect()
}

/// Returns what a finding is about, in a few words.
fn describe(trace: &Trace, fact: usize, process: Option<usize>) -> String {
    if let Some(Fact::Touches { touch, .. }) = trace.facts.get(fact) {
        return Argument::marked(touch.path.clone()).display().into_owned();
    }
    let Some(process) = process.and_then(|at| trace.processes.get(at)) else {
        return "the whole command".into();
    };
    let words: Vec<_> = process.argv().iter().take(12).map(Argument::display).collect();
    let mut text = words.join(" ");
    if text.len() > 160 || words.len() < process.argv().len() {
        text = text.chars().take(160).chain(['…']).collect();
    }
    text
}
