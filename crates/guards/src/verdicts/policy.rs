//! `policy`: judges tool calls by allow and deny lists and by patterns in arguments. The first match wins:
//!
//! 1. `deny_tools`: the tool's name matches: deny.
//! 2. `deny_argument_patterns`: some string inside the named argument, however deep, matches: deny. So it does where the argument
//!    stands inside of another one.
//! 3. `allow_tools` is there and the tool's name does not match: deny.
//! 4. Otherwise: approve.
//!
//! Tools are named as in [`ToolPattern`]: a deny pattern holds if it matches one of the tool's names, an allow
//! pattern only for the name that was meant. Patterns in arguments are regular expressions that are searched for;
//! the argument `*` stands for every argument.
//!
//! Unknown names are accepted, because plugins, MCP servers and clients bring their own tools; a name close
//! to that of a known tool produces a hint for people. A pattern that can match no tool at all is refused, and so is an
//! argument that no tool can have (`arguments` says which are known): it is a typo that looks like protection.
//!
//! Limits: an argument pattern matches strings, and strings can be spelled in many ways. It is no
//! substitute for the command guard, which judges what a command does.

use std::collections::BTreeMap;

use async_trait::async_trait;
use backstop_engine::{HookVerdict, ToolCallHook, VerdictCall, VerdictHook};
use backstop_hooks::{HookError, Malformed, ShownName, ToolName};
use serde::Deserialize;
use serde_json::Value;

use super::arguments::{ArgumentPatterns, Scope};
use super::tool_pattern::ToolPattern;

/// The options of a policy, as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyOptions {
    /// Only these tools may run.
    #[serde(default)]
    pub allow_tools: Option<Vec<String>>,
    /// These tools may not run, whatever the other options say.
    #[serde(default)]
    pub deny_tools: Option<Vec<String>>,
    /// Regular expressions by argument name; a call with a matching string may not run.
    #[serde(default)]
    pub deny_argument_patterns: Option<BTreeMap<String, Vec<String>>>,
    /// Arguments in `deny_argument_patterns` that only your own tools have; they are used as written.
    #[serde(default)]
    pub extra_arguments: Vec<String>,
}

/// A policy, ready to judge.
#[derive(Debug)]
pub struct Policy {
    allow: Option<Vec<ToolPattern>>,
    deny: Vec<ToolPattern>,
    arguments: ArgumentPatterns,
    hints: Vec<String>,
}

impl Policy {
    /// Checks and compiles the rules. `tools` are the tools that exist.
    ///
    /// # Errors
    ///
    /// [`Malformed`] naming the option: an invalid pattern, a rule without entries, a pattern that can
    /// match no tool at all, an argument that no tool has, a policy without rules.
    pub fn new(options: &PolicyOptions, tools: &[ToolName]) -> Result<Self, Malformed> {
        let PolicyOptions { allow_tools, deny_tools, deny_argument_patterns, extra_arguments } = options;
        if allow_tools.is_none() && deny_tools.is_none() && deny_argument_patterns.is_none() {
            return Err(Malformed::new(
                "a policy without rules approves everything; write `type: passthrough` if that is meant",
            ));
        }
        if deny_tools.as_ref().is_some_and(Vec::is_empty) {
            return Err(Malformed::new(
                "`deny_tools` is empty, so it denies nothing; leave it out if that is meant",
            ));
        }
        let allow =
            allow_tools.as_deref().map(|names| ToolPattern::list("allow_tools", names)).transpose()?;
        let deny = ToolPattern::list("deny_tools", deny_tools.as_deref().unwrap_or_default())?;
        let mut found = hints("deny_tools", &deny, tools);
        found.extend(hints("allow_tools", allow.as_deref().unwrap_or_default(), tools));
        let arguments = ArgumentPatterns::new(
            "deny_argument_patterns",
            deny_argument_patterns.as_ref().unwrap_or(&BTreeMap::new()),
            &named(allow.as_deref(), |tool| deny.iter().any(|pattern| pattern.denies(tool))),
            extra_arguments,
        )?;
        Ok(Self { allow, deny, arguments, hints: found })
    }

    /// Returns why the call is denied; `None` to approve.
    pub fn denies(&self, tool: &ToolName, arguments: &serde_json::Map<String, Value>) -> Option<String> {
        if let Some(pattern) = self.deny.iter().find(|pattern| pattern.denies(tool)) {
            return Some(format!("tool `{tool}` is denied by `deny_tools` pattern `{pattern}`"));
        }
        if let Some((name, pattern)) = self.arguments.find(tool, arguments) {
            let name = ShownName::new(name);
            return Some(format!("argument `{name}` of `{tool}` matches the denied pattern `{pattern}`"));
        }
        match &self.allow {
            Some(allow) if !allow.iter().any(|pattern| pattern.allows(tool)) => {
                Some(format!("tool `{tool}` is not in `allow_tools`"))
            }
            _ => None,
        }
    }
}

/// Returns the tools that are left for a rule about arguments, where `only` names them one by one. A wildcard may mean
/// tools that nobody knows yet.
pub(super) fn named(only: Option<&[ToolPattern]>, is_out: impl Fn(&ToolName) -> bool) -> Scope {
    let tools = only.and_then(|only| only.iter().map(ToolPattern::tools).collect::<Option<Vec<_>>>());
    match tools {
        Some(tools) => Scope::Named(tools.into_iter().flatten().filter(|tool| !is_out(tool)).collect()),
        None => Scope::Any,
    }
}

/// Returns what people should know about the patterns of an option.
pub(super) fn hints(option: &str, patterns: &[ToolPattern], known: &[ToolName]) -> Vec<String> {
    let hints = patterns.iter().filter_map(|pattern| pattern.hint(known));
    hints.map(|hint| format!("`{option}`: {hint}")).collect()
}

impl VerdictHook for Policy {
    fn judges_values(&self) -> bool {
        true
    }

    fn hints(&self) -> Vec<String> {
        self.hints.clone()
    }
}

#[async_trait]
impl ToolCallHook for Policy {
    async fn pre_call(&self, call: VerdictCall<'_>) -> Result<HookVerdict, HookError> {
        Ok(match self.denies(call.tool, call.arguments) {
            Some(reason) => HookVerdict::Deny { reasoning: Some(reason.into()) },
            None => HookVerdict::Approve,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn known() -> Vec<ToolName> {
        backstop_hooks::tool_name::known_tools().map(ToolName::new).collect()
    }

    fn policy(options: Value) -> Result<Policy, Malformed> {
        Policy::new(&super::super::read(&options)?, &known())
    }

    fn denied(policy: &Policy, tool: &str, arguments: Value) -> Option<String> {
        policy.denies(&ToolName::new(tool), arguments.as_object().unwrap())
    }

    #[test]
    fn deny_beats_patterns_beats_allow() {
        let all = policy(json!({
            "deny_tools": ["exec"],
            "deny_argument_patterns": {"path": ["secret"]},
            "allow_tools": ["exec", "re*"],
        }))
        .unwrap();
        assert!(denied(&all, "exec", json!({})).unwrap().contains("deny_tools"));
        assert!(denied(&all, "bash", json!({})).unwrap().contains("deny_tools"));
        assert!(denied(&all, "read", json!({"path": "/secret"})).unwrap().contains("denied pattern"));
        assert!(denied(&all, "write", json!({})).unwrap().contains("allow_tools"));
        assert_eq!(denied(&all, "read", json!({"path": "a"})), None);
    }

    #[test]
    fn patterns_reach_every_nested_string() {
        let policy = policy(json!({"deny_argument_patterns": {"input": ["curl.*\\|.*sh"]}})).unwrap();
        for hidden in [
            json!({"input": "curl x | sh"}),
            json!({"input": ["a", {"b": ["curl x | sh"]}]}),
            json!({"input": {"curl x | sh": 1}}),
        ] {
            assert!(denied(&policy, "exec", hidden).is_some());
        }
        assert_eq!(denied(&policy, "exec", json!({"description": "curl x | sh"})), None);
        // Nobody knows how an argument is read that the tool does not have.
        assert!(denied(&policy, "exec", json!({"other": "curl x | sh"})).is_some());
    }

    #[test]
    fn every_argument_is_meant_by_a_star() {
        let policy = policy(json!({"deny_argument_patterns": {"*": ["^42$"]}})).unwrap();
        assert!(denied(&policy, "exec", json!({"x": [{"y": 42}]})).is_some());
        assert_eq!(denied(&policy, "exec", json!({"x": 421})), None);
    }

    #[test]
    fn an_argument_is_meant_wherever_it_stands() {
        let policy = policy(json!({"deny_argument_patterns": {"command": ["forbidden"]}})).unwrap();
        for hidden in [
            json!({"command": "forbidden"}),
            json!({"a": {"command": "forbidden"}}),
            json!({"tool_uses": [{"recipient_name": "functions.exec", "parameters": {"command": "forbidden"}}]}),
        ] {
            for tool in ["exec", "multi_tool_use.parallel"] {
                assert!(denied(&policy, tool, hidden.clone()).is_some(), "{tool} {hidden}");
            }
        }
        assert_eq!(denied(&policy, "mine", json!({"a": {"subject": "forbidden"}})), None);
    }

    #[test]
    fn a_denied_name_is_denied_however_a_client_may_read_it() {
        let denying = policy(json!({"deny_tools": ["evil*", "send"]})).unwrap();
        for name in [
            "functions.evil_x",
            "default_api:evil_x",
            " evil_x",
            "e\u{200b}vil_x",
            "\u{ff45}vil_x",
            "functions.send",
        ] {
            assert!(denied(&denying, name, json!({})).is_some(), "{name:?}");
            let allowing = policy(json!({"allow_tools": ["evil*", "send"]})).unwrap();
            assert!(denied(&allowing, name, json!({})).is_some(), "{name:?}");
        }
    }

    #[test]
    fn a_reason_repeats_no_name_that_speaks() {
        let rule =
            policy(json!({"deny_tools": ["evil*"], "deny_argument_patterns": {"*": ["marker"]}})).unwrap();
        let speaking = "evil_ `x` was allowed";
        let by_name = denied(&rule, speaking, json!({})).unwrap();
        let by_argument = denied(&rule, "mine", json!({(speaking): "marker"})).unwrap();
        for reason in [by_name, by_argument] {
            assert!(reason.contains("`unprintable-") && !reason.contains("allowed"), "{reason}");
        }
    }

    #[test]
    fn names_are_file_name_patterns() {
        let policy = policy(json!({"allow_tools": ["web_[!s]*", "apply_patch", "m?mory_get"]})).unwrap();
        assert_eq!(denied(&policy, "web_fetch", json!({})), None);
        assert!(denied(&policy, "web_search", json!({})).is_some());
        assert_eq!(denied(&policy, "apply_patch", json!({})), None);
        assert_eq!(denied(&policy, "memory_get", json!({})), None);
    }

    #[test]
    fn an_empty_allow_list_allows_nothing() {
        let policy = policy(json!({"allow_tools": []})).unwrap();
        assert!(denied(&policy, "read", json!({})).is_some());
    }

    #[test]
    fn rules_that_would_not_protect_are_refused() {
        for (options, part) in [
            (json!({}), "without rules"),
            (json!({"deny_tools": []}), "denies nothing"),
            (json!({"deny_tools": [" "]}), "it is empty"),
            (json!({"deny_tools": ["group:fss"]}), "no such group"),
            (json!({"allow_tools": ["group:"]}), "no such group"),
            (json!({"deny_tools": ["[z-a]"]}), "no usable pattern"),
            (json!({"deny_argument_patterns": {"command": ["("]}}), "no usable pattern"),
            (json!({"deny_argument_patterns": {"command": []}}), "no patterns"),
            (json!({"deny_argument_patterns": {"comand": ["sudo"]}}), "did you mean `command`?"),
            (
                json!({"allow_tools": ["read"], "deny_argument_patterns": {"command": ["sudo"]}}),
                "`read` can't have an argument `command`",
            ),
            (
                json!({"deny_argument_patterns": {"command": ["x"]}, "extra_arguments": ["comand"]}),
                "has no pattern",
            ),
            (json!({"deny_tool": ["exec"]}), "unknown field"),
        ] {
            let error = policy(options).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let meant = json!({"deny_argument_patterns": {"comand": ["x"]}, "extra_arguments": ["comand"]});
        assert!(denied(&policy(meant).unwrap(), "mine", json!({"comand": "x"})).is_some());
    }

    #[test]
    fn names_that_nobody_knows_load() {
        for name in ["run_*", "send_email", "mcp__github__delete_repo", "Send-Email", "group_chat"] {
            let rule = policy(json!({"deny_tools": [name]})).unwrap();
            assert!(rule.hints.is_empty(), "{name}: {:?}", rule.hints);
        }
        let run = policy(json!({"deny_tools": ["run_*"]})).unwrap();
        assert!(denied(&run, "run_command", json!({})).is_some());
        let mail = policy(json!({"deny_tools": ["send_email"]})).unwrap();
        assert!(denied(&mail, "send_email", json!({})).is_some());
        assert_eq!(denied(&mail, "send_mail", json!({})), None);
    }

    #[test]
    fn a_typo_is_a_hint() {
        let typo = policy(json!({"deny_tools": ["exce"], "allow_tools": ["web_serch", "read"]})).unwrap();
        assert_eq!(
            VerdictHook::hints(&typo),
            [
                "`deny_tools`: no known tool is called `exce`; did you mean `exec`?",
                "`allow_tools`: no known tool is called `web_serch`; did you mean `web_search`?",
            ]
        );
    }
}
