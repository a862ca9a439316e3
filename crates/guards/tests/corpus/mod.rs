//! The commands of the case files, for the laws that hold for all of them.

use backstop_guards::RuleSet;
use serde_json::Value;

/// Every command of every case file.
pub(crate) fn commands() -> Vec<String> {
    [
        include_str!("../cases/dangerous.jsonl"),
        include_str!("../cases/hidden.jsonl"),
        include_str!("../cases/rules/abuse.jsonl"),
        include_str!("../cases/rules/code.jsonl"),
        include_str!("../cases/rules/filesystem.jsonl"),
        include_str!("../cases/rules/git.jsonl"),
        include_str!("../cases/rules/outward.jsonl"),
        include_str!("../cases/rules/secrets.jsonl"),
        include_str!("../cases/rules/services.jsonl"),
        include_str!("../cases/rules/system.jsonl"),
    ]
    .iter()
    .flat_map(|text| text.lines())
    .map(|line| {
        let case: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let command = case.get("input").or_else(|| case.get("command")).and_then(Value::as_str);
        command.unwrap_or_else(|| panic!("{line}: no command")).to_owned()
    })
    .chain(RuleSet::built_in().rules().flat_map(|rule| rule.matches.iter().chain(&rule.no_match).cloned()))
    .collect()
}
