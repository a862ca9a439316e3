//! Patterns for tools, as written in the configuration.
//!
//! A pattern is the name of a tool, `group:<name>`, or a name with shell wildcards (`*`, `?`, `[a-z]`, `[!a-z]`).
//! Its meaning depends on its use:
//!
//! - To *deny*, it holds if it matches any of the tool's names, case-insensitively: as the model or the client
//!   called it, canonical, or another known spelling. Another spelling of the name gets no call past it.
//! - To *allow*, it holds only for the name that was meant, case-sensitively: the canonical name (also of a group's
//!   members) means the tool under any of its names; any other spelling, and what wildcards match, means calls with
//!   that spelling. A third-party tool with the name of a built-in one is not that tool.
//!
//! A name that stands for all tools of a server which a provider asks itself (`mcp__shop__*`) is denied by a pattern that
//! could match one of them, and allowed only by a pattern that matches all of them.
//!
//! Only what can match no tool at all is refused: an empty pattern, an invalid one, a group that does not
//! exist. Any other name may be that of a tool from a plugin, an MCP server or a client. If it is close to the
//! name of a known tool, there is a hint ([`ToolPattern::hint`]).

use std::fmt;

use backstop_engine::Beginnings;
use backstop_hooks::tool_name::{GROUPS, group};
use backstop_hooks::{Malformed, ToolName};
use globset::{GlobBuilder, GlobMatcher};

/// A pattern for tools.
pub struct ToolPattern {
    written: String,
    means: Means,
}

enum Means {
    Name(ToolName),
    Group(&'static [&'static str]),
    Wildcards(Box<Wildcards>),
}

/// A name with wildcards.
struct Wildcards {
    exact: GlobMatcher,
    any_case: GlobMatcher,
    /// Whether it could match a name of which the beginning is known.
    beginnings: Beginnings,
    /// What stands in front of a `*` at its end: where that matches, anything may follow.
    head: Option<GlobMatcher>,
}

impl Wildcards {
    fn new(name: &str) -> Result<Self, globset::Error> {
        let any_case = wildcards(name, true)?;
        let head =
            name.strip_suffix('*').map(|_| wildcards(name.trim_end_matches('*'), false)).transpose()?;
        let beginnings = Beginnings::of(any_case.glob().regex());
        Ok(Self { exact: wildcards(name, false)?, any_case, beginnings, head })
    }

    fn denies(&self, tool: &ToolName) -> bool {
        tool.every_name().any(|name| self.any_case.is_match(name))
            || tool.open_prefix().is_some_and(|prefix| self.beginnings.may_match(prefix))
    }

    fn allows(&self, tool: &ToolName) -> bool {
        match (tool.open_prefix(), &self.head) {
            (None, _) => tool.names_it_is_allowed_by().any(|name| self.exact.is_match(name)),
            (Some(_), None) => false,
            (Some(prefix), Some(head)) => {
                let ends = prefix.char_indices().map(|(at, _)| at).chain([prefix.len()]);
                ends.filter_map(|end| prefix.get(..end)).any(|beginning| head.is_match(beginning))
            }
        }
    }
}

impl ToolPattern {
    /// Reads a pattern of the option `option`.
    ///
    /// # Errors
    ///
    /// [`Malformed`] for what can match no tool at all.
    pub fn new(option: &str, written: &str) -> Result<Self, Malformed> {
        let refuse =
            |why: &str| Err(Malformed::new(format!("`{option}`: `{written}` is no usable pattern: {why}")));
        let name = written.trim();
        let means = if name.is_empty() {
            return refuse("it is empty");
        } else if let Some(members) = group(name) {
            Means::Group(members)
        } else if name.starts_with("group:") {
            let known: Vec<&str> = GROUPS.iter().map(|(group, _)| *group).collect();
            return refuse(&format!("there is no such group\nhint: groups: {}", known.join(", ")));
        } else if name.contains(['*', '?', '[']) {
            match Wildcards::new(name) {
                Ok(wildcards) => Means::Wildcards(Box::new(wildcards)),
                Err(error) => return refuse(&error.kind().to_string()),
            }
        } else {
            Means::Name(ToolName::new(name))
        };
        Ok(Self { written: written.to_owned(), means })
    }

    /// Reads the patterns of the option `option`.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn list(option: &str, written: &[String]) -> Result<Vec<Self>, Malformed> {
        written.iter().map(|pattern| Self::new(option, pattern)).collect()
    }

    /// Returns whether the pattern applies to the tool when it denies or asks.
    pub fn denies(&self, tool: &ToolName) -> bool {
        match &self.means {
            Means::Name(name) => name.selects(tool),
            Means::Group(members) => members.iter().any(|member| ToolName::new(member).selects(tool)),
            Means::Wildcards(wildcards) => wildcards.denies(tool),
        }
    }

    /// Returns whether the pattern applies to the tool when it allows.
    pub fn allows(&self, tool: &ToolName) -> bool {
        match &self.means {
            Means::Name(name) => tool.is_allowed_by(name.called()),
            Means::Group(members) => members.iter().any(|member| tool.is_allowed_by(member)),
            Means::Wildcards(wildcards) => wildcards.allows(tool),
        }
    }

    /// Returns the one tool that is named in full; `None` for a group or wildcards.
    pub fn tool(&self) -> Option<&ToolName> {
        match &self.means {
            Means::Name(name) => Some(name),
            Means::Group(_) | Means::Wildcards(_) => None,
        }
    }

    /// Returns the tools that are named one by one; `None` for wildcards, which may mean tools that nobody knows yet.
    pub fn tools(&self) -> Option<Vec<ToolName>> {
        match &self.means {
            Means::Name(name) => Some(vec![name.clone()]),
            Means::Group(members) => Some(members.iter().map(|member| ToolName::new(member)).collect()),
            Means::Wildcards(_) => None,
        }
    }

    /// Returns a hint for people about a name that no tool of `known` has but that is close to one.
    pub fn hint(&self, known: &[ToolName]) -> Option<String> {
        self.tool()?.typo_hint(known)
    }
}

fn wildcards(pattern: &str, any_case: bool) -> Result<GlobMatcher, globset::Error> {
    // Braces are alternatives to the library and plain characters to a shell's file name match.
    let escaped = pattern.replace('{', "[{]").replace('}', "[}]");
    let mut glob = GlobBuilder::new(&escaped);
    glob.literal_separator(false).backslash_escape(false).case_insensitive(any_case);
    Ok(glob.build()?.compile_matcher())
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl fmt::Debug for ToolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

#[cfg(test)]
mod tests {
    use backstop_hooks::tool_name::{SPELLINGS, known_tools, spellings};
    use proptest::prelude::*;

    use super::*;

    fn pattern(written: &str) -> ToolPattern {
        ToolPattern::new("deny_tools", written).unwrap()
    }

    fn denies(written: &str, tool: &str) -> bool {
        pattern(written).denies(&ToolName::new(tool))
    }

    fn allows(written: &str, tool: &str) -> bool {
        pattern(written).allows(&ToolName::new(tool))
    }

    #[test]
    fn deny_by_called_name() {
        for written in ["run_command", "run_*", "RUN_*", "exec", "ex*", "bash", "group:runtime"] {
            for called in ["run_command", "exec", "Bash", "execute_bash"] {
                assert!(denies(written, called), "{written} {called}");
            }
            assert!(!denies(written, "read"), "{written}");
        }
        assert!(denies("mcp__github__*", "mcp__GitHub__delete"));
        let gemini = ToolName::with_canonical("mcp_github_delete", "mcp__github__delete");
        assert!(pattern("mcp__github__*").denies(&gemini) && pattern("mcp_git*").denies(&gemini));
    }

    #[test]
    fn allow_only_by_the_name_that_was_meant() {
        assert!(allows("read", "Read") && allows("read", "read_file") && allows("group:fs", "read_file"));
        assert!(allows("read_file", "read_file"));
        assert!(!allows("read_file", "read") && !allows("read_file", "Read_File"));
        assert!(allows("file_*", "file_copy") && !allows("file_*", "File_Copy"));
        assert!(allows("re*", "read_file") && !allows("run_*", "exec"));
        let theirs = ToolName::with_canonical("read", "mcp__files__read");
        for written in ["read", "re*", "group:fs"] {
            assert!(!pattern(written).allows(&theirs), "{written}");
        }
        assert!(pattern("mcp__files__*").allows(&theirs));
    }

    #[test]
    fn an_open_connector_is_denied_by_what_one_of_its_tools_could_be() {
        for written in [
            "mcp__shop__drop_all",
            "MCP__Shop__drop_all",
            "mcp__shop__*",
            "mcp__*__drop_*",
            "*drop*",
            "*",
            "mcp__sh?p__[a-f]*",
            "mcp__*",
        ] {
            assert!(denies(written, "mcp__shop__*"), "{written}");
        }
        for written in ["mcp__shop", "mcp__store__*", "drop_all", "exec", "group:runtime", "web_*", "mcp_?"] {
            assert!(!denies(written, "mcp__shop__*"), "{written}");
        }
        for written in ["mcp__shop__*", "mcp__*", "*", "mcp__[st]*", "m*shop__*"] {
            assert!(allows(written, "mcp__shop__*"), "{written}");
        }
        for written in
            ["mcp__shop__?", "mcp__shop__[!d]*", "mcp__shop__buy*", "mcp__shop__drop_all", "*drop*"]
        {
            assert!(!allows(written, "mcp__shop__*"), "{written}");
        }
    }

    #[test]
    fn only_what_can_match_nothing_is_refused() {
        for bad in ["", " ", "[z-a]", "group:", "group:fss", "group:*"] {
            assert!(ToolPattern::new("deny_tools", bad).is_err(), "{bad}");
        }
        for good in ["send_email", "run_*", "exce", "{a}", "groups", "*"] {
            assert!(ToolPattern::new("deny_tools", good).is_ok(), "{good}");
        }
    }

    fn synonyms() -> impl Strategy<Value = (&'static str, &'static str)> {
        let tool = prop::sample::select(SPELLINGS.iter().map(|(tool, _)| *tool).collect::<Vec<_>>());
        tool.prop_flat_map(|tool| {
            let names: Vec<&str> = [tool].into_iter().chain(spellings(tool).iter().copied()).collect();
            (prop::sample::select(names.clone()), prop::sample::select(names))
        })
    }

    fn written() -> impl Strategy<Value = String> {
        let names: Vec<String> = known_tools()
            .chain(SPELLINGS.iter().flat_map(|(_, spellings)| spellings.iter().copied()))
            .map(str::to_owned)
            .chain(GROUPS.iter().map(|(group, _)| format!("group:{group}")))
            .collect();
        let name = prop::sample::select(names);
        prop_oneof![
            name.clone(),
            (name.clone(), 0..6_usize).prop_map(|(name, at)| match name.strip_prefix("group:") {
                Some(_) => name,
                None => format!("{}*", name.get(..at.min(name.len())).unwrap_or_default()),
            }),
            (name, 0..6_usize).prop_map(|(name, at)| match name.strip_prefix("group:") {
                Some(_) => name,
                None => format!("*{}", name.get(at.min(name.len())..).unwrap_or_default().to_uppercase()),
            }),
        ]
    }

    /// A name, with some of it written as wildcards.
    fn of_a_name() -> impl Strategy<Value = (String, String)> {
        let piece = prop_oneof![
            4 => "[a-c_A]".prop_map(|one| (one.clone(), one)),
            1 => "[a-c_]".prop_map(|one| (one, "?".to_owned())),
            1 => "[a-c_]{0,3}".prop_map(|some| (some, "*".to_owned())),
            1 => "[a-c]".prop_map(|one| (one, "[a-c]".to_owned())),
        ];
        prop::collection::vec(piece, 1..8).prop_map(|pieces| {
            let (names, patterns): (Vec<String>, Vec<String>) = pieces.into_iter().unzip();
            (names.concat(), patterns.concat())
        })
    }

    proptest! {
        #[test]
        fn what_denies_a_tool_denies_every_connector_that_may_bring_it(
            (name, written) in of_a_name(),
            end in 0..12_usize,
        ) {
            let written = format!("mcp__{written}");
            let name = format!("mcp__{name}");
            prop_assert!(denies(&written, &name), "{} {}", written, name);
            let open = format!("{}*", name.get(..end.min(name.len())).unwrap_or_default());
            prop_assert!(denies(&written, &open), "{} {}", written, open);
        }

        #[test]
        fn what_allows_a_connector_allows_every_tool_that_it_may_bring(
            (name, written) in of_a_name(),
            end in 0..12_usize,
            rest in "[a-d_*?]{0,4}",
        ) {
            let prefix = name.get(..end.min(name.len())).unwrap_or_default();
            if allows(&written, &format!("{prefix}*")) {
                let tool = format!("{prefix}{rest}");
                prop_assert!(allows(&written, &tool), "{} {}", written, tool);
            }
        }

        #[test]
        fn renaming_a_tool_to_a_synonym_never_makes_a_policy_milder(
            (one, other) in synonyms(),
            written in written(),
        ) {
            let pattern = pattern(&written);
            let (one, other) = (ToolName::new(one), ToolName::new(other));
            prop_assert_eq!(pattern.denies(&one), pattern.denies(&other));
            // What another spelling opens was written into the policy in that very spelling.
            if pattern.allows(&other) && !pattern.allows(&one) {
                prop_assert!(other.called_as().is_some());
                prop_assert!(pattern.tool().is_none_or(|tool| tool.called() == other.called()));
            }
        }

        #[test]
        fn a_tool_called_like_ours_is_never_treated_milder(tool in "[a-z_]{1,12}", written in written()) {
            let pattern = pattern(&written);
            for called in known_tools() {
                let theirs = ToolName::with_canonical(called, &format!("mcp__x__{tool}"));
                prop_assert!(!pattern.denies(&ToolName::new(called)) || pattern.denies(&theirs));
                prop_assert!(!pattern.allows(&theirs) || pattern.allows(&ToolName::new(theirs.canonical())));
            }
        }
    }
}
