//! `policy`: tool calls by allow and deny lists and by patterns in arguments. The first match wins:
//!
//! 1. `deny_tools`: the tool's name matches: deny.
//! 2. `deny_argument_patterns`: some string inside the named argument, however deep, matches: deny.
//! 3. `allow_tools` is there and the tool's name does not match: deny.
//! 4. Otherwise: approve.
//!
//! Tool names match by shell wildcards (`*`, `?`, `[a-z]`, `[!a-z]`) on the normalised name. Patterns in
//! arguments are regular expressions that are searched for; the argument `*` stands for every argument.
//!
//! A rule that would deny no tool that exists, or an argument that no tool can have, is refused: it is a typo
//! that looks like protection (`arguments` says which arguments are known). Names
//! that belong to tools which come and go at run time (with `__`, `:`, `.` or `/` in them, as MCP servers
//! name theirs) can't be checked and are taken at their word.
//!
//! Limits: an argument pattern looks at strings, and strings can be spelled in many ways. It is no
//! substitute for the command guard, which judges what a command does.

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use backstop_engine::{HookVerdict, ToolCallHook, VerdictCall, VerdictHook};
use backstop_hooks::{HookError, Malformed, ToolName};
use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;
use serde_json::Value;

use super::arguments::{ArgumentPatterns, Scope};

/// The options of a policy, as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyOptions {
    /// Only these tools may run.
    #[serde(default)]
    pub allow_tools: Option<Vec<String>>,
    /// These tools may not run, whatever else is said.
    #[serde(default)]
    pub deny_tools: Option<Vec<String>>,
    /// Regular expressions by argument name; a call with a matching string may not run.
    #[serde(default)]
    pub deny_argument_patterns: Option<BTreeMap<String, Vec<String>>>,
    /// Arguments in `deny_argument_patterns` that tools of yours have and nobody else's, to be taken as written.
    #[serde(default)]
    pub extra_arguments: Vec<String>,
}

pub(super) struct NamePattern {
    written: String,
    matcher: GlobMatcher,
}

/// A policy, ready to judge.
#[derive(Debug)]
pub struct Policy {
    allow: Option<Vec<NamePattern>>,
    deny: Vec<NamePattern>,
    arguments: ArgumentPatterns,
}

impl Policy {
    /// Checks and compiles the rules. `tools` are the tools that exist.
    ///
    /// # Errors
    ///
    /// [`Malformed`] naming the option: a pattern that is none, a rule without entries, a rule that denies no
    /// tool that exists or an argument that no tool has, a policy without rules.
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
        let allow = allow_tools.as_deref().map(|names| name_patterns("allow_tools", names)).transpose()?;
        let deny = name_patterns("deny_tools", deny_tools.as_deref().unwrap_or_default())?;
        refuse_idle("deny_tools", &deny, tools)?;
        let arguments = ArgumentPatterns::new(
            "deny_argument_patterns",
            deny_argument_patterns.as_ref().unwrap_or(&BTreeMap::new()),
            &named(allow.as_deref(), &deny),
            extra_arguments,
        )?;
        Ok(Self { allow, deny, arguments })
    }

    /// Why the call is denied; `None` to approve.
    pub fn denies(&self, tool: &ToolName, arguments: &serde_json::Map<String, Value>) -> Option<String> {
        if let Some(pattern) = self.deny.iter().find(|pattern| pattern.matches(tool)) {
            return Some(format!("tool `{tool}` is denied by `deny_tools` pattern `{}`", pattern.written));
        }
        if let Some((name, pattern)) = self.arguments.find(arguments) {
            return Some(format!("argument `{name}` of `{tool}` matches the denied pattern `{pattern}`"));
        }
        match &self.allow {
            Some(allow) if !allow.iter().any(|pattern| pattern.matches(tool)) => {
                Some(format!("tool `{tool}` is not in `allow_tools`"))
            }
            _ => None,
        }
    }
}

pub(super) fn name_patterns(option: &str, names: &[String]) -> Result<Vec<NamePattern>, Malformed> {
    names.iter().map(|name| NamePattern::new(option, name)).collect()
}

/// Refuses a pattern that no tool in question can match.
pub(super) fn refuse_idle(
    option: &str,
    patterns: &[NamePattern],
    known: &[ToolName],
) -> Result<(), Malformed> {
    let Some(idle) = patterns.iter().find(|pattern| pattern.matches_nothing(known)) else { return Ok(()) };
    let known = known.iter().map(ToolName::as_str).collect::<Vec<_>>().join(", ");
    Err(Malformed::new(format!(
        "`{option}`: `{}` matches no known tool\nhint: known tools: {known}",
        idle.written
    )))
}

/// The tools that are left for a rule about arguments, where `only` names them one by one. A wildcard may mean
/// tools that nobody knows yet.
pub(super) fn named(only: Option<&[NamePattern]>, without: &[NamePattern]) -> Scope {
    let tools = only.and_then(|only| only.iter().map(NamePattern::tool).collect::<Option<Vec<_>>>());
    match tools {
        Some(tools) => Scope::Named(
            tools.into_iter().filter(|tool| !without.iter().any(|pattern| pattern.matches(tool))).collect(),
        ),
        None => Scope::Any,
    }
}

impl NamePattern {
    fn new(option: &str, written: &str) -> Result<Self, Malformed> {
        let refuse =
            |why: &str| Malformed::new(format!("`{option}`: `{written}` is no usable pattern: {why}"));
        if written.trim().is_empty() {
            return Err(refuse("it is empty"));
        }
        let plain = !has_wildcards(written);
        let name =
            if plain { ToolName::new(written).as_str().to_owned() } else { written.trim().to_lowercase() };
        // Braces are alternatives to the library and plain characters to a shell's file name match.
        let escaped = name.replace('{', "[{]").replace('}', "[}]");
        let glob = GlobBuilder::new(&escaped).literal_separator(false).backslash_escape(false).build();
        match glob {
            Ok(glob) => Ok(Self { written: written.to_owned(), matcher: glob.compile_matcher() }),
            Err(error) => Err(refuse(&error.kind().to_string())),
        }
    }

    pub(super) fn matches(&self, tool: &ToolName) -> bool {
        self.matcher.is_match(tool.as_str())
    }

    /// The one tool that is meant, where it is named in full.
    fn tool(&self) -> Option<ToolName> {
        (!has_wildcards(&self.written)).then(|| ToolName::new(&self.written))
    }

    fn matches_nothing(&self, tools: &[ToolName]) -> bool {
        let comes_and_goes = self.written.contains("__") || self.written.contains([':', '.', '/']);
        !comes_and_goes && !tools.iter().any(|tool| self.matches(tool))
    }
}

fn has_wildcards(pattern: &str) -> bool {
    pattern.contains(['*', '?', '['])
}

impl fmt::Debug for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl VerdictHook for Policy {}

#[async_trait]
impl ToolCallHook for Policy {
    async fn pre_call(&self, call: VerdictCall<'_>) -> Result<HookVerdict, HookError> {
        Ok(match self.denies(call.tool_name, call.arguments) {
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
        assert_eq!(denied(&policy, "exec", json!({"other": "curl x | sh"})), None);
    }

    #[test]
    fn every_argument_is_meant_by_a_star() {
        let policy = policy(json!({"deny_argument_patterns": {"*": ["^42$"]}})).unwrap();
        assert!(denied(&policy, "exec", json!({"x": [{"y": 42}]})).is_some());
        assert_eq!(denied(&policy, "exec", json!({"x": 421})), None);
    }

    #[test]
    fn names_are_file_name_patterns_on_normalised_names() {
        let policy = policy(json!({"allow_tools": ["web_[!s]*", "apply-patch", "m?mory_get"]})).unwrap();
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
            (json!({"deny_tools": ["exce"]}), "matches no known tool"),
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
        assert!(policy(json!({"deny_tools": ["mcp__github__delete_repo"]})).is_ok());
        let meant = json!({"deny_argument_patterns": {"comand": ["x"]}, "extra_arguments": ["comand"]});
        assert!(denied(&policy(meant).unwrap(), "mine", json!({"comand": "x"})).is_some());
    }
}
