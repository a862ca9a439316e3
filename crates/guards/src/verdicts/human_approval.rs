//! `human_approval`: a human decides if a condition holds.
//!
//! Without `when` every call is asked about. All conditions in `when` must hold: the tool is one of
//! `tools`, is none of `except_tools`, and some argument matches one of `argument_patterns`. Names and patterns
//! are written as in a `policy`. `except_tools` lists the harmless tools, and everything
//! else is asked about; such a list stays right when new tools are added.
//!
//! The hook asks like any other hook: other hooks continue to judge, their requests become part of the same
//! question, and the human decides about the final arguments. No answer in time means no.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use backstop_engine::{HookVerdict, ToolCallHook, VerdictCall, VerdictHook};
use backstop_hooks::{
    ApprovalRequest, Decision, HookError, Malformed, Severity, ShownName, TimeoutBehavior, ToolName,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::arguments::{ArgumentPatterns, Scope};
use super::policy::{hints, named};
use super::tool_pattern::ToolPattern;

/// The options of a human's approval, as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HumanApprovalOptions {
    /// What is asked about; every call, when absent.
    #[serde(default)]
    pub when: Option<When>,
    /// The question, in one line of at most 80 characters. By default it names the tool.
    #[serde(default)]
    pub title: Option<String>,
    /// Background for the human, in at most 512 characters. By default it says why the question is asked.
    #[serde(default)]
    pub description: Option<String>,
    /// The severity: `info`, `warning` (the default) or `critical`.
    #[serde(default)]
    pub severity: Severity,
    /// How long to wait for an answer, in seconds, at most 600. By default, the setting of the approvals.
    #[serde(default)]
    pub timeout: Option<f64>,
    /// What the human can answer: a subset of `allow-once`, `allow-always` and `deny`. Deny is always offered. By
    /// default, all of them.
    #[serde(default)]
    pub decisions: Option<Vec<Decision>>,
}

/// A condition. All of its parts must hold.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// The tool is one of these.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
    /// The tool is none of these.
    #[serde(default)]
    pub except_tools: Option<Vec<String>>,
    /// Some argument matches: regular expressions by argument name.
    #[serde(default)]
    pub argument_patterns: Option<BTreeMap<String, Vec<String>>>,
    /// Arguments that only your own tools have.
    #[serde(default)]
    pub extra_arguments: Vec<String>,
}

/// A human's approval, ready to be asked for.
#[derive(Debug)]
pub struct HumanApproval {
    condition: Condition,
    title: Option<String>,
    description: Option<String>,
    severity: Severity,
    timeout: Option<Duration>,
    decisions: Option<Vec<Decision>>,
}

#[derive(Debug, Default)]
struct Condition {
    tools: Option<Vec<ToolPattern>>,
    except_tools: Vec<ToolPattern>,
    hints: Vec<String>,
    arguments: Option<ArgumentPatterns>,
}

impl HumanApproval {
    /// Checks and compiles the options. `tools` are the tools that exist.
    ///
    /// # Errors
    ///
    /// [`Malformed`] naming the option: a condition that is empty or can't hold, a text or a time that exceeds
    /// its limit.
    pub fn new(options: &HumanApprovalOptions, tools: &[ToolName]) -> Result<Self, Malformed> {
        let condition = options.when.as_ref().map(|when| Condition::new(when, tools)).transpose()?;
        let approval = Self {
            condition: condition.unwrap_or_default(),
            title: options.title.clone(),
            description: options.description.clone(),
            severity: options.severity,
            timeout: options.timeout.map(seconds).transpose()?,
            decisions: options.decisions.clone(),
        };
        approval.check_texts()?;
        Ok(approval)
    }

    /// Refuses texts that would be cut: what is cut off is what nobody is told.
    fn check_texts(&self) -> Result<(), Malformed> {
        let title = self.title.as_deref().unwrap_or("title");
        ApprovalRequest::new(title, self.description.as_deref().unwrap_or_default())
            .map(drop)
            .map_err(|error| Malformed::new(error.to_string()))
    }

    /// Returns the question about a call; `None` if the condition does not hold.
    pub fn asks(&self, tool: &ToolName, arguments: &Map<String, Value>) -> Option<ApprovalRequest> {
        let because = self.condition.holds(tool, arguments)?;
        let title = self.title.clone().unwrap_or_else(|| format!("`{tool}` needs approval"));
        let request = ApprovalRequest::cut(&title, self.description.as_deref().unwrap_or(&because))
            .severity(self.severity);
        let request = match &self.decisions {
            Some(decisions) => request.decisions(decisions.iter().copied()),
            None => request,
        };
        match self.timeout {
            // The timeout was checked; a request that can't have it keeps its own.
            Some(timeout) => Some(request.clone().timeout(timeout, TimeoutBehavior::Deny).unwrap_or(request)),
            None => Some(request),
        }
    }
}

fn seconds(timeout: f64) -> Result<Duration, Malformed> {
    Duration::try_from_secs_f64(timeout)
        .ok()
        .filter(|timeout| (1..=600_000).contains(&timeout.as_millis()))
        .ok_or_else(|| Malformed::new("`timeout` is a number of seconds, more than 0 and at most 600"))
}

impl Condition {
    fn new(when: &When, known: &[ToolName]) -> Result<Self, Malformed> {
        let When { tools, except_tools, argument_patterns, extra_arguments } = when;
        if tools.is_none() && except_tools.is_none() && argument_patterns.is_none() {
            return Err(Malformed::new(
                "`when` says nothing\nhint: leave it out to be asked about every call",
            ));
        }
        let patterns = |option: &str, names: &Option<Vec<String>>| -> Result<_, Malformed> {
            let Some(names) = names else { return Ok(None) };
            if names.is_empty() {
                return Err(Malformed::new(format!("`{option}` is empty\nhint: leave it out")));
            }
            Ok(Some(ToolPattern::list(option, names)?))
        };
        let tools = patterns("tools", tools)?;
        let except_tools = patterns("except_tools", except_tools)?.unwrap_or_default();
        let mut found = hints("tools", tools.as_deref().unwrap_or_default(), known);
        found.extend(hints("except_tools", &except_tools, known));
        let scope = named(tools.as_deref(), |tool| except_tools.iter().any(|pattern| pattern.allows(tool)));
        let arguments = match argument_patterns {
            Some(written) if written.is_empty() => {
                return Err(Malformed::new("`argument_patterns` is empty\nhint: leave it out"));
            }
            Some(written) => {
                Some(ArgumentPatterns::new("argument_patterns", written, &scope, extra_arguments)?)
            }
            None => None,
        };
        if scope == Scope::Named(Vec::new()) {
            return Err(Malformed::new("`except_tools` leaves none of `tools`, so nothing would be asked"));
        }
        Ok(Self { tools, except_tools, hints: found, arguments })
    }

    /// Returns why a call is asked about, in words without its values.
    fn holds(&self, tool: &ToolName, arguments: &Map<String, Value>) -> Option<String> {
        // To ask is as strict as to deny, to be excepted from it is as lenient as to be allowed.
        let asked = |tools: &Vec<ToolPattern>| tools.iter().any(|pattern| pattern.denies(tool));
        let excepted = self.except_tools.iter().any(|pattern| pattern.allows(tool));
        if excepted || !self.tools.as_ref().is_none_or(asked) {
            return None;
        }
        match &self.arguments {
            Some(patterns) => patterns.find(tool, arguments).map(|(name, pattern)| {
                format!("argument `{}` of `{tool}` matches `{pattern}`", ShownName::new(name))
            }),
            None => Some("every such call is asked about".to_owned()),
        }
    }
}

impl VerdictHook for HumanApproval {
    fn judges_values(&self) -> bool {
        true
    }

    fn hints(&self) -> Vec<String> {
        self.condition.hints.clone()
    }
}

#[async_trait]
impl ToolCallHook for HumanApproval {
    async fn pre_call(&self, call: VerdictCall<'_>) -> Result<HookVerdict, HookError> {
        Ok(match self.asks(call.tool, call.arguments) {
            Some(request) => HookVerdict::Ask(Box::new(request)),
            None => HookVerdict::Approve,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn approval(options: Value) -> Result<HumanApproval, Malformed> {
        let known: Vec<_> = backstop_hooks::tool_name::known_tools().map(ToolName::new).collect();
        HumanApproval::new(&super::super::read(&options)?, &known)
    }

    fn asks(approval: &HumanApproval, tool: &str, arguments: Value) -> Option<ApprovalRequest> {
        approval.asks(&ToolName::new(tool), arguments.as_object().unwrap())
    }

    #[test]
    fn human_approval_asks_where_its_condition_holds() {
        let push = approval(json!({"when": {
            "tools": ["exec"],
            "argument_patterns": {"command": ["git\\s+push", "kubectl"]},
        }}))
        .unwrap();
        let request = asks(&push, "exec", json!({"command": "git  push origin"})).unwrap();
        assert_eq!(request.title().as_str(), "`exec` needs approval");
        assert_eq!(request.description().as_str(), "argument `command` of `exec` matches `git\\s+push`");
        assert!(asks(&push, "exec", json!({"command": "git pull"})).is_none());
        assert!(asks(&push, "read", json!({"command": "git push"})).is_none());
    }

    #[test]
    fn without_a_condition_every_call_is_asked_about() {
        let all = approval(json!({})).unwrap();
        assert!(asks(&all, "read", json!({})).is_some());
        assert!(asks(&all, "mcp__x__y", json!({})).is_some());
    }

    #[test]
    fn what_is_not_listed_as_harmless_is_asked_about() {
        let others = approval(json!({"when": {"except_tools": ["read", "web_*"]}})).unwrap();
        assert!(asks(&others, "read", json!({})).is_none());
        assert!(asks(&others, "web_fetch", json!({})).is_none());
        assert!(asks(&others, "brand_new_tool", json!({})).is_some());
    }

    #[test]
    fn the_question_is_the_operators() {
        let deploy = approval(json!({
            "when": {"tools": ["exec"]},
            "title": "deploy?", "description": "this goes to production", "severity": "critical",
            "timeout": 30.5, "decisions": ["allow-once"],
        }))
        .unwrap();
        let request = asks(&deploy, "exec", json!({})).unwrap();
        assert_eq!(request.title().as_str(), "deploy?");
        assert_eq!(request.description().as_str(), "this goes to production");
        assert_eq!(request.severity_level(), Severity::Critical);
        assert_eq!(request.own_timeout(), Some(Duration::from_millis(30_500)));
        assert_eq!(request.timeout_behavior(), TimeoutBehavior::Deny);
        assert_eq!(request.allowed_decisions(), [Decision::AllowOnce, Decision::Deny]);
    }

    #[test]
    fn conditions_that_can_not_hold_are_refused() {
        for (options, part) in [
            (json!({"when": {}}), "`when` says nothing"),
            (json!({"when": {"tools": []}}), "`tools` is empty"),
            (json!({"when": {"tools": [""]}}), "it is empty"),
            (json!({"when": {"except_tools": ["group:x"]}}), "no such group"),
            (json!({"when": {"tools": ["exec"], "except_tools": ["exec"]}}), "leaves none"),
            (json!({"when": {"argument_patterns": {}}}), "is empty"),
            (json!({"when": {"argument_patterns": {"command": ["("]}}}), "no usable pattern"),
            (
                json!({"when": {"tools": ["exec"], "argument_patterns": {"comand": ["x"]}}}),
                "did you mean `command`?",
            ),
            (json!({"when": {"tool": ["exec"]}}), "unknown field"),
            (json!({"title": "x".repeat(81)}), "at most 80"),
            (json!({"description": "x".repeat(513)}), "at most 512"),
            (json!({"timeout": 0}), "`timeout`"),
            (json!({"timeout": 601}), "`timeout`"),
            (json!({"severity": "grave"}), "unknown variant"),
        ] {
            let error = approval(options).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
