//! Tool names: what a tool is called, and which tool it is.
//!
//! Agents call the same tool `bash`, `run_command` or `exec`. A [`ToolName`] holds both: the name *as called*,
//! exactly as the model or the client wrote it, and the *canonical* name, one spelling per tool, by which
//! policies know it. Code that reads a name has to choose one of the two.
//!
//! The law: *another spelling of a tool's name never makes a rule milder.*
//!
//! - A rule that denies or selects holds for every name of the tool ([`ToolName::every_name`]): as called,
//!   canonical, the other spellings known for it, and what a lenient client may take it for (`functions.` in front, blanks around
//!   it, letters that nobody sees or that look like others).
//! - A rule that allows means the name it was written with ([`ToolName::names_it_is_allowed_by`]): the canonical
//!   name means the tool under any name; any other spelling means only calls with that spelling.
//! - A name as called that is the name of another tool (an MCP server's `read`) allows nothing.
//! - A name that ends in `*` stands for every tool whose name begins that way ([`ToolName::open_prefix`]). A rule that
//!   denies or selects one of these applies to it; a rule that allows applies only if it allows all of them.
//!
//! Unknown names are canonical as they are: tools of plugins and MCP servers bring their own names and
//! keep their capitalisation.

mod lenient;

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::point::edit_distance;
use crate::shown::ShownName;

/// A tool's name, as called and canonical.
///
/// ```
/// use backstop_hooks::ToolName;
/// let tool = ToolName::new("Bash");
/// assert_eq!((tool.called(), tool.canonical()), ("Bash", "exec"));
/// let tool = ToolName::new("mcp__GitHub__createIssue");
/// assert_eq!(tool.canonical(), "mcp__GitHub__createIssue");
/// ```
///
/// On the wire it is two fields of the record that holds it: `toolName` is the canonical name, `calledAs` the
/// name as called where that is another one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolName(Arc<Names>);

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Names {
    called: Box<str>,
    canonical: Canonical,
    /// What lenient clients may take the names for, where that is another.
    lenient: Box<[Box<str>]>,
}

impl Names {
    fn new(called: &str, canonical: Canonical) -> Self {
        let given = match &canonical {
            Canonical::Given(given) => Some(&**given),
            Canonical::AsCalled | Canonical::Known(_) => None,
        };
        let lenient = [Some(called), given].into_iter().flatten().filter_map(lenient::reading).collect();
        Self { called: called.into(), canonical, lenient }
    }
}

/// One value has one form, so that names compare by what they say.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Canonical {
    /// The name as called.
    AsCalled,
    /// A tool known at start that is called differently.
    Known(&'static str),
    /// Any other tool that is called differently.
    Given(Box<str>),
}

/// The tools known at start, by group.
pub const GROUPS: &[(&str, &[&str])] = &[
    ("fs", &["read", "write", "edit", "apply_patch"]),
    ("runtime", &["exec", "process"]),
    ("memory", &["memory_search", "memory_get"]),
    ("web", &["web_search", "web_fetch"]),
    ("sessions", &["sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "session_status"]),
    ("ui", &["browser", "canvas"]),
    ("automation", &["cron", "gateway"]),
    ("messaging", &["message"]),
    ("nodes", &["nodes"]),
];

/// The tools known at start that are in no group.
pub const UNGROUPED: &[&str] = &["agents_list", "image", "tts"];

/// Other spellings of tools known at start, by canonical name. Capitals don't matter in them, nor a `functions.` in front,
/// which is how models of OpenAI's see any tool. Names that could as well be those of something else (`view`, `create`,
/// `fetch`) are left out, since who allows a tool allows its spellings.
///
/// They are the names of Claude Code 2.1, Codex 0.169, Gemini CLI, Qwen Code, Cline, OpenCode, Copilot in VS Code 1.93,
/// Cursor, Kiro and Droid, and of the tools in the wires of OpenAI and Anthropic.
pub const SPELLINGS: &[(&str, &[&str])] = &[
    (
        "exec",
        &[
            "bash",
            "shell",
            "run_command",
            "run_commands",
            "run_shell_command",
            "execute_bash",
            "execute_command",
            "exec_command",
            "unified_exec",
            "shell_command",
            "container.exec",
            "local_shell",
            "local_shell_call",
            "shell_call",
            "run_in_terminal",
            "run_terminal_cmd",
            "run_terminal_command",
            "powershell",
        ],
    ),
    ("apply_patch", &["apply-patch", "applypatch", "apply_patch_call"]),
    ("read", &["read_file"]),
    ("write", &["write_file", "write_to_file"]),
    (
        "edit",
        &["edit_file", "multiedit", "replace_in_file", "str_replace_editor", "str_replace_based_edit_tool"],
    ),
    ("web_search", &["websearch", "google_web_search"]),
    ("web_fetch", &["webfetch", "fetch_webpage"]),
];

/// Returns all tools known at start, by canonical name.
pub fn known_tools() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, tools)| tools.iter()).chain(UNGROUPED).copied()
}

/// Returns the tools of `group:<name>`; `None` for a group that does not exist.
pub fn group(name: &str) -> Option<&'static [&'static str]> {
    let name = name.strip_prefix("group:")?;
    GROUPS.iter().find(|(group, _)| *group == name).map(|(_, tools)| *tools)
}

/// Returns the known spellings of a tool besides its canonical name; none for an unknown tool.
pub fn spellings(canonical: &str) -> &'static [&'static str] {
    SPELLINGS.iter().find(|(tool, _)| *tool == canonical).map_or(&[], |(_, spellings)| spellings)
}

/// Returns the canonical name of the known tool that is written so, whatever the capitals and white space around it.
fn known(written: &str) -> Option<&'static str> {
    let written = written.trim();
    let written = written.strip_prefix("functions.").unwrap_or(written);
    known_tools().find(|tool| tool.eq_ignore_ascii_case(written)).or_else(|| {
        let is_spelled = |spellings: &[&str]| spellings.iter().any(|s| s.eq_ignore_ascii_case(written));
        SPELLINGS.iter().find(|(_, spellings)| is_spelled(spellings)).map(|(tool, _)| *tool)
    })
}

/// Returns the known name or spelling that was probably meant; `None` for a name that is known
/// or unlike any. This is a hint for people: an unknown name may well be that of a tool.
pub fn nearest(written: &str) -> Option<&'static str> {
    let written = written.trim().to_ascii_lowercase();
    if known(&written).is_some() {
        return None;
    }
    let spelled = SPELLINGS.iter().flat_map(|(_, spellings)| spellings.iter().copied());
    known_tools()
        .chain(spelled)
        .map(|tool| (edit_distance(tool, &written), tool))
        .filter(|(distance, tool)| *distance <= (tool.len() / 2).min(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, tool)| tool)
}

impl ToolName {
    /// Creates a tool name from the name as called; the known spellings determine the tool.
    pub fn new(called: &str) -> Self {
        let canonical = match known(called) {
            Some(tool) if tool != called => Canonical::Known(tool),
            _ => Canonical::AsCalled,
        };
        Self(Arc::new(Names::new(called, canonical)))
    }

    /// Creates a tool name for a host that knows which tool it is, such as an adapter for a coding agent.
    pub fn with_canonical(called: &str, canonical: &str) -> Self {
        let canonical = match known(canonical) {
            Some(tool) if tool == called => Canonical::AsCalled,
            Some(tool) => Canonical::Known(tool),
            None if canonical == called => Canonical::AsCalled,
            None => Canonical::Given(canonical.into()),
        };
        Self(Arc::new(Names::new(called, canonical)))
    }

    /// Creates a tool name for a call in a namespace, as models of OpenAI call the tools of a server. It is the name with the
    /// namespace as prefix, as clients name such tools (`mcp__shop__buy`), and rules that deny or select also apply to the bare
    /// name. A tool that is known by its bare name stays that tool, because a client may ignore namespaces.
    pub fn in_namespace(namespace: &str, called: &str) -> Self {
        let joined = format!("{namespace}__{called}");
        match known(called) {
            Some(tool) => Self::with_canonical(&joined, tool),
            None => Self::with_canonical(called, &joined),
        }
    }

    /// Returns the name as the model or the client wrote it.
    pub fn called(&self) -> &str {
        &self.0.called
    }

    /// Returns the canonical name of the tool, by which policies know it.
    pub fn canonical(&self) -> &str {
        match &self.0.canonical {
            Canonical::AsCalled => &self.0.called,
            Canonical::Known(tool) => tool,
            Canonical::Given(tool) => tool,
        }
    }

    /// Returns the name as called, if it is not the canonical one.
    pub fn called_as(&self) -> Option<&str> {
        (self.0.canonical != Canonical::AsCalled).then_some(&*self.0.called)
    }

    /// Returns both names, word for word, for the person who decides about a call or asked for it. Whoever prints the text has to
    /// escape it; anything else that names a tool writes the `ToolName`, which [shows](ShownName) plain words only.
    pub fn in_full(&self) -> String {
        match self.called_as() {
            Some(called) => format!("{called} ({})", self.canonical()),
            None => self.called().to_owned(),
        }
    }

    /// Returns the common prefix of the tools that this name stands for, if it stands for all tools of a server that
    /// a provider asks itself (`mcp__shop__*`); `None` for the name of one tool.
    pub fn open_prefix(&self) -> Option<&str> {
        self.called().strip_suffix('*')
    }

    /// Every name of the tool, for rules that deny or select: as called, canonical, what lenient clients may take it for, and all
    /// known spellings of any of them. A name may come twice.
    pub fn every_name(&self) -> impl Iterator<Item = &str> {
        let (called, canonical) = (self.called_as(), self.canonical());
        let other = called.and_then(known).filter(|tool| *tool != canonical);
        let meant = || self.lenient().filter_map(known).map(|tool: &str| -> &str { tool });
        let spelled = [Some(canonical), other].into_iter().flatten().chain(meant()).flat_map(spellings);
        let spelled = spelled.map(|name: &&str| -> &str { name });
        let names = called.into_iter().chain([canonical]).chain(other);
        names.chain(self.lenient()).chain(meant()).chain(spelled)
    }

    /// What lenient clients may take the names for, where that is another.
    fn lenient(&self) -> impl Iterator<Item = &str> {
        self.0.lenient.iter().map(|name| &**name)
    }

    /// Returns the names by which the tool may be allowed: the canonical one, and the name as called unless that is
    /// the name of another tool, or puts a known one in a namespace.
    pub fn names_it_is_allowed_by(&self) -> impl Iterator<Item = &str> {
        let canonical = self.canonical();
        let bare = |called: &str| called.rsplit_once("__").and_then(|(_, bare)| known(bare));
        let honest = |called: &&str| {
            known(called).is_none_or(|tool| tool == canonical)
                && bare(called).is_none_or(|tool| tool != canonical)
        };
        [canonical].into_iter().chain(self.called_as().filter(honest))
    }

    /// Returns whether a rule that denies or selects `self` applies to `tool`: it is one of the tool's names,
    /// case-insensitively, or another spelling of one.
    pub fn selects(&self, tool: &Self) -> bool {
        let is = |name: &str| name.eq_ignore_ascii_case(self.canonical());
        is(tool.canonical())
            || tool.called_as().into_iter().chain(tool.lenient()).any(|called| {
                is(called) || called.eq_ignore_ascii_case(&self.0.called) || known(called).is_some_and(is)
            })
            || tool
                .open_prefix()
                .is_some_and(|prefix| self.every_name().any(|name| begins_with(name, prefix)))
    }

    /// Returns a hint for people about a rule with this name, if no tool of `tools` has it and it is close to the name of
    /// one, or to a known spelling.
    pub fn typo_hint(&self, tools: &[Self]) -> Option<String> {
        if tools.iter().any(|tool| self.selects(tool)) {
            return None;
        }
        let meant = nearest(&self.0.called)?;
        Some(format!("no known tool is called `{}`; did you mean `{meant}`?", self.0.called))
    }

    /// Returns whether a rule that allows `rule` allows the tool.
    pub fn is_allowed_by(&self, rule: &str) -> bool {
        self.names_it_is_allowed_by().any(|name| name == rule)
    }
}

/// Returns whether a name begins with `prefix`, case-insensitively.
fn begins_with(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(prefix))
}

impl fmt::Display for ToolName {
    /// Writes the name as called, as far as it may be [shown](ShownName): reasons, notices and logs are made of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ShownName::new(self.called()).fmt(f)
    }
}

impl fmt::Debug for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.called_as() {
            Some(called) => {
                write!(f, "ToolName({:?} is {:?})", ShownName::new(called), ShownName::new(self.canonical()))
            }
            None => write!(f, "ToolName({:?})", ShownName::new(self.called())),
        }
    }
}

impl From<&str> for ToolName {
    fn from(called: &str) -> Self {
        Self::new(called)
    }
}

/// The two fields that a name is on the wire.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Wire {
    /// The tool, by its canonical name: one spelling for one tool.
    tool_name: String,
    /// The name as the model or the client wrote it, where that is another one.
    #[serde(default, deserialize_with = "crate::outcome::present")]
    #[schemars(with = "String")]
    called_as: Option<String>,
}

/// The same, where the tool may not be known.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MaybeWire {
    /// The tool, by its canonical name: one spelling for one tool.
    #[serde(default, deserialize_with = "crate::outcome::present")]
    #[schemars(with = "String")]
    tool_name: Option<String>,
    /// The name as the model or the client wrote it, where that is another one.
    #[serde(default, deserialize_with = "crate::outcome::present")]
    #[schemars(with = "String")]
    called_as: Option<String>,
}

fn read(canonical: &str, called: Option<&str>) -> ToolName {
    match called {
        Some(called) => ToolName::with_canonical(called, canonical),
        None => ToolName::new(canonical),
    }
}

/// Reads a name that may be missing. Serde would take anything that is no name for none.
pub(crate) fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ToolName>, D::Error> {
    let MaybeWire { tool_name, called_as } = MaybeWire::deserialize(deserializer)?;
    Ok(tool_name.map(|canonical| read(&canonical, called_as.as_deref())))
}

impl Serialize for ToolName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let called = self.called_as();
        let mut wire = serializer.serialize_struct("ToolName", 1 + usize::from(called.is_some()))?;
        wire.serialize_field("toolName", self.canonical())?;
        if let Some(called) = called {
            wire.serialize_field("calledAs", called)?;
        }
        wire.end()
    }
}

impl<'de> Deserialize<'de> for ToolName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Wire { tool_name, called_as } = Wire::deserialize(deserializer)?;
        Ok(read(&tool_name, called_as.as_deref()))
    }
}

impl JsonSchema for ToolName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ToolName".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Wire::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn mcp_names_keep_their_case() {
        for name in ["mcp__GitHub__createIssue", "Send_Email", " odd "] {
            let tool = ToolName::new(name);
            assert_eq!((tool.called(), tool.canonical(), tool.called_as()), (name, name, None));
        }
        assert_ne!(ToolName::new("mcp__a__Run"), ToolName::new("mcp__a__run"));
    }

    #[test]
    fn a_known_tool_has_one_canonical_name_and_keeps_the_called_one() {
        for called in
            ["Bash", "run_command", " EXEC ", "shell", "PowerShell", "functions.exec_command", "local_shell"]
        {
            let tool = ToolName::new(called);
            assert_eq!((tool.called(), tool.canonical()), (called, "exec"));
        }
        assert_eq!(ToolName::new("exec").called_as(), None);
        assert_eq!(
            ToolName::with_canonical("Shell", "bash").canonical(),
            "exec",
            "canonical means canonical"
        );
        for (canonical, spellings) in SPELLINGS {
            assert!(known_tools().any(|tool| tool == *canonical), "{canonical}");
            assert!(spellings.iter().all(|spelling| known_tools().all(|tool| tool != *spelling)));
        }
    }

    #[test]
    fn a_name_is_written_as_it_was_read() {
        for tool in [
            ToolName::new("exec"),
            ToolName::new("Bash"),
            ToolName::new("Foo"),
            ToolName::with_canonical("bash", "mcp__box__bash"),
            ToolName::with_canonical("mcp_box_run", "mcp__box__run"),
        ] {
            let wire = serde_json::to_value(&tool).unwrap();
            assert_eq!(serde_json::from_value::<ToolName>(wire.clone()).unwrap(), tool, "{wire}");
        }
        assert_eq!(
            serde_json::to_value(ToolName::new("Bash")).unwrap(),
            json!({"toolName": "exec", "calledAs": "Bash"})
        );
        let read: ToolName = serde_json::from_value(json!({"toolName": "bash"})).unwrap();
        assert_eq!(read.canonical(), "exec", "a name from outside is looked up too");
    }

    #[test]
    fn a_namespace_makes_no_rule_milder() {
        let buy = ToolName::in_namespace("mcp__shop", "buy");
        assert_eq!((buy.called(), buy.canonical()), ("buy", "mcp__shop__buy"));
        for rule in ["buy", "mcp__shop__buy"] {
            assert!(ToolName::new(rule).selects(&buy), "{rule}");
            assert!(buy.every_name().any(|name| name == rule), "{rule}");
        }
        assert!(buy.is_allowed_by("mcp__shop__buy"));
        // What is known by its bare name is judged as that, and no name of a server's tools allows it.
        for called in
            known_tools().chain(SPELLINGS.iter().flat_map(|(_, spellings)| spellings.iter().copied()))
        {
            let (bare, named) = (ToolName::new(called), ToolName::in_namespace("mcp__shop", called));
            assert_eq!(bare.canonical(), named.canonical());
            let joined = format!("mcp__shop__{called}");
            assert!(
                ToolName::new(&joined).selects(&named) && ToolName::new(called).selects(&named),
                "{called}"
            );
            assert_eq!(named.names_it_is_allowed_by().collect::<Vec<_>>(), [bare.canonical()], "{called}");
        }
    }

    #[test]
    fn a_rule_that_selects_holds_for_every_name() {
        let rule = |written: &str, tool: &ToolName| ToolName::new(written).selects(tool);
        for called in ["exec", "Bash", "run_command"] {
            let tool = ToolName::new(called);
            assert!(["exec", "bash", "RUN_COMMAND", called].iter().all(|written| rule(written, &tool)));
            assert!(tool.every_name().any(|name| name == "run_command"));
        }
        let theirs = ToolName::with_canonical("read", "mcp__files__read");
        assert!(rule("read", &theirs) && rule("mcp__Files__read", &theirs) && !rule("write", &theirs));
        let box_bash = ToolName::with_canonical("bash", "mcp__box__bash");
        assert!(rule("exec", &box_bash), "what is called like ours is denied like ours");
        assert!(box_bash.every_name().any(|name| name == "run_command"));
        let gemini = ToolName::with_canonical("mcp_box_run", "mcp__box__run");
        assert!(rule("mcp_box_run", &gemini) && rule("mcp__box__run", &gemini));
    }

    #[test]
    fn what_lenient_clients_read_is_denied_and_not_allowed() {
        for (written, plain) in [
            ("functions.send", "send"),
            ("default_api:send", "send"),
            (" send ", "send"),
            ("se\u{200b}nd", "send"),
            ("\u{ff53}end", "send"),
            ("default_api:run_command", "exec"),
            ("ba\u{2060}sh", "exec"),
        ] {
            for tool in [
                ToolName::new(written),
                ToolName::with_canonical("x", written),
                ToolName::with_canonical(written, "x"),
            ] {
                assert!(ToolName::new(plain).selects(&tool), "{written:?}");
                assert!(tool.every_name().any(|name| name == plain), "{written:?}");
                assert!(!tool.is_allowed_by(plain), "{written:?}");
            }
        }
    }

    #[test]
    fn allow_only_by_the_name_that_was_meant() {
        let bash = ToolName::new("bash");
        assert!(bash.is_allowed_by("exec") && bash.is_allowed_by("bash"));
        assert!(!bash.is_allowed_by("Bash") && !bash.is_allowed_by("run_command"));
        assert!(
            !ToolName::new("exec").is_allowed_by("bash"),
            "a spelling allows only calls that are spelled so"
        );
        let theirs = ToolName::with_canonical("read", "mcp__files__read");
        assert!(theirs.is_allowed_by("mcp__files__read"));
        assert!(!theirs.is_allowed_by("read"), "another tool's name opens nothing");
        assert!(!ToolName::with_canonical("bash", "mcp__box__bash").is_allowed_by("bash"));
    }

    #[test]
    fn a_name_that_stands_for_all_tools_of_a_server_is_selected_by_each_of_them() {
        let shop = ToolName::new("mcp__shop__*");
        assert_eq!(shop.open_prefix(), Some("mcp__shop__"));
        for rule in ["mcp__shop__drop_all", "MCP__Shop__x", "mcp__shop__*"] {
            assert!(ToolName::new(rule).selects(&shop), "{rule}");
            assert!(rule == "mcp__shop__*" || !shop.is_allowed_by(rule), "{rule}");
        }
        for rule in ["mcp__shop", "mcp__other__drop_all", "drop_all", "exec"] {
            assert!(!ToolName::new(rule).selects(&shop), "{rule}");
        }
        assert!(ToolName::new("exec").selects(&ToolName::new("*")));
        assert!(ToolName::new("exec").selects(&ToolName::new("run_*")), "by another spelling");
        assert!(
            !ToolName::new("mcp__shop__*").selects(&ToolName::new("mcp__shop__buy")),
            "a rule is no family"
        );
    }

    #[test]
    fn near_misses_are_hints() {
        assert_eq!(nearest("exce"), Some("exec"));
        assert_eq!(nearest("web_serch"), Some("web_search"));
        assert_eq!(nearest("run_comand"), Some("run_command"));
        assert_eq!(nearest("send_email"), None);
        assert_eq!(nearest("exec"), None);
        assert_eq!(nearest(""), None);
    }
}
