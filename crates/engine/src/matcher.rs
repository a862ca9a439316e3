//! Matchers: limiting a hook to some tools or some agents.
//!
//! The law: *a matcher that can match nothing is an error*, at registration, with the list of tools that
//! exist. A typo in a security hook must not turn it off.

use std::fmt;

use backstop_hooks::tool_name::group;
use backstop_hooks::{AgentId, ToolName};
use regex::Regex;

/// Which tools a hook is about.
#[derive(Clone)]
pub enum ToolMatcher {
    /// These tools. Built with [`ToolMatcher::names`].
    Names(Vec<ToolName>),
    /// Tools whose normalised name the expression finds. Built with [`ToolMatcher::regex`].
    Regex(Box<Regex>),
}

/// Which agents a hook is about: agents whose id the expression finds.
#[derive(Clone)]
pub struct AgentMatcher(Box<Regex>);

/// A matcher that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidMatcher {
    /// Not a regular expression.
    #[error("`{pattern}` is not a regular expression: {message}")]
    Regex {
        /// What was given.
        pattern: String,
        /// What is wrong with it.
        message: String,
    },
    /// A group that does not exist.
    #[error("unknown tool group `{0}`")]
    Group(String),
    /// No tools at all.
    #[error("a tool matcher without names matches nothing; leave it out to match every tool")]
    Empty,
    /// No tool has such a name.
    #[error("tool matcher `{matcher}` does not match any known tool\nhint: known tools: {known}")]
    MatchesNothing {
        /// What was given.
        matcher: String,
        /// The tools that exist.
        known: String,
    },
}

fn compile(pattern: &str) -> Result<Box<Regex>, InvalidMatcher> {
    Regex::new(pattern).map(Box::new).map_err(|error| InvalidMatcher::Regex {
        pattern: pattern.to_owned(),
        message: error.to_string().lines().last().unwrap_or_default().trim().to_owned(),
    })
}

impl ToolMatcher {
    /// Tools by name; `group:<name>` stands for the tools of a group.
    ///
    /// # Errors
    ///
    /// [`InvalidMatcher`] for an unknown group or an empty list.
    pub fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidMatcher> {
        let mut tools = Vec::new();
        for name in names {
            match group(name) {
                Some(members) => tools.extend(members.iter().map(|tool| ToolName::new(tool))),
                None if name.starts_with("group:") => return Err(InvalidMatcher::Group(name.to_owned())),
                None => tools.push(ToolName::new(name)),
            }
        }
        if tools.is_empty() { Err(InvalidMatcher::Empty) } else { Ok(Self::Names(tools)) }
    }

    /// Tools by regular expression on the normalised name.
    ///
    /// # Errors
    ///
    /// [`InvalidMatcher::Regex`].
    pub fn regex(pattern: &str) -> Result<Self, InvalidMatcher> {
        compile(pattern).map(Self::Regex)
    }

    /// Whether the tool is meant.
    pub fn matches(&self, tool: &ToolName) -> bool {
        match self {
            Self::Names(names) => names.contains(tool),
            Self::Regex(regex) => regex.is_match(tool.as_str()),
        }
    }

    /// Refuses a matcher that matches none of `known`; each plain name must exist.
    pub(crate) fn check(&self, known: &[ToolName]) -> Result<(), InvalidMatcher> {
        let nothing = |matcher: &str| InvalidMatcher::MatchesNothing {
            matcher: matcher.to_owned(),
            known: known.iter().map(ToolName::as_str).collect::<Vec<_>>().join(", "),
        };
        match self {
            Self::Names(names) => match names.iter().find(|name| !known.contains(name)) {
                Some(unknown) => Err(nothing(unknown.as_str())),
                None => Ok(()),
            },
            Self::Regex(regex) if known.iter().any(|tool| regex.is_match(tool.as_str())) => Ok(()),
            Self::Regex(regex) => Err(nothing(regex.as_str())),
        }
    }
}

impl AgentMatcher {
    /// Agents by regular expression on their id.
    ///
    /// # Errors
    ///
    /// [`InvalidMatcher::Regex`].
    pub fn regex(pattern: &str) -> Result<Self, InvalidMatcher> {
        compile(pattern).map(Self)
    }

    /// Whether the agent is meant. A call without an agent is nobody's, and so not this one's.
    pub fn matches(&self, agent: Option<&AgentId>) -> bool {
        agent.is_some_and(|agent| self.0.is_match(agent.as_str()))
    }
}

impl fmt::Display for ToolMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Names(names) => {
                f.write_str(&names.iter().map(ToolName::as_str).collect::<Vec<_>>().join("|"))
            }
            Self::Regex(regex) => write!(f, "/{regex}/"),
        }
    }
}

impl fmt::Debug for ToolMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolMatcher({self})")
    }
}

impl fmt::Display for AgentMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/", self.0)
    }
}

impl fmt::Debug for AgentMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentMatcher({self})")
    }
}
