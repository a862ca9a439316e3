//! Matchers: limiting a hook to some tools or some agents.
//!
//! The laws: *a matcher that can match nothing is an error* at registration: an unknown group, an empty name, an
//! invalid expression. And *another spelling of a tool's name never gets it past a hook*: a matcher applies to
//! every name of a tool, as called, canonical, and the other known spellings. It also applies to a name that
//! stands for all tools of a server ([`ToolName::open_prefix`]) if it could apply to one of these.
//!
//! Limits: names that no known tool has are accepted, because plugins, MCP servers and clients bring their own
//! tools. A name that looks like a typo of a known one is a hint for people ([`ToolMatcher::hints`]), not an error. An
//! interceptor's expression must match a known tool, because an interceptor edits tools that its author knows.

use std::fmt;

use backstop_hooks::tool_name::group;
use backstop_hooks::{AgentId, ToolName};
use regex::Regex;

use crate::beginning::Beginnings;

/// Which tools a hook applies to.
#[derive(Clone)]
pub enum ToolMatcher {
    /// These tools. Built with [`ToolMatcher::names`].
    Names(Vec<ToolName>),
    /// Tools with a name that the expression matches. Built with [`ToolMatcher::regex`].
    Regex(Box<Regex>, Beginnings),
}

/// Which agents a hook applies to: agents whose id the expression matches.
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
    /// Creates a matcher for tools by name, each under any of its names; `group:<name>` stands for the tools of a group. A name
    /// that no known tool has is assumed to be that of a tool from a plugin, an MCP server or a client.
    ///
    /// # Errors
    ///
    /// [`InvalidMatcher`] for what can match no tool at all: an unknown group, an empty name or list.
    pub fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidMatcher> {
        let mut tools = Vec::new();
        for name in names {
            match group(name) {
                Some(members) => tools.extend(members.iter().map(|tool| ToolName::new(tool))),
                None if name.starts_with("group:") => return Err(InvalidMatcher::Group(name.to_owned())),
                None if name.trim().is_empty() => return Err(InvalidMatcher::Empty),
                None => tools.push(ToolName::new(name)),
            }
        }
        if tools.is_empty() { Err(InvalidMatcher::Empty) } else { Ok(Self::Names(tools)) }
    }

    /// Creates a matcher for tools by regular expression: those with a name that it matches, as called, canonical or another
    /// known spelling.
    ///
    /// # Errors
    ///
    /// [`InvalidMatcher::Regex`].
    pub fn regex(pattern: &str) -> Result<Self, InvalidMatcher> {
        compile(pattern).map(|regex| Self::Regex(regex, Beginnings::of(pattern)))
    }

    /// Returns whether the matcher applies to the tool.
    pub fn matches(&self, tool: &ToolName) -> bool {
        match self {
            Self::Names(names) => names.iter().any(|name| name.selects(tool)),
            Self::Regex(regex, beginnings) => {
                tool.every_name().any(|name| regex.is_match(name))
                    || tool.open_prefix().is_some_and(|prefix| beginnings.may_match(prefix))
            }
        }
    }

    /// Refuses a matcher that matches none of `known`.
    pub(crate) fn check(&self, known: &[ToolName]) -> Result<(), InvalidMatcher> {
        if known.iter().any(|tool| self.matches(tool)) {
            return Ok(());
        }
        Err(InvalidMatcher::MatchesNothing {
            matcher: match self {
                Self::Names(_) => self.to_string(),
                Self::Regex(regex, _) => regex.as_str().to_owned(),
            },
            known: known.iter().map(ToolName::canonical).collect::<Vec<_>>().join(", "),
        })
    }

    /// Returns hints for people about names in it that no tool of `known` has: probably typos.
    pub fn hints(&self, known: &[ToolName]) -> Vec<String> {
        match self {
            Self::Names(names) => names.iter().filter_map(|name| name.typo_hint(known)).collect(),
            Self::Regex(..) => self.check(known).err().map(|error| error.to_string()).into_iter().collect(),
        }
    }
}

impl AgentMatcher {
    /// Creates a matcher for agents by a regular expression on their id.
    ///
    /// # Errors
    ///
    /// [`InvalidMatcher::Regex`].
    pub fn regex(pattern: &str) -> Result<Self, InvalidMatcher> {
        compile(pattern).map(Self)
    }

    /// Returns whether the matcher applies to the agent. A call without an agent belongs to nobody, and so does not match.
    pub fn matches(&self, agent: Option<&AgentId>) -> bool {
        agent.is_some_and(|agent| self.0.is_match(agent.as_str()))
    }
}

impl fmt::Display for ToolMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Names(names) => {
                f.write_str(&names.iter().map(ToolName::called).collect::<Vec<_>>().join("|"))
            }
            Self::Regex(regex, _) => write!(f, "/{regex}/"),
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
