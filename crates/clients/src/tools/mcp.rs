//! Names of tools on MCP servers.
//!
//! Every client joins server and tool in its own way. Policies see one spelling, `mcp__server__tool`,
//! with the capitals that server and tool have, beside the client's own. Where
//! the payload names server and tool, that counts; where only a joined name is there, it is split where the
//! client joins it, and a server name that holds the separator itself is split too early: the name that
//! policies see is then still one and the same for every call of that tool.

use backstop_hooks::ToolName;

/// How a client joins the names of server and tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum McpSpelling {
    /// `mcp__server__tool`: Claude Code, Codex, Qwen Code.
    DoubleUnderscore,
    /// `mcp_server_tool`: Gemini CLI.
    SingleUnderscore,
    /// `server-tool`, and `server/tool` where permissions are asked for: Copilot CLI.
    Dash,
    /// `server__tool`: Cline, goose.
    ServerFirst,
    /// `server_tool`, which only the list of servers can split: OpenCode.
    Listed,
    /// `MCP:tool`, without a server: Cursor.
    Prefix,
    /// `@server/tool`: Kiro.
    At,
    /// Server and tool are fields: Windsurf.
    Fields,
}

/// A tool on an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpTool {
    /// The server, where the client says it.
    pub server: Option<String>,
    /// The tool, as the server calls it.
    pub tool: String,
}

impl McpTool {
    /// A tool on a server that the payload names.
    pub(crate) fn on(server: &str, tool: &str) -> Option<Self> {
        (!server.is_empty() && !tool.is_empty())
            .then(|| Self { server: Some(server.to_owned()), tool: tool.to_owned() })
    }

    /// The tool's name, called as the client calls it. A server that the client does not name is `unknown`.
    pub(crate) fn called(&self, name: &str) -> ToolName {
        let server = self.server.as_deref().unwrap_or("unknown");
        ToolName::with_canonical(name, &format!("mcp__{server}__{}", self.tool))
    }
}

impl McpSpelling {
    /// Reads a joined name. `servers` is the list of servers, where the client sends one.
    pub(crate) fn read(self, name: &str, servers: &[&str]) -> Option<McpTool> {
        let split = |joined: &str, by: &str| {
            joined.split_once(by).and_then(|(server, tool)| McpTool::on(server, tool))
        };
        match self {
            Self::DoubleUnderscore => split(name.strip_prefix("mcp__")?, "__"),
            Self::SingleUnderscore => split(name.strip_prefix("mcp_")?, "_"),
            Self::Dash => split(name, "/").or_else(|| split(name, "-")),
            Self::ServerFirst => split(name, "__"),
            Self::Listed => servers
                .iter()
                .filter_map(|server| {
                    let tool = name.strip_prefix(&joinable(server))?.strip_prefix('_')?;
                    McpTool::on(server, tool)
                })
                // Of two servers that both fit, the longer name is meant.
                .max_by_key(|found| found.server.as_ref().map_or(0, String::len)),
            Self::Prefix => {
                let tool = name.strip_prefix("MCP:").filter(|tool| !tool.is_empty())?;
                Some(McpTool { server: None, tool: tool.to_owned() })
            }
            Self::At => split(name.strip_prefix('@')?, "/"),
            Self::Fields => None,
        }
    }
}

/// A server's name as it appears in a joined one: only letters, digits, `_` and `-` survive.
fn joinable(server: &str) -> String {
    server
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_one_name() {
        let cases = [
            (McpSpelling::DoubleUnderscore, "mcp__fake__echo_note"),
            (McpSpelling::SingleUnderscore, "mcp_fake_echo_note"),
            (McpSpelling::Dash, "fake-echo_note"),
            (McpSpelling::Dash, "fake/echo_note"),
            (McpSpelling::ServerFirst, "fake__echo_note"),
            (McpSpelling::Listed, "fake_echo_note"),
            (McpSpelling::At, "@fake/echo_note"),
        ];
        for (spelling, name) in cases {
            let found = spelling.read(name, &["fake"]).unwrap();
            assert_eq!(found.called(name).canonical(), "mcp__fake__echo_note", "{name}");
        }
        let cursor = McpSpelling::Prefix.read("MCP:echo_note", &[]).unwrap();
        assert_eq!(cursor.called("MCP:echo_note").canonical(), "mcp__unknown__echo_note");
    }

    #[test]
    fn the_longest_listed_server_is_meant() {
        let found = McpSpelling::Listed.read("my_box_run", &["my", "my_box"]).unwrap();
        assert_eq!((found.server.as_deref(), found.tool.as_str()), (Some("my_box"), "run"));
        assert_eq!(McpSpelling::Listed.read("my_box_run", &[]), None);
    }

    #[test]
    fn a_name_with_a_missing_half_is_no_mcp_tool() {
        for (spelling, name) in [
            (McpSpelling::DoubleUnderscore, "mcp__fake"),
            (McpSpelling::DoubleUnderscore, "mcp____x"),
            (McpSpelling::Dash, "bash"),
            (McpSpelling::Prefix, "MCP:"),
            (McpSpelling::At, "@fake/"),
        ] {
            assert_eq!(spelling.read(name, &[]), None, "{name}");
        }
    }
}
