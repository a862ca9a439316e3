//! What is suggested, as it would be written into the operator's file.

use std::collections::BTreeSet;

use backstop::config::{LayerKind, Loaded, Source};
use backstop::hooks::RuleId;
use backstop::tape::RecordedCall;
use serde::Serialize;
use serde_json::Value;

use crate::session::Surroundings;

/// The longest command that something is suggested about. Nobody reads a longer one.
const LONGEST: usize = 500;

/// A command that people were asked about, with all of its arguments: exactly this one, and none like it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub(super) struct Command(String);

/// Which way it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Kind {
    /// Nobody is asked about it any more.
    Exception,
    /// Nobody is asked about it any more, because it is stopped.
    Rule,
}

impl Command {
    /// The command of a recorded call, if exceptions and rules can be about it.
    pub(super) fn of(call: &RecordedCall) -> Option<Self> {
        if call.event.get("toolName").and_then(Value::as_str) != Some("exec") {
            return None;
        }
        let params = call.event.get("params")?;
        let text = params.get("command").or_else(|| params.get("cmd"))?.as_str()?;
        Some(Self(text.trim().to_owned())).filter(Self::is_plain)
    }

    /// Whether it can be written down so that it means itself: in an exception, a `*` at the end stands for whatever follows.
    fn is_plain(&self) -> bool {
        let Self(text) = self;
        !text.is_empty() && text.len() <= LONGEST && !text.ends_with('*') && !text.contains(char::is_control)
    }

    /// The text that would be written into the operator's file. An exception is one from these rules, and holds until that day.
    pub(super) fn written(&self, kind: Kind, rules: &BTreeSet<RuleId>, reason: &str, until: &str) -> String {
        let Self(text) = self;
        match kind {
            Kind::Exception => {
                let (command, reason) = (quoted(text), quoted(reason));
                let entries: String = rules
                    .iter()
                    .map(|rule| {
                        let rule = quoted(rule.as_str());
                        format!("      - rule: {rule}\n        command: {command}\n        reason: {reason}\n        expires: {until}\n")
                    })
                    .collect();
                format!("guards:\n  command_safety:\n    allow:\n{entries}")
            }
            Kind::Rule => format!(
                "hooks:\n  tool_call:\n    pre_call:\n      - type: policy\n        config:\n          deny_argument_patterns:\n            command: [{}]\n",
                quoted(&format!("^\\s*{}\\s*$", escaped(text)))
            ),
        }
    }
}

/// The configuration with that text in it; `None` if the text does not load.
pub(super) fn with(loaded: &Loaded, text: &str, surroundings: &Surroundings) -> Option<Loaded> {
    let source = Source::new(LayerKind::Operator, "suggestion", text);
    let more = surroundings.load_sources(&[source]).ok()?;
    let mut loaded = loaded.clone();
    loaded.append(more);
    Some(loaded)
}

/// A text in YAML, which reads JSON, too. What looks like a variable of the environment is none.
fn quoted(text: &str) -> String {
    Value::from(text.replace("${", "$${")).to_string()
}

/// A text as the regular expression that matches it alone.
fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() * 2);
    for sign in text.chars() {
        if sign.is_ascii_punctuation()
            && !matches!(
                sign,
                '_' | '-' | '/' | '=' | ':' | '"' | '\'' | ',' | '@' | '%' | '`' | ';' | '!' | '<' | '>'
            )
        {
            pattern.push('\\');
        }
        pattern.push(sign);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_means_itself_wherever_it_is_written() {
        let odd = "echo \"a'b\" ${HOME} $(x) [y] {z} ^t$ a.b|c\\d #e &f ~g +h?";
        let command = Command(odd.to_owned());
        assert!(command.is_plain());
        let rules = ["a.b", "c.d"].map(RuleId::from).into();
        let exception = command.written(Kind::Exception, &rules, "because: \"x\"\n", "2027-03-31");
        assert!(exception.contains("$${HOME}") && exception.lines().count() == 3 + 2 * 4, "{exception}");
        assert_eq!(
            escaped("a.b|c\\d (e) [f] {g} ^h$ *i +j ?k #l &m ~n"),
            "a\\.b\\|c\\\\d \\(e\\) \\[f\\] \\{g\\} \\^h\\$ \\*i \\+j \\?k \\#l \\&m \\~n"
        );
        for other in ["ls *", "", "a\nb", &"x".repeat(LONGEST + 1)] {
            assert!(!Command(other.to_owned()).is_plain(), "{other:?}");
        }
    }
}
