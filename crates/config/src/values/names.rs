//! Names: those that authors choose, and those of existing things.
//!
//! A chosen name has a maximum length and no invisible characters. A name that must exist is looked up; an unknown
//! one is a problem that names the nearest known name.

use backstop_hooks::{PointId, ToolName, tool_name};
use serde_json::{Value, json};

use super::texts::plain_text;
use crate::config_value::{ConfigValue, Key};
use crate::place::Place;
use crate::problem::{Problem, ProblemKind, is_invisible, quote, suggestion};
use crate::reader::Reader;
use backstop_yaml::{Kind, Node};

/// A name chosen by the author: of a plugin, a hook or a provider. At most 128 characters, none of them blank or
/// invisible.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    const LIMIT: usize = 128;

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn new(name: impl Into<String>) -> Option<Self> {
        let name = name.into();
        let fits = !name.is_empty() && name.chars().count() <= Self::LIMIT;
        (fits && !name.chars().any(|c| c.is_whitespace() || is_invisible(c))).then_some(Self(name))
    }
}

impl Key for Name {
    fn read(key: &str, at: &Place, cx: &mut Reader<'_>) -> Option<Self> {
        Self::new(key).or_else(|| {
            let message = format!("`{}` cannot be a name", quote(key));
            let hint = format!("a name has 1 to {} characters and no blanks", Self::LIMIT);
            cx.report(Problem::new(ProblemKind::BadValue, at.clone(), message).with_hint(hint));
            None
        })
    }

    fn as_str(&self) -> &str {
        &self.0
    }
}

impl ConfigValue for Name {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let text = plain_text(node, cx, "a name")?;
        <Self as Key>::read(text, &node.at, cx)
    }

    fn schema() -> Value {
        json!({ "type": "string", "minLength": 1, "maxLength": Self::LIMIT })
    }

    fn show(&self) -> Value {
        Value::from(self.0.as_str())
    }
}

/// A folder as written: blanks are kept, and environment variables are not expanded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FolderName(String);

impl FolderName {
    const LIMIT: usize = 4096;

    /// Returns the folder.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ConfigValue for FolderName {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let text = plain_text(node, cx, "a folder")?;
        if text.is_empty() || text.len() > Self::LIMIT || text.chars().any(is_invisible) {
            let message = format!("`{}` cannot be a folder", quote(text));
            let hint = format!("it has 1 to {} bytes, and nothing invisible in it", Self::LIMIT);
            cx.report(Problem::new(ProblemKind::BadValue, node.at.clone(), message).with_hint(hint));
            return None;
        }
        Some(Self(text.to_owned()))
    }

    fn schema() -> Value {
        json!({ "type": "string", "minLength": 1, "maxLength": Self::LIMIT })
    }

    fn show(&self) -> Value {
        Value::from(self.0.as_str())
    }
}

impl Key for PointId {
    fn read(key: &str, at: &Place, cx: &mut Reader<'_>) -> Option<Self> {
        key.parse().ok().or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|point| point.name()).collect();
            let message = format!("no hook point is called `{}`", quote(key));
            let problem = Problem::new(ProblemKind::UnknownName, at.clone(), message).with_hint(suggestion(
                key,
                &known,
                "hook points",
            ));
            cx.report(problem);
            None
        })
    }

    fn as_str(&self) -> &str {
        self.name()
    }
}

/// Tools that a hook applies to. The caller that knows all tools checks whether they exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolPattern {
    /// A regular expression.
    Expression(String),
    /// Names, groups and patterns.
    Names(Vec<String>),
}

impl ConfigValue for ToolPattern {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        match &node.kind {
            Kind::List(items) if !items.is_empty() => {
                let name = |(index, item)| {
                    cx.in_item(index, |cx| plain_text(item, cx, "the name of a tool").map(str::to_owned))
                };
                let names: Vec<Option<String>> = items.iter().enumerate().map(name).collect();
                names.into_iter().collect::<Option<_>>().map(Self::Names)
            }
            Kind::List(_) => cx.expected(node, "a list with the name of a tool in it"),
            _ => plain_text(node, cx, "a list of tools or a regular expression")
                .map(|expression| Self::Expression(expression.to_owned())),
        }
    }

    fn schema() -> Value {
        json!({ "type": ["string", "array"] })
    }

    fn show(&self) -> Value {
        match self {
            Self::Expression(expression) => Value::from(expression.as_str()),
            Self::Names(names) => Value::from(names.as_slice()),
        }
    }
}

/// The tools an agent may use, groups replaced by their members, in the order they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSet(Vec<ToolName>);

impl ToolSet {
    /// Returns the tool names, without repetition.
    #[must_use]
    pub fn names(&self) -> &[ToolName] {
        &self.0
    }

    /// Returns whether the set holds this tool.
    #[must_use]
    pub fn contains(&self, tool: &ToolName) -> bool {
        self.0.contains(tool)
    }

    /// Returns the tools that `allowed` also holds, and the rest.
    pub(crate) fn split_by(self, allowed: &Self) -> (Self, Vec<ToolName>) {
        let (kept, refused) = self.0.into_iter().partition(|tool| allowed.contains(tool));
        (Self(kept), refused)
    }
}

impl ConfigValue for ToolSet {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let items = cx.list(node)?;
        let mut tools = Vec::new();
        let mut complete = true;
        for (index, item) in items.iter().enumerate() {
            match cx.in_item(index, |cx| tool_or_group(item, cx)) {
                Some(names) => tools.extend(names),
                None => complete = false,
            }
        }
        let mut seen = std::collections::HashSet::new();
        tools.retain(|tool| seen.insert(tool.clone()));
        complete.then_some(Self(tools))
    }

    fn schema() -> Value {
        json!({ "type": "array", "items": { "type": "string", "minLength": 1 } })
    }

    fn show(&self) -> Value {
        self.0.iter().map(ToolName::canonical).collect()
    }
}

fn tool_or_group(node: &Node, cx: &mut Reader<'_>) -> Option<Vec<ToolName>> {
    let written = plain_text(node, cx, "the name of a tool or of a group")?;
    if let Some(members) = tool_name::group(written) {
        return Some(members.iter().copied().map(ToolName::new).collect());
    }
    // The list chooses among the agent's own tools, so each entry becomes the tool that it is a spelling of.
    let name = ToolName::new(written);
    if let Some(known) = cx.names.tools().find(|known| ToolName::new(known).canonical() == name.canonical()) {
        return Some(vec![ToolName::new(ToolName::new(known).canonical())]);
    }
    let groups: Vec<String> = tool_name::GROUPS.iter().map(|(group, _)| format!("group:{group}")).collect();
    let known: Vec<&str> = cx.names.tools().chain(groups.iter().map(String::as_str)).collect();
    let message = format!("no tool is called `{}`", quote(written));
    let problem = Problem::new(ProblemKind::UnknownName, node.at.clone(), message)
        .with_hint(suggestion(written, &known, "tools"));
    cx.report(problem);
    None
}
