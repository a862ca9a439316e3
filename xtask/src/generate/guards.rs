//! The rules of the command guard, from the packs in the binary, inside the guards' page.

use backstop_guards::{Answer, Profile, Rule, RuleSet, Severity};

use crate::error::Error;
use crate::generate::{Generated, between};
use crate::workspace::read;

const PAGE: &str = "docs/guards.md";
const BEGIN: &str = "<!-- generated: rules -->\n\n";
const END: &str = "\n<!-- end of rules -->";

pub(crate) fn files() -> Result<Vec<Generated>, Error> {
    let table = table(RuleSet::built_in().rules());
    let page = between(&read(PAGE)?, BEGIN, END, &table).ok_or(Error::Marks {
        path: PAGE,
        begin: BEGIN.trim(),
        end: END.trim(),
    })?;
    Ok(vec![Generated::new(PAGE, page)])
}

fn table<'a>(rules: impl Iterator<Item = &'a Rule>) -> String {
    let mut text =
        String::from("| rule | severity | verdict | from profile | why |\n| --- | --- | --- | --- | --- |\n");
    for rule in rules {
        text.push_str(&format!(
            "| `{}` | {} | {} | {} | {} |\n",
            rule.id,
            severity(rule.severity),
            verdict(rule.verdict),
            profile(rule.profile),
            rule.reason.replace('|', "\\|")
        ));
    }
    text
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    }
}

fn verdict(verdict: Answer) -> &'static str {
    match verdict {
        Answer::Ask => "ask",
        Answer::Block => "block",
    }
}

fn profile(profile: Profile) -> &'static str {
    match profile {
        Profile::Core => "core",
        Profile::Standard => "standard",
        Profile::Strict => "strict",
    }
}
