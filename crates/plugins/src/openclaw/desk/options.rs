//! The options of what a plugin registers, read in the dialect of its import.
//!
//! The law: *no option vanishes*. One that nobody knows, or that says nothing that can be read, is an error in a plugin of this
//! system and listed as left out in one of the other; a hook is never asked less often because of it.

use std::sync::PoisonError;

use backstop_engine::{Budget, ToolMatcher};
use backstop_hooks::{PointId, Trigger};
use backstop_script::{CallScope, HostError, ScriptError};
use serde::Deserialize;
use serde_json::Value;

use super::{Desk, Dialect, HookCall, LONGEST_WORDS, refused};

/// The longest budget that an author may set.
const LONGEST_MS: u64 = 600_000;

/// The kinds of dispatches there.
const DISPATCH_KINDS: [&str; 2] = ["agent", "acp"];

#[derive(Deserialize)]
pub(super) struct OptionCall {
    /// The method.
    of: String,
    /// What it was called for.
    name: String,
    option: String,
    known: Vec<String>,
}

impl Desk {
    /// The author's budget. Authors of the other system may set any; what is too long here is cut, and said.
    pub(super) fn timeout(&self, scope: &CallScope, call: &HookCall) -> Result<Option<Budget>, HostError> {
        if call.timeout_ms.is_null() {
            return Ok(None);
        }
        let given = call.timeout_ms.as_f64().filter(|ms| ms.is_finite() && *ms > 0.0);
        let Some(given) = given else {
            return Err(refused(format!(
                "`timeoutMs` at `{}` is a positive number of milliseconds",
                call.point
            )));
        };
        #[expect(
            clippy::cast_precision_loss,
            reason = "the bound is far below where numbers lose their last digit"
        )]
        let longest = LONGEST_MS as f64;
        if given > longest {
            if self.facts.dialect == Dialect::Backstop {
                return Err(refused(format!("`timeoutMs` at `{}` is at most {LONGEST_MS}", call.point)));
            }
            let what = format!("`timeoutMs` of {} (`{}`)", call.registration, call.point);
            self.leave_out(scope, what, format!("a budget is at most {LONGEST_MS} ms; that holds instead"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is between 1 and the longest"
        )]
        let ms = given.clamp(1.0, longest) as u64;
        Budget::from_millis(ms).map(Some).map_err(|error| refused(error.to_string()))
    }

    pub(super) fn matcher(
        &self,
        scope: &CallScope,
        call: &HookCall,
        point: PointId,
    ) -> Result<Option<ToolMatcher>, HostError> {
        if call.matcher.is_null() {
            return Ok(None);
        }
        let about_tools = matches!(
            point,
            PointId::BeforeToolCall
                | PointId::AfterToolCall
                | PointId::TrustedToolPolicy
                | PointId::ToolBefore
                | PointId::ToolAfter
        );
        if !about_tools {
            if self.facts.dialect == Dialect::Backstop {
                return Err(refused(format!(
                    "`matcher` means nothing at `{}`, which is about no tool",
                    call.point
                )));
            }
            let what = format!("`matcher` of {} (`{}`)", call.registration, call.point);
            self.leave_out(scope, what, "the point is about no tool; the hook is asked each time");
            return Ok(None);
        }
        let Some(names) = texts(&call.matcher) else {
            return Err(refused(format!("`matcher` at `{}` is a list of names of tools", call.point)));
        };
        ToolMatcher::names(names.iter().map(String::as_str))
            .map(Some)
            .map_err(|error| refused(error.to_string()))
    }

    /// What is said of an option that does not restrict its hook: a word of ours that is wrong is an error, one of the other
    /// system's restricts nothing there either.
    ///
    /// INVARIANT (no hook is asked less often than its author may believe): what can't be read leaves a hook asked each time.
    fn unrestricted(
        &self,
        scope: &CallScope,
        call: &HookCall,
        option: &str,
        why: &str,
    ) -> Result<(), HostError> {
        if self.facts.dialect == Dialect::Backstop {
            return Err(refused(format!("`{option}` at `{}`: {why}", call.point)));
        }
        let what = format!("`{option}` of {} (`{}`)", call.registration, call.point);
        self.leave_out(scope, what, format!("{why}; the hook is asked each time"));
        Ok(())
    }

    /// Triggers mean something at one point of the other system. At any other a hook is asked whatever started the run.
    pub(super) fn triggers(
        &self,
        scope: &CallScope,
        call: &HookCall,
        point: PointId,
    ) -> Result<Option<Vec<Trigger>>, HostError> {
        if call.eligible_triggers.is_null() {
            return Ok(None);
        }
        let read = serde_json::from_value::<Vec<Trigger>>(call.eligible_triggers.clone()).ok();
        let why = match read.filter(|triggers| !triggers.is_empty()) {
            _ if point != PointId::BeforeAgentReply => "it means something at `before_agent_reply` only",
            Some(triggers) => return Ok(Some(triggers)),
            None => "it is a list of user, cron, heartbeat, agent",
        };
        self.unrestricted(scope, call, "eligibleTriggers", why)?;
        Ok(None)
    }

    pub(super) fn dispatch_kinds(
        &self,
        scope: &CallScope,
        call: &HookCall,
        point: PointId,
    ) -> Result<Option<Vec<String>>, HostError> {
        if call.eligible_dispatch_kinds.is_null() {
            return Ok(None);
        }
        let known = |kinds: &Vec<String>| {
            !kinds.is_empty() && kinds.iter().all(|kind| DISPATCH_KINDS.contains(&kind.as_str()))
        };
        let why = match texts(&call.eligible_dispatch_kinds).filter(known) {
            _ if point != PointId::ReplyDispatch => "it means something at `reply_dispatch` only",
            Some(kinds) => return Ok(Some(kinds)),
            None => "it is a list of agent, acp",
        };
        self.unrestricted(scope, call, "eligibleDispatchKinds", why)?;
        Ok(None)
    }

    /// An author's priority: a whole number. Authors of the other system may write any; the whole number below it holds.
    pub(super) fn priority(&self, scope: &CallScope, call: &HookCall) -> Result<i32, HostError> {
        if call.priority.is_null() {
            return Ok(0);
        }
        if let Some(given) = call.priority.as_i64().and_then(|given| i32::try_from(given).ok()) {
            return Ok(given);
        }
        let wrong = || refused(format!("`priority` at `{}` is a whole number", call.point));
        let given = call.priority.as_f64().filter(|_| self.facts.dialect == Dialect::OpenClaw);
        let given = given.ok_or_else(wrong)?.floor().clamp(f64::from(i32::MIN), f64::from(i32::MAX));
        #[expect(clippy::cast_possible_truncation, reason = "it is a whole number within the bounds")]
        let taken = given as i32;
        let what = format!("`priority` of {} (`{}`)", call.registration, call.point);
        self.leave_out(
            scope,
            what,
            format!("it is no whole number of 32 bits; {taken} holds, and equals keep their order"),
        );
        Ok(taken)
    }

    /// An option that its method does not have.
    pub(super) fn option(&self, scope: &CallScope, call: &OptionCall) -> Result<Value, HostError> {
        let OptionCall { of, name, option, known } = call;
        let named = if name.is_empty() { String::new() } else { format!(" (`{name}`)") };
        let near = backstop_yaml::nearest(option, known.iter().map(String::as_str));
        let hint = near.map(|near| format!("did you mean `{near}`?"));
        if self.facts.dialect == Dialect::Backstop {
            let hint = hint.unwrap_or_else(|| format!("it has {}", known.join(", ")));
            return Err(refused(format!("{of}{named} has no option `{option}`\nhint: {hint}")));
        }
        let why = format!("nothing here reads it, so nothing comes of it; {}", hint.unwrap_or_default());
        let what: String = format!("`{option}` of {of}{named}").chars().take(LONGEST_WORDS).collect();
        if self.is_over(scope) {
            tracing::warn!(plugin = %self.owner, "{what}: {why}");
        }
        self.leave_out(scope, what, why.trim_end_matches("; "));
        Ok(Value::Null)
    }
}

impl Desk {
    /// Takes the names that `api` has.
    pub(super) fn note_names(&self, told: ApiNames) -> Value {
        let known = told.names.into_iter().filter(|name| name.len() <= LONGEST_NAME).take(MOST_NAMES);
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = known.collect();
        Value::Null
    }

    /// The error of a load, with the name that was meant where it is about a function that `api` does not have.
    pub(in crate::openclaw) fn hinted(&self, mut error: ScriptError) -> ScriptError {
        if let ScriptError::Thrown { message, .. } = &mut error
            && let Some(called) = message.strip_suffix(" is not a function")
        {
            let called = called.rsplit([' ', '.']).next().unwrap_or_default().trim_matches('`');
            let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(near) = backstop_yaml::nearest(called, names.iter().map(String::as_str)) {
                let hint = format!("\nhint: did you mean `{near}`?");
                message.push_str(&hint);
            }
        }
        error
    }
}

/// What the names of `api` are told with.
#[derive(Deserialize)]
pub(super) struct ApiNames {
    names: Vec<String>,
}

/// Most names of `api` that are kept, and the longest of them in bytes.
const MOST_NAMES: usize = 512;
const LONGEST_NAME: usize = 64;

fn texts(value: &Value) -> Option<Vec<String>> {
    serde_json::from_value(value.clone()).ok()
}
