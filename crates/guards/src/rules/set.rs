//! Rules, indexed by the facts they match.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use backstop_shell::marks::{ANY, STAR, has_hole};
use backstop_shell::programs::Programs;
use backstop_shell::{Action, Fact, Holder, Place, Process, Taint, Touch, Trace};

use super::made::Made;
use super::matching::{Parsed, origin_fits, signal_of, touch_fits};
use super::{Profile, Rule, TouchCondition, When, built_in};
use crate::paths::Target;

static BUILT_IN: LazyLock<Arc<RuleSet>> = LazyLock::new(|| Arc::new(built_in::rules()));

/// Why a rule pack was refused.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// Two rules have the same id.
    #[error(
        "rule `{id}` is defined twice\nhint: ids must be unique over all packs, the built-in ones included"
    )]
    Duplicate {
        /// The id.
        id: String,
    },
    /// A rule that nothing can trigger.
    #[error("rule `{id}` has no condition under `when`, so it could never trigger")]
    NeverMatches {
        /// The id.
        id: String,
    },
    /// An example under `match` does not trigger its rule.
    #[error("rule `{id}` is not triggered by its own example `{example}`")]
    ExampleDoesNotMatch {
        /// The id.
        id: String,
        /// The command.
        example: String,
    },
    /// An example under `no_match` triggers its rule.
    #[error("rule `{id}` is triggered by its counter-example `{example}`")]
    CounterExampleMatches {
        /// The id.
        id: String,
        /// The command.
        example: String,
    },
}

impl PackError {
    /// Returns the id of the rule that was refused.
    pub fn id(&self) -> &str {
        match self {
            Self::Duplicate { id }
            | Self::NeverMatches { id }
            | Self::ExampleDoesNotMatch { id, .. }
            | Self::CounterExampleMatches { id, .. } => id,
        }
    }
}

/// A set of rules that can judge a command.
#[derive(Debug, Default, Clone)]
pub struct RuleSet {
    rules: Vec<Slot>,
    /// Where to look, by program.
    runs: HashMap<Cow<'static, str>, Vec<Condition>>,
    /// The same by the beginning of its name.
    prefixes: Vec<(Cow<'static, str>, Condition)>,
    /// Where to look, by what is done to a file.
    touches: HashMap<Action, Vec<Condition>>,
    code: Vec<Condition>,
    sends: Vec<Condition>,
    signals: Vec<Condition>,
    broken: OnceLock<String>,
}

/// A rule, read when it is first looked at.
#[derive(Debug, Clone)]
struct Slot {
    written: &'static str,
    rule: OnceLock<Option<Box<Rule>>>,
}

impl Slot {
    fn written(written: &'static str) -> Self {
        Self { written, rule: OnceLock::new() }
    }

    fn read(rule: Rule) -> Self {
        Self { written: "", rule: OnceLock::from(Some(Box::new(rule))) }
    }
}

/// Where a condition stands: the rule, and which of its conditions.
pub(super) type Condition = (usize, usize);

/// A rule that applies, and to which process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Hit {
    pub(crate) rule: usize,
    pub(crate) process: Option<usize>,
    pub(crate) fact: usize,
}

impl RuleSet {
    /// Returns the built-in packs.
    pub fn built_in() -> Arc<Self> {
        Arc::clone(&BUILT_IN)
    }

    /// Returns the built-in packs and `more`, whose examples are checked.
    ///
    /// # Errors
    ///
    /// [`PackError`] names the first rule that is ambiguous, can never trigger, or contradicts its examples.
    pub fn with(more: Vec<Rule>) -> Result<Self, PackError> {
        Self::with_programs(more, &Programs::built_in())
    }

    /// Like [`Self::with`]; the examples may use any of these programs.
    ///
    /// # Errors
    ///
    /// Like [`Self::with`].
    pub fn with_programs(more: Vec<Rule>, programs: &Arc<Programs>) -> Result<Self, PackError> {
        let built_in = Self::built_in();
        for (at, rule) in more.iter().enumerate() {
            let twice = more.iter().take(at).chain(built_in.rules()).any(|other| other.id == rule.id);
            if twice {
                return Err(PackError::Duplicate { id: rule.id.clone() });
            }
            if rule.when.is_empty() {
                return Err(PackError::NeverMatches { id: rule.id.clone() });
            }
        }
        let mut set = Self::clone(&built_in);
        let added = set.rules.len();
        more.into_iter().for_each(|rule| set.add(rule));
        set.check_examples(added, programs)?;
        Ok(set)
    }

    /// Checks the examples of the rules from index `from` on.
    pub(crate) fn check_examples(&self, from: usize, programs: &Arc<Programs>) -> Result<(), PackError> {
        let place = Place::new("/work/project").with_home("/home/user");
        for (at, rule) in (from..).zip(self.rules().skip(from)) {
            let triggers = |example: &str| {
                let trace = crate::guard::trace_for_check(example, &place, programs);
                self.hits(&trace, &place, Profile::Strict).iter().any(|hit| hit.rule == at)
            };
            if let Some(example) = rule.matches.iter().find(|example| !triggers(example)) {
                return Err(PackError::ExampleDoesNotMatch { id: rule.id.clone(), example: example.clone() });
            }
            if let Some(example) = rule.no_match.iter().find(|example| triggers(example)) {
                return Err(PackError::CounterExampleMatches {
                    id: rule.id.clone(),
                    example: example.clone(),
                });
            }
        }
        Ok(())
    }

    /// Returns the rules.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        (0..self.rules.len()).filter_map(|at| self.rule(at))
    }

    /// One of them.
    pub(crate) fn rule(&self, at: usize) -> Option<&Rule> {
        let slot = self.rules.get(at)?;
        let read = || match serde_json::from_str(slot.written) {
            Ok(rule) => Some(Box::new(prepared(rule))),
            Err(error) => {
                // It is enough to know of the first.
                let _ = self.broken.set(error.to_string());
                None
            }
        };
        slot.rule.get_or_init(read).as_deref()
    }

    /// Returns why the set is not whole, if one of the rules that were looked at could not be read. A guard with such a set
    /// stops everything: a guard without its rules must not look like one that found nothing.
    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.get().map(String::as_str)
    }

    /// Rules as the build script writes them, without the tables that lead to them.
    pub(super) fn written(rules: &'static [&'static str]) -> Self {
        Self { rules: rules.iter().map(|rule| Slot::written(rule)).collect(), ..Self::default() }
    }

    /// Where to look for code that runs, data that leaves, and signals.
    pub(super) fn add_others(
        &mut self,
        code: Vec<Condition>,
        sends: Vec<Condition>,
        signals: Vec<Condition>,
    ) {
        self.code = code;
        self.sends = sends;
        self.signals = signals;
        self.prefixes.sort_by_key(|(_, condition)| *condition);
    }

    fn add(&mut self, rule: Rule) {
        let at = self.rules.len();
        for (nth, when) in rule.when.iter().enumerate() {
            let condition = (at, nth);
            match when {
                When::Run(run) => {
                    run.program.iter().for_each(|program| self.add_run(program.clone().into(), condition));
                }
                When::Touch(touch) if touch.action.is_empty() => {
                    Action::ALL.iter().for_each(|action| self.add_touch(*action, condition));
                }
                When::Touch(touch) => {
                    touch.action.iter().for_each(|action| self.add_touch(*action, condition));
                }
                When::Code(_) => self.code.push(condition),
                When::Sends(_) => self.sends.push(condition),
                When::Signal(_) => self.signals.push(condition),
            }
        }
        self.rules.push(Slot::read(prepared(rule)));
    }

    pub(super) fn add_run(&mut self, program: Cow<'static, str>, condition: Condition) {
        match program.strip_suffix('*') {
            Some(prefix) => self.prefixes.push((prefix.to_owned().into(), condition)),
            None => self.runs.entry(program).or_default().push(condition),
        }
    }

    pub(super) fn add_touch(&mut self, action: Action, condition: Condition) {
        let known = self.touches.entry(action).or_default();
        if known.last() != Some(&condition) {
            known.push(condition);
        }
    }

    fn condition(&self, (rule, nth): Condition, profile: Profile) -> Option<&When> {
        self.rule(rule).filter(|rule| rule.profile <= profile)?.when.get(nth)
    }

    /// Returns every rule that counts in the profile and applies to something in the trace.
    pub(crate) fn hits(&self, trace: &Trace, at: &Place, profile: Profile) -> Vec<Hit> {
        let mut hits = Vec::new();
        let made = Made::by(trace);
        for (fact_at, fact) in trace.facts.iter().enumerate() {
            let mut add =
                |rule: usize, process: Option<usize>| hits.push(Hit { rule, process, fact: fact_at });
            match fact {
                Fact::Starts { process } => {
                    let Some(started) = trace.processes.get(*process) else { continue };
                    let program = started.program();
                    let prefixed = self.prefixes.iter().filter(|(prefix, _)| program.starts_with(&**prefix));
                    let named = self.runs.get(program.as_str()).into_iter().flatten();
                    let mut candidates = prefixed.map(|(_, place)| *place).chain(named.copied()).peekable();
                    if candidates.peek().is_none() {
                        continue;
                    }
                    let parsed = Parsed::new(*process, started, &made, at);
                    for place in candidates {
                        if let Some(When::Run(run)) = self.condition(place, profile)
                            && parsed.fits(run)
                        {
                            add(place.0, Some(*process));
                        }
                    }
                }
                Fact::Touches { process, touch } => {
                    let program = process.and_then(|at| trace.processes.get(at)).map(Process::program);
                    let program = program.as_deref().unwrap_or_default();
                    // As it is written, and as the disk has it.
                    let real = on_disk(touch, at);
                    for touch in [Some(touch), real.as_ref()].into_iter().flatten() {
                        let target = Target::of(touch, at);
                        for &place in self.touches.get(&touch.action).into_iter().flatten() {
                            if let Some(When::Touch(condition)) = self.condition(place, profile)
                                && touch_fits(condition, touch, target, program, at)
                                && !is_excepted(condition, *process, &made, at)
                            {
                                add(place.0, *process);
                            }
                        }
                    }
                }
                Fact::RunsCode { process, from } => {
                    for &place in &self.code {
                        if let Some(When::Code(origins)) = self.condition(place, profile)
                            && origin_fits(origins, *from)
                        {
                            add(place.0, *process);
                        }
                    }
                }
                Fact::Sends { process, what } => {
                    for &place in &self.sends {
                        if let Some(When::Sends(origins)) = self.condition(place, profile)
                            && *what != Taint::NONE
                            && origin_fits(origins, *what)
                        {
                            add(place.0, Some(*process));
                        }
                    }
                }
                Fact::ForkBomb
                | Fact::Endless
                | Fact::NetworkShell { .. }
                | Fact::CodeActs { .. }
                | Fact::Obfuscated => {
                    let (process, signal) = (process_of(fact), signal_of(fact));
                    for &place in &self.signals {
                        if let Some(When::Signal(wanted)) = self.condition(place, profile)
                            && signal == Some(*wanted)
                        {
                            add(place.0, process);
                        }
                    }
                }
            }
        }
        hits
    }
}

/// A rule whose texts are written as they are searched for.
fn prepared(mut rule: Rule) -> Rule {
    for when in &mut rule.when {
        if let When::Run(run) = when {
            for text in run.contains.iter_mut().chain(&mut run.also).chain(&mut run.lacks) {
                *text = searched(text);
            }
        }
    }
    rule
}

/// Returns the touch of what links on the disk lead to, where that is something else. What is deleted or moved is a link
/// itself, in the folder that links before it lead to.
fn on_disk(touch: &Touch, at: &Place) -> Option<Touch> {
    let written = touch.climbing.as_ref().unwrap_or(&touch.resolved);
    if !touch.is_anchored
        || touch.holder != Holder::Machine
        || has_hole(written)
        || written.contains([STAR, ANY])
    {
        return None;
    }
    let goes = matches!(touch.action, Action::Delete | Action::Move) && !touch.path.ends_with('/');
    let real = match written.rsplit_once('/').filter(|(_, name)| goes && *name != "..") {
        Some((folder, name)) => format!("{}/{name}", at.leads_to(folder)?.trim_end_matches('/')),
        None => at.leads_to(written)?,
    };
    (real != touch.resolved).then(|| Touch { resolved: real, ..touch.clone() })
}

/// Returns the process that a signal is about, if it is about one.
fn process_of(signal: &Fact) -> Option<usize> {
    match signal {
        Fact::NetworkShell { process } | Fact::CodeActs { process } => Some(*process),
        _ => None,
    }
}

/// A text as it is searched for among the arguments, which are in small letters and each between NULs.
fn searched(text: &str) -> String {
    let (front, text) = text.strip_prefix('^').map_or(("", text), |rest| ("\0", rest));
    let (text, back) = text.strip_suffix('$').map_or((text, ""), |rest| (rest, "\0"));
    format!("{front}{}{back}", text.to_ascii_lowercase())
}

/// Returns whether a condition leaves out what this process touches.
fn is_excepted<'a>(
    condition: &TouchCondition,
    process: Option<usize>,
    made: &'a Made<'a>,
    at: &'a Place,
) -> bool {
    if condition.unless.is_empty() {
        return false;
    }
    let toucher = process.and_then(|nth| Some((nth, made.trace().processes.get(nth)?)));
    let parsed = toucher.map(|(nth, process)| Parsed::new(nth, process, made, at));
    parsed.is_some_and(|parsed| condition.unless.iter().any(|run| parsed.is_run(run)))
}

#[cfg(test)]
mod tests {
    use super::super::read_pack;
    use super::*;

    #[test]
    fn a_guard_without_its_rules_stops_everything() {
        let mut rules = RuleSet { rules: vec![Slot::written("{")], ..RuleSet::default() };
        rules.add_run("ls".into(), (0, 0));
        let rules = Arc::new(rules);
        let guard = crate::CommandGuard::new(crate::GuardSettings { rules, ..Default::default() });
        let judgement = guard.judge("ls", crate::ShellKind::Posix, &Place::unknown(), 0);
        assert_eq!(judgement.verdict, crate::Verdict::Block);
        assert_eq!(judgement.findings.first().map(|finding| finding.rule_id.as_str()), Some("guard.broken"));
    }

    /// Returns the built-in rules as their files say, with file and line.
    fn written() -> Vec<backstop_yaml::Spanned<Rule>> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/rules/packs");
        let mut paths: Vec<_> = std::fs::read_dir(folder)
            .expect("the packs")
            .map(|entry| entry.expect("a pack").path())
            .collect();
        paths.sort();
        let read = |path: &std::path::PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(path).expect("a pack");
            read_pack(&name, &text).unwrap_or_else(|problems| panic!("{problems:#?}"))
        };
        paths.iter().flat_map(read).collect()
    }

    #[test]
    fn the_built_in_packs_are_read_by_the_reader_of_operators() {
        let ids: Vec<String> = written().into_iter().map(|rule| rule.value.id).collect();
        let set = RuleSet::built_in();
        let compiled: Vec<&str> = set.rules().map(|rule| rule.id.as_str()).collect();
        assert_eq!(compiled, ids);
        assert_eq!(set.broken(), None);
    }

    #[test]
    fn every_rule_has_a_source_a_match_and_a_near_miss() {
        for rule in written() {
            let (rule, at) = (rule.value, rule.at);
            let named = rule.source.is_some_and(|source| source.len() > 5);
            assert!(named, "{at}: `{}` does not say where it is from", rule.id);
            assert!(!rule.matches.is_empty(), "{at}: `{}` has no example", rule.id);
            assert!(!rule.no_match.is_empty(), "{at}: `{}` has no near miss", rule.id);
            assert!(!rule.when.is_empty(), "{at}: `{}` has no condition", rule.id);
        }
    }

    #[test]
    fn every_built_in_rule_keeps_its_promises_and_has_a_name_of_its_own() {
        let set = RuleSet::built_in();
        let mut ids: Vec<&str> = set.rules().map(|rule| rule.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), written().len());
        let mut wrong = Vec::new();
        let place = Place::new("/work/project").with_home("/home/user");
        for (at, rule) in written().into_iter().map(|rule| rule.value).enumerate() {
            let triggers = |example: &str| {
                let trace = crate::guard::trace_for_check(example, &place, &Programs::built_in());
                set.hits(&trace, &place, Profile::Strict).iter().any(|hit| hit.rule == at)
            };
            wrong.extend(
                rule.matches.iter().filter(|e| !triggers(e)).map(|e| format!("{} misses `{e}`", rule.id)),
            );
            wrong.extend(
                rule.no_match.iter().filter(|e| triggers(e)).map(|e| format!("{} hits `{e}`", rule.id)),
            );
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn what_is_wrong_in_a_pack_is_named_with_its_line() {
        let pack = "# ours\n- id: own.deploy\n  severity: warning\n  verdict: ask\n  profile: standard\n  reason: deploys\n  \
                    code: DEPLOY\n  when:\n    - run: {program: [deploy], conains: [prod]}\n";
        let problems = read_pack("ours.yaml", pack).expect_err("a key is misspelt");
        let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            ["error: unknown key `conains`\n  --> ours.yaml:9:32\n  hint: did you mean `contains`?"]
        );
        let mended = pack.replace("conains", "contains");
        assert_eq!(read_pack("ours.yaml", &mended).map(|rules| rules.len()), Ok(1));
        for text in ["7", "rules: 7", "rules: []\nmore: 1", "[7]", "- id: x", "{id: x}", "[", "rules: {}"] {
            assert!(read_pack("ours.yaml", text).is_err(), "{text}");
        }
    }

    #[test]
    fn marks_stand_for_the_ends_of_an_argument() {
        assert_eq!(searched("^-S$"), "\0-s\0");
        assert_eq!(searched("a\0B"), "a\0b");
        assert_eq!(searched("$(x"), "$(x");
    }
}
