//! What a tool call would do, as far as its arguments say: the commands it hands to a shell and the files
//! it touches.
//!
//! Known tools are read by their own arguments. Any other tool (of a plugin, of an MCP server) is read by
//! the shape of its arguments: a string under `command` is a command whatever the tool is called. Reading
//! too much costs a needless judgement; reading too little is a hole.

use backstop_hooks::{Params, ToolName};
use serde_json::Value;

use crate::{Access, ShellKind};

/// A command that a tool call hands to a shell.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ShellInput {
    pub(super) text: String,
    pub(super) shell: ShellKind,
    /// Where it would run, as written.
    pub(super) workdir: Option<String>,
}

/// A file that a tool call touches.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileUse {
    pub(super) path: String,
    pub(super) access: Access,
}

const COMMAND_KEYS: &[&str] = &["command", "cmd", "commands", "script", "shell_command", "command_line"];
const WORKDIR_KEYS: &[&str] = &["workdir", "cwd", "working_directory", "dir_path", "directory"];
const PATH_KEYS: &[&str] = &[
    "path",
    "paths",
    "file_path",
    "filePath",
    "filepath",
    "file",
    "files",
    "filename",
    "absolute_path",
    "notebook_path",
    "target_file",
    "source",
    "destination",
    "old_path",
    "new_path",
    "from_path",
    "to_path",
];
const PATCH_KEYS: &[&str] = &["patch", "input", "patch_text", "patchText", "diff"];

/// Tools whose arguments are data, not commands or paths.
const NEITHER: &[&str] =
    &["web_search", "web_fetch", "memory_search", "memory_get", "message", "tts", "image"];

pub(super) fn shell_inputs(tool: &ToolName, params: &Params) -> Vec<ShellInput> {
    let name = tool.as_str();
    if matches!(name, "read" | "write" | "edit" | "apply_patch") || NEITHER.contains(&name) {
        return Vec::new();
    }
    let workdir = WORKDIR_KEYS.iter().find_map(|key| params.get(*key)?.as_str()).map(str::to_owned);
    let shell = match name {
        "powershell" | "pwsh" => ShellKind::PowerShell,
        "cmd" => ShellKind::Cmd,
        _ => ShellKind::Posix,
    };
    let mut texts = Vec::new();
    if name == "process" {
        // What is written to a running program may be a shell's next line.
        texts.extend(params.get("data").into_iter().flat_map(commands_in));
    }
    for key in COMMAND_KEYS {
        texts.extend(params.get(*key).into_iter().flat_map(commands_in));
    }
    texts.into_iter().map(|text| ShellInput { text, shell, workdir: workdir.clone() }).collect()
}

/// A string is a command line, a list of strings is one argument vector or several command lines; both
/// readings are judged. Objects are searched for commands of their own.
fn commands_in(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => {
            let words: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            let mut found: Vec<String> = Vec::new();
            if !words.is_empty() {
                found.push(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "));
                found.extend(
                    words
                        .iter()
                        .filter(|word| word.contains(char::is_whitespace))
                        .map(|&word| word.to_owned()),
                );
            }
            found.extend(items.iter().filter(|item| item.is_object()).flat_map(commands_in));
            found
        }
        Value::Object(fields) => {
            COMMAND_KEYS.iter().filter_map(|key| fields.get(*key)).flat_map(commands_in).collect()
        }
        _ => Vec::new(),
    }
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

pub(super) fn file_uses(tool: &ToolName, params: &Params) -> Vec<FileUse> {
    let name = tool.as_str();
    if matches!(name, "exec" | "process") || NEITHER.contains(&name) {
        return Vec::new();
    }
    let access = match name {
        "read" => Access::Read,
        "write" | "apply_patch" => Access::Write,
        "edit" => Access::Edit,
        other
            if ["write", "edit", "create", "delete", "move", "replace", "patch", "save", "append"]
                .iter()
                .any(|word| other.contains(word)) =>
        {
            Access::Write
        }
        _ => Access::Read,
    };
    let mut uses = Vec::new();
    for key in PATH_KEYS {
        uses.extend(params.get(*key).into_iter().flat_map(strings).map(|path| FileUse { path, access }));
    }
    if name == "apply_patch" || name.contains("patch") {
        for key in PATCH_KEYS {
            let patch = params.get(*key).and_then(Value::as_str).unwrap_or_default();
            uses.extend(patched_paths(patch).map(|path| FileUse { path, access: Access::Write }));
        }
    }
    uses
}

fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(strings).collect(),
        Value::Object(fields) => {
            PATH_KEYS.iter().filter_map(|key| fields.get(*key)).flat_map(strings).collect()
        }
        _ => Vec::new(),
    }
}

/// The files a patch names, in the envelope's form and in that of unified diffs. More may be named than
/// are touched (a line of a file may look like a header); fewer may not.
fn patched_paths(patch: &str) -> impl Iterator<Item = String> + '_ {
    const HEADERS: &[&str] = &[
        "*** Update File:",
        "*** Add File:",
        "*** Delete File:",
        "*** Move to:",
        "--- ",
        "+++ ",
        "rename from ",
        "rename to ",
        "copy from ",
        "copy to ",
    ];
    patch.lines().filter_map(|line| {
        let line = line.trim_start();
        let path = HEADERS.iter().find_map(|header| line.strip_prefix(header))?;
        let path = path.split('\t').next().unwrap_or_default().trim();
        let path = path.strip_prefix("a/").or_else(|| path.strip_prefix("b/")).unwrap_or(path);
        (!path.is_empty() && path != "/dev/null").then(|| path.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn params(value: Value) -> Params {
        Params::from_value(value).unwrap()
    }

    fn texts(tool: &str, value: Value) -> Vec<String> {
        shell_inputs(&ToolName::new(tool), &params(value)).into_iter().map(|input| input.text).collect()
    }

    fn paths(tool: &str, value: Value) -> Vec<String> {
        file_uses(&ToolName::new(tool), &params(value)).into_iter().map(|used| used.path).collect()
    }

    #[test]
    fn every_way_to_a_shell_is_seen() {
        assert_eq!(texts("bash", json!({"command": "ls"})), ["ls"]);
        assert_eq!(texts("process", json!({"action": "write", "data": "ls\n"})), ["ls\n"]);
        assert_eq!(texts("mcp__box__run", json!({"cmd": "ls"})), ["ls"]);
        assert_eq!(texts("run_commands", json!({"commands": ["ls -l", "pwd"]})), ["'ls -l' 'pwd'", "ls -l"]);
        assert_eq!(texts("x", json!({"commands": [{"command": "ls"}]})), ["ls"]);
        assert_eq!(texts("write", json!({"path": "a", "command": "ls"})), Vec::<String>::new());
    }

    #[test]
    fn every_named_file_is_seen() {
        assert_eq!(paths("read", json!({"path": "a"})), ["a"]);
        assert_eq!(paths("Read", json!({"file_path": "a"})), ["a"]);
        assert_eq!(paths("mcp__fs__move_file", json!({"source": "a", "destination": "b"})), ["a", "b"]);
        let patch = "*** Begin Patch\n*** Update File: a b\n*** Move to: c\n*** End Patch";
        assert_eq!(paths("apply_patch", json!({"input": patch})), ["a b", "c"]);
        assert_eq!(paths("apply_patch", json!({"patch": "--- a/x\n+++ b/y\n@@"})), ["x", "y"]);
    }
}
