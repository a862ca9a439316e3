//! Single rules of the command guard in shadow.
//!
//! The guard that counts judges as if these rules were not there; this hook, which is in shadow, says what they would have done besides. So
//! a rule in shadow hides nothing that another rule finds: what is looked for only where nothing was found is looked for as without it.
//!
//! The law: *a rule in shadow changes nothing*. What it finds is in the step of a hook in shadow, and nowhere else.
//!
//! Limits: a command about which the rules find something is judged twice more, within the time that hooks in shadow have.

use std::collections::BTreeSet;

use backstop_hooks::points::{BeforeToolCall, ToolBefore, ToolBeforeEvent, ToolCallEvent};
use backstop_hooks::{Answer, Context, Hook, HookError, Params, ToolName};

use super::Objection;
use super::command::{CommandSafety, objection};
use crate::{CommandGuard, GuardSettings, Verdict};

/// The id of the hook that says what rules of the command guard in shadow would have done.
pub const RULES_IN_SHADOW_ID: &str = "builtin:command-safety-guard/shadow";

/// What rules of the command guard in shadow would have done.
#[derive(Clone, Debug)]
pub struct RulesInShadow {
    /// The guard with all of its rules.
    all: CommandSafety,
    /// The one that counts.
    counting: CommandSafety,
    rules: BTreeSet<String>,
}

impl RulesInShadow {
    /// Returns the guard that counts, and what its rules in shadow would have done: those that the settings are without. `guard` makes
    /// a guard ready to be registered.
    pub fn split(
        settings: GuardSettings,
        guard: impl Fn(CommandGuard) -> CommandSafety,
    ) -> (CommandSafety, Option<Self>) {
        let rules = settings.without.clone();
        let all = GuardSettings { without: BTreeSet::new(), ..settings.clone() };
        let counting = guard(CommandGuard::new(settings));
        let shadow = (!rules.is_empty()).then(|| Self {
            all: guard(CommandGuard::new(all)),
            counting: counting.clone(),
            rules,
        });
        (counting, shadow)
    }

    /// Returns the guard with all of its rules, for a guard that is in shadow as a whole.
    pub fn whole(self) -> CommandSafety {
        self.all
    }

    /// Returns the rules, by id.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(String::as_str)
    }

    fn object(
        &self,
        tool: &ToolName,
        params: &Params,
        kind: Option<&str>,
        cx: Context<'_>,
    ) -> Result<Option<Objection>, HookError> {
        let all = self.all.found(tool, params, kind, cx)?;
        // Mostly nothing is found, by whatever rules.
        if all.iter().all(|judgement| judgement.verdict == Verdict::Pass) {
            return Ok(None);
        }
        let counting = self.counting.found(tool, params, kind, cx)?;
        let more = all.into_iter().zip(&counting).map(|(all, counting)| all.beyond(counting));
        Ok(objection(more.collect()))
    }
}

impl Hook<ToolBefore> for RulesInShadow {
    fn call<'a>(&'a self, event: &'a ToolBeforeEvent, cx: Context<'a>) -> Answer<'a, ToolBefore> {
        let found = self.object(&event.tool_name, &event.args, event.tool_kind.as_deref(), cx);
        Answer::Now(found.map(|found| found.map(Into::into)))
    }
}

impl Hook<BeforeToolCall> for RulesInShadow {
    fn call<'a>(&'a self, event: &'a ToolCallEvent, cx: Context<'a>) -> Answer<'a, BeforeToolCall> {
        let found = self.object(&event.tool_name, &event.params, event.tool_kind.as_deref(), cx);
        Answer::Now(found.map(|found| found.map(Into::into)))
    }
}
