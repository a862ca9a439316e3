//! What each client does with the answer of a hook before a tool call: the facts as a program.
//!
//! Written from what the clients were seen to do (Cursor, Windsurf, Kiro, goose: from their documents), and
//! from nothing in the adapters, so that the two can be held against each other.

use serde_json::Value;

use crate::answer::Answer;
use crate::client::Client;

/// What becomes of the tool call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fate {
    Runs,
    RunsWith(Value),
    Denied,
    Asked,
    AskedWith(Value),
    /// The client waits for ever.
    Hangs,
}

struct Said {
    json: Option<Value>,
    stdout_empty: bool,
    stderr: bool,
    code: u8,
}

impl Said {
    fn at(&self, pointer: &str) -> Option<&Value> {
        self.json.as_ref()?.pointer(pointer)
    }

    fn word(&self, pointer: &str) -> Option<&str> {
        self.at(pointer)?.as_str()
    }

    fn refused_by_exit(&self) -> bool {
        self.code == 2 && self.stderr
    }
}

/// The fate of a call after `answer` at the client's own event before tools.
pub(super) fn fate(client: Client, answer: &Answer) -> Fate {
    let said = Said {
        json: serde_json::from_slice(answer.stdout()).ok(),
        stdout_empty: answer.stdout().is_empty(),
        stderr: !answer.stderr().trim().is_empty(),
        code: answer.exit_code(),
    };
    match client {
        Client::Claude => claude(&said),
        Client::Codex => codex(&said),
        Client::Gemini => gemini(&said),
        Client::Qwen => qwen(&said),
        Client::Copilot => copilot(&said),
        Client::Cline => cline(&said),
        Client::OpenCode => opencode(&said),
        Client::Cursor => cursor(&said),
        Client::Windsurf | Client::Kiro | Client::Droid | Client::Devin | Client::Kimi => {
            if said.refused_by_exit() { Fate::Denied } else { Fate::Runs }
        }
        Client::Goose => goose(&said),
    }
}

const OUTPUT: &str = "/hookSpecificOutput";

fn keys(value: Option<&Value>) -> Vec<&str> {
    value
        .and_then(Value::as_object)
        .map(|fields| fields.keys().map(String::as_str).collect())
        .unwrap_or_default()
}

fn with(arguments: Option<&Value>, plain: Fate, changed: fn(Value) -> Fate) -> Fate {
    arguments.map_or(plain, |arguments| changed(arguments.clone()))
}

fn claude(said: &Said) -> Fate {
    if said.code == 2 || said.word("/decision") == Some("block") {
        return Fate::Denied;
    }
    if said.word(&format!("{OUTPUT}/hookEventName")) != Some("PreToolUse") {
        return Fate::Runs;
    }
    let changed = said.at(&format!("{OUTPUT}/updatedInput"));
    match said.word(&format!("{OUTPUT}/permissionDecision")) {
        Some("deny") => Fate::Denied,
        Some("ask") => with(changed, Fate::Asked, Fate::AskedWith),
        None | Some("allow") => with(changed, Fate::Runs, Fate::RunsWith),
        Some(_) => Fate::Runs,
    }
}

/// One field too many, one reason too few, and the whole answer is void.
fn codex(said: &Said) -> Fate {
    if said.refused_by_exit() {
        return Fate::Denied;
    }
    if said.code != 0 {
        return Fate::Runs;
    }
    let filled = |pointer: &str| said.word(pointer).is_some_and(|text| !text.trim().is_empty());
    let (root, output) = (keys(said.json.as_ref()), keys(said.at(OUTPUT)));
    if root == ["decision", "reason"] {
        let blocks = said.word("/decision") == Some("block") && filled("/reason");
        return if blocks { Fate::Denied } else { Fate::Runs };
    }
    let named = said.word("/hookSpecificOutput/hookEventName") == Some("PreToolUse");
    if root != ["hookSpecificOutput"] || !named {
        return Fate::Runs;
    }
    let decision = said.word("/hookSpecificOutput/permissionDecision");
    match (output.as_slice(), decision) {
        (["hookEventName", "permissionDecision", "permissionDecisionReason"], Some("deny"))
            if filled("/hookSpecificOutput/permissionDecisionReason") =>
        {
            Fate::Denied
        }
        (["hookEventName", "permissionDecision", "updatedInput"], Some("allow")) => {
            with(said.at("/hookSpecificOutput/updatedInput"), Fate::Runs, Fate::RunsWith)
        }
        _ => Fate::Runs,
    }
}

/// JSON counts at any exit code.
fn gemini(said: &Said) -> Fate {
    if said.json.is_some() {
        return match said.word("/decision") {
            Some("deny" | "block") => Fate::Denied,
            Some("ask") => Fate::Hangs,
            _ => with(said.at("/hookSpecificOutput/tool_input"), Fate::Runs, Fate::RunsWith),
        };
    }
    if said.code >= 2 && said.stderr { Fate::Denied } else { Fate::Runs }
}

/// Changed arguments have no effect.
fn qwen(said: &Said) -> Fate {
    let decision = said.word("/hookSpecificOutput/permissionDecision");
    if said.refused_by_exit()
        || decision == Some("deny")
        || matches!(said.word("/decision"), Some("deny" | "block"))
    {
        return Fate::Denied;
    }
    if decision == Some("ask") { Fate::Asked } else { Fate::Runs }
}

/// The dialect of camelCase names.
fn copilot(said: &Said) -> Fate {
    if said.code != 0 {
        return Fate::Denied;
    }
    let changed = said.at("/modifiedArgs");
    match said.word("/permissionDecision") {
        Some("deny") => Fate::Denied,
        Some("ask") => with(changed, Fate::Asked, Fate::AskedWith),
        None | Some("allow") => with(changed, Fate::Runs, Fate::RunsWith),
        Some(_) => Fate::Runs,
    }
}

/// Exit codes are ignored.
fn cline(said: &Said) -> Fate {
    if said.at("/cancel") == Some(&Value::Bool(true)) {
        return Fate::Denied;
    }
    with(said.at("/overrideInput"), Fate::Runs, Fate::RunsWith)
}

/// The generated plugin.
fn opencode(said: &Said) -> Fate {
    match (said.code, said.word("/decision")) {
        (0, Some("pass")) => Fate::Runs,
        (0, Some("rewrite")) => {
            with(said.at("/args").filter(|args| args.is_object()), Fate::Denied, Fate::RunsWith)
        }
        _ => Fate::Denied,
    }
}

/// `preToolUse` with `failClosed`; a question is accepted there and not asked.
fn cursor(said: &Said) -> Fate {
    if said.code != 0 || said.json.is_none() {
        return Fate::Denied;
    }
    match said.word("/permission") {
        Some("deny") => Fate::Denied,
        _ => with(said.at("/updated_input"), Fate::Runs, Fate::RunsWith),
    }
}

/// With `on_failure: block`: what is no decision is a refusal.
fn goose(said: &Said) -> Fate {
    let allowed = said.stdout_empty || said.word("/decision") == Some("allow");
    if said.code == 0 && allowed { Fate::Runs } else { Fate::Denied }
}
