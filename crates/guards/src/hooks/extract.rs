//! What a tool call would do according to its arguments: the commands it passes to a shell and the files
//! it touches.
//!
//! A tool is read by the shape of its arguments: a string under `command` is a command, whatever the tool is called.
//! Reading too much costs a needless judgement; reading too little is a hole.

use backstop_hooks::{Params, ToolName};
use backstop_shell::patched;
use serde_json::{Map, Value};

use super::shapes;
use crate::{Access, ShellKind};

/// A command that a tool call hands to a shell.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ShellInput {
    pub(super) text: String,
    pub(super) shell: ShellKind,
    /// Where it would run, as written.
    pub(super) workdir: Option<String>,
    /// What reads it, for text that is typed into a running program.
    pub(super) typed: Option<Typed>,
    /// Whether it is a text under a key that nobody knows, of a tool that runs what it is given.
    pub(super) is_guess: bool,
}

impl ShellInput {
    fn posix(text: String) -> Self {
        Self { text, shell: ShellKind::Posix, workdir: None, typed: None, is_guess: false }
    }
}

/// What a tool call runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Runs {
    pub(super) commands: Vec<ShellInput>,
    /// The languages of code that nobody here reads.
    pub(super) unread: Vec<String>,
}

/// What the arguments say about the program that is typed into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Typed {
    /// The command line that started it.
    pub(super) program: Option<String>,
    /// The whole lines it was given before.
    pub(super) before: Option<String>,
}

/// A file that a tool call touches.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileUse {
    pub(super) path: String,
    pub(super) access: Access,
    /// What would be written, where the call says it whole.
    pub(super) content: Option<String>,
    /// What would be put in, where the call says only that.
    pub(super) inserted: Option<String>,
}

impl FileUse {
    fn new(path: String, access: Access) -> Self {
        Self { path, access, content: None, inserted: None }
    }
}

/// Names of arguments, compared without capitals, `_` and `-`.
const COMMAND_KEYS: &[&str] = &[
    "command",
    "cmd",
    "commands",
    "script",
    "shellcommand",
    "commandline",
    "bashcommand",
    "terminalcommand",
    "bash",
];
/// Programs whose arguments stand beside them.
const PROGRAM_KEYS: &[&str] = &["program", "executable", "binary", "exe", "file"];
const ARGUMENT_KEYS: &[&str] = &["args", "arguments", "argv", "parameters"];
/// What a terminal tool types into a running program.
const TYPED_KEYS: &[&str] = &["data", "chars", "keys", "keystrokes", "input", "text", "stdin"];
/// Code that a tool runs when its language is a shell.
const CODE_KEYS: &[&str] = &["code", "source", "content"];
/// Variables that are set for a command.
const ENVIRONMENT_KEYS: &[&str] =
    &["env", "envs", "environ", "environment", "envvars", "environmentvariables", "variables", "vars"];
const WORKDIR_KEYS: &[&str] = &[
    "workdir",
    "cwd",
    "workingdirectory",
    "dirpath",
    "directory",
    "cd",
    "workingdir",
    "chdir",
    "basedir",
    "dir",
    "root",
];
/// What a language is said by; the last ones only where they name one.
const LANGUAGE_KEYS: &[&str] = &["language", "lang", "shell", "interpreter", "runtime"];
const KIND_KEYS: &[&str] = &["kernel", "type", "kind"];
/// Arguments that are for people, or that say how and not what.
const QUIET_KEYS: &[&str] = &[
    "comment",
    "description",
    "encoding",
    "explanation",
    "id",
    "justification",
    "label",
    "note",
    "purpose",
    "reason",
    "sandboxpermissions",
    "session",
    "sessionid",
    "summary",
    "thought",
    "timeout",
    "title",
    "unfinished",
    "typed",
];
const PATH_KEYS: &[&str] = &[
    "path",
    "paths",
    "filepath",
    "filepaths",
    "file",
    "files",
    "filename",
    "filenames",
    "absolutepath",
    "relativepath",
    "relativeworkspacepath",
    "notebookpath",
    "targetfile",
    "targetnotebook",
    "target",
    "source",
    "destination",
    "src",
    "dst",
    "dest",
    "oldpath",
    "newpath",
    "frompath",
    "topath",
    "inputfile",
    "outputfile",
    "outputpath",
    "inputpath",
    "uri",
    "fileuri",
    "include",
    "folder",
    "dir",
    "dbpath",
];
const PATCH_KEYS: &[&str] = &["patch", "input", "patchtext", "diff"];
/// What a tool writes into the file that stands beside it.
const CONTENT_KEYS: &[&str] =
    &["content", "contents", "filetext", "newcontent", "codecontent", "text", "body"];
/// What a tool puts in the place of something else.
const INSERTED_KEYS: &[&str] =
    &["newstring", "newstr", "newtext", "replacement", "replacementcontent", "insertedtext", "inserttext"];

/// Arguments with more values than this are not judged, and so don't pass.
const MAX_VALUES: usize = 65_536;

/// A call with more arguments than can be judged.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("its arguments hold more than {MAX_VALUES} values, which is more than can be judged")]
pub(super) struct TooManyValues;

/// Arguments that hold the arguments of another call, also as JSON in a text.
const CALL_KEYS: &[&str] =
    &["arguments", "args", "parameters", "params", "input", "toolinput", "toolargs", "commands"];
/// Most texts with arguments in them, and how deep one may be in another.
const MAX_TEXTS: usize = 64;

/// Words in the names of tools that change files.
const WRITERS: &[&str] = &["write", "edit", "create", "delete", "move", "replace", "patch", "save", "append"];

/// Returns the tool's names, in which words are looked for. None of them takes a judgement away: a tool of somebody else's
/// may be called like one of ours, and do what its arguments say.
fn names(tool: &ToolName) -> [String; 2] {
    [tool.called(), tool.canonical()].map(str::to_ascii_lowercase)
}

/// # Errors
///
/// [`TooManyValues`], where some would be left unread.
pub(super) fn shell_inputs(tool: &ToolName, params: &Params) -> Result<Runs, TooManyValues> {
    let names = names(tool);
    let terminal = TERMINALS.iter().any(|word| names.iter().any(|name| name.contains(word)));
    let runs_texts = terminal || shapes::runs_code(&names);
    let inner = calls_in_texts(params)?;
    let mut runs = Runs::default();
    for fields in all_objects(params, &inner)? {
        let field =
            |keys: &[&str]| fields.iter().find(|(key, _)| is_one_of(key, keys)).map(|(_, value)| *value);
        let kind = || field(KIND_KEYS).and_then(Value::as_str).filter(|kind| shapes::is_language(kind));
        let language = field(LANGUAGE_KEYS).and_then(Value::as_str).or_else(kind);
        let shell = shell_named(language.unwrap_or_default())
            .or_else(|| names.iter().find_map(|name| shell_named(name)));
        let workdir = field(WORKDIR_KEYS).and_then(Value::as_str).map(str::to_owned);
        let mut texts = Vec::new();
        let mut typed_texts = Vec::new();
        let mut guesses = Vec::new();
        for (key, value) in &fields {
            let typed = terminal && is_one_of(key, TYPED_KEYS);
            let code = shell.is_some() && is_one_of(key, CODE_KEYS);
            if typed && names.iter().any(|name| types_into_programs(name)) {
                typed_texts.extend(strings_in(value));
            } else if typed || code || is_one_of(key, COMMAND_KEYS) {
                texts.extend(commands_in(value));
            } else {
                texts.extend(shapes::command_of(key, value));
                if runs_texts && !is_one_of(key, QUIET_KEYS) {
                    guesses.extend(commands_in(value));
                }
            }
        }
        let program = field(PROGRAM_KEYS).or_else(|| field(COMMAND_KEYS)).and_then(Value::as_str);
        match (program, field(ARGUMENT_KEYS)) {
            (Some(program), Some(Value::Array(arguments))) => {
                let words = arguments.iter().filter_map(Value::as_str).map(quoted);
                texts.push(std::iter::once(program.to_owned()).chain(words).collect::<Vec<_>>().join(" "));
            }
            (Some(program), Some(Value::String(arguments))) => texts.push(format!("{program} {arguments}")),
            _ => {}
        }
        if shell.is_none() && shapes::runs_code(&names) {
            let code = fields.iter().find(|(key, _)| is_one_of(key, CODE_KEYS)).map(|(_, value)| *value);
            match shapes::code(language, &names, code.and_then(Value::as_str)) {
                shapes::Code::None => {}
                shapes::Code::Command(text) => texts.push(text),
                shapes::Code::Unread(language) => runs.unread.push(language),
            }
        }
        let shell = shell.unwrap_or_default();
        if let Some(variables) = field(ENVIRONMENT_KEYS).filter(|_| !texts.is_empty()) {
            match shapes::exports(variables) {
                Some(exports) if shell == ShellKind::Posix => {
                    texts.iter_mut().for_each(|text| text.insert_str(0, &exports));
                }
                Some(exports) => runs.commands.push(ShellInput::posix(exports + "true")),
                None => runs.unread.push("variables".to_owned()),
            }
        }
        let input =
            |text, typed, is_guess| ShellInput { text, shell, workdir: workdir.clone(), typed, is_guess };
        guesses.retain(|guess| guess.contains(char::is_whitespace) && !texts.contains(guess));
        runs.commands.extend(texts.into_iter().map(|text| input(text, None, false)));
        runs.commands.extend(guesses.into_iter().map(|text| input(text, None, true)));
        let said = |key: &str| field(&[key]).and_then(Value::as_str).map(str::to_owned);
        let typed = || Typed { program: said("program"), before: said("typed") };
        runs.commands.extend(typed_texts.into_iter().map(|text| input(text, Some(typed()), false)));
    }
    Ok(runs)
}

/// True for a tool that types into running programs and does nothing else with texts.
fn types_into_programs(name: &str) -> bool {
    const WORDS: [&str; 7] = ["stdin", "terminal", "tmux", "pty", "keys", "keystrokes", "console"];
    name == "process" || name.split(['_', '-', '.']).any(|word| WORDS.contains(&word))
}

/// A text, or the texts of a list one after the other: that is how they are typed.
fn strings_in(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => Some(items.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

/// Words in the names of tools that type into a terminal.
const TERMINALS: &[&str] = &[
    "process", "terminal", "shell", "exec", "bash", "stdin", "tmux", "console", "command", "interact", "pty",
];

/// Returns the shell that a language or a tool is named after.
fn shell_named(name: &str) -> Option<ShellKind> {
    let name = name.to_ascii_lowercase();
    let is = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if is(&["powershell", "pwsh"]) {
        Some(ShellKind::PowerShell)
    } else if matches!(name.as_str(), "cmd" | "cmd.exe" | "batch" | "bat") {
        Some(ShellKind::Cmd)
    } else if matches!(name.as_str(), "sh" | "shell" | "exec") || is(&["bash", "zsh", "shellscript"]) {
        Some(ShellKind::Posix)
    } else {
        None
    }
}

/// True when `key` is one of `names`, however it is spelled.
pub(super) fn is_one_of(key: &str, names: &[&str]) -> bool {
    let plain = |c: &char| !matches!(c, '_' | '-');
    names.iter().any(|name| key.chars().filter(plain).map(|c| c.to_ascii_lowercase()).eq(name.chars()))
}

type Fields<'a> = Vec<(&'a str, &'a Value)>;

/// Returns the arguments themselves and every object in them, however deep: tools that run several calls at once carry
/// the arguments of each. Nothing is skipped, since what is skipped can be steered by whoever writes the rest.
fn objects(params: &Params) -> Result<Vec<Fields<'_>>, TooManyValues> {
    let root: Fields<'_> = params.iter().map(|(key, value)| (key.as_str(), value)).collect();
    let mut pending: Vec<&Value> = root.iter().map(|(_, value)| *value).collect();
    let mut found = vec![root];
    let mut seen = 0;
    while let Some(value) = pending.pop() {
        seen += 1;
        if seen > MAX_VALUES {
            return Err(TooManyValues);
        }
        match value {
            Value::Array(items) => pending.extend(items),
            Value::Object(fields) => {
                pending.extend(fields.values());
                found.push(fields.iter().map(|(key, value)| (key.as_str(), value)).collect());
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Returns what stands as JSON in a text where the arguments of a call belong: dispatchers hand them on like that.
fn calls_in_texts(params: &Params) -> Result<Vec<Params>, TooManyValues> {
    let mut found: Vec<Params> = Vec::new();
    let mut next = Some(params.clone());
    let mut read = 0;
    while let Some(params) = next {
        for (key, value) in objects(&params)?.into_iter().flatten() {
            let text = value.as_str().map(str::trim_start).filter(|text| text.starts_with(['{', '[']));
            let holds_call = is_one_of(key, CALL_KEYS) || is_one_of(key, COMMAND_KEYS);
            let Some(text) = text.filter(|_| holds_call) else { continue };
            if found.len() >= MAX_TEXTS {
                return Err(TooManyValues);
            }
            match serde_json::from_str(text) {
                Ok(Value::Object(fields)) => found.push(Params::new(fields)),
                Ok(list @ Value::Array(_)) => {
                    found.push(Params::new(Map::from_iter([(key.to_owned(), list)])));
                }
                _ => {}
            }
        }
        next = found.get(read).cloned();
        read += 1;
    }
    Ok(found)
}

/// Returns the objects of the arguments and of those that stand in them as texts.
fn all_objects<'a>(params: &'a Params, inner: &'a [Params]) -> Result<Vec<Fields<'a>>, TooManyValues> {
    let mut found = objects(params)?;
    for params in inner {
        found.extend(objects(params)?);
    }
    Ok(found)
}

/// A string is a command line, a list of strings is one argument vector or several command lines; both
/// readings are judged. A number or a truth value is the text that a tool would make of it. Objects are found on their
/// own.
fn commands_in(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => {
            let texts: Vec<String> = items.iter().flat_map(words_of).collect();
            let words: Vec<&str> = texts.iter().map(String::as_str).collect();
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
            found
        }
        scalar => text_of(scalar).into_iter().collect(),
    }
}

/// Returns the words of a list, and of the lists in it.
fn words_of(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(words_of).collect(),
        scalar => text_of(scalar).into_iter().collect(),
    }
}

/// A value as the text that a tool would make of it.
pub(super) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

pub(super) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// # Errors
///
/// [`TooManyValues`], where some would be left unread.
pub(super) fn file_uses(tool: &ToolName, params: &Params) -> Result<Vec<FileUse>, TooManyValues> {
    let names = names(tool);
    let is_called = |word: &str| names.iter().any(|name| name.contains(word));
    let access = match tool.canonical() {
        "read" => Access::Read,
        "write" | "apply_patch" => Access::Write,
        "edit" => Access::Edit,
        _ if WRITERS.iter().any(|word| is_called(word)) => Access::Write,
        _ => Access::Read,
    };
    let mut uses = Vec::new();
    let patches = is_called("patch");
    let searches = shapes::searches(&names);
    let inner = calls_in_texts(params)?;
    for fields in all_objects(params, &inner)? {
        let text = |keys: &[&str]| {
            let found = fields.iter().find(|(key, _)| is_one_of(key, keys));
            found.and_then(|(_, value)| value.as_str()).map(str::to_owned)
        };
        let (content, inserted) = (text(CONTENT_KEYS), text(INSERTED_KEYS));
        for (key, value) in &fields {
            if is_one_of(key, PATH_KEYS) {
                uses.extend(strings(value).into_iter().map(|path| FileUse {
                    content: content.clone(),
                    inserted: inserted.clone(),
                    ..FileUse::new(path, access)
                }));
            }
            if searches && shapes::is_glob_key(key, &names) {
                let globs = strings(value).into_iter().map(|glob| shapes::marked(&glob));
                uses.extend(globs.map(|path| FileUse::new(path, Access::Read)));
            }
            let text = value.as_str().unwrap_or_default();
            if patches && is_one_of(key, PATCH_KEYS) || shapes::is_patch(text) {
                uses.extend(patched(text).map(|(_, path)| FileUse::new(path, Access::Write)));
            }
            if let Some(path) = shapes::file_address(key, text).filter(|_| !is_one_of(key, PATH_KEYS)) {
                uses.push(FileUse::new(path, Access::Read));
            }
        }
    }
    Ok(uses)
}

/// Returns the paths in a value; an address of the file scheme is its path.
fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.strip_prefix("file://").unwrap_or(text).to_owned()],
        Value::Array(items) => items.iter().filter(|item| item.is_string()).flat_map(strings).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn params(value: Value) -> Params {
        Params::from_value(value).unwrap()
    }

    fn texts(tool: &str, value: Value) -> Vec<String> {
        shell_inputs(&ToolName::new(tool), &params(value))
            .unwrap()
            .commands
            .into_iter()
            .filter(|input| !input.is_guess)
            .map(|input| input.text)
            .collect()
    }

    fn paths(tool: &str, value: Value) -> Vec<String> {
        file_uses(&ToolName::new(tool), &params(value)).unwrap().into_iter().map(|used| used.path).collect()
    }

    #[test]
    fn every_way_to_a_shell_is_seen() {
        assert_eq!(texts("bash", json!({"command": "ls"})), ["ls"]);
        assert_eq!(texts("process", json!({"action": "write", "data": "ls\n"})), ["ls\n"]);
        assert_eq!(texts("mcp__box__run", json!({"cmd": "ls"})), ["ls"]);
        assert_eq!(texts("run_commands", json!({"commands": ["ls -l", "pwd"]})), ["'ls -l' 'pwd'", "ls -l"]);
        assert_eq!(texts("x", json!({"commands": [{"command": "ls"}]})), ["ls"]);
        for ours in ["read", "write_file", "edit", "apply_patch"] {
            assert_eq!(
                texts(ours, json!({"path": "a", "command": "ls"})),
                ["ls"],
                "the name says nothing of it"
            );
        }
        assert_eq!(texts("run_command", json!({"CommandLine": "ls", "Cwd": "/"})), ["ls"]);
        assert_eq!(
            texts("mcp__run", json!({"command": "ls", "args": ["-l", "a b"]})),
            ["ls", "ls '-l' 'a b'"]
        );
        assert_eq!(texts("mcp__run", json!({"program": "ls", "args": ["-l"]})), ["ls '-l'"]);
        assert_eq!(texts("write_stdin", json!({"session_id": 1, "chars": "ls\n"})), ["ls\n"]);
        assert_eq!(texts("run_code", json!({"language": "bash", "code": "ls"})), ["ls"]);
        assert_eq!(texts("run_code", json!({"language": "python", "code": "ls"})), ["python3 -c 'ls'"]);
        assert_eq!(texts("bash", json!({"command": 5})), ["5"]);
        assert_eq!(texts("bash", json!({"command": ["head", "-n", 5]})), ["'head' '-n' '5'"]);
        let batch = json!({"tool_calls": [{"tool": "bash", "parameters": {"command": "ls"}}]});
        assert_eq!(texts("batch", batch), ["ls"]);
        assert_eq!(
            texts("local_shell", json!({"action": {"command": ["bash", "-lc", "ls -a"]}})),
            ["'bash' '-lc' 'ls -a'", "ls -a"]
        );
    }

    #[test]
    fn a_command_is_judged_with_the_variables_that_are_set_for_it() {
        let exported = ["export A='b c' N='1'\nls"];
        assert_eq!(texts("exec", json!({"command": "ls", "env": {"A": "b c", "N": 1}})), exported);
        assert_eq!(texts("exec", json!({"command": "ls", "environment": ["A=b c", "N=1"]})), exported);
        assert_eq!(texts("exec", json!({"command": "ls", "env": {}})), ["ls"]);
        assert_eq!(texts("deploy", json!({"env": {"A": "b"}})), Vec::<String>::new(), "nothing runs");
        assert_eq!(texts("exec", json!({"command": "ls", "env": "production"})), ["ls"], "no variables");
        let other = texts("powershell", json!({"command": "ls", "env": {"A": "b"}}));
        assert_eq!(other, ["export A='b'\ntrue", "ls"]);
        for odd in [
            json!({"BASH_FUNC_ls%%": "() { :; }"}),
            json!({"A": ["b"]}),
            json!([{"name": "A", "value": "b"}]),
            json!(["A=b", "C"]),
            json!("A=b"),
        ] {
            let call = json!({"command": "ls", "env": odd});
            let runs = shell_inputs(&ToolName::new("exec"), &params(call.clone())).unwrap();
            assert_eq!(runs.unread, ["variables"], "not dropped in silence: {call}");
        }
    }

    #[test]
    fn dangerous_shapes_are_judged_as_the_commands_that_do_the_same() {
        let python = ["python3 -c 'import os'"];
        assert_eq!(texts("execute_code", json!({"language": "Python", "source": "import os"})), python);
        assert_eq!(texts("jupyter_run_cell", json!({"code": "import os"})), python);
        assert_eq!(texts("run_javascript", json!({"code": "1"})), ["node -e '1'"]);
        assert_eq!(texts("format_code", json!({"language": "python", "code": "x"})), Vec::<String>::new());
        assert_eq!(texts("run_code", json!({"language": "markdown", "code": "x"})), Vec::<String>::new());
        let unread = |value| shell_inputs(&ToolName::new("run_code"), &params(value)).unwrap().unread;
        assert_eq!(unread(json!({"language": "befunge", "code": "x"})), ["befunge"]);
        let metadata = ["curl http://169.254.169.254/latest/meta-data/"];
        for url in
            ["http://169.254.169.254/latest", "http://u@METADATA.google.internal/x", "http://2852039166"]
        {
            assert_eq!(texts("web_fetch", json!({"url": url})), metadata, "{url}");
        }
        assert_eq!(
            texts("web_fetch", json!({"url": "https://example.com/169.254.169.254"})),
            Vec::<String>::new()
        );
        assert_eq!(
            texts("db", json!({"sql": "select 1; drop table x"})),
            ["psql -c 'select 1; drop table x'"]
        );
        assert_eq!(texts("db", json!({"query": "select 1"})), Vec::<String>::new());
        assert_eq!(texts("search", json!({"query": "drop"})), Vec::<String>::new());
    }

    #[test]
    fn files_are_seen_behind_patches_addresses_and_patterns() {
        let patch = "*** Begin Patch\n*** Update File: a\n*** End Patch";
        assert_eq!(paths("change", json!({"anything": patch})), ["a"]);
        assert_eq!(paths("x", json!({"y": "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@"})), ["f", "f"]);
        assert_eq!(paths("fetch", json!({"url": "file:///etc/hosts"})), ["/etc/hosts"]);
        assert_eq!(paths("fetch", json!({"url": "FILE://localhost/etc/hosts"})), ["/etc/hosts"]);
        let star = backstop_shell::marks::STAR;
        assert_eq!(paths("Glob", json!({"pattern": "**/.ssh/id_*"})), [format!(".ssh/id_{star}")]);
        assert_eq!(paths("grep", json!({"pattern": "id_rsa", "glob": "*.rs"})), [format!("{star}.rs")]);
    }

    #[test]
    fn arguments_in_a_text_are_read() {
        let inside = json!({"command": "ls", "path": "f"}).to_string();
        let twice = json!({"arguments": inside}).to_string();
        for arguments in [json!(inside), json!(twice), json!([{"input": inside}])] {
            let call = json!({"name": "x", "arguments": arguments});
            assert_eq!(texts("tool_call", call.clone()), ["ls"], "{call}");
            assert_eq!(paths("tool_call", call.clone()), ["f"], "{call}");
        }
        assert!(texts("x", json!({"commands": json!(["ls -a"]).to_string()})).contains(&"ls -a".to_owned()));
        assert_eq!(texts("message", json!({"command": "ls", "text": "ls"})), ["ls"]);
    }

    #[test]
    fn a_shell_is_known_by_tool_or_language() {
        let kind = |tool, value| {
            shell_inputs(&ToolName::new(tool), &params(value))
                .unwrap()
                .commands
                .first()
                .map(|input| input.shell)
        };
        assert_eq!(kind("executePwsh", json!({"command": "ls"})), Some(ShellKind::PowerShell));
        assert_eq!(kind("run", json!({"shell": "powershell", "command": "ls"})), Some(ShellKind::PowerShell));
        assert_eq!(kind("run", json!({"command": "ls"})), Some(ShellKind::Posix));
    }

    #[test]
    fn nothing_beside_a_command_hides_it() {
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!([deep]);
        }
        let padding = vec![0; 5000];
        for beside in [deep.clone(), json!(padding)] {
            let batch = json!({"a": beside, "calls": [{"command": "ls"}], "z": beside});
            assert_eq!(texts("x", batch), ["ls"]);
            let edits = json!({"a": beside, "edits": [{"path": "f"}], "z": beside});
            assert_eq!(paths("x", edits), ["f"]);
        }
        let mut value = json!({"command": "ls"});
        for _ in 0..100 {
            value = json!({"a": value});
        }
        assert_eq!(texts("x", value), ["ls"]);
    }

    #[test]
    fn more_arguments_than_are_read_are_an_error() {
        let tool = ToolName::new("x");
        let many = params(json!({"calls": vec![0; MAX_VALUES + 1]}));
        assert_eq!(shell_inputs(&tool, &many), Err(TooManyValues));
        assert_eq!(file_uses(&tool, &many), Err(TooManyValues));
    }

    #[test]
    fn every_named_file_is_seen() {
        assert_eq!(paths("read", json!({"path": "a"})), ["a"]);
        assert_eq!(paths("Read", json!({"file_path": "a"})), ["a"]);
        assert_eq!(paths("view", json!({"TargetFile": "a"})), ["a"]);
        assert_eq!(paths("open", json!({"uri": "file:///a"})), ["/a"]);
        assert_eq!(paths("multi_edit", json!({"edits": [{"filePath": "a"}]})), ["a"]);
        assert_eq!(paths("mcp__fs__move_file", json!({"source": "a", "destination": "b"})), ["a", "b"]);
        let patch = "*** Begin Patch\n*** Update File: a b\n*** Move to: c\n*** End Patch";
        assert_eq!(paths("apply_patch", json!({"input": patch})), ["a b", "c"]);
        assert_eq!(paths("apply_patch", json!({"patch": "--- a/x\n+++ b/y\n@@"})), ["x", "y"]);
    }
}
