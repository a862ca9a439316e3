//! Tool calls: a client's names and arguments in our words, and back.
//!
//! Guards and policies know one shell (`exec` with `command`), one way to read, write, edit and patch
//! files. Each adapter has a table that says which of the client's tools is which, and how its arguments
//! are called. What the table does not know keeps its name and its arguments, and is judged by the shape of
//! the arguments: nothing passes because it is unknown.
//!
//! The law: *a call that is translated and back is the same call*, whatever was in it; and arguments that a
//! hook changed go back whole, in the client's own shape, or not at all ([`CannotRestore`]).

mod mcp;
mod result;

use backstop_hooks::points::{ToolCallEvent, UNSEEN_TERMINAL};
use backstop_hooks::{Params, RunId, ShownName, ToolCallId, ToolName};
use serde_json::{Map, Value};

pub(crate) use self::mcp::McpSpelling;
pub use self::mcp::McpTool;
pub use self::result::ResultBody;
pub use self::result::ToolOutput;

/// One of a client's own tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ToolRow {
    /// The client's name.
    pub(crate) theirs: &'static str,
    /// Our name.
    pub(crate) ours: &'static str,
    /// Arguments that are called differently: theirs, ours.
    pub(crate) keys: &'static [(&'static str, &'static str)],
    /// The argument that holds a list of commands, each of which is a call of its own.
    pub(crate) batch: Option<&'static str>,
}

/// A tool whose arguments have our names, or names that only shape can tell.
pub(crate) const fn tool(theirs: &'static str, ours: &'static str) -> ToolRow {
    ToolRow { theirs, ours, keys: &[], batch: None }
}

/// A tool with arguments that are called differently.
pub(crate) const fn renamed(
    theirs: &'static str,
    ours: &'static str,
    keys: &'static [(&'static str, &'static str)],
) -> ToolRow {
    ToolRow { theirs, ours, keys, batch: None }
}

/// How a client's arguments differ from the ones that are judged.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    /// Not at all.
    Same,
    /// Some are called differently: theirs, ours.
    Renamed(Vec<(&'static str, &'static str)>),
    /// Each entry of the list under this name is a call.
    Batch(&'static str),
}

/// Most commands of one call that are judged one by one; a longer list is judged as a whole.
const MAX_BATCH: usize = 64;

/// A tool call of a client, in our words.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolUse {
    their_name: String,
    id: Option<ToolCallId>,
    name: ToolName,
    mcp: Option<McpTool>,
    /// Which of the client's own tools it is.
    row: Option<ToolRow>,
    shape: Shape,
    parts: Vec<Params>,
    /// Where it runs, when the client says that beside the arguments. Judged as the argument `workdir`.
    workdir: Option<String>,
}

/// The argument that says where a command runs.
const WORKDIR: &str = "workdir";

/// Changed arguments that have no form in the client's own shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the changed arguments of `{tool}` can't be put back into the client's own form: {why}")]
pub struct CannotRestore {
    tool: String,
    why: &'static str,
}

impl ToolUse {
    /// Translates a call. `rows` are the client's own tools; `mcp` says whether the name is that of a tool
    /// on an MCP server, where it is none of them.
    pub(crate) fn new(
        rows: &[ToolRow],
        name: &str,
        id: Option<&str>,
        arguments: Map<String, Value>,
        mcp: impl FnOnce() -> Option<McpTool>,
    ) -> Self {
        let their_name = name.to_owned();
        let id = id.filter(|id| !id.is_empty()).map(ToolCallId::from);
        let row = rows.iter().find(|row| row.theirs.eq_ignore_ascii_case(name.trim()));
        let Some(row) = row else {
            let mcp = mcp();
            // Of a tool that is neither its own nor an MCP server's the client knows no more than the name.
            let name = mcp.as_ref().map_or_else(|| ToolName::new(name), |tool| tool.called(name));
            let parts = vec![arguments.into()];
            return Self { their_name, id, name, mcp, row: None, shape: Shape::Same, parts, workdir: None };
        };
        let (shape, parts) = translate(row, arguments);
        Self {
            their_name,
            id,
            name: ToolName::with_canonical(name, row.ours),
            mcp: None,
            row: Some(*row),
            shape,
            parts,
            workdir: None,
        }
    }

    /// Says where a command runs, unless its arguments do.
    pub(crate) fn run_in(&mut self, folder: &str) {
        let is_command = self.name.canonical() == "exec" && self.workdir.is_none();
        if is_command && self.parts.iter().all(|part| part.get(WORKDIR).is_none()) {
            for part in &mut self.parts {
                part.make_mut().insert(WORKDIR.to_owned(), folder.into());
            }
            self.workdir = Some(folder.to_owned());
        }
    }

    /// The tool's name, as the client spells it.
    pub fn their_name(&self) -> &str {
        &self.their_name
    }

    /// The tool's name, as the client and as policies spell it.
    pub fn name(&self) -> &ToolName {
        &self.name
    }

    /// The model's id of this call, where the client says it.
    pub fn id(&self) -> Option<&ToolCallId> {
        self.id.as_ref()
    }

    /// The MCP server and tool, for a tool of an MCP server.
    pub fn mcp(&self) -> Option<&McpTool> {
        self.mcp.as_ref()
    }

    /// The arguments of each call in it: one for nearly every tool, several where a client runs a list of
    /// commands at once.
    pub fn parts(&self) -> &[Params] {
        &self.parts
    }

    /// The calls as events, each to be judged on its own. `unseen_input` says that the client's agent can type
    /// into a shell without any hook being told.
    pub fn events(&self, run: Option<&RunId>, unseen_input: bool) -> Vec<ToolCallEvent> {
        let kind = match &self.mcp {
            Some(_) => Some("mcp"),
            None if unseen_input => Some(UNSEEN_TERMINAL),
            None => None,
        };
        let event = |params: &Params| {
            ToolCallEvent::new(self.name.clone(), params.clone())
                .tool_kind(kind.map(str::to_owned))
                .run_id(run.cloned())
                .tool_call_id(self.id.clone())
        };
        self.parts.iter().map(event).collect()
    }

    /// The arguments of all parts as one object in our words, for records.
    pub fn params(&self) -> Params {
        match self.parts.as_slice() {
            [one] => one.clone(),
            several => {
                let commands = several.iter().filter_map(|part| part.get("command").cloned()).collect();
                Params::new(Map::from_iter([("commands".to_owned(), Value::Array(commands))]))
            }
        }
    }

    /// The whole arguments in the client's own shape, `parts` standing for [`Self::parts`].
    ///
    /// # Errors
    ///
    /// [`CannotRestore`] when the changed arguments have no place in that shape.
    pub fn restore(&self, parts: &[Params]) -> Result<Params, CannotRestore> {
        let cannot = |why| CannotRestore { tool: ShownName::new(&self.their_name).to_string(), why };
        // A client that is JavaScript may set what it is given so as the parent of all other arguments.
        let is_changed = parts != self.parts.as_slice();
        if is_changed && parts.iter().any(|part| part.get("__proto__").is_some()) {
            return Err(cannot("no argument can be called `__proto__`"));
        }
        let mut parts = parts.to_vec();
        if let Some(folder) = &self.workdir {
            for part in &mut parts {
                let said = part.make_mut().remove(WORKDIR);
                if said.as_ref().and_then(Value::as_str) != Some(folder) {
                    return Err(cannot("where it runs can't be changed"));
                }
            }
        }
        let restored = match (&self.shape, parts.as_slice()) {
            (Shape::Same, [one]) => one.clone(),
            (Shape::Renamed(keys), [one]) => {
                restore_names(keys, one).ok_or_else(|| cannot("two arguments would have one name"))?
            }
            (Shape::Batch(key), several) if several.len() == self.parts.len() => {
                let commands: Option<Vec<Value>> = several.iter().map(only_command).collect();
                let commands = commands.ok_or_else(|| cannot("each is a command and nothing else"))?;
                Params::new(Map::from_iter([((*key).to_owned(), Value::Array(commands))]))
            }
            _ => return Err(cannot("it has another number of calls")),
        };
        match self.is_read_as(&restored, &parts) {
            true => Ok(restored),
            false => Err(cannot("an argument has the client's own name, by which it was not judged")),
        }
    }

    /// Whether these arguments of the client's are judged as these parts. INVARIANT (what was judged is what runs): who changes a call may
    /// write one that would have been read otherwise, had the agent made it.
    fn is_read_as(&self, arguments: &Params, parts: &[Params]) -> bool {
        self.row.as_ref().is_none_or(|row| translate(row, (**arguments).clone()).1.as_slice() == parts)
    }
}

fn translate(row: &ToolRow, arguments: Map<String, Value>) -> (Shape, Vec<Params>) {
    if let Some(key) = row.batch {
        return match batch(key, &arguments) {
            Some(parts) => (Shape::Batch(key), parts),
            None => (Shape::Same, vec![arguments.into()]),
        };
    }
    let keys = active_keys(row, &arguments);
    if keys.is_empty() {
        return (Shape::Same, vec![arguments.into()]);
    }
    let ours = |key: &str| keys.iter().find(|(theirs, _)| *theirs == key).map(|(_, ours)| (*ours).to_owned());
    let translated = arguments.into_iter().map(|(key, value)| (ours(&key).unwrap_or(key), value)).collect();
    (Shape::Renamed(keys), vec![Params::new(translated)])
}

/// The names that are exchanged in this call, one for each of ours at most: the first that is there, or else
/// the first. An argument that has our name already keeps it, and so does the one that would take it.
fn active_keys(row: &ToolRow, arguments: &Map<String, Value>) -> Vec<(&'static str, &'static str)> {
    let mut active: Vec<(&str, &str)> = Vec::new();
    let present = |theirs: &str| arguments.contains_key(theirs);
    for (theirs, ours) in row.keys.iter().copied().filter(|(_, ours)| !present(ours)) {
        match active.iter_mut().find(|(_, taken)| *taken == ours) {
            Some(earlier) if !present(earlier.0) && present(theirs) => *earlier = (theirs, ours),
            Some(_) => {}
            None => active.push((theirs, ours)),
        }
    }
    active
}

/// The commands of a list that holds commands and nothing else.
fn batch(key: &str, arguments: &Map<String, Value>) -> Option<Vec<Params>> {
    let commands = arguments.get(key).filter(|_| arguments.len() == 1)?.as_array()?;
    let plain = (1..=MAX_BATCH).contains(&commands.len()) && commands.iter().all(Value::is_string);
    let part = |command: &Value| Params::new(Map::from_iter([("command".to_owned(), command.clone())]));
    plain.then(|| commands.iter().map(part).collect())
}

fn only_command(part: &Params) -> Option<Value> {
    part.get("command").filter(|command| part.len() == 1 && command.is_string()).cloned()
}

fn restore_names(keys: &[(&'static str, &'static str)], params: &Params) -> Option<Params> {
    let theirs =
        |key: &str| keys.iter().find(|(_, ours)| *ours == key).map(|(theirs, _)| (*theirs).to_owned());
    let mut restored = Map::new();
    for (key, value) in params.iter() {
        let name = theirs(key).unwrap_or_else(|| key.clone());
        if restored.insert(name, value.clone()).is_some() {
            return None;
        }
    }
    Some(Params::new(restored))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ROWS: &[ToolRow] = &[
        tool("Bash", "exec"),
        renamed("Edit", "edit", &[("file_path", "path"), ("old_string", "old_text")]),
        ToolRow { theirs: "run_commands", ours: "exec", keys: &[], batch: Some("commands") },
    ];

    fn params(value: Value) -> Params {
        Params::from_value(value).unwrap()
    }

    fn used(name: &str, arguments: Value) -> ToolUse {
        ToolUse::new(ROWS, name, Some("c1"), arguments.as_object().unwrap().clone(), || None)
    }

    #[test]
    fn mcp_names_keep_their_case() {
        for (called, canonical) in [
            ("mcp__GitHub__createIssue", "mcp__GitHub__createIssue"),
            ("mcp_GitHub_createIssue", "mcp__GitHub__createIssue"),
            // Called like ours, and not ours.
            ("read", "mcp__GitHub__read"),
        ] {
            let tool = canonical.rsplit("__").next().unwrap();
            let used = ToolUse::new(ROWS, called, None, Map::new(), || McpTool::on("GitHub", tool));
            assert_eq!((used.name().called(), used.name().canonical()), (called, canonical));
            assert_eq!(used.events(None, false)[0].tool_name, *used.name());
        }
    }

    #[test]
    fn names_and_arguments_are_in_our_words() {
        let edit = used("Edit", json!({"file_path": "a", "old_string": "x", "more": 1}));
        assert_eq!(edit.name().canonical(), "edit");
        assert_eq!(edit.parts(), [params(json!({"path": "a", "old_text": "x", "more": 1}))]);
        assert_eq!(used("bash", json!({"command": "ls"})).name().canonical(), "exec");
        assert_eq!(used("NewTool", json!({"x": 1})).name().canonical(), "NewTool");
    }

    #[test]
    fn a_changed_argument_goes_back_under_its_own_name() {
        let edit = used("Edit", json!({"file_path": "a", "old_string": "x"}));
        let changed = [params(json!({"path": "b", "old_text": "x"}))];
        assert_eq!(edit.restore(&changed).unwrap(), params(json!({"file_path": "b", "old_string": "x"})));
    }

    #[test]
    fn an_argument_that_has_our_name_already_is_left_alone() {
        let both = json!({"path": "a", "file_path": "b"});
        let edit = used("Edit", both.clone());
        assert_eq!(edit.parts(), [params(both.clone())]);
        assert_eq!(edit.restore(edit.parts()).unwrap(), params(both));
        let edit = used("Edit", json!({"file_path": "a"}));
        assert!(edit.restore(&[params(json!({"path": "a", "file_path": "b"}))]).is_err());
    }

    #[test]
    fn changed_arguments_that_would_be_read_otherwise_have_no_form() {
        for (tool, made, changed) in [
            // Nobody judged them as a path.
            ("Edit", json!({"path": "a", "old_text": "x"}), json!({"file_path": "b", "old_text": "x"})),
            ("Edit", json!({"file_path": "a"}), json!({"file_path": "b", "old_text": "x"})),
            // Nor as commands.
            ("run_commands", json!({"commands": ["a"], "x": 1}), json!({"commands": ["b"]})),
            // Set as the parent of the arguments, it would be where the command is looked for.
            ("Bash", json!({"command": "a"}), json!({"__proto__": {"command": "b"}})),
        ] {
            let used = used(tool, made);
            assert!(used.restore(used.parts()).is_ok(), "{changed}");
            assert!(used.restore(&[params(changed.clone())]).is_err(), "{changed}");
        }
    }

    #[test]
    fn of_two_names_for_one_argument_the_one_that_is_there_counts() {
        const ROW: &[ToolRow] = &[renamed("Read", "read", &[("file_path", "path"), ("target", "path")])];
        for (arguments, ours) in [
            (json!({"target": "a"}), json!({"path": "a"})),
            (json!({"target": "a", "file_path": "b"}), json!({"target": "a", "path": "b"})),
        ] {
            let used = ToolUse::new(ROW, "Read", None, arguments.as_object().unwrap().clone(), || None);
            assert_eq!(used.parts(), [params(ours)]);
            assert_eq!(used.restore(used.parts()).unwrap(), params(arguments));
        }
    }

    #[test]
    fn where_a_command_runs_is_judged_and_can_not_be_changed() {
        let mut exec = used("Bash", json!({"command": "ls"}));
        exec.run_in("/tmp");
        assert_eq!(exec.parts(), [params(json!({"command": "ls", "workdir": "/tmp"}))]);
        let changed = [params(json!({"command": "pwd", "workdir": "/tmp"}))];
        assert_eq!(exec.restore(&changed).unwrap(), params(json!({"command": "pwd"})));
        for other in [json!({"command": "ls"}), json!({"command": "ls", "workdir": "/"})] {
            assert!(exec.restore(&[params(other)]).is_err());
        }
        let mut edit = used("Edit", json!({"file_path": "a"}));
        edit.run_in("/tmp");
        assert_eq!(edit.parts(), [params(json!({"path": "a"}))]);
    }

    #[test]
    fn each_command_of_a_list_is_a_call() {
        let run = used("run_commands", json!({"commands": ["a", "b"]}));
        assert_eq!(run.parts(), [params(json!({"command": "a"})), params(json!({"command": "b"}))]);
        let changed = [params(json!({"command": "a"})), params(json!({"command": "c"}))];
        assert_eq!(run.restore(&changed).unwrap(), params(json!({"commands": ["a", "c"]})));
        assert!(run.restore(&changed[..1]).is_err());
        assert!(run.restore(&[changed[0].clone(), params(json!({"command": "c", "x": 1}))]).is_err());
        for other in
            [json!({"commands": []}), json!({"commands": ["a", 1]}), json!({"commands": ["a"], "x": 1})]
        {
            let run = used("run_commands", other.clone());
            assert_eq!(run.parts(), [params(other)]);
        }
    }
}
