//! Argument patterns: `deny_argument_patterns` of a policy and `argument_patterns` of a condition.
//!
//! A pattern is a regular expression that is searched for in every string inside the named argument, however
//! deep; the argument `*` stands for every argument and its name. An argument is found under other spellings of its name, too
//! (`Command`, `commands`, `cmd`), and inside of other arguments (`{"tool_uses": [{"parameters": {"command": ..}}]}`): putting it
//! elsewhere makes no rule milder. What a tool whose arguments are known does not have is searched for all patterns, since
//! nobody knows how it will be read.
//!
//! The law: *a pattern that can match nothing is an error*. The arguments of some tools are known, in the
//! spellings of this agent and of the coding agents ([`TOOLS`]). If a rule names its tools and all of them
//! are known, it must name an argument that one of them has. If any tool is meant, there may be tools with
//! unknown arguments. In that case an unknown name that is one typo away from a known
//! one is refused, unless the rule confirms it in `extra_arguments`.

use std::collections::BTreeMap;

use backstop_hooks::{Malformed, ToolName};
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

/// The most a compiled pattern may take.
const PATTERN_BYTES: usize = 1 << 20;

/// The argument that stands for every argument.
const EVERY: &str = "*";

/// The tools whose arguments are known: those of the own agent, and how coding agents call them for the same
/// tool. Where a client's arguments are renamed before they are judged, both names are here: behind a proxy
/// they are judged as the model wrote them.
const TOOLS: &[(&str, &[&str])] = &[
    (
        "exec",
        &[
            "background",
            "cmd",
            "command",
            "command_line",
            "commands",
            "cwd",
            "dangerouslyDisableSandbox",
            "delay_ms",
            "description",
            "detach",
            "dir_path",
            "directory",
            "env",
            "initial_wait",
            "is_background",
            "justification",
            "login",
            "max_output_tokens",
            "mode",
            "prefix_rule",
            "run_in_background",
            "sandbox_permissions",
            "shell",
            "shellId",
            "timeout",
            "timeout_ms",
            "tty",
            "workdir",
            "working_directory",
            "yield_time_ms",
        ],
    ),
    (
        "process",
        &[
            "action",
            "chars",
            "data",
            "delay",
            "eof",
            "id",
            "input",
            "max_output_tokens",
            "session_id",
            "shellId",
            "wait_ms",
            "yield_time_ms",
        ],
    ),
    (
        "read",
        &[
            "allow_large",
            "end_line",
            "exclude",
            "filePath",
            "file_path",
            "files",
            "forceReadLargeFiles",
            "include",
            "limit",
            "line_numbers",
            "offset",
            "operations",
            "pages",
            "path",
            "paths",
            "start_line",
            "target_file",
            "view_range",
        ],
    ),
    (
        "write",
        &[
            "command",
            "content",
            "filePath",
            "file_path",
            "file_text",
            "insert_line",
            "new_str",
            "old_str",
            "path",
            "record_as_artifact",
            "target_file",
        ],
    ),
    (
        "edit",
        &[
            "allow_multiple",
            "cell_id",
            "cell_type",
            "command",
            "content",
            "diff",
            "edit_mode",
            "edits",
            "filePath",
            "file_path",
            "file_text",
            "insert_line",
            "instruction",
            "newString",
            "new_source",
            "new_str",
            "new_string",
            "new_text",
            "notebook_path",
            "oldString",
            "old_str",
            "old_string",
            "old_text",
            "path",
            "replaceAll",
            "replace_all",
            "target_file",
            "view_range",
        ],
    ),
    ("apply_patch", &["command", "input", "patch", "patchText"]),
    ("web_fetch", &["format", "offset", "prompt", "raw", "requests", "timeout", "url"]),
    ("web_search", &["allowed_domains", "blocked_domains", "query"]),
];

/// Returns the arguments that a tool of this name may have, where that is known.
fn known_arguments(tool: &ToolName) -> Option<&'static [&'static str]> {
    TOOLS.iter().find(|(name, _)| *name == tool.canonical()).map(|(_, arguments)| *arguments)
}

/// The tools that a rule about arguments is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Any tool, also one of which nothing is known.
    Any,
    /// These, and no others.
    Named(Vec<ToolName>),
}

/// Patterns by argument, ready to search.
#[derive(Debug, Default)]
pub(super) struct ArgumentPatterns(Vec<(String, Vec<Regex>)>);

impl ArgumentPatterns {
    /// Checks and compiles what was written under `option`. `extra` are arguments that are meant as written.
    ///
    /// # Errors
    ///
    /// [`Malformed`] naming the option: a pattern that is none, an argument without patterns, an argument that
    /// no tool in question has.
    pub(super) fn new(
        option: &str,
        written: &BTreeMap<String, Vec<String>>,
        scope: &Scope,
        extra: &[String],
    ) -> Result<Self, Malformed> {
        if let Some(idle) = extra.iter().find(|name| !written.contains_key(*name)) {
            return Err(Malformed::new(format!(
                "`extra_arguments`: `{idle}` has no pattern in `{option}`, so naming it changes nothing"
            )));
        }
        let mut patterns = Vec::with_capacity(written.len());
        for (argument, expressions) in written {
            if !extra.contains(argument) {
                check(argument, scope).map_err(|problem| Malformed::new(format!("`{option}`: {problem}")))?;
            }
            if expressions.is_empty() {
                return Err(Malformed::new(format!("`{option}`: `{argument}` has no patterns")));
            }
            let compiled = expressions.iter().map(|pattern| compile(option, argument, pattern));
            patterns.push((argument.clone(), compiled.collect::<Result<Vec<_>, _>>()?));
        }
        Ok(Self(patterns))
    }

    /// Returns the first argument of a call that matches one of its patterns, and that pattern.
    pub(super) fn find<'a>(
        &'a self,
        tool: &ToolName,
        arguments: &'a Map<String, Value>,
    ) -> Option<(&'a str, &'a str)> {
        let known = known_arguments(tool);
        self.0.iter().find_map(|(argument, patterns)| {
            let (found, pattern) = in_fields(argument, arguments, patterns, known)?;
            Some((found, pattern.as_str()))
        })
    }
}

/// The first field that is the argument `wanted` and matches, on whatever level.
fn in_fields<'a>(
    wanted: &str,
    fields: &'a Map<String, Value>,
    patterns: &'a [Regex],
    known: Option<&[&str]>,
) -> Option<(&'a str, &'a Regex)> {
    fields.iter().find_map(|(name, field)| {
        if !may_mean(wanted, name, known) {
            return inside(wanted, field, patterns);
        }
        // Where every argument is meant, so are their names: deeper they are searched, too.
        let named = patterns.iter().find(|pattern| wanted == EVERY && pattern.is_match(name));
        Some((name.as_str(), named.or_else(|| search(field, patterns))?))
    })
}

/// The same inside of another argument, where no names are known.
fn inside<'a>(wanted: &str, value: &'a Value, patterns: &'a [Regex]) -> Option<(&'a str, &'a Regex)> {
    match value {
        Value::Array(items) => items.iter().find_map(|item| inside(wanted, item, patterns)),
        Value::Object(fields) => in_fields(wanted, fields, patterns, None),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Arguments that say the same thing in the words of different tools, in small letters and without `_` and `-`.
const SAME: [&[&str]; 2] = [
    &["cmd", "command", "commandline", "commands"],
    &["file", "filename", "filepath", "files", "path", "paths", "targetfile"],
];

/// Returns whether what a rule says of the argument `wanted` is about the argument `name` of a call. Of a tool whose
/// arguments are known, one that it does not have may mean anything, and so it may mean this one.
fn may_mean(wanted: &str, name: &str, known: Option<&[&str]>) -> bool {
    if wanted == EVERY || wanted == name || known.is_some_and(|known| !known.contains(&name)) {
        return true;
    }
    let (wanted, name) = (plain(wanted), plain(name));
    let are_both = |same: &&[&str]| same.contains(&wanted.as_str()) && same.contains(&name.as_str());
    wanted == name || is_plural(&wanted, &name) || SAME.iter().any(are_both)
}

/// A name in small letters, without `_` and `-`.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

/// Checks whether some tool in question may have the argument.
fn check(argument: &str, scope: &Scope) -> Result<(), String> {
    match scope {
        _ if argument == EVERY => Ok(()),
        Scope::Any => check_any(argument),
        Scope::Named(tools) => check_named(argument, tools),
    }
}

fn check_named(argument: &str, tools: &[ToolName]) -> Result<(), String> {
    // A tool of which nothing is known may have any argument.
    let Some(known) = tools.iter().map(known_arguments).collect::<Option<Vec<_>>>() else { return Ok(()) };
    let known: Vec<&str> = known.into_iter().flatten().copied().collect();
    if tools.is_empty() || known.contains(&argument) {
        return Ok(());
    }
    let tools = tools.iter().map(|tool| format!("`{tool}`")).collect::<Vec<_>>().join(", ");
    let hint = match nearest(argument, &known, |length| length / 3) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("known arguments: {}", listed(known)),
    };
    Err(format!("{tools} can't have an argument `{argument}`\nhint: {hint}"))
}

fn check_any(argument: &str) -> Result<(), String> {
    let known: Vec<&str> = TOOLS.iter().flat_map(|(_, arguments)| *arguments).copied().collect();
    if known.contains(&argument) {
        return Ok(());
    }
    match nearest(argument, &known, |length| length / 5) {
        Some(name) if !is_plural(argument, name) => Err(format!(
            "no known tool has an argument `{argument}`\nhint: did you mean `{name}`? if a tool of yours has `{argument}`, name it in \
             `extra_arguments`"
        )),
        _ => Ok(()),
    }
}

/// Returns the known name that was probably meant; `slips` says how many slips a name of some length may have. Case,
/// `_` and `-` don't count.
fn nearest<'a>(word: &str, known: &[&'a str], slips: impl Fn(usize) -> usize) -> Option<&'a str> {
    let wanted = plain(word);
    known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&wanted, &plain(name)), *name))
        .filter(|(distance, name)| *distance <= slips(name.len().min(word.len())))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns whether one name is the other with an `s`: tools that take several things often differ so from those that
/// take one.
fn is_plural(one: &str, other: &str) -> bool {
    one.strip_suffix('s') == Some(other) || other.strip_suffix('s') == Some(one)
}

fn listed(mut names: Vec<&str>) -> String {
    names.sort_unstable();
    names.dedup();
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn compile(option: &str, argument: &str, pattern: &str) -> Result<Regex, Malformed> {
    RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build().map_err(|error| {
        let why = error.to_string();
        let why = why.lines().last().unwrap_or_default().trim();
        Malformed::new(format!("`{option}`: `{argument}`: `{pattern}` is no usable pattern: {why}"))
    })
}

/// Returns the pattern that matches some string inside `value`. Object keys are strings too: a text must not get past
/// as a key.
fn search<'a>(value: &Value, patterns: &'a [Regex]) -> Option<&'a Regex> {
    match value {
        Value::String(text) => patterns.iter().find(|pattern| pattern.is_match(text)),
        Value::Array(items) => items.iter().find_map(|item| search(item, patterns)),
        Value::Object(fields) => fields.iter().find_map(|(key, field)| {
            patterns.iter().find(|pattern| pattern.is_match(key)).or_else(|| search(field, patterns))
        }),
        Value::Number(number) => {
            let text = number.to_string();
            patterns.iter().find(|pattern| pattern.is_match(&text))
        }
        Value::Null | Value::Bool(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(argument: &str, tools: Option<&[&str]>) -> Result<(), String> {
        let scope = tools
            .map_or(Scope::Any, |tools| Scope::Named(tools.iter().map(|tool| ToolName::new(tool)).collect()));
        check(argument, &scope)
    }

    #[test]
    fn a_misspelt_argument_is_an_error_with_the_nearest_name() {
        for (argument, tools, meant) in [
            ("comand", None, "`command`"),
            ("Command", None, "`command`"),
            ("commnad", Some(&["exec"][..]), "`command`"),
            ("pth", Some(&["read", "write"]), "`path`"),
            ("old_txt", Some(&["edit"]), "`old_text`"),
        ] {
            let error = said(argument, tools).unwrap_err();
            assert!(error.contains(&format!("did you mean {meant}?")), "{error}");
        }
    }

    #[test]
    fn an_argument_that_none_of_the_named_tools_has_is_an_error() {
        let error = said("command", Some(&["read"])).unwrap_err();
        assert!(error.starts_with("`read` can't have an argument `command`"), "{error}");
        assert!(error.contains("`path`"), "{error}");
        assert_eq!(said("command", Some(&["read", "exec"])), Ok(()));
    }

    #[test]
    fn a_tool_of_which_nothing_is_known_may_have_any_argument() {
        assert_eq!(said("comand", Some(&["exec", "mcp__build__run"])), Ok(()));
        for argument in ["subject", "sql", "code", "date", "urls", "end", "prompts", "*"] {
            assert_eq!(said(argument, None), Ok(()), "{argument}");
        }
    }

    #[test]
    fn every_spelling_is_known_once_and_in_order() {
        for (tool, arguments) in TOOLS {
            assert!(arguments.is_sorted_by(|one, other| one < other), "{tool}");
            assert_eq!(ToolName::new(tool).canonical(), *tool);
        }
    }

    #[test]
    fn a_pattern_holds_for_an_argument_however_it_is_spelt() {
        let written = BTreeMap::from([("command".to_owned(), vec!["forbidden".to_owned()])]);
        let patterns = ArgumentPatterns::new("deny_argument_patterns", &written, &Scope::Any, &[]).unwrap();
        let found = |tool: &str, arguments: Value| {
            let arguments = arguments.as_object().unwrap().clone();
            patterns.find(&ToolName::new(tool), &arguments).map(|(name, _)| name.to_owned())
        };
        for name in ["command", "commands", "Command", "COMMAND", "command_line", "cmd", "arguments", "x"] {
            let arguments = serde_json::json!({"timeout": 1, name: [{"deep": "a forbidden thing"}]});
            assert_eq!(found("exec", arguments).as_deref(), Some(name));
        }
        // What a known tool has under another meaning is not meant.
        assert_eq!(found("exec", serde_json::json!({"command": "ls", "description": "forbidden"})), None);
        // Of a tool that nobody knows, other spellings are.
        for (name, is_meant) in [("Commands", true), ("cmd", true), ("subject", false)] {
            assert_eq!(found("mcp__x__run", serde_json::json!({name: "forbidden"})).is_some(), is_meant);
        }
    }

    /// Wraps arguments in a field or in a list in one.
    fn wrapped(arguments: &Value, name: &str, in_list: bool) -> Value {
        let inner = if in_list { serde_json::json!([1, arguments]) } else { arguments.clone() };
        Value::Object(Map::from_iter([(name.to_owned(), inner)]))
    }

    proptest! {
        #[test]
        fn wrapping_makes_no_rule_milder(
            rule in prop_oneof![Just("command"), Just("path"), Just("*")],
            tool in prop_oneof![Just("exec"), Just("mcp__x__run")],
            argument in prop_oneof![Just("command"), Just("cmd"), Just("PATH"), Just("forbidden"), Just("subject")],
            text in prop_oneof![Just("a forbidden thing"), Just("else")],
            wrappers in proptest::collection::vec((prop_oneof![Just("a"), Just("env"), Just("description"), Just("tool_uses")], any::<bool>()), 1..4),
        ) {
            let written = BTreeMap::from([(rule.to_owned(), vec!["forbidden".to_owned()])]);
            let patterns = ArgumentPatterns::new("deny_argument_patterns", &written, &Scope::Any, &[]).unwrap();
            let finds = |value: &Value| patterns.find(&ToolName::new(tool), value.as_object().unwrap()).is_some();
            let plain = serde_json::json!({argument: text});
            // What a known tool does not have may be anything only on its own level.
            prop_assume!(rule == "*" || may_mean(rule, argument, None));
            let deep = wrappers.iter().fold(plain.clone(), |inner, (name, in_list)| wrapped(&inner, name, *in_list));
            prop_assert!(!finds(&plain) || finds(&deep), "{plain} {deep}");
            prop_assert!(rule != "*" || !finds(&deep) || finds(&plain), "nothing is found for the wrapper {deep}");
        }
    }
}
